/* SPDX-License-Identifier: Apache-2.0 */
/* The description of /api/v1 for programs, docs/openapi.json, embedded as it is. JSON is YAML as well. */

#include "base/text.h"
#include "server/core/server_int.h"
#include "server/http/routes.h"

extern const uint8_t openapi_json[], openapi_json_end[];

void openapi_show(void *context, const struct net_request *request, struct net_response *response)
{
	bool yaml = text_ends_with(net_request_path(request), ".yaml");
	response->content_type = yaml ? "application/yaml" : "application/json";
	if (buffer_append(&response->body, openapi_json, (size_t)(openapi_json_end - openapi_json)) < 0)
		respond_error(response, 503, "out of memory");
}

/* In the form of Prometheus' call of that name, which Grafana's pages know. */
void buildinfo_show(void *context, const struct net_request *request, struct net_response *response)
{
	static const char *const empty[] = {"revision", "branch", "buildUser", "buildDate", "goVersion"};
	struct error err = {0};
	struct json_writer json = {.out = &response->body};
	json_begin_object(&json);
	json_member_cstring(&json, "status", "success");
	json_member_object(&json, "data");
	json_member_cstring(&json, "version", WICK_VERSION);
	for (size_t i = 0; i < sizeof(empty) / sizeof(*empty); i++)
		json_member_cstring(&json, empty[i], "");
	json_end_object(&json);
	json_end_object(&json);
	if (json_finish(&json, &err) < 0)
		respond_error(response, 503, err.message);
}
