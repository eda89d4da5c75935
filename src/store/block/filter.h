/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks of a source pass the conditions of a selection: each location is checked once, the rest is one pass over the
 * trie for each condition. And which links do: by binary search among the ids, for any number of which a row costs next to
 * nothing. */
#ifndef WICK_STORE_BLOCK_FILTER_H
#define WICK_STORE_BLOCK_FILTER_H

#include "store/block/block.h"

/* *ret is a byte a stack, or NULL when there are no conditions; the caller frees it. */
int filter_block(const struct store_select *select, const struct block_tables *tables, uint8_t **ret, struct error *err);
int filter_pool(const struct store_select *select, const struct profile *pool, uint8_t **ret, struct error *err);

/* Whether samples of this link pass select->links. */
bool filter_link_passes(const struct store_select *select, const struct profile_link *link);
/* Whether samples of these numbers pass select->numbers. */
bool filter_numbers_pass(const struct store_select *select, struct bytes numbers);
/* The same for all links of a pool: a byte each, or NULL when there are no conditions; the caller frees it. */
int filter_pool_links(const struct store_select *select, const struct profile *pool, uint8_t **ret, struct error *err);

#endif
