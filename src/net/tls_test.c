/* SPDX-License-Identifier: Apache-2.0 */
/* TLS on both sides: who trusts whom, files that change, and peers that are no peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/limits.h"
#include "base/test_programs.h"
#include "base/thread.h"
#include "net/certificates_test.h"
#include "net/client_int.h"
#include "net/dial_test.h"
#include "net/routes_test.h"
#include "net/tls_int.h"

#define NAMES "DNS:localhost,IP:127.0.0.1"
#define DAY   86400L

static struct test_authority ours, theirs;

static int setup_files(void **state)
{
	ours = test_make_authority("ours", "ca.pem");
	theirs = test_make_authority("theirs", "other-ca.pem");
	test_issue(&ours, "good", NAMES, -60, DAY);
	test_issue(&ours, "wrong", "DNS:elsewhere.example,IP:192.0.2.1", -60, DAY);
	test_issue(&ours, "expired", NAMES, -2 * DAY, -DAY);
	test_issue(&ours, "future", NAMES, DAY, 2 * DAY);
	test_issue(&theirs, "stranger", NAMES, -60, DAY);
	test_issue(NULL, "self", NAMES, -60, DAY);
	return 0;
}

static int remove_files(void **state)
{
	test_free_authority(&ours);
	test_free_authority(&theirs);
	test_remove_directory();
	return 0;
}

/* ---- a server ---- */

static struct net_tls *server_tls;
static struct net_server *server;
static pthread_t server_thread;

static void *serve(void *context)
{
	net_server_run(server, NULL);
	return NULL;
}

static bool no_resumption;

static void start(const char *name, const char *client_ca, unsigned request_seconds_max)
{
	char cert[64], key[64];
	struct error error;
	snprintf(cert, sizeof(cert), "%s.pem", name);
	snprintf(key, sizeof(key), "%s.key", name);
	struct net_tls_options tls = {.cert_file = test_path(cert),
				      .key_file = test_path(key),
				      .ca_file = client_ca ? test_path(client_ca) : NULL,
				      .no_resumption = no_resumption};
	if (net_tls_new_server(&tls, &server_tls, &error) < 0)
		fail_msg("%s", error.message);
	struct net_server_options options = {
		.listen = "0.0.0.0:0", .routes = test_routes, .tls = server_tls, .request_seconds_max = request_seconds_max};
	assert_int_equal(net_server_new(&options, &server, &error), 0);
	assert_int_equal(thread_start(&server_thread, "server", serve, NULL, &error), 0);
}

static void stop(void)
{
	net_server_stop(server);
	pthread_join(server_thread, NULL);
	server = net_server_free(server);
	server_tls = net_tls_free(server_tls);
}

static struct net_server_stats stats(void)
{
	struct net_server_stats ret;
	net_server_get_stats(server, &ret);
	return ret;
}

/* ---- our client ---- */

static struct error client_error;

/* One request; the HTTP status or what went wrong. */
static int ask_at(const char *host, const struct net_tls_options *options)
{
	char url[100];
	struct net_tls *tls;
	struct net_client *client;
	struct net_client_response answer = {0};
	client_error.message[0] = '\0';
	assert_int_equal(net_tls_new_client(options, &tls, &client_error), 0);
	snprintf(url, sizeof(url), "https://%s%s", host, strrchr(net_server_address(server), ':'));
	struct net_client_options client_options = {.url = url, .tls = tls};
	assert_int_equal(net_client_new(&client_options, &client, NULL), 0);
	int r = net_client_request(client, "GET", "/show", NULL, (struct bytes){0}, false, &answer, &client_error);
	int status = answer.status;
	struct bytes hello = bytes_of_string("hello");
	if (r == 0) {
		assert_int_equal(net_client_grpc(client, "/test.Echo/Unary", &hello, 1, false, NULL, NULL, &answer, NULL), 0);
		assert_int_equal(answer.grpc_status, GRPC_OK);
	}
	net_client_response_release(&answer);
	net_client_free(client);
	net_tls_free(tls);
	return r < 0 ? r : status;
}

static int ask(const char *ca)
{
	return ask_at("127.0.0.1", &(struct net_tls_options){.ca_file = test_path(ca)});
}

