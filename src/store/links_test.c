/* SPDX-License-Identifier: Apache-2.0 */
/* Selecting by spans and traces, from the head, blocks and merged blocks, against a plain list of all samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codec/parquet.h"
#include "store/test_store.h"

#define HOUR_NS (3600 * NS_PER_S)
#define IDS_MAX 4

/* Ids as test_profile_random() gives them; 0 = that of samples without one. */
static struct store_id span_id(uint32_t number)
{
	return number ? (struct store_id){{2, (uint8_t)(number - 1)}} : (struct store_id){{0}};
}

static struct store_id trace_id(uint32_t number)
{
	return number ? (struct store_id){{1, (uint8_t)(number - 1)}} : (struct store_id){{0}};
}

struct asked {
	struct store_id ids[2][IDS_MAX];
	struct store_link_condition conditions[2];
	struct store_select select;
};

static int compare_ids(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct store_id));
}

static void ask_anything(struct asked *asked)
{
	/* What is further ahead is not stored. */
	*asked = (struct asked){.select = {.from_ns = TEST_EPOCH - HOUR_NS, .to_ns = TEST_EPOCH + STORE_FUTURE_NS}};
	if (rnd_below(2)) {
		asked->select.from_ns = TEST_EPOCH + (int64_t)rnd_below(1800) * NS_PER_S;
		asked->select.to_ns -= (int64_t)rnd_below(1800) * NS_PER_S;
	}
	asked->select.links = asked->conditions;
	asked->select.link_count = 1 + rnd_below(2);
	for (size_t c = 0; c < asked->select.link_count; c++) {
		bool span = rnd_below(2) == 0;
		size_t count = rnd_below(IDS_MAX);
		for (size_t i = 0; i < count; i++)
			asked->ids[c][i] = span ? span_id(rnd_below(5)) : trace_id(rnd_below(5));
		qsort(asked->ids[c], count, sizeof(struct store_id), compare_ids);
		asked->conditions[c] = (struct store_link_condition){.part = span ? STORE_SPAN_ID : STORE_TRACE_ID,
								     .negate = rnd_below(3) == 0,
								     .ids = asked->ids[c],
								     .count = count};
	}
}

static bool is_wanted(const struct asked *asked, const struct model_row *row)
{
	if (row->time_ns < asked->select.from_ns || row->time_ns >= asked->select.to_ns)
		return false;
	for (size_t c = 0; c < asked->select.link_count; c++) {
		const struct store_link_condition *condition = &asked->conditions[c];
		bool span = condition->part == STORE_SPAN_ID, found = false;
		for (size_t i = 0; i < condition->count; i++)
			found |= span ? !memcmp(row->link.span_id, condition->ids[i].bytes, 8)
				      : !memcmp(row->link.trace_id, condition->ids[i].bytes, 16);
		if (found == condition->negate)
			return false;
	}
	return true;
}

static int on_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	(void)group;
	(void)bucket;
	(void)err;
	*(int64_t *)context += value;
	return 0;
}

/* Each span by itself. */
#define SPANS_MAX 64
struct span_sums {
	struct profile *links; /* a pool */
	int64_t values[SPANS_MAX];
};

static int on_all(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret, struct error *err)
{
	(void)context;
	(void)type;
	(void)labels;
	(void)err;
	*ret = 7;
	return 0;
}

static int on_span(void *context, uint32_t group, const struct profile_link *link, uint32_t *ret, struct error *err)
{
	struct span_sums *sums = context;
	assert_int_equal(group, 7);
	int r = profile_add_link(sums->links, link, ret, err);
	assert_in_range(*ret, 1, SPANS_MAX - 1);
	return r;
}

static int on_span_point(void *context, uint32_t span, uint64_t bucket, int64_t value, struct error *err)
{
	struct span_sums *sums = context;
	(void)bucket;
	(void)err;
	sums->values[span] += value;
	return 0;
}

