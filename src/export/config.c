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
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/yaml_fields.h"
#include "export/export.h"

#define ARENA_BYTES_MAX (2 * MIB)
#define LIST_MAX	32u
#define SPOOL_SIZE_MIN	(1 * MIB)
#define SELECTOR_NAME	"selector"

struct reader {
	struct export_config *config;
	struct export_target *target;
	yaml_document_t *document;
	const char *name, *section;
	bool with_selector;
	struct error *err;
};

static int bad(struct reader *reader, const yaml_node_t *node, const char *name, const char *why)
{
	return error_set(reader->err, -EINVAL, "%s: line %zu: %s: '%.60s' %s", reader->name, node->start_mark.line + 1,
			 reader->section, name, why);
}

/* ---- values ---- */

static int copy_text(struct reader *reader, const char *text, const char **ret)
{
	*ret = arena_strndup(&reader->config->arena, text, strlen(text));
	return *ret ? 0 : error_nomem(reader->err);
}

static int read_kind(struct reader *reader, const yaml_node_t *node)
{
	const char *text = yaml_scalar(node);
	for (int i = 0; i < EXPORT_KINDS && text; i++) {
		if (strcmp(text, export_kind_names[i]) == 0) {
			reader->target->kind = (enum export_kind)i;
			return 0;
		}
	}
	return bad(reader, node, "kind", "is not one of wick, otlp-grpc, otlp-http, pyroscope, parca");
}

static int read_headers(struct reader *reader, const yaml_node_t *node)
{
	struct export_header *headers = arena_zalloc(&reader->config->arena, LIST_MAX * sizeof(*headers));
	size_t count = 0;
	if (!headers)
		return error_nomem(reader->err);
	if (node->type != YAML_MAPPING_NODE)
		return bad(reader, node, "headers", "must be `name: value` lines");
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++, count++) {
		const char *name = yaml_scalar(yaml_document_get_node(reader->document, pair->key));
		const char *value = yaml_scalar(yaml_document_get_node(reader->document, pair->value));
		if (!name || !value || count == LIST_MAX)
			return bad(reader, node, "headers", "must be at most 32 names with a single value each");
		int r = copy_text(reader, name, &headers[count].name);
		if (r == 0)
			r = copy_text(reader, value, &headers[count].value);
		if (r < 0)
			return r;
	}
	reader->target->headers = headers;
	reader->target->header_count = count;
	return 0;
}

static int read_drops(struct reader *reader, const yaml_node_t *node)
{
	const char **names = arena_zalloc(&reader->config->arena, LIST_MAX * sizeof(*names));
	size_t count = 0;
	if (!names)
		return error_nomem(reader->err);
	if (node->type != YAML_SEQUENCE_NODE)
		return bad(reader, node, "drop_labels", "must be a list: [name, name]");
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top; item++, count++) {
		const char *name = yaml_scalar(yaml_document_get_node(reader->document, *item));
		if (!name || count == LIST_MAX)
			return bad(reader, node, "drop_labels", "must be a list of at most 32 names");
		int r = copy_text(reader, name, &names[count]);
		if (r < 0)
			return r;
	}
	reader->target->drop_labels = names;
	reader->target->drop_label_count = count;
	return 0;
}

/* ---- a target ---- */

enum value_kind { VALUE_TEXT, VALUE_FLAG, VALUE_NOT, VALUE_SIZE, VALUE_DURATION, VALUE_CUSTOM };
static const struct setting {
	const char *name; /* "spool.size": size in a mapping under spool, or this name as it is */
	enum value_kind kind;
	size_t offset;
	int (*read)(struct reader *reader, const yaml_node_t *node); /* CUSTOM */
} settings[] = {
#define SETTING(name, kind, member)                                                                                            \
	{                                                                                                                      \
		name, kind, offsetof(struct export_target, member)                                                             \
	}
	{"kind", VALUE_CUSTOM, .read = read_kind},
	{"headers", VALUE_CUSTOM, .read = read_headers},
	{"drop_labels", VALUE_CUSTOM, .read = read_drops},
	SETTING("url", VALUE_TEXT, url),
	SETTING("name", VALUE_TEXT, name),
	SETTING("token_file", VALUE_TEXT, token_file),
	SETTING("basic_auth.username", VALUE_TEXT, username),
	SETTING("basic_auth.password_file", VALUE_TEXT, password_file),
	SETTING("tenant", VALUE_TEXT, tenant),
	SETTING("tls.ca_file", VALUE_TEXT, ca_file),
	SETTING("tls.cert_file", VALUE_TEXT, cert_file),
	SETTING("tls.key_file", VALUE_TEXT, key_file),
	SETTING("tls.server_name", VALUE_TEXT, server_name),
	SETTING("tls.insecure_skip_verify", VALUE_FLAG, insecure_skip_verify),
	SETTING("compression", VALUE_NOT, no_compression),
	SETTING("timeout", VALUE_DURATION, timeout_ns),
	SETTING("retry_max", VALUE_DURATION, retry_max_ns),
	SETTING("spool.size", VALUE_SIZE, spool_bytes),
	SETTING("spool.age", VALUE_DURATION, spool_age_ns),
	SETTING("symbolize", VALUE_FLAG, symbolize),
	SETTING(SELECTOR_NAME, VALUE_TEXT, selector),
};
#define SETTING_COUNT (sizeof(settings) / sizeof(*settings))

