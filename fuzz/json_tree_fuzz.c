/* SPDX-License-Identifier: Apache-2.0 */
/* JSON into a tree: it takes no more memory than it says, and can be walked. */
#include <string.h>

#include "codec/json_tree.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t walk(const struct json_node *node)
{
	size_t count = 1;
	int64_t integer;
	double real;
	json_node_integer(node, &integer);
	json_node_real(node, &real);
	if (json_node_text(node))
		must(strlen(json_node_text(node)) <= json_node_bytes(node).len);
	if (!json_node_is(node, JSON_NODE_ARRAY) && !json_node_is(node, JSON_NODE_OBJECT))
		return count;
	bool is_array = json_node_is(node, JSON_NODE_ARRAY);
	for (size_t i = 0; i < json_node_count(node); i++) {
		const struct json_node *value = is_array ? json_node_at(node, i) : &node->items[2 * i + 1];
		must(value);
		if (!is_array) {
			must(json_node_text(&node->items[2 * i]));
			must(json_node_get(node, node->items[2 * i].text) ||
			     strlen(node->items[2 * i].text) != node->items[2 * i].count);
		}
		count += walk(value);
		/* Looking members up by name is linear in their number: not for each of many. */
		if (!is_array && i == 64)
			break;
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_tree *tree = NULL;
	if (json_tree_read((struct bytes){data, size}, 0, &tree, NULL) < 0)
		return 0;
	/* A value takes a byte, and a comma or a bracket. */
	must(walk(json_tree_root(tree)) <= size);
	json_tree_free(tree);
	return 0;
}
