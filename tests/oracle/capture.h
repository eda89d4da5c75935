/* SPDX-License-Identifier: Apache-2.0 */
/* One instant of a thread: its registers and a copy of its stack, and the chains that unwinders found in it. */
#ifndef WICK_TESTS_ORACLE_CAPTURE_H
#define WICK_TESTS_ORACLE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "tests/oracle/space.h"

#define CAPTURE_STACK_BYTES 16384u

struct capture {
	uint32_t tgid, tid;
	uint64_t ip;
	uint64_t regs[UNWIND_REGISTERS]; /* by DWARF number */
	const uint8_t *stack;		 /* from the stack pointer on */
	size_t stack_bytes;
	bool is_cut; /* at a page that is not there: a large frame has not touched it yet */
};

struct chain {
	uint64_t frames[UNWIND_FRAMES_MAX]; /* the leaf first; all others are return addresses, or where a signal came */
	size_t count;
	enum unwind_result result;
	bool by_frames; /* a part was found by frame pointers: it says itself that a frame may be missing there */
};

/* A word of the copy; false outside of it. */
bool capture_word(const struct capture *capture, uint64_t address, uint64_t *ret);

/*
 * The walk as bpf/unwind.h describes it, written once more in the plainest way, on the mappings and tables of `space`: if it
 * and the product's walk disagree, one of them is wrong, and if they agree and the truth differs, the tables are.
 */
void plain_walk(const struct space *space, const struct capture *capture, struct chain *ret);

/* Whether the code at ip is the C library's return from a signal handler. */
bool is_restorer(const struct space *space, uint64_t ip);

#endif
