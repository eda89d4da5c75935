/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc() and its kin, of this program and all its libraries, on their way to the allocator: the C library's, or one that is
 * preloaded (LD_PRELOAD). They are counted for heap_sampler.h, and are otherwise what they were: pointers are the allocator's
 * own, so that malloc_usable_size(), mallopt() and the like go on to work.
 *
 * **How.** The program defines these functions. The dynamic linker finds what a program defines before what libraries do, and
 * both glibc and musl call their own malloc() in a way that respects that ("Replacing malloc" in glibc's manual). The next
 * definition after the program's own is the preloaded allocator's, or the library's: dlsym(RTLD_NEXT).
 *
 * A static program has no next definition: there the linker redirects the calls, with -DWICK_STATIC and
 * -Wl,--wrap=malloc,--wrap=... of each function below, which then is __wrap_malloc(), and calls __real_malloc().
 *
 * Rejected: --wrap in a dynamic program, which only sees what our own objects call: neither what libraries allocate, nor that
 * they free what is ours; base/alloc.c alone, for the same reason; glibc's __libc_malloc(), which would leave a preloaded
 * allocator unasked; a preloaded library of ours, which somebody would have to preload.
 *
 * With AddressSanitizer, which replaces the allocator by its own in the same way, there are no such functions.
 *
 * What is not seen: mmap(), the stacks of threads, memory of the kernel; valloc() and pvalloc(), which nobody calls.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "control/heap_sampler.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_OTHER_ALLOCATOR 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(WICK_FUZZING)
#define HAS_OTHER_ALLOCATOR 1
#endif

#ifdef HAS_OTHER_ALLOCATOR

bool heap_sampler_is_built_in(void)
{
	return false;
}

#else

#ifdef WICK_STATIC
#define HOOK(name) __asm__("__wrap_" name)
#else
#define HOOK(name) __asm__(name)
#endif
#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* By other names, since the compiler believes to know what functions of these do. */
void *hook_malloc(size_t size) HOOK("malloc");
void *hook_calloc(size_t count, size_t size) HOOK("calloc");
void *hook_realloc(void *old, size_t size) HOOK("realloc");
void *hook_memalign(size_t alignment, size_t size) HOOK("memalign");
void *hook_aligned_alloc(size_t alignment, size_t size) HOOK("aligned_alloc");
int hook_posix_memalign(void **ret, size_t alignment, size_t size) HOOK("posix_memalign");
void hook_free(void *ptr) HOOK("free");

bool heap_sampler_is_built_in(void)
{
	return true;
}

/* ---- the allocator ---- */

struct allocator {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *old, size_t size);
	void *(*memalign)(size_t alignment, size_t size);
	void *(*aligned_alloc)(size_t alignment, size_t size);
	int (*posix_memalign)(void **ret, size_t alignment, size_t size);
	void (*free)(void *ptr);
};

#ifdef WICK_STATIC

void *real_malloc(size_t size) __asm__("__real_malloc");
void *real_calloc(size_t count, size_t size) __asm__("__real_calloc");
void *real_realloc(void *old, size_t size) __asm__("__real_realloc");
void *real_memalign(size_t alignment, size_t size) __asm__("__real_memalign");
void *real_aligned_alloc(size_t alignment, size_t size) __asm__("__real_aligned_alloc");
int real_posix_memalign(void **ret, size_t alignment, size_t size) __asm__("__real_posix_memalign");
void real_free(void *ptr) __asm__("__real_free");

static const struct allocator next = {real_malloc,	  real_calloc,	       real_realloc, real_memalign,
				      real_aligned_alloc, real_posix_memalign, real_free};

static size_t early_left(const void *ptr)
{
	return 0;
}

#else

static struct allocator next;

/* What dlsym() itself allocates, while it looks for the allocator: glibc does for messages of errors only. It is never freed.
 * The filter knows it, so that only what it knows is compared with these addresses. */
static char early[1024] __attribute__((aligned(16)));
static size_t early_used;

/* Bytes from there to the end of it; 0 = it lies elsewhere. */
static size_t early_left(const void *ptr)
{
	size_t at = (uintptr_t)ptr - (uintptr_t)early;
	return at < sizeof(early) ? sizeof(early) - at : 0;
}

static void *allocate_early(size_t size)
{
	size_t taken = (size + 15) & ~(size_t)15;
	if (size > sizeof(early) || sizeof(early) - early_used < taken) {
		errno = ENOMEM;
		return NULL;
	}
	char *ptr = early + early_used;
	early_used += taken;
	atomic_fetch_add(&heap_filter[heap_filter_index(ptr)], 1);
	return ptr;
}

