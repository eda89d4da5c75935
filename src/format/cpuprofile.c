/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's CPU profiles, .cpuprofile (https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile): what
 * `node --cpu-prof` and Chrome's DevTools save. A call tree, whose nodes list their children or name their parent; samples,
 * each a node; and the time between samples in microseconds, the first since startTime.
 *
 * A sample lasts until the next one, the last until endTime. Differences may be negative, since V8's threads write them:
 * samples are put in the order of their times first, as DevTools does. Times count from an origin that the file does not tell,
 * so they are from 1970 here. Files without samples, as old versions wrote, have how often each node was hit. Lines and columns
 * count from 0 in the file; they are those of the functions, and where in them time was spent is not told by sample.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/time.h"
#include "format/cpuprofile.h"

struct node {
	const struct json_node *json;
	uint32_t parent; /* + 1; 0 = the root */
	uint32_t stack;	 /* once `done` */
	uint32_t location;
	bool done;
};

struct sample {
	int64_t time_us;
	int32_t line, column; /* where in the leaf's function; 0 = not told */
	uint32_t node;
	uint32_t number; /* in the file */
	bool is_missing; /* its node; the sample before it ends here all the same */
};

struct cpuprofile_tree {
	struct profile *profile;
	struct node *nodes;
	size_t node_count, node_capacity;
	struct map64 by_id;
	struct sample *samples;
	size_t sample_count, sample_capacity;
	int64_t time_us; /* of the last sample */
	bool has_samples;
	struct cpuprofile_missing *missing;
	uint32_t path[LIMIT_STACK_DEPTH];
};

static bool find_node(const struct cpuprofile_tree *tree, const struct json_node *id, uint32_t *ret)
{
	int64_t number;
	return json_node_integer(id, &number) && format_known(&tree->by_id, (uint64_t)number, ret);
}

/* Both count from 0. */
static int64_t place_of(const struct json_node *call, const char *name)
{
	int64_t number;
	bool known = json_node_integer(json_node_get(call, name), &number) && number >= 0 && number < INT32_MAX;
	return known ? number + 1 : 0;
}

int cpuprofile_add_call_frame(struct profile *profile, const struct json_node *call, uint32_t *ret_location, struct error *err)
{
	struct format_frame frame = {.name = json_node_bytes(json_node_get(call, "functionName")),
				     .file = json_node_bytes(json_node_get(call, "url")),
				     .start_line = place_of(call, "lineNumber"),
				     .column = place_of(call, "columnNumber")};
	if (frame.name.len == 0)
		frame.name = bytes_of_string("(anonymous)");
	/* Functions of one line are distinguished by the column. */
	frame.line = frame.start_line;
	/* "(program)", "(garbage collector)" and the like are in no file. */
	frame.type = frame.file.len ? PROFILE_FRAME_JIT : PROFILE_FRAME_UNKNOWN;
	return format_add_frame(profile, &frame, ret_location, err);
}

static int read_function(struct cpuprofile_tree *tree, struct node *node, struct error *err)
{
	const struct json_node *call = json_node_get(node->json, "callFrame");
	/* Before 2016 the fields were the node's own. */
	call = call ? call : node->json;
	if (!json_node_text(json_node_get(call, "functionName")))
		return error_set(err, -EBADMSG, "no functionName");
	return cpuprofile_add_call_frame(tree->profile, call, &node->location, err);
}

static int add_node(struct cpuprofile_tree *tree, const struct json_node *json, struct error *err)
{
	size_t number = tree->node_count;
	int64_t id;
	uint64_t known;
	if (!json_node_integer(json_node_get(json, "id"), &id))
		return error_set(err, -EBADMSG, "node %zu has no id", number);
	if (map64_get(&tree->by_id, (uint64_t)id, &known))
		return error_set(err, -EBADMSG, "nodes %u and %zu have the same id", (unsigned)known, number);
	if (array_reserve(&tree->nodes, &tree->node_capacity, number + 1, UINT32_MAX - 1) < 0 ||
	    map64_put(&tree->by_id, (uint64_t)id, number) < 0)
		return error_nomem(err);
	tree->nodes[number] = (struct node){.json = json};
	int r = read_function(tree, &tree->nodes[number], err);
	if (r < 0)
		return error_prefix(err, r, "node %zu", number);
	tree->node_count++;
	return 0;
}

static int set_parent(struct cpuprofile_tree *tree, uint32_t child, uint32_t parent, struct error *err)
{
	if (tree->nodes[child].parent && tree->nodes[child].parent != parent + 1)
		return error_set(err, -EBADMSG, "node %u has two parents", child);
	tree->nodes[child].parent = parent + 1;
	return 0;
}

