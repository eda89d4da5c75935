/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks, the text that flame graph scripts exchange: one line a stack, `root;caller;leaf COUNT`.
 *
 * Reading. The count stands behind the last space, so names may hold spaces. Counts with a fraction are rounded. A name's
 * ending may say what the frame is: _[k] kernel, _[j] JIT, _[i] inlined into the frame before it, which becomes one location
 * with several lines. Two counts on every line are two profiles to compare, as difffolded.pl writes them: the values "base" and
 * "new". On some of the lines they are nothing special ("thread 12 5" may well be a frame named "thread 12").
 *
 * Writing. One value of each sample, or two where they are "base" and "new" and none was asked for, summed over equal text and
 * sorted by bytes, so that the same profile gives the same file. Names are kept as they are, except that ';' becomes ':' and a
 * line break or NUL becomes a space, since the format has no escapes. A frame without a name is written as FILE+0xOFFSET,
 * 0xADDRESS or [unknown]. Labels, times, files, lines, mappings and units have no place in this format.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "format/format_int.h"

#define NUMBER_TEXT_MAX 64
#define BASE		"base"
#define NEW		"new"

/* ---- reading ---- */

struct reader {
	struct profile *profile;
	size_t line_number, line_count;
	size_t rounded;			       /* counts */
	size_t counts;			       /* a line: 1 or 2 */
	uint32_t locations[LIMIT_STACK_DEPTH]; /* root first */
	size_t location_count;
	/* The frame being put together: its lines, the outermost first. */
	struct profile_line *lines;
	size_t frame_line_count, line_capacity;
	uint32_t frame_type;
};

/* Digits with at most one point, the form that counts have. */
static bool looks_like_count(struct bytes text)
{
	size_t digits = 0, points = 0;
	for (size_t i = 0; i < text.len; i++) {
		digits += text_is_digit(text.data[i]);
		points += text.data[i] == '.';
	}
	return digits > 0 && points <= 1 && digits + points == text.len;
}

static int parse_count(struct bytes text, int64_t *ret, bool *ret_rounded)
{
	char number[NUMBER_TEXT_MAX];
	double value;
	if (text.len == 0 || text.len >= sizeof(number))
		return -EINVAL;
	memcpy(number, text.data, text.len);
	number[text.len] = '\0';
	if (strlen(number) != text.len)
		return -EINVAL;
	int r = text_parse_i64(number, ret, NULL);
	if (r != -EINVAL)
		return r;
	r = text_parse_double(number, &value, NULL);
	if (r < 0)
		return r;
	*ret_rounded = value != round(value);
	value = round(value);
	/* The doubles next to the range of int64_t are 2^63 and -2^63. */
	if (value >= 9223372036854775808.0 || value < -9223372036854775808.0)
		return -ERANGE;
	*ret = (int64_t)value;
	return 0;
}

/* Takes a suffix such as _[k] off; its letter, 0 if there is none. */
static char take_suffix(struct bytes *name)
{
	const uint8_t *end = name->data + name->len;
	if (name->len < 4 || end[-4] != '_' || end[-3] != '[' || end[-1] != ']')
		return 0;
	char letter = (char)end[-2];
	if (letter != 'k' && letter != 'i' && letter != 'j')
		return 0;
	name->len -= 4;
	return letter;
}

/* The frame is complete: its lines, innermost first, become a location. */
static int finish_frame(struct reader *reader, struct error *err)
{
	if (reader->frame_line_count == 0)
		return 0;
	if (reader->location_count == LIMIT_STACK_DEPTH)
		return error_set(err, -E2BIG, "the stack is deeper than %d frames, the limit", LIMIT_STACK_DEPTH);
	for (size_t i = 0, j = reader->frame_line_count - 1; i < j; i++, j--) {
		struct profile_line swap = reader->lines[i];
		reader->lines[i] = reader->lines[j];
		reader->lines[j] = swap;
	}
	struct profile_location location = {.frame_type = reader->frame_type};
	int r = profile_add_location(reader->profile, &location, reader->lines, reader->frame_line_count,
				     &reader->locations[reader->location_count], err);
	if (r < 0)
		return r;
	reader->location_count++;
	reader->frame_line_count = 0;
	return 0;
}

