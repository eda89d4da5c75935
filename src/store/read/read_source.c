/* SPDX-License-Identifier: Apache-2.0 */
/* Reading one source: a block by its plan, the head as a whole. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/block/block_scan.h"
#include "store/block/filter.h"
#include "store/read/read_parts.h"

/* Adds the time since *since to a phase, and begins the next one. */
static void end_phase(struct source_sums *sums, enum store_phase phase, int64_t *since)
{
	int64_t now = time_monotonic_ns();
	sums->stats.phase_ns[phase] += (uint64_t)(now - *since);
	*since = now;
}

/* Hands the source's sums over, whole. */
static int hand_over_points(struct reading *r, const struct source_sums *sums, struct error *err)
{
	size_t cursor = 0;
	uint64_t key, value;
	int code = 0;
	while (code == 0 && map64_next(&sums->map, &cursor, &key, &value))
		code = r->on_point(r->point_context, (uint32_t)(key >> 32), (uint32_t)key, (int64_t)value, err);
	return code;
}

/* hashes: by stack of the source, or of the stacks that are `listed`. */
static int hand_over(struct reading *r, uint32_t source, struct source_sums *sums, const struct sum_lists *lists,
		     const struct hash128 *hashes, bool listed, struct error *err)
{
	int64_t since = time_monotonic_ns();
	int code;
	THREAD_LOCK_SCOPE(&r->lock);
	if (r->merge) {
		struct stack_sums stacks = {lists->stacks, lists->groups, lists->values, lists->count, listed};
		code = stack_set_add(&r->set, source, &stacks, hashes, r->select->stacks_max, err);
	} else {
		code = hand_over_points(r, sums, err);
	}
	end_phase(sums, STORE_PHASE_MERGE, &since);
	if (code == -E2BIG) {
		read_note_partial(r, "the limit of %zu distinct stacks was reached after %zu of %zu sources",
				  r->select->stacks_max, r->done, r->source_count);
		code = SELECT_LIMITED;
	}
	store_read_stats_add(r->stats, &sums->stats);
	return code;
}

/* Rows of one series, or rollup series. */
static int add_rows(const struct reading *r, struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks,
		    const int64_t *times, const int64_t *values)
{
	if (!r->merge)
		return source_sums_add_points(sums, id, count, stacks, times, values);
	if (!sums->dense)
		return source_sums_add_grouped(sums, id, count, stacks, values);
	source_sums_add(sums, id, count, stacks, values);
	return 0;
}

/* The same for rows with numbers, which go into groups of their own; a run of one text after the other. */
static int add_numbered_rows(const struct reading *r, struct source_sums *sums, struct source_numbers *numbers,
			     const struct block_run *run, struct error *err)
{
	const int64_t *values = run->values[0];
	uint32_t group = sums->groups ? sums->groups[run->id] : 0, numbered;
	int code = 0;
	for (size_t from = 0, to; code == 0 && from < run->count; from = to) {
		uint32_t text = run->numbers[from];
		for (to = from + 1; to < run->count && run->numbers[to] == text; to++)
			;
		if (text)
			code = read_numbers_find(numbers, group, text, &numbered, err);
		if (code < 0)
			return code;
		code = text ? source_sums_add_to(sums, numbered, run->id, to - from, run->stacks + from, values + from)
			    : add_rows(r, sums, run->id, to - from, run->stacks + from, NULL, values + from);
	}
	return code < 0 ? error_nomem(err) : 0;
}

/* ---- gauges ---- */

/* lock held. READ_HAS_GAUGES: this merge has to count profiles first. */
static int number_gauges(struct reading *r, const struct series_columns *columns, const struct selection *selection,
			 struct source_averages *ret, struct error *err)
{
	if (!r->select->average_gauges || selection->matched == 0)
		return 0;
	int code = averages_number(&r->averages, columns, selection, ret, err);
	if (code < 0)
		return code;
	if (r->phase == READ_AVERAGE)
		return averages_weigh(&r->averages, ret, selection->count, err);
	return r->merge && r->phase == READ_PLAIN && ret->numbers ? READ_HAS_GAUGES : 0;
}

