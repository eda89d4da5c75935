/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's configuration file: YAML, `name: value`, or a name with a mapping under it (`retention: {age: 30d}` is
 * `retention.age`). Values are scalars, but for five: retention.rules is a list of rules, symbols.shared one of tenants,
 * local.users one of users, symbols.debuginfod.urls may be a list, and tenants is a mapping from names to what is different for
 * them. A name that is not known is an error, because a setting that is silently ignored is worse than none.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "codec/yaml_fields.h"
#include "server/core/server_int.h"
#include "server/scrape/scrape.h"
#include "server/stores/snapshots.h"

#define CONFIG_BYTES_MAX (256 * KIB)
#define CONFIG_ARENA_MAX (4 * MIB)
#define RULES_MAX	 256
#define TENANTS_MAX	 10000
#define NAME_BYTES	 256

struct server_config_text {
	struct arena arena;
	struct export_config forward;
	struct scrape_config *scrape; /* NULL = none */
};

struct config_reader {
	struct server_options *options;
	struct server_config_text *text;
	struct yaml_reader yaml;
};

/* ---- values ---- */

static int parse_string(struct config_reader *reader, const char *value, const char **ret)
{
	*ret = arena_strndup(&reader->text->arena, value, strlen(value));
	return *ret ? 0 : error_nomem(reader->yaml.err);
}

static int parse_size(const char *value, uint64_t *ret, struct error *err)
{
	int r = text_parse_size(value, ret, err);
	return r < 0 ? r : *ret == 0 ? error_set(err, -EINVAL, "must be more than 0") : 0;
}

/* `never` is what "no end" is called: "forever", "off". */
static int parse_duration(const char *value, const char *never, int64_t *ret, struct error *err)
{
	if (never && strcmp(value, never) == 0) {
		*ret = -1;
		return 0;
	}
	int r = time_parse_duration(value, ret, err);
	return r < 0 ? r : *ret <= 0 ? error_set(err, -EINVAL, "must be more than 0") : 0;
}

/* "none" lifts a limit that the tenants have in common. */
static int parse_limit(struct server_limits *limits, const char *name, const char *value, struct error *err)
{
	uint64_t *values = (uint64_t *)limits;
	int i = text_find_name(server_limit_names, SERVER_LIMIT_COUNT, name);
	if (i < 0)
		return error_set(err, -EINVAL, "unknown limit; docs/configuration.md lists them");
	if (strcmp(value, "none") != 0)
		return parse_size(value, &values[i], err); /* "10M" is handy for counts as well */
	values[i] = 0;
	return 0;
}

/* ---- settings ---- */

/* A merge needs most of this for its buffers; with less, no two blocks would ever be merged. Nor would a table be made. */
#define WORK_MEMORY_MIN (64 * MIB)

