/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "control/heap_sampler.h"

/* Small, so that few allocations are many samples. */
#define RATE 256u

static int set_up(void **state)
{
	void *volatile ptr;
	heap_sampler_start(RATE);
	/* This thread sees it now. */
	ptr = malloc(HEAP_IDLE_BYTES);
	free(ptr);
	return 0;
}

static void require_sampler(void)
{
	if (!heap_sampler_is_built_in())
		skip();
}

/* ---- what was sampled below a call ---- */

/* Sums of the stacks with this return address; NULL = of all. */
static struct heap_sums sums_below(const void *caller)
{
	struct heap_sums sums = {0};
	struct heap_stack stack;
	for (uint32_t i = 0; i < HEAP_STACKS; i++) {
		bool is_below = !caller;
		if (!heap_sampler_read(i, &stack))
			continue;
		for (uint32_t j = 0; j < stack.depth; j++)
			is_below |= stack.frames[j] == (uintptr_t)caller;
		if (!is_below)
			continue;
		sums.allocated_objects += stack.sums.allocated_objects;
		sums.allocated_bytes += stack.sums.allocated_bytes;
		sums.freed_objects += stack.sums.freed_objects;
		sums.freed_bytes += stack.sums.freed_bytes;
	}
	return sums;
}

/* Each is sampled with the probability p, and stands for 1 / p: the variance of the estimate of n is n (1 - p) / p. */
static void assert_estimate(double estimate, double count, double size)
{
	double p = -expm1(-size / RATE), error = sqrt(count * (1 - p) / p);
	if (fabs(estimate - count) > 5 * error + count * 0.001 + 1)
		fail_msg("%.0f of %.0f bytes are estimated as %.0f, standard error %.0f", count, size, estimate, error);
}

/* ---- allocators ---- */

typedef void *allocate_function(size_t size);

static void *by_calloc(size_t size)
{
	return calloc(size, 1);
}
static void *by_realloc(size_t size)
{
	return realloc(NULL, size);
}
static void *by_memalign(size_t size)
{
	return memalign(64, size);
}
static void *by_aligned_alloc(size_t size)
{
	return aligned_alloc(64, size);
}
static void *by_posix_memalign(size_t size)
{
	void *ptr = NULL;
	assert_int_equal(posix_memalign(&ptr, 64, size), 0);
	assert_int_equal((uintptr_t)ptr % 64, 0);
	return ptr;
}
/* Within the C library. */
static void *by_library(size_t size)
{
	char text[4096];
	memset(text, 'x', size - 1);
	text[size - 1] = '\0';
	return strdup(text);
}

/* Returns where it was called from, which is in every stack of these allocations. */
__attribute__((noinline)) static const void *allocate_many(allocate_function *allocate, size_t size, size_t count, void **ret)
{
	for (size_t i = 0; i < count; i++) {
		ret[i] = allocate(size);
		assert_non_null(ret[i]);
	}
	return __builtin_return_address(0);
}

#define COUNT 20000u
static void *many[COUNT];

static void test_estimates(void **state)
{
	static const struct {
		allocate_function *allocate;
		size_t size;
	} cases[] = {{malloc, 1},      {malloc, 16},	  {malloc, 100},      {malloc, 1000},	      {malloc, 4000},
		     {by_calloc, 200}, {by_realloc, 200}, {by_memalign, 200}, {by_aligned_alloc, 64}, {by_posix_memalign, 200},
		     {by_library, 200}};
	require_sampler();
	struct heap_sums before = {0};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size = cases[i].size, count = size > 100 ? COUNT / 4 : COUNT;
		const void *caller = allocate_many(cases[i].allocate, size, count, many);
		struct heap_sums all = sums_below(caller);
		double objects = (double)(all.allocated_objects - before.allocated_objects);
		assert_estimate(objects, (double)count, (double)size);
		assert_estimate((double)(all.allocated_bytes - before.allocated_bytes) / (double)size, (double)count,
				(double)size);
		assert_int_equal(all.freed_bytes, before.freed_bytes);
		/* A half. */
		for (size_t j = 0; j < count / 2; j++)
			free(many[j]);
		struct heap_sums half = sums_below(caller);
		assert_int_equal(half.allocated_bytes, all.allocated_bytes);
		assert_estimate((double)(half.allocated_objects - half.freed_objects), (double)(count / 2), (double)size);
		for (size_t j = count / 2; j < count; j++)
			free(many[j]);
		struct heap_sums none = sums_below(caller);
		assert_int_equal(none.freed_bytes, none.allocated_bytes);
		assert_int_equal(none.freed_objects, none.allocated_objects);
		before = none;
	}
	assert_int_equal(heap_sampler_losses().live, 0);
}

