/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading ELF, after the System V gABI, chapters 4 and 5.
 *
 *   offset  32-bit            64-bit
 *   0       e_ident[16]       the same: magic, class, byte order
 *   ...     Elf32_Ehdr (52)   Elf64_Ehdr (64)   where the two tables below are
 *   e_phoff Elf32_Phdr (32)   Elf64_Phdr (56)   segments: what the loader maps
 *   e_shoff Elf32_Shdr (40)   Elf64_Shdr (64)   sections: what the linker knew; may be stripped
 *
 * Numbers that do not fit the header's 16 bits are in section 0: e_shnum 0 -> sh_size, e_shstrndx SHN_XINDEX -> sh_link,
 * e_phnum PN_XNUM -> sh_info.
 *
 * Invariants: `size` is the file's size when it was opened; no range beyond it is ever asked for, and a file that shrinks later
 * gives short reads, which are errors. Nothing that the file says about itself becomes an allocation before it is compared with
 * `size` and with a limit. `size` alone bounds nothing: a sparse file has any size for free. That is why header entries have
 * the size of the gABI or are refused: a larger one, which it allows for, is in no file, but multiplies the largest table.
 *
 * Rejected: libelf with ELF_C_READ_MMAP (SIGBUS on files that shrink) and with plain ELF_C_READ (reads and keeps whole
 * sections, inflates compressed ones without a limit).
 */
#include "elf/elf_file_int.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/limits.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "elf_file.c copies little-endian headers as they are"
#endif

#define SECTION_NAMES_MAX (16 * MIB)

static bool range_is_inside(const struct elf_file *file, uint64_t offset, uint64_t len)
{
	return offset <= file->size && len <= file->size - offset;
}

int elf_file_read(struct elf_file *file, uint64_t offset, void *ret, size_t len, struct error *err)
{
	if (!range_is_inside(file, offset, len))
		return error_set(err, -EBADMSG, "%s: damaged ELF file: %zu bytes at offset %llu lie beyond its end", file->name,
				 len, (unsigned long long)offset);
	if (len == 0)
		return 0;
	if (file->fd < 0) {
		memcpy(ret, file->memory.data + offset, len);
		return 0;
	}
	ssize_t got = io_pread(file->fd, ret, len, offset, file->name, err);
	if (got < 0)
		return (int)got;
	if ((size_t)got != len)
		return error_set(err, -EBADMSG, "%s: the file was truncated while it was read", file->name);
	return 0;
}

int elf_file_read_range(struct elf_file *file, uint64_t offset, uint64_t len, uint64_t max, const char *what, uint8_t **ret,
			struct error *err)
{
	if (!range_is_inside(file, offset, len))
		return error_set(err, -EBADMSG, "%s: damaged ELF file: %s reaches beyond its end", file->name, what);
	if (len > max)
		return error_set(err, -E2BIG, "%s: %s has %llu bytes, more than the limit of %llu", file->name, what,
				 (unsigned long long)len, (unsigned long long)max);
	uint8_t *data = mem_alloc((size_t)len + 1);
	if (!data)
		return error_nomem(err);
	int r = elf_file_read(file, offset, data, (size_t)len, err);
	if (r < 0) {
		mem_free(data);
		return r;
	}
	data[len] = 0;
	*ret = data;
	return 0;
}

int elf_file_read_section(struct elf_file *file, const struct elf_section *section, uint64_t max, struct bytes *ret,
			  struct error *err)
{
	if (section->type == SHT_NOBITS)
		return error_set(err, -ENOTSUP, "%s: section %s has no contents in this file", file->name, section->name);
	uint8_t *data;
	int r = elf_file_read_range(file, section->offset, section->size, max, section->name, &data, err);
	if (r < 0)
		return r;
	struct bytes contents = {data, (size_t)section->size};
	if (!elf_section_is_compressed(section)) {
		*ret = contents;
		return 0;
	}
	r = elf_section_inflate(file, section, contents, max, UINT64_MAX, ret, err);
	mem_free(data);
	return r;
}

static void convert_segment(const struct elf_file *file, const uint8_t *raw, struct elf_segment *ret)
{
	if (file->is_64) {
		Elf64_Phdr p;
		memcpy(&p, raw, sizeof(p));
		*ret = (struct elf_segment){p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align, p.p_type, p.p_flags};
	} else {
		Elf32_Phdr p;
		memcpy(&p, raw, sizeof(p));
		*ret = (struct elf_segment){p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz, p.p_align, p.p_type, p.p_flags};
	}
}

