/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a page shows of a profile in a file, whether the file lies beside the data in one HTML file (cmd/html.c) or was dropped
 * on a server's page (api_view.c). web/src/api/report_data.ts reads it.
 *
 * JSON: {"title", "format" (of what it was read), "left_out" [texts: of the file], "time_ms" (0 = unknown), "shown" (which type
 * first), "types": [{"period" (0 = unknown), "unresolved" (addresses without a name), "flame": render/flame.h}]}. Where there
 * are times, threads or markers, a time line goes with it: its description is the member "timeline" (format/timeline.h), and
 * its columns say of each sample in which node of the trees it ends, so that the page can make the tree of any part of the
 * samples. A time line that would pass the limits is left out, and "no_timeline" says why: the graph of all is worth having
 * without it.
 */
#ifndef WICK_SERVER_VIEWER_VIEW_H
#define WICK_SERVER_VIEWER_VIEW_H

#include "base/cancel.h"
#include "profile/profile.h"

/* Nodes of all trees together, of each the same: nobody can be asked for more later, so as many as a browser can read as one
 * text (some 40 bytes each; V8 takes 512 MiB). What is too small beyond that stands together, as on the server's page. */
#define VIEW_NODES_MAX 4000000

struct view_options {
	const char *title;	       /* any text */
	const char *format;	       /* NULL = not said */
	const struct buffer *left_out; /* lines, as format_options.notes; NULL = not said */
	size_t nodes_max;	       /* of each tree; 0 = VIEW_NODES_MAX by the number of trees */
	const atomic_bool *cancel;     /* looked at between trees; NULL = nobody will */
};
/* Appends both; their limits are those of the answer. columns stays as it is without a time line. -EINVAL: no values; -E2BIG:
 * too much without a time line; -ECANCELED; -ENOMEM. */
int view_write(const struct profile *profile, const struct view_options *options, struct buffer *json, struct buffer *columns,
	       struct error *err);

#endif
