/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callgrind's profiles ("Callgrind Format Specification", valgrind's manual), which valgrind, `go tool pprof -callgrind`, PHP's
 * xdebug and others write for KCachegrind.
 *
 *   events: Ir Dr                   names of the costs
 *   positions: instr line           what a position is; by default a line
 *   ob=, fl=, fn=                   binary, file and function of the lines that follow; fi=, fe= change the file within it
 *   POSITION COST COST              costs of the function's own
 *   cob=, cfi= or cfl=, cfn=        a function that it calls ...
 *   calls=COUNT POSITION            ... how often ...
 *   POSITION COST COST              ... and from where, with the costs of all that the calls did
 *
 * Names are written once, as "(1) NAME", and then as "(1)". Positions may be relative to the ones before: +3, -3, *.
 *
 * The format has a call graph and no stacks: it does not tell what `c` cost when it was called through `a` and when through
 * `b`. Stacks are made up as gprof does: what a function cost, its own costs and its calls, is shared by its callers in
 * proportion to the costs of their calls (of the first event that has any). So the costs of functions of their own are those of
 * the file to the last unit, and so are callers and callees by themselves; longer paths are guesses, and the notes say so.
 * Calls of a function by itself stay one frame, and a path enters no function twice. The paths with the largest shares are
 * followed first, and no more of them than the size of the input allows: what is left of a function then
 * joins the largest of its stacks.
 */
#include "format/callgrind.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define EVENT_NAME_MAX 128

struct reader {
	struct callgrind graph;
	struct map64 objects, files, functions; /* names by number */
	size_t event_count;
	size_t line_number;
	bool has_instr, has_line;
	uint64_t instr;
	int64_t line;
	/* what lines that follow are of */
	uint32_t object, file, function_name, function;
	uint32_t called_object, called_file, called_name;
	bool has_function, has_called_file, has_called_name, after_calls, after_jump;
	uint64_t jumps;
};

/* ---- words ---- */

static void skip_blanks(struct bytes *at)
{
	while (at->len > 0 && (at->data[0] == ' ' || at->data[0] == '\t'))
		*at = bytes_skip(*at, 1);
}

