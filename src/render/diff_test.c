/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "render/diff.h"
#include "render/test_render.h"

static struct flame *flame_of(const char *const *stacks, const int64_t *values, size_t count)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	struct flame *flame = NULL;
	for (size_t i = 0; i < count; i++)
		test_add_stack(profile, stacks[i], values[i]);
	assert_int_equal(flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &flame, NULL), 0);
	return flame;
}

static struct diff *make_diff(void)
{
	static const char *const before[] = {"main;a;x", "main;b", "main;a;main"};
	static const char *const after[] = {"main;a;x", "main;c", "main;a;y"};
	_cleanup_(flame_freep) struct flame *base = flame_of(before, (int64_t[]){10, 20, 5}, 3);
	_cleanup_(flame_freep) struct flame *side = flame_of(after, (int64_t[]){30, 1, 4}, 3);
	struct diff *diff = NULL;
	assert_int_equal(diff_build(base, side, &diff, NULL), 0);
	return diff;
}

static void test_nodes_of_both_sides(void **state)
{
	(void)state;
	_cleanup_(diff_freep) struct diff *diff = make_diff();
	static const struct {
		const char *name;
		uint32_t parent;
		int64_t base_total, base_self, total, self;
	} expected[] = {
		{"total", 0, 35, 0, 35, 0}, {"main", 0, 35, 0, 35, 0}, {"a", 1, 15, 0, 34, 0}, {"x", 2, 10, 10, 30, 30},
		{"main", 2, 5, 5, 0, 0},    {"y", 2, 0, 0, 4, 4},      {"b", 1, 20, 20, 0, 0}, {"c", 1, 0, 0, 1, 1},
	};
	assert_int_equal(diff->tree->count, 8);
	for (size_t i = 0; i < 8; i++) {
		const struct flame_node *node = &diff->tree->nodes[i];
		assert_string_equal(intern_string(&diff->tree->strings, node->name), expected[i].name);
		assert_int_equal(node->parent, expected[i].parent);
		assert_int_equal(diff->base[i].total, expected[i].base_total);
		assert_int_equal(diff->base[i].self, expected[i].base_self);
		assert_int_equal(node->total, expected[i].total);
		assert_int_equal(node->self, expected[i].self);
	}
}

static void test_table(void **state)
{
	(void)state;
	_cleanup_(diff_freep) struct diff *diff = make_diff();
	_cleanup_(diff_table_release) struct diff_table table = {0};
	assert_int_equal(diff_table_build(diff, false, &table, NULL), 0);
	assert_int_equal(table.count, 6);
	assert_string_equal(table.rows[0].now.name, "b"); /* -20, as x +20, which has the later name */
	assert_int_equal(table.rows[0].base_self, 20);
	assert_int_equal(table.rows[0].now.total, 0); /* gone */
	assert_string_equal(table.rows[1].now.name, "x");
	assert_string_equal(table.rows[2].now.name, "main"); /* recursion counts once a stack */
	assert_int_equal(table.rows[2].base_total, 35);
	assert_int_equal(table.rows[2].base_self, 5);
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(diff_table_write_text(&table, "nanoseconds", 2, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "of 35ns total"));
	assert_non_null(strstr(buffer_string(&out), "-20ns 57.14%"));
}

static struct flame *flame_of_namesakes(int64_t of_a, int64_t of_b)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	struct flame *flame = NULL;
	test_add_function_at(profile, "parse", "/src/a.c", 0, 0, of_a);
	test_add_function_at(profile, "parse", "/src/b.c", 0, 0, of_b);
	test_add_function_at(profile, "same", "/src/a.c", 0, 0, 5);
	assert_int_equal(flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &flame, NULL), 0);
	return flame;
}

/* Functions of one name and different files: a row each, or, for text, one row with their sum. */
static void test_table_by_name(void **state)
{
	(void)state;
	_cleanup_(flame_freep) struct flame *base = flame_of_namesakes(10, 20);
	_cleanup_(flame_freep) struct flame *side = flame_of_namesakes(25, 15);
	_cleanup_(diff_freep) struct diff *diff = NULL;
	assert_int_equal(diff_build(base, side, &diff, NULL), 0);
	for (int by_name = 0; by_name < 2; by_name++) {
		_cleanup_(diff_table_release) struct diff_table table = {0};
		int r = by_name ? diff_table_build_by_name(diff, false, &table, NULL)
				: diff_table_build(diff, false, &table, NULL);
		assert_int_equal(r, 0);
		assert_int_equal(table.count, by_name ? 2 : 3);
		assert_string_equal(table.rows[0].now.name, "parse");
		assert_int_equal(table.rows[0].base_self, by_name ? 30 : 10);
		assert_int_equal(table.rows[0].now.self, by_name ? 40 : 25);
		assert_int_equal(table.rows[0].now.total, by_name ? 40 : 25);
	}
}