/* ---- what is neither an allocation nor a free ---- */

__attribute__((noinline)) static const void *reallocate_many(size_t from, size_t to, size_t count, bool must_fail)
{
	for (size_t i = 0; i < count; i++) {
		void *volatile grown = realloc(many[i], to);
		assert_true(must_fail == !grown);
		if (grown) {
			memset(grown, 1, to < from ? to : from);
			many[i] = grown;
		}
	}
	return __builtin_return_address(0);
}

static void test_growth(void **state)
{
	require_sampler();
	size_t count = COUNT / 4;
	const void *first = allocate_many(malloc, 500, count, many);
	struct heap_sums before = sums_below(first);
	/* What fails changes nothing. */
	const void *failed = reallocate_many(500, SIZE_MAX / 4, count, true);
	struct heap_sums after = sums_below(first);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(sums_below(failed).allocated_objects, 0);
	/* What grows is somebody else's, in place or not. */
	const void *grown = reallocate_many(500, 600, count, false);
	after = sums_below(first);
	assert_int_equal(after.allocated_bytes, after.freed_bytes);
	assert_estimate((double)sums_below(grown).allocated_objects, (double)count, 600);
	assert_int_equal(sums_below(grown).freed_objects, 0);
	/* As does what shrinks. */
	const void *shrunk = reallocate_many(600, 300, count, false);
	assert_int_equal(sums_below(grown).allocated_bytes, sums_below(grown).freed_bytes);
	assert_estimate((double)sums_below(shrunk).allocated_objects, (double)count, 300);
	for (size_t i = 0; i < count; i++)
		assert_null(realloc(many[i], 0)); /* glibc's free */
	assert_int_equal(sums_below(shrunk).allocated_bytes, sums_below(shrunk).freed_bytes);
}

static void test_failures(void **state)
{
	void *volatile ptr;
	void *aligned = &aligned;
	volatile size_t much = SIZE_MAX / 2 + 100, overflows = SIZE_MAX / 2;
	require_sampler();
	struct heap_sums before = sums_below(NULL);
	for (int i = 0; i < 100; i++) {
		errno = 0;
		ptr = malloc(much);
		assert_null(ptr);
		assert_int_equal(errno, ENOMEM);
		ptr = calloc(overflows, 4);
		assert_null(ptr);
		assert_int_equal(posix_memalign(&aligned, 64, much), ENOMEM);
		assert_ptr_equal(aligned, &aligned);
		free(NULL);
	}
	struct heap_sums after = sums_below(NULL);
	assert_true(after.allocated_bytes - before.allocated_bytes < 1024 * 1024);
	/* And it goes on. */
	const void *caller = allocate_many(malloc, 1000, 1000, many);
	assert_estimate((double)sums_below(caller).allocated_objects, 1000, 1000);
	for (size_t i = 0; i < 1000; i++)
		free(many[i]);
}

