/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A symbol table, version 4, little-endian: struct symbol_table_header (table.h), then
 *
 *   segments   those that are executed: file offset, size, address
 *   ranges     u32 start[N], u32 scope[N], u32 symbol[N]: ascending; a range ends where the next one starts, and the last
 *              one is empty of both. scope: CODE_NONE = no debug information. symbol: offset of a name in strings, 0 = none;
 *              | SYMBOL_TABLE_BEGINS where the symbol begins: two static functions of one name may be neighbours
 *   scopes     functions and inlined calls; a call's parent comes before it, and no more than SYMBOL_TABLE_DEPTH_MAX are in
 *              each other
 *   functions  name, file and line of the declaration, language: each once, however often it is inlined
 *   files      offsets of paths in strings; [0] is ""
 *   blocks     u32 start[B], u32 at[B]: the address of a block's first row and where it begins in rows
 *   rows       the line table, packed: SYMBOL_TABLE_BLOCK_ROWS rows a block
 *   strings    each ended by a NUL; the first is ""
 *
 * Addresses count from `base` and are 32 bits: code of more than 4 GiB in one binary cannot be reached by its own calls; what
 * is beyond is left out. The arrays of a range are apart so that the search touches nothing but starts.
 *
 * A lookup goes from file offset through the segments to an address, and by binary search in start[] to a range. Its scope is
 * the innermost one; the parents follow. Where the innermost frame is, the row says; where each other frame is, the call of the
 * one inlined into it. The outermost frame goes by the name of the symbol, if there is one: it is what was linked, and tells
 * parts of a function apart ("foo.cold"). Addresses and not file offsets are stored because a separate debug file knows
 * addresses only.
 *
 * A row, in bytes: ULEB128 of (address - previous address) << 2 | file differs << 1 | end; unless it is an end: ULEB128 file if
 * it differs, SLEB128 line - previous line, ULEB128 column. The first row of a block counts from the block's start, file 0 and
 * line 0, so that a block is read without those before it. Rows are packed, and not arrays, because they are most of a table
 * and a lookup reads but half a block of them on average.
 *
 * All invariants of an image are checked when it is mapped (is_sound), but for what is in rows, which is bounded when it is
 * read. So a lookup checks next to nothing. A file that fails is made anew. One that is cut short while it is
 * mapped, or that the disk does not give back, reads as zeroes from there on (table_guard.h), with which lookups end, and is
 * then broken; other changes are not expected, since it is ours alone.
 */
#include "symbol/table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/io.h"
#include "elf/code_unit.h"
#include "symbol/table_guard.h"
#include "symbol/table_int.h"

#define SMALL_BYTES_MAX 65536u

_Static_assert(sizeof(struct symbol_table_header) == 232, "the header is part of the file format");
_Static_assert(SYMBOL_TABLE_BYTES_MAX <= SYMBOL_TABLE_BEGINS, "offsets of names leave the bit free");

uint64_t symbol_table_layout(const struct symbol_table_header *h, struct symbol_table *ret)
{
	const uint64_t sizes[] = {
		sizeof(*h),
		h->segment_count * sizeof(struct symbol_table_segment),
		h->range_count * 4ull,
		h->range_count * 4ull,
		h->range_count * 4ull,
		h->scope_count * sizeof(struct symbol_table_scope),
		h->function_count * sizeof(struct symbol_table_function),
		h->file_count * 4ull,
		h->block_count * 4ull,
		h->block_count * 4ull,
		h->rows_len,
		h->strings_len,
	};
	uint64_t at[sizeof(sizes) / sizeof(sizes[0]) + 1] = {0};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (sizes[i] > SYMBOL_TABLE_BYTES_MAX || at[i] > SYMBOL_TABLE_BYTES_MAX)
			return UINT64_MAX;
		at[i + 1] = (at[i] + sizes[i] + 7) & ~7ull;
	}
	const uint8_t *image = ret ? ret->image : NULL;
	if (ret) {
		ret->header = (const struct symbol_table_header *)image;
		ret->segments = (const struct symbol_table_segment *)(image + at[1]);
		ret->starts = (const uint32_t *)(image + at[2]);
		ret->scopes_at = (const uint32_t *)(image + at[3]);
		ret->symbols_at = (const uint32_t *)(image + at[4]);
		ret->scopes = (const struct symbol_table_scope *)(image + at[5]);
		ret->functions = (const struct symbol_table_function *)(image + at[6]);
		ret->files = (const uint32_t *)(image + at[7]);
		ret->block_starts = (const uint32_t *)(image + at[8]);
		ret->block_at = (const uint32_t *)(image + at[9]);
		ret->rows = image + at[10];
		ret->strings = (const char *)(image + at[11]);
	}
	return at[sizeof(sizes) / sizeof(sizes[0])];
}

