/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scrape_configs: the names are Prometheus' (its "Configuration" page: scrape_config, static_config, file_sd_config,
 * http_sd_config, dns_sd_config, kubernetes_sd_config, tls_config) with the profiling_config of Parca and Grafana's agents.
 * What is not understood is refused.
 */
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "profile/labels.h"
#include "server/scrape/scrape.h"

#define JOB_ARENA_MAX	   (4 * MIB)
#define BODY_DEFAULT	   (64 * MIB)
#define INTERVAL_DEFAULT   (15 * NS_PER_S)
#define TIMEOUT_DEFAULT	   (10 * NS_PER_S)
#define REFRESH_DEFAULT	   (60 * NS_PER_S)
#define REFRESH_MIN	   NS_PER_S
#define DNS_REFRESH	   (30 * NS_PER_S)
#define FILE_REFRESH	   (5 * 60 * NS_PER_S)
#define KUBERNETES_REFRESH (15 * NS_PER_S)

const char *const discovery_kind_names[] = {"static", "file", "http", "dns", "kubernetes"};
const char *const kubernetes_role_names[KUBERNETES_ROLES + 1] = {"pod", "endpoints", "endpointslice", "node", "service", NULL};

static const struct scrape_profile profile_defaults[] = {
	{.name = "process_cpu", .path = "/debug/pprof/profile", .delta = true},
	{.name = "memory", .path = "/debug/pprof/allocs", .cumulative = true},
	{.name = "mutex", .path = "/debug/pprof/mutex", .cumulative = true},
	{.name = "block", .path = "/debug/pprof/block", .cumulative = true},
	{.name = "goroutine", .path = "/debug/pprof/goroutine"},
	{.name = "fgprof", .path = "/debug/fgprof", .delta = true, .disabled = true},
	{.name = "godeltaprof_memory", .path = "/debug/pprof/delta_heap", .disabled = true},
	{.name = "godeltaprof_mutex", .path = "/debug/pprof/delta_mutex", .disabled = true},
	{.name = "godeltaprof_block", .path = "/debug/pprof/delta_block", .disabled = true},
};
#define PROFILE_DEFAULTS (sizeof(profile_defaults) / sizeof(*profile_defaults))

/* ---- jobs ---- */

struct scrape_job *scrape_job_use(struct scrape_job *job)
{
	atomic_fetch_add_explicit(&job->references, 1, memory_order_relaxed);
	return job;
}

void scrape_job_release(struct scrape_job *job)
{
	if (!job || atomic_fetch_sub_explicit(&job->references, 1, memory_order_acq_rel) > 1)
		return;
	relabel_free(job->relabel);
	net_tls_free(job->http.tls);
	for (size_t i = 0; i < job->discovery_count; i++)
		net_tls_free(job->discoveries[i].http.tls);
	arena_release(&job->arena);
	mem_free(job);
}

struct scrape_config *scrape_config_free(struct scrape_config *config)
{
	for (size_t i = 0; config && i < config->count; i++)
		scrape_job_release(config->jobs[i]);
	return config ? mem_free(config) : NULL;
}

/* ---- how to ask ---- */

static int read_basic_auth(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_http *http = object;
	static const struct yaml_field fields[] = {YAML_FIELD(struct scrape_http, "username", TEXT, user),
						   YAML_FIELD(struct scrape_http, "password", TEXT, password),
						   YAML_FIELD(struct scrape_http, "password_file", TEXT, password_file),
						   {0}};
	int r = yaml_read_fields(reader, node, fields, http);
	if (r == 0 && (!http->user || (http->password && http->password_file)))
		return yaml_fault(reader, node, "basic_auth", "needs a username, and one of password and password_file");
	return r;
}

static int read_authorization(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_http *http = object;
	static const struct yaml_field fields[] = {YAML_FIELD(struct scrape_http, "type", TEXT, auth_type),
						   YAML_FIELD(struct scrape_http, "credentials", TEXT, credentials),
						   YAML_FIELD(struct scrape_http, "credentials_file", TEXT, credentials_file),
						   {0}};
	int r = yaml_read_fields(reader, node, fields, http);
	if (r == 0 && !http->credentials == !http->credentials_file)
		return yaml_fault(reader, node, "authorization", "needs one of credentials and credentials_file");
	return r;
}

