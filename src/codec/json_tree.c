// SPDX-License-Identifier: Apache-2.0
/*
 * yajl parses and calls back; values gather on a stack, and when an array or object ends its items move from there into the
 * arena in one piece. So a value takes 16 bytes and nothing is allocated for each.
 */
#include "codec/json_tree.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text.h"
#include "codec/json_parse.h"

#define MEMORY_FACTOR	9 /* "1,1,1" is the shortest there is */
#define MEMORY_MIN	(64 * 1024)
#define NUMBER_TEXT_MAX 400 /* longer ones are legal JSON, and no number that anybody means */

struct json_tree {
	struct arena arena;
	struct json_node root;
};

struct builder {
	struct json_tree *tree;
	struct json_node *stack; /* values whose array or object is not complete */
	size_t count, capacity, stack_max;
	size_t opened[JSON_TREE_DEPTH_MAX]; /* where the items of each begin on the stack */
	unsigned depth;
	int result;
	const char *why;
};

/* Ends the parsing. */
static int fail(struct builder *b, int result, const char *why)
{
	b->result = result;
	b->why = why;
	return 0;
}

static int no_room(struct builder *b, size_t size)
{
	return arena_is_full(&b->tree->arena, size) ? fail(b, -E2BIG, "it exceeds its memory limit")
						    : fail(b, -ENOMEM, "out of memory");
}

static int push(struct builder *b, struct json_node node)
{
	int r = array_reserve(&b->stack, &b->capacity, b->count + 1, b->stack_max);
	if (r < 0)
		return fail(b, r, r == -E2BIG ? "it exceeds its memory limit" : "out of memory");
	b->stack[b->count++] = node;
	return 1;
}

static int on_null(void *context)
{
	return push(context, (struct json_node){.kind = JSON_NODE_NULL});
}

static int on_boolean(void *context, int value)
{
	return push(context, (struct json_node){.kind = JSON_NODE_BOOLEAN, .boolean = value != 0});
}

static int on_number(void *context, const char *text, size_t len)
{
	char number[NUMBER_TEXT_MAX];
	struct json_node node = {.kind = JSON_NODE_INTEGER};
	if (len >= sizeof(number))
		return fail(context, -EBADMSG, "a number has too many digits");
	memcpy(number, text, len);
	number[len] = '\0';
	if (text_parse_i64(number, &node.integer, NULL) == 0)
		return push(context, node);
	node.kind = JSON_NODE_REAL;
	if (text_parse_double(number, &node.real, NULL) < 0)
		return fail(context, -EBADMSG, "a number is out of range");
	return push(context, node);
}

static int on_text(void *context, const unsigned char *text, size_t len)
{
	struct builder *b = context;
	if (len > UINT32_MAX)
		return fail(b, -E2BIG, "a string of more than 4 GiB");
	const char *copy = arena_strndup(&b->tree->arena, (const char *)text, len);
	if (!copy)
		return no_room(b, len);
	return push(b, (struct json_node){.kind = JSON_NODE_TEXT, .count = (uint32_t)len, .text = copy});
}

static int on_open(void *context)
{
	struct builder *b = context;
	if (b->depth == JSON_TREE_DEPTH_MAX)
		return fail(b, -E2BIG, "values are nested more than 512 deep");
	b->opened[b->depth++] = b->count;
	return 1;
}

static int close_container(struct builder *b, enum json_node_kind kind)
{
	size_t first = b->opened[--b->depth], count = b->count - first;
	struct json_node node = {.kind = kind, .count = (uint32_t)(kind == JSON_NODE_OBJECT ? count / 2 : count)};
	if (count > UINT32_MAX)
		return fail(b, -E2BIG, "an array of more than 4 billion values");
	if (count > 0) {
		struct json_node *items = arena_alloc(&b->tree->arena, count * sizeof(*items));
		if (!items)
			return no_room(b, count * sizeof(*items));
		memcpy(items, &b->stack[first], count * sizeof(*items));
		node.items = items;
	}
	b->count = first;
	return push(b, node);
}

static int on_close_object(void *context)
{
	return close_container(context, JSON_NODE_OBJECT);
}

static int on_close_array(void *context)
{
	return close_container(context, JSON_NODE_ARRAY);
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_text,
	.yajl_start_map = on_open,
	.yajl_map_key = on_text,
	.yajl_end_map = on_close_object,
	.yajl_start_array = on_open,
	.yajl_end_array = on_close_array,
};

