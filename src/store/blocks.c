/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of blocks.
 *
 * A block is referenced by the list and by each query that has it in its snapshot. Taking it out of the list (retention,
 * damage) therefore never pulls it away under a reader: retention's directory is only deleted after the last reference is gone;
 * a damaged one is renamed at once, and readers that still want files from it find them missing and go on without it, as they
 * would have anyway.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/io.h"
#include "base/text.h"
#include "store/store_int.h"

int blocks_add(struct local_store *store, struct block *block, struct error *err)
{
	if (array_reserve(&store->blocks, &store->block_capacity, store->block_count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	size_t at = store->block_count++;
	for (; at > 0 && store->blocks[at - 1]->meta.last_sequence > block->meta.last_sequence; at--)
		store->blocks[at] = store->blocks[at - 1];
	store->blocks[at] = block;
	return 0;
}

/* ---- snapshots ---- */

void store_head_unref(struct local_store *store, struct head *head)
{
	if (!head)
		return;
	pthread_mutex_lock(&store->state_lock);
	bool last = --head->refs == 0;
	pthread_mutex_unlock(&store->state_lock);
	if (!last)
		return;
	head_free(head);
	mem_trim();
}

int store_snapshot_take(struct local_store *store, struct store_snapshot *ret, struct error *err)
{
	BUDGET_EXEMPT_SCOPE(); /* others use it, too */
	*ret = (struct store_snapshot){0};
	THREAD_LOCK_SCOPE(&store->state_lock);
	ret->blocks = mem_alloc_array(store->block_count, sizeof(*ret->blocks));
	if (ret->blocks) {
		ret->heads[0] = store->frozen;
		ret->heads[1] = store->head;
		for (size_t i = 0; i < 2; i++)
			if (ret->heads[i])
				ret->heads[i]->refs++;
		for (size_t i = 0; i < store->block_count; i++) {
			ret->blocks[i] = store->blocks[i];
			ret->blocks[i]->refs++;
		}
		ret->block_count = store->block_count;
	}
	return ret->blocks ? 0 : error_nomem(err);
}

/* Drops one reference. True if the block was removed, and nobody uses it any more. */
static bool unref_block(struct local_store *store, struct block *block)
{
	pthread_mutex_lock(&store->state_lock);
	bool is_unused = --block->refs == 0, is_removed = is_unused && block->removed;
	bool is_over = is_unused && block->is_set_aside;
	pthread_mutex_unlock(&store->state_lock);
	if (is_over)
		block_free(block);
	return is_removed;
}

void blocks_unref(struct local_store *store, struct block *block)
{
	unref_block(store, block);
}

void store_snapshot_release(struct local_store *store, struct store_snapshot *snapshot)
{
	BUDGET_EXEMPT_SCOPE(); /* others use it, too */
	bool has_removed = false;
	for (size_t i = 0; i < snapshot->block_count; i++)
		has_removed |= unref_block(store, snapshot->blocks[i]);
	mem_free(snapshot->blocks);
	store_head_unref(store, snapshot->heads[0]);
	store_head_unref(store, snapshot->heads[1]);
	if (has_removed)
		store_wake(store);
	*snapshot = (struct store_snapshot){0};
}

static uint64_t files_bytes(const struct block_meta *meta, const enum block_file *files, size_t count)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++)
		bytes += meta->files[files[i]].size;
	return bytes;
}

int local_list_blocks(struct local_store *store, store_on_block on_block, void *context, struct error *err)
{
	static const enum block_file index[] = {BLOCK_SERIES, BLOCK_LABELS};
	static const enum block_file symbols[] = {BLOCK_STACKS, BLOCK_LOCATIONS, BLOCK_LINES, BLOCK_FUNCTIONS, BLOCK_MAPPINGS};
	struct store_snapshot snapshot;
	int r = store_snapshot_take(store, &snapshot, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < snapshot.block_count && !r; i++) {
		const struct block_meta *meta = &snapshot.blocks[i]->meta;
		struct store_block block = {.name = meta->name,
					    .version = meta->version,
					    .level = meta->level,
					    .generation = meta->generation,
					    .created_ns = meta->created_ns,
					    .min_ns = meta->min_ns,
					    .max_ns = meta->max_ns,
					    .samples = meta->samples,
					    .series = meta->series,
					    .bytes = block_meta_bytes(meta),
					    .index_bytes = files_bytes(meta, index, sizeof(index) / sizeof(*index)),
					    .symbol_bytes = files_bytes(meta, symbols, sizeof(symbols) / sizeof(*symbols)),
					    .has_samples = meta->files[BLOCK_SAMPLES].size > 0};
		r = on_block(context, &block, err);
	}
	store_snapshot_release(store, &snapshot);
	return r;
}

/* Referenced; NULL = there is none. */
static struct block *find_block(struct local_store *store, const char *name)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	for (size_t i = 0; i < store->block_count; i++) {
		if (strcmp(store->blocks[i]->meta.name, name))
			continue;
		store->blocks[i]->refs++;
		return store->blocks[i];
	}
	return NULL;
}