/* Decimal or 0x... digits; false if there are none or too many. */
static bool take_number(struct bytes *at, uint64_t *ret)
{
	bool hex = at->len > 2 && at->data[0] == '0' && at->data[1] == 'x';
	size_t i = hex ? 2 : 0, first = i;
	int base = hex ? 16 : 10;
	uint64_t value = 0;
	for (; i < at->len; i++) {
		int digit = text_hex_digit(at->data[i]);
		if (digit < 0 || digit >= base)
			break;
		if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*at = bytes_skip(*at, i);
	*ret = value;
	return i > first;
}

/* A position, which may be relative to the one before. */
static bool take_position(struct bytes *at, uint64_t *position)
{
	uint64_t number;
	skip_blanks(at);
	if (at->len == 0)
		return false;
	uint8_t sign = at->data[0];
	if (sign == '*' || sign == '+' || sign == '-')
		*at = bytes_skip(*at, 1);
	if (sign == '*')
		return true;
	if (!take_number(at, &number))
		return false;
	*position = sign == '+' ? *position + number : sign == '-' ? *position - number : number;
	return true;
}

static bool take_positions(struct reader *reader, struct bytes *at)
{
	uint64_t line = (uint64_t)reader->line;
	if (reader->has_instr && !take_position(at, &reader->instr))
		return false;
	if (reader->has_line && !take_position(at, &line))
		return false;
	/* Beyond what lines can be: a relative one that was written of another position. */
	reader->line = (int64_t)line < 0 || (int64_t)line > INT32_MAX ? 0 : (int64_t)line;
	return true;
}

/* ---- names ---- */

/* "(12) NAME", "(12)" or "NAME" */
static int read_name(struct reader *reader, struct map64 *names, struct bytes text, uint32_t *ret, struct error *err)
{
	struct bytes at = text;
	uint64_t number = 0;
	bool numbered = text.len > 2 && text.data[0] == '(' && text_is_digit(text.data[1]);
	if (numbered) {
		at = bytes_skip(text, 1);
		numbered = take_number(&at, &number) && at.len > 0 && at.data[0] == ')';
	}
	if (!numbered)
		return profile_add_bytes(reader->graph.profile, text, ret, err);
	at = bytes_skip(at, 1);
	skip_blanks(&at);
	if (at.len == 0)
		return format_known(names, number, ret)
			       ? 0
			       : error_set(err, -EBADMSG, "the name (%llu) is used before it is defined",
					   (unsigned long long)number);
	int r = profile_add_bytes(reader->graph.profile, at, ret, err);
	return r < 0 ? r : map64_put(names, number, *ret) < 0 ? error_nomem(err) : 0;
}

/* "ob=", "fn=" and their like; positive if the line is none of them. */
static int read_specification(struct reader *reader, struct bytes line, struct error *err)
{
	int r;
	if (bytes_start_with(line, "ob="))
		return read_name(reader, &reader->objects, bytes_skip(line, 3), &reader->object, err);
	if (bytes_start_with(line, "fl=") || bytes_start_with(line, "fi=") || bytes_start_with(line, "fe="))
		return read_name(reader, &reader->files, bytes_skip(line, 3), &reader->file, err);
	if (bytes_start_with(line, "fn=")) {
		r = read_name(reader, &reader->functions, bytes_skip(line, 3), &reader->function_name, err);
		if (r == 0)
			r = callgrind_find_function(&reader->graph, reader->function_name, reader->file, &reader->function,
						    err);
		if (r < 0)
			return r;
		reader->graph.functions[reader->function].object = reader->object;
		reader->has_function = true;
		return 0;
	}
	if (bytes_start_with(line, "cob="))
		return read_name(reader, &reader->objects, bytes_skip(line, 4), &reader->called_object, err);
	if (bytes_start_with(line, "cfi=") || bytes_start_with(line, "cfl=")) {
		reader->has_called_file = true;
		return read_name(reader, &reader->files, bytes_skip(line, 4), &reader->called_file, err);
	}
	if (bytes_start_with(line, "cfn=")) {
		reader->has_called_name = true;
		return read_name(reader, &reader->functions, bytes_skip(line, 4), &reader->called_name, err);
	}
	return 1;
}

/* ---- costs ---- */

static int read_costs(struct reader *reader, struct bytes *at, int64_t costs[LIMIT_SAMPLE_TYPES], struct error *err)
{
	memset(costs, 0, LIMIT_SAMPLE_TYPES * sizeof(*costs));
	for (size_t i = 0;; i++) {
		uint64_t number;
		skip_blanks(at);
		if (at->len == 0)
			return 0;
		bool negative = at->data[0] == '-';
		if (negative)
			*at = bytes_skip(*at, 1);
		if (!take_number(at, &number) || number > INT64_MAX ||
		    (at->len > 0 && at->data[0] != ' ' && at->data[0] != '\t'))
			return error_set(err, -EBADMSG, "a cost is not a number, or out of range");
		if (i >= reader->event_count)
			return error_set(err, -EBADMSG, "more costs than the %zu events", reader->event_count);
		costs[i] = negative ? -(int64_t)number : (int64_t)number;
	}
}

/* The function as it is at the position; the file may be another than the function's, of something that was inlined. */
static int add_location(struct reader *reader, uint32_t *ret, struct error *err)
{
	struct profile_function function = {.name = reader->function_name, .file_name = reader->file};
	struct profile_line line = {.line = reader->line};
	struct profile_mapping mapping = {.file_name = reader->object, .flags = PROFILE_MAPPING_HAS_FUNCTIONS};
	struct profile_location location = {.address = reader->has_instr ? reader->instr : 0};
	int r = profile_add_function(reader->graph.profile, &function, &line.function, err);
	if (r == 0 && reader->object)
		r = profile_add_mapping(reader->graph.profile, &mapping, &location.mapping, err);
	return r < 0 ? r : profile_add_location(reader->graph.profile, &location, &line, 1, ret, err);
}

static int read_cost_line(struct reader *reader, struct bytes line, struct error *err)
{
	struct bytes at = line;
	int64_t costs[LIMIT_SAMPLE_TYPES];
	uint32_t location, called;
	if (reader->event_count == 0)
		return error_set(err, -EBADMSG, "costs before the line \"events:\"");
	if (!take_positions(reader, &at))
		return error_set(err, -EBADMSG, "a position is not a number");
	if (reader->after_jump) {
		reader->after_jump = false;
		return 0;
	}
	int r = read_costs(reader, &at, costs, err);
	if (r == 0 && !reader->has_function)
		r = error_set(err, -EBADMSG, "costs outside of a function");
	if (r == 0)
		r = add_location(reader, &location, err);
	if (r < 0 || !reader->after_calls)
		return r < 0 ? r : callgrind_add_cost(&reader->graph, reader->function, location, costs, err);
	reader->after_calls = false;
	r = callgrind_find_function(&reader->graph, reader->called_name,
				    reader->has_called_file ? reader->called_file : reader->file, &called, err);
	reader->has_called_file = reader->has_called_name = false;
	return r < 0 ? r : callgrind_add_call(&reader->graph, reader->function, called, location, costs, err);
}

/* ---- header ---- */

/* "cpu(ms)", as `go tool pprof` writes events, is cpu in milliseconds. */
static int add_event(struct reader *reader, struct bytes name, struct error *err)
{
	static const char *const units[][2] = {{"ns", "nanoseconds"}, {"us", "microseconds"}, {"ms", "milliseconds"},
					       {"s", "seconds"},      {"B", "bytes"},	      {"kB", "kilobytes"},
					       {"MB", "megabytes"}};
	char type[EVENT_NAME_MAX], unit[EVENT_NAME_MAX] = "count";
	if (name.len >= sizeof(type))
		return error_set(err, -EBADMSG, "the name of an event is longer than %d bytes", EVENT_NAME_MAX - 1);
	memcpy(type, name.data, name.len);
	type[name.len] = '\0';
	char *open = strchr(type, '(');
	if (open && open > type && type[name.len - 1] == ')') {
		type[name.len - 1] = '\0';
		memcpy(unit, open + 1, strlen(open + 1) + 1);
		*open = '\0';
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
			if (strcmp(unit, units[i][0]) == 0)
				memcpy(unit, units[i][1], strlen(units[i][1]) + 1);
	}
	reader->event_count++;
	return profile_add_named_type(reader->graph.profile, type, unit, err);
}

static int read_events(struct reader *reader, struct bytes text, struct error *err)
{
	bool again = reader->event_count > 0;
	size_t count = 0;
	while (text.len > 0) {
		struct bytes name = {text.data, 0};
		while (name.len < text.len && text.data[name.len] != ' ' && text.data[name.len] != '\t')
			name.len++;
		text = bytes_skip(text, name.len);
		skip_blanks(&text);
		if (++count > LIMIT_SAMPLE_TYPES)
			return error_set(err, -E2BIG, "more than %d events", LIMIT_SAMPLE_TYPES);
		int r = again ? 0 : add_event(reader, name, err);
		if (r < 0)
			return r;
	}
	/* Each part of a run says it anew. */
	if (count != reader->event_count || count == 0)
		return error_set(err, -EBADMSG, "%zu events, but %zu in an earlier part", count, reader->event_count);
	return 0;
}

static int read_header(struct reader *reader, struct bytes line, struct error *err)
{
	struct profile *profile = reader->graph.profile;
	const uint8_t *colon = memchr(line.data, ':', line.len);
	struct bytes value = bytes_skip(line, (size_t)(colon - line.data) + 1);
	uint64_t number;
	skip_blanks(&value);
	if (bytes_start_with(line, "events:"))
		return read_events(reader, value, err);
	if (bytes_start_with(line, "positions:")) {
		reader->has_instr = memmem(value.data, value.len, "instr", 5);
		reader->has_line = memmem(value.data, value.len, "line", 4);
		return reader->has_instr || reader->has_line ? 0 : error_set(err, -EBADMSG, "positions must be instr or line");
	}
	if (bytes_start_with(line, "cmd:") && profile->comment_count == 0)
		return format_add_origin(profile, value, 0, err);
	if (bytes_start_with(line, "pid:") && take_number(&value, &number) && number <= INT32_MAX)
		return format_add_origin(profile, (struct bytes){0}, (int64_t)number, err);
	return 0;
}

static bool is_header(struct bytes line)
{
	size_t at = 0;
	while (at < line.len && ((line.data[at] | 0x20) >= 'a' && (line.data[at] | 0x20) <= 'z'))
		at++;
	return at > 0 && at < line.len && line.data[at] == ':';
}

static int read_line(struct reader *reader, struct bytes line, struct error *err)
{
	while (line.len > 0 && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == ' '))
		line.len--;
	skip_blanks(&line);
	if (line.len == 0 || line.data[0] == '#')
		return 0;
	if (text_is_digit(line.data[0]) || line.data[0] == '+' || line.data[0] == '-' || line.data[0] == '*')
		return read_cost_line(reader, line, err);
	if (bytes_start_with(line, "calls=")) {
		if (!reader->has_called_name || !reader->has_function)
			return error_set(err, -EBADMSG, "calls without a callee or a caller");
		reader->after_calls = true;
		return 0;
	}
	if (bytes_start_with(line, "jump=") || bytes_start_with(line, "jcnd=")) {
		reader->after_jump = true;
		reader->jumps++;
		return 0;
	}
	/* Of what was inlined: KCachegrind reads it, and nothing is known to write it. */
	if (bytes_start_with(line, "jfi=") || bytes_start_with(line, "jfn="))
		return 0;
	int r = read_specification(reader, line, err);
	if (r <= 0)
		return r;
	return is_header(line) ? read_header(reader, line, err) : error_set(err, -EBADMSG, "unknown line");
}

