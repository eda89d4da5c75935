/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests and the fuzzer: a server without sockets, threads or a clock of its own. A test hands bytes to a connection, looks
 * at the bytes that come out, and moves the time by hand.
 */
#ifndef WICK_NET_MEMORY_TEST_H
#define WICK_NET_MEMORY_TEST_H

#include "net/net_int.h"

struct memory_peer {
	struct net_connection connection; /* first */
	struct buffer out;
	bool slow; /* writes complete only in memory_write_done() */
	bool write_due, shut, closed, paused;
	size_t write_len;
};

static inline bool memory_write(struct net_connection *connection, const struct bytes *parts, size_t count)
{
	struct memory_peer *peer = (struct memory_peer *)connection;
	peer->write_len = 0;
	for (size_t i = 0; i < count; i++) {
		peer->write_len += parts[i].len;
		if (buffer_append(&peer->out, parts[i].data, parts[i].len) < 0)
			buffer_truncate(&peer->out, peer->out.len); /* of memory: later ones arrive */
	}
	peer->write_due = peer->slow;
	return !peer->slow;
}

static inline size_t memory_queued(const struct net_connection *connection)
{
	const struct memory_peer *peer = (const struct memory_peer *)connection;
	return peer->write_due ? peer->write_len : 0;
}

static inline void memory_pause(struct net_connection *connection, bool paused)
{
	((struct memory_peer *)connection)->paused = paused;
}

static inline void memory_shutdown(struct net_connection *connection)
{
	((struct memory_peer *)connection)->shut = true;
}

static inline void memory_close(struct net_connection *connection)
{
	((struct memory_peer *)connection)->closed = true;
}

static const struct net_transport memory_transport = {
	.write = memory_write,
	.queued = memory_queued,
	.unread = memory_queued,
	.pause = memory_pause,
	.shutdown = memory_shutdown,
	.close = memory_close,
};

static inline void memory_notify(void *context)
{
}

static inline int memory_server_start(struct net_server *server, const struct net_server_options *options)
{
	int r = server_init(server, options, 0, memory_notify, NULL, NULL);
	server->fake_now_ns = 1000 * NS_PER_S;
	return r;
}

static uint64_t memory_address; /* of those that connect */

static inline void memory_connect(struct memory_peer *peer, struct net_server *server)
{
	*peer = (struct memory_peer){0};
	buffer_init(&peer->out, GIB);
	connection_init(&peer->connection, server, &memory_transport, true);
	peer->connection.peer = memory_address;
	if (connection_enlist(&peer->connection) < 0)
		connection_close(&peer->connection);
}

static inline void memory_write_done(struct memory_peer *peer)
{
	bool due = peer->write_due;
	peer->write_due = false;
	if (due)
		connection_written(&peer->connection, peer->closed ? -1 : 0);
}

/* Runs handlers until nothing moves. */
static inline void memory_run(struct memory_peer *peer)
{
	struct net_server *server = peer->connection.server;
	size_t before;
	do {
		before = peer->out.len;
		workers_run_here(&server->workers);
	} while (server->workers.fast.count > 0 || peer->out.len > before);
}

static inline void memory_send(struct memory_peer *peer, const void *data, size_t len)
{
	if (len > 0)
		connection_input(&peer->connection, (struct bytes){(const uint8_t *)data, len});
	memory_run(peer);
}

static inline void memory_disconnect(struct memory_peer *peer)
{
	connection_close(&peer->connection);
	memory_write_done(peer);
	connection_release(&peer->connection);
	buffer_release(&peer->out);
}

/* Also collects the jobs of requests whose connection has gone. */
static inline void memory_server_end(struct net_server *server)
{
	while (server->workers.out > 0)
		workers_run_here(&server->workers);
	server_release(server);
}

static inline void memory_wait(struct memory_peer *peer, int64_t seconds)
{
	peer->connection.server->fake_now_ns += seconds * NS_PER_S;
	server_check_time(peer->connection.server);
	memory_run(peer);
}

#endif
