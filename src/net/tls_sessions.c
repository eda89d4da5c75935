/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resumption of TLS sessions: a peer that comes again shows a ticket instead of having everything signed and checked once more,
 * which is what a server computes most on when thousands of agents come at a time.
 *
 * The server keeps no sessions. A ticket (RFC 8446, section 4.6.1; RFC 5077) is the session itself, encrypted (AES-256-CBC) and
 * authenticated (HMAC-SHA256) under a key that only this process has. There are two keys: tickets are made with the present
 * one, which is replaced after KEY_NS, and the one before is taken too, so that a ticket is good for its whole life, which
 * is as long, whenever it was made. A restart, and thus a stolen disk, has none of them. In TLS 1.3 each resumption has its own
 * exchange of keys: a stolen ticket key reads nothing of what was recorded.
 *
 * A ticket does not stand for trust. It holds the client's certificate, which is checked again at each resumption, against the
 * authorities and the time as they are then. If it is not good any more, or cannot be checked because its issuer came beside
 * it (a ticket holds one certificate, no chain), or the server now wants a certificate and the ticket has none, the ticket is
 * ignored: the handshake is a full one, with all its checks. Tokens are no part of a session, they come with each request.
 *
 * The client remembers the last session of each peer that it talks to with the same struct net_tls, so that several connections
 * of a process share it. When its own files change, all are forgotten: what trusted the peer was another rule. A session ends
 * with the certificate that the peer had.
 *
 * Rejected: early data (it can be replayed); ticket keys in a file, for restarts and several servers (whoever reads it reads
 * TLS 1.2, and takes any session's place).
 */
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "net/tls_int.h"

#define KEY_NS (6 * 3600 * NS_PER_S)

static int sessions_index = -1, peer_index = -1;

static void make_indexes(void)
{
	sessions_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	peer_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

static struct tls_sessions *sessions_of(SSL *tls)
{
	return SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), sessions_index);
}

/* ---- keys of tickets ---- */

/* Under the lock. */
static bool make_key(struct tls_sessions *sessions, int64_t now_ns)
{
	struct tls_ticket_key key = {.made_ns = now_ns};
	if (RAND_bytes(key.name, sizeof(key.name)) != 1 || RAND_bytes(key.cipher, sizeof(key.cipher)) != 1 ||
	    RAND_bytes(key.mac, sizeof(key.mac)) != 1)
		return false;
	sessions->keys[1] = sessions->keys[0];
	sessions->keys[0] = key;
	OPENSSL_cleanse(&key, sizeof(key));
	return true;
}

void tls_sessions_rotate(struct tls_sessions *sessions)
{
	THREAD_LOCK_SCOPE(&sessions->lock);
	make_key(sessions, time_monotonic_ns());
}

/* 1 = *ret is the key of that name, 2 = likewise, and it is time for a new ticket, 0 = there is none. name NULL: the present
 * one. */
static int find_key(struct tls_sessions *sessions, const unsigned char *name, struct tls_ticket_key *ret)
{
	THREAD_LOCK_SCOPE(&sessions->lock);
	int64_t now_ns = time_monotonic_ns();
	struct tls_ticket_key *keys = sessions->keys;
	if (!keys[0].made_ns || now_ns - keys[0].made_ns > KEY_NS) {
		if (!make_key(sessions, now_ns))
			return 0;
	}
	for (int i = 0; i < 2; i++) {
		bool is_old = now_ns - keys[i].made_ns > 2 * KEY_NS;
		if (!keys[i].made_ns || is_old || (name && memcmp(keys[i].name, name, sizeof(keys[i].name)) != 0))
			continue;
		*ret = keys[i];
		return 1 + i;
	}
	return 0;
}

static bool set_mac(EVP_MAC_CTX *mac, struct tls_ticket_key *key)
{
	char digest[] = "SHA256";
	OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac, sizeof(key->mac)),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	return EVP_MAC_CTX_set_params(mac, parameters) == 1;
}

/* SSL_CTX_set_tlsext_ticket_key_evp_cb(3): 0 = no ticket, or one that cannot be read. */
static int on_ticket_key(SSL *tls, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
			 int encrypt)
{
	struct tls_sessions *sessions = sessions_of(tls);
	struct tls_ticket_key key;
	int found = sessions ? find_key(sessions, encrypt ? NULL : name, &key) : 0;
	if (!found)
		return 0;
	bool done = set_mac(mac, &key);
	if (encrypt) {
		memcpy(name, key.name, sizeof(key.name));
		done = done && RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 &&
		       EVP_EncryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1;
	} else {
		done = done && EVP_DecryptInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv) == 1;
	}
	OPENSSL_cleanse(&key, sizeof(key));
	return done ? found : -1;
}

/* ---- whether a session may be resumed ---- */

/* By the authorities of the present context, and now. */
static bool is_trusted(SSL *tls, X509 *certificate)
{
	X509_STORE_CTX *check = X509_STORE_CTX_new();
	bool trusted = check &&
		       X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(SSL_get_SSL_CTX(tls)), certificate, NULL) == 1 &&
		       X509_STORE_CTX_set_default(check, "ssl_client") == 1 && X509_verify_cert(check) == 1;
	X509_STORE_CTX_free(check);
	ERR_clear_error();
	return trusted;
}

