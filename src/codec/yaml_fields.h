/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML mappings read by tables: a struct is described by its fields, each with a name, a kind and a place. Unknown names,
 * repeated ones and values that do not fit are -EINVAL with file and line. The document is walked as deep as the tables are, so
 * aliases cannot make it larger than it is written.
 */
#ifndef WICK_CODEC_YAML_FIELDS_H
#define WICK_CODEC_YAML_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"

/* The first document of the text, to be deleted by yaml_document_delete(); `malformed` with the line where it is no YAML. */
int yaml_load(struct bytes text, const char *file, int malformed, yaml_document_t *ret, struct error *err);

struct yaml_reader {
	yaml_document_t *document;
	const char *file;    /* for messages */
	struct arena *arena; /* of the texts that are kept */
	struct error *err;
	const char *manual; /* where all names are documented: "docs/scraping.md" */
	bool suggests;	    /* says of an unknown name which one is most like it */
};

typedef int (*yaml_read_function)(struct yaml_reader *reader, const yaml_node_t *node, void *object);
typedef int (*yaml_name_function)(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object);
enum yaml_kind {
	YAML_FIELD_TEXT,       /* const char *; not empty */
	YAML_FIELD_EMPTY_TEXT, /* the same, may be empty */
	YAML_FIELD_FLAG,       /* bool: true, yes, on; false, no, off */
	YAML_FIELD_TRUE,       /* bool: true or false */
	YAML_FIELD_NOT,	       /* the same, the other way round */
	YAML_FIELD_NOT_FLAG,   /* as FLAG, the other way round */
	YAML_FIELD_DURATION,   /* int64_t ns, more than 0; -1 for the word `never` */
	YAML_FIELD_SIZE,       /* uint64_t, more than 0, or at least `least` */
	YAML_FIELD_COUNT,      /* unsigned, more than 0, or from `least` to `most` */
	YAML_FIELD_NUMBER,     /* uint64_t from `least` to `most` */
	YAML_FIELD_FIELDS,     /* a mapping of `fields`, of the same struct */
	YAML_FIELD_LIST,       /* read() for each item */
	YAML_FIELD_NAMES,      /* read_name() for each name of a mapping */
	YAML_FIELD_CUSTOM,     /* read() */
};
struct yaml_field {
	const char *name;
	enum yaml_kind kind;
	size_t offset; /* also of what read() and read_name() get */
	yaml_read_function read;
	yaml_name_function read_name;
	const struct yaml_field *fields;
	uint64_t least, most;
	const char *never; /* NULL = there is no such word */
};
#define YAML_FIELD(type, name, kind, member, ...)                                                                              \
	{                                                                                                                      \
		name, YAML_FIELD_##kind, offsetof(type, member), ##__VA_ARGS__                                                 \
	}
#define YAML_CUSTOM(name, read)                                                                                                \
	{                                                                                                                      \
		name, YAML_FIELD_CUSTOM, 0, read                                                                               \
	}
/* fields ends with a NULL name; at most 64. */
int yaml_read_fields(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *fields, void *object);
/* The value of one field. */
int yaml_read_field(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, void *object);
/* Calls read() for each item of a list; what is named in messages. */
int yaml_read_list(struct yaml_reader *reader, const yaml_node_t *node, const char *what, yaml_read_function read,
		   void *object);
/* Calls read() for each name of a mapping. */
int yaml_read_names(struct yaml_reader *reader, const yaml_node_t *node, const char *what, yaml_name_function read,
		    void *object);
/* The text of a scalar; NULL if it is none, or has a NUL. */
const char *yaml_scalar(const yaml_node_t *node);
/* A scalar's text, copied; may be empty. */
int yaml_read_text(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char **ret);
/* A list of texts, or a single one. *ret ends with NULL. */
int yaml_read_texts(struct yaml_reader *reader, const yaml_node_t *node, const char *what, size_t max, const char ***ret,
		    size_t *ret_count);
int yaml_fault(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *why);
/* A hash over all that a node holds, its aliases resolved; -EINVAL when that is more than 100,000 nodes. */
int yaml_hash(struct yaml_reader *reader, const yaml_node_t *node, uint64_t *ret);

#endif
