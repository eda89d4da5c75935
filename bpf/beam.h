/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of BEAM, the virtual machine of Erlang and Elixir, with its compiler (BeamAsm, Erlang/OTP 25 and later): what the walk
 * (bpf/beam_walk.h) is told of a process, and how a frame is written down. Fixed-size types only.
 *
 * Purpose. Modules are compiled to machine code when they are loaded. A scheduler's thread runs it with the stack pointer in
 * the memory of the Erlang process that it has chosen, and goes back to its own stack where it calls C:
 *
 *   memory of an Erlang process    [ heap ->          <- stack ]     stack:  [ term | term | return address | term | ... ]
 *   stack of a thread		    ... process_main()  [ registers of the scheduler ]  [ frames of C ]
 *							^ here the frames of C begin; rbx points into them
 *
 * A frame has any number of terms, and above them the return address. No frame pointer is needed to find it: the collector of
 * garbage has to tell terms from return addresses as well, so the latter lie at multiples of 4, and no term looks like that
 * (its lower 2 bits are not 0). At a call, all terms of the frames are valid. At the leaf they need not be: memory that was
 * reserved for terms may still have old return addresses in it. There, rules that were found in the code are asked first
 * (src/elf/code/live_code.h).
 *
 * Code that calls C keeps the Erlang process's stack pointer in rbp, or, if the function may move the stack, in the process
 * (r13 points to it, `stop`). Which one, and where `stop` lies, is read from the code behind the call, which goes back:
 *
 *   mov %rbp, %rsp	    48 89 ec
 *   mov stop(%r13), %rsp   49 8b 65 XX
 *
 * r13 is not known in callers of C. But the thread's data have the process, and those are the value of a key of
 * pthread_setspecific(). A call of C that is followed by neither, in code that belongs to no module, is one of the scheduler
 * itself: there the walk ends. So it does at the address that each Erlang process begins with (`beam_normal_exit`), which is
 * not shown.
 *
 * A frame is two words of the chain of callers (bpf/abi.h) behind its native address:
 *
 *   word 1   RUNTIME | kind << 56 | the native address; of a leaf, a constant
 *   word 2   RUNTIME | DATA | [LEAF] | check << 24
 *
 * User space finds the function by its address, in the table of modules, soon after. Modules are unloaded now and then: the
 * check is of the call before the return address. A leaf has none, as chains that differ by the leaf's address only would each
 * be sent.
 *
 * Rejected: to look up the module here, in the table of all of them. It takes ten reads a frame, and user space has to look
 * into the module in any case. Rejected: to ask for frame pointers, which are there with the option +JPperf only.
 */
#ifndef WICK_BPF_BEAM_H
#define WICK_BPF_BEAM_H

#include "bpf/runtime.h"

#define BEAM_FRAME_LEAF (1ull << 58) /* of word 2: no call is before the address */
#define BEAM_WORDS_MAX	1100u	     /* of a frame: 1,024 terms, and what the runtime has put there */
#define BEAM_CODE_WORDS 32u	     /* behind a call that are looked at, in modules */
#define BEAM_CODE_NEAR	56u	     /* bytes of them, in other code: the scheduler goes on to another process further on */
/* From the scheduler's registers to what rbx points to, at least and at most; the former lie at a multiple of 64. */
#define BEAM_REGISTERS_MIN 64u
#define BEAM_REGISTERS_MAX 256u

/* A process with BEAM in it, at a multiple of 8 in the heap. */
struct beam_process {
	__u64 kind;			/* RUNTIME_KIND_BEAM */
	__u64 low, high;		/* code made at run time that lies between these is BEAM's */
	__u64 shared_start, shared_end; /* of it, what belongs to no module */
	__u64 normal_exit;		/* where an Erlang process returns to in the end */
	__u64 key;			/* address of the number of the key that has the thread's data */
	__u32 thread_keys;		/* from the thread pointer: where the values of the first keys are */
	__u32 keys_max;			/* how many lie there */
	__u32 data_process;		/* in the thread's data: the process that it runs; at 0 is where its registers are */
	__u32 reserved;
};
#define BEAM_PROCESS_WORDS (sizeof(struct beam_process) / 8)

#endif
