/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots over HTTP: an answer that is kept under an id, so that who gets a link to it sees what its maker saw, also when the
 * data are gone, names have arrived or the range has moved on. snapshots.c keeps them.
 *
 *   POST   /api/v1/snapshots       ask, and keep the answer
 *   GET    /api/v1/snapshots       what there is
 *   GET    /api/v1/snapshots/ID    one
 *   DELETE /api/v1/snapshots/ID
 *
 * What is kept is the body of a later GET, gzipped: {"snapshot": {what a list says of it, "state"}, "answer": ...}; of a file
 * that somebody brings, what the page shows of it, in the form of api_view.c. It never changes, so it is sent as it lies on
 * disk, and a client that has it need not ask again.
 */
#include <jansson.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/compress.h"
#include "server/api/api_int.h"
#include "server/http/access.h"
#include "server/recordings/api_recordings.h"
#include "server/stores/snapshots.h"
#include "server/viewer/api_snapshots.h"
#include "server/viewer/api_view.h"

#define BELOW		SNAPSHOTS_PATH "/"
#define GZIP_LEVEL	6
#define LIST_DEFAULT	100
#define LIST_MAX	1000
#define PLAIN_BYTES_MAX (256 * MIB) /* of one, unpacked, as of any answer */
#define BUSY_RETRY_S	"2"
#define STATE_BYTES_MAX (8 * KIB)
#define BODY_BYTES_MAX	(64 * KIB) /* of one that is no file */
#define VIEW_CALL	"view"

/* ---- what is said of one ---- */

static void write_members(struct json_writer *json, const struct snapshot *snapshot, const char *query, const char *type)
{
	json_member_cstring(json, "id", snapshot->id);
	json_member_int(json, "made_ms", snapshot->made_ns / NS_PER_MS);
	json_member_cstring(json, "title", snapshot->title);
	json_member_cstring(json, "call", snapshot->call);
	json_member_cstring(json, "query", query);
	json_member_cstring(json, "type", type);
	json_member_int(json, "from_ms", snapshot->from_ns / NS_PER_MS);
	json_member_int(json, "to_ms", snapshot->to_ns / NS_PER_MS);
	json_member_bool(json, "partial", snapshot->is_partial);
}

static bool is_view(const struct snapshot *snapshot)
{
	return strcmp(snapshot->call, VIEW_CALL) == 0;
}

static void write_listed(struct json_writer *json, const struct snapshot *snapshot)
{
	json_begin_object(json);
	write_members(json, snapshot, snapshot->query, snapshot->type);
	json_member_uint(json, "bytes", snapshot->bytes);
	json_end_object(json);
}

/* ---- making ---- */

/* The body: {"title", "state"}, both optional and before what parameters say; jansson takes UTF-8 without NUL only. The texts
 * live as long as the root. */
static int read_body(struct bytes body, json_t **ret_root, const char **ret_title, const char **ret_state, struct error *err)
{
	json_error_t fault;
	*ret_root = body.len ? json_loadb((const char *)body.data, body.len, JSON_REJECT_DUPLICATES, &fault) : json_object();
	if (!*ret_root && body.len)
		return error_set(err, -EINVAL, "the body is not JSON: line %d: %s", fault.line, fault.text);
	const json_t *title = json_object_get(*ret_root, "title"), *state = json_object_get(*ret_root, "state");
	if (!json_is_object(*ret_root) || (title && !json_is_string(title)) || (state && !json_is_string(state)))
		return error_set(err, -EINVAL, "the body must be an object with the strings 'title' and 'state', or empty");
	*ret_title = title ? json_string_value(title) : *ret_title;
	*ret_state = state ? json_string_value(state) : *ret_state;
	return 0;
}

/* Of parameters, which may be any bytes. */
static int check_utf8(const char *title, const char *state, struct error *err)
{
	if (text_is_utf8(bytes_of_string(title)) && text_is_utf8(bytes_of_string(state)))
		return 0;
	return error_set(err, -EINVAL, "parameters 'title' and 'state' must be UTF-8");
}

static int check_texts(const char *title, const char *state, struct error *err)
{
	if (text_width(bytes_of_string(title)) > SNAPSHOT_TITLE_MAX || text_has_controls(bytes_of_string(title)))
		return error_set(err, -EINVAL, "'title' may have at most %d characters, and no control characters",
				 SNAPSHOT_TITLE_MAX);
	if (strlen(state) > STATE_BYTES_MAX)
		return error_set(err, -EINVAL, "'state' is longer than %llu KiB", STATE_BYTES_MAX / KIB);
	return 0;
}

