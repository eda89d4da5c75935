/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a host against its server's: whatever the clocks and the network do, the truth is within the bound. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock_fit.h"
#include "base/time.h"
#include "control/clock_sync.h"

#define START (1763790000ll * NS_PER_S)

static uint64_t seed = 88172645463325252ull;
static int64_t below(int64_t most)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (int64_t)(seed % (uint64_t)most);
}

/* What the host's clock shows when the server's shows time_ns. */
static int64_t host_time(int64_t time_ns, int64_t offset_ns, double skew)
{
	return time_ns + offset_ns + (int64_t)((double)(time_ns - START) * skew);
}

static void test_truth_is_within_the_bound(void **state)
{
	static struct clock_sync sync;
	(void)state;
	for (int round = 0; round < 300; round++) {
		int64_t offset_ns = below(20 * NS_PER_S) - 10 * NS_PER_S;
		double skew = (double)(below(400) - 200) * 1e-6;
		int64_t fastest = 50000 + below(NS_PER_MS), count = 2 + below(100);
		clock_sync_forget(&sync);
		for (int64_t i = 0; i < count; i++) {
			int64_t at = START + i * 5 * NS_PER_S, there = fastest + below(10 * NS_PER_MS) * (below(4) == 0),
				back = fastest + below(10 * NS_PER_MS) * (below(4) == 0);
			struct clock_sample sample = {host_time(at, offset_ns, skew), at + there, at + there + 30000,
						      host_time(at + there + 30000 + back, offset_ns, skew)};
			clock_sync_add(&sync, "server", &sample);
		}
		int64_t end = START + count * 5 * NS_PER_S;
		int64_t from_ns = host_time(START, offset_ns, skew), to_ns = host_time(end, offset_ns, skew);
		struct host_clock clock = clock_sync_fit(&sync, from_ns, to_ns);
		struct clock_line line = {clock.at_ns, clock.offset_ns, clock.skew};
		assert_string_equal(clock.reference, "server");
		for (int64_t t = START; t <= end; t += (end - START) / 7) {
			int64_t wrong_ns = clock_line_apply(line, host_time(t, offset_ns, skew)) - t;
			assert_true(llabs(wrong_ns) <= clock.bound_ns + 1000); /* a microsecond: rounding of this test's own */
		}
	}
}

static void test_forgets(void **state)
{
	static struct clock_sync sync;
	struct clock_sample sample = {START, START + 100, START + 200, START + 300};
	(void)state;
	assert_string_equal(clock_sync_fit(&sync, 0, 0).reference, "");
	clock_sync_add(&sync, "one", &sample);
	struct clock_sample later = {START + 60 * NS_PER_S, START + 65 * NS_PER_S, START + 65 * NS_PER_S,
				     START + 60 * NS_PER_S};
	clock_sync_add(&sync, "two", &later); /* set forward by 5 s */
	struct host_clock clock = clock_sync_fit(&sync, later.sent_ns, later.sent_ns);
	assert_string_equal(clock.reference, "two");
	assert_in_range(-clock.offset_ns, 5 * NS_PER_S - 1000, 5 * NS_PER_S + 1000);
	assert_int_equal(sync.count, 1);
	clock_sync_forget(&sync);
	assert_string_equal(clock_sync_fit(&sync, 0, 0).reference, "");
}

static void test_keeps_the_best(void **state)
{
	static struct clock_sync sync;
	(void)state;
	for (int64_t i = 0; i < 4 * CLOCK_SYNC_MAX; i++) { /* one of each four is good */
		int64_t at = START + i * NS_PER_S, slow = i % 4 == 2 ? 0 : NS_PER_S / 10;
		struct clock_sample sample = {at, at + 1000 + slow, at + 1000 + slow, at + 2000 + slow};
		clock_sync_add(&sync, "s", &sample);
	}
	assert_int_equal(sync.count, CLOCK_SYNC_MAX);
	for (size_t i = 0; i < CLOCK_SYNC_MAX; i++)
		assert_true(sync.items[i].returned_ns - sync.items[i].sent_ns == 2000);
	struct clock_sample backwards = {START, START, START, START - 1};
	clock_sync_add(&sync, "other", &backwards);
	assert_string_equal(sync.clock, "s");
	for (int64_t i = 0; i < 10 * CLOCK_SYNC_MAX; i++) {
		struct clock_sample sample = {START + i * 10 * NS_PER_S, START, START, START + i * 10 * NS_PER_S + 1};
		clock_sync_add(&sync, "s", &sample);
	}
	assert_int_equal(sync.count, CLOCK_SYNC_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_truth_is_within_the_bound),
		cmocka_unit_test(test_forgets),
		cmocka_unit_test(test_keeps_the_best),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
