/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS on the server: a transport between a connection and its socket. OpenSSL sees no socket, only two queues in memory (a
 * BIO of our own over two buffers, which takes no memory while they are empty, as they are of an idle connection):
 *
 *   socket ── on_read ──> in ──> SSL_read ──> connection_input()
 *   socket <── uv_write <── sending <── out <── SSL_write <── the parts of the connection's write, 64 KiB at a time
 *
 * Bounds. `in` holds what one read of the socket brought and, between reads, at most a record that is not complete (17 KiB).
 * `out` gets a new piece of the connection's write only when everything before it is with the kernel; besides it holds what the
 * handshake and alerts say. A peer that makes us say things without reading them (key updates) is closed when OUT_MAX of it has
 * gathered. `sending` is what libuv has: it must not move while a write is under way, which memory BIOs do not promise.
 *
 * A handshake is computed on a worker (worker.c), since it takes as long as answering ten requests: while it is there,
 * OpenSSL's state belongs to the worker, nothing is read from the socket, and a socket that is closed is freed when the job
 * comes back. It has NET_HEADER_SECONDS (connection.c looks at `securing`), as the head of a request has, waiting for a worker
 * included. Whoever speaks HTTP in the clear to this port gets an error in the clear.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/alloc.h"
#include "net/socket_int.h"
#include "net/tls_int.h"

#define PIECE	(64 * KIB)
#define OUT_MAX (256 * KIB)
#define IN_MAX	(128 * KIB) /* one read of the socket, and what was left of the one before */

struct socket_tls {
	SSL *session;
	struct queue {
		struct buffer bytes;
		size_t at;     /* taken so far */
	} in, out;	       /* what session reads and writes */
	struct buffer sending; /* with libuv while busy */
	struct bytes parts[2]; /* the connection's write: what is not encrypted yet */
	size_t left;	       /* of its bytes */
	bool busy;	       /* a uv_write is under way */
	bool writing;	       /* the connection waits for connection_written() */
	bool ready;	       /* the handshake is over */
	struct net_job job;    /* a step of the handshake */
	struct net_socket *socket;
	bool job_out;	      /* the worker has session, in and out */
	bool gone;	      /* the socket was closed meanwhile */
	int result, why;      /* of the step: SSL_accept()'s and SSL_get_error()'s */
	unsigned long reason; /* ERR_peek_error()'s */
	bool kept;	      /* names of the certificate are in `names`, if it has any */
	char *names;
	bool shut; /* no more is to be sent after what is in out */
	bool shut_done;
};

/* ---- out ---- */

static void on_sent(uv_write_t *write, int status);

static struct bytes queued_bytes(const struct queue *queue)
{
	return (struct bytes){queue->bytes.data + queue->at, queue->bytes.len - queue->at};
}

static int queue_append(struct queue *queue, struct bytes data)
{
	struct bytes left = queued_bytes(queue);
	if (queue->at > 0 && left.len > 0)
		memmove(queue->bytes.data, left.data, left.len);
	if (queue->at > 0)
		buffer_truncate(&queue->bytes, left.len);
	queue->at = 0;
	return buffer_append(&queue->bytes, data.data, data.len);
}

static void queue_clear(struct queue *queue)
{
	buffer_release(&queue->bytes);
	queue->at = 0;
}

/* Gives the kernel what is in out. False: the connection is closing. */
static bool flush(struct net_socket *socket)
{
	struct socket_tls *tls = socket->tls;
	if (tls->busy)
		return true;
	struct bytes data = queued_bytes(&tls->out);
	if (data.len == 0)
		return true;
	uv_buf_t buf = {(char *)data.data, data.len};
	int sent = uv_try_write((uv_stream_t *)&socket->tcp, &buf, 1);
	if (sent >= 0 && (size_t)sent == data.len) {
		queue_clear(&tls->out);
		return true;
	}
	buffer_clear(&tls->sending);
	size_t skip = sent > 0 ? (size_t)sent : 0;
	if ((sent < 0 && sent != UV_EAGAIN) || buffer_append(&tls->sending, data.data + skip, data.len - skip) < 0) {
		connection_close(&socket->connection);
		return false;
	}
	queue_clear(&tls->out);
	buf = (uv_buf_t){(char *)tls->sending.data, tls->sending.len};
	socket->write.data = socket;
	tls->busy = uv_write(&socket->write, (uv_stream_t *)&socket->tcp, &buf, 1, on_sent) == 0;
	if (!tls->busy)
		connection_close(&socket->connection);
	return tls->busy;
}

