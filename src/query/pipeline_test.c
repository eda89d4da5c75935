/* SPDX-License-Identifier: Apache-2.0 */
/* The query language: what is accepted and how it is written back, what is refused and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "query/pipeline_int.h"

static void format(const char *text, struct buffer *out)
{
	struct error err = {0};
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	if (pipeline_parse(text, &pipeline, &err) < 0)
		fail_msg("'%s' was refused: %s", text, err.message);
	buffer_init(out, SIZE_MAX);
	assert_int_equal(pipeline_format(pipeline, out), 0);
}

/* Every accepted text, and its canonical form; that form is its own. */
static const char *const accepted[][2] = {
	{"", "{}"},
	{"{}", "{}"},
	{"process_cpu", "process_cpu"},
	{" process_cpu { } ", "process_cpu"},
	{":cpu", "*:cpu"},
	{"*", "*"},
	{"process_cpu{a=\"b\",c=~\"d\" ,}", "process_cpu{a=\"b\", c=~\"d\"}"},
	{"shop.api.cpu{region=\"eu\"}", "process_cpu:cpu{service_name=\"shop.api\", region=\"eu\"}"},
	{"shop.inuse_objects", "memory:inuse_objects{service_name=\"shop\"}"},
	{"app.wall{}", "wall{service_name=\"app\"}"},
	{"app.cpu{host.name=\"a\", x-y!~\"b\"}", "process_cpu:cpu{service_name=\"app\", host_name=\"a\", x_y!~\"b\"}"},
	{"app.unknown{a=\"b\"}", "app.unknown{a=\"b\"}"},
	{"c|where a=\"b\"", "c | where a=\"b\""},
	{"c | where a=\"b\", c!=\"d\" | where e=~\"f\"", "c | where a=\"b\", c!=\"d\" | where e=~\"f\""},
	{"c | frames \"x\"", "c | frames function =~ \"x\""},
	{"c | frames =~ \"x\"", "c | frames function =~ \"x\""},
	{"c | frames = \"x\"", "c | frames function = \"x\""},
	{"c | frames !~ \"x\"", "c | frames function !~ \"x\""},
	{"c | frames any function != \"x\"", "c | frames function != \"x\""},
	{"c | frames leaf binary=\"libc.so.6\"", "c | frames leaf binary = \"libc.so.6\""},
	{"c | frames root file =~ \"\\.go$\"", "c | frames root file =~ \"\\\\.go$\""},
	{"c | drop frames leaf kernel", "c | drop frames leaf kernel"},
	{"c | frames user and function = \"f\" and line 12", "c | frames user and function = \"f\" and line = \"12\""},
	{"c | frames line = 12", "c | frames line = \"12\""},
	{"c | frames line =~ \"1.\"", "c | frames line =~ \"1.\""},
	{"c | frames build_id = \"abc\" and address = \"0x12\"", "c | frames build_id = \"abc\" and address = \"0x12\""},
	{"c | focus \"main\"", "c | focus function =~ \"main\""},
	{"c | hide binary \"libc\" | focus = \"x\"", "c | hide binary =~ \"libc\" | focus function = \"x\""},
	{"c | hide interpreter | hide function \"interpreter\"", "c | hide interpreter | hide function =~ \"interpreter\""},
	{"c | callers of \"malloc\"", "c | callers of function = \"malloc\""},
	{"c | callees of =~ \"^m\"", "c | callees of function =~ \"^m\""},
	{"c | collapse recursion", "c | collapse recursion"},
	{"c | collapse binary", "c | collapse binary"},
	{"c | collapse binary \"libc\"", "c | collapse binary =~ \"libc\""},
	{"c | collapse file|collapse package", "c | collapse file | collapse package"},
	{"c | collapse \"^std::\"", "c | collapse function =~ \"^std::\""},
	{"c | group by a", "c | group by a"},
	{"c | group by a,b , c.d", "c | group by a, b, c_d"},
	{"c | bin 1m", "c | bin 1m"},
	{"c | bin 60s | rate", "c | bin 1m | rate"},
	{"c | bin 90s", "c | bin 90s"},
	{"c | bin 1.5h", "c | bin 90m"},
	{"c | bin auto | group by a | top 5 others", "c | bin auto | group by a | top 5 others"},
	{"c | bin 250ms | limit 3", "c | bin 250ms | limit 3"},
	{"c | bin 1m | count", "c | bin 1m | count"},
	{"c | top 10", "c | top 10"},
	{"c | top 10 self", "c | top 10 self"},
	{"c | top 10 total by function", "c | top 10 total by function"},
	{"c | top 3 by binary | sort by total desc | limit 2", "c | top 3 by binary | sort by \"total\" desc | limit 2"},
	{"c | top 3 by line", "c | top 3 by line"},
	{"c | top 3 by package", "c | top 3 by package"},
	{"c | top 3 by label pod others", "c | top 3 by label pod others"},
	{"c | rate | top 3", "c | rate | top 3"},
	{"c | group by a | top 2", "c | group by a | top 2"},
	{"c | sum", "c | sum"},
	{"c | group by a | bin 1m | sum | sort by \"value\" asc", "c | group by a | bin 1m | sum | sort by \"value\" asc"},
	{"c | count", "c | count"},
	{"c | top 3 | count", "c | top 3 | count"},
	{"c | diff (shift 1d)", "c | diff (shift 1d)"},
	{"c | diff ({v=\"1\"})", "c | diff ({v=\"1\"})"},
	{"c | diff ( {v=\"1\"} shift 90m ) relative | top 5", "c | diff ({v=\"1\"} shift 90m) relative | top 5"},
	{"c | diff (from now-2h to now-1h)", "c | diff (from \"now-2h\" to \"now-1h\")"},
	{"c | diff (memory from \"2026-11-21 10:00\" to 2026-11-22)",
	 "c | diff (memory from \"2026-11-21 10:00\" to \"2026-11-22\")"},
	{"c | hide \"x\" | diff (shift 1h) | collapse recursion | sum",
	 "c | hide function =~ \"x\" | diff (shift 1h) | collapse recursion | sum"},
	{"c | compare label pod", "c | compare label pod top 5"},
	{"c | compare pod top 3", "c | compare label pod top 3"},
	{"c | bin 1m | join process_stats on a, b", "c | bin 1m | join process_stats on a, b"},
	{"c | join process_stats on a | sort by cpu_ns desc", "c | join process_stats on a | sort by \"cpu_ns\" desc"},
	{"c | types", "c | types"},
	{"c | labels", "c | labels"},
	{"{} | values of a", "{} | values of a"},
	{"| values of a \"pre\" | limit 5", "{} | values of a \"pre\" | limit 5"},
	{"c\n|\n\twhere\ta = \"b\"\r\n", "c | where a=\"b\""},
	{"c{a=\"\\\"\\\\\\n\\t\\d\"}", "c{a=\"\\\"\\\\\\n\\t\\\\d\"}"},
};

