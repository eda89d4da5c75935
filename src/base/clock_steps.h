/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices that the wall clock was set. CLOCK_REALTIME and CLOCK_MONOTONIC are slewed alike, so their difference changes only
 * when somebody sets the former, at leap seconds, and while the machine sleeps; and what was known of a clock before does not
 * hold after any of these.
 */
#ifndef WICK_BASE_CLOCK_STEPS_H
#define WICK_BASE_CLOCK_STEPS_H

#include <stdbool.h>
#include <stdint.h>

/* Changes below this cannot be distinguished from the time between two readings. */
#define CLOCK_STEP_LEAST_NS 200000

struct clock_steps {
	int64_t difference_ns; /* at the last look; the struct begins as zeroes */
	bool has_looked;
};
/* One pair of readings: the wall clock at some time between two readings of the monotonic clock. True if the wall clock was set
 * since the last call; a pair that was taken too slowly is ignored. */
bool clock_steps_check(struct clock_steps *steps, int64_t before_ns, int64_t wall_ns, int64_t after_ns);
/* Reads the clocks, several times if need be. */
bool clock_steps_check_now(struct clock_steps *steps);

#endif
