/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parca.debuginfo.v1alpha1.DebuginfoService (github.com/parca-dev/parca, proto/parca/debuginfo/v1alpha1/debuginfo.proto), so
 * that Parca's agents send their debug information here:
 *
 *   ShouldInitiateUpload  1 build_id  2 hash  3 force  4 type  5 build_id_type   ->  1 should_initiate_upload  2 reason
 *   InitiateUpload        1 build_id  2 size  3 hash  4 force  5 type  6 build_id_type
 *                         ->  1 upload_instructions { 1 build_id  2 upload_id  3 upload_strategy (1 = by gRPC)  5 type }
 *   Upload (stream)       1 info { 1 build_id  2 upload_id  3 type }, then messages with  2 chunk_data
 *                         ->  1 build_id  2 size
 *   MarkUploadFinished    1 build_id  2 upload_id  3 type  ->  (empty)
 *
 * type: 0 debuginfo, 1 executable, 2 sources, as enum upload_kind; build_id_type: 0 unknown, 1 GNU, 2 a hash, 3 Go's. A file
 * that is known by a hash may well have a build-id: Parca Agent reads the first segment of notes only, and sends a hash of the
 * file for most of Debian's binaries and for all of Go's. An id of unknown type is a build-id.
 *
 * The first response is the last that an agent asks for: it offers a file when it first sees it, and again when its cache has
 * forgotten the file, hours later (parca-agent, reporter/parca_uploader.go), also where the reason is "still in-progress",
 * which only keeps it from asking within five minutes. So whatever is not known to be needless is wanted, although it may turn
 * out later that it can be had elsewhere. FAILED_PRECONDITION means the same as in-progress, ALREADY_EXISTS and
 * INVALID_ARGUMENT that nobody needs it.
 *
 * An agent that is interrupted sends its file from the beginning again: what has arrived of it before is skipped. Its hash is
 * that of the program, not of the file that is sent, so it tells attempts apart but cannot be checked; it is given a prefix so
 * that it is not taken for one that can.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "codec/protobuf.h"
#include "server/debuginfo/api_debuginfo.h"
#include "server/parca/routes.h"

#define REASON_FIRST	   "First time we see this Build ID, and it does not exist in debuginfod, therefore please upload!"
#define REASON_STALE	   "A previous upload was started but not finished and is now stale, so it can be retried."
#define REASON_IN_PROGRESS "A previous upload is still in-progress and not stale yet (only stale uploads can be retried)."
#define REASON_RESTART	   "A previous upload is in-progress, but accepting restart because it's requested to be forced."
#define REASON_EXISTS	   "Debuginfo already exists and is not marked as invalid, therefore no new upload is needed."
#define REASON_FORCED                                                                                                          \
	"Debuginfo already exists and is not marked as invalid, therefore wouldn't have accepted a new upload, but accepting " \
	"it because it's requested to be forced."
#define REASON_INVALID                                                                                                         \
	"Debuginfo already exists but is marked as invalid, therefore a new upload is needed. Hash the debuginfo and "         \
	"initiate the upload."
#define REASON_EQUAL                                                                                                           \
	"Debuginfo already exists and is marked as invalid, but the proposed hash is the same as the one already available, "  \
	"therefore the upload is not accepted as it would result in the same invalid debuginfos."
#define REASON_NOT_EQUAL "Debuginfo already exists but is marked as invalid, therefore a new upload will be accepted."
#define REASON_KNOWN	 "Debuginfo exists in debuginfod, therefore no upload is necessary."
#define REASON_NO_HEX	 "Debuginfo is stored by hexadecimal build IDs only, therefore no upload is possible."
#define REASON_DISABLED	 "This server accepts no debuginfo (symbols.uploads.enabled in its configuration)."

#define STRATEGY_GRPC	   1
#define BUILD_ID_TYPE_HASH 2
#define BUILD_ID_TYPE_GO   3
#define FIELDS_MAX	   7

/* All requests are of this form: texts and numbers by field. Views into the message; the last of a field counts. */
struct request {
	struct bytes texts[FIELDS_MAX];
	uint64_t numbers[FIELDS_MAX];
};

