/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An extract is an ELF file whose sections have the numbers, names, addresses and sizes of the original, so that symbol tables
 * and relocations that count sections stay right, but of which most are SHT_NOBITS, as in what objcopy --only-keep-debug
 * writes. Kept are
 *
 *   symbol tables, the strings that they and the section headers use, notes, .gnu_debuglink, .gnu_debugaltlink, .gnu_debugdata
 *   .debug_* and .zdebug_*, as they are (compressed ones stay so), but for what only debuggers read: locations of variables,
 *     macros, call frames, indexes of names
 *   relocations of kept sections (relocatable files)
 *   .gopclntab
 *
 * and sections are added behind the last, with what can otherwise only be had from code and data: ELF_PLT_SECTION, the stubs
 * of the linkage table; PCLNTAB_INLINE_SECTION, Go's inlined calls; and .gopclntab when another linker merged it into data.
 *
 *   header | program headers | contents of kept sections, each aligned | added sections | section headers
 *
 * Program headers. PT_LOAD keep the offsets and sizes of the original, which profiles count in; they point past the end of this
 * file or at something else in it. EXTRACT_MARK in the padding of e_ident says so, unless this is the extract of a debug file,
 * which has no such offsets itself and was not given those of its binary. PT_NOTE follow their notes; the others lose their
 * contents.
 *
 * Rejected: running objcopy (it may not be there, and it rewrites what it does not know); ELF through libelf (it reads whole
 * sections into memory, and the agent has 15 MB).
 */
#include "elf/extract.h"

#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/text.h"
#include "elf/elf_file_int.h"
#include "elf/elf_symbols_int.h"
#include "elf/pclntab_int.h"

#define COPY_BYTES	(256 * KIB)
#define ALIGN_MAX	64
#define NOTE_GAP_MAX	16 /* between notes of one segment: padding */
#define NAMES_BYTES_MAX (16 * MIB)
#define ADDED_MAX	3
#define SEARCH_FACTOR	4 /* bytes that are searched for Go's table, for each that may be held: 256 MiB in the agent */

struct place {
	uint64_t offset; /* in the extract */
	bool keep;
};

struct added {
	const char *name;
	struct buffer data;
	uint64_t address, from, size; /* size > 0: no data, but this range of the original */
	uint64_t offset;
	uint32_t name_offset;
};

struct extract {
	struct elf_file *file;
	struct elf_extract_options options;
	int fd;
	struct elf_extract_result result;
	struct place *places; /* of each section of the original */
	struct added added[ADDED_MAX];
	size_t added_count;
	uint64_t names_extra; /* bytes that added names take behind the section names */
	uint64_t end;	      /* of what is laid out so far */
};

/* ---- what to keep ---- */

static bool starts_with_any(const char *name, const char *const *prefixes)
{
	for (size_t i = 0; prefixes[i]; i++)
		if (text_starts_with(name, prefixes[i]))
			return true;
	return false;
}

static bool is_debug_section(const struct elf_section *s)
{
	static const char *const unused[] = {"loc", "mac", "frame", "pub", "gnu_pub", "names", "gdb", NULL};
	if (s->flags & SHF_ALLOC)
		return false;
	if (text_starts_with(s->name, ".debug_"))
		return !starts_with_any(s->name + 7, unused);
	if (text_starts_with(s->name, ".zdebug_"))
		return !starts_with_any(s->name + 8, unused);
	return false;
}

static bool is_link_section(const struct elf_section *s)
{
	return strcmp(s->name, ".gnu_debuglink") == 0 || strcmp(s->name, ".gnu_debugaltlink") == 0 ||
	       strcmp(s->name, ".gnu_debugdata") == 0;
}

static bool is_go_section(const struct elf_section *s)
{
	return strcmp(s->name, ".gopclntab") == 0 || strcmp(s->name, ".data.rel.ro.gopclntab") == 0;
}

static void keep_with_strings(struct extract *x, size_t i)
{
	uint32_t link = x->file->sections[i].link;
	x->places[i].keep = true;
	if (link < x->file->section_count && x->file->sections[link].type == SHT_STRTAB)
		x->places[link].keep = true;
}

