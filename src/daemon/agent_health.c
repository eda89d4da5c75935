/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/agent_health.h"

#include <stdio.h>
#include <sys/utsname.h>

#include "base/alloc.h"
#include "base/time.h"
#include "export/export.h"
#include "unwind/unwind_result.h"

#define EXAMINE_NS (3600 * NS_PER_S)

void agent_health_init(struct agent_health *health, const struct agent_options *options, bool markers)
{
	*health = (struct agent_health){.started_ms = time_now_ns() / NS_PER_MS,
					.off_cpu = options->off_cpu_chance > 0,
					.markers = markers,
					.process_stats = options->process_stats};
}

static void add_warnings(struct agent_health *health, const struct agent_stats *agent, const struct export_stats *server,
			 struct health *ret)
{
	char text[2 * HEALTH_WARNING_SIZE];
	int64_t now_ns = time_monotonic_ns();
	if (now_ns >= health->examine_due_ns) {
		health->fault_count = agent_examine_faults(health->faults, AGENT_HEALTH_FAULTS);
		health->examine_due_ns = now_ns + EXAMINE_NS;
	}
	health_warn(ret, server->spool.problem);
	if (agent->process_stats_problem[0]) {
		snprintf(text, sizeof(text), "process_stats are not sent: %.400s", agent->process_stats_problem);
		health_warn(ret, text);
	}
	if (agent->runtimes_problem[0]) {
		snprintf(text, sizeof(text), "functions of interpreters are missing: %.400s", agent->runtimes_problem);
		health_warn(ret, text);
	}
	for (size_t i = 0; i < health->fault_count; i++) {
		const struct doctor_row *row = &health->faults[i];
		snprintf(text, sizeof(text), "%s: %s%s%s", row->what, row->found, *row->fix ? "; " : "", row->fix);
		health_warn(ret, text);
	}
}

static void add_server(const struct export_stats *server, struct health *ret)
{
	ret->sent_profiles = server->sent_profiles;
	ret->sent_bytes = server->sent_bytes;
	ret->send_failures = server->failures;
	ret->waiting_profiles = server->spool.profiles;
	ret->waiting_bytes = server->spool.bytes;
	for (size_t i = 0; i < EXPORT_LOSSES; i++) {
		uint64_t profiles, samples;
		export_lost(server, i, &profiles, &samples);
		ret->dropped_profiles += profiles;
		ret->dropped_samples += samples;
	}
}

static void add_costs(const struct agent_stats *agent, struct health *ret)
{
	ret->cpu_ms = (uint64_t)(time_process_cpu_ns() / NS_PER_MS);
	ret->program_ms = agent->unwind.program_ns / NS_PER_MS;
	ret->resident_bytes = mem_resident_bytes();
	ret->resident_peak_bytes = mem_resident_peak_bytes(ret->resident_bytes);
	ret->cost_ppm = agent->cost_share > 0 ? (uint64_t)(agent->cost_share * 1e6) : 0;
}

void agent_health_fill(struct agent_health *health, const struct agent_stats *agent, const struct export_stats *server,
		       struct health *ret)
{
	struct utsname names = {0};
	uname(&names);
	snprintf(ret->kernel, sizeof(ret->kernel), "%.40s %.20s", names.release, names.machine);
	snprintf(ret->event, sizeof(ret->event), "%s", agent->event);
	if (health->off_cpu)
		health_mode(ret, "off_cpu");
	if (health->markers)
		health_mode(ret, "markers");
	if (health->process_stats && !agent->process_stats_problem[0])
		health_mode(ret, "process_stats");
	ret->started_ms = (uint64_t)health->started_ms;
	ret->frequency_hz = agent->frequency_hz;
	ret->frequency_asked_hz = agent->frequency_asked_hz;
	ret->cpus = agent->cpus_online;
	ret->processes = agent->processes;
	ret->mappings = agent->mappings;
	ret->binaries = agent->binaries;
	ret->samples = agent->samples_taken;
	ret->rules_dropped = agent->relabel_dropped;
	for (size_t i = 0; i < AGENT_LOSS_COUNT; i++)
		health_count(&ret->lost, agent_loss_names[i], agent->samples_lost[i]);
	for (uint32_t i = 0; i < UNWIND_RESULTS; i++)
		health_count(&ret->walks, unwind_result_name((enum unwind_result)i), agent->unwind.results[i]);
	ret->unwind_tables = agent->unwind.tables;
	ret->unwind_table_bytes = agent->unwind.table_bytes;
	add_server(server, ret);
	add_costs(agent, ret);
	add_warnings(health, agent, server, ret);
}
