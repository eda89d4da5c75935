/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening, recovering and closing the store, and its threads.
 *
 *   DATA/lock          held (flock) by the process that has the store open
 *   DATA/log/          write-ahead log, see log.c
 *   DATA/blocks/NAME/  blocks, see docs/format.md
 *   DATA/hosts.journal labels of hosts, see hosts/host_journal.c
 *   DATA/tmp/          blocks being written: block by a cut, compact by a merge; emptied at start
 *   DATA/trash/        a block being deleted; emptied at start
 *   DATA/quarantine/   what was damaged; never read, never removed
 *
 * Recovery: blocks first, because they say which records of the log are in them already; then the ids of their appends, so
 * that a retry that comes after the restart is still recognised; then the log (recover.c).
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/store_int.h"

#define DEFAULT_RETENTION_AGE_NS (30ll * 24 * 3600 * NS_PER_S)
#define DEFAULT_RETENTION_SIZE	 (10 * GIB)
#define DEFAULT_CUT_AGE_NS	 (10ll * 60 * NS_PER_S)
#define DEFAULT_HEAD_SIZE	 (64 * MIB)
#define DEFAULT_SERIES_MAX	 200000
#define DEFAULT_STACKS_MAX	 1000000
#define DEFAULT_WINDOW_1_NS	 (2ll * 3600 * NS_PER_S)
#define DEFAULT_WINDOW_2_NS	 (24ll * 3600 * NS_PER_S)
#define DEFAULT_COMPACT_MEMORY	 (128 * MIB)
#define THREAD_INTERVAL_NS	 (1 * NS_PER_S)

