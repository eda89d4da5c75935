/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/net: sessions of TLS. tls.c has the files and the rules, tls_sessions.c how sessions are resumed;
 * client_channel.c and server_tls.c the bytes. */
#ifndef WICK_NET_TLS_INT_H
#define WICK_NET_TLS_INT_H

#include <openssl/ssl.h>
#include <pthread.h>

#include "net/net.h"

/* A session under the files as they are now; the caller gives it its BIOs and frees it. */
int tls_open(struct net_tls *tls, SSL **ret, struct error *err);
/* For clients that are given none. One for the whole process, never freed: to read a system's authorities takes 50 ms of CPU
 * time and a megabyte. */
int tls_of_system(struct net_tls **ret, struct error *err);
/* What clients check the peer's certificate for. NULL = the name of the URL, unless the options name another. */
const char *tls_server_name(const struct net_tls *tls);
/* Has the session read and write by these functions, which get `data` from BIO_get_data(). Any thread. -ENOMEM. */
struct tls_bytes {
	const char *name;
	int (*read)(BIO *bio, char *out, int size);
	int (*write)(BIO *bio, const char *data, int size);
	BIO_METHOD *method; /* private: made with the first session, and kept */
};
int tls_attach_bytes(SSL *session, struct tls_bytes *bytes, void *data);
/* What OpenSSL's queue of errors of this thread says first, emptied; "unknown" if it is empty. A static string or in `out`. */
const char *tls_reason(char *out, size_t size);

/* ---- tls_sessions.c ---- */
#define TLS_REMEMBERED_MAX 64
struct tls_ticket_key {
	uint8_t name[16], cipher[32], mac[32];
	int64_t made_ns; /* monotonic; 0 = none */
};
struct tls_sessions {
	pthread_mutex_t lock;
	struct tls_ticket_key keys[2]; /* servers: the present one, the one before */
	struct tls_remembered {	       /* clients: by whom they talked to */
		char *peer;
		SSL_SESSION *session;
		uint64_t used;
	} remembered[TLS_REMEMBERED_MAX];
	uint64_t clock;
};
void tls_sessions_init(struct tls_sessions *sessions);
void tls_sessions_release(struct tls_sessions *sessions);
/* What a new context does about sessions. `sessions` outlives it. */
void tls_sessions_set_up(struct tls_sessions *sessions, SSL_CTX *context, bool is_server);
void tls_sessions_forget(struct tls_sessions *sessions);   /* those of clients */
struct tls_sessions *tls_sessions_of(struct net_tls *tls); /* NULL = none are resumed */
/* Clients, before the handshake: `peer` ("HOST:PORT NAME") must live as long as tls does. Resumes a session with it, if one is
 * remembered, and remembers the next. */
void tls_sessions_resume(struct tls_sessions *sessions, SSL *tls, const char *peer);
void tls_sessions_set_peer(SSL *tls, const char *peer); /* likewise; NULL = what comes is not remembered */
/* The handshake failed: the session may be why. */
void tls_sessions_drop(struct tls_sessions *sessions, const char *peer);
/* Tests: makes a new key for tickets now, as after the time of one. */
void tls_sessions_rotate(struct tls_sessions *sessions);

#endif
