/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Collecting the frames of Perl (see bpf/perl.h for the whole). Compiled as bpf/listed_walk.h, for which it collects. */
#ifndef WICK_BPF_PERL_WALK_H
#define WICK_BPF_PERL_WALK_H

_Static_assert(sizeof(struct perl_process) <= LISTED_PROCESS_WORDS * 8, "there is room for what is said of a process");

/* The interpreter of a thread; 0 = it has none. */
static __always_inline __u64 perl_interpreter(struct walk *walk, __u64 thread)
{
	__u32 key;

	if (WALK_READ(walk, walk->scratch, 4, walk->perl.key))
		return 0;
	key = (__u32)walk->scratch[0];
	if (key >= walk->perl.keys_max)
		return 0;
	return listed_load(walk, thread + walk->perl.thread_keys + key * 16 + 8);
}

/* Goes to a stack of contexts: walk->listed_frame. */
static __always_inline void perl_enter_stack(struct walk *walk, __u64 from)
{
	walk->listed_frame = from;
	walk->perl_first = walk->listed_count;
	walk->perl_left = 0;
	if (!from || WALK_READ(walk, walk->scratch, PERL_STACK_BYTES, from)) {
		walk->perl_contexts = 0;
		return;
	}
	walk->perl_contexts = LISTED_WORD(walk, PERL_STACK_CONTEXTS);
	walk->perl_back = LISTED_WORD(walk, PERL_STACK_BACK);
	walk->perl_left = listed_half(walk, PERL_STACK_TOP) + 1;
	if (walk->perl_left > PERL_CONTEXTS_MAX)
		walk->perl_contexts = 0;
}

/* interpreter: of builds for threads. */
static __always_inline void perl_first_frame(struct walk *walk, __u64 interpreter)
{
	const struct perl_process *perl = &walk->perl;

	walk->perl_cop = listed_load(walk, perl->key ? interpreter + perl->interpreter_cop : perl->cop);
	perl_enter_stack(walk, listed_load(walk, perl->key ? interpreter + perl->interpreter_stack : perl->stack));
}

/* What runs at walk->perl_cop is no subroutine. */
static __always_inline void perl_add_code(struct walk *walk, __u32 kind, __u64 flags)
{
	__u64 cop = walk->perl_cop, line = 0;
	__u32 check = 0;

	if (cop & 7 || cop >> 56)
		cop = 0;
	if (cop && !WALK_READ(walk, walk->scratch, PERL_COP_BYTES, cop + PERL_COP_FROM)) {
		line = listed_half(walk, PERL_COP_LINE - PERL_COP_FROM);
		check = runtime_check_of(LISTED_WORD(walk, PERL_COP_FILE - PERL_COP_FROM), line, kind);
	}
	line = line > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : line;
	listed_add(walk, RUNTIME_KIND_PERL, cop | kind, flags | (__u64)check << 24 | line);
}

/* 0, or 1 if it cannot be read. */
static __always_inline int perl_add_sub(struct walk *walk, __u64 cv, __u64 flags)
{
	__u64 body, cop = walk->perl_cop, line = 0;
	__u32 check;

	if (!cv || cv & 7 || cv >> 56 || WALK_READ(walk, walk->scratch, 16, cv))
		return 1;
	body = LISTED_WORD(walk, PERL_SV_BODY);
	if (PERL_SV_TYPE(listed_half(walk, PERL_SV_FLAGS)) != PERL_SV_CV ||
	    WALK_READ(walk, walk->scratch, PERL_CV_BYTES, body + PERL_CV_FROM))
		return 1;
	check = runtime_check_of(LISTED_WORD(walk, PERL_CV_NAME - PERL_CV_FROM), LISTED_WORD(walk, PERL_CV_FILE - PERL_CV_FROM),
				 LISTED_WORD(walk, PERL_CV_START - PERL_CV_FROM));
	if (cop && !WALK_READ(walk, walk->scratch, 4, cop + PERL_COP_LINE))
		line = (__u32)walk->scratch[0];
	line = line > RUNTIME_PLACE_MAX ? RUNTIME_PLACE_MAX : line;
	listed_add(walk, RUNTIME_KIND_PERL, cv | PERL_OBJECT_SUB, flags | (__u64)check << 24 | line);
	return 0;
}

/* The part ends with the stack. */
static __always_inline void perl_leave_stack(struct walk *walk)
{
	__u32 last = (walk->listed_count - 1) & (LISTED_FRAMES_MAX - 1);

	if (!walk->perl_back)
		perl_add_code(walk, PERL_OBJECT_MAIN, RUNTIME_FRAME_ENTRY);
	else if (walk->listed_count == walk->perl_first)
		listed_add_nothing(walk);
	else
		walk->listed_frames[last][1] |= RUNTIME_FRAME_ENTRY;
	perl_enter_stack(walk, walk->perl_back);
}

/* As python_collect_step(): a context, or the end of a stack. */
static __always_inline int perl_collect_step(struct walk *walk)
{
	__u64 cop, cv, flags;
	__u32 type, kind;

	if (!walk->perl_contexts || walk->listed_count >= LISTED_FRAMES_MAX)
		return 1;
	if (!walk->perl_left) {
		perl_leave_stack(walk);
		return 0;
	}
	walk->perl_left--;
	if (WALK_READ(walk, walk->scratch, PERL_CONTEXT_READ,
		      walk->perl_contexts + (__u64)walk->perl_left * PERL_CONTEXT_BYTES))
		return 1;
	type = listed_byte(walk, PERL_CONTEXT_TYPE);
	kind = PERL_TYPE(type);
	if (kind < PERL_TYPE_SUB || kind > PERL_TYPE_EVAL || type & PERL_TYPE_HIDDEN)
		return 0;
	cop = LISTED_WORD(walk, PERL_CONTEXT_COP);
	cv = LISTED_WORD(walk, PERL_CONTEXT_CV);
	flags = LISTED_WORD(walk, PERL_CONTEXT_RETURN) ? 0 : RUNTIME_FRAME_ENTRY;
	if (kind == PERL_TYPE_EVAL)
		perl_add_code(walk, PERL_OBJECT_EVAL, flags);
	else if (perl_add_sub(walk, cv, flags))
		return 1;
	walk->perl_cop = cop;
	return 0;
}

#endif
