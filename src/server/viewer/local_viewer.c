/* SPDX-License-Identifier: Apache-2.0 */
#include "server/viewer/local_viewer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "codec/compress.h"
#include "control/protocol.h"
#include "format/format.h"
#include "server/core/server_int.h"
#include "server/viewer/local_viewer_int.h"

#define PROFILER	      "https://profiler.firefox.com"
#define GZIP_LEVEL	      1		/* for memory; the way to the browser is short, and its user waits */
#define JSON_BYTES_MAX	      (2 * GIB) /* gzipped; what viewers take is less */
#define PLAIN_BYTES_MAX	      (1 * GIB)
#define QUESTION_BYTES_MAX    (64 * KIB)
#define SYMBOLICATE_BYTES_MAX (16 * MIB) /* all addresses of a profile come at once */
#define LINK_BYTES_MAX	      1024
#define STALL_SECONDS	      300 /* a page that takes in a large profile may not read for a while */
#define ONCE_PREFIX	      "/once/"

/* ---- who may ---- */

/* Takes as long wherever the first difference is. `text` may be shorter. */
static bool begins_with_secret(const char *text, const char *secret)
{
	unsigned char difference = 0;
	size_t len = strlen(text);
	for (size_t i = 0; secret[i]; i++)
		difference |= (unsigned char)((i < len ? text[i] : 0) ^ secret[i]);
	return difference == 0;
}

/* The server's own address, or the name that people write for it. */
static bool is_own_host(const struct local_viewer *viewer, const char *host)
{
	const char *address = net_server_address(viewer->server), *port = strrchr(address, ':');
	size_t len = (size_t)(port - address);
	static const char local[] = "localhost";
	const char *given = strrchr(host, ':');
	size_t given_len = given && !strchr(given, ']') ? (size_t)(given - host) : strlen(host);
	const char *given_port = host[given_len] ? host + given_len : ":80";
	if (strcmp(given_port, port) != 0)
		return false;
	return (given_len == len && strncmp(host, address, len) == 0) ||
	       (given_len == strlen(local) && strncasecmp(host, local, given_len) == 0);
}

static bool has_secret(const struct local_viewer *viewer, const char *path)
{
	bool is_once = text_starts_with(path, ONCE_PREFIX);
	return begins_with_secret(is_once ? path + strlen(ONCE_PREFIX) : path + 1, is_once ? viewer->once : viewer->token);
}

static bool is_own_origin(const char *origin, const char *host)
{
	static const char scheme[] = "http://";
	return text_starts_with(origin, scheme) && strcasecmp(origin + strlen(scheme), host) == 0;
}

static bool refuse(struct net_response *response, int status, const char *why)
{
	respond_error(response, status, why);
	return false;
}

static bool authorize(void *context, struct net_request *request, struct net_response *response)
{
	const struct local_viewer *viewer = context;
	const char *host = net_request_header(request, "host"), *origin = net_request_header(request, "origin");
	net_response_header(response, "Cache-Control", "no-store");
	net_response_header(response, "Referrer-Policy", "no-referrer"); /* the path holds the token */
	net_response_header(response, "X-Content-Type-Options", "nosniff");
	net_response_header(response, "Cross-Origin-Resource-Policy", "same-origin"); /* Firefox Profiler asks by CORS */
	net_response_header(response, "Vary", "Origin");
	if (!host || !is_own_host(viewer, host))
		return refuse(response, 421, "this server accepts its own address as Host only");
	if (!has_secret(viewer, net_request_path(request)))
		return refuse(response, 404, "no such path; the link must contain its token");
	if (!origin || is_own_origin(origin, host))
		return true;
	if (strcmp(origin, PROFILER) != 0)
		return refuse(response, 403, "pages of this site may not read the profile");
	net_response_header(response, "Access-Control-Allow-Origin", origin);
	return true;
}

/* ---- answers ---- */

/* What a browser asks before it lets a page of another site ask; Chromium also whether sites on the internet may ask here. */
static void allow_questions(void *context, const struct net_request *request, struct net_response *response)
{
	const char *near = net_request_header(request, "access-control-request-private-network");
	response->status = 204;
	net_response_header(response, "Access-Control-Allow-Methods", "GET, POST");
	net_response_header(response, "Access-Control-Allow-Headers", "Content-Type");
	net_response_header(response, "Access-Control-Max-Age", "600");
	if (near && strcmp(near, "true") == 0)
		net_response_header(response, "Access-Control-Allow-Private-Network", "true");
}

