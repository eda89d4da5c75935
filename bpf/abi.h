/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the BPF programs and the agent share: one ring of records per CPU, in memory that both map. Fixed-size types only; both
 * sides include the types first (bpf/kernel.h there, stdint.h and linux/types.h here).
 *
 * Purpose. The timer interrupt of a CPU appends a small record a sample; the agent reads all rings at every flush, or earlier
 * when one is half full. A chain of callers crosses to user space once: it is appended when its hash is not in the `seen`
 * table, and samples refer to it by its hash. The leaf address, which varies more than its callers, travels in the sample.
 *
 *   struct abi_ring (the value of a one-element, mmapable BPF array; one array a CPU)
 *   +--------------------+---------------------+-------------------------+---------------------------------------+---------+
 *   | head (kernel)      | tail (agent)        | counters (kernel)       | data: ring_bytes (a power of two)     | slack   |
 *   +--------------------+---------------------+-------------------------+---------------------------------------+---------+
 *   data: abi_chain, abi_sample, abi_sample, abi_chain, abi_chain, abi_sample ...
 *
 * Invariants.
 *   - head and tail count bytes since the start and never wrap; the byte at position p lies at data[p & (ring_bytes - 1)].
 *     A record is never split: one that begins near the end continues into the slack, which holds the largest record.
 *   - One writer: the CPU's sampling program, which does not nest (the kernel's bpf_prog_active guard). One reader. Hence no
 *     lock, and no atomic but the exchange that publishes head after the record.
 *   - Chains are published before, or together with, the first sample that refers to them; `seen` is set only afterwards, so
 * that another CPU may rely on it.
 *   - Times are CLOCK_MONOTONIC. Each ring is in the order of time.
 *
 * The alternative, a preallocated hash map of counts drained by batch lookup-and-delete, was rejected: the bpf() calls that
 * drain it raise bpf_prog_active on their CPU, and every sample due meanwhile vanishes without a trace; counts need two maps
 * and a swap to be exact; a full map loses samples while half of it is reserved; and a count has no time, without which samples
 * of a process cannot be told apart from those before its exec or after its pid was reused. A record is 80 bytes, 79 KB a CPU
 * for 10 s at 99 Hz.
 */
#ifndef WICK_BPF_ABI_H
#define WICK_BPF_ABI_H

#define ABI_FRAMES_MAX 127 /* kernel.perf_event_max_stack; for each of user and kernel stack */

enum abi_record_kind {
	ABI_RECORD_SAMPLE = 1,
	ABI_RECORD_CHAIN = 2,
};

enum abi_sample_flags {
	ABI_SAMPLE_STACK_LOST = 1,    /* no room for stacks: only the leaf is known */
	ABI_SAMPLE_NO_USER_STACK = 2, /* the user stack could not be read */
	ABI_SAMPLE_NO_KERNEL_STACK = 4,
	ABI_SAMPLE_KERNEL_THREAD = 8, /* has no user stack */
};

/* Every record begins so. */
struct abi_header {
	__u32 kind;  /* enum abi_record_kind */
	__u32 bytes; /* of the whole record, a multiple of 8 */
};

struct abi_sample {
	struct abi_header header;
	__u64 time_ns;
	__u32 tgid, tid;		/* in the initial pid namespace */
	__u64 user_leaf, kernel_leaf;	/* 0 = the sample has no such stack */
	__u64 user_chain, kernel_chain; /* hash of the callers; 0 = none */
	__u64 cgroup;			/* inode of its directory; of the memory hierarchy on cgroup v1 */
	__u32 flags;			/* enum abi_sample_flags */
	__u32 reserved;
	char comm[16]; /* of the thread */
};

struct abi_chain {
	struct abi_header header;
	__u64 hash;
	__u64 leaf;			  /* of the sample that sent it; here so that a stack can be taken in place */
	__u64 frames[ABI_FRAMES_MAX - 1]; /* (header.bytes - 24) / 8 of them, the innermost caller first */
};
#define ABI_CHAIN_FIXED_BYTES 24

enum abi_counter {
	ABI_COUNT_SAMPLES,   /* records appended */
	ABI_COUNT_RING_FULL, /* samples lost: no room for a record */
	ABI_COUNT_CHAINS,    /* chains appended */
	ABI_COUNTERS = 8,
};

/* Room for the largest sample: two chains and a record. Also the slack behind the data. */
#define ABI_SLACK_BYTES (2 * sizeof(struct abi_chain) + sizeof(struct abi_sample))

struct abi_ring {
	__u64 head;
	__u64 pad_head[7]; /* the two sides write different cache lines */
	__u64 tail;
	__u64 pad_tail[7];
	__u64 counters[ABI_COUNTERS];
	__u8 data[];
};

#endif
