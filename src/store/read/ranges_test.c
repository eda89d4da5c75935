/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of time off the grid of the rollups, over a day in one block: the sums are those of the formula that made the values,
 * and of a block whose row groups are ordered by partitions few pages are read. Blocks without partitions, as older versions
 * wrote them, give the same sums, and so does what is merged of both kinds.
 */
#include "store/compact/test_compact.h"

#include <fcntl.h>

#include "store/block/partition.h"
#include "store/compact/compact_int.h"
#include "store/read/read_parts.h"

#define SERVICES   6
#define HOSTS	   4
#define SERIES	   (SERVICES * HOSTS)
#define STACKS	   20
#define TICK_NS	   (3 * TEST_MINUTE)
#define TICKS	   (TEST_DAY / TICK_NS)
#define OFFSET_NS  (17 * NS_PER_S) /* of the first tick after midnight */
#define BLOCK_TICK 40
#define PAGE_ROWS  PARQUET_PAGE_ROWS

static int64_t value_of(int64_t series, int64_t tick, int64_t stack)
{
	return 1 + (series * 7 + tick * 13 + stack * 5 + tick * stack) % 97;
}

static int64_t time_of(int64_t tick)
{
	return TEST_DAY_0 + OFFSET_NS + tick * TICK_NS;
}

/* ---- the store ---- */

static uint32_t add_stack(struct profile *profile, uint32_t which)
{
	struct profile_function function = {.name = test_string(profile, "f%u", which)};
	struct profile_line line = {0};
	uint32_t location, stack;
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &stack, NULL), 0);
	return stack;
}

static uint32_t add_labels(struct profile *profile, uint32_t series)
{
	uint32_t id;
	struct profile_label labels[2] = {
		{.key = test_string(profile, "service_name"), .value = test_string(profile, "service%u", series / HOSTS)},
		{.key = test_string(profile, "host"), .value = test_string(profile, "host%u", series % HOSTS)},
	};
	assert_int_equal(profile_add_label_set(profile, labels, 2, &id, NULL), 0);
	return id;
}

/* Ticks [first, end) of all series. */
static void append_ticks(struct store *store, int64_t first, int64_t end)
{
	struct store_append_options options = {.name = "process_cpu", .received_ns = time_of(end)};
	struct error err = {0};
	struct profile *profile;
	uint32_t stacks[STACKS];
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	profile->period_type.type = test_string(profile, "cpu");
	profile->period_type.unit = test_string(profile, "nanoseconds");
	profile->time_ns = time_of(first);
	profile->duration_ns = NS_PER_S;
	for (uint32_t i = 0; i < STACKS; i++)
		stacks[i] = add_stack(profile, i);
	for (uint32_t series = 0; series < SERIES; series++) {
		uint32_t labels = add_labels(profile, series);
		for (int64_t tick = first; tick < end; tick++) {
			for (uint32_t i = 0; i < STACKS; i++) {
				struct profile_sample sample = {.stack = stacks[i], .labels = labels, .time_ns = time_of(tick)};
				int64_t value = value_of(series, tick, i);
				assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
			}
		}
	}
	if (store_append(store, profile, &options, NULL, &err) < 0)
		fail_msg("%s", err.message);
	profile_free(profile);
}

/* Every step-th block of the day from the first one on, cut. */
static void append_blocks(struct store *store, int64_t first, int64_t step)
{
	for (int64_t tick = first * BLOCK_TICK; tick < TICKS; tick += step * BLOCK_TICK) {
		append_ticks(store, tick, tick + BLOCK_TICK);
		test_cut(store);
	}
}

static void compact_day(struct store *store)
{
	struct store_stats stats;
	test_compact(store, TEST_DAY_0 + 3 * TEST_DAY);
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 1);
	assert_int_equal(stats.blocks_by_level[2], 1);
	test_check_blocks(store);
}

/* ---- questions ---- */

struct question {
	int64_t from_ns, to_ns;
	const char *label; /* service_name, host; NULL = everything */
	uint32_t which;
	bool samples_only;
};

static int group_all(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		     struct error *err)
{
	*ret = 0;
	return 0;
}

static bool is_chosen(const struct question *question, uint32_t series)
{
	if (!question->label)
		return true;
	return (strcmp(question->label, "host") ? series / HOSTS : series % HOSTS) == question->which;
}

