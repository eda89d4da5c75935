/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/test_faults.h"
#include "profile/frame_match.h"

#define TEXT(literal)                                                                                                          \
	(struct bytes)                                                                                                         \
	{                                                                                                                      \
		(const uint8_t *)(literal), sizeof(literal) - 1                                                                \
	}

static const struct frame_line lines[] = {
	{.function = TEXT("inner"), .system_name = TEXT("_Zinner"), .file = TEXT("/src/lib/a.c"), .line = 7},
	{.function = TEXT("outer"), .file = TEXT("/src/b.c")},
};
static const struct frame named = {.binary = TEXT("/usr/bin/app"), .address = 0x1a2b, .lines = lines, .line_count = 2},
			  bare = {.binary = TEXT("/usr/lib/libx.so"), .build_id = TEXT("abcd"), .address = 0x20},
			  kernel = {.binary = TEXT("[kernel.kallsyms]"), .address = 0xff};

/* Names addresses below 0x100 of libx.so, by how many functions `context` says; fails if that is negative. */
static int name(void *context, const struct frame *frame, const struct frame_line **ret, size_t *ret_count)
{
	int count = *(int *)context;
	assert_int_equal(frame->line_count, 0);
	*ret = lines;
	*ret_count = count > 0 && frame->build_id.len ? (size_t)count : 0;
	return count < 0 ? count : 0;
}

static unsigned match(enum frame_field field, enum pattern_operator op, const char *text, const struct frame *frame)
{
	static int names = 0;
	const struct frame_symbols symbols = {name, &names};
	const struct frame_test test = {field, op, text};
	struct frame_matcher *matcher;
	struct error err = {0};
	if (frame_matcher_new(&test, 1, &symbols, &matcher, &err) < 0)
		fail_msg("%s", err.message);
	unsigned ret = frame_matcher_match(matcher, frame);
	assert_int_equal(frame_matcher_match(matcher, frame), ret); /* what is remembered is the same */
	assert_int_equal(frame_matcher_failure(matcher, NULL), 0);
	frame_matcher_free(matcher);
	return ret;
}

#define ALL (FRAME_MATCH_ANY | FRAME_MATCH_INNERMOST | FRAME_MATCH_OUTERMOST)

static void test_fields(void **state)
{
	assert_int_equal(match(FRAME_FIELD_FUNCTION, PATTERN_EQUAL, "inner", &named), FRAME_MATCH_ANY | FRAME_MATCH_INNERMOST);
	assert_int_equal(match(FRAME_FIELD_FUNCTION, PATTERN_EQUAL, "_Zinner", &named),
			 FRAME_MATCH_ANY | FRAME_MATCH_INNERMOST);
	assert_int_equal(match(FRAME_FIELD_FUNCTION, PATTERN_REGEX, "oute", &named), FRAME_MATCH_ANY | FRAME_MATCH_OUTERMOST);
	assert_int_equal(match(FRAME_FIELD_FUNCTION, PATTERN_EQUAL, "oute", &named), 0);
	assert_int_equal(match(FRAME_FIELD_FUNCTION, PATTERN_EQUAL, "libx.so+0x20", &bare), ALL);
	/* Files and binaries: also the last part of the path, for equality. */
	assert_int_equal(match(FRAME_FIELD_FILE, PATTERN_EQUAL, "a.c", &named), FRAME_MATCH_ANY | FRAME_MATCH_INNERMOST);
	assert_int_equal(match(FRAME_FIELD_FILE, PATTERN_REGEX, "^a.c", &named), 0);
	assert_int_equal(match(FRAME_FIELD_BINARY, PATTERN_EQUAL, "app", &named), ALL);
	assert_int_equal(match(FRAME_FIELD_BINARY, PATTERN_EQUAL, "/usr/bin/app", &named), ALL);
	assert_int_equal(match(FRAME_FIELD_BINARY, PATTERN_EQUAL, "bin/app", &named), 0);
	assert_int_equal(match(FRAME_FIELD_BUILD_ID, PATTERN_REGEX, "^ab", &bare), ALL);
	assert_int_equal(match(FRAME_FIELD_LINE, PATTERN_EQUAL, "7", &named), FRAME_MATCH_ANY | FRAME_MATCH_INNERMOST);
	assert_int_equal(match(FRAME_FIELD_LINE, PATTERN_EQUAL, "0", &named), 0); /* outer has none */
	assert_int_equal(match(FRAME_FIELD_ADDRESS, PATTERN_EQUAL, "0x1a2b", &named), ALL);
	assert_int_equal(match(FRAME_FIELD_KERNEL, PATTERN_EQUAL, NULL, &kernel), ALL);
	assert_int_equal(match(FRAME_FIELD_USER, PATTERN_EQUAL, NULL, &kernel), 0);
	assert_int_equal(match(FRAME_FIELD_USER, PATTERN_EQUAL, NULL, &named), ALL);
}

