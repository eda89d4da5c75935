/* SPDX-License-Identifier: Apache-2.0 */
/* Who may talk to the server: tokens, names of hosts, pages of other sites, and where it may listen. */
#include "server/test_server.h"

#include "codec/base64.h"

#define TOKEN "secret-token"
#define RPC   "/querier.v1.QuerierService/LabelNames"

/* The status that access control answers with; 0 = it lets the request pass. */
static int authorize(const struct server *server, const char *head, struct net_response *response)
{
	struct net_request request;
	test_request_make(&request, head, (struct bytes){0});
	net_response_release(response);
	net_response_init(response);
	bool passes = access_authorize((void *)(uintptr_t)server, &request, response);
	request_release(&request);
	return passes ? 0 : response->status;
}

static bool has_header(struct net_response *response, const char *line)
{
	const char *headers = buffer_string(&response->headers);
	return headers && strstr(headers, line);
}

struct access_case {
	const char *head;
	int status;
};

static void check(const struct server *server, const struct access_case *cases, size_t count)
{
	struct net_response response;
	net_response_init(&response);
	for (size_t i = 0; i < count; i++) {
		int status = authorize(server, cases[i].head, &response);
		if (status != cases[i].status)
			fail_msg("%s\n: %d, not %d", cases[i].head, status, cases[i].status);
		assert_true(has_header(&response, "X-Content-Type-Options: nosniff"));
		assert_int_equal(response.grpc_status, status == 401   ? GRPC_UNAUTHENTICATED
						       : status == 403 ? GRPC_PERMISSION_DENIED
								       : GRPC_OK);
		assert_int_equal(has_header(&response, "WWW-Authenticate: Basic"), status == 401);
	}
	net_response_release(&response);
}
#define CHECK(server, cases) check(server, cases, sizeof(cases) / sizeof(cases[0]))

/* Rebinding arrives under the attacker's name. */
static void test_hosts(void **state)
{
	static const struct access_case cases[] = {
		{"GET /\nHost: localhost", 0},
		{"GET /\nHost: LocalHost:7070", 0},
		{"GET /\nHost: 127.0.0.1", 0},
		{"GET /\nHost: 127.9.8.7:7070", 0},
		{"GET /\nHost: [::1]:7070", 0},
		{"GET /\nHost: evil.example", 403},
		{"GET /\nHost: evil.example:7070", 403},
		{"GET /\nHost: 127.0.0.1.evil.example", 403},
		{"GET /\nHost: localhost.evil.example", 403},
		{"GET /\nHost: localhostx", 403},
		{"GET /\nHost: 127.0.0.1x", 403},
		{"GET /\nHost: 127.", 403},
		{"GET /\nHost: 128.0.0.1", 403},
		{"GET /\nHost: 10.0.0.1", 403},
		{"GET /\nHost: [::2]", 403},
		{"GET /\nHost: [::1", 403},
		{"GET /\nHost: ", 403},
		{"GET /healthz\nHost: evil.example", 0},
		{"GET /readyz\nHost: evil.example", 0},
		{"GET /ready\nHost: evil.example", 0},
		{"GET /healthz/\nHost: evil.example", 403},
		{"GET /healthzz\nHost: evil.example", 403},
	};
	struct server server = {.loopback_only = true};
	(void)state;
	CHECK(&server, cases);
	server.loopback_only = false; /* any name may lead to an address that others reach */
	static const struct access_case beyond[] = {{"GET /\nHost: wick.example", 0}, {"GET /\nHost: 10.0.0.1:7070", 0}};
	CHECK(&server, beyond);
}

