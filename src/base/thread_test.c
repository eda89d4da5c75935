// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fault.h"
#include "base/thread.h"

struct seen {
	char name[16];
	sigset_t mask;
};

static void *look_around(void *context)
{
	struct seen *seen = context;
	pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
	pthread_sigmask(SIG_SETMASK, NULL, &seen->mask);
	return context;
}

static void test_name_signals_and_result(void **state)
{
	struct seen seen;
	pthread_t thread;
	void *result;
	sigset_t before, after;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&thread, "wick-drain", look_around, &seen, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, &seen);
	assert_string_equal(seen.name, "wick-drain");
	assert_true(sigismember(&seen.mask, SIGTERM));
	assert_true(sigismember(&seen.mask, SIGCHLD));
	assert_false(sigismember(&seen.mask, SIGSEGV));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

static void test_long_names_are_cut(void **state)
{
	struct seen seen;
	pthread_t thread;
	assert_int_equal(thread_start(&thread, "a name that is much too long", look_around, &seen, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(seen.name, "a name that is ");
}

static void *nice_of_this(void *context)
{
	*(int *)context = getpriority(PRIO_PROCESS, 0);
	return context;
}

static void *lead(void *context)
{
	int *values = context;
	pthread_t thread;
	values[0] = getpriority(PRIO_PROCESS, 0);
	thread_lead(values[0] - 2);
	thread_lead(values[0] - 1); /* it has a lower one */
	values[1] = getpriority(PRIO_PROCESS, 0);
	if (thread_start(&thread, "follows", nice_of_this, &values[2], NULL) == 0)
		pthread_join(thread, NULL);
	return context;
}

static void test_one_thread_leads(void **state)
{
	int values[3] = {0, 0, 100};
	pthread_t thread;
	assert_int_equal(thread_start(&thread, "leads", lead, values, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(values[2], values[0]);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), values[0]);
	if (values[1] == values[0]) {
		print_message("skipped: a lower nice value: not permitted\n");
		skip();
	}
	assert_int_equal(values[1], values[0] - 2);
}

static void test_failed_allocation(void **state)
{
	struct error err = {0};
	pthread_t thread;
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(thread_start(&thread, "never", look_around, NULL, &err), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	assert_int_equal(err.code, -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name_signals_and_result),
		cmocka_unit_test(test_long_names_are_cut),
		cmocka_unit_test(test_one_thread_leads),
		cmocka_unit_test(test_failed_allocation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