static void test_several_tests_are_of_one_function(void **state)
{
	const struct frame_test tests[] = {{FRAME_FIELD_FUNCTION, PATTERN_EQUAL, "inner"},
					   {FRAME_FIELD_FILE, PATTERN_EQUAL, "b.c"}};
	struct frame_matcher *matcher;
	assert_int_equal(frame_matcher_new(tests, 2, NULL, &matcher, NULL), 0);
	assert_int_equal(frame_matcher_match(matcher, &named), 0);
	frame_matcher_free(matcher);
	matcher = NULL;
	assert_int_equal(frame_matcher_new(tests, 0, NULL, &matcher, NULL), -EINVAL);
	const struct frame_test negative = {FRAME_FIELD_FUNCTION, PATTERN_NOT_EQUAL, "inner"};
	assert_int_equal(frame_matcher_new(&negative, 1, NULL, &matcher, NULL), -EINVAL);
	assert_null(matcher);
}

static void test_symbols(void **state)
{
	int names = 2;
	const struct frame_symbols symbols = {name, &names};
	const struct frame_test test = {FRAME_FIELD_FUNCTION, PATTERN_EQUAL, "inner"};
	struct frame_matcher *matcher;
	struct error err = {0};
	assert_int_equal(frame_matcher_new(&test, 1, &symbols, &matcher, NULL), 0);
	assert_int_equal(frame_matcher_match(matcher, &bare), ALL);
	assert_int_equal(frame_matcher_match(matcher, &kernel), 0);
	assert_int_equal(frame_matcher_failure(matcher, &err), 0);
	names = -EIO;
	assert_int_equal(frame_matcher_match(matcher, &bare), 0);
	assert_int_equal(frame_matcher_failure(matcher, &err), -EIO);
	frame_matcher_free(matcher);
}

static void test_paths(void **state)
{
	static const char *const functions[] = {"outer", "_Zinner", "libx.so+0x20"};
	int names = 0;
	const struct frame_symbols symbols = {name, &names};
	struct frame_path path = {.functions = functions, .count = 3, .symbols = &symbols, .text.max = SIZE_MAX};
	assert_int_equal(frame_path_follow(&path, &named, 0), 2);
	assert_int_equal(frame_path_follow(&path, &bare, 2), 3);
	assert_int_equal(frame_path_follow(&path, &bare, 0), FRAME_PATH_LOST);
	assert_int_equal(frame_path_follow(&path, &named, 1), FRAME_PATH_LOST);
	names = 2; /* the address has names now, so it is not called by its offset */
	assert_int_equal(frame_path_follow(&path, &bare, 2), FRAME_PATH_LOST);
	assert_int_equal(frame_path_follow(&path, &bare, 0), 2);
	assert_int_equal(frame_path_failure(&path, NULL), 0);
	names = -ENOMEM;
	assert_int_equal(frame_path_follow(&path, &bare, 0), FRAME_PATH_LOST);
	assert_int_equal(frame_path_failure(&path, NULL), -ENOMEM);
	buffer_release(&path.text);
}

static int compile_two(void *context)
{
	const struct frame_test tests[] = {{FRAME_FIELD_FUNCTION, PATTERN_REGEX, "a|b"},
					   {FRAME_FIELD_KERNEL, PATTERN_EQUAL, NULL}};
	struct frame_matcher *matcher = NULL;
	int r = frame_matcher_new(tests, 2, NULL, &matcher, NULL);
	frame_matcher_free(matcher);
	return r;
}

static void test_out_of_memory(void **state)
{
	assert_true(test_each_allocation(compile_two, NULL) > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fields),	      cmocka_unit_test(test_several_tests_are_of_one_function),
		cmocka_unit_test(test_symbols),	      cmocka_unit_test(test_paths),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
