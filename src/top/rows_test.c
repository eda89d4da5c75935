/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "top/rows.h"
#include "top/test_top.h"

struct fixture {
	struct profile *profile;
	struct top_data data;
	struct top_rows rows;
};
static const size_t fixture_bytes = sizeof(struct fixture);
static int fixture_init(struct fixture *f)
{
	f->profile = test_top_profile(test_samples, TEST_SAMPLES);
	return top_data_build(f->profile, &(struct top_choice){0}, &f->data, NULL);
}
static void fixture_release(struct fixture *f)
{
	top_rows_release(&f->rows);
	top_data_release(&f->data);
	profile_free(f->profile);
}

static void build(struct fixture *f, enum top_table table)
{
	top_rows_release(&f->rows);
	assert_int_equal(top_rows_build(&f->data, table, &f->rows, NULL), 0);
}

static const struct top_row *row(const struct fixture *f, size_t at)
{
	assert_true(at < f->rows.shown_count);
	return &f->rows.items[f->rows.shown[at]];
}

static void expect(const struct fixture *f, size_t at, const char *name, int64_t self, int64_t total)
{
	assert_string_equal(row(f, at)->name, name);
	assert_int_equal(row(f, at)->self, self * MS);
	assert_int_equal(row(f, at)->total, total * MS);
}

static void test_functions(void **state)
{
	struct fixture *f = *state;
	build(f, TOP_FUNCTIONS);
	assert_int_equal(f->rows.shown_count, 9);
	expect(f, 0, "leaf", 3000, 3000);
	expect(f, 1, "scan", 2000, 2000);
	expect(f, 2, "read", 1000, 1000);
	expect(f, 3, "parse", 500, 3500);
	assert_int_equal(row(f, 2)->frame_type, PROFILE_FRAME_KERNEL);
	assert_int_equal(row(f, 2)->kernel, 1000 * MS);
	assert_string_equal(row(f, 2)->binary, "[kernel.kallsyms]");
	assert_string_equal(row(f, 0)->binary, "program");
	/* One that calls itself counts once a stack. */
	top_rows_arrange(&f->rows, &(struct top_arrangement){.order = TOP_BY_NAME, .filter = "work"});
	assert_int_equal(f->rows.shown_count, 1);
	expect(f, 0, "work", 0, 3000);
}

static void test_processes(void **state)
{
	struct fixture *f = *state;
	build(f, TOP_PROCESSES);
	assert_int_equal(f->rows.shown_count, 3);
	expect(f, 0, "shop", 6500, 6500);
	assert_string_equal(row(f, 0)->pid, "10");
	assert_string_equal(row(f, 0)->hottest, "leaf");
	assert_int_equal(row(f, 0)->kernel, 1000 * MS);
	expect(f, 1, "idle", 250, 250);
	expect(f, 2, "kworker", 100, 100);
	assert_int_equal(row(f, 2)->kernel, 100 * MS);
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	build(f, TOP_THREADS);
	assert_int_equal(f->rows.shown_count, 4);
	expect(f, 0, "shop", 3500, 3500);
	assert_string_equal(row(f, 0)->tid, "10");
	assert_string_equal(row(f, 0)->hottest, "scan");
	assert_string_equal(row(f, 1)->tid, "11");
	assert_string_equal(row(f, 1)->pid, "10");
	assert_string_equal(row(f, 1)->process, "shop");
}

static void test_binaries(void **state)
{
	struct fixture *f = *state;
	build(f, TOP_BINARIES);
	assert_int_equal(f->rows.shown_count, 2);
	expect(f, 0, "program", 5750, 6750);
	assert_string_equal(row(f, 0)->hottest, "leaf");
	expect(f, 1, "[kernel.kallsyms]", 1100, 1100);
}

static void test_orders(void **state)
{
	struct fixture *f = *state;
	build(f, TOP_PROCESSES);
	top_rows_arrange(&f->rows, &(struct top_arrangement){.order = TOP_BY_PID, .filter = ""});
	assert_string_equal(row(f, 0)->pid, "2");
	assert_string_equal(row(f, 1)->pid, "9"); /* by number: before 10 */
	assert_string_equal(row(f, 2)->pid, "10");
	top_rows_arrange(&f->rows, &(struct top_arrangement){.order = TOP_BY_NAME, .is_reversed = true, .filter = ""});
	assert_string_equal(row(f, 0)->name, "shop");
	assert_string_equal(row(f, 2)->name, "idle");
	top_rows_arrange(&f->rows, &(struct top_arrangement){.order = TOP_BY_SELF, .is_reversed = true, .filter = ""});
	assert_string_equal(row(f, 0)->name, "kworker");
	build(f, TOP_FUNCTIONS);
	top_rows_arrange(&f->rows, &(struct top_arrangement){.order = TOP_BY_TOTAL, .filter = ""});
	expect(f, 0, "main", 0, 3750);
	expect(f, 1, "parse", 500, 3500);
	top_rows_arrange(&f->rows,
			 &(struct top_arrangement){.order = TOP_BY_SELF, .filter = "", .binary = "[kernel.kallsyms]"});
	assert_int_equal(f->rows.shown_count, 2);
}

