// SPDX-License-Identifier: Apache-2.0
#include "base/order.h"

#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/cleanup.h"
#include "base/sorted.h"

struct event {
	int64_t time_ns;
	uint32_t number;
};

DEFINE_ORDER(compare_events, struct event, ORDER(a->time_ns, b->time_ns) ?: ORDER(b->number, a->number));
DEFINE_ORDER(compare_pointers, struct event *const, ORDER((*a)->number, (*b)->number));
DEFINE_ORDER_OF_PLACES(compare_places, struct event, ORDER(a->time_ns, b->time_ns) ?: ORDER(a, b));

static void test_an_order_is_of_what_it_says(void **state)
{
	struct event events[] = {{5, 1}, {-3, 2}, {5, 4}, {5, 3}, {INT64_MIN, 5}, {INT64_MAX, 6}};
	const uint32_t numbers[] = {5, 2, 4, 3, 1, 6};
	sort_array(events, 6, compare_events);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(events[i].number, numbers[i]);
}

static void test_arrays_of_pointers_are_sorted_by_what_they_point_to(void **state)
{
	struct event events[] = {{0, 9}, {0, 7}, {0, 8}};
	struct event *pointers[] = {&events[0], &events[1], &events[2]};
	sort_array(pointers, 3, compare_pointers);
	assert_ptr_equal(pointers[0], &events[1]);
	assert_ptr_equal(pointers[1], &events[2]);
	assert_ptr_equal(pointers[2], &events[0]);
}

static void test_places_are_sorted_by_the_items_there(void **state)
{
	static const struct event events[] = {{4, 0}, {1, 0}, {4, 0}, {0, 0}};
	uint32_t places[] = {2, 1, 0, 3};
	sort_array_by(places, 4, compare_places, events);
	assert_int_equal(places[0], 3);
	assert_int_equal(places[1], 1);
	assert_int_equal(places[2], 0);
	assert_int_equal(places[3], 2);
}

static void test_of_equal_items_one_remains(void **state)
{
	struct event events[] = {{5, 1}, {-3, 2}, {5, 1}, {5, 3}, {-3, 2}, {-3, 2}};
	assert_int_equal(sort_array_once(events, 6, compare_events), 3);
	assert_int_equal(events[0].number, 2);
	assert_int_equal(events[1].number, 3);
	assert_int_equal(events[2].number, 1);
	assert_int_equal(sort_array_once(events, 3, compare_events), 3);
	assert_int_equal(sort_array_once(events, 1, compare_events), 1);
}

static void test_nothing_is_sorted_already(void **state)
{
	struct event *none = NULL;
	assert_int_equal(sort_array_once(none, 0, compare_events), 0);
	uint32_t *nowhere = NULL;
	sort_array(none, 0, compare_events);
	sort_array_by(nowhere, 0, compare_places, none);
}

static void test_those_of_whom_it_holds_are_counted(void **state)
{
	static const int values[] = {1, 3, 3, 7};
	for (int most = 0; most < 9; most++) {
		size_t expected = 0;
		while (expected < 4 && values[expected] <= most)
			expected++;
		assert_int_equal(sorted_count_while(4, i, values[i] <= most), expected);
	}
	assert_int_equal(sorted_count_while(0, i, values[i] <= 9), 0);
}

static int compare_counted(const void *left, const void *right, void *context)
{
	size_t *compared = context;
	++*compared;
	return ORDER(*(const uint32_t *)left, *(const uint32_t *)right);
}

static void fill(uint32_t *items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		items[i] = (uint32_t)i * 2654435761u;
}

/* A large array is sorted as any, and no further when the work has been cancelled. */
static void test_cancelled_sort(void **state)
{
	const size_t count = 20 * SORT_LARGE;
	_cleanup_(mem_freep) uint32_t *items = mem_alloc_array(count, sizeof(*items));
	atomic_bool cancel = false;
	struct budget budget = {.cancel = &cancel};
	size_t compared = 0;
	assert_non_null(items);
	budget_enter(&budget);
	fill(items, count);
	sort_array_by(items, count, compare_counted, &compared);
	assert_true(compared > count);
	for (size_t i = 1; i < count; i++)
		assert_true(items[i - 1] <= items[i]);
	atomic_store(&cancel, true);
	fill(items, count);
	compared = 0;
	sort_array_by(items, count, compare_counted, &compared);
	assert_true(compared <= BUDGET_POLLS);
	budget_leave(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_order_is_of_what_it_says),
		cmocka_unit_test(test_arrays_of_pointers_are_sorted_by_what_they_point_to),
		cmocka_unit_test(test_places_are_sorted_by_the_items_there),
		cmocka_unit_test(test_of_equal_items_one_remains),
		cmocka_unit_test(test_nothing_is_sorted_already),
		cmocka_unit_test(test_those_of_whom_it_holds_are_counted),
		cmocka_unit_test(test_cancelled_sort),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
