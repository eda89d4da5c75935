// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptors.h"

/* In a process of its own: limits cannot be raised again. */
static void in_child(int (*body)(void))
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int raise_and_fill(void)
{
	struct rlimit limit = {.rlim_cur = 20, .rlim_max = 50};
	/* The limit is one on their numbers: what was inherited may be above it. */
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || descriptors_max() != 20)
		return 1;
	descriptors_raise();
	descriptors_raise();
	if (descriptors_max() != 50)
		return 2;
	uint64_t before = descriptors_open();
	int one = open("/dev/null", O_RDONLY);
	if (before < 3 || one < 0 || descriptors_open() != before + 1)
		return 3;
	close(one);
	if (descriptors_open() != before)
		return 4;
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	return errno == EMFILE && descriptors_open() == 50 ? 0 : 5;
}

static void test_raise_and_fill(void **state)
{
	in_child(raise_and_fill);
}

/* Where the hard limit is what others call none. */
static int raise_to_bound(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 64;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1;
	descriptors_raise();
	return descriptors_max() == (limit.rlim_max < DESCRIPTORS_RAISED_MAX ? limit.rlim_max : DESCRIPTORS_RAISED_MAX) ? 0 : 2;
}

static void test_bound(void **state)
{
	in_child(raise_to_bound);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_raise_and_fill),
		cmocka_unit_test(test_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
