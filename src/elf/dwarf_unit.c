/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units of .debug_info (DWARF 5, 7.5.1). A header is
 *
 *   length (4 bytes, or ff ff ff ff and 8), u16 version, then
 *   version 2 to 4   offset of abbreviations, u8 address size
 *   version 5        u8 type, u8 address size, offset of abbreviations; for a skeleton or a split unit u64 its id;
 *                    for a type unit u64 signature, offset of the type
 *
 * and its first entry says where its parts of other sections begin. Those bases come behind strings that need them, so all
 * values are collected before one is looked up.
 *
 * Of all units only places are kept, found by one pass over the headers: references between units name an offset in the
 * section.
 */
#include <dwarf.h>
#include <errno.h>

#include "base/alloc.h"
#include "base/sorted.h"
#include "elf/dwarf_int.h"

#define VERSION_MIN 2
#define VERSION_MAX 5

/* What cannot be followed any more ends the list; what was found before it stays. */
int dwarf_units_find(struct dwarf_reader *reader, struct dwarf_file *file)
{
	struct bytes info = file->sections[DWARF_INFO];
	struct dwarf_cursor c = dwarf_cursor_at(info, 0);
	while (dwarf_left(&c) > 0) {
		uint64_t offset = (uint64_t)(c.at - info.data);
		uint8_t size;
		uint64_t length = dwarf_initial_length(&c, &size);
		if (c.failed || length > dwarf_left(&c)) {
			dwarf_note(reader, "%.200s: units from offset %llu on are damaged", file->name,
				   (unsigned long long)offset);
			reader->result->units_damaged++;
			break;
		}
		dwarf_skip(&c, length);
		if (length == 0)
			continue;
		int r = array_push(&file->units, &file->unit_count, &file->unit_capacity, DWARF_UNITS_MAX,
				   (struct dwarf_unit_place){offset, (uint64_t)(c.at - info.data)});
		if (r < 0)
			return r == -ENOMEM ? error_nomem(reader->err)
					    : error_set(reader->err, r, "%s: more than %u units", file->name, DWARF_UNITS_MAX);
	}
	return 0;
}

static void use_sections(struct dwarf_unit *unit)
{
	const struct bytes *sections = unit->file->sections;
	unit->info = sections[DWARF_INFO];
	unit->abbrevs = sections[DWARF_ABBREV];
	unit->str_offsets = sections[DWARF_STR_OFFSETS];
	unit->rnglists = sections[DWARF_RNGLISTS];
	unit->ranges = sections[DWARF_RANGES];
	unit->addresses = sections[DWARF_ADDR];
	unit->name = unit->comp_dir = unit->dwo_name = "";
}

int dwarf_unit_header(struct dwarf_reader *reader, struct dwarf_file *file, uint64_t offset, struct dwarf_unit *ret)
{
	struct dwarf_unit unit = {.file = file, .offset = offset};
	use_sections(&unit);
	struct dwarf_cursor c = dwarf_cursor_at(unit.info, offset);
	uint64_t length = dwarf_initial_length(&c, &unit.offset_size);
	if (c.failed || length > dwarf_left(&c))
		return -EBADMSG;
	c.end = c.at + length;
	unit.end = (uint64_t)(c.end - unit.info.data);
	unit.version = dwarf_u16(&c);
	if (unit.version < VERSION_MIN || unit.version > VERSION_MAX)
		return -EBADMSG;
	unit.type = DW_UT_compile;
	if (unit.version >= 5) {
		unit.type = dwarf_u8(&c);
		unit.address_size = dwarf_u8(&c);
		unit.abbrev_offset = dwarf_fixed(&c, unit.offset_size);
	} else {
		unit.abbrev_offset = dwarf_fixed(&c, unit.offset_size);
		unit.address_size = dwarf_u8(&c);
	}
	unit.has_dwo_id = unit.type == DW_UT_skeleton || unit.type == DW_UT_split_compile;
	if (unit.has_dwo_id)
		unit.dwo_id = dwarf_fixed(&c, 8);
	if (unit.type == DW_UT_type || unit.type == DW_UT_split_type)
		dwarf_skip(&c, 8 + (uint64_t)unit.offset_size);
	unit.entries = (uint64_t)(c.at - unit.info.data);
	bool is_odd = unit.address_size != 4 && unit.address_size != 8;
	if (c.failed || is_odd)
		return -EBADMSG;
	/* Indices of a split unit count from behind its tables' headers, and nothing says so. */
	if (file->is_split && unit.version >= 5) {
		unit.str_offsets_base = unit.offset_size == 8 ? 16 : 8;
		unit.rnglists_base = unit.offset_size == 8 ? 20 : 12;
	}
	*ret = unit;
	return 0;
}

