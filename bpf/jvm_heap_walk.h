/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of virtual threads that are in Java's heap (bpf/jvm.h). A part of bpf/jvm_walk.h.
 *
 * Who walks is the thread itself, interrupted: nobody else takes frames out of its chunks or puts any there. A collector may
 * move the objects, but what was moved says so in its first word, or the reference to it does by its color. When a thread is
 * about to wait, its frames are for a moment in both places: then the innermost one in the heap returns to where the innermost
 * one on the stack does, that of doYield()'s caller or, since 24, of what wants to enter a monitor. In both cases the walk says
 * that callers are missing. So it does while frames are copied back.
 *
 *   ContinuationEntry (21 to 28, in no table): word 2 the Continuation, upper half of word 4 the words of arguments that the
 *   innermost function in the heap has left on the stack for the one which returns to it
 *
 * Source: OpenJDK's src/hotspot/share/runtime/{continuationEntry,stackChunkFrameStream}.hpp, and those of the CPUs.
 */
#ifndef WICK_BPF_JVM_HEAP_WALK_H
#define WICK_BPF_JVM_HEAP_WALK_H

#define JVM_ENTRY_CONTINUATION 2u  /* words */
#define JVM_ENTRY_ARGUMENTS    4u  /* ... in the upper half */
#define JVM_ENTRY_ROOM	       16u /* of arguments on the stack */
#define JVM_ENTRY_WORDS_MIN    8u  /* of the frame that has the entry */
#define JVM_ENTRY_WORDS_MAX    16u
#define JVM_CHUNK_SIZE_MAX     (1u << 24) /* words */
#define JVM_ROOM_WORDS_MAX     1024u	  /* between a frame pointer of the interpreter and the caller's frame */
#define JVM_EMPTY_CHUNKS_MAX   4u	  /* one after the other */
#define JVM_OOP_BAD	       1ull
#define JVM_CHUNK_EMPTY	       2ull /* of what jvm_open_chunk() returns */
#define JVM_MARK_UNLOCKED      1u   /* in the lower 2 bits of an object's first word: neither locked nor moved */

/* Whether an object that can be followed is at the address. */
static __always_inline int jvm_is_object(struct walk *walk, __u64 oop)
{
	return !(oop & 7) && !(oop >> 47) && !WALK_PEEK(walk, walk->scratch, 8, oop) &&
	       (walk->scratch[0] & 3) == JVM_MARK_UNLOCKED;
}

/* The address that a reference of 8 bytes has; JVM_OOP_BAD if it cannot be followed as it is. */
static __always_inline __u64 jvm_uncolored(struct walk *walk, __u64 reference)
{
	__u64 bad;

	if (!walk->jvm.color_bad || !reference)
		return reference;
	if (WALK_PEEK(walk, walk->scratch, 8, walk->jvm.color_bad))
		return JVM_OOP_BAD;
	bad = walk->scratch[0];
	if (WALK_PEEK(walk, walk->scratch, 8, walk->jvm.color_shift) || reference & bad || walk->scratch[0] > 63)
		return JVM_OOP_BAD;
	return reference >> (walk->scratch[0] & 63);
}

/* The object that a field refers to; 0 = null, JVM_OOP_BAD if it cannot be followed. */
static __always_inline __u64 jvm_follow(struct walk *walk, __u64 field)
{
	const struct jvm_process *jvm = &walk->jvm;
	__u64 oop;

	walk->scratch[0] = 0;
	if (jvm->oop_bytes == 4) {
		if (WALK_PEEK(walk, walk->scratch, 4, field))
			return JVM_OOP_BAD;
		oop = walk->scratch[0];
		if (oop)
			oop = jvm->oop_base + (oop << (jvm->oop_shift & 31));
	} else {
		if (WALK_PEEK(walk, walk->scratch, 8, field))
			return JVM_OOP_BAD;
		oop = jvm_uncolored(walk, walk->scratch[0]);
	}
	if (!oop)
		return 0;
	return jvm_is_object(walk, oop) ? oop : JVM_OOP_BAD;
}

