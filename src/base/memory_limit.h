/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory there is for this process: what defaults of caches are derived from. */
#ifndef WICK_BASE_MEMORY_LIMIT_H
#define WICK_BASE_MEMORY_LIMIT_H

#include <stdint.h>

/* In bytes: the machine's memory, or less if the process is in a control group with a limit, of version 2 (memory.max) or 1
 * (memory.limit_in_bytes), or in one of such a group. Those that a container hides from it are not known. UINT64_MAX if nothing
 * can be read. root: where /proc and /sys are; "" but for tests. */
uint64_t memory_limit_bytes(const char *root);

/* A share of it, 1 / divisor, but at least and at most so much. */
uint64_t memory_share(uint64_t limit_bytes, unsigned divisor, uint64_t least, uint64_t most);

#endif