static int encrypt_piece(struct socket_tls *tls)
{
	struct bytes *part = tls->parts[0].len > 0 ? &tls->parts[0] : &tls->parts[1];
	ERR_clear_error();
	int n = SSL_write(tls->session, part->data, (int)(part->len < PIECE ? part->len : PIECE));
	if (n <= 0)
		return -EPROTO; /* memory is never full */
	*part = (struct bytes){part->data + n, part->len - (size_t)n};
	tls->left -= (size_t)n;
	return 0;
}

/* True = all of the connection's write is with the kernel. */
static bool pump(struct net_socket *socket)
{
	struct socket_tls *tls = socket->tls;
	while (tls->left > 0 && !tls->busy) {
		if (encrypt_piece(tls) < 0) {
			connection_close(&socket->connection);
			return false;
		}
		if (queued_bytes(&tls->out).len >= PIECE && !flush(socket))
			return false;
	}
	return flush(socket) && tls->left == 0 && !tls->busy;
}

static void finish_shutdown(struct net_socket *socket)
{
	struct socket_tls *tls = socket->tls;
	if (!tls->shut || tls->shut_done || tls->busy || socket->connection.closing)
		return;
	tls->shut_done = true;
	socket_shutdown(&socket->connection);
}

static void on_sent(uv_write_t *write, int status)
{
	struct net_socket *socket = write->data;
	struct socket_tls *tls = socket->tls;
	tls->busy = false;
	buffer_clear(&tls->sending);
	bool done = status == 0 && !socket->connection.closing && pump(socket);
	if (socket->connection.closing)
		return;
	if (status < 0)
		connection_close(&socket->connection);
	else if (tls->writing && done) {
		tls->writing = false;
		connection_written(&socket->connection, 0);
	}
	finish_shutdown(socket);
}

static bool tls_write(struct net_connection *connection, const struct bytes *parts, size_t count)
{
	struct socket_tls *tls = socket_of(connection)->tls;
	tls->parts[0] = parts[0];
	tls->parts[1] = count > 1 ? parts[1] : (struct bytes){0};
	tls->left = tls->parts[0].len + tls->parts[1].len;
	if (pump(socket_of(connection)))
		return true;
	tls->writing = !connection->closing;
	return false;
}

/* Bytes before encryption count: the rest is what encryption adds. */
static size_t tls_queued(const struct net_connection *connection)
{
	const struct socket_tls *tls = socket_of(connection)->tls;
	size_t sending = tls->busy ? uv_stream_get_write_queue_size((uv_stream_t *)&socket_of(connection)->tcp) : 0;
	size_t queued = tls->left + sending;
	return queued < connection->write_bytes ? queued : connection->write_bytes;
}

/* Together they move whenever a piece is encrypted, or taken by the peer. */
static size_t tls_unread(const struct net_connection *connection)
{
	return socket_of(connection)->tls->left + socket_unread(connection);
}

static void tls_shutdown(struct net_connection *connection)
{
	struct net_socket *socket = socket_of(connection);
	struct socket_tls *tls = socket->tls;
	ERR_clear_error();
	if (tls->ready)
		SSL_shutdown(tls->session);
	tls->shut = true;
	if (flush(socket))
		finish_shutdown(socket);
}

/* ---- in ---- */

