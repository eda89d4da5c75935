/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the table is, and what its entries count from.
 *
 * The table: the section .gopclntab, .data.rel.ro.gopclntab in position-independent programs. When another linker merged it
 * into .data.rel.ro, or no section headers are left, it is found by its first bytes: the magic number, two zeros, a quantum of
 * 1, 2 or 4, a pointer size of 4 or 8; a header whose numbers are possible decides. Only files that look like Go's (or like
 * nothing, for want of section headers) are searched, so that other large binaries are not read through for it. And only up to
 * a number of bytes and of false starts in all: sections may overlap, and one file may have 65,536 of them, each a gigabyte.
 *
 * Since 1.18, entries count from the start of the text. The header has it up to 1.25, 0 from then on, and 0 in
 * position-independent programs, where the loader puts it. The runtime's moduledata always has it, and has where inline trees
 * count from. It has no name in a stripped program, but it starts with a pointer to the table and one to its names:
 *
 *   word     1.16, 1.18    1.20 and later
 *   0        pclntab       the same
 *   1        names         the same (a slice of three words, as the five that follow)
 *   22       text          the same
 *   38, 40   38: go.func.*     40: go:func.*, since 1.26 inside of .gopclntab
 *
 * The last of these moves when the runtime grows a field, so a few words are tried until the inline trees there make sense.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "elf/elf_file_int.h"
#include "elf/pclntab_int.h"

#define WINDOW_BYTES	 (1 * MIB)
#define HEADER_BYTES	 8
#define HEADER_BYTES_MAX (HEADER_BYTES + 8 * 8)
#define MODULE_TEXT	 22
#define SEARCH_TRIES	 16 /* places in one file that look like a table */
#define BASE_FIRST	 36
#define BASE_LAST	 46

static const uint32_t magics[] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};

uint64_t pclntab_number(const struct pclntab *table, size_t at, size_t size)
{
	uint64_t value = 0;
	memcpy(&value, table->data + at, size);
	return value;
}

/* ---- pointers that the loader puts ---- */

DEFINE_ORDER(compare_pointers, struct pclntab_pointer, ORDER(a->at, b->at));

static bool find_pointer(const struct pclntab *table, uint64_t at, uint64_t *ret)
{
	if (table->pointer_count == 0)
		return false;
	struct pclntab_pointer key = {.at = at};
	const struct pclntab_pointer *found =
		bsearch(&key, table->pointers, table->pointer_count, sizeof(key), compare_pointers);
	if (found)
		*ret = found->value;
	return found != NULL;
}

/* A pointer inside the table. */
static uint64_t table_pointer(const struct pclntab *table, size_t at)
{
	uint64_t value;
	if (find_pointer(table, table->address + at, &value))
		return value;
	return pclntab_number(table, at, table->pointer_size);
}

int pclntab_read_memory(const struct pclntab *table, uint64_t address, void *ret, size_t len, struct error *err)
{
	uint64_t offset;
	if (!elf_file_find_loaded(table->file, address, &offset))
		return error_set(err, -EBADMSG, "%s: no contents at address 0x%llx", table->file->name,
				 (unsigned long long)address);
	return elf_file_read(table->file, offset, ret, len, err);
}

/* A word of memory as the program sees it; 0 where the file has nothing. Errors of reading only. */
static int read_word(const struct pclntab *table, uint64_t address, uint64_t *ret, struct error *err)
{
	uint64_t value = 0;
	if (find_pointer(table, address, ret))
		return 0;
	struct error problem;
	int r = pclntab_read_memory(table, address, &value, table->pointer_size, &problem);
	if (r < 0 && r != -EBADMSG) {
		if (err)
			*err = problem;
		return r;
	}
	*ret = r == 0 ? value : 0;
	return 0;
}

/* 1 when there are too many. */
static int add_relocations(struct pclntab *table, const uint8_t *data, size_t len, struct error *err)
{
	uint32_t relative = table->file->machine == EM_AARCH64 ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE;
	for (size_t at = 0; len - at >= sizeof(Elf64_Rela); at += sizeof(Elf64_Rela)) {
		Elf64_Rela rela;
		memcpy(&rela, data + at, sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) != relative)
			continue;
		int r = array_push(&table->pointers, &table->pointer_count, &table->pointer_capacity, table->limits.pointers,
				   (struct pclntab_pointer){rela.r_offset, (uint64_t)rela.r_addend});
		if (r < 0)
			return r == -E2BIG ? 1 : error_nomem(err);
	}
	return 0;
}