static int read_part(const struct block *block, const char *file, uint64_t offset, size_t bytes_max, struct buffer *ret,
		     struct error *err)
{
	char path[PATH_MAX];
	int r = io_join_path(path, sizeof(path), block->path, file);
	if (r < 0)
		return error_set_errno(err, r, "%s", file);
	_cleanup_(fd_closep) int fd = io_open(path, O_RDONLY, 0, err);
	if (fd < 0)
		return fd;
	if (buffer_reserve(ret, bytes_max) < 0)
		return error_nomem(err);
	ssize_t n = io_pread(fd, ret->data + ret->len, bytes_max, offset, path, err);
	if (n < 0)
		return (int)n;
	ret->len += (size_t)n;
	return 0;
}

int local_read_block_file(struct local_store *store, const char *name, const char *file, uint64_t offset, size_t bytes_max,
			  struct buffer *ret, struct error *err)
{
	/* Only files that blocks have: the name comes from outside. */
	if (text_find_name(block_file_names, BLOCK_FILE_COUNT + 1, file) < 0)
		return error_set(err, -ENOENT, "blocks have no file '%.60s'", file);
	struct block *block = find_block(store, name);
	if (!block)
		return error_set(err, -ENOENT, "there is no block '%.60s'; it may have been merged into another one", name);
	int r = read_part(block, file, offset, bytes_max, ret, err);
	if (unref_block(store, block))
		store_wake(store);
	return r;
}

/* ---- taking blocks out ---- */

/* state_lock held. */
static bool take_out(struct local_store *store, struct block *block)
{
	for (size_t i = 0; i < store->block_count; i++) {
		if (store->blocks[i] != block)
			continue;
		store->block_count--;
		memmove(store->blocks + i, store->blocks + i + 1, (store->block_count - i) * sizeof(*store->blocks));
		return true;
	}
	return false;
}

static bool is_listed(const struct local_store *store, const struct block *block)
{
	for (size_t i = 0; i < store->block_count; i++)
		if (store->blocks[i] == block)
			return true;
	return false;
}

int store_move_aside(struct local_store *store, const char *path, const char *name, char to[PATH_MAX], struct error *err)
{
	int r = io_make_dirs(store->quarantine_path, 0750, err);
	if (r == 0) {
		r = io_join_path(to, PATH_MAX, store->quarantine_path, name);
		if (r < 0)
			return error_set_errno(err, r, "%s", name);
		r = io_rename(path, to, err);
	}
	return r;
}

void blocks_set_aside(struct local_store *store, struct block *block, const char *why)
{
	char to[PATH_MAX];
	struct error err = {0};
	pthread_mutex_lock(&store->state_lock);
	bool mine = !block->is_set_aside && take_out(store, block);
	struct cache_evicted out = {0};
	if (mine) {
		block->is_set_aside = true;
		out = cache_evict(store, block);
	}
	pthread_mutex_unlock(&store->state_lock);
	cache_free_evicted(out);
	if (!mine)
		return;
	gaps_add(store, block->meta.min_ns, block->meta.max_ns + 1, block->meta.samples,
		 "block %.60s is damaged and was set aside in quarantine/", block->meta.name);
	if (store_move_aside(store, block->path, block->meta.name, to, &err) < 0)
		store_problem(store, "block %s is damaged and no longer used: %s (and it cannot be moved: %s)",
			      block->meta.name, why, err.message);
	else
		store_problem(store, "block %s is damaged and set aside as %s: %s", block->meta.name, to, why);
	unref_block(store, block);
}

void blocks_remove(struct local_store *store, struct block *block)
{
	pthread_mutex_lock(&store->state_lock);
	struct cache_evicted out = {0};
	/* No memory to remember it: it stays, and the next round tries again. */
	if (array_reserve(&store->doomed, &store->doomed_capacity, store->doomed_count + 1, SIZE_MAX) == 0 &&
	    take_out(store, block)) {
		block->removed = true;
		block->refs--;
		store->doomed[store->doomed_count++] = block;
		store->stats.blocks_removed++;
		out = cache_evict(store, block);
	}
	pthread_mutex_unlock(&store->state_lock);
	cache_free_evicted(out);
}

int blocks_replace(struct local_store *store, struct block *const *old, size_t count, struct block *fresh, struct error *err)
{
	struct cache_evicted out = {0};
	size_t found = 0;
	int r = 0;
	pthread_mutex_lock(&store->state_lock);
	for (size_t i = 0; i < count; i++)
		found += is_listed(store, old[i]);
	if (found < count)
		r = error_set(err, -ESTALE, "a block to replace no longer exists");
	/* The list has room: it gets no longer. */
	else if (array_reserve(&store->doomed, &store->doomed_capacity, store->doomed_count + count, SIZE_MAX) < 0)
		r = error_nomem(err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		take_out(store, old[i]);
		old[i]->removed = true;
		old[i]->refs--;
		store->doomed[store->doomed_count++] = old[i];
	}
	if (r == 0 && fresh)
		r = blocks_add(store, fresh, err);
	else if (r == 0)
		store->stats.blocks_removed += count;
	pthread_mutex_unlock(&store->state_lock);
	for (size_t i = 0; r == 0 && i < count; i++) {
		pthread_mutex_lock(&store->state_lock);
		out = cache_evict(store, old[i]);
		pthread_mutex_unlock(&store->state_lock);
		cache_free_evicted(out);
	}
	return r;
}

