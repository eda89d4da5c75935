/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of Parca's query service. The flame graph comes in two forms: a message of nested nodes, as older versions of
 * Grafana's data source ask for it, and a table in an Arrow stream, as newer ones and Parca's page do.
 *
 *   Flamegraph { 1 root { 1 cumulative 2 diff 3 children* }  2 total  3 unit  4 height  10 trimmed }
 *   FlamegraphNode { 1 meta { 2 mapping { 5 file }  3 function { 2 start_line 3 name 5 filename } }  2 cumulative  3 diff
 *                    4 children* }
 *   Top { 1 list { 1 meta { ... }  2 cumulative  3 flat  4 diff }  2 reported  3 total  4 unit }
 *   FlamegraphArrow { 1 record  2 unit  3 height  4 trimmed }
 *
 * The table has a row a node, in pre-order, the root first: function_name, function_file_name and mapping_file as dictionaries
 * (null = unknown), function_startline, inlined, children (lists of rows), parent (-1 at the root), cumulative, flat, diff,
 * depth.
 *
 * Of a comparison, values are those of b and diff is how much more that is than a: relative, unless it says absolute: a is
 * scaled to b's total first.
 */
#include <errno.h>
#include <math.h>

#include "codec/arrow_write.h"
#include "codec/protobuf.h"
#include "format/format.h"
#include "server/parca/parca_int.h"

#define NODES_MAX 100000
enum { REPORT_FLAMEGRAPH, REPORT_PPROF, REPORT_TOP, REPORT_FLAMEGRAPH_ARROW = 5 };

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
	return graph->base ? graph->tree->nodes[node].total - llround((double)graph->base[node].total * graph->scale) : 0;
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
			graph->trimmed += tree->nodes[i].total;
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

static int report_flamegraph(struct parca *p, const struct graph *graph, struct error *err)
{
	size_t mark;
	pb_begin(p->out, 5, &mark);
	int r = write_nodes(graph, p->out, err);
	if (r < 0)
		return r;
	pb_put_varint(p->out, 2, (uint64_t)graph->tree->total);
	pb_put_string(p->out, 3, graph->tree->unit);
	pb_put_varint(p->out, 4, (uint64_t)graph->height);
	pb_put_varint(p->out, 10, (uint64_t)graph->trimmed);
	return rpc_too_large(pb_end(p->out, mark), err);
}

/* ---- a table ---- */

enum column {
	NAME,
	FILE_NAME,
	MAPPING,
	LINE,
	INLINED,
	CHILDREN,
	PARENT,
	CUMULATIVE,
	FLAT,
	DIFF,
	DEPTH,
	LABELS_ONLY,
	ADDRESS,
	COLUMNS
};
static const struct {
	const char *name;
	enum arrow_kind kind;
} columns[COLUMNS] = {
	[NAME] = {"function_name", ARROW_DICTIONARY},
	[FILE_NAME] = {"function_file_name", ARROW_DICTIONARY},
	[MAPPING] = {"mapping_file", ARROW_DICTIONARY},
	[LINE] = {"function_startline", ARROW_INT64},
	[INLINED] = {"inlined", ARROW_BOOL},
	[CHILDREN] = {"children", ARROW_UINT32_LIST},
	[PARENT] = {"parent", ARROW_INT32},
	[CUMULATIVE] = {"cumulative", ARROW_UINT64},
	[FLAT] = {"flat", ARROW_UINT64},
	[DIFF] = {"diff", ARROW_INT64},
	[DEPTH] = {"depth", ARROW_UINT32},
	[LABELS_ONLY] = {"labels_only", ARROW_BOOL},
	[ADDRESS] = {"location_address", ARROW_UINT64},
};

struct table_columns {
	uint8_t *bytes[COLUMNS], *present[COLUMNS];
	int32_t *offsets;
	struct bytes *texts; /* all strings of the tree, shared by the dictionaries */
};

static void columns_release(struct table_columns *table)
{
	for (size_t i = 0; i < COLUMNS; i++) {
		mem_free(table->bytes[i]);
		mem_free(table->present[i]);
	}
	mem_free(table->offsets);
	mem_free(table->texts);
}

static int columns_init(struct table_columns *table, const struct graph *graph, struct error *err)
{
	bool complete = true;
	*table = (struct table_columns){0};
	for (size_t i = 0; i < COLUMNS; i++) {
		table->bytes[i] = mem_zalloc_array(graph->count + 1, 8);
		table->present[i] = mem_zalloc(graph->count + 1);
		complete &= table->bytes[i] && table->present[i];
	}
	table->offsets = mem_zalloc_array(graph->count + 1, sizeof(*table->offsets));
	table->texts = mem_alloc_array(graph->tree->strings.count, sizeof(*table->texts));
	if (!complete || !table->offsets || !table->texts)
		return error_nomem(err);
	for (uint32_t i = 0; i < graph->tree->strings.count; i++)
		table->texts[i] = intern_get(&graph->tree->strings, i);
	return 0;
}

