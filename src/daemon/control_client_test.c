/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's side of recording requests, against a server that answers as the test says and a clock that the test moves. Its
 * thread does not run: the test takes the steps. The recorder is this program, as in recording_runner_test.c.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <setjmp.h>

#include "daemon/recording_runner.h"
#include "daemon/test_daemon.h"

#define time_monotonic_ns test_monotonic_ns
#define time_now_ns	  test_now_ns
#include "daemon/control_client.c"
#undef time_monotonic_ns
#undef time_now_ns

#include <cmocka.h>

#define START_NS (test_clock.now_ns + 5 * NS_PER_S)

struct world {
	struct test_peer peer;
	struct control_client *client;
	char directory[64], text[4096];
};

static void start_client(struct world *world, const char *refusal)
{
	struct control_client_options options = {.url = world->peer.url,
						 .token = "tok",
						 .tenant = "me",
						 .host = "host a/b",
						 .refusal = refusal,
						 .directory = world->directory};
	options.host = "host";
	control_client_free(world->client);
	world->client = mem_zalloc(sizeof(*world->client));
	assert_int_equal(fill(world->client, &options, NULL), 0);
	struct net_client_options net = {
		.url = world->peer.url, .token = "tok", .tenant = "me", .response_max = CONTROL_BODY_BYTES_MAX};
	assert_int_equal(net_client_new(&net, &world->client->net, NULL), 0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	snprintf(world->directory, sizeof(world->directory), "/tmp/wick-control-XXXXXX");
	assert_non_null(mkdtemp(world->directory));
	test_peer_open(&world->peer);
	start_client(world, NULL);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	if (world->client->has_request)
		forget_request(world->client);
	control_client_free(world->client);
	test_peer_close(&world->peer);
	io_remove_tree(world->directory, NULL);
	free(world);
	return 0;
}

/* A server's answer; order: more members, "" = none. */
static const char *reply(struct world *world, const char *clock, const char *more)
{
	snprintf(world->text, sizeof(world->text),
		 "{\"version\":1,\"received_ns\":%lld,\"answered_ns\":%lld,\"clock\":\"%s\",\"poll_ms\":2000%s}",
		 (long long)test_clock.now_ns, (long long)test_clock.now_ns, clock, more);
	return world->text;
}

static const char *request(const char *id, const char *unit, int64_t start_ns, int64_t duration_ns)
{
	static char text[1024];
	snprintf(text, sizeof(text),
		 ",\"orders\":[{\"id\":\"%s\",\"start_ns\":%lld,\"duration_ns\":%lld,\"frequency_hz\":99,\"markers\":true,"
		 "\"targets\":[{\"kind\":\"unit\",\"name\":\"%s\"}],\"key\":\"abcdef\"}]",
		 id, (long long)start_ns, (long long)duration_ns, unit);
	return text;
}

/* Polls once, with this answer; what the server was asked. */
static const char *poll_with(struct world *world, int status, const char *body)
{
	TEST_ANSWERS(&world->peer, {status, body});
	poll_server(world->client);
	assert_int_equal(world->peer.asked_count, 1);
	return world->peer.asked[0].body;
}

static int64_t pause_of(const struct world *world)
{
	return world->client->poll_due_ns - test_clock.monotonic_ns;
}

static void test_question(void **state)
{
	struct world *world = *state;
	const char *asked = poll_with(world, 200, reply(world, "c1", ""));
	assert_string_equal(world->peer.asked[0].target, "/api/v1/agents/poll");
	assert_string_equal(world->peer.asked[0].token, "Bearer tok");
	assert_string_equal(world->peer.asked[0].tenant, "me");
	assert_non_null(strstr(asked, "\"host\":\"host\""));
	assert_null(strstr(asked, "\"ping\""));
	assert_int_equal(pause_of(world), 2 * NS_PER_S);
	test_pass(NS_PER_S);
	/* From the second on with what the first took. */
	asked = poll_with(world, 200, reply(world, "c1", ""));
	assert_non_null(strstr(asked, "\"ping\""));
	assert_non_null(strstr(asked, "\"reference\":\"c1\""));
	assert_string_equal(control_client_clock(world->client, test_clock.now_ns, test_clock.now_ns).reference, "c1");
}

/* From 5 s to a minute, and at once as usual again after an answer. */
static void test_backoff(void **state)
{
	static const int64_t seconds[] = {5, 10, 20, 40, 60, 60};
	static const int statuses[] = {500, 503, 429, 401, 403, 400};
	struct world *world = *state;
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < 6; i++) {
			poll_with(world, statuses[i], "");
			assert_int_equal(pause_of(world), seconds[i] * NS_PER_S);
		}
		poll_with(world, 200, reply(world, "c1", ""));
		assert_int_equal(pause_of(world), 2 * NS_PER_S);
	}
}

