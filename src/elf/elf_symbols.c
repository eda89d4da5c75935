/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Function symbols, after the gABI's chapter 4.
 *
 * What counts. STT_FUNC and STT_GNU_IFUNC that are defined; STT_NOTYPE only in executable sections and only with a name that a
 * person gave: mapping symbols of ARM, AArch64 and RISC-V ("$x", "$d.12") and assemblers' local labels (".L12") are left out.
 * On other machines, and behind anything but those letters, '$' is part of a name: every function of Swift begins with "$s".
 * The address must lie where code is (elf_file_find_code()); anything else cannot be sampled. Relocatable objects have no
 * symbols here: their addresses mean nothing until a loader places them.
 *
 * Extent. A symbol without a size reaches to the end of its section (of its segment, when the section table is stripped); who
 * builds a table cuts it at the next symbol. A size that reaches beyond the segment is cut there.
 *
 * Hostile tables. The symbol table is read through a window, so memory depends on the symbols kept (ELF_SYMBOLS_MAX) and on the
 * string table (capped, and no larger than the file). Many symbols may point into one long string: the bytes of names looked at
 * are counted, so that time stays linear.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf_symbols_int.h"

#define WINDOW_BYTES (64 * KIB)
#define ORDER_SYMTAB (1u << 31)
_Static_assert(ELF_SYMBOLS_MAX < ORDER_SYMTAB, "a bit distinguishes the tables");

void elf_symbols_init(struct elf_symbols *symbols)
{
	*symbols = (struct elf_symbols){.text.max_bytes = ELF_STRTAB_BYTES_MAX};
}

void elf_symbols_release(struct elf_symbols *symbols)
{
	for (size_t i = 0; i < symbols->string_count; i++)
		mem_free(symbols->strings[i]);
	symbols->string_count = 0;
	symbols->items = mem_free(symbols->items);
	symbols->count = symbols->capacity = 0;
	arena_release(&symbols->text);
}

void elf_symbol_convert(const struct elf_file *file, const uint8_t *raw, Elf64_Sym *ret)
{
	if (file->is_64) {
		memcpy(ret, raw, sizeof(*ret));
		return;
	}
	Elf32_Sym s;
	memcpy(&s, raw, sizeof(s));
	*ret = (Elf64_Sym){.st_name = s.st_name,
			   .st_info = s.st_info,
			   .st_other = s.st_other,
			   .st_shndx = s.st_shndx,
			   .st_value = s.st_value,
			   .st_size = s.st_size};
}

int elf_symbols_append(struct elf_symbols *symbols, const struct elf_symbol *symbol, struct error *err)
{
	int r = array_push(&symbols->items, &symbols->count, &symbols->capacity, ELF_SYMBOLS_MAX, *symbol);
	if (r == -E2BIG)
		return error_set(err, r, "more than %u function symbols, the limit", ELF_SYMBOLS_MAX);
	return r < 0 ? error_nomem(err) : 0;
}

int elf_symbols_read_strings(struct elf_symbols *symbols, struct elf_file *file, const struct elf_section *table,
			     struct bytes *ret, struct error *err)
{
	if (symbols->string_count == ELF_SYMBOL_SOURCES_MAX)
		return error_set(err, -E2BIG, "%s: more than %d string tables", file->name, ELF_SYMBOL_SOURCES_MAX);
	struct bytes strings;
	int r = elf_file_read_section(file, table, ELF_STRTAB_BYTES_MAX, &strings, err);
	if (r < 0)
		return r;
	symbols->strings[symbols->string_count++] = (uint8_t *)strings.data;
	*ret = strings;
	return 0;
}

/* "$x", "$d.12": what follows is code, or data (ELF for the Arm Architecture 4.5.6, for AArch64 5.5.5; RISC-V psABI, whose "$x"
 * may have an ISA's name behind it). */
static bool is_mapping_symbol(uint16_t machine, const char *name)
{
	const char *letters = machine == EM_ARM ? "atd" : machine == EM_AARCH64 || machine == EM_RISCV ? "xd" : "";
	if (name[0] != '$' || name[1] == 0 || !strchr(letters, name[1]))
		return false;
	return name[2] == 0 || name[2] == '.' || (machine == EM_RISCV && strncmp(name, "$xrv", 4) == 0);
}

static bool is_artificial(uint16_t machine, const char *name)
{
	return name[0] == 0 || is_mapping_symbol(machine, name) || (name[0] == '.' && name[1] == 'L');
}

