/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbol table in memory and on disk, version 1, little-endian:
 *
 *   offset  size  what
 *   0       8     magic "WICKSYM\n"
 *   8       8     XXH3-64 of everything from byte 16 on
 *   16      4     version
 *   20      4     flags (enum symbol_table_flags)
 *   24      8     length of the whole image
 *   32      8     base address: range starts count from here
 *   40      4     number of ranges, N
 *   44      4     number of segments
 *   48      8     length of the strings
 *   56      136   build-id, hex, padded with NULs
 *   192           segments: { u64 file offset, u64 size, u64 address }, those that are executed
 *                 u32 start[N], u32 size[N], u32 name[N]: ranges, ascending, not overlapping, none empty
 *                 strings: mangled names, each ended by a NUL; name[i] is an offset into them
 *
 * A lookup goes from file offset through the segments to an address, and by binary search in start[] to a range. The three
 * arrays are apart so that the search touches nothing but starts. Addresses and not file offsets are stored because a separate
 * debug file knows addresses only, and since that is what line tables (to come) are made of. 32 bits are enough: code of more
 * than 4 GiB in one binary cannot be reached by its own calls; symbols beyond are left out.
 *
 * Which names win. Symbols at one address are aliases; the first in this order is kept: with a size before without; functions
 * before untyped ones; global, weak, local; fewest underscores in front; shortest; first in byte order. An untyped label
 * without a size inside a function is no function. Where symbols overlap, the one that starts last wins, and what encloses it
 * goes on behind its end. A symbol without a size ends where the next one starts, at the latest with its section. Between
 * symbols there is no name: an address is never given to an earlier function that has ended.
 *
 * Invariants of an image are all checked when it is loaded (validate), so a lookup checks nothing. A file that fails is made
 * anew. Images are read, not mapped: one that is cut short under a mapping would kill the process.
 */
#include "symbol/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "elf/build_id.h"
#include "elf/elf_symbols.h"

#define TABLE_MAGIC	  "WICKSYM\n"
#define TABLE_VERSION	  1u
#define CHECKSUM_FROM	  16
#define STRINGS_BYTES_MAX (512 * MIB)
#define RANGES_MAX	  (2u * ELF_SYMBOLS_MAX + 1)
#define BUILD_ID_FIELD	  136

struct symbol_table_header {
	char magic[8];
	uint64_t checksum;
	uint32_t version, flags;
	uint64_t length, base;
	uint32_t range_count, segment_count;
	uint64_t strings_len;
	char build_id[BUILD_ID_FIELD];
};
_Static_assert(sizeof(struct symbol_table_header) == 192, "the header is part of the file format");

struct symbol_table_segment {
	uint64_t offset, size, address;
};

/* ---- building ---- */

struct range {
	uint32_t start, size, name;
};

/* A symbol whose end has not been reached yet. */
struct open_symbol {
	uint64_t end;
	uint32_t name;
	bool is_unsized;
};

struct builder {
	struct elf_symbols symbols;
	struct symbol_table_segment segments[SYMBOL_TABLE_SEGMENTS_MAX];
	uint32_t segment_count, flags;
	uint64_t base;
	struct range *ranges;
	size_t range_count, range_capacity;
	struct open_symbol *open; /* a stack */
	size_t open_count, open_capacity;
	uint64_t done_until; /* ranges are complete up to this address */
	struct buffer strings;
};

static void builder_release(struct builder *b)
{
	elf_symbols_release(&b->symbols);
	mem_free(b->ranges);
	mem_free(b->open);
	buffer_release(&b->strings);
}

static int binding_rank(uint8_t binding)
{
	return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->is_unsized != y->is_unsized)
		return x->is_unsized ? 1 : -1;
	if ((x->type == STT_NOTYPE) != (y->type == STT_NOTYPE))
		return x->type == STT_NOTYPE ? 1 : -1;
	int order = binding_rank(x->binding) - binding_rank(y->binding);
	if (order)
		return order;
	size_t x_under = strspn(x->name, "_"), y_under = strspn(y->name, "_");
	if (x_under != y_under)
		return x_under < y_under ? -1 : 1;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	order = memcmp(x->name, y->name, x->name_len);
	if (order)
		return order;
	return x->size < y->size ? 1 : x->size > y->size ? -1 : 0;
}

static void add_segment(struct builder *b, uint64_t offset, uint64_t size, uint64_t address)
{
	if (b->segment_count == SYMBOL_TABLE_SEGMENTS_MAX || size == 0 || size > UINT64_MAX - offset ||
	    size > UINT64_MAX - address)
		return;
	b->segments[b->segment_count++] = (struct symbol_table_segment){offset, size, address};
	if (b->segment_count == 1 || address < b->base)
		b->base = address;
}

