/* SPDX-License-Identifier: Apache-2.0 */
/* wick record: the markers of the programs that are recorded. A recording without them is still one: what goes wrong here is
 * said, and the rest goes on. */
#ifndef WICK_CMD_RECORD_MARKERS_H
#define WICK_CMD_RECORD_MARKERS_H

#include "agent/markers/marker_recorder.h"

struct record_markers {
	bool off;     /* --no-markers */
	bool only;    /* --markers-only: nothing is sampled */
	unsigned max; /* --max-markers; 0 = as many as usual */
	struct marker_recorder *recorder;
	struct marker_recorder_stats stats;
};

/* Of struct option_row. */
#define MARKERS_OPTION_ROWS(markers)                                                                                           \
	OPTION_ROW(0, "no-markers", NULL, OPTION_FLAG, &(markers)->off,                                                        \
		   .help = "do not record the markers of programs with libwickmark"),                                          \
		OPTION_ROW(0, "markers-only", NULL, OPTION_FLAG, &(markers)->only,                                             \
			   .help = "record markers only, for wick annotate; needs no privileges\nfor your own processes"),     \
		OPTION_ROW(0, "max-markers", "N", OPTION_UNSIGNED, &(markers)->max, 1000, 50000000,                            \
			   .help = "maximum number of markers, about 80 bytes each; more are\n"                                \
				   "downsampled across the recording (default: 8000000)")

/* Before a command is forked: it gets our name in its environment. all: of every process. */
void record_markers_open(struct record_markers *markers, bool all);
/* Programs need some time until they are found and switched on: a recording that begins at a given time starts so much before.
 */
#define RECORD_MARKERS_LEAD_NS (500 * 1000000ll)
/* Of these processes and their children, unless of all. begin_ns: what is earlier is left out; 0 = from now on. */
void record_markers_start(struct record_markers *markers, const pid_t *pids, size_t count, int64_t begin_ns);
/* Into *profile, which may be another one afterwards, and gets a type of samples if it had none to be of, because nothing used
 * the CPU. What was lost becomes comments of it. Markers that cannot be collected are reported, and no failure. */
int record_markers_stop(struct record_markers *markers, struct profile **profile, struct error *err);
/* output, format: what was written, for not all formats have a place for markers. */
void record_markers_report(const struct record_markers *markers, const char *output, const char *format);
void record_markers_release(struct record_markers *markers);

#endif
