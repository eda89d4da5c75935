/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the reader of DWARF. The essay is in dwarf.c.
 *
 *   dwarf_file.c    an ELF file's debug sections, in memory; the supplementary file of dwz
 *   dwarf_abbrev.c  tables of abbreviations, a few of them kept
 *   dwarf_unit.c    headers of units; what the first entry of a unit says about the rest
 *   dwarf_form.c    values of attributes: numbers, strings, addresses, references
 *   dwarf_entry.c   the attributes of functions and inlined calls; names, through abstract origins
 *   dwarf_ranges.c  lists of ranges; making nested ranges flat
 *   dwarf_line.c    line tables
 *   dwarf_split.c   .dwo and .dwp
 *   dwarf.c         walks units and hands them out
 */
#ifndef WICK_ELF_DWARF_INT_H
#define WICK_ELF_DWARF_INT_H

#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/limits.h"
#include "base/map.h"
#include "elf/build_id.h"
#include "elf/dwarf.h"
#include "elf/elf_file.h"

#define DWARF_SECTIONS_BYTES_MAX (4 * GIB) /* of a file, unpacked */
#define DWARF_UNITS_MAX		 (4u * 1024 * 1024)
#define DWARF_ABBREVS_MAX	 (1u * 1024 * 1024) /* of a table */
#define DWARF_ATTRIBUTES_MAX	 (8u * 1024 * 1024) /* of a table */
#define DWARF_TABLES_KEPT	 64u
#define DWARF_UNITS_KEPT	 256u
#define DWARF_UNIT_RANGES_MAX	 (16u * 1024 * 1024) /* of a unit, before they are made flat */
#define DWARF_UNIT_FILES_MAX	 (1u * 1024 * 1024)
#define DWARF_UNIT_PATHS_MAX	 (256 * MIB)
#define DWARF_CODE_MAX		 256u
#define DWARF_NONE		 UINT64_MAX

/* ---- reading bytes ------------------------------------------------------------------------------------------------------ */

/* A place in a section and its end. Reading past the end gives zeros and sets failed, which stays. */
struct dwarf_cursor {
	const uint8_t *at, *end;
	bool failed;
};

static inline struct dwarf_cursor dwarf_cursor_at(struct bytes data, uint64_t offset)
{
	if (!data.data || offset > data.len)
		return (struct dwarf_cursor){data.data, data.data, true};
	return (struct dwarf_cursor){data.data + offset, data.data + data.len, false};
}
static inline size_t dwarf_left(const struct dwarf_cursor *c)
{
	return (size_t)(c->end - c->at);
}
static inline uint64_t dwarf_fail(struct dwarf_cursor *c)
{
	c->failed = true;
	c->at = c->end;
	return 0;
}
static inline void dwarf_skip(struct dwarf_cursor *c, uint64_t len)
{
	if (len > dwarf_left(c))
		dwarf_fail(c);
	else
		c->at += len;
}
/* Little-endian, 1 to 8 bytes. */
static inline uint64_t dwarf_fixed(struct dwarf_cursor *c, size_t size)
{
	uint64_t value = 0;
	if (size > dwarf_left(c))
		return dwarf_fail(c);
	memcpy(&value, c->at, size);
	c->at += size;
	return value;
}
static inline uint8_t dwarf_u8(struct dwarf_cursor *c)
{
	return c->at < c->end ? *c->at++ : (uint8_t)dwarf_fail(c);
}
static inline uint16_t dwarf_u16(struct dwarf_cursor *c)
{
	return (uint16_t)dwarf_fixed(c, 2);
}
static inline uint32_t dwarf_u32(struct dwarf_cursor *c)
{
	return (uint32_t)dwarf_fixed(c, 4);
}
uint64_t dwarf_uleb_slow(struct dwarf_cursor *c);
int64_t dwarf_sleb(struct dwarf_cursor *c);
static inline uint64_t dwarf_uleb(struct dwarf_cursor *c)
{
	return c->at < c->end && *c->at < 0x80 ? *c->at++ : dwarf_uleb_slow(c);
}
/* A string that ends inside; "" and failed otherwise. */
const char *dwarf_cstring(struct dwarf_cursor *c);
/* A string of a section of strings; NULL if the offset is none of it. */
const char *dwarf_string_at(struct bytes strings, uint64_t offset);
/* The length that begins a unit or table: 4 bytes, or 0xffffffff and 8 bytes. *ret_size is 4 or 8, that of offsets in it. */
uint64_t dwarf_initial_length(struct dwarf_cursor *c, uint8_t *ret_size);