#define SETTING(name, kind, member, ...) YAML_FIELD(struct server_options, name, kind, member, ##__VA_ARGS__)
static const struct yaml_field settings[] = {
	SETTING("data", EMPTY_TEXT, data_directory),
	SETTING("listen", EMPTY_TEXT, listen),
	SETTING("token", EMPTY_TEXT, token),
	SETTING("tokens", EMPTY_TEXT, tokens_file),
	SETTING("audit.file", EMPTY_TEXT, audit_file),
	SETTING("audit.size", SIZE, audit_bytes, .least = MIB),
	SETTING("otlp.grpc_listen", EMPTY_TEXT, otlp_grpc_listen),
	SETTING("otlp.http_listen", EMPTY_TEXT, otlp_http_listen),
	SETTING("insecure", FLAG, insecure),
	SETTING("path_prefix", EMPTY_TEXT, path_prefix),
	SETTING("trusted_proxies", EMPTY_TEXT, trusted_proxies),
	SETTING("user", EMPTY_TEXT, user),
	SETTING("sandbox", NOT_FLAG, no_sandbox),
	SETTING("tenants", FLAG, tenants),
	SETTING("tls.cert_file", EMPTY_TEXT, tls_cert_file),
	SETTING("tls.key_file", EMPTY_TEXT, tls_key_file),
	SETTING("tls.client_ca_file", EMPTY_TEXT, tls_client_ca_file),
	SETTING("tls.client_optional", FLAG, tls_client_optional),
	SETTING("tls.resumption", NOT_FLAG, no_tls_resumption),
	SETTING("connections.max", COUNT, connections_max, .least = 8, .most = 1000000),
	SETTING("connections.per_address", COUNT, connections_per_address, .least = 4, .most = 1000000),
	SETTING("connections.unauthenticated", COUNT, connections_unauthenticated, .least = 4, .most = 1000000),
	SETTING("host_files", NOT_FLAG, no_host_files),
	SETTING("retention.age", DURATION, retention_age_ns, .never = "forever"),
	SETTING("retention.size", SIZE, retention_size_bytes),
	SETTING("retention.samples", DURATION, samples_age_ns),
	SETTING("head.size", SIZE, head_size_bytes),
	SETTING("head.total", SIZE, head_total_bytes),
	SETTING("cut.age", DURATION, cut_age_ns),
	SETTING("compact.window", DURATION, window_ns[0], .never = "off"),
	SETTING("compact.long_window", DURATION, window_ns[1], .never = "off"),
	SETTING("compact.memory", SIZE, compact_memory_bytes, .least = WORK_MEMORY_MIN),
	SETTING("late_window", DURATION, late_window_ns, .never = "forever"),
	SETTING("indexes.memory", SIZE, index_cache_bytes, .least = MIB),
	SETTING("body.max", SIZE, body_bytes_max),
	SETTING("tenants_max", COUNT, tenants_max, .least = 1, .most = TENANTS_MAX),
	SETTING("symbols.workers", COUNT, symbols.workers, .least = 1, .most = 64),
	SETTING("symbols.cache_size", SIZE, symbols.cache_bytes),
	SETTING("symbols.memory", SIZE, symbols.memory_bytes),
	SETTING("symbols.retry", DURATION, symbols.retry_ns),
	SETTING("symbols.host_files", NOT_FLAG, no_host_files),
	SETTING("symbols.debuginfod.urls", EMPTY_TEXT, symbols.debuginfod_urls),
	SETTING("symbols.debuginfod.cache_size", SIZE, symbols.debuginfod_cache_bytes),
	SETTING("symbols.debuginfod.timeout", DURATION, symbols.debuginfod_timeout_ns),
	SETTING("symbols.debuginfod.missing", DURATION, symbols.debuginfod_missing_ns),
	SETTING("symbols.uploads.enabled", NOT_FLAG, symbols.no_uploads),
	SETTING("symbols.uploads.size", SIZE, symbols.uploads_bytes),
	SETTING("symbols.uploads.file_size", SIZE, symbols.upload_file_bytes),
	SETTING("symbols.worker.memory", SIZE, symbols.worker_memory_bytes, .least = WORK_MEMORY_MIN),
	SETTING("symbols.worker.cpu", DURATION, symbols.worker_cpu_ns),
	SETTING("symbols.worker.time", DURATION, symbols.worker_wall_ns),
	SETTING("scrape.targets", COUNT, scrape_targets_max, .least = 1, .most = 1000000),
	SETTING("scrape.concurrency", COUNT, scrape_concurrency, .least = 1, .most = 10000),
	SETTING("scrape.memory", SIZE, scrape_bytes),
	SETTING("scrape.dns_server", EMPTY_TEXT, scrape_dns_server),
	SETTING("recordings.size", SIZE, recordings_bytes),
	SETTING("recordings.age", DURATION, recordings_age_ns, .never = "forever"),
	SETTING("recordings.profile", SIZE, recordings_profile_bytes),
	SETTING("view.enabled", NOT_FLAG, no_view),
	SETTING("view.size", SIZE, view_bytes),
	SETTING("vcs.directory", EMPTY_TEXT, vcs_directory),
	SETTING("snapshots.enabled", NOT_FLAG, no_snapshots),
	SETTING("snapshots.size", SIZE, snapshots_bytes),
	SETTING("snapshots.age", DURATION, snapshots_age_ns, .never = "forever"),
	SETTING("snapshots.count", COUNT, snapshots_max, .least = 1, .most = SNAPSHOTS_COUNT_MAX),
	SETTING("responses.memory", SIZE, responses_bytes, .least = MIB),
	SETTING("responses.stall", DURATION, responses_stall_ns),
	SETTING("queries.timeout", DURATION, query_timeout_ns),
	SETTING("queries.memory", SIZE, query_memory_bytes),
	SETTING("queries.timeout_max", DURATION, query_timeout_max_ns),
	SETTING("queries.concurrent", COUNT, queries_max, .least = 1, .most = 64),
	SETTING("queries.queued", COUNT, queries_queued_max, .least = 1, .most = 10000),
	SETTING("queries.directory", EMPTY_TEXT, queries_directory),
	SETTING("queries.slow", DURATION, slow_query_ns, .never = "off"),
	{0},
};

