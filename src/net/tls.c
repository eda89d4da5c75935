/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS: which rules a session has, and the files that it is made of.
 *
 * Rules, the same for both sides: TLS 1.2 or 1.3 (RFC 8446; RFC 8996 buries what is older), in 1.2 only suites with forward
 * secrecy and AEAD, which is also what HTTP/2 asks for (RFC 9113, section 9.2.2). No renegotiation, which costs the server more
 * than the peer; no compression, which leaks (CRIME). Sessions are resumed by tickets (tls_sessions.c). No early data.
 *
 * Files change under a process that runs for months: certificates of an hour are common. A context is therefore made anew
 * when the identity, size or time of a file is another than when it was read. Sessions keep the context they were made
 * with (it counts its users). Changing a certificate and its key is not atomic, so a pair that does not fit is not an error
 * yet: the last good context stays, and the files are tried again when they next change or a second later.
 */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/thread.h"
#include "base/time.h"
#include "net/tls_int.h"

#define FILES	      3
#define LOOK_NS	      NS_PER_S
#define PEM_BYTES_MAX ((size_t)4 * 1024 * 1024)
#define SUITES_1_2    "ECDHE+AESGCM:ECDHE+CHACHA20"

struct stamp {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified;
};

struct net_tls {
	bool is_server, insecure, peer_optional, no_resumption;
	struct tls_sessions sessions;
	char *files[FILES]; /* CA, certificate, key; NULL = none */
	char *server_name;
	pthread_mutex_t lock;
	SSL_CTX *context;	    /* lock */
	struct stamp stamps[FILES]; /* lock; of what context was made of */
	bool stale;		    /* lock; the files as they are could not be loaded */
	int64_t looked_ns;	    /* lock */
};

const char *tls_reason(char *out, size_t size)
{
	unsigned long code = ERR_get_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;
	if (code && ERR_SYSTEM_ERROR(code))
		snprintf(out, size, "%s", strerror(ERR_GET_REASON(code)));
	else
		snprintf(out, size, "%s", text ? text : "unknown error");
	ERR_clear_error();
	return out;
}

const char *tls_server_name(const struct net_tls *tls)
{
	return tls->server_name;
}

/* ---- files ---- */

static int bad_file(const char *what, const char *path, struct error *err)
{
	char reason[160];
	tls_reason(reason, sizeof(reason));
	return error_set(err, -EINVAL, "cannot use %s %s: %s", what, path, reason);
}

/* A file that this process may not open, but get the contents of (io_open_instead): a copy in memory, for OpenSSL, which takes
 * names only. */
struct copy {
	int fd; /* -1 = the file itself */
	char name[32];
};

static void copy_release(struct copy *copy)
{
	fd_closep(&copy->fd);
}

static const char *copy_if_needed(const char *path, struct copy *ret)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	if (!io_open_instead || access(path, R_OK) == 0 || io_read_file(path, PEM_BYTES_MAX, &text, NULL) < 0)
		return path;
	ret->fd = memfd_create("wick-pem", MFD_CLOEXEC);
	if (ret->fd < 0 || io_write(ret->fd, text.data, text.len, path, NULL) < 0)
		return path;
	explicit_bzero(text.data, text.len);
	snprintf(ret->name, sizeof(ret->name), "/proc/self/fd/%d", ret->fd);
	return ret->name;
}

static int load_own(SSL_CTX *context, const char *cert, const char *key, struct error *err)
{
	_cleanup_(copy_release) struct copy cert_copy = {.fd = -1}, key_copy = {.fd = -1};
	if (SSL_CTX_use_certificate_chain_file(context, copy_if_needed(cert, &cert_copy)) != 1)
		return bad_file("the certificate", cert, err);
	if (SSL_CTX_use_PrivateKey_file(context, copy_if_needed(key ? key : cert, &key_copy), SSL_FILETYPE_PEM) != 1)
		return bad_file("the key", key ? key : cert, err);
	if (SSL_CTX_check_private_key(context) != 1)
		return bad_file("the key", key ? key : cert, err);
	return 0;
}

/* Those of this system. A static program has the folders of the distribution that it was built on in it, where another one has
 * none: it looks for the file that the others have. */
