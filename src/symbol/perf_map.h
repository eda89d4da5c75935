/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/symbol: the contents of one perf-PID.map. */
#ifndef WICK_SYMBOL_PERF_MAP_H
#define WICK_SYMBOL_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/limits.h"
#include "symbol/code_map.h"

#define PERF_MAP_ENTRIES_MAX	 (512u * 1024) /* pieces in use */
#define PERF_MAP_NAMES_BYTES_MAX (24 * MIB)    /* of pieces in use */
#define PERF_MAP_NAME_MAX	 4096u	       /* longer names are cut */
#define PERF_MAP_ENTRY_BYTES_MAX UINT32_MAX

struct perf_map {
	struct code_map code; /* value = offset in names */
	struct buffer names;  /* those of covered entries too, until they are more than those in use */
	size_t compact_at;
	size_t entries, bad_lines, dropped; /* so far: taken; made no sense; beyond a limit */
	size_t entries_max;		    /* PERF_MAP_ENTRIES_MAX; tests lower it */
};

void perf_map_init(struct perf_map *map);
void perf_map_release(struct perf_map *map);
/* Adds whole lines; later ones cover earlier ones. Lines that make no sense are counted and left out, as are those that the
 * limits leave no room for. 0 or -ENOMEM (unchanged then, except for counts). */
int perf_map_add_text(struct perf_map *map, struct bytes lines);
const struct code_piece *perf_map_find(const struct perf_map *map, uint64_t address);
const char *perf_map_name(const struct perf_map *map, const struct code_piece *piece);
size_t perf_map_memory_bytes(const struct perf_map *map);

#endif
