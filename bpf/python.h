/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of CPython: what the walk (bpf/python_walk.h) is told of a process. How lists of frames are put into a walk is in
 * bpf/listed.h.
 *
 * The loop, _PyEval_EvalFrameDefault(), keeps a list of frames that begins in the thread's state (PyThreadState). One frame of
 * the loop stands for one frame of the list, or, since 3.11, for all frames up to the one that was entered from C.
 *
 * Which frames are those of the loop is seen by the code, up to 3.11. Since 3.12 the frame of the list that ends a part, a
 * shim, is a local variable of the loop, and the anchor. That holds whatever compilers make of the loop; since 3.14 it may be
 * hundreds of functions that jump to each other.
 *
 *   thread (fs) -> PyThreadState -> frame -> frame -> ...   each: a code object, an instruction, the frame before it
 *
 * The thread's state. The holder of the interpreter's lock (GIL) is tried first: whoever runs Python's code has it. Then the
 * one that was found for the thread before; then the lists of threads of all interpreters. A state is the thread's if it has
 * its thread id, which is pthread_self() and with glibc and musl the thread pointer.
 *
 * The object of a frame is its code object, its place the instruction, in units of two bytes from the code's start; the check
 * is a hash of members that differ between code objects (the pointers to its name and its lines, its first line).
 */
#ifndef WICK_BPF_PYTHON_H
#define WICK_BPF_PYTHON_H

#include "bpf/listed.h"

enum python_flags {			      /* of listed_process.flags */
		    PYTHON_EACH_IS_ENTRY = 1, /* up to 3.10: a frame of the loop runs one function */
		    PYTHON_LAST_INSTR = 2,    /* up to 3.10: the frame has a number (f_lasti), not a pointer */
		    PYTHON_HALF_INSTR = 4,    /* up to 3.9: that number is in bytes */
		    PYTHON_ENTRY_FLAG = 8,    /* 3.11: frame_owner is a flag that says that the frame was entered from C */
		    PYTHON_CFRAME = 16,	      /* 3.11, 3.12: thread_frame points to a struct that points to the frame */
};

#define PYTHON_THREADS_MAX	512u
#define PYTHON_INTERPRETERS_MAX 8u

/*
 * A process with one interpreter of CPython in it. Offsets are bytes in the structs of that version; those in frame_* are below
 * LISTED_READ_WORDS * 8.
 */
struct python_process {
	struct listed_process listed;
	__u64 holder;	    /* address of a pointer to the thread state that has the GIL; 0 = see gil_holder */
	__u64 interpreters; /* address of the pointer to the first interpreter; 0 = only `holder` is known */
	__u32 interpreter_next, interpreter_threads;
	__u32 interpreter_gil, gil_holder; /* the interpreter's pointer to its GIL, and the holder in it; 0, 0 = none */
	__u32 thread_next, thread_interpreter, thread_id, thread_frame;
	__u32 cframe_frame;
	__u32 frame_bytes, frame_code, frame_back, frame_instr, frame_owner;
	__u32 owner_shim; /* frames with this owner, or a higher one, are no functions: they end a frame of the loop */
	__u32 code_instr; /* where the instructions begin in the code object */
	__u32 code_from, code_bytes;  /* the part of it with the members that are checked */
	__u32 check0, check1, check2; /* their offsets from code_from */
	__u32 spare;
};

#endif
