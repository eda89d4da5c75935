/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call graph as a picture, in Graphviz's dot language (https://graphviz.org/doc/info/lang.html): a box a function, its font
 * as large as its flat value, its colour as its cum; an arrow a call, as thick as its weight, dotted where functions between
 * were left out. Labels hang on the boxes as boxes of their own, four at most; numbers are put together into four ranges.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/report_int.h"

struct dot {
	struct report *report;
	struct report_graph graph;
	uint32_t *numbers;  /* by node: where it stands, from 1; 0 = not shown */
	bool *has_tags;	    /* by node */
	struct buffer text; /* scratch */
};

static void dot_release(struct dot *dot)
{
	report_graph_release(&dot->graph);
	mem_free(dot->numbers);
	mem_free(dot->has_tags);
	buffer_release(&dot->text);
}

/* In quotes: of a text that is harmless already. */
static void put_escaped(struct report *report, const char *text)
{
	for (size_t len; *text; text += len) {
		len = strcspn(text, "\\\"\n");
		buffer_printf(report->out, "%.*s", (int)len, text);
		if (!text[len])
			break;
		buffer_printf(report->out, "%s", text[len] == '\n' ? "\\l" : text[len] == '"' ? "\\\"" : "\\\\");
		len++;
	}
}

static void put_escaped_harmless(struct report *report, struct bytes text)
{
	_cleanup_(buffer_release) struct buffer safe = {.max = GIB};
	if (text_append_harmless(&safe, text) < 0 || !buffer_string(&safe))
		buffer_fail(report->out, -ENOMEM);
	else
		put_escaped(report, buffer_string(&safe));
}

/* Lines of labels, with dot's line break between them. */
static void put_tag_name(struct report *report, const char *text)
{
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		put_escaped_harmless(report, (struct bytes){(const uint8_t *)text, len});
		buffer_printf(report->out, "%s", text[len] ? "\\n" : "");
	}
}

/* ---- legend ---- */

struct legend {
	struct report *report;
	size_t count;
	struct buffer lines;
};

static int legend_line(void *context, const char *text)
{
	struct legend *legend = context;
	struct report *report = legend->report;
	if (legend->count++ == 0) {
		buffer_printf(report->out, "subgraph cluster_L { \"");
		put_escaped(report, text);
		buffer_printf(report->out, "\" [shape=box fontsize=16 label=\"");
	} else {
		buffer_printf(report->out, "\\l");
	}
	put_escaped(report, text);
	return buffer_status(report->out);
}

static void put_head(struct dot *dot)
{
	struct report *report = dot->report;
	struct legend legend = {.report = report};
	buffer_printf(report->out, "digraph \"");
	put_escaped_harmless(report, bytes_of_string(report->title[0] ? report->title : "unnamed"));
	buffer_printf(report->out, "\" {\nnode [style=filled fillcolor=\"#f8f8f8\"]\n");
	int r = report_graph_labels(report, &dot->graph, true, legend_line, &legend);
	buffer_fail(report->out, r);
	buffer_printf(report->out, "\\l\\lSee https://git.io/JfYMW for how to read the graph\\l\"");
	if (report->title[0]) {
		buffer_printf(report->out, " tooltip=\"");
		put_escaped_harmless(report, bytes_of_string(report->title));
		buffer_printf(report->out, "\"");
	}
	buffer_printf(report->out, "] }\n");
}

/* ---- nodes ---- */

/* Grey for 0, red for 1, green for -1, as google/pprof colours them. */
static void colour(double score, bool background, char out[static 8])
{
	double saturation = background ? 0.1 : 1.0, value = background ? 0.93 : 0.7, red, green;
	score = fmax(-1.0, fmin(1.0, score));
	if (fabs(score) < 0.2)
		saturation *= fabs(score) / 0.2;
	score = copysign(pow(fabs(score), 1.0 - 0.7), score);
	if (score < 0) {
		green = value;
		red = value * (1 + saturation * score);
	} else {
		red = value;
		green = value * (1 - saturation * score);
	}
	unsigned parts[] = {(unsigned)(red * 255), (unsigned)(green * 255), (unsigned)(value * (1 - saturation) * 255)};
	snprintf(out, 8, "#%02x%02x%02x", parts[0] & 255, parts[1] & 255, parts[2] & 255);
}

