/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Split DWARF: what a compiler left out of the program, so that linking is quick (DWARF 5, 7.3.2 and appendix F; GNU's form of
 * it for DWARF 4). The program keeps a skeleton of each unit with its line table, addresses and an id. The rest is
 *
 *   in a .dwo   an object file beside the compiler's output; sections have .dwo behind their names. One of its units has the id
 *   in a .dwp   all of a program's .dwo together, whose sections are the concatenated ones. .debug_cu_index is a hash table
 *               from an id to the part of each section that was the unit's:
 *
 *     u32 version (2; or u16 5 and u16 0), u32 columns, u32 units, u32 slots (a power of two)
 *     u64 id of each slot; u32 row of each slot, 0 = free; u32 DW_SECT_* of each column
 *     offsets: units x columns u32; sizes: the same
 *
 * A slot is searched from (id & mask), in steps of ((id >> 32) & mask) | 1.
 */
#include <dwarf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/io.h"
#include "elf/dwarf_int.h"

#define COLUMNS_MAX 16

struct package_index {
	struct bytes data;
	uint32_t version, columns, units, slots;
	uint64_t ids, rows, names, offsets, sizes; /* offsets in data */
};

static bool read_index(const struct dwarf_file *file, struct package_index *ret)
{
	struct package_index x = {.data = file->sections[DWARF_CU_INDEX]};
	struct dwarf_cursor c = dwarf_cursor_at(x.data, 0);
	x.version = dwarf_u32(&c) & 0xffff;
	x.columns = dwarf_u32(&c);
	x.units = dwarf_u32(&c);
	x.slots = dwarf_u32(&c);
	if (c.failed || (x.version != 2 && x.version != 5) || x.columns > COLUMNS_MAX || (x.slots & (x.slots - 1)) != 0)
		return false;
	x.ids = 16;
	x.rows = x.ids + 8 * (uint64_t)x.slots;
	x.names = x.rows + 4 * (uint64_t)x.slots;
	x.offsets = x.names + 4 * (uint64_t)x.columns;
	x.sizes = x.offsets + 4 * (uint64_t)x.columns * x.units;
	*ret = x;
	return x.sizes + 4 * (uint64_t)x.columns * x.units <= x.data.len;
}

static uint64_t index_number(const struct package_index *index, uint64_t at, size_t size)
{
	struct dwarf_cursor c = dwarf_cursor_at(index->data, at);
	return dwarf_fixed(&c, size);
}

/* Row of an id, from 0; false if it is not there. */
static bool find_row(const struct package_index *index, uint64_t id, uint32_t *ret)
{
	uint64_t mask = (uint64_t)index->slots - 1, slot = id & mask, step = ((id >> 32) & mask) | 1;
	for (uint32_t i = 0; i < index->slots; i++, slot = (slot + step) & mask) {
		uint32_t row = (uint32_t)index_number(index, index->rows + 4 * slot, 4);
		if (row == 0)
			return false;
		if (index_number(index, index->ids + 8 * slot, 8) == id) {
			*ret = row - 1;
			return row <= index->units;
		}
	}
	return false;
}

static struct bytes part_of(struct bytes section, uint64_t offset, uint64_t size)
{
	if (!section.data || offset > section.len || size > section.len - offset)
		return (struct bytes){0};
	return (struct bytes){section.data + offset, (size_t)size};
}

/* -EBADMSG when the package has no such unit. */
static int find_in_package(struct dwarf_reader *reader, uint64_t id, struct dwarf_unit *ret)
{
	struct package_index index;
	uint32_t row;
	if (!read_index(&reader->dwp, &index) || !find_row(&index, id, &row))
		return -EBADMSG;
	uint64_t offsets[DW_SECT_RNGLISTS + 1] = {0}, sizes[DW_SECT_RNGLISTS + 1] = {0};
	for (uint32_t i = 0; i < index.columns; i++) {
		uint64_t name = index_number(&index, index.names + 4 * (uint64_t)i, 4);
		uint64_t cell = 4 * ((uint64_t)row * index.columns + i);
		if (name > DW_SECT_RNGLISTS)
			continue;
		offsets[name] = index_number(&index, index.offsets + cell, 4);
		sizes[name] = index_number(&index, index.sizes + cell, 4);
	}
	int r = dwarf_unit_header(reader, &reader->dwp, offsets[DW_SECT_INFO], ret);
	if (r < 0)
		return r;
	const struct bytes *s = reader->dwp.sections;
	ret->abbrevs = part_of(s[DWARF_ABBREV], offsets[DW_SECT_ABBREV], sizes[DW_SECT_ABBREV]);
	ret->str_offsets = part_of(s[DWARF_STR_OFFSETS], offsets[DW_SECT_STR_OFFSETS], sizes[DW_SECT_STR_OFFSETS]);
	if (ret->version >= 5)
		ret->rnglists = part_of(s[DWARF_RNGLISTS], offsets[DW_SECT_RNGLISTS], sizes[DW_SECT_RNGLISTS]);
	return 0;
}

