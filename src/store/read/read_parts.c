/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of one block, by several threads.
 *
 * A source is taken by one thread. Where a block has the rows of a day, the others would have nothing to do, so whoever reads
 * it lists the row groups that have something to offer, and threads of the query that are idle read some of them:
 *
 *   share     the row groups, a unit each, and the next one that nobody has taken
 *   part      what one thread adds up of them: sums of its own, and a reader of its own for each table
 *   merge     the owner adds all parts to its own sums when every unit is done, and hands those over as it would alone
 *
 * Sums are integers that stop at their limits (base/sum.h), so they are the same however the units were distributed, but for
 * those of values of both signs that come near the limits. Where they are doubles (averages of
 * gauges), or where rows go into tables that belong to the whole source (spans, numbers of samples), the owner reads alone.
 *
 * How many threads. A query has the thread that asked and some more, all of them together as many as there are CPUs, and at
 * most THREADS_MAX. CPUs are divided by the number of queries that run in the process: eight queries on four CPUs have a thread
 * each. Nobody waits for a thread. A query gets more when others end, and gives some back when others come, after the unit at
 * hand.
 *
 * Memory: an array of sums a thread, which is what blocks that are read side by side take as well.
 */
#include <errno.h>
#include <sched.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/read/read_parts.h"

#define THREADS_MAX 4
#define UNITS_MIN   2 /* so many must be left for another thread to be worth it */

unsigned read_threads_max;
_Atomic uint64_t read_parts_joined;

/* ---- how many threads ---- */

static _Atomic unsigned queries;

void read_threads_enter(void)
{
	queries++;
}

void read_threads_leave(void)
{
	queries--;
}

unsigned read_threads_cpus(void)
{
	cpu_set_t cpus;
	return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (unsigned)CPU_COUNT(&cpus) : 1;
}

unsigned read_helpers_allowed(unsigned cpus)
{
	unsigned running = queries, most;
	if (read_threads_max)
		return read_threads_max - 1;
	most = cpus / (running ? running : 1);
	most = most < THREADS_MAX ? most : THREADS_MAX;
	return most ? most - 1 : 0;
}

/* lock held: as many as there is work for, at most. */
void read_start_helpers(struct reading *r, size_t wanted)
{
	size_t allowed = read_helpers_allowed(r->cpus);
	wanted = wanted < allowed ? wanted : allowed;
	/* One that cannot be started is missed by nobody. */
	while (r->helpers < wanted && r->started < READ_STARTS_MAX &&
	       thread_start(&r->threads[r->started], "wick-read", read_help, r, NULL) == 0) {
		r->started++;
		r->helpers++;
	}
}

/* lock held */
bool read_helper_must_leave(const struct reading *r)
{
	return r->helpers > read_helpers_allowed(r->cpus);
}

/* ---- parts ---- */

struct read_share {
	struct read_share *next; /* of the query */
	struct block_source *b;
	bool by_rollup;
	const struct plan_segment *segments[PLAN_SEGMENTS_MAX];
	size_t segment_count;
	struct unit {
		uint32_t segment, group;
	} * units;
	size_t unit_count, unit_capacity;
	atomic_size_t taken;   /* units that somebody has, or more */
	_Atomic uint64_t rows; /* read so far */
	atomic_bool stop;
	/* The query's lock */
	unsigned joined; /* threads that are at it, beside the owner */
	int code;	 /* the first error */
	struct error error;
	struct part *parts; /* of those who came and went */
};
struct part {
	struct part *next;
	struct read_share *share;
	struct source_sums *sums, own_sums;
	struct block_scan scans[PLAN_SEGMENTS_MAX];
	struct block_scanner *scanners[PLAN_SEGMENTS_MAX];
	const struct block_scan *scan; /* at hand */
	uint64_t noted;		       /* of its rows, those that are in share->rows */
	bool followed;		       /* it stopped because another part did */
};

static int on_run(void *context, const struct block_run *run, struct error *err)
{
	struct part *part = context;
	return read_add_run(part->share->b, part->sums, run, err);
}

static void note_rows(struct part *part)
{
	part->share->rows += part->scan->rows - part->noted;
	part->noted = part->scan->rows;
}

static int on_check(void *context, struct error *err)
{
	struct part *part = context;
	struct read_share *share = part->share;
	note_rows(part);
	part->followed = share->stop;
	if (part->followed)
		return -ECANCELED;
	return read_check(share->b->r, share->b->rows + share->rows, err);
}