static void assert_message(const char *text)
{
	if (!strstr(client_error.message, text))
		fail_msg("\"%s\" is not in \"%s\"", text, client_error.message);
}

static void test_trust(void **state)
{
	static const struct {
		const char *server, *ca, *message;
		int expected;
	} cases[] = {
		{"good", "ca.pem", "", 200},
		{"good", "other-ca.pem", "ca_file", -EKEYREJECTED},
		{"wrong", "ca.pem", "IP address mismatch; use a host name that it is valid for", -EKEYREJECTED},
		{"expired", "ca.pem", "certificate has expired", -EKEYREJECTED},
		{"future", "ca.pem", "not yet valid", -EKEYREJECTED},
		{"stranger", "ca.pem", "unable to get local issuer certificate; if you trust it", -EKEYREJECTED},
		{"self", "ca.pem", "self-signed certificate; if you trust it", -EKEYREJECTED},
		{"self", "self.pem", "", 200},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		start(cases[i].server, NULL, 0);
		assert_int_equal(ask(cases[i].ca), cases[i].expected);
		assert_message(cases[i].message);
		assert_int_equal(ask_at("127.0.0.1", &(struct net_tls_options){.insecure = true}), 200);
		stop();
	}
}

static void test_names(void **state)
{
	start("good", NULL, 0);
	const char *ca = test_path("ca.pem");
	assert_int_equal(ask_at("localhost", &(struct net_tls_options){.ca_file = ca}), 200);
	assert_int_equal(ask_at("127.0.0.2", &(struct net_tls_options){.ca_file = ca}), -EKEYREJECTED);
	assert_int_equal(ask_at("127.0.0.2", &(struct net_tls_options){.ca_file = ca, .server_name = "localhost"}), 200);
	assert_int_equal(ask_at("127.0.0.1", &(struct net_tls_options){.ca_file = ca, .server_name = "local"}), -EKEYREJECTED);
	assert_message("hostname mismatch");
	/* Without a file the system's authorities count, and ours is none of them. */
	assert_int_equal(ask_at("localhost", &(struct net_tls_options){0}), -EKEYREJECTED);
	stop();
}

static void test_client_certificates(void **state)
{
	start("good", "ca.pem", 0);
	struct net_tls_options options = {.ca_file = test_path("ca.pem")};
	assert_int_equal(ask_at("127.0.0.1", &options), -EPROTO);
	assert_message("certificate required");
	options.cert_file = test_path("stranger.pem");
	options.key_file = test_path("stranger.key");
	assert_int_equal(ask_at("127.0.0.1", &options), -EPROTO);
	options.cert_file = test_path("expired.pem");
	options.key_file = test_path("expired.key");
	assert_int_equal(ask_at("127.0.0.1", &options), -EPROTO);
	assert_message("expired");
	options.cert_file = test_path("wrong.pem"); /* its names do not matter */
	options.key_file = test_path("wrong.key");
	assert_int_equal(ask_at("127.0.0.1", &options), 200);
	assert_int_equal(stats().tls_failures, 3);
	stop();
}

static void test_bad_files(void **state)
{
	struct net_tls *tls;
	const char *cert = test_path("good.pem"), *key = test_path("good.key"), *other = test_path("wrong.key");
	const struct net_tls_options bad_servers[] = {
		{0},
		{.cert_file = cert},
		{.key_file = key},
		{.cert_file = cert, .key_file = other},
		{.cert_file = key, .key_file = key},
		{.cert_file = "/none", .key_file = key},
		{.cert_file = cert, .key_file = "/none"},
		{.cert_file = cert, .key_file = key, .ca_file = key},
		{.cert_file = cert, .key_file = key, .ca_file = "/none"},
	};
	for (size_t i = 0; i < sizeof(bad_servers) / sizeof(bad_servers[0]); i++)
		assert_int_equal(net_tls_new_server(&bad_servers[i], &tls, &client_error), -EINVAL);
	assert_message("cannot use the CA certificates in /none: No such file or directory");
	struct net_tls_options client = {.key_file = key};
	assert_int_equal(net_tls_new_client(&client, &tls, &client_error), -EINVAL);
	client = (struct net_tls_options){.ca_file = "/dev/null"};
	assert_int_equal(net_tls_new_client(&client, &tls, &client_error), -EINVAL);
}

