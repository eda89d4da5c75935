/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading: merge and series.
 *
 * A query works on a snapshot: the heads and blocks as they were at one moment, referenced. Its sources are read by a few
 * threads, each taking the next one; the newest come first, so that an answer cut short by a limit is that of the newest data.
 * Threads that find no more sources read parts of those that others have (read_parts.c).
 * A source gives all or nothing: what it adds up to is collected first, and handed over when it has been read to its end. A
 * damaged block is set aside, and the result is that of the rest.
 *
 * Merging adds values into an array by the source's stack ids, which costs an addition a row. What has a value then meets the
 * other sources in a table by the stacks' content hashes, and only the distinct stacks that are left at the end are made into
 * frames. The numbers of rows, stacks of a source, and distinct stacks differ by an order of magnitude each.
 *
 * Rejected: merging frames source by source (each stack is then made as often as there are sources), and one hash table for all
 * rows (a cache miss a row instead of an addition).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/read/read_parts.h"

#define STACKS_MAX_DEFAULT (4u * 1024 * 1024)
#define ATTEMPTS_MAX	   16 /* each takes a damaged block out */

/* ---- limits ---- */

bool read_overlaps(const struct store_select *select, int64_t first_ns, int64_t last_ns)
{
	return first_ns < select->to_ns && last_ns >= select->from_ns;
}

void read_note_partial(struct reading *r, const char *format, ...)
{
	va_list arguments;
	if (r->stats->partial)
		return;
	r->stats->partial = true;
	va_start(arguments, format);
	vsnprintf(r->stats->why, sizeof(r->stats->why), format, arguments);
	va_end(arguments);
}

size_t read_share_of_budget(unsigned percent)
{
	size_t left = budget_left(), used = budget_used();
	return left == SIZE_MAX ? SIZE_MAX : (left + used) / 100 * percent;
}

const char *read_may_leave_out(struct reading *r, int code)
{
	if (code != -ENOMEM || !r->merge || r->select->whole || !r->budget)
		return NULL;
	enum budget_end end = r->budget->end;
	if (budget_forgive())
		r->short_of = end;
	/* Of several threads that failed, the first has taken it back already. */
	return !r->short_of ? NULL : r->short_of == BUDGET_SPENT ? "query_memory" : "queries.memory";
}

int read_check(struct reading *r, uint64_t rows, struct error *err)
{
	THREAD_LOCK_SCOPE(&r->lock);
	return select_check(r->select, rows, r->done, r->source_count, r->stats, err);
}

/* ---- what is known of the selection ---- */

/* Absolute and delta values of one name add up; who wants them apart says so by a condition on types. */
int read_note_type(struct reading *r, const struct profile_type *type, struct error *err)
{
	struct profile_type same = *type;
	same.delta = r->type.delta;
	if (r->has_type && !profile_type_equal(&r->type, &same)) {
		char a[PROFILE_TYPE_TEXT_MAX], b[PROFILE_TYPE_TEXT_MAX];
		return error_set(err, -EINVAL, "the selection has series of different types, %s and %s: select one",
				 profile_type_format(&r->type, a), profile_type_format(type, b));
	}
	r->type = *type;
	r->has_type = true;
	return 0;
}

void read_note_series(struct reading *r, int64_t period, int64_t first_ns, int64_t last_ns)
{
	const struct store_select *select = r->select;
	int64_t first = first_ns > select->from_ns ? first_ns : select->from_ns;
	int64_t last = last_ns < select->to_ns ? last_ns : select->to_ns;
	r->period = period > r->period ? period : r->period;
	r->stats->period = r->period;
	r->min_ns = !r->has_range || first < r->min_ns ? first : r->min_ns;
	r->max_ns = !r->has_range || last > r->max_ns ? last : r->max_ns;
	r->has_range = true;
}

/* ---- sources ---- */

static struct head *head_at(const struct reading *r, size_t source)
{
	return source < 2 ? r->snapshot.heads[1 - source] : NULL;
}

static int read_source(struct reading *r, size_t source, struct error *err)
{
	if (source >= 2)
		return read_block_source(r, (uint32_t)source, read_block_at(r, source), err);
	struct head *head = head_at(r, source);
	return head ? read_head_source(r, (uint32_t)source, head, err) : 0;
}

static bool take_next(struct reading *r, size_t *ret)
{
	/* What could not be counted within the limits is not averaged either. */
	while (r->phase == READ_AVERAGE && r->next < r->source_count && !r->counted[r->next])
		r->next++;
	bool taken = !r->stop && r->next < r->source_count;
	if (taken)
		*ret = r->next++;
	r->busy += taken;
	return taken;
}

void read_note_spans(struct reading *r, size_t source)
{
	r->spans[source].arrived = true;
	for (; r->spans_noted < r->source_count && r->spans[r->spans_noted].arrived; r->spans_noted++) {
		averages_note_spans(&r->averages, &r->spans[r->spans_noted].spans);
		average_spans_release(&r->spans[r->spans_noted].spans);
	}
}

