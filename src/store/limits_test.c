/* SPDX-License-Identifier: Apache-2.0 */
/* What the store does not take, what it says about it, and that it is the same after a restart. */
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "store/test_store.h"

#define HOUR_NS (3600 * NS_PER_S)

/* One sample type, a sample a time. */
static struct profile *profile_at(const int64_t *times, size_t count, const char *period_type)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type = test_string(profile, "cpu"), unit = test_string(profile, "nanoseconds");
	assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	profile->period_type.type = test_string(profile, "%s", period_type);
	for (size_t i = 0; i < count; i++) {
		const struct profile_sample sample = {.time_ns = times[i], .stack = test_stack(profile)};
		assert_int_equal(profile_add_sample(profile, &sample, &(int64_t){100 + (int64_t)i}, NULL), 0);
	}
	return profile;
}

static int append(struct store *store, const int64_t *times, size_t count, const char *period_type,
		  struct store_append_result *ret)
{
	struct profile *profile = profile_at(times, count, period_type);
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	int r = store_append(store, profile, &options, ret, NULL);
	profile_free(profile);
	return r;
}

static uint64_t refusals(const struct store_stats *stats, const char *name)
{
	for (size_t i = 0; i < STORE_REFUSAL_COUNT; i++)
		if (!strcmp(stats->refusals[i].name, name))
			return stats->refusals[i].count;
	fail_msg("no reason is called %s", name);
	return 0;
}

static struct store *open_store(const char *directory, int64_t late_window_ns)
{
	struct store *store;
	struct error err = {0};
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .late_window_ns = late_window_ns, .cut_age_ns = 1000 * HOUR_NS};
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

static const int64_t mixed[] = {TEST_EPOCH - HOUR_NS - 1, TEST_EPOCH - HOUR_NS, TEST_EPOCH, TEST_EPOCH + HOUR_NS,
				TEST_EPOCH + HOUR_NS + 1};

static void test_late(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, HOUR_NS);
	struct store_append_result result;
	struct store_stats stats;
	assert_int_equal(append(store, mixed, 5, "cpu", &result), 0);
	assert_int_equal(result.samples, 3);
	assert_int_equal(result.refused, 2);
	assert_int_equal(append(store, mixed, 1, "cpu", &result), 0);
	assert_int_equal(result.samples, 0);
	assert_int_equal(result.refused, 1);
	assert_int_equal(append(store, mixed, 5, "process_stats", &result), 0);
	assert_int_equal(result.samples, 3);
	assert_int_equal(result.refused, 2);
	store_get_stats(store, &stats);
	assert_int_equal(refusals(&stats, "late"), 3);
	assert_int_equal(refusals(&stats, "future"), 2);
	assert_int_equal(stats.refused, 0); /* profiles */
	assert_int_equal(stats.head_samples, 3);
	assert_int_equal(stats.head_process_rows, 3);
	assert_int_equal(stats.oldest_ns, TEST_EPOCH - HOUR_NS);
	store_close(store);
	test_directory_remove(directory);
}

/* The log holds what was refused as well; that must not come back, nor what was accepted be lost, under another window. */
static void test_replay(void **state)
{
	char *directory = test_directory();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *store = open_store(directory, HOUR_NS);
		int r = append(store, mixed, 5, "cpu", NULL) | append(store, mixed, 5, "process_stats", NULL);
		_exit(r != 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int round = 0; round < 3; round++) {
		static const int64_t windows[] = {HOUR_NS, -1, 1};
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct store_stats stats;
			struct store *store = open_store(directory, windows[round]);
			store_get_stats(store, &stats);
			_exit(!(stats.head_samples == 3 && stats.head_process_rows == 3));
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	test_directory_remove(directory);
}

static void test_no_window(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, 0); /* everything is kept for ever */
	struct store_append_result result;
	assert_int_equal(append(store, (const int64_t[]){1, TEST_EPOCH - 1000 * HOUR_NS, TEST_EPOCH}, 3, "cpu", &result), 0);
	assert_int_equal(result.samples, 3);
	assert_int_equal(result.refused, 0);
	store_close(store);
	test_directory_remove(directory);
}

