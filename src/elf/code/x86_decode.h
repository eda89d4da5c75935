/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/elf: x86-64 instructions, as far as it matters to the stack: how long one is, where it goes, and what it does
 * to general registers. For code that no call frame information covers (cfi_code.c).
 */
#ifndef WICK_ELF_X86_DECODE_H
#define WICK_ELF_X86_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define X86_INSTRUCTION_MAX 15u

/* Numbers as in machine code, not as in DWARF. */
enum x86_register {
	X86_RAX,
	X86_RCX,
	X86_RDX,
	X86_RBX,
	X86_RSP,
	X86_RBP,
	X86_RSI,
	X86_RDI,
	X86_REGISTERS = 16,
	X86_NONE = 16,
};

enum x86_kind {
	X86_OTHER,    /* writes the registers in `writes` */
	X86_PADDING,  /* nop, int3 */
	X86_PUSH,     /* reg, X86_NONE = something else; 8 bytes */
	X86_POP,      /* reg, X86_NONE = into memory or flags; 8 bytes */
	X86_ADD,      /* reg += value */
	X86_LEA,      /* reg = base + value */
	X86_ADDRESS,  /* reg = the next address + value */
	X86_MOVE,     /* reg = base */
	X86_EXCHANGE, /* reg and base */
	X86_STORE,    /* *(base + value) = reg */
	X86_LOAD,     /* reg = *(base + value) */
	X86_CLEAR,    /* reg = 0 */
	X86_ENTER,    /* push rbp; rbp = rsp; rsp -= value */
	X86_LEAVE,    /* rsp = rbp; pop rbp */
	X86_CALL,     /* of the next address + value */
	X86_CALL_INDIRECT,
	X86_JUMP, /* to the next address + value */
	X86_JUMP_INDIRECT,
	X86_JUMP_SLOT, /* through memory at a fixed address: a linkage stub, or a tail call by way of one */
	X86_BRANCH,    /* may jump there */
	X86_RETURN,
	X86_END, /* nothing is executed behind it: hlt, ud2 */
};

struct x86_instruction {
	enum x86_kind kind;
	uint8_t len;
	uint8_t reg, base; /* enum x86_register; base X86_NONE = an address that is not register + constant */
	int64_t value;
	uint32_t writes; /* bit by register; of X86_OTHER */
};

/* Decodes the instruction at code[0]; false if it is none, is cut off by the end of the code, or is not known. */
bool x86_decode(const uint8_t *code, size_t len, struct x86_instruction *ret);

#endif
