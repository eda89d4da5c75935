// SPDX-License-Identifier: Apache-2.0
/*
 * Who owns which part of the heap, and the windows through which we reach it.
 *
 * Places are multiples of HEAP_ALIGN; inside, everything is counted in units of that size. Unit 0 is never given out, so that
 * place 0 can mean "none". A block that is free or waits to become free is described by a struct block in an array of ours,
 * never by anything in the heap itself: a stray write there can ruin a table, not the allocator. What is in use is described
 * nowhere; its owner knows place and size.
 *
 * Free blocks are never neighbours (they are merged when they become free) and each is on three lists:
 *
 *   bin         by size: one bin a size up to 15 units, then 16 bins for each power of two (as in "TLSF: a new dynamic memory
 *               allocator for real-time systems", Masmano et al., 2004), with a bitmap of those that are not empty
 *   by_start    hash of the first unit } to find the
 *   by_end      hash of the unit after } free neighbours
 *
 * so that taking and giving back cost the same however many blocks there are. A fit is searched among the first few blocks of
 * the request's own bin, then in the next bin that is not empty, where every block is large enough; only if there is none,
 * among all blocks of its own bin. Small requests are cut from the low end of a block, large ones from the high end: process
 * mappings that come and go by the hundreds a second and tables that stay for days would otherwise end up between each other.
 *
 * Waiting blocks are on one of two lists, released since the last heap_settle() or before; the older list becomes free at the
 * next. *reuses is raised there, once for all of them, and not when a block is given out: a program that started after that
 * moment can hold no place that was released two calls before, and raising it for each allocation would cast doubt on many more
 * walks.
 *
 * heap_release() cannot fail: heap_allocate() makes room for a struct block for each block in use.
 *
 * Windows are mapped when they are touched. heap_trim() goes round as a clock does and leaves those touched since it last came
 * by, if that is enough.
 *
 * Rejected: free lists inside the heap (see above, and they would map windows only to walk a list); first fit in a list ordered
 * by address (a walk over all holes of 500 processes a second); size classes alone (a table of 3 MB and a heap of 40 leave no
 * room to waste).
 */
#include "agent/sample/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"

#define BIN_STEPS	 16u
#define BIN_COUNT	 ((32u - 4 + 1) * BIN_STEPS)
#define BIN_WORDS	 ((BIN_COUNT + 63) / 64)
#define NEAR_FIT_TRIES	 16
#define SMALL_UNITS	 (4096u / HEAP_ALIGN)
#define BLOCKS_FIRST	 256u
#define BLOCKS_MAX	 (1u << 26)
#define NONE		 UINT32_MAX
#define LARGE_WINDOWS	 4
#define WINDOW_UNTOUCHED 0
#define WINDOW_TOUCHED	 1

struct block {
	uint32_t start, units;
	uint32_t previous, next; /* in the bin, or (next) among the waiting or unused blocks */
	uint32_t next_by_start, next_by_end;
};

struct heap {
	int fd;
	bool own_fd;
	uint32_t bytes;
	uint32_t *reuses;

	struct block *blocks;
	uint32_t block_count; /* all of them: free, waiting, unused; the size of both hashes, a power of two */
	uint32_t unused;      /* list */
	uint32_t taken;	      /* blocks that are free or waiting */
	uint32_t in_use;      /* what is allocated: each will need a block */
	uint32_t *by_start, *by_end;
	uint32_t bins[BIN_COUNT];
	uint64_t bins_filled[BIN_WORDS];
	uint32_t fresh, older; /* lists of waiting blocks */
	uint64_t used_units, waiting_units;

	uint8_t **windows; /* NULL: not mapped */
	uint8_t *touched;
	uint32_t window_count, mapped_count, hand;
};

/* ---- blocks ---- */

static uint32_t bin_of(uint32_t units)
{
	if (units < BIN_STEPS)
		return units;
	uint32_t log = 31 - (uint32_t)__builtin_clz(units);
	return (log - 3) * BIN_STEPS + ((units >> (log - 4)) & (BIN_STEPS - 1));
}

static uint32_t *bucket_of(const struct heap *heap, uint32_t *buckets, uint32_t unit)
{
	return &buckets[hash64_mix(unit) & (heap->block_count - 1)];
}

static void link_hashes(struct heap *heap, uint32_t id)
{
	struct block *block = &heap->blocks[id];
	uint32_t *head = bucket_of(heap, heap->by_start, block->start);
	block->next_by_start = *head;
	*head = id;
	head = bucket_of(heap, heap->by_end, block->start + block->units);
	block->next_by_end = *head;
	*head = id;
}

