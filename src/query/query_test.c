/* SPDX-License-Identifier: Apache-2.0 */
/* Queries over a real store, compared with sums made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/time.h"
#include "query/query_int.h"
#include "query/test_fan_store.h"

#define START_NS (1700000000ll * NS_PER_S) /* a multiple of 100 s */

struct fixture {
	char directory[64];
	struct store *store;
};

static void append(struct store *store, const char *name, int64_t time_ns, const char *service, const char *function,
		   int64_t value)
{
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(labels_release) struct labels labels = {0};
	uint32_t cpu, ns, text, id, location, stack;
	assert_int_equal(profile_new(&profile, &err), 0);
	assert_int_equal(profile_add_cstring(profile, "cpu", &cpu, &err), 0);
	assert_int_equal(profile_add_cstring(profile, "nanoseconds", &ns, &err), 0);
	assert_int_equal(profile_add_sample_type(profile, cpu, ns, &err), 0);
	profile->time_ns = time_ns;
	assert_int_equal(profile_add_cstring(profile, function, &text, &err), 0);
	assert_int_equal(profile_add_function(profile, &(struct profile_function){.name = text}, &id, &err), 0);
	struct profile_line line = {.function = id};
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, &err), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &stack, &err), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &value, &err), 0);
	assert_int_equal(labels_set(&labels, "service", service, &err), 0);
	struct store_append_options options = {.name = name, .labels = &labels};
	struct store_append_result result;
	if (store_append(store, profile, &options, &result, &err) < 0)
		fail_msg("append: %s", err.message);
}

static const struct store_ops *ops; /* of the store that the tests run on */

static int setup(void **state)
{
	static struct fixture fixture;
	struct error err = {0};
	snprintf(fixture.directory, sizeof(fixture.directory), "/tmp/wick-query-test-XXXXXX");
	assert_non_null(mkdtemp(fixture.directory));
	struct store_options options = {.directory = fixture.directory, .retention_age_ns = -1, .ops = ops};
	if (store_open(&options, &fixture.store, &err) < 0)
		fail_msg("store_open: %s", err.message);
	append(fixture.store, "process_cpu", START_NS, "shop", "buy", 10);
	append(fixture.store, "process_cpu", START_NS + 5 * NS_PER_S, "shop", "sell", 20);
	assert_int_equal(store_cut(fixture.store, &err), 0); /* one part in a block, one in the head */
	append(fixture.store, "process_cpu", START_NS + 15 * NS_PER_S, "shop", "buy", 40);
	append(fixture.store, "process_cpu", START_NS + 16 * NS_PER_S, "bank", "pay", 80);
	append(fixture.store, "memory", START_NS, "bank", "keep", 7);
	*state = &fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	store_close(fixture->store);
	return io_remove_tree(fixture->directory, NULL);
}

static int64_t merged_total(struct fixture *fixture, const char *selector, int64_t from_ns, int64_t to_ns)
{
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct query query = {.selector = selector, .from_ns = from_ns, .to_ns = to_ns};
	if (query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err) < 0)
		fail_msg("%s: %s", selector, err.message);
	return profile->sample_type_count ? profile_total(profile, 0) : 0;
}

static void test_merge(void **state)
{
	struct fixture *fixture = *state;
	int64_t to = START_NS + 100 * NS_PER_S;
	assert_int_equal(merged_total(fixture, "process_cpu", START_NS, to), 150);
	assert_int_equal(merged_total(fixture, "process_cpu{service=\"shop\"}", START_NS, to), 70);
	assert_int_equal(merged_total(fixture, "memory", START_NS, to), 7);
	assert_int_equal(merged_total(fixture, "process_cpu{service=\"nobody\"}", START_NS, to), 0);
	assert_int_equal(merged_total(fixture, "memory", to, to + NS_PER_S), 0); /* there is such a type, at another time */
	/* from is in, to is out */
	assert_int_equal(merged_total(fixture, "process_cpu", START_NS + 5 * NS_PER_S, START_NS + 15 * NS_PER_S), 20);
	assert_int_equal(merged_total(fixture, "process_cpu", START_NS + 5 * NS_PER_S, START_NS + 15 * NS_PER_S + 1), 60);
}

static void test_merge_joins_stacks_of_block_and_head(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct query query = {
		.selector = "process_cpu{service=\"shop\"}", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), 0);
	assert_int_equal(profile->sample_count, 2); /* buy, sell */
}

