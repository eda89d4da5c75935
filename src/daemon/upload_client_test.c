/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent makes of a server's answers about debug information, honest and hostile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/test_daemon.h"
#include "daemon/upload_client.h"

#define AGAIN_NS (3600 * NS_PER_S)
#define RETRY_NS (10 * NS_PER_S)

static const struct upload_offer offer = {.build_id = "aaaa", .kind = "debuginfo", .hash = "h", .size = 12, .force = true};

struct world {
	struct test_peer peer;
	struct net_client *client;
	struct upload_queue *queue;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	test_peer_open(&world->peer);
	struct net_client_options options = {.url = world->peer.url, .token = "tok", .tenant = "me"};
	assert_int_equal(net_client_new(&options, &world->client, NULL), 0);
	assert_int_equal(upload_queue_new(&world->queue, NULL), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	net_client_free(world->client);
	upload_queue_free(world->queue);
	test_peer_close(&world->peer);
	free(world);
	return 0;
}

static int ask(struct world *world, struct upload_ask *ret, struct error *err)
{
	*ret = (struct upload_ask){.now_ns = 100 * NS_PER_S, .again_ns = AGAIN_NS, .retry_ns = RETRY_NS};
	return upload_client_ask(world->client, world->queue, ret, err);
}

static void test_ask(void **state)
{
	struct world *world = *state;
	struct upload_ask question;
	struct upload_item item;
	int64_t ask_ns, send_ns;
	assert_int_equal(ask(world, &question, NULL), 0); /* nothing to ask */
	assert_int_equal(world->peer.asked_count, 0);
	upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa"}, "/bin/a\"b", 0, -1);
	upload_queue_add(world->queue, UPLOAD_KERNEL, &(struct upload_key){.id = "bbbb"}, "[kernel.kallsyms]", 0, -1);
	upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "cccc"}, "/bin/c", 0, -1);
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[{\"build_id\":\"aaaa\"}],\"later\":[{\"build_id\":\"bbbb\"}],"
					 "\"retry_after_s\":30,\"enabled\":true}"});
	assert_int_equal(ask(world, &question, NULL), 1);
	assert_true(question.is_enabled);
	const struct test_asked *asked = &world->peer.asked[0];
	assert_string_equal(asked->method, "POST");
	assert_string_equal(asked->target, "/api/v1/debuginfo/wanted");
	assert_string_equal(asked->token, "Bearer tok");
	assert_string_equal(asked->tenant, "me");
	assert_non_null(strstr(
		asked->body, "{\"build_id\":\"aaaa\",\"id_type\":\"gnu\",\"path\":\"/bin/a\\\"b\",\"kinds\":[\"debuginfo\"]}"));
	assert_non_null(strstr(asked->body, "\"kinds\":[\"kallsyms\"]"));
	upload_queue_next(world->queue, &ask_ns, &send_ns);
	assert_int_equal(ask_ns, 130 * NS_PER_S); /* the one that was put off */
	assert_int_equal(send_ns, 100 * NS_PER_S);
	assert_true(upload_queue_take(world->queue, 100 * NS_PER_S, &item));
	assert_string_equal(item.build_id, "aaaa");
	upload_queue_done(world->queue, &item, UPLOAD_DONE, 500 * NS_PER_S);
	assert_true(upload_queue_is_settled(world->queue, &(struct upload_key){.id = "cccc"}));
	assert_false(upload_queue_is_settled(world->queue, &(struct upload_key){.id = "bbbb"}));
}

/* Times of the server are held to an hour, and to no less than a second. */
static void test_retry_after(void **state)
{
	static const struct {
		const char *text;
		int64_t seconds;
	} cases[] = {
		{"0", 1}, {"-5", 1}, {"\"x\"", 1}, {"1", 1}, {"3600", 3600}, {"3601", 3600}, {"9223372036854775807", 3600}};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct upload_ask question;
		char body[200];
		int64_t ask_ns, send_ns;
		upload_queue_clear(world->queue);
		upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa"}, "/bin/a", 0, -1);
		snprintf(body, sizeof(body), "{\"wanted\":[],\"later\":[{\"build_id\":\"aaaa\"}],\"retry_after_s\":%s}",
			 cases[i].text);
		TEST_ANSWERS(&world->peer, {200, body});
		assert_int_equal(ask(world, &question, NULL), 1);
		upload_queue_next(world->queue, &ask_ns, &send_ns);
		assert_int_equal(ask_ns, (100 + cases[i].seconds) * NS_PER_S);
	}
}

