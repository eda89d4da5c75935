/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's query service: what they mean for the store. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "base/time.h"
#include "format/format.h"
#include "profile/merge.h"
#include "render/report.h"
#include "server/pyroscope/pyroscope_int.h"

#define TEXT_BYTES_MAX (4 * 1024 * 1024) /* of one call: its request, and the names that it is answered with */

static void init_query(struct pyroscope *p, const atomic_bool *cancel)
{
	p->query.sum_gauges = p->query.any_type = true; /* as their servers do: docs/ingest.md */
	p->query.cancel = cancel;
	limits_of_query(p->tenant, &p->query);
	p->query.symbols_wait_ns = SYMBOLS_WAIT_DEFAULT_NS;
}

void pyroscope_init_background(struct pyroscope *p, struct server *server, struct tenant *tenant, const atomic_bool *cancel)
{
	*p = (struct pyroscope){
		.server = server, .tenant = tenant, .started_ns = time_monotonic_ns(), .arena.max_bytes = TEXT_BYTES_MAX};
	init_query(p, cancel);
	/* Whoever comes for the result. */
	p->query.hide_addresses = server->loopback_only && !server->token && !server->options.tokens_file;
	p->query.deadline_ns = p->started_ns + server->options.query_timeout_max_ns;
	query_budget_make(server, tenant, &p->query, &p->budget);
	budget_enter(&p->budget);
}

int pyroscope_init(struct pyroscope *p, struct server *server, const struct net_request *request, struct net_response *response,
		   int64_t timeout_ns, struct error *err)
{
	*p = (struct pyroscope){.server = server,
				.request = request,
				.response = response,
				.started_ns = time_monotonic_ns(),
				.arena.max_bytes = TEXT_BYTES_MAX};
	int r = tenant_of_request(server, request, false, &p->tenant, err);
	if (r < 0)
		return r;
	int64_t most_ns = server->options.query_timeout_ns;
	init_query(p, net_request_cancelled(request));
	p->query.hide_addresses = caller_of(request) && caller_of(request)->hides_addresses;
	p->query.deadline_ns = p->started_ns + (timeout_ns > 0 && timeout_ns < most_ns ? timeout_ns : most_ns);
	return query_budget_begin(server, p->tenant, &p->query, response, err);
}

static void add_headers(struct pyroscope *p)
{
	if (!p->response || p->has_headers)
		return;
	p->has_headers = true;
	if (p->stats.read.partial)
		net_response_header(p->response, "X-Wick-Partial", p->stats.read.why);
	if (p->stats.read.saturated)
		net_response_header(p->response, "X-Wick-Warning", SUM_WARNING);
}

static int flush(void *context)
{
	struct pyroscope *p = context;
	add_headers(p);
	return net_response_flush(p->response);
}

static int flush_sink(void *context, struct bytes bytes, struct error *err)
{
	int r = flush(context);
	return r < 0 ? error_set_errno(err, r, "cannot send the response") : 0;
}

struct json_writer pyroscope_json(struct pyroscope *p)
{
	return (struct json_writer){
		.out = &p->response->body, .drain = net_response_is_sent_early(p->response) ? flush : NULL, .context = p};
}

struct format_sink pyroscope_sink(struct pyroscope *p)
{
	return (struct format_sink){
		.out = &p->response->body, .flush = net_response_is_sent_early(p->response) ? flush_sink : NULL, .context = p};
}

int pyroscope_finish(struct pyroscope *p, int r, struct error *err)
{
	r = query_budget_end(p->server, p->tenant, p->response ? p->response->budget : &p->budget, p->response, r, err);
	if (!r)
		add_headers(p);
	int64_t waited_ns = p->response ? net_response_waited_ns(p->response) : 0;
	query_account(p->server, p->tenant, p->request, &p->stats, time_monotonic_ns() - p->started_ns - waited_ns, r, err);
	arena_release(&p->arena);
	if (p->response)
		return r;
	if (budget_current() == &p->budget)
		budget_leave(NULL);
	budget_release(&p->budget);
	return r;
}

/* ---- meaning ---- */

