/* SPDX-License-Identifier: Apache-2.0 */
/* Extracts of this test program, which has debug information, symbols and a linkage table, and of small files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/map.h"
#include "elf/build_id.h"
#include "elf/elf_symbols_int.h"
#include "elf/extract.h"
#include "elf/test_elf.h"
#include "elf/test_pclntab.h"

#define RUN_BYTES 16

struct pair {
	struct elf_file original, extract;
	struct elf_extract_result result;
	int original_fd, extract_fd;
};

static void open_pair(struct pair *pair)
{
	*pair = (struct pair){.original_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
			      .extract_fd = memfd_create("extract", MFD_CLOEXEC)};
	struct error err = {0};
	assert_int_equal(elf_file_open(&pair->original, pair->original_fd, "self", &err), 0);
	int r = elf_extract(&pair->original, pair->extract_fd, NULL, &pair->result, &err);
	assert_string_equal(err.message, "");
	assert_int_equal(r, 0);
	assert_int_equal(elf_file_open(&pair->extract, pair->extract_fd, "extract", &err), 0);
	assert_int_equal(elf_file_load_sections(&pair->extract, &err), 0);
}

static void close_pair(struct pair *pair)
{
	elf_file_release(&pair->original);
	elf_file_release(&pair->extract);
	close(pair->original_fd);
	close(pair->extract_fd);
}

static struct bytes read_section(struct elf_file *file, const struct elf_section *section)
{
	uint8_t *data = NULL;
	assert_int_equal(elf_file_read_range(file, section->offset, section->size, 1 * GIB, "section", &data, NULL), 0);
	return (struct bytes){data, (size_t)section->size};
}

static void test_sections_and_segments(void **state)
{
	struct pair pair;
	open_pair(&pair);
	struct elf_file *a = &pair.original, *b = &pair.extract;
	assert_int_equal(b->size, pair.result.bytes);
	assert_int_equal(b->section_count, a->section_count + 1);
	for (size_t i = 1; i < a->section_count; i++) {
		const struct elf_section *x = &a->sections[i], *y = &b->sections[i];
		assert_string_equal(x->name, y->name);
		assert_int_equal(x->link, y->link);
		assert_int_equal(x->info, y->info);
		assert_int_equal(x->address, y->address);
		if (x->type != y->type) {
			assert_int_equal(y->type, SHT_NOBITS);
			continue;
		}
		if (x->type == SHT_NOBITS || i == a->section_names_index)
			continue;
		struct bytes p = read_section(a, x), q = read_section(b, y);
		assert_true(bytes_equal(p, q));
		mem_free((void *)p.data);
		mem_free((void *)q.data);
	}
	static const char *const kept[] = {".symtab",	  ".strtab",	".dynsym",	 ".debug_info",
					   ".debug_line", ".debug_str", ".debug_abbrev", ".note.gnu.build-id"};
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		assert_true(elf_file_find_section(b, kept[i])->type != SHT_NOBITS);
	static const char *const dropped[] = {".text", ".rodata", ".data", ".eh_frame", ".plt", ".rela.dyn", ".dynamic"};
	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		assert_true(elf_file_find_section(b, dropped[i])->type == SHT_NOBITS);
	assert_int_equal(a->segment_count, b->segment_count);
	for (size_t i = 0; i < a->segment_count; i++) {
		assert_int_equal(a->segments[i].type, b->segments[i].type);
		assert_int_equal(a->segments[i].address, b->segments[i].address);
		if (a->segments[i].type == PT_LOAD)
			assert_memory_equal(&a->segments[i], &b->segments[i], sizeof(a->segments[i]));
	}
	char mark[5], id[BUILD_ID_HEX_MAX], other_id[BUILD_ID_HEX_MAX];
	assert_int_equal(pread(pair.extract_fd, mark, 5, EXTRACT_MARK_OFFSET), 5);
	assert_memory_equal(mark, EXTRACT_MARK, 5);
	assert_int_equal(build_id_read(a, id, NULL), 0);
	assert_int_equal(build_id_read(b, other_id, NULL), 0);
	assert_string_equal(id, other_id);
	close_pair(&pair);
}

static void test_symbols_are_the_same(void **state)
{
	struct pair pair;
	open_pair(&pair);
	struct elf_symbols a, b;
	elf_symbols_init(&a);
	elf_symbols_init(&b);
	assert_int_equal(elf_symbols_add_file(&a, &pair.original, NULL), 0);
	assert_int_equal(elf_symbols_add_file(&b, &pair.extract, NULL), 0);
	assert_int_equal(a.count, b.count);
	bool stub_seen = false;
	for (size_t i = 0; i < a.count; i++) {
		assert_int_equal(a.items[i].address, b.items[i].address);
		assert_int_equal(a.items[i].size, b.items[i].size);
		assert_string_equal(a.items[i].name, b.items[i].name);
		stub_seen |= strcmp(a.items[i].name, "memfd_create@plt") == 0;
	}
	assert_true(stub_seen);
	elf_symbols_release(&a);
	elf_symbols_release(&b);
	close_pair(&pair);
}

/* ---- no byte of code or data ---- */

