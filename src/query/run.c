/* SPDX-License-Identifier: Apache-2.0 */
/* Carrying out a plan. Each output is one function; what they share is how a struct query is made of the plan, and how a merged
 * profile is read, named and transformed. */
#include "query/run.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/sum.h"
#include "base/time.h"

#define ROWS_MAX_DEFAULT 100000
#define PLAN_BYTES_MAX	 (256 * KIB)

/* ---- what is asked of the store ---- */

void run_query(const struct run *run, struct query *ret)
{
	*ret = run->options->query;
	ret->selector = run->plan->selector;
	ret->where = run->plan->where;
	ret->where_count = run->plan->where_count;
	ret->frames = run->plan->frames;
	ret->frames_count = run->plan->frames_count;
}

/* The other side of a difference: its own selector or range, or both. */
static int base_query(struct run *run, struct query *base)
{
	const struct stage *diff = run->plan->diff;
	int64_t now_ns = run->options->now_ns ? run->options->now_ns : time_now_ns();
	run_query(run, base);
	if (run->plan->base_selector) {
		base->selector = run->plan->base_selector;
		/* A type beside the selectors is the usual one of both; a base that names its own means it. */
		base->type = diff->selector->type.count ? NULL : base->type;
	}
	if (diff->from) {
		int r = time_parse(diff->from, now_ns, &base->from_ns, run->err);
		if (!r)
			r = time_parse(diff->to, now_ns, &base->to_ns, run->err);
		if (r < 0)
			return error_prefix(run->err, r, "query: the range of the base");
	}
	if (diff->duration_ns > base->from_ns)
		return stage_refuse(run->plan->pipeline, diff, run->err, "the base would start before 1970");
	base->from_ns -= diff->duration_ns;
	base->to_ns -= diff->duration_ns;
	run->result->base_from_ns = base->from_ns;
	run->result->base_to_ns = base->to_ns;
	run->result->relative = diff->relative;
	return 0;
}

/* ---- merged profiles ---- */

static int transform_stage(const struct stage *stage, struct profile **profile, struct error *err)
{
	struct frame_matcher *filter = NULL;
	bool negate = false;
	int r = stage->frames.test_count ? query_frames_compile(&stage->frames, &filter, &negate, err) : 0;
	if (r < 0)
		return r;
	switch (stage->kind) {
	case STAGE_FRAMES: r = transform_filter(profile, filter, stage->frames.where, negate, err); break;
	case STAGE_HIDE:
		r = stage->interpreters ? transform_hide_interpreters(profile, err) : transform_hide(profile, filter, err);
		break;
	case STAGE_FOCUS:
	case STAGE_CALLEES: r = transform_callees(profile, filter, err); break;
	case STAGE_CALLERS: r = transform_callers(profile, filter, err); break;
	case STAGE_COLLAPSE: r = transform_collapse(profile, stage->collapse, filter, err); break;
	default: break;
	}
	frame_matcher_free(filter);
	return r;
}

int run_transforms(struct run *run, struct profile **profile)
{
	const struct query_plan *plan = run->plan;
	if (!plan->transform_count)
		return 0;
	int64_t started = time_monotonic_ns();
	int r = 0;
	for (size_t i = 0; !r && i < plan->transform_count; i++)
		r = transform_stage(plan->transforms[i], profile, run->err);
	run->stats->transform_ns += (uint64_t)(time_monotonic_ns() - started);
	return r;
}

int run_profile(struct run *run, const struct query_merge_options *options, struct profile **ret)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct query query, base;
	run_query(run, &query);
	int r;
	if (run->plan->diff) {
		r = base_query(run, &base);
		if (!r)
			r = query_diff_read(run->store, run->symbolizer, &base, &query, options, &profile, &run->result->type,
					    run->stats, run->err);
	} else {
		r = query_merge_read(run->store, run->symbolizer, &query, options, &profile, &run->result->type, run->stats,
				     run->err);
	}
	if (!r)
		r = query_merge_symbolize(run->symbolizer, &query, profile, run->stats, run->err);
	if (!r)
		r = run_transforms(run, &profile);
	if (r < 0)
		return r;
	profile_shrink_stacks(profile); /* what is made of it only reads */
	*ret = TAKE(profile);
	return 0;
}

