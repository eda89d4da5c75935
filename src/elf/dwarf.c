/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF: from debug information to "what functions and lines is this address in".
 *
 * What a compiler writes. Each source file that was compiled is a unit: a tree of entries (.debug_info) and a line table
 * (.debug_line). An entry is a number, which names an abbreviation - tag and attributes with their forms (.debug_abbrev) - and
 * the attributes' values; strings, addresses and lists of ranges are in sections of their own. Among a unit's types and
 * variables, 95 % of the entries, are
 *
 *   DW_TAG_subprogram            a function that has code (a range or a list of them); or a declaration, or the abstract
 *                                instance of one that was inlined, which has none
 *   DW_TAG_inlined_subroutine    a call that was inlined: the code that came of it, and where the call is written
 *
 * at any depth: in namespaces, classes, lexical blocks and each other. The functions at an address are the innermost of these
 * entries that covers it and those around it, up to the first subprogram; the innermost one's line comes from the line table,
 * and each of the others' lines is where it calls the one inside it.
 *
 *     DIE tree                          scopes                              ranges
 *     subprogram main     [10, 90)      0 main                              [10, 20) main
 *       lexical block     [15, 80)                                          [20, 30) push
 *         inlined push    [20, 60)      1 push, parent 0, call line 7       [30, 40) grow
 *           inlined grow  [30, 40)      2 grow, parent 1, call line 3       [40, 60) push
 *                                                                           [60, 90) main
 *
 * The order of work, a unit at a time: its header and first entry; its line table; one pass over its entries in the order of
 * the section, with a stack as deep as the tree, which collects (range, scope) pairs; ranges made flat; the sink. A scope is
 * made when the first range below it is met, so that declarations and abstract instances cost nothing. Memory is the debug
 * sections plus what one unit needs, which is kept for the next unit.
 *
 * All decisions that leave a choice are those of llvm-symbolizer, against which the results are checked: tests/symbol, and
 * docs/symbols.md for the rest.
 *
 * Damage. Every read is checked against the end of its unit or section (struct dwarf_cursor). A unit whose entries cannot be
 * followed is left out; a reference that leads nowhere costs a name, a list of ranges without an end has what it has. Time is
 * bounded by the size of the sections, except where several units or entries share what they refer to (line tables, lists,
 * abbreviations): DWARF_ROWS_MAX bounds that, and the deadline of the process that this runs in.
 *
 * Rejected: libdw. It opens split and supplementary files itself, by the paths that the file at hand names, and its 0.188
 * (Debian 12) neither reads packages (.dwp) nor unpacks zstd, keeps all line tables that were asked for, takes sections'
 * claimed sizes at their word, and cannot be fuzzed and fixed together with us. What is needed of DWARF here - to walk it
 * once, forwards - is small.
 */
#include <dwarf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "elf/dwarf_int.h"

/* The scope that entries at a depth are in. */
struct frame {
	struct dwarf_entry entry;
	uint32_t scope;	 /* CODE_NONE until it is needed */
	uint16_t holder; /* the depth whose frame has the entry: this one's, or one further out; 0 = none */
	uint16_t outer;	 /* the holder around it; 0 = none */
};
struct walk {
	struct dwarf_reader *reader;
	const struct dwarf_unit *unit; /* with the entries */
	struct dwarf_cursor cursor;
	uint64_t depth;
	struct frame frames[DWARF_DEPTH_MAX + 1];
};

void dwarf_note(struct dwarf_reader *reader, const char *format, ...)
{
	if (reader->result->problem[0])
		return;
	va_list args;
	va_start(args, format);
	vsnprintf(reader->result->problem, sizeof(reader->result->problem), format, args);
	va_end(args);
}

/* ---- scopes ---- */

