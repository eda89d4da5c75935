/* SPDX-License-Identifier: Apache-2.0 */
/* Routes and handlers: agents, recordings of hosts, and markers. The context of a handler is the struct server. */
#ifndef WICK_SERVER_RECORDINGS_ROUTES_H
#define WICK_SERVER_RECORDINGS_ROUTES_H

#include "net/net.h"

extern const struct net_route recordings_routes[]; /* ends with a row without a path */

extern net_handler_function api_agent_poll, api_agents, api_recording_create, api_recordings, api_recording_show,
	api_recording_put, api_recording_remove, api_marker_batches, api_marker_batches_profile, api_marker_batch_put,
	api_marker_batches_remove, api_markers;

#endif
