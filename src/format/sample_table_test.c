/* SPDX-License-Identifier: Apache-2.0 */
/* What other engines read of it is tested in tests/convert/parquet.mjs. */
#include "format/test_format.h"

#include "base/fault.h"
#include "codec/parquet.h"
#include "codec/test_parquet_bytes.h"

/* Two samples: labels of one value each, of numbers with a unit, of numbers with different units, and of a name twice. */
static struct profile *make_profile(void)
{
	struct profile *profile;
	uint32_t ids[8], set, function, location, stack;
	static const char *const names[] = {"bytes", "size", "kind", "x.y", "x/y", "a;\xff", "seconds", "text"};
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(profile_add_cstring(profile, names[i], &ids[i], NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "nanoseconds", NULL), 0);
	struct profile_line line = {.line = 5};
	struct profile_location at = {0};
	assert_int_equal(profile_add_function(profile, &(struct profile_function){.name = ids[5]}, &function, NULL), 0);
	line.function = function;
	assert_int_equal(profile_add_location(profile, &at, &line, 1, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &stack, NULL), 0);
	for (int64_t i = 0; i < 2; i++) {
		struct profile_label labels[] = {
			{.key = ids[1], .number = 10 + i, .unit = ids[0]},
			{.key = ids[2], .number = 3, .unit = i ? ids[0] : ids[6]},
			{.key = ids[3], .value = ids[7]},
			{.key = ids[4], .number = i},
		};
		int64_t value = 100 * (i + 1);
		assert_int_equal(profile_add_label_set(profile, labels, 4, &set, NULL), 0);
		struct profile_sample sample = {.stack = stack, .labels = set, .time_ns = i ? 1700000000000000001 : 0};
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

static void check_text(struct parquet_file *file, const char *column, const char *first, const char *second)
{
	struct parquet_data data = {0};
	size_t index;
	const char *want[] = {first, second};
	if (!parquet_find_column(file, column, &index))
		fail_msg("there is no column %s", column);
	assert_int_equal(parquet_read(file, 0, index, &data, NULL), 0);
	for (size_t i = 0; i < 2; i++)
		assert_true(bytes_equal_string(data.bytes[i], want[i]));
	parquet_data_release(&data);
}

static void check_number(struct parquet_file *file, const char *column, int64_t first, int64_t second)
{
	struct parquet_data data = {0};
	size_t index;
	if (!parquet_find_column(file, column, &index))
		fail_msg("there is no column %s", column);
	assert_int_equal(parquet_read(file, 0, index, &data, NULL), 0);
	assert_int_equal(data.i64[0], first);
	assert_int_equal(data.i64[1], second);
	parquet_data_release(&data);
}

static void test_columns(void **state)
{
	struct profile *profile = make_profile();
	struct buffer out = encode_or_fail(&format_parquet, profile);
	struct parquet_file *file;
	struct error err = {0};
	if (test_parquet_open_bytes(buffer_bytes(&out), NULL, &file, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(parquet_rows(file), 2);
	assert_int_equal(parquet_column_count(file), 11);
	check_number(file, "time", 0, 1700000000000000001);
	check_number(file, "cpu_nanoseconds", 100, 200);
	check_text(file, "stack", "a:\xef\xbf\xbd", "a:\xef\xbf\xbd");
	check_text(file, "function", "a:\xef\xbf\xbd", "a:\xef\xbf\xbd");
	check_number(file, "line", 5, 5);
	check_number(file, "size_bytes", 10, 11);
	check_text(file, "kind", "3 seconds", "3 bytes");
	check_text(file, "x_y", "text", "text");
	check_number(file, "x_y_2", 0, 1);
	parquet_close(file);
	buffer_release(&out);
	profile_free(profile);
}

static void test_empty(void **state)
{
	struct profile *profile;
	struct parquet_file *file;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "nanoseconds", NULL), 0);
	struct buffer out = encode_or_fail(&format_parquet, profile);
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&out), NULL, &file, NULL), 0);
	assert_int_equal(parquet_rows(file), 0);
	parquet_close(file);
	buffer_release(&out);
	profile_free(profile);
}

static void test_too_many_labels(void **state)
{
	struct profile *profile = make_profile();
	struct buffer out;
	struct error err = {0};
	buffer_init(&out, SIZE_MAX);
	for (unsigned i = 0; i < 1000; i++) {
		char name[16];
		struct profile_label label = {.number = 1};
		uint32_t set;
		snprintf(name, sizeof(name), "l%u", i);
		assert_int_equal(profile_add_cstring(profile, name, &label.key, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, &label, 1, &set, NULL), 0);
	}
	assert_int_equal(format_encode(&format_parquet, profile, NULL, &out, &err), -E2BIG);
	assert_non_null(strstr(err.message, "more than 1000 different labels"));
	buffer_release(&out);
	profile_free(profile);
}

/* Columns times rows of a group are bounded: here they would be five million. */
static void test_short_groups(void **state)
{
	struct profile *profile = make_profile();
	struct parquet_file *file;
	int64_t value = 1;
	for (unsigned i = 0; i < 990; i++) {
		char name[16];
		struct profile_label label = {.number = 1};
		struct profile_sample sample = {0};
		snprintf(name, sizeof(name), "l%u", i);
		assert_int_equal(profile_add_cstring(profile, name, &label.key, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		for (size_t k = 0; k < 5; k++)
			assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	struct buffer out = encode_or_fail(&format_parquet, profile);
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&out), NULL, &file, NULL), 0);
	assert_int_equal(parquet_column_count(file), 1001);
	assert_int_equal(parquet_rows(file), profile->sample_count);
	assert_int_equal(parquet_group_count(file), 2);
	parquet_close(file);
	buffer_release(&out);
	profile_free(profile);
}

static void test_no_memory(void **state)
{
	struct profile *profile = make_profile();
	for (uint64_t n = 1;; n++) {
		struct buffer out;
		buffer_init(&out, SIZE_MAX);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = format_encode(&format_parquet, profile, NULL, &out, NULL);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_true(reached ? r < 0 : r == 0);
		if (reached)
			assert_int_equal(out.len, 0);
		buffer_release(&out);
		if (!reached)
			break;
	}
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_columns),	     cmocka_unit_test(test_empty),     cmocka_unit_test(test_too_many_labels),
		cmocka_unit_test(test_short_groups), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
