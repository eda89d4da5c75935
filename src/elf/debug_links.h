/* SPDX-License-Identifier: Apache-2.0 */
/* Where a file says that the rest of its debug information is. */
#ifndef WICK_ELF_DEBUG_LINKS_H
#define WICK_ELF_DEBUG_LINKS_H

#include "elf/build_id.h"
#include "elf/elf_file.h"

#define DEBUG_LINK_NAME_MAX	4096
#define ELF_MINIDEBUG_BYTES_MAX (256ull * 1024 * 1024) /* unpacked */

/* .gnu_debuglink: the base name of the separate debug file and the CRC-32 of its contents. -ENOENT without one, -EBADMSG. */
int elf_read_debuglink(struct elf_file *file, char ret_name[static DEBUG_LINK_NAME_MAX], uint32_t *ret_crc, struct error *err);
/* .gnu_debugaltlink: path of the file shared by several (dwz), and its build-id. -ENOENT without one, -EBADMSG. */
int elf_read_debugaltlink(struct elf_file *file, char ret_name[static DEBUG_LINK_NAME_MAX],
			  char ret_build_id[static BUILD_ID_HEX_MAX], struct error *err);
/* .gnu_debugdata: an ELF file with a .symtab, packed with xz. *ret_memory must outlive *ret and is freed with mem_free() after
 * elf_file_release(). -ENOENT without one, -EBADMSG, -E2BIG past ELF_MINIDEBUG_BYTES_MAX, -ENOMEM. */
int elf_open_minidebug(struct elf_file *file, struct elf_file *ret, uint8_t **ret_memory, struct error *err);

#endif
