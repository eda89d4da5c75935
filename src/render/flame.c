/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building the flame tree.
 *
 * The profile's stacks are a trie of locations; the flame tree is a trie of functions: several locations of one function become
 * one node, and a location with inlined functions becomes several. So each stack of the profile has one node, found by way of
 * its parent's node, remembered in an array, and looked for once. Children are found in a hash table over (parent, name, file,
 * binary, frame type), all of them small integers; the first child of most nodes is the node behind it, which is looked at
 * before the table is asked, and is not in the table. Values are added where samples end, and summed towards the root in one
 * backward pass, since parents come before children.
 *
 * At last the nodes are put in pre-order, siblings by falling total. All that is drawn of the tree is then a single walk over
 * an array, without recursion (a stack may have 4096 frames, each with any number of inlined functions) and without an order to
 * be agreed upon.
 */
#include "render/flame.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "render/flame_int.h"

/* What tells siblings apart. */
struct frame_key {
	uint32_t name, file, binary, frame_type;
};

struct builder {
	const struct profile *profile;
	struct flame *flame;
	enum flame_unnamed unnamed;
	size_t node_capacity;
	struct index32 children;
	/* From the profile's ids to the flame's; 0 = not known yet. */
	uint32_t *nodes;     /* by stack */
	uint32_t *strings;   /* by string */
	uint32_t *binaries;  /* by mapping: string id + 1 */
	uint32_t *addresses; /* by location: the name made of its address */
	uint32_t *path;
};

static void builder_release(struct builder *builder)
{
	index32_release(&builder->children);
	builder->nodes = mem_free(builder->nodes);
	builder->strings = mem_free(builder->strings);
	builder->binaries = mem_free(builder->binaries);
	builder->addresses = mem_free(builder->addresses);
	builder->path = mem_free(builder->path);
}

static int builder_init(struct builder *builder, const struct profile *profile, struct flame *flame, struct error *err)
{
	*builder = (struct builder){.profile = profile, .flame = flame};
	index32_init(&builder->children);
	builder->nodes = mem_zalloc_array(profile->stack_count, sizeof(uint32_t));
	builder->strings = mem_zalloc_array(profile->strings.count, sizeof(uint32_t));
	builder->binaries = mem_zalloc_array(profile->mapping_count, sizeof(uint32_t));
	builder->addresses = mem_zalloc_array(profile->location_count, sizeof(uint32_t));
	builder->path = mem_alloc_array(LIMIT_STACK_DEPTH, sizeof(uint32_t));
	if (!builder->nodes || !builder->strings || !builder->binaries || !builder->addresses || !builder->path)
		return error_nomem(err);
	return 0;
}

/* ---- names ---- */

static int add_string(struct flame *flame, const void *data, size_t len, uint32_t *ret, struct error *err)
{
	int r = intern_add(&flame->strings, data, len, ret);
	if (r == -E2BIG)
		return error_set(err, r, "the names of the flame graph have more than %zu bytes, the limit",
				 flame->strings.arena.max_bytes);
	return r < 0 ? error_nomem(err) : 0;
}

static int take_string(struct builder *builder, uint32_t id, uint32_t *ret, struct error *err)
{
	if (id != 0 && builder->strings[id] == 0) {
		struct bytes text = profile_string_bytes(builder->profile, id);
		int r = add_string(builder->flame, text.data, text.len, &builder->strings[id], err);
		if (r < 0)
			return r;
	}
	*ret = builder->strings[id];
	return 0;
}

/* "/usr/bin/a" and "/usr/bin/a (deleted)" are "a". */
static struct bytes base_name(struct bytes path)
{
	static const char deleted[] = " (deleted)";
	size_t suffix = sizeof(deleted) - 1;
	if (path.len > suffix && memcmp(path.data + path.len - suffix, deleted, suffix) == 0)
		path.len -= suffix;
	const uint8_t *slash = memrchr(path.data, '/', path.len);
	if (!slash || slash + 1 == path.data + path.len)
		return path;
	return (struct bytes){slash + 1, (size_t)(path.data + path.len - slash - 1)};
}