static bool on_numbers(void *context, struct bytes text)
{
	const struct part *part = context;
	return read_numbers_pass(part->share->b, text);
}

static int on_lost(void *context, const struct block_lost *lost, const char *why)
{
	struct part *part = context;
	return read_note_lost(part->share->b, lost, why);
}

static int open_segment(struct part *part, size_t i, struct error *err)
{
	const struct read_share *share = part->share;
	const struct plan_segment *segment = share->segments[i];
	struct block_source *b = share->b;
	const struct reading *r = b->r;
	const struct selection *selection = share->by_rollup ? &b->rollups : &b->selection;
	part->scans[i] = (struct block_scan){
		.block = b->block,
		.file = segment->file,
		.footer = segment->file == BLOCK_SAMPLES ? b->footer : NULL,
		.wanted = selection->wanted,
		.id_count = selection->count,
		.stack_count = segment->file == BLOCK_TOTALS ? 0 : b->stack_count,
		.ranges = segment->ranges,
		.range_count = segment->range_count,
		.need_times = !r->merge && r->criteria.step_ns != 0,
		.links = r->select,
		.linked = r->criteria.by_span,
		.texts = b->with_numbers ? &b->texts : NULL,
		.numbers_pass = b->has_numbers && r->select->number_count ? on_numbers : NULL,
		.on_run = on_run,
		.check = on_check,
		.on_lost = on_lost,
		.context = part,
	};
	return block_scanner_open(&part->scans[i], &part->scanners[i], err);
}

static int init_sums(struct part *part, struct error *err)
{
	struct block_source *b = part->share->b;
	bool by_rollup = part->share->by_rollup;
	const struct selection *selection = by_rollup ? &b->rollups : &b->selection;
	struct source_sums *sums = part->sums;
	struct store_read_stats stats = sums->stats;
	int code = source_sums_init(sums, b->r, b->stack_count, selection->groups, selection->wanted, selection->count, err);
	sums->stats = stats;
	sums->accepted = b->accepted;
	sums->averages = &b->averages;
	sums->numbers = by_rollup ? b->averages.rollup_numbers : b->averages.numbers;
	sums->weights = by_rollup ? b->averages.rollup_weights : b->averages.weights;
	return code;
}

static void close_segments(struct part *part)
{
	for (size_t i = 0; i < PLAN_SEGMENTS_MAX; i++)
		part->scanners[i] = block_scanner_close(part->scanners[i]);
}

/* Reads units until all are taken, or a helper is to leave. */
static int read_units(struct part *part, struct error *err)
{
	struct read_share *share = part->share;
	struct reading *r = share->b->r;
	bool is_helper = part->sums == &part->own_sums;
	int code = 0;
	uint32_t last = 0;
	for (size_t at; code == 0 && !share->stop && (at = share->taken++) < share->unit_count;) {
		const struct unit *unit = &share->units[at];
		/* Units are in the order of segments: those before are done with. */
		for (; last < unit->segment; last++)
			part->scanners[last] = block_scanner_close(part->scanners[last]);
		if (!part->scanners[unit->segment])
			code = open_segment(part, unit->segment, err);
		part->scan = &part->scans[unit->segment];
		part->noted = part->scan->rows;
		if (code == 0)
			code = block_scanner_read(part->scanners[unit->segment], unit->group, err);
		note_rows(part);
		if (!is_helper)
			continue;
		THREAD_LOCK_SCOPE(&r->lock);
		if (read_helper_must_leave(r))
			break;
	}
	/* Whoever stopped first has the error that is told. */
	return part->followed ? 0 : code;
}

/* lock held */
static void note_code(struct read_share *share, int code, const struct error *error)
{
	if (code == 0 || share->code != 0)
		return;
	share->code = code;
	share->error = *error;
	share->stop = true;
}

/* ---- of helpers ---- */

struct read_share *read_find_share(struct reading *r)
{
	for (struct read_share *share = r->shares; share; share = share->next) {
		if (share->stop || share->taken + UNITS_MIN > share->unit_count)
			continue;
		share->joined++;
		read_parts_joined++;
		return share;
	}
	return NULL;
}

void read_join_share(struct read_share *share)
{
	struct reading *r = share->b->r;
	struct error error = {0};
	struct part *part = mem_zalloc(sizeof(*part));
	int code = part ? 0 : error_nomem(&error);
	if (part) {
		part->share = share;
		part->sums = &part->own_sums;
		code = init_sums(part, &error);
	}
	if (code == 0)
		code = read_units(part, &error);
	if (part)
		close_segments(part);
	THREAD_LOCK_SCOPE(&r->lock);
	note_code(share, code, &error);
	if (part) {
		part->next = share->parts;
		share->parts = part;
	}
	share->joined--;
	pthread_cond_broadcast(&r->changed);
}

