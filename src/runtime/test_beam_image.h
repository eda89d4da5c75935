/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of BEAM: the memory of a process, made by hand, with two modules, their atoms, lines and files. Include it behind
 * cmocka.h.
 *
 *   one (module)   first/1 at 0x200, lines 10, 12, 15; second/0 at 0x300, line 20 of included.hrl
 *   Elixir.Two	    run/2 at 0x200, without lines
 */
#ifndef WICK_RUNTIME_TEST_BEAM_IMAGE_H
#define WICK_RUNTIME_TEST_BEAM_IMAGE_H

#include <string.h>

#include "runtime/beam.h"

#define IMAGE_START  0x7f0000000000ull
#define IMAGE_BYTES  (1u << 20)
#define IMAGE_INDEX  (IMAGE_START + 0x100)
#define IMAGE_RANGES (IMAGE_START + 0x140)
#define IMAGE_ATOMS  (IMAGE_START + 0x200)
#define IMAGE_EXIT   (IMAGE_START + 0x300) /* the pointer */
#define IMAGE_KEY    (IMAGE_START + 0x310)
#define IMAGE_TABLE  (IMAGE_START + 0x400)   /* of modules */
#define IMAGE_TEXTS  (IMAGE_START + 0x10000) /* atoms, lines, lists */
#define IMAGE_CODE   (IMAGE_START + 0x40000)
#define IMAGE_SHARED (IMAGE_CODE + 0x1000)
#define IMAGE_ONE    (IMAGE_CODE + 0x2000)
#define IMAGE_TWO    (IMAGE_CODE + 0x8000)
#define IMAGE_MODULE 0x1000u /* bytes */
#define IMAGE_BIAS   0x1000u

struct image {
	uint8_t bytes[IMAGE_BYTES];
	struct beam_build build;
	struct runtime_memory memory;
	uint64_t texts;	 /* where the next one goes */
	uint32_t atoms;	 /* that there are */
	uint32_t absent; /* reads that fail, from now on; 0 = none */
};

static int image_read(void *context, uint64_t address, void *to, size_t bytes)
{
	struct image *image = context;

	if (image->absent && !--image->absent)
		return -EFAULT;
	if (address < IMAGE_START || address - IMAGE_START > IMAGE_BYTES || IMAGE_BYTES - (address - IMAGE_START) < bytes)
		return -EFAULT;
	memcpy(to, image->bytes + (address - IMAGE_START), bytes);
	return 0;
}

static void image_put(struct image *image, uint64_t address, const void *from, size_t bytes)
{
	assert_true(address >= IMAGE_START && address - IMAGE_START <= IMAGE_BYTES - bytes);
	memcpy(image->bytes + (address - IMAGE_START), from, bytes);
}

static void image_put_word(struct image *image, uint64_t address, uint64_t word)
{
	image_put(image, address, &word, sizeof(word));
}

static uint64_t image_take(struct image *image, size_t bytes)
{
	uint64_t at = image->texts;

	image->texts += (bytes + 15) & ~15ull;
	return at;
}

/* A new atom. */
static uint64_t image_put_atom(struct image *image, const char *text)
{
	uint64_t segment = IMAGE_TEXTS, entry = image_take(image, 64), name = image_take(image, strlen(text));
	uint16_t len = (uint16_t)strlen(text);

	image_put_word(image, segment + image->atoms * 8, entry);
	image_put(image, entry + 24, &len, sizeof(len));
	image_put_word(image, entry + 32, name);
	image_put(image, name, text, len);
	return (uint64_t)image->atoms++ << 6 | 0xb;
}

/* A list of the bytes of a text, as characters. */
static uint64_t image_put_list(struct image *image, const char *text)
{
	uint64_t list = 0x3b;

	for (size_t i = strlen(text); i > 0; i--) {
		uint64_t pair = image_take(image, 16);
		image_put_word(image, pair, (uint64_t)(uint8_t)text[i - 1] << 4 | 0xf);
		image_put_word(image, pair + 8, list);
		list = pair | 1;
	}
	return list;
}

static uint64_t image_function_at(const struct image *image, uint64_t module, size_t number)
{
	return module + image->build.layout.header_functions + number * 8;
}

