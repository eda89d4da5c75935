// SPDX-License-Identifier: Apache-2.0
#include "agent/cost.h"

#include <string.h>

void cost_begin(struct cost_meter *meter)
{
	memset(meter->parts_ns, 0, sizeof(meter->parts_ns));
	meter->cpu_ns = time_thread_cpu_ns();
	meter->since_ns = time_monotonic_ns();
	meter->now = AGENT_COST_OTHER;
}

void cost_settle(struct cost_meter *meter)
{
	int64_t now_ns = time_monotonic_ns(), cpu_ns = time_thread_cpu_ns(), used_ns = cpu_ns - meter->cpu_ns, sum_ns = 0;

	if (!meter->since_ns)
		return;
	meter->parts_ns[meter->now] += now_ns - meter->since_ns;
	meter->since_ns = now_ns;
	for (size_t i = 0; i < AGENT_COST_COUNT; i++)
		sum_ns += meter->parts_ns[i];
	if (sum_ns <= 0 || used_ns <= 0)
		return;
	for (size_t i = 0; i < AGENT_COST_COUNT; i++)
		meter->ns[i] += (uint64_t)((double)used_ns * (double)meter->parts_ns[i] / (double)sum_ns);
	memset(meter->parts_ns, 0, sizeof(meter->parts_ns));
	meter->cpu_ns = cpu_ns;
}
