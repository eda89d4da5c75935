// SPDX-License-Identifier: Apache-2.0
/*
 * A name that is not known is an error, and so is one that stands twice: a setting that is silently ignored is worse than none.
 * The document is walked to a fixed depth, so aliases cannot make it larger than it is written.
 */
#include "agent/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "base/time.h"

#define CONFIG_BYTES_MAX (256 * KIB)

struct reader {
	struct agent_config *config;
	yaml_document_t *document;
	const char *name;
	struct error *err;
};

/* ---- nodes ---- */

static size_t line_of(const yaml_node_t *node)
{
	return node->start_mark.line + 1;
}

static const char *scalar(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

static bool is_scalar(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE && strlen(scalar(node)) == node->data.scalar.length;
}

static int bad(struct reader *reader, const yaml_node_t *node, const char *name, const char *why)
{
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' %s", reader->name, line_of(node), name, why);
}

/* The scalar's text, copied; fails if it is none, or empty where that means nothing. */
static int get_text(struct reader *reader, const char *name, const yaml_node_t *node, bool may_be_empty, const char **ret)
{
	if (!is_scalar(node))
		return bad(reader, node, name, "must be a single value");
	if (!may_be_empty && !*scalar(node))
		return bad(reader, node, name, "has no value");
	*ret = arena_strndup(&reader->config->arena, scalar(node), strlen(scalar(node)));
	return *ret ? 0 : error_nomem(reader->err);
}

static int get_number(struct reader *reader, const char *name, const yaml_node_t *node, uint64_t least, uint64_t most,
		      uint64_t *ret)
{
	if (!is_scalar(node) || text_parse_u64(scalar(node), ret, NULL) < 0 || *ret < least || *ret > most)
		return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' must be a whole number from %llu to %llu",
				 reader->name, line_of(node), name, (unsigned long long)least, (unsigned long long)most);
	return 0;
}

static int get_flag(struct reader *reader, const char *name, const yaml_node_t *node, bool *ret)
{
	bool yes = is_scalar(node) && strcmp(scalar(node), "true") == 0;

	if (!yes && !(is_scalar(node) && strcmp(scalar(node), "false") == 0))
		return bad(reader, node, name, "must be true or false");
	*ret = yes;
	return 0;
}

static int get_size(struct reader *reader, const char *name, const yaml_node_t *node, uint64_t least, uint64_t *ret)
{
	char text[TEXT_NUMBER_MAX];

	if (!is_scalar(node) || text_parse_size(scalar(node), ret, NULL) < 0 || *ret < least)
		return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' must be a size of at least %s, such as 1MiB",
				 reader->name, line_of(node), name, text_format_size(least, text));
	return 0;
}

/* ---- names ---- */

#define NAME_MAX_BYTES 32u

/* How many letters must be put in, taken out or changed. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_MAX_BYTES + 1];
	size_t len = strlen(b);

	if (len > NAME_MAX_BYTES || strlen(a) > NAME_MAX_BYTES)
		return NAME_MAX_BYTES;
	for (size_t i = 0; i <= len; i++)
		row[i] = (unsigned)i;
	for (; *a; a++) {
		unsigned diagonal = row[0]++;
		for (size_t i = 1; i <= len; i++) {
			unsigned best = diagonal + (*a != b[i - 1]);
			diagonal = row[i];
			if (row[i] + 1 < best)
				best = row[i] + 1;
			if (row[i - 1] + 1 < best)
				best = row[i - 1] + 1;
			row[i] = best;
		}
	}
	return row[len];
}

static int unknown(struct reader *reader, const yaml_node_t *key, const char *const *names)
{
	const char *nearest = NULL, *text = scalar(key);
	unsigned least = (unsigned)strlen(text) / 3 + 2;

	for (; *names; names++) {
		unsigned now = distance(text, *names);
		if (now < least) {
			least = now;
			nearest = *names;
		}
	}
	if (!nearest)
		return bad(reader, key, text, "is not a setting; see wick-agent(1)");
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' is not a setting; did you mean '%s'?", reader->name,
			 line_of(key), text, nearest);
}

/* Calls set() for each pair of a mapping with the name's place in names, which ends with NULL. */
static int read_mapping(struct reader *reader, const yaml_node_t *mapping, const char *const *names,
			int (*set)(struct reader *reader, size_t which, const yaml_node_t *value, void *context), void *context)
{
	uint64_t seen = 0;
	const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;

	for (; pair < mapping->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
		size_t which = 0;
		if (!is_scalar(key))
			return error_set(reader->err, -EINVAL, "%s: line %zu: a setting's name must be plain text",
					 reader->name, line_of(key));
		while (names[which] && strcmp(names[which], scalar(key)) != 0)
			which++;
		if (!names[which])
			return unknown(reader, key, names);
		if (seen & 1ull << which)
			return bad(reader, key, scalar(key), "is set twice");
		seen |= 1ull << which;
		int r = set(reader, which, value, context);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- relabel_configs ---- */

enum { RULE_SOURCES, RULE_SEPARATOR, RULE_TARGET, RULE_REGEX, RULE_MODULUS, RULE_REPLACEMENT, RULE_ACTION };
static const char *const rule_names[] = {"source_labels", "separator",	 "target_label", "regex",
					 "modulus",	  "replacement", "action",	 NULL};

static int read_sources(struct reader *reader, const yaml_node_t *node, struct relabel_rule *rule)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return bad(reader, node, "source_labels", "must be a list: [name, name]");
	rule->has_sources = true;
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top; item++) {
		if (rule->source_count == RELABEL_SOURCES_MAX)
			return bad(reader, node, "source_labels", "has too many names");
		int r = get_text(reader, "source_labels", yaml_document_get_node(reader->document, *item), false,
				 &rule->source_labels[rule->source_count]);
		if (r < 0)
			return r;
		rule->source_count++;
	}
	return 0;
}

