/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>

#include "base/limits.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "render/flame.h"
#include "server/core/respond.h"

static const struct {
	int code, http;
	enum grpc_code grpc;
} statuses[] = {
	{-EBADMSG, 400, GRPC_INVALID_ARGUMENT},
	{-EINVAL, 422, GRPC_INVALID_ARGUMENT},
	{-ENOENT, 404, GRPC_NOT_FOUND},
	{-EACCES, 403, GRPC_PERMISSION_DENIED},
	{-EEXIST, 409, GRPC_ALREADY_EXISTS},
	{-EBUSY, 409, GRPC_FAILED_PRECONDITION},
	{-ERANGE, 409, GRPC_FAILED_PRECONDITION},
	{-EAGAIN, 503, GRPC_UNAVAILABLE},
	{-EMEDIUMTYPE, 415, GRPC_INVALID_ARGUMENT},
	{-E2BIG, 413, GRPC_RESOURCE_EXHAUSTED},
	{-EDQUOT, 429, GRPC_RESOURCE_EXHAUSTED},
	{-ENOSPC, 507, GRPC_RESOURCE_EXHAUSTED},
	{-ENOMEM, 503, GRPC_UNAVAILABLE},
	{-EMFILE, 503, GRPC_UNAVAILABLE},
	{-ENFILE, 503, GRPC_UNAVAILABLE},
	{-EIO, 503, GRPC_UNAVAILABLE},
	{-ENOSYS, 501, GRPC_UNIMPLEMENTED},
	{-EROFS, 503, GRPC_UNAVAILABLE},
	{-ETIME, 504, GRPC_DEADLINE_EXCEEDED},
	{-ECANCELED, 499, GRPC_CANCELLED},
	{-ETIMEDOUT, 504, GRPC_DEADLINE_EXCEEDED},
};

int http_status_of(int code)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		if (statuses[i].code == code)
			return statuses[i].http;
	return 500;
}

enum grpc_code grpc_code_of(int code)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		if (statuses[i].code == code)
			return statuses[i].grpc;
	return GRPC_INTERNAL;
}

enum grpc_code respond_grpc(struct net_response *response, enum grpc_code code, const char *text)
{
	response->grpc_status = code;
	snprintf(response->message, sizeof(response->message), "%s", text);
	return code;
}

/* One or two members, in place of what there may be of an answer. */
static void respond_texts(struct net_response *response, int status, const char *const (*members)[2], size_t count)
{
	struct json_writer json = {.out = &response->body};
	response->status = status;
	response->content_type = "application/json";
	response->no_compress = false;
	buffer_clear(&response->body);
	json_begin_object(&json);
	for (size_t i = 0; i < count; i++)
		json_member_cstring(&json, members[i][0], members[i][1]);
	json_end_object(&json);
	json_finish(&json, NULL); /* without memory for the text the status still says it */
}

void respond_error(struct net_response *response, int status, const char *text)
{
	const char *const members[][2] = {{"error", text}};
	respond_texts(response, status, members, 1);
}

void respond_code(struct net_response *response, int status, const char *code, const char *text)
{
	const char *const members[][2] = {{"code", code}, {"message", text}};
	respond_texts(response, status, members, 2);
}

int respond_svg_policy(struct net_response *response, struct error *err)
{
	_cleanup_(buffer_release) struct buffer script = {.max = MIB}, hash = {.max = KIB};
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char policy[300];
	if (svg_append_script(&script) < 0)
		return error_nomem(err);
	SHA256(script.data, script.len, digest);
	if (base64_encode((struct bytes){digest, sizeof(digest)}, &hash) < 0 || !buffer_string(&hash))
		return error_nomem(err);
	snprintf(policy, sizeof(policy),
		 "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'; "
		 "frame-ancestors 'none'; sandbox allow-scripts allow-modals",
		 buffer_string(&hash));
	net_response_header(response, "Content-Security-Policy", policy);
	return 0;
}
