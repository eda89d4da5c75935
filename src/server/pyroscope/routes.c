/* SPDX-License-Identifier: Apache-2.0 */
#include "server/pyroscope/routes.h"

const struct net_route pyroscope_routes[] = {
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
	{0},
};
