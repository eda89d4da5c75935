/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>

#include "terminal/keys.h"

/* All keys of a text, and how many bytes are left that need more. */
static size_t decode(const char *text, bool is_all, uint32_t *ret, size_t max)
{
	struct bytes rest = bytes_of_string(text);
	size_t count = 0, len;
	while (rest.len && count < max && (len = keys_decode(rest, is_all, &ret[count])) > 0) {
		assert_true(len <= rest.len);
		count++;
		rest = bytes_skip(rest, len);
	}
	return count;
}

static void expect(const char *text, uint32_t key)
{
	uint32_t keys[8];
	assert_int_equal(decode(text, true, keys, 8), 1);
	assert_int_equal(keys[0], key);
}

static void test_keys(void **state)
{
	expect("a", 'a');
	expect("\r", KEY_ENTER);
	expect("\n", KEY_ENTER);
	expect("\b", KEY_BACKSPACE);
	expect("\177", KEY_BACKSPACE);
	expect("\003", KEY_CTRL('C'));
	expect("\xc3\xa4", 0xe4);
	expect("\xf0\x9f\x94\xa5", 0x1f525);
	expect("\033", KEY_ESCAPE);
	expect("\033[A", KEY_UP);
	expect("\033OB", KEY_DOWN);
	expect("\033[1;5C", KEY_RIGHT);
	expect("\033[Z", KEY_BACK_TAB);
	expect("\033[5~", KEY_PAGE_UP);
	expect("\033[1~", KEY_HOME);
	expect("\033[4~", KEY_END);
	expect("\033OP", KEY_F(1));
	expect("\033[15~", KEY_F(5));
	expect("\033[15;2~", KEY_F(5));
	expect("\033[21~", KEY_F(10));
	expect("\033[[A", KEY_F(1));
	expect("\033[[E", KEY_F(5));
}

static void test_several(void **state)
{
	uint32_t keys[8];
	assert_int_equal(decode("q\033[Bx\033[6~", true, keys, 8), 4);
	assert_int_equal(keys[0], 'q');
	assert_int_equal(keys[1], KEY_DOWN);
	assert_int_equal(keys[2], 'x');
	assert_int_equal(keys[3], KEY_PAGE_DOWN);
	/* Alt and a key. */
	assert_int_equal(decode("\033x", true, keys, 8), 2);
	assert_int_equal(keys[0], KEY_ESCAPE);
	assert_int_equal(keys[1], 'x');
}

/* Sequences come in pieces, over slow lines. */
static void test_pieces(void **state)
{
	static const char *const whole[] = {"\033[A", "\033[15~", "\033OP", "\033[[B", "\xe2\x82\xac", "\033[1;2D"};
	uint32_t keys[8];
	char part[16];
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		for (size_t len = 1; whole[i][len]; len++) {
			snprintf(part, sizeof(part), "%.*s", (int)len, whole[i]);
			assert_int_equal(decode(part, false, keys, 8), 0);
		}
		assert_int_equal(decode(whole[i], false, keys, 8), 1);
	}
}

/* What a terminal reports is one key that means nothing, and not commands. */
static void test_unknown(void **state)
{
	uint32_t keys[64];
	expect("\033[?62;1;6c", KEY_UNKNOWN);
	expect("\033[999~", KEY_UNKNOWN);
	expect("\033[99999999999999999~", KEY_UNKNOWN);
	expect("\xff", KEY_UNKNOWN);
	expect("\xe2\x82", KEY_UNKNOWN);
	assert_int_equal(decode("\033[12\033[A", false, keys, 64), 2); /* broken off */
	assert_int_equal(keys[0], KEY_UNKNOWN);
	assert_int_equal(keys[1], KEY_UP);
	/* One that never ends is given up. */
	assert_int_equal(decode("\033[00000000000000000000000000000000000000000000000000q", false, keys, 1), 1);
	assert_int_equal(keys[0], KEY_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
