/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of our own writer, whole and damaged. Encodings that it does not write, and streams of others, are read in
 * tests/interop/parca_arrow.mjs; whatever else may come, in fuzz/arrow_fuzz.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <lz4frame.h>
#include <string.h>

#include "base/limits.h"
#include "base/test_faults.h"
#include "codec/arrow/arrow_read.h"
#include "codec/arrow/arrow_write.h"
#include "codec/compress.h"
#include "codec/test_compress.h"

static const struct bytes texts[] = {{(const uint8_t *)"one", 3}, {(const uint8_t *)"", 0}, {(const uint8_t *)"three", 5}};
static const uint32_t ids[] = {0, 1, 0};
static const uint8_t present[] = {1, 0, 1}, flags[] = {0, 1, 1};
static const int64_t numbers[] = {-1, 2, INT64_MAX};
static const int32_t small[] = {-7, 0, 7};
static const int32_t offsets[] = {0, 2, 2, 3};
static const uint32_t items[] = {1, 2, UINT32_MAX};
static const struct arrow_column columns[] = {
	{.name = "text", .kind = ARROW_DICTIONARY, .values = ids, .present = present, .texts = texts, .text_count = 3},
	{.name = "number", .kind = ARROW_INT64, .values = numbers},
	{.name = "small", .kind = ARROW_INT32, .values = small},
	{.name = "flag", .kind = ARROW_BOOL, .values = flags},
	{.name = "list", .kind = ARROW_LIST, .item = ARROW_UINT32, .values = items, .offsets = offsets},
	{.name = "binary", .kind = ARROW_BINARY, .values = texts},
};
#define COLUMNS (sizeof(columns) / sizeof(*columns))

static void write_table(struct buffer *out)
{
	buffer_init(out, SIZE_MAX);
	assert_int_equal(arrow_write_stream(columns, COLUMNS, 3, out, NULL), 0);
}

static void check_texts(const struct arrow_array *table)
{
	struct bytes text;
	assert_int_equal(arrow_get_bytes(&table[0], 0, &text), 1);
	assert_true(bytes_equal_string(text, "one"));
	assert_int_equal(arrow_get_bytes(&table[0], 1, &text), 0);
	for (size_t row = 0; row < 3; row++) {
		assert_int_equal(arrow_get_bytes(&table[5], row, &text), 1);
		assert_true(bytes_equal(text, texts[row]));
	}
	assert_int_equal(arrow_get_bytes(&table[1], 0, &text), -EBADMSG);
}

static void check_numbers(const struct arrow_array *table)
{
	int64_t number;
	for (size_t row = 0; row < 3; row++) {
		assert_int_equal(arrow_get_integer(&table[1], row, &number), 1);
		assert_int_equal(number, numbers[row]);
		assert_int_equal(arrow_get_integer(&table[2], row, &number), 1);
		assert_int_equal(number, small[row]);
		assert_int_equal(arrow_get_integer(&table[3], row, &number), 1);
		assert_int_equal(number, flags[row]);
	}
	assert_int_equal(arrow_get_integer(&table[1], 3, &number), -EBADMSG);
	assert_int_equal(arrow_get_integer(&table[0], 0, &number), -EBADMSG);
}

static void check_lists(const struct arrow_array *table)
{
	const struct arrow_array *array;
	size_t first, count;
	int64_t number;
	for (size_t row = 0; row < 3; row++) {
		assert_int_equal(arrow_get_list(&table[4], row, &array, &first, &count), 1);
		assert_int_equal(first, offsets[row]);
		assert_int_equal(count, offsets[row + 1] - offsets[row]);
	}
	assert_int_equal(arrow_get_integer(array, first, &number), 1);
	assert_int_equal(number, UINT32_MAX);
}

static void test_what_is_written_is_read(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	_cleanup_(arrow_stream_freep) struct arrow_stream *stream = NULL;
	const struct arrow_array *table;
	struct bytes value;
	size_t rows, count;
	write_table(&out);
	assert_int_equal(arrow_stream_open(buffer_bytes(&out), MIB, &stream, NULL), 0);
	const struct arrow_field *fields = arrow_stream_fields(stream, &count);
	assert_int_equal(count, COLUMNS);
	for (size_t i = 0; i < COLUMNS; i++)
		assert_int_equal(arrow_find_field(fields, count, columns[i].name), i);
	assert_int_equal(arrow_find_field(fields, count, "other"), -1);
	assert_false(arrow_stream_metadata(stream, "key", &value));
	assert_int_equal(arrow_stream_next(stream, &table, &rows, NULL), 1);
	assert_int_equal(rows, 3);
	check_texts(table);
	check_numbers(table);
	check_lists(table);
	assert_int_equal(arrow_stream_next(stream, &table, &rows, NULL), 0);
}

