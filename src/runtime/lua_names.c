// SPDX-License-Identifier: Apache-2.0
/*
 * Prototypes of Lua in another process: read once, with bounds on everything, since the process may have freed them, or be
 * lying. That it is what was sampled is seen by the check.
 *
 * Lines. Up to 5.3 there is a number for each instruction. 5.4 has a signed byte for each, the difference from the instruction
 * before it, or -128 where it does not fit; for those, and after at most 128 instructions, there is a list of pairs
 * {instruction, line}.
 *
 * What is kept here, the table, in u32, little-endian:
 *
 *   lines, calls		how many of each
 *   {place, line}[lines]	the line of the instructions from a place on
 *   {place, text}[calls]	what the instruction calls: where its name begins in the texts
 *   texts			each ends with 0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/lua_int.h"

#define CODE_MAX	65536u /* instructions; of longer code nothing is known but where it begins */
#define WORK_MAX	(4u << 20)
#define TEXT_BYTES_MAX	(1u << 20) /* what is longer is no name */
#define STRING_LENGTH	16u
#define STRING_SHORT	11u /* since 5.3: the length, of short ones */
#define STRING_TEXT	24u
#define STRING_TYPE	8u
#define STRING_IS_LONG	0x10u
#define TYPE_STRING	4u
#define TITLE_BYTES_MAX 45u /* of a text that is code, in place of a file */

static int read_memory(const struct lua_reader *reader, uint64_t address, void *to, size_t len)
{
	return reader->memory->read(reader->memory->context, address, to, len);
}

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

/* ---- texts ---- */

/* At most len_max - 1 bytes of a string. */
static int read_text(const struct lua_reader *reader, uint64_t address, uint8_t *ret, size_t *ret_len, size_t len_max)
{
	uint8_t head[STRING_TEXT];

	if (!address || address & 7)
		return -EBADMSG;
	int r = read_memory(reader, address, head, sizeof(head));
	if (r < 0)
		return r;
	if ((head[STRING_TYPE] & 0xf) != TYPE_STRING)
		return -EBADMSG;
	bool is_short = reader->layout->version >= 0x0503 && !(head[STRING_TYPE] & STRING_IS_LONG);
	uint64_t len = is_short ? head[STRING_SHORT] : word_at(head, STRING_LENGTH);
	if (len > TEXT_BYTES_MAX && len_max >= TEXT_BYTES_MAX)
		return -EBADMSG;
	*ret_len = len < len_max ? (size_t)len : len_max;
	return *ret_len ? read_memory(reader, address + STRING_TEXT, ret, *ret_len) : 0;
}

int lua_append_text(const struct lua_reader *reader, uint64_t address, char ret[static RUNTIME_NAME_BYTES_MAX], size_t *len)
{
	uint8_t data[RUNTIME_NAME_BYTES_MAX];
	size_t count = 0;

	int r = read_text(reader, address, data, &count, sizeof(data));
	if (r == 0)
		runtime_name_append((struct bytes){data, count}, ret, len);
	return r;
}

/* A file's name begins with '@', another name with '='; anything else is the code itself. */
static int read_file(const struct lua_reader *reader, uint64_t address, char *ret)
{
	uint8_t data[RUNTIME_NAME_BYTES_MAX];
	size_t count = 0, len = 0;

	ret[0] = 0;
	if (!address) /* was stripped */
		return 0;
	int r = read_text(reader, address, data, &count, sizeof(data));
	if (r < 0 || !count)
		return r;
	if (data[0] == '@' || data[0] == '=') {
		runtime_name_append((struct bytes){data + 1, count - 1}, ret, &len);
		return 0;
	}
	const uint8_t *end = memchr(data, '\n', count);
	bool is_cut = end || count >= TITLE_BYTES_MAX;
	size_t shown = end ? (size_t)(end - data) : count;
	runtime_name_append(bytes_of_string("[string \""), ret, &len);
	runtime_name_append((struct bytes){data, shown < TITLE_BYTES_MAX ? shown : TITLE_BYTES_MAX}, ret, &len);
	runtime_name_append(bytes_of_string(is_cut ? "...\"]" : "\"]"), ret, &len);
	return 0;
}