static int parse_request(struct bytes message, struct request *ret, struct error *err)
{
	struct pb_field field;
	int r;
	*ret = (struct request){0};
	struct pb_cursor cursor = pb_open(message);
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number >= FIELDS_MAX)
			continue;
		if (field.wire == PB_BYTES)
			ret->texts[field.number] = field.bytes;
		else if (field.wire == PB_VARINT)
			ret->numbers[field.number] = field.value;
	}
	return r;
}

/* What an upload is about, from the fields that two of the calls have in common. */
struct subject {
	struct upload_begin begin;
	bool named_hex; /* its build-id can be the name of a file here */
};

static void copy_text(char *out, size_t size, struct bytes text)
{
	snprintf(out, size, "%.*s", text.len < size ? (int)text.len : 0, (const char *)text.data);
}

static int parse_subject(struct bytes build_id, struct bytes hash, bool force, uint64_t type, uint64_t id_type,
			 struct subject *ret, struct error *err)
{
	*ret = (struct subject){.begin.force = force};
	copy_text(ret->begin.build_id, sizeof(ret->begin.build_id), build_id);
	ret->named_hex = build_id_is_valid(ret->begin.build_id) && strlen(ret->begin.build_id) >= 4;
	ret->begin.kind = type <= UPLOAD_SOURCES ? (enum upload_kind)type : UPLOAD_KINDS;
	ret->begin.without_build_id = id_type == BUILD_ID_TYPE_HASH || id_type == BUILD_ID_TYPE_GO;
	ret->begin.id_type = id_type == BUILD_ID_TYPE_HASH ? FILE_ID_HASH
			     : id_type == BUILD_ID_TYPE_GO ? FILE_ID_GO
							   : FILE_ID_GNU;
	if (hash.len)
		snprintf(ret->begin.hash, sizeof(ret->begin.hash), "parca%.*s", hash.len < 59 ? (int)hash.len : 59,
			 (const char *)hash.data);
	if (build_id.len <= 2)
		return error_set(err, -EINVAL, "unexpectedly short input");
	if (!ret->named_hex && !ret->begin.without_build_id)
		return error_set(err, -EINVAL, "the build ID must be lower-case hexadecimal digits");
	return 0;
}

/* An upload that is there already: is it any good, and if not, is this a better one? */
static const char *decide_existing(struct debuginfo_call *call, const struct upload_begin *begin, bool *ret_should)
{
	bool invalid = begin->kind == UPLOAD_DEBUGINFO && debuginfo_is_state(call, begin->build_id, 1u << SYMBOL_FAILED);
	*ret_should = begin->force || invalid;
	if (!invalid)
		return begin->force ? REASON_FORCED : REASON_EXISTS;
	if (!*begin->hash)
		return REASON_INVALID;
	*ret_should = !uploads_has_same(call->server->uploads, &call->symbols.scope, begin->build_id, begin->kind, begin->hash);
	return *ret_should ? REASON_NOT_EQUAL : REASON_EQUAL;
}

static const char *decide_upload(struct debuginfo_call *call, const struct subject *subject, bool *ret_should)
{
	const struct upload_begin *begin = &subject->begin;
	const struct uploads_scope *scope = &call->symbols.scope;
	struct uploads *uploads = call->server->uploads;
	*ret_should = false;
	if (call->server->options.symbols.no_uploads)
		return REASON_DISABLED;
	if (!subject->named_hex || begin->kind == UPLOAD_KINDS)
		return REASON_NO_HEX;
	if (uploads_is_coming(uploads, scope, begin->build_id, begin->kind, NULL)) {
		*ret_should = begin->force;
		return begin->force ? REASON_RESTART : REASON_IN_PROGRESS;
	}
	if (uploads_has(uploads, scope, begin->build_id, begin->kind))
		return decide_existing(call, begin, ret_should);
	bool is_debuginfo = begin->kind == UPLOAD_DEBUGINFO, later = false;
	bool wanted = !is_debuginfo || debuginfo_symbols_are_wanted(call, begin->build_id, "", &later);
	*ret_should = begin->force || wanted || later;
	if (!*ret_should)
		return REASON_KNOWN;
	return uploads_is_stale(uploads, scope, begin->build_id, begin->kind) ? REASON_STALE : REASON_FIRST;
}

