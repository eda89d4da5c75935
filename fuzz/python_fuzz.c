// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with a layout of a version or one that the bytes themselves publish, from
 * which a code object, its names and lines are read, and its frames are collected and put into a walk; and they are a file in
 * which an interpreter is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "bpf/unwind.h"
#include "must.h"
#include "runtime/python.h"

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
	uint8_t version; /* of a table, or one that is published */
	uint8_t reserved[3];
	uint32_t object, state, sp, ip, loop, runtime, published; /* from START */
};

static void check_text(const char *text)
{
	must(memchr(text, 0, PYTHON_NAME_BYTES_MAX) != NULL);
	for (; *text; text++)
		must((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check_lines(struct bytes lines, uint32_t first)
{
	static const enum python_line_format formats[] = {PYTHON_LINES_LNOTAB, PYTHON_LINES_TABLE, PYTHON_LINES_LOCATIONS};
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		for (uint32_t place = 0; place < 64; place++)
			sum += python_line(formats[i], lines, first, place);
		sum += python_line(formats[i], lines, first, RUNTIME_PLACE_MAX);
	}
	must(sum <= UINT32_MAX);
}

/* With the check that it has, if it can be read; and with another one. */
static void check_function(const struct python_layout *layout, uint64_t object)
{
	const struct runtime_memory memory = {.read = read_memory};
	struct python_function function;
	uint64_t words[LISTED_READ_WORDS] = {0};
	uint32_t check = 0;

	if (image_read(words, layout->walk.code_bytes, object + layout->walk.code_from) == 0)
		check = runtime_check_of(words[LISTED_CHECK_WORD(layout->walk.check0)],
					 words[LISTED_CHECK_WORD(layout->walk.check1)],
					 words[LISTED_CHECK_WORD(layout->walk.check2)]);
	must(python_read_function(layout, &memory, object, check ^ 1, &function) < 0);
	if (python_read_function(layout, &memory, object, check, &function) < 0) {
		must(!function.lines && !function.lines_bytes);
		return;
	}
	check_text(function.name);
	check_text(function.file);
	must(function.lines && function.lines_bytes <= PYTHON_LINES_BYTES_MAX);
	check_lines((struct bytes){function.lines, function.lines_bytes}, function.first_line);
	mem_free(function.lines);
}

static void collect(struct walk *walk, uint64_t state)
{
	int r = 0;

	for (unsigned i = 0; i < PYTHON_THREADS_MAX && !r; i++)
		r = python_search_step(walk, state);
	(void)python_is_listed(walk, python_holder(walk));
	walk->listed_frame = python_first_frame(walk, r > 0 ? walk->python_state : state);
	for (unsigned i = 0; i < 2 * LISTED_FRAMES_MAX && !python_collect_step(walk); i++)
		;
	must(walk->listed_count <= LISTED_FRAMES_MAX && walk->listed_anchor_count <= LISTED_ANCHORS_MAX);
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

/* Ends, within its bounds; each frame of Python has both of its words. */
static void check_walk(const struct python_build *build, const struct start *start)
{
	static struct walk walk;
	unsigned steps = 0;
	int r;

	memset(&walk, 0, sizeof(walk));
	python_place(build, 0, &walk.python);
	collect(&walk, START + start->state);
	walk.registers[UNWIND_REGISTER_SP] = walk.registers[UNWIND_REGISTER_FP] = START + start->sp;
	walk.known = ~0u;
	walk_begin(&walk, START + start->ip, 1);
	walk.listed_sp = walk.registers[UNWIND_REGISTER_SP];
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
	must(walk.depth >= 1 && walk.depth <= UNWIND_FRAMES_MAX);
	must(walk.listed_next <= walk.listed_count && walk.listed_anchor <= walk.listed_anchor_count);
}

static void check_file(void)
{
	struct python_build build;
	struct python_process place;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = python_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	if (r <= 0)
		return;
	python_place(&build, 0x1000, &place);
	must(place.frame_bytes >= 8 && place.frame_bytes <= LISTED_READ_WORDS * 8);
	must(place.code_bytes <= LISTED_READ_WORDS * 8);
	must(build.version >= 0x030c || place.listed.loop_start < place.listed.loop_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct python_build build = {0};
	struct start start;
	bool is_free_threaded;

	image = (struct bytes){data, size};
	check_file();
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	build.version = 0x0306 + start.version % 8;
	size_t published = start.published < size ? start.published : size;
	int r = python_layout_of(build.version, &build.layout)
			? 0
			: python_layout_published((struct bytes){data + published, size - published}, &build.version,
						  &is_free_threaded, &build.layout, NULL);
	check_lines(image, start.object);
	if (r < 0)
		return 0;
	build.runtime = START + start.runtime;
	build.loop_start = START + start.loop;
	build.loop_end = build.version < 0x030c ? build.loop_start + 64 : 0;
	check_function(&build.layout, START + start.object);
	check_walk(&build, &start);
	return 0;
}
