/* SPDX-License-Identifier: Apache-2.0 */
/* Agents come, fall silent and are forgotten; what they say of themselves has a limit. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/stores/agents.h"

#define S 1000000000ll

static int note(struct agents *agents, const char *agent, const char *host, uint64_t samples, int64_t now_ns)
{
	struct control_poll poll = {.wick = "9"};
	struct health health = {.samples = samples};
	snprintf(poll.agent, sizeof(poll.agent), "%s", agent);
	snprintf(poll.host, sizeof(poll.host), "%s", host);
	return agents_note(agents, &poll, samples ? &health : NULL, now_ns, NULL);
}

/* "host/agent" of all, a `!` before those that are silent. */
static void expect(struct agents *agents, int64_t now_ns, const char *wanted)
{
	struct agent_seen *list;
	size_t count;
	char text[512] = "";
	assert_int_equal(agents_list(agents, now_ns, &list, &count, NULL), 0);
	for (size_t i = 0; i < count; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%s/%s", i ? " " : "",
			 list[i].is_silent ? "!" : "", list[i].host, list[i].agent);
	agents_list_free(list, count);
	assert_string_equal(text, wanted);
}

static void test_silence(void **state)
{
	struct agents *agents = agents_new();
	(void)state;
	expect(agents, 0, "");
	note(agents, "2", "b", 0, 1 * S);
	note(agents, "1", "a", 0, 2 * S);
	expect(agents, 31 * S, "a/1 b/2");
	expect(agents, 32 * S, "a/1 !b/2");
	note(agents, "2", "b", 0, 40 * S);
	expect(agents, 41 * S, "!a/1 b/2");
	expect(agents, 2 * S + AGENTS_KEPT_NS, "!a/1 !b/2");
	expect(agents, 3 * S + AGENTS_KEPT_NS, "!b/2");
	/* Forgotten for good by the next that is new. */
	note(agents, "3", "c", 0, 41 * S + AGENTS_KEPT_NS);
	expect(agents, 41 * S + AGENTS_KEPT_NS, "c/3");
	agents_free(agents);
}

static void test_started_anew(void **state)
{
	struct agents *agents = agents_new();
	(void)state;
	note(agents, "1", "a", 0, 1 * S);
	note(agents, "2", "a", 0, 5 * S); /* may as well be another one of that host */
	expect(agents, 6 * S, "a/2 a/1");
	expect(agents, 32 * S, "a/2");
	expect(agents, 60 * S, "!a/2 !a/1");
	note(agents, "3", "a", 0, 61 * S);
	expect(agents, 61 * S, "a/3");
	expect(agents, 100 * S, "!a/3");
	agents_free(agents);
}

static void test_health(void **state)
{
	struct agents *agents = agents_new();
	struct agent_seen *list;
	size_t count;
	(void)state;
	note(agents, "1", "a", 41, 1 * S);
	note(agents, "1", "a", 42, 2 * S);
	note(agents, "1", "a", 0, 9 * S); /* says nothing new */
	assert_int_equal(agents_list(agents, 9 * S, &list, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_non_null(strstr(list[0].health, "\"samples\":42"));
	assert_true(list[0].health_ns == 2 * S && list[0].polled_ns == 9 * S);
	assert_string_equal(list[0].wick, "9");
	agents_list_free(list, count);
	agents_free(agents);
}

static void test_many(void **state)
{
	struct agents *agents = agents_new();
	struct agent_seen *list;
	size_t count;
	char name[32];
	(void)state;
	for (unsigned i = 0; i < AGENTS_MAX; i++) {
		snprintf(name, sizeof(name), "%x", i);
		assert_int_equal(note(agents, name, name, 1, i < 100 ? 0 : 31 * S), 0);
	}
	for (unsigned i = 0; i < 100; i++) { /* silent ones make room */
		snprintf(name, sizeof(name), "%x", AGENTS_MAX + i);
		assert_int_equal(note(agents, name, name, 1, 31 * S), 0);
	}
	assert_int_equal(note(agents, "ffff", "new", 1, 31 * S), -EDQUOT);
	assert_int_equal(note(agents, "fff", "fff", 1, 31 * S), 0);
	assert_int_equal(agents_list(agents, 31 * S, &list, &count, NULL), 0);
	assert_int_equal(count, AGENTS_MAX);
	agents_list_free(list, count);
	agents_free(agents);
}

/* The largest healths: more of them than may be kept. */
static void test_bytes(void **state)
{
	struct agents *agents = agents_new();
	struct health health = {0};
	struct agent_seen *list;
	char text[HEALTH_WARNING_SIZE];
	uint64_t bytes = 0;
	size_t count, with = 0, refused = 0;
	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (unsigned i = 0; i < HEALTH_WARNINGS_MAX; i++)
		health_warn(&health, text);
	for (unsigned i = 0; i < HEALTH_COUNTS_MAX; i++) {
		snprintf(text, sizeof(text), "reason_%020u", i);
		health_count(&health.lost, text, UINT64_MAX);
		health_count(&health.walks, text, UINT64_MAX);
	}
	for (unsigned i = 0; i < AGENTS_MAX; i++) {
		struct control_poll poll = {.wick = "9"};
		snprintf(poll.agent, sizeof(poll.agent), "%x", i);
		snprintf(poll.host, sizeof(poll.host), "%x", i);
		refused += agents_note(agents, &poll, &health, 1 * S, NULL) == -EDQUOT;
	}
	assert_int_equal(agents_list(agents, 1 * S, &list, &count, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		with += list[i].health != NULL;
		bytes += list[i].health ? strlen(list[i].health) : 0;
	}
	agents_list_free(list, count);
	assert_int_equal(count, AGENTS_MAX);
	assert_true(refused > 0);
	assert_int_equal(with + refused, AGENTS_MAX);
	assert_true(bytes <= AGENTS_BYTES_MAX && bytes > AGENTS_BYTES_MAX - HEALTH_BYTES_MAX);
	/* When the others are silent, there is room. */
	assert_int_equal(note(agents, "ffff", "new", 1, 40 * S), 0);
	agents_free(agents);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_silence), cmocka_unit_test(test_started_anew), cmocka_unit_test(test_health),
		cmocka_unit_test(test_many),	cmocka_unit_test(test_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
