/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small XML document in memory (https://www.w3.org/TR/xml/), of the kind that services respond with: elements and their text.
 * Attributes, comments and processing instructions are skipped, prefixes of names as well. A document type declaration is
 * refused: entities of a document's own can make it grow without bounds, or read files.
 */
#ifndef WICK_CODEC_XML_TREE_H
#define WICK_CODEC_XML_TREE_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

#define XML_TREE_DEPTH_MAX 64u

struct xml_node {
	const char *name;
	const char *text; /* UTF-8, what stands in the element itself, as it is; "" = nothing */
	const struct xml_node *child, *next;
};

struct xml_tree;
/* memory_max: bytes of the tree. -EBADMSG with the byte where it is wrong, -E2BIG, -ENOMEM. The text is not needed afterwards.
 */
int xml_tree_read(struct bytes text, size_t memory_max, struct xml_tree **ret, struct error *err);
struct xml_tree *xml_tree_free(struct xml_tree *tree); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(xml_tree_free, struct xml_tree);
const struct xml_node *xml_tree_root(const struct xml_tree *tree);
/* The first child of that name; NULL when there is none, or no node. */
const struct xml_node *xml_node_get(const struct xml_node *node, const char *name);
const char *xml_node_text(const struct xml_node *node, const char *name); /* of that child; "" */

#endif