void parca_should_initiate(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct request in;
	struct subject subject;
	struct debuginfo_call call;
	bool should = false;
	int r = parse_request(net_request_body(request), &in, &err);
	if (!r)
		r = parse_subject(in.texts[1], in.texts[2], in.numbers[3], in.numbers[4], in.numbers[5], &subject, &err);
	if (!r)
		r = debuginfo_call_init(context, request, &call, &err);
	if (r < 0) {
		respond_grpc(response, grpc_code_of(r), err.message);
		return;
	}
	const char *reason = decide_upload(&call, &subject, &should);
	if ((should && pb_write_varint(&response->body, 1, 1) < 0) || pb_write_string(&response->body, 2, reason) < 0)
		respond_grpc(response, GRPC_UNAVAILABLE, "out of memory");
}

static int write_instructions(struct buffer *out, const struct upload_begin *begin, const char *id)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	pb_write_string(out, 1, begin->build_id);
	pb_write_string(out, 2, id);
	pb_write_varint(out, 3, STRATEGY_GRPC);
	if (begin->kind)
		pb_write_varint(out, 5, begin->kind);
	return pb_end(out, mark);
}

static void initiate(struct debuginfo_call *call, const struct subject *subject, struct net_response *response)
{
	struct error err = {0};
	char id[UPLOAD_ID_MAX], text[512];
	uint64_t offset;
	bool should;
	const char *reason = decide_upload(call, subject, &should);
	if (!should && strcmp(reason, REASON_EQUAL) == 0) {
		respond_grpc(response, GRPC_ALREADY_EXISTS, reason);
		return;
	}
	snprintf(text, sizeof(text),
		 "upload should not have been attempted to be initiated, a previous check should have failed with: %s", reason);
	if (!should) {
		respond_grpc(response, GRPC_FAILED_PRECONDITION, text);
		return;
	}
	struct upload_begin begin = subject->begin;
	begin.force |= strcmp(reason, REASON_NOT_EQUAL) == 0;
	int r = uploads_begin(call->server->uploads, &begin, id, &offset, &err);
	if (r == -E2BIG) /* agents do not come back after this one */
		r = -EINVAL;
	if (!r)
		r = write_instructions(&response->body, &begin, id);
	if (r < 0)
		respond_grpc(response, grpc_code_of(r), err.message);
}

void parca_initiate(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	struct request in;
	struct subject subject;
	struct debuginfo_call call;
	int r = parse_request(net_request_body(request), &in, &err);
	if (!r)
		r = parse_subject(in.texts[1], in.texts[3], in.numbers[4], in.numbers[5], in.numbers[6], &subject, &err);
	if (!r && !in.texts[3].len)
		r = error_set(&err, -EINVAL, "hash must be set");
	if (!r && !in.numbers[2])
		r = error_set(&err, -EINVAL, "size must be set");
	if (!r)
		r = debuginfo_call_init(context, request, &call, &err);
	if (r < 0) {
		respond_grpc(response, grpc_code_of(r), err.message);
		return;
	}
	subject.begin.size = in.numbers[2];
	memcpy(subject.begin.tenant, call.tenant, sizeof(subject.begin.tenant));
	initiate(&call, &subject, response);
}

/* ---- the stream ---- */

struct stream {
	char id[UPLOAD_ID_MAX], build_id[BUILD_ID_HEX_MAX];
	uint64_t at;	 /* where the next chunk belongs */
	uint64_t offset; /* where the upload is: before it, what arrives is there already */
};

static enum grpc_code stream_begin(struct server *server, const struct net_request *request, struct net_stream *stream,
				   struct bytes info, struct net_response *response)
{
	struct error err = {0};
	struct request in;
	struct upload_begin begin;
	int r = parse_request(info, &in, &err);
	struct stream *upload = r < 0 ? NULL : mem_zalloc(sizeof(*upload));
	if (!upload) {
		respond_grpc(response, r < 0 ? GRPC_INVALID_ARGUMENT : GRPC_UNAVAILABLE, r < 0 ? err.message : "out of memory");
		return response->grpc_status;
	}
	*net_stream_slot(stream) = upload;
	copy_text(upload->build_id, sizeof(upload->build_id), in.texts[1]);
	copy_text(upload->id, sizeof(upload->id), in.texts[2]);
	if (debuginfo_find_upload(server, request, upload->id, &begin, &upload->offset, NULL) < 0)
		respond_grpc(response, GRPC_INVALID_ARGUMENT,
			     "the upload ID does not match the one returned by the InitiateUpload call");
	else if (strcmp(begin.build_id, upload->build_id) != 0)
		respond_grpc(response, GRPC_INVALID_ARGUMENT, "the build ID is not that of the upload ID");
	return response->grpc_status;
}

