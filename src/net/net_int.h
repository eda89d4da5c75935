/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/net: who owns what.
 *
 *   server ── connection ── protocol state (http1.c or http2.c)
 *                  └─────── exchange (one request and its response) ── stream (gRPC streams only)
 *
 * Everything belongs to the loop thread, with two exceptions. While exchange.job_out is true a worker owns
 * exchange.request.body, exchange.response and exchange.making; and the queues inside struct net_stream and struct net_flow
 * have a lock, because a worker fills them while the loop empties them. When the peer goes away the loop sets request.cancelled
 * and exchange.connection = NULL; an exchange without connection and without a job is freed at once, one that is still with a
 * worker when the worker hands it back.
 *
 * A connection knows no sockets: bytes come in through connection_input() and leave through struct net_transport. That is the
 * seam where the fuzzer and the tests drive it from memory.
 *
 * Rule for calls: a connection is never freed inside a call into it. connection_close() only starts the closing; the transport
 * calls connection_release() later, from its own stack.
 */
#ifndef WICK_NET_NET_INT_H
#define WICK_NET_NET_INT_H

#include <sys/socket.h>

#include "base/arena.h"
#include "base/cancel.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "net/fair.h"
#include "net/net.h"
#include "net/peers.h"

/* Limits that are not options. */
#define NET_HEADER_BYTES_CEILING (64 * KIB) /* of a head; of the server's, header_max may be less */
#define NET_HEADERS_MAX		 100
#define NET_QUERY_MAX		 256
#define NET_HEADER_SECONDS	 10
#define NET_RATE_MIN		 (64 * KIB) /* bytes a second; each earns a body or an answer another second */
#define NET_STREAMS_MAX		 100	    /* open HTTP/2 streams of a connection */
#define NET_REQUESTS_MAX	 8192	    /* open requests of the server; of one address half of it */
#define NET_QUEUE_MAX		 4096	    /* requests that wait for a worker: a disk may take seconds */
#define NET_HANDSHAKES_MAX	 1024	    /* TLS handshakes that wait for a worker */
#define NET_SLOW_WORKERS_MAX	 64	    /* workers of slow routes */
#define NET_FAST_WORKERS_MAX	 64	    /* and of the others */
#define NET_BODIES_FACTOR	 4	    /* all bodies together: this many times body_max */
#define NET_RESPONSE_MAX	 (256 * MIB)
#define NET_RESPONSE_HEADERS_MAX (16 * KIB)
#define NET_COMPRESS_MIN	 1024
#define NET_COMPRESS_LEVEL	 4
#define NET_STREAM_QUEUE_MAX	 (4 * MIB)	/* answers of a gRPC stream that wait for the peer */
#define NET_STREAM_BACKLOG_MAX	 (1 * MIB)	/* messages of a gRPC stream that wait for a worker: no more is let in */
#define NET_FLOW_BYTES		 (1 * MIB)	/* of an answer that is being made: what may wait for the peer */
#define NET_PATIENCE_NS		 (5 * NS_PER_S) /* how long, in all, a handler waits for the reader of its answer */
#define NET_SOURCE_BYTES	 (128 * KIB)	/* what an answer that is read from a source counts as */
#define NET_ANSWER_FREE		 (16 * KIB)	/* answers up to this are always sent */
#define NET_READ_BYTES		 (64 * KIB)
#define NET_OUTPUT_BYTES	 (64 * KIB) /* HTTP/2 frames gathered before a write */
#define NET_LINGER_NS		 (2 * NS_PER_S)
#define NET_STOP_NS		 (10 * NS_PER_S)
#define NET_STUCK_NS		 (5 * NS_PER_S)
#define NET_NAME_MAX		 256
#define NET_PEER_ADDRESS_SIZE	 46	   /* INET6_ADDRSTRLEN */
#define NET_CERTIFICATE_NAMES	 (4 * KIB) /* bytes of the names of a certificate; more are left out */
#define NET_ATTACH_MAX		 1024
#define GRPC_PREFIX_BYTES	 5