void store_problem(struct local_store *store, const char *format, ...)
{
	char message[2 * ERROR_MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	pthread_mutex_lock(&store->state_lock);
	store->stats.problems++;
	pthread_mutex_unlock(&store->state_lock);
	if (store->options.on_problem)
		store->options.on_problem(store->options.context, message);
}

/* ---- the threads ---- */

void store_wake(struct local_store *store)
{
	THREAD_LOCK_SCOPE(&store->wake_lock);
	store->wake = store->compact_wake = true;
	pthread_cond_signal(&store->wake_cond);
	pthread_cond_signal(&store->compact_cond);
}

/* True until the store closes. */
static bool wait_for_work(struct local_store *store, pthread_cond_t *condition, bool *wake)
{
	int64_t until_ns = time_monotonic_ns() + THREAD_INTERVAL_NS;
	THREAD_LOCK_SCOPE(&store->wake_lock);
	while (!*wake && !store->stop)
		if (!thread_wait_until(condition, &store->wake_lock, until_ns))
			break;
	*wake = false;
	return !store->stop;
}

static bool has_failed(struct local_store *store)
{
	THREAD_LOCK_SCOPE(&store->append_lock);
	return store->failure.code != 0;
}

static int64_t cut_retry_ns(struct local_store *store)
{
	THREAD_LOCK_SCOPE(&store->cut_lock);
	return store->cut_retry_ns;
}

static void *run_cuts(void *context)
{
	struct local_store *store = context;
	while (wait_for_work(store, &store->wake_cond, &store->wake))
		if (store_wants_cut(store) && !has_failed(store) && time_monotonic_ns() >= cut_retry_ns(store))
			local_cut(store, NULL);
	return NULL;
}

/* Retention first: what goes need not be merged. */
static void retain_and_compact(struct local_store *store, int64_t *retention_ns, int64_t *compact_ns)
{
	int64_t now = time_monotonic_ns();
	if (!store->options.manual && now >= *retention_ns) {
		local_apply_retention(store, time_now_ns(), NULL);
		*retention_ns = now + STORE_RETENTION_EVERY_NS;
	}
	if (!store->options.manual && now >= *compact_ns && !has_failed(store)) {
		local_compact(store, time_now_ns(), NULL);
		*compact_ns = time_monotonic_ns() + STORE_COMPACT_EVERY_NS;
	}
}

static void *run_compaction(void *context)
{
	struct local_store *store = context;
	pthread_mutex_t *turn = store->options.compact_turn;
	int64_t compact_ns = 0, retention_ns = 0;
	while (wait_for_work(store, &store->compact_cond, &store->compact_wake)) {
		/* While another store has the turn this one is not held up: it looks again at the next tick, and can close. */
		if (!turn || pthread_mutex_trylock(turn) == 0) {
			retain_and_compact(store, &retention_ns, &compact_ns);
			if (turn)
				pthread_mutex_unlock(turn);
		}
		blocks_delete_removed(store);
	}
	return NULL;
}

static int start_threads(struct local_store *store, struct error *err)
{
	int r = thread_start(&store->cut_thread, "store", run_cuts, store, err);
	if (r < 0)
		return r;
	r = thread_start(&store->compact_thread, "store compact", run_compaction, store, err);
	if (r < 0) {
		pthread_mutex_lock(&store->wake_lock);
		store->stop = true;
		pthread_cond_signal(&store->wake_cond);
		pthread_mutex_unlock(&store->wake_lock);
		pthread_join(store->cut_thread, NULL);
	}
	return r;
}

/* ---- opening ---- */

static void init_locks(struct local_store *store)
{
	pthread_mutex_init(&store->append_lock, NULL);
	pthread_mutex_init(&store->state_lock, NULL);
	pthread_mutex_init(&store->deletion_lock, NULL);
	pthread_mutex_init(&store->cut_lock, NULL);
	pthread_mutex_init(&store->wake_lock, NULL);
	pthread_mutex_init(&store->compact_lock, NULL);
	pthread_mutex_init(&store->hosts.write_lock, NULL);
	pthread_rwlock_init(&store->hosts.lock, NULL);
	thread_condition_init(&store->synced_cond);
	thread_condition_init(&store->room_cond);
	thread_condition_init(&store->wake_cond);
	thread_condition_init(&store->compact_cond);
}

static int compile_rules(struct local_store *store, struct error *err)
{
	struct store_options *options = &store->options;
	int r = 0;
	store->rules = mem_zalloc_array(options->rule_count, sizeof(*store->rules));
	if (!store->rules)
		return error_nomem(err);
	for (size_t i = 0; r == 0 && i < options->rule_count; i++) {
		store->rules[i].age_ns = options->rules[i].age_ns;
		r = series_matcher_new(&options->rules[i].series, &store->rules[i].series, err);
		store->rule_count += r == 0;
	}
	options->rules = NULL; /* the caller's */
	return r;
}

static void set_options(struct local_store *store, const struct store_options *options)
{
	static const int64_t windows[] = {DEFAULT_WINDOW_1_NS, DEFAULT_WINDOW_2_NS};
	store->options = *options;
	store->options.directory = store->directory;
	if (store->options.retention_age_ns == 0)
		store->options.retention_age_ns = DEFAULT_RETENTION_AGE_NS;
	if (store->options.retention_size_bytes == 0)
		store->options.retention_size_bytes = DEFAULT_RETENTION_SIZE;
	if (store->options.cut_age_ns == 0)
		store->options.cut_age_ns = DEFAULT_CUT_AGE_NS;
	if (store->options.head_size_bytes == 0)
		store->options.head_size_bytes = DEFAULT_HEAD_SIZE;
	if (store->options.series_max == 0)
		store->options.series_max = DEFAULT_SERIES_MAX;
	if (store->options.stacks_max == 0)
		store->options.stacks_max = DEFAULT_STACKS_MAX;
	if (store->options.late_window_ns == 0) /* what is older would be removed at once */
		store->options.late_window_ns = store->options.retention_age_ns;
	for (size_t i = 0; i < STORE_REFUSAL_COUNT; i++)
		store->stats.refusals[i].name = store_refusal_names[i];
	if (store->options.compact_memory_bytes == 0)
		store->options.compact_memory_bytes = DEFAULT_COMPACT_MEMORY;
	for (size_t i = 0; i < 2; i++)
		if (store->options.window_ns[i] == 0)
			store->options.window_ns[i] = windows[i];
}

static int make_directories(struct local_store *store, struct error *err)
{
	const struct {
		char *path;
		const char *name;
	} directories[] = {{store->log_path, "log"},
			   {store->blocks_path, "blocks"},
			   {store->temporary_path, "tmp"},
			   {store->trash_path, "trash"},
			   {store->quarantine_path, "quarantine"}};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(directories) / sizeof(*directories); i++) {
		r = io_join_path(directories[i].path, PATH_MAX, store->directory, directories[i].name);
		if (r < 0)
			return error_set_errno(err, r, "%s", store->directory);
		if (directories[i].path == store->quarantine_path)
			continue; /* made when needed: its being there says that something happened */
		if (directories[i].path == store->temporary_path || directories[i].path == store->trash_path)
			r = store_empty_directory(directories[i].path, err);
		else
			r = io_make_dirs(directories[i].path, 0750, err);
	}
	return r == 0 ? io_sync_dir(store->directory, err) : r;
}