static int link_nodes(struct cpuprofile_tree *tree, size_t first, struct error *err)
{
	for (uint32_t i = (uint32_t)first; i < tree->node_count; i++) {
		const struct json_node *children = json_node_get(tree->nodes[i].json, "children");
		const struct json_node *parent = json_node_get(tree->nodes[i].json, "parent");
		uint32_t other;
		int r = 0;
		for (size_t k = 0; r == 0 && k < json_node_count(children); k++) {
			if (find_node(tree, json_node_at(children, k), &other))
				r = set_parent(tree, other, i, err);
			else
				tree->missing->children++;
		}
		if (r == 0 && parent && parent->kind != JSON_NODE_NULL) {
			if (find_node(tree, parent, &other))
				r = set_parent(tree, i, other, err);
			else
				tree->missing->parents++;
		}
		if (r < 0)
			return error_prefix(err, r, "node %u", i);
	}
	return 0;
}

/* The root stands for the program and is no function. */
static int stack_of(struct cpuprofile_tree *tree, uint32_t index, uint32_t *ret, struct error *err)
{
	size_t depth = 0;
	uint32_t at = index, stack = 0;
	for (; !tree->nodes[at].done && tree->nodes[at].parent; at = tree->nodes[at].parent - 1) {
		if (depth == LIMIT_STACK_DEPTH)
			return error_set(err, -E2BIG, "node %u is deeper than %d frames, the limit, or its own parent", index,
					 LIMIT_STACK_DEPTH);
		tree->path[depth++] = at;
	}
	stack = tree->nodes[at].done ? tree->nodes[at].stack : 0;
	while (depth-- > 0) {
		struct node *node = &tree->nodes[tree->path[depth]];
		int r = profile_add_stack(tree->profile, stack, node->location, &stack, err);
		if (r < 0)
			return r;
		node->stack = stack;
		node->done = true;
	}
	*ret = stack;
	return 0;
}

static int32_t small_number(const struct json_node *array, size_t i)
{
	int64_t number = 0;
	json_node_integer(json_node_at(array, i), &number);
	return number > 0 && number < INT32_MAX ? (int32_t)number : 0;
}

static int add_samples(struct cpuprofile_tree *tree, const struct cpuprofile_part *part, struct error *err)
{
	const struct json_node *samples = part->samples, *deltas = part->deltas;
	if (!json_node_is(samples, JSON_NODE_ARRAY) || !json_node_is(deltas, JSON_NODE_ARRAY) ||
	    samples->count != deltas->count)
		return error_set(err, -EBADMSG, "%zu samples, but %zu time differences", json_node_count(samples),
				 json_node_count(deltas));
	tree->has_samples = true;
	if (array_reserve(&tree->samples, &tree->sample_capacity, tree->sample_count + samples->count, UINT32_MAX) < 0)
		return error_nomem(err);
	for (uint32_t i = 0; i < samples->count; i++) {
		int64_t delta;
		if (!json_node_integer(json_node_at(deltas, i), &delta) ||
		    __builtin_add_overflow(tree->time_us, delta, &tree->time_us) || tree->time_us > INT64_MAX / NS_PER_US ||
		    tree->time_us < INT64_MIN / NS_PER_US)
			return error_set(err, -EBADMSG, "sample %u has no time, or one out of range", i);
		struct sample *sample = &tree->samples[tree->sample_count];
		*sample = (struct sample){.time_us = tree->time_us,
					  .number = (uint32_t)tree->sample_count,
					  .line = small_number(part->lines, i),
					  .column = small_number(part->columns, i)};
		sample->is_missing = !find_node(tree, json_node_at(samples, i), &sample->node);
		tree->missing->samples += sample->is_missing;
		tree->sample_count++;
	}
	return 0;
}

int cpuprofile_tree_add(struct cpuprofile_tree *tree, const struct cpuprofile_part *part, struct error *err)
{
	size_t first = tree->node_count;
	int r = 0;
	for (size_t i = 0; r == 0 && i < json_node_count(part->nodes); i++)
		r = add_node(tree, json_node_at(part->nodes, i), err);
	if (r == 0)
		r = link_nodes(tree, first, err);
	return r < 0 || !part->samples ? r : add_samples(tree, part, err);
}

DEFINE_ORDER(compare_samples, struct sample, ORDER(a->time_us, b->time_us) ?: ORDER(a->number, b->number));

/* The leaf's location is where its function begins, unless the line of the sample is known. */
static int move_to_line(struct cpuprofile_tree *tree, const struct sample *sample, uint32_t *stack, struct error *err)
{
	const struct profile_location *begin = &tree->profile->locations[tree->nodes[sample->node].location];
	struct profile_line line = {
		.function = tree->profile->lines[begin->line_first].function, .line = sample->line, .column = sample->column};
	struct profile_location location = {.frame_type = begin->frame_type};
	uint32_t id;
	if (sample->line == 0 || *stack == 0)
		return 0;
	int r = profile_add_location(tree->profile, &location, &line, 1, &id, err);
	return r < 0 ? r : profile_add_stack(tree->profile, tree->profile->stacks[*stack].parent, id, stack, err);
}

static int add_sample(struct cpuprofile_tree *tree, const struct sample *from, uint32_t labels, int64_t count, int64_t lasts_us,
		      struct error *err)
{
	/* Other values than the first two are another's. */
	int64_t values[LIMIT_SAMPLE_TYPES] = {count, lasts_us * NS_PER_US};
	struct profile_sample sample = {.time_ns = from->time_us > 0 ? from->time_us * NS_PER_US : 0, .labels = labels};
	int r = stack_of(tree, from->node, &sample.stack, err);
	if (r == 0)
		r = move_to_line(tree, from, &sample.stack, err);
	return r < 0 ? r : profile_add_sample(tree->profile, &sample, values, err);
}

