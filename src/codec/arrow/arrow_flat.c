/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading flatbuffers (https://flatbuffers.dev/internals), of which the metadata of Arrow's messages are made:
 *
 *   root       4 bytes: distance from here to the root table
 *   table      4 bytes, signed: how far before it its vtable is; then fields
 *   vtable     2 bytes: its own size; 2 bytes: the table's; then 2 bytes a field, where in the table it is (0 = absent)
 *   reference  4 bytes: distance from here to a table, a vector, a text
 *   vector     4 bytes: how many items; then items; a text is a vector of bytes
 *
 * Numbers are little-endian. Every position is checked before it is read. References go forwards only, so they form no circles,
 * but several may lead to one place, so whoever follows them counts.
 */
#include <string.h>

#include "codec/arrow/arrow_flat.h"

static bool is_inside(struct flat_reader *flat, size_t at, size_t size)
{
	bool inside = at <= flat->bytes.len && size <= flat->bytes.len - at;
	flat->bad |= !inside;
	return inside;
}

uint64_t flat_number(struct flat_reader *flat, size_t at, size_t size)
{
	uint64_t value = 0;
	if (is_inside(flat, at, size))
		memcpy(&value, flat->bytes.data + at, size);
	return value;
}

struct flat_table flat_table_at(struct flat_reader *flat, size_t at)
{
	struct flat_table table = {0};
	int64_t vtable = (int64_t)at - (int32_t)flat_number(flat, at, 4);
	if (flat->bad || vtable < 0) {
		flat->bad = true;
		return table;
	}
	size_t size = flat_number(flat, (size_t)vtable, 2);
	table.size = flat_number(flat, (size_t)vtable + 2, 2);
	if (size < 4 || table.size < 4 || !is_inside(flat, (size_t)vtable, size) || !is_inside(flat, at, table.size)) {
		flat->bad = true;
		return table;
	}
	table.at = at;
	table.slots = (size_t)vtable + 4;
	table.slot_count = (size - 4) / 2;
	return table;
}

struct flat_table flat_root(struct flat_reader *flat)
{
	return flat_table_at(flat, flat_number(flat, 0, 4));
}

/* Where a field is; 0 = absent. */
static size_t find_slot(struct flat_reader *flat, const struct flat_table *table, unsigned slot, size_t size)
{
	if (!table->at || slot >= table->slot_count)
		return 0;
	size_t offset = flat_number(flat, table->slots + 2 * (size_t)slot, 2);
	if (offset && (offset < 4 || offset + size > table->size)) {
		flat->bad = true;
		return 0;
	}
	return offset ? table->at + offset : 0;
}

uint64_t flat_get(struct flat_reader *flat, const struct flat_table *table, unsigned slot, size_t size, uint64_t absent)
{
	size_t at = find_slot(flat, table, slot, size);
	return at ? flat_number(flat, at, size) : absent;
}

/* What a reference leads to; 0 = absent. */
static size_t follow(struct flat_reader *flat, size_t at)
{
	size_t distance = at ? flat_number(flat, at, 4) : 0;
	if (at && distance == 0)
		flat->bad = true;
	return distance ? at + distance : 0;
}

struct flat_table flat_get_table(struct flat_reader *flat, const struct flat_table *table, unsigned slot)
{
	size_t at = follow(flat, find_slot(flat, table, slot, 4));
	return at ? flat_table_at(flat, at) : (struct flat_table){0};
}

size_t flat_get_vector(struct flat_reader *flat, const struct flat_table *table, unsigned slot, size_t item_size,
		       size_t *ret_count)
{
	size_t at = follow(flat, find_slot(flat, table, slot, 4));
	*ret_count = at ? flat_number(flat, at, 4) : 0;
	if (*ret_count == 0 || !is_inside(flat, at + 4, *ret_count * item_size)) {
		*ret_count = 0;
		return 0;
	}
	return at + 4;
}

struct bytes flat_get_text(struct flat_reader *flat, const struct flat_table *table, unsigned slot)
{
	size_t len, at = flat_get_vector(flat, table, slot, 1, &len);
	return at ? (struct bytes){flat->bytes.data + at, len} : (struct bytes){0};
}

struct flat_table flat_item(struct flat_reader *flat, size_t vector, size_t index)
{
	size_t at = follow(flat, vector + 4 * index);
	return at ? flat_table_at(flat, at) : (struct flat_table){0};
}
