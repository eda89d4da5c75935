/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label sets as series have them: sorted by name, one value a name, Prometheus' rules for names ([a-zA-Z_][a-zA-Z0-9_]*). Used
 * by the store, queries and ingest. A struct labels owns its strings.
 */
#ifndef WICK_PROFILE_LABELS_H
#define WICK_PROFILE_LABELS_H

#include "profile/profile.h"

struct label {
	char *name, *value;
};
struct labels {		     /* begins as zeros */
	struct label *items; /* sorted by name */
	size_t count, capacity;
};

void labels_release(struct labels *labels);
int labels_copy(struct labels *to, const struct labels *from, struct error *err); /* `to` is initialised by this */
/* Adds or replaces. An empty value removes the label. -EINVAL for a bad name, -E2BIG for LIMIT_LABEL*. */
int labels_set(struct labels *labels, const char *name, const char *value, struct error *err);
const char *labels_get(const struct labels *labels, const char *name); /* NULL if absent */
int labels_compare(const struct labels *a, const struct labels *b);
uint64_t labels_hash(const struct labels *labels);
uint64_t labels_hash_guarded(const struct labels *labels);			   /* for tables in memory: hash64_guarded() */
int labels_parse_pair(struct labels *labels, const char *text, struct error *err); /* "K=V" as --label takes it */
bool label_name_is_valid(const char *name);
/* Turns any key ("process.pid", "http/route", "0x") into a valid name ("process_pid", "http_route", "_0x"); out has
 * LIMIT_LABEL_NAME_BYTES. Empty keys become "_". */
void label_name_sanitize(struct bytes key, char *out);

/*
 * The labels of one sample's series: base (e.g. from the request), then the profile's resource labels, then the sample's own;
 * later ones win. Numeric labels become "NUMBER" or "NUMBER UNIT". Keys are sanitised, values cut at LIMIT_LABEL_VALUE_BYTES on
 * a UTF-8 boundary with ill-formed bytes replaced. `ret` is initialised by this.
 */
int labels_of_sample(const struct profile *profile, uint32_t label_set, const struct labels *base, struct labels *ret,
		     struct error *err);

#endif