/* Of a series that may be a gauge. */
static int note_span(const struct reading *r, struct source_averages *averages, size_t id, int64_t first_ns, int64_t last_ns,
		     struct error *err)
{
	const struct store_select *select = r->select;
	if (!averages->numbers || averages->numbers[id] == NOT_AVERAGED || r->phase == READ_AVERAGE)
		return 0;
	struct average_span span = {.number = averages->numbers[id],
				    .first_ns = first_ns > select->from_ns ? first_ns : select->from_ns,
				    .last_ns = last_ns < select->to_ns ? last_ns : select->to_ns - 1};
	return average_spans_add(&averages->spans, span, err);
}

/* What is given is not there any more. */
static int hand_over_averages(struct reading *r, uint32_t source, struct source_averages *averages, struct error *err)
{
	if (!averages->numbers || r->phase == READ_AVERAGE)
		return 0;
	THREAD_LOCK_SCOPE(&r->lock);
	int code = averages_add(&r->averages, averages, err);
	r->spans[source].spans = averages->spans;
	r->spans[source].counted = true;
	averages->spans = (struct average_spans){0};
	return code;
}

/* ---- blocks ---- */

static void release_block_source(struct block_source *b)
{
	selection_release(&b->selection);
	selection_release(&b->rollups);
	source_sums_release(&b->sums);
	source_averages_release(&b->averages);
	mem_free(b->accepted);
	source_numbers_release(&b->numbers);
	if (b->texts.count)
		intern_release(&b->texts);
	cache_put(b->r->store, BLOCK_PART_SERIES, b->series);
	cache_put(b->r->store, BLOCK_PART_TABLES, b->tables);
	cache_put(b->r->store, BLOCK_PART_HASHES, b->hashes);
	cache_put(b->r->store, BLOCK_PART_SAMPLES_FOOTER, b->footer);
}

/* The rollup series of wanted series: whatever of them the query mentions they share. */
static int select_rollups(struct block_source *b)
{
	const struct block_series *series = b->series;
	if (!series->rollup_ids)
		return 0;
	size_t count = series->rollup_count;
	b->rollups = (struct selection){.count = count, .wanted = mem_zalloc(count)};
	if (b->selection.groups)
		b->rollups.groups = mem_zalloc_array(count, sizeof(*b->rollups.groups));
	if (!b->rollups.wanted || (b->selection.groups && !b->rollups.groups))
		return error_nomem(b->err);
	for (size_t i = 0; i < b->selection.count; i++) {
		if (!b->selection.wanted[i])
			continue;
		size_t rollup = (size_t)series->rollup_ids[i];
		b->rollups.wanted[rollup] = 1;
		if (b->rollups.groups)
			b->rollups.groups[rollup] = b->selection.groups[i];
	}
	return 0;
}

static int note_block_series(struct block_source *b)
{
	const struct block_series *series = b->series;
	struct reading *r = b->r;
	uint32_t last = UINT32_MAX;
	int code = 0;
	THREAD_LOCK_SCOPE(&r->lock);
	for (size_t i = 0; code == 0 && i < b->selection.count; i++) {
		if (!b->selection.wanted[i])
			continue;
		uint32_t type = series->columns.type_ids[i];
		if (r->merge && type != last)
			code = read_note_type(r, &series->columns.types[type], b->err);
		last = type;
		read_note_series(r, series->periods[i], series->first_ns[i], series->last_ns[i]);
	}
	return code;
}

/* Of gauges, each a rollup series by itself, only those whose series has a sample in the range. */
static int choose_gauges(struct block_source *b)
{
	const struct block_series *series = b->series;
	struct reading *r = b->r;
	pthread_mutex_lock(&r->lock);
	int code = number_gauges(r, &series->columns, &b->selection, &b->averages, b->err);
	pthread_mutex_unlock(&r->lock);
	if (code != 0 || !b->averages.numbers)
		return code;
	for (size_t i = 0; code == 0 && i < b->selection.count; i++)
		code = note_span(r, &b->averages, i, series->first_ns[i], series->last_ns[i], b->err);
	if (code < 0)
		return code;
	for (size_t i = 0; series->rollup_ids && i < b->selection.count; i++)
		if (b->averages.numbers[i] == NOT_AVERAGED &&
		    profile_type_is_gauge(&series->columns.types[series->columns.type_ids[i]]))
			b->rollups.wanted[series->rollup_ids[i]] = 0;
	return averages_number_rollups(&b->averages, series->rollup_ids, b->selection.count, series->rollup_count, b->err);
}

