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
	pyroscope_finish(&p, r, err);
	return r;
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

static int write_row(struct buffer *out, const struct pyroscope_row *row)
{
	size_t mark, point;
	pb_begin(out, 1, &mark);
	pyroscope_write_labels(out, &row->labels);
	for (size_t i = 0; i < row->count; i++) {
		pb_begin(out, 2, &point);
		pb_put_double(out, 1, row->points[i].value);
		pb_put_varint(out, 2, (uint64_t)row->points[i].time_ms);
		pb_end(out, point);
	}
	return pb_end(out, mark);
}

static int answer_select_series(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_series_release) struct pyroscope_series series = {0};
	int r = pyroscope_series(p, in, &series, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < series.count; i++)
		write_row(out, &series.rows[i]);
	return rpc_too_large(buffer_status(out), err);
}
HANDLER(select_series)

static int write_slot(struct buffer *out, const struct pyroscope_heatmap *heatmap, const struct pyroscope_slot *slot)
{
	size_t mark;
	uint64_t counts[PYROSCOPE_HEATMAP_ROWS];
	for (size_t i = 0; i < PYROSCOPE_HEATMAP_ROWS; i++)
		counts[i] = (uint64_t)slot->counts[i];
	pb_begin(out, 2, &mark);
	pb_put_varint(out, 1, (uint64_t)slot->time_ms);
	/* Packed doubles: little-endian as they are in memory. */
	pb_write_bytes(out, 2, heatmap->rows, sizeof(heatmap->rows));
	pb_write_packed(out, 3, counts, PYROSCOPE_HEATMAP_ROWS);
	return pb_end(out, mark);
}

static int answer_heatmap(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(pyroscope_heatmap_release) struct pyroscope_heatmap heatmap = {0};
	int r = pyroscope_heatmap(p, in, &heatmap, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < heatmap.group_count && (!in->limit || i < (size_t)in->limit); i++) {
		size_t mark;
		pb_begin(out, 1, &mark);
		pyroscope_write_labels(out, &heatmap.groups[i]);
		for (size_t k = 0; k < heatmap.slot_counts[i]; k++)
			write_slot(out, &heatmap, &heatmap.slots[i][k]);
		pb_end(out, mark);
	}
	return rpc_too_large(buffer_status(out), err);
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
HANDLER(stacktraces)

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

struct extent {
	const struct query *query;
	uint64_t blocks, bytes;
};

static int add_block(void *context, const struct store_block *block, struct error *err)
{
	struct extent *extent = context;
	if (block->max_ns < extent->query->from_ns || block->min_ns >= extent->query->to_ns)
		return 0;
	extent->blocks++;
	extent->bytes += block->bytes;
	return 0;
}

/* What a query would have to look at: QueryScope { 1 type 2 count 3 blocks 4 series 6 samples 8 bytes }, QueryImpact { 2 bytes
 * 3 series }. */
static int answer_analyze(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err)
{
	_cleanup_(query_names_release) struct query_names types = {0};
	struct extent extent = {.query = &p->query};
	uint64_t series = 0, samples = 0;
	if (in->start <= 0 || in->end < in->start || in->end > INT64_MAX / NS_PER_MS - 1)
		return error_set(err, -EINVAL, "missing time range in the query");
	p->query.selector = in->selector;
	p->query.from_ns = in->start * NS_PER_MS;
	p->query.to_ns = (in->end + 1) * NS_PER_MS;
	int r = query_types(p->tenant->store, &p->query, &types, &p->stats, err);
	if (!r)
		r = store_list_blocks(p->tenant->store, add_block, &extent, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < types.count; i++) {
		series += types.items[i].series;
		samples += types.items[i].samples;
	}
	size_t mark;
	const struct {
		uint32_t field;
		uint64_t value;
	} scope[] = {{2, 1}, {3, extent.blocks}, {4, series}, {6, samples}, {8, extent.bytes}};
	pb_begin(out, 1, &mark);
	pb_write_string(out, 1, "store");
	for (size_t i = 0; i < sizeof(scope) / sizeof(*scope); i++)
		pb_put_varint(out, scope[i].field, scope[i].value);
	pb_end(out, mark);
	pb_begin(out, 2, &mark);
	pb_put_varint(out, 2, extent.bytes);
	pb_put_varint(out, 3, series);
	return rpc_too_large(pb_end(out, mark), err);
}
HANDLER(analyze)

/* Services whose state is empty here, and that clients ask for all the same: recording rules, features. */
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
	{QUERIER "ProfileTypes", &pyroscope_types_request, &pyroscope_types_answer, handle_types, SLOW_READ},
	{QUERIER "LabelNames", &pyroscope_label_names_request, &pyroscope_names_answer, handle_label_names, SLOW_READ},
	{QUERIER "LabelValues", &pyroscope_label_values_request, &pyroscope_names_answer, handle_label_values, SLOW_READ},
	{QUERIER "Series", &pyroscope_series_request, &pyroscope_series_answer, handle_series_sets, SLOW_READ},
	{QUERIER "SelectSeries", &pyroscope_select_series_request, &pyroscope_select_series_answer, handle_select_series,
	 SLOW_READ},
	{QUERIER "SelectMergeStacktraces", &pyroscope_stacktraces_request, &pyroscope_stacktraces_answer, handle_stacktraces,
	 SLOW_READ},
	{QUERIER "SelectMergeSpanProfile", &pyroscope_spans_request, &pyroscope_spans_answer, handle_spans, SLOW_READ},
	{QUERIER "SelectMergeProfile", &pyroscope_profile_request, &pyroscope_profile_answer, handle_pprof, SLOW_READ},
	{QUERIER "SelectHeatmap", &pyroscope_heatmap_request, &pyroscope_heatmap_answer, handle_heatmap, SLOW_READ},
	{QUERIER "Diff", &pyroscope_diff_request, &pyroscope_diff_answer, handle_diff, SLOW_READ},
	{QUERIER "GetProfileStats", &pyroscope_empty, &pyroscope_stats_answer, handle_stats, RPC_READ_ONLY},
	{QUERIER "AnalyzeQuery", &pyroscope_analyze_request, &pyroscope_analyze_answer, handle_analyze, SLOW_READ},
	{"/settings.v1.RecordingRulesService/ListRecordingRules", &pyroscope_empty, &pyroscope_empty, handle_nothing,
	 RPC_READ_ONLY},
	{"/capabilities.v1.FeatureFlagsService/GetFeatureFlags", &pyroscope_empty, &pyroscope_empty, handle_nothing,
	 RPC_READ_ONLY},
	{"/version.v1.Version/Version", &pyroscope_empty, &pyroscope_version_answer, handle_version, RPC_READ_ONLY},
	{0},
};
