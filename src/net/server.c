/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets' side of the server: listening, accepting, reading, writing and the life of the loop. Everything that a peer's
 * bytes can reach is in connection.c and above it.
 *
 * Workers wake the loop by an eventfd of their own. uv_async_send() is made for any number of handles and senders, and for that
 * its receiver spins until the sender is through: with a sender that has just woken it on another CPU, that is for each
 * request.
 *
 * One timer looks at every deadline ten times a second while there are connections. A timer per request would be more precise
 * and cost an insertion into a heap per request; no limit here needs more than a tenth of a second.
 */
#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/privilege/broker.h"
#include "net/socket_int.h"

#define BACKLOG	 511
#define TICK_MS	 100
#define SLICE_NS 100000

struct net_server_uv {
	uv_loop_t loop;
	uv_tcp_t listener;
	uv_async_t stop;
	uv_poll_t collect;
	int collect_fd; /* an eventfd that workers write to; -1 = none */
	uv_timer_t timer;
	bool loop_open, accept_due, running;
	char read_buffer[NET_READ_BYTES];
};

/* ---- transport ---- */

static void on_written(uv_write_t *write, int status)
{
	struct net_socket *socket = write->data;
	connection_written(&socket->connection, status);
}

static bool socket_write(struct net_connection *connection, const struct bytes *parts, size_t count)
{
	struct net_socket *socket = socket_of(connection);
	uv_buf_t bufs[2] = {0};
	size_t total = 0;
	for (size_t i = 0; i < count; i++) {
		bufs[i] = (uv_buf_t){(char *)parts[i].data, parts[i].len};
		total += parts[i].len;
	}
	int sent = uv_try_write((uv_stream_t *)&socket->tcp, bufs, (unsigned)count);
	if (sent >= 0 && (size_t)sent == total)
		return true;
	size_t skip = sent > 0 ? (size_t)sent : 0, first = 0;
	if (count > 1 && skip >= bufs[0].len) {
		skip -= bufs[0].len;
		first = 1;
	}
	bufs[first].base += skip;
	bufs[first].len -= skip;
	socket->write.data = socket;
	if ((sent < 0 && sent != UV_EAGAIN) ||
	    uv_write(&socket->write, (uv_stream_t *)&socket->tcp, bufs + first, (unsigned)(count - first), on_written) < 0)
		connection_close(connection);
	return false;
}

static size_t socket_queued(const struct net_connection *connection)
{
	return uv_stream_get_write_queue_size((uv_stream_t *)&socket_of(connection)->tcp);
}

size_t socket_unread(const struct net_connection *connection)
{
	uv_os_fd_t fd;
	int unsent = 0;
	if (uv_fileno((uv_handle_t *)&socket_of(connection)->tcp, &fd) == 0 && ioctl(fd, SIOCOUTQ, &unsent) < 0)
		unsent = 0;
	return uv_stream_get_write_queue_size((uv_stream_t *)&socket_of(connection)->tcp) + (size_t)unsent;
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
	struct net_server *server = handle->loop->data;
	*ret = (uv_buf_t){server->uv->read_buffer, sizeof(server->uv->read_buffer)};
}

static void on_read(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf)
{
	struct net_socket *socket = stream->data;
	struct bytes data = {(const uint8_t *)buf->base, len > 0 ? (size_t)len : 0};
	if (len > 0 && socket->tls)
		socket_tls_input(socket, data);
	else if (len > 0)
		connection_input(&socket->connection, data);
	else if (len == UV_EOF)
		connection_eof(&socket->connection);
	else if (len < 0)
		connection_close(&socket->connection);
}

void socket_pause(struct net_connection *connection, bool paused)
{
	uv_stream_t *stream = (uv_stream_t *)&socket_of(connection)->tcp;
	if (paused)
		uv_read_stop(stream);
	else if (uv_read_start(stream, on_allocate, on_read) < 0)
		connection_close(connection);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
}

void socket_shutdown(struct net_connection *connection)
{
	struct net_socket *socket = socket_of(connection);
	if (uv_shutdown(&socket->shutdown, (uv_stream_t *)&socket->tcp, on_shutdown) < 0)
		connection_close(connection);
}

