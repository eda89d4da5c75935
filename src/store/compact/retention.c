/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: what goes by itself.
 *
 *   size      while all blocks together are too large, the one with the oldest data goes
 *   age       a block goes when its newest sample is older than retention_age_ns
 *   rules     a series that a rule matches has the rule's age instead. Of a block, the series whose age has passed go when the
 *             block's newest sample is so old: the block is rewritten without them, once for each age that is among its series.
 *             The block goes as a whole when the last of its series does.
 *   samples   a block whose newest sample is older than samples_age_ns loses its samples and keeps its rollups. Nothing is
 *             rewritten but the metadata: the new block's files are links to those of the old one.
 *
 * Series of a block are only asked for when a rule may have something to do: the time of that is worked out once a block.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "store/compact/compact_int.h"

#define NEVER  INT64_MAX
#define DAY_NS (24 * 3600 * NS_PER_S)

/* What is left of a block that loses its samples */
#define SUMS (1u << BLOCK_TOTALS | 1u << BLOCK_ROLLUP_5M | 1u << BLOCK_ROLLUP_1H | 1u << BLOCK_ROLLUP_ALL | 1u << BLOCK_LABELS)

/* The age of a series; negative = for ever. */
static int64_t age_of(const struct local_store *store, const struct profile_type *type, const struct labels *labels)
{
	for (size_t i = 0; i < store->rule_count; i++)
		if (series_matcher_finds(store->rules[i].series, type, labels))
			return store->rules[i].age_ns;
	return store->options.retention_age_ns;
}

/* When what is newest at `newest_ns` has that age. */
static int64_t due_at(int64_t newest_ns, int64_t age_ns)
{
	int64_t due;
	return age_ns < 0 || __builtin_add_overflow(newest_ns, age_ns, &due) ? NEVER : due;
}

/* ---- whole blocks ---- */

/* The block with the oldest data, if there is too much. Referenced. */
static struct block *pick_surplus(struct local_store *store)
{
	struct block *oldest = NULL;
	uint64_t total = 0;
	THREAD_LOCK_SCOPE(&store->state_lock);
	for (size_t i = 0; i < store->block_count; i++) {
		struct block *block = store->blocks[i];
		total += block_meta_bytes(&block->meta);
		if (!oldest || block->meta.max_ns < oldest->meta.max_ns)
			oldest = block;
	}
	if (total <= store->options.retention_size_bytes)
		oldest = NULL;
	if (oldest)
		oldest->refs++;
	return oldest;
}

static int remove_surplus(struct local_store *store)
{
	for (struct block *block; (block = pick_surplus(store));) {
		blocks_remove(store, block);
		pthread_mutex_lock(&store->state_lock);
		bool removed = block->removed;
		pthread_mutex_unlock(&store->state_lock);
		blocks_unref(store, block);
		if (!removed) /* set aside meanwhile, or no memory */
			break;
	}
	return 0;
}

/* ---- rules ---- */

/* The ages of a block's series: the least and the greatest that have not passed at `now_ns` (0 = all have passed), and whether
 * any has. */
struct ages {
	int64_t next_due_ns; /* the first that comes; NEVER = none */
	bool any_passed, any_left;
};

static int check_ages(const struct local_store *store, const struct block *block, int64_t now_ns, struct ages *ret,
		      struct error *err)
{
	struct block_series *series;
	struct label items[LIMIT_LABELS_PER_SERIES];
	uint64_t bytes = 0;
	int r = block_series_load(block, &series, &bytes, err);
	if (r < 0)
		return r;
	*ret = (struct ages){.next_due_ns = NEVER};
	for (size_t i = 0; i < series->columns.count; i++) {
		struct labels labels = series_columns_labels(&series->columns, i, NULL, 0, items);
		int64_t due =
			due_at(block->meta.max_ns, age_of(store, &series->columns.types[series->columns.type_ids[i]], &labels));
		if (due < now_ns) {
			ret->any_passed = true;
			continue;
		}
		ret->any_left = true;
		if (due < ret->next_due_ns)
			ret->next_due_ns = due;
	}
	block_series_free(series);
	return 0;
}

struct ageing {
	const struct local_store *store;
	int64_t newest_ns, now_ns;
};

static bool has_passed(void *context, const struct profile_type *type, const struct labels *labels, struct row_range *ret)
{
	const struct ageing *ageing = context;
	*ret = (struct row_range){INT64_MIN, INT64_MAX};
	return due_at(ageing->newest_ns, age_of(ageing->store, type, labels)) < ageing->now_ns;
}

/* Rewrites the block without the series whose age has passed. */
static int drop_series(struct local_store *store, struct block *block, int64_t now_ns, struct error *err)
{
	struct ageing ageing = {store, block->meta.max_ns, now_ns};
	uint64_t dropped;
	int r = compact_rewrite(store, block, has_passed, &ageing, &dropped, err);
	return r == 2 ? 0 : r;
}

/* Rewriting is work, and ages may be many: not before a block is a day old, or as old as what it is to lose. Clocks may be
 * wrong; a block from the future does not wait. */
static bool was_just_written(const struct block *block, int64_t now_ns, int64_t age_ns)
{
	int64_t wait = age_ns < DAY_NS ? age_ns : DAY_NS;
	return block->meta.created_ns <= now_ns && now_ns - block->meta.created_ns < wait;
}

