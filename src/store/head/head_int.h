/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store/head: what both of the ways into a head need, appends (head.c) and log records (delta_read.c). */
#ifndef WICK_STORE_HEAD_HEAD_INT_H
#define WICK_STORE_HEAD_HEAD_INT_H

#include "store/head/head.h"

/* The id of what is equal, added if it is new. 0 or -ENOMEM. */
int head_add_type(struct head *head, const struct profile_type *type, uint32_t *ret);
/* Takes the contents of `labels` over when they are new. */
int head_add_labels(struct head *head, struct labels *labels, uint32_t *ret);
/* 0, -ENOMEM, or 1: it is new, and there are series_max. */
int head_add_series(struct head *head, uint32_t type, uint32_t labels, uint32_t *ret);
/* Room for more samples behind the last one, and for one more id. -EDQUOT when there would be too many. */
int head_reserve_samples(struct head *head, size_t more, bool numbers, struct error *err);
void head_update_bytes(struct head *head);

#endif