int pyroscope_take_type(struct pyroscope *p, const char *text, const char **ret, struct error *err)
{
	struct profile_type type;
	size_t colons = 0;
	for (const char *at = text; *at; at++)
		colons += *at == ':';
	if (colons < 4 || colons > 5 || profile_type_parse(text, &type, NULL) < 0)
		return error_set(err, -EINVAL,
				 "profile-type selection must be of the form "
				 "<name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>(:delta), got(%zu): \"%.200s\"",
				 colons + 1, text);
	size_t len = strlen(text);
	char *wild = arena_alloc(&p->arena, len + sizeof(":*"));
	if (!wild)
		return error_nomem(err);
	memcpy(wild, text, len);
	memcpy(wild + len, colons == 4 ? ":*" : "", colons == 4 ? sizeof(":*") : 1);
	*ret = wild;
	return 0;
}

int pyroscope_split_query(struct pyroscope *p, const char *text, struct pyroscope_request *ret, struct error *err)
{
	size_t len = strcspn(text, "{"), colons = 0;
	for (size_t i = 0; i < len; i++)
		colons += text[i] == ':';
	ret->selector = text;
	ret->any_type = colons < 4;
	if (ret->any_type)
		return 0;
	ret->type = arena_strndup(&p->arena, text, len);
	ret->selector = text + len;
	return ret->type ? 0 : error_nomem(err);
}

/* One more condition of the query: that the span, or the trace, is one of these. */
static int select_ids(struct pyroscope *p, const char *label, const char *field, size_t digits, const struct rpc_list *list,
		      struct error *err)
{
	if (!list->count)
		return 0;
	char *text = arena_alloc(&p->arena, list->count * (digits + 1)), *at = text;
	if (!text)
		return error_nomem(err);
	for (size_t i = 0; i < list->count; i++, at += digits + 1) {
		if (strlen(list->items[i]) != digits)
			return error_set(err, -EINVAL, "%s: \"%.100s\" does not have %zu hexadecimal digits", field,
					 list->items[i], digits);
		memcpy(at, list->items[i], digits);
		at[digits] = i + 1 < list->count ? '|' : '\0';
	}
	p->links[p->query.where_count++] = (struct query_matcher){.label = label, .op = PATTERN_REGEX, .value = text};
	return 0;
}

static int select_links(struct pyroscope *p, const struct pyroscope_request *in, struct error *err)
{
	p->query.where = p->links;
	p->query.where_count = 0;
	int r = select_ids(p, "__span_id__", "span_selector", 16, &in->spans, err);
	return r < 0 ? r : select_ids(p, "__trace_id__", "trace_id_selector", 32, &in->traces, err);
}

#define MS_MAX (INT64_MAX / NS_PER_MS - 1)
int pyroscope_select(struct pyroscope *p, const struct pyroscope_request *in, struct error *err)
{
	if (in->start == 0 || in->end == 0)
		return error_set(err, -EINVAL, "missing time range in the query");
	if (in->start > in->end)
		return error_set(err, -EINVAL, "invalid time range in the query: the start is after the end");
	if (in->start < 0 || in->end > MS_MAX)
		return error_set(err, -EINVAL, "invalid time range in the query: times are milliseconds since 1970");
	if (in->call_site.count > FRAME_PATH_MAX)
		return error_set(err, -EINVAL, "the call site has more than %u frames", FRAME_PATH_MAX);
	/* One for Go's PGO keeps all stacks, and shortens them (pyroscope_shape). */
	p->query.call_site = in->call_site.items;
	p->query.call_site_count = in->pgo ? 0 : in->call_site.count;
	p->query.selector = in->selector;
	p->query.from_ns = in->start * NS_PER_MS;
	p->query.to_ns = (in->end + 1) * NS_PER_MS;
	query_round_range(&p->query.from_ns, &p->query.to_ns);
	p->query.type = NULL;
	int r = select_links(p, in, err);
	if (!r)
		r = pyroscope_profile_ids(&in->profiles, p->ids, &p->id_count, err);
	if (r < 0)
		return r;
	return in->any_type ? 0 : pyroscope_take_type(p, in->type, &p->query.type, err);
}

