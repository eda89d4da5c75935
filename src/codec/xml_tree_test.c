/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "codec/xml_tree.h"

static struct xml_tree *must_read(const char *text)
{
	struct xml_tree *tree;
	struct error err = {0};
	if (xml_tree_read(bytes_of_string(text), 1 << 20, &tree, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	return tree;
}

static void test_elements(void **state)
{
	_cleanup_(xml_tree_freep) struct xml_tree *tree =
		must_read("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
			  "<!-- <a> -->\n<r:Response xmlns:r=\"http://x/?a>b\" b='\">'>\n <set><item><id>i-1</id></item>"
			  "<item><id> a &lt;&amp;&#x41;&#66;&#8364;<!-- no -->z</id><e/><e2 a='/'/></item></set "
			  "><last><![CDATA[<&]]>!</last></r:Response>\n");
	const struct xml_node *root = xml_tree_root(tree), *item = xml_node_get(xml_node_get(root, "set"), "item");
	assert_string_equal(root->name, "Response");
	assert_string_equal(xml_node_text(item, "id"), "i-1");
	item = item->next;
	assert_string_equal(xml_node_text(item, "id"), " a <&AB\xe2\x82\xacz");
	assert_string_equal(xml_node_text(item, "e"), "");
	assert_non_null(xml_node_get(item, "e2"));
	assert_null(item->next);
	assert_string_equal(xml_node_text(root, "last"), "<&!");
	assert_string_equal(xml_node_text(root, "none"), "");
	assert_null(xml_node_get(NULL, "x"));
	assert_string_equal(xml_node_text(xml_node_get(root, "x"), "y"), "");
}

static void test_malformed(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"<a>",
		"<a></b>",
		"</a>",
		"<a/><b/>",
		"x<a/>",
		"<a/>x",
		"<a>&x;</a>",
		"<a>&#0;</a>",
		"<a>&#xd800;</a>",
		"<a>&#;x</a>",
		"<a>&lt</a>",
		"<a b=\"></a>",
		"<a <b/></a>",
		"<!DOCTYPE a><a/>",
		"<a><![CDATA[</a>",
		"<![CDATA[x]]><a/>",
		"<!-- <a/>",
		"<a>\xff</a>",
		"<a>&#99999999999999999999;</a>",
		"<>",
		"<a></a",
		"<a></ a>",
		"<?xml <a/>",
		"<a>&#xfffe;</a>",
		"<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct xml_tree *tree = NULL;
		struct error err = {0};
		int r = xml_tree_read(bytes_of_string(bad[i]), 1 << 20, &tree, &err);
		if (r != -EBADMSG || !err.message[0] || tree)
			fail_msg("%s: %d %s", bad[i], r, err.message);
	}
	struct xml_tree *tree = NULL;
	assert_int_equal(xml_tree_read((struct bytes){0}, 1 << 20, &tree, NULL), -EBADMSG);
	assert_int_equal(xml_tree_read((struct bytes){(const uint8_t *)"<a>\0</a>", 8}, 1 << 20, &tree, NULL), -EBADMSG);
}

static void test_limits(void **state)
{
	char deep[XML_TREE_DEPTH_MAX * 3 + 4] = "", wide[4001];
	struct xml_tree *tree = NULL;
	struct error err = {0};
	for (size_t i = 0; i <= XML_TREE_DEPTH_MAX; i++)
		memcpy(deep + 3 * i, "<a>", 3);
	assert_int_equal(xml_tree_read(bytes_of_string(deep), 1 << 20, &tree, &err), -E2BIG);
	for (size_t i = 0; i < 1000; i++)
		memcpy(wide + 4 * i, "<b/>", 4);
	memcpy(wide, "<a>    ", 7);
	memcpy(wide + 3996, "</a>", 5);
	assert_int_equal(xml_tree_read(bytes_of_string(wide), 4096, &tree, &err), -E2BIG);
	memcpy(wide, "<a>     ", 8);
	assert_int_equal(xml_tree_read(bytes_of_string(wide), 1 << 20, &tree, &err), 0);
	xml_tree_free(tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
