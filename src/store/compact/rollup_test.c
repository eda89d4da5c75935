/* SPDX-License-Identifier: Apache-2.0 */
/* Rollups against sums that are made by counting in plain arrays. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/sum.h"
#include "base/time.h"
#include "store/block/block_write.h"

#define MINUTES5 (300 * NS_PER_S)
#define HOUR	 (3600 * NS_PER_S)

#define TEST_EPOCH 1700000000000000000ll

static uint64_t seed = 88172645463325252ull;

static uint32_t rnd_below(uint32_t limit)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % limit;
}

static char *test_directory(void)
{
	char in_memory[] = "/dev/shm/rollup-test-XXXXXX", on_disk[] = "/tmp/rollup-test-XXXXXX";
	char *path = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
	assert_non_null(path);
	return mem_strdup(path);
}

static void test_directory_remove(char *path)
{
	assert_int_equal(io_remove_tree(path, NULL), 0);
	mem_free(path);
}

struct rows {
	int32_t *series, *stacks;
	int64_t *times, *values;
	size_t count;
};

static void rows_allocate(struct rows *rows, size_t capacity)
{
	*rows = (struct rows){
		.series = mem_alloc_array(capacity, 4),
		.stacks = mem_alloc_array(capacity, 4),
		.times = mem_alloc_array(capacity, 8),
		.values = mem_alloc_array(capacity, 8),
	};
}

static void rows_release(struct rows *rows)
{
	mem_free(rows->series);
	mem_free(rows->stacks);
	mem_free(rows->times);
	mem_free(rows->values);
}

static void write_samples(const char *directory, const struct rows *rows, size_t group_rows, struct block_meta *meta)
{
	static const struct parquet_column columns[] = {
		{.name = "series_id", .type = PARQUET_INT32},
		{.name = "stack_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
		{.name = "time_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
		{.name = "value", .type = PARQUET_INT64},
	};
	const struct parquet_write_options options = {.columns = columns, .column_count = 4};
	struct parquet_writer *writer;
	char path[PATH_MAX];
	io_join_path(path, sizeof(path), directory, "samples.parquet");
	assert_int_equal(parquet_writer_open(path, &options, &writer, NULL), 0);
	for (size_t from = 0; from < rows->count; from += group_rows) {
		size_t count = rows->count - from < group_rows ? rows->count - from : group_rows;
		const struct parquet_values values[] = {{.i32 = rows->series + from},
							{.i32 = rows->stacks + from},
							{.i64 = rows->times + from},
							{.i64 = rows->values + from}};
		assert_int_equal(parquet_writer_group(writer, values, count, NULL), 0);
	}
	assert_int_equal(parquet_writer_finish(writer, &meta->files[BLOCK_SAMPLES], NULL), 0);
	parquet_writer_free(writer);
}

/* A column of all row groups, as 64-bit numbers. */
static int64_t *read_all(const char *directory, enum block_file file, const char *name, size_t *ret_count)
{
	char path[PATH_MAX];
	struct parquet_file *opened;
	struct parquet_data data = {0};
	size_t column, at = 0;
	io_join_path(path, sizeof(path), directory, block_file_names[file]);
	assert_int_equal(parquet_open(path, NULL, &opened, NULL), 0);
	assert_true(parquet_find_column(opened, name, &column));
	int64_t *all = mem_alloc_array(parquet_rows(opened), sizeof(*all));
	for (size_t g = 0; g < parquet_group_count(opened); g++) {
		assert_int_equal(parquet_read(opened, g, column, &data, NULL), 0);
		for (size_t i = 0; i < data.count; i++)
			all[at++] = data.type == PARQUET_INT32 ? data.i32[i] : data.i64[i];
	}
	parquet_data_release(&data);
	parquet_close(opened);
	*ret_count = at;
	return all;
}

struct shape {
	size_t series, rollups, stacks, buckets, rows;
	int64_t start;
};

static int64_t floor_to(int64_t time, int64_t step)
{
	return time - (time % step + step) % step;
}

