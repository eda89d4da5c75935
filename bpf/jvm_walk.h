/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of HotSpot in the walk (see bpf/jvm.h for the whole). Compiled for the sampling program and for user space, as
 * bpf/walk.h, which has the macros.
 */
#ifndef WICK_BPF_JVM_WALK_H
#define WICK_BPF_JVM_WALK_H

#define JVM_NAME_NMETHOD 0x00646f6874656d6eull /* "nmethod" */
#define JVM_NAME_NATIVE	 0x6e2065766974616eull /* "native n", of "native nmethod" */
#define JVM_NAME_STUBS_0 0x74756f5262757453ull /* "StubRoutines (continuation stubs)", "... (continuationstubs)" */
#define JVM_NAME_STUBS_1 0x6f63282073656e69ull
#define JVM_NAME_STUBS_2 0x697461756e69746eull
#define JVM_SEGMENT_NONE 0xff
/* What the walk has seen of virtual threads. */
enum jvm_notes {
	JVM_NOTE_BEGUN = 1,
	JVM_NOTE_YIELD = 2, /* the frame that was met last is doYield() */
	JVM_NOTE_THAW = 4,  /* ... is a stub that copies frames back to the stack */
};

/* A return address of the stack that leads to the return barrier. */
enum jvm_barrier {
	JVM_BARRIER_NONE,
	JVM_BARRIER_MET,    /* frames that are in the heap come next */
	JVM_BARRIER_CLOSED, /* ... and are not found */
};
#if UNWIND_REGISTERS == 16
#define JVM_REGISTER_BCP 13u /* r13 */
#else
#define JVM_REGISTER_BCP 22u /* x22 */
#endif

static __always_inline __u64 jvm_word(const struct walk *walk, __u32 offset)
{
	return walk->scratch[(offset >> 3) & (JVM_BLOB_WORDS - 1)];
}

static __always_inline __u32 jvm_half(const struct walk *walk, __u32 offset)
{
	return (__u32)(jvm_word(walk, offset) >> ((offset & 4) * 8));
}

static __always_inline __u32 jvm_short(const struct walk *walk, __u32 offset)
{
	return jvm_word(walk, offset) >> ((offset & 6) * 8) & 0xffff;
}

static __always_inline __u32 jvm_byte(const struct walk *walk, __u32 offset)
{
	return jvm_word(walk, offset) >> ((offset & 7) * 8) & 0xff;
}

static __always_inline void jvm_push(struct walk *walk, __u64 object, __u32 check, __u64 flags, __u64 place)
{
	if (walk->depth + 3 > UNWIND_FRAMES_MAX || object >> 56)
		return;
	walk->jvm_functions++;
	walk_push(walk, RUNTIME_FRAME | (__u64)RUNTIME_KIND_JVM << 56 | object);
	walk_push(walk, RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | (__u64)check << 24 |
				(place > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : place));
}

static __always_inline int jvm_is_in_interpreter(const struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	return pc >= walk->jvm.interpreter && pc < walk->jvm.interpreter_end;
}

/* ---- the interpreter ---- */

/* Which bytecode is executed. Negative if the frame is not (yet, any more) one of the method. */
static __always_inline __s64 jvm_bytecode(const struct walk *walk, __u64 codes, __u32 size, __u64 saved)
{
	__u64 place = walk->registers[JVM_REGISTER_BCP] - codes;

	if (walk->known >> JVM_REGISTER_BCP & 1 && place < size)
		return place;
	if (saved - codes < size)
		return saved - codes;
	return size ? -1 : 0; /* a native method has none */
}