static uint32_t symbol_at(const struct symbol_table *table, uint32_t range)
{
	return table->symbols_at[range] & ~SYMBOL_TABLE_BEGINS;
}

/* ---- opening ---- */

static bool ranges_are_sound(const struct symbol_table *t)
{
	const struct symbol_table_header *h = t->header;
	for (uint32_t i = 0; i < h->range_count; i++) {
		bool rises = i == 0 || t->starts[i] > t->starts[i - 1];
		bool has_scope = t->scopes_at[i] != CODE_NONE;
		if (!rises || (has_scope && t->scopes_at[i] >= h->scope_count) || symbol_at(t, i) >= h->strings_len ||
		    t->symbols_at[i] == SYMBOL_TABLE_BEGINS)
			return false;
	}
	uint32_t last = h->range_count - 1;
	return h->range_count == 0 || (t->scopes_at[last] == CODE_NONE && t->symbols_at[last] == 0);
}

/* depths: room for a byte a scope. Whoever walks up from every range of a function counts on there being a limit. */
static bool scopes_are_sound(const struct symbol_table *t, uint8_t *depths)
{
	const struct symbol_table_header *h = t->header;
	_Static_assert(SYMBOL_TABLE_DEPTH_MAX - 1 <= UINT8_MAX, "depths are bytes");
	for (uint32_t i = 0; i < h->scope_count; i++) {
		const struct symbol_table_scope *s = &t->scopes[i];
		bool inlined = s->parent != CODE_NONE;
		if ((inlined && (s->parent >= i || depths[s->parent] == SYMBOL_TABLE_DEPTH_MAX - 1)) ||
		    s->function >= h->function_count || s->call_file >= h->file_count)
			return false;
		depths[i] = inlined ? depths[s->parent] + 1 : 0;
	}
	for (uint32_t i = 0; i < h->function_count; i++)
		if (t->functions[i].name >= h->strings_len || t->functions[i].file >= h->file_count)
			return false;
	return true;
}

static bool rest_is_sound(const struct symbol_table *t)
{
	const struct symbol_table_header *h = t->header;
	for (uint32_t i = 0; i < h->segment_count; i++) {
		const struct symbol_table_segment *s = &t->segments[i];
		if (s->size == 0 || s->size > UINT64_MAX - s->offset || s->size > UINT64_MAX - s->address)
			return false;
	}
	for (uint32_t i = 0; i < h->block_count; i++)
		if ((i > 0 && (t->block_starts[i] < t->block_starts[i - 1] || t->block_at[i] <= t->block_at[i - 1])) ||
		    t->block_at[i] >= h->rows_len)
			return false;
	for (uint32_t i = 0; i < h->file_count; i++)
		if (t->files[i] >= h->strings_len)
			return false;
	uint64_t room = UINT64_MAX - h->base; /* addresses do not wrap */
	if ((h->range_count > 0 && t->starts[h->range_count - 1] > room) ||
	    (h->block_count > 0 && t->block_starts[h->block_count - 1] > room))
		return false;
	return h->file_count > 0 && h->strings_len > 0 && t->strings[0] == 0 && t->strings[h->strings_len - 1] == 0 &&
	       t->files[0] == 0;
}

