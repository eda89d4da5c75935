// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/fault.h"
#include "base/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_u64(void **state)
{
	uint64_t value = 42;
	struct error err = {0};
	assert_int_equal(text_parse_u64("0", &value, NULL), 0);
	assert_true(value == 0);
	assert_int_equal(text_parse_u64("18446744073709551615", &value, NULL), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(text_parse_u64("0000000000000000000000000000012", &value, NULL), 0);
	assert_true(value == 12);
	assert_int_equal(text_parse_u64("18446744073709551616", &value, &err), -ERANGE);
	assert_non_null(strstr(err.message, "18446744073709551616"));
	assert_int_equal(text_parse_u64("99999999999999999999999999", &value, NULL), -ERANGE);
	static const char *const refused[] = {"", " 1", "1 ", "+1", "-1", "0x1", "1.0", "1e3", "a", "99999999999999999999x"};
	for (size_t i = 0; i < COUNT(refused); i++)
		assert_int_equal(text_parse_u64(refused[i], &value, NULL), -EINVAL);
	assert_true(value == 12);
}

static void test_i64(void **state)
{
	static const struct {
		const char *text;
		int r;
		int64_t value; /* then; what failed changes nothing */
	} cases[] = {
		{"-9223372036854775808", 0, INT64_MIN},
		{"9223372036854775807", 0, INT64_MAX},
		{"-0", 0, 0},
		{"9223372036854775808", -ERANGE, 0},
		{"-9223372036854775809", -ERANGE, 0},
		{"-99999999999999999999999", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"-", -EINVAL, 0},
		{"--1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{"- 1", -EINVAL, 0},
		{"1-", -EINVAL, 0},
	};
	int64_t value = 42;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(text_parse_i64(cases[i].text, &value, NULL), cases[i].r);
		assert_true(value == cases[i].value);
	}
}

static void test_double(void **state)
{
	double value = 42;
	assert_int_equal(text_parse_double("-1.5e3", &value, NULL), 0);
	assert_true(fabs(value + 1500) < 1e-9);
	assert_int_equal(text_parse_double("0.25", &value, NULL), 0);
	assert_true(fabs(value - 0.25) < 1e-12);
	assert_int_equal(text_parse_double("1e-400", &value, NULL), 0);
	assert_true(fabs(value) < 1e-300);
	assert_int_equal(text_parse_double("1e400", &value, NULL), -ERANGE);
	static const char *const refused[] = {"",    " 1",    "1 ", "+1", "inf", "nan", "0x1p3",
					      "1,5", "1.5.5", "e5", "-",  ".",	 "1e",	"1-2"};
	for (size_t i = 0; i < COUNT(refused); i++)
		assert_int_equal(text_parse_double(refused[i], &value, NULL), -EINVAL);
}

static void test_size(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},
		{"512", 512},
		{"512B", 512},
		{"64k", 65536},
		{"64K", 65536},
		{"64kB", 65536},
		{"64 KiB", 65536},
		{"10 MB", 10485760},
		{"1.5GiB", 1610612736},
		{"0.1k", 102},
		{"2T", 2199023255552},
		{"2tib", 2199023255552},
		{"18446744073709551615", UINT64_MAX},
		{"16777215.9999999999999T", 18446744073709551615ull},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t bytes = 42;
		assert_int_equal(text_parse_size(cases[i].text, &bytes, NULL), 0);
		assert_true(bytes == cases[i].bytes);
	}
	uint64_t bytes = 42;
	static const char *const refused[] = {"",   "k",   "-1",  "1.5", "1.5B", "1.k",	  ".5k",  "1kk",  "1ki",
					      "1 ", "1k ", " 1k", "1Bk", "1P",	 "1 k B", "1e3k", "0x10", "1,5k"};
	for (size_t i = 0; i < COUNT(refused); i++)
		assert_int_equal(text_parse_size(refused[i], &bytes, NULL), -EINVAL);
	assert_int_equal(text_parse_size("16777216T", &bytes, NULL), -ERANGE);
	assert_int_equal(text_parse_size("18446744073709551616", &bytes, NULL), -ERANGE);
	assert_true(bytes == 42);
}

static void test_format_size(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1536, "1.5 KiB"},
		{1572864, "1.5 MiB"},
		{1048575, "1.0 MiB"},
		{1048000, "1023.4 KiB"},
		{1ull << 60, "1.0 EiB"},
		{UINT64_MAX, "16.0 EiB"},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[TEXT_NUMBER_MAX];
		assert_string_equal(text_format_size(cases[i].bytes, text), cases[i].text);
	}
}