/* ---- the table ---- */

static void append_pair(struct buffer *out, uint32_t place, uint32_t what)
{
	const uint32_t pair[2] = {place, what};

	buffer_append(out, pair, sizeof(pair));
}

void lua_append_line(struct buffer *out, uint32_t place, uint32_t line, uint32_t *last)
{
	if (!place || line != *last)
		append_pair(out, place, line);
	*last = line;
}

/* A number for each instruction. */
static int read_lines(const struct lua_reader *reader, uint64_t address, uint32_t count, struct buffer *out)
{
	_cleanup_(mem_freep) uint32_t *lines = mem_alloc_array(count, sizeof(*lines));
	uint32_t last = 0;

	if (!lines)
		return -ENOMEM;
	int r = read_memory(reader, address, lines, count * sizeof(*lines));
	for (uint32_t i = 0; r == 0 && i < count; i++)
		lua_append_line(out, i, lines[i], &last);
	return r < 0 ? r : buffer_status(out);
}

struct far_line {
	uint32_t place, line;
};

/* Differences, and pairs for those that are too large. */
static int read_differences(const struct lua_reader *reader, const uint8_t *prototype, uint32_t count, struct buffer *out)
{
	const struct lua_prototype *layout = &reader->layout->prototype;
	uint32_t far_count = half_at(prototype, layout->far_line_count), at = 0, last = 0;
	uint32_t line = half_at(prototype, layout->first_line);

	if (far_count > count)
		return -EBADMSG;
	_cleanup_(mem_freep) int8_t *differences = mem_alloc(count);
	_cleanup_(mem_freep) struct far_line *far = mem_alloc_array(far_count + 1, sizeof(*far));
	if (!differences || !far)
		return -ENOMEM;
	int r = read_memory(reader, word_at(prototype, layout->lines), differences, count);
	if (r == 0 && far_count)
		r = read_memory(reader, word_at(prototype, layout->far_lines), far, far_count * sizeof(*far));
	for (uint32_t i = 0; r == 0 && i < count; i++) {
		while (at < far_count && far[at].place < i)
			at++;
		line = at < far_count && far[at].place == i ? far[at].line : line + (uint32_t)(int32_t)differences[i];
		lua_append_line(out, i, line, &last);
	}
	return r < 0 ? r : buffer_status(out);
}

/* ret: pairs. Without any when the prototype has none: it was stripped. */
static int find_lines(const struct lua_reader *reader, const uint8_t *prototype, struct buffer *ret)
{
	const struct lua_prototype *layout = &reader->layout->prototype;
	uint32_t count = half_at(prototype, layout->line_count);

	if (count != reader->code_count)
		return count ? -EBADMSG : 0;
	return layout->far_line_count ? read_differences(reader, prototype, count, ret)
				      : read_lines(reader, word_at(prototype, layout->lines), count, ret);
}

bool lua_append_call(struct buffer *calls, struct buffer *texts, size_t room, uint32_t place, const char *name)
{
	size_t len = strlen(name) + 1, at = 0;

	if (calls->len + texts->len + 8 + len > room || texts->len + len > LUA_NAMES_BYTES_MAX)
		return false;
	while (at < texts->len && strcmp((const char *)texts->data + at, name) != 0)
		at += strlen((const char *)texts->data + at) + 1;
	if (at == texts->len)
		buffer_append(texts, name, len);
	append_pair(calls, place, (uint32_t)at);
	return true;
}

