/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to targets and to services of discovery.
 *
 * Credentials go to the host they were configured for, not to another one that it redirects to; nor again to the first one if
 * that one redirects back.
 */
#include "server/scrape/scrape_http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/compress.h"

#define REDIRECTS_MAX 10
#define CANCEL_MS     1000
#define SHOWN_MAX     200

int scrape_read_secret(const char *text, const char *path, struct buffer *file, const char **ret, struct error *err)
{
	*ret = text ? text : "";
	if (!path)
		return 0;
	int r = io_read_secret(path, file, err);
	if (r < 0)
		return r;
	*ret = buffer_string(file);
	return *ret ? 0 : error_nomem(err);
}

int scrape_url_length(const char *url)
{
	size_t len = strcspn(url, "?#");
	return len < SHOWN_MAX ? (int)len : SHOWN_MAX;
}

void scrape_append_base(struct buffer *url, const char *base)
{
	size_t len = strlen(base);
	while (len > 0 && base[len - 1] == '/')
		len--;
	buffer_append(url, base, len);
}

static void append_encoded(struct buffer *out, const char *name, const char *value)
{
	text_url_encode(out, bytes_of_string(name));
	buffer_append_byte(out, '=');
	text_url_encode(out, bytes_of_string(value));
}

void scrape_append_parameter(struct buffer *url, const char *name, const char *value)
{
	buffer_append_byte(url, url->len && memchr(url->data, '?', url->len) ? '&' : '?');
	append_encoded(url, name, value);
}

void scrape_append_pair(struct buffer *form, const char *name, const char *value)
{
	if (form->len)
		buffer_append_byte(form, '&');
	append_encoded(form, name, value);
}

static int set_authorization(const struct scrape_http *http, struct net_client *client, const char *token, struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	const char *secret;
	if (token)
		return net_client_set_header(client, "authorization", token, err);
	if (!http->user && !http->credentials && !http->credentials_file)
		return 0;
	int r = http->user ? scrape_read_secret(http->password, http->password_file, &file, &secret, err)
			   : scrape_read_secret(http->credentials, http->credentials_file, &file, &secret, err);
	if (r < 0)
		return r;
	if (http->user)
		return net_client_set_basic_auth(client, http->user, secret, err);
	return net_client_set_authorization(client, http->auth_type ? http->auth_type : "Bearer", secret, err);
}

