/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of several blocks (stacks and what they are made of) put together into those of one. */
#ifndef WICK_STORE_UNION_H
#define WICK_STORE_UNION_H

#include "store/block.h"

struct stack_union;
int stack_union_new(struct stack_union **ret, struct error *err);
struct stack_union *stack_union_free(struct stack_union *all);
DEFINE_CLEANUP_POINTER(stack_union_free, struct stack_union);

/* Adds one block's stacks. used: a byte a stack, whether it has rows in what is made; NULL = those that have a hash. *ret_ids
 * (the caller's, mem_free) has the union's id of each stack, for stack_union_renumber(). Tables and hashes may go afterwards.
 * -E2BIG when a table would get too large; the union is then good for nothing. */
int stack_union_add(struct stack_union *all, const struct block_tables *tables, const struct block_hashes *hashes,
		    const uint8_t *used, uint32_t **ret_ids, struct error *err);
/* Bytes of memory that it needs in the end, and with tables of these numbers of rows added that are all new. */
uint64_t stack_union_bytes(const struct stack_union *all, uint64_t more_stacks, uint64_t more_locations,
			   uint64_t more_functions);

/* Numbers all stacks depth-first and makes the tables; nothing can be added any more. */
int stack_union_finish(struct stack_union *all, struct error *err);
/* Turns ids that stack_union_add() gave into ids of the tables. */
void stack_union_renumber(const struct stack_union *all, uint32_t *ids, size_t count);
/* Of the finished union; they live as long as it does. */
const struct block_tables *stack_union_tables(const struct stack_union *all);
const uint8_t *stack_union_used(const struct stack_union *all);
const struct hash128 *stack_union_hashes(const struct stack_union *all);

#endif