/* Sets walk->jvm_entry and jvm_entry_ip: the frame of enterSpecial(), above what the return barrier returns from. 1 if it is
 * there. */
static __always_inline int jvm_find_entry(struct walk *walk)
{
	const struct jvm_process *jvm = &walk->jvm;
	__u64 sp = walk->registers[UNWIND_REGISTER_SP], blob, ra;
	__u32 words, arguments;

	if (WALK_PEEK(walk, walk->scratch, 8, jvm->enter_method + jvm->method_code))
		return 0;
	blob = walk->scratch[0];
	if (!blob || blob & 7 || jvm_read(walk, jvm->blob_bytes, blob - jvm->block_bytes) || !jvm_byte(walk, jvm->block_used))
		return 0;
	words = jvm_half(walk, jvm->blob_frame_size);
	walk->jvm_entry_ip =
		(jvm->flags & JVM_CODE_IS_OFFSET ? blob + jvm_half(walk, jvm->blob_code) : jvm_word(walk, jvm->blob_code)) + 1;
	if (words < JVM_ENTRY_WORDS_MIN || words > JVM_ENTRY_WORDS_MAX || walk->jvm_entry_ip - jvm->low >= jvm->high - jvm->low)
		return 0;
	if (WALK_READ(walk, walk->scratch, (JVM_ENTRY_ROOM + JVM_ENTRY_WORDS_MAX) * 8, sp))
		return 0;
	for (__u32 i = 0; i < JVM_ENTRY_ROOM; i += 2) { /* stacks are aligned to two words */
		arguments = walk->scratch[i + JVM_ENTRY_ARGUMENTS] >> 32;
		ra = walk_code(walk->scratch[(i + words - 1) & 63]);
		if (((arguments + 1) & ~1u) != i || ra - 1 - jvm->low >= jvm->high - jvm->low)
			continue;
		walk->jvm_entry = sp + i * 8;
		walk->jvm_continuation = walk->scratch[i + JVM_ENTRY_CONTINUATION];
		return 1;
	}
	return 0;
}

/* Goes to the frame that begins at sp, in a chunk. Below it, at `at`, are its frame pointer and the address that is returned
 * to: that is returned; 0 if it is nonsense. */
static __always_inline __u64 jvm_land(struct walk *walk, __u64 sp, __u64 at)
{
	const struct jvm_process *jvm = &walk->jvm;
	__u64 saved[2], fp, ra;

	if (walk_load(walk, at, 2, saved))
		return 0;
	ra = walk_code(saved[1]);
	if (ra - 1 - jvm->low >= jvm->high - jvm->low)
		return 0;
	if (ra - 1 - jvm->interpreter < jvm->interpreter_end - jvm->interpreter) {
		fp = at + saved[0] * 8;
		if (fp <= at || fp >= walk->jvm_chunk_end)
			return 0;
		walk->registers[UNWIND_REGISTER_FP] = fp;
		walk->known = 1u << UNWIND_REGISTER_SP | 1u << UNWIND_REGISTER_FP;
	} else {
		walk->known = 1u << UNWIND_REGISTER_SP;
	}
	walk->registers[UNWIND_REGISTER_SP] = sp;
	return ra;
}

/* The next chunk, which a field refers to. The address in its innermost frame; 0 if there is no chunk, JVM_OOP_BAD if it cannot
 * be followed, JVM_CHUNK_EMPTY. */
static __always_inline __u64 jvm_open_chunk(struct walk *walk, __u64 field)
{
	const struct jvm_process *jvm = &walk->jvm;
	__u64 chunk = jvm_follow(walk, field), start, ra;
	__u32 size, sp, bottom;

	if (!chunk || chunk == JVM_OOP_BAD)
		return chunk;
	if (jvm_read(walk, jvm->chunk_stack, chunk))
		return JVM_OOP_BAD;
	size = jvm_half(walk, jvm->chunk_size);
	sp = jvm_half(walk, jvm->chunk_sp);
	bottom = jvm_half(walk, jvm->chunk_bottom);
	if (size > JVM_CHUNK_SIZE_MAX || bottom > size || sp > size)
		return JVM_OOP_BAD;
	start = chunk + jvm->chunk_stack;
	walk->jvm_chunk = chunk;
	if (sp >= bottom)
		return JVM_CHUNK_EMPTY;
	if (sp < 2)
		return JVM_OOP_BAD;
	walk->jvm_chunk_end = start + (__u64)bottom * 8;
	ra = jvm_land(walk, start + (__u64)sp * 8, start + (__u64)sp * 8 - 16);
	return ra ? ra : JVM_OOP_BAD;
}

