/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of Parca's query service (pkg/query/columnquery.go, RenderReport): what is selected is merged, filtered, and written
 * as one of
 *
 *   Flamegraph       nested messages, as older versions of Grafana's data source ask for them:
 *                    { 1 root { 1 cumulative 2 diff 3 children* }  2 total  3 unit  4 height  10 trimmed }
 *   FlamegraphNode   { 1 meta { 2 mapping { 5 file }  3 function { 2 start_line 3 name 5 filename } }  2 cumulative  3 diff
 *                      4 children* }
 *   Top              { 1 list { 1 meta { ... }  2 cumulative  3 flat  4 diff }  2 reported  3 total  4 unit }
 *   FlamegraphArrow  { 1 record  2 unit  3 height  4 trimmed }, graphs and charts: graph_arrow.c
 *   TableArrow       { 1 record  2 unit }: table.c
 *   Source           source.c
 *   Callgraph        callgraph.c
 *   ProfileMetadata  { 1 mapping_files*  2 labels* }
 *   a pprof profile; of a comparison one with the differences
 *
 * Of a comparison, values are those of b and diff is how much more that is than a: relative, unless it says absolute: a is
 * scaled to b's total first.
 *
 * Types samples:count are given as CPU time where it is known what a sample stands for: values times the period, in its unit.
 */
#include "server/parca/report.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/order.h"
#include "base/sum.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "profile/merge.h"
#include "render/diff.h"
#include "render/units.h"
#include "server/parca/graph.h"

#define NODES_MAX 100000

const struct parca_response_fields parca_query_fields = {.flamegraph = 5,
							 .pprof = 6,
							 .top = 7,
							 .callgraph = 8,
							 .arrow = 11,
							 .source = 12,
							 .table = 13,
							 .metadata = 14,
							 .total = 9,
							 .filtered = 10};
const struct parca_response_fields parca_share_fields = {.flamegraph = 1,
							 .pprof = 2,
							 .top = 3,
							 .callgraph = 4,
							 .arrow = 7,
							 .source = 8,
							 .table = 9,
							 .metadata = 10,
							 .total = 5,
							 .filtered = 6};

static const char *unit_of(const struct parca_view *view)
{
	const struct profile *profile = view->profile;
	size_t types = profile->sample_type_count;
	return types ? profile_string(profile, profile->sample_types[types - 1].unit) : "";
}

/* What is drawn: a tree, without what is too small. */
struct graph {
	const struct flame *tree;
	const struct diff_value *base; /* NULL = no comparison */
	double scale;		       /* of the base */
	uint32_t *rows;		       /* by node: its row, UINT32_MAX = left out */
	uint32_t *nodes;	       /* by row */
	uint32_t *children;	       /* by row: how many */
	size_t count;
	int32_t height;
	int64_t trimmed;
};

static void graph_release(struct graph *graph)
{
	mem_free(graph->rows);
	mem_free(graph->nodes);
	mem_free(graph->children);
}

static int64_t diff_of(const struct graph *graph, uint32_t node)
{
	return graph->base ? parca_difference(graph->tree->nodes[node].total, graph->base[node].total, graph->scale) : 0;
}

static int graph_build(struct graph *graph, double threshold, struct error *err)
{
	const struct flame *tree = graph->tree;
	double least = fabs((double)tree->total) * threshold / 100;
	graph->rows = mem_alloc_array(tree->count, sizeof(*graph->rows));
	graph->nodes = mem_alloc_array(tree->count, sizeof(*graph->nodes));
	graph->children = mem_zalloc_array(tree->count, sizeof(*graph->children));
	if (!graph->rows || !graph->nodes || !graph->children)
		return error_nomem(err);
	for (uint32_t i = 0; i < tree->count; i++) {
		uint32_t parent = i ? graph->rows[tree->nodes[i].parent] : 0;
		graph->rows[i] = UINT32_MAX;
		if (parent == UINT32_MAX)
			continue;
		if (i && fabs((double)tree->nodes[i].total) < least) {
			sum_to(&graph->trimmed, tree->nodes[i].total);
			continue;
		}
		graph->rows[i] = (uint32_t)graph->count;
		graph->nodes[graph->count++] = i;
		graph->children[parent] += i > 0;
		if ((int32_t)tree->nodes[i].depth > graph->height)
			graph->height = (int32_t)tree->nodes[i].depth;
	}
	return 0;
}