static void test_stacks(void **state)
{
	char *directory = test_directory();
	struct store_options options = {
		.directory = directory, .retention_age_ns = -1, .stacks_max = 50, .cut_age_ns = 1000 * HOUR_NS};
	struct store *store;
	struct store_stats stats = {0};
	struct error err = {0};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	/* One alone is too large, which is said with the limit's name. */
	struct profile *profile = test_profile_random(200);
	assert_true(profile->stack_count > 50);
	struct store_append_options append_options = {.received_ns = TEST_EPOCH};
	assert_int_equal(store_append(store, profile, &append_options, NULL, &err), -E2BIG);
	assert_non_null(strstr(err.message, "stacks limit"));
	profile_free(profile);
	store_get_stats(store, &stats);
	assert_int_equal(refusals(&stats, "stacks"), 1);
	assert_int_equal(stats.refused, 1);
	/* Many together cut the head, and all are taken. */
	uint64_t samples = 0;
	for (int i = 0; i < 40; i++) {
		struct store_append_result result;
		assert_int_equal(append(store, mixed + 1, 3, "cpu", &result), 0);
		samples += result.samples;
	}
	assert_int_equal(samples, 120);
	for (int i = 0; i < 12000 && stats.cuts == 0; i++) {
		time_sleep_ns(10 * NS_PER_MS);
		store_get_stats(store, &stats);
	}
	assert_true(stats.cuts > 0);
	store_close(store);
	test_directory_remove(directory);
}

static void test_reasons(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.directory = directory, .retention_age_ns = -1, .series_max = 1};
	struct store_append_options append_options = {.received_ns = TEST_EPOCH};
	struct store_stats stats;
	struct store *store;
	assert_int_equal(store_open(&options, &store, NULL), 0);
	assert_int_equal(append(store, mixed + 2, 1, "cpu", NULL), 0);
	assert_int_equal(append(store, mixed + 2, 1, "wall", NULL), 0);
	struct profile *profile = profile_at(mixed + 2, 1, "cpu");
	struct profile_label labels[60];
	for (size_t i = 0; i < 60; i++)
		labels[i] = (struct profile_label){.key = test_string(profile, "k%zu", i), .value = test_string(profile, "v")};
	assert_int_equal(profile_add_label_set(profile, labels, 60, &profile->samples[0].labels, NULL), 0);
	assert_int_equal(store_append(store, profile, &append_options, NULL, NULL), -E2BIG);
	profile_free(profile);
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){0}, NULL, NULL), 0);
	assert_int_equal(store_append(store, profile, &append_options, NULL, NULL), -EINVAL);
	profile_free(profile);
	store_get_stats(store, &stats);
	assert_int_equal(refusals(&stats, "series"), 1);
	assert_int_equal(refusals(&stats, "labels"), 1);
	assert_int_equal(refusals(&stats, "invalid"), 1);
	assert_int_equal(stats.refused, 2);
	assert_int_equal(stats.appends, 2);
	store_close(store);
	test_directory_remove(directory);
}

/* ---- series ---- */

