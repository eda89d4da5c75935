/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "codec/base64.h"
#include "codec/protobuf.h"
#include "codec/protobuf_json.h"

/* One field of each kind, as protobuf's own conformance messages have. */
static const struct pb_json_enum colours[] = {{"COLOUR_UNSPECIFIED", 0}, {"RED", 1}, {"BLUE", -2}, {NULL, 0}};
static const struct pb_json_message all;
static const struct pb_json_field entry_fields[] = {{.name = "key", .number = 1, .kind = PB_JSON_STRING},
						    {.name = "value", .number = 2, .kind = PB_JSON_INT64}};
static const struct pb_json_message entry = {"Entry", entry_fields, 2};
static const struct pb_json_field flag_fields[] = {{.name = "key", .number = 1, .kind = PB_JSON_BOOL},
						   {.name = "value", .number = 2, .kind = PB_JSON_MESSAGE, .message = &all}};
static const struct pb_json_message flag = {"Flag", flag_fields, 2};
static const struct pb_json_field all_fields[] = {
	{.name = "int32", .number = 1, .kind = PB_JSON_INT32},
	{.name = "int64", .number = 2, .kind = PB_JSON_INT64},
	{.name = "uint32", .number = 3, .kind = PB_JSON_UINT32},
	{.name = "uint64", .number = 4, .kind = PB_JSON_UINT64},
	{.name = "sint32", .number = 5, .kind = PB_JSON_SINT32},
	{.name = "sint64", .number = 6, .kind = PB_JSON_SINT64},
	{.name = "fixed32", .number = 7, .kind = PB_JSON_FIXED32},
	{.name = "fixed64", .number = 8, .kind = PB_JSON_FIXED64},
	{.name = "sfixed32", .number = 9, .kind = PB_JSON_SFIXED32},
	{.name = "sfixed64", .number = 10, .kind = PB_JSON_SFIXED64},
	{.name = "float", .number = 11, .kind = PB_JSON_FLOAT},
	{.name = "double", .number = 12, .kind = PB_JSON_DOUBLE},
	{.name = "bool", .number = 13, .kind = PB_JSON_BOOL},
	{.name = "string", .number = 14, .kind = PB_JSON_STRING},
	{.name = "bytes", .number = 15, .kind = PB_JSON_BYTES},
	{.name = "hexId", .number = 16, .kind = PB_JSON_HEX},
	{.name = "colour", .number = 17, .kind = PB_JSON_ENUM, .names = colours},
	{.name = "nested", .number = 18, .kind = PB_JSON_MESSAGE, .message = &all},
	{.name = "counts", .number = 19, .kind = PB_JSON_MAP, .message = &entry},
	{.name = "when", .number = 20, .kind = PB_JSON_TIMESTAMP},
	{.name = "took", .number = 21, .kind = PB_JSON_DURATION},
	{.name = "numbers", .number = 22, .kind = PB_JSON_SINT64, .repeated = true},
	{.name = "reals", .number = 23, .kind = PB_JSON_DOUBLE, .repeated = true},
	{.name = "texts", .number = 24, .kind = PB_JSON_STRING, .repeated = true},
	{.name = "list", .number = 25, .kind = PB_JSON_MESSAGE, .repeated = true, .message = &all},
	{.name = "flags", .number = 26, .kind = PB_JSON_MAP, .message = &flag},
	{.name = "maybe", .number = 27, .kind = PB_JSON_INT64, .explicit_presence = true},
	{.name = "profileTypeID", .number = 28, .kind = PB_JSON_STRING},
};
static const struct pb_json_message all = {"All", all_fields, sizeof(all_fields) / sizeof(all_fields[0])};

static int to_binary(const char *json, struct buffer *out, struct error *err)
{
	buffer_init(out, 64 * KIB);
	return pb_json_to_binary(bytes_of_string(json), &all, out, err);
}

/* JSON to binary and back; `expected` is what protobuf's own printers write. */
static void check_round(const char *json, const char *expected)
{
	struct buffer binary, text;
	struct error err = {0};
	if (to_binary(json, &binary, &err) < 0)
		fail_msg("%s: %s", json, err.message);
	buffer_init(&text, 64 * KIB);
	if (pb_json_from_binary(buffer_bytes(&binary), &all, &text, &err) < 0)
		fail_msg("%s: back: %s", json, err.message);
	assert_string_equal(buffer_string(&text), expected);
	buffer_release(&binary);
	buffer_release(&text);
}