/* Files without samples. */
static int read_hits(struct cpuprofile_tree *tree, uint32_t labels, struct error *err)
{
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < tree->node_count; i++) {
		int64_t hits;
		if (json_node_integer(json_node_get(tree->nodes[i].json, "hitCount"), &hits) && hits > 0)
			r = add_sample(tree, &(struct sample){.node = i}, labels, hits, 0, err);
	}
	return r;
}

int cpuprofile_tree_finish(struct cpuprofile_tree *tree, int64_t end_us, uint32_t labels, struct error *err)
{
	int r = 0;
	if (!tree->has_samples)
		return read_hits(tree, labels, err);
	sort_array(tree->samples, tree->sample_count, compare_samples);
	for (size_t i = 0; r == 0 && i < tree->sample_count; i++) {
		const struct sample *sample = &tree->samples[i];
		int64_t next = i + 1 < tree->sample_count ? sample[1].time_us : end_us, lasts;
		if (__builtin_sub_overflow(next, sample->time_us, &lasts) || lasts > INT64_MAX / NS_PER_US)
			return error_set(err, -EBADMSG, "a time is out of range");
		if (!sample->is_missing)
			r = add_sample(tree, sample, labels, 1, lasts > 0 ? lasts : 0, err);
	}
	return r;
}

int cpuprofile_tree_new(struct profile *profile, int64_t start_us, struct cpuprofile_missing *missing,
			struct cpuprofile_tree **ret, struct error *err)
{
	struct cpuprofile_tree *tree = mem_zalloc(sizeof(*tree));
	if (!tree)
		return error_nomem(err);
	map64_init_guarded(&tree->by_id);
	tree->profile = profile;
	tree->time_us = start_us;
	tree->missing = missing;
	*ret = tree;
	return 0;
}

int cpuprofile_note(const struct cpuprofile_missing *missing, const struct format_options *options, struct error *err)
{
	const struct format_left_out left_out[] = {
		{missing->samples, "samples of nodes that are not in the file"},
		{missing->children, "children that are not in the file"},
		{missing->parents, "nodes: callers, since the parent is not in the file"},
	};
	return format_note(options, left_out, sizeof(left_out) / sizeof(left_out[0]), err);
}

struct cpuprofile_tree *cpuprofile_tree_free(struct cpuprofile_tree *tree)
{
	if (tree) {
		map64_release(&tree->by_id);
		mem_free(tree->nodes);
		mem_free(tree->samples);
	}
	return mem_free(tree);
}

int cpuprofile_add_types(struct profile *profile, struct error *err)
{
	int r = profile_add_named_type(profile, "samples", "count", err);
	return r < 0 ? r : profile_add_named_type(profile, "wall", "nanoseconds", err);
}

static int read_all(struct profile *profile, const struct json_node *root, struct cpuprofile_missing *missing,
		    struct error *err)
{
	_cleanup_(cpuprofile_tree_freep) struct cpuprofile_tree *tree = NULL;
	struct cpuprofile_part part = {
		.nodes = json_node_get(root, "nodes"),
		.samples = json_node_get(root, "samples"),
		.deltas = json_node_get(root, "timeDeltas"),
	};
	int64_t start = 0, end = 0;
	json_node_integer(json_node_get(root, "startTime"), &start);
	json_node_integer(json_node_get(root, "endTime"), &end);
	if (!json_node_is(part.nodes, JSON_NODE_ARRAY) || part.nodes->count == 0)
		return error_set(err, -EBADMSG, "no array of nodes");
	int r = cpuprofile_add_types(profile, err);
	if (r == 0)
		r = cpuprofile_tree_new(profile, start, missing, &tree, err);
	if (r == 0)
		r = cpuprofile_tree_add(tree, &part, err);
	return r < 0 ? r : cpuprofile_tree_finish(tree, end, 0, err);
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct cpuprofile_missing missing = {0};
	int r = format_begin_json(input, &json, &profile, err);
	if (r == 0)
		r = read_all(profile, json_tree_root(json), &missing, err);
	if (r == 0)
		r = cpuprofile_note(&missing, options, err);
	if (r < 0)
		return r;
	*ret = TAKE(profile);
	return 0;
}

/* An object with nodes that have functions, near its beginning. */
static bool detect(struct bytes input)
{
	size_t len = input.len < 64 * 1024 ? input.len : 64 * 1024;
	return json_looks_like_object(input) && memmem(input.data, len, "\"nodes\"", 7) &&
	       memmem(input.data, len, "\"functionName\"", 14);
}

const struct format format_cpuprofile = {
	.name = "cpuprofile",
	.extensions = ".cpuprofile",
	.description = "V8's CPU profiles: node --cpu-prof, Chrome's DevTools",
	.detect = detect,
	.decode = decode,
};
