/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.v1.StatusService (github.com/grafana/pyroscope, api/status/v1/status.proto): what the server is.
 *
 *   GetBuildInfo                                 ->  1 status  2 data { 1 version  2 revision  3 branch  4 build_user
 *                                                                       5 build_date  6 go_version }
 *   GetConfig, GetDiffConfig, GetDefaultConfig   ->  google.api.HttpBody { 1 content_type  2 data }, YAML
 *
 * The same calls are paths of plain HTTP: GET /api/v1/status/buildinfo, config, config/diff, config/default. The configuration
 * is the limits that a tenant has, which is what clients look for there; files, addresses and secrets are no business of
 * theirs.
 */
#include <string.h>

#include "base/limits.h"
#include "codec/protobuf.h"
#include "server/http/rpc.h"
#include "server/pyroscope/messages.h"

#define MESSAGE PB_JSON_MESSAGE_OF

static const struct pb_json_message build = MESSAGE(
	"GetBuildInfoData", {"version", 1, PB_JSON_STRING}, {"revision", 2, PB_JSON_STRING}, {"branch", 3, PB_JSON_STRING},
	{"buildUser", 4, PB_JSON_STRING}, {"buildDate", 5, PB_JSON_STRING}, {"goVersion", 6, PB_JSON_STRING});
static const struct pb_json_message build_answer =
	MESSAGE("GetBuildInfoResponse", {"status", 1, PB_JSON_STRING}, {"data", 2, PB_JSON_MESSAGE, .message = &build});
static const struct pb_json_message body_answer =
	MESSAGE("HttpBody", {"contentType", 1, PB_JSON_STRING}, {"data", 2, PB_JSON_BYTES});

static int handle_build(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	size_t mark;
	pb_write_string(out, 1, "success");
	pb_begin(out, 2, &mark);
	pb_write_string(out, 1, WICK_VERSION);
	return rpc_too_large(pb_end(out, mark), err);
}

/* ---- the configuration ---- */

enum which { RUNNING, DIFFERENT, DEFAULT };

static int write_config(const struct server_limits *limits, enum which which, struct buffer *out)
{
	static const struct server_limits defaults;
	uint64_t values[SERVER_LIMIT_COUNT], usual[SERVER_LIMIT_COUNT];
	_Static_assert(sizeof(values) == sizeof(*limits), "limits are numbers");
	memcpy(values, which == DEFAULT ? &defaults : limits, sizeof(values));
	memcpy(usual, &defaults, sizeof(usual));
	buffer_append_string(out, "# 0 = the default, or no limit: docs/configuration.md\nlimits:\n");
	for (size_t i = 0; i < SERVER_LIMIT_COUNT; i++)
		if (which != DIFFERENT || values[i] != usual[i])
			buffer_printf(out, "  %s: %llu\n", server_limit_names[i], (unsigned long long)values[i]);
	return buffer_status(out);
}

static int read_config(struct server *server, const struct net_request *request, enum which which, struct buffer *out,
		       struct error *err)
{
	struct tenant *tenant;
	int r = tenant_of_request(server, request, false, &tenant, err);
	return r < 0 ? r : rpc_too_large(write_config(&tenant->limits, which, out), err);
}

#define CONFIG_TYPE "text/plain; charset=utf-8"

static int call_config(struct rpc_call *call, enum which which, struct buffer *out, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = 64 * KIB};
	int r = read_config(call->server, call->request, which, &text, err);
	if (r < 0)
		return r;
	pb_write_string(out, 1, CONFIG_TYPE);
	return rpc_too_large(pb_write_bytes(out, 2, text.data, text.len), err);
}

static void show_config(void *context, const struct net_request *request, struct net_response *response, enum which which)
{
	struct error err = {0};
	int r = read_config(context, request, which, &response->body, &err);
	response->content_type = CONFIG_TYPE;
	if (r < 0)
		respond_error(response, http_status_of(r), err.message);
}

#define CONFIG(name, which)                                                                                                    \
	static int handle_##name(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)           \
	{                                                                                                                      \
		return call_config(call, which, out, err);                                                                     \
	}                                                                                                                      \
	void pyroscope_##name(void *context, const struct net_request *request, struct net_response *response)                 \
	{                                                                                                                      \
		show_config(context, request, response, which);                                                                \
	}
CONFIG(config, RUNNING)
CONFIG(config_diff, DIFFERENT)
CONFIG(config_default, DEFAULT)

#define STATUS "/status.v1.StatusService/"
const struct rpc_method rpc_pyroscope_status[] = {
	{STATUS "GetBuildInfo", PERMIT_READ, &pyroscope_empty, &build_answer, handle_build, RPC_READ_ONLY},
	{STATUS "GetConfig", PERMIT_READ, &pyroscope_empty, &body_answer, handle_config, RPC_READ_ONLY},
	{STATUS "GetDiffConfig", PERMIT_READ, &pyroscope_empty, &body_answer, handle_config_diff, RPC_READ_ONLY},
	{STATUS "GetDefaultConfig", PERMIT_READ, &pyroscope_empty, &body_answer, handle_config_default, RPC_READ_ONLY},
	{0},
};