static void test_format_count(void **state)
{
	char text[TEXT_NUMBER_MAX];
	assert_string_equal(text_format_count(0, text), "0");
	assert_string_equal(text_format_count(999, text), "999");
	assert_string_equal(text_format_count(1000, text), "1,000");
	assert_string_equal(text_format_count(1234567, text), "1,234,567");
	assert_string_equal(text_format_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

static void check_utf8(const char *input, size_t len, const char *expected)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, 1000);
	struct bytes text = {(const uint8_t *)input, len};
	assert_int_equal(text_append_utf8(&out, text), 0);
	assert_string_equal(buffer_string(&out), expected);
	assert_int_equal(text_is_utf8(text), out.len == len && !memcmp(input, expected, len));
	assert_true(text_is_utf8(buffer_bytes(&out)));
	_cleanup_(arena_release) struct arena arena = {.max_bytes = SIZE_MAX};
	struct bytes copy;
	assert_int_equal(text_copy_utf8(&arena, text, &copy), 0);
	assert_ptr_not_equal(copy.data, input);
	assert_int_equal(copy.len, out.len);
	assert_memory_equal(copy.data, expected, out.len);
}

#define R "\xef\xbf\xbd"
static void test_utf8(void **state)
{
	check_utf8("", 0, "");
	check_utf8("plain ASCII, longer than a word", 31, "plain ASCII, longer than a word");
	check_utf8("12345678\xff", 9, "12345678" R);
	check_utf8("gr\xc3\xbc\xc3\x9f", 6, "gr\xc3\xbc\xc3\x9f");
	check_utf8("\xf0\x9f\x94\xa5", 4, "\xf0\x9f\x94\xa5");
	check_utf8("\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf");
	/* overlong, surrogate, beyond U+10FFFF, lone tail, invalid leads */
	check_utf8("\xc0\x80", 2, R R);
	check_utf8("\xe0\x9f\xbf", 3, R R R);
	check_utf8("\xed\xa0\x80", 3, R R R);
	check_utf8("\xf0\x8f\xbf\xbf", 4, R R R R);
	check_utf8("\xf4\x90\x80\x80", 4, R R R R);
	check_utf8("\xf5\xff", 2, R R);
	check_utf8("a\x80z", 3, "a" R "z");
	/* cut short: one replacement for what is there */
	check_utf8("\xe2\x82", 2, R);
	check_utf8("\xf0\x9f\x94", 3, R);
	check_utf8("\xf0\x9f\x94z", 4, R "z");
	/* several kinds in one text */
	check_utf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", 13, "a" R R R "b" R "c" R R "d");
}

static void test_utf8_append_is_all_or_nothing(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, 8);
	assert_int_equal(buffer_append_string(&out, "abc"), 0);
	assert_int_equal(text_append_utf8(&out, bytes_of_string("de\xff\xff")), -E2BIG);
	assert_int_equal(text_append_utf8(&out, bytes_of_string("d")), -E2BIG);
	buffer_truncate(&out, 3);
	assert_string_equal(buffer_string(&out), "abc");
	assert_int_equal(text_append_utf8(&out, bytes_of_string("de\xff")), 0);
	assert_string_equal(buffer_string(&out), "abcde" R);
}

static void test_character(void **state)
{
	static const uint32_t codes[] = {0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff};
	_cleanup_(buffer_release) struct buffer out = {.max = 100};
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		assert_int_equal(text_append_character(&out, codes[i]), 0);
	assert_string_equal(buffer_string(&out),
			    "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

static void test_width_and_cut(void **state)
{
	struct bytes text = bytes_of_string("a\xc3\xbc\xe2\x82\xac\xf0\x9f\x94\xa5"); /* 1, 2, 3, 4 bytes */
	static const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10};
	for (size_t max = 0; max < sizeof(kept) / sizeof(*kept); max++)
		assert_int_equal(text_cut(text, max), kept[max]);
	assert_int_equal(text_cut(text, SIZE_MAX), 10);
	assert_int_equal(text_cut(bytes_of_string("\x80\x80\x80"), 2), 0);
	assert_int_equal(text_width(text), 4);
	assert_int_equal(text_width(bytes_of_string("")), 0);
}

static void check_harmless(const char *input, const char *expected)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, 1000);
	assert_int_equal(text_append_harmless(&out, bytes_of_string(input)), 0);
	assert_string_equal(buffer_string(&out) ? buffer_string(&out) : "", expected);
}