static int load_system_authorities(SSL_CTX *context, struct error *err)
{
#ifdef WICK_STATIC
	static const char *const files[] = {
		"/etc/ssl/certs/ca-certificates.crt",		     /* Debian, Ubuntu, Arch, Gentoo */
		"/etc/ssl/cert.pem",				     /* Alpine */
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, Red Hat */
		"/etc/ssl/ca-bundle.pem",			     /* openSUSE */
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files) && !getenv(X509_get_default_cert_file_env()); i++)
		if (access(files[i], R_OK) == 0)
			return SSL_CTX_load_verify_file(context, files[i]) == 1
				       ? 0
				       : bad_file("the CA certificates in", files[i], err);
#endif
	if (SSL_CTX_set_default_verify_paths(context) != 1)
		return bad_file("the CA certificates of", "this system", err);
	return 0;
}

static int load_authorities(const struct net_tls *tls, SSL_CTX *context, struct error *err)
{
	const char *file = tls->files[0];
	if (!file)
		return tls->is_server || tls->insecure ? 0 : load_system_authorities(context, err);
	_cleanup_(copy_release) struct copy copy = {.fd = -1};
	const char *name = copy_if_needed(file, &copy);
	if (SSL_CTX_load_verify_file(context, name) != 1)
		return bad_file("the CA certificates in", file, err);
	if (!tls->is_server)
		return 0;
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(name);
	if (!names)
		return bad_file("the CA certificates in", file, err);
	SSL_CTX_set_client_CA_list(context, names);
	return 0;
}

/* A key with a password must not make the process ask on its terminal. */
static int no_password(char *out, int size, int writing, void *context)
{
	return -1;
}

/* The server's pick of what the peer offers (RFC 7301): HTTP/2 if it can. No overlap: go on without. */
static int choose_alpn(SSL *session, const unsigned char **out, unsigned char *out_len, const unsigned char *offered,
		       unsigned int offered_len, void *context)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	unsigned char *chosen;
	if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, offered, offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static void set_rules(struct net_tls *tls, SSL_CTX *context)
{
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
					     SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	if (tls->no_resumption) {
		SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
		SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
		SSL_CTX_set_num_tickets(context, 0);
	} else {
		tls_sessions_set_up(&tls->sessions, context, tls->is_server);
	}
	SSL_CTX_set_default_passwd_cb(context, no_password);
	if (tls->is_server) {
		SSL_CTX_set_alpn_select_cb(context, choose_alpn, NULL);
		int required = tls->peer_optional ? 0 : SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
		SSL_CTX_set_verify(context, tls->files[0] ? SSL_VERIFY_PEER | required : SSL_VERIFY_NONE, NULL);
	} else {
		SSL_CTX_set_verify(context, tls->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	}
}

static int make_context(struct net_tls *tls, SSL_CTX **ret, struct error *err)
{
	ERR_clear_error();
	SSL_CTX *context = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
	if (!context || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(context, SUITES_1_2) != 1) {
		SSL_CTX_free(context);
		return bad_file("TLS of", OpenSSL_version(OPENSSL_VERSION), err);
	}
	set_rules(tls, context);
	int r = tls->files[1] ? load_own(context, tls->files[1], tls->files[2], err) : 0;
	if (r == 0)
		r = load_authorities(tls, context, err);
	if (r < 0)
		SSL_CTX_free(context);
	else
		*ret = context;
	return r;
}

/* The file that OpenSSL reads them from. Its directory of them needs no look: it is asked at each handshake. */
static const char *system_authorities(void)
{
	const char *named = getenv(X509_get_default_cert_file_env());
	return named ? named : X509_get_default_cert_file();
}

static void look(const struct net_tls *tls, struct stamp stamps[static FILES])
{
	memset(stamps, 0, FILES * sizeof(*stamps));
	for (size_t i = 0; i < FILES; i++) {
		struct stat status;
		bool is_system = i == 0 && !tls->files[0] && !tls->is_server && !tls->insecure;
		const char *file = is_system ? system_authorities() : tls->files[i];
		if (file && io_stat(file, &status) == 0)
			stamps[i] = (struct stamp){status.st_dev, status.st_ino, status.st_size, status.st_mtim};
	}
}

static bool stamps_equal(const struct stamp *a, const struct stamp *b)
{
	for (size_t i = 0; i < FILES; i++)
		if (a[i].device != b[i].device || a[i].inode != b[i].inode || a[i].size != b[i].size ||
		    a[i].modified.tv_sec != b[i].modified.tv_sec || a[i].modified.tv_nsec != b[i].modified.tv_nsec)
			return false;
	return true;
}

/* Under the lock. The stamps are of before reading: what changes meanwhile is read again. */
static int refresh(struct net_tls *tls, bool always, struct error *err)
{
	struct stamp stamps[FILES];
	SSL_CTX *context = NULL;
	look(tls, stamps);
	if (!always && tls->context && !tls->stale && stamps_equal(stamps, tls->stamps))
		return 0;
	int r = make_context(tls, &context, err);
	tls->stale = r < 0;
	if (r < 0)
		return r;
	SSL_CTX_free(tls->context);
	tls->context = context;
	tls_sessions_forget(&tls->sessions); /* the peer was trusted by the rules before */
	memcpy(tls->stamps, stamps, sizeof(stamps));
	return 0;
}

int net_tls_reload(struct net_tls *tls, struct error *err)
{
	THREAD_LOCK_SCOPE(&tls->lock);
	return refresh(tls, true, err);
}

static long control_bytes(BIO *bio, int command, long number, void *pointer)
{
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(const struct tls_bytes *bytes)
{
	BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, bytes->name);
	if (!method)
		return NULL;
	BIO_meth_set_read(method, bytes->read);
	BIO_meth_set_write(method, bytes->write);
	BIO_meth_set_ctrl(method, control_bytes);
	return method;
}

int tls_attach_bytes(SSL *session, struct tls_bytes *bytes, void *data)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	THREAD_LOCK_SCOPE(&lock);
	if (!bytes->method)
		bytes->method = make_method(bytes);
	BIO *bio = bytes->method ? BIO_new(bytes->method) : NULL;
	if (!bio)
		return -ENOMEM;
	BIO_set_data(bio, data);
	BIO_set_init(bio, 1);
	SSL_set_bio(session, bio, bio);
	return 0;
}

