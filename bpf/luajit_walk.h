/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collecting the frames of LuaJIT (see bpf/luajit.h for the whole). Compiled as bpf/listed_walk.h, for which it collects. When
 * the walk has come to a frame of the interpreter or of a trace:
 *
 *   luajit_begin()	   whether it has
 *   luajit_try_frame()	   ... each place where the interpreter's frame may be
 *   luajit_try_base()	   of a state that was not met before, each place that may have the base of its innermost function
 *   luajit_enter()	   goes to the list of the state
 *   luajit_collect_step() a frame of it, up to the end of the part
 */
#ifndef WICK_BPF_LUAJIT_WALK_H
#define WICK_BPF_LUAJIT_WALK_H

_Static_assert(sizeof(struct luajit_process) <= LISTED_PROCESS_WORDS * 8, "there is room for what is said of a process");

enum luajit_where { LUAJIT_NOWHERE, LUAJIT_IN_LOOP, LUAJIT_IN_TRACE };

/* How the frame that is read next was left: kept in lua_inner. */
enum luajit_inner {
	LUAJIT_INNER_NONE,     /* its instruction has not called a function of Lua directly */
	LUAJIT_INNER_CALL,     /* ... has */
	LUAJIT_INNER_VARIADIC, /* it is but the outer one of the two of a function */
	LUAJIT_INNER_TRACE,    /* it was entered by a trace */
};

#define LUAJIT_BASES	     3u /* that are tried */
#define LUAJIT_REGISTER_BASE 1	/* rdx */
#define LUAJIT_REGISTER_PC   3	/* rbx */

/* Whether the frame that the walk has come to is one of the interpreter, or in code made at run time. */
static __always_inline enum luajit_where luajit_begin(struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	walk->luajit_frame = 0;
	walk->luajit_where = LUAJIT_NOWHERE;
	if (listed_is_loop(walk))
		walk->luajit_where = LUAJIT_IN_LOOP;
	else if ((pc >= walk->map.start && pc < walk->map.end) || !WALK_MAP(walk, pc))
		walk->luajit_where = walk->map.state == UNWIND_SLOT_LIVE ? LUAJIT_IN_TRACE : LUAJIT_NOWHERE;
	return walk->luajit_where;
}

static __always_inline __u64 luajit_stack_word(struct walk *walk, __u64 address)
{
	__u64 word = 0;

	return walk_load(walk, address, 1, &word) ? 0 : word;
}

/* Whether the state at an address has a native frame there, which was not met before. */
static __always_inline int luajit_is_state(struct walk *walk, __u64 state, __u64 frame)
{
	__u64 values, end, global;

	if (listed_read(walk, LUAJIT_STATE_BYTES, state) || listed_byte(walk, LUAJIT_STATE_TYPE) != LUAJIT_TYPE_THREAD ||
	    (LISTED_WORD(walk, LUAJIT_STATE_FRAME) & ~(__u64)LUAJIT_FRAME_FLAGS) != frame)
		return 0;
	values = LISTED_WORD(walk, LUAJIT_STATE_STACK);
	end = LISTED_WORD(walk, LUAJIT_STATE_END);
	global = LISTED_WORD(walk, LUAJIT_STATE_GLOBAL);
	if (!values || (values | end | global) & 7 || end < values || end - values > LUA_STACK_MAX || !global || global >> 47)
		return 0;
	walk->luajit_low = values;
	walk->luajit_high = end;
	walk->luajit_global = global;
	walk->luajit_base[2] = LISTED_WORD(walk, LUAJIT_STATE_BASE);
	return 1;
}

/* Whether code of a trace, or what saves its registers, has made the interpreter's frame larger. */
static __always_inline int luajit_may_be_larger(struct walk *walk)
{
	return listed_load(walk, walk->luajit_global + walk->luajit.global_base) ||
	       WALK_READ(walk, walk->scratch, 4, walk->luajit_global + walk->luajit.global_vmstate) ||
	       (__u32)walk->scratch[0] != LUAJIT_IN_INTERPRETER;
}

/* Place `i` from the stack pointer on. */
static __always_inline int luajit_try_frame(struct walk *walk, __u32 i)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP], frame = ((sp + 15) & ~15ull) + (__u64)i * 16, state;
	__u32 count = walk->lua_states, at = LUA_STATES_MAX;

	state = luajit_stack_word(walk, frame + LUAJIT_FRAME_STATE);
	if (!state || state & 7 || state >> 47 || state - sp < 65536)
		return 0;
	for (__u32 k = 0; k < LUA_STATES_MAX; k++)
		if (k < count && walk->lua_state[k] == state && walk->lua_end[k] == frame)
			at = k;
	if (at >= LUA_STATES_MAX && !luajit_is_state(walk, state, frame))
		return 0;
	if (at >= LUA_STATES_MAX && frame != sp && frame - sp != 8 && !luajit_may_be_larger(walk))
		return 0;
	walk->luajit_frame = frame;
	walk->lua_best = state;
	walk->lua_at = at;
	return 1;
}

