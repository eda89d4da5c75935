/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampling program, run by a perf event on every CPU, and two tracepoint programs that keep the process filter.
 *
 * A sample takes the stacks straight into the CPU's ring (bpf/abi.h), behind head, hashes them there, and moves head over those
 * that user space does not know yet: nothing is copied twice, and no scratch memory is needed. User stacks come from one
 * function, unwind_user(), so that another way to unwind replaces that function only.
 *
 * Needs nothing newer than Linux 5.15, built by clang 14 for -mcpu=v3.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

#include "bpf/abi.h"

/* Set before loading; the verifier takes them as constants. */
const volatile __u32 ring_mask = 0; /* bytes of a ring - 1; a power of two, at least 16 KiB */
const volatile __u32 seen_mask = 0; /* slots of `seen` - 1 */
const volatile __u64 hash_seed = 0; /* random, so that nobody can build stacks whose hashes meet */
const volatile bool filter_on = false;
const volatile bool kernel_stacks = true;
const volatile bool cgroup_v1 = false;

/* Set by user space at any time: a new epoch makes every chain unseen. */
__u32 epoch = 0;

struct ring_of_cpu {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct abi_ring)); /* set at load time */
};
/* CPU -> its ring. Rings exist for CPUs that are or were online, which on virtual machines are far fewer than are possible. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* possible CPUs, set at load time */
	__uint(key_size, sizeof(__u32));
	__array(values, struct ring_of_cpu);
} rings SEC(".maps");

/* Direct-mapped: a slot holds the tag (hash and epoch) of the chain that was sent last. A chain that is pushed out by another
 * one is sent again, which costs bytes and harms nothing; hence no fullness, no deletion, no lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

/* tgid -> start time of the process (0: added by user space). Preallocated: memory must not be asked for in an NMI. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} filter SEC(".maps");
__u64 filter_full = 0; /* forked children that found no room in `filter` */

/* Rung when a ring becomes half full. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} bell SEC(".maps");

static __always_inline struct abi_ring *sample_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id(), zero = 0;
	void *ring = bpf_map_lookup_elem(&rings, &cpu);

	return ring ? bpf_map_lookup_elem(ring, &zero) : 0;
}

/* Masked again at each use: the verifier must see the bound on the very register that it adds. */
static __always_inline void *ring_at(struct abi_ring *ring, __u64 position)
{
	__u64 offset = position & ring_mask;

	asm volatile("" : "+r"(offset));
	offset &= ring_mask;
	return (void *)ring->data + offset;
}

/* Writes up to ABI_FRAMES_MAX addresses, leaf first; returns how many, or a negative error. */
static __always_inline long unwind_user(struct bpf_perf_event_data *ctx, __u64 *frames)
{
	long bytes = bpf_get_stack(ctx, frames, ABI_FRAMES_MAX * sizeof(*frames), BPF_F_USER_STACK);

	return bytes < 0 ? bytes : bytes >> 3; /* BPF has no signed division */
}

static __always_inline long unwind_kernel(struct bpf_perf_event_data *ctx, __u64 *frames)
{
	long bytes = bpf_get_stack(ctx, frames, ABI_FRAMES_MAX * sizeof(*frames), 0);

	return bytes < 0 ? bytes : bytes >> 3; /* BPF has no signed division */
}

