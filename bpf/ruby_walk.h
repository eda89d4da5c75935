/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Collecting the frames of Ruby (see bpf/ruby.h for the whole). Compiled as bpf/listed_walk.h, for which it collects. */
#ifndef WICK_BPF_RUBY_WALK_H
#define WICK_BPF_RUBY_WALK_H

_Static_assert(sizeof(struct ruby_process) <= LISTED_PROCESS_WORDS * 8, "there is room for what is said of a process");

/* Of the module's block in the thread's storage; 0 = it has none (yet). glibc: the thread has a pointer to an array of blocks.
 */
static __always_inline __u64 ruby_storage(struct walk *walk, __u64 thread)
{
	__u64 module, offset, block;

	if (!walk->ruby.storage_index)
		return thread + walk->ruby.storage_offset;
	if (WALK_READ(walk, walk->scratch, 16, walk->ruby.storage_index))
		return 0;
	module = walk->scratch[0];
	offset = walk->scratch[1];
	if (!module || module > RUBY_MODULES_MAX)
		return 0;
	block = listed_load(walk, thread + 8);
	block = block ? listed_load(walk, block + module * 16) : 0;
	return block && ~block ? block + offset : 0;
}

/* The context of a thread; 0 = it has none. */
static __always_inline __u64 ruby_context(struct walk *walk, __u64 thread)
{
	__u64 context, top, sp = walk->registers[UNWIND_REGISTER_SP];

	if (!walk->ruby.variable)
		return listed_load(walk, ruby_storage(walk, thread));
	context = listed_load(walk, walk->ruby.variable);
	top = context ? listed_load(walk, context + walk->ruby.context_native) : 0;
	return sp <= top && top - sp < RUBY_NATIVE_STACK_MAX ? context : 0;
}

/* Sets walk->listed_frame and the end of the frames. */
static __always_inline void ruby_first_frame(struct walk *walk, __u64 context)
{
	__u64 from, words, frame;

	walk->listed_frame = walk->ruby_end = 0;
	if (!context || WALK_READ(walk, walk->scratch, RUBY_CONTEXT_BYTES, context))
		return;
	from = LISTED_WORD(walk, RUBY_CONTEXT_STACK);
	words = LISTED_WORD(walk, RUBY_CONTEXT_WORDS);
	frame = LISTED_WORD(walk, RUBY_CONTEXT_FRAME);
	if (words > RUBY_STACK_WORDS_MAX || frame < from || frame - from > words * 8)
		return;
	walk->listed_frame = frame;
	walk->ruby_end = from + words * 8 - walk->ruby.frame_bytes; /* the outermost one is none */
}

/* 0, or 1 if it cannot be read. */
static __always_inline int ruby_add_code(struct walk *walk, __u64 code, __u64 pc, __u64 flags)
{
	__u64 body, place, instr;
	__u32 check;

	if (code & 7 || code >> 56)
		return 1;
	body = listed_load(walk, code + RUBY_CODE_BODY);
	if (!body || WALK_READ(walk, walk->scratch, RUBY_BODY_BYTES, body))
		return 1;
	instr = LISTED_WORD(walk, RUBY_BODY_INSTR);
	place = (pc - instr) >> 3;
	if (place > listed_half(walk, RUBY_BODY_COUNT))
		place = 0;
	check = runtime_check_of(LISTED_WORD(walk, RUBY_BODY_LABEL), LISTED_WORD(walk, RUBY_BODY_PATH),
				 instr ^ LISTED_WORD(walk, RUBY_BODY_FIRST_LINE));
	listed_add(walk, RUNTIME_KIND_RUBY, code,
		   flags | (__u64)check << 24 | (place > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : place));
	return 0;
}

static __always_inline int ruby_add_method(struct walk *walk, __u64 method)
{
	__u32 check;

	if (!method || method & 7 || method >> 56 || WALK_READ(walk, walk->scratch, RUBY_METHOD_BYTES, method))
		return 1;
	check = runtime_check_of(LISTED_WORD(walk, RUBY_METHOD_DEFINITION), LISTED_WORD(walk, RUBY_METHOD_ID),
				 LISTED_WORD(walk, RUBY_METHOD_OWNER));
	listed_add(walk, RUNTIME_KIND_RUBY, method | RUBY_OBJECT_METHOD, (__u64)check << 24);
	return 0;
}

/* As python_collect_step(). */
static __always_inline int ruby_collect_step(struct walk *walk)
{
	__u64 frame = walk->listed_frame, pc, code, env, method, finish;
	__u32 kind;

	if (frame >= walk->ruby_end) { /* the end, or there is none */
		walk->listed_frame = 0;
		return 1;
	}
	if (frame & 7 || walk->listed_count >= LISTED_FRAMES_MAX || WALK_READ(walk, walk->scratch, RUBY_FRAME_BYTES, frame))
		return 1;
	pc = LISTED_WORD(walk, RUBY_FRAME_PC);
	code = LISTED_WORD(walk, RUBY_FRAME_CODE);
	env = LISTED_WORD(walk, RUBY_FRAME_ENV);
	if (WALK_READ(walk, walk->scratch, RUBY_ENV_BYTES, env - RUBY_ENV_BEFORE))
		return 1;
	method = LISTED_WORD(walk, RUBY_ENV_METHOD);
	kind = RUBY_FRAME_KIND(LISTED_WORD(walk, RUBY_ENV_FLAGS));
	finish = LISTED_WORD(walk, RUBY_ENV_FLAGS) & RUBY_FRAME_FINISH && !(walk->ruby.listed.flags & RUBY_IS_ONE_PART)
			 ? RUNTIME_FRAME_ENTRY
			 : 0;
	if (code && pc) {
		if (ruby_add_code(walk, code, pc, finish))
			return 1;
	} else if (!code && kind == RUBY_FRAME_IS_C && ruby_add_method(walk, method)) {
		return 1;
	}
	walk->listed_frame = frame + walk->ruby.frame_bytes;
	return 0;
}

#endif
