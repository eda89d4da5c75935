/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of abbreviations: what attributes an entry has, and in which form. A table is a list of
 *
 *   uleb128 code, uleb128 tag, u8 has children, then pairs of uleb128 name and uleb128 form (and, behind
 *   DW_FORM_implicit_const, a sleb128 value) up to a pair of zeros
 *
 * up to code 0. Compilers count codes from 1, so that a code is an index; any other table is sorted and searched.
 *
 * The unit that is walked has a table of its own. References lead to other units whose tables are needed for one entry: the
 * last DWARF_TABLES_KEPT are kept, found by their offset.
 */
#include <dwarf.h>
#include <errno.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sorted.h"
#include "elf/dwarf_int.h"

static int read_attributes(struct dwarf_reader *reader, const struct dwarf_unit *unit, struct dwarf_abbrev_table *table,
			   struct dwarf_cursor *c, struct dwarf_abbrev *abbrev)
{
	uint64_t size = 0;
	for (;;) {
		uint64_t name = dwarf_uleb(c), form = dwarf_uleb(c);
		if (c->failed || name > UINT16_MAX || form > UINT16_MAX)
			return -EBADMSG;
		if (name == 0 && form == 0)
			break;
		int64_t implicit = form == DW_FORM_implicit_const ? dwarf_sleb(c) : 0;
		int r = array_push(&table->attributes, &table->attribute_count, &table->attribute_capacity,
				   DWARF_ATTRIBUTES_MAX, (struct dwarf_attribute){(uint16_t)name, (uint16_t)form, implicit});
		if (r < 0)
			return r == -E2BIG ? -EBADMSG : error_nomem(reader->err);
		uint32_t bytes = dwarf_form_size(unit, form);
		size = size == UINT32_MAX || bytes == UINT32_MAX || size + bytes > UINT32_MAX ? UINT32_MAX : size + bytes;
	}
	abbrev->count = (uint32_t)(table->attribute_count - abbrev->first);
	abbrev->fixed_size = (uint32_t)size;
	return 0;
}

DEFINE_ORDER(compare_codes, struct dwarf_abbrev, ORDER(a->code, b->code) ?: ORDER(a->first, b->first));

static int read_table(struct dwarf_reader *reader, const struct dwarf_unit *unit, struct dwarf_abbrev_table *table)
{
	struct dwarf_cursor c = dwarf_cursor_at(unit->abbrevs, unit->abbrev_offset);
	table->is_dense = true;
	for (;;) {
		uint64_t code = dwarf_uleb(&c);
		if (c.failed)
			return -EBADMSG;
		if (code == 0)
			break;
		int r = array_reserve(&table->items, &table->capacity, table->count + 1, DWARF_ABBREVS_MAX);
		if (r < 0)
			return r == -E2BIG ? -EBADMSG : error_nomem(reader->err);
		uint64_t tag = dwarf_uleb(&c);
		struct dwarf_abbrev *abbrev = &table->items[table->count];
		*abbrev = (struct dwarf_abbrev){.code = code,
						.first = (uint32_t)table->attribute_count,
						.tag = tag > UINT16_MAX ? 0 : (uint16_t)tag,
						.has_children = dwarf_u8(&c) != 0};
		r = read_attributes(reader, unit, table, &c, abbrev);
		if (r < 0)
			return r;
		table->count++;
		table->is_dense = table->is_dense && code == table->count;
	}
	if (!table->is_dense)
		sort_array(table->items, table->count, compare_codes);
	return 0;
}

int dwarf_abbrev_load(struct dwarf_reader *reader, const struct dwarf_unit *unit, struct dwarf_abbrev_table *table)
{
	table->count = table->attribute_count = 0;
	table->offset = unit->abbrev_offset;
	table->section = unit->abbrevs.data;
	table->version = unit->version;
	table->address_size = unit->address_size;
	table->offset_size = unit->offset_size;
	int r = read_table(reader, unit, table);
	if (r < 0) {
		table->section = NULL;
		table->count = 0;
	}
	return r;
}

int dwarf_abbrev_keep(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_abbrev_table **ret)
{
	struct dwarf_file *file = unit->file;
	if (!file->kept_tables)
		file->kept_tables = mem_zalloc_array(DWARF_TABLES_KEPT, sizeof(*file->kept_tables));
	if (!file->kept_tables)
		return error_nomem(reader->err);
	struct dwarf_abbrev_table *table = &file->kept_tables[(unit->abbrev_offset * 0x9e3779b97f4a7c15) >> 58];
	_Static_assert(DWARF_TABLES_KEPT == 64, "the hash above has 6 bits");
	if (table->offset != unit->abbrev_offset || table->section != unit->abbrevs.data || table->version != unit->version ||
	    table->address_size != unit->address_size || table->offset_size != unit->offset_size) {
		int r = dwarf_abbrev_load(reader, unit, table);
		if (r < 0)
			return r;
	}
	*ret = table;
	return 0;
}

void dwarf_abbrev_release(struct dwarf_abbrev_table *table)
{
	mem_free(table->items);
	mem_free(table->attributes);
	*table = (struct dwarf_abbrev_table){0};
}

const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrev_table *table, uint64_t code)
{
	if (table->is_dense)
		return code - 1 < table->count ? &table->items[code - 1] : NULL;
	size_t at = sorted_count_up_to(table->items, table->count, code, code - 1);
	return at < table->count && table->items[at].code == code ? &table->items[at] : NULL;
}
