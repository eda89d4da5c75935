/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection: finds out which protocol the peer speaks, and moves bytes between it and the transport.
 *
 * HTTP/2 with prior knowledge opens with 24 fixed bytes, "PRI * HTTP/2.0 ...". As long as what came is a beginning of them, it
 * waits; at the first byte that differs it is HTTP/1.1. Nothing else is distinguished: garbage, and TLS on a port without
 * it, are refused by the HTTP/1.1 parser with a 400. What a TLS handshake agreed on (ALPN) is not asked: the bytes must say the
 * same.
 *
 * connection_run() is the pump: it alternates between giving pending input to the protocol and taking output from it until
 * neither moves, and it never nests (busy). Protocol code may therefore call it, or functions that end in it, from anywhere.
 */
#include <string.h>

#include "base/alloc.h"
#include "net/net_int.h"

#define PENDING_MAX   (4 * NET_READ_BYTES)
#define PENDING_PAUSE (16 * KIB)

void connection_init(struct net_connection *connection, struct net_server *server, const struct net_transport *transport,
		     bool loopback)
{
	*connection = (struct net_connection){
		.server = server, .transport = transport, .loopback = loopback, .user.fd = -1, .next = server->connections};
	connection->opened_ns = connection->active_ns = server_now_ns(server);
	buffer_init(&connection->pending, PENDING_MAX);
	if (connection->next)
		connection->next->previous = connection;
	server->connections = connection;
	server_count(server, connections_accepted, 1);
	server_count(server, connections_open, 1);
}

int connection_enlist(struct net_connection *connection)
{
	return peers_add(&connection->server->peers, connection);
}

void connection_release(struct net_connection *connection)
{
	struct net_server *server = connection->server;
	connection->closing = true;
	peers_remove(&server->peers, connection);
	if (connection->protocol)
		connection->protocol->release(connection);
	while (connection->exchanges)
		exchange_abandon(connection->exchanges);
	buffer_release(&connection->pending);
	connection->certificate = mem_free(connection->certificate);
	if (connection->next)
		connection->next->previous = connection->previous;
	if (connection->previous)
		connection->previous->next = connection->next;
	else
		server->connections = connection->next;
	server_count(server, connections_open, -1);
}

/* Whatever waits for the peer gets the error at once; memory is freed when the transport has released it. */
void connection_close(struct net_connection *connection)
{
	if (connection->closing)
		return;
	connection->closing = true;
	peers_remove(&connection->server->peers, connection);
	for (struct net_exchange *exchange = connection->exchanges; exchange; exchange = exchange->next) {
		cancel_request(&exchange->request.cancelled);
		if (exchange->stream)
			stream_close(exchange->stream);
		if (exchange->flow)
			flow_close(exchange->flow);
	}
	connection->transport->close(connection);
}

/* Closing with unread input makes the kernel send a reset, which can destroy the answer before the peer has read it. So: end
 * our side, and read and drop what comes until the peer ends its own or NET_LINGER_NS is over. */
void connection_finish(struct net_connection *connection)
{
	if (connection->closing || connection->lingering)
		return;
	if (connection->eof) {
		connection_close(connection);
		return;
	}
	connection->lingering = true;
	connection->linger_until_ns = server_now_ns(connection->server) + NET_LINGER_NS;
	buffer_release(&connection->pending);
	connection->pending_at = 0;
	connection->transport->shutdown(connection);
}

static int choose_protocol(struct net_connection *connection, struct bytes start)
{
	size_t shared = start.len < HTTP2_PREFACE_LEN ? start.len : HTTP2_PREFACE_LEN;
	bool same = !memcmp(start.data, HTTP2_PREFACE, shared);
	if (same && shared < HTTP2_PREFACE_LEN)
		return 0;
	int r = same ? http2_start(connection) : http1_start(connection);
	return r < 0 ? r : 1;
}

