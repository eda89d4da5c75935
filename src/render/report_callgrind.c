/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callgrind's format (https://valgrind.org/docs/manual/cl-format.html), for KCachegrind and its kind: cost lines of a function,
 * each followed by its calls. Names are compressed: "(1) name" the first time, "(1)" later; addresses are relative to those of
 * the line before where that is shorter.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "render/report_int.h"

struct callgrind {
	struct report *report;
	struct report_graph graph;
	struct map64 binaries, files, names;
	uint32_t *suffixes; /* by node: which of several functions of the same name and file, from 1; 0 = the only one */
	uint32_t *totals;   /* by node: of how many */
	uint32_t *edges;
};

static void callgrind_release(struct callgrind *c)
{
	report_graph_release(&c->graph);
	map64_release(&c->binaries);
	map64_release(&c->files);
	map64_release(&c->names);
	mem_free(c->suffixes);
	mem_free(c->totals);
	mem_free(c->edges);
}

/* Callgrind takes functions of one name and file for one; those that are not get numbers. */
static int number_functions(struct callgrind *c, struct error *err)
{
	const struct graph *graph = &c->graph.graph;
	_cleanup_(map64_release) struct map64 counts = {0}, places = {0};
	int r = 0;
	for (size_t i = 0; i < graph->order_count && r == 0; i++) {
		const struct graph_node *node = &graph->nodes[graph->order[i]];
		const struct graph_info *info = &c->graph.infos.items[node->info];
		uint64_t name = (uint64_t)info->name << 32 | info->file, place = hash64_mix(name) ^ node->function, at;
		if (!map64_get(&places, place, &at)) {
			r = map64_add(&counts, name, 1);
			if (r == 0 && map64_get(&counts, name, &at))
				r = map64_put(&places, place, at);
		}
	}
	for (size_t i = 0; i < graph->order_count && r == 0; i++) {
		uint32_t id = graph->order[i];
		const struct graph_info *info = &c->graph.infos.items[graph->nodes[id].info];
		uint64_t name = (uint64_t)info->name << 32 | info->file, at = 0, total = 0;
		map64_get(&places, hash64_mix(name) ^ graph->nodes[id].function, &at);
		map64_get(&counts, name, &total);
		c->suffixes[id] = total > 1 ? (uint32_t)at : 0;
		c->totals[id] = (uint32_t)total;
	}
	return r < 0 ? error_nomem(err) : 0;
}

/* Which number a name has, and whether it is new. Suffixed names are names of their own. */
static void put_name(struct callgrind *c, const char *key, struct map64 *known, uint32_t name, uint32_t suffix, uint32_t total)
{
	struct report *report = c->report;
	uint64_t number, id = (uint64_t)name << 32 | suffix;
	buffer_printf(report->out, "%s=", key);
	if (name == 0 && suffix == 0) {
		buffer_printf(report->out, "\n");
		return;
	}
	if (map64_get(known, id, &number)) {
		buffer_printf(report->out, "(%llu)\n", (unsigned long long)number);
		return;
	}
	number = known->count + 1;
	if (map64_put(known, id, number) < 0)
		buffer_fail(report->out, -ENOMEM);
	buffer_printf(report->out, "(%llu) ", (unsigned long long)number);
	text_append_harmless(report->out, intern_get(&c->graph.infos.strings, name));
	if (suffix)
		buffer_printf(report->out, " [%u/%u]", suffix, total);
	buffer_printf(report->out, "\n");
}

static void put_address(struct report *report, const struct graph_info *previous, uint64_t address)
{
	char absolute[32], relative[32];
	snprintf(absolute, sizeof(absolute), "0x%llx", (unsigned long long)address);
	if (previous && previous->address == address) {
		buffer_printf(report->out, "*");
		return;
	}
	snprintf(relative, sizeof(relative), "%+lld", previous ? (long long)(address - previous->address) : 0);
	buffer_printf(report->out, "%s", previous && strlen(relative) < strlen(absolute) ? relative : absolute);
}

static void put_calls(struct callgrind *c, const struct graph_node *node, const struct graph_info *previous)
{
	struct report *report = c->report;
	const struct graph *graph = &c->graph.graph;
	const char *unit;
	size_t count = graph_sort_edges(graph, graph->out + node->out_first, node->out_count, c->edges);
	for (size_t i = 0; i < count; i++) {
		const struct graph_edge *edge = &graph->edges[c->edges[i]];
		const struct graph_info *callee = &c->graph.infos.items[graph->nodes[edge->target].info];
		put_name(c, "cfl", &c->files, callee->file, 0, 0);
		put_name(c, "cfn", &c->names, callee->name, c->suffixes[edge->target], c->totals[edge->target]);
		buffer_printf(report->out, "calls=0 ");
		put_address(report, previous, callee->address);
		buffer_printf(report->out, " %lld\n* * %lld\n", (long long)callee->line,
			      (long long)units_whole(units_scale(edge->weight, report->sample_unit, report->unit, &unit)));
	}
}

int report_write_callgrind(struct report *report, struct error *err)
{
	_cleanup_(callgrind_release) struct callgrind c = {.report = report};
	const struct graph_info *previous = NULL;
	const char *unit;
	int r = report_graph_build(report, true, &c.graph, err);
	if (r < 0)
		return r;
	const struct graph *graph = &c.graph.graph;
	c.suffixes = mem_zalloc_array(graph->node_count + 1, sizeof(uint32_t));
	c.totals = mem_zalloc_array(graph->node_count + 1, sizeof(uint32_t));
	c.edges = mem_alloc_array(graph->edge_count + 1, sizeof(uint32_t));
	if (!c.suffixes || !c.totals || !c.edges)
		return error_nomem(err);
	r = number_functions(&c, err);
	if (r < 0)
		return r;
	buffer_printf(report->out, "positions: instr line\nevents: %s(%s)\n", report->type, report->unit);
	for (size_t i = 0; i < graph->order_count && buffer_status(report->out) == 0; i++) {
		const struct graph_node *node = &graph->nodes[graph->order[i]];
		const struct graph_info *info = &c.graph.infos.items[node->info];
		if (!previous || info->binary != previous->binary || info->file != previous->file ||
		    info->name != previous->name) {
			buffer_printf(report->out, "\n");
			put_name(&c, "ob", &c.binaries, info->binary, 0, 0);
			put_name(&c, "fl", &c.files, info->file, 0, 0);
			put_name(&c, "fn", &c.names, info->name, 0, 0);
		}
		put_address(report, previous, info->address);
		buffer_printf(
			report->out, " %lld %lld\n", (long long)info->line,
			(long long)units_whole(units_scale(graph_node_flat(node), report->sample_unit, report->unit, &unit)));
		put_calls(&c, node, previous);
		previous = info;
	}
	return 0;
}