/* Without a tree, the table is the same. */
static void test_table_of_types(void **state)
{
	(void)state;
	const struct test_shape shape = {.binaries = 3, .functions = 4, .addresses = 2, .samples = 60, .depth = 6, .types = 2};
	for (uint64_t seed = 1; seed <= 40; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		_cleanup_(diff_freep) struct diff *diff = NULL;
		assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
		assert_int_equal(diff_build_types(profile, 1, 0, 0, &diff, NULL), 0);
		for (unsigned i = 0; i < 4; i++) {
			bool by_name = i & 1, relative = i & 2;
			_cleanup_(diff_table_release) struct diff_table tree = {0};
			_cleanup_(diff_table_release) struct diff_table table = {0};
			int (*build)(const struct diff *, bool, struct diff_table *, struct error *) =
				by_name ? diff_table_build_by_name : diff_table_build;
			assert_int_equal(build(diff, relative, &tree, NULL), 0);
			assert_int_equal(diff_table_build_types(profile, 1, 0, relative, by_name, &table, NULL), 0);
			assert_int_equal(table.count, tree.count);
			assert_int_equal(table.total, tree.total);
			assert_int_equal(table.base_total, tree.base_total);
			for (size_t k = 0; k < table.count; k++) {
				const struct diff_row *a = &tree.rows[k], *b = &table.rows[k];
				assert_string_equal(b->now.name, a->now.name);
				assert_int_equal(b->now.self, a->now.self);
				assert_int_equal(b->now.total, a->now.total);
				assert_int_equal(b->base_self, a->base_self);
				assert_int_equal(b->base_total, a->base_total);
				assert_int_equal(b->now.line, a->now.line);
			}
		}
	}
}

/* Of two sides, one of which knows only lines of samples, the smaller line: that of the declaration. */
static void test_lines(void **state)
{
	(void)state;
	_cleanup_(profile_freep) struct profile *before = test_new_profile("cpu", "count");
	_cleanup_(profile_freep) struct profile *after = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *base = NULL;
	_cleanup_(flame_freep) struct flame *side = NULL;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(diff_table_release) struct diff_table table = {0};
	test_add_function_line(before, "f", 0, 33, 5);
	test_add_function_line(after, "f", 30, 31, 9);
	assert_int_equal(flame_build(before, 0, FLAME_UNNAMED_BY_ADDRESS, &base, NULL), 0);
	assert_int_equal(flame_build(after, 0, FLAME_UNNAMED_BY_ADDRESS, &side, NULL), 0);
	assert_int_equal(diff_build(base, side, &diff, NULL), 0);
	assert_int_equal(diff->tree->count, 2);
	assert_int_equal(diff->tree->nodes[1].line, 30);
	assert_int_equal(diff_table_build(diff, false, &table, NULL), 0);
	assert_int_equal(table.rows[0].now.line, 30);
}

static void test_relative(void **state)
{
	(void)state;
	static const char *const stacks[] = {"a", "b"};
	_cleanup_(flame_freep) struct flame *base = flame_of(stacks, (int64_t[]){10, 30}, 2);
	_cleanup_(flame_freep) struct flame *side = flame_of(stacks, (int64_t[]){200, 200}, 2);
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(diff_table_release) struct diff_table table = {0};
	assert_int_equal(diff_build(base, side, &diff, NULL), 0);
	assert_int_equal(diff_table_build(diff, true, &table, NULL), 0);
	assert_string_equal(table.rows[0].now.name, "a"); /* 25 % -> 50 % of 40 */
	assert_int_equal(diff_table_change(&table, table.rows[0].base_self, table.rows[0].now.self), 10);
	assert_int_equal(diff_table_change(&table, table.rows[1].base_self, table.rows[1].now.self), -10);
}

static void test_trim(void **state)
{
	(void)state;
	_cleanup_(diff_freep) struct diff *diff = make_diff();
	assert_int_equal(diff_trim(diff, 8, NULL), 0);
	assert_int_equal(diff->tree->count, 8); /* there are no more */
	assert_int_equal(diff_trim(diff, 5, NULL), 0);
	static const struct {
		const char *name;
		uint32_t parent;
		int64_t base_total, total;
	} expected[] = {{"total", 0, 35, 35},	  {"main", 0, 35, 35}, {"a", 1, 15, 34},	{"x", 2, 10, 30},
			{"(2 smaller)", 2, 5, 4}, {"b", 1, 20, 0},     {"(1 smaller)", 1, 0, 1}};
	assert_int_equal(diff->tree->count, 7);
	assert_int_equal(diff->tree->trimmed, 3);
	for (size_t i = 0; i < 7; i++) {
		const struct flame_node *node = &diff->tree->nodes[i];
		assert_string_equal(intern_string(&diff->tree->strings, node->name), expected[i].name);
		assert_int_equal(node->parent, expected[i].parent);
		assert_int_equal(diff->base[i].total, expected[i].base_total);
		assert_int_equal(node->total, expected[i].total);
	}
}

