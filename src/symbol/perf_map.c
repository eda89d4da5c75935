/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf maps, the text in which JIT compilers say where they put their code (perf's tools/perf/Documentation/jit-interface.txt):
 *
 *   START SIZE NAME      a line for each function; START and SIZE in hex, with 0x (JDK) or without (node); NAME to the end of
 *                        the line, spaces included
 *
 * Memory is used again: a later entry covers what it overlaps of earlier ones (code_map.h). The limits are on what is in use,
 * not on what was ever read: a process that compiles for months appends for months, and it is the latest lines that count. So
 * names of covered entries are thrown away once they are the greater part.
 */
#include "symbol/perf_map.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/text.h"

#define COMPACT_FIRST_BYTES (1 * MIB)

void perf_map_init(struct perf_map *map)
{
	*map = (struct perf_map){
		.entries_max = PERF_MAP_ENTRIES_MAX, .compact_at = COMPACT_FIRST_BYTES, .names.max = PERF_MAP_NAMES_BYTES_MAX};
}

void perf_map_release(struct perf_map *map)
{
	code_map_release(&map->code);
	buffer_release(&map->names);
	map->entries = map->bad_lines = map->dropped = 0;
	map->compact_at = COMPACT_FIRST_BYTES;
}

size_t perf_map_memory_bytes(const struct perf_map *map)
{
	return map->names.capacity + map->code.capacity * sizeof(*map->code.pieces);
}

const struct code_piece *perf_map_find(const struct perf_map *map, uint64_t address)
{
	return code_map_find(&map->code, address);
}

const char *perf_map_name(const struct perf_map *map, const struct code_piece *piece)
{
	return (const char *)map->names.data + piece->value;
}

/* ---- lines ---- */

/* A number and the spaces behind it; moves *at. At least one space must follow. */
static bool scan_number(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	uint64_t value = 0;
	const char *digits = p;
	for (int digit; p < end && (digit = text_hex_digit((uint8_t)*p)) >= 0; p++) {
		if (value >> 60)
			return false;
		value = value << 4 | (unsigned)digit;
	}
	if (p == digits || p == end || (*p != ' ' && *p != '\t'))
		return false;
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	*at = p;
	*ret = value;
	return true;
}

/* Appends one line's piece to *pieces, which has room, and its name to the map's names. 1 = added, 0 = makes no
 * sense, -E2BIG = no room, -ENOMEM. */
static int parse_line(struct perf_map *map, const char *line, const char *end, struct code_piece *ret)
{
	uint64_t start, size;
	if (end > line && end[-1] == '\r')
		end--;
	if (!scan_number(&line, end, &start) || !scan_number(&line, end, &size) || size == 0 ||
	    size > PERF_MAP_ENTRY_BYTES_MAX || size > UINT64_MAX - start)
		return 0;
	size_t len = (size_t)(end - line);
	if (len == 0 || memchr(line, 0, len))
		return 0;
	if (len > PERF_MAP_NAME_MAX)
		len = PERF_MAP_NAME_MAX;
	*ret = (struct code_piece){.start = start, .symbol_start = start, .size = (uint32_t)size};
	int r = code_names_add(&map->names, line, len, &ret->value);
	return r < 0 ? r : 1;
}

/* ---- adding ---- */

static size_t count_lines(struct bytes lines)
{
	size_t count = 1;
	for (size_t i = 0; i < lines.len; i++)
		count += lines.data[i] == '\n';
	return count;
}

static int parse_lines(struct perf_map *map, struct bytes lines, struct code_piece *batch, size_t most, size_t *ret_count)
{
	const char *at = (const char *)lines.data, *end = at + lines.len;
	size_t count = 0;
	while (at < end) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end)
			line_end = end;
		if (line_end > at) {
			int r = count < most ? parse_line(map, at, line_end, &batch[count]) : -E2BIG;
			if (r < 0 && r != -E2BIG)
				return r;
			count += r > 0;
			map->bad_lines += r == 0;
			map->dropped += r == -E2BIG;
		}
		at = line_end + 1;
	}
	*ret_count = count;
	return 0;
}

/* Keeps only names that pieces use. */
static int compact_names(struct perf_map *map)
{
	_cleanup_(map64_release) struct map64 moved = {0};
	_cleanup_(buffer_release) struct buffer names = {.max = map->names.max};
	/* Two passes: nothing may have changed when memory runs out. */
	for (size_t i = 0; i < map->code.count; i++) {
		uint32_t at;
		int r = code_names_keep(&map->names, map->code.pieces[i].value, &moved, &names, &at);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < map->code.count; i++) {
		uint64_t at = 0;
		map64_get(&moved, map->code.pieces[i].value, &at);
		map->code.pieces[i].value = (uint32_t)at;
	}
	struct buffer old = map->names;
	map->names = names;
	names = old;
	map->compact_at = 2 * map->names.len > COMPACT_FIRST_BYTES ? 2 * map->names.len : COMPACT_FIRST_BYTES;
	if (map->compact_at > map->names.max)
		map->compact_at = map->names.max;
	return 0;
}

int perf_map_add_text(struct perf_map *map, struct bytes lines)
{
	if (lines.len == 0)
		return 0;
	if (map->names.len + lines.len > map->compact_at) {
		int r = compact_names(map);
		if (r < 0)
			return r;
	}
	size_t most = count_lines(lines), names_before = map->names.len, dropped_before = map->dropped;
	size_t room = map->code.count < map->entries_max ? map->entries_max - map->code.count : 0;
	if (most > room)
		most = room;
	_cleanup_(mem_freep) struct code_piece *batch = mem_alloc_array(2 * most, sizeof(*batch));
	if (!batch)
		return -ENOMEM;
	size_t count = 0;
	int r = parse_lines(map, lines, batch, most, &count);
	if (r == 0)
		r = code_map_add(&map->code, batch, count);
	if (r < 0) {
		buffer_truncate(&map->names, names_before);
		map->dropped = dropped_before;
		return r;
	}
	map->entries += count;
	return 0;
}
