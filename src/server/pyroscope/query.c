/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's query service (github.com/grafana/pyroscope, api/querier/v1/querier.proto, api/types/v1/types.proto), which
 * Grafana's data source, Profiles Drilldown and Pyroscope's own page ask:
 *
 *   ProfileTypes            1 start  2 end
 *                                         ->  1 profile_types { 1 ID  2 name  4 sample_type  5 sample_unit  6 period_type
 *                                                               7 period_unit }
 *   LabelNames              1 matchers*  2 start  3 end                 ->  1 names*
 *   LabelValues             1 name  2 matchers*  3 start  4 end         ->  1 names*
 *   Series                  1 matchers*  2 label_names*  3 start  4 end ->  2 labels_set { 1 labels { 1 name 2 value } }
 *   SelectSeries            1 profile_typeID  2 label_selector  3 start  4 end  5 group_by*  6 step  7 aggregation
 *                           8 stack_trace_selector  9 limit  10 exemplar_type
 *                                         ->  1 series { 1 labels*  2 points { 1 value  2 timestamp } }
 *   SelectMergeStacktraces  1 to 4 as above  5 max_nodes  6 format  7 stack_trace_selector  10 trace_id_selector*
 *                           11 span_selector*
 *                                         ->  1 flamegraph  2 tree  3 dot  5 pprof { 1 profile }
 *   SelectMergeSpanProfile  1 2  3 span_selector*  4 start  5 end  6 max_nodes  7 format  ->  1 flamegraph  2 tree
 *   SelectMergeProfile      1 to 5, 6 stack_trace_selector  8 trace_id_selector*  ->  a pprof profile (google.v1.Profile)
 *   SelectHeatmap           1 to 4  5 step  6 group_by*  7 query_type  8 exemplar_type  9 limit
 *                                         ->  1 series { 1 labels*  2 slots { 1 timestamp  2 y_min*  3 counts* } }
 *   Diff                    1 left  2 right, as SelectMergeStacktraces  ->  1 flamegraph
 *   GetProfileStats                       ->  1 data_ingested  2 oldest_profile_time  3 newest_profile_time
 *   AnalyzeQuery            2 start  3 end  4 query
 *                                         ->  1 query_scopes { ... }  2 query_impact { ... }
 *
 * Times are milliseconds, steps seconds. Types have no ":delta" here: an answer is of absolute and delta values of that name.
 * pyroscope/messages.c has the same fields by name, for clients that speak JSON and for pyroscope/parse.c, which reads them.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "server/http/rpc.h"
#include "server/pyroscope/messages.h"

/* ---- a call ---- */

typedef int (*answer_function)(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err);

static int run(struct rpc_call *call, struct bytes request, answer_function answer, struct buffer *out, struct error *err)
{
	struct pyroscope p;
	struct pyroscope_request in;
	int r = pyroscope_init(&p, call->server, call->request, call->response, call->timeout_ns, err);
	if (!r)
		r = pyroscope_parse(&p, request, call->method->request, &in, err);
	if (!r)
		r = answer(&p, &in, out, err);
	if (r < 0 && p.unimplemented)
		call->code = GRPC_UNIMPLEMENTED;
	return pyroscope_finish(&p, r, err);
}