static void copy(const char *from, const char *to)
{
	char command[300];
	snprintf(command, sizeof(command), "cp %s %s", test_path(from), test_path(to));
	assert_int_equal(system(command), 0);
}

/* Asks until the answer is the expected one: files are looked at once a second. */
static void ask_until(const char *ca, int expected)
{
	int r = 0;
	for (int i = 0; i < 2400 && (r = ask(ca)) != expected; i++)
		time_sleep_ns(50 * NS_PER_MS);
	assert_int_equal(r, expected);
}

static void test_changed_files(void **state)
{
	copy("good.pem", "now.pem");
	copy("good.key", "now.key");
	start("now", NULL, 0);
	assert_int_equal(ask("ca.pem"), 200);
	copy("stranger.pem", "now.pem"); /* its key is not there yet: the old pair stays */
	assert_int_equal(net_tls_reload(server_tls, &client_error), -EINVAL);
	assert_message("now.key");
	assert_int_equal(ask("ca.pem"), 200);
	copy("stranger.key", "now.key");
	ask_until("other-ca.pem", 200);
	assert_int_equal(ask("ca.pem"), -EKEYREJECTED);
	copy("good.pem", "now.pem");
	copy("good.key", "now.key");
	assert_int_equal(net_tls_reload(server_tls, &client_error), 0);
	assert_int_equal(ask("ca.pem"), 200);
	stop();
}

/* Clients that are given nothing share what they trust, and notice it when the system's authorities change. */
static void test_system_authorities(void **state)
{
	char url[100];
	struct net_client *clients[2];
	struct net_client_response answer = {0};
	int r[2] = {0};
	copy("other-ca.pem", "system.pem");
	setenv("SSL_CERT_FILE", test_path("system.pem"), 1);
	start("good", NULL, 0);
	snprintf(url, sizeof(url), "https://localhost%s", strrchr(net_server_address(server), ':'));
	struct net_client_options options = {.url = url};
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(net_client_new(&options, &clients[i], NULL), 0);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
			net_client_request(clients[i], "GET", "/show", NULL, (struct bytes){0}, NET_PLAIN, &answer, NULL),
			-EKEYREJECTED);
	assert_ptr_equal(clients[0]->tls, clients[1]->tls);
	copy("ca.pem", "system.pem");
	int64_t until_ns = time_monotonic_ns() + 120 * NS_PER_S;
	for (size_t i = 0; i < 2; i++)
		do {
			time_sleep_ns(50 * NS_PER_MS);
			r[i] = net_client_request(clients[i], "GET", "/show", NULL, (struct bytes){0}, NET_PLAIN, &answer,
						  NULL);
		} while (r[i] == -EKEYREJECTED && time_monotonic_ns() < until_ns);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(r[i], 0);
		net_client_free(clients[i]);
	}
	net_client_response_release(&answer);
	unsetenv("SSL_CERT_FILE");
	stop();
}

/* ---- resumption ---- */

/* A connection of its own each time; what is remembered is in `tls`. */
static int ask_with(struct net_tls *tls)
{
	char url[100];
	struct net_client *client;
	struct net_client_response answer = {0};
	snprintf(url, sizeof(url), "https://127.0.0.1%s", strrchr(net_server_address(server), ':'));
	struct net_client_options client_options = {.url = url, .tls = tls};
	assert_int_equal(net_client_new(&client_options, &client, NULL), 0);
	int r = net_client_request(client, "GET", "/show", NULL, (struct bytes){0}, false, &answer, &client_error);
	int status = answer.status;
	net_client_response_release(&answer);
	net_client_free(client);
	return r < 0 ? r : status;
}

static struct net_tls *client_of(const struct net_tls_options *options)
{
	struct net_tls *tls;
	if (net_tls_new_client(options, &tls, &client_error) < 0)
		fail_msg("%s", client_error.message);
	return tls;
}

static void assert_resumed(struct net_tls *tls, bool expected)
{
	uint64_t before = stats().tls_resumed;
	assert_int_equal(ask_with(tls), 200);
	assert_int_equal(stats().tls_resumed, before + expected);
}

