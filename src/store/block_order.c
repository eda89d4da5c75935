/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of things in a block.
 *
 * Series by type, service and labels, so that what is asked for together lies together.
 *
 * Stacks in depth-first order of their trie: a stack's callees follow it, so the stacks of one service lie close together and
 * parents are near. Both make small differences, which is what the columns are made of. Stacks that no sample needs are left
 * out.
 *
 * Samples by (series, time, stack): distributed to their series by counting, which keeps the order of arrival; sorted by time
 * inside a series only where late data makes it necessary; then by stack inside one time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/block_write_int.h"

/* ---- series ---- */

static int compare_order(const void *a, const void *b, void *context)
{
	const struct head *head = context;
	return series_compare(&head->series[*(const uint32_t *)a], &head->series[*(const uint32_t *)b]);
}

int block_order_series(struct writing *writing)
{
	const struct head *head = writing->head;
	writing->order = mem_alloc_array(head->series_count, sizeof(*writing->order));
	writing->ranks = mem_zalloc_array(head->series_count, sizeof(*writing->ranks));
	if (!writing->order || !writing->ranks)
		return error_nomem(writing->err);
	for (size_t i = 0; i < head->series_count; i++)
		if (head->series[i].samples)
			writing->order[writing->series_count++] = (uint32_t)i;
	if (writing->series_count)
		qsort_r(writing->order, writing->series_count, sizeof(*writing->order), compare_order, writing->head);
	for (size_t i = 0; i < writing->series_count; i++)
		writing->ranks[writing->order[i]] = (uint32_t)i;
	return 0;
}

/* ---- stacks ---- */

/* Children of each stack as linked lists, the first-seen child first. */
struct children {
	uint32_t *first, *next;
};

/* Marks what samples refer to, and all their callers. */
static void mark_needed(const struct head *head, uint8_t *needed)
{
	const struct profile *pool = head->pool;
	needed[0] = 1;
	for (size_t i = 0; i < head->count; i++)
		needed[head->stacks[i]] = 1;
	for (size_t i = pool->stack_count; i-- > 1;)
		needed[pool->stacks[i].parent] |= needed[i];
}

static void link_children(const struct profile *pool, const uint8_t *needed, struct children *children)
{
	for (size_t i = pool->stack_count; i-- > 1;) {
		uint32_t parent = pool->stacks[i].parent;
		if (!needed[i])
			continue;
		children->next[i] = children->first[parent];
		children->first[parent] = (uint32_t)i;
	}
}

/* Numbers the needed stacks in depth-first order. Walks along first children and next siblings, up again over parents. */
static void number_stacks(struct writing *writing, const struct children *children)
{
	const struct profile *pool = writing->head->pool;
	uint32_t at = 0;
	for (;;) {
		writing->stack_ranks[at] = (uint32_t)writing->stack_count;
		writing->stack_ids[writing->stack_count++] = at;
		if (children->first[at]) {
			at = children->first[at];
			continue;
		}
		while (at && !children->next[at])
			at = pool->stacks[at].parent;
		if (at == 0)
			return;
		at = children->next[at];
	}
}

int block_order_stacks(struct writing *writing)
{
	const struct head *head = writing->head;
	size_t count = head->pool->stack_count;
	_cleanup_(mem_freep) uint8_t *needed = mem_zalloc(count);
	_cleanup_(mem_freep) uint32_t *first = mem_zalloc_array(count, sizeof(*first));
	_cleanup_(mem_freep) uint32_t *next = mem_zalloc_array(count, sizeof(*next));
	writing->stack_ranks = mem_zalloc_array(count, sizeof(*writing->stack_ranks));
	writing->stack_ids = mem_alloc_array(count, sizeof(*writing->stack_ids));
	writing->stack_used = mem_zalloc(count);
	if (!needed || !first || !next || !writing->stack_ranks || !writing->stack_ids || !writing->stack_used)
		return error_nomem(writing->err);
	struct children children = {first, next};
	mark_needed(head, needed);
	link_children(head->pool, needed, &children);
	number_stacks(writing, &children);
	for (size_t i = 0; i < head->count; i++)
		writing->stack_used[writing->stack_ranks[head->stacks[i]]] = 1;
	return 0;
}

