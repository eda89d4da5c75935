// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "base/fault.h"

static void test_objects_are_aligned_and_apart(void **state)
{
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	uint8_t *objects[500];
	for (size_t i = 0; i < 500; i++) {
		size_t size = i * 37 % 3000;
		objects[i] = arena_alloc(&arena, size);
		assert_non_null(objects[i]);
		assert_int_equal((uintptr_t)objects[i] % 16, 0);
		memset(objects[i], (int)(i & 255), size);
	}
	for (size_t i = 0; i < 500; i++)
		for (size_t at = 0; at < i * 37 % 3000; at++)
			assert_int_equal(objects[i][at], i & 255);
	arena_release(&arena);
	assert_null(arena.chunks);
	assert_int_equal(arena.used_bytes, 0);
}

static void test_may_be_used_again_after_release(void **state)
{
	struct arena arena;
	arena_init(&arena, 4096);
	for (int round = 0; round < 3; round++) {
		assert_non_null(arena_alloc(&arena, 3000));
		assert_null(arena_alloc(&arena, 3000));
		arena_release(&arena);
	}
}

static void test_zeroed(void **state)
{
	static const uint8_t zeros[100];
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	memset(arena_alloc(&arena, 100), 0xff, 100);
	assert_memory_equal(arena_zalloc(&arena, 100), zeros, 100);
	assert_non_null(arena_zalloc(&arena, 0));
	arena_release(&arena);
}

static void test_text_is_copied_with_its_nuls(void **state)
{
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	char *copy = arena_strndup(&arena, "a\0b", 3);
	assert_memory_equal(copy, "a\0b", 4);
	assert_string_equal(arena_strndup(&arena, NULL, 0), "");
	assert_null(arena_strndup(&arena, "x", SIZE_MAX));
	arena_release(&arena);
}

static void test_limit_holds_for_every_size(void **state)
{
	for (size_t size = 0; size < 5000; size = size * 3 / 2 + 1) {
		struct arena arena;
		arena_init(&arena, 20000);
		size_t total = 0;
		while (arena_alloc(&arena, size)) {
			total += size;
			assert_true(arena.used_bytes <= arena.max_bytes);
		}
		assert_true(total <= 20000);
		assert_true(arena_is_full(&arena, size + 16));
		/* Little of the limit is lost to overhead when the objects are not tiny. */
		if (size >= 100)
			assert_true(total + size > 20000 * 8 / 10);
		arena_release(&arena);
	}
}

static void test_limits_at_the_edges(void **state)
{
	struct arena arena;
	arena_init(&arena, 0);
	assert_null(arena_alloc(&arena, 0));
	assert_null(arena_alloc(&arena, SIZE_MAX));
	arena_init(&arena, SIZE_MAX);
	assert_null(arena_alloc(&arena, SIZE_MAX));
	assert_null(arena_alloc(&arena, SIZE_MAX - 15));
	assert_null(arena_alloc(&arena, SIZE_MAX / 2));
	assert_false(arena_is_full(&arena, 1000));
	arena_release(&arena);
}

static void test_large_objects_do_not_waste_the_newest_chunk(void **state)
{
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	char *first = arena_alloc(&arena, 16);
	assert_non_null(arena_alloc(&arena, 100000));
	char *second = arena_alloc(&arena, 16);
	assert_ptr_equal(second, first + 16);
	arena_release(&arena);
}

static void test_failed_allocation_changes_nothing(void **state)
{
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	for (uint64_t n = 1;; n++) {
		fault_arm(FAULT_ALLOC, n, 0);
		bool failed = false;
		for (int i = 0; i < 100; i++) {
			size_t used = arena.used_bytes;
			if (arena_alloc(&arena, 1000))
				continue;
			failed = true;
			assert_int_equal(arena.used_bytes, used);
			assert_false(arena_is_full(&arena, 1000));
		}
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(reached, failed);
		arena_release(&arena);
		if (!reached)
			break;
		assert_true(n < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_objects_are_aligned_and_apart),
		cmocka_unit_test(test_may_be_used_again_after_release),
		cmocka_unit_test(test_zeroed),
		cmocka_unit_test(test_text_is_copied_with_its_nuls),
		cmocka_unit_test(test_limit_holds_for_every_size),
		cmocka_unit_test(test_limits_at_the_edges),
		cmocka_unit_test(test_large_objects_do_not_waste_the_newest_chunk),
		cmocka_unit_test(test_failed_allocation_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
