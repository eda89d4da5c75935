/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of what happens when memory runs out: at the first allocation, at the second, and so on to the last. */
#ifndef WICK_BASE_TEST_FAULTS_H
#define WICK_BASE_TEST_FAULTS_H

#include <errno.h>

#include "base/fault.h"

#define TEST_FAULTS_MAX 100000u /* of a test that comes to no end */

/*
 * Calls run() with its n-th allocation failing, n = 1, 2, 3 ..., until there is no n-th one. It has to return -ENOMEM each time
 * but the last, and then 0; what it made it has to release. Returns how often it failed.
 */
static inline uint64_t test_each_allocation(int (*run)(void *context), void *context)
{
	for (uint64_t n = 1;; n++) {
		assert_true(n < TEST_FAULTS_MAX);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = run(context);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		if (!reached)
			return n - 1;
	}
}

#endif
