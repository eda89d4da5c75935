/* SPDX-License-Identifier: Apache-2.0 */
#include "server/scrape/discovery_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define SCRATCH_MAX (1 * MIB)

void discovery_set_init(struct discovery_set *set)
{
	set->count = 1;
	arena_init(&set->shared, SCRATCH_MAX);
	arena_init(&set->own, SCRATCH_MAX);
	set->texts = &set->shared;
}

void discovery_set_release(struct discovery_set *set)
{
	arena_release(&set->shared);
	arena_release(&set->own);
}

size_t discovery_set_mark(struct discovery_set *set)
{
	set->texts = &set->own;
	return set->count;
}

void discovery_set_cut(struct discovery_set *set, size_t count)
{
	set->count = count;
	arena_release(&set->own);
}

const char *discovery_text(const struct json_node *node, const char *name)
{
	const char *text = json_node_text(json_node_get(node, name));
	return text ? text : "";
}

void discovery_put(struct discovery_set *set, const char *name, const char *value)
{
	if (value && *value && set->count < DISCOVERY_LABELS_MAX)
		set->labels[set->count++] = (struct relabel_label){name, value};
}

const char *discovery_number(struct discovery_set *set, const struct json_node *node)
{
	char text[24];
	int64_t number;
	if (!json_node_integer(node, &number))
		return "";
	int len = snprintf(text, sizeof(text), "%lld", (long long)number);
	const char *copy = arena_strndup(set->texts, text, (size_t)len);
	return copy ? copy : "";
}

void discovery_put_number(struct discovery_set *set, const char *name, int64_t number)
{
	const struct json_node node = {.kind = JSON_NODE_INTEGER, .integer = number};
	discovery_put(set, name, discovery_number(set, &node));
}

const char *discovery_flag(const struct json_node *node)
{
	return !json_node_is(node, JSON_NODE_BOOLEAN) ? "" : node->boolean ? "true" : "false";
}

int discovery_expect(const struct json_node *node, enum json_node_kind kind, const char *service, struct error *err)
{
	if (json_node_is(node, kind) || json_node_is(node, JSON_NODE_NULL))
		return 0;
	return error_set(err, -EBADMSG, "%.200s: expected %s", service, kind == JSON_NODE_ARRAY ? "a list" : "an object");
}

void discovery_put_key(struct discovery_set *set, const char *prefix, struct bytes key, const char *value)
{
	char name[LIMIT_LABEL_NAME_BYTES];
	size_t len = (size_t)snprintf(name, sizeof(name), "%.78s", prefix);
	if (set->count + DISCOVERY_LABELS_OWN >= DISCOVERY_LABELS_MAX || !value || !*value)
		return;
	/* As Prometheus: one '_' for each character that a name cannot have. Behind the prefix a digit may come first. */
	for (size_t i = 0; i < key.len && len + 1 < sizeof(name); i++) {
		uint8_t c = key.data[i], letter = c | 0x20;
		if ((c & 0xc0) != 0x80)
			name[len++] = (letter >= 'a' && letter <= 'z') || text_is_digit(c) ? (char)c : '_';
	}
	const char *copy = arena_strndup(set->texts, name, len);
	if (copy)
		discovery_put(set, copy, value);
}

void discovery_put_map(struct discovery_set *set, const char *prefix, const struct json_node *map)
{
	size_t count = json_node_is(map, JSON_NODE_OBJECT) ? json_node_count(map) : 0;
	for (size_t i = 0; i < count; i++)
		discovery_put_key(set, prefix, json_node_bytes(&map->items[2 * i]), json_node_text(&map->items[2 * i + 1]));
}

void discovery_put_list(struct discovery_set *set, const char *name, const struct json_node *texts, const char *separator,
			bool always)
{
	_cleanup_(buffer_release) struct buffer joined = {.max = 64 * KIB};
	size_t count = json_node_count(texts);
	if (count == 0 && !always)
		return;
	buffer_append_string(&joined, separator);
	for (size_t i = 0; i < count; i++) {
		const char *text = json_node_text(json_node_at(texts, i));
		buffer_printf(&joined, "%s%s", i ? separator : "", text ? text : "");
	}
	int r = buffer_append_string(&joined, separator);
	const char *copy = r == 0 ? arena_strndup(set->texts, (const char *)joined.data, joined.len) : NULL;
	if (copy)
		discovery_put(set, name, copy);
}

int discovery_set_add_address(struct discovery_set *set, const char *address, struct discovered *found, struct error *err)
{
	set->labels[0] = (struct relabel_label){"__address__", address};
	return discovered_add(found, set->labels, set->count, err);
}

int discovery_set_add(struct discovery_set *set, const char *host, const char *port, struct discovered *found,
		      struct error *err)
{
	char address[400];
	bool v6 = strchr(host, ':');
	snprintf(address, sizeof(address),
		 *port ? v6 ? "[%.300s]:%.16s" : "%.300s:%.16s"
		 : v6  ? "[%.300s]"
		       : "%.300s",
		 host, port);
	return discovery_set_add_address(set, address, found, err);
}