static void fill_row(struct table_columns *table, const struct graph *graph, uint32_t row)
{
	const struct flame_node *node = &graph->tree->nodes[graph->nodes[row]];
	((uint32_t *)table->bytes[NAME])[row] = node->name;
	((uint32_t *)table->bytes[FILE_NAME])[row] = node->file;
	((uint32_t *)table->bytes[MAPPING])[row] = node->binary;
	((int64_t *)table->bytes[LINE])[row] = node->line;
	table->bytes[INLINED][row] = node->inlined;
	((int32_t *)table->bytes[PARENT])[row] = row ? (int32_t)graph->rows[node->parent] : -1;
	((int64_t *)table->bytes[CUMULATIVE])[row] = node->total;
	((int64_t *)table->bytes[FLAT])[row] = node->self;
	((int64_t *)table->bytes[DIFF])[row] = diff_of(graph, graph->nodes[row]);
	((uint32_t *)table->bytes[DEPTH])[row] = node->depth;
	table->present[NAME][row] = row > 0;
	table->present[FILE_NAME][row] = node->file != 0;
	table->present[MAPPING][row] = node->binary != 0;
	table->offsets[row + 1] = table->offsets[row] + (int32_t)graph->children[row];
}

/* Rows are in pre-order, so the children of each come in order, too. */
static int fill(struct table_columns *table, const struct graph *graph, struct error *err)
{
	_cleanup_(mem_freep) int32_t *at = mem_alloc_array(graph->count, sizeof(*at));
	uint32_t *children = (uint32_t *)table->bytes[CHILDREN];
	if (!at)
		return error_nomem(err);
	for (uint32_t row = 0; row < graph->count; row++) {
		fill_row(table, graph, row);
		at[row] = table->offsets[row];
		if (row)
			children[at[graph->rows[graph->tree->nodes[graph->nodes[row]].parent]]++] = row;
	}
	return 0;
}

static int report_arrow(struct parca *p, const struct graph *graph, struct error *err)
{
	_cleanup_(columns_release) struct table_columns table = {0};
	_cleanup_(buffer_release) struct buffer record = {.max = p->out->max};
	struct arrow_column out[COLUMNS];
	size_t mark;
	int r = columns_init(&table, graph, err);
	if (!r)
		r = fill(&table, graph, err);
	for (size_t i = 0; !r && i < COLUMNS; i++) {
		bool nullable = columns[i].kind == ARROW_DICTIONARY || i == ADDRESS;
		out[i] = (struct arrow_column){.name = columns[i].name,
					       .kind = columns[i].kind,
					       .values = table.bytes[i],
					       .present = nullable ? table.present[i] : NULL,
					       .texts = table.texts,
					       .text_count =
						       columns[i].kind == ARROW_DICTIONARY ? graph->tree->strings.count : 0,
					       .offsets = table.offsets};
	}
	if (!r)
		r = arrow_write_stream(out, COLUMNS, graph->count, &record, err);
	if (r < 0)
		return r;
	pb_begin(p->out, 11, &mark);
	pb_write_bytes(p->out, 1, record.data, record.len);
	pb_put_string(p->out, 2, graph->tree->unit);
	pb_put_varint(p->out, 3, (uint64_t)graph->height);
	pb_put_varint(p->out, 4, (uint64_t)graph->trimmed);
	return rpc_too_large(pb_end(p->out, mark), err);
}

/* ---- the rest ---- */

static int write_top_row(struct buffer *out, struct bytes name, struct bytes file, struct bytes binary, uint32_t line,
			 const int64_t values[3])
{
	size_t mark;
	pb_begin(out, 1, &mark);
	write_meta(out, name, file, binary, line);
	for (uint32_t i = 0; i < 3; i++)
		pb_put_varint(out, i + 2, (uint64_t)values[i]);
	return pb_end(out, mark);
}

static int write_top_rows(struct parca *p, const struct parca_request *in, const struct flame *flame, const struct diff *diff,
			  size_t *ret_count, struct error *err)
{
	_cleanup_(table_release) struct table table = {0};
	_cleanup_(diff_table_release) struct diff_table compared = {0};
	int r = diff ? diff_table_build(diff, !in->absolute, &compared, err) : table_build(flame, &table, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < table.count; i++) {
		const struct table_row *row = &table.rows[i];
		write_top_row(p->out, bytes_of_string(row->name), bytes_of_string(row->file), bytes_of_string(row->binary),
			      row->line, (int64_t[]){row->total, row->self, 0});
	}
	/* The change as render/diff.h counts it. */
	for (size_t i = 0; i < compared.count; i++) {
		const struct diff_row *row = &compared.rows[i];
		write_top_row(p->out, bytes_of_string(row->now.name), bytes_of_string(row->now.file),
			      bytes_of_string(row->now.binary), row->now.line,
			      (int64_t[]){row->now.total, row->now.self,
					  diff_table_change(&compared, row->base_total, row->now.total)});
	}
	*ret_count = table.count + compared.count;
	return rpc_too_large(buffer_status(p->out), err);
}

