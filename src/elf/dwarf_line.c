/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Line tables (DWARF 5, 6.2): a header with directories and files, and a program that makes rows of it.
 *
 *   length, u16 version, (5: u8 address size, u8 segment selector size), length of the rest of the header,
 *   u8 minimum instruction length, (4, 5: u8 operations an instruction), u8 default is_stmt, i8 line base, u8 line range,
 *   u8 opcode base, u8 operands of each standard opcode
 *   2 to 4   directories: strings up to an empty one; number 1 is the first, 0 is the unit's directory
 *            files: string, uleb128 directory, time, size, up to an empty string; number 1 is the first
 *   5        for directories, then files: u8 number of fields, (uleb128 DW_LNCT_*, uleb128 form) of each, uleb128 count,
 *            values; number 0 is the first
 *
 * Rows come in sequences, each of rising addresses, the last of which only ends it. A linker leaves sequences of functions that
 * it dropped at addresses where no code is; these are dropped. Sequences are put in order by their ends; where two overlap, the
 * one that ends first has the addresses up to its end. In a sequence the last of the rows of one address counts.
 *
 * Rejected: dwarf_getsrclines() of libdw, which keeps every unit's rows, 48 bytes each, until the file is closed: a gigabyte
 * for a debug file of 300 MB.
 */
#include <dwarf.h>
#include <errno.h>

#include "base/alloc.h"
#include "base/order.h"
#include "elf/dwarf_int.h"

#define FIELDS_MAX 64

struct line_header {
	uint64_t program, end; /* in .debug_line */
	uint8_t minimum_length, line_range, opcode_base, address_size;
	int8_t line_base;
	uint8_t operands[256];
};
struct line_field {
	uint64_t content, form;
};

/* ---- directories and files ---- */

static int limit_error(struct dwarf_reader *reader, int r, const char *what)
{
	return r == -ENOMEM ? error_nomem(reader->err)
			    : error_set(reader->err, r, "%s: a line table has too many %s", reader->options->name, what);
}

static int add_directory(struct dwarf_reader *reader, const char *name)
{
	struct dwarf_line_table *t = &reader->lines;
	int r = array_push(&t->directories, &t->directory_count, &t->directory_capacity, DWARF_UNIT_FILES_MAX, name);
	return r < 0 ? limit_error(reader, r, "directories") : 0;
}

static int add_file(struct dwarf_reader *reader, const char *name, uint64_t directory)
{
	struct dwarf_line_table *t = &reader->lines;
	int r = array_push(&t->files, &t->file_count, &t->file_capacity, DWARF_UNIT_FILES_MAX,
			   (struct dwarf_line_file){name, directory, CODE_NONE});
	return r < 0 ? limit_error(reader, r, "files") : 0;
}

static int read_old_names(struct dwarf_reader *reader, struct dwarf_cursor *c)
{
	int r = 0;
	while (r == 0) {
		const char *name = dwarf_cstring(c);
		if (c->failed || !*name)
			break;
		r = add_directory(reader, name);
	}
	while (r == 0) {
		const char *name = dwarf_cstring(c);
		if (c->failed || !*name)
			break;
		uint64_t directory = dwarf_uleb(c);
		dwarf_uleb(c);
		dwarf_uleb(c);
		r = add_file(reader, name, directory);
	}
	return r < 0 ? r : c->failed ? -EBADMSG : 0;
}

/* A list of directories or files of DWARF 5. */
static int read_new_list(struct dwarf_reader *reader, const struct dwarf_unit *unit, struct dwarf_cursor *c, bool is_files)
{
	struct line_field fields[FIELDS_MAX];
	unsigned field_count = dwarf_u8(c);
	if (field_count > FIELDS_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < field_count; i++)
		fields[i] = (struct line_field){dwarf_uleb(c), dwarf_uleb(c)};
	uint64_t count = dwarf_uleb(c);
	for (uint64_t i = 0; i < count && !c->failed && field_count > 0; i++) {
		const char *name = NULL;
		uint64_t directory = 0;
		for (unsigned f = 0; f < field_count; f++) {
			struct dwarf_value value = dwarf_value_read(c, unit, fields[f].form, 0);
			int r = fields[f].content == DW_LNCT_path ? dwarf_value_text(reader, unit, &value, &name) : 0;
			if (r < 0)
				return r;
			if (fields[f].content == DW_LNCT_directory_index)
				directory = value.number;
		}
		int r = is_files ? add_file(reader, name ? name : "", directory) : add_directory(reader, name ? name : "");
		if (r < 0)
			return r;
	}
	return c->failed ? -EBADMSG : 0;
}

