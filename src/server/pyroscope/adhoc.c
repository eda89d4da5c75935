/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adhocprofiles.v1.AdHocProfileService (github.com/grafana/pyroscope, api/adhocprofiles/v1): profiles in files, which somebody
 * uploads to look at, and which are no part of the data.
 *
 *   Upload  1 name  2 profile (a file, in base64)  3 max_nodes   ->  as Get
 *   Get     1 id  2 profile_type  3 max_nodes
 *                 ->  1 id  2 name  3 uploaded_at (ms)  4 profile_type  5 profile_types*  6 flamebearer_profile (JSON)
 *   List    {}    ->  1 profiles { 1 id  2 name  3 uploaded_at }, the newest first
 *   Diff    1 left_id  2 right_id  3 profile_type  4 max_nodes   ->  1 profile_types* of both  2 flamebearer_profile
 *
 * Files are of any format that `wick convert` reads, pprof, folded stacks and perf script among them. A type is a sample type
 * ("cpu"); one that the file has not is the first, as in Pyroscope.
 *
 * They are kept as they came, as snapshots are kept (stores/snapshots.h): in a folder of the tenant, `adhoc`, with the limits
 * of snapshots, synced before the call is acknowledged; the oldest go. What a file may have unpacked, and that one is read at a
 * time, are the limits of files on the page (view.size, view.enabled): a file takes several times its size in memory.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/compress.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "server/http/rpc.h"
#include "server/pyroscope/messages.h"
#include "server/stores/snapshots.h"

#define COMPRESS_LEVEL 4
#define TYPES_MAX      64
#define LIST_MAX       SNAPSHOTS_COUNT_MAX
#define REQUEST_TEXTS  (64 * KIB) /* all but the file */

#define MESSAGE PB_JSON_MESSAGE_OF

static const struct pb_json_message upload_request =
	MESSAGE("AdHocProfilesUploadRequest", {"name", 1, PB_JSON_STRING}, {"profile", 2, PB_JSON_STRING},
		{"maxNodes", 3, PB_JSON_INT64, .explicit_presence = true});
static const struct pb_json_message get_request = MESSAGE("AdHocProfilesGetRequest", {"id", 1, PB_JSON_STRING},
							  {"profileType", 2, PB_JSON_STRING, .explicit_presence = true},
							  {"maxNodes", 3, PB_JSON_INT64, .explicit_presence = true});
static const struct pb_json_message get_answer =
	MESSAGE("AdHocProfilesGetResponse", {"id", 1, PB_JSON_STRING}, {"name", 2, PB_JSON_STRING},
		{"uploadedAt", 3, PB_JSON_INT64}, {"profileType", 4, PB_JSON_STRING},
		{"profileTypes", 5, PB_JSON_STRING, .repeated = true}, {"flamebearerProfile", 6, PB_JSON_STRING});
static const struct pb_json_message metadata = MESSAGE("AdHocProfilesProfileMetadata", {"id", 1, PB_JSON_STRING},
						       {"name", 2, PB_JSON_STRING}, {"uploadedAt", 3, PB_JSON_INT64});
static const struct pb_json_message list_answer =
	MESSAGE("AdHocProfilesListResponse", {"profiles", 1, PB_JSON_MESSAGE, .repeated = true, .message = &metadata});
static const struct pb_json_message diff_request =
	MESSAGE("AdHocProfilesDiffRequest", {"leftId", 1, PB_JSON_STRING}, {"rightId", 2, PB_JSON_STRING},
		{"profileType", 3, PB_JSON_STRING, .explicit_presence = true},
		{"maxNodes", 4, PB_JSON_INT64, .explicit_presence = true});
static const struct pb_json_message diff_answer =
	MESSAGE("AdHocProfilesDiffResponse", {"profileTypes", 1, PB_JSON_STRING, .repeated = true},
		{"flamebearerProfile", 2, PB_JSON_STRING});