/* ... that has frames. */
static __always_inline __u64 jvm_open_chunks(struct walk *walk, __u64 field)
{
	__u64 ra = JVM_CHUNK_EMPTY;

	for (__u32 i = 0; i < JVM_EMPTY_CHUNKS_MAX && ra == JVM_CHUNK_EMPTY; i++) {
		ra = jvm_open_chunk(walk, field);
		field = walk->jvm_chunk + walk->jvm.chunk_parent;
	}
	return ra == JVM_CHUNK_EMPTY ? JVM_OOP_BAD : ra;
}

/* From the return barrier to the frames in the heap. 1; 0 if there are none that can be believed, and nothing has changed. */
static __always_inline int jvm_enter_heap(struct walk *walk)
{
	__u64 ra, gap;

	if (walk->depth < 2 || !jvm_find_entry(walk) || !jvm_is_object(walk, walk->jvm_continuation))
		return 0;
	ra = jvm_open_chunks(walk, walk->jvm_continuation + walk->jvm.continuation_tail);
	if (ra <= JVM_OOP_BAD || ra == walk->jvm_yield_ip || ra == walk->jvm_first_ip) {
		walk->jvm_chunk_end = 0;
		return 0;
	}
	gap = walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)] & UNWIND_FRAME_GAP;
	walk_amend(walk, ra | gap);
	walk->ip = ra;
	walk->uncalled = walk->frame_bytes = walk->has_frame = 0;
	walk->jvm_fp = 0;
	return 1;
}

/* To the frame that called the virtual thread, on the carrier's stack. */
static __always_inline int jvm_leave_heap(struct walk *walk, __u64 gap)
{
	walk->jvm_chunk_end = 0;
	walk->registers[UNWIND_REGISTER_SP] = walk->jvm_entry;
	walk->known = 1u << UNWIND_REGISTER_SP;
	walk_enter(walk, walk->jvm_entry_ip, 1);
	if (gap)
		walk_amend(walk, walk->jvm_entry_ip | gap);
	return WALK_GOES_ON;
}

/* A step from a frame in the heap, whose code the walk has met. */
static __always_inline int jvm_step_in_heap(struct walk *walk)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP], at, noted = 0, ra;

	if (walk->depth >= UNWIND_FRAMES_MAX)
		return UNWIND_TOO_DEEP;
	if (jvm_is_in_interpreter(walk)) {
		at = walk->registers[UNWIND_REGISTER_FP];
		if (walk_load(walk, at - 8, 1, &noted) || noted < 2 || noted > JVM_ROOM_WORDS_MAX)
			return jvm_leave_heap(walk, UNWIND_FRAME_GAP);
		sp = at + noted * 8;
		noted = 0;
	} else {
		if (!walk->frame_bytes)
			return jvm_leave_heap(walk, UNWIND_FRAME_GAP);
		sp += walk->frame_bytes;
		at = sp - 16;
		noted = 16; /* there is no room for another one */
	}
	if (sp + noted < walk->jvm_chunk_end)
		ra = jvm_land(walk, sp, at);
	else
		ra = jvm_open_chunks(walk, walk->jvm_chunk + walk->jvm.chunk_parent);
	if (ra <= JVM_OOP_BAD)
		return jvm_leave_heap(walk, ra || sp + noted < walk->jvm_chunk_end ? UNWIND_FRAME_GAP : 0);
	return walk_enter(walk, ra, 1);
}

#endif
