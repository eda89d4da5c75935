/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collecting the frames of CPython, and putting them into the walk (see bpf/python.h for the whole). Compiled for the sampling
 * program and for user space, as bpf/walk.h, which has the macros.
 */
#ifndef WICK_BPF_PYTHON_WALK_H
#define WICK_BPF_PYTHON_WALK_H

enum python_appends {
	PYTHON_APPENDS_NONE = 0,
	PYTHON_APPENDS_PART = 1,
	PYTHON_APPENDS_FULL = 2, /* there is no room for the rest of a part: the walk ends */
};

#define PYTHON_WORD(walk, offset) ((walk)->scratch[((offset) >> 3) & (PYTHON_FRAME_WORDS - 1)])

static __always_inline __u32 python_half(struct walk *walk, __u32 offset)
{
	return (__u32)(PYTHON_WORD(walk, offset) >> ((offset & 4) * 8));
}

static __always_inline __u32 python_byte(struct walk *walk, __u32 offset)
{
	return PYTHON_WORD(walk, offset) >> ((offset & 7) * 8) & 0xff;
}

static __always_inline __u64 python_load(struct walk *walk, __u64 address)
{
	if (!address || WALK_READ(walk, walk->scratch, 8, address))
		return 0;
	return walk->scratch[0];
}

/* Bounds that the verifier sees: a size from 1 to PYTHON_FRAME_WORDS * 8. */
static __always_inline int python_read(struct walk *walk, __u32 bytes, __u64 address)
{
	__u32 size = ((bytes - 1) & (PYTHON_FRAME_WORDS * 8 - 1)) + 1;

	return WALK_READ(walk, walk->scratch, size, address);
}

/* The first interpreter, or the one after another. */
static __always_inline __u64 python_interpreter(struct walk *walk, __u64 before)
{
	return python_load(walk, before ? before + walk->python.interpreter_next : walk->python.interpreters);
}

/* The thread state that has the lock, or had it last; 0 = nobody. */
static __always_inline __u64 python_holder(struct walk *walk)
{
	const struct python_process *python = &walk->python;
	__u64 gil;

	if (python->holder)
		return python_load(walk, python->holder);
	if (!python->gil_holder && !python->interpreter_gil)
		return 0;
	gil = python_interpreter(walk, 0);
	gil = gil ? python_load(walk, gil + python->interpreter_gil) : 0;
	return gil ? python_load(walk, gil + python->gil_holder) : 0;
}

static __always_inline int python_is_thread(struct walk *walk, __u64 state, __u64 thread)
{
	return state && python_load(walk, state + walk->python.thread_id) == thread;
}

/* Whether a state that was found before is still one: a state that was freed is in no list. */
static __always_inline int python_is_listed(struct walk *walk, __u64 state)
{
	const struct python_process *python = &walk->python;
	__u64 interpreter = python_load(walk, state + python->thread_interpreter), before;

	if (!interpreter)
		return 0;
	before = python_load(walk, state); /* prev, the first member in all versions */
	if (before)
		return python_load(walk, before + python->thread_next) == state;
	return python_load(walk, interpreter + python->interpreter_threads) == state;
}

/* A step of the search through all threads: the state after walk->python_state, going on to the next interpreter at the end.
 * Positive when walk->python_state is the thread's, 0 to go on, negative at the end. */
static __always_inline int python_search_step(struct walk *walk, __u64 thread)
{
	if (!walk->python_state) {
		if (walk->python_interpreters++ >= PYTHON_INTERPRETERS_MAX)
			return -1;
		walk->python_interpreter = python_interpreter(walk, walk->python_interpreter);
		if (!walk->python_interpreter)
			return -1;
		walk->python_state = python_load(walk, walk->python_interpreter + walk->python.interpreter_threads);
	} else {
		walk->python_state = python_load(walk, walk->python_state + walk->python.thread_next);
	}
	return python_is_thread(walk, walk->python_state, thread);
}

/* The innermost frame of a thread state. */
static __always_inline __u64 python_first_frame(struct walk *walk, __u64 state)
{
	__u64 frame = python_load(walk, state + walk->python.thread_frame);

	if (walk->python.flags & PYTHON_CFRAME)
		frame = frame ? python_load(walk, frame + walk->python.cframe_frame) : 0;
	return frame;
}

