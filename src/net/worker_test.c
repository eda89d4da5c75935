/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is: order of jobs without threads, and with them what runs at the same time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "net/net_int.h"

#define JOBS 32

struct test_job {
	struct net_job job; /* first */
	char name;
};
static struct test_job jobs[JOBS];
static size_t job_count;
static char order[JOBS + 1];
static volatile int running[2], most[2], gate_open;
static struct net_workers workers;

static void note(struct net_job *job)
{
	/* Who waits for it reads it meanwhile; behind it there are zeros. */
	__atomic_store_n(&order[strlen(order)], ((struct test_job *)job)->name, __ATOMIC_SEQ_CST);
}

static void nothing(struct net_job *job)
{
	(void)job;
}

static void no_notify(void *context)
{
	(void)context;
}

static int submit(char name, uint64_t key, bool slow, void (*run)(struct net_job *job))
{
	struct test_job *job = &jobs[job_count++];
	*job = (struct test_job){.job = {.run = run, .done = nothing, .kind = slow ? NET_JOB_SLOW : NET_JOB_FAST, .key = key},
				 .name = name};
	return workers_submit(&workers, &job->job, false);
}

static void start(unsigned threads, unsigned slots, size_t queue_max)
{
	job_count = 0;
	memset(order, 0, sizeof(order));
	memset((void *)running, 0, sizeof(running));
	memset((void *)most, 0, sizeof(most));
	gate_open = 0;
	assert_int_equal(workers_init(&workers, threads, no_notify, NULL, NULL), 0);
	pthread_mutex_lock(&workers.lock);
	workers.slots[NET_JOB_SLOW] = slots;
	workers.queue_max[NET_JOB_SLOW] = queue_max;
	pthread_mutex_unlock(&workers.lock);
}

static void test_turns(void **state)
{
	start(0, 1, 100);
	for (const char *name = "abcde"; *name; name++)
		submit(*name, 1, true, note);
	submit('X', 2, true, note);
	submit('Y', 2, true, note);
	submit('!', 1, false, note); /* not slow: goes first */
	workers_run_here(&workers);
	assert_string_equal(order, "!aXbYcde");
	/* Who was served much has no advantage and no debt. */
	memset(order, 0, sizeof(order));
	submit('f', 1, true, note);
	submit('Z', 2, true, note);
	workers_run_here(&workers);
	assert_string_equal(order, "fZ");
	workers_release(&workers);
}

static void test_full_queue(void **state)
{
	start(0, 1, 1); /* one place to run, one to wait */
	assert_int_equal(submit('a', 1, true, note), 0);
	assert_int_equal(submit('b', 1, true, note), 0);
	assert_int_equal(submit('c', 1, true, note), -EBUSY);
	assert_int_equal(submit('d', 1, false, note), 0);
	uint64_t now_running, waiting, refused;
	workers_count(&workers, NET_JOB_SLOW, &now_running, &waiting, &refused);
	assert_int_equal(now_running, 0);
	assert_int_equal(waiting, 2);
	assert_int_equal(refused, 1);
	workers_run_here(&workers);
	assert_string_equal(order, "dab");
	workers_release(&workers);
}

static void hold(struct net_job *job)
{
	size_t who = job->key & 1;
	int now = __atomic_add_fetch(&running[who], 1, __ATOMIC_SEQ_CST);
	int old = __atomic_load_n(&most[who], __ATOMIC_SEQ_CST);
	while (now > old && !__atomic_compare_exchange_n(&most[who], &old, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	while (!__atomic_load_n(&gate_open, __ATOMIC_SEQ_CST))
		time_sleep_ns(NS_PER_MS);
	__atomic_sub_fetch(&running[who], 1, __ATOMIC_SEQ_CST);
}

static void wait_for(const volatile int *value, int expected)
{
	for (int i = 0; i < 120000 && __atomic_load_n(value, __ATOMIC_SEQ_CST) != expected; i++)
		time_sleep_ns(NS_PER_MS);
	assert_int_equal(__atomic_load_n(value, __ATOMIC_SEQ_CST), expected);
}

/* One client's jobs take all places but one; the other's first job does not wait; jobs that are not slow go on. */
static void test_no_client_has_all(void **state)
{
	start(5, 3, 100);
	for (int i = 0; i < 8; i++)
		assert_int_equal(submit('a', 2, true, hold), 0);
	wait_for(&running[0], 2);
	assert_int_equal(submit('x', 3, true, hold), 0);
	wait_for(&running[1], 1);
	assert_int_equal(submit('!', 9, false, note), 0);
	for (int i = 0; i < 120000 && !__atomic_load_n(&order[0], __ATOMIC_SEQ_CST); i++)
		time_sleep_ns(NS_PER_MS);
	assert_string_equal(order, "!");
	assert_int_equal(running[0], 2);
	__atomic_store_n(&gate_open, 1, __ATOMIC_SEQ_CST);
	uint64_t now_running = 1, waiting = 1, refused;
	for (int i = 0; i < 120000 && (now_running || waiting); i++) {
		time_sleep_ns(NS_PER_MS);
		workers_count(&workers, NET_JOB_SLOW, &now_running, &waiting, &refused);
	}
	assert_int_equal(now_running + waiting, 0);
	assert_int_equal(most[0], 2);
	workers_collect(&workers);
	workers_release(&workers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_full_queue),
		cmocka_unit_test(test_no_client_has_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
