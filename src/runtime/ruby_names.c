// SPDX-License-Identifier: Apache-2.0
/*
 * Instruction sequences and methods of Ruby in another process: read once, with bounds on everything, since the process may
 * have freed them, or be lying. That it is what was sampled is seen by the check.
 *
 * Lines. A sequence has entries, sorted by position, each with a line, and a succinct index: how many entries begin at or
 * before a position. The index counts for the first 54 positions by 7 bits each, nine in a word; then by blocks of 512
 * positions {rank at its start, ranks of seven of its eight words by 9 bits each, a bit by position}. What is kept here,
 * little-endian:
 *
 *   u32	number of entries
 *   u32[]	their lines
 *   the index as it lies in the process; none if there is only one entry
 */
#include "runtime/ruby.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

#define OBJECT_TYPE	    0x1fu
#define TYPE_STRING	    5u
#define TYPE_ARRAY	    7u
#define FLAG_13		    (1u << 13) /* a text is elsewhere; an array is not */
#define SHORT_LENGTH(flags) ((flags) >> 14 & 31)
#define DATA		    16u
#define TEXT_BYTES_MAX	    (1u << 20) /* what is longer is no name */
#define ENTRIES_MAX	    32768u
#define POSITIONS_MAX	    (1u << 20)
#define INDEX_FIRST	    54u
#define INDEX_FIRST_BYTES   48u
#define INDEX_BLOCK	    512u
#define INDEX_BLOCK_BYTES   80u
#define NAMES_UNIT	    512u /* identifiers in an array of names, two words each: text, symbol */
#define METHOD_NAME	    32u	 /* in a definition */

struct reader {
	const struct ruby_build *build;
	const struct runtime_memory *memory;
};

