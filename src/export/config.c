/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets in a configuration file, the agent's `export` and the server's `forward`:
 *
 *     export:
 *       - kind: pyroscope
 *         url: https://pyroscope.example
 *         tenant: team-a
 *         basic_auth: {username: wick, password_file: /etc/wick/password}
 *         spool: {size: 1GiB, age: 48h}
 *
 * The file's other settings are read by those whose they are; here only the one section is looked at. A name that is not known
 * is an error, and so is one that stands twice.
 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/yaml_fields.h"
#include "export/export.h"

#define ARENA_BYTES_MAX (2 * MIB)
#define LIST_MAX	32u
#define SPOOL_SIZE_MIN	(1 * MIB)

/* A target that is being read. */
struct reading {
	struct export_target target; /* the first member: offsets in `settings` are the target's */
	bool has_symbolize;
};

/* ---- values ---- */

static int read_kind(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct reading *reading = object;
	int kind = text_find_name(export_kind_names, EXPORT_KINDS, yaml_scalar(node));
	if (kind < 0)
		return yaml_fault(reader, node, "kind", "is not one of wick, otlp-grpc, otlp-http, pyroscope, parca");
	reading->target.kind = (enum export_kind)kind;
	return 0;
}

static int read_header(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct export_target *target = object;
	struct export_header *header = (struct export_header *)&target->headers[target->header_count];
	if (target->header_count++ == LIST_MAX)
		return yaml_fault(reader, node, "headers", "must be at most 32 names with a single value each");
	header->name = name;
	return yaml_read_text(reader, node, name, &header->value);
}

static int read_headers(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct reading *reading = object;
	reading->target.headers = arena_zalloc(reader->arena, LIST_MAX * sizeof(struct export_header));
	if (!reading->target.headers)
		return error_nomem(reader->err);
	return yaml_read_names(reader, node, "headers", read_header, &reading->target);
}

static int read_drops(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct export_target *target = &((struct reading *)object)->target;
	const char **names = NULL;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, "drop_labels", "must be a list: [name, name]");
	int r = yaml_read_texts(reader, node, "drop_labels", LIST_MAX, &names, &target->drop_label_count);
	target->drop_labels = names;
	return r;
}

static int read_symbolize(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct reading *reading = object;
	const char *text = yaml_scalar(node);
	reading->has_symbolize = true;
	reading->target.symbolize = text && strcmp(text, "true") == 0;
	return text && (reading->target.symbolize || strcmp(text, "false") == 0)
		       ? 0
		       : yaml_fault(reader, node, "symbolize", "must be true or false");
}

/* ---- a target ---- */

#define SETTING(name, kind, member, ...) YAML_FIELD(struct export_target, name, kind, member, ##__VA_ARGS__)
/* In a mapping of that name, or each by its whole name: `spool.size: 1GiB`. */
#define AUTH_SETTINGS(prefix) SETTING(prefix "username", TEXT, username), SETTING(prefix "password_file", TEXT, password_file)
#define TLS_SETTINGS(prefix)                                                                                                   \
	SETTING(prefix "ca_file", TEXT, ca_file), SETTING(prefix "cert_file", TEXT, cert_file),                                \
		SETTING(prefix "key_file", TEXT, key_file), SETTING(prefix "server_name", TEXT, server_name),                  \
		SETTING(prefix "insecure_skip_verify", TRUE, insecure_skip_verify)
#define SPOOL_SETTINGS(prefix)                                                                                                 \
	SETTING(prefix "size", SIZE, spool_bytes, .least = SPOOL_SIZE_MIN), SETTING(prefix "age", DURATION, spool_age_ns)

static const struct yaml_field auth_settings[] = {AUTH_SETTINGS(""), {0}};
static const struct yaml_field tls_settings[] = {TLS_SETTINGS(""), {0}};
static const struct yaml_field spool_settings[] = {SPOOL_SETTINGS(""), {0}};
static const struct yaml_field settings[] = {
	YAML_CUSTOM("kind", read_kind),
	YAML_CUSTOM("headers", read_headers),
	YAML_CUSTOM("drop_labels", read_drops),
	YAML_CUSTOM("symbolize", read_symbolize),
	SETTING("url", TEXT, url),
	SETTING("name", TEXT, name),
	SETTING("token_file", TEXT, token_file),
	SETTING("tenant", TEXT, tenant),
	SETTING("compression", NOT, no_compression),
	SETTING("timeout", DURATION, timeout_ns),
	SETTING("retry_max", DURATION, retry_max_ns),
	SETTING("selector", TEXT, selector),
	{"basic_auth", YAML_FIELD_FIELDS, .fields = auth_settings},
	{"tls", YAML_FIELD_FIELDS, .fields = tls_settings},
	{"spool", YAML_FIELD_FIELDS, .fields = spool_settings},
	AUTH_SETTINGS("basic_auth."),
	TLS_SETTINGS("tls."),
	SPOOL_SETTINGS("spool."),
	{0},
};

