/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs as Parca's server makes them (github.com/parca-dev/parca, pkg/query/flamegraph_arrow.go), which are not those of
 * render/flame.h: siblings are one row if their functions have the same name, whatever file and binary they are of, and so far
 * as these differ the row has neither; what else tells siblings apart is said by the request (group_by). Frames without a name
 * are told apart by binary and address. Labels that are grouped by are rows of their own below the root, which samples without
 * any of them have not.
 *
 * Stacks are a trie, so each of them is placed once, below the row of its caller, and samples only add their values; totals are
 * summed from the last row to the first. Of samples of several groups of labels that is done group by group.
 *
 * A flame chart (by_time) is made sample by sample, in order of time: a frame continues the last child of its caller's row if
 * it is the same function and that has not ended, by its own total as a duration, longer ago than a tenth of a period.
 *
 * What is shown: children with more than a share of their parent's total and more than nothing, at most
 * PARCA_GRAPH_SHOWN_MAX. The root's total is that of its children that are shown, the response's that of all samples.
 */
#include "server/parca/graph.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "render/units.h"

/* What tells a row from its siblings. No padding. */
struct key {
	uint32_t parent, name, mapping, file, labels, kind;
	uint64_t address;
};
enum { KEY_NAMED, KEY_UNNAMED, KEY_LABELS };

struct builder {
	struct parca_graph *graph;
	const struct profile *profile;
	size_t types;
	uint32_t *order;  /* samples */
	uint32_t *places; /* by stack: its row, PARCA_NONE = not placed */
	uint32_t *path;	  /* stacks: those placed in this group, or those on the way down */
	size_t placed;
	uint32_t labels, root; /* of the group */
	int64_t time_ns;       /* of the sample */
};

static void builder_release(struct builder *b)
{
	mem_free(b->order);
	mem_free(b->places);
	mem_free(b->path);
}

void parca_graph_release(struct parca_graph *graph)
{
	mem_free(graph->rows);
	mem_free(graph->shown);
	mem_free(graph->shown_parents);
	mem_free(graph->offsets);
	intern_release(&graph->keys);
}

static int64_t value_of(const struct builder *b, size_t sample)
{
	return b->profile->values[sample * b->types + b->types - 1];
}

static int64_t base_of(const struct builder *b, size_t sample)
{
	return b->types > 1 ? b->profile->values[sample * b->types] : 0;
}

/* ---- rows ---- */

static struct key make_key(const struct parca_graph *graph, uint32_t parent, uint32_t location, uint32_t line)
{
	const struct profile *profile = graph->profile;
	const struct profile_location *at = &profile->locations[location];
	uint32_t name = parca_line_name(profile, line);
	struct key key = {.parent = parent, .name = name, .kind = name ? KEY_NAMED : KEY_UNNAMED};
	if (!name || graph->options.by_mapping)
		key.mapping = profile->mappings[at->mapping].file_name;
	if (!name || graph->options.by_address)
		key.address = profile_location_file_offset(profile, location);
	if (name && graph->options.by_file)
		key.file = profile->functions[profile->lines[line].function].file_name;
	return key;
}

static int add_row(struct parca_graph *graph, const struct parca_row *row, uint32_t *ret, struct error *err)
{
	if (graph->count == graph->capacity && graph->count >= PARCA_GRAPH_ROWS_MAX)
		return error_set(err, -E2BIG, "the flame graph has more than %u rows", PARCA_GRAPH_ROWS_MAX);
	if (array_reserve(&graph->rows, &graph->capacity, graph->count + 1, PARCA_GRAPH_ROWS_MAX) < 0)
		return error_nomem(err);
	*ret = (uint32_t)graph->count;
	graph->rows[graph->count++] = *row;
	if ((int32_t)row->depth >= graph->height)
		graph->height = (int32_t)row->depth + 1;
	return 0;
}

static bool is_inlined(const struct parca_graph *graph, const struct profile_location *at, uint32_t line)
{
	uint32_t outermost = graph->options.inverted ? at->line_first : at->line_first + at->line_count - 1;
	return line != PARCA_NO_LINE && line != outermost;
}