static int parse(struct builder *b, struct bytes text, struct error *err)
{
	size_t at;
	int r = json_parse(text, &callbacks, b, &at, err);
	if (r == -ECANCELED)
		return error_set(err, b->result, "JSON near byte %zu: %s", at, b->why);
	return r < 0 || b->count == 1 ? r : error_set(err, -EBADMSG, "not JSON near byte %zu: no value", at);
}

int json_tree_read(struct bytes text, size_t memory_max, struct json_tree **ret, struct error *err)
{
	struct json_tree *tree = mem_zalloc(sizeof(*tree));
	struct builder *b = mem_zalloc(sizeof(*b));
	size_t most = memory_max ? memory_max : text.len > SIZE_MAX / MEMORY_FACTOR ? SIZE_MAX : text.len * MEMORY_FACTOR;
	if (!tree || !b) {
		mem_free(tree);
		mem_free(b);
		return error_nomem(err);
	}
	most = most < MEMORY_MIN ? MEMORY_MIN : most;
	arena_init(&tree->arena, most);
	*b = (struct builder){.tree = tree, .stack_max = most / sizeof(struct json_node)};
	int r = parse(b, text, err);
	if (r == 0)
		tree->root = b->stack[0];
	mem_free(b->stack);
	mem_free(b);
	if (r < 0) {
		json_tree_free(tree);
		return r;
	}
	*ret = tree;
	return 0;
}

struct json_tree *json_tree_free(struct json_tree *tree)
{
	if (tree)
		arena_release(&tree->arena);
	return mem_free(tree);
}

const struct json_node *json_tree_root(const struct json_tree *tree)
{
	return &tree->root;
}

size_t json_skip_spaces(struct bytes text, size_t at)
{
	while (at < text.len && text.data[at] && strchr(" \t\r\n", text.data[at]))
		at++;
	return at;
}

bool json_looks_like_object(struct bytes text)
{
	size_t at = json_skip_spaces(text, 0);
	return at < text.len && text.data[at] == '{';
}

/* ---- values ---- */

bool json_node_is(const struct json_node *node, enum json_node_kind kind)
{
	return node && node->kind == kind;
}

const struct json_node *json_node_get(const struct json_node *node, const char *name)
{
	if (!json_node_is(node, JSON_NODE_OBJECT))
		return NULL;
	size_t len = strlen(name);
	for (size_t i = node->count; i-- > 0;)
		if (node->items[2 * i].count == len && memcmp(node->items[2 * i].text, name, len) == 0)
			return &node->items[2 * i + 1];
	return NULL;
}

const struct json_node *json_node_at(const struct json_node *node, size_t index)
{
	return json_node_is(node, JSON_NODE_ARRAY) && index < node->count ? &node->items[index] : NULL;
}

size_t json_node_count(const struct json_node *node)
{
	return json_node_is(node, JSON_NODE_ARRAY) || json_node_is(node, JSON_NODE_OBJECT) ? node->count : 0;
}

const char *json_node_text(const struct json_node *node)
{
	return json_node_is(node, JSON_NODE_TEXT) ? node->text : NULL;
}

struct bytes json_node_bytes(const struct json_node *node)
{
	return json_node_is(node, JSON_NODE_TEXT) ? (struct bytes){(const uint8_t *)node->text, node->count}
						  : (struct bytes){0};
}

bool json_node_integer(const struct json_node *node, int64_t *ret)
{
	if (!node)
		return false;
	switch (node->kind) {
	case JSON_NODE_INTEGER: *ret = node->integer; return true;
	case JSON_NODE_REAL:
		if (node->real != floor(node->real) || node->real < -9223372036854775808.0 ||
		    node->real >= 9223372036854775808.0)
			return false;
		*ret = (int64_t)node->real;
		return true;
	case JSON_NODE_TEXT: return strlen(node->text) == node->count && text_parse_i64(node->text, ret, NULL) == 0;
	default: return false;
	}
}

bool json_node_real(const struct json_node *node, double *ret)
{
	if (json_node_is(node, JSON_NODE_REAL))
		*ret = node->real;
	else if (json_node_is(node, JSON_NODE_INTEGER))
		*ret = (double)node->integer;
	else
		return false;
	return true;
}
