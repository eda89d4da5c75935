/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage of blocks that are in use: what is left out of their answers, and what is read instead.
 *
 * What is damaged is a page, a row group, or a whole file (its footer). Rows of samples and of processes are nowhere else: they
 * are left out, and every answer that may have had some of them is partial and says how many rows of which time. Sums (totals,
 * rollups) and lists of labels can be made of the other files: a file of them that is damaged anywhere is not used any more,
 * and answers are what they were.
 *
 * Of the tables that stacks are made of, what cannot be read becomes a frame that says so (block_tables.c): values are right,
 * and so is all else that is known of their stacks. Hashes of stacks are made anew.
 *
 * One flipped bit costs nothing: the checksums are good enough to find it (codec/parquet_correct.c), so it is put right when it
 * is read, and then on disk, in the background.
 *
 * Each place is reported and counted once, when it is met first, whoever meets it: a query, or a merge. The block remembers it
 * for as long as it is open. Nothing is written down: after a restart it is found, and reported, again.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "store/store_int.h"

#define DAMAGE_MAX 65536 /* places of one block that are remembered; more are not reported */

/* state_lock held: whether it is new. */
static bool remember(struct block *block, const struct block_damage *damage)
{
	for (size_t i = 0; i < block->damage_count; i++) {
		const struct block_damage *known = &block->damage[i];
		if (known->file == damage->file && known->group == damage->group && known->page == damage->page)
			return false;
	}
	/* One that cannot be remembered would be reported again and again. */
	return array_push(&block->damage, &block->damage_count, &block->damage_capacity, DAMAGE_MAX, *damage) == 0;
}

void damage_note_rows(struct local_store *store, struct block *block, const struct block_lost *lost, const char *why)
{
	const struct block_damage damage = {.file = lost->file, .group = lost->group, .page = lost->page};
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	pthread_mutex_lock(&store->state_lock);
	bool is_new = remember(block, &damage);
	if (is_new && lost->rows) {
		store->stats.damaged_pages++;
		store->stats.damaged_rows += lost->rows;
	}
	pthread_mutex_unlock(&store->state_lock);
	if (lost->group == SIZE_MAX)
		block->unusable |= 1u << lost->file;
	if (!is_new)
		return;
	if (lost->rows)
		store_problem(store, "block %s: %llu rows of %s from %s to %s are damaged and left out: %s", block->meta.name,
			      (unsigned long long)lost->rows, block_file_names[lost->file], time_format(lost->from_ns, from),
			      time_format(lost->to_ns, to), why);
	else
		store_problem(store, "block %s: a page index of %s is damaged, and read without: %s", block->meta.name,
			      block_file_names[lost->file], why);
}

void damage_note_file(struct local_store *store, struct block *block, enum block_file file, const char *why)
{
	const struct block_damage damage = {.file = file, .group = SIZE_MAX, .page = SIZE_MAX};
	pthread_mutex_lock(&store->state_lock);
	bool is_new = remember(block, &damage);
	store->stats.damaged_files += is_new;
	pthread_mutex_unlock(&store->state_lock);
	block->unusable |= 1u << file;
	if (is_new)
		store_problem(store, "block %s: %s is damaged and no longer used, others are read instead: %s",
			      block->meta.name, block_file_names[file], why);
}

void damage_note_opened(struct local_store *store, struct block *block)
{
	const struct block_meta *meta = &block->meta;
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++) {
		struct error why = {0};
		enum block_file file = (enum block_file)i;
		/* What ids of appends are good for is said where they are read. */
		if (!(block->unusable >> i & 1) || file == BLOCK_APPENDS || block_check_file(block, file, &why) == 0)
			continue;
		if (block_is_derivable(block, file)) {
			damage_note_file(store, block, file, why.message);
			continue;
		}
		const struct block_lost lost = {.file = file,
						.group = SIZE_MAX,
						.page = SIZE_MAX,
						.rows = meta->files[i].rows,
						.from_ns = meta->min_ns,
						.to_ns = meta->max_ns};
		damage_note_rows(store, block, &lost, why.message);
	}
}

/* ---- names ---- */