static void expect(const struct question *question, int64_t want[STACKS])
{
	memset(want, 0, STACKS * sizeof(*want));
	for (int64_t tick = 0; tick < TICKS; tick++) {
		if (time_of(tick) < question->from_ns || time_of(tick) >= question->to_ns)
			continue;
		for (uint32_t series = 0; series < SERIES; series++)
			for (uint32_t i = 0; is_chosen(question, series) && i < STACKS; i++)
				want[i] += value_of(series, tick, i);
	}
}

static unsigned stack_number(const struct profile *profile, uint32_t stack)
{
	const struct profile_location *location = &profile->locations[profile->stacks[stack].location];
	const char *name = profile_string(profile, profile->functions[profile->lines[location->line_first].function].name);
	unsigned number = STACKS;
	assert_int_equal(sscanf(name, "f%u", &number), 1);
	assert_true(number < STACKS);
	return number;
}

static int add_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	*(int64_t *)context += value;
	return 0;
}

/* Asks for a merge and for values over time. */
static struct store_read_stats ask(struct store *store, const struct question *question)
{
	const char *const by[] = {question->label};
	struct store_grouping grouping = {.by = by, .by_count = question->label != NULL, .group = group_all};
	char text[32];
	const struct label_condition label = {.label = question->label, .text = text};
	struct store_select select = {
		.from_ns = question->from_ns,
		.to_ns = question->to_ns,
		.samples_only = question->samples_only,
		.series = {.labels = &label, .label_count = question->label != NULL},
	};
	struct store_read_stats stats = {0};
	struct error err = {0};
	struct profile *into;
	int64_t want[STACKS], got[STACKS] = {0}, total = 0, points = 0;
	snprintf(text, sizeof(text), "%s%u", question->label && !strcmp(question->label, "host") ? "host" : "service",
		 question->which);
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &select, &grouping, into, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats.partial);
	expect(question, want);
	for (size_t i = 0; i < into->sample_count; i++)
		got[stack_number(into, into->samples[i].stack)] += into->values[i];
	for (size_t i = 0; i < STACKS; i++) {
		assert_int_equal(want[i], got[i]);
		total += want[i];
	}
	profile_free(into);
	if (store_series(store, &select, &grouping, 7 * TEST_MINUTE, add_point, &points, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(points, total);
	return stats;
}

static void ask_all(struct store *store)
{
	static const int64_t lengths[] = {NS_PER_S,
					  TEST_MINUTE,
					  10 * TEST_MINUTE,
					  TEST_HOUR / 2,
					  TEST_HOUR,
					  5 * TEST_HOUR + 1,
					  23 * TEST_HOUR + 59 * NS_PER_S,
					  TEST_DAY};
	for (unsigned i = 0; i < 60; i++) {
		int64_t length = lengths[rnd_below(8)], room = TEST_DAY + TEST_HOUR;
		struct question question = {.from_ns = TEST_DAY_0 - TEST_HOUR / 2 + (int64_t)(rnd() % (uint64_t)room),
					    .label = (const char *[]){NULL, "service_name", "host"}[rnd_below(3)],
					    .which = rnd_below(HOSTS)};
		if (rnd_below(3) == 0) /* ends on the edges of rows, and of partitions */
			question.from_ns -= (question.from_ns - TEST_DAY_0) % (rnd_below(2) ? TICK_NS : TEST_HOUR);
		question.to_ns = question.from_ns + length;
		ask(store, &question);
	}
}

/* An hour of the samples, off the grid; with partitions its rows are in two of them. */
static struct store_read_stats ask_hour(struct store *store, int64_t hour)
{
	struct question question = {.from_ns = TEST_DAY_0 + hour * TEST_HOUR + 23 * TEST_MINUTE + 1,
				    .to_ns = TEST_DAY_0 + (hour + 1) * TEST_HOUR + 23 * TEST_MINUTE + 1,
				    .samples_only = true};
	return ask(store, &question);
}

/* ---- tests ---- */

static void an_hour_off_the_grid_reads_two_hours(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	const uint64_t rows_of_hour = SERIES * STACKS * TICKS / 24;
	append_blocks(store, 0, 1);
	compact_day(store);
	for (int64_t hour = 0; hour < 23; hour += 3) {
		struct store_read_stats stats = ask_hour(store, hour);
		assert_int_equal(stats.rows, rows_of_hour);
		assert_in_range(stats.pages, 1, 2 * rows_of_hour / PAGE_ROWS + 2);
		/* Indexes of the block, the footer of its samples among them, are read once. */
		assert_int_equal(stats.cache_misses > 0, hour == 0);
		assert_int_equal(stats.from_samples, 1);
	}
	ask_all(store);
	store_close(store);
	test_directory_remove(directory);
}

/* Which partition the first and the last row of a page are in. */
static void partitions_of(struct parquet_file *file, size_t group, size_t page, int64_t partition_ns, int64_t ret[2])
{
	size_t column;
	int64_t min_ns, max_ns;
	assert_true(parquet_find_column(file, "time_ns", &column));
	assert_true(parquet_page_range(file, group, column, page, &min_ns, &max_ns));
	ret[0] = block_partition_of(min_ns, partition_ns);
	ret[1] = block_partition_of(max_ns, partition_ns);
}

/* No page has rows of a partition that another has rows of, unless it is too long for one. */
static void pages_begin_where_partitions_do(void **state)
{
	static const int64_t lengths[] = {5 * TEST_MINUTE, TEST_HOUR, 3 * TEST_HOUR};
	for (size_t i = 0; i < 3; i++) {
		char *directory = test_directory();
		struct store *store = test_open_manual(directory, NULL);
		struct parquet_file *file;
		const size_t page_rows = block_partition_page_rows(COMPACT_GROUP_ROWS);
		size_t rows_of_partition = (size_t)(SERIES * STACKS * lengths[i] / TICK_NS), pages = 0, split = 0;
		block_partition_ns = lengths[i];
		append_blocks(store, 0, 1);
		compact_day(store);
		block_partition_ns = BLOCK_PARTITION_NS;
		assert_int_equal(block_open_file(local_of(store)->blocks[0], BLOCK_SAMPLES, &file, NULL), 0);
		for (size_t g = 0; g < parquet_group_count(file); g++) {
			int64_t last[2], at[2];
			for (size_t p = 0; p < parquet_page_count(file, g); p++, pages++) {
				size_t rows = parquet_page_first_row(file, g, p + 1) - parquet_page_first_row(file, g, p);
				partitions_of(file, g, p, lengths[i], at);
				assert_in_range(rows, 1, page_rows + page_rows / 2);
				assert_true(p == 0 || last[1] <= at[0]);
				split += p > 0 && last[1] == at[0];
				memcpy(last, at, sizeof(last));
			}
		}
		assert_true(pages > 1);
		assert_int_equal(split > 0, rows_of_partition > page_rows + page_rows / 2);
		parquet_close(file);
		ask_all(store);
		store_close(store);
		test_directory_remove(directory);
	}
}

struct points {
	int64_t values[TICKS + 1];
	size_t count;
};

static int set_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	struct points *points = context;
	assert_true(bucket < points->count);
	points->values[bucket] += value;
	return 0;
}