static void test_ask_failures(void **state)
{
	static const struct {
		int status;
		const char *body;
		int code;
	} cases[] = {
		{401, "", -EACCES},
		{403, "{}", -EACCES},
		{404, "", -ENOTSUP},
		{405, "", -ENOTSUP},
		{415, "", -ENOTSUP},
		{501, "", -ENOTSUP},
		{200, "", -ENOTSUP}, /* some other server, which says yes to everything */
		{200, "<html>", -ENOTSUP},
		{200, "{}", -ENOTSUP},
		{200, "{\"wanted\":{}}", -ENOTSUP},
		{200, "{\"wanted\":[", -ENOTSUP},
		{204, "", -EAGAIN},
		{400, "", -EAGAIN},
		{429, "", -EAGAIN},
		{500, "", -EAGAIN},
		{503, "", -EAGAIN},
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct upload_ask question;
		struct error err = {0};
		int64_t ask_ns, send_ns;
		upload_queue_clear(world->queue);
		upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa"}, "/bin/a", 0, -1);
		TEST_ANSWERS(&world->peer, {cases[i].status, cases[i].body});
		int r = ask(world, &question, &err);
		if (r != cases[i].code)
			fail_msg("%d %s: %d %s", cases[i].status, cases[i].body, r, err.message);
		assert_true(err.message[0] != 0);
		upload_queue_next(world->queue, &ask_ns, &send_ns);
		assert_int_equal(ask_ns, 100 * NS_PER_S + RETRY_NS);
		assert_int_equal(send_ns, UPLOAD_NEVER);
	}
}

/* Answers that name what nobody asked for, or nothing. */
static void test_hostile_answers(void **state)
{
	static const char *const bodies[] = {
		"{\"wanted\":[{\"build_id\":\"ffff\"},{\"build_id\":5},{},5,null,[]],\"later\":{}}",
		"{\"wanted\":[{\"build_id\":\"\"}],\"later\":5,\"retry_after_s\":{}}",
		"{\"wanted\":[],\"later\":[{\"build_id\":\"ffff\"}],\"enabled\":false}",
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		struct upload_ask question;
		struct upload_queue_stats stats;
		upload_queue_clear(world->queue);
		upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa"}, "/bin/a", 0, -1);
		TEST_ANSWERS(&world->peer, {200, bodies[i]});
		assert_int_equal(ask(world, &question, NULL), 1);
		assert_int_equal(question.is_enabled, i < 2);
		upload_queue_get_stats(world->queue, &stats);
		assert_int_equal(stats.entries, 1);
		assert_int_equal(stats.wanted, 0);
		assert_true(upload_queue_is_settled(world->queue, &(struct upload_key){.id = "aaaa"}));
	}
}