static int take_binary(struct builder *builder, uint32_t mapping, uint32_t *ret, struct error *err)
{
	if (builder->binaries[mapping] == 0) {
		struct bytes name =
			base_name(profile_string_bytes(builder->profile, builder->profile->mappings[mapping].file_name));
		int r = add_string(builder->flame, name.data, name.len, ret, err);
		if (r < 0)
			return r;
		builder->binaries[mapping] = *ret + 1;
	}
	*ret = builder->binaries[mapping] - 1;
	return 0;
}

/* "BINARY+0xOFFSET", or "0xADDRESS" without a binary; "[BINARY]" or "<unknown>" when addresses do not matter. */
static int write_address(const struct builder *builder, uint32_t location, struct bytes binary, struct buffer *out)
{
	int len = (int)binary.len;
	if (builder->unnamed == FLAME_UNNAMED_BY_BINARY)
		return len == 0		       ? buffer_append_string(out, "<unknown>")
		       : binary.data[0] == '[' ? buffer_append(out, binary.data, binary.len)
					       : buffer_printf(out, "[%.*s]", len, (const char *)binary.data);
	if (len == 0)
		return buffer_printf(out, "0x%" PRIx64, builder->profile->locations[location].address);
	return buffer_printf(out, "%.*s+0x%" PRIx64, len, (const char *)binary.data,
			     profile_location_file_offset(builder->profile, location));
}

static int take_address(struct builder *builder, uint32_t location, uint32_t binary, uint32_t *ret, struct error *err)
{
	if (builder->addresses[location] == 0) {
		_cleanup_(buffer_release) struct buffer text;
		buffer_init(&text, SIZE_MAX);
		if (write_address(builder, location, intern_get(&builder->flame->strings, binary), &text) < 0)
			return error_nomem(err);
		int r = add_string(builder->flame, text.data, text.len, &builder->addresses[location], err);
		if (r < 0)
			return r;
	}
	*ret = builder->addresses[location];
	return 0;
}

static bool is_kernel_binary(const struct flame *flame, uint32_t binary)
{
	static const char prefix[] = "[kernel";
	struct bytes name = intern_get(&flame->strings, binary);
	return name.len >= sizeof(prefix) - 1 && memcmp(name.data, prefix, sizeof(prefix) - 1) == 0;
}

/* The key of one line of a location, or of the location itself when `line` is NULL. */
static int make_key(struct builder *builder, uint32_t location, const struct profile_line *line, struct frame_key *ret,
		    struct error *err)
{
	const struct profile *profile = builder->profile;
	*ret = (struct frame_key){.frame_type = profile->locations[location].frame_type & 7};
	int r = take_binary(builder, profile->locations[location].mapping, &ret->binary, err);
	if (r < 0)
		return r;
	if (ret->frame_type == PROFILE_FRAME_UNKNOWN && is_kernel_binary(builder->flame, ret->binary))
		ret->frame_type = PROFILE_FRAME_KERNEL;
	if (line) {
		const struct profile_function *function = &profile->functions[line->function];
		r = take_string(builder, function->name ? function->name : function->system_name, &ret->name, err);
		if (r == 0)
			r = take_string(builder, function->file_name, &ret->file, err);
	}
	return r < 0 || ret->name ? r : take_address(builder, location, ret->binary, &ret->name, err);
}

/* ---- nodes ---- */

static bool is_child(const struct flame_node *node, uint32_t parent, const struct frame_key *key)
{
	return node->parent == parent && node->name == key->name && node->file == key->file && node->binary == key->binary &&
	       node->frame_type == key->frame_type;
}

static bool find_child(const struct builder *builder, uint64_t hash, uint32_t parent, const struct frame_key *key,
		       uint32_t *ret)
{
	for (size_t at = index32_first(&builder->children, hash); index32_at(&builder->children, hash, &at, ret); at++)
		if (is_child(&builder->flame->nodes[*ret], parent, key))
			return true;
	return false;
}