/* ---- peer_user.c: whose process the peer is ---- */
struct net_user {
	int fd; /* of the connection; -1 = none */
	unsigned uid;
	bool is_known;
};
/* fd: of TCP, both ends on this machine. *ret stays after a failure. */
int peer_find_user(int fd, unsigned *ret, struct error *err);
/* Its second way alone, for tests. */
int peer_find_user_in_lists(int fd, unsigned *ret, struct error *err);
/* The same in the text of /proc/net/tcp or tcp6; the ends as that has them. -ENOENT. */
int peer_find_in_list(const char *list, const char *peer, const char *own, unsigned *ret, struct error *err);

/* ---- request.c: what came ---- */
struct net_pair {
	const char *name, *value;
};
struct net_pairs {
	struct net_pair *items; /* the arrays are on the heap, the strings in the request's arena */
	size_t count, capacity;
};
struct net_request {
	struct arena arena;
	const char *method, *target, *path;
	struct net_pairs headers, query;
	size_t header_bytes; /* of names and values */
	struct buffer body;
	uint64_t peer; /* distinguishes addresses */
	char peer_address[NET_PEER_ADDRESS_SIZE];
	unsigned permission;	 /* of its route */
	void *attached;		 /* in the arena; net_request_attach() */
	const char *certificate; /* the connection's, while authorize runs */
	struct net_user *user;	 /* likewise */
	bool grpc, loopback, known, was_started;
	bool by_proxy, at_prefix; /* forwarded.c */
	atomic_bool cancelled;
};
void request_init(struct net_request *request, size_t header_max);
/* When the head is complete: the client that a trusted proxy asks for, and the path without options.path_prefix. */
void request_apply_proxy(struct net_request *request, const struct net_server_options *options);
void request_release(struct net_request *request);
/* 0, -ENOMEM, or -E2BIG past NET_HEADERS_MAX. */
int request_add_header(struct net_request *request, struct bytes name, struct bytes value);
/* Splits and decodes "/path?query" (or "http://host/path?query"); -EINVAL with a message for the client. */
int request_parse_target(struct net_request *request, struct bytes target, struct error *err);
size_t request_count_header(const struct net_request *request, const char *name);
/* True if a comma-separated header lists token (without "q=0"). */
bool request_header_lists(const struct net_request *request, const char *name, const char *token);

/* Of both sides: a method or a name of a field (RFC 9110, 5.6.2); no control characters. */
bool http_is_token(const char *text); /* NULL is none */
bool http_is_field_value(const char *text);

/* ---- response.c: what goes back ---- */
int response_body_error(struct net_response *response, const char *message); /* {"error": message} */
/* Serialises the head of an HTTP/1.1 response. body_len is what Content-Length says; UINT64_MAX: the body comes in chunks. */
int response_write_head(const struct net_response *response, uint64_t body_len, const char *date, bool keep_alive,
			struct buffer *out);
bool response_next_header(const struct net_response *response, size_t *at, struct bytes *ret_name, struct bytes *ret_value);
/* gzips a body worth it. A failure leaves it as it is. */
void response_compress(const struct net_request *request, struct net_response *response);
const char *net_status_text(int status);

/* ---- grpc.c: framing and status ---- */
struct grpc_head {
	bool compressed;
	uint32_t len;
};
/* Collects one length-prefixed message after the other. */
struct grpc_reader {
	uint8_t prefix[GRPC_PREFIX_BYTES];
	size_t prefix_len;
	uint32_t left; /* bytes of the message still to come */
};
/* Consumes some of *data and appends message bytes to message. 1 = message complete (described by *ret_head), 0 = all consumed,
 * -EBADMSG = bad flag, -E2BIG = longer than message->max, -ENOMEM. */