static void test_several_types_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct profile *profile = NULL;
	struct query query = {.selector = "", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), -EINVAL);
	assert_null(profile);
	assert_non_null(strstr(err.message, "memory:cpu"));
	assert_non_null(strstr(err.message, "process_cpu:cpu"));
}

static void test_series(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct query_series series;
	struct query query = {.selector = "process_cpu", .from_ns = START_NS + 1, .to_ns = START_NS + 19 * NS_PER_S};
	const char *by[] = {"service"};
	struct query_series_options by_service = {.step_ns = 10 * NS_PER_S, .by = by, .by_count = 1};
	assert_int_equal(query_series(fixture->store, NULL, &query, &by_service, &series, NULL, &err), 0);
	assert_int_equal(series.count, 2);
	assert_string_equal(labels_get(&series.rows[0].labels, "service"), "bank");
	assert_int_equal(series.rows[0].total, 80);
	assert_int_equal(series.rows[0].point_count, 1);
	assert_int_equal(series.rows[0].points[0].time_ns, START_NS + 10 * NS_PER_S);
	assert_int_equal(series.rows[1].total, 70); /* widened to whole steps: the sample at START_NS is in */
	assert_int_equal(series.rows[1].point_count, 2);
	assert_int_equal(series.rows[1].points[0].value, 30);
	assert_int_equal(series.rows[1].points[1].value, 40);
	query_series_release(&series);

	assert_int_equal(query_series(fixture->store, NULL, &query, &(struct query_series_options){.step_ns = 10 * NS_PER_S},
				      &series, NULL, &err),
			 0);
	assert_int_equal(series.count, 1);
	assert_int_equal(series.rows[0].total, 150);
	query_series_release(&series);

	by_service.limit = 1;
	assert_int_equal(query_series(fixture->store, NULL, &query, &by_service, &series, NULL, &err), 0);
	assert_int_equal(series.count, 1);
	assert_int_equal(series.count_before_limit, 2);
	query_series_release(&series);

	query.to_ns = START_NS + 200000 * NS_PER_S;
	by_service.step_ns = NS_PER_S;
	assert_int_equal(query_series(fixture->store, NULL, &query, &by_service, &series, NULL, &err), -EINVAL);
}

static void test_chosen_step_gives_few_points(void **state)
{
	struct fixture *fixture = *state;
	struct query_series series;
	static const int64_t ranges_s[] = {60, 3600, 86400, 30 * 86400, 3650ll * 86400};
	for (size_t i = 0; i < sizeof(ranges_s) / sizeof(*ranges_s); i++) {
		struct query query = {
			.selector = "process_cpu", .from_ns = START_NS, .to_ns = START_NS + ranges_s[i] * NS_PER_S};
		assert_int_equal(query_series(fixture->store, NULL, &query, NULL, &series, NULL, NULL), 0);
		assert_true(ranges_s[i] * NS_PER_S / series.step_ns <= 200);
		assert_true(ranges_s[i] * NS_PER_S / series.step_ns >= 15);
		query_series_release(&series);
	}
}

static void test_names(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct query_names names;
	struct query query = {.selector = "", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_types(fixture->store, &query, &names, NULL, &err), 0);
	assert_int_equal(names.count, 2);
	assert_non_null(strstr(names.items[0].name, "memory:"));
	query_names_release(&names);
	assert_int_equal(query_label_names(fixture->store, &query, &names, NULL, &err), 0);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0].name, "service");
	assert_int_equal(names.items[0].series,
			 3); /* cpu of shop and bank, memory of bank: block and head hold shop's together */
	query_names_release(&names);
	assert_int_equal(query_label_values(fixture->store, &query, "service", "s", 0, &names, NULL, &err), 0);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0].name, "shop");
	query_names_release(&names);
	assert_int_equal(query_label_values(fixture->store, &query, "service", "", 1, &names, NULL, &err), 0);
	assert_int_equal(names.count, 1);
	assert_int_equal(names.count_before_limit, 2);
	assert_string_equal(names.items[0].name, "bank"); /* has most series */
	query_names_release(&names);
	assert_int_equal(query_label_values(fixture->store, &query, "a-b", "", 1, &names, NULL, &err), -EINVAL);
}