static void test_origins(void **state)
{
	static const struct access_case cases[] = {
		{"GET /\nHost: localhost:7070\nOrigin: http://localhost:7070", 0},
		{"GET /\nHost: localhost:7070\nOrigin: https://LOCALHOST:7070", 0},
		{"GET /\nHost: localhost:7070\nOrigin: http://localhost:7071", 403},
		{"GET /\nHost: localhost:7070\nOrigin: http://localhost", 403},
		{"GET /\nHost: localhost:7070\nOrigin: http://evil.example", 403},
		{"GET /\nHost: localhost:7070\nOrigin: http://localhost:7070.evil.example", 403},
		{"GET /\nHost: localhost:7070\nOrigin: http://evil.example/?://localhost:7070", 403},
		{"GET /\nHost: localhost:7070\nOrigin: null", 403},
		{"GET /\nHost: localhost:7070\nOrigin: localhost:7070", 403},
		{"GET /\nHost: localhost:7070\nOrigin: ", 403},
		/* Without a token nobody proves who asks, whatever is called. */
		{"POST " RPC "\nHost: localhost:7070\nOrigin: http://grafana.example", 403},
		{"OPTIONS " RPC "\nHost: localhost:7070\nOrigin: http://grafana.example", 403},
	};
	struct server server = {.loopback_only = true};
	(void)state;
	CHECK(&server, cases);
}

static void test_tokens(void **state)
{
	static const struct access_case cases[] = {
		{"GET /", 401},
		{"GET /metrics", 401},
		{"GET /healthz", 0},
		{"GET /\nAuthorization: Bearer " TOKEN, 0},
		{"GET /\nAuthorization: bearer " TOKEN, 0},
		{"GET /\nAuthorization: Bearer " TOKEN "x", 401},
		{"GET /\nAuthorization: Bearer secret-toke", 401},
		{"GET /\nAuthorization: Bearer Secret-token", 401},
		{"GET /\nAuthorization: Bearer secret-tokenn", 401},
		{"GET /\nAuthorization: Bearer " TOKEN TOKEN, 401},
		{"GET /\nAuthorization: Bearer ", 401},
		{"GET /\nAuthorization: Bearer", 401},
		{"GET /\nAuthorization: " TOKEN, 401},
		{"GET /\nAuthorization: Token " TOKEN, 401},
		{"GET /?token=" TOKEN, 401},
		/* "any:secret-token", ":secret-token", "a:b:secret-token", "secret-token", and bytes that are no text */
		{"GET /\nAuthorization: Basic YW55OnNlY3JldC10b2tlbg==", 0},
		{"GET /\nAuthorization: basic OnNlY3JldC10b2tlbg==", 0},
		{"GET /\nAuthorization: Basic YTpiOnNlY3JldC10b2tlbg==", 401},
		{"GET /\nAuthorization: Basic c2VjcmV0LXRva2Vu", 401},
		{"GET /\nAuthorization: Basic YTpzZWNyZXQtdG9rZW4AeA==", 401},
		{"GET /\nAuthorization: Basic !!!!", 401},
		{"GET /\nAuthorization: Basic ", 401},
	};
	struct server server = {.token = (char[]){TOKEN}};
	struct net_response response;
	char long_one[4000] = "GET /\nAuthorization: Basic ";
	(void)state;
	CHECK(&server, cases);
	memset(long_one + strlen(long_one), 'Y', sizeof(long_one) - strlen(long_one) - 1);
	net_response_init(&response);
	assert_int_equal(authorize(&server, long_one, &response), 401);
	net_response_release(&response);
}

/* A page of another site may call procedures with a token that it knows; not with one that the browser remembers. */
static void test_pages(void **state)
{
	static const struct access_case cases[] = {
		{"OPTIONS " RPC "\nOrigin: http://grafana.example", 0},
		{"POST " RPC "\nOrigin: http://grafana.example\nAuthorization: Bearer " TOKEN, 0},
		{"POST " RPC "\nOrigin: http://grafana.example\nAuthorization: Bearer other", 403},
		{"POST " RPC "\nOrigin: http://grafana.example", 403},
		{"POST " RPC "\nOrigin: http://grafana.example\nAuthorization: Basic YW55OnNlY3JldC10b2tlbg==", 403},
		{"OPTIONS /api/v1/delete\nOrigin: http://grafana.example", 403},
		{"POST /api/v1/delete\nOrigin: http://grafana.example\nAuthorization: Bearer " TOKEN, 403},
		{"POST /api/v1/delete\nOrigin: http://127.0.0.1:7070\nAuthorization: Bearer " TOKEN, 0},
		{"OPTIONS " RPC "x\nOrigin: http://grafana.example", 403},
	};
	struct server server = {.token = (char[]){TOKEN}};
	struct net_response response;
	(void)state;
	CHECK(&server, cases);
	net_response_init(&response);
	assert_int_equal(authorize(&server, cases[1].head, &response), 0);
	assert_true(has_header(&response, "Access-Control-Allow-Origin: http://grafana.example\r\n"));
	assert_true(has_header(&response, "Vary: Origin\r\n"));
	authorize(&server, cases[2].head, &response);
	assert_false(has_header(&response, "Access-Control"));
	net_response_release(&response);
}

