/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files: headers, notes, symbols, the table built from them, its image read back, and lookups in both. */
#include <stdlib.h>
#include <string.h>

#include "elf/build_id.h"
#include "elf/elf_symbols.h"
#include "symbol/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_lookups(const struct symbol_table *built, const struct symbol_table *loaded, uint64_t limit)
{
	for (uint64_t offset = 0; offset < limit; offset += 13) {
		const char *a = symbol_table_find(built, offset, NULL), *b = symbol_table_find(loaded, offset, NULL);
		if (!a != !b || (a && strcmp(a, b) != 0))
			abort();
	}
}

static void check_table(struct elf_file *file, uint64_t limit)
{
	struct symbol_table *built, *loaded;
	if (symbol_table_build("abcd", file, NULL, &built, NULL) < 0)
		return;
	struct buffer image;
	buffer_init(&image, SYMBOL_TABLE_BYTES_MAX);
	if (buffer_append(&image, built->image, built->len) < 0)
		abort();
	/* What is built must be valid. */
	if (symbol_table_from_image(&image, "abcd", &loaded, NULL) < 0)
		abort();
	check_lookups(built, loaded, limit);
	symbol_table_free(loaded);
	symbol_table_free(built);
}

static void check_debug_table(struct bytes bytes)
{
	struct elf_file file;
	struct symbol_table *table;
	if (elf_file_open_memory(&file, bytes, "fuzz", NULL) < 0)
		return;
	if (symbol_table_build("", NULL, &file, &table, NULL) == 0) {
		symbol_table_find_mapped(table, 0x7000, 0x8000, 0x7400, NULL);
		symbol_table_free(table);
	}
	elf_file_release(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes bytes = {data, size};
	struct elf_file file;
	struct error err;
	if (elf_file_open_memory(&file, bytes, "fuzz", &err) == 0) {
		char id[BUILD_ID_HEX_MAX];
		if (build_id_read(&file, id, &err) == 0 && !build_id_is_valid(id))
			abort();
		check_table(&file, size);
		elf_file_release(&file);
		check_debug_table(bytes);
	}
	/* As a cache file that somebody else wrote. */
	struct buffer image;
	struct symbol_table *table;
	buffer_init(&image, SYMBOL_TABLE_BYTES_MAX);
	if (size > 0 && buffer_append(&image, data, size) == 0 && symbol_table_from_image(&image, "abcd", &table, &err) == 0) {
		symbol_table_find(table, size, NULL);
		symbol_table_find_mapped(table, 0, size, size / 2, NULL);
		symbol_table_free(table);
	}
	buffer_release(&image);
	return 0;
}