static void link_free(struct heap *heap, uint32_t id)
{
	struct block *block = &heap->blocks[id];
	uint32_t bin = bin_of(block->units);
	block->previous = NONE;
	block->next = heap->bins[bin];
	if (block->next != NONE)
		heap->blocks[block->next].previous = id;
	heap->bins[bin] = id;
	heap->bins_filled[bin / 64] |= 1ull << (bin % 64);
	link_hashes(heap, id);
}

static void unlink_free(struct heap *heap, uint32_t id)
{
	struct block *block = &heap->blocks[id];
	uint32_t bin = bin_of(block->units);
	if (block->previous == NONE)
		heap->bins[bin] = block->next;
	else
		heap->blocks[block->previous].next = block->next;
	if (block->next != NONE)
		heap->blocks[block->next].previous = block->previous;
	if (heap->bins[bin] == NONE)
		heap->bins_filled[bin / 64] &= ~(1ull << (bin % 64));
	uint32_t *at = bucket_of(heap, heap->by_start, block->start);
	while (*at != id)
		at = &heap->blocks[*at].next_by_start;
	*at = block->next_by_start;
	at = bucket_of(heap, heap->by_end, block->start + block->units);
	while (*at != id)
		at = &heap->blocks[*at].next_by_end;
	*at = block->next_by_end;
}

static uint32_t find_by_start(const struct heap *heap, uint32_t unit)
{
	uint32_t id = *bucket_of(heap, heap->by_start, unit);
	while (id != NONE && heap->blocks[id].start != unit)
		id = heap->blocks[id].next_by_start;
	return id;
}

static uint32_t find_by_end(const struct heap *heap, uint32_t unit)
{
	uint32_t id = *bucket_of(heap, heap->by_end, unit);
	while (id != NONE && heap->blocks[id].start + heap->blocks[id].units != unit)
		id = heap->blocks[id].next_by_end;
	return id;
}

static uint32_t take_block(struct heap *heap, uint32_t start, uint32_t units)
{
	uint32_t id = heap->unused;
	assert(id != NONE);
	heap->unused = heap->blocks[id].next;
	heap->taken++;
	heap->blocks[id] = (struct block){.start = start, .units = units};
	return id;
}

static void give_block(struct heap *heap, uint32_t id)
{
	heap->blocks[id].next = heap->unused;
	heap->unused = id;
	heap->taken--;
}

/* Waiting blocks are in no hash, and free ones must all be found again: through the bins. */
static void rehash(struct heap *heap)
{
	memset(heap->by_start, 0xff, heap->block_count * sizeof(uint32_t));
	memset(heap->by_end, 0xff, heap->block_count * sizeof(uint32_t));
	for (uint32_t bin = 0; bin < BIN_COUNT; bin++)
		for (uint32_t id = heap->bins[bin]; id != NONE; id = heap->blocks[id].next)
			link_hashes(heap, id);
}

static int grow_blocks(struct heap *heap, uint32_t count)
{
	if (count > BLOCKS_MAX)
		return -E2BIG;
	uint32_t *by_start = mem_alloc_array(count, sizeof(uint32_t)), *by_end = mem_alloc_array(count, sizeof(uint32_t));
	struct block *blocks = by_start && by_end ? mem_realloc_array(heap->blocks, count, sizeof(*blocks)) : NULL;
	if (!blocks) {
		mem_free(by_start);
		mem_free(by_end);
		return -ENOMEM;
	}
	mem_free(heap->by_start);
	mem_free(heap->by_end);
	heap->by_start = by_start;
	heap->by_end = by_end;
	heap->blocks = blocks;
	for (uint32_t id = heap->block_count; id < count; id++) {
		heap->blocks[id].next = heap->unused;
		heap->unused = id;
	}
	heap->block_count = count;
	rehash(heap);
	return 0;
}

/* One more block in use, and perhaps the rest of the one it is cut from. */
static bool has_room_for_block(struct heap *heap)
{
	uint64_t need = (uint64_t)heap->taken + heap->in_use + 2;
	return need <= heap->block_count || grow_blocks(heap, heap->block_count * 2) == 0;
}

static void add_free(struct heap *heap, uint32_t id)
{
	struct block *block = &heap->blocks[id];
	uint32_t before = find_by_end(heap, block->start), after = find_by_start(heap, block->start + block->units);
	if (before != NONE) {
		unlink_free(heap, before);
		block->start = heap->blocks[before].start;
		block->units += heap->blocks[before].units;
		give_block(heap, before);
	}
	if (after != NONE) {
		unlink_free(heap, after);
		block->units += heap->blocks[after].units;
		give_block(heap, after);
	}
	link_free(heap, id);
}

