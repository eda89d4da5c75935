/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of decoded indexes of blocks: series, stack tables, stack hashes, and the footer of the samples: of a day of a
 * large fleet it has megabytes, most of them checksums of pages, and a query of one service wants a few hundred pages.
 *
 * It holds up to STORE_CACHE_MAX bytes, or what local_set_cache() says; the parts of the block that was used longest ago go
 * first. While queries have so much of their common memory (base/budget.h) that the rest of that is less, the cache has the
 * rest, so that both together stay within it. What it holds has references of its own, so a query keeps what it uses while the
 * cache forgets it. Two queries that miss at the same time both load; the second copy lives only as long as its query.
 */
#include <stddef.h>

#include "base/budget.h"
#include "store/store_int.h"

struct kind {
	size_t slot, refs, bytes; /* offsets: in struct block, in the part */
	int (*load)(const struct block *block, void **ret, uint64_t *bytes, struct error *err);
	void (*free)(void *part);
};

static int load_series(const struct block *block, void **ret, uint64_t *bytes, struct error *err)
{
	struct block_series *series = NULL;
	int r = block_series_load(block, &series, bytes, err);
	*ret = series;
	return r;
}

static int load_tables(const struct block *block, void **ret, uint64_t *bytes, struct error *err)
{
	struct block_tables *tables = NULL;
	int r = block_tables_load(block, &tables, bytes, err);
	*ret = tables;
	return r;
}

static int load_hashes(const struct block *block, void **ret, uint64_t *bytes, struct error *err)
{
	struct block_hashes *hashes = NULL;
	int r = damage_load_hashes(block, &hashes, bytes, err);
	*ret = hashes;
	return r;
}

static int load_samples_footer(const struct block *block, void **ret, uint64_t *bytes, struct error *err)
{
	struct block_footer *footer = NULL;
	int r = block_footer_load(block, BLOCK_SAMPLES, &footer, bytes, err);
	*ret = footer;
	return r;
}

static void free_series(void *part)
{
	block_series_free(part);
}

static void free_tables(void *part)
{
	block_tables_free(part);
}

static void free_hashes(void *part)
{
	block_hashes_free(part);
}

static void free_footer(void *part)
{
	block_footer_free(part);
}

static const struct kind kinds[BLOCK_PARTS] = {
	[BLOCK_PART_SERIES] = {offsetof(struct block, series), offsetof(struct block_series, refs),
			       offsetof(struct block_series, bytes), load_series, free_series},
	[BLOCK_PART_TABLES] = {offsetof(struct block, tables), offsetof(struct block_tables, refs),
			       offsetof(struct block_tables, bytes), load_tables, free_tables},
	[BLOCK_PART_HASHES] = {offsetof(struct block, hashes), offsetof(struct block_hashes, refs),
			       offsetof(struct block_hashes, bytes), load_hashes, free_hashes},
	[BLOCK_PART_SAMPLES_FOOTER] = {offsetof(struct block, samples_footer), offsetof(struct block_footer, refs),
				       offsetof(struct block_footer, bytes), load_samples_footer, free_footer},
};

static void **slot_of(struct block *block, enum block_part part)
{
	return (void **)(void *)((char *)block + kinds[part].slot);
}

static unsigned *refs_of(void *item, enum block_part part)
{
	return (unsigned *)(void *)((char *)item + kinds[part].refs);
}

static size_t bytes_of(void *item, enum block_part part)
{
	return *(size_t *)(void *)((char *)item + kinds[part].bytes);
}

struct cache_evicted cache_evict(struct local_store *store, struct block *block)
{
	struct cache_evicted out = {0};
	for (enum block_part part = 0; part < BLOCK_PARTS; part++) {
		void **slot = slot_of(block, part);
		if (!*slot)
			continue;
		store->cache_bytes -= bytes_of(*slot, part);
		if (--*refs_of(*slot, part) == 0)
			out.parts[part] = *slot;
		*slot = NULL;
	}
	return out;
}

void cache_free_evicted(struct cache_evicted out)
{
	for (enum block_part part = 0; part < BLOCK_PARTS; part++)
		if (out.parts[part])
			kinds[part].free(out.parts[part]);
}

bool cache_has(struct local_store *store, const struct block *block, enum block_part part)
{
	THREAD_LOCK_SCOPE(&store->state_lock);
	return *(void *const *)(const void *)((const char *)block + kinds[part].slot) != NULL;
}

static bool holds_any(const struct block *block)
{
	return block->series || block->tables || block->hashes || block->samples_footer;
}

