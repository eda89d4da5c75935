/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries that run in the background: SelectMergeStacktraces with `async { 1 request_id  2 type }`, for clients behind proxies
 * that give up before a long query has ended.
 *
 *   type FORCE, no id    the query is started              ->  4 async { 1 request_id  2 status IN_PROGRESS }
 *   type FORCE, an id    how it is; other fields are passed over
 *                                                          ->  4 async { 1 request_id  2 status  3 error_message },
 *                                                              and after SUCCESS what the query would have returned
 *   another type         as if it were not there
 *
 * Each has a thread of its own, and so does not take its turn with other slow requests; therefore few may run at a time. It has
 * the longest deadline that queries may have. What has ended is kept in memory for ten minutes, or until newer results need the
 * room, and may be fetched several times. A restart forgets all, and a poll then is NOT_FOUND. An id is 128 random bits, and
 * only found by the tenant that began the query.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/thread.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "server/http/rpc.h"
#include "server/pyroscope/pyroscope_int.h"
#include "server/stores/snapshots.h"

#define RUNNING_MAX 2	       /* of all tenants: each may take the memory of a query */
#define KEPT_MAX    64	       /* that run or have ended */
#define KEPT_BYTES  (64 * MIB) /* of results; one may have as many */
#define KEPT_NS	    (600 * NS_PER_S)
#define REQUEST_MAX (4 * MIB) /* more than any that can be run: pyroscope/request.c */
#define FORCE	    1

enum status { STATUS_UNKNOWN, STATUS_IN_PROGRESS, STATUS_SUCCESS, STATUS_FAILURE };

struct async_query {
	struct async_queries *all;
	char id[SNAPSHOT_ID_SIZE];
	struct tenant *tenant; /* lives as long as the server */
	struct buffer request, answer;
	char partial[160]; /* why the answer is; "" = it is not */
	char problem[ERROR_MESSAGE_MAX];
	pthread_t thread;
	atomic_bool cancel;
	enum status status; /* lock */
	int64_t ended_ns;   /* lock; monotonic */
};
struct async_queries {
	struct server *server;
	pthread_mutex_t lock;
	struct async_query *items[KEPT_MAX]; /* the oldest first */
	size_t count;
};

static struct async_query *query_free(struct async_query *query)
{
	buffer_release(&query->request);
	buffer_release(&query->answer);
	return mem_free(query);
}

static void *run(void *context)
{
	struct async_query *query = context;
	struct error err = {0};
	int r = pyroscope_run_stacktraces(query->all->server, query->tenant, buffer_bytes(&query->request), &query->cancel,
					  &query->answer, query->partial, sizeof(query->partial), &err);
	if (r < 0)
		buffer_release(&query->answer);
	THREAD_LOCK_SCOPE(&query->all->lock);
	buffer_release(&query->request); /* only the result is kept */
	snprintf(query->problem, sizeof(query->problem), "%s", r < 0 ? err.message : "");
	query->status = r < 0 ? STATUS_FAILURE : STATUS_SUCCESS;
	query->ended_ns = time_monotonic_ns();
	return NULL;
}

/* ---- what is kept; the lock is held ---- */

static void forget(struct async_queries *all, size_t i)
{
	struct async_query *query = all->items[i];
	pthread_join(query->thread, NULL); /* it has given the lock back, or is about to end */
	all->count--;
	memmove(all->items + i, all->items + i + 1, (all->count - i) * sizeof(*all->items));
	query_free(query);
}

/* Those whose time is over, and the oldest of those that have ended while there are too many, or they are too large. */
static void make_room(struct async_queries *all)
{
	int64_t now_ns = time_monotonic_ns();
	uint64_t bytes = 0;
	for (size_t i = 0; i < all->count; i++)
		bytes += all->items[i]->status == STATUS_SUCCESS ? all->items[i]->answer.len : 0;
	for (size_t i = 0; i < all->count;) {
		const struct async_query *query = all->items[i];
		bool ended = query->status != STATUS_IN_PROGRESS;
		if (!ended || (now_ns - query->ended_ns < KEPT_NS && bytes <= KEPT_BYTES && all->count < KEPT_MAX)) {
			i++;
			continue;
		}
		bytes -= query->answer.len;
		forget(all, i);
	}
}

static size_t count_running(const struct async_queries *all)
{
	size_t running = 0;
	for (size_t i = 0; i < all->count; i++)
		running += all->items[i]->status == STATUS_IN_PROGRESS;
	return running;
}

static struct async_query *find(struct async_queries *all, const struct tenant *tenant, struct bytes id)
{
	for (size_t i = 0; i < all->count; i++)
		if (all->items[i]->tenant == tenant && bytes_equal_string(id, all->items[i]->id))
			return all->items[i];
	return NULL;
}