static int check(struct symbol_table *t, const char *name, const char *build_id, struct error *err)
{
	const struct symbol_table_header *h = (const struct symbol_table_header *)t->image;
	if (t->len < sizeof(*h) || memcmp(h->magic, SYMBOL_TABLE_MAGIC, sizeof(h->magic)) != 0)
		return error_set(err, -EBADMSG, "%s: not a symbol table", name);
	if (h->version != SYMBOL_TABLE_VERSION)
		return error_set(err, -EBADMSG, "%s: a symbol table of version %u, expected %u", name, h->version,
				 SYMBOL_TABLE_VERSION);
	if (h->length != t->len || h->segment_count > SYMBOL_TABLE_SEGMENTS_MAX || symbol_table_layout(h, t) != t->len)
		return error_set(err, -EBADMSG, "%s: the symbol table's length is wrong", name);
	if (h->checksum != hash64(t->image + SYMBOL_TABLE_CHECKSUM_FROM, t->len - SYMBOL_TABLE_CHECKSUM_FROM))
		return error_set(err, -EBADMSG, "%s: the symbol table's checksum is wrong", name);
	if (strnlen(h->build_id, sizeof(h->build_id)) == sizeof(h->build_id) ||
	    (build_id && strcmp(h->build_id, build_id) != 0))
		return error_set(err, -EBADMSG, "%s: the symbol table belongs to another build-id", name);
	_cleanup_(mem_freep) uint8_t *depths = mem_alloc_array(h->scope_count, 1);
	if (!depths)
		return error_nomem(err);
	if (!ranges_are_sound(t) || !scopes_are_sound(t, depths) || !rest_is_sound(t))
		return error_set(err, -EBADMSG, "%s: the symbol table's sections are inconsistent", name);
	return 0;
}

/* Small ones are copied: that takes no more memory, and there a file that is cut short would read as zeroes without a fault. */
static void *map_image(int fd, size_t len, const char *name, struct error *err)
{
	bool is_small = len <= SMALL_BYTES_MAX;
	void *image = is_small ? mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
			       : mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (image == MAP_FAILED) {
		error_set_errno(err, -errno, "cannot map %s", name);
		return NULL;
	}
	ssize_t n = is_small ? io_pread(fd, image, len, 0, name, err) : (ssize_t)len;
	if (n == (ssize_t)len)
		return image;
	if (n >= 0)
		error_set(err, -EBADMSG, "%s: not a symbol table", name);
	munmap(image, len);
	return NULL;
}

int symbol_table_open(int fd, const char *name, const char *build_id, struct symbol_table **ret, struct error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set_errno(err, -errno, "%s", name);
	return symbol_table_open_part(fd, (uint64_t)st.st_size, name, build_id, ret, err);
}

int symbol_table_open_part(int fd, uint64_t length, const char *name, const char *build_id, struct symbol_table **ret,
			   struct error *err)
{
	if (length < sizeof(struct symbol_table_header) || length > SYMBOL_TABLE_BYTES_MAX)
		return error_set(err, -EBADMSG, "%s: not a symbol table", name);
	struct symbol_table *table = mem_zalloc(sizeof(*table));
	if (!table)
		return error_nomem(err);
	table->len = length;
	struct error problem = {0};
	void *image = map_image(fd, table->len, name, &problem);
	if (!image) {
		mem_free(table);
		return error_set(err, problem.code, "%s", problem.message);
	}
	table->image = image;
	table->guard = table->len > SMALL_BYTES_MAX ? table_guard_add(image, table->len) : 0;
	int r = check(table, name, build_id, err);
	if (r < 0) {
		symbol_table_free(table);
		return r;
	}
	madvise(image, table->len, MADV_RANDOM);
	*ret = table;
	return 0;
}

struct symbol_table *symbol_table_free(struct symbol_table *table)
{
	if (!table)
		return NULL;
	table_guard_remove(table->guard);
	munmap((void *)table->image, table->len);
	return mem_free(table);
}

