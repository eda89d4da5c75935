/* SPDX-License-Identifier: Apache-2.0 */
/* The page, embedded in the binary. Everything comes from here, so the content security policy can forbid the rest. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "server/core/server_int.h"
#include "server/http/routes.h"

#define ASSET(symbol) extern const uint8_t asset_##symbol[], asset_##symbol##_end[]
ASSET(index_html);
ASSET(app_js);
ASSET(layout_js);
ASSET(app_css);
ASSET(icon_svg);
ASSET(report_html);

static const struct asset {
	const char *path, *content_type;
	const uint8_t *start, *end;
} assets[] = {
	{"/", "text/html; charset=utf-8", asset_index_html, asset_index_html_end},
	{"/app.js", "text/javascript; charset=utf-8", asset_app_js, asset_app_js_end},
	{"/layout.js", "text/javascript; charset=utf-8", asset_layout_js, asset_layout_js_end},
	{"/app.css", "text/css; charset=utf-8", asset_app_css, asset_app_css_end},
	{"/icon.svg", "image/svg+xml", asset_icon_svg, asset_icon_svg_end},
};

static const char policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static void redirect_below(const char *prefix, const struct net_request *request, struct net_response *response)
{
	char location[2048];
	const char *query = strchr(net_request_target(request), '?');
	if (snprintf(location, sizeof(location), "%s/%s", prefix, query ? query : "") >= (int)sizeof(location)) {
		respond_error(response, 414, "the query is too long");
		return;
	}
	response->status = 308;
	net_response_header(response, "Location", location);
}

void assets_show(void *context, const struct net_request *request, struct net_response *response)
{
	const struct server *server = context;
	const struct asset *asset = NULL;
	if (net_request_is_at_prefix(request)) { /* its links are relative */
		redirect_below(server->options.path_prefix, request, response);
		return;
	}
	for (size_t i = 0; i < sizeof(assets) / sizeof(*assets); i++)
		if (strcmp(assets[i].path, net_request_path(request)) == 0)
			asset = &assets[i];
	if (!asset) {
		respond_error(response, 404, "no such page; the start page is /");
		return;
	}
	char tag[24];
	snprintf(tag, sizeof(tag), "\"%016llx\"",
		 (unsigned long long)hash64(asset->start, (size_t)(asset->end - asset->start)));
	net_response_header(response, "ETag", tag);
	net_response_header(response, "Cache-Control", "no-cache");
	net_response_header(response, "Content-Security-Policy", policy);
	net_response_header(response, "Referrer-Policy", "no-referrer");
	response->content_type = asset->content_type;
	const char *known = net_request_header(request, "if-none-match");
	if (known && strcmp(known, tag) == 0)
		response->status = 304;
	else if (buffer_append(&response->body, asset->start, (size_t)(asset->end - asset->start)) < 0)
		respond_error(response, 503, "out of memory");
}

struct bytes assets_report(void)
{
	return (struct bytes){asset_report_html, (size_t)(asset_report_html_end - asset_report_html)};
}
