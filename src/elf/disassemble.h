/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code as text: x86-64, x86, AArch64, ARM. Done by Capstone, which is loaded when it is first needed: the agent, which
 * is the same program, never needs it, and a server without it answers everything else.
 */
#ifndef WICK_ELF_DISASSEMBLE_H
#define WICK_ELF_DISASSEMBLE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"

#define DISASSEMBLE_BYTES_MAX (1024u * 1024)

struct instruction {
	uint64_t address;
	uint32_t offset, size; /* in the code */
	uint32_t text;	       /* where its text begins in disassembly.text; NUL-terminated */
};
struct disassembly {
	struct instruction *items; /* without gaps, from the first byte to the last */
	size_t count;
	struct buffer text; /* private; disassembly_text() */
};
struct disassemble_options {
	uint16_t machine; /* EM_X86_64, EM_386, EM_AARCH64, EM_ARM (not Thumb) */
	bool att;	  /* AT&T syntax instead of Intel's, where that makes a difference */
	uint64_t address; /* of the first byte */
	/* What targets of branches into the code are called: "<NAME+0x1f>", the name cut at 120 bytes; NULL = they are
	 * addresses only. */
	const char *name;
};
/*
 * Bytes that are no instruction become ".byte 0x..", as many as the machine's smallest instruction has. -ENOSYS Capstone is not
 * installed (the message names the package), -ENOTSUP another machine, -E2BIG more than DISASSEMBLE_BYTES_MAX, or 64 MiB of
 * text, -ENOMEM. *ret needs no initialisation and is empty after a failure. Thread-safe.
 */
int disassemble(struct bytes code, const struct disassemble_options *options, struct disassembly *ret, struct error *err);
const char *disassembly_text(const struct disassembly *disassembly, size_t index);
void disassembly_release(struct disassembly *disassembly);

#endif
