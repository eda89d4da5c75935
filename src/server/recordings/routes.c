/* SPDX-License-Identifier: Apache-2.0 */
#include "server/recordings/routes.h"

#include "control/protocol.h"
#include "server/core/permission.h"
#include "server/stores/recordings.h"

const struct net_route recordings_routes[] = {
	NET_ROUTE("POST", "/api/v1/agents/poll", PERMIT_AGENT, api_agent_poll, .body_max = CONTROL_BODY_BYTES_MAX),
	NET_ROUTE("GET", "/api/v1/agents", PERMIT_READ, api_agents),
	NET_ROUTE("POST", "/api/v1/recordings", PERMIT_RECORD, api_recording_create, .slow = true,
		  .body_max = RECORDINGS_REQUEST_MAX),
	NET_ROUTE("GET", "/api/v1/recordings", PERMIT_READ, api_recordings),
	NET_ROUTE("GET", "/api/v1/recordings/*", PERMIT_READ, api_recording_show, .slow = true),
	NET_ROUTE("POST", "/api/v1/recordings/*", PERMIT_AGENT, api_recording_put, .slow = true,
		  .body_max = RECORDINGS_UPLOAD_MAX),
	NET_ROUTE("DELETE", "/api/v1/recordings/*", PERMIT_RECORD, api_recording_remove, .slow = true),
	NET_ROUTE("GET", "/api/v1/recordings/continuous", PERMIT_READ, api_marker_batches, .slow = true),
	NET_ROUTE("GET", "/api/v1/recordings/continuous/profile", PERMIT_READ, api_marker_batches_profile, .slow = true),
	NET_ROUTE("POST", "/api/v1/recordings/continuous/hosts/*", PERMIT_AGENT, api_marker_batch_put, .slow = true,
		  .body_max = RECORDINGS_UPLOAD_MAX),
	NET_ROUTE("DELETE", "/api/v1/recordings/continuous", PERMIT_ADMIN, api_marker_batches_remove, .slow = true),
	NET_ROUTE("GET", "/api/v1/markers", PERMIT_READ, api_markers, .slow = true),
	{0},
};