static int read_frame(struct reader *reader, struct bytes name, struct error *err)
{
	char suffix = take_suffix(&name);
	if (suffix != 'i') {
		int r = finish_frame(reader, err);
		if (r < 0)
			return r;
		reader->frame_type = suffix == 'k'   ? PROFILE_FRAME_KERNEL
				     : suffix == 'j' ? PROFILE_FRAME_JIT
						     : PROFILE_FRAME_UNKNOWN;
	} else if (reader->frame_line_count == 0) {
		reader->frame_type = PROFILE_FRAME_UNKNOWN;
	}
	struct profile_function function = {0};
	struct profile_line line = {0};
	int r = profile_add_bytes(reader->profile, name, &function.name, err);
	if (r == 0)
		r = profile_add_function(reader->profile, &function, &line.function, err);
	if (r < 0)
		return r;
	r = array_push(&reader->lines, &reader->frame_line_count, &reader->line_capacity, SIZE_MAX, line);
	return r < 0 ? error_nomem(err) : 0;
}

static int read_stack(struct reader *reader, struct bytes text, uint32_t *ret, struct error *err)
{
	reader->location_count = 0;
	reader->frame_line_count = 0;
	int r = 0;
	while (text.len > 0 && r == 0) {
		const uint8_t *end = memchr(text.data, ';', text.len);
		size_t len = end ? (size_t)(end - text.data) : text.len;
		r = read_frame(reader, (struct bytes){text.data, len}, err);
		size_t used = end ? len + 1 : len;
		text = (struct bytes){text.data + used, text.len - used};
	}
	if (r == 0)
		r = finish_frame(reader, err);
	uint32_t stack = 0;
	for (size_t i = 0; i < reader->location_count && r == 0; i++)
		r = profile_add_stack(reader->profile, stack, reader->locations[i], &stack, err);
	*ret = stack;
	return r;
}

static const uint8_t *last_space(struct bytes text)
{
	return text.len ? memrchr(text.data, ' ', text.len) : NULL;
}

/* The count at the end of *line, which becomes what is before it. */
static int take_count(struct reader *reader, struct bytes *line, int64_t *ret, struct error *err)
{
	bool rounded = false;
	const uint8_t *space = last_space(*line);
	if (!space)
		return error_set(err, -EBADMSG, "no count; a line is \"root;caller;leaf COUNT\"");
	struct bytes count = {space + 1, (size_t)(line->data + line->len - space - 1)};
	int r = parse_count(count, ret, &rounded);
	if (r < 0)
		return error_set(err, -EBADMSG, "the count \"%.*s\" %s", (int)(count.len < 32 ? count.len : 32),
				 (const char *)count.data, r == -ERANGE ? "does not fit into 64 bits" : "is not a number");
	reader->rounded += rounded;
	line->len = (size_t)(space - line->data);
	return 0;
}

static struct bytes trim_end(struct bytes line)
{
	while (line.len > 0 &&
	       (line.data[line.len - 1] == ' ' || line.data[line.len - 1] == '\r' || line.data[line.len - 1] == '\t'))
		line.len--;
	return line;
}

static int read_line(struct reader *reader, struct bytes line, struct error *err)
{
	int64_t values[2];
	int r = 0;
	line = trim_end(line);
	if (line.len == 0)
		return 0;
	/* The last one is the last value. */
	for (size_t i = reader->counts; r == 0 && i-- > 0;)
		r = take_count(reader, &line, &values[i], err);
	reader->line_count++;
	struct profile_sample sample = {0};
	if (r == 0)
		r = read_stack(reader, line, &sample.stack, err);
	return r < 0 ? r : profile_add_sample(reader->profile, &sample, values, err);
}

/* Whether all lines have two counts behind a stack. A number too large for one is the end of a name. */
static bool has_two_counts(struct bytes input)
{
	bool any = false, rounded;
	int64_t value;
	while (input.len > 0) {
		struct bytes line = trim_end(bytes_take_line(&input));
		if (line.len == 0)
			continue;
		for (size_t i = 0; i < 2; i++) {
			const uint8_t *space = last_space(line);
			if (!space)
				return false;
			struct bytes count = {space + 1, (size_t)(line.data + line.len - space - 1)};
			if (!looks_like_count(count) || (i == 1 && parse_count(count, &value, &rounded) < 0))
				return false;
			line.len = (size_t)(space - line.data);
		}
		any = true;
	}
	return any;
}

static int read_lines(struct reader *reader, struct bytes input, struct error *err)
{
	while (input.len > 0) {
		struct bytes line = bytes_take_line(&input);
		reader->line_number++;
		int r = read_line(reader, line, err);
		if (r < 0)
			return error_prefix(err, r, "line %zu", reader->line_number);
	}
	return reader->line_count > 0 ? 0 : error_set(err, -EBADMSG, "the folded input has no stacks");
}

