// SPDX-License-Identifier: Apache-2.0
/*
 * A name that is not known is an error, and so is one that stands twice: a setting that is silently ignored is worse than none.
 */
#include "agent/config.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/agent.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/yaml_fields.h"

#define CONFIG_BYTES_MAX (256 * KIB)

/* ---- relabel_configs ---- */

static int read_rules(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct agent_config *config = object;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, "relabel_configs", "must be a list of rules, each after a '-'");
	int r = relabel_new(&config->relabel, reader->err);
	return r < 0 ? r : yaml_read_list(reader, node, "relabel_configs", relabel_read_rule, &config->relabel);
}

/* ---- the whole ---- */

static int read_pairs(struct yaml_reader *reader, const yaml_node_t *node, const char *setting, struct labels *ret)
{
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(reader, node, setting, "must be `name: value` lines");
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const char *name = yaml_scalar(key),
			   *value = yaml_scalar(yaml_document_get_node(reader->document, pair->value));
		if (!name || !value || !*value)
			return yaml_fault(reader, key, name ? name : setting, "must be a name with a single value");
		if (labels_get(ret, name))
			return yaml_fault(reader, key, name, "is set twice");
		int r = labels_set(ret, name, value, reader->err);
		if (r < 0)
			return error_prefix(reader->err, r, "%s: line %zu: %s", reader->file, key->start_mark.line + 1,
					    setting);
	}
	return 0;
}

static int read_labels(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	return read_pairs(reader, node, "labels", &((struct agent_config *)object)->labels);
}

static int read_host_labels(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	return read_pairs(reader, node, "host_labels", &((struct agent_config *)object)->host_labels);
}

static int read_event(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct agent_config *config = object;
	int r = yaml_read_text(reader, node, "event", &config->event);
	if (r == 0 && !*config->event)
		return yaml_fault(reader, node, "event", "has no value");
	if (r == 0 && strcmp(config->event, "cpu-clock") != 0 && strcmp(config->event, "cycles") != 0)
		return yaml_fault(reader, node, "event", "must be cpu-clock or cycles");
	return r;
}

static int read_runtimes(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct agent_config *config = object;
	int r = yaml_read_text(reader, node, "runtimes", &config->runtimes);
	struct error why = {0};
	uint32_t kinds;
	if (r == 0 && agent_parse_runtimes(config->runtimes, &kinds, &why) < 0)
		return yaml_fault(reader, node, "runtimes", why.message);
	return r;
}

static int read_spool_age(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	int64_t *age_ns = object;
	const char *text = yaml_scalar(node);
	if (!text || time_parse_duration(text, age_ns, NULL) < 0 || *age_ns < NS_PER_S)
		return yaml_fault(reader, node, "age", "must be a duration of at least a second, such as 24h");
	return 0;
}

static int pass_over(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	return 0;
}

#define SETTING(name, kind, member, ...) YAML_FIELD(struct agent_config, name, kind, member, ##__VA_ARGS__)
static const struct yaml_field debuginfo_fields[] = {
	SETTING("upload", NOT, no_debuginfo_upload),
	SETTING("rate", SIZE, debuginfo_rate, .least = AGENT_DEBUGINFO_RATE_MIN),
	SETTING("file_size", SIZE, debuginfo_file_bytes_max, .least = 1),
	{0},
};
static const struct yaml_field spool_fields[] = {
	SETTING("directory", TEXT, spool_directory),
	SETTING("size", SIZE, spool_bytes, .least = AGENT_SPOOL_BYTES_MIN),
	SETTING("age", CUSTOM, spool_age_ns, read_spool_age),
	{0},
};
static const struct yaml_field settings[] = {
	SETTING("server", TEXT, server),
	SETTING("token_file", TEXT, token_file),
	SETTING("tenant", TEXT, tenant),
	SETTING("listen", TEXT, listen),
	SETTING("user", TEXT, user),
	SETTING("sandbox", NOT, no_sandbox),
	YAML_CUSTOM("event", read_event),
	YAML_CUSTOM("runtimes", read_runtimes),
	SETTING("frequency", COUNT, frequency_hz, .least = 1, .most = 10000),
	SETTING("min_frequency", COUNT, frequency_least_hz, .least = 1, .most = 10000),
	YAML_CUSTOM("labels", read_labels),
	YAML_CUSTOM("host_labels", read_host_labels),
	SETTING("process_stats", NOT, no_process_stats),
	SETTING("remote_record", NOT, no_remote_record),
	{"debuginfo", YAML_FIELD_FIELDS, .fields = debuginfo_fields},
	{"spool", YAML_FIELD_FIELDS, .fields = spool_fields},
	YAML_CUSTOM("export", pass_over), /* another's: see agent_config.text */
	YAML_CUSTOM("relabel_configs", read_rules),
	SETTING("markers", TRUE, markers),
	{0},
};

int agent_config_parse(struct bytes text, const char *name, struct agent_config *ret, struct error *err)
{
	yaml_document_t document;

	*ret = (struct agent_config){.arena.max_bytes = 2 * CONFIG_BYTES_MAX};
	int r = yaml_load(text, name, -EINVAL, &document, err);
	if (r < 0)
		return r;
	struct yaml_reader reader = {&document, name, &ret->arena, err, .manual = "wick-agent(1)", .suggests = true};
	const yaml_node_t *root = yaml_document_get_root_node(&document);
	bool is_empty = !root || (root->type == YAML_SCALAR_NODE && !root->data.scalar.length);
	if (!is_empty && root->type != YAML_MAPPING_NODE)
		r = error_set(err, -EINVAL, "%s: expected `name: value` lines", name);
	else if (!is_empty)
		r = yaml_read_fields(&reader, root, settings, ret);
	yaml_document_delete(&document);
	return r;
}

int agent_config_load(const char *path, struct agent_config *ret, struct error *err)
{
	struct buffer file = {.max = CONFIG_BYTES_MAX};

	*ret = (struct agent_config){0};
	int r = io_read_file(path, CONFIG_BYTES_MAX, &file, err);
	if (r == 0)
		r = agent_config_parse(buffer_bytes(&file), path, ret, err);
	ret->text = file;
	return r;
}

void agent_config_release(struct agent_config *config)
{
	labels_release(&config->labels);
	labels_release(&config->host_labels);
	config->relabel = relabel_free(config->relabel);
	arena_release(&config->arena);
	buffer_release(&config->text);
}
