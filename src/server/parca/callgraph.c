/* SPDX-License-Identifier: Apache-2.0 */
/*
 * REPORT_TYPE_CALLGRAPH (pkg/query/callgraph.go):
 *
 *   Callgraph { 1 nodes*  2 edges*  3 cumulative }
 *   CallgraphNode { 1 id  2 meta { 1 location  2 mapping  3 function  4 line }  3 cumulative  4 flat }
 *   CallgraphEdge { 1 id  2 source  3 target  4 cumulative  5 is_collapsed }
 *
 * Nodes with less than half a percent of the total, and with callers and callees, of which there is but one caller, are left
 * out; each of their calls becomes one from the nearest caller that is kept, marked as collapsed, with the sum of the calls
 * that lead there.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "codec/protobuf.h"
#include "render/units.h"
#include "server/parca/functions.h"
#include "server/parca/report.h"

#define CUT_OFF 0.005
#define ID_SIZE 24

/* To a function that is left out: from the nearest caller that is kept, with the sum of the calls on the way. */
struct way {
	uint32_t from; /* NO_WAY, or not known yet */
	int64_t total;
};
#define WAY_UNKNOWN UINT32_MAX
#define NO_WAY	    (UINT32_MAX - 1)

struct callgraph {
	const struct parca_functions *functions;
	uint32_t *callers, *callees; /* by function: how many */
	uint32_t *call_to;	     /* by function: one of the calls to it */
	bool *removed;
	struct way *ways; /* by function */
	size_t edges;
};

static void callgraph_release(struct callgraph *graph)
{
	mem_free(graph->callers);
	mem_free(graph->callees);
	mem_free(graph->call_to);
	mem_free(graph->removed);
	mem_free(graph->ways);
}

static int choose_nodes(struct callgraph *graph, struct error *err)
{
	const struct parca_functions *functions = graph->functions;
	double least = (double)functions->total * CUT_OFF;
	graph->callers = mem_zalloc_array(functions->count + 1, sizeof(*graph->callers));
	graph->callees = mem_zalloc_array(functions->count + 1, sizeof(*graph->callees));
	graph->call_to = mem_zalloc_array(functions->count + 1, sizeof(*graph->call_to));
	graph->removed = mem_zalloc_array(functions->count + 1, sizeof(*graph->removed));
	if (!graph->callers || !graph->callees || !graph->call_to || !graph->removed)
		return error_nomem(err);
	for (size_t i = 0; i < functions->call_count; i++) {
		graph->callers[functions->calls[i].callee]++;
		graph->callees[functions->calls[i].caller]++;
		graph->call_to[functions->calls[i].callee] = (uint32_t)i;
	}
	for (size_t i = 0; i < functions->count; i++)
		graph->removed[i] = (double)functions->items[i].total < least && graph->callers[i] == 1 &&
				    graph->callees[i] > 0 && functions->calls[graph->call_to[i]].caller != i;
	return 0;
}

static void write_location(struct buffer *out, const struct profile *profile, uint32_t location)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	pb_put_varint(out, 2, profile_location_file_offset(profile, location));
	pb_put_varint(out, 5, profile->locations[location].folded);
	pb_end(out, mark);
}

int parca_write_meta(struct buffer *out, uint32_t field, const struct profile *profile, const struct parca_function *function)
{
	const struct profile_mapping *mapping = &profile->mappings[profile->locations[function->location].mapping];
	size_t mark, part;
	pb_begin(out, field, &mark);
	write_location(out, profile, function->location);
	if (mapping->file_name || mapping->build_id) {
		pb_begin(out, 2, &part);
		pb_put_text(out, 5, profile_string_bytes(profile, mapping->file_name));
		pb_put_text(out, 6, profile_string_bytes(profile, mapping->build_id));
		pb_end(out, part);
	}
	if (function->line == PARCA_NO_LINE)
		return pb_end(out, mark);
	const struct profile_line *line = &profile->lines[function->line];
	const struct profile_function *entry = &profile->functions[line->function];
	pb_begin(out, 3, &part);
	pb_put_varint(out, 2, (uint64_t)entry->start_line);
	pb_put_text(out, 3, profile_string_bytes(profile, parca_line_name(profile, function->line)));
	pb_put_text(out, 4, profile_string_bytes(profile, entry->system_name));
	pb_put_text(out, 5, profile_string_bytes(profile, entry->file_name));
	pb_end(out, part);
	pb_begin(out, 4, &part);
	pb_put_varint(out, 2, (uint64_t)line->line);
	pb_end(out, part);
	return pb_end(out, mark);
}

