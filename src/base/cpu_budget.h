/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much CPU time work in the background may take: some at once, and in the long run a share of the time.
 *
 * A service that starts is worth a second of work for its stacks and names to be right within its first minute; a machine that
 * makes and runs hundreds of new programs an hour is not to pay that for each of them.
 */
#ifndef WICK_BASE_CPU_BUDGET_H
#define WICK_BASE_CPU_BUDGET_H

#include <stdint.h>

struct cpu_budget {
	int64_t burst_ns; /* at the start, and saved up at most */
	int64_t part;	  /* 1/part of the time, in the long run */
	int64_t used_ns, earned_ns;
};

/* What may be used now; negative: how much too much was. now_ns: CLOCK_MONOTONIC. */
static inline int64_t cpu_budget_left(struct cpu_budget *budget, int64_t now_ns)
{
	int64_t passed_ns = budget->earned_ns ? now_ns - budget->earned_ns : 0;
	budget->used_ns -= passed_ns > 0 ? passed_ns / budget->part : 0;
	if (budget->used_ns < 0)
		budget->used_ns = 0;
	budget->earned_ns = now_ns;
	return budget->burst_ns - budget->used_ns;
}

/* What something took up to now; it may be more than was left. */
static inline void cpu_budget_use(struct cpu_budget *budget, int64_t cpu_ns, int64_t now_ns)
{
	cpu_budget_left(budget, now_ns); /* what was saved up before counts */
	budget->used_ns += cpu_ns > 0 ? cpu_ns : 0;
}

#endif
