/* SPDX-License-Identifier: Apache-2.0 */
/* What `wick report` was asked for, and what becomes of it: settings and filters. */
#ifndef WICK_CMD_REPORT_H
#define WICK_CMD_REPORT_H

#include "cmd/remote.h"
#include "profile/pattern.h"
#include "render/report.h"
#include "render/units.h"

struct report_arguments {
	struct remote remote;
	const char *output, *from, *to;
	const struct format *format; /* of the inputs; NULL = by content */
	struct option_list base, diff_base;
	struct option_list during;
	bool normalize, spans;
	const char *focus, *ignore, *hide, *show, *show_from, *prune_from, *tag_focus, *tag_ignore, *tag_show, *tag_hide,
		*tag_root, *tag_leaf;
	const char *node_count, *node_fraction, *edge_fraction;
	bool no_trim, cum, flat, functions, file_functions, files, lines, addresses, no_inlines, show_columns;
	const char *sample_index, *unit, *divide_by;
	bool mean, drop_negative, call_tree, compact_labels, relative, intel_syntax, all_frames, interpreters, quiet;
	const char *source_path, *trim_path, *symbolize, *add_comment;
	const char *seconds, *timeout; /* of fetching */
	const char *http;	       /* where to serve the profile */
	bool no_browser;
};

/* The report's options, with what pprof does differently for some modes. -EINVAL. */
int report_settings(const struct report_arguments *arguments, enum report_mode mode, struct report_options *ret,
		    struct error *err);

/* An expression; NULL for one that is not given. */
struct report_filters {
	const struct profile_matcher *focus, *ignore, *hide, *show, *show_from, *prune_from, *tag_show, *tag_hide, *symbol;
	struct report_tag_filter tag_focus, tag_ignore;
	struct buffer *notes; /* what matched nothing */
	/* What those point to. */
	struct report_pattern {
		struct pattern pattern;
		struct profile_matcher matcher;
	} patterns[9 + 2 * REPORT_TAG_MATCHERS_MAX];
	size_t pattern_count;
};
/* -EINVAL for expressions that are none. */
int report_filters_init(struct report_filters *filters, const struct report_arguments *arguments, const char *symbol,
			struct error *err);
void report_filters_release(struct report_filters *filters);
int report_filters_apply(struct report_filters *filters, const struct report_arguments *arguments, struct report *report,
			 struct error *err);
/* -EINVAL when an expression took too long on a name, so that the report is not what was asked for. */
int report_filters_failure(const struct report_filters *filters, struct error *err);
/* What the profile itself says to leave out (drop_frames). */
int report_drop_frames(struct profile *profile, struct error *err);
int report_apply_tag_frames(const struct report_arguments *arguments, struct profile *profile, struct buffer *notes,
			    struct error *err);

/* ---- report_fetch.c ---- */

/* Whether an input that is no file is a URL, also one without http://, as HOST:PORT/PATH. */
bool report_is_url(const char *input);
/* Fetches it; a URL without a path is that of Go's CPU profile, which takes --seconds (default: 30). -EINVAL, and errors of
 * the client. */
int report_fetch(const struct report_arguments *arguments, const char *url, struct profile **ret, struct error *err);

/* ---- report_draw.c ---- */

/* Graphviz's dot: text to an image, "svg", "png" ... -ENOENT when it is not installed. */
int report_draw(struct bytes dot, const char *format, struct buffer *ret, struct error *err);
/* Writes a file with this suffix to the directory for temporary files, prints where it is and opens it in the browser. */
int report_show(struct bytes contents, const char *suffix, struct error *err);

#endif
