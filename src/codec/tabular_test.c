/* SPDX-License-Identifier: Apache-2.0 */
/* That others read Arrow and Parquet is tested with Apache Arrow's own library and DuckDB: tests/convert/tables.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/fault.h"
#include "codec/tabular.h"
#include "codec/test_parquet_bytes.h"

#define ROWS 4
static const uint8_t present[ROWS] = {1, 0, 1, 1}, flags[ROWS] = {1, 0, 0, 1};
static const int64_t integers[ROWS] = {INT64_MIN, 7, 0, INT64_MAX};
static const double numbers[ROWS] = {0.1, 1e300, -0.5, 3};
static const int64_t times[ROWS] = {0, 1700000000123000000, -1, 1700000000000001000};
static const struct bytes texts[ROWS] = {
	{(const uint8_t *)"a,b", 3}, {(const uint8_t *)"x", 1}, {(const uint8_t *)"", 0}, {(const uint8_t *)"say \"hi\"\n", 9}};
static const struct tabular_column columns[] = {
	{.name = "when", .type = TABULAR_TIME},
	{.name = "count", .unit = "bytes", .type = TABULAR_INTEGER, .optional = true},
	{.name = "share, of all", .type = TABULAR_NUMBER},
	{.name = "text", .type = TABULAR_TEXT, .optional = true},
	{.name = "flag", .type = TABULAR_FLAG},
};
static const struct tabular_cells cells[] = {{.i64 = times},
					     {.present = present, .i64 = integers},
					     {.f64 = numbers},
					     {.present = present, .bytes = texts},
					     {.flags = flags}};
static const struct tabular_fact facts[] = {{"query", "process_cpu"}};
static const struct tabular_options options = {.columns = columns, .column_count = 5, .facts = facts, .fact_count = 1};

static int write_all(enum tabular_format format, int calls, struct buffer *out, struct error *err)
{
	_cleanup_(tabular_writer_freep) struct tabular_writer *writer = NULL;
	int r = tabular_writer_open(format, &options, out, &writer, err);
	for (int i = 0; !r && i < calls; i++)
		r = tabular_writer_rows(writer, cells, ROWS, err);
	return r < 0 ? r : tabular_writer_finish(writer, NULL, NULL, err);
}

static void test_csv(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	assert_int_equal(write_all(TABULAR_CSV, 1, &out, NULL), 0);
	assert_string_equal(buffer_string(&out),
			    "when,count,\"share, of all\",text,flag\n"
			    "1970-01-01T00:00:00Z,-9223372036854775808,0.1,\"a,b\",true\n"
			    "2023-11-14T22:13:20.123Z,,1e+300,,false\n"
			    "1969-12-31T23:59:59.999999999Z,0,-0.5,\"\",false\n"
			    "2023-11-14T22:13:20.000001Z,9223372036854775807,3,\"say \"\"hi\"\"\n\",true\n");
}

/* A number that is none has no place in CSV: its cell is empty. */
static void test_csv_not_finite(void **state)
{
	(void)state;
	static const struct tabular_column column = {.name = "n", .type = TABULAR_NUMBER};
	const double values[] = {NAN, INFINITY, 1};
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	_cleanup_(tabular_writer_freep) struct tabular_writer *writer = NULL;
	const struct tabular_options one = {.columns = &column, .column_count = 1};
	assert_int_equal(tabular_writer_open(TABULAR_CSV, &one, &out, &writer, NULL), 0);
	assert_int_equal(tabular_writer_rows(writer, &(struct tabular_cells){.f64 = values}, 3, NULL), 0);
	assert_int_equal(tabular_writer_finish(writer, NULL, NULL, NULL), 0);
	assert_string_equal(buffer_string(&out), "n\n\n\n1\n");
}

static void test_parquet(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	struct parquet_file *file;
	struct parquet_data data = {0};
	assert_int_equal(write_all(TABULAR_PARQUET, 2, &out, NULL), 0);
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&out), NULL, &file, NULL), 0);
	assert_int_equal(parquet_rows(file), 2 * ROWS);
	assert_int_equal(parquet_group_count(file), 2);
	assert_int_equal(parquet_read(file, 1, 3, &data, NULL), 0);
	for (size_t i = 0; i < ROWS; i++) {
		assert_int_equal(data.present[i], present[i]);
		if (present[i])
			assert_true(bytes_equal(data.bytes[i], texts[i]));
	}
	parquet_data_release(&data);
	parquet_close(file);
}

static int count_and_take(void *context, struct error *err)
{
	struct buffer *out = context;
	(void)err;
	assert_true(out->len > 0);
	buffer_clear(out);
	return 0;
}

/* A Parquet file goes out in pieces, and the buffer holds one of them. */
static void test_drain(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	_cleanup_(tabular_writer_freep) struct tabular_writer *writer = NULL;
	assert_int_equal(tabular_writer_open(TABULAR_PARQUET, &options, &out, &writer, NULL), 0);
	assert_int_equal(tabular_writer_rows(writer, cells, ROWS, NULL), 0);
	assert_int_equal(out.len, 0);
	assert_int_equal(tabular_writer_finish(writer, count_and_take, &out, NULL), 0);
	assert_int_equal(out.len, 0);
}

static void test_limits(void **state)
{
	(void)state;
	struct error err = {0};
	for (int format = TABULAR_ARROW; format <= TABULAR_CSV; format++) {
		_cleanup_(buffer_release) struct buffer out = {.max = 200};
		assert_int_equal(write_all((enum tabular_format)format, 3, &out, &err), -E2BIG);
		assert_string_equal(err.message, "the table is too large");
	}
}

static void test_without_memory(void **state)
{
	(void)state;
	for (int format = TABULAR_ARROW; format <= TABULAR_CSV; format++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n++) {
			_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
			fault_arm(FAULT_ALLOC, n, 0);
			int r = write_all((enum tabular_format)format, 1, &out, NULL);
			reached = fault_disarm(FAULT_ALLOC);
			assert_int_equal(r, reached ? -ENOMEM : 0);
		}
	}
}

static void test_names(void **state)
{
	(void)state;
	enum tabular_format format;
	assert_int_equal(tabular_find_format("parquet", &format), 0);
	assert_int_equal(format, TABULAR_PARQUET);
	assert_int_equal(tabular_find_format("Arrow", &format), -ENOENT);
	assert_string_equal(tabular_media_type(TABULAR_ARROW), "application/vnd.apache.arrow.stream");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csv),   cmocka_unit_test(test_csv_not_finite), cmocka_unit_test(test_parquet),
		cmocka_unit_test(test_drain), cmocka_unit_test(test_limits),	     cmocka_unit_test(test_without_memory),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