static bool replaces(const struct block *block, const struct block *other)
{
	for (size_t i = 0; i < block->meta.replace_count; i++)
		if (!strcmp(block->meta.replaces[i], other->meta.name))
			return true;
	return false;
}

/* A block that others waited to be replaced by goes after them: while it is there, they do not come back when the store is
 * opened again. */
static bool must_wait(const struct local_store *store, const struct block *block)
{
	for (size_t i = 0; i < store->doomed_count; i++)
		if (replaces(block, store->doomed[i]))
			return true;
	return false;
}

static struct block *next_dead(struct local_store *store)
{
	struct block *dead = NULL;
	THREAD_LOCK_SCOPE(&store->state_lock);
	for (size_t i = 0; i < store->doomed_count && !dead; i++) {
		struct block *block = store->doomed[i];
		if (block->refs || block->is_stuck || must_wait(store, block))
			continue;
		dead = block;
		dead->refs++;
	}
	return dead;
}

int blocks_discard(struct local_store *store, const char *path, const char *name, struct error *err)
{
	char to[PATH_MAX];
	struct error why = {0};
	int r = io_join_path(to, sizeof(to), store->trash_path, name);
	if (r < 0)
		return error_set_errno(err, r, "%s", name);
	r = io_rename(path, to, &why);
	if (r == -ENOENT) {
		if (access(to, F_OK) < 0)
			return 0;
		r = 0; /* moved by an attempt that failed below */
	}
	if (r < 0)
		return error_set(err, r, "%s", why.message);
	r = io_sync_dir(store->blocks_path, err);
	return r == 0 ? io_remove_tree(to, err) : r;
}

static int move_in(struct local_store *store, struct block *block, struct error *err)
{
	char path[PATH_MAX];
	int r = io_join_path(path, sizeof(path), store->blocks_path, block->meta.name);
	if (r < 0)
		return error_set_errno(err, r, "%s", block->meta.name);
	char *copy = mem_strdup(path);
	if (!copy)
		return error_nomem(err);
	r = blocks_discard(store, path, block->meta.name, err); /* left by an attempt that failed below */
	if (r == 0)
		r = io_rename(block->path, path, err);
	if (r < 0) {
		mem_free(copy);
		return r;
	}
	mem_free(block->path);
	block->path = copy;
	/* After a failed sync it may be there after a crash or not; what it was made of is there in any case. */
	return io_sync_dir(store->blocks_path, err);
}

void blocks_take_back(struct local_store *store, struct block *block)
{
	blocks_discard(store, block->path, block->meta.name, NULL);
	block_free(block);
}

int blocks_move_in(struct local_store *store, const char *temporary, struct block **ret, struct error *err)
{
	struct block *block;
	int r = block_open(temporary, &block, err);
	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++)
		r = block->unusable >> i & 1 ? block_check_file(block, (enum block_file)i, err) : 0;
	if (r < 0) {
		block_free(block);
		return r;
	}
	r = move_in(store, block, err);
	if (r < 0)
		blocks_take_back(store, block);
	else
		*ret = block;
	return r;
}

void blocks_delete_removed(struct local_store *store)
{
	/* Two at once would each leave what waits for the other's block, and one would return too early. */
	THREAD_LOCK_SCOPE(&store->deletion_lock);
	for (struct block *block; (block = next_dead(store));) {
		struct error err = {0};
		int r = blocks_discard(store, block->path, block->meta.name, &err);
		pthread_mutex_lock(&store->state_lock);
		block->refs--;
		block->is_stuck = r < 0;
		for (size_t i = 0; r == 0 && i < store->doomed_count; i++) {
			if (store->doomed[i] != block)
				continue;
			store->doomed[i] = store->doomed[--store->doomed_count];
			break;
		}
		pthread_mutex_unlock(&store->state_lock);
		if (r == 0)
			block_free(block);
		else
			store_problem(store, "block %s is no longer needed but cannot be removed: %s", block->meta.name,
				      err.message);
	}
}

size_t blocks_pending_deletion(struct local_store *store, bool *ret_stuck)
{
	size_t waiting = 0;
	*ret_stuck = false;
	THREAD_LOCK_SCOPE(&store->state_lock);
	for (size_t i = 0; i < store->doomed_count; i++) {
		waiting++;
		*ret_stuck |= store->doomed[i]->is_stuck;
		store->doomed[i]->is_stuck = false;
	}
	return waiting;
}

void blocks_free_all(struct local_store *store)
{
	for (size_t i = 0; i < store->block_count; i++) {
		cache_free_evicted(cache_evict(store, store->blocks[i]));
		block_free(store->blocks[i]);
	}
	for (size_t i = 0; i < store->doomed_count; i++)
		block_free(store->doomed[i]);
	mem_free(store->blocks);
	mem_free(store->doomed);
	store->blocks = store->doomed = NULL;
	store->block_count = store->doomed_count = 0;
}