#define ONE   "11111111111111111111111111111111"
#define TWO   "22222222222222222222222222222222"
#define ENTRY "{\"build_id\":\"aaaa\",\"id_type\":\"gnu\","
static void test_contents(void **state)
{
	struct world *world = *state;
	struct upload_ask question;
	struct upload_item item;
	struct upload_reply reply;
	upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa", .content = ONE}, "/1", 0, -1);
	upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa", .content = TWO}, "/2", 0, -1);
	upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){FILE_ID_HASH, "bbbb", ONE}, "/3", 0, -1);
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[" ENTRY "\"content\":\"" TWO "\"}],"
					 "\"later\":[{\"build_id\":\"bbbb\",\"id_type\":\"hash\",\"content\":\"" ONE "\"}],"
					 "\"retry_after_s\":30}"});
	assert_int_equal(ask(world, &question, NULL), 1);
	const char *asked = world->peer.asked[0].body;
	assert_non_null(strstr(asked, ENTRY "\"content\":\"" ONE "\",\"path\":\"/1\""));
	assert_non_null(strstr(asked, ENTRY "\"content\":\"" TWO "\",\"path\":\"/2\""));
	assert_non_null(strstr(asked, "\"build_id\":\"bbbb\",\"id_type\":\"hash\",\"content\":\"" ONE "\""));
	assert_true(upload_queue_take(world->queue, 100 * NS_PER_S, &item));
	assert_string_equal(item.path, "/2");
	upload_queue_done(world->queue, &item, UPLOAD_DONE, 500 * NS_PER_S);
	assert_true(upload_queue_is_settled(world->queue, &(struct upload_key){.id = "aaaa", .content = ONE}));
	assert_false(upload_queue_is_settled(world->queue, &(struct upload_key){FILE_ID_HASH, "bbbb", ONE}));
	const struct upload_offer of_one = {
		.build_id = "bbbb", .id_type = FILE_ID_HASH, .content = ONE, .kind = "debuginfo", .hash = "h", .size = 1};
	TEST_ANSWERS(&world->peer, {201, "{\"id\":\"u\"}"});
	assert_int_equal(upload_client_begin(world->client, &of_one, &reply, NULL), 0);
	assert_non_null(strstr(world->peer.asked[0].body, "\"bbbb\",\"id_type\":\"hash\",\"content\":\"" ONE "\""));
}

/* An agent that may not send says what there is, and sends nothing whatever the answer. */
static void test_telling_only(void **state)
{
	struct world *world = *state;
	struct upload_ask question = {.now_ns = NS_PER_S, .again_ns = NS_PER_S, .retry_ns = NS_PER_S, .tells_only = true};
	struct upload_item item;
	const struct upload_key key = {.id = "aaaa", .content = ONE, .code = 0xabc};
	upload_queue_add(world->queue, UPLOAD_BINARY, &key, "/1", 0, -1);
	TEST_ANSWERS(&world->peer, {200, "{\"wanted\":[" ENTRY "\"content\":\"" ONE "\"}]}"});
	assert_int_equal(upload_client_ask(world->client, world->queue, &question, NULL), 1);
	assert_non_null(strstr(world->peer.asked[0].body, ENTRY "\"content\":\"" ONE "\",\"code\":\"0000000000000abc\","
								"\"path\":\"/1\",\"kinds\":[]}"));
	assert_false(upload_queue_take(world->queue, 100 * NS_PER_S, &item));
	assert_true(upload_queue_is_settled(world->queue, &key));
}

static void test_file(void **state)
{
	struct world *world = *state;
	struct upload_reply reply;
	TEST_ANSWERS(&world->peer, {201, "{\"id\":\"u-1_A\",\"offset\":7}"}, {200, "{\"offset\":12}"}, {200, "{}"});
	assert_int_equal(upload_client_begin(world->client, &offer, &reply, NULL), 0);
	assert_int_equal(reply.status, 201);
	assert_string_equal(reply.id, "u-1_A");
	assert_true(reply.has_offset);
	assert_int_equal(reply.offset, 7);
	assert_int_equal(upload_client_put(world->client, reply.id, 7, bytes_of_string("hello"), &reply, NULL), 0);
	assert_int_equal(reply.offset, 12);
	assert_int_equal(upload_client_finish(world->client, "u-1_A", &reply, NULL), 0);
	assert_false(reply.has_offset);
	assert_string_equal(world->peer.asked[0].body,
			    "{\"build_id\":\"aaaa\",\"id_type\":\"gnu\",\"kind\":\"debuginfo\",\"size\":12,\"hash\":\"h\","
			    "\"without_build_id\":false,\"force\":true}");
	assert_string_equal(world->peer.asked[1].method, "PUT");
	assert_string_equal(world->peer.asked[1].target, "/api/v1/debuginfo/uploads/u-1_A?offset=7");
	assert_string_equal(world->peer.asked[1].body, "hello");
	assert_string_equal(world->peer.asked[2].method, "POST");
	assert_string_equal(world->peer.asked[2].target, "/api/v1/debuginfo/uploads/u-1_A/finish");
}