#define HANDLER(name)                                                                                                          \
	static int handle_##name(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)           \
	{                                                                                                                      \
		return run(call, request, answer_##name, out, err);                                                            \
	}

/* ---- names ---- */

static int write_type(struct buffer *out, const char *id)
{
	struct profile_type type;
	size_t mark;
	int r = profile_type_parse(id, &type, NULL);
	if (r < 0)
		return r;
	pb_begin(out, 1, &mark);
	const char *parts[] = {id, type.name, NULL, type.sample_type, type.sample_unit, type.period_type, type.period_unit};
	for (uint32_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		if (parts[i])
			pb_put_string(out, i + 1, parts[i]);
	return pb_end(out, mark);
}

static int answer_types(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names names = {0};
	int r = pyroscope_types(p, in, &names, err);
	if (r < 0)
		return r;
	for (size_t i = 0; !r && i < names.count; i++)
		r = write_type(out, names.items[i]);
	return rpc_too_large(r, err);
}
HANDLER(types)

int pyroscope_write_names(const struct pyroscope_names *names, struct buffer *out, struct error *err)
{
	for (size_t i = 0; i < names->count; i++)
		pb_write_string(out, 1, names->items[i]);
	return rpc_too_large(buffer_status(out), err);
}

static int answer_label_names(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names names = {0};
	int r = pyroscope_label_names(p, in, &names, err);
	return r < 0 ? r : pyroscope_write_names(&names, out, err);
}
HANDLER(label_names)

static int answer_label_values(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names names = {0};
	int r = pyroscope_label_values(p, in, &names, err);
	return r < 0 ? r : pyroscope_write_names(&names, out, err);
}
HANDLER(label_values)

int pyroscope_write_label(struct buffer *out, const char *name, const char *value)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	pb_put_string(out, 1, name);
	pb_put_string(out, 2, value);
	return pb_end(out, mark);
}

int pyroscope_write_labels(struct buffer *out, const struct labels *labels)
{
	for (size_t i = 0; i < labels->count; i++)
		pyroscope_write_label(out, labels->items[i].name, labels->items[i].value);
	return buffer_status(out);
}

static int answer_series_sets(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(query_label_sets_release) struct query_label_sets sets = {0};
	int r = pyroscope_label_sets(p, in, &sets, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sets.count; i++) {
		size_t mark;
		pb_begin(out, 2, &mark);
		pyroscope_write_labels(out, &sets.items[i]);
		pb_end(out, mark);
	}
	return rpc_too_large(buffer_status(out), err);
}
HANDLER(series_sets)

/* ---- values over time ---- */

static bool is_listed(const struct rpc_list *names, const char *name)
{
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->items[i], name) == 0)
			return true;
	return false;
}

/* Of a profile, which has an id of its own. */
static int write_profile_id(struct buffer *out, const struct query_points *points, const struct query_group_point *point,
			    struct error *err)
{
	struct pyroscope_profile_id id = {.time_ms = point->time_ns / NS_PER_MS};
	char text[PYROSCOPE_ID_TEXT];
	int r = series_key(&points->type, &points->series[point->series], &id.series, err);
	if (r < 0)
		return r;
	pyroscope_profile_id_format(&id, text);
	pb_put_string(out, 2, text);
	return 0;
}

static void write_span(struct buffer *out, const struct profile_link *link)
{
	static const struct profile_link none;
	char text[2 * sizeof(link->trace_id) + 1];
	text_format_hex((struct bytes){link->span_id, sizeof(link->span_id)}, text);
	pb_put_string(out, 3, text);
	if (memcmp(link->trace_id, none.trace_id, sizeof(none.trace_id)) == 0)
		return;
	text_format_hex((struct bytes){link->trace_id, sizeof(link->trace_id)}, text);
	pb_put_string(out, 6, text);
}

/* Labels are those of the series that the answer is not grouped by. */
static int write_exemplar(struct buffer *out, uint32_t field, const struct query_points *points, uint32_t exemplar,
			  const struct pyroscope_request *in, struct error *err)
{
	const struct query_group_point *point = &points->points[exemplar - 1];
	const struct labels *labels = &points->series[point->series];
	size_t mark, label;
	int r = 0;
	pb_begin(out, field, &mark);
	pb_put_varint(out, 1, (uint64_t)(point->time_ns / NS_PER_MS));
	if (points->links)
		write_span(out, &points->links->links[point->link]);
	else
		r = write_profile_id(out, points, point, err);
	if (r < 0)
		return r;
	pb_put_varint(out, 4, (uint64_t)point->value);
	for (size_t i = 0; i < labels->count; i++) {
		if (is_listed(&in->labels, labels->items[i].name))
			continue;
		pb_begin(out, 5, &label);
		pb_put_string(out, 1, labels->items[i].name);
		pb_put_string(out, 2, labels->items[i].value);
		pb_end(out, label);
	}
	return rpc_too_large(pb_end(out, mark), err);
}

