/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of Perl: what the walk (bpf/perl_walk.h) is told of a process. How lists of frames are put into a walk is in
 * bpf/listed.h.
 *
 * An interpreter has a stack of contexts: subroutines, evals, and blocks and loops, which are no functions. What C calls, such
 * as the block of sort() or a destructor, may begin another one, and they are a list, innermost first.
 *
 *   thread (key of pthread_setspecific()) -> interpreter -> {stack, its topmost context, the stack before it} -> ...
 *
 * Builds without threads have one interpreter, whose members are variables: it runs in the first thread of the process.
 *
 * The place of a frame is its line, that of the statement that is executed: the interpreter has the innermost one (PL_curcop),
 * and each subroutine's and eval's context that of its caller. That is how caller() sees it, too.
 *
 * A part of the list ends with a context that returns to no operation: it was called from C, and the loop, runops, ends. And it
 * ends where a stack does. Where that has no function, a part without functions stands for it: the block of sort() runs in the
 * function that sorts.
 *
 * The object of a frame is its subroutine (CV), or for evals and the code outside of subroutines, which have no name, the
 * statement (COP), and what it is in bits 0 and 1. The check of the former is a hash of its name's address, its file's and its
 * first operation's, of the latter one of its file's address and its line.
 */
#ifndef WICK_BPF_PERL_H
#define WICK_BPF_PERL_H

#include "bpf/listed.h"

/* PERL_SI, PERL_CONTEXT, COP and CV: the same from 5.28 to 5.40, also without threads, but for what a COP's file is. */
#define PERL_STACK_CONTEXTS 8u
#define PERL_STACK_BACK	    16u
#define PERL_STACK_TOP	    32u /* the index of its topmost context; -1 = it has none */
#define PERL_STACK_BYTES    40u
#define PERL_CONTEXT_TYPE   0u
#define PERL_CONTEXT_COP    16u
#define PERL_CONTEXT_RETURN 48u
#define PERL_CONTEXT_CV	    72u
#define PERL_CONTEXT_READ   80u
#define PERL_CONTEXT_BYTES  104u
#define PERL_CONTEXTS_MAX   1000000u
#define PERL_CONTEXTS_READ  4096u /* blocks and loops are among them */
#define PERL_TYPE(type)	    ((type)&0xf)
#define PERL_TYPE_SUB	    9u
#define PERL_TYPE_FORMAT    10u
#define PERL_TYPE_EVAL	    11u
#define PERL_TYPE_HIDDEN    0x80u /* of eval: try/catch; of sub: code in a pattern, in the stack twice */
#define PERL_COP_FROM	    32u
#define PERL_COP_BYTES	    24u
#define PERL_COP_LINE	    36u
#define PERL_COP_FILE	    48u /* a text; without threads a glob */
#define PERL_SV_BODY	    0u
#define PERL_SV_FLAGS	    12u
#define PERL_SV_TYPE(flags) ((flags)&0xff)
#define PERL_SV_CV	    13u
#define PERL_SV_BYTES	    24u
#define PERL_CV_FROM	    40u /* of the body */
#define PERL_CV_START	    40u
#define PERL_CV_NAME	    56u
#define PERL_CV_FILE	    64u
#define PERL_CV_BYTES	    32u

enum perl_object { /* bits 0 and 1 of the object */
		   PERL_OBJECT_SUB = 0,
		   PERL_OBJECT_EVAL = 1,
		   PERL_OBJECT_MAIN = 2,
};

/* A process with Perl in it. */
struct perl_process {
	struct listed_process listed;
	__u64 key;		 /* address of the pthread key (PL_thr_key); 0 = a build without threads */
	__u64 stack, cop;	 /* ... then: addresses of PL_curstackinfo and PL_curcop */
	__u32 thread_keys;	 /* from the thread pointer: where the data of the first keys are */
	__u32 keys_max;		 /* how many lie there */
	__u32 interpreter_stack; /* PL_curstackinfo */
	__u32 interpreter_cop;	 /* PL_curcop */
};

#endif