static void test_accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++) {
		_cleanup_(buffer_release) struct buffer once = {0};
		_cleanup_(buffer_release) struct buffer twice = {0};
		format(accepted[i][0], &once);
		assert_string_equal(buffer_string(&once), accepted[i][1]);
		format(buffer_string(&once), &twice);
		assert_string_equal(buffer_string(&twice), accepted[i][1]);
	}
}

/* What is made of stacks is shown without the internals of interpreters. */
static void test_hiding(void **state)
{
	static const char *const cases[][2] = {
		{"c", "c | hide interpreter"},
		{"c | top 3", "c | hide interpreter | top 3"},
		{"c | where a=\"b\" | frames = \"f\" | group by a | rate | top 3 by binary | limit 2",
		 "c | where a=\"b\" | frames function = \"f\" | group by a | rate | hide interpreter | top 3 by binary | limit "
		 "2"},
		{"c | callers of \"f\" | frames \"g\"",
		 "c | hide interpreter | callers of function = \"f\" | frames function =~ \"g\""},
		{"c | diff (shift 1d) | top 3", "c | hide interpreter | diff (shift 1d) | top 3"},
		{"c | compare label a top 2", "c | hide interpreter | compare label a top 2"},
		{"c | hide \"f\" | hide interpreter", "c | hide function =~ \"f\" | hide interpreter"},
		{"c | top 3 by label a", "c | top 3 by label a"},
		{"c | frames \"f\" | sum", "c | frames function =~ \"f\" | sum"},
		{"c | bin 1m | top 3", "c | bin 1m | top 3"},
		{"c | types", "c | types"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
		_cleanup_(pipeline_freep) struct pipeline *hiding = NULL;
		_cleanup_(buffer_release) struct buffer text = {.max = 4096};
		assert_int_equal(pipeline_parse(cases[i][0], &pipeline, NULL), 0);
		assert_int_equal(pipeline_format_hiding(pipeline, &text), 0);
		assert_string_equal(buffer_string(&text), cases[i][1]);
		assert_int_equal(pipeline_parse(buffer_string(&text), &hiding, NULL), 0);
	}
}

static const char *const refused[][2] = {
	{"c |", "expected a stage (where"},
	{"c | ", "at the end, column 5"},
	{"c | nothing", "expected a stage (where, frames"},
	{"c || sum", "at column 4 near '| sum'"},
	{"c sum", "expected '{', '|' or the end at column 3 near 'sum'"},
	{"c{a=\"b\"", "query: expected ',' or '}'"},
	{"c | sum sum", "expected '|' or the end at column 9"},
	{"c | where", "a label name"},
	{"c | where a", "one of = != =~ !~"},
	{"c | where a=~\"(\"", "bad regular expression for a"},
	{"c | frames", "a field, an operator or a value in double quotes at the end"},
	{"c | frames leaf", "a field, an operator"},
	{"c | frames function", "a field, an operator"},
	{"c | frames =~ x", "a value in double quotes at column 15 near 'x'"},
	{"c | frames =~ \"(\"", "bad regular expression for function"},
	{"c | top 0", "expected a number from 1 to 1000000 at column 9 near '0'"},
	{"c | compare label a top 0", "expected a number from 1 to 50 at column 25 near '0'"},
	{"c | frames line", "a value in double quotes"},
	{"c | frames line 99999999999", "a line number"},
	{"c | frames \"a\" and !~ \"b\"", "!~ cannot be joined with 'and'"},
	{"c | drop \"x\"", "'frames'"},
	{"c | drop hide \"x\"", "'frames' at column 10"},
	{"c | focus !~ \"x\"", "only = and =~ can select frames"},
	{"c | callers \"f\"", "'of' at column 13"},
	{"c | group a", "'by'"},
	{"c | group by a, a", "the label is given twice, at column 17"},
	{"c | group by a | group by b", "a second 'group by'"},
	{"c | bin", "a duration of at least 1ms"},
	{"c | bin 1us", "a duration of at least 1ms"},
	{"c | bin x", "a duration of at least 1ms such as 1m, or 'auto' at column 9 near 'x'"},
	{"c | top", "a number from 1 to 1000000"},
	{"c | top 0", "a number from 1 to 1000000"},
	{"c | top 9999999", "a number from 1 to 1000000"},
	{"c | top 5x", "a number from 1"},
	{"c | top 5 by", "one of function, file, binary, line, package, label"},
	{"c | top 5 by label", "a label name"},
	{"c | top 5 others", "'others' is for values over time"},
	{"c | top 5 self by label x", "no self and total"},
	{"c | diff", "'('"},
	{"c | diff ()", "a selector, 'shift' or 'from'"},
	{"c | diff (shift 1d", "')'"},
	{"c | diff (from now-1h)", "'to'"},
	{"c | diff (from x to y)", "a time such as now-1d"},
	{"c | diff (shift 1d) | diff (shift 1d)", "'diff' cannot follow 'diff', which makes a difference"},
	{"c | compare", "a label name"},
	{"c | compare label x top 51", "a number from 1 to 50"},
	{"c | join x", "'process_stats'"},
	{"c | join process_stats by a", "'on'"},
	{"c | group by a | join process_stats on b", "'join' groups by its own labels"},
	{"c | sort by x", "'sort' cannot work on a selection"},
	{"c | limit 5", "'limit' cannot work on a selection: it works on tables"},
	{"c | bin 1m | focus \"x\"", "'focus' cannot follow 'bin', which makes values over time"},
	{"c | focus \"x\" | bin 1m", "'bin' cannot follow 'focus', which makes a flame graph"},
	{"c | bin 1m | bin 2m", "'bin' cannot follow 'bin'"},
	{"c | top 5 | where a=\"b\"", "'where' cannot follow 'top', which makes a table: no labels are left"},
	{"c | top 5 | rate", "'rate' cannot follow 'top', which makes a table: put it before"},
	{"c | top 5 | top 3", "'top' cannot follow 'top', which makes a table: use 'sort by' and 'limit'"},
	{"c | rate", "'rate' needs values over time or a table"},
	{"c | rate | rate | sum", "a second 'rate', at column 12"},
	{"c | rate | compare a", "'rate' needs values over time"},
	{"c | bin 1m | top 5 by binary", "after 'bin', write 'top N'"},
	{"c | bin 1m | top 5 | group by a", "'group' must come before 'top' and 'limit'"},
	{"c | bin 1m | top 5 | top 3", "'top' must come before"},
	{"c | hide \"x\" | top 3 by label a", "'by label' aggregates a selection"},
	{"c | group by a | diff (shift 1h) | top 3", "the table of a difference cannot be grouped"},
	{"c{__span_id__=\"0123456789abcdef\"} | types", "have no spans"},
	{"c | where __trace_id__!=\"\" | count", "have no spans"},
	{"c{__span_id__=\"12\"}", "not an id of 16 hexadecimal digits"},
	{"c{__number__=\"bytes=1\"} | types", "have no numbers of samples"},
	{"c | where __number__!=\"\" | count", "have no numbers of samples"},
	{"c{__number__=\"bytes=\"}", "KEY=FROM:TO"},
	{"c | where __trace_id__=~\"a.*\"", "not an id of 32 hexadecimal digits"},
	{"c | frames \"x\" | values of a", "'values' reads the indexes"},
	{"c | group by a | count", "'count' of a selection reads the indexes"},
	{"c | group by a | compare b", "'compare' cannot follow 'group by'"},
	{"c | values a", "'of'"},
	{"c | compare a | top 3", "'top' cannot follow 'compare', which makes a comparison"},
	{"c{a=\"\x01\xff", "a closing double quote"},
};

static void test_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
		struct pipeline *pipeline = NULL;
		struct error err = {0};
		int r = pipeline_parse(refused[i][0], &pipeline, &err);
		if (!r)
			fail_msg("'%s' was accepted", refused[i][0]);
		assert_int_equal(r, -EINVAL);
		assert_null(pipeline);
		assert_int_equal(strncmp(err.message, "query: ", 7), 0);
		if (!strstr(err.message, refused[i][1]))
			fail_msg("'%s' gave '%s', which does not say '%s'", refused[i][0], err.message, refused[i][1]);
	}
}

