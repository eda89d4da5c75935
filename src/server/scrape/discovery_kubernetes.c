/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kubernetes_sd_configs: what runs in a cluster, from its API server's lists (https://kubernetes.io/docs/reference/using-api/,
 * "Resource URIs", "Retrieving large results sets in chunks"). The labels have Prometheus' names.
 *
 *   role           list                                          a target each
 *   pod            /api/v1/pods                                  container port; container without ports
 *   endpoints      /api/v1/endpoints                             address and port, with its service and pod
 *   endpointslice  /apis/discovery.k8s.io/v1/endpointslices      the same
 *   service        /api/v1/services                              port
 *   node           /api/v1/nodes                                 node, at its kubelet
 *
 * Lists are read again every refresh_interval, from the API server's cache (resourceVersion=0), in pages. A watch would report
 * changes sooner, and was put off: a profile every 15 s does not need to.
 *
 * In a pod of the cluster everything that must be known is there already: the address in the environment, a token and an
 * authority in files. The token's file is read for each request, as it changes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "server/scrape/discovery_set.h"

#define ACCOUNT		"/var/run/secrets/kubernetes.io/serviceaccount/"
#define META		"__meta_kubernetes_"
#define PAGE_BYTES_MAX	(64 * MIB)
#define PAGE_OBJECTS	500
#define PAGES_MAX	200
#define NAMESPACE_BYTES 256
#define PATH_BYTES	2048
/* A list, page by page. */
struct list {
	struct json_tree **pages;
	size_t count, capacity;
};

struct cluster {
	struct discovery *discovery;
	const struct discovery_config *config;
	struct scrape_http http;
	char base[512], own_namespace[NAMESPACE_BYTES];
	struct discovered *found;
	struct list pods, services;	       /* for what refers to them */
	struct map64 pod_names, service_names; /* hash of namespace and name to the node */
	struct error *err;
};

/* ---- labels ---- */

/* "pod_label" and {"app": "x"}: ..._pod_label_app="x", ..._pod_labelpresent_app="true". */
static void put_map(struct discovery_set *set, const char *prefix, const struct json_node *map)
{
	char value[80], present[80];
	size_t count = json_node_is(map, JSON_NODE_OBJECT) ? json_node_count(map) : 0;
	snprintf(value, sizeof(value), META "%.40s_", prefix);
	snprintf(present, sizeof(present), META "%.40spresent_", prefix);
	for (size_t i = 0; i < count; i++) {
		const char *text = json_node_text(&map->items[2 * i + 1]);
		if (!text)
			continue;
		discovery_put_key(set, value, json_node_bytes(&map->items[2 * i]), text);
		discovery_put_key(set, present, json_node_bytes(&map->items[2 * i]), "true");
	}
}

static void put_metadata(struct discovery_set *set, const char *label, const char *annotation, const struct json_node *object)
{
	const struct json_node *metadata = json_node_get(object, "metadata");
	put_map(set, label, json_node_get(metadata, "labels"));
	put_map(set, annotation, json_node_get(metadata, "annotations"));
}

static int add(struct cluster *cluster, struct discovery_set *set, const char *host, const char *port)
{
	return discovery_set_add(set, host, port, cluster->found, cluster->err);
}

/* ---- lists ---- */

static void list_release(struct list *list)
{
	for (size_t i = 0; i < list->count; i++)
		json_tree_free(list->pages[i]);
	mem_free(list->pages);
	*list = (struct list){0};
}

static void append_selector(struct cluster *cluster, enum kubernetes_role role, struct buffer *url)
{
	for (size_t i = 0; i < cluster->config->selector_count; i++) {
		const struct discovery_selector *selector = &cluster->config->selectors[i];
		if (strcmp(selector->role, kubernetes_role_names[role]))
			continue;
		if (selector->label)
			scrape_append_parameter(url, "labelSelector", selector->label);
		if (selector->field)
			scrape_append_parameter(url, "fieldSelector", selector->field);
	}
}

static const char *continued(const struct list *list)
{
	const struct json_tree *last = list->count ? list->pages[list->count - 1] : NULL;
	return last ? discovery_text(json_node_get(json_tree_root(last), "metadata"), "continue") : "";
}

