// SPDX-License-Identifier: Apache-2.0
/*
 * Objects of V8 in another process: words, arrays and strings, read once, with bounds on everything. A string is characters
 * after each other, in the heap or elsewhere (external); a part of another (sliced); another one in its place (thin); or two
 * strings (cons), of which those that were read by their program have become one and nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "runtime/v8_int.h"

#define STRING_REPRESENTATION 7u
#define STRING_ONE_BYTE	      8u
#define STRING_UNCACHED	      16u /* external, and does not say where */
#define STRING_LENGTH	      12
#define STRING_FIRST	      16 /* characters, parent, actual string, first part */
#define STRING_SECOND	      24 /* offset, second part, address of external characters */
#define STRING_HOPS_MAX	      16u
#define STRING_PARTS_MAX      64u
#define CHARACTERS_MAX	      1024u

enum string_representation { SEQUENTIAL = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };

int v8_read(const struct v8_reader *reader, uint64_t address, void *to, size_t bytes)
{
	return reader->memory->read(reader->memory->context, address, to, bytes);
}

int v8_read_word(const struct v8_reader *reader, uint64_t object, uint64_t offset, uint64_t *ret)
{
	if (!V8_IS_OBJECT(object))
		return -EBADMSG;
	return v8_read(reader, object - 1 + offset, ret, sizeof(*ret));
}

int v8_read_type(const struct v8_reader *reader, uint64_t object, uint16_t *ret)
{
	uint64_t map;

	int r = v8_read_word(reader, object, 0, &map);
	if (r < 0)
		return r;
	if (!V8_IS_OBJECT(map))
		return -EBADMSG;
	return v8_read(reader, map - 1 + reader->layout->map_type, ret, sizeof(*ret));
}

bool v8_is_type(const struct v8_reader *reader, uint64_t object, enum v8_type type)
{
	uint16_t found;

	return reader->layout->types[type] && v8_read_type(reader, object, &found) == 0 && found == reader->layout->types[type];
}

int v8_read_length(const struct v8_reader *reader, uint64_t array, uint64_t max, uint64_t *ret)
{
	int r = v8_read_word(reader, array, V8_ARRAY_LENGTH, ret);
	if (r < 0)
		return r;
	if (!V8_IS_NUMBER(*ret) || *ret >> 32 > max)
		return -EBADMSG;
	*ret >>= 32;
	return 0;
}

int v8_read_element(const struct v8_reader *reader, uint64_t array, uint64_t index, uint64_t *ret)
{
	uint64_t length;

	int r = v8_read_length(reader, array, INT32_MAX, &length);
	if (r < 0)
		return r;
	if (index >= length)
		return -EBADMSG;
	r = v8_read_word(reader, array, V8_ARRAY_DATA + index * 8, ret);
	if (r == 0 && (*ret & 3) == 3)
		*ret &= ~2ull;
	return r;
}

int v8_read_bytes(const struct v8_reader *reader, uint64_t array, uint64_t max, struct bytes *ret)
{
	uint64_t length;

	int r = v8_read_length(reader, array, max, &length);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint8_t *data = mem_alloc(length + 1);
	if (!data)
		return -ENOMEM;
	if (length)
		r = v8_read(reader, array - 1 + V8_ARRAY_DATA, data, length);
	if (r < 0)
		return r;
	*ret = (struct bytes){TAKE(data), length};
	return 0;
}

/* ---- strings ---- */

static int read_string_type(const struct v8_reader *reader, uint64_t string, uint16_t *ret)
{
	int r = v8_read_type(reader, string, ret);
	if (r < 0)
		return r;
	return *ret & reader->layout->not_string_mask ? -EBADMSG : 0;
}

bool v8_is_string(const struct v8_reader *reader, uint64_t object)
{
	uint16_t type;
	return read_string_type(reader, object, &type) == 0;
}

static int find_flat(const struct v8_reader *reader, uint64_t string, uint16_t type, struct v8_characters *ret)
{
	uint64_t word;

	int r = v8_read_word(reader, string, STRING_LENGTH - 4, &word);
	if (r < 0)
		return r;
	ret->length = (uint32_t)(word >> 32);
	ret->width = type & STRING_ONE_BYTE ? 1 : 2;
	ret->address = string - 1 + STRING_FIRST;
	if ((type & STRING_REPRESENTATION) == SEQUENTIAL)
		return 0;
	if (type & STRING_UNCACHED)
		return -EBADMSG;
	return v8_read_word(reader, string, STRING_SECOND, &ret->address);
}

