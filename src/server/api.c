/* SPDX-License-Identifier: Apache-2.0 */
/* Questions out: the JSON API under /api/v1/. docs/api.md describes every call, parameter and answer; keep them together. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "format/format.h"
#include "render/flame.h"
#include "server/server_int.h"

#define BY_MAX		     8
#define TOP_LIMIT_DEFAULT    100
#define VALUES_LIMIT_DEFAULT 100

static int request_time(const struct net_request *request, const char *name, const char *fallback, int64_t now_ns, int64_t *ret,
			struct error *err)
{
	const char *text = net_request_query(request, name);
	int r = time_parse(text && *text ? text : fallback, now_ns, ret, err);
	return r ? error_prefix(err, r, "parameter '%s'", name) : 0;
}

static int request_query(const struct net_request *request, struct query *ret, struct error *err)
{
	int64_t now_ns = time_now_ns();
	const char *selector = net_request_query(request, "query");
	*ret = (struct query){.selector = selector ? selector : "", .cancel = net_request_cancelled(request)};
	int r = request_time(request, "from", "now-1h", now_ns, &ret->from_ns, err);
	return r ? r : request_time(request, "to", "now", now_ns, &ret->to_ns, err);
}

static int request_limit(const struct net_request *request, size_t fallback, size_t *ret, struct error *err)
{
	const char *text = net_request_query(request, "limit");
	uint64_t value = fallback;
	int r = text ? text_parse_u64(text, &value, err) : 0;
	if (r)
		return error_prefix(err, r, "parameter 'limit'");
	*ret = (size_t)value;
	return 0;
}

/* Counts the query, and turns a failure into an answer. A bad parameter is the client's fault (400). */
static void finish(struct server *server, struct tenant *tenant, const struct net_request *request,
		   struct net_response *response, int64_t started_ns, const struct query_stats *stats, int r,
		   const struct error *err)
{
	query_account(server, tenant, request, stats, time_monotonic_ns() - started_ns, r, err);
	if (r)
		respond_error(response, r == -EINVAL || r == -ERANGE ? 400 : http_status_of(r), err->message);
}

static void write_names(struct json_writer *json, const char *list, const char *item, const struct query_names *names)
{
	json_begin_object(json);
	json_key(json, list);
	json_begin_array(json);
	for (size_t i = 0; i < names->count; i++) {
		json_begin_object(json);
		json_key(json, item);
		json_string(json, names->items[i].name);
		json_key(json, "series");
		json_uint(json, names->items[i].series);
		json_end_object(json);
	}
	json_end_array(json);
	json_key(json, "total");
	json_uint(json, names->count_before_limit);
	json_end_object(json);
}

enum names_request { REQUEST_TYPES, REQUEST_LABELS, REQUEST_VALUES };

static int answer_names(struct tenant *tenant, const struct net_request *request, struct net_response *response,
			enum names_request kind, struct error *err)
{
	struct query query;
	int r = request_query(request, &query, err);
	if (r)
		return r;
	size_t limit = 0;
	const char *label = net_request_query(request, "label");
	_cleanup_(query_names_release) struct query_names names = {0};
	switch (kind) {
	case REQUEST_TYPES: r = query_types(tenant->store, &query, &names, NULL, err); break;
	case REQUEST_LABELS: r = query_label_names(tenant->store, &query, &names, NULL, err); break;
	case REQUEST_VALUES:
		if (!label)
			return error_set(err, -EINVAL,
					 "parameter 'label' is missing: the name of the label whose values are wanted");
		r = request_limit(request, VALUES_LIMIT_DEFAULT, &limit, err);
		if (!r)
			r = query_label_values(tenant->store, &query, label, net_request_query(request, "prefix"), limit,
					       &names, NULL, err);
		break;
	}
	if (r)
		return r;
	struct json_writer json;
	json_init(&json, &response->body);
	write_names(&json,
		    kind == REQUEST_TYPES    ? "types"
		    : kind == REQUEST_LABELS ? "labels"
					     : "values",
		    kind == REQUEST_VALUES ? "value" : "name", &names);
	return json_finish(&json, err);
}

