/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker_sd_configs and dockerswarm_sd_configs: what a Docker daemon, or the manager of a swarm, runs
 * (https://docs.docker.com/reference/api/engine/). The labels have Prometheus' names.
 *
 *   docker             /containers/json, /networks           network and TCP port of a container; network, if it has no ports
 *   swarm: services    /services, /networks                   virtual address and TCP port of a service
 *          tasks       /tasks, /services, /nodes, /networks   port of the host; address in a network and port of its service
 *          nodes       /nodes                                 node
 *
 * The paths have no version: a daemon then speaks its own newest one, in which what is read here has not changed since 1.24.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"
#include "codec/json.h"
#include "server/scrape/discovery_set.h"

#define DOCKER	  "__meta_docker_"
#define SWARM	  "__meta_dockerswarm_"
#define URL_MAX	  (64 * KIB)
#define CHAIN_MAX 16 /* containers that share the network of one that shares it ... */

/* A list, and where in it which id is. */
struct listing {
	struct json_tree *tree;
	struct map64 ids;
};
struct daemon {
	struct discovery *discovery;
	const struct discovery_config *config;
	char port[8];
	struct listing main, networks, nodes, services;
	struct discovered *found;
	struct error *err;
};

static void release(struct daemon *daemon)
{
	struct listing *const all[] = {&daemon->main, &daemon->networks, &daemon->nodes, &daemon->services};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		json_tree_free(all[i]->tree);
		map64_release(&all[i]->ids);
	}
}

/* ---- lists ---- */

/* {"label": ["a", "b"]} */
static int append_filters(const struct discovery_config *config, struct buffer *url)
{
	_cleanup_(buffer_release) struct buffer text = {.max = URL_MAX};
	struct json_writer json = {.out = &text};
	if (config->filter_count == 0)
		return 0;
	json_begin_object(&json);
	for (size_t i = 0; i < config->filter_count; i++) {
		bool known = false; /* the values of filters of one name are one list */
		for (size_t k = 0; k < i; k++)
			known |= !strcmp(config->filters[k].name, config->filters[i].name);
		if (known)
			continue;
		json_member_array(&json, config->filters[i].name);
		for (size_t k = i; k < config->filter_count; k++)
			for (size_t v = 0; v < config->filters[k].count; v++)
				if (!strcmp(config->filters[k].name, config->filters[i].name))
					json_bytes(&json, bytes_of_string(config->filters[k].values[v]));
		json_end_array(&json);
	}
	json_end_object(&json);
	int r = json_finish(&json, NULL);
	const char *whole = r == 0 ? buffer_string(&text) : NULL;
	if (!whole)
		return r < 0 ? r : -ENOMEM;
	scrape_append_parameter(url, "filters", whole);
	return 0;
}

/* Containers and networks have the one, what is of swarms the other. */
static const char *id_of(const struct json_node *object)
{
	const char *id = discovery_text(object, "ID");
	return *id ? id : discovery_text(object, "Id");
}

static int get(struct daemon *daemon, const char *path, bool filtered, struct listing *listing)
{
	_cleanup_(buffer_release) struct buffer url = {.max = URL_MAX};
	const struct docker_config *config = &daemon->config->docker;
	scrape_append_base(&url, config->url);
	buffer_append_string(&url, path);
	int r = filtered ? append_filters(daemon->config, &url) : 0;
	struct scrape_request request = {.url = r == 0 ? buffer_string(&url) : NULL, .unix_path = config->unix_path};
	if (!request.url)
		return error_set(daemon->err, -E2BIG, "the filters are too long");
	r = discovery_get_json(daemon->discovery, &daemon->config->http, &request, &listing->tree, daemon->err);
	if (r < 0)
		return r;
	const struct json_node *root = json_tree_root(listing->tree);
	for (size_t i = 0; i < json_node_count(root) && r == 0; i++) {
		const struct json_node *object = json_node_at(root, i);
		const char *id = id_of(object);
		r = map64_put(&listing->ids, hash64(id, strlen(id)), (uint64_t)(uintptr_t)object);
	}
	return r < 0 ? error_nomem(daemon->err) : 0;
}

/* Hashes can be equal by chance: what was found must be what was looked for. */
static const struct json_node *find(const struct listing *listing, const char *id)
{
	uint64_t value;
	if (!*id || !map64_get(&listing->ids, hash64(id, strlen(id)), &value))
		return NULL;
	const struct json_node *object = (const struct json_node *)(uintptr_t)value;
	return !strcmp(id_of(object), id) ? object : NULL;
}