static void check_spans(struct store *store, const struct model *model, const struct asked *asked)
{
	static const struct profile_link none;
	struct span_sums sums = {0}, want = {0};
	struct store_read_stats stats;
	struct error err = {0};
	uint32_t span;
	assert_int_equal(profile_new(&sums.links, NULL), 0);
	struct store_grouping grouping = {.group = on_all, .span = on_span, .context = &sums};
	if (store_series(store, &asked->select, &grouping, 0, on_span_point, &sums, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats.partial);
	assert_int_equal(stats.from_rollups + stats.from_totals, 0);
	for (size_t i = 0; i < model->count; i++) {
		const struct model_row *row = &model->rows[i];
		if (!strstr(row->series, ":samples:") || !is_wanted(asked, row) || !memcmp(&row->link, &none, sizeof(none)))
			continue;
		assert_int_equal(profile_add_link(sums.links, &row->link, &span, NULL), 0);
		assert_in_range(span, 1, SPANS_MAX - 1);
		want.values[span] += row->value;
	}
	assert_memory_equal(sums.values, want.values, sizeof(sums.values));
	profile_free(sums.links);
}

/* Returns how many samples there were. */
static size_t check_asked(struct store *store, const struct model *model, struct asked *asked, struct store_read_stats *stats)
{
	struct model want = {0}, got = {0};
	struct profile *into;
	struct error err = {0};
	int64_t sum = 0, total = 0;
	size_t count = 0;
	asked->select.series.types = &test_samples_type;
	asked->select.series.type_count = 1;
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &asked->select, NULL, into, stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats->partial);
	assert_int_equal(stats->from_rollups + stats->from_totals, 0);
	for (size_t i = 0; i < model->count; i++) {
		const struct model_row *row = &model->rows[i];
		if (!strstr(row->series, ":samples:") || !is_wanted(asked, row))
			continue;
		model_add_row(&want, mem_strdup(""), mem_strdup(row->stack), 0, row->value);
		total += row->value;
		count++;
	}
	for (size_t i = 0; i < into->sample_count; i++)
		model_add_row(&got, mem_strdup(""), stack_text(into, into->samples[i].stack), 0, into->values[i]);
	assert_models_equal(&want, &got);
	profile_free(into);
	struct store_read_stats series_stats;
	if (store_series(store, &asked->select, NULL, 0, on_point, &sum, &series_stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(sum, total);
	check_spans(store, model, asked);
	return count;
}

static void check_many(struct store *store, const struct model *model)
{
	struct store_read_stats stats;
	size_t found = 0;
	for (int i = 0; i < 100; i++) {
		struct asked asked;
		ask_anything(&asked);
		found += check_asked(store, model, &asked, &stats) > 0;
		asked.select.link_count = 0;
		check_spans(store, model, &asked);
	}
	assert_true(found > 30);
}

static struct store *open_store(const char *directory, int64_t samples_age_ns)
{
	struct store_options options = {.directory = directory,
					.retention_age_ns = -1,
					.retention_size_bytes = 1ull << 40,
					.samples_age_ns = samples_age_ns,
					.late_window_ns = -1,
					.window_ns = {HOUR_NS / 2, 3 * HOUR_NS},
					.manual = true};
	struct store *store;
	assert_int_equal(store_open(&options, &store, NULL), 0);
	return store;
}

static void test_head_and_blocks(void **state)
{
	(void)state;
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	for (int i = 0; i < 10; i++)
		assert_int_equal(test_append(store, &model, 40, NULL, NULL), 0);
	check_many(store, &model);
	for (int block = 0; block < 4; block++) {
		assert_int_equal(store_cut(store, NULL), 0);
		for (int i = 0; i < 8; i++)
			assert_int_equal(test_append(store, &model, 40, NULL, NULL), 0);
	}
	check_many(store, &model);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	check_many(store, &model);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* Samples enough for several row groups, each with a time and a stack of its own or nearly; `linked` of them have a span. */
static void append_many(struct store *store, struct model *model, size_t count, size_t linked)
{
	struct profile *profile;
	struct store_append_options options = {.name = "process_cpu"};
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	for (size_t i = 0; i < count; i++) {
		struct profile_sample sample = {.stack = test_stack(profile), .time_ns = TEST_EPOCH + (int64_t)i * 1000};
		struct profile_link link = {.trace_id = {1}, .span_id = {2, (uint8_t)(i % 3)}};
		int64_t value = 1 + (int64_t)(i % 7);
		if (i >= count - linked)
			assert_int_equal(profile_add_link(profile, &link, &sample.link, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	model_append(model, profile, &options);
	profile_free(profile);
}

static void test_pages_without_spans_are_not_read(void **state)
{
	(void)state;
	char *directory = test_directory();
	struct store *store = open_store(directory, 0);
	struct model model = {0};
	struct store_read_stats all, some;
	struct asked asked = {.select = {.from_ns = TEST_EPOCH, .to_ns = TEST_EPOCH + HOUR_NS, .link_count = 1},
			      .ids = {{span_id(2)}}};
	asked.select.links = asked.conditions;
	asked.conditions[0] = (struct store_link_condition){.part = STORE_SPAN_ID, .ids = asked.ids[0], .count = 1};
	append_many(store, &model, 2 * PARQUET_GROUP_ROWS, 1000);
	assert_int_equal(store_cut(store, NULL), 0);
	/* Those that are in no span: nearly everything. */
	asked.ids[0][0] = span_id(0);
	assert_int_equal(check_asked(store, &model, &asked, &all), 2 * PARQUET_GROUP_ROWS - 1000);
	assert_int_equal(all.groups_skipped, 0);
	/* Once more, now that the indexes are in memory. */
	assert_int_equal(check_asked(store, &model, &asked, &all), 2 * PARQUET_GROUP_ROWS - 1000);
	asked.ids[0][0] = span_id(2);
	assert_int_equal(check_asked(store, &model, &asked, &some), 333);
	assert_true(some.groups_skipped == 1);
	assert_true(some.bytes > 0 && some.bytes < all.bytes / 2);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void test_rollups_cannot_tell(void **state)
{
	(void)state;
	char *directory = test_directory();
	struct store *store = open_store(directory, 10 * HOUR_NS);
	struct model model = {0};
	struct store_read_stats stats;
	struct profile *into;
	struct store_id none = {{0}};
	struct store_link_condition condition = {.part = STORE_TRACE_ID, .negate = true, .ids = &none, .count = 1};
	struct store_select select = {.from_ns = TEST_EPOCH - HOUR_NS,
				      .to_ns = TEST_EPOCH + 3 * HOUR_NS,
				      TEST_SAMPLES,
				      .links = &condition,
				      .link_count = 1};
	for (int i = 0; i < 8; i++)
		assert_int_equal(test_append(store, &model, 40, NULL, NULL), 0);
	assert_int_equal(store_cut(store, NULL), 0);
	assert_int_equal(store_compact(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	assert_int_equal(store_apply_retention(store, TEST_EPOCH + 100 * HOUR_NS, NULL), 0);
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &select, NULL, into, &stats, NULL), 0);
	assert_int_equal(into->sample_count, 0);
	assert_true(stats.partial);
	assert_non_null(strstr(stats.why, "spans"));
	profile_free(into);
	/* Without the condition the rollups answer. */
	select.link_count = 0;
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &select, NULL, into, &stats, NULL), 0);
	assert_true(into->sample_count > 0);
	profile_free(into);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_head_and_blocks),
					   cmocka_unit_test(test_pages_without_spans_are_not_read),
					   cmocka_unit_test(test_rollups_cannot_tell)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
