/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are sent while they are made, so that nobody holds a whole one. There are two kinds, and both are a list of
 * pieces between a worker and the loop:
 *
 *   pushed   the handler calls net_response_flush() whenever it has written some of the body. The length is not known before
 *            the end: chunks in HTTP/1.1, DATA in HTTP/2. Compressed as a stream if the client accepts it.
 *   pulled   the handler leaves a source (a file) and its length. Each time the protocol has room for more, a worker reads the
 *            next piece. No worker waits for the reader, and of an answer that is not read nothing is in memory.
 *
 * A handler that pushes is held up while more than NET_FLOW_BYTES of its answer wait for the reader, but only NET_PATIENCE_NS
 * in all: a slow reader may not keep a worker from others. After that the rest is made without waiting, as all answers once
 * were, as long as all of them together keep to answer_bytes_max. Beyond it an answer that has not begun becomes a 503, and
 * one that has waits: for others, for its own reader, or until it is late. Of each that is being made one piece may be under
 * way in any case, so that a reader that reads gets on whatever others do; those are no more than there are workers.
 *
 * The head is final with the first piece. What fails afterwards cannot become a status any more, and must not look like an
 * end: the connection is closed without the last chunk, the stream is reset. Whether it failed is seen from outside: a handler
 * that reports a failure has another status than the one that was sent. HTTP/1.0 marks the end of such a body by closing the
 * connection, which a failure would do as well, so its answers are made whole first.
 *
 * Who has what. The worker makes a flow, and has exchange.making while exchange.job_out. The loop has exchange.flow, the same,
 * from the first wake-up or from when the job is back; it alone has `sending`, `sent`, `ended`. Between them are, under the
 * lock, `queue`, `held`, `closed` and `wake_queued`. `head` and `length` do not change once the loop knows of the flow. The
 * worker sets `broken` before it hands the job back, and the loop looks at it afterwards. The loop never waits for the worker;
 * the worker waits on `space`, and looks every WAIT_NS whether it is cancelled, because who cancels it may not know the flow.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "codec/compress.h"
#include "codec/input.h"
#include "net/net_int.h"

#define PIECE_BYTES    (64 * KIB)
#define FLOW_BYTES_LOW (NET_FLOW_BYTES / 2)
#define WAIT_NS	       (50 * NS_PER_MS)

/* ---- the budget of all answers ---- */

static bool charge_server(struct net_server *server, size_t bytes)
{
	size_t used = atomic_load(&server->answer_bytes);
	do {
		if (used > server->options.answer_bytes_max || bytes > server->options.answer_bytes_max - used)
			return false;
	} while (!atomic_compare_exchange_weak(&server->answer_bytes, &used, used + bytes));
	return true;
}

static void credit_server(struct net_server *server, size_t bytes)
{
	atomic_fetch_sub(&server->answer_bytes, bytes);
}

bool exchange_charge_answer(struct net_exchange *exchange, size_t bytes)
{
	if (!charge_server(exchange->server, bytes))
		return false;
	exchange->answer_bytes += bytes;
	return true;
}

void exchange_credit_answer(struct net_exchange *exchange)
{
	credit_server(exchange->server, exchange->answer_bytes);
	exchange->answer_bytes = 0;
}

/* ---- pieces ---- */

struct net_piece {
	struct net_piece *next;
	size_t len;
	uint8_t data[];
};

static void wake_done(struct net_job *job)
{
	struct net_flow *flow = container_of(job, struct net_flow, wake);
	struct net_exchange *exchange = flow->exchange;
	pthread_mutex_lock(&flow->lock);
	flow->wake_queued = false;
	pthread_mutex_unlock(&flow->lock);
	exchange->flow = flow;
	if (!flow->sending.first) /* until now it had all that there was */
		exchange->active_ns = server_now_ns(exchange->server);
	if (!exchange->connection)
		flow_close(flow);
	else if (exchange->answered)
		exchange->connection->protocol->resume(exchange);
	else
		exchange_answer(exchange);
}

static struct net_flow *flow_new(struct net_exchange *exchange)
{
	struct net_flow *flow = mem_zalloc(sizeof(*flow));
	if (!flow)
		return NULL;
	flow->exchange = exchange;
	flow->wake.done = wake_done;
	pthread_mutex_init(&flow->lock, NULL);
	thread_condition_init(&flow->space);
	buffer_init(&flow->packed, NET_RESPONSE_MAX);
	net_response_init(&flow->head);
	return flow;
}