static void refuse_plain(struct net_socket *socket)
{
	static const char answer[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 59\r\n"
				     "Connection: close\r\n\r\n"
				     "{\"error\":\"this port speaks TLS: use https:// to reach it\"}\n";
	uv_buf_t buf = {(char *)answer, sizeof(answer) - 1};
	_Static_assert(sizeof("{\"error\":\"this port speaks TLS: use https:// to reach it\"}\n") - 1 == 59, "Content-Length");
	uv_try_write((uv_stream_t *)&socket->tcp, &buf, 1);
	socket->tls->shut = true;
	connection_finish(&socket->connection);
}

static void handshake_failed(struct net_socket *socket)
{
	int reason = ERR_GET_REASON(socket->tls->reason);
	server_count(socket->connection.server, tls_failures, 1);
	if (reason == SSL_R_HTTP_REQUEST)
		refuse_plain(socket);
	else if (flush(socket)) /* the alert */
		connection_finish(&socket->connection);
}

static void add_name(struct buffer *names, const void *text, size_t len)
{
	/* A NUL within is no name, but an attempt to pass for another one. */
	if (len > 0 && !memchr(text, 0, len) && names->len + len + 1 < names->max) {
		buffer_append(names, text, len);
		buffer_append_byte(names, 0);
	}
}

static void add_common_name(struct buffer *names, X509 *certificate)
{
	X509_NAME *subject = X509_get_subject_name(certificate);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	unsigned char *text = NULL;
	int len = at < 0 ? -1 : ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (len > 0)
		add_name(names, text, (size_t)len);
	OPENSSL_free(text);
}

static void add_alternative_names(struct buffer *names, X509 *certificate)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);
		const ASN1_STRING *text = name->type == GEN_DNS	    ? name->d.dNSName
					  : name->type == GEN_URI   ? name->d.uniformResourceIdentifier
					  : name->type == GEN_EMAIL ? name->d.rfc822Name
								    : NULL;
		if (text)
			add_name(names, ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text));
	}
	GENERAL_NAMES_free(all);
}

/* False without memory. */
static bool keep_certificate(struct socket_tls *tls)
{
	X509 *certificate = SSL_get0_peer_certificate(tls->session);
	if (!certificate || SSL_get_verify_result(tls->session) != X509_V_OK)
		return true;
	_cleanup_(buffer_release) struct buffer names = {.max = NET_CERTIFICATE_NAMES};
	add_common_name(&names, certificate);
	add_alternative_names(&names, certificate);
	buffer_append_byte(&names, 0);
	if (buffer_status(&names) == 0 && (tls->names = mem_alloc(names.len)))
		memcpy(tls->names, names.data, names.len);
	ERR_clear_error();
	return tls->names;
}

static struct socket_tls *tls_of(struct net_job *job)
{
	return container_of(job, struct socket_tls, job);
}

/* On a worker. */
static void run_step(struct net_job *job)
{
	struct socket_tls *tls = tls_of(job);
	ERR_clear_error();
	tls->result = SSL_accept(tls->session);
	tls->why = tls->result > 0 ? SSL_ERROR_NONE : SSL_get_error(tls->session, tls->result);
	tls->reason = ERR_peek_error();
	ERR_clear_error();
	if (tls->result > 0)
		tls->kept = keep_certificate(tls);
}

static void go_on(struct net_socket *socket);

static void finish_handshake(struct net_socket *socket)
{
	struct net_connection *connection = &socket->connection;
	struct socket_tls *tls = socket->tls;
	if (!tls->kept) {
		connection_close(connection);
		return;
	}
	connection->certificate = tls->names;
	tls->names = NULL;
	if (connection->certificate)
		peers_set_known(&connection->server->peers, connection);
	tls->ready = true;
	connection->securing = false;
	server_count(connection->server, tls_handshakes, 1);
	if (SSL_session_reused(tls->session))
		server_count(connection->server, tls_resumed, 1);
	if (flush(socket))
		go_on(socket);
}

static void step_done(struct net_job *job)
{
	struct socket_tls *tls = tls_of(job);
	struct net_socket *socket = tls->socket;
	tls->job_out = false;
	if (tls->gone) {
		socket_tls_free(socket);
		mem_free(socket);
		return;
	}
	socket->connection.computing = false;
	if (socket->connection.closing)
		return;
	if (job->displaced) {
		connection_close(&socket->connection);
		return;
	}
	socket_pause(&socket->connection, false);
	if (tls->result > 0)
		finish_handshake(socket);
	else if (tls->why == SSL_ERROR_WANT_READ)
		flush(socket);
	else
		handshake_failed(socket);
}

static void shake_hands(struct net_socket *socket)
{
	struct net_connection *connection = &socket->connection;
	struct socket_tls *tls = socket->tls;
	tls->job = (struct net_job){
		.run = run_step, .done = step_done, .kind = NET_JOB_HANDSHAKE, .group = 0, .key = connection->peer};
	if (workers_submit(&connection->server->workers, &tls->job, false) < 0) {
		connection_close(connection);
		return;
	}
	tls->job_out = connection->computing = true;
	socket_pause(connection, true);
}

