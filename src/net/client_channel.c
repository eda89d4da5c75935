/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client sends and receives through: a non-blocking TCP socket, with TLS over it for https. OpenSSL reads and writes the
 * socket through a BIO of our own: its own one writes with write(), whose SIGPIPE would end the program when the server goes
 * away.
 *
 * Under TLS, "the socket is readable" and "there is something to read" are different things: key updates and alerts come
 * without data, and data may wait decrypted. channel_wait() and channel_has_input() know; nobody else polls the socket.
 *
 * An end of file without TLS's own goodbye may be somebody else's work (a truncation attack): it is -ECONNABORTED, and a body
 * that ends at the end of the connection is not complete then.
 */
#include "net/client_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/tls_int.h"

#define UNIX_RETRY_NS (10 * NS_PER_MS)

/* ---- the socket as a BIO ---- */

static int bio_done(struct bio_st *bio, struct client_channel *channel, ssize_t n, bool reading)
{
	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (reading)
			BIO_set_retry_read(bio);
		else
			BIO_set_retry_write(bio);
	} else if (n < 0) {
		channel->fault = -errno;
	} else if (n == 0 && reading) {
		channel->eof = true;
	}
	return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len)
{
	struct client_channel *channel = BIO_get_data(bio);
	return bio_done(bio, channel, send(channel->fd, data, (size_t)len, MSG_NOSIGNAL), false);
}

static int bio_read(BIO *bio, char *out, int len)
{
	struct client_channel *channel = BIO_get_data(bio);
	return bio_done(bio, channel, recv(channel->fd, out, (size_t)len, 0), true);
}

static struct tls_bytes of_socket = {.name = "wick client", .read = bio_read, .write = bio_write};

/* ---- the handshake ---- */

static bool is_ip_address(const char *name)
{
	struct in6_addr address;
	return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

/* SNI carries names only (RFC 6066, section 3); an address is looked for among the certificate's addresses. */
static const char *peer_name(const struct net_client *client)
{
	const char *own = client->tls ? tls_server_name(client->tls) : NULL;
	return own ? own : client->address.host;
}

void client_set_tls_peer(struct net_client *client)
{
	snprintf(client->tls_peer, sizeof(client->tls_peer), "%s %s", client->authority, peer_name(client));
}

static int set_peer(struct net_client *client, SSL *tls)
{
	const char *name = peer_name(client);
	client_set_tls_peer(client);
	if (is_ip_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), name) == 1 ? 0 : -EINVAL;
	SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set_tlsext_host_name(tls, name) == 1 && SSL_set1_host(tls, name) == 1 ? 0 : -EINVAL;
}

static int distrust(const struct net_client *client, long result, struct error *err)
{
	const char *why = X509_verify_cert_error_string(result), *hint = "";
	switch (result) {
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		hint = "; if you trust it, give its CA certificate (ca_file, or SSL_CERT_FILE in the environment)";
		break;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH: hint = "; use a host name that it is valid for"; break;
	}
	return error_set(err, -EKEYREJECTED, "cannot trust the certificate of %s: %s%s", client->url, why, hint);
}

static int handshake_failed(const struct net_client *client, const struct client_channel *channel, struct error *err)
{
	char reason[160];
	long result = SSL_get_verify_result(channel->tls);
	if (result != X509_V_OK && SSL_get_verify_mode(channel->tls) != SSL_VERIFY_NONE) {
		ERR_clear_error();
		return distrust(client, result, err);
	}
	if (channel->fault)
		return client_failed(client, channel->fault, "TLS handshake with", err);
	if (channel->eof)
		return error_set(err, -ECONNRESET, "%s closed the connection during the TLS handshake; does it speak TLS?",
				 client->url);
	bool plain = ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER;
	return error_set(err, -EPROTO, "TLS handshake with %s failed: %s%s", client->url, tls_reason(reason, sizeof(reason)),
			 plain ? "; does it speak TLS?" : "");
}