static void note_done(struct reading *r, size_t source, int code, const struct error *error)
{
	THREAD_LOCK_SCOPE(&r->lock);
	r->busy--;
	pthread_cond_broadcast(&r->changed);
	const char *limit = r->phase == READ_PLAIN ? read_may_leave_out(r, code) : NULL;
	if (limit) {
		read_note_partial(r, "the limit %s was reached after %zu of %zu sources", limit, r->done, r->source_count);
		r->stats->short_of_memory = true;
		code = SELECT_LIMITED;
	}
	if (code == 0) {
		r->done++;
		if (r->phase == READ_COUNT)
			r->counted[source] = 1;
		if (r->phase != READ_AVERAGE)
			read_note_spans(r, source);
	} else {
		r->stop = true;
		/* The others would be divided by the number of all profiles, but not all be there. */
		if (code == SELECT_LIMITED && r->phase == READ_AVERAGE && r->code == 0)
			r->code = error_set(&r->error, -ETIME,
					    "the query reached a limit before its averages were complete: narrow the "
					    "selector or the range");
		if (code != SELECT_LIMITED && r->code == 0) {
			r->code = code;
			r->error = *error;
		}
	}
}

enum work { WORK_NONE, WORK_SOURCE, WORK_SHARE };

/* The next source, or a part of one that another thread has; waits while there may be some. */
static enum work take_work(struct reading *r, bool is_helper, size_t *ret_source, struct read_share **ret_share)
{
	THREAD_LOCK_SCOPE(&r->lock);
	for (;;) {
		if (is_helper && read_helper_must_leave(r))
			return WORK_NONE;
		if (take_next(r, ret_source))
			return WORK_SOURCE;
		*ret_share = read_find_share(r);
		if (*ret_share)
			return WORK_SHARE;
		if (!r->busy)
			return WORK_NONE;
		r->idle += is_helper;
		pthread_cond_wait(&r->changed, &r->lock);
		r->idle -= is_helper;
	}
}

static void read_sources(struct reading *r, bool is_helper)
{
	struct read_share *share;
	size_t source;
	for (enum work work; (work = take_work(r, is_helper, &source, &share)) != WORK_NONE;) {
		struct error error = {0};
		if (work == WORK_SHARE) {
			read_join_share(share);
			continue;
		}
		int code = read_check(r, 0, &error);
		if (code == 0)
			code = read_source(r, source, &error);
		note_done(r, source, code, &error);
	}
}

void *read_help(void *reading)
{
	struct reading *r = reading;
	budget_enter(r->budget);
	read_sources(r, true);
	budget_leave(NULL);
	THREAD_LOCK_SCOPE(&r->lock);
	r->helpers--;
	return NULL;
}

/* A thread costs more than a small head or a block that is skipped. */
static size_t count_threads(const struct reading *r)
{
	size_t wanted = 0;
	for (size_t i = 0; i < r->snapshot.block_count; i++)
		wanted += read_overlaps(r->select, r->snapshot.blocks[i]->meta.min_ns, r->snapshot.blocks[i]->meta.max_ns);
	return wanted;
}

/* This thread reads too. */
static void read_all_sources(struct reading *r)
{
	size_t wanted = count_threads(r);
	r->started = r->helpers = r->idle = 0;
	pthread_mutex_lock(&r->lock);
	read_start_helpers(r, wanted ? wanted - 1 : 0);
	pthread_mutex_unlock(&r->lock);
	read_sources(r, false);
	/* Nobody is busy any more, so no thread is started. */
	for (size_t i = 0; i < r->started; i++)
		pthread_join(r->threads[i], NULL);
}

/* ---- entry points ---- */

static void release_spans(struct reading *r)
{
	for (size_t i = 0; r->spans && i < r->source_count; i++)
		average_spans_release(&r->spans[i].spans);
	r->spans = mem_free(r->spans);
	r->spans_noted = 0;
}

static int begin(struct reading *r, enum read_phase phase, struct error *err)
{
	if (phase != READ_AVERAGE) {
		release_spans(r);
		r->spans = mem_zalloc_array(r->source_count, sizeof(*r->spans));
		if (!r->spans)
			return error_nomem(err);
	}
	r->phase = phase;
	r->next = r->done = 0;
	r->stop = r->has_type = r->has_range = false;
	r->code = 0;
	r->period = 0;
	stack_set_release(&r->set);
	r->set.doubles = phase == READ_AVERAGE;
	return 0;
}

/* A part of what the query may take: what could be counted is to be averaged, too. */
static struct store_select limits_of_counting(const struct store_select *select)
{
	struct store_select part = *select;
	int64_t now = time_monotonic_ns();
	if (part.deadline_ns > now)
		part.deadline_ns = now + (part.deadline_ns - now) / 3;
	part.rows_max = part.rows_max > 1 ? part.rows_max / 2 : part.rows_max;
	return part;
}

static uint32_t base_of_group(const void *context, uint32_t group)
{
	return read_numbers_base(context, group);
}