void damage_note_names(struct local_store *store, struct block *block, const struct block_tables *tables)
{
	const struct block_damage damage = {.file = BLOCK_STACKS, .group = SIZE_MAX, .page = SIZE_MAX};
	if (!tables->damaged_rows)
		return;
	pthread_mutex_lock(&store->state_lock);
	bool is_new = remember(block, &damage);
	store->stats.damaged_names += is_new ? tables->damaged_rows : 0;
	pthread_mutex_unlock(&store->state_lock);
	if (is_new)
		store_problem(store,
			      "block %s: %llu rows of stacks, locations, lines, functions, or mappings are damaged; their "
			      "frames are shown as %s",
			      block->meta.name, (unsigned long long)tables->damaged_rows, BLOCK_DAMAGED_NAME);
}

/* A stack's hash follows from its content. */
static int derive_hashes(const struct block *block, struct block_hashes *hashes, uint64_t *bytes, struct error *err)
{
	struct block_tables *tables = NULL;
	struct profile *profile = NULL;
	_cleanup_(mem_freep) uint32_t *stacks = mem_alloc_array(hashes->count, sizeof(*stacks));
	_cleanup_(mem_freep) uint32_t *ids = mem_alloc_array(hashes->count, sizeof(*ids));
	_cleanup_(mem_freep) struct hash128 *all = NULL;
	size_t count = 0;
	int r = stacks && ids ? block_tables_load(block, &tables, bytes, err) : error_nomem(err);
	if (r == 0)
		r = profile_new(&profile, err);
	for (size_t i = 1; r == 0 && i < hashes->count && i < tables->stack_count; i++)
		if (hashes->lost[i])
			stacks[count++] = (uint32_t)i;
	if (r == 0)
		r = materialize_stacks(tables, stacks, count, SIZE_MAX, profile, ids, err);
	if (r == 0 && !(all = mem_alloc_array(profile->stack_count, sizeof(*all))))
		r = error_nomem(err);
	if (r == 0)
		r = profile_hash_stacks(profile, all, err);
	for (size_t i = 0; r == 0 && i < count; i++)
		hashes->hashes[stacks[i]] = all[ids[i]];
	profile_free(profile);
	block_tables_free(tables);
	return r;
}

int damage_load_hashes(const struct block *block, struct block_hashes **ret, uint64_t *bytes, struct error *err)
{
	struct block_hashes *hashes = NULL;
	int r = block_hashes_load(block, &hashes, bytes, err);
	if (r == 0 && hashes->lost)
		r = derive_hashes(block, hashes, bytes, err);
	if (r < 0)
		block_hashes_free(hashes);
	else
		*ret = hashes;
	return r;
}

/* ---- flipped bits ---- */

void damage_note_corrected(struct local_store *store, struct block *block)
{
	unsigned found = block->corrected, fresh;
	if (!found)
		return;
	pthread_mutex_lock(&store->state_lock);
	fresh = found & ~block->corrected_reported;
	block->corrected_reported |= found;
	pthread_mutex_unlock(&store->state_lock);
	for (size_t i = 0; i <= BLOCK_META; i++)
		if (fresh >> i & 1)
			store_problem(store, "block %s: a flipped bit of %s was put right in memory", block->meta.name,
				      block_file_names[i]);
	if (fresh)
		store_wake(store);
}

static int heal(struct local_store *store, struct block *block, struct error *err)
{
	struct block_healed healed;
	unsigned found = block->corrected;
	int r = block_heal(block->path, true, NULL, NULL, &healed, err);
	/* One that was set aside meanwhile, or cannot be written: it is read as before, and reported no more. */
	block->corrected &= ~found;
	if (r < 0)
		return error_prefix(err, r, "block %s: a flipped bit stays on disk", block->meta.name);
	pthread_mutex_lock(&store->state_lock);
	store->stats.corrected_bits += healed.bits;
	pthread_mutex_unlock(&store->state_lock);
	if (healed.bits)
		store_problem(store, "block %s: %llu flipped bits were put right on disk", block->meta.name,
			      (unsigned long long)healed.bits);
	return 0;
}

void damage_heal(struct local_store *store)
{
	struct store_snapshot snapshot;
	if (store_snapshot_take(store, &snapshot, NULL) < 0)
		return;
	for (size_t i = 0; i < snapshot.block_count; i++) {
		struct error err = {0};
		if (!snapshot.blocks[i]->corrected)
			continue;
		damage_note_corrected(store, snapshot.blocks[i]);
		if (heal(store, snapshot.blocks[i], &err) < 0)
			store_problem(store, "%s", err.message);
	}
	store_snapshot_release(store, &snapshot);
}