/* The name with its version cut off in place ("memcpy@@GLIBC_2.14"; a '@' that begins no version of this file stays); NULL when
 * it is empty, too long, or outside the table. */
static const char *symbol_name(const struct symbol_reader *reader, struct bytes strings, uint32_t offset, uint32_t *ret_len)
{
	struct elf_symbols *symbols = reader->symbols;
	if (offset >= strings.len)
		return NULL;
	/* A NUL stands behind the table. */
	char *name = (char *)strings.data + offset;
	size_t len = strnlen(name, ELF_SYMBOL_NAME_MAX + 1);
	symbols->name_bytes += len;
	if (len == 0 || len > ELF_SYMBOL_NAME_MAX)
		return NULL;
	char *version = elf_versions_find(&reader->versions, name, len);
	if (version) {
		*version = 0;
		len = (size_t)(version - name);
	}
	*ret_len = (uint32_t)len;
	return name;
}

/* The local symbols that follow are of this file. */
static const char *source_file_name(struct elf_symbols *symbols, struct bytes strings, uint32_t offset)
{
	const char *name = offset < strings.len ? (const char *)strings.data + offset : "";
	size_t len = strnlen(name, ELF_SYMBOL_NAME_MAX + 1);
	symbols->name_bytes += len;
	return len > ELF_SYMBOL_NAME_MAX ? "" : name;
}

const struct elf_segment *symbol_reader_find_segment(const struct symbol_reader *reader, uint64_t address)
{
	for (size_t i = 0; i < reader->executed_count; i++) {
		const struct elf_segment *s = &reader->executed[i];
		if (address >= s->address && address - s->address < s->memory_size)
			return s;
	}
	return NULL;
}

static uint64_t extent_limit(const struct elf_file *file, const struct elf_segment *segment, uint16_t section_index,
			     uint64_t address)
{
	uint64_t left = segment->memory_size - (address - segment->address);
	if (section_index >= file->section_count)
		return left;
	const struct elf_section *section = &file->sections[section_index];
	if (address >= section->address && address - section->address < section->size &&
	    section->size - (address - section->address) < left)
		left = section->size - (address - section->address);
	return left;
}

/* Fills *ret except for the name; false when the symbol is no function. */
static bool read_symbol(const struct symbol_reader *reader, const Elf64_Sym *raw, struct elf_symbol *ret)
{
	const struct elf_file *file = reader->file;
	uint8_t type = ELF64_ST_TYPE(raw->st_info);
	if (raw->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
		return false;
	if (type == STT_NOTYPE &&
	    (raw->st_shndx >= file->section_count || !(file->sections[raw->st_shndx].flags & SHF_EXECINSTR)))
		return false;
	uint64_t address = raw->st_value;
	if (file->machine == EM_ARM)
		address &= ~1ull; /* the Thumb bit */
	const struct elf_segment *segment = symbol_reader_find_segment(reader, address);
	if (!segment)
		return false;
	uint64_t limit = extent_limit(file, segment, raw->st_shndx, address);
	bool is_unsized = raw->st_size == 0;
	*ret = (struct elf_symbol){.address = address,
				   .size = is_unsized || raw->st_size > limit ? limit : raw->st_size,
				   .type = type,
				   .binding = ELF64_ST_BIND(raw->st_info),
				   .is_unsized = is_unsized};
	return true;
}

static int add_raw_symbol(struct symbol_reader *reader, const Elf64_Sym *raw, struct bytes strings, struct error *err)
{
	struct elf_symbols *symbols = reader->symbols;
	struct elf_symbol symbol;
	if (ELF64_ST_TYPE(raw->st_info) == STT_FILE)
		reader->source_file = source_file_name(symbols, strings, raw->st_name);
	if (!read_symbol(reader, raw, &symbol))
		return 0;
	symbol.file = symbol.binding == STB_LOCAL ? reader->source_file : "";
	symbol.order = (uint32_t)symbols->count | (reader->is_symtab ? ORDER_SYMTAB : 0);
	symbol.name = symbol_name(reader, strings, raw->st_name, &symbol.name_len);
	if (symbols->name_bytes > ELF_SYMBOL_NAME_BYTES_MAX)
		return error_set(err, -E2BIG, "%s: symbol names of more than %llu bytes, the limit", reader->file->name,
				 (unsigned long long)ELF_SYMBOL_NAME_BYTES_MAX);
	if (!symbol.name || is_artificial(reader->file->machine, symbol.name))
		return 0;
	return elf_symbols_append(symbols, &symbol, err);
}

static int add_raw_entries(struct symbol_reader *reader, const uint8_t *entries, size_t count, struct bytes strings,
			   struct error *err)
{
	size_t entry = reader->file->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		Elf64_Sym raw;
		elf_symbol_convert(reader->file, entries + i * entry, &raw);
		r = add_raw_symbol(reader, &raw, strings, err);
	}
	return r;
}

