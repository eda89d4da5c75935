// SPDX-License-Identifier: Apache-2.0
/*
 * .dynsym is searched by its hash table, where the file has GNU's (as nearly all have since 2006): of a name that is not there,
 * which is the usual case, one word of the Bloom filter is read. Each file that is mapped with execution is asked for the names
 * of each runtime, and a pass over all symbols for each of them took 12 of 154 s of CPU time of tests that record. A table that
 * is damaged or lies has no names, which harms only who wrote the file.
 *
 * Without that hash table, and in .symtab, which has none: a pass over the table, piece by piece.
 *
 * The layout of .gnu.hash (words of 4 bytes; of the filter 8 in 64-bit files):
 *
 *   buckets, first symbol, words of the filter, shift | filter | for each bucket its first symbol, 0 = none | for each symbol
 * from the first one
 *
 * The last has the symbol's hash, whose lowest bit says whether it is the last one of its bucket. (Binutils' elf/common.h,
 * glibc's elf/dl-lookup.c.)
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "elf/elf_symbols_int.h"

#define DYNSYM_BYTES_MAX (16 * MIB) /* of symbols, and of names */
#define SYMTAB_BYTES_MAX (4 * MIB)
#define LARGE_BYTES_MAX	 (256 * MIB)
#define CHUNK_SYMBOLS	 1024u
#define BUCKET_MAX	 1024u /* symbols of one bucket that are looked at; real ones have some 4 */
#define CHUNK_HASHES	 32u
#define NAME_BYTES_MAX	 256u /* longer names are not found by the hash table */

/* .gnu.hash, where its parts begin in the file. */
struct name_hash {
	uint32_t buckets, first_symbol, filter_words, shift;
	uint64_t filter, bucket, chain, end;
};

static size_t count_missing(const struct elf_named *wanted, size_t count)
{
	size_t missing = 0;

	for (size_t i = 0; i < count; i++)
		missing += !wanted[i].address;
	return missing;
}

static void take_symbol(const Elf64_Sym *symbol, struct bytes strings, struct elf_named *wanted, size_t count)
{
	if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value || symbol->st_name >= strings.len)
		return;
	/* A NUL stands behind the table. */
	const char *name = (const char *)strings.data + symbol->st_name;
	for (size_t i = 0; i < count; i++) {
		if (wanted[i].address || strcmp(name, wanted[i].name) != 0)
			continue;
		wanted[i].address = symbol->st_value;
		wanted[i].size = symbol->st_size;
	}
}