static void free_piece(struct net_flow *flow, struct net_piece *piece)
{
	if (!flow->source)
		credit_server(flow->exchange->server, piece->len);
	mem_free(piece);
}

static void free_pieces(struct net_flow *flow, struct net_piece *piece)
{
	struct net_piece *next;
	for (; piece; piece = next) {
		next = piece->next;
		free_piece(flow, piece);
	}
}

struct net_flow *flow_free(struct net_flow *flow)
{
	if (!flow)
		return NULL;
	free_pieces(flow, flow->queue.first);
	free_pieces(flow, flow->sending.first);
	if (flow->source)
		flow->source->release(flow->source);
	gzip_stream_free(flow->gzip);
	buffer_release(&flow->packed);
	net_response_release(&flow->head);
	pthread_cond_destroy(&flow->space);
	pthread_mutex_destroy(&flow->lock);
	return mem_free(flow);
}

void flow_close(struct net_flow *flow)
{
	THREAD_LOCK_SCOPE(&flow->lock);
	flow->closed = true;
	pthread_cond_broadcast(&flow->space);
}

/* With the lock held. */
static void push_piece(struct net_flow *flow, struct net_piece *piece)
{
	if (flow->queue.last)
		flow->queue.last->next = piece;
	else
		flow->queue.first = piece;
	flow->queue.last = piece;
	flow->held += piece->len;
}

/* ---- on a worker: a handler that pushes ---- */

/* The head as it is sent, and what it needs for that. */
static int copy_head(struct net_flow *flow, const struct net_response *response)
{
	flow->head.status = response->status;
	flow->head.content_type = response->content_type;
	buffer_append(&flow->head.headers, response->headers.data, response->headers.len);
	if (!response->no_compress)
		net_response_header(&flow->head, "Vary", "Accept-Encoding");
	if (flow->gzip)
		net_response_header(&flow->head, "Content-Encoding", "gzip");
	return buffer_status(&flow->head.headers);
}

static int begin(struct net_exchange *exchange)
{
	struct net_response *response = &exchange->response;
	const struct net_server *server = exchange->server;
	size_t used = atomic_load(&server->answer_bytes);
	if (used > server->options.answer_bytes_max || response->body.len > server->options.answer_bytes_max - used) {
		exchange->over_budget = true;
		return -EAGAIN;
	}
	struct net_flow *flow = flow_new(exchange);
	int r = flow ? 0 : -ENOMEM;
	if (r == 0 && !response->no_compress && request_header_lists(&exchange->request, "accept-encoding", "gzip"))
		r = gzip_stream_new(NET_COMPRESS_LEVEL, &flow->gzip, NULL);
	if (r == 0)
		r = copy_head(flow, response);
	if (r < 0) {
		flow_free(flow);
		return r;
	}
	flow->length = UINT64_MAX;
	exchange->making = flow;
	server_count(exchange->server, answers_streamed, 1);
	return 0;
}

static bool is_unwanted(const struct net_flow *flow)
{
	return flow->closed || cancel_requested(&flow->exchange->request.cancelled);
}

/* With the lock held: until a piece of `len` bytes may be queued, which is then charged. The time in which the handler could
 * do nothing is not taken off that of its work. */
static int wait_for_space(struct net_flow *flow, size_t len)
{
	struct net_server *server = flow->exchange->server;
	struct budget *budget = flow->exchange->response.budget;
	size_t room = NET_FLOW_BYTES;
	for (;;) {
		if (is_unwanted(flow))
			return -ECANCELED;
		bool is_patient = flow->waited_ns < NET_PATIENCE_NS && server->workers.thread_count > 0;
		if ((flow->held < room || !is_patient) && charge_server(server, len))
			return 0;
		if (flow->held == 0) {
			atomic_fetch_add(&server->answer_bytes, len);
			return 0;
		}
		if (server->workers.thread_count == 0)
			return -ENOBUFS; /* nobody would send anything meanwhile */
		room = FLOW_BYTES_LOW;	 /* once it has to wait, it is for more than a piece */
		int64_t begun_ns = time_monotonic_ns();
		thread_wait_until(&flow->space, &flow->lock, begun_ns + WAIT_NS);
		int64_t waited_ns = time_monotonic_ns() - begun_ns;
		flow->waited_ns += waited_ns;
		if (budget && budget->deadline_ns)
			budget->deadline_ns += waited_ns;
	}
}

