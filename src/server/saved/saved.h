/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved queries: a query with a name, a title and typed parameters, in a file of YAML. Essay at the top of saved.c. It knows
 * nothing of HTTP. Thread-safe: there is no state but files.
 */
#ifndef WICK_SERVER_SAVED_SAVED_H
#define WICK_SERVER_SAVED_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

#define SAVED_BYTES_MAX	     (64 * 1024) /* of a file */
#define SAVED_NAME_MAX	     100
#define SAVED_PARAMETERS_MAX 16
#define SAVED_COUNT_MAX	     1000 /* of a directory, and those that a tenant has saved */

/* ---- one of them ---- */

enum saved_type {
	SAVED_TEXT,	/* any text */
	SAVED_VALUE,	/* a value of `label`: any text, with a list to choose from */
	SAVED_NUMBER,	/* a whole number */
	SAVED_DURATION, /* 5m */
	SAVED_LABEL,	/* the name of a label */
	SAVED_CHOICE,	/* one of `choices`, a text */
};
const char *saved_type_name(enum saved_type type);
struct saved_parameter {
	const char *name, *title;
	const char *label;    /* of SAVED_VALUE */
	const char *fallback; /* NULL = it must be given */
	const char **choices; /* of SAVED_CHOICE; NULL-terminated */
	size_t choice_count;
	enum saved_type type;
};
struct saved_query {
	const char *title, *description; /* "" = none */
	const char *range;		 /* the range that it is meant for, a duration; NULL = the usual one */
	const char *text;
	struct saved_parameter parameters[SAVED_PARAMETERS_MAX];
	size_t parameter_count;
	struct arena arena; /* private: owns the texts */
};
/* -EINVAL with file and line: not YAML, unknown names, values that do not fit; a query that is none with these parameters, or a
 * parameter that it does not use. */
int saved_query_read(struct bytes text, const char *file, struct saved_query **ret, struct error *err);
struct saved_query *saved_query_free(struct saved_query *query); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(saved_query_free, struct saved_query);

/* The value that was given for a parameter; NULL or "" = none, then its fallback counts. */
typedef const char *(*saved_value_function)(void *context, const char *name);
/* Appends the query with its values. range_ns: what `$range` is. -EINVAL: a value is missing, or not of its type. */
int saved_query_expand(const struct saved_query *query, saved_value_function value, void *context, int64_t range_ns,
		       struct buffer *out, struct error *err);
/* Any query: only `$range`. */
int saved_expand_range(const char *text, int64_t range_ns, struct buffer *out, struct error *err);

/* ---- where they are ---- */

enum saved_origin {
	SAVED_BUILT_IN,
	SAVED_OWN,  /* saved through the API */
	SAVED_FILE, /* in the directory of the configuration; it wins over the others, and is not written */
};
const char *saved_origin_name(enum saved_origin origin);
struct saved_places {
	const char *own;       /* a tenant's directory; need not exist */
	const char *directory; /* of files under version control; NULL = none */
};
/* [a-z0-9][a-z0-9_-]*, at most SAVED_NAME_MAX bytes. */
bool saved_name_is_valid(const char *name);
/* Its text, and where it is from. -ENOENT. */
int saved_find(const struct saved_places *places, const char *name, struct buffer *ret, enum saved_origin *ret_origin,
	       struct error *err);
/* The same, read; the message of what is wrong with the file begins with its name, and *ret_origin is set then, too. */
int saved_open(const struct saved_places *places, const char *name, enum saved_origin *ret_origin, struct saved_query **ret,
	       struct error *err);
/* Calls each() for all names, sorted, each once. -EIO and the like when a directory cannot be read. */
int saved_list(const struct saved_places *places, int (*each)(void *context, const char *name), void *context,
	       struct error *err);
/* Checks, and keeps. -EINVAL as of saved_query_read(); -EEXIST: a file of `directory` has the name; -EDQUOT: SAVED_COUNT_MAX.
 * On disk when it returns. */
int saved_put(const struct saved_places *places, const char *name, struct bytes text, struct error *err);
/* -ENOENT; -EEXIST for what is not in `own`: it cannot be removed from here. */
int saved_remove(const struct saved_places *places, const char *name, struct error *err);

#endif
