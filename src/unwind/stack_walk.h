/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks over copies of user stacks, of recordings that have no process any more: registers, the bytes above the stack pointer,
 * and which file was mapped where. By the walk of the sampling program (bpf/walk.h) and the same tables; what is not in the
 * copy, such as the stack of a goroutine that Go's runtime was called from, ends a walk.
 *
 * Only of this machine's architecture, whose registers the walk is compiled for. Not thread-safe.
 */
#ifndef WICK_UNWIND_STACK_WALK_H
#define WICK_UNWIND_STACK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "bpf/unwind.h"

/* An executable mapping. */
struct stack_walk_mapping {
	uint64_t start, end, file_offset;
	uint32_t binary; /* of stack_walker_add(); STACK_WALK_NO_BINARY: code that was made at run time */
};
#define STACK_WALK_NO_BINARY UINT32_MAX

struct stack_walk_source {
	/* The mapping that an address lies in; false if there is none. */
	bool (*find)(void *context, uint64_t address, struct stack_walk_mapping *ret);
	/* A descriptor of the binary's file, which becomes the walker's, or a negative errno. Asked for again when it was
	 * closed in between. */
	int (*open)(void *context, uint32_t binary);
	void *context;
};

/* Of one sample. */
struct stack_copy {
	uint64_t ip, registers[UNWIND_REGISTERS]; /* by DWARF number */
	uint32_t known;				  /* a bit for each register */
	const uint8_t *bytes;			  /* from the stack pointer upwards */
	size_t length;
	bool is_cut; /* the stack goes on behind the copy */
};

struct stack_walker;
int stack_walker_new(const struct stack_walk_source *source, struct stack_walker **ret, struct error *err);
struct stack_walker *stack_walker_free(struct stack_walker *walker);
DEFINE_CLEANUP_POINTER(stack_walker_free, struct stack_walker);
/* The next binary's number. Its file is opened when a walk first needs it. -E2BIG past STACK_WALK_BINARIES_MAX. */
#define STACK_WALK_BINARIES_MAX 65536u
int stack_walker_add(struct stack_walker *walker, uint32_t *ret, struct error *err);

/*
 * ret_frames (UNWIND_FRAMES_MAX) gets addresses of instructions, leaf first: of callers within the call. At least the leaf's.
 * *ret_result says why it ended. 0, or -ENOMEM.
 */
int stack_walker_walk(struct stack_walker *walker, const struct stack_copy *copy, uint64_t *ret_frames, size_t *ret_count,
		      enum unwind_result *ret_result, struct error *err);

#endif