/* Another kind of server is asked seldom: it may be another one by then. */
static void test_elsewhere(void **state)
{
	static const int statuses[] = {404, 405, 415, 501};
	struct world *world = *state;
	for (size_t i = 0; i < 4; i++) {
		poll_with(world, statuses[i], "");
		assert_int_equal(pause_of(world), ELSEWHERE_NS);
	}
	poll_with(world, 200, reply(world, "c1", ""));
	assert_int_equal(pause_of(world), 2 * NS_PER_S);
}

static void test_hostile_answers(void **state)
{
	static const char *const bodies[] = {
		"",
		"yes",
		"{}",
		"[]",
		"{\"version\":1}",
		"{\"version\":1,\"received_ns\":\"x\",\"answered_ns\":1,\"clock\":\"c\",\"poll_ms\":1}",
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":1,\"clock\":\"c\",\"poll_ms\":-1}",
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":1,\"clock\":\"c\",\"poll_ms\":1000,\"orders\":[5]}",
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":1,\"clock\":\"c\",\"poll_ms\":1000,\"orders\":[{\"id\":\"../"
		"x\","
		"\"start_ns\":1,\"duration_ns\":1000000000,\"frequency_hz\":99}]}",
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":1,\"clock\":\"c\",\"poll_ms\":1000,\"orders\":[{\"id\":\"a\","
		"\"start_ns\":1,\"duration_ns\":999000000000,\"frequency_hz\":99}]}",
		"{\"version\":1,\"received_ns\":1,\"answered_ns\":1,\"clock\":\"c\",\"poll_ms\":1000,\"orders\":[{\"id\":\"a\","
		"\"start_ns\":1,\"duration_ns\":1000000000,\"frequency_hz\":1001}]}",
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		world->client->poll_pause_ns = 0;
		poll_with(world, 200, bodies[i]);
		if (pause_of(world) != PAUSE_MIN_NS || world->client->has_request)
			fail_msg("%s is taken", bodies[i]);
	}
}

static void test_takes(void **state)
{
	struct world *world = *state;
	int64_t start_ns = START_NS;
	poll_with(world, 200, reply(world, "c1", request("a1", "just", start_ns, NS_PER_S)));
	assert_true(world->client->has_request);
	assert_int_equal(world->client->state, RECORDING_TAKEN);
	assert_int_equal(world->client->from_ns, start_ns);
	assert_int_equal(world->client->to_ns, start_ns + NS_PER_S);
	/* The recorder is started earlier by what it needs to be ready. */
	assert_int_equal(world->client->begin_due_ns, test_clock.monotonic_ns + 5 * NS_PER_S - LOADING_NS);
	assert_int_equal(world->client->poll_due_ns, 0); /* who waits for it should know */
	/* One at a time. */
	const char *asked = poll_with(world, 200, reply(world, "c1", request("b2", "just", start_ns, NS_PER_S)));
	assert_non_null(strstr(asked, "\"id\":\"a1\""));
	assert_non_null(strstr(asked, "\"state\":\"taken\""));
	assert_string_equal(world->client->request.id, "a1");
	work(world->client); /* not yet */
	assert_int_equal(world->client->state, RECORDING_TAKEN);
	poll_with(world, 200, reply(world, "c1", ",\"cancel\":[\"ffff\"]"));
	assert_true(world->client->has_request);
	poll_with(world, 200, reply(world, "c1", ",\"cancel\":[\"a1\"]"));
	assert_false(world->client->has_request);
	/* What is over is over, whatever an answer says that was under way. */
	poll_with(world, 200, reply(world, "c1", request("a1", "just", start_ns, NS_PER_S)));
	assert_false(world->client->has_request);
}

