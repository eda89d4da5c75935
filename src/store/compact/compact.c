/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: small blocks become large ones, and get rollups.
 *
 * Windows. A block belongs to the window of the mean time of its rows: 2 h for level 1, a day for level 2. When a window is
 * over, and late data has had some time to come, its blocks of lower levels are merged into one of this level. Deciding by the
 * mean, and not by the range, keeps a block with one sample of last week out of last week.
 *
 *   finished day      what is of level 0 and 1 -> level 2, unless that is too much at once; then level 1 comes first
 *   finished 2 h      what is of level 0 -> level 1; one block alone, too, because it gets rollups
 *   late blocks       join the block of their window that is there if they are at least a quarter of it, else they make one of
 *                     their own; four of one level and window are merged again
 *   crowd             16 blocks of level 0 and one generation are merged within their level, without rollups, before their
 *                     window is over: a busy store cuts often, and each block costs every query something
 *
 *   rebuild           a block with a damaged file that can be made of its others is rewritten, so that it has it again
 *
 * So a sample is rewritten three or four times in its life. Blocks of which only rollups are left are never merged: they are of
 * the last level, or will be gone soon.
 *
 * Replacing. The new block is made in tmp/ with a higher generation than its inputs, names them, and is opened there; then it
 * is renamed into blocks/, that directory is synced, and in one step under the state lock it takes their place in the list, so
 * that every query sees the one or the others. Inputs are deleted after their last reader. A crash after the rename leaves
 * both; the next start removes what is replaced (recover.c). Whatever fails before leaves everything as it was.
 *
 * Failures (a full disk, mostly) are counted, said once, and tried again after 2 s, 4 s ... 10 min. Rows of a damaged page are
 * left out, reported, and noted in the metadata of the new block ("lost"), so that answers about their time stay partial. An
 * input that has nothing else, or whose tables cannot be read, is set aside, as queries do it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/descriptors.h"
#include "base/io.h"
#include "base/order.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/compact/compact_int.h"

#define SLACK_NS       (5 * 60 * NS_PER_S)
#define BACKOFF_FIRST  (2 * NS_PER_S)
#define BACKOFF_MAX    (600 * NS_PER_S)
#define LATE_FACTOR    4 /* late blocks join one that is at most so many times their size */
#define SAME_LEVEL_MAX 4 /* so many blocks of one window and level are merged again */
#define BLOCK_ROWS_MAX INT32_MAX

/* ---- replacing ---- */

size_t compact_still_there(const struct block *block, char (*ret)[BLOCK_NAME_MAX])
{
	const char *slash = strrchr(block->path, '/');
	size_t count = 0;
	for (size_t i = 0; i < block->meta.replace_count; i++) {
		char path[PATH_MAX];
		int len = snprintf(path, sizeof(path), "%.*s/%s", slash ? (int)(slash - block->path) : 0, block->path,
				   block->meta.replaces[i]);
		if (len > 0 && (size_t)len < sizeof(path) && access(path, F_OK) == 0)
			memcpy(ret[count++], block->meta.replaces[i], BLOCK_NAME_MAX);
	}
	return count;
}

int compact_make_directory(struct local_store *store, char path[PATH_MAX], struct error *err)
{
	int r = io_join_path(path, PATH_MAX, store->temporary_path, "compact");
	return r < 0 ? error_set_errno(err, r, "%s", store->temporary_path) : store_empty_directory(path, err);
}

int compact_publish(struct local_store *store, struct block *const *old, size_t count, struct error *err)
{
	char temporary[PATH_MAX];
	struct block *block;
	int r = io_join_path(temporary, sizeof(temporary), store->temporary_path, "compact");
	if (r < 0)
		return error_set_errno(err, r, "%s", store->temporary_path);
	r = blocks_move_in(store, temporary, &block, err);
	if (r < 0)
		return r;
	r = blocks_replace(store, old, count, block, err);
	if (r < 0)
		blocks_take_back(store, block);
	else
		blocks_delete_removed(store);
	return r;
}

void compact_note(struct local_store *store, const struct error *why)
{
	bool is_new = strcmp(store->compact_error.message, why->message) != 0;
	store->compact_error = *why;
	pthread_mutex_lock(&store->state_lock);
	store->stats.compact_failures++;
	pthread_mutex_unlock(&store->state_lock);
	store->compact_backoff_ns = store->compact_backoff_ns ? 2 * store->compact_backoff_ns : BACKOFF_FIRST;
	if (store->compact_backoff_ns > BACKOFF_MAX)
		store->compact_backoff_ns = BACKOFF_MAX;
	store->compact_retry_ns = time_monotonic_ns() + store->compact_backoff_ns;
	if (is_new)
		store_problem(store, "blocks cannot be rewritten and stay unchanged: %s", why->message);
}