static int set_rule(struct reader *reader, size_t which, const yaml_node_t *value, void *context)
{
	struct relabel_rule *rule = context;
	const char *name = rule_names[which];

	switch (which) {
	case RULE_SOURCES: return read_sources(reader, value, rule);
	case RULE_SEPARATOR: return get_text(reader, name, value, true, &rule->separator);
	case RULE_TARGET: return get_text(reader, name, value, false, &rule->target_label);
	case RULE_REGEX: return get_text(reader, name, value, true, &rule->regex);
	case RULE_MODULUS: return get_number(reader, name, value, 1, UINT64_MAX, &rule->modulus);
	case RULE_REPLACEMENT: return get_text(reader, name, value, true, &rule->replacement);
	default: return get_text(reader, name, value, false, &rule->action);
	}
}

static int read_rules(struct reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return bad(reader, node, "relabel_configs", "must be a list of rules, each after a '-'");
	int r = relabel_new(&reader->config->relabel, reader->err);
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top && r == 0; item++) {
		const yaml_node_t *each = yaml_document_get_node(reader->document, *item);
		struct relabel_rule rule = {0};
		if (each->type != YAML_MAPPING_NODE)
			return bad(reader, each, "relabel_configs", "must be a list of `name: value` lines");
		r = read_mapping(reader, each, rule_names, set_rule, &rule);
		if (r < 0)
			return r;
		r = relabel_add(reader->config->relabel, &rule, reader->err);
		if (r < 0)
			error_prefix(reader->err, r, "%s: line %zu: relabel_configs", reader->name, line_of(each));
	}
	return r;
}

/* ---- the whole ---- */

static int read_labels(struct reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_MAPPING_NODE)
		return bad(reader, node, "labels", "must be `name: value` lines");
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const yaml_node_t *value = yaml_document_get_node(reader->document, pair->value);
		if (!is_scalar(key) || !is_scalar(value) || !*scalar(value))
			return bad(reader, key, is_scalar(key) ? scalar(key) : "labels", "must be a name with a single value");
		if (labels_get(&reader->config->labels, scalar(key)))
			return bad(reader, key, scalar(key), "is set twice");
		int r = labels_set(&reader->config->labels, scalar(key), scalar(value), reader->err);
		if (r < 0)
			return error_prefix(reader->err, r, "%s: line %zu: labels", reader->name, line_of(key));
	}
	return 0;
}

enum { DEBUGINFO_UPLOAD, DEBUGINFO_RATE, DEBUGINFO_FILE_SIZE };
static const char *const debuginfo_names[] = {"upload", "rate", "file_size", NULL};

static int set_debuginfo(struct reader *reader, size_t which, const yaml_node_t *value, void *context)
{
	struct agent_config *config = reader->config;
	const char *name = debuginfo_names[which];
	bool flag = false;
	int r = 0;

	(void)context;
	switch (which) {
	case DEBUGINFO_UPLOAD:
		r = get_flag(reader, name, value, &flag);
		config->no_debuginfo_upload = !flag;
		return r;
	case DEBUGINFO_RATE: return get_size(reader, name, value, AGENT_DEBUGINFO_RATE_MIN, &config->debuginfo_rate);
	default: return get_size(reader, name, value, 1, &config->debuginfo_file_bytes_max);
	}
}

static int read_debuginfo(struct reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_MAPPING_NODE)
		return bad(reader, node, "debuginfo", "must be `name: value` lines");
	return read_mapping(reader, node, debuginfo_names, set_debuginfo, NULL);
}

enum { SPOOL_DIRECTORY, SPOOL_SIZE, SPOOL_AGE };
static const char *const spool_names[] = {"directory", "size", "age", NULL};

static int set_spool(struct reader *reader, size_t which, const yaml_node_t *value, void *context)
{
	struct agent_config *config = reader->config;
	const char *name = spool_names[which];

	(void)context;
	switch (which) {
	case SPOOL_DIRECTORY: return get_text(reader, name, value, false, &config->spool_directory);
	case SPOOL_SIZE: return get_size(reader, name, value, AGENT_SPOOL_BYTES_MIN, &config->spool_bytes);
	default:
		if (!is_scalar(value) || time_parse_duration(scalar(value), &config->spool_age_ns, NULL) < 0 ||
		    config->spool_age_ns < NS_PER_S)
			return bad(reader, value, name, "must be a duration of at least a second, such as 24h");
		return 0;
	}
}