int tls_open(struct net_tls *tls, SSL **ret, struct error *err)
{
	THREAD_LOCK_SCOPE(&tls->lock);
	int64_t now_ns = time_monotonic_ns();
	if (now_ns - tls->looked_ns >= LOOK_NS) {
		tls->looked_ns = now_ns;
		refresh(tls, false, NULL);
	}
	ERR_clear_error();
	*ret = SSL_new(tls->context);
	return *ret ? 0 : error_nomem(err);
}

/* ---- making ---- */

static int new_tls(const struct net_tls_options *options, bool is_server, struct net_tls **ret, struct error *err)
{
	const char *files[FILES] = {options->ca_file, options->cert_file, options->key_file};
	if (is_server && !options->cert_file)
		return error_set(err, -EINVAL, "a server with TLS needs a certificate and its key");
	if (options->key_file && !options->cert_file)
		return error_set(err, -EINVAL, "the key %s needs its certificate", options->key_file);
	struct net_tls *tls = mem_zalloc(sizeof(*tls));
	if (!tls)
		return error_nomem(err);
	pthread_mutex_init(&tls->lock, NULL);
	tls->is_server = is_server;
	tls->insecure = options->insecure;
	tls->peer_optional = options->peer_optional;
	tls->no_resumption = options->no_resumption;
	tls_sessions_init(&tls->sessions);
	tls->looked_ns = time_monotonic_ns();
	bool whole = true;
	for (size_t i = 0; i < FILES; i++)
		whole &= !files[i] || (tls->files[i] = mem_strdup(files[i]));
	whole &= !options->server_name || (tls->server_name = mem_strdup(options->server_name));
	int r = whole ? net_tls_reload(tls, err) : error_nomem(err);
	if (r < 0)
		net_tls_free(tls);
	else
		*ret = tls;
	return r;
}

int net_tls_new_client(const struct net_tls_options *options, struct net_tls **ret, struct error *err)
{
	return new_tls(options, false, ret, err);
}

int net_tls_new_server(const struct net_tls_options *options, struct net_tls **ret, struct error *err)
{
	return new_tls(options, true, ret, err);
}

struct tls_sessions *tls_sessions_of(struct net_tls *tls)
{
	return tls->no_resumption ? NULL : &tls->sessions;
}

int tls_of_system(struct net_tls **ret, struct error *err)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct net_tls *shared;
	const struct net_tls_options options = {0};
	THREAD_LOCK_SCOPE(&lock);
	int r = shared ? 0 : net_tls_new_client(&options, &shared, err);
	if (r == 0)
		*ret = shared;
	return r;
}

struct net_tls *net_tls_free(struct net_tls *tls)
{
	if (!tls)
		return NULL;
	SSL_CTX_free(tls->context);
	tls_sessions_release(&tls->sessions);
	for (size_t i = 0; i < FILES; i++)
		mem_free(tls->files[i]);
	mem_free(tls->server_name);
	pthread_mutex_destroy(&tls->lock);
	return mem_free(tls);
}
