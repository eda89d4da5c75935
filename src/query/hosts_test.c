/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of hosts in conditions and groups, against a list of all samples with what their hosts were at the time: over memory,
 * blocks and rollups, of a local store and another one.
 */
#include "store/test_store.h"

#include <errno.h>

#include "base/test_faults.h"
#include "query/pipeline.h"
#include "query/query_int.h"
#include "query/test_fan_store.h"

#define START	   (1700000400ll * NS_PER_S) /* a multiple of five minutes */
#define HOSTS	   7			     /* the last one is not in the table */
#define TIMES	   60
#define EVERY	   (10 * NS_PER_S)
#define SERVICES   2
#define CHANGES	   3
#define TEXT_BYTES 64

/* What a host is, from a time on. */
struct stage_of_host {
	int64_t from_ns;
	const char *zone, *kernel;
};
static const struct stage_of_host hosts[HOSTS][CHANGES + 1] = {
	{{0, "a", "1"}},
	{{0, "a", "1"}, {START + 20 * EVERY, "b", "1"}},
	{{0, "b", "1"}, {START + 30 * EVERY + 5 * NS_PER_S, "b", "2"}},
	{{0, "a", "1"}, {START + 10 * EVERY + NS_PER_MS, "b", "1"}, {START + 40 * EVERY, "a", "2"}},
	{{0, NULL, "1"}},
	{{0, "c", "2"}},
	{{0, NULL, NULL}},
};

struct sample {
	unsigned host, service;
	int64_t time_ns, value;
};
static struct sample samples[HOSTS * TIMES * SERVICES];
static size_t sample_count;

static const struct stage_of_host *stage_at(unsigned host, int64_t time_ns)
{
	size_t at = 0;
	while (at < CHANGES && hosts[host][at + 1].from_ns && hosts[host][at + 1].from_ns <= time_ns)
		at++;
	return &hosts[host][at];
}

/* One of the host's series has a zone of its own, which wins. */
static const char *value_of(const struct sample *sample, const char *label)
{
	static char text[4][TEXT_BYTES];
	static unsigned turn;
	char *out = text[turn++ % 4];
	const struct stage_of_host *stage = stage_at(sample->host, sample->time_ns);
	const char *value = "";
	snprintf(out, TEXT_BYTES, "h%u", sample->host);
	if (strcmp(label, "host_name") == 0)
		return out;
	snprintf(out, TEXT_BYTES, "s%u", sample->service);
	if (strcmp(label, "service") == 0)
		return out;
	if (strcmp(label, "kernel") == 0)
		value = stage->kernel;
	if (strcmp(label, "zone") == 0)
		value = sample->host == 2 && sample->service == 1 ? "own" : stage->zone;
	return value ? value : "";
}

/* ---- the store ---- */

static void append(struct store *store, const struct sample *sample)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(labels_release) struct labels labels = {0};
	struct error err = {0};
	uint32_t location, stack, function;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "cpu"), test_string(profile, "nanoseconds"), NULL);
	struct profile_function about = {.name = test_string(profile, "f%u", sample->host % 3)};
	assert_int_equal(profile_add_function(profile, &about, &function, NULL), 0);
	struct profile_line line = {.function = function};
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &stack, NULL), 0);
	profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &sample->value, NULL);
	profile->time_ns = sample->time_ns;
	labels_set(&labels, "host_name", value_of(sample, "host_name"), NULL);
	labels_set(&labels, "service", value_of(sample, "service"), NULL);
	if (strcmp(value_of(sample, "zone"), "own") == 0)
		labels_set(&labels, "zone", "own", NULL);
	struct store_append_options options = {.name = "process_cpu", .labels = &labels, .received_ns = sample->time_ns};
	struct store_append_result result;
	if (store_append(store, profile, &options, &result, &err) < 0)
		fail_msg("%s", err.message);
}

