/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of PHP: what the walk (bpf/php_walk.h) is told of a process. How lists of frames are put into a walk is in
 * bpf/listed.h.
 *
 * PHP runs in one thread of a process: the variable executor_globals holds the innermost frame of the list, and each frame has
 * what it runs, where it is, and the frame before it.
 *
 *   executor_globals.current_execute_data -> frame -> frame -> ...   each: {opline, function, This, prev}
 *
 * Thread-safe builds (ZTS) run it in any thread. Each has a block of all globals, to which a variable in the thread's storage
 * points (_tsrm_ls_cache). Where executor_globals lies in the block is set at the start, and is in executor_globals_offset.
 *
 *   thread -> block + executor_globals_offset = executor_globals of this thread
 *
 * A part of the list ends with the frame of PHP code that has ZEND_CALL_TOP: execute_ex(), the loop, returns with it. Functions
 * that are written in C have frames, too. Those with ZEND_CALL_TOP were called from C, by no loop: the part goes on.
 *
 * The place of a frame is its line: an opline says it itself. The innermost one is in a register of the loop (r15 where GCC
 * compiled it) and written to the frame only before what may look at it: the register counts while it points to an instruction
 * of the function that the frame runs, the only one that it can be. While an exception is thrown the frame points to an
 * instruction that handles it, and where it came from is in a variable.
 *
 * Generators that delegate (`yield from`) are not in the list: a frame without a function stands for them, whose object is the
 * generator that was asked, and each generator points to the one that it delegates to, up to the one that runs. They are put
 * in where the placeholder is, in the order of calls.
 *
 * The object of a frame is the function; bit 0 says that it has no name: it is the code of a file outside of functions, which
 * can be said of it when it is gone before anything else could be read.
 *
 * The check of a frame is made of the pointers to the function's name, its class and its instructions, and of PHP code of that
 * to its file and its lines: code is freed, compiled anew, and the next may lie in the same places.
 */
#ifndef WICK_BPF_PHP_H
#define WICK_BPF_PHP_H

#include "bpf/listed.h"

/* struct _zend_execute_data: the same since 7.0. */
#define PHP_FRAME_OPLINE    0u
#define PHP_FRAME_FUNCTION  24u
#define PHP_FRAME_THIS	    32u
#define PHP_FRAME_INFO	    40u /* type of This, and the kind of the call */
#define PHP_FRAME_BACK	    48u
#define PHP_FRAME_BYTES	    56u
#define PHP_INFO_TYPE(info) ((info)&0xff)
#define PHP_TYPE_OBJECT	    8u
#define PHP_CALL_TOP	    (1u << 17)
/* union _zend_function */
#define PHP_FUNCTION_TYPE     0u
#define PHP_FUNCTION_NAME     8u
#define PHP_FUNCTION_CLASS    16u
#define PHP_FUNCTION_INTERNAL 1u
#define PHP_FUNCTION_USER     2u
#define PHP_FUNCTION_EVAL     4u
/* struct _zend_op */
#define PHP_OBJECT_MAIN	    1u /* bit 0 of the object: it has no name, as code of a file outside of functions */
#define PHP_OP_BYTES	    32u
#define PHP_OP_LINE	    24u
#define PHP_OBJECT_CLASS    16u
#define PHP_REGISTER_OPLINE 15u /* r15 */

/* A process with PHP in it. */
struct php_process {
	struct listed_process listed;
	__u64 globals;		     /* address of executor_globals; 0 = each thread has its own */
	__u64 globals_offset;	     /* ... then: of the number of bytes behind which they lie in the thread's block */
	__u64 block_offset;	     /* ... the address of the number of bytes from the thread pointer to the block's address */
	__s64 block_at;		     /* ... this number itself, if block_offset is 0 */
	__u64 generator_class;	     /* of zend_ce_generator; 0 = not known */
	__u32 globals_current;	     /* current_execute_data in executor_globals */
	__u32 globals_opline_before; /* opline_before_exception; 0 = not known */
	__u32 function_bytes;	     /* of a function that are read; at most LISTED_READ_WORDS * 8 */
	__u32 function_count;	     /* how many instructions it has */
	__u32 function_ops;	     /* where they are */
	__u32 function_file;	     /* its lines are behind it */
	__u32 generator_frame;	     /* in struct _zend_generator */
	__u32 generator_parent;
};

/* words: function_bytes of a function. */
static inline __attribute__((always_inline)) __u32 php_check_of(const struct php_process *php, const __u64 *words)
{
	__u32 check = runtime_check_of(words[PHP_FUNCTION_NAME / 8], words[PHP_FUNCTION_CLASS / 8],
				       words[LISTED_CHECK_WORD(php->function_ops)]);

	if ((words[PHP_FUNCTION_TYPE] & 0xff) == PHP_FUNCTION_INTERNAL) /* is shorter */
		return check;
	return runtime_check_of(check, words[LISTED_CHECK_WORD(php->function_file)],
				words[LISTED_CHECK_WORD(php->function_file + 8)]);
}

#endif