/* ---- calls ---- */

static int write_state(struct buffer *out, const struct async_query *query, struct error *err)
{
	size_t mark;
	if (query->status == STATUS_SUCCESS)
		buffer_append(out, query->answer.data, query->answer.len);
	pb_begin(out, 4, &mark);
	pb_write_string(out, 1, query->id);
	pb_write_varint(out, 2, query->status);
	pb_put_string(out, 3, query->problem);
	return rpc_too_large(pb_end(out, mark), err);
}

static int new_query(struct async_queries *all, struct tenant *tenant, struct bytes request, struct async_query **ret,
		     struct error *err)
{
	struct async_query *query = mem_zalloc(sizeof(*query));
	if (!query)
		return error_nomem(err);
	query->all = all;
	query->tenant = tenant;
	query->status = STATUS_IN_PROGRESS;
	buffer_init(&query->request, request.len + 1);
	buffer_init(&query->answer, KEPT_BYTES);
	int r = snapshot_make_id(query->id, err);
	if (!r && buffer_append(&query->request, request.data, request.len) < 0)
		r = error_nomem(err);
	if (r < 0) {
		query_free(query);
		return r;
	}
	*ret = query;
	return 0;
}

static int submit(struct async_queries *all, struct tenant *tenant, struct bytes request, struct buffer *out, struct error *err)
{
	struct async_query *query = NULL;
	if (request.len > REQUEST_MAX)
		return error_set(err, -E2BIG, "the request has more than %llu MiB, the limit for queries in the background",
				 REQUEST_MAX / MIB);
	THREAD_LOCK_SCOPE(&all->lock);
	make_room(all);
	if (count_running(all) >= RUNNING_MAX || all->count == KEPT_MAX)
		return error_set(err, -EDQUOT, "%d queries run in the background already, the limit; try again later",
				 RUNNING_MAX);
	int r = new_query(all, tenant, request, &query, err);
	if (r < 0)
		return r;
	r = thread_start(&query->thread, "wick-async", run, query, err);
	if (r < 0) {
		query_free(query);
		return r;
	}
	all->items[all->count++] = query;
	return write_state(out, query, err);
}

static int poll_query(struct async_queries *all, struct rpc_call *call, struct tenant *tenant, struct bytes id,
		      struct buffer *out, struct error *err)
{
	THREAD_LOCK_SCOPE(&all->lock);
	make_room(all);
	const struct async_query *query = find(all, tenant, id);
	if (!query)
		return error_set(err, -ENOENT, "async query not found");
	if (query->status == STATUS_SUCCESS && query->partial[0])
		net_response_header(call->response, "X-Wick-Partial", query->partial);
	return write_state(out, query, err);
}

/* The async field of a request. */
static int read_wish(struct bytes request, uint64_t *ret_type, struct bytes *ret_id, struct error *err)
{
	struct pb_field field;
	struct bytes message;
	int r = pb_find_bytes(NULL, request, 9, &message, err);
	struct pb_cursor cursor = pb_open(r < 0 ? (struct bytes){0} : message);
	*ret_type = 0;
	*ret_id = (struct bytes){0};
	while (!r && (r = pb_next(&cursor, &field, err)) > 0) {
		r = 0;
		if (field.number == 1 && field.wire == PB_BYTES)
			*ret_id = field.bytes;
		else if (field.number == 2 && field.wire == PB_VARINT)
			*ret_type = field.value;
	}
	return r;
}

int pyroscope_async_call(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	struct async_queries *all = call->server->async;
	struct tenant *tenant;
	struct bytes id;
	uint64_t type;
	int r = read_wish(request, &type, &id, err);
	if (r < 0 || type != FORCE)
		return r;
	r = tenant_of_request(call->server, call->request, false, &tenant, err);
	if (!r)
		r = id.len ? poll_query(all, call, tenant, id, out, err) : submit(all, tenant, request, out, err);
	return r < 0 ? r : 1;
}

int pyroscope_async_open(struct server *server, struct error *err)
{
	server->async = mem_zalloc(sizeof(*server->async));
	if (!server->async)
		return error_nomem(err);
	server->async->server = server;
	pthread_mutex_init(&server->async->lock, NULL);
	return 0;
}

void pyroscope_async_close(struct server *server)
{
	struct async_queries *all = server->async;
	if (!all)
		return;
	for (size_t i = 0; i < all->count; i++)
		cancel_request(&all->items[i]->cancel);
	while (all->count)
		forget(all, all->count - 1); /* nobody else calls any more, so the lock is free for those that end */
	pthread_mutex_destroy(&all->lock);
	server->async = mem_free(all);
}
