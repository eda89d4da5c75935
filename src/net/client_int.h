/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: the client. HTTP/1.1 and gRPC calls have a connection each, both to the same address. */
#ifndef WICK_NET_CLIENT_INT_H
#define WICK_NET_CLIENT_INT_H

#include "base/cancel.h"
#include "base/io.h"
#include "net/net_int.h"
#include "net/proxy_int.h"

#define CLIENT_POLL_MS	  100 /* how often `cancel` is looked at */
#define CLIENT_READ_BYTES (64 * KIB)

struct ssl_st;
struct client_channel {
	int fd;		    /* -1 = none */
	struct ssl_st *tls; /* NULL = in the clear */
	int fault;	    /* negative errno of the socket, or -EPROTO of TLS: no more can be sent */
	bool eof;	    /* of the socket */
	bool wants_write;   /* TLS has something of its own to send before it reads on */
};

struct client_http2;
struct net_client {
	char *url, *token;
	char *token_file; /* NULL = the token stays as it is */
	struct io_stamp token_stamp;
	int64_t token_looked_ns; /* when the stamp was taken, monotonic */
	char *tenant;
	char *unix_path; /* NULL = by address */
	const char *keep_header;
	struct {
		char *name, *value; /* the name in lower case */
	} headers[NET_CLIENT_HEADERS_MAX];
	size_t header_count;
	struct net_address address;
	struct net_proxy proxy;
	bool has_proxy;
	char prefix[1024];
	char authority[NET_NAME_MAX + 8];     /* "host[:port]", as the Host header wants it */
	struct net_tls *tls;		      /* borrowed; NULL = none was given, and none has been needed */
	char tls_peer[2 * NET_NAME_MAX + 16]; /* whose sessions are resumed */
	int64_t timeout_ns, deadline_ns;      /* of one call; of the call under way, on the monotonic clock */
	size_t response_max;
	const atomic_bool *cancel;
	unsigned cancel_ms;
	bool keep_encoded, is_shared;
	struct net_budget *budget;
	int64_t charged;	       /* taken from the budget */
	struct client_channel channel; /* HTTP/1.1 */
	struct client_http2 *http2;
	uint8_t read_buffer[CLIENT_READ_BYTES];
};

/* Waits for any of `events`; returns what is ready, -ETIMEDOUT or -ECANCELED. */
int client_wait(struct net_client *client, int fd, short events, struct error *err);
bool client_is_path(const char *text); /* '/' and nothing that must be encoded */
int client_failed(const struct net_client *client, int code, const char *what, struct error *err);
/* Before each try. */
void client_reset_response(struct net_client_response *response);
/* Fills retry_after_ns and never_retry if the header, its name in lower case, is one that says. */
void client_take_retry(struct net_client_response *response, struct bytes name, struct bytes value);
void client_http2_close(struct net_client *client);

/* ---- client_token.c ---- */
int client_token_open(struct net_client *client, const char *path, struct error *err);
/* Before each call. */
void client_token_renew(struct net_client *client);

/* ---- client_pool.c: connections of HTTP/1.1 that clients share ---- */
/* If it has none and shares: one that another has left, which may have been closed meanwhile. */
void client_pool_take(struct net_client *client);
void client_pool_put(struct net_client *client); /* after a call: its connection, if it has one and shares */

/* ---- client_tunnel.c ---- */
/* Has the proxy, which the channel is connected to, connect it to the server. */
int client_open_tunnel(struct net_client *client, struct client_channel *channel, struct error *err);
/* What a 407 means. */
int client_proxy_unauthorized(const struct net_client *client, struct error *err);

/* ---- client_channel.c ---- */
void client_set_tls_peer(struct net_client *client); /* tls_peer */
/* Connects, through a proxy if there is one, and shakes hands over the protocol if the URL is https. */
int channel_open(struct net_client *client, struct client_channel *channel, bool http2, struct error *err);
void channel_close(struct client_channel *channel);
/* Like client_wait(). POLLIN means that receiving is worth a try, not that it will give something. */
int channel_wait(struct net_client *client, struct client_channel *channel, short events, struct error *err);
/* Sends some: how much, 0 = would block, negative errno. -EPROTO: *err says what is wrong with TLS. more: the rest of a message
 * follows at once, so that both may go in one packet, and the server need not wake up twice. */
ssize_t channel_send(struct net_client *client, struct client_channel *channel, const void *data, size_t len, bool more,
		     struct error *err);
/* Receives some into client->read_buffer: how much, -EAGAIN = nothing there, -ECONNRESET also at the end, -ECONNABORTED = an
 * end that TLS did not announce, -EPROTO with *err. */
ssize_t channel_receive(struct net_client *client, struct client_channel *channel, struct error *err);
/* Without waiting: bytes, an end or a fault. */
bool channel_has_input(struct net_client *client, struct client_channel *channel);

#endif