static void test_listen(void **state)
{
	static const struct {
		const char *listen, *token, *client_ca;
		bool insecure, taken, loopback;
	} cases[] = {
		{"127.0.0.1:7070", NULL, NULL, false, true, true},
		{"localhost:0", NULL, NULL, false, true, true},
		{"[::1]:7070", NULL, NULL, false, true, true},
		{"0.0.0.0:7070", NULL, NULL, false, false, false},
		{"[::]:7070", NULL, NULL, false, false, false},
		{"10.0.0.1:7070", NULL, NULL, false, false, false},
		{"127.0.0.1.evil:7070", NULL, NULL, false, false, false},
		{"0.0.0.0:7070", TOKEN, NULL, false, true, false},
		{"0.0.0.0:7070", NULL, "/ca.pem", false, true, false},
		{"0.0.0.0:7070", NULL, NULL, true, true, false},
		{"127.0.0.1", NULL, NULL, false, false, false},
		{"[::1]", NULL, NULL, true, false, false},
		{"", NULL, NULL, true, false, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server server = {.token = (char *)(uintptr_t)cases[i].token,
					.options = {.listen = cases[i].listen,
						    .tls_client_ca_file = cases[i].client_ca,
						    .insecure = cases[i].insecure}};
		struct error err = {0};
		int r = access_check_options(&server, &err);
		if (r != (cases[i].taken ? 0 : -EINVAL))
			fail_msg("%s: %d %s", cases[i].listen, r, err.message);
		if (cases[i].taken)
			assert_int_equal(server.loopback_only, cases[i].loopback);
		else
			assert_true(err.message[0] != 0);
	}
	char long_one[400];
	memset(long_one, 'a', sizeof(long_one));
	snprintf(long_one + 300, 100, ":7070");
	struct server server = {.options = {.listen = long_one, .insecure = true}};
	assert_int_equal(access_check_options(&server, NULL), -EINVAL);
}

/* A further port must not be open to more than the first is. */
static void test_further_ports(void **state)
{
	struct server server = {.options.listen = "127.0.0.1:7070"};
	struct error err = {0};
	(void)state;
	assert_int_equal(access_check_options(&server, &err), 0);
	assert_int_equal(access_check_listen(&server, "127.0.0.1:4317", &err), 0);
	assert_int_equal(access_check_listen(&server, "0.0.0.0:4317", &err), -EINVAL);
	assert_non_null(strstr(err.message, "which other machines can reach"));
	assert_int_equal(access_check_listen(&server, "127.0.0.1", &err), -EINVAL);
	assert_int_equal(access_check_listen(&server, ":4317", &err), -EINVAL);
	server.loopback_only = false;
	assert_int_equal(access_check_listen(&server, "0.0.0.0:4317", &err), 0);
	assert_int_equal(access_check_listen(&server, "127.0.0.1:4317", &err), 0);
}

/* What changes the store: with the token anybody, without one this machine only. */
static void test_changes(void **state)
{
	struct server server = {.token = NULL};
	struct net_request request;
	struct error err = {0};
	(void)state;
	test_request_make(&request, "POST /api/v1/delete", (struct bytes){0});
	assert_int_equal(access_may_change(&server, &request, &err), 0);
	request.loopback = false;
	assert_int_equal(access_may_change(&server, &request, &err), -EACCES);
	server.token = (char[]){TOKEN};
	assert_int_equal(access_may_change(&server, &request, &err), 0);
	request_release(&request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),	cmocka_unit_test(test_origins), cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_pages),	cmocka_unit_test(test_listen),	cmocka_unit_test(test_further_ports),
		cmocka_unit_test(test_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
