/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/test_faults.h"
#include "codec/protobuf.h"
#include "render/flamebearer.h"
#include "render/test_render.h"

static struct flame *flame_of(const char *const *stacks, const int64_t *values, size_t count, size_t nodes_max)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	struct flame *flame = NULL;
	for (size_t i = 0; i < count; i++)
		test_add_stack(profile, stacks[i], values[i]);
	assert_int_equal(flame_build_by_name(profile, 0, nodes_max, &flame, NULL), 0);
	return flame;
}

static void assert_json(const struct flamebearer *flamebearer, const char *expected)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, SIZE_MAX);
	struct json_writer json = {.out = &out};
	json_begin_object(&json);
	flamebearer_write_json(flamebearer, &json);
	json_end_object(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_string_equal(buffer_string(&out), expected);
}

static const char *const stacks[] = {"main;a;x", "main;b", "main;a", "init", "main;a;w"};

static void test_levels(void **state)
{
	(void)state;
	_cleanup_(flame_freep) struct flame *flame = flame_of(stacks, (int64_t[]){10, 20, 5, 3, 2}, 5, 0);
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	assert_int_equal(flamebearer_of_flame(flame, &flamebearer, NULL), 0);
	/* Children by name, behind their parent's self; each begins where the one before it in its level ends. */
	assert_json(&flamebearer,
		    "{\"names\":[\"total\",\"init\",\"main\",\"a\",\"w\",\"x\",\"b\"],\"levels\":[[0,40,0,0],"
		    "[0,3,3,1,0,37,0,2],[3,17,5,3,0,20,20,6],[8,2,2,4,0,10,10,5]],\"numTicks\":40,\"maxSelf\":20}");
}

/* Two largest of main 37, b 20, a 17, x 10 ...: b is the smallest that is shown. */
static void test_what_is_small_is_other(void **state)
{
	(void)state;
	_cleanup_(flame_freep) struct flame *flame = flame_of(stacks, (int64_t[]){10, 20, 5, 3, 2}, 5, 2);
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	assert_int_equal(flamebearer_of_flame(flame, &flamebearer, NULL), 0);
	assert_json(&flamebearer, "{\"names\":[\"total\",\"main\",\"b\",\"other\"],\"levels\":[[0,40,0,0],"
				  "[0,37,0,1,0,3,3,3],[0,20,20,2,0,17,17,3]],\"numTicks\":40,\"maxSelf\":20}");
}

static void test_ties_are_shown(void **state)
{
	(void)state;
	static const char *const equal[] = {"a", "b", "c", "d"};
	_cleanup_(flame_freep) struct flame *flame = flame_of(equal, (int64_t[]){5, 5, 5, 1}, 4, 1);
	assert_int_equal(flame->count, 5); /* total, a, b, c, other */
	assert_int_equal(flame->trimmed, 1);
}

/* Names count alone, and negative values not at all. */
static void test_by_name(void **state)
{
	(void)state;
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	struct flame *flame = NULL;
	test_add_function_line(profile, "f", 1, 2, 10); /* of file.c */
	test_add_stack(profile, "f", 5);		/* of no file */
	test_add_stack(profile, "g", -7);
	assert_int_equal(flame_build_by_name(profile, 0, 0, &flame, NULL), 0);
	assert_int_equal(flame->count, 2);
	assert_int_equal(flame->total, 15);
	flame_free(flame);
}

static struct diff *make_diff(void)
{
	static const char *const before[] = {"main;a;x", "main;b", "main;t"};
	static const char *const after[] = {"main;a;x", "main;c", "main;a;y"};
	_cleanup_(flame_freep) struct flame *base = flame_of(before, (int64_t[]){10, 20, 2}, 3, 0);
	_cleanup_(flame_freep) struct flame *side = flame_of(after, (int64_t[]){30, 1, 4}, 3, 0);
	struct diff *diff = NULL;
	assert_int_equal(diff_build(base, side, &diff, NULL), 0);
	return diff;
}