static int read_spool(struct reader *reader, const yaml_node_t *node)
{
	if (node->type != YAML_MAPPING_NODE)
		return bad(reader, node, "spool", "must be `name: value` lines");
	return read_mapping(reader, node, spool_names, set_spool, NULL);
}

enum {
	SETTING_SERVER,
	SETTING_TOKEN_FILE,
	SETTING_TENANT,
	SETTING_EVENT,
	SETTING_FREQUENCY,
	SETTING_LABELS,
	SETTING_PROCESS_STATS,
	SETTING_REMOTE_RECORD,
	SETTING_DEBUGINFO,
	SETTING_SPOOL,
	SETTING_EXPORT,
	SETTING_RULES,
	SETTING_MARKERS,
};
static const char *const setting_names[] = {"server", "token_file",	 "tenant",	  "event",     "frequency",
					    "labels", "process_stats",	 "remote_record", "debuginfo", "spool",
					    "export", "relabel_configs", "markers",	  NULL};

static int set_setting(struct reader *reader, size_t which, const yaml_node_t *value, void *context)
{
	struct agent_config *config = reader->config;
	const char *name = setting_names[which];
	uint64_t number = 0;
	bool flag = false;
	int r = 0;

	(void)context;
	switch (which) {
	case SETTING_SERVER: return get_text(reader, name, value, false, &config->server);
	case SETTING_TOKEN_FILE: return get_text(reader, name, value, false, &config->token_file);
	case SETTING_TENANT: return get_text(reader, name, value, false, &config->tenant);
	case SETTING_EVENT:
		r = get_text(reader, name, value, false, &config->event);
		if (r == 0 && strcmp(config->event, "cpu-clock") != 0 && strcmp(config->event, "cycles") != 0)
			return bad(reader, value, name, "must be cpu-clock or cycles");
		return r;
	case SETTING_FREQUENCY:
		r = get_number(reader, name, value, 1, 10000, &number);
		config->frequency_hz = (unsigned)number;
		return r;
	case SETTING_LABELS: return read_labels(reader, value);
	case SETTING_PROCESS_STATS:
		r = get_flag(reader, name, value, &flag);
		config->no_process_stats = !flag;
		return r;
	case SETTING_REMOTE_RECORD:
		r = get_flag(reader, name, value, &flag);
		config->no_remote_record = !flag;
		return r;
	case SETTING_MARKERS: return get_flag(reader, name, value, &config->markers);
	case SETTING_DEBUGINFO: return read_debuginfo(reader, value);
	case SETTING_SPOOL: return read_spool(reader, value);
	case SETTING_EXPORT: return 0; /* another's: see agent_config.text */
	default: return read_rules(reader, value);
	}
}

static bool is_nothing(const yaml_node_t *root)
{
	return !root || (root->type == YAML_SCALAR_NODE && !root->data.scalar.length);
}

int agent_config_parse(struct bytes text, const char *name, struct agent_config *ret, struct error *err)
{
	yaml_parser_t parser;
	yaml_document_t document;

	*ret = (struct agent_config){0};
	arena_init(&ret->arena, 2 * CONFIG_BYTES_MAX);
	labels_init(&ret->labels);
	if (!yaml_parser_initialize(&parser))
		return error_nomem(err);
	yaml_parser_set_input_string(&parser, text.data, text.len);
	if (!yaml_parser_load(&parser, &document)) {
		int r = error_set(err, -EINVAL, "%s: line %zu: %s", name, parser.problem_mark.line + 1,
				  parser.problem ? parser.problem : "not YAML");
		yaml_parser_delete(&parser);
		return r;
	}
	struct reader reader = {ret, &document, name, err};
	const yaml_node_t *root = yaml_document_get_root_node(&document);
	int r = 0;
	if (!is_nothing(root) && root->type != YAML_MAPPING_NODE)
		r = error_set(err, -EINVAL, "%s: expected `name: value` lines", name);
	else if (!is_nothing(root))
		r = read_mapping(&reader, root, setting_names, set_setting, NULL);
	yaml_document_delete(&document);
	yaml_parser_delete(&parser);
	return r;
}

int agent_config_load(const char *path, struct agent_config *ret, struct error *err)
{
	struct buffer file;

	*ret = (struct agent_config){0};
	buffer_init(&file, CONFIG_BYTES_MAX);
	int r = io_read_file(path, CONFIG_BYTES_MAX, &file, err);
	if (r == 0)
		r = agent_config_parse(buffer_bytes(&file), path, ret, err);
	ret->text = file;
	return r;
}

void agent_config_release(struct agent_config *config)
{
	labels_release(&config->labels);
	config->relabel = relabel_free(config->relabel);
	arena_release(&config->arena);
	buffer_release(&config->text);
}
