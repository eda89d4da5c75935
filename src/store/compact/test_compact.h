/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of what rewrites blocks: data over days, and whether each block says the same in all of its tables. */
#ifndef WICK_STORE_COMPACT_TEST_COMPACT_H
#define WICK_STORE_COMPACT_TEST_COMPACT_H

#include "store/test_store.h"

#include <errno.h>

#include "store/store_int.h"

#define TEST_MINUTE (60 * NS_PER_S)
#define TEST_HOUR   (3600 * NS_PER_S)
#define TEST_DAY    (24 * TEST_HOUR)
#define TEST_DAY_0  (TEST_EPOCH - TEST_EPOCH % TEST_DAY) /* midnight */

struct test_problems {
	char last[2048];
	unsigned count;
};

UNUSED_BY_SOME static void test_on_problem(void *context, const char *message)
{
	struct test_problems *problems = context;
	snprintf(problems->last, sizeof(problems->last), "%s", message);
	problems->count++;
}

/* Nothing happens by itself. */
UNUSED_BY_SOME static struct store *test_open_manual(const char *directory, const struct store_options *options)
{
	struct store *store = NULL;
	struct error err = {0};
	struct store_options own = options ? *options : (struct store_options){.retention_age_ns = -1};
	own.directory = directory;
	own.manual = true;
	if (store_open(&own, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

/* Appends a random profile whose samples lie in [from_ns, from_ns + length_ns). */
UNUSED_BY_SOME static int test_append_at(struct store *store, struct model *model, int64_t from_ns, int64_t length_ns,
					 size_t samples)
{
	struct profile *profile = test_profile_random(samples);
	struct labels labels;
	test_labels_random(&labels);
	struct store_append_options options = {.labels = &labels, .received_ns = from_ns};
	profile->time_ns = from_ns;
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].time_ns = from_ns + (int64_t)(rnd() % (uint64_t)length_ns) / NS_PER_S * NS_PER_S;
	int r = store_append(store, profile, &options, NULL, NULL);
	if (r == 0 && model)
		model_append(model, profile, &options);
	labels_release(&labels);
	profile_free(profile);
	return r;
}

UNUSED_BY_SOME static void test_cut(struct store *store)
{
	struct error err = {0};
	if (store_cut(store, &err) < 0)
		fail_msg("%s", err.message);
}

UNUSED_BY_SOME static void test_compact(struct store *store, int64_t now_ns)
{
	struct error err = {0};
	if (store_compact(store, now_ns, &err) < 0)
		fail_msg("%s", err.message);
}

/* ---- a block's tables against each other ---- */

struct test_sum {
	int64_t id, time, stack;
	uint64_t value, samples;
};

static inline int compare_sums(const void *a, const void *b)
{
	const struct test_sum *x = a, *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static inline void read_sum_column(const struct block *block, enum block_file file, const char *name, struct test_sum *rows,
				   size_t offset)
{
	struct parquet_file *opened;
	struct parquet_data data = {0};
	struct error err = {0};
	size_t column, at = 0;
	if (block_open_file(block, file, &opened, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(parquet_find_column(opened, name, &column));
	for (size_t g = 0; g < parquet_group_count(opened); g++) {
		assert_int_equal(parquet_read(opened, g, column, &data, NULL), 0);
		for (size_t i = 0; i < data.count; i++, at++) {
			int64_t value = data.type == PARQUET_INT32 ? data.i32[i] : data.i64[i];
			memcpy((char *)&rows[at] + offset, &value, sizeof(value));
		}
	}
	parquet_data_release(&data);
	parquet_close(opened);
}

static inline int64_t floor_to(int64_t time, int64_t step)
{
	return time - (time % step + step) % step;
}

/* Rows of each row group by partition first, those of a row group before those of the next one. */
static inline void check_order(const struct block *block, enum block_file file, struct test_sum *rows)
{
	int64_t length_ns = file == BLOCK_SAMPLES ? block->meta.partition_ns : 0;
	struct parquet_file *opened;
	struct error err = {0};
	if (block_open_file(block, file, &opened, &err) < 0)
		fail_msg("%s", err.message);
	struct test_sum last = {0};
	size_t at = 0;
	for (size_t g = 0; g < parquet_group_count(opened); g++) {
		size_t count = parquet_group_rows(opened, g);
		for (size_t i = at + 1; i < at + count; i++) {
			int64_t a = length_ns ? floor_to(rows[i - 1].time, length_ns) : 0;
			int64_t b = length_ns ? floor_to(rows[i].time, length_ns) : 0;
			assert_true(a < b || (a == b && compare_sums(&rows[i - 1], &rows[i]) <= 0));
		}
		qsort(rows + at, count, sizeof(*rows), compare_sums);
		assert_true(at == 0 || compare_sums(&last, &rows[at]) <= 0);
		at += count;
		last = rows[at - 1];
	}
	parquet_close(opened);
}

/* The rows of a table, sorted; *ret_count of them. */
UNUSED_BY_SOME static struct test_sum *test_read_sums(const struct block *block, enum block_file file, size_t *ret_count)
{
	size_t count = *ret_count = block->meta.files[file].rows;
	struct test_sum *rows = mem_zalloc_array(count, sizeof(*rows));
	bool is_samples = file == BLOCK_SAMPLES, is_totals = file == BLOCK_TOTALS;
	read_sum_column(block, file, is_samples || is_totals ? "series_id" : "rollup_id", rows, offsetof(struct test_sum, id));
	read_sum_column(block, file, "time_ns", rows, offsetof(struct test_sum, time));
	read_sum_column(block, file, "value", rows, offsetof(struct test_sum, value));
	if (!is_totals)
		read_sum_column(block, file, "stack_id", rows, offsetof(struct test_sum, stack));
	if (!is_samples)
		read_sum_column(block, file, "samples", rows, offsetof(struct test_sum, samples));
	for (size_t i = 0; is_samples && i < count; i++)
		rows[i].samples = 1;
	check_order(block, file, rows);
	qsort(rows, count, sizeof(*rows), compare_sums);
	return rows;
}

/* Sums rows that agree; the plainest way. */
static inline size_t sum_up(struct test_sum *rows, size_t count)
{
	size_t kept = 0;
	if (count)
		qsort(rows, count, sizeof(*rows), compare_sums);
	for (size_t i = 0; i < count; i++) {
		if (kept && compare_sums(&rows[kept - 1], &rows[i]) == 0) {
			rows[kept - 1].value += rows[i].value;
			rows[kept - 1].samples += rows[i].samples;
		} else {
			rows[kept++] = rows[i];
		}
	}
	return kept;
}

static inline void check_sums(const struct block *block, enum block_file file, const struct test_sum *samples, size_t count,
			      const struct block_series *series)
{
	size_t have;
	struct test_sum *got = test_read_sums(block, file, &have), *want = mem_alloc_array(count, sizeof(*want));
	for (size_t i = 0; i < count; i++) {
		want[i] = samples[i];
		want[i].id = file == BLOCK_TOTALS ? samples[i].id : series->rollup_ids[samples[i].id];
		want[i].stack = file == BLOCK_TOTALS ? 0 : samples[i].stack;
		want[i].time = file == BLOCK_ROLLUP_ALL	 ? block->meta.min_ns
			       : file == BLOCK_ROLLUP_1H ? floor_to(samples[i].time, TEST_HOUR)
							 : floor_to(samples[i].time, 5 * TEST_MINUTE);
	}
	count = sum_up(want, count);
	assert_int_equal(count, have);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(compare_sums(&want[i], &got[i]), 0);
		assert_int_equal(want[i].value, got[i].value);
		assert_int_equal(want[i].samples, got[i].samples);
	}
	mem_free(want);
	mem_free(got);
}

/* Rollups and totals, where there are some, are sums of samples; series.parquet agrees; everything verifies. */
UNUSED_BY_SOME static void test_check_block(const struct block *block)
{
	struct error err = {0};
	struct block_series *series;
	size_t count;
	uint64_t bytes = 0;
	if (block_verify(block, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(block_series_load(block, &series, &bytes, NULL), 0);
	struct test_sum *samples = test_read_sums(block, BLOCK_SAMPLES, &count);
	assert_int_equal(count, block->meta.samples);
	for (enum block_file file = BLOCK_TOTALS; file <= BLOCK_ROLLUP_ALL; file++)
		if (block->meta.files[file].size)
			check_sums(block, file, samples, count, series);
	uint64_t total = 0, of_series = 0;
	for (size_t i = 0; i < count; i++)
		total += samples[i].value;
	for (size_t i = 0; i < series->columns.count; i++)
		of_series += (uint64_t)series->totals[i];
	assert_int_equal(total, of_series);
	mem_free(samples);
	block_series_free(series);
}

UNUSED_BY_SOME static void test_check_blocks(struct store *store)
{
	struct store_snapshot snapshot;
	assert_int_equal(store_snapshot_take(local_of(store), &snapshot, NULL), 0);
	for (size_t i = 0; i < snapshot.block_count; i++)
		if (snapshot.blocks[i]->meta.files[BLOCK_SAMPLES].size)
			test_check_block(snapshot.blocks[i]);
	store_snapshot_release(local_of(store), &snapshot);
}

#endif