/* `words`: code_bytes of a code object from code_from on. */
static __always_inline __u32 python_check(const struct python_process *python, const __u64 *words)
{
	return python_check_of(words[PYTHON_CHECK_WORD(python->check0)], words[PYTHON_CHECK_WORD(python->check1)],
			       words[PYTHON_CHECK_WORD(python->check2)]);
}

static __always_inline __u64 python_instruction(struct walk *walk, __u64 code)
{
	const struct python_process *python = &walk->python;
	__u64 place;

	if (python->flags & PYTHON_LAST_INSTR) {
		__s32 last = python_half(walk, python->frame_instr);
		place = last < 0 ? 0 : (__u32)last;
		if (python->flags & PYTHON_HALF_INSTR)
			place >>= 1;
	} else {
		place = PYTHON_WORD(walk, python->frame_instr) - code - python->code_instr;
		place = (__s64)place < 0 ? 0 : place >> 1; /* 3.11, 3.12: before the first one */
	}
	return place > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : place;
}

/* Reads the frame at walk->python_frame and goes to the one before it. 0, or 1 at the end: walk->python_frame is 0 then, unless
 * the list goes on and cannot be followed. */
static __always_inline int python_collect_step(struct walk *walk)
{
	const struct python_process *python = &walk->python;
	__u64 frame = walk->python_frame, code, next, data, place;
	__u32 count = walk->python_count, owner;

	if (!frame || frame & 7 || count >= PYTHON_FRAMES_MAX)
		return 1;
	if (python_read(walk, python->frame_bytes, frame))
		return 1;
	code = PYTHON_WORD(walk, python->frame_code) & ~7ull; /* 3.14 has tags in the low bits */
	next = PYTHON_WORD(walk, python->frame_back);
	owner = python->frame_owner ? python_byte(walk, python->frame_owner) : 0;
	if (python->owner_shim && owner >= python->owner_shim) {
		walk->python_frame = next;
		if (!count || walk->python_frames[(count - 1) & (PYTHON_FRAMES_MAX - 1)][1] & RUNTIME_FRAME_ENTRY)
			return 0; /* a loop that has not begun yet */
		walk->python_frames[(count - 1) & (PYTHON_FRAMES_MAX - 1)][1] |= RUNTIME_FRAME_ENTRY;
		walk->python_anchors[walk->python_anchor_count & (PYTHON_ANCHORS_MAX - 1)] = frame;
		return walk->python_anchor_count++ >= PYTHON_ANCHORS_MAX - 1;
	}
	place = python_instruction(walk, code);
	if (!code || code >> 56 || python_read(walk, python->code_bytes, code + python->code_from))
		return 1;
	data = RUNTIME_FRAME | RUNTIME_FRAME_DATA | (__u64)python_check(python, walk->scratch) << 24 | place;
	if (python->flags & PYTHON_EACH_IS_ENTRY || (python->flags & PYTHON_ENTRY_FLAG && owner))
		data |= RUNTIME_FRAME_ENTRY;
	walk->python_frames[count & (PYTHON_FRAMES_MAX - 1)][0] = RUNTIME_FRAME | (__u64)RUNTIME_KIND_PYTHON << 56 | code;
	walk->python_frames[count & (PYTHON_FRAMES_MAX - 1)][1] = data;
	walk->python_count = count + 1;
	walk->python_frame = next;
	return 0;
}

static __always_inline void python_push(struct walk *walk, __u64 word)
{
	walk->frames[walk->depth & (UNWIND_FRAMES_MAX - 1)] = word;
	walk->depth++;
	walk->hash_before = walk->hash;
	walk->hash = walk_hash(walk->hash, word);
}

/* Whether the next frame that was collected cannot be appended: what calls it would seem to be called by another one. */
static __always_inline int python_has_no_room(const struct walk *walk)
{
	return walk->python_next < walk->python_count && walk->depth + 3 > UNWIND_FRAMES_MAX;
}

