/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending debug information, against a server that answers as the test says, with a clock that the test moves: waiting takes no
 * time. The uploader's thread does not run: the test takes the steps.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>

#include "daemon/test_daemon.h"

static int64_t test_cpu_ns; /* of the thread */

#define time_monotonic_ns			  test_monotonic_ns
#define time_thread_cpu_ns()			  test_cpu_ns
#define thread_wait_until(condition, lock, until) test_wait_until(until)
#include "daemon/uploader.c"
#undef time_monotonic_ns
#undef time_thread_cpu_ns
#undef thread_wait_until

#include <cmocka.h>

#define SIZE 10000

struct world {
	struct test_peer peer;
	struct uploader *uploader;
	struct debug_copy copy;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	char bytes[SIZE];
	test_peer_open(&world->peer);
	struct uploader *uploader = mem_zalloc(sizeof(*uploader));
	struct net_client_options client = {.url = world->peer.url};
	uploader->options.rate = MIB;
	uploader->budget = (struct cpu_budget){.burst_ns = COST_BURST_NS, .part = COST_FACTOR};
	pthread_mutex_init(&uploader->lock, NULL);
	thread_condition_init(&uploader->wake);
	assert_int_equal(net_client_new(&client, &uploader->client, NULL), 0);
	assert_int_equal(upload_queue_new(&uploader->queue, NULL), 0);
	world->uploader = uploader;
	world->copy = (struct debug_copy){.fd = memfd_create("copy", 0), .size = SIZE, .from = "/bin/a"};
	memset(bytes, 'x', sizeof(bytes));
	assert_int_equal(write(world->copy.fd, bytes, SIZE), SIZE);
	test_clock.waited_ns = test_cpu_ns = 0;
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	close(world->copy.fd);
	uploader_free(world->uploader);
	test_peer_close(&world->peer);
	free(world);
	return 0;
}

static enum end send_it(struct world *world, struct error *err)
{
	memset(err, 0, sizeof(*err));
	const struct upload_key key = {.id = "aaaa", .content = "0123456789abcdef0123456789abcdef"};
	return send_file(world->uploader, &key, "debuginfo", &world->copy, err);
}

static void test_sends(void **state)
{
	struct world *world = *state;
	struct error err;
	TEST_ANSWERS(&world->peer, {201, "{\"id\":\"u1\",\"offset\":0}"}, {200, "{\"offset\":10000}"}, {200, "{}"});
	assert_int_equal(send_it(world, &err), END_SENT);
	assert_int_equal(world->peer.asked_count, 3);
	assert_non_null(strstr(world->peer.asked[0].body, "\"size\":10000"));
	assert_non_null(strstr(world->peer.asked[0].body, "\"content\":\"0123456789abcdef0123456789abcdef\""));
	assert_string_equal(world->peer.asked[1].target, "/api/v1/debuginfo/uploads/u1?offset=0");
	assert_int_equal(world->peer.asked[1].len, SIZE);
	/* Pieces as large as the rate has them in a second, and no faster. */
	world->uploader->options.rate = PIECE_BYTES_MIN;
	world->uploader->next_piece_ns = 0;
	test_clock.waited_ns = 0;
	TEST_ANSWERS(&world->peer, {201, "{\"id\":\"u1\"}"}, {200, "{}"}, {200, "{}"}, {200, "{}"}, {200, "{}"});
	assert_int_equal(send_it(world, &err), END_SENT);
	assert_int_equal(world->peer.asked[1].len, PIECE_BYTES_MIN);
	assert_int_equal(world->peer.asked[3].len, SIZE - 2 * PIECE_BYTES_MIN);
	assert_string_equal(world->peer.asked[3].target, "/api/v1/debuginfo/uploads/u1?offset=8192");
	assert_int_equal(test_clock.waited_ns, 2 * NS_PER_S);
}

/* What was broken off goes on from where the server says. */
static void test_resumes(void **state)
{
	struct world *world = *state;
	struct error err;
	TEST_ANSWERS(&world->peer, {200, "{\"id\":\"u1\",\"offset\":9000}"}, {200, "{\"offset\":10000}"}, {200, "{}"});
	assert_int_equal(send_it(world, &err), END_SENT);
	assert_int_equal(world->peer.asked[1].len, 1000);
	/* Complete already: only the end is missing. */
	TEST_ANSWERS(&world->peer, {200, "{\"id\":\"u1\",\"offset\":10000}"}, {200, "{}"});
	assert_int_equal(send_it(world, &err), END_SENT);
	assert_non_null(strstr(world->peer.asked[1].target, "/finish"));
	/* It knows of less than was sent. */
	TEST_ANSWERS(&world->peer, {200, "{\"id\":\"u1\",\"offset\":9000}"}, {409, "{\"offset\":4000}"},
		     {200, "{\"offset\":10000}"}, {200, "{}"});
	assert_int_equal(send_it(world, &err), END_SENT);
	assert_int_equal(world->peer.asked[2].len, 6000);
	/* A server that was started anew knows nothing of it. */
	TEST_ANSWERS(&world->peer, {200, "{\"id\":\"u1\"}"}, {404, ""}, {200, "{\"id\":\"u2\"}"}, {200, "{\"offset\":10000}"},
		     {410, ""}, {200, "{\"id\":\"u3\",\"offset\":10000}"}, {200, "{}"});
	assert_int_equal(send_it(world, &err), END_SENT);
	assert_string_equal(world->peer.asked[6].target, "/api/v1/debuginfo/uploads/u3/finish");
}