static void convert_section(const struct elf_file *file, const uint8_t *raw, struct elf_section *ret, uint32_t *ret_name)
{
	if (file->is_64) {
		Elf64_Shdr s;
		memcpy(&s, raw, sizeof(s));
		*ret_name = s.sh_name;
		*ret = (struct elf_section){"",		  s.sh_addr, s.sh_offset, s.sh_size, s.sh_flags, s.sh_addralign,
					    s.sh_entsize, s.sh_type, s.sh_link,	  s.sh_info};
	} else {
		Elf32_Shdr s;
		memcpy(&s, raw, sizeof(s));
		*ret_name = s.sh_name;
		*ret = (struct elf_section){"",		  s.sh_addr, s.sh_offset, s.sh_size, s.sh_flags, s.sh_addralign,
					    s.sh_entsize, s.sh_type, s.sh_link,	  s.sh_info};
	}
}

static int read_segments(struct elf_file *file, uint64_t offset, uint64_t count, uint64_t entry_size, struct error *err)
{
	if (count == 0)
		return 0;
	if (count > ELF_SEGMENTS_MAX)
		return error_set(err, -E2BIG, "%s: %llu program headers, more than the limit of %u", file->name,
				 (unsigned long long)count, ELF_SEGMENTS_MAX);
	if (entry_size != (file->is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)))
		return error_set(err, -EBADMSG, "%s: damaged ELF file: program headers of %llu bytes", file->name,
				 (unsigned long long)entry_size);
	_cleanup_(mem_freep) uint8_t *raw = NULL;
	int r = elf_file_read_range(file, offset, count * entry_size, UINT64_MAX, "the program header table", &raw, err);
	if (r < 0)
		return r;
	file->segments = mem_alloc_array((size_t)count, sizeof(*file->segments));
	if (!file->segments)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++)
		convert_segment(file, raw + i * entry_size, &file->segments[i]);
	file->segment_count = (size_t)count;
	return 0;
}

/* Resolves the counts that overflowed into section 0. The section table itself is read when somebody asks. */
static int read_tables(struct elf_file *file, const Elf64_Ehdr *header, struct error *err)
{
	uint64_t segment_count = header->e_phnum, section_count = header->e_shnum;
	file->section_offset = header->e_shoff;
	file->section_entry_size = header->e_shentsize;
	file->section_names_index = header->e_shstrndx;
	size_t need = file->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr);
	bool overflowed = section_count == 0 || segment_count == PN_XNUM || header->e_shstrndx == SHN_XINDEX;
	if (header->e_shoff != 0 && header->e_shentsize == need && overflowed) {
		uint8_t raw[sizeof(Elf64_Shdr)];
		struct elf_section zero;
		uint32_t name;
		int r = elf_file_read(file, header->e_shoff, raw, need, err);
		if (r < 0)
			return r;
		convert_section(file, raw, &zero, &name);
		section_count = section_count ? section_count : zero.size;
		segment_count = segment_count == PN_XNUM ? zero.info : segment_count;
		if (header->e_shstrndx == SHN_XINDEX)
			file->section_names_index = zero.link;
	}
	if (header->e_shoff == 0)
		section_count = 0;
	if (section_count > ELF_SECTIONS_MAX)
		return error_set(err, -E2BIG, "%s: %llu sections, more than the limit of %u", file->name,
				 (unsigned long long)section_count, ELF_SECTIONS_MAX);
	if (section_count > 0 && header->e_shentsize != need)
		return error_set(err, -EBADMSG, "%s: damaged ELF file: section headers of %u bytes", file->name,
				 header->e_shentsize);
	file->section_count = (size_t)section_count;
	return read_segments(file, header->e_phoff, segment_count, header->e_phentsize, err);
}

