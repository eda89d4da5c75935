/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that know their own stack. Each instrumented function keeps a node in its frame; whoever has a copy of the stack and
 * of the stack pointer, taken at one instant, finds in it which functions were active at that instant, without any unwinding.
 *
 *   SHADOWED int f(int n)
 *   {
 *           SHADOW();          the node: set now, wiped when the scope is left, by exceptions as well
 *
 * The node's magics contain its own address, so that copies and remains of other data do not look like nodes. `depth` counts
 * and `hash` digests the instrumented functions from the root on: the innermost node alone proves the whole chain, also where
 * the copy ends or the rest lies on another stack. `point` is an address inside the function, at which the section
 * shadow_points has an entry (the distance from the entry to the point, and flags): so the reader learns from the file which
 * functions are instrumented, and finds their bounds in the symbol table.
 *
 * Order matters, because samples and signal handlers come at any instruction: a node is whole before shadow_top leads to it,
 * and shadow_top leaves it before it is wiped. So the chain that begins at shadow_top is right at every instruction, and only
 * the innermost function of an interrupted context may be active without being in it (prologue and epilogue).
 *
 * The alternative, -finstrument-functions with a stack in thread-local memory, was rejected: its calls move the prologues,
 * which are what is tested, and the record is not in the copy of the stack.
 */
#ifndef WICK_TESTS_SHADOW_H
#define WICK_TESTS_SHADOW_H

#include <stdint.h>

#define SHADOW_MAGIC1 0x57b1c35d9e10f2a3ull
#define SHADOW_MAGIC2 0x1d7c0be84a6f9325ull
#define SHADOW_SEED   0x9ae16a3b2f90404full
#define SHADOW_PRIME  0x9e3779b97f4a7c15ull

#define SHADOW_HANDLER 1 /* a signal handler: the function beneath it was interrupted anywhere */

struct shadow_node {
	uint64_t magic1; /* SHADOW_MAGIC1 ^ own address */
	uint64_t point;
	uint64_t depth; /* 0 for the outermost */
	uint64_t hash;
	uint64_t parent; /* address of the caller's node, 0 for the outermost */
	uint64_t magic2; /* SHADOW_MAGIC2 ^ own address */
};

/* An entry of the section shadow_points. */
struct shadow_point {
	int64_t distance; /* from this entry to the point */
	uint64_t flags;
};

static inline uint64_t shadow_hash(uint64_t parent, uint64_t point)
{
	uint64_t hash = (parent ^ point) * SHADOW_PRIME;
	return hash ^ (hash >> 29);
}

#ifndef SHADOW_READER /* what follows is for the programs only */

#if defined(__clang__)
#define SHADOWED __attribute__((noinline))
#else
#define SHADOWED __attribute__((noipa))
#endif

#ifdef __cplusplus
extern "C" {
#endif
extern __thread volatile struct shadow_node *volatile shadow_top;
#ifdef __cplusplus
}
#endif

static inline __attribute__((always_inline)) void shadow_enter(volatile struct shadow_node *node, uint64_t point)
{
	volatile struct shadow_node *parent = shadow_top;
	node->point = point;
	node->depth = parent ? parent->depth + 1 : 0;
	node->hash = shadow_hash(parent ? parent->hash : SHADOW_SEED, point);
	node->parent = (uint64_t)parent;
	node->magic1 = SHADOW_MAGIC1 ^ (uint64_t)node;
	node->magic2 = SHADOW_MAGIC2 ^ (uint64_t)node;
	shadow_top = node;
}

static inline __attribute__((always_inline)) void shadow_leave(volatile struct shadow_node *node)
{
	shadow_top = (volatile struct shadow_node *)node->parent;
	node->magic2 = 0;
	node->magic1 = 0;
}

#if defined(__x86_64__)
#define SHADOW_TAKE "lea 771b(%%rip), %0\n"
#else
#define SHADOW_TAKE "adr %0, 771b\n"
#endif
#define SHADOW_FLAGS(flags)                                                                                                    \
	uint64_t shadow_point_here;                                                                                            \
	__asm__ volatile("771: " SHADOW_TAKE ".pushsection shadow_points,\"a\"\n"                                              \
			 ".balign 8\n .quad 771b - .\n .quad %c1\n .popsection"                                                \
			 : "=r"(shadow_point_here)                                                                             \
			 : "i"(flags));                                                                                        \
	volatile struct shadow_node shadow_here __attribute__((cleanup(shadow_leave)));                                        \
	shadow_enter(&shadow_here, shadow_point_here)
#define SHADOW() SHADOW_FLAGS(0)

#endif /* SHADOW_READER */

#endif