int compact_malformed(struct local_store *store, struct block *block, struct error *err)
{
	struct error why = {0};
	int r = block_verify(block, &why);
	if (r == -EBADMSG) {
		blocks_set_aside(store, block, why.message);
		return -ESTALE;
	}
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	block->is_left_alone = true;
	return error_prefix(err, -EINVAL, "block %s verifies, but", block->meta.name);
}

/* ---- planning ---- */

struct plan {
	struct block *inputs[COMPACT_INPUTS_MAX];
	size_t count;
	unsigned level;
	bool rollups;
};

struct candidates {
	struct local_store *store;
	struct block **blocks; /* by window, then time */
	size_t count;
	int64_t now_ns;
};

static int64_t window_of(const struct block *block, int64_t window_ns)
{
	return block->meta.mean_ns / window_ns - (block->meta.mean_ns % window_ns < 0);
}

/* Late data comes until the heads of its time are cut, and a little later. */
static bool is_over(const struct local_store *store, int64_t window, int64_t window_ns, int64_t now_ns)
{
	int64_t end, slack = store->options.cut_age_ns + SLACK_NS + window_ns / 48;
	return !__builtin_mul_overflow(window + 1, window_ns, &end) && !__builtin_add_overflow(end, slack, &end) &&
	       end <= now_ns;
}

static bool has_rollups(const struct block *block)
{
	return block->meta.files[BLOCK_ROLLUP_ALL].size > 0 || !block->meta.files[BLOCK_SAMPLES].size;
}

static bool is_full(const struct local_store *store, const struct block *block)
{
	for (size_t i = 0; i < store->full_count; i++)
		if (!strcmp(store->full[i], block->meta.name))
			return true;
	return false;
}

static void mark_full(struct local_store *store, const struct block *block)
{
	/* Without memory to remember it is tried again. */
	if (is_full(store, block) ||
	    array_reserve(&store->full, &store->full_capacity, store->full_count + 1, SIZE_MAX / BLOCK_NAME_MAX) < 0)
		return;
	memcpy(store->full[store->full_count++], block->meta.name, BLOCK_NAME_MAX);
}

/* Two files of each are open at a time, beside the ones that are written: with few file descriptors (server/core/descriptors.c)
 * fewer blocks are merged at once, and more often. */
static size_t inputs_max(void)
{
	uint64_t part = descriptors_max() / 16;
	return part < 2 ? 2 : part > COMPACT_INPUTS_MAX ? COMPACT_INPUTS_MAX : (size_t)part;
}

static void add_input(struct plan *plan, struct block *block)
{
	uint64_t rows = block->meta.samples;
	for (size_t i = 0; i < plan->count; i++)
		rows += plan->inputs[i]->meta.samples;
	if (plan->count < inputs_max() && (plan->count == 0 || rows <= BLOCK_ROWS_MAX))
		plan->inputs[plan->count++] = block;
}

static int compare_sizes(const void *a, const void *b)
{
	uint64_t x = block_meta_bytes(&(*(struct block *const *)a)->meta),
		 y = block_meta_bytes(&(*(struct block *const *)b)->meta);
	return ORDER(x, y);
}

static int compare_times(const void *a, const void *b)
{
	const struct block_meta *x = &(*(struct block *const *)a)->meta, *y = &(*(struct block *const *)b)->meta;
	return ORDER(x->mean_ns, y->mean_ns) ?: strcmp(x->name, y->name);
}

/* What a window has: blocks of lower levels, and of its own. */
struct window {
	struct block **lower, **same; /* by time, by size */
	size_t lower_count, same_count, level_0;
	uint64_t lower_bytes;
};

static void collect_window(const struct candidates *all, size_t first, size_t count, unsigned level, struct window *ret)
{
	ret->lower_count = ret->same_count = ret->level_0 = 0;
	ret->lower_bytes = 0;
	for (size_t i = first; i < first + count; i++) {
		struct block *block = all->blocks[i];
		if (block->meta.level > 0 && is_full(all->store, block))
			continue;
		if (block->meta.level < level) {
			ret->lower[ret->lower_count++] = block;
			ret->lower_bytes += block_meta_bytes(&block->meta);
			ret->level_0 += block->meta.level == 0;
		} else if (block->meta.level == level) {
			ret->same[ret->same_count++] = block;
		}
	}
	sort_array(ret->same, ret->same_count, compare_sizes);
}