static int lock_directory(struct local_store *store, struct error *err)
{
	char path[PATH_MAX];
	int r = io_make_dirs(store->directory, 0750, err);
	if (r < 0)
		return r;
	r = io_join_path(path, sizeof(path), store->directory, "lock");
	if (r < 0)
		return error_set_errno(err, r, "%s", store->directory);
	store->lock_fd = io_lock_file(path, err);
	if (store->lock_fd == -EBUSY)
		return error_set(err, -EBUSY, "%s is in use by another process: stop it or use another data directory",
				 store->directory);
	return store->lock_fd < 0 ? store->lock_fd : 0;
}

/* ---- blocks ---- */

static int open_block(struct local_store *store, const char *name, struct error *err)
{
	char path[PATH_MAX], to[PATH_MAX];
	struct block *block = NULL;
	struct error why = {0};
	int r = io_join_path(path, sizeof(path), store->blocks_path, name);
	if (r < 0)
		return error_set_errno(err, r, "%s", name);
	r = block_open(path, &block, &why);
	if (r == 0 && strcmp(block->meta.name, name)) {
		r = error_set(&why, -EBADMSG, "its metadata has a different name, %s", block->meta.name);
		block_free(block);
	}
	if (r == 0) {
		r = blocks_add(store, block, err);
		if (r < 0)
			block_free(block);
		else
			damage_note_opened(store, block);
		if (r == 0)
			damage_note_corrected(store, block);
		return r;
	}
	if (r != -EBADMSG) {
		if (err)
			*err = why;
		return r;
	}
	r = store_move_aside(store, path, name, to, err);
	if (r == 0) {
		store_problem(store, "block %s is damaged and set aside as %s: %s", name, to, why.message);
		gaps_add_entry(store, name);
	}
	return r;
}

