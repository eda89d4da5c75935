/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Functions of runtimes (interpreters and virtual machines) in the chain of callers (bpf/abi.h). Fixed-size types only.
 *
 * A function is two words. User space reads the names behind the object's address, soon after. By then the memory may hold
 * another object: so the words have a check, of what differs between objects, and names are believed only if they still have
 * it.
 *
 *   word 1   RUNTIME | kind << 56 | address of the object that has the names: a code object, a method ...
 *   word 2   RUNTIME | DATA | [PENDING] | [ENTRY] | note << 52 | check << 24 | place: where in its code
 *
 * Runtimes are of two classes. A listed one keeps frames of its own beside the native stack, which are collected first and then
 * put behind the native frames that run them (bpf/python.h). One on the stack has native frames in code that it generates: the
 * two words stand behind the native address.
 */
#ifndef WICK_BPF_RUNTIME_H
#define WICK_BPF_RUNTIME_H

#include "bpf/types.h"

enum runtime_kind {
	RUNTIME_KIND_PYTHON = 1,
	RUNTIME_KIND_V8 = 2,
	RUNTIME_KIND_JVM = 3,
	RUNTIME_KIND_PHP = 4,
	RUNTIME_KIND_RUBY = 5,
	RUNTIME_KIND_PERL = 6,
	RUNTIME_KIND_LUA = 7,
	RUNTIME_KIND_BEAM = 8,
	RUNTIME_KIND_LUAJIT = 9,
	RUNTIME_KINDS = 12, /* at most 16 */
};

enum runtime_class {
	RUNTIME_LISTED,
	RUNTIME_STACKED,
	RUNTIME_CLASSES,
};

#define RUNTIME_FRAME	      (1ull << 61) /* the word is no native address */
#define RUNTIME_FRAME_DATA    (1ull << 60) /* the second of two words */
#define RUNTIME_FRAME_PENDING (1ull << 59)
#define RUNTIME_FRAME_ENTRY   (1ull << 58) /* it was entered from C: the frame of the loop ends with it */
#define RUNTIME_FRAME_ANCHOR  (1ull << 57)
#define RUNTIME_FRAME_NOTE(n) ((__u64)(n) << 52) /* what else the runtime has to say of it, below 16 */
#define RUNTIME_NOTE(word)    ((__u32)((word) >> 52 & 0xf))
#define RUNTIME_KIND(word)    ((__u32)((word) >> 56 & 0xf))
#define RUNTIME_OBJECT(word)  ((word) & ((1ull << 56) - 1))
#define RUNTIME_CHECK_BITS    28
#define RUNTIME_CHECK(word)   ((__u32)((word) >> 24 & ((1u << RUNTIME_CHECK_BITS) - 1)))
#define RUNTIME_PLACE(word)   ((__u32)((word)&0xffffff))
#define RUNTIME_PLACE_MAX     0xffffffu

/* What distinguishes an object from another one at the same address, RUNTIME_CHECK_BITS wide, of three words of it. */
static inline __attribute__((always_inline)) __u32 runtime_check_of(__u64 a, __u64 b, __u64 c)
{
	__u64 hash = a * 0x9e3779b97f4a7c15ull;

	hash = (hash ^ hash >> 29 ^ b) * 0x9e3779b97f4a7c15ull;
	hash = (hash ^ hash >> 29 ^ c) * 0x9e3779b97f4a7c15ull;
	return hash >> (64 - RUNTIME_CHECK_BITS);
}

#endif