/* Before a program's first thread begins it has allocated: the C library itself does. False = this is within dlsym(). */
static bool find_next(void)
{
	static bool is_looking;
	if (is_looking)
		return false;
	is_looking = true;
	struct allocator found = {0};
	*(void **)(void *)&found.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)(void *)&found.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)(void *)&found.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)(void *)&found.memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)(void *)&found.aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	*(void **)(void *)&found.posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	*(void **)(void *)&found.free = dlsym(RTLD_NEXT, "free");
	if (!found.malloc || !found.calloc || !found.realloc || !found.memalign || !found.aligned_alloc ||
	    !found.posix_memalign || !found.free)
		__builtin_trap(); /* no program can run without them */
	next = found;
	is_looking = false;
	return true;
}

static void *first_malloc(size_t size)
{
	return find_next() ? next.malloc(size) : allocate_early(size);
}

static void *first_calloc(size_t count, size_t size)
{
	size_t total;
	if (find_next())
		return next.calloc(count, size);
	return __builtin_mul_overflow(count, size, &total) ? NULL : allocate_early(total);
}

static void *first_realloc(void *old, size_t size)
{
	return find_next() ? next.realloc(old, size) : old ? NULL : allocate_early(size);
}

static void *first_memalign(size_t alignment, size_t size)
{
	return find_next() ? next.memalign(alignment, size) : NULL;
}

static void *first_aligned_alloc(size_t alignment, size_t size)
{
	return find_next() ? next.aligned_alloc(alignment, size) : NULL;
}

static int first_posix_memalign(void **ret, size_t alignment, size_t size)
{
	return find_next() ? next.posix_memalign(ret, alignment, size) : ENOMEM;
}

static void first_free(void *ptr)
{
	if (ptr && find_next())
		next.free(ptr);
}

static struct allocator next = {first_malloc,	     first_calloc,	   first_realloc, first_memalign,
				first_aligned_alloc, first_posix_memalign, first_free};

#endif

/* ---- hooks ---- */

/* Musl makes calloc() of malloc(), and others that may be preloaded all but malloc() of each other. These come by here again:
 * what they allocate meanwhile is not counted once more. */

void *hook_malloc(size_t size)
{
	if (__builtin_expect(!heap_sampler_is_due(size), 1))
		return next.malloc(size);
	void *ptr = next.malloc(size);
	heap_sampler_allocated(ptr, size, CALLER);
	return ptr;
}

void *hook_calloc(size_t count, size_t size)
{
	size_t total;
	if (__builtin_mul_overflow(count, size, &total))
		return next.calloc(count, size);
	bool is_due = heap_sampler_is_due(total);
	uint64_t distance = heap_sampler_suspend();
	void *ptr = next.calloc(count, size);
	heap_sampler_resume(distance);
	if (__builtin_expect(is_due, 0))
		heap_sampler_allocated(ptr, total, CALLER);
	return ptr;
}

/* Of what dlsym() has: the copy may take more than there was, never more than there is. */
static void *reallocate_early(const void *old, size_t size)
{
	size_t left = early_left(old);
	void *ptr = next.malloc(size);
	if (ptr)
		memcpy(ptr, old, left < size ? left : size);
	return ptr;
}

/* As an allocation and a free, as which Go counts the growth of its slices, whether it moves or not. */
void *hook_realloc(void *old, size_t size)
{
	struct heap_hold *hold = NULL;
	if (__builtin_expect(heap_sampler_may_know(old), 0)) {
		if (early_left(old) > 0)
			return reallocate_early(old, size);
		hold = heap_sampler_hold(old);
	}
	bool is_due = heap_sampler_is_due(size);
	uint64_t distance = heap_sampler_suspend();
	void *ptr = next.realloc(old, size);
	heap_sampler_resume(distance);
	if (hold)
		heap_sampler_release(hold, ptr || size == 0);
	if (is_due)
		heap_sampler_allocated(ptr, size, CALLER);
	return ptr;
}

void *hook_memalign(size_t alignment, size_t size)
{
	bool is_due = heap_sampler_is_due(size);
	uint64_t distance = heap_sampler_suspend();
	void *ptr = next.memalign(alignment, size);
	heap_sampler_resume(distance);
	if (is_due)
		heap_sampler_allocated(ptr, size, CALLER);
	return ptr;
}

void *hook_aligned_alloc(size_t alignment, size_t size)
{
	bool is_due = heap_sampler_is_due(size);
	uint64_t distance = heap_sampler_suspend();
	void *ptr = next.aligned_alloc(alignment, size);
	heap_sampler_resume(distance);
	if (is_due)
		heap_sampler_allocated(ptr, size, CALLER);
	return ptr;
}

int hook_posix_memalign(void **ret, size_t alignment, size_t size)
{
	bool is_due = heap_sampler_is_due(size);
	uint64_t distance = heap_sampler_suspend();
	int r = next.posix_memalign(ret, alignment, size);
	heap_sampler_resume(distance);
	if (is_due)
		heap_sampler_allocated(r == 0 ? *ret : NULL, size, CALLER);
	return r;
}

void hook_free(void *ptr)
{
	if (__builtin_expect(heap_sampler_may_know(ptr), 0)) {
		if (early_left(ptr) > 0)
			return;
		heap_sampler_freed(ptr);
	}
	next.free(ptr);
}

#endif