static int run_flame(struct run *run)
{
	const struct query_plan *plan = run->plan;
	struct query_merge_options options = {.by = plan->by, .by_count = plan->by_count, .numbers = run->options->numbers};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = run_profile(run, &options, &profile);
	if (!r && plan->by_count)
		r = transform_label_frames(&profile, plan->by, plan->by_count, run->err);
	if (r < 0)
		return r;
	run->result->kind = plan->diff ? QUERY_DIFF : QUERY_PROFILE;
	run->result->profile = TAKE(profile);
	return 0;
}

/* ---- tables ---- */

static bool is_time(const struct run *run)
{
	return strcmp(run->result->type.sample_unit, "nanoseconds") == 0;
}

/* Once the type is known: gauges are no amounts per time. */
static bool has_rate(const struct run *run)
{
	return run->plan->rate && !query_type_is_gauge(&run->result->type);
}

/* Of the column with sums. */
const char *run_unit(const struct run *run, char out[static QUERY_UNIT_MAX])
{
	struct query_series like = {.type = run->result->type, .rate = has_rate(run)};
	return query_series_unit(&like, out);
}

static int run_top(struct run *run)
{
	const struct query_plan *plan = run->plan;
	struct query_merge_options merge = {.by = plan->by, .by_count = plan->by_count};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = run_profile(run, &merge, &profile);
	if (r < 0)
		return r;
	char unit[QUERY_UNIT_MAX];
	struct top_options options = {.by = plan->last->by,
				      .total = plan->last->total,
				      .limit = plan->last->number,
				      .labels = plan->by,
				      .label_count = plan->by_count,
				      .unit = run_unit(run, unit),
				      .relative = plan->diff && plan->diff->relative,
				      .rate_range_ns =
					      has_rate(run) ? run->options->query.to_ns - run->options->query.from_ns : 0,
				      .rows_max = run->rows_max};
	return top_table(profile, &options, &run->result->table, run->err);
}

void run_put_sum(struct run *run, int64_t value, int64_t range_ns)
{
	if (has_rate(run))
		query_table_number(&run->result->table, rate_value(value, is_time(run), range_ns));
	else
		query_table_integer(&run->result->table, value);
}

void run_add_labels(struct run *run, const char *const *by, size_t by_count)
{
	for (size_t i = 0; i < by_count; i++)
		query_table_add_column(&run->result->table, by[i], "", QUERY_COLUMN_TEXT);
}

void run_add_sum_column(struct run *run, const char *name)
{
	char unit[QUERY_UNIT_MAX];
	query_table_add_column(&run->result->table, name, run_unit(run, unit),
			       has_rate(run) ? QUERY_COLUMN_NUMBER : QUERY_COLUMN_INTEGER);
}

/* One row a group: labels, value, percent of all groups. */
static int series_table(struct run *run, const struct query_series *series, const char *const *by, size_t by_count)
{
	struct query_table *table = &run->result->table;
	int64_t total = 0;
	run_add_labels(run, by, by_count);
	run_add_sum_column(run, "value");
	query_table_add_column(table, "percent", "percent", QUERY_COLUMN_NUMBER);
	for (size_t i = 0; i < series->count; i++)
		sum_to(&total, series->rows[i].total);
	for (size_t i = 0; i < series->count; i++) {
		const struct query_series_row *row = &series->rows[i];
		query_table_add_row(table, run->rows_max);
		for (size_t k = 0; k < by_count; k++)
			query_table_string(table, row->others ? "(others)" : labels_get(&row->labels, by[k]));
		run_put_sum(run, row->total, series->to_ns - series->from_ns);
		query_table_number(table, total ? 100.0 * (double)row->total / (double)total : 0);
	}
	return query_table_status(table, run->err);
}