static void test_names_know_when(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct query_names names;
	struct query query = {.selector = "process_cpu", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_label_values(fixture->store, &query, "service", "", 0, &names, NULL, &err), 0);
	assert_int_equal(names.count, 2);
	assert_string_equal(names.items[1].name, "shop");
	assert_int_equal(names.items[1].samples, 3); /* two in the block, one in the head */
	assert_int_equal(names.items[1].first_ns, START_NS);
	assert_int_equal(names.items[1].last_ns, START_NS + 15 * NS_PER_S);
	query_names_release(&names);
}

/* A type that no profile ever had is a mistake, and the types that there are help to find it. */
static void test_unknown_type(void **state)
{
	struct fixture *fixture = *state;
	struct query query = {.selector = "nothing", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	struct query_series_options whole = {.whole = true};
	struct query_series series;
	struct profile *profile = NULL;
	for (int i = 0; i < 4; i++) {
		struct error err = {0};
		static const char *const selectors[] = {"nothing", "process_cpu:wall", "{__name__=\"nothing\"}",
							"nothing{service=\"shop\"}"};
		query.selector = selectors[i];
		assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), -EINVAL);
		assert_non_null(strstr(err.message, "unknown profile type"));
		assert_non_null(strstr(err.message, "process_cpu:cpu:nanoseconds::"));
		assert_non_null(strstr(err.message, "memory:cpu:nanoseconds::"));
		assert_int_equal(query_series(fixture->store, NULL, &query, &whole, &series, NULL, &err), -EINVAL);
	}
	/* Other servers' APIs answer nothing with nothing. */
	query.any_type = true;
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, NULL), 0);
	assert_int_equal(profile->sample_count, 0);
	profile_free(profile);
}

/* What a selector matches at other times only does not make it ambiguous. */
static void test_type_outside_of_the_range(void **state)
{
	struct fixture *fixture = *state;
	struct query_series_options whole = {.whole = true};
	struct query_series series;
	struct error err = {0};
	struct profile *profile = NULL;
	int64_t at = START_NS + 1000 * NS_PER_S;
	for (int place = 0; place < 2; place++) { /* memory, a block */
		append(fixture->store, "aside", at - 50 * NS_PER_S, "aside", "early", 1);
		append(fixture->store, "process_cpu", at, "aside", "work", 5);
		append(fixture->store, "aside", at + 50 * NS_PER_S, "aside", "late", 1);
		append(fixture->store, "later", at + 60 * NS_PER_S, "aside", "later", 1);
		for (int cut = 0; cut < 2; cut++) {
			struct query query = {
				.selector = "{service=\"aside\"}", .from_ns = at - NS_PER_S, .to_ns = at + NS_PER_S};
			if (query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err) < 0)
				fail_msg("%s", err.message);
			assert_int_equal(profile_total(profile, 0), 5);
			profile_free(profile);
			if (query_series(fixture->store, NULL, &query, &whole, &series, NULL, &err) < 0)
				fail_msg("%s", err.message);
			assert_int_equal(series.rows[0].total, 5);
			query_series_release(&series);
			query.to_ns = at + 55 * NS_PER_S; /* now there are two */
			assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), -EINVAL);
			assert_non_null(strstr(err.message, "matches 2 profile types"));
			assert_int_equal(store_cut(fixture->store, NULL), 0);
		}
		at += 1000 * NS_PER_S;
	}
}

static void test_type_beside_the_selector(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct profile *profile = NULL;
	struct query query = {.selector = "{service=\"bank\"}",
			      .type = "memory:cpu:nanoseconds::",
			      .from_ns = START_NS,
			      .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), 0);
	assert_int_equal(profile_total(profile, 0), 7);
	profile_free(profile);
	query.type = "process_cpu";
	query.selector = "memory{service=\"bank\"}"; /* both must match */
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), -EINVAL);
	query.type = "a b";
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "profile type: expected the end"));
}

