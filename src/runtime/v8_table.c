// SPDX-License-Identifier: Apache-2.0
/*
 * What is kept of code: for each offset the line, and the functions that were inlined there. All numbers are varints of seven
 * bits a byte, the least first, bit 7 while others follow.
 *
 *   functions   how many; of each, the outermost first: which one it was inlined into, the line of that where it was called,
 *               its first line
 *   entries     how far the offset goes on, the function, how far the line does (signed, the sign in bit 0), to the end
 *
 * A function is inlined into one that comes before or after it; whoever follows that takes a bounded number of steps.
 */
#include <string.h>

#include "runtime/v8_int.h"

#define FUNCTIONS_MAX 65536u

struct cursor {
	struct bytes bytes;
	size_t at;
};

static uint64_t take(struct cursor *cursor)
{
	uint64_t value = 0;

	for (unsigned shift = 0; cursor->at < cursor->bytes.len && shift < 64; shift += 7) {
		uint8_t byte = cursor->bytes.data[cursor->at++];
		value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			break;
	}
	return value;
}

static void put(struct buffer *out, uint64_t value)
{
	for (; value >= 128; value >>= 7)
		buffer_append_byte(out, (uint8_t)(value | 128));
	buffer_append_byte(out, (uint8_t)value);
}

void v8_table_release(struct v8_table *table)
{
	buffer_release(&table->names);
	buffer_release(&table->files);
	buffer_release(&table->lines);
}

void v8_table_put_count(struct buffer *lines, uint64_t functions)
{
	put(lines, functions);
}

void v8_table_put_function(struct buffer *lines, uint64_t parent, uint32_t call_line, uint32_t first_line)
{
	put(lines, parent);
	put(lines, call_line);
	put(lines, first_line);
}

void v8_table_put(struct v8_table_writer *writer, uint64_t offset, uint64_t function, uint32_t line)
{
	if (writer->lines->len > writer->begin && function == writer->function && line == writer->line)
		return;
	int64_t step = (int64_t)line - writer->line;
	put(writer->lines, offset - writer->offset);
	put(writer->lines, function);
	put(writer->lines, (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
	writer->offset = offset;
	writer->function = function;
	writer->line = line;
}

/* The text at an index; "" if there are not so many. */
static const char *text_at(struct bytes texts, uint64_t index)
{
	const uint8_t *at = texts.data, *end = texts.data + texts.len;

	for (; index && at && at < end; index--) {
		const uint8_t *nul = memchr(at, 0, (size_t)(end - at));
		at = nul ? nul + 1 : end;
	}
	return at && at < end && memchr(at, 0, (size_t)(end - at)) ? (const char *)at : "";
}

struct function {
	uint64_t parent, call_line, first_line;
};

/* The cursor behind the count. */
static struct function function_at(struct cursor cursor, uint64_t index)
{
	struct function function = {0};

	for (uint64_t i = 0; i <= index; i++) {
		function.parent = take(&cursor);
		function.call_line = take(&cursor);
		function.first_line = take(&cursor);
	}
	return function;
}

size_t v8_table_find(struct bytes names, struct bytes files, struct bytes lines, uint64_t offset,
		     struct v8_line ret[V8_INLINES_MAX])
{
	struct cursor cursor = {lines, 0}, functions;
	uint64_t at = 0, function = 0, line = 0, found_line = 0;
	size_t depth = 0;

	uint64_t count = take(&cursor);
	if (!count || count > FUNCTIONS_MAX)
		return 0;
	functions = cursor;
	for (uint64_t i = 0; i < 3 * count; i++)
		(void)take(&cursor);
	while (cursor.at < lines.len) {
		at += take(&cursor);
		uint64_t of = take(&cursor), step = take(&cursor);
		if (at > offset)
			break;
		line += step >> 1 ^ (~(step & 1) + 1);
		function = of < count ? of : 0;
		found_line = line;
	}
	for (;;) {
		struct function info = function_at(functions, function);
		ret[depth++] = (struct v8_line){
			.name = text_at(names, function),
			.file = text_at(files, function),
			.line = found_line && found_line <= UINT32_MAX ? (uint32_t)found_line : (uint32_t)info.first_line,
			.first_line = (uint32_t)info.first_line,
		};
		if (!function || depth == V8_INLINES_MAX)
			return depth;
		found_line = info.call_line;
		function = info.parent < count && depth + 1 < V8_INLINES_MAX ? info.parent : 0;
	}
}