struct adhoc_request {
	const char *id, *right, *type; /* "" = not there */
	int64_t max_nodes;
};
#define IN(member) offsetof(struct adhoc_request, member)
static const struct rpc_member members[] = {{"id", IN(id)},
					    {"leftId", IN(id)},
					    {"rightId", IN(right)},
					    {"profileType", IN(type)},
					    {"maxNodes", IN(max_nodes)},
					    {0}};

/* ---- files ---- */

/* The caller has the turn to read a file. */
static int decode(const struct server *server, struct bytes file, const char *name, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer room = {.max = server->options.view_bytes};
	struct format_options options = {.input_name = *name ? name : "profile", .decompressed_max = room.max};
	int r = format_unpack(&file, &room, err);
	if (r < 0)
		return error_prefix(err, r, "%s", options.input_name);
	const struct format *format = format_detect(file);
	if (!format)
		format = format_by_extension(options.input_name);
	if (!format || !format->decode)
		return error_set(err, -EINVAL, "%s: unknown profile format", options.input_name);
	_cleanup_(profile_freep) struct profile *profile = NULL;
	r = format_decode(format, file, &options, &profile, err);
	if (!r && (!profile->sample_type_count || profile->sample_type_count > TYPES_MAX))
		r = error_set(err, -EINVAL, "%s: the profile has %zu sample types; 1 to %d can be shown", options.input_name,
			      profile->sample_type_count, TYPES_MAX);
	if (r < 0)
		return r == -EBADMSG ? -EINVAL : r;
	*ret = TAKE(profile);
	return 0;
}

static int read_stored(struct rpc_call *call, struct tenant *tenant, const char *id, struct snapshot *ret_about,
		       struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer packed = {.max = SIZE_MAX}, file = {.max = call->server->options.view_bytes};
	int64_t now_ns = time_now_ns();
	if (!snapshot_id_is_valid(id))
		return error_set(err, -EINVAL, "id '%.100s' is invalid", id);
	int r = snapshots_find(tenant->adhoc, id, now_ns, ret_about, err);
	if (!r)
		r = snapshots_read(tenant->adhoc, id, now_ns, &packed, err);
	if (r == -ENOENT)
		return error_set(err, r, "profile %s not found", id);
	if (!r)
		r = gzip_decompress(buffer_bytes(&packed), &file, err);
	return r < 0 ? r : decode(call->server, buffer_bytes(&file), ret_about->title, ret, err);
}

/* ---- answers ---- */

static const char *type_name(const struct profile *profile, size_t type)
{
	return profile_string(profile, profile->sample_types[type].type);
}

static size_t find_type(const struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->sample_type_count; i++)
		if (*name && strcmp(type_name(profile, i), name) == 0)
			return i;
	return 0;
}

static int write_json(struct buffer *out, uint32_t field, const struct flamebearer *flamebearer, const char *type,
		      const char *unit, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = out->max};
	struct json_writer json = {.out = &text};
	pyroscope_begin_flamebearer(&json, flamebearer);
	pyroscope_write_metadata(&json, flamebearer->node_values == FLAMEBEARER_DOUBLE ? "double" : "single", type, unit);
	int r = pyroscope_end_flamebearer(&json, flamebearer, err);
	return r < 0 ? r : rpc_too_large(pb_write_bytes(out, field, text.data, text.len), err);
}

static int write_profile(const struct snapshot *about, const struct profile *profile, const struct adhoc_request *in,
			 struct buffer *out, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	size_t nodes_max, type = find_type(profile, in->type);
	int r = pyroscope_nodes(in->max_nodes, &nodes_max, err);
	if (!r)
		r = flame_build_by_name(profile, type, nodes_max, &flame, err);
	if (!r)
		r = flamebearer_of_flame(flame, &flamebearer, err);
	if (r < 0)
		return r;
	pb_write_string(out, 1, about->id);
	pb_put_string(out, 2, about->title);
	pb_put_varint(out, 3, (uint64_t)(about->made_ns / NS_PER_MS));
	pb_write_text(out, 4, bytes_of_string(type_name(profile, type)));
	for (size_t i = 0; i < profile->sample_type_count; i++)
		pb_write_text(out, 5, bytes_of_string(type_name(profile, i)));
	return write_json(out, 6, &flamebearer, flame->type, flame->unit, err);
}

