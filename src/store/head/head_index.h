/* SPDX-License-Identifier: Apache-2.0 */
/* What queries need of a head beyond what appending keeps: its series by columns, the hashes of its stacks. Made when a query
 * asks for it and kept up to date by the next ones, so that appends pay nothing and queries only for what is new. */
#ifndef WICK_STORE_HEAD_HEAD_INDEX_H
#define WICK_STORE_HEAD_HEAD_INDEX_H

#include "store/head/head.h"
#include "store/series_columns.h"

struct head_columns {
	unsigned refs; /* the index's lock */
	struct series_columns columns;
};
struct head_index;
int head_index_new(struct head_index **ret, struct error *err);
struct head_index *head_index_free(struct head_index *index);

/* All of these with head->lock held for reading, so that the head does not grow meanwhile. */
int head_columns_get(struct head *head, struct head_columns **ret, struct error *err);
void head_columns_put(struct head *head, struct head_columns *columns);
/* Copies the hashes of some stacks: ret[i] is that of stacks[i]. */
int head_copy_hashes(struct head *head, const uint32_t *stacks, size_t count, struct hash128 *ret, struct error *err);

#endif