/* A server whose clock is an hour ahead: the recording begins when its clock shows the time. */
static void test_other_clock(void **state)
{
	struct world *world = *state;
	char text[2048];
	int64_t ahead_ns = 3600 * NS_PER_S, start_ns = START_NS;
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text),
			 "{\"version\":1,\"received_ns\":%lld,\"answered_ns\":%lld,\"clock\":\"c1\",\"poll_ms\":2000%s}",
			 (long long)(test_clock.now_ns + ahead_ns), (long long)(test_clock.now_ns + ahead_ns),
			 i < 2 ? "" : request("a1", "just", start_ns + ahead_ns, NS_PER_S));
		poll_with(world, 200, text);
	}
	assert_int_equal(world->client->state, RECORDING_TAKEN);
	int64_t off_ns = world->client->from_ns - start_ns;
	assert_true(off_ns > -NS_PER_MS && off_ns < NS_PER_MS);
}

/* The reason is sent once, and the request is forgotten when the server has acknowledged it. */
static void check_failure(struct world *world, const char *why)
{
	assert_int_equal(world->client->state, RECORDING_FAILED);
	assert_string_equal(world->client->why, why);
	poll_with(world, 503, "");
	assert_true(world->client->has_request);
	const char *asked = poll_with(world, 200, reply(world, "c1", ""));
	assert_non_null(strstr(asked, "\"state\":\"failed\""));
	assert_non_null(strstr(asked, why));
	assert_false(world->client->has_request);
}

static void test_failures(void **state)
{
	struct world *world = *state;
	poll_with(world, 200, reply(world, "c1", request("a1", "just", test_clock.now_ns + WAIT_MAX_NS + NS_PER_S, NS_PER_S)));
	check_failure(world, "start time is too far in the future");
	/* A server that has forgotten it in a crash gets the same reason. */
	poll_with(world, 200, reply(world, "c1", request("a1", "just", START_NS, NS_PER_S)));
	check_failure(world, "start time is too far in the future");
	poll_with(world, 200, reply(world, "c1", request("a2", "just", test_clock.now_ns - NS_PER_S, NS_PER_S)));
	work(world->client);
	check_failure(world, "the recording request arrived after its end time");
	start_client(world, "no privileges");
	poll_with(world, 200, reply(world, "c1", request("a3", "just", START_NS, NS_PER_S)));
	check_failure(world, "no privileges");
}

/* Whatever a reason is made of, it is a text that the server takes. */
static void test_reasons(void **state)
{
	struct world *world = *state;
	char why[2 * CONTROL_TEXT_SIZE];
	memset(why, 'x', sizeof(why));
	memcpy(why, "a\033[31m\n\xff", 8);
	why[sizeof(why) - 1] = 0;
	poll_with(world, 200, reply(world, "c1", request("a1", "just", START_NS, NS_PER_S)));
	(fail)(world->client, why);
	assert_true(strlen(world->client->why) < CONTROL_TEXT_SIZE);
	assert_null(strchr(world->client->why, '\033'));
	assert_null(strchr(world->client->why, '\n'));
	assert_true(text_is_utf8(bytes_of_string(world->client->why)));
	struct control_poll poll;
	const char *asked = poll_with(world, 200, reply(world, "c1", ""));
	assert_int_equal(control_read_poll(bytes_of_string(asked), &poll, NULL), 0);
	assert_int_equal(poll.report.state, RECORDING_FAILED);
}