static uint64_t word_at(const uint8_t *data, uint32_t offset)
{
	uint64_t word;

	memcpy(&word, data + offset, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *data, size_t offset)
{
	uint32_t half;

	memcpy(&half, data + offset, sizeof(half));
	return half;
}

static int read_memory(const struct reader *reader, uint64_t address, void *to, size_t len)
{
	return reader->memory->read(reader->memory->context, address, to, len);
}

/* ---- objects ---- */

static int read_object(const struct reader *reader, uint64_t address, uint32_t type, uint8_t data[static 40])
{
	if (!address || address & 7)
		return -EBADMSG;
	int r = read_memory(reader, address, data, 40);
	if (r < 0)
		return r;
	return (half_at(data, 0) & OBJECT_TYPE) == type ? 0 : -EBADMSG;
}

static int append_text(const struct reader *reader, uint64_t address, char *ret, size_t *len)
{
	uint8_t object[40], data[RUNTIME_NAME_BYTES_MAX];

	int r = read_object(reader, address, TYPE_STRING, object);
	if (r < 0)
		return r;
	bool is_elsewhere = half_at(object, 0) & FLAG_13, is_long = reader->build->layout.has_long_texts;
	uint64_t length = is_elsewhere || is_long ? word_at(object, DATA) : SHORT_LENGTH(half_at(object, 0));
	uint64_t from = is_elsewhere ? word_at(object, DATA + 8) : address + DATA + (is_long ? 8 : 0);
	if (length > TEXT_BYTES_MAX)
		return -EBADMSG;
	size_t count = length < sizeof(data) ? (size_t)length : sizeof(data);
	r = count ? read_memory(reader, from, data, count) : 0;
	if (r == 0)
		runtime_name_append((struct bytes){data, count}, ret, len);
	return r;
}

/* An element of an array. */
static int read_element(const struct reader *reader, uint64_t address, uint64_t at, uint64_t *ret)
{
	uint8_t object[40];

	int r = read_object(reader, address, TYPE_ARRAY, object);
	if (r < 0)
		return r;
	if (half_at(object, 0) & FLAG_13) {
		if (at >= 3)
			return -EBADMSG;
		*ret = word_at(object, DATA + (uint32_t)at * 8);
		return 0;
	}
	if (at >= word_at(object, DATA))
		return -EBADMSG;
	return read_memory(reader, word_at(object, DATA + 16) + at * 8, ret, sizeof(*ret));
}

/* ---- instruction sequences ---- */

/* The path as it was given, or of an array {that, the real one}. */
static int read_path(const struct reader *reader, uint64_t path, char *ret)
{
	uint8_t object[40];
	size_t len = 0;

	if (read_object(reader, path, TYPE_ARRAY, object) == 0) {
		int r = read_element(reader, path, 0, &path);
		if (r < 0)
			return r;
	}
	return append_text(reader, path, ret, &len);
}

static int read_entries(const struct reader *reader, uint64_t entries, uint32_t count, uint8_t *lines)
{
	uint32_t entry_bytes = reader->build->layout.entry_bytes;
	_cleanup_(mem_freep) uint8_t *data = mem_alloc_array(count, entry_bytes);

	if (!data)
		return -ENOMEM;
	int r = read_memory(reader, entries, data, (size_t)count * entry_bytes);
	memcpy(lines, &count, sizeof(count));
	for (uint32_t i = 0; r == 0 && i < count; i++)
		memcpy(lines + 4 + (size_t)i * 4, data + (size_t)i * entry_bytes, 4);
	return r;
}

/* positions: of the sequence. Without a table, when there is none, or it is too large: the first line stands for all. */
static int read_lines(const struct reader *reader, uint64_t body, uint32_t positions, struct ruby_function *ret)
{
	uint64_t table[4]; /* entries, positions, their number, index */

	int r = read_memory(reader, body + reader->build->layout.body_lines, table, sizeof(table));
	if (r < 0)
		return r;
	uint32_t count = (uint32_t)table[2];
	size_t blocks = positions > INDEX_FIRST ? (positions - INDEX_FIRST + INDEX_BLOCK - 1) / INDEX_BLOCK : 0;
	size_t entries_bytes = 4 + (size_t)count * 4;
	size_t index_bytes = count > 1 ? INDEX_FIRST_BYTES + blocks * INDEX_BLOCK_BYTES : 0;
	if (!count || count > ENTRIES_MAX || positions > POSITIONS_MAX || entries_bytes + index_bytes > RUBY_LINES_BYTES_MAX)
		return 0;
	_cleanup_(mem_freep) uint8_t *lines = mem_alloc(entries_bytes + index_bytes);
	if (!lines)
		return -ENOMEM;
	r = read_entries(reader, table[0], count, lines);
	if (r == 0 && index_bytes)
		r = read_memory(reader, table[3], lines + entries_bytes, index_bytes);
	if (r < 0)
		return r;
	ret->lines = TAKE(lines);
	ret->lines_bytes = entries_bytes + index_bytes;
	return 0;
}

static int read_code(const struct reader *reader, uint64_t address, uint32_t check, struct ruby_function *ret)
{
	uint8_t data[RUBY_BODY_BYTES];
	uint64_t body;
	size_t len = 0;

	if (address & 7)
		return -EBADMSG;
	int r = read_memory(reader, address + RUBY_CODE_BODY, &body, sizeof(body));
	if (r == 0)
		r = read_memory(reader, body, data, sizeof(data));
	if (r < 0)
		return r;
	uint64_t label = word_at(data, RUBY_BODY_LABEL), path = word_at(data, RUBY_BODY_PATH);
	uint64_t first_line = word_at(data, RUBY_BODY_FIRST_LINE);
	if (runtime_check_of(label, path, word_at(data, RUBY_BODY_INSTR) ^ first_line) != check)
		return -ESTALE;
	/* An object with bit 0, and since 3.2 a number. */
	ret->function.first_line = (uint32_t)(reader->build->layout.has_long_texts ? first_line : first_line >> 1);
	r = append_text(reader, label, ret->function.name, &len);
	if (r == 0)
		r = read_path(reader, path, ret->function.file);
	return r < 0 ? r : read_lines(reader, body, half_at(data, RUBY_BODY_COUNT), ret);
}

/* ---- methods in C ---- */

/* The name of an identifier: in the array that its number is in, of an array of arrays. */
static int append_identifier(const struct reader *reader, uint64_t symbols, uint64_t id, char *ret)
{
	uint64_t ids, names, name, number = id > reader->build->last_operator ? id >> 4 : id;
	size_t len = 0;

	int r = read_memory(reader, symbols + 16, &ids, sizeof(ids));
	if (r == 0)
		r = read_element(reader, ids, number / NAMES_UNIT, &names);
	if (r == 0)
		r = read_element(reader, names, number % NAMES_UNIT * 2, &name);
	return r < 0 ? r : append_text(reader, name, ret, &len);
}

static int read_method(const struct reader *reader, uint64_t symbols, uint64_t address, uint32_t check,
		       struct ruby_function *ret)
{
	uint8_t data[RUBY_METHOD_BYTES];
	uint64_t id;

	if (address & 7)
		return -EBADMSG;
	int r = read_memory(reader, address, data, sizeof(data));
	if (r < 0)
		return r;
	if (runtime_check_of(word_at(data, RUBY_METHOD_DEFINITION), word_at(data, RUBY_METHOD_ID),
			     word_at(data, RUBY_METHOD_OWNER)) != check)
		return -ESTALE;
	r = read_memory(reader, word_at(data, RUBY_METHOD_DEFINITION) + METHOD_NAME, &id, sizeof(id));
	return r < 0 ? r : append_identifier(reader, symbols, id, ret->function.name);
}

int ruby_read_function(const struct ruby_build *build, uint64_t bias, const struct runtime_memory *memory, uint64_t object,
		       uint32_t check, struct ruby_function *ret)
{
	const struct reader reader = {.build = build, .memory = memory};

	*ret = (struct ruby_function){0};
	if (!(object & RUBY_OBJECT_METHOD))
		return read_code(&reader, object, check, ret);
	if (!build->symbols)
		return -ENOTSUP;
	return read_method(&reader, build->symbols + bias, object & ~(uint64_t)RUBY_OBJECT_METHOD, check, ret);
}

/* ---- lines ---- */

/* How many entries begin at or before a position. */
static uint64_t index_rank(struct bytes index, uint32_t position)
{
	if (position < INDEX_FIRST) {
		uint32_t word = position / 9 * 8;
		return word + 8 <= index.len ? (uint32_t)(word_at(index.data, word) >> position % 9 * 7 & 0x7f) : 0;
	}
	uint32_t bit = (position - INDEX_FIRST) % INDEX_BLOCK, word = bit / 64;
	size_t block = INDEX_FIRST_BYTES + (size_t)((position - INDEX_FIRST) / INDEX_BLOCK) * INDEX_BLOCK_BYTES;
	if (block + INDEX_BLOCK_BYTES > index.len)
		return 0;
	const uint8_t *data = index.data + block;
	uint32_t before = word ? (uint32_t)(word_at(data, 8) >> (word - 1) * 9 & 0x1ff) : 0;
	uint64_t bits = word_at(data, 16 + word * 8) << (63 - bit % 64);
	return (uint64_t)half_at(data, 0) + before + (uint32_t)__builtin_popcountll(bits);
}

uint32_t ruby_line(struct bytes lines, uint32_t first_line, uint32_t place)
{
	if (lines.len < 8)
		return first_line;
	uint32_t count = half_at(lines.data, 0);
	uint64_t at = 1;
	size_t entries_bytes = 4 + (size_t)count * 4;
	if (!count || entries_bytes > lines.len)
		return first_line;
	if (count > 1)
		at = index_rank((struct bytes){lines.data + entries_bytes, lines.len - entries_bytes}, place ? place - 1 : 0);
	return at >= 1 && at <= count ? half_at(lines.data, at * 4) : first_line;
}