static void on_closed(uv_handle_t *handle)
{
	struct net_socket *socket = handle->data;
	struct net_server *server = handle->loop->data;
	if (socket->counted)
		connection_release(&socket->connection);
	if (!socket_tls_is_busy(socket)) {
		socket_tls_free(socket);
		mem_free(socket);
	}
	if (!server->connections && !server->stopping && !server->uv->accept_due)
		uv_timer_stop(&server->uv->timer);
}

void socket_close(struct net_connection *connection)
{
	uv_close((uv_handle_t *)&socket_of(connection)->tcp, on_closed);
}

static const struct net_transport socket_transport = {
	.write = socket_write,
	.queued = socket_queued,
	.unread = socket_unread,
	.pause = socket_pause,
	.shutdown = socket_shutdown,
	.close = socket_close,
};

/* ---- accepting ---- */

#define TOO_MANY_CONNECTIONS "{\"error\":\"busy: too many connections; try again later\"}\n"

/* One try, without waiting: a rejected peer is not worth a buffer. */
static void reject_connection(struct net_server *server, struct net_socket *socket)
{
	static const char answer[] =
		"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 56\r\n"
		"Retry-After: 5\r\nConnection: close\r\n\r\n" TOO_MANY_CONNECTIONS;
	_Static_assert(sizeof(TOO_MANY_CONNECTIONS) - 1 == 56, "Content-Length is another");
	uv_buf_t buf = {(char *)answer, sizeof(answer) - 1};
	if (!server->options.tls)
		uv_try_write((uv_stream_t *)&socket->tcp, &buf, 1);
	server_count(server, connections_refused, 1);
	uv_close((uv_handle_t *)&socket->tcp, on_closed);
}

struct peer_name {
	struct sockaddr_storage address;
	bool known;
	uint64_t key;
	char host[NET_PEER_ADDRESS_SIZE];
};

static struct peer_name name_peer(const struct net_socket *socket)
{
	struct peer_name peer = {0};
	int len = sizeof(peer.address);
	const struct sockaddr *address = (struct sockaddr *)&peer.address;
	peer.known = uv_tcp_getpeername(&socket->tcp, (struct sockaddr *)&peer.address, &len) == 0;
	if (!peer.known)
		return peer;
	peer.key = address_hash(address);
	address_format_host(address, peer.host);
	return peer;
}

static int connect_peer(struct net_server *server, struct net_socket *socket, const struct peer_name *peer)
{
	struct net_connection *connection = &socket->connection;
	connection_init(connection, server, socket->tls ? &tls_transport : &socket_transport,
			peer->known && address_is_loopback((const struct sockaddr *)&peer->address));
	connection->securing = socket->tls;
	connection->peer = peer->key;
	uv_os_fd_t fd;
	if (uv_fileno((uv_handle_t *)&socket->tcp, &fd) == 0)
		connection->user.fd = fd;
	memcpy(connection->peer_address, peer->host, sizeof(peer->host));
	return connection_enlist(connection);
}

static void on_timer(uv_timer_t *timer);

static void accept_one(struct net_server *server)
{
	struct net_server_uv *uv = server->uv;
	struct net_socket *socket = mem_zalloc(sizeof(*socket));
	uv_timer_start(&uv->timer, on_timer, TICK_MS, TICK_MS);
	uv->accept_due = !socket;
	if (!socket)
		return; /* libuv stops listening until it is accepted: the timer tries again */
	uv_tcp_init(&uv->loop, &socket->tcp);
	socket->tcp.data = socket;
	if (uv_accept((uv_stream_t *)&uv->listener, (uv_stream_t *)&socket->tcp) < 0) {
		uv_close((uv_handle_t *)&socket->tcp, on_closed);
		return;
	}
	struct peer_name peer = name_peer(socket);
	if (!server_make_room(server, peer.key, peer.host)) {
		reject_connection(server, socket);
		return;
	}
	if (server->options.tls && socket_tls_new(socket, server->options.tls) < 0) {
		uv_close((uv_handle_t *)&socket->tcp, on_closed);
		return;
	}
	uv_tcp_nodelay(&socket->tcp, 1);
	socket->counted = true;
	if (connect_peer(server, socket, &peer) < 0)
		connection_close(&socket->connection);
	else
		socket_pause(&socket->connection, false);
}