/* A sample of each of these users, all with that value. */
static struct profile *profile_of_users(int first, int count, int64_t value, const char *sample_type)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type = test_string(profile, "%s", sample_type), unit = test_string(profile, "count");
	assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	profile->time_ns = TEST_EPOCH;
	for (int user = first; user < first + count; user++) {
		struct profile_label label = {.key = test_string(profile, "user"), .value = test_string(profile, "%d", user)};
		struct profile_sample sample = {.stack = test_stack(profile)};
		assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

static struct store_append_result append_users(struct store *store, int first, int count, int64_t value,
					       const char *sample_type)
{
	struct profile *profile = profile_of_users(first, count, value, sample_type);
	struct store_append_options options = {.received_ns = TEST_EPOCH, .name = "work"};
	struct store_append_result result = {0};
	struct error err = {0};
	if (store_append(store, profile, &options, &result, &err) < 0)
		fail_msg("%s", err.message);
	profile_free(profile);
	return result;
}

static struct store *open_for_series(const char *directory)
{
	struct store *store;
	struct store_options options = {.directory = directory, .retention_age_ns = -1, .series_max = 4, .manual = true};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	return store;
}

static int note_user(void *context, const struct store_item *item, struct error *err)
{
	uint64_t *samples = context;
	samples[strtoul(item->name, NULL, 10)] += item->samples;
	return 0;
}

static void expect_samples(struct store *store, const uint64_t wanted[10])
{
	uint64_t samples[10] = {0};
	const struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	assert_int_equal(store_list_values(store, &select, "user", "", note_user, samples, NULL, NULL), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(samples[i], wanted[i]);
}

static void test_new_series_only(void **state)
{
	char *directory = test_directory();
	struct store *store = open_for_series(directory);
	struct store_append_result result = append_users(store, 0, 3, 1, "jobs");
	assert_int_equal(result.series, 3);
	assert_int_equal(result.series_refused, 0);
	/* One more fits; the known ones are stored beside those that do not. */
	result = append_users(store, 0, 10, 2, "jobs");
	assert_int_equal(result.samples, 4);
	assert_int_equal(result.series, 4);
	assert_int_equal(result.refused, 6);
	assert_int_equal(result.over_series, 6);
	assert_int_equal(result.series_refused, 6);
	assert_int_equal(result.series_max, 4);
	/* New by its type. */
	result = append_users(store, 0, 2, 1, "tasks");
	assert_int_equal(result.samples, 0);
	assert_int_equal(result.over_series, 2);
	expect_samples(store, (const uint64_t[10]){2, 2, 2, 1});
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.series_refused, 8);
	assert_int_equal(stats.head_series, 4);
	assert_int_equal(refusals(&stats, "series"), 8);
	assert_int_equal(stats.refused, 0);
	/* The next head has room again. */
	assert_int_equal(store_cut(store, NULL), 0);
	result = append_users(store, 6, 4, 1, "tasks");
	assert_int_equal(result.samples, 4);
	expect_samples(store, (const uint64_t[10]){2, 2, 2, 1, 0, 0, 1, 1, 1, 1});
	store_close(store);
	/* And so is it after a restart. */
	store = open_for_series(directory);
	expect_samples(store, (const uint64_t[10]){2, 2, 2, 1, 0, 0, 1, 1, 1, 1});
	store_close(store);
	test_directory_remove(directory);
}

/* Zeros of gauges make series as well. */
static void test_gauges_over_series(void **state)
{
	char *directory = test_directory();
	struct store *store = open_for_series(directory);
	assert_int_equal(append_users(store, 0, 4, 0, "inuse_objects").samples, 4);
	struct store_append_result result = append_users(store, 2, 4, 0, "inuse_objects");
	assert_int_equal(result.samples, 2);
	assert_int_equal(result.series_refused, 2);
	result = append_users(store, 6, 2, 0, "inuse_objects");
	assert_int_equal(result.samples, 0);
	assert_int_equal(result.over_series, 1);
	assert_int_equal(result.series_refused, 2);
	store_close(store);
	test_directory_remove(directory);
}

/* A sender that makes ever new labels does not fill the memory with what is not stored. */
static void test_refused_takes_no_memory(void **state)
{
	char *directory = test_directory();
	struct store *store = open_for_series(directory);
	struct store_stats before, after;
	append_users(store, 0, 4, 1, "jobs");
	store_get_stats(store, &before);
	for (int i = 1; i <= 200; i++) {
		char type[32];
		snprintf(type, sizeof(type), "type%d", i);
		assert_int_equal(append_users(store, 100 * i, 100, 1, i % 2 ? "jobs" : type).samples, 0);
	}
	store_get_stats(store, &after);
	assert_int_equal(after.series_refused, 20000);
	assert_int_equal(after.head_series, 4);
	assert_true(after.head_bytes < before.head_bytes + 8 * KIB);
	assert_int_equal(after.log_bytes, before.log_bytes);
	store_close(store);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_no_window),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_new_series_only),
		cmocka_unit_test(test_gauges_over_series),
		cmocka_unit_test(test_refused_takes_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