/* The part of another string that a string is. */
static int slice(const struct v8_reader *reader, uint64_t string, uint64_t *ret_offset, uint32_t *ret_length)
{
	uint64_t word, offset;

	int r = v8_read_word(reader, string, STRING_LENGTH - 4, &word);
	if (r == 0)
		r = v8_read_word(reader, string, STRING_SECOND, &offset);
	if (r < 0)
		return r;
	if (!V8_IS_NUMBER(offset))
		return -EBADMSG;
	*ret_offset += offset >> 32;
	*ret_length = (uint32_t)(word >> 32);
	return 0;
}

static bool is_nothing(const struct v8_reader *reader, uint64_t string)
{
	uint64_t word;
	return v8_read_word(reader, string, STRING_LENGTH - 4, &word) == 0 && !(word >> 32);
}

int v8_find_characters(const struct v8_reader *reader, uint64_t string, struct v8_characters *ret)
{
	uint64_t offset = 0, second;
	uint32_t length = 0;
	bool is_slice = false;
	uint16_t type;

	for (unsigned hops = 0; hops < STRING_HOPS_MAX; hops++) {
		int r = read_string_type(reader, string, &type);
		unsigned form = type & STRING_REPRESENTATION;
		if (r == 0 && form == CONS) {
			r = v8_read_word(reader, string, STRING_SECOND, &second);
			if (r == 0 && !is_nothing(reader, second))
				return -EBADMSG;
		}
		if (r == 0 && form == SLICED && !is_slice) {
			r = slice(reader, string, &offset, &length);
			is_slice = true;
		}
		if (r < 0)
			return r;
		if (form == SEQUENTIAL || form == EXTERNAL) {
			r = find_flat(reader, string, type, ret);
			if (r < 0 || !is_slice)
				return r;
			if (offset + length > ret->length)
				return -EBADMSG;
			ret->address += offset * ret->width;
			ret->length = length;
			return 0;
		}
		r = v8_read_word(reader, string, STRING_FIRST, &string);
		if (r < 0)
			return r;
	}
	return -EBADMSG;
}

static uint32_t unit_at(const uint8_t *data, unsigned width, size_t i)
{
	uint32_t unit = 0;

	memcpy(&unit, data + i * width, width);
	return unit;
}

/* What would be no text is replaced. */
static void put_characters(const uint8_t *data, unsigned width, size_t count, struct buffer *out)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t character = unit_at(data, width, i);
		uint32_t next = i + 1 < count ? unit_at(data, width, i + 1) : 0;
		if ((character & ~0x3ffu) == 0xd800 && (next & ~0x3ffu) == 0xdc00) {
			character = 0x10000 + ((character & 0x3ff) << 10 | (next & 0x3ff));
			i++;
		}
		if (character < 0x20 || character == 0x7f || (character >= 0xd800 && character < 0xe000))
			character = 0xfffd;
		text_append_character(out, character);
	}
}

static int append_flat(const struct v8_reader *reader, uint64_t string, struct buffer *out)
{
	uint8_t data[CHARACTERS_MAX * 2];
	struct v8_characters characters;

	int r = v8_find_characters(reader, string, &characters);
	if (r < 0)
		return r;
	uint32_t count = characters.length < CHARACTERS_MAX ? characters.length : CHARACTERS_MAX;
	if (count)
		r = v8_read(reader, characters.address, data, (size_t)count * characters.width);
	if (r == 0)
		put_characters(data, characters.width, count, out);
	return r;
}

int v8_read_string(const struct v8_reader *reader, uint64_t string, char ret[V8_NAME_BYTES_MAX])
{
	_cleanup_(buffer_release) struct buffer text = {.max = STRING_PARTS_MAX * CHARACTERS_MAX * 4};
	uint64_t waiting[STRING_PARTS_MAX];
	size_t count = 0;
	uint16_t type;

	waiting[count++] = string;
	for (unsigned steps = 0; count && text.len < V8_NAME_BYTES_MAX; steps++) {
		uint64_t part = waiting[--count];
		int r = read_string_type(reader, part, &type);
		if (r == 0 && (type & STRING_REPRESENTATION) != CONS) {
			r = append_flat(reader, part, &text);
		} else if (r == 0) {
			if (count + 2 > STRING_PARTS_MAX || steps >= STRING_PARTS_MAX)
				return -EBADMSG;
			r = v8_read_word(reader, part, STRING_SECOND, &waiting[count++]);
			if (r == 0)
				r = v8_read_word(reader, part, STRING_FIRST, &waiting[count++]);
		}
		if (r < 0)
			return r;
	}
	if (buffer_status(&text) < 0)
		return -ENOMEM;
	size_t len = text_cut(buffer_bytes(&text), V8_NAME_BYTES_MAX - 1);
	if (len)
		memcpy(ret, text.data, len);
	ret[len] = 0;
	return 0;
}
