/* SPDX-License-Identifier: Apache-2.0 */
/* Who may talk to the server: tokens, names of hosts, pages of other sites, and where it may listen. */
#include "server/test_server.h"

#include "codec/base64.h"
#include "server/access/callers.h"

#define TOKEN "secret-token"
#define RPC   "/querier.v1.QuerierService/LabelNames"

/* What the next requests need, and where they come from; 0: by the path, and each from elsewhere. */
static enum permission permission_of;
static uint64_t peer, other_peer = 1000;

static bool is_open(const char *path)
{
	return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0 || strcmp(path, "/ready") == 0;
}

/* The callers that a server would have found at its start. */
static void open_callers(struct server *server)
{
	struct error err = {0};
	if (access_open(server, &err) < 0)
		fail_msg("%s", err.message);
}

/* The status that access control answers with; 0 = it lets the request pass. */
static int authorize(const struct server *server, const char *head, struct net_response *response)
{
	struct net_request request;
	test_request_make(&request, head, (struct bytes){0});
	request.permission = permission_of ? permission_of : is_open(request.path) ? PERMIT_OPEN : PERMIT_READ;
	request.peer = peer ? peer : ++other_peer;
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
		assert_true(has_header(&response, "Cross-Origin-Resource-Policy: same-origin"));
		assert_int_equal(response.grpc_status, status == 400   ? GRPC_INVALID_ARGUMENT
						       : status == 401 ? GRPC_UNAUTHENTICATED
						       : status == 403 ? GRPC_PERMISSION_DENIED
						       : status == 429 ? GRPC_RESOURCE_EXHAUSTED
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
	open_callers(&server);
	CHECK(&server, cases);
	memset(long_one + strlen(long_one), 'Y', sizeof(long_one) - strlen(long_one) - 1);
	net_response_init(&response);
	assert_int_equal(authorize(&server, long_one, &response), 401);
	net_response_release(&response);
	access_close(&server);
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
	open_callers(&server);
	CHECK(&server, cases);
	net_response_init(&response);
	assert_int_equal(authorize(&server, cases[1].head, &response), 0);
	assert_true(has_header(&response, "Access-Control-Allow-Origin: http://grafana.example\r\n"));
	assert_true(has_header(&response, "Vary: Origin\r\n"));
	authorize(&server, cases[2].head, &response);
	assert_false(has_header(&response, "Access-Control"));
	net_response_release(&response);
	access_close(&server);
}

/* What changes something comes from the page here, or from no page, also where a browser sends no Origin. */
static void test_sites(void **state)
{
	static const struct access_case cases[] = {
		{"POST /api/v1/delete\nSec-Fetch-Site: same-origin", 0},
		{"POST /api/v1/delete\nSec-Fetch-Site: none", 0},
		{"POST /api/v1/delete", 0},
		{"POST /api/v1/delete\nSec-Fetch-Site: cross-site", 403},
		{"POST /api/v1/delete\nSec-Fetch-Site: Cross-Site", 403},
		{"POST /api/v1/delete\nSec-Fetch-Site: same-site", 403}, /* another port of this host */
		{"POST /api/v1/delete\nSec-Fetch-Site: ", 403},
		{"POST /api/v1/delete\nHost: localhost:7070\nOrigin: http://localhost:7070\nSec-Fetch-Site: cross-site", 403},
		{"GET /\nSec-Fetch-Site: cross-site", 0}, /* a link to the page */
	};
	static const struct access_case with_token[] = {
		{"POST /api/v1/delete\nSec-Fetch-Site: cross-site\nAuthorization: Basic YW55OnNlY3JldC10b2tlbg==", 403},
		{"POST /api/v1/delete\nSec-Fetch-Site: same-origin\nAuthorization: Basic YW55OnNlY3JldC10b2tlbg==", 0},
		{"POST /settings.v1.SettingsService/Set\nOrigin: http://grafana.example\nSec-Fetch-Site: cross-site\n"
		 "Authorization: Bearer " TOKEN,
		 0},
	};
	struct server server = {.loopback_only = true};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		permission_of = strncmp(cases[i].head, "GET", 3) == 0 ? PERMIT_READ : PERMIT_ADMIN;
		check(&server, &cases[i], 1);
	}
	permission_of = PERMIT_ADMIN;
	server = (struct server){.token = (char[]){TOKEN}};
	open_callers(&server);
	CHECK(&server, with_token);
	access_close(&server);
	permission_of = 0;
}

/* ---- users of this machine ---- */

