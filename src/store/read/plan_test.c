/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "store/read/plan.h"

#define SECOND 1000000000ll
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static uint64_t seed = 7;
static int64_t rnd(int64_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)((seed >> 11) % (uint64_t)below);
}

static const enum block_file all_files[] = {BLOCK_SAMPLES, BLOCK_TOTALS, BLOCK_ROLLUP_5M, BLOCK_ROLLUP_1H, BLOCK_ROLLUP_ALL};

/* A block of 20 h that has all tables but those in `without` (bits of enum block_file). */
static struct block_meta block_of(int64_t min_ns, int64_t max_ns, unsigned without)
{
	struct block_meta meta = {.version = 2, .min_ns = min_ns, .max_ns = max_ns};
	for (size_t i = 0; i < sizeof(all_files) / sizeof(*all_files); i++)
		if (!(without & 1u << all_files[i]))
			meta.files[all_files[i]].size = 1;
	return meta;
}

static int64_t bucket_of(enum block_file file, const struct block_meta *meta, int64_t time_ns)
{
	switch (file) {
	case BLOCK_TOTALS:
	case BLOCK_ROLLUP_5M: return time_ns - time_ns % (5 * MINUTE);
	case BLOCK_ROLLUP_1H: return time_ns - time_ns % HOUR;
	case BLOCK_ROLLUP_ALL: return meta->min_ns;
	default: return time_ns;
	}
}

static int64_t step_of(const struct plan_criteria *criteria, int64_t time_ns)
{
	return time_floor(time_ns - store_select_steps_ns(criteria->select), criteria->step_ns);
}

/* How often a sample of this time is counted by the plan; where it is, its bucket is in its step. */
static unsigned times_counted(const struct plan *plan, const struct block_meta *meta, const struct plan_criteria *criteria,
			      int64_t time_ns)
{
	unsigned count = 0;
	for (size_t i = 0; i < plan->count; i++) {
		const struct plan_segment *segment = &plan->segments[i];
		int64_t at = bucket_of(segment->file, meta, time_ns);
		for (size_t k = 0; k < segment->range_count; k++) {
			bool counted = at >= segment->ranges[k].from_ns && at < segment->ranges[k].to_ns;
			count += counted;
			if (counted && criteria->by_step && criteria->step_ns)
				assert_int_equal(step_of(criteria, at), step_of(criteria, time_ns));
		}
	}
	return count;
}

/* Ranges rise and are apart; a table comes once. */
static void check_shape(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct plan_segment *segment = &plan->segments[i];
		for (size_t k = 0; k < segment->range_count; k++)
			assert_true(segment->ranges[k].from_ns < segment->ranges[k].to_ns &&
				    (k == 0 || segment->ranges[k - 1].to_ns < segment->ranges[k].from_ns));
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(plan->segments[k].file, segment->file);
	}
}

/* Every sample of the range is counted once and no other, whatever tables there are. */
static void check_exact(const struct block_meta *meta, const struct plan_criteria *criteria)
{
	_cleanup_(plan_release) struct plan plan = {0};
	int64_t from = criteria->select->from_ns, to = criteria->select->to_ns;
	assert_int_equal(plan_make(meta, criteria, &plan, NULL), 0);
	assert_false(plan.missing);
	assert_false(plan.rounded);
	check_shape(&plan);
	for (int i = 0; i < 400; i++) {
		int64_t time = meta->min_ns + rnd(meta->max_ns - meta->min_ns + 1);
		if (i < 8) /* the edges */
			time = (int64_t[]){meta->min_ns, meta->max_ns, from, from - 1, to, to - 1, from + 1, to + 1}[i];
		else if (i < 100 && criteria->step_ns) /* and those of steps */
			time -= (time - store_select_steps_ns(criteria->select)) % criteria->step_ns + i % 2;
		if (time < meta->min_ns || time > meta->max_ns)
			continue;
		assert_int_equal(times_counted(&plan, meta, criteria, time), time >= from && time < to);
	}
}

static void test_ranges_are_exact(void **state)
{
	for (int round = 0; round < 3000; round++) {
		int64_t min = 1000 * HOUR + rnd(3 * HOUR), max = min + rnd(20 * HOUR);
		struct block_meta meta = block_of(min, max, (unsigned)rnd(1u << 14) & ~(1u << BLOCK_SAMPLES));
		struct store_select select = {.from_ns = min - HOUR + rnd(22 * HOUR)};
		select.to_ns = select.from_ns + 1 + rnd(22 * HOUR);
		if (rnd(3) == 0) {
			select.from_ns -= select.from_ns % HOUR;
			select.to_ns += HOUR - select.to_ns % HOUR;
		}
		if (rnd(2))
			select.steps_before_ns = rnd(HOUR);
		meta.partition_ns = (int64_t[]){0, 5 * MINUTE, 10 * MINUTE}[rnd(3)];
		struct plan_criteria criteria = {.select = &select, .by_stack = true};
		check_exact(&meta, &criteria);
		criteria.by_step = true;
		check_exact(&meta, &criteria);
		criteria.by_stack = false;
		check_exact(&meta, &criteria);
		criteria.step_ns = (int64_t[]){
			MINUTE,		 5 * MINUTE,	    15 * MINUTE,      HOUR, 6 * HOUR, 432 * SECOND, 11 * MINUTE + 7,
			61 * MINUTE + 1, 3 * HOUR + SECOND, 1 + rnd(5 * HOUR)}[rnd(10)];
		check_exact(&meta, &criteria);
		criteria.by_stack = true;
		check_exact(&meta, &criteria);
	}
}

