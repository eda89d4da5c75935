/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units come one after another, each with ranges and rows in order; between units there is no order, and some claim the same
 * code (functions that the linker folded, headers compiled twice). So ranges and rows are kept in runs, one a unit, and put in
 * order at the end: of runs that overlap, the unit that came first has the address.
 *
 * Memory is what a table of millions of rows costs: 12 bytes a range, 16 a row, 20 a scope; strings and functions once each.
 */
#include "symbol/table_write.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/io.h"
#include "base/order.h"
#include "codec/protobuf.h"
#include "symbol/table_int.h"

#define RANGES_MAX    (64u * 1024 * 1024)
#define SCOPES_MAX    (64u * 1024 * 1024)
#define FUNCTIONS_MAX (32u * 1024 * 1024)
#define ROWS_MAX      (256u * 1024 * 1024)
#define STRINGS_MAX   (1 * GIB)

struct range {
	uint32_t start, end, scope;
	uint32_t order; /* of its unit */
};
struct row {
	uint32_t address, file, line;
	uint16_t column;
	bool end;
};
struct range_list {
	struct range *items;
	size_t count, capacity;
};
/* Rows that belong together, a sequence of a line table, the last of which only ends it. */
struct run {
	size_t first, count;
	uint32_t order; /* of its unit */
};

struct table_writer {
	struct symbol_table_segment segments[SYMBOL_TABLE_SEGMENTS_MAX];
	uint32_t segment_count, flags;
	uint64_t base, bias;
	struct intern strings; /* names and paths */
	struct intern paths;   /* files, numbered; [0] = "" */
	struct range_list ranges;
	struct symbol_table_scope *scopes;
	size_t scope_count, scope_capacity;
	struct symbol_table_function *functions;
	size_t function_count, function_capacity;
	struct index32 function_index;
	struct row *rows;
	size_t row_count, row_capacity;
	struct run *runs;
	size_t run_count, run_capacity;
	struct symbol {
		uint32_t start, end, name;
		bool continued;
	} * symbols;
	size_t symbol_count;
	uint32_t units;
	uint32_t *file_ids, *scope_ids; /* of the unit being added */
	uint8_t *scope_depths;
	size_t file_id_capacity, scope_id_capacity, scope_depth_capacity;
};

int table_writer_new(const struct symbol_table_segment *segments, size_t segment_count, uint32_t flags,
		     struct table_writer **ret, struct error *err)
{
	struct table_writer *w = mem_zalloc(sizeof(*w));
	if (!w)
		return error_nomem(err);
	w->flags = flags;
	for (size_t i = 0; i < segment_count && i < SYMBOL_TABLE_SEGMENTS_MAX; i++) {
		w->segments[w->segment_count++] = segments[i];
		if (i == 0 || segments[i].address < w->base)
			w->base = segments[i].address;
	}
	if (intern_init(&w->strings, STRINGS_MAX) < 0 || intern_init(&w->paths, STRINGS_MAX) < 0) {
		table_writer_free(w);
		return error_nomem(err);
	}
	*ret = w;
	return 0;
}

struct table_writer *table_writer_free(struct table_writer *w)
{
	if (!w)
		return NULL;
	intern_release(&w->strings);
	intern_release(&w->paths);
	index32_release(&w->function_index);
	mem_free(w->ranges.items);
	mem_free(w->scopes);
	mem_free(w->functions);
	mem_free(w->rows);
	mem_free(w->runs);
	mem_free(w->symbols);
	mem_free(w->file_ids);
	mem_free(w->scope_ids);
	mem_free(w->scope_depths);
	return mem_free(w);
}

void table_writer_set_bias(struct table_writer *w, uint64_t bias)
{
	w->bias = bias;
}

void table_writer_add_flags(struct table_writer *w, uint32_t flags)
{
	w->flags |= flags;
}

uint64_t table_writer_base(const struct table_writer *w)
{
	return w->base;
}