/* What docs/query.md shows in its examples is accepted. */
static void test_examples_of_the_documentation(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer page = {0};
	if (io_read_file("docs/query.md", MIB, &page, NULL) < 0) {
		print_message("skipped: no docs/query.md here\n");
		skip();
	}
	size_t count = 0;
	for (char *at = strstr((char *)buffer_string(&page), "## Examples"); at && (at = strchr(at, '`')); count++) {
		char text[512], *end = strchr(++at, '`');
		size_t len = 0;
		for (; at < end && len + 1 < sizeof(text); at++)
			if (at[0] != '\\' || at[1] != '|') /* how tables write it */
				text[len++] = *at;
		text[len] = '\0';
		_cleanup_(buffer_release) struct buffer out = {0};
		format(text, &out);
		at = end + 1;
	}
	assert_true(count > 15);
}

static void repeat(struct buffer *out, const char *text, size_t count)
{
	buffer_init(out, SIZE_MAX);
	buffer_append_string(out, "c");
	for (size_t i = 0; i < count; i++)
		buffer_append_string(out, text);
}

/* A message quotes the text as far as it is printable, and no half characters. */
static void test_messages_are_printable(void **state)
{
	(void)state;
	struct pipeline *pipeline = NULL;
	struct error err = {0};
	assert_int_equal(
		pipeline_parse(
			"c | \x1b[31m\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac",
			&pipeline, &err),
		-EINVAL);
	assert_true(text_is_utf8(bytes_of_string(err.message)));
	assert_null(strchr(err.message, 0x1b));
}

