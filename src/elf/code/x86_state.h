/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/elf: what is known of the stack and the registers at an instruction of x86-64 code, and what an instruction
 * does to that. For code that no call frame information covers: cfi_code.c goes on from where functions begin, live_code.c from
 * anywhere.
 */
#ifndef WICK_ELF_X86_STATE_H
#define WICK_ELF_X86_STATE_H

#include "bpf/unwind.h"
#include "elf/code/x86_decode.h"

#define X86_UNKNOWN INT32_MIN
#define X86_LOST    INT32_MAX
#define X86_SAME    0

struct x86_state {
	int32_t below[X86_REGISTERS]; /* CFA - register, or X86_UNKNOWN */
	int32_t rbp, rbx;	      /* the caller's: X86_SAME, X86_LOST, or at *(CFA + this) */
	int16_t outermost, switched;  /* a root; rsp was loaded from elsewhere */
};

/* Where a function begins: the return address is on top of the stack, no register has changed. */
struct x86_state x86_state_at_entry(void);
/* What an instruction does that is no jump; of a call, what it has done when it returns. */
void x86_state_apply(struct x86_state *state, const struct x86_instruction *in);
void x86_state_push(struct x86_state *state, unsigned reg);
/* What any function that was called may have changed. */
void x86_state_return(struct x86_state *state);
/* UNWIND_CFA_NONE if nothing leads to the CFA. */
struct unwind_rule x86_state_rule(const struct x86_state *state);

#endif