static void test_filter(void **state)
{
	struct fixture *f = *state;
	build(f, TOP_PROCESSES);
	const struct {
		const char *filter;
		size_t count;
	} cases[] = {{"", 3},	   {"SHOP", 1}, {"hop", 1},  {"shop|loop", 2}, {"nothing", 0},
		     {"|shop", 1}, {"10", 1},	{"leaf", 1}, {"|", 0},	       {"o", 3}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		top_rows_arrange(&f->rows, &(struct top_arrangement){.filter = cases[i].filter});
		assert_int_equal(f->rows.shown_count, cases[i].count);
	}
	assert_int_equal(top_rows_find(&f->rows, f->rows.items[0].id), 0);
	assert_int_equal(top_rows_find(&f->rows, 12345), f->rows.shown_count);
}

/* The same thing has the same id in other samples. */
static void test_ids(void **state)
{
	struct fixture *f = *state;
	_cleanup_(profile_freep) struct profile *other = test_top_profile(test_samples + 2, TEST_SAMPLES - 2);
	_cleanup_(top_data_release) struct top_data data = {0};
	_cleanup_(top_rows_release) struct top_rows rows = {0};
	assert_int_equal(top_data_build(other, &(struct top_choice){0}, &data, NULL), 0);
	for (enum top_table table = 0; table < TOP_TABLES; table++) {
		build(f, table);
		top_rows_release(&rows);
		assert_int_equal(top_rows_build(&data, table, &rows, NULL), 0);
		for (size_t i = 0; i < rows.count; i++) {
			size_t at = top_rows_find(&f->rows, rows.items[i].id);
			assert_string_equal(row(f, at)->name, rows.items[i].name);
		}
	}
}

static void test_choices(void **state)
{
	struct fixture *f = *state;
	top_data_release(&f->data);
	assert_int_equal(top_data_build(f->profile, &(struct top_choice){.hides_kernel = true}, &f->data, NULL), 0);
	build(f, TOP_FUNCTIONS);
	expect(f, 0, "leaf", 3000, 3000);
	top_rows_arrange(&f->rows, &(struct top_arrangement){.filter = "parse"});
	expect(f, 0, "parse", 1500, 3500); /* it called the kernel */
	top_rows_arrange(&f->rows, &(struct top_arrangement){.filter = "idle_thread|read"});
	assert_int_equal(f->rows.shown_count, 0);
	top_data_release(&f->data);
	assert_int_equal(top_data_build(f->profile, &(struct top_choice){.pid = "10", .tid = "11"}, &f->data, NULL), 0);
	build(f, TOP_PROCESSES);
	assert_int_equal(f->rows.shown_count, 1);
	expect(f, 0, "shop", 3000, 3000);
	int64_t total, kernel;
	top_count_cpu(f->profile, &total, &kernel);
	assert_int_equal(total, 6850 * MS);
	assert_int_equal(kernel, 1100 * MS);
}

static int build_all(void *context)
{
	_cleanup_(top_data_release) struct top_data data = {0};
	int r = top_data_build(context, &(struct top_choice){.hides_kernel = true}, &data, NULL);
	for (enum top_table table = 0; table < TOP_TABLES && r == 0; table++) {
		_cleanup_(top_rows_release) struct top_rows rows = {0};
		r = top_rows_build(&data, table, &rows, NULL);
	}
	return r;
}

static void test_memory(void **state)
{
	struct fixture *f = *state;
	assert_true(test_each_allocation(build_all, f->profile) > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_functions), FIXTURE_TEST(test_processes), FIXTURE_TEST(test_threads),
		FIXTURE_TEST(test_binaries),  FIXTURE_TEST(test_orders),    FIXTURE_TEST(test_filter),
		FIXTURE_TEST(test_ids),	      FIXTURE_TEST(test_choices),   FIXTURE_TEST(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
