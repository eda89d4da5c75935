/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cutting a call graph down to what can be read, by the rules of google/pprof (internal/graph, internal/report), so that both
 * show the same nodes and edges:
 *
 *   1. Nodes whose cum is below a share of the total go. The graph is built anew from the samples without them, so that what
 *      they called is connected to their callers by residual edges.
 *   2. At most so many nodes stay: the first by flat or cum or, for pictures, by entropy (how much the calls into and out of a
 *      node spread: a node that only passes a call on says little). For pictures, up to four labels of a node count as nodes.
 *   3. Edges below a share of the total go; for pictures, residual edges too whose ends are connected some other way, lightest
 *      first, until one is heavier than an edge that is not residual.
 *
 * In a tree, a node that goes hands its callees to its caller.
 *
 * Finding another way is a walk over all that leads to the edge's target; with all nodes kept and many residual edges that
 * could take as long as one likes, so the steps are counted, and edges stay once they are used up.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "render/graph.h"
#include "render/units.h"

#define WAY_STEPS_MAX 200000000u

/* ---- sorting ---- */

struct node_order {
	const struct graph *graph;
	const int64_t *scores; /* by node; NULL = by flat */
	enum graph_order order;
};

/* Nodes that agree in everything that is shown: by what is not. */
static int compare_infos(const struct graph *graph, uint32_t left, uint32_t right)
{
	const struct graph_info *a = &graph->infos->items[graph->nodes[left].info],
				*b = &graph->infos->items[graph->nodes[right].info];
	return strcmp(graph_infos_string(graph->infos, a->name), graph_infos_string(graph->infos, b->name)) ?:
		ORDER(a->address, b->address) ?:
		strcmp(graph_infos_string(graph->infos, a->file), graph_infos_string(graph->infos, b->file)) ?:
		ORDER(a->start_line, b->start_line) ?: ORDER(a->line, b->line) ?:
		strcmp(graph_infos_string(graph->infos, a->binary), graph_infos_string(graph->infos, b->binary)) ?:
		ORDER(left, right);
}

static int compare_printable(const struct graph *graph, uint32_t left, uint32_t right)
{
	uint32_t a = graph->nodes[left].info, b = graph->nodes[right].info;
	return a == b ? 0 : strcmp(graph->infos->names[a], graph->infos->names[b]);
}

static int compare_by_value(const struct node_order *order, uint32_t left, uint32_t right)
{
	const struct graph *graph = order->graph;
	const struct graph_node *a = &graph->nodes[left], *b = &graph->nodes[right];
	const int64_t *scores = order->scores;
	return (scores ? units_compare(scores[left], scores[right]) : units_compare(a->flat, b->flat)) ?:
		compare_printable(graph, left, right) ?:
		(scores ? units_compare(a->flat, b->flat) : units_compare(a->cum, b->cum)) ?:
		compare_infos(graph, left, right);
}

static int compare_nodes(const void *left, const void *right, void *context)
{
	const struct node_order *order = context;
	const struct graph *graph = order->graph;
	uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
	const struct graph_info *a = &graph->infos->items[graph->nodes[l].info],
				*b = &graph->infos->items[graph->nodes[r].info];
	int d = 0;
	switch (order->order) {
	case GRAPH_BY_FLAT:
	case GRAPH_BY_CUM:
	case GRAPH_BY_ENTROPY: return compare_by_value(order, l, r);
	case GRAPH_BY_NAME:
		d = strcmp(graph_infos_string(graph->infos, a->name), graph_infos_string(graph->infos, b->name));
		break;
	case GRAPH_BY_FILE:
		d = strcmp(graph_infos_string(graph->infos, a->file), graph_infos_string(graph->infos, b->file))
			    ?: ORDER(a->start_line, b->start_line);
		break;
	case GRAPH_BY_ADDRESS: d = ORDER(a->address, b->address); break;
	}
	return d ?: compare_infos(graph, l, r);
}

