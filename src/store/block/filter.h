/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks of a source pass the conditions of a selection: each location is checked once, the rest is one pass over the
 * trie for each condition. And which links do: by binary search among the ids, for any number of which a row costs next to
 * nothing. */
#ifndef WICK_STORE_BLOCK_FILTER_H
#define WICK_STORE_BLOCK_FILTER_H

#include "store/block/block.h"

/* The conditions on stacks of a selection, compiled. Not thread-safe. */
struct stack_filter;
/* *ret is NULL when there are none. The select's symbols and call site live as long as the filter. */
int stack_filter_new(const struct store_select *select, struct stack_filter **ret, struct error *err);
struct stack_filter *stack_filter_free(struct stack_filter *filter);
/* 0, or negative when what the filter said of a stack was no answer: an expression took too long, a name was not to be had. */
int stack_filter_failure(const struct stack_filter *filter, struct error *err); /* NULL allowed */

/* *ret is a byte a stack, or NULL when there are no conditions (filter NULL); the caller frees it. */
int filter_block(struct stack_filter *filter, const struct block_tables *tables, uint8_t **ret, struct error *err);
int filter_pool(struct stack_filter *filter, const struct profile *pool, uint8_t **ret, struct error *err);

/* Whether samples of this link pass select->links. */
bool filter_link_passes(const struct store_select *select, const struct profile_link *link);
/* Whether samples of these numbers pass select->numbers. Thread-safe. */
bool filter_numbers_pass(const struct store_select *select, struct bytes numbers);
/* The same for all links of a pool: a byte each, or NULL when there are no conditions; the caller frees it. */
int filter_pool_links(const struct store_select *select, const struct profile *pool, uint8_t **ret, struct error *err);

#endif
