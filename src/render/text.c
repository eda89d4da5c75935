/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table as text, in the layout of `go tool pprof -top`, so that eyes and scripts that know one read the other.
 *
 * Units. Times and sizes are scaled; counts and anything unknown are printed plainly. One unit is used for the whole table:
 * that of the smallest value, or a larger one when the smallest would still show as 0.01 of it while the total is more than a
 * hundred times as large. Values have two decimals, none when both are zero.
 *
 * Rows without a value of their own, and others with equal ones, are in order of name here, as pprof has them.
 *
 * Names are data from outside and go to a terminal, so control characters are replaced.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "render/flame.h"

/* ---- units ---- */

struct unit {
	const char *name;
	const char *aliases[4]; /* lower case, without a plural s */
	double factor;
};
struct unit_family {
	const struct unit *units; /* rising */
	size_t count;
	size_t fallback; /* for values below the smallest unit, such as 0 */
};

static const struct unit sizes[] = {
	{"B", {"b", "byte"}, 1},
	{"kB", {"kb", "kbyte", "kilobyte"}, 1024.0},
	{"MB", {"mb", "mbyte", "megabyte"}, 1024.0 * 1024},
	{"GB", {"gb", "gbyte", "gigabyte"}, 1024.0 * 1024 * 1024},
	{"TB", {"tb", "tbyte", "terabyte"}, 1024.0 * 1024 * 1024 * 1024},
	{"PB", {"pb", "pbyte", "petabyte"}, 1024.0 * 1024 * 1024 * 1024 * 1024},
};
static const struct unit times[] = {
	{"ns", {"ns", "nanosecond"}, 1},    {"us", {"us", "\xce\xbcs", "\xc2\xb5s", "microsecond"}, 1e3},
	{"ms", {"ms", "millisecond"}, 1e6}, {"s", {"s", "sec", "second"}, 1e9},
	{"hrs", {"hr", "hour"}, 3600e9},
};
static const struct unit_family families[] = {{sizes, 6, 0}, {times, 5, 3}};

/* In any case, with or without a plural s. */
static bool unit_matches(const struct unit *unit, const char *name)
{
	for (size_t i = 0; i < 4 && unit->aliases[i]; i++) {
		size_t len = strlen(unit->aliases[i]);
		if (strncasecmp(unit->aliases[i], name, len) == 0 && (name[len] == '\0' || strcasecmp(name + len, "s") == 0))
			return true;
	}
	return false;
}

static const struct unit *find_unit(const char *name, const struct unit_family **ret_family)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(*families); f++) {
		for (size_t i = 0; i < families[f].count; i++) {
			if (unit_matches(&families[f].units[i], name)) {
				*ret_family = &families[f];
				return &families[f].units[i];
			}
		}
	}
	return NULL;
}

/* The largest unit in which a value of the smallest unit is at least 1. */
static const struct unit *fitting_unit(const struct unit_family *family, double value)
{
	const struct unit *best = NULL;
	for (size_t i = 0; i < family->count; i++)
		if (fabs(value) / family->units[i].factor >= 1.0)
			best = &family->units[i];
	return best ? best : &family->units[family->fallback];
}

static void print_scaled(double value, const char *unit, char *out, size_t size)
{
	char number[400]; /* the largest double has 309 digits */
	int len = snprintf(number, sizeof(number), "%.2f", value);
	if (len > 3 && strcmp(number + len - 3, ".00") == 0)
		number[len - 3] = '\0';
	bool zero = strcmp(number, "0") == 0 || strcmp(number, "-0") == 0;
	snprintf(out, size, "%s%s", zero ? "0" : number, zero ? "" : unit);
}

void render_format_value(int64_t value, const char *unit, char *out, size_t size)
{
	const struct unit_family *family;
	const struct unit *from = find_unit(unit, &family);
	if (!from) {
		print_scaled((double)value, "", out, size);
		return;
	}
	double scaled = (double)value * from->factor;
	const struct unit *to = fitting_unit(family, scaled);
	print_scaled(scaled / to->factor, to->name, out, size);
}

/* How all values of one table are printed: times one factor, divided by the other. Their quotient would do but for the last
 * digit, in which pprof, that divides, has another one where a value lies between two. */
struct scale {
	double from, to;
	char unit[32];
};

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
}

static struct scale choose_scale(const struct table *table, const struct table_row *const *rows, size_t count, const char *unit)
{
	struct scale scale = {.from = 1, .to = 1};
	const struct unit_family *family;
	const struct unit *from = find_unit(unit, &family);
	if (!from) {
		bool plain = strcmp(unit, "count") == 0 || strcmp(unit, "sample") == 0 || strcmp(unit, "unit") == 0;
		snprintf(scale.unit, sizeof(scale.unit), "%s", plain ? "" : unit);
		return scale;
	}
	uint64_t min = 0, max = magnitude(table->total);
	for (size_t i = 0; i < count; i++) {
		uint64_t value = magnitude(rows[i]->self ? rows[i]->self : rows[i]->total);
		if (value > 0 && (min == 0 || value < min))
			min = value;
	}
	if (min == 0)
		min = max;
	const struct unit *to = fitting_unit(family, (double)min * from->factor);
	if (to != fitting_unit(family, (double)max * from->factor) && (double)min * 100 < (double)max)
		to = fitting_unit(family, (double)min * 100 * from->factor);
	scale.from = from->factor;
	scale.to = to->factor;
	snprintf(scale.unit, sizeof(scale.unit), "%s", to->name);
	return scale;
}