int grpc_read(struct grpc_reader *reader, struct bytes *data, struct buffer *message, struct grpc_head *ret_head);
bool grpc_reader_is_between(const struct grpc_reader *reader); /* not in the middle of a message */
void grpc_write_prefix(uint8_t out[static GRPC_PREFIX_BYTES], bool compressed, uint32_t len);
/* Appends prefix and message, gzipped when asked and worth it, or if it is already. */
int grpc_append_message(struct buffer *out, struct bytes message, enum net_gzip gzip);
/* Percent-encodes as the gRPC protocol says; cut to fit. */
void grpc_encode_status_message(const char *message, char *out, size_t size);
void grpc_decode_status_message(struct bytes text, char *out, size_t size);
bool grpc_parse_timeout(const char *text, int64_t *ret_ns);
bool grpc_is_content_type(const char *content_type);
enum grpc_code grpc_code_of_http(int status);

/* ---- route.c ---- */
/* 0 = found; 404; 405 with "GET, POST" in allow. */
int route_find(const struct net_route *routes, const char *method, const char *path, const struct net_route **ret, char *allow,
	       size_t allow_size);

/* ---- worker.c: threads that run handlers ---- */
enum net_job_kind {
	NET_JOB_FAST,
	NET_JOB_SLOW,	   /* runs beside the others, and takes turns by key */
	NET_JOB_HANDSHAKE, /* of TLS */
	NET_JOB_KINDS
};
struct net_job {
	struct net_job *next;
	void (*run)(struct net_job *job);  /* on a worker */
	void (*done)(struct net_job *job); /* on the loop, afterwards */
	enum net_job_kind kind;
	uint64_t group, key, tag; /* group 0 = none */
	bool must_run;		  /* never displaced */
	bool displaced;		  /* another one has its place in the queue: it has not run */
};
struct net_workers {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct fair_queue fast, handshakes;
	struct net_jobs slow, finished, woken;
	/* Jobs that run at a time; of fast ones, what the others leave of the threads. Set those of slow jobs and of
	 * handshakes, and the sizes of queues, before the first such job. */
	unsigned slots[NET_JOB_KINDS], running[NET_JOB_KINDS];
	size_t queue_max[NET_JOB_KINDS];
	uint64_t slow_now, refused[NET_JOB_KINDS];
	struct net_slow_tag {
		uint64_t key, tag;
	} slow_tags[NET_SLOW_WORKERS_MAX]; /* of those that run */
	struct net_turn {
		uint64_t group, key;
	} fast_turns[NET_FAST_WORKERS_MAX]; /* likewise */
	pthread_t *threads;
	unsigned thread_count;
	size_t out; /* loop only: submitted, not yet collected */
	bool stopping;
	void (*notify)(void *context); /* from a worker: there is something to collect */
	void *context;
};
/* thread_count 0: jobs run in workers_run_here(), for tests without threads. */
int workers_init(struct net_workers *workers, unsigned thread_count, void (*notify)(void *context), void *context,
		 struct error *err);
void workers_release(struct net_workers *workers);				   /* joins */
int workers_submit(struct net_workers *workers, struct net_job *job, bool always); /* -EBUSY when too many wait */
void workers_count(struct net_workers *workers, enum net_job_kind kind, uint64_t *ret_running, uint64_t *ret_waiting,
		   uint64_t *ret_refused);