/* ---- files -------------------------------------------------------------------------------------------------------------- */

enum dwarf_section {
	DWARF_INFO,
	DWARF_ABBREV,
	DWARF_LINE,
	DWARF_LINE_STR,
	DWARF_STR,
	DWARF_STR_OFFSETS,
	DWARF_ADDR,
	DWARF_RANGES,
	DWARF_RNGLISTS,
	DWARF_CU_INDEX,
	DWARF_SECTIONS,
};

struct dwarf_abbrev {
	uint64_t code;
	uint32_t first, count; /* of the table's attributes */
	uint32_t fixed_size;   /* bytes of the attributes' values, if they are always as many; else UINT32_MAX */
	uint16_t tag;
	bool has_children;
};
struct dwarf_attribute {
	uint16_t name, form;
	int64_t implicit; /* DW_FORM_implicit_const */
};
struct dwarf_abbrev_table {
	uint64_t offset; /* what it was made of, with the sizes that fixed_size depends on */
	const uint8_t *section;
	uint16_t version;
	uint8_t address_size, offset_size;
	bool is_dense; /* code n is item n - 1 */
	struct dwarf_abbrev *items;
	struct dwarf_attribute *attributes;
	size_t count, capacity, attribute_count, attribute_capacity;
};

/* Where a unit lies in .debug_info, and no more, since a large file has 100,000 of them. */
struct dwarf_unit_place {
	uint64_t offset, end;
};
struct dwarf_file {
	const char *name;
	struct bytes sections[DWARF_SECTIONS]; /* owned; each with a NUL behind it */
	struct dwarf_unit_place *units;	       /* ascending */
	size_t unit_count, unit_capacity;
	/* Of units that references led to. */
	struct dwarf_unit *kept_units;
	struct dwarf_abbrev_table *kept_tables;
	bool is_split; /* .dwo or .dwp: the sections are those with .dwo behind their names */
};

/* A value of an attribute. */
enum dwarf_class {
	DWARF_CLASS_NONE,
	DWARF_CLASS_NUMBER,
	DWARF_CLASS_ADDRESS,
	DWARF_CLASS_ADDRESS_INDEX,
	DWARF_CLASS_TEXT,	   /* number: offset in .debug_info, or whatever section is read */
	DWARF_CLASS_STR,	   /* in .debug_str */
	DWARF_CLASS_LINE_STR,	   /* in .debug_line_str */
	DWARF_CLASS_STR_INDEX,	   /* in .debug_str_offsets */
	DWARF_CLASS_ALT_STR,	   /* in .debug_str of the supplementary file */
	DWARF_CLASS_REFERENCE,	   /* to an entry; offset in .debug_info */
	DWARF_CLASS_ALT_REFERENCE, /* in the supplementary file */
	DWARF_CLASS_OFFSET,	   /* in another section */
	DWARF_CLASS_LIST_INDEX,	   /* in .debug_rnglists */
	DWARF_CLASS_OTHER,
};
struct dwarf_value {
	enum dwarf_class class;
	uint64_t number;
	const char *text; /* DWARF_CLASS_TEXT */
};