/* What a split unit has from its skeleton. */
static void borrow(struct dwarf_unit *split, const struct dwarf_unit *skeleton)
{
	split->addresses = skeleton->addresses;
	split->addr_base = skeleton->addr_base;
	split->ranges = skeleton->ranges;
	split->ranges_base = skeleton->ranges_base;
}

static int read_root(struct dwarf_reader *reader, struct dwarf_unit *split)
{
	const struct dwarf_unit *skeleton = &reader->unit;
	const struct dwarf_abbrev_table *table;
	borrow(split, skeleton);
	int r = dwarf_abbrev_keep(reader, split, &table);
	if (r == 0)
		r = dwarf_unit_root(reader, split, table);
	split->low_pc = skeleton->low_pc;
	split->ranges_base = skeleton->ranges_base;
	return r;
}

static int find_in_file(struct dwarf_reader *reader, struct dwarf_unit *ret)
{
	for (size_t i = 0; i < reader->dwo.unit_count; i++) {
		int r = dwarf_unit_header(reader, &reader->dwo, reader->dwo.units[i].offset, ret);
		if (r == 0 && ret->type != DW_UT_type && ret->type != DW_UT_split_type)
			r = read_root(reader, ret);
		if (r < 0 && r != -EBADMSG)
			return r;
		if (r == 0 && ret->has_dwo_id && ret->dwo_id == reader->unit.dwo_id)
			return 0;
	}
	return -EBADMSG;
}

static int open_package(struct dwarf_reader *reader)
{
	char name[PATH_MAX];
	int fd;
	reader->dwp_state = DWARF_OTHER_MISSING;
	if (snprintf(name, sizeof(name), "%s.dwp", reader->options->name) >= (int)sizeof(name))
		return 0;
	int r = dwarf_file_open_other(reader, DWARF_FILE_DWP, name, "", &fd);
	if (r < 0 || fd < 0)
		return r;
	r = dwarf_file_load(reader, &reader->dwp, fd, reader->options->name, true);
	io_close(fd);
	if (r == 0)
		reader->dwp_state = DWARF_OTHER_OPEN;
	else if (r != -ENOMEM)
		dwarf_note(reader, "%.200s cannot be used", name);
	return r == -ENOMEM ? r : 0;
}

static int open_split(struct dwarf_reader *reader)
{
	const struct dwarf_unit *unit = &reader->unit;
	bool is_absolute = unit->dwo_name[0] == '/' || !*unit->comp_dir;
	size_t size = strlen(unit->comp_dir) + strlen(unit->dwo_name) + 2;
	int fd;
	if (size > PATH_MAX)
		return -EBADMSG;
	reader->dwo_path = mem_alloc(size);
	if (!reader->dwo_path)
		return error_nomem(reader->err);
	snprintf(reader->dwo_path, size, "%s%s%s", is_absolute ? "" : unit->comp_dir, is_absolute ? "" : "/", unit->dwo_name);
	int r = dwarf_file_open_other(reader, DWARF_FILE_DWO, reader->dwo_path, "", &fd);
	if (r < 0)
		return r;
	if (fd < 0)
		return -EBADMSG;
	r = dwarf_file_load(reader, &reader->dwo, fd, reader->dwo_path, true);
	io_close(fd);
	return r == 0 || r == -ENOMEM ? r : -EBADMSG;
}

int dwarf_split_find(struct dwarf_reader *reader, struct dwarf_unit **ret)
{
	int r = reader->dwp_state == DWARF_OTHER_UNTRIED ? open_package(reader) : 0;
	*ret = NULL;
	if (r < 0)
		return r;
	r = -EBADMSG;
	if (reader->dwp_state == DWARF_OTHER_OPEN) {
		r = find_in_package(reader, reader->unit.dwo_id, &reader->split);
		if (r == 0)
			r = read_root(reader, &reader->split);
	}
	if (r == -EBADMSG)
		r = open_split(reader);
	if (r == 0 && reader->dwo.sections[DWARF_INFO].data)
		r = find_in_file(reader, &reader->split);
	if (r == 0) {
		*ret = &reader->split;
		return 0;
	}
	if (r != -EBADMSG)
		return r;
	dwarf_note(reader, "part of the debug information is unavailable: %.300s", reader->unit.dwo_name);
	reader->is_incomplete = true;
	return 0;
}

void dwarf_split_release(struct dwarf_reader *reader)
{
	dwarf_file_release(&reader->dwo);
	reader->dwo_path = mem_free(reader->dwo_path);
}
