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

/* What a function that reads is told to say of an object, and how often it was asked. */
static struct {
	int result, reads[3];
} reader;

static int read_object(const struct runtime_file *file, const struct runtime_memory *memory, uint64_t object, uint32_t check,
		       struct runtime_function *ret)
{
	(void)file, (void)memory, (void)check;
	reader.reads[object >> 3]++;
	if (reader.result == 0)
		memcpy(ret->name, "{closure}", sizeof("{closure}"));
	return object >> 3 == 2 ? -EBADMSG : reader.result;
}

static const char *name_object(struct runtimes *runtimes, uint64_t object)
{
	const struct runtime_file file = {.type = runtime_type_of(RUNTIME_KIND_PHP)};
	const struct process process = {.pid = 1, .id = 7};
	const uint64_t word = RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_PHP << 56 | object << 3;
	struct runtime_name name = {0};

	assert_int_equal(runtime_name_by_line(runtimes, &process, &file, read_object, word,
					      RUNTIME_FRAME | RUNTIME_FRAME_DATA | 5 << 24, &name),
			 1);
	return name.name;
}

/* What was gone is looked for again, now and then; once one like it is there, all have its name. What is nonsense is not. */
static void test_looked_for_again(void **state)
{
	struct runtimes runtimes = {0};

	assert_int_equal(runtime_names_init(&runtimes.names), 0);
	reader.result = -ESTALE;
	assert_string_equal(name_object(&runtimes, 1), "");
	assert_string_equal(name_object(&runtimes, 2), "");
	while (reader.reads[1] < 2)
		assert_string_equal(name_object(&runtimes, 1), "");
	assert_int_equal(runtimes.counts[RUNTIME_KIND_PHP].lost, 1);
	reader.result = 0;
	while (!name_object(&runtimes, 1)[0])
		;
	assert_string_equal(name_object(&runtimes, 1), "{closure}");
	assert_int_equal(reader.reads[1], 3);
	assert_string_equal(name_object(&runtimes, 2), "");
	assert_int_equal(reader.reads[2], 1);
	reader.result = -ESTALE;
	assert_string_equal(name_object(&runtimes, 0), "{closure}"); /* has the same check */
	runtime_names_release(&runtimes.names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_looked_for_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