static int read_lines(struct reader *reader, struct bytes input, struct error *err)
{
	int r = 0;
	while (r == 0 && input.len > 0) {
		reader->line_number++;
		r = read_line(reader, bytes_take_line(&input), err);
	}
	if (r < 0)
		return error_prefix(err, r, "line %zu", reader->line_number);
	return reader->event_count > 0 ? 0 : error_set(err, -EBADMSG, "no line \"events:\"");
}

static int note(const struct reader *reader, const struct format_options *options, struct error *err)
{
	struct buffer *notes = options ? options->notes : NULL;
	if (!notes)
		return 0;
	if (reader->graph.guessed)
		buffer_printf(notes,
			      "full stacks, which the format does not have: %llu functions have several callers; their "
			      "costs are split in proportion to the costs of the calls\n",
			      (unsigned long long)reader->graph.guessed);
	if (reader->graph.call_count)
		buffer_append_string(notes, "call counts of functions\n");
	if (reader->jumps)
		buffer_printf(notes, "%llu jumps within functions\n", (unsigned long long)reader->jumps);
	return format_note_status(notes, err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	reader->has_line = true;
	map64_init_guarded(&reader->objects);
	map64_init_guarded(&reader->files);
	map64_init_guarded(&reader->functions);
	callgrind_init(&reader->graph, input.len);
	int r = profile_new(&reader->graph.profile, err);
	if (r == 0)
		r = read_lines(reader, input, err);
	if (r == 0)
		r = callgrind_make_stacks(&reader->graph, err);
	if (r == 0)
		r = note(reader, options, err);
	r = format_finish(r, reader->graph.profile, ret);
	callgrind_release(&reader->graph);
	map64_release(&reader->objects);
	map64_release(&reader->files);
	map64_release(&reader->functions);
	mem_free(reader);
	return r;
}

/* Header lines or comments, "events:" among the first of them. */
static bool detect(struct bytes input)
{
	if (bytes_start_with(input, "# callgrind format"))
		return true;
	bool has_events = false;
	for (size_t lines = 0; lines < 64 && input.len > 0; lines++) {
		struct bytes line = bytes_take_line(&input);
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (line.len == 0 || line.data[0] == '#')
			continue;
		if (!is_header(line))
			return has_events && (bytes_start_with(line, "fl=") || bytes_start_with(line, "fn=") ||
					      bytes_start_with(line, "ob="));
		has_events |= bytes_start_with(line, "events:");
	}
	return false;
}

const struct format format_callgrind = {
	.name = "callgrind",
	.extensions = ".callgrind .callgrind.out",
	.description = "call graphs for KCachegrind: valgrind, xdebug",
	.detect = detect,
	.decode = decode,
};
