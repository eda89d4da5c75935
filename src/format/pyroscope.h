/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Pyroscope's own clients send to /ingest: stacks as text in four forms, and names with labels. No formats for files, so
 * they are not in formats[]. Essay at the top of pyroscope.c.
 */
#ifndef WICK_FORMAT_PYROSCOPE_H
#define WICK_FORMAT_PYROSCOPE_H

#include "profile/labels.h"
#include "profile/profile.h"

enum pyroscope_stacks {
	PYROSCOPE_GROUPS, /* "root;leaf COUNT" a line */
	PYROSCOPE_LINES,  /* "root;leaf" a line, each one sample */
	PYROSCOPE_TRIE,	  /* a tree of pieces of text */
	PYROSCOPE_TREE,	  /* a tree of frames */
};
/* One sample type, samples/count, which the caller renames; no times. -EBADMSG with the place, -E2BIG, -ENOMEM. */
int pyroscope_decode_stacks(enum pyroscope_stacks form, struct bytes input, struct profile **ret, struct error *err);

#define PYROSCOPE_NAME_MAX 1024
/* "app.cpu{host=a,region=eu}": labels are added, names made valid; those that begin with "__" are left out. -EINVAL naming what
 * is wrong. */
int pyroscope_parse_name(const char *text, char ret_app[static PYROSCOPE_NAME_MAX], struct labels *labels, struct error *err);

#endif
