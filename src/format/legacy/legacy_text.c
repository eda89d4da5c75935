/* SPDX-License-Identifier: Apache-2.0 */
/* Heap, growth, counts, threads and contention as text; legacy.c has the layouts. */
#include <errno.h>
#include <string.h>

#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"
#include "format/legacy/legacy_int.h"

static int add_types(struct legacy *legacy, const char *const (*types)[2], size_t count, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = profile_add_named_type(legacy->profile, types[i][0], types[i][1], err);
	return r;
}

static struct bytes between(struct bytes whole, struct bytes rest)
{
	return (struct bytes){whole.data, (size_t)(rest.data - whole.data)};
}

/* ---- heap ---- */

enum heap_sampling { SAMPLING_NONE, SAMPLING_POISSON };
struct heap {
	enum heap_sampling sampling;
	bool has_allocations; /* the numbers in brackets */
};

/* "N: BYTES [N: BYTES]", where `tail` comes next. */
static bool scan_four(struct legacy_scan *scan, bool is_signed, const char *tail, struct bytes ret[4])
{
	static const char *const behind[] = {":", "[", ":", "]"};
	for (unsigned i = 0; i < 4; i++) {
		const uint8_t *start = scan->rest.data;
		if (is_signed && i < 2)
			scan_text(scan, "-");
		if (!scan_digits(scan, &ret[i]))
			return false;
		ret[i] = (struct bytes){start, (size_t)(scan->rest.data - start)};
		if (i == 1 || i == 3)
			scan_blanks(scan);
		if (!scan_text(scan, behind[i]))
			return false;
		if (i < 3)
			scan_blanks(scan);
	}
	return scan_text(scan, tail);
}

static bool is_any_of(struct bytes text, const char *a, const char *b)
{
	return bytes_equal_string(text, a) || bytes_equal_string(text, b);
}

/* What follows the '@' of the header: "heap_v2/RATE", "heapprofile", "growthz" ... */
static bool read_heap_kind(struct legacy *legacy, struct legacy_scan *scan, struct heap *ret)
{
	struct bytes name = scan->rest, digits = {0};
	size_t len = 0;
	while (len < name.len &&
	       (name.data[len] == '_' || text_is_digit(name.data[len]) || (name.data[len] >= 'a' && name.data[len] <= 'z')))
		len++;
	name.len = len;
	scan->rest = bytes_skip(scan->rest, len);
	scan_text(scan, "/");
	scan_digits(scan, &digits);
	legacy->profile->period = 0;
	if (digits.len > 0 && !legacy_number(digits, &legacy->profile->period))
		return false;
	if (is_any_of(name, "heapz_v2", "heap_v2")) {
		ret->sampling = SAMPLING_POISSON;
	} else if (bytes_equal_string(name, "heap")) {
		ret->sampling = SAMPLING_POISSON;
		legacy->profile->period /= 2;
	} else if (bytes_equal_string(name, "heapprofile")) {
		legacy->profile->period = 1;
	} else if (bytes_start_with(name, "growth") || bytes_start_with(name, "fragmentation")) {
		legacy->profile->period = 1;
		ret->has_allocations = false;
	} else {
		return false;
	}
	return true;
}

static bool read_heap_header(struct legacy *legacy, struct bytes line, struct heap *ret)
{
	static const char head[] = "heap profile:";
	const uint8_t *at = memmem(line.data, line.len, head, sizeof(head) - 1);
	struct bytes numbers[4];
	if (!at)
		return false;
	struct legacy_scan scan = {bytes_skip(line, (size_t)(at - line.data) + sizeof(head) - 1)};
	scan_blanks(&scan);
	if (!scan_four(&scan, false, "", numbers))
		return false;
	scan_blanks(&scan);
	if (!scan_text(&scan, "@"))
		return false;
	scan_blanks(&scan);
	ret->has_allocations = (!bytes_equal(numbers[2], numbers[0]) && !bytes_equal_string(numbers[2], "0")) ||
			       (!bytes_equal(numbers[3], numbers[1]) && !bytes_equal_string(numbers[3], "0"));
	return read_heap_kind(legacy, &scan, ret);
}

