// SPDX-License-Identifier: Apache-2.0
/*
 * The loop's cold part. Compilers move what they think is rarely run (errors, and more with profile feedback) to another place,
 * with a local symbol, NAME.cold, which stripped files lack. There it is found by the loop's jumps: the range of call frame
 * information that several of them lead into, other than to its start.
 */
#include "runtime/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"

#define LOOP_BYTES_MIN	   4096u
#define LOOP_BYTES_MAX	   (4u * MIB)
#define HEADER_BYTES_MAX   (64u * MIB) /* of .eh_frame_hdr */
#define COLD_JUMPS_MIN	   3u
#define COLD_BYTES_MAX	   (1u * MIB)
#define TARGETS_MAX	   65536u
#define SEARCHED_BYTES_MAX (64u * 1024) /* of a function on the way to the loop, and of the loop */

int loop_read(struct elf_file *file, uint64_t address, void *to, size_t len)
{
	uint64_t offset;

	if (!elf_file_find_loaded(file, address, &offset))
		return -ENOENT;
	return elf_file_read(file, offset, to, len, NULL);
}

size_t loop_read_function(struct elf_file *file, uint64_t address, uint8_t *to, size_t len)
{
	for (; address && len >= 16; len /= 2)
		if (loop_read(file, address, to, len) == 0)
			return len;
	return 0;
}

int loop_find_any(struct elf_file *file, const char *runtime, struct loop_code *ret, struct error *err)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *segment = &file->segments[i];
		if (!elf_segment_is_executed(segment) || !segment->file_size)
			continue;
		ret->start = segment->address;
		ret->end = segment->address + segment->file_size;
		ret->offset = segment->offset;
		return 0;
	}
	return error_set(err, -ENOTSUP, "%s without code", runtime);
}

/* .eh_frame_hdr with its usual encoding: a sorted table of {start, entry}, both relative to the section. */
struct frame_index {
	uint8_t *data; /* owned */
	size_t count;
	uint64_t address; /* of the section */
};

static int32_t index_item(const struct frame_index *index, size_t i, unsigned half)
{
	int32_t value;

	memcpy(&value, index->data + 12 + i * 8 + (size_t)half * 4, sizeof(value));
	return value;
}

static int read_index(struct elf_file *file, struct frame_index *ret)
{
	const struct elf_section *section = elf_file_find_contents(file, ".eh_frame_hdr");
	static const uint8_t usual[] = {1, 0x1b, 0x03, 0x3b};
	struct bytes data;
	uint32_t count;

	if (!section || elf_file_read_section(file, section, HEADER_BYTES_MAX, &data, NULL) < 0)
		return -ENOENT;
	ret->data = (uint8_t *)data.data;
	ret->address = section->address;
	if (data.len < 12 || memcmp(data.data, usual, sizeof(usual)) != 0)
		return -ENOENT;
	memcpy(&count, data.data + 8, sizeof(count));
	ret->count = count < (data.len - 12) / 8 ? count : (data.len - 12) / 8;
	return 0;
}

