/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Collecting the frames of Lua (see bpf/lua.h for the whole). Compiled as bpf/listed_walk.h, for which it collects. When the
 * walk has left a frame of the loop:
 *
 *   lua_read_saved()	the words that may be the state
 *   lua_try_saved()	each of them
 *   lua_enter_state()	goes to the list of the one that was found
 *   lua_collect_step()	a call of it, up to the end of the part
 *   lua_leave_part()	the part is to be appended
 */
#ifndef WICK_BPF_LUA_WALK_H
#define WICK_BPF_LUA_WALK_H

#define LUA_SAVED_AT 48u /* in scratch, where other reads do not come */

_Static_assert(sizeof(struct lua_process) <= LISTED_PROCESS_WORDS * 8, "there is room for what is said of a process");
_Static_assert(LUA_SAVED_AT >= LISTED_READ_WORDS, "reads of frames leave them alone");

enum lua_inner { LUA_INNER_C, LUA_INNER_LUA, LUA_INNER_TAIL, LUA_INNER_FINALIZER };

/* What the instruction of a call has done. */
static __always_inline __u32 lua_note_of(const struct lua_process *lua, __u32 inner, __u32 status)
{
	if (inner == LUA_INNER_FINALIZER || (inner == LUA_INNER_LUA && status & lua->call_final))
		return LUA_NOTE_FREES;
	return inner == LUA_INNER_LUA && !(status & lua->call_hooked) ? LUA_NOTE_CALLS : LUA_NOTE_NONE;
}

/* Whether the walk has left a frame of the loop with its last step; walk->lua_in_loop is of the frame that it has come to. */
static __always_inline int lua_has_left_loop(struct walk *walk)
{
	__u32 was = walk->lua_in_loop;

	walk->lua_in_loop = listed_is_loop(walk);
	if (!was || walk->depth < 2)
		return 0;
	walk->listed_loops++;
	walk->listed_missed++; /* until a part was found */
	walk->lua_best = walk->lua_best_error = 0;
	return 1;
}

static __always_inline int lua_read_saved(struct walk *walk)
{
	__u64 end = walk->registers[UNWIND_REGISTER_SP] - 8;

	return WALK_READ(walk, &walk->scratch[LUA_SAVED_AT], LUA_SAVED_WORDS * 8, end - LUA_SAVED_WORDS * 8);
}

/*
 * Calls and the values of functions lie near those that they were called by, at higher addresses: a read of what is asked for
 * takes what lies below it along. Reading has a price by the call, not by the byte. Returns the number of the first word; -1
 * if it cannot be read. address: a multiple of 8; bytes: at most LUA_WINDOW_WORDS * 8.
 */
static __always_inline int lua_look(struct walk *walk, struct lua_window *window, __u64 address, __u32 bytes)
{
	__u64 at = address - window->start;

	if (at > sizeof(window->words) || at + bytes > window->bytes) {
		window->start = address + ((bytes + 7) & ~7u) - sizeof(window->words);
		window->bytes = sizeof(window->words);
		if (WALK_READ(walk, window->words, sizeof(window->words), window->start)) {
			__u32 size = ((bytes - 1) & (sizeof(window->words) - 1)) + 1;

			window->start = address;
			window->bytes = bytes;
			if (WALK_READ(walk, window->words, size, address)) {
				window->bytes = 0;
				return -1;
			}
		}
		at = address - window->start;
	}
	return (at >> 3) & (LUA_WINDOW_WORDS - 1);
}

static __always_inline __u64 lua_word(const struct lua_window *window, int at, __u32 offset)
{
	return window->words[((__u32)at + (offset >> 3)) & (LUA_WINDOW_WORDS - 1)];
}

/* What is known of a closure, and of its prototype: read once a sample. NULL if it cannot be read. */
static __always_inline struct lua_known *lua_learn(struct walk *walk, __u64 closure)
{
	const struct lua_process *lua = &walk->lua;
	struct lua_known *known = &walk->lua_known[closure >> 5 & (LUA_KNOWN_MAX - 1)];
	__u64 prototype;

	if (known->closure == closure)
		return known;
	if (listed_read(walk, LUA_CLOSURE_BYTES, closure))
		return 0;
	known->closure = 0;
	known->prototype = 0;
	if (!(lua->listed.flags & LUA_IS_51) || !listed_byte(walk, LUA_CLOSURE_IS_C)) {
		prototype = LISTED_WORD(walk, lua->closure_prototype);
		if (!prototype || prototype & 7 || prototype >> 56 ||
		    listed_read(walk, lua->prototype_bytes, prototype + lua->prototype_from))
			return 0;
		known->prototype = prototype;
		known->check = lua_check_of(lua, walk->scratch);
		known->code = LISTED_WORD(walk, lua->prototype_code);
		known->size = listed_half(walk, lua->prototype_size);
	}
	known->closure = closure;
	return known;
}

