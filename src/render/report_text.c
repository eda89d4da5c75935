/* SPDX-License-Identifier: Apache-2.0 */
/* The reports by function (top, tree, peek) and by stack (traces). */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/report_int.h"

static const char *inline_mark(const struct graph *graph, const struct graph_node *node)
{
	bool is_inline = false, is_call = false;
	for (uint32_t i = 0; i < node->in_count; i++) {
		const struct graph_edge *edge = &graph->edges[graph->in[node->in_first + i]];
		is_inline |= !edge->removed && edge->is_inline;
		is_call |= !edge->removed && !edge->is_inline;
	}
	return !is_inline ? "" : is_call ? " (partial-inline)" : " (inline)";
}

int report_write_top(struct report *report, struct error *err)
{
	_cleanup_(report_graph_release) struct report_graph graph = {0};
	int64_t sum = 0;
	int r = report_graph_build(report, true, &graph, err);
	if (r < 0)
		return r;
	report_put_graph_labels(report, &graph);
	buffer_printf(report->out, "%10s %5s%% %5s%% %10s %5s%%\n", "flat", "flat", "sum", "cum", "cum");
	for (size_t i = 0; i < graph.graph.order_count; i++) {
		uint32_t id = graph.graph.order[i];
		const struct graph_node *node = &graph.graph.nodes[id];
		char flat[UNITS_TEXT_MAX], cum[UNITS_TEXT_MAX], shares[3][UNITS_TEXT_MAX];
		sum_to(&sum, graph_node_flat(node));
		buffer_printf(report->out, "%10s %s %s %10s %s  %s%s\n",
			      report_format_value(report, graph_node_flat(node), flat),
			      units_format_percent(graph_node_flat(node), report->total, shares[0]),
			      units_format_percent(sum, report->total, shares[1]),
			      report_format_value(report, graph_node_cum(node), cum),
			      units_format_percent(graph_node_cum(node), report->total, shares[2]),
			      report_node_name(&graph, id), inline_mark(&graph.graph, node));
	}
	return 0;
}

/* ---- tree, peek ---- */

#define SEPARATOR "----------------------------------------------------------+-------------\n"

static void put_edges(struct report *report, struct report_graph *graph, const uint32_t *edges, size_t count, int64_t cum,
		      bool callers)
{
	for (size_t i = 0; i < count; i++) {
		const struct graph_edge *edge = &graph->graph.edges[edges[i]];
		char weight[UNITS_TEXT_MAX], share[UNITS_TEXT_MAX];
		buffer_printf(report->out, "%50s %s |   %s%s\n", report_format_value(report, edge->weight, weight),
			      units_format_percent(edge->weight, cum, share),
			      report_node_name(graph, callers ? edge->source : edge->target),
			      edge->is_inline ? " (inline)" : "");
	}
}

static void put_tree_node(struct report *report, struct report_graph *graph, uint32_t id, uint32_t *edges, int64_t *sum)
{
	const struct graph_node *node = &graph->graph.nodes[id];
	int64_t flat = graph_node_flat(node), cum = graph_node_cum(node);
	char texts[2][UNITS_TEXT_MAX], shares[3][UNITS_TEXT_MAX];
	buffer_printf(report->out, SEPARATOR);
	size_t count = graph_sort_edges(&graph->graph, graph->graph.in + node->in_first, node->in_count, edges);
	put_edges(report, graph, edges, count, cum, true);
	sum_to(sum, flat);
	buffer_printf(report->out, "%10s %s %s %10s %s                | %s\n", report_format_value(report, flat, texts[0]),
		      units_format_percent(flat, report->total, shares[0]),
		      units_format_percent(*sum, report->total, shares[1]), report_format_value(report, cum, texts[1]),
		      units_format_percent(cum, report->total, shares[2]), report_node_name(graph, id));
	count = graph_sort_edges(&graph->graph, graph->graph.out + node->out_first, node->out_count, edges);
	put_edges(report, graph, edges, count, cum, false);
}

int report_write_tree(struct report *report, struct error *err)
{
	_cleanup_(report_graph_release) struct report_graph graph = {0};
	const struct profile_matcher *symbol = report->options.symbol;
	int64_t sum = 0;
	size_t matched = 0;
	int r = report_graph_build(report, true, &graph, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) uint32_t *edges = mem_alloc_array(graph.graph.edge_count + 1, sizeof(*edges));
	if (!edges)
		return error_nomem(err);
	report_put_graph_labels(report, &graph);
	buffer_printf(report->out,
		      SEPARATOR "      flat  flat%%   sum%%        cum   cum%%   calls calls%% + context \t \t \n");
	for (size_t i = 0; i < graph.graph.order_count; i++) {
		uint32_t id = graph.graph.order[i];
		if (symbol && !symbol->finds(symbol->context, bytes_of_string(report_node_name(&graph, id))))
			continue;
		matched++;
		put_tree_node(report, &graph, id, edges, &sum);
	}
	if (graph.graph.order_count > 0)
		buffer_printf(report->out, SEPARATOR);
	if (symbol && matched == 0)
		return error_set(err, -EINVAL, "no function matches \"%.200s\"", report->options.symbol_text);
	return 0;
}