/* Returns how much the protocol took. */
static size_t feed(struct net_connection *connection, struct bytes data)
{
	if (connection->lingering || connection->closing)
		return data.len;
	if (!connection->protocol) {
		int r = data.len ? choose_protocol(connection, data) : 0;
		if (r < 0)
			connection_close(connection);
		if (r <= 0)
			return 0;
	}
	return connection->protocol->input(connection, data);
}

static bool take_pending(struct net_connection *connection)
{
	bool moved = false;
	while (connection->pending_at < connection->pending.len && !connection->closing) {
		struct bytes rest = {connection->pending.data + connection->pending_at,
				     connection->pending.len - connection->pending_at};
		size_t taken = feed(connection, rest);
		if (taken == 0)
			return moved;
		moved = true;
		connection->pending_at += taken;
	}
	buffer_release(&connection->pending);
	connection->pending_at = 0;
	return moved;
}

static bool write_output(struct net_connection *connection)
{
	bool moved = false;
	while (connection->protocol && !connection->write_pending && !connection->closing && !connection->lingering) {
		struct bytes parts[2];
		size_t count = connection->protocol->output(connection, parts);
		if (count == 0)
			break;
		connection->write_bytes = parts[0].len + (count > 1 ? parts[1].len : 0);
		connection->write_started_ns = connection->write_moved_ns = server_now_ns(connection->server);
		connection->write_pending = !connection->transport->write(connection, parts, count);
		if (connection->write_pending && !connection->closing)
			connection->write_unread = connection->transport->unread(connection);
		if (connection->write_pending || connection->closing)
			break;
		server_count(connection->server, bytes_sent, connection->write_bytes);
		connection->protocol->written(connection);
		moved = true;
	}
	return moved;
}

static void set_paused(struct net_connection *connection)
{
	bool pause = !connection->lingering && connection->pending.len - connection->pending_at >= PENDING_PAUSE;
	if (pause == connection->paused || connection->closing)
		return;
	connection->paused = pause;
	connection->transport->pause(connection, pause);
}

void connection_run(struct net_connection *connection)
{
	if (connection->busy || connection->closing)
		return;
	connection->busy = true;
	bool moved;
	do {
		moved = take_pending(connection);
		moved |= write_output(connection);
	} while (moved && !connection->closing);
	connection->busy = false;
	if (connection->eof && !connection->write_pending &&
	    (!connection->protocol || connection->lingering || !connection->protocol->has_work(connection)))
		connection_close(connection);
	set_paused(connection);
}

void connection_input(struct net_connection *connection, struct bytes data)
{
	if (connection->closing)
		return;
	connection->check_ns = 0;
	peers_touch(&connection->server->peers, connection);
	server_count(connection->server, bytes_received, data.len);
	if (connection->pending.len == 0) {
		connection->busy = true;
		size_t taken;
		do {
			taken = feed(connection, data);
			data = (struct bytes){data.data + taken, data.len - taken};
		} while (taken > 0 && data.len > 0 && !connection->closing);
		connection->busy = false;
	}
	if (data.len > 0 && !connection->lingering && buffer_append(&connection->pending, data.data, data.len) < 0)
		connection_close(connection);
	connection_run(connection);
}

void connection_eof(struct net_connection *connection)
{
	if (connection->closing)
		return;
	connection->eof = true;
	if (connection->protocol && !connection->lingering && connection->pending.len == 0)
		connection->protocol->eof(connection);
	connection_run(connection);
}

void connection_written(struct net_connection *connection, int status)
{
	connection->write_pending = false;
	if (connection->closing)
		return;
	if (status < 0) {
		connection_close(connection);
		return;
	}
	connection->check_ns = 0;
	peers_touch(&connection->server->peers, connection);
	server_count(connection->server, bytes_sent, connection->write_bytes);
	connection->busy = true;
	connection->protocol->written(connection);
	connection->busy = false;
	connection_run(connection);
}

