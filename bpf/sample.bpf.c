/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sampling program, run by a perf event on every CPU, and tracepoint programs that follow processes.
 *
 * A sample walks the user stack by the tables of bpf/unwind.h (bpf/walk.h) in memory of its CPU, hashes the frames as they
 * come, and copies them into the CPU's ring (bpf/abi.h) only if user space does not know the chain yet. The kernel stack is
 * taken by the kernel's own unwinder straight into the ring.
 *
 * A step of the walk is a global function: the verifier proves it once, by itself, and the loop around it costs a few
 * instructions an iteration. A long loop is two, turns and iterations of a turn: so all works from 5.15 on, and bpf_loop()
 * (5.17) is not needed.
 *
 * Needs nothing newer than Linux 5.15, built by clang 14 for -mcpu=v3.
 */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>

#include "bpf/abi.h"
#include "bpf/cgroup.h"

/* Set before loading; the verifier takes them as constants. */
const volatile __u32 ring_mask = 0;  /* bytes of a ring - 1; a power of two, at least 16 KiB */
const volatile __u32 seen_mask = 0;  /* slots of `seen` - 1 */
const volatile __u32 chunk_mask = 0; /* chunks of the heap - 1; a power of two */
const volatile __u64 hash_seed = 0;  /* random, so that nobody can build stacks whose hashes meet */
const volatile bool filter_on = false;
const volatile bool filter_by_cgroup = false; /* besides */
const volatile bool kernel_stacks = true;
const volatile bool capture = false; /* every sample has a tail, from its leaf on: for tests */

/* Set by user space at any time. */
__u32 epoch = 0;	       /* a new one makes every chain unseen */
__u32 unwind_clock = 1;	       /* see struct unwind_slot */
__u32 heap_reuses = 0;	       /* raised before memory of the heap is used anew */
__s32 tails_left = 0;	       /* ABI_TAILS, set by user space when it has read some, or here: see tails_are_left() */
__u64 tails_set_ns = 0;	       /* ... when */
__u64 woken_for_names_ns = 0;  /* when the agent was woken last for names of functions */
__u32 runtime_names_wait = 0;  /* there are some that it was not woken for yet */
__u64 woken_for_code_ns = 0;   /* when the agent was woken last because the code of a process had changed */
__u64 ignored_period_ns = 0;   /* samples of an event with this period do not count: while the rate is being changed */
__u64 cycles_stand_for_ns = 0; /* what a sample of the cycle counter stands for; 0 = the timer's period is in ns itself */

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
/* The ids of control groups whose processes are let through, too, as long as they are there. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u8);
} filter_cgroups SEC(".maps");

/*
 * Inodes of executables whose processes had an interpreter or a virtual machine in them: when another process executes one,
 * user space is told, which looks at the process before it is sampled (agent/expected.h). Their number alone: where two file
 * systems have the same one, it looks in vain.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u8);
} runtime_files SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} execs SEC(".maps");
__u64 execed_ns = 0;	 /* the last exec of such a file */
__u64 execs_read_ns = 0; /* user space has read the events up to then */

/* Rung when a ring becomes half full. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} wakeups SEC(".maps");

/* Tables and mappings (bpf/unwind.h). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* chunks, set at load time */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, UNWIND_CHUNK_BYTES);
} heap SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, UNWIND_SLOTS_MAX);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct unwind_slot);
} slots SEC(".maps");
/* tgid -> its mappings. Told by user space once a process was sampled, or runs a program of runtime_files; inherited by what it
 * forks, forgotten at exec. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct unwind_process);
} processes SEC(".maps");

static __always_inline void *heap_at(__u64 place, __u32 size)
{
	__u32 chunk = (place / UNWIND_CHUNK_BYTES) & chunk_mask;
	void *start = bpf_map_lookup_elem(&heap, &chunk);

	return start ? start + (place & (UNWIND_CHUNK_BYTES - size)) : 0;
}
/* Reads at a place. Places wrap around the heap, so there is something to read at any: searches look beyond the end of what
 * they search, and then ignore what they saw. The end of the function with 0 is for the verifier, which does not see that; an
 * answer in place of it would be a second way to go on, at each read. */
#define HEAP_READ(type, place)                                                                                                 \
	({                                                                                                                     \
		const type *at_ = heap_at(place, sizeof(type));                                                                \
		if (!at_)                                                                                                      \
			return 0;                                                                                              \
		*at_;                                                                                                          \
	})

#define HEAP_READ128(place, halves)                                                                                            \
	({                                                                                                                     \
		const __u64 *at_ = heap_at(place, 16);                                                                         \
		if (!at_)                                                                                                      \
			return 0;                                                                                              \
		(halves)[0] = at_[0];                                                                                          \
		(halves)[1] = at_[1];                                                                                          \
	})