/* ---- calls ---- */

/* What a call has: its tenant, its texts, and the turn to read a file. */
struct adhoc {
	struct tenant *tenant;
	struct arena arena;
	struct adhoc_request in;
	struct server *locked; /* NULL = it has not the turn */
};

static void adhoc_release(struct adhoc *adhoc)
{
	if (adhoc->locked)
		pthread_mutex_unlock(&adhoc->locked->view_turn);
	arena_release(&adhoc->arena);
}

static int adhoc_begin(struct adhoc *adhoc, struct rpc_call *call, struct bytes request, struct error *err)
{
	*adhoc = (struct adhoc){.arena.max_bytes = REQUEST_TEXTS, .in = {.id = "", .right = "", .type = ""}};
	const struct rpc_reader reader = {members, &adhoc->arena, 1};
	if (call->server->options.no_view)
		return error_set(err, -EACCES, "viewing files is disabled on this server (view.enabled)");
	int r = rpc_read(&reader, request, call->method->request, &adhoc->in, err);
	if (!r)
		r = tenant_of_request(call->server, call->request, false, &adhoc->tenant, err);
	if (r < 0)
		return r;
	if (pthread_mutex_trylock(&call->server->view_turn) != 0)
		return error_set(err, -EAGAIN, "another file is being read; try again");
	adhoc->locked = call->server;
	return 0;
}

