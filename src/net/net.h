/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One port for HTTP/1.1, HTTP/2 and gRPC, in the clear (HTTP/2 by prior knowledge) or under TLS; one stack for the server and
 * the client side.
 *
 * The event loop (libuv) owns all sockets and parsers (llhttp, nghttp2). A request's handler runs on a worker thread with
 * the whole, decompressed body and fills a response; the loop sends it. A streaming handler is called once a message as
 * messages arrive, never concurrently for one stream. Nothing here knows what the bytes mean.
 *
 * Limits: header bytes, body bytes on the wire and after decompression, time for header, body and idle connections, number of
 * connections, streams a connection, queued work. What is over is answered 431, 413 (gRPC RESOURCE_EXHAUSTED), 408, 503, and
 * counted.
 */
#ifndef WICK_NET_NET_H
#define WICK_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/budget.h"
#include "base/buffer.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/error.h"

/* gRPC status codes (google.rpc.Code) */
enum grpc_code {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_ALREADY_EXISTS = 6,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_UNAUTHENTICATED = 16,
};

struct net_request; /* opaque; lives until the handler returns (streams: until on_end) */
const char *net_request_method(const struct net_request *request); /* "GET" */
const char *
net_request_path(const struct net_request *request); /* percent-decoded, without the query; always starts with '/' */
const char *net_request_target(const struct net_request *request); /* as it came: path and query */
/* First value of a query parameter, percent-decoded; NULL if absent. */
const char *net_request_query(const struct net_request *request, const char *name);
/* n-th value (from 0) of a repeated parameter. */
const char *net_request_query_nth(const struct net_request *request, const char *name, size_t n);
const char *net_request_header(const struct net_request *request, const char *name); /* case-insensitive; NULL if absent */
/* Whether the header Accept lists this very media type, with a weight above 0. */
bool net_request_accepts(const struct net_request *request, const char *media_type);
bool net_request_takes_gzip(const struct net_request *request);	  /* for answers that are compressed already */
struct bytes net_request_body(const struct net_request *request); /* decompressed (gzip, zstd by Content-Encoding); gRPC unary:
								     the one message, unframed and decompressed */
bool net_request_is_grpc(const struct net_request *request);
bool net_request_is_loopback(const struct net_request *request);	 /* the peer's address */
uint64_t net_request_peer(const struct net_request *request);		 /* a number for the peer's address, without the port */
const char *net_request_peer_address(const struct net_request *request); /* "10.1.2.3", "::1"; "" = unknown */
/* It came from one of options.trusted_proxies: the peer above is the client's, as the proxy says, and its X-Forwarded-Host and
 * X-Forwarded-Proto may be believed. */
bool net_request_is_by_proxy(const struct net_request *request);
/* The path is options.path_prefix without a '/' behind it: relative links would lead elsewhere. */
bool net_request_is_at_prefix(const struct net_request *request);
/* What the route says that a caller needs (struct net_route); 0 = there is no route for path and method. */
unsigned net_request_permission(const struct net_request *request);
/* For options.authorize: memory that lives as long as the request, zeroed, at most once for each request; NULL without memory.
 * Handlers find it again by net_request_attached(): NULL = nothing was attached. */
void *net_request_attach(struct net_request *request, size_t size);
void *net_request_attached(const struct net_request *request);
/* For options.authorize: the caller has shown who it is; its connection counts as known from now on. */
void net_request_set_known(struct net_request *request);
/* For options.authorize only, of a connection from loopback: the user id of the process at the other end, or of what forwards
 * it (peer_user.c). Negative: it cannot be known, or the client is gone. */
int net_request_peer_user(struct net_request *request, unsigned *ret_uid, struct error *err);
/* For options.authorize only: the n-th name (from 0) of the peer's certificate, which its authority has confirmed: the common
 * name of the subject, if it has one, then the alternative names (DNS, URI, e-mail). NULL after the last, and without a
 * certificate. */
const char *net_request_certificate_name(const struct net_request *request, size_t n);
/* For options.on_refusal: it had been handed to a worker, so that what it is for may have been done all the same. */
bool net_request_was_started(const struct net_request *request);
/* Set to true by the loop when the client has gone away or time is over; long work polls it. */
const atomic_bool *net_request_cancelled(const struct net_request *request);