struct walk;
__u32 count_ranges(__u32 ranges, __u32 count, __u64 address);
__u32 find_escape(__u32 escapes, __u32 count, __u32 row);
__u32 find_rule(__u32 cpu, __u64 address);
int map_address(__u32 cpu, __u64 address);
int is_call(__u64 bytes);
int find_live_rule(__u32 cpu);
struct unwind_rule;
static __always_inline int thread_pointer(__u64 *ret);
static __always_inline int go_over(struct walk *walk, const struct unwind_rule *rule);
#define WALK_HEAP16(place)		    HEAP_READ(__u16, place)
#define WALK_HEAP32(place)		    HEAP_READ(__u32, place)
#define WALK_HEAP64(place)		    HEAP_READ(__u64, place)
#define WALK_HEAP128(place, halves)	    HEAP_READ128(place, halves)
#define WALK_READ(walk, to, bytes, address) (bpf_probe_read_user(to, bytes, (void *)(address)) ? UNWIND_BAD_READ : 0)
#define WALK_MAP(walk, address)		    map_address((walk)->cpu, address)
#define WALK_KNOWS_ALL			    0
#define WALK_ESCAPE(escapes, count, row)    find_escape(escapes, count, row)
#define WALK_RULE(walk, address)	    find_rule((walk)->cpu, address)
#define WALK_IS_CALL(bytes)		    is_call(bytes)
#define WALK_LIVE(walk, rule)		    find_live_rule_of(walk, rule)
#define WALK_THREAD(walk, ret)		    thread_pointer(ret)
#define WALK_GO(walk, rule)		    go_over(walk, rule)
static __always_inline int find_live_rule_of(struct walk *walk, struct unwind_rule *ret);
#include "bpf/walk.h"

/* One a CPU, at the CPU's number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* possible CPUs, set at load time */
	__type(key, __u32);
	__type(value, struct walk);
} walks SEC(".maps");

/* ---- the walk; functions that are not static are verified by themselves ---- */

__attribute__((noinline)) __u32 count_ranges(__u32 ranges, __u32 count, __u64 address)
{
	return walk_count_ranges(ranges, count, address);
}

__attribute__((noinline)) __u32 find_escape(__u32 escapes, __u32 count, __u32 row)
{
	return walk_escape(escapes, count, row);
}

#if UNWIND_REGISTERS == 16
__attribute__((noinline)) int is_call(__u64 bytes)
{
	return walk_is_call(bytes);
}
#endif

__attribute__((noinline)) __u32 find_rule(__u32 cpu, __u64 address)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? walk_find_rule(&walk->map, address) : 0;
}

/* Into walk->live. Always 0. */
__attribute__((noinline)) int find_live_rule(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? walk_find_live_rule(walk, &walk->live) : 0;
}

static __always_inline int find_live_rule_of(struct walk *walk, struct unwind_rule *ret)
{
	find_live_rule(walk->cpu);
	*ret = walk->live;
	return ret->cfa == UNWIND_CFA_NONE && walk->asks ? UNWIND_NO_TABLE : 0;
}

/* 0, or the result to stop with. */
__attribute__((noinline)) int map_address(__u32 cpu, __u64 address)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	struct unwind_slot *slot;
	__u32 index, number;
	__u64 start, end, range;

	if (!walk)
		return UNWIND_NO_PROCESS;
	if (address >= walk->map.start && address < walk->map.end)
		return 0;
	index = count_ranges(walk->ranges, walk->range_count, address);
	if (!index)
		return UNWIND_NO_MAPPING;
	range = walk->ranges + (__u64)(index - 1) * sizeof(struct unwind_range);
	start = WALK_HEAP64(range);
	end = WALK_HEAP64(range + 8);
	if (address < start || address >= end)
		return UNWIND_NO_MAPPING;
	number = WALK_HEAP32(range + 16);
	slot = bpf_map_lookup_elem(&slots, &number);
	if (!slot)
		return UNWIND_NO_TABLE;
	*(volatile __u32 *)&slot->used = unwind_clock;
	/* A place is written before the state says that it counts, and the state is withdrawn before the place is. */
	__u32 state = *(volatile __u32 *)&slot->state, table = *(volatile __u32 *)&slot->table;
	if (state == UNWIND_SLOT_LOADED && !table)
		state = UNWIND_SLOT_ABSENT;
	walk->map.slot = number;
	walk_set_map(&walk->map, start, end, (__u64)WALK_HEAP32(range + 20) << 12, state, table);
	return 0;
}

/* As the kernel knows it: a thread that sets the register itself (wrfsbase) is not seen to. Go's runtime asks the kernel. */
static __always_inline int thread_pointer(__u64 *ret)
{
#if defined(__TARGET_ARCH_x86)
	*ret = BPF_CORE_READ(bpf_get_current_task_btf(), thread.fsbase);
	return 0;
#else
	return UNWIND_UNSUPPORTED;
#endif
}

/* By the rule in walk->live. */
__attribute__((noinline)) int walk_go_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? walk_go(walk, &walk->live) : UNWIND_NO_USER;
}

/* Not called from the step itself: the stacks of functions that call each other may take 512 bytes in all. */
static __always_inline int go_over(struct walk *walk, const struct unwind_rule *rule)
{
	walk->live = *rule;
	return WALK_GOES_OVER;
}

__attribute__((noinline)) int walk_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return UNWIND_NO_USER;
	if (walk->jvm_chunk_end)
		return WALK_IN_HEAP;
	walk->listed_sp = walk->registers[UNWIND_REGISTER_SP];
	return walk_step(walk);
}

int listed_meet_frame(__u32 cpu); /* of bpf/listed_collect.h */

/* Direct-mapped, as `seen`: the functions whose names user space was woken for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* a power of two, set at load time */
	__type(key, __u32);
	__type(value, __u32);
} listed_codes SEC(".maps");
const volatile __u32 listed_codes_mask = 0;

