/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrape/discovery_cloud.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"

const struct scrape_http discovery_metadata_http;

struct discovery_cloud *discovery_cloud_get(struct discovery *discovery, struct error *err)
{
	if (discovery->cloud)
		return discovery->cloud;
	discovery->cloud = mem_zalloc(sizeof(*discovery->cloud));
	if (discovery->cloud)
		scrape_token_init(&discovery->cloud->token);
	else
		error_nomem(err);
	return discovery->cloud;
}

void discovery_cloud_free(struct discovery_cloud *cloud)
{
	if (!cloud)
		return;
	scrape_token_release(&cloud->token);
	aws_login_release(&cloud->aws);
	azure_nics_free(cloud->nics);
	mem_free(cloud);
}

const char *discovery_environment(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

int discovery_cloud_json(struct discovery *discovery, scrape_token_function *fetch, void *context, const char *url,
			 struct json_tree **ret, struct error *err)
{
	_cleanup_(mem_freep) char *token = NULL;
	struct scrape_call call = {&discovery->stop, time_monotonic_ns() + DISCOVERY_TIMEOUT_NS};
	discovery->status = 0;
	int r = scrape_token_get(&discovery->cloud->token, fetch, context, &call, &token, err);
	if (r < 0)
		return r;
	const struct scrape_header header = {"Authorization", token};
	struct scrape_request request = {.url = url, .headers = &header, .header_count = 1};
	r = discovery_get_json(discovery, &discovery->config->http, &request, ret, err);
	if (r < 0 && discovery->status == 401)
		scrape_token_refuse(&discovery->cloud->token, token);
	return r;
}

int discovery_keep_page(struct buffer *token, const char *next, struct error *err)
{
	buffer_clear(token);
	if (buffer_append_string(token, next) < 0 || !buffer_string(token))
		return error_set(err, -E2BIG, "the token of the next page is too long");
	return *next != '\0';
}

int discovery_metadata_token(const struct scrape_call *call, const char *url, const struct scrape_header *header,
			     struct scrape_grant *ret, struct error *err)
{
	_cleanup_(scrape_session_release) struct scrape_session session = {0};
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	const struct scrape_request request = {.url = url,
					       .headers = header,
					       .header_count = 1,
					       .timeout_ns = CLOUD_METADATA_NS,
					       .body_max = SCRAPE_GRANT_MAX,
					       .cancel = call->cancel};
	int r = scrape_http_request(&session, &discovery_metadata_http, &request, &response, err);
	return r < 0 ? r : scrape_take_grant(&response, url, ret, err);
}

int discovery_form_token(const struct scrape_call *call, const struct scrape_http *http, const char *url, struct bytes form,
			 struct scrape_grant *ret, struct error *err)
{
	_cleanup_(net_client_response_release) struct net_client_response response = {0};
	int r = scrape_post_form(call, http, url, form, &response, err);
	return r < 0 ? r : scrape_take_grant(&response, url, ret, err);
}