static void test_grouped_merge(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	const char *by[] = {"service"}, *bad[] = {"0"};
	struct query_merge_options options = {.by = by, .by_count = 1};
	struct query query = {.selector = "process_cpu", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	assert_int_equal(query_merge(fixture->store, NULL, &query, &options, &profile, NULL, &err), 0);
	assert_int_equal(profile->sample_count, 3);
	for (size_t i = 0; i < 3; i++) {
		const char *service = profile_label_value(profile, profile->samples[i].labels, "service");
		assert_non_null(service);
		assert_true(strcmp(service, "bank") != 0 || profile->values[i] == 80);
	}
	const char *by_type[] = {"__type__", "service"}, *only[] = {"cpu"};
	_cleanup_(profile_freep) struct profile *typed = NULL;
	struct query_merge_options of_type = {.by = by_type, .by_count = 2, .only = only, .only_count = 1};
	assert_int_equal(query_merge(fixture->store, NULL, &query, &of_type, &typed, NULL, &err), 0);
	assert_int_equal(typed->sample_count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_string_equal(profile_label_value(typed, typed->samples[i].labels, "__type__"), "cpu");
		assert_non_null(profile_label_value(typed, typed->samples[i].labels, "service"));
	}
	struct profile *none = NULL;
	options.groups_max = 1;
	assert_int_equal(query_merge(fixture->store, NULL, &query, &options, &none, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "more than 1 groups"));
	options.by = bad;
	assert_int_equal(query_merge(fixture->store, NULL, &query, &options, &none, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'0' is not a label name"));
}

static void test_diff(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct query base = {.selector = "{service=\"shop\"}", .from_ns = START_NS, .to_ns = START_NS + 10 * NS_PER_S};
	struct query query = {
		.selector = "process_cpu", .from_ns = START_NS + 10 * NS_PER_S, .to_ns = START_NS + 100 * NS_PER_S};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct query_stats stats = {0};
	struct profile_type type;
	assert_int_equal(query_diff_read(fixture->store, NULL, &base, &query, NULL, &profile, &type, &stats, &err), 0);
	assert_int_equal(profile->sample_type_count, 2);
	assert_int_equal(profile->sample_count, 3); /* buy, sell, pay */
	assert_int_equal(profile_total(profile, 0), 30);
	assert_int_equal(profile_total(profile, 1), 120);
	assert_string_equal(profile_string(profile, profile->sample_types[0].type), "base");
	assert_int_equal(profile_default_sample_type(profile), 1);
	struct profile *none = NULL;
	base.selector = "{service=\"bank\"}";
	base.type = "";
	base.to_ns = base.from_ns;
	assert_int_equal(query_diff_read(fixture->store, NULL, &base, &query, NULL, &none, &type, &stats, &err), -EINVAL);
	assert_non_null(strstr(err.message, "the base of the comparison: query: the time range is empty"));
}

static void test_label_sets(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	const char *by[] = {"service"};
	struct query_label_sets sets;
	struct query query = {.selector = "", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_label_sets(fixture->store, &query, by, 1, 0, &sets, NULL, &err), 0);
	assert_int_equal(sets.count, 2);
	assert_string_equal(labels_get(&sets.items[0], "service"), "bank");
	assert_string_equal(labels_get(&sets.items[1], "service"), "shop");
	query_label_sets_release(&sets);
	assert_int_equal(query_label_sets(fixture->store, &query, by, 1, 1, &sets, NULL, &err), 0);
	assert_int_equal(sets.count, 1);
	assert_int_equal(sets.count_before_limit, 2);
	query_label_sets_release(&sets);
}

static void test_labels_of_the_type(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	const char *by[] = {"service", "__profile_type__"};
	struct query_label_sets sets;
	struct query query = {.selector = "", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_label_sets(fixture->store, &query, by, 2, 0, &sets, NULL, &err), 0);
	assert_int_equal(sets.count, 3); /* bank has two types */
	assert_string_equal(labels_get(&sets.items[0], "__profile_type__"), "memory:cpu:nanoseconds::");
	assert_string_equal(labels_get(&sets.items[1], "__profile_type__"), "process_cpu:cpu:nanoseconds::");
	assert_string_equal(labels_get(&sets.items[2], "service"), "shop");
	query_label_sets_release(&sets);
	query.selector = "{__name__=\"memory\"}";
	assert_int_equal(query_label_sets(fixture->store, &query, NULL, 0, 0, &sets, NULL, &err), 0);
	assert_int_equal(sets.count, 1);
	assert_string_equal(labels_get(&sets.items[0], "service"), "bank");
	assert_string_equal(labels_get(&sets.items[0], "__unit__"), "nanoseconds");
	assert_string_equal(labels_get(&sets.items[0], "__name__"), "memory");
	query_label_sets_release(&sets);
	int64_t to = START_NS + 100 * NS_PER_S;
	assert_int_equal(merged_total(fixture, "{__profile_type__=\"process_cpu:cpu:nanoseconds::\"}", START_NS, to), 150);
	assert_int_equal(merged_total(fixture, "{__name__!~\"process.*\"}", START_NS, to), 7);
}

static void test_unaligned_steps(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct query_series series;
	struct query_series_options options = {.unaligned = true, .step_ns = 10 * NS_PER_S};
	struct query query = {.selector = "process_cpu{service=\"shop\"}",
			      .from_ns = START_NS - 4 * NS_PER_S,
			      .to_ns = START_NS + 26 * NS_PER_S};
	assert_int_equal(query_series(fixture->store, NULL, &query, &options, &series, NULL, &err), 0);
	assert_int_equal(series.count, 1);
	assert_int_equal(series.rows[0].point_count, 2);
	assert_int_equal(series.rows[0].points[0].time_ns, query.from_ns);
	assert_int_equal(series.rows[0].points[0].value, 30); /* of 0 and 5 s */
	assert_int_equal(series.rows[0].points[1].time_ns, START_NS + 6 * NS_PER_S);
	assert_int_equal(series.rows[0].points[1].value, 40); /* of 15 s; aligned, it would be in a step with 16 s */
	query_series_release(&series);
}

static void test_points(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	const char *by[] = {"service"};
	struct query_points points;
	struct query query = {.selector = "process_cpu", .from_ns = START_NS - 1, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_points(fixture->store, NULL, &query, by, 1, &points, NULL, &err), 0);
	assert_int_equal(points.group_count, 2);
	assert_string_equal(labels_get(&points.groups[0], "service"), "bank");
	assert_int_equal(points.count, 4);
	const int64_t seconds[] = {16, 0, 5, 15}, values[] = {80, 10, 20, 40};
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(points.points[i].group, i > 0);
		assert_int_equal(points.points[i].time_ns, START_NS + seconds[i] * NS_PER_S);
		assert_int_equal(points.points[i].value, values[i]);
	}
	query_points_release(&points);
	query.selector = "";
	assert_int_equal(query_points(fixture->store, NULL, &query, NULL, 0, &points, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "matches 2 profile types"));
	query.selector = "nothing";
	assert_int_equal(query_points(fixture->store, NULL, &query, NULL, 0, &points, NULL, &err), 0);
	assert_int_equal(points.count, 0);
	query_points_release(&points);
	/* A list that is longer than a message is cut, and not what is counted. */
	for (size_t i = 0; i < 20; i++) {
		char name[64];
		snprintf(name, sizeof(name), "a%02zu_type_with_a_long_name_of_which_there_are_many", i);
		append(fixture->store, name, START_NS, "late", "wait", 1);
	}
	query.selector = "";
	assert_int_equal(query_points(fixture->store, NULL, &query, NULL, 0, &points, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "matches 22 profile types; put one of them before the '{': a00_type"));
}

static void test_timed(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	struct query_stats stats = {0};
	struct profile *profile;
	const char *by[] = {"service"};
	const struct query_merge_options options = {.by = by, .by_count = 1};
	struct query query = {.selector = "process_cpu", .from_ns = START_NS - 1, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_merge_timed(fixture->store, NULL, &query, &options, &profile, &stats, &err), 0);
	const int64_t seconds[] = {0, 5, 15, 16}, values[] = {10, 20, 40, 80};
	assert_int_equal(profile->sample_count, 4);
	for (size_t i = 0; i < 4; i++) {
		const char *service = profile_label_value(profile, profile->samples[i].labels, "service");
		assert_int_equal(profile->samples[i].time_ns, START_NS + seconds[i] * NS_PER_S);
		assert_int_equal(profile->values[i], values[i]);
		assert_string_equal(service, i == 3 ? "bank" : "shop");
	}
	profile_free(profile);
	/* As many samples as are allowed, and one more. */
	for (size_t most = 3; most <= 4; most++) {
		struct query_merge_options few = options;
		few.samples_max = most;
		int r = query_merge_timed(fixture->store, NULL, &query, &few, &profile, &stats, &err);
		assert_int_equal(r, most == 3 ? -EINVAL : 0);
		if (r == 0)
			profile_free(profile);
		else
			assert_non_null(strstr(err.message, "more than 3 stacks over time"));
	}
	/* A part of a millisecond is no more than was asked for. */
	query.from_ns = START_NS + 1;
	query.to_ns = START_NS + 5 * NS_PER_S;
	assert_int_equal(query_merge_timed(fixture->store, NULL, &query, &options, &profile, &stats, &err), 0);
	assert_int_equal(profile->sample_count, 0);
	profile_free(profile);
	for (int i = 0; i <= QUERY_TIMES_MAX; i++)
		append(fixture->store, "many", START_NS + i * NS_PER_MS, "late", "wait", 1);
	query = (struct query){.selector = "many", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_merge_timed(fixture->store, NULL, &query, NULL, &profile, &stats, &err), -EINVAL);
	assert_non_null(strstr(err.message, "5001 times"));
}

/* main, where `outer` with `inner` inlined into it is called, which calls an address of a binary without symbols; and main
 * alone. */
static void append_inlined(struct store *store, int64_t time_ns, int64_t deep, int64_t shallow)
{
	static const char *const names[] = {"main", "inner", "outer"};
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_line lines[3] = {{0}};
	struct profile_mapping mapping = {.limit = 1 << 20};
	struct profile_location address = {.address = 0x1234};
	uint32_t text, places[3], stacks[3];
	assert_int_equal(profile_new(&profile, &err), 0);
	assert_int_equal(profile_add_named_type(profile, "calls", "count", &err), 0);
	profile->time_ns = time_ns;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(profile_add_cstring(profile, names[i], &text, &err), 0);
		assert_int_equal(
			profile_add_function(profile, &(struct profile_function){.name = text}, &lines[i].function, &err), 0);
	}
	assert_int_equal(profile_add_cstring(profile, "/usr/bin/app", &mapping.file_name, &err), 0);
	assert_int_equal(profile_add_mapping(profile, &mapping, &address.mapping, &err), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, lines, 1, &places[0], &err), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, lines + 1, 2, &places[1], &err), 0);
	assert_int_equal(profile_add_location(profile, &address, NULL, 0, &places[2], &err), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(profile_add_stack(profile, i ? stacks[i - 1] : 0, places[i], &stacks[i], &err), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.stack = stacks[2]}, &deep, &err), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.stack = stacks[0]}, &shallow, &err), 0);
	struct store_append_options options = {.name = "calls"};
	struct store_append_result result;
	assert_int_equal(store_append(store, profile, &options, &result, &err), 0);
}

