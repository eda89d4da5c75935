/* SPDX-License-Identifier: Apache-2.0 */
/* Extracts of ELF files: valid ELF files themselves, which have the same symbols, and of which an extract is no different. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/elf_symbols.h"
#include "elf/extract.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_symbols(struct elf_file *file, struct elf_symbols *ret)
{
	elf_symbols_init(ret);
	return elf_symbols_add_file(ret, file, NULL);
}

static void compare_symbols(struct elf_file *original, struct elf_file *extract)
{
	struct elf_symbols a, b;
	int r = read_symbols(original, &a), q = read_symbols(extract, &b);
	must(r < 0 || q < 0 || a.has_symtab == b.has_symtab);
	elf_symbols_release(&a);
	elf_symbols_release(&b);
}

static void check_sections(const struct elf_file *original, const struct elf_file *extract)
{
	must(extract->section_count >= original->section_count);
	for (size_t i = 1; i < original->section_count; i++) {
		const struct elf_section *a = &original->sections[i], *b = &extract->sections[i];
		must(strcmp(a->name, b->name) == 0 && a->link == b->link && a->info == b->info && a->address == b->address);
		must(a->type == b->type || b->type == SHT_NOBITS);
		must(a->type != SHT_PROGBITS || b->type == SHT_NOBITS || !(a->flags & SHF_EXECINSTR) || a->name[0] == '.');
	}
	for (size_t i = 0; i < original->segment_count; i++)
		must(original->segments[i].type != PT_LOAD ||
		     memcmp(&original->segments[i], &extract->segments[i], sizeof(original->segments[i])) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file file, extract;
	struct elf_extract_result result;
	if (elf_file_open_memory(&file, (struct bytes){data, size}, "fuzz", NULL) < 0)
		return 0;
	int fd = memfd_create("extract", MFD_CLOEXEC), again = memfd_create("extract", MFD_CLOEXEC);
	must(fd >= 0 && again >= 0);
	if (elf_extract(&file, fd, &(struct elf_extract_options){.bytes_max = 1 << 22}, &result, NULL) == 0) {
		must(result.has_debug || result.has_symtab || result.has_pclntab);
		must(elf_file_open(&extract, fd, "extract", NULL) == 0);
		must(extract.size == result.bytes);
		must(elf_file_load_sections(&extract, NULL) == 0);
		check_sections(&file, &extract);
		compare_symbols(&file, &extract);
		must(elf_extract(&extract, again, &(struct elf_extract_options){.bytes_max = 1 << 23}, &result, NULL) == 0);
		elf_file_release(&extract);
	}
	close(fd);
	close(again);
	elf_file_release(&file);
	return 0;
}