static double share_of_total(const struct report *report, int64_t value)
{
	return report->total ? (double)value / (double)units_magnitude(report->total) : 0;
}

/* A function's name for its box: short, and broken into lines at dots and colons. */
static void put_box_name(struct dot *dot, const char *name)
{
	struct report *report = dot->report;
	buffer_clear(&dot->text);
	_cleanup_(buffer_release) struct buffer safe = {.max = GIB};
	if (graph_append_short_name(&dot->text, bytes_of_string(name)) < 0 ||
	    text_append_harmless(&safe, buffer_bytes(&dot->text)) < 0 || !buffer_string(&safe)) {
		buffer_fail(report->out, -ENOMEM);
		return;
	}
	for (const char *at = buffer_string(&safe); *at; at++) {
		if (strncmp(at, "[...]", 5) == 0) {
			buffer_printf(report->out, "[…]");
			at += 4;
		} else if (strncmp(at, "::", 2) == 0 || *at == '.') {
			buffer_printf(report->out, "\\n");
			at += *at == ':';
		} else if (*at == '"' || *at == '\\') {
			buffer_printf(report->out, "\\%c", *at);
		} else {
			buffer_printf(report->out, "%c", *at);
		}
	}
}

/* The parts of graph_printable_name(), one a line. */
static void put_box_lines(struct dot *dot, uint32_t node)
{
	struct report *report = dot->report;
	struct graph_info info = dot->graph.infos.items[dot->graph.graph.nodes[node].info];
	if (info.address)
		buffer_printf(report->out, "%016llx\\n", (unsigned long long)info.address);
	if (info.name) {
		put_box_name(dot, graph_infos_string(&dot->graph.infos, info.name));
		buffer_printf(report->out, "\\n");
	}
	bool has_file = info.line || info.file;
	if (!has_file && info.name)
		return;
	const char *path = graph_infos_string(&dot->graph.infos, has_file ? info.file : info.binary);
	if (!has_file && !info.binary) {
		buffer_printf(report->out, "<unknown>");
	} else {
		buffer_printf(report->out, "%s", has_file ? "" : "[");
		put_escaped_harmless(report, text_base_name_of(bytes_of_string(path)));
		buffer_printf(report->out, "%s", has_file ? "" : "]");
	}
	if (info.line)
		buffer_printf(report->out, ":%lld", (long long)info.line);
	if (info.line && info.column)
		buffer_printf(report->out, ":%lld", (long long)info.column);
	buffer_printf(report->out, "\\n");
}

static const char *bare_percent(int64_t value, int64_t total, char out[static UNITS_TEXT_MAX])
{
	units_format_percent(value, total, out);
	return out + strspn(out, " ");
}

static void put_node(struct dot *dot, uint32_t id, int64_t largest)
{
	struct report *report = dot->report;
	const struct graph_node *node = &dot->graph.graph.nodes[id];
	int64_t flat = graph_node_flat(node), cum = graph_node_cum(node);
	char flat_text[UNITS_TEXT_MAX], cum_text[UNITS_TEXT_MAX], share[UNITS_TEXT_MAX], front[8], back[8];
	buffer_printf(report->out, "N%u [label=\"", dot->numbers[id]);
	put_box_lines(dot, id);
	report_format_value(report, flat, flat_text);
	report_format_value(report, cum, cum_text);
	if (flat)
		buffer_printf(report->out, "%s (%s)", flat_text, bare_percent(flat, report->total, share));
	else
		buffer_printf(report->out, "0");
	if (cum != flat)
		buffer_printf(report->out, "%sof %s (%s)", flat ? "\\n" : " ", cum_text,
			      bare_percent(cum, report->total, share));
	int size = 8;
	if (flat && largest)
		size += (int)ceil(16.0 * sqrt((double)units_magnitude(flat) / (double)largest));
	buffer_printf(report->out, "\" id=\"node%u\" fontsize=%d shape=box tooltip=\"", dot->numbers[id], size);
	put_escaped(report, report_node_name(&dot->graph, id));
	colour(share_of_total(report, cum), false, front);
	colour(share_of_total(report, cum), true, back);
	buffer_printf(report->out, " (%s)\" color=\"%s\" fillcolor=\"%s\"]\n", cum_text, front, back);
}

