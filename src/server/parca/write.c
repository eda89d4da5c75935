/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parca.profilestore.v1alpha1.ProfileStoreService/Write, a stream both ways:
 *
 *   agent     1 record: samples, with ids of their stacks
 *   server    1 record: the ids that it wants to know
 *   agent     1 record: the locations of these stacks
 *   server    the end
 *
 * All ids are asked for: stacks are known here by what is in them. The agent ends its half only after the server has ended the
 * stream, so the server does not wait for that. What the samples were is kept meanwhile, within limits for all streams
 * together.
 *
 * Samples of version 2 have their stacks, and agents send them by WriteArrow; but what an agent has recorded while it was
 * offline comes by Write whatever its version, and that agent cannot do without a record of ids (it crashes). Parca asks for
 * ids there, too. So does this, when the samples are stored; what comes then, if anything does, says nothing new.
 */

#include "base/alloc.h"
#include "base/limits.h"
#include "codec/protobuf.h"
#include "format/parca_arrow.h"
#include "server/ingest/ingest_int.h"
#include "server/parca/routes.h"

#define HELD_MAX  (256 * MIB)
#define ASKED_MAX (64 * MIB)

struct writing {
	struct server *server;
	bool is_stored; /* the samples had their stacks */
	struct buffer samples;
	size_t held; /* of server->write_held */
};

static enum grpc_code keep(struct server *server, struct net_stream *stream, struct bytes samples,
			   struct net_response *response)
{
	if (atomic_fetch_add(&server->write_held, samples.len) + samples.len > HELD_MAX) {
		atomic_fetch_sub(&server->write_held, samples.len);
		return respond_grpc(response, GRPC_RESOURCE_EXHAUSTED,
				    "too many streams are waiting for their locations; try again later");
	}
	struct writing *writing = mem_zalloc(sizeof(*writing));
	if (!writing) {
		atomic_fetch_sub(&server->write_held, samples.len);
		return respond_grpc(response, GRPC_UNAVAILABLE, "out of memory");
	}
	*writing = (struct writing){.server = server, .held = samples.len, .samples.max = samples.len};
	*net_stream_slot(stream) = writing;
	return buffer_append(&writing->samples, samples.data, samples.len) < 0
		       ? respond_grpc(response, GRPC_UNAVAILABLE, "out of memory")
		       : GRPC_OK;
}

static enum grpc_code send_ids(struct net_stream *stream, struct bytes ids, struct net_response *response)
{
	_cleanup_(buffer_release) struct buffer message = {.max = ids.len + KIB};
	if (pb_write_bytes(&message, 1, ids.data, ids.len) < 0)
		return respond_grpc(response, GRPC_UNAVAILABLE, "out of memory");
	return net_stream_send(stream, buffer_bytes(&message)) < 0
		       ? respond_grpc(response, GRPC_CANCELLED, "the client disconnected")
		       : GRPC_OK;
}

static enum grpc_code store(struct server *server, const struct net_request *request, struct bytes samples,
			    struct bytes locations, struct net_response *response)
{
	struct error err = {0};
	int r = ingest_parca_arrow(server, request, samples, locations, response, &err);
	return r < 0 ? respond_grpc(response, grpc_code_of(r), err.message) : GRPC_OK;
}

/* The second record. */
static enum grpc_code finish(struct server *server, const struct net_request *request, struct net_stream *stream,
			     struct bytes locations, struct net_response *response)
{
	const struct writing *writing = *net_stream_slot(stream);
	enum grpc_code code =
		writing->is_stored ? GRPC_OK : store(server, request, buffer_bytes(&writing->samples), locations, response);
	net_stream_end(stream);
	return code;
}

/* The first one. */
static enum grpc_code begin(struct server *server, const struct net_request *request, struct net_stream *stream,
			    struct bytes samples, struct net_response *response)
{
	struct error err = {0};
	_cleanup_(buffer_release) struct buffer ids = {.max = ASKED_MAX};
	int r = parca_arrow_request(samples, server_body_max(server), &ids, &err);
	if (r < 0)
		return respond_grpc(response, grpc_code_of(r), err.message);
	enum grpc_code code = r > 0 ? GRPC_OK : store(server, request, samples, (struct bytes){0}, response);
	if (code == GRPC_OK)
		code = keep(server, stream, r > 0 ? samples : (struct bytes){0}, response);
	if (code != GRPC_OK)
		return code;
	((struct writing *)*net_stream_slot(stream))->is_stored = r == 0;
	return send_ids(stream, buffer_bytes(&ids), response);
}

static enum grpc_code on_message(void *context, const struct net_request *request, struct net_stream *stream,
				 struct bytes message, struct net_response *response)
{
	struct server *server = context;
	struct writing *writing = *net_stream_slot(stream);
	struct error err = {0};
	struct bytes record;
	int r = pb_find_bytes(NULL, message, 1, &record, &err);
	if (r < 0)
		return respond_grpc(response, GRPC_INVALID_ARGUMENT, err.message);
	if (record.len == 0)
		return respond_grpc(response, GRPC_INVALID_ARGUMENT, "a message without a record");
	return writing ? finish(server, request, stream, record, response) : begin(server, request, stream, record, response);
}

static enum grpc_code on_end(void *context, const struct net_request *request, struct net_stream *stream,
			     struct net_response *response)
{
	const struct writing *writing = *net_stream_slot(stream);
	if (writing && writing->is_stored)
		return GRPC_OK;
	return respond_grpc(response, GRPC_INVALID_ARGUMENT,
			    writing ? "the stream ended before the locations of its samples"
				    : "the stream ended before a record of samples");
}

static void on_close(void *context, struct net_stream *stream)
{
	struct writing *writing = *net_stream_slot(stream);
	if (!writing)
		return;
	atomic_fetch_sub(&writing->server->write_held, writing->held);
	buffer_release(&writing->samples);
	*net_stream_slot(stream) = mem_free(writing);
}

const struct net_stream_handler parca_write = {.on_message = on_message, .on_end = on_end, .on_close = on_close};