struct dwarf_unit {
	struct dwarf_file *file;
	/* Of this unit: a unit of a .dwp has parts of the sections, one of a .dwo has .debug_addr of the main file. */
	struct bytes info, abbrevs, str_offsets, rnglists, ranges, addresses;
	uint64_t offset, entries, end; /* in info: header, first entry, end */
	uint64_t abbrev_offset;
	uint64_t str_offsets_base, addr_base, rnglists_base, ranges_base;
	uint64_t low_pc; /* what range lists count from */
	uint64_t stmt_list, dwo_id;
	const char *name, *comp_dir, *dwo_name; /* "" = none */
	uint16_t version, language, tag;
	uint8_t offset_size, address_size, type;
	bool has_stmt_list, has_dwo_id;
};

/* ---- what is read ------------------------------------------------------------------------------------------------------- */

/* A function or inlined call, as its own attributes have it. */
struct dwarf_entry {
	uint64_t offset;
	const char *name, *linkage_name; /* NULL = none */
	struct dwarf_value origin;	 /* DW_AT_abstract_origin, else DW_AT_specification */
	struct dwarf_value low_pc, high_pc, ranges;
	uint32_t decl_file, decl_line, call_file, call_line, call_column; /* 0 = none: file 0 of DWARF 5 is given as +1 */
	uint16_t tag;
};
#define DWARF_FILE_GIVEN(index) ((index) < UINT32_MAX ? (uint32_t)(index) + 1 : 0)

struct dwarf_names {
	const char *name, *linkage_name;
	uint32_t decl_file, decl_line; /* as above; decl_file only if it is of the unit that is read */
};
struct dwarf_span {
	uint64_t start, end;
	uint32_t scope, order; /* the later of two wins */
};
struct dwarf_line_row {
	uint64_t address;
	uint32_t file, line;
	uint16_t column;
};
struct dwarf_line_sequence {
	uint64_t low, high;
	size_t first, count; /* of rows; the end is none */
};
struct dwarf_line_file {
	const char *name;
	uint64_t directory;
	uint32_t id; /* in what the sink gets; CODE_NONE until it is used */
};
/* A unit's line table, as far as names of files go. */
struct dwarf_line_table {
	const char **directories;
	struct dwarf_line_file *files;
	size_t directory_count, directory_capacity, file_count, file_capacity;
	uint16_t version;
};

enum dwarf_other { DWARF_OTHER_UNTRIED, DWARF_OTHER_OPEN, DWARF_OTHER_MISSING };

struct dwarf_reader {
	const struct dwarf_options *options;
	struct dwarf_result *result;
	struct error *err;
	struct dwarf_file main, alt, dwp, dwo;
	enum dwarf_other alt_state, dwp_state;
	char *alt_name;
	char alt_build_id[BUILD_ID_HEX_MAX];
	char *dwo_path; /* of the .dwo that is open, the name of messages about it */
	struct {
		uint64_t start, end;
	} code[DWARF_CODE_MAX]; /* where code is; none = not known */
	size_t code_count;

	/* Of the unit at hand; the memory is used again for the next. */
	struct dwarf_unit unit, split; /* split: what a skeleton stands for */
	struct dwarf_abbrev_table table;
	struct dwarf_line_table lines;
	struct arena arena; /* paths */
	struct map64 names_index;
	struct dwarf_names *names;
	size_t name_count, name_capacity;
	struct code_scope *scopes;
	size_t scope_count, scope_capacity;
	struct dwarf_span *spans;
	size_t span_count, span_capacity;
	uint32_t *heap;
	size_t heap_capacity;
	struct code_range *ranges;
	size_t range_count, range_capacity;
	struct dwarf_line_row *line_rows;
	size_t line_row_count, line_row_capacity;
	struct dwarf_line_sequence *sequences;
	size_t sequence_count, sequence_capacity;
	struct code_row *rows;
	size_t row_count, row_capacity;
	const char **files;
	size_t file_count, file_capacity;
	bool is_incomplete;
	bool is_stopped; /* by the sink */
};

/* All functions below return 0 or a negative errno. -EBADMSG costs the unit, all others end the reading. */