static int read_tls(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_http *http = object;
	static const struct yaml_field fields[] = {YAML_FIELD(struct net_tls_options, "ca_file", TEXT, ca_file),
						   YAML_FIELD(struct net_tls_options, "cert_file", TEXT, cert_file),
						   YAML_FIELD(struct net_tls_options, "key_file", TEXT, key_file),
						   YAML_FIELD(struct net_tls_options, "server_name", TEXT, server_name),
						   YAML_FIELD(struct net_tls_options, "insecure_skip_verify", FLAG, insecure),
						   {0}};
	http->has_tls = true;
	int r = yaml_read_fields(reader, node, fields, &http->tls_options);
	if (r < 0)
		return r;
	net_tls_free(http->tls);
	http->tls = NULL;
	r = net_tls_new_client(&http->tls_options, &http->tls, reader->err);
	return r < 0 ? error_prefix(reader->err, r, "%s: line %zu: tls_config", reader->file, node->start_mark.line + 1) : 0;
}

/* Members of several structs. */
#define HTTP_FIELDS(type)                                                                                                      \
	YAML_FIELD(type, "basic_auth", CUSTOM, http, read_basic_auth),                                                         \
		YAML_FIELD(type, "authorization", CUSTOM, http, read_authorization),                                           \
		YAML_FIELD(type, "tls_config", CUSTOM, http, read_tls),                                                        \
		YAML_FIELD(type, "follow_redirects", NOT, http.no_redirects),                                                  \
		YAML_FIELD(type, "bearer_token", TEXT, http.credentials),                                                      \
		YAML_FIELD(type, "bearer_token_file", TEXT, http.credentials_file)

/* ---- discovery ---- */

static bool is_template(const char *text)
{
	size_t stars = 0;
	for (; *text; text++)
		stars += *text == '*';
	return stars <= 1;
}

static int next_discovery(struct yaml_reader *reader, const yaml_node_t *node, struct scrape_job *job, enum discovery_kind kind,
			  int64_t refresh_ns, struct discovery_config **ret)
{
	if (job->discovery_count == SCRAPE_DISCOVERIES_MAX)
		return yaml_fault(reader, node, job->name ? job->name : "job", "has more than 64 discoveries");
	*ret = &job->discoveries[job->discovery_count++];
	**ret = (struct discovery_config){.kind = kind, .refresh_ns = refresh_ns};
	return 0;
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

static int read_static(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("targets", read_items), YAML_CUSTOM("labels", read_labels), {0}};
	struct discovery_config *discovery = NULL;
	int r = next_discovery(reader, node, object, DISCOVERY_STATIC, 0, &discovery);
	return r < 0 ? r : yaml_read_fields(reader, node, fields, discovery);
}

#define REFRESH YAML_FIELD(struct discovery_config, "refresh_interval", DURATION, refresh_ns)

static int read_file(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("files", read_items), REFRESH, {0}};
	struct discovery_config *discovery = NULL;
	int r = next_discovery(reader, node, object, DISCOVERY_FILE, FILE_REFRESH, &discovery);
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

static int read_http(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		YAML_FIELD(struct discovery_config, "url", TEXT, url), REFRESH, HTTP_FIELDS(struct discovery_config), {0}};
	struct discovery_config *discovery = NULL;
	int r = next_discovery(reader, node, object, DISCOVERY_HTTP, REFRESH_DEFAULT, &discovery);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0 && (!discovery->url || strncmp(discovery->url, "http", 4) != 0))
		return yaml_fault(reader, node, "http_sd_configs", "needs a url that begins with http");
	return r;
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

static int read_dns(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("names", read_items),
						   YAML_CUSTOM("type", read_dns_type),
						   YAML_FIELD(struct discovery_config, "port", COUNT, port),
						   REFRESH,
						   {0}};
	struct discovery_config *discovery = NULL;
	int r = next_discovery(reader, node, object, DISCOVERY_DNS, DNS_REFRESH, &discovery);
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
	const char *text;
	int r = yaml_read_text(reader, node, "role", &text);
	int role = r < 0 ? r : text_find_name(kubernetes_role_names, KUBERNETES_ROLES, text);
	if (role < 0)
		return r < 0 ? r : yaml_fault(reader, node, text, "must be pod, endpoints, endpointslice, node or service");
	discovery->role = (enum kubernetes_role)role;
	discovery->port = 1; /* given */
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