/* ---- the document ---- */

static int fault(struct config_reader *reader, const yaml_node_t *at, const char *text)
{
	return error_set(reader->yaml.err, -EINVAL, "%s: line %zu: %s", reader->yaml.file, at->start_mark.line + 1, text);
}

static int prefix_fault(struct config_reader *reader, int r, const yaml_node_t *at, const char *name)
{
	return r < 0 ? error_prefix(reader->yaml.err, r, "%s: line %zu: '%s'", reader->yaml.file, at->start_mark.line + 1, name)
		     : 0;
}

static int set_by_name(struct config_reader *reader, const char *name, const yaml_node_t *key, const yaml_node_t *value)
{
	int r = -EINVAL;
	for (const struct yaml_field *field = settings; field->name; field++)
		if (strcmp(field->name, name) == 0)
			return yaml_read_field(&reader->yaml, value, field, reader->options);
	if (text_starts_with(name, "limits."))
		r = parse_limit(&reader->options->limits, name + 7, yaml_scalar(value), reader->yaml.err);
	else
		error_set(reader->yaml.err, r, "unknown setting; see wick-server(1)");
	return prefix_fault(reader, r, key, name);
}

static yaml_node_t *node_of(struct config_reader *reader, int index)
{
	return yaml_document_get_node(reader->yaml.document, index);
}