static int run_top_label(struct run *run)
{
	const struct query_plan *plan = run->plan;
	const char *by[STORE_GROUP_BY_MAX + 1];
	size_t count = 0;
	for (; count < plan->by_count; count++)
		by[count] = plan->by[count];
	by[count++] = plan->last->names[0];
	struct query query;
	run_query(run, &query);
	struct query_series_options options = {.whole = true, .by = by, .by_count = count, .limit = run->rows_max};
	_cleanup_(query_series_release) struct query_series series = {0};
	int r = query_series(run->store, run->symbolizer, &query, &options, &series, run->stats, run->err);
	if (r < 0)
		return r;
	run->result->type = series.type;
	/* Shares are of everything, so rows are left out at last. */
	if (plan->last->others) {
		r = query_series_limit(&series, plan->last->number, true, run->err);
		return r < 0 ? r : series_table(run, &series, by, count);
	}
	r = series_table(run, &series, by, count);
	query_table_limit(&run->result->table, plan->last->number);
	run->result->table.rows_before_limit = series.count_before_limit;
	return r;
}

/* The sums of a profile: after transformations, and of two sides. */
static int sum_profile(struct run *run)
{
	const struct query_plan *plan = run->plan;
	struct query_merge_options merge = {.by = plan->by, .by_count = plan->by_count};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = run_profile(run, &merge, &profile);
	if (r < 0)
		return r;
	int64_t range_ns = run->options->query.to_ns - run->options->query.from_ns;
	_cleanup_(mem_freep) int64_t *sums = mem_zalloc_array(profile->label_set_count, sizeof(*sums));
	struct query_table *table = &run->result->table;
	if (!sums)
		return error_nomem(run->err);
	if (plan->diff) {
		int64_t base = profile_total(profile, 0), value = profile_total(profile, 1);
		run_add_sum_column(run, "base");
		run_add_sum_column(run, "value");
		run_add_sum_column(run, "change");
		query_table_add_column(table, "percent", "percent", QUERY_COLUMN_NUMBER);
		query_table_add_row(table, run->rows_max);
		run_put_sum(run, base, range_ns);
		run_put_sum(run, value, range_ns);
		run_put_sum(run, sum_difference(value, base), range_ns);
		if (base)
			query_table_number(table, 100.0 * ((double)value - (double)base) / (double)base);
		return query_table_status(table, run->err);
	}
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t *sum = &sums[profile->samples[i].labels];
		sum_to(sum, profile->values[i]);
	}
	run_add_labels(run, plan->by, plan->by_count);
	run_add_sum_column(run, "value");
	for (size_t i = 0; i < profile->label_set_count; i++) {
		if (!sums[i])
			continue;
		query_table_add_row(table, run->rows_max);
		for (size_t k = 0; k < plan->by_count; k++)
			query_table_string(table, profile_label_value(profile, (uint32_t)i, plan->by[k]));
		run_put_sum(run, sums[i], range_ns);
	}
	r = query_table_status(table, run->err);
	return r < 0 ? r : query_table_sort(table, plan->by_count, true, run->err);
}

static int run_sum(struct run *run)
{
	const struct query_plan *plan = run->plan;
	if (plan->transform_count || plan->diff)
		return sum_profile(run);
	struct query query;
	run_query(run, &query);
	struct query_series_options options = {.whole = !plan->binned,
					       .step_ns = plan->step_ns,
					       .by = plan->by,
					       .by_count = plan->by_count,
					       .limit = run->rows_max};
	_cleanup_(query_series_release) struct query_series series = {0};
	int r = query_series(run->store, run->symbolizer, &query, &options, &series, run->stats, run->err);
	if (r < 0)
		return r;
	run->result->type = series.type;
	return series_table(run, &series, plan->by, plan->by_count);
}

/* ---- lists ---- */

