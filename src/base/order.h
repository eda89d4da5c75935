/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting arrays. */
#ifndef WICK_BASE_ORDER_H
#define WICK_BASE_ORDER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"

/* What a function for qsort() returns of two numbers, each of which is looked at twice. By one and then by another:
 *     return ORDER(a->pid, b->pid) ?: ORDER(a->tid, b->tid);   */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Defines a function for sort_array() of items of this type: `order` is the order of *a and *b.
 *     DEFINE_ORDER(compare_events, struct event, ORDER(a->time_ns, b->time_ns));   */
#define DEFINE_ORDER(name, type, order)                                                                                        \
	static int name(const void *left, const void *right)                                                                   \
	{                                                                                                                      \
		const type *a = left;                                                                                          \
		const type *b = right;                                                                                         \
		return (order);                                                                                                \
	}                                                                                                                      \
	struct wick_order_needs_a_semicolon

/* The same for sort_array_by() of places in a table, 32 bits each, which is the context: `order` is that of its items there. */
#define DEFINE_ORDER_OF_PLACES(name, type, order)                                                                              \
	static int name(const void *left, const void *right, void *table)                                                      \
	{                                                                                                                      \
		const type *a = (const type *)table + *(const uint32_t *)left;                                                 \
		const type *b = (const type *)table + *(const uint32_t *)right;                                                \
		return (order);                                                                                                \
	}                                                                                                                      \
	struct wick_order_needs_a_semicolon

/*
 * The functions below leave a large array in any order when the thread's work is cancelled or late meanwhile (base/budget.h):
 * from then on all items are equal to them, and what is left of the sorting is fast. The work fails at its next allocation.
 */
#define SORT_LARGE 10000u
void sort_polled(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
void sort_polled_by(void *items, size_t count, size_t size, int (*compare)(const void *, const void *, void *),
		    const void *context);

/* qsort() of an array, which may be NULL when it is empty. */
#define sort_array(items, count, compare) sort_bytes((items), (count), sizeof(*(items)), (compare))
static inline void sort_bytes(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	if (count > SORT_LARGE && budget_current())
		sort_polled(items, count, size, compare);
	else if (count > 1)
		qsort(items, count, size, compare);
}

/* Sorts, and leaves one of items that are equal in this order. Returns how many remain. */
#define sort_array_once(items, count, compare) sort_bytes_once((items), (count), sizeof(*(items)), (compare))
static inline size_t sort_bytes_once(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	char *bytes = items;
	size_t kept = 0;
	sort_bytes(items, count, size, compare);
	for (size_t i = 0; i < count; i++) {
		if (kept && compare(bytes + (kept - 1) * size, bytes + i * size) == 0)
			continue;
		if (kept != i)
			memcpy(bytes + kept * size, bytes + i * size, size);
		kept++;
	}
	return kept;
}

/* sort_array() with qsort_r(): `compare` gets the context as its third argument, and does not change it. */
#define sort_array_by(items, count, compare, context) sort_bytes_by((items), (count), sizeof(*(items)), (compare), (context))
static inline void sort_bytes_by(void *items, size_t count, size_t size, int (*compare)(const void *, const void *, void *),
				 const void *context)
{
	if (count > SORT_LARGE && budget_current())
		sort_polled_by(items, count, size, compare, context);
	else if (count > 1)
		qsort_r(items, count, size, compare, (void *)(uintptr_t)context);
}

#endif