/* Has the recorder run to its end, with this unit; the state after that. */
static enum recording_state record_as(struct world *world, const char *id, const char *unit)
{
	struct control_client *client = world->client;
	poll_with(world, 200, reply(world, "c1", request(id, unit, test_clock.now_ns, NS_PER_S)));
	work(client);
	assert_int_equal(client->state, RECORDING_RUNNING);
	while (client->state == RECORDING_RUNNING) {
		time_sleep_ns(NS_PER_MS);
		work(client);
	}
	return client->state;
}

static void test_sends(void **state)
{
	static const int64_t seconds[] = {1, 2, 4, 8, 16, 30, 30};
	struct world *world = *state;
	struct control_client *client = world->client;
	assert_int_equal(record_as(world, "a1", "small"), RECORDING_SENDING);
	for (size_t i = 0; i < 7; i++) {
		TEST_ANSWERS(&world->peer, {i % 3 == 0 ? 503 : i % 3 == 1 ? 408 : 429, "later"});
		work(client);
		assert_int_equal(client->state, RECORDING_SENDING);
		assert_int_equal(client->send_due_ns - test_clock.monotonic_ns, seconds[i] * NS_PER_S);
		work(client); /* not before it is due */
		assert_int_equal(world->peer.asked_count, 1);
		test_pass(seconds[i] * NS_PER_S);
	}
	TEST_ANSWERS(&world->peer, {200, ""});
	work(client);
	const struct test_asked *asked = &world->peer.asked[0];
	assert_string_equal(asked->method, "POST");
	assert_memory_equal(asked->target, "/api/v1/recordings/a1/hosts/host?reference=c1&at_ns=", 52);
	assert_string_equal(asked->key, "abcdef");
	assert_string_equal(asked->token, "Bearer tok");
	assert_string_equal(asked->body, "profile");
	assert_false(client->has_request);
	/* It came the last time, and the answer did not. */
	assert_int_equal(record_as(world, "a2", "small"), RECORDING_SENDING);
	TEST_ANSWERS(&world->peer, {409, ""});
	work(client);
	assert_false(client->has_request);
}

static void test_is_refused(void **state)
{
	struct world *world = *state;
	assert_int_equal(record_as(world, "a1", "small"), RECORDING_SENDING);
	TEST_ANSWERS(&world->peer, {403, "wrong \033key"});
	work(world->client);
	check_failure(world, "the server responded with status 403: wrong ?key");
	assert_int_equal(record_as(world, "a2", "small"), RECORDING_SENDING);
	TEST_ANSWERS(&world->peer, {500, "no"});
	work(world->client);
	assert_int_equal(world->client->state, RECORDING_SENDING);
	test_pass(SEND_GIVE_UP_NS + NS_PER_S);
	work(world->client);
	check_failure(world, "the server responded with status 500: no");
}

static void test_recorder_fails(void **state)
{
	struct world *world = *state;
	assert_int_equal(record_as(world, "a1", "nothing"), RECORDING_FAILED);
	check_failure(world, "the recorder wrote no profile");
	/* One that does not end is not waited for forever. */
	poll_with(world, 200, reply(world, "c1", request("a2", "endless", test_clock.now_ns, NS_PER_S)));
	work(world->client);
	work(world->client);
	assert_int_equal(world->client->state, RECORDING_RUNNING);
	test_pass(NS_PER_S + RECORDER_LAST_NS + NS_PER_S);
	work(world->client);
	check_failure(world, "recorder did not exit in time");
}

/* The wall clock was set: what was measured before means nothing. */
static void test_clock_is_set(void **state)
{
	struct world *world = *state;
	poll_with(world, 200, reply(world, "c1", ""));
	poll_with(world, 200, reply(world, "c1", ""));
	clock_sync_forget(&world->client->sync);
	assert_string_equal(control_client_clock(world->client, 1, 1).reference, "");
	/* And the server's: another name of it. */
	poll_with(world, 200, reply(world, "c1", ""));
	poll_with(world, 200, reply(world, "c2", ""));
	assert_string_equal(control_client_clock(world->client, test_clock.now_ns, test_clock.now_ns).reference, "c2");
}

static void count_health(void *context, struct health *ret)
{
	++*(unsigned *)context;
	ret->samples = 5;
}