static void test_kinds(void **state)
{
	(void)state;
	static const char *const same[] = {
		"{}",
		"{\"int32\":-2147483648,\"int64\":\"-9223372036854775808\",\"uint32\":4294967295,"
		"\"uint64\":\"18446744073709551615\"}",
		"{\"sint32\":-2147483648,\"sint64\":\"9223372036854775807\",\"fixed32\":4294967295,"
		"\"fixed64\":\"18446744073709551615\",\"sfixed32\":-1,\"sfixed64\":\"-2\"}",
		"{\"float\":0.1,\"double\":0.1,\"bool\":true,\"string\":\"\\\"\xc3\xa4\"}",
		"{\"float\":\"-Infinity\",\"double\":\"NaN\"}",
		"{\"bytes\":\"AP/+\",\"hexId\":\"00ff10\",\"colour\":\"BLUE\"}",
		"{\"colour\":77}",
		"{\"nested\":{\"nested\":{}}}",
		"{\"counts\":{\"a\":\"1\",\"\":\"0\"}}",
		"{\"flags\":{\"true\":{\"int32\":1},\"false\":{}}}",
		"{\"numbers\":[\"0\",\"-1\",\"5000000000\"],\"reals\":[0,1.5],\"texts\":[\"\",\"b\"],\"list\":[{},{\"bool\":"
		"true}]}",
		"{\"maybe\":\"0\"}",
		"{\"when\":\"2026-11-21T10:00:00Z\",\"took\":\"0s\"}",
		"{\"when\":\"1969-12-31T23:59:59.500Z\",\"took\":\"-1.000001s\"}",
		"{\"when\":\"2026-11-21T10:00:00.000000001Z\",\"took\":\"315576000000s\"}",
	};
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		check_round(same[i], same[i]);
}

static void test_leniency(void **state)
{
	(void)state;
	check_round("{\"int64\": 12, \"uint64\":\"1e3\", \"fixed64\":5.0, \"double\":\"2.5\", \"int32\":\"7\"}",
		    "{\"int32\":7,\"int64\":\"12\",\"uint64\":\"1000\",\"fixed64\":\"5\",\"double\":2.5}");
	check_round("{\"hex_id\":\"AB\",\"profile_typeID\":\"x\"}", "{\"hexId\":\"ab\",\"profileTypeID\":\"x\"}");
	check_round("{\"bytes\":\"-_8\"}", "{\"bytes\":\"+/8=\"}");
	check_round("{\"colour\":1,\"bool\":null,\"list\":null,\"nested\":null}", "{\"colour\":\"RED\"}");
	check_round("{\"unknown\":{\"deep\":[1,{\"int32\":[{}]}]},\"int32\":1,\"other\":[[]],\"x\":null}", "{\"int32\":1}");
	check_round("{\"int32\":1,\"int32\":2,\"texts\":[\"a\"],\"texts\":[\"b\"]}", "{\"int32\":2,\"texts\":[\"a\",\"b\"]}");
	check_round("{\"int32\":0,\"int64\":\"0\",\"string\":\"\",\"bool\":false,\"colour\":0,\"numbers\":[]}", "{}");
	check_round("{\"when\":\"2026-11-21T12:30:00+02:30\"}", "{\"when\":\"2026-11-21T10:00:00Z\"}");
	check_round("{\"counts\":{\"a\":null}}", "{\"counts\":{\"a\":\"0\"}}");
}

static void check_refused(const char *json, int code, const char *expected_message)
{
	struct buffer out;
	struct error err = {0};
	assert_int_equal(to_binary(json, &out, &err), code);
	if (!strstr(err.message, expected_message))
		fail_msg("%s: \"%s\" does not say \"%s\"", json, err.message, expected_message);
	buffer_release(&out);
}