/* ---- samples ---- */

/* Sorts by the upper 32 bits, keeping the order of equal ones; both arrays have count entries. The result is in `keys`. */
static void sort_by_high(uint64_t *keys, uint64_t *spare, size_t count)
{
	if (count < 32) {
		for (size_t i = 1; i < count; i++) {
			uint64_t key = keys[i];
			size_t at = i;
			for (; at > 0 && keys[at - 1] >> 32 > key >> 32; at--)
				keys[at] = keys[at - 1];
			keys[at] = key;
		}
		return;
	}
	for (unsigned shift = 32; shift < 64; shift += 8) {
		size_t starts[257] = {0};
		for (size_t i = 0; i < count; i++)
			starts[(keys[i] >> shift & 255) + 1]++;
		bool all_same = starts[(keys[0] >> shift & 255) + 1] == count;
		if (all_same)
			continue;
		for (size_t i = 1; i < 257; i++)
			starts[i] += starts[i - 1];
		for (size_t i = 0; i < count; i++)
			spare[starts[keys[i] >> shift & 255]++] = keys[i];
		memcpy(keys, spare, count * sizeof(*keys));
	}
}

static int compare_times(const void *a, const void *b, void *context)
{
	const struct head *head = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (head->times[x] != head->times[y])
		return head->times[x] < head->times[y] ? -1 : 1;
	return (x > y) - (x < y);
}

static void sort_one_time(struct writing *writing, uint32_t *rows, size_t count)
{
	const struct head *head = writing->head;
	for (size_t i = 0; i < count; i++)
		writing->keys[i] = (uint64_t)writing->stack_ranks[head->stacks[rows[i]]] << 32 | rows[i];
	sort_by_high(writing->keys, writing->spare, count);
	for (size_t i = 0; i < count; i++)
		rows[i] = (uint32_t)writing->keys[i];
}

static void sort_one_series(struct writing *writing, uint32_t *rows, size_t count)
{
	const struct head *head = writing->head;
	bool sorted = true;
	for (size_t i = 1; i < count && sorted; i++)
		sorted = head->times[rows[i - 1]] <= head->times[rows[i]];
	if (!sorted)
		qsort_r(rows, count, sizeof(*rows), compare_times, writing->head);
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && head->times[rows[to]] == head->times[rows[from]]; to++)
			;
		if (to - from > 1)
			sort_one_time(writing, rows + from, to - from);
	}
}

int block_order_samples(struct writing *writing)
{
	const struct head *head = writing->head;
	_cleanup_(mem_freep) size_t *starts = mem_zalloc_array(writing->series_count + 1, sizeof(*starts));
	writing->rows = mem_alloc_array(head->count, sizeof(*writing->rows));
	writing->keys = mem_alloc_array(head->count, sizeof(*writing->keys));
	writing->spare = mem_alloc_array(head->count, sizeof(*writing->spare));
	if (!starts || !writing->rows || !writing->keys || !writing->spare)
		return error_nomem(writing->err);
	for (size_t i = 0; i < head->count; i++)
		starts[writing->ranks[head->series_ids[i]] + 1]++;
	for (size_t i = 1; i <= writing->series_count; i++)
		starts[i] += starts[i - 1];
	for (size_t i = 0; i < head->count; i++)
		writing->rows[starts[writing->ranks[head->series_ids[i]]]++] = (uint32_t)i;
	/* starts[s] is where series s ends now */
	for (size_t s = 0, from = 0; s < writing->series_count; from = starts[s++])
		sort_one_series(writing, writing->rows + from, starts[s] - from);
	return 0;
}
