/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address spaces: which range of addresses holds what, for many processes that fork, as recordings of mappings tell it.
 *
 * All spaces share one pool of tree nodes. A fork shares the parent's tree with the child, whatever its size; the nodes on the
 * way to what either changes later are copied then. So a recording of n mappings and forks takes O(n log n) time and memory,
 * however they are arranged. The trees are treaps, whose shape comes from random numbers: who writes the input cannot choose
 * it.
 *
 * A range that is put replaces what it overlaps, as mmap(2) with MAP_FIXED does. Nodes are freed with the pool.
 */
#ifndef WICK_FORMAT_ADDRESS_MAP_H
#define WICK_FORMAT_ADDRESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address_node;
struct address_map {
	struct address_node *nodes;
	size_t count, capacity;
	uint64_t seed;
	uint32_t owner; /* the last that was given */
	bool failed;	/* no memory */
};
/* Zeroed = empty. To be copied with address_space_share() only. */
struct address_space {
	uint32_t root, owner;
};

void address_map_init(struct address_map *map);
void address_map_release(struct address_map *map);
/* [start, end) holds value. Empty ranges are left out. 0 or -ENOMEM, after which the map can only be released. */
int address_space_put(struct address_map *map, struct address_space *space, uint64_t start, uint64_t end, uint32_t value);
bool address_space_find(const struct address_map *map, const struct address_space *space, uint64_t address,
			uint32_t *ret_value);
/* *to becomes what *from is now. */
void address_space_share(struct address_map *map, struct address_space *from, struct address_space *to);

#endif