/* Letters, digits, '.', '-' and '_', others become '_'. */
static void take_name(struct bytes name, char out[static SNAPSHOT_TITLE_SIZE])
{
	size_t len = name.len < SNAPSHOT_TITLE_MAX ? name.len : SNAPSHOT_TITLE_MAX;
	for (size_t i = 0; i < len; i++) {
		char c = (char)name.data[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
		out[i] = plain ? c : '_';
	}
	out[len] = 0;
}

static int keep(struct tenant *tenant, struct snapshot *about, struct bytes file, struct error *err)
{
	_cleanup_(buffer_release) struct buffer packed = {.max = SIZE_MAX};
	int r = gzip_compress(file, COMPRESS_LEVEL, &packed, err);
	return r < 0 ? r : snapshots_put(tenant->adhoc, about, buffer_bytes(&packed), about->made_ns, err);
}

/* A file is stored only if it can be shown. */
static int handle_upload(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(adhoc_release) struct adhoc adhoc = {0};
	_cleanup_(buffer_release) struct buffer file = {.max = call->server->options.view_bytes};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct snapshot about = {.made_ns = time_now_ns(), .call = "adhoc"};
	struct bytes name, text;
	int r = adhoc_begin(&adhoc, call, request, err);
	if (!r && call->server->options.no_snapshots)
		r = error_set(err, -EACCES, "keeping files is disabled on this server (snapshots.enabled)");
	if (!r)
		r = pb_find_bytes(NULL, request, 1, &name, err);
	if (!r)
		r = pb_find_bytes(NULL, request, 2, &text, err);
	if (r < 0)
		return r;
	take_name(name, about.title);
	r = base64_decode(text, &file);
	if (r < 0)
		return r == -E2BIG     ? error_set(err, r, "the profile is larger than the limit of %zu bytes", file.max)
		       : r == -EBADMSG ? error_set(err, -EINVAL, "the profile is not base64")
				       : error_nomem(err);
	r = decode(call->server, buffer_bytes(&file), about.title, &profile, err);
	if (!r)
		r = snapshot_make_id(about.id, err);
	if (!r)
		r = write_profile(&about, profile, &adhoc.in, out, err);
	return r < 0 ? r : keep(adhoc.tenant, &about, buffer_bytes(&file), err);
}

static int handle_get(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(adhoc_release) struct adhoc adhoc = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct snapshot about;
	int r = adhoc_begin(&adhoc, call, request, err);
	if (!r)
		r = read_stored(call, adhoc.tenant, adhoc.in.id, &about, &profile, err);
	return r < 0 ? r : write_profile(&about, profile, &adhoc.in, out, err);
}

static int handle_list(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(mem_freep) struct snapshot *items = NULL;
	struct tenant *tenant;
	size_t count, total, mark;
	int r = tenant_of_request(call->server, call->request, false, &tenant, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = snapshots_list(tenant->adhoc, time_now_ns(), 0, LIST_MAX, &items, &count, &total, err);
	for (size_t i = 0; !r && i < count; i++) {
		pb_begin(out, 1, &mark);
		pb_write_string(out, 1, items[i].id);
		pb_put_string(out, 2, items[i].title);
		pb_put_varint(out, 3, (uint64_t)(items[i].made_ns / NS_PER_MS));
		pb_end(out, mark);
	}
	return r < 0 ? r : rpc_too_large(buffer_status(out), err);
}

/* Writes the types that both have. -EINVAL: none, or the two that are to be compared differ. */
static int write_common(const struct profile *left, size_t left_type, const struct profile *right, size_t right_type,
			struct buffer *out, struct error *err)
{
	size_t common = 0;
	for (size_t i = 0; i < left->sample_type_count; i++) {
		const char *name = type_name(left, i);
		if (strcmp(type_name(right, find_type(right, name)), name) != 0)
			continue;
		pb_write_text(out, 1, bytes_of_string(name));
		common++;
	}
	if (!common)
		return error_set(err, -EINVAL, "no common profile types between left and right");
	if (strcmp(type_name(left, left_type), type_name(right, right_type)) != 0)
		return error_set(err, -EINVAL, "profile type mismatch: left profile uses '%.60s', right profile uses '%.60s'",
				 type_name(left, left_type), type_name(right, right_type));
	return 0;
}

static int handle_diff(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	_cleanup_(adhoc_release) struct adhoc adhoc = {0};
	_cleanup_(profile_freep) struct profile *left = NULL;
	_cleanup_(profile_freep) struct profile *right = NULL;
	_cleanup_(flame_freep) struct flame *before = NULL;
	_cleanup_(flame_freep) struct flame *after = NULL;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	struct snapshot about;
	size_t nodes_max;
	int r = adhoc_begin(&adhoc, call, request, err);
	if (!r)
		r = pyroscope_nodes(adhoc.in.max_nodes, &nodes_max, err);
	if (!r)
		r = read_stored(call, adhoc.tenant, adhoc.in.id, &about, &left, err);
	if (!r)
		r = read_stored(call, adhoc.tenant, adhoc.in.right, &about, &right, err);
	if (r < 0)
		return r;
	size_t left_type = find_type(left, adhoc.in.type), right_type = find_type(right, adhoc.in.type);
	r = write_common(left, left_type, right, right_type, out, err);
	if (!r)
		r = flame_build_by_name(left, left_type, 0, &before, err);
	if (!r)
		r = flame_build_by_name(right, right_type, 0, &after, err);
	if (!r)
		r = diff_build(before, after, &diff, err);
	if (!r)
		r = flamebearer_of_diff(diff, nodes_max, &flamebearer, err);
	return r < 0 ? r : write_json(out, 2, &flamebearer, diff->tree->type, diff->tree->unit, err);
}

#define ADHOC "/adhocprofiles.v1.AdHocProfileService/"
const struct rpc_method rpc_pyroscope_adhoc[] = {
	{ADHOC "Upload", PERMIT_RECORD, &upload_request, &get_answer, handle_upload, RPC_SLOW},
	{ADHOC "Get", PERMIT_READ, &get_request, &get_answer, handle_get, RPC_SLOW | RPC_READ_ONLY},
	{ADHOC "List", PERMIT_READ, &pyroscope_empty, &list_answer, handle_list, RPC_READ_ONLY},
	{ADHOC "Diff", PERMIT_READ, &diff_request, &diff_answer, handle_diff, RPC_SLOW | RPC_READ_ONLY},
	{0},
};