struct net_response {
	int status;		    /* HTTP; 200 by default. For gRPC it is always 200 on the wire. */
	enum grpc_code grpc_status; /* gRPC only */
	struct buffer body;	    /* HTTP: the body. gRPC unary: one message, unframed */
	const char *content_type;   /* static string; "application/json" by default */
	char message[512];	    /* grpc-message; "" = none */
	bool no_compress;	    /* already compressed; otherwise bodies over 1 KiB are gzipped if the client accepts it */
	struct buffer headers;	    /* filled by net_response_header() only */
	struct budget *budget;	    /* of net_response_limit(); NULL = none */
	struct net_exchange *exchange; /* of net; NULL = nothing is sent before the handler returns */
};
/* For callers of handlers other than the server (tests); the server does both itself. */
void net_response_init(struct net_response *response);
void net_response_release(struct net_response *response);
/* Adds a header; name and value are copied; refused (-EINVAL) if they hold CR, LF or NUL, or if the name is one that frames
 * the message (Content-Length, Transfer-Encoding, Connection, Keep-Alive, Upgrade). -E2BIG past 16 KiB of headers. */
int net_response_header(struct net_response *response, const char *name, const char *value);

/*
 * For a handler whose work is to be limited: what this thread allocates from here on, until the answer is complete (compressed,
 * that is), is charged to a budget that begins as `like`. What the body takes stays charged to the budget's pool until it has
 * been sent. -ENOMEM: nothing is limited.
 */
int net_response_limit(struct net_response *response, const struct budget *like);
/* The work is over before the answer is complete: what follows, such as the text of an error, is not limited. */
void net_response_unlimit(struct net_response *response);

/*
 * A long answer is sent while it is made. Called by the handler between two parts of the body, when status and headers are what
 * they shall be: what is in the body, if it is NET_FLUSH_BYTES or more, goes out, and the body is empty again. Shorter ones
 * stay, so that an answer that is shorter as a whole has a length. Waits while the client is behind (flow.c says how long).
 *
 * 0; -EAGAIN: too much is being sent to others, and nothing of this has been (net answers with 503, whatever else the handler
 * says); -ECANCELED: the client has gone, or is too slow; -ENOMEM. After a failure the handler ends as after any other: if part
 * of the answer is out already, the client sees that it broke off. So it does if the status is another when the handler
 * returns.
 */
#define NET_FLUSH_BYTES ((size_t)256 * 1024)
int net_response_flush(struct net_response *response);
/* How long it has waited for the client so far: no time of the work's. */
int64_t net_response_waited_ns(const struct net_response *response);
/* False: net_response_flush() does nothing, as for gRPC, HTTP/1.0, and callers other than the server. */
bool net_response_is_sent_early(const struct net_response *response);
/* The body is to be whole when the handler returns, whoever calls net_response_flush(). */
void net_response_hold(struct net_response *response);

/* What the body of an answer is read from while it is sent. */
struct net_source {
	/* Up to `size` bytes (not 0) into out: how many; 0 or a negative errno: the answer breaks off. On any worker, one call
	 * at a time, and only when the client takes them. */
	ssize_t (*read)(struct net_source *source, uint8_t *out, size_t size);
	void (*release)(struct net_source *source); /* on any thread; also of an answer that was not sent to its end */
};
/* Instead of a body: `length` bytes of the source, as they are (a Content-Encoding is the handler's to name). The source is
 * net's from here on, also on failure: -EAGAIN as above, -ENOMEM, and without a server, where it is read at once, what its
 * read() says. A status of 400 or more when the handler returns takes it back. */
int net_response_source(struct net_response *response, struct net_source *source, uint64_t length);
/* The same of a file (codec/input.h). */
struct input;
int net_response_input(struct net_response *response, struct input *input, uint64_t length);

typedef void net_handler_function(void *context, const struct net_request *request, struct net_response *response);
typedef net_handler_function *net_handler;

/* gRPC streams (client, server or bidirectional): messages in and out, unframed and decompressed. */
struct net_stream;
int net_stream_send(struct net_stream *stream,
		    struct bytes message); /* queues one message; -EPIPE when the client has gone, -EAGAIN never: it blocks
					      while the queue is over 4 MiB */
