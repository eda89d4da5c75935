/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting the head.
 *
 * A cut has three steps, and only the first stops appends, for one sync of the log:
 *
 *   freeze    a new segment is made before any lock is taken; then, with appends held, the old one is synced, an empty head and
 *             the new segment take their place, and the old head becomes `frozen`. Queries read both.
 *   write     the frozen head becomes a block in tmp/, every file synced, renamed into blocks/, both directories synced
 *   publish   in one step under the state lock the block enters the list and the frozen head leaves: no query sees the data
 *             twice or not at all. Then the segments that the block replaces are removed.
 *
 * A crash in between loses nothing: before the rename the log has it all; after it, the block's last_sequence tells the replay
 * what to skip. If writing fails, the frozen head stays, is still read, and is written again later.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "store/store_int.h"

/* ---- freezing ---- */

bool store_wants_cut(struct local_store *store)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	const struct head *head = store->head, *frozen = store->frozen, *oldest = frozen ? frozen : head;
	uint64_t bytes = head_bytes(head) + (frozen ? head_bytes(frozen) : 0);
	int64_t started = atomic_load_explicit(&oldest->started_ns, memory_order_relaxed);
	bool wants = (frozen && !store->recovered) || bytes > store->options.head_size_bytes ||
		     head_stacks(head) >= store->options.stacks_max ||
		     (started && time_monotonic_ns() - started > store->options.cut_age_ns);
	if (store->options.manual) /* only when somebody waits for room */
		wants = bytes >= 2 * store->options.head_size_bytes ||
			(frozen && head_stacks(head) >= store->options.stacks_max);
	return wants;
}

/* append_lock held. */
static int swap_heads(struct local_store *store, struct head *fresh, struct log_segment *segment, struct error *err)
{
	int r = store_sync_locked(store, err);
	if (r == 0)
		r = log_segment_begin(segment, store->sequence + 1, err);
	if (r < 0)
		return r;
	fresh->first_segment = segment->number;
	fresh->last_sequence = store->sequence;
	store->head->last_segment = store->log.number;
	pthread_mutex_lock(&store->state_lock);
	store->frozen = store->head;
	store->head = fresh;
	pthread_mutex_unlock(&store->state_lock);
	struct log_segment old = store->log;
	store->log = *segment;
	*segment = old;
	store_mark_synced(store);
	return 0;
}

/* cut_lock held, and nothing frozen. 1 = there was nothing to freeze. */
static int freeze(struct local_store *store, struct error *err)
{
	_cleanup_(head_freep) struct head *fresh = NULL;
	struct log_segment segment = LOG_SEGMENT_NONE;
	pthread_mutex_lock(&store->append_lock);
	bool empty = head_is_empty(store->head);
	pthread_mutex_unlock(&store->append_lock);
	if (empty)
		return 1;
	int r = head_new(store->options.series_max, &fresh, err);
	if (r == 0)
		r = log_segment_create(store->log_path, store->next_segment, &segment, err);
	if (r < 0)
		return r;
	uint64_t number = store->next_segment++;
	pthread_mutex_lock(&store->append_lock);
	r = swap_heads(store, fresh, &segment, err);
	pthread_mutex_unlock(&store->append_lock);
	log_segment_close(&segment); /* the old one, or the new one after a failure */
	if (r < 0)
		log_segment_remove(store->log_path, number, NULL);
	else
		fresh = NULL;
	return r;
}

/* ---- writing ---- */

/* The directory itself stays: on a full disk there may be no room for a new one, not even that of the one before (ext4 keeps
 * some for root, and gives back what was freed later). */
int store_empty_directory(const char *path, struct error *err)
{
	char below[PATH_MAX];
	int r = 0;
	_cleanup_(dir_closep) DIR *directory = io_open_dir_at(AT_FDCWD, path);
	if (!directory && errno != ENOENT)
		r = io_remove_tree(path, err);
	if (!directory)
		return r < 0 ? r : io_make_dirs(path, 0750, err);
	const struct dirent *entry;
	while (r == 0 && (entry = readdir(directory))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (io_join_path(below, sizeof(below), path, entry->d_name) < 0)
			return error_set_errno(err, -ENAMETOOLONG, "%s", path);
		r = io_remove_tree(below, err);
	}
	return r;
}