/* How the first answers decide; the last answer comes again and again. */
static void test_ends(void **state)
{
	static const struct {
		struct test_answer begin, put, finish;
		enum end end;
		const char *why;
		size_t asked;
	} cases[] = {
		{{409, "{\"reason\":\"exists\"}"}, {0}, {0}, END_NOT_NEEDED, "", 1},
		{{409, "{}"}, {0}, {0}, END_NOT_NEEDED, "", 1},
		{{409, "{\"reason\":\"busy\"}"}, {0}, {0}, END_BUSY, "", 1},
		{{400, "{\"error\":\"bad\"}"}, {0}, {0}, END_NOT_NEEDED, "bad", 1},
		{{403, "{\"error\":\"no\"}"}, {0}, {0}, END_NOT_NEEDED, "no", 1},
		{{413, "{\"error\":\"too large\"}"}, {0}, {0}, END_NOT_NEEDED, "too large", 1},
		{{507, "{\"error\":\"disk full\"}"}, {0}, {0}, END_FAILED, "disk full", 1},
		{{503, "{\"error\":\"later\"}"}, {0}, {0}, END_FAILED, "later", SEND_TRIES},
		{{429, "{\"error\":\"slowly\"}"}, {0}, {0}, END_FAILED, "slowly", SEND_TRIES},
		{{200, "{}"}, {0}, {0}, END_NOT_NEEDED, "malformed response", 1},
		{{200, "{\"id\":\"u\",\"offset\":10001}"}, {0}, {0}, END_NOT_NEEDED, "malformed response", 1},
		{{200, "{\"id\":\"../x\"}"}, {0}, {0}, END_FAILED, "malformed upload id", 1},
		{{200, "{\"id\":\"u\"}"}, {200, "{\"offset\":0}"}, {0}, END_NOT_NEEDED, "malformed response", 2},
		{{200, "{\"id\":\"u\"}"}, {200, "{\"offset\":10001}"}, {0}, END_NOT_NEEDED, "malformed response", 2},
		{{200, "{\"id\":\"u\"}"},
		 {409, "{\"offset\":0,\"error\":\"still\"}"},
		 {0},
		 END_FAILED,
		 "still",
		 1 + SEND_TRIES},
		{{200, "{\"id\":\"u\"}"}, {409, "{\"offset\":10001,\"error\":\"x\"}"}, {0}, END_FAILED, "x", 1 + SEND_TRIES},
		{{200, "{\"id\":\"u\"}"}, {500, "{\"error\":\"x\"}"}, {0}, END_FAILED, "x", 1 + SEND_TRIES},
		{{200, "{\"id\":\"u\"}"}, {422, "{\"error\":\"hash\"}"}, {0}, END_NOT_NEEDED, "hash", 2},
		{{200, "{\"id\":\"u\"}"}, {200, "{}"}, {422, "{\"error\":\"hash\"}"}, END_NOT_NEEDED, "hash", 3},
		{{200, "{\"id\":\"u\"}"}, {200, "{}"}, {503, "{\"error\":\"x\"}"}, END_FAILED, "x", 2 + SEND_TRIES},
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct test_answer answers[] = {cases[i].begin, cases[i].put, cases[i].finish};
		struct error err;
		test_peer_answer(&world->peer, answers, !answers[1].status ? 1 : !answers[2].status ? 2 : 3);
		enum end end = send_it(world, &err);
		if (end != cases[i].end || !strstr(err.message, cases[i].why) || (!*cases[i].why && err.message[0]))
			fail_msg("case %zu: %d %s", i, end, err.message);
		assert_int_equal(world->peer.asked_count, cases[i].asked);
	}
}

