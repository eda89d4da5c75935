/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/yaml_fields.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/time.h"

#define HASH_NODES_MAX 100000u
#define HASH_DEPTH_MAX 64u
#define NAME_MAX_BYTES 32u

int yaml_load(struct bytes text, const char *file, int malformed, yaml_document_t *ret, struct error *err)
{
	yaml_parser_t parser;
	int r = 0;
	if (!yaml_parser_initialize(&parser))
		return error_nomem(err);
	/* It asserts that there is a text. */
	yaml_parser_set_input_string(&parser, text.len ? text.data : (const uint8_t *)"", text.len);
	if (!yaml_parser_load(&parser, ret))
		r = error_set(err, malformed, "%s: line %zu: %s", file, parser.problem_mark.line + 1,
			      parser.problem ? parser.problem : "not YAML");
	yaml_parser_delete(&parser);
	return r;
}

int yaml_fault(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *why)
{
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' %s", reader->file, node->start_mark.line + 1, what, why);
}

const char *yaml_scalar(const yaml_node_t *node)
{
	bool whole =
		node->type == YAML_SCALAR_NODE && strlen((const char *)node->data.scalar.value) == node->data.scalar.length;
	return whole ? (const char *)node->data.scalar.value : NULL;
}

int yaml_read_text(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char **ret)
{
	const char *text = yaml_scalar(node);
	if (!text)
		return yaml_fault(reader, node, what, "must be a single value");
	*ret = arena_strndup(reader->arena, text, strlen(text));
	return *ret ? 0 : error_nomem(reader->err);
}

static int read_flag(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, bool *ret)
{
	static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}};
	const char *text = yaml_scalar(node);
	bool is_strict = field->kind == YAML_FIELD_TRUE || field->kind == YAML_FIELD_NOT;
	for (size_t i = 0; text && i < (is_strict ? 1 : 3); i++) {
		bool is_true = strcmp(text, words[i][1]) == 0;
		if (!is_true && strcmp(text, words[i][0]) != 0)
			continue;
		*ret = is_true != (field->kind == YAML_FIELD_NOT || field->kind == YAML_FIELD_NOT_FLAG);
		return 0;
	}
	return yaml_fault(reader, node, field->name, "must be true or false");
}

static int read_size(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, uint64_t *ret)
{
	const char *text = yaml_scalar(node);
	char least[TEXT_NUMBER_MAX];
	if (!text && !field->least)
		return yaml_fault(reader, node, field->name, "must be a single value");
	if (text && text_parse_size(text, ret, NULL) == 0 && *ret > 0 && *ret >= field->least)
		return 0;
	if (!field->least)
		return yaml_fault(reader, node, field->name, "must be a size of more than 0, such as 16MiB");
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' must be a size of at least %s, such as 1MiB",
			 reader->file, node->start_mark.line + 1, field->name, text_format_size(field->least, least));
}

static int read_number(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, uint64_t *ret)
{
	const char *text = yaml_scalar(node);
	uint64_t least = field->least ? field->least : 1, most = field->most ? field->most : UINT32_MAX;
	if (!text && !field->least)
		return yaml_fault(reader, node, field->name, "must be a single value");
	if (text && text_parse_u64(text, ret, NULL) == 0 && *ret >= least && *ret <= most)
		return 0;
	if (!field->least)
		return yaml_fault(reader, node, field->name, "must be a whole number of more than 0");
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' must be a whole number from %llu to %llu", reader->file,
			 node->start_mark.line + 1, field->name, (unsigned long long)least, (unsigned long long)most);
}

static int read_duration(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, int64_t *ret)
{
	const char *text = yaml_scalar(node), *what = field->name;
	if (!text)
		return yaml_fault(reader, node, what, "must be a single value");
	if (field->never && strcmp(text, field->never) == 0)
		*ret = -1;
	else if (time_parse_duration(text, ret, NULL) < 0 || *ret <= 0)
		return yaml_fault(reader, node, what, "must be a time of more than 0, such as 15s");
	return 0;
}

int yaml_read_field(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, void *object)
{
	void *to = (char *)object + field->offset;
	uint64_t number = 0;
	int r;
	switch (field->kind) {
	case YAML_FIELD_TEXT:
	case YAML_FIELD_EMPTY_TEXT:
		r = yaml_read_text(reader, node, field->name, to);
		return r == 0 && field->kind == YAML_FIELD_TEXT && !**(const char **)to
			       ? yaml_fault(reader, node, field->name, "has no value")
			       : r;
	case YAML_FIELD_FLAG:
	case YAML_FIELD_TRUE:
	case YAML_FIELD_NOT:
	case YAML_FIELD_NOT_FLAG: return read_flag(reader, node, field, to);
	case YAML_FIELD_DURATION: return read_duration(reader, node, field, to);
	case YAML_FIELD_SIZE: return read_size(reader, node, field, to);
	case YAML_FIELD_NUMBER: return read_number(reader, node, field, to);
	case YAML_FIELD_COUNT:
		r = read_number(reader, node, field, &number);
		*(unsigned *)to = (unsigned)number;
		return r;
	case YAML_FIELD_FIELDS:
		return node->type == YAML_MAPPING_NODE ? yaml_read_fields(reader, node, field->fields, to)
						       : yaml_fault(reader, node, field->name, "must be `name: value` lines");
	case YAML_FIELD_LIST: return yaml_read_list(reader, node, field->name, field->read, to);
	case YAML_FIELD_NAMES: return yaml_read_names(reader, node, field->name, field->read_name, to);
	case YAML_FIELD_CUSTOM: return field->read(reader, node, to);
	}
	return -EINVAL;
}

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

