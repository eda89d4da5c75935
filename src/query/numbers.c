/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on the numbers of samples: __number__, which looks like a label and is none.
 *
 * They are written as those of pprof's -tagfocus, KEY=FROM:TO with units, because that is where these numbers come from and how
 * they are asked for. What they mean is in profile/number_match.h.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "query/query_int.h"

bool number_label_is(const char *name)
{
	return strcmp(name, NUMBER_LABEL) == 0;
}

/* "64kb" at *at, which is behind it afterwards. */
static bool parse_bound(const char **at, struct number_bound *ret)
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
	ret->unit = number_unit_of((struct bytes){(const uint8_t *)unit, (size_t)(p - unit)});
	ret->given = true;
	*at = p;
	return true;
}

/* "V", "V:", ":V", "V:V" */
static bool parse_range(const char *text, struct number_condition *ret)
{
	const char *at = text;
	ret->low = ret->high = (struct number_bound){0};
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
	if (ret->low.given && ret->low.unit.kind == NUMBER_UNIT_NONE)
		ret->low.unit = ret->high.given ? ret->high.unit : ret->low.unit;
	if (ret->high.given && ret->high.unit.kind == NUMBER_UNIT_NONE)
		ret->high.unit = ret->low.given ? ret->low.unit : ret->high.unit;
	return !*at && (ret->low.given || ret->high.given);
}

static bool parse_condition(const char *text, struct number_condition *condition)
{
	const char *equals = strrchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : strlen(text);
	condition->none = !text[0];
	if (condition->none || (!equals && parse_range(text, condition)))
		return true;
	condition->low = condition->high = (struct number_bound){0};
	condition->has_key = true;
	condition->key = (struct bytes){(const uint8_t *)text, len};
	return !equals || parse_range(equals + 1, condition);
}

int number_condition_parse(enum pattern_operator op, const char *text, struct number_condition *ret, struct error *err)
{
	static const char form[] = "write KEY=NUMBER, KEY=FROM:TO, KEY=FROM: or KEY=:TO, with or without KEY=, numbers with or "
				   "without a unit; or KEY, or \"\" for samples without numbers";
	if (pattern_operator_is_regex(op))
		return error_set(err, -EINVAL, "query: %s knows = and != only: %s", NUMBER_LABEL, form);
	*ret = (struct number_condition){.negate = op == PATTERN_NOT_EQUAL};
	if (!parse_condition(text, ret))
		return error_set(err, -EINVAL, "query: %s: '%.60s' is no condition on a number: %s", NUMBER_LABEL, text, form);
	return 0;
}