/* Zeros, fills and tables of one number are in every file. */
static bool is_plain(const uint8_t *run)
{
	unsigned distinct = 0;
	for (unsigned i = 0; i < RUN_BYTES; i++)
		distinct += !memchr(run, run[i], i);
	return distinct < 6;
}

static void add_runs(struct map64 *runs, struct bytes data, uint64_t value)
{
	for (size_t i = 0; i + RUN_BYTES <= data.len; i++)
		if (!is_plain(data.data + i))
			assert_int_equal(map64_put(runs, hash64(data.data + i, RUN_BYTES), value), 0);
}

static void test_no_code_and_no_data(void **state)
{
	struct pair pair;
	open_pair(&pair);
	struct map64 runs = {0};
	/* 1: in what is not kept; then 2: in what is. */
	for (int pass = 1; pass <= 2; pass++) {
		for (size_t i = 1; i < pair.original.section_count; i++) {
			const struct elf_section *s = &pair.original.sections[i];
			bool is_kept = pair.extract.sections[i].type != SHT_NOBITS;
			if (s->type == SHT_NOBITS || is_kept != (pass == 2) || !(is_kept || (s->flags & SHF_ALLOC)))
				continue;
			struct bytes data = read_section(&pair.original, s);
			if (pass == 1)
				add_runs(&runs, data, 1);
			uint64_t value;
			for (size_t k = 0; pass == 2 && k + RUN_BYTES <= data.len; k++) {
				uint64_t hash = hash64(data.data + k, RUN_BYTES);
				if (map64_get(&runs, hash, &value))
					assert_int_equal(map64_put(&runs, hash, 2), 0);
			}
			mem_free((void *)data.data);
		}
	}
	assert_true(runs.count > 10000);
	struct bytes all = read_section(&pair.extract, &(struct elf_section){.size = pair.extract.size});
	/* The names of added sections are string literals of this program. */
	const struct elf_section *names = &pair.extract.sections[pair.extract.section_names_index];
	for (size_t i = 0; i + RUN_BYTES <= all.len; i++) {
		uint64_t value;
		if (i + RUN_BYTES > names->offset && i < names->offset + names->size)
			continue;
		if (map64_get(&runs, hash64(all.data + i, RUN_BYTES), &value))
			assert_int_equal(value, 2);
	}
	mem_free((void *)all.data);
	map64_release(&runs);
	close_pair(&pair);
}

/* ---- small files ---- */

static const struct test_symbol symbols[] = {{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL}};
static const struct test_elf good = {symbols, 1};

static int extract_bytes(struct bytes bytes, uint64_t bytes_max, struct elf_extract_result *result, struct error *err)
{
	struct elf_file file;
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	int fd = memfd_create("extract", MFD_CLOEXEC);
	r = elf_extract(&file, fd, &(struct elf_extract_options){.bytes_max = bytes_max}, result, err);
	elf_file_release(&file);
	close(fd);
	return r;
}

static void test_limits(void **state)
{
	struct buffer b;
	struct elf_extract_result result;
	struct error err = {0};
	test_elf_build(&good, &b);
	assert_int_equal(extract_bytes(buffer_bytes(&b), 0, &result, &err), 0);
	assert_true(result.has_symtab && !result.has_debug && !result.has_pclntab);
	assert_int_equal(result.kept, 4);
	assert_int_equal(result.dropped, 2); /* .text and .rodata */
	assert_int_equal(extract_bytes(buffer_bytes(&b), result.bytes, &result, &err), 0);
	assert_int_equal(extract_bytes(buffer_bytes(&b), result.bytes - 1, &result, &err), -E2BIG);
	/* Nothing to keep: the symbol table becomes data. */
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	Elf64_Shdr *sections = (Elf64_Shdr *)(b.data + header->e_shoff);
	sections[2].sh_type = SHT_PROGBITS;
	assert_int_equal(extract_bytes(buffer_bytes(&b), 0, &result, &err), -ENOENT);
	header->e_shnum = 0;
	header->e_shoff = 0;
	assert_int_equal(extract_bytes(buffer_bytes(&b), 0, &result, &err), -ENOENT);
	buffer_release(&b);
	/* Sections that overlap: many times the file. */
	test_elf_build(&good, &b);
	header = (Elf64_Ehdr *)b.data;
	sections = (Elf64_Shdr *)(b.data + header->e_shoff);
	test_elf_pad(&b, b.len + 1024 * 1024 - 4096);
	sections = (Elf64_Shdr *)(b.data + header->e_shoff);
	for (size_t i = 2; i < 6; i++) {
		sections[i].sh_offset = 0;
		sections[i].sh_size = b.len;
	}
	assert_int_equal(extract_bytes(buffer_bytes(&b), 0, &result, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "overlap"));
	buffer_release(&b);
}