/* The entry that an address may belong to: the last one that begins at or before it; -1 = none. */
static ptrdiff_t index_find(const struct frame_index *index, uint64_t address)
{
	size_t low = 0, high = index->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (index->address + (uint64_t)(int64_t)index_item(index, middle, 0) <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return (ptrdiff_t)low - 1;
}

/* [*ret_start, *ret_end): the code that an entry speaks of. */
static bool index_range(struct elf_file *file, const struct frame_index *index, size_t i, uint64_t *ret_start,
			uint64_t *ret_end)
{
	uint64_t entry = index->address + (uint64_t)(int64_t)index_item(index, i, 1);
	int32_t head[4]; /* length, CIE, start relative to itself, size */

	*ret_start = index->address + (uint64_t)(int64_t)index_item(index, i, 0);
	if (loop_read(file, entry, head, sizeof(head)) < 0 || entry + 8 + (uint64_t)(int64_t)head[2] != *ret_start ||
	    head[3] <= 0)
		return false;
	*ret_end = *ret_start + (uint32_t)head[3];
	return true;
}

bool loop_find_range(struct elf_file *file, uint64_t address, uint64_t *ret_start, uint64_t *ret_end)
{
	struct frame_index index = {0};

	int r = read_index(file, &index);
	_cleanup_(mem_freep) uint8_t *owned = index.data;
	ptrdiff_t entry = r < 0 ? -1 : index_find(&index, address);
	return entry >= 0 && index_range(file, &index, (size_t)entry, ret_start, ret_end) && address < *ret_end;
}

static int compare_entries(const void *a, const void *b)
{
	return ORDER(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* The entry whose code holds an address, but not at its start; -1 = none. What lies behind all code has none. */
static ptrdiff_t find_inside(struct elf_file *file, const struct frame_index *index, uint64_t address)
{
	ptrdiff_t entry = index_find(index, address);
	uint64_t start, end;

	if (entry < 0 || !index_range(file, index, (size_t)entry, &start, &end))
		return -1;
	return address > start && address < end ? entry : -1;
}

/* The entries outside of the loop that jumps in it lead into, but for those to the entry's start, which are calls of another
 * function at the end of this one. Bytes that are taken for jumps and are none lead anywhere, mostly to where no code is. */
static size_t find_targets(struct elf_file *file, const struct frame_index *index, const uint8_t *code, size_t len,
			   uint64_t start, uint32_t *targets)
{
	size_t count = 0;

	for (size_t i = 0; i + 6 <= len && count < TARGETS_MAX; i++) {
		bool is_jump = code[i] == 0xe9, is_conditional = code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80;
		if (!is_jump && !is_conditional)
			continue;
		size_t at = i + (is_jump ? 1 : 2);
		int32_t distance;
		memcpy(&distance, code + at, sizeof(distance));
		uint64_t target = start + at + 4 + (uint64_t)(int64_t)distance;
		ptrdiff_t entry = target - start < len ? -1 : find_inside(file, index, target);
		if (entry >= 0)
			targets[count++] = (uint32_t)entry;
	}
	return count;
}

static void find_cold(struct elf_file *file, const uint8_t *code, size_t len, struct loop_code *loop)
{
	struct frame_index index = {0};
	size_t best = 0, best_count = 0, run = 0;
	uint64_t start, end;

	int r = read_index(file, &index);
	_cleanup_(mem_freep) uint8_t *owned = index.data;
	_cleanup_(mem_freep) uint32_t *targets = mem_alloc_array(TARGETS_MAX, sizeof(*targets));
	if (r < 0 || !targets)
		return;
	size_t count = find_targets(file, &index, code, len, loop->start, targets);
	if (!count)
		return;
	qsort(targets, count, sizeof(*targets), compare_entries);
	for (size_t i = 0; i < count; i++) {
		run = i && targets[i] == targets[i - 1] ? run + 1 : 1;
		if (run > best_count) {
			best_count = run;
			best = targets[i];
		}
	}
	if (best_count < COLD_JUMPS_MIN || !index_range(file, &index, best, &start, &end) || end - start > COLD_BYTES_MAX)
		return;
	loop->cold_start = start;
	loop->cold_end = end;
}

int loop_find(struct elf_file *file, const struct elf_named *loop, const struct elf_named *cold, const char *runtime,
	      struct loop_code *ret, struct error *err)
{
	*ret = (struct loop_code){.start = loop->address, .end = loop->address + loop->size};
	if (!elf_file_find_loaded(file, loop->address, &ret->offset))
		return error_set(err, -ENOTSUP, "%s whose %s is not in the file", runtime, loop->name);
	if (loop->size < (cold ? LOOP_BYTES_MIN : 1) || loop->size > LOOP_BYTES_MAX)
		return error_set(err, -ENOTSUP, "%s whose %s has %llu bytes", runtime, loop->name,
				 (unsigned long long)loop->size);
	if (!cold)
		return 0;
	if (cold->address && cold->size && cold->size <= COLD_BYTES_MAX) {
		ret->cold_start = cold->address;
		ret->cold_end = cold->address + cold->size;
		return 0;
	}
	_cleanup_(mem_freep) uint8_t *code = mem_alloc(loop->size);
	if (!code)
		return error_nomem(err);
	if (file->machine == EM_X86_64 && loop_read(file, loop->address, code, loop->size) == 0)
		find_cold(file, code, loop->size, ret);
	return 0;
}

/* ---- the loop itself ---- */

struct search {
	struct elf_file *file;
	struct frame_index index;
	uint8_t *depths; /* of each entry, 1 + how deep it was met; 0 = not yet */
	uint32_t *queue;
	size_t queued;
};

static void meet_entry(struct search *search, uint64_t address, unsigned depth)
{
	ptrdiff_t entry = index_find(&search->index, address);
	uint64_t start, end;

	if (entry < 0 || search->depths[entry] || search->queued == TARGETS_MAX ||
	    !index_range(search->file, &search->index, (size_t)entry, &start, &end) || start != address)
		return;
	search->depths[entry] = (uint8_t)(depth + 1);
	search->queue[search->queued++] = (uint32_t)entry;
}

/* Meets what a function calls, or jumps to the start of. Whether it jumps to where a register says. */
static bool go_through(struct search *search, uint64_t start, const uint8_t *code, size_t len, unsigned depth)
{
	bool jumps = false;

	for (size_t i = 0; i + 5 <= len; i++) {
		int32_t distance;
		if (code[i] == 0xff && (code[i + 1] & 0xf8) == 0xe0)
			jumps = true;
		if ((code[i] != 0xe8 && code[i] != 0xe9) || depth > LOOP_CALLS_DEPTH)
			continue;
		memcpy(&distance, code + i + 1, sizeof(distance));
		uint64_t target = start + i + 5 + (uint64_t)(int64_t)distance;
		if (target - start >= len)
			meet_entry(search, target, depth);
	}
	return jumps;
}

static void search_all(struct search *search, struct elf_named *ret)
{
	for (size_t i = 0; i < search->queued; i++) {
		uint32_t entry = search->queue[i];
		uint64_t start, end;
		if (!index_range(search->file, &search->index, entry, &start, &end) || end - start > SEARCHED_BYTES_MAX)
			continue;
		size_t len = (size_t)(end - start);
		_cleanup_(mem_freep) uint8_t *code = mem_alloc(len);
		if (!code || loop_read(search->file, start, code, len) < 0)
			continue;
		bool jumps = go_through(search, start, code, len, search->depths[entry]);
		if (jumps && len >= LOOP_BYTES_MIN && len > ret->size) {
			ret->address = start;
			ret->size = len;
		}
	}
}

bool loop_search(struct elf_file *file, uint64_t from, struct elf_named *ret)
{
	struct search search = {.file = file};

	ret->address = ret->size = 0;
	if (file->machine != EM_X86_64)
		return false;
	int r = read_index(file, &search.index);
	_cleanup_(mem_freep) uint8_t *owned = search.index.data;
	if (r < 0 || !search.index.count)
		return false;
	_cleanup_(mem_freep) uint8_t *depths = mem_zalloc(search.index.count);
	_cleanup_(mem_freep) uint32_t *queue = mem_alloc_array(TARGETS_MAX, sizeof(*queue));
	if (!depths || !queue)
		return false;
	search.depths = depths;
	search.queue = queue;
	meet_entry(&search, from, 0);
	search_all(&search, ret);
	return ret->size > 0;
}
