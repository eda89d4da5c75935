/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports: a profile as text, in the forms that `go tool pprof` gives without a browser. Numbers, names and order are those of
 * google/pprof (internal/report, internal/graph, 2026), so that what people and scripts know of its reports holds for these.
 *
 * What differs: control characters of names become '?', because a report goes to a terminal and names come from outside; in
 * dot, quotes and backslashes of labels and file names are escaped as those of functions are, and there are no edges to nodes
 * that are not there.
 */
#ifndef WICK_RENDER_REPORT_H
#define WICK_RENDER_REPORT_H

#include "profile/filter.h"
#include "render/graph.h"

enum report_mode {
	REPORT_TOP,
	REPORT_TREE,
	REPORT_PEEK, /* TREE of the functions that match */
	REPORT_TRACES,
	REPORT_LIST,
	REPORT_DISASM,
	REPORT_TAGS,
	REPORT_RAW,
	REPORT_CALLGRIND,
	REPORT_DOT,
	REPORT_COMMENTS,
	REPORT_TOPPROTO, /* a profile: report_make_top() */
	REPORT_PROTO,	 /* the profile itself, filtered: not written here */
	REPORT_WEBLIST,	 /* LIST and DISASM as one HTML file */
};

#define REPORT_FILTERS_MAX 16
struct report_options {
	enum report_mode mode;
	struct graph_detail detail;
	struct graph_trim_options trim;
	bool call_tree, drop_negative, compact_labels;
	double divide_by;			 /* not 0 */
	const char *sample_index;		 /* a type's name or number; NULL = the profile's default */
	bool mean;				 /* divide by the first value */
	const char *unit;			 /* "minimum" = the best for the smallest value */
	const char *filters[REPORT_FILTERS_MAX]; /* "focus=main": said in the heading; NULL-terminated */
	const struct profile_matcher *symbol;	 /* which functions: peek, list, disasm */
	const char *symbol_text;		 /* as it was written */
	bool intel_syntax;
	const char *source_path; /* where list looks for sources: directories, separated by ':' */
	struct buffer *notes;	 /* a line for each thing that one should know of the report; NULL = nobody asks */
};

/*
 * A report is begun before the profile is filtered (or after: then percentages are of what is left), and written after: the
 * total, the units of labels and the title are those at the beginning.
 */
struct report {
	struct profile *profile;
	struct report_options options;
	size_t value, mean;		  /* which of the values */
	char *type, *title, *sample_unit; /* owned; the title as it is in the profile, the others harmless */
	const char *unit;		  /* of the output; of the profile, the options, or static */
	int64_t total;
	uint32_t *label_units; /* by string: the unit of numeric labels of this name, as string plus 1; 0 = none */
	size_t label_unit_count;
	struct buffer *out;
	struct report_code *code; /* of WEBLIST, while it is written */
};
/* -EINVAL: no such sample type, or one without a profile that has any. The profile must stay. */
int report_begin(struct report *ret, struct profile *profile, const struct report_options *options, struct error *err);
/* Appends. -EINVAL when nothing matches, -ENOTSUP for modes that write no text, -ENOMEM, -E2BIG. */
int report_write(struct report *report, struct buffer *out, struct error *err);
/* REPORT_TOPPROTO: a profile of the functions of REPORT_TOP, with the types cum and flat. */
int report_make_top(struct report *report, struct profile **ret, struct error *err);
void report_release(struct report *report);

/* Samples by label ("KEY=RANGE", "RANGE", "KEY=REGEX,REGEX", "REGEX,..."), as tagfocus and tagignore of pprof: numbers by
 * range ("30kb:", ":2mb", "1mb:2gb", "512b"), texts by expressions. */
struct report_tag_filter {
	char key[256]; /* "" = any */
	bool is_range, has_low, has_high;
	double low, high;
	const char *unit; /* static, or in unit_text */
	char unit_text[32];
#define REPORT_TAG_MATCHERS_MAX 32
	const struct profile_matcher *matchers[REPORT_TAG_MATCHERS_MAX]; /* of the texts; the caller makes them */
	size_t matcher_count;
	const char *texts; /* the expressions, separated by ',', if it is no range */
};
/* Splits a filter; matchers are left to the caller. -EINVAL. */
int report_tag_filter_parse(const char *text, struct report_tag_filter *ret, struct error *err);
bool report_tag_filter_matches(const struct report_tag_filter *filter, const struct report *report, size_t sample);
/* Mangled names of C++ and Rust as people wrote them, where a function has no other name: without parameters and template
 * arguments, or in full. Names that are readable already lose them too, unless in full. */
int report_demangle(struct profile *profile, bool full, struct error *err);
/* Makes frames of labels: at the root and at the leaf, one for each key of lists separated by ','. A value's frame is named as
 * the value, in the file KEY; samples without it get a frame without a name. ret_found[0 and 1]: any sample had one. */
int report_add_tag_frames(struct profile *profile, const char *roots, const char *leaves, const char *unit, bool ret_found[2],
			  struct error *err);

#endif