static void test_resumption(void **state)
{
	start("good", NULL, 0);
	struct net_tls *tls = client_of(&(struct net_tls_options){.ca_file = test_path("ca.pem")});
	struct tls_sessions *sessions = tls_sessions_of(server_tls);
	assert_resumed(tls, false);
	for (int i = 0; i < 3; i++)
		assert_resumed(tls, true);
	/* A key is good for the time of the next one, and not for longer. */
	tls_sessions_rotate(sessions);
	assert_resumed(tls, true);
	tls_sessions_rotate(sessions);
	tls_sessions_rotate(sessions);
	assert_resumed(tls, false);
	assert_resumed(tls, true);
	assert_int_equal(stats().tls_handshakes, 7);
	assert_int_equal(stats().tls_failures, 0);
	/* A client whose files were read again trusts nobody of before. */
	assert_int_equal(net_tls_reload(tls, NULL), 0);
	assert_resumed(tls, false);
	/* Another server has other keys. */
	stop();
	start("good", NULL, 0);
	assert_int_equal(ask_with(tls), 200);
	assert_int_equal(stats().tls_resumed, 0);
	net_tls_free(tls);
	stop();
}

/* To switch it off takes one side. */
static void test_no_resumption(void **state)
{
	start("good", NULL, 0);
	struct net_tls *tls = client_of(&(struct net_tls_options){.ca_file = test_path("ca.pem"), .no_resumption = true});
	for (int i = 0; i < 3; i++)
		assert_resumed(tls, false);
	net_tls_free(tls);
	stop();
	no_resumption = true;
	start("good", NULL, 0);
	tls = client_of(&(struct net_tls_options){.ca_file = test_path("ca.pem")});
	for (int i = 0; i < 3; i++)
		assert_resumed(tls, false);
	net_tls_free(tls);
	stop();
	no_resumption = false;
}

/* A connection under TLS that changes hands works for whoever has it, and what it brings is remembered for them. */
static void test_shared_connection(void **state)
{
	char url[100];
	struct net_client_response answer = {0};
	copy("ca.pem", "system.pem");
	setenv("SSL_CERT_FILE", test_path("system.pem"), 1);
	time_sleep_ns(1100 * NS_PER_MS); /* the files are looked at once a second */
	start("good", NULL, 0);
	snprintf(url, sizeof(url), "https://localhost%s", strrchr(net_server_address(server), ':'));
	struct net_client_options options = {.url = url, .shared = true};
	for (int round = 0; round < 6; round++) {
		struct net_client *client;
		assert_int_equal(net_client_new(&options, &client, NULL), 0);
		if (net_client_request(client, "GET", "/show", NULL, (struct bytes){0}, NET_PLAIN, &answer, &client_error) < 0)
			fail_msg("%s", client_error.message);
		assert_int_equal(answer.status, 200);
		net_client_free(client);
	}
	assert_int_equal(stats().connections_accepted, 1);
	net_client_response_release(&answer);
	unsetenv("SSL_CERT_FILE");
	stop();
}

/* A ticket is no certificate: an authority that is not trusted any more, a certificate that has expired, and a server that
 * wants one now each end what was agreed on before. */
static void test_resumed_certificates(void **state)
{
	char ca[128];
	copy("ca.pem", "now-ca.pem");
	start("good", "now-ca.pem", 0);
	snprintf(ca, sizeof(ca), "%s", test_path("ca.pem")); /* longer than test_path() keeps it */
	struct net_tls_options options = {.ca_file = ca,
					  .cert_file = test_path("wrong.pem"), /* its names do not matter */
					  .key_file = test_path("wrong.key")};
	struct net_tls *tls = client_of(&options);
	assert_resumed(tls, false);
	assert_resumed(tls, true);
	/* The names of a resumed session are those of its certificate. */
	assert_int_equal(stats().connections_unknown, 0);
	copy("other-ca.pem", "now-ca.pem");
	assert_int_equal(net_tls_reload(server_tls, NULL), 0);
	uint64_t before = stats().tls_resumed;
	assert_int_equal(ask_with(tls), -EPROTO);
	assert_int_equal(stats().tls_resumed, before);
	copy("ca.pem", "now-ca.pem");
	assert_int_equal(net_tls_reload(server_tls, NULL), 0);
	assert_int_equal(ask_with(tls), 200);
	net_tls_free(tls);
	/* It ends while the session would still be good. */
	test_issue(&ours, "short", NAMES, -60, 20);
	options.cert_file = test_path("short.pem");
	options.key_file = test_path("short.key");
	tls = client_of(&options);
	int64_t until_ns = time_monotonic_ns() + 20 * NS_PER_S;
	int r = ask_with(tls);
	while (r == 200 && time_monotonic_ns() < until_ns + 60 * NS_PER_S) {
		time_sleep_ns(200 * NS_PER_MS);
		r = ask_with(tls);
	}
	assert_int_equal(r, -EPROTO);
	assert_true(time_monotonic_ns() > until_ns - 2 * NS_PER_S);
	net_tls_free(tls);
	stop();
}