/* ---- relocations ---- */

/* Are the relocations of .debug_info in the extract of a file of this type? */
static bool keeps_relocations(uint16_t type)
{
	static const char names[] = "\0.debug_info\0.rela.debug_info";
	struct buffer b;
	test_elf_build(&good, &b);
	Elf64_Shdr old[6], info = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 24};
	Elf64_Shdr relocations = {.sh_name = 13, .sh_type = SHT_RELA, .sh_offset = 64, .sh_size = 24, .sh_info = 6};
	memcpy(old, b.data + ((Elf64_Ehdr *)b.data)->e_shoff, sizeof(old));
	for (size_t i = 0; i < 6; i++)
		old[i].sh_name = 0;
	old[4].sh_offset = b.len;
	old[4].sh_size = sizeof(names);
	test_elf_put(&b, names, sizeof(names));
	size_t sections_at = b.len;
	test_elf_put(&b, old, sizeof(old));
	test_elf_put(&b, &info, sizeof(info));
	test_elf_put(&b, &relocations, sizeof(relocations));
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	header->e_type = type;
	header->e_shoff = sections_at;
	header->e_shnum = 8;
	struct elf_file file, copy;
	struct elf_extract_result result;
	int fd = memfd_create("extract", MFD_CLOEXEC);
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", NULL), 0);
	assert_int_equal(elf_extract(&file, fd, NULL, &result, NULL), 0);
	assert_int_equal(elf_file_open(&copy, fd, "extract", NULL), 0);
	assert_int_equal(elf_file_load_sections(&copy, NULL), 0);
	assert_non_null(elf_file_find_contents(&copy, ".debug_info"));
	bool kept = elf_file_find_contents(&copy, ".rela.debug_info");
	elf_file_release(&copy);
	elf_file_release(&file);
	close(fd);
	buffer_release(&b);
	return kept;
}

static void test_relocations(void **state)
{
	assert_true(keeps_relocations(ET_REL));
	assert_false(keeps_relocations(ET_EXEC));
	assert_false(keeps_relocations(ET_DYN));
}

/* ---- linkage tables that cost more than they are ---- */

/* A file with sections .plt: the first and the last have a stub, those between are large holes; all may lie anywhere. Returns
 * the number of stubs that its extract notes. */
static uint32_t noted_stubs(size_t section_count, uint64_t hole)
{
	static const uint8_t stub[16] = {0xff, 0x25, 0xfa, 0x0f, 0, 0}; /* jmp *0xffa(%rip): 0x1000 behind its start */
	const Elf64_Rela relocation = {0x402000, ELF64_R_INFO(1, R_X86_64_JUMP_SLOT), 0};
	struct buffer b;
	test_elf_build(&good, &b);
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	Elf64_Shdr old[6];
	memcpy(old, b.data + header->e_shoff, sizeof(old));
	memcpy(b.data + old[4].sh_offset, "\0.plt\0", 7); /* instead of .text */
	size_t stub_at = b.len, relocation_at = b.len + 16, sections_at = relocation_at + sizeof(relocation);
	test_elf_put(&b, stub, sizeof(stub));
	test_elf_put(&b, &relocation, sizeof(relocation));
	old[1] = (Elf64_Shdr){.sh_type = SHT_RELA, .sh_flags = SHF_ALLOC};
	old[1].sh_offset = relocation_at;
	old[1].sh_size = sizeof(relocation);
	test_elf_put(&b, old, sizeof(old));
	for (size_t i = 0; i < section_count; i++) {
		bool has_stub = i == 0 || i == section_count - 1;
		Elf64_Shdr section = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR};
		section.sh_addr = 0x401000;
		section.sh_offset = has_stub ? stub_at : MIB;
		section.sh_size = has_stub ? sizeof(stub) : hole;
		test_elf_put(&b, &section, sizeof(section));
	}
	header = (Elf64_Ehdr *)b.data;
	header->e_shoff = sections_at;
	header->e_shnum = (uint16_t)(6 + section_count);
	int fd = test_elf_file(buffer_bytes(&b)), out = memfd_create("extract", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, (off_t)(MIB + hole)), 0);
	struct elf_file file, copy;
	struct elf_extract_result result;
	uint32_t count = 0;
	assert_int_equal(elf_file_open(&file, fd, "test", NULL), 0);
	assert_int_equal(elf_extract(&file, out, NULL, &result, NULL), 0);
	assert_int_equal(elf_file_open(&copy, out, "extract", NULL), 0);
	assert_int_equal(elf_file_load_sections(&copy, NULL), 0);
	const struct elf_section *notes = elf_file_find_section(&copy, ELF_PLT_SECTION);
	if (notes)
		assert_int_equal(elf_file_read(&copy, notes->offset + 4, &count, sizeof(count), NULL), 0);
	elf_file_release(&copy);
	elf_file_release(&file);
	close(out);
	close(fd);
	buffer_release(&b);
	return count;
}