static int64_t below(struct fixture *fixture, const char *const *site, size_t count)
{
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(query_series_release) struct query_series series = {0};
	struct query query = {.selector = "calls",
			      .from_ns = START_NS,
			      .to_ns = START_NS + 100 * NS_PER_S,
			      .call_site = site,
			      .call_site_count = count,
			      .sum_gauges = true};
	struct query_series_options options = {.whole = true};
	if (query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err) < 0 ||
	    query_series(fixture->store, NULL, &query, &options, &series, NULL, &err) < 0)
		fail_msg("%s", err.message);
	int64_t total = profile->sample_type_count ? profile_total(profile, 0) : 0;
	assert_int_equal(series.count ? series.rows[0].total : 0, total);
	return total;
}

static void test_call_sites(void **state)
{
	static const struct {
		const char *site[6];
		int64_t deep, shallow; /* how often each is in the sum */
	} cases[] = {
		{{"main"}, 1, 1},
		{{"main", "outer"}, 1, 0},
		{{"main", "outer", "inner"}, 1, 0},
		{{"main", "outer", "inner", "app+0x1234"}, 1, 0},
		{{"main", "inner"}, 0, 0},
		{{"main", "inner", "outer"}, 0, 0},
		{{"outer"}, 0, 0},
		{{"main", "outer", "inner", "app+0x1235"}, 0, 0},
		{{"main", "outer", "inner", "app+0x1234", "more"}, 0, 0},
		{{"", "main"}, 0, 0},
		{{0}, 1, 1},
	};
	struct fixture *fixture = *state;
	struct error err = {0};
	append_inlined(fixture->store, START_NS, 1000, 1);
	assert_int_equal(store_cut(fixture->store, &err), 0);
	append_inlined(fixture->store, START_NS + NS_PER_S, 100000, 10);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t count = 0;
		while (cases[i].site[count])
			count++;
		int64_t want = cases[i].deep * 101000 + cases[i].shallow * 11, got = below(fixture, cases[i].site, count);
		if (got != want)
			fail_msg("case %zu: %lld, not %lld", i, (long long)got, (long long)want);
	}
	static const char *many[FRAME_PATH_MAX + 1];
	struct query query = {
		.from_ns = START_NS, .to_ns = START_NS + 1, .call_site = many, .call_site_count = FRAME_PATH_MAX + 1};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	assert_int_equal(query_merge(fixture->store, NULL, &query, NULL, &profile, NULL, &err), -EINVAL);
}

