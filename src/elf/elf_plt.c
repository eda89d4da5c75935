/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names for the procedure linkage table, the stubs through which a file calls other libraries: "malloc@plt". They have no
 * symbols of their own, and without a name their samples would be lost between two functions.
 *
 * x86-64: every stub, wherever the linker put it (.plt, .plt.sec, .plt.got; bfd, gold, lld and mold differ), jumps through a
 * slot of the global offset table, "ff 25 disp32", at most after endbr64 or a bnd prefix. The slot's relocation names the
 * function. Decoding the jump is indifferent to the order of the stubs, which counting relocations, as some tools do, is not.
 * AArch64: .plt is 32 bytes of header and 16 bytes for each entry of .rela.plt, in order.
 * Other machines: no names.
 *
 * An extract of a file (elf/extract.h) has no code to decode. It has a section ELF_PLT_SECTION instead, little-endian:
 *
 *   u32 "WPL1", u32 number of stubs; each: u64 address, u32 size, u32 index into .dynsym
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "elf/elf_file_int.h"
#include "elf/elf_symbols_int.h"

#define WINDOW_BYTES   (64 * KIB)
#define PLT_BYTES_MAX  (16 * MIB) /* of code looked at, all sections together: they may overlap */
#define SECTIONS_MAX   8	  /* of code looked at; real files have three */
#define AARCH64_HEADER 32
#define STUB_BYTES     16
#define PLT_SUFFIX     "@plt"
#define NOTE_MAGIC     0x314c5057u

/* A stub in ELF_PLT_SECTION. */
struct noted_stub {
	uint64_t address;
	uint32_t size, symbol;
};

struct slot {
	uint64_t address; /* of the entry in the global offset table */
	uint32_t symbol;  /* index into .dynsym */
};

struct plt {
	struct symbol_reader *reader;
	struct elf_file *file;
	struct elf_symbols *symbols;
	struct bytes dynsym, strings;
	struct slot *slots; /* in file order; sorted by address for x86-64 */
	size_t slot_count, slot_capacity;
	uint64_t relocation_bytes, code_bytes; /* looked at */
	struct buffer *note;		       /* stubs go here instead of becoming symbols */
};

DEFINE_ORDER(compare_slots, struct slot, ORDER(a->address, b->address));

static bool is_slot_relocation(const struct elf_file *file, uint32_t type)
{
	if (file->machine == EM_X86_64)
		return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
	return type == R_AARCH64_JUMP_SLOT;
}

static int add_slot(struct plt *plt, const uint8_t *raw, struct error *err)
{
	Elf64_Rela rela;
	memcpy(&rela, raw, sizeof(rela));
	if (!is_slot_relocation(plt->file, (uint32_t)ELF64_R_TYPE(rela.r_info)))
		return 0;
	int r = array_push(&plt->slots, &plt->slot_count, &plt->slot_capacity, ELF_PLT_STUBS_MAX,
			   (struct slot){rela.r_offset, (uint32_t)ELF64_R_SYM(rela.r_info)});
	if (r < 0)
		return r == -ENOMEM ? error_nomem(err) : r;
	return 0;
}