static int add_types(struct reader *reader, struct error *err)
{
	if (reader->counts == 1)
		return profile_add_named_type(reader->profile, "samples", "count", err);
	int r = profile_add_named_type(reader->profile, BASE, "count", err);
	return r < 0 ? r : profile_add_named_type(reader->profile, NEW, "count", err);
}

int folded_decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	if (input.len > 0 && memchr(input.data, '\0', input.len))
		return error_set(err, -EBADMSG, "not folded stacks: NUL byte in the text");
	struct reader *reader = mem_zalloc(sizeof(*reader));
	if (!reader)
		return error_nomem(err);
	reader->counts = has_two_counts(input) ? 2 : 1;
	int r = profile_new(&reader->profile, err);
	if (r == 0)
		r = add_types(reader, err);
	if (r == 0)
		r = read_lines(reader, input, err);
	if (r == 0 && reader->rounded && options && options->notes) {
		buffer_printf(options->notes, "fractions of %zu counts\n", reader->rounded);
		r = format_note_status(options->notes, err);
	}
	r = format_finish(r, reader->profile, ret);
	mem_free(reader->lines);
	mem_free(reader);
	return r;
}

/* Printable text whose first line that is not empty ends in a count. */
static bool detect(struct bytes input)
{
	while (input.len > 0 && (input.data[0] == '\n' || input.data[0] == '\r'))
		input = (struct bytes){input.data + 1, input.len - 1};
	const uint8_t *end = input.len ? memchr(input.data, '\n', input.len) : NULL;
	struct bytes line = {input.data, end ? (size_t)(end - input.data) : input.len};
	while (line.len > 0 && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == ' '))
		line.len--;
	const uint8_t *space = last_space(line);
	int64_t value;
	bool rounded;
	if (!space || memchr(line.data, '\0', line.len) || line.data[0] == '{')
		return false;
	return parse_count((struct bytes){space + 1, (size_t)(line.data + line.len - space - 1)}, &value, &rounded) == 0;
}

/* ---- writing ---- */

struct folded_line {
	size_t at, len; /* in writer.text */
	int64_t values[2];
};

struct writer {
	const struct profile *profile;
	struct buffer text; /* all stacks, one behind the other */
	struct folded_line *lines;
	size_t count;
	size_t columns[2], column_count; /* the values that are written */
	uint32_t stack[LIMIT_STACK_DEPTH];
};

/* What was appended since `from` may be no part of the syntax. */
static void protect(struct writer *writer, size_t from)
{
	for (size_t i = from; i < writer->text.len; i++) {
		uint8_t *p = &writer->text.data[i];
		if (*p == ';')
			*p = ':';
		else if (*p == '\n' || *p == '\r' || *p == '\0')
			*p = ' ';
	}
}

/* A location is one frame a line, the outermost function first. */
static void put_location(struct writer *writer, uint32_t id)
{
	const struct profile_location *location = &writer->profile->locations[id];
	const char *suffix = location->frame_type == PROFILE_FRAME_KERNEL ? "_[k]"
			     : location->frame_type == PROFILE_FRAME_JIT  ? "_[j]"
									  : "";
	size_t from = writer->text.len;
	if (location->line_count == 0) {
		format_append_address(writer->profile, id, &writer->text);
		protect(writer, from);
		buffer_append_string(&writer->text, suffix);
	}
	for (uint32_t i = location->line_count; i-- > 0;) {
		from = writer->text.len;
		format_append_function(writer->profile, writer->profile->lines[location->line_first + i].function,
				       &writer->text);
		protect(writer, from);
		buffer_append_string(&writer->text, i + 1 == location->line_count ? suffix : "_[i]");
		if (i > 0)
			buffer_append_byte(&writer->text, ';');
	}
}

static void put_stack(struct writer *writer, uint32_t stack)
{
	size_t depth = profile_stack_locations(writer->profile, stack, writer->stack, LIMIT_STACK_DEPTH);
	if (depth == 0)
		buffer_append_string(&writer->text, "[unknown]");
	for (size_t i = depth; i-- > 0;) {
		put_location(writer, writer->stack[i]);
		if (i > 0)
			buffer_append_byte(&writer->text, ';');
	}
}

static int compare_lines(const void *left, const void *right, void *context)
{
	const struct folded_line *a = left, *b = right;
	const uint8_t *text = context;
	return bytes_compare((struct bytes){text + a->at, a->len}, (struct bytes){text + b->at, b->len});
}

