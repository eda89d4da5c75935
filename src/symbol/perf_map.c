/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf maps, the text in which JIT compilers say where they put their code (perf's tools/perf/Documentation/jit-interface.txt):
 *
 *   START SIZE NAME      a line for each function; START and SIZE in hex, with 0x (JDK) or without (node); NAME to the end of
 * the line, spaces included
 *
 * Files only grow, and memory is used again: a later entry covers what it overlaps of earlier ones. So the state is a sorted
 * list of pieces that do not overlap, and what was appended is first brought into that form by itself, half by half (flatten),
 * and then laid over it (overlay) in one pass. Inserting entries one by one would move the whole list for each.
 */
#include "symbol/perf_map.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

void perf_map_init(struct perf_map *map)
{
	*map = (struct perf_map){.entries_max = PERF_MAP_ENTRIES_MAX};
	buffer_init(&map->names, PERF_MAP_BYTES_MAX);
}

void perf_map_release(struct perf_map *map)
{
	map->pieces = mem_free(map->pieces);
	map->piece_count = map->piece_capacity = map->entries = map->bad_lines = 0;
	buffer_release(&map->names);
}

size_t perf_map_memory_bytes(const struct perf_map *map)
{
	return map->names.capacity + map->piece_capacity * sizeof(*map->pieces);
}

const struct perf_map_piece *perf_map_find(const struct perf_map *map, uint64_t address)
{
	size_t low = 0, high = map->piece_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (map->pieces[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || address - map->pieces[low - 1].start >= map->pieces[low - 1].size)
		return NULL;
	return &map->pieces[low - 1];
}

/* ---- lines ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number and the spaces behind it; moves *at. At least one space must follow. */
static bool scan_number(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	uint64_t value = 0;
	const char *digits = p;
	for (int digit; p < end && (digit = hex_digit(*p)) >= 0; p++) {
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

/* Appends one line's piece to *pieces, which has room, and its name to the map's names. 1 = added, 0 = makes no sense, -ENOMEM.
 */
static int parse_line(struct perf_map *map, const char *line, const char *end, struct perf_map_piece *ret)
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
	size_t name = map->names.len;
	int r = buffer_append(&map->names, line, len);
	if (r == 0)
		r = buffer_append_byte(&map->names, 0);
	if (r < 0) {
		map->names.len = name;
		return r == -E2BIG ? 0 : r;
	}
	*ret = (struct perf_map_piece){.start = start, .symbol_start = start, .size = (uint32_t)size, .name = (uint32_t)name};
	return 1;
}

/* ---- overlapping ---- */

static uint64_t piece_end(const struct perf_map_piece *piece)
{
	return piece->start + piece->size;
}

/* The part of `piece` from `from` to `to`. */
static struct perf_map_piece cut_piece(const struct perf_map_piece *piece, uint64_t from, uint64_t to)
{
	struct perf_map_piece part = *piece;
	part.start = from;
	part.size = (uint32_t)(to - from);
	return part;
}

/*
 * Lays `over` over `under` into `out`, which has room for under_count + 2 * over_count pieces: each piece on top splits at most
 * one below. Returns how many there are.
 */
static size_t overlay(const struct perf_map_piece *under, size_t under_count, const struct perf_map_piece *over,
		      size_t over_count, struct perf_map_piece *out)
{
	size_t count = 0, next = 0;
	for (size_t i = 0; i < under_count; i++) {
		uint64_t from = under[i].start, end = piece_end(&under[i]);
		/* Pieces on top that end before this one begins. */
		while (next < over_count && piece_end(&over[next]) <= from)
			out[count++] = over[next++];
		while (next < over_count && over[next].start < end) {
			if (over[next].start > from)
				out[count++] = cut_piece(&under[i], from, over[next].start);
			from = piece_end(&over[next]);
			if (from >= end)
				break; /* it may cover the next piece below too */
			out[count++] = over[next++];
		}
		if (from < end)
			out[count++] = cut_piece(&under[i], from, end);
	}
	while (next < over_count)
		out[count++] = over[next++];
	return count;
}

/* pieces[0..count) in the order of the file become sorted pieces that do not overlap; the array has room for 2 * count, as has
 * `scratch`. Returns how many there are. */
static size_t flatten(struct perf_map_piece *pieces, size_t count, struct perf_map_piece *scratch)
{
	if (count < 2)
		return count;
	/* Most files are sorted. */
	size_t sorted = 1;
	while (sorted < count && piece_end(&pieces[sorted - 1]) <= pieces[sorted].start)
		sorted++;
	if (sorted == count)
		return count;
	size_t half = count / 2;
	/* The halves lie side by side, each with room for twice its number: the later half moves to the end first. */
	memmove(pieces + 2 * half, pieces + half, (count - half) * sizeof(*pieces));
	size_t under = flatten(pieces, half, scratch), over = flatten(pieces + 2 * half, count - half, scratch);
	size_t total = overlay(pieces, under, pieces + 2 * half, over, scratch);
	memcpy(pieces, scratch, total * sizeof(*pieces));
	return total;
}

/* ---- adding ---- */

static size_t count_lines(struct bytes lines)
{
	size_t count = 1;
	for (size_t i = 0; i < lines.len; i++)
		count += lines.data[i] == '\n';
	return count;
}

static int parse_lines(struct perf_map *map, struct bytes lines, struct perf_map_piece *batch, size_t *ret_count)
{
	const char *at = (const char *)lines.data, *end = at + lines.len;
	size_t count = 0;
	while (at < end && map->entries + count < map->entries_max) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		if (!line_end)
			line_end = end;
		if (line_end > at) {
			int r = parse_line(map, at, line_end, &batch[count]);
			if (r < 0)
				return r;
			count += (size_t)r;
			map->bad_lines += r == 0;
		}
		at = line_end + 1;
	}
	*ret_count = count;
	return 0;
}

static int overlay_batch(struct perf_map *map, struct perf_map_piece *batch, size_t count, struct perf_map_piece *scratch)
{
	size_t entries = count;
	count = flatten(batch, count, scratch);
	size_t need = map->piece_count + 2 * count;
	struct perf_map_piece *merged = mem_alloc_array(need, sizeof(*merged));
	if (!merged)
		return -ENOMEM;
	map->piece_count = overlay(map->pieces, map->piece_count, batch, count, merged);
	map->piece_capacity = need;
	mem_free(map->pieces);
	map->pieces = merged;
	map->entries += entries;
	/* Give back what overlapping did not need. */
	void *fitted = mem_realloc_array(merged, map->piece_count, sizeof(*merged));
	if (fitted) {
		map->pieces = fitted;
		map->piece_capacity = map->piece_count;
	}
	return 0;
}

int perf_map_add_text(struct perf_map *map, struct bytes lines)
{
	if (lines.len == 0)
		return 0;
	size_t most = count_lines(lines), names_before = map->names.len;
	if (most > map->entries_max - map->entries)
		most = map->entries_max - map->entries;
	if (most == 0)
		return 0;
	_cleanup_(mem_freep) struct perf_map_piece *batch = mem_alloc_array(2 * most, sizeof(*batch));
	_cleanup_(mem_freep) struct perf_map_piece *scratch = mem_alloc_array(2 * most, sizeof(*scratch));
	if (!batch || !scratch)
		return -ENOMEM;
	size_t count = 0;
	int r = parse_lines(map, lines, batch, &count);
	if (r == 0 && count > 0)
		r = overlay_batch(map, batch, count, scratch);
	if (r < 0)
		map->names.len = names_before;
	return r;
}
