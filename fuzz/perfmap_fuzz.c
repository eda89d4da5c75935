/* SPDX-License-Identifier: Apache-2.0 */
/* perf maps: the text, in one piece and in two, must give what a plain reading of the lines gives: the last entry that holds an
 * address. */
#include <stdlib.h>
#include <string.h>

#include "symbol/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pieces(const struct perf_map *map)
{
	uint64_t end = 0;
	for (size_t i = 0; i < map->code.count; i++) {
		const struct code_piece *p = &map->code.pieces[i];
		if (p->size == 0 || p->start < end || p->start < p->symbol_start || p->value >= map->names.len)
			abort();
		end = p->start + p->size;
		if (end < p->start || perf_map_find(map, p->start) != p || perf_map_find(map, end - 1) != p)
			abort();
	}
}

static void check_same(const struct perf_map *a, const struct perf_map *b)
{
	for (size_t i = 0; i < a->code.count; i++) {
		const struct code_piece *p = &a->code.pieces[i], *q = perf_map_find(b, p->start);
		if (!q || q->symbol_start != p->symbol_start ||
		    strcmp((const char *)a->names.data + p->value, (const char *)b->names.data + q->value) != 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map whole, parts;
	perf_map_init(&whole);
	perf_map_init(&parts);
	if (perf_map_add_text(&whole, (struct bytes){data, size}) < 0)
		abort();
	check_pieces(&whole);
	for (size_t at = 0; at < size;) {
		const uint8_t *newline = memchr(data + at, '\n', size - at);
		size_t end = newline ? (size_t)(newline - data) + 1 : size;
		if (perf_map_add_text(&parts, (struct bytes){data + at, end - at}) < 0)
			abort();
		at = end;
	}
	check_pieces(&parts);
	check_same(&whole, &parts);
	check_same(&parts, &whole);
	perf_map_release(&whole);
	perf_map_release(&parts);
	return 0;
}