/* A server that sends the agent to and fro comes to an end. */
static void test_to_and_fro(void **state)
{
	struct world *world = *state;
	struct error err;
	struct test_answer answers[TEST_ANSWERS_MAX] = {{200, "{\"id\":\"u\"}"}};
	for (size_t i = 1; i < TEST_ANSWERS_MAX; i++)
		answers[i] = (struct test_answer){409, i % 2 ? "{\"offset\":5}" : "{\"offset\":6}"};
	test_peer_answer(&world->peer, answers, TEST_ANSWERS_MAX);
	assert_int_equal(send_it(world, &err), END_FAILED);
	assert_true(world->peer.asked_count <= 2 + SEND_TRIES);
}

static void test_pauses_grow(void **state)
{
	struct world *world = *state;
	struct error err;
	TEST_ANSWERS(&world->peer, {503, ""});
	assert_int_equal(send_it(world, &err), END_FAILED);
	/* 1, 2, 4 ... 60 s between eight tries. */
	assert_int_equal(test_clock.waited_ns, (1 + 2 + 4 + 8 + 16 + 32 + 60) * NS_PER_S);
	int64_t pause_ns = 0;
	grow(&pause_ns, 5, 12);
	assert_int_equal(pause_ns, 5);
	grow(&pause_ns, 5, 12);
	assert_int_equal(pause_ns, 10);
	grow(&pause_ns, 5, 12);
	assert_int_equal(pause_ns, 12);
}

static void test_truncated_copy(void **state)
{
	struct world *world = *state;
	struct error err;
	world->copy.size = SIZE + 1;
	TEST_ANSWERS(&world->peer, {200, "{\"id\":\"u\",\"offset\":10000}"});
	assert_int_equal(send_it(world, &err), END_FAILED);
	assert_string_equal(err.message, "a temporary file was truncated");
	world->uploader->stop = true; /* nothing is sent any more */
	world->copy.size = SIZE;
	TEST_ANSWERS(&world->peer, {200, "{\"id\":\"u\"}"});
	send_it(world, &err);
	assert_int_equal(world->peer.asked_count, 0);
}

/* ---- asking ---- */

static void test_asks_seldom(void **state)
{
	struct world *world = *state;
	struct uploader *uploader = world->uploader;
	size_t asked = 0;
	int64_t began_ns = test_clock.monotonic_ns, last_ns = 0;
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[],\"later\":[]}"});
	uploader->asked_ns = began_ns;
	for (size_t i = 0; i < 20; i++) {
		char build_id[16];
		snprintf(build_id, sizeof(build_id), "aa%02zx", i);
		uploader_see(uploader, &(struct agent_binary){.build_id = build_id, .path = "/bin/a", .fd = -1});
		for (size_t steps = 0; steps < 3 && world->peer.asked_count == asked; steps++) {
			int64_t may_ns = next_ask_ns(uploader);
			if (test_clock.monotonic_ns < may_ns)
				test_pass(may_ns - test_clock.monotonic_ns);
			step(uploader);
		}
		assert_int_equal(world->peer.asked_count, ++asked);
		assert_true(test_clock.monotonic_ns - last_ns >= ASK_GAP_NS);
		last_ns = test_clock.monotonic_ns;
	}
	/* A few in a row, then one a minute. */
	assert_true(last_ns - began_ns >= (20 - ASK_BURST) * ASK_EVERY_NS);
	struct upload_queue_stats stats;
	upload_queue_get_stats(uploader->queue, &stats);
	assert_int_equal(stats.entries, 20);
	assert_int_equal(stats.wanted, 0);
}

static void test_asking_fails(void **state)
{
	struct world *world = *state;
	struct uploader *uploader = world->uploader;
	static const int64_t seconds[] = {10, 20, 40, 80, 160, 320, 600, 600};
	uploader_see(uploader, &(struct agent_binary){.build_id = "aaaa", .path = "/bin/a", .fd = -1});
	TEST_ANSWERS(&world->peer, {503, ""});
	for (size_t i = 0; i < 8; i++) {
		ask(uploader, test_clock.monotonic_ns);
		assert_int_equal(uploader->ask_pause_ns, seconds[i] * NS_PER_S);
		test_pass(seconds[i] * NS_PER_S);
	}
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[]}"});
	ask(uploader, test_clock.monotonic_ns);
	assert_int_equal(uploader->ask_pause_ns, 0);
}

/* A server that knows no debug information is asked once. */
static void test_gives_up(void **state)
{
	struct world *world = *state;
	struct uploader *uploader = world->uploader;
	struct upload_queue_stats stats;
	uploader_see(uploader, &(struct agent_binary){.build_id = "aaaa", .path = "/bin/a", .fd = -1});
	TEST_ANSWERS(&world->peer, {404, ""});
	ask(uploader, test_clock.monotonic_ns);
	assert_true(atomic_load(&uploader->has_given_up));
	uploader_see(uploader, &(struct agent_binary){.build_id = "bbbb", .path = "/bin/b", .fd = -1});
	upload_queue_get_stats(uploader->queue, &stats);
	assert_int_equal(stats.entries, 0);
	assert_int_equal(world->peer.asked_count, 1);
}

