// SPDX-License-Identifier: Apache-2.0
/*
 * Lists of mappings: sorted arrays, shared copy-on-write by processes that forked from each other, as their memory is. An array
 * was preferred to a tree: a list is read far more often than it changes, most have some thirty entries, and moving the tail of
 * the longest that is allowed takes less than a millisecond.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "agent/process/process.h"
#include "base/alloc.h"
#include "base/sorted.h"

#define SETTLE_ONCE_S  2u
#define SETTLE_OFTEN_S 60u

void mapping_list_leave_heap(struct mapping_list *list)
{
	if (list->place)
		heap_release(list->heap, list->place, list->place_bytes);
	list->place = 0;
}

struct mapping_list *mapping_list_unref(struct mapping_list *list)
{
	if (!list || --list->references > 0)
		return NULL;
	mapping_list_leave_heap(list);
	mem_free(list->items);
	return mem_free(list);
}

/* The first item that ends behind the address. */
static size_t first_behind(const struct mapping_list *list, uint64_t address)
{
	return sorted_count_up_to(list->items, list->count, end, address);
}

struct process_mapping *mapping_list_find_item(struct mapping_list *list, uint64_t address)
{
	if (!list)
		return NULL;
	size_t at = first_behind(list, address);
	return at < list->count && list->items[at].start <= address ? &list->items[at] : NULL;
}

const struct process_mapping *mapping_list_find(const struct mapping_list *list, uint64_t address)
{
	return mapping_list_find_item((struct mapping_list *)list, address);
}

bool mapping_list_equals(const struct mapping_list *a, const struct mapping_list *b)
{
	size_t count = a ? a->count : 0;

	if (a == b || count != (b ? b->count : 0))
		return a == b;
	for (size_t i = 0; i < count; i++) {
		const struct process_mapping *x = &a->items[i], *y = &b->items[i];
		if (x->start != y->start || x->end != y->end || x->offset != y->offset || x->binary != y->binary)
			return false;
	}
	return true;
}

/* Both cover some address; true if they disagree about what it means. */
static bool disagree(const struct process_mapping *a, const struct process_mapping *b)
{
	return a->binary != b->binary || a->offset - a->start != b->offset - b->start;
}

int mapping_list_compare(const struct mapping_list *a, const struct mapping_list *b, mapping_change_function *on_change,
			 void *context)
{
	size_t i = 0, k = 0;
	int r = 0;

	while (a && b && i < a->count && k < b->count && r >= 0) {
		const struct process_mapping *x = &a->items[i], *y = &b->items[k];
		uint64_t start = x->start > y->start ? x->start : y->start, end = x->end < y->end ? x->end : y->end;
		if (start < end && disagree(x, y))
			r = on_change(context, start, end);
		i += x->end <= y->end;
		k += y->end <= x->end;
	}
	return r < 0 ? r : 0;
}

/* Makes *list a list of its own with room for `more` items. */
static int own(struct mapping_list **list, size_t more)
{
	struct mapping_list *old = *list;
	size_t count = old ? old->count : 0, need = count + more;

	if (need > PROCESS_MAPPINGS_MAX)
		return -E2BIG;
	if (old && old->references == 1)
		return array_reserve(&old->items, &old->capacity, need, PROCESS_MAPPINGS_MAX);
	struct mapping_list *copy = mem_zalloc(sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	copy->references = 1;
	int r = array_reserve(&copy->items, &copy->capacity, need, PROCESS_MAPPINGS_MAX);
	if (r < 0) {
		mapping_list_unref(copy);
		return r;
	}
	if (count)
		memcpy(copy->items, old->items, count * sizeof(*copy->items));
	copy->count = count;
	if (old)
		copy->reads = old->reads;
	mapping_list_unref(old);
	*list = copy;
	return 0;
}

int mapping_list_unshare(struct mapping_list **list)
{
	return *list ? own(list, 0) : 0;
}

static bool continues(const struct process_mapping *a, const struct process_mapping *b)
{
	return a->binary == b->binary && a->end == b->start && a->offset + (b->start - a->start) == b->offset;
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Replaced now: once, or again and again? */
static uint32_t settles_at(uint32_t before_s, uint32_t now_s)
{
	return now_s + (before_s && now_s < before_s + SETTLE_OFTEN_S ? SETTLE_OFTEN_S : SETTLE_ONCE_S);
}

int mapping_list_insert(struct mapping_list **list, const struct process_mapping *mapping, bool *ret_replaced)
{
	struct process_mapping parts[3];
	size_t part_count = 0, first, last;
	bool replaced = false;

	assert(mapping->start < mapping->end);
	int r = own(list, 2);
	if (r < 0)
		return r;
	struct mapping_list *own_list = *list;
	struct process_mapping *items = own_list->items;
	first = first_behind(own_list, mapping->start);
	uint32_t settles_s = 0;
	for (last = first; last < own_list->count && items[last].start < mapping->end; last++) {
		replaced = replaced || disagree(&items[last], mapping);
		settles_s = later(settles_s, items[last].settles_s);
	}
	if (replaced)
		settles_s = settles_at(settles_s, mapping->settles_s);

	if (last > first && items[first].start < mapping->start) {
		parts[part_count] = items[first];
		parts[part_count++].end = mapping->start;
	} else if (first > 0 && continues(&items[first - 1], mapping)) {
		parts[part_count++] = items[--first];
	}
	if (part_count && continues(&parts[0], mapping)) {
		parts[0].end = mapping->end;
		parts[0].settles_s = later(parts[0].settles_s, settles_s);
	} else {
		parts[part_count] = *mapping;
		parts[part_count++].settles_s = settles_s;
	}
	if (last > first && items[last - 1].end > mapping->end) {
		struct process_mapping rest = items[last - 1];
		rest.offset += mapping->end - rest.start;
		rest.start = mapping->end;
		if (continues(&parts[part_count - 1], &rest))
			parts[part_count - 1].end = rest.end;
		else
			parts[part_count++] = rest;
	}
	memmove(&items[first + part_count], &items[last], (own_list->count - last) * sizeof(*items));
	memcpy(&items[first], parts, part_count * sizeof(*items));
	own_list->count = own_list->count - (last - first) + part_count;
	own_list->changed = true;
	*ret_replaced = replaced;
	return 0;
}

int mapping_list_trim(struct mapping_list *list)
{
	if (!list || list->count == list->capacity)
		return 0;
	void *items = mem_realloc_array(list->items, list->count, sizeof(*list->items));
	if (!items)
		return -ENOMEM;
	list->items = items;
	list->capacity = list->count;
	return 0;
}
