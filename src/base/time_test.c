// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"

#define NOW	 1800000000123456789ll
#define MINUTE_S 60
#define HOUR_S	 3600

static void check_time(const char *text, int64_t expected)
{
	int64_t ns = 0;
	struct error err = {0};
	if (time_parse(text, NOW, &ns, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	if (ns != expected)
		fail_msg("%s: got %" PRId64 ", expected %" PRId64, text, ns, expected);
}

static void check_time_refused(const char *text)
{
	int64_t ns = 42;
	struct error err = {0};
	if (time_parse(text, NOW, &ns, &err) != -EINVAL)
		fail_msg("\"%s\" was taken as %" PRId64, text, ns);
	assert_true(ns == 42);
	assert_non_null(strstr(err.message, text));
}

static void check_times_refused(const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_time_refused(texts[i]);
}

static void test_relative_times(void **state)
{
	check_time("now", NOW);
	check_time("now-1h", NOW - HOUR_S * NS_PER_S);
	check_time("now+5m", NOW + 5 * MINUTE_S * NS_PER_S);
	check_time("-15m", NOW - 15 * MINUTE_S * NS_PER_S);
	check_time("now-1h30m", NOW - 90 * MINUTE_S * NS_PER_S);
	check_time("-1ns", NOW - 1);
	check_time("-0s", NOW);
	check_time("now-90", NOW - 90 * NS_PER_S);
	static const char *const refused[] = {"1h",	 "+1h",	    "now1h", "now -1h", "now-", "-",
					      "now--1h", "nowhere", "Now",   " now",	"now "};
	check_times_refused(refused, sizeof(refused) / sizeof(refused[0]));
}

static void test_relative_times_overflow(void **state)
{
	int64_t ns = 42;
	assert_int_equal(time_parse("-292y", NOW, &ns, NULL), -EINVAL);
	assert_int_equal(time_parse("now+15250w", NOW, &ns, NULL), -EINVAL);
	assert_int_equal(time_parse("-1ns", INT64_MIN, &ns, NULL), -EINVAL);
	assert_int_equal(time_parse("now+1ns", INT64_MAX, &ns, NULL), -EINVAL);
	assert_true(ns == 42);
}

static void test_unix_times(void **state)
{
	check_time("1700000000", 1700000000 * NS_PER_S);
	check_time("1700000000.5", 1700000000 * NS_PER_S + 500000000);
	check_time("1700000000.123456789", 1700000000123456789ll);
	check_time("1700000000.1234567899999999999999999", 1700000000123456789ll);
	check_time("1700000000123", 1700000000123 * NS_PER_MS);
	check_time("1700000000123456", 1700000000123456 * 1000);
	check_time("1700000000123456789", 1700000000123456789ll);
	check_time("9223372036854775807", INT64_MAX);
	check_time("9223372036", 9223372036 * NS_PER_S);
	static const char *const refused[] = {
		"",
		"0",
		"17000000000",
		"170000000",
		"1700000000123.5",
		"1700000000.",
		".5",
		"1700000000s",
		"1700000000 ",
		"9223372036854775808",
		"9223372037",
		"9999999999999",
		"9999999999999999",
		"17000000001234567890",
		"99999999999999999999999",
		"+1700000000",
		"0x17000000",
		"1.7e9",
		"9223372036.9",
	};
	check_times_refused(refused, sizeof(refused) / sizeof(refused[0]));
}

static void test_calendar_times(void **state)
{
	const int64_t ten = 1795255200; /* date -u -d 2026-11-21T10:00:00Z +%s */
	static const char *const at_ten[] = {
		"2026-11-21T10:00:00Z",	     "2026-11-21t10:00:00z",	  "2026-11-21T10:00:00",
		"2026-11-21 10:00:00Z",	     "2026-11-21 10:00",	  "2026-11-21T12:00:00+02:00",
		"2026-11-21T04:30:00-05:30", "2026-11-21T10:00:00-00:00", "2026-11-21T10:00+00:00",
	};
	for (size_t i = 0; i < sizeof(at_ten) / sizeof(at_ten[0]); i++)
		check_time(at_ten[i], ten * NS_PER_S);
	check_time("2026-11-21", (ten - 10 * HOUR_S) * NS_PER_S);
	check_time("2026-11-21T10:00:00.25Z", ten * NS_PER_S + 250000000);
	check_time("2026-11-21T10:00:00.1234567899Z", ten * NS_PER_S + 123456789);
	check_time("1970-01-01", 0);
	check_time("1969-12-31T23:59:59.5Z", -500000000);
	check_time("2024-02-29", 1709164800 * NS_PER_S);
	check_time("2016-12-31T23:59:60Z", 1483228800 * NS_PER_S);
	check_time("2262-04-11T23:47:16.854775807Z", INT64_MAX);
	check_time("1677-09-21T00:12:43.145224192Z", INT64_MIN);
}

static void test_calendar_times_refused(void **state)
{
	static const char *const refused[] = {
		"2026-13-01",
		"2026-00-01",
		"2026-01-00",
		"2026-01-32",
		"2026-04-31",
		"2026-02-29",
		"2100-02-29",
		"26-11-21",
		"2026-1-1",
		"2026/11/21",
		"2026-11-21T",
		"2026-11-21T10",
		"2026-11-21T10:",
		"2026-11-21T24:00",
		"2026-11-21T10:60",
		"2026-11-21T10:00:61Z",
		"2026-11-21T10:00:00.Z",
		"2026-11-21T10:00.5Z",
		"2026-11-21T10:00:00+2",
		"2026-11-21T10:00:00+0200",
		"2026-11-21T10:00:00+24:00",
		"2026-11-21T10:00:00+02:60",
		"2026-11-21T10:00:00ZZ",
		"2026-11-21Z",
		"2026-11-21  10:00",
		"2026-11-21T10:00:00 Z",
		"2262-04-11T23:47:16.854775808Z",
		"1677-09-21T00:12:43.145224191Z",
		"0000-01-01",
		"9999-12-31",
		"-2026-11-21",
		"2026-11-21T1O:00",
	};
	check_times_refused(refused, sizeof(refused) / sizeof(refused[0]));
}

static void check_duration(const char *text, int64_t expected)
{
	int64_t ns = 0;
	struct error err = {0};
	if (time_parse_duration(text, &ns, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	if (ns != expected)
		fail_msg("%s: got %" PRId64 ", expected %" PRId64, text, ns, expected);
}

static void test_durations(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} cases[] = {
		{"250ms", 250 * NS_PER_MS},
		{"10s", 10 * NS_PER_S},
		{"1.5h", 90 * MINUTE_S * NS_PER_S},
		{"2d", 48 * HOUR_S * NS_PER_S},
		{"1w", 168 * HOUR_S * NS_PER_S},
		{"1h30m", 90 * MINUTE_S * NS_PER_S},
		{"1w2d3h4m5s6ms7us8ns", 788645006007008ll},
		{"12us", 12000},
		{"12µs", 12000},
		{"7ns", 7},
		{"0.9ns", 0},
		{"0", 0},
		{"90", 90 * NS_PER_S},
		{"0.1", NS_PER_S / 10},
		{"0.3s", 300 * NS_PER_MS},
		{"9223372036854775807ns", INT64_MAX},
		{"9223372036.854775807", INT64_MAX},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_duration(cases[i].text, cases[i].ns);
}

static void test_durations_refused(void **state)
{
	static const char *const refused[] = {
		"",
		"-1s",
		"+1s",
		"s",
		"1x",
		"1S",
		"1H",
		"1 s",
		" 1s",
		"1s ",
		"1.s",
		".5s",
		"1..5s",
		"1h30",
		"30m1h",
		"1h1h",
		"1h-5m",
		"1e3s",
		"inf",
		"nan",
		"0x10",
		"9223372036854775808ns",
		"9223372037",
		"15251w",
		"99999999999999999999s",
		"1w1w",
		"1.5.5s",
		"10sec",
	};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		int64_t ns = 42;
		struct error err = {0};
		if (time_parse_duration(refused[i], &ns, &err) != -EINVAL)
			fail_msg("\"%s\" was taken as %" PRId64, refused[i], ns);
		assert_true(ns == 42);
		assert_non_null(strstr(err.message, refused[i]));
	}
}

static void test_format(void **state)
{
	char text[TIME_TEXT_MAX];
	assert_string_equal(time_format(0, text), "1970-01-01T00:00:00.000Z");
	assert_string_equal(time_format(NOW, text), "2027-01-15T08:00:00.123Z");
	assert_string_equal(time_format(-1, text), "1969-12-31T23:59:59.999Z");
	assert_string_equal(time_format(INT64_MAX, text), "2262-04-11T23:47:16.854Z");
	assert_string_equal(time_format(INT64_MIN, text), "1677-09-21T00:12:43.145Z");
}

/* Every 13 days and some odd time from 1690 to 2262, against the C library's calendar. */
static void test_format_and_parse_agree_with_libc(void **state)
{
	for (int64_t seconds = -8835984000ll; seconds < 9214646400ll; seconds += 13 * 86400 + 3661) {
		char text[TIME_TEXT_MAX], expected[64], with_zone[80];
		time_t time = (time_t)seconds;
		struct tm calendar;
		assert_non_null(gmtime_r(&time, &calendar));
		strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S", &calendar);
		time_format(seconds * NS_PER_S, text);
		snprintf(with_zone, sizeof(with_zone), "%s.000Z", expected);
		assert_string_equal(text, with_zone);
		check_time(text, seconds * NS_PER_S);
	}
}

static void test_format_duration(void **state)
{
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1 us"},
		{12000, "12 us"},
		{12345, "12.3 us"},
		{99960, "100 us"},
		{340 * NS_PER_MS, "340 ms"},
		{340600 * 1000, "341 ms"},
		{999499999, "999 ms"},
		{999500000, "1 s"},
		{1500 * NS_PER_MS, "1.5 s"},
		{59940 * NS_PER_MS, "59.9 s"},
		{59960 * NS_PER_MS, "1 min"},
		{90 * NS_PER_S, "1 min 30 s"},
		{3599 * NS_PER_S, "59 min 59 s"},
		{3600 * NS_PER_S - 1, "1 h"},
		{7500 * NS_PER_S, "2 h 5 min"},
		{86400 * NS_PER_S - 1, "1 d"},
		{(86400 + 3 * 3600) * NS_PER_S, "1 d 3 h"},
		{-1500 * NS_PER_MS, "-1.5 s"},
		{INT64_MAX, "106752 d"},
		{INT64_MIN, "-106752 d"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[TIME_TEXT_MAX];
		assert_string_equal(time_format_duration(cases[i].ns, text), cases[i].text);
	}
}

static void test_clocks(void **state)
{
	int64_t start = time_monotonic_ns(), boot = time_boottime_ns();
	assert_true(time_now_ns() > 1600000000 * NS_PER_S);
	assert_true(boot >= start);
	assert_true(time_thread_cpu_ns() > 0);
	assert_true(time_wall_bound_ns() == -1 || time_wall_bound_ns() > 0);
	assert_true(time_process_cpu_ns() >= time_thread_cpu_ns() / 2);
	time_sleep_ns(5 * NS_PER_MS);
	assert_true(time_monotonic_ns() - start >= 5 * NS_PER_MS);
	time_sleep_ns(0);
	time_sleep_ns(-1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_relative_times),
		cmocka_unit_test(test_relative_times_overflow),
		cmocka_unit_test(test_unix_times),
		cmocka_unit_test(test_calendar_times),
		cmocka_unit_test(test_calendar_times_refused),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_durations_refused),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_format_and_parse_agree_with_libc),
		cmocka_unit_test(test_format_duration),
		cmocka_unit_test(test_clocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