static int fill_scope(struct walk *w, const struct dwarf_entry *entry, uint32_t parent, struct code_scope *ret)
{
	struct dwarf_reader *reader = w->reader;
	struct dwarf_names names;
	*ret = (struct code_scope){.parent = parent, .call_file = CODE_NONE, .file = CODE_NONE};
	int r = dwarf_entry_names(reader, w->unit, entry, &names);
	if (r == 0)
		r = dwarf_line_file_id(reader, &reader->unit, names.decl_file, &ret->file);
	if (r < 0)
		return r;
	ret->name = names.name ? names.name : "";
	ret->linkage_name = names.linkage_name ? names.linkage_name : "";
	ret->line = names.decl_line;
	if (entry->tag != DW_TAG_inlined_subroutine)
		return 0;
	ret->call_line = entry->call_line;
	ret->call_column = entry->call_column;
	return dwarf_line_file_id(reader, &reader->unit, entry->call_file, &ret->call_file);
}

static int add_scope(struct walk *w, const struct dwarf_entry *entry, uint32_t parent, uint32_t *ret)
{
	struct dwarf_reader *reader = w->reader;
	int r = array_reserve(&reader->scopes, &reader->scope_capacity, reader->scope_count + 1, DWARF_UNIT_SCOPES_MAX);
	if (r < 0)
		return r == -ENOMEM ? error_nomem(reader->err)
				    : error_set(reader->err, r, "%s: a unit has more than %u functions and inlined calls",
						reader->options->name, DWARF_UNIT_SCOPES_MAX);
	r = fill_scope(w, entry, parent, &reader->scopes[reader->scope_count]);
	if (r == 0)
		*ret = (uint32_t)reader->scope_count++;
	return r;
}

/* The scope of a frame's entry, made now if it is not there yet, with those around it first. */
static int scope_of(struct walk *w, uint16_t holder, uint32_t *ret)
{
	uint16_t chain[DWARF_DEPTH_MAX + 1];
	size_t count = 0;
	*ret = CODE_NONE;
	while (holder != 0 && w->frames[holder].scope == CODE_NONE) {
		chain[count++] = holder;
		holder = w->frames[holder].entry.tag == DW_TAG_subprogram ? 0 : w->frames[holder].outer;
	}
	if (holder != 0)
		*ret = w->frames[holder].scope;
	while (count > 0) {
		struct frame *frame = &w->frames[chain[--count]];
		int r = add_scope(w, &frame->entry, *ret, &frame->scope);
		if (r < 0)
			return r;
		*ret = frame->scope;
	}
	return 0;
}

/* A function or inlined call, in the frame that its children will have. */
static int visit_scope(struct walk *w, const struct dwarf_abbrev *abbrev, uint16_t depth)
{
	struct dwarf_reader *reader = w->reader;
	struct frame *frame = &w->frames[depth];
	size_t before = reader->span_count;
	frame->outer = w->frames[depth - 1].holder;
	frame->holder = depth;
	frame->scope = CODE_NONE;
	int r = dwarf_entry_read(reader, w->unit, &reader->table, abbrev, &w->cursor, &frame->entry);
	if (r == 0)
		r = dwarf_ranges_collect(reader, w->unit, &frame->entry);
	uint32_t scope;
	if (r < 0 || reader->span_count == before)
		return r;
	r = scope_of(w, depth, &scope);
	for (size_t i = before; r == 0 && i < reader->span_count; i++)
		reader->spans[i].scope = scope;
	return r;
}

static void pass_attributes(struct walk *w, const struct dwarf_abbrev *abbrev)
{
	/* As are those without any: there may be no array of them then. */
	if (abbrev->fixed_size != UINT32_MAX) {
		dwarf_skip(&w->cursor, abbrev->fixed_size);
		return;
	}
	const struct dwarf_attribute *attributes = &w->reader->table.attributes[abbrev->first];
	for (uint32_t i = 0; i < abbrev->count; i++)
		dwarf_value_read(&w->cursor, w->unit, attributes[i].form, attributes[i].implicit);
}

