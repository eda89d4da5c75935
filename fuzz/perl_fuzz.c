// SPDX-License-Identifier: Apache-2.0
/*
 * A process that lies: the bytes are its memory, with the layout of a version, from which a subroutine of Perl or a statement
 * and their names are read, and its contexts are collected and put into a walk; and they are a file in which the interpreter is
 * looked for.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "listed_image.h"
#include "runtime/perl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The image begins with it. */
struct start {
	uint8_t version;
	uint8_t reserved[3];
	uint32_t object, key, thread, sp, ip, loop; /* from START */
};

static uint32_t check_of(uint64_t object)
{
	uint64_t body = 0, words[PERL_CV_BYTES / 8] = {0};

	if (object & 3) {
		image_read(words, PERL_COP_BYTES, (object & ~3ull) + PERL_COP_FROM);
		return runtime_check_of(words[2], words[0] >> 32, object & 3);
	}
	image_read(&body, 8, object);
	image_read(words, PERL_CV_BYTES, body + PERL_CV_FROM);
	return runtime_check_of(words[2], words[3], words[0]);
}

/* With the check that it has, if it can be read; and with another one. */
static void check_function(const struct perl_layout *layout, uint64_t object)
{
	const struct runtime_memory memory = {.read = read_memory};
	struct runtime_function function;
	uint32_t check = check_of(object);

	must(perl_read_function(layout, &memory, object, check ^ 1, &function) < 0);
	if (perl_read_function(layout, &memory, object, check, &function) < 0)
		return;
	check_text(function.name);
	check_text(function.file);
}

static void check_walk(const struct perl_build *build, const struct start *start)
{
	static struct walk walk;
	unsigned steps = 0;

	memset(&walk, 0, sizeof(walk));
	perl_place(build, 0, &walk.perl);
	perl_first_frame(&walk, perl_interpreter(&walk, START + start->thread));
	while (steps < PERL_CONTEXTS_READ && !perl_collect_step(&walk))
		steps++;
	must(walk.listed_count <= LISTED_FRAMES_MAX);
	go_through(&walk, START + start->sp, START + start->ip);
}

static void check_file(void)
{
	struct perl_build build;
	struct elf_file file;

	if (elf_file_open_memory(&file, image, "fuzz", NULL) < 0)
		return;
	int r = perl_recognize(&file, &build, NULL);
	elf_file_release(&file);
	must(r <= 1);
	must(r <= 0 || build.loop_start < build.loop_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t versions[] = {0x051c, 0x0520, 0x0522, 0x0524, 0x0526, 0x0528};
	struct perl_build build = {0};
	struct start start;

	image = (struct bytes){data, size};
	check_file();
	if (size < sizeof(start))
		return 0;
	memcpy(&start, data, sizeof(start));
	must(perl_layout_of(versions[start.version % (sizeof(versions) / sizeof(versions[0]))], &build.layout));
	build.key = START + start.key;
	build.loop_start = START + start.loop;
	build.loop_end = build.loop_start + 64;
	check_function(&build.layout, START + start.object);
	check_walk(&build, &start);
	return 0;
}
