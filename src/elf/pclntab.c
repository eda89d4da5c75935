/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Go's table of functions (runtime.pclntab), after the runtime's own reader (src/runtime/symtab.go of Go 1.2 to 1.26) and the
 * design document "Go 1.2 Runtime Symbol Information". The runtime needs it for tracebacks, so it is in every program, stripped
 * or not. Little-endian; p is a pointer.
 *
 *   header     u32 magic, 2 zeros, u8 quantum of instructions, u8 size of p, then
 *     1.2      p functions; the list of functions follows
 *     1.16     p functions, p files, p offsets of: names, files of units, files, pc tables, functions
 *     1.18     p functions, p files, p text, the same offsets
 *   functions  {p address, p record} each, and one address that ends the last; {u32, u32} from the start of the text since 1.18
 *   record     p (1.18: u32) address, u32 name, args, deferreturn, pc tables: stack, file, line, u32 number of other pc
 *              tables, 1.16: u32 unit, 1.20: u32 line of the declaration, 3 bytes, u8 number of funcdata, u32 other pc
 *              tables[], p (1.18: u32) funcdata[]
 *   pc table   {varint value, zigzag, difference to the one before; varint bytes / quantum} until a value of 0; starts at -1
 *   file       the value of a table is an index: 1.2 into a list of offsets of names, 1.16 into the list of the unit, whose
 *              entries are offsets into the names of files
 *
 * 1.20 changed the record and inlined calls, 1.18 made everything relative to the start of the text. pclntab_inline.c has the
 * inlined calls, pclntab_find.c the search.
 *
 * Bounds. A pc table is decoded no further than its function reaches, and all together no longer than a multiple of the
 * table's size: functions may share tables, but the sum over real programs is far below it. Calls deeper than CALLS_DEEP_MAX
 * hang below their function: whoever walks up from each range would pay for depth as often as there are ranges. A damaged
 * function is left out and counted. Functions are handed over in units of about UNIT_ROWS rows.
 */
#include "elf/pclntab_int.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/sorted.h"
#include "elf/demangle/demangle.h"

#define UNIT_ROWS	(64u * 1024)
#define STEPS_MAX	(4u * 1024 * 1024) /* of one pc table */
#define NAME_BYTES_MAX	(64 * MIB)	   /* of one unit, of names that had to be rewritten */
#define FILE_NAME_MAX	4096
#define CALLS_DEEP_MAX	255u /* inlined into each other: with the function, the frames that an address may have */
#define DAMAGE_PART_MAX 2    /* a table of which more than 1 in 2 functions is damaged is damaged as a whole */

struct reader {
	struct pclntab table;
	code_unit_sink sink;
	void *context;
	struct pclntab_result result;
	/* The unit being made. */
	struct code_scope *scopes;
	struct code_range *ranges;
	struct code_row *rows;
	const char **files;
	size_t scope_count, scope_capacity, range_count, range_capacity, row_count, row_capacity, file_count, file_capacity;
	struct map64 file_index; /* offset of the name -> index in files */
	struct arena text;
	/* The function being read. */
	struct pclntab_steps file_steps, line_steps, inline_steps;
	struct pclntab_call *calls;
	struct call_scope {
		uint32_t scope; /* CODE_NONE = not seen */
		uint32_t depth; /* 1 = in the function itself */
	} * call_scopes;	/* of each call */
	size_t call_capacity, call_scope_capacity;
};

/* ---- pc tables ---- */