/* ---- nested messages ---- */

/* Of a node or a row of the table: what it is. */
static int write_meta(struct buffer *out, struct bytes name, struct bytes file, struct bytes binary, uint32_t line)
{
	size_t meta, part;
	pb_begin(out, 1, &meta);
	if (binary.len) {
		pb_begin(out, 2, &part);
		pb_put_text(out, 5, binary);
		pb_end(out, part);
	}
	pb_begin(out, 3, &part);
	pb_put_varint(out, 2, line);
	pb_put_text(out, 3, name);
	pb_put_text(out, 5, file);
	pb_end(out, part);
	return pb_end(out, meta);
}

static int write_own(const struct graph *graph, uint32_t row, struct buffer *out)
{
	const struct flame *tree = graph->tree;
	const struct flame_node *node = &tree->nodes[graph->nodes[row]];
	if (row)
		write_meta(out, intern_get(&tree->strings, node->name), intern_get(&tree->strings, node->file),
			   intern_get(&tree->strings, node->binary), node->line);
	pb_put_varint(out, row ? 2 : 1, (uint64_t)node->total);
	return pb_put_varint(out, row ? 3 : 2, (uint64_t)diff_of(graph, graph->nodes[row]));
}

/* Lengths come before what is nested, and trees are deep: they are found first, from the leaves up, so that nothing is moved.
 */
static int write_nodes(const struct graph *graph, struct buffer *out, struct error *err)
{
	size_t count = graph->count;
	_cleanup_(mem_freep) size_t *sizes = mem_zalloc_array(count, sizeof(*sizes));
	_cleanup_(mem_freep) size_t *ends = mem_alloc_array(count + 1, sizeof(*ends));
	_cleanup_(buffer_release) struct buffer own = {.max = out->max};
	int r = sizes && ends ? 0 : -ENOMEM;
	for (uint32_t row = 0; !r && row < count; row++) {
		r = write_own(graph, row, &own);
		ends[row] = own.len;
	}
	for (size_t row = count; !r && row-- > 0;) {
		uint32_t parent = graph->rows[graph->tree->nodes[graph->nodes[row]].parent];
		sizes[row] += ends[row] - (row ? ends[row - 1] : 0);
		if (row)
			sizes[parent] += 1 + pb_varint_size(sizes[row]) + sizes[row];
	}
	for (uint32_t row = 0; !r && row < count; row++) {
		size_t start = row ? ends[row - 1] : 0;
		bool of_root = row && graph->rows[graph->tree->nodes[graph->nodes[row]].parent] == 0;
		buffer_append_byte(out, (uint8_t)((row == 0 ? 1 : of_root ? 3 : 4) << 3 | PB_BYTES));
		pb_write_raw_varint(out, sizes[row]);
		r = buffer_append(out, own.data + start, ends[row] - start);
	}
	return rpc_too_large(r, err);
}

static int write_nested(struct parca *p, const struct graph *graph, uint32_t number, struct error *err)
{
	size_t mark;
	pb_begin(p->out, number, &mark);
	int r = write_nodes(graph, p->out, err);
	if (r < 0)
		return r;
	pb_put_varint(p->out, 2, (uint64_t)graph->tree->total);
	pb_put_string(p->out, 3, graph->tree->unit);
	pb_put_varint(p->out, 4, (uint64_t)graph->height + 1);
	pb_put_varint(p->out, 10, (uint64_t)graph->trimmed);
	return rpc_too_large(pb_end(p->out, mark), err);
}

