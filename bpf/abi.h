/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the BPF programs and the agent share: one ring of records per CPU, in memory that both map. Fixed-size types only
 * (bpf/types.h).
 *
 * Purpose. The timer interrupt of a CPU appends a small record a sample; the agent reads all rings at every flush, or earlier
 * when one is half full. A chain of callers crosses to user space once: it is appended when its hash is not in the `seen`
 * table, and samples refer to it by its hash. The leaf address, which varies more than its callers, travels in the sample.
 *
 *   struct abi_ring (the value of a one-element, mmapable BPF array; one array a CPU)
 *   +--------------------+---------------------+-------------------------+---------------------------------------+---------+
 *   | head (kernel)      | tail (agent)        | counters (kernel)       | data: ring_bytes (a power of two)     | slack   |
 *   +--------------------+---------------------+-------------------------+---------------------------------------+---------+
 *   data: abi_chain, abi_sample, abi_sample, abi_chain, abi_tail, abi_chain, abi_sample ...
 *
 * A walk of the user stack that stops because the kernel side does not know enough (UNWIND_IS_CURABLE) leaves a tail: the
 * registers of the frame that it had reached and a copy of the stack from there on. User space, which knows all mappings and
 * can load any table, goes on where the kernel stopped, and then tells the kernel side what was missing. So stacks of new
 * processes and of binaries that nobody had seen are as complete as others, without a race against their start. Pages of the
 * stack that were never touched (the inside of a large array) are not there to be read: they are left out of the copy.
 *
 * Invariants.
 *   - head and tail count bytes since the start and never wrap; the byte at position p lies at data[p & (ring_bytes - 1)].
 *     A record is never split: one that begins near the end continues into the slack, which holds the largest record.
 *   - One writer at a time: the CPU's sampling program, which does not nest (the kernel's bpf_prog_active guard), or the
 *     program at a switch of threads (bpf/offcpu.h), with interrupts off. An NMI's sample during the latter sees `busy` and
 *     is lost. One reader. Hence no lock, and no atomic but the exchange that publishes head after the record.
 *   - Chains are published before, or together with, the first sample that refers to them; `seen` is set only afterwards, so
 *     that another CPU may rely on it.
 *   - Times are CLOCK_MONOTONIC. Each ring is in the order of time.
 *
 * The alternative, a preallocated hash map of counts drained by batch lookup-and-delete, was rejected: the bpf() calls that
 * drain it raise bpf_prog_active on their CPU, and every sample due meanwhile vanishes without a trace; counts need two maps
 * and a swap to be exact; a full map loses samples while half of it is reserved; and a count has no time, without which samples
 * of a process cannot be distinguished from those before its exec or after its pid was reused. A record is 96 bytes, 95 KB a
 * CPU for 10 s at 99 Hz.
 */
#ifndef WICK_BPF_ABI_H
#define WICK_BPF_ABI_H

#include "bpf/python.h"
#include "bpf/unwind.h"

#define ABI_FRAMES_MAX	      UNWIND_FRAMES_MAX
#define ABI_KERNEL_FRAMES_MAX 127    /* kernel.perf_event_max_stack */
#define ABI_TAIL_BYTES	      32768u /* of stack, at most */
#define ABI_TAIL_PAGES	      64u    /* from the first to the last of them, at most */
#define ABI_TAILS	      64     /* may be sent until user space has read some, or for ABI_TAILS_NS */
#define ABI_TAILS_NS	      50000000ull

enum abi_record_kind {
	ABI_RECORD_SAMPLE = 1,
	ABI_RECORD_CHAIN = 2,
	ABI_RECORD_TAIL = 3, /* of the next sample in the ring */
};

enum abi_sample_flags {
	ABI_SAMPLE_STACK_LOST = 1,    /* no room for stacks: only the leaf is known */
	ABI_SAMPLE_NO_USER_STACK = 2, /* the user stack could not be read */
	ABI_SAMPLE_NO_KERNEL_STACK = 4,
	ABI_SAMPLE_KERNEL_THREAD = 8, /* has no user stack */
	ABI_SAMPLE_TAIL = 16,	      /* an abi_tail comes before it */
	ABI_SAMPLE_BY_FRAMES = 32,    /* a part was found by frame pointers: a caller may be missing there */
};

/* What a sample measures. */
enum abi_what {
	ABI_CPU = 0,
	/* A thread was switched out: carries its stacks. value = the chance of being looked at, of 2^32. */
	ABI_WAIT_BEGINS = 1,
	/* ... and in again: value = ns. Refers to the last begin of this tid; carries nothing else, but the kernel stack of a
	 * thread that waited already when watching began (ABI_WAIT_UNSEEN). */
	ABI_WAIT_ENDS = 2,
};
#define ABI_CHANCE_ALWAYS 0xffffffffu
#define ABI_WAIT_UNSEEN	  (1ull << 63) /* set in the start time of a wait whose begin was not seen */

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
	__u64 value;			/* ns of CPU time; others: see enum abi_what */
	__u32 version;			/* unwind_process.version that the walk relied on */
	__u16 flags;			/* enum abi_sample_flags */
	__u8 result;			/* enum unwind_result */
	__u8 what;			/* enum abi_what */
	char comm[16];			/* of the thread */
};

