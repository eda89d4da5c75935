/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD: counts what a program asks the C library for memory, and writes the number to the file WICK_COUNT_TO when it
 * ends. Every call counts, whoever makes it, up to the end of main().
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned long calls;
/* dlsym() itself allocates, before it has found who does. */
static char early[4096];
static size_t early_used;

static void *next(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

#define COUNTED(result, name, parameters, arguments)                                                                           \
	result name parameters                                                                                                 \
	{                                                                                                                      \
		static result(*real) parameters;                                                                               \
		if (!real)                                                                                                     \
			real = (result(*) parameters)next(#name);                                                              \
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);                                                               \
		return real arguments;                                                                                         \
	}

COUNTED(void *, malloc, (size_t size), (size))
COUNTED(void *, realloc, (void *old, size_t size), (old, size))
COUNTED(void *, aligned_alloc, (size_t align, size_t size), (align, size))
COUNTED(int, posix_memalign, (void **ret, size_t align, size_t size), (ret, align, size))
COUNTED(void *, mmap, (void *at, size_t size, int protection, int flags, int fd, off_t offset),
	(at, size, protection, flags, fd, offset))
COUNTED(void *, sbrk, (intptr_t by), (by))

void *calloc(size_t count, size_t size)
{
	static void *(*real)(size_t, size_t);
	static int finding;
	if (!real) {
		if (finding) {
			early_used += count * size;
			return early_used <= sizeof(early) ? early + early_used - count * size : NULL;
		}
		finding = 1;
		real = (void *(*)(size_t, size_t))next("calloc");
	}
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
	return real(count, size);
}

__attribute__((destructor)) static void print_counts(void)
{
	unsigned long counted = __atomic_load_n(&calls, __ATOMIC_RELAXED);
	const char *path = getenv("WICK_COUNT_TO");
	FILE *file = path ? fopen(path, "w") : NULL;
	if (!file)
		return;
	fprintf(file, "%lu\n", counted);
	fclose(file);
}
