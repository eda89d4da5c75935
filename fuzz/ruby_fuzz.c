// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with the layout of a version, from which an instruction sequence of Ruby or a
 * method, their names and lines are read, and its frames are collected and put into a walk; they are a table of lines; and they
 * are a file in which the interpreter is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "listed_image.h"
#include "runtime/ruby.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The image begins with it. */
struct start {
	uint8_t version, is_one_part, by_variable, reserved;
	uint32_t object, storage, symbols, thread, sp, ip, loop; /* from START */
};

static uint32_t check_of(uint64_t object)
{
	uint64_t body = 0, words[RUBY_BODY_BYTES / 8] = {0};

	if (object & RUBY_OBJECT_METHOD) {
		image_read(words, RUBY_METHOD_BYTES, object & ~(uint64_t)RUBY_OBJECT_METHOD);
		return runtime_check_of(words[RUBY_METHOD_DEFINITION / 8], words[RUBY_METHOD_ID / 8],
					words[RUBY_METHOD_OWNER / 8]);
	}
	image_read(&body, 8, object + RUBY_CODE_BODY);
	image_read(words, RUBY_BODY_BYTES, body);
	return runtime_check_of(words[RUBY_BODY_LABEL / 8], words[RUBY_BODY_PATH / 8],
				words[RUBY_BODY_INSTR / 8] ^ words[RUBY_BODY_FIRST_LINE / 8]);
}

static void check_lines(struct bytes lines, uint32_t first_line)
{
	uint64_t sum = 0;

	for (uint32_t place = 0; place < 1200; place += 7)
		sum += ruby_line(lines, first_line, place);
	must(sum + ruby_line(lines, first_line, RUNTIME_PLACE_MAX) < UINT64_MAX);
}

/* With the check that it has, if it can be read; and with another one. */
static void check_function(const struct ruby_build *build, uint64_t object)
{
	const struct runtime_memory memory = {.read = read_memory};
	struct ruby_function function;
	uint32_t check = check_of(object);

	must(ruby_read_function(build, 0, &memory, object, check ^ 1, &function) < 0);
	if (ruby_read_function(build, 0, &memory, object, check, &function) < 0) {
		must(!function.lines);
		return;
	}
	check_text(function.function.name);
	check_text(function.function.file);
	must(function.lines_bytes <= RUBY_LINES_BYTES_MAX);
	check_lines((struct bytes){function.lines, function.lines_bytes}, function.function.first_line);
	mem_free(function.lines);
}

static void check_walk(const struct ruby_build *build, const struct start *start)
{
	static struct walk walk;
	unsigned steps = 0;

	memset(&walk, 0, sizeof(walk));
	ruby_place(build, 0, &walk.ruby);
	walk.registers[UNWIND_REGISTER_SP] = START + start->sp;
	ruby_first_frame(&walk, ruby_context(&walk, START + start->thread));
	while (steps < 2 * LISTED_FRAMES_MAX && !ruby_collect_step(&walk))
		steps++;
	must(walk.listed_count <= LISTED_FRAMES_MAX);
	go_through(&walk, START + start->sp, START + start->ip);
}

static void check_file(void)
{
	struct ruby_build build;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = ruby_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	must(r <= 0 || build.loop_start < build.loop_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t versions[] = {0x0207, 0x0300, 0x0301, 0x0302, 0x0303};
	struct ruby_build build = {.last_operator = 169};
	struct start start;

	image = (struct bytes){data, size};
	check_file();
	check_lines(image, 1);
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	must(ruby_layout_of(versions[start.version % (sizeof(versions) / sizeof(versions[0]))], &build.layout));
	build.is_one_part = start.is_one_part & 1;
	if (start.by_variable & 1)
		build.variable = START + start.storage;
	else
		build.storage_index = START + start.storage;
	build.symbols = START + start.symbols;
	build.loop_start = START + start.loop;
	build.loop_end = build.loop_start + 64;
	check_function(&build, START + start.object);
	check_walk(&build, &start);
	return 0;
}