static int read_header(struct dwarf_reader *reader, const struct dwarf_unit *unit, struct line_header *ret)
{
	struct bytes section = unit->file->sections[DWARF_LINE];
	struct dwarf_cursor c = dwarf_cursor_at(section, unit->stmt_list);
	struct line_header h = {.address_size = unit->address_size};
	struct dwarf_unit table = *unit; /* whose offsets may have another size */
	uint64_t length = dwarf_initial_length(&c, &table.offset_size);
	if (c.failed || length > dwarf_left(&c))
		return -EBADMSG;
	c.end = c.at + length;
	h.end = (uint64_t)(c.end - section.data);
	reader->lines.version = dwarf_u16(&c);
	if (reader->lines.version < 2 || reader->lines.version > 5)
		return -EBADMSG;
	if (reader->lines.version >= 5) {
		h.address_size = dwarf_u8(&c);
		dwarf_u8(&c);
	}
	uint64_t rest = dwarf_fixed(&c, table.offset_size);
	if (rest > dwarf_left(&c))
		return -EBADMSG;
	h.program = (uint64_t)(c.at - section.data) + rest;
	h.minimum_length = dwarf_u8(&c);
	if (reader->lines.version >= 4)
		dwarf_u8(&c); /* operations an instruction: 1 on all but VLIW machines */
	dwarf_u8(&c);
	h.line_base = (int8_t)dwarf_u8(&c);
	h.line_range = dwarf_u8(&c);
	h.opcode_base = dwarf_u8(&c);
	for (unsigned i = 1; i < h.opcode_base; i++)
		h.operands[i] = dwarf_u8(&c);
	if (c.failed || (h.address_size != 4 && h.address_size != 8))
		return -EBADMSG;
	int r;
	if (reader->lines.version >= 5) {
		r = read_new_list(reader, &table, &c, false);
		r = r < 0 ? r : read_new_list(reader, &table, &c, true);
	} else {
		r = read_old_names(reader, &c);
	}
	*ret = h;
	return r;
}

/* ---- the program ---- */

struct line_state {
	struct dwarf_line_row row;
	struct dwarf_line_sequence sequence;
	bool is_open;
};

static void reset(struct line_state *s)
{
	*s = (struct line_state){.row = {.file = 1, .line = 1}};
}

static int put_row(struct dwarf_reader *reader, struct line_state *s)
{
	if (!s->is_open) {
		s->is_open = true;
		s->sequence = (struct dwarf_line_sequence){.low = s->row.address, .first = reader->line_row_count};
	}
	int r = array_push(&reader->line_rows, &reader->line_row_count, &reader->line_row_capacity, DWARF_UNIT_ROWS_MAX,
			   s->row);
	return r < 0 ? limit_error(reader, r, "rows") : 0;
}

static int end_sequence(struct dwarf_reader *reader, struct line_state *s, const struct line_header *h)
{
	struct dwarf_line_sequence sequence = s->sequence;
	uint64_t max = h->address_size >= 8 ? UINT64_MAX : UINT32_MAX;
	sequence.high = s->row.address;
	sequence.count = reader->line_row_count - sequence.first;
	bool is_good =
		s->is_open && sequence.low < sequence.high && sequence.low < max - 1 && dwarf_is_code(reader, sequence.low);
	if (s->is_open && !is_good)
		reader->line_row_count = sequence.first;
	reset(s);
	if (!is_good)
		return 0;
	int r = array_push(&reader->sequences, &reader->sequence_count, &reader->sequence_capacity, DWARF_UNIT_ROWS_MAX,
			   sequence);
	return r < 0 ? limit_error(reader, r, "sequences") : 0;
}

static int run_extended(struct dwarf_reader *reader, const struct line_header *h, struct dwarf_cursor *c, struct line_state *s)
{
	uint64_t len = dwarf_uleb(c);
	if (len > dwarf_left(c))
		dwarf_fail(c);
	if (c->failed || len == 0)
		return 0;
	const uint8_t *next = c->at + len;
	int r = 0;
	switch (dwarf_u8(c)) {
	case DW_LNE_end_sequence: r = end_sequence(reader, s, h); break;
	case DW_LNE_set_address:
		if (len - 1 <= 8)
			s->row.address = dwarf_fixed(c, (size_t)len - 1);
		break;
	case DW_LNE_define_file: {
		const char *name = dwarf_cstring(c);
		uint64_t directory = dwarf_uleb(c);
		r = c->failed ? 0 : add_file(reader, name, directory);
		break;
	}
	default: break;
	}
	if (!c->failed)
		c->at = next;
	return r;
}