/* Through a window: in the agent, there is no room for all of them. */
static int read_relocations(struct pclntab *table, uint64_t offset, uint64_t len, struct error *err)
{
	const uint64_t entry = sizeof(Elf64_Rela), per_window = WINDOW_BYTES / entry * entry;
	struct error problem = {0};
	int r = 0;
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(WINDOW_BYTES);
	if (!window)
		return error_nomem(err);
	if (len / entry > table->limits.pointers)
		return 0;
	for (uint64_t at = 0; at < len && r == 0; at += per_window) {
		size_t some = len - at < per_window ? (size_t)(len - at) : (size_t)per_window;
		r = elf_file_read(table->file, offset + at, window, some, &problem);
		if (r == 0)
			r = add_relocations(table, window, some, &problem);
	}
	sort_array(table->pointers, table->pointer_count, compare_pointers);
	return elf_pass_over(r, &problem, err);
}

/* The loader's own way to them, which is there without section headers too. Damage costs the pointers, not the table. */
static int load_pointers(struct pclntab *table, struct error *err)
{
	struct elf_file *file = table->file;
	const struct elf_segment *dynamic = NULL;
	for (size_t i = 0; i < file->segment_count; i++) {
		if (file->segments[i].type == PT_DYNAMIC)
			dynamic = &file->segments[i];
	}
	if (!dynamic || !file->is_64 || (file->machine != EM_X86_64 && file->machine != EM_AARCH64))
		return 0;
	_cleanup_(mem_freep) uint8_t *entries = NULL;
	int r = elf_file_read_range(file, dynamic->offset, dynamic->file_size, 1 * MIB, "PT_DYNAMIC", &entries, err);
	if (r < 0)
		return r == -ENOMEM || r == -EIO ? r : 0;
	uint64_t address = 0, len = 0, offset;
	for (size_t at = 0; dynamic->file_size - at >= sizeof(Elf64_Dyn); at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn entry;
		memcpy(&entry, entries + at, sizeof(entry));
		if (entry.d_tag == DT_RELA)
			address = entry.d_un.d_ptr;
		if (entry.d_tag == DT_RELASZ)
			len = entry.d_un.d_val;
	}
	return elf_file_find_loaded(file, address, &offset) ? read_relocations(table, offset, len, err) : 0;
}

/* ---- the header ---- */

static bool is_header(const uint8_t *data, enum pclntab_layout *ret)
{
	uint32_t magic;
	memcpy(&magic, data, sizeof(magic));
	if ((magic & 0xfffffff0) != 0xfffffff0 || data[4] || data[5] || (data[6] != 1 && data[6] != 2 && data[6] != 4) ||
	    (data[7] != 4 && data[7] != 8))
		return false;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
		if (magic == magics[i]) {
			*ret = (enum pclntab_layout)i;
			return true;
		}
	}
	return false;
}

/* An entry of the list of functions: two pointers, two u32 since 1.18. */
static size_t entry_bytes(const struct pclntab *table)
{
	return table->layout >= PCLNTAB_1_18 ? 8 : 2u * table->pointer_size;
}

static bool check_functions(struct pclntab *table, uint64_t count)
{
	size_t size = entry_bytes(table);
	if (count > PCLNTAB_FUNCTIONS_MAX || table->functions > table->len ||
	    (table->len - table->functions) / size <= count) /* one more ends the last */
		return false;
	table->function_count = (size_t)count;
	return true;
}

static bool read_old_header(struct pclntab *table)
{
	size_t p = table->pointer_size;
	if (table->len < HEADER_BYTES + p)
		return false;
	table->functions = HEADER_BYTES + p;
	uint64_t count = pclntab_number(table, HEADER_BYTES, p);
	if (!check_functions(table, count))
		return false;
	size_t behind = table->functions + (size_t)count * 2 * p + p;
	if (table->len - behind < 4)
		return false;
	table->files = (size_t)pclntab_number(table, behind, 4);
	if (table->files > table->len || table->len - table->files < 4)
		return false;
	table->file_count = (size_t)pclntab_number(table, table->files, 4);
	return table->file_count <= (table->len - table->files) / 4;
}

