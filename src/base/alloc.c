// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/cleanup.h"
#include "base/fault.h"

/* No single allocation is meant to be this large. The limit is below that of AddressSanitizer, which ends the process instead
 * of returning NULL. */
#define SIZE_LIMIT (1ull << 39)

/* malloc(0) may be NULL, which callers would take for a failure. */
static size_t at_least_one(size_t size)
{
	return size ? size : 1;
}

static bool must_fail(size_t size)
{
	return size > SIZE_LIMIT || fault_reached(FAULT_ALLOC);
}

/* What the allocator gave differs a little from what was asked for. */
static void *charge_rest(struct budget *budget, void *ptr, size_t charged)
{
	size_t usable = ptr ? malloc_usable_size(ptr) : 0;
	if (usable > charged)
		budget_add(budget, usable - charged);
	else
		budget_credit(budget, charged - usable);
	return ptr;
}

void *mem_alloc(size_t size)
{
	struct budget *budget = budget_current();
	if (must_fail(size) || (budget && !budget_charge(budget, size)))
		return NULL;
	void *ptr = malloc(at_least_one(size));
	return budget ? charge_rest(budget, ptr, size) : ptr;
}

void *mem_zalloc(size_t size)
{
	struct budget *budget = budget_current();
	if (must_fail(size) || (budget && !budget_charge(budget, size)))
		return NULL;
	void *ptr = calloc(1, at_least_one(size));
	return budget ? charge_rest(budget, ptr, size) : ptr;
}

void *mem_alloc_array(size_t count, size_t size)
{
	size_t total;
	return __builtin_mul_overflow(count, size, &total) ? NULL : mem_alloc(total);
}

void *mem_zalloc_array(size_t count, size_t size)
{
	size_t total;
	return __builtin_mul_overflow(count, size, &total) ? NULL : mem_zalloc(total);
}

/* A large block moves by its pages, and is there once: it is the difference that counts. */
static void *realloc_charged(struct budget *budget, void *old, size_t size)
{
	size_t before = old ? malloc_usable_size(old) : 0, more = size > before ? size - before : 0;
	if (!budget_charge(budget, more))
		return NULL;
	void *ptr = realloc(old, at_least_one(size));
	size_t after = ptr ? malloc_usable_size(ptr) : before;
	if (after > before + more)
		budget_add(budget, after - before - more);
	else
		budget_credit(budget, before + more - after);
	return ptr;
}

void *mem_realloc_array(void *old, size_t count, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(count, size, &total) || must_fail(total))
		return NULL;
	struct budget *budget = budget_current();
	return budget ? realloc_charged(budget, old, total) : realloc(old, at_least_one(total));
}

static char *copy_text(const char *text, size_t len)
{
	char *copy = mem_alloc(len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *mem_strdup(const char *text)
{
	return copy_text(text, strlen(text));
}

char *mem_strndup(const char *text, size_t len)
{
	return copy_text(text, strnlen(text, len));
}

void *mem_free(void *ptr)
{
	struct budget *budget = budget_current();
	if (budget && ptr)
		budget_credit(budget, malloc_usable_size(ptr));
	free(ptr);
	return NULL;
}

#define ARRAY_CAPACITY_FIRST 8
#define ARRAY_LARGE	     (8u * 1024 * 1024) /* bytes; from here on it grows by half, since what is not used yet counts, too */

int array_reserve_bytes(void **array, size_t *capacity, size_t need, size_t element_size, size_t max)
{
	if (need > max)
		return -E2BIG;
	if (need <= *capacity)
		return 0;
	size_t more = *capacity > ARRAY_LARGE / element_size ? *capacity / 2 : *capacity;
	size_t grown = *capacity > SIZE_MAX - more ? SIZE_MAX : *capacity + more;
	if (grown < ARRAY_CAPACITY_FIRST)
		grown = ARRAY_CAPACITY_FIRST;
	if (grown < need)
		grown = need;
	if (grown > max)
		grown = max;
	void *moved = mem_realloc_array(*array, grown, element_size);
	if (!moved)
		return -ENOMEM;
	*array = moved;
	*capacity = grown;
	return 0;
}

/* "" if it cannot be read. */
static void read_own(const char *path, char *text, size_t size)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? 0 : read(fd, text, size - 1);
	text[len > 0 ? len : 0] = '\0';
}

uint64_t mem_resident_bytes(void)
{
	char text[128];
	unsigned long long total, resident;
	read_own("/proc/self/statm", text, sizeof(text));
	if (sscanf(text, "%llu %llu", &total, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void mem_give_back(void *array, size_t begin_bytes, size_t end_bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t begin = ((uintptr_t)array + begin_bytes + page - 1) & ~(page - 1),
		  end = ((uintptr_t)array + end_bytes) & ~(page - 1);
	if (end > begin)
		madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* Not ru_maxrss: that is also of what the process was before exec. */
uint64_t mem_resident_peak_bytes(uint64_t now)
{
	char text[4096];
	unsigned long long peak = 0;
	read_own("/proc/self/status", text, sizeof(text));
	const char *line = strstr(text, "\nVmHWM:");
	if (!line || sscanf(line + strlen("\nVmHWM:"), "%llu", &peak) != 1)
		return now;
	return peak * 1024 > now ? peak * 1024 : now;
}

static bool returns_memory;

void mem_return_large(void)
{
	returns_memory = true;
	mallopt(M_MMAP_THRESHOLD, 1024 * 1024);
	mallopt(M_TRIM_THRESHOLD, 16 * 1024 * 1024);
	mallopt(M_ARENA_MAX, 2);
}

void mem_trim(void)
{
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	if (!returns_memory || atomic_flag_test_and_set(&busy))
		return;
	malloc_trim(0);
	atomic_flag_clear(&busy);
}
