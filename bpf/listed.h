/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Listed runtimes: interpreters that keep a list of frames of their own, innermost first, beside the thread's stack. What they
 * have in common: what the walk (bpf/listed_walk.h) is told of a process, and how the list is put into a walk. Fixed-size types
 * only.
 *
 * Purpose. Functions of such a runtime have no frames that a native walk could find: a function of the interpreter, its loop,
 * runs them. One frame of the loop stands for a part of the list, up to a frame that was entered from C (RUNTIME_FRAME_ENTRY).
 * So a sample first collects the list, and then the native walk puts the next part of it behind each frame of the loop that it
 * meets: functions that call C that calls functions come in their order.
 *
 * Which frames are those of the loop is seen by the code. Compilers move what they think is rarely run to another place, its
 * cold part. Of runtimes with LISTED_ANCHORED it is seen by memory: what ends a part of the list, an anchor, is a local
 * variable of the loop, and the native frame whose memory it lies in is the one.
 *
 * Of runtimes with LISTED_STATES there are many lists, and the frames of the loop lead to them. So a part is collected when the
 * walk has left the frame that runs it.
 *
 * What the list still has when the native walk ends follows behind the last native frame, marked as pending: user space, which
 * continues walks that stopped for lack of knowledge, goes on with it. There, where a part ends with an anchor, its address is
 * a third word: RUNTIME | DATA | PENDING | ANCHOR | address.
 *
 *   file           how the frames of a runtime are found and read
 *   bpf/python.h   CPython
 *   bpf/php.h      PHP
 *   bpf/perl.h     Perl
 *   bpf/ruby.h     Ruby
 *   bpf/lua.h      Lua, which has many lists
 *   bpf/luajit.h   LuaJIT, likewise
 *
 * Layouts differ by version, and are found by user space (src/runtime/). Nothing here is believed: all addresses are read with
 * helpers that may fail, and every loop ends.
 */
#ifndef WICK_BPF_LISTED_H
#define WICK_BPF_LISTED_H

#include "bpf/runtime.h"

#define LISTED_READ_WORDS    32u /* of a frame, or of what it runs, that are read at once */
#define LISTED_FRAMES_MAX    1024u
#define LISTED_ANCHORS_MAX   256u /* parts of the list; a power of two */
#define LISTED_PROCESS_WORDS 24u  /* room for what is said of a process with any of them */

enum listed_flags {
	LISTED_ANCHORED = 1u << 31, /* others are the runtime's own */
	LISTED_STATES = 1u << 30,   /* frames of the loop lead to the lists: a part is collected when one was left */
};

/* The start of what is said of a process with a listed runtime in it, at multiples of 8 in the heap behind its ranges (struct
 * unwind_process). */
struct listed_process {
	__u32 kind;		    /* enum runtime_kind */
	__u32 flags;		    /* enum listed_flags */
	__u64 loop_start, loop_end; /* of the function that runs code; equal = its frames are known by anchors */
	__u64 cold_start, cold_end; /* of a part of it that lies elsewhere; equal = none */
};

#define LISTED_CHECK_WORD(offset) ((offset) >> 3 & (LISTED_READ_WORDS - 1))

#endif