static bool read_header(struct pclntab *table)
{
	table->quantum = table->data[6];
	table->pointer_size = table->data[7];
	if (table->layout == PCLNTAB_1_2)
		return read_old_header(table);
	/* Functions, files, (1.18: text), then the offsets of names, files of units, files, pc tables, functions. */
	size_t p = table->pointer_size, words = table->layout >= PCLNTAB_1_18 ? 8 : 7;
	if (table->len < HEADER_BYTES + words * p)
		return false;
	uint64_t word[8];
	for (size_t i = 0; i < words; i++)
		word[i] = pclntab_number(table, HEADER_BYTES + i * p, p);
	if (table->layout >= PCLNTAB_1_18)
		table->text_start = table_pointer(table, HEADER_BYTES + 2 * p);
	const uint64_t *offsets = word + words - 5;
	for (size_t i = 0; i < 5; i++) {
		if (offsets[i] > table->len || offsets[i] < HEADER_BYTES + words * p)
			return false;
	}
	table->names = (size_t)offsets[0];
	table->units = (size_t)offsets[1];
	table->files = (size_t)offsets[2];
	table->pc_tables = (size_t)offsets[3];
	table->functions = (size_t)offsets[4];
	table->file_count = (size_t)word[1];
	return check_functions(table, word[0]);
}

static bool might_be_header(const struct elf_file *file, const uint8_t *data)
{
	enum pclntab_layout layout;
	return is_header(data, &layout) && (file->is_64 ? data[7] == 8 : data[7] == 4);
}

/* ---- search ---- */

/* The first place in a range of the file, a multiple of `step` from its beginning, where match() holds; it sees `need` bytes.
 * -ENOENT, also when enough was searched. */
static int search(struct pclntab *table, uint64_t offset, uint64_t len, size_t step, size_t need,
		  bool (*match)(const struct pclntab *table, const uint8_t *data), uint64_t *ret, struct error *err)
{
	if (offset >= table->file->size)
		return -ENOENT;
	if (len > table->file->size - offset)
		len = table->file->size - offset;
	if (len < need)
		return -ENOENT;
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(WINDOW_BYTES);
	if (!window)
		return error_nomem(err);
	for (uint64_t at = 0; at <= len - need;) {
		size_t some = len - at < WINDOW_BYTES ? (size_t)(len - at) : WINDOW_BYTES;
		if (some > table->search_left)
			return -ENOENT;
		table->search_left -= some;
		int r = elf_file_read(table->file, offset + at, window, some, err);
		if (r < 0)
			return r;
		size_t i = 0;
		for (; i + need <= some; i += step) {
			if (match(table, window + i)) {
				*ret = offset + at + i;
				return 0;
			}
		}
		at += i;
	}
	return -ENOENT;
}

static bool match_header(const struct pclntab *table, const uint8_t *data)
{
	return data[1] == 0xff && might_be_header(table->file, data);
}

static int read_table(struct pclntab *table, uint64_t offset, uint64_t len, uint64_t address, struct error *err)
{
	int r = elf_file_read_range(table->file, offset, len, table->limits.table_bytes, "the Go function table", &table->data,
				    err);
	if (r < 0)
		return r;
	table->len = (size_t)len;
	table->address = address;
	table->offset = offset;
	enum pclntab_layout layout;
	if (len < HEADER_BYTES || !is_header(table->data, &layout))
		return error_set(err, -ENOTSUP, "%s: the Go function table has an unknown layout", table->file->name);
	table->layout = layout;
	if (!read_header(table))
		return error_set(err, -EBADMSG, "%s: damaged Go function table: its header reaches beyond it",
				 table->file->name);
	return 0;
}

/* 1 when the first numbers of a table are possible, 0 when not. The older header also needs numbers far behind it. */
static int try_header(const struct pclntab *table, uint64_t offset, uint64_t len, uint64_t address, struct error *err)
{
	uint8_t raw[HEADER_BYTES_MAX] = {0};
	struct pclntab head = *table;
	int r = elf_file_read(table->file, offset, raw, len < sizeof(raw) ? (size_t)len : sizeof(raw), err);
	if (r < 0)
		return r;
	head.data = raw;
	head.len = (size_t)len;
	head.address = address;
	if (!is_header(raw, &head.layout))
		return 0;
	if (head.layout != PCLNTAB_1_2)
		return read_header(&head);
	head.pointer_size = raw[7];
	head.functions = HEADER_BYTES + head.pointer_size;
	return check_functions(&head, pclntab_number(&head, HEADER_BYTES, head.pointer_size));
}

