/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs of process_stats.bpf.c write and the agent reads: a record a thread from the iterator of tasks, and a
 * record a process that ended from the ring. Counters are totals since the start of what they are of. Fixed-size types only.
 *
 * Records stand back to back, in no useful order: those of a process need not follow each other.
 */
#ifndef WICK_BPF_PROCESS_STATS_H
#define WICK_BPF_PROCESS_STATS_H

#include "bpf/types.h"

enum stats_kind {
	STATS_THREAD, /* any but the first of its process: its own counters */
	STATS_LEADER, /* the first: its own counters, and those of the threads of the process that have ended */
	STATS_ENDED,  /* a process that is gone: all counters */
};
struct stats_record {
	__u64 started_ns; /* CLOCK_MONOTONIC, of the process: distinguishes owners of a pid */
	__u64 cpu_ns, minor_faults, major_faults, voluntary_switches, involuntary_switches;
	__u64 read_bytes, written_bytes; /* by storage */
	__u64 rss_pages;		 /* of the process; of STATS_LEADER only, as are cgroup and threads */
	__u64 cgroup;			 /* as in struct abi_sample; also of STATS_ENDED */
	__u32 pid;			 /* of the process, in the initial pid namespace */
	__u32 threads;
	__u32 kind; /* enum stats_kind */
	__u32 reserved;
};
#define STATS_RING_BYTES (256 * 1024)

#endif
