// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>

#include "unwind/unwind_result.h"

/* Names are published, as labels of a metric: lower case and underscores, each once. */
static void test_every_result_has_its_words(void **state)
{
	for (int i = 0; i < UNWIND_RESULTS; i++) {
		const char *name = unwind_result_name((enum unwind_result)i);
		assert_true(name && *name);
		assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
		assert_true(*unwind_result_meaning((enum unwind_result)i));
		assert_non_null(unwind_result_advice((enum unwind_result)i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(name, unwind_result_name((enum unwind_result)j));
	}
	assert_string_equal(unwind_result_name(UNWIND_COMPLETE), "complete");
	assert_string_equal(unwind_result_name(UNWIND_NO_USER), "no_user");
	assert_string_equal(unwind_result_name((enum unwind_result)UNWIND_RESULTS), "unknown");
	assert_string_equal(unwind_result_name((enum unwind_result) - 1), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_result_has_its_words)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