/* It lies nowhere, though free slots of the tables are zero. */
static void test_null(void **state)
{
	require_sampler();
	const void *caller = allocate_many(malloc, 1000, 1000, many);
	struct heap_sums before = sums_below(caller);
	assert_null(heap_sampler_hold(NULL));
	for (int i = 0; i < 1000; i++) {
		heap_sampler_freed(NULL);
		free(NULL);
	}
	struct heap_sums after = sums_below(caller);
	assert_memory_equal(&before, &after, sizeof(before));
	for (size_t i = 0; i < 1000; i++)
		free(many[i]);
	after = sums_below(caller);
	assert_int_equal(after.allocated_bytes, after.freed_bytes);
}

/* The size that the allocator knows, and zeros, are the allocator's. */
static void test_allocator_stays(void **state)
{
	require_sampler();
	for (size_t size = 1; size < 100000; size = size * 3 + 1) {
		uint8_t *volatile zeros = calloc(1, size);
		assert_true(malloc_usable_size(zeros) >= size);
		for (size_t i = 0; i < size; i++)
			assert_int_equal(zeros[i], 0);
		memset(zeros, 0xff, malloc_usable_size(zeros));
		free(zeros);
	}
}

/* ---- threads ---- */

#define THREADS 4u
#define SHARED	512u
#define ROUNDS	40000u

static void *_Atomic shared[SHARED];

/* Threads take what others have put there, free it or let it grow, and put something else there: what one allocates is mostly
 * freed by another one, and addresses are used again at once. */
__attribute__((noinline)) static void exchange(uint32_t *random)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		*random = *random * 1664525 + 1013904223;
		_Atomic(void *) *place = &shared[(*random >> 8) % SHARED];
		size_t size = 16 + (*random >> 20);
		void *taken = atomic_exchange(place, NULL);
		if (*random >> 30) {
			free(taken);
			taken = malloc(size);
		} else {
			taken = realloc(taken, size);
		}
		assert_non_null(taken);
		memset(taken, 1, 16);
		free(atomic_exchange(place, taken));
	}
}

static void *exchange_in_thread(void *context)
{
	exchange(context);
	return __builtin_return_address(0);
}

