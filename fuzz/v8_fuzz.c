// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, in which a function of V8 and its code are read as each version lays them out,
 * and from which frames are put into a walk.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "bpf/unwind.h"
#include "must.h"
#include "runtime/v8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define START 0x7f0000000000ull /* of the memory */

static struct bytes image;
static uint64_t read_count;

static int image_read(void *to, size_t bytes, uint64_t address)
{
	must(++read_count < 4u << 20);
	if (address < START || address - START > image.len || image.len - (address - START) < bytes)
		return UNWIND_BAD_READ;
	memcpy(to, image.data + (address - START), bytes);
	return 0;
}

static int read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	(void)context;
	return image_read(to, bytes, address) == 0 ? 0 : -EFAULT;
}

/* By frame pointers, in whatever lies in the memory: its first half is the file with the builtins, the other generated code. */
static uint32_t slot_of(uint64_t address)
{
	return address - START < image.len / 2 ? 1 : UNWIND_SLOT_JIT;
}
#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_READ(walk, to, bytes, address) image_read(to, bytes, address)
#define WALK_MAP(walk, address)                                                                                                \
	((address)-START < image.len ? ((walk)->map.slot = slot_of(address),                                                   \
					walk_set_map(&(walk)->map, slot_of(address) ? START : START + image.len / 2,           \
						     slot_of(address) ? START + image.len / 2 : START + image.len, 0,          \
						     slot_of(address) ? UNWIND_SLOT_FRAMES : UNWIND_SLOT_LIVE, 0),             \
					0)                                                                                     \
				     : UNWIND_NO_MAPPING)
#define WALK_THREAD(walk, ret) (*(ret) = START, 0)
#include "bpf/walk.h"

/* The memory begins with it. */
struct start {
	uint32_t object, pc, offset; /* offsets from START; the last one in a table */
	uint32_t version;
	uint64_t data;
	uint64_t ip, sp, fp, offset_register, bytecodes_register;
};

static void check_text(const char *text)
{
	must(memchr(text, 0, V8_NAME_BYTES_MAX) != NULL);
	for (; *text; text++)
		must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_lines(struct bytes names, struct bytes files, struct bytes lines, uint64_t offset)
{
	struct v8_line found[V8_INLINES_MAX];
	size_t count = v8_table_find(names, files, lines, offset, found);

	must(count <= V8_INLINES_MAX);
	for (size_t i = 0; i < count; i++) {
		check_text(found[i].name);
		check_text(found[i].file);
	}
}

static void read_function(const struct start *start, const struct v8_build *build)
{
	static struct v8_scripts scripts;
	const struct runtime_memory memory = {.read = read_memory};
	const struct v8_source source = {build, &memory, &scripts, 1};
	const struct v8_process *walk = &build->layout.walk;
	uint64_t words[V8_SHARED_WORDS] = {0}, check;
	struct v8_table table;

	image_read(words, sizeof(words), START + start->object);
	check = runtime_check_of(words[walk->shared_scope / 8], words[walk->shared_script / 8],
				 words[walk->shared_id / 8] >> (walk->shared_id & 4) * 8 & UINT32_MAX);
	uint64_t data = (start->data & (V8_FRAME_CODE | V8_FRAME_BUILTIN | RUNTIME_PLACE_MAX)) | check << 24;
	if (v8_read_table(&source, START + start->object, data, START + start->pc, &table) == 0) {
		check_lines(buffer_bytes(&table.names), buffer_bytes(&table.files), buffer_bytes(&table.lines),
			    v8_table_offset(&build->layout, table.start, data, START + start->pc));
		check_lines(buffer_bytes(&table.names), buffer_bytes(&table.files), buffer_bytes(&table.lines), start->offset);
		v8_table_release(&table);
	} else {
		must(!table.names.data && !table.files.data && !table.lines.data);
	}
	must(scripts.bytes <= V8_SCRIPTS_BYTES_MAX);
	v8_scripts_release(&scripts);
}

static void walk_image(const struct start *start, const struct v8_build *build)
{
	static struct walk walk;
	int r;

	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	v8_place(build, 1, &walk.v8);
	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = start->sp;
	walk.registers[UNWIND_REGISTER_FP] = start->fp;
	walk.registers[9] = start->offset_register;
	walk.registers[12] = start->bytecodes_register;
	walk_begin(&walk, start->ip, 1);
	do {
		r = walk_step(&walk);
		if (r == WALK_GOES_ON)
			v8_meet(&walk);
	} while (r == WALK_GOES_ON);
	must(walk.depth <= UNWIND_FRAMES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t versions[][2] = {{9, 4}, {10, 2}, {11, 3}, {12, 4}, {13, 6}};
	struct v8_build build = {.builtins_end = START, .bytecode_count = 16};
	struct start start;

	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	image = (struct bytes){data, size};
	read_count = 0;
	const uint32_t *version = versions[start.version % 5];
	must(v8_layout_of(version[0], version[1], &build.layout));
	for (size_t scale = 0; scale < 3; scale++)
		memset(build.bytecode_sizes[scale], 2 + (int)scale, 16);
	read_function(&start, &build);
	walk_image(&start, &build);
	/* As a table that was kept. */
	check_lines((struct bytes){(const uint8_t *)"a\0b", 4}, (struct bytes){(const uint8_t *)"", 1}, image, start.offset);
	return 0;
}