static void choose_section(struct extract *x, size_t i)
{
	const struct elf_section *s = &x->file->sections[i];
	switch (s->type) {
	case SHT_SYMTAB:
	case SHT_DYNSYM:
		keep_with_strings(x, i);
		x->result.has_symtab = true;
		break;
	case SHT_SYMTAB_SHNDX: x->places[i].keep = true; break;
	case SHT_NOTE: x->places[i].keep = !x->options.without_notes; break;
	case SHT_PROGBITS:
	case SHT_X86_64_UNWIND: /* some assemblers give it to debug sections */
		x->places[i].keep = is_debug_section(s) || is_link_section(s) || is_go_section(s);
		x->result.has_debug |= is_debug_section(s) || strcmp(s->name, ".gnu_debugdata") == 0;
		x->result.has_pclntab |= is_go_section(s);
		break;
	default: break;
	}
}

static void choose_sections(struct extract *x)
{
	struct elf_file *file = x->file;
	for (size_t i = 0; i < file->section_count; i++)
		choose_section(x, i);
	if (file->section_names_index < file->section_count && file->sections[file->section_names_index].type == SHT_STRTAB)
		x->places[file->section_names_index].keep = true;
	for (size_t i = 0; i < file->section_count; i++) {
		const struct elf_section *s = &file->sections[i];
		/* A linked file's are applied already; Linux's vmlinux still has them, 250 MB. */
		if (file->type == ET_REL && (s->type == SHT_RELA || s->type == SHT_REL) && s->info < file->section_count &&
		    s->info != 0)
			x->places[i].keep = x->places[s->info].keep && is_debug_section(&file->sections[s->info]);
		x->result.kept += x->places[i].keep;
		x->result.dropped += !x->places[i].keep && s->type != SHT_NULL;
	}
}

/* ---- what to add ---- */

static bool can_add(const struct extract *x)
{
	const struct elf_file *file = x->file;
	return file->section_names && !(file->sections[file->section_names_index].flags & SHF_COMPRESSED) &&
	       file->section_count + ADDED_MAX < ELF_SECTIONS_MAX;
}

static uint64_t names_bytes(const struct extract *x)
{
	return x->file->sections[x->file->section_names_index].size;
}

static void begin_added(struct extract *x, const char *name, uint64_t bytes_max, struct added *ret)
{
	/* A table that does not end with a NUL gets one: holes in the new file are zeros. */
	uint64_t extra = x->names_extra > 0 ? x->names_extra : 1;
	*ret = (struct added){.name = name, .name_offset = (uint32_t)(names_bytes(x) + extra), .data.max = (size_t)bytes_max};
}

/* Takes over the contents when there are any. */
static void end_added(struct extract *x, struct added *added)
{
	if (added->data.len == 0 && added->size == 0) {
		buffer_release(&added->data);
		return;
	}
	x->names_extra = added->name_offset - names_bytes(x) + strlen(added->name) + 1;
	x->added[x->added_count++] = *added;
}

static uint64_t added_bytes(const struct added *added)
{
	return added->size > 0 ? added->size : added->data.len;
}

/* A table that another linker merged into a section with other data becomes a section of its own. */
static void add_found_table(struct extract *x, const struct pclntab *table)
{
	struct added added;
	if (x->result.has_pclntab || table->layout < PCLNTAB_1_16)
		return;
	begin_added(x, ".gopclntab", 0, &added);
	added.address = table->address;
	added.from = table->offset;
	added.size = pclntab_end(table);
	end_added(x, &added);
	x->result.has_pclntab = true;
}

static int add_go_sections(struct extract *x, struct error *err)
{
	struct pclntab table;
	struct added added;
	uint64_t most = x->options.memory_max;
	const struct pclntab_limits limits = {.table_bytes = most,
					      .search_bytes = SEARCH_FACTOR * most,
					      .pointers = (size_t)(most / 4 / sizeof(struct pclntab_pointer))};
	int r = most ? pclntab_open_within(x->file, &limits, &table, err) : pclntab_open(x->file, &table, err);
	if (r < 0)
		return r;
	add_found_table(x, &table);
	begin_added(x, PCLNTAB_INLINE_SECTION, most ? most / 4 : PCLNTAB_INLINE_BYTES_MAX, &added);
	r = pclntab_write_inline(&table, &added.data, err);
	if (r < 0)
		buffer_clear(&added.data);
	end_added(x, &added);
	pclntab_close(&table);
	return r;
}

static int add_sections(struct extract *x, struct error *err)
{
	if (!can_add(x))
		return 0;
	int r = 0;
	if (!elf_file_find_section(x->file, ELF_PLT_SECTION)) {
		struct added added;
		begin_added(x, ELF_PLT_SECTION, ELF_PLT_NOTE_BYTES_MAX, &added);
		r = elf_plt_note(x->file, &added.data, err);
		end_added(x, &added);
	}
	if (r < 0 || elf_file_find_section(x->file, PCLNTAB_INLINE_SECTION))
		return r;
	/* A table that cannot be read costs the names, as it would for the file itself. */
	struct error problem = {0};
	r = add_go_sections(x, &problem);
	return elf_pass_over(r, &problem, err);
}