static void names_handler(struct server *server, const struct net_request *request, struct net_response *response,
			  enum names_request kind)
{
	struct error err = {0};
	struct tenant *tenant;
	struct query_stats stats = {0};
	int64_t started = time_monotonic_ns();
	int r = tenant_of_request(server, request, false, &tenant, &err);
	if (!r)
		r = answer_names(tenant, request, response, kind, &err);
	finish(server, tenant, request, response, started, &stats, r, &err);
}

void api_types(void *context, const struct net_request *request, struct net_response *response)
{
	names_handler(context, request, response, REQUEST_TYPES);
}

void api_labels(void *context, const struct net_request *request, struct net_response *response)
{
	names_handler(context, request, response, REQUEST_LABELS);
}

void api_label_values(void *context, const struct net_request *request, struct net_response *response)
{
	names_handler(context, request, response, REQUEST_VALUES);
}

static void write_series(struct json_writer *json, const struct query_series *series, const struct query *query)
{
	char type[PROFILE_TYPE_TEXT_MAX] = "";
	json_begin_object(json);
	json_key(json, "type");
	json_string(json, series->type.name[0] ? profile_type_format(&series->type, type) : "");
	json_key(json, "unit");
	json_string(json, series->type.sample_unit);
	json_key(json, "step_ms");
	json_int(json, series->step_ns / NS_PER_MS);
	json_key(json, "from_ms");
	json_int(json, query->from_ns / NS_PER_MS);
	json_key(json, "to_ms");
	json_int(json, query->to_ns / NS_PER_MS);
	json_key(json, "total_series");
	json_uint(json, series->count_before_limit);
	json_key(json, "series");
	json_begin_array(json);
	for (size_t i = 0; i < series->count; i++) {
		const struct query_series_row *row = &series->rows[i];
		json_begin_object(json);
		json_key(json, "labels");
		json_begin_object(json);
		for (size_t k = 0; k < row->labels.count; k++) {
			json_key(json, row->labels.items[k].name);
			json_string(json, row->labels.items[k].value);
		}
		json_end_object(json);
		json_key(json, "total");
		json_int(json, row->total);
		json_key(json, "points");
		json_begin_array(json);
		for (size_t k = 0; k < row->point_count; k++) {
			json_begin_array(json);
			json_int(json, row->points[k].time_ns / NS_PER_MS);
			json_int(json, row->points[k].value);
			json_end_array(json);
		}
		json_end_array(json);
		json_end_object(json);
	}
	json_end_array(json);
	json_end_object(json);
}

static int answer_series(struct server *server, struct tenant *tenant, const struct net_request *request,
			 struct net_response *response, struct query_stats *stats, struct error *err)
{
	struct query query;
	int r = request_query(request, &query, err);
	if (r)
		return r;
	int64_t step_ns = 0;
	const char *step = net_request_query(request, "step"), *by[BY_MAX];
	if (step && *step && (r = time_parse_duration(step, &step_ns, err)))
		return error_prefix(err, r, "parameter 'step'");
	if (step && *step && step_ns < NS_PER_MS)
		return error_set(err, -EINVAL, "parameter 'step': '%.40s' is shorter than 1ms", step);
	size_t by_count = 0, limit;
	for (const char *label; (label = net_request_query_nth(request, "by", by_count)) && *label; by[by_count++] = label)
		if (by_count == BY_MAX)
			return error_set(err, -EINVAL, "parameter 'by': more than %d labels", BY_MAX);
	r = request_limit(request, 0, &limit, err);
	if (r)
		return r;
	_cleanup_(query_series_release) struct query_series series = {0};
	struct query_series_options options = {.step_ns = step_ns, .by = by, .by_count = by_count, .limit = limit};
	r = query_series(tenant->store, server->symbolizer, &query, &options, &series, stats, err);
	if (r)
		return r;
	struct json_writer json;
	json_init(&json, &response->body);
	write_series(&json, &series, &query);
	return json_finish(&json, err);
}

void api_series(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	struct query_stats stats = {0};
	int64_t started = time_monotonic_ns();
	struct tenant *tenant;
	int r = tenant_of_request(server, request, false, &tenant, &err);
	if (!r)
		r = answer_series(server, tenant, request, response, &stats, &err);
	finish(server, tenant, request, response, started, &stats, r, &err);
}

