/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC streams. Messages are gathered on the loop and handed to a worker in batches, one batch at a time, so that the handler
 * of one stream never runs twice at once. Both directions push back:
 *
 *   in    while more than NET_STREAM_BACKLOG_MAX waits for the worker, the protocol gives no flow-control window back, and the
 *         client stops by itself;
 *   out   net_stream_send() blocks its worker while more than NET_STREAM_QUEUE_MAX waits for the client. A client that takes
 *         nothing for request_seconds_max is cut off, so that it cannot hold a worker for ever.
 *
 * The queue out has two halves, `queue` under the lock for the worker and `sending` for the loop; the loop swaps them when its
 * own is empty, and so copies nothing under the lock.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "net/net_int.h"

static void wake_done(struct net_job *job)
{
	struct net_stream *stream = container_of(job, struct net_stream, wake);
	struct net_exchange *exchange = stream->exchange;
	pthread_mutex_lock(&stream->lock);
	stream->wake_queued = false;
	pthread_mutex_unlock(&stream->lock);
	if (!exchange->connection)
		return;
	exchange->active_ns = server_now_ns(exchange->server);
	exchange->connection->protocol->resume(exchange);
}

struct net_stream *stream_new(struct net_exchange *exchange)
{
	struct net_stream *stream = mem_zalloc(sizeof(*stream));
	if (!stream)
		return NULL;
	stream->exchange = exchange;
	stream->wake.done = wake_done;
	stream->gzip = exchange->accepts_gzip;
	stream->last = &stream->first;
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->space, NULL);
	buffer_init(&stream->queue, NET_STREAM_QUEUE_MAX + NET_RESPONSE_MAX);
	buffer_init(&stream->sending, NET_STREAM_QUEUE_MAX + NET_RESPONSE_MAX);
	buffer_init(&stream->partial, exchange->body_max);
	return stream;
}

static struct net_message *free_messages(struct net_message *message)
{
	struct net_message *next;
	for (; message; message = next) {
		next = message->next;
		buffer_release(&message->data);
		mem_free(message);
	}
	return NULL;
}

struct net_stream *stream_free(struct net_stream *stream)
{
	if (!stream)
		return NULL;
	free_messages(stream->first);
	free_messages(stream->batch);
	buffer_release(&stream->partial);
	buffer_release(&stream->queue);
	buffer_release(&stream->sending);
	pthread_cond_destroy(&stream->space);
	pthread_mutex_destroy(&stream->lock);
	return mem_free(stream);
}

void stream_close(struct net_stream *stream)
{
	THREAD_LOCK_SCOPE(&stream->lock);
	stream->closed = true;
	pthread_cond_broadcast(&stream->space);
}

bool stream_needs_close(const struct net_stream *stream)
{
	return stream->touched && !stream->close_notified && stream->exchange->route->stream->on_close;
}

bool stream_is_full(const struct net_stream *stream)
{
	return stream->backlog_bytes > NET_STREAM_BACKLOG_MAX;
}

/* ---- in ---- */

/* What a message counts as: many empty ones are not free either. */
static size_t message_cost(const struct net_message *message)
{
	return sizeof(*message) + GRPC_PREFIX_BYTES + message->data.len;
}

/* The bytes of the message are accounted already, as they came; here its administration. */
static int push_message(struct net_exchange *exchange, bool compressed)
{
	struct net_stream *stream = exchange->stream;
	struct net_message *message = mem_zalloc(sizeof(*message));
	if (!message || !exchange_account(exchange, sizeof(*message))) {
		mem_free(message);
		return -ENOMEM;
	}
	message->data = stream->partial;
	message->compressed = compressed;
	buffer_init(&stream->partial, exchange->body_max);
	*stream->last = message;
	stream->last = &message->next;
	stream->backlog_bytes += message_cost(message);
	return 0;
}

void stream_data(struct net_exchange *exchange, struct bytes data)
{
	struct net_stream *stream = exchange->stream;
	while (data.len > 0) {
		struct grpc_head head;
		int r = grpc_read(&exchange->reader, &data, &stream->partial, &head);
		if (r > 0)
			r = push_message(exchange, head.compressed);
		if (r < 0) {
			exchange_refuse_data(exchange, r, "a message");
			return;
		}
	}
	stream_dispatch(exchange);
}

void stream_dispatch(struct net_exchange *exchange)
{
	struct net_stream *stream = exchange->stream;
	if (exchange->job_out || exchange->answered || stream->final || cancel_requested(&exchange->request.cancelled))
		return;
	if (!stream->first && !exchange->body_done)
		return;
	stream->batch = stream->first;
	stream->batch_bytes = stream->backlog_bytes;
	stream->backlog_bytes = 0;
	stream->first = NULL;
	stream->last = &stream->first;
	stream->ending = exchange->body_done;
	/* A stream that has begun may not be rejected because of a full queue. */
	if (workers_submit(&exchange->server->workers, &exchange->job, stream->touched) < 0)
		exchange_refuse(exchange, 503, -1, "busy: %d requests are queued already; try again later", NET_QUEUE_MAX);
	else
		exchange_job_out(exchange);
}

