/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules for code that was made at run time, from its bytes alone (x86-64). No one says where its functions begin; known is an
 * address in one of them: where a thread was interrupted, or where a call returns to.
 *
 * The code is gone through forwards from there, along all direct branches and past calls, until functions return. How far the
 * stack pointer, or a register that held a frame, is from where it was at the address tells where the return address lies, and
 * what is restored on the way where the caller's frame pointer does. So one return says it of all instructions that were
 * reached.
 */
#ifndef WICK_ELF_LIVE_CODE_H
#define WICK_ELF_LIVE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "bpf/unwind.h"

#define LIVE_CODE_BYTES_MAX (256u << 10)
#define LIVE_CODE_ROWS_MAX  4096u

/* The rule while the instruction at `offset` has not been executed yet. */
struct live_code_row {
	uint32_t offset, len;
	struct unwind_rule rule; /* UNWIND_CFA_FRAMES if nothing proves one */
};

struct live_code {
	struct live_code_row *rows; /* by ascending offset */
	size_t count;
	uint32_t start, end; /* what was looked at */
	uint32_t asked;	     /* the offset that it was gone through from */
	bool proven;	     /* a return was reached, or the start of the function found */
	bool leaves;	     /* a way led out of the bytes */
};

/*
 * Goes through the code from the offset `at` on. address: of the first byte. What is beyond the bytes, or cannot be reached
 * within LIVE_CODE_ROWS_MAX instructions, is left out. 0; positive if that contradicts itself, or there is no instruction (no
 * rows then); -ENOMEM.
 */
int live_code_analyse(const uint8_t *code, size_t bytes, uint64_t address, uint32_t at, struct live_code *ret);
void live_code_release(struct live_code *live);

#endif
