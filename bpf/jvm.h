/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of HotSpot, the Java virtual machine of OpenJDK: what the walk (bpf/jvm_walk.h) is told of a process, and how a frame
 * is written down. Fixed-size types only.
 *
 * Purpose. Functions of Java have native frames, in code that HotSpot makes at run time: its interpreter, compiled methods, and
 * stubs in between. All of it lies in a few code heaps. Whenever the walk has come to a frame in one of them, it asks what the
 * code belongs to:
 *
 *   code heap   [ block | block | ... ]       a block begins with a header, behind it lies a CodeBlob, behind that the code
 *   segment map [ 0 1 2 3 0 1 0 255 ... ]     a byte a segment (128 bytes): how far back the block begins, in segments, at
 *                                             least; 0 = here, 255 = no block
 *
 *   the interpreter   the frame has the method, and the bytecode that is executed, below its frame pointer. In the innermost
 *                     frame the latter is in r13, and in the frame only what was there at its last call.
 *   compiled methods  (nmethods) say how large their frame is. So their callers are found without going through their code: all
 *                     but of the innermost one, whose frame may be just being made or left.
 *   stubs             are no functions of Java, but have names.
 *
 * A frame is two words of the chain of callers (bpf/abi.h) behind its native address, the object being a Method or a CodeBlob,
 * an nmethod or a stub:
 *
 *   word 1   RUNTIME | kind << 56 | address of the object
 *   word 2   RUNTIME | DATA | [COMPILED | STUB] | check << 24 | bytecode's index, or offset of the native address in the code
 *
 * A virtual thread that goes on after a wait has only its innermost frames on the stack. The others stay in the heap until they
 * are returned to, in objects (StackChunk) that a list leads to; in place of the return address into the first of them is that
 * of a stub, the return barrier:
 *
 *   stack   [ frames | return address: the barrier ] [ ContinuationEntry, in the frame of enterSpecial() ] [ the carrier's ]
 *                                                       | the Continuation
 *   heap    Continuation -> tail -> StackChunk [ header | unused | sp: frames | bottom ] -> parent -> StackChunk ...
 *
 * The walk goes through them as if they were on the stack, and on with the carrier's frames. They are laid out as on the stack,
 * but in frames of the interpreter the frame pointer and the caller's stack pointer are distances, in words.
 *
 * Of the innermost frame in compiled code the offset is not written down: it is that of the sample's own address, which varies
 * more than all else, and chains that differ by it only would each be sent.
 *
 * User space reads the names behind it soon after. Classes are unloaded and compiled code is thrown away: so the words have a
 * check, a hash of members that differ from object to object, and names are believed only if they still have it.
 *
 * Layouts are from tables that each HotSpot has in its memory for debuggers (src/runtime/jvm.h). Nothing here is believed: all
 * addresses are read with helpers that may fail, and every loop ends.
 */
#ifndef WICK_BPF_JVM_H
#define WICK_BPF_JVM_H

#include "bpf/runtime.h"

#define JVM_FRAME_COMPILED  (1ull << 58) /* of word 2: the object is an nmethod */
#define JVM_FRAME_STUB	    (1ull << 57) /* ... a CodeBlob of which only the name is known */
#define JVM_PLACE_LEAF	    RUNTIME_PLACE_MAX
#define JVM_HEAPS_MAX	    4u
#define JVM_HOPS_MAX	    64u /* steps back through a segment map */
#define JVM_BLOB_WORDS	    64u /* of a block with its CodeBlob that are read at once, at most; a power of two */
#define JVM_FRAME_WORDS	    9u	/* below the frame pointer */
#define JVM_METHOD_BYTES    64u /* of a ConstMethod that are read at once */
#define JVM_FRAME_BYTES_MAX (1u << 20)
#define JVM_CHUNK_WORDS	    16u /* of a StackChunk before its frames, at most */

enum jvm_flags {
	JVM_BLOB_KINDS = 1,	/* blob_kind has a number; otherwise names tell */
	JVM_CODE_IS_OFFSET = 2, /* blob_code is an offset of 4 bytes; otherwise an address */
	JVM_DEOPT_IS_OFFSET = 4,
};

struct jvm_heap {
	__u64 start, end; /* that are reserved */
	__u64 segments;	  /* address of the segment map */
	__u32 shift;	  /* log2 of a segment's bytes */
	__u32 reserved;
};

/*
 * A process with HotSpot in it, at a multiple of 8 in the heap. Offsets are bytes in the structs of that build: of a blob from
 * its block's start, below JVM_BLOB_WORDS * 8; of a ConstMethod below JVM_METHOD_BYTES.
 */
struct jvm_process {
	__u64 kind;	 /* RUNTIME_KIND_JVM */
	__u64 low, high; /* all heaps */
	__u64 interpreter, interpreter_end;
	struct jvm_heap heaps[JVM_HEAPS_MAX];
	__u32 block_used, block_bytes; /* the byte that says whether it is; of the header */
	__u32 blob_name, blob_kind, kind_nmethod;
	__u32 blob_code, blob_frame_size; /* int: words, the return address included */
	__u32 blob_bytes;		  /* of all of these, from the block's start */
	__u32 nmethod_method, nmethod_id, nmethod_deopt, nmethod_orig_pc;
	__u32 method_const;						/* of a Method: its ConstMethod */
	__u32 const_pool, const_code_size, const_name, const_signature; /* a pointer, and 2 bytes each */
	__u32 const_bytes;						/* behind them are the bytecodes */
	__u32 frame_method, frame_bcp;					/* words below the frame pointer */
	__u32 flags;							/* enum jvm_flags */
	__u32 carrier_bytes; /* of the frame that virtual threads are called from; 0 = not known */
	/* Frames in the heap. The Methods of Continuation.enterSpecial() and doYield(); 0, 0 = they are not followed. */
	__u64 enter_method, yield_method;
	__u64 oop_base;		      /* of a reference of 4 bytes in an object */
	__u64 color_bad, color_shift; /* ZGC: addresses of the bits that no good reference has, and of how many are none; 0 */
	__u32 oop_shift, oop_bytes;   /* 4 or 8 */
	__u32 method_code;	      /* of a Method: its nmethod */
	__u32 continuation_tail;      /* of a Continuation: a reference */
	__u32 chunk_parent;	      /* of a StackChunk: a reference */
	__u32 chunk_size, chunk_sp, chunk_bottom; /* int: words */
	__u32 chunk_stack;			  /* where its words begin: up to JVM_CHUNK_WORDS * 8 */
	__u32 reserved;
};
#define JVM_PROCESS_WORDS (sizeof(struct jvm_process) / 8)

/* Checks are, of a Method: its ConstMethod, the pool of that, and this word: the size of its code, the numbers of its name and
 * signature in the pool; of an nmethod: its method, where its code begins, its number; of a stub: its name, where its code
 * begins, 0. */
static inline __attribute__((always_inline)) __u64 jvm_method_word(__u32 code_size, __u32 name, __u32 signature)
{
	return (__u64)code_size << 32 | (name | signature << 16);
}

#endif
