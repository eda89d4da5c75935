/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's configuration file: YAML, one level of `name: value`, or a name with a mapping under it (`retention: {age: 30d}`
 * is `retention.age`). Every value is a scalar. A name that is not known is an error, because a setting that is silently
 * ignored is worse than none.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/time.h"
#include "server/server.h"

#define CONFIG_BYTES_MAX (256 * KIB)

struct server_config_text {
	struct arena arena;
};

struct config_reader {
	struct server_options *options;
	struct server_config_text *text;
	const char *path;
	struct error *err;
};

static int parse_bool(const char *value, bool *ret, struct error *err)
{
	if (strcmp(value, "true") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "on") == 0)
		*ret = true;
	else if (strcmp(value, "false") == 0 || strcmp(value, "no") == 0 || strcmp(value, "off") == 0)
		*ret = false;
	else
		return error_set(err, -EINVAL, "'%.60s' is neither true nor false", value);
	return 0;
}

static int config_string(struct config_reader *reader, const char *value, const char **ret)
{
	*ret = arena_strndup(&reader->text->arena, value, strlen(value));
	return *ret ? 0 : error_nomem(reader->err);
}

static int config_size(const char *value, uint64_t *ret, struct error *err)
{
	int r = text_parse_size(value, ret, err);
	return r ? r : *ret == 0 ? error_set(err, -EINVAL, "must be more than 0") : 0;
}

static int config_duration(const char *value, int64_t *ret, struct error *err)
{
	if (strcmp(value, "forever") == 0) {
		*ret = -1;
		return 0;
	}
	int r = time_parse_duration(value, ret, err);
	return r ? r : *ret <= 0 ? error_set(err, -EINVAL, "must be more than 0") : 0;
}

static int config_set(struct config_reader *reader, const char *name, const char *value)
{
	struct server_options *options = reader->options;
	struct error *err = reader->err;
	bool flag = false;
	int r;
	if (strcmp(name, "data") == 0)
		return config_string(reader, value, &options->data_directory);
	if (strcmp(name, "listen") == 0)
		return config_string(reader, value, &options->listen);
	if (strcmp(name, "token") == 0)
		return config_string(reader, value, &options->token);
	if (strcmp(name, "insecure") == 0)
		return parse_bool(value, &options->insecure, err);
	if (strcmp(name, "host_files") == 0) {
		r = parse_bool(value, &flag, err);
		options->no_host_files = !flag;
		return r;
	}
	if (strcmp(name, "retention.age") == 0)
		return config_duration(value, &options->retention_age_ns, err);
	if (strcmp(name, "retention.size") == 0)
		return config_size(value, &options->retention_size_bytes, err);
	if (strcmp(name, "head.size") == 0)
		return config_size(value, &options->head_size_bytes, err);
	if (strcmp(name, "cut.age") == 0)
		return strcmp(value, "forever") == 0 ? error_set(err, -EINVAL, "must be a duration")
						     : config_duration(value, &options->cut_age_ns, err);
	if (strcmp(name, "body.max") == 0)
		return config_size(value, &options->body_bytes_max, err);
	return error_set(err, -EINVAL, "unknown setting; see wick-server(1) for those there are");
}

static int config_scalar(struct config_reader *reader, const char *prefix, const yaml_node_t *key, const yaml_node_t *value)
{
	char name[128];
	if (key->type != YAML_SCALAR_NODE)
		return error_set(reader->err, -EINVAL, "%s: line %zu: a setting's name must be plain text", reader->path,
				 key->start_mark.line + 1);
	snprintf(name, sizeof(name), "%s%s", prefix, (const char *)key->data.scalar.value);
	if (value->type != YAML_SCALAR_NODE)
		return error_set(reader->err, -EINVAL, "%s: line %zu: '%s' must be a single value", reader->path,
				 value->start_mark.line + 1, name);
	int r = config_set(reader, name, (const char *)value->data.scalar.value);
	return r ? error_prefix(reader->err, r, "%s: line %zu: '%s'", reader->path, key->start_mark.line + 1, name) : 0;
}

static int config_mapping(struct config_reader *reader, yaml_document_t *document, const char *prefix, const yaml_node_t *node)
{
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		yaml_node_t *key = yaml_document_get_node(document, pair->key),
			    *value = yaml_document_get_node(document, pair->value);
		int r;
		if (!*prefix && value->type == YAML_MAPPING_NODE && key->type == YAML_SCALAR_NODE) {
			char inner[128];
			snprintf(inner, sizeof(inner), "%.100s.", (const char *)key->data.scalar.value);
			r = config_mapping(reader, document, inner, value);
		} else {
			r = config_scalar(reader, prefix, key, value);
		}
		if (r)
			return r;
	}
	return 0;
}

static int config_parse(struct config_reader *reader, struct bytes input)
{
	yaml_parser_t parser;
	yaml_document_t document;
	if (!yaml_parser_initialize(&parser))
		return error_nomem(reader->err);
	yaml_parser_set_input_string(&parser, input.data, input.len);
	if (!yaml_parser_load(&parser, &document)) {
		int r = error_set(reader->err, -EINVAL, "%s: line %zu: %s", reader->path, parser.problem_mark.line + 1,
				  parser.problem ? parser.problem : "not YAML");
		yaml_parser_delete(&parser);
		return r;
	}
	yaml_node_t *root = yaml_document_get_root_node(&document);
	int r = 0;
	if (root && root->type == YAML_MAPPING_NODE)
		r = config_mapping(reader, &document, "", root);
	else if (root)
		r = error_set(reader->err, -EINVAL, "%s: expected `name: value` lines", reader->path);
	yaml_document_delete(&document);
	yaml_parser_delete(&parser);
	return r;
}

int server_options_load(struct server_options *options, const char *path, struct server_config_text **ret_text,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer file;
	buffer_init(&file, CONFIG_BYTES_MAX);
	int r = io_read_file(path, CONFIG_BYTES_MAX, &file, err);
	if (r)
		return r;
	_cleanup_(server_config_text_freep) struct server_config_text *text = mem_zalloc(sizeof(*text));
	if (!text)
		return error_nomem(err);
	arena_init(&text->arena, CONFIG_BYTES_MAX);
	struct config_reader reader = {.options = options, .text = text, .path = path, .err = err};
	r = config_parse(&reader, buffer_bytes(&file));
	if (r)
		return r;
	*ret_text = text;
	text = NULL;
	return 0;
}

struct server_config_text *server_config_text_free(struct server_config_text *text)
{
	if (!text)
		return NULL;
	arena_release(&text->arena);
	return mem_free(text);
}