/* ---- traces ---- */

#define TRACE_SEPARATOR "-----------+-------------------------------------------------------\n"

/* The labels of one kind, one line a key, sorted. The labels of a set are sorted by key already, but not by the line, which
 * begins with blanks. */
static int put_labels(struct report *report, const struct profile_label_set *set, bool numbers, struct error *err)
{
	const struct profile *profile = report->profile;
	_cleanup_(mem_freep) char **lines = mem_zalloc_array(set->count + 1, sizeof(*lines));
	_cleanup_(buffer_release) struct buffer line = {.max = MIB};
	size_t count = 0;
	int r = 0;
	if (!lines)
		return error_nomem(err);
	for (uint32_t i = set->first, end = i + set->count; i < end && r == 0;) {
		uint32_t key = profile->labels[i].key, values = 0;
		buffer_clear(&line);
		r = buffer_printf(&line, "%10s:  ", profile_string(profile, key));
		for (; i < end && profile->labels[i].key == key && r == 0; i++) {
			const struct profile_label *label = &profile->labels[i];
			bool is_number = report_is_number(label);
			char text[UNITS_TEXT_MAX];
			if (is_number != numbers || !(is_number || label->value))
				continue;
			r = buffer_printf(&line, "%s%s", values++ ? " " : "",
					  is_number ? units_format(label->number, report_label_unit(report, key), "auto", text)
						    : profile_string(profile, label->value));
		}
		if (values == 0)
			continue;
		const char *text = r == 0 ? buffer_string(&line) : NULL;
		lines[count] = text ? mem_strdup(text) : NULL;
		r = lines[count] ? r : -ENOMEM;
		count += r == 0;
	}
	sort_array(lines, count, text_compare);
	for (size_t i = 0; i < count; i++) {
		text_append_harmless(report->out, bytes_of_string(lines[i]));
		buffer_printf(report->out, "\n");
		mem_free(lines[i]);
	}
	return r < 0 ? error_set(err, r, "cannot write labels") : 0;
}

static int put_trace(struct report *report, struct graph_infos *infos, size_t sample, uint32_t *path, struct error *err)
{
	const struct profile *profile = report->profile;
	const struct profile_sample *entry = &profile->samples[sample];
	size_t depth = profile_stack_locations(profile, entry->stack, path, SIZE_MAX), frames = 0;
	const struct profile_label_set *set = &profile->label_sets[entry->labels];
	char value[UNITS_TEXT_MAX];
	if (depth == 0)
		return 0;
	buffer_printf(report->out, TRACE_SEPARATOR);
	int r = put_labels(report, set, false, err);
	if (r == 0)
		r = put_labels(report, set, true, err);
	report_format_value(report, units_mean(report_sample_value(report, sample), report_sample_divisor(report, sample)),
			    value);
	for (size_t i = 0; i < depth && r == 0; i++) {
		uint32_t first = infos->first[path[i]], end = infos->first[path[i] + 1];
		for (uint32_t k = first; k < end; k++) {
			const char *name = graph_printable_name(infos, infos->nodes[k]);
			if (!name)
				return error_nomem(err);
			buffer_printf(report->out, "%10s   %s%s\n", frames++ == 0 ? value : "", name,
				      k + 1 != end ? " (inline)" : "");
		}
	}
	return r;
}

int report_write_traces(struct report *report, struct error *err)
{
	const struct profile *profile = report->profile;
	_cleanup_(graph_infos_release) struct graph_infos infos = {0};
	struct graph_detail detail = report->options.detail;
	size_t deepest = 0;
	detail.trim_path = detail.source_path = NULL;
	for (size_t i = 0; i < profile->sample_count; i++) {
		size_t depth = profile_stack_depth(profile, profile->samples[i].stack);
		deepest = depth > deepest ? depth : deepest;
	}
	_cleanup_(mem_freep) uint32_t *path = mem_alloc_array(deepest + 1, sizeof(*path));
	int r = graph_infos_build(&infos, profile, &detail, err);
	if (r == 0 && !path)
		r = error_nomem(err);
	if (r < 0)
		return r;
	report_put_profile_labels(report);
	for (size_t i = 0; i < profile->sample_count && r == 0 && buffer_status(report->out) == 0; i++)
		r = put_trace(report, &infos, i, path, err);
	buffer_printf(report->out, TRACE_SEPARATOR);
	return r;
}