/* {"snapshot": {...}, "answer": -- and the answer and a brace come behind. */
static int write_head(const struct snapshot *snapshot, const char *query, const char *type, const char *state,
		      struct buffer *out, struct error *err)
{
	if (buffer_append_string(out, "{\"snapshot\":") < 0)
		return error_nomem(err);
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	write_members(&json, snapshot, query, type);
	json_member_cstring(&json, "state", state);
	json_end_object(&json);
	int r = json_finish(&json, err);
	return r < 0 ? r : buffer_append_string(out, ",\"answer\":") < 0 ? error_nomem(err) : 0;
}

static void cut_into(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%.*s", (int)text_cut(bytes_of_string(text), size - 1), text);
}

/* All of it, unpacked, which is released early, for both may be large. */
static int keep(struct tenant *tenant, const atomic_bool *cancel, struct snapshot *snapshot, struct buffer *document,
		struct error *err)
{
	_cleanup_(buffer_release) struct buffer packed = {.max = SIZE_MAX};
	if (document->len > PLAIN_BYTES_MAX)
		return error_set(err, -E2BIG, "the snapshot has %llu MiB after decompression, more than the limit of %llu MiB",
				 document->len / MIB, PLAIN_BYTES_MAX / MIB);
	int r = gzip_compress(buffer_bytes(document), GZIP_LEVEL, &packed, err);
	buffer_release(document);
	/* Nobody would know of it. */
	if (r == 0 && cancel_requested(cancel))
		r = error_set(err, -ECANCELED, "the client disconnected");
	return r < 0 ? r : snapshots_put(tenant->snapshots, snapshot, buffer_bytes(&packed), snapshot->made_ns, err);
}

static int keep_answer(struct call *call, struct snapshot *snapshot, const char *state, struct error *err)
{
	_cleanup_(buffer_release) struct buffer document = {.max = SIZE_MAX};
	struct buffer *answer = &call->response->body;
	net_response_hold(call->response);
	int r = call_answer(call, snapshot->call, err);
	if (r == 0 && strcmp(call->response->content_type, "application/json") != 0)
		r = error_set(err, -EINVAL, "parameter 'format': '%.40s' is not supported: snapshots are JSON",
			      call_parameter(call, "format", ""));
	const char *query = r == 0 ? buffer_string(&call->text) : "", *type = call->query.type ? call->query.type : "";
	if (r == 0 && !query)
		r = error_nomem(err);
	if (r < 0)
		return r;
	cut_into(snapshot->query, sizeof(snapshot->query), query);
	cut_into(snapshot->type, sizeof(snapshot->type), type);
	snapshot->from_ns = call->query.from_ns;
	snapshot->to_ns = call->query.to_ns;
	snapshot->is_partial = call->stats.read.partial;
	r = write_head(snapshot, query, type, state, &document, err);
	if (r == 0 && (buffer_append(&document, answer->data, answer->len) < 0 || buffer_append_byte(&document, '}') < 0))
		r = error_nomem(err);
	buffer_release(answer);
	return r < 0 ? r : keep(call->tenant, call->query.cancel, snapshot, &document, err);
}

/* What the page shows of the file in the body: the same object, and columns behind it (api_view.c). */
static int keep_view(struct call *call, struct snapshot *snapshot, const char *state, struct error *err)
{
	_cleanup_(buffer_release) struct buffer head = {.max = SIZE_MAX};
	struct api_view_wrap wrap = {.behind = "}"};
	int r = write_head(snapshot, "", "", state, &head, err);
	if (r < 0)
		return r;
	wrap.before = buffer_string(&head);
	if (!wrap.before)
		return error_nomem(err);
	r = api_view_write(call->server, call->request, &wrap, call->response, err);
	return r < 0 ? r : keep(call->tenant, call->query.cancel, snapshot, &call->response->body, err);
}

static int make(struct call *call, const char *title, const char *state, struct error *err)
{
	struct snapshot snapshot = {.made_ns = time_now_ns()};
	struct net_response *response = call->response;
	struct json_writer json = {.out = &response->body};
	int r = check_texts(title, state, err);
	if (r == 0)
		r = snapshot_make_id(snapshot.id, err);
	if (r < 0)
		return r;
	cut_into(snapshot.call, sizeof(snapshot.call), call_parameter(call, "call", "query"));
	cut_into(snapshot.title, sizeof(snapshot.title), title);
	r = is_view(&snapshot) ? keep_view(call, &snapshot, state, err) : keep_answer(call, &snapshot, state, err);
	if (r < 0)
		return r;
	response->content_type = "application/json";
	write_listed(&json, &snapshot);
	response->status = 201;
	return json_finish(&json, err);
}

