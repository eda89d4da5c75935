/* SPDX-License-Identifier: Apache-2.0 */
/* Turns of groups and keys, checked against what was queued: order by hand, and random queues for what must always hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net_int.h"

#define JOBS 4096
static struct net_job jobs[JOBS];
static char names[JOBS];
static size_t used;
static struct fair_queue queue;

static void start(size_t capacity)
{
	used = 0;
	assert_int_equal(fair_init(&queue, capacity), 0);
}

static struct net_job *push(char name, uint64_t group, uint64_t key)
{
	names[used] = name;
	jobs[used] = (struct net_job){.group = group, .key = key};
	fair_push(&queue, &jobs[used]);
	return &jobs[used++];
}

static bool may(const void *context, const struct net_job *job)
{
	const uint64_t *not_key = context;
	return !not_key || job->key != *not_key;
}

static void drain(char *out, const uint64_t *not_key)
{
	struct net_job *job;
	while ((job = fair_pop(&queue, may, not_key)))
		*out++ = names[job - jobs];
	*out = '\0';
}

static void test_turns(void **state)
{
	char order[64];
	start(16);
	for (const char *name = "abcd"; *name; name++)
		push(*name, 0, 1);
	push('X', 0, 2);
	push('Y', 0, 2);
	push('!', 0, 3);
	drain(order, NULL);
	assert_string_equal(order, "aX!bYcd");
	/* Groups before keys: many addresses of one tenant have no more than one address of another. */
	for (uint64_t key = 1; key <= 3; key++) {
		push((char)('a' + key - 1), 7, key);
		push((char)('a' + key - 1), 7, key);
	}
	push('1', 8, 1);
	push('2', 8, 1);
	push('3', 8, 1);
	drain(order, NULL);
	assert_string_equal(order, "a1b2c3abc");
	assert_int_equal(queue.count, 0);
	fair_release(&queue);
}

/* A key that may not run is passed over, and keeps its place. */
static void test_held_back(void **state)
{
	char order[64];
	const uint64_t one = 1;
	start(16);
	push('a', 0, 1);
	push('b', 0, 1);
	push('X', 0, 2);
	drain(order, &one);
	assert_string_equal(order, "X");
	push('Y', 0, 2);
	drain(order, NULL);
	assert_string_equal(order, "aYb");
	assert_null(fair_pop(&queue, may, NULL));
	fair_release(&queue);
}

static void test_displace(void **state)
{
	char order[64];
	start(16);
	struct net_job newcomer = {.group = 0, .key = 2};
	assert_null(fair_displace(&queue, &newcomer)); /* empty */
	for (const char *name = "abc"; *name; name++)
		push(*name, 0, 1);
	assert_ptr_equal(fair_displace(&queue, &newcomer), &jobs[2]); /* the last */
	push('X', 0, 2);
	assert_null(fair_displace(&queue, &newcomer)); /* would have as many */
	newcomer.key = 1;
	assert_null(fair_displace(&queue, &newcomer)); /* his own is the longest */
	/* A group that has most loses, though each of its keys has one. */
	for (uint64_t key = 10; key < 16; key++)
		push('g', 5, key);
	newcomer = (struct net_job){.group = 6, .key = 1};
	struct net_job *out = fair_displace(&queue, &newcomer);
	assert_int_equal(out->group, 5);
	/* What must run stays. */
	for (size_t i = 0; i < used; i++)
		jobs[i].must_run = true;
	assert_null(fair_displace(&queue, &newcomer));
	drain(order, NULL);
	assert_int_equal(strlen(order), 8);
	fair_release(&queue);
}

/* Beyond the keys that can be told apart, jobs wait all the same. */
static void test_more_keys(void **state)
{
	char order[64];
	start(3);
	for (uint64_t key = 0; key < 8; key++)
		push((char)('a' + key), key, key);
	drain(order, NULL);
	assert_string_equal(order, "defghabc");
	fair_release(&queue);
}

/* Whatever comes in whatever order: nothing is lost or doubled, a key's jobs stay in order, and nobody who waits is passed over
 * for long: between two jobs of a key, no other key of its group has more than two turns. */
static void test_random(void **state)
{
	static size_t last_of[64], turns_of[64];
	unsigned seed = 1;
	for (int round = 0; round < 200; round++) {
		size_t popped = 0;
		start(64);
		memset(last_of, 0, sizeof(last_of));
		while (used < 500 || queue.count) {
			if (used < 500 && rand_r(&seed) % 2) {
				push('x', 0, (uint64_t)(rand_r(&seed) % (1 + round % 64)));
				continue;
			}
			struct net_job *job = fair_pop(&queue, may, NULL);
			if (!job) {
				assert_int_equal(queue.count, 0);
				continue;
			}
			size_t index = (size_t)(job - jobs);
			assert_true(last_of[job->key] <= index); /* in order */
			last_of[job->key] = index + 1;
			popped++;
		}
		assert_int_equal(popped, 500);
		assert_null(queue.turn);
		fair_release(&queue);
	}
	/* All are there from the beginning: exactly in turns. */
	start(64);
	for (int i = 0; i < 640; i++)
		push('x', 0, (uint64_t)(i / 64 * 7 + i) % 10);
	memset(turns_of, 0, sizeof(turns_of));
	for (int i = 0; i < 300; i++) {
		struct net_job *job = fair_pop(&queue, may, NULL);
		size_t now = ++turns_of[job->key];
		for (size_t key = 0; key < 10; key++)
			assert_true(now <= turns_of[key] + 1);
	}
	fair_release(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),	  cmocka_unit_test(test_held_back), cmocka_unit_test(test_displace),
		cmocka_unit_test(test_more_keys), cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
