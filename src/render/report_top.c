/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of a report as a profile, each a stack of one frame. */

#include "render/report_int.h"

static int copy_string(const struct profile *from, uint32_t id, struct profile *to, uint32_t *ret, struct error *err)
{
	struct bytes text = profile_string_bytes(from, id);
	return profile_add_bytes(to, text, ret, err);
}

static int add_node(struct report *report, const struct report_graph *graph, uint32_t id, struct profile *profile,
		    struct error *err)
{
	const struct graph_node *node = &graph->graph.nodes[id];
	const struct graph_info *info = &graph->infos.items[node->info];
	struct bytes name = intern_get(&graph->infos.strings, info->name), file = intern_get(&graph->infos.strings, info->file);
	struct profile_function function = {.start_line = info->start_line};
	struct profile_location location = {.address = info->address};
	struct profile_line line = {.line = info->line, .column = info->column};
	struct profile_sample sample = {0};
	const char *unit;
	uint32_t place;
	int64_t values[] = {
		units_whole(units_scale(graph_node_cum(node), report->sample_unit, report->unit, &unit)),
		units_whole(units_scale(graph_node_flat(node), report->sample_unit, report->unit, &unit)),
	};
	int r = profile_add_bytes(profile, name, &function.name, err);
	if (r == 0)
		r = profile_add_bytes(profile, file, &function.file_name, err);
	if (r == 0)
		r = profile_add_function(profile, &function, &line.function, err);
	if (r == 0)
		r = profile_add_location(profile, &location, &line, 1, &place, err);
	if (r == 0)
		r = profile_add_stack(profile, 0, place, &sample.stack, err);
	return r < 0 ? r : profile_add_sample(profile, &sample, values, err);
}

int report_make_top(struct report *report, struct profile **ret, struct error *err)
{
	_cleanup_(report_graph_release) struct report_graph graph = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const struct profile *from = report->profile;
	int r = report_graph_build(report, true, &graph, err);
	if (r == 0)
		r = profile_new(&profile, err);
	if (r == 0)
		r = profile_add_named_type(profile, "cum", report->unit, err);
	if (r == 0)
		r = profile_add_named_type(profile, "flat", report->unit, err);
	if (r == 0)
		r = copy_string(from, from->period_type.type, profile, &profile->period_type.type, err);
	if (r == 0)
		r = copy_string(from, from->period_type.unit, profile, &profile->period_type.unit, err);
	for (size_t i = 0; i < graph.graph.order_count && r == 0; i++)
		r = add_node(report, &graph, graph.graph.order[i], profile, err);
	if (r < 0)
		return r;
	profile->period = from->period;
	profile->time_ns = from->time_ns;
	profile->duration_ns = from->duration_ns;
	*ret = TAKE(profile);
	return 0;
}
