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
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/flame.h"
#include "render/units.h"

/* ---- units ---- */

/* Where pprof's rules would take the plural off "µs", micro sign or Greek letter, and not know what is left. */
static const char *plain_unit(const char *unit)
{
	return strcasecmp(unit, "\xce\xbcs") == 0 || strcasecmp(unit, "\xc2\xb5s") == 0 ? "us" : unit;
}

/* A unit that nobody knows is not shown. */
void render_format_value(int64_t value, const char *unit, char *out, size_t size)
{
	char text[UNITS_TEXT_MAX];
	unit = plain_unit(unit);
	value = value == INT64_MIN ? INT64_MIN + 1 : value; /* which has a magnitude, and is the same as a double */
	snprintf(out, size, "%s", units_format(value, units_is_known(unit) ? unit : "count", "auto", text));
}

/* How all values of one table are printed. */
struct scale {
	const char *from, *to;
};

static struct scale choose_scale(const struct table *table, const struct table_row *const *rows, size_t count, const char *unit)
{
	int64_t min = 0, max = units_magnitude(table->total);
	for (size_t i = 0; i < count; i++) {
		int64_t value = units_magnitude(rows[i]->self ? rows[i]->self : rows[i]->total);
		if (value > 0 && (min == 0 || value < min))
			min = value;
	}
	unit = plain_unit(unit);
	return (struct scale){unit, units_choose(min ? min : max, max, unit, false)};
}

/* ---- lines ---- */

static void append_row(struct buffer *out, const struct table *table, const struct table_row *row, int64_t sum,
		       const struct scale *scale)
{
	char values[2][UNITS_TEXT_MAX], shares[3][UNITS_TEXT_MAX];
	buffer_printf(out, "%10s %s %s %10s %s  ", units_format(row->self, scale->from, scale->to, values[0]),
		      units_format_percent(row->self, table->total, shares[0]),
		      units_format_percent(sum, table->total, shares[1]),
		      units_format(row->total, scale->from, scale->to, values[1]),
		      units_format_percent(row->total, table->total, shares[2]));
	text_append_harmless(out, bytes_of_string(row->name));
	if (row->inlined)
		buffer_append_string(out, row->called ? " (partial-inline)" : " (inline)");
	buffer_append_byte(out, '\n');
}

static void append_head(struct buffer *out, const struct table *table, size_t count, int64_t sum, const struct scale *scale)
{
	char shown[UNITS_TEXT_MAX], total[UNITS_TEXT_MAX], percent[UNITS_TEXT_MAX];
	const char *trimmed = units_format_percent(sum, table->total, percent);
	trimmed += strspn(trimmed, " ");
	buffer_printf(out, "Showing nodes accounting for %s, %s of %s total\n",
		      units_format(sum, scale->from, scale->to, shown), trimmed,
		      units_format(table->total, scale->from, scale->to, total));
	if (count < table->count && table->total != 0)
		buffer_printf(out, "Showing top %zu nodes out of %zu\n", count, table->count);
	buffer_printf(out, "%10s %5s%% %5s%% %10s %5s%%\n", "flat", "flat", "sum", "cum", "cum");
}

static int compare_for_text(const void *left, const void *right)
{
	const struct table_row *a = *(const struct table_row *const *)left, *b = *(const struct table_row *const *)right;
	return units_compare(a->self, b->self) ?: strcmp(a->name, b->name) ?: units_compare(a->total, b->total) ?: ORDER(a, b);
}

static void write_rows(const struct table *table, const struct table_row *const *rows, size_t count, const char *unit,
		       struct buffer *out)
{
	struct scale scale = choose_scale(table, rows, count, unit);
	int64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum_to(&sum, rows[i]->self);
	append_head(out, table, count, sum, &scale);
	sum = 0;
	for (size_t i = 0; i < count && buffer_status(out) == 0; i++) {
		sum_to(&sum, rows[i]->self);
		append_row(out, table, rows[i], sum, &scale);
	}
}

int table_write_text(const struct table *table, const char *unit, size_t limit, struct buffer *out, struct error *err)
{
	size_t count = limit > 0 && limit < table->count ? limit : table->count, start = out->len;
	_cleanup_(mem_freep) const struct table_row **rows = mem_alloc_array(table->count, sizeof(*rows));
	if (!rows)
		return error_nomem(err);
	for (size_t i = 0; i < table->count; i++)
		rows[i] = &table->rows[i];
	sort_array(rows, table->count, compare_for_text);
	write_rows(table, rows, count, unit, out);
	int r = buffer_status(out);
	if (r == 0)
		return 0;
	buffer_truncate(out, start);
	return r == -E2BIG ? error_set(err, r, "the table is larger than %zu bytes", out->max) : error_nomem(err);
}