static int answer_create(struct call *call, struct error *err)
{
	struct bytes body = net_request_body(call->request);
	_cleanup_(json_decrefp) json_t *root = NULL;
	const char *title = call_parameter(call, "title", ""), *state = call_parameter(call, "state", "");
	bool brings_file = strcmp(call_parameter(call, "call", ""), VIEW_CALL) == 0;
	if (call->server->options.no_snapshots)
		return error_set(err, -EACCES, "snapshots are disabled on this server (snapshots.enabled)");
	if (!brings_file && body.len > BODY_BYTES_MAX)
		return error_set(err, -E2BIG, "the body is longer than %llu KiB", BODY_BYTES_MAX / KIB);
	int r = check_utf8(title, state, err);
	if (r == 0 && !brings_file)
		r = read_body(body, &root, &title, &state, err);
	if (r == 0)
		r = make(call, title, state, err);
	return r;
}

void api_snapshot_create(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int status = call_perform(context, request, response, answer_create, &err);
	if (status == 503 || status == 507)
		net_response_header(response, "Retry-After", BUSY_RETRY_S);
	if (status)
		respond_error(response, status, err.message);
}

/* ---- profiles that other parts of the server bring ---- */

/* A title is a line: what would control something becomes a space. */
static int clean_title(const char *text, char out[static SNAPSHOT_TITLE_SIZE], struct error *err)
{
	_cleanup_(buffer_release) struct buffer clean = {.max = SIZE_MAX};
	int r = text_append_utf8(&clean, bytes_of_string(text));
	for (size_t i = 0; i < clean.len; i++)
		clean.data[i] = clean.data[i] < ' ' || clean.data[i] == 0x7f ? ' ' : clean.data[i];
	const char *line = r < 0 ? NULL : buffer_string(&clean);
	if (!line)
		return error_nomem(err);
	size_t len = text_cut(bytes_of_string(line), SNAPSHOT_TITLE_SIZE - 1);
	while (text_width((struct bytes){(const uint8_t *)line, len}) > SNAPSHOT_TITLE_MAX)
		len = text_cut((struct bytes){(const uint8_t *)line, len}, len - 1);
	snprintf(out, SNAPSHOT_TITLE_SIZE, "%.*s", (int)len, line);
	return 0;
}

int api_snapshot_keep_profile(struct server *server, struct tenant *tenant, const struct api_snapshot_profile *profile,
			      char ret_id[static SNAPSHOT_ID_SIZE], struct error *err)
{
	_cleanup_(buffer_release) struct buffer head = {.max = SIZE_MAX}, document = {.max = SIZE_MAX};
	struct snapshot snapshot = {.made_ns = time_now_ns(), .call = VIEW_CALL};
	struct api_view_wrap wrap = {.behind = profile->more};
	struct view_options options = {.title = profile->name, .format = "pprof", .cancel = profile->cancel};
	if (server->options.no_snapshots)
		return error_set(err, -EACCES, "snapshots are disabled on this server (snapshots.enabled)");
	int r = clean_title(profile->title, snapshot.title, err);
	if (r == 0)
		r = snapshot_make_id(snapshot.id, err);
	if (r == 0)
		r = write_head(&snapshot, "", "", "", &head, err);
	wrap.before = r < 0 ? NULL : buffer_string(&head);
	if (r == 0 && !wrap.before)
		r = error_nomem(err);
	if (r == 0 && pthread_mutex_trylock(&server->view_turn) != 0)
		return error_set(err, -EAGAIN, "another file is being read; try again");
	if (r < 0)
		return r;
	r = api_view_frame(profile->profile, &options, &wrap, &document, err);
	if (r == 0)
		r = keep(tenant, profile->cancel, &snapshot, &document, err);
	pthread_mutex_unlock(&server->view_turn);
	memcpy(ret_id, snapshot.id, SNAPSHOT_ID_SIZE);
	return r;
}

/* ---- listing ---- */

static int read_count(const struct net_request *request, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
		      struct error *err)
{
	const char *text = net_request_query(request, name);
	*ret = fallback;
	int r = text && *text ? text_parse_u64(text, ret, err) : 0;
	if (r == 0 && *ret > max)
		r = error_set(err, -EINVAL, "the limit is %llu", (unsigned long long)max);
	if (r < 0)
		error_prefix(err, r, "parameter '%s'", name);
	return r < 0 ? -EINVAL : 0;
}