/* The frame of a method in the interpreter. 1 if it is one. */
static __always_inline int jvm_interpreted(struct walk *walk)
{
	const struct jvm_process *jvm = &walk->jvm;
	__u64 fp = walk->registers[UNWIND_REGISTER_FP], method, saved, constant;
	__u64 names;
	__u32 size;
	__s64 place;

	/* From below, so that what the step reads of the frame is there already. */
	if (!(walk->known >> UNWIND_REGISTER_FP & 1) || fp & 7 || walk_load(walk, fp - (__u64)jvm->frame_bcp * 8, 1, &saved) ||
	    walk_load(walk, fp - (__u64)jvm->frame_method * 8, 1, &method))
		return 0;
	if (!method || method & 7 || WALK_PEEK(walk, walk->scratch, 8, method + jvm->method_const))
		return 0;
	constant = walk->scratch[0];
	if (!constant || constant & 7 || WALK_PEEK(walk, walk->scratch, JVM_METHOD_BYTES, constant))
		return 0;
	size = jvm_short(walk, jvm->const_code_size);
	place = jvm_bytecode(walk, constant + jvm->const_bytes, size, saved);
	if (place < 0)
		return 0;
	if (fp == walk->jvm_fp && walk->depth > 1) {
		/* A subroutine of the interpreter, as it has for its calls to C: not a frame of its own. */
		walk->depth--;
		walk->hash = walk->hash_before;
		return 1;
	}
	walk->jvm_fp = fp;
	walk->has_frame = 1;
	names = jvm_method_word(size, jvm_short(walk, jvm->const_name), jvm_short(walk, jvm->const_signature));
	jvm_push(walk, method, runtime_check_of(constant, jvm_word(walk, jvm->const_pool), names), 0, place);
	return 1;
}

/* ---- code heaps ---- */

/* The heap that has the address; JVM_HEAPS_MAX if none has. */
static __always_inline __u32 jvm_heap_of(const struct jvm_process *jvm, __u64 pc)
{
	__u32 found = JVM_HEAPS_MAX;

	for (__u32 i = 0; i < JVM_HEAPS_MAX; i++) {
		if (pc >= jvm->heaps[i].start && pc < jvm->heaps[i].end)
			found = i;
	}
	return found;
}

/* A step back through the segment map, from walk->jvm_segment. 0 to go on, 1 where a block begins, negative if there is none.
 */
static __always_inline int jvm_hop(struct walk *walk, __u32 heap)
{
	__u64 hop;

	walk->scratch[0] = 0;
	if (WALK_PEEK(walk, walk->scratch, 1, walk->jvm.heaps[heap & (JVM_HEAPS_MAX - 1)].segments + walk->jvm_segment))
		return -1;
	hop = walk->scratch[0] & 0xff;
	if (!hop)
		return 1;
	if (hop == JVM_SEGMENT_NONE || hop > walk->jvm_segment)
		return -1;
	walk->jvm_segment -= hop;
	return 0;
}

static __always_inline int jvm_is_nmethod(struct walk *walk, __u64 name, __u32 kind)
{
	if (walk->jvm.flags & JVM_BLOB_KINDS)
		return kind == walk->jvm.kind_nmethod;
	if (name && name == walk->jvm_nmethod_name)
		return 1;
	if (WALK_PEEK(walk, walk->scratch, 8, name))
		return 0;
	if (walk->scratch[0] == JVM_NAME_NMETHOD)
		walk->jvm_nmethod_name = name;
	return walk->scratch[0] == JVM_NAME_NMETHOD || walk->scratch[0] == JVM_NAME_NATIVE;
}

/* Whether stubs of that name are those of virtual threads. */
static __always_inline int jvm_is_thaw(struct walk *walk, __u64 name)
{
	return walk->jvm.enter_method && !WALK_PEEK(walk, walk->scratch, 24, name) && walk->scratch[0] == JVM_NAME_STUBS_0 &&
	       walk->scratch[1] == JVM_NAME_STUBS_1 && walk->scratch[2] == JVM_NAME_STUBS_2;
}