static struct net_user user = {.fd = -1, .uid = 1000, .is_known = true};

/* 0, or the status; and whether addresses are hidden from it. */
static int try_as(const struct server *server, enum permission permission, bool *ret_hides, struct net_response *response)
{
	struct net_request request;
	test_request_make(&request, "POST /x", (struct bytes){0});
	request.permission = permission;
	request.user = &user;
	net_response_release(response);
	net_response_init(response);
	bool passes = access_authorize((void *)(uintptr_t)server, &request, response);
	*ret_hides = caller_of(&request) && caller_of(&request)->hides_addresses;
	request_release(&request);
	return passes ? 0 : response->status;
}

static const enum permission needs[] = {PERMIT_OPEN,  PERMIT_READ,   PERMIT_READ_SERVER, PERMIT_WRITE,	     PERMIT_UPLOAD,
					PERMIT_AGENT, PERMIT_RECORD, PERMIT_ADMIN,	 PERMIT_ADMIN_SERVER};

static void test_users(void **state)
{
	static const struct {
		const char *what;
		struct net_user user;
		enum local_rule read, write;
		const char *may; /* one for each of `needs` */
		bool hides;	 /* addresses, from who reads */
	} cases[] = {
		{"another user", {-1, 1000, true}, LOCAL_OWNERS, LOCAL_BY_KERNEL, "y--y-----", false},
		{"another user, not even profiles", {-1, 1000, true}, LOCAL_OWNERS, LOCAL_OWNERS, "y--------", false},
		{"another user who may read", {-1, 1000, true}, LOCAL_ANYBODY, LOCAL_ANYBODY, "yyyy-----", true},
		{"root", {-1, 0, true}, LOCAL_OWNERS, LOCAL_OWNERS, "yyyyyyyyy", false},
		{"an owner", {-1, 33, true}, LOCAL_OWNERS, LOCAL_OWNERS, "yyyyyyyyy", false},
		{"an agent", {-1, 1034, true}, LOCAL_OWNERS, LOCAL_OWNERS, "y--yyy---", false},
		{"an owner where all may read", {-1, 33, true}, LOCAL_ANYBODY, LOCAL_BY_KERNEL, "yyyyyyyyy", false},
		{"somebody unknown", {-1, 0, false}, LOCAL_OWNERS, LOCAL_OWNERS, "y--------", false},
		{"somebody unknown who may read", {-1, 0, false}, LOCAL_ANYBODY, LOCAL_ANYBODY, "yyyy-----", true},
	};
	struct net_response response;
	(void)state;
	net_response_init(&response);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server server = {.loopback_only = true,
					.local = {.owners = {33}, .owner_count = 1, .agents = {0, 1034}, .names = "wick"}};
		server.local.read = cases[i].read;
		server.local.write = cases[i].write;
		for (size_t k = 0; k < sizeof(needs) / sizeof(needs[0]); k++) {
			bool hides, may = cases[i].may[k] == 'y';
			user = cases[i].user;
			int status = try_as(&server, needs[k], &hides, &response);
			if (status != (may ? 0 : 403))
				fail_msg("%s: permission %s: %d", cases[i].what, permission_name(needs[k]), status);
			if (may && permission_local(needs[k]) == LOCAL_NEED_READ)
				assert_int_equal(hides, cases[i].hides);
			if (may)
				continue;
			assert_int_equal(response.grpc_status, GRPC_PERMISSION_DENIED);
			assert_non_null(strstr(response.message, "only wick may"));
			assert_non_null(strstr(response.message, "local.users"));
			assert_non_null(
				strstr(response.message, cases[i].user.is_known ? "user id 10" : "cannot be determined"));
		}
	}
	/* With a token, a certificate, or for all the network, users do not count. */
	struct server others[] = {{.loopback_only = false, .options.insecure = true},
				  {.loopback_only = true, .options.tls_client_ca_file = "ca.pem"}};
	for (size_t i = 0; i < 2; i++) {
		bool hides;
		user = (struct net_user){-1, 1000, true};
		assert_int_equal(try_as(&others[i], PERMIT_ADMIN, &hides, &response), 0);
		assert_false(hides);
	}
	net_response_release(&response);
}

