/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results as tables for other programs (codec/tabular.h). What a program wants is rows of one kind that need no knowledge of
 * ours, so every kind of result is one flat table:
 *
 *   table        as it is
 *   series       long: time, a column a label of the groups, value; and "others" where one row is the sum of the other groups
 *   flame graph  a row a stack: format/sample_table.c
 *   diff         a row a function: function, file, line, binary, base_self, self, base_total, total
 *   comparison   long: the label, function, file, line, binary, self, total
 *
 * Long and not wide, because the columns of a wide table would depend on the data: a program that asks every hour would get
 * other columns each time. What is known of the result as a whole is metadata of the table ("wick.query", "wick.type",
 * "wick.unit", "wick.from", "wick.to", "wick.partial", "wick.why" and "wick.saturated").
 *
 * All of them but stacks go through a struct query_table, whose cells are 16 bytes; columns are made of some ten thousand of
 * its rows at a time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text.h"
#include "base/time.h"
#include "format/sample_table.h"
#include "query/run.h"
#include "render/diff.h"

#define NAME_SIZE  80
#define BATCH_ROWS (16 * 1024)
#define FACTS_MAX  9

/* ---- metadata ---- */

struct facts {
	struct tabular_fact items[FACTS_MAX];
	size_t count;
	char type[PROFILE_TYPE_TEXT_MAX], unit[QUERY_UNIT_MAX], from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
};

static void add_fact(struct facts *facts, const char *key, const char *value)
{
	if (value && *value)
		facts->items[facts->count++] = (struct tabular_fact){key, value};
}

static void make_facts(const struct query_result *result, const struct query_stats *stats, struct facts *facts)
{
	bool series = result->kind == QUERY_SERIES, partial = stats && stats->read.partial;
	struct query_series like = {.type = result->type, .rate = result->rate};
	*facts = (struct facts){0};
	if (result->type.name[0])
		profile_type_format(&result->type, facts->type);
	add_fact(facts, "wick.kind", query_kind_name(result->kind));
	add_fact(facts, "wick.query", result->explain.query);
	add_fact(facts, "wick.type", facts->type);
	add_fact(facts, "wick.unit", query_series_unit(&like, facts->unit));
	add_fact(facts, "wick.from", time_format(series ? result->series.from_ns : result->from_ns, facts->from));
	add_fact(facts, "wick.to", time_format(series ? result->series.to_ns : result->to_ns, facts->to));
	add_fact(facts, "wick.partial", partial ? "true" : "false");
	if (partial)
		add_fact(facts, "wick.why", stats->read.why);
	if (stats && stats->read.saturated)
		add_fact(facts, "wick.saturated", "true");
}

/* ---- kinds of results as rows ---- */

static void put_known(struct query_table *table, const char *text)
{
	if (*text)
		query_table_string(table, text);
	else
		query_table_skip(table);
}

static void put_function(struct query_table *table, const struct table_row *row)
{
	query_table_string(table, row->name);
	put_known(table, row->file);
	if (row->line)
		query_table_integer(table, row->line);
	else
		query_table_skip(table);
	put_known(table, row->binary);
}

static void add_function_columns(struct query_table *table)
{
	query_table_add_column(table, "function", "", QUERY_COLUMN_TEXT);
	query_table_add_column(table, "file", "", QUERY_COLUMN_TEXT);
	query_table_add_column(table, "line", "", QUERY_COLUMN_INTEGER);
	query_table_add_column(table, "binary", "", QUERY_COLUMN_TEXT);
}

static size_t at_most(size_t count, size_t limit)
{
	return limit > 0 && limit < count ? limit : count;
}

static int tabulate_diff(const struct query_result *result, size_t limit, struct query_table *table, struct error *err)
{
	_cleanup_(diff_table_release) struct diff_table rows = {0};
	int r = query_build_diff_table(result, false, &rows, err);
	if (r < 0)
		return r;
	static const char *const values[] = {"base_self", "self", "base_total", "total"};
	add_function_columns(table);
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		query_table_add_column(table, values[i], query_profile_unit(result->profile), QUERY_COLUMN_INTEGER);
	for (size_t i = 0; i < at_most(rows.count, limit); i++) {
		const struct diff_row *row = &rows.rows[i];
		query_table_add_row(table, 0);
		put_function(table, &row->now);
		query_table_integer(table, row->base_self);
		query_table_integer(table, row->now.self);
		query_table_integer(table, row->base_total);
		query_table_integer(table, row->now.total);
	}
	return query_table_status(table, err);
}