static int choose_series(struct block_source *b)
{
	struct reading *r = b->r;
	int code = cache_get(r->store, b->block, BLOCK_PART_SERIES, (void **)&b->series, &b->sums.stats, b->err);
	if (code < 0)
		return code;
	end_phase(&b->sums, STORE_PHASE_INDEX, &b->since);
	pthread_mutex_lock(&r->lock);
	code = selection_make(r->series, NULL, &b->series->columns, &b->selection, b->err);
	/* Before groups are made, for those tell the query of types: what lies outside of the range does not count. */
	if (code == 0)
		selection_limit(&b->selection, r->select, b->series->first_ns, b->series->last_ns);
	if (code == 0 && r->grouping)
		code = selection_group(&b->selection, r->grouping, &b->series->columns, b->err);
	pthread_mutex_unlock(&r->lock);
	if (code == 0)
		code = select_rollups(b);
	if (code == 0)
		code = note_block_series(b);
	if (code == 0)
		code = choose_gauges(b);
	b->sums.stats.series += b->selection.matched;
	end_phase(&b->sums, STORE_PHASE_PLAN, &b->since);
	return code;
}

/* What the plan needs to know of stacks. */
static int load_stacks(struct block_source *b)
{
	struct reading *r = b->r;
	int code = 0;
	if (r->phase == READ_COUNT)
		return 0;
	if (r->merge) {
		code = cache_get(r->store, b->block, BLOCK_PART_HASHES, (void **)&b->hashes, &b->sums.stats, b->err);
		b->stack_count = code == 0 ? b->hashes->count : 0;
	}
	if (code == 0 && r->stacks) {
		code = cache_get(r->store, b->block, BLOCK_PART_TABLES, (void **)&b->tables, &b->sums.stats, b->err);
		if (code < 0)
			return code;
		b->stack_count = b->tables->stack_count;
		read_note_names(r, b->block, b->tables);
		pthread_mutex_lock(&r->lock);
		code = filter_block(r->stacks, b->tables, &b->accepted, b->err);
		pthread_mutex_unlock(&r->lock);
	}
	end_phase(&b->sums, STORE_PHASE_INDEX, &b->since);
	return code;
}

/* Rows of one series and one link; a link without a span is none here. */
static int add_span_rows(struct reading *r, struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks,
			 const int64_t *times, const int64_t *values, const struct profile_link *link, struct error *err)
{
	static const struct profile_link none;
	uint32_t group = sums->groups[id];
	if (memcmp(link->span_id, none.span_id, sizeof(none.span_id)) == 0)
		return 0;
	pthread_mutex_lock(&r->lock);
	int code = r->grouping->span(r->grouping->context, group, link, &group, err);
	pthread_mutex_unlock(&r->lock);
	if (code < 0)
		return code;
	return source_sums_add_group_points(sums, group, count, stacks, times, values) < 0 ? error_nomem(err) : 0;
}

static bool same_link(const struct block_run *run, size_t a, size_t b)
{
	return memcmp(run->spans[a].data, run->spans[b].data, sizeof(((struct profile_link *)0)->span_id)) == 0 &&
	       memcmp(run->traces[a].data, run->traces[b].data, sizeof(((struct profile_link *)0)->trace_id)) == 0;
}

static int add_span_run(struct block_source *b, struct source_sums *sums, const struct block_run *run, struct error *err)
{
	int code = 0;
	for (size_t from = 0, to; code == 0 && from < run->count; from = to) {
		struct profile_link link;
		memcpy(link.trace_id, run->traces[from].data, sizeof(link.trace_id));
		memcpy(link.span_id, run->spans[from].data, sizeof(link.span_id));
		for (to = from + 1; to < run->count && same_link(run, from, to);)
			to++;
		code = add_span_rows(b->r, sums, run->id, to - from, run->stacks ? run->stacks + from : NULL,
				     run->times ? run->times + from : NULL, run->values[0] + from, &link, err);
	}
	return code;
}

