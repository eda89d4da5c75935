/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: what the CPU time of the agent's own thread goes to.
 *
 * Each part of the work says what it is when it begins: cost_enter(), and again, with what that returned, at its end. Between
 * two waits the parts are timed by the clock, which is a read of some nanoseconds, and the thread's CPU time of that stretch,
 * which takes a system call, is then divided among them in proportion. So a part during which the thread had to wait for a CPU
 * counts for more than it took, but each is as likely to, and the sum is what the thread used.
 *
 * Only AGENT_COST_SAMPLES falls with the sampling rate; the governor (agent/sample/governor.h) goes by that and by the time in
 * the BPF programs.
 */
#ifndef WICK_AGENT_COST_H
#define WICK_AGENT_COST_H

#include "agent/agent.h"
#include "base/time.h"

struct cost_meter {
	uint64_t ns[AGENT_COST_COUNT];	    /* CPU time, up to the last cost_settle() */
	int64_t parts_ns[AGENT_COST_COUNT]; /* by the clock, since then */
	int64_t cpu_ns;			    /* the thread's, then */
	int64_t since_ns; /* when the part that is going on began; 0 = the thread waits, or is not the agent's yet */
	enum agent_cost now;
};

/* Returns what it was before. meter: NULL = nothing is measured. */
static inline enum agent_cost cost_enter(struct cost_meter *meter, enum agent_cost what)
{
	enum agent_cost before = meter ? meter->now : AGENT_COST_OTHER;
	if (before == what || !meter || !meter->since_ns)
		return before;
	int64_t now_ns = time_monotonic_ns();
	meter->parts_ns[before] += now_ns - meter->since_ns;
	meter->since_ns = now_ns;
	meter->now = what;
	return before;
}

/* The calling thread is the agent's from here on, and does other work. */
void cost_begin(struct cost_meter *meter);
/* Divides the CPU time since the last call among the parts. Before a wait, and where figures are wanted. */
void cost_settle(struct cost_meter *meter);
/* Around a wait, which is no part of the work; what waking up takes is divided among the parts that follow. */
static inline void cost_wait_begins(struct cost_meter *meter)
{
	cost_settle(meter);
	meter->since_ns = 0;
}
static inline void cost_wait_ends(struct cost_meter *meter)
{
	meter->since_ns = time_monotonic_ns();
}

#endif
