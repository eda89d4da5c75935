/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a merge, by (stack's content hash, group): where the sources of a merge meet. Remembers one source that has
 * each stack, so that only distinct stacks are made into frames. */
#ifndef WICK_STORE_STACK_SET_H
#define WICK_STORE_STACK_SET_H

#include "base/error.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/sum.h"

struct stack_entry {
	struct hash128 hash;
	int64_t value; /* a sum (base/sum.h), or the bits of a double */
	uint32_t group;
	uint32_t source, stack; /* of the sources that have it, the one with the lowest number */
};
struct stack_set {
	struct stack_entry *entries;
	size_t count, capacity;
	struct index32 index;
	bool doubles; /* values are doubles, in the bits of integers */
};
/* Adds values of one kind. */
static inline int64_t stack_value_add(bool doubles, int64_t a, int64_t b)
{
	double x, y;
	if (!doubles)
		return sum_add(a, b);
	__builtin_memcpy(&x, &a, sizeof(x));
	__builtin_memcpy(&y, &b, sizeof(y));
	x += y;
	__builtin_memcpy(&a, &x, sizeof(a));
	return a;
}
void stack_set_release(struct stack_set *set);
/* What one source gives: stacks, groups (NULL = all 0) and values, count of each; hash of stacks[i] is hashes[stacks[i]], or
 * hashes[i] where they are `listed`.
 * -E2BIG when there would be more than `max` entries: the set holds a part of them then. */
struct stack_sums {
	const uint32_t *stacks, *groups;
	const int64_t *values;
	size_t count;
	bool listed;
};
int stack_set_add(struct stack_set *set, uint32_t source, const struct stack_sums *sums, const struct hash128 *hashes,
		  size_t max, struct error *err);

#endif