static void put_network(struct daemon *daemon, struct discovery_set *set, const char *id)
{
	static const char *const names[][2] = {{DOCKER "network_id", SWARM "network_id"},
					       {DOCKER "network_name", SWARM "network_name"},
					       {DOCKER "network_scope", SWARM "network_scope"},
					       {DOCKER "network_internal", SWARM "network_internal"},
					       {DOCKER "network_ingress", SWARM "network_ingress"}};
	const struct json_node *network = find(&daemon->networks, id);
	bool swarm = daemon->config->kind == DISCOVERY_SWARM;
	if (!network)
		return;
	discovery_put(set, names[0][swarm], id);
	discovery_put(set, names[1][swarm], discovery_text(network, "Name"));
	discovery_put(set, names[2][swarm], discovery_text(network, "Scope"));
	discovery_put(set, names[3][swarm], discovery_flag(json_node_get(network, "Internal")));
	discovery_put(set, names[4][swarm], discovery_flag(json_node_get(network, "Ingress")));
	discovery_put_map(set, swarm ? SWARM "network_label_" : DOCKER "network_label_", json_node_get(network, "Labels"));
}

static int add(struct daemon *daemon, struct discovery_set *set, const char *host, const char *port)
{
	return discovery_set_add(set, host, port, daemon->found, daemon->err);
}

/* ---- containers ---- */

static const char *network_mode(const struct json_node *container)
{
	return discovery_text(json_node_get(container, "HostConfig"), "NetworkMode");
}

static const struct json_node *networks_of(const struct json_node *container)
{
	return json_node_get(json_node_get(container, "NetworkSettings"), "Networks");
}

/* Those of the container whose network this one shares, if it has none of its own. */
static const struct json_node *find_networks(const struct daemon *daemon, const struct json_node *container)
{
	const struct json_node *networks = networks_of(container);
	for (unsigned i = 0; i < CHAIN_MAX && json_node_count(networks) == 0; i++) {
		const char *mode = network_mode(container);
		container = text_starts_with(mode, "container:") ? find(&daemon->main, mode + strlen("container:")) : NULL;
		if (!container)
			break;
		networks = networks_of(container);
	}
	return json_node_is(networks, JSON_NODE_OBJECT) ? networks : NULL;
}

/* The first by name, where only that is wanted; count = all. */
static size_t first_network(const struct json_node *networks)
{
	size_t best = json_node_count(networks);
	const char *least = NULL;
	for (size_t i = 0; i < json_node_count(networks); i++) {
		const char *name = json_node_text(&networks->items[2 * i]);
		if (!json_node_is(&networks->items[2 * i + 1], JSON_NODE_OBJECT) || (least && strcmp(name, least) >= 0))
			continue;
		least = name;
		best = i;
	}
	return best;
}

static int take_ports(struct daemon *daemon, struct discovery_set *set, const struct json_node *container, const char *ip,
		      const char *network, bool *ret_any)
{
	const struct json_node *ports = json_node_get(container, "Ports");
	size_t own = discovery_set_mark(set);
	int r = 0;
	for (size_t i = 0; i < json_node_count(ports) && r == 0; i++) {
		const struct json_node *port = json_node_at(ports, i);
		int64_t published;
		if (strcmp(discovery_text(port, "Type"), "tcp"))
			continue;
		const char *number = discovery_number(set, json_node_get(port, "PrivatePort"));
		discovery_put(set, DOCKER "port_private", number);
		if (json_node_integer(json_node_get(port, "PublicPort"), &published) && published > 0) {
			discovery_put_number(set, DOCKER "port_public", published);
			discovery_put(set, DOCKER "port_public_ip", discovery_text(port, "IP"));
		}
		put_network(daemon, set, network);
		r = add(daemon, set, ip, number);
		discovery_set_cut(set, own);
		*ret_any = true;
	}
	return r;
}