static int write_row(struct buffer *out, const struct pyroscope_row *row, const struct query_points *points,
		     const struct pyroscope_request *in, struct error *err)
{
	size_t mark, point;
	int r = 0;
	pb_begin(out, 1, &mark);
	pyroscope_write_labels(out, &row->labels);
	for (size_t i = 0; !r && i < row->count; i++) {
		pb_begin(out, 2, &point);
		pb_put_double(out, 1, row->points[i].value);
		pb_put_varint(out, 2, (uint64_t)row->points[i].time_ms);
		if (row->points[i].exemplar)
			r = write_exemplar(out, 4, points, row->points[i].exemplar, in, err);
		pb_end(out, point);
	}
	return r < 0 ? r : rpc_too_large(pb_end(out, mark), err);
}

static int answer_select_series(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_series_release) struct pyroscope_series series = {0};
	int r = pyroscope_series(p, in, &series, err);
	if (r < 0)
		return r;
	for (size_t i = 0; !r && i < series.count; i++)
		r = write_row(out, &series.rows[i], &series.points, in, err);
	return r;
}
HANDLER(select_series)

static int write_slot(struct buffer *out, const struct pyroscope_heatmap *heatmap, const struct pyroscope_slot *slot,
		      const struct pyroscope_request *in, struct error *err)
{
	size_t mark;
	int r = 0;
	uint64_t counts[PYROSCOPE_HEATMAP_ROWS];
	for (size_t i = 0; i < PYROSCOPE_HEATMAP_ROWS; i++)
		counts[i] = (uint64_t)slot->counts[i];
	pb_begin(out, 2, &mark);
	pb_put_varint(out, 1, (uint64_t)slot->time_ms);
	/* Packed doubles: little-endian as they are in memory. */
	pb_write_bytes(out, 2, heatmap->rows, sizeof(heatmap->rows));
	pb_write_packed(out, 3, counts, PYROSCOPE_HEATMAP_ROWS);
	for (size_t i = 0; !r && in->exemplars > PYROSCOPE_EXEMPLARS_NONE && i < PYROSCOPE_HEATMAP_ROWS; i++)
		if (slot->exemplars[i])
			r = write_exemplar(out, 4, &heatmap->points, slot->exemplars[i], in, err);
	return r < 0 ? r : rpc_too_large(pb_end(out, mark), err);
}

static int answer_heatmap(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_heatmap_release) struct pyroscope_heatmap heatmap = {0};
	int r = pyroscope_heatmap(p, in, &heatmap, err);
	if (r < 0)
		return r;
	for (size_t i = 0; !r && i < heatmap.group_count && (!in->limit || i < (size_t)in->limit); i++) {
		size_t mark;
		pb_begin(out, 1, &mark);
		pyroscope_write_labels(out, &heatmap.groups[i]);
		for (size_t k = 0; !r && k < heatmap.slot_counts[i]; k++)
			r = write_slot(out, &heatmap, &heatmap.slots[i][k], in, err);
		pb_end(out, mark);
	}
	return r < 0 ? r : rpc_too_large(buffer_status(out), err);
}
HANDLER(heatmap)

/* ---- profiles ---- */

static int write_flamegraph(const struct flamebearer *flamebearer, struct buffer *out, struct error *err)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	flamebearer_write_protobuf(flamebearer, out);
	return rpc_too_large(pb_end(out, mark), err);
}

static int answer_flame(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	size_t nodes_max, mark;
	int r = pyroscope_nodes(in->max_nodes, &nodes_max, err);
	if (!r)
		r = pyroscope_flame(p, in, nodes_max, &flame, err);
	if (r < 0)
		return r;
	if (in->format == PYROSCOPE_TREE) {
		pb_begin(out, 2, &mark);
		r = flamebearer_write_tree(flame, out, err);
		return r < 0 ? r : rpc_too_large(pb_end(out, mark), err);
	}
	r = flamebearer_of_flame(flame, &flamebearer, err);
	return r < 0 ? r : write_flamegraph(&flamebearer, out, err);
}