static void test_replies(void **state)
{
	static const struct {
		struct test_answer answer;
		const char *why, *reason;
		bool has_offset;
		uint64_t offset;
	} cases[] = {
		{{409, "{\"error\":\"it is there\",\"reason\":\"exists\"}"}, "it is there", "exists", false, 0},
		{{409, "{\"error\":\"not here\",\"offset\":0}"}, "not here", "", true, 0},
		{{500, "oops"}, "500 Internal Server Error", "", false, 0},
		{{500, ""}, "Internal Server Error", "", false, 0}, /* of the network layer of our own server */
		{{200, "{\"offset\":-1}"}, "200 OK", "", false, 0},
		{{200, "{\"offset\":\"5\"}"}, "200 OK", "", false, 0},
		{{200, "{\"offset\":1.5}"}, "200 OK", "", false, 0},
		{{200, "{\"offset\":99999999999999999999}"}, "200 OK", "", false, 0},
		{{200, "{\"id\":[],\"error\":{},\"reason\":5}"}, "200 OK", "", false, 0},
		{{200, "{\"reason\":\"a reason that is much too long\"}"}, "200 OK", "a reason that i", false, 0},
	};
	struct world *world = *state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct upload_reply reply;
		TEST_ANSWERS(&world->peer, cases[i].answer);
		assert_int_equal(upload_client_begin(world->client, &offer, &reply, NULL), 0);
		assert_int_equal(reply.status, cases[i].answer.status);
		assert_string_equal(reply.why, cases[i].why);
		assert_string_equal(reply.reason, cases[i].reason);
		assert_string_equal(reply.id, "");
		assert_int_equal(reply.has_offset, cases[i].has_offset);
		assert_int_equal(reply.offset, cases[i].offset);
	}
}

/* An id goes into a path: what could lead elsewhere is not asked for. */
static void test_hostile_ids(void **state)
{
	static const char *const ids[] = {"", "..", "../../delete", "a/b", "a?b", "a b", "a%2fb", "a\r\nb", "\xc3\xa4"};
	struct world *world = *state;
	TEST_ANSWERS(&world->peer, {200, "{}"});
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct upload_reply reply;
		struct error err = {0};
		assert_int_equal(upload_client_put(world->client, ids[i], 0, bytes_of_string("x"), &reply, &err), -EPROTO);
		assert_string_equal(err.message, "the server returned a malformed upload id");
		assert_int_equal(upload_client_finish(world->client, ids[i], &reply, &err), -EPROTO);
	}
	assert_int_equal(world->peer.asked_count, 0);
}

static void test_nobody_there(void **state)
{
	struct net_client *client;
	struct upload_reply reply;
	struct error err = {0};
	struct world *world = *state;
	/* A port on which nobody listens, and which nobody else can get meanwhile. */
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(own);
	char url[64];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&own, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u", ntohs(own.sin_port));
	assert_int_equal(net_client_new(&(struct net_client_options){.url = url}, &client, NULL), 0);
	assert_true(upload_client_begin(client, &offer, &reply, &err) < 0);
	assert_true(err.message[0] != 0);
	upload_queue_add(world->queue, UPLOAD_BINARY, &(struct upload_key){.id = "aaaa"}, "/bin/a", 0, -1);
	struct upload_ask question = {.now_ns = 5, .retry_ns = RETRY_NS};
	assert_true(upload_client_ask(client, world->queue, &question, &err) < 0);
	net_client_free(client);
	close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_ask),		TEST(test_retry_after),	 TEST(test_ask_failures), TEST(test_hostile_answers),
		TEST(test_contents),	TEST(test_telling_only), TEST(test_file),	  TEST(test_replies),
		TEST(test_hostile_ids), TEST(test_nobody_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
