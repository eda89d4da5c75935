// SPDX-License-Identifier: Apache-2.0
/*
 * From offsets in code to lines.
 *
 * Tables of positions have entries in the order of code: how far the code goes on, and how far the position does, both signed
 * varints (seven bits a byte, the least first, bit 7 while others follow; the sign in bit 0). The first is -1 - x where the
 * entry is for an expression and x where it is for a statement. A position is 30 bits of an offset in the script and 16 bits of
 * the function that was inlined there, each one more than it is, behind a bit.
 *
 * Tables of baseline code have an unsigned varint for what comes before the first bytecode, and for each bytecode: how many
 * bytes of code it became.
 *
 * Lines of a script are counted in its source: its own table of lines is made only when its program asks for a line.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/v8_int.h"

#define VARINT_BITS  63u
#define SOURCE_CHUNK (64u << 10)
#define LINES_MAX    (V8_SCRIPTS_BYTES_MAX / 2 / sizeof(uint32_t))
#define SCRIPT_ID    64

static uint64_t take_varint(struct bytes table, size_t *at)
{
	uint64_t value = 0;

	for (unsigned shift = 0; *at < table.len && shift <= VARINT_BITS; shift += 7) {
		uint8_t byte = table.data[(*at)++];
		value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			break;
	}
	return value;
}

static uint64_t take_signed(struct bytes table, size_t *at)
{
	uint64_t value = take_varint(table, at);

	return value >> 1 ^ (~(value & 1) + 1);
}

bool v8_positions_next(struct v8_positions *positions)
{
	if (positions->at >= positions->table.len)
		return false;
	uint64_t step = take_signed(positions->table, &positions->at);
	positions->offset += (int64_t)step < 0 ? ~step : step;
	positions->position += take_signed(positions->table, &positions->at);
	return true;
}

/* ---- baseline code ---- */

/* The bytes of the bytecode at an offset; 0 if it is none. A prefix makes the operands of the one behind it wider. */
static size_t bytecode_bytes(const struct v8_build *build, struct bytes bytecodes, uint64_t at)
{
	static const uint8_t prefix_scale[V8_PREFIXES] = {1, 2, 1, 2}; /* Wide, ExtraWide, and the same for debugging */
	size_t prefix = 0, scale = 0;

	if (at >= bytecodes.len)
		return 0;
	uint8_t code = bytecodes.data[at];
	if (code < sizeof(prefix_scale)) {
		if (at + 1 >= bytecodes.len)
			return 0;
		scale = prefix_scale[code];
		code = bytecodes.data[at + 1];
		prefix = 1;
	}
	return code < build->bytecode_count ? prefix + build->bytecode_sizes[scale][code] : 0;
}

uint32_t v8_bytecode_at(struct bytes bytecodes, uint64_t at)
{
	if (at < bytecodes.len && bytecodes.data[at] < V8_PREFIXES)
		at++;
	return at < bytecodes.len ? bytecodes.data[at] : UINT32_MAX;
}

bool v8_baseline_begin(struct v8_baseline *baseline)
{
	baseline->at = 0;
	baseline->bytecode = baseline->start = 0;
	baseline->end = take_varint(baseline->table, &baseline->at);
	baseline->start = baseline->end;
	if (baseline->at >= baseline->table.len || !baseline->bytecodes.len)
		return false;
	baseline->end += take_varint(baseline->table, &baseline->at);
	return true;
}

bool v8_baseline_next(struct v8_baseline *baseline)
{
	size_t bytes = bytecode_bytes(baseline->build, baseline->bytecodes, baseline->bytecode);

	if (!bytes || baseline->at >= baseline->table.len || baseline->bytecode + bytes >= baseline->bytecodes.len)
		return false;
	baseline->bytecode += bytes;
	baseline->start = baseline->end;
	baseline->end += take_varint(baseline->table, &baseline->at);
	return true;
}

/* ---- scripts ---- */

static void release_script(struct v8_scripts *scripts, struct v8_script *script)
{
	scripts->bytes -= script->count * sizeof(*script->ends);
	mem_free(script->ends);
	*script = (struct v8_script){0};
}

void v8_scripts_release(struct v8_scripts *scripts)
{
	for (size_t i = 0; i < V8_SCRIPTS_MAX; i++)
		release_script(scripts, &scripts->items[i]);
}

struct line_counter {
	uint32_t *ends; /* owned */
	size_t count, capacity;
	uint32_t position; /* in UTF-16 units */
	bool after_return;
	int failed;
};

static void end_line(struct line_counter *counter)
{
	int r = array_push(&counter->ends, &counter->count, &counter->capacity, LINES_MAX, counter->position);
	if (r < 0 && !counter->failed)
		counter->failed = r;
}

/* Lines end with \n, \r, \r\n, and two characters that others know as spaces. */
static void count_unit(struct line_counter *counter, uint32_t unit)
{
	if (counter->after_return && unit != '\n')
		end_line(counter);
	counter->after_return = unit == '\r';
	counter->position++;
	if (unit == '\n' || unit == 0x2028 || unit == 0x2029)
		end_line(counter);
}

