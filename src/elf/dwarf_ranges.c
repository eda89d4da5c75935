/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What code an entry stands for: DW_AT_low_pc and DW_AT_high_pc, or a list of ranges.
 *
 *   .debug_ranges (DWARF 2 to 4)   pairs of addresses, relative to a base; (0, 0) ends, (-1, X) makes X the base
 *   .debug_rnglists (DWARF 5)      u8 DW_RLE_* and its operands; found by offset, or by an index into a table of offsets
 *
 * Linkers that leave out a function leave its debug information, with an address that cannot be: 0, -1, -2 (in .debug_ranges,
 * where -1 means something else), 1 (some, there). Whatever does not begin where the file has code is such a tombstone.
 *
 * Making nested ranges flat: the entries of a unit come parents first, so that of all that cover an address the last one is the
 * innermost. Ranges sorted by start are swept, and the last of those that are open (a heap, the latest on top) has the address.
 * A tree that is well formed would need only a stack; this also gives an answer to one that is not, the same one always.
 */
#include <dwarf.h>
#include <errno.h>

#include "base/alloc.h"
#include "base/order.h"
#include "elf/dwarf_int.h"

static int add_span(struct dwarf_reader *reader, const struct dwarf_unit *unit, uint64_t start, uint64_t end)
{
	uint64_t max = dwarf_address_max(unit);
	if (start >= end || start >= max - 1 || end > max || !dwarf_is_code(reader, start))
		return 0;
	int r = array_reserve(&reader->spans, &reader->span_capacity, reader->span_count + 1, DWARF_UNIT_RANGES_MAX);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(reader->err)
				    : error_set(reader->err, r, "%s: a unit has more than %u ranges", reader->options->name,
						DWARF_UNIT_RANGES_MAX);
	reader->spans[reader->span_count] = (struct dwarf_span){start, end, CODE_NONE, (uint32_t)reader->span_count};
	reader->span_count++;
	return 0;
}

static int collect_old(struct dwarf_reader *reader, const struct dwarf_unit *unit, uint64_t offset)
{
	struct dwarf_cursor c = dwarf_cursor_at(unit->ranges, offset);
	uint64_t base = unit->low_pc, max = dwarf_address_max(unit);
	bool is_dead = false;
	for (;;) {
		uint64_t start = dwarf_fixed(&c, unit->address_size), end = dwarf_fixed(&c, unit->address_size);
		if (c.failed || (start == 0 && end == 0))
			return 0; /* a list without an end gives what it has */
		if (start == max) {
			base = end;
			is_dead = base >= max - 1;
			continue;
		}
		int r = is_dead ? 0 : add_span(reader, unit, (start + base) & max, (end + base) & max);
		if (r < 0)
			return r;
	}
}

/* One entry of a list. False at its end. */
static bool next_range(const struct dwarf_unit *unit, struct dwarf_cursor *c, uint64_t *base, uint64_t *start, uint64_t *end)
{
	bool good = true, is_dead;
	*start = *end = 0;
	switch (dwarf_u8(c)) {
	case DW_RLE_base_addressx: good = dwarf_address_at(unit, dwarf_uleb(c), base); break;
	case DW_RLE_startx_endx:
		good = dwarf_address_at(unit, dwarf_uleb(c), start) && dwarf_address_at(unit, dwarf_uleb(c), end);
		break;
	case DW_RLE_startx_length:
		good = dwarf_address_at(unit, dwarf_uleb(c), start);
		*end = *start + dwarf_uleb(c);
		break;
	case DW_RLE_offset_pair:
		*start = dwarf_uleb(c);
		*end = dwarf_uleb(c);
		is_dead = *base >= dwarf_address_max(unit) - 1;
		*start = is_dead ? 0 : *start + *base;
		*end = is_dead ? 0 : *end + *base;
		break;
	case DW_RLE_base_address: *base = dwarf_fixed(c, unit->address_size); break;
	case DW_RLE_start_end:
		*start = dwarf_fixed(c, unit->address_size);
		*end = dwarf_fixed(c, unit->address_size);
		break;
	case DW_RLE_start_length:
		*start = dwarf_fixed(c, unit->address_size);
		*end = *start + dwarf_uleb(c);
		break;
	default: /* DW_RLE_end_of_list, and what is not known */ return false;
	}
	return good && !c->failed;
}

