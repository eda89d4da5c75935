/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/buffer.h"
#include "base/cancel.h"
#include "base/time.h"

#define MIB_BYTES ((size_t)1024 * 1024)

static void test_bytes_are_charged_and_given_back(void **state)
{
	struct budget budget = {.max_bytes = 10 * MIB_BYTES};
	void *before = mem_alloc(1000); /* not of the work */
	struct budget *outer = budget_enter(&budget);
	assert_null(outer);
	char *a = mem_alloc(MIB_BYTES), *b = mem_zalloc_array(1024, 1024);
	int64_t used = budget.used;
	assert_true(used >= 2 * (int64_t)MIB_BYTES && used < 3 * (int64_t)MIB_BYTES);
	a = mem_realloc_array(a, 3, MIB_BYTES);
	assert_true(budget.used >= 4 * (int64_t)MIB_BYTES && budget.used < 5 * (int64_t)MIB_BYTES);
	a = mem_realloc_array(a, 1, 1000);
	mem_free(a);
	mem_free(b);
	assert_int_equal(budget.used, 0);
	assert_true(budget.peak >= 4 * (int64_t)MIB_BYTES);
	budget_leave(outer);
	mem_free(before);
	assert_int_equal(budget.used, 0);
	assert_int_equal(budget.end, BUDGET_OPEN);
}

static void test_what_passes_the_limit_is_refused(void **state)
{
	struct budget budget = {.max_bytes = MIB_BYTES};
	struct buffer buffer = {.max = SIZE_MAX};
	budget_enter(&budget);
	assert_null(mem_alloc(2 * MIB_BYTES));
	assert_int_equal(budget.end, BUDGET_SPENT);
	assert_true(budget_has_ended());
	assert_false(budget_poll()); /* it is no reason to stop: what is there may be enough */
	assert_true(budget_forgive());
	assert_false(budget_forgive());
	assert_false(budget_has_ended());
	void *half = mem_alloc(MIB_BYTES / 2); /* it still may have what it could have */
	assert_non_null(half);
	assert_null(mem_zalloc_array(3, MIB_BYTES / 4));
	assert_null(mem_realloc_array(half, 2, MIB_BYTES));
	memset(half, 'x', MIB_BYTES / 2); /* still there */
	assert_true(budget_left() <= MIB_BYTES / 2);
	mem_free(half);
	while (buffer_append(&buffer, "0123456789abcdef", 16) == 0)
		assert_true(buffer.len <= MIB_BYTES);
	assert_true(buffer.len >= MIB_BYTES / 4);
	buffer_release(&buffer);
	assert_int_equal(budget.used, 0);
	budget_leave(NULL);
	void *large = mem_alloc(2 * MIB_BYTES); /* not of the work any more */
	assert_non_null(large);
	mem_free(large);
}

static void test_a_part_is_narrower(void **state)
{
	struct budget budget = {.max_bytes = 10 * MIB_BYTES};
	assert_int_equal(budget_narrow(MIB_BYTES), 0); /* without a budget it is nothing */
	budget_widen(0);
	assert_int_equal(budget_left(), SIZE_MAX);
	budget_enter(&budget);
	size_t before = budget_narrow(2 * MIB_BYTES);
	assert_null(mem_alloc(3 * MIB_BYTES));
	assert_true(budget_forgive());
	assert_int_equal(budget_narrow(20 * MIB_BYTES), 2 * MIB_BYTES); /* never wider than it was */
	assert_true(budget_left() <= 2 * MIB_BYTES);
	budget_widen(before);
	void *ptr = mem_alloc(3 * MIB_BYTES);
	assert_non_null(ptr);
	mem_free(ptr);
	budget_leave(NULL);
}

static void test_a_pool_is_shared(void **state)
{
	struct budget_pool pool = {.max_bytes = 10 * BUDGET_PIECE};
	struct budget a = {.pool = &pool, .max_bytes = 8 * BUDGET_PIECE}, b = a;
	budget_enter(&a);
	void *of_a = mem_alloc(7 * BUDGET_PIECE - 4096);
	assert_non_null(of_a);
	assert_int_equal(pool.used, 7 * BUDGET_PIECE);
	budget_enter(&b);
	assert_null(mem_alloc(4 * BUDGET_PIECE));
	assert_int_equal(b.end, BUDGET_POOL_SPENT);
	assert_true(budget_forgive());
	void *of_b = mem_alloc(3 * BUDGET_PIECE - 4096);
	assert_non_null(of_b);
	assert_int_equal(pool.used, 10 * BUDGET_PIECE);
	budget_enter(&a);
	assert_null(mem_alloc(9 * BUDGET_PIECE)); /* its own limit is told first */
	assert_int_equal(a.end, BUDGET_SPENT);
	mem_free(of_a); /* what is left in hand is a little */
	assert_true(pool.used <= 3 * BUDGET_PIECE + BUDGET_PIECE);
	budget_enter(&b);
	budget_keep(&b, 2 * BUDGET_PIECE); /* an answer lives on */
	budget_leave(NULL);
	mem_free(of_b);
	budget_release(&a);
	assert_int_equal(pool.used, 2 * BUDGET_PIECE);
	budget_release(&b);
	assert_int_equal(pool.used, 0);
}

