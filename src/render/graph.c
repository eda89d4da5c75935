/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a call graph.
 *
 * Samples are summed by stack first (by stack and labels where labels are asked for), and each of those groups is walked once,
 * from the root: a node counts a group once however often it occurs in the stack, an edge too. That a node or edge was counted
 * for a group already is known by the group's number, written down at it.
 *
 * A group whose values cancel each other out is walked as well: in a comparison its nodes and edges are there, with 0.
 *
 * Frames that are not kept leave a gap, and the edge over it is residual. In a tree, a node is found by (its caller's node,
 * info); frames are cut from trees afterwards, since the same info is many nodes there.
 */
#include "render/graph.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "render/units.h"

#define ENTRIES_MAX (64u * 1024 * 1024)

struct sample_group {
	uint32_t stack, labels;
	int64_t value, divisor;
};

struct build {
	struct graph *graph;
	const struct profile *profile;
	const struct graph_options *options;
	struct sample_group *groups;
	size_t group_count, group_capacity;
	struct index32 nodes, edges, tags; /* nodes: of trees */
	uint32_t *node_seen, *edge_seen;   /* the group that counted it last, plus 1 */
	size_t node_seen_capacity, edge_seen_capacity;
	uint32_t *path;	       /* the stacks that a stack is made of, leaf first */
	uint32_t *stack_edges; /* by stack: the edge into its frame, or into the outermost of those inlined there, plus 1 */
	size_t path_capacity;
	uint32_t *labels; /* by label set: its labels as one string of graph.strings, plus 1 */
	uint32_t bytes_key;
};

static void build_release(struct build *build)
{
	mem_free(build->groups);
	index32_release(&build->nodes);
	index32_release(&build->edges);
	index32_release(&build->tags);
	mem_free(build->node_seen);
	mem_free(build->edge_seen);
	mem_free(build->path);
	mem_free(build->stack_edges);
	mem_free(build->labels);
}

static int too_many(int code, const char *what, struct error *err)
{
	return code == -ENOMEM ? error_nomem(err)
			       : error_set(err, -E2BIG, "the call graph has more than %u %s", ENTRIES_MAX, what);
}

/* ---- samples by stack and labels ---- */

static int add_to_group(struct build *build, struct map64 *known, const struct sample_group *sample, struct error *err)
{
	uint64_t key = (uint64_t)sample->stack << 32 | sample->labels, at;
	if (!map64_get(known, key, &at)) {
		at = build->group_count;
		if (array_reserve(&build->groups, &build->group_capacity, at + 1, UINT32_MAX - 1) < 0 ||
		    map64_put(known, key, at) < 0)
			return error_nomem(err);
		build->groups[build->group_count++] = (struct sample_group){.stack = sample->stack, .labels = sample->labels};
	}
	sum_to(&build->groups[at].value, sample->value);
	sum_to(&build->groups[at].divisor, sample->divisor);
	return 0;
}

static int make_groups(struct build *build, struct error *err)
{
	const struct profile *profile = build->profile;
	_cleanup_(map64_release) struct map64 known = {0};
	int r = 0;
	for (size_t i = 0; i < profile->sample_count && r == 0; i++) {
		const int64_t *values = &profile->values[i * profile->sample_type_count];
		struct sample_group sample = {.stack = profile->samples[i].stack,
					      .labels = build->options->tags ? profile->samples[i].labels : 0,
					      .value = values[build->options->value],
					      .divisor = build->options->mean ? values[*build->options->mean] : 0};
		if (sample.value || sample.divisor)
			r = budget_poll() ? error_nomem(err) : add_to_group(build, &known, &sample, err);
	}
	return r;
}

/* ---- nodes and edges ---- */