/* Whether a function is one that user space was not woken for: 1, and it is taken for known from here on. */
static __always_inline __u32 note_function(__u64 object, __u64 check, __u32 tgid)
{
	__u64 hash = walk_hash(walk_hash(tgid, object), check);
	__u32 slot = (hash >> 32) & listed_codes_mask, tag = hash | 1;
	__u32 *code = bpf_map_lookup_elem(&listed_codes, &slot);

	if (!code || *code == tag)
		return 0;
	*code = tag;
	return 1;
}

#include "bpf/stacked.h"

/* Which runtimes (bpf/runtime.h) a process has. */
#define HAS_LISTED 1u
#define HAS_JVM	   2u
#define HAS_V8	   4u
#define HAS_BEAM   8u

/* Puts what runtimes have to say of the frames that the walk has left and come to, by a step of that result, behind them. By
 * itself, so that the loop over all frames has few branches: the verifier of 6.1 keeps at most 8,192 that it has still to
 * follow. */
__attribute__((noinline)) int meet_frames(__u32 cpu, __u32 has, int result)
{
	if (result == WALK_IN_HEAP)
		result = jvm_try_step(cpu);
	if (result != WALK_GOES_ON)
		return result;
	if (has & HAS_V8) {
		v8_meet_frame(cpu);
		v8_look_at_frame(cpu);
	}
	if (has & HAS_LISTED)
		result = listed_meet_frame(cpu);
	if (has & HAS_JVM && result == WALK_GOES_ON)
		jvm_meet_frame(cpu);
	if (has & HAS_BEAM && result == WALK_GOES_ON)
		result = beam_meet_frame(cpu);
	return result;
}

/* A turn of frames: the verifier follows each iteration of a loop, so that a loop over all frames would take it longer than
 * all the rest. */
#define WALK_TURN_FRAMES 32
__attribute__((noinline)) int walk_turn(__u32 cpu)
{
	for (int i = 0; i < WALK_TURN_FRAMES; i++) {
		int result = walk_frame(cpu);

		if (result == WALK_GOES_OVER)
			result = walk_go_frame(cpu);
		if (result != WALK_GOES_ON)
			return result;
	}
	return WALK_GOES_ON;
}

/* The same in a process with runtimes, which `has` says. */
__attribute__((noinline)) int walk_turn_with_runtimes(__u32 cpu, __u32 has)
{
	for (int i = 0; i < WALK_TURN_FRAMES; i++) {
		int result = meet_frames(cpu, has, walk_frame(cpu));

		if (result == WALK_GOES_OVER)
			result = walk_go_frame(cpu);
		if (result != WALK_GOES_ON)
			return result;
	}
	return WALK_GOES_ON;
}

/* To the end. Returns an enum unwind_result. Not by itself, though the verifier goes through it for each way that leads to it:
 * no more than eight functions may be in each other, with 512 bytes of stack in all. */
static __always_inline int walk_frames(__u32 cpu)
{
	int result = WALK_GOES_ON;

	for (int i = 0; i < UNWIND_FRAMES_MAX / WALK_TURN_FRAMES && result == WALK_GOES_ON; i++)
		result = walk_turn(cpu);
	return result == WALK_GOES_ON ? UNWIND_TOO_DEEP : result;
}

static __always_inline int walk_frames_with_runtimes(__u32 cpu, __u32 has)
{
	int result = meet_frames(cpu, has & ~HAS_V8, WALK_GOES_ON); /* of V8, what is left */

	if (has & HAS_V8)
		v8_look_at_frame(cpu);
	for (int i = 0; i < UNWIND_FRAMES_MAX / WALK_TURN_FRAMES && result == WALK_GOES_ON; i++)
		result = walk_turn_with_runtimes(cpu, has);
	return result == WALK_GOES_ON ? UNWIND_TOO_DEEP : result;
}

#include "bpf/listed_collect.h"

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

/* The record of a chain begins at `position`. False if user space knows the chain. */
static __always_inline bool chain_is_new(__u64 hash, __u32 in_epoch)
{
	__u64 *slot = seen_slot(hash);

	return !slot || *slot != seen_tag(hash, in_epoch);
}

static __always_inline __u32 chain_head(struct abi_ring *ring, struct abi_chain *chain, __u64 hash, __u32 frames)
{
	__u32 bytes = ABI_CHAIN_FIXED_BYTES + frames * 8;

	chain->header.kind = ABI_RECORD_CHAIN;
	chain->header.bytes = bytes;
	chain->hash = hash;
	ring->counters[ABI_COUNT_CHAINS]++;
	return bytes;
}

/* Whether the filter lets a process through. */
static __always_inline bool is_followed(struct task_struct *task, __u32 tgid)
{
	__u64 cgroup;

	if (!filter_on || bpf_map_lookup_elem(&filter, &tgid))
		return true;
	if (!filter_by_cgroup)
		return false;
	cgroup = task_cgroup(task);
	return bpf_map_lookup_elem(&filter_cgroups, &cgroup);
}

