/* SPDX-License-Identifier: Apache-2.0 */
/* For tests that go through many alike places, such as each call that can fail. */
#ifndef WICK_BASE_TEST_STRIDE_H
#define WICK_BASE_TEST_STRIDE_H

#include <stdint.h>
#include <stdlib.h>

/* How far it is from one place to the next: all of them in the full run, each third one in the plain run. */
static inline uint64_t test_stride(void)
{
	return getenv("WICK_TEST_FULL") ? 1 : 3;
}

#endif
