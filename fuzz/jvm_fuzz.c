// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with HotSpot's tables of their own making, or the layout that the bytes begin
 * with; from it a method, compiled code and a stub are read, and frames are put into a walk.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "bpf/unwind.h"
#include "must.h"
#include "runtime/jvm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define START 0x100000ull /* of the memory; low, so that its own words can point to it */

static struct bytes image;

static int image_read(void *to, size_t bytes, uint64_t address)
{
	if (address < START || address - START > image.len || image.len - (address - START) < bytes)
		return UNWIND_BAD_READ;
	memcpy(to, image.data + (address - START), bytes);
	return 0;
}

static int read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	return image_read(to, bytes, address) == 0 ? 0 : -14; /* EFAULT */
}

/* By frame pointers, in whatever lies in the memory. */
#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_READ(walk, to, bytes, address) image_read(to, bytes, address)
#define WALK_MAP(walk, address)                                                                                                \
	((address)-START < image.len ? (walk_set_map(&(walk)->map, START, START + image.len, 0, UNWIND_SLOT_FRAMES, 0), 0)     \
				     : UNWIND_NO_MAPPING)
#define WALK_THREAD(walk, ret) (*(ret) = START, 0)
#include "bpf/walk.h"

/* The image begins with it. */
struct start {
	uint32_t object, check, place, tables; /* offsets from START but for the check and the place */
	uint64_t ip, sp, fp, bcp;
	struct {
		uint16_t offset, bytes;
	} fields[JVM_FIELDS];
	uint16_t numbers[JVM_NUMBERS];
	uint16_t version;
};

static void check_text(const char *text)
{
	must(memchr(text, 0, JVM_NAME_BYTES_MAX) != NULL);
	for (; *text; text++)
		must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void set_layout(const struct start *start, struct jvm_layout *ret)
{
	*ret = (struct jvm_layout){.version = start->version};
	for (size_t i = 0; i < JVM_FIELDS; i++)
		ret->fields[i] = (struct jvm_field){start->fields[i].offset, start->fields[i].bytes % 9};
	/* As jvm_read_layout() has checked them. */
	for (size_t i = 0; i < JVM_NUMBERS; i++) {
		ret->numbers[i] = i < JVM_CONSTANT_LAST_SP ? 8 + (start->numbers[i] % 512) * 8 : start->numbers[i];
		ret->has_number[i] = true;
	}
	ret->numbers[JVM_CONSTANT_LAST_SP] = -1 - start->numbers[JVM_CONSTANT_LAST_SP] % 4;
	for (size_t i = 0; i < JVM_VARIABLES; i++)
		ret->variables[i] = START + 64 + i * 8;
}

static void read_objects(const struct start *start, const struct jvm_layout *layout, const struct runtime_memory *memory)
{
	struct jvm_scope scopes[JVM_SCOPES_MAX];
	char name[JVM_NAME_BYTES_MAX];
	struct jvm_method method;
	struct jvm_frozen frozen;
	uint32_t check = 0;

	jvm_method_check(layout, memory, START + start->object, &check);
	if (jvm_read_method(layout, memory, START + start->object, check, &method) == 0) {
		check_text(method.name);
		check_text(method.file);
		must(method.lines_bytes <= JVM_LINES_BYTES_MAX);
		jvm_line((struct bytes){method.lines, method.lines_bytes}, jvm_excludes_zero(layout), start->place);
		mem_free(method.lines);
	} else {
		must(!method.lines);
	}
	must(jvm_read_scopes(layout, memory, START + start->object, start->check, start->place, start->ip, scopes) <=
	     (int)JVM_SCOPES_MAX);
	jvm_find_frozen(layout, memory, &frozen);
	jvm_read_stub(layout, memory, START + start->object, start->check, name);
	check_text(name);
}

/* Frames in the heap: as the classes have them, or as the bytes do. */
static void tell_frozen(const struct start *start, const struct jvm_layout *layout, const struct runtime_memory *memory,
			struct jvm_process *told)
{
	struct jvm_frozen frozen;

	if (jvm_find_frozen(layout, memory, &frozen) < 0) {
		frozen = (struct jvm_frozen){
			.enter_method = START + start->object,
			.yield_method = START + start->check % 4096,
			.oop_base = START,
			.oop_bytes = start->place & 1 ? 4 : 8,
			.continuation_tail = start->place % 64 * 4,
			.chunk_parent = start->place / 64 % 64 * 4,
			.chunk_size = 12,
			.chunk_sp = 24,
			.chunk_bottom = 28,
			.chunk_stack = 48,
		};
	}
	jvm_place_frozen(layout, &frozen, told);
}

static void walk_image(const struct start *start, const struct jvm_process *told)
{
	static struct walk walk;
	int r;

	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	walk.jvm = *told;
	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = start->sp;
	walk.registers[UNWIND_REGISTER_FP] = start->fp;
	walk.registers[JVM_REGISTER_BCP] = start->bcp;
	walk_begin(&walk, start->ip, 1);
	jvm_meet(&walk);
	do {
		r = jvm_step(&walk);
		if (r == WALK_GOES_ON)
			jvm_meet(&walk);
	} while (r == WALK_GOES_ON);
	must(walk.depth <= UNWIND_FRAMES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct runtime_memory memory = {.read = read_memory};
	struct jvm_process told;
	struct jvm_layout layout;
	struct jvm_build build = {0};
	struct start start;

	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	image = (struct bytes){data, size};
	for (size_t i = 0; i < JVM_SYMBOLS; i++)
		build.symbols[i] = START + start.tables + i * 8;
	if (jvm_read_layout(&build, 0, &memory, &layout, NULL) < 0)
		set_layout(&start, &layout);
	read_objects(&start, &layout, &memory);
	if (jvm_place(&layout, &memory, &told, NULL) == 0) {
		tell_frozen(&start, &layout, &memory, &told);
		walk_image(&start, &told);
	} else {
		/* The offsets as far as they were found, sound or not; the heap is all of the bytes. */
		told.low = told.heaps[0].start = START;
		told.high = told.heaps[0].end = START + size;
		told.heaps[0].segments = START + start.object;
		told.heaps[0].shift = 7;
		told.interpreter = START;
		told.interpreter_end = START + size / 2;
		tell_frozen(&start, &layout, &memory, &told);
		walk_image(&start, &told);
	}
	return 0;
}
