/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JSON and as text for a terminal. The layout of the JSON is documented in docs/query.md. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"
#include "query/run.h"
#include "render/diff.h"

#define TEXT_COLUMNS_MAX   8  /* groups beside each other in a text chart */
#define TEXT_FUNCTIONS_MAX 30 /* rows of a text comparison without a limit */

const char *query_kind_name(enum query_kind kind)
{
	static const char *const names[] = {[QUERY_PROFILE] = "flamegraph",
					    [QUERY_DIFF] = "diff",
					    [QUERY_TABLE] = "table",
					    [QUERY_SERIES] = "series",
					    [QUERY_COMPARISON] = "comparison"};
	return names[kind];
}

/* ---- trees and tables of profiles ---- */

static size_t last_type(const struct profile *profile)
{
	return profile->sample_type_count ? profile->sample_type_count - 1 : 0;
}

int query_build_flame(const struct profile *profile, size_t nodes_max, struct flame **ret, struct error *err)
{
	return flame_build_largest(profile, last_type(profile), FLAME_UNNAMED_BY_ADDRESS, nodes_max, ret, err);
}

int query_build_diff(const struct profile *profile, size_t nodes_max, struct diff **ret, struct error *err)
{
	return diff_build_types(profile, 0, last_type(profile), nodes_max, ret, err);
}

int query_build_table(const struct profile *profile, bool by_name, struct table *ret, struct error *err)
{
	return table_build_profile(profile, last_type(profile), FLAME_UNNAMED_BY_ADDRESS, by_name, ret, err);
}

int query_build_diff_table(const struct query_result *result, bool by_name, struct diff_table *ret, struct error *err)
{
	return diff_table_build_types(result->profile, 0, last_type(result->profile), result->relative, by_name, ret, err);
}

const char *query_profile_unit(const struct profile *profile)
{
	size_t last = last_type(profile);
	return profile->sample_type_count ? profile_string(profile, profile->sample_types[last].unit) : "";
}

static int write_profile(const struct profile *profile, const struct query_write_options *options, struct json_writer *json,
			 struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	int r = options->table ? query_build_table(profile, false, &table, err)
			       : query_build_flame(profile, options->nodes_max, &flame, err);
	if (r < 0)
		return r;
	json_member_int(json, "total", flame ? flame->total : table.total);
	json_key(json, flame ? "flame" : "functions");
	if (flame)
		flame_write_json(flame, json);
	else
		table_write_json(&table, options->limit, json);
	return 0;
}

static int write_diff(const struct query_result *result, const struct query_write_options *options, struct json_writer *json,
		      struct error *err)
{
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(diff_table_release) struct diff_table table = {0};
	int r = options->table ? query_build_diff_table(result, false, &table, err)
			       : query_build_diff(result->profile, options->nodes_max, &diff, err);
	if (r < 0)
		return r;
	json_member_int(json, "base_from_ms", result->base_from_ns / NS_PER_MS);
	json_member_int(json, "base_to_ms", result->base_to_ns / NS_PER_MS);
	json_member_bool(json, "relative", result->relative);
	json_member_int(json, "base_total", diff ? diff->base_total : table.base_total);
	json_member_int(json, "total", diff ? diff->tree->total : table.total);
	json_key(json, diff ? "diff" : "functions");
	if (diff)
		diff_write_json(diff, json);
	else
		diff_table_write_json(&table, options->limit, json);
	return 0;
}

static int write_comparison(const struct query_result *result, const struct query_write_options *options,
			    struct json_writer *json, struct error *err)
{
	const struct query_comparison *comparison = &result->comparison;
	json_member_cstring(json, "label", comparison->label);
	json_member_int(json, "total", comparison->total);
	json_member_uint(json, "total_values", comparison->count_before_limit);
	json_member_array(json, "values");
	int r = 0;
	for (size_t i = 0; !r && i < comparison->count; i++) {
		json_begin_object(json);
		json_member_cstring(json, "value", comparison->items[i].value);
		r = write_profile(comparison->items[i].profile, options, json, err);
		json_end_object(json);
	}
	json_end_array(json);
	return r;
}

/* ---- series ---- */

static void write_row(const struct query_series *series, const struct query_series_row *row, struct json_writer *json)
{
	json_begin_object(json);
	json_member_object(json, "labels");
	for (size_t i = 0; i < row->labels.count; i++)
		json_member_cstring(json, row->labels.items[i].name, row->labels.items[i].value);
	json_end_object(json);
	if (row->others)
		json_member_bool(json, "others", true);
	json_member_int(json, "total", row->total);
	json_member_array(json, "points");
	for (size_t i = 0; i < row->point_count; i++) {
		json_begin_array(json);
		json_int(json, row->points[i].time_ns / NS_PER_MS);
		if (series->rate)
			json_double(json, query_series_value(series, row->points[i].value));
		else
			json_int(json, row->points[i].value);
		json_end_array(json);
	}
	json_end_array(json);
	json_end_object(json);
}