/* ---- on a worker ---- */

static void end_with(struct net_exchange *exchange, enum grpc_code code)
{
	exchange->response.grpc_status = code;
	exchange->stream->final = true;
}

static void run_messages(struct net_exchange *exchange)
{
	struct net_stream *stream = exchange->stream;
	const struct net_stream_handler *handler = exchange->route->stream;
	for (struct net_message *message = stream->batch; message; message = message->next) {
		if (cancel_requested(&exchange->request.cancelled))
			return;
		if (message->compressed && !exchange_unpack(exchange, &message->data, "gzip", "a message")) {
			stream->final = true;
			return;
		}
		stream->touched = true;
		enum grpc_code code = handler->on_message(exchange->route->context, &exchange->request, stream,
							  buffer_bytes(&message->data), &exchange->response);
		buffer_release(&message->data);
		if (code != GRPC_OK || stream->complete) {
			end_with(exchange, code);
			return;
		}
	}
}

static void notify_close(struct net_exchange *exchange)
{
	struct net_stream *stream = exchange->stream;
	if (!stream_needs_close(stream))
		return;
	stream->close_notified = true;
	exchange->route->stream->on_close(exchange->route->context, stream);
}

void stream_run(struct net_exchange *exchange)
{
	struct net_stream *stream = exchange->stream;
	if (!stream->closing)
		run_messages(exchange);
	stream->batch = free_messages(stream->batch);
	if (stream->ending && !stream->closing && !stream->final && !cancel_requested(&exchange->request.cancelled)) {
		stream->touched = true;
		end_with(exchange, exchange->route->stream->on_end(exchange->route->context, &exchange->request, stream,
								   &exchange->response));
	}
	if (stream->final || stream->closing)
		notify_close(exchange);
}

void **net_stream_slot(struct net_stream *stream)
{
	return &stream->slot;
}

/* Without worker threads nobody would empty the queue meanwhile: there it is an error. */
static int wait_for_space(struct net_stream *stream)
{
	while (!stream->closed && stream->queue.len > NET_STREAM_QUEUE_MAX) {
		if (stream->exchange->server->workers.thread_count == 0)
			return -ENOBUFS;
		pthread_cond_wait(&stream->space, &stream->lock);
	}
	return stream->closed ? -EPIPE : 0;
}

void net_stream_end(struct net_stream *stream)
{
	stream->complete = true;
}

int net_stream_send(struct net_stream *stream, struct bytes message)
{
	_cleanup_(buffer_release) struct buffer framed = {.max = NET_RESPONSE_MAX};
	bool gzip = stream->gzip && !stream->exchange->response.no_compress;
	int r = grpc_append_message(&framed, message, gzip ? NET_GZIP : NET_PLAIN);
	if (r < 0)
		return r;
	pthread_mutex_lock(&stream->lock);
	r = wait_for_space(stream);
	if (r == 0)
		r = buffer_append(&stream->queue, framed.data, framed.len);
	if (r < 0) /* the next message may fit */
		buffer_truncate(&stream->queue, stream->queue.len);
	bool wake = r == 0 && !stream->wake_queued;
	if (wake)
		stream->wake_queued = true;
	pthread_mutex_unlock(&stream->lock);
	if (wake)
		workers_wake(&stream->exchange->server->workers, &stream->wake);
	return r;
}

/* ---- out ---- */

bool stream_has_output(struct net_stream *stream)
{
	if (stream->sent < stream->sending.len)
		return true;
	buffer_clear(&stream->sending);
	stream->sent = 0;
	THREAD_LOCK_SCOPE(&stream->lock);
	struct buffer full = stream->queue;
	stream->queue = stream->sending;
	stream->sending = full;
	pthread_cond_broadcast(&stream->space);
	return stream->sending.len > 0;
}

size_t stream_read_output(struct net_stream *stream, uint8_t *out, size_t size)
{
	size_t done = 0;
	while (done < size && stream_has_output(stream)) {
		size_t left = stream->sending.len - stream->sent;
		size_t take = left < size - done ? left : size - done;
		memcpy(out + done, stream->sending.data + stream->sent, take);
		stream->sent += take;
		done += take;
	}
	stream->exchange->sent_bytes += done;
	if (done > 0)
		stream->exchange->active_ns = server_now_ns(stream->exchange->server);
	return done;
}