static void show_page(void *context, const struct net_request *request, struct net_response *response)
{
	const struct local_viewer *viewer = context;
	response->content_type = "text/html; charset=utf-8";
	response->no_compress = true; /* nearly all of it is */
	/* It brings its own policy for what it may load. */
	net_response_header(response, "Content-Security-Policy", "frame-ancestors 'none'");
	response->body.max = viewer->page.len;
	if (buffer_append(&response->body, viewer->page.data, viewer->page.len) < 0)
		respond_error(response, 503, "out of memory");
}

static void show_profile(void *context, const struct net_request *request, struct net_response *response)
{
	const struct local_viewer *viewer = context;
	bool packed = net_request_takes_gzip(request);
	int r;
	response->no_compress = true;
	response->body.max = packed ? JSON_BYTES_MAX : PLAIN_BYTES_MAX;
	net_response_header(response, "Vary", "Accept-Encoding");
	if (packed)
		r = buffer_append(&response->body, viewer->json.data, viewer->json.len);
	else
		r = gzip_decompress(buffer_bytes(&viewer->json), &response->body, NULL);
	if (r == -E2BIG)
		respond_error(response, 406, "the profile is too large to be sent uncompressed; accept gzip");
	else if (r < 0)
		respond_error(response, 503, "out of memory");
	else if (packed)
		net_response_header(response, "Content-Encoding", "gzip");
}

static void lead_once(void *context, const struct net_request *request, struct net_response *response)
{
	struct local_viewer *viewer = context;
	if (strcmp(net_request_method(request), "GET") != 0 || !viewer->once_target ||
	    atomic_exchange(&viewer->once_used, true)) {
		respond_error(response, 404, "this link was already used; use one of the printed links");
		return;
	}
	response->status = 303;
	net_response_header(response, "Location", viewer->once_target);
}

/* ---- making it ---- */

struct packing {
	struct gzip_stream *gzip;
	struct buffer *out;
};

static int pack(void *context, struct bytes bytes, struct error *err)
{
	struct packing *packing = context;
	return gzip_stream_write(packing->gzip, bytes, false, packing->out, err);
}

static int write_json(struct local_viewer *viewer, struct error *err)
{
	_cleanup_(gzip_stream_freep) struct gzip_stream *gzip = NULL;
	_cleanup_(buffer_release) struct buffer part = {.max = JSON_BYTES_MAX};
	int r = gzip_stream_new(GZIP_LEVEL, &gzip, err);
	if (r < 0)
		return r;
	struct packing packing = {gzip, &viewer->json};
	struct format_sink sink = {.out = &part, .flush = pack, .context = &packing};
	struct format_options options = {.symbol_server = true};
	r = format_write(format_by_name("firefox"), viewer->profile, &options, &sink, err);
	return r < 0 ? r : gzip_stream_write(gzip, (struct bytes){0}, true, &viewer->json, err);
}

static void make_routes(struct local_viewer *viewer)
{
	static const struct {
		const char *path, *method;
		net_handler handler;
		size_t body_max;
		bool slow;
	} all[LOCAL_VIEWER_PATHS - 1] = {{"/", "GET", show_page},
					 {"/profile.json", "GET", show_profile},
					 {"/symbolicate/v5", "POST", local_viewer_symbolicate, SYMBOLICATE_BYTES_MAX, true},
					 {"/source/v1", "POST", local_viewer_source, 0, true},
					 {"/asm/v1", "POST", local_viewer_asm, 0, true}};
	struct net_route *route = viewer->routes;
	for (size_t i = 0; i < LOCAL_VIEWER_PATHS - 1; i++) {
		snprintf(viewer->paths[i], LOCAL_VIEWER_PATH_SIZE, "/%s%s", viewer->token, all[i].path);
		*route++ = (struct net_route){.method = all[i].method,
					      .path = viewer->paths[i],
					      .handler = all[i].handler,
					      .context = viewer,
					      .body_max = all[i].body_max,
					      .slow = all[i].slow};
		*route++ = (struct net_route){.method = "OPTIONS", .path = viewer->paths[i], .handler = allow_questions};
	}
	snprintf(viewer->paths[LOCAL_VIEWER_PATHS - 1], LOCAL_VIEWER_PATH_SIZE, ONCE_PREFIX "%s", viewer->once);
	*route = (struct net_route){
		.method = "GET", .path = viewer->paths[LOCAL_VIEWER_PATHS - 1], .handler = lead_once, .context = viewer};
}