/* ---- layout ---- */

static uint64_t align_up(uint64_t value, uint64_t align)
{
	align = align == 0 || align > ALIGN_MAX || (align & (align - 1)) ? 8 : align;
	return (value + align - 1) & ~(align - 1);
}

static uint64_t header_bytes(const struct elf_file *file)
{
	return file->is_64 ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
}

static uint64_t kept_bytes(const struct extract *x, size_t i)
{
	return x->file->sections[i].size + (i == x->file->section_names_index ? x->names_extra : 0);
}

/* Notes that follow each other in the original, as those of one segment do, keep their distance. */
static bool follows_note(const struct extract *x, size_t i)
{
	const struct elf_section *s = &x->file->sections[i], *before = s - 1;
	return i > 0 && s->type == SHT_NOTE && before->type == SHT_NOTE && x->places[i - 1].keep &&
	       s->offset >= before->offset + before->size && s->offset - before->offset - before->size < NOTE_GAP_MAX;
}

static int lay_out(struct extract *x, struct error *err)
{
	const struct elf_file *file = x->file;
	uint64_t bytes_max = x->options.bytes_max;
	x->end = header_bytes(file) + file->segment_count * (file->is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr));
	for (size_t i = 0; i < file->section_count; i++) {
		const struct elf_section *s = &file->sections[i];
		uint64_t size = x->places[i].keep ? kept_bytes(x, i) : 0;
		if (x->places[i].keep && (s->offset > file->size || s->size > file->size - s->offset))
			return error_set(err, -EBADMSG, "%s: damaged ELF file: %s reaches beyond its end", file->name, s->name);
		if (follows_note(x, i))
			x->places[i].offset = x->places[i - 1].offset + (s->offset - (s - 1)->offset);
		else
			x->places[i].offset = x->places[i].keep ? align_up(x->end, s->align) : x->end;
		x->end = x->places[i].offset + size;
		/* Sections may overlap, so the sum has no bound but this. */
		if (x->end > file->size + 2 * (uint64_t)file->section_count * ALIGN_MAX + 1 * MIB)
			return error_set(err, -EBADMSG, "%s: damaged ELF file: sections overlap", file->name);
	}
	for (size_t i = 0; i < x->added_count; i++) {
		x->added[i].offset = align_up(x->end, 8);
		x->end = x->added[i].offset + added_bytes(&x->added[i]);
	}
	uint64_t headers = file->section_count + x->added_count;
	x->end = align_up(x->end, 8);
	x->result.bytes = x->end + headers * (file->is_64 ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));
	if (bytes_max > 0 && x->result.bytes > bytes_max)
		return error_set(err, -E2BIG, "%s: the extract has %llu bytes, more than the limit of %llu", file->name,
				 (unsigned long long)x->result.bytes, (unsigned long long)bytes_max);
	return 0;
}

/* ---- writing ---- */

static int write_at(struct extract *x, const void *data, size_t len, uint64_t offset, struct error *err)
{
	return io_pwrite(x->fd, data, len, offset, x->file->name, err);
}

/* Of a file that has its code, or of an extract. The program headers of a debug file may say anything. */
static bool has_original_offsets(const struct elf_file *file, const uint8_t *header)
{
	if (memcmp(header + EXTRACT_MARK_OFFSET, EXTRACT_MARK, sizeof(EXTRACT_MARK) - 1) == 0)
		return true;
	bool has_code = false, lacks_code = false;
	for (size_t i = 0; i < file->section_count; i++) {
		const struct elf_section *s = &file->sections[i];
		if ((s->flags & SHF_ALLOC) && (s->flags & SHF_EXECINSTR) && s->size > 0)
			*(s->type == SHT_NOBITS ? &lacks_code : &has_code) = true;
	}
	return has_code || !lacks_code;
}