/* The state's innermost function is at a base, and executes what precedes an instruction; 0: not known. */
static __always_inline void luajit_believe(struct walk *walk, __u64 base, __u64 pc)
{
	walk->luajit_base[0] = base;
	walk->luajit_pc = pc;
}

/* Before luajit_try_base(). */
static __always_inline void luajit_begin_bases(struct walk *walk)
{
	__u64 base = 0, pc = 0, fp = 0;

	/* In the interpreter itself a trace is just being entered or left, unless it has called a function there, whose
	 * return address lies between. And with another state the trace has been met already. */
	if (!walk->lua_states && (walk->luajit_where == LUAJIT_IN_TRACE || walk->is_return ||
				  (walk->luajit_frame - walk->registers[UNWIND_REGISTER_SP]) & 15))
		base = listed_load(walk, walk->luajit_global + walk->luajit.global_base);
	walk->luajit_trace = base != 0;
	walk->luajit_pc = 0;
	walk->luajit_base[0] = 0;
	walk->luajit_base[1] = 0;
	if (base) {
		walk->luajit_base[2] = base;
		return;
	}
	if (walk->known >> UNWIND_REGISTER_FP & 1)
		fp = walk->registers[UNWIND_REGISTER_FP];
	if (walk->luajit_where == LUAJIT_IN_LOOP && fp > walk->luajit_low && fp < walk->luajit_high)
		walk->luajit_base[1] = fp;
#if UNWIND_REGISTERS == 16
	if (walk->luajit_where == LUAJIT_IN_LOOP && walk_register(walk, LUAJIT_REGISTER_PC, &pc))
		pc = 0;
	if (!walk->is_return && walk->luajit_where == LUAJIT_IN_LOOP)
		walk->luajit_base[0] = walk->registers[LUAJIT_REGISTER_BASE];
#endif
	walk->luajit_pc = pc ? pc : luajit_stack_word(walk, walk->luajit_frame + LUAJIT_FRAME_PC);
}

/* Base `i`, of the function that is executed: 1 if it and the instruction fit each other. */
static __always_inline int luajit_try_base(struct walk *walk, __u32 i)
{
	__u64 base = walk->luajit_base[i & 3], function, link, code, pc = walk->luajit_pc;

	if (base & 7 || base <= walk->luajit_low || base > walk->luajit_high || WALK_READ(walk, walk->scratch, 16, base - 16))
		return 0;
	function = walk->scratch[0];
	link = walk->scratch[1];
	if (walk->luajit_trace) { /* the trace says the instruction */
		luajit_believe(walk, base, 0);
		return 1;
	}
	if (function >> LUAJIT_TAG_SHIFT != LUAJIT_TAG_FUNCTION)
		return 0;
	function &= (1ull << LUAJIT_TAG_SHIFT) - 1;
	if (listed_read(walk, LUAJIT_FUNCTION_BYTES, function) ||
	    listed_byte(walk, LUAJIT_FUNCTION_TYPE) != LUAJIT_TYPE_FUNCTION)
		return 0;
	code = LISTED_WORD(walk, LUAJIT_FUNCTION_CODE);
	if (listed_byte(walk, LUAJIT_FUNCTION_KIND)) { /* one in C, or of the interpreter itself */
		luajit_believe(walk, base, 0);
		return 1;
	}
	if (WALK_READ(walk, walk->scratch, 4, code - LUAJIT_PROTOTYPE_BYTES + LUAJIT_PROTOTYPE_CODE_COUNT))
		return 0;
	if (pc - code - 4 < (__u64)(__u32)walk->scratch[0] * 4) {
		luajit_believe(walk, base, pc);
		return 1;
	}
	if (pc == link) { /* it is being entered or left */
		luajit_believe(walk, base, 0);
		return 1;
	}
	return 0;
}

/* Goes on with the list of the state whose native frame was found; found: whether its innermost function was, if the state was
 * not met before. 1 if the frame has functions, 0 if not, negative if the state cannot be followed. */
