/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of LuaJIT 2.1 (x86-64, GC64): what the walk (bpf/luajit_walk.h) is told of a process. How lists of frames are put into
 * a walk is in bpf/listed.h.
 *
 * Each coroutine has a state (lua_State) with a stack of its own. A frame on it is two words below the base of its function:
 *
 *   base - 16   the function, with its tag in the upper 17 bits
 *   base - 8    the link: an instruction of the caller, behind its call; or the distance to the frame before it, and a type
 *
 * The distance of a link that is an instruction is in operand A of the call. Types: LUAJIT_C... of what C has called: a part of
 * the list ends there.
 *
 * The interpreter is one function in assembly, whose native frame has a fixed size, 80 or 96 bytes, and the same things at the
 * same places (struct luajit_offset). Code of traces has no frame of its own, but makes that of the interpreter which has
 * entered it larger, by as much as each trace needs. So the walk, when it has come to a frame in either, looks upwards for the
 * interpreter's: it has the state at 16, and the state's list of native frames begins with it, or goes on with it. That also
 * gives the size of the frame in code of a trace, for which there are no rules.
 *
 * The innermost function: the interpreter keeps its base in rdx, and the instruction behind the one that is executed in rbx.
 * Where it has called C, rbp has the base, or the state, which has the base then. The two are believed if they fit: the
 * instruction is one of the function.
 *
 * Within a trace (jit_base is not 0) the functions that were inlined have no frames. User space finds them by the place in the
 * trace's code. That place is two words before those of the function that the trace has begun in:
 *
 *   word 1   RUNTIME | kind << 56 | the global state
 *   word 2   RUNTIME | DATA | [ENTRY] | TRACE << 52 | the native address
 *
 * The object of other frames is their prototype, as for Lua (bpf/lua.h), and so are the notes.
 *
 * Rejected: the state by the thread. nginx and others have one state in a thread, others many, and no variable leads to them.
 * Rejected: rules for traces from their code, or from what LuaJIT registers with libgcc: traces are made and thrown away all
 * the time, and the word that decides is on the stack anyway.
 */
#ifndef WICK_BPF_LUAJIT_H
#define WICK_BPF_LUAJIT_H

#include "bpf/lua.h"

#define LUAJIT_SCAN_FRAMES 64u /* places, 16 bytes apart, where the interpreter's frame may begin above that of a trace */

enum luajit_offset {
	/* In the interpreter's native frame. */
	LUAJIT_FRAME_RESULTS = 8, /* 4 bytes; below 0: of a function in C that was called without a frame, by its place */
	LUAJIT_FRAME_STATE = 16,
	LUAJIT_FRAME_PC = 24,
	LUAJIT_FRAME_BEFORE = 32, /* the state's frame before it; 2 bits are flags */
	/* In a state. */
	LUAJIT_STATE_TYPE = 9,
	LUAJIT_STATE_GLOBAL = 16,
	LUAJIT_STATE_BASE = 32,
	LUAJIT_STATE_END = 48,
	LUAJIT_STATE_STACK = 56,
	LUAJIT_STATE_FRAME = 80, /* the native one */
	LUAJIT_STATE_BYTES = 96,
	/* In a function. */
	LUAJIT_FUNCTION_TYPE = 9,
	LUAJIT_FUNCTION_KIND = 10, /* 0: one of Lua */
	LUAJIT_FUNCTION_CODE = 32,
	LUAJIT_FUNCTION_BYTES = 40,
	/* In a prototype, which the code follows. */
	LUAJIT_PROTOTYPE_CODE_COUNT = 12,
	LUAJIT_PROTOTYPE_SOURCE = 64,
	LUAJIT_PROTOTYPE_LINE = 72,
	LUAJIT_PROTOTYPE_BYTES = 104,
};
#define LUAJIT_PROTOTYPE_FROM 8u /* the part that is read */
#define LUAJIT_PROTOTYPE_READ 72u
#define LUAJIT_TYPE_THREAD    6u
#define LUAJIT_TYPE_FUNCTION  8u
#define LUAJIT_TAG_SHIFT      47
#define LUAJIT_TAG_FUNCTION   0x1fff7ull
#define LUAJIT_FRAME_FLAGS    3u
#define LUAJIT_IN_INTERPRETER 0xffffffffu /* vmstate; that of a trace is its number */

enum luajit_link { /* the lower 3 bits of a link; the lower 2 are 0 for instructions */
		   LUAJIT_LINK_C = 1,
		   LUAJIT_LINK_CONTINUED = 2, /* a metamethod: the instruction is in the word before the function */
		   LUAJIT_LINK_VARIADIC = 3,  /* the frame before it is of the same function */
		   LUAJIT_LINK_PROTECTED = 5, /* C, too */
};

enum luajit_note {			  /* besides those of Lua */
		   LUAJIT_NOTE_BASE = 4,  /* of the function that a trace has begun in: the words before it say its place */
		   LUAJIT_NOTE_TRACE = 8, /* a place in the code of a trace */
};
#define LUAJIT_PC(word) ((word) & ((1ull << 52) - 1)) /* of the second word of a trace */

struct luajit_process {
	struct listed_process listed;
	__u32 frame_bytes; /* of the interpreter's native frame, with the return address */
	__u32 global_vmstate, global_base;
	__u32 spare;
};

/* words: LUAJIT_PROTOTYPE_READ bytes of a prototype from LUAJIT_PROTOTYPE_FROM on. */
static inline __attribute__((always_inline)) __u32 luajit_check_of(const __u64 *words)
{
	return runtime_check_of(words[(LUAJIT_PROTOTYPE_CODE_COUNT - LUAJIT_PROTOTYPE_FROM) / 8] >> 32,
				words[(LUAJIT_PROTOTYPE_SOURCE - LUAJIT_PROTOTYPE_FROM) / 8],
				words[(LUAJIT_PROTOTYPE_LINE - LUAJIT_PROTOTYPE_FROM) / 8]);
}

#endif