/* Before the functions of a frame in the code heaps go behind it. */
static __always_inline void jvm_note(struct walk *walk)
{
	__u32 notes = walk->jvm_notes;

	/* Neither the stack nor the heap have all frames, or they are in both. */
	if (notes & JVM_NOTE_THAW)
		walk_amend(walk, walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)] | UNWIND_FRAME_GAP);
	if (notes & JVM_NOTE_YIELD)
		walk->jvm_yield_ip = walk->ip;
	if (!(notes & JVM_NOTE_BEGUN) && walk->is_return)
		walk->jvm_first_ip = walk->ip;
	walk->jvm_notes = JVM_NOTE_BEGUN;
}

/* Where a frame of compiled code that is to be left by way of the interpreter was going to return to: its return address leads
 * to what makes that happen instead. */
static __always_inline __u64 jvm_undeoptimized(struct walk *walk, __u64 block, __u64 deopt)
{
	if (walk->ip != deopt || !walk->is_return)
		return walk->ip;
	walk->scratch[0] = 0;
	if (WALK_PEEK(walk, walk->scratch, 4, block + walk->jvm.nmethod_orig_pc) || walk->scratch[0] > JVM_FRAME_BYTES_MAX)
		return walk->ip;
	if (WALK_READ(walk, walk->scratch, 8, walk->registers[UNWIND_REGISTER_SP] + walk->scratch[0]))
		return walk->ip;
	return walk->scratch[0];
}

/* Bounds that the verifier sees: a size from 1 to JVM_BLOB_WORDS * 8. */
static __always_inline int jvm_read(struct walk *walk, __u32 bytes, __u64 address)
{
	__u32 size = ((bytes - 1) & (JVM_BLOB_WORDS * 8 - 1)) + 1;

	return WALK_PEEK(walk, walk->scratch, size, address);
}

/* Whether there is a return address at an address of the stack: behind a call, or in the interpreter, which jumps. */
static __always_inline int jvm_returns_from(struct walk *walk, __u64 at)
{
	__u64 ra;

	if (walk_load(walk, at, 1, &ra))
		return 0;
	ra = walk_code(ra);
	return (ra > walk->jvm.interpreter && ra <= walk->jvm.interpreter_end) || (ra && walk_follows_call(walk, ra));
}

/* The size of the frame of compiled code that is a leaf, for where no rule tells how far it is with making or leaving it: by
 * where there is a return address. Its frame pointer may hold anything. */
static __always_inline __u32 jvm_guess(struct walk *walk, __u32 bytes)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP];

	if (jvm_returns_from(walk, sp + bytes - 8))
		return bytes;
	if (jvm_returns_from(walk, sp))
		return 8;
	return jvm_returns_from(walk, sp + 8) ? 16 : bytes;
}