static void decrypt(struct net_socket *socket)
{
	struct net_connection *connection = &socket->connection;
	struct socket_tls *tls = socket->tls;
	uint8_t plain[16 * KIB];
	while (!connection->closing) {
		ERR_clear_error();
		int n = SSL_read(tls->session, plain, sizeof(plain));
		if (n > 0) {
			connection_input(connection, (struct bytes){plain, (size_t)n});
			continue;
		}
		int why = SSL_get_error(tls->session, n);
		if (why == SSL_ERROR_ZERO_RETURN) {
			connection_eof(connection);
		} else if (why != SSL_ERROR_WANT_READ) {
			server_count(connection->server, protocol_errors, 1);
			if (flush(socket))
				connection_close(connection);
		}
		return;
	}
}

/* The handshake is over: what has come is for the connection. */
static void go_on(struct net_socket *socket)
{
	struct net_connection *connection = &socket->connection;
	decrypt(socket);
	if (connection->closing)
		return;
	if (queued_bytes(&socket->tls->out).len > OUT_MAX)
		connection_close(connection);
	else
		flush(socket);
}

void socket_tls_input(struct net_socket *socket, struct bytes data)
{
	struct net_connection *connection = &socket->connection;
	struct socket_tls *tls = socket->tls;
	if (connection->closing || connection->lingering)
		return;
	if (queue_append(&tls->in, data) < 0) {
		connection_close(connection);
		return;
	}
	if (tls->ready)
		go_on(socket);
	else if (!tls->job_out)
		shake_hands(socket);
}

/* ---- the queues as a BIO ---- */

static int queue_read(BIO *bio, char *out, int size)
{
	struct socket_tls *tls = BIO_get_data(bio);
	struct bytes data = queued_bytes(&tls->in);
	size_t len = data.len < (size_t)size ? data.len : (size_t)size;
	BIO_clear_retry_flags(bio);
	if (len == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, data.data, len);
	tls->in.at += len;
	if (len == data.len)
		queue_clear(&tls->in);
	return (int)len;
}

static int queue_write(BIO *bio, const char *data, int len)
{
	struct socket_tls *tls = BIO_get_data(bio);
	BIO_clear_retry_flags(bio);
	return buffer_append(&tls->out.bytes, data, (size_t)len) < 0 ? -1 : len;
}

static struct tls_bytes queued = {.name = "wick server", .read = queue_read, .write = queue_write};

/* ---- life ---- */

int socket_tls_new(struct net_socket *socket, struct net_tls *options)
{
	struct socket_tls *tls = mem_zalloc(sizeof(*tls));
	if (!tls)
		return -ENOMEM;
	int r = tls_open(options, &tls->session, NULL);
	if (r < 0) {
		mem_free(tls);
		return r;
	}
	if (tls_attach_bytes(tls->session, &queued, tls) < 0) {
		SSL_free(tls->session);
		mem_free(tls);
		return -ENOMEM;
	}
	SSL_set_accept_state(tls->session);
	buffer_init(&tls->sending, OUT_MAX + 4 * PIECE);
	buffer_init(&tls->in.bytes, IN_MAX);
	buffer_init(&tls->out.bytes, OUT_MAX + 4 * PIECE);
	tls->socket = socket;
	socket->tls = tls;
	return 0;
}

bool socket_tls_is_busy(struct net_socket *socket)
{
	if (!socket->tls || !socket->tls->job_out)
		return false;
	socket->tls->gone = true;
	return true;
}

void socket_tls_free(struct net_socket *socket)
{
	if (!socket->tls)
		return;
	mem_free(socket->tls->names);
	SSL_free(socket->tls->session);
	queue_clear(&socket->tls->in);
	queue_clear(&socket->tls->out);
	buffer_release(&socket->tls->sending);
	socket->tls = mem_free(socket->tls);
}

static void tls_close(struct net_connection *connection)
{
	struct socket_tls *tls = socket_of(connection)->tls;
	if (tls->ready && !tls->busy && !tls->shut && tls->left == 0) {
		ERR_clear_error();
		if (SSL_shutdown(tls->session) >= 0) {
			struct bytes data = queued_bytes(&tls->out);
			uv_buf_t buf = {(char *)data.data, data.len};
			uv_try_write((uv_stream_t *)&socket_of(connection)->tcp, &buf, 1);
		}
		ERR_clear_error();
	}
	socket_close(connection);
}

const struct net_transport tls_transport = {
	.write = tls_write,
	.queued = tls_queued,
	.unread = tls_unread,
	.pause = socket_pause,
	.shutdown = tls_shutdown,
	.close = tls_close,
};