static int open_blocks(struct local_store *store, struct error *err)
{
	_cleanup_(dir_closep) DIR *dir = opendir(store->blocks_path);
	if (!dir)
		return error_set_errno(err, -errno, "cannot list %s", store->blocks_path);
	int r = 0;
	for (const struct dirent *entry; r == 0 && (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			r = open_block(store, entry->d_name, err);
	return r;
}

/* The ids of the newest blocks, as many as are remembered; added oldest first. */
static int load_ids(struct local_store *store, struct error *err)
{
	size_t from = store->block_count, total = 0;
	while (from > 0 && total < STORE_IDS_KEPT)
		total += store->blocks[--from]->meta.files[BLOCK_APPENDS].rows;
	for (size_t i = from; i < store->block_count; i++) {
		const struct block *block = store->blocks[i];
		struct head_append *appends = NULL;
		struct error why = {0};
		size_t count = 0;
		int r = block_read_appends(block, &appends, &count, &why);
		for (size_t k = 0; k < count; k++)
			id_ring_add(&store->ids, appends[k].id, appends[k].sequence);
		mem_free(appends);
		/* No reason to give the block's samples up. */
		if (r == -EBADMSG)
			store_problem(store, "block %s: retries of appends in it would be stored twice: %s", block->meta.name,
				      why.message);
		else if (r < 0)
			return error_set(err, r, "%s", why.message);
	}
	return 0;
}

static void free_store(struct local_store *store)
{
	blocks_free_all(store);
	local_hosts_close(store, false);
	head_free(store->head);
	head_free(store->frozen);
	mem_free(store->gaps);
	log_segment_close(&store->log);
	id_ring_release(&store->ids);
	buffer_release(&store->pending);
	buffer_release(&store->writing);
	buffer_release(&store->payload);
	buffer_release(&store->compressed);
	io_close(store->lock_fd);
	mem_free(store->directory);
	for (size_t i = 0; i < store->rule_count; i++)
		series_matcher_free(store->rules[i].series);
	mem_free(store->rules);
	mem_free(store->full);
	pthread_mutex_destroy(&store->append_lock);
	pthread_mutex_destroy(&store->state_lock);
	pthread_mutex_destroy(&store->deletion_lock);
	pthread_mutex_destroy(&store->cut_lock);
	pthread_mutex_destroy(&store->wake_lock);
	pthread_mutex_destroy(&store->compact_lock);
	pthread_mutex_destroy(&store->hosts.write_lock);
	pthread_rwlock_destroy(&store->hosts.lock);
	pthread_cond_destroy(&store->synced_cond);
	pthread_cond_destroy(&store->room_cond);
	pthread_cond_destroy(&store->wake_cond);
	pthread_cond_destroy(&store->compact_cond);
	mem_free(store);
}

static int open_all(struct local_store *store, struct error *err)
{
	static int (*const steps[])(struct local_store * store, struct error * err) = {
		lock_directory,		make_directories, gaps_load,	     local_hosts_open, open_blocks,
		store_recover_replaced, load_ids,	  store_recover_log, start_threads,
	};
	int r = id_ring_init(&store->ids, err);
	for (size_t i = 0; r == 0 && i < sizeof(steps) / sizeof(*steps); i++)
		r = steps[i](store, err);
	return r;
}

int local_open(const struct store_options *options, struct local_store **ret, struct error *err)
{
	struct local_store *store = mem_zalloc(sizeof(*store));
	if (!store)
		return error_nomem(err);
	store->lock_fd = -1;
	store->log = LOG_SEGMENT_NONE;
	buffer_init(&store->pending, SIZE_MAX);
	buffer_init(&store->writing, SIZE_MAX);
	buffer_init(&store->payload, RECORD_BYTES_MAX);
	buffer_init(&store->compressed, SIZE_MAX);
	store->cache_max = STORE_CACHE_MAX;
	init_locks(store);
	store->hosts.file.fd = -1;
	store->directory = mem_strdup(options->directory);
	set_options(store, options);
	int r = store->directory ? compile_rules(store, err) : error_nomem(err);
	if (r == 0)
		r = open_all(store, err);
	if (r < 0) {
		free_store(store);
		return r;
	}
	*ret = store;
	return 0;
}

struct local_store *local_close(struct local_store *store)
{
	if (!store)
		return NULL;
	cancel_request(&store->cancel); /* a merge would be done anew, not lost */
	pthread_mutex_lock(&store->wake_lock);
	store->stop = true;
	pthread_cond_signal(&store->wake_cond);
	pthread_cond_signal(&store->compact_cond);
	pthread_mutex_unlock(&store->wake_lock);
	pthread_join(store->cut_thread, NULL);
	pthread_join(store->compact_thread, NULL);
	/* After a failed sync the disk is not to be trusted with more than what the log already holds. */
	bool is_sound = !has_failed(store);
	if (is_sound)
		local_cut(store, NULL);
	local_hosts_close(store, is_sound);
	blocks_delete_removed(store);
	free_store(store);
	return NULL;
}

/* ---- statistics ---- */

static void add_times(struct store_stats *stats, int64_t min_ns, int64_t max_ns)
{
	if (stats->oldest_ns == 0 || min_ns < stats->oldest_ns)
		stats->oldest_ns = min_ns;
	if (stats->newest_ns == 0 || max_ns > stats->newest_ns)
		stats->newest_ns = max_ns;
}

static void add_head(struct store_stats *stats, struct head *head)
{
	pthread_rwlock_rdlock(&head->lock);
	stats->head_bytes += head_bytes(head);
	stats->head_samples += head->count;
	stats->head_series += head->series_count;
	stats->head_process_rows += head->processes.end.count;
	if (!head_is_empty(head))
		add_times(stats, head->min_ns, head->max_ns);
	pthread_rwlock_unlock(&head->lock);
}

void local_get_stats(struct local_store *store, struct store_stats *ret)
{
	pthread_mutex_lock(&store->append_lock);
	pthread_mutex_lock(&store->state_lock);
	*ret = store->stats;
	ret->retention_age_ns = store->options.retention_age_ns;
	ret->retention_size_bytes = store->options.retention_size_bytes;
	ret->samples_age_ns = store->options.samples_age_ns;
	ret->cache_bytes = store->cache_bytes;
	ret->log_failed = store->failure.code != 0;
	ret->memory_full = store->cut_error.code && store_is_full(store);
	struct head *const heads[] = {store->frozen, store->head};
	for (size_t i = 0; i < 2; i++) {
		if (!heads[i])
			continue;
		add_head(ret, heads[i]);
		ret->log_bytes += heads[i]->log_bytes;
		ret->log_records += heads[i]->log_records;
	}
	for (size_t i = 0; i < store->block_count; i++) {
		const struct block_meta *meta = &store->blocks[i]->meta;
		ret->blocks++;
		ret->block_bytes += block_meta_bytes(meta);
		ret->block_samples += meta->samples;
		ret->blocks_by_level[meta->level]++;
		ret->level_bytes[meta->level] += block_meta_bytes(meta);
		add_times(ret, meta->min_ns, meta->max_ns);
	}
	pthread_mutex_unlock(&store->state_lock);
	pthread_mutex_unlock(&store->append_lock);
	local_hosts_get_stats(store, ret);
}