static int set_value(struct reader *reader, const struct setting *setting, const yaml_node_t *node)
{
	void *target = (char *)reader->target + setting->offset;
	const char *text = yaml_scalar(node);
	if (setting->kind == VALUE_CUSTOM)
		return setting->read(reader, node);
	if (!text || !*text)
		return bad(reader, node, setting->name, "needs a single value");
	switch (setting->kind) {
	case VALUE_CUSTOM: break;
	case VALUE_TEXT: return copy_text(reader, text, target);
	case VALUE_FLAG:
	case VALUE_NOT:
		if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
			return bad(reader, node, setting->name, "must be true or false");
		*(bool *)target = (strcmp(text, "true") == 0) == (setting->kind == VALUE_FLAG);
		return 0;
	case VALUE_SIZE:
		if (text_parse_size(text, target, NULL) < 0 || *(uint64_t *)target < SPOOL_SIZE_MIN)
			return bad(reader, node, setting->name, "must be a size of at least 1MiB");
		return 0;
	case VALUE_DURATION:
		if (time_parse_duration(text, target, NULL) < 0 || *(int64_t *)target < NS_PER_MS)
			return bad(reader, node, setting->name, "must be a duration, such as 30s");
		return 0;
	}
	return -EINVAL;
}

static bool is_group(const char *name)
{
	return strcmp(name, "basic_auth") == 0 || strcmp(name, "tls") == 0 || strcmp(name, "spool") == 0;
}

static int read_pairs(struct reader *reader, const yaml_node_t *node, const char *prefix, uint64_t *seen);

static int read_pair(struct reader *reader, const yaml_node_t *key, const yaml_node_t *value, const char *name, uint64_t *seen)
{
	size_t i = 0;
	if (is_group(name) && value->type == YAML_MAPPING_NODE)
		return read_pairs(reader, value, name, seen);
	while (i < SETTING_COUNT && strcmp(settings[i].name, name) != 0)
		i++;
	if (i == SETTING_COUNT || (!reader->with_selector && strcmp(name, SELECTOR_NAME) == 0))
		return bad(reader, key, name, "is not a setting of a target; see docs/export.md");
	if (*seen & 1ull << i)
		return bad(reader, key, name, "is set twice");
	*seen |= 1ull << i;
	return set_value(reader, &settings[i], value);
}

static int read_pairs(struct reader *reader, const yaml_node_t *node, const char *prefix, uint64_t *seen)
{
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		char name[64];
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const char *text = yaml_scalar(key);
		if (!text || snprintf(name, sizeof(name), "%s%s%s", prefix, *prefix ? "." : "", text) >= (int)sizeof(name))
			return bad(reader, key, text ? text : "a name", "is not a setting of a target");
		/* One level only: aliases cannot make the document larger than it is written. */
		const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
		if (*prefix && value->type == YAML_MAPPING_NODE)
			return bad(reader, value, name, "needs a single value");
		int r = read_pair(reader, key, value, name, seen);
		if (r < 0)
			return r;
	}
	return 0;
}

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
	return *ret_why ? -EINVAL : 0;
}

static int read_target(struct reader *reader, const yaml_node_t *node)
{
	struct export_config *config = reader->config;
	uint64_t seen = 0;
	const char *why;
	if (config->count == EXPORT_TARGETS_MAX)
		return bad(reader, node, reader->section, "has more than 16 targets");
	if (node->type != YAML_MAPPING_NODE)
		return bad(reader, node, reader->section, "must be a list of targets, each after a '-'");
	reader->target = &config->targets[config->count];
	*reader->target = (struct export_target){.kind = EXPORT_KINDS};
	int r = read_pairs(reader, node, "", &seen);
	if (r < 0)
		return r;
	if (reader->target->kind == EXPORT_KINDS)
		return bad(reader, node, reader->section, "has a target without a kind");
	if (check_target(reader->target, &why) < 0)
		return bad(reader, node, export_kind_names[reader->target->kind], why);
	/* Pyroscope shows names only. */
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (strcmp(settings[i].name, "symbolize") == 0 && !(seen & 1ull << i))
			reader->target->symbolize = reader->target->kind == EXPORT_PYROSCOPE;
	config->count++;
	return 0;
}

/* ---- the section ---- */

static int read_section(struct reader *reader, const yaml_node_t *node)
{
	int r = 0;
	if (node->type != YAML_SEQUENCE_NODE)
		return bad(reader, node, reader->section, "must be a list of targets, each after a '-'");
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top && r == 0; item++)
		r = read_target(reader, yaml_document_get_node(reader->document, *item));
	return r;
}

static int read_document(struct reader *reader)
{
	const yaml_node_t *root = yaml_document_get_root_node(reader->document);
	if (!root || root->type != YAML_MAPPING_NODE)
		return 0;
	const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
	for (; pair < root->data.mapping.pairs.top; pair++) {
		const char *key = yaml_scalar(yaml_document_get_node(reader->document, pair->key));
		if (key && strcmp(key, reader->section) == 0)
			return read_section(reader, yaml_document_get_node(reader->document, pair->value));
	}
	return 0;
}

static void init(struct export_config *config)
{
	*config = (struct export_config){0};
	arena_init(&config->arena, ARENA_BYTES_MAX);
}

int export_config_parse(struct bytes text, const char *name, const char *section, bool with_selector, struct export_config *ret,
			struct error *err)
{
	yaml_document_t document;

	init(ret);
	int r = text.len ? yaml_load(text, name, -EINVAL, &document, err) : 0;
	if (r < 0 || !text.len)
		return r;
	struct reader reader = {ret, NULL, &document, name, section, with_selector, err};
	r = read_document(&reader);
	yaml_document_delete(&document);
	return r;
}

int export_config_add(struct export_config *config, const char *text, struct error *err)
{
	const char *equals = strchr(text, '='), *why;
	if (!config->arena.max_bytes)
		arena_init(&config->arena, ARENA_BYTES_MAX);
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