/* One line a stack, whatever the labels. */
static int collect_lines(struct writer *writer)
{
	const struct profile *profile = writer->profile;
	size_t columns = writer->column_count, used = 0;
	_cleanup_(mem_freep) int64_t *sums = mem_zalloc_array(profile->stack_count, columns * sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < profile->sample_count; i++)
		for (size_t c = 0; c < columns; c++)
			sum_to(&sums[profile->samples[i].stack * columns + c],
			       profile->values[i * profile->sample_type_count + writer->columns[c]]);
	for (size_t i = 0; i < profile->stack_count; i++)
		used += (sums[i * columns] | sums[i * columns + columns - 1]) != 0;
	writer->lines = mem_alloc_array(used, sizeof(*writer->lines));
	if (!writer->lines)
		return -ENOMEM;
	for (size_t i = 0; i < profile->stack_count; i++) {
		const int64_t *sum = &sums[i * columns];
		if ((sum[0] | sum[columns - 1]) == 0)
			continue;
		size_t at = writer->text.len;
		put_stack(writer, (uint32_t)i);
		if (buffer_status(&writer->text) < 0)
			return buffer_status(&writer->text);
		writer->lines[writer->count++] = (struct folded_line){at, writer->text.len - at, {sum[0], sum[columns - 1]}};
	}
	return 0;
}

static int write_lines(struct writer *writer, struct format_sink *sink, struct error *err)
{
	struct buffer *out = sink->out;
	int r = 0;
	sort_array_by(writer->lines, writer->count, compare_lines, writer->text.data);
	for (size_t i = 0, next; i < writer->count && r == 0 && buffer_status(out) == 0; i = next) {
		int64_t sums[2] = {0};
		for (next = i; next < writer->count; next++) {
			if (compare_lines(&writer->lines[i], &writer->lines[next], writer->text.data) != 0)
				break;
			sum_to(&sums[0], writer->lines[next].values[0]);
			sum_to(&sums[1], writer->lines[next].values[1]);
		}
		if ((sums[0] | sums[1]) == 0)
			continue;
		buffer_append(out, writer->text.data + writer->lines[i].at, writer->lines[i].len);
		for (size_t c = 0; c < writer->column_count; c++)
			buffer_printf(out, " %lld", (long long)sums[c]);
		buffer_append_byte(out, '\n');
		r = format_sink_drain(sink, false, err);
	}
	return r < 0 ? r : buffer_status(out) < 0 ? format_buffer_error(buffer_status(out), out, "the folded output", err) : 0;
}

bool folded_holds_both(const struct profile *profile)
{
	return profile->sample_type_count == 2 && !profile->default_sample_type &&
	       strcmp(profile_string(profile, profile->sample_types[0].type), BASE) == 0 &&
	       strcmp(profile_string(profile, profile->sample_types[1].type), NEW) == 0;
}

static int choose_columns(struct writer *writer, const char *sample_type, struct error *err)
{
	const struct profile *profile = writer->profile;
	if (!sample_type && folded_holds_both(profile)) {
		writer->columns[1] = 1;
		writer->column_count = 2;
		return 0;
	}
	writer->column_count = 1;
	return profile_find_sample_type(profile, sample_type, &writer->columns[0], err);
}

int folded_write(const struct profile *profile, const struct format_options *options, struct format_sink *sink,
		 struct error *err)
{
	struct writer *writer = mem_zalloc(sizeof(*writer));
	if (!writer)
		return error_nomem(err);
	writer->profile = profile;
	buffer_init(&writer->text, LIMIT_PROFILE_FILE_BYTES);
	int r = choose_columns(writer, options ? options->sample_type : NULL, err);
	if (r < 0)
		goto out;
	r = collect_lines(writer);
	if (r < 0)
		r = format_buffer_error(r, &writer->text, "the folded output", err);
	else
		r = write_lines(writer, sink, err);
out:
	buffer_release(&writer->text);
	mem_free(writer->lines);
	mem_free(writer);
	return r;
}

int folded_encode(const struct profile *profile, const struct format_options *options, struct buffer *out, struct error *err)
{
	size_t before = out->len;
	int r = folded_write(profile, options, &(struct format_sink){.out = out}, err);
	if (r < 0)
		buffer_truncate(out, before);
	return r;
}

const struct format format_folded = {
	.name = "folded",
	.extensions = ".folded .collapsed",
	.description = "folded stacks, one \"root;caller;leaf COUNT\" a line: flame graph scripts",
	.holds = FORMAT_HOLDS_INLINES | FORMAT_HOLDS_FRAME_TYPES,
	.detect = detect,
	.decode = folded_decode,
	.write = folded_write,
};
