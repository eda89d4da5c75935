/* SPDX-License-Identifier: Apache-2.0 */
/* That others read these streams is tested with Apache Arrow's own library: tests/interop/parca_query.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "codec/arrow/arrow_write.h"

static const struct bytes texts[] = {{(const uint8_t *)"one", 3}, {(const uint8_t *)"", 0}};
static const uint32_t ids[] = {0, 1, 0};
static const uint8_t present[] = {1, 0, 1}, flags[] = {0, 1, 1};
static const int64_t numbers[] = {-1, 2, INT64_MAX};
static const int32_t offsets[] = {0, 2, 2, 3};
static const uint32_t items[] = {1, 2, 7};
static const struct arrow_column columns[] = {
	{.name = "text", .kind = ARROW_DICTIONARY, .values = ids, .present = present, .texts = texts, .text_count = 2},
	{.name = "number", .kind = ARROW_INT64, .values = numbers},
	{.name = "flag", .kind = ARROW_BOOL, .values = flags},
	{.name = "list", .kind = ARROW_LIST, .item = ARROW_UINT32, .values = items, .present = present, .offsets = offsets},
	{.name = "narrow",
	 .kind = ARROW_DICTIONARY,
	 .item = ARROW_UINT16,
	 .is_utf8 = true,
	 .values = ids,
	 .texts = texts,
	 .text_count = 2},
	{.name = "byte", .kind = ARROW_UINT8, .values = flags},
};
#define COLUMNS (sizeof(columns) / sizeof(*columns))

static uint32_t number_at(const struct buffer *stream, size_t at)
{
	uint32_t value;
	assert_true(at + 4 <= stream->len);
	memcpy(&value, stream->data + at, 4);
	return value;
}

/* The 64-bit field `slot` of the table that a flatbuffer's first reference leads to; 0 if it is not there. */
static int64_t long_of_root(const struct buffer *stream, size_t flat, unsigned slot)
{
	size_t table = flat + number_at(stream, flat);
	int32_t distance = (int32_t)number_at(stream, table);
	size_t offsets_at = (size_t)((int64_t)table - distance) + 4 + 2 * (size_t)slot;
	uint16_t offset;
	int64_t value = 0;
	memcpy(&offset, stream->data + offsets_at, 2);
	if (offset)
		memcpy(&value, stream->data + table + offset, 8);
	assert_true(!offset || (table + offset) % 8 == 0);
	return value;
}

static void test_messages(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	size_t at = 0, messages = 0;
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(arrow_write_stream(columns, COLUMNS, 3, &out, NULL), 0);
	for (;; messages++) {
		assert_int_equal(number_at(&out, at), UINT32_MAX);
		uint32_t metadata = number_at(&out, at + 4);
		if (metadata == 0)
			break;
		assert_int_equal(metadata % 8, 0);
		int64_t body = long_of_root(&out, at + 8, 3);
		assert_true(body >= 0 && body % 8 == 0);
		at += 8 + metadata + (size_t)body;
	}
	assert_int_equal(at + 8, out.len);
	assert_int_equal(messages, 4); /* schema, two dictionaries, one batch */
}

static void test_no_rows(void **state)
{
	(void)state;
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, SIZE_MAX);
	assert_int_equal(arrow_write_stream(columns, COLUMNS, 0, &out, NULL), 0);
	assert_int_equal(out.len % 8, 0);
}

static void test_limits(void **state)
{
	(void)state;
	struct error err = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, 256);
	assert_int_equal(arrow_write_stream(columns, COLUMNS, 3, &out, &err), -E2BIG);
	assert_non_null(strstr(err.message, "too large"));
}

static void test_without_memory(void **state)
{
	(void)state;
	for (uint64_t n = 1;; n++) {
		struct buffer out;
		buffer_init(&out, SIZE_MAX);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = arrow_write_stream(columns, COLUMNS, 3, &out, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		buffer_release(&out);
		if (!reached)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_no_rows),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_without_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
