/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "net/net_int.h"

/* Every way to cut the bytes gives the same messages. */
static void test_messages(void **state)
{
	struct buffer wire, message;
	buffer_init(&wire, KIB);
	buffer_init(&message, 10);
	grpc_append_message(&wire, bytes_of_string("one"), false);
	grpc_append_message(&wire, bytes_of_string(""), false);
	grpc_append_message(&wire, bytes_of_string("0123456789"), false);
	for (size_t step = 1; step <= wire.len; step++) {
		struct grpc_reader reader = {0};
		struct grpc_head head;
		_cleanup_(buffer_release) struct buffer got = {0};
		buffer_init(&got, KIB);
		for (size_t at = 0; at < wire.len; at += step) {
			struct bytes piece = {wire.data + at, wire.len - at < step ? wire.len - at : step};
			int r;
			while ((r = grpc_read(&reader, &piece, &message, &head)) > 0) {
				buffer_append(&got, message.data, message.len);
				buffer_append_byte(&got, ';');
				assert_int_equal(head.len, message.len);
				assert_false(head.compressed);
				buffer_clear(&message);
				if (piece.len == 0)
					break;
			}
			assert_true(r >= 0 && piece.len == 0);
		}
		assert_string_equal(buffer_string(&got), "one;;0123456789;");
		assert_true(grpc_reader_is_between(&reader));
	}
	struct grpc_reader reader = {0};
	struct grpc_head head;
	struct bytes long_one = {(const uint8_t *)"\0\0\0\0\13", 5}, flag = {(const uint8_t *)"\2", 1};
	assert_int_equal(grpc_read(&reader, &long_one, &message, &head), -E2BIG);
	reader = (struct grpc_reader){0};
	assert_int_equal(grpc_read(&reader, &flag, &message, &head), -EBADMSG);
	buffer_release(&wire);
	buffer_release(&message);
}

static void test_status_message(void **state)
{
	char text[64], back[64];
	grpc_encode_status_message("100% \xc3\xa4\n", text, sizeof(text));
	assert_string_equal(text, "100%25 %C3%A4%0A");
	grpc_decode_status_message(bytes_of_string(text), back, sizeof(back));
	assert_string_equal(back, "100% \xc3\xa4\n");
	grpc_decode_status_message(bytes_of_string("a%zz%4%"), back, sizeof(back));
	assert_string_equal(back, "a%zz%4%");
	grpc_decode_status_message(bytes_of_string("a%00b"), back, sizeof(back));
	assert_string_equal(back, "a b");
	grpc_encode_status_message("ab%", text, 5);
	assert_string_equal(text, "ab");
	grpc_decode_status_message(bytes_of_string("abcdef"), back, 4);
	assert_string_equal(back, "abc");
}

static void test_timeout(void **state)
{
	int64_t ns;
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = {{"1H", 3600 * NS_PER_S},
		    {"2M", 120 * NS_PER_S},
		    {"3S", 3 * NS_PER_S},
		    {"250m", 250 * NS_PER_MS},
		    {"7u", 7000},
		    {"99999999n", 99999999},
		    {"0S", 0}};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(grpc_parse_timeout(good[i].text, &ns));
		assert_int_equal(ns, good[i].ns);
	}
	assert_true(grpc_parse_timeout("99999999H", &ns));
	assert_true(ns > 0);
	static const char *const bad[] = {"", "S", "1", "1s", "-1S", "1SS", "123456789S", " 1S", "1 S"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(grpc_parse_timeout(bad[i], &ns));
}

static void test_content_type(void **state)
{
	assert_true(grpc_is_content_type("application/grpc"));
	assert_true(grpc_is_content_type("Application/gRPC+proto"));
	assert_true(grpc_is_content_type("application/grpc;x=y"));
	assert_false(grpc_is_content_type("application/grpc-web"));
	assert_false(grpc_is_content_type("application/proto"));
	assert_false(grpc_is_content_type(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_status_message),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_content_type),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