static int answer_pprof(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = pyroscope_merge(p, in, &profile, err);
	if (!r)
		r = pyroscope_shape(profile, in, err);
	return r < 0 ? r : pprof_encode(profile, &(struct format_options){0}, out, err);
}
HANDLER(pprof)

static int answer_pprof_inside(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	size_t outer, inner;
	pb_begin(out, 5, &outer);
	pb_begin(out, 1, &inner);
	int r = answer_pprof(p, in, out, err);
	if (r < 0)
		return r;
	pb_end(out, inner);
	return rpc_too_large(pb_end(out, outer), err);
}

static int answer_dot(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	size_t mark;
	pb_begin(out, 3, &mark);
	int r = pyroscope_dot(p, in, out, err);
	return r < 0 ? r : rpc_too_large(pb_end(out, mark), err);
}

static int answer_stacktraces(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	switch (in->format) {
	case PYROSCOPE_FLAMEGRAPH_UNSPECIFIED:
	case PYROSCOPE_FLAMEGRAPH:
	case PYROSCOPE_TREE: return answer_flame(p, in, out, err);
	case PYROSCOPE_DOT: return answer_dot(p, in, out, err);
	case PYROSCOPE_PPROF: return answer_pprof_inside(p, in, out, err);
	default:
		p->unimplemented = true;
		return error_set(err, -EINVAL, "format %llu is not supported; flamegraph, tree, dot and pprof are",
				 (unsigned long long)in->format);
	}
}

int pyroscope_run_stacktraces(struct server *server, struct tenant *tenant, struct bytes request, const atomic_bool *cancel,
			      struct buffer *out, char *partial, size_t partial_size, struct error *err)
{
	struct pyroscope p;
	struct pyroscope_request in;
	pyroscope_init_background(&p, server, tenant, cancel);
	int r = pyroscope_parse(&p, request, &pyroscope_stacktraces_request, &in, err);
	if (!r)
		r = answer_stacktraces(&p, &in, out, err);
	snprintf(partial, partial_size, "%s", !r && p.stats.read.partial ? p.stats.read.why : "");
	return pyroscope_finish(&p, r, err);
}

static int handle_stacktraces(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	int r = pyroscope_async_call(call, request, out, err);
	return r < 0 ? r : r > 0 ? 0 : run(call, request, answer_stacktraces, out, err);
}

/* SelectMergeSpanProfile is the same question, in other fields, and with less to choose from. */
static int answer_spans(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	if (!in->spans.count)
		return error_set(err, -EINVAL, "span_selector is empty");
	if (in->format > PYROSCOPE_TREE) {
		p->unimplemented = true;
		return error_set(err, -EINVAL, "format %llu is not supported; flamegraph and tree are",
				 (unsigned long long)in->format);
	}
	return answer_flame(p, in, out, err);
}
HANDLER(spans)

static int answer_diff(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	struct pyroscope_request left, right;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	_cleanup_(flamebearer_release) struct flamebearer flamebearer = {0};
	size_t nodes_max;
	int r = pyroscope_parse(p, in->left, &pyroscope_stacktraces_request, &left, err);
	if (!r)
		r = pyroscope_parse(p, in->right, &pyroscope_stacktraces_request, &right, err);
	if (!r)
		r = pyroscope_nodes(left.max_nodes > right.max_nodes ? left.max_nodes : right.max_nodes, &nodes_max, err);
	if (!r)
		r = pyroscope_diff(p, &left, &right, &diff, err);
	if (!r)
		r = flamebearer_of_diff(diff, nodes_max, &flamebearer, err);
	return r < 0 ? r : write_flamegraph(&flamebearer, out, err);
}
HANDLER(diff)

/* ---- about the data ---- */

#define ANALYZE_SAMPLES_MAX (4ull * 1024 * 1024)