/* Compares one table with sums by (id, bucket, stack), in an array with a cell for each of them. */
static void check_table(const char *directory, enum block_file file, const struct shape *shape, const struct rows *rows,
			const int32_t *ids_by_series, size_t id_count, int64_t step, int64_t fixed_start)
{
	bool has_stacks = file != BLOCK_TOTALS;
	size_t stacks = has_stacks ? shape->stacks : 1, buckets = shape->buckets + 1, count, want = 0;
	int64_t first = floor_to(shape->start, step ? step : 1);
	struct cell {
		__int128 value;
		int64_t samples;
		bool full;
	} *cells = mem_zalloc_array(id_count * buckets * stacks, sizeof(*cells));
	for (size_t i = 0; i < rows->count; i++) {
		size_t id = ids_by_series ? (size_t)ids_by_series[rows->series[i]] : (size_t)rows->series[i];
		size_t bucket = step ? (size_t)((rows->times[i] - first) / step) : 0;
		struct cell *cell = &cells[(id * buckets + bucket) * stacks + (has_stacks ? (size_t)rows->stacks[i] : 0)];
		want += cell->samples == 0;
		cell->value += rows->values[i];
		cell->full |= rows->values[i] == INT64_MAX; /* not to be left again */
		cell->samples++;
	}
	int64_t *ids = read_all(directory, file, has_stacks ? "rollup_id" : "series_id", &count);
	int64_t *times = read_all(directory, file, "time_ns", &count), *values = read_all(directory, file, "value", &count);
	int64_t *samples = read_all(directory, file, "samples", &count);
	int64_t *stack_ids = has_stacks ? read_all(directory, file, "stack_id", &count) : NULL;
	assert_int_equal(count, want);
	size_t last = 0;
	for (size_t i = 0; i < count; i++) {
		size_t bucket = step ? (size_t)((times[i] - first) / step) : 0;
		size_t at = ((size_t)ids[i] * buckets + bucket) * stacks + (has_stacks ? (size_t)stack_ids[i] : 0);
		assert_int_equal(times[i], step ? first + (int64_t)bucket * step : fixed_start);
		assert_true(i == 0 || at > last);
		last = at;
		assert_int_equal(values[i], cells[at].full ? INT64_MAX : sum_of_wide(cells[at].value));
		assert_int_equal(samples[i], cells[at].samples);
	}
	mem_free(cells);
	mem_free(ids);
	mem_free(times);
	mem_free(values);
	mem_free(samples);
	mem_free(stack_ids);
}

/* Rows by (series, time, stack): each series has them at times of its own. */
static void make_rows(const struct shape *shape, struct rows *rows)
{
	rows_allocate(rows, shape->rows + shape->series);
	int64_t length = (int64_t)shape->buckets * MINUTES5 - 1;
	for (size_t s = 0; s < shape->series; s++) {
		size_t count = shape->rows / shape->series;
		for (size_t i = 0; i < count; i++) {
			size_t at = rows->count++;
			rows->series[at] = (int32_t)s;
			rows->times[at] = shape->start + (int64_t)((double)length * (double)(i / 3) / (double)count);
			rows->stacks[at] = (int32_t)rnd_below((uint32_t)shape->stacks);
			rows->values[at] = rnd_below(100) == 0 ? INT64_MAX : (int64_t)rnd_below(1000) - 300;
		}
	}
}

static void check_shape(const struct shape *shape)
{
	char *directory = test_directory();
	struct rows rows;
	struct block_meta meta = {0};
	struct error err = {0};
	make_rows(shape, &rows);
	write_samples(directory, &rows, 200000, &meta);
	int32_t *rollup_ids = mem_alloc_array(shape->series, 4);
	for (size_t i = 0; i < shape->series; i++)
		rollup_ids[i] = (int32_t)(i * shape->rollups / shape->series);
	struct rollup_job job = {.directory = directory,
				 .rollup_ids = rollup_ids,
				 .series_count = shape->series,
				 .rollup_count = shape->rollups,
				 .stack_count = shape->stacks,
				 .min_ns = shape->start,
				 .max_ns = shape->start + (int64_t)shape->buckets * MINUTES5,
				 .meta = &meta};
	if (rollup_write(&job, &err) < 0)
		fail_msg("%s", err.message);
	check_table(directory, BLOCK_TOTALS, shape, &rows, NULL, shape->series, MINUTES5, 0);
	check_table(directory, BLOCK_ROLLUP_5M, shape, &rows, rollup_ids, shape->rollups, MINUTES5, 0);
	check_table(directory, BLOCK_ROLLUP_1H, shape, &rows, rollup_ids, shape->rollups, HOUR, 0);
	check_table(directory, BLOCK_ROLLUP_ALL, shape, &rows, rollup_ids, shape->rollups, 0, shape->start);
	mem_free(rollup_ids);
	rows_release(&rows);
	test_directory_remove(directory);
}

