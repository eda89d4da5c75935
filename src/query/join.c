/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples beside what processes used: one row a group and bin, with the samples' sum and the columns of process_stats.
 *
 * Columns that count (CPU time, faults, switches, bytes) are added up. Memory and threads are those of a moment, so they are
 * averaged over the rows that a process has in the bin, and then added up over processes; a process that ended has 0 there,
 * which says nothing and is left out. To tell processes apart the store is asked to group by host and pid too.
 *
 * A row of process_stats bears the end of the window that it covers: one at 10:01:00 is of the minute before.
 */
#include "store/processes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"
#include "query/run.h"

#define CELLS_MAX    1000000 /* groups x bins, processes x bins */
#define ATTEMPTS_MAX 10

static const char *const identity[] = {"host_name", "process_pid"};
#define IDENTITY_COUNT (sizeof(identity) / sizeof(*identity))

struct moment { /* of one process in one bin */
	uint32_t cell;
	uint32_t rows[PROCESS_STATS_COLUMNS];
	int64_t sums[PROCESS_STATS_COLUMNS];
};
struct cell { /* one group in one bin */
	uint32_t group, bin;
	int64_t value;
	bool has_value, has_processes;
	uint64_t processes;
	int64_t counts[PROCESS_STATS_COLUMNS];
	double gauges[PROCESS_STATS_COLUMNS];
};
struct join {
	struct run *run;
	const char *by[STORE_GROUP_BY_MAX + IDENTITY_COUNT];
	size_t on_count, by_count;
	struct groups groups;	 /* of the labels to join on */
	struct groups processes; /* of all of `by` */
	uint32_t *group_of;	 /* by process */
	size_t group_of_count, group_of_capacity;
	int64_t from_ns, step_ns;
	struct cell *cells;
	size_t cell_count, cell_capacity;
	struct map64 cell_index; /* group << 32 | bin */
	struct moment *moments;
	size_t moment_count, moment_capacity;
	struct map64 moment_index; /* process << 32 | bin */
};

static void join_release(struct join *join)
{
	groups_release(&join->groups);
	groups_release(&join->processes);
	mem_free(join->group_of);
	mem_free(join->cells);
	mem_free(join->moments);
	map64_release(&join->cell_index);
	map64_release(&join->moment_index);
}

static bool is_gauge(enum process_stats_column column)
{
	return column == PROCESS_STATS_RSS || column == PROCESS_STATS_THREADS;
}

static int too_many(struct error *err)
{
	return error_set(err, -EINVAL, "query: more than %d groups and bins to join; use longer bins or fewer labels",
			 CELLS_MAX);
}