static int shake_hands(struct net_client *client, struct client_channel *channel, struct error *err)
{
	for (;;) {
		ERR_clear_error();
		int r = SSL_connect(channel->tls);
		if (r == 1)
			return 0;
		int why = SSL_get_error(channel->tls, r);
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			return handshake_failed(client, channel, err);
		int ready = client_wait(client, channel->fd, why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, err);
		if (ready < 0)
			return ready;
	}
}

static int start_tls(struct net_client *client, struct client_channel *channel, bool http2, struct error *err)
{
	static const unsigned char h2[] = "\x02h2", http1[] = "\x08http/1.1";
	int r = client->tls ? 0 : tls_of_system(&client->tls, err);
	if (r == 0)
		r = tls_open(client->tls, &channel->tls, err);
	if (r < 0)
		return r;
	r = SSL_set_alpn_protos(channel->tls, http2 ? h2 : http1, http2 ? sizeof(h2) - 1 : sizeof(http1) - 1) ? -ENOMEM : 0;
	if (r == 0)
		r = set_peer(client, channel->tls);
	if (r == 0)
		r = tls_attach_bytes(channel->tls, &of_socket, channel);
	if (r < 0)
		return error_set_errno(err, r, "cannot start TLS with %s", client->url);
	struct tls_sessions *sessions = tls_sessions_of(client->tls);
	if (sessions)
		tls_sessions_resume(sessions, channel->tls, client->tls_peer);
	r = shake_hands(client, channel, err);
	if (r < 0 && sessions)
		tls_sessions_drop(sessions, client->tls_peer);
	return r;
}

/* ---- opening and closing ---- */

static int connect_failed(const struct net_client *client, int code, struct error *err)
{
	if (client->has_proxy)
		return error_set_errno(err, code, "cannot connect to the proxy %s, for %s", client->proxy.name, client->url);
	return client_failed(client, code, "cannot connect to", err);
}