/* ret: pairs; texts: the names that they point to, each once. As many as there is room for. */
static int find_calls(struct lua_reader *reader, size_t room, struct buffer *ret, struct buffer *texts)
{
	char name[RUNTIME_NAME_BYTES_MAX];

	for (uint32_t i = 0; i < reader->code_count; i++) {
		if (!lua_find_called(reader, i, name) || !name[0])
			continue;
		if (!lua_append_call(ret, texts, room, i, name))
			break;
	}
	int r = buffer_status(texts);
	return r < 0 ? r : buffer_status(ret);
}

int lua_pack_table(const struct buffer *lines, const struct buffer *calls, const struct buffer *texts, struct lua_function *ret)
{
	const struct buffer *const parts[] = {lines, calls, texts};
	uint32_t counts[2] = {(uint32_t)(lines->len / 8), (uint32_t)(calls->len / 8)};
	size_t at = sizeof(counts), bytes = at + lines->len + calls->len + texts->len;

	uint8_t *table = mem_alloc(bytes);
	if (!table)
		return -ENOMEM;
	memcpy(table, counts, sizeof(counts));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i]->len)
			memcpy(table + at, parts[i]->data, parts[i]->len);
		at += parts[i]->len;
	}
	ret->table = table;
	ret->table_bytes = bytes;
	return 0;
}

static int make_table(struct lua_reader *reader, const uint8_t *prototype, struct lua_function *ret)
{
	_cleanup_(buffer_release) struct buffer lines = {.max = LUA_TABLE_BYTES_MAX - 8};
	_cleanup_(buffer_release) struct buffer calls = {.max = LUA_TABLE_BYTES_MAX}, texts = {.max = LUA_NAMES_BYTES_MAX};

	int r = find_lines(reader, prototype, &lines);
	if (r == 0)
		r = find_calls(reader, lines.max - lines.len, &calls, &texts);
	if (r < 0)
		return r == -E2BIG ? 0 : r;
	return lua_pack_table(&lines, &calls, &texts, ret);
}

/* The last pair whose place is at or before one; NULL if there is none. */
static const uint8_t *find_pair(const uint8_t *pairs, uint32_t count, uint32_t place)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (half_at(pairs, (size_t)middle * 8) <= place)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? pairs + (size_t)(low - 1) * 8 : NULL;
}

static bool counts_fit(struct bytes table, uint32_t *ret_lines, uint32_t *ret_calls)
{
	if (table.len < 8)
		return false;
	*ret_lines = half_at(table.data, 0);
	*ret_calls = half_at(table.data, 4);
	return ((uint64_t)*ret_lines + *ret_calls) * 8 <= table.len - 8;
}

uint32_t lua_line(struct bytes table, uint32_t place)
{
	uint32_t lines, calls;
	const uint8_t *pair = counts_fit(table, &lines, &calls) ? find_pair(table.data + 8, lines, place) : NULL;

	return pair ? half_at(pair, 4) : 0;
}

struct bytes lua_called(struct bytes table, uint32_t place)
{
	uint32_t lines, calls;

	if (!counts_fit(table, &lines, &calls))
		return (struct bytes){0};
	const uint8_t *from = table.data + 8 + (size_t)lines * 8, *pair = find_pair(from, calls, place);
	struct bytes texts = {from + (size_t)calls * 8, table.len - 8 - ((size_t)lines + calls) * 8};
	if (!pair || half_at(pair, 0) != place || half_at(pair, 4) >= texts.len)
		return (struct bytes){0};
	const uint8_t *text = texts.data + half_at(pair, 4), *end = memchr(text, 0, texts.len - half_at(pair, 4));
	return end ? (struct bytes){text, (size_t)(end - text)} : (struct bytes){0};
}

/* ---- prototypes ---- */

static int read_array(const struct lua_reader *reader, uint64_t address, uint32_t count, size_t bytes, void *ret)
{
	void *data = mem_alloc_array(count ? count : 1, bytes);

	*(void **)ret = data;
	if (!data)
		return -ENOMEM;
	return count ? read_memory(reader, address, data, count * bytes) : 0;
}

