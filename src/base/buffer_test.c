// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/fault.h"

static void test_views_compare(void **state)
{
	struct bytes empty = {0}, a = bytes_of_string("a"), ab = bytes_of_string("ab"), high = bytes_of_string("\xff");
	assert_true(bytes_equal(empty, bytes_of_string("")));
	assert_true(bytes_equal_string(ab, "ab"));
	assert_false(bytes_equal(a, ab));
	assert_int_equal(bytes_compare(empty, empty), 0);
	assert_int_equal(bytes_compare(empty, a), -1);
	assert_int_equal(bytes_compare(a, ab), -1);
	assert_int_equal(bytes_compare(ab, a), 1);
	assert_int_equal(bytes_compare(ab, ab), 0);
	assert_int_equal(bytes_compare(high, ab), 1);
}

static void test_views_are_taken_apart(void **state)
{
	struct bytes empty = {0}, text = bytes_of_string("ab\n\ncd");
	assert_true(bytes_start_with(text, "ab"));
	assert_true(bytes_start_with(text, "") && bytes_start_with(empty, ""));
	assert_false(bytes_start_with(text, "b"));
	assert_false(bytes_start_with(bytes_of_string("ab"), "abc") || bytes_start_with(empty, "a"));
	assert_true(bytes_equal_string(bytes_take_line(&text), "ab"));
	assert_true(bytes_equal_string(text, "\ncd"));
	assert_true(bytes_equal_string(bytes_take_line(&text), ""));
	assert_true(bytes_equal_string(bytes_take_line(&text), "cd"));
	assert_int_equal(text.len, 0);
}

static void test_appending_stops_at_the_maximum(void **state)
{
	_cleanup_(buffer_release) struct buffer buffer = {0};
	buffer_init(&buffer, 10);
	assert_int_equal(buffer_append_string(&buffer, "01234567"), 0);
	assert_int_equal(buffer_append_string(&buffer, "abc"), -E2BIG);
	buffer_truncate(&buffer, 8);
	assert_int_equal(buffer_append(&buffer, "x", SIZE_MAX), -E2BIG);
	buffer_truncate(&buffer, 8);
	assert_int_equal(buffer_printf(&buffer, "%d", 100), -E2BIG);
	buffer_truncate(&buffer, 8);
	assert_int_equal(buffer_append_byte(&buffer, '8'), 0);
	assert_int_equal(buffer_printf(&buffer, "%d", 9), 0);
	assert_int_equal(buffer_append_byte(&buffer, 'x'), -E2BIG);
	buffer_truncate(&buffer, 10);
	assert_int_equal(buffer_append(&buffer, NULL, 0), 0);
	assert_true(bytes_equal_string(buffer_bytes(&buffer), "0123456789"));
	/* The NUL is not contents, so a full buffer has room for it. */
	assert_string_equal(buffer_string(&buffer), "0123456789");
	assert_int_equal(buffer.len, 10);
	assert_true(buffer.capacity <= 11);
}

static void test_failures_stay(void **state)
{
	_cleanup_(buffer_release) struct buffer buffer = {0};
	buffer_init(&buffer, 4);
	assert_int_equal(buffer_append_string(&buffer, "abc"), 0);
	assert_int_equal(buffer_status(&buffer), 0);
	assert_int_equal(buffer_append_string(&buffer, "de"), -E2BIG);
	/* There would be room for each of these. */
	fault_arm(FAULT_ALLOC, 1, FAULT_STICKY);
	assert_int_equal(buffer_append_string(&buffer, ""), -E2BIG);
	assert_int_equal(buffer_append_byte(&buffer, 'd'), -E2BIG);
	assert_int_equal(buffer_printf(&buffer, "d"), -E2BIG);
	assert_int_equal(buffer_reserve(&buffer, 0), -E2BIG);
	assert_int_equal(buffer_fail(&buffer, -ENOMEM), -E2BIG);
	assert_null(buffer_string(&buffer));
	assert_false(fault_disarm(FAULT_ALLOC));
	assert_int_equal(buffer_status(&buffer), -E2BIG);
	assert_true(bytes_equal_string(buffer_bytes(&buffer), "abc"));
	buffer_truncate(&buffer, 2);
	assert_int_equal(buffer_status(&buffer), 0);
	assert_string_equal(buffer_string(&buffer), "ab");
	assert_int_equal(buffer_reserve(&buffer, 3), -E2BIG);
	assert_int_equal(buffer_append_byte(&buffer, 'c'), -E2BIG);
	buffer_clear(&buffer);
	assert_int_equal(buffer_append_string(&buffer, "1234"), 0);
	assert_int_equal(buffer_fail(&buffer, 0), 0);
	assert_int_equal(buffer_fail(&buffer, -EIO), -EIO);
	assert_int_equal(buffer_status(&buffer), -EIO);
	_cleanup_(buffer_release) struct buffer other = {0}, more = {0};
	buffer_init(&other, 8);
	buffer_init(&more, 8);
	assert_int_equal(buffer_append_string(&more, "a"), 0);
	assert_int_equal(buffer_append_buffer(&other, &more), 0);
	assert_int_equal(buffer_append_buffer(&other, &buffer), -EIO);
	assert_int_equal(buffer_append_byte(&other, 'b'), -EIO);
	assert_true(bytes_equal_string(buffer_bytes(&other), "a"));
	buffer_release(&buffer);
	assert_int_equal(buffer_append_string(&buffer, "1234"), 0);
}