static void on_connection(uv_stream_t *listener, int status)
{
	if (status == 0)
		accept_one(listener->loop->data);
}

static void on_timer(uv_timer_t *timer)
{
	struct net_server *server = timer->loop->data;
	if (server->uv->accept_due && !server->stopping)
		accept_one(server);
	server_check_time(server);
	if (!server->connections && !server->stopping && !server->uv->accept_due)
		uv_timer_stop(timer);
}

/* ---- starting ---- */

static int listen_failed(int code, const char *listen, struct error *err)
{
	if (code == -EADDRINUSE)
		return error_set(err, code,
				 "cannot listen on %s: address already in use; stop the other program or choose another with "
				 "--listen ADDR:PORT",
				 listen);
	if (code == -EACCES)
		return error_set(err, code,
				 "cannot listen on %s: permission denied; ports below 1024 need CAP_NET_BIND_SERVICE, "
				 "choose another with --listen ADDR:PORT",
				 listen);
	return error_set_errno(err, code, "cannot listen on %s", listen);
}

/* By who may, where there is one (base/privilege/broker.h). */
static int bind_address(struct net_server_uv *uv, const struct sockaddr *address)
{
	int fd =
		broker_bind(address, address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	if (fd == -EACCES)
		return uv_tcp_bind(&uv->listener, address, 0);
	int r = fd < 0 ? fd : uv_tcp_open(&uv->listener, fd);
	if (r < 0 && fd >= 0)
		close(fd);
	return r;
}

static int bind_to(struct net_server_uv *uv, const struct sockaddr *address)
{
	int r = uv_tcp_init(&uv->loop, &uv->listener);
	if (r == 0)
		r = bind_address(uv, address);
	if (r == 0)
		r = uv_listen((uv_stream_t *)&uv->listener, BACKLOG, on_connection);
	return r;
}

static void close_listener(struct net_server_uv *uv)
{
	if (!uv_is_closing((uv_handle_t *)&uv->listener))
		uv_close((uv_handle_t *)&uv->listener, NULL);
}

/* "localhost" has an IPv4 and an IPv6 address; who types it expects the first. */
static int bind_first(struct net_server_uv *uv, const struct addrinfo *addresses)
{
	int r = -EADDRNOTAVAIL;
	static const int families[] = {AF_INET, AF_INET6};
	for (size_t i = 0; i < 2; i++) {
		for (const struct addrinfo *a = addresses; a; a = a->ai_next) {
			if (a->ai_family != families[i])
				continue;
			r = bind_to(uv, a->ai_addr);
			if (r == 0 || r == -EADDRINUSE)
				return r;
			close_listener(uv);
			uv_run(&uv->loop, UV_RUN_NOWAIT);
		}
	}
	return r;
}

static int start_listening(struct net_server *server, struct error *err)
{
	const char *listen = server->options.listen;
	struct net_address address;
	int r = address_parse(listen, &address, err);
	if (r < 0)
		return r;
	struct addrinfo *found;
	int code = address_resolve(&address, AI_PASSIVE, &found);
	if (code)
		return error_set(err, -EINVAL, "cannot listen on %s: %s", listen, gai_strerror(code));
	r = bind_first(server->uv, found);
	freeaddrinfo(found);
	if (r < 0)
		return listen_failed(r, listen, err);
	struct sockaddr_storage own;
	int len = sizeof(own);
	r = uv_tcp_getsockname(&server->uv->listener, (struct sockaddr *)&own, &len);
	if (r < 0 || address_format((struct sockaddr *)&own, server->address, sizeof(server->address)) < 0)
		return error_set_errno(err, r < 0 ? r : -EAFNOSUPPORT, "cannot determine the address of %s", listen);
	return 0;
}

static void on_stop(uv_async_t *async)
{
	struct net_server *server = async->loop->data;
	if (server->stopping)
		return;
	close_listener(server->uv);
	server_stop_connections(server);
	uv_timer_start(&server->uv->timer, on_timer, TICK_MS, TICK_MS);
}

static void on_collect(uv_poll_t *poll, int status, int events)
{
	struct net_server *server = poll->loop->data;
	eventfd_t count;
	eventfd_read(server->uv->collect_fd, &count);
	workers_collect(&server->workers);
}

static void notify(void *context)
{
	struct net_server *server = context;
	eventfd_write(server->uv->collect_fd, 1);
}

static int open_collect(struct net_server_uv *uv)
{
	uv->collect_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (uv->collect_fd < 0)
		return -errno;
	int r = uv_poll_init(&uv->loop, &uv->collect, uv->collect_fd);
	return r < 0 ? r : uv_poll_start(&uv->collect, UV_READABLE, on_collect);
}

static int open_loop(struct net_server *server, struct error *err)
{
	struct net_server_uv *uv = server->uv;
	int r = uv_loop_init(&uv->loop);
	if (r < 0)
		return error_set_errno(err, r, "cannot create an event loop");
	uv->loop_open = true;
	uv->loop.data = server;
	r = uv_async_init(&uv->loop, &uv->stop, on_stop);
	if (r == 0)
		r = open_collect(uv);
	if (r == 0)
		r = uv_timer_init(&uv->loop, &uv->timer);
	if (r < 0)
		return error_set_errno(err, r, "cannot set up the event loop");
	return start_listening(server, err);
}

int net_server_new(const struct net_server_options *options, struct net_server **ret, struct error *err)
{
	struct net_server *server = mem_zalloc(sizeof(*server));
	struct net_server_uv *uv = mem_zalloc(sizeof(*uv));
	if (!server || !uv) {
		mem_free(server);
		mem_free(uv);
		return error_nomem(err);
	}
	int r = server_init(server, options, options->workers ? options->workers : 4, notify, server, err);
	if (r < 0) {
		mem_free(server);
		mem_free(uv);
		return r;
	}
	server->uv = uv;
	uv->collect_fd = -1;
	r = open_loop(server, err);
	if (r < 0) {
		net_server_free(server);
		return r;
	}
	*ret = server;
	return 0;
}

/* ---- running and stopping ---- */

static bool is_finished(const struct net_server *server)
{
	return server->stopping && !server->connections && server->workers.out == 0;
}

/* libuv writes without MSG_NOSIGNAL: a peer that goes away must not end the process. SIGPIPE of a write goes to the writing
 * thread, so it is blocked here and what has collected is thrown away afterwards. */
static void block_sigpipe(sigset_t *before)
{
	sigset_t pipe;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, before);
}

