/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of `wick record`: held back, started, their ends, and what can go wrong before. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include <signal.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "cmd/launch.h"
#include "cmd/test_cmd.h"

static char sh[] = "/bin/sh", dash_c[] = "-c";

static struct launch shell(char *script)
{
	static char *command[4];
	command[0] = sh, command[1] = dash_c, command[2] = script, command[3] = NULL;
	return (struct launch){.command = command, .go_fd = -1, .problem_fd = -1};
}

static void test_variables(void **state)
{
	static const char *const good[] = {"A=1", "A=", "a=b=c", "A==", "1=x"}, *const bad[] = {"", "A", "=", "=x"};
	struct error err = {0};
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(launch_check_variable(good[i], &err), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(launch_check_variable(bad[i], &err), -EINVAL);
	assert_string_equal(err.message, "--env: '=x' is not of the form NAME=VALUE");
}

/* It does nothing until it is released, then runs with its environment, directory and output. */
static void test_runs(void **state)
{
	static const char *const environment[] = {"WICK_A=one", "WICK_B=two=2"};
	struct launch launch = shell((char[]){"echo $WICK_A $WICK_B >file; pwd; exit 7"});
	static struct test_capture printed;
	struct test_files files;
	(void)state;
	test_files_make(&files);
	launch.environment = environment;
	launch.environment_count = 2;
	launch.directory = files.directory;
	launch.output_to_stderr = true;
	test_capture_begin(&printed);
	int prepared = launch_prepare(&launch, NULL);
	bool early = launch_has_ended(&launch) || test_exists(&files, "file");
	int went = launch_go(&launch, NULL);
	launch_wait(&launch);
	launch_report(&launch);
	test_capture_end(&printed);
	assert_int_equal(prepared, 0);
	assert_false(early);
	assert_int_equal(went, 0);
	assert_true(launch_has_ended(&launch));
	assert_int_equal(launch_exit_status(&launch), 7);
	assert_int_equal(launch.failed, 0);
	assert_string_equal(test_read(&files, "file"), "one two=2\n");
	char want[200];
	snprintf(want, sizeof(want), "%s\nwick record: /bin/sh ended with status 7\n", files.directory);
	assert_string_equal(printed.err, want);
	assert_string_equal(printed.out, "");
	assert_null(getenv("WICK_A"));
	launch_release(&launch);
	launch_release(&launch); /* once more does no harm */
	test_files_remove(&files);
}

/* What wick needs for itself is not what the command was started with. */
static void test_signals_are_as_they_were(void **state)
{
	struct launch launch = shell((char[]){"kill -INT $$; echo on >file"});
	struct test_files files;
	(void)state;
	test_files_make(&files);
	launch.directory = files.directory;
	signal(SIGINT, SIG_IGN);
	signals_prepare();
	assert_int_equal(launch_prepare(&launch, NULL), 0);
	assert_int_equal(launch_go(&launch, NULL), 0);
	launch_wait(&launch);
	signals_give_back();
	signal(SIGINT, SIG_DFL);
	assert_int_equal(launch_exit_status(&launch), 0);
	assert_string_equal(test_read(&files, "file"), "on\n");
	launch_release(&launch);
	test_files_remove(&files);
}

static void test_success_is_silent(void **state)
{
	struct launch launch = shell((char[]){"echo out"});
	static struct test_capture printed;
	(void)state;
	test_capture_begin(&printed);
	assert_int_equal(launch_prepare(&launch, NULL), 0);
	assert_int_equal(launch_go(&launch, NULL), 0);
	launch_wait(&launch);
	launch_report(&launch);
	test_capture_end(&printed);
	assert_int_equal(launch_exit_status(&launch), EXIT_DONE);
	assert_string_equal(printed.out, "out\n");
	assert_string_equal(printed.err, "");
	launch_release(&launch);
}

static void check_failure(char *program, const char *directory, int code, int failed, const char *message)
{
	char *command[] = {program, NULL};
	struct launch launch = {.command = command, .directory = directory, .go_fd = -1, .problem_fd = -1};
	struct error err = {0};
	assert_int_equal(launch_prepare(&launch, &err), 0);
	assert_int_equal(launch_go(&launch, &err), code);
	assert_int_equal(launch.failed, failed);
	assert_true(launch_has_ended(&launch));
	if (!strstr(err.message, message))
		fail_msg("%s", err.message);
	launch_release(&launch);
}

/* Statuses are those of shells: 127 there is no such command, 126 it cannot be run. */
static void test_failures(void **state)
{
	struct test_files files;
	char path[128];
	(void)state;
	test_files_make(&files);
	check_failure((char[]){"/nowhere/command"}, NULL, -ENOENT, LAUNCH_NOT_FOUND, "cannot run /nowhere/command");
	check_failure((char[]){"wick-no-such-command"}, NULL, -ENOENT, LAUNCH_NOT_FOUND, "cannot run wick-no-such-command");
	snprintf(path, sizeof(path), "%s", test_write(&files, "text", "text", 0600));
	check_failure(path, NULL, -EACCES, LAUNCH_NOT_STARTED, "cannot run");
	chmod(path, 0700);
	check_failure((char[]){"/bin/true"}, path, -ENOTDIR, LAUNCH_NOT_STARTED, "cannot enter the directory");
	check_failure((char[]){"/bin/true"}, "/nowhere", -ENOENT, LAUNCH_NOT_STARTED, "cannot enter the directory /nowhere");
	test_files_remove(&files);
}

/* Nothing runs that was not let go. */
static void test_release_ends_it(void **state)
{
	struct launch launch = shell((char[]){"touch file"});
	struct test_files files;
	(void)state;
	test_files_make(&files);
	launch.directory = files.directory;
	assert_false(launch_has_ended(&launch));
	assert_int_equal(launch_exit_status(&launch), EXIT_DONE);
	assert_int_equal(launch_prepare(&launch, NULL), 0);
	launch_release(&launch);
	launch_wait(&launch);
	assert_int_equal(launch_exit_status(&launch), LAUNCH_NOT_FOUND);
	assert_false(test_exists(&files, "file"));
	test_files_remove(&files);
}

/* Whoever started us sees the signal that ended the command: hence in a child. */
static void test_signal(void **state)
{
	struct launch launch = shell((char[]){"kill -TERM $$"});
	static struct test_capture printed;
	int status = -1;
	(void)state;
	assert_int_equal(launch_prepare(&launch, NULL), 0);
	assert_int_equal(launch_go(&launch, NULL), 0);
	launch_wait(&launch);
	test_capture_begin(&printed);
	launch_report(&launch);
	test_capture_end(&printed);
	assert_string_equal(printed.err, "wick record: /bin/sh was killed by signal 15 (Terminated)\n");
	pid_t pid = fork();
	if (pid == 0)
		_exit(launch_exit_status(&launch));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	launch_release(&launch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_variables),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_signals_are_as_they_were),
		cmocka_unit_test(test_success_is_silent),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_release_ends_it),
		cmocka_unit_test(test_signal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
