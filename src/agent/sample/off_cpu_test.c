// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/sample/off_cpu.h"
#include "base/fault.h"

static struct abi_sample begin_of(unsigned tid, uint64_t time_ns)
{
	return (struct abi_sample){
		.tid = tid, .tgid = 7, .time_ns = time_ns, .value = ABI_CHANCE_ALWAYS, .what = ABI_WAIT_BEGINS};
}

static void test_begin_and_end(void **state)
{
	struct off_cpu off_cpu = {0};
	struct abi_sample sample, got;

	assert_false(off_cpu_end(&off_cpu, 1, &got));
	for (unsigned tid = 1; tid <= 1000; tid++) {
		sample = begin_of(tid, tid);
		assert_int_equal(off_cpu_begin(&off_cpu, &sample), 0);
	}
	sample = begin_of(500, 12345); /* the end of the first was lost */
	assert_int_equal(off_cpu_begin(&off_cpu, &sample), 0);
	assert_int_equal(off_cpu.count, 1000);
	for (unsigned i = 0; i < 1000; i++) { /* from somewhere in the middle on */
		unsigned tid = (i * 7 + 350) % 1000 + 1;
		assert_true(off_cpu_end(&off_cpu, (pid_t)tid, &got));
		assert_int_equal(got.tid, tid);
		assert_int_equal(got.time_ns, tid == 500 ? 12345 : tid);
		assert_false(off_cpu_end(&off_cpu, (pid_t)tid, &got));
	}
	assert_int_equal(off_cpu.count, 0);
	off_cpu_release(&off_cpu);
}

static void test_full(void **state)
{
	struct off_cpu off_cpu = {0};
	struct abi_sample sample;

	for (unsigned tid = 1; tid <= OFF_CPU_MAX + 3; tid++) {
		sample = begin_of(tid, tid);
		assert_int_equal(off_cpu_begin(&off_cpu, &sample), 0);
	}
	assert_int_equal(off_cpu.count, OFF_CPU_MAX);
	assert_int_equal(off_cpu.dropped, 3);
	off_cpu_release(&off_cpu);
}

static void test_values(void **state)
{
	struct abi_sample sample = begin_of(1, 1);

	assert_int_equal(off_cpu_value(&sample, 123456789), 123456789);
	sample.value = 1u << 31;
	assert_int_equal(off_cpu_value(&sample, 1000), 2000);
	sample.value = 42949673; /* 1 % */
	assert_in_range(off_cpu_value(&sample, 1000000), 99999990, 100000010);
	sample.value = 1;
	assert_true(off_cpu_value(&sample, UINT64_MAX) > 0);
	sample.value = 0;
	assert_int_equal(off_cpu_value(&sample, 5), 5);
}

/* Chains of threads that wait outlive the epochs that end meanwhile. */
static void test_chains_are_kept(void **state)
{
	const uint64_t user[3] = {1, 2, 3}, kernel[2] = {8, 9}, filler[64] = {0};
	struct abi_sample sample = begin_of(1, 1);
	struct chains chains = {.frames_max = 128};
	struct off_cpu off_cpu = {0};
	const uint64_t *frames;
	size_t count;

	sample.user_chain = 100;
	sample.kernel_chain = 200;
	assert_int_equal(chains_put(&chains, 100, user, 3), 0);
	assert_int_equal(chains_put(&chains, 200, kernel, 2), 0);
	assert_int_equal(off_cpu_begin(&off_cpu, &sample), 0);
	for (uint64_t epoch = 0; epoch < 5; epoch++) {
		assert_int_equal(chains_put(&chains, 1000 + epoch, filler, 64), 0);
		assert_true(chains_are_due(&chains));
		assert_int_equal(off_cpu_keep_chains(&off_cpu, &chains), 0);
		assert_true(chains_turn(&chains));
	}
	assert_true(chains_find(&chains, 100, &frames, &count));
	assert_int_equal(count, 3);
	assert_memory_equal(frames, user, sizeof(user));
	assert_true(chains_find(&chains, 200, &frames, &count));
	assert_int_equal(count, 2);
	assert_false(chains_find(&chains, 1001, &frames, &count));
	off_cpu_release(&off_cpu);
	chains_release(&chains);
}

static int begin_one(void)
{
	struct off_cpu off_cpu = {0};
	struct abi_sample sample = begin_of(1, 1);

	int r = off_cpu_begin(&off_cpu, &sample);
	assert_true(r == 0 || off_cpu.count == 0);
	off_cpu_release(&off_cpu);
	return r;
}

static void test_memory_is_short(void **state)
{
	unsigned failed = 0;

	for (int n = 1; n < 20; n++) {
		fault_arm(FAULT_ALLOC, (uint64_t)n, 0);
		int r = begin_one();
		fault_disarm(FAULT_ALLOC);
		failed += r == -ENOMEM;
		assert_true(r == 0 || r == -ENOMEM);
	}
	assert_true(failed >= 2);
}

struct found {
	unsigned sleepers, mine;
	pid_t wanted;
};

static int on_found(void *context, pid_t tid, const char *comm)
{
	struct found *found = context;

	found->sleepers++;
	found->mine += tid == found->wanted && strcmp(comm, "a) S (b") == 0;
	return 0;
}

static void *sleep_long(void *context)
{
	prctl(PR_SET_NAME, "a) S (b");
	*(volatile pid_t *)context = gettid();
	pause();
	return NULL;
}

/* This thread runs, the other one sleeps, under a name that tries to confuse. */
static void test_sleepers_are_found(void **state)
{
	struct found found = {0};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, sleep_long, &found.wanted), 0);
	for (int i = 0; i < 12000 && !found.mine; i++) { /* minutes: a new thread may have to wait for the CPU */
		usleep(10000);
		found.sleepers = 0;
		assert_int_equal(off_cpu_find_sleepers(getpid(), on_found, &found), 0);
	}
	assert_int_equal(found.mine, 1);
	assert_int_equal(found.sleepers, 1);
	assert_int_equal(off_cpu_find_sleepers(1 << 22 /* no pid is as large */, on_found, &found), 0);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begin_and_end),	cmocka_unit_test(test_full),
		cmocka_unit_test(test_values),		cmocka_unit_test(test_chains_are_kept),
		cmocka_unit_test(test_memory_is_short), cmocka_unit_test(test_sleepers_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