/* What queries leave of their memory. */
static size_t left_by_queries(const struct budget *budget)
{
	const struct budget_pool *pool = budget ? budget->pool : NULL;
	if (!pool || !pool->max_bytes)
		return SIZE_MAX;
	size_t used = atomic_load_explicit(&pool->used, memory_order_relaxed);
	return used < pool->max_bytes ? pool->max_bytes - used : 0;
}

/* Makes the cache fit again, into `left` as well, sparing `keep`. state_lock held for one block at a time. */
static void shrink(struct local_store *store, const struct block *keep, size_t left)
{
	for (;;) {
		struct block *oldest = NULL;
		pthread_mutex_lock(&store->state_lock);
		size_t max = store->cache_max < left ? store->cache_max : left;
		for (size_t i = 0; store->cache_bytes > max && i < store->block_count; i++) {
			struct block *block = store->blocks[i];
			if (block != keep && holds_any(block) && (!oldest || block->last_used < oldest->last_used))
				oldest = block;
		}
		struct cache_evicted out = {0};
		store->stats.cache_evictions += oldest != NULL;
		if (oldest)
			out = cache_evict(store, oldest);
		pthread_mutex_unlock(&store->state_lock);
		cache_free_evicted(out);
		if (!oldest)
			return;
	}
}

void local_set_cache(struct local_store *store, size_t bytes_max)
{
	pthread_mutex_lock(&store->state_lock);
	bool smaller = bytes_max < store->cache_max;
	store->cache_max = bytes_max;
	pthread_mutex_unlock(&store->state_lock);
	if (smaller)
		shrink(store, NULL, SIZE_MAX);
}

/* Whether the cache may hold it: neither gone, nor too large to leave room for anything else, nor more of one block, which is
 * spared while it is in use, than all of the cache. state_lock held. */
static bool may_cache(const struct local_store *store, struct block *block, size_t bytes)
{
	size_t own = bytes;
	for (enum block_part part = 0; part < BLOCK_PARTS; part++)
		own += *slot_of(block, part) ? bytes_of(*slot_of(block, part), part) : 0;
	return !block->removed && !block->is_set_aside && bytes <= store->cache_max / 2 && own <= store->cache_max;
}

static void put(struct local_store *store, enum block_part part, void *item)
{
	if (!item)
		return;
	BUDGET_EXEMPT_SCOPE();
	pthread_mutex_lock(&store->state_lock);
	bool last = --*refs_of(item, part) == 0;
	pthread_mutex_unlock(&store->state_lock);
	if (last)
		kinds[part].free(item);
}

/* It may stay when the query that asks for it has ended. */
static int load(struct local_store *store, struct block *block, enum block_part part, void **ret,
		struct store_read_stats *stats, struct error *err)
{
	size_t left = left_by_queries(budget_current());
	BUDGET_EXEMPT_SCOPE();
	void **slot = slot_of(block, part);
	int r = kinds[part].load(block, ret, &stats->bytes, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&store->state_lock);
	if (!*slot && may_cache(store, block, bytes_of(*ret, part))) {
		++*refs_of(*ret, part);
		*slot = *ret;
		store->cache_bytes += bytes_of(*ret, part);
	}
	pthread_mutex_unlock(&store->state_lock);
	shrink(store, block, left);
	return 0;
}

/* While a query uses it, it is part of what the query takes of memory, whoever else may have it as well. */
static int charge(struct local_store *store, enum block_part part, void *item, void **ret, struct error *err)
{
	*ret = item;
	if (!budget_current() || budget_charge(budget_current(), bytes_of(item, part)))
		return 0;
	put(store, part, item);
	*ret = NULL;
	return error_nomem(err);
}

int cache_get(struct local_store *store, struct block *block, enum block_part part, void **ret, struct store_read_stats *stats,
	      struct error *err)
{
	pthread_mutex_lock(&store->state_lock);
	void **slot = slot_of(block, part);
	void *item = *slot;
	if (item)
		++*refs_of(item, part);
	block->last_used = ++store->cache_clock;
	pthread_mutex_unlock(&store->state_lock);
	*ret = NULL;
	if (item) {
		stats->cache_hits++;
		return charge(store, part, item, ret, err);
	}
	stats->cache_misses++;
	int r = load(store, block, part, &item, stats, err);
	return r < 0 ? r : charge(store, part, item, ret, err);
}

void cache_put(struct local_store *store, enum block_part part, void *item)
{
	struct budget *budget = budget_current();
	if (item && budget)
		budget_credit(budget, bytes_of(item, part));
	put(store, part, item);
	if (item && budget) {
		size_t left = left_by_queries(budget);
		BUDGET_EXEMPT_SCOPE();
		shrink(store, NULL, left);
	}
}