static __always_inline int luajit_enter(struct walk *walk, int found)
{
	__u32 at = walk->lua_at, results;
	__u64 frame = walk->luajit_frame, before;

	if (at >= LUA_STATES_MAX) {
		at = walk->lua_states;
		if (at >= LUA_STATES_MAX || (!found && !walk->luajit_base[2]))
			return -1;
		walk->lua_states = at + 1;
		walk->lua_at = at;
		if (!at)
			lua_forget(walk);
		/* Else the compiler, which knows more than the verifier of 6.1, leaves out the bound. */
		asm volatile("" : "+r"(at));
		at &= LUA_STATES_MAX - 1;
		walk->lua_state[at] = walk->lua_best;
		walk->lua_next[at] = (found ? walk->luajit_base[0] : walk->luajit_base[2]) - 8;
		walk->lua_inner[at] = walk->luajit_trace ? LUAJIT_INNER_TRACE : LUAJIT_INNER_NONE;
		walk->luajit_next[at] = found ? walk->luajit_pc : 0;
		walk->luajit_bottom[at] = walk->luajit_low + 8;
	}
	at &= LUA_STATES_MAX - 1;
	before = luajit_stack_word(walk, frame + LUAJIT_FRAME_BEFORE);
	results = (__u32)(luajit_stack_word(walk, frame + LUAJIT_FRAME_RESULTS));
	walk->lua_end[at] = before & ~(__u64)LUAJIT_FRAME_FLAGS;
	if (!walk->luajit_next[at])
		walk->luajit_next[at] = luajit_stack_word(walk, frame + LUAJIT_FRAME_PC);
	/* A function in C that the interpreter was asked to call, which has called none of Lua. */
	if ((__s32)results < 0 && walk->lua_next[at] < walk->luajit_bottom[at] - 8 + (__u32)-results) {
		walk->luajit_next[at] = 0;
		return 0;
	}
	return 1;
}

/* Where the frame of a trace ends: it has that of the interpreter. */
static __always_inline void luajit_size_frame(struct walk *walk)
{
	__u64 sp = walk->registers[UNWIND_REGISTER_SP];

	if (walk->luajit_where != LUAJIT_IN_TRACE && walk->luajit_frame == sp)
		return;
	walk->frame_bytes = walk->luajit_frame + walk->luajit.frame_bytes - sp;
	walk->frame_is_sure = 1;
}

/* The place in the code of a trace, which stands before the functions of the frame that it has begun in. */
static __always_inline void luajit_add_trace(struct walk *walk)
{
	__u64 pc = walk->ip - walk->is_return;

	/* A function of the interpreter, which has no frame, that the trace has called. */
	if (walk->luajit_where != LUAJIT_IN_TRACE)
		pc = luajit_stack_word(walk, walk->registers[UNWIND_REGISTER_SP]) - 1;
	if (walk->listed_count >= LISTED_FRAMES_MAX)
		return;
	listed_add(walk, RUNTIME_KIND_LUAJIT, walk->luajit_global, RUNTIME_FRAME_NOTE(LUAJIT_NOTE_TRACE) | LUAJIT_PC(pc));
}

/* What is known of a function and of its prototype: read once a sample. NULL if it cannot be read. */
static __always_inline struct lua_known *luajit_learn(struct walk *walk, __u64 function)
{
	struct lua_known *known = &walk->lua_known[function >> 4 & (LUA_KNOWN_MAX - 1)];
	__u64 code, prototype;

	if (known->closure == function)
		return known;
	if (listed_read(walk, LUAJIT_FUNCTION_BYTES, function) ||
	    listed_byte(walk, LUAJIT_FUNCTION_TYPE) != LUAJIT_TYPE_FUNCTION)
		return 0;
	known->closure = 0;
	known->prototype = 0;
	if (!listed_byte(walk, LUAJIT_FUNCTION_KIND)) {
		code = LISTED_WORD(walk, LUAJIT_FUNCTION_CODE);
		prototype = code - LUAJIT_PROTOTYPE_BYTES;
		if (code < LUAJIT_PROTOTYPE_BYTES || code & 3 || !prototype || prototype >> 47 ||
		    listed_read(walk, LUAJIT_PROTOTYPE_READ, prototype + LUAJIT_PROTOTYPE_FROM))
			return 0;
		known->prototype = prototype;
		known->code = code;
		known->size = listed_half(walk, LUAJIT_PROTOTYPE_CODE_COUNT - LUAJIT_PROTOTYPE_FROM);
		known->check = luajit_check_of(walk->scratch);
	}
	known->closure = function;
	return known;
}

/* A function of Lua. */
static __always_inline void luajit_add(struct walk *walk, const struct lua_known *known, __u64 pc, __u64 flags)
{
	__u64 place = (pc - known->code) / 4 - 1;

	if (pc < known->code || place >= known->size || place >= RUNTIME_PLACE_MAX)
		place = RUNTIME_PLACE_MAX;
	listed_add(walk, RUNTIME_KIND_LUAJIT, known->prototype, flags | (__u64)known->check << 24 | place);
}