static uint32_t find_in_bin(const struct heap *heap, uint32_t bin, uint32_t units, uint32_t tries)
{
	for (uint32_t id = heap->bins[bin]; id != NONE && tries > 0; id = heap->blocks[id].next, tries--)
		if (heap->blocks[id].units >= units)
			return id;
	return NONE;
}

static uint32_t next_filled_bin(const struct heap *heap, uint32_t bin)
{
	uint32_t word = bin / 64;
	uint64_t bits = heap->bins_filled[word] & (~0ull << (bin % 64));
	while (!bits && ++word < BIN_WORDS)
		bits = heap->bins_filled[word];
	return bits ? word * 64 + (uint32_t)__builtin_ctzll(bits) : NONE;
}

static uint32_t find_fit(const struct heap *heap, uint32_t units)
{
	uint32_t own = bin_of(units);
	uint32_t id = find_in_bin(heap, own, units, NEAR_FIT_TRIES);
	if (id != NONE)
		return id;
	uint32_t larger = next_filled_bin(heap, own + 1);
	return larger != NONE ? heap->bins[larger] : find_in_bin(heap, own, units, UINT32_MAX);
}

static uint32_t units_of(uint32_t bytes)
{
	return bytes ? (uint32_t)(((uint64_t)bytes + HEAP_ALIGN - 1) / HEAP_ALIGN) : 1;
}

uint32_t heap_allocate(struct heap *heap, uint32_t bytes)
{
	uint32_t units = units_of(bytes);
	if (!has_room_for_block(heap))
		return 0;
	uint32_t id = find_fit(heap, units);
	if (id == NONE)
		return 0;
	unlink_free(heap, id);
	struct block *block = &heap->blocks[id];
	uint32_t start = block->start;
	if (block->units == units) {
		give_block(heap, id);
	} else {
		block->units -= units;
		if (units < SMALL_UNITS)
			block->start += units;
		else
			start = block->start + block->units;
		link_free(heap, id);
	}
	heap->used_units += units;
	heap->in_use++;
	return start * HEAP_ALIGN;
}

void heap_release(struct heap *heap, uint32_t place, uint32_t bytes)
{
	if (!place)
		return;
	uint32_t units = units_of(bytes);
	assert(place % HEAP_ALIGN == 0 && place / HEAP_ALIGN + (uint64_t)units <= heap->bytes / HEAP_ALIGN);
	assert(heap->in_use > 0 && heap->used_units >= units);
	uint32_t id = take_block(heap, place / HEAP_ALIGN, units);
	heap->blocks[id].next = heap->fresh;
	heap->fresh = id;
	heap->in_use--;
	heap->used_units -= units;
	heap->waiting_units += units;
}

void heap_settle(struct heap *heap)
{
	if (heap->older != NONE && heap->reuses) {
		__atomic_fetch_add(heap->reuses, 1, __ATOMIC_RELEASE);
		/* Whoever sees a byte that is written from here on also sees the number. */
		__atomic_thread_fence(__ATOMIC_RELEASE);
	}
	while (heap->older != NONE) {
		uint32_t id = heap->older;
		heap->older = heap->blocks[id].next;
		heap->waiting_units -= heap->blocks[id].units;
		add_free(heap, id);
	}
	heap->older = heap->fresh;
	heap->fresh = NONE;
}

void heap_get_stats(const struct heap *heap, struct heap_stats *ret)
{
	*ret = (struct heap_stats){
		.bytes = heap->bytes,
		.used = heap->used_units * HEAP_ALIGN,
		.waiting = heap->waiting_units * HEAP_ALIGN,
		.mapped = (uint64_t)heap->mapped_count * HEAP_WINDOW_BYTES,
	};
	uint32_t last = NONE, largest = 0;
	for (uint32_t bin = next_filled_bin(heap, 0); bin != NONE; bin = next_filled_bin(heap, bin + 1))
		last = bin;
	for (uint32_t id = last == NONE ? NONE : heap->bins[last]; id != NONE; id = heap->blocks[id].next)
		if (heap->blocks[id].units > largest)
			largest = heap->blocks[id].units;
	ret->largest_free = (uint64_t)largest * HEAP_ALIGN;
}

/* ---- windows ---- */

static uint8_t *map_window(struct heap *heap, uint32_t window)
{
	if (!heap->windows[window]) {
		void *at = mmap(NULL, HEAP_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, heap->fd,
				(off_t)window * HEAP_WINDOW_BYTES);
		if (at == MAP_FAILED)
			return NULL;
		heap->windows[window] = at;
		heap->mapped_count++;
	}
	heap->touched[window] = WINDOW_TOUCHED;
	return heap->windows[window];
}