static void test_overlapping_linkage_tables(void **state)
{
	assert_int_equal(noted_stubs(1, 0), 1);
	assert_int_equal(noted_stubs(4, MIB + 1), 2);
	assert_int_equal(noted_stubs(40, 16), 1);     /* more sections than linkers make */
	assert_int_equal(noted_stubs(4, 9 * MIB), 0); /* more code than they make */
}

/* ---- Go programs that cost more than they are ---- */

/* Extracts a file and reads the notes of its inlined calls: whether there are any, and of how many functions. */
static bool extract_go(struct bytes bytes, uint64_t memory_max, uint32_t *ret_functions, uint64_t *ret_bytes)
{
	struct elf_file file, copy;
	struct elf_extract_result result;
	struct elf_extract_options options = {.memory_max = memory_max};
	int fd = memfd_create("extract", MFD_CLOEXEC);
	assert_int_equal(elf_file_open_memory(&file, bytes, "test", NULL), 0);
	assert_int_equal(elf_extract(&file, fd, &options, &result, NULL), 0);
	assert_true(result.has_pclntab);
	elf_file_release(&file);
	assert_int_equal(elf_file_open(&copy, fd, "extract", NULL), 0);
	assert_int_equal(elf_file_load_sections(&copy, NULL), 0);
	const struct elf_section *notes = elf_file_find_section(&copy, PCLNTAB_INLINE_SECTION);
	bool has_notes = notes != NULL;
	*ret_bytes = has_notes ? notes->size : 0;
	if (has_notes)
		assert_int_equal(elf_file_read(&copy, notes->offset + 4, ret_functions, sizeof(*ret_functions), NULL), 0);
	elf_file_release(&copy);
	close(fd);
	return has_notes;
}

static void test_memory_limit(void **state)
{
	struct buffer b;
	uint32_t functions;
	uint64_t bytes;
	test_go_build(&(struct test_go){.layout = PCLNTAB_1_20}, &b);
	Elf64_Shdr *sections = (Elf64_Shdr *)(b.data + ((Elf64_Ehdr *)b.data)->e_shoff);
	uint64_t table_bytes = sections[3].sh_size;
	assert_true(extract_go(buffer_bytes(&b), table_bytes, &functions, &bytes));
	assert_int_equal(functions, 1);
	assert_false(extract_go(buffer_bytes(&b), table_bytes - 1, &functions, &bytes));
	buffer_release(&b);
}

#define MANY_FUNCTIONS 8
#define MANY_CALLS     (1u << 15)

