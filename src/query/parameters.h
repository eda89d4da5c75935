/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of queries: `$name` stands for a value that comes with the request. Outside of quotes only: in quotes a `$` is
 * what it always was, the end of a line in a regular expression.
 *
 * A value becomes one word of the language, of the kind that the parameter has, and can never become more: a text is put in
 * quotes with its escapes, a number must be one, a label name must be one. So whoever may set a parameter cannot change what
 * the query is about.
 */
#ifndef WICK_QUERY_PARAMETERS_H
#define WICK_QUERY_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum parameter_kind {
	PARAMETER_TEXT,	    /* "..." */
	PARAMETER_NUMBER,   /* 20 */
	PARAMETER_DURATION, /* 5m */
	PARAMETER_LABEL,    /* host_name */
};
struct query_parameter {
	const char *name; /* without the dollar */
	enum parameter_kind kind;
	const char *value; /* as it came */
};
#define PARAMETER_NAME_MAX 63
/* [a-z_][a-z0-9_]*, at most PARAMETER_NAME_MAX bytes. */
bool parameter_name_is_valid(const char *name);
/* Appends the text with values in place of parameters. -EINVAL: a parameter that is not among them, or a value that is not of
 * its kind ("parameter 'n': ..."). */
int query_expand(const char *text, const struct query_parameter *parameters, size_t count, struct buffer *out,
		 struct error *err);
/* The name of the first parameter at or behind *at, whose place is moved behind it; false = there is none. The name is cut at
 * PARAMETER_NAME_MAX. "" is a dollar without a name. */
bool query_next_parameter(const char *text, size_t *at, char ret[static PARAMETER_NAME_MAX + 1]);

#endif
