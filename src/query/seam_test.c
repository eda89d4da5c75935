/* SPDX-License-Identifier: Apache-2.0 */
/* The same data in a local store and in another one (test_fan_store.h), and the same queries of both: what they answer must not
 * show which store it was. */
#include "store/test_store.h"

#include "base/text.h"
#include "query/pipeline.h"
#include "query/test_fan_store.h"

#define ROUNDS 24

struct pair {
	struct store *local, *fan;
};

static void append_both(struct pair *pair, const struct profile *profile, const char *name, const struct labels *labels)
{
	struct store_append_options options = {.name = name, .labels = labels, .received_ns = TEST_EPOCH};
	struct store_append_result a, b;
	struct error err = {0};
	if (store_append(pair->local, profile, &options, &a, &err) < 0 ||
	    store_append(pair->fan, profile, &options, &b, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(a.samples, b.samples);
}

/* What each of a few processes used, in a window that ends every ten seconds. */
static void append_processes(struct pair *pair, int window)
{
	for (unsigned pid = 1; pid <= 3; pid++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		_cleanup_(labels_release) struct labels labels = {0};
		int64_t values[2] = {(int64_t)(rnd_below(1000)), 4096 * (int64_t)pid};
		assert_int_equal(profile_new(&profile, NULL), 0);
		for (size_t i = 0; i < 2; i++)
			profile_add_sample_type(profile, test_string(profile, "%s", process_stats_columns[i].sample_type),
						test_string(profile, "%s", process_stats_columns[i].unit), NULL);
		profile->time_ns = TEST_EPOCH + window * 10 * NS_PER_S;
		profile_add_sample(profile, &(struct profile_sample){0}, values, NULL);
		char text[16];
		snprintf(text, sizeof(text), "%u", pid);
		labels_set(&labels, "process_pid", text, NULL);
		labels_set(&labels, "service_name", pid == 1 ? "service0" : "service1", NULL);
		append_both(pair, profile, PROCESS_STATS_NAME, &labels);
	}
}

static void fill(struct pair *pair, const char *directory, bool with_blocks)
{
	char path[2][300];
	struct store *stores[2];
	for (size_t i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "%s/%zu", directory, i);
		struct store_options options = {.directory = path[i],
						.ops = i ? &fan_store_ops : NULL,
						.retention_age_ns = -1,
						.late_window_ns = -1,
						.manual = true};
		struct error err = {0};
		if (store_open(&options, &stores[i], &err) < 0)
			fail_msg("%s", err.message);
	}
	*pair = (struct pair){stores[0], stores[1]};
	for (int round = 0; round < ROUNDS; round++) {
		_cleanup_(profile_freep) struct profile *profile = test_profile_random(60);
		_cleanup_(labels_release) struct labels labels = {0};
		test_labels_random(&labels);
		if (round == 1)
			labels_set(&labels, "odd", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL);
		append_both(pair, profile, round % 6 ? "process_cpu" : "wall", &labels);
		append_processes(pair, round);
		if (with_blocks && round == ROUNDS / 2) { /* what comes before is in blocks, what comes after in heads */
			assert_int_equal(store_cut(pair->local, NULL), 0);
			assert_int_equal(store_cut(pair->fan, NULL), 0);
		}
	}
	struct store_stats parts[2];
	for (size_t i = 0; i < 2; i++) { /* both parts have something */
		store_get_stats(fan_parts(pair->fan)[i], &parts[i]);
		assert_true(parts[i].appends > 2);
	}
}

static void close_both(struct pair *pair)
{
	store_close(pair->local);
	store_close(pair->fan);
}

/* The answer as JSON, or the message of the error. */
static char *answer_of(struct store *store, const char *text)
{
	_cleanup_(buffer_release) struct buffer out = {.max = SIZE_MAX};
	const struct query_options options = {
		.query = {.from_ns = TEST_EPOCH - 600 * NS_PER_S, .to_ns = TEST_EPOCH + 3700 * NS_PER_S},
		.now_ns = TEST_EPOCH + 3700 * NS_PER_S};
	const struct query_write_options table = {.table = true};
	struct query_result result;
	struct error err = {0};
	if (query_run(store, NULL, text, &options, &result, NULL, &err) < 0)
		return mem_strdup(err.message);
	assert_int_equal(query_write_json(&result, NULL, &table, &out, &err), 0);
	query_result_release(&result);
	return mem_strdup(buffer_string(&out));
}

static const char *const queries[] = {
#define CPU	"process_cpu:cpu"
#define SAMPLES "process_cpu:samples"
	/* Conditions on labels, on types, and on what only looks like labels */
	SAMPLES,
	CPU,
	SAMPLES "{service_name=\"service1\"}",
	SAMPLES "{service_name!=\"service1\", host=~\"host[01]\"}",
	SAMPLES "{odd!~\".*quoted.*\"}",
	SAMPLES "{odd=~\"a .quoted. .*\"}",
	SAMPLES "{nowhere=\"\"}",
	SAMPLES "{nowhere=\"x\"}",
	"{__name__=\"process_cpu\", __type__=\"samples\"}",
	"{__profile_type__=~\"wall:samples:.*\"}",
	"{__type__!~\"cpu\", __name__!=\"wall\"}",
	"wall:samples",
	SAMPLES "{__span_id__=~\".+\"}",
	SAMPLES "{__number__=\"bytes=16:64\"}",
	SAMPLES "{__number__!=\"\"}",
	/* on frames */
	SAMPLES " | frames function \"function1\"",
	SAMPLES " | drop frames \"function(1|2)$\"",
	SAMPLES " | frames leaf != \"function3\"",
	SAMPLES " | frames root function = \"function2\"",
	SAMPLES " | frames binary \".\" and user",
	SAMPLES " | frames address \"0x\"",
	SAMPLES " | frames \"\\\\+0x\"",
	/* All kinds of answers */
	SAMPLES " | group by service_name, __type__ | top 5",
	SAMPLES " | group by host | top 3 total",
	SAMPLES " | bin 5m | group by service_name",
	CPU " | bin 1m | rate | group by host | top 2 others",
	SAMPLES " | group by service_name, host | sum",
	SAMPLES " | compare host",
	SAMPLES " | top 5 by label service_name",
	SAMPLES " | callers of \"function1\" | top 4",
	CPU " | bin 10s | join process_stats on service_name",
};
/* Of names it is said in how many series they are, in that block or head that has most of them: so these are asked while all is
 * in heads. */
static const char *const lists[] = {
	"{} | types",
	"{__type__=\"samples\"} | types",
	"{} | labels",
	SAMPLES "{host=\"host1\"} | labels",
	"{} | values of service_name",
	"{host=\"host1\"} | values of service_name",
};
static const char *const refused[] = {
	"{}",
	"nobody_has_this",
	SAMPLES "{odd=~\"(x+x+)+[yz]\"}", /* takes too long on a value */
	SAMPLES "{odd!~\"(x+x+)+[yz]\"}",
};

static void compare(const struct pair *pair, const char *const *texts, size_t count, bool answered)
{
	for (size_t i = 0; i < count; i++) {
		char *local = answer_of(pair->local, texts[i]), *fan = answer_of(pair->fan, texts[i]);
		if (strcmp(local, fan) != 0 || (local[0] == '{') != answered)
			fail_msg("%s:\n%.2000s\n%.2000s", texts[i], local, fan);
		mem_free(local);
		mem_free(fan);
	}
}

static void test_queries(void **state)
{
	char *directory = test_directory();
	struct pair pair;
	fill(&pair, directory, true);
	compare(&pair, queries, sizeof(queries) / sizeof(*queries), true);
	compare(&pair, refused, sizeof(refused) / sizeof(*refused), false);
	close_both(&pair);
	test_directory_remove(directory);
}

static void test_lists(void **state)
{
	char *directory = test_directory();
	struct pair pair;
	fill(&pair, directory, false);
	compare(&pair, lists, sizeof(lists) / sizeof(*lists), true);
	close_both(&pair);
	test_directory_remove(directory);
}

static void test_deletion(void **state)
{
	char *directory = test_directory();
	struct pair pair;
	struct selector *selector;
	struct store_delete_result a, b;
	struct error err = {0};
	fill(&pair, directory, true);
	char *before = answer_of(pair.local, SAMPLES " | group by service_name | sum");
	assert_int_equal(selector_parse(SAMPLES "{service_name=~\"service[01]\", odd=\"\"}", &selector, &err), 0);
	const struct series_conditions *series = selector_series(selector);
	assert_int_equal(store_delete(pair.local, series, TEST_EPOCH, TEST_EPOCH + 1800 * NS_PER_S, &a, &err), 0);
	assert_int_equal(store_delete(pair.fan, series, TEST_EPOCH, TEST_EPOCH + 1800 * NS_PER_S, &b, &err), 0);
	selector_free(selector);
	assert_true(a.samples > 0);
	assert_int_equal(a.samples, b.samples);
	char *local = answer_of(pair.local, SAMPLES " | group by service_name | sum"),
	     *fan = answer_of(pair.fan, SAMPLES " | group by service_name | sum");
	assert_string_equal(local, fan);
	assert_string_not_equal(local, before);
	mem_free(before);
	mem_free(local);
	mem_free(fan);
	close_both(&pair);
	test_directory_remove(directory);
}

int main(void)
{
	test_seed_from_environment();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_deletion),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
