/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/clock_fit.h"
#include "base/time.h"

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

static int64_t random_below(int64_t limit)
{
	return limit > 0 ? (int64_t)((next_random() << 31 | next_random()) % (uint64_t)limit) : 0;
}

/* ---- lines ---- */

static void test_lines(void **state)
{
	struct clock_line line = {.at_ns = 1000 * NS_PER_S, .offset_ns = 5 * NS_PER_S, .skew = 5e-5};
	assert_int_equal(clock_line_offset(line, 1000 * NS_PER_S), 5 * NS_PER_S);
	assert_int_equal(clock_line_offset(line, 1010 * NS_PER_S), 5 * NS_PER_S + 500000);
	assert_int_equal(clock_line_apply(line, 1010 * NS_PER_S), 1005 * NS_PER_S - 500000);
	int64_t there = clock_line_apply(line, 1060 * NS_PER_S);
	assert_true(llabs(clock_line_apply(clock_line_invert(line), there) - 1060 * NS_PER_S) <= 1);
	struct clock_line next = {.at_ns = 3, .offset_ns = -7 * NS_PER_S, .skew = -2e-4};
	struct clock_line both = clock_line_join(line, next);
	for (int64_t t = 900 * NS_PER_S; t < 1100 * NS_PER_S; t += 7 * NS_PER_S)
		assert_true(llabs(clock_line_apply(both, t) - clock_line_apply(next, clock_line_apply(line, t))) <= 2);
}

static void test_lines_at_the_ends(void **state)
{
	struct clock_line line = {.at_ns = INT64_MIN, .offset_ns = INT64_MIN, .skew = -1e300};
	assert_int_equal(clock_line_offset(line, INT64_MAX), INT64_MIN);
	assert_int_equal(clock_line_apply(line, INT64_MAX), INT64_MAX);
	clock_line_invert(line);
	clock_line_join(line, line);
}

/* ---- properties ---- */

#define FACTS_MAX 400

/* A clock, messages both ways with random delays, and what was true. */
struct trial {
	struct clock_line truth;
	int64_t from_ns, to_ns; /* of B */
	struct clock_fact facts[FACTS_MAX];
	size_t count;
};

static void make_trial(struct trial *trial, bool ways[2])
{
	static const int64_t windows[] = {0, 1000, NS_PER_MS, NS_PER_S, 60 * NS_PER_S, 86400 * NS_PER_S};
	static const int64_t offsets[] = {1, NS_PER_MS, 5 * NS_PER_S, 3600 * NS_PER_S, 1700000000 * NS_PER_S};
	static const int64_t delays[] = {1, 1000, 200000, 50 * NS_PER_MS};
	int64_t window = windows[random_below(6)], offset = offsets[random_below(5)], delay = delays[random_below(4)];
	trial->from_ns = random_below(2) ? 1700000000 * NS_PER_S : 0;
	trial->to_ns = trial->from_ns + window;
	trial->truth = (struct clock_line){.at_ns = trial->from_ns,
					   .offset_ns = random_below(2 * offset) - offset,
					   .skew = (double)(random_below(900) - 450) * 1e-6};
	trial->count = 0;
	for (size_t count = (size_t)random_below(FACTS_MAX); trial->count < count;) {
		int64_t b = trial->from_ns + random_below(window + 1), a = clock_line_apply(trial->truth, b), took;
		bool to_b = random_below(2);
		/* Mostly short, with a long tail. */
		took = random_below(4) ? random_below(delay + 1) : random_below(100 * delay);
		if (ways[to_b])
			trial->facts[trial->count] = to_b ? clock_fact_to_b(a - took, b) : clock_fact_to_a(b, a + took);
		if (!ways[to_b])
			count--;
		else
			trial->count++;
	}
}

static void assert_holds(const struct trial *trial, struct clock_line line)
{
	for (size_t i = 0; i < trial->count; i++) {
		const struct clock_fact *fact = &trial->facts[i];
		int64_t offset = clock_line_offset(line, fact->at_ns);
		if (fact->is_upper ? offset > fact->limit_ns : offset < fact->limit_ns)
			fail_msg("fact %zu: %lld against %lld", i, (long long)offset, (long long)fact->limit_ns);
	}
}

static void assert_within_bound(const struct trial *trial, const struct clock_fit *fit)
{
	for (int i = 0; i <= 10; i++) {
		int64_t t = trial->from_ns + (trial->to_ns - trial->from_ns) / 10 * i;
		int64_t error = clock_line_offset(fit->line, t) - clock_line_offset(trial->truth, t);
		if (llabs(error) > fit->bound_ns + 1)
			fail_msg("off by %lld ns, bound %lld", (long long)error, (long long)fit->bound_ns);
	}
}

/* Whatever the clocks and the delays: all facts hold, and the truth is within the bound. */
static void test_properties(void **state)
{
	static struct trial trial;
	size_t bounded = 0;
	for (int round = 0; round < 3000; round++) {
		random_state = (uint64_t)round;
		make_trial(&trial, (bool[]){true, true});
		struct clock_fit_options options = {.from_ns = trial.from_ns, .to_ns = trial.to_ns};
		struct clock_fit fit = clock_fit(trial.facts, trial.count, &options);
		/* Times are rounded to nanoseconds, and so is the truth. */
		assert_in_range(fit.slack_ns, 0, 1);
		if (fit.slack_ns == 0)
			assert_holds(&trial, fit.line);
		assert_int_equal(fit.bound_ns >= 0, fit.has_upper && fit.has_lower);
		if (fit.bound_ns >= 0)
			assert_within_bound(&trial, &fit);
		bounded += fit.bound_ns >= 0;
	}
	assert_true(bounded > 2500);
}

