/* SPDX-License-Identifier: Apache-2.0 */
/* What verbs share: values of options, tokens, directories, signals. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "base/alloc.h"
#include "base/limits.h"
#include "base/time.h"
#include "cmd/test_cmd.h"

static void test_event(void **state)
{
	struct error err = {0};
	bool cycles = true;
	(void)state;
	assert_int_equal(parse_event(NULL, &cycles, &err), 0);
	assert_false(cycles);
	assert_int_equal(parse_event("cycles", &cycles, &err), 0);
	assert_true(cycles);
	assert_int_equal(parse_event("cpu-clock", &cycles, &err), 0);
	assert_false(cycles);
	static const char *const bad[] = {"", "cycle", "cycles ", "Cycles", "cpu_clock", "instructions"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(parse_event(bad[i], &cycles, &err), -EINVAL);
		assert_non_null(strstr(err.message, "must be cpu-clock or cycles"));
	}
}

static void test_off_cpu(void **state)
{
	static const struct {
		const char *text;
		uint32_t chance;
		int64_t least_ns;
	} good[] = {
		{NULL, 0, 0},
		{"100%", UINT32_MAX, 0},
		{"1", UINT32_MAX, 0}, /* a share, not a second */
		{"1s", UINT32_MAX, NS_PER_S},
		{"50%", 0x80000000u, 0},
		{"0.5", 0x80000000u, 0},
		{"25%,1ms", 0x40000000u, NS_PER_MS},
		{"1ms,25%", 0x40000000u, NS_PER_MS},
		{"1ms", UINT32_MAX, NS_PER_MS},
		{"10us,1", UINT32_MAX, 10000},
		{"0.0001%", 4294, 0},
		{"1e-6", 4294, 0},
	};
	static const char *const bad[] = {"",
					  ",",
					  "1%,",
					  ",1%",
					  "0",
					  "0%",
					  "101%",
					  "1.01",
					  "-1%",
					  "0.00009%",
					  "1%,2%",
					  "1ms,2ms",
					  "1ms,1%,2%",
					  "1%%",
					  "%",
					  "1 %",
					  "percent",
					  "nan",
					  "inf",
					  "1parsec",
					  "1%;1ms",
					  "ms",
					  "99999999999h",
					  "00000000000000000000000000000000000000001%"};
	struct error err = {0};
	uint32_t chance;
	int64_t least_ns;
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		chance = 7, least_ns = 7;
		if (parse_off_cpu(good[i].text, &chance, &least_ns, &err) != 0)
			fail_msg("%s: %s", good[i].text, err.message);
		assert_int_equal(chance, good[i].chance);
		assert_int_equal(least_ns, good[i].least_ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(&err, 0, sizeof(err));
		if (parse_off_cpu(bad[i], &chance, &least_ns, &err) != -EINVAL)
			fail_msg("'%s' is taken", bad[i]);
		assert_memory_equal(err.message, "--off-cpu", 9);
	}
}

static void test_budget(void **state)
{
	static const struct {
		const char *text;
		double share;
	} good[] = {{NULL, AGENT_BUDGET_DEFAULT}, {"0", 0}, {"0.5", 0.005}, {"100", 1}, {"10000", 100}, {"1e2", 1}};
	static const char *const bad[] = {"", "-0.1", "10001", "1%", "nan", "inf", "0x1", " 1", "1 ", "a", "1e999"};
	struct error err = {0};
	double share;
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		share = -2;
		assert_int_equal(parse_budget(good[i].text, &share, &err), 0);
		assert_true(share > good[i].share - 1e-12 && share < good[i].share + 1e-12);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		share = -1;
		assert_int_equal(parse_budget(bad[i], &share, &err), -EINVAL);
		assert_true(share < 0);
		assert_non_null(strstr(err.message, "is not a percentage"));
	}
}

static void test_labels(void **state)
{
	struct option_list list = {.items = {"env=prod", "zone=a=b", "env=test", "empty="}, .count = 4};
	struct error err = {0};
	struct labels labels;
	(void)state;
	assert_int_equal(parse_labels("--label", &list, &labels, &err), 0);
	assert_int_equal(labels.count, 2);
	assert_string_equal(labels_get(&labels, "env"), "test");
	assert_string_equal(labels_get(&labels, "zone"), "a=b");
	labels_release(&labels);
	static const char *const bad[] = {"", "env", "=x", "1a=x", "a b=x", "a-b=x"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		list = (struct option_list){.items = {"env=prod", bad[i]}, .count = 2};
		assert_true(parse_labels("--label", &list, &labels, &err) < 0);
		assert_memory_equal(err.message, "--label: ", 9);
	}
}

