/* SPDX-License-Identifier: Apache-2.0 */
#include "store/test_store.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "store/store_int.h"

struct problems {
	char last[2048];
	unsigned count;
};

static void on_problem(void *context, const char *message)
{
	struct problems *problems = context;
	snprintf(problems->last, sizeof(problems->last), "%s", message);
	problems->count++;
}

static struct store *open_store(const char *directory, struct problems *problems)
{
	struct store *store = NULL;
	struct error err = {0};
	struct store_options options = {.directory = directory,
					.retention_age_ns = -1,
					.on_problem = problems ? on_problem : NULL,
					.context = problems};
	if (store_open(&options, &store, &err) < 0)
		fail_msg("%s", err.message);
	return store;
}

static void append_ok(struct store *store, struct model *model, size_t samples)
{
	struct error err = {0};
	if (test_append(store, model, samples, NULL, &err) < 0)
		fail_msg("%s", err.message);
}

static void test_empty(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = open_store(directory, NULL);
	check_all(store, &model);
	assert_int_equal(store_cut(store, NULL), 0);
	store_close(store);
	store = open_store(directory, NULL);
	check_all(store, &model);
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 0);
	assert_int_equal(stats.oldest_ns, 0);
	store_close(store);
	test_directory_remove(directory);
}

/* Appends, cuts and restarts in random order; the model is asked after each. */
static void test_against_model(void **state)
{
	for (int round = 0; round < 6; round++) {
		char *directory = test_directory();
		struct model model = {0};
		struct problems problems = {0};
		struct store *store = open_store(directory, &problems);
		for (int step = 0; step < 30; step++) {
			uint32_t what = rnd_below(10);
			if (what == 0) {
				assert_int_equal(store_cut(store, NULL), 0);
			} else if (what == 1) {
				store_close(store);
				store = open_store(directory, &problems);
			} else {
				append_ok(store, &model, rnd_below(60));
			}
			if (step % 5 == 4)
				check_all(store, &model);
		}
		check_all(store, &model);
		store_close(store);
		store = open_store(directory, &problems);
		check_all(store, &model);
		if (problems.count)
			fail_msg("%s", problems.last);
		store_close(store);
		model_release(&model);
		test_directory_remove(directory);
	}
}

static void test_result_and_stats(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, NULL);
	struct profile *profile;
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	struct store_append_result result;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "alloc_objects"), test_string(profile, "count"), NULL);
	profile_add_sample_type(profile, test_string(profile, "alloc_space"), test_string(profile, "bytes"), NULL);
	/* No samples: accepted, nothing stored. */
	assert_int_equal(store_append(store, profile, &options, &result, NULL), 0);
	assert_int_equal(result.samples, 0);
	struct profile_sample sample = {.stack = test_stack(profile)};
	profile_add_sample(profile, &sample, (int64_t[]){1, 100}, NULL);
	profile_add_sample(profile, &sample, (int64_t[]){0, 50}, NULL);
	profile_add_sample(profile, &sample, (int64_t[]){0, 0}, NULL);
	assert_int_equal(store_append(store, profile, &options, &result, NULL), 0);
	assert_int_equal(result.samples, 3);
	assert_int_equal(result.series, 2);
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_int_equal(stats.appends, 2);
	assert_int_equal(stats.samples, 3);
	assert_int_equal(stats.head_samples, 3);
	assert_int_equal(stats.head_series, 2);
	assert_int_equal(stats.log_records, 1);
	assert_true(stats.log_bytes > 0 && stats.fsyncs >= 1);
	assert_int_equal(stats.oldest_ns, TEST_EPOCH);
	assert_int_equal(store_cut(store, NULL), 0);
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 1);
	assert_int_equal(stats.block_samples, 2); /* equal (series, stack, time) meet */
	assert_int_equal(stats.head_samples, 0);
	assert_int_equal(stats.log_records, 0);
	assert_int_equal(stats.cuts, 1);
	/* Two types selected at once cannot be merged. */
	struct profile *into;
	struct error err = {0};
	struct store_select all = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &all, NULL, into, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "memory:alloc_objects:count"));
	/* A cancelled query says so. */
	atomic_bool cancel = true;
	all.cancel = &cancel;
	assert_int_equal(store_merge(store, &all, NULL, into, NULL, &err), -ECANCELED);
	profile_free(into);
	profile_free(profile);
	store_close(store);
	test_directory_remove(directory);
}