static int names_table(struct run *run, const char *name, const struct query_names *names)
{
	struct query_table *table = &run->result->table;
	bool labels = run->plan->output == PLAN_LABELS;
	const struct {
		const char *name;
		enum query_column_kind kind;
	} columns[] = {{name, QUERY_COLUMN_TEXT},    {"series", QUERY_COLUMN_INTEGER}, {"samples", QUERY_COLUMN_INTEGER},
		       {"first", QUERY_COLUMN_TIME}, {"last", QUERY_COLUMN_TIME},      {"values", QUERY_COLUMN_INTEGER}};
	for (size_t i = 0; i < (labels ? 6 : 5); i++)
		query_table_add_column(table, columns[i].name, "", columns[i].kind);
	if (run->plan->output != PLAN_TYPES)
		query_table_add_column(table, "hosts", "", QUERY_COLUMN_INTEGER);
	for (size_t i = 0; i < names->count; i++) {
		const struct query_name *item = &names->items[i];
		query_table_add_row(table, run->rows_max);
		query_table_string(table, item->name);
		query_table_integer(table, (int64_t)item->series);
		query_table_integer(table, (int64_t)item->samples);
		query_table_integer(table, item->first_ns);
		query_table_integer(table, item->last_ns);
		if (labels)
			query_table_integer(table, (int64_t)item->values);
		if (run->plan->output != PLAN_TYPES)
			query_table_integer(table, (int64_t)item->hosts);
	}
	table->rows_before_limit = names->count_before_limit;
	return query_table_status(table, run->err);
}

static int run_names(struct run *run)
{
	const struct stage *last = run->plan->last;
	_cleanup_(query_names_release) struct query_names names = {0};
	struct query query;
	run_query(run, &query);
	int r;
	switch (run->plan->output) {
	case PLAN_LABELS: r = query_label_names(run->store, &query, &names, run->stats, run->err); break;
	case PLAN_VALUES:
		r = query_label_values(run->store, &query, last->names[0], last->prefix, run->rows_max, &names, run->stats,
				       run->err);
		break;
	default: r = query_types(run->store, &query, &names, run->stats, run->err); break;
	}
	if (r == 0 && names.count == 0 && !run->stats->read.partial)
		r = query_check_type(run->store, &query, run->err);
	if (r < 0)
		return r;
	return names_table(run,
			   run->plan->output == PLAN_LABELS   ? "label"
			   : run->plan->output == PLAN_VALUES ? "value"
							      : "type",
			   &names);
}

/* ---- charts ---- */

static int count_table(struct run *run, size_t count)
{
	struct query_table *table = &run->result->table;
	query_table_release(table);
	query_table_init(table);
	query_table_add_column(table, "count", "", QUERY_COLUMN_INTEGER);
	query_table_add_row(table, 0);
	query_table_integer(table, (int64_t)count);
	return query_table_status(table, run->err);
}

static int run_series(struct run *run)
{
	const struct query_plan *plan = run->plan;
	const struct stage *top = plan->series_top;
	struct query_series *series = &run->result->series;
	struct query query;
	run_query(run, &query);
	struct query_series_options options = {.step_ns = plan->step_ns,
					       .by = plan->by,
					       .by_count = plan->by_count,
					       .limit = top ? top->number : 0,
					       .others = top && top->others,
					       .rate = plan->rate};
	int r = query_series(run->store, run->symbolizer, &query, &options, series, run->stats, run->err);
	if (r < 0)
		return r;
	run->result->type = series->type;
	run->result->kind = QUERY_SERIES;
	for (size_t i = 0; !r && i < plan->tail_count && run->result->kind == QUERY_SERIES; i++) {
		if (plan->tail[i]->kind == STAGE_LIMIT) {
			r = query_series_limit(series, plan->tail[i]->number, false, run->err);
		} else {
			r = count_table(run, top || i ? series->count : series->count_before_limit);
			query_series_release(series);
			run->result->kind = QUERY_TABLE;
			run->tail_done = i + 1;
		}
	}
	return r;
}