static int collect_new(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_value *value)
{
	uint64_t offset = value->number, base = unit->low_pc, start, end;
	if (value->class == DWARF_CLASS_LIST_INDEX) {
		uint64_t at;
		if (__builtin_mul_overflow(offset, (uint64_t)unit->offset_size, &at) ||
		    __builtin_add_overflow(at, unit->rnglists_base, &at))
			return 0;
		struct dwarf_cursor table = dwarf_cursor_at(unit->rnglists, at);
		offset = dwarf_fixed(&table, unit->offset_size);
		if (table.failed || __builtin_add_overflow(offset, unit->rnglists_base, &offset))
			return 0;
	}
	struct dwarf_cursor c = dwarf_cursor_at(unit->rnglists, offset);
	while (next_range(unit, &c, &base, &start, &end)) {
		int r = add_span(reader, unit, start, end);
		if (r < 0)
			return r;
	}
	return 0;
}

int dwarf_ranges_collect(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_entry *entry)
{
	uint64_t low, high;
	if (dwarf_value_address(unit, &entry->low_pc, &low) && entry->high_pc.class != DWARF_CLASS_NONE) {
		if (entry->high_pc.class == DWARF_CLASS_NUMBER)
			high = low + entry->high_pc.number;
		else if (!dwarf_value_address(unit, &entry->high_pc, &high))
			return 0;
		return add_span(reader, unit, low, high);
	}
	if (entry->ranges.class == DWARF_CLASS_NONE)
		return 0;
	if (unit->version >= 5)
		return collect_new(reader, unit, &entry->ranges);
	return collect_old(reader, unit, entry->ranges.number + unit->ranges_base);
}

/* ---- flat --------------------------------------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_spans, struct dwarf_span, ORDER(a->start, b->start) ?: ORDER(a->order, b->order));

/* A heap of indices of spans, the latest order on top. */
static void heap_push(const struct dwarf_span *spans, uint32_t *heap, size_t *count, uint32_t item)
{
	size_t at = (*count)++;
	for (; at > 0 && spans[heap[(at - 1) / 2]].order < spans[item].order; at = (at - 1) / 2)
		heap[at] = heap[(at - 1) / 2];
	heap[at] = item;
}

static void heap_pop(const struct dwarf_span *spans, uint32_t *heap, size_t *count)
{
	uint32_t item = heap[--*count];
	size_t at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= *count)
			break;
		if (child + 1 < *count && spans[heap[child + 1]].order > spans[heap[child]].order)
			child++;
		if (spans[heap[child]].order < spans[item].order)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = item;
}

static int put_range(struct dwarf_reader *reader, uint64_t start, uint64_t end, uint32_t scope)
{
	struct code_range *last = reader->range_count ? &reader->ranges[reader->range_count - 1] : NULL;
	if (last && last->end == start && last->scope == scope) {
		last->end = end;
		return 0;
	}
	int r = array_push(&reader->ranges, &reader->range_count, &reader->range_capacity, 2 * DWARF_UNIT_RANGES_MAX,
			   (struct code_range){start, end, scope});
	return r < 0 ? error_nomem(reader->err) : 0;
}

int dwarf_ranges_flatten(struct dwarf_reader *reader)
{
	const struct dwarf_span *spans = reader->spans;
	size_t open = 0, next = 0, count = reader->span_count;
	uint64_t at = 0;
	reader->range_count = 0;
	if (count == 0)
		return 0;
	if (array_reserve(&reader->heap, &reader->heap_capacity, count, DWARF_UNIT_RANGES_MAX) < 0)
		return error_nomem(reader->err);
	sort_array(reader->spans, count, compare_spans);
	while (next < count || open > 0) {
		if (open == 0)
			at = spans[next].start;
		for (; next < count && spans[next].start <= at; next++)
			heap_push(spans, reader->heap, &open, (uint32_t)next);
		while (open > 0 && spans[reader->heap[0]].end <= at)
			heap_pop(spans, reader->heap, &open);
		if (open == 0)
			continue;
		const struct dwarf_span *top = &spans[reader->heap[0]];
		uint64_t end = next < count && spans[next].start < top->end ? spans[next].start : top->end;
		int r = put_range(reader, at, end, top->scope);
		if (r < 0)
			return r;
		at = end;
	}
	return 0;
}