static int find_cell(struct join *join, uint32_t group, uint32_t bin, uint32_t *ret, struct error *err)
{
	uint64_t key = (uint64_t)group << 32 | bin, known;
	if (map64_get(&join->cell_index, key, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	int r = array_reserve(&join->cells, &join->cell_capacity, join->cell_count + 1, CELLS_MAX);
	if (!r)
		r = map64_put(&join->cell_index, key, join->cell_count);
	if (r < 0)
		return r == -E2BIG ? too_many(err) : error_nomem(err);
	*ret = (uint32_t)join->cell_count;
	join->cells[join->cell_count++] = (struct cell){.group = group, .bin = bin};
	return 0;
}

static int find_moment(struct join *join, uint32_t process, uint32_t bin, struct moment **ret, struct error *err)
{
	uint64_t key = (uint64_t)process << 32 | bin, known;
	if (map64_get(&join->moment_index, key, &known)) {
		*ret = &join->moments[known];
		return 0;
	}
	struct moment moment = {0};
	int r = find_cell(join, join->group_of[process], bin, &moment.cell, err);
	if (r < 0)
		return r;
	r = array_reserve(&join->moments, &join->moment_capacity, join->moment_count + 1, CELLS_MAX);
	if (!r)
		r = map64_put(&join->moment_index, key, join->moment_count);
	if (r < 0)
		return r == -E2BIG ? too_many(err) : error_nomem(err);
	join->moments[join->moment_count] = moment;
	*ret = &join->moments[join->moment_count++];
	return 0;
}

/* ---- samples ---- */

static int add_series(struct join *join, const struct query_series *series)
{
	int r = 0;
	for (size_t i = 0; !r && i < series->count; i++) {
		const struct query_series_row *row = &series->rows[i];
		uint32_t group, cell;
		r = groups_find(&join->groups, &row->labels, &group, join->run->err);
		for (size_t k = 0; !r && k < row->point_count; k++) {
			uint64_t bin = (uint64_t)(row->points[k].time_ns - join->from_ns) / (uint64_t)join->step_ns;
			r = find_cell(join, group, (uint32_t)bin, &cell, join->run->err);
			if (r < 0)
				break;
			join->cells[cell].value = row->points[k].value;
			join->cells[cell].has_value = true;
		}
	}
	return r;
}

/* ---- processes ---- */

static int on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	struct join *join = context;
	_cleanup_(labels_release) struct labels on = {0};
	int r = groups_find(&join->processes, labels, ret, err);
	if (r < 0 || *ret < join->group_of_count)
		return r;
	for (size_t i = 0; !r && i < join->on_count; i++) {
		const char *value = labels_get(labels, join->by[i]);
		r = value ? labels_set(&on, join->by[i], value, err) : 0;
	}
	if (!r && array_reserve(&join->group_of, &join->group_of_capacity, (size_t)*ret + 1, UINT32_MAX) < 0)
		r = error_nomem(err);
	if (!r)
		r = groups_find(&join->groups, &on, &join->group_of[*ret], err);
	if (!r)
		join->group_of_count++;
	return r;
}

static int on_process(void *context, const struct store_process_row *row, struct error *err)
{
	struct join *join = context;
	uint64_t bin = (uint64_t)(row->time_ns - 1 - join->from_ns) / (uint64_t)join->step_ns;
	struct moment *moment = NULL;
	int r = find_moment(join, row->group, (uint32_t)bin, &moment, err);
	if (r < 0)
		return r;
	struct cell *cell = &join->cells[moment->cell];
	cell->has_processes = true;
	for (unsigned i = 0; i < PROCESS_STATS_COLUMNS; i++) {
		if (!is_gauge(i)) {
			sum_to(&cell->counts[i], row->values[i]);
		} else if (row->values[i]) {
			sum_to(&moment->sums[i], row->values[i]);
			moment->rows[i]++;
		}
	}
	return 0;
}

static void add_moments(struct join *join)
{
	for (size_t i = 0; i < join->moment_count; i++) {
		const struct moment *moment = &join->moments[i];
		struct cell *cell = &join->cells[moment->cell];
		cell->processes++;
		for (unsigned k = 0; k < PROCESS_STATS_COLUMNS; k++)
			if (moment->rows[k])
				cell->gauges[k] += (double)moment->sums[k] / moment->rows[k];
	}
}

static int read_part(void *context, const struct store_select *select, const struct store_grouping *grouping,
		     struct store_read_stats *stats, struct error *err)
{
	struct join *join = context;
	return store_read_processes(join->run->store, select, grouping, STORE_PROCESS_ALL, on_process, join, stats, err);
}

static int read_processes(struct join *join, const struct query *query, struct error *err)
{
	struct query plain = *query;
	plain.frames_count = 0;
	plain.type = NULL;
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	int r = query_scan_init(&scan, NULL, &plain, err);
	if (r < 0)
		return r;
	/* A window that ends when the range begins is of the time before. */
	scan.select.from_ns = query->from_ns + 1;
	scan.select.to_ns = query->to_ns + 1;
	scan.change_delay_ns = 1;
	r = query_scan_join(&scan, join->run->store, join->by, join->by_count, err);
	if (r < 0)
		return r;
	struct store_grouping grouping = {.by = join->by, .by_count = join->by_count, .group = on_group, .context = join};
	r = query_scan_read(&scan, &grouping, read_part, join, err);
	return query_scan_finish(&scan, join->run->store, r, join->run->stats, 0, err);
}

/* ---- the table ---- */

DEFINE_ORDER(compare_cells, struct cell, ORDER(a->group, b->group) ?: ORDER(a->bin, b->bin));

static void add_process_columns(struct run *run)
{
	query_table_add_column(&run->result->table, "processes", "", QUERY_COLUMN_INTEGER);
	for (unsigned i = 0; i < PROCESS_STATS_COLUMNS; i++) {
		const struct process_stats_column_name *name = &process_stats_columns[i];
		char unit[QUERY_UNIT_MAX];
		struct query_series like = {.rate = run->plan->rate && !is_gauge(i)}; /* no type: only a unit */
		snprintf(like.type.sample_unit, sizeof(like.type.sample_unit), "%s", name->unit);
		enum query_column_kind kind =
			like.rate || i == PROCESS_STATS_THREADS ? QUERY_COLUMN_NUMBER : QUERY_COLUMN_INTEGER;
		query_table_add_column(&run->result->table, name->column, query_series_unit(&like, unit), kind);
	}
}

static void put_processes(const struct join *join, const struct cell *from, struct query_table *table)
{
	query_table_integer(table, (int64_t)from->processes);
	for (unsigned i = 0; i < PROCESS_STATS_COLUMNS; i++) {
		if (i == PROCESS_STATS_THREADS)
			query_table_number(table, from->gauges[i]);
		else if (is_gauge(i))
			query_table_integer(table, (int64_t)from->gauges[i]);
		else if (join->run->plan->rate)
			query_table_number(table, rate_value(from->counts[i], i == PROCESS_STATS_CPU, join->step_ns));
		else
			query_table_integer(table, from->counts[i]);
	}
}

static void put_row(struct join *join, const struct cell *from)
{
	struct run *run = join->run;
	struct query_table *table = &run->result->table;
	query_table_add_row(table, run->rows_max);
	if (run->plan->binned)
		query_table_integer(table, join->from_ns + (int64_t)from->bin * join->step_ns);
	for (size_t i = 0; i < join->on_count; i++)
		query_table_string(table, labels_get(&join->groups.items[from->group], join->by[i]));
	if (from->has_value)
		run_put_sum(run, from->value, join->step_ns);
	else
		query_table_skip(table);
	if (from->has_processes)
		put_processes(join, from, table);
}

static int put_table(struct join *join)
{
	struct run *run = join->run;
	add_moments(join);
	sort_array(join->cells, join->cell_count, compare_cells);
	if (run->plan->binned)
		query_table_add_column(&run->result->table, "time", "", QUERY_COLUMN_TIME);
	run_add_labels(run, run->plan->by, run->plan->by_count);
	run_add_sum_column(run, "value");
	add_process_columns(run);
	for (size_t i = 0; i < join->cell_count; i++)
		put_row(join, &join->cells[i]);
	return query_table_status(&run->result->table, run->err);
}

/* The labels to join on, and those that tell processes apart. */
static int join_init(struct join *join, struct run *run)
{
	const struct query_plan *plan = run->plan;
	*join = (struct join){.run = run, .on_count = plan->by_count};
	for (size_t i = 0; i < plan->by_count; i++)
		join->by[join->by_count++] = plan->by[i];
	for (size_t i = 0; i < IDENTITY_COUNT && join->by_count < STORE_GROUP_BY_MAX; i++) {
		bool there = false;
		for (size_t k = 0; k < plan->by_count; k++)
			there |= strcmp(plan->by[k], identity[i]) == 0;
		if (!there)
			join->by[join->by_count++] = identity[i];
	}
	int r = groups_init(&join->groups, NULL, plan->by, plan->by_count, CELLS_MAX, run->err);
	return r < 0 ? r : groups_init(&join->processes, NULL, join->by, join->by_count, CELLS_MAX, run->err);
}

static int join_once(struct run *run, const struct query_series *series)
{
	_cleanup_(join_release) struct join join = {0};
	struct query query;
	run_query(run, &query);
	int r = join_init(&join, run);
	join.from_ns = query.from_ns = series->from_ns;
	query.to_ns = series->to_ns;
	join.step_ns = series->step_ns;
	if (!r)
		r = add_series(&join, series);
	if (!r)
		r = read_processes(&join, &query, run->err);
	return r < 0 ? r : put_table(&join);
}

int run_join(struct run *run)
{
	const struct query_plan *plan = run->plan;
	struct query query;
	run_query(run, &query);
	struct query_series_options options = {.whole = !plan->binned,
					       .step_ns = plan->step_ns,
					       .by = plan->by,
					       .by_count = plan->by_count,
					       .limit = SIZE_MAX};
	_cleanup_(query_series_release) struct query_series series = {0};
	int r = query_series(run->store, run->symbolizer, &query, &options, &series, run->stats, run->err);
	run->result->type = series.type;
	/* A block that turned out to be damaged is out of the way when it is tried again. */
	for (int i = 0; !r && i < ATTEMPTS_MAX; i++) {
		r = join_once(run, &series);
		if (r != -EAGAIN)
			break;
		r = i + 1 < ATTEMPTS_MAX ? 0 : r;
	}
	return r;
}
