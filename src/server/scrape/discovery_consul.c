/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consul_sd_configs: instances of services, from Consul's HTTP API (https://developer.hashicorp.com/consul/api-docs). The
 * labels have Prometheus' names.
 *
 *   /v1/agent/self            the data center, if the configuration names none
 *   /v1/catalog/services      names of services and their tags, if they are not all in the configuration
 *   /v1/health/service/NAME   instances of a service, with their node and checks
 *
 * Changes. Every response has an index (X-Consul-Index), and a request with ?index= waits until there is a newer one ("blocking
 * queries"). One such request waits between two looks: of the catalog, which changes when any instance comes or goes, or of the
 * service, if it is the only one. Everything is looked at again when it returns, and every refresh_interval in any case, for
 * what that index does not cover: checks that begin to fail. Prometheus has a request waiting for each service; that is a
 * thread and a connection for each here, and was put off.
 *
 * An index that goes backwards, or is 0, says nothing: the next request is made without one ("implementation details" there).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/time.h"
#include "server/scrape/discovery_set.h"

#define META	       "__meta_consul_"
#define SERVICES_MAX   10000
#define WATCH_NS_MAX   (120 * NS_PER_S)
#define CHANGE_NS_MIN  NS_PER_S /* between two looks, however often things change */
#define NAP_NS	       (200 * NS_PER_MS)
#define URL_MAX	       (16 * KIB)
#define BLOCK_SLACK_NS (15 * NS_PER_S) /* as Prometheus */

struct consul_watch {
	char datacenter[128];
	uint64_t index; /* 0 = nothing to wait with */
	char *url;	/* what the index is of, without it */
	int64_t looked_ns;
};

struct catalog {
	struct discovery *discovery;
	const struct consul_config *config;
	struct consul_watch *watch;
	struct discovered *found;
	struct error *err;
};

void discovery_consul_free(struct consul_watch *watch)
{
	if (watch)
		mem_free(watch->url);
	mem_free(watch);
}

/* ---- requests ---- */

static void append_common(const struct consul_config *config, const char *filter, struct buffer *url)
{
	const char *const pairs[][2] = {
		{"dc", config->datacenter}, {"ns", config->namespace}, {"partition", config->partition}, {"filter", filter}};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++)
		if (pairs[i][1])
			scrape_append_parameter(url, pairs[i][0], pairs[i][1]);
	if (config->allow_stale)
		scrape_append_parameter(url, "stale", "");
	for (size_t i = 0; i < config->node_meta_count; i++) {
		_cleanup_(buffer_release) struct buffer pair = {.max = URL_MAX};
		buffer_printf(&pair, "%s:%s", config->node_meta[i].name, config->node_meta[i].value);
		const char *text = buffer_string(&pair);
		scrape_append_parameter(url, "node-meta", text ? text : "");
	}
}

static int get(struct discovery *discovery, const char *url, int64_t timeout_ns, struct json_tree **ret, struct error *err)
{
	const struct discovery_config *config = discovery->config;
	const struct scrape_header header = {"X-Consul-Token", config->consul.token};
	struct scrape_request request = {
		.url = url, .headers = &header, .header_count = 1, .keep_header = "X-Consul-Index", .timeout_ns = timeout_ns};
	return discovery_get_json(discovery, &config->http, &request, ret, err);
}

static int get_url(struct catalog *catalog, struct buffer *url, struct json_tree **ret)
{
	const char *text = buffer_string(url);
	return text ? get(catalog->discovery, text, 0, ret, catalog->err)
		    : error_set(catalog->err, -E2BIG, "the address is too long");
}

/* What to wait for a change of. */
static int watch_this(struct catalog *catalog, struct buffer *url)
{
	struct consul_watch *watch = catalog->watch;
	uint64_t index;
	mem_free(watch->url);
	watch->url = mem_strdup(buffer_string(url));
	watch->index = watch->url && text_parse_u64(catalog->discovery->kept, &index, NULL) == 0 ? index : 0;
	return watch->url ? 0 : error_nomem(catalog->err);
}

/* ---- instances ---- */

/* As Consul's own client sums up checks. */
static const char *health(const struct json_node *checks)
{
	static const char *const names[] = {"passing", "warning", "critical", "maintenance"};
	size_t worst = 0;
	for (size_t i = 0; i < json_node_count(checks); i++) {
		const struct json_node *check = json_node_at(checks, i);
		const char *id = discovery_text(check, "CheckID"), *status = discovery_text(check, "Status");
		size_t rank = 0;
		if (!strcmp(id, "_node_maintenance") || text_starts_with(id, "_service_maintenance:"))
			rank = 3;
		else if (!strcmp(status, "critical"))
			rank = 2;
		else if (!strcmp(status, "warning"))
			rank = 1;
		else if (strcmp(status, "passing"))
			return "";
		if (rank > worst)
			worst = rank;
	}
	return names[worst];
}