static bool is_executed(const struct elf_segment *segment)
{
	return segment->type == PT_LOAD && (segment->flags & PF_X) && segment->memory_size > 0;
}

/* Tools that split debug information off leave program headers behind whose addresses are right, but whose file offsets and
 * sizes are the binary's, 0, or neither (elfutils; binutils; binutils on files from gold), and nothing tells which. */
static void add_debug_segments(struct builder *b, const struct elf_file *debug)
{
	b->flags |= SYMBOL_TABLE_NO_OFFSETS;
	for (size_t i = 0; i < debug->segment_count; i++)
		if (is_executed(&debug->segments[i]))
			add_segment(b, 0, debug->segments[i].memory_size, debug->segments[i].address);
}

static void add_segments(struct builder *b, const struct elf_file *file, const struct elf_file *debug)
{
	if (!file) {
		add_debug_segments(b, debug);
		return;
	}
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (is_executed(s))
			add_segment(b, s->offset, s->file_size, s->address);
	}
}

static int emit(struct builder *b, uint64_t from, uint64_t to, uint32_t name, struct error *err)
{
	uint64_t start = from - b->base, end = to - b->base;
	if (end > UINT32_MAX)
		end = UINT32_MAX;
	if (start >= end)
		return 0;
	int r = array_reserve(&b->ranges, &b->range_capacity, b->range_count + 1, RANGES_MAX);
	if (r < 0)
		return r == -E2BIG ? error_set(err, r, "more than %u ranges, the limit", RANGES_MAX) : error_nomem(err);
	b->ranges[b->range_count++] = (struct range){(uint32_t)start, (uint32_t)(end - start), name};
	return 0;
}

/* Ends the innermost open symbol at `end`. */
static int pop_symbol(struct builder *b, uint64_t end, struct error *err)
{
	uint32_t name = b->open[--b->open_count].name;
	if (end <= b->done_until)
		return 0;
	int r = emit(b, b->done_until, end, name, err);
	b->done_until = end;
	return r;
}