static double edge_entropy(const struct graph *graph, const uint32_t *edges, size_t count, int64_t self)
{
	double score = 0, total = (double)self;
	for (size_t i = 0; i < count; i++)
		if (!graph->edges[edges[i]].removed && graph->edges[edges[i]].weight > 0)
			total += (double)graph->edges[edges[i]].weight;
	if (total == 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		double share = (double)units_magnitude(graph->edges[edges[i]].weight) / total;
		if (!graph->edges[edges[i]].removed && share > 0)
			score += -share * log2(share);
	}
	if (self > 0)
		score += -((double)self / total) * log2((double)self / total);
	return score;
}

static bool has_edges(const struct graph *graph, const uint32_t *edges, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!graph->edges[edges[i]].removed)
			return true;
	return false;
}

/* How much a node says: entry nodes and leaves are favoured, and those whose calls spread. */
static int64_t entropy_score(const struct graph *graph, const struct graph_node *node)
{
	const uint32_t *in = graph->in + node->in_first, *out = graph->out + node->out_first;
	double score = has_edges(graph, in, node->in_count) ? edge_entropy(graph, in, node->in_count, 0) : 1;
	score += has_edges(graph, out, node->out_count) ? edge_entropy(graph, out, node->out_count, node->flat) : 1;
	return sum_add(units_whole(score * (double)node->cum), node->flat);
}

int graph_sort(const struct graph *graph, uint32_t *nodes, size_t count, enum graph_order order, struct error *err)
{
	_cleanup_(mem_freep) int64_t *scores = NULL;
	struct node_order context = {.graph = graph, .order = order};
	for (size_t i = 0; i < count; i++)
		if (!graph_printable_name(graph->infos, graph->nodes[nodes[i]].info))
			return error_nomem(err);
	if (order == GRAPH_BY_CUM || order == GRAPH_BY_ENTROPY) {
		scores = mem_zalloc_array(graph->node_count + 1, sizeof(*scores));
		if (!scores)
			return error_nomem(err);
		for (size_t i = 0; i < count; i++) {
			const struct graph_node *node = &graph->nodes[nodes[i]];
			scores[nodes[i]] = order == GRAPH_BY_CUM ? node->cum : entropy_score(graph, node);
		}
		context.scores = scores;
	}
	sort_array_by(nodes, count, compare_nodes, &context);
	return 0;
}

static const char *name_or_empty(const struct graph *graph, uint32_t node)
{
	const char *name = graph_printable_name(graph->infos, graph->nodes[node].info);
	return name ? name : "";
}

static int compare_edges(const void *left, const void *right, void *context)
{
	const struct graph *graph = context;
	const struct graph_edge *a = &graph->edges[*(const uint32_t *)left], *b = &graph->edges[*(const uint32_t *)right];
	return units_compare(a->weight, b->weight) ?:
		strcmp(name_or_empty(graph, a->source), name_or_empty(graph, b->source)) ?:
		strcmp(name_or_empty(graph, a->target), name_or_empty(graph, b->target)) ?:
		compare_infos(graph, a->source, b->source) ?: compare_infos(graph, a->target, b->target);
}

size_t graph_sort_edges(const struct graph *graph, const uint32_t *edges, size_t count, uint32_t *ret)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (!graph->edges[edges[i]].removed)
			ret[kept++] = edges[i];
	sort_array_by(ret, kept, compare_edges, graph);
	return kept;
}

struct tag_order {
	const struct graph *graph;
	bool flat;
};

static const char *tag_name(const struct graph *graph, const struct graph_tag *tag)
{
	return intern_string(&graph->strings, tag->is_number ? tag->text : tag->labels);
}

static int compare_tags(const void *left, const void *right, void *context)
{
	const struct tag_order *order = context;
	const struct graph_tag *a = &order->graph->tags[*(const uint32_t *)left],
			       *b = &order->graph->tags[*(const uint32_t *)right];
	return (order->flat ? 0 : units_compare(a->cum, b->cum)) ?: units_compare(a->flat, b->flat) ?:
		strcmp(tag_name(order->graph, a), tag_name(order->graph, b));
}

void graph_sort_tags(const struct graph *graph, uint32_t *tags, size_t count, bool flat)
{
	struct tag_order order = {graph, flat};
	sort_array_by(tags, count, compare_tags, &order);
}

/* ---- cutting ---- */

