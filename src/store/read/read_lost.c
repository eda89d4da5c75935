/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged rows: an answer says how many are missing in it, and of what time.
 *
 * They are counted by the page, and once for a place, although a query may read it several times: for both ends of its range,
 * and to count profiles before values are averaged. Which of a page's rows would have matched cannot be known, so these are all
 * of a page that the query would have read.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/time.h"
#include "store/read/read_int.h"

static bool is_same(const struct read_lost *a, const struct block *block, const struct block_lost *lost)
{
	return a->block == block && a->lost.file == lost->file && a->lost.group == lost->group && a->lost.page == lost->page;
}

/* lock held */
static void add_lost(struct reading *r, const struct block *block, const struct block_lost *lost)
{
	for (size_t i = 0; i < r->lost_count; i++)
		if (is_same(&r->lost[i], block, lost))
			return;
	/* Without memory it is counted at once, and perhaps again. */
	if (array_push(&r->lost, &r->lost_count, &r->lost_capacity, SIZE_MAX, (struct read_lost){block, *lost}) < 0)
		store_read_stats_lose(r->stats, lost->rows, lost->from_ns, lost->to_ns);
}

int read_note_lost(struct block_source *b, const struct block_lost *lost, const char *why)
{
	struct reading *r = b->r;
	if (block_is_derivable(b->block, lost->file) && (lost->rows || lost->group == SIZE_MAX)) {
		damage_note_file(r->store, b->block, lost->file, why);
		return READ_ANEW;
	}
	damage_note_rows(r->store, b->block, lost, why);
	if (lost->group == SIZE_MAX)
		return READ_ANEW;
	if (!lost->rows)
		return 0;
	THREAD_LOCK_SCOPE(&r->lock);
	add_lost(r, b->block, lost);
	return 0;
}

void read_note_losses(struct reading *r, const struct block *block, bool samples)
{
	const struct block_meta *meta = &block->meta;
	const struct block_losses *lost = &meta->lost;
	THREAD_LOCK_SCOPE(&r->lock);
	if (lost->rows && read_overlaps(r->select, lost->from_ns, lost->to_ns)) {
		struct block_lost before = {.file = BLOCK_FILE_COUNT,
					    .group = SIZE_MAX,
					    .page = SIZE_MAX,
					    .rows = lost->rows,
					    .from_ns = lost->from_ns,
					    .to_ns = lost->to_ns};
		add_lost(r, block, &before);
	}
	if (lost->names && r->criteria.by_stack)
		read_note_partial(r, "block %.40s: names of some frames were damaged", meta->name);
	if (samples) {
		struct block_lost all = {.file = BLOCK_SAMPLES,
					 .group = SIZE_MAX,
					 .page = SIZE_MAX,
					 .rows = meta->samples,
					 .from_ns = meta->min_ns,
					 .to_ns = meta->max_ns};
		add_lost(r, block, &all);
	}
}

void read_note_names(struct reading *r, struct block *block, const struct block_tables *tables)
{
	if (!tables->damaged_rows)
		return;
	damage_note_names(r->store, block, tables);
	THREAD_LOCK_SCOPE(&r->lock);
	read_note_partial(r, "block %.40s: names of some frames are damaged", block->meta.name);
}

void read_give_lost(struct reading *r)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	const struct block *block = NULL;
	size_t blocks = 0;
	uint64_t rows = 0;
	struct store_read_stats lost = {0};
	for (size_t i = 0; i < r->lost_count; i++) {
		const struct read_lost *one = &r->lost[i];
		rows += one->lost.rows;
		blocks += one->block != block;
		block = one->block;
		store_read_stats_lose(&lost, one->lost.rows, one->lost.from_ns, one->lost.to_ns);
	}
	if (rows) {
		store_read_stats_lose(r->stats, rows, lost.lost_from_ns, lost.lost_to_ns);
		time_format(lost.lost_from_ns, from);
		time_format(lost.lost_to_ns, to);
		if (blocks == 1)
			read_note_partial(r, "block %.40s: %" PRIu64 " rows from %s to %s are damaged", block->meta.name, rows,
					  from, to);
		else
			read_note_partial(r, "%" PRIu64 " rows from %s to %s are damaged", rows, from, to);
	}
	r->lost = mem_free(r->lost);
	r->lost_count = r->lost_capacity = 0;
}
