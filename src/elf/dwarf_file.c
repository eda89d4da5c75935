/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The debug sections of a file, in memory, unpacked. They are read, not mapped: a file that is cut short while it is mapped
 * ends the process, and packed ones need memory anyhow. Only the sections that lead from an address to a name and a line are
 * read, which leaves out locations, macros and lookup tables: a third of a debug file.
 */
#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/io.h"
#include "elf/dwarf_int.h"

#define LINK_BYTES_MAX (64 * KIB)

static const char *const section_names[DWARF_SECTIONS] = {
	[DWARF_INFO] = "info",	       [DWARF_ABBREV] = "abbrev", [DWARF_LINE] = "line",
	[DWARF_LINE_STR] = "line_str", [DWARF_STR] = "str",	  [DWARF_STR_OFFSETS] = "str_offsets",
	[DWARF_ADDR] = "addr",	       [DWARF_RANGES] = "ranges", [DWARF_RNGLISTS] = "rnglists",
	[DWARF_CU_INDEX] = "cu_index",
};

/* A section by the part of its name that all its forms share; empty if there is none. */
static int load_section(struct dwarf_reader *reader, struct elf_file *elf, const char *part, bool is_split, uint64_t max,
			struct bytes *ret)
{
	char name[64], old[64];
	bool has_suffix = is_split && strcmp(part, "cu_index") != 0;
	snprintf(name, sizeof(name), ".debug_%s%s", part, has_suffix ? ".dwo" : "");
	snprintf(old, sizeof(old), ".zdebug_%s%s", part, has_suffix ? ".dwo" : "");
	const struct elf_section *section = elf_file_find_section(elf, name);
	if (!section)
		section = elf_file_find_section(elf, old);
	return section && section->type != SHT_NOBITS ? elf_file_read_section(elf, section, max, ret, reader->err) : 0;
}

static int load_sections(struct dwarf_reader *reader, struct dwarf_file *file, struct elf_file *elf)
{
	uint64_t left = DWARF_SECTIONS_BYTES_MAX;
	int r = elf_file_load_sections(elf, reader->err);
	for (size_t i = 0; r == 0 && i < DWARF_SECTIONS; i++) {
		r = load_section(reader, elf, section_names[i], file->is_split, left, &file->sections[i]);
		left -= r == 0 ? file->sections[i].len : 0;
	}
	if (r == 0 && !file->sections[DWARF_INFO].data)
		r = error_set(reader->err, -ENOENT, "%s: no DWARF debug information", file->name);
	return r;
}

int dwarf_file_load(struct dwarf_reader *reader, struct dwarf_file *file, int fd, const char *name, bool is_split)
{
	struct elf_file elf;
	*file = (struct dwarf_file){.name = name, .is_split = is_split};
	int r = elf_file_open(&elf, fd, name, reader->err);
	if (r < 0)
		return r;
	r = load_sections(reader, file, &elf);
	elf_file_release(&elf);
	if (r == 0)
		r = dwarf_units_find(reader, file);
	if (r < 0)
		dwarf_file_release(file);
	return r;
}

void dwarf_file_release(struct dwarf_file *file)
{
	for (size_t i = 0; i < DWARF_SECTIONS; i++)
		mem_free((void *)file->sections[i].data);
	for (size_t i = 0; file->kept_tables && i < DWARF_TABLES_KEPT; i++)
		dwarf_abbrev_release(&file->kept_tables[i]);
	mem_free(file->kept_tables);
	mem_free(file->kept_units);
	mem_free(file->units);
	*file = (struct dwarf_file){.name = file->name};
}

/* ---- where code is ------------------------------------------------------------------------------------------------------ */

static void add_code(struct dwarf_reader *reader, uint64_t start, uint64_t size)
{
	if (size == 0 || start + size < start)
		return;
	if (reader->code_count < DWARF_CODE_MAX) {
		reader->code[reader->code_count].start = start;
		reader->code[reader->code_count++].end = start + size;
		return;
	}
	/* More of them than anything real has: the last one takes in the rest. */
	if (start < reader->code[DWARF_CODE_MAX - 1].start)
		reader->code[DWARF_CODE_MAX - 1].start = start;
	if (start + size > reader->code[DWARF_CODE_MAX - 1].end)
		reader->code[DWARF_CODE_MAX - 1].end = start + size;
}

bool dwarf_is_code(const struct dwarf_reader *reader, uint64_t address)
{
	for (size_t i = 0; i < reader->code_count; i++)
		if (address >= reader->code[i].start && address < reader->code[i].end)
			return true;
	return reader->code_count == 0 && address != 0;
}

