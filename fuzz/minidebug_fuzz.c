/* SPDX-License-Identifier: Apache-2.0 */
/* Links to other debug files, mini debug information, compressed sections: of a file, and of what the input unpacks to. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/debug_links.h"
#include "elf/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECTION_MAX (1u << 20)

static void read_links(struct elf_file *file)
{
	char name[DEBUG_LINK_NAME_MAX], id[BUILD_ID_HEX_MAX];
	uint32_t crc;
	struct error err;
	if (elf_read_debuglink(file, name, &crc, &err) == 0 && (name[0] == 0 || strchr(name, '/')))
		abort();
	if (elf_read_debugaltlink(file, name, id, &err) == 0 && (name[0] == 0 || !build_id_is_valid(id)))
		abort();
}

static void read_sections(struct elf_file *file)
{
	if (elf_file_load_sections(file, NULL) < 0)
		return;
	for (size_t i = 0; i < file->section_count && i < 32; i++) {
		struct bytes contents;
		if (elf_file_read_section(file, &file->sections[i], SECTION_MAX, &contents, NULL) < 0)
			continue;
		if (contents.len > SECTION_MAX || contents.data[contents.len] != 0)
			abort();
		mem_free((void *)contents.data);
	}
}

static void read_symbols(struct elf_file *file)
{
	struct elf_symbols symbols;
	elf_symbols_init(&symbols);
	elf_symbols_add_file(&symbols, file, NULL);
	for (size_t i = 0; i < symbols.count; i++)
		if (symbols.items[i].size == 0 || symbols.items[i].name_len == 0)
			abort();
	elf_symbols_release(&symbols);
}

/* The input as the contents of .gnu_debugdata, so that the fuzzer need not keep a file around it. */
static void unpack(const uint8_t *data, size_t size)
{
	static const char names[] = "\0.gnu_debugdata\0.shstrtab";
	struct buffer file = {.max = 1 << 24};
	Elf64_Shdr sections[3] = {
		{0},
		{1, SHT_PROGBITS, 0, 0, sizeof(Elf64_Ehdr) + sizeof(sections), size, 0, 0, 1, 0},
		{16, SHT_STRTAB, 0, 0, sizeof(Elf64_Ehdr) + sizeof(sections) + size, sizeof(names), 0, 0, 1, 0}};
	Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			     .e_shoff = sizeof(Elf64_Ehdr),
			     .e_shentsize = sizeof(Elf64_Shdr),
			     .e_shnum = 3,
			     .e_shstrndx = 2};
	struct elf_file outer, inner;
	uint8_t *memory;
	if (buffer_append(&file, &header, sizeof(header)) == 0 && buffer_append(&file, sections, sizeof(sections)) == 0 &&
	    buffer_append(&file, data, size) == 0 && buffer_append(&file, names, sizeof(names)) == 0 &&
	    elf_file_open_memory(&outer, buffer_bytes(&file), "fuzz", NULL) == 0) {
		if (elf_open_minidebug(&outer, &inner, &memory, NULL) == 0) {
			read_symbols(&inner);
			elf_file_release(&inner);
			mem_free(memory);
		}
		elf_file_release(&outer);
	}
	buffer_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file file, inner;
	uint8_t *memory;
	unpack(data, size);
	if (elf_file_open_memory(&file, (struct bytes){data, size}, "fuzz", NULL) < 0)
		return 0;
	read_links(&file);
	read_sections(&file);
	read_symbols(&file);
	if (elf_open_minidebug(&file, &inner, &memory, NULL) == 0) {
		read_symbols(&inner);
		elf_file_release(&inner);
		mem_free(memory);
	}
	elf_file_release(&file);
	return 0;
}