/* Reads what was found. -EBADMSG and -ENOTSUP: it is no table. */
static int read_found(struct pclntab *table, uint64_t offset, uint64_t len, uint64_t address, struct error *err)
{
	int r = try_header(table, offset, len, address, err);
	if (r < 0)
		return r;
	if (r == 0 || len > table->search_left)
		return -EBADMSG;
	table->search_left -= len;
	r = read_table(table, offset, len, address, err);
	if (r < 0)
		table->data = mem_free(table->data);
	return r;
}

/* A range that may hold a table: every place that looks like one is tried. */
static int search_range(struct pclntab *table, uint64_t offset, uint64_t len, uint64_t address, struct error *err)
{
	for (; table->tries_left > 0; table->tries_left--) {
		uint64_t found = 0;
		struct error problem = {0};
		int r = search(table, offset, len, 8, HEADER_BYTES, match_header, &found, err);
		if (r < 0)
			return r;
		uint64_t skip = found - offset, left = len - skip;
		if (left > table->file->size - found)
			left = table->file->size - found;
		r = read_found(table, found, left, address + skip, &problem);
		if (r < 0 && r != -EBADMSG && r != -ENOTSUP && err)
			*err = problem;
		if (r != -EBADMSG && r != -ENOTSUP)
			return r;
		offset = found + 8;
		address += skip + 8;
		len = left - 8;
	}
	return -ENOENT;
}

static int no_table(const struct elf_file *file, struct error *err)
{
	return error_set(err, -ENOENT, "%s: no Go function table", file->name);
}

const struct elf_section *pclntab_find_section(const struct elf_file *file)
{
	const struct elf_section *s = elf_file_find_section(file, ".gopclntab");
	if (!s)
		s = elf_file_find_section(file, ".data.rel.ro.gopclntab");
	return s && s->type == SHT_PROGBITS && !(s->flags & SHF_COMPRESSED) ? s : NULL;
}

static bool looks_like_go(const struct elf_file *file)
{
	if (pclntab_find_section(file))
		return true;
	for (size_t i = 0; i < file->section_count; i++) {
		const char *name = file->sections[i].name;
		if (strncmp(name, ".go.", 4) == 0 || strncmp(name, ".note.go.", 9) == 0)
			return true;
	}
	return file->section_count == 0;
}

static int search_file(struct pclntab *table, struct error *err)
{
	struct elf_file *file = table->file;
	int r = -ENOENT;
	for (size_t i = 0; i < file->section_count && r == -ENOENT; i++) {
		const struct elf_section *s = &file->sections[i];
		if (s->type == SHT_PROGBITS && (s->flags & SHF_ALLOC) && !(s->flags & (SHF_EXECINSTR | SHF_COMPRESSED)))
			r = search_range(table, s->offset, s->size, s->address, err);
	}
	for (size_t i = 0; i < file->segment_count && file->section_count == 0 && r == -ENOENT; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (s->type == PT_LOAD && !(s->flags & PF_X))
			r = search_range(table, s->offset, s->file_size, s->address, err);
	}
	return r;
}

static int find_table(struct pclntab *table, struct error *err)
{
	const struct elf_section *s = pclntab_find_section(table->file);
	int r = s ? read_table(table, s->offset, s->size, s->address, err) : search_file(table, err);
	return r == -ENOENT ? no_table(table->file, err) : r;
}

/* ---- moduledata ---- */

static bool match_module(const struct pclntab *table, const uint8_t *data)
{
	uint64_t word[2] = {0};
	memcpy(&word[0], data, table->pointer_size);
	memcpy(&word[1], data + table->pointer_size, table->pointer_size);
	return word[0] == table->address && word[1] == table->address + table->names;
}

