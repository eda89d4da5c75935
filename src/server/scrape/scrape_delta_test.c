/* SPDX-License-Identifier: Apache-2.0 */
/* Differences of counters between scrapes: what grew, what is new, restarts, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fault.h"
#include "server/scrape/scrape_int.h"

static struct scrape_delta before;
static atomic_size_t total_bytes;

struct row {
	unsigned stack; /* 1 to 26: functions 'a' to 'z' */
	int64_t allocated, in_use, size;
};

/* alloc_space and inuse_space, as Go has them. Functions are added from the last on for odd `order`, so that ids differ. */
static struct profile *make(const struct row *rows, size_t count, bool backwards)
{
	struct profile *profile;
	uint32_t type, other, unit, key;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_cstring(profile, "alloc_space", &type, NULL);
	profile_add_cstring(profile, "inuse_space", &other, NULL);
	profile_add_cstring(profile, "bytes", &unit, NULL);
	profile_add_cstring(profile, "size", &key, NULL);
	assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, other, unit, NULL), 0);
	for (size_t n = 0; n < count; n++) {
		const struct row *row = &rows[backwards ? count - 1 - n : n];
		char name[16];
		struct profile_function function = {0};
		struct profile_sample sample = {0};
		struct profile_label label = {.key = key, .number = row->size};
		uint32_t location;
		snprintf(name, sizeof(name), "f%u", row->stack);
		profile_add_cstring(profile, name, &function.name, NULL);
		struct profile_line line = {0};
		assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
		assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, location, &sample.stack, NULL), 0);
		if (row->size)
			assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		const int64_t values[] = {row->allocated, row->in_use};
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	assert_int_equal(profile_aggregate(profile, NULL), 0);
	return profile;
}

/* The sums of what is left, whether the program was restarted. */
static bool scrape(const struct row *rows, size_t count, bool backwards, int64_t *ret_allocated, int64_t *ret_in_use)
{
	struct profile *profile = make(rows, count, backwards);
	struct scrape_delta next;
	bool restarted;
	assert_int_equal(scrape_delta_apply(&before, profile, &total_bytes, &next, &restarted, NULL), 0);
	scrape_delta_release(&before, &total_bytes);
	before = next;
	*ret_allocated = profile_total(profile, 0);
	*ret_in_use = profile_total(profile, 1);
	for (size_t i = 0; i < profile->sample_count; i++)
		assert_true(profile->values[2 * i] || profile->values[2 * i + 1]);
	profile_free(profile);
	return restarted;
}
#define SCRAPE(backwards, allocated, in_use, expected, ...)                                                                    \
	do {                                                                                                                   \
		const struct row rows[] = {__VA_ARGS__};                                                                       \
		int64_t a, u;                                                                                                  \
		assert_int_equal(scrape(rows, sizeof(rows) / sizeof(*rows), backwards, &a, &u), expected);                     \
		assert_int_equal(a, allocated);                                                                                \
		assert_int_equal(u, in_use);                                                                                   \
	} while (0)

static int forget(void **state)
{
	scrape_delta_release(&before, &total_bytes);
	assert_int_equal(total_bytes, 0);
	return 0;
}

static void test_growth(void **state)
{
	SCRAPE(false, 0, 30, false, {1, 100, 10, 0}, {2, 200, 20, 0});
	SCRAPE(true, 0, 25, false, {1, 100, 5, 0}, {2, 200, 20, 0});
	SCRAPE(true, 60, 25, false, {1, 150, 5, 0}, {2, 200, 20, 0}, {3, 10, 0, 0});
	/* Equal stacks with other labels are others; the same stack of two rows is one. */
	SCRAPE(false, 7, 25, false, {1, 150, 5, 0}, {2, 200, 20, 0}, {3, 10, 0, 0}, {3, 4, 0, 16}, {3, 3, 0, 32});
	SCRAPE(true, 1, 25, false, {3, 5, 0, 16}, {2, 200, 20, 0}, {1, 150, 5, 0}, {3, 10, 0, 0}, {3, 3, 0, 32});
}

static void test_restarts(void **state)
{
	SCRAPE(false, 0, 0, false, {1, 100, 0, 0}, {2, 200, 0, 0});
	SCRAPE(false, 250, 0, true, {1, 50, 0, 0}, {2, 200, 0, 0});
	SCRAPE(false, 300, 0, true, {2, 300, 0, 0});
	SCRAPE(false, 1, 3, false, {2, 301, 3, 0});
	/* What is in use may shrink, and go. */
	SCRAPE(false, 0, 0, false, {2, 301, 0, 0});
}

static void test_limits(void **state)
{
	size_t count = SCRAPE_STACKS_MAX + 1;
	struct profile *profile;
	struct scrape_delta next;
	bool restarted;
	struct row *rows = calloc(count, sizeof(*rows));
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct row){(unsigned)i + 1, 1, 1, 0};
	profile = make(rows, count, false);
	assert_int_equal(scrape_delta_apply(&before, profile, &total_bytes, &next, &restarted, NULL), -E2BIG);
	profile_free(profile);
	profile = make(rows, 10, false);
	total_bytes = SCRAPE_STACKS_BYTES_MAX;
	assert_int_equal(scrape_delta_apply(&before, profile, &total_bytes, &next, &restarted, NULL), -E2BIG);
	assert_int_equal(total_bytes, SCRAPE_STACKS_BYTES_MAX);
	total_bytes = 0;
	profile_free(profile);
	/* Short of memory nothing is lost that was there. */
	int r = -ENOMEM;
	for (uint64_t n = 1; r == -ENOMEM && n < 100; n++) {
		profile = make(rows, 10, false);
		fault_arm(FAULT_ALLOC, n, 0);
		r = scrape_delta_apply(&before, profile, &total_bytes, &next, &restarted, NULL);
		fault_disarm(FAULT_ALLOC);
		profile_free(profile);
	}
	assert_int_equal(r, 0);
	scrape_delta_release(&next, &total_bytes);
	free(rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_growth, forget),
		cmocka_unit_test_teardown(test_restarts, forget),
		cmocka_unit_test_teardown(test_limits, forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
