/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap memory. Every allocation of the product goes through here so that fault injection (base/fault.h) can fail the n-th one,
 * and so that the total can be shown in /metrics. Functions return NULL when memory is short or when a size would overflow;
 * callers turn that into -ENOMEM.
 */
#ifndef WICK_BASE_ALLOC_H
#define WICK_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);			  /* uninitialised; size 0 gives a unique pointer */
void *mem_zalloc(size_t size);			  /* zeroed */
void *mem_alloc_array(size_t count, size_t size); /* checks count * size */
void *mem_zalloc_array(size_t count, size_t size);
void *mem_realloc_array(void *old, size_t count, size_t size); /* old stays valid on failure */
char *mem_strdup(const char *text);
char *mem_strndup(const char *text, size_t len); /* stops at a NUL */
void *mem_free(void *ptr);			 /* NULL allowed; returns NULL, so that "x = mem_free(x)" clears */

/* Makes room for `need` elements in a growable array: doubles the capacity, never beyond `max`.
 * Returns 0, -ENOMEM, or -E2BIG when need > max. *array and *capacity are untouched on failure. */
int array_reserve_bytes(void **array, size_t *capacity, size_t need, size_t element_size, size_t max);
#define array_reserve(array, capacity, need, max)                                                                              \
	array_reserve_bytes((void **)(array), (capacity), (need), sizeof(**(array)), (max))

/* Appends an item, which is evaluated only when there is room for it. Returns as array_reserve(), which is not called while
 * there is: `max` is the same each time. */
#define array_push(array, count, capacity, max, ...)                                                                           \
	({                                                                                                                     \
		int push_result = *(count) < *(capacity) ? 0 : array_reserve((array), (capacity), *(count) + 1, (max));        \
		if (push_result == 0)                                                                                          \
			(*(array))[(*(count))++] = (__VA_ARGS__);                                                              \
		push_result;                                                                                                   \
	})

/* Gives the kernel back the pages that lie wholly within a range of a large array, which is consumed in one direction: the
 * contents are lost, the array is still to be freed. */
void mem_give_back(void *array, size_t begin_bytes, size_t end_bytes);

/* Resident set of this process in bytes, from /proc/self/statm; 0 if that cannot be read. */
uint64_t mem_resident_bytes(void);
/* The most that it has been; never less than `now`, which the kernel counts more exactly than this. */
uint64_t mem_resident_peak_bytes(uint64_t now);

/* For processes that answer queries: large blocks go back to the kernel when they are freed, instead of staying for the next
 * use, and threads share heaps. The memory of a large query would otherwise stay with the process for ever. */
void mem_return_large(void);
/* After much was freed, by a thread that can spare some milliseconds: the heaps' free pages go back to the kernel as well.
 * Small blocks that stay lie between them, so that they would be kept otherwise. Nothing without mem_return_large(), or while
 * another thread is at it. */
void mem_trim(void);

#endif
