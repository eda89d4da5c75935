/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/agent: rules for the code that processes make at run time, found when a walk needs them (unwind/live_rules.h).
 *
 * The kernel side asks: a walk that meets such code with nothing known of it stops and leaves a tail. It is finished with what
 * is found here, in the code as it is now; the kernel side gets it after the drain. What no rule can be found for is walked by
 * the frame pointer.
 */
#ifndef WICK_AGENT_LIVE_UNWINDER_H
#define WICK_AGENT_LIVE_UNWINDER_H

#include "agent/process/process.h"
#include "agent/unwind/live_rules.h"
#include "base/cpu_budget.h"

struct live_unwinder {
	struct live_budget budget;
	struct process_table *processes;
	struct cpu_budget search, verify;
	uint64_t drains;
	bool denied; /* by the budget, since the caller cleared it */
};

/* tables and processes must outlive it. */
void live_unwinder_init(struct live_unwinder *live, struct unwind_tables *tables, struct process_table *processes);
/* Before the first sample of a process in each drain: compares the code with what is known of it. Walks that were done by rules
 * for code that is another by now are in doubt from here on (process_is_in_doubt()). */
void live_unwinder_verify(struct live_unwinder *live, struct process *process);
/* The rule of an instruction in memory that no file is mapped to; UNWIND_CFA_NONE if there is none. */
struct unwind_rule live_unwinder_find(struct live_unwinder *live, struct process *process, uint64_t address);
/* The slot for a mapping, when a process's mappings are written for the kernel side. */
uint32_t live_unwinder_slot(struct process *process, uint64_t start, uint64_t end);
/* Sends what was found to the kernel side, before mappings are sent. */
void live_unwinder_publish(struct live_unwinder *live, struct process *process);

#endif