static bool read_varint(const uint8_t *data, size_t len, size_t *at, uint32_t *ret)
{
	uint32_t value = 0;
	for (unsigned shift = 0; shift < 35 && *at < len; shift += 7) {
		uint8_t byte = data[(*at)++];
		value |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

static int damaged_steps(const struct pclntab *table, struct error *err)
{
	return error_set(err, -EBADMSG, "%s: damaged Go function table: bad pc table", table->file->name);
}

int pclntab_decode(struct pclntab *table, const struct pclntab_function *function, uint32_t offset, struct pclntab_steps *ret,
		   struct error *err)
{
	size_t start = table->layout >= PCLNTAB_1_16 ? table->pc_tables : 0;
	ret->count = 0;
	if (offset == 0)
		return 0;
	if (offset >= table->len - start)
		return damaged_steps(table, err);
	size_t at = start + offset;
	uint64_t pc = function->start;
	uint32_t value = UINT32_MAX;
	for (bool first = true; pc < function->end; first = false) {
		uint32_t change, distance;
		if (!read_varint(table->data, table->len, &at, &change))
			return damaged_steps(table, err);
		if (change == 0 && !first)
			break;
		if (!read_varint(table->data, table->len, &at, &distance) || table->steps_left == 0 || ret->count == STEPS_MAX)
			return damaged_steps(table, err);
		table->steps_left--;
		value += (change >> 1) ^ -(change & 1);
		uint64_t bytes = (uint64_t)distance * table->quantum;
		pc = bytes < function->end - pc ? pc + bytes : function->end;
		if (array_push(&ret->items, &ret->count, &ret->capacity, SIZE_MAX, (struct pclntab_step){pc, (int32_t)value}) <
		    0)
			return error_nomem(err);
	}
	return 0;
}

/* The value at an address, -1 if none. */
static int32_t value_at(const struct pclntab_steps *steps, uint64_t address)
{
	size_t at = sorted_count_up_to(steps->items, steps->count, end, address);
	return at < steps->count ? steps->items[at].value : -1;
}

/* ---- files ---- */

/* The offset of a file's name in the table; 0 when there is none. */
static size_t find_file_name(const struct pclntab *table, uint32_t unit, int32_t value)
{
	size_t base = table->layout == PCLNTAB_1_2 ? 0 : table->files;
	size_t list = table->layout == PCLNTAB_1_2 ? table->files : table->units;
	uint64_t at = list + 4 * ((uint64_t)unit + (uint32_t)value);
	int32_t first = table->layout == PCLNTAB_1_2; /* whose list starts with its length */
	if (value < first || at > table->len || table->len - at < 4)
		return 0;
	uint64_t offset = pclntab_number(table, (size_t)at, 4);
	if (offset == UINT32_MAX || offset >= table->len - base)
		return 0;
	const char *name = (const char *)table->data + base + offset;
	size_t left = table->len - base - (size_t)offset, len = strnlen(name, left);
	return len > 0 && len < left && len <= FILE_NAME_MAX ? base + (size_t)offset : 0;
}

static int add_file(struct reader *reader, uint32_t unit, int32_t value, uint32_t *ret, struct error *err)
{
	size_t name = find_file_name(&reader->table, unit, value);
	uint64_t index;
	*ret = CODE_NONE;
	if (name == 0)
		return 0;
	if (map64_get(&reader->file_index, name, &index)) {
		*ret = (uint32_t)index;
		return 0;
	}
	if (array_reserve(&reader->files, &reader->file_capacity, reader->file_count + 1, SIZE_MAX) < 0 ||
	    map64_put(&reader->file_index, name, reader->file_count) < 0)
		return error_nomem(err);
	reader->files[reader->file_count] = (const char *)reader->table.data + name;
	*ret = (uint32_t)reader->file_count++;
	return 0;
}

/* ---- rows ---- */

static int add_row(struct reader *reader, const struct code_row *row, struct error *err)
{
	struct code_row *last = reader->row_count > 0 ? &reader->rows[reader->row_count - 1] : NULL;
	if (last && last->address == row->address) {
		*last = *row;
		return 0;
	}
	if (last && !row->end && !last->end && last->file == row->file && last->line == row->line)
		return 0;
	return array_push(&reader->rows, &reader->row_count, &reader->row_capacity, SIZE_MAX, *row) < 0 ? error_nomem(err) : 0;
}

/* Where the function's code ends: what follows up to the next one is padding. */
static uint64_t code_end(const struct reader *reader, const struct pclntab_function *function)
{
	const struct pclntab_steps *steps = &reader->line_steps;
	uint64_t end = steps->count > 0 ? steps->items[steps->count - 1].end : function->start;
	return end > function->start ? end : function->end;
}

static int add_rows(struct reader *reader, const struct pclntab_function *function, struct error *err)
{
	const struct pclntab_steps *files = &reader->file_steps, *lines = &reader->line_steps;
	uint64_t end = code_end(reader, function);
	size_t file = 0, line = 0;
	for (uint64_t pc = function->start; pc < end;) {
		while (file < files->count && files->items[file].end <= pc)
			file++;
		while (line < lines->count && lines->items[line].end <= pc)
			line++;
		struct code_row row = {.address = pc, .file = CODE_NONE};
		int r = file < files->count ? add_file(reader, function->unit, files->items[file].value, &row.file, err) : 0;
		if (line < lines->count && lines->items[line].value > 0)
			row.line = (uint32_t)lines->items[line].value;
		if (r == 0)
			r = add_row(reader, &row, err);
		if (r < 0)
			return r;
		uint64_t next = end;
		if (file < files->count && files->items[file].end < next)
			next = files->items[file].end;
		if (line < lines->count && lines->items[line].end < next)
			next = lines->items[line].end;
		pc = next;
	}
	return add_row(reader, &(struct code_row){.address = end, .end = true}, err);
}

/* ---- scopes and ranges ---- */

/* Import paths have some characters escaped in symbols ("gopkg.in/yaml%2ev2.Marshal"). */
static int name_scope(struct reader *reader, const char *raw, struct code_scope *ret, struct error *err)
{
	ret->name = raw;
	ret->linkage_name = "";
	if (!strchr(raw, '%'))
		return 0;
	_cleanup_(buffer_release) struct buffer name = {.max = PCLNTAB_NAME_MAX};
	int r = demangle_symbol(raw, &name);
	if (r <= 0)
		return r < 0 ? error_nomem(err) : 0;
	ret->name = arena_strndup(&reader->text, (const char *)name.data, name.len);
	ret->linkage_name = raw;
	if (!ret->name)
		return error_nomem(err);
	return 0;
}

static int add_scope(struct reader *reader, const struct code_scope *scope, struct error *err)
{
	int r = array_push(&reader->scopes, &reader->scope_count, &reader->scope_capacity, UINT32_MAX, *scope);
	return r < 0 ? error_nomem(err) : 0;
}

static int add_range(struct reader *reader, uint64_t start, uint64_t end, uint32_t scope, struct error *err)
{
	struct code_range *last = reader->range_count > 0 ? &reader->ranges[reader->range_count - 1] : NULL;
	if (start >= end)
		return 0;
	if (last && last->end == start && last->scope == scope) {
		last->end = end;
		return 0;
	}
	int r = array_push(&reader->ranges, &reader->range_count, &reader->range_capacity, SIZE_MAX,
			   (struct code_range){start, end, scope});
	return r < 0 ? error_nomem(err) : 0;
}

static int locate(struct reader *reader, const struct pclntab_function *function, uint64_t address, uint32_t *ret_file,
		  uint32_t *ret_line, struct error *err)
{
	int32_t line = value_at(&reader->line_steps, address);
	*ret_line = line > 0 ? (uint32_t)line : 0;
	return add_file(reader, function->unit, value_at(&reader->file_steps, address), ret_file, err);
}

/* The scope of call i, whose parent has one already. */
static int add_call(struct reader *reader, const struct pclntab_function *function, uint32_t function_scope, size_t i,
		    struct error *err)
{
	const struct pclntab_call *call = &reader->calls[i];
	struct code_scope scope = {.parent = function_scope, .file = CODE_NONE, .line = call->line};
	const char *name = pclntab_get_name(&reader->table, call->name);
	uint64_t at = call->parent_pc < function->end - function->start ? function->start + call->parent_pc : function->end;
	/* A parent comes before its calls; anything else is damage and hangs the call below the function. */
	int32_t parent = value_at(&reader->inline_steps, at);
	const struct call_scope *outer = parent >= 0 && (size_t)parent < i ? &reader->call_scopes[parent] : NULL;
	bool is_inner = outer && outer->scope != CODE_NONE && outer->depth < CALLS_DEEP_MAX;
	if (is_inner)
		scope.parent = outer->scope;
	int r = name_scope(reader, name ? name : "", &scope, err);
	if (r == 0)
		r = locate(reader, function, at, &scope.call_file, &scope.call_line, err);
	if (r < 0)
		return r;
	reader->call_scopes[i] = (struct call_scope){(uint32_t)reader->scope_count, is_inner ? outer->depth + 1 : 1};
	return add_scope(reader, &scope, err);
}

/* Makes scopes for the calls that the pc table names. 0 without any or when they are damaged: the function is whole then. */
static int add_calls(struct reader *reader, size_t i, const struct pclntab_function *function, struct error *err)
{
	const struct pclntab_steps *steps = &reader->inline_steps;
	int32_t last = -1;
	for (size_t k = 0; k < steps->count; k++)
		last = steps->items[k].value > last ? steps->items[k].value : last;
	size_t count = (size_t)((int64_t)last + 1);
	if (count == 0 || count > PCLNTAB_INLINE_CALLS_MAX)
		return 0;
	if (array_reserve(&reader->calls, &reader->call_capacity, count, SIZE_MAX) < 0 ||
	    array_reserve(&reader->call_scopes, &reader->call_scope_capacity, count, SIZE_MAX) < 0)
		return error_nomem(err);
	int r = pclntab_get_calls(&reader->table, i, function, count, reader->calls, err);
	if (r < 0)
		return r == -EBADMSG ? 0 : r;
	uint32_t function_scope = (uint32_t)reader->scope_count - 1;
	memset(reader->call_scopes, 0xff, count * sizeof(*reader->call_scopes));
	for (size_t k = 0; k < steps->count; k++) {
		if (steps->items[k].value >= 0)
			reader->call_scopes[steps->items[k].value].scope = 0;
	}
	for (size_t k = 0; k < count && r == 0; k++) {
		if (reader->call_scopes[k].scope != CODE_NONE)
			r = add_call(reader, function, function_scope, k, err);
	}
	return r < 0 ? r : 1;
}

static int add_ranges(struct reader *reader, const struct pclntab_function *function, uint32_t scope, bool has_calls,
		      struct error *err)
{
	const struct pclntab_steps *steps = &reader->inline_steps;
	uint64_t pc = function->start, end = code_end(reader, function);
	int r = 0;
	for (size_t i = 0; has_calls && i < steps->count && pc < end && r == 0; i++) {
		uint64_t stop = steps->items[i].end < end ? steps->items[i].end : end;
		int32_t value = steps->items[i].value;
		r = add_range(reader, pc, stop, value < 0 ? scope : reader->call_scopes[value].scope, err);
		pc = stop;
	}
	return r < 0 ? r : add_range(reader, pc, end, scope, err);
}

/* Inlined calls know the line of their declaration but not its file: it is that of the first of their own instructions. */
static void name_files(struct reader *reader, uint32_t first_scope, size_t first_range, size_t first_row)
{
	size_t row = first_row;
	for (size_t i = first_range; i < reader->range_count; i++) {
		struct code_scope *scope = &reader->scopes[reader->ranges[i].scope];
		while (row + 1 < reader->row_count && reader->rows[row + 1].address <= reader->ranges[i].start)
			row++;
		if (reader->ranges[i].scope >= first_scope && scope->file == CODE_NONE && scope->line != 0)
			scope->file = reader->rows[row].file;
	}
}

/* Damage of the table of inlined calls costs these. */
static int decode_tables(struct reader *reader, size_t i, const struct pclntab_function *function, struct error *err)
{
	struct pclntab *table = &reader->table;
	bool has_calls = table->inline_data ? table->inline_at[i] != 0 : function->inline_tree != PCLNTAB_NONE;
	struct error problem = {0};
	int r = pclntab_decode(table, function, function->file_table, &reader->file_steps, err);
	if (r == 0)
		r = pclntab_decode(table, function, function->line_table, &reader->line_steps, err);
	reader->inline_steps.count = 0;
	if (r < 0 || !has_calls)
		return r;
	r = pclntab_decode(table, function, function->inline_table, &reader->inline_steps, &problem);
	if (r == -EBADMSG) {
		reader->inline_steps.count = 0;
		return 0;
	}
	if (r < 0 && err)
		*err = problem;
	return r;
}

/* -EBADMSG when the function is damaged; nothing of it is in the unit then. */
static int add_function(struct reader *reader, size_t i, const struct pclntab_function *function, struct error *err)
{
	const char *name = pclntab_get_name(&reader->table, function->name);
	if (!name)
		return error_set(err, -EBADMSG, "%s: damaged Go function table: bad name", reader->table.file->name);
	int r = decode_tables(reader, i, function, err);
	if (r < 0)
		return r;
	uint32_t scope_index = (uint32_t)reader->scope_count;
	size_t first_range = reader->range_count, first_row = reader->row_count;
	/* The row before may end exactly here, and become this function's first. */
	if (first_row > 0 && reader->rows[first_row - 1].address == function->start)
		first_row--;
	struct code_scope scope = {.parent = CODE_NONE, .file = CODE_NONE, .line = function->line, .call_file = CODE_NONE};
	r = name_scope(reader, name, &scope, err);
	if (r == 0)
		r = add_scope(reader, &scope, err);
	int calls = r == 0 ? add_calls(reader, i, function, err) : r;
	if (calls >= 0)
		r = add_ranges(reader, function, scope_index, calls > 0, err);
	if (calls < 0)
		r = calls;
	if (r == 0)
		r = add_rows(reader, function, err);
	if (r == 0)
		name_files(reader, scope_index, first_range, first_row);
	return r;
}

/* ---- units ---- */

static int finish_unit(struct reader *reader, struct error *err)
{
	struct code_unit unit = {.name = "",
				 .language = DW_LANG_Go,
				 .scopes = reader->scopes,
				 .ranges = reader->ranges,
				 .rows = reader->rows,
				 .files = reader->files,
				 .scope_count = reader->scope_count,
				 .range_count = reader->range_count,
				 .row_count = reader->row_count,
				 .file_count = reader->file_count};
	int r = reader->scope_count > 0 ? reader->sink(reader->context, &unit, err) : 0;
	reader->scope_count = reader->range_count = reader->row_count = reader->file_count = 0;
	map64_clear(&reader->file_index);
	arena_release(&reader->text);
	return r;
}

static int read_functions(struct reader *reader, struct error *err)
{
	struct pclntab *table = &reader->table;
	uint64_t behind = 0; /* the end of the function before: they are in order, or damaged */
	int r = 0;
	for (size_t i = 0; i < table->function_count && r >= 0; i++) {
		struct pclntab_function function;
		r = -EBADMSG;
		if (pclntab_get_function(table, i, &function) && function.start >= behind) {
			behind = function.end;
			r = add_function(reader, i, &function, err);
		}
		reader->result.functions += r == 0;
		reader->result.damaged += r == -EBADMSG;
		if (r == -EBADMSG)
			r = 0;
		if (r == 0 && (reader->row_count >= UNIT_ROWS || reader->scope_count >= UNIT_ROWS))
			r = finish_unit(reader, err);
	}
	if (r == 0)
		r = finish_unit(reader, err);
	if (r == 0 && reader->result.damaged > table->function_count / DAMAGE_PART_MAX)
		return error_set(err, -EBADMSG, "%s: damaged Go function table: %llu of %zu cannot be read", table->file->name,
				 (unsigned long long)reader->result.damaged, table->function_count);
	return r;
}

static void release_reader(struct reader *reader)
{
	pclntab_close(&reader->table);
	mem_free(reader->scopes);
	mem_free(reader->ranges);
	mem_free(reader->rows);
	mem_free(reader->files);
	map64_release(&reader->file_index);
	arena_release(&reader->text);
	mem_free(reader->file_steps.items);
	mem_free(reader->line_steps.items);
	mem_free(reader->inline_steps.items);
	mem_free(reader->calls);
	mem_free(reader->call_scopes);
}

int pclntab_read(struct elf_file *file, code_unit_sink sink, void *context, struct pclntab_result *ret, struct error *err)
{
	static const char *const versions[] = {"1.2", "1.16", "1.18", "1.20"};
	struct reader reader = {.sink = sink, .context = context, .text.max_bytes = NAME_BYTES_MAX};
	int r = pclntab_open(file, &reader.table, err);
	if (r < 0)
		return r;
	r = read_functions(&reader, err);
	if (r == 0) {
		memcpy(reader.result.version, versions[reader.table.layout], strlen(versions[reader.table.layout]) + 1);
		*ret = reader.result;
	}
	release_reader(&reader);
	return r;
}
