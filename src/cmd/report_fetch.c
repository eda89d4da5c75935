/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles by HTTP, as `go tool pprof` fetches them: of Go's net/http/pprof and of whatever has such a URL. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/report.h"
#include "format/format.h"
#include "net/net.h"

#define CPU_PROFILE	    "/debug/pprof/profile"
#define CPU_PROFILE_SECONDS 30
#define TIMEOUT_SECONDS	    60
#define SECONDS_MAX	    86400
#define URL_BYTES_MAX	    8192

static bool has_scheme(const char *input)
{
	return text_starts_with(input, "http://") || text_starts_with(input, "https://");
}

/* HOST:PORT, and perhaps a path. */
static bool has_port(const char *input)
{
	size_t host = strcspn(input, ":/?{ "), digits = 0;
	if (input[0] == '[') /* of IPv6 */
		host = strcspn(input, "]") + 1;
	if (host == 0 || host > strlen(input) || input[host] != ':')
		return false;
	while (text_is_digit((uint8_t)input[host + 1 + digits]))
		digits++;
	char next = input[host + 1 + digits];
	return digits > 0 && digits <= 5 && (next == '\0' || next == '/' || next == '?');
}

bool report_is_url(const char *input)
{
	return has_scheme(input) || has_port(input);
}

static int parse_seconds(const char *name, const char *text, uint64_t *ret, struct error *err)
{
	int r = text ? text_parse_u64(text, ret, err) : 0;
	if (r == 0 && *ret > SECONDS_MAX)
		r = error_set(err, -EINVAL, "more than %d seconds", SECONDS_MAX);
	return r < 0 ? error_prefix(err, r, "--%s", name) : 0;
}

/* Appends the path with its parameters but "seconds", whose value *ret_seconds is; 0 = there is none. */
static int append_path(const char *path, struct buffer *out, uint64_t *ret_seconds, struct error *err)
{
	*ret_seconds = 0;
	size_t len = strcspn(path, "?#");
	char mark = '?';
	bool is_root = len == 0 || (len == 1 && path[0] == '/');
	buffer_append(out, is_root ? CPU_PROFILE : path, is_root ? strlen(CPU_PROFILE) : len);
	for (const char *at = path + len; *at == '?' || *at == '&';) {
		size_t part = strcspn(++at, "&#");
		char number[24];
		if (part > 8 && part < sizeof(number) + 8 && memcmp(at, "seconds=", 8) == 0) {
			memcpy(number, at + 8, part - 8);
			number[part - 8] = '\0';
			int r = parse_seconds("seconds", number, ret_seconds, err);
			if (r < 0)
				return r;
		} else if (part > 0) {
			buffer_append_byte(out, (uint8_t)mark);
			buffer_append(out, at, part);
			mark = '&';
		}
		at += part;
	}
	return 0;
}

static int request(const char *base, const char *path, uint64_t timeout, struct buffer *ret, struct error *err)
{
	const struct net_client_options options = {
		.url = base, .timeout_ns = (int64_t)timeout * NS_PER_S, .response_max = LIMIT_PROFILE_FILE_BYTES};
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	int r = net_client_new(&options, &client, err);
	if (r == 0)
		r = net_client_request(client, "GET", path, NULL, (struct bytes){0}, NET_PLAIN, &response, err);
	if (r < 0)
		return r;
	if (response.status != 200)
		return error_set(err, -EBADMSG, "%s%s responded with status %d %.200s", base, path, response.status,
				 response.message);
	*ret = response.body;
	response.body = (struct buffer){0};
	return 0;
}

int report_fetch(const struct report_arguments *arguments, const char *url, struct profile **ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer base = {.max = URL_BYTES_MAX}, path = {.max = URL_BYTES_MAX}, body = {0};
	uint64_t seconds = 0, timeout = 0;
	int r = parse_seconds("seconds", arguments->seconds, &seconds, err);
	if (r == 0)
		r = parse_seconds("timeout", arguments->timeout, &timeout, err);
	if (r < 0)
		return r;
	uint64_t own;
	size_t scheme = has_scheme(url) ? (size_t)(strstr(url, "://") - url) + 3 : 0;
	size_t host = strcspn(url + scheme, "/?#");
	buffer_append_string(&base, scheme ? "" : "http://");
	buffer_append(&base, url, scheme + host);
	r = append_path(url + scheme + host, &path, &own, err);
	if (r < 0)
		return error_prefix(err, r, "%.200s", url);
	seconds = seconds ? seconds : own;
	if (!seconds && bytes_equal_string(buffer_bytes(&path), CPU_PROFILE))
		seconds = CPU_PROFILE_SECONDS;
	if (seconds)
		buffer_printf(&path, "%cseconds=%llu", path.len && memchr(path.data, '?', path.len) ? '&' : '?',
			      (unsigned long long)seconds);
	if (!timeout)
		timeout = seconds ? seconds + (seconds + 1) / 2 : TIMEOUT_SECONDS;
	const char *where = buffer_string(&base), *what = buffer_string(&path);
	if (!where || !what)
		return error_set(err, -EINVAL, "the URL is too long");
	r = request(where, what, timeout, &body, err);
	struct format_options decoding = {.input_name = url, .decompressed_max = LIMIT_PROFILE_FILE_BYTES};
	return r < 0 ? r : format_decode(arguments->format, buffer_bytes(&body), &decoding, ret, err);
}
