/* SPDX-License-Identifier: Apache-2.0 */
/* docs/metrics.md lists every name; keep them together. */
#include "control/agent_metrics.h"

#include "control/metric_text.h"

/* A process chooses its name: what the format or a terminal would take amiss becomes '?'. */
static void safe_name(const char *name, char ret[16])
{
	size_t i = 0;

	for (; i < 15 && name[i]; i++)
		ret[i] = name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\' ? '?' : name[i];
	ret[i] = 0;
}

static void write_worst_processes(struct buffer *m, const struct link_stats *agent)
{
	metric_head(m, "wick_agent_process_walks_total", "counter",
		    "User stacks by unwind result, for the processes with the most incomplete ones.");
	for (size_t i = 0; i < LINK_WALKS_MAX; i++) {
		const struct link_process_walks *process = &agent->worst[i];
		char name[16];
		safe_name(process->comm, name);
		for (size_t j = 0; process->pid && j < agent->walk_count; j++) {
			if (!process->results[j])
				continue;
			buffer_printf(m, "wick_agent_process_walks_total{pid=\"%u\",comm=\"%s\",result=\"%s\"} %u\n",
				      process->pid, name, agent->walks[j].name, process->results[j]);
		}
	}
}

static void write_runtimes(struct buffer *m, const struct link_stats *agent)
{
	static const struct {
		const char *name, *help;
		size_t offset;
	} metrics[] = {
		{"wick_agent_runtime_samples_total", "Samples with functions of a runtime.",
		 offsetof(struct link_runtime, samples)},
		{"wick_agent_runtime_frames_total", "Functions of a runtime in samples.",
		 offsetof(struct link_runtime, frames)},
		{"wick_agent_runtime_unknown_total", "Samples in a runtime that showed no function of it.",
		 offsetof(struct link_runtime, unknown)},
		{"wick_agent_runtime_names_total", "Functions of a runtime whose names were read.",
		 offsetof(struct link_runtime, names)},
		{"wick_agent_runtime_names_lost_total",
		 "Functions of a runtime that were gone, or not to be believed, when their names were read.",
		 offsetof(struct link_runtime, names_lost)},
	};
	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		metric_head(m, metrics[i].name, "counter", metrics[i].help);
		for (size_t k = 0; k < LINK_RUNTIMES_MAX && agent->runtimes[k].name; k++)
			metric_of(m, metrics[i].name, "runtime", agent->runtimes[k].name,
				  *(const uint64_t *)((const char *)&agent->runtimes[k] + metrics[i].offset));
	}
}

static void write_unwind_metrics(struct buffer *m, const struct link_stats *agent)
{
	metric_counters_by(m, "wick_agent_walks_total", "result", "User stacks of samples, by unwind result.", agent->walks,
			   agent->walk_count);
	write_worst_processes(m, agent);
	COUNTER("wick_agent_walks_by_frame_pointer_total", "User stacks unwound partly by frame pointers.",
		agent->walks_by_frames);
	COUNTER("wick_agent_walks_resumed_total", "Unwinds finished in user space, because the kernel side lacked a table.",
		agent->walks_resumed);
	COUNTER("wick_agent_frames_total", "User frames unwound in the kernel.", agent->frames);
	GAUGE("wick_agent_unwind_tables", "Unwind tables loaded.", agent->tables);
	GAUGE("wick_agent_unwind_table_bytes", "Memory of the loaded unwind tables.", agent->table_bytes);
	GAUGE("wick_agent_unwind_table_rows", "Rows of the loaded unwind tables.", agent->table_rows);
	COUNTER("wick_agent_unwind_tables_built_total", "Unwind tables built from their files.", agent->tables_built);
	COUNTER("wick_agent_unwind_tables_cached_total", "Unwind tables read from the cache on disk.", agent->tables_cached);
	COUNTER("wick_agent_unwind_tables_evicted_total", "Unwind tables dropped because the memory was full.",
		agent->tables_evicted);
	COUNTER("wick_agent_unwind_tables_failed_total", "Binaries without a usable unwind table: damaged or too large.",
		agent->tables_failed);
	COUNTER("wick_agent_unwind_build_seconds_total", "Time spent on building unwind tables.", SECONDS(agent->build_ns));
	GAUGE("wick_agent_unwind_jit_rules", "Instructions of JIT code whose unwind rule is known.", agent->live_rules);
	COUNTER("wick_agent_unwind_jit_pieces_total", "JIT code regions searched for unwind rules.", agent->live_pieces);
	COUNTER("wick_agent_unwind_jit_pieces_dropped_total",
		"JIT code regions replaced, or evicted because the table was full.", agent->live_dropped);
	write_runtimes(m, agent);
	GAUGE("wick_agent_unwind_heap_bytes", "Kernel memory reserved for unwind tables and mappings.", agent->heap_bytes);
	GAUGE("wick_agent_unwind_heap_used_bytes", "Kernel memory in use for unwind tables and mappings.", agent->heap_used);
	COUNTER("wick_agent_process_updates_total", "Updates of a process's mappings in the kernel.", agent->process_updates);
	COUNTER("wick_agent_process_update_failures_total", "Updates that failed because the memory was full.",
		agent->process_update_failures);
	COUNTER("wick_agent_program_seconds_total", "Time spent in the sampling program.", SECONDS(agent->program_ns));
	metric_head(m, "wick_agent_program_seconds", "gauge", "Time in the sampling program, of one sample, by quantile.");
	buffer_printf(m,
		      "wick_agent_program_seconds{quantile=\"0.5\"} %.9f\n"
		      "wick_agent_program_seconds{quantile=\"0.99\"} %.9f\n",
		      SECONDS(agent->program_ns_p50), SECONDS(agent->program_ns_p99));
}