/* Whether a call is one of Lua's functions: sets the closure. */
static __always_inline int lua_is_function(struct walk *walk, __u64 function, __u64 *ret_closure)
{
	__u64 closure;
	__u32 type;
	int at;

	*ret_closure = 0;
	if (!function || function & 7)
		return 0;
	at = lua_look(walk, &walk->lua_values, function, LUA_VALUE_BYTES);
	if (at < 0)
		return 0;
	closure = lua_word(&walk->lua_values, at, 0);
	type = (__u32)lua_word(&walk->lua_values, at, LUA_VALUE_TYPE) & LUA_VALUE_TYPES;
	if (type != LUA_TYPE_FUNCTION || !closure || closure & 7 || closure >> 56)
		return 0;
	if (walk->lua.listed.flags & LUA_IS_51) {
		const struct lua_known *known = lua_learn(walk, closure);

		if (known && !known->prototype)
			return 0;
	}
	*ret_closure = closure;
	return 1;
}

/* One of the words: is it a state that runs, and further in than the best one so far? */
static __always_inline void lua_try_saved(struct walk *walk, __u32 i)
{
	__u64 state = walk->scratch[LUA_SAVED_AT + (i & 7)], top, global, call, error, function;

	if (!state || state & 7 || state >> 47 || state == walk->lua_best || listed_read(walk, walk->lua.state_bytes, state))
		return;
	if (listed_byte(walk, LUA_STATE_TYPE) != LUA_TYPE_THREAD || listed_byte(walk, walk->lua.state_status))
		return;
	top = LISTED_WORD(walk, LUA_STATE_TOP);
	global = LISTED_WORD(walk, walk->lua.state_global);
	call = LISTED_WORD(walk, walk->lua.state_call);
	error = LISTED_WORD(walk, walk->lua.state_error) - 1; /* that of the main program's may be 0: the outermost */
	if ((top | global | call) & 7 || !global || !call || (walk->lua_best && error >= walk->lua_best_error))
		return;
	function = listed_load(walk, call + walk->lua.call_function);
	if (!function || function & 7 || top < function || top - function > LUA_STACK_MAX)
		return;
	walk->lua_best = state;
	walk->lua_best_error = error;
}

/* Whether the walk has left all frames that run a state: where its outermost errors return to lies further in. */
static __always_inline int lua_is_left(struct walk *walk, __u64 state)
{
	__u64 error = listed_load(walk, state + walk->lua.state_error), outer = error;

	for (__u32 i = 0; i < LUA_ERRORS_READ && outer; i++) {
		error = outer;
		outer = listed_load(walk, error);
	}
	return !outer && error && error < walk->registers[UNWIND_REGISTER_SP];
}

/* What was read is that of this sample. */
static __always_inline void lua_forget(struct walk *walk)
{
	walk->lua_calls.bytes = walk->lua_values.bytes = 0;
	for (__u32 i = 0; i < LUA_KNOWN_MAX; i++)
		walk->lua_known[i].closure = 0;
}

/* Goes to the state that was found. Positive, 1 + its number, if the one before it has calls that no frame of the loop will be
 * met for; negative if there is none. */
static __always_inline int lua_enter_state(struct walk *walk)
{
	__u32 count = walk->lua_states, last = walk->lua_at & (LUA_STATES_MAX - 1), at = count;

	if (!walk->lua_best)
		return -1;
	for (__u32 i = 0; i < LUA_STATES_MAX; i++)
		if (i < count && walk->lua_state[i] == walk->lua_best)
			at = i;
	if (at >= LUA_STATES_MAX)
		return -1;
	walk->lua_at = at;
	if (at < count)
		return 0;
	walk->lua_states = at + 1;
	if (!at)
		lua_forget(walk);
	/* Else the compiler, which knows more than the verifier of 6.1, leaves out the bound. */
	asm volatile("" : "+r"(at));
	at &= LUA_STATES_MAX - 1;
	walk->lua_state[at] = walk->lua_best;
	walk->lua_next[at] = listed_load(walk, walk->lua_best + walk->lua.state_call);
	walk->lua_end[at] = walk->lua.state_first ? listed_load(walk, walk->lua_best + walk->lua.state_first) : 0;
	walk->lua_inner[at] = LUA_INNER_C;
	walk->lua_first = at + 1;
	return count && walk->lua_next[last] != walk->lua_end[last] && lua_is_left(walk, walk->lua_state[last]) ? 1 + last : 0;
}

/* In 5.1: whether the loop was entered for the call, by what its caller's instruction is. */
static __always_inline int lua_is_fresh_51(struct walk *walk, __u64 caller)
{
	__u64 pc, closure;
	int at = lua_look(walk, &walk->lua_calls, caller, walk->lua.call_bytes);

	if (at < 0)
		return 1;
	pc = lua_word(&walk->lua_calls, at, walk->lua.call_pc);
	if (!lua_is_function(walk, lua_word(&walk->lua_calls, at, walk->lua.call_function), &closure))
		return 1;
	return WALK_READ(walk, walk->scratch, 4, pc - 4) || LUA_OP_51((__u32)walk->scratch[0]) != LUA_OP_51_CALL;
}