/* A pointer of the handler's own, NULL at first; release what it points to in on_close. */
void **net_stream_slot(struct net_stream *stream);
/* For on_message: the stream ends with GRPC_OK when the handler returns so, whatever else the client would send. */
void net_stream_end(struct net_stream *stream);
struct net_stream_handler {
	/* Returns the grpc status to end the stream with now, or GRPC_OK to go on. Fill response->message for the text. */
	enum grpc_code (*on_message)(void *context, const struct net_request *request, struct net_stream *stream,
				     struct bytes message, struct net_response *response);
	/* The client has half-closed: send what is left, return the final status. */
	enum grpc_code (*on_end)(void *context, const struct net_request *request, struct net_stream *stream,
				 struct net_response *response);
	/* Optional. Called once, last, for every stream that had one of the others called, however it ended (also when the
	 * client went away in the middle). */
	void (*on_close)(void *context, struct net_stream *stream);
};

struct net_route {
	const char *method; /* NULL = any */
	const char *path;   /* exact, or ending in '*' for a prefix; the longest match wins; 404 when none, 405 when only the
			       method differs */
	net_handler handler;
	const struct net_stream_handler *stream; /* instead of handler, for gRPC streams */
	void *context;
	/* What a caller needs, in the numbers of whoever made the table; net shows it to options.authorize. */
	unsigned permission;
	size_t body_max; /* bytes, wire and decompressed; 0 = options.body_max */
	/* The handler may take long: it runs on one of options.slow_workers, waiting its turn among options.fair_key()'s
	 * clients. */
	bool slow;
	/* The handler takes no time and waits for nothing: it runs on the loop, whatever the workers do. It gets no body, and
	 * its answer is short. */
	bool on_loop;
	/* Its answer is sent also when those under way have used up options.answer_bytes_max: it says how the server is. */
	bool always_answered;
	unsigned seconds_max; /* of the handler, waiting included; 0 = options.request_seconds_max */
};
/* A row of a table of routes; what more there is of it follows: `.slow = true`. Without a permission it does not compile. */
#define NET_ROUTE(method_text, path_text, needs, function, ...)                                                                \
	{                                                                                                                      \
		.method = method_text, .path = path_text, .permission = needs, .handler = function, ##__VA_ARGS__              \
	}
#define NET_STREAM_ROUTE(method_text, path_text, needs, functions, ...)                                                        \
	{                                                                                                                      \
		.method = method_text, .path = path_text, .permission = needs, .stream = functions, ##__VA_ARGS__              \
	}

/*
 * TLS (OpenSSL): 1.2 with forward secrecy and authenticated encryption only, and 1.3. The files are PEM. They are looked at
 * again when a connection is made, at most once a second: changed ones are used from then on, and ones that do not fit together
 * leave the last good ones in use. One struct net_tls serves any number of clients, or of servers, from any thread.
 */
struct net_tls_options {
	const char *ca_file;   /* clients: whom to trust, NULL = the system's authorities. Servers: peers need a certificate of
				  one of these, NULL = they need none */
	const char *cert_file; /* own certificate, then its chain; servers need one, for clients NULL = none */
	const char *key_file;  /* of cert_file, without a password; NULL = in cert_file */
	const char *server_name; /* clients: for SNI and the check of the certificate; NULL = the URL's host */
	bool insecure;		 /* clients: take any certificate */
	bool peer_optional;	 /* servers: a peer may also have none; one that it has must be of ca_file */
	bool no_resumption;	 /* each connection is a full handshake (tls_sessions.c) */
};
struct net_tls;
int net_tls_new_client(const struct net_tls_options *options, struct net_tls **ret, struct error *err);
int net_tls_new_server(const struct net_tls_options *options, struct net_tls **ret, struct error *err);
/* Looks at the files now. On failure the error says why, and what was loaded before stays in use. */
int net_tls_reload(struct net_tls *tls, struct error *err);
struct net_tls *net_tls_free(struct net_tls *tls); /* after everything that uses it */
DEFINE_CLEANUP_POINTER(net_tls_free, struct net_tls);