static int read_kubernetes(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_CUSTOM("role", read_role),
						   YAML_FIELD(struct discovery_config, "api_server", TEXT, url),
						   YAML_CUSTOM("namespaces", read_namespaces),
						   {"selectors", YAML_FIELD_LIST, .read = read_selector},
						   REFRESH,
						   HTTP_FIELDS(struct discovery_config),
						   {0}};
	struct discovery_config *discovery = NULL;
	int r = next_discovery(reader, node, object, DISCOVERY_KUBERNETES, KUBERNETES_REFRESH, &discovery);
	if (r == 0)
		r = yaml_read_fields(reader, node, fields, discovery);
	if (r == 0 && !discovery->port)
		return yaml_fault(reader, node, "kubernetes_sd_configs", "needs a role");
	return r;
}

/* ---- profiling_config ---- */

struct profile_settings {
	struct scrape_profile *profile;
	bool enabled, delta, cumulative;
	const char *path;
	unsigned seconds;
};

static int read_profile(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_FIELD(struct profile_settings, "enabled", FLAG, enabled),
						   YAML_FIELD(struct profile_settings, "path", TEXT, path),
						   YAML_FIELD(struct profile_settings, "delta", FLAG, delta),
						   YAML_FIELD(struct profile_settings, "cumulative", FLAG, cumulative),
						   YAML_FIELD(struct profile_settings, "seconds", COUNT, seconds),
						   {0}};
	struct scrape_job *job = object;
	struct scrape_profile *profile = NULL;
	for (size_t i = 0; i < job->profile_count; i++)
		if (strcmp(job->profiles[i].name, name) == 0)
			profile = &job->profiles[i];
	if (!profile && (job->profile_count == SCRAPE_PROFILES_MAX || !label_name_is_valid(name) || strlen(name) >= 48))
		return yaml_fault(reader, node, name, "is not a profile name, or exceeds the limit of profiles");
	if (!profile) {
		profile = &job->profiles[job->profile_count++];
		*profile = (struct scrape_profile){.name = name};
	}
	struct profile_settings settings = {.enabled = true, .delta = profile->delta, .cumulative = profile->cumulative};
	int r = yaml_read_fields(reader, node, fields, &settings);
	if (r < 0)
		return r;
	/* Who says that an endpoint measures by itself has said that it does not count from the start. */
	if (settings.delta && profile->cumulative)
		settings.cumulative = false;
	if (settings.delta && settings.cumulative)
		return yaml_fault(reader, node, name, "cannot have both delta and cumulative");
	profile->disabled = !settings.enabled;
	profile->delta = settings.delta;
	profile->cumulative = settings.cumulative;
	profile->duration_ns = settings.seconds < 3600 ? settings.seconds * NS_PER_S : 3600 * NS_PER_S;
	if (settings.path)
		profile->path = settings.path;
	if (!profile->path || *profile->path != '/')
		return yaml_fault(reader, node, name, "needs a path that begins with '/'");
	return 0;
}

static int read_profiling(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {YAML_FIELD(struct scrape_job, "path_prefix", TEXT, path_prefix),
						   {"pprof_config", YAML_FIELD_NAMES, .read_name = read_profile},
						   {0}};
	return yaml_read_fields(reader, node, fields, object);
}

/* ---- a job ---- */

static int read_param(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct scrape_job *job = object;
	if (job->param_count == SCRAPE_PARAMS_MAX)
		return yaml_fault(reader, node, "params", "has too many entries");
	struct scrape_param *param = &job->params[job->param_count++];
	param->name = name;
	return yaml_read_texts(reader, node, name, 16, &param->values, &param->count);
}