/* Both sides of a comparison are sample types of one profile. */
static int report_nested(struct parca *p, const struct parca_request *in, const struct parca_view *view, uint32_t number,
			 struct error *err)
{
	_cleanup_(graph_release) struct graph graph = {.scale = view->scale};
	_cleanup_(flame_freep) struct flame *side = NULL;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	bool compared = view->profile->sample_type_count > 1;
	int r = compared ? diff_build_types(view->profile, 0, 1, NODES_MAX, &diff, err)
			 : flame_build_largest(view->profile, 0, FLAME_UNNAMED_BY_ADDRESS, NODES_MAX, &side, err);
	graph.tree = r < 0 ? NULL : compared ? diff->tree : side;
	graph.base = r < 0 || !compared ? NULL : diff->base;
	if (!r)
		r = graph_build(&graph, (double)in->threshold, err);
	return r < 0 ? r : write_nested(p, &graph, number, err);
}

/* ---- Arrow ---- */

/* Of the labels grouped by, those that some sample has: the others get no column. */
static size_t choose_labels(const struct parca_request *in, const struct profile *profile, const char **out)
{
	size_t count = 0;
	for (size_t i = 0; i < in->label_count; i++) {
		bool found = false;
		for (size_t k = 0; k < profile->label_count && !found; k++)
			found = strcmp(profile_string(profile, profile->labels[k].key), in->labels[i]) == 0;
		if (found)
			out[count++] = in->labels[i];
	}
	return count;
}

static int report_arrow(struct parca *p, const struct parca_request *in, const struct parca_view *view, uint32_t number,
			struct error *err)
{
	_cleanup_(parca_graph_release) struct parca_graph graph = {0};
	_cleanup_(buffer_release) struct buffer record = {.max = p->out->max};
	const struct parca_graph_options options = {.by_labels = in->label_count > 0,
						    .by_mapping = in->by_mapping,
						    .by_address = in->by_address,
						    .by_file = in->by_file,
						    .by_time = in->by_time,
						    .inverted = in->filters.invert,
						    .scale = view->scale,
						    .threshold = (double)in->threshold,
						    .period_ns = view->profile->period,
						    .cancel = view->cancel};
	const char *labels[STORE_GROUP_BY_MAX];
	size_t mark, label_count = choose_labels(in, view->profile, labels);
	int r = parca_graph_build(view->profile, &options, &graph, err);
	if (!r)
		r = parca_graph_write(&graph, labels, label_count, &record, err);
	if (r < 0)
		return r;
	pb_begin(p->out, number, &mark);
	pb_write_bytes(p->out, 1, record.data, record.len);
	pb_put_string(p->out, 2, unit_of(view));
	pb_put_varint(p->out, 3, (uint64_t)graph.height);
	pb_put_varint(p->out, 4, (uint64_t)graph.trimmed);
	return rpc_too_large(pb_end(p->out, mark), err);
}

static int report_table(struct parca *p, const struct parca_view *view, uint32_t number, struct error *err)
{
	_cleanup_(buffer_release) struct buffer record = {.max = p->out->max};
	size_t mark;
	int r = parca_table_write(view, &record, err);
	if (r < 0)
		return r;
	pb_begin(p->out, number, &mark);
	pb_write_bytes(p->out, 1, record.data, record.len);
	pb_put_string(p->out, 2, unit_of(view));
	return rpc_too_large(pb_end(p->out, mark), err);
}

/* Without a text the lines are there all the same; what went wrong otherwise is a failure. */
static int report_source(struct parca *p, const struct parca_request *in, const struct parca_view *view, uint32_t number,
			 struct error *err)
{
	_cleanup_(buffer_release) struct buffer record = {.max = p->out->max}, text = {.max = p->out->max};
	size_t mark;
	int r = parca_source_text(p, &in->source, view->profile, &text, NULL);
	if (r == -ENOMEM || r == -ECANCELED)
		return error_set(err, r, r == -ENOMEM ? "out of memory" : "the client disconnected");
	r = parca_source_write(view, &in->source, &record, err);
	if (r < 0)
		return r;
	pb_begin(p->out, number, &mark);
	pb_write_bytes(p->out, 1, record.data, record.len);
	pb_put_text(p->out, 2, buffer_bytes(&text));
	pb_put_string(p->out, 3, unit_of(view));
	return rpc_too_large(pb_end(p->out, mark), err);
}

/* ---- the rest ---- */