static void write_agent_markers(struct buffer *m, const struct link_markers *markers)
{
	if (!markers->is_on)
		return;
	COUNTER("wick_agent_markers_total", "Markers and counter values collected.", markers->collected);
	static const char lost[] = "wick_agent_markers_lost_total";
	metric_head(m, lost, "counter", "Markers dropped, by reason.");
	metric_of(m, lost, "reason", "ring_full", markers->lost);
	metric_of(m, lost, "reason", "left_out", markers->left_out);
	metric_of(m, lost, "reason", "malformed", markers->malformed);
	metric_of(m, lost, "reason", "dropped", markers->markers_dropped);
	COUNTER("wick_agent_marker_processes_total", "Processes that emit markers.", markers->processes);
	COUNTER("wick_agent_marker_processes_refused_total", "Processes whose markers could not be read.", markers->refused);
	GAUGE("wick_agent_marker_processes_yielded", "Processes whose markers a recorder currently collects.",
	      markers->yielded);
	COUNTER("wick_agent_marker_batches_sent_total", "Marker batches that the server acknowledged.", markers->batches_sent);
	COUNTER("wick_agent_marker_batches_sent_bytes_total", "Bytes of marker batches acknowledged.", markers->bytes_sent);
	COUNTER("wick_agent_marker_batches_dropped_total", "Marker batches dropped: spool full, too old, or rejected.",
		markers->batches_dropped);
	COUNTER("wick_agent_marker_send_failures_total", "Failed attempts to send a marker batch.", markers->failures);
	GAUGE("wick_agent_marker_batches_queued", "Marker batches queued to be sent.", markers->batches_queued);
	GAUGE("wick_agent_marker_batches_queued_bytes", "Bytes of marker batches queued.", markers->bytes_waiting);
}

static void write_costs(struct buffer *m, const struct link_stats *agent)
{
	static const char name[] = "wick_agent_thread_cpu_seconds_total";
	metric_head(m, name, "counter", "CPU time of the agent's main thread, by kind of work.");
	for (size_t i = 0; i < agent->cost_count; i++)
		buffer_printf(m, "%s{work=\"%s\"} %.9g\n", name, agent->costs[i].name, SECONDS(agent->costs[i].count));
}