static void expect(const struct plan_criteria *criteria, const struct block_meta *meta, size_t count,
		   const enum block_file *files)
{
	_cleanup_(plan_release) struct plan plan = {0};
	assert_int_equal(plan_make(meta, criteria, &plan, NULL), 0);
	assert_int_equal(plan.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(plan.segments[i].file, files[i]);
}

static void test_coarsest_table_wins(void **state)
{
	struct block_meta meta = block_of(1000 * HOUR + 7, 1019 * HOUR + 7, 0);
	struct store_select select = {.from_ns = 0, .to_ns = 2000 * HOUR};
	struct plan_criteria criteria = {.select = &select, .by_stack = true};
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_ROLLUP_ALL});
	select.from_ns = 1002 * HOUR;
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_ROLLUP_1H});
	select.from_ns += 10 * MINUTE;
	expect(&criteria, &meta, 2, (enum block_file[]){BLOCK_ROLLUP_1H, BLOCK_ROLLUP_5M});
	select.from_ns += 1;
	expect(&criteria, &meta, 3, (enum block_file[]){BLOCK_ROLLUP_1H, BLOCK_ROLLUP_5M, BLOCK_SAMPLES});
	select.samples_only = true;
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_SAMPLES});
	select.samples_only = false;
	/* Without stacks totals do, for every step that they fit into. */
	select.from_ns = 1002 * HOUR;
	criteria = (struct plan_criteria){.select = &select, .by_step = true, .step_ns = 10 * MINUTE};
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_TOTALS});
	criteria.step_ns = 7 * MINUTE;
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_SAMPLES});
	/* And for what lies within longer ones, where samples are by time. */
	meta.partition_ns = 5 * MINUTE;
	expect(&criteria, &meta, 2, (enum block_file[]){BLOCK_TOTALS, BLOCK_SAMPLES});
	criteria.step_ns = 4 * MINUTE;
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_SAMPLES});
	criteria.by_stack = true;
	criteria.step_ns = 61 * MINUTE;
	expect(&criteria, &meta, 2, (enum block_file[]){BLOCK_ROLLUP_5M, BLOCK_SAMPLES});
	criteria.step_ns = 121 * MINUTE;
	expect(&criteria, &meta, 3, (enum block_file[]){BLOCK_ROLLUP_1H, BLOCK_ROLLUP_5M, BLOCK_SAMPLES});
	select.to_ns = 1000 * HOUR;
	expect(&criteria, &meta, 0, NULL);
}

static void test_labels_decide(void **state)
{
	struct block_label_name labels[] = {{.name = (char *)"host", .in_rollups = false},
					    {.name = (char *)"service_name", .in_rollups = true}};
	struct block_meta meta = block_of(1000 * HOUR, 1019 * HOUR, 0);
	meta.labels = labels;
	meta.label_count = 2;
	struct label_condition matcher = {.label = "service_name", .op = PATTERN_NOT_EQUAL, .text = ""};
	struct store_select select = {.to_ns = 2000 * HOUR, .series = {.labels = &matcher, .label_count = 1}};
	const char *by[] = {"nowhere"};
	struct store_grouping grouping = {.by = by, .by_count = 1};
	struct plan_criteria criteria = {.select = &select, .grouping = &grouping, .by_stack = true};
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_ROLLUP_ALL});
	by[0] = "host";
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_SAMPLES});
	by[0] = "service_name";
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_ROLLUP_ALL});
	matcher.label = "host";
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_SAMPLES});
	matcher.label = "nowhere";
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_ROLLUP_ALL});
	grouping.by = NULL; /* all labels */
	expect(&criteria, &meta, 1, (enum block_file[]){BLOCK_SAMPLES});
}

static void test_without_samples(void **state)
{
	struct block_meta meta = block_of(1000 * HOUR, 1019 * HOUR, 1u << BLOCK_SAMPLES);
	struct store_select select = {.to_ns = 2000 * HOUR};
	struct plan_criteria criteria = {.select = &select, .by_stack = true};
	struct plan plan;
	assert_int_equal(plan_make(&meta, &criteria, &plan, NULL), 0);
	assert_true(plan.count == 1 && !plan.rounded && !plan.missing);
	plan_release(&plan);
	select.from_ns = 1001 * HOUR + MINUTE;
	assert_int_equal(plan_make(&meta, &criteria, &plan, NULL), 0);
	assert_true(plan.rounded && !plan.missing);
	plan_release(&plan);
	struct store_grouping grouping = {.by = NULL};
	criteria.grouping = &grouping;
	assert_int_equal(plan_make(&meta, &criteria, &plan, NULL), 0);
	assert_true(plan.missing);
	plan_release(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges_are_exact),
		cmocka_unit_test(test_coarsest_table_wins),
		cmocka_unit_test(test_labels_decide),
		cmocka_unit_test(test_without_samples),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
