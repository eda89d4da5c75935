/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of indexes keeps to its budget, whatever it is, and answers do not depend on it. */
#include <pthread.h>

#include "base/budget.h"
#include "base/test_stride.h"
#include "store/test_store.h"

#define BLOCKS	12
#define THREADS 4

static struct store *store;

/* A selection of one service, or of all of them. */
struct asked {
	const char *service;
	uint64_t hash;
	struct store_read_stats stats;
};

static struct asked ask(const char *service)
{
	struct asked asked = {.service = service};
	static const struct type_condition samples = {.parts = {"process_cpu", "samples"}};
	const struct label_condition of_service = {.label = "service_name", .text = service};
	const struct store_select select = {
		.from_ns = INT64_MIN,
		.to_ns = INT64_MAX,
		.series = {.types = &samples, .type_count = 1, .labels = &of_service, .label_count = service != NULL}};
	struct profile *into;
	struct error err = {0};
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &select, NULL, into, &asked.stats, &err) < 0)
		fail_msg("%s", err.message);
	/* Whatever the order of samples is. */
	for (size_t i = 0; i < into->sample_count; i++) {
		char *stack = stack_text(into, into->samples[i].stack);
		asked.hash += hash64_seed(stack, strlen(stack), (uint64_t)into->values[i]);
		mem_free(stack);
	}
	profile_free(into);
	return asked;
}

static const char *const services[] = {NULL, "service0", "service1", "service2", "service3"};
#define SERVICES (sizeof(services) / sizeof(*services))
static uint64_t expected[SERVICES];

static uint64_t cached(void)
{
	struct store_stats stats;
	store_get_stats(store, &stats);
	return stats.cache_bytes;
}

static void *ask_often(void *context)
{
	bool *right = context;
	size_t rounds = 6 / test_stride();
	for (size_t i = 0; i < rounds * SERVICES; i++)
		*right &= ask(services[i % SERVICES]).hash == expected[i % SERVICES];
	return NULL;
}

static void test_budgets(void **state)
{
	char *directory = test_directory();
	struct store_options options = {.directory = directory, .retention_age_ns = -1, .manual = true};
	struct model model = {0};
	assert_int_equal(store_open(&options, &store, NULL), 0);
	for (int i = 0; i < BLOCKS; i++) {
		for (int k = 0; k < 20; k++)
			assert_int_equal(test_append(store, &model, 60, NULL, NULL), 0);
		assert_int_equal(store_cut(store, NULL), 0);
	}
	model_release(&model);
	for (size_t i = 0; i < SERVICES; i++)
		expected[i] = ask(services[i]).hash;
	assert_true(expected[0] != 0 && expected[1] != expected[2]);
	/* With room for all of them nothing is read twice. */
	uint64_t whole = cached();
	assert_true(whole > 0);
	assert_int_equal(ask(NULL).stats.cache_misses, 0);
	const uint64_t budgets[] = {whole, whole / 2, whole / 4, whole / BLOCKS, whole / BLOCKS / 2,
				    1000,  1,	      0,	 whole / 3,	 whole};
	for (size_t i = 0; i < sizeof(budgets) / sizeof(*budgets); i++) {
		pthread_t threads[THREADS];
		bool right[THREADS];
		store_set_cache(store, budgets[i]);
		assert_true(cached() <= budgets[i]);
		for (size_t t = 0; t < THREADS; t++) {
			right[t] = true;
			assert_int_equal(pthread_create(&threads[t], NULL, ask_often, &right[t]), 0);
		}
		for (size_t t = 0; t < THREADS; t++) {
			pthread_join(threads[t], NULL);
			assert_true(right[t]);
		}
		assert_true(cached() <= budgets[i]);
		for (size_t s = 0; s < SERVICES; s++) {
			assert_int_equal(ask(services[s]).hash, expected[s]);
			assert_true(cached() <= budgets[i]);
		}
	}
	/* Queries that have all of their common memory leave none to the cache, and their answers are the same. */
	assert_true(cached() > 0);
	struct budget_pool pool = {.max_bytes = 64 * BUDGET_PIECE};
	struct budget own = {.pool = &pool};
	budget_enter(&own);
	uint64_t hash = ask(NULL).hash;
	budget_leave(NULL);
	assert_int_equal(hash, expected[0]);
	assert_int_equal(cached(), whole);
	own.taken = 4 * BUDGET_PIECE; /* enough for this one, and others have the rest */
	pool.used = pool.max_bytes;
	budget_enter(&own);
	hash = ask("service1").hash;
	budget_leave(NULL);
	assert_int_equal(hash, expected[2]);
	assert_int_equal(cached(), 0);
	assert_int_equal(ask(NULL).hash, expected[0]);
	struct store_stats stats;
	store_get_stats(store, &stats);
	assert_true(stats.cache_evictions > BLOCKS);
	assert_int_equal(ask(NULL).stats.cache_misses, 0);
	store_close(store);
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budgets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