static void format_scaled(int64_t value, const struct scale *scale, char *out, size_t size)
{
	print_scaled((double)value * scale->from / scale->to, scale->unit, out, size);
}

#define PERCENT_MAX 32
static const char *format_percent(int64_t value, int64_t total, char out[static PERCENT_MAX])
{
	double percent = total ? fabs((double)value / (double)total) * 100 : 0;
	if (percent >= 99.95 && percent <= 100.05)
		snprintf(out, PERCENT_MAX, "  100%%");
	else if (percent >= 1)
		snprintf(out, PERCENT_MAX, "%5.2f%%", percent);
	else
		snprintf(out, PERCENT_MAX, "%5.2g%%", percent);
	return out;
}

/* ---- lines ---- */

#define VALUE_MAX 64

static int append_row(struct buffer *out, const struct table *table, const struct table_row *row, int64_t sum,
		      const struct scale *scale)
{
	char self[VALUE_MAX], total[VALUE_MAX], self_percent[PERCENT_MAX], sum_percent[PERCENT_MAX], total_percent[PERCENT_MAX];
	format_scaled(row->self, scale, self, sizeof(self));
	format_scaled(row->total, scale, total, sizeof(total));
	int r = buffer_printf(out, "%10s %s %s %10s %s  ", self, format_percent(row->self, table->total, self_percent),
			      format_percent(sum, table->total, sum_percent), total,
			      format_percent(row->total, table->total, total_percent));
	if (r == 0)
		r = text_append_harmless(out, bytes_of_string(row->name));
	if (r == 0 && row->inlined)
		r = buffer_append_string(out, row->called ? " (partial-inline)" : " (inline)");
	return r < 0 ? r : buffer_append_byte(out, '\n');
}

static int append_head(struct buffer *out, const struct table *table, size_t count, int64_t sum, const struct scale *scale)
{
	char shown[VALUE_MAX], total[VALUE_MAX], percent[PERCENT_MAX];
	format_scaled(sum, scale, shown, sizeof(shown));
	format_scaled(table->total, scale, total, sizeof(total));
	const char *trimmed = format_percent(sum, table->total, percent);
	trimmed += strspn(trimmed, " ");
	int r = buffer_printf(out, "Showing nodes accounting for %s, %s of %s total\n", shown, trimmed, total);
	if (r == 0 && count < table->count && table->total != 0)
		r = buffer_printf(out, "Showing top %zu nodes out of %zu\n", count, table->count);
	if (r == 0)
		r = buffer_printf(out, "%10s %5s%% %5s%% %10s %5s%%\n", "flat", "flat", "sum", "cum", "cum");
	return r;
}

static int compare_for_text(const void *left, const void *right)
{
	const struct table_row *a = *(const struct table_row *const *)left, *b = *(const struct table_row *const *)right;
	uint64_t a_self = magnitude(a->self), b_self = magnitude(b->self);
	if (a_self != b_self)
		return a_self < b_self ? 1 : -1;
	int order = strcmp(a->name, b->name);
	if (order != 0)
		return order;
	uint64_t a_total = magnitude(a->total), b_total = magnitude(b->total);
	if (a_total != b_total)
		return a_total < b_total ? 1 : -1;
	return (a > b) - (a < b);
}

static int write_rows(const struct table *table, const struct table_row *const *rows, size_t count, const char *unit,
		      struct buffer *out)
{
	struct scale scale = choose_scale(table, rows, count, unit);
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += (uint64_t)rows[i]->self;
	int r = append_head(out, table, count, (int64_t)sum, &scale);
	sum = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		sum += (uint64_t)rows[i]->self;
		r = append_row(out, table, rows[i], (int64_t)sum, &scale);
	}
	return r;
}

int table_write_text(const struct table *table, const char *unit, size_t limit, struct buffer *out, struct error *err)
{
	size_t count = limit > 0 && limit < table->count ? limit : table->count, start = out->len;
	_cleanup_(mem_freep) const struct table_row **rows = mem_alloc_array(table->count, sizeof(*rows));
	if (!rows)
		return error_nomem(err);
	for (size_t i = 0; i < table->count; i++)
		rows[i] = &table->rows[i];
	if (table->count > 1)
		qsort(rows, table->count, sizeof(*rows), compare_for_text);
	int r = write_rows(table, rows, count, unit, out);
	if (r == 0)
		return 0;
	out->len = start;
	return r == -E2BIG ? error_set(err, r, "the table is larger than %zu bytes", out->max) : error_nomem(err);
}
