/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/number_match.h"

#include <string.h>
#include <strings.h>

#include "profile/numbers.h"

/* ---- units ---- */

static const struct {
	const char *names[4];
	enum number_unit_kind kind;
	int64_t factor;
} known_units[] = {
	{{"b", "byte"}, NUMBER_UNIT_BYTES, 1},
	{{"kb", "kib", "kilobyte", "kibibyte"}, NUMBER_UNIT_BYTES, 1ll << 10},
	{{"mb", "mib", "megabyte", "mebibyte"}, NUMBER_UNIT_BYTES, 1ll << 20},
	{{"gb", "gib", "gigabyte", "gibibyte"}, NUMBER_UNIT_BYTES, 1ll << 30},
	{{"tb", "tib", "terabyte", "tebibyte"}, NUMBER_UNIT_BYTES, 1ll << 40},
	{{"ns", "nanosecond"}, NUMBER_UNIT_TIME, 1},
	{{"us", "microsecond", "\xc2\xb5s"}, NUMBER_UNIT_TIME, 1000},
	{{"ms", "millisecond"}, NUMBER_UNIT_TIME, 1000000},
	{{"s", "sec", "second"}, NUMBER_UNIT_TIME, 1000000000},
	{{"min", "minute"}, NUMBER_UNIT_TIME, 60ll * 1000000000},
	{{"h", "hr", "hour"}, NUMBER_UNIT_TIME, 3600ll * 1000000000},
	{{"d", "day"}, NUMBER_UNIT_TIME, 24 * 3600ll * 1000000000},
};

static bool is_unit(struct bytes text, const char *name)
{
	size_t len = strlen(name);
	bool plural = text.len == len + 1 && len > 2 && (text.data[len] | 0x20) == 's';
	return (text.len == len || plural) && strncasecmp((const char *)text.data, name, len) == 0;
}

struct number_unit number_unit_of(struct bytes text)
{
	if (!text.len)
		return (struct number_unit){.factor = 1};
	for (size_t i = 0; i < sizeof(known_units) / sizeof(*known_units); i++)
		for (size_t k = 0; k < 4 && known_units[i].names[k]; k++)
			if (is_unit(text, known_units[i].names[k]))
				return (struct number_unit){.kind = known_units[i].kind, .factor = known_units[i].factor};
	return (struct number_unit){NUMBER_UNIT_OTHER, 1, text};
}

bool number_key_is_bytes(struct bytes key)
{
	return bytes_equal_string(key, "alignment") || bytes_equal_string(key, "request");
}

static struct number_unit unit_of_number(const struct numbers_reader *number)
{
	if (number->unit.len)
		return number_unit_of(number->unit);
	return number_unit_of(number_key_is_bytes(number->key) ? bytes_of_string("bytes") : number->key);
}

/* ---- conditions ---- */

static bool is_within(const struct numbers_reader *number, const struct number_bound *bound, int sign)
{
	if (!bound->given)
		return true;
	__int128 have = number->number, want = bound->number;
	if (bound->unit.kind != NUMBER_UNIT_NONE) {
		struct number_unit unit = unit_of_number(number);
		bool same = unit.kind == bound->unit.kind;
		if (same && unit.kind == NUMBER_UNIT_OTHER)
			same = unit.name.len == bound->unit.name.len &&
			       strncasecmp((const char *)unit.name.data, (const char *)bound->unit.name.data, unit.name.len) ==
				       0;
		if (!same)
			return false;
		have *= unit.factor;
		want *= bound->unit.factor;
	}
	return sign < 0 ? have >= want : have <= want;
}

bool number_condition_matches(const struct number_condition *condition, struct bytes numbers)
{
	struct numbers_reader reader;
	bool found = condition->none && numbers.len == 0;
	numbers_begin(&reader, numbers);
	while (!condition->none && !found && numbers_next(&reader) > 0)
		found = (!condition->has_key || bytes_equal(reader.key, condition->key)) &&
			is_within(&reader, &condition->low, -1) && is_within(&reader, &condition->high, 1);
	return found != condition->negate;
}