static int report_callgraph(struct parca *p, const struct parca_view *view, uint32_t number, struct error *err)
{
	size_t mark;
	pb_begin(p->out, number, &mark);
	int r = parca_callgraph_write(view, p->out, err);
	return r < 0 ? r : rpc_too_large(pb_end(p->out, mark), err);
}

DEFINE_ORDER(compare_top, struct parca_function, ORDER(b->flat, a->flat) ?: ORDER(b->total, a->total));

static int report_top(struct parca *p, const struct parca_view *view, uint32_t number, struct error *err)
{
	_cleanup_(parca_functions_release) struct parca_functions functions = {0};
	bool compared = view->profile->sample_type_count > 1;
	size_t mark, part;
	int r = parca_functions_build(view->profile, false, view->cancel, &functions, err);
	if (r < 0)
		return r;
	sort_array(functions.items, functions.count, compare_top);
	pb_begin(p->out, number, &mark);
	for (size_t i = 0; i < functions.count; i++) {
		const struct parca_function *function = &functions.items[i];
		pb_begin(p->out, 1, &part);
		parca_write_meta(p->out, 1, view->profile, function);
		pb_put_varint(p->out, 2, (uint64_t)function->total);
		pb_put_varint(p->out, 3, (uint64_t)function->flat);
		if (compared)
			pb_put_varint(p->out, 4,
				      (uint64_t)parca_difference(function->total, function->total_base, view->scale));
		pb_end(p->out, part);
	}
	pb_put_varint(p->out, 2, functions.count);
	pb_put_varint(p->out, 3, (uint64_t)(int64_t)(int32_t)view->total);
	pb_put_string(p->out, 4, unit_of(view));
	return rpc_too_large(pb_end(p->out, mark), err);
}

/* Samples whose stacks became equal are one, and differences take the place of two sides. */
int parca_view_pprof(const struct parca_view *view, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	const struct profile *from = view->profile;
	size_t types = from->sample_type_count;
	int r = profile_new(&profile, err);
	if (!r)
		r = profile_copy_new(profile, from, &copy, err);
	if (!r)
		r = types ? profile_copy_sample_type(copy, types - 1, err) : profile_add_sample_type(profile, 0, 0, err);
	if (!r)
		r = profile_copy_times(copy, err);
	for (size_t i = 0; !r && i < from->sample_count; i++) {
		struct profile_sample sample = {0};
		int64_t value = from->values[i * types + types - 1];
		if (types > 1)
			value = parca_difference(value, from->values[i * types], view->scale);
		if (!from->samples[i].stack)
			continue;
		r = profile_copy_stack(copy, from->samples[i].stack, &sample.stack, err);
		if (!r)
			r = profile_copy_label_set(copy, from->samples[i].labels, &sample.labels, err);
		if (!r)
			r = profile_add_sample(profile, &sample, &value, err);
	}
	if (!r)
		r = profile_aggregate(profile, err);
	if (r < 0)
		return r;
	*ret = TAKE(profile);
	return 0;
}

static int report_pprof(struct parca *p, const struct parca_view *view, uint32_t number, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(buffer_release) struct buffer pprof = {.max = p->out->max};
	int r = parca_view_pprof(view, &profile, err);
	if (!r)
		r = pprof_encode(profile, &(struct format_options){.compress = true}, &pprof, err);
	return r < 0 ? r : rpc_too_large(pb_write_bytes(p->out, number, pprof.data, pprof.len), err);
}

/* ---- metadata ---- */

static int write_names(struct pyroscope_names *names, struct buffer *out, uint32_t number, struct error *err)
{
	int r = pyroscope_names_finish(names, err);
	for (size_t i = 0; !r && i < names->count; i++)
		pb_write_string(out, number, names->items[i]);
	return r;
}