struct abi_chain {
	struct abi_header header;
	__u64 hash;
	__u64 leaf; /* of the sample that sent it; here so that a kernel stack can be taken in place */
	/* (header.bytes - 24) / 8 of them, the innermost caller first. Each is such that the byte before it lies in the
	 * instruction: a return address, or, of code that a signal interrupted, the instruction's address + 1. What else is
	 * known of a user frame is in bits that no user address has. Functions of an interpreter are two words each, behind the
	 * frame that runs them (bpf/python.h). */
	__u64 frames[ABI_FRAMES_MAX - 1];
};
/* The trampoline to which a signal handler returns; and a frame that was found by a frame pointer which may not be its callee's
 * own, so that a caller may be missing. */
#define ABI_FRAME_SIGNAL	 UNWIND_FRAME_SIGNAL
#define ABI_FRAME_GAP		 UNWIND_FRAME_GAP
#define ABI_FRAME_ADDRESS(frame) ((frame) & ~(ABI_FRAME_SIGNAL | ABI_FRAME_GAP))
#define ABI_CHAIN_FIXED_BYTES	 24
#define ABI_KERNEL_CHAIN_BYTES	 (ABI_CHAIN_FIXED_BYTES + (ABI_KERNEL_FRAMES_MAX - 1) * 8)

struct abi_tail {
	struct abi_header header;
	__u64 registers[UNWIND_REGISTERS]; /* of the frame that the walk had reached */
	__u64 ip;
	__u64 stack;	   /* address of data[0] */
	__u32 known;	   /* bit by register */
	__u32 depth;	   /* frames that the sample has already, the leaf included; the last one is this frame's ip */
	__u32 is_return;   /* ip is a return address */
	__u32 stack_bytes; /* of data */
	__u32 analysed;	   /* as in struct walk */
	__u32 reserved;
	/* Bit i: the i-th page of 4096 bytes could not be read, the 0th being that of `stack`. data has what lies in the
	 * others, without gaps. */
	__u64 absent;
	__u8 data[ABI_TAIL_BYTES];
};
#define ABI_TAIL_FIXED_BYTES (sizeof(struct abi_tail) - ABI_TAIL_BYTES)

enum abi_counter {
	ABI_COUNT_SAMPLES,    /* samples of CPU time appended */
	ABI_COUNT_RING_FULL,  /* samples lost: no room for a record, or the ring was in use (an NMI during another record) */
	ABI_COUNT_CHAINS,     /* chains appended */
	ABI_COUNT_TAILS,      /* tails appended */
	ABI_COUNT_RUN_NS,     /* time in the programs that take stacks */
	ABI_COUNT_FRAMES,     /* user frames walked */
	ABI_COUNT_WAITS,      /* begins of waits appended */
	ABI_COUNT_WAITS_FULL, /* begins or ends of waits lost: no room for a record or for the thread, or the ring was in use */
	ABI_COUNT_RUNTIMES,   /* RUNTIME_KINDS times enum abi_runtime_counter */
	ABI_COUNTERS = 48,
};
/* Of a kind of runtimes. */
enum abi_runtime_counter {
	ABI_RUNTIME_SAMPLES, /* with functions of it */
	ABI_RUNTIME_FRAMES,
	ABI_RUNTIME_UNKNOWN, /* samples in it of which no function was found */
	ABI_RUNTIME_COUNTERS,
};
#define ABI_COUNT_RUNTIME(kind, counter) (ABI_COUNT_RUNTIMES + (kind)*ABI_RUNTIME_COUNTERS + (counter))
/* How long the program ran, by sample: bucket i counts runs of i * 128 ns up to (i + 1) * 128 ns, the last all longer ones. */
#define ABI_RUN_BUCKETS	     256u
#define ABI_RUN_BUCKET_SHIFT 7

/* Room for a sample and its chains; and for the largest sample. The latter, and a page for the copy of the stack to run into,
 * is the slack behind the data. */
#define ABI_STACKS_BYTES     (sizeof(struct abi_chain) + ABI_KERNEL_CHAIN_BYTES + sizeof(struct abi_sample))
#define ABI_SAMPLE_BYTES_MAX (ABI_STACKS_BYTES + sizeof(struct abi_tail))
#define ABI_SLACK_BYTES	     (ABI_SAMPLE_BYTES_MAX + 4096)

struct abi_ring {
	__u64 head;
	__u64 busy;	   /* a program is writing */
	__u64 pad_head[6]; /* the two sides write different cache lines */
	__u64 tail;
	__u64 pad_tail[7];
	__u64 counters[ABI_COUNTERS];
	__u32 run_ns[ABI_RUN_BUCKETS];
	__u8 data[];
};

#endif