/* From a worker: have `woken` collected on the loop; its done() runs there. It must not be queued already. */
void workers_wake(struct net_workers *workers, struct net_job *woken);
void workers_collect(struct net_workers *workers); /* on the loop: calls done() of what is ready */
void workers_run_here(struct net_workers *workers);

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* ---- exchange.c: from a request's head to its answer ---- */
struct net_connection;
struct net_exchange {
	struct net_request request;
	struct net_response response;
	struct net_server *server;
	struct net_connection *connection;    /* NULL when the peer has gone or somebody else answers */
	struct net_exchange *next, *previous; /* in the connection's list */
	const struct net_route *route;
	struct net_stream *stream; /* gRPC streams only */
	struct net_peer *peer;	   /* of the connection; held */
	struct net_flow *making;   /* the worker's: the answer that is sent while it is made; NULL = none */
	struct net_flow *flow;	   /* the loop's: the same, once it knows of it */
	struct net_job job;
	int32_t stream_id;   /* HTTP/2 */
	int64_t started_ns;  /* head complete (before: begun) */
	int64_t deadline_ns; /* of the handler, or what grpc-timeout says; INT64_MAX = none */
	int64_t active_ns;   /* the last byte in or out, or the last job done */
	int64_t answer_ns;   /* when the answer began to go out */
	size_t body_bytes;   /* accounted in server->body_bytes */
	size_t body_max;
	size_t received_bytes, sent_bytes;
	size_t answer_bytes;   /* accounted in server->answer_bytes */
	bool answer_due;       /* options.authorize was called, and on_answer is yet to be */
	size_t headers_before; /* bytes of headers that are the server's own, not the handler's */
	struct grpc_reader reader;
	struct grpc_head message_head;
	bool grpc_gzip;	   /* requests: compressed messages are gzip */
	bool accepts_gzip; /* answers */
	bool message_seen;
	bool head_done, body_done, job_out;
	bool may_flow;		 /* the protocol can show that an answer broke off */
	bool over_budget;	 /* of all answers: set by the worker */
	bool unsized;		 /* to HEAD: the body would come in chunks; set by the worker */
	bool refused;		 /* the answer is net's own */
	bool answered;		 /* handed to the protocol */
	bool sent;		 /* the protocol has written all of it */
	bool too_large;		 /* head over a limit */
	bool headers_sent;	 /* of a gRPC stream's answer */
	bool message_compressed; /* of the gRPC answer; set by the worker */
	uint8_t prefix[GRPC_PREFIX_BYTES];
	size_t output_at; /* how much of prefix and body is out */
};
struct net_exchange *exchange_new(struct net_connection *connection, int64_t now_ns);
/* Unlinks it from its connection; freed now, or when its job comes back. */
void exchange_abandon(struct net_exchange *exchange);
/* On the loop: answers with an error of our own, {"error": TEXT} or the gRPC status (grpc < 0: the one that belongs to the HTTP
 * status). If a worker is busy with the exchange, a stand-in answers in its place. */
