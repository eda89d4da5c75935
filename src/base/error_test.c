// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void test_set_returns_the_code_and_keeps_one_line(void **state)
{
	struct error err = {0};
	assert_int_equal(error_set(&err, -EINVAL, "bad %s\nsecond\rthird", "thing"), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	assert_string_equal(err.message, "bad thing second third");
	assert_int_equal(error_set(NULL, -EIO, "nobody %s", "listens"), -EIO);
}

static void test_set_errno_appends_the_description(void **state)
{
	struct error err = {0};
	assert_int_equal(error_set_errno(&err, -ENOENT, "cannot open %s", "/x"), -ENOENT);
	assert_string_equal(err.message, "cannot open /x: No such file or directory");
	error_set_errno(&err, -524, "bpf");
	assert_string_equal(err.message, "bpf: error 524");
	assert_int_equal(error_set_errno(NULL, -EIO, "x"), -EIO);
}

static void test_prefix_keeps_the_first_code(void **state)
{
	struct error err = {0};
	error_set(&err, -ENOENT, "missing");
	assert_int_equal(error_prefix(&err, -EIO, "block %d", 7), -ENOENT);
	assert_string_equal(err.message, "block 7: missing");
	assert_int_equal(error_prefix(NULL, -EIO, "x"), -EIO);

	struct error unset = {0};
	assert_int_equal(error_prefix(&unset, -EIO, "alone"), -EIO);
	assert_int_equal(unset.code, -EIO);
	assert_string_equal(unset.message, "alone");
}

static void test_arguments_may_be_the_message_itself(void **state)
{
	struct error err = {0};
	error_set(&err, -EIO, "inner");
	error_set(&err, -EINVAL, "outer (%s)", err.message);
	assert_string_equal(err.message, "outer (inner)");
}

static void test_long_messages_are_cut(void **state)
{
	struct error err = {0};
	char text[2 * ERROR_MESSAGE_MAX];
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	error_set(&err, -EINVAL, "%s", text);
	assert_int_equal(strlen(err.message), ERROR_MESSAGE_MAX - 1);
	error_set_errno(&err, -EINVAL, "%s", text);
	assert_int_equal(strlen(err.message), ERROR_MESSAGE_MAX - 1);
	error_prefix(&err, -EINVAL, "p");
	assert_int_equal(strlen(err.message), ERROR_MESSAGE_MAX - 1);
	assert_memory_equal(err.message, "p: xxx", 6);
}

static void test_nomem(void **state)
{
	struct error err = {0};
	assert_int_equal(error_nomem(&err), -ENOMEM);
	assert_string_equal(err.message, "out of memory");
	assert_int_equal(error_nomem(NULL), -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_returns_the_code_and_keeps_one_line),
		cmocka_unit_test(test_set_errno_appends_the_description),
		cmocka_unit_test(test_prefix_keeps_the_first_code),
		cmocka_unit_test(test_arguments_may_be_the_message_itself),
		cmocka_unit_test(test_long_messages_are_cut),
		cmocka_unit_test(test_nomem),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
