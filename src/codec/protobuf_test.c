/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/limits.h"
#include "codec/protobuf.h"

/* Copies the bytes into a heap block of exactly their size, so that the sanitizer sees a read past the end. */
static int next_of(const char *data, size_t len, struct pb_field *field, struct error *err)
{
	uint8_t *copy = malloc(len ? len : 1);
	memcpy(copy, data, len);
	struct pb_cursor cursor = pb_open((struct bytes){copy, len});
	int r = pb_next(&cursor, field, err);
	if (r < 0)
		assert_ptr_equal(cursor.at, copy);
	if (r == 0)
		assert_int_equal(len, 0);
	free(copy);
	return r;
}
#define NEXT(literal, field, err) next_of(literal, sizeof(literal) - 1, field, err)

static void test_read(void **state)
{
	struct pb_field field;
	assert_int_equal(NEXT("", &field, NULL), 0);
	assert_int_equal(NEXT("\x08\x96\x01", &field, NULL), 1);
	assert_int_equal(field.number, 1);
	assert_int_equal(field.wire, PB_VARINT);
	assert_int_equal(field.value, 150);
	assert_int_equal(NEXT("\x12\x03xyz", &field, NULL), 1);
	assert_int_equal(field.number, 2);
	assert_int_equal(field.wire, PB_BYTES);
	assert_int_equal(field.bytes.len, 3);
	assert_int_equal(NEXT("\x12\x00", &field, NULL), 1);
	assert_int_equal(field.bytes.len, 0);
	assert_int_equal(NEXT("\x19\x01\x02\x03\x04\x05\x06\x07\x08", &field, NULL), 1);
	assert_int_equal(field.wire, PB_FIXED64);
	assert_int_equal(field.value, 0x0807060504030201ull);
	assert_int_equal(NEXT("\x1d\x01\x02\x03\xff", &field, NULL), 1);
	assert_int_equal(field.wire, PB_FIXED32);
	assert_int_equal(field.value, 0xff030201);
}