void exchange_refuse(struct net_exchange *exchange, int status, int grpc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* On a worker that owns the exchange: the same, but the answer goes out when the job is back. */
void exchange_fail(struct net_exchange *exchange, int status, int grpc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The head is complete (request.method, target, headers). content_length < 0: unknown. Afterwards the exchange is answered or
 * waits for its body. */
void exchange_begin(struct net_exchange *exchange, int64_t content_length, int64_t now_ns);
void exchange_data(struct net_exchange *exchange, struct bytes data); /* may refuse */
/* On a worker: decompresses what came, in its place. False: the response says why not. what: "the body". */
bool exchange_unpack(struct net_exchange *exchange, struct buffer *data, const char *encoding, const char *what);
/* What came cannot be used: why, as grpc_read() and buffer_append() say it; what: "the body". */
void exchange_refuse_data(struct net_exchange *exchange, int code, const char *what);
void exchange_end(struct net_exchange *exchange);		    /* body complete: hands it to a worker, or refuses */
void exchange_job_out(struct net_exchange *exchange);		    /* a worker will have it */
void exchange_answer(struct net_exchange *exchange);		    /* the response is complete: to the protocol with it */
bool exchange_account(struct net_exchange *exchange, size_t bytes); /* false: all bodies together would be too much */
void exchange_unaccount(struct net_exchange *exchange, size_t bytes);
/* Refuses or aborts what is late. */
void exchange_check_time(struct net_exchange *exchange, int64_t now_ns);
/* Status and headers as they go out. */
const struct net_response *exchange_head(const struct net_exchange *exchange);
/* What Content-Length says; UINT64_MAX: nothing. */
uint64_t exchange_length(const struct net_exchange *exchange);
bool exchange_is_bodyless(const struct net_exchange *exchange);
/* Bytes of the answer's body (with the gRPC prefix), copied out. */
size_t exchange_read_output(struct net_exchange *exchange, uint8_t *out, size_t size);
size_t exchange_output_left(const struct net_exchange *exchange);

/* ---- flow.c: answers that are sent while they are made ---- */
struct net_piece;
struct net_pieces {
	struct net_piece *first, *last;
};
struct net_flow {
	struct net_exchange *exchange;
	struct net_job wake;
	struct net_response head; /* status, content_type and headers as they go out */
	uint64_t length;	  /* of the body; UINT64_MAX = not known */
	pthread_mutex_t lock;
	pthread_cond_t space;
	struct net_pieces queue; /* lock: for the loop to take */
	size_t held;		 /* lock: bytes in queue and sending */
	bool closed;		 /* lock: nobody takes any more */
	bool wake_queued;	 /* lock */
	/* the worker */
	struct gzip_stream *gzip; /* NULL = as it is */
	struct buffer packed;
	int64_t waited_ns; /* for the reader, so far */
	int failed;	   /* the first failure of the handler's calls */
	bool is_out;	   /* something is queued: the head is final */
	struct net_source *source;
	uint64_t source_left;
	bool broken; /* see the top of flow.c */
	/* the loop */
	struct net_pieces sending;
	size_t sent; /* of the first */
	bool ended;  /* all of it is in queue and sending */
};
struct net_flow *flow_free(struct net_flow *flow);
void flow_close(struct net_flow *flow); /* loop: wakes a handler that waits */
/* On the worker, when the handler has returned. */
void flow_finish(struct net_exchange *exchange);
void flow_finish_source(struct net_exchange *exchange);
void flow_run_source(struct net_exchange *exchange); /* on a worker: reads the next piece */
/* On the loop: bytes that are to go out next; empty = none yet, or none any more. They live until they are taken. */
struct bytes flow_front(struct net_flow *flow);
void flow_take(struct net_flow *flow, size_t len); /* at most what flow_front() returned has gone out */
bool flow_is_complete(struct net_flow *flow);	   /* all has been taken */
bool flow_is_last(const struct net_flow *flow);	   /* nothing comes after what flow_front() returned */
void flow_pull(struct net_exchange *exchange);	   /* there is room for more: a source is read */
void flow_job_done(struct net_exchange *exchange); /* the handler, or one reading of the source */
/* The budget of all answers. False: it has no room for that. */
bool exchange_charge_answer(struct net_exchange *exchange, size_t bytes);
void exchange_credit_answer(struct net_exchange *exchange);

/* ---- stream.c: gRPC streams ---- */
struct net_message {
	struct net_message *next;
	struct buffer data;
	bool compressed;
};
struct net_stream {
	struct net_exchange *exchange;
	struct net_job wake;
	pthread_mutex_t lock;
	pthread_cond_t space;
	struct buffer queue;   /* lock: framed, for the wire */
	bool closed;	       /* lock: nobody reads the queue any more */
	bool wake_queued;      /* lock */
	struct buffer sending; /* loop: what the protocol takes from */
	size_t sent;
	bool gzip;
	/* loop: messages in */
	struct net_message *first, **last;
	struct buffer partial;
	size_t backlog_bytes;
	size_t withheld; /* bytes not yet given back to flow control */
	/* the job that is out */
	struct net_message *batch;
	size_t batch_bytes;
	bool ending;	     /* on_end is due after the batch */
	bool closing;	     /* only on_close is due */
	bool final;	     /* response.grpc_status ends the stream */
	bool complete;	     /* the handler said so: net_stream_end() */
	bool touched;	     /* a handler function was called */
	bool close_notified; /* on_close was */
	void *slot;
};
struct net_stream *stream_new(struct net_exchange *exchange);
struct net_stream *stream_free(struct net_stream *stream);
void stream_close(struct net_stream *stream); /* loop: wakes a sender that waits; nothing more is sent */
void stream_data(struct net_exchange *exchange, struct bytes data);
void stream_dispatch(struct net_exchange *exchange); /* gives a worker what is due, if none has the stream */
void stream_run(struct net_exchange *exchange);	     /* on a worker */
bool stream_needs_close(const struct net_stream *stream);
bool stream_has_output(struct net_stream *stream); /* loop; moves the queue over when sending is empty */
size_t stream_read_output(struct net_stream *stream, uint8_t *out, size_t size);
bool stream_is_full(const struct net_stream *stream); /* the worker is behind: let no more in */

/* ---- connection.c ---- */
struct net_transport {
	/* Writes the parts in order. True = all is out; false = connection_written() will be called, until when the parts must
	 * live. */
	bool (*write)(struct net_connection *connection, const struct bytes *parts, size_t count);
	size_t (*queued)(const struct net_connection *connection); /* bytes of that write not yet taken by the kernel */
	/* Changes whenever the peer has taken something. */
	size_t (*unread)(const struct net_connection *connection);
	void (*pause)(struct net_connection *connection, bool paused);
	void (*shutdown)(struct net_connection *connection); /* no more writes */
	void (*close)(struct net_connection *connection);
};
struct net_protocol {
	size_t (*input)(struct net_connection *connection, struct bytes data); /* returns how much was consumed */
	size_t (*output)(struct net_connection *connection, struct bytes parts[2]);
	void (*written)(struct net_connection *connection);
	void (*answer)(struct net_exchange *exchange);
	void (*resume)(struct net_exchange *exchange);		   /* a stream or flow has output, or room for input */
	void (*adopt)(struct net_exchange *stand_in);		   /* takes the place of the exchange with the same stream_id */
	void (*abort)(struct net_exchange *exchange);		   /* end it without an answer */
	bool (*has_work)(const struct net_connection *connection); /* at end of file: something is still to be answered */
	void (*eof)(struct net_connection *connection);
	void (*check_time)(struct net_connection *connection, int64_t now_ns);
	void (*stop)(struct net_connection *connection); /* finish what is under way, then close */
	void (*release)(struct net_connection *connection);
};
extern const struct net_protocol http1_protocol, http2_protocol;
int http1_start(struct net_connection *connection);
int http2_start(struct net_connection *connection);

#define HTTP2_PREFACE	  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HTTP2_PREFACE_LEN 24
struct net_connection {
	struct net_server *server;
	const struct net_transport *transport;
	const struct net_protocol *protocol; /* NULL until the first bytes tell */
	void *state;			     /* of the protocol */
	struct net_connection *next, *previous;
	struct net_exchange *exchanges;
	size_t exchange_count;
	struct buffer pending; /* came while the protocol could not take it */
	size_t pending_at;
	int64_t opened_ns, active_ns; /* active: the last time something happened that resets the idle clock */
	int64_t write_started_ns, linger_until_ns;
	int64_t write_moved_ns; /* when the peer was last seen to take something of the write */
	size_t write_bytes, write_unread;
	uint64_t peer; /* a hash of its address, without the port */
	char peer_address[NET_PEER_ADDRESS_SIZE];
	struct net_peer *address; /* of peers.c, while it is listed there; */
	struct net_link links[NET_LISTS];
	bool listed, known;
	int64_t check_ns;  /* nothing is due before */
	char *certificate; /* names, each with a NUL, then an empty one; NULL = none */
	struct net_user user;
	bool loopback, paused, write_pending, busy, eof, lingering, closing;
	bool securing;	/* a TLS handshake is under way */
	bool computing; /* and its next step is ours */
};
void connection_init(struct net_connection *connection, struct net_server *server, const struct net_transport *transport,
		     bool loopback);
/* After connection.peer is set. -ENOMEM: to be closed. */
int connection_enlist(struct net_connection *connection);
void connection_release(struct net_connection *connection);
void connection_input(struct net_connection *connection, struct bytes data);
void connection_eof(struct net_connection *connection);
void connection_written(struct net_connection *connection, int status);
void connection_check_time(struct net_connection *connection, int64_t now_ns);
bool connection_is_idle(const struct net_connection *connection); /* has no request, or not all of a head */
/* It may be closed for another one: it is idle, or the peer has neither sent nor taken anything of what is under way for
 * NET_STUCK_NS. */
bool connection_can_go(const struct net_connection *connection, int64_t now_ns);
void connection_stop(struct net_connection *connection);
/* Takes in what is pending and writes what is ready, until neither moves. Safe to call from anywhere. */
void connection_run(struct net_connection *connection);
void connection_finish(struct net_connection *connection); /* all is written: close, but let the peer read it first */
void connection_close(struct net_connection *connection);  /* now */

/* ---- http1_body.c: the framing of HTTP/1.1 request bodies ---- */
struct http1_body {
	enum { HTTP1_BODY_NONE, HTTP1_BODY_LENGTH, HTTP1_BODY_CHUNKED } framing;
	unsigned state;
	uint64_t left;	 /* bytes of the body or the chunk */
	size_t overhead; /* bytes of the chunk-size line or of the trailers so far */
	unsigned digits;
};
void http1_body_init(struct http1_body *body, bool chunked, uint64_t length);
/* Takes a piece off *data. 1 = *ret_piece holds body bytes, 2 = body complete, 0 = all consumed, -EBADMSG. */
int http1_body_read(struct http1_body *body, struct bytes *data, struct bytes *ret_piece);

/* ---- state.c: a server without its sockets; server.c: the sockets ---- */
struct net_server_uv; /* NULL for a server driven from memory */
struct net_server {
	struct net_server_options options; /* defaults filled in */
	struct net_workers workers;
	struct net_connection *connections;
	struct net_server_stats stats;
	struct net_peers peers;
	/* Descriptors of everything but connections, when they were counted last, and the least ever; and whether they were
	 * once too few. */
	uint64_t other_descriptors, other_descriptors_least;
	int64_t descriptors_counted_ns;
	bool had_few_descriptors;
	size_t body_bytes, body_bytes_max, requests_open;
	atomic_size_t answer_bytes; /* on their way; options.answer_bytes_max at most */
	int64_t fake_now_ns;	    /* tests: replaces the clock when not 0 */
	int64_t stop_deadline_ns;
	bool stopping;
	char date[40]; /* of date_s */
	int64_t date_s;
	char address[NET_NAME_MAX + 8];
	struct net_server_uv *uv;
};
extern atomic_size_t net_connections_open; /* of all servers of this process, until they are closed */
/* Afterwards the workers' threads run. */
int server_init(struct net_server *server, const struct net_server_options *options, unsigned threads,
		void (*notify)(void *context), void *context, struct error *err);
int64_t server_now_ns(const struct net_server *server);
const char *server_date(struct net_server *server);
void server_check_time(struct net_server *server);
void server_stop_connections(struct net_server *server);
void server_release(struct net_server *server); /* what server_init() made */
/* Before a connection from an address is added: false if a limit leaves no room for it, also after closing one that can go. */
bool server_make_room(struct net_server *server, uint64_t peer, const char *peer_address);
#define server_count(server, field, n) atomic_fetch_add_explicit(&(server)->stats.field, (uint64_t)(n), memory_order_relaxed)

/* ---- address.c ---- */
struct net_address {
	char host[NET_NAME_MAX]; /* without brackets */
	uint16_t port;
	bool tls; /* of a URL: https */
};
/* "host:port", "[v6]:port". */
int address_parse(const char *text, struct net_address *ret, struct error *err);
/* "http://host[:port][/prefix]" or https; ports are 80 and 443 where none is given. The prefix has no '/' at the end. */
int address_parse_url(const char *url, struct net_address *ret, char *prefix, size_t prefix_size, struct error *err);
struct addrinfo;
/* getaddrinfo() for TCP with extra flags; its error code. "localhost" is known even where no resolver or hosts file knows it.
 */
int address_resolve(const struct net_address *address, int flags, struct addrinfo **ret);
int address_format(const struct sockaddr *address, char *out, size_t size);
/* The host alone, "10.1.2.3" or "fe80::1"; an IPv4 address in IPv6 as IPv4. "" if it is neither. */
void address_format_host(const struct sockaddr *address, char out[static NET_PEER_ADDRESS_SIZE]);
bool address_is_loopback(const struct sockaddr *address);
uint64_t address_hash(const struct sockaddr *address); /* of the host; all of loopback is one */

#endif
