/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Markers of all programs of this host, all the time (`wick agent --markers`): collected in this process
 * (agent/markers/marker_recorder.h), and every minute, or sooner when there are many, put into a marker batch: a profile of
 * markers alone in Firefox Profiler's format, which the server keeps (docs/remote.md).
 */
#ifndef WICK_DAEMON_AGENT_MARKERS_H
#define WICK_DAEMON_AGENT_MARKERS_H

#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

struct agent_markers;
struct control_client;
struct agent_markers_options {
	const char *url, *token, *token_file, *tenant; /* NULL = none, but for url */
	const char *host;			       /* control_host_is_valid() */
	const char *directory;			       /* of spools; NULL = what waits is in memory only */
	uint64_t spool_bytes;			       /* 0 = the default */
	int64_t spool_age_ns;
	struct control_client *control_client; /* knows how the clocks stand; must live longer */
};
/* After privileges were dropped, which the two threads inherit what is left of. */
int agent_markers_new(const struct agent_markers_options *options, struct agent_markers **ret, struct error *err);
/* Makes the last batch, and sends what is queued for up to timeout_ns. What is on disk stays for the next run. */
void agent_markers_finish(struct agent_markers *markers, int64_t timeout_ns);
struct agent_markers *agent_markers_free(struct agent_markers *markers); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(agent_markers_free, struct agent_markers);

/* Since the start, unless it says otherwise: `collected` with markers that were left out later; `lost`, `left_out` and
 * `malformed` before they were in a batch, as struct marker_recorder_stats; `yielded` to another recorder, now;
 * `batches_dropped`, with their markers: refused by the server, too old, no room, damaged, ended in memory; what is waiting,
 * now. */
struct link_markers;
void agent_markers_get_stats(struct agent_markers *markers, struct link_markers *ret);

#endif