/* Reads all there is; the last result. */
static int read_all(struct bytes input, size_t memory_max, size_t *ret_rows)
{
	_cleanup_(arrow_stream_freep) struct arrow_stream *stream = NULL;
	const struct arrow_array *table;
	size_t count, rows;
	*ret_rows = 0;
	int r = arrow_stream_open(input, memory_max, &stream, NULL);
	while (r >= 0 && (r = arrow_stream_next(stream, &table, &rows, NULL)) > 0) {
		arrow_stream_fields(stream, &count);
		*ret_rows += rows;
		for (size_t i = 0; i < count * 4; i++) {
			struct bytes text;
			const struct arrow_array *list;
			int64_t number;
			size_t first, len;
			arrow_get_bytes(&table[i / 4], i % 4, &text);
			arrow_get_integer(&table[i / 4], i % 4, &number);
			arrow_get_list(&table[i / 4], i % 4, &list, &first, &len);
		}
	}
	return r;
}

/* It may end between messages; anywhere else it is cut off. */
static void test_cut_off(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	size_t rows, whole = 0;
	write_table(&out);
	for (size_t len = 0; len < out.len; len++) {
		int r = read_all((struct bytes){out.data, len}, MIB, &rows);
		assert_true(r == 0 || r == -EBADMSG);
		whole += r == 0;
	}
	assert_int_equal(whole, 3); /* after the schema, the dictionary, the batch */
}

static void test_damaged(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	size_t rows, refused = 0;
	write_table(&out);
	for (size_t i = 0; i < out.len * 8; i++) {
		out.data[i / 8] ^= (uint8_t)(1u << i % 8);
		int r = read_all(buffer_bytes(&out), MIB, &rows);
		assert_true(r == 0 || r == -EBADMSG || r == -E2BIG);
		refused += r < 0;
		out.data[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	assert_true(refused > 100);
	assert_int_equal(read_all(buffer_bytes(&out), MIB, &rows), 0);
	assert_int_equal(rows, 3);
}

static void test_limits(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	size_t rows;
	write_table(&out);
	assert_int_equal(read_all(buffer_bytes(&out), 64, &rows), -E2BIG);
}

static int read_table(void *context)
{
	const struct buffer *table = context;
	size_t rows;
	return read_all(buffer_bytes(table), MIB, &rows);
}

static void test_without_memory(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	write_table(&out);
	test_each_allocation(read_table, &out);
}

static void test_frames(void **state)
{
	(void)state;
	uint8_t text[1000], packed[2000], back[sizeof(text)];
	struct error err = {0};
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i % 7 * (i / 100));
	size_t len = LZ4F_compressFrame(packed, sizeof(packed), text, sizeof(text), NULL);
	assert_false(LZ4F_isError(len));
	assert_int_equal(lz4_decompress_exactly((struct bytes){packed, len}, back, sizeof(back), &err), 0);
	assert_memory_equal(text, back, sizeof(text));
	assert_int_equal(lz4_decompress_exactly((struct bytes){packed, len}, back, sizeof(back) - 1, &err), -EBADMSG);
	assert_int_equal(lz4_decompress_exactly((struct bytes){packed, len - 5}, back, sizeof(back), &err), -EBADMSG);
	assert_non_null(strstr(err.message, "LZ4"));
	_cleanup_(buffer_release) struct buffer out = {0};
	_cleanup_(zstd_stream_release) struct zstd_stream *zstd = NULL;
	buffer_init(&out, MIB);
	assert_int_equal(test_zstd_compress((struct bytes){text, sizeof(text)}, 3, &out, NULL), 0);
	assert_int_equal(zstd_decompress_exactly(&zstd, buffer_bytes(&out), back, sizeof(back), &err), 0);
	assert_memory_equal(text, back, sizeof(text));
	assert_int_equal(zstd_decompress_exactly(&zstd, buffer_bytes(&out), back, sizeof(back) - 1, &err), -EBADMSG);
	out.len--;
	assert_int_equal(zstd_decompress_exactly(&zstd, buffer_bytes(&out), back, sizeof(back), &err), -EBADMSG);
	out.len++;
	memset(back, 1, sizeof(back));
	assert_int_equal(zstd_decompress_exactly(&zstd, buffer_bytes(&out), back, sizeof(back), &err), 0);
	assert_memory_equal(text, back, sizeof(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_written_is_read),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_without_memory),
		cmocka_unit_test(test_frames),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