/* A window of `level` that is over. */
static void plan_window(const struct window *window, unsigned level, bool level_1_first, struct plan *plan)
{
	*plan = (struct plan){.level = level, .rollups = true};
	for (size_t i = 0; i < window->lower_count; i++)
		add_input(plan, window->lower[i]);
	if (window->lower_count > 0) {
		/* Too much for one merge: level 1 first. */
		if (window->level_0 && window->lower_count > inputs_max() && level_1_first) {
			plan->count = 0;
			return;
		}
		for (size_t i = 0; i < window->same_count; i++)
			if (block_meta_bytes(&window->same[i]->meta) <= LATE_FACTOR * window->lower_bytes)
				add_input(plan, window->same[i]);
		/* Nothing would be gained. */
		if (plan->count == 1 && plan->inputs[0]->meta.level > 0 && has_rollups(plan->inputs[0]))
			plan->count = 0;
		return;
	}
	if (window->same_count < SAME_LEVEL_MAX)
		return;
	for (size_t i = 0; i < window->same_count; i++)
		add_input(plan, window->same[i]);
}

/* A crowd of small blocks in a window that is not over. */
static void plan_crowd(const struct candidates *all, size_t first, size_t count, struct plan *plan)
{
	*plan = (struct plan){.level = 0};
	for (unsigned generation = 0; generation < 4; generation++) {
		plan->count = 0;
		for (size_t i = first; i < first + count; i++)
			if (all->blocks[i]->meta.level == 0 && all->blocks[i]->meta.generation == generation &&
			    !is_full(all->store, all->blocks[i]))
				add_input(plan, all->blocks[i]);
		if (plan->count == inputs_max())
			return;
	}
	plan->count = 0;
}

/* The first merge that is due in the windows of one level; blocks are in the order of time. */
static void plan_level(const struct candidates *all, unsigned level, struct window *scratch, struct plan *plan)
{
	int64_t window_ns = all->store->options.window_ns[level - 1];
	plan->count = 0;
	for (size_t first = 0, end; window_ns > 0 && first < all->count && !plan->count; first = end) {
		int64_t window = window_of(all->blocks[first], window_ns);
		for (end = first + 1; end < all->count && window_of(all->blocks[end], window_ns) == window; end++)
			;
		if (is_over(all->store, window, window_ns, all->now_ns)) {
			collect_window(all, first, end - first, level, scratch);
			plan_window(scratch, level, level == 2 && all->store->options.window_ns[0] > 0, plan);
		} else if (level == 1) {
			plan_crowd(all, first, end - first, plan);
		}
	}
}

/* A block of which a file is not used any more that can be made of its others: it is rewritten, and has it again. */
static void plan_rebuild(const struct candidates *all, struct plan *plan)
{
	for (size_t i = 0; i < all->count && !plan->count; i++) {
		struct block *block = all->blocks[i];
		bool rebuilds = false;
		for (size_t f = 0; f < BLOCK_FILE_COUNT; f++)
			rebuilds |= block->unusable >> f & 1 && block_is_derivable(block, (enum block_file)f);
		if (!rebuilds || !block_can_use(block, BLOCK_SAMPLES))
			continue;
		*plan = (struct plan){.level = block->meta.level, .rollups = block->meta.files[BLOCK_ROLLUP_ALL].size > 0};
		add_input(plan, block);
	}
}

/* Sums are all that is left of some blocks, because samples were removed, or cannot be read: those stay as they are. */
static bool is_candidate(const struct block *block)
{
	return !block->is_left_alone && !block_meta_is_stripped(&block->meta) &&
	       (block_can_use(block, BLOCK_SAMPLES) || !block_can_use(block, BLOCK_ROLLUP_ALL));
}

/* Chooses the next merge; its inputs are referenced. */
static int plan_next(struct local_store *store, int64_t now_ns, struct plan *plan, struct error *err)
{
	struct store_snapshot snapshot;
	int r = store_snapshot_take(store, &snapshot, err);
	if (r < 0)
		return r;
	struct candidates all = {.store = store, .now_ns = now_ns};
	_cleanup_(mem_freep) struct block **memory = mem_alloc_array(3 * snapshot.block_count + 1, sizeof(struct block *));
	if (!memory)
		r = error_nomem(err);
	all.blocks = memory;
	plan->count = 0;
	for (size_t i = 0; r == 0 && i < snapshot.block_count; i++)
		if (is_candidate(snapshot.blocks[i]))
			all.blocks[all.count++] = snapshot.blocks[i];
	if (r == 0 && all.count) {
		struct window scratch = {.lower = memory + all.count, .same = memory + 2 * all.count};
		qsort(all.blocks, all.count, sizeof(struct block *), compare_times);
		plan_rebuild(&all, plan);
		if (!plan->count)
			plan_level(&all, 2, &scratch, plan);
		if (!plan->count)
			plan_level(&all, 1, &scratch, plan);
	}
	pthread_mutex_lock(&store->state_lock);
	for (size_t i = 0; i < plan->count; i++)
		plan->inputs[i]->refs++;
	pthread_mutex_unlock(&store->state_lock);
	store_snapshot_release(store, &snapshot);
	return r;
}

static void release_plan(struct local_store *store, const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		blocks_unref(store, plan->inputs[i]);
}

