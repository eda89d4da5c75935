/* SPDX-License-Identifier: Apache-2.0 */
/* The server's routes, and the handlers of all areas. The context of a handler is the struct server. */
#ifndef WICK_SERVER_ROUTES_H
#define WICK_SERVER_ROUTES_H

#include "net/net.h"

#define PARCA_DEBUGINFO_PATH "/parca.debuginfo.v1alpha1.DebuginfoService/"
#define DEBUGINFO_PIECE_MAX  (4ull * 1024 * 1024)
#define SNAPSHOTS_PATH	     "/api/v1/snapshots"

extern const struct net_route server_routes[]; /* ends with a row without a path */

/* ingest/: profiles that come in */
extern net_handler_function ingest_otlp_grpc, ingest_otlp_http, ingest_profile;
/* api/: questions about what is stored */
extern net_handler_function api_types, api_labels, api_label_values, api_services, api_cardinality, api_diff, api_compare,
	api_source, api_asm, api_pipeline, api_blocks, api_delete, api_compact, api_series, api_query, api_pprof, api_status;
/* pyroscope/: Pyroscope's protocols */
extern net_handler_function pyroscope_ingest, pyroscope_render, pyroscope_render_diff, pyroscope_render_label_values,
	pyroscope_render_labels;
/* parca/: Parca's protocols */
extern net_handler_function parca_should_initiate, parca_initiate, parca_finished;
extern const struct net_stream_handler parca_upload, parca_write;
/* debuginfo/: binaries, and their debug information */
extern net_handler_function api_binaries, api_binary_retry, api_debuginfo_wanted, api_upload_begin, api_upload_write,
	api_upload_finish, api_upload_abort;
/* recordings/: agents, recordings of hosts, and markers */
extern net_handler_function api_agent_poll, api_agents, api_recording_create, api_recordings, api_recording_show,
	api_recording_put, api_recording_remove, api_windows, api_marker_batches_profile, api_marker_batch_put,
	api_marker_batches_remove, api_markers;
/* viewer/: files that are shown, and snapshots */
extern net_handler_function api_view, api_convert, api_snapshot_create, api_snapshots, api_snapshot_show, api_snapshot_remove;
/* scrape/: targets that are scraped */
extern net_handler_function api_targets, api_reload;
/* http/: the page and descriptions of the API */
extern net_handler_function buildinfo_show, openapi_show, assets_show;

#endif
