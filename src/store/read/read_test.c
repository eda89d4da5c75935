/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading against itself: whatever rollups, totals and pages are used, the answer is the one that samples alone give, and that
 * is held against a plain list of all samples by store_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/test_store.h"

#define HOUR_NS (3600 * NS_PER_S)
#define ROUNDS	150

struct query {
	int64_t from_ns, to_ns, step_ns;
	const char *by[2];
	size_t by_count;
	const char *label, *value; /* NULL = no matcher */
	const char *function;	   /* NULL = no condition */
	enum store_where where;
	bool negate;
};

/* Groups are numbered as they come, from 1, which are the label sets made for them; an answer is compared by their texts. */
struct answer {
	struct profile *into; /* of a merge */
	char *groups[512];
	size_t group_count;
	struct model rows;
	struct store_read_stats stats;
};

static int on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	struct answer *answer = context;
	char *text = series_text(type, labels);
	for (*ret = 1; *ret <= answer->group_count; ++*ret) {
		if (strcmp(answer->groups[*ret - 1], text) == 0) {
			mem_free(text);
			return 0;
		}
	}
	assert_true(answer->group_count < 512);
	answer->groups[answer->group_count++] = text;
	struct profile_label label = {.key = test_string(answer->into, "group"), .number = *ret};
	uint32_t id;
	assert_int_equal(profile_add_label_set(answer->into, &label, 1, &id, NULL), 0);
	assert_int_equal(id, *ret);
	return 0;
}

static int on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	struct answer *answer = context;
	assert_true(group > 0 && group <= answer->group_count);
	model_add_row(&answer->rows, mem_strdup(answer->groups[group - 1]), mem_strdup(""), 0, value);
	answer->rows.rows[answer->rows.count - 1].bucket = bucket;
	return 0;
}

static void ask(struct store *store, const struct query *query, bool merge, bool samples_only, struct answer *ret)
{
	struct label_condition matcher = {.label = query->label, .text = query->value};
	struct frame_test test = {.field = FRAME_FIELD_FUNCTION, .op = PATTERN_REGEX, .text = query->function};
	struct store_stack_condition condition = {
		.where = query->where, .negate = query->negate, .tests = &test, .test_count = 1};
	struct store_select select = {.from_ns = query->from_ns,
				      .to_ns = query->to_ns,
				      .series = {.types = &test_samples_type,
						 .type_count = 1,
						 .labels = &matcher,
						 .label_count = query->label != NULL},
				      .conditions = &condition,
				      .condition_count = query->function != NULL,
				      .samples_only = samples_only};
	struct store_grouping grouping = {.by = query->by, .by_count = query->by_count, .group = on_group, .context = ret};
	struct profile *into;
	struct error err = {0};
	assert_int_equal(profile_new(&into, NULL), 0);
	ret->into = into;
	int r = merge ? store_merge(store, &select, &grouping, into, &ret->stats, &err)
		      : store_series(store, &select, &grouping, query->step_ns, on_point, ret, &ret->stats, &err);
	if (r < 0)
		fail_msg("%s", err.message);
	assert_false(ret->stats.partial);
	for (size_t i = 0; i < into->sample_count; i++)
		model_add_row(&ret->rows, mem_strdup(ret->groups[into->samples[i].labels - 1]),
			      stack_text(into, into->samples[i].stack), 0, into->values[i]);
	profile_free(into);
}

static void compare(struct store *store, const struct query *query, bool merge, uint64_t *rollups, uint64_t *totals)
{
	struct answer *fast = mem_zalloc(sizeof(*fast)), *plain = mem_zalloc(sizeof(*plain));
	ask(store, query, merge, false, fast);
	ask(store, query, merge, true, plain);
	assert_int_equal(plain->stats.from_rollups + plain->stats.from_totals, 0);
	*rollups += fast->stats.from_rollups;
	*totals += fast->stats.from_totals;
	assert_models_equal(&plain->rows, &fast->rows);
	for (size_t i = 0; i < fast->group_count; i++)
		mem_free(fast->groups[i]);
	for (size_t i = 0; i < plain->group_count; i++)
		mem_free(plain->groups[i]);
	mem_free(fast);
	mem_free(plain);
}

static struct query random_query(void)
{
	static const char *const labels[] = {"service_name", "host", "nowhere", "env"};
	static const int64_t steps[] = {0, 60, 300, 900, 3600, 7200, 77};
	struct query query = {.from_ns = TEST_EPOCH - HOUR_NS + (int64_t)rnd_below(7200) * NS_PER_S};
	query.to_ns = query.from_ns + (int64_t)(1 + rnd_below(20000)) * NS_PER_S;
	if (rnd_below(2))
		query.from_ns -= query.from_ns % HOUR_NS;
	query.step_ns = steps[rnd_below(7)] * NS_PER_S;
	query.by_count = rnd_below(3);
	for (size_t i = 0; i < query.by_count; i++)
		query.by[i] = labels[(rnd_below(2) + 2 * i) % 4];
	if (rnd_below(2)) {
		query.label = labels[rnd_below(2)];
		query.value = query.label == labels[0] ? "service1" : "host1";
	}
	if (rnd_below(2)) {
		query.function = (const char *[]){"1", "2", "f"}[rnd_below(3)];
		query.where = (enum store_where)rnd_below(3);
		query.negate = rnd_below(3) == 0;
	}
	return query;
}

static void compare_many(struct store *store, uint64_t *rollups, uint64_t *totals)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct query query = random_query();
		compare(store, &query, true, rollups, totals);
		compare(store, &query, false, rollups, totals);
	}
}

static void test_rollups_change_nothing(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.directory = directory,
					.retention_age_ns = -1,
					.retention_size_bytes = 1ull << 40,
					.window_ns = {HOUR_NS / 2, 3 * HOUR_NS},
					.manual = true};
	struct store *store;
	struct model model = {0};
	struct store_stats stats;
	uint64_t rollups = 0, totals = 0, none = 0;
	assert_int_equal(store_open(&options, &store, NULL), 0);
	for (int block = 0; block < 6; block++) {
		for (int i = 0; i < 8; i++)
			assert_int_equal(test_append(store, &model, 40, NULL, NULL), 0);
		if (block < 5)
			assert_int_equal(store_cut(store, NULL), 0);
	}
	compare_many(store, &none, &none);
	check_all(store, &model);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	store_get_stats(store, &stats);
	assert_true(stats.blocks < 5);
	compare_many(store, &rollups, &totals);
	assert_true(rollups > 20);
	assert_true(totals > 20);
	check_all(store, &model);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rollups_change_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
