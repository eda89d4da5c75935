/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stacks are made of, between the tables of a block and a profile that interns it, a pool.
 *
 * From a block into a pool. Strings, functions and locations of several blocks with the same content meet in one id. Mappings
 * need more than that: the same binary is loaded at other addresses in each process, and profile_copy_mapping() knows which
 * mappings stand for the same part of the same file. So the block's mappings become a small profile of their own, are copied
 * with it, and addresses are moved to the mapping that was kept, exactly as copying a whole profile would.
 */
#ifndef WICK_STORE_BLOCK_BLOCK_POOL_H
#define WICK_STORE_BLOCK_BLOCK_POOL_H

#include "profile/merge.h"
#include "store/block/block.h"

struct block_to_pool {
	const struct block_tables *tables;
	struct profile *pool;
	struct error *err;
	/* private */
	struct profile *mappings; /* the block's, alone */
	uint32_t *mapping_ids;	  /* block's id -> id in `mappings` */
	struct profile_copy *copy;
	uint32_t *functions, *locations; /* block's id -> pool's id; 0 = not yet */
	struct profile_line *lines;
	size_t line_capacity;
};
/* With tables, pool and err set, and the rest zero. Release it whatever this returns. */
int block_to_pool_start(struct block_to_pool *b);
void block_to_pool_release(struct block_to_pool *b);
/* Adds a location and what it refers to, if it is not there yet. */
int block_to_pool_location(struct block_to_pool *b, uint32_t id, uint32_t *ret);

/* Numbers by first use: old id -> new id, and back. 0 is always 0. */
struct numbering {
	uint32_t *to_new, *to_old;
	size_t count;
};
int numbering_init(struct numbering *numbering, size_t count, struct error *err);
void numbering_release(struct numbering *numbering);
static inline uint32_t numbering_get(struct numbering *numbering, uint32_t old)
{
	if (old && !numbering->to_new[old]) {
		numbering->to_new[old] = (uint32_t)numbering->count;
		numbering->to_old[numbering->count++] = old;
	}
	return numbering->to_new[old];
}

/* Numbers stacks depth-first, so that a callee follows its caller and the stacks of one service lie together: ranks[i] is the
 * number of stack i, siblings in the order of their ids, 0 first. parents: of each, lower than its own id; needed: a byte a
 * stack, NULL = all. *ret_count are numbered, and ids (NULL = not wanted) has them by their numbers. */
int block_rank_stacks(const uint32_t *parents, size_t count, const uint8_t *needed, uint32_t *ranks, uint32_t *ids,
		      size_t *ret_count, struct error *err);

/* From a pool into a block: makes all tables but that of stacks; strings are views of the pool. With `locations`, of those
 * alone and in that order, with the functions and mappings that they use, by first use; NULL = everything, by the pool's ids.
 */
int block_tables_of_pool(const struct profile *pool, const struct numbering *locations, struct block_tables *tables,
			 struct error *err);

#endif