/* Calls visit() for each pair; `prefix` is what its names begin with in messages. */
static int each_pair(struct config_reader *reader, const yaml_node_t *mapping, const char *prefix,
		     int (*visit)(struct config_reader *reader, void *context, const char *name, const yaml_node_t *key,
				  const yaml_node_t *value),
		     void *context)
{
	const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
	for (; pair < mapping->data.mapping.pairs.top; pair++) {
		char name[NAME_BYTES];
		const yaml_node_t *key = node_of(reader, pair->key), *value = node_of(reader, pair->value);
		const char *text = yaml_scalar(key);
		if (!text)
			return fault(reader, key, "a setting's name must be plain text");
		if (snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", text) >= (int)sizeof(name))
			return fault(reader, key, "a setting's name is too long");
		int r = visit(reader, context, name, key, value);
		if (r < 0)
			return r;
	}
	return 0;
}

static int visit_rule(struct config_reader *reader, void *context, const char *name, const yaml_node_t *key,
		      const yaml_node_t *value)
{
	struct server_retention_rule *rule = context;
	const char *text = yaml_scalar(value);
	int r;
	if (!text)
		return fault(reader, value, "a rule of retention.rules needs a selector and an age, both single values");
	if (strcmp(name, "selector") == 0)
		r = parse_string(reader, text, &rule->selector);
	else if (strcmp(name, "age") == 0)
		r = parse_duration(text, "forever", &rule->age_ns, reader->yaml.err);
	else
		return fault(reader, key, "a rule of retention.rules may have a selector and an age only");
	return prefix_fault(reader, r, key, name);
}

static int read_rules(struct config_reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return fault(reader, node, "'retention.rules' must be a list");
	size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (count > RULES_MAX)
		return fault(reader, node, "'retention.rules' has more than 256 rules");
	struct server_retention_rule *rules = arena_alloc(&reader->text->arena, (count + 1) * sizeof(*rules));
	if (!rules)
		return error_nomem(reader->yaml.err);
	for (size_t i = 0; i < count; i++) {
		const yaml_node_t *item = node_of(reader, node->data.sequence.items.start[i]);
		rules[i] = (struct server_retention_rule){0};
		if (item->type != YAML_MAPPING_NODE)
			return fault(reader, item, "a rule of retention.rules needs a selector and an age");
		int r = each_pair(reader, item, "", visit_rule, &rules[i]);
		if (r < 0)
			return r;
		if (!rules[i].selector || !rules[i].age_ns)
			return fault(reader, item, "a rule of retention.rules needs both a selector and an age");
	}
	reader->options->rules = rules;
	reader->options->rule_count = count;
	return 0;
}

static int visit_tenant_setting(struct config_reader *reader, void *context, const char *name, const yaml_node_t *key,
				const yaml_node_t *value)
{
	struct server_tenant_settings *tenant = context;
	const char *text = yaml_scalar(value);
	int r;
	if (value->type == YAML_MAPPING_NODE && (strcmp(name, "limits") == 0 || strcmp(name, "retention") == 0))
		return each_pair(reader, value, name, visit_tenant_setting, context);
	if (!text)
		return fault(reader, value, "a tenant may have 'limits', 'retention.age' and 'retention.size'");
	if (strncmp(name, "limits.", 7) == 0)
		r = parse_limit(&tenant->limits, name + 7, text, reader->yaml.err);
	else if (strcmp(name, "retention.age") == 0)
		r = parse_duration(text, "forever", &tenant->retention_age_ns, reader->yaml.err);
	else if (strcmp(name, "retention.size") == 0)
		r = parse_size(text, &tenant->retention_size_bytes, reader->yaml.err);
	else
		return fault(reader, key, "a tenant may have 'limits', 'retention.age' and 'retention.size' only");
	return prefix_fault(reader, r, key, name);
}

struct tenants_reader {
	struct server_tenant_settings *items;
	size_t count;
};

static int visit_tenant(struct config_reader *reader, void *context, const char *name, const yaml_node_t *key,
			const yaml_node_t *value)
{
	struct tenants_reader *tenants = context;
	struct server_tenant_settings *tenant = &tenants->items[tenants->count];
	struct error problem = {0};
	int r = 0;
	if (tenant_name_check(name, &problem) < 0)
		return fault(reader, key, problem.message);
	for (size_t i = 0; i < tenants->count; i++)
		if (strcmp(tenants->items[i].name, name) == 0)
			return fault(reader, key, "this tenant is listed twice");
	*tenant = (struct server_tenant_settings){.limits = reader->options->limits};
	r = parse_string(reader, name, &tenant->name);
	if (r < 0)
		return r;
	tenants->count++;
	if (value->type == YAML_MAPPING_NODE)
		return each_pair(reader, value, "", visit_tenant_setting, tenant);
	const char *text = yaml_scalar(value);
	return text && (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)
		       ? 0
		       : fault(reader, value, "a tenant may have 'limits', 'retention.age' and 'retention.size'");
}

/* Naming tenants switches them on. */
static int read_tenants(struct config_reader *reader, const yaml_node_t *node)
{
	size_t count = (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
	if (count > TENANTS_MAX)
		return fault(reader, node, "'tenants' has more than 10000 entries");
	struct tenants_reader tenants = {
		.items = arena_alloc(&reader->text->arena, (count + 1) * sizeof(struct server_tenant_settings))};
	if (!tenants.items)
		return error_nomem(reader->yaml.err);
	int r = each_pair(reader, node, "", visit_tenant, &tenants);
	reader->options->tenants = true;
	reader->options->tenant_settings = tenants.items;
	reader->options->tenant_settings_count = tenants.count;
	return r;
}

/* A list of texts without blanks, which become one, separated by spaces. */
static int read_words(struct config_reader *reader, const yaml_node_t *node, const char *fault_text, const char **ret)
{
	_cleanup_(buffer_release) struct buffer text = {.max = CONFIG_BYTES_MAX};
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top; item++) {
		const char *url = yaml_scalar(node_of(reader, *item));
		if (!url || strpbrk(url, " \t\n"))
			return fault(reader, node, fault_text);
		if (buffer_printf(&text, "%s%s", text.len ? " " : "", url) < 0)
			return error_nomem(reader->yaml.err);
	}
	const char *urls = buffer_string(&text);
	return urls ? parse_string(reader, urls, ret) : error_nomem(reader->yaml.err);
}

static int read_local_users(struct config_reader *reader, const yaml_node_t *node)
{
	size_t count = node->type == YAML_SEQUENCE_NODE
			       ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start)
			       : LOCAL_USERS_MAX + 1;
	const char **names = arena_alloc(&reader->text->arena, (count + 1) * sizeof(*names));
	if (count > LOCAL_USERS_MAX)
		return fault(reader, node, "'local.users' must be a list of at most 64 users");
	if (!names)
		return error_nomem(reader->yaml.err);
	for (size_t i = 0; i < count; i++) {
		const yaml_node_t *item = node_of(reader, node->data.sequence.items.start[i]);
		const char *name = yaml_scalar(item);
		if (!name || !*name)
			return fault(reader, item, "'local.users' must be a list of users");
		int r = parse_string(reader, name, &names[i]);
		if (r < 0)
			return r;
	}
	reader->options->local_users = names;
	reader->options->local_user_count = count;
	return 0;
}

