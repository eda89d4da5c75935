/* SPDX-License-Identifier: Apache-2.0 */
/* Searching arrays that are in order: by a number, a name, or any condition. */
#ifndef WICK_BASE_SORTED_H
#define WICK_BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of `count` items of which those come first that the condition holds of, how many those are; `at` is its name for the place of
 * an item:
 *     sorted_count_while(count, i, items[i].time_ns < time_ns)   */
#define sorted_count_while(count, at, condition)                                                                               \
	({                                                                                                                     \
		size_t sorted_low = 0, sorted_high = (count);                                                                  \
		while (sorted_low < sorted_high) {                                                                             \
			size_t at = sorted_low + (sorted_high - sorted_low) / 2;                                               \
			if (condition)                                                                                         \
				sorted_low = at + 1;                                                                           \
			else                                                                                                   \
				sorted_high = at;                                                                              \
		}                                                                                                              \
		sorted_low;                                                                                                    \
	})

/* How many of `count` items have a uint64_t `member` of `most` at most. */
#define sorted_count_up_to(items, count, member, most)                                                                         \
	sorted_count((items), (count), sizeof(*(items)),                                                                       \
		     _Generic((items)->member, uint64_t                                                                        \
			      : offsetof(__typeof__(*(items)), member)),                                                       \
		     (most))

static inline size_t sorted_count(const void *items, size_t count, size_t stride, size_t offset, uint64_t most)
{
	return sorted_count_while(count, i, *(const uint64_t *)((const char *)items + i * stride + offset) <= most);
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
