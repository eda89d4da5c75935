/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File descriptors of this process: how many it may have, and how many it has.
 *
 * The soft limit is 1,024 nearly everywhere, for the sake of programs that use select(); nothing here does. So programs that
 * hold many files or connections raise it to the hard limit when they start, and those that can do with fewer ask how many
 * there are and leave some for the others: descriptors are what a process runs out of without a warning, and then it is the
 * next file that cannot be opened and not the connection too many.
 */
#ifndef WICK_BASE_DESCRIPTORS_H
#define WICK_BASE_DESCRIPTORS_H

#include <stdint.h>

/* More are never raised to: what a child must close, or a kernel keep tables for, grows with it. */
#define DESCRIPTORS_RAISED_MAX 1048576u

/* Raises the soft limit to the hard one, as far as DESCRIPTORS_RAISED_MAX; where the kernel refuses, the limit stays. Inherited
 * by children. */
void descriptors_raise(void);
/* The soft limit now; UINT64_MAX = none. */
uint64_t descriptors_max(void);
/* How many are open, from /proc/self/fd. Takes a microsecond for every one that is open on kernels before 6.2. 0 if that cannot
 * be read; descriptors_max() if that is because none is left. */
uint64_t descriptors_open(void);

#endif