/* Of which nothing is known. */
static const struct parca_row unknown_row = {.name = PARCA_NONE,
					     .system_name = PARCA_NONE,
					     .file = PARCA_NONE,
					     .mapping_file = PARCA_NONE,
					     .build_id = PARCA_NONE,
					     .line = PARCA_NO_LINE};

static struct parca_row make_row(const struct builder *b, uint32_t parent, uint32_t location, uint32_t line)
{
	const struct profile *profile = b->profile;
	const struct profile_location *at = &profile->locations[location];
	struct parca_row row = unknown_row;
	row.parent = parent;
	row.depth = b->graph->rows[parent].depth + 1;
	row.labels = b->labels;
	row.location = location;
	row.line = line;
	row.address = profile_location_file_offset(profile, location);
	row.time_ns = b->graph->options.by_time ? b->time_ns : 0;
	row.has_address = row.has_inlined = true;
	row.inlined = is_inlined(b->graph, at, line);
	if (at->mapping) {
		row.mapping_file = profile->mappings[at->mapping].file_name;
		row.build_id = profile->mappings[at->mapping].build_id;
	}
	if (line == PARCA_NO_LINE)
		return row;
	const struct profile_function *function = &profile->functions[profile->lines[line].function];
	row.name = parca_line_name(profile, line);
	row.system_name = function->system_name;
	row.file = function->file_name;
	row.line_number = profile->lines[line].line;
	row.start_line = function->start_line;
	row.has_line = row.has_start_line = true;
	return row;
}

static void keep_equal(uint32_t *text, uint32_t other)
{
	if (*text != other)
		*text = PARCA_NONE;
}

/* What is not the same for all that is in a row is not known of it. */
static void unite(struct parca_row *row, const struct parca_row *other)
{
	keep_equal(&row->system_name, other->system_name);
	keep_equal(&row->file, other->file);
	keep_equal(&row->mapping_file, other->mapping_file);
	keep_equal(&row->build_id, other->build_id);
	row->has_address &= row->address == other->address;
	row->has_line &= other->has_line && row->line_number == other->line_number;
	row->has_start_line &= other->has_start_line && row->start_line == other->start_line;
	row->has_inlined &= row->inlined == other->inlined;
}

static int find_row(struct builder *b, uint32_t parent, uint32_t location, uint32_t line, uint32_t *ret, struct error *err)
{
	struct parca_graph *graph = b->graph;
	struct key key = make_key(graph, parent, location, line);
	struct parca_row row = make_row(b, parent, location, line);
	if (intern_add(&graph->keys, &key, sizeof(key), ret) < 0)
		return error_nomem(err);
	if (*ret == graph->count)
		return add_row(graph, &row, ret, err);
	if (graph->rows[*ret].location != location || graph->rows[*ret].line != line)
		unite(&graph->rows[*ret], &row);
	return 0;
}

static bool continues(const struct builder *b, uint32_t last, uint32_t parent, uint32_t location, uint32_t line)
{
	const struct parca_row *row = &b->graph->rows[last];
	if (!last || row->labels_only)
		return false;
	struct key key = make_key(b->graph, parent, location, line), old = make_key(b->graph, parent, row->location, row->line);
	int64_t ended_ns, gap_ns;
	return memcmp(&key, &old, sizeof(key)) == 0 && !__builtin_add_overflow(row->time_ns, row->total, &ended_ns) &&
	       !__builtin_sub_overflow(b->time_ns, ended_ns, &gap_ns) && gap_ns <= b->graph->options.period_ns / 10;
}

static int find_chart_row(struct builder *b, uint32_t parent, uint32_t location, uint32_t line, uint32_t *ret,
			  struct error *err)
{
	struct parca_graph *graph = b->graph;
	struct parca_row row = make_row(b, parent, location, line);
	*ret = graph->rows[parent].last_child;
	if (continues(b, *ret, parent, location, line)) {
		unite(&graph->rows[*ret], &row);
		return 0;
	}
	int r = add_row(graph, &row, ret, err);
	if (!r)
		graph->rows[parent].last_child = *ret;
	return r;
}