static int answer_stats(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	struct store_stats stats;
	store_get_stats(p->tenant->store, &stats);
	pb_put_varint(out, 1, stats.newest_ns != 0);
	pb_put_varint(out, 2, (uint64_t)(stats.oldest_ns / NS_PER_MS));
	pb_put_varint(out, 3, (uint64_t)(stats.newest_ns / NS_PER_MS));
	return rpc_too_large(buffer_status(out), err);
}
HANDLER(stats)

/* A part of the store that a query would look at, as QueryScope has it. */
struct scope {
	const char *type;
	uint64_t blocks, series, profiles, samples, index_bytes, profile_bytes, symbol_bytes;
};
struct extent {
	const struct query *query;
	struct scope blocks;
};

static int add_block(void *context, const struct store_block *block, struct error *err)
{
	struct extent *extent = context;
	struct scope *scope = &extent->blocks;
	if (block->max_ns < extent->query->from_ns || block->min_ns >= extent->query->to_ns)
		return 0;
	scope->blocks++;
	scope->series += block->series;
	scope->samples += block->samples;
	scope->index_bytes += block->index_bytes;
	scope->symbol_bytes += block->symbol_bytes;
	scope->profile_bytes += block->bytes - block->index_bytes - block->symbol_bytes;
	return 0;
}