/* "https://host:port" of an address, without its path; its length. */
static size_t origin_length(const char *url)
{
	const char *host = strstr(url, "://");
	return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

void scrape_session_release(struct scrape_session *session)
{
	session->client = net_client_free(session->client);
	session->origin[0] = '\0';
}

/* Kept connections are for the same host, by the same settings; whatever the last request had set is cleared. */
static int open_client(struct scrape_session *session, const struct scrape_http *http, const struct scrape_request *request,
		       const char *url, int64_t timeout_ns, struct error *err)
{
	size_t len = origin_length(url);
	if (len == 0 || len >= sizeof(session->origin))
		return error_set(err, -EINVAL, "bad address %.*s", scrape_url_length(url), url);
	if (session->client && session->http == http && strlen(session->origin) == len && !memcmp(session->origin, url, len)) {
		net_client_clear_headers(session->client);
		net_client_set_timeout(session->client, timeout_ns);
		return 0;
	}
	scrape_session_release(session);
	memcpy(session->origin, url, len);
	session->origin[len] = '\0';
	session->http = http;
	/* As Prometheus: the configuration has the targets' addresses, and they are near. */
	struct net_client_options options = {.url = session->origin,
					     .tls = http->tls,
					     .timeout_ns = timeout_ns,
					     .response_max = request->body_max,
					     .cancel = request->cancel,
					     .cancel_ms = CANCEL_MS,
					     .budget = request->budget,
					     .keep_encoded = true,
					     .direct = !http->proxy_from_environment,
					     .proxy_url = http->proxy_url,
					     .no_proxy = http->no_proxy,
					     .unix_path = request->unix_path,
					     .keep_header = request->keep_header};
	return net_client_new(&options, &session->client, err);
}

static int set_headers(struct net_client *client, const struct scrape_http *http, const struct scrape_request *request,
		       const char *token, struct error *err)
{
	int r = set_authorization(http, client, token, err);
	for (size_t i = 0; i < request->header_count && r == 0; i++)
		if (request->headers[i].value)
			r = net_client_set_header(client, request->headers[i].name, request->headers[i].value, err);
	return r;
}

/* Where a redirect leads; the place that it is relative to is `url`. */
static int resolve(char *url, size_t size, const char *location, struct error *err)
{
	char next[SCRAPE_URL_BYTES_MAX];
	size_t origin = origin_length(url);
	int len;
	if (!strncasecmp(location, "http://", 7) || !strncasecmp(location, "https://", 8))
		len = snprintf(next, sizeof(next), "%s", location);
	else if (location[0] == '/' && location[1] != '/')
		len = snprintf(next, sizeof(next), "%.*s%s", (int)origin, url, location);
	else
		return error_set(err, -EPROTO, "redirected to an invalid address: %.*s",
				 scrape_url_length(location) < 100 ? scrape_url_length(location) : 100, location);
	if (len >= (int)sizeof(next) || (size_t)len >= size)
		return error_set(err, -E2BIG, "redirected to an address that is too long");
	memcpy(url, next, (size_t)len + 1);
	return 0;
}

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

struct way { /* from the URL that was asked for along its redirects */
	char at[SCRAPE_URL_BYTES_MAX];
	int64_t deadline_ns;
	char *token;
	bool trusted; /* still at the host that the credentials are for */
};

static int request_once(struct scrape_session *session, const struct scrape_http *http, const struct scrape_request *request,
			struct way *way, struct net_client_response *response, struct error *err)
{
	const char *method = request->method ? request->method : "GET";
	size_t origin = origin_length(way->at);
	int64_t left_ns = way->deadline_ns - time_monotonic_ns();
	if (left_ns <= 0)
		return error_set(err, -ETIMEDOUT, "timeout");
	int r = open_client(session, http, request, way->at, left_ns, err);
	if (r == 0 && way->trusted)
		r = set_headers(session->client, http, request, way->token, err);
	if (r == 0 && request->accept)
		r = net_client_set_header(session->client, "Accept", request->accept, err);
	if (r < 0)
		return r;
	/* "http://host?query" has no path of its own. */
	char bare[SCRAPE_URL_BYTES_MAX];
	const char *path = way->at + origin;
	if (*path != '/') {
		snprintf(bare, sizeof(bare), "/%.*s", *path == '?' ? (int)sizeof(bare) - 2 : 0, path);
		path = bare;
	}
	return net_client_request(session->client, method, path, request->content_type, request->body, NET_PLAIN, response,
				  err);
}

static int follow(struct scrape_session *session, const struct scrape_http *http, const struct scrape_request *request,
		  struct way *way, struct net_client_response *response, struct error *err)
{
	size_t home = origin_length(request->url);
	for (unsigned i = 0; i <= REDIRECTS_MAX; i++) {
		int r = request_once(session, http, request, way, response, err);
		if (r < 0)
			return i > 0 && r == -ETIMEDOUT ? error_prefix(err, r, "after %u redirects", i) : r;
		if (way->token && way->trusted && response->status == 401)
			scrape_token_refuse(&http->oauth2->token, way->token);
		if (!is_redirect(response->status) || http->no_redirects || request->method || !response->location[0])
			return 0;
		r = resolve(way->at, sizeof(way->at), response->location, err);
		if (r < 0)
			return r;
		way->trusted = way->trusted && origin_length(way->at) == home && !strncmp(way->at, request->url, home);
	}
	return error_set(err, -ELOOP, "more than %d redirects", REDIRECTS_MAX);
}

int scrape_http_request(struct scrape_session *session, const struct scrape_http *http, const struct scrape_request *request,
			struct net_client_response *response, struct error *err)
{
	struct way way = {.deadline_ns = time_monotonic_ns() + request->timeout_ns, .trusted = true};
	struct scrape_call call = {request->cancel, way.deadline_ns};
	if (snprintf(way.at, sizeof(way.at), "%s", request->url) >= (int)sizeof(way.at))
		return error_set(err, -E2BIG, "the address is too long");
	int r = http->oauth2 ? scrape_oauth2_get(http->oauth2, &call, &way.token, err) : 0;
	if (r == 0)
		r = follow(session, http, request, &way, response, err);
	mem_free(way.token);
	return r;
}

int scrape_http_body(struct net_client_response *response, size_t max, struct buffer *ret, struct error *err)
{
	buffer_release(ret);
	buffer_init(ret, max);
	if (!strcasecmp(response->encoding, "gzip"))
		return gzip_decompress(buffer_bytes(&response->body), ret, err);
	if (response->encoding[0] && strcasecmp(response->encoding, "identity"))
		return error_set(err, -EPROTO, "unknown Content-Encoding %.31s", response->encoding);
	*ret = response->body;
	response->body = (struct buffer){0};
	return 0;
}

/* A line of what it says is more specific than the status alone; the words are the other side's to choose. */
int scrape_http_status(const struct net_client_response *response, struct bytes words, struct error *err)
{
	char line[120] = "", reason[61] = "";
	size_t len = 0;
	for (size_t i = 0; i < words.len && len + 1 < sizeof(line); i++) {
		uint8_t byte = words.data[i];
		if (byte == '\n' || byte == '\r')
			break;
		line[len++] = byte >= ' ' && byte < 0x7f ? (char)byte : '?';
	}
	snprintf(reason, sizeof(reason), "%.60s", response->message);
	for (char *at = reason; *at; at++)
		if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f)
			*at = '?';
	return error_set(err, -EPROTO, "status %d %s%s%s", response->status, reason, *line ? ": " : "", line);
}
