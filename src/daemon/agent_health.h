/* SPDX-License-Identifier: Apache-2.0 */
/* The health that an agent reports to its server (control/health.h), from the counters of its parts. */
#ifndef WICK_DAEMON_AGENT_HEALTH_H
#define WICK_DAEMON_AGENT_HEALTH_H

#include <stdbool.h>

#include "agent/agent.h"
#include "control/health.h"

#define AGENT_HEALTH_FAULTS HEALTH_WARNINGS_MAX

struct agent_health {
	int64_t started_ms;
	bool off_cpu, markers, process_stats;
	int64_t examine_due_ns; /* monotonic: the machine is examined once an hour */
	struct doctor_row faults[AGENT_HEALTH_FAULTS];
	size_t fault_count;
};
/* At the agent's start. */
void agent_health_init(struct agent_health *health, const struct agent_options *options, bool markers);
/* server: what became of the profiles for the server that receives the report. *ret is zeroed. One thread. */
struct export_stats;
void agent_health_fill(struct agent_health *health, const struct agent_stats *agent, const struct export_stats *server,
		       struct health *ret);

#endif
