/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collecting the frames of CPython (see bpf/python.h for the whole). Compiled as bpf/listed_walk.h, for which it collects.
 */
#ifndef WICK_BPF_PYTHON_WALK_H
#define WICK_BPF_PYTHON_WALK_H

_Static_assert(sizeof(struct python_process) <= LISTED_PROCESS_WORDS * 8, "there is room for what is said of a process");

/* The first interpreter, or the one after another. */
static __always_inline __u64 python_interpreter(struct walk *walk, __u64 before)
{
	return listed_load(walk, before ? before + walk->python.interpreter_next : walk->python.interpreters);
}

/* The thread state that has the lock, or had it last; 0 = nobody. */
static __always_inline __u64 python_holder(struct walk *walk)
{
	const struct python_process *python = &walk->python;
	__u64 gil;

	if (python->holder)
		return listed_load(walk, python->holder);
	if (!python->gil_holder && !python->interpreter_gil)
		return 0;
	gil = python_interpreter(walk, 0);
	gil = gil ? listed_load(walk, gil + python->interpreter_gil) : 0;
	return gil ? listed_load(walk, gil + python->gil_holder) : 0;
}

static __always_inline int python_is_thread(struct walk *walk, __u64 state, __u64 thread)
{
	return state && listed_load(walk, state + walk->python.thread_id) == thread;
}

/* Whether a state that was found before is still one: a state that was freed is in no list. */
static __always_inline int python_is_listed(struct walk *walk, __u64 state)
{
	const struct python_process *python = &walk->python;
	__u64 interpreter = listed_load(walk, state + python->thread_interpreter), before;

	if (!interpreter)
		return 0;
	before = listed_load(walk, state); /* prev, the first member in all versions */
	if (before)
		return listed_load(walk, before + python->thread_next) == state;
	return listed_load(walk, interpreter + python->interpreter_threads) == state;
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
		walk->python_state = listed_load(walk, walk->python_interpreter + walk->python.interpreter_threads);
	} else {
		walk->python_state = listed_load(walk, walk->python_state + walk->python.thread_next);
	}
	return python_is_thread(walk, walk->python_state, thread);
}

/* The innermost frame of a thread state. */
static __always_inline __u64 python_first_frame(struct walk *walk, __u64 state)
{
	__u64 frame = listed_load(walk, state + walk->python.thread_frame);

	if (walk->python.listed.flags & PYTHON_CFRAME)
		frame = frame ? listed_load(walk, frame + walk->python.cframe_frame) : 0;
	return frame;
}

/* `words`: code_bytes of a code object from code_from on. */
static __always_inline __u32 python_check(const struct python_process *python, const __u64 *words)
{
	return runtime_check_of(words[LISTED_CHECK_WORD(python->check0)], words[LISTED_CHECK_WORD(python->check1)],
				words[LISTED_CHECK_WORD(python->check2)]);
}

static __always_inline __u64 python_instruction(struct walk *walk, __u64 code)
{
	const struct python_process *python = &walk->python;
	__u64 place;

	if (python->listed.flags & PYTHON_LAST_INSTR) {
		__s32 last = listed_half(walk, python->frame_instr);
		place = last < 0 ? 0 : (__u32)last;
		if (python->listed.flags & PYTHON_HALF_INSTR)
			place >>= 1;
	} else {
		place = LISTED_WORD(walk, python->frame_instr) - code - python->code_instr;
		place = (__s64)place < 0 ? 0 : place >> 1; /* 3.11, 3.12: before the first one */
	}
	return place > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : place;
}

/* Reads the frame at walk->listed_frame and goes to the one before it. 0, or 1 at the end: walk->listed_frame is 0 then, unless
 * the list goes on and cannot be followed. */
static __always_inline int python_collect_step(struct walk *walk)
{
	const struct python_process *python = &walk->python;
	__u64 frame = walk->listed_frame, code, next, data, place;
	__u32 count = walk->listed_count, owner;

	if (!frame || frame & 7 || count >= LISTED_FRAMES_MAX)
		return 1;
	if (listed_read(walk, python->frame_bytes, frame))
		return 1;
	code = LISTED_WORD(walk, python->frame_code) & ~7ull; /* 3.14 has tags in the low bits */
	next = LISTED_WORD(walk, python->frame_back);
	owner = python->frame_owner ? listed_byte(walk, python->frame_owner) : 0;
	if (python->owner_shim && owner >= python->owner_shim) {
		walk->listed_frame = next;
		if (!count || walk->listed_frames[(count - 1) & (LISTED_FRAMES_MAX - 1)][1] & RUNTIME_FRAME_ENTRY)
			return 0; /* a loop that has not begun yet */
		walk->listed_frames[(count - 1) & (LISTED_FRAMES_MAX - 1)][1] |= RUNTIME_FRAME_ENTRY;
		walk->listed_anchors[walk->listed_anchor_count & (LISTED_ANCHORS_MAX - 1)] = frame;
		return walk->listed_anchor_count++ >= LISTED_ANCHORS_MAX - 1;
	}
	place = python_instruction(walk, code);
	if (!code || code >> 56 || listed_read(walk, python->code_bytes, code + python->code_from))
		return 1;
	data = (__u64)python_check(python, walk->scratch) << 24 | place;
	if (python->listed.flags & PYTHON_EACH_IS_ENTRY || (python->listed.flags & PYTHON_ENTRY_FLAG && owner))
		data |= RUNTIME_FRAME_ENTRY;
	listed_add(walk, RUNTIME_KIND_PYTHON, code, data);
	walk->listed_frame = next;
	return 0;
}

#endif
