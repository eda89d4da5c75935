/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting threads: a program at every switch of threads, loaded only when asked for.
 *
 * When a thread is switched out, it is still the current one and its memory is mapped: the only moment at which both of its
 * stacks can be had. But most waits are short and there may be 100,000 a second, so a random number decides first whether this
 * one is looked at, and everything else comes after it. One that is looked at leaves a record with its stacks
 * (ABI_WAIT_BEGINS) and its start time in `waits`; when the thread is switched in again, a record with the time in between
 * (ABI_WAIT_ENDS). User space joins the two by thread: so a walk that the kernel side could not finish goes on there while the
 * thread still waits, and the kernel keeps 8 bytes a waiting thread.
 *
 * The duration is not known when the stacks are taken. A least duration is therefore a filter at the end of a wait: it saves
 * records, not stacks. The alternative, to take the stack on the thread's way back to user space (rseq_update), was rejected:
 * not all threads pass there, and it runs with interrupts on, where a sample that falls due meets a ring in use and is lost.
 *
 * Runs under the lock of the run queue with interrupts off: a cpu-clock sample cannot interrupt it, an NMI's can, and finds the
 * ring busy. `waits` is preallocated. The wake-up is sent from an irq_work. The task's state is read from the task, not from
 * the tracepoint's argument, which is there from 5.18 on only: a wake-up that is under way meanwhile turns it into TASK_WAKING,
 * which is not TASK_RUNNING either.
 *
 * Samples of CPU time come first: waits begin only while the ring is less than three quarters full, and end while it is less
 * than seven eighths full. So a flood of switches costs waits, which are counted, and no samples.
 *
 * Kernel threads are left out: they wait for work nearly always.
 */
#ifndef WICK_BPF_OFFCPU_H
#define WICK_BPF_OFFCPU_H

const volatile __u64 wait_least_ns = 0;
const volatile bool wait_runnable = false; /* also threads that are switched out while they could go on */
/* Set by user space at any time; the begin of a wait carries it. */
__u32 wait_chance = 0; /* of 2^32; ABI_CHANCE_ALWAYS = always */

/* tid -> when it was switched out, or since when it was found asleep, with ABI_WAIT_UNSEEN. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} waits SEC(".maps");

/* The ring, if less than `part` eighths of it are full. */
static __always_inline struct abi_ring *wait_ring(__u32 part, __u64 *ret_used)
{
	struct abi_ring *ring = ring_open(ret_used, ABI_COUNT_WAITS_FULL);

	if (!ring || *ret_used < ((__u64)ring_mask + 1) / 8 * part)
		return ring;
	ring->counters[ABI_COUNT_WAITS_FULL]++;
	ring_leave(ring);
	return 0;
}

static __always_inline void wait_begins(void *ctx, struct task_struct *task, __u32 tid, __u32 chance)
{
	__u64 now = bpf_ktime_get_ns(), used = 0;
	__u32 tgid = task->tgid;
	struct stacks *stacks;
	struct abi_ring *ring;

	if (!is_followed(task, tgid))
		return;
	ring = wait_ring(6, &used);
	if (!ring)
		return;
	stacks = stacks_begin(ring);
	if (!stacks)
		return;
	if (bpf_map_update_elem(&waits, &tid, &now, BPF_ANY)) {
		ring->counters[ABI_COUNT_WAITS_FULL]++;
	} else {
		take_stacks(ctx, 0, ring, task, tgid, used, kernel_stacks, true, stacks);
		append_sample(ring, now, chance, ABI_WAIT_BEGINS, (__u64)tgid << 32 | tid, task, stacks);
		ring->counters[ABI_COUNT_WAITS]++;
	}
	ring->counters[ABI_COUNT_RUN_NS] += bpf_ktime_get_ns() - now;
	ring_leave(ring);
}

/* `task` is not the current one: its user's memory is not mapped. */
static __always_inline void wait_ends(struct task_struct *task, __u32 tid, __u64 start, bool unseen)
{
	__u64 now = bpf_ktime_get_ns(), used = 0, took = now - (start & ~ABI_WAIT_UNSEEN);
	struct stacks *stacks;
	struct abi_ring *ring;

	if (took < wait_least_ns)
		return;
	ring = wait_ring(7, &used);
	if (!ring)
		return;
	stacks = stacks_begin(ring);
	if (!stacks)
		return;
	if (unseen && kernel_stacks && used + ABI_STACKS_BYTES <= (__u64)ring_mask + 1) {
		stacks->epoch = *(volatile __u32 *)&epoch;
		take_kernel_stack(task, true, ring, stacks->epoch, stacks);
	}
	append_sample(ring, now, took, ABI_WAIT_ENDS, (__u64)task->tgid << 32 | tid, task, stacks);
	ring_leave(ring);
}

/* A program of its own, for the verifier, and since only wall-clock profiles need it. Comes before the other. */
SEC("tp_btf/sched_switch")
int wake_unseen(__u64 *ctx)
{
	struct task_struct *to = (struct task_struct *)ctx[2];
	__u32 tid = to->pid;
	__u64 *start = bpf_map_lookup_elem(&waits, &tid), started;

	if (!start || !(*start & ABI_WAIT_UNSEEN))
		return 0;
	started = *start;
	bpf_map_delete_elem(&waits, &tid);
	wait_ends(to, tid, started, true);
	return 0;
}

SEC("tp_btf/sched_switch")
int switch_threads(__u64 *ctx)
{
	struct task_struct *from = (struct task_struct *)ctx[1], *to = (struct task_struct *)ctx[2];
	bool preempted = ctx[0] & 0xff;
	__u32 tid = from->pid, state = from->__state, chance = *(volatile __u32 *)&wait_chance;
	bool off_cpu_now = wait_runnable || (!preempted && state != TASK_RUNNING);
	__u64 *start, started;

	if (tid && off_cpu_now && !(state & TASK_DEAD) && (chance == ABI_CHANCE_ALWAYS || bpf_get_prandom_u32() < chance) &&
	    !(from->flags & (PF_KTHREAD | PF_IO_WORKER)))
		wait_begins(ctx, from, tid, chance);
	tid = to->pid;
	if (!tid)
		return 0;
	start = bpf_map_lookup_elem(&waits, &tid);
	if (!start)
		return 0;
	started = *start;
	bpf_map_delete_elem(&waits, &tid);
	wait_ends(to, tid, started, false);
	return 0;
}

#endif