static int count_lines(const struct v8_reader *reader, const struct v8_characters *source, struct line_counter *counter)
{
	_cleanup_(mem_freep) uint8_t *chunk = mem_alloc(SOURCE_CHUNK);
	uint64_t total = (uint64_t)source->length * source->width;

	if (!chunk)
		return -ENOMEM;
	if (total > V8_SOURCE_BYTES_MAX)
		total = V8_SOURCE_BYTES_MAX;
	for (uint64_t done = 0; done < total;) {
		size_t some = total - done < SOURCE_CHUNK ? (size_t)(total - done) : SOURCE_CHUNK;
		int r = v8_read(reader, source->address + done, chunk, some);
		if (r < 0)
			return r;
		for (size_t i = 0; i + source->width <= some; i += source->width)
			count_unit(counter, source->width == 1 ? chunk[i] : (uint32_t)chunk[i] | (uint32_t)chunk[i + 1] << 8);
		done += some;
	}
	counter->position++; /* the end belongs to the last line */
	end_line(counter);
	return counter->failed == -ENOMEM ? -ENOMEM : 0; /* beyond what is kept, lines are not known */
}

/* Makes room for a table, and returns where it goes. */
static struct v8_script *make_room(struct v8_scripts *scripts, size_t bytes)
{
	for (;;) {
		struct v8_script *oldest = NULL, *empty = NULL;
		for (size_t i = 0; i < V8_SCRIPTS_MAX; i++) {
			struct v8_script *item = &scripts->items[i];
			if (!item->ends)
				empty = item;
			else if (!oldest || item->used < oldest->used)
				oldest = item;
		}
		if (empty && scripts->bytes + bytes <= V8_SCRIPTS_BYTES_MAX)
			return empty;
		release_script(scripts, oldest);
	}
}

static int add_script(struct v8_scripts *scripts, const struct v8_reader *reader, const struct v8_script *key,
		      struct v8_script **ret)
{
	struct line_counter counter = {0};
	struct v8_characters source;

	int r = v8_find_characters(reader, key->source, &source);
	if (r == 0)
		r = count_lines(reader, &source, &counter);
	_cleanup_(mem_freep) uint32_t *ends = counter.ends;
	if (r < 0)
		return r;
	struct v8_script *added = make_room(scripts, counter.count * sizeof(*ends));
	*added = *key;
	added->ends = TAKE(ends);
	added->count = counter.count;
	scripts->bytes += counter.count * sizeof(*ends);
	*ret = added;
	return 0;
}

int v8_read_script(const struct v8_reader *reader, uint64_t owner, uint64_t object, struct v8_script *ret)
{
	uint64_t line, length;

	*ret = (struct v8_script){.owner = owner, .object = object};
	int r = v8_read_word(reader, object, reader->layout->script_source, &ret->source);
	if (r == 0)
		r = v8_read_word(reader, object, SCRIPT_ID, &ret->id);
	if (r == 0)
		r = v8_read_word(reader, object, reader->layout->script_line, &line);
	if (r == 0)
		r = v8_read_word(reader, ret->source, 8, &length);
	if (r < 0)
		return r;
	ret->length = (uint32_t)(length >> 32);
	ret->first_line = V8_IS_NUMBER(line) && V8_NUMBER(line) > 0 ? (uint32_t)(line >> 32) : 0;
	return 0;
}

static bool is_same(const struct v8_script *a, const struct v8_script *b)
{
	return a->ends && a->owner == b->owner && a->object == b->object && a->source == b->source && a->id == b->id &&
	       a->length == b->length;
}

/* The same script where it was before: while the collector moves it, its source cannot be read. */
static struct v8_script *find_moved(struct v8_scripts *scripts, const struct v8_script *script)
{
	for (size_t i = 0; i < V8_SCRIPTS_MAX; i++) {
		struct v8_script *item = &scripts->items[i];
		if (item->ends && item->owner == script->owner && item->id == script->id && item->length == script->length &&
		    item->first_line == script->first_line)
			return item;
	}
	return NULL;
}

int v8_script_line(const struct v8_reader *reader, struct v8_scripts *scripts, const struct v8_script *script, int64_t position,
		   uint32_t *ret)
{
	struct v8_script *found = NULL;
	int r = 0;

	*ret = 0;
	if (position < 0 || !script->object)
		return 0;
	for (size_t i = 0; i < V8_SCRIPTS_MAX && !found; i++)
		found = is_same(&scripts->items[i], script) ? &scripts->items[i] : NULL;
	if (!found)
		r = add_script(scripts, reader, script, &found);
	if (r < 0 && r != -ENOMEM)
		found = find_moved(scripts, script);
	if (!found)
		return r;
	found->used = ++scripts->uses;
	size_t low = 0, high = found->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (found->ends[middle] <= position)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low < found->count ? script->first_line + (uint32_t)low + 1 : 0;
	return 0;
}