bool read_numbers_pass(struct block_source *b, struct bytes text)
{
	return filter_numbers_pass(b->r->select, text);
}

/* What the query wants of numbers, and which of it the block has. */
static int choose_numbers(struct block_source *b)
{
	const struct store_select *select = b->r->select;
	for (size_t i = 0; b->series->numbers && i < b->selection.count && !b->has_numbers; i++)
		b->has_numbers = b->selection.wanted[i] && b->series->numbers[i] > 0;
	b->none_pass = select->number_count && !b->has_numbers && !read_numbers_pass(b, (struct bytes){0});
	/* Rollups have the values, if not the numbers. */
	b->with_numbers = select->with_numbers && b->r->merge && b->has_numbers && b->block->meta.files[BLOCK_SAMPLES].size;
	b->numbers = (struct source_numbers){.r = b->r, .texts = &b->texts};
	return b->with_numbers && intern_init(&b->texts, SIZE_MAX) < 0 ? error_nomem(b->err) : 0;
}

int read_add_run(struct block_source *b, struct source_sums *sums, const struct block_run *run, struct error *err)
{
	if (run->spans)
		return add_span_run(b, sums, run, err);
	if (run->numbers)
		return add_numbered_rows(b->r, sums, &b->numbers, run, err);
	int code = add_rows(b->r, sums, run->id, run->count, run->stacks, run->times, run->values[0]);
	return code < 0 ? error_nomem(err) : 0;
}

/* ---- their profiles ---- */

struct counting {
	struct block_source *b;
	bool by_total;	     /* totals have numbers of them */
	uint64_t key, count; /* not added yet */
	bool has_last;
	uint32_t last_id;
	int64_t last_time;
};

static int end_count(struct counting *c)
{
	int code = c->count ? map64_add(&c->b->averages.profiles, c->key, c->count) : 0;
	c->count = 0;
	return code;
}

/* Rows of a series come by time, and go on in the next run. */
static int on_counted_run(void *context, const struct block_run *run, struct error *err)
{
	struct counting *c = context;
	uint32_t number = c->b->averages.numbers[run->id];
	int code = 0;
	for (size_t i = 0; code == 0 && i < run->count; i++) {
		int64_t time = run->times ? run->times[i] : 0;
		if (!c->by_total && c->has_last && run->id == c->last_id && time == c->last_time)
			continue;
		uint64_t key = average_key(number, read_bucket_of(c->b->r, time));
		if (key != c->key)
			code = end_count(c);
		c->key = key;
		c->count += !c->by_total ? 1 : run->values[0][i] > 0 ? (uint64_t)run->values[0][i] : 0;
		c->has_last = true;
		c->last_id = run->id;
		c->last_time = time;
	}
	return code < 0 ? error_nomem(err) : 0;
}

static int on_counted_check(void *context, struct error *err)
{
	const struct counting *c = context;
	return read_check(c->b->r, c->b->rows + c->b->scan->rows, err);
}

static int on_counted_lost(void *context, const struct block_lost *lost, const char *why)
{
	return read_note_lost(((struct counting *)context)->b, lost, why);
}

static int count_segment(struct block_source *b, const struct plan_segment *segment, const uint8_t *wanted)
{
	struct counting counting = {.b = b, .by_total = segment->file != BLOCK_SAMPLES};
	struct block_scan scan = {
		.block = b->block,
		.file = counting.by_total ? BLOCK_TOTALS : BLOCK_SAMPLES,
		.footer = counting.by_total ? NULL : b->footer,
		.value = counting.by_total ? "profiles" : NULL,
		.wanted = wanted,
		.id_count = b->selection.count,
		.ranges = segment->ranges,
		.range_count = segment->range_count,
		.need_times = !counting.by_total || b->r->criteria.step_ns != 0,
		.on_run = on_counted_run,
		.check = on_counted_check,
		.on_lost = on_counted_lost,
		.context = &counting,
	};
	b->scan = &scan;
	int code = block_scan(&scan, b->err);
	b->rows += scan.rows;
	block_scan_add_counts(&scan, &b->sums.stats);
	if (code == 0 && end_count(&counting) < 0)
		code = error_nomem(b->err);
	return code;
}