/* Of connections. */
enum net_limit { NET_LIMIT_DESCRIPTORS, NET_LIMIT_TOTAL, NET_LIMIT_ADDRESS, NET_LIMIT_UNKNOWN, NET_LIMITS };
extern const char *const net_limit_names[NET_LIMITS]; /* "descriptors", "total", "address", "unauthenticated" */

/* Networks and addresses in CIDR notation, separated by blanks or commas; at most 256. */
struct net_networks;
int net_networks_parse(const char *text, struct net_networks **ret, struct error *err);
struct net_networks *net_networks_free(struct net_networks *networks);
/* "/wick", "/a/b": letters, digits, '-', '_', '.', '~'; no '/' at the end, at most 255 bytes. */
bool net_path_prefix_is_valid(const char *prefix);

struct net_server;
struct net_server_options {
	const char *listen;	 /* "127.0.0.1:7070", "[::1]:7070", "0.0.0.0:0" (port 0 = any) */
	struct net_tls *tls;	 /* from net_tls_new_server(), borrowed; NULL = no TLS */
	const char *path_prefix; /* taken off paths that begin with it, a reverse proxy's; borrowed; NULL = none */
	const struct net_networks *trusted_proxies; /* whose X-Forwarded headers are believed; borrowed; NULL = nobody's */
	const struct net_route *routes;		    /* ends with a NULL path; must outlive the server */
	size_t header_max, body_max;		    /* bytes; 0 = LIMIT_HTTP_HEADER_BYTES (64 KiB at most),
						       LIMIT_PROFILE_INPUT_BYTES */
	/*
	 * Connections at a time: in all, 0 = LIMIT_CONNECTIONS; of one address, 0 = a quarter of that, at least 64; and of
	 * those that have not shown who they are (net_request_set_known(), or a certificate), 0 = that is not looked at. At a
	 * limit, the one that has been idle for longest (of these, of that address) is closed for a new one; if all are at
	 * work, the new one is refused. peers.h says more. A connection with a request under way is never closed for another,
	 * unless its peer has neither sent nor taken a byte for some seconds.
	 */
	unsigned connections_max, connections_per_address_max, connections_unknown_max;
	/* File descriptors that connections leave to the rest of the process: likewise. 0 = not looked at. */
	unsigned descriptors_reserved;
	/* Called on the loop the first time that this happens; NULL allowed. Must be quick. */
	void (*on_few_descriptors)(void *context);
	/* Called on the loop when a connection was closed for another (refused: false) or refused, for that limit; the address
	 * is that of the new one. NULL allowed. Must be quick. */
	void (*on_crowd)(void *context, enum net_limit limit, bool refused, const char *address);
	unsigned workers;      /* 0 = 4, 64 at most */
	unsigned slow_workers; /* further ones, for slow routes; 0 = 4, 64 at most */
	size_t slow_queue_max; /* requests of slow routes that wait; 0 = 64; more are answered 503 */
	/* Who takes turns with whom on slow routes; NULL = net_request_peer(). */
	uint64_t (*fair_key)(void *context, const struct net_request *request);
	/* Requests of other routes, and connections that shake hands, take turns by this (a tenant, say; 0 = none), then by
	 * net_request_peer(). NULL = by the latter alone. */
	uint64_t (*fair_group)(void *context, const struct net_request *request);
	/* Bytes of answers under way, of all clients; 0 = 256 MiB. Beyond it, 503 (flow.c). Answers of NET_ANSWER_FREE bytes
	 * or less do not count. */
	size_t answer_bytes_max;
	unsigned stall_seconds_max; /* without taking a byte of its answer, a client is cut off; 0 = 30 */
	/* 0 = LIMIT_REQUEST_SECONDS, 120. A body may take request_seconds_max and a second more for each 64 KiB of it (408), a
	 * handler request_seconds_max (503, cancelled is set), reading the answer as long as sending a body. A header has 10 s,
	 * or request_seconds_max if that is less. */
	unsigned request_seconds_max, idle_seconds_max;
	/* Called on the loop for every request, when its route is known and before anything else is refused; false = answer
	 * with what it put into response (401, 403). NULL = all allowed. Must be quick. Headers that it adds stay on the
	 * answer, also when it allows. */
	bool (*authorize)(void *context, struct net_request *request, struct net_response *response);
	/* Called on the loop once for every request that authorize was called for, when its answer is complete (of streams:
	 * when it ends), with the HTTP status that the outcome has, also of gRPC; 0 = the client went away before. NULL =
	 * nobody wants to know. Must be quick. */
	void (*on_answer)(void *context, const struct net_request *request, int status);
	/* Called for every answer that net itself makes up (404, 413 ...) once it is complete, to reshape it; on the loop or a
	 * worker. The request may be incomplete: path "" when it could not be parsed. NULL = {"error": "..."} stays. */
	void (*on_refusal)(void *context, const struct net_request *request, struct net_response *response);
	void *context;
};
/* Binds and listens: an address in use is an error that names it and says how to choose another. */
int net_server_new(const struct net_server_options *options, struct net_server **ret, struct error *err);
/* "127.0.0.1:7070" with the real port; lives as long as the server. */
const char *net_server_address(const struct net_server *server);
/* Serves until net_server_stop(); then refuses new connections, finishes requests for up to 10 s, closes. */
int net_server_run(struct net_server *server, struct error *err);
void net_server_stop(struct net_server *server); /* from any thread; async-signal-safe */
struct net_server *net_server_free(struct net_server *server);
DEFINE_CLEANUP_POINTER(net_server_free, struct net_server);