/* As python_collect_step(), but up to the end of the part. */
static __always_inline int luajit_collect_step(struct walk *walk)
{
	__u32 at = walk->lua_at & (LUA_STATES_MAX - 1), inner = walk->lua_inner[at], next_inner = LUAJIT_INNER_NONE, is_c,
	      is_lua, note;
	__u64 frame = walk->lua_next[at], pc = walk->luajit_next[at], function, link, before, next = 0, continued;
	const struct lua_known *known = 0;
	int word;

	if (frame <= walk->luajit_bottom[at])
		return 1;
	walk->listed_frame = frame; /* unless it can be followed */
	if (frame & 7 || walk->listed_count >= LISTED_FRAMES_MAX)
		return 1;
	word = lua_look(walk, &walk->lua_values, frame - 24, 32);
	if (word < 0)
		return 1;
	continued = lua_word(&walk->lua_values, word, 0);
	function = lua_word(&walk->lua_values, word, 16);
	link = lua_word(&walk->lua_values, word, 24);
	is_c = (link & 3) == LUAJIT_LINK_C;
	if (!(link & 3)) {
		next = link;
	} else if ((link & 7) == LUAJIT_LINK_CONTINUED) {
		next = lua_word(&walk->lua_values, word, 8);
		is_c = continued == 1; /* a callback of the FFI */
	} else if ((link & 7) == LUAJIT_LINK_VARIADIC) {
		next_inner = LUAJIT_INNER_VARIADIC;
		next = pc;
	}
	if (link & 3) {
		before = frame - (link & ~7ull);
	} else {
		if (WALK_READ(walk, walk->scratch, 4, link - 4))
			return 1;
		before = frame - (2 + (__u64)((__u32)walk->scratch[0] >> 8 & 0xff)) * 8;
	}
	if (before >= frame)
		return 1;
	if (inner != LUAJIT_INNER_VARIADIC && function >> LUAJIT_TAG_SHIFT == LUAJIT_TAG_FUNCTION) {
		known = luajit_learn(walk, function & ((1ull << LUAJIT_TAG_SHIFT) - 1));
		if (!known)
			return 1;
	}
	is_lua = known && known->prototype;
	note = inner == LUAJIT_INNER_CALL ? LUA_NOTE_CALLS : inner == LUAJIT_INNER_TRACE ? LUAJIT_NOTE_BASE : LUA_NOTE_NONE;
	if (is_lua)
		luajit_add(walk, known, pc, (is_c ? RUNTIME_FRAME_ENTRY : 0) | RUNTIME_FRAME_NOTE(note));
	else if (is_c)
		listed_add_nothing(walk);
	/* Of a variadic function the outer frame is but skipped: how it was called is in its link. */
	if (next_inner != LUAJIT_INNER_VARIADIC && !is_c && (is_lua || inner == LUAJIT_INNER_VARIADIC) && next)
		next_inner = LUAJIT_INNER_CALL;
	walk->lua_inner[at] = next_inner;
	walk->luajit_next[at] = is_c ? 0 : next;
	walk->lua_next[at] = before;
	walk->listed_frame = 0;
	return is_c;
}

#ifndef __bpf__
/* As the sampling program does it: puts what the frame that the walk has come to runs behind it. */
static inline void luajit_meet(struct walk *walk)
{
	int found = 0, is_new, r;

	if (!luajit_begin(walk))
		return;
	walk->listed_loops += walk->luajit_where == LUAJIT_IN_LOOP;
	walk->listed_missed += walk->luajit_where == LUAJIT_IN_LOOP;
	for (__u32 i = 0; i < LUAJIT_SCAN_FRAMES && !found; i++)
		found = luajit_try_frame(walk, i);
	if (!found)
		return;
	walk->listed_loops += walk->luajit_where != LUAJIT_IN_LOOP;
	walk->listed_missed += walk->luajit_where != LUAJIT_IN_LOOP;
	is_new = walk->lua_at >= LUA_STATES_MAX;
	if (is_new) {
		found = 0;
		luajit_begin_bases(walk);
		for (__u32 i = 0; i < LUAJIT_BASES && !found; i++)
			found = luajit_try_base(walk, i);
	}
	r = luajit_enter(walk, found);
	luajit_size_frame(walk);
	walk->listed_missed -= r >= 0 && found;
	if (r <= 0)
		return;
	if (is_new && walk->luajit_trace)
		luajit_add_trace(walk);
	for (__u32 i = 0; i < LUA_CALLS_READ; i++)
		if (luajit_collect_step(walk))
			break;
	if (walk->listed_next < walk->listed_count)
		walk->listed_appends = LISTED_APPENDS_PART;
	while (walk->listed_appends == LISTED_APPENDS_PART)
		listed_go_on(walk);
}
#endif

#endif
