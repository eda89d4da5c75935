/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by tests that each begin with a fixture of their own. A file that includes this defines struct fixture, fixture_bytes,
 * fixture_init() and fixture_release(); its tests find the fixture in *state.
 */
#ifndef WICK_BASE_TEST_FIXTURE_H
#define WICK_BASE_TEST_FIXTURE_H

#include "base/alloc.h"

struct fixture;
static const size_t fixture_bytes;	    /* sizeof(struct fixture) */
static int fixture_init(struct fixture *f); /* of zeroes; 0, or negative if memory is short */
static void fixture_release(struct fixture *f);

static inline int fixture_set_up(void **state)
{
	struct fixture *f = mem_zalloc(fixture_bytes);
	assert_int_equal(fixture_init(f), 0);
	*state = f;
	return 0;
}

static inline int fixture_tear_down(void **state)
{
	fixture_release(*state);
	mem_free(*state);
	return 0;
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_set_up, fixture_tear_down)

#endif
