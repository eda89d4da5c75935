/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may talk to the server.
 *
 * On loopback without a token every local user may; what must be kept out is the web: a page that the user visits can make the
 * browser send requests to 127.0.0.1, and with DNS rebinding even read the answers. So the Host header must name this machine's
 * loopback (rebinding arrives under the attacker's name), and a request with an Origin must come from the page served here.
 *
 * With a token every request needs it: "Authorization: Bearer TOKEN" from programs, or Basic with any user name and the token
 * as password, which browsers ask their user for. Pages of other sites may then make remote procedure calls with a bearer token
 * of their own (rpc.c). Health checks are open. Beyond loopback a token is required, or
 * certificates of clients, unless --insecure says otherwise.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "codec/base64.h"
#include "server/http/access.h"
#include "server/http/rpc.h"

static bool host_is_loopback(const char *host, size_t len)
{
	static const char *const names[] = {"localhost", "[::1]", "::1"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (len == strlen(names[i]) && strncasecmp(host, names[i], len) == 0)
			return true;
	if (len < 7 || strncmp(host, "127.", 4) != 0)
		return false;
	for (size_t i = 4; i < len; i++)
		if ((host[i] < '0' || host[i] > '9') && host[i] != '.')
			return false;
	return true;
}

/* The length of the host in "HOST[:PORT]". */
static size_t host_length(const char *authority)
{
	if (*authority == '[') {
		const char *close = strchr(authority, ']');
		return close ? (size_t)(close - authority) + 1 : strlen(authority);
	}
	return strcspn(authority, ":");
}

int access_check_options(struct server *server, struct error *err)
{
	const char *listen = server->options.listen;
	size_t len = host_length(listen);
	if (len >= sizeof(server->listen_host) || !listen[len])
		return error_set(err, -EINVAL, "cannot listen on '%.200s': expected ADDR:PORT, as in 127.0.0.1:7070", listen);
	memcpy(server->listen_host, listen, len);
	server->listen_host[len] = 0;
	server->loopback_only = host_is_loopback(listen, len);
	if (server->loopback_only || server->token || server->options.tls_client_ca_file || server->options.insecure)
		return 0;
	return error_set(err, -EINVAL,
			 "refusing to listen on %.200s, which other machines can reach, without a token: give --token-file "
			 "FILE (clients send it as a bearer token), --tls-client-ca FILE (clients need certificates), or "
			 "--insecure to allow everybody",
			 listen);
}

int access_check_listen(const struct server *server, const char *listen, struct error *err)
{
	size_t len = host_length(listen);
	if (!len || !listen[len])
		return error_set(err, -EINVAL, "cannot listen on '%.200s': expected ADDR:PORT, as in 127.0.0.1:4317", listen);
	if (server->loopback_only && !host_is_loopback(listen, len))
		return error_set(err, -EINVAL,
				 "refusing to listen on %.200s, which other machines can reach, while %.200s is reachable from "
				 "this machine only: use an address that they can reach for --listen, too",
				 listen, server->options.listen);
	return 0;
}

/* Compares in a time that does not depend on where the first difference is. */
static bool token_equal(const char *given, size_t len, const char *token)
{
	size_t token_len = strlen(token);
	unsigned char difference = len != token_len;
	for (size_t i = 0; i < len; i++)
		difference |= (unsigned char)(given[i] ^ token[token_len ? i % token_len : 0]);
	return difference == 0;
}

/* The password of a Basic credential; false when malformed or too long. */
static bool basic_password(const char *text, char *out, size_t size)
{
	_cleanup_(buffer_release) struct buffer decoded = {.max = size};
	if (base64_decode(bytes_of_string(text), &decoded) < 0 || decoded.len >= size)
		return false;
	const uint8_t *colon = decoded.len ? memchr(decoded.data, ':', decoded.len) : NULL;
	if (!colon || memchr(decoded.data, 0, decoded.len))
		return false;
	snprintf(out, size, "%.*s", (int)(decoded.data + decoded.len - colon - 1), (const char *)colon + 1);
	return true;
}

static bool has_token(const struct server *server, const struct net_request *request)
{
	const char *header = net_request_header(request, "authorization");
	if (!header)
		return false;
	if (strncasecmp(header, "bearer ", 7) == 0)
		return token_equal(header + 7, strlen(header + 7), server->token);
	char password[1024];
	if (strncasecmp(header, "basic ", 6) == 0 && basic_password(header + 6, password, sizeof(password)))
		return token_equal(password, strlen(password), server->token);
	return false;
}

static bool refuse(struct net_response *response, int status, enum grpc_code code, const char *text)
{
	respond_error(response, status, text);
	response->grpc_status = code;
	snprintf(response->message, sizeof(response->message), "%s", text);
	return false;
}

static bool origin_is_ours(const char *origin, const char *host)
{
	const char *at = strstr(origin, "://");
	return at && strcasecmp(at + 3, host) == 0;
}

/*
 * A page of another site. With its user's help a browser remembers a password and sends it along by itself, whatever the page;
 * a bearer token only comes from the page's own code, which then knows it.
 */
static bool may_come_from_elsewhere(const struct server *server, const struct net_request *request)
{
	const char *header = net_request_header(request, "authorization");
	if (!server->token || !rpc_is_for_pages(net_request_path(request)))
		return false;
	if (strcmp(net_request_method(request), "OPTIONS") == 0)
		return true;
	return header && strncasecmp(header, "bearer ", 7) == 0 && has_token(server, request);
}

static void allow_origin(struct net_response *response, const char *origin)
{
	net_response_header(response, "Access-Control-Allow-Origin", origin);
	net_response_header(response, "Access-Control-Expose-Headers",
			    "Grpc-Status, Grpc-Message, Grpc-Encoding, Content-Encoding, Retry-After, X-Wick-Limit");
	net_response_header(response, "Vary", "Origin");
}

int access_may_change(const struct server *server, const struct net_request *request, struct error *err)
{
	if (server->token || net_request_is_loopback(request))
		return 0;
	return error_set(err, -EACCES,
			 "this changes stored data: a server without a token allows it from the same machine only");
}

bool access_authorize(void *context, const struct net_request *request, struct net_response *response)
{
	const struct server *server = context;
	const char *path = net_request_path(request);
	const char *host = net_request_header(request, "host");
	const char *origin = net_request_header(request, "origin");
	net_response_header(response, "X-Content-Type-Options", "nosniff"); /* stays on whatever is answered */
	if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0 || strcmp(path, "/ready") == 0)
		return true;
	if (server->loopback_only && host && !host_is_loopback(host, host_length(host)))
		return refuse(
			response, 403, GRPC_PERMISSION_DENIED,
			"this server accepts local host names only (localhost, 127.0.0.1, [::1]); the Host header has another");
	if (origin && host && !origin_is_ours(origin, host)) {
		if (!may_come_from_elsewhere(server, request))
			return refuse(response, 403, GRPC_PERMISSION_DENIED, "cross-site requests are rejected");
		allow_origin(response, origin);
		return true;
	}
	if (server->token && !has_token(server, request)) {
		net_response_header(response, "WWW-Authenticate", "Basic realm=\"wick\", charset=\"UTF-8\"");
		return refuse(response, 401, GRPC_UNAUTHENTICATED,
			      "a token is required: send it as 'Authorization: Bearer TOKEN', or as the password of Basic "
			      "authentication");
	}
	return true;
}