static int take_network(struct daemon *daemon, struct discovery_set *set, const struct json_node *container,
			const struct json_node *network)
{
	const char *ip = discovery_text(network, "IPAddress"), *id = discovery_text(network, "NetworkID");
	size_t common = set->count;
	bool any = false;
	if (!*ip)
		ip = discovery_text(network, "GlobalIPv6Address");
	discovery_put(set, DOCKER "network_ip", ip);
	int r = take_ports(daemon, set, container, ip, id, &any);
	if (r == 0 && !any) {
		put_network(daemon, set, id);
		bool host = !strcmp(network_mode(container), "host");
		r = host ? discovery_set_add_address(set, daemon->config->docker.host_networking_host, daemon->found,
						     daemon->err)
			 : add(daemon, set, ip, daemon->port);
	}
	discovery_set_cut(set, common);
	return r;
}

static int take_container(struct daemon *daemon, struct discovery_set *set, const struct json_node *container)
{
	const char *name = json_node_text(json_node_at(json_node_get(container, "Names"), 0));
	const struct json_node *networks = find_networks(daemon, container);
	size_t count = json_node_count(networks), only = count;
	if (!name)
		return 0;
	discovery_put(set, DOCKER "container_id", discovery_text(container, "Id"));
	discovery_put(set, DOCKER "container_name", name);
	discovery_put(set, DOCKER "container_network_mode", network_mode(container));
	discovery_put(set, DOCKER "container_image", discovery_text(container, "Image"));
	discovery_put(set, DOCKER "container_image_id", discovery_text(container, "ImageID"));
	discovery_put_map(set, DOCKER "container_label_", json_node_get(container, "Labels"));
	if (daemon->config->docker.first_network && count > 1)
		only = first_network(networks);
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		if ((only == count || i == only) && json_node_is(&networks->items[2 * i + 1], JSON_NODE_OBJECT))
			r = take_network(daemon, set, container, &networks->items[2 * i + 1]);
	return r;
}

/* ---- swarms ---- */

/* "10.0.0.3/24" is the address 10.0.0.3. */
static bool read_address(const struct json_node *node, char *out, size_t size)
{
	const char *text = json_node_text(node), *slash = text ? strchr(text, '/') : NULL;
	if (!slash || slash == text || (size_t)(slash - text) >= size)
		return false;
	snprintf(out, size, "%.*s", (int)(slash - text), text);
	return true;
}

static int bad_address(struct daemon *daemon, const char *id)
{
	return error_set(daemon->err, -EBADMSG, "%.100s has an address without a prefix length", id);
}

static void put_node(struct discovery_set *set, const struct json_node *node)
{
	const struct json_node *spec = json_node_get(node, "Spec"), *description = json_node_get(node, "Description");
	const struct json_node *platform = json_node_get(description, "Platform"), *status = json_node_get(node, "Status");
	discovery_put(set, SWARM "node_id", discovery_text(node, "ID"));
	discovery_put(set, SWARM "node_role", discovery_text(spec, "Role"));
	discovery_put(set, SWARM "node_availability", discovery_text(spec, "Availability"));
	discovery_put(set, SWARM "node_hostname", discovery_text(description, "Hostname"));
	discovery_put(set, SWARM "node_platform_architecture", discovery_text(platform, "Architecture"));
	discovery_put(set, SWARM "node_platform_os", discovery_text(platform, "OS"));
	discovery_put(set, SWARM "node_status", discovery_text(status, "State"));
	discovery_put(set, SWARM "node_address", discovery_text(status, "Addr"));
	discovery_put_map(set, SWARM "node_label_", json_node_get(spec, "Labels"));
}

static int take_node(struct daemon *daemon, struct discovery_set *set, const struct json_node *node)
{
	const struct json_node *manager = json_node_get(node, "ManagerStatus");
	const struct json_node *engine = json_node_get(json_node_get(node, "Description"), "Engine");
	put_node(set, node);
	discovery_put(set, SWARM "node_engine_version", discovery_text(engine, "EngineVersion"));
	if (json_node_is(manager, JSON_NODE_OBJECT)) {
		const char *leader = discovery_flag(json_node_get(manager, "Leader"));
		discovery_put(set, SWARM "node_manager_leader", *leader ? leader : "false");
		discovery_put(set, SWARM "node_manager_reachability", discovery_text(manager, "Reachability"));
		discovery_put(set, SWARM "node_manager_address", discovery_text(manager, "Addr"));
	}
	return add(daemon, set, discovery_text(json_node_get(node, "Status"), "Addr"), daemon->port);
}