static void test_comparison(void **state)
{
	(void)state;
	_cleanup_(diff_freep) struct diff *diff = make_diff();
	_cleanup_(flamebearer_release) struct flamebearer whole = {0}, part = {0};
	assert_int_equal(flamebearer_of_diff(diff, 0, &whole, NULL), 0);
	assert_json(&whole, "{\"names\":[\"total\",\"main\",\"a\",\"x\",\"y\",\"b\",\"c\",\"t\"],\"levels\":["
			    "[0,32,0,0,35,0,0],[0,32,0,0,35,0,1],"
			    "[0,10,0,0,34,0,2,0,20,20,0,0,0,5,0,0,0,0,1,1,6,0,2,2,0,0,0,7],"
			    "[0,10,10,0,30,30,3,0,0,0,0,4,4,4]],\"numTicks\":67,\"maxSelf\":30}");
	/* total 35, main 35, a 34, x 30, b 20, and the rest: y 4, t 2, c 1 */
	assert_int_equal(flamebearer_of_diff(diff, 5, &part, NULL), 0);
	assert_json(&part, "{\"names\":[\"total\",\"main\",\"a\",\"x\",\"other\",\"b\"],\"levels\":["
			   "[0,32,0,0,35,0,0],[0,32,0,0,35,0,1],"
			   "[0,10,0,0,34,0,2,0,20,20,0,0,0,5,0,2,2,0,1,1,4],"
			   "[0,10,10,0,30,30,3,0,0,0,0,4,4,4]],\"numTicks\":67,\"maxSelf\":30}");
	assert_int_equal(part.left_total, 32);
	assert_int_equal(part.right_total, 35);
}

static void test_empty(void **state)
{
	(void)state;
	_cleanup_(flame_freep) struct flame *flame = flame_of(NULL, NULL, 0, 0);
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	_cleanup_(buffer_release) struct buffer tree = {0};
	assert_int_equal(flamebearer_of_flame(flame, &flamebearer, NULL), 0);
	assert_json(&flamebearer, "{\"names\":[\"total\"],\"levels\":[[0,0,0,0]],\"numTicks\":0,\"maxSelf\":0}");
	buffer_init(&tree, SIZE_MAX);
	assert_int_equal(flamebearer_write_tree(flame, &tree, NULL), 0);
	assert_int_equal(tree.len, 0);
}

static void test_bytes(void **state)
{
	(void)state;
	_cleanup_(flame_freep) struct flame *flame = flame_of(stacks, (int64_t[]){200, 20, 5, 3, 2}, 5, 3);
	_cleanup_(buffer_release) struct buffer tree = {0};
	buffer_init(&tree, SIZE_MAX);
	assert_int_equal(flamebearer_write_tree(flame, &tree, NULL), 0);
	static const uint8_t expected[] = "\0\0\2"
					  "\4main\0\2"
					  "\1a\5\2"
					  "\1x\310\1\0"
					  "\5other\2\0"
					  "\5other\24\0"
					  "\5other\3\0";
	assert_int_equal(tree.len, sizeof(expected) - 1);
	assert_memory_equal(tree.data, expected, tree.len);
}

static void test_protobuf(void **state)
{
	(void)state;
	static const char *const bad[] = {"\xff"};
	_cleanup_(flame_freep) struct flame *flame = flame_of(bad, (int64_t[]){300}, 1, 0);
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(flamebearer_of_flame(flame, &flamebearer, NULL), 0);
	assert_int_equal(flamebearer_write_protobuf(&flamebearer, &out), 0);
	static const uint8_t expected[] = "\x0a\5total\x0a\3\xef\xbf\xbd"
					  "\x12\7\x0a\5\0\xac\2\0\0"
					  "\x12\x8\x0a\6\0\xac\2\xac\2\1"
					  "\x18\xac\2\x20\xac\2";
	assert_int_equal(out.len, sizeof(expected) - 1);
	assert_memory_equal(out.data, expected, out.len);
}

static int make_flamebearer(void *context)
{
	struct flamebearer flamebearer;
	int r = flamebearer_of_diff(context, 3, &flamebearer, NULL);
	flamebearer_release(&flamebearer);
	return r;
}

static void test_without_memory(void **state)
{
	(void)state;
	_cleanup_(diff_freep) struct diff *diff = make_diff();
	test_each_allocation(make_flamebearer, diff);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_levels),	       cmocka_unit_test(test_what_is_small_is_other),
		cmocka_unit_test(test_ties_are_shown), cmocka_unit_test(test_by_name),
		cmocka_unit_test(test_comparison),     cmocka_unit_test(test_empty),
		cmocka_unit_test(test_bytes),	       cmocka_unit_test(test_protobuf),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