static int unknown_name(struct yaml_reader *reader, const yaml_node_t *key, const char *name, const struct yaml_field *fields)
{
	const char *nearest = NULL;
	unsigned least = (unsigned)strlen(name) / 3 + 2;
	for (; reader->suggests && fields->name; fields++) {
		unsigned now = distance(name, fields->name);
		if (now < least) {
			least = now;
			nearest = fields->name;
		}
	}
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' is not a setting; %s%s%s", reader->file,
			 key->start_mark.line + 1, name, nearest ? "did you mean '" : "see ",
			 nearest ? nearest : reader->manual, nearest ? "'?" : "");
}

int yaml_read_fields(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *fields, void *object)
{
	uint64_t seen = 0;
	if (node->type != YAML_MAPPING_NODE)
		return error_set(reader->err, -EINVAL, "%s: line %zu: expected `name: value` lines", reader->file,
				 node->start_mark.line + 1);
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const char *name = yaml_scalar(key);
		size_t which = 0;
		if (!name)
			return error_set(reader->err, -EINVAL, "%s: line %zu: a setting's name must be plain text",
					 reader->file, key->start_mark.line + 1);
		while (fields[which].name && strcmp(fields[which].name, name) != 0)
			which++;
		if (!fields[which].name)
			return unknown_name(reader, key, name, fields);
		if (seen & 1ull << which)
			return yaml_fault(reader, key, name, "is set twice");
		seen |= 1ull << which;
		int r = yaml_read_field(reader, yaml_document_get_node(reader->document, pair->value), &fields[which], object);
		if (r < 0)
			return r;
	}
	return 0;
}

int yaml_read_list(struct yaml_reader *reader, const yaml_node_t *node, const char *what, yaml_read_function read, void *object)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, what, "must be a list");
	const yaml_node_item_t *item = node->data.sequence.items.start;
	int r = 0;
	for (; item < node->data.sequence.items.top && r == 0; item++)
		r = read(reader, yaml_document_get_node(reader->document, *item), object);
	return r;
}

int yaml_read_names(struct yaml_reader *reader, const yaml_node_t *node, const char *what, yaml_name_function read,
		    void *object)
{
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(reader, node, what, "must be `name: value` lines");
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	int r = 0;
	for (; pair < node->data.mapping.pairs.top && r == 0; pair++) {
		const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
		const char *name;
		r = yaml_read_text(reader, key, what, &name);
		if (r == 0)
			r = read(reader, name, yaml_document_get_node(reader->document, pair->value), object);
	}
	return r;
}

int yaml_read_texts(struct yaml_reader *reader, const yaml_node_t *node, const char *what, size_t max, const char ***ret,
		    size_t *ret_count)
{
	bool single = node->type == YAML_SCALAR_NODE;
	if (!single && node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, what, "must be a list");
	size_t count = single ? 1 : (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
	if (count > max)
		return yaml_fault(reader, node, what, "has too many items");
	const char **texts = arena_zalloc(reader->arena, (count + 1) * sizeof(*texts));
	if (!texts)
		return error_nomem(reader->err);
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		const yaml_node_t *item =
			single ? node : yaml_document_get_node(reader->document, node->data.sequence.items.start[i]);
		r = yaml_read_text(reader, item, what, &texts[i]);
	}
	*ret = texts;
	*ret_count = count;
	return r;
}

static void combine(uint64_t *hash, uint64_t value)
{
	*hash = hash64_seed(&value, sizeof(value), *hash);
}

static bool add_hash(struct yaml_reader *reader, const yaml_node_t *node, unsigned depth, unsigned *left, uint64_t *hash)
{
	if (depth > HASH_DEPTH_MAX || *left == 0)
		return false;
	--*left;
	combine(hash, (uint64_t)node->type);
	if (node->type == YAML_SCALAR_NODE) {
		combine(hash, hash64(node->data.scalar.value, node->data.scalar.length));
	} else if (node->type == YAML_SEQUENCE_NODE) {
		const yaml_node_item_t *item = node->data.sequence.items.start;
		for (; item < node->data.sequence.items.top; item++)
			if (!add_hash(reader, yaml_document_get_node(reader->document, *item), depth + 1, left, hash))
				return false;
	} else if (node->type == YAML_MAPPING_NODE) {
		const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
		for (; pair < node->data.mapping.pairs.top; pair++)
			if (!add_hash(reader, yaml_document_get_node(reader->document, pair->key), depth + 1, left, hash) ||
			    !add_hash(reader, yaml_document_get_node(reader->document, pair->value), depth + 1, left, hash))
				return false;
	}
	combine(hash, 7);
	return true;
}

int yaml_hash(struct yaml_reader *reader, const yaml_node_t *node, uint64_t *ret)
{
	unsigned left = HASH_NODES_MAX;
	*ret = 1;
	return add_hash(reader, node, 0, &left, ret) ? 0 : yaml_fault(reader, node, "scrape_configs", "is too large");
}
