/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that no file has. What lists look like otherwise is in tests/convert/report.test.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "render/report.h"

static bool finds(const void *context, struct bytes text)
{
	(void)context;
	return bytes_equal_string(text, "f");
}

static struct profile *make_profile(int64_t number)
{
	struct profile *profile;
	struct profile_function function = {0};
	struct profile_line line = {.line = number};
	struct profile_location location = {0};
	struct profile_sample sample = {0};
	uint32_t type, place;
	const int64_t value = 1;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "count", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "f", &function.name, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "Makefile", &function.file_name, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &place, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, place, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	return profile;
}

static void check_list(int64_t number, const char *has)
{
	static const struct profile_matcher matcher = {finds, NULL};
	struct report_options options = {
		.mode = REPORT_LIST, .divide_by = 1, .unit = "minimum", .symbol = &matcher, .symbol_text = "f"};
	struct profile *profile = make_profile(number);
	struct report report;
	struct buffer out;
	options.detail = (struct graph_detail){.functions = true, .files = true, .lines = true, .inlines = true};
	buffer_init(&out, MIB);
	assert_int_equal(report_begin(&report, profile, &options, NULL), 0);
	assert_int_equal(report_write(&report, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), has));
	report_release(&report);
	buffer_release(&out);
	profile_free(profile);
}

static void test_lines(void **state)
{
	(void)state;
	check_list(2, "         1          1      2:");
	check_list(INT64_MIN, "      5:");
	check_list(INT64_MIN + 5, "      5:");
	check_list(INT64_MAX, "ROUTINE");
}

/* The same as a page: no binary has the profile's code, so there are lines alone; names cannot be elements. */
static void test_weblist(void **state)
{
	static const struct profile_matcher matcher = {finds, NULL};
	struct report_options options = {
		.mode = REPORT_WEBLIST, .divide_by = 1, .unit = "minimum", .symbol = &matcher, .symbol_text = "f"};
	(void)state;
	options.detail = (struct graph_detail){.functions = true, .files = true, .lines = true, .inlines = true};
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct profile *profile = make_profile(2);
		struct report report;
		struct buffer out, notes;
		buffer_init(&out, MIB);
		buffer_init(&notes, KIB);
		options.notes = &notes;
		assert_int_equal(report_begin(&report, profile, &options, NULL), 0);
		char *title = report.title, evil[] = "<b>&\"";
		report.title = evil;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = report_write(&report, &out, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		/* A source file that there is no memory for is one that cannot be read. */
		assert_true(r == 0 || (reached && r == -ENOMEM));
		if (!reached) {
			const char *text = buffer_string(&out);
			assert_non_null(strstr(text, "<h1>&lt;b&gt;&amp;&quot;</h1>"));
			assert_non_null(strstr(text, "         1          1</span>      2:"));
			assert_null(strstr(text, "<script"));
			assert_non_null(strstr(buffer_string(&notes), "no instructions: "));
		}
		assert_null(report.code);
		report.title = title;
		report_release(&report);
		buffer_release(&out);
		buffer_release(&notes);
		profile_free(profile);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_lines), cmocka_unit_test(test_weblist)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
