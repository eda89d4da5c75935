/* SPDX-License-Identifier: Apache-2.0 */
/* A request as it came: header fields, the target taken apart and decoded, and what handlers ask of it. */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/text.h"
#include "net/net_int.h"

bool http_is_token(const char *text)
{
	if (!text || !*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("!#$%&'*+-.^_`|~", *text))
			return false;
	return true;
}

bool http_is_field_value(const char *text)
{
	for (; *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
			return false;
	return true;
}

void request_init(struct net_request *request, size_t header_max)
{
	*request = (struct net_request){.method = "", .target = "", .path = ""};
	/* The target is kept three times (as it came, decoded path, decoded query). */
	request->arena.max_bytes = 4 * header_max + 16 * KIB + NET_ATTACH_MAX;
}

static void pairs_release(struct net_pairs *pairs)
{
	pairs->items = mem_free(pairs->items);
	pairs->count = pairs->capacity = 0;
}

void request_release(struct net_request *request)
{
	pairs_release(&request->headers);
	pairs_release(&request->query);
	buffer_release(&request->body);
	arena_release(&request->arena);
}

static int pairs_add(struct net_pairs *pairs, const char *name, const char *value, size_t max)
{
	if (!name || !value)
		return -ENOMEM;
	int r = array_reserve(&pairs->items, &pairs->capacity, pairs->count + 1, max);
	if (r < 0)
		return r;
	pairs->items[pairs->count++] = (struct net_pair){name, value};
	return 0;
}

int request_add_header(struct net_request *request, struct bytes name, struct bytes value)
{
	const char *kept_name = arena_strndup(&request->arena, (const char *)name.data, name.len);
	const char *kept_value = arena_strndup(&request->arena, value.len ? (const char *)value.data : "", value.len);
	request->header_bytes += name.len + value.len;
	return pairs_add(&request->headers, kept_name, kept_value, NET_HEADERS_MAX);
}

/* Returns NULL and sets *err when text is badly escaped or memory is short. */
static const char *decode(struct net_request *request, struct bytes text, bool plus_is_space, struct error *err)
{
	_cleanup_(buffer_release) struct buffer decoded = {.max = text.len};
	if (text_url_decode(text, plus_is_space, &decoded, err) < 0)
		return NULL;
	const char *kept = arena_strndup(&request->arena, decoded.data ? (const char *)decoded.data : "", decoded.len);
	if (!kept)
		error_nomem(err);
	return kept;
}

static struct bytes take_until(struct bytes *rest, char separator)
{
	const uint8_t *end = rest->len ? memchr(rest->data, separator, rest->len) : NULL;
	size_t len = end ? (size_t)(end - rest->data) : rest->len, skip = end ? len + 1 : len;
	struct bytes piece = {rest->data, len};
	*rest = (struct bytes){rest->len ? rest->data + skip : rest->data, rest->len - skip};
	return piece;
}

static int parse_query(struct net_request *request, struct bytes query, struct error *err)
{
	while (query.len > 0) {
		struct bytes value = take_until(&query, '&');
		if (value.len == 0)
			continue;
		struct bytes name = take_until(&value, '=');
		if (request->query.count >= NET_QUERY_MAX)
			return error_set(err, -EINVAL, "the query has more than %d parameters", NET_QUERY_MAX);
		const char *kept_name = decode(request, name, true, err);
		const char *kept_value = kept_name ? decode(request, value, true, err) : NULL;
		if (!kept_value)
			return error_prefix(err, -EINVAL, "bad query");
		if (pairs_add(&request->query, kept_name, kept_value, NET_QUERY_MAX) < 0)
			return error_nomem(err);
	}
	return 0;
}

/* Proxies send "http://host/path". */
static struct bytes strip_authority(struct bytes target)
{
	static const char scheme[] = "http://";
	size_t len = sizeof(scheme) - 1;
	if (target.len <= len || strncasecmp((const char *)target.data, scheme, len))
		return target;
	for (size_t i = len; i < target.len; i++)
		if (target.data[i] == '/' || target.data[i] == '?')
			return (struct bytes){target.data + i, target.len - i};
	return bytes_of_string("/");
}

int request_parse_target(struct net_request *request, struct bytes target, struct error *err)
{
	request->target = arena_strndup(&request->arena, (const char *)target.data, target.len);
	if (!request->target)
		return error_nomem(err);
	for (size_t i = 0; i < target.len; i++)
		if (target.data[i] <= ' ' || target.data[i] >= 0x7f || target.data[i] == '#')
			return error_set(err, -EINVAL, "the request target has a byte (0x%02x) that must be percent-encoded",
					 target.data[i]);
	struct bytes rest = strip_authority(target);
	struct bytes path = take_until(&rest, '?');
	if (path.len == 0 || path.data[0] != '/')
		return error_set(err, -EINVAL, "the request target must start with '/'");
	const char *decoded = decode(request, path, false, err);
	if (!decoded)
		return error_prefix(err, -EINVAL, "bad path");
	int r = parse_query(request, rest, err);
	if (r < 0)
		return r;
	request->path = decoded;
	return 0;
}

size_t request_count_header(const struct net_request *request, const char *name)
{
	size_t count = 0;
	for (size_t i = 0; i < request->headers.count; i++)
		count += !strcasecmp(request->headers.items[i].name, name);
	return count;
}

static struct bytes trim(struct bytes text)
{
	while (text.len > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = (struct bytes){text.data + 1, text.len - 1};
	while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

static bool equal_ignoring_case(struct bytes text, const char *word)
{
	return text.len == strlen(word) && !strncasecmp((const char *)text.data, word, text.len);
}

/* "q=0", "q=0.0", "q=0.00": the client does not want it. */
static bool is_weight_zero(struct bytes parameters)
{
	parameters = trim(parameters);
	if (parameters.len < 3 || tolower(parameters.data[0]) != 'q' || parameters.data[1] != '=')
		return false;
	for (size_t i = 2; i < parameters.len; i++)
		if (parameters.data[i] != '0' && parameters.data[i] != '.')
			return false;
	return true;
}

bool request_header_lists(const struct net_request *request, const char *name, const char *token)
{
	const char *value = net_request_header(request, name);
	struct bytes rest = bytes_of_string(value ? value : "");
	while (rest.len > 0) {
		struct bytes parameters = take_until(&rest, ',');
		struct bytes word = trim(take_until(&parameters, ';'));
		if (equal_ignoring_case(word, token))
			return !is_weight_zero(parameters);
	}
	return false;
}

bool net_request_accepts(const struct net_request *request, const char *media_type)
{
	return request_header_lists(request, "accept", media_type);
}

bool net_request_takes_gzip(const struct net_request *request)
{
	return request_header_lists(request, "accept-encoding", "gzip");
}

const char *net_request_method(const struct net_request *request)
{
	return request->method;
}

const char *net_request_path(const struct net_request *request)
{
	return request->path;
}

const char *net_request_target(const struct net_request *request)
{
	return request->target;
}

const char *net_request_query(const struct net_request *request, const char *name)
{
	return net_request_query_nth(request, name, 0);
}

const char *net_request_query_nth(const struct net_request *request, const char *name, size_t n)
{
	for (size_t i = 0; i < request->query.count; i++)
		if (!strcmp(request->query.items[i].name, name) && n-- == 0)
			return request->query.items[i].value;
	return NULL;
}

const char *net_request_header(const struct net_request *request, const char *name)
{
	for (size_t i = 0; i < request->headers.count; i++)
		if (!strcasecmp(request->headers.items[i].name, name))
			return request->headers.items[i].value;
	return NULL;
}

struct bytes net_request_body(const struct net_request *request)
{
	return buffer_bytes(&request->body);
}

bool net_request_is_grpc(const struct net_request *request)
{
	return request->grpc;
}

bool net_request_is_loopback(const struct net_request *request)
{
	return request->loopback;
}

uint64_t net_request_peer(const struct net_request *request)
{
	return request->peer;
}

const char *net_request_peer_address(const struct net_request *request)
{
	return request->peer_address;
}

unsigned net_request_permission(const struct net_request *request)
{
	return request->permission;
}

void net_request_set_known(struct net_request *request)
{
	request->known = true;
}

bool net_request_was_started(const struct net_request *request)
{
	return request->was_started;
}

void *net_request_attach(struct net_request *request, size_t size)
{
	assert(!request->attached && size <= NET_ATTACH_MAX);
	request->attached = arena_alloc(&request->arena, size);
	if (request->attached)
		memset(request->attached, 0, size);
	return request->attached;
}

void *net_request_attached(const struct net_request *request)
{
	return request->attached;
}

int net_request_peer_user(struct net_request *request, unsigned *ret_uid, struct error *err)
{
	struct net_user *user = request->user;
	if (!user || (!user->is_known && user->fd < 0) || !request->loopback)
		return error_set(err, -ENOTSUP, "it is not of this machine");
	int r = user->is_known ? 0 : peer_find_user(user->fd, &user->uid, err);
	user->is_known = r == 0; /* a client that has closed its end is looked for again */
	if (r == 0)
		*ret_uid = user->uid;
	return r;
}

const char *net_request_certificate_name(const struct net_request *request, size_t n)
{
	const char *name = request->certificate;
	for (; name && *name && n; n--)
		name += strlen(name) + 1;
	return name && *name ? name : NULL;
}

const atomic_bool *net_request_cancelled(const struct net_request *request)
{
	return &request->cancelled;
}