static void test_threads(void **state)
{
	require_sampler();
	struct heap_sums before = sums_below(NULL);
	struct heap_losses losses = heap_sampler_losses();
	for (int turn = 0; turn < 3; turn++) {
		pthread_t threads[THREADS];
		uint32_t seeds[THREADS];
		for (uint32_t i = 0; i < THREADS; i++) {
			seeds[i] = turn * 100 + i;
			assert_int_equal(thread_start(&threads[i], "exchange", exchange_in_thread, &seeds[i], NULL), 0);
		}
		for (uint32_t i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	for (uint32_t i = 0; i < SHARED; i++)
		free(atomic_exchange(&shared[i], NULL));
	/* Nothing but what pthreads keep of the threads' stacks and names is left. */
	struct heap_sums after = sums_below(NULL);
	int64_t left =
		(int64_t)(after.allocated_bytes - after.freed_bytes) - (int64_t)(before.allocated_bytes - before.freed_bytes);
	assert_in_range(left + 64 * 1024, 0, 128 * 1024);
	assert_true(after.allocated_objects - before.allocated_objects > THREADS * ROUNDS);
	assert_int_equal(heap_sampler_losses().live, losses.live);
	assert_int_equal(heap_sampler_losses().stacks, losses.stacks);
}

/* Threads that come and go have a distance of their own each. */
static void *_Atomic short_caller;
static void *allocate_briefly(void *context)
{
	void *kept[10];
	atomic_store(&short_caller, (void *)(uintptr_t)allocate_many(malloc, 50, 10, kept));
	for (int i = 0; i < 10; i++)
		free(kept[i]);
	return context;
}

static void test_short_threads(void **state)
{
	require_sampler();
	const unsigned count = 1000;
	for (unsigned i = 0; i < count; i++) {
		pthread_t thread;
		assert_int_equal(thread_start(&thread, "short", allocate_briefly, NULL, NULL), 0);
		pthread_join(thread, NULL);
	}
	struct heap_sums sums = sums_below(atomic_load(&short_caller));
	assert_estimate((double)sums.allocated_objects, count * 10, 50);
	assert_int_equal(sums.allocated_bytes, sums.freed_bytes);
}

/* ---- processes ---- */

/* What asserts ends the child with a status of cmocka's. */
static void run_in_child(void (*run)(void))
{
	int status;
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the child ended with status %#x", (unsigned)status);
}

#define REQUIRE(condition)                                                                                                     \
	do {                                                                                                                   \
		if (!(condition)) {                                                                                            \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                        \
			_exit(1);                                                                                              \
		}                                                                                                              \
	} while (0)

static const void *kept_caller;

static void continue_in_child(void)
{
	struct heap_sums sums = sums_below(kept_caller);
	REQUIRE(sums.allocated_bytes > sums.freed_bytes);
	for (size_t i = 0; i < 1000; i++)
		free(many[i]);
	sums = sums_below(kept_caller);
	REQUIRE(sums.freed_bytes == sums.allocated_bytes);
}

static atomic_bool ends;
static void *exchange_until_end(void *context)
{
	while (!atomic_load(&ends))
		exchange(context);
	return NULL;
}

/* While other threads are anywhere within the sampler. */
static void test_fork(void **state)
{
	pthread_t thread;
	uint32_t random = 1;
	require_sampler();
	atomic_store(&ends, false);
	assert_int_equal(thread_start(&thread, "exchange", exchange_until_end, &random, NULL), 0);
	for (int turn = 0; turn < 20; turn++) {
		kept_caller = allocate_many(malloc, 1000, 1000, many);
		run_in_child(continue_in_child);
		for (size_t i = 0; i < 1000; i++)
			free(many[i]);
		struct heap_sums sums = sums_below(kept_caller);
		assert_int_equal(sums.freed_bytes, sums.allocated_bytes);
	}
	atomic_store(&ends, true);
	pthread_join(thread, NULL);
	for (uint32_t i = 0; i < SHARED; i++)
		free(atomic_exchange(&shared[i], NULL));
}

/* ---- bounds ---- */

/* All but certain to be sampled, each. */
#define CERTAIN 4000u

static void exceed_live(void)
{
	static void *kept[HEAP_LIVE * 2];
	const size_t count = HEAP_LIVE * 2;
	const void *caller = allocate_many(malloc, CERTAIN, count, kept);
	struct heap_sums sums = sums_below(caller);
	struct heap_losses losses = heap_sampler_losses();
	uint64_t in_use = sums.allocated_objects - sums.freed_objects;
	/* All are counted, but not all of them as in use. */
	REQUIRE(sums.allocated_objects >= count * 0.999 && sums.allocated_objects <= count * 1.001);
	REQUIRE(in_use <= HEAP_LIVE && in_use > HEAP_LIVE / 2);
	REQUIRE(losses.live > 0 && losses.live_bytes / CERTAIN >= count - HEAP_LIVE - 100);
	for (size_t i = 0; i < count; i++)
		free(kept[i]);
	sums = sums_below(caller);
	REQUIRE(sums.allocated_bytes == sums.freed_bytes);
	/* Then there is room again. */
	caller = allocate_many(malloc, CERTAIN, 5000, kept);
	REQUIRE(heap_sampler_losses().live == losses.live);
	sums = sums_below(caller);
	REQUIRE(sums.allocated_objects - sums.freed_objects >= 4990);
}

static void test_too_many_live(void **state)
{
	require_sampler();
	run_in_child(exceed_live);
}

/* One stack for each `path` of so many hexadecimal digits. */
static void *allocate_at(uint32_t path, unsigned digits)
{
	void *ptr = NULL;
	if (digits == 0) {
		ptr = malloc(CERTAIN);
		__asm__ volatile("" ::: "memory");
		return ptr;
	}
#define BRANCH(n)                                                                                                              \
	case n:                                                                                                                \
		ptr = allocate_at(path >> 4, digits - 1);                                                                      \
		__asm__ volatile("# %0" ::"i"(n) : "memory");                                                                  \
		break;
	switch (path & 15) {
		BRANCH(0)
		BRANCH(1)
		BRANCH(2)
		BRANCH(3)
		BRANCH(4)
		BRANCH(5)
		BRANCH(6)
		BRANCH(7)
		BRANCH(8)
		BRANCH(9)
		BRANCH(10)
		BRANCH(11)
		BRANCH(12)
		BRANCH(13)
		BRANCH(14)
		BRANCH(15)
	}
	return ptr;
}

static void exceed_stacks(unsigned digits)
{
	const uint32_t count = HEAP_STACKS * 2;
	struct heap_sums before = sums_below(NULL);
	uint64_t without = 0, bytes = (uint64_t)count * CERTAIN;
	struct heap_stack stack;
	for (uint32_t i = 0; i < count; i++)
		free(allocate_at(i, digits));
	struct heap_sums after = sums_below(NULL);
	for (uint32_t i = 0; i < HEAP_STACKS; i++)
		if (heap_sampler_read(i, &stack) && stack.depth == 0)
			without += stack.sums.allocated_bytes;
	/* Nothing is missing in the sum. */
	REQUIRE(after.allocated_bytes - before.allocated_bytes >= bytes - bytes / 1000);
	REQUIRE(after.allocated_bytes - after.freed_bytes <= before.allocated_bytes - before.freed_bytes + 64 * 1024);
	REQUIRE(without >= bytes / 3 && without < bytes);
	REQUIRE(heap_sampler_losses().stacks >= count / 3);
}

/* Four frames each, so that stacks run out; and some dozens, so that frames do. */
static void *exceed_stacks_in_thread(void *context)
{
	exceed_stacks(4);
	return context;
}
static void exceed_shallow(void)
{
	pthread_t thread;
	REQUIRE(thread_start(&thread, "shallow", exceed_stacks_in_thread, NULL, NULL) == 0);
	pthread_join(thread, NULL);
}
static void exceed_deep(void)
{
	exceed_stacks(40);
}

static void test_too_many_stacks(void **state)
{
	require_sampler();
	run_in_child(exceed_shallow);
	run_in_child(exceed_deep);
}

/* The leaf's side of it. */
__attribute__((noinline)) static const void *allocate_below(unsigned depth, const void **innermost)
{
	void *volatile ptr = NULL;
	if (depth > 0) {
		const void *caller = allocate_below(depth - 1, innermost);
		__asm__ volatile("" ::: "memory");
		return caller;
	}
	*innermost = __builtin_return_address(0);
	for (int i = 0; i < 10; i++) {
		ptr = malloc(CERTAIN);
		free(ptr);
	}
	return *innermost;
}

static void test_deep_stacks(void **state)
{
	const void *innermost;
	struct heap_stack stack;
	bool is_seen = false;
	require_sampler();
	allocate_below(1000, &innermost);
	for (uint32_t i = 0; i < HEAP_STACKS; i++)
		if (heap_sampler_read(i, &stack) && stack.depth == HEAP_FRAMES_MAX && stack.frames[1] == (uintptr_t)innermost &&
		    stack.frames[HEAP_FRAMES_MAX - 1] == (uintptr_t)innermost)
			is_seen = true;
	assert_true(is_seen);
}

/* ---- not built in, not started ---- */

static void test_start(void **state)
{
	assert_int_equal(heap_sampler_start(1), heap_sampler_is_built_in());
	assert_int_equal(heap_sampler_rate(), heap_sampler_is_built_in() ? RATE : 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_null),
		cmocka_unit_test(test_estimates),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_allocator_stays),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_short_threads),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_too_many_live),
		cmocka_unit_test(test_too_many_stacks),
		cmocka_unit_test(test_deep_stacks),
	};
	return cmocka_run_group_tests(tests, set_up, NULL);
}