/* What names in instructions are looked up in. The arrays are the caller's. */
static int read_symbols(struct lua_reader *reader, const uint8_t *prototype)
{
	const struct lua_prototype *layout = &reader->layout->prototype;
	uint32_t locals = half_at(prototype, layout->local_count), upvalues = half_at(prototype, layout->upvalue_count);
	uint8_t *descriptions = NULL;

	if (locals > LUA_LOCALS_MAX || upvalues > LUA_UPVALUES_MAX)
		return -EBADMSG;
	reader->constants = word_at(prototype, layout->constants);
	reader->constant_count = half_at(prototype, layout->constant_count);
	int r = read_array(reader, word_at(prototype, layout->locals), locals, sizeof(*reader->locals), &reader->locals);
	reader->local_count = r < 0 ? 0 : locals;
	if (r == 0)
		r = read_array(reader, word_at(prototype, layout->upvalues), upvalues, layout->upvalue_bytes, &descriptions);
	_cleanup_(mem_freep) uint8_t *owned = descriptions;
	if (r < 0)
		return r;
	reader->upvalues = mem_alloc_array(upvalues + 1, sizeof(*reader->upvalues));
	if (!reader->upvalues)
		return -ENOMEM;
	for (uint32_t i = 0; i < upvalues; i++)
		reader->upvalues[i] = word_at(descriptions, i * layout->upvalue_bytes);
	reader->upvalue_count = upvalues;
	return 0;
}

static int read_code(struct lua_reader *reader, const uint8_t *prototype, struct lua_function *ret)
{
	const struct lua_prototype *layout = &reader->layout->prototype;
	uint32_t count = half_at(prototype, layout->code_count);
	uint32_t *code = NULL;

	if (!count || count > CODE_MAX)
		return count ? 0 : -EBADMSG;
	int r = read_array(reader, word_at(prototype, layout->code), count, sizeof(*code), &code);
	_cleanup_(mem_freep) uint32_t *owned = code;
	reader->code = code;
	reader->code_count = count;
	if (r == 0)
		r = read_symbols(reader, prototype);
	if (r == 0)
		r = make_table(reader, prototype, ret);
	reader->locals = mem_free(reader->locals);
	reader->upvalues = mem_free(reader->upvalues);
	return r;
}

void lua_set_name(uint32_t line, struct runtime_function *ret)
{
	const char *slash = strrchr(ret->file, '/');
	char number[16];
	size_t len = 0;

	if (!line) {
		runtime_name_append(bytes_of_string("main chunk"), ret->name, &len);
		return;
	}
	snprintf(number, sizeof(number), ":%u>", line);
	runtime_name_append(bytes_of_string("function <"), ret->name, &len);
	runtime_name_append(bytes_of_string(slash ? slash + 1 : ret->file[0] ? ret->file : "?"), ret->name, &len);
	runtime_name_append(bytes_of_string(number), ret->name, &len);
}

int lua_read_function(const struct lua_layout *layout, const struct runtime_memory *memory, uint64_t object, uint32_t check,
		      struct lua_function *ret)
{
	const struct lua_prototype *prototype = &layout->prototype;
	struct lua_reader reader = {.layout = layout, .memory = memory, .work_left = WORK_MAX};
	__u64 words[LISTED_READ_WORDS] = {0};
	const uint8_t *data = (const uint8_t *)words;

	*ret = (struct lua_function){0};
	if (object & 7)
		return -EBADMSG;
	int r = read_memory(&reader, object, words, prototype->bytes);
	if (r < 0)
		return r;
	if (lua_check_of(&layout->walk, words + layout->walk.prototype_from / 8) != check)
		return -ESTALE;
	if (data[LUA_STATE_TYPE] != prototype->type)
		return -EBADMSG;
	uint32_t line = half_at(data, prototype->first_line);
	r = read_file(&reader, word_at(data, prototype->source), ret->function.file);
	if (r < 0)
		return r;
	ret->function.first_line = line;
	lua_set_name(line, &ret->function);
	return read_code(&reader, data, ret);
}
