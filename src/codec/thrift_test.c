/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "codec/thrift.h"

static void test_round_trip(void **state)
{
	struct buffer out;
	buffer_init(&out, 4096);
	struct thrift_writer w = thrift_begin(&out);
	thrift_write_int(&w, 1, THRIFT_I32, -5);
	thrift_write_int(&w, 2, THRIFT_I64, INT64_MIN);
	thrift_write_bool(&w, 3, true);
	thrift_write_bool(&w, 40, false);
	thrift_write_string(&w, 41, "hello");
	thrift_begin_struct(&w, 42);
	thrift_write_i8(&w, 7, -1);
	thrift_write_int(&w, 8, THRIFT_I16, 300);
	thrift_end_struct(&w);
	thrift_begin_list(&w, 43, THRIFT_I32, 20);
	for (int i = 0; i < 20; i++)
		thrift_put_int(&w, i - 10);
	thrift_begin_list(&w, 44, THRIFT_STRUCT, 1);
	thrift_begin_element(&w);
	thrift_write_int(&w, 1, THRIFT_I32, 9);
	thrift_end_struct(&w);
	thrift_end_struct(&w);
	assert_int_equal(buffer_status(w.out), 0);

	struct thrift_field f = {0}, g = {0};
	uint8_t element;
	struct thrift_reader r = thrift_open(buffer_bytes(&out));
	assert_true(thrift_next(&r, &f) && f.id == 1);
	assert_int_equal(thrift_read_i32(&r, f.type), -5);
	assert_true(thrift_next(&r, &f) && f.id == 2);
	assert_true(thrift_read_int(&r, f.type) == INT64_MIN);
	assert_true(thrift_next(&r, &f) && f.id == 3);
	assert_true(thrift_read_bool(&r, f.type));
	assert_true(thrift_next(&r, &f) && f.id == 40);
	assert_false(thrift_read_bool(&r, f.type));
	assert_true(thrift_next(&r, &f) && f.id == 41);
	assert_true(bytes_equal_string(thrift_read_binary(&r, f.type), "hello"));
	assert_true(thrift_next(&r, &f) && f.id == 42 && f.type == THRIFT_STRUCT);
	assert_true(thrift_next(&r, &g) && g.id == 7);
	assert_int_equal(thrift_read_int(&r, g.type), -1);
	assert_true(thrift_next(&r, &g) && g.id == 8);
	assert_int_equal(thrift_read_int(&r, g.type), 300);
	assert_false(thrift_next(&r, &g));
	assert_true(thrift_next(&r, &f) && f.id == 43);
	assert_int_equal(thrift_read_list(&r, f.type, &element), 20);
	for (int i = 0; i < 20; i++)
		assert_int_equal(thrift_read_i32(&r, element), i - 10);
	assert_true(thrift_next(&r, &f) && f.id == 44);
	thrift_skip(&r, f.type);
	assert_false(thrift_next(&r, &f));
	assert_null(r.fault);
	assert_int_equal(r.at, out.len);

	/* Skipping everything ends at the same place; every truncation is a fault. */
	for (size_t len = 0; len <= out.len; len++) {
		r = thrift_open((struct bytes){out.data, len});
		f = (struct thrift_field){0};
		while (thrift_next(&r, &f))
			thrift_skip(&r, f.type);
		assert_int_equal(r.fault == NULL, len == out.len);
	}
	buffer_release(&out);
}

static void test_writer_reports_a_full_buffer(void **state)
{
	struct buffer out;
	struct thrift_writer w = thrift_begin(&out);
	buffer_init(&out, 3);
	thrift_write_string(&w, 1, "too long");
	thrift_end_struct(&w);
	assert_int_equal(buffer_status(w.out), -E2BIG);
	buffer_release(&out);
}

static const char *fault_of(const char *data, size_t len)
{
	struct thrift_field f = {0};
	struct thrift_reader r = thrift_open((struct bytes){(const uint8_t *)data, len});
	while (thrift_next(&r, &f))
		thrift_skip(&r, f.type);
	return r.fault;
}

static void test_malformed(void **state)
{
	assert_non_null(fault_of("", 0));
	assert_non_null(fault_of("\x1d\x00", 2));					   /* type 13 */
	assert_non_null(fault_of("\x16\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12)); /* varint of 11 bytes */
	assert_non_null(fault_of("\x18\x7f"
				 "abc",
				 5));				      /* string past the end */
	assert_non_null(fault_of("\x19\xf5\xff\xff\xff\xff\x0f", 7)); /* list of 2^32 */
	assert_non_null(fault_of("\x1b\x7f\x55", 3));		      /* map past the end */
	assert_null(fault_of("\x1b\x01\x55\x02\x04\x00", 6));	      /* {1: 2} */
	assert_null(fault_of("\x1b\x00\x00", 3));		      /* empty map */
	char deep[4096];
	memset(deep, 0x1c, sizeof(deep)); /* structs in structs */
	assert_non_null(fault_of(deep, sizeof(deep)));
	memset(deep, 0x19, sizeof(deep)); /* lists of one list */
	assert_non_null(fault_of(deep, sizeof(deep)));
}

static void test_wrong_type_is_a_fault(void **state)
{
	struct thrift_field f = {0};
	struct thrift_reader r = thrift_open((struct bytes){(const uint8_t *)"\x15\x02\x00", 3});
	assert_true(thrift_next(&r, &f));
	assert_int_equal(thrift_read_binary(&r, f.type).len, 0);
	assert_non_null(r.fault);
	assert_int_equal(thrift_read_int(&r, THRIFT_I32), 0);
	assert_false(thrift_next(&r, &f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_writer_reports_a_full_buffer),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_wrong_type_is_a_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
