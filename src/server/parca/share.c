/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that are shared: QueryService/ShareProfile of Parca's page, and parca.share.v1alpha1.ShareService
 * (proto/parca/share/v1alpha1/share.proto), to which Parca's server sends them: pprof.me. Here nothing is sent anywhere: this
 * server is the one that keeps them, as snapshots.
 *
 *   ShareProfile            1 query_request  2 description  ->  1 link
 *   ShareService/Upload     1 profile (pprof)  2 description  ->  1 id  2 link
 *   ShareService/Query      1 id  2 profile_type  3 report_type  4 filter_query  5 node_trim_threshold  6 runtime_filter
 *                           7 group_by  8 invert_call_stack  9 filter*  10 sandwich_by_function
 *                           ->  a report (parca/report.c), in other fields;  5 total  6 filtered
 *   ShareService/ProfileTypes  1 id  ->  1 types*  2 description
 *
 * A snapshot of a profile is what the page shows of a file (viewer/api_snapshots.c), in JSON. It gets one member more, which
 * the page passes over: "pprof", the profile in base64, from which ShareService/Query makes its reports. It is the last one,
 * so that it is found without reading the JSON: base64 has no quotes. The link is this server's page, by the name that the
 * request was sent to.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/compress.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "profile/merge.h"
#include "server/parca/report.h"
#include "server/viewer/api_snapshots.h"
#include "server/viewer/api_view.h"

#define MEMBER	       ",\"pprof\":\""
#define MEMBER_END     "\"}"
#define LINK_SIZE      512
#define PROFILE_BYTES  (128 * MIB) /* unpacked */
#define DOCUMENT_BYTES (256 * MIB) /* of a snapshot, unpacked */
#define NAME	       "shared.pb.gz"
#define FILTER_FIELD   9

/* ---- keeping ---- */

static void make_link(const struct parca *p, const char *id, char out[static LINK_SIZE])
{
	const struct server *server = p->call.server;
	const struct net_request *request = p->call.request;
	bool by_proxy = net_request_is_by_proxy(request);
	const char *host = by_proxy ? net_request_header(request, "x-forwarded-host") : NULL;
	const char *proto = by_proxy ? net_request_header(request, "x-forwarded-proto") : NULL;
	bool secure = proto ? strcmp(proto, "https") == 0 : server->tls != NULL;
	if (!host)
		host = net_request_header(request, "host");
	snprintf(out, LINK_SIZE, "%s://%s%s/?view=shared&id=%s", secure ? "https" : "http", host ? host : "localhost",
		 server->options.path_prefix ? server->options.path_prefix : "", id);
}

static int keep(struct parca *p, const struct profile *profile, const char *description, char id[static SNAPSHOT_ID_SIZE],
		struct error *err)
{
	_cleanup_(buffer_release) struct buffer pprof = {.max = PROFILE_BYTES}, more = {.max = SIZE_MAX};
	int r = pprof_encode(profile, &(struct format_options){.compress = true}, &pprof, err);
	if (r < 0)
		return r;
	buffer_append_string(&more, MEMBER);
	if (base64_encode(buffer_bytes(&pprof), &more) < 0 || buffer_append_string(&more, MEMBER_END) < 0)
		return error_nomem(err);
	const struct api_snapshot_profile item = {.profile = profile,
						  .name = NAME,
						  .title = description,
						  .more = buffer_string(&more),
						  .cancel = p->call.query.cancel};
	return item.more ? api_snapshot_keep_profile(p->call.server, p->call.tenant, &item, id, err) : error_nomem(err);
}

