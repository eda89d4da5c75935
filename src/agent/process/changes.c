// SPDX-License-Identifier: Apache-2.0
#include "agent/process/changes.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

struct mapping_changes *mapping_changes_ref(struct mapping_changes *changes)
{
	if (changes)
		changes->references++;
	return changes;
}

struct mapping_changes *mapping_changes_unref(struct mapping_changes *changes)
{
	if (!changes || --changes->references > 0)
		return NULL;
	return mem_free(changes);
}

static int own(struct mapping_changes **changes)
{
	struct mapping_changes *old = *changes;

	if (old && old->references == 1)
		return 0;
	struct mapping_changes *copy = mem_zalloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (old)
		*copy = *old;
	copy->references = 1;
	mapping_changes_unref(old);
	*changes = copy;
	return 0;
}

static void drop_settled(struct mapping_changes *changes, uint32_t settled)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < changes->count; i++)
		if (version_is_after(changes->items[i].version, settled))
			changes->items[kept++] = changes->items[i];
	changes->count = kept;
}

static void remove_items(struct mapping_changes *changes, uint32_t from, uint32_t to)
{
	memmove(&changes->items[from], &changes->items[to], (changes->count - to) * sizeof(*changes->items));
	changes->count -= to - from;
}

/* The later version counts for both: it was after either change that the memory was what it is now. */
static void join_nearest(struct mapping_changes *changes)
{
	struct mapping_change *items = changes->items;
	uint32_t at = 0;

	for (uint32_t i = 1; i + 1 < changes->count; i++)
		if (items[i + 1].start - items[i].end < items[at + 1].start - items[at].end)
			at = i;
	items[at].end = items[at + 1].end;
	if (version_is_after(items[at + 1].version, items[at].version))
		items[at].version = items[at + 1].version;
	remove_items(changes, at + 1, at + 2);
}

int mapping_changes_add(struct mapping_changes **changes, uint64_t start, uint64_t end, uint32_t version, uint32_t settled)
{
	int r = own(changes);

	if (r < 0)
		return r;
	struct mapping_changes *all = *changes;
	struct mapping_change added = {start, end, version};
	uint32_t first = 0, last;
	if (all->count == MAPPING_CHANGES_MAX)
		drop_settled(all, settled);
	while (first < all->count && all->items[first].end < start)
		first++;
	for (last = first; last < all->count && all->items[last].start <= end; last++) {
		added.start = all->items[last].start < added.start ? all->items[last].start : added.start;
		added.end = all->items[last].end > added.end ? all->items[last].end : added.end;
	}
	remove_items(all, first, last);
	memmove(&all->items[first + 1], &all->items[first], (all->count - first) * sizeof(*all->items));
	all->items[first] = added;
	if (++all->count > MAPPING_CHANGES_MAX)
		join_nearest(all);
	return 0;
}

bool mapping_changes_since(const struct mapping_changes *changes, uint32_t version, uint64_t address)
{
	for (uint32_t i = 0; changes && i < changes->count; i++) {
		const struct mapping_change *item = &changes->items[i];
		if (address < item->start)
			return false;
		if (address < item->end)
			return version_is_after(item->version, version);
	}
	return false;
}
