/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped files that become unreadable: cut short by somebody, or on a disk that fails. Reading such a page raises SIGBUS, which
 * would end the server for the sake of a cache. Guarded, the page becomes one of zeroes, and the mapping is known as broken.
 * Who reads it must therefore survive zeroes anywhere, as well as what it has checked before.
 *
 * Thread-safe.
 */
#ifndef WICK_SYMBOL_TABLE_GUARD_H
#define WICK_SYMBOL_TABLE_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* Guards a mapping until it is removed, which has to be before it is unmapped. Returns its number; 0 = as many as can be are
 * guarded already, and this one is not. The first call takes over SIGBUS; those of others go on to who had it. */
unsigned table_guard_add(const void *start, size_t len);
void table_guard_remove(unsigned guard);
bool table_guard_is_broken(unsigned guard); /* some of it was lost */

#endif
