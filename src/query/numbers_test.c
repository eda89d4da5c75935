/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on the numbers of samples: what they hold for, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "query/query_int.h"

static bool matches(enum pattern_operator op, const char *condition, const char *numbers)
{
	struct number_condition parsed;
	struct error err = {0};
	if (number_condition_parse(op, condition, &parsed, &err) < 0)
		fail_msg("%s", err.message);
	return number_condition_matches(&parsed, bytes_of_string(numbers));
}

static void test_conditions(void **state)
{
	static const struct {
		const char *condition, *numbers;
		bool matches;
	} cases[] = {
		/* Plain numbers */
		{"bytes=512", "bytes=512", true},
		{"bytes=512", "bytes=513", false},
		{"bytes=512", "request=512", false},
		{"bytes=512", "a=1,bytes=512 kilobytes,z=2", true},
		{"bytes=512:1024", "bytes=512", true},
		{"bytes=512:1024", "bytes=1024", true},
		{"bytes=512:1024", "bytes=1025", false},
		{"bytes=512:", "bytes=9223372036854775807", true},
		{"bytes=512:", "bytes=511", false},
		{"bytes=:512", "bytes=-9223372036854775808", true},
		{"bytes=:512", "bytes=513", false},
		{"bytes=-5:-1", "bytes=-3", true},
		{"bytes=-5:-1", "bytes=0", false},
		/* Any key, any number */
		{"512", "tier=512", true},
		{"512:", "tier=1,bytes=600", true},
		{"512:", "tier=1,bytes=500", false},
		{"bytes", "tier=1,bytes=0", true},
		{"bytes", "tier=1", false},
		/* Keys are as they were sent */
		{"a=b=7", "a\\=b=7", true},
		{"a,b=7", "a\\,b=7", true},
		{"a b", "a b=7", true},
		{"12:x", "12:x=7", true},
		/* None */
		{"", "", true},
		{"", "bytes=1", false},
		{"bytes=1", "", false},
		/* Units: of the number, or of the name of its key */
		{"bytes=4kb", "bytes=4096", true},
		{"bytes=4 kB", "bytes=4096", true},
		{"bytes=4kb:", "bytes=4095", false},
		{"bytes=1:64kb", "bytes=1024", true},
		{"bytes=1:64kb", "bytes=1023", false},
		{"bytes=1kb:64", "bytes=65536", true},
		{"bytes=1kb:64", "bytes=65537", false},
		{"bytes=1mb", "bytes=1024 kilobytes", true},
		{"request=1kb", "request=1024", true},
		{"alignment=1kb", "alignment=1024", true},
		{"size=1kb", "size=1024", false},
		{"size=1kb", "size=1024 bytes", true},
		{"latency=30ms", "latency=30000 microseconds", true},
		{"latency=1s:2min", "latency=90 seconds", true},
		{"latency=1s:2min", "latency=121 s", false},
		{"latency=1h:", "latency=9223372036854775807 hours", true},
		{"latency=9223372036854775807d", "latency=9223372036854775807 day", true},
		{"latency=1s", "latency=1 bytes", false},
		{"load=5percent", "load=5 percent", true},
		{"load=5percent", "load=5 Percent", true},
		{"load=5percent", "load=5", false},
		{"load=5percent", "load=5 permille", false},
		{"load=5kb", "load=5 percent", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (matches(PATTERN_EQUAL, cases[i].condition, cases[i].numbers) != cases[i].matches)
			fail_msg("'%s' of '%s'", cases[i].condition, cases[i].numbers);
		assert_int_equal(matches(PATTERN_NOT_EQUAL, cases[i].condition, cases[i].numbers), !cases[i].matches);
	}
}

static void test_refusals(void **state)
{
	static const struct {
		enum pattern_operator op;
		const char *text, *part;
	} cases[] = {
		{PATTERN_REGEX, "bytes=.*", "= and != only"},
		{PATTERN_NOT_REGEX, "bytes=.*", "= and != only"},
		{PATTERN_EQUAL, "bytes=", "'bytes='"},
		{PATTERN_EQUAL, "bytes=:", "no condition"},
		{PATTERN_EQUAL, "bytes=x", "no condition"},
		{PATTERN_EQUAL, "bytes=1:2:3", "no condition"},
		{PATTERN_EQUAL, "bytes=1kb2", "no condition"},
		{PATTERN_EQUAL, "bytes=9223372036854775808", "no condition"},
		{PATTERN_EQUAL, "bytes=1 kb x", "no condition"},
		{PATTERN_EQUAL, "bytes=99999999999999999999999999999", "no condition"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct number_condition parsed;
		struct error err = {0};
		if (number_condition_parse(cases[i].op, cases[i].text, &parsed, &err) != -EINVAL)
			fail_msg("'%s' was not refused", cases[i].text);
		assert_non_null(strstr(err.message, cases[i].part));
		assert_non_null(strstr(err.message, "KEY=FROM:TO"));
	}
}

/* As conditions on spans, they are for queries only. */
static void test_in_selectors(void **state)
{
	static const char text[] = "memory{__number__=\"bytes=1kb:\", a=\"b\"}";
	_cleanup_(selector_freep) struct selector *selector = NULL;
	_cleanup_(buffer_release) struct buffer out = {.max = 1024};
	struct error err = {0};
	assert_int_equal(selector_parse(text, &selector, &err), -EINVAL);
	assert_non_null(strstr(err.message, "__number__"));
	assert_int_equal(selector_parse_query(text, &selector, &err), 0);
	assert_string_equal(selector_sample_label(selector), "__number__");
	assert_int_equal(selector_format(selector, &out), 0);
	assert_string_equal(buffer_string(&out), text);
	selector = selector_free(selector);
	assert_int_equal(selector_parse_query("{__number__=\"x=\"}", &selector, &err), -EINVAL);
	assert_null(selector);
}

static void test_out_of_memory(void **state)
{
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		struct selector *selector = NULL;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = selector_parse_query("{__number__=\"bytes=1\"}", &selector, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		selector_free(selector);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_in_selectors),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