void query_series_json(const struct query_series *series, struct json_writer *json)
{
	json_member_array(json, "series");
	for (size_t i = 0; i < series->count; i++)
		write_row(series, &series->rows[i], json);
	json_end_array(json);
}

/* ---- JSON ---- */

void query_symbols_json(const struct query_stats *stats, struct json_writer *json)
{
	const struct {
		const char *name;
		size_t value;
	} items[] = {{"resolved", stats->symbols.resolved},
		     {"pending", stats->symbols.pending},
		     {"missing", stats->symbols.missing},
		     {"ambiguous", stats->symbols.ambiguous}};
	json_member_object(json, "symbols");
	for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++)
		json_member_uint(json, items[i].name, items[i].value);
	json_end_object(json);
}

void query_partial_json(const struct query_stats *stats, struct json_writer *json)
{
	json_member_bool(json, "partial", stats && stats->read.partial);
	if (stats && stats->read.saturated)
		json_member_bool(json, "saturated", true);
	if (!stats || !stats->read.partial)
		return;
	json_member_cstring(json, "why", stats->read.why);
	if (!stats->read.lost_rows)
		return;
	json_member_object(json, "lost");
	json_member_uint(json, "rows", stats->read.lost_rows);
	json_member_int(json, "from_ms", stats->read.lost_from_ns / NS_PER_MS);
	json_member_int(json, "to_ms", stats->read.lost_to_ns / NS_PER_MS);
	json_end_object(json);
}

static void write_head(const struct query_result *result, const struct query_stats *stats, struct json_writer *json)
{
	char type[PROFILE_TYPE_TEXT_MAX] = "", unit[QUERY_UNIT_MAX];
	struct query_series like = {.type = result->type, .rate = result->rate};
	bool series = result->kind == QUERY_SERIES;
	json_member_cstring(json, "kind", query_kind_name(result->kind));
	json_member_cstring(json, "query", result->explain.query ? result->explain.query : "");
	json_member_cstring(json, "type", result->type.name[0] ? profile_type_format(&result->type, type) : "");
	json_member_cstring(json, "unit", query_series_unit(&like, unit));
	if (stats && stats->read.period > 0)
		json_member_int(json, "period", stats->read.period);
	json_member_int(json, "from_ms", (series ? result->series.from_ns : result->from_ns) / NS_PER_MS);
	json_member_int(json, "to_ms", (series ? result->series.to_ns : result->to_ns) / NS_PER_MS);
	query_partial_json(stats, json);
	if (stats)
		query_symbols_json(stats, json);
}

int query_write_json(const struct query_result *result, const struct query_stats *stats,
		     const struct query_write_options *options, struct buffer *out, struct error *err)
{
	static const struct query_write_options defaults;
	options = options ? options : &defaults;
	size_t start = out->len;
	int r = 0;
	struct json_writer json = {.out = out, .drain = options->drain, .context = options->context};
	/* Trees that are made one after the other may fail for want of memory, which the response can say only at its begin. */
	if (result->kind == QUERY_COMPARISON)
		json.drain = NULL;
	json_begin_object(&json);
	write_head(result, stats, &json);
	switch (result->kind) {
	case QUERY_PROFILE: r = write_profile(result->profile, options, &json, err); break;
	case QUERY_DIFF: r = write_diff(result, options, &json, err); break;
	case QUERY_COMPARISON: r = write_comparison(result, options, &json, err); break;
	case QUERY_SERIES:
		json_member_int(&json, "step_ms", result->series.step_ns / NS_PER_MS);
		json_member_uint(&json, "total_series", result->series.count_before_limit);
		query_series_json(&result->series, &json);
		break;
	case QUERY_TABLE:
		json_key(&json, "table");
		query_table_write_json(&result->table, &json);
		break;
	}
	if (options->explain && stats) {
		json_key(&json, "explain");
		query_explain_json(&result->explain, stats, &json);
	}
	json_end_object(&json);
	if (!r)
		r = json_finish(&json, err);
	if (r < 0)
		buffer_truncate(out, start < out->len ? start : out->len); /* some may have been drained */
	return r;
}

/* ---- text ---- */

static int text_profile(const struct profile *profile, const struct query_write_options *options, struct buffer *out,
			struct error *err)
{
	_cleanup_(table_release) struct table table = {0};
	int r = query_build_table(profile, true, &table, err);
	return r < 0 ? r : table_write_text(&table, query_profile_unit(profile), options->limit, out, err);
}