static int answer_share_profile(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(parca_view_release) struct parca_view view = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(mem_freep) struct parca_request *query = mem_zalloc(sizeof(*query));
	char id[SNAPSHOT_ID_SIZE], link[LINK_SIZE];
	if (!query)
		return error_nomem(err);
	int r = parca_parse(p, in->query_request, &parca_query_request, query, err);
	query->report = PARCA_PPROF;
	if (!r)
		r = parca_check_query(query, err);
	if (!r)
		r = parca_view_select(p, query, &view, err);
	if (!r)
		r = parca_view_pprof(&view, &profile, err);
	if (!r && !profile->sample_count)
		r = error_set(err, -ENOENT, "there is nothing to share: no samples");
	if (!r)
		r = keep(p, profile, in->description, id, err);
	if (r < 0)
		return r;
	make_link(p, id, link);
	return rpc_too_large(pb_put_string(p->out, 1, link), err);
}

int parca_share_profile(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	return parca_run(call, request, answer_share_profile, out, err);
}

static int decode(struct bytes bytes, struct profile **ret, struct error *err)
{
	const struct format_options options = {.input_name = "the profile", .decompressed_max = PROFILE_BYTES};
	return format_decode(format_by_name("pprof"), bytes, &options, ret, err);
}

static int answer_upload(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	char id[SNAPSHOT_ID_SIZE], link[LINK_SIZE];
	int r = decode(in->profile, &profile, err);
	if (!r)
		r = keep(p, profile, in->description, id, err);
	if (r < 0)
		return r;
	make_link(p, id, link);
	pb_put_string(p->out, 1, id);
	return rpc_too_large(pb_put_string(p->out, 2, link), err);
}
PARCA_HANDLER(upload)

/* ---- reading ---- */

/* The member at the end of the JSON. */
static int find_pprof(struct bytes json, struct bytes *ret)
{
	size_t end_len = strlen(MEMBER_END), begin_len = strlen(MEMBER);
	if (json.len < end_len || memcmp(json.data + json.len - end_len, MEMBER_END, end_len) != 0)
		return -ENOENT;
	size_t end = json.len - end_len;
	const uint8_t *quote = memrchr(json.data, '"', end);
	size_t begin = quote ? (size_t)(quote - json.data) + 1 : 0;
	if (begin < begin_len || memcmp(json.data + begin - begin_len, MEMBER, begin_len) != 0)
		return -ENOENT;
	*ret = (struct bytes){json.data + begin, end - begin};
	return 0;
}

static int load(struct parca *p, const char *id, struct snapshot *ret_snapshot, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0}, document = {.max = DOCUMENT_BYTES}, pprof = {.max = PROFILE_BYTES};
	struct snapshots *snapshots = p->call.tenant->snapshots;
	int64_t now_ns = time_now_ns();
	struct bytes json, member;
	if (!snapshot_id_is_valid(id))
		return error_set(err, -ENOENT, "there is no shared profile of this id");
	int r = snapshots_find(snapshots, id, now_ns, ret_snapshot, err);
	if (!r)
		r = snapshots_read(snapshots, id, now_ns, &file, err);
	if (!r)
		r = gzip_decompress(buffer_bytes(&file), &document, err);
	if (r < 0)
		return r;
	if (api_view_unframe(buffer_bytes(&document), &json, NULL) < 0 || find_pprof(json, &member) < 0)
		return error_set(err, -ENOENT, "this snapshot is no shared profile");
	r = base64_decode(member, &pprof);
	return r < 0 ? error_set(err, r, "the shared profile is damaged") : decode(buffer_bytes(&pprof), ret, err);
}

/* The sample type that a profile type names, by its second and third part. */
static int choose_type(const struct profile *profile, const char *text, size_t *ret, struct error *err)
{
	struct profile_type type, of;
	*ret = profile_default_sample_type(profile);
	if (!*text)
		return 0;
	int r = profile_type_parse(text, &type, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		profile_type_of(profile, i, NULL, &of);
		if (strcmp(of.sample_type, type.sample_type) != 0 || strcmp(of.sample_unit, type.sample_unit) != 0)
			continue;
		*ret = i;
		return 0;
	}
	return error_set(err, -EINVAL, "the shared profile has no values of type %.200s", text);
}

