/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes.h"

#include "control/protocol.h"
#include "server/core/slow.h"
#include "server/ingest/ingest_int.h"
#include "server/metrics.h"
#include "server/stores/recordings.h"

const struct net_route server_routes[] = {
	/* profiles that come in */
	{.method = "POST", .path = INGEST_OTLP_GRPC_PATH, .handler = ingest_otlp_grpc},
	{.method = "POST", .path = INGEST_OTLP_HTTP_PATH, .handler = ingest_otlp_http},
	{.method = "POST", .path = INGEST_PATH, .handler = ingest_profile},

	/* questions about what is stored */
	{.method = "GET", .path = "/api/v1/types", .handler = api_types, .slow = true},
	{.method = "GET", .path = "/api/v1/labels", .handler = api_labels, .slow = true},
	{.method = "GET", .path = "/api/v1/label-values", .handler = api_label_values, .slow = true},
	{.method = "GET", .path = "/api/v1/label/*", .handler = api_label_values, .slow = true},
	{.method = "GET", .path = "/api/v1/services", .handler = api_services, .slow = true},
	{.method = "GET", .path = "/api/v1/cardinality", .handler = api_cardinality, .slow = true},
	{.method = "GET", .path = "/api/v1/diff", .handler = api_diff, .slow = true},
	{.method = "GET", .path = "/api/v1/compare", .handler = api_compare, .slow = true},
	{.method = "GET", .path = "/api/v1/source", .handler = api_source, .slow = true},
	{.method = "GET", .path = "/api/v1/asm", .handler = api_asm, .slow = true},
	{.method = "GET", .path = "/api/v1/pipeline", .handler = api_pipeline, .slow = true},
	{.method = "POST", .path = "/api/v1/pipeline", .handler = api_pipeline, .slow = true, .body_max = 65536},
	{.method = "GET", .path = "/api/v1/blocks", .handler = api_blocks},
	{.method = "POST",
	 .path = "/api/v1/delete",
	 .handler = api_delete,
	 .slow = true,
	 .seconds_max = 3600,
	 .body_max = 65536},
	{.method = "POST",
	 .path = "/api/v1/compact",
	 .handler = api_compact,
	 .slow = true,
	 .seconds_max = 3600,
	 .body_max = 65536},
	{.method = "GET", .path = "/api/v1/series", .handler = api_series, .slow = true},
	{.method = "GET", .path = "/api/v1/query", .handler = api_query, .slow = true},
	{.method = "GET", .path = "/api/v1/pprof", .handler = api_pprof, .slow = true},
	{.method = "GET", .path = "/api/v1/slow", .handler = api_slow},
	{.method = "GET", .path = "/api/v1/status", .handler = api_status},

	/* Pyroscope's protocols */
	{.method = "POST", .path = "/ingest", .handler = pyroscope_ingest},
	{.method = "POST", .path = "/pyroscope/ingest", .handler = pyroscope_ingest},
	{.method = "GET", .path = "/pyroscope/render", .handler = pyroscope_render, .slow = true},
	{.method = "GET", .path = "/render", .handler = pyroscope_render, .slow = true},
	{.method = "GET", .path = "/pyroscope/render-diff", .handler = pyroscope_render_diff, .slow = true},
	{.method = "GET", .path = "/render-diff", .handler = pyroscope_render_diff, .slow = true},
	{.method = "GET", .path = "/pyroscope/label-values", .handler = pyroscope_render_label_values, .slow = true},
	{.method = "GET", .path = "/label-values", .handler = pyroscope_render_label_values, .slow = true},
	{.method = "GET", .path = "/pyroscope/labels", .handler = pyroscope_render_labels, .slow = true},
	{.method = "GET", .path = "/labels", .handler = pyroscope_render_labels, .slow = true},

	/* Parca's protocols */
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "ShouldInitiateUpload", .handler = parca_should_initiate},
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "InitiateUpload", .handler = parca_initiate, .slow = true},
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "Upload", .stream = &parca_upload},
	{.method = "POST", .path = INGEST_WRITE_PATH, .stream = &parca_write},
	{.method = "POST", .path = PARCA_DEBUGINFO_PATH "MarkUploadFinished", .handler = parca_finished, .slow = true},

	/* binaries, and their debug information */
	{.method = "GET", .path = "/api/v1/binaries", .handler = api_binaries},
	{.method = "POST", .path = "/api/v1/binaries/*", .handler = api_binary_retry, .body_max = 65536},
	{.method = "POST",
	 .path = "/api/v1/debuginfo/wanted",
	 .handler = api_debuginfo_wanted,
	 .body_max = DEBUGINFO_PIECE_MAX},
	/* Slow, so that disks that are slow to sync hold up other uploads, and not profiles. */
	{.method = "POST", .path = "/api/v1/debuginfo/uploads", .handler = api_upload_begin, .body_max = 65536, .slow = true},
	{.method = "PUT",
	 .path = "/api/v1/debuginfo/uploads/*",
	 .handler = api_upload_write,
	 .body_max = DEBUGINFO_PIECE_MAX,
	 .slow = true},
	{.method = "POST",
	 .path = "/api/v1/debuginfo/uploads/*",
	 .handler = api_upload_finish,
	 .body_max = 65536,
	 .slow = true},
	{.method = "DELETE",
	 .path = "/api/v1/debuginfo/uploads/*",
	 .handler = api_upload_abort,
	 .body_max = 65536,
	 .slow = true},

	/* agents, recordings of hosts, and markers */
	{.method = "POST", .path = "/api/v1/agents/poll", .handler = api_agent_poll, .body_max = CONTROL_BODY_BYTES_MAX},
	{.method = "GET", .path = "/api/v1/agents", .handler = api_agents},
	{.method = "POST",
	 .path = "/api/v1/recordings",
	 .handler = api_recording_create,
	 .slow = true,
	 .body_max = RECORDINGS_REQUEST_MAX},
	{.method = "GET", .path = "/api/v1/recordings", .handler = api_recordings},
	{.method = "GET", .path = "/api/v1/recordings/*", .handler = api_recording_show, .slow = true},
	{.method = "POST",
	 .path = "/api/v1/recordings/*",
	 .handler = api_recording_put,
	 .slow = true,
	 .body_max = RECORDINGS_UPLOAD_MAX},
	{.method = "DELETE", .path = "/api/v1/recordings/*", .handler = api_recording_remove, .slow = true},
	{.method = "GET", .path = "/api/v1/recordings/continuous", .handler = api_windows, .slow = true},
	{.method = "GET", .path = "/api/v1/recordings/continuous/profile", .handler = api_marker_batches_profile, .slow = true},
	{.method = "POST",
	 .path = "/api/v1/recordings/continuous/hosts/*",
	 .handler = api_marker_batch_put,
	 .slow = true,
	 .body_max = RECORDINGS_UPLOAD_MAX},
	{.method = "DELETE", .path = "/api/v1/recordings/continuous", .handler = api_marker_batches_remove, .slow = true},
	{.method = "GET", .path = "/api/v1/markers", .handler = api_markers, .slow = true},

	/* files that are shown, and snapshots */
	{.method = "POST", .path = "/api/v1/view", .handler = api_view, .slow = true},
	{.method = "POST", .path = "/api/v1/convert", .handler = api_convert, .slow = true},
	{.method = "POST", .path = SNAPSHOTS_PATH, .handler = api_snapshot_create, .slow = true},
	{.method = "GET", .path = SNAPSHOTS_PATH, .handler = api_snapshots},
	{.method = "GET", .path = SNAPSHOTS_PATH "/*", .handler = api_snapshot_show},
	{.method = "DELETE", .path = SNAPSHOTS_PATH "/*", .handler = api_snapshot_remove, .slow = true},

	/* targets that are scraped */
	{.method = "GET", .path = "/api/v1/targets", .handler = api_targets},
	{.method = "POST", .path = "/api/v1/reload", .handler = api_reload, .body_max = 65536, .slow = true},

	/* the page and descriptions of the API */
	{.method = "GET", .path = "/api/v1/status/buildinfo", .handler = buildinfo_show},
	{.method = "GET", .path = "/api/v1/openapi.json", .handler = openapi_show},
	{.method = "GET", .path = "/api/v1/openapi.yaml", .handler = openapi_show},
	{.method = "GET", .path = "/*", .handler = assets_show},

	{.method = "GET", .path = "/metrics", .handler = metrics_show},
	{.method = "GET", .path = "/healthz", .handler = health_show},
	{.method = "GET", .path = "/readyz", .handler = health_show},
	{0},
};