static int write_block(struct local_store *store, struct head *head, struct block **ret, struct error *err)
{
	char temporary[PATH_MAX];
	_cleanup_(block_meta_release) struct block_meta meta = {0};
	int r = io_join_path(temporary, sizeof(temporary), store->temporary_path, "block");
	if (r < 0)
		return error_set_errno(err, r, "%s", store->temporary_path);
	r = store_empty_directory(temporary, err);
	if (r == 0)
		r = block_write(head, temporary, &meta, err);
	if (r == 0)
		r = blocks_move_in(store, temporary, ret, err);
	if (r < 0)
		io_remove_tree(temporary, NULL); /* the disk is perhaps full */
	return r;
}

static void remove_segments(struct local_store *store, const struct head *head)
{
	for (uint64_t number = head->first_segment; number <= head->last_segment; number++) {
		struct error err = {0};
		/* One that stays is skipped record by record at the next start, and removed by the cut after it. */
		if (log_segment_remove(store->log_path, number, &err) < 0)
			store_problem(store, "a log segment that is no longer needed cannot be removed: %s", err.message);
	}
}

static void publish(struct local_store *store, struct block *block, int64_t took_ns)
{
	struct head *head = store->frozen;
	pthread_mutex_lock(&store->state_lock);
	int r = blocks_add(store, block, NULL);
	assert(r == 0);
	(void)r;
	store->frozen = NULL;
	store->recovered = false;
	store->cut_error = (struct error){0};
	store->stats.cuts++;
	store->stats.cut_ns_total += (uint64_t)took_ns;
	if ((uint64_t)took_ns > store->stats.cut_ns_max)
		store->stats.cut_ns_max = (uint64_t)took_ns;
	pthread_mutex_unlock(&store->state_lock);
	remove_segments(store, head);
	store_head_unref(store, head);
}

static int reserve_block(struct local_store *store, struct error *err)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	int r = array_reserve(&store->blocks, &store->block_capacity, store->block_count + 1, SIZE_MAX);
	return r < 0 ? error_nomem(err) : 0;
}

/* cut_lock held. */
static int write_frozen(struct local_store *store, struct error *err)
{
	struct block *block = NULL;
	int64_t started = time_monotonic_ns();
	/* Blocks are only added under cut_lock, so the room stays until publish(). */
	int r = reserve_block(store, err);
	if (r == 0)
		r = write_block(store, store->frozen, &block, err);
	if (r == 0)
		publish(store, block, time_monotonic_ns() - started);
	return r;
}

/* Remembers why, for those who wait for room and must not wait in vain; says it once, not at each attempt. */
static void note_failure(struct local_store *store, const struct error *why)
{
	pthread_mutex_lock(&store->state_lock);
	bool is_new = strcmp(store->cut_error.message, why->message) != 0;
	store->cut_error = *why;
	store->stats.cut_failures++;
	pthread_mutex_unlock(&store->state_lock);
	store->cut_retry_ns = time_monotonic_ns() + STORE_CUT_RETRY_NS;
	if (is_new)
		store_problem(store, "a block cannot be written; its data stays in memory and in the log: %s", why->message);
}

int local_cut(struct local_store *store, struct error *err)
{
	struct error own = {0};
	pthread_mutex_lock(&store->cut_lock);
	int r = store->frozen ? write_frozen(store, &own) : 0;
	if (r == 0)
		r = freeze(store, &own);
	if (r == 0)
		r = write_frozen(store, &own);
	if (r < 0)
		note_failure(store, &own);
	pthread_mutex_unlock(&store->cut_lock);
	pthread_mutex_lock(&store->append_lock);
	pthread_cond_broadcast(&store->room_cond);
	pthread_mutex_unlock(&store->append_lock);
	if (r < 0 && err)
		*err = own;
	return r < 0 ? r : 0;
}