/* ---- labels ---- */

/* A label's box: one of a text, or a range of numbers. */
struct box {
	char text[2 * UNITS_TEXT_MAX + 8]; /* of numbers */
	int64_t flat, cum;
};

static void put_box(struct report *report, const char *owner, size_t number, bool is_text, const char *label, int64_t weight,
		    const char *style)
{
	/* The name of a number's box begins with N twice, as its owner's name does already. */
	char name[64], text[UNITS_TEXT_MAX];
	snprintf(name, sizeof(name), "%s%.40s_%zu", is_text ? "" : "N", owner, number);
	report_format_value(report, weight, text);
	buffer_printf(report->out, "%s [label = \"", name);
	put_tag_name(report, label);
	buffer_printf(report->out, "\" id=\"%s\" fontsize=8 shape=box3d tooltip=\"%s\"]\n", name, text);
	buffer_printf(report->out, "%s -> %s [label=\" %s\" weight=100 tooltip=\"%s\" labeltooltip=\"%s\"%s]\n", owner, name,
		      text, text, text, style);
}

static double distance(const struct graph *graph, const struct graph_tag *tag, const struct graph_tag *to)
{
	const char *unit;
	double value = units_scale(to->value, intern_string(&graph->strings, to->unit),
				   intern_string(&graph->strings, tag->unit), &unit);
	return fabs(value - (double)tag->value);
}

/* Sums tags that became one: those of `groups` that are `group`. */
static void sum_group(const struct graph *graph, const uint32_t *tags, size_t count, const uint8_t *groups, uint8_t group,
		      struct box *ret)
{
	const struct graph_tag *low = NULL, *high = NULL;
	int64_t flat = 0, cum = 0, flat_divisor = 0, cum_divisor = 0;
	char low_text[UNITS_TEXT_MAX], high_text[UNITS_TEXT_MAX];
	size_t members = 0;
	for (size_t i = 0; i < count; i++) {
		const struct graph_tag *tag = &graph->tags[tags[i]];
		if (groups[i] != group)
			continue;
		members++;
		low = !low || tag->value < low->value ? tag : low;
		high = !high || tag->value > high->value ? tag : high;
		sum_to(&flat, tag->flat);
		sum_to(&cum, tag->cum);
		sum_to(&flat_divisor, tag->flat_divisor);
		sum_to(&cum_divisor, tag->cum_divisor);
	}
	*ret = (struct box){.flat = units_mean(flat, flat_divisor), .cum = units_mean(cum, cum_divisor)};
	if (!low)
		return;
	units_format(low->value, intern_string(&graph->strings, low->unit), "auto", low_text);
	units_format(high->value, intern_string(&graph->strings, high->unit), "auto", high_text);
	snprintf(ret->text, sizeof(ret->text), "%s%s%s", low_text, members > 1 ? ".." : "", members > 1 ? high_text : "");
}

static int compare_boxes(const void *left, const void *right, void *context)
{
	const struct box *a = left, *b = right;
	const bool *flat = context;
	return (*flat ? 0 : units_compare(a->cum, b->cum)) ?: units_compare(a->flat, b->flat) ?: strcmp(a->text, b->text);
}