static int add_node(struct build *build, uint32_t info, uint32_t function, uint32_t *ret, struct error *err)
{
	struct graph *graph = build->graph;
	int r = array_reserve(&graph->nodes, &graph->node_capacity, graph->node_count + 1, ENTRIES_MAX);
	if (r == 0)
		r = array_reserve(&build->node_seen, &build->node_seen_capacity, graph->node_capacity, ENTRIES_MAX * 2);
	if (r < 0)
		return too_many(r, "functions", err);
	*ret = (uint32_t)graph->node_count++;
	graph->nodes[*ret] = (struct graph_node){
		.info = info, .function = function == GRAPH_NONE ? *ret : function, .tag_first = GRAPH_NONE};
	build->node_seen[*ret] = 0;
	return 0;
}

/* What the function of a node is, as a number: of trees, the node's caller belongs to it. */
static uint32_t function_of(const struct build *build, uint32_t parent, uint32_t info)
{
	struct graph_info whole = build->graph->infos->items[info];
	whole.address = 0;
	whole.line = whole.column = 0;
	uint64_t hash = hash64_seed(&whole, sizeof(whole), parent == GRAPH_NONE ? 0 : (uint64_t)parent + 1);
	return (uint32_t)(hash ^ hash >> 32);
}

static int add_all_nodes(struct build *build, struct error *err)
{
	uint32_t id;
	int r = 0;
	for (uint32_t i = 0; i < build->graph->infos->count && r == 0; i++)
		r = add_node(build, i, function_of(build, GRAPH_NONE, i), &id, err);
	return r;
}

static int find_tree_node(struct build *build, uint32_t parent, uint32_t info, uint32_t *ret, struct error *err)
{
	/* The caller of each node is known by the edge that leads to it, of which there is one: in_first holds it meanwhile. */
	uint64_t hash = hash64_mix(hash64_mix((uint64_t)parent << 32 | info));
	for (size_t at = index32_first(&build->nodes, hash); index32_at(&build->nodes, hash, &at, ret); at++)
		if (build->graph->nodes[*ret].info == info && build->graph->nodes[*ret].in_first == parent)
			return 0;
	int r = add_node(build, info, function_of(build, parent, info), ret, err);
	if (r == 0 && index32_add(&build->nodes, hash, *ret) < 0)
		r = error_nomem(err);
	if (r == 0)
		build->graph->nodes[*ret].in_first = parent;
	return r;
}

static int find_edge(struct build *build, uint32_t source, uint32_t target, uint32_t *ret, struct error *err)
{
	struct graph *graph = build->graph;
	uint64_t hash = hash64_mix((uint64_t)source << 32 | target);
	for (size_t at = index32_first(&build->edges, hash); index32_at(&build->edges, hash, &at, ret); at++)
		if (graph->edges[*ret].source == source && graph->edges[*ret].target == target)
			return 0;
	int r = array_reserve(&graph->edges, &graph->edge_capacity, graph->edge_count + 1, ENTRIES_MAX);
	if (r == 0)
		r = array_reserve(&build->edge_seen, &build->edge_seen_capacity, graph->edge_capacity, ENTRIES_MAX * 2);
	if (r < 0)
		return too_many(r, "calls", err);
	*ret = (uint32_t)graph->edge_count++;
	if (index32_add(&build->edges, hash, *ret) < 0)
		return error_nomem(err);
	graph->edges[*ret] = (struct graph_edge){.source = source, .target = target, .is_inline = true};
	build->edge_seen[*ret] = 0;
	return 0;
}

/* ---- labels ---- */

