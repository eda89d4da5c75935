/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that are kept: one fetch for all who wait, renewal, failures, and what responses become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "server/scrape/scrape_http.h"

struct source {
	struct scrape_token token;
	atomic_uint fetches;
	atomic_bool held; /* fetches wait while it is set */
	int result;
	int64_t lifetime_s;
};

static int fetch(void *context, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	struct source *source = context;
	unsigned number = atomic_fetch_add(&source->fetches, 1) + 1;
	while (atomic_load(&source->held) && !cancel_requested(call->cancel))
		time_sleep_ns(NS_PER_MS);
	if (cancel_requested(call->cancel))
		return error_set(err, -ECANCELED, "cancelled");
	if (source->result < 0)
		return error_set(err, source->result, "refused %u", number);
	ret->lifetime_s = source->lifetime_s;
	return buffer_printf(&ret->value, "Bearer %u", number);
}

static int get(struct source *source, int64_t timeout_ns, const atomic_bool *cancel, char *out, size_t size)
{
	const struct scrape_call call = {cancel, time_monotonic_ns() + timeout_ns};
	struct error err = {0};
	char *value = NULL;
	int r = scrape_token_get(&source->token, fetch, source, &call, &value, &err);
	snprintf(out, size, "%s", r < 0 ? err.message : value);
	mem_free(value);
	return r;
}

static void expect(struct source *source, const char *text)
{
	char out[600];
	get(source, 60 * NS_PER_S, NULL, out, sizeof(out));
	assert_string_equal(out, text);
}

static void test_kept(void **state)
{
	struct source source = {.lifetime_s = 3600};
	scrape_token_init(&source.token);
	expect(&source, "Bearer 1");
	expect(&source, "Bearer 1");
	scrape_token_refuse(&source.token, "Bearer 0"); /* of another time */
	expect(&source, "Bearer 1");
	scrape_token_refuse(&source.token, "Bearer 1");
	expect(&source, "Bearer 2");
	/* Who refuses all of them makes nobody fetch one after the other. */
	scrape_token_refuse(&source.token, "Bearer 2");
	expect(&source, "Bearer 2");
	assert_int_equal(source.fetches, 2);
	/* When it is to be renewed and cannot be, it is used to its end. */
	source.result = -EACCES;
	source.token.renew_ns = time_monotonic_ns();
	expect(&source, "Bearer 2");
	assert_int_equal(source.fetches, 3);
	expect(&source, "Bearer 2"); /* without another try so soon */
	assert_int_equal(source.fetches, 3);
	source.token.expires_ns = time_monotonic_ns();
	expect(&source, "refused 3");
	source.token.failed_ns = time_monotonic_ns();
	source.result = 0;
	expect(&source, "Bearer 4");
	scrape_token_release(&source.token);
}

static void test_lifetimes(void **state)
{
	struct source source = {.lifetime_s = 100};
	scrape_token_init(&source.token);
	int64_t began_ns = time_monotonic_ns();
	expect(&source, "Bearer 1");
	assert_true(source.token.expires_ns >= began_ns + 100 * NS_PER_S);
	assert_int_equal(source.token.expires_ns - source.token.renew_ns, 10 * NS_PER_S);
	scrape_token_refuse(&source.token, "Bearer 1");
	source.lifetime_s = INT64_MAX;
	expect(&source, "Bearer 2");
	assert_int_equal(source.token.expires_ns - source.token.renew_ns, 60 * NS_PER_S);
	source.token.refuse_ns = time_monotonic_ns(); /* 5 s later */
	scrape_token_refuse(&source.token, "Bearer 2");
	source.lifetime_s = -5;
	expect(&source, "Bearer 3");
	assert_true(source.token.renew_ns == INT64_MAX);
	scrape_token_release(&source.token);
}

struct waiter {
	struct source *source;
	pthread_t thread;
	char out[600];
};

static void *wait_for_token(void *context)
{
	struct waiter *waiter = context;
	get(waiter->source, 60 * NS_PER_S, NULL, waiter->out, sizeof(waiter->out));
	return NULL;
}

static void test_together(void **state)
{
	struct source source = {.lifetime_s = 3600};
	struct waiter waiters[16];
	char out[600];
	scrape_token_init(&source.token);
	atomic_store(&source.held, true);
	for (size_t i = 0; i < 16; i++) {
		waiters[i].source = &source;
		assert_int_equal(thread_start(&waiters[i].thread, "waiter", wait_for_token, &waiters[i], NULL), 0);
	}
	while (atomic_load(&source.fetches) == 0)
		time_sleep_ns(NS_PER_MS);
	/* Who has less time, or is cancelled, does not wait for the one that fetches. */
	atomic_bool cancel = true;
	assert_int_equal(get(&source, NS_PER_MS, NULL, out, sizeof(out)), -ETIMEDOUT);
	assert_int_equal(get(&source, 60 * NS_PER_S, &cancel, out, sizeof(out)), -ECANCELED);
	atomic_store(&source.held, false);
	for (size_t i = 0; i < 16; i++) {
		pthread_join(waiters[i].thread, NULL);
		assert_string_equal(waiters[i].out, "Bearer 1");
	}
	assert_int_equal(source.fetches, 1);
	scrape_token_release(&source.token);
}

/* Who was cancelled while fetching has learnt nothing: the next one fetches. */
static void test_cancelled(void **state)
{
	struct source source = {.lifetime_s = 3600};
	atomic_bool cancel = true;
	char out[600];
	scrape_token_init(&source.token);
	assert_int_equal(get(&source, 60 * NS_PER_S, &cancel, out, sizeof(out)), -ECANCELED);
	expect(&source, "Bearer 2");
	scrape_token_release(&source.token);
}

static void test_grants(void **state)
{
	static const struct {
		const char *text, *value;
		int64_t lifetime_s;
	} cases[] = {
		{"{\"access_token\":\"a\",\"token_type\":\"bearer\",\"expires_in\":3600}", "Bearer a", 3600},
		{"{\"access_token\":\"a\",\"expires_in\":\"3599\"}", "Bearer a", 3599},
		{"{\"access_token\":\"a\",\"token_type\":\"DPoP\"}", "DPoP a", 0},
		{"{\"access_token\":\"\"}", NULL, 0},
		{"{\"access_token\":1}", NULL, 0},
		{"{\"error\":\"invalid_client\"}", NULL, 0},
		{"[]", NULL, 0},
		{"", NULL, 0},
		{"access_token=a", NULL, 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct scrape_grant grant = {.value.max = 100};
		struct error err = {0};
		int r = scrape_read_grant(bytes_of_string(cases[i].text), &grant, &err);
		if (cases[i].value) {
			assert_int_equal(r, 0);
			assert_string_equal(buffer_string(&grant.value), cases[i].value);
			assert_int_equal(grant.lifetime_s, cases[i].lifetime_s);
		} else {
			assert_true(r < 0 && err.message[0]);
		}
		buffer_release(&grant.value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),	  cmocka_unit_test(test_lifetimes), cmocka_unit_test(test_together),
		cmocka_unit_test(test_cancelled), cmocka_unit_test(test_grants),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