/* Where users are not told apart, the agent is one of those. */
static void test_users_apart(void **state)
{
	struct net_response response;
	struct server apart = {
		.loopback_only = true,
		.local = {.owners = {33}, .owner_count = 1, .agents = {1034, 0}, .has_unknown = true, .unknown = 65534}};
	static const struct {
		enum local_rule write;
		unsigned agent;
		const char *may;
	} unknown[] = {
		{LOCAL_BY_KERNEL, 1034, "y--yyy---"}, {LOCAL_OWNERS, 1034, "y--------"}, {LOCAL_BY_KERNEL, 0, "y--y-----"}};
	(void)state;
	net_response_init(&response);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
		for (size_t k = 0; k < sizeof(needs) / sizeof(needs[0]); k++) {
			bool hides;
			user = (struct net_user){-1, 65534, true};
			apart.local.read = LOCAL_OWNERS;
			apart.local.write = unknown[i].write;
			apart.local.agents[0] = unknown[i].agent;
			assert_int_equal(try_as(&apart, needs[k], &hides, &response), unknown[i].may[k] == 'y' ? 0 : 403);
		}
	net_response_release(&response);
}

static void test_listen(void **state)
{
	static const struct {
		const char *listen, *token, *client_ca, *tokens;
		bool insecure, taken, loopback;
	} cases[] = {
		{"127.0.0.1:7070", NULL, NULL, NULL, false, true, true},
		{"localhost:0", NULL, NULL, NULL, false, true, true},
		{"[::1]:7070", NULL, NULL, NULL, false, true, true},
		{"0.0.0.0:7070", NULL, NULL, NULL, false, false, false},
		{"[::]:7070", NULL, NULL, NULL, false, false, false},
		{"10.0.0.1:7070", NULL, NULL, NULL, false, false, false},
		{"127.0.0.1.evil:7070", NULL, NULL, NULL, false, false, false},
		{"0.0.0.0:7070", TOKEN, NULL, NULL, false, true, false},
		{"0.0.0.0:7070", NULL, "/ca.pem", NULL, false, true, false},
		{"0.0.0.0:7070", NULL, NULL, "/tokens.yaml", false, true, false},
		{"0.0.0.0:7070", NULL, NULL, NULL, true, true, false},
		{"127.0.0.1", NULL, NULL, NULL, false, false, false},
		{"[::1]", NULL, NULL, NULL, true, false, false},
		{"", NULL, NULL, NULL, true, false, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct server server = {.token = (char *)(uintptr_t)cases[i].token,
					.options = {.listen = cases[i].listen,
						    .tls_client_ca_file = cases[i].client_ca,
						    .tokens_file = cases[i].tokens,
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

/* ---- a file of tokens ---- */

struct tokens_fixture {
	char path[40];
	struct server server;
};

static void write_tokens(const char *path, const char *more)
{
	static const struct {
		const char *token, *rest;
	} rows[] = {
		{"t-agent", "role: agent, tenants: [team-a]"},
		{"t-read-a", "role: read, tenants: [team-a]"},
		{"t-read-ab", "role: read, tenants: [team-a, team-b]"},
		{"t-all", "role: admin, tenants: '*'"},
		{"t-old", "role: admin, tenants: '*', expires: 2020-01-01T00:00:00Z"},
		{"t-none", "role: [write, read]"},
	};
	_cleanup_(buffer_release) struct buffer text = {.max = MIB};
	uint8_t hash[TOKEN_HASH_BYTES];
	buffer_append_string(&text, "tokens:\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		token_hash(bytes_of_string(rows[i].token), hash);
		buffer_printf(&text, "- {name: %s, %s, hash: 'sha256:", rows[i].token + 2, rows[i].rest);
		text_append_hex(&text, (struct bytes){hash, sizeof(hash)});
		buffer_append_string(&text, "'}\n");
	}
	buffer_append_string(&text, more);
	assert_int_equal(io_write_file(path, text.data, text.len, 0600, NULL), 0);
}

static void open_tokens(struct tokens_fixture *fixture, bool tenants)
{
	*fixture = (struct tokens_fixture){.path = "/tmp/wick-tokens-XXXXXX"};
	int fd = mkstemp(fixture->path);
	assert_true(fd >= 0);
	io_close(fd);
	write_tokens(fixture->path, "");
	fixture->server.options = (struct server_options){.tokens_file = fixture->path, .tenants = tenants};
	open_callers(&fixture->server);
}

static void close_tokens(struct tokens_fixture *fixture)
{
	access_close(&fixture->server);
	unlink(fixture->path);
	permission_of = 0;
	peer = 0;
}

#define AS(token) "\nAuthorization: Bearer " token

static void test_roles(void **state)
{
	static const struct access_case read[] = {{"GET /" AS("t-read-a"), 0},	  {"GET /" AS("t-agent"), 403},
						  {"GET /" AS("t-all"), 0},	  {"GET /" AS("t-none"), 0},
						  {"GET /" AS("t-old"), 401},	  {"GET /", 401},
						  {"GET /" AS("t-unknown"), 401}, {"GET /" AS(""), 401}};
	static const struct access_case write[] = {{"POST /" AS("t-read-a"), 403}, {"POST /" AS("t-agent"), 0},
						   {"POST /" AS("t-all"), 0},	   {"POST /" AS("t-none"), 0},
						   {"POST /" AS("t-old"), 401},	   {"POST /", 401}};
	static const struct access_case agent[] = {{"POST /" AS("t-read-a"), 403},
						   {"POST /" AS("t-agent"), 0},
						   {"POST /" AS("t-all"), 0},
						   {"POST /" AS("t-none"), 403},
						   {"POST /", 401}};
	static const struct access_case server_wide[] = {{"GET /" AS("t-read-a"), 403},
							 {"GET /" AS("t-read-ab"), 403},
							 {"GET /" AS("t-none"), 403},
							 {"GET /" AS("t-all"), 0},
							 {"GET /", 401}};
	static const struct access_case admin[] = {
		{"POST /" AS("t-read-a"), 403}, {"POST /" AS("t-agent"), 403}, {"POST /" AS("t-all"), 0}};
	static const struct access_case open[] = {{"GET /healthz", 0}, {"GET /healthz" AS("t-unknown"), 0}};
	struct tokens_fixture fixture;
	(void)state;
	open_tokens(&fixture, true);
	permission_of = PERMIT_READ;
	CHECK(&fixture.server, read);
	permission_of = PERMIT_WRITE;
	CHECK(&fixture.server, write);
	permission_of = PERMIT_AGENT;
	CHECK(&fixture.server, agent);
	permission_of = PERMIT_READ_SERVER;
	CHECK(&fixture.server, server_wide);
	permission_of = PERMIT_ADMIN;
	CHECK(&fixture.server, admin);
	permission_of = PERMIT_OPEN;
	CHECK(&fixture.server, open);
	close_tokens(&fixture);
}

/* The header chooses among one's own, and what was chosen is what handlers see. */
static void check_tenant(const struct server *server, const char *head, const char *wanted)
{
	struct net_request request;
	struct net_response response;
	test_request_make(&request, head, (struct bytes){0});
	request.permission = PERMIT_READ;
	request.peer = ++other_peer;
	net_response_init(&response);
	bool passes = access_authorize((void *)(uintptr_t)server, &request, &response);
	const char *got = passes ? tenant_name_of_request(&request) : "refused";
	if (strcmp(got ? got : "(none)", wanted) != 0)
		fail_msg("%s\n: %s, not %s", head, got ? got : "(none)", wanted);
	net_response_release(&response);
	request_release(&request);
}

static void test_tenants(void **state)
{
	static const struct access_case cases[] = {
		{"GET /" AS("t-read-a") "\nX-Scope-OrgID: team-b", 403},
		{"GET /" AS("t-read-a") "\nX-Scope-OrgID: ", 403},
		{"GET /" AS("t-read-a") "\nX-Scope-OrgID: anonymous", 403},
		{"GET /" AS("t-read-a") "\nX-Scope-OrgID: team-a|team-b", 403},
		{"GET /" AS("t-read-a") "\nX-Scope-OrgID: *", 403},
		{"GET /" AS("t-read-ab"), 400},
		{"GET /" AS("t-none") "\nX-Scope-OrgID: team-a", 403},
	};
	struct tokens_fixture fixture;
	char long_one[400] = "GET /" AS("t-all") "\nX-Scope-OrgID: ";
	struct net_response response;
	(void)state;
	open_tokens(&fixture, true);
	CHECK(&fixture.server, cases);
	check_tenant(&fixture.server, "GET /" AS("t-read-a"), "team-a");
	check_tenant(&fixture.server, "GET /" AS("t-read-a") "\nX-Scope-OrgID: team-a", "team-a");
	check_tenant(&fixture.server, "GET /" AS("t-read-ab") "\nX-Scope-OrgID: team-b", "team-b");
	/* One header is looked at, and no other way to say it: the second is of no use. */
	check_tenant(&fixture.server, "GET /" AS("t-read-a") "\nX-Scope-OrgID: team-a\nX-Scope-OrgID: team-b", "team-a");
	check_tenant(&fixture.server, "GET /" AS("t-none"), "anonymous");
	check_tenant(&fixture.server, "GET /" AS("t-all"), "(none)");
	check_tenant(&fixture.server, "GET /" AS("t-all") "\nX-Scope-OrgID: whatever", "whatever");
	memset(long_one + strlen(long_one), 'a', sizeof(long_one) - strlen(long_one) - 1);
	net_response_init(&response);
	assert_int_equal(authorize(&fixture.server, long_one, &response), 400);
	net_response_release(&response);
	close_tokens(&fixture);
}

/* A token for a tenant on a server without tenants: neither all of the data nor none. */
static void test_tenants_without(void **state)
{
	struct server server = {.options.tokens_file = "/tmp/wick-tokens-unit"};
	struct error err = {0};
	(void)state;
	write_tokens(server.options.tokens_file, "");
	assert_int_equal(access_open(&server, &err), -EINVAL);
	assert_non_null(strstr(err.message, "this server has none"));
	access_close(&server);
	unlink(server.options.tokens_file);
	assert_int_equal(access_open(&server, &err), -ENOENT);
}

static void wait_for_status(struct server *server, const char *head, int status)
{
	struct net_response response;
	net_response_init(&response);
	for (unsigned i = 0; i < 1500 && authorize(server, head, &response) != status; i++)
		usleep(10000);
	assert_int_equal(authorize(server, head, &response), status);
	net_response_release(&response);
}

/* Another file is in use a second later, a wrong one never. */
static void test_reload(void **state)
{
	struct tokens_fixture fixture;
	struct callers_stats stats;
	(void)state;
	open_tokens(&fixture, true);
	wait_for_status(&fixture.server, "GET /" AS("t-read-a"), 0);
	write_tokens(fixture.path, "- {name: broken");
	for (unsigned i = 0; i < 1500; i++) {
		callers_get_stats(fixture.server.callers, &stats);
		if (stats.reload_failures)
			break;
		usleep(10000);
	}
	assert_int_equal(stats.reload_failures, 1);
	assert_false(stats.is_current);
	wait_for_status(&fixture.server, "GET /" AS("t-read-a"), 0);
	assert_int_equal(io_write_file(fixture.path, "tokens: []\n", 11, 0600, NULL), 0);
	wait_for_status(&fixture.server, "GET /" AS("t-read-a"), 401);
	callers_get_stats(fixture.server.callers, &stats);
	assert_true(stats.is_current && stats.reloads == 1 && stats.tokens == 0);
	write_tokens(fixture.path, "");
	wait_for_status(&fixture.server, "GET /" AS("t-read-a"), 0);
	close_tokens(&fixture);
}

/* Wrong tokens from one address: later ones are not looked at, but who was there before goes on. */
static void test_delays(void **state)
{
	struct tokens_fixture fixture;
	struct net_response response;
	(void)state;
	open_tokens(&fixture, true);
	net_response_init(&response);
	peer = 7;
	assert_int_equal(authorize(&fixture.server, "GET /" AS("t-read-a"), &response), 0);
	for (unsigned i = 0; i < ATTEMPTS_FREE; i++)
		assert_int_equal(authorize(&fixture.server, "GET /" AS("t-guess"), &response), 401);
	assert_int_equal(authorize(&fixture.server, "GET /" AS("t-guess"), &response), 429);
	assert_true(has_header(&response, "Retry-After: 1\r\n"));
	assert_int_equal(authorize(&fixture.server, "GET /" AS("t-all"), &response), 429); /* right, but it is not looked at */
	assert_int_equal(authorize(&fixture.server, "GET /" AS("t-read-a"), &response), 0);
	assert_int_equal(authorize(&fixture.server, "GET /", &response), 401); /* browsers ask without one first */
	peer = 8;
	assert_int_equal(authorize(&fixture.server, "GET /" AS("t-all"), &response), 0);
	net_response_release(&response);
	close_tokens(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hosts),		cmocka_unit_test(test_origins), cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_sites),		cmocka_unit_test(test_users),	cmocka_unit_test(test_users_apart),
		cmocka_unit_test(test_pages),		cmocka_unit_test(test_listen),	cmocka_unit_test(test_further_ports),
		cmocka_unit_test(test_changes),		cmocka_unit_test(test_roles),	cmocka_unit_test(test_tenants),
		cmocka_unit_test(test_tenants_without), cmocka_unit_test(test_reload),	cmocka_unit_test(test_delays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