/* "KEY:VALUE" of each text label, sorted, one a line. */
static int join_labels(struct build *build, uint32_t set, uint32_t *ret, struct error *err)
{
	const struct profile *profile = build->profile;
	const struct profile_label_set *labels = &profile->label_sets[set];
	_cleanup_(buffer_release) struct buffer joined = {.max = GIB};
	_cleanup_(mem_freep) char **texts = mem_zalloc_array(labels->count + 1, sizeof(*texts));
	size_t count = 0;
	int r = 0;
	if (!texts)
		return error_nomem(err);
	for (uint32_t i = labels->first; i < labels->first + labels->count && r == 0; i++) {
		const struct profile_label *label = &profile->labels[i];
		if (!label->value || strcmp(profile_string(profile, label->key), "pprof::base") == 0)
			continue;
		buffer_clear(&joined);
		r = buffer_printf(&joined, "%s:%s", profile_string(profile, label->key), profile_string(profile, label->value));
		const char *text = r == 0 ? buffer_string(&joined) : NULL;
		texts[count] = text ? mem_strdup(text) : NULL;
		r = texts[count] ? 0 : -ENOMEM;
		count += r == 0;
	}
	sort_array(texts, count, text_compare);
	buffer_clear(&joined);
	for (size_t i = 0; i < count && r == 0; i++)
		r = buffer_printf(&joined, "%s%s", i ? "\n" : "", texts[i]);
	for (size_t i = 0; i < count; i++)
		mem_free(texts[i]);
	if (r == 0)
		r = intern_add(&build->graph->strings, joined.data, joined.len, ret);
	return r < 0 ? too_many(-ENOMEM, "labels", err) : 0;
}

static int find_tag(struct build *build, const struct graph_tag *want, struct graph_tag **ret, struct error *err)
{
	struct graph *graph = build->graph;
	uint64_t hash = hash64_mix(hash64_mix((uint64_t)want->node << 32 | want->labels) ^ want->text << 1 ^ want->is_number);
	uint32_t id;
	for (size_t at = index32_first(&build->tags, hash); index32_at(&build->tags, hash, &at, &id); at++) {
		*ret = &graph->tags[id];
		if ((*ret)->node == want->node && (*ret)->labels == want->labels && (*ret)->is_number == want->is_number &&
		    (*ret)->text == want->text)
			return 0;
	}
	int r = array_reserve(&graph->tags, &graph->tag_capacity, graph->tag_count + 1, ENTRIES_MAX);
	if (r < 0 || index32_add(&build->tags, hash, (uint32_t)graph->tag_count) < 0)
		return too_many(r < 0 ? r : -ENOMEM, "labels", err);
	*ret = &graph->tags[graph->tag_count];
	**ret = *want;
	(*ret)->next = graph->nodes[want->node].tag_first;
	graph->nodes[want->node].tag_first = (uint32_t)graph->tag_count++;
	return 0;
}

static int count_tag(struct build *build, const struct graph_tag *want, const struct sample_group *group, bool flat,
		     struct error *err)
{
	struct graph_tag *tag = NULL;
	int r = find_tag(build, want, &tag, err);
	if (r < 0)
		return r;
	sum_to(flat ? &tag->flat : &tag->cum, group->value);
	sum_to(flat ? &tag->flat_divisor : &tag->cum_divisor, group->divisor);
	return 0;
}

static int count_tags(struct build *build, uint32_t node, const struct sample_group *group, bool flat, struct error *err)
{
	const struct profile *profile = build->profile;
	const struct profile_label_set *set = &profile->label_sets[group->labels];
	uint32_t joined;
	int r = 0;
	if (build->labels[group->labels] == 0) {
		r = join_labels(build, group->labels, &joined, err);
		if (r < 0)
			return r;
		build->labels[group->labels] = joined + 1;
	}
	struct graph_tag tag = {.node = node, .labels = build->labels[group->labels] - 1};
	if (tag.labels)
		r = count_tag(build, &tag, group, flat, err);
	for (uint32_t i = set->first; i < set->first + set->count && r == 0; i++) {
		const struct profile_label *label = &profile->labels[i];
		char text[UNITS_TEXT_MAX];
		if (label->key != build->bytes_key || !build->bytes_key || !(label->number || label->unit))
			continue;
		tag.is_number = true;
		tag.value = label->number;
		units_format(label->number, build->options->tag_unit, build->options->output_unit, text);
		if (intern_add_string(&build->graph->strings, text, &tag.text) < 0 ||
		    intern_add_string(&build->graph->strings, build->options->tag_unit, &tag.unit) < 0)
			return error_nomem(err);
		r = count_tag(build, &tag, group, flat, err);
	}
	return r;
}