static void test_kernel(void **state)
{
	struct world *world = *state;
	struct uploader *uploader = world->uploader;
	snprintf(uploader->kernel, sizeof(uploader->kernel), "cccc");
	upload_queue_add(uploader->queue, UPLOAD_KERNEL, &(struct upload_key){.id = "cccc"}, "[kernel.kallsyms]", 0, -1);
	const atomic_bool *names = uploader_server_names_kernel(uploader);
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[],\"later\":[{\"build_id\":\"cccc\"}]}"});
	ask(uploader, test_clock.monotonic_ns);
	assert_false(atomic_load(names)); /* it has the list, and no table yet */
	test_pass(2 * NS_PER_S);
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[],\"later\":[]}"});
	ask(uploader, test_clock.monotonic_ns);
	assert_true(atomic_load(names));
	test_pass(2 * AGAIN_NS);
	TEST_ANSWERS(&world->peer, {503, ""}); /* an outage changes nothing */
	ask(uploader, test_clock.monotonic_ns);
	assert_true(atomic_load(names));
	test_pass(2 * AGAIN_NS);
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[],\"enabled\":false}"});
	ask(uploader, test_clock.monotonic_ns);
	assert_false(atomic_load(names));
}

/* ---- files ---- */

static void see_wanted(struct world *world, const char *path)
{
	upload_queue_clear(world->uploader->queue);
	uploader_see(world->uploader, &(struct agent_binary){.build_id = "aaaa", .path = path, .fd = -1});
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[{\"build_id\":\"aaaa\"}]}"});
	ask(world->uploader, test_clock.monotonic_ns);
}

/* A file that is gone, or is no longer what it was, is asked for again an hour later. */
static void test_no_such_file(void **state)
{
	struct world *world = *state;
	static const char *const paths[] = {"/nowhere/file", "/etc/passwd", "/dev/null", "/proc/self", ""};
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct upload_item item;
		int64_t ask_ns, send_ns, now_ns = test_clock.monotonic_ns;
		see_wanted(world, paths[i]);
		assert_true(upload_queue_take(world->uploader->queue, test_clock.monotonic_ns, &item));
		send(world->uploader, &item);
		assert_int_equal(world->peer.asked_count, 1);
		upload_queue_next(world->uploader->queue, &ask_ns, &send_ns);
		assert_int_equal(send_ns, UPLOAD_NEVER);
		assert_true(ask_ns >= now_ns + AGAIN_NS);
		assert_int_equal(world->uploader->batch_failed, i + 1);
	}
	assert_int_equal(world->uploader->batch_failed, 5);
	log_progress(world->uploader);
	assert_int_equal(world->uploader->batch_failed, 0);
}

static void test_alts(void **state)
{
	struct world *world = *state;
	snprintf(world->uploader->alts[ALTS_REMEMBERED - 1], BUILD_ID_HEX_MAX, "abcd");
	assert_true(is_alt_known(world->uploader, "abcd"));
	assert_false(is_alt_known(world->uploader, "abc"));
	assert_false(is_alt_known(world->uploader, "abcde"));
}

static int64_t waited_for(struct world *world, int64_t cpu_ns)
{
	test_clock.waited_ns = 0;
	test_cpu_ns += cpu_ns;
	rest(world->uploader);
	return test_clock.waited_ns;
}

/* A second at once, and then 1 of 500; what is not used is saved up again. */
static void test_rests(void **state)
{
	struct world *world = *state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(waited_for(world, NS_PER_S / 10), 0);
	assert_int_equal(waited_for(world, NS_PER_S / 10), 50 * NS_PER_S);
	assert_int_equal(waited_for(world, NS_PER_S / 50), 10 * NS_PER_S);
	assert_int_equal(waited_for(world, 3600 * NS_PER_S), REST_MAX_NS);
	test_pass(250 * NS_PER_S);
	assert_int_equal(waited_for(world, NS_PER_S / 2), 0);
	test_pass(9000 * NS_PER_S);
	assert_int_equal(waited_for(world, NS_PER_S), 0);
	assert_true(waited_for(world, NS_PER_MS) > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_sends),	TEST(test_resumes),	   TEST(test_ends),	    TEST(test_to_and_fro),
		TEST(test_pauses_grow), TEST(test_truncated_copy), TEST(test_asks_seldom),  TEST(test_asking_fails),
		TEST(test_gives_up),	TEST(test_kernel),	   TEST(test_no_such_file), TEST(test_alts),
		TEST(test_rests),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
