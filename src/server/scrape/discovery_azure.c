/* SPDX-License-Identifier: Apache-2.0 */
/*
 * azure_sd_configs: virtual machines, those of scale sets included, from Azure's Resource Manager
 * (https://learn.microsoft.com/en-us/rest/api/compute/, .../network/). The labels have Prometheus' names.
 *
 *   /subscriptions/S/[resourceGroups/G/]providers/Microsoft.Compute/virtualMachines
 *   /subscriptions/S/[resourceGroups/G/]providers/Microsoft.Compute/virtualMachineScaleSets, and .../NAME/virtualMachines
 *   the network interfaces of each machine, by their ids: only they have addresses
 *
 * Lists are pages with a link to the next one; it is followed on the same host only, as the token goes with it. Interfaces are
 * a request each, of which Azure allows so many an hour: what they report is remembered for ten refresh_intervals, as
 * Prometheus does.
 *
 * Who we are to Azure: authentication_method OAuth is a client secret; ManagedIdentity the machine's metadata service;
 * WorkloadIdentity a token in a file that is exchanged (AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID); SDK what
 * there is of AZURE_CLIENT_SECRET, the latter and the metadata service, in this order.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"
#include "server/scrape/discovery_cloud.h"
#include "server/scrape/discovery_set.h"

#define META		"__meta_azure_"
#define COMPUTE_VERSION "2022-11-01"
#define NETWORK_VERSION "2023-09-01"
#define SCALE_VERSION	"2018-10-01" /* of interfaces in scale sets: there is no newer one */
#define URL_MAX		8192
#define FORM_BYTES_MAX	(64 * KIB)
#define MACHINES_MAX	20000
#define KEPT_REFRESHES	10

struct azure_cloud {
	const char *name, *login, *manager;
};
static const struct azure_cloud clouds[] = {
	{"AzureChinaCloud", "https://login.chinacloudapi.cn", "https://management.chinacloudapi.cn"},
	{"AzureUSGovernment", "https://login.microsoftonline.us", "https://management.usgovcloudapi.net"},
	{"AzureUSGovernmentCloud", "https://login.microsoftonline.us", "https://management.usgovcloudapi.net"},
	{NULL, "https://login.microsoftonline.com", "https://management.azure.com"}, /* the others */
};

/* What is known of an interface. */
struct azure_nic {
	enum { NIC_PRIMARY, NIC_OTHER, NIC_OFF, NIC_GONE } state; /* off: its machine is deallocated */
	char private_ip[48], public_ip[48];
	int64_t expires_ns; /* monotonic */
};
struct azure_nics {
	struct map64 places; /* hash of the id to the place in items */
	struct azure_nic *items;
	size_t count, capacity;
};

struct listing {
	struct discovery *discovery;
	const struct azure_config *config;
	const struct azure_cloud *cloud;
	struct azure_nics *old, *now;
	struct discovered *found;
	size_t machines;
	struct error *err;
};

void azure_nics_free(struct azure_nics *nics)
{
	if (!nics)
		return;
	map64_release(&nics->places);
	mem_free(nics->items);
	mem_free(nics);
}

/* ---- who we are ---- */

static const struct azure_cloud *find_cloud(const struct azure_config *config)
{
	const struct azure_cloud *cloud = clouds;
	while (cloud->name && strcasecmp(cloud->name, config->environment))
		cloud++;
	return cloud;
}

static const char *given_or(const char *given, const char *variable)
{
	return given ? given : discovery_environment(variable);
}

static void begin_form(struct buffer *form, const struct azure_cloud *cloud, const char *client)
{
	char scope[200];
	snprintf(scope, sizeof(scope), "%s/.default", cloud->manager);
	scrape_append_pair(form, "grant_type", "client_credentials");
	scrape_append_pair(form, "scope", scope);
	scrape_append_pair(form, "client_id", client);
}