struct net_server_stats {
	atomic_uint_least64_t connections_accepted, connections_refused, connections_open;
	atomic_uint_least64_t connections_evicted; /* idle ones that were closed for others */
	atomic_uint_least64_t evicted_for[NET_LIMITS], refused_for[NET_LIMITS];
	uint64_t connections_max, connections_per_address_max, connections_unknown_max; /* 0 = none */
	atomic_uint_least64_t connections_unknown, addresses;				/* now */
	atomic_uint_least64_t requests, requests_open, bytes_received, bytes_sent, errors_4xx, errors_5xx, protocol_errors,
		timeouts;
	atomic_uint_least64_t answers_streamed, answers_refused, answers_broken, answers_stalled; /* flow.c */
	uint64_t answer_bytes, answer_bytes_max;						  /* under way, now */
	atomic_uint_least64_t tls_handshakes, tls_resumed, tls_failures, tls_timeouts; /* resumed: of the handshakes */
	uint64_t slow_running, slow_waiting;					       /* requests of slow routes, now */
	uint64_t slow_refused;							       /* because too many waited */
	uint64_t fast_running, fast_waiting, fast_refused;			       /* of the others */
	uint64_t tls_running, tls_waiting, tls_refused;				       /* handshakes */
};
void net_server_get_stats(struct net_server *server, struct net_server_stats *ret);

/*
 * The client: blocking calls on a connection that is kept and remade when needed. One thread at a time a client.
 *
 * Through a proxy, plain HTTP/1.1 is asked of the proxy, and the rest goes through a tunnel. The proxy is found, and a bad one
 * is -EINVAL, when the client is made; what it refuses is an error of the call that names it: -EACCES, -EHOSTUNREACH.
 */
struct net_client;
/* Bytes of answers that several clients may hold together, from the first byte until the client is freed. Set `left` once. */
struct net_budget {
	_Atomic int64_t left;
};
struct net_client_options {
	const char *url;	   /* "http://HOST[:PORT][/prefix]" or "https://..." */
	struct net_tls *tls;	   /* for https, borrowed; NULL = the system's authorities and no certificate of our own */
	int64_t timeout_ns;	   /* whole call; 0 = 30 s */
	size_t response_max;	   /* bytes after decompression; 0 = 256 MiB */
	struct net_budget *budget; /* NULL = none; -ENOBUFS when it is used up */
	bool keep_encoded;	   /* HTTP/1.1: leave a compressed body as it came; response.encoding says how */
	unsigned cancel_ms;	   /* how often cancel is looked at; 0 = 100 */
	const char *token;	   /* sent as "Authorization: Bearer"; NULL = none */
	const char *token_file;	   /* the same from this file, also when it is replaced later; instead of `token` */
	const char *tenant;	   /* sent as "X-Scope-OrgID"; NULL = none */
	const atomic_bool *cancel; /* looked at every cancel_ms; -ECANCELED */
	/* HTTP/1.1: the connection is shared with other such clients of this process, between calls; not with a `tls` of the
	 * caller's. */
	bool shared;
	bool direct; /* never through a proxy; else as the environment says (proxy.c) */
	/* Through this proxy, "http://[USER[:PASSWORD]@]HOST[:PORT]", whatever `direct` and the environment say, unless
	 * no_proxy (NULL = nothing) lists the host: then, and only then, loopback is reached without it as well. */
	const char *proxy_url, *no_proxy;
	const char *unix_path; /* connect to this socket; the URL's host is what the header Host says */
	const char
		*keep_header; /* HTTP/1.1: the response's header of this name is kept; NULL = none. Must outlive the client */
};
int net_client_new(const struct net_client_options *options, struct net_client **ret, struct error *err);
struct net_client *net_client_free(struct net_client *client);
DEFINE_CLEANUP_POINTER(net_client_free, struct net_client);
/* The time of each call from now on, as options.timeout_ns. */
void net_client_set_timeout(struct net_client *client, int64_t timeout_ns);
/* The token in a file, for --token-file: its first line, at least 8 characters. *ret from mem_alloc. -EACCES when others than
 * its owner and group may read the file, or its group may write it; -EINVAL for what is no token. */