static int text_diff(const struct query_result *result, const struct query_write_options *options, struct buffer *out,
		     struct error *err)
{
	_cleanup_(diff_table_release) struct diff_table table = {0};
	int r = query_build_diff_table(result, true, &table, err);
	return r < 0 ? r : diff_table_write_text(&table, query_profile_unit(result->profile), options->limit, out, err);
}

DEFINE_ORDER(compare_times, int64_t, ORDER(*a, *b));

/* All times at which a series has a point, rising, once each. */
static int series_times(const struct query_series *series, size_t columns, int64_t **ret, size_t *ret_count)
{
	size_t count = 0, kept = 0;
	for (size_t i = 0; i < columns; i++)
		count += series->rows[i].point_count;
	int64_t *times = mem_alloc_array(count, sizeof(*times));
	if (!times)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < columns; i++)
		for (size_t k = 0; k < series->rows[i].point_count; k++)
			times[count++] = series->rows[i].points[k].time_ns;
	sort_array(times, count, compare_times);
	for (size_t i = 0; i < count; i++)
		if (!kept || times[kept - 1] != times[i])
			times[kept++] = times[i];
	*ret = times;
	*ret_count = kept;
	return 0;
}

static int series_columns(const struct query_series *series, size_t columns, struct query_table *table, struct error *err)
{
	char unit[QUERY_UNIT_MAX];
	query_series_unit(series, unit);
	query_table_add_column(table, "time", "", QUERY_COLUMN_TIME);
	for (size_t i = 0; i < columns; i++) {
		_cleanup_(buffer_release) struct buffer name = {.max = SIZE_MAX};
		const struct query_series_row *row = &series->rows[i];
		for (size_t k = 0; k < row->labels.count; k++)
			buffer_printf(&name, "%s%s", k ? "," : "", row->labels.items[k].value);
		const char *text = row->others ? "(others)" : name.len ? buffer_string(&name) : series->type.sample_type;
		if (!text || buffer_status(&name) < 0)
			return error_nomem(err);
		query_table_add_column(table, text, unit, series->rate ? QUERY_COLUMN_NUMBER : QUERY_COLUMN_INTEGER);
	}
	return 0;
}

static int text_series(const struct query_series *series, const struct query_write_options *options, struct buffer *out,
		       struct error *err)
{
	size_t columns = series->count < TEXT_COLUMNS_MAX ? series->count : TEXT_COLUMNS_MAX, count = 0;
	size_t at[TEXT_COLUMNS_MAX] = {0};
	_cleanup_(mem_freep) int64_t *times = NULL;
	_cleanup_(query_table_release) struct query_table table = {0};
	query_table_init(&table);
	int r = series_times(series, columns, &times, &count) < 0 ? error_nomem(err) : 0;
	if (!r)
		r = series_columns(series, columns, &table, err);
	for (size_t i = 0; !r && i < count; i++) {
		query_table_add_row(&table, 0);
		query_table_integer(&table, times[i]);
		for (size_t k = 0; k < columns; k++) {
			const struct query_series_row *row = &series->rows[k];
			if (at[k] == row->point_count || row->points[at[k]].time_ns != times[i])
				query_table_skip(&table);
			else if (series->rate)
				query_table_number(&table, query_series_value(series, row->points[at[k]++].value));
			else
				query_table_integer(&table, row->points[at[k]++].value);
		}
	}
	if (!r)
		r = query_table_status(&table, err);
	if (!r)
		r = query_table_write_text(&table, options->limit, out, err);
	if (!r && columns < series->count_before_limit &&
	    buffer_printf(out, "%zu of %zu groups, those with the largest sums\n", columns, series->count_before_limit) < 0)
		r = error_nomem(err);
	return r;
}