/* Never 0. A multiplication and a shift a word: each step is a bijection of the state, and the seed is secret. */
static __always_inline __u64 hash_frames(const __u64 *frames, long count)
{
	__u64 hash = hash_seed;

	for (int i = 0; i < ABI_FRAMES_MAX - 1; i++) {
		if (i >= count)
			break;
		hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	hash *= 0xd6e8feb86659fd93ull;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

static __always_inline __u64 seen_tag(__u64 hash, __u32 in_epoch)
{
	return hash ^ ((__u64)(in_epoch + 1) << 40);
}

static __always_inline __u64 *seen_slot(__u64 hash)
{
	__u32 slot = hash & seen_mask;

	return bpf_map_lookup_elem(&seen, &slot);
}

static __always_inline void seen_set(__u64 hash, __u32 in_epoch)
{
	__u64 *slot = hash ? seen_slot(hash) : 0;

	if (slot)
		*slot = seen_tag(hash, in_epoch);
}

/*
 * `count` frames were written to the chain at `position`. Returns by how many bytes to advance: 0 if user space knows it or if
 * there are no callers. *ret_hash is 0 without callers; *ret_new is the hash if it has to be marked as seen.
 */
static __always_inline __u32 chain_finish(struct abi_ring *ring, __u64 position, long count, __u32 in_epoch, __u64 *ret_hash,
					  __u64 *ret_new)
{
	struct abi_chain *chain = ring_at(ring, position);
	__u64 hash, *slot;
	__u32 bytes;

	if (count < 2)
		return 0;
	hash = hash_frames(chain->frames, count - 1);
	*ret_hash = hash;
	slot = seen_slot(hash);
	if (slot && *slot == seen_tag(hash, in_epoch))
		return 0;
	bytes = ABI_CHAIN_FIXED_BYTES + (__u32)(count - 1) * 8;
	chain->header.kind = ABI_RECORD_CHAIN;
	chain->header.bytes = bytes;
	chain->hash = hash;
	*ret_new = hash;
	ring->counters[ABI_COUNT_CHAINS]++;
	return bytes;
}

/* css_set.subsys has as many members as the kernel has controllers; the index is known only at load time, so the member is
 * reached by arithmetic on its address. */
static __always_inline __u64 sample_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	struct cgroup_subsys_state *state = 0;

	if (!cgroup_v1)
		return BPF_CORE_READ(set, dfl_cgrp, kn, id);
	if (bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id)) {
		__u32 index = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
		bpf_probe_read_kernel(&state, sizeof(state),
				      (void *)set + bpf_core_field_offset(set->subsys) + index * sizeof(void *));
	}
	return BPF_CORE_READ(state, cgroup, kn, id);
}

/* Publishes everything before `head`. The exchange is a full barrier on every architecture. */
static __always_inline void ring_publish(struct abi_ring *ring, __u64 old_head, __u64 head)
{
	__u64 tail = *(volatile __u64 *)&ring->tail;
	__u64 half = ((__u64)ring_mask + 1) / 2;

	__sync_lock_test_and_set(&ring->head, head);
	if (old_head - tail <= half && head - tail > half) {
		__u32 cpu = bpf_get_smp_processor_id();
		bpf_ringbuf_output(&bell, &cpu, sizeof(cpu), BPF_RB_FORCE_WAKEUP);
	}
}

/* What a sample's stacks come to. Leaves and hashes are 0 where there is none. */
struct stacks {
	__u64 position; /* where the next record goes */
	__u64 user_leaf, kernel_leaf, user_chain, kernel_chain;
	__u64 user_new, kernel_new; /* hashes to be marked as seen */
	__u32 flags;
};

static __always_inline void take_kernel_stack(struct bpf_perf_event_data *ctx, struct abi_ring *ring, __u32 in_epoch,
					      struct stacks *stacks)
{
	struct abi_chain *chain = ring_at(ring, stacks->position);
	long count = unwind_kernel(ctx, &chain->leaf);

	if (count <= 0) {
		stacks->flags |= ABI_SAMPLE_NO_KERNEL_STACK;
		return; /* the leaf is known from the registers */
	}
	stacks->kernel_leaf = chain->leaf;
	stacks->position += chain_finish(ring, stacks->position, count, in_epoch, &stacks->kernel_chain, &stacks->kernel_new);
}

static __always_inline void take_user_stack(struct bpf_perf_event_data *ctx, struct abi_ring *ring, __u32 in_epoch,
					    struct stacks *stacks)
{
	struct abi_chain *chain = ring_at(ring, stacks->position);
	long count = unwind_user(ctx, &chain->leaf);

	if (count <= 0) {
		stacks->flags |= ABI_SAMPLE_NO_USER_STACK;
		return;
	}
	stacks->user_leaf = chain->leaf;
	stacks->position += chain_finish(ring, stacks->position, count, in_epoch, &stacks->user_chain, &stacks->user_new);
}