static int run_standard(struct dwarf_reader *reader, const struct line_header *h, uint8_t opcode, struct dwarf_cursor *c,
			struct line_state *s)
{
	uint64_t number;
	switch (opcode) {
	case DW_LNS_copy: return put_row(reader, s);
	case DW_LNS_advance_pc: s->row.address += dwarf_uleb(c) * h->minimum_length; break;
	case DW_LNS_advance_line: s->row.line = (uint32_t)(s->row.line + (uint64_t)dwarf_sleb(c)); break;
	case DW_LNS_set_file:
		number = dwarf_uleb(c);
		s->row.file = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
		break;
	case DW_LNS_set_column:
		number = dwarf_uleb(c);
		s->row.column = number < UINT16_MAX ? (uint16_t)number : UINT16_MAX;
		break;
	case DW_LNS_const_add_pc:
		s->row.address += h->line_range ? (uint64_t)((255 - h->opcode_base) / h->line_range) * h->minimum_length : 0;
		break;
	case DW_LNS_fixed_advance_pc: s->row.address += dwarf_u16(c); break;
	case DW_LNS_negate_stmt:
	case DW_LNS_set_basic_block:
	case DW_LNS_set_prologue_end:
	case DW_LNS_set_epilogue_begin: break;
	default: /* DW_LNS_set_isa, and what is not known */
		for (unsigned i = 0; i < h->operands[opcode]; i++)
			dwarf_uleb(c);
		break;
	}
	return 0;
}

static int run_program(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct line_header *h)
{
	struct bytes section = {unit->file->sections[DWARF_LINE].data, (size_t)h->end};
	struct dwarf_cursor c = dwarf_cursor_at(section, h->program);
	struct line_state s;
	reset(&s);
	while (dwarf_left(&c) > 0) {
		uint8_t opcode = dwarf_u8(&c);
		int r;
		if (opcode >= h->opcode_base) {
			unsigned adjusted = opcode - h->opcode_base;
			if (h->line_range) {
				s.row.address += (uint64_t)(adjusted / h->line_range) * h->minimum_length;
				s.row.line = (uint32_t)((int64_t)s.row.line + h->line_base + (int)(adjusted % h->line_range));
			}
			r = put_row(reader, &s);
		} else if (opcode == 0) {
			r = run_extended(reader, h, &c, &s);
		} else {
			r = run_standard(reader, h, opcode, &c, &s);
		}
		if (r < 0)
			return r;
	}
	if (s.is_open)
		reader->line_row_count = s.sequence.first;
	return 0;
}

/* ---- paths ---- */

/* Joins two parts with one slash between them; an empty part is none. */
static void join(char *out, const char *part)
{
	size_t len = strlen(out);
	if (len > 0 && out[len - 1] == '/')
		part += strspn(part, "/");
	else if (len > 0 && *part && *part != '/')
		out[len++] = '/';
	memcpy(out + len, part, strlen(part) + 1);
}

/* Absolute, unless nothing says where: the unit's directory, the file's directory, the name, up to the last absolute one. */
static int make_path(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_line_file *file,
		     const char **ret)
{
	const struct dwarf_line_table *t = &reader->lines;
	const char *directory = "", *base = unit->comp_dir;
	*ret = file->name;
	if (file->name[0] == '/')
		return 0;
	if (t->version >= 5 && file->directory < t->directory_count)
		directory = t->directories[file->directory];
	else if (t->version < 5 && file->directory > 0 && file->directory <= t->directory_count)
		directory = t->directories[file->directory - 1];
	if (directory[0] == '/' || (t->version >= 5 && file->directory == 0))
		base = "";
	size_t size = strlen(base) + strlen(directory) + strlen(file->name) + 3;
	char *path = arena_alloc(&reader->arena, size);
	if (!path)
		return limit_error(reader, arena_is_full(&reader->arena, size) ? -E2BIG : -ENOMEM, "paths");
	path[0] = 0;
	join(path, base);
	join(path, directory);
	join(path, file->name);
	*ret = path;
	return 0;
}

static int file_id(struct dwarf_reader *reader, const struct dwarf_unit *unit, uint64_t index, uint32_t *ret)
{
	struct dwarf_line_table *t = &reader->lines;
	if (t->version < 5)
		index--;
	*ret = CODE_NONE;
	if (index >= t->file_count)
		return 0;
	struct dwarf_line_file *file = &t->files[index];
	if (file->id == CODE_NONE) {
		const char *path = NULL;
		int r = array_reserve(&reader->files, &reader->file_capacity, reader->file_count + 1, DWARF_UNIT_FILES_MAX);
		r = r < 0 ? limit_error(reader, r, "files") : make_path(reader, unit, file, &path);
		if (r < 0)
			return r;
		file->id = (uint32_t)reader->file_count;
		reader->files[reader->file_count++] = path;
	}
	*ret = file->id;
	return 0;
}