static int take_instance(struct catalog *catalog, struct discovery_set *set, const char *name, const struct json_node *instance)
{
	const struct json_node *node = json_node_get(instance, "Node"), *service = json_node_get(instance, "Service");
	const char *address = discovery_text(service, "Address"), *node_address = discovery_text(node, "Address");
	const char *port = discovery_number(set, json_node_get(service, "Port"));
	discovery_put(set, META "service", name);
	discovery_put(set, META "dc", catalog->watch->datacenter);
	discovery_put(set, META "address", node_address);
	discovery_put(set, META "node", discovery_text(node, "Node"));
	discovery_put(set, META "namespace", discovery_text(service, "Namespace"));
	discovery_put(set, META "partition", discovery_text(service, "Partition"));
	discovery_put_list(set, META "tags", json_node_get(service, "Tags"), catalog->config->tag_separator, true);
	discovery_put(set, META "service_address", address);
	discovery_put(set, META "service_port", port);
	discovery_put(set, META "service_id", discovery_text(service, "ID"));
	discovery_put(set, META "health", health(json_node_get(instance, "Checks")));
	discovery_put_map(set, META "metadata_", json_node_get(node, "Meta"));
	discovery_put_map(set, META "service_metadata_", json_node_get(service, "Meta"));
	discovery_put_map(set, META "tagged_address_", json_node_get(node, "TaggedAddresses"));
	return discovery_set_add(set, *address ? address : node_address, port, catalog->found, catalog->err);
}

static int take_service(struct catalog *catalog, const char *name, bool watched)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	const struct consul_config *config = catalog->config;
	buffer_printf(&url, "%s/v1/health/service/", catalog->discovery->config->url);
	text_url_encode(&url, bytes_of_string(name));
	append_common(config, config->health_filter, &url);
	for (size_t i = 0; i < config->tag_count; i++)
		scrape_append_parameter(&url, "tag", config->tags[i]);
	int r = get_url(catalog, &url, &tree);
	if (r == 0 && watched)
		r = watch_this(catalog, &url);
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL;
	if (r == 0)
		r = discovery_expect(root, JSON_NODE_ARRAY, catalog->discovery->config->url, catalog->err);
	for (size_t i = 0; i < json_node_count(root) && r == 0; i++) {
		struct discovery_set set;
		discovery_set_init(&set);
		r = take_instance(catalog, &set, name, json_node_at(root, i));
		discovery_set_release(&set);
	}
	return r;
}

/* ---- services ---- */

static bool has_text(const struct json_node *texts, const char *wanted)
{
	for (size_t i = 0; i < json_node_count(texts); i++) {
		const char *text = json_node_text(json_node_at(texts, i));
		if (text && !strcmp(text, wanted))
			return true;
	}
	return false;
}

static bool is_wanted(const struct consul_config *config, const char *name, const struct json_node *tags)
{
	bool named = config->service_count == 0;
	for (size_t i = 0; i < config->service_count && !named; i++)
		named = !strcmp(config->services[i], name);
	for (size_t i = 0; i < config->tag_count && named; i++)
		named = has_text(tags, config->tags[i]);
	return named;
}

static int get_catalog(struct catalog *catalog, struct json_tree **ret)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	buffer_printf(&url, "%s/v1/catalog/services", catalog->discovery->config->url);
	append_common(catalog->config, catalog->config->filter, &url);
	int r = get_url(catalog, &url, ret);
	return r < 0 ? r : watch_this(catalog, &url);
}

static int take_catalog(struct catalog *catalog)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	int r = get_catalog(catalog, &tree);
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL;
	size_t count = json_node_is(root, JSON_NODE_OBJECT) ? json_node_count(root) : 0;
	if (r == 0)
		r = discovery_expect(root, JSON_NODE_OBJECT, catalog->discovery->config->url, catalog->err);
	if (count > SERVICES_MAX)
		return error_set(catalog->err, -E2BIG,
				 "Consul has more than %d services; name some with `services`, `tags` or `filter`",
				 SERVICES_MAX);
	for (size_t i = 0; i < count && r == 0; i++) {
		const char *name = json_node_text(&root->items[2 * i]);
		if (name && is_wanted(catalog->config, name, &root->items[2 * i + 1]))
			r = take_service(catalog, name, false);
	}
	return r;
}

