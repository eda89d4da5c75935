/* SPDX-License-Identifier: Apache-2.0 */
/* Appends of several threads at a time: whatever comes between them, what was acknowledged is there once, and what was refused
 * is not. What they do is the same each time, in which order they meet is not; the verdict does not depend on it. */
#include "store/test_store.h"

#include <errno.h>
#include <pthread.h>

#include "base/fault.h"

#define THREADS 4
#define JOBS	120
#define SAMPLES 30

/* An append that two threads send, as a client that repeats a request does. */
struct job {
	struct profile *profile;
	struct labels labels;
	struct store_append_options options;
	_Atomic unsigned acknowledged, stored; /* stored: and was no duplicate */
};
struct crew {
	struct store *store;
	struct job jobs[JOBS];
	_Atomic size_t next;
	_Atomic int unexpected; /* a result that no append may have */
	int allowed;		/* the one failure that it may have */
	_Atomic bool stop;
	_Atomic uint64_t readings;
};

static struct crew *new_crew(const char *directory, int allowed)
{
	struct crew *crew = mem_zalloc(sizeof(*crew));
	struct store_options options = {.directory = directory, .retention_age_ns = -1, .manual = true};
	assert_int_equal(store_open(&options, &crew->store, NULL), 0);
	crew->allowed = allowed;
	for (size_t i = 0; i < JOBS; i++) {
		struct job *job = &crew->jobs[i];
		job->profile = test_profile_random(1 + rnd_below(SAMPLES));
		test_labels_random(&job->labels);
		/* When the latest of their samples is not too far ahead. */
		job->options =
			(struct store_append_options){.labels = &job->labels, .received_ns = TEST_EPOCH + STORE_FUTURE_NS};
		memcpy(job->options.id, &(uint64_t[2]){i + 1, 99}, sizeof(job->options.id));
	}
	return crew;
}

static void free_crew(struct crew *crew)
{
	store_close(crew->store);
	for (size_t i = 0; i < JOBS; i++) {
		profile_free(crew->jobs[i].profile);
		labels_release(&crew->jobs[i].labels);
	}
	mem_free(crew);
}

static void *appender(void *context)
{
	struct crew *crew = context;
	size_t turn;
	while ((turn = crew->next++) < 2 * JOBS) {
		struct job *job = &crew->jobs[turn / 2];
		struct store_append_result result = {0};
		struct error err = {0};
		int r = store_append(crew->store, job->profile, &job->options, &result, &err);
		if (r == 0) {
			job->acknowledged++;
			job->stored += !result.duplicate;
		} else if (r != crew->allowed || !err.message[0]) {
			crew->unexpected = r;
		}
	}
	return NULL;
}

static uint64_t total_of(struct store *store)
{
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, TEST_SAMPLES};
	struct profile *into;
	assert_int_equal(profile_new(&into, NULL), 0);
	assert_int_equal(store_merge(store, &select, NULL, into, NULL, NULL), 0);
	uint64_t total = into->sample_type_count ? (uint64_t)profile_total(into, 0) : 0;
	profile_free(into);
	return total;
}

/* What a query has seen, a later one sees. */
static void *reader(void *context)
{
	struct crew *crew = context;
	for (uint64_t before = 0, now; !crew->stop; before = now, crew->readings++) {
		now = total_of(crew->store);
		if (now < before)
			crew->unexpected = 1;
	}
	return NULL;
}

static void *cutter(void *context)
{
	struct crew *crew = context;
	for (; !crew->stop; time_sleep_ns(2 * NS_PER_MS))
		if (store_cut(crew->store, NULL) < 0)
			crew->unexpected = 2;
	return NULL;
}

/* Runs until all jobs are done; beside() is called again and again meanwhile. */
static void run(struct crew *crew, void *(*const others[])(void *), size_t other_count, void (*beside)(void))
{
	pthread_t appenders[THREADS], rest[2];
	for (size_t i = 0; i < other_count; i++)
		pthread_create(&rest[i], NULL, others[i], crew);
	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&appenders[i], NULL, appender, crew);
	while (beside && crew->next < 2 * JOBS)
		beside();
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(appenders[i], NULL);
	crew->stop = true;
	for (size_t i = 0; i < other_count; i++)
		pthread_join(rest[i], NULL);
	assert_int_equal(crew->unexpected, 0);
}

static void reopen(struct crew *crew, const char *directory)
{
	struct store_options options = {.directory = directory, .retention_age_ns = -1, .manual = true};
	store_close(crew->store);
	assert_int_equal(store_open(&options, &crew->store, NULL), 0);
}

/* Without any there is nothing to store, and nothing that a second append would be a duplicate of. */
static bool has_values(const struct profile *profile)
{
	bool any = false;
	for (size_t i = 0; i < profile->sample_count * profile->sample_type_count; i++)
		any |= profile->values[i] != 0;
	return any;
}

/* Each that was acknowledged once, the others not at all: now, and after a restart. */
static void check(struct crew *crew, const char *directory, bool all)
{
	struct model model = {0};
	for (size_t i = 0; i < JOBS; i++) {
		struct job *job = &crew->jobs[i];
		if (all)
			assert_int_equal(job->acknowledged, 2);
		if (job->acknowledged)
			model_append(&model, job->profile, &job->options);
		assert_int_equal(has_values(job->profile) ? job->stored : 0, has_values(job->profile) && job->acknowledged);
	}
	check_all(crew->store, &model);
	reopen(crew, directory);
	check_all(crew->store, &model);
	assert_int_equal(store_cut(crew->store, NULL), 0);
	check_all(crew->store, &model);
	model_release(&model);
}

static void test_together(void **state)
{
	char *directory = test_directory();
	struct crew *crew = new_crew(directory, 0);
	run(crew, NULL, 0, NULL);
	check(crew, directory, true);
	free_crew(crew);
	test_directory_remove(directory);
}

static void test_beside_queries_and_cuts(void **state)
{
	char *directory = test_directory();
	struct crew *crew = new_crew(directory, 0);
	run(crew, (void *(*const[])(void *)){reader, cutter}, 2, NULL);
	check(crew, directory, true);
	free_crew(crew);
	test_directory_remove(directory);
}

static void fail_a_write(void)
{
	fault_arm(FAULT_WRITE, 3, 0);
	time_sleep_ns(NS_PER_MS / 2);
	fault_disarm(FAULT_WRITE);
}

static void test_failing_writes(void **state)
{
	char *directory = test_directory();
	struct crew *crew = new_crew(directory, -ENOSPC);
	run(crew, (void *(*const[])(void *)){reader}, 1, fail_a_write);
	check(crew, directory, false);
	/* All that were refused can be sent again. */
	crew->next = 0;
	run(crew, NULL, 0, NULL);
	for (size_t i = 0; i < JOBS; i++)
		assert_true(crew->jobs[i].acknowledged >= 2);
	check(crew, directory, false);
	free_crew(crew);
	test_directory_remove(directory);
}

static void fail_a_sync(void)
{
	static bool done;
	time_sleep_ns(NS_PER_MS);
	if (!done)
		fault_arm(FAULT_SYNC, 20, 0);
	done = true;
}

static void test_failing_sync(void **state)
{
	char *directory = test_directory();
	struct crew *crew = new_crew(directory, -EIO);
	run(crew, (void *(*const[])(void *)){reader}, 1, fail_a_sync);
	fault_disarm(FAULT_SYNC);
	check(crew, directory, false);
	free_crew(crew);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_beside_queries_and_cuts),
		cmocka_unit_test(test_failing_writes),
		cmocka_unit_test(test_failing_sync),
	};
	test_seed_from_environment();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
