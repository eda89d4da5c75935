/* SPDX-License-Identifier: Apache-2.0 */
/* The options that `wick up` and `wick server` share: what they change of what a configuration said, and how it is described.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/time.h"
#include "cmd/store_options.h"
#include "cmd/test_cmd.h"

#define DAY_NS (86400 * NS_PER_S)

/* What a configuration file may have said. */
static const struct server_options configured = {.data_directory = "/data",
						 .listen = "127.0.0.1:1",
						 .token = "of the file",
						 .retention_age_ns = 5,
						 .retention_size_bytes = 6,
						 .symbols.debuginfod_urls = "http://d"};

static void test_nothing_given(void **state)
{
	struct server_options options = configured;
	char *token = NULL;
	(void)state;
	assert_int_equal(store_arguments_apply(&(struct store_arguments){0}, &options, &token, NULL), 0);
	assert_memory_equal(&options, &configured, sizeof(options));
	assert_null(token);
}

static void test_all_given(void **state)
{
	_cleanup_(mem_freep) char *token = NULL;
	struct server_options options = configured;
	struct test_files files;
	(void)state;
	test_files_make(&files);
	struct store_arguments arguments = {.data = "/other",
					    .listen = "[::1]:2",
					    .token_file = test_write(&files, "token", "secret-token\n", 0600),
					    .keep_age = "2d",
					    .debuginfod = "http://e http://f",
					    .keep_size_bytes = 7 * GIB,
					    .insecure = true};
	assert_int_equal(store_arguments_apply(&arguments, &options, &token, NULL), 0);
	assert_string_equal(options.data_directory, "/other");
	assert_string_equal(options.listen, "[::1]:2");
	assert_string_equal(options.token, "secret-token");
	assert_ptr_equal(options.token, token);
	assert_int_equal(options.retention_age_ns, 2 * DAY_NS);
	assert_int_equal(options.retention_size_bytes, 7 * GIB);
	assert_string_equal(options.symbols.debuginfod_urls, "http://e http://f");
	assert_true(options.insecure);
	test_files_remove(&files);
}

static void test_values(void **state)
{
	struct server_options options = configured;
	struct error err = {0};
	char *token = NULL;
	(void)state;
	assert_int_equal(store_arguments_apply(&(struct store_arguments){.keep_age = "forever"}, &options, &token, &err), 0);
	assert_true(options.retention_age_ns < 0);
	assert_int_equal(store_arguments_apply(&(struct store_arguments){.debuginfod = "off"}, &options, &token, &err), 0);
	assert_string_equal(options.symbols.debuginfod_urls, "");
	static const char *const bad[] = {"", "0", "0d", "-1d", "for ever", "Forever", "7 days", "999999999999d"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&err, 0, sizeof(err));
		if (store_arguments_apply(&(struct store_arguments){.keep_age = bad[i]}, &options, &token, &err) != -EINVAL)
			fail_msg("--keep '%s' is taken", bad[i]);
		assert_memory_equal(err.message, "--keep: ", 8);
	}
	assert_int_equal(
		store_arguments_apply(&(struct store_arguments){.token_file = "/nowhere/token"}, &options, &token, &err),
		-ENOENT);
	assert_null(token);
	assert_string_equal(options.token, "of the file");
}

static void test_describe(void **state)
{
	static const struct {
		int64_t age_ns;
		uint64_t size_bytes;
		const char *want;
	} cases[] = {
		{0, 0, "kept for 30 days, at most 10.0 GiB"},
		{7 * DAY_NS, 512, "kept for 7 days, at most 512 B"},
		{DAY_NS, 0, "kept for 1 day, at most 10.0 GiB"},
		{DAY_NS + 3600 * NS_PER_S, MIB, "kept for 1 d 1 h, at most 1.0 MiB"},
		{90 * NS_PER_S, 0, "kept for 1 min 30 s, at most 10.0 GiB"},
		{-1, 0, "kept until there are 10.0 GiB"},
		{-1, 3 * GIB / 2, "kept until there are 1.5 GiB"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server_options options = {.retention_age_ns = cases[i].age_ns,
						 .retention_size_bytes = cases[i].size_bytes};
		char text[100];
		store_arguments_describe(&options, text, sizeof(text));
		assert_string_equal(text, cases[i].want);
	}
	char few[10];
	store_arguments_describe(&configured, few, sizeof(few));
	assert_int_equal(strlen(few), sizeof(few) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_given),
		cmocka_unit_test(test_all_given),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_describe),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