/* Entries deeper than DWARF_DEPTH_MAX are passed over. */
static int visit(struct walk *w, const struct dwarf_abbrev *abbrev)
{
	int r = 0;
	bool is_near = w->depth + 1 <= DWARF_DEPTH_MAX;
	if (is_near && dwarf_tag_is_scope(abbrev->tag)) {
		r = visit_scope(w, abbrev, (uint16_t)(w->depth + 1));
	} else {
		pass_attributes(w, abbrev);
		if (is_near && abbrev->has_children)
			w->frames[w->depth + 1].holder = w->frames[w->depth].holder;
	}
	w->depth += abbrev->has_children;
	return r;
}

static int walk_entries(struct walk *w)
{
	w->frames[0].holder = 0;
	for (bool is_first = true; dwarf_left(&w->cursor) > 0; is_first = false) {
		uint64_t code = dwarf_uleb(&w->cursor);
		if (code == 0) {
			if (w->depth <= 1)
				break;
			w->depth--;
			continue;
		}
		const struct dwarf_abbrev *abbrev = dwarf_abbrev_find(&w->reader->table, code);
		if (!abbrev)
			return -EBADMSG;
		int r = visit(w, abbrev);
		if (r < 0 || w->cursor.failed)
			return r < 0 ? r : -EBADMSG;
		if (is_first && w->depth == 0)
			break;
	}
	return w->cursor.failed ? -EBADMSG : 0;
}

/* ---- units ---- */

static void begin_unit(struct dwarf_reader *reader)
{
	reader->scope_count = reader->span_count = reader->range_count = reader->name_count = 0;
	reader->row_count = reader->file_count = reader->lines.file_count = reader->lines.directory_count = 0;
	map64_clear(&reader->names_index);
	arena_release(&reader->arena);
}

static int read_entries(struct dwarf_reader *reader, struct walk *w, const struct dwarf_unit *unit)
{
	if (unit != &reader->unit) {
		int r = dwarf_abbrev_load(reader, unit, &reader->table);
		if (r < 0)
			return r;
	}
	w->reader = reader;
	w->unit = unit;
	w->cursor = dwarf_cursor_at((struct bytes){unit->info.data, (size_t)unit->end}, unit->entries);
	w->depth = 0;
	int r = walk_entries(w);
	return r < 0 ? r : dwarf_ranges_flatten(reader);
}

static int hand_out(struct dwarf_reader *reader, const struct dwarf_unit *entries, code_unit_sink sink, void *context)
{
	struct code_unit unit = {.name = *reader->unit.name ? reader->unit.name : entries->name,
				 .language = reader->unit.language ? reader->unit.language : entries->language,
				 .scopes = reader->scopes,
				 .ranges = reader->ranges,
				 .rows = reader->rows,
				 .files = reader->files,
				 .scope_count = reader->scope_count,
				 .range_count = reader->range_count,
				 .row_count = reader->row_count,
				 .file_count = reader->file_count};
	if (unit.range_count == 0 && unit.row_count == 0)
		return 0;
	reader->result->units++;
	reader->result->scopes += unit.scope_count;
	reader->result->ranges += unit.range_count;
	reader->result->rows += unit.row_count;
	int r = sink(context, &unit, reader->err);
	reader->is_stopped = r < 0;
	return r;
}

/* Type and partial units have no code of their own. */
static bool may_have_code(const struct dwarf_unit *unit)
{
	bool is_kind = unit->type == DW_UT_compile || unit->type == DW_UT_skeleton;
	return is_kind && (unit->tag == DW_TAG_compile_unit || unit->tag == DW_TAG_skeleton_unit);
}

