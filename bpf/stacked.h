/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Runtimes on the stack (bpf/runtime.h) in the sampling program: what it is told of a process, and what goes behind the frames
 * that the walk has left or come to. How such frames are recognized is in bpf/jvm_walk.h, bpf/v8_walk.h and
 * bpf/beam_walk.h. A part of bpf/sample.bpf.c.
 *
 * Functions that are not static are verified by themselves, as those of the walk.
 */
#ifndef WICK_BPF_STACKED_H
#define WICK_BPF_STACKED_H

/* ---- HotSpot ---- */

/* The frame that the walk has come to may be one of HotSpot's interpreter: 1 if it is. */
__attribute__((noinline)) int jvm_try_interpreter(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? jvm_interpreted(walk) : 0;
}

__attribute__((noinline)) int jvm_try_hop(__u32 cpu, __u32 heap)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? jvm_hop(walk, heap) : -1;
}

__attribute__((noinline)) int jvm_try_block(__u32 cpu, __u32 heap)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (walk)
		jvm_in_block(walk, jvm_block(walk, heap));
	return 0;
}

/* ... or one of its compiled code, or a stub. */
__attribute__((noinline)) int jvm_try_code(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u32 heap;
	int r = 0;

	if (!walk)
		return 0;
	heap = jvm_begin_block(walk);
	if (heap >= JVM_HEAPS_MAX)
		return 0;
	for (__u32 i = 0; i < JVM_HOPS_MAX && !r; i++)
		r = jvm_try_hop(cpu, heap);
	return r > 0 ? jvm_try_block(cpu, heap) : 0;
}

static __always_inline void jvm_meet_code(struct walk *walk, __u32 cpu)
{
	if (!jvm_is_in_interpreter(walk) || !jvm_try_interpreter(cpu))
		jvm_try_code(cpu);
}

/* From the return barrier to the frames in the heap: 1 if there are any. */
__attribute__((noinline)) int jvm_try_heap(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? jvm_enter_heap(walk) : 0;
}

/* The walk's next step, in the heap. */
__attribute__((noinline)) int jvm_try_step(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? jvm_step_in_heap(walk) : UNWIND_NO_USER;
}

/* Puts the functions of HotSpot that the frame has behind it. */
__attribute__((noinline)) int jvm_meet_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u32 before;

	if (!walk || !jvm_is_in(walk))
		return 0;
	before = walk->depth;
	jvm_note(walk);
	jvm_meet_code(walk, cpu);
	if (walk->jvm_barrier == JVM_BARRIER_MET) {
		walk->jvm_barrier = jvm_try_heap(cpu) ? JVM_BARRIER_NONE : JVM_BARRIER_CLOSED;
		jvm_meet_code(walk, cpu);
	}
	walk->jvm_barrier = JVM_BARRIER_NONE;
	walk->jvm_unknown += walk->depth == before;
	if (walk->depth != before && note_function(walk->frames[(walk->depth - 2) & (UNWIND_FRAMES_MAX - 1)],
						   RUNTIME_CHECK(walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)]),
						   bpf_get_current_pid_tgid() >> 32))
		walk->jvm_is_new = 1;
	return 0;
}

/* ---- V8 ---- */

/* The frame that the walk has left, if it was one of V8. Always 0. */
__attribute__((noinline)) int v8_meet_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u64 data;

	if (!walk || !v8_meet(walk))
		return 0;
	data = walk->v8_words[1];
	if (!(data & V8_FRAME_CODE))
		data = RUNTIME_CHECK(data);
	else /* the function does not say what replaces its code while it runs, and that is thrown away soon */
		data ^= walk->frames[(walk->depth - 4) & (UNWIND_FRAMES_MAX - 1)] >> 10;
	if (note_function(walk->v8_words[0], data, bpf_get_current_pid_tgid() >> 32))
		walk->v8_is_new = 1;
	return 0;
}

/* How far the frame that the walk has come to is set up, if it is one of V8. */
__attribute__((noinline)) int v8_look_at_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (walk)
		v8_look(walk);
	return 0;
}

/* ---- BEAM ---- */

/* Where the frame that the walk has come to belongs. Returns an enum beam_arrival. */
__attribute__((noinline)) int beam_try_arrive(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u64 code;

	if (!walk || !beam_is_in(walk))
		return BEAM_ELSEWHERE;
	code = walk->is_return ? walk->ip : walk->ip & ~255ull;
	if (note_function(code, RUNTIME_KIND_BEAM, bpf_get_current_pid_tgid() >> 32))
		walk->beam_is_new = 1;
	return beam_arrive(walk);
}