static bool may_resume(SSL *tls, SSL_SESSION *session)
{
	X509 *certificate = SSL_SESSION_get0_peer(session);
	int mode = SSL_get_verify_mode(tls);
	if (certificate)
		return (mode & SSL_VERIFY_PEER) && is_trusted(tls, certificate);
	/* Who came without one may have one now. */
	return !(mode & SSL_VERIFY_PEER);
}

static SSL_TICKET_RETURN on_ticket(SSL *tls, SSL_SESSION *session, const unsigned char *name, size_t name_len,
				   SSL_TICKET_STATUS status, void *context)
{
	bool usable = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;
	if (!usable || !session || !may_resume(tls, session))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return SSL_TICKET_RETURN_USE_RENEW; /* a ticket is used once: here is the next */
}

static int on_new_ticket(SSL *tls, void *context)
{
	return 1;
}

/* ---- clients ---- */

static void forget(struct tls_remembered *entry)
{
	SSL_SESSION_free(entry->session);
	entry->peer = mem_free(entry->peer);
	*entry = (struct tls_remembered){0};
}

/* Under the lock: its place, or with `make` one that may be used for it. */
static struct tls_remembered *find(struct tls_sessions *sessions, const char *peer, bool make)
{
	struct tls_remembered *oldest = &sessions->remembered[0];
	for (size_t i = 0; i < TLS_REMEMBERED_MAX; i++) {
		struct tls_remembered *entry = &sessions->remembered[i];
		if (entry->peer && strcmp(entry->peer, peer) == 0)
			return entry;
		if (entry->used < oldest->used)
			oldest = entry;
	}
	return make ? oldest : NULL;
}

/* 1 = the session is ours now. */
static int on_new_session(SSL *tls, SSL_SESSION *session)
{
	const char *peer = SSL_get_ex_data(tls, peer_index);
	struct tls_sessions *sessions = sessions_of(tls);
	if (!peer || !sessions || !SSL_SESSION_is_resumable(session))
		return 0;
	THREAD_LOCK_SCOPE(&sessions->lock);
	struct tls_remembered *entry = find(sessions, peer, true);
	char *name = mem_strdup(peer);
	if (!name)
		return 0;
	forget(entry);
	*entry = (struct tls_remembered){.peer = name, .session = session, .used = ++sessions->clock};
	return 1;
}

static bool certificate_has_expired(const SSL_SESSION *session)
{
	const X509 *certificate = SSL_SESSION_get0_peer((SSL_SESSION *)session);
	return certificate && X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0;
}

void tls_sessions_set_peer(SSL *tls, const char *peer)
{
	SSL_set_ex_data(tls, peer_index, (void *)peer);
}

void tls_sessions_resume(struct tls_sessions *sessions, SSL *tls, const char *peer)
{
	THREAD_LOCK_SCOPE(&sessions->lock);
	struct tls_remembered *entry = find(sessions, peer, false);
	tls_sessions_set_peer(tls, peer);
	if (!entry)
		return;
	if (certificate_has_expired(entry->session)) {
		forget(entry);
		return;
	}
	entry->used = ++sessions->clock;
	SSL_set_session(tls, entry->session);
}

void tls_sessions_drop(struct tls_sessions *sessions, const char *peer)
{
	THREAD_LOCK_SCOPE(&sessions->lock);
	struct tls_remembered *entry = find(sessions, peer, false);
	if (entry)
		forget(entry);
}

void tls_sessions_forget(struct tls_sessions *sessions)
{
	THREAD_LOCK_SCOPE(&sessions->lock);
	for (size_t i = 0; i < TLS_REMEMBERED_MAX; i++)
		forget(&sessions->remembered[i]);
}

/* ---- life ---- */

void tls_sessions_init(struct tls_sessions *sessions)
{
	pthread_mutex_init(&sessions->lock, NULL);
}

void tls_sessions_release(struct tls_sessions *sessions)
{
	tls_sessions_forget(sessions);
	OPENSSL_cleanse(sessions->keys, sizeof(sessions->keys));
	pthread_mutex_destroy(&sessions->lock);
}

void tls_sessions_set_up(struct tls_sessions *sessions, SSL_CTX *context, bool is_server)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static const unsigned char id[] = "wick";
	pthread_once(&once, make_indexes);
	SSL_CTX_set_ex_data(context, sessions_index, sessions);
	SSL_CTX_set_timeout(context, (long)(KEY_NS / NS_PER_S));
	if (!is_server) {
		SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(context, on_new_session);
		return;
	}
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 1);
	SSL_CTX_set_session_id_context(context, id, sizeof(id) - 1);
	SSL_CTX_set_tlsext_ticket_key_evp_cb(context, on_ticket_key);
	SSL_CTX_set_session_ticket_cb(context, on_new_ticket, on_ticket, NULL);
}