static int push_bytes(struct net_flow *flow, struct bytes bytes)
{
	int r = 0;
	bool wake = false;
	while (r == 0 && bytes.len > 0) {
		size_t len = bytes.len < PIECE_BYTES ? bytes.len : PIECE_BYTES;
		struct net_piece *piece = mem_alloc(sizeof(*piece) + len);
		if (!piece)
			return -ENOMEM;
		*piece = (struct net_piece){.len = len};
		memcpy(piece->data, bytes.data, len);
		bytes = bytes_skip(bytes, len);
		pthread_mutex_lock(&flow->lock);
		r = wait_for_space(flow, len);
		if (r == 0)
			push_piece(flow, piece);
		wake = r == 0 && !flow->wake_queued;
		flow->wake_queued |= wake;
		pthread_mutex_unlock(&flow->lock);
		if (r < 0)
			mem_free(piece);
		flow->is_out |= r == 0;
		if (wake)
			workers_wake(&flow->exchange->server->workers, &flow->wake);
	}
	return r;
}

/* What is in the body; `last`: nothing follows. */
static int push_body(struct net_flow *flow, struct buffer *body, bool last)
{
	int r = 0;
	if (flow->gzip) {
		r = gzip_stream_write(flow->gzip, buffer_bytes(body), last, &flow->packed, NULL);
		if (r == 0)
			r = push_bytes(flow, buffer_bytes(&flow->packed));
		buffer_clear(&flow->packed);
	} else {
		r = push_bytes(flow, buffer_bytes(body));
	}
	buffer_clear(body);
	return r;
}

int net_response_flush(struct net_response *response)
{
	struct net_exchange *exchange = response->exchange;
	if (!exchange || response->body.len < NET_FLUSH_BYTES || buffer_status(&response->body) < 0)
		return 0;
	/* What is on its way is no longer the handler's. */
	BUDGET_EXEMPT_SCOPE();
	if (cancel_requested(&exchange->request.cancelled))
		return -ECANCELED;
	if (!strcmp(exchange->request.method, "HEAD")) {
		exchange->unsized = true;
		buffer_clear(&response->body);
		return 0;
	}
	int r = exchange->making ? exchange->making->failed : begin(exchange);
	if (r == 0)
		r = exchange->making->failed = push_body(exchange->making, &response->body, false);
	return r;
}

int64_t net_response_waited_ns(const struct net_response *response)
{
	return response->exchange && response->exchange->making ? response->exchange->making->waited_ns : 0;
}

bool net_response_is_sent_early(const struct net_response *response)
{
	return response->exchange;
}

void net_response_hold(struct net_response *response)
{
	response->exchange = NULL;
}

void flow_finish(struct net_exchange *exchange)
{
	struct net_flow *flow = exchange->making;
	struct net_response *response = &exchange->response;
	BUDGET_EXEMPT_SCOPE();
	flow->broken = flow->failed < 0 || response->status != flow->head.status || buffer_status(&response->body) < 0;
	flow->waited_ns = NET_PATIENCE_NS; /* there is nothing more to be made */
	if (!flow->broken)
		flow->broken = push_body(flow, &response->body, true) < 0;
	if (flow->broken && !flow->is_out) { /* then it is not too late for a status */
		if (response->status < 400) {
			buffer_release(&response->body);
			response->status = 503;
		}
		exchange->making = flow_free(flow);
		return;
	}
	buffer_release(&response->body);
	flow->gzip = gzip_stream_free(flow->gzip);
	buffer_release(&flow->packed);
}

/* ---- on a worker: sources ---- */

/* Without a server there is nobody to pull. */
static int read_whole(struct net_response *response, struct net_source *source, uint64_t length)
{
	int r = length > response->body.max ? -E2BIG : buffer_reserve(&response->body, (size_t)length);
	while (r == 0 && length > 0) {
		ssize_t n = source->read(source, response->body.data + response->body.len, (size_t)length);
		r = n > 0 ? 0 : n < 0 ? (int)n : -EIO;
		length -= r == 0 ? (uint64_t)n : 0;
		response->body.len += r == 0 ? (size_t)n : 0;
	}
	source->release(source);
	return r;
}

int net_response_source(struct net_response *response, struct net_source *source, uint64_t length)
{
	struct net_exchange *exchange = response->exchange;
	response->no_compress = true;
	buffer_release(&response->body);
	if (!exchange)
		return read_whole(response, source, length);
	BUDGET_EXEMPT_SCOPE();
	struct net_flow *flow = exchange->making ? NULL : flow_new(exchange);
	bool has_room = flow && exchange_charge_answer(exchange, NET_SOURCE_BYTES);
	if (!has_room) {
		exchange->over_budget = flow;
		flow_free(flow);
		source->release(source);
		return exchange->over_budget ? -EAGAIN : -ENOMEM;
	}
	flow->source = source;
	flow->length = flow->source_left = length;
	exchange->making = flow;
	return 0;
}