/* Nothing of the write has been taken for so long that the peer is not slow but gone, or means to hold us up. */
static bool write_is_stalled(struct net_connection *connection, int64_t now_ns)
{
	if (!connection->write_pending)
		return false;
	size_t unread = connection->transport->unread(connection);
	if (unread != connection->write_unread)
		connection->write_moved_ns = now_ns;
	connection->write_unread = unread;
	return now_ns - connection->write_moved_ns > connection->server->options.stall_seconds_max * NS_PER_S;
}

static bool write_is_late(const struct net_connection *connection, int64_t now_ns)
{
	if (!connection->write_pending)
		return false;
	size_t done = connection->write_bytes - connection->transport->queued(connection);
	int64_t allowed = (int64_t)(connection->server->options.request_seconds_max + done / NET_RATE_MIN);
	return now_ns - connection->write_started_ns > allowed * NS_PER_S;
}

/* A beginning of the HTTP/2 preface and then nothing: the HTTP/1.1 side says 408. */
static void check_unknown(struct net_connection *connection, int64_t now_ns)
{
	int64_t idle = connection->server->options.idle_seconds_max;
	if (connection->securing) {
		if (now_ns - connection->opened_ns > NET_HEADER_SECONDS * NS_PER_S) {
			server_count(connection->server, timeouts, 1);
			server_count(connection->server, tls_timeouts, 1);
			connection_close(connection);
		}
		return;
	}
	if (connection->pending.len == 0) {
		if (now_ns - connection->opened_ns > idle * NS_PER_S)
			connection_close(connection);
		return;
	}
	if (now_ns - connection->opened_ns <= NET_HEADER_SECONDS * NS_PER_S)
		return;
	if (http1_start(connection) < 0)
		connection_close(connection);
	else
		take_pending(connection);
}

void connection_check_time(struct net_connection *connection, int64_t now_ns)
{
	if (connection->closing)
		return;
	if (connection->lingering) {
		if (now_ns > connection->linger_until_ns)
			connection_close(connection);
		return;
	}
	bool is_stalled = write_is_stalled(connection, now_ns);
	if (is_stalled)
		server_count(connection->server, answers_stalled, 1);
	if (is_stalled || write_is_late(connection, now_ns)) {
		server_count(connection->server, timeouts, 1);
		connection_close(connection);
		return;
	}
	connection->busy = true;
	if (!connection->protocol)
		check_unknown(connection, now_ns);
	if (connection->protocol && !connection->closing)
		connection->protocol->check_time(connection, now_ns);
	connection->busy = false;
	connection_run(connection);
}

bool connection_is_idle(const struct net_connection *connection)
{
	bool is_idle = !connection->closing && !connection->write_pending && connection->pending.len == connection->pending_at;
	/* Who waits for his handshake is next: if he went for who comes, in a crowd nobody would ever have one. */
	is_idle = is_idle && !connection->computing;
	for (const struct net_exchange *exchange = connection->exchanges; exchange && is_idle; exchange = exchange->next)
		is_idle = !exchange->head_done;
	return is_idle;
}

/* Of a request whose handler is at work it is not the peer who is slow. */
static bool is_stuck(const struct net_exchange *exchange, int64_t now_ns)
{
	return !exchange->job_out && now_ns - exchange->active_ns > NET_STUCK_NS;
}

bool connection_can_go(const struct net_connection *connection, int64_t now_ns)
{
	if (connection_is_idle(connection))
		return true;
	if (connection->closing || connection->computing ||
	    (connection->write_pending && now_ns - connection->write_moved_ns <= NET_STUCK_NS))
		return false;
	for (const struct net_exchange *exchange = connection->exchanges; exchange; exchange = exchange->next)
		if (!is_stuck(exchange, now_ns))
			return false;
	return true;
}

void connection_stop(struct net_connection *connection)
{
	if (connection->closing || connection->lingering)
		return;
	if (!connection->protocol && connection->pending.len == 0)
		connection_close(connection);
	else if (connection->protocol)
		connection->protocol->stop(connection);
	connection_run(connection);
}
