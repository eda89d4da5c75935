/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock_steps.h"

#include "base/time.h"

#define TRIES 8

static bool is_slow(int64_t before_ns, int64_t after_ns)
{
	return after_ns - before_ns > CLOCK_STEP_LEAST_NS / 2;
}

bool clock_steps_check(struct clock_steps *steps, int64_t before_ns, int64_t wall_ns, int64_t after_ns)
{
	if (is_slow(before_ns, after_ns))
		return false;
	int64_t difference_ns = wall_ns - before_ns, change_ns = difference_ns - steps->difference_ns;
	bool is_step = steps->has_looked && (change_ns > CLOCK_STEP_LEAST_NS || change_ns < -CLOCK_STEP_LEAST_NS);
	/* What creeps must not stay unnoticed: the difference is that of the beginning, until there is a step. */
	if (is_step || !steps->has_looked)
		steps->difference_ns = difference_ns;
	steps->has_looked = true;
	return is_step;
}

bool clock_steps_check_now(struct clock_steps *steps)
{
	for (int i = 0; i < TRIES; i++) {
		int64_t before_ns = time_monotonic_ns(), wall_ns = time_now_ns(), after_ns = time_monotonic_ns();
		if (!is_slow(before_ns, after_ns))
			return clock_steps_check(steps, before_ns, wall_ns, after_ns);
	}
	return false;
}
