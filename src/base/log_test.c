// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/time.h"

static char captured[1 << 20];
static int saved_stderr, capture_file;

static void start_capture(void)
{
	char path[] = "/tmp/wick-log-test-XXXXXX";
	capture_file = mkstemp(path);
	assert_true(capture_file >= 0);
	unlink(path);
	saved_stderr = dup(STDERR_FILENO);
	assert_int_equal(dup2(capture_file, STDERR_FILENO), STDERR_FILENO);
}

static void end_capture(void)
{
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	ssize_t len = pread(capture_file, captured, sizeof(captured) - 1, 0);
	assert_true(len >= 0);
	captured[len] = '\0';
	close(capture_file);
}

static void expect_line(const char *level, const char *message)
{
	regex_t pattern;
	char expression[128];
	snprintf(expression, sizeof(expression), "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z %s ", level);
	assert_int_equal(regcomp(&pattern, expression, REG_EXTENDED), 0);
	regmatch_t match;
	assert_int_equal(regexec(&pattern, captured, 1, &match, 0), 0);
	regfree(&pattern);
	char expected[4096];
	snprintf(expected, sizeof(expected), "%s\n", message);
	assert_string_equal(captured + match.rm_eo, expected);
}

static void test_line_has_time_and_level(void **state)
{
	start_capture();
	errno = ERANGE;
	log_warn("disk %d%% full", 97);
	assert_int_equal(errno, ERANGE);
	end_capture();
	expect_line("warning", "disk 97% full");
}

static void test_levels(void **state)
{
	start_capture();
	log_set_level(LOG_ERROR);
	log_warn("not shown");
	log_info("not shown");
	end_capture();
	assert_string_equal(captured, "");
	log_set_level(LOG_INFO);
	start_capture();
	log_info("shown");
	end_capture();
	expect_line("info", "shown");
}

static void test_control_characters_are_escaped(void **state)
{
	start_capture();
	log_error("%s", "a\nb\rc\td\033[31m\x7f \x01 \xc2\x9b"
			"31m \xff gr\xc3\xbc\xc3\x9f");
	end_capture();
	expect_line("error", "a\\nb\\x0dc\\td\\x1b[31m\\x7f \\x01 \\xc2\\x9b31m \\xff gr\xc3\xbc\xc3\x9f");
}

static void test_long_messages_are_cut(void **state)
{
	char text[10000];
	memset(text, '\x01', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	start_capture();
	log_info("%s", text);
	end_capture();
	size_t len = strlen(captured);
	assert_true(len > 8000 && len < 9000);
	assert_string_equal(captured + len - 8, "\\x01...\n");
}

#define THREADS	   4
#define LINES_EACH 200

static void *write_lines(void *context)
{
	for (int i = 0; i < LINES_EACH; i++)
		log_info("thread %d says a line of some length", *(int *)context);
	return NULL;
}

static void test_lines_of_threads_do_not_mix(void **state)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];
	start_capture();
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &numbers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	end_capture();
	int lines = 0;
	char *rest = captured, *line;
	while ((line = strsep(&rest, "\n")) && *line) {
		int number;
		assert_int_equal(sscanf(line, "%*s info thread %d says a line of some length", &number), 1);
		assert_int_equal(strlen(line), strlen("1970-01-01T00:00:00.000Z info thread 0 says a line of some length"));
		lines++;
	}
	assert_int_equal(lines, THREADS * LINES_EACH);
}

static void test_limit(void **state)
{
	struct log_limit limit = {0};
	uint64_t count = 7;
	(void)state;
	assert_true(log_limit_add(&limit, 3, &count));
	assert_int_equal(count, 3);
	assert_false(log_limit_add(&limit, 1, &count));
	assert_false(log_limit_add(&limit, 2, &count));
	assert_int_equal(count, 3);
	/* The minute is over. */
	assert_true(limit.next_ns > time_monotonic_ns());
	limit.next_ns = 0;
	assert_true(log_limit_add(&limit, 4, &count));
	assert_int_equal(count, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line_has_time_and_level),	       cmocka_unit_test(test_levels),
		cmocka_unit_test(test_control_characters_are_escaped), cmocka_unit_test(test_long_messages_are_cut),
		cmocka_unit_test(test_lines_of_threads_do_not_mix),    cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
