/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "format/format.h"
#include "format/pyroscope.h"
#include "profile/test_labels.h"

/* What a body becomes, as folded stacks; "" when there are none. */
static void check(enum pyroscope_stacks form, const void *input, size_t len, const char *expected)
{
	struct profile *profile;
	struct error err = {0};
	struct buffer folded;
	if (pyroscope_decode_stacks(form, (struct bytes){input, len}, &profile, &err) < 0)
		fail_msg("%s", err.message);
	buffer_init(&folded, 64 * KIB);
	if (profile->sample_count)
		assert_int_equal(folded_encode(profile, NULL, &folded, NULL), 0);
	assert_string_equal(buffer_string(&folded), expected);
	buffer_release(&folded);
	profile_free(profile);
}
#define CHECK(form, input, expected) check(form, input, sizeof(input) - 1, expected)

static void check_refused(enum pyroscope_stacks form, const void *input, size_t len, int code, const char *expected_message)
{
	struct profile *profile = NULL;
	struct error err = {0};
	assert_int_equal(pyroscope_decode_stacks(form, (struct bytes){input, len}, &profile, &err), code);
	if (!strstr(err.message, expected_message))
		fail_msg("\"%s\" does not say \"%s\"", err.message, expected_message);
}
#define REFUSED(form, input, code, expected_message) check_refused(form, input, sizeof(input) - 1, code, expected_message)

static void test_text(void **state)
{
	(void)state;
	CHECK(PYROSCOPE_GROUPS, "main;a b 3\r\nmain;c 4\n\nnothing\n;main;;c 1", "main;a b 3\nmain;c 5\n");
	CHECK(PYROSCOPE_GROUPS, " 2\nmain 4\n", "[unknown] 2\nmain 4\n");
	CHECK(PYROSCOPE_LINES, "main;a 3\nmain;c\nmain;c\n\n", "main;a 3 1\nmain;c 2\n");
	CHECK(PYROSCOPE_GROUPS, "", "");
	REFUSED(PYROSCOPE_GROUPS, "a 1\nb x\n", -EBADMSG, "line 2");
	REFUSED(PYROSCOPE_GROUPS, "a -1\n", -EBADMSG, "line 1");
	REFUSED(PYROSCOPE_GROUPS, "a 1234567890123456789\n", -EBADMSG, "line 1");
}

static void test_trie(void **state)
{
	(void)state;
	/* Nodes: text, value, children. Keys end within names: "leaf" and "leaf2" share five letters' worth of nodes. */
	CHECK(PYROSCOPE_TRIE,
	      "\0\0\2"
	      "\5main;\0\2"
	      "\4leaf\5\1"
	      "\0012\1\0"
	      "\1x\2\0"
	      "\5other\4\0",
	      "main;leaf 5\nmain;leaf2 1\nmain;x 2\nother 4\n");
	/* A value where a name has just ended is the caller's. */
	CHECK(PYROSCOPE_TRIE,
	      "\0\0\1"
	      "\2a;\7\1"
	      "\1b\1\0",
	      "a 7\na;b 1\n");
	CHECK(PYROSCOPE_TRIE,
	      "\1a\1\0"
	      "\1b\2\0",
	      "a 1\nb 2\n");
	REFUSED(PYROSCOPE_TRIE, "\0\0\5\1", -EBADMSG, "5 children");
	REFUSED(PYROSCOPE_TRIE,
		"\0\0\1"
		"\1a",
		-EBADMSG, "truncated");
	REFUSED(PYROSCOPE_TRIE, "\5ab", -EBADMSG, "truncated");
	REFUSED(PYROSCOPE_TRIE, "\1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0", -EBADMSG, "too large");
}

static void test_tree(void **state)
{
	(void)state;
	CHECK(PYROSCOPE_TREE,
	      "\0\0\1"
	      "\4main\1\2"
	      "\1a\5\0"
	      "\3x;y\2\1"
	      "\1z\3\0",
	      "main 1\nmain;a 5\nmain;x:y 2\nmain;x:y;z 3\n");
	CHECK(PYROSCOPE_TREE, "\0\11\0", "");
}

/* A chain of nodes of one letter, each with a value: keys of all lengths, which must not be written out. */
static void test_hostile_trie(void **state)
{
	(void)state;
	struct buffer input;
	buffer_init(&input, MIB);
	for (int i = 0; i < 40000; i++)
		assert_int_equal(buffer_append(&input, "\1a\1\1", 4), 0);
	assert_int_equal(buffer_append(&input, "\1a\1\0", 4), 0);
	check_refused(PYROSCOPE_TRIE, input.data, input.len, -E2BIG, "names of frames");
	buffer_clear(&input);
	for (int i = 0; i < LIMIT_STACK_DEPTH + 1; i++)
		assert_int_equal(buffer_append(&input, "\2a;\0\1", 5), 0);
	assert_int_equal(buffer_append(&input, "\1a\1\0", 4), 0);
	check_refused(PYROSCOPE_TRIE, input.data, input.len, -E2BIG, "frames");
	buffer_release(&input);
}

/* Nodes of three bytes without a text, each in the one before: what is known of one takes ten times that. */
static void test_hostile_depth(void **state)
{
	(void)state;
	struct buffer input;
	buffer_init(&input, 4 * MIB);
	for (int i = 0; i < 1024 * 1024 + 1; i++)
		assert_int_equal(buffer_append(&input, "\0\0\1", 3), 0);
	assert_int_equal(buffer_append(&input, "\1a\1\0", 4), 0);
	check_refused(PYROSCOPE_TREE, input.data, input.len, -E2BIG, "nested more than");
	check_refused(PYROSCOPE_TRIE, input.data, input.len, -E2BIG, "nested more than");
	buffer_release(&input);
}

static void check_name(const char *text, const char *app, const char *expected)
{
	char got[PYROSCOPE_NAME_MAX];
	struct labels labels = {0};
	struct error err = {0};
	struct buffer formatted;
	buffer_init(&formatted, 64 * KIB);
	int r = pyroscope_parse_name(text, got, &labels, &err);
	if (!app) {
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(err.message, expected));
	} else {
		assert_int_equal(r, 0);
		assert_string_equal(got, app);
		assert_int_equal(test_labels_format(&labels, &formatted), 0);
		assert_string_equal(buffer_string(&formatted), expected);
	}
	buffer_release(&formatted);
	labels_release(&labels);
}

static void test_names(void **state)
{
	(void)state;
	check_name("app.cpu", "app.cpu", "{}");
	check_name(" app/x-y {}", "app/x-y", "{}");
	check_name("app{b=2, a.b = x y ,empty=,__private__=z}", "app", "{a_b=\"x y\", b=\"2\"}");
	check_name("app{a=1", "app", "{a=\"1\"}");
	check_name("app{a=1,a=2}rest", "app", "{a=\"2\"}");
	check_name("", NULL, "missing");
	check_name("{a=1}", NULL, "missing");
	check_name("a b", NULL, "other than letters");
	check_name("app{a b=1}", NULL, "label name");
	check_name("app{=1}", NULL, "label name");
	check_name("app{a}", NULL, "no value");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),	     cmocka_unit_test(test_trie),	   cmocka_unit_test(test_tree),
		cmocka_unit_test(test_hostile_trie), cmocka_unit_test(test_hostile_depth), cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
