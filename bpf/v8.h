/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of V8, the engine of JavaScript in Node.js: what the walk (bpf/v8_walk.h) is told of a process, and how a frame is
 * written down. Fixed-size types only.
 *
 * Purpose. Functions of JavaScript have native frames, in one of three kinds of code: handlers of bytecodes and what calls
 * them, which the program's file has ("builtins"); code that the baseline compiler makes of bytecodes; and optimised code,
 * where one frame stands for several functions that were inlined into each other. All keep a frame pointer, and below it, at
 * the same places in all versions that are supported, what they work on:
 *
 *   fp - 8    the context, or, in frames that are no function's, a number that says what they are
 *   fp - 16   the function (JSFunction), of which SharedFunctionInfo knows the name and the script
 *   fp - 32   in frames of the interpreter: its bytecodes; the register r12 has them, too
 *   fp - 40   ... where in them the last call was made, a number; where it is now is in r9
 *
 * So no rules have to be found for generated code: it has the frame that the frame pointer says wherever it has called. The
 * innermost frame may just be being made or left. Then the return address is on top of the stack, or the caller's frame
 * pointer, below it; and the code is what functions begin or end with.
 *
 * And so the walk looks, whenever it has left a frame, whether its caller's frame begins right above the frame pointer that it
 * had: then the frame was set up, and these are its own. The native address is followed by two words (bpf/runtime.h), the
 * object being the SharedFunctionInfo:
 *
 *   word 1   RUNTIME | kind << 56 | address of the SharedFunctionInfo
 *   word 2   RUNTIME | DATA | [CODE] | [BUILTIN] | check << 24 | place
 *
 * The place is an offset in the bytecodes' object. In generated code (CODE) the native address tells the place, and what stands
 * here is a hash of the function's code object, which differs after it was compiled anew. A builtin (BUILTIN), such as
 * Array.prototype.map(), has none.
 *
 * Values are tagged: an address of an object has 1 added to it, a number is in the upper half of a word. The garbage collector
 * moves objects and reuses their memory. SharedFunctionInfo is moved rarely, and the check, a hash of its pointers to its name
 * and its script and of its number in the script, tells it from others; user space checks its type, too, which costs more here
 * than all else. What has moved is another object to it, with the same name.
 *
 * The function of a frame that is not made yet is in rdi.
 *
 * Rejected: rules from an analysis of the code (agent/live_unwinder.h), as for other code made at run time. There is too much
 * of it: while the agent looks at it, walks end there and are finished in user space, later, when the collector has moved
 * functions; and the time for it is limited. And the address of the code object in place of the function: what runs is often
 * not what the function's pointer says (on-stack replacement; functions that were compiled anew while they run); user space
 * finds the code by the native address.
 */
#ifndef WICK_BPF_V8_H
#define WICK_BPF_V8_H

#include "bpf/runtime.h"

/* How far the frame is set up of the code that the walk has come to. */
enum v8_setup {
	V8_SETUP_UNKNOWN = 0,
	V8_SETUP_FRAME = 1,
	/* Sizes of what there is of it: */
	V8_SETUP_NONE = 8,    /* the return address */
	V8_SETUP_PUSHED = 16, /* ... and the caller's frame pointer, which is still in the register, too */
};

#define V8_IS_OBJECT(word) (((word)&3) == 1 && (word) >= 4096 && !((word) >> 48))
#define V8_IS_NUMBER(word) (!((word)&0xffffffff))

#define V8_FRAME_CODE	  (1ull << 58) /* of word 2 */
#define V8_FRAME_BUILTIN  (1ull << 57)
#define V8_FRAME_WORDS	  6u  /* from fp - 40 on: those below the frame pointer, and the caller's */
#define V8_SHARED_WORDS	  10u /* of a SharedFunctionInfo that are read */
#define V8_FUNCTION_WORDS 8u  /* of a JSFunction */
/* Offsets in bytecodes' objects: the smallest, and the end. */
#define V8_BYTECODE_MIN 32u
#define V8_BYTECODE_END (1u << 24)

/* A process with V8 in it, at a multiple of 8 in the heap. Offsets are bytes in the objects of that version, multiples of 8
 * where they are those of words. */
struct v8_process {
	__u32 kind; /* RUNTIME_KIND_V8 */
	__u32 slot; /* of the file */
	__u64 builtins_start,
		builtins_end; /* offsets in the file of the slot: V8 maps them near its code, too, once for each thread */
	__u32 function_shared, function_code;	      /* below V8_FUNCTION_WORDS * 8 */
	__u32 shared_scope, shared_script, shared_id; /* below V8_SHARED_WORDS * 8; the last one 4 bytes wide */
	__u32 reserved;
};
#define V8_PROCESS_WORDS (sizeof(struct v8_process) / 8)

#endif