/* The merged profile knows its type, period and range. */
static void test_merge_header(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = open_store(directory, NULL);
	append_ok(store, &model, 50);
	append_ok(store, &model, 50);
	store_cut(store, NULL);
	append_ok(store, &model, 50);
	struct test_sink *sink = test_sink_new("process_cpu:samples:", true);
	struct store_grouping grouping = {.group = test_group, .context = sink};
	struct test_needle room;
	struct store_select select = {
		.from_ns = TEST_EPOCH, .to_ns = TEST_EPOCH + 4000 * NS_PER_S, .series = *test_conditions(sink->needle, &room)};
	struct profile *into;
	struct store_read_stats stats;
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &select, &grouping, into, &stats, NULL), 0);
	assert_int_equal(into->sample_type_count, 1);
	assert_string_equal(profile_string(into, into->sample_types[0].type), "samples");
	assert_string_equal(profile_string(into, into->period_type.unit), "nanoseconds");
	assert_int_equal(into->period, 52631579);
	int64_t min = INT64_MAX, max = INT64_MIN;
	for (size_t i = 0; i < model.count; i++) {
		if (!strstr(model.rows[i].series, sink->needle))
			continue;
		min = model.rows[i].time_ns < min ? model.rows[i].time_ns : min;
		max = model.rows[i].time_ns > max ? model.rows[i].time_ns : max;
	}
	assert_int_equal(into->time_ns, min);
	assert_int_equal(into->duration_ns, max - min);
	assert_int_equal(stats.blocks, 1);
	assert_true(stats.series > 0 && stats.rows > 0 && stats.bytes > 0);
	test_sink_free(sink);
	profile_free(into);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* More labels than get columns, and all kinds of text in them. */