/* A location's functions, each below the one that it is inlined into. */
static int place_location(struct builder *b, uint32_t location, uint32_t *row, struct error *err)
{
	const struct profile_location *at = &b->profile->locations[location];
	int (*find)(struct builder *, uint32_t, uint32_t, uint32_t, uint32_t *, struct error *) =
		b->graph->options.by_time ? find_chart_row : find_row;
	int r = at->line_count ? 0 : find(b, *row, location, PARCA_NO_LINE, row, err);
	for (uint32_t i = at->line_count; !r && i-- > 0;)
		r = find(b, *row, location, at->line_first + i, row, err);
	return r;
}

/* ---- a graph ---- */

static int place_stack(struct builder *b, uint32_t stack, uint32_t *ret, struct error *err)
{
	size_t first = b->placed, end = first;
	uint32_t at = stack;
	int r = 0;
	for (; b->places[at] == PARCA_NONE; at = b->profile->stacks[at].parent)
		b->path[end++] = at;
	*ret = b->places[at];
	for (size_t i = end; !r && i-- > first;) {
		r = place_location(b, b->profile->stacks[b->path[i]].location, ret, err);
		b->places[b->path[i]] = *ret;
	}
	b->placed = end;
	return r;
}

static int begin_group(struct builder *b, uint32_t labels, struct error *err)
{
	struct parca_graph *graph = b->graph;
	struct key key = {.labels = labels, .kind = KEY_LABELS};
	for (size_t i = 0; i < b->placed; i++)
		b->places[b->path[i]] = PARCA_NONE;
	b->placed = 0;
	b->root = 0;
	b->labels = b->profile->label_sets[labels].count ? labels : 0;
	struct parca_row row = unknown_row;
	row.depth = 1;
	row.labels = b->labels;
	row.labels_only = true;
	int r = 0;
	if (b->labels && intern_add(&graph->keys, &key, sizeof(key), &b->root) < 0)
		r = error_nomem(err);
	if (!r && b->labels)
		r = add_row(graph, &row, &b->root, err);
	b->places[0] = b->root;
	return r;
}

static int build_graph(struct builder *b, struct error *err)
{
	const struct profile *profile = b->profile;
	struct parca_graph *graph = b->graph;
	int r = begin_group(b, 0, err);
	for (size_t i = 0; !r && i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[b->order[i]];
		uint32_t row;
		if (cancel_requested(graph->options.cancel))
			return error_set(err, -ECANCELED, "the client disconnected");
		if (graph->options.by_labels && sample->labels != b->labels)
			r = begin_group(b, sample->labels, err);
		if (!r)
			r = place_stack(b, sample->stack, &row, err);
		if (r < 0)
			return r;
		sum_to(&graph->rows[row].total, value_of(b, b->order[i]));
		sum_to(&graph->rows[row].base, base_of(b, b->order[i]));
		if (sample->stack)
			sum_to(&graph->rows[row].self, value_of(b, b->order[i]));
	}
	for (size_t i = graph->count; !r && i-- > 1;) {
		struct parca_row *parent = &graph->rows[graph->rows[i].parent];
		sum_to(&parent->total, graph->rows[i].total);
		sum_to(&parent->base, graph->rows[i].base);
	}
	return r;
}

/* ---- a chart ---- */

static int place_sample(struct builder *b, size_t which, struct error *err)
{
	const struct profile_sample *sample = &b->profile->samples[which];
	int64_t value = value_of(b, which);
	uint32_t row = b->root;
	size_t count = 0;
	int r = 0;
	b->time_ns = sample->time_ns;
	if (b->root)
		sum_to(&b->graph->rows[b->root].total, value);
	for (uint32_t at = sample->stack; at; at = b->profile->stacks[at].parent)
		b->path[count++] = at;
	while (!r && count-- > 0) {
		uint32_t first = row;
		r = place_location(b, b->profile->stacks[b->path[count]].location, &row, err);
		for (uint32_t at = row; !r && at != first; at = b->graph->rows[at].parent)
			sum_to(&b->graph->rows[at].total, value);
	}
	if (!r && sample->stack)
		sum_to(&b->graph->rows[row].self, value);
	return r;
}