/* ---- of the owner ---- */

static int list_units(struct part *part, struct error *err)
{
	struct read_share *share = part->share;
	int code = 0;
	for (size_t i = 0; code == 0 && i < share->segment_count; i++) {
		code = open_segment(part, i, err);
		for (size_t g = 0; code == 0 && g < block_scanner_groups(part->scanners[i]); g++) {
			struct unit unit = {(uint32_t)i, (uint32_t)g};
			if (block_scanner_wants(part->scanners[i], g) &&
			    array_push(&share->units, &share->unit_count, &share->unit_capacity, SIZE_MAX, unit) < 0)
				code = error_nomem(err);
		}
	}
	return code;
}

static void publish(struct read_share *share)
{
	struct reading *r = share->b->r;
	THREAD_LOCK_SCOPE(&r->lock);
	share->next = r->shares;
	r->shares = share;
	read_start_helpers(r, r->helpers - r->idle + share->unit_count / UNITS_MIN);
	pthread_cond_broadcast(&r->changed);
}

/* Nobody joins any more; waits for those who did. */
static void withdraw(struct read_share *share)
{
	struct reading *r = share->b->r;
	struct read_share **at = &r->shares;
	THREAD_LOCK_SCOPE(&r->lock);
	while (*at != share)
		at = &(*at)->next;
	*at = share->next;
	while (share->joined)
		pthread_cond_wait(&r->changed, &r->lock);
}

static void count_segments(struct block_source *b, const struct read_share *share)
{
	struct store_read_stats *stats = &b->sums.stats;
	for (size_t i = 0; i < share->segment_count; i++) {
		enum block_file file = share->segments[i]->file;
		stats->from_rollups += plan_is_by_rollup(file);
		stats->from_totals += file == BLOCK_TOTALS;
		stats->from_samples += file == BLOCK_SAMPLES;
	}
}

static void count_scans(struct block_source *b, const struct part *part)
{
	for (size_t i = 0; i < part->share->segment_count; i++) {
		if (part->scans[i].block)
			block_scan_add_counts(&part->scans[i], &b->sums.stats);
	}
}

/* Takes what the helpers have; their parts go. */
static int take_parts(struct read_share *share, int code, struct error *err)
{
	for (struct part *part = share->parts, *next; part; part = next) {
		next = part->next;
		count_scans(share->b, part);
		if (code == 0 && source_sums_merge(&share->b->sums, part->sums) < 0)
			code = error_nomem(err);
		source_sums_release(&part->own_sums);
		mem_free(part);
	}
	return code;
}

static bool can_be_shared(const struct read_share *share)
{
	const struct block_source *b = share->b;
	return share->unit_count >= 2 * UNITS_MIN && !b->sums.numbers && !b->sums.weights && !b->with_numbers &&
	       !b->r->criteria.by_span;
}

static int read_share(struct read_share *share, struct part *own, struct error *err)
{
	bool is_shared = can_be_shared(share);
	struct error error = {0};
	if (is_shared)
		publish(share);
	int code = read_units(own, &error);
	if (code != 0)
		share->stop = true;
	if (is_shared)
		withdraw(share);
	if (share->code == 0) {
		share->code = code;
		share->error = error;
	}
	if (share->code < 0 && share->error.message[0])
		error_set(err, share->code, "%s", share->error.message);
	return share->code;
}

int read_segments(struct block_source *b, const struct plan *plan, bool by_rollup)
{
	struct read_share share = {.b = b, .by_rollup = by_rollup};
	struct part own = {.share = &share, .sums = &b->sums};
	for (size_t i = 0; i < plan->count; i++)
		if (plan_is_by_rollup(plan->segments[i].file) == by_rollup)
			share.segments[share.segment_count++] = &plan->segments[i];
	if (!share.segment_count)
		return 0;
	int code = init_sums(&own, b->err);
	if (code == 0)
		code = list_units(&own, b->err);
	if (code == 0)
		code = read_share(&share, &own, b->err);
	close_segments(&own);
	count_segments(b, &share);
	count_scans(b, &own);
	code = take_parts(&share, code, b->err);
	b->rows += share.rows;
	mem_free(share.units);
	return code;
}
