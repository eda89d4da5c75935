/* SPDX-License-Identifier: Apache-2.0 */
/* Who is there: static_configs, and what asks files, DNS, HTTP services, Kubernetes, Consul, Docker and Nomad. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/labels.h"
#include "server/scrape/scrape_config_int.h"

#define DNS_REFRESH	   (30 * NS_PER_S)
#define FILE_REFRESH	   (5 * 60 * NS_PER_S)
#define KUBERNETES_REFRESH (15 * NS_PER_S)
#define CONSUL_REFRESH	   (30 * NS_PER_S)

const char *const discovery_kind_names[] = {"static", "file",	     "http", "dns", "kubernetes", "consul",
					    "docker", "dockerswarm", "ec2",  "gce", "azure",	  "nomad"};
const char *const kubernetes_role_names[KUBERNETES_ROLES + 1] = {"pod", "endpoints", "endpointslice", "node", "service", NULL};

static bool is_template(const char *text)
{
	size_t stars = 0;
	for (; *text; text++)
		stars += *text == '*';
	return stars <= 1;
}

int scrape_add_discovery(struct yaml_reader *reader, const yaml_node_t *node, struct scrape_job *job, enum discovery_kind kind,
			 int64_t refresh_ns, struct discovery_config **ret)
{
	if (job->discovery_count == SCRAPE_DISCOVERIES_MAX)
		return yaml_fault(reader, node, job->name ? job->name : "job", "has more than 64 discoveries");
	struct discovery_config *discovery = arena_zalloc(reader->arena, sizeof(*discovery));
	if (!discovery)
		return error_nomem(reader->err);
	discovery->kind = kind;
	discovery->refresh_ns = refresh_ns;
	*ret = job->discoveries[job->discovery_count++] = discovery;
	return 0;
}

int scrape_read_name(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *const *names,
		     size_t count, const char *must)
{
	const char *text;
	int r = yaml_read_text(reader, node, what, &text);
	int place = r < 0 ? r : text_find_name(names, count, text);
	return r == 0 && place < 0 ? yaml_fault(reader, node, text, must) : place;
}

static int add_label(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct discovery_config *discovery = object;
	const char *value;
	if (!label_name_is_valid(name))
		return yaml_fault(reader, node, name, "is not a label name");
	int r = yaml_read_text(reader, node, name, &value);
	if (r == 0)
		discovery->labels[discovery->label_count++] = (struct relabel_label){name, value};
	return r;
}

static int read_labels(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct discovery_config *discovery = object;
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(reader, node, "labels", "must be `name: value` lines");
	size_t count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
	if (count > LIMIT_LABELS_PER_SERIES)
		return yaml_fault(reader, node, "labels", "has too many entries");
	discovery->labels = arena_zalloc(reader->arena, (count + 1) * sizeof(*discovery->labels));
	return discovery->labels ? yaml_read_names(reader, node, "labels", add_label, discovery) : error_nomem(reader->err);
}

static int read_items(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct discovery_config *discovery = object;
	return yaml_read_texts(reader, node, "targets, files or names", SCRAPE_TEXTS_MAX, &discovery->items,
			       &discovery->item_count);
}

int scrape_read_static(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("targets", read_items), YAML_CUSTOM("labels", read_labels), {0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_STATIC, 0, &discovery);
	return r < 0 ? r : yaml_read_fields(reader, node, fields, discovery);
}

int scrape_read_file(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("files", read_items), SCRAPE_REFRESH_FIELD, {0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_FILE, FILE_REFRESH, &discovery);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, discovery);
	for (size_t i = 0; r == 0 && i < discovery->item_count; i++) {
		const char *path = discovery->items[i];
		if (!text_ends_with(path, ".json") && !text_ends_with(path, ".yml") && !text_ends_with(path, ".yaml"))
			return yaml_fault(reader, node, path, "must end in .json, .yml or .yaml");
		if (!is_template(path))
			return yaml_fault(reader, node, path, "has more than one '*'");
	}
	return r;
}

int scrape_read_http(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_FIELD(struct discovery_config, "url", TEXT, url),
						   SCRAPE_REFRESH_FIELD,
						   SCRAPE_HTTP_FIELDS(struct discovery_config),
						   {0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_HTTP, SCRAPE_REFRESH_DEFAULT, &discovery);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0 && !discovery->url)
		return yaml_fault(reader, node, "http_sd_configs", "needs a url");
	return r < 0 ? r : scrape_check_url(reader, node, "url", discovery->url);
}

static int read_dns_type(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const char *const names[] = {"SRV", "A", "AAAA"};
	struct discovery_config *discovery = object;
	const char *text;
	int r = yaml_read_text(reader, node, "type", &text);
	for (unsigned i = 0; r == 0 && i < 3; i++)
		if (strcasecmp(text, names[i]) == 0) {
			discovery->dns_type = i;
			return 0;
		}
	return r < 0 ? r : yaml_fault(reader, node, text, "must be SRV, A or AAAA");
}

int scrape_read_dns(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("names", read_items),
						   YAML_CUSTOM("type", read_dns_type),
						   YAML_FIELD(struct discovery_config, "port", COUNT, port),
						   SCRAPE_REFRESH_FIELD,
						   {0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_DNS, DNS_REFRESH, &discovery);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0 && discovery->item_count == 0)
		return yaml_fault(reader, node, "dns_sd_configs", "needs names");
	if (r == 0 && (discovery->port > UINT16_MAX || (discovery->dns_type != DISCOVERY_SRV && !discovery->port)))
		return yaml_fault(reader, node, "dns_sd_configs", "needs a port with the types A and AAAA, up to 65535");
	return r;
}

static int read_role(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct discovery_config *discovery = object;
	int role = scrape_read_name(reader, node, "role", kubernetes_role_names, KUBERNETES_ROLES,
				    "must be pod, endpoints, endpointslice, node or service");
	if (role < 0)
		return role;
	discovery->role = (enum kubernetes_role)role;
	discovery->has_role = true;
	return 0;
}

static int read_namespaces(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("names", read_items),
						   YAML_FIELD(struct discovery_config, "own_namespace", FLAG, own_namespace),
						   {0}};
	return yaml_read_fields(reader, node, fields, object);
}

static int read_selector(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_FIELD(struct discovery_selector, "role", TEXT, role),
						   YAML_FIELD(struct discovery_selector, "label", TEXT, label),
						   YAML_FIELD(struct discovery_selector, "field", TEXT, field),
						   {0}};
	struct discovery_config *discovery = object;
	if (discovery->selector_count == KUBERNETES_ROLES)
		return yaml_fault(reader, node, "selectors", "has too many entries");
	int r = yaml_read_fields(reader, node, fields, &discovery->selectors[discovery->selector_count]);
	if (r == 0 && !discovery->selectors[discovery->selector_count++].role)
		return yaml_fault(reader, node, "selectors", "needs a role");
	return r;
}

int scrape_read_kubernetes(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("role", read_role),
						   YAML_FIELD(struct discovery_config, "api_server", TEXT, url),
						   YAML_CUSTOM("namespaces", read_namespaces),
						   {"selectors", YAML_FIELD_LIST, .read = read_selector},
						   SCRAPE_REFRESH_FIELD,
						   SCRAPE_HTTP_FIELDS(struct discovery_config),
						   {0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_KUBERNETES, KUBERNETES_REFRESH, &discovery);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0 && !discovery->has_role)
		return yaml_fault(reader, node, "kubernetes_sd_configs", "needs a role");
	return r < 0 || !discovery->url ? r : scrape_check_url(reader, node, "api_server", discovery->url);
}

static int read_filter_values(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_param *filter = object;
	return yaml_read_texts(reader, node, "values", 200, &filter->values, &filter->count);
}

static int read_filter_fields(struct yaml_reader *reader, const yaml_node_t *node, struct scrape_param *filter)
{
	static const struct yaml_field fields[] = {
		YAML_FIELD(struct scrape_param, "name", TEXT, name), YAML_CUSTOM("values", read_filter_values), {0}};
	int r = yaml_read_fields(reader, node, fields, filter);
	if (r == 0 && (!filter->name || filter->count == 0))
		return yaml_fault(reader, node, "filters", "needs a name and values");
	return r;
}

int scrape_read_filter(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct discovery_config *discovery = object;
	if (discovery->filter_count == SCRAPE_FILTERS_MAX)
		return yaml_fault(reader, node, "filters", "has too many entries");
	struct scrape_param *filter = &discovery->filters[discovery->filter_count++];
	return read_filter_fields(reader, node, filter);
}

/* ---- Consul ---- */

