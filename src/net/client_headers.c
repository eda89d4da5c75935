/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Headers of the client: those that its owner adds to every request, and what a server says about when to come back.
 *
 * A server says that in one of three ways: Retry-After (RFC 9110, 10.2.3: seconds, or a date), grpc-retry-pushback-ms
 * (grpc/proposal A6; a negative number means "not at all"), and google.rpc.RetryInfo among the details of a status
 * (google/rpc/error_details.proto), which gRPC carries as base64 in grpc-status-details-bin: Status { 3 details: Any { 1 type,
 * 2 value } }, RetryInfo { 1 Duration { 1 seconds, 2 nanos } }. If it says more than one, the longest counts.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/base64.h"
#include "codec/protobuf.h"
#include "net/client_int.h"

#define RETRY_AFTER_MAX_NS (3600 * NS_PER_S)
#define DETAILS_BYTES_MAX  (8 * KIB)
#define RETRY_INFO	   "type.googleapis.com/google.rpc.RetryInfo"

/* ---- headers to send ---- */

/* Those that frame a message, or that the client sends itself. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {"connection",
					    "content-length",
					    "content-type",
					    "content-encoding",
					    "host",
					    "keep-alive",
					    "transfer-encoding",
					    "te",
					    "upgrade",
					    "trailer",
					    "grpc-timeout",
					    "grpc-encoding",
					    "accept-encoding",
					    "user-agent"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}

static void remove_header(struct net_client *client, size_t i)
{
	mem_free(client->headers[i].name);
	mem_free(client->headers[i].value);
	client->headers[i] = client->headers[--client->header_count];
}

void net_client_clear_headers(struct net_client *client)
{
	while (client->header_count)
		remove_header(client, client->header_count - 1);
}

int net_client_set_header(struct net_client *client, const char *name, const char *value, struct error *err)
{
	if (!http_is_token(name) || is_ours(name))
		return error_set(err, -EINVAL, "'%.60s' cannot be set as a header", name ? name : "");
	if (value && (!http_is_field_value(value) || strlen(value) > NET_CLIENT_HEADER_BYTES_MAX))
		return error_set(err, -EINVAL, "the header %.60s has a control character, or is longer than %d bytes", name,
				 NET_CLIENT_HEADER_BYTES_MAX);
	size_t i = 0;
	while (i < client->header_count && strcasecmp(client->headers[i].name, name) != 0)
		i++;
	if (value && i == NET_CLIENT_HEADERS_MAX)
		return error_set(err, -E2BIG, "more than %d headers for one server", NET_CLIENT_HEADERS_MAX);
	_cleanup_(mem_freep) char *key = value ? mem_strdup(name) : NULL, *copy = value ? mem_strdup(value) : NULL;
	if (value && (!key || !copy))
		return error_nomem(err);
	if (i < client->header_count)
		remove_header(client, i);
	if (!value)
		return 0;
	for (char *at = key; *at; at++) /* HTTP/2 wants them so */
		*at = *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
	client->headers[client->header_count].name = TAKE(key);
	client->headers[client->header_count++].value = TAKE(copy);
	return 0;
}

int net_client_set_authorization(struct net_client *client, const char *scheme, const char *credentials, struct error *err)
{
	_cleanup_(buffer_release) struct buffer value = {.max = 2 * NET_CLIENT_HEADER_BYTES_MAX};
	int r = buffer_printf(&value, "%s %s", scheme, credentials);
	const char *text = r == 0 ? buffer_string(&value) : NULL;
	return text ? net_client_set_header(client, "authorization", text, err)
		    : error_set_errno(err, r < 0 ? r : -ENOMEM, "cannot create the Authorization header");
}

int net_client_set_basic_auth(struct net_client *client, const char *user, const char *password, struct error *err)
{
	_cleanup_(buffer_release) struct buffer plain = {.max = NET_CLIENT_HEADER_BYTES_MAX},
						packed = {.max = 2 * NET_CLIENT_HEADER_BYTES_MAX};
	int r = buffer_printf(&plain, "%s:%s", user, password);
	if (r == 0)
		r = base64_encode(buffer_bytes(&plain), &packed);
	const char *text = r == 0 ? buffer_string(&packed) : NULL;
	return text ? net_client_set_authorization(client, "Basic", text, err)
		    : error_set_errno(err, r < 0 ? r : -ENOMEM, "cannot create the Authorization header");
}

