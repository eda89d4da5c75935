/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Putting the frames of a listed runtime into the walk (see bpf/listed.h for the whole). Compiled for the sampling program and
 * for user space, as bpf/walk.h, which has the macros. A runtime collects: it reads the frame at walk->listed_frame, adds what
 * it runs, and goes to the one before it, step by step.
 */
#ifndef WICK_BPF_LISTED_WALK_H
#define WICK_BPF_LISTED_WALK_H

enum listed_appends {
	LISTED_APPENDS_NONE = 0,
	LISTED_APPENDS_PART = 1,
	LISTED_APPENDS_FULL = 2, /* there is no room for the rest of a part: the walk ends */
};

#define LISTED_WORD(walk, offset) ((walk)->scratch[((offset) >> 3) & (LISTED_READ_WORDS - 1)])

static __always_inline __u32 listed_half(struct walk *walk, __u32 offset)
{
	return (__u32)(LISTED_WORD(walk, offset) >> ((offset & 4) * 8));
}

static __always_inline __u32 listed_byte(struct walk *walk, __u32 offset)
{
	return LISTED_WORD(walk, offset) >> ((offset & 7) * 8) & 0xff;
}

static __always_inline __u64 listed_load(struct walk *walk, __u64 address)
{
	if (!address || WALK_READ(walk, walk->scratch, 8, address))
		return 0;
	return walk->scratch[0];
}

/* Bounds that the verifier sees: a size from 1 to LISTED_READ_WORDS * 8. */
static __always_inline int listed_read(struct walk *walk, __u32 bytes, __u64 address)
{
	__u32 size = ((bytes - 1) & (LISTED_READ_WORDS * 8 - 1)) + 1;

	return WALK_READ(walk, walk->scratch, size, address);
}

#define LISTED_NOTHING 0ull /* in place of word 1 */

/* Adds a frame to those that are collected; there is room. data: check, place and flags. */
static __always_inline void listed_add(struct walk *walk, __u32 kind, __u64 object, __u64 data)
{
	__u32 at = walk->listed_count & (LISTED_FRAMES_MAX - 1);

	walk->listed_frames[at][0] = RUNTIME_FRAME | (__u64)kind << 56 | object;
	walk->listed_frames[at][1] = RUNTIME_FRAME | RUNTIME_FRAME_DATA | data;
	walk->listed_count++;
}

/* Adds a part that has no functions. */
static __always_inline void listed_add_nothing(struct walk *walk)
{
	__u32 at = walk->listed_count & (LISTED_FRAMES_MAX - 1);

	walk->listed_frames[at][0] = LISTED_NOTHING;
	walk->listed_frames[at][1] = RUNTIME_FRAME_ENTRY;
	walk->listed_count++;
}

/* Whether the next frame that was collected cannot be appended: what calls it would seem to be called by another one. */
static __always_inline int listed_has_no_room(const struct walk *walk)
{
	return walk->listed_next < walk->listed_count && walk->depth + 3 > UNWIND_FRAMES_MAX;
}

/* Appends the next frame that was collected. Positive while there are more of the same part. */
static __always_inline int listed_append(struct walk *walk)
{
	__u32 next = walk->listed_next;
	__u64 object, data;

	if (next >= walk->listed_count || walk->depth + 3 > UNWIND_FRAMES_MAX)
		return 0;
	object = walk->listed_frames[next & (LISTED_FRAMES_MAX - 1)][0];
	data = walk->listed_frames[next & (LISTED_FRAMES_MAX - 1)][1];
	if (object != LISTED_NOTHING) {
		walk_push(walk, object);
		walk_push(walk, data);
	}
	walk->listed_next = next + 1;
	return !(data & RUNTIME_FRAME_ENTRY) && next + 1 < walk->listed_count;
}

/* Appends the next of those that the walk has not come to. Positive while there are more. */
static __always_inline int listed_append_pending(struct walk *walk)
{
	__u32 next = walk->listed_next;
	__u64 object, data;

	if (next >= walk->listed_count || walk->depth + 3 > UNWIND_FRAMES_MAX)
		return 0;
	object = walk->listed_frames[next & (LISTED_FRAMES_MAX - 1)][0];
	data = walk->listed_frames[next & (LISTED_FRAMES_MAX - 1)][1] | RUNTIME_FRAME_PENDING;
	walk->listed_next = next + 1;
	if (object == LISTED_NOTHING) /* is of no use where the place of frames is not known */
		return 1;
	walk_push(walk, object);
	walk_push(walk, data);
	if (data & RUNTIME_FRAME_ENTRY && walk->listed_anchor < walk->listed_anchor_count) {
		walk_push(walk, RUNTIME_FRAME | RUNTIME_FRAME_DATA | RUNTIME_FRAME_PENDING | RUNTIME_FRAME_ANCHOR |
					walk->listed_anchors[walk->listed_anchor & (LISTED_ANCHORS_MAX - 1)]);
		walk->listed_anchor++;
	}
	return 1;
}

/* Whether the walk is in a frame of the interpreter's loop. */
static __always_inline int listed_is_loop(const struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	return (pc >= walk->listed.loop_start && pc < walk->listed.loop_end) ||
	       (pc >= walk->listed.cold_start && pc < walk->listed.cold_end);
}

/* Whether the end of the next part lies in the native memory from walk->listed_sp up to the frame that the walk is in. */
static __always_inline int listed_is_anchored(const struct walk *walk)
{
	__u64 anchor = walk->listed_anchors[walk->listed_anchor & (LISTED_ANCHORS_MAX - 1)], from = walk->listed_sp;

	return walk->listed_anchor < walk->listed_anchor_count && anchor >= from &&
	       anchor < walk->registers[UNWIND_REGISTER_SP];
}

/* The walk has left a frame that runs a part, and appended the one that called it: that follows behind the part. */
static __always_inline void listed_hold(struct walk *walk)
{
	walk->listed_appends = LISTED_APPENDS_PART;
	walk->listed_held = walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)];
	walk->depth--;
	walk->hash = walk->hash_before;
}

/* The walk has come to a frame, from one whose stack pointer was walk->listed_sp: does either run a part of the list? The part
 * goes behind the frame that runs it: walk->listed_appends. */
static __always_inline void listed_meet(struct walk *walk)
{
	if (walk->listed_next >= walk->listed_count && !walk->listed.loop_end)
		return;
	if (!(walk->listed.flags & LISTED_ANCHORED)) {
		if (!listed_is_loop(walk))
			return;
		walk->listed_loops++;
		walk->listed_appends = walk->listed_next < walk->listed_count ? LISTED_APPENDS_PART : LISTED_APPENDS_NONE;
		walk->listed_missed += walk->listed.flags & LISTED_STATES && !walk->listed_appends;
		return;
	}
	if (!listed_is_anchored(walk) || walk->depth < 2)
		return;
	walk->listed_loops++;
	listed_hold(walk);
}

/* A step of appending a part: the frame that called it follows. */
static __always_inline void listed_go_on(struct walk *walk)
{
	if (listed_has_no_room(walk)) {
		walk->listed_appends = LISTED_APPENDS_FULL;
		return;
	}
	if (listed_append(walk))
		return;
	walk->listed_appends = LISTED_APPENDS_NONE;
	if (!walk->listed_held)
		return;
	walk->listed_anchor++;
	if (listed_is_anchored(walk)) {
		walk->listed_appends = LISTED_APPENDS_PART; /* a frame was skipped: the next part ends in the same memory */
		return;
	}
	walk_push(walk, walk->listed_held);
	walk->listed_held = 0;
}

#endif
