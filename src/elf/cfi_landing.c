// SPDX-License-Identifier: Apache-2.0
/*
 * Functions that go on in a landing pad: libgcc's _Unwind_RaiseException(), _Unwind_Resume() and the like (unwind.inc,
 * uw_install_context()). They are known by their CFI, which alone says that rax and rdx are saved: the values that the landing
 * pad gets in them.
 *
 *   call uw_install_context_1       writes registers of the landing pad's frame over those that were saved at the entry
 *   ...
 *   call _Unwind_DebugHook
 *   mov saved registers; mov the new stack pointer, %rsp; pop and jmp, or ret
 *
 * CFI goes on to say that the saved registers are the caller's. From the first of these calls on they may be those of a frame
 * further out, and a caller that is found by rbp would be one that is none. The return address stays.
 */
#include "elf/cfi_int.h"
#include "elf/code/x86_decode.h"

#define FUNCTIONS_MAX  64u /* of one file; libgcc has four */
#define CODE_BYTES_MAX 4096u

bool cfi_landing_find(struct cfi_reader *reader, uint64_t start, uint64_t end, struct cfi_range *ret)
{
	uint8_t code[CODE_BYTES_MAX];
	uint64_t offset, calls[2] = {0, 0};
	size_t len = end - start < sizeof(code) ? (size_t)(end - start) : sizeof(code);
	struct x86_instruction in;
	bool found = false;
	if (reader->machine->machine != EM_X86_64 || reader->landing_count++ >= FUNCTIONS_MAX ||
	    !elf_file_find_loaded(reader->file, start, &offset) || elf_file_read(reader->file, offset, code, len, NULL) < 0)
		return false;
	for (size_t at = 0; at < len && x86_decode(code + at, len - at, &in); at += in.len) {
		if (in.kind == X86_CALL) {
			calls[0] = calls[1];
			calls[1] = start + at;
		} else if (in.kind == X86_MOVE && in.reg == X86_RSP && in.base != X86_RBP && calls[0]) {
			/* Whoever was called looks for the rule inside of the call. */
			*ret = (struct cfi_range){.start = calls[0] + 1, .end = start + at};
			found = true;
		}
	}
	return found;
}
