// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with the layout of a version, from which a function of PHP and its names are
 * read, and its frames are collected and put into a walk; and they are a file in which the engine is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "bpf/unwind.h"
#include "must.h"
#include "runtime/php.h"

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
	(void)context;
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
	uint8_t version;
	uint8_t reserved[3];
	uint32_t function, globals, generator_class, sp, ip, loop, opline; /* from START */
};

static void check_text(const char *text)
{
	must(memchr(text, 0, RUNTIME_NAME_BYTES_MAX) != NULL);
	for (; *text; text++)
		must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

/* With the check that it has, if it can be read; and with another one. */
static void check_function(const struct php_layout *layout, uint64_t object)
{
	const struct runtime_memory memory = {.read = read_memory};
	__u64 words[LISTED_READ_WORDS] = {0};
	struct runtime_function function;
	uint32_t check = 0;

	if (image_read(words, layout->walk.function_bytes, object) == 0)
		check = php_check_of(&layout->walk, words);
	must(php_read_function(layout, &memory, object, check ^ 1, &function) < 0);
	if (php_read_function(layout, &memory, object, check, &function) < 0)
		return;
	check_text(function.name);
	check_text(function.file);
}

static void collect(struct walk *walk)
{
	walk->listed_frame = php_first_frame(walk);
	for (unsigned i = 0; i < 2 * LISTED_FRAMES_MAX && !php_collect_step(walk); i++)
		;
	must(walk->listed_count <= LISTED_FRAMES_MAX);
	for (unsigned i = 0; i < walk->listed_count; i++)
		must(RUNTIME_KIND(walk->listed_frames[i][0]) == RUNTIME_KIND_PHP &&
		     (walk->listed_frames[i][1] & (RUNTIME_FRAME | RUNTIME_FRAME_DATA)) ==
			     (RUNTIME_FRAME | RUNTIME_FRAME_DATA));
}

static int meet(struct walk *walk)
{
	unsigned steps = 0;

	listed_meet(walk);
	while (walk->listed_appends == LISTED_APPENDS_PART && ++steps <= LISTED_FRAMES_MAX)
		listed_go_on(walk);
	must(walk->listed_appends != LISTED_APPENDS_PART);
	return walk->listed_appends ? UNWIND_TOO_DEEP : WALK_GOES_ON;
}

/* Ends, within its bounds. */
static void check_walk(const struct php_build *build, const struct start *start)
{
	static struct walk walk;
	unsigned steps = 0;
	int r;

	memset(&walk, 0, sizeof(walk));
	php_place(build, 0, &walk.php);
	walk.registers[PHP_REGISTER_OPLINE] = START + start->opline;
	collect(&walk);
	walk.registers[UNWIND_REGISTER_SP] = walk.registers[UNWIND_REGISTER_FP] = START + start->sp;
	walk.known = ~0u;
	walk_begin(&walk, START + start->ip, 1);
	r = meet(&walk);
	while (r == WALK_GOES_ON) {
		walk.listed_sp = walk.registers[UNWIND_REGISTER_SP];
		r = walk_step(&walk);
		if (r == WALK_GOES_ON)
			r = meet(&walk);
		must(++steps <= UNWIND_FRAMES_MAX);
	}
	must(r >= 0 && r < UNWIND_RESULTS);
	while (listed_append_pending(&walk))
		;
	must(walk.depth >= 1 && walk.depth <= UNWIND_FRAMES_MAX && walk.listed_next <= walk.listed_count);
}

static void check_file(void)
{
	struct php_build build;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = php_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	must(r <= 0 || build.loop_start < build.loop_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t versions[] = {0x0704, 0x0800, 0x0801, 0x0802, 0x0803, 0x0804};
	struct php_build build = {0};
	struct start start;

	image = (struct bytes){data, size};
	check_file();
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	must(php_layout_of(versions[start.version % (sizeof(versions) / sizeof(versions[0]))], &build.layout));
	build.globals = START + start.globals;
	build.generator_class = START + start.generator_class;
	build.loop_start = START + start.loop;
	build.loop_end = build.loop_start + 64;
	check_function(&build.layout, START + start.function);
	check_walk(&build, &start);
	return 0;
}