/* What a sample's stacks come to. Leaves and hashes are 0 where there is none. */
struct stacks {
	__u64 position; /* where the next record goes */
	__u64 user_leaf, kernel_leaf, user_chain, kernel_chain;
	__u64 user_new, kernel_new; /* hashes to be marked as seen */
	__u32 flags, version, epoch;
	int result;
	bool urgent; /* the agent should look at once */
};
/* Those of the sample that the CPU is at. Not on the program's stack, of which all functions that call each other have 512
 * bytes in common. Whoever has opened the ring has it to itself. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stacks);
} stacks_here SEC(".maps");

/* The hash of `count` kernel frames in the chain at a position of this CPU's ring. */
__attribute__((noinline)) __u64 hash_kernel(__u64 position, __u32 count)
{
	struct abi_ring *ring = sample_ring();
	__u64 hash = hash_seed;

	if (!ring)
		return 0;
	const struct abi_chain *chain = ring_at(ring, position);
	for (__u32 i = 0; i < ABI_KERNEL_FRAMES_MAX - 1; i++) {
		if (i >= count)
			break;
		hash = walk_hash(hash, chain->frames[i]);
	}
	return walk_hash_end(hash);
}

/* from: the context of the program, or, with `sleeps`, a constant, a task that is not the current one. */
static __always_inline void take_kernel_stack(void *from, bool sleeps, struct abi_ring *ring, __u32 in_epoch,
					      struct stacks *stacks)
{
	struct abi_chain *chain = ring_at(ring, stacks->position);
	const __u32 room = ABI_KERNEL_FRAMES_MAX * sizeof(__u64);
	long bytes = sleeps ? bpf_get_task_stack(from, &chain->leaf, room, 0) : bpf_get_stack(from, &chain->leaf, room, 0);
	long count;

	if (bytes <= 0) {
		stacks->flags |= ABI_SAMPLE_NO_KERNEL_STACK;
		return; /* the leaf is known from the registers */
	}
	count = bytes >> 3; /* BPF has no signed division */
	stacks->kernel_leaf = chain->leaf;
	if (count < 2)
		return;
	stacks->kernel_chain = hash_kernel(stacks->position, count - 1);
	if (!chain_is_new(stacks->kernel_chain, in_epoch))
		return;
	stacks->kernel_new = stacks->kernel_chain;
	stacks->position += chain_head(ring, chain, stacks->kernel_chain, count - 1);
}

#define ABSENT_MAX 40 /* pages that cannot be read: each takes as long as many that can */

/* One page, or what there is room for. 1 = that was the last one. Verified by itself, as a step of the walk is. */
__attribute__((noinline)) int copy_page(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	struct abi_ring *ring = sample_ring();

	if (!walk || !ring)
		return 1;
	struct walk_copy *copy = &walk->copy;
	struct abi_tail *tail = ring_at(ring, copy->position);
	__u64 done = copy->done, left = ABI_TAIL_BYTES - done, page = 4096 - (copy->from & 4095), bytes = page;

	if (bytes > copy->end - copy->from)
		bytes = copy->end - copy->from;
	if (bytes > left)
		bytes = left;
	/* Else the compiler, which knows more than the verifier of 6.1, leaves out the check. */
	asm volatile("" : "+r"(bytes));
	if (bytes > 4096)
		return 1;
	if (!bpf_probe_read_user(tail->data + (done & (ABI_TAIL_BYTES - 1)), bytes, (void *)copy->from)) {
		copy->done += bytes;
	} else {
		copy->absent |= 1ull << (copy->pages & (ABI_TAIL_PAGES - 1));
		copy->absent_count++;
	}
	copy->from += page;
	copy->pages++;
	return copy->from >= copy->end || copy->done >= ABI_TAIL_BYTES || copy->absent_count > ABSENT_MAX;
}

/* Where a stack begins that the copy need not go beyond, if it lies there: that of the main thread where the kernel made it,
 * that of any other below its thread's storage, which C libraries put on top of it (x86-64). `end`, if neither is between. */
static __always_inline __u64 stack_end(struct task_struct *task, __u64 sp, __u64 end)
{
	__u64 top = BPF_CORE_READ(task, mm, start_stack), storage = 0;

	if (top > sp && top < end)
		end = (top + 7) & ~7ull;
	if (!thread_pointer(&storage) && storage > sp && storage < end)
		end = (storage + 7) & ~7ull;
	return end;
}

/* Copies the stack from sp on, page by page, as many as there is room for, or to its beginning where that is known. Returns the
 * bytes. */
static __always_inline __u32 copy_stack(struct walk *walk, __u64 position, struct abi_tail *tail, struct task_struct *task,
					__u64 sp)
{
	__u64 end = stack_end(task, sp, (sp & ~4095ull) + ABI_TAIL_PAGES * 4096ull);

	walk->copy = (struct walk_copy){.position = position, .from = sp, .end = end};
	for (__u32 i = 0; i < ABI_TAIL_PAGES; i++) {
		if (copy_page(walk->cpu))
			break;
	}
	tail->absent = walk->copy.absent;
	return walk->copy.done & ~7ull;
}

