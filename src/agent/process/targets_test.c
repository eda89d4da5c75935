// SPDX-License-Identifier: Apache-2.0
#include "agent/process/targets.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/cleanup.h"

static void test_children(void **state)
{
	_cleanup_(target_pids_release) struct target_pids pids = {0};
	int ready[2];
	size_t added;
	pid_t grandchild = 0;
	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid_t child = fork();
	if (child == 0) {
		pid_t its = fork();
		if (its == 0)
			pause();
		if (write(ready[1], &its, sizeof(its)) == sizeof(its))
			pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_int_equal(target_pids_add(&pids, getpid(), NULL), 0);
	assert_int_equal(target_pids_add(&pids, getpid(), NULL), 0);
	assert_int_equal(target_pids_add_children(&pids, &added, NULL), 0);
	assert_int_equal(added, 2);
	assert_int_equal(pids.items[1], child);
	assert_int_equal(pids.items[2], grandchild);
	assert_int_equal(target_pids_add_children(&pids, &added, NULL), 0);
	assert_int_equal(added, 0);
	assert_true(target_process_lives(child));
	kill(grandchild, SIGKILL);
	kill(child, SIGKILL);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_false(target_process_lives(child)); /* a zombie */
	waitpid(child, NULL, 0);
	assert_false(target_process_lives(child));
	close(ready[0]);
	close(ready[1]);
}

static void test_too_many(void **state)
{
	_cleanup_(target_pids_release) struct target_pids pids = {0};
	struct error err = {0};
	(void)state;
	for (pid_t i = 1; i <= (pid_t)TARGET_PIDS_MAX; i++)
		assert_int_equal(target_pids_add(&pids, i, NULL), 0);
	assert_int_equal(target_pids_add(&pids, (pid_t)TARGET_PIDS_MAX + 1, &err), -E2BIG);
	assert_non_null(strstr(err.message, "record all with -a"));
}

static void test_no_cgroup(void **state)
{
	_cleanup_(target_cgroups_release) struct target_cgroups cgroups = {0};
	(void)state;
	assert_int_equal(target_cgroups_find(&cgroups, TARGET_CGROUP, "/no/such/group", NULL), -ENOENT);
	assert_int_equal(target_cgroups_find(&cgroups, TARGET_CGROUP, "/x/../../..", NULL), -ENOENT);
	assert_int_equal(target_cgroups_find(&cgroups, TARGET_UNIT, "no-such-unit-at-all", NULL), -ENOENT);
	assert_true(target_cgroups_find(&cgroups, TARGET_CONTAINER, "", NULL) < 0);
	assert_int_equal(cgroups.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_no_cgroup),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
