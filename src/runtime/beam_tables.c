// SPDX-License-Identifier: Apache-2.0
/*
 * The table of modules of a process with BEAM in it. There are three, one for each index: when modules are loaded, a copy is
 * changed, and then the index is. So a table may be freed while it is read: whoever reads it looks at the index once more
 * afterwards. Nothing in it is believed: ranges have to be in order, and to lie apart.
 */
#include <errno.h>

#include "base/alloc.h"
#include "runtime/beam.h"

#define TABLES	     3u
#define READ_TRIES   3u
#define MARGIN_BYTES (64ull << 20) /* code that is made next lies not far from the other */
#define THREAD_KEYS  0x310u	   /* specific_1stblock in glibc's struct pthread */
#define KEYS_MAX     32u

struct table {
	uint64_t modules;
	int64_t count, allocated;
	uint64_t middle;
};

void beam_modules_release(struct beam_modules *modules)
{
	modules->items = mem_free(modules->items);
	modules->count = modules->readings = 0;
}

static int read_table(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory, uint32_t *ret_index,
		      struct table *ret)
{
	int r = memory->read(memory->context, build->index + bias, ret_index, sizeof(*ret_index));
	if (r == 0 && *ret_index >= TABLES)
		return -EBADMSG;
	if (r == 0)
		r = memory->read(memory->context, build->ranges + bias + *ret_index * sizeof(*ret), ret, sizeof(*ret));
	if (r < 0)
		return r;
	if (!ret->modules && !ret->count)
		return -EAGAIN;
	if (ret->count < 0 || ret->count > ret->allocated || ret->count > BEAM_MODULES_MAX || ret->modules & 7)
		return -EBADMSG;
	return ret->count ? 0 : -EAGAIN;
}

struct pair {
	uint64_t start, end;
};

/* Takes over what is loaded: the range of a module that was unloaded is empty. */
static int take_pairs(const struct beam_modules *before, const struct pair *pairs, size_t count, struct beam_range *items,
		      size_t *ret_kept)
{
	uint64_t reading = before->readings + 1;
	size_t kept = 0, old = 0;

	for (size_t i = 0; i < count; i++) {
		const struct pair *pair = &pairs[i];
		if (pair->start > pair->end || pair->end >> 56 || (kept && pair->start < items[kept - 1].end))
			return -EBADMSG;
		if (pair->start == pair->end)
			continue;
		while (old < before->count && before->items[old].start < pair->start)
			old++;
		bool is_known =
			old < before->count && before->items[old].start == pair->start && before->items[old].end == pair->end;
		items[kept++] = (struct beam_range){pair->start, pair->end, is_known ? before->items[old].since : reading};
	}
	*ret_kept = kept;
	return kept ? 0 : -EAGAIN;
}

/* The table that is in use, as raw pairs: owned by the caller. */
static int read_pairs(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory, struct pair **ret,
		      size_t *ret_count)
{
	_cleanup_(mem_freep) struct pair *pairs = NULL;
	uint32_t index = 0, after = 0;
	struct table table;
	int r = -EAGAIN;

	for (uint32_t i = 0; i < READ_TRIES; i++) {
		r = read_table(build, bias, memory, &index, &table);
		if (r < 0)
			return r;
		*ret_count = (size_t)table.count;
		mem_free(pairs);
		pairs = mem_alloc(*ret_count * sizeof(*pairs));
		if (!pairs)
			return -ENOMEM;
		r = memory->read(memory->context, table.modules, pairs, *ret_count * sizeof(*pairs));
		if (memory->read(memory->context, build->index + bias, &after, sizeof(after)) == 0 && after == index)
			break;
	}
	*ret = pairs;
	pairs = NULL;
	return r;
}

int beam_read_modules(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory,
		      struct beam_modules *modules)
{
	_cleanup_(mem_freep) struct pair *pairs = NULL;
	size_t count = 0, kept;

	int r = read_pairs(build, bias, memory, &pairs, &count);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) struct beam_range *items = mem_alloc(count * sizeof(*items));
	if (!items)
		return -ENOMEM;
	r = take_pairs(modules, pairs, count, items, &kept);
	if (r < 0)
		return r;
	mem_free(modules->items);
	*modules = (struct beam_modules){items, kept, modules->readings + 1};
	items = NULL;
	return 0;
}

const struct beam_range *beam_find_module(const struct beam_modules *modules, uint64_t pc)
{
	size_t low = 0, high = modules->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (pc < modules->items[middle].start)
			high = middle;
		else if (pc >= modules->items[middle].end)
			low = middle + 1;
		else
			return &modules->items[middle];
	}
	return NULL;
}

int beam_place(const struct beam_build *build, uint64_t bias, const struct runtime_memory *memory,
	       const struct beam_modules *modules, struct beam_process *ret)
{
	uint64_t exit = 0, low = modules->items[0].start, high = modules->items[modules->count - 1].end;

	int r = memory->read(memory->context, build->normal_exit + bias, &exit, sizeof(exit));
	if (r < 0 || !exit)
		return r < 0 ? r : -EAGAIN;
	if (exit >> 56 || exit & 3 || beam_find_module(modules, exit))
		return -EBADMSG;
	low = exit < low ? exit : low;
	high = exit > high ? exit : high;
	*ret = (struct beam_process){
		.kind = RUNTIME_KIND_BEAM,
		.low = low > MARGIN_BYTES ? low - MARGIN_BYTES : 0,
		.high = high + MARGIN_BYTES,
		.normal_exit = exit,
		.key = build->key + bias,
		.thread_keys = THREAD_KEYS,
		.keys_max = KEYS_MAX,
		.data_process = build->layout.data_process,
	};
	ret->shared_start = ret->low;
	ret->shared_end = ret->high;
	for (size_t i = 0; i < modules->count; i++) {
		if (modules->items[i].end <= exit)
			ret->shared_start = modules->items[i].end;
		else if (modules->items[i].start < ret->shared_end)
			ret->shared_end = modules->items[i].start;
	}
	return 0;
}