static void trim_tags(struct graph *graph, int64_t least)
{
	for (size_t i = 0; i < graph->tag_count; i++) {
		struct graph_tag *tag = &graph->tags[i];
		if (graph->nodes[tag->node].listed)
			tag->removed |= units_magnitude(tag->flat) < least && units_magnitude(tag->cum) < least;
	}
}

static size_t trim_edges(struct graph *graph, int64_t least)
{
	size_t dropped = 0;
	for (size_t i = 0; i < graph->edge_count; i++) {
		struct graph_edge *edge = &graph->edges[i];
		if (edge->removed || !graph->nodes[edge->target].listed || units_magnitude(edge->weight) >= least)
			continue;
		edge->removed = true;
		dropped++;
	}
	return dropped;
}

/* A tree without the nodes that are not kept: callees go to the nearest caller that is. */
static void trim_tree(struct graph *graph, const bool *kept)
{
	/* Callers come before callees, in nodes and therefore in edges: each was made when its caller was there. */
	size_t count = 0;
	for (size_t i = 0; i < graph->node_count; i++) {
		struct graph_node *node = &graph->nodes[i];
		struct graph_edge *edge = node->in_count ? &graph->edges[graph->in[node->in_first]] : NULL;
		if (!edge || edge->removed)
			continue;
		const struct graph_node *caller = &graph->nodes[edge->source];
		if (kept[edge->source] || !caller->listed)
			continue;
		const struct graph_edge *above = caller->in_count ? &graph->edges[graph->in[caller->in_first]] : NULL;
		if (!above || above->removed) {
			edge->removed = true;
			continue;
		}
		/* The caller's own edge was moved already, so its source is kept. */
		edge->source = above->source;
		edge->residual = true;
		edge->is_inline = edge->is_inline && above->is_inline;
	}
	for (size_t i = 0; i < graph->order_count; i++) {
		uint32_t id = graph->order[i];
		graph->nodes[id].listed = kept[id];
		if (kept[id])
			graph->order[count++] = id;
	}
	graph->order_count = count;
	for (size_t i = 0; i < graph->edge_count; i++)
		graph->edges[i].removed |= !graph->nodes[graph->edges[i].target].listed;
}

struct way {
	uint32_t *seen; /* by node: the number of the search */
	uint32_t *queue;
	uint32_t number;
	uint64_t steps;
};

/* Whether the edge's source is a caller of its target without this edge, directly or not. */
static bool find_other_way(const struct graph *graph, uint32_t edge, struct way *way)
{
	uint32_t source = graph->edges[edge].source, target = graph->edges[edge].target;
	size_t first = 0, end = 0;
	way->number++;
	way->seen[target] = way->number;
	way->queue[end++] = target;
	while (first < end) {
		const struct graph_node *node = &graph->nodes[way->queue[first++]];
		for (uint32_t i = 0; i < node->in_count; i++) {
			uint32_t id = graph->in[node->in_first + i], caller = graph->edges[id].source;
			if (++way->steps > WAY_STEPS_MAX)
				return false;
			if (id == edge || graph->edges[id].removed || way->seen[caller] == way->number)
				continue;
			if (caller == source)
				return true;
			way->seen[caller] = way->number;
			way->queue[end++] = caller;
		}
	}
	return false;
}

static int remove_redundant_edges(struct graph *graph, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *seen = mem_zalloc_array(graph->node_count + 1, sizeof(uint32_t));
	_cleanup_(mem_freep) uint32_t *queue = mem_alloc_array(graph->node_count + 1, sizeof(uint32_t));
	_cleanup_(mem_freep) uint32_t *edges = mem_alloc_array(graph->edge_count + 1, sizeof(uint32_t));
	if (!seen || !queue || !edges)
		return error_nomem(err);
	struct way way = {.seen = seen, .queue = queue};
	for (size_t i = graph->order_count; i-- > 0;) {
		const struct graph_node *node = &graph->nodes[graph->order[i]];
		size_t count = graph_sort_edges(graph, graph->in + node->in_first, node->in_count, edges);
		for (size_t k = count; k-- > 0 && graph->edges[edges[k]].residual;)
			if (find_other_way(graph, edges[k], &way))
				graph->edges[edges[k]].removed = true;
	}
	return 0;
}