/* Remembers the first thing that went wrong with a unit. */
void dwarf_note(struct dwarf_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* dwarf_file.c */
int dwarf_file_load(struct dwarf_reader *reader, struct dwarf_file *file, int fd, const char *name, bool is_split);
void dwarf_file_release(struct dwarf_file *file);
/* What only the main file has: where its code is, and the name of its supplementary file. */
int dwarf_file_load_main(struct dwarf_reader *reader, int fd);
/* The supplementary file; NULL if it cannot be had, which makes the unit incomplete. */
int dwarf_file_alt(struct dwarf_reader *reader, struct dwarf_file **ret);
bool dwarf_is_code(const struct dwarf_reader *reader, uint64_t address);
/* Asks for another file; *ret_fd -1 if there is none. */
int dwarf_file_open_other(struct dwarf_reader *reader, enum dwarf_file_kind kind, const char *name, const char *build_id,
			  int *ret_fd);

/* dwarf_abbrev.c */
int dwarf_abbrev_load(struct dwarf_reader *reader, const struct dwarf_unit *unit, struct dwarf_abbrev_table *table);
/* Kept until another is asked for. */
int dwarf_abbrev_keep(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_abbrev_table **ret);
void dwarf_abbrev_release(struct dwarf_abbrev_table *table);
const struct dwarf_abbrev *dwarf_abbrev_find(const struct dwarf_abbrev_table *table, uint64_t code);

/* dwarf_unit.c */
int dwarf_units_find(struct dwarf_reader *reader, struct dwarf_file *file);
/* The header; then the first entry. For units of a .dwp, the parts of sections are to be set in between. */
int dwarf_unit_header(struct dwarf_reader *reader, struct dwarf_file *file, uint64_t offset, struct dwarf_unit *ret);
int dwarf_unit_root(struct dwarf_reader *reader, struct dwarf_unit *unit, const struct dwarf_abbrev_table *table);
/* The unit that holds an entry, for a reference. Valid until the next call. */
int dwarf_unit_of(struct dwarf_reader *reader, struct dwarf_file *file, uint64_t offset, const struct dwarf_unit **ret);

/* dwarf_form.c */
struct dwarf_value dwarf_value_read(struct dwarf_cursor *c, const struct dwarf_unit *unit, uint64_t form, int64_t implicit);
/* Bytes of a value of this form, if they are always as many, else UINT32_MAX. */
uint32_t dwarf_form_size(const struct dwarf_unit *unit, uint64_t form);
/* *ret is NULL if there is none to be had. */
int dwarf_value_text(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_value *value,
		     const char **ret);
bool dwarf_value_address(const struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *ret);
bool dwarf_address_at(const struct dwarf_unit *unit, uint64_t index, uint64_t *ret);
uint64_t dwarf_address_max(const struct dwarf_unit *unit);

/* dwarf_entry.c */
bool dwarf_tag_is_scope(uint16_t tag);
int dwarf_entry_read(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_abbrev_table *table,
		     const struct dwarf_abbrev *abbrev, struct dwarf_cursor *c, struct dwarf_entry *ret);
/* Names of an entry of the unit that is walked, through its origins. */
int dwarf_entry_names(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_entry *entry,
		      struct dwarf_names *ret);

/* dwarf_ranges.c */
/* Appends what the entry covers to reader->spans, without a scope. */
int dwarf_ranges_collect(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_entry *entry);
/* reader->spans -> reader->ranges */
int dwarf_ranges_flatten(struct dwarf_reader *reader);

/* dwarf_line.c */
/* Fills reader->lines and reader->rows from the line table of the unit. */
int dwarf_line_read(struct dwarf_reader *reader, const struct dwarf_unit *unit);
/* A file of the table by its number, as struct dwarf_entry has it; CODE_NONE if there is none. */
int dwarf_line_file_id(struct dwarf_reader *reader, const struct dwarf_unit *unit, uint32_t given, uint32_t *ret);

/* dwarf_split.c */
/* Finds what the skeleton reader->unit stands for: *ret is reader->split, or NULL if it cannot be had. */
int dwarf_split_find(struct dwarf_reader *reader, struct dwarf_unit **ret);
void dwarf_split_release(struct dwarf_reader *reader);

#endif