static int build_chart(struct builder *b, struct error *err)
{
	const struct profile *profile = b->profile;
	int r = begin_group(b, 0, err);
	for (size_t i = 0; !r && i < profile->sample_count; i++) {
		uint32_t labels = profile->samples[b->order[i]].labels;
		if (cancel_requested(b->graph->options.cancel))
			return error_set(err, -ECANCELED, "the client disconnected");
		if (b->graph->options.by_labels && labels != b->labels)
			r = begin_group(b, labels, err);
		if (!r)
			r = place_sample(b, b->order[i], err);
	}
	return r;
}

/* ---- what is shown ---- */

/* The sum of siblings goes before each of them: largest first; or in order of time. Rows that are equal stay in theirs. */
DEFINE_ORDER_OF_PLACES(compare_totals, struct parca_row, ORDER(b->total, a->total) ?: (a > b) - (a < b));
DEFINE_ORDER_OF_PLACES(compare_times, struct parca_row, ORDER(a->time_ns, b->time_ns) ?: (a > b) - (a < b));
DEFINE_ORDER(compare_falling, int64_t, ORDER(*b, *a));

/* All rows by their parent: those of row i are items[first[i]] up to first[i + 1]. */
struct children {
	uint32_t *items, *first;
};

static void children_release(struct children *children)
{
	mem_free(children->items);
	mem_free(children->first);
}

static int children_init(struct children *children, const struct parca_graph *graph, struct error *err)
{
	size_t count = graph->count;
	children->items = mem_alloc_array(count, sizeof(*children->items));
	children->first = mem_zalloc_array(count + 2, sizeof(*children->first));
	if (!children->items || !children->first)
		return error_nomem(err);
	for (size_t i = 1; i < count; i++)
		children->first[graph->rows[i].parent + 2]++;
	for (size_t i = 2; i < count + 2; i++)
		children->first[i] += children->first[i - 1];
	for (size_t i = 1; i < count; i++)
		children->items[children->first[graph->rows[i].parent + 1]++] = (uint32_t)i;
	for (size_t i = 0; i < count; i++)
		sort_array_by(children->items + children->first[i], children->first[i + 1] - children->first[i],
			      graph->options.by_time ? compare_times : compare_totals, graph->rows);
	return 0;
}

/* Rows with more than *ret_above are shown, and of those that have as much, *ret_equal. */
static int choose_largest(const struct parca_graph *graph, int64_t *ret_above, size_t *ret_equal, struct error *err)
{
	*ret_above = 0;
	*ret_equal = 0;
	if (graph->count <= PARCA_GRAPH_SHOWN_MAX)
		return 0;
	_cleanup_(mem_freep) int64_t *totals = mem_alloc_array(graph->count, sizeof(*totals));
	if (!totals)
		return error_nomem(err);
	for (size_t i = 0; i < graph->count; i++)
		totals[i] = graph->rows[i].total;
	sort_array(totals, graph->count, compare_falling);
	if (totals[PARCA_GRAPH_SHOWN_MAX] <= 0)
		return 0;
	*ret_above = totals[PARCA_GRAPH_SHOWN_MAX];
	for (size_t i = PARCA_GRAPH_SHOWN_MAX; i-- > 0 && totals[i] == *ret_above;)
		++*ret_equal;
	return 0;
}

static void show(struct parca_graph *graph, uint32_t row, uint32_t parent, int64_t offset)
{
	graph->shown[graph->shown_count] = row;
	graph->shown_parents[graph->shown_count] = parent;
	graph->offsets[graph->shown_count++] = offset;
}

