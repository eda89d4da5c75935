/* SPDX-License-Identifier: Apache-2.0 */
#include "format/address_map.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/hash.h"

struct address_node {
	uint64_t start, end;
	uint32_t value, left, right; /* 0 = none */
	uint32_t owner;		     /* who may change it; others copy it */
	uint32_t priority;	     /* not below that of its children */
};

void address_map_init(struct address_map *map)
{
	*map = (struct address_map){.count = 1, .seed = hash64_secret()};
}

void address_map_release(struct address_map *map)
{
	map->nodes = mem_free(map->nodes);
	map->count = map->capacity = 0;
}

/* 0 when there is no memory; map->failed is set then. */
static uint32_t new_node(struct address_map *map)
{
	if (map->failed || array_reserve(&map->nodes, &map->capacity, map->count + 1, UINT32_MAX) < 0) {
		map->failed = true;
		return 0;
	}
	map->nodes[0] = (struct address_node){0};
	return (uint32_t)map->count++;
}

/* The node, or a copy that this owner may change. */
static uint32_t own(struct address_map *map, uint32_t id, uint32_t owner)
{
	if (id == 0 || map->nodes[id].owner == owner)
		return id;
	uint32_t copy = new_node(map);
	if (copy) {
		map->nodes[copy] = map->nodes[id];
		map->nodes[copy].owner = owner;
	}
	return copy;
}

/* Ranges that start below `at` to the left, the others to the right. */
static void split(struct address_map *map, uint32_t owner, uint32_t id, uint64_t at, uint32_t *ret_left, uint32_t *ret_right)
{
	*ret_left = *ret_right = 0;
	id = own(map, id, owner);
	if (!id)
		return;
	uint32_t part;
	if (map->nodes[id].start < at) {
		split(map, owner, map->nodes[id].right, at, &part, ret_right);
		map->nodes[id].right = part;
		*ret_left = id;
	} else {
		split(map, owner, map->nodes[id].left, at, ret_left, &part);
		map->nodes[id].left = part;
		*ret_right = id;
	}
}

/* All of a lie below all of b. */
static uint32_t join(struct address_map *map, uint32_t owner, uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	if (map->nodes[a].priority >= map->nodes[b].priority) {
		a = own(map, a, owner);
		uint32_t right = a ? join(map, owner, map->nodes[a].right, b) : 0;
		map->nodes[a].right = right;
		return a;
	}
	b = own(map, b, owner);
	uint32_t left = b ? join(map, owner, a, map->nodes[b].left) : 0;
	map->nodes[b].left = left;
	return b;
}

static uint32_t new_range(struct address_map *map, uint32_t owner, uint64_t start, uint64_t end, uint32_t value)
{
	uint32_t id = new_node(map);
	if (id)
		map->nodes[id] = (struct address_node){.start = start,
						       .end = end,
						       .value = value,
						       .owner = owner,
						       .priority = (uint32_t)hash64_mix(map->seed + id)};
	return id;
}

/* The range with the highest start, owned on the way, so that its end may be changed. */
static uint32_t own_last(struct address_map *map, uint32_t owner, uint32_t *root)
{
	uint32_t id = *root = own(map, *root, owner);
	while (id && map->nodes[id].right) {
		uint32_t right = own(map, map->nodes[id].right, owner);
		map->nodes[id].right = right;
		id = right;
	}
	return id;
}

int address_space_put(struct address_map *map, struct address_space *space, uint64_t start, uint64_t end, uint32_t value)
{
	uint32_t before, middle, after, rest = 0;
	if (start >= end)
		return 0;
	if (!space->owner)
		space->owner = ++map->owner;
	split(map, space->owner, space->root, start, &before, &after);
	split(map, space->owner, after, end, &middle, &after);
	/* What begins in the new range or before it and reaches beyond it keeps its end. */
	uint32_t last = own_last(map, space->owner, &middle);
	if (last && map->nodes[last].end > end)
		rest = new_range(map, space->owner, end, map->nodes[last].end, map->nodes[last].value);
	last = own_last(map, space->owner, &before);
	if (last && map->nodes[last].end > end)
		rest = new_range(map, space->owner, end, map->nodes[last].end, map->nodes[last].value);
	if (last && map->nodes[last].end > start)
		map->nodes[last].end = start;
	uint32_t here = new_range(map, space->owner, start, end, value);
	if (map->failed)
		return -ENOMEM;
	before = join(map, space->owner, before, here);
	space->root = join(map, space->owner, join(map, space->owner, before, rest), after);
	return map->failed ? -ENOMEM : 0;
}

bool address_space_find(const struct address_map *map, const struct address_space *space, uint64_t address, uint32_t *ret_value)
{
	uint32_t found = 0;
	for (uint32_t id = space->root; id;) {
		const struct address_node *node = &map->nodes[id];
		if (node->start <= address)
			found = id;
		id = node->start <= address ? node->right : node->left;
	}
	if (!found || address >= map->nodes[found].end)
		return false;
	*ret_value = map->nodes[found].value;
	return true;
}

void address_space_share(struct address_map *map, struct address_space *from, struct address_space *to)
{
	*to = (struct address_space){.root = from->root, .owner = ++map->owner};
	from->owner = ++map->owner;
}
