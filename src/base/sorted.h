/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that ascend by a number. */
#ifndef WICK_BASE_SORTED_H
#define WICK_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>

/* How many of `count` items have a uint64_t `member` of `most` at most. */
#define sorted_count_up_to(items, count, member, most)                                                                         \
	sorted_count((items), (count), sizeof(*(items)),                                                                       \
		     _Generic((items)->member, uint64_t                                                                        \
			      : offsetof(__typeof__(*(items)), member)),                                                       \
		     (most))

static inline size_t sorted_count(const void *items, size_t count, size_t stride, size_t offset, uint64_t most)
{
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const void *key = (const char *)items + middle * stride + offset;
		if (*(const uint64_t *)key <= most)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

#endif
