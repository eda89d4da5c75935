/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a kernel's functions as an agent sends it, once per kernel:
 *
 *   wick kallsyms 1 BUILDID
 *   OFFSET NAME          hexadecimal, from _stext, ascending; a line a function of the core kernel
 */
#ifndef WICK_SYMBOL_KERNEL_KALLSYMS_TEXT_H
#define WICK_SYMBOL_KERNEL_KALLSYMS_TEXT_H

#include "symbol/table_write.h"

#define KALLSYMS_TEXT_BYTES_MAX (64 * MIB)
#define KALLSYMS_TEXT_START	"wick kallsyms 1 "

/* Adds the functions, with flags SYMBOL_TABLE_KERNEL and base 0. -EBADMSG with the line, -EINVAL of another build-id, -E2BIG.
 */
int kallsyms_text_add(int fd, const char *build_id, struct table_writer *writer, struct error *err);

#endif