int net_token_read(const char *path, char **ret, struct error *err);
/* Whether options.proxy_url can be this; -EINVAL with a message that holds nothing of a password. */
int net_proxy_check(const char *proxy_url, struct error *err);

/* Zero before the first call; each call sets it anew. */
struct net_client_response {
	int status;	    /* HTTP status */
	int grpc_status;    /* gRPC; -1 when none came */
	struct buffer body; /* decompressed; gRPC: the message(s), unframed: the last call's single message, or the caller's
			       on_message */
	char content_type[128];
	char message[512];   /* grpc-message, or the HTTP reason */
	char encoding[32];   /* Content-Encoding, of HTTP/1.1 with keep_encoded; "" = none */
	char location[1024]; /* of HTTP/1.1; "" = none, or longer than this */
	char symbols[128];   /* X-Wick-Symbols, which our own server sends; "" = none */
	char partial[256];   /* X-Wick-Partial, likewise: why the answer is not of all data */
	char kept[128];	     /* options.keep_header; "" = none */
	/* How long the server asks to wait before the next try, an hour at most: by Retry-After, gRPC's pushback or
	 * google.rpc.RetryInfo; 0 = it does not say. never_retry: it asks not to try again. */
	int64_t retry_after_ns;
	bool never_retry;
};
void net_client_response_release(struct net_client_response *response);
/* A header for every request from now on, instead of the one of that name; value NULL = none. Copied. -EINVAL for what is no
 * name or value, and for headers that the client makes itself; -E2BIG past NET_CLIENT_HEADERS_MAX. */
#define NET_CLIENT_HEADERS_MAX	    32
#define NET_CLIENT_HEADER_BYTES_MAX 8192
int net_client_set_header(struct net_client *client, const char *name, const char *value, struct error *err);
/* The header Authorization: a scheme, such as "Bearer", and what it asks for; or Basic (RFC 7617). */
int net_client_set_authorization(struct net_client *client, const char *scheme, const char *credentials, struct error *err);
int net_client_set_basic_auth(struct net_client *client, const char *user, const char *password, struct error *err);
void net_client_clear_headers(struct net_client *client); /* those that were set so */
enum net_gzip {
	NET_PLAIN,   /* false: as it is */
	NET_GZIP,    /* true: to be compressed */
	NET_GZIPPED, /* is gzip already */
};
/* HTTP/1.1. path is appended to the url's prefix and must be encoded already ("/api/v1/query?query=..."). body may be empty.
 * 0 when an answer came, whatever its status; negative when none did. */
int net_client_request(struct net_client *client, const char *method, const char *path, const char *content_type,
		       struct bytes body, enum net_gzip gzip, struct net_client_response *ret, struct error *err);
/* gRPC over HTTP/2: path "/package.Service/Method". Sends count messages, then half-closes; on_message (NULL: the first message
 * goes to ret->body) gets each answer. */
int net_client_grpc(struct net_client *client, const char *path, const struct bytes *messages, size_t count, enum net_gzip gzip,
		    void (*on_message)(void *context, struct bytes message), void *context, struct net_client_response *ret,
		    struct error *err);

#endif