static int read_unit(struct dwarf_reader *reader, struct walk *w, uint64_t offset, code_unit_sink sink, void *context)
{
	struct dwarf_unit *entries = &reader->unit;
	begin_unit(reader);
	int r = dwarf_unit_header(reader, &reader->main, offset, &reader->unit);
	if (r < 0 || reader->unit.type == DW_UT_type)
		return r;
	r = dwarf_abbrev_load(reader, &reader->unit, &reader->table);
	if (r == 0)
		r = dwarf_unit_root(reader, &reader->unit, &reader->table);
	if (r < 0 || !may_have_code(&reader->unit))
		return r;
	r = dwarf_line_read(reader, &reader->unit);
	if (r < 0 && r != -EBADMSG)
		return r;
	if (r < 0)
		dwarf_note(reader, "%.200s: the line table of %.200s is damaged", reader->options->name, reader->unit.name);
	reader->result->line_rows_read += reader->line_row_count;
	if (reader->result->line_rows_read > DWARF_ROWS_MAX)
		return error_set(reader->err, -E2BIG, "%s: line tables have more than %u rows", reader->options->name,
				 DWARF_ROWS_MAX);
	r = *reader->unit.dwo_name && reader->unit.has_dwo_id ? dwarf_split_find(reader, &entries) : 0;
	if (r == 0 && entries)
		r = read_entries(reader, w, entries);
	return r < 0 ? r : hand_out(reader, entries ? entries : &reader->unit, sink, context);
}

static int read_units(struct dwarf_reader *reader, struct walk *w, code_unit_sink sink, void *context)
{
	for (size_t i = 0; i < reader->main.unit_count; i++) {
		reader->is_incomplete = false;
		int r = read_unit(reader, w, reader->main.units[i].offset, sink, context);
		if (reader->dwo.sections[DWARF_INFO].data || reader->dwo_path)
			dwarf_split_release(reader);
		if (r == -EBADMSG && !reader->is_stopped) {
			dwarf_note(reader, "%.200s: the unit at offset %llu is damaged", reader->options->name,
				   (unsigned long long)reader->main.units[i].offset);
			reader->result->units_damaged++;
		} else if (r < 0) {
			return r;
		}
		reader->result->units_incomplete += reader->is_incomplete;
	}
	if (reader->result->units == 0 && reader->result->units_damaged > 0)
		return error_set(reader->err, -EBADMSG, "%s", reader->result->problem);
	return 0;
}

static void release(struct dwarf_reader *reader)
{
	dwarf_split_release(reader);
	dwarf_file_release(&reader->main);
	dwarf_file_release(&reader->alt);
	dwarf_file_release(&reader->dwp);
	dwarf_abbrev_release(&reader->table);
	arena_release(&reader->arena);
	map64_release(&reader->names_index);
	void *const owned[] = {reader->lines.directories,
			       reader->lines.files,
			       reader->names,
			       reader->scopes,
			       reader->spans,
			       reader->heap,
			       reader->ranges,
			       reader->line_rows,
			       reader->sequences,
			       reader->rows,
			       (void *)reader->files,
			       reader->alt_name};
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++)
		mem_free(owned[i]);
}

int dwarf_read(int fd, const struct dwarf_options *options, code_unit_sink sink, void *sink_context, struct dwarf_result *ret,
	       struct error *err)
{
	struct dwarf_result result = {0};
	struct dwarf_reader *reader = mem_zalloc(sizeof(*reader));
	struct walk *w = mem_zalloc(sizeof(*w));
	int r = -ENOMEM;
	if (reader && w) {
		reader->options = options;
		reader->result = &result;
		reader->err = err;
		arena_init(&reader->arena, DWARF_UNIT_PATHS_MAX);
		r = dwarf_file_load_main(reader, fd);
		if (r == 0)
			r = read_units(reader, w, sink, sink_context);
		release(reader);
	} else {
		error_nomem(err);
	}
	if (r == 0 && err)
		*err = (struct error){0}; /* of what was left out; it is in the result */
	mem_free(w);
	mem_free(reader);
	*ret = result;
	return r;
}
