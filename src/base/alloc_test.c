// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fault.h"

static void test_sizes_of_zero_give_memory(void **state)
{
	void *a = mem_alloc(0), *b = mem_alloc(0), *c = mem_zalloc_array(0, 8);
	assert_non_null(a);
	assert_non_null(b);
	assert_non_null(c);
	assert_ptr_not_equal(a, b);
	c = mem_realloc_array(c, 0, 0);
	assert_non_null(c);
	mem_free(a);
	mem_free(b);
	assert_null(mem_free(c));
	assert_null(mem_free(NULL));
}

static void test_zeroed_memory_is_zero(void **state)
{
	static const char zeros[256];
	char *a = mem_zalloc(256), *b = mem_zalloc_array(16, 16);
	assert_memory_equal(a, zeros, 256);
	assert_memory_equal(b, zeros, 256);
	mem_free(a);
	mem_free(b);
}

static void test_overflow_is_refused(void **state)
{
	volatile size_t huge = SIZE_MAX / 2 + 1;
	char *old = mem_alloc(8);
	assert_null(mem_alloc_array(huge, 2));
	assert_null(mem_zalloc_array(huge, 2));
	assert_null(mem_realloc_array(old, huge, 2));
	assert_null(mem_alloc(huge));
	assert_null(mem_zalloc(huge));
	assert_null(mem_realloc_array(old, huge, 1));
	memset(old, 'x', 8);
	mem_free(old);
}

static void test_strings(void **state)
{
	char *a = mem_strdup("hello"), *b = mem_strndup("hello", 3), *c = mem_strndup("hi", 100), *d = mem_strndup("", 0);
	assert_string_equal(a, "hello");
	assert_string_equal(b, "hel");
	assert_string_equal(c, "hi");
	assert_string_equal(d, "");
	mem_free(a);
	mem_free(b);
	mem_free(c);
	mem_free(d);
}

static void test_every_function_can_fail(void **state)
{
	char *old = mem_alloc(8);
	fault_arm(FAULT_ALLOC, 1, FAULT_STICKY);
	assert_null(mem_alloc(1));
	assert_null(mem_zalloc(1));
	assert_null(mem_alloc_array(1, 1));
	assert_null(mem_zalloc_array(1, 1));
	assert_null(mem_realloc_array(old, 100, 1));
	assert_null(mem_strdup("x"));
	assert_null(mem_strndup("x", 1));
	assert_true(fault_disarm(FAULT_ALLOC));
	memset(old, 'x', 8);
	mem_free(old);
}

static void test_array_grows_to_its_maximum(void **state)
{
	uint32_t *array = NULL;
	size_t capacity = 0, moves = 0;
	for (size_t i = 0; i < 1000; i++) {
		size_t before = capacity;
		assert_int_equal(array_reserve(&array, &capacity, i + 1, 1000), 0);
		assert_true(capacity > i && capacity <= 1000);
		moves += capacity != before;
		array[i] = (uint32_t)i;
	}
	assert_true(moves <= 8);
	uint32_t *before = array;
	assert_int_equal(array_reserve(&array, &capacity, 1001, 1000), -E2BIG);
	assert_ptr_equal(array, before);
	assert_int_equal(capacity, 1000);
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(array[i], i);
	mem_free(array);
}

static void test_array_is_untouched_on_failure(void **state)
{
	uint64_t *array = NULL;
	size_t capacity = 0;
	assert_int_equal(array_reserve(&array, &capacity, SIZE_MAX / 4, SIZE_MAX), -ENOMEM);
	assert_null(array);
	assert_int_equal(capacity, 0);
	assert_int_equal(array_reserve(&array, &capacity, 0, 0), 0);
	assert_null(array);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(array_reserve(&array, &capacity, 1, 10), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	assert_null(array);
	assert_int_equal(array_reserve(&array, &capacity, 3, 3), 0);
	assert_int_equal(capacity, 3);
	mem_free(array);
}

static void test_items_are_pushed_up_to_the_maximum(void **state)
{
	int *items = NULL, evaluated = 0;
	size_t count = 0, capacity = 0;
	for (int i = 0; i < 5; i++)
		assert_int_equal(array_push(&items, &count, &capacity, 5, (evaluated++, 10 * i)), 0);
	assert_int_equal(array_push(&items, &count, &capacity, 5, (evaluated++, 0)), -E2BIG);
	assert_int_equal(count, 5);
	assert_int_equal(evaluated, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(items[i], 10 * i);
	mem_free(items);
}

static void test_scope_exit(void **state)
{
	/* The leak check of the sanitizer build is what fails here. */
	_cleanup_(mem_freep) char *text = mem_strdup("freed at the end of the scope");
	_cleanup_(mem_freep) int *none = NULL;
	assert_non_null(text);
	assert_null(none);
}

static void test_resident_bytes(void **state)
{
	uint64_t bytes = mem_resident_bytes();
	assert_true(bytes > 64 * 1024);
	assert_true(bytes < (1ull << 40));
}

static void test_resident_peak(void **state)
{
	const size_t size = 64u << 20;
	(void)state;
	volatile char *block = mem_alloc(size);
	assert_non_null(block);
	for (size_t i = 0; i < size; i += 4096)
		block[i] = 1;
	mem_free((void *)block);
	assert_true(mem_resident_peak_bytes(0) >= size);
	assert_true(mem_resident_peak_bytes(UINT64_MAX) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_of_zero_give_memory),
		cmocka_unit_test(test_zeroed_memory_is_zero),
		cmocka_unit_test(test_overflow_is_refused),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_every_function_can_fail),
		cmocka_unit_test(test_array_grows_to_its_maximum),
		cmocka_unit_test(test_array_is_untouched_on_failure),
		cmocka_unit_test(test_items_are_pushed_up_to_the_maximum),
		cmocka_unit_test(test_scope_exit),
		cmocka_unit_test(test_resident_bytes),
		cmocka_unit_test(test_resident_peak),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