static int too_many(int r, const char *what, struct error *err)
{
	return r == -E2BIG ? error_set(err, r, "too many %s for a symbol table", what) : error_nomem(err);
}

static int add_text(struct intern *strings, const char *text, uint32_t *ret, struct error *err)
{
	int r = intern_add_string(strings, text, ret);
	return r < 0 ? too_many(r, "names", err) : 0;
}

int table_writer_add_symbols(struct table_writer *w, const struct symbol_range *ranges, size_t count, struct error *err)
{
	w->symbols = mem_alloc_array(count, sizeof(*w->symbols));
	if (!w->symbols)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		int r = add_text(&w->strings, ranges[i].name, &w->symbols[i].name, err);
		if (r < 0)
			return r;
		w->symbols[i].start = ranges[i].start;
		w->symbols[i].end = ranges[i].end;
		w->symbols[i].continued = ranges[i].continued;
		w->symbol_count++;
	}
	return 0;
}

/* ---- units ---- */

/* From the base, cut to 32 bits; false when it is before it. */
static bool to_table(const struct table_writer *w, uint64_t address, uint32_t *ret)
{
	address += w->bias;
	if (address < w->base)
		return false;
	*ret = address - w->base > UINT32_MAX ? UINT32_MAX : (uint32_t)(address - w->base);
	return true;
}

/* The table's number of a file of the unit, added when it is first used. */
static int get_file(struct table_writer *w, const struct code_unit *unit, uint32_t file, uint32_t *ret, struct error *err)
{
	*ret = 0;
	if (file == CODE_NONE)
		return 0;
	if (file >= unit->file_count)
		return error_set(err, -EBADMSG, "%s: file %u of %zu", unit->name, file, unit->file_count);
	if (w->file_ids[file] == CODE_NONE) {
		int r = add_text(&w->paths, unit->files[file], &w->file_ids[file], err);
		if (r < 0)
			return r;
	}
	*ret = w->file_ids[file];
	return 0;
}

static int add_function(struct table_writer *w, const struct symbol_table_function *function, uint32_t *ret, struct error *err)
{
	uint64_t hash = hash64(function, sizeof(*function));
	uint32_t id;
	if (w->function_index.capacity)
		for (size_t at = index32_first(&w->function_index, hash); index32_at(&w->function_index, hash, &at, &id); at++)
			if (memcmp(&w->functions[id], function, sizeof(*function)) == 0) {
				*ret = id;
				return 0;
			}
	int r = array_reserve(&w->functions, &w->function_capacity, w->function_count + 1, FUNCTIONS_MAX);
	if (r < 0)
		return too_many(r, "functions", err);
	if (index32_add(&w->function_index, hash, (uint32_t)w->function_count) < 0)
		return error_nomem(err);
	w->functions[w->function_count] = *function;
	*ret = (uint32_t)w->function_count++;
	return 0;
}

static int get_function(struct table_writer *w, const struct code_unit *unit, const struct code_scope *scope, uint32_t *ret,
			struct error *err)
{
	struct symbol_table_function function = {.line = scope->line, .language = unit->language};
	const char *name = scope->linkage_name[0] ? scope->linkage_name : scope->name;
	int r = add_text(&w->strings, name, &function.name, err);
	if (r == 0)
		r = get_file(w, unit, scope->file, &function.file, err);
	return r < 0 ? r : add_function(w, &function, ret, err);
}

/* The table's number of what a scope is inlined into; of one that is too deep, its function. */
static uint32_t find_parent(struct table_writer *w, const struct code_unit *unit, uint32_t scope)
{
	uint32_t parent = unit->scopes[scope].parent;
	if (parent == CODE_NONE) {
		w->scope_depths[scope] = 0;
		return CODE_NONE;
	}
	uint32_t id = w->scope_ids[parent];
	if (w->scope_depths[parent] < SYMBOL_TABLE_DEPTH_MAX - 1) {
		w->scope_depths[scope] = w->scope_depths[parent] + 1;
		return id;
	}
	while (w->scopes[id].parent != CODE_NONE)
		id = w->scopes[id].parent;
	w->scope_depths[scope] = 1;
	return id;
}

