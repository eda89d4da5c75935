/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of Ruby: what the walk (bpf/ruby_walk.h) is told of a process. How lists of frames are put into a walk is in
 * bpf/listed.h.
 *
 * A thread has an execution context, and that a stack with control frames at its end, the innermost one first:
 *
 *   thread (its storage) -> context -> {stack, its size, control frame}; control frame, control frame ... end of the stack
 *
 * Since 3.0 the context is in storage of the thread: of a library at an offset in the block of its module (what
 * __tls_get_addr() finds, by the pair {module, offset} that it is called with), of an executable at an offset from the thread
 * pointer. Before, it is a variable, the context of the thread that has the interpreter's lock: it is this thread's if the
 * thread's stack is the context's.
 *
 * A control frame runs an instruction sequence, which is its object; the place is the instruction. Or a method that is written
 * in C: then the object is the entry of the method, with bit 0. The others are the interpreter's own and are passed over. The
 * check is a hash of the addresses of name, file and code of the former, of definition and owner and the name of the latter.
 *
 * A part of the list ends with a frame that has RUBY_FRAME_FINISH: vm_exec(), the loop, returns with it. Where that function is
 * not known, since the library does not export it, the loop is all of the library's code and the list is one part: then what C
 * functions stand between Ruby's is not known.
 */
#ifndef WICK_BPF_RUBY_H
#define WICK_BPF_RUBY_H

#include "bpf/listed.h"

/* struct rb_execution_context_struct: the same from 2.5 on. */
#define RUBY_CONTEXT_STACK   0u
#define RUBY_CONTEXT_WORDS   8u
#define RUBY_CONTEXT_FRAME   16u
#define RUBY_CONTEXT_BYTES   24u
#define RUBY_STACK_WORDS_MAX (1u << 28)
/* struct rb_control_frame_struct */
#define RUBY_FRAME_PC	 0u
#define RUBY_FRAME_CODE	 16u
#define RUBY_FRAME_ENV	 32u
#define RUBY_FRAME_BYTES 40u
/* In front of what the frame's environment points to. */
#define RUBY_ENV_BEFORE	       16u
#define RUBY_ENV_METHOD	       0u /* counted from there */
#define RUBY_ENV_FLAGS	       16u
#define RUBY_ENV_BYTES	       24u
#define RUBY_FRAME_KIND(flags) ((flags)&0x7fff0001u)
#define RUBY_FRAME_IS_C	       0x55550001u
#define RUBY_FRAME_FINISH      0x20u
/* struct rb_iseq_constant_body */
#define RUBY_CODE_BODY	     16u /* in the instruction sequence */
#define RUBY_BODY_COUNT	     4u
#define RUBY_BODY_INSTR	     8u
#define RUBY_BODY_PATH	     64u
#define RUBY_BODY_LABEL	     80u
#define RUBY_BODY_FIRST_LINE 88u
#define RUBY_BODY_BYTES	     96u
/* struct rb_method_entry_struct */
#define RUBY_METHOD_DEFINITION 16u
#define RUBY_METHOD_ID	       24u
#define RUBY_METHOD_OWNER      32u
#define RUBY_METHOD_BYTES      40u

#define RUBY_OBJECT_METHOD    1u /* bit 0 of the object */
#define RUBY_MODULES_MAX      4096u
#define RUBY_NATIVE_STACK_MAX (1ull << 30)

enum ruby_flags { /* of listed_process.flags */
		  RUBY_IS_ONE_PART = 1,
};

/* A process with Ruby in it. */
struct ruby_process {
	struct listed_process listed;
	__u64 variable;	     /* address of the variable with the context; 0 = it is in the thread's storage */
	__u64 storage_index; /* address of {module, offset}; 0 = at storage_offset from the thread pointer */
	__s64 storage_offset;
	__u32 context_native; /* in the context: where the thread's stack begins, its highest address; with `variable` */
	__u32 frame_bytes;
};

#endif