/* ---- merging ---- */

static void count_merge(struct local_store *store, const struct plan *plan, size_t used, uint64_t bytes_out, int64_t took_ns)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	struct store_stats *stats = &store->stats;
	stats->compactions++;
	stats->compact_ns_total += (uint64_t)took_ns;
	if ((uint64_t)took_ns > stats->compact_ns_max)
		stats->compact_ns_max = (uint64_t)took_ns;
	for (size_t i = 0; i < used; i++)
		stats->compact_bytes_in += block_meta_bytes(&plan->inputs[i]->meta);
	stats->compact_bytes_out += bytes_out;
}

/* A merge that would only copy its first input: the others do not fit beside it. */
static bool is_pointless(const struct plan *plan, const struct compact_job *job)
{
	const struct block *first = plan->inputs[0];
	return job->used == 1 && plan->count > 1 && (first->meta.level > 0 || !plan->rollups) &&
	       (has_rollups(first) || !plan->rollups);
}

/* Damaged rows of an input. */
static void report_lost(void *context, const struct block *block, const struct block_lost *lost, const char *why)
{
	damage_note_rows(context, (struct block *)block, lost, why);
}

static int run_plan(struct local_store *store, struct plan *plan, struct error *err)
{
	char directory[PATH_MAX];
	struct block_meta meta = {0};
	int64_t started = time_monotonic_ns();
	struct compact_job job = {.inputs = plan->inputs,
				  .input_count = plan->count,
				  .directory = directory,
				  .level = plan->level,
				  .rollups = plan->rollups,
				  .memory_max = store->options.compact_memory_bytes,
				  .on_lost = report_lost,
				  .lost_context = store,
				  .cancel = &store->cancel};
	int r = compact_make_directory(store, directory, err);
	if (r == 0)
		r = compact_write(&job, &meta, err);
	uint64_t bytes_out = block_meta_bytes(&meta);
	block_meta_release(&meta);
	if (r == 0 && is_pointless(plan, &job))
		mark_full(store, plan->inputs[0]);
	else if (r == 0)
		r = compact_publish(store, plan->inputs, job.used, err);
	if (r == 0)
		count_merge(store, plan, job.used, bytes_out, time_monotonic_ns() - started);
	io_remove_tree(directory, NULL); /* the disk is perhaps full */
	if (r == -EBADMSG && job.damaged < plan->count)
		r = compact_malformed(store, plan->inputs[job.damaged], err);
	return r;
}

int compact_rewrite(struct local_store *store, struct block *block, compact_drops drops, void *context, uint64_t *ret_dropped,
		    struct error *err)
{
	char directory[PATH_MAX];
	struct block_meta meta = {0};
	struct compact_job job = {.inputs = &block,
				  .input_count = 1,
				  .directory = directory,
				  .level = block->meta.level,
				  .rollups = block->meta.files[BLOCK_ROLLUP_ALL].size > 0,
				  .memory_max = store->options.compact_memory_bytes,
				  .on_lost = report_lost,
				  .lost_context = store,
				  .cancel = &store->cancel,
				  .drops = drops,
				  .drops_context = context};
	int r = compact_make_directory(store, directory, err);
	if (r == 0)
		r = compact_write(&job, &meta, err);
	block_meta_release(&meta);
	if (r == 0)
		r = compact_publish(store, &block, 1, err);
	else if (r == 1) /* nothing is left of it */
		r = blocks_replace(store, &block, 1, NULL, err);
	io_remove_tree(directory, NULL);
	*ret_dropped = job.dropped;
	return r;
}

int compact_due(struct local_store *store, int64_t now_ns, struct error *err)
{
	struct plan plan;
	int r;
	while ((r = plan_next(store, now_ns, &plan, err)) == 0 && plan.count > 0) {
		struct error own = {0};
		r = run_plan(store, &plan, &own);
		release_plan(store, &plan);
		/* One that is damaged is gone now, and the others go on without it. */
		if (r == -ESTALE)
			continue;
		if (r < 0)
			return error_set(err, r, "%s", own.message);
	}
	return r;
}

int local_compact(struct local_store *store, int64_t now_ns, struct error *err)
{
	struct error own = {0};
	int r = 0;
	pthread_mutex_lock(&store->compact_lock);
	if (time_monotonic_ns() >= store->compact_retry_ns || store->options.manual) {
		damage_heal(store);
		r = compact_due(store, now_ns, &own);
		if (r < 0 && r != -ECANCELED)
			compact_note(store, &own);
		else if (r == 0)
			store->compact_error = (struct error){0}, store->compact_backoff_ns = 0;
	}
	pthread_mutex_unlock(&store->compact_lock);
	blocks_delete_removed(store);
	return r < 0 ? error_set(err, r, "%s", own.message) : 0;
}