/* With the first question, ten seconds later, then once a minute, and at once to a server that was started anew. */
static void test_health(void **state)
{
	struct world *world = *state;
	unsigned count = 0;
	world->client->fill_health = count_health;
	world->client->health_context = &count;
	assert_non_null(strstr(poll_with(world, 200, reply(world, "c1", "")), "\"health\":{"));
	assert_null(strstr(poll_with(world, 200, reply(world, "c1", "")), "\"health\""));
	test_pass(HEALTH_SOON_NS);
	poll_with(world, 200, reply(world, "c1", ""));
	assert_int_equal(count, 2);
	test_pass(HEALTH_NS - 1);
	poll_with(world, 200, reply(world, "c1", ""));
	assert_int_equal(count, 2);
	poll_with(world, 200, reply(world, "c2", "")); /* another one: it is sent with the next poll */
	poll_with(world, 200, reply(world, "c2", ""));
	assert_int_equal(count, 3);
	/* A server that cannot take it is not asked with it again soon. */
	test_pass(HEALTH_NS);
	poll_with(world, 400, "");
	assert_int_equal(count, 4);
	test_pass(HEALTH_NS);
	poll_with(world, 400, "");
	assert_int_equal(count, 4);
	test_pass(ELSEWHERE_NS);
	poll_with(world, 200, reply(world, "c2", ""));
	assert_int_equal(count, 5);
}

static void test_due(void **state)
{
	struct world *world = *state;
	struct control_client *client = world->client;
	client->poll_due_ns = test_clock.monotonic_ns + 100 * NS_PER_S;
	assert_int_equal(next_due_ns(client), client->poll_due_ns);
	client->has_request = true;
	client->runner = RECORDING_RUNNER_NONE;
	client->begin_due_ns = 5, client->send_due_ns = 7;
	client->state = RECORDING_TAKEN;
	assert_int_equal(next_due_ns(client), 5);
	client->state = RECORDING_SENDING;
	assert_int_equal(next_due_ns(client), 7);
	client->state = RECORDING_RUNNING;
	assert_int_equal(next_due_ns(client), test_clock.monotonic_ns + CHECK_INTERVAL_NS);
	client->state = RECORDING_FAILED;
	assert_int_equal(next_due_ns(client), client->poll_due_ns);
	client->has_request = false;
}

static void test_options(void **state)
{
	static const char *const hosts[] = {"", "a/b", ".", "..", "a\nb", "\xff"};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		struct control_client *client = NULL;
		struct control_client_options options = {
			.url = world->peer.url, .host = hosts[i], .directory = world->directory};
		struct error err = {0};
		assert_int_equal(control_client_new(&options, &client, &err), -EINVAL);
		assert_non_null(strstr(err.message, "is not a valid host name"));
		assert_null(client);
	}
	assert_string_equal(choose_directory("/proc/nothing"), getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_string_equal(choose_directory(world->directory), world->directory);
}

/* This program as the recorder. */
static int record(char **arguments)
{
	const char *what = "", *path = "";
	for (; arguments[0] && arguments[1]; arguments++) {
		what = strcmp(arguments[0], "--unit") == 0 ? arguments[1] : what;
		path = strcmp(arguments[0], "-o") == 0 ? arguments[1] : path;
	}
	if (strcmp(what, "endless") == 0)
		pause();
	return strcmp(what, "small") == 0 ? io_write_file(path, "profile", 7, 0600, NULL) < 0 : 0;
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_question),	 TEST(test_backoff),
		TEST(test_elsewhere),	 TEST(test_hostile_answers),
		TEST(test_takes),	 TEST(test_failures),
		TEST(test_reasons),	 TEST(test_sends),
		TEST(test_health),	 TEST(test_due),
		TEST(test_options),	 TEST(test_is_refused),
		TEST(test_other_clock),	 TEST(test_recorder_fails),
		TEST(test_clock_is_set),
	};
	if (argc > 1 && strcmp(argv[1], "record") == 0)
		return record(argv);
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
