/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles of Google's Java agent: heap and contention, and the names of locations; legacy.c has the layouts. */
#include <errno.h>
#include <string.h>

#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"
#include "format/legacy/legacy_int.h"

#define HEAP_RATE 524288 /* bytes; the agent's, which is in no file */

struct java {
	bool is_heap;
	bool has_types;
};

static int set_types(struct legacy *legacy, struct java *java, struct bytes unit, struct error *err)
{
	static const char *const names[2][2] = {{"contentions", "delay"}, {"inuse_objects", "inuse_space"}};
	uint32_t type, id;
	if (java->has_types)
		return 0;
	java->has_types = true;
	int r = profile_add_named_type(legacy->profile, names[java->is_heap][0], "count", err);
	if (r == 0)
		r = profile_add_cstring(legacy->profile, names[java->is_heap][1], &type, err);
	if (r == 0)
		r = profile_add_bytes(legacy->profile, unit, &id, err);
	return r < 0 ? r : profile_add_sample_type(legacy->profile, type, id, err);
}

static bool is_word(uint8_t c)
{
	return c == '_' || c == ' ' || text_is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* "KEY=VALUE" of words and blanks. */
static bool split_attribute(struct bytes line, struct bytes *ret_key, struct bytes *ret_value)
{
	const uint8_t *equals = memchr(line.data, '=', line.len);
	if (!equals)
		return false;
	size_t at = (size_t)(equals - line.data), first = at, end = at + 1;
	while (first > 0 && is_word(line.data[first - 1]))
		first--;
	while (end < line.len && is_word(line.data[end]))
		end++;
	*ret_key = legacy_trim((struct bytes){line.data + first, at - first});
	*ret_value = legacy_trim((struct bytes){line.data + at + 1, end - at - 1});
	return at > first && end > at + 1;
}

/* 1: the line is no attribute. */
static int read_attribute(struct legacy *legacy, struct java *java, struct bytes line, struct error *err)
{
	struct profile *profile = legacy->profile;
	struct bytes key, value;
	int64_t milliseconds = 0;
	bool good = false;
	if (!split_attribute(line, &key, &value))
		return 1;
	if (bytes_equal_string(key, "format")) {
		good = bytes_equal_string(value, "java");
	} else if (bytes_equal_string(key, "resolution")) {
		return set_types(legacy, java, value, err);
	} else if (!java->is_heap && bytes_equal_string(key, "sampling period")) {
		good = legacy_any_number(value, &profile->period);
		int r = format_set_period_type(profile, "contentions", "count", err);
		if (r < 0)
			return r;
	} else if (!java->is_heap && bytes_equal_string(key, "ms since reset")) {
		good = legacy_any_number(value, &milliseconds) &&
		       !__builtin_mul_overflow(milliseconds, NS_PER_MS, &profile->duration_ns);
	}
	if (good)
		return 0;
	return error_set(err, -EBADMSG, "\"%.*s\": unknown, or with a bad value", (int)(key.len < 64 ? key.len : 64),
			 (const char *)key.data);
}

/* " SECOND FIRST @ ": 1 if there is no such text in the line. */
static int read_sample(struct legacy *legacy, const struct java *java, struct bytes line, struct error *err)
{
	struct legacy_scan scan = {0};
	struct bytes texts[2];
	int64_t values[2], block_bytes = 0;
	size_t at = legacy_find_number(line, 0, false);
	for (; at < line.len; at = legacy_find_number(line, at + 1, false)) {
		scan.rest = bytes_skip(line, at);
		bool good = scan_digits(&scan, &texts[1]) && scan_text(&scan, " ");
		scan_blanks(&scan);
		good = good && scan_digits(&scan, &texts[0]) && scan_text(&scan, " ");
		scan_blanks(&scan);
		if (good && scan_text(&scan, "@ "))
			break;
	}
	if (at >= line.len)
		return 1;
	if (!legacy_any_number(texts[0], &values[0]) || !legacy_any_number(texts[1], &values[1]))
		return error_set(err, -EBADMSG, "a number is out of range");
	if (java->is_heap && values[0] == 0)
		return error_set(err, -EBADMSG, "%lld bytes of no objects", (long long)values[1]);
	if (java->is_heap) {
		block_bytes = values[1] / values[0];
		legacy_scale_heap(HEAP_RATE, &values[0], &values[1]);
	} else if (legacy->profile->period) {
		values[0] = sum_product(values[0], legacy->profile->period);
		values[1] = sum_product(values[1], legacy->profile->period);
	}
	int r = legacy_begin_sample(legacy, values, 2, err);
	if (r < 0)
		return r;
	legacy->samples[legacy->sample_count - 1].block_bytes = block_bytes;
	return legacy_add_frames(legacy, scan.rest, LEGACY_NO_RETURNS, err);
}

int legacy_read_java(struct legacy *legacy, struct bytes input, struct error *err)
{
	struct bytes rest = input;
	struct java java = {.is_heap = bytes_start_with(legacy_trim(bytes_take_line(&rest)), "--- heapz")};
	bool in_attributes = true;
	size_t number = 1;
	int r = 0;
	legacy->is_java = true;
	while (r == 0 && rest.len > 0) {
		struct bytes before = rest, line = legacy_trim(bytes_take_line(&rest));
		number++;
		if (line.len == 0)
			continue;
		if (in_attributes) {
			r = read_attribute(legacy, &java, line, err);
			in_attributes = r == 0;
		}
		if (in_attributes || r < 0)
			continue;
		if (!java.has_types) {
			r = error_set(err, -EBADMSG, "no resolution before the samples");
			break;
		}
		r = read_sample(legacy, &java, line, err);
		if (r > 0)
			return legacy_read_java_locations(legacy, before, err);
	}
	return r < 0 ? error_prefix(err, r, "line %zu", number) : 0;
}

/* ---- names ---- */

/* "FUNCTION (FILE:LINE)", "FUNCTION (PATH)", or a function. */
static void split_location(struct bytes text, struct bytes *ret_function, struct bytes *ret_file, int64_t *ret_line)
{
	const uint8_t *open = memmem(text.data, text.len, " (", 2);
	*ret_function = text;
	*ret_file = (struct bytes){0};
	*ret_line = 0;
	if (open && text.data[text.len - 1] == ')') {
		/* The last one: names may have their own. */
		for (const uint8_t *next = open; next;
		     next = memmem(open + 1, (size_t)(text.data + text.len - open - 1), " (", 2))
			open = next;
		size_t at = (size_t)(open - text.data);
		struct bytes inside = {open + 2, text.len - at - 3};
		*ret_function = legacy_trim((struct bytes){text.data, at});
		size_t digits = 0;
		while (digits < inside.len && text_is_digit(inside.data[inside.len - 1 - digits]))
			digits++;
		size_t colon = inside.len - digits;
		bool is_negative = colon > 1 && inside.data[colon - 1] == '-';
		colon -= is_negative;
		if (digits > 0 && colon > 1 && inside.data[colon - 1] == ':') {
			if (!is_negative)
				legacy_number((struct bytes){inside.data + inside.len - digits, digits}, ret_line);
			*ret_file = (struct bytes){inside.data, colon - 1};
		} else {
			*ret_file = text_base_name_of(inside);
		}
	} else if (memmem(text.data, text.len, "generated stub/JIT", 18)) {
		*ret_function = bytes_of_string("STUB");
	}
}

static int name_address(struct legacy *legacy, struct legacy_address *address, struct map64 *functions, struct bytes text,
			struct error *err)
{
	struct profile_function function = {0};
	struct bytes name, file;
	uint64_t known;
	split_location(text, &name, &file, &address->line);
	int r = profile_add_bytes(legacy->profile, name, &function.name, err);
	if (r < 0)
		return r;
	/* The file is that which the name came with first. */
	if (map64_get(functions, function.name, &known)) {
		address->function = (uint32_t)known;
		return 0;
	}
	function.system_name = function.name;
	r = profile_add_bytes(legacy->profile, file, &function.file_name, err);
	if (r == 0)
		r = profile_add_function(legacy->profile, &function, &address->function, err);
	if (r == 0 && map64_put(functions, function.name, address->function) < 0)
		r = error_nomem(err);
	return r;
}

int legacy_read_java_locations(struct legacy *legacy, struct bytes text, struct error *err)
{
	struct map64 functions;
	int r = 0;
	map64_init_guarded(&functions);
	while (r == 0 && text.len > 0) {
		struct legacy_scan scan = {legacy_trim(bytes_take_line(&text))};
		uint64_t id, number;
		size_t len = 2;
		if (scan.rest.len == 0)
			continue;
		while (len < scan.rest.len && text_hex_digit(scan.rest.data[len]) >= 0)
			len++;
		bool is_location = bytes_start_with(scan.rest, "0x") && len > 2 && len < scan.rest.len &&
				   (scan.rest.data[len] == ' ' || scan.rest.data[len] == '\t');
		if (!is_location) {
			legacy->counts.unread_lines++;
			continue;
		}
		if (!legacy_hex((struct bytes){scan.rest.data + 2, len - 2}, &id))
			r = error_set(err, -EBADMSG, "the id of a location has more than 64 bits");
		else if (map64_get(&legacy->number_of_address, id, &number))
			r = name_address(legacy, &legacy->addresses[number], &functions,
					 legacy_trim(bytes_skip(scan.rest, len)), err);
	}
	map64_release(&functions);
	return r;
}