static void write_stats(struct json_writer *json, const struct flame *flame, const struct query_stats *stats,
			int64_t started_ns)
{
	const struct {
		const char *name;
		uint64_t value;
	} items[] = {{"samples", flame->sample_count},
		     {"blocks", stats->read.blocks},
		     {"blocks_skipped", stats->read.blocks_skipped},
		     {"series", stats->read.series},
		     {"rows", stats->read.rows},
		     {"bytes", stats->read.bytes},
		     {"resolved", stats->locations_resolved},
		     {"unresolved", stats->locations_unresolved}};
	json_key(json, "stats");
	json_begin_object(json);
	for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++) {
		json_key(json, items[i].name);
		json_uint(json, items[i].value);
	}
	json_key(json, "read_ms");
	json_double(json, (double)stats->read_ns / NS_PER_MS);
	json_key(json, "symbolize_ms");
	json_double(json, (double)stats->symbolize_ns / NS_PER_MS);
	json_key(json, "ms");
	json_double(json, (double)(time_monotonic_ns() - started_ns) / NS_PER_MS);
	json_end_object(json);
}

struct answer {
	const struct query *query;
	const struct profile *profile;
	const struct flame *flame;
	const struct query_stats *stats;
	size_t limit;
	int64_t started_ns;
	struct net_response *response;
};

/* format=flame and format=json: the same head, then the tree or the table. */
static int answer_json(const struct answer *answer, bool table, struct error *err)
{
	struct json_writer json;
	json_init(&json, &answer->response->body);
	json_begin_object(&json);
	json_key(&json, "type");
	json_string(&json, answer->flame->type);
	json_key(&json, "unit");
	json_string(&json, answer->flame->unit);
	json_key(&json, "period");
	json_int(&json, answer->profile->period);
	json_key(&json, "from_ms");
	json_int(&json, answer->query->from_ns / NS_PER_MS);
	json_key(&json, "to_ms");
	json_int(&json, answer->query->to_ns / NS_PER_MS);
	json_key(&json, "total");
	json_int(&json, answer->flame->total);
	write_stats(&json, answer->flame, answer->stats, answer->started_ns);
	if (table) {
		struct table rows;
		int r = table_build(answer->flame, &rows, err);
		if (r)
			return r;
		json_key(&json, "functions");
		table_write_json(&rows, answer->limit, &json);
		table_release(&rows);
	} else {
		json_key(&json, "flame");
		flame_write_json(answer->flame, &json);
	}
	json_end_object(&json);
	return json_finish(&json, err);
}

static int answer_flame(const struct answer *answer, struct error *err)
{
	return answer_json(answer, false, err);
}

static int answer_table(const struct answer *answer, struct error *err)
{
	return answer_json(answer, true, err);
}

static int answer_top(const struct answer *answer, struct error *err)
{
	struct table rows;
	int r = table_build(answer->flame, &rows, err);
	if (r)
		return r;
	r = table_write_text(&rows, answer->flame->unit, answer->limit, &answer->response->body, err);
	table_release(&rows);
	return r;
}

static int answer_folded(const struct answer *answer, struct error *err)
{
	if (answer->profile->sample_type_count == 0)
		return 0; /* no data, no lines */
	return folded_encode(answer->profile, &(struct format_options){0}, &answer->response->body, err);
}

static int answer_pprof(const struct answer *answer, struct error *err)
{
	net_response_header(answer->response, "Content-Disposition", "attachment; filename=\"wick.pb.gz\"");
	answer->response->no_compress = true;
	return pprof_encode(answer->profile, &(struct format_options){.compress = true}, &answer->response->body, err);
}

static int answer_svg(const struct answer *answer, struct error *err)
{
	struct svg_options options = {.title = answer->query->selector};
	return svg_render(answer->flame, &options, &answer->response->body, err);
}

static const struct answer_format {
	const char *name, *content_type;
	int (*answer)(const struct answer *answer, struct error *err);
	enum flame_unnamed unnamed;
} answer_formats[] = {
	{"flame", "application/json", answer_flame},
	{"json", "application/json", answer_table},
	{"top", "text/plain; charset=utf-8", answer_top, FLAME_UNNAMED_BY_BINARY},
	{"folded", "text/plain; charset=utf-8", answer_folded},
	{"pprof", "application/octet-stream", answer_pprof},
	{"svg", "image/svg+xml", answer_svg},
};

static const struct answer_format *find_answer_format(const char *name)
{
	for (size_t i = 0; i < sizeof(answer_formats) / sizeof(*answer_formats); i++)
		if (strcmp(answer_formats[i].name, name) == 0)
			return &answer_formats[i];
	return NULL;
}

