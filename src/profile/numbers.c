/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/text.h"

#define COUNT_MAX (LIMIT_NUMBERS_BYTES / 3) /* "=1," is the shortest one */

/* ---- writing ---- */

struct number {
	struct bytes key, unit;
	int64_t number;
};

DEFINE_ORDER(compare_numbers, struct number,
	     bytes_compare(a->key, b->key) ?: ORDER(a->number, b->number) ?: bytes_compare(a->unit, b->unit));

static void append_escaped(struct bytes text, const char *escaped, struct buffer *out)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] && strchr(escaped, text.data[i]))
			buffer_append_byte(out, '\\');
		buffer_append_byte(out, text.data[i]);
	}
}

static void append_number(const struct number *number, struct buffer *out)
{
	append_escaped(number->key, "=,\\", out);
	buffer_printf(out, "=%" PRId64, number->number);
	if (!number->unit.len)
		return;
	buffer_append_byte(out, ' ');
	append_escaped(number->unit, ",\\", out);
}

int numbers_format(const struct profile *profile, uint32_t set, struct buffer *out)
{
	const struct profile_label_set *labels = &profile->label_sets[set];
	struct number numbers[COUNT_MAX];
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_NUMBERS_BYTES};
	if (labels->count > COUNT_MAX)
		return -E2BIG;
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *label = &profile->labels[labels->first + i];
		numbers[i] = (struct number){.key = profile_string_bytes(profile, label->key),
					     .unit = profile_string_bytes(profile, label->unit),
					     .number = label->number};
	}
	sort_array(numbers, labels->count, compare_numbers);
	for (uint32_t i = 0; i < labels->count; i++) {
		if (i)
			buffer_append_byte(&text, ',');
		append_number(&numbers[i], &text);
	}
	int r = buffer_status(&text);
	return r < 0 ? r : buffer_append_buffer(out, &text);
}

/* ---- reading ---- */

void numbers_begin(struct numbers_reader *reader, struct bytes text)
{
	*reader = (struct numbers_reader){.rest = text};
}

/* Takes what is before `end`, which is taken too, or before the end of the text; without escapes. False if `end` does not come,
 * or a comma before it. */
static bool take_until(struct numbers_reader *reader, uint8_t end, size_t *used, struct bytes *ret)
{
	uint8_t *to = reader->room + *used;
	*ret = (struct bytes){to, 0};
	for (; reader->rest.len; reader->rest = bytes_skip(reader->rest, 1)) {
		uint8_t byte = reader->rest.data[0];
		if (byte == end) {
			reader->rest = bytes_skip(reader->rest, 1);
			*used += ret->len;
			return true;
		}
		if (byte == ',')
			break;
		if (byte == '\\' && reader->rest.len > 1) {
			reader->rest = bytes_skip(reader->rest, 1);
			byte = reader->rest.data[0];
		}
		to[ret->len++] = byte;
	}
	*used += ret->len;
	return false;
}

static int take_number(struct numbers_reader *reader)
{
	char digits[24];
	size_t len = 0;
	while (len < reader->rest.len && len < sizeof(digits) - 1 && reader->rest.data[len] != ' ' &&
	       reader->rest.data[len] != ',') {
		digits[len] = (char)reader->rest.data[len];
		len++;
	}
	digits[len] = '\0';
	reader->rest = bytes_skip(reader->rest, len);
	return text_parse_i64(digits, &reader->number, NULL) < 0 ? -EBADMSG : 0;
}

int numbers_next(struct numbers_reader *reader)
{
	size_t used = 0;
	if (!reader->rest.len)
		return 0;
	if (reader->rest.len > sizeof(reader->room) || !take_until(reader, '=', &used, &reader->key) || take_number(reader) < 0)
		return -EBADMSG;
	reader->unit = (struct bytes){0};
	if (!reader->rest.len)
		return 1;
	bool has_unit = reader->rest.data[0] == ' ', more = !has_unit;
	if (!has_unit && reader->rest.data[0] != ',')
		return -EBADMSG;
	reader->rest = bytes_skip(reader->rest, 1);
	if (has_unit)
		more = take_until(reader, ',', &used, &reader->unit);
	return more && !reader->rest.len ? -EBADMSG : 1;
}

int numbers_add_set(struct profile *profile, struct bytes text, uint32_t *ret, struct error *err)
{
	struct profile_label labels[COUNT_MAX];
	struct numbers_reader reader;
	size_t count = 0;
	int r;
	numbers_begin(&reader, text);
	while ((r = numbers_next(&reader)) > 0) {
		if (count == COUNT_MAX) {
			r = -EBADMSG;
			break;
		}
		struct profile_label *label = &labels[count++];
		*label = (struct profile_label){.number = reader.number};
		r = profile_add_bytes(profile, reader.key, &label->key, err);
		if (r == 0)
			r = profile_add_bytes(profile, reader.unit, &label->unit, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return error_set(err, r, "'%.*s' are no numbers of a sample", (int)(text.len < 100 ? text.len : 100),
				 (const char *)text.data);
	return profile_add_label_set(profile, labels, count, ret, err);
}
