/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/cfi_int.h"

static int add_section(struct cfi_reader *reader, const char *name)
{
	const struct elf_section *section = elf_file_find_section(reader->file, name);
	if (!section || section->type == SHT_NOBITS || section->size == 0)
		return 0;
	struct bytes data;
	int r = elf_file_read_section(reader->file, section, CFI_SECTION_BYTES_MAX, &data, reader->err);
	if (r < 0)
		return r;
	reader->sources[reader->source_count++] =
		(struct cfi_source){.data = data, .address = section->address, .is_eh = strcmp(name, ".debug_frame") != 0};
	return 0;
}

int cfi_sources_load(struct cfi_reader *reader)
{
	int r = elf_file_load_sections(reader->file, reader->err);
	if (r < 0)
		return r;
	r = add_section(reader, ".eh_frame");
	return r < 0 ? r : add_section(reader, ".debug_frame");
}