static void test_limits(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t fits;
		const char *expected_message;
	} cases[] = {
		{" | where a=\"b\"", 64, "at most 64 stages"},
		{" | frames \"a\"", 16, "more than 16 conditions on frames"},
		{" ", LIMIT_SELECTOR_BYTES - 1, "longer than"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (size_t more = 0; more < 2; more++) {
			_cleanup_(buffer_release) struct buffer text = {0};
			_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
			struct error err = {0};
			repeat(&text, cases[i].text, cases[i].fits + more);
			int r = pipeline_parse(buffer_string(&text), &pipeline, &err);
			assert_int_equal(r, more ? -EINVAL : 0);
			if (more && !strstr(err.message, cases[i].expected_message))
				fail_msg("%s", err.message);
		}
	}
}

/* Where a stage stands decides whether the store does it. */
static void test_plan_pushes_down(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t where, frames, transforms, by;
		enum plan_output output;
	} cases[] = {
		{"c", 0, 0, 0, 0, PLAN_PROFILE},
		{"c | frames \"a\" | hide \"b\" | frames \"c\" | where a=\"b\" | group by a, b", 1, 1, 2, 2, PLAN_PROFILE},
		{"c | bin 1m | frames \"a\" | where a=\"b\" | group by a", 1, 1, 0, 1, PLAN_SERIES},
		{"c | frames \"a\" | callers of \"b\" | top 3", 0, 1, 1, 0, PLAN_TOP},
		{"c | group by a | top 3 by label b", 0, 0, 0, 1, PLAN_TOP_LABEL},
		{"c | diff (shift 1h) | frames \"a\"", 0, 1, 0, 0, PLAN_PROFILE},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
		struct query_plan plan;
		assert_int_equal(pipeline_parse(cases[i].text, &pipeline, NULL), 0);
		assert_int_equal(query_plan_make(pipeline, &plan, NULL), 0);
		assert_int_equal(plan.where_count, cases[i].where);
		assert_int_equal(plan.frames_count, cases[i].frames);
		assert_int_equal(plan.transform_count, cases[i].transforms);
		assert_int_equal(plan.by_count, cases[i].by);
		assert_int_equal(plan.output, cases[i].output);
		_cleanup_(buffer_release) struct buffer text = {0};
		buffer_init(&text, SIZE_MAX);
		assert_int_equal(query_plan_format(&plan, &text), 0);
		assert_non_null(strstr(buffer_string(&text), "read: "));
		query_plan_release(&plan);
	}
}