static uint64_t write_scope(struct buffer *out, const struct scope *scope)
{
	const uint64_t values[] = {scope->blocks > 0, scope->blocks,	  scope->series,	scope->profiles,
				   scope->samples,    scope->index_bytes, scope->profile_bytes, scope->symbol_bytes};
	size_t mark;
	pb_begin(out, 1, &mark);
	pb_write_string(out, 1, scope->type);
	for (uint32_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		pb_put_varint(out, i + 2, values[i]);
	pb_end(out, mark);
	return scope->index_bytes + scope->profile_bytes + scope->symbol_bytes;
}

/* Which series the query selects: label sets, over all types. */
static int count_selected(struct pyroscope *p, uint64_t *ret_series, uint64_t *ret_samples, struct error *err)
{
	_cleanup_(query_names_release) struct query_names types = {0};
	int r = query_types(p->tenant->store, &p->query, &types, &p->stats, err);
	*ret_series = *ret_samples = 0;
	for (size_t i = 0; i < types.count; i++) {
		*ret_series += types.items[i].series;
		*ret_samples += types.items[i].samples;
	}
	return r;
}

/* The profiles of the selection. The store has samples, so they are counted by reading, and only where that is quickly done. */
static uint64_t count_profiles(struct pyroscope *p, uint64_t samples)
{
	_cleanup_(query_points_release) struct query_points points = {0};
	struct error why = {0};
	if (samples == 0 || samples > ANALYZE_SAMPLES_MAX)
		return 0;
	return query_points(p->tenant->store, p->tenant->symbolizer, &p->query, NULL, 0, &points, &p->stats, &why) < 0
		       ? 0
		       : points.count;
}

/*
 * What a query would have to look at: the head and the blocks of its range, as a whole, like Pyroscope's ingesters and store
 * gateways; and what of it is selected.
 *   QueryScope  1 type  2 components  3 blocks  4 series  5 profiles  6 samples  7 index bytes  8 profile bytes  9 symbol bytes
 *   QueryImpact 2 bytes  3 series selected
 */
static int answer_analyze(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	struct extent extent = {.query = &p->query, .blocks.type = "Long term storage"};
	struct scope head = {.type = "Short term storage"};
	struct store_stats stats;
	uint64_t series = 0, samples = 0;
	size_t mark;
	if (in->start <= 0 || in->end < in->start || in->end > INT64_MAX / NS_PER_MS - 1)
		return error_set(err, -EINVAL, "missing time range in the query");
	p->query.from_ns = in->start * NS_PER_MS;
	p->query.to_ns = (in->end + 1) * NS_PER_MS;
	struct pyroscope_request parts = *in;
	int r = pyroscope_split_query(p, in->selector, &parts, err);
	if (!r && !parts.any_type)
		r = pyroscope_take_type(p, parts.type, &p->query.type, err);
	p->query.selector = parts.selector;
	if (!r)
		r = count_selected(p, &series, &samples, err);
	if (!r)
		r = store_list_blocks(p->tenant->store, add_block, &extent, err);
	if (r < 0)
		return r;
	store_get_stats(p->tenant->store, &stats);
	if (stats.head_samples && stats.newest_ns >= p->query.from_ns)
		head = (struct scope){.type = head.type,
				      .blocks = 1,
				      .series = stats.head_series,
				      .samples = stats.head_samples,
				      .profile_bytes = stats.head_bytes};
	uint64_t profiles = count_profiles(p, samples);
	(head.blocks && !extent.blocks.blocks ? &head : &extent.blocks)->profiles = profiles;
	uint64_t bytes = write_scope(out, &head);
	bytes += write_scope(out, &extent.blocks);
	pb_begin(out, 2, &mark);
	pb_put_varint(out, 2, bytes);
	pb_put_varint(out, 3, series);
	return rpc_too_large(pb_end(out, mark), err);
}
HANDLER(analyze)

/* Features, none of which can be switched here, and that clients ask for all the same. */
static int handle_nothing(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	return 0;
}

/* version.v1: the version of the query service that is spoken here. */
static int handle_version(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	return rpc_too_large(pb_write_varint(out, 1, 1), err);
}

#define QUERIER	  "/querier.v1.QuerierService/"
#define SLOW_READ (RPC_SLOW | RPC_READ_ONLY)
const struct rpc_method rpc_pyroscope_query[] = {
	{QUERIER "ProfileTypes", PERMIT_READ, &pyroscope_types_request, &pyroscope_types_answer, handle_types, SLOW_READ},
	{QUERIER "LabelNames", PERMIT_READ, &pyroscope_label_names_request, &pyroscope_names_answer, handle_label_names,
	 SLOW_READ},
	{QUERIER "LabelValues", PERMIT_READ, &pyroscope_label_values_request, &pyroscope_names_answer, handle_label_values,
	 SLOW_READ},
	{QUERIER "Series", PERMIT_READ, &pyroscope_series_request, &pyroscope_series_answer, handle_series_sets, SLOW_READ},
	{QUERIER "SelectSeries", PERMIT_READ, &pyroscope_select_series_request, &pyroscope_select_series_answer,
	 handle_select_series, SLOW_READ},
	{QUERIER "SelectMergeStacktraces", PERMIT_READ, &pyroscope_stacktraces_request, &pyroscope_stacktraces_answer,
	 handle_stacktraces, SLOW_READ},
	{QUERIER "SelectMergeSpanProfile", PERMIT_READ, &pyroscope_spans_request, &pyroscope_spans_answer, handle_spans,
	 SLOW_READ},
	{QUERIER "SelectMergeProfile", PERMIT_READ, &pyroscope_profile_request, &pyroscope_profile_answer, handle_pprof,
	 SLOW_READ},
	{QUERIER "SelectHeatmap", PERMIT_READ, &pyroscope_heatmap_request, &pyroscope_heatmap_answer, handle_heatmap,
	 SLOW_READ},
	{QUERIER "Diff", PERMIT_READ, &pyroscope_diff_request, &pyroscope_diff_answer, handle_diff, SLOW_READ},
	{QUERIER "GetProfileStats", PERMIT_READ, &pyroscope_empty, &pyroscope_stats_answer, handle_stats, RPC_READ_ONLY},
	{QUERIER "AnalyzeQuery", PERMIT_READ, &pyroscope_analyze_request, &pyroscope_analyze_answer, handle_analyze, SLOW_READ},
	{"/capabilities.v1.FeatureFlagsService/GetFeatureFlags", PERMIT_READ, &pyroscope_empty, &pyroscope_empty,
	 handle_nothing, RPC_READ_ONLY},
	{"/version.v1.Version/Version", PERMIT_READ, &pyroscope_empty, &pyroscope_version_answer, handle_version,
	 RPC_READ_ONLY},
	{0},
};