static int new_node(struct builder *builder, struct flame_node node, uint32_t *ret, struct error *err)
{
	struct flame *flame = builder->flame;
	int r = array_reserve(&flame->nodes, &builder->node_capacity, flame->count + 1, FLAME_NODES_MAX);
	if (r == -E2BIG)
		return error_set(err, r, "the flame graph has more than %u nodes, the limit; select less", FLAME_NODES_MAX);
	if (r < 0)
		return error_nomem(err);
	*ret = (uint32_t)flame->count++;
	flame->nodes[*ret] = node;
	return 0;
}

static int take_child(struct builder *builder, uint32_t parent, const struct frame_key *key, bool inlined, uint32_t *ret,
		      struct error *err)
{
	struct flame *flame = builder->flame;
	uint64_t hash = hash64_mix((uint64_t)parent << 32 | key->name);
	hash = hash64_mix(hash ^ ((uint64_t)key->file << 32 | key->binary)) + key->frame_type;
	*ret = parent + 1;
	if ((parent + 1 < flame->count && is_child(&flame->nodes[parent + 1], parent, key)) ||
	    find_child(builder, hash, parent, key, ret)) {
		flame->nodes[*ret].inlined &= inlined;
		return 0;
	}
	bool is_next = parent + 1 == flame->count;
	if (!is_next && index32_reserve(&builder->children, 1) < 0)
		return error_nomem(err);
	struct flame_node node = {
		.parent = parent,
		.name = key->name,
		.file = key->file,
		.binary = key->binary,
		.frame_type = key->frame_type,
		.depth = flame->nodes[parent].depth + 1,
		.inlined = inlined,
	};
	int r = new_node(builder, node, ret, err);
	return r < 0 || is_next ? r : index32_add(&builder->children, hash, *ret);
}

/* The nodes of one location below `parent`, the function that contains the inlined ones first. */
static int take_location(struct builder *builder, uint32_t parent, uint32_t location, uint32_t *ret, struct error *err)
{
	const struct profile_location *entry = &builder->profile->locations[location];
	struct frame_key key;
	int r = 0;
	if (entry->line_count == 0) {
		r = make_key(builder, location, NULL, &key, err);
		return r < 0 ? r : take_child(builder, parent, &key, false, ret, err);
	}
	for (uint32_t i = entry->line_count; i-- > 0;) {
		r = make_key(builder, location, &builder->profile->lines[entry->line_first + i], &key, err);
		if (r == 0)
			r = take_child(builder, parent, &key, i + 1 < entry->line_count, &parent, err);
		if (r < 0)
			return r;
	}
	*ret = parent;
	return 0;
}

/* Up to the nearest stack that has a node, and down again. The root's node is 0, as is the empty stack. */
static int take_stack(struct builder *builder, uint32_t stack, uint32_t *ret, struct error *err)
{
	const struct profile *profile = builder->profile;
	size_t depth = 0;
	for (; stack != 0 && builder->nodes[stack] == 0; stack = profile->stacks[stack].parent)
		builder->path[depth++] = stack;
	uint32_t node = builder->nodes[stack];
	while (depth > 0) {
		stack = builder->path[--depth];
		int r = take_location(builder, node, profile->stacks[stack].location, &node, err);
		if (r < 0)
			return r;
		builder->nodes[stack] = node;
	}
	*ret = node;
	return 0;
}

static void add_value(int64_t *to, int64_t value)
{
	*to = (int64_t)((uint64_t)*to + (uint64_t)value);
}