/* Numbers: each of up to four; or the four heaviest, each with those of the rest that are nearest to it. */
static size_t collapse(const struct graph *graph, uint32_t *tags, size_t count, bool flat, struct box boxes[GRAPH_TAGS_SHOWN],
		       struct error *err)
{
	graph_sort_tags(graph, tags, count, flat);
	if (count <= GRAPH_TAGS_SHOWN) {
		for (size_t i = 0; i < count; i++) {
			const struct graph_tag *tag = &graph->tags[tags[i]];
			boxes[i] = (struct box){.flat = units_mean(tag->flat, tag->flat_divisor),
						.cum = units_mean(tag->cum, tag->cum_divisor)};
			snprintf(boxes[i].text, sizeof(boxes[i].text), "%s", intern_string(&graph->strings, tag->text));
		}
		return count;
	}
	_cleanup_(mem_freep) uint8_t *groups = mem_zalloc_array(count, 1);
	if (!groups)
		return error_nomem(err), 0;
	for (size_t i = 0; i < count; i++) {
		const struct graph_tag *tag = &graph->tags[tags[i]];
		uint8_t best = 0;
		double nearest = distance(graph, tag, &graph->tags[tags[0]]);
		for (uint8_t k = 1; k < GRAPH_TAGS_SHOWN; k++) {
			double d = distance(graph, tag, &graph->tags[tags[k]]);
			if (d < nearest) {
				nearest = d;
				best = k;
			}
		}
		groups[i] = i < GRAPH_TAGS_SHOWN ? (uint8_t)i : best;
	}
	for (uint8_t k = 0; k < GRAPH_TAGS_SHOWN; k++)
		sum_group(graph, tags, count, groups, k, &boxes[k]);
	sort_array_by(boxes, GRAPH_TAGS_SHOWN, compare_boxes, &flat);
	return GRAPH_TAGS_SHOWN;
}

static bool put_numbers(struct dot *dot, const char *owner, uint32_t *tags, size_t count, bool flat, struct error *err)
{
	struct box boxes[GRAPH_TAGS_SHOWN];
	bool any = false;
	size_t shown = collapse(&dot->graph.graph, tags, count, flat, boxes, err);
	if (shown == 0 && count > 0)
		buffer_fail(dot->report->out, -ENOMEM);
	for (size_t i = 0; i < shown; i++) {
		bool solid = flat || boxes[i].flat == boxes[i].cum;
		int64_t weight = solid ? boxes[i].flat : boxes[i].cum;
		if (weight == 0)
			continue;
		put_box(dot->report, owner, i, false, boxes[i].text, weight, solid ? "" : " style=\"dotted\"");
		any = true;
	}
	return any;
}

/* The tags of a node: all texts, or the numbers that belong to one text (0 = to none). */
static size_t collect(const struct graph *graph, const struct graph_node *node, bool numbers, uint32_t labels, uint32_t *ret)
{
	size_t count = 0;
	for (uint32_t t = node->tag_first; t != GRAPH_NONE; t = graph->tags[t].next) {
		const struct graph_tag *tag = &graph->tags[t];
		if (!tag->removed && tag->is_number == numbers && (!numbers || tag->labels == labels))
			ret[count++] = t;
	}
	return count;
}

static int put_tags(struct dot *dot, uint32_t id, uint32_t *texts, uint32_t *numbers, struct error *err)
{
	const struct graph *graph = &dot->graph.graph;
	const struct graph_node *node = &graph->nodes[id];
	char owner[32], text_owner[48];
	bool flat = false;
	for (uint32_t i = 0; i < node->out_count; i++)
		flat |= !graph->edges[graph->out[node->out_first + i]].removed;
	size_t count = collect(graph, node, false, 0, texts);
	graph_sort_tags(graph, texts, count, flat);
	snprintf(owner, sizeof(owner), "N%u", dot->numbers[id]);
	for (size_t i = 0; i < count && i < GRAPH_TAGS_SHOWN; i++) {
		const struct graph_tag *tag = &graph->tags[texts[i]];
		int64_t weight = flat ? units_mean(tag->flat, tag->flat_divisor) : units_mean(tag->cum, tag->cum_divisor);
		if (weight == 0)
			continue;
		put_box(dot->report, owner, i, true, intern_string(&graph->strings, tag->labels), weight, "");
		snprintf(text_owner, sizeof(text_owner), "%s_%zu", owner, i);
		put_numbers(dot, text_owner, numbers, collect(graph, node, true, tag->labels, numbers), flat, err);
		dot->has_tags[id] = true;
	}
	dot->has_tags[id] |= put_numbers(dot, owner, numbers, collect(graph, node, true, 0, numbers), flat, err);
	return report_failure(dot->report, err);
}

/* ---- edges ---- */

static int64_t per_total(int64_t weight, int64_t factor, int64_t total)
{
	double share = fabs((double)weight * (double)factor / (double)total);
	return share > (double)factor ? factor : (int64_t)share;
}