/* What the walk needs to go on in user space; see struct abi_tail. Returns the bytes of the record. */
static __always_inline __u32 append_tail(struct abi_ring *ring, __u64 position, struct task_struct *task, struct walk *walk,
					 __u32 depth)
{
	struct abi_tail *tail = ring_at(ring, position);
	__u64 sp = walk->registers[UNWIND_REGISTER_SP];

	for (int i = 0; i < UNWIND_REGISTERS; i++)
		tail->registers[i] = walk->registers[i];
	tail->ip = walk->ip;
	tail->stack = sp & ~7ull;
	tail->known = walk->known;
#ifdef UNWIND_REGISTER_RBX
	if (walk->rbx_at && bpf_probe_read_user(&tail->registers[UNWIND_REGISTER_RBX], sizeof(__u64), (void *)walk->rbx_at))
		tail->known &= ~(1u << UNWIND_REGISTER_RBX);
#endif
	tail->depth = depth;
	tail->is_return = walk->is_return;
	tail->analysed = walk->analysed;
	tail->stack_bytes = copy_stack(walk, position, tail, task, sp & ~7ull);
	tail->header.kind = ABI_RECORD_TAIL;
	tail->header.bytes = ABI_TAIL_FIXED_BYTES + tail->stack_bytes;
	ring->counters[ABI_COUNT_TAILS]++;
	return tail->header.bytes;
}

#if defined(__TARGET_ARCH_x86)
#define COPY_REGISTERS(to, from)                                                                                               \
	do {                                                                                                                   \
		(to)[0] = (from)->rax;                                                                                         \
		(to)[1] = (from)->rdx;                                                                                         \
		(to)[2] = (from)->rcx;                                                                                         \
		(to)[3] = (from)->rbx;                                                                                         \
		(to)[4] = (from)->rsi;                                                                                         \
		(to)[5] = (from)->rdi;                                                                                         \
		(to)[6] = (from)->rbp;                                                                                         \
		(to)[7] = (from)->rsp;                                                                                         \
		(to)[8] = (from)->r8;                                                                                          \
		(to)[9] = (from)->r9;                                                                                          \
		(to)[10] = (from)->r10;                                                                                        \
		(to)[11] = (from)->r11;                                                                                        \
		(to)[12] = (from)->r12;                                                                                        \
		(to)[13] = (from)->r13;                                                                                        \
		(to)[14] = (from)->r14;                                                                                        \
		(to)[15] = (from)->r15;                                                                                        \
	} while (0)
#endif

/*
 * Sets walk->registers to the user's, and returns their ip; 0 if there are none. In user mode they are the interrupted ones, in
 * the kernel those saved at its entry. A system call clobbers rcx and r11, which no rule at its return uses.
 */
static __always_inline __u64 user_registers(struct bpf_perf_event_data *ctx, struct walk *walk, bool *ret_is_32,
					    bool *ret_in_exec)
{
	if (ctx && (__s64)REGS_IP(&ctx->regs) >= 0) {
		*ret_is_32 = REGS_IS_32(ctx->regs.cs);
		COPY_REGISTERS(walk->registers, &ctx->regs);
		return REGS_IP(&ctx->regs);
	}
	struct pt_regs *regs = (struct pt_regs *)walk->scratch;
	if (bpf_probe_read_kernel(walk->scratch, sizeof(struct pt_regs), (void *)bpf_task_pt_regs(bpf_get_current_task_btf())))
		return 0;
	*ret_is_32 = REGS_IS_32(regs->cs);
	*ret_in_exec = REGS_IN_EXEC(regs);
	COPY_REGISTERS(walk->registers, regs);
	return REGS_IP(regs);
}

#define CODE_WAKEUP_NS	50000000ull
#define NAMES_WAKEUP_NS 25000000ull /* names of functions are read while they are there */
#define V8_WAKEUP_NS	5000000ull  /* ... those of V8 are thrown away sooner */

/* Whether the agent may be woken (again) for the whole machine. */
static __always_inline bool may_wake(__u64 *woken_ns, __u64 least_ns)
{
	__u64 now = bpf_ktime_get_ns();

	if (now - *(volatile __u64 *)woken_ns < least_ns)
		return false;
	*(volatile __u64 *)woken_ns = now;
	return true;
}

/* Whether code was mapped or unmapped since the last walk of the process: then the agent should look at its events, before more
 * walks go by what is outdated. 20 times a second are enough for what happens now and then, and what goes on all the time is
 * handled otherwise (agent/unwinder.c). */
static __always_inline bool code_has_changed(struct unwind_process *process, struct task_struct *task)
{
	__u32 pages = BPF_CORE_READ(task, mm, exec_vm), before = process->code_pages;

	if (pages == before)
		return false;
	process->code_pages = pages;
	if (!before)
		return false;
	return may_wake(&woken_for_code_ns, CODE_WAKEUP_NS);
}

/* Of a process with runtimes. Returns an enum unwind_result. */
static __always_inline int walk_with_runtimes(struct walk *walk, const struct unwind_process *process, __u32 tgid, __u32 cpu,
					      struct stacks *stacks)
{
	__u32 has = 0;
	int result;

	if (process->listed) {
		listed_collect_all(cpu, process->listed, tgid);
		walk->listed_sp = walk->registers[UNWIND_REGISTER_SP];
		has = HAS_LISTED;
	}
	if (process->stacked && jvm_learn(cpu, process->stacked))
		has |= HAS_JVM;
	else if (process->stacked && v8_learn(cpu, process->stacked))
		has |= HAS_V8;
	else if (process->stacked && beam_learn(cpu, process->stacked))
		has |= HAS_BEAM;
	/* By way of memory: the verifier follows the loop over frames once, not once for each that it knows `has` to be. */
	walk->runtimes = has;
	has = *(volatile __u32 *)&walk->runtimes;
	result = walk_result(walk, walk_frames_with_runtimes(cpu, has));
	if (has & HAS_LISTED && walk->listed.flags & LISTED_STATES)
		result = lua_end(cpu, result);
	if (walk->listed_is_new || walk->jvm_is_new || walk->v8_is_new || walk->beam_is_new)
		runtime_names_wait = 1;
	if (has && *(volatile __u32 *)&runtime_names_wait &&
	    may_wake(&woken_for_names_ns, has & HAS_V8 ? V8_WAKEUP_NS : NAMES_WAKEUP_NS)) {
		runtime_names_wait = 0;
		stacks->urgent = true;
	}
	/* There is more of the list than can be collected: callers are missing. */
	if (walk->listed_frame && walk->listed_loops && UNWIND_IS_COMPLETE(result))
		return UNWIND_TOO_DEEP;
	return result;
}