/* ---- other files -------------------------------------------------------------------------------------------------------- */

/* .gnu_debugaltlink is name, NUL, build-id. DWARF 5's .debug_sup is u16 version, u8 0, name, uleb128 length, checksum. */
static int load_alt_name(struct dwarf_reader *reader, struct elf_file *elf)
{
	const struct elf_section *section = elf_file_find_section(elf, ".gnu_debugaltlink");
	bool is_new = !section;
	if (is_new)
		section = elf_file_find_section(elf, ".debug_sup");
	struct bytes data;
	if (!section || section->type == SHT_NOBITS)
		return 0;
	int r = elf_file_read_section(elf, section, LINK_BYTES_MAX, &data, reader->err);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	struct dwarf_cursor c = dwarf_cursor_at(data, is_new ? 3 : 0);
	const char *name = dwarf_cstring(&c);
	uint64_t len = is_new ? dwarf_uleb(&c) : dwarf_left(&c);
	if (!c.failed && len <= dwarf_left(&c) && *name && !(is_new && data.data[2])) {
		build_id_format(c.at, len, reader->alt_build_id);
		reader->alt_name = mem_strdup(name);
		r = reader->alt_name ? 0 : error_nomem(reader->err);
	}
	mem_free((void *)data.data);
	return r;
}

static void add_all_code(struct dwarf_reader *reader, const struct elf_file *elf)
{
	struct elf_segment runs[DWARF_CODE_MAX];
	for (size_t i = 0; i < elf->segment_count; i++)
		if (elf_segment_is_executed(&elf->segments[i]))
			add_code(reader, elf->segments[i].address, elf->segments[i].memory_size);
	size_t count = reader->code_count ? 0 : elf_file_find_code(elf, runs, DWARF_CODE_MAX);
	for (size_t i = 0; i < count; i++)
		add_code(reader, runs[i].address, runs[i].memory_size);
	for (size_t i = 0; reader->code_count == 0 && i < elf->section_count; i++)
		if (elf->sections[i].flags & SHF_EXECINSTR && elf->sections[i].flags & SHF_ALLOC)
			add_code(reader, elf->sections[i].address, elf->sections[i].size);
}

int dwarf_file_load_main(struct dwarf_reader *reader, int fd)
{
	struct elf_file elf;
	int r = elf_file_open(&elf, fd, reader->options->name, reader->err);
	if (r < 0)
		return r;
	r = elf_file_load_sections(&elf, reader->err);
	if (r == 0 && elf.type == ET_REL)
		r = error_set(reader->err, -ENOTSUP, "%s: an object file; its debug information is not linked yet", elf.name);
	if (r == 0) {
		add_all_code(reader, &elf);
		r = load_alt_name(reader, &elf);
	}
	elf_file_release(&elf);
	return r < 0 ? r : dwarf_file_load(reader, &reader->main, fd, reader->options->name, false);
}

int dwarf_file_open_other(struct dwarf_reader *reader, enum dwarf_file_kind kind, const char *name, const char *build_id,
			  int *ret_fd)
{
	*ret_fd = -1;
	if (!reader->options->open_file)
		return 0;
	int fd = -1;
	int r = reader->options->open_file(reader->options->context, kind, name, build_id, &fd);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return error_set_errno(reader->err, r, "%s: cannot open %s, which holds part of its debug information",
				       reader->options->name, name);
	*ret_fd = fd;
	return 0;
}

/* A supplementary file that is damaged is as good as none. */
static int open_alt(struct dwarf_reader *reader)
{
	int fd;
	int r = dwarf_file_open_other(reader, DWARF_FILE_ALT, reader->alt_name, reader->alt_build_id, &fd);
	if (r < 0 || fd < 0)
		return r;
	r = dwarf_file_load(reader, &reader->alt, fd, reader->alt_name, false);
	io_close(fd);
	if (r == 0)
		reader->alt_state = DWARF_OTHER_OPEN;
	return r == -ENOMEM ? r : 0;
}

int dwarf_file_alt(struct dwarf_reader *reader, struct dwarf_file **ret)
{
	if (reader->alt_state == DWARF_OTHER_UNTRIED) {
		reader->alt_state = DWARF_OTHER_MISSING;
		int r = reader->alt_name ? open_alt(reader) : 0;
		if (r < 0)
			return r;
	}
	*ret = reader->alt_state == DWARF_OTHER_OPEN ? &reader->alt : NULL;
	if (!*ret) {
		dwarf_note(reader, "the supplementary debug file is unavailable: %.300s",
			   reader->alt_name ? reader->alt_name : "it has no name");
		reader->is_incomplete = true;
	}
	return 0;
}