/* Of a sample's labels, those that are grouped by. */
static int take_labels(struct profile *to, struct profile_copy *copy, const struct profile *from, uint32_t set,
		       const struct parca_request *in, uint32_t *ret, struct error *err)
{
	struct profile_label labels[STORE_GROUP_BY_MAX];
	const struct profile_label_set *all = &from->label_sets[set];
	size_t count = 0;
	int r = 0;
	for (uint32_t i = all->first; !r && i < all->first + all->count && count < STORE_GROUP_BY_MAX; i++) {
		struct profile_label label = from->labels[i];
		bool wanted = false;
		for (size_t k = 0; k < in->label_count && label.value; k++)
			wanted |= strcmp(profile_string(from, label.key), in->labels[k]) == 0;
		if (!wanted)
			continue;
		r = PROFILE_COPY_STRINGS(copy, err, &label.key, &label.value);
		labels[count++] = label;
	}
	return r < 0 ? r : profile_add_label_set(to, labels, count, ret, err);
}

/* One sample type, and samples with the labels that are grouped by. */
static int take_type(const struct profile *from, size_t type, const struct parca_request *in, struct profile **ret,
		     struct error *err)
{
	_cleanup_(profile_freep) struct profile *to = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_new(&to, err);
	if (!r)
		r = profile_copy_new(to, from, &copy, err);
	if (!r)
		r = profile_copy_sample_type(copy, type, err);
	if (!r)
		r = profile_copy_times(copy, err);
	for (size_t i = 0; !r && i < from->sample_count; i++) {
		struct profile_sample sample = {.time_ns = in->by_time ? from->samples[i].time_ns : 0};
		r = profile_copy_stack(copy, from->samples[i].stack, &sample.stack, err);
		if (!r)
			r = take_labels(to, copy, from, from->samples[i].labels, in, &sample.labels, err);
		if (!r)
			r = profile_add_sample(to, &sample, &from->values[i * from->sample_type_count + type], err);
	}
	if (!r)
		r = profile_aggregate(to, err);
	if (r < 0)
		return r;
	*ret = TAKE(to);
	return 0;
}

static int answer_share_query(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(parca_view_release) struct parca_view view = {.scale = 1, .cancel = p->call.query.cancel};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct snapshot snapshot;
	size_t type = 0;
	int r = parca_report_check(p, in, err);
	if (!r)
		r = parca_prepare(in, FILTER_FIELD, err);
	if (!r)
		r = load(p, in->id, &snapshot, &profile, err);
	if (!r)
		r = choose_type(profile, in->type, &type, err);
	/* All labels, which are there to be chosen from. */
	if (!r && in->report == PARCA_PROFILE_METADATA)
		view.profile = TAKE(profile);
	else if (!r)
		r = take_type(profile, type, in, &view.profile, err);
	if (!r && in->report != PARCA_PROFILE_METADATA)
		r = parca_view_prepare(&view, in, err);
	return r < 0 ? r : parca_report_write(p, in, &view, &parca_share_fields, err);
}
PARCA_HANDLER(share_query)

static int answer_share_types(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct snapshot snapshot;
	struct profile_type type;
	int r = load(p, in->id, &snapshot, &profile, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		profile_type_of(profile, i, NULL, &type);
		parca_write_type(p->out, 1, &type);
	}
	return rpc_too_large(pb_put_string(p->out, 2, snapshot.title), err);
}
PARCA_HANDLER(share_types)

#define SERVICE "/parca.share.v1alpha1.ShareService/"
const struct rpc_method rpc_parca_share[] = {
	PARCA_METHOD(SERVICE "Upload", PERMIT_RECORD, &parca_upload_request, &parca_upload_answer, handle_upload, RPC_SLOW),
	PARCA_METHOD(SERVICE "Query", PERMIT_READ, &parca_share_query_request, &parca_share_query_answer, handle_share_query,
		     RPC_SLOW | RPC_READ_ONLY),
	PARCA_METHOD(SERVICE "ProfileTypes", PERMIT_READ, &parca_share_types_request, &parca_share_types_answer,
		     handle_share_types, RPC_SLOW | RPC_READ_ONLY),
	{0},
};