static int heap_values(const struct legacy *legacy, const struct heap *heap, struct bytes count_text, struct bytes size_text,
		       int64_t values[2], int64_t *block_bytes, struct error *err)
{
	int64_t count, size;
	if (!legacy_number(count_text, &count) || !legacy_number(size_text, &size))
		return error_set(err, -EBADMSG, "a number is out of range");
	if (count == 0 && size != 0)
		return error_set(err, -EBADMSG, "%lld bytes of no objects", (long long)size);
	if (count != 0) {
		/* The quotient does not fit. */
		if (count == -1 && size == INT64_MIN)
			return error_set(err, -EBADMSG, "a number is out of range");
		*block_bytes = size / count;
		if (heap->sampling == SAMPLING_POISSON)
			legacy_scale_heap(legacy->profile->period, &count, &size);
	}
	values[0] = count;
	values[1] = size;
	return 0;
}

static int read_heap_sample(struct legacy *legacy, const struct heap *heap, struct bytes line, struct error *err)
{
	struct legacy_scan scan = {0};
	struct bytes numbers[4];
	size_t at = legacy_find_number(line, 0, true);
	for (; at < line.len; at = legacy_find_number(line, at + 1 + (line.data[at] == '-'), true)) {
		scan.rest = bytes_skip(line, at);
		if (scan_four(&scan, true, " @", numbers))
			break;
	}
	if (at >= line.len)
		return error_set(err, -EBADMSG, "not a sample");
	int64_t values[4], block_bytes = 0;
	size_t columns = heap->has_allocations ? 4 : 2;
	int r = 0;
	if (heap->has_allocations)
		r = heap_values(legacy, heap, numbers[2], numbers[3], values, &block_bytes, err);
	if (r == 0)
		r = heap_values(legacy, heap, numbers[0], numbers[1], values + columns - 2, &block_bytes, err);
	if (r == 0)
		r = legacy_begin_sample(legacy, values, columns, err);
	if (r < 0)
		return r;
	legacy->samples[legacy->sample_count - 1].block_bytes = block_bytes;
	size_t len = 0;
	while (len < scan.rest.len &&
	       (scan.rest.data[len] == ' ' || scan.rest.data[len] == 'x' || text_is_digit(scan.rest.data[len]) ||
		(scan.rest.data[len] >= 'a' && scan.rest.data[len] <= 'f')))
		len++;
	return legacy_add_frames(legacy, (struct bytes){scan.rest.data, len}, 0, err);
}

int legacy_read_heap(struct legacy *legacy, struct bytes input, struct error *err)
{
	static const char *const with_allocations[][2] = {{"alloc_objects", "count"},
							  {"alloc_space", "bytes"},
							  {"inuse_objects", "count"},
							  {"inuse_space", "bytes"}},
				 *const plain[][2] = {{"objects", "count"}, {"space", "bytes"}};
	struct bytes rest = input;
	struct heap heap = {0};
	size_t number = 1;
	if (!read_heap_header(legacy, bytes_take_line(&rest), &heap))
		return error_set(err, -EBADMSG, "unknown header");
	int r = format_set_period_type(legacy->profile, "space", "bytes", err);
	if (r == 0)
		r = heap.has_allocations ? add_types(legacy, with_allocations, 4, err) : add_types(legacy, plain, 2, err);
	while (r == 0 && rest.len > 0) {
		struct bytes before = rest, line = legacy_trim(bytes_take_line(&rest));
		number++;
		if (legacy_begins_maps(line))
			return legacy_find_maps(legacy, before, err);
		if (!legacy_is_comment(line))
			r = read_heap_sample(legacy, &heap, line, err);
	}
	return r < 0 ? error_prefix(err, r, "line %zu", number) : 0;
}

/* ---- Go's counts ---- */

static int read_count(struct legacy *legacy, struct bytes line, struct error *err)
{
	struct legacy_scan scan = {line};
	struct bytes digits;
	int64_t count;
	if (!scan_digits(&scan, &digits) || !scan_text(&scan, " @") || scan.rest.len == 0 || !legacy_any_number(digits, &count))
		return error_set(err, -EBADMSG, "not a sample");
	/* Nothing but addresses. */
	for (struct bytes rest = scan.rest; rest.len > 0;) {
		size_t len = 3;
		while (len < rest.len && rest.data[len] != ' ')
			if (text_hex_digit(rest.data[len++]) < 0)
				return error_set(err, -EBADMSG, "not a sample");
		if (!bytes_start_with(rest, " 0x") || len == 3)
			return error_set(err, -EBADMSG, "not a sample");
		rest = bytes_skip(rest, len);
	}
	int r = legacy_begin_sample(legacy, &count, 1, err);
	return r < 0 ? r : legacy_add_frames(legacy, scan.rest, 0, err);
}

