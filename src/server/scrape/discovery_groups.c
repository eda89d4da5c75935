/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target groups, as files and services of discovery have them:
 *
 *   [ { "targets": ["host:port", ...], "labels": { "name": "value", ... } }, ... ]
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "codec/json_tree.h"
#include "server/scrape/scrape_int.h"

#define GROUP_LABELS_MAX LIMIT_LABELS_PER_SERIES

/* ---- what was found ---- */

struct discovered *discovered_new(void)
{
	struct discovered *found = mem_zalloc(sizeof(*found));
	if (found)
		arena_init(&found->arena, DISCOVERED_BYTES_MAX);
	return found;
}

struct discovered *discovered_free(struct discovered *found)
{
	if (!found)
		return NULL;
	arena_release(&found->arena);
	mem_free(found->sets);
	return mem_free(found);
}

int discovered_add(struct discovered *found, const struct relabel_label *labels, size_t count, struct error *err)
{
	if (found->count == DISCOVERED_SETS_MAX)
		return error_set(err, -E2BIG, "more than %d targets", DISCOVERED_SETS_MAX);
	if (array_reserve(&found->sets, &found->capacity, found->count + 1, DISCOVERED_SETS_MAX) < 0)
		return error_nomem(err);
	struct relabel_label *copy = arena_alloc(&found->arena, (count + 1) * sizeof(*copy));
	bool whole = copy;
	for (size_t i = 0; i < count && whole; i++) {
		copy[i].name = arena_strndup(&found->arena, labels[i].name, strlen(labels[i].name));
		copy[i].value = arena_strndup(&found->arena, labels[i].value, strlen(labels[i].value));
		whole = copy[i].name && copy[i].value;
		found->hash = hash64_seed(labels[i].name, strlen(labels[i].name) + 1, found->hash);
		found->hash = hash64_seed(labels[i].value, strlen(labels[i].value) + 1, found->hash);
	}
	found->hash = hash64_seed(&count, sizeof(count), found->hash);
	if (!whole)
		return error_set(err, -E2BIG, "more than 64 MiB of labels");
	found->sets[found->count++] = (struct discovered_set){copy, count};
	return 0;
}

struct group {
	struct relabel_label labels[GROUP_LABELS_MAX + 2]; /* [0] is __address__, [1] where it is from */
	size_t count;
};

static int add_address(struct discovered *found, struct group *group, const char *address, struct error *err)
{
	group->labels[0] = (struct relabel_label){"__address__", address};
	return discovered_add(found, group->labels, group->count, err);
}

/* ---- JSON ---- */

static int bad_groups(const char *source, struct error *err)
{
	return error_set(err, -EBADMSG, "%s: expected [{\"targets\": [\"host:port\"], \"labels\": {\"name\": \"value\"}}]",
			 source);
}

static int read_group(const struct json_node *node, struct group *group, struct discovered *found, const char *source,
		      struct error *err)
{
	const struct json_node *targets = json_node_get(node, "targets"), *labels = json_node_get(node, "labels");
	if (!json_node_is(node, JSON_NODE_OBJECT) || !json_node_is(targets, JSON_NODE_ARRAY) ||
	    (labels && !json_node_is(labels, JSON_NODE_OBJECT) && !json_node_is(labels, JSON_NODE_NULL)))
		return bad_groups(source, err);
	size_t count = json_node_is(labels, JSON_NODE_OBJECT) ? json_node_count(labels) : 0;
	if (count > GROUP_LABELS_MAX)
		return error_set(err, -E2BIG, "%s: more than %d labels", source, GROUP_LABELS_MAX);
	for (size_t i = 0; i < count; i++) {
		const char *name = json_node_text(&labels->items[2 * i]), *value = json_node_text(&labels->items[2 * i + 1]);
		if (!name || !value || !label_name_is_valid(name))
			return error_set(err, -EBADMSG, "%s: labels must be names with string values", source);
		group->labels[group->count++] = (struct relabel_label){name, value};
	}
	int r = 0;
	for (size_t i = 0; i < json_node_count(targets) && r == 0; i++) {
		const char *address = json_node_text(json_node_at(targets, i));
		r = address ? add_address(found, group, address, err) : bad_groups(source, err);
	}
	return r;
}

int discovery_read_groups(struct bytes text, const char *meta, const char *source, struct discovered *found, struct error *err)
{
	_cleanup_(json_tree_freep) struct json_tree *tree = NULL;
	int r = json_tree_read(text, 0, &tree, err);
	char shown[200]; /* the query of a URL may be secret */
	snprintf(shown, sizeof(shown), "%.*s", strstr(source, "://") ? scrape_url_length(source) : (int)strlen(source), source);
	if (r < 0)
		return error_prefix(err, r, "%s", shown);
	const struct json_node *root = json_tree_root(tree);
	if (!json_node_is(root, JSON_NODE_ARRAY))
		return bad_groups(shown, err);
	for (size_t i = 0; i < json_node_count(root) && r == 0; i++) {
		struct group group = {.count = 2};
		group.labels[1] = (struct relabel_label){meta, source};
		r = read_group(json_node_at(root, i), &group, found, shown, err);
	}
	return r;
}

/* ---- YAML ---- */

struct yaml_group {
	struct group group;
	const char **targets;
	size_t target_count;
	struct discovered *found;
	const char *source;
};

static int read_label(struct yaml_reader *reader, const char *name, const yaml_node_t *node, void *object)
{
	struct yaml_group *yaml = object;
	const char *value;
	if (!label_name_is_valid(name) || yaml->group.count == GROUP_LABELS_MAX + 2)
		return yaml_fault(reader, node, name, "is not a label name, or exceeds the limit of labels");
	int r = yaml_read_text(reader, node, name, &value);
	if (r == 0)
		yaml->group.labels[yaml->group.count++] = (struct relabel_label){name, value};
	return r;
}

static int read_targets(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	struct yaml_group *yaml = object;
	return yaml_read_texts(reader, node, "targets", DISCOVERED_SETS_MAX, &yaml->targets, &yaml->target_count);
}

static int read_yaml_group(struct yaml_reader *reader, const yaml_node_t *node, void *object)
{
	static const struct yaml_field fields[] = {
		YAML_CUSTOM("targets", read_targets), {"labels", YAML_FIELD_NAMES, .read_name = read_label}, {0}};
	struct yaml_group *yaml = object;
	yaml->group.count = 2;
	yaml->group.labels[1] = (struct relabel_label){"__meta_filepath", yaml->source};
	yaml->target_count = 0;
	int r = yaml_read_fields(reader, node, fields, yaml);
	for (size_t i = 0; i < yaml->target_count && r == 0; i++)
		r = add_address(yaml->found, &yaml->group, yaml->targets[i], reader->err);
	return r;
}

int discovery_read_groups_yaml(struct bytes text, const char *source, struct discovered *found, struct error *err)
{
	yaml_document_t document;
	_cleanup_(arena_release) struct arena arena = {.max_bytes = DISCOVERED_BYTES_MAX};
	int r = yaml_load(text, source, -EBADMSG, &document, err);
	if (r < 0)
		return r;
	struct yaml_reader reader = {&document, source, &arena, err, .manual = "docs/scraping.md"};
	struct yaml_group yaml = {.found = found, .source = source};
	const yaml_node_t *root = yaml_document_get_root_node(&document);
	r = root ? yaml_read_list(&reader, root, "target groups", read_yaml_group, &yaml) : 0;
	yaml_document_delete(&document);
	return r;
}
