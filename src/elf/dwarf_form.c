/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes (DWARF 5, 7.5.6; GNU extensions of DWARF 4 for split units and supplementary files).
 *
 * A form says how long a value is and what its bytes mean. Numbers that are found elsewhere - strings and addresses by index or
 * offset - are looked up only when somebody asks, since most values are passed over.
 */
#include <dwarf.h>

#include "elf/dwarf_int.h"

uint64_t dwarf_uleb_slow(struct dwarf_cursor *c)
{
	uint64_t value = 0;
	for (unsigned shift = 0; c->at < c->end; shift += 7) {
		uint8_t byte = *c->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return dwarf_fail(c);
}

int64_t dwarf_sleb(struct dwarf_cursor *c)
{
	uint64_t value = 0;
	for (unsigned shift = 0; c->at < c->end;) {
		uint8_t byte = *c->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += shift < 64 ? 7 : 0;
		if (!(byte & 0x80)) {
			if (shift < 64 && byte & 0x40)
				value |= UINT64_MAX << shift;
			return (int64_t)value;
		}
	}
	return (int64_t)dwarf_fail(c);
}

const char *dwarf_cstring(struct dwarf_cursor *c)
{
	const uint8_t *text = c->at, *nul = dwarf_left(c) ? memchr(text, 0, dwarf_left(c)) : NULL;
	if (!nul) {
		dwarf_fail(c);
		return "";
	}
	c->at = nul + 1;
	return (const char *)text;
}

const char *dwarf_string_at(struct bytes strings, uint64_t offset)
{
	return strings.data && offset < strings.len ? (const char *)strings.data + offset : NULL; /* a NUL is behind the end */
}

uint64_t dwarf_initial_length(struct dwarf_cursor *c, uint8_t *ret_size)
{
	uint64_t length = dwarf_u32(c);
	*ret_size = 4;
	if (length >= 0xfffffff0) {
		*ret_size = 8;
		length = length == 0xffffffff ? dwarf_fixed(c, 8) : dwarf_fail(c);
	}
	return length;
}

uint32_t dwarf_form_size(const struct dwarf_unit *unit, uint64_t form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const: return 0;
	case DW_FORM_data1:
	case DW_FORM_ref1:
	case DW_FORM_flag:
	case DW_FORM_strx1:
	case DW_FORM_addrx1: return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2: return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3: return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
	case DW_FORM_ref_sup4: return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sig8:
	case DW_FORM_ref_sup8: return 8;
	case DW_FORM_data16: return 16;
	case DW_FORM_addr: return unit->address_size;
	case DW_FORM_ref_addr: return unit->version <= 2 ? unit->address_size : unit->offset_size;
	case DW_FORM_strp:
	case DW_FORM_line_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_sec_offset:
	case DW_FORM_GNU_strp_alt:
	case DW_FORM_GNU_ref_alt: return unit->offset_size;
	default: return UINT32_MAX;
	}
}

static enum dwarf_class class_of(uint64_t form)
{
	switch (form) {
	case DW_FORM_addr: return DWARF_CLASS_ADDRESS;
	case DW_FORM_addrx:
	case DW_FORM_addrx1:
	case DW_FORM_addrx2:
	case DW_FORM_addrx3:
	case DW_FORM_addrx4:
	case DW_FORM_GNU_addr_index: return DWARF_CLASS_ADDRESS_INDEX;
	case DW_FORM_strp: return DWARF_CLASS_STR;
	case DW_FORM_line_strp: return DWARF_CLASS_LINE_STR;
	case DW_FORM_strx:
	case DW_FORM_strx1:
	case DW_FORM_strx2:
	case DW_FORM_strx3:
	case DW_FORM_strx4:
	case DW_FORM_GNU_str_index: return DWARF_CLASS_STR_INDEX;
	case DW_FORM_strp_sup:
	case DW_FORM_GNU_strp_alt: return DWARF_CLASS_ALT_STR;
	case DW_FORM_ref1:
	case DW_FORM_ref2:
	case DW_FORM_ref4:
	case DW_FORM_ref8:
	case DW_FORM_ref_udata:
	case DW_FORM_ref_addr: return DWARF_CLASS_REFERENCE;
	case DW_FORM_ref_sup4:
	case DW_FORM_ref_sup8:
	case DW_FORM_GNU_ref_alt: return DWARF_CLASS_ALT_REFERENCE;
	case DW_FORM_sec_offset: return DWARF_CLASS_OFFSET;
	case DW_FORM_rnglistx: return DWARF_CLASS_LIST_INDEX;
	case DW_FORM_flag_present:
	case DW_FORM_ref_sig8:
	case DW_FORM_data16: return DWARF_CLASS_OTHER;
	default: return DWARF_CLASS_NUMBER;
	}
}