static const struct yaml_field job_fields[] = {
	YAML_FIELD(struct scrape_job, "job_name", TEXT, name),
	YAML_FIELD(struct scrape_job, "scrape_interval", DURATION, interval_ns),
	YAML_FIELD(struct scrape_job, "scrape_timeout", DURATION, timeout_ns),
	YAML_FIELD(struct scrape_job, "scheme", TEXT, scheme),
	YAML_FIELD(struct scrape_job, "tenant", TEXT, tenant),
	YAML_FIELD(struct scrape_job, "body_size_limit", SIZE, body_max),
	YAML_FIELD(struct scrape_job, "target_limit", COUNT, targets_max),
	{"params", YAML_FIELD_NAMES, .read_name = read_param},
	{"static_configs", YAML_FIELD_LIST, .read = read_static},
	{"file_sd_configs", YAML_FIELD_LIST, .read = read_file},
	{"http_sd_configs", YAML_FIELD_LIST, .read = read_http},
	{"dns_sd_configs", YAML_FIELD_LIST, .read = read_dns},
	{"kubernetes_sd_configs", YAML_FIELD_LIST, .read = read_kubernetes},
	YAML_FIELD(struct scrape_job, "relabel_configs", LIST, relabel, relabel_read_rule),
	YAML_CUSTOM("profiling_config", read_profiling),
	HTTP_FIELDS(struct scrape_job),
	{0}};

static int check_http(struct yaml_reader *reader, const yaml_node_t *node, const struct scrape_http *http)
{
	bool credentials = http->credentials || http->credentials_file;
	if ((http->credentials && http->credentials_file) || (http->user && credentials))
		return yaml_fault(reader, node, "authorization", "is given in more than one way");
	return 0;
}

static int check_job(struct yaml_reader *reader, const yaml_node_t *node, struct scrape_job *job)
{
	if (!job->name)
		return yaml_fault(reader, node, "scrape_configs", "needs a job_name");
	if (strcmp(job->scheme, "http") && strcmp(job->scheme, "https"))
		return yaml_fault(reader, node, job->scheme, "must be http or https");
	if (job->interval_ns < NS_PER_S)
		return yaml_fault(reader, node, "scrape_interval", "must be at least 1s");
	for (size_t i = 0; i < job->discovery_count; i++) {
		struct discovery_config *discovery = &job->discoveries[i];
		if (discovery->refresh_ns && discovery->refresh_ns < REFRESH_MIN)
			return yaml_fault(reader, node, "refresh_interval", "must be at least 1s");
		int r = check_http(reader, node, &discovery->http);
		if (r < 0)
			return r;
	}
	/* What a profile must be measured for has to fit between two scrapes. */
	for (size_t i = 0; i < job->profile_count; i++)
		if (job->profiles[i].delta && job->profiles[i].duration_ns > job->interval_ns)
			return yaml_fault(reader, node, job->profiles[i].name, "takes longer than the scrape_interval");
	return check_http(reader, node, &job->http);
}

static int read_job(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct scrape_config *config = object;
	if (config->count == SCRAPE_JOBS_MAX)
		return yaml_fault(reader, node, "scrape_configs", "has more than 1000 jobs");
	struct scrape_job *job = mem_zalloc(sizeof(*job));
	if (!job)
		return error_nomem(reader->err);
	config->jobs[config->count++] = job;
	arena_init(&job->arena, JOB_ARENA_MAX);
	job->references = 1;
	job->interval_ns = INTERVAL_DEFAULT;
	job->scheme = "http";
	job->path_prefix = "";
	job->body_max = BODY_DEFAULT;
	memcpy(job->profiles, profile_defaults, sizeof(profile_defaults));
	job->profile_count = PROFILE_DEFAULTS;
	struct yaml_reader own = *reader;
	own.arena = &job->arena;
	int r = yaml_hash(&own, node, &job->hash);
	if (r == 0)
		r = yaml_read_fields(&own, node, job_fields, job);
	if (job->timeout_ns == 0)
		job->timeout_ns = job->interval_ns < TIMEOUT_DEFAULT ? job->interval_ns : TIMEOUT_DEFAULT;
	if (r == 0)
		r = check_job(&own, node, job);
	for (size_t i = 0; r == 0 && i + 1 < config->count; i++)
		if (strcmp(config->jobs[i]->name, job->name) == 0)
			return yaml_fault(reader, node, job->name, "is already the name of another job");
	return r;
}

int scrape_config_read(yaml_document_t *document, const yaml_node_t *node, const char *file, struct scrape_config **ret,
		       struct error *err)
{
	struct yaml_reader reader = {document, file, NULL, err, .manual = "docs/scraping.md"};
	if (!*ret)
		*ret = mem_zalloc(sizeof(**ret));
	return *ret ? yaml_read_list(&reader, node, "scrape_configs", read_job, *ret) : error_nomem(err);
}