static void test_given_series(void **state)
{
	struct fixture *fixture = *state;
	struct error err = {0};
	_cleanup_(query_points_release) struct query_points points = {0};
	uint64_t keys[4] = {0}, other;
	struct query query = {.selector = "process_cpu", .from_ns = START_NS, .to_ns = START_NS + 100 * NS_PER_S};
	assert_int_equal(query_points(fixture->store, NULL, &query, NULL, 0, &points, NULL, &err), 0);
	assert_int_equal(points.series_count, 2); /* of shop, of bank */
	for (size_t i = 0; i < 2; i++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		const struct labels *labels = &points.series[i];
		assert_int_equal(series_key(&points.type, labels, &keys[i], &err), 0);
		struct query_merge_options options = {.series = &keys[i], .series_count = 1};
		assert_int_equal(query_merge(fixture->store, NULL, &query, &options, &profile, NULL, &err), 0);
		assert_int_equal(profile_total(profile, 0), strcmp(labels_get(labels, "service"), "shop") == 0 ? 70 : 80);
	}
	struct profile_type delta = points.type;
	delta.delta = !delta.delta;
	assert_int_equal(series_key(&delta, &points.series[0], &other, &err), 0);
	assert_true(other == keys[0] && keys[0] != keys[1]);
	_cleanup_(profile_freep) struct profile *both = NULL;
	_cleanup_(profile_freep) struct profile *none = NULL;
	struct query_merge_options options = {.series = keys, .series_count = 2};
	assert_int_equal(query_merge(fixture->store, NULL, &query, &options, &both, NULL, &err), 0);
	assert_int_equal(profile_total(both, 0), 150);
	keys[0] = keys[1] = 12345;
	assert_int_equal(query_merge(fixture->store, NULL, &query, &options, &none, NULL, &err), 0);
	assert_int_equal(none->sample_count, 0);
	const char *by[] = {"service"};
	struct query_merge_options grouped = {.series = keys, .series_count = 1, .by = by, .by_count = 1};
	assert_int_equal(query_merge(fixture->store, NULL, &query, &grouped, &none, NULL, &err), -EINVAL);
}