/* Steps of any length have the values that they have by the formula; of long ones most are of totals. */
static void steps_off_the_grid_read_few_samples(void **state)
{
	static const int64_t steps[] = {3 * TEST_MINUTE,  7 * TEST_MINUTE,	    432 * NS_PER_S,   31 * TEST_MINUTE + 1,
					61 * TEST_MINUTE, 3 * TEST_HOUR + NS_PER_S, 5 * TEST_HOUR - 1};
	const uint64_t all = SERIES * STACKS * TICKS;
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	append_blocks(store, 0, 1);
	compact_day(store);
	for (size_t i = 0; i < 3 * sizeof(steps) / sizeof(*steps); i++) {
		int64_t step = steps[i / 3], offset = i % 3 ? (int64_t)(rnd() % TEST_HOUR) : 0;
		struct question question = {.from_ns = TEST_DAY_0 + offset, .to_ns = TEST_DAY_0 + TEST_DAY};
		struct store_grouping grouping = {.group = group_all, .by = (const char *[]){"service_name"}};
		struct store_select select = {
			.from_ns = question.from_ns, .to_ns = question.to_ns, .steps_before_ns = i % 3 == 2 ? step / 3 : 0};
		int64_t start = select.from_ns - select.steps_before_ns;
		struct points got = {.count = (size_t)((question.to_ns - 1 - start) / step + 1)}, want = {0};
		struct store_read_stats stats;
		struct error err = {0};
		assert_true(got.count <= TICKS + 1);
		if (store_series(store, &select, &grouping, step, set_point, &got, &stats, &err) < 0)
			fail_msg("%s", err.message);
		for (int64_t tick = 0; tick < TICKS; tick++)
			for (uint32_t series = 0; time_of(tick) >= select.from_ns && series < SERIES; series++)
				for (uint32_t stack = 0; stack < STACKS; stack++)
					want.values[(time_of(tick) - start) / step] += value_of(series, tick, stack);
		assert_memory_equal(got.values, want.values, sizeof(got.values));
		assert_int_equal(stats.from_totals > 0, step > BLOCK_PARTITION_NS);
		if (step > TEST_HOUR / 2)
			assert_true(stats.from_samples && stats.rows < all / 3);
	}
	store_close(store);
	test_directory_remove(directory);
}