/* By breadth. */
static void show_rows(struct parca_graph *graph, const struct children *children, int64_t above, size_t equal)
{
	int64_t of_root = 0;
	show(graph, 0, 0, 0);
	for (size_t at = 0; at < graph->shown_count; at++) {
		uint32_t row = graph->shown[at];
		int64_t total = at ? graph->rows[row].total : graph->total, offset = graph->offsets[at];
		/* In single precision, as Parca's server reckons. */
		double least = (double)((float)total * ((float)graph->options.threshold / 100));
		for (uint32_t i = children->first[row]; i < children->first[row + 1]; i++) {
			int64_t value = graph->rows[children->items[i]].total;
			bool is_equal = above && value == above && equal > 0;
			if (value <= 0 || (double)value <= floor(least) || (value <= above && !is_equal)) {
				sum_to(&graph->trimmed, value);
				continue;
			}
			equal -= is_equal;
			show(graph, children->items[i], (uint32_t)at, offset);
			sum_to(&offset, value);
			sum_to(&of_root, at ? 0 : value);
		}
	}
	graph->rows[0].total = of_root;
}

static int choose_rows(struct parca_graph *graph, struct error *err)
{
	_cleanup_(children_release) struct children children = {0};
	int64_t above;
	size_t equal;
	graph->shown = mem_alloc_array(graph->count, sizeof(*graph->shown));
	graph->shown_parents = mem_alloc_array(graph->count, sizeof(*graph->shown_parents));
	graph->offsets = mem_alloc_array(graph->count, sizeof(*graph->offsets));
	if (!graph->shown || !graph->shown_parents || !graph->offsets)
		return error_nomem(err);
	int r = children_init(&children, graph, err);
	if (!r)
		r = choose_largest(graph, &above, &equal, err);
	if (!r)
		show_rows(graph, &children, above, equal);
	return r;
}

/* ---- all of it ---- */

DEFINE_ORDER_OF_PLACES(compare_by_labels, struct profile_sample, ORDER(a->labels, b->labels));
DEFINE_ORDER_OF_PLACES(compare_by_time, struct profile_sample,
		       ORDER(a->labels, b->labels) ?: ORDER(a->time_ns, b->time_ns) ?: (a > b) - (a < b));

static int builder_init(struct builder *b, struct parca_graph *graph, struct error *err)
{
	const struct profile *profile = graph->profile;
	*b = (struct builder){.graph = graph, .profile = profile, .types = profile->sample_type_count};
	b->order = mem_alloc_array(profile->sample_count + 1, sizeof(*b->order));
	b->places = mem_alloc_array(profile->stack_count, sizeof(*b->places));
	b->path = mem_alloc_array(profile->stack_count, sizeof(*b->path));
	if (!b->order || !b->places || !b->path)
		return error_nomem(err);
	memset(b->places, 0xff, profile->stack_count * sizeof(*b->places));
	for (size_t i = 0; i < profile->sample_count; i++)
		b->order[i] = (uint32_t)i;
	if (graph->options.by_time || graph->options.by_labels)
		sort_array_by(b->order, profile->sample_count, graph->options.by_time ? compare_by_time : compare_by_labels,
			      profile->samples);
	for (size_t i = 0; i < profile->sample_count; i++)
		sum_to(&graph->total, value_of(b, i));
	return 0;
}

int parca_graph_build(const struct profile *profile, const struct parca_graph_options *options, struct parca_graph *ret,
		      struct error *err)
{
	struct parca_row root = unknown_row;
	_cleanup_(builder_release) struct builder b = {0};
	uint32_t first;
	root.has_inlined = true;
	*ret = (struct parca_graph){.profile = profile, .options = *options};
	int r = intern_init(&ret->keys, SIZE_MAX) < 0 ? error_nomem(err) : add_row(ret, &root, &first, err);
	if (!r)
		r = builder_init(&b, ret, err);
	if (!r)
		r = options->by_time ? build_chart(&b, err) : build_graph(&b, err);
	if (!r)
		r = choose_rows(ret, err);
	if (r < 0) {
		parca_graph_release(ret);
		*ret = (struct parca_graph){0};
	}
	return r;
}

int64_t parca_graph_diff(const struct parca_graph *graph, const struct parca_row *row)
{
	int64_t total = row == graph->rows ? graph->total : row->total;
	if (graph->profile->sample_type_count < 2)
		return 0;
	return parca_difference(total, row->base, graph->options.scale);
}