static int write_list(const struct server *server, struct snapshots *snapshots, uint64_t offset, uint64_t limit,
		      struct buffer *out, struct error *err)
{
	_cleanup_(mem_freep) struct snapshot *all = NULL;
	struct snapshots_stats stats;
	int64_t now_ns = time_now_ns();
	size_t count, total;
	int r = snapshots_list(snapshots, now_ns, offset, limit, &all, &count, &total, err);
	if (r < 0)
		return r;
	snapshots_get_stats(snapshots, now_ns, &stats);
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	json_member_bool(&json, "enabled", !server->options.no_snapshots);
	json_member_uint(&json, "total", total);
	json_member_uint(&json, "bytes", stats.bytes);
	json_member_uint(&json, "bytes_max", stats.bytes_max);
	if (stats.age_ns > 0)
		json_member_int(&json, "age_ms", stats.age_ns / NS_PER_MS);
	else
		json_member_null(&json, "age_ms");
	json_member_array(&json, "snapshots");
	for (size_t i = 0; i < count; i++)
		write_listed(&json, &all[i]);
	json_end_array(&json);
	json_end_object(&json);
	return json_finish(&json, err);
}

void api_snapshots(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant = NULL;
	struct error err = {0};
	uint64_t limit, offset;
	int r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = read_count(request, "limit", LIST_DEFAULT, LIST_MAX, &limit, &err);
	if (r == 0)
		r = read_count(request, "offset", 0, UINT32_MAX, &offset, &err);
	if (r == 0)
		r = write_list(context, tenant->snapshots, offset, limit, &response->body, &err);
	api_respond_failure(response, r, &err);
}

/* ---- one ---- */

static int id_of(const struct net_request *request, const char **ret, struct error *err)
{
	*ret = net_request_path(request) + strlen(BELOW);
	if (snapshot_id_is_valid(*ret))
		return 0;
	return error_set(err, -ENOENT, "'%.40s' is not a snapshot id: expected 32 hexadecimal digits", *ret);
}

static void add_headers(struct net_response *response, const char *tag)
{
	net_response_header(response, "ETag", tag);
	net_response_header(response, "Cache-Control", "private, max-age=31536000, immutable");
	net_response_header(response, "Vary", "Accept-Encoding");
	response->no_compress = true;
}

static int show(struct snapshots *snapshots, const char *id, const struct net_request *request, struct net_response *response,
		struct error *err)
{
	struct input *file = NULL;
	struct snapshot snapshot;
	uint64_t bytes;
	char tag[SNAPSHOT_ID_SIZE + 4];
	const char *known = net_request_header(request, "if-none-match");
	int64_t now_ns = time_now_ns();
	int r = snapshots_find(snapshots, id, now_ns, &snapshot, err);
	if (r < 0)
		return r;
	snprintf(tag, sizeof(tag), "W/\"%s\"", snapshot.content.hash); /* weak: the same for both codings */
	if (known && strcmp(known, tag) == 0) {
		add_headers(response, tag);
		response->status = 304;
		return 0;
	}
	bool is_packed = net_request_takes_gzip(request);
	r = snapshots_open_file(snapshots, id, now_ns, !is_packed, &file, &bytes, err);
	if (r < 0)
		return r;
	response->body.max = PLAIN_BYTES_MAX;
	r = net_response_input(response, file, bytes);
	if (r < 0)
		return error_set_errno(err, r, "cannot send the snapshot");
	add_headers(response, tag);
	response->content_type = is_view(&snapshot) ? API_VIEW_TYPE : "application/json";
	if (is_packed)
		net_response_header(response, "Content-Encoding", "gzip");
	return 0;
}

void api_snapshot_show(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant = NULL;
	struct error err = {0};
	const char *id;
	int r = id_of(request, &id, &err);
	if (r == 0)
		r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = show(tenant->snapshots, id, request, response, &err);
	api_respond_failure(response, r, &err);
}

void api_snapshot_remove(void *context, const struct net_request *request, struct net_response *response)
{
	struct tenant *tenant = NULL;
	struct error err = {0};
	const char *id;
	int r = access_may_change(context, request, &err);
	if (r == 0)
		r = id_of(request, &id, &err);
	if (r == 0)
		r = tenant_of_request(context, request, false, &tenant, &err);
	if (r == 0)
		r = snapshots_remove(tenant->snapshots, id, &err);
	api_respond_done(response, r, &err);
}