static void test_clear_and_release(void **state)
{
	struct buffer buffer;
	buffer_init(&buffer, 100);
	assert_int_equal(buffer_append_string(&buffer, "text"), 0);
	uint8_t *data = buffer.data;
	buffer_clear(&buffer);
	assert_ptr_equal(buffer.data, data);
	assert_string_equal(buffer_string(&buffer), "");
	buffer_release(&buffer);
	assert_null(buffer.data);
	assert_int_equal(buffer.max, 100);
	assert_int_equal(buffer_append_string(&buffer, "again"), 0);
	assert_string_equal(buffer_string(&buffer), "again");
	buffer_release(&buffer);
}

static void test_empty_buffer_is_a_string(void **state)
{
	_cleanup_(buffer_release) struct buffer buffer = {0};
	buffer_init(&buffer, 0);
	assert_int_equal(buffer_append_string(&buffer, ""), 0);
	assert_null(buffer_bytes(&buffer).data);
	assert_int_equal(buffer_printf(&buffer, "%s", ""), 0);
	assert_string_equal(buffer_string(&buffer), "");
	assert_int_equal(buffer_append_byte(&buffer, 1), -E2BIG);
}

static void test_printf_of_every_length(void **state)
{
	_cleanup_(buffer_release) struct buffer buffer = {0};
	buffer_init(&buffer, SIZE_MAX);
	size_t total = 0;
	for (int width = 0; width < 300; width++) {
		assert_int_equal(buffer_printf(&buffer, "%*s", width, ""), 0);
		total += (size_t)width;
		assert_int_equal(buffer.len, total);
	}
	for (size_t i = 0; i < total; i++)
		assert_int_equal(buffer.data[i], ' ');
}

static void test_contents_survive_failed_allocations(void **state)
{
	_cleanup_(buffer_release) struct buffer buffer = {0};
	buffer_init(&buffer, 1 << 20);
	char chunk[100];
	memset(chunk, 'x', sizeof(chunk));
	assert_int_equal(buffer_append_string(&buffer, "start"), 0);
	while (buffer.capacity - buffer.len >= sizeof(chunk))
		assert_int_equal(buffer_append(&buffer, chunk, sizeof(chunk)), 0);
	size_t len = buffer.len;
	fault_arm(FAULT_ALLOC, 1, FAULT_STICKY);
	assert_int_equal(buffer_append(&buffer, chunk, sizeof(chunk)), -ENOMEM);
	buffer_truncate(&buffer, len);
	assert_int_equal(buffer_printf(&buffer, "%.*s", (int)sizeof(chunk), chunk), -ENOMEM);
	buffer_truncate(&buffer, len);
	assert_int_equal(buffer_reserve(&buffer, 100000), -ENOMEM);
	buffer_truncate(&buffer, len);
	while (buffer.len < buffer.capacity)
		assert_int_equal(buffer_append_byte(&buffer, 'y'), 0);
	assert_int_equal(buffer_append_byte(&buffer, 'y'), -ENOMEM);
	buffer_truncate(&buffer, buffer.len);
	assert_null(buffer_string(&buffer));
	assert_int_equal(buffer_status(&buffer), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	buffer_truncate(&buffer, buffer.len);
	assert_true(buffer.len >= len);
	assert_memory_equal(buffer.data, "start", 5);
	assert_non_null(buffer_string(&buffer));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views_compare),
		cmocka_unit_test(test_views_are_taken_apart),
		cmocka_unit_test(test_appending_stops_at_the_maximum),
		cmocka_unit_test(test_failures_stay),
		cmocka_unit_test(test_clear_and_release),
		cmocka_unit_test(test_empty_buffer_is_a_string),
		cmocka_unit_test(test_printf_of_every_length),
		cmocka_unit_test(test_contents_survive_failed_allocations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