/* 5 s, 50 ppm, 10,000 messages of 100 to 600 us each way in a minute. */
static void test_is_narrow(void **state)
{
	struct clock_line truth = {.at_ns = 1700000000 * NS_PER_S, .offset_ns = 5 * NS_PER_S, .skew = 5e-5};
	static struct clock_fact facts[20000];
	random_state = 1;
	for (size_t i = 0; i < 20000; i++) {
		int64_t b = truth.at_ns + (int64_t)i * 3 * NS_PER_MS, a = clock_line_apply(truth, b);
		int64_t took = 100000 + random_below(500000);
		facts[i] = i % 2 ? clock_fact_to_b(a - took, b) : clock_fact_to_a(b, a + took);
	}
	struct clock_fit fit = clock_fit(facts, 20000, NULL);
	assert_int_equal(fit.slack_ns, 0);
	assert_in_range(fit.bound_ns, 90000, 110000);
	assert_true(fit.line.skew > 4.8e-5 && fit.line.skew < 5.2e-5);
	for (int64_t s = 0; s < 60; s += 5) {
		int64_t t = truth.at_ns + s * NS_PER_S;
		assert_in_range(llabs(clock_line_offset(fit.line, t) - clock_line_offset(truth, t)), 0, 5000);
	}
}

/* ---- what facts leave open ---- */

static void test_without_facts(void **state)
{
	struct clock_fit fit = clock_fit(NULL, 0, NULL);
	assert_int_equal(fit.line.offset_ns, 0);
	assert_true(fit.bound_ns < 0);
	struct clock_fit_options options = {.from_ns = 5 * NS_PER_S,
					    .to_ns = 9 * NS_PER_S,
					    .has_guess = true,
					    .guess = {.at_ns = 0, .offset_ns = 700, .skew = 1e-6},
					    .guess_bound_ns = -1};
	fit = clock_fit(NULL, 0, &options);
	assert_true(fit.bound_ns < 0);
	assert_true(llabs(clock_line_offset(fit.line, 5 * NS_PER_S) - 5700) <= 2);
	assert_true(llabs(clock_line_offset(fit.line, 9 * NS_PER_S) - 9700) <= 2);
	options.guess_bound_ns = 100;
	fit = clock_fit(NULL, 0, &options);
	assert_in_range(fit.bound_ns, 100, 103);
	assert_true(llabs(clock_line_offset(fit.line, 9 * NS_PER_S) - 9700) <= 2);
}

/* Messages one way only: the guess, moved as little as they ask for. */
static void test_one_way(void **state)
{
	struct clock_fact facts[] = {clock_fact_to_b(1000, 1500), clock_fact_to_b(9 * NS_PER_S, 9 * NS_PER_S + 300)};
	struct clock_fit_options options = {.has_guess = true, .guess_bound_ns = -1};
	struct clock_fit fit = clock_fit(facts, 2, &options);
	assert_true(fit.has_upper && !fit.has_lower && fit.bound_ns < 0);
	assert_in_range(llabs(fit.line.offset_ns), 0, 2);
	options.guess.offset_ns = NS_PER_S;
	fit = clock_fit(facts, 2, &options);
	assert_true(clock_line_offset(fit.line, 1500) <= 500);
	assert_in_range(clock_line_offset(fit.line, 9 * NS_PER_S), 200, 300);
}

/* What is known of a clock that facts confirm narrows it. */
static void test_guess_narrows(void **state)
{
	struct clock_fact facts[] = {clock_fact_to_b(1000, 2000), clock_fact_to_a(3000, 13000)};
	struct clock_fit_options options = {.has_guess = true, .guess_bound_ns = 400};
	struct clock_fit fit = clock_fit(facts, 2, &options);
	assert_int_equal(fit.slack_ns, 0);
	assert_in_range(fit.bound_ns, 400, 403);
	assert_in_range(clock_fit(facts, 2, NULL).bound_ns, 5000, 6100);
}

/* A clock that is set by 1 ms halfway: no line agrees, and half the step is the least that makes one. */
static void test_contradictions(void **state)
{
	struct clock_fact facts[400];
	for (size_t i = 0; i < 400; i++) {
		int64_t a = (int64_t)i * 10000, b = a + (i < 200 ? 0 : NS_PER_MS);
		facts[i] = i % 2 ? clock_fact_to_b(a - 100, b) : clock_fact_to_a(b, a + 100);
	}
	struct clock_fit fit = clock_fit(facts, 400, NULL);
	assert_in_range(fit.slack_ns, NS_PER_MS / 2 - 2100, NS_PER_MS / 2 + 1000);
	assert_true(fit.bound_ns >= fit.slack_ns && fit.bound_ns < NS_PER_MS);
	/* A fact that is false by a century, and all that 64 bits hold. */
	facts[7].limit_ns = INT64_MIN;
	facts[8].limit_ns = INT64_MAX;
	facts[9].at_ns = INT64_MIN;
	facts[10].at_ns = INT64_MAX;
	fit = clock_fit(facts, 400, NULL);
	assert_true(fit.slack_ns > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),	      cmocka_unit_test(test_lines_at_the_ends),
		cmocka_unit_test(test_properties),    cmocka_unit_test(test_is_narrow),
		cmocka_unit_test(test_without_facts), cmocka_unit_test(test_one_way),
		cmocka_unit_test(test_guess_narrows), cmocka_unit_test(test_contradictions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
