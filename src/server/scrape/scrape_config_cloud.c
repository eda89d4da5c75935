/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there, by clouds: ec2_sd_configs, gce_sd_configs, azure_sd_configs. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "base/time.h"
#include "server/scrape/scrape_config_int.h"

#define AZURE_REFRESH (5 * 60 * NS_PER_S)

/* A region becomes a part of a host name. */
static bool is_plain_name(const char *text)
{
	for (; *text; text++)
		if (!text_is_digit((uint8_t)*text) && (((uint8_t)*text | 0x20) < 'a' || ((uint8_t)*text | 0x20) > 'z') &&
		    *text != '-')
			return false;
	return true;
}

/* Clouds have their own ways to say who we are. */
static bool has_authorization(const struct scrape_http *http)
{
	return http->user || http->credentials || http->credentials_file || http->oauth2;
}

static int check_ec2(struct yaml_reader *reader, const yaml_node_t *node, const struct ec2_config *ec2)
{
	if (!ec2->access_key != !ec2->secret_key)
		return yaml_fault(reader, node, "access_key", "and secret_key are given together, or neither is");
	if (ec2->region && (!is_plain_name(ec2->region) || strlen(ec2->region) > 60))
		return yaml_fault(reader, node, "region", "must be the name of a region, such as eu-west-1");
	if (ec2->external_id && !ec2->role_arn)
		return yaml_fault(reader, node, "external_id", "needs a role_arn");
	if (ec2->endpoint && strlen(ec2->endpoint) > EC2_ENDPOINT_MAX)
		return yaml_fault(reader, node, "endpoint", "is too long");
	return ec2->endpoint ? scrape_check_url(reader, node, "endpoint", ec2->endpoint) : 0;
}

int scrape_read_ec2(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
#define FIELD(name, member) YAML_FIELD(struct discovery_config, name, TEXT, ec2.member)
	static const struct yaml_field fields[] = {FIELD("endpoint", endpoint),
						   FIELD("region", region),
						   FIELD("access_key", access_key),
						   FIELD("secret_key", secret_key),
						   FIELD("profile", profile),
						   FIELD("role_arn", role_arn),
						   FIELD("external_id", external_id),
						   SCRAPE_PORT_FIELD,
						   {"filters", YAML_FIELD_LIST, .read = scrape_read_filter},
						   SCRAPE_REFRESH_FIELD,
						   SCRAPE_HTTP_FIELDS(struct discovery_config),
						   {0}};
#undef FIELD
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_EC2, SCRAPE_REFRESH_DEFAULT, &discovery);
	if (r < 0)
		return r;
	discovery->port = SCRAPE_PORT_DEFAULT;
	r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0)
		r = check_ec2(reader, node, &discovery->ec2);
	if (r == 0 && has_authorization(&discovery->http))
		return yaml_fault(reader, node, "ec2_sd_configs", "signs its requests: it takes no other authorization");
	return r;
}

int scrape_read_gce(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		YAML_FIELD(struct discovery_config, "project", TEXT, gce.project),
		YAML_FIELD(struct discovery_config, "zone", TEXT, gce.zone),
		YAML_FIELD(struct discovery_config, "filter", TEXT, gce.filter),
		YAML_FIELD(struct discovery_config, "tag_separator", TEXT, gce.tag_separator),
		SCRAPE_PORT_FIELD,
		SCRAPE_REFRESH_FIELD,
		{0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_GCE, SCRAPE_REFRESH_DEFAULT, &discovery);
	if (r < 0)
		return r;
	discovery->port = SCRAPE_PORT_DEFAULT;
	discovery->gce.tag_separator = ",";
	discovery->http.proxy_from_environment = true; /* as Google's own client */
	r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0 && (!discovery->gce.project || !discovery->gce.zone))
		return yaml_fault(reader, node, "gce_sd_configs", "needs a project and a zone");
	return r;
}

static int read_login(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const char *const names[AZURE_LOGINS] = {"OAuth", "ManagedIdentity", "SDK", "WorkloadIdentity"};
	struct azure_config *azure = object;
	int login = scrape_read_name(reader, node, "authentication_method", names, AZURE_LOGINS,
				     "must be OAuth, ManagedIdentity, SDK or WorkloadIdentity");
	if (login < 0)
		return login;
	azure->login = (enum azure_login)login;
	return 0;
}

static int check_azure(struct yaml_reader *reader, const yaml_node_t *node, const struct discovery_config *discovery)
{
	static const char *const clouds[] = {"AzurePublicCloud", "AzureCloud",	      "AzureGermanCloud",
					     "AzureChinaCloud",	 "AzureUSGovernment", "AzureUSGovernmentCloud"};
	const struct azure_config *azure = &discovery->azure;
	bool known = false;
	for (size_t i = 0; i < sizeof(clouds) / sizeof(*clouds); i++)
		known |= !strcasecmp(azure->environment, clouds[i]);
	if (!known)
		return yaml_fault(reader, node, azure->environment, "is not an environment such as AzurePublicCloud");
	if (!azure->subscription_id)
		return yaml_fault(reader, node, "azure_sd_configs", "needs a subscription_id");
	if (azure->login == AZURE_OAUTH && (!azure->tenant_id || !azure->client_id || !azure->client_secret))
		return yaml_fault(reader, node, "azure_sd_configs",
				  "needs a tenant_id, a client_id and a client_secret with OAuth");
	if (has_authorization(&discovery->http))
		return yaml_fault(reader, node, "azure_sd_configs",
				  "has an authentication_method: it takes no other authorization");
	return 0;
}

int scrape_read_azure(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
#define FIELD(name, member) YAML_FIELD(struct discovery_config, name, TEXT, azure.member)
	static const struct yaml_field fields[] = {
		FIELD("environment", environment),
		FIELD("subscription_id", subscription_id),
		FIELD("tenant_id", tenant_id),
		FIELD("client_id", client_id),
		FIELD("client_secret", client_secret),
		FIELD("resource_group", resource_group),
		YAML_FIELD(struct discovery_config, "authentication_method", CUSTOM, azure, read_login),
		SCRAPE_PORT_FIELD,
		SCRAPE_REFRESH_FIELD,
		SCRAPE_HTTP_FIELDS(struct discovery_config),
		{0}};
#undef FIELD
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_AZURE, AZURE_REFRESH, &discovery);
	if (r < 0)
		return r;
	discovery->port = SCRAPE_PORT_DEFAULT;
	discovery->azure.environment = "AzurePublicCloud";
	r = yaml_read_fields(reader, node, fields, discovery);
	return r < 0 ? r : check_azure(reader, node, discovery);
}