/* Walks from the registers that are set. Returns an enum unwind_result. runtimes: a constant. */
static __always_inline int walk_user_stack(struct walk *walk, struct task_struct *task, __u32 tgid, __u32 cpu, bool runtimes,
					   struct stacks *stacks, bool *ret_quiet)
{
	struct unwind_process *process = bpf_map_lookup_elem(&processes, &tgid);
	__u32 reuses = *(volatile __u32 *)&heap_reuses;
	int result;

	if (!process)
		return UNWIND_NO_PROCESS;
	stacks->urgent = code_has_changed(process, task);
	walk->ranges = process->ranges;
	walk->range_count = process->count;
	stacks->version = process->version;
	*ret_quiet = process->flags & UNWIND_PROCESS_QUIET;
	if (*ret_quiet)
		walk->asks = 0;
	if (runtimes)
		result = walk_with_runtimes(walk, process, tgid, cpu, stacks);
	else
		result = walk_result(walk, walk_frames(cpu));
	return reuses == *(volatile __u32 *)&heap_reuses ? result : UNWIND_STALE;
}

/* ABI_TAILS between two looks of user space bound the work that a flood of them makes. Where it is late because it waits for a
 * CPU or is making a table, it is worth as many for each time that it should have looked in: the ring bounds what they take. */
static __always_inline bool tails_are_left(void)
{
	__u64 now;

	if (*(volatile __s32 *)&tails_left > 0)
		return true;
	now = bpf_ktime_get_ns();
	if (now - *(volatile __u64 *)&tails_set_ns < ABI_TAILS_NS)
		return false;
	*(volatile __u64 *)&tails_set_ns = now;
	*(volatile __s32 *)&tails_left = ABI_TAILS;
	return true;
}

static __always_inline bool may_send_tail(int result, bool quiet)
{
	if (!UNWIND_IS_CURABLE(result) || quiet || !tails_are_left())
		return false;
	__sync_fetch_and_add(&tails_left, -1);
	return true;
}

static __always_inline void append_user_chain(struct abi_ring *ring, const struct walk *walk, __u32 in_epoch,
					      struct stacks *stacks)
{
	struct abi_chain *chain = ring_at(ring, stacks->position);
	__u32 callers = walk->depth - 1;

	if (!callers || callers >= UNWIND_FRAMES_MAX)
		return;
	stacks->user_chain = walk_hash_end(walk->hash);
	if (!chain_is_new(stacks->user_chain, in_epoch))
		return;
	stacks->user_new = stacks->user_chain;
	bpf_probe_read_kernel(chain->frames, (callers * 8) & (UNWIND_FRAMES_MAX * 8 - 8), &walk->frames[1]);
	stacks->position += chain_head(ring, chain, stacks->user_chain, callers);
}

/* ctx: NULL if the registers are those saved at the kernel's entry. runtimes: a constant. */
static __always_inline void take_user_stack(struct bpf_perf_event_data *ctx, struct abi_ring *ring, struct task_struct *task,
					    __u32 tgid, bool tail_fits, bool runtimes, __u32 in_epoch, struct stacks *stacks)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	bool is_32 = false, quiet = false, in_exec = false;

	if (!walk)
		return;
	walk->cpu = cpu;
	stacks->user_leaf = user_registers(ctx, walk, &is_32, &in_exec);
	if (!stacks->user_leaf) {
		stacks->flags |= ABI_SAMPLE_NO_USER_STACK;
		return;
	}
	if (is_32) {
		stacks->result = UNWIND_UNSUPPORTED;
		return;
	}
	walk->known = ~0u;
	walk_begin(walk, stacks->user_leaf, hash_seed);
	walk_without_runtimes(walk);
	walk->asks = tail_fits && tails_are_left();
	if (capture && tail_fits) {
		stacks->position += append_tail(ring, stacks->position, task, walk, 1);
		stacks->flags |= ABI_SAMPLE_TAIL;
	}
	stacks->result = walk_user_stack(walk, task, tgid, cpu, runtimes, stacks, &quiet);
	/* The stack went with the old program, and what begins there may be the new one's. */
	if (in_exec && (!UNWIND_IS_COMPLETE(stacks->result) || walk->depth < 2)) {
		stacks->result = UNWIND_NO_USER;
		stacks->user_leaf = 0;
		stacks->version = 0;
		return;
	}
	ring->counters[ABI_COUNT_FRAMES] += walk->depth;
	if (walk->by_frames)
		stacks->flags |= ABI_SAMPLE_BY_FRAMES;
	if (!capture && tail_fits && may_send_tail(stacks->result, quiet)) {
		stacks->position += append_tail(ring, stacks->position, task, walk, walk->depth);
		stacks->flags |= ABI_SAMPLE_TAIL;
	}
	if (runtimes) {
		jvm_end(ring, walk);
		v8_end(ring, walk);
		beam_end(ring, walk);
		listed_end(ring, walk, cpu);
	}
	append_user_chain(ring, walk, in_epoch, stacks);
}

