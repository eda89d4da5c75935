/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WICK_BASE_ORDER_H
#define WICK_BASE_ORDER_H

#include <stdlib.h>

/* What a function for qsort() returns of two numbers, each of which is looked at twice. By one and then by another:
 *     return ORDER(a->pid, b->pid) ?: ORDER(a->tid, b->tid);   */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* qsort() for an array that may be NULL as long as it is empty. */
#define SORT(items, count, compare) sort_array((items), (count), sizeof(*(items)), (compare))
static inline void sort_array(void *items, size_t count, size_t size, int (*compare)(const void *a, const void *b))
{
	if (count > 1)
		qsort(items, count, size, compare);
}

#endif
