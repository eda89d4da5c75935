/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: a connection on a socket of libuv (server.c), and TLS between the two (server_tls.c). */
#ifndef WICK_NET_SOCKET_INT_H
#define WICK_NET_SOCKET_INT_H

#include <uv.h>

#include "net/net_int.h"

struct socket_tls;
struct net_socket {
	struct net_connection connection; /* first */
	uv_tcp_t tcp;
	uv_write_t write;
	uv_shutdown_t shutdown;
	struct socket_tls *tls; /* NULL = in the clear */
	bool counted;		/* a real connection, not a rejected one */
};

static inline struct net_socket *socket_of(const struct net_connection *connection)
{
	return (struct net_socket *)connection;
}

/* ---- server.c ---- */
size_t socket_unread(const struct net_connection *connection);
void socket_pause(struct net_connection *connection, bool paused);
void socket_shutdown(struct net_connection *connection);
void socket_close(struct net_connection *connection);

/* ---- server_tls.c ---- */
extern const struct net_transport tls_transport;
int socket_tls_new(struct net_socket *socket, struct net_tls *tls);
/* The socket is closed. True: a worker has its TLS state; what is left of the socket is freed when that comes back. */
bool socket_tls_is_busy(struct net_socket *socket);
void socket_tls_free(struct net_socket *socket);
/* What came from the peer. Its end may come without TLS's goodbye: requests say themselves how long they are. */
void socket_tls_input(struct net_socket *socket, struct bytes data);

#endif