static void test_refusals(void **state)
{
	(void)state;
	check_refused("", -EBADMSG, "not JSON");
	check_refused("[]", -EBADMSG, "expected an object");
	check_refused("1", -EBADMSG, "expected an object");
	check_refused("null", -EBADMSG, "expected an object");
	check_refused("{} {}", -EBADMSG, "not JSON");
	check_refused("{\"int32\":", -EBADMSG, "not JSON");
	check_refused("{\"int32\":2147483648}", -EBADMSG, "All.int32");
	check_refused("{\"uint32\":-1}", -EBADMSG, "All.uint32");
	check_refused("{\"int64\":1.5}", -EBADMSG, "All.int64");
	check_refused("{\"uint64\":1e30}", -EBADMSG, "All.uint64");
	check_refused("{\"float\":1e300}", -EBADMSG, "All.float");
	check_refused("{\"int32\":\"7 \"}", -EBADMSG, "All.int32");
	check_refused("{\"int32\":\"7\\u0000\"}", -EBADMSG, "All.int32");
	check_refused("{\"int32\":[1]}", -EBADMSG, "unexpected array");
	check_refused("{\"int32\":{}}", -EBADMSG, "unexpected object");
	check_refused("{\"numbers\":1}", -EBADMSG, "expected an array");
	check_refused("{\"list\":{}}", -EBADMSG, "expected an array");
	check_refused("{\"list\":[null]}", -EBADMSG, "null in an array");
	check_refused("{\"list\":[[]]}", -EBADMSG, "unexpected array");
	check_refused("{\"counts\":[]}", -EBADMSG, "unexpected array");
	check_refused("{\"counts\":1}", -EBADMSG, "expected an object");
	check_refused("{\"flags\":{\"maybe\":{}}}", -EBADMSG, "a key");
	check_refused("{\"bool\":1}", -EBADMSG, "All.bool");
	check_refused("{\"bool\":\"true\"}", -EBADMSG, "All.bool");
	check_refused("{\"string\":1}", -EBADMSG, "All.string");
	check_refused("{\"nested\":{\"bytes\":\"a\"}}", -EBADMSG, "not base64");
	check_refused("{\"hexId\":\"abc\"}", -EBADMSG, "hexadecimal");
	check_refused("{\"colour\":\"GREEN\"}", -EBADMSG, "All.colour");
	check_refused("{\"when\":\"yesterday\"}", -EBADMSG, "All.when");
	check_refused("{\"when\":\"2026-11-21T10:00:00\"}", -EBADMSG, "All.when");
	check_refused("{\"took\":\"1\"}", -EBADMSG, "All.took");
	check_refused("{\"took\":\"400000000000s\"}", -EBADMSG, "All.took");
}

