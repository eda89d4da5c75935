/* SPDX-License-Identifier: Apache-2.0 */
#include "render/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/order.h"
#include "base/text.h"

#define ALIASES_MAX 3
struct unit {
	const char *name;
	const char *aliases[ALIASES_MAX]; /* in lower case, singular */
	double factor;
};
#define UNITS_MAX 9
struct unit_kind {
	struct unit units[UNITS_MAX]; /* by rising factor */
	size_t count;
	const char *base_name; /* for values too small for any, and for targets of another kind */
	double base_factor;
};

static const struct unit_kind kinds[] = {
	{.units = {{"B", {"b", "byte"}, 1},
		   {"kB", {"kb", "kbyte", "kilobyte"}, 0x1p10},
		   {"MB", {"mb", "mbyte", "megabyte"}, 0x1p20},
		   {"GB", {"gb", "gbyte", "gigabyte"}, 0x1p30},
		   {"TB", {"tb", "tbyte", "terabyte"}, 0x1p40},
		   {"PB", {"pb", "pbyte", "petabyte"}, 0x1p50}},
	 .count = 6,
	 .base_name = "B",
	 .base_factor = 1},
	{.units = {{"ns", {"ns", "nanosecond"}, 1},
		   {"us", {"us", "microsecond"}, 1e3},
		   {"ms", {"ms", "millisecond"}, 1e6},
		   {"s", {"s", "sec", "second"}, 1e9},
		   {"hrs", {"hour", "hr"}, 3600e9}},
	 .count = 5,
	 .base_name = "s",
	 .base_factor = 1e9},
	{.units = {{"n*GCU", {"nanogcu"}, 1e-9},
		   {"u*GCU", {"microgcu"}, 1e-6},
		   {"m*GCU", {"milligcu"}, 1e-3},
		   {"GCU", {"gcu"}, 1},
		   {"k*GCU", {"kilogcu"}, 1e3},
		   {"M*GCU", {"megagcu"}, 1e6},
		   {"G*GCU", {"gigagcu"}, 1e9},
		   {"T*GCU", {"teragcu"}, 1e12},
		   {"P*GCU", {"petagcu"}, 1e15}},
	 .count = 9,
	 .base_name = "GCU",
	 .base_factor = 1},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(*kinds))

static const struct unit *find_unit(const struct unit_kind *kind, const char *name)
{
	char plain[16];
	size_t len = strlen(name);
	if (len >= sizeof(plain))
		return NULL;
	for (size_t i = 0; i <= len; i++)
		plain[i] = (char)tolower((unsigned char)name[i]);
	if (len > 2 && plain[len - 1] == 's')
		plain[len - 1] = '\0';
	for (size_t i = 0; i < kind->count; i++)
		for (size_t k = 0; k < ALIASES_MAX && kind->units[i].aliases[k]; k++)
			if (strcmp(kind->units[i].aliases[k], plain) == 0)
				return &kind->units[i];
	return NULL;
}

static bool is_automatic(const char *unit)
{
	return strcmp(unit, "minimum") == 0 || strcmp(unit, "auto") == 0;
}

static double scale_within(const struct unit_kind *kind, double value, const char *to, const char **ret_unit)
{
	const struct unit *target = is_automatic(to) ? NULL : find_unit(kind, to);
	if (is_automatic(to)) {
		for (size_t i = 0; i < kind->count; i++)
			if (value / kind->units[i].factor >= 1.0)
				target = &kind->units[i];
	}
	*ret_unit = target ? target->name : kind->base_name;
	return value / (target ? target->factor : kind->base_factor);
}

double units_scale(int64_t value, const char *from, const char *to, const char **ret_unit)
{
	if (value < 0 && value != INT64_MIN)
		return -units_scale(-value, from, to, ret_unit);
	for (size_t i = 0; i < KIND_COUNT; i++) {
		const struct unit *unit = find_unit(&kinds[i], from);
		if (unit)
			return scale_within(&kinds[i], (double)value * unit->factor, to, ret_unit);
	}
	bool is_shown = !is_automatic(to) && strcmp(to, "count") != 0 && strcmp(to, "sample") != 0 && strcmp(to, "unit") != 0;
	*ret_unit = is_shown ? to : "";
	return (double)value;
}

bool units_is_known(const char *unit)
{
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (find_unit(&kinds[i], unit))
			return true;
	return false;
}

const char *units_choose(int64_t low, int64_t high, const char *from, bool only_whole)
{
	const char *low_unit, *high_unit;
	units_scale(low, from, "minimum", &low_unit);
	units_scale(high, from, "minimum", &high_unit);
	if (strcmp(low_unit, high_unit) != 0 && !only_whole && low < INT64_MAX / 100 && low * 100 < high)
		units_scale(low * 100, from, "minimum", &low_unit);
	return low_unit[0] ? low_unit : from;
}

const char *units_format(int64_t value, const char *from, const char *to, char out[static UNITS_TEXT_MAX])
{
	char number[48];
	const char *unit;
	double scaled = units_scale(value, from, to, &unit);
	size_t len = (size_t)snprintf(number, sizeof(number), "%.2f", scaled);
	if (len > 3 && strcmp(number + len - 3, ".00") == 0)
		number[len - 3] = '\0';
	if (strcmp(number, "0") == 0 || strcmp(number, "-0") == 0)
		unit = "";
	struct bytes name = bytes_of_string(unit);
	snprintf(out, UNITS_TEXT_MAX, "%s%.*s", strcmp(number, "-0") == 0 ? "0" : number,
		 (int)text_cut(name, UNITS_TEXT_MAX - sizeof(number)), unit);
	return out;
}

const char *units_format_percent(int64_t value, int64_t total, char out[static UNITS_TEXT_MAX])
{
	double share = total != 0 ? fabs((double)value / (double)total) * 100 : 0;
	if (share >= 99.95 && share <= 100.05)
		snprintf(out, UNITS_TEXT_MAX, "  100%%");
	else if (share >= 1.0)
		snprintf(out, UNITS_TEXT_MAX, "%5.2f%%", share);
	else
		snprintf(out, UNITS_TEXT_MAX, "%5.2g%%", share);
	return out;
}

int64_t units_whole(double value)
{
	if (!(value > -0x1p63))
		return INT64_MIN;
	return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

int64_t units_magnitude(int64_t value)
{
	if (value == INT64_MIN)
		return INT64_MAX;
	return value < 0 ? -value : value;
}

int units_compare(int64_t a, int64_t b)
{
	return ORDER(units_magnitude(b), units_magnitude(a));
}

int64_t units_mean(int64_t value, int64_t divisor)
{
	return divisor == 0 || (divisor == -1 && value == INT64_MIN) ? value : value / divisor;
}