static void put_edge(struct dot *dot, const struct graph_edge *edge)
{
	struct report *report = dot->report;
	int64_t weight = graph_edge_weight(edge);
	char text[UNITS_TEXT_MAX], shade[8];
	report_format_value(report, weight, text);
	buffer_printf(report->out, "N%u -> N%u [label=\" %s%s\"", dot->numbers[edge->source], dot->numbers[edge->target], text,
		      edge->is_inline ? "\\n (inline)" : "");
	if (report->total) {
		int64_t pull = 1 + per_total(weight, 100, report->total), width = 1 + per_total(weight, 5, report->total);
		if (pull > 1)
			buffer_printf(report->out, " weight=%lld", (long long)pull);
		if (width > 1)
			buffer_printf(report->out, " penwidth=%lld", (long long)width);
		colour(share_of_total(report, weight), false, shade);
		buffer_printf(report->out, " color=\"%s\"", shade);
	}
	for (int i = 0; i < 2; i++) {
		buffer_printf(report->out, i ? " labeltooltip=\"" : " tooltip=\"");
		put_escaped(report, report_node_name(&dot->graph, edge->source));
		buffer_printf(report->out, " %s ", edge->residual ? "..." : "->");
		put_escaped(report, report_node_name(&dot->graph, edge->target));
		buffer_printf(report->out, " (%s)\"", text);
	}
	buffer_printf(report->out, "%s%s]\n", edge->residual ? " style=\"dotted\"" : "",
		      dot->has_tags[edge->source] ? " minlen=2" : "");
}

static int put_edges(struct dot *dot, struct error *err)
{
	const struct graph *graph = &dot->graph.graph;
	_cleanup_(mem_freep) uint32_t *edges = mem_alloc_array(graph->edge_count + 1, sizeof(*edges));
	size_t count = 0;
	if (!edges)
		return error_nomem(err);
	for (uint32_t i = 0; i < graph->edge_count; i++)
		if (dot->numbers[graph->edges[i].source] && dot->numbers[graph->edges[i].target])
			edges[count++] = i;
	count = graph_sort_edges(graph, edges, count, edges);
	for (size_t i = 0; i < count; i++)
		put_edge(dot, &graph->edges[edges[i]]);
	return 0;
}

/* Values stand in quotes all over, and their unit is whatever the profile says: it must not end them, for what comes then are
 * attributes such as URL. */
static void disarm_unit(char *unit)
{
	while ((unit = strpbrk(unit, "\"\\")))
		*unit = '\'';
}

int report_write_dot(struct report *report, struct error *err)
{
	_cleanup_(dot_release) struct dot dot = {.report = report, .text.max = GIB};
	disarm_unit(report->sample_unit);
	int r = report_graph_build(report, true, &dot.graph, err);
	if (r < 0)
		return r;
	const struct graph *graph = &dot.graph.graph;
	dot.numbers = mem_zalloc_array(graph->node_count + 1, sizeof(uint32_t));
	dot.has_tags = mem_zalloc_array(graph->node_count + 1, sizeof(bool));
	_cleanup_(mem_freep) uint32_t *texts = mem_alloc_array(graph->tag_count + 1, sizeof(*texts));
	_cleanup_(mem_freep) uint32_t *numbers = mem_alloc_array(graph->tag_count + 1, sizeof(*numbers));
	if (!dot.numbers || !dot.has_tags || !texts || !numbers)
		return error_nomem(err);
	int64_t largest = 0;
	for (size_t i = 0; i < graph->order_count; i++) {
		int64_t flat = units_magnitude(graph_node_flat(&graph->nodes[graph->order[i]]));
		largest = flat > largest ? flat : largest;
		dot.numbers[graph->order[i]] = (uint32_t)i + 1;
	}
	put_head(&dot);
	for (size_t i = 0; i < graph->order_count && r == 0; i++) {
		put_node(&dot, graph->order[i], largest);
		r = put_tags(&dot, graph->order[i], texts, numbers, err);
	}
	if (r == 0)
		r = put_edges(&dot, err);
	buffer_printf(report->out, "}\n");
	return r;
}