struct root_values {
	struct dwarf_value name, comp_dir, dwo_name, low_pc, stmt_list;
};

static void take_value(struct dwarf_unit *unit, struct root_values *values, uint16_t name, const struct dwarf_value *value)
{
	switch (name) {
	case DW_AT_name: values->name = *value; break;
	case DW_AT_comp_dir: values->comp_dir = *value; break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name: values->dwo_name = *value; break;
	case DW_AT_low_pc: values->low_pc = *value; break;
	case DW_AT_stmt_list: values->stmt_list = *value; break;
	case DW_AT_language: unit->language = (uint16_t)value->number; break;
	case DW_AT_str_offsets_base: unit->str_offsets_base = value->number; break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base: unit->addr_base = value->number; break;
	case DW_AT_rnglists_base: unit->rnglists_base = value->number; break;
	case DW_AT_GNU_ranges_base: unit->ranges_base = value->number; break;
	case DW_AT_GNU_dwo_id:
		unit->dwo_id = value->number;
		unit->has_dwo_id = true;
		break;
	default: break;
	}
}

static int resolve_values(struct dwarf_reader *reader, struct dwarf_unit *unit, const struct root_values *values)
{
	const struct {
		const struct dwarf_value *value;
		const char **text;
	} texts[] = {{&values->name, &unit->name}, {&values->comp_dir, &unit->comp_dir}, {&values->dwo_name, &unit->dwo_name}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *text;
		int r = dwarf_value_text(reader, unit, texts[i].value, &text);
		if (r < 0)
			return r;
		*texts[i].text = text ? text : "";
	}
	if (!dwarf_value_address(unit, &values->low_pc, &unit->low_pc))
		unit->low_pc = 0;
	unit->has_stmt_list = values->stmt_list.class == DWARF_CLASS_OFFSET || values->stmt_list.class == DWARF_CLASS_NUMBER;
	unit->stmt_list = values->stmt_list.number;
	return 0;
}

int dwarf_unit_root(struct dwarf_reader *reader, struct dwarf_unit *unit, const struct dwarf_abbrev_table *table)
{
	struct dwarf_cursor c = dwarf_cursor_at((struct bytes){unit->info.data, (size_t)unit->end}, unit->entries);
	const struct dwarf_abbrev *abbrev = dwarf_abbrev_find(table, dwarf_uleb(&c));
	struct root_values values = {0};
	if (!abbrev || c.failed)
		return -EBADMSG;
	unit->tag = abbrev->tag;
	for (uint32_t i = 0; i < abbrev->count; i++) {
		const struct dwarf_attribute *attribute = &table->attributes[abbrev->first + i];
		struct dwarf_value value = dwarf_value_read(&c, unit, attribute->form, attribute->implicit);
		take_value(unit, &values, attribute->name, &value);
	}
	return c.failed ? -EBADMSG : resolve_values(reader, unit, &values);
}

static const struct dwarf_unit_place *find_place(const struct dwarf_file *file, uint64_t offset)
{
	size_t at = sorted_count_up_to(file->units, file->unit_count, end, offset);
	return at < file->unit_count && file->units[at].offset <= offset ? &file->units[at] : NULL;
}

int dwarf_unit_of(struct dwarf_reader *reader, struct dwarf_file *file, uint64_t offset, const struct dwarf_unit **ret)
{
	const struct dwarf_unit_place *place = find_place(file, offset);
	if (!place)
		return -EBADMSG;
	if (!file->kept_units)
		file->kept_units = mem_zalloc_array(DWARF_UNITS_KEPT, sizeof(*file->kept_units));
	if (!file->kept_units)
		return error_nomem(reader->err);
	struct dwarf_unit *unit = &file->kept_units[(size_t)(place - file->units) % DWARF_UNITS_KEPT];
	if (!unit->file || unit->offset != place->offset) {
		const struct dwarf_abbrev_table *table;
		int r = dwarf_unit_header(reader, file, place->offset, unit);
		if (r == 0)
			r = dwarf_abbrev_keep(reader, unit, &table);
		if (r == 0)
			r = dwarf_unit_root(reader, unit, table);
		if (r < 0) {
			unit->file = NULL;
			return r;
		}
	}
	*ret = unit;
	return 0;
}
