/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of Parca's query service on a profile, and its flame graph. The first byte says how the graph is grouped and whether
 * stacks are inverted and cut, the second which profile, the rest is the request. No value is lost: what filters drop is what
 * the total is less. The graph is a tree, of rows by breadth.
 */
#include "base/limits.h"
#include "must.h"
#include "profile/test_profile.h"
#include "server/parca/filter.h"
#include "server/parca/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILTER_FIELD 12
enum { INVERT = 1, SANDWICH = 2, BY_LABELS = 4, BY_MAPPING = 8, BY_ADDRESS = 16, BY_TIME = 32, COMPARED = 64 };

static void check_rows(const struct parca_graph *graph)
{
	must(graph->shown_count > 0 && graph->shown_count <= graph->count && graph->shown[0] == 0);
	for (size_t i = 1; i < graph->shown_count; i++) {
		const struct parca_row *row = &graph->rows[graph->shown[i]];
		must(graph->shown_parents[i] < i && graph->shown_parents[i] >= graph->shown_parents[i - 1]);
		must(graph->shown[graph->shown_parents[i]] == row->parent);
		must(row->depth == graph->rows[row->parent].depth + 1 && (int32_t)row->depth < graph->height);
		must(row->total > 0);
	}
}

static void check_graph(const struct profile *profile, uint8_t flags)
{
	static const char *const by[] = {"comm", "host"};
	const struct parca_graph_options options = {.by_labels = flags & BY_LABELS,
						    .by_mapping = flags & BY_MAPPING,
						    .by_address = flags & BY_ADDRESS,
						    .by_time = flags & BY_TIME,
						    .inverted = flags & INVERT,
						    .scale = 0.5,
						    .period_ns = 10};
	struct parca_graph graph;
	struct buffer out;
	struct error err = {0};
	buffer_init(&out, 16 * MIB);
	must(parca_graph_build(profile, &options, &graph, &err) == 0);
	must(graph.total == profile_total(profile, profile->sample_type_count - 1));
	check_rows(&graph);
	must(parca_graph_write(&graph, by, flags & BY_LABELS ? 2 : 0, &out, &err) == 0 && out.len % 8 == 0);
	parca_graph_release(&graph);
	buffer_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct parca_filters filters;
	struct error err = {0};
	if (size < 2)
		return 0;
	struct test_shape shape = {.binaries = 4,
				   .functions = 6,
				   .addresses = 4,
				   .samples = 20,
				   .depth = 6,
				   .types = data[0] & COMPARED ? 2 : 1,
				   .times = true};
	filters = (struct parca_filters){.sandwich = data[0] & SANDWICH ? "function2" : "", .invert = data[0] & INVERT};
	int r = parca_filters_read((struct bytes){data + 2, size - 2}, FILTER_FIELD, &filters, &err);
	must(r == 0 || err.message[0]);
	if (r < 0)
		return 0;
	struct profile *profile = NULL;
	must(test_random_profile(data[1], &shape, &profile, &err) == 0);
	size_t last = shape.types - 1;
	int64_t before = profile_total(profile, last), filtered;
	must(parca_filters_apply(&filters, profile, NULL, &filtered, &err) == 0);
	must(profile_total(profile, last) + filtered == before);
	check_graph(profile, data[0]);
	profile_free(profile);
	return 0;
}