static int add_samples(struct builder *builder, size_t sample_type, struct error *err)
{
	const struct profile *profile = builder->profile;
	struct flame *flame = builder->flame;
	for (size_t i = 0; i < profile->sample_count; i++) {
		int64_t value = profile->values[i * profile->sample_type_count + sample_type];
		uint32_t node;
		if (value == 0)
			continue;
		int r = take_stack(builder, profile->samples[i].stack, &node, err);
		if (r < 0)
			return r;
		add_value(&flame->nodes[node].self, value);
		flame->sample_count++;
	}
	for (size_t i = 0; i < flame->count; i++)
		flame->nodes[i].total = flame->nodes[i].self;
	for (size_t i = flame->count; i-- > 1;)
		add_value(&flame->nodes[flame->nodes[i].parent].total, flame->nodes[i].total);
	flame->total = flame->nodes[0].total;
	return 0;
}

/* ---- order ---- */

static int compare_siblings(const void *left, const void *right, void *context)
{
	const struct flame *flame = context;
	uint32_t a_id = *(const uint32_t *)left, b_id = *(const uint32_t *)right;
	const struct flame_node *a = &flame->nodes[a_id], *b = &flame->nodes[b_id];
	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	int order = strcmp(intern_string(&flame->strings, a->name), intern_string(&flame->strings, b->name));
	return order ? order : (a_id > b_id) - (a_id < b_id);
}

/* Sorts children of all nodes into one array: those of node i are children[start[i] .. start[i + 1] - 1]. */
static void sort_children(const struct flame *flame, uint32_t *start, uint32_t *children)
{
	for (size_t i = 1; i < flame->count; i++)
		start[flame->nodes[i].parent + 1]++;
	for (size_t i = 0; i < flame->count; i++)
		start[i + 1] += start[i];
	/* Filled from the back, so that each start ends where it belongs. */
	for (size_t i = flame->count; i-- > 1;)
		children[--start[flame->nodes[i].parent + 1]] = (uint32_t)i;
	memmove(start, start + 1, flame->count * sizeof(*start));
	start[flame->count] = (uint32_t)flame->count - 1;
	for (size_t i = 0; i < flame->count; i++)
		if (start[i + 1] - start[i] > 1)
			qsort_r(children + start[i], start[i + 1] - start[i], sizeof(*children), compare_siblings,
				(void *)flame);
}

/* Pre-order with a stack of nodes to visit; children are pushed from the last to the first. */
static void write_in_order(const struct flame *flame, const uint32_t *start, const uint32_t *children, uint32_t *stack,
			   uint32_t *position, struct flame_node *out)
{
	size_t pending = 0;
	uint32_t count = 0;
	stack[pending++] = 0;
	while (pending > 0) {
		uint32_t id = stack[--pending];
		position[id] = count;
		out[count] = flame->nodes[id];
		out[count].parent = position[flame->nodes[id].parent];
		count++;
		for (uint32_t i = start[id + 1]; i-- > start[id];)
			stack[pending++] = children[i];
	}
	assert(count == flame->count);
}

int flame_put_in_order(struct flame *flame, uint32_t *ret_position, struct error *err)
{
	size_t count = flame->count;
	_cleanup_(mem_freep) uint32_t *start = mem_zalloc_array(count + 1, sizeof(*start));
	_cleanup_(mem_freep) uint32_t *children = mem_alloc_array(count, sizeof(*children));
	_cleanup_(mem_freep) uint32_t *stack = mem_alloc_array(count, sizeof(*stack));
	_cleanup_(mem_freep) uint32_t *position = mem_alloc_array(count, sizeof(*position));
	struct flame_node *ordered = mem_alloc_array(count, sizeof(*ordered));
	if (!start || !children || !stack || !position || !ordered) {
		mem_free(ordered);
		return error_nomem(err);
	}
	sort_children(flame, start, children);
	write_in_order(flame, start, children, stack, position, ordered);
	mem_free(flame->nodes);
	flame->nodes = ordered;
	if (ret_position)
		memcpy(ret_position, position, count * sizeof(*position));
	return 0;
}

/* ---- life ---- */

static void copy_text(char *out, size_t size, struct bytes text)
{
	size_t len = text.len < size - 1 ? text.len : size - 1;
	if (len > 0)
		memcpy(out, text.data, len);
	out[len] = '\0';
}