static void restore_signals(const sigset_t *before)
{
	sigset_t pipe;
	struct timespec no_time = {0};
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	if (!sigismember(before, SIGPIPE))
		while (sigtimedwait(&pipe, NULL, &no_time) == SIGPIPE)
			;
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* The loop computes little at a time and must not wait for workers that compute much: since Linux 6.12 a thread that asks for
 * short slices of the CPU gets its turn early, at the same share. Older kernels take no notice. */
static void ask_for_short_slices(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = {
		.size = sizeof(attributes), .policy = SCHED_OTHER, .nice = getpriority(PRIO_PROCESS, 0), .runtime = SLICE_NS};
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int net_server_run(struct net_server *server, struct error *err)
{
	sigset_t before;
	ask_for_short_slices();
	if (server->stopping)
		return error_set(err, -EINVAL, "a stopped server cannot run again");
	block_sigpipe(&before);
	while (!is_finished(server))
		uv_run(&server->uv->loop, UV_RUN_ONCE);
	restore_signals(&before);
	return 0;
}

void net_server_stop(struct net_server *server)
{
	uv_async_send(&server->uv->stop);
}

static void close_handle(uv_handle_t *handle, void *context)
{
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

struct net_server *net_server_free(struct net_server *server)
{
	if (!server)
		return NULL;
	assert(!server->connections); /* it never ran, or net_server_run() has returned */
	struct net_server_uv *uv = server->uv;
	server_release(server);
	if (uv->loop_open) {
		uv_walk(&uv->loop, close_handle, NULL);
		uv_run(&uv->loop, UV_RUN_DEFAULT);
		uv_loop_close(&uv->loop);
	}
	if (uv->collect_fd >= 0)
		close(uv->collect_fd);
	mem_free(uv);
	return mem_free(server);
}