static int answer_query(struct server *server, struct tenant *tenant, const struct net_request *request,
			struct net_response *response, struct query_stats *stats, struct error *err)
{
	struct answer answer = {.stats = stats, .started_ns = time_monotonic_ns(), .response = response};
	const char *name = net_request_query(request, "format");
	const struct answer_format *format = find_answer_format(name ? name : "flame");
	if (!format)
		return error_set(err, -EINVAL, "parameter 'format': '%.40s' is none of flame, json, top, folded, pprof, svg",
				 name);
	struct query query;
	int r = request_query(request, &query, err);
	if (!r)
		r = request_limit(request, TOP_LIMIT_DEFAULT, &answer.limit, err);
	if (r)
		return r;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(flame_freep) struct flame *flame = NULL;
	r = query_merge(tenant->store, server->symbolizer, &query, NULL, &profile, stats, err);
	if (!r)
		r = flame_build(profile, 0, format->unnamed, &flame, err);
	if (r)
		return r;
	answer.query = &query;
	answer.profile = profile;
	answer.flame = flame;
	response->content_type = format->content_type;
	return format->answer(&answer, err);
}

void api_query(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct error err = {0};
	struct query_stats stats = {0};
	int64_t started = time_monotonic_ns();
	struct tenant *tenant;
	int r = tenant_of_request(server, request, false, &tenant, &err);
	if (!r)
		r = answer_query(server, tenant, request, response, &stats, &err);
	finish(server, tenant, request, response, started, &stats, r, &err);
}

static void write_agent(struct json_writer *json, struct server *server)
{
	pthread_mutex_lock(&server->agent_lock);
	struct link_stats stats = server->agent_stats;
	bool seen = server->agent_seen;
	pthread_mutex_unlock(&server->agent_lock);
	json_key(json, "agent");
	if (!seen) {
		json_null(json);
		return;
	}
	uint64_t lost = 0;
	json_begin_object(json);
	json_key(json, "running");
	json_bool(json, true);
	json_key(json, "frequency_hz");
	json_uint(json, stats.frequency_hz);
	json_key(json, "event");
	json_string(json, stats.event);
	json_key(json, "samples_taken");
	json_uint(json, stats.samples_taken);
	json_key(json, "losses");
	json_begin_object(json);
	for (size_t i = 0; i < stats.loss_count; i++) {
		json_key(json, stats.losses[i].name);
		json_uint(json, stats.losses[i].count);
		if (strcmp(stats.losses[i].name, "counts_full") == 0)
			lost += stats.losses[i].count;
	}
	json_end_object(json);
	json_key(json, "walks");
	json_begin_object(json);
	for (size_t i = 0; i < stats.walk_count; i++) {
		json_key(json, stats.walks[i].name);
		json_uint(json, stats.walks[i].count);
	}
	json_end_object(json);
	json_key(json, "samples_lost");
	json_uint(json, lost);
	json_end_object(json);
}

void api_status(void *context, const struct net_request *request, struct net_response *response)
{
	struct server *server = context;
	struct store_stats store;
	struct error err = {0};
	struct tenant *tenant;
	int r = tenant_of_request(server, request, false, &tenant, &err);
	if (r) {
		respond_error(response, http_status_of(r), err.message);
		return;
	}
	store_get_stats(tenant->store, &store);
	struct json_writer json;
	json_init(&json, &response->body);
	json_begin_object(&json);
	json_key(&json, "version");
	json_string(&json, WICK_VERSION);
	json_key(&json, "uptime_s");
	json_int(&json, (time_monotonic_ns() - server->started_ns) / NS_PER_S);
	write_agent(&json, server);
	json_key(&json, "data");
	json_begin_object(&json);
	json_key(&json, "oldest_ms");
	json_int(&json, store.oldest_ns / NS_PER_MS);
	json_key(&json, "newest_ms");
	json_int(&json, store.newest_ns / NS_PER_MS);
	json_key(&json, "bytes");
	json_uint(&json, store.block_bytes + store.log_bytes);
	json_key(&json, "samples");
	json_uint(&json, store.block_samples + store.head_samples);
	json_end_object(&json);
	json_end_object(&json);
	if (json_finish(&json, &err))
		respond_error(response, 500, err.message);
}