int legacy_read_counts(struct legacy *legacy, struct bytes input, struct error *err)
{
	struct bytes rest = input, line = {0};
	size_t number = 0;
	do {
		line = bytes_take_line(&rest);
		number++;
	} while (rest.len > 0 && legacy_is_comment(line));
	const uint8_t *blank = memchr(line.data, ' ', line.len);
	struct profile_value_type type;
	int r = profile_add_bytes(legacy->profile, between(line, (struct bytes){blank ? blank : line.data, 0}), &type.type,
				  err);
	if (r == 0)
		r = profile_add_cstring(legacy->profile, "count", &type.unit, err);
	if (r == 0)
		r = profile_add_sample_type(legacy->profile, type.type, type.unit, err);
	if (r < 0)
		return r;
	legacy->profile->period_type = type;
	legacy->profile->period = 1;
	while (rest.len > 0) {
		struct bytes before = rest;
		line = bytes_take_line(&rest);
		number++;
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (legacy_is_comment(line))
			continue;
		if (bytes_start_with(line, "---"))
			return legacy_find_maps(legacy, before, err);
		r = read_count(legacy, line, err);
		if (r < 0)
			return error_prefix(err, r, "line %zu", number);
	}
	return 0;
}

/* ---- threads ---- */

/* "--- Thread ID (name: NAME/ID) stack: ---" */
static bool is_thread(struct bytes line)
{
	static const char head[] = "--- Thread ", name[] = " (name: ", tail[] = ") stack: ---";
	const uint8_t *at = memmem(line.data, line.len, head, sizeof(head) - 1);
	if (!at)
		return false;
	struct bytes rest = bytes_skip(line, (size_t)(at - line.data) + sizeof(head) - 1);
	size_t len = 0;
	while (len < rest.len && text_hex_digit(rest.data[len]) >= 0)
		len++;
	rest = bytes_skip(rest, len);
	const uint8_t *end = memmem(rest.data, rest.len, tail, sizeof(tail) - 1);
	if (len == 0 || !end || !bytes_start_with(rest, name))
		return false;
	struct bytes inside = between(rest, (struct bytes){end, 0});
	size_t digits = 0;
	while (digits < inside.len && text_is_digit(inside.data[inside.len - 1 - digits]))
		digits++;
	return digits > 0 && digits + sizeof(name) - 1 < inside.len && inside.data[inside.len - 1 - digits] == '/';
}

/* The lines of a thread, up to the next one that begins with "---", which is left. One without frames is as the one before. */
static int read_thread(struct legacy *legacy, struct bytes *rest, struct error *err)
{
	static const char same[] = "same as previous thread";
	const size_t first = legacy->frame_count;
	struct bytes text = *rest;
	while (text.len > 0) {
		struct bytes before = text;
		if (bytes_start_with(legacy_trim(bytes_take_line(&text)), "---")) {
			text = before;
			break;
		}
	}
	struct bytes lines = between(*rest, text);
	*rest = text;
	int r = legacy_begin_sample(legacy, (int64_t[]){1}, 1, err);
	if (r == 0)
		r = legacy_add_frames(legacy, lines, 1, err);
	if (r < 0)
		return r;
	if (legacy->frame_count > first && !memmem(lines.data, lines.len, same, sizeof(same) - 1))
		return 0;
	legacy->frame_count = first;
	if (--legacy->sample_count > 0)
		legacy->samples[legacy->sample_count - 1].values[0]++;
	return 0;
}

int legacy_read_threads(struct legacy *legacy, struct bytes input, struct error *err)
{
	static const char *const types[][2] = {{"thread", "count"}};
	struct bytes rest = input, line = {0}, before = input;
	do {
		before = rest;
		line = bytes_take_line(&rest);
	} while (rest.len > 0 && legacy_is_comment(line));
	/* Comments come before the first stack. */
	if (bytes_start_with(legacy_trim(line), "--- threadz ")) {
		do {
			before = rest;
			line = rest.len > 0 ? bytes_take_line(&rest) : (struct bytes){rest.data, 0};
		} while (rest.len > 0 && !legacy_begins_maps(line) && !bytes_start_with(line, "-"));
	}
	int r = add_types(legacy, types, 1, err);
	if (r == 0)
		r = format_set_period_type(legacy->profile, "thread", "count", err);
	legacy->profile->period = 1;
	while (r == 0 && !legacy_begins_maps(line) && !bytes_start_with(line, "---- no stack trace for")) {
		if (!is_thread(line))
			return error_set(err, -EBADMSG,
					 rest.len == 0 ? "truncated: neither a thread nor the mappings come last"
						       : "a line that begins neither a thread nor the mappings");
		r = read_thread(legacy, &rest, err);
		before = rest;
		line = rest.len > 0 ? bytes_take_line(&rest) : (struct bytes){rest.data, 0};
	}
	if (r == 0)
		r = legacy_find_maps(legacy, before, err);
	if (r == 0)
		legacy_drop_doubled_leaves(legacy);
	return r;
}