const uint8_t *heap_at(struct heap *heap, uint32_t place)
{
	if (place >= heap->bytes)
		return NULL;
	const uint8_t *window = map_window(heap, place / HEAP_WINDOW_BYTES);
	return window ? window + place % HEAP_WINDOW_BYTES : NULL;
}

static void unmap_window(struct heap *heap, uint32_t window)
{
	if (!heap->windows[window])
		return;
	munmap(heap->windows[window], HEAP_WINDOW_BYTES);
	heap->windows[window] = NULL;
	heap->mapped_count--;
}

int heap_write(struct heap *heap, uint32_t place, const void *data, uint32_t bytes, struct error *err)
{
	if (place > heap->bytes || bytes > heap->bytes - place)
		return error_set(err, -ERANGE, "%u bytes at %u lie outside of the table heap of %u", bytes, place, heap->bytes);
	const uint8_t *from = data;
	bool is_large = bytes > LARGE_WINDOWS * HEAP_WINDOW_BYTES;
	while (bytes > 0) {
		uint32_t at = place % HEAP_WINDOW_BYTES, part = HEAP_WINDOW_BYTES - at, number = place / HEAP_WINDOW_BYTES;
		bool was_mapped = heap->windows[number] != NULL;
		uint8_t *window = map_window(heap, number);
		if (!window)
			return error_set_errno(err, -errno, "cannot map the table heap");
		if (part > bytes)
			part = bytes;
		memcpy(window + at, from, part);
		if (is_large && !was_mapped) /* else a table of megabytes would be in memory twice until the next trim */
			unmap_window(heap, number);
		from += part;
		place += part;
		bytes -= part;
	}
	return 0;
}

void heap_trim(struct heap *heap, size_t keep)
{
	while ((uint64_t)heap->mapped_count * HEAP_WINDOW_BYTES > keep) {
		if (heap->touched[heap->hand] == WINDOW_UNTOUCHED)
			unmap_window(heap, heap->hand);
		heap->touched[heap->hand] = WINDOW_UNTOUCHED;
		heap->hand = (heap->hand + 1) % heap->window_count;
	}
}

/* ---- life ---- */

/* Ordinary memory is a file as well, so that there is one way to map it. */
static int open_memory(uint32_t bytes, struct error *err)
{
	int fd = memfd_create("wick-heap", MFD_CLOEXEC);
	if (fd < 0)
		return error_set_errno(err, -errno, "cannot create memory for the table heap");
	int r = io_truncate(fd, bytes, "the table heap", err);
	if (r < 0) {
		io_close(fd);
		return r;
	}
	return fd;
}

static int set_up(struct heap *heap, int map_fd, struct error *err)
{
	heap->windows = mem_zalloc_array(heap->window_count, sizeof(*heap->windows));
	heap->touched = mem_zalloc_array(heap->window_count, 1);
	if (!heap->windows || !heap->touched || grow_blocks(heap, BLOCKS_FIRST) < 0)
		return error_nomem(err);
	heap->own_fd = map_fd < 0;
	heap->fd = heap->own_fd ? open_memory(heap->bytes, err) : map_fd;
	if (heap->fd < 0)
		return heap->fd;
	if (!map_window(heap, 0))
		return error_set_errno(err, -errno, "cannot map the table heap");
	link_free(heap, take_block(heap, 1, heap->bytes / HEAP_ALIGN - 1));
	return 0;
}

int heap_new(int map_fd, uint32_t bytes, uint32_t *reuses, struct heap **ret, struct error *err)
{
	if (bytes == 0 || bytes % HEAP_WINDOW_BYTES)
		return error_set(err, -EINVAL, "the table heap's size, %u bytes, must be a multiple of %u", bytes,
				 HEAP_WINDOW_BYTES);
	_cleanup_(heap_freep) struct heap *heap = mem_zalloc(sizeof(*heap));
	if (!heap)
		return error_nomem(err);
	heap->fd = -1;
	heap->bytes = bytes;
	heap->reuses = reuses;
	heap->window_count = bytes / HEAP_WINDOW_BYTES;
	heap->unused = heap->fresh = heap->older = NONE;
	memset(heap->bins, 0xff, sizeof(heap->bins));
	int r = set_up(heap, map_fd, err);
	if (r < 0)
		return r;
	*ret = TAKE(heap);
	return 0;
}

struct heap *heap_free(struct heap *heap)
{
	if (!heap)
		return NULL;
	for (uint32_t i = 0; heap->windows && i < heap->window_count; i++)
		unmap_window(heap, i);
	if (heap->own_fd)
		io_close(heap->fd);
	mem_free(heap->windows);
	mem_free(heap->touched);
	mem_free(heap->blocks);
	mem_free(heap->by_start);
	mem_free(heap->by_end);
	return mem_free(heap);
}
