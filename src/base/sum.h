/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of values of samples.
 *
 * Values are 64-bit integers of anybody's making, and their sums need not fit. Wrapped around, a sum is a number like any
 * other, small or negative, that nobody can tell from a right one. So sums stop at the limits, INT64_MAX and INT64_MIN, and
 * stay there: a limit is not a number but says that the sum is out of reach, whatever is added to it afterwards, in memory, in
 * rollups and in blocks that were made of them. Where there are no negative values, the result does not depend on the order of
 * what is added. What answers with sums says when they may have been at a limit (struct sum_guard).
 *
 * Rejected: a flag beside each sum, which would have to be stored in every format and column that sums are in; 128 bits, for
 * the same reason; and refusing values above some bound, since each of them alone is right.
 */
#ifndef WICK_BASE_SUM_H
#define WICK_BASE_SUM_H

#include <stdbool.h>
#include <stdint.h>

/* What answers say then. */
#define SUM_WARNING "sums of values do not fit into 64 bits: those at a limit are larger than shown"

/* Whether it is at a limit: a sum that did not fit, or, rarely, one that just did. */
static inline bool sum_is_full(int64_t sum)
{
	return (uint64_t)sum - (uint64_t)INT64_MAX <= 1;
}

/* Where one of them is large. */
static inline int64_t sum_add_large(int64_t a, int64_t b)
{
	int64_t sum;
	if (sum_is_full(a) || sum_is_full(b))
		return sum_is_full(a) ? a : b;
	return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static inline int64_t sum_add(int64_t a, int64_t b)
{
	/* Both from -2^62 to 2^62, which is one comparison: this is what scans of stored samples do for each of them. */
	const uint64_t quarter = 1ull << 62;
	if (__builtin_expect((int64_t)(((uint64_t)a + quarter) | ((uint64_t)b + quarter)) >= 0, 1))
		return a + b;
	return sum_add_large(a, b);
}

static inline void sum_to(int64_t *to, int64_t value)
{
	*to = sum_add(*to, value);
}

/* a - b, as far as it fits: what two sums differ by, or two positions. Of equal ones always 0. */
static inline int64_t sum_difference(int64_t a, int64_t b)
{
	int64_t difference;
	return __builtin_sub_overflow(a, b, &difference) ? (b < 0 ? INT64_MAX : INT64_MIN) : difference;
}

static inline int64_t sum_negate(int64_t value)
{
	return sum_difference(0, value);
}

static inline int64_t sum_product(int64_t a, int64_t b)
{
	int64_t product;
	return __builtin_mul_overflow(a, b, &product) ? ((a < 0) != (b < 0) ? INT64_MIN : INT64_MAX) : product;
}

static inline int64_t sum_of_wide(__int128 value)
{
	return value > INT64_MAX ? INT64_MAX : value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

/* Whether any sum of some of these values can be at a limit: if all that are positive or all that are negative fit together, so
 * does every part of them. Begins as zeros. */
struct sum_guard {
	int64_t positive, negative;
};
static inline void sum_guard_add(struct sum_guard *guard, int64_t value)
{
	sum_to(value > 0 ? &guard->positive : &guard->negative, value);
}
static inline bool sum_guard_is_full(const struct sum_guard *guard)
{
	return sum_is_full(guard->positive) || sum_is_full(guard->negative);
}

#endif
