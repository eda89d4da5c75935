/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of CPython: what the walk (bpf/python_walk.h) is told of a process, and how a frame is written down. Fixed-size types
 * only.
 *
 * Purpose. Python's functions have no frames on the thread's stack that a native walk could find: the interpreter's loop,
 * _PyEval_EvalFrameDefault(), runs them, and keeps a list of its own frames, innermost first, that begins in the thread's state
 * (PyThreadState). One frame of the loop stands for one frame of the list, or, since 3.11, for all frames up to the one that
 * was entered from C. So a sample first collects the list, and then the native walk puts the next part of it behind each frame
 * of the loop that it meets: stacks of Python that calls C that calls Python come in their order.
 *
 * Which frames are those of the loop is seen by the code, up to 3.11. Since 3.12 the frame of the list that ends a part, a
 * shim, is a local variable of the loop: the native frame whose memory it lies in is the one. That holds whatever compilers
 * make of the loop; since 3.14 it may be hundreds of functions that jump to each other.
 *
 *   thread (fs) -> PyThreadState -> frame -> frame -> ...   each: a code object, an instruction, the frame before it
 *
 * The thread's state. The holder of the interpreter's lock (GIL) is tried first: whoever runs Python's code has it. Then the
 * one that was found for the thread before; then the lists of threads of all interpreters. A state is the thread's if it has
 * its thread id, which is pthread_self() and with glibc and musl the thread pointer.
 *
 * A frame is two words of the chain of callers (bpf/runtime.h): the object is the code object, its place the instruction, in
 * units of two bytes from the code's start; the check is a hash of members that differ between code objects (the pointers to
 * its name and its lines, its first line).
 *
 * What the list still has when the native walk ends follows behind the last native frame, marked as pending: user space, which
 * continues walks that stopped for lack of knowledge, goes on with it. There, where a part ends with a shim, its address is a
 * third word: RUNTIME | DATA | PENDING | ANCHOR | address.
 *
 * Layouts differ by version, and are found by user space (src/runtime/). Nothing here is believed: all addresses are read with
 * helpers that may fail, and every loop ends.
 */
#ifndef WICK_BPF_PYTHON_H
#define WICK_BPF_PYTHON_H

#include "bpf/runtime.h"

enum python_flags {
	PYTHON_EACH_IS_ENTRY = 1, /* up to 3.10: a frame of the loop runs one function */
	PYTHON_LAST_INSTR = 2,	  /* up to 3.10: the frame has a number (f_lasti), not a pointer */
	PYTHON_HALF_INSTR = 4,	  /* up to 3.9: that number is in bytes */
	PYTHON_ENTRY_FLAG = 8,	  /* 3.11: frame_owner is a flag that says that the frame was entered from C */
	PYTHON_ANCHORED = 32,	  /* since 3.12: what ends a part of the list is in the native frame that runs it */
	PYTHON_CFRAME = 16,	  /* 3.11, 3.12: thread_frame points to a struct that points to the frame */
};

#define PYTHON_FRAME_WORDS	16u /* of a frame and of a code object that are read at once */
#define PYTHON_FRAMES_MAX	1024u
#define PYTHON_ANCHORS_MAX	256u /* parts of the list; a power of two */
#define PYTHON_THREADS_MAX	512u
#define PYTHON_INTERPRETERS_MAX 8u

/*
 * A process with one interpreter of CPython in it, at multiples of 8 in the heap behind its ranges (struct unwind_process).
 * Offsets are bytes in the structs of that version; those in frame_* are below PYTHON_FRAME_WORDS * 8.
 */
struct python_process {
	__u64 loop_start, loop_end; /* of _PyEval_EvalFrameDefault() */
	__u64 cold_start, cold_end; /* of a part of it that lies elsewhere; equal = none */
	__u64 holder;		    /* address of a pointer to the thread state that has the GIL; 0 = see gil_holder */
	__u64 interpreters;	    /* address of the pointer to the first interpreter; 0 = only `holder` is known */
	__u32 interpreter_next, interpreter_threads;
	__u32 interpreter_gil, gil_holder; /* the interpreter's pointer to its GIL, and the holder in it; 0, 0 = none */
	__u32 thread_next, thread_interpreter, thread_id, thread_frame;
	__u32 cframe_frame;
	__u32 frame_bytes, frame_code, frame_back, frame_instr, frame_owner;
	__u32 owner_shim; /* frames with this owner, or a higher one, are no functions: they end a frame of the loop */
	__u32 code_instr; /* where the instructions begin in the code object */
	__u32 code_from, code_bytes;  /* the part of it with the members that are checked */
	__u32 check0, check1, check2; /* their offsets from code_from */
	__u32 flags;		      /* enum python_flags */
};
#define PYTHON_PROCESS_WORDS (sizeof(struct python_process) / 8)

/* What distinguishes a code object from another one at the same address, RUNTIME_CHECK_BITS wide, of three words of it: those
 * with its members at check0, check1 and check2. */
static inline __attribute__((always_inline)) __u32 python_check_of(__u64 a, __u64 b, __u64 c)
{
	__u64 hash = a * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ hash >> 29 ^ b) * 0x9e3779b97f4a7c15ull;
	hash = (hash ^ hash >> 29 ^ c) * 0x9e3779b97f4a7c15ull;
	return hash >> (64 - RUNTIME_CHECK_BITS);
}
#define PYTHON_CHECK_WORD(offset) ((offset) >> 3 & (PYTHON_FRAME_WORDS - 1))

#endif
