/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/record_machine.h"

static void assert_joined(const char *const *arguments, const char *expected)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	assert_int_equal(record_join_arguments(arguments, &out), 0);
	assert_string_equal(buffer_string(&out), expected);
}

static void test_arguments(void **state)
{
	assert_joined((const char *[]){"app", "--x=1", "/a/b", NULL}, "app --x=1 /a/b");
	assert_joined((const char *[]){"app", "", "two words", "it's", "a\nb", "$HOME", NULL},
		      "app '' 'two words' 'it'\\''s' 'a\nb' '$HOME'");
	assert_joined((const char *[]){"app", "\xff\xfe", NULL}, "app \xff\xfe");
}

/* Longer than any viewer shows; cut between characters. */
static void test_long_arguments(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	size_t len = 3 * 50000;
	char *longest = malloc(len + 1);
	for (size_t i = 0; i < len; i += 3)
		memcpy(longest + i, "€", 3);
	longest[len] = '\0';
	assert_int_equal(record_join_arguments((const char *[]){"a", longest, longest, NULL}, &out), 0);
	assert_in_range(out.len, RECORD_ARGUMENTS_MAX - 8, RECORD_ARGUMENTS_MAX);
	assert_true(text_is_utf8(buffer_bytes(&out)));
	assert_string_equal(buffer_string(&out) + out.len - 4, " ...");
	free(longest);
}

static void test_arguments_of_a_process(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	int wait_fd[2];
	assert_int_equal(pipe(wait_fd), 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(wait_fd[0], 0);
		close(wait_fd[1]);
		execlp("sh", "sh", "-c", "read x; :", "", NULL);
		_exit(127);
	}
	close(wait_fd[0]);
	for (int tries = 0; tries < 3000; tries++) {
		buffer_clear(&out);
		assert_int_equal(record_read_arguments(child, &out), 0);
		if (strcmp(buffer_string(&out), "sh -c 'read x; :' ''") == 0)
			break;
		usleep(10000); /* until it has become a shell */
	}
	assert_string_equal(buffer_string(&out), "sh -c 'read x; :' ''");
	close(wait_fd[1]);
	waitpid(child, NULL, 0);
	buffer_clear(&out);
	assert_int_equal(record_read_arguments(child, &out), 0);
	assert_int_equal(out.len, 0);
}

static void test_cpus(void **state)
{
	struct bytes info =
		bytes_of_string("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz \nphysical id\t: 0\ncore id\t\t: 0\n\n"
				"processor\t: 1\nmodel name\t: Other\nphysical id\t: 0\ncore id\t\t: 0\n\n"
				"processor\t: 2\nphysical id\t: 1\ncore id\t\t: 0\ncore id of it: 7\n"
				"physical id\t: 99999999999999999999\ncore id\t: x\n");
	struct bytes name = record_cpu_name(info);
	assert_true(bytes_equal_string(name, "Some CPU @ 2 GHz"));
	assert_int_equal(record_count_cores(info), 2);
	assert_int_equal(record_count_cores((struct bytes){0}), 0);
	assert_int_equal(record_cpu_name((struct bytes){0}).len, 0);
}

static void test_machine(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_machine machine = {0};
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(record_describe_machine(profile, &machine, NULL), 0);
	assert_int_equal(strncmp(profile_string(profile, machine.system), "Linux ", 6), 0);
	assert_true(machine.logical_cpus > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_long_arguments),
		cmocka_unit_test(test_arguments_of_a_process),
		cmocka_unit_test(test_cpus),
		cmocka_unit_test(test_machine),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