/* Whatever the values are read from, the totals of the same time have the number of profiles; samples are counted. */
static int count_profiles(struct block_source *b, const struct plan *plan)
{
	if (!b->averages.numbers || b->r->phase == READ_AVERAGE)
		return 0;
	_cleanup_(mem_freep) uint8_t *wanted = mem_zalloc(b->selection.count);
	if (!wanted)
		return error_nomem(b->err);
	for (size_t i = 0; i < b->selection.count; i++)
		wanted[i] = b->averages.numbers[i] != NOT_AVERAGED;
	int code = 0;
	for (size_t i = 0; code == 0 && i < plan->count; i++)
		code = count_segment(b, &plan->segments[i], wanted);
	end_phase(&b->sums, STORE_PHASE_SCAN, &b->since);
	return code;
}

/* ---- values ---- */

/* What was read from segments of one kind, to be handed over when all others were read, too. */
struct kind {
	bool is_read;
	struct source_sums sums;
	struct sum_lists lists;
};

/* Segments of the same kind share sums; there are at most two kinds, by series and by rollup series. */
static int scan_kind(struct block_source *b, const struct plan *plan, bool by_rollup, struct kind *ret)
{
	bool any = false;
	for (size_t i = 0; i < plan->count; i++)
		any |= plan_is_by_rollup(plan->segments[i].file) == by_rollup;
	if (!any)
		return 0;
	int code = read_segments(b, plan, by_rollup);
	end_phase(&b->sums, STORE_PHASE_SCAN, &b->since);
	if (code == 0 && b->r->merge)
		code = source_sums_list(&b->sums, &ret->lists, b->err);
	ret->is_read = code == 0;
	ret->sums = b->sums;
	/* It is all in the lists. */
	if (b->r->merge)
		ret->sums.dense = mem_free(ret->sums.dense);
	b->sums = (struct source_sums){0};
	return code;
}

/* A block gives all or nothing of what it has, unless a limit is in the way. */
static int scan_kinds(struct block_source *b, const struct plan *plan)
{
	struct kind kinds[2] = {0};
	int code = 0;
	for (size_t i = 0; code == 0 && i < 2; i++)
		code = scan_kind(b, plan, i == 0, &kinds[i]);
	for (size_t i = 0; i < 2; i++) {
		struct kind *kind = &kinds[i];
		if (kind->is_read && (code == 0 || code == SELECT_LIMITED)) {
			int r = hand_over(b->r, b->source, &kind->sums, &kind->lists, b->hashes ? b->hashes->hashes : NULL,
					  false, b->err);
			code = code == 0 ? r : code;
		}
		sum_lists_release(&kind->lists);
		source_sums_release(&kind->sums);
	}
	return code;
}

static void note_plan(struct block_source *b, const struct plan *plan)
{
	struct reading *r = b->r;
	bool lacks_numbers = b->has_numbers && !b->block->meta.files[BLOCK_SAMPLES].size &&
			     ((r->merge && r->select->with_numbers) || r->select->number_count);
	if (!plan->rounded && !plan->missing && !lacks_numbers)
		return;
	if (b->block->meta.files[BLOCK_SAMPLES].size && !block_can_use(b->block, BLOCK_SAMPLES)) {
		read_note_losses(r, b->block, true);
		return;
	}
	THREAD_LOCK_SCOPE(&r->lock);
	read_note_partial(r,
			  r->select->link_count || r->criteria.by_span ? "block %s has only rollups, which have no spans"
			  : lacks_numbers ? "block %s has only rollups, which have no numeric labels"
			  : plan->missing && plan->uncounted
				  ? "block %s has only rollups of an earlier version, which lack the number of profiles"
			  : plan->missing ? "block %s has only rollups, which lack a requested label or step"
					  : "block %s has only rollups, so the ends of the range are rounded to 5 minutes",
			  b->block->meta.name);
}