static void image_put_function(struct image *image, uint64_t module, size_t number, uint64_t name, uint64_t function,
			       unsigned arity)
{
	uint64_t at = module + 0x200 + number * 0x100;

	image_put_word(image, image_function_at(image, module, number), at);
	image_put_word(image, image_function_at(image, module, number + 1), at + 0x100);
	image_put_word(image, at + 16, name);
	image_put_word(image, at + 24, function);
	image_put_word(image, at + 32, arity);
}

/* Lines of the first module, in locations of that many bytes. Of 2, all are of the first file. */
static void image_put_lines(struct image *image, unsigned location_bytes)
{
	static const struct {
		uint32_t offset, location;
	} lines[] = {{0x200, 10}, {0x240, 12}, {0x280, 15}, {0x300, 1u << 24 | 20}};
	uint64_t table = image_take(image, 64), files = image_take(image, 16), at = image_take(image, 64),
		 locations = image_take(image, 64);

	image_put_word(image, files, image_put_list(image, "src/one.erl"));
	image_put_word(image, files + 8, image_put_list(image, "included.hrl"));
	image_put_word(image, IMAGE_ONE + image->build.layout.header_lines, table);
	image_put_word(image, table, files);
	image_put_word(image, table + 8, location_bytes);
	image_put_word(image, table + 16, locations);
	image_put_word(image, table + 24, at);
	image_put_word(image, table + 32, at + 3 * 8);
	image_put_word(image, table + 40, at + 4 * 8);
	for (size_t i = 0; i < 4; i++) {
		image_put_word(image, at + i * 8, IMAGE_ONE + lines[i].offset);
		image_put(image, locations + i * location_bytes, &lines[i].location, location_bytes);
	}
}

static void image_put_ranges(struct image *image, uint32_t index, const uint64_t *pairs, size_t count)
{
	const uint64_t table[4] = {IMAGE_TABLE, count, count + 3, IMAGE_TABLE};

	image_put(image, IMAGE_INDEX, &index, sizeof(index));
	image_put(image, IMAGE_RANGES + index * sizeof(table), table, sizeof(table));
	image_put(image, IMAGE_TABLE, pairs, count * 16);
}

/* Free with test_free(). */
static struct image *image_new(uint32_t release)
{
	static const uint64_t pairs[] = {IMAGE_ONE, IMAGE_ONE + IMAGE_MODULE, IMAGE_TWO, IMAGE_TWO + IMAGE_MODULE};
	struct image *image = test_calloc(1, sizeof(*image));

	image->memory = (struct runtime_memory){image_read, image};
	image->build = (struct beam_build){
		.release = release,
		.ranges = IMAGE_RANGES - IMAGE_BIAS,
		.index = IMAGE_INDEX - IMAGE_BIAS,
		.atoms = IMAGE_ATOMS - IMAGE_BIAS,
		.normal_exit = IMAGE_EXIT - IMAGE_BIAS,
		.key = IMAGE_KEY - IMAGE_BIAS,
	};
	assert_true(beam_layout_of(release, &image->build.layout));
	image->texts = IMAGE_TEXTS + 1024 * 8;
	image_put_word(image, IMAGE_ATOMS + 120, IMAGE_TEXTS - 8);
	image_put_word(image, IMAGE_TEXTS - 8, IMAGE_TEXTS);
	image_put_word(image, IMAGE_EXIT, IMAGE_SHARED);
	image_put_ranges(image, 1, pairs, 2);
	uint64_t one = image_put_atom(image, "one"), two = image_put_atom(image, "Elixir.Two");
	image_put_word(image, IMAGE_ONE, 2);
	image_put_word(image, IMAGE_TWO, 1);
	image_put_function(image, IMAGE_ONE, 0, one, image_put_atom(image, "first"), 1);
	image_put_function(image, IMAGE_ONE, 1, one,
			   image_put_atom(image, "gr\xc3\xbc\xc3\x9f"
						 "e"),
			   0);
	image_put_function(image, IMAGE_TWO, 0, two, image_put_atom(image, "run"), 2);
	image_put_lines(image, 4);
	return image;
}

#endif