/* Appends the next frame that was collected. Positive while there are more of the same part. */
static __always_inline int python_append(struct walk *walk)
{
	__u32 next = walk->python_next;
	__u64 data;

	if (next >= walk->python_count || walk->depth + 3 > UNWIND_FRAMES_MAX)
		return 0;
	data = walk->python_frames[next & (PYTHON_FRAMES_MAX - 1)][1];
	python_push(walk, walk->python_frames[next & (PYTHON_FRAMES_MAX - 1)][0]);
	python_push(walk, data);
	walk->python_next = next + 1;
	return !(data & RUNTIME_FRAME_ENTRY) && next + 1 < walk->python_count;
}

/* Appends the next of those that the walk has not come to. Positive while there are more. */
static __always_inline int python_append_pending(struct walk *walk)
{
	__u32 next = walk->python_next;
	__u64 data;

	if (next >= walk->python_count || walk->depth + 3 > UNWIND_FRAMES_MAX)
		return 0;
	data = walk->python_frames[next & (PYTHON_FRAMES_MAX - 1)][1] | RUNTIME_FRAME_PENDING;
	python_push(walk, walk->python_frames[next & (PYTHON_FRAMES_MAX - 1)][0]);
	python_push(walk, data);
	walk->python_next = next + 1;
	if (data & RUNTIME_FRAME_ENTRY && walk->python_anchor < walk->python_anchor_count) {
		python_push(walk, RUNTIME_FRAME | RUNTIME_FRAME_DATA | RUNTIME_FRAME_PENDING | RUNTIME_FRAME_ANCHOR |
					  walk->python_anchors[walk->python_anchor & (PYTHON_ANCHORS_MAX - 1)]);
		walk->python_anchor++;
	}
	return 1;
}

/* Whether the walk is in a frame of the interpreter's loop. */
static __always_inline int python_is_loop(const struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	return (pc >= walk->python.loop_start && pc < walk->python.loop_end) ||
	       (pc >= walk->python.cold_start && pc < walk->python.cold_end);
}

/* Whether the end of the next part lies in the native memory from walk->python_sp up to the frame that the walk is in. */
static __always_inline int python_is_anchored(const struct walk *walk)
{
	__u64 anchor = walk->python_anchors[walk->python_anchor & (PYTHON_ANCHORS_MAX - 1)], from = walk->python_sp;

	return walk->python_anchor < walk->python_anchor_count && anchor >= from &&
	       anchor < walk->registers[UNWIND_REGISTER_SP];
}

/* The walk has come to a frame, from one whose stack pointer was walk->python_sp: does either run a part of the list? The part
 * goes behind the frame that runs it: walk->python_appends. */
static __always_inline void python_meet(struct walk *walk)
{
	if (walk->python_next >= walk->python_count && !walk->python.loop_end)
		return;
	if (!(walk->python.flags & PYTHON_ANCHORED)) {
		if (!python_is_loop(walk))
			return;
		walk->python_loops++;
		walk->python_appends = walk->python_next < walk->python_count ? PYTHON_APPENDS_PART : PYTHON_APPENDS_NONE;
		return;
	}
	if (!python_is_anchored(walk) || walk->depth < 2)
		return;
	/* It has left the frame, and appended the one that called it. */
	walk->python_loops++;
	walk->python_appends = PYTHON_APPENDS_PART;
	walk->python_held = walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)];
	walk->depth--;
	walk->hash = walk->hash_before;
}

/* A step of appending a part: the frame that called it follows. */
static __always_inline void python_go_on(struct walk *walk)
{
	if (python_has_no_room(walk)) {
		walk->python_appends = PYTHON_APPENDS_FULL;
		return;
	}
	if (python_append(walk))
		return;
	walk->python_appends = PYTHON_APPENDS_NONE;
	if (!(walk->python.flags & PYTHON_ANCHORED))
		return;
	walk->python_anchor++;
	if (python_is_anchored(walk)) {
		walk->python_appends = PYTHON_APPENDS_PART; /* a frame was skipped: the next part ends in the same memory */
		return;
	}
	python_push(walk, walk->python_held);
}

#endif