static int get_page(struct cluster *cluster, enum kubernetes_role role, const char *path, bool first, struct list *list)
{
	_cleanup_(buffer_release) struct buffer url = {.max = 8 * PATH_BYTES}, body = {0};
	struct error *err = cluster->err;
	buffer_printf(&url, "%s%s?limit=%d", cluster->base, path, PAGE_OBJECTS);
	scrape_append_parameter(&url, first ? "resourceVersion" : "continue", first ? "0" : continued(list));
	append_selector(cluster, role, &url);
	const char *text = buffer_string(&url);
	if (!text || array_reserve(&list->pages, &list->capacity, list->count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	int r = discovery_get(cluster->discovery, &cluster->http, text, PAGE_BYTES_MAX, &body, err);
	if (r < 0)
		return r;
	struct json_tree *page;
	r = json_tree_read(buffer_bytes(&body), 0, &page, err);
	if (r < 0)
		return error_prefix(err, r, "%s%s", cluster->base, path);
	list->pages[list->count++] = page;
	return 0;
}

static int get_path(struct cluster *cluster, enum kubernetes_role role, const char *path, struct list *list)
{
	bool first = true;
	for (unsigned i = 0; i < PAGES_MAX; i++) {
		int r = get_page(cluster, role, path, first, list);
		if (r < 0 || !*continued(list))
			return r;
		first = false;
	}
	return error_set(cluster->err, -E2BIG, "%s: more than %d pages", path, PAGES_MAX);
}

static int get_list(struct cluster *cluster, enum kubernetes_role role, struct list *list)
{
	static const char *const names[] = {"pods", "endpoints", "endpointslices", "nodes", "services"};
	const struct discovery_config *config = cluster->config;
	const char *group = role == KUBERNETES_ENDPOINTSLICE ? "/apis/discovery.k8s.io/v1" : "/api/v1";
	char path[PATH_BYTES];
	bool everywhere = role == KUBERNETES_NODE || (config->item_count == 0 && !config->own_namespace);
	int r = 0;
	if (everywhere) {
		snprintf(path, sizeof(path), "%s/%s", group, names[role]);
		return get_path(cluster, role, path, list);
	}
	for (size_t i = 0; i < config->item_count + config->own_namespace && r == 0; i++) {
		const char *space = i < config->item_count ? config->items[i] : cluster->own_namespace;
		snprintf(path, sizeof(path), "%s/namespaces/%.253s/%s", group, space, names[role]);
		r = get_path(cluster, role, path, list);
	}
	return r;
}

/* ---- objects that others refer to ---- */

static uint64_t name_key(const char *space, const char *name)
{
	return hash64_seed(name, strlen(name), hash64(space, strlen(space)));
}

static int index_list(struct cluster *cluster, enum kubernetes_role role, struct list *list, struct map64 *names)
{
	int r = get_list(cluster, role, list);
	for (size_t p = 0; p < list->count && r == 0; p++) {
		const struct json_node *items = json_node_get(json_tree_root(list->pages[p]), "items");
		for (size_t i = 0; i < json_node_count(items) && r == 0; i++) {
			const struct json_node *object = json_node_at(items, i), *metadata = json_node_get(object, "metadata");
			uint64_t key = name_key(discovery_text(metadata, "namespace"), discovery_text(metadata, "name"));
			r = map64_put(names, key, (uint64_t)(uintptr_t)object) < 0 ? error_nomem(cluster->err) : 0;
		}
	}
	return r;
}

/* Hashes can be equal by chance: what was found must be what was looked for. */
static const struct json_node *find(const struct map64 *names, const char *space, const char *name)
{
	uint64_t value;
	if (!map64_get(names, name_key(space, name), &value))
		return NULL;
	const struct json_node *object = (const struct json_node *)(uintptr_t)value;
	const struct json_node *metadata = json_node_get(object, "metadata");
	bool same = !strcmp(discovery_text(metadata, "namespace"), space) && !strcmp(discovery_text(metadata, "name"), name);
	return same ? object : NULL;
}

/* ---- pods ---- */

static const char *is_ready(const struct json_node *status)
{
	const struct json_node *conditions = json_node_get(status, "conditions");
	for (size_t i = 0; i < json_node_count(conditions); i++) {
		const struct json_node *condition = json_node_at(conditions, i);
		const char *is = discovery_text(condition, "status");
		if (!strcmp(discovery_text(condition, "type"), "Ready"))
			return !strcmp(is, "True") ? "true" : !strcmp(is, "False") ? "false" : "unknown";
	}
	return "unknown";
}

static void put_pod(struct discovery_set *set, const struct json_node *pod)
{
	const struct json_node *metadata = json_node_get(pod, "metadata"), *spec = json_node_get(pod, "spec");
	const struct json_node *status = json_node_get(pod, "status"), *owners = json_node_get(metadata, "ownerReferences");
	discovery_put(set, META "pod_name", discovery_text(metadata, "name"));
	discovery_put(set, META "pod_ip", discovery_text(status, "podIP"));
	discovery_put(set, META "pod_ready", is_ready(status));
	discovery_put(set, META "pod_phase", discovery_text(status, "phase"));
	discovery_put(set, META "pod_node_name", discovery_text(spec, "nodeName"));
	discovery_put(set, META "pod_host_ip", discovery_text(status, "hostIP"));
	discovery_put(set, META "pod_uid", discovery_text(metadata, "uid"));
	for (size_t i = 0; i < json_node_count(owners); i++) {
		const struct json_node *owner = json_node_at(owners, i);
		if (strcmp(discovery_flag(json_node_get(owner, "controller")), "true"))
			continue;
		discovery_put(set, META "pod_controller_kind", discovery_text(owner, "kind"));
		discovery_put(set, META "pod_controller_name", discovery_text(owner, "name"));
		break;
	}
	put_metadata(set, "pod_label", "pod_annotation", pod);
}

static const char *container_id(const struct json_node *pod, bool init, const char *name)
{
	const struct json_node *status = json_node_get(pod, "status");
	const struct json_node *list = json_node_get(status, init ? "initContainerStatuses" : "containerStatuses");
	for (size_t i = 0; i < json_node_count(list); i++)
		if (!strcmp(discovery_text(json_node_at(list, i), "name"), name))
			return discovery_text(json_node_at(list, i), "containerID");
	return "";
}

static void put_container(struct discovery_set *set, const struct json_node *pod, const struct json_node *container, bool init)
{
	discovery_put(set, META "pod_container_name", discovery_text(container, "name"));
	discovery_put(set, META "pod_container_image", discovery_text(container, "image"));
	discovery_put(set, META "pod_container_id", container_id(pod, init, discovery_text(container, "name")));
	discovery_put(set, META "pod_container_init", init ? "true" : "false");
}

static const char *put_port(struct discovery_set *set, const struct json_node *port)
{
	const char *number = discovery_number(set, json_node_get(port, "containerPort"));
	discovery_put(set, META "pod_container_port_name", discovery_text(port, "name"));
	discovery_put(set, META "pod_container_port_number", number);
	discovery_put(set, META "pod_container_port_protocol", discovery_text(port, "protocol"));
	return number;
}

static int take_containers(struct cluster *cluster, struct discovery_set *set, const struct json_node *pod, bool init)
{
	const struct json_node *list = json_node_get(json_node_get(pod, "spec"), init ? "initContainers" : "containers");
	const char *ip = discovery_text(json_node_get(pod, "status"), "podIP");
	size_t own = set->count;
	int r = 0;
	for (size_t i = 0; i < json_node_count(list) && r == 0; i++) {
		const struct json_node *container = json_node_at(list, i), *ports = json_node_get(container, "ports");
		put_container(set, pod, container, init);
		size_t with_container = set->count;
		if (json_node_count(ports) == 0)
			r = add(cluster, set, ip, "");
		for (size_t k = 0; k < json_node_count(ports) && r == 0; k++) {
			r = add(cluster, set, ip, put_port(set, json_node_at(ports, k)));
			discovery_set_cut(set, with_container);
		}
		set->count = own;
	}
	return r;
}

static int take_pod(struct cluster *cluster, struct discovery_set *set, const struct json_node *pod)
{
	if (!*discovery_text(json_node_get(pod, "status"), "podIP"))
		return 0; /* not yet placed */
	put_pod(set, pod);
	discovery_set_mark(set);
	int r = take_containers(cluster, set, pod, false);
	return r < 0 ? r : take_containers(cluster, set, pod, true);
}

/* ---- services and nodes ---- */

static void put_service(struct discovery_set *set, const struct json_node *service)
{
	const struct json_node *spec = json_node_get(service, "spec");
	discovery_put(set, META "service_name", discovery_text(json_node_get(service, "metadata"), "name"));
	discovery_put(set, META "service_cluster_ip", discovery_text(spec, "clusterIP"));
	discovery_put(set, META "service_external_name", discovery_text(spec, "externalName"));
	discovery_put(set, META "service_type", discovery_text(spec, "type"));
	put_metadata(set, "service_label", "service_annotation", service);
}

static int take_service(struct cluster *cluster, struct discovery_set *set, const struct json_node *service)
{
	const struct json_node *metadata = json_node_get(service, "metadata");
	const struct json_node *ports = json_node_get(json_node_get(service, "spec"), "ports");
	char host[300];
	snprintf(host, sizeof(host), "%.140s.%.140s.svc", discovery_text(metadata, "name"),
		 discovery_text(metadata, "namespace"));
	put_service(set, service);
	discovery_set_mark(set);
	size_t own = set->count;
	int r = 0;
	for (size_t i = 0; i < json_node_count(ports) && r == 0; i++) {
		const struct json_node *port = json_node_at(ports, i);
		const char *number = discovery_number(set, json_node_get(port, "port"));
		discovery_put(set, META "service_port_name", discovery_text(port, "name"));
		discovery_put(set, META "service_port_number", number);
		discovery_put(set, META "service_port_protocol", discovery_text(port, "protocol"));
		r = add(cluster, set, host, number);
		discovery_set_cut(set, own);
	}
	return r;
}

static int take_node(struct cluster *cluster, struct discovery_set *set, const struct json_node *node)
{
	static const char *const best[] = {"InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "Hostname"};
	const struct json_node *status = json_node_get(node, "status"), *addresses = json_node_get(status, "addresses");
	const struct json_node *kubelet = json_node_get(json_node_get(status, "daemonEndpoints"), "kubeletEndpoint");
	const char *host = "", *name = discovery_text(json_node_get(node, "metadata"), "name");
	size_t rank = sizeof(best) / sizeof(*best);
	discovery_put(set, META "node_name", name);
	discovery_put(set, "instance", name);
	discovery_put(set, META "node_provider_id", discovery_text(json_node_get(node, "spec"), "providerID"));
	put_metadata(set, "node_label", "node_annotation", node);
	for (size_t i = 0; i < json_node_count(addresses); i++) {
		const struct json_node *address = json_node_at(addresses, i);
		const char *type = discovery_text(address, "type");
		char label[100];
		int len = snprintf(label, sizeof(label), META "node_address_%.40s", type);
		const char *copy = arena_strndup(set->texts, label, (size_t)len);
		if (copy && label_name_is_valid(copy))
			discovery_put(set, copy, discovery_text(address, "address"));
		for (size_t k = 0; k < rank; k++)
			if (!strcmp(best[k], type)) {
				rank = k;
				host = discovery_text(address, "address");
			}
	}
	discovery_set_mark(set);
	return *host ? add(cluster, set, host, discovery_number(set, json_node_get(kubelet, "Port"))) : 0;
}

/* ---- endpoints ---- */

static bool has_port(const struct json_node *container, const char *number, struct discovery_set *set)
{
	const struct json_node *ports = json_node_get(container, "ports");
	for (size_t i = 0; i < json_node_count(ports); i++) {
		const struct json_node *port = json_node_at(ports, i);
		if (strcmp(discovery_number(set, json_node_get(port, "containerPort")), number))
			continue;
		put_port(set, port);
		return true;
	}
	return false;
}

/* The pod behind an address, and which of its containers has the port. */
static void put_target(struct cluster *cluster, struct discovery_set *set, const char *space, const struct json_node *reference,
		       const char *port)
{
	if (strcmp(discovery_text(reference, "kind"), "Pod"))
		return;
	const struct json_node *pod = find(&cluster->pod_names, space, discovery_text(reference, "name"));
	const struct json_node *containers = json_node_get(json_node_get(pod, "spec"), "containers");
	if (!pod)
		return;
	put_pod(set, pod);
	for (size_t i = 0; i < json_node_count(containers); i++)
		if (has_port(json_node_at(containers, i), port, set)) {
			put_container(set, pod, json_node_at(containers, i), false);
			break;
		}
}

static int take_addresses(struct cluster *cluster, struct discovery_set *set, const char *space, const struct json_node *subset,
			  bool ready)
{
	const struct json_node *addresses = json_node_get(subset, ready ? "addresses" : "notReadyAddresses");
	const struct json_node *ports = json_node_get(subset, "ports");
	size_t own = set->count;
	int r = 0;
	for (size_t i = 0; i < json_node_count(addresses) && r == 0; i++) {
		const struct json_node *address = json_node_at(addresses, i), *reference = json_node_get(address, "targetRef");
		for (size_t k = 0; k < json_node_count(ports) && r == 0; k++) {
			const struct json_node *port = json_node_at(ports, k);
			const char *number = discovery_number(set, json_node_get(port, "port"));
			discovery_put(set, META "endpoint_port_name", discovery_text(port, "name"));
			discovery_put(set, META "endpoint_port_protocol", discovery_text(port, "protocol"));
			discovery_put(set, META "endpoint_ready", ready ? "true" : "false");
			discovery_put(set, META "endpoint_hostname", discovery_text(address, "hostname"));
			discovery_put(set, META "endpoint_node_name", discovery_text(address, "nodeName"));
			discovery_put(set, META "endpoint_address_target_kind", discovery_text(reference, "kind"));
			discovery_put(set, META "endpoint_address_target_name", discovery_text(reference, "name"));
			put_target(cluster, set, space, reference, number);
			r = add(cluster, set, discovery_text(address, "ip"), number);
			discovery_set_cut(set, own);
		}
	}
	return r;
}

static int take_endpoints(struct cluster *cluster, struct discovery_set *set, const struct json_node *object)
{
	const struct json_node *metadata = json_node_get(object, "metadata"), *subsets = json_node_get(object, "subsets");
	const char *space = discovery_text(metadata, "namespace");
	const struct json_node *service = find(&cluster->service_names, space, discovery_text(metadata, "name"));
	discovery_put(set, META "endpoints_name", discovery_text(metadata, "name"));
	put_metadata(set, "endpoints_label", "endpoints_annotation", object);
	if (service)
		put_service(set, service);
	discovery_set_mark(set);
	int r = 0;
	for (size_t i = 0; i < json_node_count(subsets) && r == 0; i++) {
		r = take_addresses(cluster, set, space, json_node_at(subsets, i), true);
		if (r == 0)
			r = take_addresses(cluster, set, space, json_node_at(subsets, i), false);
	}
	return r;
}

static int take_slice_endpoint(struct cluster *cluster, struct discovery_set *set, const char *space,
			       const struct json_node *endpoint, const struct json_node *port)
{
	const struct json_node *conditions = json_node_get(endpoint, "conditions"),
			       *addresses = json_node_get(endpoint, "addresses");
	const struct json_node *reference = json_node_get(endpoint, "targetRef");
	const char *number = discovery_number(set, json_node_get(port, "port"));
	size_t own = set->count;
	int r = 0;
	discovery_put(set, META "endpointslice_port", number);
	discovery_put(set, META "endpointslice_port_name", discovery_text(port, "name"));
	discovery_put(set, META "endpointslice_port_protocol", discovery_text(port, "protocol"));
	discovery_put(set, META "endpointslice_endpoint_conditions_ready", discovery_flag(json_node_get(conditions, "ready")));
	discovery_put(set, META "endpointslice_endpoint_conditions_serving",
		      discovery_flag(json_node_get(conditions, "serving")));
	discovery_put(set, META "endpointslice_endpoint_conditions_terminating",
		      discovery_flag(json_node_get(conditions, "terminating")));
	discovery_put(set, META "endpointslice_endpoint_hostname", discovery_text(endpoint, "hostname"));
	discovery_put(set, META "endpointslice_endpoint_node_name", discovery_text(endpoint, "nodeName"));
	discovery_put(set, META "endpointslice_address_target_kind", discovery_text(reference, "kind"));
	discovery_put(set, META "endpointslice_address_target_name", discovery_text(reference, "name"));
	put_target(cluster, set, space, reference, number);
	for (size_t i = 0; i < json_node_count(addresses) && r == 0; i++) {
		const char *address = json_node_text(json_node_at(addresses, i));
		r = address ? add(cluster, set, address, number) : 0;
	}
	discovery_set_cut(set, own);
	return r;
}

static int take_slice(struct cluster *cluster, struct discovery_set *set, const struct json_node *object)
{
	const struct json_node *metadata = json_node_get(object, "metadata"), *ports = json_node_get(object, "ports");
	const struct json_node *endpoints = json_node_get(object, "endpoints");
	const char *space = discovery_text(metadata, "namespace");
	const char *owner = discovery_text(json_node_get(metadata, "labels"), "kubernetes.io/service-name");
	const struct json_node *service = find(&cluster->service_names, space, owner);
	discovery_put(set, META "endpointslice_name", discovery_text(metadata, "name"));
	discovery_put(set, META "endpointslice_address_type", discovery_text(object, "addressType"));
	put_metadata(set, "endpointslice_label", "endpointslice_annotation", object);
	if (service)
		put_service(set, service);
	discovery_set_mark(set);
	int r = 0;
	for (size_t k = 0; k < json_node_count(ports) && r == 0; k++)
		for (size_t i = 0; i < json_node_count(endpoints) && r == 0; i++)
			r = take_slice_endpoint(cluster, set, space, json_node_at(endpoints, i), json_node_at(ports, k));
	return r;
}

/* ---- the whole ---- */

static int take_object(struct cluster *cluster, const struct json_node *object)
{
	static int (*const roles[])(struct cluster * cluster, struct discovery_set * set, const struct json_node *object) = {
		[KUBERNETES_POD] = take_pod,   [KUBERNETES_ENDPOINTS] = take_endpoints, [KUBERNETES_ENDPOINTSLICE] = take_slice,
		[KUBERNETES_NODE] = take_node, [KUBERNETES_SERVICE] = take_service,
	};
	struct discovery_set set;
	discovery_set_init(&set);
	discovery_put(&set, META "namespace", discovery_text(json_node_get(object, "metadata"), "namespace"));
	int r = roles[cluster->config->role](cluster, &set, object);
	discovery_set_release(&set);
	return r;
}

static int read_own_namespace(struct cluster *cluster)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	int r = io_read_file(ACCOUNT "namespace", NAMESPACE_BYTES - 1, &file, cluster->err);
	if (r == 0)
		snprintf(cluster->own_namespace, sizeof(cluster->own_namespace), "%.*s", (int)file.len,
			 (const char *)file.data);
	return r;
}

static int find_cluster(struct cluster *cluster)
{
	const struct discovery_config *config = cluster->config;
	const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
	cluster->http = config->http;
	if (config->url) {
		size_t len = strlen(config->url);
		while (len > 0 && config->url[len - 1] == '/')
			len--;
		snprintf(cluster->base, sizeof(cluster->base), "%.*s", (int)len, config->url);
	} else if (host && port) {
		snprintf(cluster->base, sizeof(cluster->base),
			 strchr(host, ':') ? "https://[%.200s]:%.10s" : "https://%.200s:%.10s", host, port);
		const struct net_tls_options options = {.ca_file = ACCOUNT "ca.crt"};
		if (!config->http.has_tls && !cluster->discovery->own_tls) {
			int r = net_tls_new_client(&options, &cluster->discovery->own_tls, cluster->err);
			if (r < 0)
				return r;
		}
		if (!config->http.has_tls)
			cluster->http.tls = cluster->discovery->own_tls;
		if (!config->http.user && !config->http.credentials && !config->http.credentials_file)
			cluster->http.credentials_file = ACCOUNT "token";
	} else {
		return error_set(
			cluster->err, -EINVAL,
			"kubernetes_sd_configs needs an api_server: not running in a pod (KUBERNETES_SERVICE_HOST is not set)");
	}
	return config->own_namespace ? read_own_namespace(cluster) : 0;
}

static int look(struct cluster *cluster)
{
	enum kubernetes_role role = cluster->config->role;
	_cleanup_(list_release) struct list list = {0};
	bool refers = role == KUBERNETES_ENDPOINTS || role == KUBERNETES_ENDPOINTSLICE;
	int r = find_cluster(cluster);
	if (r == 0 && refers)
		r = index_list(cluster, KUBERNETES_POD, &cluster->pods, &cluster->pod_names);
	if (r == 0 && refers)
		r = index_list(cluster, KUBERNETES_SERVICE, &cluster->services, &cluster->service_names);
	if (r == 0)
		r = get_list(cluster, role, &list);
	for (size_t p = 0; p < list.count && r == 0; p++) {
		const struct json_node *items = json_node_get(json_tree_root(list.pages[p]), "items");
		for (size_t i = 0; i < json_node_count(items) && r == 0; i++)
			r = take_object(cluster, json_node_at(items, i));
	}
	return r;
}

int discovery_kubernetes(struct discovery *discovery, struct discovered *found, struct error *err)
{
	struct cluster cluster = {.discovery = discovery, .config = discovery->config, .found = found, .err = err};
	int r = look(&cluster);
	list_release(&cluster.pods);
	list_release(&cluster.services);
	map64_release(&cluster.pod_names);
	map64_release(&cluster.service_names);
	return r;
}
