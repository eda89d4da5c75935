/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's sampled heap profiles, .heapprofile (https://chromedevtools.github.io/devtools-protocol/tot/HeapProfiler/, type
 * SamplingHeapProfile): what `node --heap-prof` and "Allocation sampling" of Chrome's DevTools save. A call tree,
 *
 *   {"head": {"callFrame": {functionName, url, lineNumber, columnNumber}, "selfSize": N, "id": N, "children": [...]},
 *    "samples": [{"size": N, "nodeId": N, "ordinal": N} ...]}
 *
 * whose nodes have the bytes that are in use, allocated by the function itself; V8 has scaled them by the chance of being
 * sampled. Where there are samples, they count how many of them are of a node. Lines and columns count from 0, those of
 * functions.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "format/cpuprofile.h"

#define DETECT_BYTES (64 * KIB)

struct pending {
	const struct json_node *node;
	uint32_t parent; /* stack */
};

struct reader {
	struct profile *profile;
	struct map64 samples_of_node;
	bool has_samples;
	struct pending *pending;
	size_t count, capacity;
	uint64_t stray_samples;
};

static int count_samples(struct reader *reader, const struct json_node *samples, struct error *err)
{
	reader->has_samples = json_node_is(samples, JSON_NODE_ARRAY);
	for (size_t i = 0; reader->has_samples && i < samples->count; i++) {
		int64_t node;
		if (!json_node_integer(json_node_get(json_node_at(samples, i), "nodeId"), &node))
			reader->stray_samples++;
		else if (map64_add(&reader->samples_of_node, (uint64_t)node, 1) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int add_frame(struct reader *reader, const struct json_node *node, uint32_t parent, uint32_t *ret, struct error *err)
{
	const struct json_node *call = json_node_get(node, "callFrame");
	uint32_t id;
	if (!json_node_text(json_node_get(call, "functionName")))
		return error_set(err, -EBADMSG, "a node has no functionName");
	int r = cpuprofile_add_call_frame(reader->profile, call, &id, err);
	return r < 0 ? r : profile_add_stack(reader->profile, parent, id, ret, err);
}

static int push_children(struct reader *reader, const struct json_node *node, uint32_t stack, struct error *err)
{
	const struct json_node *children = json_node_get(node, "children");
	for (size_t i = json_node_is(children, JSON_NODE_ARRAY) ? children->count : 0; i-- > 0;)
		if (array_push(&reader->pending, &reader->count, &reader->capacity, UINT32_MAX,
			       (struct pending){json_node_at(children, i), stack}) < 0)
			return error_nomem(err);
	return 0;
}

static int add_node(struct reader *reader, const struct pending *at, bool is_root, struct error *err)
{
	struct profile_sample sample = {.stack = at->parent};
	int64_t values[2] = {0}, id;
	uint64_t samples = 0;
	/* The root stands for the program and is no function. */
	int r = is_root ? 0 : add_frame(reader, at->node, at->parent, &sample.stack, err);
	if (r == 0)
		r = push_children(reader, at->node, sample.stack, err);
	if (r < 0)
		return r;
	json_node_integer(json_node_get(at->node, "selfSize"), &values[0]);
	if (json_node_integer(json_node_get(at->node, "id"), &id) &&
	    map64_get(&reader->samples_of_node, (uint64_t)id, &samples))
		map64_remove(&reader->samples_of_node, (uint64_t)id);
	values[1] = (int64_t)samples;
	if (reader->has_samples) {
		values[1] = values[0];
		values[0] = (int64_t)samples;
	}
	return values[0] || values[1] ? profile_add_sample(reader->profile, &sample, values, err) : 0;
}

static int read_all(struct reader *reader, const struct json_node *root, struct error *err)
{
	const struct json_node *head = json_node_get(root, "head");
	uint64_t id, samples;
	size_t cursor = 0;
	if (!json_node_is(head, JSON_NODE_OBJECT))
		return error_set(err, -EBADMSG, "no object head");
	int r = count_samples(reader, json_node_get(root, "samples"), err);
	if (r == 0 && reader->has_samples)
		r = profile_add_named_type(reader->profile, "samples", "count", err);
	if (r == 0)
		r = profile_add_named_type(reader->profile, "inuse_space", "bytes", err);
	if (r == 0)
		r = add_node(reader, &(struct pending){.node = head}, true, err);
	while (r == 0 && reader->count > 0) {
		struct pending next = reader->pending[--reader->count];
		r = add_node(reader, &next, false, err);
	}
	while (map64_next(&reader->samples_of_node, &cursor, &id, &samples))
		reader->stray_samples += samples;
	return r;
}

static int decode(struct bytes input, const struct format_options *options, struct profile **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *json = NULL;
	struct reader reader = {0};
	map64_init_guarded(&reader.samples_of_node);
	int r = format_begin_json(input, &json, &reader.profile, err);
	if (r == 0)
		r = read_all(&reader, json_tree_root(json), err);
	const struct format_left_out left_out = {reader.stray_samples, "samples of nodes that are not in the file"};
	if (r == 0)
		r = format_note(options, &left_out, 1, err);
	r = format_finish(r, reader.profile, ret);
	map64_release(&reader.samples_of_node);
	mem_free(reader.pending);
	return r;
}

/* An object with a head whose nodes have sizes, near its beginning. */
static bool detect(struct bytes input)
{
	size_t len = input.len < DETECT_BYTES ? input.len : DETECT_BYTES;
	return json_looks_like_object(input) && memmem(input.data, len, "\"head\"", 6) &&
	       memmem(input.data, len, "\"selfSize\"", 10) && memmem(input.data, len, "\"functionName\"", 14);
}

const struct format format_heapprofile = {
	.name = "heapprofile",
	.extensions = ".heapprofile",
	.description = "V8's sampled heap profiles: node --heap-prof, Chrome's DevTools",
	.detect = detect,
	.decode = decode,
};