static int read_header(struct elf_file *file, struct error *err)
{
	uint8_t raw[sizeof(Elf64_Ehdr)] = {0};
	size_t len = file->size < sizeof(raw) ? (size_t)file->size : sizeof(raw);
	int r = elf_file_read(file, 0, raw, len, err);
	if (r < 0)
		return r;
	if (len < EI_NIDENT || memcmp(raw, ELFMAG, SELFMAG) != 0)
		return error_set(err, -ENOEXEC, "%s: not an ELF file", file->name);
	if (raw[EI_DATA] != ELFDATA2LSB)
		return error_set(err, -ENOTSUP, "%s: only little-endian ELF files are supported", file->name);
	if (raw[EI_CLASS] != ELFCLASS64 && raw[EI_CLASS] != ELFCLASS32)
		return error_set(err, -EBADMSG, "%s: damaged ELF file: class %u", file->name, raw[EI_CLASS]);
	file->is_64 = raw[EI_CLASS] == ELFCLASS64;
	if (len < (file->is_64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr)))
		return error_set(err, -EBADMSG, "%s: damaged ELF file: its header is truncated", file->name);
	Elf64_Ehdr header;
	memcpy(&header, raw, sizeof(header));
	if (!file->is_64) {
		Elf32_Ehdr h;
		memcpy(&h, raw, sizeof(h));
		header = (Elf64_Ehdr){.e_type = h.e_type,
				      .e_machine = h.e_machine,
				      .e_entry = h.e_entry,
				      .e_phoff = h.e_phoff,
				      .e_shoff = h.e_shoff,
				      .e_phentsize = h.e_phentsize,
				      .e_phnum = h.e_phnum,
				      .e_shentsize = h.e_shentsize,
				      .e_shnum = h.e_shnum,
				      .e_shstrndx = h.e_shstrndx};
	}
	file->type = header.e_type;
	file->machine = header.e_machine;
	file->entry = header.e_entry;
	return read_tables(file, &header, err);
}

static int finish_open(struct elf_file *file, struct error *err)
{
	int r = read_header(file, err);
	if (r < 0)
		elf_file_release(file);
	return r;
}

int elf_file_open(struct elf_file *file, int fd, const char *name, struct error *err)
{
	*file = (struct elf_file){.name = name, .fd = fd};
	struct stat st;
	if (fstat(fd, &st) < 0)
		return error_set_errno(err, -errno, "cannot read %s", name);
	if (!S_ISREG(st.st_mode))
		return error_set(err, -EINVAL, "%s: not a regular file", name);
	file->size = (uint64_t)st.st_size;
	return finish_open(file, err);
}

int elf_file_open_memory(struct elf_file *file, struct bytes memory, const char *name, struct error *err)
{
	*file = (struct elf_file){.name = name, .fd = -1, .memory = memory, .size = memory.len};
	return finish_open(file, err);
}

void elf_file_release(struct elf_file *file)
{
	file->segments = mem_free(file->segments);
	file->sections = mem_free(file->sections);
	file->section_names = mem_free(file->section_names);
	file->segment_count = file->section_count = 0;
}

/* A damaged name table costs the names only: types and addresses are enough for most uses. Out of memory is still an error. */
static int load_section_names(struct elf_file *file, const uint32_t *name_offsets, struct error *err)
{
	if (file->section_names_index == SHN_UNDEF || file->section_names_index >= file->section_count)
		return 0;
	const struct elf_section *table = &file->sections[file->section_names_index];
	struct bytes names;
	if (table->type != SHT_STRTAB)
		return 0;
	int r = elf_file_read_section(file, table, SECTION_NAMES_MAX, &names, err);
	if (r < 0)
		return r == -ENOMEM || r == -EIO ? r : 0;
	file->section_names = (char *)names.data;
	for (size_t i = 0; i < file->section_count; i++)
		if (name_offsets[i] < names.len)
			file->sections[i].name = file->section_names + name_offsets[i];
	return 0;
}

static int load_sections(struct elf_file *file, struct elf_section *sections, uint32_t *name_offsets, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *raw = NULL;
	uint64_t len = (uint64_t)file->section_count * file->section_entry_size;
	int r = elf_file_read_range(file, file->section_offset, len, UINT64_MAX, "the section header table", &raw, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < file->section_count; i++)
		convert_section(file, raw + i * file->section_entry_size, &sections[i], &name_offsets[i]);
	return 0;
}

int elf_file_load_sections(struct elf_file *file, struct error *err)
{
	if (file->sections || file->section_count == 0)
		return 0;
	/* The table must fit the file before memory is taken for it. */
	if (!range_is_inside(file, file->section_offset, (uint64_t)file->section_count * file->section_entry_size))
		return error_set(err, -EBADMSG, "%s: damaged ELF file: the section header table reaches beyond its end",
				 file->name);
	_cleanup_(mem_freep) uint32_t *name_offsets = mem_alloc_array(file->section_count, sizeof(*name_offsets));
	struct elf_section *sections = mem_alloc_array(file->section_count, sizeof(*sections));
	int r = name_offsets && sections ? load_sections(file, sections, name_offsets, err) : error_nomem(err);
	if (r < 0) {
		mem_free(sections);
		return r;
	}
	file->sections = sections;
	r = load_section_names(file, name_offsets, err);
	if (r < 0)
		file->sections = mem_free(file->sections);
	return r;
}

