/* SPDX-License-Identifier: Apache-2.0 */
/* The head by itself: rows of processes, going back, times that are not accepted. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "store/head/head.h"

#define EPOCH	      1700000000000000000ll
#define EVER	      INT64_MIN, INT64_MAX
#define COLUMNS_KNOWN PROCESS_STATS_COLUMNS

static uint64_t seed = 88172645463325252ull;
static uint32_t random_below(uint32_t limit)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % limit;
}

static int64_t random_value(void)
{
	static const int64_t odd[] = {0, 0, 0, 1, -1, INT64_MAX, INT64_MIN, 127, 128, 1 << 20};
	return odd[random_below(10)];
}

/* ---- profiles ---- */

static uint32_t string_of(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

/* Of these columns of process_stats; PROCESS_STATS_COLUMNS is one that nobody knows. */
static struct profile *stats_profile(const unsigned *columns, size_t count)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		const struct process_stats_column_name unknown = {"heat", "joules", ""};
		const struct process_stats_column_name *name =
			columns[i] < COLUMNS_KNOWN ? &process_stats_columns[columns[i]] : &unknown;
		uint32_t type = string_of(profile, name->sample_type), unit = string_of(profile, name->unit);
		assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	}
	profile->period_type.type = string_of(profile, PROCESS_STATS_NAME);
	profile->time_ns = EPOCH;
	profile->duration_ns = 10;
	return profile;
}

static void add_row(struct profile *profile, const char *pid, int64_t time_ns, const int64_t *values)
{
	struct profile_sample sample = {.time_ns = time_ns};
	struct profile_label label = {.key = string_of(profile, "process.pid"), .value = string_of(profile, pid)};
	assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
}

static struct profile *stats_profile_all(void)
{
	unsigned columns[COLUMNS_KNOWN];
	for (unsigned i = 0; i < COLUMNS_KNOWN; i++)
		columns[i] = i;
	return stats_profile(columns, COLUMNS_KNOWN);
}

static struct profile *cpu_profile(int64_t time_ns)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type = string_of(profile, "cpu"), unit = string_of(profile, "nanoseconds");
	assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	const struct profile_sample sample = {.time_ns = time_ns};
	assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){7}, NULL), 0);
	return profile;
}

/* Appends, and frees the profile. */
static int append(struct head *head, struct profile *profile, const struct store_append_options *options, uint64_t sequence,
		  struct head_batch *ret)
{
	static const struct store_append_options none;
	struct head_batch batch;
	int r = head_prepare(head, profile, options ? options : &none, NULL, &batch, NULL);
	if (r == 0)
		head_commit(head, &batch, options ? options->id : none.id, sequence);
	if (ret)
		*ret = batch;
	profile_free(profile);
	return r;
}

static struct head *new_head(void)
{
	struct head *head;
	assert_int_equal(head_new(1000, &head, NULL), 0);
	return head;
}

static size_t sorted(const struct head *head, int64_t from_ns, int64_t to_ns, struct process_row **ret)
{
	size_t count;
	assert_int_equal(head_processes_sorted(&head->processes, NULL, from_ns, to_ns, ret, &count, NULL), 0);
	return count;
}

/* ---- rows ---- */

static void test_encoding(void **state)
{
	struct head_processes processes;
	struct head_processes_end end = {0}, start = {0};
	struct process_row *rows = mem_alloc_array(2000, sizeof(*rows)), row;
	head_processes_init(&processes);
	for (size_t i = 0; i < 2000; i++) {
		rows[i] = (struct process_row){.series = random_below(3) ? random_below(50) : UINT32_MAX - 1};
		rows[i].time_ns = random_below(9) ? EPOCH + random_below(1000) : random_value();
		for (size_t c = 0; c < COLUMNS_KNOWN; c++)
			rows[i].values[c] = random_value();
		assert_int_equal(head_processes_put(&processes, &rows[i], &end), 0);
	}
	assert_int_equal(end.count, 2000);
	struct head_processes_reader reader;
	head_processes_read(&processes, &start, &end, &reader);
	for (size_t i = 0; i < 2000; i++) {
		assert_true(head_processes_next(&reader, &row));
		assert_memory_equal(&row, &rows[i], sizeof(row));
	}
	assert_false(head_processes_next(&reader, &row));
	mem_free(rows);
	head_processes_release(&processes);
}

