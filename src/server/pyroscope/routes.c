/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pyroscope/routes.h"

/* As its server's probe of readiness; `profilecli ready` asks. */
static void show_ready(void *context, const struct net_request *request, struct net_response *response)
{
	response->content_type = "text/plain; charset=utf-8";
	if (buffer_append_string(&response->body, "ready\n") < 0)
		response->status = 503;
}

const struct net_route pyroscope_routes[] = {
	NET_ROUTE("POST", "/ingest", pyroscope_ingest),
	NET_ROUTE("POST", "/pyroscope/ingest", pyroscope_ingest),
	NET_ROUTE("GET", "/pyroscope/render", pyroscope_render, .slow = true),
	NET_ROUTE("GET", "/render", pyroscope_render, .slow = true),
	NET_ROUTE("GET", "/pyroscope/render-diff", pyroscope_render_diff, .slow = true),
	NET_ROUTE("GET", "/render-diff", pyroscope_render_diff, .slow = true),
	NET_ROUTE("GET", "/pyroscope/label-values", pyroscope_render_label_values, .slow = true),
	NET_ROUTE("GET", "/label-values", pyroscope_render_label_values, .slow = true),
	NET_ROUTE("GET", "/pyroscope/labels", pyroscope_render_labels, .slow = true),
	NET_ROUTE("GET", "/labels", pyroscope_render_labels, .slow = true),
	NET_ROUTE("GET", "/ready", show_ready),
	NET_ROUTE("GET", "/api/v1/status/config", pyroscope_config),
	NET_ROUTE("GET", "/api/v1/status/config/diff", pyroscope_config_diff),
	NET_ROUTE("GET", "/api/v1/status/config/default", pyroscope_config_default),
	{0},
};