static int read_services(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct consul_config *consul = object;
	return yaml_read_texts(reader, node, "services", SCRAPE_TEXTS_MAX, &consul->services, &consul->service_count);
}

static int read_tags(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct consul_config *consul = object;
	return yaml_read_texts(reader, node, "tags", SCRAPE_FILTERS_MAX, &consul->tags, &consul->tag_count);
}

static int add_node_meta(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct consul_config *consul = object;
	const char *value;
	if (consul->node_meta_count == SCRAPE_FILTERS_MAX)
		return yaml_fault(reader, node, "node_meta", "has too many entries");
	int r = yaml_read_text(reader, node, name, &value);
	if (r == 0)
		consul->node_meta[consul->node_meta_count++] = (struct relabel_label){name, value};
	return r;
}

/* server may have a scheme, as for Consul's own client; a path and a user are no part of it. */
static int check_consul(struct yaml_reader *reader, const yaml_node_t *node, struct discovery_config *discovery)
{
	struct consul_config *consul = &discovery->consul;
	struct scrape_http *http = &discovery->http;
	_cleanup_(buffer_release) struct buffer url = {.max = 1024};
	const char *after = strstr(consul->server, "://");
	if (strcmp(consul->scheme, "http") && strcmp(consul->scheme, "https"))
		return yaml_fault(reader, node, "scheme", "must be http or https");
	if ((consul->username || consul->password) && (http->user || !consul->username))
		return yaml_fault(reader, node, "username", "needs a password, and cannot be used with basic_auth");
	if (consul->username) {
		http->user = consul->username;
		http->password = consul->password;
	}
	if (consul->token && (http->credentials || http->credentials_file || http->oauth2))
		return yaml_fault(reader, node, "token", "cannot be used with authorization or oauth2");
	if (strcspn(after ? after + 3 : consul->server, "/?#@") != strlen(after ? after + 3 : consul->server))
		return yaml_fault(reader, node, "server", "must be HOST:PORT; a path belongs in path_prefix");
	buffer_printf(&url, "%s%s%s", after ? "" : consul->scheme, after ? "" : "://", consul->server);
	if (consul->path_prefix)
		buffer_printf(&url, "%s%s", *consul->path_prefix == '/' ? "" : "/", consul->path_prefix);
	const char *text = buffer_string(&url);
	discovery->url = text ? arena_strndup(reader->arena, text, url.len) : NULL;
	return discovery->url ? scrape_check_url(reader, node, "server", discovery->url)
			      : yaml_fault(reader, node, "server", "is too long");
}