static void test_wide(void **state)
{
	struct head *head = new_head();
	struct profile *profile = stats_profile_all();
	struct process_row *rows;
	struct head_batch batch;
	add_row(profile, "7", EPOCH + 10, (const int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
	add_row(profile, "8", EPOCH + 10, (const int64_t[]){0, 0, 0, 0, 0, 0, 0, 0, 0}); /* says nothing */
	add_row(profile, "9", 0, (const int64_t[]){9, 0, 0, 0, 0, 0, 0, 0, 1});
	assert_int_equal(append(head, profile, NULL, 1, &batch), 0);
	assert_int_equal(batch.count, 0);
	assert_int_equal(batch.series, 2);
	assert_int_equal(batch.process_values, 11);
	assert_int_equal(head->count, 0);
	assert_false(head_is_empty(head));
	assert_int_equal(head->min_ns, EPOCH);
	assert_int_equal(head->max_ns, EPOCH + 10);
	assert_int_equal(sorted(head, EVER, &rows), 2);
	assert_memory_equal(rows[0].values, ((int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9}), sizeof(rows[0].values));
	assert_int_equal(rows[0].time_ns, EPOCH + 10);
	assert_int_equal(rows[1].time_ns, EPOCH); /* the profile's */
	const struct series *series = &head->series[rows[0].series];
	assert_string_equal(series->type->name, "process_stats");
	assert_string_equal(series->type->sample_type, "");
	assert_false(series->type->delta);
	assert_string_equal(labels_get(series->labels, "process_pid"), "7");
	mem_free(rows);
	assert_int_equal(sorted(head, EPOCH + 1, EPOCH + 10, &rows), 0);
	mem_free(rows);
	head_free(head);
}

/* As OTLP has them: one profile a column, and a row that comes twice. */
static void test_pivot(void **state)
{
	struct head *head = new_head();
	struct process_row *rows;
	for (unsigned column = 0; column < COLUMNS_KNOWN; column++) {
		struct profile *profile = stats_profile(&column, 1);
		for (int64_t row = 0; row < 20; row++) {
			char pid[8];
			snprintf(pid, sizeof(pid), "%d", (int)(row % 5));
			add_row(profile, pid, EPOCH + row / 5, &(int64_t){row * 100 + column});
		}
		add_row(profile, "0", EPOCH, &(int64_t){column == 3 ? INT64_MAX : 1000000});
		assert_int_equal(append(head, profile, NULL, column + 1, NULL), 0);
	}
	assert_int_equal(head->series_count, 5);
	assert_int_equal(sorted(head, EVER, &rows), 20);
	for (size_t i = 0; i < 20; i++) {
		int64_t pid = strtol(labels_get(head->series[rows[i].series].labels, "process_pid"), NULL, 10);
		int64_t row = (rows[i].time_ns - EPOCH) * 5 + pid;
		if (i > 0)
			assert_true(rows[i - 1].series < rows[i].series ||
				    (rows[i - 1].series == rows[i].series && rows[i - 1].time_ns < rows[i].time_ns));
		for (int64_t c = 0; c < COLUMNS_KNOWN; c++) {
			uint64_t want = (uint64_t)(row * 100 + c);
			if (row == 0)
				want = c == 3 ? INT64_MAX : want + 1000000;
			assert_int_equal((uint64_t)rows[i].values[c], want); /* stops at the limit */
		}
	}
	mem_free(rows);
	/* Renumbered, and some left out. */
	const uint32_t numbers[] = {4, UINT32_MAX, 2, 1, 0};
	size_t count;
	assert_int_equal(head_processes_sorted(&head->processes, numbers, EVER, &rows, &count, NULL), 0);
	assert_int_equal(count, 16);
	assert_int_equal(rows[0].series, 0);
	assert_int_equal(rows[15].series, 4);
	mem_free(rows);
	head_free(head);
}

static void test_unknown_column(void **state)
{
	struct head *head = new_head();
	struct profile *profile = stats_profile((const unsigned[]){PROCESS_STATS_COLUMNS, PROCESS_STATS_RSS}, 2);
	struct process_row *rows;
	struct head_batch batch;
	add_row(profile, "1", EPOCH, (const int64_t[]){5, 6});
	add_row(profile, "2", EPOCH, (const int64_t[]){5, 0});
	assert_int_equal(append(head, profile, NULL, 1, &batch), 0);
	assert_int_equal(batch.refused[STORE_REFUSED_COLUMN], 2);
	assert_int_equal(batch.process_values, 1);
	assert_int_equal(sorted(head, EVER, &rows), 1);
	assert_int_equal(rows[0].values[PROCESS_STATS_RSS], 6);
	mem_free(rows);
	head_free(head);
}

/* ---- staged appends ---- */

static struct profile *stats_profile_of(int round)
{
	struct profile *profile = stats_profile_all();
	char pid[8];
	snprintf(pid, sizeof(pid), "%d", round % 3);
	add_row(profile, pid, EPOCH + round, (const int64_t[]){1 + round, 2, 3, 4, 5, 6, 7, 8, 9});
	return profile;
}

static void append_both(struct head *head, int round)
{
	assert_int_equal(append(head, stats_profile_of(round), NULL, (uint64_t)round * 2 + 1, NULL), 0);
	assert_int_equal(append(head, cpu_profile(EPOCH + round), NULL, (uint64_t)round * 2 + 2, NULL), 0);
}

static void stage(struct head *head, struct profile *profile, uint64_t sequence)
{
	static const struct store_append_options none;
	struct head_batch batch;
	assert_int_equal(head_prepare(head, profile, &none, NULL, &batch, NULL), 0);
	head_stage(head, &batch, (uint8_t[STORE_ID_SIZE]){(uint8_t)sequence}, sequence);
	profile_free(profile);
}

/* Readers see what is published, and nothing of it is left of what was taken back. */
static void test_staged(void **state)
{
	struct head *head = new_head();
	struct process_row *rows;
	append_both(head, 0);
	append_both(head, 1);
	for (int i = 2; i < 5; i++) {
		stage(head, cpu_profile(EPOCH + i), 2 * (uint64_t)i);
		stage(head, stats_profile_of(i), 2 * (uint64_t)i + 1);
	}
	assert_int_equal(head->count, 2);
	assert_int_equal(sorted(head, EVER, &rows), 2);
	mem_free(rows);
	head_publish(head, 5);
	assert_int_equal(head->count, 3);
	assert_int_equal(head->append_count, 2);
	assert_int_equal(head->last_sequence, 5);
	assert_int_equal(head->max_ns, EPOCH + 2);
	assert_int_equal(sorted(head, EVER, &rows), 3);
	mem_free(rows);
	head_withdraw(head);
	head_publish(head, 100);
	assert_int_equal(head->count, 3);
	assert_int_equal(head->last_sequence, 5);
	append_both(head, 4); /* over what was taken back */
	assert_int_equal(head->count, 4);
	assert_int_equal(sorted(head, EVER, &rows), 4);
	int64_t sum = 0;
	for (size_t i = 0; i < 4; i++)
		sum += rows[i].values[0];
	assert_int_equal(sum, 1 + 2 + 3 + 5);
	mem_free(rows);
	head_free(head);
}

/* ---- times ---- */

static void test_times(void **state)
{
	const struct store_append_options options = {.least_ns = EPOCH, .most_ns = EPOCH + 100};
	const int64_t times[] = {EPOCH - 1, EPOCH, EPOCH + 100, EPOCH + 101, EPOCH + 500};
	struct head *head = new_head();
	struct head_batch batch, total = {0};
	for (size_t i = 0; i < 5; i++) {
		struct profile *profile = stats_profile_all();
		add_row(profile, "1", times[i], (const int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
		assert_int_equal(append(head, profile, &options, i + 1, &batch), 0);
		total.process_values += batch.process_values;
		total.refused[STORE_REFUSED_LATE] += batch.refused[STORE_REFUSED_LATE];
		assert_int_equal(append(head, cpu_profile(times[i]), &options, i + 1, &batch), 0);
		total.count += batch.count;
		total.refused[STORE_REFUSED_LATE] += batch.refused[STORE_REFUSED_LATE];
		total.refused[STORE_REFUSED_FUTURE] += batch.refused[STORE_REFUSED_FUTURE];
	}
	assert_int_equal(total.process_values, 2 * 9);
	assert_int_equal(total.count, 2);
	assert_int_equal(total.refused[STORE_REFUSED_LATE], 2);
	assert_int_equal(total.refused[STORE_REFUSED_FUTURE], 2);
	assert_int_equal(head->min_ns, EPOCH);
	assert_int_equal(head->max_ns, EPOCH + 100);
	head_free(head);
}

static void test_series_limit(void **state)
{
	struct head *head;
	struct head_batch batch;
	assert_int_equal(head_new(2, &head, NULL), 0);
	struct profile *profile = stats_profile_all();
	for (int i = 0; i < 3; i++)
		add_row(profile, (const char *[]){"1", "2", "3"}[i], EPOCH, (const int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
	assert_int_equal(append(head, profile, NULL, 1, &batch), 0);
	assert_int_equal(batch.process_values, 2 * 9);
	assert_int_equal(batch.refused[STORE_REFUSED_SERIES], 1);
	assert_int_equal(batch.series_refused, 1);
	struct process_row *rows;
	assert_int_equal(sorted(head, EVER, &rows), 2);
	mem_free(rows);
	head_free(head);
}

/* ---- memory ---- */

static void test_memory(void **state)
{
	bool reached = true;
	uint64_t n = 1;
	for (; reached; n++) {
		struct head *head = new_head();
		struct profile *profile = stats_profile_all();
		struct process_row *rows = NULL;
		struct head_batch batch;
		size_t count = 0;
		append_both(head, 0);
		add_row(profile, "5", EPOCH + 5, (const int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9});
		fault_arm(FAULT_ALLOC, n, 0);
		int r = head_prepare(head, profile, &(struct store_append_options){0}, NULL, &batch, NULL);
		if (r == 0) {
			head_commit(head, &batch, (uint8_t[STORE_ID_SIZE]){0}, 3);
			r = head_processes_sorted(&head->processes, NULL, EVER, &rows, &count, NULL);
		}
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		mem_free(rows);
		rows = NULL;
		/* What was there stays, and the next one fits. */
		if (head->last_sequence < 3)
			assert_int_equal(append(head, profile, NULL, 3, NULL), 0);
		else
			profile_free(profile);
		assert_int_equal(sorted(head, EVER, &rows), 2);
		mem_free(rows);
		head_free(head);
	}
	assert_true(n > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encoding),       cmocka_unit_test(test_wide),   cmocka_unit_test(test_pivot),
		cmocka_unit_test(test_unknown_column), cmocka_unit_test(test_staged), cmocka_unit_test(test_times),
		cmocka_unit_test(test_series_limit),   cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
