/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deleting what somebody names: samples of some series in some range of time.
 *
 * The head is cut first, so that all of it is in blocks, and the segments of the log that a cut leaves behind are seen to be
 * gone: a crash must not bring anything back. Then each block in which something matches is rewritten without it, like a merge
 * of one block, and takes the old one's place; rollups are made anew. A block of which nothing is left goes as a whole. Deleted
 * means deleted when this returns, so it waits until the old files are gone, that is, until their last reader is done.
 *
 * Blocks are rewritten one by one: after a failure some are done and some are not, and the same call does the rest.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/compact/compact_int.h"

#define WAIT_NS	     (300 * NS_PER_S) /* for readers */
#define WAIT_STEP_NS (5 * 1000 * 1000)

struct deleting {
	struct series_matcher *series;
	struct row_range range;
};

/* From a value on that took too long nothing is deleted any more: what could not be checked stays. */
static bool is_selected(const struct deleting *deleting, const struct profile_type *type, const struct labels *labels)
{
	return series_matcher_finds(deleting->series, type, labels) && series_matcher_failure(deleting->series, NULL) == 0;
}

static bool is_deleted(void *context, const struct profile_type *type, const struct labels *labels, struct row_range *ret)
{
	const struct deleting *deleting = context;
	*ret = deleting->range;
	return is_selected(deleting, type, labels);
}

/* Segments that a cut could not remove would be replayed if the newest block were no longer there to say that they are in
 * blocks. */
static int remove_old_segments(struct local_store *store, struct error *err)
{
	pthread_mutex_lock(&store->append_lock);
	uint64_t first = store->head->first_segment;
	pthread_mutex_unlock(&store->append_lock);
	_cleanup_(dir_closep) DIR *dir = opendir(store->log_path);
	if (!dir)
		return error_set_errno(err, -errno, "cannot list %s", store->log_path);
	int r = 0;
	for (const struct dirent *entry; r == 0 && (entry = readdir(dir));) {
		char *end;
		unsigned long long number = strtoull(entry->d_name, &end, 10);
		if (end != entry->d_name && !strcmp(end, ".log") && number < first)
			r = log_segment_remove(store->log_path, number, err);
	}
	return r == 0 ? io_sync_dir(store->log_path, err) : r;
}

/* A block of which only rollups are left: it goes as a whole or not at all. */
static int delete_from_rollups(struct local_store *store, struct block *block, struct deleting *deleting,
			       struct store_delete_result *ret, struct error *err)
{
	struct block_series *series;
	struct label items[LIMIT_LABELS_PER_SERIES];
	uint64_t bytes = 0, matching = 0, samples = 0;
	int r = block_series_load(block, &series, &bytes, err);
	if (r < 0)
		return r;
	size_t count = series->columns.count;
	for (size_t i = 0; i < count; i++) {
		struct labels labels = series_columns_labels(&series->columns, i, NULL, 0, items);
		const struct profile_type *type = &series->columns.types[series->columns.type_ids[i]];
		if (series->first_ns[i] >= deleting->range.to_ns || series->last_ns[i] < deleting->range.from_ns ||
		    !is_selected(deleting, type, &labels))
			continue;
		matching++;
		samples += series->samples[i];
	}
	block_series_free(series);
	if (!matching)
		return 0;
	if (matching < count || block->meta.min_ns < deleting->range.from_ns || block->meta.max_ns >= deleting->range.to_ns) {
		ret->kept++;
		return 0;
	}
	r = blocks_replace(store, &block, 1, NULL, err);
	if (r == 0) {
		ret->blocks++;
		ret->samples += samples;
	}
	return r;
}

static int delete_from_samples(struct local_store *store, struct block *block, struct deleting *deleting,
			       struct store_delete_result *ret, struct error *err)
{
	uint64_t dropped;
	int r = compact_rewrite(store, block, is_deleted, deleting, &dropped, err);
	if (r == 0) {
		ret->blocks++;
		ret->samples += dropped;
	}
	return r == 2 ? 0 : r;
}

static int delete_from_block(struct local_store *store, struct block *block, struct deleting *deleting,
			     struct store_delete_result *ret, struct error *err)
{
	if (block->meta.max_ns < deleting->range.from_ns || block->meta.min_ns >= deleting->range.to_ns)
		return 0;
	return block_meta_is_stripped(&block->meta) ? delete_from_rollups(store, block, deleting, ret, err)
						    : delete_from_samples(store, block, deleting, ret, err);
}

static int delete_from_all(struct local_store *store, struct deleting *deleting, struct store_delete_result *ret,
			   struct error *err)
{
	struct store_snapshot snapshot;
	int r = store_snapshot_take(store, &snapshot, err);
	for (size_t i = 0; r == 0 && i < snapshot.block_count; i++) {
		struct error own = {0};
		r = delete_from_block(store, snapshot.blocks[i], deleting, ret, &own);
		/* What is damaged is gone from the store as well. */
		if (r == -EBADMSG)
			r = compact_malformed(store, snapshot.blocks[i], &own);
		if (r == -ESTALE)
			r = 0;
		if (r < 0)
			error_set(err, r, "%s", own.message);
	}
	store_snapshot_release(store, &snapshot);
	return r;
}

static int wait_for_readers(struct local_store *store, struct error *err)
{
	int64_t until = time_monotonic_ns() + WAIT_NS;
	const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
	for (bool stuck;;) {
		blocks_delete_removed(store);
		if (blocks_pending_deletion(store, &stuck) == 0)
			return 0;
		if (stuck)
			return error_set(err, -EIO, "a block with deleted samples cannot be removed from disk");
		if (cancel_requested(&store->cancel))
			return error_set(err, -ECANCELED, "cancelled");
		if (time_monotonic_ns() > until)
			return error_set(err, -EBUSY,
					 "the deleted data is still being read: until that ends, a crash could restore it");
		nanosleep(&step, NULL);
	}
}

int local_delete(struct local_store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		 struct store_delete_result *ret, struct error *err)
{
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = NULL;
	*ret = (struct store_delete_result){0};
	int r = series_matcher_new(series, &matcher, err);
	if (r < 0)
		return r;
	struct deleting deleting = {.series = matcher, .range = {from_ns, to_ns}};
	pthread_mutex_lock(&store->compact_lock);
	r = local_cut(store, err);
	if (r == 0)
		r = remove_old_segments(store, err);
	if (r == 0)
		r = delete_from_all(store, &deleting, ret, err);
	if (r == 0)
		r = series_matcher_failure(matcher, err);
	/* A damaged block that was moved to the quarantine, here or by a reader before, must not be back after a crash. */
	if (r == 0)
		r = io_sync_dir(store->blocks_path, err);
	pthread_mutex_unlock(&store->compact_lock);
	return r == 0 ? wait_for_readers(store, err) : r;
}
