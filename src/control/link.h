/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link between the agent and the server of `wick up`: a SOCK_SEQPACKET pair created before the fork.
 *
 * The agent may open any binary of this machine, the server hardly any. But a privileged process should not parse ELF files. So
 * the agent passes open descriptors, and the unprivileged server parses the files. The agent also sends its counters, so that
 * one /metrics shows both. A message is a struct link_message and at most one descriptor. Losing one is harmless: it is sent
 * again, or the file is opened by its path. So the agent never blocks: if the socket is full, the message is dropped.
 */
#ifndef WICK_CONTROL_LINK_H
#define WICK_CONTROL_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define LINK_LOSSES_MAX	  16
#define LINK_RUNTIMES_MAX 12
#define LINK_WALKS_MAX	  16
#define LINK_TARGETS_MAX  16
#define LINK_REASONS_MAX  8
enum link_kind { LINK_BINARY = 1, LINK_STATS = 2 };

struct link_binary {
	char build_id[129]; /* hex */
	char content[33];   /* of the file (elf/content_key.h); "" = not known */
	char path[1024];
};
struct link_loss {
	char name[32];
	uint64_t count;
};
struct link_process_walks {
	uint32_t pid;
	char comm[16];
	uint32_t results[LINK_WALKS_MAX]; /* as link_stats.walks */
};
/* Export targets besides this server. */
struct link_target {
	char name[64];
	uint64_t profiles, samples, bytes, failures;				  /* sent */
	uint64_t lost_profiles[LINK_REASONS_MAX], lost_samples[LINK_REASONS_MAX]; /* by EXPORT_LOSSES */
	uint64_t waiting_profiles, waiting_samples, waiting_bytes;
	uint32_t away;
};
/* Counters of continuous marker collection. */
struct link_markers {
	uint64_t is_on;
	uint64_t collected, lost, left_out, malformed, processes, refused, yielded;
	uint64_t batches_sent, markers_sent, bytes_sent, failures, batches_dropped, markers_dropped, batches_queued,
		markers_waiting, bytes_waiting;
};
/* The agent's counters as the server shows them; names from agent_loss_names. */
struct link_stats {
	uint64_t samples_taken, relabel_dropped, flushes, flush_ns_total, flush_ns_max, stacks_sent, processes, mappings,
		binaries, cpus_online;
	uint64_t bpf_run_ns, bpf_run_count, resident_bytes, cpu_ns;
	uint64_t profiles_sent, profiles_dropped, samples_dropped, bytes_sent, send_failures;
	struct link_loss losses[LINK_LOSSES_MAX];
	struct link_loss walks[LINK_WALKS_MAX]; /* user stacks by the result of their walk */
	uint64_t walks_by_frames, walks_resumed, frames;
	uint64_t tables, table_bytes, table_rows, tables_built, tables_cached, tables_evicted, tables_failed, build_ns,
		heap_bytes, heap_used;
	uint64_t live_rules, live_pieces, live_dropped;
	struct link_runtime {
		const char *name; /* NULL = none */
		uint64_t samples, frames, unknown, names, names_lost;
	} runtimes[LINK_RUNTIMES_MAX];
	uint64_t process_updates, process_update_failures;
	uint64_t program_ns, program_ns_p50, program_ns_p99;
	uint32_t walk_count;
	struct link_process_walks worst[LINK_WALKS_MAX]; /* the processes with the most incomplete stacks; pid 0 = none */
	/* JIT code; names from jit_problem_names. */
	uint64_t jit_lookups, jit_hits, jit_reads, jit_bytes_read, jit_files, jit_memory_bytes;
	struct link_loss jit_problems[LINK_LOSSES_MAX];
	uint32_t jit_problem_count;
	struct link_target targets[LINK_TARGETS_MAX];
	uint32_t target_count;
	uint32_t loss_count, frequency_hz, frequency_asked_hz;
	double cost_share, sampling_share, budget;
	struct link_loss costs[LINK_LOSSES_MAX]; /* CPU time in ns, by agent_cost_names */
	uint32_t cost_count;
	uint64_t rate_changes, off_cpu_intervals;
	uint64_t process_rows, process_rows_left_out, process_stats_ns;
	struct link_markers markers;
	char event[16];
};
struct link_message {
	uint32_t kind; /* enum link_kind */
	union {
		struct link_binary binary;
		struct link_stats stats;
	};
};

struct export_stats;
void link_target_of(const struct export_stats *stats, struct link_target *ret);

int link_new(int ret_fds[2], struct error *err); /* [0] for the server, [1] for the agent */
/* 0, -EAGAIN when the socket is full, -EPIPE when the server has exited. fd -1 = none; the caller keeps it. */
int link_send(int link_fd, const struct link_message *message, int fd);
/* Blocks. 1 = a message, *ret_fd is -1, or the receiver must close it; 0 = the other end is closed; negative errno. Strings are
 * terminated and counts are bounded when it returns. */
int link_receive(int link_fd, struct link_message *ret, int *ret_fd, struct error *err);

#endif
