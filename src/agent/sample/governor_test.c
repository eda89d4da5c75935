// SPDX-License-Identifier: Apache-2.0
/* The governor against machines of known cost. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <math.h>

#include "agent/sample/governor.h"
#include "base/time.h"

/* What a machine costs: a share of one CPU whatever the rate, and one a sample a second. */
struct machine {
	double fixed, per_hz;
	int64_t now_ns;
	double cost_ns;
	unsigned lowest_hz, highest_hz;
};

static void run(struct governor *governor, struct machine *machine, double seconds, double step_s)
{
	for (double done = 0; done < seconds; done += step_s) {
		machine->now_ns += (int64_t)(step_s * 1e9);
		machine->cost_ns += (machine->fixed + machine->per_hz * governor->hz) * step_s * 1e9;
		governor_update(governor, machine->now_ns, (uint64_t)machine->cost_ns);
		machine->lowest_hz = governor->hz < machine->lowest_hz ? governor->hz : machine->lowest_hz;
		machine->highest_hz = governor->hz > machine->highest_hz ? governor->hz : machine->highest_hz;
	}
}

/* Runs, and is at that rate then. */
static void settle(struct governor *governor, struct machine *machine, double seconds, double step_s, unsigned hz)
{
	run(governor, machine, seconds, step_s);
	assert_int_equal(governor->hz, hz);
}

static struct machine begin(struct governor *governor, double budget, unsigned configured_hz, double fixed, double per_hz)
{
	struct machine machine = {fixed, per_hz, 5 * NS_PER_S, 1e9, configured_hz, 0};

	governor_init(governor, budget, configured_hz, 0, machine.now_ns, (uint64_t)machine.cost_ns);
	return machine;
}

static void test_within_budget_nothing_changes(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0.005, 19, 0.001, 0.0001);

	settle(&governor, &machine, 3600, 10, 19);
	assert_int_equal(governor.changes, 0);
	assert_true(fabs(governor.share.share - 0.0029) < 0.0001);
}

/* It ends within the budget and does not swing there. */
static void test_lowers_until_it_fits(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0.005, 60, 0.001, 0.0002);

	run(&governor, &machine, 1800, 10);
	double cost = machine.fixed + machine.per_hz * governor.hz;
	assert_true(cost <= 0.005 && cost >= 0.0025);
	assert_true(governor.hz >= 15 && governor.hz <= 20);
	uint64_t changes = governor.changes;
	unsigned hz = governor.hz;
	run(&governor, &machine, 7200, 10);
	assert_int_equal(governor.changes, changes);
	assert_int_equal(governor.hz, hz);
}

static void test_raises_again_but_not_above(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0.005, 99, 0, 0.001);

	settle(&governor, &machine, 300, 10, 25);
	machine.per_hz = 0.000001;
	machine.highest_hz = 0;
	settle(&governor, &machine, 1200, 10, 99);
	assert_int_equal(machine.highest_hz, 99);
}

/* What cannot be lowered does not stop the sampling, and is forgotten within a minute once it has gone. */
static void test_lowest_rate_and_recovery(void **state)
{
	static const unsigned configured[] = {1, 2, 5, 19, 97, 997};

	for (size_t i = 0; i < sizeof(configured) / sizeof(*configured); i++) {
		struct governor governor;
		struct machine machine = begin(&governor, 0.005, configured[i], 0.5, 0.0001);
		run(&governor, &machine, 1800, 10);
		assert_int_equal(governor.hz, (configured[i] + 3) / 4);
		assert_int_equal(machine.lowest_hz, (configured[i] + 3) / 4);
		machine.fixed = 0;
		machine.per_hz = 0.001 / configured[i];
		run(&governor, &machine, 100, 10); /* the share of half a CPU has to be forgotten first: e^-10 of it is left */
		assert_int_equal(governor.hz, configured[i]);
	}
}

/* Two minutes in which each sample costs twenty times as much, as beside a storm of forks. */
static void test_recovers_within_a_minute(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0.005, 19, 0, 0.00005);

	settle(&governor, &machine, 600, 10, 19);
	machine.per_hz = 0.001;
	settle(&governor, &machine, 120, 10, 5);
	machine.per_hz = 0.00005;
	settle(&governor, &machine, 60, 10, 19);
	uint64_t changes = governor.changes;
	run(&governor, &machine, 3600, 10);
	assert_int_equal(governor.changes, changes);
}

/* A cost that the rate does not change must not keep it down: 0.3 % and 0.01 % a hertz make 0.49 % at 19 Hz. */
static void test_fixed_cost_within_the_budget(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0.005, 19, 0.02, 0.0001);

	settle(&governor, &machine, 120, 10, 5);
	machine.fixed = 0.003;
	run(&governor, &machine, 1200, 10);
	assert_true(governor.hz >= 15);
	machine.lowest_hz = 19;
	run(&governor, &machine, 7200, 10);
	assert_true(machine.lowest_hz >= 15);
}

/* Asked for: as low as one. */
static void test_lowest_rate_as_asked(void **state)
{
	struct governor governor;
	struct machine machine = {0.5, 0.0001, 5 * NS_PER_S, 1e9, 19, 0};

	governor_init(&governor, 0.005, 19, 1, machine.now_ns, (uint64_t)machine.cost_ns);
	settle(&governor, &machine, 1800, 10, 1);
}

static void test_no_budget_no_change(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0, 997, 2, 0.001);

	settle(&governor, &machine, 600, 1, 997);
	assert_true(governor.share.share > 1);
}

/* The work of a start, or of new binaries: a tenth of a second of CPU time. */
static void test_a_burst_is_forgiven(void **state)
{
	struct governor governor;
	struct machine machine = begin(&governor, 0.005, 19, 0.0005, 0.00005);

	machine.cost_ns += 0.1e9;
	run(&governor, &machine, 600, 10);
	assert_int_equal(governor.changes, 0);
}

static void test_odd_clocks(void **state)
{
	struct governor governor;

	governor_init(&governor, 0.005, 19, 0, 100, 1000);
	assert_false(governor_update(&governor, 100, 2000));
	assert_false(governor_update(&governor, 50, 3000));
	assert_false(governor_update(&governor, 60 * NS_PER_S, 10)); /* runs backwards */
	assert_true(governor.share.share == 0);
	assert_false(governor_update(&governor, 60 * NS_PER_S, 1000));
	assert_true(governor_update(&governor, 120 * NS_PER_S, UINT64_MAX));
	assert_int_equal(governor.hz, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_within_budget_nothing_changes), cmocka_unit_test(test_lowers_until_it_fits),
		cmocka_unit_test(test_raises_again_but_not_above),    cmocka_unit_test(test_lowest_rate_and_recovery),
		cmocka_unit_test(test_recovers_within_a_minute),      cmocka_unit_test(test_fixed_cost_within_the_budget),
		cmocka_unit_test(test_lowest_rate_as_asked),	      cmocka_unit_test(test_no_budget_no_change),
		cmocka_unit_test(test_a_burst_is_forgiven),	      cmocka_unit_test(test_odd_clocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