/* ---- contention ---- */

struct contention {
	int64_t cycles_per_second;
};

/* A line "KEY = VALUE". 1: it is none. */
static int read_attribute(struct legacy *legacy, struct contention *contention, struct bytes line, struct error *err)
{
	const uint8_t *equals = memchr(line.data, '=', line.len);
	int64_t milliseconds = 0;
	if (!equals)
		return 1;
	struct bytes key = legacy_trim(between(line, (struct bytes){equals, 0}));
	struct bytes value = legacy_trim(bytes_skip(line, (size_t)(equals - line.data) + 1));
	bool good = false;
	if (bytes_equal_string(key, "cycles/second"))
		good = legacy_any_number(value, &contention->cycles_per_second);
	else if (bytes_equal_string(key, "sampling period"))
		good = legacy_any_number(value, &legacy->profile->period);
	else if (bytes_equal_string(key, "ms since reset"))
		good = legacy_any_number(value, &milliseconds) &&
		       !__builtin_mul_overflow(milliseconds, NS_PER_MS, &legacy->profile->duration_ns);
	else
		good = bytes_equal_string(key, "discarded samples");
	if (good)
		return 0;
	return error_set(err, -EBADMSG, "\"%.*s\": unknown, or with a bad value", (int)(key.len < 64 ? key.len : 64),
			 (const char *)key.data);
}

/* "DELAY COUNT @"; without a blank between the two, the last digit is the count, as for google/pprof. */
static bool scan_contention(struct legacy_scan *scan, struct bytes ret[2])
{
	if (!scan_digits(scan, &ret[0]))
		return false;
	struct legacy_scan behind = *scan;
	scan_blanks(scan);
	if (!scan_digits(scan, &ret[1])) {
		*scan = behind;
		ret[0].len--;
		ret[1] = (struct bytes){ret[0].data + ret[0].len, 1};
	}
	return ret[0].len > 0 && scan_text(scan, " @");
}

static int read_contention_sample(struct legacy *legacy, const struct contention *contention, struct bytes line,
				  struct error *err)
{
	struct legacy_scan scan = {0};
	struct bytes texts[2];
	int64_t delay, count, period = legacy->profile->period;
	size_t at = legacy_find_number(line, 0, false);
	for (; at < line.len; at = legacy_find_number(line, at + 1, false)) {
		scan.rest = bytes_skip(line, at);
		if (scan_contention(&scan, texts))
			break;
	}
	if (at >= line.len)
		return error_set(err, -EBADMSG, "not a sample");
	if (!legacy_number(texts[0], &delay) || !legacy_number(texts[1], &count))
		return error_set(err, -EBADMSG, "a number is out of range");
	if (period > 0) {
		if (contention->cycles_per_second > 0)
			delay = legacy_clamp((double)delay * (double)period / ((double)contention->cycles_per_second / 1e9));
		count = sum_product(count, period);
	}
	int r = legacy_begin_sample(legacy, (int64_t[]){count, delay}, 2, err);
	return r < 0 ? r : legacy_add_frames(legacy, scan.rest, 0, err);
}

int legacy_read_contention(struct legacy *legacy, struct bytes input, struct error *err)
{
	static const char *const types[][2] = {{"contentions", "count"}, {"delay", "nanoseconds"}};
	struct contention contention = {0};
	struct bytes rest = input, before;
	bool in_attributes = true;
	size_t number = 1;
	int r = add_types(legacy, types, 2, err);
	if (r == 0)
		r = format_set_period_type(legacy->profile, "contentions", "count", err);
	legacy->profile->period = 1;
	bytes_take_line(&rest);
	while (r == 0 && rest.len > 0) {
		before = rest;
		struct bytes line = legacy_trim(bytes_take_line(&rest));
		number++;
		if (legacy_is_comment(line))
			continue;
		if (bytes_start_with(line, "---"))
			return legacy_find_maps(legacy, before, err);
		if (in_attributes) {
			r = read_attribute(legacy, &contention, line, err);
			in_attributes = r == 0;
		}
		if (!in_attributes && r >= 0)
			r = read_contention_sample(legacy, &contention, line, err);
	}
	return r < 0 ? error_prefix(err, r, "line %zu", number) : 0;
}