/* A program of functions that share one record, whose pc table says a large number of inlined calls. */
static void build_sharing_functions(struct buffer *b)
{
	static const int32_t last_call[] = {MANY_CALLS - 1, 4};
	struct buffer tables = {.max = 64};
	test_go_table(&tables, last_call, 1);
	test_go_build(&(struct test_go){.layout = PCLNTAB_1_20}, b);
	b->max = 4 * MIB;
	size_t table_at = (b->len + 7) & ~(size_t)7, names_at = 72, units_at = 80, files_at = 88, pcs_at = 96,
	       functions_at = 112;
	size_t record_at = functions_at + (MANY_FUNCTIONS + 1) * 8;
	test_elf_pad(b, table_at);
	test_go_header(&(struct test_go){.layout = PCLNTAB_1_20}, b);
	memcpy(b->data + table_at + 8, &(uint64_t){MANY_FUNCTIONS}, 8);
	const uint64_t words[] = {1, TEST_GO_TEXT, names_at, units_at, files_at, pcs_at, functions_at};
	test_elf_put(b, words, sizeof(words));
	test_elf_put(b, "\0one", 5);
	test_elf_pad(b, table_at + pcs_at + 1);
	test_elf_put(b, tables.data, tables.len);
	test_elf_pad(b, table_at + functions_at);
	for (uint32_t i = 0; i <= MANY_FUNCTIONS; i++) {
		test_go_u32(b, i * 4);
		if (i < MANY_FUNCTIONS)
			test_go_u32(b, record_at - functions_at);
	}
	test_elf_pad(b, table_at + record_at);
	const uint32_t record[] = {0, 1, 0, 0, 0, 0, 0, 3, 0, 1, 4u << 24, 0, 0, 1, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0x20};
	test_elf_put(b, record, sizeof(record));
	size_t table_end = b->len;
	test_elf_pad(b, 0x220 + (size_t)MANY_CALLS * 16);
	memcpy(b->data + 0x224, &(uint32_t){1}, 4); /* the name of the first call, which is looked at */
	Elf64_Ehdr *header = (Elf64_Ehdr *)b->data;
	Elf64_Shdr *sections = (Elf64_Shdr *)(b->data + header->e_shoff);
	Elf64_Phdr *segments = (Elf64_Phdr *)(b->data + header->e_phoff);
	uint64_t address = TEST_GO_RODATA + (table_at - 0x200);
	segments[1].p_filesz = segments[1].p_memsz = b->len - 0x200;
	segments[2].p_vaddr += 1 << 24;
	uint64_t module[] = {address, address + names_at};
	memcpy(b->data + sections[4].sh_offset + 0x18, module, sizeof(module));
	sections[3].sh_addr = address;
	sections[3].sh_offset = table_at;
	sections[3].sh_size = table_end - table_at;
	buffer_release(&tables);
}

/* Calls are noted up to a multiple of the table, which is a few hundred bytes here, not for each function that shares them. */
static void test_functions_that_share_calls(void **state)
{
	struct buffer b;
	uint32_t functions;
	uint64_t bytes;
	build_sharing_functions(&b);
	assert_true(extract_go(buffer_bytes(&b), 0, &functions, &bytes));
	assert_int_equal(functions, 2);
	assert_int_equal(bytes, 16 + 2 * (8 + 12 * (uint64_t)MANY_CALLS));
	/* And up to a part of what may be held. */
	assert_true(extract_go(buffer_bytes(&b), 2 * MIB, &functions, &bytes));
	assert_int_equal(functions, 1);
	buffer_release(&b);
}

static void test_every_truncation_and_bit_flip(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	for (size_t i = 0; i < b.len * 9; i++) {
		struct elf_extract_result result;
		struct error err = {0};
		size_t len = i < b.len ? i : b.len;
		if (i >= b.len)
			b.data[(i - b.len) / 8] ^= (uint8_t)(1u << (i - b.len) % 8);
		int r = extract_bytes((struct bytes){b.data, len}, 8 * MIB, &result, &err);
		assert_true(r == 0 || err.message[0] != 0);
		assert_true(i >= b.len || r < 0);
		if (i >= b.len)
			b.data[(i - b.len) / 8] ^= (uint8_t)(1u << (i - b.len) % 8);
	}
	buffer_release(&b);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ, FAULT_WRITE};
	static const int codes[] = {-ENOMEM, -EIO, -EIO};
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	for (size_t kind = 0; kind < 3; kind++) {
		for (uint64_t n = 1;; n++) {
			int out = memfd_create("extract", MFD_CLOEXEC);
			struct elf_file file;
			struct elf_extract_result result;
			struct error err = {0};
			fault_arm(kinds[kind], n, 0);
			int r = elf_file_open(&file, fd, "self", &err);
			if (r == 0) {
				r = elf_extract(&file, out, NULL, &result, &err);
				elf_file_release(&file);
			}
			bool reached = fault_disarm(kinds[kind]);
			close(out);
			if (!reached) {
				assert_int_equal(r, 0);
				assert_true(n > 5);
				break;
			}
			assert_true(r == codes[kind] || (kind == 2 && r == -ENOSPC));
			assert_true(err.message[0] != 0);
		}
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sections_and_segments),
		cmocka_unit_test(test_symbols_are_the_same),
		cmocka_unit_test(test_no_code_and_no_data),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_relocations),
		cmocka_unit_test(test_overlapping_linkage_tables),
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_functions_that_share_calls),
		cmocka_unit_test(test_every_truncation_and_bit_flip),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