/* As blocks of version 2 have their rows. */
static void blocks_without_partitions_are_read(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	block_partition_ns = 0;
	append_blocks(store, 0, 1);
	compact_day(store);
	block_partition_ns = BLOCK_PARTITION_NS;
	assert_int_equal(local_of(store)->blocks[0]->meta.partition_ns, 0);
	struct store_read_stats stats = ask_hour(store, 7);
	/* That is what partitions are for: */
	assert_true(stats.pages + 1 >= SERIES * STACKS * TICKS / PAGE_ROWS);
	ask_all(store);
	store_close(store);
	test_directory_remove(directory);
}

/* A block of the day with other partitions, and late ones that join it. */
static void check_mixed(int64_t partition_ns)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	block_partition_ns = partition_ns;
	append_blocks(store, 0, 2);
	compact_day(store);
	assert_int_equal(local_of(store)->blocks[0]->meta.partition_ns, partition_ns);
	block_partition_ns = BLOCK_PARTITION_NS;
	append_blocks(store, 1, 2);
	compact_day(store);
	assert_int_equal(local_of(store)->blocks[0]->meta.partition_ns, BLOCK_PARTITION_NS);
	struct store_read_stats stats = ask_hour(store, 7);
	assert_true(stats.pages < stats.pages_skipped);
	ask_all(store);
	store_close(store);
	test_directory_remove(directory);
}

static void old_and_new_blocks_are_merged(void **state)
{
	check_mixed(0);
}

static void other_partitions_are_merged(void **state)
{
	check_mixed(25 * TEST_MINUTE);
}

static void what_is_left_after_a_deletion_is_in_order(void **state)
{
	for (int partitioned = 0; partitioned < 2; partitioned++) {
		char *directory = test_directory();
		struct store *store = test_open_manual(directory, NULL);
		struct store_delete_result result;
		struct test_needle needle;
		struct question question = {.from_ns = TEST_DAY_0, .to_ns = TEST_DAY_0 + TEST_DAY, .label = "service_name"};
		struct question later = {.from_ns = TEST_DAY_0 + 5 * TEST_HOUR + 1,
					 .to_ns = TEST_DAY_0 + TEST_DAY,
					 .label = "service_name",
					 .which = 2};
		block_partition_ns = partitioned ? BLOCK_PARTITION_NS : 0;
		append_blocks(store, 0, 1);
		compact_day(store);
		block_partition_ns = BLOCK_PARTITION_NS;
		assert_int_equal(store_delete(store, test_conditions("service_name=\"service2\"", &needle), TEST_DAY_0,
					      TEST_DAY_0 + 5 * TEST_HOUR + 1, &result, NULL),
				 0);
		assert_int_equal(local_of(store)->blocks[0]->meta.partition_ns, BLOCK_PARTITION_NS);
		test_check_blocks(store);
		ask(store, &question); /* service0 */
		ask(store, &later);
		store_close(store);
		test_directory_remove(directory);
	}
}