static int apply_rules(struct local_store *store, struct block *block, int64_t now_ns, struct error *err)
{
	struct ages ages = {0};
	if (block->due_ns && now_ns <= block->due_ns)
		return 0;
	int r = check_ages(store, block, now_ns, &ages, err);
	if (r < 0)
		return r;
	if (ages.any_passed && !ages.any_left)
		return blocks_replace(store, &block, 1, NULL, err);
	if (ages.any_passed && !block_meta_is_stripped(&block->meta)) {
		if (!was_just_written(block, now_ns, now_ns - block->meta.max_ns))
			return drop_series(store, block, now_ns, err);
		block->due_ns =
			block->meta.created_ns + DAY_NS < ages.next_due_ns ? block->meta.created_ns + DAY_NS : ages.next_due_ns;
		return 0;
	}
	block->due_ns = ages.next_due_ns;
	return 0;
}

/* ---- samples ---- */

static int link_file(const struct block *block, const char *directory, const char *name, struct error *err)
{
	char from[PATH_MAX], to[PATH_MAX];
	int r = io_join_path(from, sizeof(from), block->path, name);
	if (r == 0)
		r = io_join_path(to, sizeof(to), directory, name);
	if (r < 0)
		return error_set_errno(err, r, "%s", name);
	if (fault_reached(FAULT_OPEN))
		return error_set_errno(err, -EIO, "cannot link %s to %s", to, from);
	return link(from, to) == 0 ? 0 : error_set_errno(err, -errno, "cannot link %s to %s", to, from);
}

static int write_stripped(const struct block *block, const char *directory, struct error *err)
{
	/* What is not changed is shared; only what is set here belongs to the copy. */
	struct block_meta meta = block->meta;
	size_t room = 1 + block->meta.replace_count;
	_cleanup_(mem_freep) char(*replaces)[BLOCK_NAME_MAX] = mem_zalloc_array(room, sizeof(*replaces));
	if (!replaces)
		return error_nomem(err);
	memcpy(replaces[0], block->meta.name, BLOCK_NAME_MAX);
	meta.replaces = replaces;
	meta.replace_count = 1 + compact_still_there(block, replaces + 1);
	meta.generation++;
	meta.created_ns = time_now_ns();
	meta.files[BLOCK_SAMPLES] = (struct parquet_written){0};
	block_meta_set_name(&meta);
	int r = 0;
	/* Whose rows or ids cannot be read goes without them; its sums can. */
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		if (block->unusable >> i & 1 && i != BLOCK_APPENDS)
			meta.files[i] = (struct parquet_written){0};
	for (size_t i = 0; r == 0 && i < BLOCK_FILE_COUNT; i++)
		if (meta.files[i].size)
			r = link_file(block, directory, block_file_names[i], err);
	if (r == 0)
		r = block_meta_write(directory, &meta, err);
	return r == 0 ? io_sync_dir(directory, err) : r;
}

static int drop_samples(struct local_store *store, struct block *block, struct error *err)
{
	char directory[PATH_MAX];
	int r = compact_make_directory(store, directory, err);
	if (r == 0)
		r = write_stripped(block, directory, err);
	if (r == 0)
		r = compact_publish(store, &block, 1, err);
	io_remove_tree(directory, NULL);
	return r;
}

/* ---- all ---- */

static int apply_to_block(struct local_store *store, struct block *block, int64_t now_ns, struct error *err)
{
	const struct store_options *options = &store->options;
	bool has_rules = store->rule_count > 0;
	if (!has_rules && due_at(block->meta.max_ns, options->retention_age_ns) < now_ns)
		return blocks_replace(store, &block, 1, NULL, err);
	int r = has_rules ? apply_rules(store, block, now_ns, err) : 0;
	/* Without rollups there would be nothing left; compaction makes some. */
	if (r == 0 && !block->removed && options->samples_age_ns > 0 && block->meta.files[BLOCK_SAMPLES].size &&
	    block_can_use(block, BLOCK_ROLLUP_ALL) && !(block->unusable & SUMS) &&
	    due_at(block->meta.max_ns, options->samples_age_ns) < now_ns)
		r = drop_samples(store, block, err);
	return r;
}

static int apply_to_all(struct local_store *store, int64_t now_ns, struct error *err)
{
	struct store_snapshot snapshot;
	struct error own = {0};
	int r = store_snapshot_take(store, &snapshot, err), result = 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < snapshot.block_count; i++) {
		r = apply_to_block(store, snapshot.blocks[i], now_ns, &own);
		if (r == -EBADMSG)
			r = compact_malformed(store, snapshot.blocks[i], &own);
		/* One that cannot be rewritten does not keep the others. */
		if (r < 0 && r != -ESTALE && result == 0)
			result = error_set(err, r, "%s", own.message);
		if (r == -ECANCELED)
			break;
	}
	store_snapshot_release(store, &snapshot);
	return result;
}

int local_apply_retention(struct local_store *store, int64_t now_ns, struct error *err)
{
	struct error own = {0};
	pthread_mutex_lock(&store->compact_lock);
	int r = apply_to_all(store, now_ns, &own);
	if (r < 0 && r != -ECANCELED)
		compact_note(store, &own);
	remove_surplus(store);
	pthread_mutex_unlock(&store->compact_lock);
	blocks_delete_removed(store);
	local_hosts_retain(store, now_ns);
	return r < 0 ? error_set(err, r, "%s", own.message) : 0;
}
