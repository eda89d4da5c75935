/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information (DWARF 5, 6.4; Linux Standard Base, .eh_frame) as rows: from each address on, by which rule the
 * caller's frame is found.
 *
 * Reads Go's table of functions, then .eh_frame, and .debug_frame where that one says nothing (also compressed: zlib, zstd),
 * through .eh_frame_hdr if it is sound, without it otherwise, and through PT_GNU_EH_FRAME for files without section headers.
 * Stubs of .plt, .plt.got, .plt.sec and .iplt that no CFI covers get the rule that their code calls for. x86-64 and aarch64;
 * 32-bit files are -ENOTSUP.
 */
#ifndef WICK_ELF_CFI_H
#define WICK_ELF_CFI_H

#include <stdint.h>

#include "base/error.h"
#include "bpf/unwind.h"
#include "elf/elf_file.h"

#define CFI_SECTION_BYTES_MAX (512u << 20) /* of one section; uncompressed */
#define CFI_ROWS_MAX	      (64u << 20)  /* rows of one file */
#define CFI_GO_BYTES_MAX      (64u << 20)  /* of Go's table of functions, which is held in memory while it is read */

/*
 * Called for each row in strictly ascending order of address (virtual, as linked). The rule holds up to the next row. Ends of
 * functions without a neighbour are rows of UNWIND_CFA_NONE. Neighbouring rows differ. A negative return ends the reading with
 * that error.
 */
typedef int cfi_row_function(void *context, uint64_t address, const struct unwind_rule *rule);

struct cfi_stats {
	uint64_t entries;     /* FDEs */
	uint64_t bad_entries; /* damaged or of an unknown form: left out; their addresses have no rule */
	uint64_t rows;
	uint64_t unsupported; /* rows of UNWIND_CFA_UNSUPPORTED */
	uint64_t code_bytes;  /* of code that nothing speaks of, up to the limit of what is gone through */
};

/*
 * Time and memory are bounded by the size of the sections, whatever they claim. *ret_stats may be NULL. A file without any CFI
 * gives 0 and no rows (besides those of PLT stubs). Errors: -ENOTSUP (machine, class), -EBADMSG (a section lies outside of the
 * file), -E2BIG (limits above), -ENOMEM, or the callback's.
 */
int cfi_read(struct elf_file *file, cfi_row_function *row, void *context, struct cfi_stats *ret_stats, struct error *err);
/* The same without going through code that nothing speaks of, which takes most of the time where there is much of it. */
int cfi_read_listed(struct elf_file *file, cfi_row_function *row, void *context, struct cfi_stats *ret_stats,
		    struct error *err);

#endif
