/* SPDX-License-Identifier: Apache-2.0 */
/* Parca's flame graphs and flame charts as rows of a table. Essay at the top of graph.c; graph_arrow.c writes them. */
#ifndef WICK_SERVER_PARCA_GRAPH_H
#define WICK_SERVER_PARCA_GRAPH_H

#include "base/cancel.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "server/parca/functions.h"

#define PARCA_GRAPH_ROWS_MAX  (4u * 1024 * 1024)
#define PARCA_GRAPH_SHOWN_MAX 100000u /* of them, the largest */
#define PARCA_NONE	      UINT32_MAX

struct parca_graph_options {
	bool by_labels, by_mapping, by_address, by_file; /* besides the function */
	bool by_time;					 /* a chart: what follows on each other in time is one row */
	bool inverted;		   /* the profile's stacks are: the first line of a location is the outermost function */
	double scale;		   /* of the base of a comparison */
	double threshold;	   /* children with less than this share of their parent, in percent, are left out */
	int64_t period_ns;	   /* of by_time: what one sample stands for at most; 0 = not known */
	const atomic_bool *cancel; /* NULL = never */
};
/* A node. Texts are strings of the profile, PARCA_NONE = not known, or not the same for all that is in the row. */
struct parca_row {
	uint32_t parent; /* a row; 0 for the root itself */
	uint32_t depth;	 /* root 0 */
	uint32_t name, system_name, file, mapping_file, build_id;
	uint32_t labels;	 /* a label set, 0 = none */
	uint32_t location, line; /* of which it was made; a line of the profile's table, or PARCA_NO_LINE */
	uint32_t last_child;	 /* of by_time: a row, 0 = none yet */
	uint64_t address;
	int64_t line_number, start_line, time_ns;
	int64_t total, self, base; /* base: of the other side of a comparison, unscaled */
	bool has_address, has_line, has_start_line, has_inlined, inlined, labels_only;
};
struct parca_graph {
	const struct profile *profile;
	struct parca_graph_options options;
	struct parca_row *rows; /* parents first */
	size_t count, capacity;
	struct intern keys; /* of rows, from 1 on */
	/* What is shown, by breadth: each row after its parent, siblings one after the other by falling total, or by time */
	uint32_t *shown;	 /* rows */
	uint32_t *shown_parents; /* places in `shown` */
	int64_t *offsets;	 /* where it begins, in values from the left */
	size_t shown_count;
	int64_t total;	 /* of all samples */
	int64_t trimmed; /* of rows that were left out, and whose parents were not */
	int32_t height;	 /* levels, with the root */
};
/* The profile must live as long. One sample type, or two: "base" and what is compared with it. -E2BIG: too many rows;
 * -ECANCELED; -ENOMEM. */
int parca_graph_build(const struct profile *profile, const struct parca_graph_options *options, struct parca_graph *ret,
		      struct error *err);
void parca_graph_release(struct parca_graph *graph);
/* How much more a row is than its base, after scaling; 0 without a comparison. */
int64_t parca_graph_diff(const struct parca_graph *graph, const struct parca_row *row);

/* Appends the rows shown as an Arrow stream. by: the labels of by_labels, in the order of their columns. -E2BIG, -ENOMEM. */
int parca_graph_write(const struct parca_graph *graph, const char *const *by, size_t by_count, struct buffer *out,
		      struct error *err);

#endif