/* Damage is left to the scan, which goes around it. */
static int load_footer(struct block_source *b, const struct plan *plan)
{
	struct error why = {0};
	bool wanted = false;
	for (size_t i = 0; i < plan->count; i++)
		wanted |= plan->segments[i].file == BLOCK_SAMPLES;
	if (!wanted || b->none_pass)
		return 0;
	int code = cache_get(b->r->store, b->block, BLOCK_PART_SAMPLES_FOOTER, (void **)&b->footer, &b->sums.stats, &why);
	if (code == -EBADMSG)
		return 0;
	return code < 0 ? error_set(b->err, code, "%s", why.message) : 0;
}

static int hand_over_counts(struct block_source *b)
{
	pthread_mutex_lock(&b->r->lock);
	store_read_stats_add(b->r->stats, &b->sums.stats);
	pthread_mutex_unlock(&b->r->lock);
	return hand_over_averages(b->r, b->source, &b->averages, b->err);
}

static int read_block(struct block_source *b)
{
	_cleanup_(plan_release) struct plan plan = {0};
	int code = choose_series(b);
	if (code != 0)
		return code;
	if (b->selection.matched == 0) {
		pthread_mutex_lock(&b->r->lock);
		b->sums.stats.blocks_skipped += b->sums.stats.blocks;
		b->sums.stats.blocks = 0;
		store_read_stats_add(b->r->stats, &b->sums.stats);
		pthread_mutex_unlock(&b->r->lock);
		return 0;
	}
	code = load_stacks(b);
	if (code == 0)
		code = choose_numbers(b);
	if (code < 0)
		return code;
	struct plan_criteria criteria = b->r->criteria;
	criteria.averages = b->averages.numbers != NULL;
	criteria.only_averages = b->averages.numbers && b->averages.all;
	criteria.unusable = b->block->unusable;
	criteria.numbers = b->with_numbers || (b->has_numbers && b->r->select->number_count);
	code = plan_make(&b->block->meta, &criteria, &plan, b->err);
	if (code < 0)
		return code;
	note_plan(b, &plan);
	code = load_footer(b, &plan);
	end_phase(&b->sums, STORE_PHASE_INDEX, &b->since);
	if (code == 0)
		code = count_profiles(b, &plan);
	if (code == 0 && b->r->phase == READ_COUNT)
		return hand_over_counts(b);
	if (code == 0 && !b->none_pass)
		code = scan_kinds(b, &plan);
	return code == 0 ? hand_over_averages(b->r, b->source, &b->averages, b->err) : code;
}

int read_block_source(struct reading *r, uint32_t source, struct block *block, struct error *err)
{
	struct error own = {0};
	int code;
	if (!read_overlaps(r->select, block->meta.min_ns, block->meta.max_ns)) {
		pthread_mutex_lock(&r->lock);
		r->stats->blocks_skipped += r->phase != READ_COUNT;
		pthread_mutex_unlock(&r->lock);
		return 0;
	}
	read_note_losses(r, block, false);
	do {
		struct block_source b = {.r = r, .source = source, .block = block, .since = time_monotonic_ns(), .err = &own};
		b.sums.stats.blocks = r->phase != READ_COUNT;
		code = read_block(&b);
		release_block_source(&b);
		damage_note_corrected(r->store, block);
	} while (code == READ_ANEW);
	if (code == -EBADMSG && budget_has_ended()) /* it may be for want of memory */
		code = error_nomem(&own);
	if (code == -EBADMSG) {
		blocks_set_aside(r->store, block, own.message);
		/* Of averages, the other sources were counted or weighed with what is not there any more. */
		return r->phase == READ_PLAIN ? 0 : -EAGAIN;
	}
	if (code < 0 && err)
		*err = own;
	return code;
}

/* ---- the head ---- */

struct head_source {
	struct reading *r;
	struct head *head;
	struct head_columns *columns;
	struct selection selection;
	struct source_averages averages;
	size_t count;	   /* rows */
	uint8_t *accepted; /* by stack */
	uint8_t *links;	   /* by link: whether it is wanted; NULL = all are */
	uint8_t *texts;	   /* by text of numbers, likewise */
	struct source_numbers numbers;
	struct source_sums sums;
	struct sum_lists lists;
	struct hash128 *hashes; /* of the stacks in the lists */
	struct error *err;
};

