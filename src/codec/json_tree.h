/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON document in memory, for files of hundreds of megabytes: 16 bytes a value, each array in one block. What jansson, which
 * reads small things, would take five to ten times the memory for.
 */
#ifndef WICK_CODEC_JSON_TREE_H
#define WICK_CODEC_JSON_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

#define JSON_TREE_DEPTH_MAX 512u /* call trees nest their nodes */

enum json_node_kind {
	JSON_NODE_NULL,
	JSON_NODE_BOOLEAN,
	JSON_NODE_INTEGER,
	JSON_NODE_REAL, /* a fraction, an exponent, or beyond 64 bits */
	JSON_NODE_TEXT,
	JSON_NODE_ARRAY,
	JSON_NODE_OBJECT,
};
struct json_node {
	uint32_t kind;
	uint32_t count; /* bytes of a text, items of an array, members of an object */
	union {
		bool boolean;
		int64_t integer;
		double real;
		const char *text;	       /* UTF-8; a NUL follows, more may be within */
		const struct json_node *items; /* of an object: name, value, name, value ... */
	};
};

struct json_tree;
/* memory_max: bytes of the tree; 0 = whatever a text of this length may take, nine times that. -EBADMSG with the byte where it
 * is wrong, -E2BIG, -ENOMEM. The text is not needed afterwards. */
int json_tree_read(struct bytes text, size_t memory_max, struct json_tree **ret, struct error *err);
struct json_tree *json_tree_free(struct json_tree *tree); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(json_tree_free, struct json_tree);
const struct json_node *json_tree_root(const struct json_tree *tree);

/* For telling formats apart before they are parsed: where the first byte is that is no space, from `at` on (the length if there
 * is none); whether that of the text is a brace. */
size_t json_skip_spaces(struct bytes text, size_t at);
bool json_looks_like_object(struct bytes text);

/* All of these take NULL for a value that is not there, and any kind: what does not fit is as if it were not there. */

/* The member of that name (the last, if there are several), the item at that place, how many items or members. */
const struct json_node *json_node_get(const struct json_node *node, const char *name);
const struct json_node *json_node_at(const struct json_node *node, size_t index);
size_t json_node_count(const struct json_node *node);
bool json_node_is(const struct json_node *node, enum json_node_kind kind);
const char *json_node_text(const struct json_node *node); /* NULL = no text */
struct bytes json_node_bytes(const struct json_node *node);
/* Whole numbers in range, also those written as 1e3 or, as protobuf's JSON does for 64 bits, as a text. */
bool json_node_integer(const struct json_node *node, int64_t *ret);
bool json_node_real(const struct json_node *node, double *ret); /* any number */

#endif
