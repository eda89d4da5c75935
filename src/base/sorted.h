/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that ascend by a number, or a name. */
#ifndef WICK_BASE_SORTED_H
#define WICK_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* The item of that name among `count` items that are sorted by their first member, a string; NULL if there is none. */
#define sorted_find_name(items, count, name) ((__typeof__(&*(items)))sorted_find((items), (count), sizeof(*(items)), (name)))

static inline int sorted_compare_name(const void *name, const void *item)
{
	return strcmp(name, *(const char *const *)item);
}
static inline void *sorted_find(const void *items, size_t count, size_t size, const char *name)
{
	return count ? bsearch(name, items, count, size, sorted_compare_name) : NULL;
}

#endif
