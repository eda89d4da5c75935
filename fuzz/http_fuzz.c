/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of HTTP/1.1, HTTP/2 and gRPC, without sockets, threads or a clock.
 *
 *   byte 0   1 = the HTTP/2 preface and an empty SETTINGS come first, 2 = writes complete only when told,
 *            4 = the rest is a list of steps, not plain input; 8 = the rest is a URL, a target, an address, a proxy and
 *            NO_PROXY to parse
 *   plain    byte 1 = length of the pieces in which the rest arrives, workers run after each
 *   steps    (byte & 3, byte >> 2): 0 = that many bytes of input follow (63: all), 1 = workers run, 2 = the write completes,
 *            3 = that many seconds pass (63: end of file)
 */
#include <assert.h>

#include "net/memory_test.h"
#include "net/proxy_int.h"
#define TEST_LONGEST 1000000 /* so long an answer shows all that there is */
#include "net/routes_test.h"

static const struct net_route *fuzz_routes(void)
{
	static struct net_route routes[sizeof(test_routes) / sizeof(test_routes[0])];
	if (routes[0].path)
		return routes;
	size_t n = 0;
	/* Those that take their time would hide what we look for. */
	for (const struct net_route *route = test_routes; route->path; route++)
		if (route->handler != test_slow && route->handler != test_big && route->stream != &test_many)
			routes[n++] = *route;
	return routes;
}

static void plain_input(struct memory_peer *peer, const uint8_t *data, size_t len)
{
	size_t piece = len > 0 && data[0] ? data[0] : len;
	for (size_t at = 1; at < len && !peer->closed; at += piece) {
		memory_send(peer, data + at, len - at < piece ? len - at : piece);
		memory_write_done(peer);
		memory_run(peer);
	}
}

static size_t step(struct memory_peer *peer, const uint8_t *data, size_t len)
{
	size_t n = data[0] >> 2, take = n == 63 || n > len - 1 ? len - 1 : n;
	switch (data[0] & 3) {
	case 0:
		if (take > 0)
			connection_input(&peer->connection, (struct bytes){data + 1, take});
		return 1 + take;
	case 1: memory_run(peer); return 1;
	case 2: memory_write_done(peer); return 1;
	default:
		if (n == 63)
			connection_eof(&peer->connection);
		else
			memory_wait(peer, (int64_t)n);
		return 1;
	}
}

static void parse_names(const uint8_t *data, size_t len)
{
	struct buffer text;
	struct net_address address;
	struct net_request request;
	char prefix[64];
	buffer_init(&text, len + 1);
	buffer_append(&text, data, len);
	const char *string = buffer_string(&text);
	address_parse(string, &address, NULL);
	address_parse_url(string, &address, prefix, sizeof(prefix), NULL);
	struct net_proxy proxy;
	if (proxy_parse("http_proxy", string, &proxy, NULL) == 0)
		assert(proxy_is_bypassed(&proxy.address, "*"));
	address = (struct net_address){.host = "a.example.com", .port = 80};
	proxy_is_bypassed(&address, string);
	address = (struct net_address){.host = "2001:db8::1", .port = 80};
	proxy_is_bypassed(&address, string);
	request_init(&request, 1024);
	if (request_parse_target(&request, (struct bytes){data, len}, NULL) == 0)
		assert(net_request_path(&request)[0] == '/');
	for (size_t i = 0; i < request.query.count; i++)
		assert(net_request_query(&request, request.query.items[i].name));
	request_release(&request);
	buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char opening[] = HTTP2_PREFACE "\0\0\0\4\0\0\0\0\0";
	struct net_server server;
	struct memory_peer peer;
	struct net_server_options options = {
		.routes = fuzz_routes(), .authorize = test_authorize, .header_max = 1024, .body_max = 4096};
	if (len == 0)
		return 0;
	if (data[0] & 8) {
		parse_names(data + 1, len - 1);
		return 0;
	}
	if (memory_server_start(&server, &options) < 0)
		return 0;
	memory_connect(&peer, &server);
	peer.slow = data[0] & 2;
	if (data[0] & 1)
		memory_send(&peer, opening, sizeof(opening) - 1);
	if (data[0] & 4)
		for (size_t at = 1; at < len && !peer.closed;)
			at += step(&peer, data + at, len - at);
	else
		plain_input(&peer, data + 1, len - 1);
	memory_disconnect(&peer);
	memory_server_end(&server);
	assert(server.requests_open == 0 && server.body_bytes == 0 && server.answer_bytes == 0);
	return 0;
}
