/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the numbers of samples: __number__, which looks like a label and is none.
 *
 * They are written as those of pprof's -tagfocus, KEY=FROM:TO with units, because that is where these numbers come from and how
 * they are asked for. A number without a unit is in the unit of its key's name, as pprof has it ("bytes" of a heap profile of
 * Go), of `request` and `alignment` in bytes. Numbers are compared across units of bytes and of time; all other units are only
 * equal to themselves.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "profile/numbers.h"
#include "query/query_int.h"
#include "render/units.h"

/* ---- units ---- */

enum unit_kind { UNIT_NONE, UNIT_BYTES, UNIT_TIME, UNIT_OTHER };
struct unit {
	enum unit_kind kind;
	int64_t factor;
	struct bytes name; /* of UNIT_OTHER */
};

static const struct {
	const char *names[4];
	enum unit_kind kind;
	int64_t factor;
} known_units[] = {
	{{"b", "byte"}, UNIT_BYTES, 1},
	{{"kb", "kib", "kilobyte", "kibibyte"}, UNIT_BYTES, 1ll << 10},
	{{"mb", "mib", "megabyte", "mebibyte"}, UNIT_BYTES, 1ll << 20},
	{{"gb", "gib", "gigabyte", "gibibyte"}, UNIT_BYTES, 1ll << 30},
	{{"tb", "tib", "terabyte", "tebibyte"}, UNIT_BYTES, 1ll << 40},
	{{"ns", "nanosecond"}, UNIT_TIME, 1},
	{{"us", "microsecond", "\xc2\xb5s"}, UNIT_TIME, 1000},
	{{"ms", "millisecond"}, UNIT_TIME, 1000000},
	{{"s", "sec", "second"}, UNIT_TIME, 1000000000},
	{{"min", "minute"}, UNIT_TIME, 60ll * 1000000000},
	{{"h", "hr", "hour"}, UNIT_TIME, 3600ll * 1000000000},
	{{"d", "day"}, UNIT_TIME, 24 * 3600ll * 1000000000},
};

static bool is_unit(struct bytes text, const char *name)
{
	size_t len = strlen(name);
	bool plural = text.len == len + 1 && len > 2 && (text.data[len] | 0x20) == 's';
	return (text.len == len || plural) && strncasecmp((const char *)text.data, name, len) == 0;
}

static struct unit unit_of(struct bytes text)
{
	if (!text.len)
		return (struct unit){.factor = 1};
	for (size_t i = 0; i < sizeof(known_units) / sizeof(*known_units); i++)
		for (size_t k = 0; k < 4 && known_units[i].names[k]; k++)
			if (is_unit(text, known_units[i].names[k]))
				return (struct unit){.kind = known_units[i].kind, .factor = known_units[i].factor};
	return (struct unit){UNIT_OTHER, 1, text};
}

static struct unit unit_of_number(const struct numbers_reader *number)
{
	if (number->unit.len)
		return unit_of(number->unit);
	return unit_of(units_label_is_bytes(number->key) ? bytes_of_string("bytes") : number->key);
}

/* ---- conditions ---- */

struct bound {
	bool given;
	int64_t number;
	struct unit unit;
};
struct number_condition {
	bool negate;
	bool none;	  /* samples without numbers */
	bool has_key;	  /* else any will do */
	struct bytes key; /* of `text` */
	struct bound low, high;
	char text[];
};

static bool is_within(const struct numbers_reader *number, const struct bound *bound, int sign)
{
	if (!bound->given)
		return true;
	__int128 have = number->number, want = bound->number;
	if (bound->unit.kind != UNIT_NONE) {
		struct unit unit = unit_of_number(number);
		bool same = unit.kind == bound->unit.kind;
		if (same && unit.kind == UNIT_OTHER)
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

bool number_condition_matches(void *context, struct bytes numbers)
{
	const struct number_condition *condition = context;
	struct numbers_reader reader;
	bool found = condition->none && numbers.len == 0;
	numbers_begin(&reader, numbers);
	while (!condition->none && !found && numbers_next(&reader) > 0)
		found = (!condition->has_key || bytes_equal(reader.key, condition->key)) &&
			is_within(&reader, &condition->low, -1) && is_within(&reader, &condition->high, 1);
	return found != condition->negate;
}

/* ---- parsing ---- */

bool number_label_is(const char *name)
{
	return strcmp(name, NUMBER_LABEL) == 0;
}

/* "64kb" at *at, which is behind it afterwards. */
static bool parse_bound(const char **at, struct bound *ret)
{
	char digits[24];
	size_t len = 0;
	const char *p = *at;
	if (*p == '-')
		digits[len++] = *p++;
	while (text_is_digit((uint8_t)*p) && len < sizeof(digits) - 1)
		digits[len++] = *p++;
	digits[len] = '\0';
	if (text_parse_i64(digits, &ret->number, NULL) < 0)
		return false;
	while (*p == ' ')
		p++;
	const char *unit = p;
	while (*p && *p != ':' && *p != ' ' && !text_is_digit((uint8_t)*p))
		p++;
	ret->unit = unit_of((struct bytes){(const uint8_t *)unit, (size_t)(p - unit)});
	ret->given = true;
	*at = p;
	return true;
}

/* "V", "V:", ":V", "V:V" */
static bool parse_range(const char *text, struct number_condition *ret)
{
	const char *at = text;
	ret->low = ret->high = (struct bound){0};
	if (*at != ':' && !parse_bound(&at, &ret->low))
		return false;
	if (*at != ':') {
		ret->high = ret->low;
		return !*at;
	}
	at++;
	if (*at && !parse_bound(&at, &ret->high))
		return false;
	/* "1:64kb" is in kilobytes. */
	if (ret->low.given && ret->low.unit.kind == UNIT_NONE)
		ret->low.unit = ret->high.given ? ret->high.unit : ret->low.unit;
	if (ret->high.given && ret->high.unit.kind == UNIT_NONE)
		ret->high.unit = ret->low.given ? ret->low.unit : ret->high.unit;
	return !*at && (ret->low.given || ret->high.given);
}

static bool parse_condition(struct number_condition *condition)
{
	char *equals = strrchr(condition->text, '=');
	size_t len = equals ? (size_t)(equals - condition->text) : strlen(condition->text);
	condition->none = !condition->text[0];
	if (condition->none || (!equals && parse_range(condition->text, condition)))
		return true;
	condition->low = condition->high = (struct bound){0};
	condition->has_key = true;
	condition->key = (struct bytes){(const uint8_t *)condition->text, len};
	return !equals || parse_range(equals + 1, condition);
}

int number_condition_parse(enum pattern_operator op, const char *text, struct number_condition **ret, struct error *err)
{
	static const char form[] = "write KEY=NUMBER, KEY=FROM:TO, KEY=FROM: or KEY=:TO, with or without KEY=, numbers with or "
				   "without a unit; or KEY, or \"\" for samples without numbers";
	if (op == PATTERN_REGEX || op == PATTERN_NOT_REGEX)
		return error_set(err, -EINVAL, "query: %s knows = and != only: %s", NUMBER_LABEL, form);
	size_t len = strlen(text);
	struct number_condition *condition = mem_zalloc(sizeof(*condition) + len + 1);
	if (!condition)
		return error_nomem(err);
	memcpy(condition->text, text, len);
	condition->negate = op == PATTERN_NOT_EQUAL;
	if (!parse_condition(condition)) {
		mem_free(condition);
		return error_set(err, -EINVAL, "query: %s: '%.60s' is no condition on a number: %s", NUMBER_LABEL, text, form);
	}
	*ret = condition;
	return 0;
}