static int add_entries(struct symbol_reader *reader, const struct elf_section *table, struct bytes strings, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(WINDOW_BYTES);
	if (!window)
		return error_nomem(err);
	size_t entry = (size_t)table->entry_size, per_window = WINDOW_BYTES / entry, count = (size_t)table->size / entry;
	for (size_t first = 0; first < count; first += per_window) {
		size_t some = count - first < per_window ? count - first : per_window;
		int r = elf_file_read(reader->file, table->offset + first * entry, window, some * entry, err);
		if (r == 0)
			r = add_raw_entries(reader, window, some, strings, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_unpacked_entries(struct symbol_reader *reader, const struct elf_section *table, struct bytes strings,
				struct error *err)
{
	struct bytes data;
	int r = elf_file_read_section(reader->file, table, ELF_SYMTAB_BYTES_MAX, &data, err);
	if (r < 0)
		return r;
	r = add_raw_entries(reader, data.data, data.len / (size_t)table->entry_size, strings, err);
	mem_free((void *)data.data);
	return r;
}

static int add_table(struct symbol_reader *reader, const struct elf_section *table, struct error *err)
{
	struct elf_file *file = reader->file;
	size_t entry = file->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	if (table->size > ELF_SYMTAB_BYTES_MAX)
		return error_set(err, -E2BIG, "%s: %s has %llu bytes, more than the limit of %llu", file->name, table->name,
				 (unsigned long long)table->size, (unsigned long long)ELF_SYMTAB_BYTES_MAX);
	if (table->entry_size != entry || table->link >= file->section_count || file->sections[table->link].type != SHT_STRTAB)
		return error_set(err, -EBADMSG, "%s: damaged ELF file: %s has no string table, or entries of a wrong size",
				 file->name, table->name);
	struct bytes strings;
	reader->source_file = "";
	reader->is_symtab = table->type == SHT_SYMTAB;
	int r = elf_symbols_read_strings(reader->symbols, file, &file->sections[table->link], &strings, err);
	if (r < 0)
		return r;
	return table->flags & SHF_COMPRESSED ? add_unpacked_entries(reader, table, strings, err)
					     : add_entries(reader, table, strings, err);
}

/* A damaged table of one kind does not take the other down with it. */
static bool is_damage(int r)
{
	return r == -EBADMSG || r == -ENOTSUP;
}

static int add_tables(struct symbol_reader *reader, struct error *err)
{
	struct elf_symbols *symbols = reader->symbols;
	const struct elf_file *file = reader->file;
	int r = 0;
	static const uint32_t types[] = {SHT_SYMTAB, SHT_DYNSYM};
	int damage = 0;
	bool any_sound = false;
	struct error problem = {0};
	for (size_t i = 0; i < 2; i++) {
		const struct elf_section *table = elf_file_find_section_type(file, types[i]);
		if (!table)
			continue;
		size_t count_before = symbols->count;
		r = add_table(reader, table, &problem);
		if (r == 0) {
			any_sound = true;
			symbols->has_symtab |= types[i] == SHT_SYMTAB;
			continue;
		}
		symbols->count = count_before;
		if (!is_damage(r))
			break;
		damage = r;
	}
	if (r >= 0 || is_damage(r))
		r = any_sound ? 0 : damage;
	if (r < 0) {
		if (err)
			*err = problem;
		return r;
	}
	return r;
}

int elf_symbols_add_file(struct elf_symbols *symbols, struct elf_file *file, struct error *err)
{
	if (file->type == ET_REL)
		return error_set(err, -ENOTSUP, "%s: a relocatable file: its symbols have no address until it is loaded",
				 file->name);
	int r = elf_file_load_sections(file, err);
	if (r < 0)
		return r;
	struct symbol_reader reader = {.symbols = symbols, .file = file};
	reader.executed_count = elf_file_find_code(file, reader.executed, EXECUTED_SEGMENTS_MAX);
	r = elf_versions_read(&reader.versions, file, err);
	if (r < 0)
		return r;
	r = add_tables(&reader, err);
	elf_versions_release(&reader.versions);
	return r < 0 ? r : elf_symbols_add_plt(&reader, err);
}
