/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of V8 in the walk (see bpf/v8.h for the whole). Compiled for the sampling program and for user space, as bpf/walk.h,
 * which has the macros.
 */
#ifndef WICK_BPF_V8_WALK_H
#define WICK_BPF_V8_WALK_H

#define V8_IS_OBJECT(word)    (((word)&3) == 1 && !((word) >> 48))
#define V8_IS_NUMBER(word)    (!((word)&0xffffffff))
#define V8_IS_MARKER(word)    (!((word)&1) && (word) && (word) < 128) /* of a frame that is no function's */
#define V8_REGISTER_BYTECODES 12
#define V8_REGISTER_OFFSET    9

static __always_inline __u64 v8_word(const struct walk *walk, __u32 offset)
{
	return walk->scratch[(offset >> 3) & 15];
}

/* The place in the bytecodes; 0 if the frame is not the interpreter's. */
static __always_inline __u32 v8_bytecode(const struct walk *walk, const __u64 *frame)
{
	__u64 place = frame[0] >> 32, now = walk->registers[V8_REGISTER_OFFSET];

	if (!V8_IS_NUMBER(frame[0]) || !V8_IS_OBJECT(frame[1]) || place < V8_BYTECODE_MIN || place >= V8_BYTECODE_END)
		return 0;
	/* What it called is but a handler at the leaf, whose registers are the interpreter's. */
	if (walk->depth == 3 && walk->registers[V8_REGISTER_BYTECODES] == frame[1] && now >= V8_BYTECODE_MIN &&
	    now < V8_BYTECODE_END)
		return now;
	return place;
}

/* The words of the function whose frame it is: 1, and they are in walk->v8_words; 0 if there is none. */
static __always_inline int v8_function(struct walk *walk, const __u64 *frame, int is_builtin)
{
	const struct v8_process *v8 = &walk->v8;
	__u64 shared, code, data;
	__u32 check, place;

	if (!V8_IS_OBJECT(frame[4]) || !V8_IS_OBJECT(frame[3]))
		return 0;
	if (WALK_PEEK(walk, walk->scratch, V8_FUNCTION_WORDS * 8, frame[3] - 1))
		return 0;
	shared = v8_word(walk, v8->function_shared);
	code = v8_word(walk, v8->function_code);
	if (!V8_IS_OBJECT(shared) || WALK_PEEK(walk, walk->scratch, V8_SHARED_WORDS * 8, shared - 1))
		return 0;
	check = runtime_check_of(v8_word(walk, v8->shared_scope), v8_word(walk, v8->shared_script),
				 v8_word(walk, v8->shared_id) >> ((v8->shared_id & 4) * 8) & 0xffffffff);
	place = is_builtin ? v8_bytecode(walk, frame) : 0;
	data = place;
	if (!is_builtin)
		data = V8_FRAME_CODE | runtime_check_of(code, 0, 0) >> (RUNTIME_CHECK_BITS - 24);
	else if (!place)
		data = V8_FRAME_BUILTIN;
	walk->v8_words[0] = RUNTIME_FRAME | (__u64)RUNTIME_KIND_V8 << 56 | (shared - 1);
	walk->v8_words[1] = RUNTIME_FRAME | RUNTIME_FRAME_DATA | (__u64)check << 24 | data;
	return 1;
}

/* The words around the frame pointer: those of an interpreter's frame, or, of generated code, the upper ones only: a frame may
 * have no more, and a copy of the stack ends with it. 0 or the result of reading. */
static __always_inline int v8_read_frame(struct walk *walk, __u64 fp, int is_builtin, __u64 *frame)
{
	int r;

	if (is_builtin && walk->left_sp <= fp - 40) {
		r = WALK_READ(walk, walk->scratch, V8_FRAME_WORDS * 8, fp - 40);
	} else {
		walk->scratch[0] = walk->scratch[1] = walk->scratch[2] = 0;
		r = WALK_READ(walk, &walk->scratch[3], 3 * 8, fp - 16);
	}
	for (__u32 i = 0; i < V8_FRAME_WORDS; i++)
		frame[i] = walk->scratch[i];
	return r;
}

/* The walk has left a frame: was it that of a function? Its words go behind it, before the frame that the walk has come to. 1
 * if it was. In a frame of V8's code it is its own frame pointer that led on, whatever is known of the code. */
static __always_inline int v8_meet(struct walk *walk)
{
	__u64 fp = walk->left_fp, held, frame[V8_FRAME_WORDS];
	int is_builtin = walk->left_slot == walk->v8.slot && walk->left_offset >= walk->v8.builtins_start &&
			 walk->left_offset < walk->v8.builtins_end;
	int is_function;

	if (!fp || fp & 7 || walk->registers[UNWIND_REGISTER_SP] != fp + 16 || walk->left_sp > fp - 16 ||
	    (!is_builtin && walk->left_slot != UNWIND_SLOT_JIT) || walk->depth < 2 || walk->depth + 2 > UNWIND_FRAMES_MAX ||
	    v8_read_frame(walk, fp, is_builtin, frame))
		return 0;
	is_function = v8_function(walk, frame, is_builtin);
	if (!is_function && !V8_IS_MARKER(frame[4]))
		return 0;
	held = walk->frames[(walk->depth - 1) & (UNWIND_FRAMES_MAX - 1)] & ~UNWIND_FRAME_GAP;
	walk->depth--;
	walk->hash = walk->hash_before;
	if (is_function) {
		walk_push(walk, walk->v8_words[0]);
		walk_push(walk, walk->v8_words[1]);
		walk->v8_count++;
	}
	walk_push(walk, held);
	walk->registers[UNWIND_REGISTER_FP] = frame[5]; /* rules for generated code may not know where it is */
	walk->known |= 1u << UNWIND_REGISTER_FP;
	return is_function;
}

#endif