static int write_header(struct extract *x, struct error *err)
{
	union {
		Elf64_Ehdr large;
		Elf32_Ehdr small;
	} h;
	size_t len = (size_t)header_bytes(x->file), count = x->file->section_count + x->added_count;
	int r = elf_file_read(x->file, 0, &h, len, err);
	if (r < 0)
		return r;
	if (x->options.has_offsets || has_original_offsets(x->file, (const uint8_t *)&h))
		memcpy((uint8_t *)&h + EXTRACT_MARK_OFFSET, EXTRACT_MARK, sizeof(EXTRACT_MARK) - 1);
	uint16_t segments = x->file->segment_count < PN_XNUM ? (uint16_t)x->file->segment_count : PN_XNUM;
	uint16_t sections = count < SHN_LORESERVE ? (uint16_t)count : 0;
	uint32_t names = x->file->section_names_index;
	if (x->file->is_64) {
		h.large.e_phoff = segments ? len : 0;
		h.large.e_shoff = x->end;
		h.large.e_ehsize = (uint16_t)len;
		h.large.e_phentsize = sizeof(Elf64_Phdr);
		h.large.e_shentsize = sizeof(Elf64_Shdr);
		h.large.e_phnum = segments;
		h.large.e_shnum = sections;
		h.large.e_shstrndx = names < SHN_LORESERVE ? (uint16_t)names : SHN_XINDEX;
	} else {
		h.small.e_phoff = segments ? (uint32_t)len : 0;
		h.small.e_shoff = (uint32_t)x->end;
		h.small.e_ehsize = (uint16_t)len;
		h.small.e_phentsize = sizeof(Elf32_Phdr);
		h.small.e_shentsize = sizeof(Elf32_Shdr);
		h.small.e_phnum = segments;
		h.small.e_shnum = sections;
		h.small.e_shstrndx = names < SHN_LORESERVE ? (uint16_t)names : SHN_XINDEX;
	}
	return write_at(x, &h, len, 0, err);
}

/* Where a segment's contents are now. PT_LOAD: where they were. */
static struct elf_segment place_segment(const struct extract *x, const struct elf_segment *segment)
{
	struct elf_segment s = *segment;
	if (s.type == PT_LOAD)
		return s;
	uint64_t size = 0;
	for (size_t i = 0; s.type == PT_NOTE && i < x->file->section_count; i++) {
		const struct elf_section *section = &x->file->sections[i];
		if (!x->places[i].keep || section->type != SHT_NOTE || section->offset != segment->offset || section->size == 0)
			continue;
		s.offset = x->places[i].offset;
		size = section->size;
		while (i + 1 < x->file->section_count && follows_note(x, i + 1) && size < segment->file_size) {
			i++;
			size = x->places[i].offset + x->file->sections[i].size - s.offset;
		}
		break;
	}
	s.file_size = size < segment->file_size ? size : segment->file_size;
	if (s.file_size == 0)
		s.offset = header_bytes(x->file);
	return s;
}

static int write_segments(struct extract *x, struct error *err)
{
	const struct elf_file *file = x->file;
	_cleanup_(buffer_release) struct buffer out = {.max = ELF_SEGMENTS_MAX * sizeof(Elf64_Phdr)};
	int r = 0;
	for (size_t i = 0; i < file->segment_count && r == 0; i++) {
		struct elf_segment s = place_segment(x, &file->segments[i]);
		Elf64_Phdr large = {s.type, s.flags, s.offset, s.address, s.address, s.file_size, s.memory_size, s.align};
		Elf32_Phdr small = {s.type,
				    (uint32_t)s.offset,
				    (uint32_t)s.address,
				    (uint32_t)s.address,
				    (uint32_t)s.file_size,
				    (uint32_t)s.memory_size,
				    s.flags,
				    (uint32_t)s.align};
		r = file->is_64 ? buffer_append(&out, &large, sizeof(large)) : buffer_append(&out, &small, sizeof(small));
	}
	if (r < 0)
		return error_nomem(err);
	return out.len > 0 ? write_at(x, out.data, out.len, header_bytes(file), err) : 0;
}

static int copy_range(struct extract *x, uint64_t from, uint64_t size, uint64_t to, uint8_t *window, struct error *err)
{
	for (uint64_t at = 0; at < size;) {
		size_t some = size - at < COPY_BYTES ? (size_t)(size - at) : COPY_BYTES;
		int r = elf_file_read(x->file, from + at, window, some, err);
		if (r == 0)
			r = write_at(x, window, some, to + at, err);
		if (r < 0)
			return r;
		at += some;
	}
	return 0;
}

