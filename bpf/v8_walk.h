/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Frames of V8 in the walk (see bpf/v8.h for the whole). Compiled for the sampling program and for user space, as bpf/walk.h,
 * which has the macros.
 */
#ifndef WICK_BPF_V8_WALK_H
#define WICK_BPF_V8_WALK_H

#define V8_IS_MARKER(word)    (!((word)&1) && (word) && (word) < 128) /* of a frame that is no function's */
#define V8_REGISTER_BYTECODES 12
#define V8_REGISTER_OFFSET    9
#define V8_REGISTER_FUNCTION  5 /* where a function begins */
#define V8_MARKER	      2
#define V8_NO_CONTEXT	      4097     /* looks like an object */
#define V8_CODE_MOV	      0xe58948 /* mov %rsp, %rbp */
#define V8_CODE_BYTES	      64       /* that are looked at, from an instruction on */
#define V8_ENTRY_BYTES	      48       /* of which the start of a function has no frame yet, at most */

static __always_inline int v8_is_builtin(const struct walk *walk, __u64 offset)
{
	return offset >= walk->v8.builtins_start && offset < walk->v8.builtins_end;
}

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

/* Whether the frame of generated code that was left was not set up: the frame pointer is the caller's, still. */
static __always_inline int v8_is_beginning(const struct walk *walk)
{
	return walk->left_slot == UNWIND_SLOT_JIT && walk->depth <= 3 && (walk->known >> UNWIND_REGISTER_FP & 1) &&
	       walk->registers[UNWIND_REGISTER_FP] == walk->left_fp;
}

/* Whether a builtin at the leaf has set its frame up, but not put anything there yet: that is no function's, or of none yet. */
static __always_inline int v8_is_bare(const struct walk *walk, __u64 fp, int is_builtin)
{
	return is_builtin && walk->depth == 2 && walk->left_sp > fp - 16 && walk->registers[UNWIND_REGISTER_SP] == fp + 16;
}

/* The words around the frame pointer: those of an interpreter's frame, or, of generated code, the upper ones only: a frame may
 * have no more, and a copy of the stack ends with it. 0, or not if it is no frame. */