/* A host that does next to nothing: a series has a row or two in each partition, and others lie between them. */
static void few_rows_in_each_partition(void **state)
{
	char *directory = test_directory();
	struct store *store = test_open_manual(directory, NULL);
	struct model model = {0};
	block_partition_ns = 5 * TEST_MINUTE;
	for (int64_t hour = 0; hour < 24; hour++) {
		assert_int_equal(test_append_at(store, &model, TEST_DAY_0 + hour * TEST_HOUR, TEST_HOUR, 60), 0);
		test_cut(store);
	}
	test_compact(store, TEST_DAY_0 + 3 * TEST_DAY);
	block_partition_ns = BLOCK_PARTITION_NS;
	assert_int_equal(local_of(store)->block_count, 1);
	assert_int_equal(local_of(store)->blocks[0]->meta.partition_ns, 5 * TEST_MINUTE);
	test_check_blocks(store);
	for (int64_t i = 1; i < 12; i++) {
		int64_t from = TEST_DAY_0 + i * (TEST_HOUR + 7), to = TEST_DAY_0 + 2 * i * (TEST_HOUR + 3);
		check_series(store, &model, from, to, "process_cpu:samples", 7 * TEST_MINUTE);
		check_merge(store, &model, from, to, "process_cpu:samples");
	}
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* More partitions than a block may have: they are longer, or it has none. */
static void too_many_partitions_are_none(void **state)
{
	for (int many = 0; many < 2; many++) {
		char *directory = test_directory();
		struct store *store = test_open_manual(directory, NULL);
		struct model model = {0};
		for (int64_t i = 0; i < 3; i++) {
			int64_t day_ns = TEST_DAY_0 + (i == 2 ? many ? 60 : 40 : 0) * TEST_DAY;
			assert_int_equal(test_append_at(store, &model, TEST_DAY_0 + i * TEST_HOUR, TEST_HOUR, 1000), 0);
			assert_int_equal(test_append_at(store, &model, day_ns, TEST_HOUR, 2), 0);
			test_cut(store);
		}
		test_compact(store, TEST_DAY_0 + 90 * TEST_DAY);
		assert_int_equal(local_of(store)->block_count, 1);
		assert_int_equal(local_of(store)->blocks[0]->meta.level, 2);
		assert_int_equal(local_of(store)->blocks[0]->meta.partition_ns, many ? 0 : BLOCK_PARTITION_MOST_NS);
		test_check_blocks(store);
		check_merge(store, &model, INT64_MIN, INT64_MAX, "process_cpu:samples");
		check_merge(store, &model, TEST_DAY_0 + TEST_HOUR + 1, TEST_DAY_0 + 3 * TEST_HOUR, "process_cpu:samples");
		check_series(store, &model, TEST_DAY_0 + 1, TEST_DAY_0 + TEST_DAY, "service_name=\"service1\"",
			     61 * TEST_MINUTE);
		store_close(store);
		model_release(&model);
		test_directory_remove(directory);
	}
}

/* ---- threads ---- */

/* Many row groups, so that there is something to share. */
static struct store *open_small_groups(const char *directory)
{
	struct store *store = test_open_manual(directory, NULL);
	compact_group_rows = 8192;
	append_blocks(store, 0, 1);
	compact_day(store);
	compact_group_rows = COMPACT_GROUP_ROWS;
	return store;
}

static void the_number_of_threads_changes_nothing(void **state)
{
	char *directory = test_directory();
	struct store *store = open_small_groups(directory);
	struct question all = {.from_ns = TEST_DAY_0, .to_ns = TEST_DAY_0 + TEST_DAY, .samples_only = true};
	for (read_threads_max = 1; read_threads_max <= 4; read_threads_max++) {
		uint64_t joined = read_parts_joined;
		ask_all(store);
		struct store_read_stats stats = ask(store, &all);
		assert_int_equal(stats.rows, SERIES * STACKS * TICKS);
		assert_int_equal(stats.groups + stats.groups_skipped, SERIES * STACKS * TICKS / 8192 + 1);
		/* A thread may come too late to find anything; not for ever. */
		while (read_threads_max > 1 && read_parts_joined == joined)
			ask(store, &all);
		if (read_threads_max == 1)
			assert_int_equal(read_parts_joined, joined);
	}
	read_threads_max = 0;
	store_close(store);
	test_directory_remove(directory);
}

static void limits_hold_for_all_threads(void **state)
{
	char *directory = test_directory();
	struct store *store = open_small_groups(directory);
	atomic_bool cancel = true;
	struct store_select cancelled = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .samples_only = true, .cancel = &cancel};
	struct store_select rows = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .samples_only = true, .rows_max = 30000};
	struct store_select late = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .samples_only = true, .deadline_ns = 1};
	for (read_threads_max = 1; read_threads_max <= 4; read_threads_max += 3) {
		struct store_read_stats stats;
		int64_t sum = 0;
		assert_int_equal(store_series(store, &cancelled, NULL, 0, add_point, &sum, &stats, NULL), -ECANCELED);
		/* A source gives all or nothing. */
		assert_int_equal(store_series(store, &rows, NULL, 0, add_point, &sum, &stats, NULL), 0);
		assert_true(stats.partial);
		assert_string_equal(stats.why, "the row limit was reached after 2 of 3 sources");
		assert_int_equal(sum, 0);
		assert_int_equal(store_series(store, &late, NULL, 0, add_point, &sum, &stats, NULL), 0);
		assert_true(stats.partial);
	}
	read_threads_max = 0;
	store_close(store);
	test_directory_remove(directory);
}

