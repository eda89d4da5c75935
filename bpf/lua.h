/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of Lua: what the walk (bpf/lua_walk.h) is told of a process. How lists of frames are put into a walk is in
 * bpf/listed.h.
 *
 * Each coroutine has a state (lua_State) with a list of calls, innermost first, and there may be any number of states that know
 * nothing of each other; no variable leads to the one that runs:
 *
 *   state -> call {function, line of code, the call before it} -> call -> ...; function -> closure -> prototype {code, lines}
 *
 * So the list is not collected before the walk, as those of other runtimes, but a part of it at each frame of the loop that the
 * walk leaves (LISTED_STATES). The loop, luaV_execute(), saves all registers that belong to its caller, and all of its callers
 * have the state in one of these, since it is their first argument and they need it when the loop returns. The six words below
 * the return address are tried. What is a state is seen by its type, and by what its members point to. A register that the
 * caller has not used may have the state of an outer coroutine: each state notes where on the native stack errors of it return
 * to, and the innermost of these is the one that runs.
 *
 * A part ends with a call that the loop was entered for, and the next frame of the loop with the same state goes on from there.
 * What a state still has when the walk comes to another one has no frame of the loop any more: a coroutine that has waited in a
 * function that C called goes on without those frames. It follows as pending, so that it is put behind the last function.
 *
 * The object of a frame is its prototype, the place its instruction; the check is a hash of the addresses of its code and its
 * source, and of its first line. Functions of Lua have no names: a name is that by which the caller refers to the function in
 * its own instruction. So each frame says in its note how the function that stands before it in the chain was called.
 */
#ifndef WICK_BPF_LUA_H
#define WICK_BPF_LUA_H

#include "bpf/listed.h"

#define LUA_SAVED_WORDS	   6u /* registers of the caller that the loop saves */
#define LUA_STATES_MAX	   8u /* of a stack; a power of two */
#define LUA_ERRORS_READ	   8u
#define LUA_CALLS_READ	   (2 * LISTED_FRAMES_MAX) /* of a part: functions in C are calls, too */
#define LUA_STACK_MAX	   (64ull << 20)	   /* bytes from a function to the end of its stack */
#define LUA_TYPE_THREAD	   8u
#define LUA_TYPE_FUNCTION  6u /* of Lua; those in C have other bits, or a mark in the closure */
#define LUA_STATE_TYPE	   8u
#define LUA_STATE_TOP	   16u
#define LUA_CALL_PREVIOUS  16u /* but in 5.1 */
#define LUA_VALUE_BYTES	   16u
#define LUA_VALUE_TYPE	   8u
#define LUA_VALUE_TYPES	   0x3fu
#define LUA_CLOSURE_IS_C   10u /* in 5.1 */
#define LUA_CLOSURE_BYTES  40u /* to its prototype, in all versions */
#define LUA_WINDOW_WORDS   64u
#define LUA_KNOWN_MAX	   16u /* a power of two */
#define LUA_OP_51(code)	   ((code)&0x3f)
#define LUA_OP_51_CALL	   28u
#define LUA_REGISTERS_NONE 16u

enum lua_note { /* RUNTIME_NOTE() of a frame */
		LUA_NOTE_NONE = 0,
		LUA_NOTE_CALLS = 1, /* its instruction has called the function that stands before it */
		LUA_NOTE_FREES = 2, /* ... is the finalizer of what was freed meanwhile */
};

enum lua_flags {		    /* of listed_process.flags */
		 LUA_IS_51 = 1,	    /* calls are an array, and do not say what they were entered for */
		 LUA_NOT_FRESH = 2, /* call_fresh marks those that the loop was not entered for */
};

/* A process with Lua in it: offsets in bytes in the structs of its version, below LISTED_READ_WORDS * 8. */
struct lua_process {
	struct listed_process listed;
	__u32 state_bytes, state_status, state_global, state_call, state_error;
	__u32 state_first, state_pc;									       /* in 5.1 */
	__u32 call_bytes, call_function, call_pc, call_status, call_fresh, call_tail, call_final, call_hooked; /* bits */
	__u32 closure_prototype;
	__u32 prototype_from, prototype_bytes;					/* the part that is read */
	__u32 prototype_code, prototype_size, prototype_line, prototype_source; /* from there */
	__u32 pc_register; /* of the loop: the instruction after the one that is executed */
	__u32 spare;
};

/* Memory that was read last. */
struct lua_window {
	__u64 start;
	__u32 bytes, spare; /* 0 = none */
	__u64 words[LUA_WINDOW_WORDS];
};

/* A closure that was met; without a prototype, it is of a function in C. */
struct lua_known {
	__u64 closure, prototype, code;
	__u32 check, size;
};

/* words: prototype_bytes of a prototype from prototype_from on. */
static inline __attribute__((always_inline)) __u32 lua_check_of(const struct lua_process *lua, const __u64 *words)
{
	__u64 line = words[LISTED_CHECK_WORD(lua->prototype_line)];

	return runtime_check_of(words[LISTED_CHECK_WORD(lua->prototype_code)], words[LISTED_CHECK_WORD(lua->prototype_source)],
				(__u32)(line >> (lua->prototype_line & 4) * 8));
}

#endif