static int write_contents(struct extract *x, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *window = mem_alloc(COPY_BYTES);
	if (!window)
		return error_nomem(err);
	for (size_t i = 0; i < x->file->section_count; i++) {
		const struct elf_section *s = &x->file->sections[i];
		int r = x->places[i].keep ? copy_range(x, s->offset, s->size, x->places[i].offset, window, err) : 0;
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < x->added_count; i++) {
		const struct added *a = &x->added[i];
		uint64_t names = x->places[x->file->section_names_index].offset;
		int r = a->size > 0 ? copy_range(x, a->from, a->size, a->offset, window, err)
				    : write_at(x, a->data.data, a->data.len, a->offset, err);
		if (r == 0)
			r = write_at(x, a->name, strlen(a->name) + 1, names + a->name_offset, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int append_section(const struct extract *x, struct buffer *out, const struct elf_section *s, uint32_t name)
{
	Elf64_Shdr large = {name, s->type, s->flags, s->address, s->offset, s->size, s->link, s->info, s->align, s->entry_size};
	Elf32_Shdr small = {
		name,	 s->type, (uint32_t)s->flags, (uint32_t)s->address,   (uint32_t)s->offset, (uint32_t)s->size,
		s->link, s->info, (uint32_t)s->align, (uint32_t)s->entry_size};
	return x->file->is_64 ? buffer_append(out, &large, sizeof(large)) : buffer_append(out, &small, sizeof(small));
}

static struct elf_section place_section(const struct extract *x, size_t i)
{
	struct elf_section s = x->file->sections[i];
	s.offset = x->places[i].offset;
	if (s.type == SHT_NULL)
		s.offset = 0;
	else if (x->places[i].keep)
		s.size = kept_bytes(x, i);
	else {
		s.type = SHT_NOBITS;
		s.flags &= ~(uint64_t)SHF_COMPRESSED;
		if (!(s.flags & SHF_ALLOC))
			s.size = 0;
	}
	if (i == 0) { /* numbers that do not fit the header */
		size_t count = x->file->section_count + x->added_count;
		s.size = count < SHN_LORESERVE ? 0 : count;
		s.link = x->file->section_names_index < SHN_LORESERVE ? 0 : x->file->section_names_index;
		s.info = x->file->segment_count < PN_XNUM ? 0 : (uint32_t)x->file->segment_count;
	}
	return s;
}

/* Offset 0 is a section without a name, unless the table is damaged there. */
static uint32_t name_offset(const struct elf_file *file, const struct elf_section *section)
{
	if (*section->name)
		return (uint32_t)(section->name - file->section_names);
	return file->section_names && file->section_names[0] ? UINT32_MAX : 0;
}

static int write_sections(struct extract *x, struct error *err)
{
	const struct elf_file *file = x->file;
	_cleanup_(buffer_release) struct buffer out = {.max = (ELF_SECTIONS_MAX + ADDED_MAX) * sizeof(Elf64_Shdr)};
	int r = 0;
	for (size_t i = 0; i < file->section_count && r == 0; i++) {
		struct elf_section s = place_section(x, i);
		r = append_section(x, &out, &s, name_offset(file, &s));
	}
	for (size_t i = 0; i < x->added_count && r == 0; i++) {
		const struct added *a = &x->added[i];
		struct elf_section s = {
			.type = SHT_PROGBITS, .address = a->address, .offset = a->offset, .size = added_bytes(a), .align = 8};
		r = append_section(x, &out, &s, a->name_offset);
	}
	return r < 0 ? error_nomem(err) : write_at(x, out.data, out.len, x->end, err);
}

static int extract(struct extract *x, struct error *err)
{
	x->places = mem_zalloc_array(x->file->section_count + 1, sizeof(*x->places));
	if (!x->places)
		return error_nomem(err);
	choose_sections(x);
	int r = add_sections(x, err);
	if (r == 0 && !x->result.has_debug && !x->result.has_symtab && !x->result.has_pclntab)
		r = error_set(err, -ENOENT, "%s: no symbols and no debug information to extract", x->file->name);
	if (r == 0)
		r = lay_out(x, err);
	if (r == 0)
		r = write_header(x, err);
	if (r == 0)
		r = write_segments(x, err);
	if (r == 0)
		r = write_contents(x, err);
	return r < 0 ? r : write_sections(x, err);
}

int elf_extract(struct elf_file *file, int out_fd, const struct elf_extract_options *options, struct elf_extract_result *ret,
		struct error *err)
{
	struct extract x = {.file = file, .fd = out_fd};
	if (options)
		x.options = *options;
	int r = elf_file_load_sections(file, err);
	if (r < 0)
		return r;
	r = extract(&x, err);
	mem_free(x.places);
	for (size_t i = 0; i < x.added_count; i++)
		buffer_release(&x.added[i].data);
	if (r == 0)
		*ret = x.result;
	return r;
}
