/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the Firefox Profiler format: what markers and counters of a profile become. */
#ifndef WICK_FORMAT_FIREFOX_FIREFOX_MARKERS_H
#define WICK_FORMAT_FIREFOX_FIREFOX_MARKERS_H

#include "format/firefox/firefox_int.h"
#include "profile/markers.h"

#define FIREFOX_COUNTER_DISPLAY 62 /* counters have `display`, not `color` */

struct firefox_markers {
	const struct profile *profile;
	const struct profile_markers *markers; /* NULL = none */
	const struct intern *texts;
	int64_t start_ns;
	uint32_t *categories;	  /* of the file, by those of the profile */
	uint32_t *new_categories; /* of the profile: those that are not of frames as well */
	size_t new_category_count;
	uint32_t *schema_numbers; /* 0 = the first of its name, else the how manieth */
	bool *has_flows;	  /* by schema */
	bool *has_markers;	  /* by schema */
	uint32_t *row_order;	  /* rows of counters, by counter */
	size_t *row_first;	  /* by counter, and one more */
};
/* Puts the texts that it needs into `texts`. -ENOMEM, -E2BIG. */
int firefox_markers_build(const struct profile *profile, struct intern *texts, struct firefox_markers *ret);
void firefox_markers_release(struct firefox_markers *markers);
/* *first and *last become the earliest and the latest time of any, if they are not beyond it already. */
void firefox_markers_widen(const struct profile *profile, int64_t *first, int64_t *last);

/* Objects behind those of frames; the array meta.markerSchema; the fields of one marker; a counter. */
void firefox_put_marker_categories(const struct firefox_markers *markers, struct json_writer *json);
void firefox_put_marker_schemas(const struct firefox_markers *markers, struct json_writer *json);
void firefox_put_marker_data(const struct firefox_markers *markers, uint32_t marker, struct json_writer *json);
/* In row_order[]. */
struct firefox_rows {
	size_t first, end;
};
/* Some rows of a counter as one. pid: as threads have it; main_thread: place in threads. The caller drains in between. */
void firefox_put_counter(const struct firefox_markers *markers, uint32_t counter, struct firefox_rows rows, struct bytes pid,
			 size_t main_thread, unsigned version, struct json_writer *json);

#endif