static int make_links(struct local_viewer *viewer)
{
	const char *address = net_server_address(viewer->server);
	if (buffer_printf(&viewer->page_link, "http://%s/%s/", address, viewer->token) < 0)
		return -ENOMEM;
	const struct bytes base = {viewer->page_link.data, viewer->page_link.len - 1}; /* without its last slash */
	buffer_printf(&viewer->once_link, "http://%s" ONCE_PREFIX "%s", address, viewer->once);
	buffer_append_string(&viewer->profiler_link, PROFILER "/from-url/");
	text_url_encode(&viewer->profiler_link, base);
	buffer_append_string(&viewer->profiler_link, "%2Fprofile.json/?symbolServer=");
	text_url_encode(&viewer->profiler_link, base);
	return !buffer_string(&viewer->page_link) || !buffer_string(&viewer->profiler_link) ||
			       !buffer_string(&viewer->once_link)
		       ? -ENOMEM
		       : 0;
}

int local_viewer_check_listen(const char *listen, struct error *err)
{
	if (!listen || text_starts_with(listen, "127.0.0.1:") || text_starts_with(listen, "[::1]:"))
		return 0;
	return error_set(err, -EINVAL,
			 "cannot listen on '%.200s': a profile is served on this machine only, at 127.0.0.1:PORT or [::1]:PORT",
			 listen);
}

static int listen_here(struct local_viewer *viewer, const char *listen, struct error *err)
{
	int r = local_viewer_check_listen(listen, err);
	if (r < 0)
		return r;
	struct net_server_options options = {.listen = listen ? listen : "127.0.0.1:0",
					     .routes = viewer->routes,
					     .body_max = QUESTION_BYTES_MAX,
					     .connections_max = 64,
					     .answer_bytes_max = JSON_BYTES_MAX + PLAIN_BYTES_MAX,
					     .stall_seconds_max = STALL_SECONDS,
					     .slow_workers = 2,
					     .authorize = authorize,
					     .context = viewer};
	return net_server_new(&options, &viewer->server, err);
}

int local_viewer_new(const struct local_viewer_options *options, struct local_viewer **ret, struct error *err)
{
	_cleanup_(local_viewer_freep) struct local_viewer *viewer = mem_zalloc(sizeof(*viewer));
	if (!viewer)
		return error_nomem(err);
	viewer->profile = options->profile;
	viewer->symbolizer = options->symbolizer;
	viewer->page = options->page;
	buffer_init(&viewer->json, JSON_BYTES_MAX);
	buffer_init(&viewer->page_link, LINK_BYTES_MAX);
	buffer_init(&viewer->profiler_link, LINK_BYTES_MAX);
	buffer_init(&viewer->once_link, LINK_BYTES_MAX);
	int r = control_make_id(viewer->token, LOCAL_VIEWER_TOKEN_BYTES, err);
	if (r == 0)
		r = control_make_id(viewer->once, LOCAL_VIEWER_TOKEN_BYTES, err);
	if (r < 0)
		return r;
	make_routes(viewer);
	r = listen_here(viewer, options->listen, err); /* first: its errors must come before long work */
	if (r == 0)
		r = local_viewer_list_modules(viewer, err);
	if (r == 0)
		r = write_json(viewer, err);
	if (r == 0 && make_links(viewer) < 0)
		r = error_nomem(err);
	if (r == 0)
		*ret = TAKE(viewer);
	return r;
}

const char *local_viewer_page_link(const struct local_viewer *viewer)
{
	return (const char *)viewer->page_link.data;
}

const char *local_viewer_profiler_link(const struct local_viewer *viewer)
{
	return (const char *)viewer->profiler_link.data;
}

const char *local_viewer_link_once(struct local_viewer *viewer, const char *link)
{
	viewer->once_target = link;
	return (const char *)viewer->once_link.data;
}

int local_viewer_run(struct local_viewer *viewer, struct error *err)
{
	return net_server_run(viewer->server, err);
}

void local_viewer_stop(void *viewer)
{
	net_server_stop(((struct local_viewer *)viewer)->server);
}

struct local_viewer *local_viewer_free(struct local_viewer *viewer)
{
	if (!viewer)
		return NULL;
	net_server_free(viewer->server);
	buffer_release(&viewer->json);
	buffer_release(&viewer->page_link);
	buffer_release(&viewer->profiler_link);
	buffer_release(&viewer->once_link);
	mem_free(viewer->modules);
	return mem_free(viewer);
}
