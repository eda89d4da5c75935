/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nomad_sd_configs: instances of Nomad's own services (https://developer.hashicorp.com/nomad/api-docs/services). The labels
 * have Prometheus' names.
 *
 *   /v1/services        [{"Namespace": "default", "Services": [{"ServiceName": "web", "Tags": [...]}]}]
 *   /v1/service/NAME    [{"ID": ..., "Address": ..., "Port": ..., "Datacenter": ..., "NodeID": ..., "Tags": [...]}]
 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "server/scrape/discovery_set.h"

#define META	     "__meta_nomad_"
#define SERVICES_MAX 10000
#define URL_MAX	     4096

struct listing {
	struct discovery *discovery;
	const struct nomad_config *config;
	struct discovered *found;
	size_t services;
	struct error *err;
};

static int get(struct listing *listing, const char *path, const char *name, const char *space, struct json_tree **ret)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	const struct discovery_config *config = listing->discovery->config;
	scrape_append_base(&url, config->url);
	buffer_append_string(&url, path);
	text_url_encode(&url, bytes_of_string(name));
	scrape_append_parameter(&url, "namespace", space);
	scrape_append_parameter(&url, "region", listing->config->region);
	if (listing->config->allow_stale)
		scrape_append_parameter(&url, "stale", "");
	struct scrape_request request = {.url = buffer_string(&url)};
	return request.url ? discovery_get_json(listing->discovery, &config->http, &request, ret, listing->err)
			   : error_set(listing->err, -E2BIG, "the address is too long");
}

static int take_instance(struct listing *listing, struct discovery_set *set, const struct json_node *instance)
{
	const char *address = discovery_text(instance, "Address");
	const char *port = discovery_number(set, json_node_get(instance, "Port"));
	discovery_put(set, META "address", address);
	discovery_put(set, META "dc", discovery_text(instance, "Datacenter"));
	discovery_put(set, META "node_id", discovery_text(instance, "NodeID"));
	discovery_put(set, META "namespace", discovery_text(instance, "Namespace"));
	discovery_put(set, META "service_address", address);
	discovery_put(set, META "service_id", discovery_text(instance, "ID"));
	discovery_put(set, META "service_port", port);
	discovery_put(set, META "service", discovery_text(instance, "ServiceName"));
	discovery_put_list(set, META "tags", json_node_get(instance, "Tags"), listing->config->tag_separator, false);
	return discovery_set_add(set, address, port, listing->found, listing->err);
}

static int take_service(struct listing *listing, const char *name, const char *space)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	if (++listing->services > SERVICES_MAX)
		return error_set(listing->err, -E2BIG, "Nomad has more than %d services", SERVICES_MAX);
	int r = get(listing, "/v1/service/", name, space, &tree);
	if (r < 0 && listing->discovery->status == 404)
		return 0; /* gone since the list was made */
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL;
	if (r == 0)
		r = discovery_expect(root, JSON_NODE_ARRAY, listing->config->server, listing->err);
	for (size_t i = 0; i < json_node_count(root) && r == 0; i++) {
		struct discovery_set set;
		discovery_set_init(&set);
		r = take_instance(listing, &set, json_node_at(root, i));
		discovery_set_release(&set);
	}
	return r;
}

int discovery_nomad(struct discovery *discovery, struct discovered *found, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	const struct nomad_config *config = &discovery->config->nomad;
	struct listing listing = {discovery, config, found, 0, err};
	int r = get(&listing, "/v1/services", "", config->namespace, &tree);
	const struct json_node *root = r == 0 ? json_tree_root(tree) : NULL;
	if (r == 0)
		r = discovery_expect(root, JSON_NODE_ARRAY, config->server, err);
	for (size_t i = 0; i < json_node_count(root) && r == 0; i++) {
		const struct json_node *stub = json_node_at(root, i), *services = json_node_get(stub, "Services");
		const char *space = discovery_text(stub, "Namespace");
		for (size_t k = 0; k < json_node_count(services) && r == 0; k++) {
			const char *name = discovery_text(json_node_at(services, k), "ServiceName");
			if (*name)
				r = take_service(&listing, name, *space ? space : config->namespace);
		}
	}
	return r;
}