DEFINE_ORDER_OF_PLACES(compare_nodes, struct parca_function, ORDER(b->total, a->total) ?: (a > b) - (a < b));

static int write_nodes(const struct callgraph *graph, struct buffer *out, struct error *err)
{
	const struct parca_functions *functions = graph->functions;
	_cleanup_(mem_freep) uint32_t *order = mem_alloc_array(functions->count + 1, sizeof(*order));
	char id[ID_SIZE];
	size_t mark;
	if (!order)
		return error_nomem(err);
	for (uint32_t i = 0; i < functions->count; i++)
		order[i] = i;
	sort_array_by(order, functions->count, compare_nodes, functions->items);
	for (size_t i = 0; i < functions->count; i++) {
		const struct parca_function *function = &functions->items[order[i]];
		if (graph->removed[order[i]])
			continue;
		snprintf(id, sizeof(id), "n%u", order[i]);
		pb_begin(out, 1, &mark);
		pb_put_string(out, 1, id);
		parca_write_meta(out, 2, functions->profile, function);
		pb_put_varint(out, 3, (uint64_t)function->total);
		pb_put_varint(out, 4, (uint64_t)function->flat);
		pb_end(out, mark);
	}
	return 0;
}

static void write_edge(struct callgraph *graph, struct buffer *out, const struct parca_call *call, bool collapsed)
{
	char texts[3][ID_SIZE];
	size_t mark;
	snprintf(texts[0], ID_SIZE, "e%zu", graph->edges++);
	snprintf(texts[1], ID_SIZE, "n%u", call->caller);
	snprintf(texts[2], ID_SIZE, "n%u", call->callee);
	pb_begin(out, 2, &mark);
	for (uint32_t i = 0; i < 3; i++)
		pb_put_string(out, i + 1, texts[i]);
	pb_put_varint(out, 4, (uint64_t)call->total);
	pb_put_varint(out, 5, collapsed);
	pb_end(out, mark);
}

/* Each function is walked over once: chains of them are long, and many calls may begin at their ends. Functions that call each
 * other in a ring, one of which stacks begin with, have no caller that is kept. */
static int find_ways(struct callgraph *graph, struct error *err)
{
	const struct parca_functions *functions = graph->functions;
	_cleanup_(mem_freep) uint32_t *path = mem_alloc_array(functions->count + 1, sizeof(*path));
	graph->ways = mem_alloc_array(functions->count + 1, sizeof(*graph->ways));
	if (!path || !graph->ways)
		return error_nomem(err);
	for (size_t i = 0; i < functions->count; i++)
		graph->ways[i] = (struct way){.from = WAY_UNKNOWN};
	for (uint32_t i = 0; i < functions->count; i++) {
		uint32_t at = i;
		size_t count = 0;
		for (; graph->removed[at] && graph->ways[at].from == WAY_UNKNOWN;
		     at = functions->calls[graph->call_to[at]].caller) {
			graph->ways[at].from = NO_WAY; /* so it is if this leads here again */
			path[count++] = at;
		}
		struct way way = graph->removed[at] ? graph->ways[at] : (struct way){.from = at};
		while (count-- > 0) {
			const struct parca_call *call = &functions->calls[graph->call_to[path[count]]];
			sum_to(&way.total, call->total);
			graph->ways[path[count]] = way;
		}
	}
	return 0;
}

static void write_collapsed(struct callgraph *graph, struct buffer *out, const struct parca_call *call)
{
	const struct way *way = &graph->ways[call->caller];
	if (way->from == NO_WAY)
		return;
	struct parca_call whole = {.caller = way->from, .callee = call->callee, .total = way->total};
	write_edge(graph, out, &whole, true);
}

int parca_callgraph_write(const struct parca_view *view, struct buffer *out, struct error *err)
{
	_cleanup_(parca_functions_release) struct parca_functions functions = {0};
	_cleanup_(callgraph_release) struct callgraph graph = {.functions = &functions};
	int r = parca_functions_build(view->profile, true, view->cancel, &functions, err);
	if (!r)
		r = choose_nodes(&graph, err);
	if (!r)
		r = find_ways(&graph, err);
	if (!r)
		r = write_nodes(&graph, out, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < functions.call_count; i++) {
		const struct parca_call *call = &functions.calls[i];
		if (!graph.removed[call->caller] && !graph.removed[call->callee])
			write_edge(&graph, out, call, false);
		else if (!graph.removed[call->callee])
			write_collapsed(&graph, out, call);
	}
	return rpc_too_large(pb_put_varint(out, 3, (uint64_t)functions.total), err);
}