/* All names are in the configuration; the catalog's index is what there is to wait with for several of them. A token may be
 * allowed to read the services and not the catalog: then refresh_interval has to do. */
static void watch_catalog(struct catalog *catalog)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	struct error *err = catalog->err;
	catalog->err = NULL;
	get_catalog(catalog, &tree);
	catalog->err = err;
}

static int find_datacenter(struct catalog *catalog)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	struct consul_watch *watch = catalog->watch;
	if (catalog->config->datacenter)
		snprintf(watch->datacenter, sizeof(watch->datacenter), "%.127s", catalog->config->datacenter);
	if (watch->datacenter[0])
		return 0;
	buffer_printf(&url, "%s/v1/agent/self", catalog->discovery->config->url);
	int r = get_url(catalog, &url, &tree);
	if (r < 0)
		return r;
	const char *name = discovery_text(json_node_get(json_tree_root(tree), "Config"), "Datacenter");
	snprintf(watch->datacenter, sizeof(watch->datacenter), "%.127s", name);
	return *name ? 0 : error_set(catalog->err, -EBADMSG, "%s does not report its data center", url.data);
}

int discovery_consul(struct discovery *discovery, struct discovered *found, struct error *err)
{
	const struct consul_config *config = &discovery->config->consul;
	if (!discovery->consul)
		discovery->consul = mem_zalloc(sizeof(*discovery->consul));
	struct catalog catalog = {discovery, config, discovery->consul, found, err};
	if (!catalog.watch)
		return error_nomem(err);
	catalog.watch->index = 0;
	catalog.watch->looked_ns = time_monotonic_ns();
	int r = find_datacenter(&catalog);
	bool named = config->service_count > 0 && config->tag_count == 0 && !config->filter;
	if (r == 0 && !named)
		r = take_catalog(&catalog);
	if (r == 0 && named && config->service_count > 1)
		watch_catalog(&catalog);
	for (size_t i = 0; i < config->service_count && r == 0 && named; i++)
		r = take_service(&catalog, config->services[i], config->service_count == 1);
	return r;
}

/* ---- waiting ---- */

static void sleep_until(const struct discovery *discovery, int64_t until_ns)
{
	int64_t left_ns;
	while (!cancel_requested(&discovery->stop) && (left_ns = until_ns - time_monotonic_ns()) > 0)
		time_sleep_ns(left_ns < NAP_NS ? left_ns : NAP_NS);
}

static int wait_for_index(struct discovery *discovery, int64_t wait_ns, uint64_t *ret)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	const struct consul_watch *watch = discovery->consul;
	char number[24], wait[24];
	snprintf(number, sizeof(number), "%llu", (unsigned long long)watch->index);
	snprintf(wait, sizeof(wait), "%lldms", (long long)(wait_ns / NS_PER_MS));
	buffer_append_string(&url, watch->url);
	scrape_append_parameter(&url, "index", number);
	scrape_append_parameter(&url, "wait", wait);
	const char *text = buffer_string(&url);
	if (!text)
		return -E2BIG;
	/* Consul adds up to a sixteenth, so that not all come at once. */
	int r = get(discovery, text, wait_ns + wait_ns / 16 + BLOCK_SLACK_NS, &tree, NULL);
	return r < 0 ? r : text_parse_u64(discovery->kept, ret, NULL);
}

bool discovery_consul_wait(struct discovery *discovery, int64_t until_ns)
{
	struct consul_watch *watch = discovery->consul;
	uint64_t index = 0;
	int64_t began_ns = time_monotonic_ns(), left_ns = until_ns - began_ns;
	if (!watch || watch->index == 0) {
		sleep_until(discovery, until_ns);
		return true;
	}
	if (left_ns < NS_PER_MS)
		return true;
	int r = wait_for_index(discovery, left_ns < WATCH_NS_MAX ? left_ns : WATCH_NS_MAX, &index);
	bool same = r == 0 && index == watch->index;
	if (r < 0 || index < watch->index)
		watch->index = 0;
	/* Consul may respond early, and what stands before it may not wait at all. */
	if (same)
		sleep_until(discovery, began_ns + CHANGE_NS_MIN);
	if (r < 0 || same)
		return false;
	sleep_until(discovery, watch->looked_ns + CHANGE_NS_MIN);
	return true;
}
