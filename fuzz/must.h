/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WICK_FUZZ_MUST_H
#define WICK_FUZZ_MUST_H

#include <stdbool.h>
#include <stdlib.h>

/* Whatever the input was. */
static inline void must(bool holds)
{
	if (!holds)
		abort();
}

#endif
