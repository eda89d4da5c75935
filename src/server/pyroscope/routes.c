/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pyroscope/routes.h"

#include "server/core/permission.h"
#include "server/core/server_int.h"

/* As its server's probe of readiness; `profilecli ready` asks. */
static void show_ready(void *context, const struct net_request *request, struct net_response *response)
{
	struct error err = {0};
	int r = readiness_check(context, &err);
	response->content_type = "text/plain; charset=utf-8";
	response->status = r < 0 ? 503 : 200;
	if (buffer_printf(&response->body, r < 0 ? "not ready: %s\n" : "ready\n", err.message) < 0)
		response->status = 503;
}

const struct net_route pyroscope_routes[] = {
	NET_ROUTE("POST", "/ingest", PERMIT_WRITE, pyroscope_ingest),
	NET_ROUTE("POST", "/pyroscope/ingest", PERMIT_WRITE, pyroscope_ingest),
	NET_ROUTE("GET", "/pyroscope/render", PERMIT_READ, pyroscope_render, .slow = true),
	NET_ROUTE("GET", "/render", PERMIT_READ, pyroscope_render, .slow = true),
	NET_ROUTE("GET", "/pyroscope/render-diff", PERMIT_READ, pyroscope_render_diff, .slow = true),
	NET_ROUTE("GET", "/render-diff", PERMIT_READ, pyroscope_render_diff, .slow = true),
	NET_ROUTE("GET", "/pyroscope/label-values", PERMIT_READ, pyroscope_render_label_values, .slow = true),
	NET_ROUTE("GET", "/label-values", PERMIT_READ, pyroscope_render_label_values, .slow = true),
	NET_ROUTE("GET", "/pyroscope/labels", PERMIT_READ, pyroscope_render_labels, .slow = true),
	NET_ROUTE("GET", "/labels", PERMIT_READ, pyroscope_render_labels, .slow = true),
	NET_ROUTE("GET", "/ready", PERMIT_OPEN, show_ready),
	NET_ROUTE("GET", "/api/v1/status/config", PERMIT_READ, pyroscope_config),
	NET_ROUTE("GET", "/api/v1/status/config/diff", PERMIT_READ, pyroscope_config_diff),
	NET_ROUTE("GET", "/api/v1/status/config/default", PERMIT_READ, pyroscope_config_default),
	{0},
};