static void put_service(struct discovery_set *set, const struct json_node *service)
{
	const struct json_node *spec = json_node_get(service, "Spec"), *mode = json_node_get(spec, "Mode");
	bool global = json_node_is(json_node_get(mode, "Global"), JSON_NODE_OBJECT);
	bool replicated = json_node_is(json_node_get(mode, "Replicated"), JSON_NODE_OBJECT);
	discovery_put(set, SWARM "service_id", discovery_text(service, "ID"));
	discovery_put(set, SWARM "service_name", discovery_text(spec, "Name"));
	discovery_put(set, SWARM "service_mode", global ? "global" : replicated ? "replicated" : "");
	discovery_put_map(set, SWARM "service_label_", json_node_get(spec, "Labels"));
}

/* What addresses of a service and of a task have in common. */
struct published {
	const char *name, *mode; /* labels of a port; name NULL = it has none */
	const char *network;	 /* id; NULL = none */
	bool needs_port;	 /* without ports that are published there is no target: else it has the configured one */
};

/* An address for each TCP port. */
static int add_ports(struct daemon *daemon, struct discovery_set *set, const struct json_node *ports, const char *ip,
		     const struct published *how)
{
	size_t own = discovery_set_mark(set);
	bool any = how->needs_port;
	int r = 0;
	for (size_t i = 0; i < json_node_count(ports) && r == 0; i++) {
		const struct json_node *port = json_node_at(ports, i);
		if (strcmp(discovery_text(port, "Protocol"), "tcp"))
			continue;
		if (how->name)
			discovery_put(set, how->name, discovery_text(port, "Name"));
		discovery_put(set, how->mode, discovery_text(port, "PublishMode"));
		if (how->network)
			put_network(daemon, set, how->network);
		r = add(daemon, set, ip, discovery_number(set, json_node_get(port, "PublishedPort")));
		discovery_set_cut(set, own);
		any = true;
	}
	if (r < 0 || any)
		return r;
	if (how->network)
		put_network(daemon, set, how->network);
	r = add(daemon, set, ip, daemon->port);
	discovery_set_cut(set, own);
	return r;
}

static int take_virtual_address(struct daemon *daemon, struct discovery_set *set, const struct json_node *service,
				const struct json_node *address)
{
	const struct published how = {.name = SWARM "service_endpoint_port_name",
				      .mode = SWARM "service_endpoint_port_publish_mode",
				      .network = discovery_text(address, "NetworkID")};
	char ip[80];
	if (!read_address(json_node_get(address, "Addr"), ip, sizeof(ip)))
		return bad_address(daemon, discovery_text(service, "ID"));
	return add_ports(daemon, set, json_node_get(json_node_get(service, "Endpoint"), "Ports"), ip, &how);
}

static int take_service(struct daemon *daemon, struct discovery_set *set, const struct json_node *service)
{
	const struct json_node *template = json_node_get(json_node_get(service, "Spec"), "TaskTemplate");
	const struct json_node *container = json_node_get(template, "ContainerSpec");
	const struct json_node *addresses = json_node_get(json_node_get(service, "Endpoint"), "VirtualIPs");
	put_service(set, service);
	discovery_put(set, SWARM "service_task_container_hostname", discovery_text(container, "Hostname"));
	discovery_put(set, SWARM "service_task_container_image", discovery_text(container, "Image"));
	discovery_put(set, SWARM "service_updating_status", discovery_text(json_node_get(service, "UpdateStatus"), "State"));
	int r = 0;
	for (size_t i = 0; i < json_node_count(addresses) && r == 0; i++)
		r = take_virtual_address(daemon, set, service, json_node_at(addresses, i));
	return r;
}

/* Of the node that the task runs on. */
static int take_host_ports(struct daemon *daemon, struct discovery_set *set, const struct json_node *task, const char *host)
{
	const struct published how = {.mode = SWARM "task_port_publish_mode", .needs_port = true};
	const struct json_node *status = json_node_get(json_node_get(task, "Status"), "PortStatus");
	return add_ports(daemon, set, json_node_get(status, "Ports"), host, &how);
}

static int take_attachment(struct daemon *daemon, struct discovery_set *set, const struct json_node *ports, const char *ip,
			   const char *network)
{
	const struct published how = {.mode = SWARM "task_port_publish_mode", .network = network};
	return add_ports(daemon, set, ports, ip, &how);
}

