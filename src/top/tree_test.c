/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "base/test_fixture.h"
#include "top/test_top.h"
#include "top/tree.h"

struct fixture {
	struct profile *profile;
	struct top_data data;
	struct top_tree tree;
};
static const size_t fixture_bytes = sizeof(struct fixture);
static int fixture_init(struct fixture *f)
{
	f->profile = test_top_profile(test_samples, TEST_SAMPLES);
	return top_data_build(f->profile, &(struct top_choice){0}, &f->data, NULL);
}
static void fixture_release(struct fixture *f)
{
	top_tree_release(&f->tree);
	top_data_release(&f->data);
	profile_free(f->profile);
}

static void build(struct fixture *f, const struct top_tree_options *options)
{
	top_tree_release(&f->tree);
	assert_int_equal(top_tree_build(&f->data, options, &f->tree, NULL), 0);
}

static void expect(const struct fixture *f, size_t at, unsigned depth, const char *name, int64_t total, int64_t self)
{
	assert_true(at < f->tree.count);
	const struct top_tree_item *item = &f->tree.items[at];
	assert_string_equal(item->name, name);
	assert_int_equal(item->depth, depth);
	assert_int_equal(item->total, total * MS);
	assert_int_equal(item->self, self * MS);
}

static void test_everything(void **state)
{
	struct fixture *f = *state;
	build(f, &(struct top_tree_options){.depth_max = 100});
	assert_int_equal(f->tree.count, 11);
	expect(f, 0, 0, "all", 6850, 0);
	expect(f, 1, 1, "main", 3750, 0);
	expect(f, 2, 2, "parse", 3500, 500);
	expect(f, 3, 3, "scan", 2000, 2000);
	expect(f, 4, 3, "read", 1000, 1000);
	expect(f, 5, 2, "loop", 250, 250);
	expect(f, 6, 1, "start", 3000, 0);
	expect(f, 9, 4, "leaf", 3000, 3000);
	assert_false(f->tree.items[3].is_last);
	assert_true(f->tree.items[4].is_last);
	assert_int_equal(f->tree.items[4].parent, 2);
	assert_int_equal(f->tree.caller_count, 0);
	/* Items are below their callers, one beside the other. */
	for (size_t i = 1; i < f->tree.count; i++) {
		const struct top_tree_item *item = &f->tree.items[i], *parent = &f->tree.items[item->parent];
		assert_true(item->left >= parent->left && item->right <= parent->right + 1e-9 && item->left < item->right);
		for (size_t k = 1; k < i; k++)
			if (f->tree.items[k].depth == item->depth)
				assert_true(f->tree.items[k].right <= item->left + 1e-9);
	}
}

static void test_limits(void **state)
{
	struct fixture *f = *state;
	build(f, &(struct top_tree_options){.depth_max = 2});
	assert_int_equal(f->tree.count, 7);
	build(f, &(struct top_tree_options){.depth_max = 100, .least = 0.4});
	assert_int_equal(f->tree.count, 7); /* all, main, parse; start, work, work, leaf */
	expect(f, 2, 2, "parse", 3500, 500);
	assert_true(f->tree.items[2].is_last);
}

static void test_focus(void **state)
{
	struct fixture *f = *state;
	/* Called from two places, and by itself. */
	static const struct test_sample more[] = {{"other;parse;scan;parse", "shop", 10, 10, 700 * MS},
						  {"parse;scan", "shop", 10, 10, 300 * MS}};
	for (size_t i = 0; i < 2; i++)
		test_top_add(f->profile, &more[i]);
	top_data_release(&f->data);
	assert_int_equal(top_data_build(f->profile, &(struct top_choice){0}, &f->data, NULL), 0);
	build(f, &(struct top_tree_options){.depth_max = 100, .focus = {"parse", "program"}});
	expect(f, 0, 0, "parse", 4500, 500);
	expect(f, 1, 1, "scan", 3000, 2300);
	expect(f, 2, 2, "parse", 700, 700);
	expect(f, 3, 1, "read", 1000, 1000);
	assert_int_equal(f->tree.count, 4);
	assert_int_equal(f->tree.caller_count, 3);
	assert_string_equal(f->tree.callers[0].name, "main");
	assert_int_equal(f->tree.callers[0].total, 3500 * MS);
	assert_string_equal(f->tree.callers[1].name, "other");
	assert_string_equal(f->tree.callers[2].name, "");
	build(f, &(struct top_tree_options){.depth_max = 100, .focus = {"parse", "elsewhere"}});
	assert_int_equal(f->tree.count, 0);
}

/* A binary without symbols is one item, whatever calls what in it. */
static void test_unnamed(void **state)
{
	struct fixture *f = *state;
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_top_add(profile, &(struct test_sample){"main;[lib];[lib];[lib];leaf", "shop", 1, 1, 4 * MS});
	test_top_add(profile, &(struct test_sample){"main;[lib];[lib]", "shop", 1, 1, 3 * MS});
	test_top_add(profile, &(struct test_sample){"main;[lib];leaf", "shop", 1, 1, 2 * MS});
	test_top_add(profile, &(struct test_sample){"main;twice;twice", "shop", 1, 1, 1 * MS});
	top_data_release(&f->data);
	assert_int_equal(top_data_build(profile, &(struct top_choice){0}, &f->data, NULL), 0);
	build(f, &(struct top_tree_options){.depth_max = 100});
	assert_int_equal(f->tree.count, 6);
	expect(f, 2, 2, "[lib]", 9, 3);
	expect(f, 3, 3, "leaf", 6, 6);
	expect(f, 5, 3, "twice", 1, 1);
}

static int build_both(void *context)
{
	const struct fixture *f = context;
	_cleanup_(top_tree_release) struct top_tree tree = {0};
	int r = top_tree_build(&f->data, &(struct top_tree_options){.depth_max = 9}, &tree, NULL);
	top_tree_release(&tree);
	return r < 0 ? r
		     : top_tree_build(&f->data, &(struct top_tree_options){.depth_max = 9, .focus = {"main", "program"}}, &tree,
				      NULL);
}

static void test_memory(void **state)
{
	assert_true(test_each_allocation(build_both, *state) > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_everything), FIXTURE_TEST(test_limits), FIXTURE_TEST(test_focus),
		FIXTURE_TEST(test_unnamed),    FIXTURE_TEST(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
