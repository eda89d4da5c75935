/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/runtime/likely.h"

static char directory[] = "/tmp/wick-likely-XXXXXX", path[128];

static const char *make(const char *name, const char *text)
{
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

static void test_names(void **state)
{
	static const char *const likely[] = {"python3",	 "/usr/bin/python3.11", "java",	 "node",
					     "beam.smp", "luajit-2.1",		"lua5.4"},
				 *const others[] = {"pythonic", "sleep", "javac", "/opt/node/bin/serve",
						    "luatex",	"",	 "/",	  "/tmp"};
	(void)state;
	for (size_t i = 0; i < sizeof(likely) / sizeof(*likely); i++)
		if (!runtime_is_likely_in_command(likely[i]))
			fail_msg("%s is likely", likely[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (runtime_is_likely_in_command(others[i]))
			fail_msg("%s is not likely", others[i]);
}

static void test_scripts(void **state)
{
	static const char *const likely[] = {"#!/usr/bin/python3\n", "#!/usr/bin/env python3\nx",
					     "#! /usr/bin/env -S A=1 ruby -w\n", "#!/usr/bin/perl"},
				 *const others[] = {"#!/bin/sh\npython3\n",    "#!\n",	  "#!", "#", "",
						    "#!/usr/bin/env\npython3", "#! \t \n"};
	(void)state;
	for (size_t i = 0; i < sizeof(likely) / sizeof(*likely); i++)
		if (!runtime_is_likely_in_command(make("tool", likely[i])))
			fail_msg("%s is likely", likely[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (runtime_is_likely_in_command(make("tool", others[i])))
			fail_msg("%s is not likely", others[i]);
}

static void test_long_first_line(void **state)
{
	char text[8192];
	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	memcpy(text, "#!/", 3);
	assert_false(runtime_is_likely_in_command(make("tool", text)));
	memcpy(text, "#!/usr/bin/ruby ", 16);
	assert_true(runtime_is_likely_in_command(make("tool", text)));
}

static void test_in_path(void **state)
{
	const char *before = getenv("PATH");
	char *kept = before ? strdup(before) : NULL, link[128];
	(void)state;
	make("tool", "#!/usr/bin/ruby\n");
	snprintf(link, sizeof(link), "%s/linked", directory);
	assert_int_equal(symlink("/usr/bin/python3.11", link), 0);
	assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
	assert_false(runtime_is_likely_in_command("tool"));
	assert_int_equal(setenv("PATH", directory, 1), 0);
	assert_true(runtime_is_likely_in_command("tool"));
	if (access(link, X_OK) == 0)
		assert_true(runtime_is_likely_in_command("linked"));
	assert_int_equal(unlink(link), 0);
	assert_int_equal(unsetenv("PATH"), 0);
	assert_true(runtime_is_likely_in_command("python3"));
	if (kept)
		setenv("PATH", kept, 1);
	free(kept);
}

static void test_processes(void **state)
{
	(void)state;
	assert_false(runtime_is_likely_in_process(getpid()));
	assert_false(runtime_is_likely_in_process(-1));
	assert_false(runtime_is_likely_in_process(1 << 30));
}

static int make_directory(void **state)
{
	(void)state;
	return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
	(void)state;
	make("tool", "");
	unlink(path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	cmocka_unit_test(test_scripts),	  cmocka_unit_test(test_long_first_line),
		cmocka_unit_test(test_in_path), cmocka_unit_test(test_processes),
	};
	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
