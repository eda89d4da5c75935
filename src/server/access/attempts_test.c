/* SPDX-License-Identifier: Apache-2.0 */
/* Delays for wrong tokens grow, end, and are nobody else's. */
#include "server/access/attempts.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/time.h"

static const uint8_t mine[TOKEN_HASH_BYTES] = {1}, other[TOKEN_HASH_BYTES] = {2};

static void test_delays(void **state)
{
	struct attempts *attempts = attempts_new();
	int64_t now_ns = 1000 * NS_PER_S, wait_ns, before_ns = 0;
	(void)state;
	for (unsigned i = 1; i < ATTEMPTS_FREE; i++) {
		attempts_failed(attempts, 7, now_ns);
		assert_int_equal(attempts_wait_ns(attempts, 7, mine, now_ns), 0);
	}
	for (unsigned i = 0; i < 10; i++) {
		attempts_failed(attempts, 7, now_ns);
		wait_ns = attempts_wait_ns(attempts, 7, mine, now_ns);
		assert_int_equal(wait_ns, (i < 6 ? 1ll << i : 60) * NS_PER_S);
		assert_true(wait_ns >= before_ns);
		before_ns = wait_ns;
		assert_int_equal(attempts_wait_ns(attempts, 8, mine, now_ns), 0); /* another address */
		now_ns += wait_ns - 1;
		assert_int_equal(attempts_wait_ns(attempts, 7, mine, now_ns), 1);
		now_ns += 1;
		assert_int_equal(attempts_wait_ns(attempts, 7, mine, now_ns), 0);
	}
	now_ns += (ATTEMPTS_FORGET_S + 1) * NS_PER_S;
	attempts_failed(attempts, 7, now_ns);
	assert_int_equal(attempts_wait_ns(attempts, 7, mine, now_ns), 0);
	attempts_free(attempts);
}

/* Behind one address: who used its token lately goes on, with that token. */
static void test_known(void **state)
{
	struct attempts *attempts = attempts_new();
	int64_t now_ns = 1000 * NS_PER_S;
	(void)state;
	assert_true(attempts_succeeded(attempts, 7, mine, now_ns));
	assert_false(attempts_succeeded(attempts, 7, mine, now_ns + NS_PER_S));
	assert_true(attempts_succeeded(attempts, 9, mine, now_ns)); /* from elsewhere it is another login */
	for (unsigned i = 0; i < 2 * ATTEMPTS_FREE; i++)
		attempts_failed(attempts, 7, now_ns);
	assert_int_equal(attempts_wait_ns(attempts, 7, mine, now_ns), 0);
	assert_true(attempts_wait_ns(attempts, 7, other, now_ns) > 0);
	now_ns += (ATTEMPTS_LOGIN_S + 2) * NS_PER_S;
	attempts_failed(attempts, 7, now_ns);
	for (unsigned i = 0; i < ATTEMPTS_FREE; i++)
		attempts_failed(attempts, 7, now_ns);
	assert_true(attempts_wait_ns(attempts, 7, mine, now_ns) > 0); /* not lately any more */
	assert_true(attempts_succeeded(attempts, 7, mine, now_ns));
	attempts_free(attempts);
}

/* More addresses than there is room for: the latest are kept. */
static void test_full(void **state)
{
	struct attempts *attempts = attempts_new();
	int64_t now_ns = 1000 * NS_PER_S;
	(void)state;
	for (uint64_t peer = 1; peer <= 100000; peer++) {
		for (unsigned i = 0; i < ATTEMPTS_FREE; i++)
			attempts_failed(attempts, peer, now_ns);
		assert_true(attempts_wait_ns(attempts, peer, mine, now_ns) > 0);
		attempts_succeeded(attempts, peer, mine, now_ns++);
	}
	assert_int_equal(attempts_wait_ns(attempts, 1, other, now_ns), 0);
	assert_true(attempts_wait_ns(attempts, 100000, other, now_ns) > 0);
	assert_int_equal(attempts_wait_ns(attempts, 100000, mine, now_ns), 0);
	attempts_free(attempts);
	assert_int_equal(attempts_wait_ns(NULL, 1, mine, now_ns), 0);
	attempts_failed(NULL, 1, now_ns);
	assert_false(attempts_succeeded(NULL, 1, mine, now_ns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_delays), cmocka_unit_test(test_known),
					   cmocka_unit_test(test_full)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