static int send_form(struct listing *listing, const struct scrape_call *call, const char *tenant, const struct buffer *form,
		     struct scrape_grant *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	const char *host = given_or(NULL, "AZURE_AUTHORITY_HOST");
	scrape_append_base(&url, host ? host : listing->cloud->login);
	buffer_append_byte(&url, '/');
	text_url_encode(&url, bytes_of_string(tenant));
	buffer_append_string(&url, "/oauth2/v2.0/token");
	const char *text = buffer_string(&url);
	if (!text || buffer_status(form) < 0)
		return error_set(err, -E2BIG, "the request for a token is too long");
	return discovery_form_token(call, &listing->discovery->config->http, text, buffer_bytes(form), ret, err);
}

static int by_secret(struct listing *listing, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer form = {.max = FORM_BYTES_MAX};
	const struct azure_config *config = listing->config;
	bool own = config->login == AZURE_OAUTH;
	const char *client = own ? config->client_id : given_or(config->client_id, "AZURE_CLIENT_ID");
	const char *tenant = own ? config->tenant_id : given_or(config->tenant_id, "AZURE_TENANT_ID");
	begin_form(&form, listing->cloud, client ? client : "");
	scrape_append_pair(&form, "client_secret", own ? config->client_secret : discovery_environment("AZURE_CLIENT_SECRET"));
	return send_form(listing, call, tenant ? tenant : "", &form, ret, err);
}