static void test_long_ranges_are_rounded(void **state)
{
	(void)state;
	const int64_t hour = 3600 * NS_PER_S;
	int64_t from = 1000 * hour + 7, to = 1006 * hour + 7;
	query_round_range(&from, &to);
	assert_true(from == 1000 * hour && to == 1006 * hour + 300 * NS_PER_S);
	query_round_range(&from, &to); /* whole already */
	assert_true(from == 1000 * hour && to == 1006 * hour + 300 * NS_PER_S);
	from = 1000 * hour + 8, to = 1006 * hour + 7;
	query_round_range(&from, &to); /* too short */
	assert_true(from == 1000 * hour + 8 && to == 1006 * hour + 7);
	from = 0, to = INT64_MAX;
	query_round_range(&from, &to);
	assert_true(from == 0 && to == INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_long_ranges_are_rounded),
		cmocka_unit_test(test_merge),
		cmocka_unit_test(test_merge_joins_stacks_of_block_and_head),
		cmocka_unit_test(test_given_series),
		cmocka_unit_test(test_several_types_are_refused),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_chosen_step_gives_few_points),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_know_when),
		cmocka_unit_test(test_type_beside_the_selector),
		cmocka_unit_test(test_unknown_type),
		cmocka_unit_test(test_grouped_merge),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_label_sets),
		cmocka_unit_test(test_labels_of_the_type),
		cmocka_unit_test(test_unaligned_steps),
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_timed),
		cmocka_unit_test(test_type_outside_of_the_range),
		cmocka_unit_test(test_call_sites),
	};
	int failed = cmocka_run_group_tests_name("local store", tests, setup, teardown);
	ops = &fan_store_ops;
	return failed + cmocka_run_group_tests_name("two stores as one", tests, setup, teardown);
}