/* The instruction in a code: of the innermost call, the loop may have gone on since it was noted. */
static __always_inline __u64 lua_instruction(struct walk *walk, __u64 pc, __u64 code, __u32 size)
{
	__u64 place = pc - code;

#if UNWIND_REGISTERS == 16
	if (walk->lua_first == walk->lua_at + 1 && walk->listed_loops == 1 && walk->lua.pc_register < 16) {
		__u64 at = walk->registers[walk->lua.pc_register & 15] - code;
		place = at - 4 < (__u64)size * 4 && !(at & 3) ? at : place;
	}
#endif
	place = place / 4 - 1; /* it points to the next one */
	return place < size && place < RUNTIME_PLACE_MAX ? place : 0;
}

/* 0, or 1 if it cannot be read. */
static __always_inline int lua_add(struct walk *walk, __u64 closure, __u64 pc, __u64 flags)
{
	const struct lua_known *known = lua_learn(walk, closure);
	__u64 place;

	if (!known || !known->prototype)
		return 1;
	place = lua_instruction(walk, pc, known->code, known->size);
	listed_add(walk, RUNTIME_KIND_LUA, known->prototype, flags | (__u64)known->check << 24 | place);
	return 0;
}

/* As python_collect_step(), but up to the end of the part. */
static __always_inline int lua_collect_step(struct walk *walk)
{
	const struct lua_process *lua = &walk->lua;
	__u32 at = walk->lua_at & (LUA_STATES_MAX - 1), status, inner = walk->lua_inner[at], is_fresh, note;
	__u64 call = walk->lua_next[at], before, function, pc, closure;
	int word;

	if (call == walk->lua_end[at])
		return 1;
	walk->listed_frame = call; /* unless it can be followed */
	if (!call || call & 7 || walk->listed_count >= LISTED_FRAMES_MAX)
		return 1;
	word = lua_look(walk, &walk->lua_calls, call, lua->call_bytes);
	if (word < 0)
		return 1;
	function = lua_word(&walk->lua_calls, word, lua->call_function);
	pc = lua_word(&walk->lua_calls, word, lua->call_pc);
	status = (__u32)(lua_word(&walk->lua_calls, word, lua->call_status) >> (lua->call_status & 6) * 8);
	before = lua->listed.flags & LUA_IS_51 ? call - lua->call_bytes : lua_word(&walk->lua_calls, word, LUA_CALL_PREVIOUS);
	if (!lua_is_function(walk, function, &closure)) {
		walk->lua_inner[at] = lua_note_of(lua, inner, status) == LUA_NOTE_FREES ? LUA_INNER_FINALIZER : LUA_INNER_C;
		walk->lua_first = 0;
		walk->lua_next[at] = before;
		walk->listed_frame = 0;
		return 0;
	}
	if (lua->state_pc && walk->lua_first == at + 1)
		pc = listed_load(walk, walk->lua_state[at] + lua->state_pc);
	is_fresh = lua->listed.flags & LUA_IS_51 ? lua_is_fresh_51(walk, before)
						 : !(status & lua->call_fresh) == !!(lua->listed.flags & LUA_NOT_FRESH);
	note = lua_note_of(lua, inner, status);
	if (lua_add(walk, closure, pc, (is_fresh ? RUNTIME_FRAME_ENTRY : 0) | RUNTIME_FRAME_NOTE(note)))
		return 1;
	walk->lua_inner[at] = status & lua->call_tail ? LUA_INNER_TAIL : LUA_INNER_LUA;
	walk->lua_first = 0;
	walk->lua_next[at] = before;
	walk->listed_frame = 0;
	return is_fresh;
}

/* Nothing more can be read of the list. */
static __always_inline int lua_is_done(const struct walk *walk)
{
	__u32 at = walk->lua_at & (LUA_STATES_MAX - 1);

	if (walk->listed.kind == RUNTIME_KIND_LUAJIT)
		return walk->listed_frame || walk->lua_next[at] <= walk->luajit_bottom[at];
	return walk->listed_frame || walk->lua_next[at] == walk->lua_end[at];
}

/* The part follows behind the frame of the loop: the frame of its caller, which the walk has come to, waits. */
static __always_inline void lua_leave_part(struct walk *walk)
{
	if (walk->listed_next < walk->listed_count) {
		walk->listed_missed--;
		if (!walk->listed_held)
			listed_hold(walk);
		return;
	}
	if (!walk->listed_held)
		return;
	walk->listed_appends = LISTED_APPENDS_NONE;
	walk_push(walk, walk->listed_held);
	walk->listed_held = 0;
}

#endif
