// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with the layout of a version, from which a function of PHP and its names are
 * read, and its frames are collected and put into a walk; and they are a file in which the engine is looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "listed_image.h"
#include "runtime/php.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The image begins with it. */
struct start {
	uint8_t version;
	uint8_t reserved[3];
	uint32_t function, globals, generator_class, sp, ip, loop, opline; /* from START */
};

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
	walk->listed_frame = php_first_frame(walk, START);
	for (unsigned i = 0; i < 2 * LISTED_FRAMES_MAX && !php_collect_step(walk); i++)
		;
	must(walk->listed_count <= LISTED_FRAMES_MAX);
	for (unsigned i = 0; i < walk->listed_count; i++)
		must(RUNTIME_KIND(walk->listed_frames[i][0]) == RUNTIME_KIND_PHP &&
		     (walk->listed_frames[i][1] & (RUNTIME_FRAME | RUNTIME_FRAME_DATA)) ==
			     (RUNTIME_FRAME | RUNTIME_FRAME_DATA));
}

/* Ends, within its bounds. */
static void check_walk(const struct php_build *build, const struct start *start)
{
	static struct walk walk;

	memset(&walk, 0, sizeof(walk));
	php_place(build, 0, &walk.php);
	walk.registers[PHP_REGISTER_OPLINE] = START + start->opline;
	collect(&walk);
	go_through(&walk, START + start->sp, START + start->ip);
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