/* Both sides in one profile: the same as two trees laid over each other, whole or trimmed. */
static void test_types_of_one_profile(void **state)
{
	static const char *const before[] = {"main;a;x", "main;b", "main;a;main"};
	static const char *const after[] = {"main;a;x", "main;c", "main;a;y"};
	static const int64_t old[] = {10, 20, 5}, new[] = {30, 1, 4};
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("base", "nanoseconds");
	for (size_t i = 0; i < 3; i++)
		test_add_stack(profile, before[i], old[i]);
	for (size_t i = 0; i < 3; i++)
		test_add_stack(profile, after[i], new[i]);
	uint32_t type, unit;
	assert_int_equal(profile_add_cstring(profile, "cpu", &type, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "nanoseconds", &unit, NULL), 0);
	assert_int_equal(profile_append_sample_type(profile, type, unit, NULL), 0);
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(profile->values[i * 2 + 1], 0); /* of the type that came later */
	for (size_t i = 3; i < 6; i++) {
		profile->values[i * 2 + 1] = profile->values[i * 2];
		profile->values[i * 2] = 0;
	}
	assert_int_equal(profile_aggregate(profile, NULL), 0);
	for (size_t nodes_max = 0; nodes_max <= 5; nodes_max += 5) {
		_cleanup_(diff_freep) struct diff *want = make_diff();
		_cleanup_(diff_freep) struct diff *diff = NULL;
		assert_int_equal(diff_trim(want, nodes_max, NULL), 0);
		assert_int_equal(diff_build_types(profile, 0, 1, nodes_max, &diff, NULL), 0);
		assert_int_equal(diff->base_total, want->base_total);
		assert_int_equal(diff->tree->total, want->tree->total);
		assert_int_equal(diff->tree->sample_count, want->tree->sample_count);
		assert_int_equal(diff->tree->trimmed, want->tree->trimmed);
		assert_string_equal(diff->tree->type, "cpu");
		assert_int_equal(diff->tree->count, want->tree->count);
		for (size_t i = 0; i < want->tree->count; i++) {
			const struct flame_node *a = &diff->tree->nodes[i], *b = &want->tree->nodes[i];
			assert_string_equal(intern_string(&diff->tree->strings, a->name),
					    intern_string(&want->tree->strings, b->name));
			assert_int_equal(a->parent, b->parent);
			assert_int_equal(a->total, b->total);
			assert_int_equal(a->self, b->self);
			assert_int_equal(diff->base[i].total, want->base[i].total);
			assert_int_equal(diff->base[i].self, want->base[i].self);
		}
	}
}

static void test_empty_sides(void **state)
{
	(void)state;
	static const char *const stacks[] = {"a"};
	_cleanup_(flame_freep) struct flame *base = flame_of(NULL, NULL, 0);
	_cleanup_(flame_freep) struct flame *side = flame_of(stacks, (int64_t[]){7}, 1);
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(diff_table_release) struct diff_table table = {0};
	assert_int_equal(diff_build(base, side, &diff, NULL), 0);
	assert_int_equal(diff->tree->count, 2);
	assert_int_equal(diff_table_build(diff, true, &table, NULL), 0);
	assert_int_equal(diff_table_change(&table, table.rows[0].base_self, table.rows[0].now.self), 7);
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, SIZE_MAX);
	struct json_writer json = {.out = &out};
	diff_write_json(diff, &json);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "\"base_total\":[0,0],\"base_self\":[0,0]"));
}

static int make_table(void *context)
{
	struct flame *const *sides = context;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(diff_table_release) struct diff_table table = {0};
	int r = diff_build(sides[0], sides[1], &diff, NULL);
	if (!r)
		r = diff_trim(diff, 2, NULL);
	return r < 0 ? r : diff_table_build(diff, false, &table, NULL);
}

static void test_out_of_memory(void **state)
{
	(void)state;
	static const char *const stacks[] = {"a;b", "c"};
	_cleanup_(flame_freep) struct flame *base = flame_of(stacks, (int64_t[]){1, 2}, 2);
	_cleanup_(flame_freep) struct flame *side = flame_of(stacks, (int64_t[]){3, 4}, 1);
	assert_true(test_each_allocation(make_table, (struct flame *[]){base, side}) > 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nodes_of_both_sides),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_table_by_name),
		cmocka_unit_test(test_table_of_types),
		cmocka_unit_test(test_relative),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_empty_sides),
		cmocka_unit_test(test_trim),
		cmocka_unit_test(test_types_of_one_profile),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
