// SPDX-License-Identifier: Apache-2.0
#include "base/disk_list.h"

#include <stdarg.h>
#include <stddef.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fault.h"

static bool remove_it(void *context, const char *name)
{
	struct buffer *removed = context;
	if (*name == 'x') /* cannot be removed */
		return false;
	return buffer_append_string(removed, name) == 0;
}

static void test_the_longest_unused_go_first(void **state)
{
	struct disk_list list = {0};
	_cleanup_(buffer_release) struct buffer removed = {.max = 8};
	assert_int_equal(disk_list_add(&list, "c", 10, 3), 0);
	assert_int_equal(disk_list_add(&list, "x", 10, 0), 0);
	assert_int_equal(disk_list_add(&list, "a", 10, 1), 0);
	assert_int_equal(disk_list_add(&list, "b", 10, 2), 0);
	assert_int_equal(disk_list_trim(&list, 40, remove_it, &removed), 0);
	assert_int_equal(disk_list_trim(&list, 25, remove_it, &removed), 2);
	assert_string_equal(buffer_string(&removed), "ab");
	assert_int_equal(list.bytes, 20);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_true(disk_list_add(&list, "d", 10, 4) < 0);
	fault_disarm(FAULT_ALLOC);
	assert_int_equal(list.bytes, 20);
	disk_list_release(&list);
	assert_int_equal(list.bytes + list.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_longest_unused_go_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
