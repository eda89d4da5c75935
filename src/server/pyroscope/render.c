/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /pyroscope/render, render-diff, label-values and labels, with and without /pyroscope: the HTTP API that Pyroscope has had
 * since before its query service, which scripts and older data sources use, and Grafana's pages in places.
 *
 * A query is TYPE{matchers}, or FlameQL as of Pyroscope 0.x. An answer in JSON is a "flamebearer" of version 1:
 *
 *   { "version": 1,
 *     "flamebearer": { "names", "levels", "numTicks", "maxSelf" },              levels: render/flamebearer.c
 *     "metadata": { "format": "single" or "double", "spyName", "sampleRate", "units", "name" },
 *     "timeline": { "startTime", "samples", "durationDelta", "watermarks" },    seconds; null in a comparison
 *     "groups": { VALUE: timeline } or null, "heatmap": null, "leftTicks", "rightTicks" }
 *
 * CPU time is returned as samples at a rate of 10^9 a second, as Pyroscope does.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "format/format.h"
#include "server/pyroscope/pyroscope_int.h"

#define POINTS		1500 /* of a timeline, about */
#define STEP_LEAST_S	15
#define SAMPLE_RATE	100
#define SAMPLE_RATE_CPU 1000000000

/* ---- a call ---- */

struct render {
	struct pyroscope p;
	const struct net_request *request;
	struct net_response *response;
};
typedef int (*render_function)(struct render *render, struct error *err);

static void run(void *context, const struct net_request *request, struct net_response *response, render_function answer)
{
	struct render render = {.request = request, .response = response};
	struct error err = {0};
	int r = pyroscope_init(&render.p, context, request, response, 0, &err);
	if (!r)
		r = answer(&render, &err);
	bool unimplemented = render.p.unimplemented;
	r = pyroscope_finish(&render.p, r, &err);
	if (r < 0)
		pyroscope_respond(response,
				  unimplemented			 ? 501
				  : r == -EINVAL || r == -ERANGE ? 400
								 : http_status_of(r),
				  err.message);
}

/* ---- parameters ---- */

static const char *parameter(const struct render *render, const char *name)
{
	const char *text = net_request_query(render->request, name);
	return text ? text : "";
}

static int read_time(const struct render *render, const char *name, const char *fallback, int64_t *ret_ms, struct error *err)
{
	const char *text = parameter(render, name);
	int64_t ns;
	int r = time_parse(*text ? text : fallback, time_now_ns(), &ns, err);
	if (r < 0)
		return error_prefix(err, r, "parameter '%s'", name);
	*ret_ms = ns / NS_PER_MS;
	return 0;
}

static int read_query(struct render *render, const char *name, struct pyroscope_request *ret, struct error *err)
{
	const char *text = parameter(render, name);
	if (!*text)
		return error_set(err, -EINVAL, "parameter '%s' is missing: a profile type and label matchers, TYPE{a=\"b\"}",
				 name);
	return pyroscope_split_query(&render->p, text, ret, err);
}

static int read_side(struct render *render, const char *query, const char *from, const char *until,
		     struct pyroscope_request *ret, struct error *err)
{
	const char *nodes = parameter(render, "max-nodes");
	*ret = (struct pyroscope_request){.type = "", .selector = "", .name = ""};
	int r = read_query(render, query, ret, err);
	if (!r)
		r = read_time(render, from, "now-1h", &ret->start, err);
	if (!r)
		r = read_time(render, until, "now", &ret->end, err);
	if (!*nodes)
		nodes = parameter(render, "maxNodes");
	if (!r && *nodes)
		r = text_parse_i64(nodes, &ret->max_nodes, err);
	return r;
}

/* ---- timelines ---- */