static uint32_t hash_of(const char *name)
{
	uint32_t hash = 5381;
	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* False if there is none that could be right. */
static bool read_name_hash(struct elf_file *file, struct name_hash *ret)
{
	const struct elf_section *section = elf_file_find_section_type(file, SHT_GNU_HASH);
	uint32_t head[4];

	if (!section || !file->is_64 || section->size < sizeof(head) || section->offset > file->size ||
	    section->size > file->size - section->offset || elf_file_read(file, section->offset, head, sizeof(head), NULL) < 0)
		return false;
	*ret = (struct name_hash){
		.buckets = head[0],
		.first_symbol = head[1],
		.filter_words = head[2],
		.shift = head[3],
		.filter = section->offset + sizeof(head),
		.bucket = section->offset + sizeof(head) + head[2] * 8ull,
		.chain = section->offset + sizeof(head) + head[2] * 8ull + head[0] * 4ull,
		.end = section->offset + section->size,
	};
	return head[0] && head[2] && (head[2] & (head[2] - 1)) == 0 && head[3] < 32 && ret->chain <= ret->end;
}

/* The word of the filter has both bits of a name that is in the table. */
static bool is_in_filter(struct elf_file *file, const struct name_hash *table, uint32_t hash)
{
	uint64_t word;
	uint64_t at = table->filter + 8ull * (hash / 64 % table->filter_words);

	if (elf_file_read(file, at, &word, sizeof(word), NULL) < 0)
		return false;
	return word >> hash % 64 & 1 && word >> (hash >> table->shift) % 64 & 1;
}

static void take_symbol(const Elf64_Sym *symbol, struct bytes strings, struct elf_named *wanted, size_t count);

/* One symbol of .dynsym, if it has that name. */
static bool take_indexed(struct elf_file *file, const struct elf_section *symbols, uint64_t index, struct elf_named *wanted)
{
	const struct elf_section *strings = &file->sections[symbols->link];
	size_t len = strlen(wanted->name);
	char name[NAME_BYTES_MAX + 1] = {0};
	Elf64_Sym symbol;

	if (index >= symbols->size / sizeof(symbol) || len >= NAME_BYTES_MAX ||
	    elf_file_read(file, symbols->offset + index * sizeof(symbol), &symbol, sizeof(symbol), NULL) < 0 ||
	    symbol.st_name >= strings->size || strings->size - symbol.st_name <= len ||
	    elf_file_read(file, strings->offset + symbol.st_name, name, len + 1, NULL) < 0)
		return false;
	symbol.st_name = 0;
	take_symbol(&symbol, (struct bytes){(const uint8_t *)name, len + 1}, wanted, 1);
	return wanted->address != 0;
}

static void search_hash(struct elf_file *file, const struct elf_section *symbols, const struct name_hash *table,
			struct elf_named *wanted)
{
	uint32_t hash = hash_of(wanted->name), index, chunk[CHUNK_HASHES];

	if (!is_in_filter(file, table, hash) ||
	    elf_file_read(file, table->bucket + 4ull * (hash % table->buckets), &index, sizeof(index), NULL) < 0 ||
	    index < table->first_symbol)
		return;
	for (uint32_t seen = 0; seen < BUCKET_MAX; seen++) {
		uint64_t at = table->chain + 4ull * (index - table->first_symbol + (uint64_t)seen);
		if (seen % CHUNK_HASHES == 0) {
			size_t left = at < table->end ? (size_t)(table->end - at) / 4 : 0;
			memset(chunk, 0xff, sizeof(chunk)); /* an end */
			if (left == 0 ||
			    elf_file_read(file, at, chunk, (left < CHUNK_HASHES ? left : CHUNK_HASHES) * 4, NULL) < 0)
				return;
		}
		uint32_t other = chunk[seen % CHUNK_HASHES];
		if ((other | 1) == (hash | 1) && take_indexed(file, symbols, (uint64_t)index + seen, wanted))
			return;
		if (other & 1)
			return;
	}
}

static int search_table(struct elf_file *file, const struct elf_section *table, uint64_t max, struct elf_named *wanted,
			size_t count, struct error *err)
{
	size_t entry = file->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	uint64_t symbols = table->size / entry;
	struct bytes strings;

	if (table->link >= file->section_count || table->size > max)
		return 0;
	int r = elf_file_read_section(file, &file->sections[table->link], max, &strings, err);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	_cleanup_(mem_freep) uint8_t *owned = (uint8_t *)strings.data;
	_cleanup_(mem_freep) uint8_t *chunk = mem_alloc_array(CHUNK_SYMBOLS, entry);
	if (!chunk)
		return error_nomem(err);
	for (uint64_t at = 0; at < symbols && count_missing(wanted, count); at += CHUNK_SYMBOLS) {
		size_t some = symbols - at < CHUNK_SYMBOLS ? (size_t)(symbols - at) : CHUNK_SYMBOLS;
		if (elf_file_read(file, table->offset + at * entry, chunk, some * entry, NULL) < 0)
			break;
		for (size_t i = 0; i < some; i++) {
			Elf64_Sym symbol;
			elf_symbol_convert(file, chunk + i * entry, &symbol);
			take_symbol(&symbol, strings, wanted, count);
		}
	}
	return 0;
}

static int find(struct elf_file *file, uint64_t dynsym_max, uint64_t symtab_max, struct elf_named *wanted, size_t count,
		struct error *err)
{
	const struct {
		uint32_t type;
		uint64_t max;
	} tables[] = {{SHT_DYNSYM, dynsym_max}, {SHT_SYMTAB, symtab_max}};
	int r = elf_file_load_sections(file, err);

	for (size_t i = 0; i < count; i++)
		wanted[i].address = wanted[i].size = 0;
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]) && r == 0 && count_missing(wanted, count); i++) {
		const struct elf_section *table = elf_file_find_section_type(file, tables[i].type);
		struct name_hash hash;
		if (table && tables[i].type == SHT_DYNSYM && table->link < file->section_count && read_name_hash(file, &hash))
			for (size_t k = 0; k < count; k++)
				search_hash(file, table, &hash, &wanted[k]);
		else if (table)
			r = search_table(file, table, tables[i].max, wanted, count, err);
	}
	return r < 0 ? r : (int)(count - count_missing(wanted, count));
}

int elf_named_find(struct elf_file *file, struct elf_named *wanted, size_t count, struct error *err)
{
	return find(file, DYNSYM_BYTES_MAX, SYMTAB_BYTES_MAX, wanted, count, err);
}

int elf_named_find_large(struct elf_file *file, struct elf_named *wanted, size_t count, struct error *err)
{
	return find(file, LARGE_BYTES_MAX, LARGE_BYTES_MAX, wanted, count, err);
}