/* ---- when to come back ---- */

static void note_wait(struct net_client_response *response, int64_t wait_ns)
{
	if (wait_ns > RETRY_AFTER_MAX_NS)
		wait_ns = RETRY_AFTER_MAX_NS;
	if (wait_ns > response->retry_after_ns)
		response->retry_after_ns = wait_ns;
}

/* Any number of seconds, those that are over already as well. */
static void note_seconds(struct net_client_response *response, int64_t seconds)
{
	note_wait(response, seconds > 3600 ? RETRY_AFTER_MAX_NS : seconds < 0 ? 0 : seconds * NS_PER_S);
}

static void take_retry_after(struct net_client_response *response, const char *text)
{
	uint64_t seconds;
	struct tm date = {0};
	if (text_parse_u64(text, &seconds, NULL) == 0) {
		note_seconds(response, seconds > INT64_MAX ? INT64_MAX : (int64_t)seconds);
	} else if (strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &date)) {
		int64_t at_s = timegm(&date), now_s = time_now_ns() / NS_PER_S;
		note_seconds(response, at_s - now_s);
	}
}

/* The field of that number that holds bytes, the last one, as protobuf has it; empty if there is none. */
static struct bytes submessage(struct bytes message, uint32_t number)
{
	struct pb_field field;
	struct bytes found = {0};
	struct pb_cursor cursor = pb_open(message);
	while (pb_next(&cursor, &field, NULL) == 1)
		if (field.number == number && field.wire == PB_BYTES)
			found = field.bytes;
	return found;
}

static void take_retry_info(struct net_client_response *response, struct bytes info)
{
	struct pb_field field;
	uint64_t seconds = 0, nanos = 0;
	struct pb_cursor cursor = pb_open(submessage(info, 1));
	while (pb_next(&cursor, &field, NULL) == 1) {
		if (field.number == 1 && field.wire == PB_VARINT)
			seconds = field.value;
		else if (field.number == 2 && field.wire == PB_VARINT)
			nanos = field.value;
	}
	if ((int64_t)seconds >= 0 && nanos < (uint64_t)NS_PER_S)
		note_wait(response, seconds > 3600 ? RETRY_AFTER_MAX_NS : (int64_t)(seconds * NS_PER_S + nanos));
}

static void take_details(struct net_client_response *response, struct bytes text)
{
	struct pb_field field;
	_cleanup_(buffer_release) struct buffer status = {.max = DETAILS_BYTES_MAX};
	if (base64_decode(text, &status) < 0)
		return;
	struct pb_cursor cursor = pb_open(buffer_bytes(&status));
	while (pb_next(&cursor, &field, NULL) == 1)
		if (field.number == 3 && field.wire == PB_BYTES && bytes_equal_string(submessage(field.bytes, 1), RETRY_INFO))
			take_retry_info(response, submessage(field.bytes, 2));
}

void client_take_retry(struct net_client_response *response, struct bytes name, struct bytes value)
{
	char text[64];
	int64_t pushback_ms;
	if (bytes_equal_string(name, "grpc-status-details-bin")) {
		take_details(response, value);
		return;
	}
	if (value.len >= sizeof(text))
		return;
	memcpy(text, value.data, value.len);
	text[value.len] = '\0';
	if (bytes_equal_string(name, "retry-after"))
		take_retry_after(response, text);
	else if (bytes_equal_string(name, "grpc-retry-pushback-ms") && text_parse_i64(text, &pushback_ms, NULL) == 0) {
		response->never_retry = response->never_retry || pushback_ms < 0;
		note_wait(response, pushback_ms > 3600000 ? RETRY_AFTER_MAX_NS : pushback_ms < 0 ? 0 : pushback_ms * NS_PER_MS);
	}
}
