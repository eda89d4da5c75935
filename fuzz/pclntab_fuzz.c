/* SPDX-License-Identifier: Apache-2.0 */
/* Go's table of functions, in a file and in the extract of that file; both must say the same. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "elf/demangle/demangle.h"
#include "elf/extract.h"
#include "elf/pclntab.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t check_scopes(const struct code_unit *unit)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < unit->scope_count; i++) {
		const struct code_scope *s = &unit->scopes[i];
		must(s->parent == CODE_NONE || s->parent < i);
		must(s->file == CODE_NONE || s->file < unit->file_count);
		must(s->call_file == CODE_NONE || s->call_file < unit->file_count);
		hash = hash64_mix(hash ^ hash64(s->name, strlen(s->name)) ^ s->call_line ^ (uint64_t)s->line << 32);
		hash ^= strlen(s->linkage_name);
	}
	for (size_t i = 0; i < unit->file_count; i++)
		hash = hash64_mix(hash ^ hash64(unit->files[i], strlen(unit->files[i])));
	return hash;
}

static int take(void *context, const struct code_unit *unit, struct error *err)
{
	uint64_t *hash = context;
	*hash = hash64_mix(*hash ^ check_scopes(unit));
	for (size_t i = 0; i < unit->range_count; i++) {
		const struct code_range *range = &unit->ranges[i];
		must(range->start < range->end && range->scope < unit->scope_count);
		must(i == 0 || unit->ranges[i - 1].end <= range->start);
		*hash = hash64_mix(*hash ^ range->start ^ (uint64_t)range->scope << 40);
	}
	for (size_t i = 0; i < unit->row_count; i++) {
		const struct code_row *row = &unit->rows[i];
		must(i == 0 || unit->rows[i - 1].address < row->address);
		must(row->end || row->file == CODE_NONE || row->file < unit->file_count);
		*hash = hash64_mix(*hash ^ row->address ^ (uint64_t)row->line << 32);
	}
	must(unit->row_count == 0 || unit->rows[unit->row_count - 1].end);
	return 0;
}

static int read_table(struct elf_file *file, uint64_t *hash)
{
	struct pclntab_result result;
	struct error err;
	*hash = 0;
	int r = pclntab_read(file, take, hash, &result, &err);
	must(r <= 0);
	return r;
}

/* Position-independent programs before 1.18 keep their pointers in relocations, which an extract has not; a table without a
 * section of its own is cut where its records end. */
static void check_extract(struct elf_file *file, uint64_t expected)
{
	struct elf_extract_result result;
	int fd = memfd_create("extract", MFD_CLOEXEC);
	if (fd >= 0 && elf_extract(file, fd, &(struct elf_extract_options){.bytes_max = 1 << 20}, &result, NULL) == 0 &&
	    result.has_pclntab) {
		struct elf_file extract;
		uint64_t hash;
		must(elf_file_open(&extract, fd, "extract", NULL) == 0);
		bool has_pointers = !elf_file_find_section(file, ".gopclntab");
		for (size_t i = 0; i < file->segment_count; i++)
			has_pointers |= file->segments[i].type == PT_DYNAMIC;
		int r = read_table(&extract, &hash);
		must(has_pointers || r < 0 || expected == hash);
		elf_file_release(&extract);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_file file;
	if (elf_file_open_memory(&file, (struct bytes){data, size}, "fuzz", NULL) < 0)
		return 0;
	uint64_t hash;
	if (read_table(&file, &hash) == 0)
		check_extract(&file, hash);
	elf_file_release(&file);
	return 0;
}