/* Publishes everything before `head`. The exchange is a full barrier on every architecture. */
static __always_inline void ring_publish(struct abi_ring *ring, __u64 old_head, __u64 head, bool urgent)
{
	__u64 tail = *(volatile __u64 *)&ring->tail;
	__u64 half = ((__u64)ring_mask + 1) / 2;

	__sync_lock_test_and_set(&ring->head, head);
	if (urgent || (old_head - tail <= half && head - tail > half)) {
		__u32 cpu = bpf_get_smp_processor_id();
		bpf_ringbuf_output(&wakeups, &cpu, sizeof(cpu), BPF_RB_FORCE_WAKEUP);
	}
}

/* Fills in the record and publishes it with those before it. */
static __always_inline void append_sample(struct abi_ring *ring, __u64 now, __u64 value, __u32 what, __u64 ids,
					  struct task_struct *task, const struct stacks *stacks)
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
	record->cgroup = task_cgroup(task);
	record->value = value;
	record->version = stacks->version;
	record->flags = stacks->flags;
	record->result = stacks->result;
	record->what = what;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	ring_publish(ring, ring->head, stacks->position + sizeof(*record), stacks->urgent || stacks->flags & ABI_SAMPLE_TAIL);
	seen_set(stacks->user_new, stacks->epoch);
	seen_set(stacks->kernel_new, stacks->epoch);
}

/* The ring with room for a record, marked as in use; NULL, and the loss counted, if there is none. */
static __always_inline struct abi_ring *ring_open(__u64 *ret_used, enum abi_counter loss)
{
	struct abi_ring *ring = sample_ring();

	if (!ring)
		return 0;
	*ret_used = ring->head - *(volatile __u64 *)&ring->tail;
	if (*(volatile __u64 *)&ring->busy || *ret_used + sizeof(struct abi_sample) > (__u64)ring_mask + 1) {
		ring->counters[loss]++;
		return 0;
	}
	*(volatile __u64 *)&ring->busy = 1;
	return ring;
}

static __always_inline void ring_leave(struct abi_ring *ring)
{
	*(volatile __u64 *)&ring->busy = 0;
}

static __always_inline void ring_close(struct abi_ring *ring, __u64 began)
{
	__u64 took = bpf_ktime_get_ns() - began, bucket = took >> ABI_RUN_BUCKET_SHIFT;

	ring->counters[ABI_COUNT_RUN_NS] += took;
	if (bucket >= ABI_RUN_BUCKETS)
		bucket = ABI_RUN_BUCKETS - 1;
	ring->run_ns[bucket]++;
	ring_leave(ring);
}

/* Stacks of the next record of a ring that was opened. NULL, which does not happen, leaves the ring. */
static __always_inline struct stacks *stacks_begin(struct abi_ring *ring)
{
	__u32 zero = 0;
	struct stacks *stacks = bpf_map_lookup_elem(&stacks_here, &zero);

	if (!stacks) {
		ring_leave(ring);
		return 0;
	}
	*stacks = (struct stacks){.position = ring->head, .result = UNWIND_NO_USER};
	return stacks;
}

/* A quarter of a ring is for samples alone: where user space does not come for long, it is better to know less of some than to
 * lose them. */
static __always_inline bool tail_fits(__u64 used)
{
	__u64 size = (__u64)ring_mask + 1;

	return used + ABI_SAMPLE_BYTES_MAX <= size && used <= size / 4 * 3;
}

/* Both stacks, as far as there is room for them. user: NULL if the user's registers are those saved at the kernel's entry.
 * runtimes: a constant. */
static __always_inline void take_stacks(void *ctx, struct bpf_perf_event_data *user, struct abi_ring *ring,
					struct task_struct *task, __u32 tgid, __u64 used, bool of_kernel, bool runtimes,
					struct stacks *stacks)
{
	__u64 size = (__u64)ring_mask + 1;

	stacks->epoch = *(volatile __u32 *)&epoch;
	if (BPF_CORE_READ(task, flags) & (PF_KTHREAD | PF_IO_WORKER) || !BPF_CORE_READ(task, mm))
		stacks->flags |= ABI_SAMPLE_KERNEL_THREAD;
	if (used + ABI_STACKS_BYTES > size) {
		stacks->flags |= ABI_SAMPLE_STACK_LOST;
		return;
	}
	if (of_kernel)
		take_kernel_stack(ctx, false, ring, stacks->epoch, stacks);
	if (!(stacks->flags & ABI_SAMPLE_KERNEL_THREAD))
		take_user_stack(user, ring, task, tgid, tail_fits(used), runtimes, stacks->epoch, stacks);
}

/* Whether the sample is one that counts. */
static __always_inline bool is_wanted(struct bpf_perf_event_data *ctx)
{
	__u64 ids = bpf_get_current_pid_tgid();

	if (!(__u32)ids) /* the idle task */
		return false;
	if (ctx->sample_period == *(volatile __u64 *)&ignored_period_ns)
		return false;
	return is_followed((struct task_struct *)bpf_get_current_task(), ids >> 32);
}