bool symbol_table_is_broken(const struct symbol_table *table)
{
	if (table->guard == 0)
		return false;
	/* If anything was cut off, the last byte is. */
	(void)*(const volatile uint8_t *)(table->image + table->len - 1);
	return table_guard_is_broken(table->guard);
}

/* ---- addresses ---- */

bool symbol_table_offset_to_address(const struct symbol_table *table, uint64_t offset, uint64_t *ret)
{
	if (table->header->flags & SYMBOL_TABLE_KERNEL) {
		*ret = table->header->kernel + offset;
		return true;
	}
	if (table->header->flags & SYMBOL_TABLE_NO_OFFSETS)
		return false;
	for (uint32_t i = 0; i < table->header->segment_count; i++) {
		const struct symbol_table_segment *s = &table->segments[i];
		if (offset >= s->offset && offset - s->offset < s->size) {
			*ret = s->address + (offset - s->offset);
			return true;
		}
	}
	return false;
}

bool symbol_table_address_to_offset(const struct symbol_table *table, uint64_t address, uint64_t *ret)
{
	if (table->header->flags & (SYMBOL_TABLE_KERNEL | SYMBOL_TABLE_NO_OFFSETS))
		return false;
	for (uint32_t i = 0; i < table->header->segment_count; i++) {
		const struct symbol_table_segment *s = &table->segments[i];
		if (address >= s->address && address - s->address < s->size) {
			*ret = s->offset + (address - s->address);
			return true;
		}
	}
	return false;
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

bool symbol_table_mapped_to_address(const struct symbol_table *table, uint64_t start, uint64_t limit, uint64_t address,
				    uint64_t *ret)
{
	uint64_t page;
	if (limit <= start || address < start || address >= limit)
		return false;
	const struct symbol_table_segment *segment = find_segment_of_size(table, limit - start, &page);
	*ret = segment ? (segment->address & ~(page - 1)) + (address - start) : address;
	return segment || symbol_table_find(table, address) != CODE_NONE;
}

bool symbol_table_kernel_to_address(const struct symbol_table *table, uint64_t offset, uint64_t *ret)
{
	*ret = table->header->kernel + offset;
	return symbol_table_names_kernel(table->header);
}

/* The last of count ascending values that is not greater than key; CODE_NONE = none. */
static uint32_t last_not_above(const uint32_t *values, uint32_t count, uint32_t key)
{
	uint32_t low = 0;
	if (count == 0 || values[0] > key)
		return CODE_NONE;
	for (uint32_t n = count; n > 1;) {
		uint32_t half = n / 2;
		low = values[low + half] <= key ? low + half : low; /* compiles to a conditional move */
		n -= half;
	}
	return low;
}

uint32_t symbol_table_find(const struct symbol_table *table, uint64_t address)
{
	const struct symbol_table_header *h = table->header;
	if (address < h->base || address - h->base > UINT32_MAX)
		return CODE_NONE;
	uint32_t i = last_not_above(table->starts, h->range_count, (uint32_t)(address - h->base));
	if (i == CODE_NONE || (table->scopes_at[i] == CODE_NONE && table->symbols_at[i] == 0))
		return CODE_NONE;
	return i;
}

void symbol_table_bounds(const struct symbol_table *table, uint32_t range, uint64_t *ret_start, uint64_t *ret_end)
{
	uint32_t first = range, last = range, count = table->header->range_count;
	uint32_t symbol = symbol_at(table, range), outermost = symbol ? CODE_NONE : symbol_table_outermost(table, range);
#define BEGINS(i) (table->symbols_at[i] & SYMBOL_TABLE_BEGINS)
#define SAME(i)                                                                                                                \
	(symbol_at(table, i) == symbol && (symbol || (outermost != CODE_NONE && symbol_table_outermost(table, i) == outermost)))
	while (first > 0 && !BEGINS(first) && SAME(first - 1))
		first--;
	while (last + 1 < count && !BEGINS(last + 1) && SAME(last + 1))
		last++;
#undef SAME
#undef BEGINS
	*ret_start = table->header->base + table->starts[first];
	*ret_end = table->header->base + (last + 1 < count ? table->starts[last + 1] : table->starts[last]);
}

/* ---- rows ---- */

static bool read_uleb(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;
	for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
		uint8_t byte = *(*at)++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

struct row {
	uint32_t file, line, column;
	bool known;
};

/* One row behind `row` at `address`. False at the end of what can be read. */
static bool next_row(const struct symbol_table *table, const uint8_t **at, const uint8_t *end, uint32_t *address,
		     struct row *row)
{
	uint64_t head, file = row->file, delta, column;
	if (!read_uleb(at, end, &head))
		return false;
	*address += (uint32_t)(head >> 2);
	row->known = !(head & 1);
	if (!row->known)
		return true;
	if ((head & 2) && !read_uleb(at, end, &file))
		return false;
	if (!read_uleb(at, end, &delta) || !read_uleb(at, end, &column) || file >= table->header->file_count)
		return false;
	row->file = (uint32_t)file;
	row->line += (uint32_t)((delta >> 1) ^ -(delta & 1));
	row->column = (uint32_t)column;
	return true;
}

static struct row find_row(const struct symbol_table *table, uint64_t address)
{
	const struct symbol_table_header *h = table->header;
	struct row row = {0}, found = {0};
	uint32_t key = (uint32_t)(address - h->base), block = last_not_above(table->block_starts, h->block_count, key);
	if (block == CODE_NONE)
		return found;
	const uint8_t *at = table->rows + table->block_at[block];
	const uint8_t *end = table->rows + (block + 1 < h->block_count ? table->block_at[block + 1] : h->rows_len);
	uint32_t here = table->block_starts[block];
	while (at < end && next_row(table, &at, end, &here, &row) && here <= key)
		found = row;
	return found;
}

/* ---- frames ---- */

uint32_t symbol_table_outermost(const struct symbol_table *table, uint32_t range)
{
	uint32_t scope = table->scopes_at[range];
	/* Parents come first; where that does not hold, a page was lost. */
	while (scope != CODE_NONE && table->scopes[scope].parent < scope)
		scope = table->scopes[scope].parent;
	return scope;
}

static const char *file_name(const struct symbol_table *table, uint32_t file)
{
	return table->strings + table->files[file];
}

size_t symbol_table_frames(const struct symbol_table *table, uint64_t address, uint32_t range, struct symbol_frame *ret,
			   size_t max)
{
	uint32_t scope = table->scopes_at[range], symbol = symbol_at(table, range), count = 0;
	struct row row = find_row(table, address);
	uint32_t file = row.known ? row.file : 0, line = row.known ? row.line : 0, column = row.known ? row.column : 0;
	if (scope == CODE_NONE && max > 0) {
		*ret = (struct symbol_frame){.name = table->strings + symbol,
					     .file = file_name(table, file),
					     .line = line,
					     .column = column,
					     .start_file = table->strings,
					     .function = symbol};
		return 1;
	}
	for (; scope != CODE_NONE && count < max; count++) {
		const struct symbol_table_scope *s = &table->scopes[scope];
		const struct symbol_table_function *function = &table->functions[s->function];
		bool inlined = s->parent != CODE_NONE;
		ret[count] = (struct symbol_frame){
			.name = table->strings + (!inlined && symbol ? symbol : function->name),
			.file = file_name(table, file),
			.line = line,
			.column = column,
			.start_file = file_name(table, function->file),
			.start_line = function->line,
			.function = (s->function + 1ull) << 32 | (inlined ? 0 : symbol),
			.language = (uint16_t)function->language,
			.inlined = inlined,
		};
		file = s->call_file;
		line = s->call_line;
		column = s->call_column;
		scope = s->parent < scope ? s->parent : CODE_NONE;
	}
	return count;
}