/* Who came without a certificate does not get around having to bring one. */
static void test_resumed_without_certificate(void **state)
{
	char path[128];
	copy("ca.pem", "now-ca.pem");
	start("good", NULL, 0);
	struct net_tls *tls = client_of(&(struct net_tls_options){.ca_file = test_path("ca.pem")}), *wants;
	assert_resumed(tls, false);
	snprintf(path, sizeof(path), "%s", test_path("now-ca.pem"));
	/* The same keys of tickets under other rules: what a reload would be that adds client_ca_file. */
	struct net_tls_options rules = {.cert_file = test_path("good.pem"), .key_file = test_path("good.key"), .ca_file = path};
	assert_int_equal(net_tls_new_server(&rules, &wants, &client_error), 0);
	struct tls_sessions *from = tls_sessions_of(server_tls), *to = tls_sessions_of(wants);
	memcpy(to->keys, from->keys, sizeof(to->keys));
	SSL *theirs_tls, *server_side;
	assert_int_equal(tls_open(tls, &theirs_tls, NULL), 0);
	assert_int_equal(tls_open(wants, &server_side, NULL), 0);
	snprintf(path, sizeof(path), "127.0.0.1%s 127.0.0.1", strrchr(net_server_address(server), ':'));
	tls_sessions_resume(tls_sessions_of(tls), theirs_tls, path);
	assert_non_null(SSL_get0_session(theirs_tls)); /* it has one to show */
	BIO *a, *b;
	assert_int_equal(BIO_new_bio_pair(&a, 0, &b, 0), 1);
	SSL_set_bio(theirs_tls, a, a);
	SSL_set_bio(server_side, b, b);
	int r = 0;
	for (int i = 0; i < 20 && r != 1; i++) {
		SSL_connect(theirs_tls);
		r = SSL_accept(server_side);
	}
	assert_int_not_equal(r, 1);
	assert_int_equal(SSL_session_reused(server_side), 0);
	SSL_free(theirs_tls);
	SSL_free(server_side);
	net_tls_free(wants);
	net_tls_free(tls);
	stop();
}

/* ---- strange peers ---- */

