/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/limits.h"
#include "codec/json.h"

static void write_document(struct json_writer *json)
{
	json_begin_object(json);
	json_key(json, "empty");
	json_begin_array(json);
	json_end_array(json);
	json_key(json, "list");
	json_begin_array(json);
	json_int(json, INT64_MIN);
	json_uint(json, UINT64_MAX);
	json_bool(json, true);
	json_bool(json, false);
	json_nil(json);
	json_begin_object(json);
	json_end_object(json);
	json_cstring(json, "x");
	json_raw(json, bytes_of_string("{\"raw\":[]}"));
	json_end_array(json);
	json_key(json, "k\"ey");
	json_double(json, 0.1);
	json_end_object(json);
}

static void test_document(void **state)
{
	struct buffer out;
	buffer_init(&out, KIB);
	struct json_writer json = {.out = &out};
	write_document(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_string_equal(buffer_string(&out), "{\"empty\":[],\"list\":[-9223372036854775808,18446744073709551615,true,false,"
						 "null,{},\"x\",{\"raw\":[]}],\"k\\\"ey\":0.1}");
	buffer_release(&out);
}

static void check_string(struct bytes text, const char *expected)
{
	struct buffer out;
	buffer_init(&out, KIB);
	struct json_writer json = {.out = &out};
	json_bytes(&json, text);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
}

static void test_strings(void **state)
{
	check_string((struct bytes){NULL, 0}, "\"\"");
	check_string(bytes_of_string("a\\b\"c/\b\f\n\r\t\x01\x1f\x7f"), "\"a\\\\b\\\"c/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
	check_string((struct bytes){(const uint8_t *)"a\0b", 3}, "\"a\\u0000b\"");
	check_string(bytes_of_string("gr\xc3\xbc\xc3\x9f \xf0\x9f\x94\xa5"), "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x94\xa5\"");
	/* A lone continuation byte, a cut sequence, a surrogate: each repaired. */
	check_string(bytes_of_string("a\x80z"), "\"a\xef\xbf\xbdz\"");
	check_string(bytes_of_string("\xc3"), "\"\xef\xbf\xbd\"");
	check_string(bytes_of_string("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

static void check_double(double value, const char *expected)
{
	struct buffer out;
	buffer_init(&out, KIB);
	struct json_writer json = {.out = &out};
	json_double(&json, value);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
}

static void test_doubles(void **state)
{
	check_double(0, "0");
	check_double(0.1, "0.1");
	check_double(1.0 / 3, "0.3333333333333333");
	check_double(-1e300, "-1e+300");
	check_double(5e-324, "4.94065645841247e-324");
	check_double(NAN, "null");
	check_double(INFINITY, "null");
	check_double(-INFINITY, "null");
}

static void check_decimal(int64_t value, unsigned places, const char *expected)
{
	struct buffer out;
	buffer_init(&out, KIB);
	struct json_writer json = {.out = &out};
	json_begin_array(&json);
	json_decimal(&json, value, places);
	json_decimal(&json, 7, 0);
	json_end_array(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_string_equal(buffer_string(&out), expected);
	buffer_release(&out);
}

static void test_decimals(void **state)
{
	check_decimal(0, 6, "[0,7]");
	check_decimal(1500000, 6, "[1.5,7]");
	check_decimal(-1, 6, "[-0.000001,7]");
	check_decimal(123, 3, "[0.123,7]");
	check_decimal(120, 1, "[12,7]");
	check_decimal(-1234567, 6, "[-1.234567,7]");
	check_decimal(INT64_MIN, 18, "[-9.223372036854775808,7]");
	check_decimal(1, 18, "[0.000000000000000001,7]");
}

/* An independent reader agrees, over every byte value. */
static void test_read_back(void **state)
{
	char text[256];
	for (int i = 1; i < 256; i++)
		text[i - 1] = (char)i;
	text[255] = '\0';
	struct buffer out;
	buffer_init(&out, 4 * KIB);
	struct json_writer json = {.out = &out};
	json_begin_array(&json);
	json_cstring(&json, text);
	json_end_array(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	json_error_t error;
	json_t *root = json_loadb((const char *)out.data, out.len, 0, &error);
	assert_non_null(root);
	const char *back = json_string_value(json_array_get(root, 0));
	assert_memory_equal(back, text, 127);
	assert_int_equal(strlen(back), 127 + 128 * 3);
	json_decref(root);
	buffer_release(&out);
}

static void test_deep(void **state)
{
	struct buffer out;
	buffer_init(&out, KIB);
	struct json_writer json = {.out = &out};
	for (int i = 0; i < 63; i++)
		json_begin_array(&json);
	for (int i = 0; i < 63; i++)
		json_end_array(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_int_equal(out.len, 126);
	buffer_release(&out);
}

static void test_limits(void **state)
{
	struct buffer out;
	struct error err;
	buffer_init(&out, 10);
	struct json_writer json = {.out = &out};
	write_document(&json);
	assert_int_equal(json_finish(&json, &err), -E2BIG);
	assert_non_null(strstr(err.message, "limit of 10 bytes"));
	buffer_release(&out);

	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		buffer_init(&out, KIB);
		fault_arm(FAULT_ALLOC, n, 0);
		json = (struct json_writer){.out = &out};
		write_document(&json);
		int r = json_finish(&json, &err);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		buffer_release(&out);
	}
}

struct drained {
	struct buffer *from, text;
	unsigned pieces, pieces_max; /* the piece after so many is refused */
};

static int take(void *context)
{
	struct drained *drained = context;
	assert_true(drained->from->len >= JSON_DRAIN_BYTES);
	if (drained->pieces++ == drained->pieces_max)
		return -ECANCELED;
	buffer_append(&drained->text, drained->from->data, drained->from->len);
	buffer_clear(drained->from);
	return 0;
}

static int write_long(struct json_writer *json, struct error *err)
{
	json_begin_array(json);
	for (int i = 0; i < 100000; i++) {
		json_begin_object(json);
		json_member_int(json, "number", i);
		json_member_cstring(json, "text", "\u00e4\n");
		json_end_object(json);
	}
	json_end_array(json);
	return json_finish(json, err);
}

static void test_drained(void **state)
{
	_cleanup_(buffer_release) struct buffer whole = {.max = GIB}, out = {.max = GIB};
	struct drained drained = {.from = &out, .text.max = GIB, .pieces_max = UINT32_MAX};
	struct json_writer json = {.out = &whole};
	struct error err = {0};
	assert_int_equal(write_long(&json, &err), 0);
	json = (struct json_writer){.out = &out, .drain = take, .context = &drained};
	assert_int_equal(write_long(&json, &err), 0);
	assert_true(drained.pieces > 2);
	buffer_append(&drained.text, out.data, out.len);
	assert_true(bytes_equal(buffer_bytes(&drained.text), buffer_bytes(&whole)));
	/* Nothing more is written when nothing more is wanted. */
	buffer_clear(&out);
	drained.pieces = 0;
	drained.pieces_max = 1;
	json = (struct json_writer){.out = &out, .drain = take, .context = &drained};
	assert_int_equal(write_long(&json, &err), -ECANCELED);
	assert_int_equal(drained.pieces, 2);
	assert_true(out.len < 2 * JSON_DRAIN_BYTES);
	buffer_release(&drained.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_document), cmocka_unit_test(test_strings),   cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_decimals), cmocka_unit_test(test_read_back), cmocka_unit_test(test_deep),
		cmocka_unit_test(test_limits),	 cmocka_unit_test(test_drained),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
