/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "agent/spool.h"
#include "base/time.h"

static struct buffer make(const char *text)
{
	struct buffer buffer;
	buffer_init(&buffer, 1000);
	assert_int_equal(buffer_append_string(&buffer, text), 0);
	return buffer;
}

static void push(struct spool *spool, const char *text)
{
	struct buffer record = make(text);
	assert_int_equal(spool_push(spool, &record, NULL), 0);
	assert_int_equal(record.len, 0);
}

static void expect(struct spool *spool, const char *text)
{
	struct buffer record;
	assert_int_equal(spool_pop(spool, 0, &record), 1);
	assert_string_equal(buffer_string(&record), text);
	spool_done(spool, &record, true);
}

static void test_order(void **state)
{
	(void)state;
	_cleanup_(spool_freep) struct spool *spool = NULL;
	assert_int_equal(spool_new(100, &spool, NULL), 0);
	push(spool, "one");
	push(spool, "two");
	expect(spool, "one");
	push(spool, "three");
	expect(spool, "two");
	expect(spool, "three");
	struct buffer record;
	assert_int_equal(spool_pop(spool, 0, &record), 0);
}

static void test_put_back_comes_first(void **state)
{
	(void)state;
	_cleanup_(spool_freep) struct spool *spool = NULL;
	assert_int_equal(spool_new(100, &spool, NULL), 0);
	push(spool, "one");
	push(spool, "two");
	struct buffer record;
	assert_int_equal(spool_pop(spool, 0, &record), 1);
	spool_done(spool, &record, false);
	expect(spool, "one");
	expect(spool, "two");
}

static void test_oldest_are_dropped_and_counted(void **state)
{
	(void)state;
	_cleanup_(spool_freep) struct spool *spool = NULL;
	assert_int_equal(spool_new(10, &spool, NULL), 0);
	push(spool, "aaaa");
	push(spool, "bbbb");
	push(spool, "cccc");
	struct spool_stats stats;
	spool_get_stats(spool, &stats);
	assert_int_equal(stats.dropped, 1);
	assert_int_equal(stats.records, 2);
	assert_int_equal(stats.bytes, 8);
	expect(spool, "bbbb");
	struct buffer record = make("eleven byte");
	struct error err = {0};
	assert_int_equal(spool_push(spool, &record, &err), -E2BIG);
	buffer_release(&record);
	spool_get_stats(spool, &stats);
	assert_int_equal(stats.dropped, 2);
}

static void test_put_back_into_a_full_spool_is_dropped(void **state)
{
	(void)state;
	_cleanup_(spool_freep) struct spool *spool = NULL;
	assert_int_equal(spool_new(10, &spool, NULL), 0);
	push(spool, "aaaa");
	struct buffer record;
	assert_int_equal(spool_pop(spool, 0, &record), 1);
	push(spool, "bbbb");
	push(spool, "cccc");
	spool_done(spool, &record, false);
	struct spool_stats stats;
	spool_get_stats(spool, &stats);
	assert_int_equal(stats.dropped, 1);
	expect(spool, "bbbb");
}

static void test_close_ends_the_wait(void **state)
{
	(void)state;
	_cleanup_(spool_freep) struct spool *spool = NULL;
	assert_int_equal(spool_new(10, &spool, NULL), 0);
	push(spool, "last");
	spool_close(spool);
	assert_true(spool_is_closed(spool));
	struct buffer record = make("no");
	assert_int_equal(spool_push(spool, &record, NULL), -EPIPE);
	buffer_release(&record);
	expect(spool, "last");
	assert_int_equal(spool_pop(spool, 3600 * NS_PER_S, &record), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_put_back_comes_first),
		cmocka_unit_test(test_oldest_are_dropped_and_counted),
		cmocka_unit_test(test_put_back_into_a_full_spool_is_dropped),
		cmocka_unit_test(test_close_ends_the_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