static __always_inline int v8_read_frame(struct walk *walk, __u64 fp, int is_builtin, __u64 *frame)
{
	int r = 0;

	walk->scratch[0] = walk->scratch[1] = walk->scratch[2] = 0;
	if (v8_is_beginning(walk)) {
		walk->scratch[3] = walk->registers[V8_REGISTER_FUNCTION];
		walk->scratch[4] = V8_NO_CONTEXT;
		walk->scratch[5] = walk->registers[UNWIND_REGISTER_FP];
	} else if (v8_is_bare(walk, fp, is_builtin)) {
		walk->scratch[3] = 0;
		walk->scratch[4] = V8_MARKER;
		walk->scratch[5] = walk->registers[UNWIND_REGISTER_FP];
	} else if (walk->registers[UNWIND_REGISTER_SP] != fp + 16 || walk->left_sp > fp - 16) {
		return -1;
	} else if (is_builtin && walk->left_sp <= fp - 40) {
		r = WALK_READ(walk, walk->scratch, V8_FRAME_WORDS * 8, fp - 40);
	} else {
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
	int is_builtin = walk->left_slot == walk->v8.slot && v8_is_builtin(walk, walk->left_offset);
	int is_function;

	if (!fp || fp & 7 || (!is_builtin && walk->left_slot != UNWIND_SLOT_JIT) || walk->depth < 2 ||
	    walk->depth + 2 > UNWIND_FRAMES_MAX || v8_read_frame(walk, fp, is_builtin, frame))
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

/* ---- how far a frame is set up ---- */

/* Whether a word is the address behind a call in executable memory. */
static __always_inline int v8_is_return(struct walk *walk, __u64 word)
{
	if (V8_IS_NUMBER(word) || word >> 47 || WALK_MAP(walk, word - 1))
		return 0;
	return walk_follows_call(walk, word);
}

/* Eight bytes of code at an offset below V8_CODE_BYTES - 8, of what is in walk->scratch. */
static __always_inline __u64 v8_code(const struct walk *walk, __u32 at)
{
	__u32 shift = (at & 7) * 8;
	__u64 low = walk->scratch[at >> 3 & 15], high = walk->scratch[((at >> 3) + 1) & 15];

	return low >> shift | high << 1 << (63 - shift);
}

/* Whether code at an offset jumps over a return, where a function was given more arguments than it has, to where they are
 * removed: `jg` by the return's three bytes, short or near. */
static __always_inline int v8_is_way_out(const struct walk *walk, __u32 at)
{
	__u64 code = v8_code(walk, at);

	return (code & 0xffffff) == 0xc2037f || (code & 0xffffffffffffff) == 0xc2000000038f0f;
}

/* Whether the code in walk->scratch is of a function that has no frame yet, or none any more. It begins with
 * `push %rbp; mov %rsp, %rbp`, before which it looks whether it is still to be used, and ends with `ret`, before which it
 * compares the arguments that it was given with those that it has. What only jumps on to a builtin by r10 has no frame. */
static __always_inline int v8_has_no_frame(const struct walk *walk)
{
	__u64 code = v8_code(walk, 0);
	int found = 0;

	for (__u32 i = 0; i < V8_ENTRY_BYTES; i++)
		found |= (v8_code(walk, i) & 0xffffffff) == 0xe5894855;
	found |= (code & 0xff) == 0xc3 || (code & 0xff00ff) == 0xc2;
	found |= v8_is_way_out(walk, 0);
	found |= (code >> 8 & 0xff) == 0x83 && v8_is_way_out(walk, 4); /* cmp $8 bits, %rcx */
	found |= (code >> 8 & 0xff) == 0x81 && v8_is_way_out(walk, 7);
	found |= (code & 0xffffff) == 0xe2ff41 || ((code & 0xffff) == 0xba49 && (v8_code(walk, 10) & 0xffffff) == 0xe2ff41);
	return found;
}

/* Of the innermost frame; the caller's is at the frame pointer if it is not set up. That a return address is on top of the
 * stack is not enough: old ones lie in places that were not written yet. */
static __always_inline __u32 v8_leaf_setup(struct walk *walk, __u64 fp, __u64 sp)
{
	__u64 top[2];
	__u32 setup = V8_SETUP_FRAME, bytes = 0;

	if (walk_load(walk, sp, 2, top))
		return V8_SETUP_UNKNOWN;
	if (v8_is_return(walk, top[0]))
		bytes = V8_SETUP_NONE;
	else if (top[0] == fp && v8_is_return(walk, top[1]))
		bytes = V8_SETUP_PUSHED;
	if (WALK_MAP(walk, walk->ip) || (bytes && WALK_READ(walk, walk->scratch, V8_CODE_BYTES, walk->ip)))
		return V8_SETUP_UNKNOWN;
	if (bytes == V8_SETUP_NONE ? v8_has_no_frame(walk) : bytes && (walk->scratch[0] & 0xffffff) == V8_CODE_MOV)
		setup = bytes;
	return setup;
}

/* Of a builtin at the leaf: what has no frame is found without this. */
static __always_inline __u32 v8_builtin_setup(struct walk *walk, __u64 fp, __u64 sp)
{
	__u64 top[2];

	if (!v8_is_builtin(walk, walk->ip - walk->map.start + walk->map.file_offset) || walk_load(walk, sp, 2, top) ||
	    top[0] != fp || WALK_READ(walk, walk->scratch, 8, walk->ip) || (walk->scratch[0] & 0xffffff) != V8_CODE_MOV ||
	    !v8_is_return(walk, top[1]) || WALK_MAP(walk, walk->ip))
		return V8_SETUP_UNKNOWN;
	return V8_SETUP_PUSHED;
}

/* Whether the innermost frame is of the builtin that sets frames of baseline code up, and has not done so yet. It is called
 * first of all, behind `mov $bytecodes, %r12`, by `call` with an offset or `call` by memory. */
static __always_inline int v8_is_in_prologue(struct walk *walk, __u64 sp)
{
	__u64 top = 0, near, far;

	if (WALK_READ(walk, walk->scratch, 3 * 8, walk->ip - 3 * 8))
		return 0;
	near = v8_code(walk, 9);
	far = v8_code(walk, 7);
	if (((near & 0xffff) != 0xbc49 || (v8_code(walk, 19) & 0xff) != 0xe8) &&
	    ((far & 0xffff) != 0xbc49 || (v8_code(walk, 17) & 0xffffff) != 0x95ff41))
		return 0;
	if (walk_load(walk, sp, 1, &top) || !v8_is_return(walk, top))
		return 0;
	return !WALK_MAP(walk, walk->ip - 1) && walk->map.state == UNWIND_SLOT_LIVE;
}

/* Sets walk->v8_setup of the frame that the walk has come to, if it is in a builtin at the leaf, or in generated code that is
 * V8's by what lies below the frame pointer: there may be other code that was made at run time. */
static __always_inline void v8_look(struct walk *walk)
{
	__u64 fp = walk->registers[UNWIND_REGISTER_FP], sp = walk->registers[UNWIND_REGISTER_SP], below[2];

	walk->v8_setup = V8_SETUP_UNKNOWN;
	if (!(walk->known >> UNWIND_REGISTER_FP & 1) || fp & 7 || fp < sp || fp - sp > WALK_FRAME_BYTES_MAX ||
	    WALK_MAP(walk, walk->ip - walk->is_return))
		return;
	if (!walk->is_return && walk->map.state == UNWIND_SLOT_LOADED && walk->map.slot == walk->v8.slot)
		walk->v8_setup = v8_builtin_setup(walk, fp, sp);
	if (walk->map.state != UNWIND_SLOT_LIVE)
		return;
	if (walk_load(walk, fp - 16, 2, below) ||
	    (!V8_IS_MARKER(below[1]) && (!V8_IS_OBJECT(below[0]) || !V8_IS_OBJECT(below[1]))))
		return;
	if (!walk->is_return)
		walk->v8_setup = v8_leaf_setup(walk, fp, sp);
	else
		walk->v8_setup = walk->depth == 2 && v8_is_in_prologue(walk, sp) ? V8_SETUP_NONE : V8_SETUP_FRAME;
}

#endif
