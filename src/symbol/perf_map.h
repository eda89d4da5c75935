/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: the contents of one perf-PID.map. */
#ifndef WICK_SYMBOL_PERF_MAP_H
#define WICK_SYMBOL_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/limits.h"

#define PERF_MAP_BYTES_MAX	 (64 * MIB) /* of a file that are read */
#define PERF_MAP_ENTRIES_MAX	 (1024u * 1024)
#define PERF_MAP_NAME_MAX	 4096u /* longer names are cut */
#define PERF_MAP_ENTRY_BYTES_MAX UINT32_MAX

/* A part of an entry that no later entry covers. */
struct perf_map_piece {
	uint64_t start, symbol_start;
	uint32_t size;
	uint32_t name; /* in names */
};

struct perf_map {
	struct perf_map_piece *pieces; /* ascending, not overlapping */
	size_t piece_count, piece_capacity;
	struct buffer names;
	size_t entries, bad_lines;
	size_t entries_max; /* PERF_MAP_ENTRIES_MAX; tests lower it */
};

void perf_map_init(struct perf_map *map);
void perf_map_release(struct perf_map *map);
/* Adds whole lines; later ones cover earlier ones. Lines that make no sense are counted and left out, as are those past
 * entries_max. 0 or -ENOMEM (unchanged then, except for counts). */
int perf_map_add_text(struct perf_map *map, struct bytes lines);
const struct perf_map_piece *perf_map_find(const struct perf_map *map, uint64_t address);
size_t perf_map_memory_bytes(const struct perf_map *map);

#endif