static void rollups_are_sums_of_samples(void **state)
{
	check_shape(&(struct shape){.series = 1, .rollups = 1, .stacks = 1, .buckets = 1, .rows = 3, .start = TEST_EPOCH});
	check_shape(&(struct shape){
		.series = 40, .rollups = 7, .stacks = 300, .buckets = 30, .rows = 60000, .start = TEST_EPOCH + 77});
	check_shape(
		&(struct shape){.series = 9, .rollups = 9, .stacks = 5000, .buckets = 13, .rows = 60000, .start = TEST_EPOCH});
	/* Before 1970 */
	check_shape(&(struct shape){
		.series = 5, .rollups = 2, .stacks = 9, .buckets = 40, .rows = 6000, .start = -20 * MINUTES5 - 5});
}

/* Rollups of several chunks, which are put together from runs. */
static void large_rollups_are_sums_of_samples(void **state)
{
	check_shape(&(struct shape){
		.series = 60, .rollups = 2, .stacks = 2000, .buckets = 24, .rows = 5000000, .start = TEST_EPOCH + 1});
	check_shape(&(struct shape){
		.series = 1, .rollups = 1, .stacks = 70, .buckets = 3, .rows = 1024 * 1024, .start = TEST_EPOCH});
}

/* Each of the things that can fail does; nothing is leaked, and the last attempt, in which nothing fails, is right. */
static void failures_are_reported(void **state)
{
	struct shape shape = {.series = 4, .rollups = 2, .stacks = 30, .buckets = 5, .rows = 2400000, .start = TEST_EPOCH};
	char *directory = test_directory();
	struct rows rows;
	struct block_meta meta = {0};
	const int32_t rollup_ids[] = {0, 0, 0, 1};
	make_rows(&shape, &rows);
	write_samples(directory, &rows, 200000, &meta);
	struct rollup_job job = {.directory = directory,
				 .rollup_ids = rollup_ids,
				 .series_count = 4,
				 .rollup_count = 2,
				 .stack_count = shape.stacks,
				 .min_ns = shape.start,
				 .max_ns = shape.start + (int64_t)shape.buckets * MINUTES5,
				 .meta = &meta};
	const enum fault_kind kinds[] = {FAULT_OPEN, FAULT_READ, FAULT_WRITE, FAULT_SYNC, FAULT_ALLOC};
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n += n < 60 ? 1 : 37) {
			struct error err = {0};
			fault_arm(kinds[k], n, 0);
			int r = rollup_write(&job, &err);
			reached = fault_disarm(kinds[k]);
			assert_int_equal(r < 0, reached);
			assert_int_equal(err.code, r);
			for (enum block_file file = BLOCK_TOTALS; reached && file <= BLOCK_ROLLUP_ALL; file++) {
				char path[PATH_MAX];
				io_join_path(path, sizeof(path), directory, block_file_names[file]);
				io_unlink(path, NULL);
			}
		}
		check_table(directory, BLOCK_ROLLUP_1H, &shape, &rows, rollup_ids, 2, HOUR, 0);
		for (enum block_file file = BLOCK_TOTALS; file <= BLOCK_ROLLUP_ALL; file++) {
			char path[PATH_MAX];
			io_join_path(path, sizeof(path), directory, block_file_names[file]);
			assert_int_equal(io_unlink(path, NULL), 0);
		}
	}
	rows_release(&rows);
	test_directory_remove(directory);
}

static void bad_references_are_refused(void **state)
{
	char *directory = test_directory();
	struct block_meta meta = {0};
	int32_t series[] = {0, 1}, stacks[] = {0, 9};
	int64_t times[] = {TEST_EPOCH, TEST_EPOCH}, values[] = {1, 1};
	const int32_t rollup_ids[] = {0, 0};
	struct rows rows = {series, stacks, times, values, 2};
	write_samples(directory, &rows, 10, &meta);
	for (size_t i = 0; i < 3; i++) {
		struct rollup_job job = {.directory = directory,
					 .rollup_ids = rollup_ids,
					 .series_count = i == 0 ? 1 : 2,
					 .rollup_count = 1,
					 .stack_count = i == 1 ? 9 : 10,
					 .min_ns = i == 2 ? TEST_EPOCH + HOUR : TEST_EPOCH,
					 .max_ns = TEST_EPOCH,
					 .meta = &meta};
		assert_int_equal(rollup_write(&job, NULL), -EBADMSG);
		for (enum block_file file = BLOCK_TOTALS; file <= BLOCK_ROLLUP_ALL; file++) {
			char path[PATH_MAX];
			io_join_path(path, sizeof(path), directory, block_file_names[file]);
			io_unlink(path, NULL);
		}
	}
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rollups_are_sums_of_samples),
		cmocka_unit_test(large_rollups_are_sums_of_samples),
		cmocka_unit_test(failures_are_reported),
		cmocka_unit_test(bad_references_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