static int run_tail(struct run *run)
{
	const struct query_plan *plan = run->plan;
	struct query_table *table = &run->result->table;
	int r = 0;
	for (size_t i = run->tail_done; !r && i < plan->tail_count; i++) {
		const struct stage *stage = plan->tail[i];
		size_t column;
		if (stage->kind == STAGE_LIMIT) {
			query_table_limit(table, stage->number);
		} else if (stage->kind == STAGE_COUNT) {
			r = count_table(run, table->row_count);
		} else {
			r = query_table_find_column(table, stage->names[0], &column, run->err);
			if (!r)
				r = query_table_sort(table, column, stage->descending, run->err);
		}
	}
	return r;
}

/* ---- all of it ---- */

static int run_output(struct run *run)
{
	run->result->kind = QUERY_TABLE;
	switch (run->plan->output) {
	case PLAN_PROFILE: return run_flame(run);
	case PLAN_SERIES: return run_series(run);
	case PLAN_TOP: return run_top(run);
	case PLAN_TOP_LABEL: return run_top_label(run);
	case PLAN_SUM: return run_sum(run);
	case PLAN_COMPARE: return run_compare(run);
	case PLAN_JOIN: return run_join(run);
	case PLAN_COUNT_TYPES:
	case PLAN_TYPES:
	case PLAN_LABELS:
	case PLAN_VALUES: return run_names(run);
	}
	return -EINVAL;
}

static int write_plan(const struct query_plan *plan, struct query_explain *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer query = {.max = PLAN_BYTES_MAX};
	_cleanup_(buffer_release) struct buffer steps = {.max = PLAN_BYTES_MAX};
	const char *text = NULL, *lines = NULL;
	if (!pipeline_format(plan->pipeline, &query) && !query_plan_format(plan, &steps)) {
		text = buffer_string(&query);
		lines = buffer_string(&steps);
	}
	ret->query = text ? mem_strdup(text) : NULL;
	ret->plan = lines ? mem_strdup(lines) : NULL;
	return ret->query && ret->plan ? 0 : error_nomem(err);
}

static int run_plan(struct run *run)
{
	int r = write_plan(run->plan, &run->result->explain, run->err);
	if (!r)
		r = run_output(run);
	if (!r && run->result->kind == QUERY_TABLE)
		r = run_tail(run);
	run->result->rate = has_rate(run);
	return r;
}

int query_run(struct store *store, struct symbolizer *symbolizer, const char *text, const struct query_options *options,
	      struct query_result *ret, struct query_stats *stats, struct error *err)
{
	struct query_stats unused = {0};
	struct query_plan plan = {0};
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	stats = stats ? stats : &unused;
	*ret = (struct query_result){.from_ns = options->query.from_ns, .to_ns = options->query.to_ns};
	if (options->query.from_ns >= options->query.to_ns)
		return error_set(err, -EINVAL, "query: the time range is empty: 'from' is not before 'to'");
	int64_t started = time_monotonic_ns();
	int r = pipeline_parse(text, &pipeline, err);
	if (!r)
		r = query_plan_make(pipeline, &plan, err);
	stats->parse_ns += (uint64_t)(time_monotonic_ns() - started);
	query_table_init(&ret->table);
	if (!r) {
		struct run run = {.store = store,
				  .symbolizer = symbolizer,
				  .options = options,
				  .plan = &plan,
				  .result = ret,
				  .stats = stats,
				  .err = err,
				  .rows_max = options->table_rows_max ? options->table_rows_max : ROWS_MAX_DEFAULT};
		r = run_plan(&run);
	}
	query_plan_release(&plan);
	if (r < 0)
		query_result_release(ret);
	return r;
}

void query_result_release(struct query_result *result)
{
	profile_free(result->profile);
	query_table_release(&result->table);
	query_series_release(&result->series);
	for (size_t i = 0; i < result->comparison.count; i++) {
		mem_free(result->comparison.items[i].value);
		profile_free(result->comparison.items[i].profile);
	}
	mem_free(result->comparison.items);
	mem_free(result->comparison.label);
	mem_free(result->explain.query);
	mem_free(result->explain.plan);
	*result = (struct query_result){0};
}