static int read_local_rule(struct config_reader *reader, const yaml_node_t *node, bool is_write, unsigned *ret)
{
	const char *text = yaml_scalar(node);
	int i = text ? text_find_name(server_local_rule_names, LOCAL_RULES, text) : -1;
	if (i < 0 || (is_write && i == LOCAL_BY_KERNEL))
		return fault(reader, node,
			     is_write ? "'local.write' must be owner or anyone"
				      : "'local.read' must be kernel, owner or anyone");
	*ret = (unsigned)i;
	return 0;
}

static int read_shared(struct config_reader *reader, const yaml_node_t *node)
{
	size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	const char **names = arena_alloc(&reader->text->arena, (count + 1) * sizeof(*names));
	if (!names)
		return error_nomem(reader->yaml.err);
	for (size_t i = 0; i < count; i++) {
		const yaml_node_t *item = node_of(reader, node->data.sequence.items.start[i]);
		const char *name = yaml_scalar(item);
		struct error problem = {0};
		if (!name || tenant_name_check(name, &problem) < 0)
			return fault(reader, item, name ? problem.message : "'symbols.shared' must be a list of tenants");
		int r = parse_string(reader, name, &names[i]);
		if (r < 0)
			return r;
	}
	reader->options->symbols.shared = names;
	reader->options->symbols.shared_count = count;
	return 0;
}