static int by_workload(struct listing *listing, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer form = {.max = FORM_BYTES_MAX}, file = {0};
	const char *path = discovery_environment("AZURE_FEDERATED_TOKEN_FILE"), *assertion;
	const char *client = given_or(listing->config->client_id, "AZURE_CLIENT_ID");
	const char *tenant = given_or(listing->config->tenant_id, "AZURE_TENANT_ID");
	if (!path || !client || !tenant)
		return error_set(err, -ENOENT,
				 "WorkloadIdentity needs AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID and AZURE_TENANT_ID");
	int r = scrape_read_secret(NULL, path, &file, &assertion, err);
	if (r < 0)
		return r;
	begin_form(&form, listing->cloud, client);
	scrape_append_pair(&form, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
	scrape_append_pair(&form, "client_assertion", assertion);
	return send_form(listing, call, tenant, &form, ret, err);
}

static int by_machine(struct listing *listing, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	static const struct scrape_header header = {"Metadata", "true"};
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	const char *host = discovery_environment("AZURE_POD_IDENTITY_AUTHORITY_HOST");
	buffer_printf(&url, "%s/metadata/identity/oauth2/token?api-version=2018-02-01",
		      host ? host : "http://" CLOUD_METADATA_HOST);
	scrape_append_parameter(&url, "resource", listing->cloud->manager);
	if (listing->config->client_id)
		scrape_append_parameter(&url, "client_id", listing->config->client_id);
	const char *text = buffer_string(&url);
	return text ? discovery_metadata_token(call, text, &header, ret, err)
		    : error_set(err, -E2BIG, "the address is too long");
}

static int fetch_token(void *context, const struct scrape_call *call, struct scrape_grant *ret, struct error *err)
{
	struct listing *listing = context;
	switch (listing->config->login) {
	case AZURE_MANAGED_IDENTITY: return by_machine(listing, call, ret, err);
	case AZURE_WORKLOAD_IDENTITY: return by_workload(listing, call, ret, err);
	case AZURE_SDK:
		if (discovery_environment("AZURE_CLIENT_SECRET"))
			return by_secret(listing, call, ret, err);
		return discovery_environment("AZURE_FEDERATED_TOKEN_FILE") ? by_workload(listing, call, ret, err)
									   : by_machine(listing, call, ret, err);
	default: return by_secret(listing, call, ret, err);
	}
}

/* ---- requests ---- */

static int get(struct listing *listing, const char *url, struct json_tree **ret)
{
	return discovery_cloud_json(listing->discovery, fetch_token, listing, url, ret, listing->err);
}

static int use_link(struct listing *listing, const char *link, struct buffer *url)
{
	size_t len = strlen(listing->cloud->manager);
	const char *rest = link + len;
	/* "https://management.azure.com:443/..." is how it is written. */
	if (strncasecmp(link, listing->cloud->manager, len))
		return error_set(listing->err, -EPROTO, "the link to the next page leads to another host");
	if (text_starts_with(rest, ":443"))
		rest += 4;
	if (*rest != '/')
		return error_set(listing->err, -EPROTO, "the link to the next page leads to another host");
	buffer_clear(url);
	int r = buffer_printf(url, "%s%s", listing->cloud->manager, rest);
	return r < 0 ? error_set(listing->err, r, "the link to the next page is too long") : 0;
}

typedef int take_function(struct listing *listing, const struct json_node *object, const char *scale_set);

/* All pages of a list, from the URL on. */
static int each(struct listing *listing, struct buffer *url, take_function *take, const char *scale_set)
{
	for (unsigned i = 0; i < CLOUD_PAGES_MAX; i++) {
		_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
		const char *text = buffer_string(url);
		int r = text ? get(listing, text, &tree) : error_set(listing->err, -E2BIG, "the address is too long");
		const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL, *list = json_node_get(root, "value");
		if (r == 0)
			r = discovery_expect(list, JSON_NODE_ARRAY, listing->cloud->manager, listing->err);
		for (size_t k = 0; k < json_node_count(list) && r == 0; k++)
			r = take(listing, json_node_at(list, k), scale_set);
		const char *next = discovery_text(root, "nextLink");
		if (r < 0 || !*next)
			return r;
		r = use_link(listing, next, url);
		if (r < 0)
			return r;
	}
	return error_set(listing->err, -E2BIG, "Azure: more than %d pages", CLOUD_PAGES_MAX);
}

/* The part of "/subscriptions/S/resourceGroups/G/providers/..." behind that name; its length. */
static struct bytes part_of(const char *id, const char *name)
{
	size_t len = strlen(name);
	for (const char *at = id; (at = strchr(at, '/')); at++)
		if (!strncasecmp(at + 1, name, len) && at[1 + len] == '/')
			return (struct bytes){(const uint8_t *)at + len + 2, strcspn(at + len + 2, "/")};
	return (struct bytes){0};
}

static void begin_url(const struct listing *listing, const char *group, size_t group_len, struct buffer *url)
{
	buffer_printf(url, "%s/subscriptions/", listing->cloud->manager);
	text_url_encode(url, bytes_of_string(listing->config->subscription_id));
	if (!group_len)
		return;
	buffer_append_string(url, "/resourceGroups/");
	text_url_encode(url, (struct bytes){(const uint8_t *)group, group_len});
}

/* ---- interfaces ---- */

static void read_nic(const struct json_node *root, struct azure_nic *ret)
{
	const struct json_node *properties = json_node_get(root, "properties"), *primary = json_node_get(properties, "primary");
	const struct json_node *first =
		json_node_get(json_node_at(json_node_get(properties, "ipConfigurations"), 0), "properties");
	const struct json_node *public = json_node_get(json_node_get(first, "publicIPAddress"), "properties");
	if (!json_node_is(properties, JSON_NODE_OBJECT))
		ret->state = NIC_OTHER;
	else if (!json_node_is(primary, JSON_NODE_BOOLEAN))
		ret->state = NIC_OFF;
	else
		ret->state = primary->boolean ? NIC_PRIMARY : NIC_OTHER;
	snprintf(ret->private_ip, sizeof(ret->private_ip), "%.47s", discovery_text(first, "privateIPAddress"));
	snprintf(ret->public_ip, sizeof(ret->public_ip), "%.47s", discovery_text(public, "ipAddress"));
}

static int get_nic(struct listing *listing, const char *id, const char *scale_set, const char *instance, struct azure_nic *ret)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	struct bytes group = part_of(id, "resourceGroups"), name = part_of(id, "networkInterfaces");
	begin_url(listing, (const char *)group.data, group.len, &url);
	if (scale_set) {
		buffer_append_string(&url, "/providers/microsoft.Compute/virtualMachineScaleSets/");
		text_url_encode(&url, bytes_of_string(scale_set));
		buffer_append_string(&url, "/virtualMachines/");
		text_url_encode(&url, bytes_of_string(instance));
	} else {
		buffer_append_string(&url, "/providers/Microsoft.Network");
	}
	buffer_append_string(&url, "/networkInterfaces/");
	text_url_encode(&url, name);
	scrape_append_parameter(&url, "api-version", scale_set ? SCALE_VERSION : NETWORK_VERSION);
	scrape_append_parameter(&url, "$expand", "IPConfigurations/PublicIPAddress");
	const char *text = buffer_string(&url);
	if (!text || !group.len || !name.len)
		return error_set(listing->err, -EBADMSG, "a network interface has the malformed id %.200s", id);
	int r = get(listing, text, &tree);
	*ret = (struct azure_nic){.state = NIC_GONE};
	if (r < 0 && listing->discovery->status == 404)
		return 0;
	if (r == 0)
		read_nic(json_tree_root(tree), ret);
	return r;
}