static void test_depth(void **state)
{
	(void)state;
	struct buffer json;
	buffer_init(&json, 4 * KIB);
	for (int i = 0; i < 100; i++)
		assert_int_equal(buffer_append_string(&json, "{\"nested\":"), 0);
	assert_int_equal(buffer_append_string(&json, "{}"), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(buffer_append_byte(&json, '}'), 0);
	check_refused(buffer_string(&json), -E2BIG, "too deep");
	buffer_release(&json);

	/* The same from the wire: a hundred messages, each the only field of the next. */
	struct buffer binary, text;
	buffer_init(&binary, 64 * KIB);
	size_t marks[100];
	for (int i = 0; i < 100; i++)
		assert_int_equal(pb_begin(&binary, 18, &marks[i]), 0);
	for (int i = 100; i-- > 0;)
		assert_int_equal(pb_end(&binary, marks[i]), 0);
	buffer_init(&text, 64 * KIB);
	struct error err = {0};
	assert_int_equal(pb_json_from_binary(buffer_bytes(&binary), &all, &text, &err), -E2BIG);
	assert_non_null(strstr(err.message, "too deep"));
	buffer_release(&binary);
	buffer_release(&text);
}

static void test_maximum(void **state)
{
	(void)state;
	static const char *const texts[] = {"{\"string\":\"0123456789\"}", "{\"counts\":{\"0123456789\":1}}"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		_cleanup_(buffer_release) struct buffer out = {.max = 8};
		struct error err = {0};
		assert_int_equal(pb_json_to_binary(bytes_of_string(texts[i]), &all, &out, &err), -E2BIG);
		assert_non_null(strstr(err.message, "larger than allowed"));
	}
}

/* Fields in any order, lists in pieces, packed and not: JSON has them together and in the order of the table. */
static void test_spread_fields(void **state)
{
	(void)state;
	struct buffer binary, text;
	buffer_init(&binary, KIB);
	buffer_init(&text, KIB);
	pb_write_string(&binary, 24, "a");
	pb_write_varint(&binary, 22, 3);
	pb_write_varint(&binary, 1, 5);
	pb_write_varint(&binary, 99, 5);
	pb_write_packed(&binary, 22, (const uint64_t[]){1, 2}, 2);
	pb_write_string(&binary, 24, "b");
	pb_write_varint(&binary, 1, 6);
	assert_int_equal(pb_json_from_binary(buffer_bytes(&binary), &all, &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "{\"int32\":6,\"numbers\":[\"-2\",\"-1\",\"1\"],\"texts\":[\"a\",\"b\"]}");
	buffer_release(&binary);
	buffer_release(&text);
}

static void test_bad_binary(void **state)
{
	(void)state;
	static const struct bytes inputs[] = {
		{(const uint8_t *)"\x72\x05", 2},	    /* truncated */
		{(const uint8_t *)"\x70\x01", 2},	    /* string as a varint */
		{(const uint8_t *)"\x92\x01\x01\x08", 4},   /* truncated within */
		{(const uint8_t *)"\xba\x01\x03\0\0\0", 6}, /* three bytes of doubles */
		{(const uint8_t *)"\xa2\x01\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01", 14}, /* a time too far */
	};
	for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
		struct buffer text;
		struct error err = {0};
		buffer_init(&text, KIB);
		assert_int_equal(pb_json_from_binary(inputs[i], &all, &text, &err), -EBADMSG);
		assert_true(err.message[0] != '\0');
		buffer_release(&text);
	}
}

static void test_base64(void **state)
{
	(void)state;
	static const struct {
		const char *text, *data; /* RFC 4648, section 10 */
	} cases[] = {{"", ""},
		     {"Zg==", "f"},
		     {"Zm8=", "fo"},
		     {"Zm9v", "foo"},
		     {"Zm9vYg==", "foob"},
		     {"Zm9vYmE=", "fooba"},
		     {"Zm9vYmFy", "foobar"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buffer out;
		buffer_init(&out, KIB);
		assert_int_equal(base64_decode(bytes_of_string(cases[i].text), &out), 0);
		assert_string_equal(buffer_string(&out), cases[i].data);
		buffer_clear(&out);
		assert_int_equal(base64_encode(bytes_of_string(cases[i].data), &out), 0);
		assert_string_equal(buffer_string(&out), cases[i].text);
		buffer_release(&out);
	}
	static const char *const lenient[][2] = {
		{"Zg", "f"}, {"Zm8", "fo"}, {"-_-_", "\xfb\xff\xbf"}, {"+/-_", "\xfb\xff\xbf"}};
	for (size_t i = 0; i < sizeof(lenient) / sizeof(lenient[0]); i++) {
		struct buffer out;
		buffer_init(&out, KIB);
		assert_int_equal(base64_decode(bytes_of_string(lenient[i][0]), &out), 0);
		assert_string_equal(buffer_string(&out), lenient[i][1]);
		buffer_release(&out);
	}
	static const char *const bad[] = {"Z",	  "Zg=",    "Zm9vY", "Zm9=v",	   "Zg===",    "Zm 9",
					  "====", "Zm9v\n", " Zm9v", "Zm9vZg==\n", "Zg==Zg==", "Zm9v\x80"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct buffer out;
		buffer_init(&out, KIB);
		assert_int_equal(base64_decode(bytes_of_string(bad[i]), &out), -EBADMSG);
		buffer_release(&out);
	}
	/* What writes piece after piece asks only once. */
	struct buffer out;
	buffer_init(&out, KIB);
	assert_int_equal(base64_encode((struct bytes){(const uint8_t *)"", (size_t)INT_MAX}, &out), -E2BIG);
	assert_int_equal(buffer_append_string(&out, "more"), -E2BIG);
	buffer_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),	   cmocka_unit_test(test_leniency), cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_depth),	   cmocka_unit_test(test_maximum),  cmocka_unit_test(test_spread_fields),
		cmocka_unit_test(test_bad_binary), cmocka_unit_test(test_base64),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
