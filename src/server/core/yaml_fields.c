/* SPDX-License-Identifier: Apache-2.0 */
#include "server/core/yaml_fields.h"

#include <errno.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/time.h"

#define HASH_NODES_MAX 100000u
#define HASH_DEPTH_MAX 64u

int yaml_fault(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char *why)
{
	return error_set(reader->err, -EINVAL, "%s: line %zu: '%.60s' %s", reader->file, node->start_mark.line + 1, what, why);
}

static const char *scalar(const yaml_node_t *node)
{
	bool whole =
		node->type == YAML_SCALAR_NODE && strlen((const char *)node->data.scalar.value) == node->data.scalar.length;
	return whole ? (const char *)node->data.scalar.value : NULL;
}

int yaml_read_text(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char **ret)
{
	const char *text = scalar(node);
	if (!text)
		return yaml_fault(reader, node, what, "must be a single value");
	*ret = arena_strndup(reader->arena, text, strlen(text));
	return *ret ? 0 : error_nomem(reader->err);
}

static int read_flag(struct yaml_reader *reader, const yaml_node_t *node, const char *what, bool *ret)
{
	const char *text = scalar(node);
	*ret = text && (!strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on"));
	if (*ret || (text && (!strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off"))))
		return 0;
	return yaml_fault(reader, node, what, "must be true or false");
}

static int read_number(struct yaml_reader *reader, const yaml_node_t *node, const char *what, enum yaml_kind kind, void *to)
{
	const char *text = scalar(node);
	uint64_t number = 0;
	int64_t ns = 0;
	if (!text)
		return yaml_fault(reader, node, what, "must be a single value");
	if (kind == YAML_FIELD_DURATION) {
		if (time_parse_duration(text, &ns, NULL) < 0 || ns <= 0)
			return yaml_fault(reader, node, what, "must be a time of more than 0, such as 15s");
		*(int64_t *)to = ns;
		return 0;
	}
	if (kind == YAML_FIELD_SIZE) {
		if (text_parse_size(text, &number, NULL) < 0 || number == 0)
			return yaml_fault(reader, node, what, "must be a size of more than 0, such as 16MiB");
		*(uint64_t *)to = number;
		return 0;
	}
	if (text_parse_u64(text, &number, NULL) < 0 || number == 0 || number > UINT32_MAX)
		return yaml_fault(reader, node, what, "must be a whole number of more than 0");
	*(unsigned *)to = (unsigned)number;
	return 0;
}

static int read_field(struct yaml_reader *reader, const yaml_node_t *node, const struct yaml_field *field, void *object)
{
	void *to = (char *)object + field->offset;
	switch (field->kind) {
	case YAML_FIELD_TEXT: {
		const char *text;
		int r = yaml_read_text(reader, node, field->name, &text);
		if (r == 0 && !*text)
			return yaml_fault(reader, node, field->name, "has no value");
		if (r == 0)
			*(const char **)to = text;
		return r;
	}
	case YAML_FIELD_FLAG: return read_flag(reader, node, field->name, to);
	case YAML_FIELD_CUSTOM: return field->read(reader, node, object);
	default: return read_number(reader, node, field->name, field->kind, to);
	}
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
		const char *name = scalar(key);
		size_t which = 0;
		if (!name)
			return error_set(reader->err, -EINVAL, "%s: line %zu: a setting's name must be plain text",
					 reader->file, key->start_mark.line + 1);
		while (fields[which].name && strcmp(fields[which].name, name) != 0)
			which++;
		if (!fields[which].name)
			return yaml_fault(reader, key, name, "is not a setting; see docs/scraping.md");
		if (seen & 1ull << which)
			return yaml_fault(reader, key, name, "is set twice");
		seen |= 1ull << which;
		int r = read_field(reader, yaml_document_get_node(reader->document, pair->value), &fields[which], object);
		if (r < 0)
			return r;
	}
	return 0;
}

int yaml_read_list(struct yaml_reader *reader, const yaml_node_t *node, const char *what,
		   int (*read)(struct yaml_reader *reader, const yaml_node_t *node, void *object), void *object)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(reader, node, what, "must be a list");
	const yaml_node_item_t *item = node->data.sequence.items.start;
	int r = 0;
	for (; item < node->data.sequence.items.top && r == 0; item++)
		r = read(reader, yaml_document_get_node(reader->document, *item), object);
	return r;
}

int yaml_read_names(struct yaml_reader *reader, const yaml_node_t *node, const char *what,
		    int (*read)(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object),
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
