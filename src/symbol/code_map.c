// SPDX-License-Identifier: Apache-2.0
/*
 * Which piece of code lies where, when addresses are used again and again.
 *
 * The state is a sorted list of pieces that do not overlap. What is added is first brought into that form by itself, half by
 * half (flatten), and then laid over the list (overlay) in one pass. Inserting entries one by one would move the whole list for
 * each; a tree of intervals would need four times the memory for a lookup that is no faster.
 */
#include "symbol/code_map.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/sorted.h"

void code_map_release(struct code_map *map)
{
	mem_free(map->pieces);
	*map = (struct code_map){0};
}

const struct code_piece *code_map_find(const struct code_map *map, uint64_t address)
{
	size_t count = sorted_count_up_to(map->pieces, map->count, start, address);
	const struct code_piece *piece = count > 0 ? &map->pieces[count - 1] : NULL;
	return piece && address - piece->start < piece->size ? piece : NULL;
}

static uint64_t piece_end(const struct code_piece *piece)
{
	return piece->start + piece->size;
}

/* The part of `piece` from `from` to `to`. */
static struct code_piece cut_piece(const struct code_piece *piece, uint64_t from, uint64_t to)
{
	struct code_piece part = *piece;
	part.start = from;
	part.size = (uint32_t)(to - from);
	return part;
}

/*
 * Lays `over` over `under` into `out`, which has room for under_count + 2 * over_count pieces: each piece on top splits at most
 * one below. Returns how many there are.
 */
static size_t overlay(const struct code_piece *under, size_t under_count, const struct code_piece *over, size_t over_count,
		      struct code_piece *out)
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
static size_t flatten(struct code_piece *pieces, size_t count, struct code_piece *scratch)
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

int code_map_add(struct code_map *map, struct code_piece *batch, size_t count)
{
	if (count == 0)
		return 0;
	_cleanup_(mem_freep) struct code_piece *scratch = mem_alloc_array(2 * count, sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	count = flatten(batch, count, scratch);
	size_t need = map->count + 2 * count;
	struct code_piece *merged = mem_alloc_array(need, sizeof(*merged));
	if (!merged)
		return -ENOMEM;
	map->count = overlay(map->pieces, map->count, batch, count, merged);
	map->capacity = need;
	mem_free(map->pieces);
	map->pieces = merged;
	/* Give back what overlapping did not need. */
	void *fitted = mem_realloc_array(merged, map->count, sizeof(*merged));
	if (fitted) {
		map->pieces = fitted;
		map->capacity = map->count;
	}
	return 0;
}

int code_names_add(struct buffer *names, const void *text, size_t len, uint32_t *ret)
{
	size_t at = names->len;
	buffer_append(names, text, len);
	int r = buffer_append_byte(names, 0);
	if (r < 0)
		buffer_truncate(names, at);
	else
		*ret = (uint32_t)at;
	return r;
}

int code_names_keep(const struct buffer *names, uint32_t at, struct map64 *moved, struct buffer *to, uint32_t *ret)
{
	uint64_t known = to->len;
	if (!map64_get(moved, at, &known)) {
		const char *text = (const char *)names->data + at;
		buffer_append(to, text, strlen(text) + 1);
		int r = buffer_status(to) < 0 ? buffer_status(to) : map64_put(moved, at, known);
		if (r < 0)
			return r;
	}
	*ret = (uint32_t)known;
	return 0;
}
