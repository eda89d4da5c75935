// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "agent/process/counters.h"
#include "base/time.h"

static double row_of(const struct profile *profile, const char *name, size_t *ret_rows)
{
	double last = -1;
	*ret_rows = 0;
	for (size_t i = 0; i < profile->markers->row_count; i++) {
		const struct profile_counter *counter = &profile->markers->counters[profile->markers->rows[i].counter];
		if (strcmp(profile_string(profile, counter->name), name) != 0)
			continue;
		assert_int_equal(counter->pid, getpid());
		last = profile->markers->rows[i].value;
		++*ret_rows;
	}
	return last;
}

/* By /proc, of this very process: as much CPU time as it takes, some context switches, some memory. */
static void test_own_process(void **state)
{
	_cleanup_(counters_freep) struct counters *counters = NULL;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	size_t rows;
	(void)state;
	assert_int_equal(counters_new(false, true, 100 * NS_PER_MS, &counters, NULL), 0);
	counters_follow(counters, getpid());
	counters_follow(counters, getpid());
	assert_int_equal(counters->pid_count, 1);
	assert_int_equal(counters_read(counters, NULL), 0); /* a reading alone says nothing */
	int64_t cpu_ns = time_process_cpu_ns();
	while (time_process_cpu_ns() < cpu_ns + 200 * NS_PER_MS)
		;
	time_sleep_ns(NS_PER_MS);
	assert_int_equal(counters_read(counters, NULL), 0);
	assert_true(counters->next_ns >= counters->stats->readings[counters->stats->now].time_ns);
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(counters_move(counters, 12345, profile, NULL), 0);
	assert_true(row_of(profile, "processCPU", &rows) > 0 && rows == 1);
	assert_true(row_of(profile, "Context switches", &rows) >= 1 && rows == 1);
	assert_true(row_of(profile, "Memory", &rows) > 100000 && rows == 1);
	size_t before = profile->markers->row_count;
	assert_int_equal(counters_move(counters, 0, profile, NULL), 0); /* they are moved once */
	assert_int_equal(profile->markers->row_count, before);
}

static void test_too_many(void **state)
{
	_cleanup_(counters_freep) struct counters *counters = NULL;
	(void)state;
	assert_int_equal(counters_new(false, true, NS_PER_S, &counters, NULL), 0);
	for (pid_t i = 0; i < (pid_t)COUNTERS_PROCESSES_MAX + 3; i++)
		counters_follow(counters, PROCESSES_MAX + 1 + i); /* of none that there can be */
	assert_int_equal(counters->pid_count, COUNTERS_PROCESSES_MAX);
	assert_int_equal(counters->left_out, 3);
	assert_int_equal(counters_read(counters, NULL), 0);
	assert_int_equal(counters_read(counters, NULL), 0);
	counters_follow(counters, getpid()); /* all but the first make room: they are gone */
	assert_int_equal(counters->left_out, 3);
	assert_int_equal(counters->pids[1], getpid());
	counters_follow(counters, PROCESSES_MAX);
	assert_int_equal(counters->pids[2], PROCESSES_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_process), cmocka_unit_test(test_too_many)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