static struct dwarf_value pass_block(struct dwarf_cursor *c, uint64_t len)
{
	dwarf_skip(c, len);
	return (struct dwarf_value){.class = DWARF_CLASS_OTHER};
}

struct dwarf_value dwarf_value_read(struct dwarf_cursor *c, const struct dwarf_unit *unit, uint64_t form, int64_t implicit)
{
	for (unsigned hops = 0; form == DW_FORM_indirect && hops < 4; hops++)
		form = dwarf_uleb(c);
	struct dwarf_value value = {.class = class_of(form)};
	uint32_t size = dwarf_form_size(unit, form);
	switch (form) {
	case DW_FORM_string: return (struct dwarf_value){.class = DWARF_CLASS_TEXT, .text = dwarf_cstring(c)};
	case DW_FORM_implicit_const: value.number = (uint64_t)implicit; break;
	case DW_FORM_sdata: value.number = (uint64_t)dwarf_sleb(c); break;
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_rnglistx:
	case DW_FORM_loclistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index: value.number = dwarf_uleb(c); break;
	case DW_FORM_data16: return pass_block(c, 16);
	case DW_FORM_block1: return pass_block(c, dwarf_u8(c));
	case DW_FORM_block2: return pass_block(c, dwarf_u16(c));
	case DW_FORM_block4: return pass_block(c, dwarf_u32(c));
	case DW_FORM_block:
	case DW_FORM_exprloc: return pass_block(c, dwarf_uleb(c));
	default:
		if (size > 8) { /* not known, so that what follows cannot be found */
			dwarf_fail(c);
			return (struct dwarf_value){0};
		}
		value.number = dwarf_fixed(c, size);
		break;
	}
	if (value.class == DWARF_CLASS_REFERENCE && form != DW_FORM_ref_addr)
		value.number += unit->offset;
	return value;
}

static int text_by_index(const struct dwarf_unit *unit, uint64_t index, const char **ret)
{
	uint64_t at;
	if (__builtin_mul_overflow(index, (uint64_t)unit->offset_size, &at) ||
	    __builtin_add_overflow(at, unit->str_offsets_base, &at))
		return 0;
	struct dwarf_cursor c = dwarf_cursor_at(unit->str_offsets, at);
	uint64_t offset = dwarf_fixed(&c, unit->offset_size);
	if (!c.failed)
		*ret = dwarf_string_at(unit->file->sections[DWARF_STR], offset);
	return 0;
}

int dwarf_value_text(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_value *value,
		     const char **ret)
{
	struct dwarf_file *alt;
	int r = 0;
	*ret = NULL;
	switch (value->class) {
	case DWARF_CLASS_TEXT: *ret = value->text; break;
	case DWARF_CLASS_STR: *ret = dwarf_string_at(unit->file->sections[DWARF_STR], value->number); break;
	case DWARF_CLASS_LINE_STR: *ret = dwarf_string_at(unit->file->sections[DWARF_LINE_STR], value->number); break;
	case DWARF_CLASS_STR_INDEX: return text_by_index(unit, value->number, ret);
	case DWARF_CLASS_ALT_STR:
		r = dwarf_file_alt(reader, &alt);
		if (r == 0 && alt)
			*ret = dwarf_string_at(alt->sections[DWARF_STR], value->number);
		break;
	default: break;
	}
	return r;
}

bool dwarf_address_at(const struct dwarf_unit *unit, uint64_t index, uint64_t *ret)
{
	uint64_t at;
	if (__builtin_mul_overflow(index, (uint64_t)unit->address_size, &at) ||
	    __builtin_add_overflow(at, unit->addr_base, &at))
		return false;
	struct dwarf_cursor c = dwarf_cursor_at(unit->addresses, at);
	*ret = dwarf_fixed(&c, unit->address_size);
	return !c.failed;
}

bool dwarf_value_address(const struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *ret)
{
	if (value->class == DWARF_CLASS_ADDRESS_INDEX)
		return dwarf_address_at(unit, value->number, ret);
	*ret = value->number;
	return value->class == DWARF_CLASS_ADDRESS;
}

uint64_t dwarf_address_max(const struct dwarf_unit *unit)
{
	return unit->address_size >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * unit->address_size) - 1;
}