static int filter_texts(struct head_source *h)
{
	const struct store_select *select = h->r->select;
	const struct intern *texts = &h->head->number_texts;
	if (!select->number_count)
		return 0;
	h->texts = mem_alloc(texts->count);
	if (!h->texts)
		return error_nomem(h->err);
	for (uint32_t i = 0; i < texts->count; i++)
		h->texts[i] = filter_numbers_pass(select, intern_get(texts, i));
	return 0;
}

static int choose_head_series(struct head_source *h)
{
	const struct head *head = h->head;
	struct reading *r = h->r;
	int code = head_columns_get(h->head, &h->columns, h->err);
	if (code < 0)
		return code;
	THREAD_LOCK_SCOPE(&r->lock);
	code = selection_make(r->series, NULL, &h->columns->columns, &h->selection, h->err);
	for (size_t i = 0; code == 0 && i < h->selection.count; i++) {
		const struct series *series = &head->series[i];
		h->selection.wanted[i] &= series->samples > 0 && read_overlaps(r->select, series->first_ns, series->last_ns);
	}
	if (code == 0 && r->grouping)
		code = selection_group(&h->selection, r->grouping, &h->columns->columns, h->err);
	if (code == 0)
		selection_count(&h->selection);
	for (size_t i = 0; code == 0 && i < h->selection.count; i++) {
		const struct series *series = &head->series[i];
		if (!h->selection.wanted[i])
			continue;
		if (r->merge)
			code = read_note_type(r, series->type, h->err);
		read_note_series(r, series->period, series->first_ns, series->last_ns);
	}
	if (code == 0)
		code = number_gauges(r, &h->columns->columns, &h->selection, &h->averages, h->err);
	for (size_t i = 0; code == 0 && i < h->selection.count; i++)
		code = note_span(r, &h->averages, i, head->series[i].first_ns, head->series[i].last_ns, h->err);
	if (code == 0 && h->selection.matched && r->phase != READ_COUNT)
		code = filter_pool(r->stacks, head->pool, &h->accepted, h->err);
	if (code == 0 && h->selection.matched && r->phase != READ_COUNT)
		code = filter_pool_links(r->select, head->pool, &h->links, h->err);
	if (code == 0 && h->selection.matched && r->phase != READ_COUNT)
		code = filter_texts(h);
	return code;
}

struct head_profile {
	uint32_t series;
	int64_t time_ns;
};

static int compare_profiles(const void *a, const void *b)
{
	const struct head_profile *x = a, *y = b;
	return ORDER(x->series, y->series) ?: ORDER(x->time_ns, y->time_ns);
}

/* The rows of a profile are mostly neighbours, and those of one time need not be: they are sorted. */
static int count_head_profiles(struct head_source *h)
{
	const struct head *head = h->head;
	const struct store_select *select = h->r->select;
	_cleanup_(mem_freep) struct head_profile *profiles = NULL;
	size_t count = 0, capacity = 0;
	if (!h->averages.numbers || h->r->phase == READ_AVERAGE)
		return 0;
	for (size_t i = 0; i < h->count; i++) {
		struct head_profile profile = {head->series_ids[i], head->times[i]};
		if (h->averages.numbers[profile.series] == NOT_AVERAGED || profile.time_ns < select->from_ns ||
		    profile.time_ns >= select->to_ns || (count && compare_profiles(&profiles[count - 1], &profile) == 0))
			continue;
		if (array_reserve(&profiles, &capacity, count + 1, SIZE_MAX) < 0)
			return error_nomem(h->err);
		profiles[count++] = profile;
	}
	sort_array(profiles, count, compare_profiles);
	for (size_t i = 0; i < count; i++) {
		uint32_t number = h->averages.numbers[profiles[i].series];
		if (i > 0 && compare_profiles(&profiles[i - 1], &profiles[i]) == 0)
			continue;
		if (map64_add(&h->averages.profiles, average_key(number, read_bucket_of(h->r, profiles[i].time_ns)), 1) < 0)
			return error_nomem(h->err);
	}
	return 0;
}

