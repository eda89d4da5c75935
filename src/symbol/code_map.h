/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: pieces of code by address, where later ones cover earlier ones. What perf maps and jitdumps share. */
#ifndef WICK_SYMBOL_CODE_MAP_H
#define WICK_SYMBOL_CODE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/map.h"

/* An entry, or the part of one that no later entry covers. start + size does not wrap; size is not 0. */
struct code_piece {
	uint64_t start, symbol_start;
	uint32_t size;
	uint32_t value; /* the owner's: what it is */
};
struct code_map {
	struct code_piece *pieces; /* ascending, not overlapping */
	size_t count, capacity;
};

void code_map_release(struct code_map *map);
/* Lays batch[0..count), in the order in which it was said, over the map; the array has room for 2 * count and is changed.
 * 0 or -ENOMEM (the map is unchanged then). */
int code_map_add(struct code_map *map, struct code_piece *batch, size_t count);
const struct code_piece *code_map_find(const struct code_map *map, uint64_t address); /* NULL when nothing is there */

/* The owners' names: appends one, with a NUL behind it; *ret is where it begins. -E2BIG, -ENOMEM (nothing is appended then). */
int code_names_add(struct buffer *names, const void *text, size_t len, uint32_t *ret);
/* Appends the one at `at` to `to`, once: moved is where those that were appended are now. */
int code_names_keep(const struct buffer *names, uint32_t at, struct map64 *moved, struct buffer *to, uint32_t *ret);

#endif