static int connect_to(struct net_client *client, const struct addrinfo *to, struct error *err)
{
	int fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
	if (fd < 0)
		return connect_failed(client, -errno, err);
	int code = connect(fd, to->ai_addr, to->ai_addrlen) < 0 ? errno : 0;
	if (code == EINPROGRESS) {
		int ready = client_wait(client, fd, POLLOUT, err);
		if (ready < 0) {
			close(fd);
			return client->has_proxy ? error_prefix(err, ready, "proxy %s", client->proxy.name) : ready;
		}
		socklen_t len = sizeof(code);
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
			code = errno;
	}
	if (code) {
		close(fd);
		return connect_failed(client, -code, err);
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

/* A socket of the file system connects at once or not at all; EAGAIN says that too many wait to be accepted. */
static int connect_unix(struct net_client *client, struct error *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	memcpy(address.sun_path, client->unix_path, strlen(client->unix_path));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int code = fd < 0 ? errno : EAGAIN;
	while (fd >= 0 && code == EAGAIN) {
		code = connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
		if (code != EAGAIN)
			break;
		if (cancel_requested(client->cancel))
			code = ECANCELED;
		else if (time_monotonic_ns() >= client->deadline_ns)
			code = ETIMEDOUT;
		else
			time_sleep_ns(UNIX_RETRY_NS);
	}
	if (code == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return connect_failed(client, -code, err);
}

static int connect_tcp(struct net_client *client, struct error *err)
{
	struct addrinfo *found;
	int code = address_resolve(client->has_proxy ? &client->proxy.address : &client->address, 0, &found);
	if (code && client->has_proxy)
		return error_set(err, -EHOSTUNREACH, "cannot connect to the proxy %s, for %s: %s", client->proxy.name,
				 client->url, gai_strerror(code));
	if (code)
		return error_set(err, -EHOSTUNREACH, "cannot connect to %s: %s", client->url, gai_strerror(code));
	int fd = -EHOSTUNREACH;
	for (const struct addrinfo *to = found; to && fd < 0 && fd != -ETIMEDOUT && fd != -ECANCELED; to = to->ai_next)
		fd = connect_to(client, to, err);
	freeaddrinfo(found);
	return fd;
}

int channel_open(struct net_client *client, struct client_channel *channel, bool http2, struct error *err)
{
	int fd = client->unix_path ? connect_unix(client, err) : connect_tcp(client, err);
	if (fd < 0)
		return fd;
	*channel = (struct client_channel){.fd = fd};
	int r = client->has_proxy && (client->address.tls || http2) ? client_open_tunnel(client, channel, err) : 0;
	if (r == 0 && client->address.tls)
		r = start_tls(client, channel, http2, err);
	if (r < 0)
		channel_close(channel);
	return r;
}

/* The goodbye is one small record; if there is no room for it the server must do without. */
void channel_close(struct client_channel *channel)
{
	if (channel->tls) {
		ERR_clear_error();
		if (!channel->fault && SSL_is_init_finished(channel->tls))
			SSL_shutdown(channel->tls);
		SSL_free(channel->tls);
		ERR_clear_error();
	}
	if (channel->fd >= 0)
		close(channel->fd);
	*channel = (struct client_channel){.fd = -1};
}

/* ---- bytes ---- */

/* What an operation of OpenSSL that returned n <= 0 means. */
static ssize_t tls_result(struct net_client *client, struct client_channel *channel, int n, struct error *err)
{
	char reason[160];
	switch (SSL_get_error(channel->tls, n)) {
	case SSL_ERROR_WANT_READ: return -EAGAIN;
	case SSL_ERROR_WANT_WRITE: channel->wants_write = true; return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN: return -ECONNRESET;
	}
	if (channel->fault)
		return channel->fault;
	if (channel->eof)
		return -ECONNABORTED;
	channel->fault = -EPROTO;
	return error_set(err, -EPROTO, "TLS with %s failed: %s", client->url, tls_reason(reason, sizeof(reason)));
}

int channel_wait(struct net_client *client, struct client_channel *channel, short events, struct error *err)
{
	if (channel->tls && (events & POLLIN) && SSL_pending(channel->tls) > 0)
		return POLLIN;
	bool also_write = channel->wants_write;
	channel->wants_write = false;
	int ready = client_wait(client, channel->fd, also_write ? (short)(events | POLLOUT) : events, err);
	return ready > 0 && also_write ? ready | POLLIN : ready;
}

ssize_t channel_send(struct net_client *client, struct client_channel *channel, const void *data, size_t len, bool more,
		     struct error *err)
{
	if (channel->tls) {
		ERR_clear_error();
		int n = SSL_write(channel->tls, data, len > INT32_MAX ? INT32_MAX : (int)len);
		ssize_t r = n > 0 ? n : tls_result(client, channel, n, err);
		return r == -EAGAIN ? 0 : r;
	}
	ssize_t n = send(channel->fd, data, len, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
	if (n >= 0)
		return n;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

ssize_t channel_receive(struct net_client *client, struct client_channel *channel, struct error *err)
{
	if (channel->tls) {
		ERR_clear_error();
		int n = SSL_read(channel->tls, client->read_buffer, sizeof(client->read_buffer));
		return n > 0 ? n : tls_result(client, channel, n, err);
	}
	ssize_t n = recv(channel->fd, client->read_buffer, sizeof(client->read_buffer), 0);
	if (n > 0)
		return n;
	if (n == 0)
		return -ECONNRESET;
	return errno == EINTR ? -EAGAIN : -errno;
}

bool channel_has_input(struct net_client *client, struct client_channel *channel)
{
	struct pollfd poll_fd = {.fd = channel->fd, .events = POLLIN};
	if (!channel->tls)
		return poll(&poll_fd, 1, 0) != 0;
	uint8_t byte;
	ERR_clear_error();
	int n = SSL_peek(channel->tls, &byte, 1);
	return n > 0 || tls_result(client, channel, n, NULL) != -EAGAIN;
}