int pyroscope_nodes(int64_t asked, size_t *ret, struct error *err)
{
	*ret = asked > 0 ? (size_t)asked : PYROSCOPE_NODES_DEFAULT;
	if (asked > PYROSCOPE_NODES_MAX)
		return error_set(err, -EINVAL, "max flamegraph nodes limit %lld is greater than allowed %d", (long long)asked,
				 PYROSCOPE_NODES_MAX);
	return 0;
}

/* ---- merged profiles ---- */

/* What the ids of profiles select, one time after the other: each is a millisecond of one series (pyroscope/profile_id.h). */
static int merge_ids(struct pyroscope *p, const struct pyroscope_request *in, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *whole = NULL;
	uint64_t keys[PYROSCOPE_IDS_MAX];
	struct pyroscope_profile_id *ids = p->ids;
	struct query query = p->query;
	int r = profile_new(&whole, err);
	for (size_t i = 0, end; !r && i < p->id_count; i = end) {
		_cleanup_(profile_freep) struct profile *one = NULL;
		for (end = i; end < p->id_count && ids[end].time_ms == ids[i].time_ms; end++)
			keys[end - i] = ids[end].series;
		query.from_ns = ids[i].time_ms * NS_PER_MS;
		query.to_ns = query.from_ns + NS_PER_MS;
		if (query.from_ns < p->query.from_ns || query.to_ns > p->query.to_ns)
			continue;
		const struct query_merge_options options = {.series = keys, .series_count = end - i};
		r = query_merge(p->tenant->store, p->tenant->symbolizer, &query, &options, &one, &p->stats, err);
		if (!r && one->sample_count)
			r = profile_merge(whole, one, true, err);
	}
	if (r == 0)
		*ret = TAKE(whole);
	return r;
}

int pyroscope_merge(struct pyroscope *p, const struct pyroscope_request *in, struct profile **ret, struct error *err)
{
	int r = pyroscope_select(p, in, err);
	if (r < 0)
		return r;
	return in->profiles.count ? merge_ids(p, in, ret, err)
				  : query_merge(p->tenant->store, p->tenant->symbolizer, &p->query, NULL, ret, &p->stats, err);
}

int pyroscope_flame(struct pyroscope *p, const struct pyroscope_request *in, size_t nodes_max, struct flame **ret,
		    struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = pyroscope_merge(p, in, &profile, err);
	return r < 0 ? r : flame_build_by_name(profile, 0, nodes_max, ret, err);
}

#define DOT_NODES_DEFAULT 100

int pyroscope_dot(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct report_options options = {
		.mode = REPORT_DOT,
		.detail = {.functions = true, .inlines = true},
		.trim = {.nodes_max = DOT_NODES_DEFAULT, .node_fraction = 0.005, .edge_fraction = 0.001},
		.divide_by = 1,
		.unit = "minimum",
	};
	_cleanup_(report_release) struct report report = {0};
	int r = in->max_nodes > 0 ? pyroscope_nodes(in->max_nodes, &options.trim.nodes_max, err) : 0;
	if (!r)
		r = pyroscope_merge(p, in, &profile, err);
	if (r < 0 || !profile->sample_count)
		return r;
	r = report_begin(&report, profile, &options, err);
	return r < 0 ? r : report_write(&report, out, err);
}

int pyroscope_diff(struct pyroscope *p, const struct pyroscope_request *left, const struct pyroscope_request *right,
		   struct diff **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *before = NULL;
	_cleanup_(profile_freep) struct profile *after = NULL;
	p->query.whole = true;
	int r = pyroscope_merge(p, left, &before, err);
	if (r < 0)
		return error_prefix(err, r, "left");
	r = pyroscope_merge(p, right, &after, err);
	if (r < 0)
		return error_prefix(err, r, "right");
	r = query_join_sides(before, after, err);
	if (r < 0)
		return r;
	after = profile_free(after);
	return diff_build_types_by_name(before, 0, 1, ret, err);
}
