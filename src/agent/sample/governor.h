/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: keeps what sampling costs below a share of one CPU, by the sampling rate.
 *
 * The cost is what falls with the rate: time in the BPF programs, and CPU time of the agent's own thread at samples. It is
 * not what the agent does whatever the rate, such as following processes, making unwind tables, and sending: steering those by
 * the rate would end at the lowest rate and change nothing (agent/cost.h separates the two). Nor is the timer's interrupt
 * around the program in it, or the decision of the off-CPU program not to look at a switch.
 *
 * Lowering goes by the cost smoothed over half a minute, so that a burst does not count as the usual; it aims at four fifths of
 * the budget, halves the rate at most, and ends at the lowest rate, below which too little is seen to be worth anything.
 * Raising goes by the cost smoothed over ten seconds, so that a load that has ended is forgotten soon: up to twice the rate,
 * every ten seconds, if that should stay below three quarters of the budget. The gap between the two keeps it from swinging.
 * Where the cost is not proportional after all, and a raise looks too expensive only for that reason, a small one is tried once
 * a minute. From the lowest rate to the configured one, which is four times as much, it takes half a minute once the load has
 * gone. Each sample carries what it stands for, so totals do not depend on the rate.
 */
#ifndef WICK_AGENT_SAMPLE_GOVERNOR_H
#define WICK_AGENT_SAMPLE_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

/* A counter of CPU time as a share of one CPU, smoothed over about so long. */
struct cost_share {
	double share;
	/* Of the last update; set all three to begin. */
	int64_t time_ns, smooth_ns;
	uint64_t cost_ns;
};
#define COST_SHARE_SMOOTH_NS (30 * NS_PER_S)

struct governor {
	double budget; /* share of one CPU, may be changed; 0 = no limit */
	unsigned configured_hz, least_hz, hz;
	struct cost_share share, recent; /* over half a minute, and over ten seconds */
	uint64_t changes;		 /* of the rate */
	int64_t changed_ns;
};

/* The lowest rate is a quarter of the configured one. */
#define GOVERNOR_LEAST_HZ(hz) (((hz) + 3) / 4)

/* least_hz: 0 = GOVERNOR_LEAST_HZ. cost_ns: spent so far, which does not count. */
void governor_init(struct governor *governor, double budget, unsigned configured_hz, unsigned least_hz, int64_t now_ns,
		   uint64_t cost_ns);
/* False, and nothing changed, where time (CLOCK_MONOTONIC) or cost runs backwards, or less than a tenth of a second has passed.
 */
bool cost_share_update(struct cost_share *share, int64_t now_ns, uint64_t cost_ns);
/* At each flush, with all that was spent since the start. True if governor->hz has changed. */
bool governor_update(struct governor *governor, int64_t now_ns, uint64_t cost_ns);

#endif
