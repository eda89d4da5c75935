// SPDX-License-Identifier: Apache-2.0
/*
 * The text is walked through by json_scan; values gather on a stack, and when an array or object ends its items move from there
 * into the arena in one piece. So a value takes 16 bytes and nothing is allocated for each.
 */
#include "codec/json_tree.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text.h"
#include "codec/json_scan.h"

#define MEMORY_FACTOR	9 /* "1,1,1" is the shortest there is */
#define MEMORY_MIN	(64 * 1024)
#define NUMBER_TEXT_MAX 401 /* json_scan refuses longer ones */

struct json_tree {
	struct arena arena;
	struct json_node root;
};

struct builder {
	struct json_scan scan;
	struct json_tree *tree;
	struct json_node *stack; /* values whose array or object is not complete */
	size_t count, capacity, stack_max;
	struct {
		enum json_node_kind kind;
		size_t first; /* of its items, on the stack */
	} opened[JSON_TREE_DEPTH_MAX];
	unsigned depth;
	bool is_full; /* what failed is not the text */
};

static int fail(struct builder *b, int code, const char *why)
{
	b->is_full = true;
	return json_scan_fail_with(&b->scan, code, why);
}

static int no_room(struct builder *b, int r)
{
	return fail(b, r, r == -E2BIG ? "it exceeds its memory limit" : "out of memory");
}

static int push(struct builder *b, struct json_node node)
{
	int r = array_push(&b->stack, &b->count, &b->capacity, b->stack_max, node);
	return r < 0 ? no_room(b, r) : 0;
}

static int push_text(struct builder *b, struct bytes text)
{
	if (!text_is_utf8(text))
		return json_scan_fail(&b->scan, "a string is not UTF-8");
	const char *copy = arena_strndup(&b->tree->arena, (const char *)text.data, text.len);
	if (!copy)
		return no_room(b, arena_is_full(&b->tree->arena, text.len) ? -E2BIG : -ENOMEM);
	return push(b, (struct json_node){.kind = JSON_NODE_TEXT, .count = (uint32_t)text.len, .text = copy});
}

static int push_scalar(struct builder *b, struct bytes text)
{
	char number[NUMBER_TEXT_MAX];
	struct json_node node = {.kind = JSON_NODE_INTEGER};
	if (*text.data == 'n')
		return push(b, (struct json_node){.kind = JSON_NODE_NULL});
	if (*text.data == 't' || *text.data == 'f')
		return push(b, (struct json_node){.kind = JSON_NODE_BOOLEAN, .boolean = *text.data == 't'});
	memcpy(number, text.data, text.len);
	number[text.len] = '\0';
	if (text_parse_i64(number, &node.integer, NULL) == 0)
		return push(b, node);
	node.kind = JSON_NODE_REAL;
	if (text_parse_double(number, &node.real, NULL) < 0)
		return fail(b, -EBADMSG, "a number is out of range");
	return push(b, node);
}

/* A value, or the beginning of an array or object. */
static int read_value(struct builder *b)
{
	struct bytes text;
	char kind = json_scan_peek(&b->scan);
	if (kind == '"')
		return json_scan_text(&b->scan, &text) < 0 ? b->scan.error : push_text(b, text);
	if (kind != '{' && kind != '[')
		return json_scan_scalar(&b->scan, &text) < 0 ? b->scan.error : push_scalar(b, text);
	if (b->depth == JSON_TREE_DEPTH_MAX)
		return fail(b, -E2BIG, "values are nested more than 512 deep");
	b->opened[b->depth].kind = kind == '{' ? JSON_NODE_OBJECT : JSON_NODE_ARRAY;
	b->opened[b->depth++].first = b->count;
	return json_scan_open(&b->scan, kind);
}

static int close_container(struct builder *b)
{
	enum json_node_kind kind = b->opened[--b->depth].kind;
	size_t first = b->opened[b->depth].first, count = b->count - first;
	struct json_node node = {.kind = kind, .count = (uint32_t)(kind == JSON_NODE_OBJECT ? count / 2 : count)};
	if (count > UINT32_MAX)
		return fail(b, -E2BIG, "an array of more than 4 billion values");
	if (count > 0) {
		struct json_node *items = arena_alloc(&b->tree->arena, count * sizeof(*items));
		if (!items)
			return no_room(b, arena_is_full(&b->tree->arena, count * sizeof(*items)) ? -E2BIG : -ENOMEM);
		memcpy(items, &b->stack[first], count * sizeof(*items));
		node.items = items;
	}
	b->count = first;
	return push(b, node);
}

static int read_tree(struct builder *b)
{
	int r = read_value(b);
	while (r == 0 && b->depth > 0) {
		struct bytes key;
		bool is_object = b->opened[b->depth - 1].kind == JSON_NODE_OBJECT;
		r = is_object ? json_scan_member(&b->scan, &key) : json_scan_item(&b->scan);
		if (r == 0)
			r = close_container(b);
		else if (r > 0)
			r = (is_object && push_text(b, key) < 0) ? b->scan.error : read_value(b);
	}
	return r < 0 ? r : json_scan_finish(&b->scan);
}

static int parse(struct builder *b, struct bytes text, struct error *err)
{
	struct error fault = {0};
	int r = json_scan_init_bytes(&b->scan, text, &fault);
	if (r == 0)
		r = read_tree(b);
	if (r == -ENOMEM)
		error_nomem(err);
	else if (r < 0)
		error_set(err, r, "%sJSON %s", b->is_full ? "" : "not ", fault.message);
	json_scan_release(&b->scan);
	return r;
}

int json_tree_read(struct bytes text, size_t memory_max, struct json_tree **ret, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = mem_zalloc(sizeof(*tree));
	_cleanup_(mem_freep) struct builder *b = mem_zalloc(sizeof(*b));
	size_t most = memory_max ? memory_max : text.len > SIZE_MAX / MEMORY_FACTOR ? SIZE_MAX : text.len * MEMORY_FACTOR;
	if (!tree || !b)
		return error_nomem(err);
	most = most < MEMORY_MIN ? MEMORY_MIN : most;
	arena_init(&tree->arena, most);
	*b = (struct builder){.tree = tree, .stack_max = most / sizeof(struct json_node)};
	int r = parse(b, text, err);
	if (r == 0)
		tree->root = b->stack[0];
	mem_free(b->stack);
	if (r < 0)
		return r;
	*ret = TAKE(tree);
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