void agent_metrics_write(struct buffer *m, const struct link_stats *agent)
{
	COUNTER("wick_agent_samples_total", "Samples taken since the agent started.", agent->samples_taken);
	metric_counters_by(m, "wick_agent_samples_incomplete_total", "reason", "Samples lost or incomplete, by reason.",
			   agent->losses, agent->loss_count);
	COUNTER("wick_agent_relabel_dropped_total", "Samples that rules of relabel_configs dropped.", agent->relabel_dropped);
	GAUGE("wick_agent_frequency_hz", "Samples per second and CPU.", agent->frequency_hz);
	GAUGE("wick_agent_frequency_configured_hz", "Configured samples per second and CPU.", agent->frequency_asked_hz);
	COUNTER("wick_agent_rate_changes_total", "Changes of the rate to stay within the budget.", agent->rate_changes);
	GAUGE("wick_agent_cost_ratio", "CPU usage of the agent, as a share of one CPU, smoothed.", agent->cost_share);
	GAUGE("wick_agent_sampling_cost_ratio",
	      "CPU usage of the agent that depends on the sampling rate, as a share of one CPU, smoothed; the budget limits "
	      "it.",
	      agent->sampling_share);
	GAUGE("wick_agent_budget_ratio", "Limit of the cost of sampling, as a share of one CPU; 0 = none.", agent->budget);
	write_costs(m, agent);
	COUNTER("wick_agent_off_cpu_intervals_total", "Off-CPU intervals that were sampled.", agent->off_cpu_intervals);
	COUNTER("wick_agent_process_rows_total", "Rows of process_stats.", agent->process_rows);
	COUNTER("wick_agent_process_rows_dropped_total", "Rows of process_stats that are missing.",
		agent->process_rows_left_out);
	COUNTER("wick_agent_process_stats_seconds_total", "CPU time spent on process_stats.", SECONDS(agent->process_stats_ns));
	GAUGE("wick_agent_cpus", "CPUs that are sampled.", agent->cpus_online);
	GAUGE("wick_agent_processes", "Processes followed.", agent->processes);
	GAUGE("wick_agent_mappings", "Executable mappings followed.", agent->mappings);
	GAUGE("wick_agent_binaries", "Binaries known.", agent->binaries);
	COUNTER("wick_agent_flushes_total", "Flushes.", agent->flushes);
	COUNTER("wick_agent_flush_seconds_total", "Time spent in flushes.", SECONDS(agent->flush_ns_total));
	GAUGE("wick_agent_flush_seconds_max", "Longest flush.", SECONDS(agent->flush_ns_max));
	COUNTER("wick_agent_stacks_total", "Stacks passed from the kernel to the agent.", agent->stacks_sent);
	COUNTER("wick_agent_bpf_runs_total", "Runs of the BPF program, when kernel.bpf_stats_enabled is on.",
		agent->bpf_run_count);
	COUNTER("wick_agent_bpf_seconds_total", "Time in the BPF program, when kernel.bpf_stats_enabled is on.",
		SECONDS(agent->bpf_run_ns));
	COUNTER("wick_agent_jit_lookups_total", "Addresses in JIT code that were looked up.", agent->jit_lookups);
	COUNTER("wick_agent_jit_hits_total", "Addresses in JIT code that were symbolized.", agent->jit_hits);
	COUNTER("wick_agent_jit_reads_total", "Reads of perf maps and jitdumps.", agent->jit_reads);
	COUNTER("wick_agent_jit_read_bytes_total", "Bytes read of perf maps and jitdumps.", agent->jit_bytes_read);
	GAUGE("wick_agent_jit_files", "Perf maps and jitdumps in memory.", agent->jit_files);
	GAUGE("wick_agent_jit_bytes", "Memory of perf maps and jitdumps.", agent->jit_memory_bytes);
	metric_counters_by(m, "wick_agent_jit_problems_total", "reason",
			   "Perf maps, jitdumps and entries rejected or dropped, by reason.", agent->jit_problems,
			   agent->jit_problem_count);
	COUNTER("wick_agent_profiles_sent_total", "Profiles acknowledged by the server.", agent->profiles_sent);
	COUNTER("wick_agent_profiles_dropped_total", "Profiles dropped: spool full, or rejected.", agent->profiles_dropped);
	COUNTER("wick_agent_send_failures_total", "Attempts to send that failed.", agent->send_failures);
	COUNTER("wick_agent_sent_bytes_total", "Compressed bytes of profiles acknowledged by the server.", agent->bytes_sent);
	write_agent_markers(m, &agent->markers);
	GAUGE("wick_agent_resident_bytes", "Resident memory of the agent.", agent->resident_bytes);
	COUNTER("wick_agent_cpu_seconds_total", "CPU time of the agent, user and system.", SECONDS(agent->cpu_ns));
	write_unwind_metrics(m, agent);
	metric_targets(m, "wick_agent_export_", "a further target", agent->targets, agent->target_count);
}