static void test_is_selector(void **state)
{
	(void)state;
	_cleanup_(pipeline_freep) struct pipeline *plain = NULL;
	_cleanup_(pipeline_freep) struct pipeline *staged = NULL;
	assert_int_equal(pipeline_parse("c{a=\"x | y\"}", &plain, NULL), 0);
	assert_int_equal(pipeline_parse("c | sum", &staged, NULL), 0);
	assert_true(pipeline_is_selector(plain));
	assert_false(pipeline_is_selector(staged));
}

static void test_out_of_memory(void **state)
{
	(void)state;
	static const char text[] =
		"a.cpu{c=\"d\"} | where e=~\"f\" | frames leaf binary \"x\" and line 1 | hide \"y\" | diff ({a=\"b\"} "
		"from now-1h to now) | top 3 by line | sort by self";
	for (uint64_t n = 1;; n++) {
		struct pipeline *pipeline = NULL;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = pipeline_parse(text, &pipeline, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		pipeline_free(pipeline);
		if (!reached) {
			assert_int_equal(r, 0);
			assert_true(n > 20);
			break;
		}
		assert_true(r == -ENOMEM || r == 0); /* names of frames are only a help */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_hiding),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_examples_of_the_documentation),
		cmocka_unit_test(test_messages_are_printable),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_plan_pushes_down),
		cmocka_unit_test(test_is_selector),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