static void test_cancelled_work_gets_nothing(void **state)
{
	atomic_bool cancel = false;
	struct budget budget = {.cancel = &cancel};
	budget_enter(&budget);
	for (unsigned i = 0; i < 10 * BUDGET_POLLS; i++)
		assert_false(budget_poll());
	cancel_request(&cancel);
	unsigned polls = 0, allocations = 0;
	while (!budget_poll())
		polls++;
	assert_true(polls < BUDGET_POLLS);
	assert_true(budget_poll()); /* and from then on always */
	assert_null(mem_alloc(1));
	assert_false(budget_forgive());
	budget_leave(NULL);
	/* One that never polls ends by what it allocates. */
	struct budget other = {.cancel = &cancel};
	budget_enter(&other);
	for (void *ptr; (ptr = mem_alloc(16)); allocations++)
		mem_free(ptr);
	assert_true(allocations < BUDGET_POLLS);
	assert_int_equal(other.end, BUDGET_CANCELLED);
	budget_leave(NULL);
	assert_false(budget_poll());
}

static void test_late_work_gets_nothing(void **state)
{
	struct budget budget = {.deadline_ns = time_monotonic_ns() + 3600 * NS_PER_S};
	budget_enter(&budget);
	assert_false(budget_look());
	budget.deadline_ns = time_monotonic_ns() - 1;
	assert_true(budget_look());
	assert_int_equal(budget.end, BUDGET_LATE);
	assert_null(mem_zalloc(1));
	budget_leave(NULL);
}

static void *allocate_exempt(void)
{
	BUDGET_EXEMPT_SCOPE();
	return mem_alloc(5 * MIB_BYTES);
}

static void test_what_is_exempt_is_not_charged(void **state)
{
	struct budget budget = {.max_bytes = MIB_BYTES};
	budget_enter(&budget);
	void *ptr = allocate_exempt();
	assert_non_null(ptr);
	assert_int_equal(budget.used, 0);
	assert_ptr_equal(budget_current(), &budget);
	budget_leave(NULL);
	mem_free(ptr);
}

#define THREADS 4
#define ROUNDS	20000
static void *use_a_lot(void *context)
{
	struct budget *budget = context;
	void *held[64] = {0};
	budget_enter(budget);
	for (unsigned i = 0; i < ROUNDS; i++) {
		mem_free(held[i % 64]);
		held[i % 64] = mem_alloc(1 + (size_t)i * 7919 % (256 * 1024));
	}
	for (unsigned i = 0; i < 64; i++)
		mem_free(held[i]);
	budget_leave(NULL);
	return NULL;
}

/* Two budgets of one pool, each with several threads: nothing gets lost, and the pool is never passed. */
static void test_threads(void **state)
{
	struct budget_pool pool = {.max_bytes = 24 * BUDGET_PIECE};
	struct budget budgets[2] = {{.pool = &pool, .max_bytes = 20 * BUDGET_PIECE}, {.pool = &pool}};
	pthread_t threads[THREADS];
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_a_lot, &budgets[i % 2]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(budgets[i].used, 0);
		assert_true(budgets[i].peak > 0 &&
			    budgets[i].peak <= (int64_t)(20 + 4 * i) * (int64_t)BUDGET_PIECE + 4096 * THREADS);
		budget_release(&budgets[i]);
	}
	assert_int_equal(pool.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_are_charged_and_given_back),
		cmocka_unit_test(test_what_passes_the_limit_is_refused),
		cmocka_unit_test(test_a_part_is_narrower),
		cmocka_unit_test(test_a_pool_is_shared),
		cmocka_unit_test(test_cancelled_work_gets_nothing),
		cmocka_unit_test(test_late_work_gets_nothing),
		cmocka_unit_test(test_what_is_exempt_is_not_charged),
		cmocka_unit_test(test_threads),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
