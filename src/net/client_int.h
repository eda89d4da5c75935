/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: the client. HTTP/1.1 and gRPC calls have a connection each, both to the same address. */
#ifndef WICK_NET_CLIENT_INT_H
#define WICK_NET_CLIENT_INT_H

#include "net/net_int.h"

#define CLIENT_POLL_MS	  100 /* how often `cancel` is looked at */
#define CLIENT_READ_BYTES (64 * KIB)

struct client_http2;
struct net_client {
	char *url, *token;
	char *tenant;
	struct net_address address;
	char prefix[1024];
	char authority[NET_NAME_MAX + 8]; /* "host:port", as the Host header wants it */
	int64_t timeout_ns, deadline_ns;  /* of one call; of the call under way, on the monotonic clock */
	size_t response_max;
	const bool *cancel;
	int fd; /* HTTP/1.1; -1 = none */
	struct client_http2 *http2;
	uint8_t read_buffer[CLIENT_READ_BYTES];
};

/* Waits for any of `events`; returns what is ready, -ETIMEDOUT or -ECANCELED. */
int client_wait(struct net_client *client, int fd, short events, struct error *err);
/* Returns a non-blocking descriptor. */
int client_connect(struct net_client *client, struct error *err);
/* Sends some: how much, 0 = would block, negative errno. */
ssize_t client_send(int fd, const void *data, size_t len);
/* Receives some: how much, -EAGAIN = nothing there, -ECONNRESET also at end of file. */
ssize_t client_receive(struct net_client *client, int fd);
bool client_is_token(const char *text);	      /* a method or a field name */
bool client_is_field_value(const char *text); /* no control characters */
bool client_is_path(const char *text);	      /* '/' and nothing that must be encoded */
int client_failed(const struct net_client *client, int code, const char *what, struct error *err);
void client_http2_close(struct net_client *client);

#endif