__attribute__((noinline)) __u32 beam_try_way_at(__u32 cpu, __u32 i)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? beam_way_at(walk, i) : BEAM_WAY_NONE;
}

__attribute__((noinline)) __u32 beam_try_way(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	__u32 bytes = walk ? beam_read_code(walk) : 0, way = BEAM_WAY_NONE;

	for (__u32 i = 0; i < BEAM_CODE_BYTES && way == BEAM_WAY_NONE; i++) {
		if (i >= bytes)
			break;
		way = beam_try_way_at(cpu, i);
	}
	return way;
}

__attribute__((noinline)) int beam_try_back(__u32 cpu, __u32 way)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? beam_go_back(walk, way) : BEAM_ELSEWHERE;
}

__attribute__((noinline)) int beam_try_word(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	return walk ? beam_word(walk) : -1;
}

/* A turn of words. */
#define BEAM_TURN_WORDS 50u
_Static_assert(BEAM_WORDS_MAX % BEAM_TURN_WORDS == 0, "turns are enough for all");
__attribute__((noinline)) int beam_try_words(__u32 cpu)
{
	int found = 0;

	for (__u32 i = 0; i < BEAM_TURN_WORDS && !found; i++)
		found = beam_try_word(cpu);
	return found;
}

/* Puts the function of BEAM that the frame is of behind it. WALK_GOES_ON, or the result that the walk ends with. */
__attribute__((noinline)) int beam_meet_frame(__u32 cpu)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);
	int arrival = beam_try_arrive(cpu), found = 0;

	if (!walk)
		return WALK_GOES_ON;
	if (arrival == BEAM_OFF_STACK)
		arrival = beam_try_back(cpu, beam_try_way(cpu));
	if (arrival != BEAM_ON_STACK)
		return beam_result(arrival);
	beam_begin_words(walk);
	for (__u32 i = 0; i < BEAM_WORDS_MAX / BEAM_TURN_WORDS && !found; i++)
		found = beam_try_words(cpu);
	beam_end_words(walk, found);
	return WALK_GOES_ON;
}

/* ---- what they are told, and what is counted ---- */

/* Into walk->jvm. */
__attribute__((noinline)) int jvm_learn(__u32 cpu, __u32 place)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk)
		return 0;
	__u64 *words = (__u64 *)&walk->jvm;
	for (__u32 i = 0; i < JVM_PROCESS_WORDS; i++)
		words[i] = WALK_HEAP64((__u64)place + i * 8);
	if (walk->jvm.kind != RUNTIME_KIND_JVM)
		walk->jvm.high = 0;
	return walk->jvm.high != 0;
}

/* Into walk->v8. */
__attribute__((noinline)) int v8_learn(__u32 cpu, __u32 place)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk || WALK_HEAP32(place) != RUNTIME_KIND_V8)
		return 0;
	__u64 *words = (__u64 *)&walk->v8;
	for (__u32 i = 0; i < V8_PROCESS_WORDS; i++)
		words[i] = WALK_HEAP64((__u64)place + i * 8);
	return 1;
}

/* Into walk->beam. */
__attribute__((noinline)) int beam_learn(__u32 cpu, __u32 place)
{
	struct walk *walk = bpf_map_lookup_elem(&walks, &cpu);

	if (!walk || WALK_HEAP32(place) != RUNTIME_KIND_BEAM)
		return 0;
	__u64 *words = (__u64 *)&walk->beam;
	for (__u32 i = 0; i < BEAM_PROCESS_WORDS; i++)
		words[i] = WALK_HEAP64((__u64)place + i * 8);
	return 1;
}

static __always_inline void beam_end(struct abi_ring *ring, const struct walk *walk)
{
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_BEAM, ABI_RUNTIME_SAMPLES)] += walk->beam_count > 0;
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_BEAM, ABI_RUNTIME_FRAMES)] += walk->beam_count;
}

static __always_inline void v8_end(struct abi_ring *ring, const struct walk *walk)
{
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_V8, ABI_RUNTIME_SAMPLES)] += walk->v8_count > 0;
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_V8, ABI_RUNTIME_FRAMES)] += walk->v8_count;
}

static __always_inline void jvm_end(struct abi_ring *ring, const struct walk *walk)
{
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_JVM, ABI_RUNTIME_SAMPLES)] += walk->jvm_functions > 0;
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_JVM, ABI_RUNTIME_FRAMES)] += walk->jvm_functions;
	ring->counters[ABI_COUNT_RUNTIME(RUNTIME_KIND_JVM, ABI_RUNTIME_UNKNOWN)] += walk->jvm_unknown > 0;
}

#endif