static int visit_setting(struct config_reader *reader, void *context, const char *name, const yaml_node_t *key,
			 const yaml_node_t *value)
{
	bool inner = context != NULL;
	const char *text = yaml_scalar(value);
	if (strcmp(name, "retention.rules") == 0)
		return read_rules(reader, value);
	if (strcmp(name, "forward") == 0)
		return 0; /* read by export_config_parse() */
	if (strcmp(name, "scrape_configs") == 0) {
		int r = scrape_config_read(reader->yaml.document, value, reader->yaml.file, &reader->text->scrape,
					   reader->yaml.err);
		reader->options->scrape = reader->text->scrape;
		return r;
	}
	if (strcmp(name, "tenants") == 0 && value->type == YAML_MAPPING_NODE)
		return 0; /* they start from the limits of all, which may come later */
	if (strcmp(name, "symbols.debuginfod.urls") == 0 && value->type == YAML_SEQUENCE_NODE)
		return read_words(reader, value, "'symbols.debuginfod.urls' must be a list of URLs",
				  &reader->options->symbols.debuginfod_urls);
	if (strcmp(name, "local.users") == 0)
		return read_local_users(reader, value);
	if (strcmp(name, "local.read") == 0)
		return read_local_rule(reader, value, false, &reader->options->local_read);
	if (strcmp(name, "local.write") == 0)
		return read_local_rule(reader, value, true, &reader->options->local_write);
	if (strcmp(name, "symbols.shared") == 0)
		return value->type == YAML_SEQUENCE_NODE ? read_shared(reader, value)
							 : fault(reader, value, "'symbols.shared' must be a list of tenants");
	if (strcmp(name, "trusted_proxies") == 0 && value->type == YAML_SEQUENCE_NODE)
		return read_words(reader, value, "'trusted_proxies' must be a list of networks, as 10.0.0.0/8",
				  &reader->options->trusted_proxies);
	if (value->type == YAML_MAPPING_NODE && (!inner || text_starts_with(name, "symbols.")))
		return each_pair(reader, value, name, visit_setting, reader);
	if (!text)
		return prefix_fault(reader, error_set(reader->yaml.err, -EINVAL, "must be a single value"), value, name);
	return set_by_name(reader, name, key, value);
}

static int visit_tenants(struct config_reader *reader, void *context, const char *name, const yaml_node_t *key,
			 const yaml_node_t *value)
{
	return strcmp(name, "tenants") == 0 && value->type == YAML_MAPPING_NODE ? read_tenants(reader, value) : 0;
}

static int config_parse(struct config_reader *reader, struct bytes input)
{
	yaml_document_t document;
	int r = yaml_load(input, reader->yaml.file, -EINVAL, &document, reader->yaml.err);
	if (r < 0)
		return r;
	yaml_node_t *root = yaml_document_get_root_node(&document);
	reader->yaml.document = &document;
	if (root && root->type == YAML_MAPPING_NODE) {
		r = each_pair(reader, root, "", visit_setting, NULL);
		if (!r)
			r = each_pair(reader, root, "", visit_tenants, NULL);
	} else if (root) {
		r = error_set(reader->yaml.err, -EINVAL, "%s: expected `name: value` lines", reader->yaml.file);
	}
	yaml_document_delete(&document);
	return r;
}

int server_options_load(struct server_options *options, const char *path, struct server_config_text **ret_text,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer file = {.max = CONFIG_BYTES_MAX};
	int r = io_read_file(path, CONFIG_BYTES_MAX, &file, err);
	if (r < 0)
		return r;
	_cleanup_(server_config_text_freep) struct server_config_text *text = mem_zalloc(sizeof(*text));
	if (!text)
		return error_nomem(err);
	arena_init(&text->arena, CONFIG_ARENA_MAX);
	struct config_reader reader = {
		.options = options, .text = text, .yaml = {.file = path, .arena = &text->arena, .err = err}};
	r = config_parse(&reader, buffer_bytes(&file));
	if (!r)
		r = export_config_parse(buffer_bytes(&file), path, "forward", true, &text->forward, err);
	if (r < 0)
		return r;
	options->forward = text->forward.targets;
	options->forward_count = text->forward.count;
	*ret_text = TAKE(text);
	return 0;
}

struct server_config_text *server_config_text_free(struct server_config_text *text)
{
	if (!text)
		return NULL;
	export_config_release(&text->forward);
	scrape_config_free(text->scrape);
	arena_release(&text->arena);
	return mem_free(text);
}

struct scrape_config *server_config_take_scrape(struct server_config_text *text)
{
	struct scrape_config *config = TAKE(text->scrape);
	return config;
}
