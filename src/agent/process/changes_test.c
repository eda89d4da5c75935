// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "agent/process/changes.h"
#include "base/alloc.h"
#include "base/fault.h"

#define PAGES 256

/* Against the version of each page: what changed later than a version is in doubt by it, always; and while there are few
 * changes, nothing else. */
static void test_nothing_that_changed_is_trusted(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 50; seed++) {
		struct mapping_changes *changes = NULL;
		uint32_t versions[PAGES] = {0}, version = 0;
		srand(seed);
		for (unsigned i = 0; i < 200; i++) {
			unsigned start = (unsigned)rand() % PAGES, end = start + 1 + (unsigned)rand() % 4;
			end = end > PAGES ? PAGES : end;
			assert_int_equal(mapping_changes_add(&changes, start, end, ++version, 0), 0);
			assert_true(changes->count <= MAPPING_CHANGES_MAX);
			for (unsigned page = start; page < end; page++)
				versions[page] = version;
			for (unsigned page = 0; page < PAGES; page++) {
				uint32_t by = (uint32_t)rand() % (version + 1);
				if (versions[page] > by)
					assert_true(mapping_changes_since(changes, by, page));
				assert_false(mapping_changes_since(changes, version, page));
			}
		}
		mapping_changes_unref(changes);
	}
}

static void test_few_changes_are_exact(void **state)
{
	struct mapping_changes *changes = NULL;
	(void)state;

	assert_false(mapping_changes_since(NULL, 0, 5));
	assert_int_equal(mapping_changes_add(&changes, 10, 20, 1, 0), 0);
	assert_int_equal(mapping_changes_add(&changes, 40, 50, 2, 0), 0);
	assert_false(mapping_changes_since(changes, 0, 9));
	assert_true(mapping_changes_since(changes, 0, 10));
	assert_true(mapping_changes_since(changes, 0, 19));
	assert_false(mapping_changes_since(changes, 0, 20));
	assert_false(mapping_changes_since(changes, 1, 15));
	assert_true(mapping_changes_since(changes, 1, 45));
	/* The counter of versions wraps around. */
	struct mapping_changes *late = NULL;
	assert_int_equal(mapping_changes_add(&late, 10, 20, 2, 0), 0);
	assert_true(mapping_changes_since(late, UINT32_MAX - 2, 15));
	assert_false(mapping_changes_since(late, 3, 15));
	mapping_changes_unref(late);
	mapping_changes_unref(changes);
}

/* Room is made by forgetting what no walk can need any more, before ranges are joined. */
static void test_settled_changes_make_room(void **state)
{
	struct mapping_changes *changes = NULL;
	(void)state;

	for (uint32_t i = 0; i < 10 * MAPPING_CHANGES_MAX; i++)
		assert_int_equal(mapping_changes_add(&changes, i * 100, i * 100 + 10, i + 1, i > 8 ? i - 8 : 0), 0);
	uint32_t last = 10 * MAPPING_CHANGES_MAX;
	assert_true(mapping_changes_since(changes, last - 1, (last - 1) * 100ull));
	assert_false(mapping_changes_since(changes, last - 1, (last - 1) * 100ull - 50));
	assert_false(mapping_changes_since(changes, last - 3, (last - 2) * 100ull + 50));
	mapping_changes_unref(changes);
}

static void test_shared_ones_are_copied(void **state)
{
	struct mapping_changes *parent = NULL, *child;
	(void)state;

	assert_int_equal(mapping_changes_add(&parent, 10, 20, 1, 0), 0);
	child = mapping_changes_ref(parent);
	assert_ptr_equal(child, parent);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(mapping_changes_add(&child, 30, 40, 2, 0), -ENOMEM);
	fault_disarm(FAULT_ALLOC);
	assert_ptr_equal(child, parent);
	assert_int_equal(mapping_changes_add(&child, 30, 40, 2, 0), 0);
	assert_true(mapping_changes_since(child, 0, 35));
	assert_true(mapping_changes_since(child, 0, 15));
	assert_false(mapping_changes_since(parent, 0, 35));
	mapping_changes_unref(parent);
	mapping_changes_unref(child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_that_changed_is_trusted),
		cmocka_unit_test(test_few_changes_are_exact),
		cmocka_unit_test(test_settled_changes_make_room),
		cmocka_unit_test(test_shared_ones_are_copied),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