int dwarf_line_file_id(struct dwarf_reader *reader, const struct dwarf_unit *unit, uint32_t given, uint32_t *ret)
{
	*ret = CODE_NONE;
	return given == 0 ? 0 : file_id(reader, unit, given - 1, ret);
}

/* ---- rows ---- */

DEFINE_ORDER(compare_sequences, struct dwarf_line_sequence, ORDER(a->high, b->high) ?: ORDER(a->first, b->first));

/* Rows of a program that goes backwards, in the order of addresses; of one address, in the program's order. */
static int order_rows(struct dwarf_reader *reader, struct dwarf_line_row *rows, size_t count)
{
	bool is_ordered = true;
	for (size_t i = 1; i < count && is_ordered; i++)
		is_ordered = rows[i - 1].address <= rows[i].address;
	if (is_ordered)
		return 0;
	/* Merge sort, since the order of equal ones matters. */
	_cleanup_(mem_freep) struct dwarf_line_row *other = mem_alloc_array(count, sizeof(*other));
	if (!other)
		return error_nomem(reader->err);
	for (size_t width = 1; width < count; width *= 2) {
		for (size_t from = 0; from < count; from += 2 * width) {
			size_t middle = from + width < count ? from + width : count;
			size_t end = from + 2 * width < count ? from + 2 * width : count;
			for (size_t i = from, j = middle, at = from; at < end; at++)
				other[at] =
					i < middle && (j >= end || rows[i].address <= rows[j].address) ? rows[i++] : rows[j++];
		}
		memcpy(rows, other, count * sizeof(*rows));
	}
	return 0;
}

static int put_code_row(struct dwarf_reader *reader, const struct code_row *row)
{
	struct code_row *last = reader->row_count ? &reader->rows[reader->row_count - 1] : NULL;
	if (last && last->address == row->address) {
		*last = *row;
		return 0;
	}
	if (last && !row->end && !last->end && last->file == row->file && last->line == row->line &&
	    last->column == row->column)
		return 0;
	int r = array_push(&reader->rows, &reader->row_count, &reader->row_capacity, 2 * DWARF_UNIT_ROWS_MAX, *row);
	return r < 0 ? limit_error(reader, r, "rows") : 0;
}

/* What of a sequence lies behind `from`, where the one before it ends. */
static int put_sequence(struct dwarf_reader *reader, const struct dwarf_unit *unit, const struct dwarf_line_sequence *sequence,
			uint64_t from)
{
	struct dwarf_line_row *rows = &reader->line_rows[sequence->first];
	int r = order_rows(reader, rows, sequence->count);
	for (size_t i = 0; r == 0 && i < sequence->count && rows[i].address < sequence->high; i++) {
		if (i + 1 < sequence->count && rows[i + 1].address <= (rows[i].address > from ? rows[i].address : from))
			continue; /* the next one has its place */
		struct code_row row = {.address = rows[i].address > from ? rows[i].address : from, .column = rows[i].column};
		r = file_id(reader, unit, rows[i].file, &row.file);
		row.line = row.file == CODE_NONE ? 0 : rows[i].line;
		if (r == 0)
			r = put_code_row(reader, &row);
	}
	struct code_row end = {.address = sequence->high, .file = CODE_NONE, .end = true};
	return r < 0 ? r : put_code_row(reader, &end);
}

static int put_sequences(struct dwarf_reader *reader, const struct dwarf_unit *unit)
{
	uint64_t from = 0;
	sort_array(reader->sequences, reader->sequence_count, compare_sequences);
	for (size_t i = 0; i < reader->sequence_count; i++) {
		const struct dwarf_line_sequence *sequence = &reader->sequences[i];
		if (sequence->high == from)
			continue;
		int r = put_sequence(reader, unit, sequence, sequence->low > from ? sequence->low : from);
		if (r < 0)
			return r;
		from = sequence->high;
	}
	return 0;
}

int dwarf_line_read(struct dwarf_reader *reader, const struct dwarf_unit *unit)
{
	struct line_header header;
	reader->lines.directory_count = reader->lines.file_count = 0;
	reader->line_row_count = reader->sequence_count = reader->row_count = reader->file_count = 0;
	if (!unit->has_stmt_list)
		return 0;
	int r = read_header(reader, unit, &header);
	if (r == 0)
		r = run_program(reader, unit, &header);
	if (r == 0)
		r = put_sequences(reader, unit);
	if (r == -EBADMSG)
		reader->line_row_count = reader->row_count = 0;
	return r;
}