static enum grpc_code stream_chunk(struct server *server, struct stream *upload, struct bytes chunk,
				   struct net_response *response)
{
	struct error err = {0};
	uint64_t end = upload->at + chunk.len;
	if (end > upload->offset) {
		size_t skip = upload->at < upload->offset ? (size_t)(upload->offset - upload->at) : 0;
		int r = uploads_write(server->uploads, upload->id, upload->at + skip,
				      (struct bytes){chunk.data + skip, chunk.len - skip}, &upload->offset, &err);
		if (r < 0)
			respond_grpc(response, grpc_code_of(r), err.message);
	}
	upload->at = end;
	return response->grpc_status;
}

static enum grpc_code on_message(void *context, const struct net_request *request, struct net_stream *stream,
				 struct bytes message, struct net_response *response)
{
	struct error err = {0};
	struct request in;
	struct stream *upload = *net_stream_slot(stream);
	int r = parse_request(message, &in, &err);
	if (r < 0)
		respond_grpc(response, GRPC_INVALID_ARGUMENT, err.message);
	else if (!upload && !in.texts[1].data)
		respond_grpc(response, GRPC_INVALID_ARGUMENT, "the first message of an upload must be its info");
	else if (!upload)
		return stream_begin(context, request, stream, in.texts[1], response);
	else if (in.texts[2].len)
		return stream_chunk(context, upload, in.texts[2], response);
	return response->grpc_status;
}

static enum grpc_code on_end(void *context, const struct net_request *request, struct net_stream *stream,
			     struct net_response *response)
{
	struct stream *upload = *net_stream_slot(stream);
	_cleanup_(buffer_release) struct buffer message = {.max = 1024};
	if (!upload)
		respond_grpc(response, GRPC_UNKNOWN, "failed to receive upload info: the stream was empty");
	else if (pb_write_string(&message, 1, upload->build_id) < 0 || pb_write_varint(&message, 2, upload->at) < 0)
		respond_grpc(response, GRPC_UNAVAILABLE, "out of memory");
	else if (net_stream_send(stream, buffer_bytes(&message)) < 0)
		respond_grpc(response, GRPC_CANCELLED, "the client disconnected");
	return response->grpc_status;
}

static void on_close(void *context, struct net_stream *stream)
{
	*net_stream_slot(stream) = mem_free(*net_stream_slot(stream));
}

const struct net_stream_handler parca_upload = {.on_message = on_message, .on_end = on_end, .on_close = on_close};

void parca_finished(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	struct request in;
	struct upload_begin begin;
	char build_id[BUILD_ID_HEX_MAX], id[UPLOAD_ID_MAX];
	uint64_t offset;
	int r = parse_request(net_request_body(request), &in, &err);
	if (r < 0) {
		respond_grpc(response, GRPC_INVALID_ARGUMENT, err.message);
		return;
	}
	copy_text(build_id, sizeof(build_id), in.texts[1]);
	copy_text(id, sizeof(id), in.texts[2]);
	if (in.texts[1].len <= 2)
		respond_grpc(response, GRPC_INVALID_ARGUMENT, "unexpectedly short input");
	else if (debuginfo_find_upload(server, request, id, &begin, &offset, NULL) < 0)
		respond_grpc(response, GRPC_NOT_FOUND, "no debuginfo upload metadata found for build id");
	else if (strcmp(begin.build_id, build_id) != 0)
		respond_grpc(response, GRPC_INVALID_ARGUMENT, "upload id mismatch");
	else if ((r = uploads_finish(server->uploads, id, &err)) < 0)
		respond_grpc(response, grpc_code_of(r), err.message);
}
