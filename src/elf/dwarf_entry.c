/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions and inlined calls, and what they are called.
 *
 * Most entries that have code have no name of their own: an inlined call points to its abstract instance
 * (DW_AT_abstract_origin), which points to a declaration inside a class (DW_AT_specification), and each may be in another unit
 * or another file. The first one on the way that has a name gives it, and independently the first one that has a linkage name.
 * A way is at most DWARF_ORIGINS_MAX long, which also ends cycles. What an origin leads to is kept while the unit is read,
 * because small functions are inlined thousands of times.
 */
#include <dwarf.h>
#include <errno.h>

#include "base/alloc.h"
#include "elf/dwarf_int.h"

#define KEY_ALT (UINT64_C(1) << 63) /* of names_index: an offset in the supplementary file */

bool dwarf_tag_is_scope(uint16_t tag)
{
	return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;
}

static uint32_t small(const struct dwarf_value *value)
{
	return value->class != DWARF_CLASS_NUMBER ? 0 : value->number < UINT32_MAX ? (uint32_t)value->number : UINT32_MAX;
}

static int take_attribute(struct dwarf_reader *reader, const struct dwarf_unit *unit, uint16_t name,
			  const struct dwarf_value *value, struct dwarf_entry *entry)
{
	switch (name) {
	case DW_AT_name: return dwarf_value_text(reader, unit, value, &entry->name);
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name: return dwarf_value_text(reader, unit, value, &entry->linkage_name);
	case DW_AT_abstract_origin: entry->origin = *value; break;
	case DW_AT_specification:
		if (entry->origin.class == DWARF_CLASS_NONE)
			entry->origin = *value;
		break;
	case DW_AT_low_pc: entry->low_pc = *value; break;
	case DW_AT_high_pc: entry->high_pc = *value; break;
	case DW_AT_ranges: entry->ranges = *value; break;
	case DW_AT_decl_file: entry->decl_file = DWARF_FILE_GIVEN(small(value)); break;
	case DW_AT_decl_line: entry->decl_line = small(value); break;
	case DW_AT_call_file: entry->call_file = DWARF_FILE_GIVEN(small(value)); break;
	case DW_AT_call_line: entry->call_line = small(value); break;
	case DW_AT_call_column: entry->call_column = small(value); break;
	default: break;
	}
	return 0;
}

int dwarf_entry_read(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_abbrev_table *table,
		     const struct dwarf_abbrev *abbrev, struct dwarf_cursor *c, struct dwarf_entry *ret)
{
	struct dwarf_entry entry = {.tag = abbrev->tag};
	for (uint32_t i = 0; i < abbrev->count; i++) {
		const struct dwarf_attribute *attribute = &table->attributes[abbrev->first + i];
		struct dwarf_value value = dwarf_value_read(c, unit, attribute->form, attribute->implicit);
		int r = take_attribute(reader, unit, attribute->name, &value, &entry);
		if (r < 0)
			return r;
	}
	*ret = entry;
	return c->failed ? -EBADMSG : 0;
}

/* The entry that a reference leads to; -EBADMSG if it leads nowhere. `from` is the unit of the reference, and the unit that is
 * walked need not be looked up again. */
static int follow(struct dwarf_reader *reader, const struct dwarf_unit *from, const struct dwarf_unit *walked,
		  const struct dwarf_value *reference, const struct dwarf_unit **ret_unit, struct dwarf_entry *ret)
{
	struct dwarf_file *file = from->file;
	const struct dwarf_abbrev_table *table = &reader->table;
	const struct dwarf_unit *unit = walked;
	int r = reference->class == DWARF_CLASS_ALT_REFERENCE ? dwarf_file_alt(reader, &file) : 0;
	if (r < 0)
		return r;
	if (!file)
		return -EBADMSG;
	if (file != walked->file || reference->number < walked->entries || reference->number >= walked->end) {
		r = dwarf_unit_of(reader, file, reference->number, &unit);
		if (r == 0)
			r = dwarf_abbrev_keep(reader, unit, &table);
		if (r < 0)
			return r;
	}
	struct dwarf_cursor c = dwarf_cursor_at((struct bytes){unit->info.data, (size_t)unit->end}, reference->number);
	const struct dwarf_abbrev *abbrev = dwarf_abbrev_find(table, dwarf_uleb(&c));
	if (!abbrev || c.failed || reference->number < unit->entries)
		return -EBADMSG;
	*ret_unit = unit;
	return dwarf_entry_read(reader, unit, table, abbrev, &c, ret);
}

static void take_names(struct dwarf_names *names, const struct dwarf_entry *entry, bool is_own)
{
	names->name = names->name ? names->name : entry->name;
	names->linkage_name = names->linkage_name ? names->linkage_name : entry->linkage_name;
	names->decl_file = names->decl_file || !is_own ? names->decl_file : entry->decl_file;
	names->decl_line = names->decl_line ? names->decl_line : entry->decl_line;
}

/* A reference that leads nowhere costs the names behind it, not the unit. */
static int follow_all(struct dwarf_reader *reader, const struct dwarf_unit *walked, struct dwarf_value reference,
		      struct dwarf_names *names)
{
	const struct dwarf_unit *unit = walked;
	for (unsigned i = 0; i < DWARF_ORIGINS_MAX; i++) {
		if (reference.class != DWARF_CLASS_REFERENCE && reference.class != DWARF_CLASS_ALT_REFERENCE)
			break;
		struct dwarf_entry entry;
		const struct dwarf_unit *next;
		int r = follow(reader, unit, walked, &reference, &next, &entry);
		if (r < 0)
			return r == -EBADMSG ? 0 : r;
		unit = next;
		take_names(names, &entry, unit == walked);
		reference = entry.origin;
	}
	return 0;
}

static int names_behind(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_value *reference,
			struct dwarf_names *ret)
{
	uint64_t key = reference->number | (reference->class == DWARF_CLASS_ALT_REFERENCE ? KEY_ALT : 0), index;
	if (map64_get(&reader->names_index, key, &index)) {
		*ret = reader->names[index];
		return 0;
	}
	int r = follow_all(reader, unit, *reference, ret);
	if (r < 0)
		return r;
	r = array_reserve(&reader->names, &reader->name_capacity, reader->name_count + 1, DWARF_UNIT_SCOPES_MAX);
	if (r == 0)
		r = map64_put(&reader->names_index, key, reader->name_count);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(reader->err) : r;
	reader->names[reader->name_count++] = *ret;
	return 0;
}

int dwarf_entry_names(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_entry *entry,
		      struct dwarf_names *ret)
{
	struct dwarf_names names = {0}, behind = {0};
	take_names(&names, entry, true);
	if (entry->origin.class == DWARF_CLASS_REFERENCE || entry->origin.class == DWARF_CLASS_ALT_REFERENCE) {
		int r = names_behind(reader, unit, &entry->origin, &behind);
		if (r < 0)
			return r;
		names.name = names.name ? names.name : behind.name;
		names.linkage_name = names.linkage_name ? names.linkage_name : behind.linkage_name;
		names.decl_file = names.decl_file ? names.decl_file : behind.decl_file;
		names.decl_line = names.decl_line ? names.decl_line : behind.decl_line;
	}
	*ret = names;
	return 0;
}
