/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: keeps what the agent itself costs below a share of one CPU, by the sampling rate.
 *
 * The cost is what the agent can measure of itself: time in its BPF programs and CPU time of its process. The timer's interrupt
 * around the program is not in it, nor the decision of the off-CPU program not to look at a switch.
 *
 * It is smoothed over half a minute, so that the work of a start or of a burst of new binaries does not count as the usual.
 * Over the budget the rate is lowered to what should cost four fifths of it, to half at most; it is raised by a quarter when
 * that should stay below three quarters of it. The gap between the two keeps it from swinging. Each sample carries what it
 * stands for, so totals do not depend on the rate.
 */
#ifndef WICK_AGENT_SAMPLE_GOVERNOR_H
#define WICK_AGENT_SAMPLE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

struct governor {
	double budget; /* share of one CPU; 0 = no limit */
	unsigned configured_hz, hz;
	double share;	  /* smoothed cost */
	uint64_t changes; /* of the rate */
	/* Of the last update. */
	int64_t time_ns, changed_ns;
	uint64_t cost_ns;
};

/* cost_ns: spent so far, which does not count. */
void governor_init(struct governor *governor, double budget, unsigned configured_hz, int64_t now_ns, uint64_t cost_ns);
/* At each flush, with all that was spent since the start. True if governor->hz has changed. Times (CLOCK_MONOTONIC) and costs
 * that run backwards, or less than a tenth of a second apart, are passed over. */
bool governor_update(struct governor *governor, int64_t now_ns, uint64_t cost_ns);

#endif