/* ---- walking ---- */

static int count_node(struct build *build, uint32_t node, const struct sample_group *group, bool flat, struct error *err)
{
	struct graph_node *entry = &build->graph->nodes[node];
	sum_to(flat ? &entry->flat : &entry->cum, group->value);
	sum_to(flat ? &entry->flat_divisor : &entry->cum_divisor, group->divisor);
	return build->options->tags ? count_tags(build, node, group, flat, err) : 0;
}

struct walk {
	uint32_t parent, number; /* the caller's node; of the group, plus 1 */
	bool residual;
};

/* known: where the edge's number is kept, plus 1, since what leads to a frame depends on the stack alone; NULL = nowhere. */
static int count_edge(struct build *build, const struct sample_group *group, const struct walk *walk, uint32_t node,
		      bool is_inline, uint32_t *known, struct error *err)
{
	uint32_t id = known && *known ? *known - 1 : 0;
	int r = known && *known ? 0 : find_edge(build, walk->parent, node, &id, err);
	if (r < 0)
		return r;
	if (known)
		*known = id + 1;
	struct graph_edge *edge = &build->graph->edges[id];
	if (build->edge_seen[id] == walk->number)
		return 0;
	build->edge_seen[id] = walk->number;
	sum_to(&edge->weight, group->value);
	sum_to(&edge->weight_divisor, group->divisor);
	edge->residual |= walk->residual;
	edge->is_inline &= is_inline;
	return 0;
}

static int walk_frame(struct build *build, const struct sample_group *group, struct walk *walk, uint32_t info, bool is_inline,
		      uint32_t *known, struct error *err)
{
	uint32_t node = info;
	int r = 0;
	if (build->options->tree)
		r = find_tree_node(build, walk->parent, info, &node, err);
	if (r < 0)
		return r;
	if (build->options->kept && !build->options->kept[info]) {
		walk->residual = true;
		return 0;
	}
	if (build->node_seen[node] != walk->number) {
		build->node_seen[node] = walk->number;
		r = count_node(build, node, group, false, err);
	}
	if (r == 0 && walk->parent != GRAPH_NONE && walk->parent != node)
		r = count_edge(build, group, walk, node, is_inline, known, err);
	walk->parent = node;
	walk->residual = false;
	return r;
}

static int walk_group(struct build *build, size_t number, struct error *err)
{
	const struct sample_group *group = &build->groups[number];
	const struct graph_infos *infos = build->graph->infos;
	const struct profile_stack *stacks = build->profile->stacks;
	struct walk walk = {.parent = GRAPH_NONE, .number = (uint32_t)number + 1};
	size_t depth = profile_stack_depth(build->profile, group->stack);
	if (array_reserve(&build->path, &build->path_capacity, depth, SIZE_MAX / 8) < 0)
		return error_nomem(err);
	for (uint32_t i = 0, at = group->stack; i < depth; i++, at = stacks[at].parent)
		build->path[i] = at;
	for (size_t i = depth; i-- > 0;) {
		uint32_t location = stacks[build->path[i]].location;
		uint32_t first = infos->first[location], end = infos->first[location + 1];
		for (uint32_t k = end; k-- > first;) {
			uint32_t *known = k + 1 == end ? &build->stack_edges[build->path[i]] : NULL;
			int r = walk_frame(build, group, &walk, infos->nodes[k], k + 1 != end, known, err);
			if (r < 0)
				return r;
		}
	}
	return walk.parent != GRAPH_NONE && !walk.residual ? count_node(build, walk.parent, group, true, err) : 0;
}

/* ---- finishing ---- */