/* How many of the first nodes there is room for. */
static size_t count_selected(const struct graph *graph, const struct graph_trim_options *trim)
{
	size_t max = trim->nodes_max, shown = 0;
	for (size_t i = 0; i < graph->order_count && trim->visual; i++) {
		size_t tags = 0;
		for (uint32_t t = graph->nodes[graph->order[i]].tag_first; t != GRAPH_NONE; t = graph->tags[t].next)
			tags += !graph->tags[t].removed && graph->tags[t].flat != 0;
		shown += (tags < GRAPH_TAGS_SHOWN ? tags : GRAPH_TAGS_SHOWN) + 1;
		if (shown >= max) {
			max = i + 1;
			break;
		}
	}
	return max < graph->order_count ? max : graph->order_count;
}

struct cut {
	struct graph *graph;
	const struct profile *profile;
	struct graph_infos *infos;
	struct graph_options options;
	bool **kept; /* by node of a tree, by info of a graph */
};

/* The graph with the first `count` of its nodes (by `least` cum where that is not 0) only; *ret_dropped of them went. */
static int keep_nodes(struct cut *cut, size_t first, int64_t least, size_t *ret_dropped, struct error *err)
{
	struct graph *graph = cut->graph;
	size_t kept = 0;
	mem_free(*cut->kept);
	*cut->kept = mem_zalloc_array((cut->options.tree ? graph->node_count : cut->infos->count) + 1, sizeof(bool));
	if (!*cut->kept)
		return error_nomem(err);
	for (size_t i = 0; i < graph->order_count; i++) {
		const struct graph_node *node = &graph->nodes[graph->order[i]];
		if (i >= first || units_magnitude(node->cum) < least)
			continue;
		(*cut->kept)[cut->options.tree ? graph->order[i] : node->info] = true;
		kept++;
	}
	*ret_dropped = graph->order_count - kept;
	if (*ret_dropped == 0)
		return 0;
	if (cut->options.tree) {
		trim_tree(graph, *cut->kept);
		return graph_make_lists(graph, err);
	}
	cut->options.kept = *cut->kept;
	graph_release(graph);
	return graph_build(graph, cut->profile, cut->infos, &cut->options, err);
}

int graph_build_trimmed(struct graph *ret, const struct profile *profile, struct graph_infos *infos,
			const struct graph_options *options, const struct graph_trim_options *trim,
			struct graph_trim_result *result, struct error *err)
{
	_cleanup_(mem_freep) bool *kept = NULL;
	struct cut cut = {.graph = ret, .profile = profile, .infos = infos, .options = *options, .kept = &kept};
	enum graph_order order = trim->visual ? GRAPH_BY_ENTROPY : trim->by_cum ? GRAPH_BY_CUM : GRAPH_BY_FLAT;
	int64_t total = 0;
	size_t dropped = 0;
	*result = (struct graph_trim_result){0};
	int r = graph_build(ret, profile, infos, options, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ret->order_count; i++)
		sum_to(&total, ret->nodes[ret->order[i]].flat);
	int64_t node_least = units_magnitude(units_whole((double)total * trim->node_fraction));
	int64_t edge_least = units_magnitude(units_whole((double)total * trim->edge_fraction));
	if (node_least > 0)
		r = keep_nodes(&cut, SIZE_MAX, node_least, &result->dropped_nodes, err);
	result->original_count = ret->order_count;
	if (r == 0)
		r = graph_sort(ret, ret->order, ret->order_count, order, err);
	if (r == 0 && trim->nodes_max > 0) {
		trim_tags(ret, node_least);
		trim_edges(ret, edge_least);
		r = keep_nodes(&cut, count_selected(ret, trim), 0, &dropped, err);
		if (r == 0 && dropped)
			r = graph_sort(ret, ret->order, ret->order_count, order, err);
	}
	if (r < 0)
		return r;
	trim_tags(ret, node_least);
	result->dropped_edges = trim_edges(ret, edge_least);
	return trim->visual ? remove_redundant_edges(ret, err) : 0;
}