/* Remembered, or asked for. Not all are to be asked for again at the same time. */
static int find_nic(struct listing *listing, const char *id, const char *scale_set, const char *instance, struct azure_nic *ret)
{
	uint64_t key = hash64(id, strlen(id)), place;
	int64_t now_ns = time_monotonic_ns(), life_ns = listing->discovery->config->refresh_ns * KEPT_REFRESHES;
	struct azure_nics *old = listing->old, *now = listing->now;
	bool known = old && map64_get(&old->places, key, &place) && old->items[place].expires_ns > now_ns;
	int r = 0;
	if (known) {
		*ret = old->items[place];
	} else {
		r = get_nic(listing, id, scale_set, instance, ret);
		ret->expires_ns = now_ns + life_ns + (int64_t)(hash64_mix(key) % (uint64_t)(life_ns / 3 + 1));
	}
	if (r < 0 || ret->state == NIC_GONE)
		return r;
	if (map64_put(&now->places, key, now->count) < 0 ||
	    array_push(&now->items, &now->count, &now->capacity, 4 * MACHINES_MAX, *ret) < 0)
		return error_nomem(listing->err);
	return 0;
}

/* ---- machines ---- */

static void put_machine(struct listing *listing, struct discovery_set *set, const struct json_node *machine,
			const char *scale_set)
{
	const struct json_node *properties = json_node_get(machine, "properties");
	const struct json_node *disk = json_node_get(json_node_get(properties, "storageProfile"), "osDisk");
	const char *id = discovery_text(machine, "id");
	struct bytes group = part_of(id, "resourceGroups");
	const char *group_text = group.len ? arena_strndup(set->texts, (const char *)group.data, group.len) : NULL;
	discovery_put(set, META "subscription_id", listing->config->subscription_id);
	discovery_put(set, META "tenant_id", listing->config->tenant_id);
	discovery_put(set, META "machine_id", id);
	discovery_put(set, META "machine_name", discovery_text(machine, "name"));
	discovery_put(set, META "machine_computer_name",
		      discovery_text(json_node_get(properties, "osProfile"), "computerName"));
	discovery_put(set, META "machine_os_type", discovery_text(disk, "osType"));
	discovery_put(set, META "machine_location", discovery_text(machine, "location"));
	discovery_put(set, META "machine_resource_group", group_text);
	discovery_put(set, META "machine_size", discovery_text(json_node_get(properties, "hardwareProfile"), "vmSize"));
	discovery_put(set, META "machine_scale_set", scale_set);
	discovery_put_map(set, META "machine_tag_", json_node_get(machine, "tags"));
}