/* runtimes: a constant. */
static __always_inline void take_sample(struct bpf_perf_event_data *ctx, bool runtimes)
{
	__u64 now = bpf_ktime_get_ns(), ids = bpf_get_current_pid_tgid(), ip = REGS_IP(&ctx->regs), used = 0;
	__u64 value = *(volatile __u64 *)&cycles_stand_for_ns;
	bool in_kernel = (__s64)ip < 0;
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct stacks *stacks;
	struct abi_ring *ring = ring_open(&used, ABI_COUNT_RING_FULL);

	if (!ring)
		return;
	stacks = stacks_begin(ring);
	if (!stacks)
		return;
	stacks->user_leaf = in_kernel ? 0 : ip;
	stacks->kernel_leaf = in_kernel && kernel_stacks ? ip : 0;
	take_stacks(ctx, ctx, ring, task, ids >> 32, used, in_kernel && kernel_stacks, runtimes, stacks);
	append_sample(ring, now, value ? value : ctx->sample_period, ABI_CPU, ids, task, stacks);
	ring->counters[ABI_COUNT_SAMPLES]++;
	ring_close(ring, now);
}

/*
 * Two programs. What runtimes need is more than two thirds of what the verifier has to go through, and most machines and
 * commands have none: sample_with_runtimes() is loaded when the first process that has one is about to be told to `processes`
 * (sampler_set_process()), and takes the samples of such processes from then on.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} with_runtimes SEC(".maps");

static __always_inline bool has_runtimes(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	const struct unwind_process *process = bpf_map_lookup_elem(&processes, &tgid);

	return process && (process->listed || process->stacked);
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	if (!is_wanted(ctx))
		return 0;
	if (has_runtimes())
		bpf_tail_call(ctx, &with_runtimes, 0); /* does not come back, if it is there */
	take_sample(ctx, false);
	return 0;
}

/* Also in the place of the other one, where it is known beforehand that it will be needed. */
SEC("perf_event")
int sample_with_runtimes(struct bpf_perf_event_data *ctx)
{
	if (is_wanted(ctx))
		take_sample(ctx, true);
	return 0;
}

#include "bpf/offcpu.h"

/* ---- processes ---- */

/* A forked process maps what its parent maps. Whatever was known under its pid was of a process that is gone. */
static __always_inline void inherit_mappings(__u32 from, __u32 tgid)
{
	struct unwind_process *parent = bpf_map_lookup_elem(&processes, &from), copy;

	if (!parent) {
		bpf_map_delete_elem(&processes, &tgid);
		return;
	}
	copy = *parent;
	copy.flags = 0;
	if (bpf_map_update_elem(&processes, &tgid, &copy, BPF_ANY)) /* full */
		bpf_map_delete_elem(&processes, &tgid);
}

/* A process forked by one in the filter joins it, before it first runs. */
SEC("raw_tp/sched_process_fork")
int follow_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (struct task_struct *)ctx->args[0], *child = (struct task_struct *)ctx->args[1];
	__u32 from = BPF_CORE_READ(parent, tgid), tgid = BPF_CORE_READ(child, tgid);
	__u64 start = BPF_CORE_READ(child, start_time);

	if (tgid == from)
		return 0;
	inherit_mappings(from, tgid);
	if (!filter_on || !bpf_map_lookup_elem(&filter, &from))
		return 0;
	if (bpf_map_update_elem(&filter, &tgid, &start, BPF_ANY))
		__sync_fetch_and_add(&filter_full, 1);
	return 0;
}

/* Whoever was woken for an exec that user space has not read yet will read this one, too: it looks whether there are any that
 * came later. */
static __always_inline void report_exec(struct task_struct *task, __u32 tgid)
{
	__u64 inode = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino), before;

	if (!bpf_map_lookup_elem(&runtime_files, &inode) || !is_followed(task, tgid))
		return;
	before = *(volatile __u64 *)&execed_ns;
	*(volatile __u64 *)&execed_ns = bpf_ktime_get_ns();
	if (before <= *(volatile __u64 *)&execs_read_ns)
		bpf_ringbuf_output(&execs, &tgid, sizeof(tgid), BPF_RB_FORCE_WAKEUP);
}

/* The old mappings are gone, and the new program has not run yet. */
SEC("raw_tp/sched_process_exec")
int follow_exec(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	bpf_map_delete_elem(&processes, &tgid);
	report_exec((struct task_struct *)bpf_get_current_task(), tgid);
	return 0;
}

/* When a process has been reaped. Runs late, after its pid may have been given to another: the start time distinguishes them. A
 * process that is forgotten here by mistake is reported again when it is sampled. */
SEC("raw_tp/sched_process_free")
int follow_free(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	__u32 tgid = BPF_CORE_READ(task, tgid);
	__u64 *start;

	if (BPF_CORE_READ(task, pid) != (int)tgid)
		return 0;
	bpf_map_delete_elem(&processes, &tgid);
	if (!filter_on)
		return 0;
	start = bpf_map_lookup_elem(&filter, &tgid);
	if (start && (!*start || *start == BPF_CORE_READ(task, start_time)))
		bpf_map_delete_elem(&filter, &tgid);
	return 0;
}

/* GPL-only helpers (bpf_get_stack, bpf_probe_read_kernel) ask for this. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