static int check_target(const struct export_target *target, const char **ret_why)
{
	*ret_why = NULL;
	if (!target->url || (strncmp(target->url, "http://", 7) != 0 && strncmp(target->url, "https://", 8) != 0))
		*ret_why = "needs a url: http://HOST:PORT or https://HOST:PORT";
	else if (target->password_file && !target->username)
		*ret_why = "has a password_file without a username";
	else if (target->username && target->token_file)
		*ret_why = "has both a token_file and basic_auth";
	else if (target->key_file && !target->cert_file)
		*ret_why = "has a key_file without a cert_file";
	else if ((target->timeout_ns && target->timeout_ns < NS_PER_MS) ||
		 (target->retry_max_ns && target->retry_max_ns < NS_PER_MS) ||
		 (target->spool_age_ns && target->spool_age_ns < NS_PER_MS))
		*ret_why = "has a time of less than 1ms";
	return *ret_why ? -EINVAL : 0;
}

struct section {
	struct export_config *config;
	const char *name;
	bool with_selector;
};

static int read_target(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	const struct section *section = object;
	struct reading reading = {.target.kind = EXPORT_KINDS};
	const char *why;
	if (section->config->count == EXPORT_TARGETS_MAX)
		return yaml_fault(reader, node, section->name, "has more than 16 targets");
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(reader, node, section->name, "must be a list of targets, each after a '-'");
	int r = yaml_read_fields(reader, node, settings, &reading);
	if (r < 0)
		return r;
	if (reading.target.kind == EXPORT_KINDS)
		return yaml_fault(reader, node, section->name, "has a target without a kind");
	if (reading.target.selector && !section->with_selector)
		return yaml_fault(reader, node, "selector", "is not a setting of a target here; see docs/export.md");
	if (check_target(&reading.target, &why) < 0)
		return yaml_fault(reader, node, export_kind_names[reading.target.kind], why);
	/* Pyroscope shows names only. */
	if (!reading.has_symbolize)
		reading.target.symbolize = reading.target.kind == EXPORT_PYROSCOPE;
	section->config->targets[section->config->count++] = reading.target;
	return 0;
}

/* ---- the section ---- */

static int read_document(struct yaml_reader *reader, struct section *section)
{
	const yaml_node_t *root = yaml_document_get_root_node(reader->document);
	if (!root || root->type != YAML_MAPPING_NODE)
		return 0;
	const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
	for (; pair < root->data.mapping.pairs.top; pair++) {
		const char *key = yaml_scalar(yaml_document_get_node(reader->document, pair->key));
		if (key && strcmp(key, section->name) == 0)
			return yaml_read_list(reader, yaml_document_get_node(reader->document, pair->value), key, read_target,
					      section);
	}
	return 0;
}

int export_config_parse(struct bytes text, const char *name, const char *section, bool with_selector, struct export_config *ret,
			struct error *err)
{
	yaml_document_t document;

	*ret = (struct export_config){.arena.max_bytes = ARENA_BYTES_MAX};
	int r = text.len ? yaml_load(text, name, -EINVAL, &document, err) : 0;
	if (r < 0 || !text.len)
		return r;
	struct yaml_reader reader = {&document, name, &ret->arena, err, .manual = "docs/export.md"};
	r = read_document(&reader, &(struct section){ret, section, with_selector});
	yaml_document_delete(&document);
	return r;
}

int export_config_add(struct export_config *config, const char *text, struct error *err)
{
	const char *equals = strchr(text, '='), *why;
	config->arena.max_bytes = ARENA_BYTES_MAX;
	if (config->count == EXPORT_TARGETS_MAX)
		return error_set(err, -EINVAL, "more than %d targets", EXPORT_TARGETS_MAX);
	struct export_target *target = &config->targets[config->count];
	*target = (struct export_target){.kind = EXPORT_KINDS};
	for (int i = 0; i < EXPORT_KINDS && equals; i++)
		if (strlen(export_kind_names[i]) == (size_t)(equals - text) &&
		    strncmp(export_kind_names[i], text, (size_t)(equals - text)) == 0)
			target->kind = (enum export_kind)i;
	if (target->kind == EXPORT_KINDS)
		return error_set(err, -EINVAL,
				 "'%.100s' is not KIND=URL, where KIND is wick, otlp-grpc, otlp-http, pyroscope or parca",
				 text);
	target->url = arena_strndup(&config->arena, equals + 1, strlen(equals + 1));
	if (!target->url)
		return error_nomem(err);
	if (check_target(target, &why) < 0)
		return error_set(err, -EINVAL, "'%.100s' %s", text, why);
	target->symbolize = target->kind == EXPORT_PYROSCOPE;
	config->count++;
	return 0;
}

void export_config_release(struct export_config *config)
{
	arena_release(&config->arena);
	config->count = 0;
}