/* Functions in rows, values of the label in columns: the share that each function has itself. */
static int comparison_table(const struct query_result *result, struct query_table *table, struct error *err)
{
	const struct query_comparison *comparison = &result->comparison;
	struct top_options options = {.by = TOP_BY_FUNCTION, .limit = SIZE_MAX, .unit = result->type.sample_unit};
	query_table_add_column(table, "function", "", QUERY_COLUMN_TEXT);
	for (size_t i = 0; i < comparison->count; i++)
		query_table_add_column(table, comparison->items[i].value, "percent", QUERY_COLUMN_NUMBER);
	int r = query_table_status(table, err);
	_cleanup_(intern_release) struct intern names = {0};
	if (!r && intern_init(&names, SIZE_MAX) < 0)
		r = error_nomem(err);
	if (r < 0)
		return r;
	for (size_t i = 0; !r && i < comparison->count; i++) {
		struct query_table one;
		r = top_table(comparison->items[i].profile, &options, &one, err);
		for (size_t k = 0; !r && k < one.row_count; k++) {
			const struct query_cell *cell = one.cells + k * one.column_count;
			uint32_t id;
			size_t before = names.count;
			if (intern_add_string(&names, cell[4].text, &id) < 0) {
				r = error_nomem(err);
			} else if (names.count > before) {
				query_table_add_row(table, 0);
				query_table_string(table, cell[4].text);
				r = query_table_status(table, err);
			}
			if (r < 0 || id == 0)
				continue;
			struct query_cell *to = table->cells + (size_t)(id - 1) * table->column_count + i + 1;
			*to = (struct query_cell){.number = (to->absent ? 0 : to->number) + cell[1].number};
		}
		query_table_release(&one);
	}
	return r;
}

/* Rows by the largest share that they have anywhere: a column is added for it, sorted by and taken away. */
static int sort_by_largest(struct query_table *table, struct error *err)
{
	size_t from = table->column_count, to = from + 1;
	struct query_cell *cells = mem_alloc_array(table->row_count * to, sizeof(*cells));
	if (!cells)
		return error_nomem(err);
	query_table_add_column(table, "largest", "", QUERY_COLUMN_NUMBER);
	int r = query_table_status(table, err);
	for (size_t i = 0; i < table->row_count; i++) {
		double largest = 0;
		memcpy(cells + i * to, table->cells + i * from, from * sizeof(*cells));
		for (size_t k = 1; k < from; k++)
			if (!cells[i * to + k].absent && cells[i * to + k].number > largest)
				largest = cells[i * to + k].number;
		cells[i * to + from] = (struct query_cell){.number = largest};
	}
	if (r < 0) {
		mem_free(cells);
		return r;
	}
	mem_free(table->cells);
	table->cells = cells;
	r = query_table_sort(table, from, true, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < table->row_count; i++)
		memmove(table->cells + i * from, table->cells + i * to, from * sizeof(*cells));
	table->column_count = from;
	return 0;
}

static int text_comparison(const struct query_result *result, const struct query_write_options *options, struct buffer *out,
			   struct error *err)
{
	const struct query_comparison *comparison = &result->comparison;
	_cleanup_(query_table_release) struct query_table totals = {0};
	_cleanup_(query_table_release) struct query_table table = {0};
	query_table_init(&totals);
	query_table_init(&table);
	query_table_add_column(&totals, comparison->label, "", QUERY_COLUMN_TEXT);
	query_table_add_column(&totals, "total", result->type.sample_unit, QUERY_COLUMN_INTEGER);
	for (size_t i = 0; i < comparison->count; i++) {
		query_table_add_row(&totals, 0);
		query_table_string(&totals, comparison->items[i].value);
		query_table_integer(&totals, comparison->items[i].total);
	}
	int r = query_table_status(&totals, err);
	if (!r)
		r = query_table_write_text(&totals, 0, out, err);
	if (!r && buffer_append_byte(out, '\n') < 0)
		r = error_nomem(err);
	if (!r)
		r = comparison_table(result, &table, err);
	if (!r)
		r = sort_by_largest(&table, err);
	return r < 0 ? r : query_table_write_text(&table, options->limit ? options->limit : TEXT_FUNCTIONS_MAX, out, err);
}

int query_write_text(const struct query_result *result, const struct query_stats *stats,
		     const struct query_write_options *options, struct buffer *out, struct error *err)
{
	static const struct query_write_options defaults;
	size_t start = out->len;
	int r = 0;
	options = options ? options : &defaults;
	switch (result->kind) {
	case QUERY_PROFILE: r = text_profile(result->profile, options, out, err); break;
	case QUERY_DIFF: r = text_diff(result, options, out, err); break;
	case QUERY_COMPARISON: r = text_comparison(result, options, out, err); break;
	case QUERY_SERIES: r = text_series(&result->series, options, out, err); break;
	case QUERY_TABLE: r = query_table_write_text(&result->table, options->limit, out, err); break;
	}
	if (!r && stats && stats->read.partial && buffer_printf(out, "partial: %s\n", stats->read.why) < 0)
		r = error_nomem(err);
	if (!r && stats && stats->read.saturated && buffer_append_string(out, "warning: " SUM_WARNING "\n") < 0)
		r = error_nomem(err);
	if (!r && stats && options->explain &&
	    (buffer_append_byte(out, '\n') < 0 || query_explain_text(&result->explain, stats, out) < 0))
		r = error_nomem(err);
	if (r < 0)
		buffer_truncate(out, start);
	return r;
}
