/* SPDX-License-Identifier: Apache-2.0 */
#include "server/recordings/routes.h"

#include "control/protocol.h"
#include "server/stores/recordings.h"

const struct net_route recordings_routes[] = {
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
	{.method = "GET", .path = "/api/v1/recordings/continuous", .handler = api_marker_batches, .slow = true},
	{.method = "GET", .path = "/api/v1/recordings/continuous/profile", .handler = api_marker_batches_profile, .slow = true},
	{.method = "POST",
	 .path = "/api/v1/recordings/continuous/hosts/*",
	 .handler = api_marker_batch_put,
	 .slow = true,
	 .body_max = RECORDINGS_UPLOAD_MAX},
	{.method = "DELETE", .path = "/api/v1/recordings/continuous", .handler = api_marker_batches_remove, .slow = true},
	{.method = "GET", .path = "/api/v1/markers", .handler = api_markers, .slow = true},
	{0},
};