int scrape_read_consul(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
#define FIELD(name, kind, member, ...) YAML_FIELD(struct discovery_config, name, kind, consul.member, ##__VA_ARGS__)
	static const struct yaml_field fields[] = {
		FIELD("server", TEXT, server),
		FIELD("scheme", TEXT, scheme),
		FIELD("path_prefix", TEXT, path_prefix),
		FIELD("token", TEXT, token),
		FIELD("datacenter", TEXT, datacenter),
		FIELD("namespace", TEXT, namespace),
		FIELD("partition", TEXT, partition),
		FIELD("tag_separator", TEXT, tag_separator),
		FIELD("username", TEXT, username),
		FIELD("password", TEXT, password),
		FIELD("filter", TEXT, filter),
		FIELD("health_filter", TEXT, health_filter),
		FIELD("allow_stale", FLAG, allow_stale),
		YAML_FIELD(struct discovery_config, "services", CUSTOM, consul, read_services),
		YAML_FIELD(struct discovery_config, "tags", CUSTOM, consul, read_tags),
		YAML_FIELD(struct discovery_config, "node_meta", NAMES, consul, .read_name = add_node_meta),
		SCRAPE_REFRESH_FIELD,
		SCRAPE_HTTP_FIELDS(struct discovery_config),
		{0}};
#undef FIELD
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_CONSUL, CONSUL_REFRESH, &discovery);
	if (r < 0)
		return r;
	discovery->consul =
		(struct consul_config){.server = "localhost:8500", .scheme = "http", .tag_separator = ",", .allow_stale = true};
	r = yaml_read_fields(reader, node, fields, discovery);
	return r < 0 ? r : check_consul(reader, node, discovery);
}

/* ---- Docker ---- */

static int read_swarm_role(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const char *const names[] = {"services", "tasks", "nodes"};
	struct discovery_config *discovery = object;
	int role = scrape_read_name(reader, node, "role", names, SWARM_ROLES, "must be services, tasks or nodes");
	if (role < 0)
		return role;
	discovery->docker.role = (enum swarm_role)role;
	discovery->has_role = true;
	return 0;
}