const struct elf_section *elf_file_find_section(const struct elf_file *file, const char *name)
{
	for (size_t i = 0; file->sections && i < file->section_count; i++)
		if (strcmp(file->sections[i].name, name) == 0)
			return &file->sections[i];
	return NULL;
}

const struct elf_section *elf_file_find_contents(const struct elf_file *file, const char *name)
{
	const struct elf_section *section = elf_file_find_section(file, name);
	return section && section->type != SHT_NOBITS ? section : NULL;
}

int elf_file_read_contents(struct elf_file *file, const char *name, uint64_t max, struct bytes *ret, struct error *err)
{
	const struct elf_section *section = elf_file_find_contents(file, name);
	if (!section)
		return -ENOENT;
	int r = elf_file_read_section(file, section, max, ret, err);
	return r == -ENOENT ? -EBADMSG : r;
}

bool elf_file_has_dwarf(const struct elf_file *file)
{
	const struct elf_section *section = elf_file_find_contents(file, ".debug_info");
	if (!section)
		section = elf_file_find_contents(file, ".zdebug_info");
	return section && section->size > 0;
}

const struct elf_section *elf_file_find_section_type(const struct elf_file *file, uint32_t type)
{
	for (size_t i = 0; file->sections && i < file->section_count; i++)
		if (file->sections[i].type == type)
			return &file->sections[i];
	return NULL;
}

/* Of a file without loaded segments. Sections are in order of address, but for what is damaged. */
static size_t find_code_of_sections(const struct elf_file *file, struct elf_segment *ret, size_t max)
{
	const uint64_t executed = SHF_ALLOC | SHF_EXECINSTR;
	size_t count = 0;
	bool is_open = false, is_cleared = false; /* a run goes on; the size of its last section was cleared */
	for (size_t i = 0; file->sections && i < file->section_count && count < max; i++) {
		const struct elf_section *s = &file->sections[i];
		struct elf_segment *run = &ret[count];
		bool is_code = (s->flags & executed) == executed;
		if (!(s->flags & SHF_ALLOC) || (s->flags & SHF_TLS) || s->size > UINT64_MAX - s->address)
			continue;
		bool is_behind = is_open && s->address >= run->address + run->memory_size;
		if (is_behind && is_cleared)
			run->memory_size = s->address - run->address;
		if (is_open && !(is_behind && is_code)) {
			count += run->memory_size > 0;
			is_open = false;
		}
		if (!is_code || count == max)
			continue;
		run = &ret[count];
		if (!is_open)
			*run = (struct elf_segment){.type = PT_LOAD, .flags = PF_R | PF_X, .address = s->address};
		run->memory_size = s->address + s->size - run->address;
		is_open = true;
		is_cleared = s->size == 0;
	}
	return is_open && ret[count].memory_size > 0 ? count + 1 : count;
}

bool elf_file_has_loaded(const struct elf_file *file)
{
	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].type == PT_LOAD)
			return true;
	return false;
}

size_t elf_file_find_code(const struct elf_file *file, struct elf_segment *ret, size_t max)
{
	size_t count = 0;
	if (!elf_file_has_loaded(file))
		return find_code_of_sections(file, ret, max);
	for (size_t i = 0; i < file->segment_count && count < max; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (elf_segment_is_executed(s) && s->memory_size > 0 && s->memory_size <= UINT64_MAX - s->address)
			ret[count++] = *s;
	}
	return count;
}

const struct elf_segment *elf_file_find_loaded(const struct elf_file *file, uint64_t address, uint64_t *ret_offset)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (s->type == PT_LOAD && address >= s->address && address - s->address < s->file_size) {
			*ret_offset = s->offset + (address - s->address);
			return s;
		}
	}
	return NULL;
}

bool elf_file_offset_to_address(const struct elf_file *file, uint64_t offset, uint64_t *ret_address)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct elf_segment *s = &file->segments[i];
		if (s->type == PT_LOAD && offset >= s->offset && offset - s->offset < s->file_size) {
			*ret_address = s->address + (offset - s->offset);
			return true;
		}
	}
	return false;
}
