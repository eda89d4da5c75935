// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What processes use, for the agent's process_stats (layout: process_stats.h).
 *
 * list_threads is an iterator over all tasks: a read() of its descriptor gives what /proc/PID/stat, status and io tell, without
 * making text of it. Beside the cost there is a second reason: /proc/PID/status has the context switches of the first thread
 * only, and /proc/PID/stat the CPU time in units of 10 ms.
 *
 * note_end runs when a process is gone for good, its end waited for by its parent, and keeps its totals, which nobody could ask
 * for any more. Earlier, when its last thread exits, they would not be complete: the CPU time since the last tick and what
 * threads that end at the same instant have used are added later.
 *
 * Needs Linux 5.8.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/cgroup.h"
#include "bpf/process_stats.h"

#define BPF_RB_NO_WAKEUP 1
enum { MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES, MM_COUNTERS }; /* the same since Linux 4.5 */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct task_io_accounting {
	__u64 read_bytes, write_bytes;
};
typedef struct {
	__s64 counter;
} atomic64_t;
struct signal_struct {
	int nr_threads;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	unsigned long long sum_sched_runtime;
	struct task_io_accounting ioac;
};
struct sched_entity {
	__u64 sum_exec_runtime;
};
struct task_struct___stats {
	struct task_struct___stats *group_leader;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct sched_entity se;
	struct task_io_accounting ioac;
	unsigned long nvcsw, nivcsw, min_flt, maj_flt;
	__u64 start_time;
	int pid, tgid, exit_state;
};
/* Before Linux 6.2, and since. */
struct mm_rss_stat {
	atomic64_t count[MM_COUNTERS];
};
struct mm_struct___plain {
	struct mm_rss_stat rss_stat;
};
struct percpu_counter {
	__s64 count;
};
struct mm_struct___percpu {
	struct percpu_counter rss_stat[MM_COUNTERS];
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STATS_RING_BYTES);
} ended SEC(".maps");

/* The ends that did not fit. */
__u64 ends_lost;

static __always_inline void add_thread(struct task_struct___stats *task, struct stats_record *record)
{
	record->cpu_ns += BPF_CORE_READ(task, se.sum_exec_runtime);
	record->minor_faults += BPF_CORE_READ(task, min_flt);
	record->major_faults += BPF_CORE_READ(task, maj_flt);
	record->voluntary_switches += BPF_CORE_READ(task, nvcsw);
	record->involuntary_switches += BPF_CORE_READ(task, nivcsw);
	if (bpf_core_field_exists(task->ioac)) {
		record->read_bytes += BPF_CORE_READ(task, ioac.read_bytes);
		record->written_bytes += BPF_CORE_READ(task, ioac.write_bytes);
	}
}

/* What the threads that are gone have used. */
static __always_inline void add_gone(struct signal_struct *signal, struct stats_record *record)
{
	record->cpu_ns += BPF_CORE_READ(signal, sum_sched_runtime);
	record->minor_faults += BPF_CORE_READ(signal, min_flt);
	record->major_faults += BPF_CORE_READ(signal, maj_flt);
	record->voluntary_switches += BPF_CORE_READ(signal, nvcsw);
	record->involuntary_switches += BPF_CORE_READ(signal, nivcsw);
	if (bpf_core_field_exists(signal->ioac)) {
		record->read_bytes += BPF_CORE_READ(signal, ioac.read_bytes);
		record->written_bytes += BPF_CORE_READ(signal, ioac.write_bytes);
	}
}

/* A counter that is spread over CPUs may be below zero for a moment. */
static __always_inline __u64 positive(__s64 pages)
{
	return pages > 0 ? (__u64)pages : 0;
}

static __always_inline __u64 resident_pages(struct mm_struct *mm)
{
	struct mm_struct___plain *plain = (void *)mm;
	struct mm_struct___percpu *percpu = (void *)mm;

	if (!mm)
		return 0;
	if (bpf_core_field_exists(plain->rss_stat.count))
		return positive(BPF_CORE_READ(plain, rss_stat.count[MM_FILEPAGES].counter)) +
		       positive(BPF_CORE_READ(plain, rss_stat.count[MM_ANONPAGES].counter)) +
		       positive(BPF_CORE_READ(plain, rss_stat.count[MM_SHMEMPAGES].counter));
	return positive(BPF_CORE_READ(percpu, rss_stat[MM_FILEPAGES].count)) +
	       positive(BPF_CORE_READ(percpu, rss_stat[MM_ANONPAGES].count)) +
	       positive(BPF_CORE_READ(percpu, rss_stat[MM_SHMEMPAGES].count));
}

SEC("iter/task")
int list_threads(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;
	struct stats_record record = {0};

	if (!task)
		return 0;
	struct task_struct___stats *more = (void *)task;
	record.pid = (__u32)BPF_CORE_READ(more, tgid);
	record.started_ns = BPF_CORE_READ(more, group_leader, start_time);
	add_thread(more, &record);
	if ((__u32)BPF_CORE_READ(more, pid) == record.pid) {
		struct signal_struct *signal = BPF_CORE_READ(more, signal);
		record.kind = STATS_LEADER;
		record.threads = (__u32)BPF_CORE_READ(signal, nr_threads);
		if (record.threads <= 1 && BPF_CORE_READ(more, exit_state)) /* waits for its parent's wait() only */
			record.threads = 0;
		add_gone(signal, &record);
		record.rss_pages = resident_pages(BPF_CORE_READ(more, mm));
		record.cgroup = task_cgroup(task);
	}
	bpf_seq_write(context->meta->seq, &record, sizeof(record));
	return 0;
}

SEC("raw_tp/sched_process_free")
int note_end(struct bpf_raw_tracepoint_args *context)
{
	struct task_struct___stats *task = (void *)context->args[0];
	struct signal_struct *signal = BPF_CORE_READ(task, signal);

	if (!signal || BPF_CORE_READ(task, group_leader) != task)
		return 0;
	struct stats_record *record = bpf_ringbuf_reserve(&ended, sizeof(*record), 0);
	if (!record) {
		__sync_fetch_and_add(&ends_lost, 1);
		return 0;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = STATS_ENDED;
	record->pid = (__u32)BPF_CORE_READ(task, tgid);
	record->started_ns = BPF_CORE_READ(task, start_time);
	record->cgroup = task_cgroup((void *)task);
	add_gone(signal, record); /* its own are among them by now */
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
