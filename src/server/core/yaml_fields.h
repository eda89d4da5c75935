/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML mappings read by tables: a struct is described by its fields, each with a name, a kind and a place. Unknown names,
 * repeated ones and values that do not fit are -EINVAL with file and line. The document is walked as deep as the tables are, so
 * aliases cannot make it larger than it is written.
 */
#ifndef WICK_SERVER_CORE_YAML_FIELDS_H
#define WICK_SERVER_CORE_YAML_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/error.h"

struct yaml_reader {
	yaml_document_t *document;
	const char *file;    /* for messages */
	struct arena *arena; /* of the texts that are kept */
	struct error *err;
};

enum yaml_kind {
	YAML_FIELD_TEXT,     /* const char *; not empty */
	YAML_FIELD_FLAG,     /* bool */
	YAML_FIELD_DURATION, /* int64_t ns, more than 0 */
	YAML_FIELD_SIZE,     /* uint64_t, more than 0 */
	YAML_FIELD_COUNT,    /* unsigned, more than 0 */
	YAML_FIELD_CUSTOM,   /* read() gets the struct */
};
struct yaml_field {
	const char *name;
	enum yaml_kind kind;
	size_t offset;
	int (*read)(struct yaml_reader *reader, const yaml_node_t *node, void *object);
};
/* fields ends with a NULL name; at most 64. */
int yaml_read_fields(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *fields, void *object);
/* Calls read() for each item of a list; what is named in messages. */
int yaml_read_list(struct yaml_reader *reader, const yaml_node_t *node, const char *what,
		   int (*read)(struct yaml_reader *reader, const yaml_node_t *node, void *object), void *object);
/* Calls read() for each name of a mapping. */
int yaml_read_names(struct yaml_reader *reader, const yaml_node_t *node, const char *what,
		    int (*read)(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object),
		    void *object);
/* A scalar's text, copied; may be empty. */
int yaml_read_text(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char **ret);
/* A list of texts, or a single one. *ret ends with NULL. */
int yaml_read_texts(struct yaml_reader *reader, const yaml_node_t *node, const char *what, size_t max, const char ***ret,
		    size_t *ret_count);
int yaml_fault(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *why);
/* A hash over all that a node holds, its aliases resolved; -EINVAL when that is more than 100,000 nodes. */
int yaml_hash(struct yaml_reader *reader, const yaml_node_t *node, uint64_t *ret);

#endif
