/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: blocking calls over non-blocking sockets, so that every wait can end by time or by `cancel`. It shares the
 * parsers and the framing with the server, but not the event loop: its callers are threads that have nothing else to do.
 */
#include "net/client_int.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/alloc.h"

#define TIMEOUT_NS_DEFAULT (30 * NS_PER_S)

int client_failed(const struct net_client *client, int code, const char *what, struct error *err)
{
	char time[TIME_TEXT_MAX];
	if (code == -ETIMEDOUT)
		return error_set(err, code, "%s %s: no response within %s", what, client->url,
				 time_format_duration(client->timeout_ns, time));
	if (code == -ECANCELED)
		return error_set(err, code, "%s %s: cancelled", what, client->url);
	if (code == -ECONNREFUSED)
		return error_set(err, code, "%s %s: connection refused; is the server running there?", what, client->url);
	return error_set_errno(err, code, "%s %s", what, client->url);
}

int client_wait(struct net_client *client, int fd, short events, struct error *err)
{
	for (;;) {
		if (cancel_requested(client->cancel))
			return client_failed(client, -ECANCELED, "request to", err);
		int64_t left_ms = (client->deadline_ns - time_monotonic_ns() + NS_PER_MS - 1) / NS_PER_MS;
		if (left_ms <= 0)
			return client_failed(client, -ETIMEDOUT, "request to", err);
		int64_t slice = client->cancel && left_ms > client->cancel_ms ? client->cancel_ms : left_ms;
		struct pollfd poll_fd = {.fd = fd, .events = events};
		int n = poll(&poll_fd, 1, slice > INT32_MAX ? INT32_MAX : (int)slice);
		if (n > 0)
			return poll_fd.revents;
		if (n < 0 && errno != EINTR)
			return client_failed(client, -errno, "cannot wait for", err);
	}
}

bool client_is_path(const char *text)
{
	if (!text || *text != '/')
		return false;
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f || *text == '#')
			return false;
	return true;
}

static void set_authority(struct net_client *client)
{
	const struct net_address *address = &client->address;
	bool v6 = strchr(address->host, ':');
	if (address->port == (address->tls ? 443 : 80))
		snprintf(client->authority, sizeof(client->authority), v6 ? "[%s]" : "%s", address->host);
	else
		snprintf(client->authority, sizeof(client->authority), v6 ? "[%s]:%u" : "%s:%u", address->host, address->port);
}

/* In messages the socket stands for the URL. */
static int set_unix_path(struct net_client *client, const char *path, struct error *err)
{
	_cleanup_(buffer_release) struct buffer url = {.max = 256};
	if (!*path || strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		return error_set(err, -EINVAL, "bad socket path \"%.150s\": at most %zu bytes", path,
				 sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
	buffer_printf(&url, "unix://%s", path);
	const char *text = buffer_string(&url);
	mem_free(client->url);
	client->url = text ? mem_strdup(text) : NULL;
	client->unix_path = mem_strdup(path);
	return client->unix_path ? 0 : error_nomem(err);
}

/* 1 = there is a proxy on the way. */
static int set_proxy(struct net_client *client, const struct net_client_options *options, struct error *err)
{
	if (options->unix_path || (options->direct && !options->proxy_url))
		return 0;
	if (!options->proxy_url)
		return proxy_from_environment(&client->address, &client->proxy, err);
	if (options->no_proxy && proxy_is_bypassed(&client->address, options->no_proxy))
		return 0;
	int r = proxy_parse(PROXY_URL_OPTION, options->proxy_url, &client->proxy, err);
	return r < 0 ? r : 1;
}

static int set_target(struct net_client *client, const struct net_client_options *options, struct error *err)
{
	int r = address_parse_url(options->url, &client->address, client->prefix, sizeof(client->prefix), err);
	if (r < 0)
		return r;
	set_authority(client);
	if (options->token && !http_is_field_value(options->token))
		return error_set(err, -EINVAL, "the token has a control character (a newline at the end of its file?)");
	client->url = mem_strdup(options->url);
	client->keep_header = options->keep_header;
	if (options->tenant && !http_is_field_value(options->tenant))
		return error_set(err, -EINVAL, "the tenant's name has a control character");
	client->token = options->token && !options->token_file ? mem_strdup(options->token) : NULL;
	client->tenant = options->tenant ? mem_strdup(options->tenant) : NULL;
	r = options->token_file ? client_token_open(client, options->token_file, err) : 0;
	if (r == 0 && options->unix_path)
		r = set_unix_path(client, options->unix_path, err);
	if (r < 0)
		return r;
	bool whole = client->url && (client->token || !options->token) && (client->tenant || !options->tenant);
	return whole ? 0 : error_nomem(err);
}

int net_client_new(const struct net_client_options *options, struct net_client **ret, struct error *err)
{
	struct net_client *client = mem_zalloc(sizeof(*client));
	if (!client)
		return error_nomem(err);
	client->channel.fd = -1;
	client->tls = options->tls;
	net_client_set_timeout(client, options->timeout_ns);
	client->response_max = options->response_max ? options->response_max : NET_RESPONSE_MAX;
	client->cancel = options->cancel;
	client->cancel_ms = options->cancel_ms ? options->cancel_ms : CLIENT_POLL_MS;
	client->keep_encoded = options->keep_encoded;
	client->budget = options->budget;
	client->is_shared = options->shared && !options->tls;
	int r = set_target(client, options, err);
	if (r == 0)
		r = set_proxy(client, options, err);
	client->has_proxy = r == 1;
	if (r < 0) {
		net_client_free(client);
		return r;
	}
	*ret = client;
	return 0;
}

struct net_client *net_client_free(struct net_client *client)
{
	if (!client)
		return NULL;
	client_http2_close(client);
	channel_close(&client->channel);
	if (client->budget)
		atomic_fetch_add_explicit(&client->budget->left, client->charged, memory_order_relaxed);
	mem_free(client->url);
	mem_free(client->token);
	mem_free(client->token_file);
	mem_free(client->tenant);
	mem_free(client->unix_path);
	net_client_clear_headers(client);
	return mem_free(client);
}

void net_client_set_timeout(struct net_client *client, int64_t timeout_ns)
{
	client->timeout_ns = timeout_ns > 0 ? timeout_ns : TIMEOUT_NS_DEFAULT;
}

void net_client_response_release(struct net_client_response *response)
{
	buffer_release(&response->body);
}

void client_reset_response(struct net_client_response *response)
{
	response->status = 0;
	response->grpc_status = -1;
	response->location[0] = response->encoding[0] = response->symbols[0] = response->partial[0] = response->kept[0] = '\0';
	response->message[0] = response->content_type[0] = '\0';
	response->retry_after_ns = 0;
	response->never_retry = false;
	buffer_clear(&response->body);
}