static int tabulate_compared(const struct query_compared *compared, size_t limit, struct query_table *table, struct error *err)
{
	_cleanup_(table_release) struct table rows = {0};
	int r = query_build_table(compared->profile, false, &rows, err);
	for (size_t i = 0; !r && i < at_most(rows.count, limit); i++) {
		query_table_add_row(table, 0);
		query_table_string(table, compared->value);
		put_function(table, &rows.rows[i]);
		query_table_integer(table, rows.rows[i].self);
		query_table_integer(table, rows.rows[i].total);
	}
	return r < 0 ? r : query_table_status(table, err);
}

static int tabulate_comparison(const struct query_result *result, size_t limit, struct query_table *table, struct error *err)
{
	const struct query_comparison *comparison = &result->comparison;
	query_table_add_column(table, comparison->label, "", QUERY_COLUMN_TEXT);
	add_function_columns(table);
	query_table_add_column(table, "self", result->type.sample_unit, QUERY_COLUMN_INTEGER);
	query_table_add_column(table, "total", result->type.sample_unit, QUERY_COLUMN_INTEGER);
	int r = query_table_status(table, err);
	for (size_t i = 0; !r && i < comparison->count; i++)
		r = tabulate_compared(&comparison->items[i], limit, table, err);
	return r;
}

static const char *label_of(const struct query_series_row *row, const char *name)
{
	for (size_t i = 0; i < row->labels.count; i++)
		if (strcmp(row->labels.items[i].name, name) == 0)
			return row->labels.items[i].value;
	return NULL;
}

static void put_point(struct query_table *table, const struct query_series *series, const struct query_series_row *row,
		      size_t point, bool others)
{
	query_table_add_row(table, 0);
	query_table_integer(table, row->points[point].time_ns);
	for (size_t i = 0; i < series->by_count; i++) {
		const char *value = label_of(row, series->by[i]);
		if (value)
			query_table_string(table, value);
		else
			query_table_skip(table);
	}
	if (series->rate)
		query_table_number(table, query_series_value(series, row->points[point].value));
	else
		query_table_integer(table, row->points[point].value);
	if (others)
		query_table_integer(table, row->others);
}

static int tabulate_series(const struct query_series *series, size_t limit, struct query_table *table, struct error *err)
{
	char unit[QUERY_UNIT_MAX];
	bool others = series->count > 0 && series->rows[series->count - 1].others;
	query_table_add_column(table, "time", "", QUERY_COLUMN_TIME);
	for (size_t i = 0; i < series->by_count; i++)
		query_table_add_column(table, series->by[i], "", QUERY_COLUMN_TEXT);
	query_table_add_column(table, "value", query_series_unit(series, unit),
			       series->rate ? QUERY_COLUMN_NUMBER : QUERY_COLUMN_INTEGER);
	if (others)
		query_table_add_column(table, "others", "", QUERY_COLUMN_INTEGER);
	for (size_t i = 0; i < at_most(series->count, limit); i++)
		for (size_t k = 0; k < series->rows[i].point_count && !table->failed; k++)
			put_point(table, series, &series->rows[i], k, others);
	return query_table_status(table, err);
}

/* ---- columns of a table ---- */

/* A batch of rows. Arrays are a column beside the other, of BATCH_ROWS cells each. */
struct batch {
	struct tabular_column *columns;
	char (*names)[NAME_SIZE];
	struct tabular_cells *cells;
	uint8_t *present;
	int64_t *values; /* integers, times, and the bits of doubles */
	struct bytes *texts;
	struct arena arena; /* texts that were not UTF-8 */
};

static void batch_release(struct batch *batch)
{
	mem_free(batch->columns);
	mem_free(batch->names);
	mem_free(batch->cells);
	mem_free(batch->present);
	mem_free(batch->values);
	mem_free(batch->texts);
	arena_release(&batch->arena);
}

static bool is_taken(const struct batch *batch, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(batch->names[i], name) == 0)
			return true;
	return false;
}

/* Of two columns with one name the second gets a number; engines do not tell upper from lower case. */
static void name_column(struct batch *batch, size_t at, const char *name)
{
	snprintf(batch->names[at], NAME_SIZE, "%s", *name ? name : "column");
	for (unsigned n = 2; is_taken(batch, at, batch->names[at]); n++)
		snprintf(batch->names[at], NAME_SIZE, "%.64s_%u", *name ? name : "column", n);
}