static void test_harmless(void **state)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	check_harmless("", "");
	check_harmless("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\xa5");
	check_harmless("a\033[31m\t\n\x7f\xff", "a?[31m???" R);
	/* CSI in one character and its neighbours, U+009F and U+00A0 */
	check_harmless("\xc2\x80\xc2\x9b\x31m\xc2\x9f\xc2\xa0", "??1m?\xc2\xa0");
	/* U+061C, U+200A to U+2010, U+2027 to U+202F */
	check_harmless("\xd8\x9b\xd8\x9c", "\xd8\x9b?");
	check_harmless("\xe2\x80\x8a\xe2\x80\x8b\xe2\x80\x8f\xe2\x80\x90", "\xe2\x80\x8a??\xe2\x80\x90");
	check_harmless("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf", "\xe2\x80\xa7??\xe2\x80\xaf");
	/* U+2060, U+2066, U+2069, U+206A; U+FEFF */
	check_harmless("\xe2\x81\xa0\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa\xef\xbb\xbf", "???\xe2\x81\xaa?");
	buffer_init(&out, 4);
	assert_int_equal(buffer_append_string(&out, "ab"), 0);
	assert_int_equal(text_append_harmless(&out, bytes_of_string("c\ndd")), -E2BIG);
	buffer_truncate(&out, 2);
	assert_string_equal(buffer_string(&out), "ab");
}

static void check_url(const char *input, bool plus_is_space, const char *expected)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	struct error err = {0};
	buffer_init(&out, 100);
	int r = text_url_decode(bytes_of_string(input), plus_is_space, &out, &err);
	if (!expected) {
		assert_int_equal(r, -EINVAL);
		assert_int_equal(out.len, 0);
		assert_int_equal(err.code, -EINVAL);
		return;
	}
	assert_int_equal(r, 0);
	assert_string_equal((char *)out.data, expected);
}

static void test_url_decode(void **state)
{
	check_url("", false, "");
	check_url("plain", false, "plain");
	check_url("a%20b%2fC%2F", false, "a b/C/");
	check_url("a+b", false, "a+b");
	check_url("a+b%2B", true, "a b+");
	check_url("%25", false, "%");
	check_url("%", false, NULL);
	check_url("%4", false, NULL);
	check_url("abc%4", false, NULL);
	check_url("%4g", false, NULL);
	check_url("%g4", false, NULL);
	check_url("% 4", false, NULL);
	check_url("a%00b", false, NULL);

	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, 4);
	assert_int_equal(text_url_decode(bytes_of_string("abcde"), false, &out, NULL), -E2BIG);
	assert_int_equal(out.len, 0);
	assert_int_equal(text_url_decode((struct bytes){(const uint8_t *)"a\0b", 3}, false, &out, NULL), -EINVAL);
	buffer_release(&out);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(text_url_decode(bytes_of_string("abc"), false, &out, NULL), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
}

static void test_url_round_trip(void **state)
{
	_cleanup_(buffer_release) struct buffer encoded = {0}, decoded = {0};
	uint8_t all[255];
	for (int i = 1; i < 256; i++)
		all[i - 1] = (uint8_t)i;
	buffer_init(&encoded, 1000);
	buffer_init(&decoded, 1000);
	struct bytes text = {all, sizeof(all)};
	assert_int_equal(text_url_encode(&encoded, text), 0);
	assert_int_equal(text_url_decode(buffer_bytes(&encoded), true, &decoded, NULL), 0);
	assert_true(bytes_equal(buffer_bytes(&decoded), text));
	buffer_clear(&encoded);
	assert_int_equal(text_url_encode(&encoded, bytes_of_string("aZ09-._~ /+%\n")), 0);
	assert_string_equal(buffer_string(&encoded), "aZ09-._~%20%2F%2B%25%0A");
	encoded.max = encoded.len + 2;
	size_t len = encoded.len;
	assert_int_equal(text_url_encode(&encoded, bytes_of_string("a/")), -E2BIG);
	assert_int_equal(buffer_status(&encoded), -E2BIG);
	assert_true(encoded.len >= len);
}