/* The files of mappings that frames are in; "" if some are in none. */
static int find_mapping_files(const struct profile *profile, struct pyroscope_names *ret, struct error *err)
{
	_cleanup_(mem_freep) bool *used = mem_zalloc_array(profile->mapping_count, sizeof(*used));
	int r = used ? 0 : error_nomem(err);
	for (size_t i = 1; !r && i < profile->stack_count; i++)
		used[profile->locations[profile->stacks[i].location].mapping] = true;
	for (size_t i = 0; !r && i < profile->mapping_count; i++)
		if (used[i])
			r = pyroscope_names_add(ret, profile_string(profile, profile->mappings[i].file_name), err);
	return r;
}

static int find_labels(struct parca *p, const struct parca_view *view, struct pyroscope_names *ret, struct error *err)
{
	_cleanup_(query_names_release) struct query_names found = {0};
	const struct profile *profile = view->profile;
	int r = 0;
	if (p->call.query.selector) {
		r = query_label_names(p->call.tenant->store, &p->call.query, &found, &p->call.stats, err);
		for (size_t i = 0; !r && i < found.count; i++)
			r = pyroscope_names_add(ret, found.items[i].name, err);
		return r;
	}
	for (size_t i = 0; !r && i < profile->label_count; i++)
		if (profile->labels[i].value)
			r = pyroscope_names_add(ret, profile_string(profile, profile->labels[i].key), err);
	return r;
}

static int report_metadata(struct parca *p, const struct parca_view *view, uint32_t number, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names files = {0}, labels = {0};
	size_t mark;
	int r = pyroscope_names_init(&files, err);
	if (!r)
		r = pyroscope_names_init(&labels, err);
	if (!r)
		r = find_mapping_files(view->profile, &files, err);
	if (!r)
		r = find_labels(p, view, &labels, err);
	if (r < 0)
		return r;
	pb_begin(p->out, number, &mark);
	r = write_names(&files, p->out, 1, err);
	if (!r)
		r = write_names(&labels, p->out, 2, err);
	return r < 0 ? r : rpc_too_large(pb_end(p->out, mark), err);
}

/* ---- any report ---- */

int parca_report_check(struct parca *p, const struct parca_request *in, struct error *err)
{
	if (in->report >= PARCA_REPORTS)
		return error_set(err, -EINVAL, "report type %llu is unknown", (unsigned long long)in->report);
	if (in->report == PARCA_FLAMEGRAPH_TABLE) {
		p->call.unimplemented = true;
		return error_set(err, -EINVAL,
				 "REPORT_TYPE_FLAMEGRAPH_TABLE is not supported; use REPORT_TYPE_FLAMEGRAPH_ARROW");
	}
	if (in->report == PARCA_SOURCE && !in->source.given)
		return error_set(err, -EINVAL, "source_reference is missing");
	return 0;
}

static int write_report(struct parca *p, const struct parca_request *in, const struct parca_view *view,
			const struct parca_response_fields *fields, struct error *err)
{
	switch ((enum parca_report)in->report) {
	case PARCA_PPROF: return report_pprof(p, view, fields->pprof, err);
	case PARCA_TOP: return report_top(p, view, fields->top, err);
	case PARCA_CALLGRAPH: return report_callgraph(p, view, fields->callgraph, err);
	case PARCA_FLAMEGRAPH_ARROW:
	case PARCA_FLAMECHART: return report_arrow(p, in, view, fields->arrow, err);
	case PARCA_SOURCE: return report_source(p, in, view, fields->source, err);
	case PARCA_TABLE_ARROW: return report_table(p, view, fields->table, err);
	case PARCA_PROFILE_METADATA: return report_metadata(p, view, fields->metadata, err);
	default: return report_nested(p, in, view, fields->flamegraph, err);
	}
}

int parca_report_write(struct parca *p, const struct parca_request *in, const struct parca_view *view,
		       const struct parca_response_fields *fields, struct error *err)
{
	int r = write_report(p, in, view, fields, err);
	if (r < 0 || in->report == PARCA_PROFILE_METADATA)
		return r;
	pb_put_varint(p->out, fields->total, (uint64_t)view->total);
	return rpc_too_large(pb_put_varint(p->out, fields->filtered, (uint64_t)view->filtered), err);
}

/* ---- what is selected ---- */

void parca_view_release(struct parca_view *view)
{
	view->profile = profile_free(view->profile);
}