/* A merge that has met gauges. */
static int read_averages(struct reading *r, struct error *err)
{
	const struct store_select *all = r->select;
	struct store_select part = limits_of_counting(all);
	averages_release(&r->averages);
	r->counted = mem_zalloc(r->source_count);
	if (!r->counted)
		return error_nomem(err);
	*r->stats = (struct store_read_stats){0};
	int code = begin(r, READ_COUNT, err);
	if (code < 0)
		return code;
	r->select = r->criteria.select = &part;
	read_all_sources(r);
	if (r->code == 0)
		r->code = read_count_overlaps(r, &r->error);
	r->select = r->criteria.select = all;
	if (r->code == 0) {
		averages_note_profiles(&r->averages);
		begin(r, READ_AVERAGE, NULL); /* allocates nothing */
		read_all_sources(r);
	}
	if (r->code < 0 && err)
		*err = r->error;
	return r->code == 0 ? averages_round_stacks(&r->set, base_of_group, r, err) : r->code;
}

static int read_once(struct reading *r, struct profile *into, struct error *err)
{
	int code = store_snapshot_take(r->store, &r->snapshot, err);
	if (code < 0)
		return code;
	r->source_count = 2 + r->snapshot.block_count;
	r->cpus = read_threads_cpus();
	r->short_of = BUDGET_OPEN;
	*r->stats = (struct store_read_stats){0};
	code = begin(r, READ_PLAIN, err);
	if (code < 0) {
		store_snapshot_release(r->store, &r->snapshot);
		return code;
	}
	size_t budget = r->merge && !r->select->whole ? budget_narrow(read_share_of_budget(READ_VALUES_SHARE)) : 0;
	read_all_sources(r);
	if (budget)
		budget_widen(budget);
	code = r->code;
	if (code < 0 && err)
		*err = r->error;
	/* A part that is nothing is no answer. */
	if (code == 0 && r->short_of && r->set.count == 0) {
		budget_give_up(r->short_of);
		code = error_nomem(err);
	}
	if (code == READ_HAS_GAUGES)
		code = read_averages(r, err);
	else if (code == 0 && !r->merge)
		code = read_count_overlaps(r, err);
	if (code == 0 && !r->merge)
		code = averages_give(&r->averages, r->on_point, r->point_context, err);
	if (code == 0 && r->merge)
		code = read_finish_merge(r, into, err);
	read_give_lost(r);
	gaps_note(r->store, r->select->from_ns, r->select->to_ns, r->stats);
	averages_release(&r->averages);
	release_spans(r);
	r->counted = mem_free(r->counted);
	stack_set_release(&r->set);
	read_numbers_release(r);
	store_snapshot_release(r->store, &r->snapshot);
	return code;
}

static int compile(struct reading *r, struct error *err)
{
	int code = series_matcher_new(&r->select->series, &r->series, err);
	return code < 0 ? code : stack_filter_new(r->select, &r->stacks, err);
}

/* Conditions that could not be checked: what was read, and how far, does not matter. */
static int check_conditions(const struct reading *r, int code, struct error *err)
{
	int failure = series_matcher_failure(r->series, err);
	if (failure == 0)
		failure = stack_filter_failure(r->stacks, err);
	return failure < 0 ? failure : code;
}

static int read_checked(struct reading *r, struct store_read_stats *stats, struct profile *into, struct error *err)
{
	struct store_read_stats own;
	struct store_select select = *r->select;
	r->stats = stats ? stats : &own;
	*r->stats = (struct store_read_stats){0};
	if (select.from_ns >= select.to_ns)
		return 0;
	if (select.stacks_max == 0)
		select.stacks_max = STACKS_MAX_DEFAULT;
	if (r->criteria.by_span)
		select.average_gauges = false;
	r->select = r->criteria.select = &select;
	r->criteria.grouping = r->grouping;
	r->budget = budget_current();
	int code = compile(r, err);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	if (code == 0) {
		read_threads_enter();
		code = -EAGAIN;
		for (int i = 0; code == -EAGAIN && i < ATTEMPTS_MAX; i++)
			code = read_once(r, into, err);
		read_threads_leave();
		code = check_conditions(r, code, err);
	}
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	series_matcher_free(r->series);
	stack_filter_free(r->stacks);
	return code;
}

int local_merge(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
		struct profile *into, struct store_read_stats *stats, struct error *err)
{
	struct reading reading = {
		.store = store, .select = select, .grouping = grouping, .merge = true, .criteria = {.by_stack = true}};
	return read_checked(&reading, stats, into, err);
}

int local_series(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
		 int64_t step_ns, store_on_point on_point, void *context, struct store_read_stats *stats, struct error *err)
{
	struct reading reading = {
		.store = store,
		.select = select,
		.grouping = grouping,
		.on_point = on_point,
		.point_context = context,
		.criteria = {.by_stack = select->condition_count + select->call_site_count > 0,
			     .by_step = true,
			     .step_ns = step_ns,
			     .by_span = grouping && grouping->span},
	};
	return read_checked(&reading, stats, NULL, err);
}
