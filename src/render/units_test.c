/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "render/units.h"

/* What google/pprof shows of the same values (internal/measurement). */
static void test_format(void **state)
{
	static const struct {
		int64_t value;
		const char *from, *to, *text;
	} cases[] = {
		{1100, "milliseconds", "s", "1.10s"},
		{1000, "ms", "seconds", "1s"},
		{10, "milliseconds", "minimum", "10ms"},
		{3600, "s", "auto", "1hrs"},
		{102400, "bytes", "auto", "100kB"},
		{65536000, "bytes", "MB", "62.50MB"},
		{1, "byte", "GB", "0"},
		{-5, "ms", "us", "-5000us"},
		{5, "ms", "bytes", "0.01s"},
		{7, "count", "count", "7"},
		{7, "count", "minimum", "7"},
		{7, "widgets", "sample", "7"},
		{7, "widgets", "gadgets", "7gadgets"},
		{0, "ns", "auto", "0"},
		{1500, "GCUs", "auto", "1.50k*GCU"},
		{INT64_MIN, "count", "count", "-9223372036854775808"},
	};
	char text[UNITS_TEXT_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(units_format(cases[i].value, cases[i].from, cases[i].to, text), cases[i].text);
}

static void test_long_unit_is_cut(void **state)
{
	char text[UNITS_TEXT_MAX], unit[500];
	(void)state;
	memset(unit, 'x', sizeof(unit));
	unit[sizeof(unit) - 1] = '\0';
	assert_in_range(strlen(units_format(INT64_MAX, "count", unit, text)), 40, UNITS_TEXT_MAX - 1);
}

static void test_percent(void **state)
{
	static const struct {
		int64_t value, total;
		const char *text;
	} cases[] = {
		{1, 1, "  100%"},      {9996, 10000, "  100%"}, {1, 3, "33.33%"},
		{1, 100, " 1.00%"},    {1, 1000, "  0.1%"},	{89, 10000, " 0.89%"},
		{0, 5, "    0%"},      {5, 0, "    0%"},	{-50, 100, "50.00%"},
		{300, 100, "300.00%"}, {1, 10000000, "1e-05%"}, {INT64_MIN, 1, "922337203685477580800.00%"},
	};
	char text[UNITS_TEXT_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_string_equal(units_format_percent(cases[i].value, cases[i].total, text), cases[i].text);
}

static void test_whole(void **state)
{
	(void)state;
	assert_true(units_whole(1e300) == INT64_MAX);
	assert_true(units_whole(-1e300) == INT64_MIN);
	assert_true(units_whole(-2.9) == -2);
	assert_true(units_whole(0.0 / 1.0) == 0);
	assert_true(units_magnitude(INT64_MIN) == INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_long_unit_is_cut),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