static void check_base_name(const char *path, const char *base, const char *binary)
{
	assert_string_equal(text_base_name(path), base);
	assert_true(bytes_equal_string(text_base_name_of(bytes_of_string(path)), base));
	assert_true(bytes_equal_string(text_binary_name(bytes_of_string(path)), binary));
}

static void test_base_names(void **state)
{
	(void)state;
	check_base_name("/usr/bin/a", "a", "a");
	check_base_name("a", "a", "a");
	check_base_name("/a", "a", "a");
	check_base_name("/usr/bin/", "/usr/bin/", "/usr/bin/");
	check_base_name("/", "/", "/");
	check_base_name("", "", "");
	check_base_name("/usr/bin/a (deleted)", "a (deleted)", "a");
	check_base_name("/b (deleted)/a (deleted)", "a (deleted)", "a");
	check_base_name(" (deleted)", " (deleted)", " (deleted)");
	assert_int_equal(text_binary_name((struct bytes){0}).len, 0);
	assert_true(bytes_equal_string(text_base_name_of((struct bytes){(const uint8_t *)"a/b/c", 3}), "b"));
}

static void test_find_name(void **state)
{
	static const char *const names[] = {"one", "two", "one"};
	(void)state;
	assert_int_equal(text_find_name(names, 3, "one"), 0);
	assert_int_equal(text_find_name(names, 3, "two"), 1);
	assert_int_equal(text_find_name(names, 1, "two"), -EINVAL);
	assert_int_equal(text_find_name(names, 3, "on"), -EINVAL);
	assert_int_equal(text_find_name(names, 3, ""), -EINVAL);
	assert_int_equal(text_find_name(names, 3, NULL), -EINVAL);
}

static void test_starts_and_ends(void **state)
{
	assert_true(text_starts_with("prefix", "pre"));
	assert_true(text_starts_with("", ""));
	assert_false(text_starts_with("pr", "pre"));
	assert_true(text_ends_with("file.pb.gz", ".gz"));
	assert_true(text_ends_with("", ""));
	assert_false(text_ends_with("gz", ".gz"));
	assert_false(text_ends_with("file.gz", ".pb"));
}

static void test_hex(void **state)
{
	_cleanup_(buffer_release) struct buffer hex = {0}, data = {0};
	buffer_init(&hex, 100);
	buffer_init(&data, 4);
	assert_int_equal(text_append_hex(&hex, (struct bytes){(const uint8_t *)"\x00\x1f\xab\xff", 4}), 0);
	assert_string_equal(buffer_string(&hex), "001fabff");
	char text[9];
	text_format_hex((struct bytes){(const uint8_t *)"\x00\x1f\xab\xff", 4}, text);
	assert_string_equal(text, "001fabff");
	text_format_hex((struct bytes){0}, text);
	assert_string_equal(text, "");
	assert_int_equal(text_parse_hex(bytes_of_string("001FaBff"), &data), 0);
	assert_int_equal(data.len, 4);
	assert_memory_equal(data.data, "\x00\x1f\xab\xff", 4);
	assert_int_equal(text_parse_hex(bytes_of_string("00"), &data), -E2BIG);
	buffer_clear(&data);
	assert_int_equal(text_parse_hex(bytes_of_string("0"), &data), -EINVAL);
	assert_int_equal(text_parse_hex(bytes_of_string("000g"), &data), -EINVAL);
	assert_int_equal(text_parse_hex(bytes_of_string("-1"), &data), -EINVAL);
	assert_int_equal(data.len, 0);
	assert_int_equal(text_parse_hex(bytes_of_string(""), &data), 0);
	hex.max = hex.len + 1;
	assert_int_equal(text_append_hex(&hex, bytes_of_string("x")), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_u64),	    cmocka_unit_test(test_i64),
		cmocka_unit_test(test_double),	    cmocka_unit_test(test_size),
		cmocka_unit_test(test_format_size), cmocka_unit_test(test_format_count),
		cmocka_unit_test(test_utf8),	    cmocka_unit_test(test_utf8_append_is_all_or_nothing),
		cmocka_unit_test(test_harmless),    cmocka_unit_test(test_width_and_cut),
		cmocka_unit_test(test_url_decode),  cmocka_unit_test(test_url_round_trip),
		cmocka_unit_test(test_find_name),   cmocka_unit_test(test_starts_and_ends),
		cmocka_unit_test(test_base_names),  cmocka_unit_test(test_hex),
		cmocka_unit_test(test_character),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
