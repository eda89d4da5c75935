/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of several blocks (stacks and what they are made of) put together into those of one. */
#ifndef WICK_STORE_COMPACT_UNION_H
#define WICK_STORE_COMPACT_UNION_H

#include "store/block/block.h"

struct stack_union;
int stack_union_new(struct stack_union **ret, struct error *err);
struct stack_union *stack_union_free(struct stack_union *all);
DEFINE_CLEANUP_POINTER(stack_union_free, struct stack_union);

/* What it may grow to. */
struct stack_union_limits {
	uint64_t bytes; /* of memory, up to and with stack_union_finish() */
	size_t stacks;
};
/* Adds one block's stacks. used: a byte a stack, whether it has rows in what is made; NULL = those that have a hash. *ret_ids
 * (the caller's, mem_free) has the union's id of each stack, for stack_union_renumber(). Tables and hashes may go afterwards.
 * limits NULL = none. -E2BIG when one would be passed, or a table would get too large: the union is as it was before, but
 * nothing can be added any more. */
int stack_union_add(struct stack_union *all, const struct block_tables *tables, const struct block_hashes *hashes,
		    const uint8_t *used, const struct stack_union_limits *limits, uint32_t **ret_ids, struct error *err);
uint64_t stack_union_bytes(const struct stack_union *all);

/* Numbers all stacks depth-first and makes the tables; nothing can be added any more. */
int stack_union_finish(struct stack_union *all, struct error *err);
/* Turns ids that stack_union_add() gave into ids of the tables. */
void stack_union_renumber(const struct stack_union *all, uint32_t *ids, size_t count);
/* Of the finished union; they live as long as it does. */
const struct block_tables *stack_union_tables(const struct stack_union *all);
const uint8_t *stack_union_used(const struct stack_union *all);
const struct hash128 *stack_union_hashes(const struct stack_union *all);

#endif