static int find_module(struct pclntab *table, uint64_t *ret, struct error *err)
{
	for (size_t i = 0; i < table->pointer_count; i++) {
		uint64_t names;
		if (table->pointers[i].value == table->address &&
		    find_pointer(table, table->pointers[i].at + table->pointer_size, &names) &&
		    names == table->address + table->names) {
			*ret = table->pointers[i].at;
			return 0;
		}
	}
	for (size_t i = 0; i < table->file->segment_count; i++) {
		const struct elf_segment *s = &table->file->segments[i];
		uint64_t offset;
		if (s->type != PT_LOAD || !(s->flags & PF_W))
			continue;
		int r = search(table, s->offset, s->file_size, table->pointer_size, 2u * table->pointer_size, match_module,
			       &offset, err);
		if (r == 0)
			*ret = s->address + (offset - s->offset);
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}

/* C's start-up code is in front of Go's, in one section. */
static bool has_c_code(const struct elf_file *file)
{
	const struct elf_section *init = elf_file_find_section(file, ".init");
	return init && (init->flags & SHF_EXECINSTR);
}

/* Without a module, the text is where the section of that name is, which is right unless C code was linked in. Then nobody can
 * tell in a file that has lost its data. */
static int read_module(struct pclntab *table, struct error *err)
{
	uint64_t module = 0, base = 0;
	int r = find_module(table, &module, err);
	const struct elf_section *text = elf_file_find_section(table->file, ".text");
	if (r == -ENOENT && table->text_start == 0 && !elf_file_has_loaded(table->file) && has_c_code(table->file))
		return error_set(err, -ENOTSUP, "%s: where Go's code begins is not in this file", table->file->name);
	if (r < 0 && table->text_start == 0 && text)
		table->text_start = text->address;
	if (r < 0)
		return r == -ENOENT || r == -EBADMSG ? 0 : r;
	r = 0;
	if (table->text_start == 0)
		r = read_word(table, module + MODULE_TEXT * table->pointer_size, &table->text_start, err);
	for (unsigned word = BASE_FIRST; word <= BASE_LAST && r == 0 && table->inline_base == PCLNTAB_NONE; word++) {
		r = read_word(table, module + word * table->pointer_size, &base, err);
		int fits = r == 0 ? pclntab_check_inline_base(table, base, err) : r;
		if (fits > 0)
			table->inline_base = base;
		r = fits < 0 ? fits : 0;
	}
	return r;
}

/* ---- functions ---- */

static bool inside(const struct pclntab *table, size_t at, size_t len)
{
	return at <= table->len && len <= table->len - at;
}

/* Where the offsets in a function's record are, by layout. */
struct record {
	size_t name, sp, file, line, table_count, unit, start_line, data_count, tables;
};

static void read_inline(const struct pclntab *table, size_t at, const struct record *record, struct pclntab_function *ret)
{
	enum { INLINE_TABLE = 2, INLINE_TREE = 3 };
	uint64_t count = pclntab_number(table, at + record->table_count, 4);
	size_t tables = at + record->tables, data = tables + (size_t)count * 4;
	size_t p = table->layout >= PCLNTAB_1_18 ? 4 : table->pointer_size;
	if (count <= INLINE_TABLE || count > 1024 || table->data[at + record->data_count] <= INLINE_TREE)
		return;
	data = (data + p - 1) & ~(p - 1);
	if (!inside(table, data, p * (INLINE_TREE + 1)))
		return;
	ret->inline_table = (uint32_t)pclntab_number(table, tables + INLINE_TABLE * 4, 4);
	if (table->layout >= PCLNTAB_1_18) {
		uint64_t offset = pclntab_number(table, data + p * INLINE_TREE, 4);
		ret->inline_tree = offset == UINT32_MAX ? PCLNTAB_NONE : offset;
	} else {
		uint64_t address = table_pointer(table, data + p * INLINE_TREE);
		ret->inline_tree = address == 0 ? PCLNTAB_NONE : address;
	}
}

static bool read_record(const struct pclntab *table, size_t at, struct pclntab_function *ret)
{
	size_t p = table->layout >= PCLNTAB_1_18 ? 4 : table->pointer_size;
	bool has_unit = table->layout >= PCLNTAB_1_16, has_line = table->layout >= PCLNTAB_1_20;
	size_t tail = p + 28 + (has_unit ? 4 : 0) + (has_line ? 4 : 0);
	struct record record = {.name = p,
				.sp = p + 12,
				.file = p + 16,
				.line = p + 20,
				.table_count = p + 24,
				.unit = p + 28,
				.start_line = p + 32,
				.data_count = tail + 3,
				.tables = tail + 4};
	if (!inside(table, at, record.tables))
		return false;
	ret->name = (uint32_t)pclntab_number(table, at + record.name, 4);
	ret->sp_table = (uint32_t)pclntab_number(table, at + record.sp, 4);
	ret->file_table = (uint32_t)pclntab_number(table, at + record.file, 4);
	ret->line_table = (uint32_t)pclntab_number(table, at + record.line, 4);
	ret->unit = has_unit ? (uint32_t)pclntab_number(table, at + record.unit, 4) : 0;
	ret->line = has_line ? (uint32_t)pclntab_number(table, at + record.start_line, 4) : 0;
	ret->inline_table = 0;
	ret->inline_tree = PCLNTAB_NONE;
	/* The numbers of the tables changed from release to release up to 1.15, which shares a magic number with all of them.
	 */
	if (table->layout >= PCLNTAB_1_16)
		read_inline(table, at, &record, ret);
	return true;
}

uint64_t pclntab_end(const struct pclntab *table)
{
	uint64_t end = table->functions;
	size_t p = table->layout >= PCLNTAB_1_18 ? 4 : table->pointer_size, half = entry_bytes(table) / 2;
	size_t fixed = p + 36 + (table->layout >= PCLNTAB_1_20 ? 4 : 0);
	for (size_t i = 0; i < table->function_count; i++) {
		uint64_t at = table->functions + pclntab_number(table, table->functions + i * 2 * half + half, half);
		if (at > table->len || table->len - at < fixed)
			continue;
		uint64_t tables = pclntab_number(table, (size_t)at + p + 24, 4), data = table->data[at + fixed - 1];
		uint64_t behind = at + fixed + tables * 4 + p + data * p; /* and what aligns the data */
		if (behind > end)
			end = behind;
	}
	return end < table->len ? end : table->len;
}

static uint64_t entry_start(const struct pclntab *table, size_t i)
{
	size_t at = table->functions + i * entry_bytes(table);
	if (table->layout >= PCLNTAB_1_18)
		return table->text_start + pclntab_number(table, at, 4);
	return table_pointer(table, at);
}

bool pclntab_get_function(const struct pclntab *table, size_t i, struct pclntab_function *ret)
{
	size_t half = entry_bytes(table) / 2;
	uint64_t record = pclntab_number(table, table->functions + i * 2 * half + half, half);
	if (table->layout >= PCLNTAB_1_16)
		record = record > table->len ? record : record + table->functions;
	ret->start = entry_start(table, i);
	ret->end = entry_start(table, i + 1);
	return ret->start < ret->end && record <= table->len && read_record(table, (size_t)record, ret);
}

const char *pclntab_get_name(const struct pclntab *table, uint32_t offset)
{
	size_t left = table->len - table->names;
	if (offset >= left)
		return NULL;
	const char *name = (const char *)table->data + table->names + offset;
	size_t len = strnlen(name, left < PCLNTAB_NAME_MAX ? left : PCLNTAB_NAME_MAX);
	return len > 0 && len < PCLNTAB_NAME_MAX && len < left ? name : NULL;
}

/* ---- all of it ---- */

int pclntab_open(struct elf_file *file, struct pclntab *ret, struct error *err)
{
	static const struct pclntab_limits limits = {.table_bytes = PCLNTAB_BYTES_MAX,
						     .search_bytes = PCLNTAB_SEARCH_BYTES_MAX,
						     .pointers = PCLNTAB_RELOCATIONS_MAX};
	return pclntab_open_within(file, &limits, ret, err);
}

int pclntab_open_within(struct elf_file *file, const struct pclntab_limits *limits, struct pclntab *ret, struct error *err)
{
	*ret = (struct pclntab){.file = file,
				.limits = *limits,
				.search_left = limits->search_bytes,
				.tries_left = SEARCH_TRIES,
				.inline_base = PCLNTAB_NONE};
	int r = elf_file_load_sections(file, err);
	if (r == 0 && !looks_like_go(file))
		return no_table(file, err);
	if (r == 0)
		r = load_pointers(ret, err);
	if (r == 0)
		r = find_table(ret, err);
	if (r == 0) {
		ret->steps_left = 64 * (uint64_t)ret->len + 1000000;
		r = pclntab_load_inline(ret, err);
		if (r == -ENOENT)
			r = ret->layout >= PCLNTAB_1_18 ? read_module(ret, err) : 0;
	}
	if (r < 0)
		pclntab_close(ret);
	return r;
}

void pclntab_close(struct pclntab *table)
{
	table->data = mem_free(table->data);
	table->pointers = mem_free(table->pointers);
	table->inline_data = mem_free(table->inline_data);
	table->inline_at = mem_free(table->inline_at);
	table->pointer_count = table->pointer_capacity = table->inline_len = 0;
}