/* Fills in the record and publishes it with the chains before it. */
static __always_inline void append_sample(struct abi_ring *ring, __u64 old_head, __u64 now, __u64 ids, struct task_struct *task,
					  const struct stacks *stacks)
{
	struct abi_sample *record = ring_at(ring, stacks->position);

	record->header.kind = ABI_RECORD_SAMPLE;
	record->header.bytes = sizeof(*record);
	record->time_ns = now;
	record->tgid = ids >> 32;
	record->tid = (__u32)ids;
	record->user_leaf = stacks->user_leaf;
	record->kernel_leaf = stacks->kernel_leaf;
	record->user_chain = stacks->user_chain;
	record->kernel_chain = stacks->kernel_chain;
	record->cgroup = sample_cgroup(task);
	record->flags = stacks->flags;
	record->reserved = 0;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	ring->counters[ABI_COUNT_SAMPLES]++;
	ring_publish(ring, old_head, stacks->position + sizeof(*record));
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u64 now = bpf_ktime_get_ns(), ids = bpf_get_current_pid_tgid(), ip = REGS_IP(&ctx->regs), head, used;
	__u32 tgid = ids >> 32, now_epoch = *(volatile __u32 *)&epoch;
	bool in_kernel = (__s64)ip < 0;
	struct stacks stacks = {};
	struct task_struct *task;
	struct abi_ring *ring;

	if (!(__u32)ids) /* the idle task */
		return 0;
	if (filter_on && !bpf_map_lookup_elem(&filter, &tgid))
		return 0;
	ring = sample_ring();
	if (!ring)
		return 0;
	head = ring->head;
	used = head - *(volatile __u64 *)&ring->tail;
	if (used + sizeof(struct abi_sample) > (__u64)ring_mask + 1) {
		ring->counters[ABI_COUNT_RING_FULL]++;
		return 0;
	}
	stacks.position = head;
	stacks.user_leaf = in_kernel ? 0 : ip;
	stacks.kernel_leaf = in_kernel && kernel_stacks ? ip : 0;
	task = (struct task_struct *)bpf_get_current_task();
	if (BPF_CORE_READ(task, flags) & (PF_KTHREAD | PF_IO_WORKER) || !BPF_CORE_READ(task, mm))
		stacks.flags |= ABI_SAMPLE_KERNEL_THREAD;
	if (used + ABI_SLACK_BYTES > (__u64)ring_mask + 1) {
		stacks.flags |= ABI_SAMPLE_STACK_LOST;
	} else {
		if (in_kernel && kernel_stacks)
			take_kernel_stack(ctx, ring, now_epoch, &stacks);
		if (!(stacks.flags & ABI_SAMPLE_KERNEL_THREAD))
			take_user_stack(ctx, ring, now_epoch, &stacks);
	}
	append_sample(ring, head, now, ids, task, &stacks);
	seen_set(stacks.user_new, now_epoch);
	seen_set(stacks.kernel_new, now_epoch);
	return 0;
}

/* A process forked by one in the filter joins it, before it first runs. */
SEC("raw_tp/sched_process_fork")
int filter_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0], *child = (struct task_struct *)ctx->args[1];
	__u32 from = BPF_CORE_READ(parent, tgid), tgid = BPF_CORE_READ(child, tgid);
	__u64 start = BPF_CORE_READ(child, start_time);

	if (tgid == from || !bpf_map_lookup_elem(&filter, &from))
		return 0;
	if (bpf_map_update_elem(&filter, &tgid, &start, BPF_ANY))
		__sync_fetch_and_add(&filter_full, 1);
	return 0;
}

/* When a process has been reaped. Runs late, after its pid may have been given to another: the start time tells. */
SEC("raw_tp/sched_process_free")
int filter_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 tgid = BPF_CORE_READ(task, tgid);
	__u64 *start;

	if (BPF_CORE_READ(task, pid) != (int)tgid)
		return 0;
	start = bpf_map_lookup_elem(&filter, &tgid);
	if (start && (!*start || *start == BPF_CORE_READ(task, start_time)))
		bpf_map_delete_elem(&filter, &tgid);
	return 0;
}

/* GPL-only helpers (bpf_get_stack, bpf_probe_read_kernel) ask for this. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