static void test_many_labels(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = open_store(directory, NULL);
	for (int i = 0; i < 150; i++) {
		struct profile *profile = test_profile_random(3);
		struct labels labels;
		char name[32];
		test_labels_random(&labels);
		snprintf(name, sizeof(name), "label_%d", i);
		labels_set(&labels, name, i % 2 ? "va\"lu\\e\n\t\x01" : "\xe2\x82\xac", NULL);
		snprintf(name, sizeof(name), "X%d", i / 2);
		labels_set(&labels, name, "x", NULL);
		struct store_append_options options = {.labels = &labels, .received_ns = TEST_EPOCH, .name = "process_cpu"};
		assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
		model_append(&model, profile, &options);
		labels_release(&labels);
		profile_free(profile);
	}
	check_list(store, &model, "");
	store_cut(store, NULL);
	check_list(store, &model, "");
	check_list(store, &model, "label_78=\"\xe2\x82\xac\"");
	check_series(store, &model, INT64_MIN, INT64_MAX, "X3=\"x\"", 0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* Strings that are not UTF-8 are the same before and after the cut and the restart. */
static void test_ill_formed_text(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = open_store(directory, NULL);
	struct profile *profile = test_profile_random(1);
	struct profile_function function = {.name = test_string(profile, "caf\xe9 %d", 1)};
	struct profile_line line = {0};
	struct profile_location location = {0};
	uint32_t id, stack;
	profile_add_function(profile, &function, &line.function, NULL);
	profile_add_location(profile, &location, &line, 1, &id, NULL);
	profile_add_stack(profile, 0, id, &stack, NULL);
	profile_add_sample(profile, &(struct profile_sample){.stack = stack}, (int64_t[]){5, 5}, NULL);
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	model_append(&model, profile, &options);
	/* What the model expects: the replacement character instead of the byte. */
	for (size_t i = 0; i < model.count; i++) {
		char *bad = strchr(model.rows[i].stack, '\xe9');
		if (bad) {
			char fixed[512];
			snprintf(fixed, sizeof(fixed), "%.*s\xef\xbf\xbd%s", (int)(bad - model.rows[i].stack),
				 model.rows[i].stack, bad + 1);
			mem_free(model.rows[i].stack);
			model.rows[i].stack = mem_strdup(fixed);
		}
	}
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_cut(store, NULL);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_close(store);
	store = open_store(directory, NULL);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_close(store);
	profile_free(profile);
	model_release(&model);
	test_directory_remove(directory);
}

static void test_duplicate_ids(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct error err = {0};
	struct store *store = open_store(directory, NULL);
	for (int phase = 0; phase < 4; phase++) {
		for (uint8_t i = 1; i <= 10; i++)
			assert_int_equal(test_append(store, &model, 5, (uint8_t[16]){i, 7}, &err), 0);
		struct store_stats stats;
		store_get_stats(store, &stats);
		if (phase == 0)
			assert_int_equal(stats.duplicates, 0);
		else
			assert_true(stats.duplicates >= 10);
		check_list(store, &model, "");
		check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
		if (phase == 1)
			store_cut(store, NULL);
		if (phase >= 1) { /* from the block */
			store_close(store);
			store = open_store(directory, NULL);
		}
	}
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void test_id_ring(void **state)
{
	struct id_ring ring;
	uint64_t sequence;
	assert_int_equal(id_ring_init(&ring, NULL), 0);
	for (uint64_t i = 1; i <= STORE_IDS_KEPT + 1000; i++) {
		uint8_t id[16] = {0};
		memcpy(id, &i, 8);
		assert_false(id_ring_find(&ring, id, &sequence));
		id_ring_add(&ring, id, i);
		assert_true(id_ring_find(&ring, id, &sequence) && sequence == i);
	}
	for (uint64_t i = 1; i <= STORE_IDS_KEPT + 1000; i += 7) {
		uint8_t id[16] = {0};
		memcpy(id, &i, 8);
		assert_int_equal(id_ring_find(&ring, id, &sequence), i > 1000);
	}
	id_ring_rewind(&ring, STORE_IDS_KEPT);
	uint8_t id[16] = {0};
	memcpy(id, &(uint64_t){STORE_IDS_KEPT + 1}, 8);
	assert_false(id_ring_find(&ring, id, &sequence));
	memcpy(id, &(uint64_t){STORE_IDS_KEPT}, 8);
	assert_true(id_ring_find(&ring, id, &sequence));
	id_ring_release(&ring);
}

static void test_one_process(void **state)
{
	char *directory = test_directory();
	struct store *store = open_store(directory, NULL), *second = NULL;
	struct error err = {0};
	assert_int_equal(store_open(&(struct store_options){.directory = directory}, &second, &err), -EBUSY);
	assert_non_null(strstr(err.message, "in use by another process"));
	store_close(store);
	store_close(open_store(directory, NULL));
	test_directory_remove(directory);
}

#define SERIES_MAX 6

/* Moves rows of `from` to the model: of known series, and of new ones while there is room. Types come one after the other. */
static size_t model_take_limited(struct model *model, struct model *from, const char *series[static SERIES_MAX],
				 size_t *series_count)
{
	size_t left_out = 0;
	for (int other = 0; other < 2; other++) {
		for (size_t i = 0; i < from->count; i++) {
			struct model_row *row = &from->rows[i];
			size_t at = 0;
			if (!row->series || (strstr(row->series, ":samples:count") == NULL) != other)
				continue;
			while (at < *series_count && strcmp(series[at], row->series) != 0)
				at++;
			if (at == SERIES_MAX) {
				left_out++;
				row->series = mem_free(row->series);
				mem_free(row->stack);
				continue;
			}
			if (at == *series_count)
				series[(*series_count)++] = row->series;
			model_add_row(model, row->series, row->stack, row->time_ns, row->value);
			model->rows[model->count - 1] = *row;
			row->series = NULL;
		}
	}
	mem_free(from->rows);
	*from = (struct model){0};
	return left_out;
}

/* What is of known series is stored, of the rest nothing; a cut makes room; a restart finds the same. */
static void test_series_limit(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store;
	struct store_options options = {.directory = directory, .series_max = SERIES_MAX, .manual = true};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	uint64_t left_out = 0, refused = 0, series_refused = 0;
	for (int round = 0; round < 3; round++) {
		const char *series[SERIES_MAX];
		size_t series_count = 0;
		for (int i = 0; i < 20; i++) {
			struct model all = {0};
			struct labels labels;
			struct profile *profile = test_profile_random(20);
			test_labels_random(&labels);
			struct store_append_options append = {.labels = &labels, .received_ns = TEST_EPOCH};
			struct store_append_result result = {0};
			model_append(&all, profile, &append);
			assert_int_equal(store_append(store, profile, &append, &result, NULL), 0);
			size_t count = all.count, out = model_take_limited(&model, &all, series, &series_count);
			assert_int_equal(result.samples, count - out);
			assert_int_equal(result.over_series, out);
			assert_int_equal(result.refused, out);
			assert_int_equal(result.series_refused > 0, out > 0);
			left_out += out;
			refused += result.refused;
			series_refused += result.series_refused;
			labels_release(&labels);
			profile_free(profile);
		}
		check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
		if (round == 0)
			assert_int_equal(store_cut(store, NULL), 0);
		if (round == 1) {
			store_close(store);
			assert_int_equal(store_open(&options, &store, NULL), 0);
			check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
		}
	}
	struct store_stats stats;
	assert_true(left_out > 0);
	store_get_stats(store, &stats);
	assert_true(stats.series_refused > 0 && stats.series_refused < series_refused); /* of the last opening */
	assert_int_equal(stats.refused, 0);						/* profiles */
	assert_int_equal(refused, left_out);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* A small head is cut by itself, and appends wait for room instead of growing it. */
static void test_bounded_head(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store;
	struct store_options options = {.directory = directory, .head_size_bytes = 256 * KIB, .retention_age_ns = -1};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	for (int i = 0; i < 60; i++) {
		append_ok(store, &model, 400);
		struct store_stats stats;
		store_get_stats(store, &stats);
		assert_true(stats.head_bytes < 3 * 256 * KIB);
	}
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_true(stats.blocks >= 2);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	check_series(store, &model, TEST_EPOCH, INT64_MAX, "samples:count", 100 * NS_PER_S);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void test_cut_by_age(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store;
	struct store_options options = {.directory = directory, .cut_age_ns = 1, .retention_age_ns = -1};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	append_ok(store, &model, 10);
	struct store_stats stats = {0};
	for (int i = 0; i < 12000 && stats.blocks == 0; i++) {
		time_sleep_ns(10 * NS_PER_MS);
		store_get_stats(store, &stats);
	}
	assert_int_equal(stats.blocks, 1);
	check_all(store, &model);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static void append_at(struct store *store, struct model *model, int64_t time_ns)
{
	struct profile *profile = test_profile_random(30);
	struct store_append_options options = {.received_ns = TEST_EPOCH};
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].time_ns = time_ns;
	options.received_ns = time_ns;
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
	model_append(model, profile, &options);
	profile_free(profile);
	assert_int_equal(store_cut(store, NULL), 0);
}

static void forget_before(struct model *model, int64_t time_ns)
{
	for (size_t i = 0; i < model->count; i++)
		if (model->rows[i].time_ns < time_ns)
			model->rows[i].value = 0;
}

static void test_retention(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store;
	struct store_stats stats;
	struct store_options options = {.directory = directory, .retention_age_ns = 3600 * NS_PER_S, .manual = true};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	for (int i = 0; i < 5; i++)
		append_at(store, &model, TEST_EPOCH + i * 1000 * NS_PER_S);
	assert_int_equal(store_apply_retention(store, TEST_EPOCH + 3600 * NS_PER_S, NULL), 0);
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 5);
	assert_int_equal(store_apply_retention(store, TEST_EPOCH + 3600 * NS_PER_S + 1500 * NS_PER_S, NULL), 0);
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 3);
	assert_int_equal(stats.blocks_removed, 2);
	assert_int_equal(stats.oldest_ns, TEST_EPOCH + 2000 * NS_PER_S);
	forget_before(&model, TEST_EPOCH + 2000 * NS_PER_S);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	uint64_t bytes = stats.block_bytes;
	store_close(store);
	/* By size, and a reader that has a block keeps it. */
	options.retention_age_ns = -1;
	options.retention_size_bytes = bytes - 1;
	assert_int_equal(store_open(&options, &store, NULL), 0);
	struct store_snapshot snapshot;
	assert_int_equal(store_snapshot_take(local_of(store), &snapshot, NULL), 0);
	assert_int_equal(store_apply_retention(store, TEST_EPOCH, NULL), 0);
	store_get_stats(store, &stats);
	assert_int_equal(stats.blocks, 2);
	bool found = false;
	for (size_t i = 0; i < snapshot.block_count; i++) {
		void *tables;
		struct store_read_stats read = {0};
		assert_int_equal(cache_get(local_of(store), snapshot.blocks[i], BLOCK_PART_TABLES, &tables, &read, NULL), 0);
		cache_put(local_of(store), BLOCK_PART_TABLES, tables);
		found |= snapshot.blocks[i]->removed;
	}
	assert_true(found);
	char path[PATH_MAX];
	assert_int_equal(io_join_path(path, sizeof(path), local_of(store)->blocks_path, snapshot.blocks[0]->meta.name), 0);
	assert_int_equal(access(path, F_OK), 0);
	store_snapshot_release(local_of(store), &snapshot);
	store_apply_retention(store, TEST_EPOCH, NULL);
	assert_int_equal(access(path, F_OK), -1);
	forget_before(&model, TEST_EPOCH + 3000 * NS_PER_S);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_close(store);
	assert_int_equal(store_open(&options, &store, NULL), 0);
	check_merge(store, &model, INT64_MIN, INT64_MAX, "samples:count");
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

static mode_t mode_of(const char *directory, const char *name)
{
	char path[PATH_MAX];
	struct stat status;
	io_join_path(path, sizeof(path), directory, name);
	assert_int_equal(stat(path, &status), 0);
	return status.st_mode & 0777;
}

static void test_modes(void **state)
{
	char *directory = test_directory();
	struct model model = {0};
	struct store *store = open_store(directory, NULL);
	append_ok(store, &model, 10);
	store_cut(store, NULL);
	char path[PATH_MAX];
	io_join_path(path, sizeof(path), local_of(store)->blocks_path, local_of(store)->blocks[0]->meta.name);
	for (size_t i = 0; i < BLOCK_FILE_COUNT; i++)
		if (local_of(store)->blocks[0]->meta.files[i].size)
			assert_int_equal(mode_of(path, block_file_names[i]) & 0137, 0);
	assert_int_equal(mode_of(path, "meta.json") & 0137, 0);
	assert_int_equal(mode_of(directory, "log") & 027, 0);
	assert_int_equal(mode_of(directory, "blocks") & 027, 0);
	store_close(store);
	model_release(&model);
	test_directory_remove(directory);
}

/* ---- threads ---- */

struct crowd {
	struct store *store;
	pthread_mutex_t lock;
	_Atomic bool stop;
	_Atomic uint64_t total, appended;
};

static struct profile *one_sample_profile(int64_t value)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	profile->time_ns = TEST_EPOCH;
	struct profile_sample sample = {.stack = test_stack(profile)};
	profile_add_sample(profile, &sample, &value, NULL);
	return profile;
}

static void *appender(void *context)
{
	struct crowd *crowd = context;
	while (!crowd->stop) {
		struct store_append_options options = {.received_ns = TEST_EPOCH};
		pthread_mutex_lock(&crowd->lock); /* rnd() is one for all */
		struct profile *profile = one_sample_profile(1 + (int64_t)rnd_below(5));
		pthread_mutex_unlock(&crowd->lock);
		crowd->appended += (uint64_t)profile->values[0];
		assert_int_equal(store_append(crowd->store, profile, &options, NULL, NULL), 0);
		crowd->total += (uint64_t)profile->values[0];
		profile_free(profile);
	}
	return NULL;
}

/* What is acknowledged before the query starts is in the result; nothing is in it that was not begun before it ended. */
static void *reader(void *context)
{
	struct crowd *crowd = context;
	while (!crowd->stop) {
		struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
		struct profile *into;
		assert_int_equal(profile_new(&into, NULL), 0);
		uint64_t before = crowd->total;
		assert_int_equal(store_merge(crowd->store, &select, NULL, into, NULL, NULL), 0);
		uint64_t after = crowd->appended;
		uint64_t got = into->sample_type_count ? (uint64_t)profile_total(into, 0) : 0;
		assert_true(got >= before && got <= after);
		profile_free(into);
	}
	return NULL;
}

static void *cutter(void *context)
{
	struct crowd *crowd = context;
	while (!crowd->stop) {
		struct store_stats stats;
		store_cut(crowd->store, NULL);
		store_get_stats(crowd->store, &stats);
		time_sleep_ns(20 * NS_PER_MS);
	}
	return NULL;
}

static void test_threads(void **state)
{
	char *directory = test_directory();
	struct problems problems = {0};
	struct crowd crowd = {.store = open_store(directory, &problems)};
	pthread_t threads[5];
	void *(*const bodies[5])(void *) = {appender, appender, reader, reader, cutter};
	pthread_mutex_init(&crowd.lock, NULL);
	for (size_t i = 0; i < 5; i++)
		pthread_create(&threads[i], NULL, bodies[i], &crowd);
	const char *seconds = getenv("WICK_TEST_SECONDS");
	time_sleep_ns((seconds ? strtoll(seconds, NULL, 10) : 2) * NS_PER_S);
	crowd.stop = true;
	for (size_t i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(problems.count, 0);
	store_close(crowd.store);
	struct store *store = open_store(directory, &problems);
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	struct profile *into;
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &select, NULL, into, NULL, NULL), 0);
	assert_int_equal(profile_total(into, 0), crowd.total);
	profile_free(into);
	store_close(store);
	pthread_mutex_destroy(&crowd.lock);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_result_and_stats),
		cmocka_unit_test(test_merge_header),
		cmocka_unit_test(test_many_labels),
		cmocka_unit_test(test_ill_formed_text),
		cmocka_unit_test(test_duplicate_ids),
		cmocka_unit_test(test_id_ring),
		cmocka_unit_test(test_one_process),
		cmocka_unit_test(test_series_limit),
		cmocka_unit_test(test_bounded_head),
		cmocka_unit_test(test_cut_by_age),
		cmocka_unit_test(test_retention),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_threads),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