/* The table's number of a scope of the unit. Only those that a range leads to are added, parents first. */
static int add_scope(struct table_writer *w, const struct code_unit *unit, uint32_t scope, struct error *err)
{
	const struct code_scope *s = &unit->scopes[scope];
	struct symbol_table_scope out = {.parent = find_parent(w, unit, scope)};
	int r = get_function(w, unit, s, &out.function, err);
	if (r == 0 && s->parent != CODE_NONE)
		r = get_file(w, unit, s->call_file, &out.call_file, err);
	if (r < 0)
		return r;
	if (s->parent != CODE_NONE) {
		out.call_line = s->call_line;
		out.call_column = s->call_column;
	}
	r = array_reserve(&w->scopes, &w->scope_capacity, w->scope_count + 1, SCOPES_MAX);
	if (r < 0)
		return too_many(r, "inlined calls", err);
	w->scope_ids[scope] = (uint32_t)w->scope_count;
	w->scopes[w->scope_count++] = out;
	return 0;
}

#define SCOPE_WANTED (CODE_NONE - 1)

static int add_scopes(struct table_writer *w, const struct code_unit *unit, struct error *err)
{
	for (size_t i = 0; i < unit->scope_count; i++) {
		w->scope_ids[i] = CODE_NONE;
		if (unit->scopes[i].parent != CODE_NONE && unit->scopes[i].parent >= i)
			return error_set(err, -EBADMSG, "%s: an inlined call comes before its caller", unit->name);
	}
	for (size_t i = 0; i < unit->range_count; i++) {
		if (unit->ranges[i].scope >= unit->scope_count)
			return error_set(err, -EBADMSG, "%s: scope %u of %zu", unit->name, unit->ranges[i].scope,
					 unit->scope_count);
		for (uint32_t s = unit->ranges[i].scope; s != CODE_NONE && w->scope_ids[s] == CODE_NONE;
		     s = unit->scopes[s].parent)
			w->scope_ids[s] = SCOPE_WANTED;
	}
	for (size_t i = 0; i < unit->scope_count; i++) {
		if (w->scope_ids[i] != SCOPE_WANTED)
			continue;
		int r = add_scope(w, unit, (uint32_t)i, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_ranges(struct table_writer *w, const struct code_unit *unit, struct error *err)
{
	int r = array_reserve(&w->ranges.items, &w->ranges.capacity, w->ranges.count + unit->range_count, RANGES_MAX);
	if (r < 0)
		return too_many(r, "ranges", err);
	for (size_t i = 0; i < unit->range_count; i++) {
		const struct code_range *in = &unit->ranges[i];
		struct range out = {.scope = w->scope_ids[in->scope], .order = w->units};
		if (in->start >= in->end || (i > 0 && in->start < unit->ranges[i - 1].end))
			return error_set(err, -EBADMSG, "%s: ranges are out of order", unit->name);
		if (to_table(w, in->start, &out.start) && to_table(w, in->end, &out.end) && out.start < out.end)
			w->ranges.items[w->ranges.count++] = out;
	}
	return 0;
}

/* Rows that say the same as the one before are left out. */
static int add_rows(struct table_writer *w, const struct code_unit *unit, struct error *err)
{
	int r = array_reserve(&w->rows, &w->row_capacity, w->row_count + unit->row_count, ROWS_MAX);
	if (r < 0)
		return too_many(r, "lines", err);
	bool open = false;
	for (size_t i = 0; i < unit->row_count; i++) {
		const struct code_row *in = &unit->rows[i];
		struct row out = {.line = in->line, .column = in->column, .end = in->end};
		if (i > 0 && in->address < unit->rows[i - 1].address)
			return error_set(err, -EBADMSG, "%s: lines are out of order", unit->name);
		if (!to_table(w, in->address, &out.address))
			continue;
		r = in->end ? 0 : get_file(w, unit, in->file, &out.file, err);
		if (r < 0)
			return r;
		if (!open) {
			if (in->end)
				continue;
			r = array_push(&w->runs, &w->run_count, &w->run_capacity, ROWS_MAX,
				       (struct run){.first = w->row_count, .order = w->units});
			if (r < 0)
				return too_many(r, "lines", err);
			open = true;
		}
		struct run *run = &w->runs[w->run_count - 1];
		const struct row *before = run->count ? &w->rows[w->row_count - 1] : NULL;
		if (before && !out.end && before->file == out.file && before->line == out.line && before->column == out.column)
			continue;
		w->rows[w->row_count++] = out;
		run->count++;
		open = !in->end;
	}
	if (open)
		return error_set(err, -EBADMSG, "%s: the last line has no end", unit->name);
	return 0;
}

int table_writer_add_unit(void *writer, const struct code_unit *unit, struct error *err)
{
	struct table_writer *w = writer;
	int r = array_reserve(&w->file_ids, &w->file_id_capacity, unit->file_count, UINT32_MAX);
	if (r == 0)
		r = array_reserve(&w->scope_ids, &w->scope_id_capacity, unit->scope_count, SCOPES_MAX);
	if (r == 0)
		r = array_reserve(&w->scope_depths, &w->scope_depth_capacity, unit->scope_count, SCOPES_MAX);
	if (r < 0)
		return too_many(r, "files or scopes", err);
	for (size_t i = 0; i < unit->file_count; i++)
		w->file_ids[i] = CODE_NONE;
	r = add_scopes(w, unit, err);
	if (r == 0)
		r = add_ranges(w, unit, err);
	if (r == 0)
		r = add_rows(w, unit, err);
	w->units++;
	return r;
}

/* ---- putting in order ---- */

DEFINE_ORDER(compare_ranges, struct range, ORDER(a->start, b->start) ?: ORDER(a->order, b->order));

/* Ranges that hold the address where the sweep is, the one of the first unit on top: a binary heap. */
struct heap {
	struct range *items;
	size_t count, capacity;
};

static int heap_push(struct heap *heap, struct range range)
{
	int r = array_reserve(&heap->items, &heap->capacity, heap->count + 1, RANGES_MAX);
	if (r < 0)
		return r;
	size_t at = heap->count++;
	for (; at > 0 && heap->items[(at - 1) / 2].order > range.order; at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = range;
	return 0;
}

static void heap_pop(struct heap *heap)
{
	struct range last = heap->items[--heap->count];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
		child += child + 1 < heap->count && heap->items[child + 1].order < heap->items[child].order;
		if (heap->items[child].order >= last.order)
			break;
		heap->items[at] = heap->items[child];
	}
	heap->items[at] = last;
}

/* Sweeps over ranges by address, and keeps of those that overlap the one of the first unit. */
static int sweep(const struct range_list *ranges, struct heap *heap, struct range_list *ret)
{
	size_t next = 0;
	uint32_t at = 0;
	int r = 0;
	while (r == 0 && (next < ranges->count || heap->count > 0)) {
		if (heap->count > 0 && heap->items[0].end <= at) {
			heap_pop(heap);
			continue;
		}
		if (heap->count == 0 && ranges->items[next].start > at)
			at = ranges->items[next].start;
		if (next < ranges->count && ranges->items[next].start <= at) {
			r = heap_push(heap, ranges->items[next++]);
			continue;
		}
		struct range range = heap->items[0];
		range.start = at;
		if (next < ranges->count && ranges->items[next].start < range.end)
			range.end = ranges->items[next].start;
		at = range.end;
		r = array_push(&ret->items, &ret->count, &ret->capacity, 2 * (size_t)RANGES_MAX, range);
	}
	return r;
}

/* Puts ranges in order and cuts them so that each address is in one at most; the array is replaced. */
static int put_in_order(struct range_list *ranges)
{
	struct heap heap = {0};
	struct range_list kept = {0};
	if (ranges->count == 0)
		return 0;
	sort_array(ranges->items, ranges->count, compare_ranges);
	int r = sweep(ranges, &heap, &kept);
	mem_free(heap.items);
	mem_free(ranges->items);
	*ranges = kept;
	return r;
}

/* Which run has which addresses; `scope` is its number. */
static int order_runs(const struct table_writer *w, struct range_list *ret)
{
	*ret = (struct range_list){.items = mem_alloc_array(w->run_count, sizeof(*ret->items))};
	if (!ret->items)
		return -ENOMEM;
	for (size_t i = 0; i < w->run_count; i++) {
		const struct row *rows = w->rows + w->runs[i].first, *end = &rows[w->runs[i].count - 1];
		if (rows->address < end->address)
			ret->items[ret->count++] = (struct range){rows->address, end->address, (uint32_t)i, w->runs[i].order};
	}
	return put_in_order(ret);
}

enum out_part { STARTS, SCOPES, SYMBOLS, BLOCKS, BLOCK_AT, ROWS, OUT_PARTS };
struct out {
	struct table_writer *writer;
	struct buffer parts[OUT_PARTS];
	uint32_t last_scope, last_symbol;
	size_t count;
	/* of the block of rows being written */
	uint32_t block_rows, address, file, line;
	uint64_t row_count;
};

static void put32(struct out *out, enum out_part part, uint32_t value)
{
	buffer_append(&out->parts[part], &value, sizeof(value));
}

/* From `start` on. Ranges that say the same as the one before are joined. symbol: | SYMBOL_TABLE_BEGINS. */
static void put_range(struct out *out, uint32_t start, uint32_t scope, uint32_t symbol)
{
	if (out->count > 0 && scope == out->last_scope && symbol == out->last_symbol)
		return;
	if (out->count == 0 && scope == CODE_NONE && !symbol)
		return;
	out->count++;
	out->last_scope = scope;
	out->last_symbol = symbol & ~SYMBOL_TABLE_BEGINS;
	put32(out, STARTS, start);
	put32(out, SCOPES, scope);
	put32(out, SYMBOLS, symbol);
}

static uint32_t symbol_of(const struct symbol *symbol, uint32_t at, const uint32_t *string_at)
{
	uint32_t name = string_at[symbol->name];
	return name && symbol->start == at && !symbol->continued ? name | SYMBOL_TABLE_BEGINS : name;
}

/* Scopes and symbols are two lists of ranges; each address gets one of both. */
static void put_ranges(struct out *out, const uint32_t *string_at)
{
	struct table_writer *w = out->writer;
	size_t i = 0, k = 0;
	uint32_t at = 0;
	while (at < UINT32_MAX && (i < w->ranges.count || k < w->symbol_count)) {
		const struct range *range = i < w->ranges.count ? &w->ranges.items[i] : NULL;
		const struct symbol *symbol = k < w->symbol_count ? &w->symbols[k] : NULL;
		bool in_range = range && range->start <= at, in_symbol = symbol && symbol->start <= at;
		uint32_t next = UINT32_MAX;
		if (range && (in_range ? range->end : range->start) < next)
			next = in_range ? range->end : range->start;
		if (symbol && (in_symbol ? symbol->end : symbol->start) < next)
			next = in_symbol ? symbol->end : symbol->start;
		if (next > at)
			put_range(out, at, in_range ? range->scope : CODE_NONE,
				  in_symbol ? symbol_of(symbol, at, string_at) : 0);
		at = next;
		i += in_range && range->end <= at;
		k += in_symbol && symbol->end <= at;
	}
	put_range(out, at, CODE_NONE, 0);
}

static void put_row(struct out *out, const struct row *row)
{
	struct buffer *rows = &out->parts[ROWS];
	if (out->block_rows == 0) {
		put32(out, BLOCKS, row->address);
		put32(out, BLOCK_AT, (uint32_t)rows->len);
		out->address = row->address;
		out->file = out->line = 0;
	}
	bool differs = !row->end && row->file != out->file;
	pb_write_raw_varint(rows, (uint64_t)(row->address - out->address) << 2 | (differs ? 2 : 0) | (row->end ? 1 : 0));
	if (differs)
		pb_write_raw_varint(rows, row->file);
	if (!row->end) {
		int64_t delta = (int64_t)row->line - out->line;
		pb_write_raw_varint(rows, (uint32_t)((uint32_t)delta << 1 ^ (uint32_t) - ((uint32_t)delta >> 31)));
		pb_write_raw_varint(rows, row->column);
		out->file = row->file;
		out->line = row->line;
	}
	out->address = row->address;
	out->block_rows = (out->block_rows + 1) % SYMBOL_TABLE_BLOCK_ROWS;
	out->row_count++;
}

/* What a run says of the addresses of a piece of it. Pieces come in order: the run begins where the last one ended. */
static void put_piece(struct out *out, struct run *run, const struct range *piece)
{
	const struct row *rows = out->writer->rows;
	while (rows[run->first + 1].address <= piece->start)
		run->first++;
	struct row row = rows[run->first];
	row.address = piece->start;
	put_row(out, &row);
	while (rows[run->first + 1].address < piece->end)
		put_row(out, &rows[++run->first]);
}

static int put_rows(struct out *out)
{
	struct table_writer *w = out->writer;
	struct range_list pieces;
	int r = order_runs(w, &pieces);
	for (size_t i = 0; r == 0 && i < pieces.count; i++) {
		const struct range *piece = &pieces.items[i];
		put_piece(out, &w->runs[piece->scope], piece);
		if (i + 1 == pieces.count || pieces.items[i + 1].start != piece->end)
			put_row(out, &(struct row){.address = piece->end, .end = true});
	}
	mem_free(pieces.items);
	return r;
}

/* ---- the image ---- */

struct part {
	const void *data;
	size_t len;
};

/* Strings, then paths; string_at by id of strings, file_at by id of paths. */
static int lay_strings(const struct table_writer *w, struct buffer *strings, uint32_t *string_at, uint32_t *file_at,
		       struct error *err)
{
	for (size_t i = 0; i < w->strings.count + w->paths.count; i++) {
		bool is_path = i >= w->strings.count;
		uint32_t id = (uint32_t)(is_path ? i - w->strings.count : i);
		struct bytes text = intern_get(is_path ? &w->paths : &w->strings, id);
		*(is_path ? &file_at[id] : &string_at[id]) = text.len ? (uint32_t)strings->len : 0;
		if (!text.len && i > 0)
			continue;
		buffer_append(strings, text.data, text.len);
		buffer_append_byte(strings, 0);
	}
	return buffer_status(strings) < 0 ? too_many(buffer_status(strings), "names", err) : 0;
}

static int write_parts(struct symbol_table_header *header, const struct part *parts, size_t count, int fd, struct error *err)
{
	_cleanup_(buffer_release) struct buffer image = {.max = SIZE_MAX};
	if (buffer_reserve(&image, header->length) < 0)
		return error_nomem(err);
	memset(image.data, 0, header->length);
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		if (parts[i].len)
			memcpy(image.data + at, parts[i].data, parts[i].len);
		at = (at + parts[i].len + 7) & ~(size_t)7;
	}
	header->checksum = hash64(image.data + SYMBOL_TABLE_CHECKSUM_FROM, header->length - SYMBOL_TABLE_CHECKSUM_FROM);
	memcpy(image.data, header, sizeof(*header));
	return io_pwrite(fd, image.data, header->length, 0, "symbol table", err);
}

static int write_image(struct table_writer *w, struct out *out, struct symbol_table_header *header, const uint32_t *file_at,
		       const struct buffer *strings, uint64_t bytes_max, int fd, struct error *err)
{
	const struct buffer *made = out->parts;
	header->segment_count = w->segment_count;
	header->range_count = (uint32_t)out->count;
	header->scope_count = (uint32_t)w->scope_count;
	header->function_count = (uint32_t)w->function_count;
	header->file_count = (uint32_t)w->paths.count;
	header->block_count = (uint32_t)(made[BLOCKS].len / 4);
	header->rows_len = made[ROWS].len;
	header->strings_len = strings->len;
	header->length = symbol_table_layout(header, NULL);
	if (header->length > bytes_max)
		return error_set(err, -E2BIG, "a symbol table of more than %llu bytes, the limit",
				 (unsigned long long)bytes_max);
	const struct part parts[] = {
		{header, sizeof(*header)},
		{w->segments, w->segment_count * sizeof(*w->segments)},
		{made[STARTS].data, made[STARTS].len},
		{made[SCOPES].data, made[SCOPES].len},
		{made[SYMBOLS].data, made[SYMBOLS].len},
		{w->scopes, w->scope_count * sizeof(*w->scopes)},
		{w->functions, w->function_count * sizeof(*w->functions)},
		{file_at, w->paths.count * sizeof(*file_at)},
		{made[BLOCKS].data, made[BLOCKS].len},
		{made[BLOCK_AT].data, made[BLOCK_AT].len},
		{made[ROWS].data, made[ROWS].len},
		{strings->data, strings->len},
	};
	return write_parts(header, parts, sizeof(parts) / sizeof(parts[0]), fd, err);
}

static int finish(struct table_writer *w, struct out *out, struct symbol_table_header *header, uint64_t bytes_max, int fd,
		  struct error *err)
{
	_cleanup_(mem_freep) uint32_t *string_at = mem_alloc_array(w->strings.count, sizeof(*string_at));
	_cleanup_(mem_freep) uint32_t *file_at = mem_alloc_array(w->paths.count, sizeof(*file_at));
	_cleanup_(buffer_release) struct buffer strings = {.max = UINT32_MAX};
	if (!string_at || !file_at)
		return error_nomem(err);
	int r = lay_strings(w, &strings, string_at, file_at, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < w->function_count; i++)
		w->functions[i].name = string_at[w->functions[i].name];
	r = put_in_order(&w->ranges);
	if (r == 0) {
		put_ranges(out, string_at);
		r = put_rows(out);
	}
	for (size_t i = 0; r == 0 && i < OUT_PARTS; i++)
		r = buffer_status(&out->parts[i]);
	if (r < 0)
		return too_many(r, "ranges and lines", err);
	return write_image(w, out, header, file_at, &strings, bytes_max, fd, err);
}

int table_writer_finish(struct table_writer *w, const char *build_id, uint32_t sources, uint32_t machine, uint64_t kernel,
			uint64_t bytes_max, int out_fd, struct table_written *ret, struct error *err)
{
	struct symbol_table_header header = {.version = SYMBOL_TABLE_VERSION,
					     .flags = w->flags,
					     .base = w->base,
					     .kernel = kernel,
					     .sources = sources,
					     .machine = machine};
	struct out out = {.writer = w};
	if (strlen(build_id) >= sizeof(header.build_id))
		return error_set(err, -EINVAL, "a build-id of more than %zu digits", sizeof(header.build_id) - 1);
	memcpy(header.magic, SYMBOL_TABLE_MAGIC, sizeof(header.magic));
	memcpy(header.build_id, build_id, strlen(build_id));
	for (size_t i = 0; i < OUT_PARTS; i++)
		buffer_init(&out.parts[i], UINT32_MAX);
	int r = finish(w, &out, &header, bytes_max && bytes_max < SYMBOL_TABLE_BYTES_MAX ? bytes_max : SYMBOL_TABLE_BYTES_MAX,
		       out_fd, err);
	if (r == 0)
		*ret = (struct table_written){header.length, w->function_count, out.count, out.row_count};
	for (size_t i = 0; i < OUT_PARTS; i++)
		buffer_release(&out.parts[i]);
	return r;
}