struct input_source {
	struct net_source source; /* first */
	struct input *input;
};

static ssize_t read_input(struct net_source *source, uint8_t *out, size_t size)
{
	return input_read(((struct input_source *)source)->input, out, size, NULL);
}

static void release_input(struct net_source *source)
{
	input_free(((struct input_source *)source)->input);
	mem_free(source);
}

int net_response_input(struct net_response *response, struct input *input, uint64_t length)
{
	BUDGET_EXEMPT_SCOPE();
	struct input_source *source = mem_alloc(sizeof(*source));
	if (!source) {
		input_free(input);
		return -ENOMEM;
	}
	*source = (struct input_source){{read_input, release_input}, input};
	return net_response_source(response, &source->source, length);
}

/* The head of a handler that left a source, when it has returned. */
void flow_finish_source(struct net_exchange *exchange)
{
	struct net_flow *flow = exchange->making;
	struct net_response *response = &exchange->response;
	flow->head.status = response->status;
	flow->head.content_type = response->content_type;
	buffer_append_buffer(&flow->head.headers, &response->headers);
	/* It failed after all: the answer is what says so. */
	if (response->status < 400 && buffer_status(&flow->head.headers) == 0)
		return;
	exchange->making = flow_free(flow);
	exchange_credit_answer(exchange);
	if (response->status < 400)
		response->status = 503;
}

void flow_run_source(struct net_exchange *exchange)
{
	struct net_flow *flow = exchange->making;
	size_t size = flow->source_left < PIECE_BYTES ? (size_t)flow->source_left : PIECE_BYTES;
	struct net_piece *piece = mem_alloc(sizeof(*piece) + size);
	ssize_t n = piece ? flow->source->read(flow->source, piece->data, size) : -ENOMEM;
	if (n <= 0 || (size_t)n > size) {
		flow->broken = true;
		mem_free(piece);
		return;
	}
	*piece = (struct net_piece){.len = (size_t)n};
	flow->source_left -= (size_t)n;
	THREAD_LOCK_SCOPE(&flow->lock);
	push_piece(flow, piece);
}

/* ---- on the loop ---- */

struct bytes flow_front(struct net_flow *flow)
{
	if (!flow->sending.first) {
		THREAD_LOCK_SCOPE(&flow->lock);
		flow->sending = flow->queue;
		flow->queue = (struct net_pieces){0};
	}
	struct net_piece *first = flow->sending.first;
	return first ? (struct bytes){first->data + flow->sent, first->len - flow->sent} : (struct bytes){0};
}

void flow_take(struct net_flow *flow, size_t len)
{
	struct net_piece *first = flow->sending.first;
	flow->sent += len;
	if (flow->sent < first->len)
		return;
	flow->sent = 0;
	flow->sending.first = first->next;
	if (!first->next)
		flow->sending.last = NULL;
	pthread_mutex_lock(&flow->lock);
	flow->held -= first->len;
	if (flow->held < FLOW_BYTES_LOW)
		pthread_cond_signal(&flow->space);
	pthread_mutex_unlock(&flow->lock);
	free_piece(flow, first);
}

bool flow_is_complete(struct net_flow *flow)
{
	return flow->ended && flow_front(flow).len == 0;
}

bool flow_is_last(const struct net_flow *flow)
{
	return flow->ended && flow->sending.first && !flow->sending.first->next && !flow->queue.first;
}

void flow_pull(struct net_exchange *exchange)
{
	struct net_flow *flow = exchange->flow;
	if (!flow->source || exchange->job_out || flow->ended || flow->broken)
		return;
	exchange->job_out = true;
	exchange->job.kind = NET_JOB_FAST;
	exchange->job.key = exchange->request.peer;
	workers_submit(&exchange->server->workers, &exchange->job, true);
}

void flow_job_done(struct net_exchange *exchange)
{
	struct net_flow *flow = exchange->flow;
	flow->ended = !flow->broken && (!flow->source || flow->source_left == 0);
	if (flow->broken) {
		server_count(exchange->server, answers_broken, 1);
		exchange->connection->protocol->abort(exchange);
	} else if (exchange->answered) {
		exchange->connection->protocol->resume(exchange);
	} else {
		exchange_answer(exchange);
	}
}
