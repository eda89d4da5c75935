/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pyroscope/routes.h"

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
	{0},
};
