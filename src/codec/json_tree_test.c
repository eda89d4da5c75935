/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/test_faults.h"
#include "codec/json.h"
#include "codec/json_tree.h"

static int read_text(const char *text, struct json_tree **ret, struct error *err)
{
	return json_tree_read(bytes_of_string(text), 0, ret, err);
}

static void test_values(void **state)
{
	struct json_tree *tree;
	int64_t n;
	double d;
	assert_int_equal(read_text(" {\"a\": [1, -2, 2.5, 1e3, 9223372036854775807, 9223372036854775808, \"12\", \"x\"],\n"
				   "  \"b\": {\"c\": null, \"d\": true, \"\": \"\\u20ac\\\"\\u0000z\"}, \"b2\": [], \"a2\": "
				   "{}, \"e\": 1, \"e\": 2}",
				   &tree, NULL),
			 0);
	const struct json_node *root = json_tree_root(tree), *a = json_node_get(root, "a"), *b = json_node_get(root, "b");
	assert_int_equal(json_node_count(root), 6);
	assert_int_equal(json_node_count(a), 8);
	static const int64_t whole[] = {1, -2, 0, 1000, INT64_MAX, 0, 12, 0};
	static const bool is_whole[] = {true, true, false, true, true, false, true, false};
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(json_node_integer(json_node_at(a, i), &n), is_whole[i]);
		if (is_whole[i])
			assert_true(n == whole[i]);
	}
	assert_true(json_node_real(json_node_at(a, 2), &d) && d == 2.5);
	assert_true(json_node_real(json_node_at(a, 5), &d) && d == 9223372036854775808.0);
	assert_true(json_node_real(json_node_at(a, 1), &d) && d == -2);
	assert_false(json_node_real(json_node_at(a, 6), &d));
	assert_null(json_node_at(a, 8));
	assert_true(json_node_is(json_node_get(b, "c"), JSON_NODE_NULL));
	assert_true(json_node_get(b, "d")->boolean);
	struct bytes text = json_node_bytes(json_node_get(b, ""));
	assert_int_equal(text.len, 6);
	assert_memory_equal(text.data, "\xe2\x82\xac\"\0z", 7);
	assert_true(json_node_integer(json_node_get(root, "e"), &n) && n == 2);
	/* What is not there, and what is something else. */
	assert_null(json_node_get(json_node_get(json_node_get(root, "x"), "y"), "z"));
	assert_null(json_node_get(a, "a"));
	assert_null(json_node_at(b, 0));
	assert_null(json_node_text(a));
	assert_int_equal(json_node_bytes(a).len, 0);
	assert_int_equal(json_node_count(json_node_get(root, "b2")), 0);
	assert_int_equal(json_node_count(NULL), 0);
	assert_false(json_node_integer(NULL, &n) || json_node_integer(b, &n) || json_node_real(NULL, &d));
	json_tree_free(tree);
	assert_int_equal(read_text("7", &tree, NULL), 0);
	assert_true(json_node_integer(json_tree_root(tree), &n) && n == 7);
	json_tree_free(tree);
}

static void check_bad(const char *text, int expected, const char *why)
{
	struct error err = {0};
	struct json_tree *tree = NULL;
	assert_int_equal(read_text(text, &tree, &err), expected);
	assert_non_null(strstr(err.message, why));
	assert_null(tree);
}

static void test_malformed(void **state)
{
	static const char *const bad[] = {"",	 " ",	       "{",	"[1,2", "{\"a\"}", "[1 2]",  "{} {}", "[1,]", "nul",
					  "\"a", "[\"\xff\"]", "{1:2}", "'a'",	"01",	   "\"\t\"", "[1]]",  "+1"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		check_bad(bad[i], -EBADMSG, "not JSON near byte ");
	check_bad("[1e999]", -EBADMSG, "a number is out of range");
	check_bad("[1, 2, x]", -EBADMSG, "near byte 7");
	char digits[512];
	memset(digits, '9', sizeof(digits));
	digits[sizeof(digits) - 1] = '\0';
	check_bad(digits, -EBADMSG, "too many digits");
}

static void test_limits(void **state)
{
	char deep[2 * JSON_TREE_DEPTH_MAX + 3];
	struct json_tree *tree;
	struct error err = {0};
	memset(deep, '[', JSON_TREE_DEPTH_MAX);
	memset(deep + JSON_TREE_DEPTH_MAX, ']', JSON_TREE_DEPTH_MAX);
	deep[2 * JSON_TREE_DEPTH_MAX] = '\0';
	assert_int_equal(read_text(deep, &tree, NULL), 0);
	json_tree_free(tree);
	memset(deep, '[', JSON_TREE_DEPTH_MAX + 1);
	check_bad(deep, -E2BIG, "512 deep");
	/* The shortest values there are. */
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	for (unsigned i = 0; i < 100000; i++)
		buffer_append_string(&text, i ? ",1" : "[1");
	buffer_append_string(&text, "]");
	assert_int_equal(json_tree_read(buffer_bytes(&text), 1000000, &tree, &err), -E2BIG);
	assert_non_null(strstr(err.message, "memory limit"));
	assert_int_equal(json_tree_read(buffer_bytes(&text), 0, &tree, &err), 0);
	assert_int_equal(json_node_count(json_tree_root(tree)), 100000);
	json_tree_free(tree);
	buffer_release(&text);
}

static int read_a_tree(void *context)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	return read_text("{\"a\": [1, \"b\", {\"c\": [2, 3]}]}", &tree, NULL);
}

static void test_no_memory(void **state)
{
	assert_true(test_each_allocation(read_a_tree, NULL) > 2);
}

static void test_looks(void **state)
{
	assert_int_equal(json_skip_spaces(bytes_of_string(" \t\r\n x"), 0), 5);
	assert_int_equal(json_skip_spaces(bytes_of_string("x "), 1), 2);
	assert_int_equal(json_skip_spaces((struct bytes){(const uint8_t *)"\0", 1}, 0), 0);
	assert_true(json_looks_like_object(bytes_of_string(" {")));
	assert_false(json_looks_like_object(bytes_of_string(" [{")) || json_looks_like_object(bytes_of_string(" ")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values), cmocka_unit_test(test_malformed), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_looks),  cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