/* Until the server closes. */
static const char *get(int fd)
{
	static char answer[4096];
	size_t len = 0;
	for (;;) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		if (poll(&poll_fd, 1, 120000) <= 0)
			fail_msg("the connection stays open");
		ssize_t n = recv(fd, answer + len, sizeof(answer) - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	answer[len] = '\0';
	close(fd);
	return answer;
}

static void test_garbage(void **state)
{
	start("good", NULL, 0);
	int fd = test_dial(server);
	static const char plain[] = "GET /show HTTP/1.1\r\nHost: x\r\n\r\n";
	assert_int_equal(send(fd, plain, sizeof(plain) - 1, MSG_NOSIGNAL), sizeof(plain) - 1);
	const char *answer = get(fd);
	assert_non_null(strstr(answer, "400 Bad Request"));
	assert_non_null(strstr(answer, "https://"));
	static const char *const garbage[] = {"SSH-2.0-x\r\n", "\x16\x03\x01\x40\x01\x01\xff\xff\xff",
					      "PRI * HTTP/2.0\r\n\r\nSM\r\n"};
	for (size_t i = 0; i < 3; i++) {
		fd = test_dial(server);
		assert_int_equal(send(fd, garbage[i], strlen(garbage[i]), MSG_NOSIGNAL), strlen(garbage[i]));
		shutdown(fd, SHUT_WR);
		get(fd);
	}
	assert_int_equal(ask("ca.pem"), 200);
	assert_true(stats().tls_failures >= 2);
	stop();
}

/* A handshake that is never finished ends by time, as a request's head does. */
static void test_slow_handshake(void **state)
{
	start("good", NULL, 0);
	int fd = test_dial(server);
	assert_int_equal(send(fd, "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 4);
	get(fd);
	assert_true(stats().timeouts >= 1);
	stop();
}

/* An old protocol, and renegotiation, which costs a server more than a peer. */
static void test_refusals(void **state)
{
	start("good", NULL, 0);
	static const int versions[] = {TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION};
	for (size_t i = 0; i < 3; i++) {
		SSL_CTX *context = SSL_CTX_new(TLS_client_method());
		SSL_CTX_set_security_level(context, 0);
		SSL_CTX_set_min_proto_version(context, versions[i]);
		SSL_CTX_set_max_proto_version(context, versions[i]);
		SSL *session = SSL_new(context);
		int fd = test_dial(server);
		SSL_set_fd(session, fd);
		int r = SSL_connect(session);
		assert_int_equal(r == 1, i > 0);
		if (versions[i] == TLS1_2_VERSION) {
			assert_int_equal(SSL_renegotiate(session), 1);
			assert_int_not_equal(SSL_do_handshake(session), 1);
		}
		SSL_free(session);
		SSL_CTX_free(context);
		close(fd);
	}
	stop();
}

/* A peer that asks for 100 MB and reads nothing: the worker that waits for room is let go when it leaves. */
static void test_peer_reads_nothing(void **state)
{
	start("good", NULL, 0);
	test_closed_count = 0;
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *session = SSL_new(context);
	int fd = test_dial(server);
	SSL_set_fd(session, fd);
	assert_int_equal(SSL_connect(session), 1);
	static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				      "\0\0\0\4\0\0\0\0\0"	     /* SETTINGS */
				      "\0\0\4\10\0\0\0\0\0\77\0\0\0" /* WINDOW_UPDATE, connection */
				      "\0\0\50\1\4\0\0\0\1"
				      "\203\206\104\17/test.Echo/Many\101\1x\137\20application/grpc"
				      "\0\0\4\10\0\0\0\0\1\77\0\0\0" /* WINDOW_UPDATE, stream */
				      "\0\0\20\0\1\0\0\0\1"
				      "\0\0\0\0\13"
				      "1000 100000";
	assert_int_equal(sizeof("\203\206\104\17/test.Echo/Many\101\1x\137\20application/grpc") - 1, 050);
	assert_int_equal(SSL_write(session, opening, sizeof(opening) - 1), sizeof(opening) - 1);
	uint8_t some[1000];
	assert_true(SSL_read(session, some, sizeof(some)) > 0);
	for (int i = 0; i < 24000 && stats().bytes_sent < MIB; i++)
		time_sleep_ns(5 * NS_PER_MS);
	assert_true(stats().bytes_sent >= MIB / 4);
	assert_true(stats().bytes_sent < 50 * MIB);
	assert_int_equal(__atomic_load_n(&test_closed_count, __ATOMIC_SEQ_CST), 0);
	close(fd);
	for (int i = 0; i < 24000 && !__atomic_load_n(&test_closed_count, __ATOMIC_SEQ_CST); i++)
		time_sleep_ns(5 * NS_PER_MS);
	assert_int_equal(__atomic_load_n(&test_closed_count, __ATOMIC_SEQ_CST), 1);
	SSL_free(session);
	SSL_CTX_free(context);
	stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trust),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_client_certificates),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_changed_files),
		cmocka_unit_test(test_system_authorities),
		cmocka_unit_test(test_resumption),
		cmocka_unit_test(test_no_resumption),
		cmocka_unit_test(test_shared_connection),
		cmocka_unit_test(test_resumed_certificates),
		cmocka_unit_test(test_resumed_without_certificate),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_slow_handshake),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_peer_reads_nothing),
	};
	return cmocka_run_group_tests(tests, setup_files, remove_files);
}
