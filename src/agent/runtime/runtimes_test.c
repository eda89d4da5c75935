/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/runtime/runtimes.h"
#include "profile/runtimes.h"

static void test_words(void **state)
{
	static const char *const wrong[] = {"",	      "cobol",	    "python,", ",python", "python,cobol", "python none",
					    "Python", "none,python"};
	uint32_t kinds;

	assert_int_equal(runtimes_parse(NULL, &kinds, NULL), 0);
	assert_int_equal(kinds, RUNTIME_ALL);
	assert_int_equal(runtimes_parse("none", &kinds, NULL), 0);
	assert_int_equal(kinds, 0);
	assert_int_equal(runtimes_parse("python,python", &kinds, NULL), 0);
	assert_int_equal(kinds, 1u << RUNTIME_KIND_PYTHON);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct error err = {0};
		assert_int_equal(runtimes_parse(wrong[i], &kinds, &err), -EINVAL);
		assert_non_null(strstr(err.message, "python"));
		assert_non_null(strstr(err.message, "none"));
	}
}

/* Profiles and formats know each by its word. */
static void test_types(void **state)
{
	unsigned count = 0;

	for (uint32_t kind = 0; kind < RUNTIME_KINDS; kind++) {
		const struct runtime_type *type = runtime_type_of(kind);
		if (!type)
			continue;
		count++;
		assert_int_equal(type->kind, kind);
		assert_non_null(profile_runtime_of(bytes_of_string(type->word)));
		assert_string_equal(agent_runtime_word(kind), type->word);
		assert_non_null(strstr(type->lost_function, "function of "));
	}
	assert_true(count >= 1);
	assert_null(runtime_type_of(0));
	assert_null(agent_runtime_word(RUNTIME_KINDS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_types),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