/* The compiled code or the stub in the block at an address. */
static __always_inline void jvm_in_block(struct walk *walk, __u64 block)
{
	const struct jvm_process *jvm = &walk->jvm;
	__u64 blob = block + jvm->block_bytes, code, name, method, deopt;
	__u32 frame, id;

	if (jvm_read(walk, jvm->blob_bytes, block) || !jvm_byte(walk, jvm->block_used))
		return;
	code = jvm->flags & JVM_CODE_IS_OFFSET ? blob + jvm_half(walk, jvm->blob_code) : jvm_word(walk, jvm->blob_code);
	deopt = jvm->flags & JVM_DEOPT_IS_OFFSET ? blob + jvm_half(walk, jvm->nmethod_deopt)
						 : jvm_word(walk, jvm->nmethod_deopt);
	frame = jvm_half(walk, jvm->blob_frame_size);
	name = jvm_word(walk, jvm->blob_name);
	method = jvm_word(walk, jvm->nmethod_method);
	id = jvm_half(walk, jvm->nmethod_id);
	if (frame > 1 && frame < JVM_FRAME_BYTES_MAX / 8) {
		walk->frame_bytes = frame * 8;
		walk->uncalled = 0;
	}
	if (!jvm_is_nmethod(walk, name, jvm_byte(walk, jvm->blob_kind))) {
		/* A virtual thread that goes on has only its innermost frames on the stack. The others are copied when they are
		 * returned to, by a stub that nobody calls: its address is in place of theirs. */
		if (walk->is_return && walk_call_before(walk, walk->ip) == WALK_CALL_NOT) {
			if (jvm->enter_method && walk->jvm_barrier == JVM_BARRIER_NONE && !jvm_is_in_interpreter(walk)) {
				walk->jvm_barrier = JVM_BARRIER_MET;
				return;
			}
			walk_amend(walk, walk->ip | UNWIND_FRAME_GAP);
			walk->frame_bytes = jvm->carrier_bytes;
		}
		if (walk->is_return && jvm_is_thaw(walk, name))
			walk->jvm_notes |= JVM_NOTE_THAW;
		jvm_push(walk, blob, runtime_check_of(name, code, 0), JVM_FRAME_STUB, 0);
		return;
	}
	if (jvm->yield_method && method == jvm->yield_method)
		walk->jvm_notes |= JVM_NOTE_YIELD;
	if (!walk->is_return && walk->frame_bytes)
		walk->frame_guess = jvm_guess(walk, walk->frame_bytes);
	jvm_push(walk, blob, runtime_check_of(method, code, id), JVM_FRAME_COMPILED,
		 walk->depth > 1 ? jvm_undeoptimized(walk, block, deopt) - code : JVM_PLACE_LEAF);
}

/* Whether the walk is in one of the code heaps. */
static __always_inline int jvm_is_in(const struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	return pc >= walk->jvm.low && pc < walk->jvm.high;
}

/* Sets walk->jvm_segment to that of the frame's code. Returns its heap; JVM_HEAPS_MAX if it is in none. */
static __always_inline __u32 jvm_begin_block(struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;
	__u32 heap = jvm_heap_of(&walk->jvm, pc);

	if (heap < JVM_HEAPS_MAX) {
		const struct jvm_heap *of = &walk->jvm.heaps[heap & (JVM_HEAPS_MAX - 1)];
		walk->jvm_segment = (pc - of->start) >> (of->shift & 31);
	}
	return heap;
}

/* The address of the block that begins in walk->jvm_segment. */
static __always_inline __u64 jvm_block(const struct walk *walk, __u32 heap)
{
	const struct jvm_heap *of = &walk->jvm.heaps[heap & (JVM_HEAPS_MAX - 1)];

	return of->start + (walk->jvm_segment << (of->shift & 31));
}

#include "bpf/jvm_heap_walk.h"

#ifndef __bpf__
static inline void jvm_meet_code(struct walk *walk)
{
	__u32 heap;
	int r = 0;

	if (jvm_is_in_interpreter(walk) && jvm_interpreted(walk))
		return;
	heap = jvm_begin_block(walk);
	for (__u32 i = 0; i < JVM_HOPS_MAX && r == 0 && heap < JVM_HEAPS_MAX; i++)
		r = jvm_hop(walk, heap);
	if (r > 0)
		jvm_in_block(walk, jvm_block(walk, heap));
}

/* Puts the functions of the frame that the walk has come to behind it. */
static inline void jvm_meet(struct walk *walk)
{
	__u32 before = walk->depth;

	if (!walk->jvm.high || !jvm_is_in(walk))
		return;
	jvm_note(walk);
	jvm_meet_code(walk);
	if (walk->jvm_barrier == JVM_BARRIER_MET) {
		walk->jvm_barrier = jvm_enter_heap(walk) ? JVM_BARRIER_NONE : JVM_BARRIER_CLOSED;
		jvm_meet_code(walk);
	}
	walk->jvm_barrier = JVM_BARRIER_NONE;
	walk->jvm_unknown += walk->depth == before;
}

/* A step, wherever the walk is. */
static inline int jvm_step(struct walk *walk)
{
	return walk->jvm_chunk_end ? jvm_step_in_heap(walk) : walk_step(walk);
}
#endif

#endif