/* As somebody who is not root: in a child, since there is no way back. */
static void test_directories_of_users(void **state)
{
	char out[64];
	struct error err = {0};
	(void)state;
	if (geteuid() == 0) {
		setenv("HOME", "/home/x", 1);
		assert_int_equal(default_data_directory(out, sizeof(out), &err), 0);
		assert_string_equal(out, "/var/lib/wick");
		assert_int_equal(default_data_directory(out, 13, &err), -ENAMETOOLONG);
	}
	pid_t pid = fork();
	if (pid == 0) {
		int wrong = geteuid() == 0 && seteuid(65534) < 0;
		setenv("XDG_DATA_HOME", "/data", 1);
		setenv("HOME", "/home/x", 1);
		wrong |= default_data_directory(out, sizeof(out), NULL) != 0 || strcmp(out, "/data/wick") != 0;
		setenv("XDG_DATA_HOME", "relative", 1); /* by its standard, to be ignored */
		wrong |= default_data_directory(out, sizeof(out), NULL) != 0 || strcmp(out, "/home/x/.local/share/wick") != 0;
		wrong |= default_data_directory(out, strlen("/home/x/.local/share/wick"), NULL) != -ENAMETOOLONG;
		setenv("HOME", "", 1);
		wrong |= default_data_directory(out, sizeof(out), NULL) != -ENOENT;
		unsetenv("XDG_DATA_HOME");
		unsetenv("HOME");
		wrong |= default_data_directory(out, sizeof(out), NULL) != -ENOENT;
		unsetenv("WICK_CACHE");
		wrong |= unwind_cache_directory() != NULL;
		wrong |= symbol_cache_directory() != NULL;
		setenv("HOME", "/home/x", 1);
		wrong |= strcmp(symbol_cache_directory(), "/home/x/.cache/wick/symbols") != 0;
		setenv("XDG_CACHE_HOME", "relative", 1);
		wrong |= strcmp(symbol_cache_directory(), "/home/x/.cache/wick/symbols") != 0;
		setenv("XDG_CACHE_HOME", "/caches", 1);
		wrong |= strcmp(symbol_cache_directory(), "/caches/wick/symbols") != 0;
		setenv("WICK_CACHE", "/tmp/cache", 1);
		wrong |= strcmp(symbol_cache_directory(), "/tmp/cache/symbols") != 0;
		setenv("WICK_CACHE", "", 1);
		wrong |= symbol_cache_directory() != NULL;
		_exit(wrong);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_cache_directory(void **state)
{
	(void)state;
	setenv("WICK_CACHE", "/tmp/cache", 1);
	assert_string_equal(unwind_cache_directory(), "/tmp/cache");
	assert_string_equal(symbol_cache_directory(), "/tmp/cache/symbols");
	setenv("WICK_CACHE", "", 1);
	assert_null(unwind_cache_directory());
	assert_null(symbol_cache_directory());
	unsetenv("WICK_CACHE");
	if (geteuid() == 0)
		assert_string_equal(symbol_cache_directory(), "/var/cache/wick/symbols");
	if (geteuid() == 0)
		assert_string_equal(unwind_cache_directory(), "/var/cache/wick");
}

static void count(void *context)
{
	++*(volatile int *)context;
}

static void test_signals(void **state)
{
	volatile int stops = 0, reloads = 0;
	(void)state;
	signals_install(count, (void *)(uintptr_t)&stops, true);
	signals_install_reload(count, (void *)(uintptr_t)&reloads);
	raise(SIGCHLD);
	assert_int_equal(stops, 1);
	assert_int_equal(signals_interrupted(), 0);
	raise(SIGHUP);
	assert_int_equal(reloads, 1);
	raise(SIGTERM);
	raise(SIGCHLD);
	assert_int_equal(stops, 3);
	assert_int_equal(signals_interrupted(), SIGTERM);
	signals_reset();
	assert_int_equal(signals_interrupted(), 0);
	raise(SIGCHLD); /* ignored by default */
	assert_int_equal(stops, 3);
}

/* Who asks twice is not kept waiting. */
static void test_second_signal(void **state)
{
	int status = -1;
	(void)state;
	pid_t pid = fork();
	if (pid == 0) {
		int stops = 0;
		signals_install(count, &stops, false);
		raise(SIGINT);
		if (stops == 1 && signals_interrupted() == SIGINT)
			raise(SIGTERM);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
}

/* Sent before signals_install(), which a shell's background job and a thread's child would never get. */
static void test_a_signal_while_loading(void **state)
{
	static const int numbers[] = {SIGINT, SIGTERM};
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		int status = -1, number = numbers[i / 2];
		pid_t pid = fork();
		if (pid == 0) {
			sigset_t set;
			sigemptyset(&set);
			sigaddset(&set, number);
			if (i % 2)
				sigprocmask(SIG_BLOCK, &set, NULL);
			else
				signal(number, SIG_IGN);
			signals_prepare();
			raise(number);
			_exit(1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), number);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_event),
		cmocka_unit_test(test_off_cpu),
		cmocka_unit_test(test_budget),
		cmocka_unit_test(test_labels),
		cmocka_unit_test(test_directories_of_users),
		cmocka_unit_test(test_cache_directory),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_second_signal),
		cmocka_unit_test(test_a_signal_while_loading),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