static int batch_init(struct batch *batch, const struct query_table *table, size_t rows)
{
	static const enum tabular_type types[] = {[QUERY_COLUMN_TEXT] = TABULAR_TEXT,
						  [QUERY_COLUMN_INTEGER] = TABULAR_INTEGER,
						  [QUERY_COLUMN_NUMBER] = TABULAR_NUMBER,
						  [QUERY_COLUMN_TIME] = TABULAR_TIME};
	size_t count = table->column_count;
	*batch = (struct batch){.columns = mem_zalloc_array(count, sizeof(*batch->columns)),
				.names = mem_zalloc_array(count, sizeof(*batch->names)),
				.cells = mem_zalloc_array(count, sizeof(*batch->cells)),
				.present = mem_zalloc_array(count * rows, sizeof(*batch->present)),
				.values = mem_zalloc_array(count * rows, sizeof(*batch->values)),
				.texts = mem_zalloc_array(count * rows, sizeof(*batch->texts))};
	arena_init(&batch->arena, SIZE_MAX);
	if (!batch->columns || !batch->names || !batch->cells || !batch->present || !batch->values || !batch->texts)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct query_column *column = &table->columns[i];
		name_column(batch, i, column->name);
		batch->columns[i] = (struct tabular_column){
			.name = batch->names[i], .unit = column->unit, .type = types[column->kind], .optional = true};
		batch->cells[i].present = batch->present + i * rows;
		if (column->kind == QUERY_COLUMN_TEXT)
			batch->cells[i].bytes = batch->texts + i * rows;
		else
			batch->cells[i].i64 = batch->values + i * rows;
	}
	return 0;
}

/* The formats promise UTF-8. */
static int put_text(struct batch *batch, const char *text, struct bytes *ret)
{
	*ret = bytes_of_string(text);
	return text_is_utf8(*ret) ? 0 : text_copy_utf8(&batch->arena, *ret, ret);
}

static int fill(struct batch *batch, const struct query_table *table, size_t first, size_t rows, size_t stride)
{
	for (size_t i = 0; i < rows; i++) {
		const struct query_cell *cells = table->cells + (first + i) * table->column_count;
		for (size_t k = 0; k < table->column_count; k++) {
			size_t at = k * stride + i;
			batch->present[at] = !cells[k].absent;
			batch->texts[at] = (struct bytes){(const uint8_t *)"", 0};
			if (cells[k].absent)
				batch->values[at] = 0;
			else if (table->columns[k].kind == QUERY_COLUMN_NUMBER)
				memcpy(&batch->values[at], &cells[k].number, sizeof(*batch->values));
			else if (table->columns[k].kind != QUERY_COLUMN_TEXT)
				batch->values[at] = cells[k].integer;
			else if (put_text(batch, cells[k].text, &batch->texts[at]) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int drain(void *context, struct error *err)
{
	return format_sink_drain(context, false, err);
}

static int write_rows(const struct query_table *table, size_t row_count, enum tabular_format format, const struct facts *facts,
		      struct format_sink *sink, struct error *err)
{
	size_t stride = row_count == 0 ? 1 : row_count < BATCH_ROWS ? row_count : BATCH_ROWS;
	_cleanup_(batch_release) struct batch batch = {0};
	_cleanup_(tabular_writer_freep) struct tabular_writer *writer = NULL;
	if (batch_init(&batch, table, stride) < 0)
		return error_nomem(err);
	const struct tabular_options options = {.columns = batch.columns,
						.column_count = table->column_count,
						.facts = facts->items,
						.fact_count = facts->count};
	int r = tabular_writer_open(format, &options, sink->out, &writer, err);
	for (size_t first = 0; !r && first < row_count; first += stride) {
		size_t rows = row_count - first < stride ? row_count - first : stride;
		r = fill(&batch, table, first, rows, stride) < 0 ? error_nomem(err) : 0;
		if (!r)
			r = tabular_writer_rows(writer, batch.cells, rows, err);
		if (!r)
			r = drain(sink, err);
		arena_release(&batch.arena);
	}
	return r < 0 ? r : tabular_writer_finish(writer, drain, sink, err);
}

/* ---- all of them ---- */

static int write_made(const struct query_result *result, size_t limit, enum tabular_format format, const struct facts *facts,
		      struct format_sink *sink, struct error *err)
{
	_cleanup_(query_table_release) struct query_table table = {0};
	query_table_init(&table);
	int r = result->kind == QUERY_DIFF	   ? tabulate_diff(result, limit, &table, err)
		: result->kind == QUERY_COMPARISON ? tabulate_comparison(result, limit, &table, err)
						   : tabulate_series(&result->series, limit, &table, err);
	return r < 0 ? r : write_rows(&table, table.row_count, format, facts, sink, err);
}

int query_write_columns(const struct query_result *result, const struct query_stats *stats, enum tabular_format format,
			size_t limit, struct format_sink *sink, struct error *err)
{
	struct facts facts;
	make_facts(result, stats, &facts);
	if (result->kind == QUERY_PROFILE) {
		const struct sample_table_options options = {.facts = facts.items, .fact_count = facts.count, .limit = limit};
		return sample_table_write(result->profile, format, &options, sink, err);
	}
	if (result->kind == QUERY_TABLE)
		return write_rows(&result->table, at_most(result->table.row_count, limit), format, &facts, sink, err);
	return write_made(result, limit, format, &facts, sink, err);
}
