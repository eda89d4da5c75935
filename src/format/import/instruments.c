/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep copies of Apple's Instruments: the call tree as Edit, Deep Copy puts it into the clipboard. Lines of columns, with tabs:
 *
 *   Running Time      Self (ms)            Symbol Name      Xcode 7: a column without a name before the symbol
 *   4273.0ms   99.9%  0           (blank)  start            symbols are indented by a blank a level
 *   Weight            Self Weight          Symbol Names     Xcode 13, 16
 *   Bytes Used        Count                Symbol Name      allocations: no values of functions by themselves
 *
 * Where there is a column of functions by themselves, that is a sample's value; else what is left of the first column after the
 * lines below it of the next level. Values are as exact as they are shown.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "format/format_int.h"

#define HEAD_BYTES_MAX 4096
#define NUMBER_MAX     64

struct unit {
	const char *name, *type, *unit;
	double scale;
};
static const struct unit units[] = {
	{"ns", "cpu", "nanoseconds", 1},	  {"us", "cpu", "nanoseconds", 1e3},   {"\302\265s", "cpu", "nanoseconds", 1e3},
	{"\316\274s", "cpu", "nanoseconds", 1e3}, {"ms", "cpu", "nanoseconds", 1e6},   {"s", "cpu", "nanoseconds", 1e9},
	{"min", "cpu", "nanoseconds", 6e10},	  {"h", "cpu", "nanoseconds", 3.6e12}, {"c", "cycles", "count", 1},
	{"Kc", "cycles", "count", 1e3},		  {"Mc", "cycles", "count", 1e6},      {"Gc", "cycles", "count", 1e9},
	{"Bytes", "space", "bytes", 1},		  {"KB", "space", "bytes", 1024},      {"MB", "space", "bytes", 1048576},
	{"GB", "space", "bytes", 1073741824},	  {"KiB", "space", "bytes", 1024},     {"MiB", "space", "bytes", 1048576},
	{"GiB", "space", "bytes", 1073741824},	  {"", "samples", "count", 1},
};

struct level {
	uint32_t stack;
	int64_t left; /* of the inclusive value, after the lines below */
};
struct reader {
	struct profile *profile;
	const struct unit *unit; /* of the first value */
	bool has_self, self_is_ms;
	size_t indent; /* of the outermost line */
	bool has_indent;
	struct level levels[LIMIT_STACK_DEPTH];
	size_t depth;
	uint64_t bad_lines;
};

static bool contains(struct bytes text, const char *part)
{
	return memmem(text.data, text.len, part, strlen(part)) != NULL;
}

/* "4273.0ms   99.9%", "1,234.50 MB", "404.75 Mc", "693", "-". */
static bool parse_value(struct bytes text, const struct unit **ret_unit, double *ret)
{
	char number[NUMBER_MAX];
	size_t at = 0, len = 0;
	while (at < text.len && text.data[at] == ' ')
		at++;
	if (at + 1 <= text.len && text.data[at] == '-' && (at + 1 == text.len || text.data[at + 1] == ' ')) {
		*ret_unit = NULL;
		*ret = 0;
		return true;
	}
	for (; at < text.len && (text_is_digit(text.data[at]) || text.data[at] == '.' || text.data[at] == ','); at++)
		if (text.data[at] != ',' && len < NUMBER_MAX - 1)
			number[len++] = (char)text.data[at];
	number[len] = '\0';
	if (len == 0 || text_parse_double(number, ret, NULL) < 0)
		return false;
	while (at < text.len && text.data[at] == ' ')
		at++;
	size_t end = at;
	while (end < text.len && text.data[end] != ' ' && !text_is_digit(text.data[end]))
		end++;
	/* A share follows, or the number is one of things without a unit. */
	struct bytes name = {text.data + at, end - at};
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (bytes_equal_string(name, units[i].name)) {
			*ret_unit = &units[i];
			return true;
		}
	return false;
}

static int64_t scaled(const struct unit *unit, double value)
{
	double result = round(value * (unit ? unit->scale : 1));
	return result >= 0 && result < 0x1p62 ? (int64_t)result : 0;
}

static int set_unit(struct reader *reader, const struct unit *unit, struct error *err)
{
	if (reader->unit)
		return 0;
	reader->unit = unit;
	int r = profile_add_named_type(reader->profile, unit->type, unit->unit, err);
	if (r == 0)
		reader->profile->period_type = reader->profile->sample_types[0];
	return r;
}