/* Brings the ranges up to `address`, where a symbol starts. */
static int advance(struct builder *b, uint64_t address, struct error *err)
{
	while (b->open_count > 0) {
		const struct open_symbol *top = &b->open[b->open_count - 1];
		if (top->end > address && !top->is_unsized)
			break;
		int r = pop_symbol(b, top->end < address ? top->end : address, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int push_symbol(struct builder *b, const struct elf_symbol *symbol, struct error *err)
{
	const struct open_symbol *outer = b->open_count > 0 ? &b->open[b->open_count - 1] : NULL;
	if (outer && symbol->is_unsized && symbol->type == STT_NOTYPE)
		return 0;
	uint64_t end = symbol->address + symbol->size;
	if (outer && symbol->is_unsized && end > outer->end)
		end = outer->end;
	if (outer && b->done_until < symbol->address) {
		int r = emit(b, b->done_until, symbol->address, outer->name, err);
		if (r < 0)
			return r;
	}
	uint32_t name = (uint32_t)b->strings.len;
	int r = buffer_append(&b->strings, symbol->name, symbol->name_len + 1);
	if (r == -E2BIG)
		return error_set(err, r, "symbol names of more than %llu bytes, the limit",
				 (unsigned long long)STRINGS_BYTES_MAX);
	if (r < 0 || array_reserve(&b->open, &b->open_capacity, b->open_count + 1, ELF_SYMBOLS_MAX) < 0)
		return error_nomem(err);
	b->open[b->open_count++] = (struct open_symbol){end, name, symbol->is_unsized};
	b->done_until = symbol->address;
	return 0;
}

static int make_ranges(struct builder *b, struct error *err)
{
	struct elf_symbol *items = b->symbols.items;
	if (b->symbols.count > 0)
		qsort(items, b->symbols.count, sizeof(*items), compare_symbols);
	for (size_t i = 0; i < b->symbols.count; i++) {
		bool is_alias = i > 0 && items[i].address == items[i - 1].address;
		if (is_alias || items[i].address < b->base || items[i].address - b->base > UINT32_MAX)
			continue;
		int r = advance(b, items[i].address, err);
		if (r == 0)
			r = push_symbol(b, &items[i], err);
		if (r < 0)
			return r;
	}
	while (b->open_count > 0) {
		int r = pop_symbol(b, b->open[b->open_count - 1].end, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the image ---- */

static size_t image_length(uint64_t range_count, uint64_t segment_count, uint64_t strings_len)
{
	return sizeof(struct symbol_table_header) + segment_count * sizeof(struct symbol_table_segment) +
	       range_count * 3 * sizeof(uint32_t) + strings_len;
}

/* Points the table into its image. Lengths have been checked. */
static void locate_parts(struct symbol_table *table)
{
	table->header = (const struct symbol_table_header *)table->image;
	table->segments = (const struct symbol_table_segment *)(table->image + sizeof(*table->header));
	table->starts = (const uint32_t *)(table->segments + table->header->segment_count);
	table->sizes = table->starts + table->header->range_count;
	table->names = table->sizes + table->header->range_count;
	table->strings = (const char *)(table->names + table->header->range_count);
}

static void write_image(const struct builder *b, const char *build_id, uint8_t *image, size_t len)
{
	struct symbol_table_header *header = (struct symbol_table_header *)image;
	*header = (struct symbol_table_header){.version = TABLE_VERSION,
					       .flags = b->flags,
					       .length = len,
					       .base = b->base,
					       .range_count = (uint32_t)b->range_count,
					       .segment_count = b->segment_count,
					       .strings_len = b->strings.len};
	memcpy(header->magic, TABLE_MAGIC, sizeof(header->magic));
	memcpy(header->build_id, build_id, strlen(build_id));
	uint8_t *at = image + sizeof(*header);
	memcpy(at, b->segments, b->segment_count * sizeof(b->segments[0]));
	uint32_t *starts = (uint32_t *)(at + b->segment_count * sizeof(b->segments[0]));
	uint32_t *sizes = starts + b->range_count, *names = sizes + b->range_count;
	for (size_t i = 0; i < b->range_count; i++) {
		starts[i] = b->ranges[i].start;
		sizes[i] = b->ranges[i].size;
		names[i] = b->ranges[i].name;
	}
	if (b->strings.len > 0)
		memcpy(names + b->range_count, b->strings.data, b->strings.len);
	header->checksum = hash64(image + CHECKSUM_FROM, len - CHECKSUM_FROM);
}

static int finish_table(const struct builder *b, const char *build_id, struct symbol_table **ret, struct error *err)
{
	size_t len = image_length(b->range_count, b->segment_count, b->strings.len);
	if (len > SYMBOL_TABLE_BYTES_MAX)
		return error_set(err, -E2BIG, "a symbol table of %zu bytes, more than the limit of %llu", len,
				 (unsigned long long)SYMBOL_TABLE_BYTES_MAX);
	struct symbol_table *table = mem_zalloc(sizeof(*table));
	uint8_t *image = mem_alloc(len);
	if (!table || !image) {
		mem_free(table);
		mem_free(image);
		return error_nomem(err);
	}
	write_image(b, build_id, image, len);
	table->image = image;
	table->len = len;
	locate_parts(table);
	*ret = table;
	return 0;
}

static int collect_symbols(struct builder *b, struct elf_file *file, struct elf_file *debug, struct error *err)
{
	int r = file ? elf_symbols_add_file(&b->symbols, file, err) : 0;
	if (r == 0 && debug)
		r = elf_symbols_add_file(&b->symbols, debug, err);
	if (r == 0 && b->symbols.has_symtab)
		b->flags |= SYMBOL_TABLE_HAS_SYMTAB;
	return r;
}

int symbol_table_build(const char *build_id, struct elf_file *file, struct elf_file *debug, struct symbol_table **ret,
		       struct error *err)
{
	if (strlen(build_id) >= BUILD_ID_FIELD)
		return error_set(err, -EINVAL, "a build-id of more than %d digits", BUILD_ID_FIELD - 1);
	struct builder b = {0};
	elf_symbols_init(&b.symbols);
	buffer_init(&b.strings, STRINGS_BYTES_MAX);
	add_segments(&b, file, debug);
	int r = collect_symbols(&b, file, debug, err);
	if (r == 0)
		r = make_ranges(&b, err);
	if (r == 0)
		r = finish_table(&b, build_id, ret, err);
	builder_release(&b);
	return r;
}

/* ---- loading ---- */

static int validate_header(struct bytes image, const char *build_id, struct error *err)
{
	struct symbol_table_header h;
	if (image.len < sizeof(h))
		return error_set(err, -EBADMSG, "the symbol table ends inside its header");
	memcpy(&h, image.data, sizeof(h));
	if (memcmp(h.magic, TABLE_MAGIC, sizeof(h.magic)) != 0 || h.version != TABLE_VERSION)
		return error_set(err, -EBADMSG, "not a symbol table of version %u", TABLE_VERSION);
	if (h.length != image.len || h.segment_count > SYMBOL_TABLE_SEGMENTS_MAX || h.range_count > RANGES_MAX ||
	    h.strings_len > STRINGS_BYTES_MAX || image_length(h.range_count, h.segment_count, h.strings_len) != image.len)
		return error_set(err, -EBADMSG, "the symbol table's length is wrong");
	if (h.checksum != hash64(image.data + CHECKSUM_FROM, image.len - CHECKSUM_FROM))
		return error_set(err, -EBADMSG, "the symbol table's checksum is wrong");
	if (strnlen(h.build_id, BUILD_ID_FIELD) == BUILD_ID_FIELD || strcmp(h.build_id, build_id) != 0)
		return error_set(err, -EBADMSG, "the symbol table belongs to another build-id");
	return 0;
}

static bool ranges_are_valid(const struct symbol_table *table)
{
	uint64_t previous_end = 0, strings_len = table->header->strings_len;
	for (uint32_t i = 0; i < table->header->range_count; i++) {
		uint64_t end = (uint64_t)table->starts[i] + table->sizes[i];
		if (table->sizes[i] == 0 || table->starts[i] < previous_end || end > UINT32_MAX ||
		    table->names[i] >= strings_len)
			return false;
		previous_end = end;
	}
	return strings_len == 0 || table->strings[strings_len - 1] == 0;
}

static bool segments_are_valid(const struct symbol_table *table)
{
	for (uint32_t i = 0; i < table->header->segment_count; i++) {
		const struct symbol_table_segment *s = &table->segments[i];
		if (s->size == 0 || s->size > UINT64_MAX - s->offset || s->size > UINT64_MAX - s->address)
			return false;
	}
	return true;
}

int symbol_table_from_image(struct buffer *buffer, const char *build_id, struct symbol_table **ret, struct error *err)
{
	int r = validate_header(buffer_bytes(buffer), build_id, err);
	if (r < 0)
		return r;
	struct symbol_table *table = mem_zalloc(sizeof(*table));
	if (!table)
		return error_nomem(err);
	table->image = buffer->data;
	table->len = buffer->len;
	locate_parts(table);
	if (!ranges_are_valid(table) || !segments_are_valid(table)) {
		mem_free(table);
		return error_set(err, -EBADMSG, "the symbol table's ranges are out of order");
	}
	buffer->data = NULL;
	buffer->len = buffer->capacity = 0;
	*ret = table;
	return 0;
}

struct symbol_table *symbol_table_free(struct symbol_table *table)
{
	if (!table)
		return NULL;
	mem_free(table->image);
	return mem_free(table);
}

/* ---- looking up ---- */

uint32_t symbol_table_flags(const struct symbol_table *table)
{
	return table->header->flags;
}

uint32_t symbol_table_range_count(const struct symbol_table *table)
{
	return table->header->range_count;
}

static bool offset_to_address(const struct symbol_table *table, uint64_t offset, uint64_t *ret)
{
	for (uint32_t i = 0; i < table->header->segment_count; i++) {
		const struct symbol_table_segment *s = &table->segments[i];
		if (offset >= s->offset && offset - s->offset < s->size) {
			*ret = s->address + (offset - s->offset);
			return true;
		}
	}
	return false;
}

static const char *find_address(const struct symbol_table *table, uint64_t address, uint32_t *ret_range)
{
	if (address < table->header->base || address - table->header->base > UINT32_MAX)
		return NULL;
	uint32_t key = (uint32_t)(address - table->header->base), low = 0, high = table->header->range_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (table->starts[middle] <= key)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || key - table->starts[low - 1] >= table->sizes[low - 1])
		return NULL;
	if (ret_range)
		*ret_range = low - 1;
	return table->strings + table->names[low - 1];
}

const char *symbol_table_find(const struct symbol_table *table, uint64_t file_offset, uint32_t *ret_range)
{
	uint64_t address;
	if ((table->header->flags & SYMBOL_TABLE_NO_OFFSETS) || !offset_to_address(table, file_offset, &address))
		return NULL;
	return find_address(table, address, ret_range);
}

/* The segment whose pages take `size` bytes; pages are those of the machine where the profile was made. NULL if there is not
 * exactly one. */
static const struct symbol_table_segment *find_segment_of_size(const struct symbol_table *table, uint64_t size,
							       uint64_t *ret_page)
{
	static const uint64_t pages[] = {4096, 16384, 65536};
	const struct symbol_table_segment *found = NULL;
	for (uint32_t i = 0; i < table->header->segment_count; i++) {
		const struct symbol_table_segment *s = &table->segments[i];
		for (size_t k = 0; k < sizeof(pages) / sizeof(pages[0]); k++) {
			uint64_t first = s->address & ~(pages[k] - 1), last = (s->address + s->size - 1) | (pages[k] - 1);
			if (last - first != size - 1)
				continue;
			if (found)
				return NULL;
			found = s;
			*ret_page = pages[k];
			break;
		}
	}
	return found;
}

const char *symbol_table_find_mapped(const struct symbol_table *table, uint64_t start, uint64_t limit, uint64_t address,
				     uint32_t *ret_range)
{
	uint64_t page;
	if (limit <= start || address < start || address >= limit)
		return NULL;
	const struct symbol_table_segment *segment = find_segment_of_size(table, limit - start, &page);
	return segment ? find_address(table, (segment->address & ~(page - 1)) + (address - start), ret_range) : NULL;
}