bool parca_counts_samples(const char *type, const char *unit)
{
	return strcmp(type, "samples") == 0 && strcmp(unit, "count") == 0;
}

/* Of what counts samples, CPU time. */
static void scale_samples(struct profile *profile)
{
	struct profile_value_type *type = profile->sample_types;
	if (profile->sample_type_count != 1 || profile->period <= 0 || !profile->period_type.type ||
	    !parca_counts_samples(profile_string(profile, type->type), profile_string(profile, type->unit)))
		return;
	for (size_t i = 0; i < profile->sample_count; i++)
		if (__builtin_mul_overflow(profile->values[i], profile->period, &profile->values[i]))
			profile->values[i] = INT64_MAX;
	*type = profile->period_type;
}

static int merge(struct parca *p, const struct parca_request *in, const struct parca_selection *selection, struct profile **ret,
		 struct error *err)
{
	const struct query_merge_options options = {.by = in->labels, .by_count = in->is_diff ? 0 : in->label_count};
	struct query *query = &p->call.query;
	struct symbolizer *symbolizer = in->report == PARCA_PROFILE_METADATA ? NULL : p->call.tenant->symbolizer;
	query->selector = selection->query;
	query->from_ns = selection->from_ns;
	query->to_ns = selection->to_ns + 1;
	query->whole = in->is_diff;
	int r;
	if (in->by_time) {
		r = query_merge_timed(p->call.tenant->store, symbolizer, query, &options, ret, &p->call.stats, err);
	} else {
		query_round_range(&query->from_ns, &query->to_ns);
		r = query_merge(p->call.tenant->store, symbolizer, query, &options, ret, &p->call.stats, err);
	}
	if (!r)
		scale_samples(*ret);
	return r;
}

/* The base first, so that the query that stays is that of b. */
static int merge_sides(struct parca *p, const struct parca_request *in, struct parca_view *view, struct error *err)
{
	_cleanup_(profile_freep) struct profile *base = NULL;
	_cleanup_(profile_freep) struct profile *side = NULL;
	int r = merge(p, in, &in->base, &base, err);
	if (!r)
		r = merge(p, in, &in->selection, &side, err);
	if (!r)
		r = query_join_sides(base, side, err);
	if (!r)
		view->profile = TAKE(base);
	int64_t before = r < 0 ? 0 : profile_total(view->profile, 0);
	if (before && !in->absolute)
		view->scale = (double)profile_total(view->profile, 1) / (double)before;
	return r;
}

int parca_view_prepare(struct parca_view *view, const struct parca_request *in, struct error *err)
{
	int r = parca_filters_apply(&in->filters, view->profile, view->cancel, &view->filtered, err);
	if (!r && view->profile->sample_type_count)
		view->total = profile_total(view->profile, view->profile->sample_type_count - 1);
	return r;
}

/* Whether a text can be had: an empty Source. */
static int answer_question(struct parca *p, const struct parca_request *in, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = p->out->max};
	int r = parca_source_text(p, &in->source, NULL, &text, err);
	return r < 0 ? r : rpc_too_large(pb_write_bytes(p->out, parca_query_fields.source, "", 0), err);
}

int parca_view_select(struct parca *p, struct parca_request *in, struct parca_view *ret, struct error *err)
{
	*ret = (struct parca_view){.scale = 1, .cancel = p->call.query.cancel};
	/* When comparing, metadata are those of what is shown. */
	if (in->report == PARCA_PROFILE_METADATA)
		in->is_diff = false;
	int r = in->is_diff ? merge_sides(p, in, ret, err) : merge(p, in, &in->selection, &ret->profile, err);
	return r < 0 || in->report == PARCA_PROFILE_METADATA ? r : parca_view_prepare(ret, in, err);
}

int parca_report(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(parca_view_release) struct parca_view view = {0};
	int r = parca_report_check(p, in, err);
	if (r < 0)
		return r;
	if (in->source.given && in->source.is_question)
		return answer_question(p, in, err);
	r = parca_view_select(p, in, &view, err);
	return r < 0 ? r : parca_report_write(p, in, &view, &parca_query_fields, err);
}
