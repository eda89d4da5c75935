/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of Parca's query service, and of its share service, whose responses number their fields otherwise. */
#ifndef WICK_SERVER_PARCA_REPORT_H
#define WICK_SERVER_PARCA_REPORT_H

#include "server/parca/functions.h"
#include "server/parca/parca_int.h"

/* What a report is made of. */
struct parca_view {
	struct profile *profile; /* with names and filters applied; one sample type, or "base" and what is compared with it */
	double scale;		 /* of the base */
	int64_t total, filtered; /* sums of values: of the samples in it, and of those that filters dropped */
	const atomic_bool *cancel;
};
void parca_view_release(struct parca_view *view);
/* Reads what a query selects, to be released also on failure. */
int parca_view_select(struct parca *p, struct parca_request *in, struct parca_view *ret, struct error *err);
/* Filters the profile and counts; what the response says of both. */
int parca_view_prepare(struct parca_view *view, const struct parca_request *in, struct error *err);

/* Numbers of the fields of QueryResponse. */
struct parca_response_fields {
	uint32_t flamegraph, pprof, top, callgraph, arrow, source, table, metadata, total, filtered;
};
extern const struct parca_response_fields parca_query_fields, parca_share_fields;

/* Appends the response to p->out. */
int parca_report_write(struct parca *p, const struct parca_request *in, const struct parca_view *view,
		       const struct parca_response_fields *fields, struct error *err);
/* Whether a report of this number and kind can be made; else -EINVAL, and p->call.unimplemented if it is one of Parca's. */
int parca_report_check(struct parca *p, const struct parca_request *in, struct error *err);

/* table.c, source.c: append the Arrow stream; callgraph.c: the message. */
int parca_table_write(const struct parca_view *view, struct buffer *out, struct error *err);
int parca_source_write(const struct parca_view *view, const struct parca_source *source, struct buffer *out, struct error *err);
/* The text of the file. profile: NULL = not known. -ENOENT with what was looked for. */
int parca_source_text(struct parca *p, const struct parca_source *source, const struct profile *profile, struct buffer *out,
		      struct error *err);
int parca_callgraph_write(const struct parca_view *view, struct buffer *out, struct error *err);
/* What a pprof of it holds; of a comparison the differences. */
int parca_view_pprof(const struct parca_view *view, struct profile **ret, struct error *err);
/* TopNodeMeta and CallgraphNodeMeta. */
int parca_write_meta(struct buffer *out, uint32_t field, const struct profile *profile, const struct parca_function *function);

#endif