/* A byte of the samples is wrong: whichever thread finds it, its page is left out, and the answer says so. */
static void damage_is_found_by_any_thread(void **state)
{
	for (read_threads_max = 1; read_threads_max <= 4; read_threads_max += 3) {
		char *directory = test_directory(), path[PATH_MAX];
		struct store *store = open_small_groups(directory);
		struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .samples_only = true};
		struct store_read_stats stats;
		int64_t sum = 0;
		snprintf(path, sizeof(path), "%s/samples.parquet", local_of(store)->blocks[0]->path);
		int fd = io_open(path, O_RDWR, 0, NULL);
		assert_true(fd >= 0);
		/* Of its second half much is the footer. */
		off_t at = (off_t)local_of(store)->blocks[0]->meta.files[BLOCK_SAMPLES].size / 4;
		uint8_t byte;
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x11;
		assert_int_equal(store_series(store, &select, NULL, 0, add_point, &sum, &stats, NULL), 0);
		assert_false(stats.partial);
		int64_t all = sum;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		io_close(fd);
		sum = 0;
		for (int i = 0; i < 2; i++) {
			sum = 0;
			assert_int_equal(store_series(store, &select, NULL, 0, add_point, &sum, &stats, NULL), 0);
			assert_true(stats.partial && stats.lost_rows > 0);
			assert_non_null(strstr(stats.why, "are damaged"));
			assert_true(sum > 0 && sum < all);
			assert_int_equal(stats.rows + stats.lost_rows, local_of(store)->blocks[0]->meta.samples);
		}
		assert_int_equal(local_of(store)->block_count, 1);
		assert_int_equal(local_of(store)->stats.damaged_pages, 1);
		assert_int_equal(local_of(store)->stats.damaged_rows, stats.lost_rows);
		store_close(store);
		test_directory_remove(directory);
	}
	read_threads_max = 0;
}

static void threads_are_shared_out(void **state)
{
	static const struct {
		unsigned queries, cpus, helpers;
	} cases[] = {{1, 1, 0}, {1, 2, 1}, {1, 4, 3}, {1, 64, 3}, {2, 2, 0}, {2, 4, 1}, {3, 4, 0}, {8, 4, 0}, {8, 64, 3}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (unsigned n = 0; n < cases[i].queries; n++)
			read_threads_enter();
		assert_int_equal(read_helpers_allowed(cases[i].cpus), cases[i].helpers);
		for (unsigned n = 0; n < cases[i].queries; n++)
			read_threads_leave();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_hour_off_the_grid_reads_two_hours),
		cmocka_unit_test(pages_begin_where_partitions_do),
		cmocka_unit_test(steps_off_the_grid_read_few_samples),
		cmocka_unit_test(blocks_without_partitions_are_read),
		cmocka_unit_test(old_and_new_blocks_are_merged),
		cmocka_unit_test(other_partitions_are_merged),
		cmocka_unit_test(what_is_left_after_a_deletion_is_in_order),
		cmocka_unit_test(few_rows_in_each_partition),
		cmocka_unit_test(too_many_partitions_are_none),
		cmocka_unit_test(the_number_of_threads_changes_nothing),
		cmocka_unit_test(limits_hold_for_all_threads),
		cmocka_unit_test(damage_is_found_by_any_thread),
		cmocka_unit_test(threads_are_shared_out),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