/* Through a window: large programs have tens of megabytes of relocations, few of which are slots, and the agent reads them. */
static int add_slots(struct plt *plt, const struct elf_section *section, struct error *err)
{
	if (section->size > ELF_PLT_RELOCATION_BYTES_MAX - plt->relocation_bytes || (section->flags & SHF_COMPRESSED))
		return error_set(err, -E2BIG, "%s: too many relocations up to %s", plt->file->name, section->name);
	if (section->size == 0)
		return 0;
	plt->relocation_bytes += section->size;
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(WINDOW_BYTES);
	if (!window)
		return error_nomem(err);
	size_t entry = sizeof(Elf64_Rela), count = (size_t)section->size / entry, per_window = WINDOW_BYTES / entry;
	for (size_t first = 0; first < count; first += per_window) {
		size_t some = count - first < per_window ? count - first : per_window;
		int r = elf_file_read(plt->file, section->offset + first * entry, window, some * entry, err);
		for (size_t i = 0; r == 0 && i < some; i++)
			r = add_slot(plt, window + i * entry, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The reader NUL-terminates string tables, so the name ends inside the memory. NULL when there is no usable name. */
static const char *slot_name(const struct plt *plt, const struct slot *slot)
{
	uint64_t at = (uint64_t)slot->symbol * sizeof(Elf64_Sym);
	if (slot->symbol == 0 || at + sizeof(Elf64_Sym) > plt->dynsym.len)
		return NULL;
	Elf64_Sym symbol;
	elf_symbol_convert(plt->file, plt->dynsym.data + at, &symbol);
	if (symbol.st_name >= plt->strings.len)
		return NULL;
	const char *name = (const char *)plt->strings.data + symbol.st_name;
	size_t len = strnlen(name, ELF_SYMBOL_NAME_MAX + 1);
	plt->symbols->name_bytes += len;
	return len > 0 && len <= ELF_SYMBOL_NAME_MAX ? name : NULL;
}

static int add_stub(struct plt *plt, const struct slot *slot, uint64_t address, uint64_t size, struct error *err)
{
	if (plt->note) {
		struct noted_stub stub = {address, (uint32_t)size, slot->symbol};
		return buffer_append(plt->note, &stub, sizeof(stub));
	}
	const char *target = slot_name(plt, slot);
	if (plt->symbols->name_bytes > ELF_SYMBOL_NAME_BYTES_MAX)
		return -E2BIG;
	const struct elf_segment *segment = symbol_reader_find_segment(plt->reader, address);
	if (!target || !segment || size > segment->memory_size - (address - segment->address))
		return 0;
	size_t len = strlen(target);
	char *name = arena_alloc(&plt->symbols->text, len + sizeof(PLT_SUFFIX));
	if (!name)
		return error_nomem(err);
	memcpy(name, target, len);
	memcpy(name + len, PLT_SUFFIX, sizeof(PLT_SUFFIX));
	struct elf_symbol symbol = {.address = address,
				    .size = size,
				    .name = name,
				    .name_len = (uint32_t)(len + sizeof(PLT_SUFFIX) - 1),
				    .type = STT_FUNC,
				    .binding = STB_LOCAL};
	return elf_symbols_append(plt->symbols, &symbol, err);
}

/* The slot that the stub at code[0..size) jumps through; false if it is no stub. */
static bool decode_stub(const uint8_t *code, size_t size, uint64_t address, uint64_t *ret_slot)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = 0;
	if (size >= 4 && memcmp(code, endbr64, 4) == 0)
		at = 4;
	if (at < size && code[at] == 0xf2) /* bnd */
		at++;
	if (size < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	int32_t displacement;
	memcpy(&displacement, code + at + 2, 4);
	*ret_slot = address + at + 6 + (uint64_t)(int64_t)displacement;
	return true;
}

static int add_stubs_of(struct plt *plt, const uint8_t *code, size_t len, uint64_t address, size_t step, struct error *err)
{
	int r = 0;
	for (size_t at = 0; r == 0 && len - at >= step; at += step) {
		struct slot key;
		if (!decode_stub(code + at, step, address + at, &key.address))
			continue;
		const struct slot *slot = bsearch(&key, plt->slots, plt->slot_count, sizeof(key), compare_slots);
		if (slot)
			r = add_stub(plt, slot, address + at, step, err);
	}
	return r;
}

static int add_stubs_x86_64(struct plt *plt, const struct elf_section *section, struct error *err)
{
	size_t step = strcmp(section->name, ".plt.got") == 0 && section->entry_size == 8 ? 8 : STUB_BYTES;
	if (plt->slot_count == 0 || (section->flags & SHF_COMPRESSED))
		return 0;
	if (section->size > PLT_BYTES_MAX - plt->code_bytes)
		return error_set(err, -E2BIG, "%s: too much code up to %s", plt->file->name, section->name);
	plt->code_bytes += section->size;
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(WINDOW_BYTES);
	if (!window)
		return error_nomem(err);
	int r = 0;
	for (uint64_t at = 0; at < section->size && r == 0; at += WINDOW_BYTES) {
		size_t some = section->size - at < WINDOW_BYTES ? (size_t)(section->size - at) : WINDOW_BYTES;
		r = elf_file_read(plt->file, section->offset + at, window, some, err);
		if (r == 0)
			r = add_stubs_of(plt, window, some, section->address + at, step, err);
	}
	return r;
}

static int add_stubs_aarch64(struct plt *plt, const struct elf_section *section, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < plt->slot_count; i++) {
		uint64_t at = AARCH64_HEADER + (uint64_t)i * STUB_BYTES;
		if (at + STUB_BYTES > section->size)
			break;
		r = add_stub(plt, &plt->slots[i], section->address + at, STUB_BYTES, err);
	}
	return r;
}

static int add_stubs(struct plt *plt, struct error *err)
{
	struct elf_file *file = plt->file;
	if (file->machine == EM_X86_64)
		sort_array(plt->slots, plt->slot_count, compare_slots);
	for (size_t i = 0, seen = 0; i < file->section_count && seen < SECTIONS_MAX; i++) {
		const struct elf_section *s = &file->sections[i];
		if (s->type != SHT_PROGBITS || strncmp(s->name, ".plt", 4) != 0 || s->size == 0)
			continue;
		seen++;
		int r = file->machine == EM_X86_64 ? add_stubs_x86_64(plt, s, err) : add_stubs_aarch64(plt, s, err);
		if (r < 0)
			return r;
		if (file->machine == EM_AARCH64)
			break;
	}
	return 0;
}

/* The stubs that an extract notes. -ENOENT when the file is none. */
static int add_noted_stubs(struct plt *plt, struct error *err)
{
	struct bytes data;
	int r = elf_file_read_contents(plt->file, ELF_PLT_SECTION, ELF_PLT_NOTE_BYTES_MAX, &data, err);
	if (r < 0)
		return r;
	uint32_t header[2] = {0};
	if (data.len >= sizeof(header))
		memcpy(header, data.data, sizeof(header));
	if (header[0] != NOTE_MAGIC || header[1] > (data.len - sizeof(header)) / sizeof(struct noted_stub))
		r = error_set(err, -EBADMSG, "%s: damaged section %s", plt->file->name, ELF_PLT_SECTION);
	for (uint32_t i = 0; r == 0 && i < header[1]; i++) {
		struct noted_stub stub;
		memcpy(&stub, data.data + sizeof(header) + i * sizeof(stub), sizeof(stub));
		r = add_stub(plt, &(struct slot){.symbol = stub.symbol}, stub.address, stub.size, err);
	}
	mem_free((void *)data.data);
	return r;
}

static int read_slots(struct plt *plt, struct error *err)
{
	struct elf_file *file = plt->file;
	int r = 0;
	for (size_t i = 0; i < file->section_count && r == 0; i++) {
		const struct elf_section *s = &file->sections[i];
		if (s->type != SHT_RELA || !(s->flags & SHF_ALLOC))
			continue;
		if (file->machine == EM_X86_64 || strcmp(s->name, ".rela.plt") == 0)
			r = add_slots(plt, s, err);
	}
	return r < 0 ? r : add_stubs(plt, err);
}

static int read_plt(struct plt *plt, struct error *err)
{
	struct elf_file *file = plt->file;
	const struct elf_section *dynsym = elf_file_find_section_type(file, SHT_DYNSYM);
	if (!dynsym || dynsym->link >= file->section_count)
		return 0;
	int r = elf_symbols_read_strings(plt->symbols, file, &file->sections[dynsym->link], &plt->strings, err);
	if (r < 0)
		return r;
	r = elf_file_read_section(file, dynsym, ELF_SYMTAB_BYTES_MAX, &plt->dynsym, err);
	if (r < 0)
		return r;
	r = add_noted_stubs(plt, err);
	return r == -ENOENT ? read_slots(plt, err) : r;
}

static bool has_readable_plt(const struct elf_file *file)
{
	return file->is_64 && (file->machine == EM_X86_64 || file->machine == EM_AARCH64);
}

int elf_plt_note(struct elf_file *file, struct buffer *out, struct error *err)
{
	if (!has_readable_plt(file))
		return 0;
	struct plt plt = {.file = file, .note = out};
	size_t header_at = out->len;
	uint32_t header[2] = {NOTE_MAGIC, 0};
	int r = buffer_append(out, header, sizeof(header));
	if (r == 0)
		r = read_slots(&plt, err);
	mem_free(plt.slots);
	if (r == -ENOMEM)
		return error_nomem(err);
	if (r == -EIO)
		return r;
	if (r < 0 || out->len == header_at + sizeof(header)) {
		buffer_truncate(out, header_at); /* damaged or none: no names for stubs, as for the file itself */
		return 0;
	}
	header[1] = (uint32_t)((out->len - header_at - sizeof(header)) / sizeof(struct noted_stub));
	memcpy(out->data + header_at, header, sizeof(header));
	return 0;
}

int elf_symbols_add_plt(struct symbol_reader *reader, struct error *err)
{
	struct elf_symbols *symbols = reader->symbols;
	struct elf_file *file = reader->file;
	if (!has_readable_plt(file))
		return 0;
	size_t count_before = symbols->count;
	struct plt plt = {.reader = reader, .file = file, .symbols = symbols};
	struct error problem = {0};
	int r = read_plt(&plt, &problem);
	mem_free((void *)plt.dynsym.data);
	mem_free(plt.slots);
	if (r < 0)
		symbols->count = count_before;
	return elf_pass_over(r, &problem, err);
}