/* unix:///var/run/docker.sock, tcp://host:2375, http://host:2375, https://host:2376. */
static int check_host(struct yaml_reader *reader, const yaml_node_t *node, struct discovery_config *discovery)
{
	struct docker_config *docker = &discovery->docker;
	if (!docker->host)
		return yaml_fault(reader, node, "host", "is missing: unix:///var/run/docker.sock, or the URL of a daemon");
	if (text_starts_with(docker->host, "unix://")) {
		docker->unix_path = docker->host + 7;
		docker->url = "http://docker";
		return *docker->unix_path == '/' ? 0
						 : yaml_fault(reader, node, "host", "needs an absolute path behind unix://");
	}
	docker->url = docker->host;
	if (text_starts_with(docker->host, "tcp://")) {
		char *url = arena_zalloc(reader->arena, strlen(docker->host) + 2);
		if (!url)
			return error_nomem(reader->err);
		memcpy(url, "http://", 7);
		memcpy(url + 7, docker->host + 6, strlen(docker->host + 6));
		docker->url = url;
	}
	return scrape_check_url(reader, node, "host", docker->url);
}

#define DOCKER_FIELDS                                                                                                          \
	YAML_FIELD(struct discovery_config, "host", TEXT, docker.host), SCRAPE_PORT_FIELD,                                     \
		{"filters", YAML_FIELD_LIST, .read = scrape_read_filter}, SCRAPE_REFRESH_FIELD,                                \
		SCRAPE_HTTP_FIELDS(struct discovery_config)

static int read_daemon(struct yaml_reader *reader, const yaml_node_t *node, void *object, enum discovery_kind kind,
		       const struct yaml_field *fields, struct discovery_config **ret)
{
	int r = scrape_add_discovery(reader, node, object, kind, SCRAPE_REFRESH_DEFAULT, ret);
	if (r < 0)
		return r;
	(*ret)->port = SCRAPE_PORT_DEFAULT;
	(*ret)->docker = (struct docker_config){.host_networking_host = "localhost", .first_network = true};
	r = yaml_read_fields(reader, node, fields, *ret);
	return r < 0 ? r : check_host(reader, node, *ret);
}

int scrape_read_docker(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		DOCKER_FIELDS,
		YAML_FIELD(struct discovery_config, "host_networking_host", TEXT, docker.host_networking_host),
		YAML_FIELD(struct discovery_config, "match_first_network", FLAG, docker.first_network),
		{0}};
	struct discovery_config *discovery = NULL;
	return read_daemon(reader, node, object, DISCOVERY_DOCKER, fields, &discovery);
}

int scrape_read_swarm(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {DOCKER_FIELDS, YAML_CUSTOM("role", read_swarm_role), {0}};
	struct discovery_config *discovery = NULL;
	int r = read_daemon(reader, node, object, DISCOVERY_SWARM, fields, &discovery);
	if (r == 0 && !discovery->has_role)
		return yaml_fault(reader, node, "dockerswarm_sd_configs", "needs a role");
	return r;
}

/* ---- Nomad ---- */

int scrape_read_nomad(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		YAML_FIELD(struct discovery_config, "server", TEXT, nomad.server),
		YAML_FIELD(struct discovery_config, "namespace", TEXT, nomad.namespace),
		YAML_FIELD(struct discovery_config, "region", TEXT, nomad.region),
		YAML_FIELD(struct discovery_config, "tag_separator", TEXT, nomad.tag_separator),
		YAML_FIELD(struct discovery_config, "allow_stale", FLAG, nomad.allow_stale),
		SCRAPE_REFRESH_FIELD,
		SCRAPE_HTTP_FIELDS(struct discovery_config),
		{0}};
	struct discovery_config *discovery = NULL;
	int r = scrape_add_discovery(reader, node, object, DISCOVERY_NOMAD, SCRAPE_REFRESH_DEFAULT, &discovery);
	if (r < 0)
		return r;
	discovery->nomad = (struct nomad_config){.server = "http://localhost:4646",
						 .namespace = "default",
						 .region = "global",
						 .tag_separator = ",",
						 .allow_stale = true};
	r = yaml_read_fields(reader, node, fields, discovery);
	discovery->url = discovery->nomad.server;
	return r < 0 ? r : scrape_check_url(reader, node, "server", discovery->url);
}
