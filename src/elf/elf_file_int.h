/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/elf. */
#ifndef WICK_ELF_ELF_FILE_INT_H
#define WICK_ELF_ELF_FILE_INT_H

#include <errno.h>

#include "elf/elf_file.h"

/* Damage of what can be done without is passed over: only -ENOMEM and -EIO are the caller's, else 0. */
static inline int elf_pass_over(int r, const struct error *problem, struct error *err)
{
	bool is_fatal = r == -ENOMEM || r == -EIO;
	if (is_fatal && err)
		*err = *problem;
	return is_fatal ? r : 0;
}

/* compressed.c: SHF_COMPRESSED, or by its name. */
bool elf_section_is_compressed(const struct elf_section *section);
/* The contents of such a section, out of `packed`, its bytes in the file. Fresh memory with one NUL
 * behind it. -E2BIG past max, -EBADMSG, also when it claims to become more than ratio_max times as large, -ENOTSUP for an
 * algorithm that is not known, -ENOMEM. */
int elf_section_inflate(const struct elf_file *file, const struct elf_section *section, struct bytes packed, uint64_t max,
			uint64_t ratio_max, struct bytes *ret, struct error *err);

#endif