static int add_root(struct builder *builder, struct error *err)
{
	uint32_t id, name;
	int r = add_string(builder->flame, "total", strlen("total"), &name, err);
	return r < 0 ? r : new_node(builder, (struct flame_node){.name = name}, &id, err);
}

int flame_build(const struct profile *profile, size_t sample_type, enum flame_unnamed unnamed, struct flame **ret,
		struct error *err)
{
	/* Without sample types there are no samples, and the tree is its root. */
	bool empty = profile->sample_type_count == 0;
	assert(empty || sample_type < profile->sample_type_count);
	_cleanup_(flame_freep) struct flame *flame = mem_zalloc(sizeof(*flame));
	if (!flame || intern_init(&flame->strings, LIMIT_PROFILE_STRING_BYTES) < 0)
		return error_nomem(err);
	if (!empty) {
		const struct profile_value_type *type = &profile->sample_types[sample_type];
		copy_text(flame->type, sizeof(flame->type), profile_string_bytes(profile, type->type));
		copy_text(flame->unit, sizeof(flame->unit), profile_string_bytes(profile, type->unit));
	}
	_cleanup_(builder_release) struct builder builder = {0};
	int r = builder_init(&builder, profile, flame, err);
	builder.unnamed = unnamed;
	if (r == 0)
		r = add_root(&builder, err);
	if (r == 0 && !empty)
		r = add_samples(&builder, sample_type, err);
	if (r == 0)
		r = flame_put_in_order(flame, NULL, err);
	if (r < 0)
		return r;
	*ret = flame;
	flame = NULL;
	return 0;
}

struct flame *flame_free(struct flame *flame)
{
	if (!flame)
		return NULL;
	intern_release(&flame->strings);
	mem_free(flame->nodes);
	return mem_free(flame);
}

/* ---- JSON ---- */

void flame_write_strings(const struct flame *flame, struct json_writer *json)
{
	json_key(json, "strings");
	json_begin_array(json);
	for (size_t i = 0; i < flame->strings.count; i++)
		json_bytes(json, intern_get(&flame->strings, (uint32_t)i));
	json_end_array(json);
}

enum column { COLUMN_PARENT, COLUMN_NAME, COLUMN_FILE, COLUMN_BINARY, COLUMN_KIND, COLUMN_TOTAL, COLUMN_SELF, COLUMN_COUNT };

static int64_t cell(const struct flame_node *node, enum column column)
{
	switch (column) {
	case COLUMN_PARENT: return node->parent;
	case COLUMN_NAME: return node->name;
	case COLUMN_FILE: return node->file;
	case COLUMN_BINARY: return node->binary;
	case COLUMN_KIND: return node->frame_type + (node->inlined ? 8 : 0);
	case COLUMN_TOTAL: return node->total;
	default: return node->self;
	}
}

void flame_write_nodes(const struct flame *flame, struct json_writer *json)
{
	static const char *const names[COLUMN_COUNT] = {"parent", "name", "file", "binary", "kind", "total", "self"};
	for (enum column column = 0; column < COLUMN_COUNT; column++) {
		json_key(json, names[column]);
		json_begin_array(json);
		for (size_t i = 0; i < flame->count; i++)
			json_int(json, cell(&flame->nodes[i], column));
		json_end_array(json);
	}
}

void flame_write_json(const struct flame *flame, struct json_writer *json)
{
	json_begin_object(json);
	json_key(json, "type");
	json_string(json, flame->type);
	json_key(json, "unit");
	json_string(json, flame->unit);
	json_key(json, "total");
	json_int(json, flame->total);
	json_key(json, "samples");
	json_uint(json, flame->sample_count);
	flame_write_strings(flame, json);
	json_key(json, "nodes");
	json_begin_object(json);
	flame_write_nodes(flame, json);
	json_end_object(json);
	json_end_object(json);
}