static int add_machine(struct listing *listing, const struct json_node *machine, const char *scale_set,
		       const struct azure_nic *nic)
{
	struct discovery_set set;
	char port[8];
	if (!*nic->private_ip)
		return error_set(listing->err, -EBADMSG, "the machine %.100s has no private address",
				 discovery_text(machine, "name"));
	snprintf(port, sizeof(port), "%u", listing->discovery->config->port);
	discovery_set_init(&set);
	put_machine(listing, &set, machine, scale_set);
	discovery_put(&set, META "machine_private_ip", nic->private_ip);
	discovery_put(&set, META "machine_public_ip", nic->public_ip);
	int r = discovery_set_add(&set, nic->private_ip, port, listing->found, listing->err);
	discovery_set_release(&set);
	return r;
}

static int take_machine(struct listing *listing, const struct json_node *machine, const char *scale_set)
{
	const struct json_node *network = json_node_get(json_node_get(machine, "properties"), "networkProfile");
	const struct json_node *nics = json_node_get(network, "networkInterfaces");
	if (++listing->machines > MACHINES_MAX)
		return error_set(listing->err, -E2BIG, "Azure: more than %d machines", MACHINES_MAX);
	for (size_t i = 0; i < json_node_count(nics); i++) {
		struct azure_nic nic;
		int r = find_nic(listing, discovery_text(json_node_at(nics, i), "id"), scale_set,
				 discovery_text(machine, "instanceId"), &nic);
		if (r < 0 || nic.state == NIC_GONE || nic.state == NIC_OFF)
			return r;
		if (nic.state == NIC_PRIMARY)
			return add_machine(listing, machine, scale_set, &nic);
	}
	return 0;
}

static int take_scale_set(struct listing *listing, const struct json_node *scale_set, const char *unused)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	const char *id = discovery_text(scale_set, "id"), *name = discovery_text(scale_set, "name");
	struct bytes group = part_of(id, "resourceGroups");
	if (!group.len || !*name)
		return error_set(listing->err, -EBADMSG, "a scale set has the malformed id %.200s", id);
	begin_url(listing, (const char *)group.data, group.len, &url);
	buffer_append_string(&url, "/providers/Microsoft.Compute/virtualMachineScaleSets/");
	text_url_encode(&url, bytes_of_string(name));
	buffer_append_string(&url, "/virtualMachines");
	scrape_append_parameter(&url, "api-version", COMPUTE_VERSION);
	return each(listing, &url, take_machine, name);
}

static int list(struct listing *listing, const char *what, take_function *take)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	const char *group = listing->config->resource_group;
	begin_url(listing, group, group ? strlen(group) : 0, &url);
	buffer_printf(&url, "/providers/Microsoft.Compute/%s", what);
	scrape_append_parameter(&url, "api-version", COMPUTE_VERSION);
	return each(listing, &url, take, NULL);
}

int discovery_azure(struct discovery *discovery, struct discovered *found, struct error *err)
{
	struct discovery_cloud *cloud = discovery_cloud_get(discovery, err);
	const struct azure_config *config = &discovery->config->azure;
	struct listing listing = {.discovery = discovery,
				  .config = config,
				  .cloud = find_cloud(config),
				  .old = cloud ? cloud->nics : NULL,
				  .now = mem_zalloc(sizeof(*listing.now)),
				  .found = found,
				  .err = err};
	if (!cloud || !listing.now) {
		mem_free(listing.now);
		return error_nomem(err);
	}
	int r = list(&listing, "virtualMachines", take_machine);
	if (r == 0)
		r = list(&listing, "virtualMachineScaleSets", take_scale_set);
	/* A look that failed in the middle has not seen all of them. If it has seen more than the last one, that is kept: else
	 * who is allowed fewer requests than there are interfaces would never come to the end of them. */
	bool keep = r == 0 || !cloud->nics || listing.now->count > cloud->nics->count;
	azure_nics_free(keep ? cloud->nics : listing.now);
	if (keep)
		cloud->nics = listing.now;
	return r;
}