/* Lists of edges by node: counted, then filled in. */
int graph_make_lists(struct graph *graph, struct error *err)
{
	mem_free(graph->in);
	mem_free(graph->out);
	graph->in = mem_alloc_array(graph->edge_count + 1, sizeof(uint32_t));
	graph->out = mem_alloc_array(graph->edge_count + 1, sizeof(uint32_t));
	if (!graph->in || !graph->out)
		return error_nomem(err);
	for (size_t i = 0; i < graph->node_count; i++)
		graph->nodes[i].in_count = graph->nodes[i].out_count = 0;
	for (size_t i = 0; i < graph->edge_count; i++) {
		graph->nodes[graph->edges[i].source].out_count++;
		graph->nodes[graph->edges[i].target].in_count++;
	}
	uint32_t in = 0, out = 0;
	for (size_t i = 0; i < graph->node_count; i++) {
		struct graph_node *node = &graph->nodes[i];
		node->in_first = in;
		node->out_first = out;
		in += node->in_count;
		out += node->out_count;
		node->in_count = node->out_count = 0;
	}
	for (uint32_t i = 0; i < graph->edge_count; i++) {
		struct graph_node *source = &graph->nodes[graph->edges[i].source],
				  *target = &graph->nodes[graph->edges[i].target];
		graph->out[source->out_first + source->out_count++] = i;
		graph->in[target->in_first + target->in_count++] = i;
	}
	return 0;
}

static bool is_negative(const struct graph_node *node)
{
	return node->flat < 0 || (node->flat == 0 && node->cum < 0);
}

static int list_nodes(struct graph *graph, const struct graph_options *options, struct error *err)
{
	graph->order = mem_alloc_array(graph->node_count + 1, sizeof(uint32_t));
	if (!graph->order)
		return error_nomem(err);
	for (uint32_t i = 0; i < graph->node_count; i++) {
		struct graph_node *node = &graph->nodes[i];
		node->listed = (node->cum || node->flat) && !(options->drop_negative && is_negative(node));
		if (node->listed)
			graph->order[graph->order_count++] = i;
	}
	return 0;
}

int graph_build(struct graph *ret, const struct profile *profile, struct graph_infos *infos,
		const struct graph_options *options, struct error *err)
{
	memset(ret, 0, sizeof(*ret));
	ret->infos = infos;
	_cleanup_(build_release) struct build build = {.graph = ret, .profile = profile, .options = options};
	if (intern_init(&ret->strings, GIB) < 0)
		return error_nomem(err);
	if (!intern_find(&profile->strings, "bytes", 5, &build.bytes_key))
		build.bytes_key = 0;
	build.labels = mem_zalloc_array(profile->label_set_count, sizeof(uint32_t));
	build.stack_edges = mem_zalloc_array(profile->stack_count, sizeof(uint32_t));
	if (!build.labels || !build.stack_edges)
		return error_nomem(err);
	int r = make_groups(&build, err);
	if (r == 0 && !options->tree)
		r = add_all_nodes(&build, err);
	for (size_t i = 0; i < build.group_count && r == 0; i++)
		r = budget_poll() ? error_nomem(err) : walk_group(&build, i, err);
	if (r == 0)
		r = graph_make_lists(ret, err);
	return r < 0 ? r : list_nodes(ret, options, err);
}

void graph_release(struct graph *graph)
{
	mem_free(graph->nodes);
	mem_free(graph->edges);
	mem_free(graph->in);
	mem_free(graph->out);
	mem_free(graph->tags);
	mem_free(graph->order);
	if (graph->infos)
		intern_release(&graph->strings);
	memset(graph, 0, sizeof(*graph));
}

int64_t graph_node_flat(const struct graph_node *node)
{
	return units_mean(node->flat, node->flat_divisor);
}

int64_t graph_node_cum(const struct graph_node *node)
{
	return units_mean(node->cum, node->cum_divisor);
}

int64_t graph_edge_weight(const struct graph_edge *edge)
{
	return units_mean(edge->weight, edge->weight_divisor);
}