static int sum_head_row(struct head_source *h, size_t row)
{
	const struct head *head = h->head;
	const struct profile_link *link = &head->pool->links[head->links[row]];
	const int32_t *stack = (const int32_t *)&head->stacks[row];
	uint32_t id = head->series_ids[row];
	h->sums.stats.head_rows++;
	if (h->r->criteria.by_span)
		return add_span_rows(h->r, &h->sums, id, 1, stack, &head->times[row], &head->values[row], link, h->err);
	int code = add_rows(h->r, &h->sums, id, 1, stack, &head->times[row], &head->values[row]);
	return code < 0 ? error_nomem(h->err) : 0;
}

static int sum_head(struct head_source *h)
{
	const struct head *head = h->head;
	const struct store_select *select = h->r->select;
	bool with_numbers = select->with_numbers && h->r->merge;
	int code = 0;
	h->numbers = (struct source_numbers){.r = h->r, .texts = &head->number_texts};
	for (size_t i = 0; code == 0 && i < h->count; i++) {
		uint32_t id = head->series_ids[i];
		if (!h->selection.wanted[id] || head->times[i] < select->from_ns || head->times[i] >= select->to_ns)
			continue;
		uint32_t text = head->numbers ? head->numbers[i] : 0;
		if ((h->links && !h->links[head->links[i]]) || (h->texts && !h->texts[text]))
			continue;
		if (h->r->criteria.by_span && !head->links[i])
			continue;
		if (!text || !with_numbers) {
			code = sum_head_row(h, i);
			continue;
		}
		const int32_t *stack = (const int32_t *)&head->stacks[i];
		struct block_run run = {.id = id, .count = 1, .stacks = stack, .numbers = &text, .values = {&head->values[i]}};
		h->sums.stats.head_rows++;
		code = add_numbered_rows(h->r, &h->sums, &h->numbers, &run, h->err);
	}
	return code;
}

static int hash_head(struct head_source *h)
{
	h->hashes = mem_alloc_array(h->lists.count, sizeof(*h->hashes));
	if (!h->hashes)
		return error_nomem(h->err);
	return head_copy_hashes(h->head, h->lists.stacks, h->lists.count, h->hashes, h->err);
}

/* head->lock is held for reading. */
static int read_locked_head(struct head_source *h)
{
	int64_t since = time_monotonic_ns();
	int code = choose_head_series(h);
	if (code == 0 && h->selection.matched)
		code = count_head_profiles(h);
	if (code != 0 || h->selection.matched == 0 || h->r->phase == READ_COUNT)
		return code;
	code = source_sums_init(&h->sums, h->r, h->head->pool->stack_count, h->selection.groups, h->selection.wanted,
				h->selection.count, h->err);
	h->sums.accepted = h->accepted;
	h->sums.averages = &h->averages;
	h->sums.numbers = h->averages.numbers;
	h->sums.weights = h->averages.weights;
	h->sums.stats.series = h->selection.matched;
	end_phase(&h->sums, STORE_PHASE_INDEX, &since);
	if (code == 0)
		code = sum_head(h);
	if (code == 0 && h->r->merge)
		code = source_sums_list(&h->sums, &h->lists, h->err);
	if (code == 0 && h->r->merge)
		code = hash_head(h);
	end_phase(&h->sums, STORE_PHASE_SCAN, &since);
	return code;
}

int read_head_source(struct reading *r, uint32_t source, struct head *head, struct error *err)
{
	struct head_source h = {.r = r, .head = head, .err = err};
	pthread_rwlock_rdlock(&head->lock);
	/* Between counting and averaging it may have grown. */
	h.count = r->phase == READ_AVERAGE && r->head_counts[source] < head->count ? r->head_counts[source] : head->count;
	r->head_counts[source] = h.count;
	int code = read_locked_head(&h);
	pthread_rwlock_unlock(&head->lock);
	if (code == 0 && h.selection.matched && r->phase != READ_COUNT)
		code = hand_over(r, source, &h.sums, &h.lists, h.hashes, true, err);
	if (code == 0)
		code = hand_over_averages(r, source, &h.averages, err);
	source_averages_release(&h.averages);
	selection_release(&h.selection);
	source_sums_release(&h.sums);
	sum_lists_release(&h.lists);
	mem_free(h.hashes);
	mem_free(h.accepted);
	mem_free(h.links);
	mem_free(h.texts);
	source_numbers_release(&h.numbers);
	head_columns_put(head, h.columns);
	return code;
}