static int report_top(struct parca *p, const struct parca_request *in, const struct flame *flame, const struct diff *diff,
		      struct error *err)
{
	size_t mark, count = 0;
	pb_begin(p->out, 7, &mark);
	int r = write_top_rows(p, in, flame, diff, &count, err);
	if (r < 0)
		return r;
	pb_put_varint(p->out, 2, count);
	pb_put_varint(p->out, 3, count);
	pb_put_string(p->out, 4, diff ? diff->tree->unit : flame->unit);
	return rpc_too_large(pb_end(p->out, mark), err);
}

static int merge(struct parca *p, const struct parca_selection *selection, struct profile **ret, struct error *err)
{
	struct query *query = &p->call.query;
	query->selector = selection->query;
	query->from_ns = selection->from_ns;
	query->to_ns = selection->to_ns + 1;
	query_round_range(&query->from_ns, &query->to_ns);
	return query_merge(p->call.tenant->store, p->call.server->symbolizer, query, NULL, ret, &p->call.stats, err);
}

static int report_pprof(struct parca *p, const struct profile *profile, struct error *err)
{
	_cleanup_(buffer_release) struct buffer pprof = {.max = p->out->max};
	int r = pprof_encode(profile, &(struct format_options){.compress = true}, &pprof, err);
	if (r < 0)
		return r;
	pb_write_bytes(p->out, 6, pprof.data, pprof.len);
	return rpc_too_large(pb_put_varint(p->out, 9, (uint64_t)profile_total(profile, 0)), err);
}

static int report_graph(struct parca *p, const struct parca_request *in, const struct flame *tree, const struct diff *diff,
			struct error *err)
{
	_cleanup_(graph_release) struct graph graph = {.tree = tree, .base = diff ? diff->base : NULL, .scale = 1};
	if (diff && !in->absolute && diff->base_total)
		graph.scale = (double)tree->total / (double)diff->base_total;
	int r = graph_build(&graph, (double)in->threshold, err);
	if (r < 0)
		return r;
	return in->report == REPORT_FLAMEGRAPH_ARROW ? report_arrow(p, &graph, err) : report_flamegraph(p, &graph, err);
}

static int report_diff(struct parca *p, const struct parca_request *in, struct profile *profile, struct error *err)
{
	_cleanup_(profile_freep) struct profile *before = NULL;
	_cleanup_(flame_freep) struct flame *base = NULL;
	_cleanup_(flame_freep) struct flame *side = NULL;
	_cleanup_(diff_freep) struct diff *diff = NULL;
	int r = merge(p, &in->base, &before, err);
	if (!r)
		r = flame_build(before, 0, FLAME_UNNAMED_BY_ADDRESS, &base, err);
	if (!r)
		r = flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &side, err);
	if (!r)
		r = diff_build(base, side, &diff, err);
	if (!r && in->report != REPORT_TOP)
		r = diff_trim(diff, NODES_MAX, err);
	if (!r)
		r = in->report == REPORT_TOP ? report_top(p, in, NULL, diff, err) : report_graph(p, in, diff->tree, diff, err);
	return r < 0 ? r : rpc_too_large(pb_put_varint(p->out, 9, (uint64_t)diff->tree->total), err);
}

int parca_report(struct parca *p, const struct parca_request *in, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(flame_freep) struct flame *flame = NULL;
	bool known = in->report <= REPORT_TOP || in->report == REPORT_FLAMEGRAPH_ARROW;
	if (!known || (in->is_diff && in->report == REPORT_PPROF)) {
		p->call.unimplemented = true;
		return error_set(err, -EINVAL, "report type %llu is not supported%s", (unsigned long long)in->report,
				 known ? " for comparisons" : "");
	}
	int r = merge(p, &in->selection, &profile, err);
	if (r < 0)
		return r;
	if (in->is_diff)
		return report_diff(p, in, profile, err);
	if (in->report == REPORT_PPROF)
		return report_pprof(p, profile, err);
	bool top = in->report == REPORT_TOP;
	r = flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, top ? 0 : NODES_MAX, &flame, err);
	if (!r)
		r = top ? report_top(p, in, flame, NULL, err) : report_graph(p, in, flame, NULL, err);
	return r < 0 ? r : rpc_too_large(pb_put_varint(p->out, 9, (uint64_t)flame->total), err);
}
