/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tunnel through a proxy (RFC 9110, 9.3.6): what https and HTTP/2 need, whose bytes are nothing to a proxy.
 *
 * The proxy's answer is looked at in the socket before it is taken off it, since what follows its head belongs to the server,
 * which may speak first. TLS and HTTP/2 then begin on a socket that looks as if the server were at its other end.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "net/client_int.h"
#include "net/http1_int.h"

#define ANSWER_BYTES_MAX (16 * KIB) /* of the proxy's, 1xx before it included */

struct tunnel {
	llhttp_t parser;
	char reason[100];
	size_t reason_len, len;
	bool complete;
};

/* It is shown to people. */
static int on_status(llhttp_t *parser, const char *data, size_t len)
{
	struct tunnel *tunnel = parser->data;
	for (size_t i = 0; i < len && tunnel->reason_len < sizeof(tunnel->reason) - 1; i++)
		tunnel->reason[tunnel->reason_len++] = data[i] >= ' ' && data[i] < 0x7f ? data[i] : '?';
	return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
	struct tunnel *tunnel = parser->data;
	tunnel->complete = parser->status_code / 100 != 1;
	if (!tunnel->complete)
		tunnel->reason_len = 0;
	return tunnel->complete ? HPE_PAUSED : 0;
}

static const llhttp_settings_t settings = {
	.on_protocol = http1_on_protocol,
	.on_status = on_status,
	.on_headers_complete = on_headers_complete,
};

int client_proxy_unauthorized(const struct net_client *client, struct error *err)
{
	return error_set(err, -EACCES, "the proxy %s %s for %s", client->proxy.name,
			 client->proxy.authorization[0] ? "rejects the given user and password for the connection"
							: "requires a user and password (http://USER:PASSWORD@HOST:PORT)",
			 client->url);
}

static int check_response(const struct net_client *client, const struct tunnel *tunnel, struct error *err)
{
	unsigned status = tunnel->parser.status_code;
	if (status / 100 == 2)
		return 0;
	if (status == 407)
		return client_proxy_unauthorized(client, err);
	return error_set(err, status == 403 ? -EACCES : -EHOSTUNREACH, "the proxy %s does not connect to %s: %u %.*s",
			 client->proxy.name, client->url, status, (int)tunnel->reason_len, tunnel->reason);
}

static int send_request(struct net_client *client, struct client_channel *channel, struct error *err)
{
	char head[2 * NET_NAME_MAX + sizeof(client->proxy.authorization) + 200], to[NET_NAME_MAX + 16];
	const struct net_address *address = &client->address;
	const char *authorization = client->proxy.authorization;
	snprintf(to, sizeof(to), strchr(address->host, ':') ? "[%s]:%u" : "%s:%u", address->host, address->port);
	int len = snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: wick/%s\r\n%s%s%s\r\n", to, to,
			   WICK_VERSION, *authorization ? "Proxy-Authorization: " : "", authorization,
			   *authorization ? "\r\n" : "");
	for (size_t at = 0; at < (size_t)len;) {
		ssize_t n = channel_send(client, channel, head + at, (size_t)len - at, false, err);
		if (n < 0)
			return client_failed(client, (int)n, "cannot send to", err);
		at += (size_t)n;
		int ready = at < (size_t)len ? client_wait(client, channel->fd, POLLOUT, err) : 0;
		if (ready < 0)
			return ready;
	}
	return 0;
}

/* Some of the answer: 0 = there may be more, negative = none that is any use. */
static int read_some(struct net_client *client, struct client_channel *channel, struct tunnel *tunnel, struct error *err)
{
	ssize_t n = recv(channel->fd, client->read_buffer, ANSWER_BYTES_MAX, MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return client_failed(client, -errno, "no response from", err);
	if (n == 0)
		return error_set(err, -ECONNRESET, "it closed the connection without a response");
	llhttp_errno_t code = llhttp_execute(&tunnel->parser, (const char *)client->read_buffer, (size_t)n);
	if (code != HPE_OK && !tunnel->complete)
		return error_set(err, -EPROTO, "bad response: %s", llhttp_get_error_reason(&tunnel->parser));
	size_t taken = http1_taken(&tunnel->parser, code, client->read_buffer, (size_t)n);
	tunnel->len += taken;
	if (tunnel->len > ANSWER_BYTES_MAX)
		return error_set(err, -EPROTO, "bad response: its header is larger than %d KiB", (int)(ANSWER_BYTES_MAX / KIB));
	ssize_t got = recv(channel->fd, client->read_buffer, taken, 0);
	return got == (ssize_t)taken ? 0 : client_failed(client, got < 0 ? -errno : -EIO, "no response from", err);
}

int client_open_tunnel(struct net_client *client, struct client_channel *channel, struct error *err)
{
	struct tunnel tunnel = {0};
	llhttp_init(&tunnel.parser, HTTP_RESPONSE, &settings);
	tunnel.parser.data = &tunnel;
	int r = send_request(client, channel, err);
	while (r == 0 && !tunnel.complete) {
		r = client_wait(client, channel->fd, POLLIN, err);
		if (r >= 0)
			r = read_some(client, channel, &tunnel, err);
	}
	return r < 0 ? error_prefix(err, r, "proxy %s", client->proxy.name) : check_response(client, &tunnel, err);
}