static int take_attachments(struct daemon *daemon, struct discovery_set *set, const struct json_node *task,
			    const struct json_node *service)
{
	const struct json_node *list = json_node_get(task, "NetworksAttachments");
	const struct json_node *ports = json_node_get(json_node_get(service, "Endpoint"), "Ports");
	int r = 0;
	for (size_t i = 0; i < json_node_count(list) && r == 0; i++) {
		const struct json_node *addresses = json_node_get(json_node_at(list, i), "Addresses");
		const char *network = discovery_text(json_node_get(json_node_at(list, i), "Network"), "ID");
		for (size_t k = 0; k < json_node_count(addresses) && r == 0; k++) {
			char ip[80];
			if (!read_address(json_node_at(addresses, k), ip, sizeof(ip)))
				return bad_address(daemon, discovery_text(task, "ID"));
			r = take_attachment(daemon, set, ports, ip, network);
		}
	}
	return r;
}

static int take_task(struct daemon *daemon, struct discovery_set *set, const struct json_node *task)
{
	const struct json_node *status = json_node_get(task, "Status");
	const struct json_node *service = find(&daemon->services, discovery_text(task, "ServiceID"));
	const struct json_node *node = find(&daemon->nodes, discovery_text(task, "NodeID"));
	const struct json_node *container = json_node_get(json_node_get(task, "Spec"), "ContainerSpec");
	const char *slot = discovery_number(set, json_node_get(task, "Slot"));
	discovery_put(set, SWARM "task_id", discovery_text(task, "ID"));
	discovery_put(set, SWARM "task_desired_state", discovery_text(task, "DesiredState"));
	discovery_put(set, SWARM "task_state", discovery_text(status, "State"));
	discovery_put(set, SWARM "task_slot", *slot ? slot : "0");
	discovery_put(set, SWARM "task_container_id", discovery_text(json_node_get(status, "ContainerStatus"), "ContainerID"));
	discovery_put_map(set, SWARM "container_label_", json_node_get(container, "Labels"));
	if (service)
		put_service(set, service);
	if (node)
		put_node(set, node);
	int r = take_host_ports(daemon, set, task, discovery_text(json_node_get(node, "Status"), "Addr"));
	return r < 0 ? r : take_attachments(daemon, set, task, service);
}

/* ---- the whole ---- */

typedef int take_function(struct daemon *daemon, struct discovery_set *set, const struct json_node *object);

static int take_all(struct daemon *daemon, take_function *take)
{
	const struct json_node *root = json_tree_root(daemon->main.tree);
	int r = discovery_expect(root, JSON_NODE_ARRAY, daemon->config->docker.host, daemon->err);
	for (size_t i = 0; i < json_node_count(root) && r == 0; i++) {
		struct discovery_set set;
		discovery_set_init(&set);
		r = take(daemon, &set, json_node_at(root, i));
		discovery_set_release(&set);
	}
	return r;
}

int discovery_docker(struct discovery *discovery, struct discovered *found, struct error *err)
{
	_cleanup_(release) struct daemon daemon = {
		.discovery = discovery, .config = discovery->config, .found = found, .err = err};
	snprintf(daemon.port, sizeof(daemon.port), "%u", discovery->config->port);
	int r = get(&daemon, "/containers/json", true, &daemon.main);
	if (r == 0)
		r = get(&daemon, "/networks", false, &daemon.networks);
	return r < 0 ? r : take_all(&daemon, take_container);
}

int discovery_swarm(struct discovery *discovery, struct discovered *found, struct error *err)
{
	static const char *const paths[] = {"/services", "/tasks", "/nodes"};
	static take_function *const takes[] = {take_service, take_task, take_node};
	enum swarm_role role = discovery->config->docker.role;
	_cleanup_(release) struct daemon daemon = {
		.discovery = discovery, .config = discovery->config, .found = found, .err = err};
	snprintf(daemon.port, sizeof(daemon.port), "%u", discovery->config->port);
	int r = get(&daemon, paths[role], true, &daemon.main);
	if (r == 0 && role == SWARM_TASKS)
		r = get(&daemon, "/services", false, &daemon.services);
	if (r == 0 && role == SWARM_TASKS)
		r = get(&daemon, "/nodes", false, &daemon.nodes);
	if (r == 0 && role != SWARM_NODES)
		r = get(&daemon, "/networks", false, &daemon.networks);
	return r < 0 ? r : take_all(&daemon, takes[role]);
}