/* A step that a person would choose, for about POINTS of them. */
static int64_t choose_step_s(int64_t start_ms, int64_t end_ms)
{
	static const int steps_s[] = {15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
	int64_t least = (end_ms - start_ms) / 1000 / POINTS;
	for (size_t i = 0; i < sizeof(steps_s) / sizeof(*steps_s); i++)
		if (steps_s[i] >= least)
			return steps_s[i];
	return (least / 86400 + 1) * 86400;
}

static void write_timeline(struct json_writer *json, const struct pyroscope_row *row, const struct pyroscope_request *in,
			   int64_t step_s)
{
	int64_t step_ms = step_s * 1000, start = in->start - in->start % step_ms, end = in->end - in->end % step_ms;
	size_t at = 0, count = row ? row->count : 0;
	json_begin_object(json);
	json_member_int(json, "startTime", start / 1000);
	json_member_array(json, "samples");
	for (int64_t time = start; time < end; time += step_ms) {
		double value = 0;
		for (; at < count && row->points[at].time_ms < time + step_ms; at++)
			value += row->points[at].time_ms >= time ? row->points[at].value : 0;
		json_uint(json, value > 0 ? (uint64_t)value : 0);
	}
	json_end_array(json);
	json_member_int(json, "durationDelta", step_s);
	json_member_null(json, "watermarks");
	json_end_object(json);
}

static int read_timelines(struct render *render, const struct pyroscope_request *in, int64_t step_s,
			  struct pyroscope_series *whole, struct pyroscope_series *groups, struct error *err)
{
	struct pyroscope_request ask = *in;
	const char *by = parameter(render, "groupBy"), *aggregation = parameter(render, "aggregation");
	ask.step = (double)step_s;
	ask.aggregation = strcmp(aggregation, "avg") == 0;
	int r = pyroscope_series(&render->p, &ask, whole, err);
	if (r < 0 || !*by)
		return r;
	ask.labels = (struct rpc_list){.items = &by, .count = 1};
	return pyroscope_series(&render->p, &ask, groups, err);
}

static void write_groups(struct render *render, struct json_writer *json, const struct pyroscope_series *groups,
			 const struct pyroscope_request *in, int64_t step_s)
{
	const char *by = parameter(render, "groupBy");
	json_key(json, "groups");
	if (!*by) {
		json_null(json);
		return;
	}
	json_begin_object(json);
	for (size_t i = 0; i < groups->count; i++) {
		const char *value = labels_get(&groups->rows[i].labels, by);
		json_key(json, value ? value : "*");
		write_timeline(json, &groups->rows[i], in, step_s);
	}
	json_end_object(json);
}

/* ---- flamebearers ---- */

void pyroscope_write_metadata(struct json_writer *json, const char *format, const char *type, const char *unit)
{
	static const char *const objects[] = {"inuse_objects", "alloc_objects", "goroutine", "samples"};
	bool cpu = strcmp(type, "cpu") == 0;
	unit = cpu ? "samples" : unit;
	for (size_t i = 0; i < sizeof(objects) / sizeof(*objects); i++)
		unit = strcmp(type, objects[i]) == 0 ? "objects" : unit;
	json_member_object(json, "metadata");
	json_member_cstring(json, "format", format);
	json_member_cstring(json, "spyName", "");
	json_member_int(json, "sampleRate", cpu ? SAMPLE_RATE_CPU : SAMPLE_RATE);
	json_member_cstring(json, "units", unit);
	json_member_cstring(json, "name", type);
	json_end_object(json);
}

void pyroscope_begin_flamebearer(struct json_writer *json, const struct flamebearer *flamebearer)
{
	json_begin_object(json);
	json_member_int(json, "version", 1);
	json_member_object(json, "flamebearer");
	flamebearer_write_json(flamebearer, json);
	json_end_object(json);
}

int pyroscope_end_flamebearer(struct json_writer *json, const struct flamebearer *flamebearer, struct error *err)
{
	static const char *const nulls[] = {"timeline", "groups", "heatmap"};
	for (size_t i = 0; i < sizeof(nulls) / sizeof(*nulls); i++)
		json_member_null(json, nulls[i]);
	if (flamebearer->node_values == FLAMEBEARER_DOUBLE) {
		json_member_int(json, "leftTicks", flamebearer->left_total);
		json_member_int(json, "rightTicks", flamebearer->right_total);
	}
	json_end_object(json);
	return json_finish(json, err);
}

static int render_json(struct render *render, const struct pyroscope_request *in, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	_cleanup_(pyroscope_series_release) struct pyroscope_series whole = {0}, groups = {0};
	int64_t step_s = choose_step_s(in->start, in->end);
	size_t nodes_max;
	int r = pyroscope_nodes(in->max_nodes, &nodes_max, err);
	if (!r)
		r = pyroscope_flame(&render->p, in, nodes_max, &flame, err);
	if (!r)
		r = flamebearer_of_flame(flame, &flamebearer, err);
	if (!r)
		r = read_timelines(render, in, step_s, &whole, &groups, err);
	if (r < 0)
		return r;
	struct json_writer json = pyroscope_json(&render->p);
	pyroscope_begin_flamebearer(&json, &flamebearer);
	pyroscope_write_metadata(&json, "single", flame->type, flame->unit);
	json_key(&json, "timeline");
	write_timeline(&json, whole.count ? &whole.rows[0] : NULL, in, step_s);
	write_groups(render, &json, &groups, in, step_s);
	json_member_null(&json, "heatmap");
	json_end_object(&json);
	return json_finish(&json, err);
}

static int render_pprof(struct render *render, const struct pyroscope_request *in, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = pyroscope_merge(&render->p, in, &profile, err);
	if (r < 0)
		return r;
	render->response->content_type = "application/octet-stream";
	render->response->no_compress = true;
	net_response_header(render->response, "Content-Disposition", "attachment; filename=\"profile.pb.gz\"");
	struct format_sink sink = pyroscope_sink(&render->p);
	return pprof_write(profile, &sink, err);
}

static int render_collapsed(struct render *render, const struct pyroscope_request *in, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = pyroscope_merge(&render->p, in, &profile, err);
	if (r < 0 || !profile->sample_type_count)
		return r;
	render->response->content_type = "text/plain; charset=utf-8";
	struct format_sink sink = pyroscope_sink(&render->p);
	return folded_write(profile, &(struct format_options){0}, &sink, err);
}

static int render_dot(struct render *render, const struct pyroscope_request *in, struct error *err)
{
	render->response->content_type = "text/plain; charset=utf-8";
	return pyroscope_dot(&render->p, in, &render->response->body, err);
}

static int answer_render(struct render *render, struct error *err)
{
	struct pyroscope_request in;
	const char *format = parameter(render, "format");
	int r = read_side(render, "query", "from", "until", &in, err);
	if (r < 0)
		return r;
	if (!*format || strcmp(format, "json") == 0)
		return render_json(render, &in, err);
	if (strcmp(format, "pprof") == 0)
		return render_pprof(render, &in, err);
	if (strcmp(format, "collapsed") == 0)
		return render_collapsed(render, &in, err);
	if (strcmp(format, "dot") == 0)
		return render_dot(render, &in, err);
	render->p.unimplemented = true;
	return error_set(err, -EINVAL, "format '%.40s' is not supported; json, pprof, collapsed and dot are", format);
}

static int answer_render_diff(struct render *render, struct error *err)
{
	struct pyroscope_request left, right;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	size_t nodes_max;
	int r = read_side(render, "leftQuery", "leftFrom", "leftUntil", &left, err);
	if (!r)
		r = read_side(render, "rightQuery", "rightFrom", "rightUntil", &right, err);
	if (!r && strcmp(left.type, right.type) != 0)
		r = error_set(err, -EINVAL, "profile types must match");
	if (!r)
		r = pyroscope_nodes(left.max_nodes, &nodes_max, err);
	if (!r)
		r = pyroscope_diff(&render->p, &left, &right, &diff, err);
	if (!r)
		r = flamebearer_of_diff(diff, nodes_max, &flamebearer, err);
	if (r < 0)
		return r;
	struct json_writer json = pyroscope_json(&render->p);
	pyroscope_begin_flamebearer(&json, &flamebearer);
	pyroscope_write_metadata(&json, "double", diff->tree->type, diff->tree->unit);
	return pyroscope_end_flamebearer(&json, &flamebearer, err);
}

/* ---- names ---- */

static int read_names(struct render *render, struct pyroscope_request *in, struct error *err)
{
	const char *from = parameter(render, "from"), *until = parameter(render, "until");
	*in = (struct pyroscope_request){.type = "", .selector = "", .name = parameter(render, "label")};
	int r = *from ? read_time(render, "from", "", &in->start, err) : 0;
	return r < 0 || !*until ? r : read_time(render, "until", "", &in->end, err);
}

static int write_names(struct render *render, const struct pyroscope_names *names, struct error *err)
{
	struct json_writer json = {.out = &render->response->body};
	json_begin_array(&json);
	for (size_t i = 0; i < names->count; i++)
		json_string(&json, names->items[i]);
	json_end_array(&json);
	return json_finish(&json, err);
}

/* Of __name__ the values are whole types here. */
static int answer_label_values(struct render *render, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names names = {0};
	struct pyroscope_request in;
	int r = read_names(render, &in, err);
	if (!r && !*in.name)
		r = error_set(err, -EINVAL, "label parameter is required");
	if (!r)
		r = strcmp(in.name, "__name__") == 0 ? pyroscope_types(&render->p, &in, &names, err)
						     : pyroscope_label_values(&render->p, &in, &names, err);
	return r < 0 ? r : write_names(render, &names, err);
}

static int answer_labels(struct render *render, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names names = {0};
	struct pyroscope_request in;
	int r = read_names(render, &in, err);
	if (!r)
		r = pyroscope_label_names(&render->p, &in, &names, err);
	return r < 0 ? r : write_names(render, &names, err);
}

#define HANDLER(name, answer)                                                                                                  \
	void name(void *context, const struct net_request *request, struct net_response *response)                             \
	{                                                                                                                      \
		run(context, request, response, answer);                                                                       \
	}
HANDLER(pyroscope_render, answer_render)
HANDLER(pyroscope_render_diff, answer_render_diff)
HANDLER(pyroscope_render_label_values, answer_label_values)
HANDLER(pyroscope_render_labels, answer_labels)
