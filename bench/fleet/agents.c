/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health that agents of a live fleet report when they poll for recording requests, which they ignore. All are well,
 * at 19 Hz of 19, with 98 % of their stacks complete and 0.9 ms of CPU a second, but for these:
 *
 *   host-0013   lost a twentieth of its samples: its rings were full
 *   host-0042   samples at 10 Hz instead of 19, to stay within its budget
 *   host-0066   hides the addresses of kernel symbols, and 30 % of its stacks end where a binary has no rule
 *   host-0077   is of version 0.0.9, which says nothing
 */
#include <stdio.h>

#include "bench/fleet/fleet.h"
#include "control/protocol.h"

#define HOST_LOSES 13
#define HOST_SLOW  42
#define HOST_HIDES 66
#define HOST_OLD   77
#define SAMPLES_S  10 /* a host's, about */
#define COST_PPM   900
#define SLOW_PPM   4100

static void fill(const struct fleet *fleet, unsigned host, int64_t now_ns, struct health *ret)
{
	const struct fleet_options *options = &fleet->options;
	int64_t started_ns = options->start_ns - (int64_t)(fleet->hosts[host].hash % (14 * 86400)) * NS_PER_S;
	uint64_t seconds = (uint64_t)((now_ns - started_ns) / NS_PER_S);
	snprintf(ret->kernel, sizeof(ret->kernel), "%s x86_64",
		 fleet->hosts[host].hash % 4 ? "6.1.0-18-amd64" : "6.1.0-21-amd64");
	snprintf(ret->event, sizeof(ret->event), "cpu-clock");
	health_mode(ret, "process_stats");
	ret->started_ms = (uint64_t)(started_ns / NS_PER_MS);
	ret->frequency_asked_hz = (uint64_t)options->frequency;
	ret->frequency_hz = host == HOST_SLOW ? 10 : ret->frequency_asked_hz;
	ret->cpus = options->cpus;
	ret->processes = 40 + 8 * options->pods_per_host;
	ret->mappings = 6 * ret->processes;
	ret->binaries = 60 + options->pods_per_host;
	ret->samples = seconds * SAMPLES_S;
	ret->cost_ppm = host == HOST_SLOW ? SLOW_PPM : COST_PPM;
	ret->program_ms = seconds * ret->cost_ppm / 4000;
	ret->cpu_ms = seconds * ret->cost_ppm / 1000 - ret->program_ms;
	ret->resident_bytes = 12ull << 20;
	ret->resident_peak_bytes = 19ull << 20;
	ret->unwind_tables = 55;
	ret->unwind_table_bytes = 4ull << 20;
	ret->sent_profiles = seconds / 10;
	ret->sent_bytes = ret->sent_profiles * 9000;
	uint64_t bad = host == HOST_HIDES ? ret->samples * 3 / 10 : ret->samples / 50;
	health_count(&ret->walks, "complete", ret->samples - bad);
	health_count(&ret->walks, host == HOST_HIDES ? "no_rule" : "no_process", bad);
	if (host == HOST_LOSES)
		health_count(&ret->lost, "counts_full", ret->samples / 20);
	if (host == HOST_HIDES)
		health_warn(ret, "kernel symbols: /proc/kallsyms hides addresses (kptr_restrict is 2); give CAP_SYSLOG and set "
				 "kernel.kptr_restrict to 0 or 1, or kernel functions are shown as addresses");
}

int fleet_agent_poll(const struct fleet *fleet, unsigned host, int64_t now_ns, struct buffer *out, struct error *err)
{
	struct control_poll poll = {0};
	struct health health = {0};
	snprintf(poll.agent, sizeof(poll.agent), "%016llx", (unsigned long long)fleet->hosts[host].hash);
	fleet_host_name(host, poll.host, sizeof(poll.host));
	snprintf(poll.wick, sizeof(poll.wick), "%s", host == HOST_OLD ? "0.0.9" : WICK_VERSION);
	snprintf(poll.refusal, sizeof(poll.refusal), "a simulated host cannot record");
	if (host != HOST_OLD) {
		fill(fleet, host, now_ns, &health);
		poll.health = &health;
	}
	return control_write_poll(&poll, out, err);
}