static void note(struct store *store, const struct sample *sample)
{
	_cleanup_(labels_release) struct labels labels = {0};
	struct error err = {0};
	const struct stage_of_host *stage = stage_at(sample->host, sample->time_ns);
	if (!stage->kernel)
		return;
	labels_set(&labels, "kernel", stage->kernel, NULL);
	labels_set(&labels, "zone", stage->zone ? stage->zone : "", NULL);
	/* The labels are those of the time from when the profile is, but for changes between two profiles. */
	int64_t time_ns = stage->from_ns > sample->time_ns - EVERY ? stage->from_ns : sample->time_ns;
	if (store_note_host(store, value_of(sample, "host_name"), &labels, time_ns, &err) != 0)
		fail_msg("%s", err.message);
}

enum where { IN_MEMORY, IN_BLOCKS, IN_ROLLUPS };

static struct store *fill(const char *directory, const struct store_ops *ops, enum where where)
{
	struct store_options options = {
		.directory = directory, .ops = ops, .retention_age_ns = -1, .late_window_ns = -1, .manual = true};
	struct store *store;
	struct error err = {0};
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	sample_count = 0;
	for (unsigned time = 0; time < TIMES; time++) {
		for (unsigned host = 0; host < HOSTS; host++) {
			for (unsigned service = 0; service < SERVICES; service++) {
				struct sample *sample = &samples[sample_count++];
				*sample = (struct sample){host, service, START + time * EVERY, 1 + rnd_below(1000)};
				append(store, sample);
			}
		}
		if (where != IN_MEMORY && time % 15 == 14)
			assert_int_equal(store_cut(store, NULL), 0);
	}
	/* In any order. */
	for (size_t i = 0; i < sample_count; i++)
		note(store, &samples[i * 17 % sample_count]);
	if (where == IN_ROLLUPS && store_compact(store, START + 48 * 3600 * NS_PER_S, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

/* ---- the model ---- */

struct condition {
	const char *label;
	enum pattern_operator op;
	const char *text;
};
struct question {
	struct condition conditions[3];
	const char *by[3];
};
static const struct question questions[] = {
	{{{"zone", PATTERN_EQUAL, "a"}}, {NULL}},
	{{{"zone", PATTERN_EQUAL, "b"}}, {"zone"}},
	{{{"zone", PATTERN_NOT_EQUAL, "a"}}, {"host_name"}},
	{{{"zone", PATTERN_EQUAL, ""}}, {"host_name", "kernel"}},
	{{{"zone", PATTERN_REGEX, "a|c"}}, {"zone", "service"}},
	{{{"zone", PATTERN_NOT_REGEX, "a|own"}}, {"zone"}},
	{{{"zone", PATTERN_REGEX, "a|b"}, {"kernel", PATTERN_EQUAL, "2"}}, {"zone", "kernel"}},
	{{{"kernel", PATTERN_EQUAL, "2"}, {"service", PATTERN_EQUAL, "s1"}}, {"service"}},
	{{{"kernel", PATTERN_EQUAL, "1"}, {"kernel", PATTERN_NOT_EQUAL, "2"}}, {"kernel"}},
	{{{"host_name", PATTERN_EQUAL, "h3"}}, {"zone"}},
	{{{"zone", PATTERN_EQUAL, "nowhere"}}, {"zone"}},
	{{{NULL}}, {"zone"}},
	{{{NULL}}, {"zone", "kernel", "service"}},
	{{{NULL}}, {"host_name"}},
};

/* Compiled once: every sample is asked. */
static const struct pattern *pattern_of(const struct condition *condition)
{
	static struct pattern compiled[64];
	static size_t count;
	for (size_t i = 0; i < count; i++)
		if (compiled[i].op == condition->op && strcmp(compiled[i].value, condition->text) == 0)
			return &compiled[i];
	assert_true(count < sizeof(compiled) / sizeof(compiled[0]));
	struct pattern *pattern = &compiled[count++];
	assert_int_equal(
		pattern_init(pattern, condition->op, mem_strdup(condition->text), true, "test", condition->label, NULL), 0);
	return pattern;
}

static bool holds(const struct condition *condition, const struct sample *sample)
{
	const char *value = value_of(sample, condition->label);
	return pattern_matches(pattern_of(condition), value, strlen(value));
}

static bool is_asked(const struct question *question, const struct sample *sample)
{
	for (size_t i = 0; i < 3 && question->conditions[i].label; i++)
		if (!holds(&question->conditions[i], sample))
			return false;
	return true;
}

static size_t by_count(const struct question *question)
{
	size_t count = 0;
	while (count < 3 && question->by[count])
		count++;
	return count;
}

/* "zone=a service=s1" of a sample, or of labels. */
static void describe(const struct question *question, const struct sample *sample, const struct labels *labels,
		     char out[static 256])
{
	size_t len = 0;
	out[0] = '\0';
	for (size_t i = 0; i < by_count(question); i++) {
		const char *value = sample ? value_of(sample, question->by[i]) : labels_get(labels, question->by[i]);
		len += (size_t)snprintf(out + len, 256 - len, "%s=%s ", question->by[i], value ? value : "");
	}
	for (size_t i = 0; labels && i < labels->count; i++) { /* and nothing else */
		bool wanted = false;
		for (size_t k = 0; k < by_count(question); k++)
			wanted |= strcmp(labels->items[i].name, question->by[k]) == 0;
		assert_true(wanted);
	}
}

static int64_t oracle_sum(const struct question *question, const char *group, int64_t from_ns, int64_t to_ns)
{
	int64_t sum = 0;
	for (size_t i = 0; i < sample_count; i++) {
		char text[256];
		if (samples[i].time_ns < from_ns || samples[i].time_ns >= to_ns || !is_asked(question, &samples[i]))
			continue;
		describe(question, &samples[i], NULL, text);
		if (!group || strcmp(text, group) == 0)
			sum += samples[i].value;
	}
	return sum;
}

/* ---- asking ---- */

static struct query query_of(const struct question *question, struct query_matcher where[static 3], int64_t from_ns,
			     int64_t to_ns)
{
	struct query query = {.selector = "process_cpu", .where = where, .from_ns = from_ns, .to_ns = to_ns};
	for (size_t i = 0; i < 3 && question->conditions[i].label; i++)
		where[query.where_count++] = (struct query_matcher){question->conditions[i].label, question->conditions[i].op,
								    question->conditions[i].text};
	return query;
}

static void ask_series(struct store *store, const struct question *question, int64_t from_ns, int64_t to_ns, int64_t step_ns)
{
	struct query_matcher where[3];
	struct query query = query_of(question, where, from_ns, to_ns);
	struct query_series_options options = {
		.step_ns = step_ns, .whole = step_ns == 0, .by = question->by, .by_count = by_count(question)};
	struct query_series series;
	struct query_stats stats = {0};
	struct error err = {0};
	int64_t all = 0;
	if (query_series(store, NULL, &query, &options, &series, &stats, &err) < 0)
		fail_msg("%s", err.message);
	assert_false(stats.read.partial);
	for (size_t i = 0; i < series.count; i++) {
		char text[256];
		int64_t total = 0;
		describe(question, NULL, &series.rows[i].labels, text);
		for (size_t k = 0; k < series.rows[i].point_count; k++) {
			const struct query_point *point = &series.rows[i].points[k];
			int64_t end_ns = step_ns ? point->time_ns + step_ns : to_ns;
			assert_int_equal(point->value, oracle_sum(question, text, point->time_ns, end_ns));
			total += point->value;
		}
		assert_int_equal(series.rows[i].total, total);
		all += total;
	}
	assert_int_equal(all, oracle_sum(question, NULL, series.from_ns, series.to_ns));
	query_series_release(&series);
}

static void ask_merge(struct store *store, const struct question *question, int64_t from_ns, int64_t to_ns)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct query_matcher where[3];
	struct query query = query_of(question, where, from_ns, to_ns);
	struct query_merge_options options = {.by = question->by, .by_count = by_count(question)};
	struct error err = {0};
	if (query_merge(store, NULL, &query, &options, &profile, NULL, &err) < 0)
		fail_msg("%s", err.message);
	int64_t total = profile->sample_count ? profile_total(profile, 0) : 0;
	assert_int_equal(total, oracle_sum(question, NULL, from_ns, to_ns));
	if (profile->sample_count) {
		assert_true(profile->time_ns >= from_ns && profile->time_ns <= from_ns + EVERY * TIMES);
		assert_true(profile->duration_ns <= to_ns - from_ns);
	}
	for (size_t set = 0; set < profile->label_set_count; set++) {
		_cleanup_(labels_release) struct labels labels = {0};
		int64_t sum = 0;
		char text[256];
		bool seen = false;
		assert_int_equal(labels_of_sample(profile, (uint32_t)set, NULL, &labels, NULL), 0);
		describe(question, NULL, &labels, text);
		for (size_t i = 0; i < profile->sample_count; i++) {
			/* Each stack of a group once. */
			for (size_t k = 0; k < i; k++)
				assert_false(profile->samples[k].stack == profile->samples[i].stack &&
					     profile->samples[k].labels == profile->samples[i].labels);
			seen |= profile->samples[i].labels == set;
			sum += profile->samples[i].labels == set ? profile->values[i] : 0;
		}
		if (seen)
			assert_int_equal(sum, oracle_sum(question, text, from_ns, to_ns));
	}
}

static void ask_points(struct store *store, const struct question *question, int64_t from_ns, int64_t to_ns)
{
	struct query_matcher where[3];
	struct query query = query_of(question, where, from_ns, to_ns);
	struct query_points points;
	struct error err = {0};
	int64_t sums[64] = {0};
	if (query_points(store, NULL, &query, question->by, by_count(question), &points, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(points.group_count < 64);
	for (size_t i = 0; i < points.count; i++)
		sums[points.points[i].group] += points.points[i].value;
	for (size_t i = 0; i < points.group_count; i++) {
		char text[256];
		describe(question, NULL, &points.groups[i], text);
		assert_int_equal(sums[i], oracle_sum(question, text, from_ns, to_ns));
	}
	query_points_release(&points);
}

static void ask_all(struct store *store)
{
	static const int64_t steps[] = {0, 30 * NS_PER_S, 7 * NS_PER_S, 300 * NS_PER_S};
	const int64_t end_ns = START + TIMES * EVERY;
	for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++) {
		for (size_t round = 0; round < 3; round++) {
			int64_t from_ns = START, to_ns = end_ns;
			if (round) {
				from_ns += (int64_t)rnd_below(TIMES / 2) * EVERY + rnd_below(2) * NS_PER_S;
				to_ns -= (int64_t)rnd_below(TIMES / 2 - 2) * EVERY + rnd_below(2) * NS_PER_S;
			}
			if (from_ns >= to_ns)
				continue;
			for (size_t k = 0; k < sizeof(steps) / sizeof(*steps); k++)
				ask_series(store, &questions[i], from_ns, to_ns, steps[k]);
			ask_merge(store, &questions[i], from_ns, to_ns);
			ask_points(store, &questions[i], from_ns, to_ns);
		}
	}
}

static void test_answers(void **state)
{
	test_seed_from_environment();
	for (enum where where = IN_MEMORY; where <= IN_ROLLUPS; where++) {
		for (int other = 0; other < 2; other++) {
			char *directory = test_directory();
			struct store *store = fill(directory, other ? &fan_store_ops : NULL, where);
			ask_all(store);
			store_close(store);
			test_directory_remove(directory);
		}
	}
}

/* ---- lists ---- */

static const struct query_name *find(const struct query_names *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->items[i].name, name) == 0)
			return &names->items[i];
	return NULL;
}

static void check_values(struct store *store, const char *selector, const char *label, const char *values)
{
	struct query query = {.selector = selector, .from_ns = START, .to_ns = START + TIMES * EVERY};
	struct query_names names;
	char text[256] = "";
	struct error err = {0};
	if (query_label_values(store, &query, label, "", 0, &names, NULL, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < names.count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:%llu:%llu ", names.items[i].name,
			 (unsigned long long)names.items[i].hosts, (unsigned long long)names.items[i].series);
	assert_string_equal(text, values);
	query_names_release(&names);
}

static void test_lists(void **state)
{
	char *directory = test_directory();
	struct store *store = fill(directory, NULL, IN_MEMORY);
	struct query query = {.selector = "process_cpu", .from_ns = START, .to_ns = START + TIMES * EVERY};
	struct query_names names;
	assert_int_equal(query_label_names(store, &query, &names, NULL, NULL), 0);
	assert_int_equal(names.count, 4);
	assert_int_equal(find(&names, "host_name")->hosts, 0);
	assert_int_equal(find(&names, "kernel")->hosts, 6);
	assert_int_equal(find(&names, "kernel")->values, 2);
	assert_int_equal(find(&names, "kernel")->series, 12);
	assert_int_equal(find(&names, "kernel")->samples, 12 * TIMES);
	assert_int_equal(find(&names, "zone")->hosts, 5);
	query_names_release(&names);
	/* One series has a zone of its own; those of hosts are left out. */
	query.own_labels = true;
	assert_int_equal(query_label_names(store, &query, &names, NULL, NULL), 0);
	assert_null(find(&names, "kernel"));
	assert_int_equal(find(&names, "zone")->hosts, 0);
	assert_int_equal(find(&names, "zone")->series, 1);
	assert_int_equal(find(&names, "zone")->values, 1);
	query_names_release(&names);
	query.own_labels = false;
	check_values(store, "process_cpu", "zone", "a:3:6 b:3:6 c:1:2 own:0:1 ");
	check_values(store, "process_cpu{host_name=\"h3\"}", "zone", "a:1:2 b:1:2 ");
	check_values(store, "process_cpu{zone=\"c\"}", "kernel", "2:1:2 ");
	check_values(store, "process_cpu{zone=\"c\"}", "host_name", "h5:0:2 ");
	/* Combinations, as Pyroscope's Series call lists them */
	struct query_label_sets sets;
	const char *by[] = {"zone"};
	assert_int_equal(query_label_sets(store, &query, by, 1, 0, &sets, NULL, NULL), 0);
	assert_int_equal(sets.count, 5); /* with those without a zone */
	query_label_sets_release(&sets);
	store_close(store);
	test_directory_remove(directory);
}

/* The whole language: a difference of two times, a table, a comparison. */
static void test_pipeline(void **state)
{
	char *directory = test_directory();
	struct store *store = fill(directory, NULL, IN_BLOCKS);
	const struct question of_b = {{{"zone", PATTERN_EQUAL, "b"}}, {NULL}};
	const struct query_options options = {.query = {.from_ns = START + 300 * NS_PER_S, .to_ns = START + 600 * NS_PER_S},
					      .now_ns = START + 600 * NS_PER_S};
	struct query_result result;
	struct error err = {0};
	if (query_run(store, NULL, "process_cpu{zone=\"b\"} | diff (shift 5m)", &options, &result, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(profile_total(result.profile, 0), oracle_sum(&of_b, NULL, START, START + 300 * NS_PER_S));
	assert_int_equal(profile_total(result.profile, 1),
			 oracle_sum(&of_b, NULL, START + 300 * NS_PER_S, START + 600 * NS_PER_S));
	query_result_release(&result);
	if (query_run(store, NULL, "process_cpu | compare zone top 2", &options, &result, NULL, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(result.comparison.count, 2);
	assert_int_equal(result.comparison.count_before_limit, 5);
	for (size_t i = 0; i < 2; i++) {
		const struct question one = {{{"zone", PATTERN_EQUAL, result.comparison.items[i].value}}, {NULL}};
		assert_int_equal(result.comparison.items[i].total,
				 oracle_sum(&one, NULL, START + 300 * NS_PER_S, START + 600 * NS_PER_S));
	}
	query_result_release(&result);
	store_close(store);
	test_directory_remove(directory);
}

/* A thousand hosts, each with labels of its own: as many series as without. */
static void test_no_series(void **state)
{
	char *directory = test_directory();
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .late_window_ns = -1, .manual = true, .series_max = 1000};
	struct store *store;
	struct store_stats before, after;
	assert_int_equal(store_open(&options, &store, NULL), 0);
	for (unsigned host = 0; host < 1000; host++)
		append(store, &(struct sample){.host = host % 6, .service = host, .time_ns = START, .value = 1});
	store_get_stats(store, &before);
	for (unsigned host = 0; host < 1000; host++) {
		for (unsigned change = 0; change < 5; change++) {
			_cleanup_(labels_release) struct labels labels = {0};
			char name[32], value[32];
			snprintf(name, sizeof(name), "host%u", host);
			snprintf(value, sizeof(value), "%u-%u", host, change);
			labels_set(&labels, "serial", value, NULL);
			labels_set(&labels, "zone", "a", NULL);
			assert_int_equal(store_note_host(store, name, &labels, START + change * EVERY, NULL), 0);
		}
	}
	store_get_stats(store, &after);
	assert_int_equal(before.head_series, 1000);
	assert_int_equal(after.head_series, 1000);
	assert_int_equal(after.hosts, 1000);
	assert_int_equal(after.host_runs, 5000);
	store_close(store);
	test_directory_remove(directory);
}

/* What a query does not ask for changes nothing of how it is read. */
static void test_untouched(void **state)
{
	char *directory = test_directory();
	struct store *store = fill(directory, NULL, IN_MEMORY);
	struct query_scan scan;
	const char *by[] = {"service"}, *by_zone[] = {"zone"};
	struct query query = {.selector = "process_cpu{service=\"s1\"}", .from_ns = START, .to_ns = START + TIMES * EVERY};
	assert_int_equal(query_scan_init(&scan, NULL, &query, NULL), 0);
	assert_int_equal(query_scan_join(&scan, store, by, 1, NULL), 0);
	assert_null(scan.join);
	query_scan_release(&scan);
	assert_int_equal(query_scan_init(&scan, NULL, &query, NULL), 0);
	assert_int_equal(query_scan_join(&scan, store, by_zone, 1, NULL), 0);
	assert_non_null(scan.join);
	query_scan_release(&scan);
	store_close(store);
	test_directory_remove(directory);
}

static int ask_once(void *context)
{
	static const char *const by[] = {"zone", "kernel"};
	const struct query_matcher where = {"zone", PATTERN_REGEX, "a|b"};
	struct query query = {
		.selector = "process_cpu", .where = &where, .where_count = 1, .from_ns = START, .to_ns = START + TIMES * EVERY};
	struct query_merge_options options = {.by = by, .by_count = 2};
	struct query_names names;
	struct profile *profile;
	int r = query_merge(context, NULL, &query, &options, &profile, NULL, NULL);
	if (r < 0)
		return r;
	profile_free(profile);
	r = query_label_values(context, &query, "kernel", "", 0, &names, NULL, NULL);
	if (r == 0)
		query_names_release(&names);
	return r;
}

static void test_out_of_memory(void **state)
{
	char *directory = test_directory();
	struct store *store = fill(directory, NULL, IN_MEMORY);
	assert_true(test_each_allocation(ask_once, store) > 100);
	store_close(store);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),	  cmocka_unit_test(test_lists),	    cmocka_unit_test(test_pipeline),
		cmocka_unit_test(test_no_series), cmocka_unit_test(test_untouched), cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