static void test_varints(void **state)
{
	struct pb_field field;
	/* Not minimal, the largest, and one with bits beyond 64, which are dropped. */
	assert_int_equal(NEXT("\x08\x81\x80\x00", &field, NULL), 1);
	assert_int_equal(field.value, 1);
	assert_int_equal(NEXT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", &field, NULL), 1);
	assert_true(field.value == UINT64_MAX);
	assert_int_equal(NEXT("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", &field, NULL), 1);
	assert_true(field.value == UINT64_MAX);
	assert_int_equal(NEXT("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", &field, NULL), -EBADMSG);
	assert_int_equal(NEXT("\x08\x80", &field, NULL), -EBADMSG);
	assert_int_equal(NEXT("\x08", &field, NULL), -EBADMSG);
	assert_int_equal(NEXT("\x80", &field, NULL), -EBADMSG);
	/* A field number beyond 29 bits can be skipped. */
	assert_int_equal(NEXT("\xf8\xff\xff\xff\xff\x01\x05", &field, NULL), 1);
	assert_true(field.number == UINT32_MAX);
	assert_int_equal(field.value, 5);
}

/* Fields of a short tag and length are read by another path than the rest: on any bytes, cut anywhere, both say the same. */
static void test_short_fields(void **state)
{
	uint64_t random = 1;
	for (unsigned round = 0; round < 200000; round++) {
		static const uint8_t tags[] = {0x08, 0x12, 0x7a, 0x78, 0x0d, 0x09, 0x0b, 0x00, 0x80, 0xfa, 0x02};
		uint8_t bytes[8];
		for (size_t i = 0; i < sizeof(bytes); i++) {
			random = random * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (uint8_t)(random >> 56);
		}
		bytes[0] = round % 3 ? tags[round % sizeof(tags)] : bytes[0];
		bytes[1] = round % 4 ? bytes[1] & 0x87 : bytes[1];
		size_t len = round % (sizeof(bytes) + 1);
		struct pb_field one = {0}, other = {0};
		struct error one_error = {0}, other_error = {0};
		uint8_t *copy = malloc(len ? len : 1);
		memcpy(copy, bytes, len);
		struct pb_cursor first = pb_open((struct bytes){copy, len}), second = first;
		int r = pb_next(&first, &one, &one_error);
		assert_int_equal(pb_next_long(&second, &other, &other_error), r);
		assert_ptr_equal(first.at, second.at);
		assert_string_equal(one_error.message, other_error.message);
		if (r == 1) {
			assert_int_equal(one.number, other.number);
			assert_int_equal(one.wire, other.wire);
			if (one.wire == PB_BYTES)
				assert_true(one.bytes.data == other.bytes.data && one.bytes.len == other.bytes.len);
			else
				assert_true(one.value == other.value);
		}
		free(copy);
	}
}

/* Every length and form of a varint, with anything behind it. */
static void test_quick_varint(void **state)
{
	uint64_t random = 7;
	for (unsigned round = 0; round < 100000; round++) {
		uint8_t bytes[72];
		size_t len = 0;
		random = random * 6364136223846793005ull + 1442695040888963407ull;
		uint64_t value = random >> (round % 64), rest = value, got, expected;
		memset(bytes, (int)(random >> 50), sizeof(bytes));
		for (; rest >= 0x80; rest >>= 7)
			bytes[len++] = (uint8_t)rest | 0x80;
		bytes[len++] = (uint8_t)rest;
		/* In more bytes than it needs. */
		for (unsigned more = round % 7 ? 0 : round % 3; more && len < 10; more--) {
			bytes[len - 1] |= 0x80;
			bytes[len++] = 0;
		}
		struct pb_cursor cursor = pb_open((struct bytes){bytes, sizeof(bytes)});
		assert_int_equal(pb_packed_varint(&cursor, &expected, NULL), 0);
		assert_true(expected == value);
		const uint8_t *next = pb_quick_varint(bytes, &got);
		if (len > 8) {
			assert_null(next);
			continue;
		}
		assert_ptr_equal(next, cursor.at);
		assert_true(got == expected);
	}
}

/* What is read quickly is what pb_next() reads; what it leaves alone may be anything. */
static void test_quick_numbers(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		bool is_quick;
	} cases[] = {
		{"", 0, true},
		{"\x08\x01", 2, true},
		{"\x08\x96\x01\x18\x05", 5, true},
		{"\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\x7f\x18\x00", 13, true},
		{"\x10\x01\x08\x01", 4, false},				     /* not in order */
		{"\x08\x01\x08\x02", 4, false},				     /* twice */
		{"\x08\x01\x20\x02", 4, false},				     /* field 4 */
		{"\x08\x01\x12\x00", 4, false},				     /* no number */
		{"\x08\x01\x15\x00\x00\x00\x00", 7, false},		     /* fixed32 */
		{"\x00\x01", 2, false},					     /* field 0 */
		{"\x08\x01\x80\x01\x05", 5, false},			     /* a long tag */
		{"\x08\x80", 2, false},					     /* cut */
		{"\x08", 1, false},					     /* the same */
		{"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, false}, /* longer than 8 bytes */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[64];
		uint64_t values[4], expected[4] = {0};
		memset(bytes, 1, sizeof(bytes)); /* what is behind it would go on */
		memcpy(bytes, cases[i].data, cases[i].len);
		assert_int_equal(pb_quick_numbers(bytes, bytes + cases[i].len, bytes + sizeof(bytes), 3, values),
				 cases[i].is_quick);
		/* At the end of the input there is nothing to look at beyond it. */
		uint8_t *copy = malloc(cases[i].len ? cases[i].len : 1);
		memcpy(copy, cases[i].data, cases[i].len);
		assert_int_equal(pb_quick_numbers(copy, copy + cases[i].len, copy + cases[i].len, 3, values),
				 cases[i].len == 0);
		free(copy);
		if (!cases[i].is_quick)
			continue;
		assert_true(pb_quick_numbers(bytes, bytes + cases[i].len, bytes + sizeof(bytes), 3, values));
		struct pb_cursor cursor = pb_open((struct bytes){bytes, cases[i].len});
		struct pb_field field;
		while (pb_next(&cursor, &field, NULL) > 0)
			expected[field.number] = field.value;
		for (size_t number = 1; number < 4; number++)
			assert_true(values[number] == expected[number]);
	}
}

static void test_malformed(void **state)
{
	static const struct {
		const char *data;
		size_t len;
		const char *expected_message;
	} cases[] = {
		{"\x00\x01", 2, "field number 0"},
		{"\x0b", 1, "wire type 3"},
		{"\x0c", 1, "wire type 4"},
		{"\x0e", 1, "wire type 6"},
		{"\x0f", 1, "wire type 7"},
		{"\x12\x04xyz", 5, "field 2 at byte 0 needs 4 bytes, 3 are left"},
		{"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "0 are left"},
		{"\x12", 1, "truncated"},
		{"\x19\x01\x02\x03\x04\x05\x06\x07", 8, "needs 8 bytes, 7 are left"},
		{"\x1d\x01\x02\x03", 4, "needs 4 bytes, 3 are left"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pb_field field;
		struct error err = {0};
		assert_int_equal(next_of(cases[i].data, cases[i].len, &field, &err), -EBADMSG);
		if (!strstr(err.message, cases[i].expected_message))
			fail_msg("case %zu: \"%s\" does not say \"%s\"", i, err.message, cases[i].expected_message);
	}
}

static void test_expect(void **state)
{
	struct pb_field field;
	struct error err;
	struct pb_cursor cursor = pb_open(bytes_of_string("\x08\x01"));
	assert_int_equal(pb_next(&cursor, &field, NULL), 1);
	assert_int_equal(pb_expect(&cursor, &field, PB_VARINT, "Profile.period", &err), 0);
	assert_int_equal(pb_expect(&cursor, &field, PB_BYTES, "Profile.sample", &err), -EBADMSG);
	assert_string_equal(err.message, "Profile.sample: wire type varint, expected bytes at byte 2");
}

static void test_nested_offsets(void **state)
{
	struct pb_field field;
	struct error err;
	struct pb_cursor outer = pb_open(bytes_of_string("\x08\x01\x12\x02\x08\x80"));
	assert_int_equal(pb_next(&outer, &field, NULL), 1);
	assert_int_equal(pb_next(&outer, &field, NULL), 1);
	struct pb_cursor inner = pb_open_nested(&outer, field.bytes);
	assert_int_equal(pb_next(&inner, &field, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "byte 5"));
}

static const uint64_t edges[] = {0, 1, 127, 128, 16383, 16384, 1ull << 32, (1ull << 63) - 1, 1ull << 63, UINT64_MAX};
#define EDGE_COUNT (sizeof(edges) / sizeof(edges[0]))

static int write_all(struct buffer *out)
{
	size_t mark, inner;
	int r = 0;
	for (size_t i = 0; i < EDGE_COUNT && r == 0; i++)
		r = pb_write_varint(out, (uint32_t)i + 1, edges[i]);
	if (r == 0)
		r = pb_write_fixed64(out, 20, 0x0102030405060708ull);
	if (r == 0)
		r = pb_write_string(out, (1u << 29) - 1, "name");
	if (r == 0)
		r = pb_write_packed(out, 30, edges, EDGE_COUNT);
	if (r == 0)
		r = pb_write_packed(out, 31, NULL, 0);
	if (r == 0)
		r = pb_begin(out, 40, &mark);
	if (r == 0)
		r = pb_begin(out, 41, &inner);
	for (int i = 0; i < 100 && r == 0; i++)
		r = pb_write_string(out, 1, "0123456789");
	if (r == 0)
		r = pb_end(out, inner);
	return r < 0 ? r : pb_end(out, mark);
}

static struct pb_field read_one(struct pb_cursor *cursor, uint32_t number, enum pb_wire wire)
{
	struct pb_field field;
	assert_int_equal(pb_next(cursor, &field, NULL), 1);
	assert_int_equal(field.number, number);
	assert_int_equal(field.wire, wire);
	return field;
}

static void test_write_and_read(void **state)
{
	struct buffer out;
	buffer_init(&out, 64 * KIB);
	assert_int_equal(write_all(&out), 0);
	struct pb_cursor cursor = pb_open(buffer_bytes(&out));
	for (uint32_t i = 0; i < EDGE_COUNT; i++)
		assert_true(read_one(&cursor, i + 1, PB_VARINT).value == edges[i]);
	assert_true(read_one(&cursor, 20, PB_FIXED64).value == 0x0102030405060708ull);
	assert_true(bytes_equal_string(read_one(&cursor, (1u << 29) - 1, PB_BYTES).bytes, "name"));
	struct pb_cursor packed = pb_open_nested(&cursor, read_one(&cursor, 30, PB_BYTES).bytes);
	for (size_t i = 0; i < EDGE_COUNT; i++) {
		uint64_t value;
		assert_int_equal(pb_packed_varint(&packed, &value, NULL), 0);
		assert_true(value == edges[i]);
	}
	assert_ptr_equal(packed.at, packed.end);
	struct pb_cursor nested = pb_open_nested(&cursor, read_one(&cursor, 40, PB_BYTES).bytes);
	packed = pb_open_nested(&nested, read_one(&nested, 41, PB_BYTES).bytes);
	for (int i = 0; i < 100; i++)
		assert_true(bytes_equal_string(read_one(&packed, 1, PB_BYTES).bytes, "0123456789"));
	struct pb_field field;
	assert_int_equal(pb_next(&packed, &field, NULL), 0);
	assert_int_equal(pb_next(&nested, &field, NULL), 0);
	assert_int_equal(pb_next(&cursor, &field, NULL), 0);
	buffer_release(&out);
}

static void test_write_limits(void **state)
{
	struct buffer out;
	buffer_init(&out, 64 * KIB);
	assert_int_equal(write_all(&out), 0);
	size_t full = out.len;
	buffer_release(&out);
	for (size_t max = 0; max < full; max++) {
		buffer_init(&out, max);
		assert_int_equal(write_all(&out), -E2BIG);
		assert_true(out.len <= max);
		buffer_release(&out);
	}
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		buffer_init(&out, 64 * KIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = write_all(&out);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		buffer_release(&out);
	}
}

static void test_varint_size(void **state)
{
	for (size_t i = 0; i < EDGE_COUNT; i++) {
		struct buffer out;
		buffer_init(&out, 16);
		assert_int_equal(pb_write_raw_varint(&out, edges[i]), 0);
		assert_int_equal(out.len, pb_varint_size(edges[i]));
		buffer_release(&out);
	}
}

static void test_what_proto3_leaves_out(void **state)
{
	struct buffer out;
	buffer_init(&out, 64);
	assert_int_equal(pb_put_varint(&out, 1, 0), 0);
	assert_int_equal(pb_put_double(&out, 2, 0), 0);
	assert_int_equal(pb_put_string(&out, 3, ""), 0);
	assert_int_equal(out.len, 0);
	assert_int_equal(pb_put_varint(&out, 1, 150), 0);
	assert_int_equal(pb_put_double(&out, 2, -0.0), 0); /* which is not 0 to proto3 */
	assert_int_equal(pb_put_string(&out, 3, "xyz"), 0);
	assert_int_equal(pb_write_text(&out, 4, (struct bytes){0}), 0);
	assert_int_equal(pb_put_text(&out, 3, bytes_of_string("a\xff")), 0);
	static const char expected[] = "\x08\x96\x01\x11\0\0\0\0\0\0\0\x80\x1a\x03xyz\x22\0\x1a\x04"
				       "a\xef\xbf\xbd";
	assert_int_equal(out.len, sizeof(expected) - 1);
	assert_memory_equal(out.data, expected, out.len);
	struct bytes found;
	assert_int_equal(pb_find_bytes(NULL, buffer_bytes(&out), 3, &found, NULL), 0);
	assert_true(bytes_equal_string(found, "a\xef\xbf\xbd"));		       /* the last */
	assert_int_equal(pb_find_bytes(NULL, buffer_bytes(&out), 1, &found, NULL), 0); /* a number */
	assert_int_equal(found.len, 0);
	assert_int_equal(pb_find_bytes(NULL, (struct bytes){out.data, out.len - 1}, 1, &found, NULL), -EBADMSG);
	buffer_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),	       cmocka_unit_test(test_varints),
		cmocka_unit_test(test_short_fields),   cmocka_unit_test(test_quick_varint),
		cmocka_unit_test(test_quick_numbers),  cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_expect),	       cmocka_unit_test(test_nested_offsets),
		cmocka_unit_test(test_write_and_read), cmocka_unit_test(test_write_limits),
		cmocka_unit_test(test_varint_size),    cmocka_unit_test(test_what_proto3_leaves_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