/* The frames that end before a line of this depth. */
static int end_levels(struct reader *reader, size_t depth, struct error *err)
{
	int r = 0;
	while (r == 0 && reader->depth > depth) {
		const struct level *level = &reader->levels[--reader->depth];
		struct profile_sample sample = {.stack = level->stack};
		if (level->left > 0)
			r = profile_add_sample(reader->profile, &sample, &level->left, err);
	}
	return r;
}

static int add_level(struct reader *reader, struct bytes name, int64_t total, int64_t self, struct error *err)
{
	uint32_t id, stack = reader->depth ? reader->levels[reader->depth - 1].stack : 0;
	int r = format_add_frame(reader->profile, &(struct format_frame){.name = name}, &id, err);
	if (r == 0)
		r = profile_add_stack(reader->profile, stack, id, &stack, err);
	if (r < 0)
		return r;
	int64_t *left = reader->depth && !reader->has_self ? &reader->levels[reader->depth - 1].left : NULL;
	if (left && __builtin_sub_overflow(*left, total, left))
		*left = 0; /* nothing is left */
	reader->levels[reader->depth++] = (struct level){stack, reader->has_self ? self : total};
	return 0;
}

static int read_line(struct reader *reader, struct bytes line, struct error *err)
{
	struct bytes first = format_take_column(&line), second = format_take_column(&line), name = line;
	const struct unit *unit, *self_unit = NULL;
	double total, self = 0;
	/* The symbol is the last column. */
	for (const uint8_t *tab; (tab = memchr(name.data, '\t', name.len));)
		name = bytes_skip(name, (size_t)(tab - name.data) + 1);
	if (!parse_value(first, &unit, &total) || !unit || (reader->has_self && !parse_value(second, &self_unit, &self))) {
		reader->bad_lines++;
		return 0;
	}
	size_t indent = 0;
	while (indent < name.len && name.data[indent] == ' ')
		indent++;
	if (!reader->has_indent)
		reader->indent = indent;
	reader->has_indent = true;
	size_t depth = indent > reader->indent ? indent - reader->indent : 0;
	if (depth > reader->depth)
		depth = reader->depth;
	if (depth >= LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "the call tree is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
	int64_t self_value = scaled(reader->self_is_ms ? &units[4] : self_unit, self);
	int r = set_unit(reader, unit, err);
	if (r == 0)
		r = end_levels(reader, depth, err);
	return r < 0 ? r : add_level(reader, bytes_skip(name, indent), scaled(unit, total), self_value, err);
}

static bool is_header(struct bytes line)
{
	static const char *const heads[] = {"Running Time", "Weight",	   "Total Weight",
					    "Bytes Used",   "Total Bytes", "Total Samples"};
	if (!contains(line, "\t") || !contains(line, "Symbol Name"))
		return false;
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		if (bytes_start_with(line, heads[i]))
			return true;
	return false;
}

static int read_all(struct reader *reader, struct bytes input, struct error *err)
{
	struct bytes header = bytes_take_line(&input);
	size_t number = 1;
	int r = 0;
	if (!is_header(header))
		return error_set(err, -EBADMSG, "no header of a deep copy of Instruments");
	format_take_column(&header);
	struct bytes second = format_take_column(&header);
	reader->has_self = bytes_start_with(second, "Self");
	reader->self_is_ms = contains(second, "(ms)");
	while (r == 0 && input.len > 0) {
		struct bytes line = bytes_take_line(&input);
		number++;
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (line.len > 0)
			r = read_line(reader, line, err);
		if (r < 0)
			return error_prefix(err, r, "line %zu", number);
	}
	return r < 0 ? r : end_levels(reader, 0, err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	int r = profile_new(&reader->profile, err);
	if (r == 0)
		r = read_all(reader, input, err);
	const struct format_left_out left_out = {reader->bad_lines, "lines without a value"};
	if (r == 0)
		r = format_note(options, &left_out, 1, err);
	r = format_finish(r, reader->profile, ret);
	mem_free(reader);
	return r;
}

static bool detect(struct bytes input)
{
	struct bytes head = {input.data, input.len < HEAD_BYTES_MAX ? input.len : HEAD_BYTES_MAX};
	return head.len > 0 && is_header(bytes_take_line(&head));
}

const struct format format_instruments = {
	.name = "instruments",
	.extensions = ".instruments.txt",
	.description = "deep copies of call trees of Apple's Instruments",
	.detect = detect,
	.decode = decode,
};
