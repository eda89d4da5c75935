/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "elf/build_id.h"
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"

static const struct test_symbol symbols[] = {
	{"alpha", 0x10, 0x20, STT_FUNC, STB_GLOBAL},
	{"beta@@V_2", 0x40, 0x20, STT_FUNC, STB_LOCAL},
	{"resolver", 0x60, 0x10, STT_GNU_IFUNC, STB_GLOBAL},
	{"label", 0x80, 0, STT_NOTYPE, STB_LOCAL},
	{"$x", 0x90, 0, STT_NOTYPE, STB_LOCAL}, /* no mapping symbol but on ARM and RISC-V */
	{".Llocal", 0x94, 0, STT_NOTYPE, STB_LOCAL},
	{"object", 0xa0, 8, STT_OBJECT, STB_GLOBAL},
	{"undefined", 0xb0, 8, STT_FUNC, STB_GLOBAL, 0xfff0},
	{"outside", TEST_ELF_TEXT_SIZE + 8, 8, STT_FUNC, STB_GLOBAL},
	{"label_in_data", 0xc0, 0, STT_NOTYPE, STB_LOCAL, 3},
	{"too_long", 0x3f0, 0x1000, STT_FUNC, STB_GLOBAL},
	{"", 0x3f8, 8, STT_FUNC, STB_GLOBAL},
};
static const struct test_elf good = {symbols, sizeof(symbols) / sizeof(symbols[0]), .version = "V_2"};

/* Everything that can be asked of a file. Returns the first error. */
static int read_all(struct bytes bytes, int fd, size_t *ret_symbols, struct error *err)
{
	struct elf_file file;
	int r = fd >= 0 ? elf_file_open(&file, fd, "test", err) : elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	char id[BUILD_ID_HEX_MAX];
	struct elf_symbols list;
	elf_symbols_init(&list);
	r = build_id_read(&file, id, err);
	if (r == 0 || r == -ENOENT)
		r = elf_symbols_add_file(&list, &file, err);
	*ret_symbols = list.count;
	elf_symbols_release(&list);
	elf_file_release(&file);
	return r;
}

/* To be released, both. */
static void open_symbols(const struct buffer *image, struct elf_file *ret_file, struct elf_symbols *ret_list)
{
	elf_symbols_init(ret_list);
	assert_int_equal(elf_file_open_memory(ret_file, buffer_bytes(image), "test", NULL), 0);
	assert_int_equal(elf_symbols_add_file(ret_list, ret_file, NULL), 0);
}

static void test_reads_headers_and_sections(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	struct elf_file file;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", NULL), 0);
	assert_true(file.is_64);
	assert_int_equal(file.type, ET_DYN);
	assert_int_equal(file.segment_count, 2);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	assert_int_equal(file.section_count, 8);
	assert_non_null(elf_file_find_section(&file, ".text"));
	assert_null(elf_file_find_section(&file, ".data"));
	assert_ptr_equal(elf_file_find_section_type(&file, SHT_SYMTAB), elf_file_find_section(&file, ".symtab"));
	uint64_t address;
	assert_true(elf_file_offset_to_address(&file, TEST_ELF_TEXT_OFFSET + 0x23, &address));
	assert_int_equal(address, TEST_ELF_TEXT_ADDRESS + 0x23);
	assert_false(elf_file_offset_to_address(&file, TEST_ELF_TEXT_OFFSET - 1, &address));
	assert_false(elf_file_offset_to_address(&file, TEST_ELF_TEXT_OFFSET + TEST_ELF_TEXT_SIZE, &address));
	elf_file_release(&file);
	buffer_release(&b);
}

static void test_reads_function_symbols_only(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	struct elf_file file;
	struct elf_symbols list;
	open_symbols(&b, &file, &list);
	static const char *const names[] = {"alpha", "beta", "resolver", "label", "$x", "too_long"};
	assert_int_equal(list.count, 6);
	assert_true(list.has_symtab);
	for (size_t i = 0; i < list.count; i++) {
		assert_string_equal(list.items[i].name, names[i]);
		assert_int_equal(list.items[i].name_len, strlen(names[i]));
	}
	assert_int_equal(list.items[0].address, TEST_ELF_TEXT_ADDRESS + 0x10);
	assert_int_equal(list.items[0].size, 0x20);
	/* Without a size: to the end of the section. Too long: cut there. */
	assert_true(list.items[3].is_unsized);
	assert_int_equal(list.items[3].size, TEST_ELF_TEXT_SIZE - 0x80);
	assert_int_equal(list.items[5].size, 0x10);
	elf_symbols_release(&list);
	elf_file_release(&file);
	buffer_release(&b);
}

/* Checks the names that a file's symbols get, one after the other. */
static void check_names(const struct test_elf *elf, const char *const *names, size_t count)
{
	struct buffer b;
	test_elf_build(elf, &b);
	struct elf_file file;
	struct elf_symbols list;
	open_symbols(&b, &file, &list);
	assert_int_equal(list.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(list.items[i].name, names[i]);
		assert_int_equal(list.items[i].name_len, strlen(names[i]));
	}
	elf_symbols_release(&list);
	elf_file_release(&file);
	buffer_release(&b);
}

static void test_leaves_out_mapping_symbols_only(void **state)
{
	static const struct test_symbol dollars[] = {
		{"$s4main3fooyyF", 0x10, 8, STT_FUNC, STB_GLOBAL},
		{"$x", 0x20, 0, STT_NOTYPE, STB_LOCAL},
		{"$d.12", 0x30, 0, STT_NOTYPE, STB_LOCAL},
		{"$a", 0x40, 0, STT_NOTYPE, STB_LOCAL},
		{"$t.0", 0x50, 0, STT_NOTYPE, STB_LOCAL},
		{"$xrv64i2p1_m2p0", 0x60, 0, STT_NOTYPE, STB_LOCAL},
		{"$exit", 0x70, 0, STT_NOTYPE, STB_LOCAL},
		{"$d0", 0x80, 0, STT_NOTYPE, STB_LOCAL},
		{"$", 0x90, 0, STT_NOTYPE, STB_LOCAL},
	};
	static const struct {
		uint16_t machine;
		const char *names[9];
		size_t count;
	} cases[] = {
		{EM_X86_64, {"$s4main3fooyyF", "$x", "$d.12", "$a", "$t.0", "$xrv64i2p1_m2p0", "$exit", "$d0", "$"}, 9},
		{EM_ARM, {"$s4main3fooyyF", "$x", "$xrv64i2p1_m2p0", "$exit", "$d0", "$"}, 6},
		{EM_AARCH64, {"$s4main3fooyyF", "$a", "$t.0", "$xrv64i2p1_m2p0", "$exit", "$d0", "$"}, 7},
		{EM_RISCV, {"$s4main3fooyyF", "$a", "$t.0", "$exit", "$d0", "$"}, 6},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct test_elf elf = {dollars, sizeof(dollars) / sizeof(dollars[0]), .machine = cases[i].machine};
		check_names(&elf, cases[i].names, cases[i].count);
	}
}

/* A '@' ends a name only where a version of this file follows. */
static void test_cuts_versions_only(void **state)
{
	static const struct test_symbol ats[] = {
		{"plain", 0x10, 8, STT_FUNC, STB_GLOBAL},	    {"*Int32@Object#hash", 0x20, 8, STT_FUNC, STB_GLOBAL},
		{"method@safe", 0x30, 8, STT_FUNC, STB_GLOBAL},	    {"memcpy@@V_2", 0x40, 8, STT_FUNC, STB_GLOBAL},
		{"method@safe@V_2", 0x50, 8, STT_FUNC, STB_GLOBAL}, {"@V_2", 0x60, 8, STT_FUNC, STB_GLOBAL},
		{"trailing@", 0x70, 8, STT_FUNC, STB_GLOBAL},	    {"other@V_3", 0x80, 8, STT_FUNC, STB_GLOBAL},
	};
	static const char *const none[] = {"plain", "*Int32@Object#hash", "method@safe", "memcpy@@V_2", "method@safe@V_2",
					   "@V_2",  "trailing@",	  "other@V_3"};
	static const char *const known[] = {"plain", "*Int32@Object#hash", "method@safe", "memcpy", "method@safe",
					    "@V_2",  "trailing@",	   "other@V_3"};
	/* What its names are cannot be read: what looks like a version is one. */
	static const char *const unknown[] = {"plain", "*Int32@Object#hash", "method", "memcpy", "method@safe",
					      "@V_2",  "trailing@",	     "other"};
	struct test_elf elf = {ats, 8};
	check_names(&elf, none, 8);
	elf.version = "V_2";
	check_names(&elf, known, 8);
	elf.version_is_absent = true;
	check_names(&elf, unknown, 8);
}

static void test_stripped_file_has_exported_names(void **state)
{
	struct test_elf stripped = good;
	stripped.stripped = true;
	struct buffer b;
	test_elf_build(&stripped, &b);
	struct elf_file file;
	struct elf_symbols list;
	open_symbols(&b, &file, &list);
	assert_int_equal(list.count, 6);
	assert_false(list.has_symtab);
	elf_symbols_release(&list);
	elf_file_release(&file);
	buffer_release(&b);
}

static void test_refuses_what_is_no_elf_file(void **state)
{
	struct elf_file file;
	struct error err;
	assert_int_equal(elf_file_open_memory(&file, bytes_of_string(""), "empty", &err), -ENOEXEC);
	assert_int_equal(elf_file_open_memory(&file, bytes_of_string("#!/bin/sh\nexit 0\n"), "script", &err), -ENOEXEC);
	assert_non_null(strstr(err.message, "script"));
	struct buffer b;
	test_elf_build(&good, &b);
	b.data[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "big", &err), -ENOTSUP);
	b.data[EI_DATA] = ELFDATA2LSB;
	b.data[EI_CLASS] = 7;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "class", &err), -EBADMSG);
	buffer_release(&b);
}

static void test_refuses_what_is_no_regular_file(void **state)
{
	struct elf_file file;
	struct error err;
	int pipe_fds[2];
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(elf_file_open(&file, pipe_fds[0], "pipe", &err), -EINVAL);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	int dir = open("/", O_RDONLY | O_DIRECTORY);
	assert_int_equal(elf_file_open(&file, dir, "directory", &err), -EINVAL);
	close(dir);
}

static void test_limits(void **state)
{
	struct buffer b;
	struct elf_file file;
	struct error err;
	test_elf_build(&good, &b);
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	header->e_phnum = 5000;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), -E2BIG);
	header->e_phnum = 2;
	header->e_phentsize = 8;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), -EBADMSG);
	header->e_phentsize = sizeof(Elf64_Phdr);
	/* More sections than fit 16 bits are in section 0. */
	Elf64_Shdr *sections = (Elf64_Shdr *)(b.data + header->e_shoff);
	header->e_shnum = 0;
	sections[0].sh_size = 1ull << 40;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), -E2BIG);
	sections[0].sh_size = 6;
	header->e_shstrndx = SHN_XINDEX;
	sections[0].sh_link = 4;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), 0);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	assert_non_null(elf_file_find_section(&file, ".symtab"));
	elf_file_release(&file);
	/* Sizes that no file has. */
	size_t count;
	sections[2].sh_size = 1ull << 60;
	assert_int_equal(read_all(buffer_bytes(&b), -1, &count, &err), -E2BIG);
	sections[2].sh_size = 24 * 1000;
	assert_int_equal(read_all(buffer_bytes(&b), -1, &count, &err), -EBADMSG);
	sections[3].sh_size = 1ull << 60;
	assert_int_equal(read_all(buffer_bytes(&b), -1, &count, &err), -EBADMSG);
	assert_true(err.message[0] != 0);
	buffer_release(&b);
}

/* Entries larger than what is read of them would make tables of 65,535 times that: gigabytes, out of a sparse file. */
static void test_size_of_header_entries(void **state)
{
	struct buffer b;
	struct elf_file file;
	struct error err = {0};
	test_elf_build(&good, &b);
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	uint16_t *const sizes[] = {&header->e_phentsize, &header->e_shentsize};
	for (size_t i = 0; i < 2; i++) {
		uint16_t right = *sizes[i];
		*sizes[i] = (uint16_t)(right + 8);
		assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), -EBADMSG);
		assert_non_null(strstr(err.message, i == 0 ? "program headers of 64 bytes" : "section headers of 72 bytes"));
		*sizes[i] = right;
	}
	/* Tables that are not there have no entries whose size could be wrong. */
	header->e_phentsize = header->e_shentsize = 0;
	header->e_phnum = header->e_shnum = 0;
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "test", &err), 0);
	assert_int_equal(elf_file_load_sections(&file, &err), 0);
	elf_file_release(&file);
	buffer_release(&b);
}

static void test_every_truncation(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	for (size_t len = 0; len < b.len; len++) {
		/* A block of its own, so that the sanitizer sees every byte that is read too much. */
		uint8_t *copy = mem_alloc(len);
		memcpy(copy, b.data, len);
		size_t count;
		struct error err = {0};
		int r = read_all((struct bytes){copy, len}, -1, &count, &err);
		assert_true(r < 0);
		assert_true(err.message[0] != 0);
		mem_free(copy);
	}
	buffer_release(&b);
}

static void test_every_bit_flip(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	for (size_t bit = 0; bit < b.len * 8; bit++) {
		if (bit / 8 >= TEST_ELF_TEXT_OFFSET && bit / 8 < TEST_ELF_TEXT_OFFSET + TEST_ELF_TEXT_SIZE)
			continue;
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		size_t count;
		struct error err = {0};
		int r = read_all(buffer_bytes(&b), -1, &count, &err);
		assert_true(r == 0 || err.message[0] != 0);
		assert_true(r < 0 || count <= 12);
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	buffer_release(&b);
}

/* A file that shrinks between the headers and the symbols: an error, not a signal. */
static void test_file_that_shrinks(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	struct elf_file file;
	struct elf_symbols list;
	struct error err;
	elf_symbols_init(&list);
	assert_int_equal(elf_file_open(&file, fd, "shrinking", &err), 0);
	assert_int_equal(elf_file_load_sections(&file, &err), 0);
	assert_int_equal(ftruncate(fd, 0x600), 0);
	assert_int_equal(elf_symbols_add_file(&list, &file, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "truncated"));
	elf_symbols_release(&list);
	elf_file_release(&file);
	close(fd);
	buffer_release(&b);
}

static void test_faults(void **state)
{
	struct buffer b;
	test_elf_build(&good, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ};
	static const int codes[] = {-ENOMEM, -EIO};
	for (size_t kind = 0; kind < 2; kind++) {
		for (uint64_t n = 1;; n++) {
			size_t count;
			struct error err = {0};
			fault_arm(kinds[kind], n, 0);
			int r = read_all((struct bytes){0}, fd, &count, &err);
			if (!fault_disarm(kinds[kind])) {
				assert_int_equal(r, 0);
				assert_int_equal(count, 6);
				assert_true(n > 5);
				break;
			}
			assert_int_equal(r, codes[kind]);
			assert_true(err.message[0] != 0);
		}
	}
	close(fd);
	buffer_release(&b);
}

static void test_32_bit_files(void **state)
{
	/* Header, one segment that is executed, no sections. */
	uint8_t image[0x200] = {0};
	Elf32_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_EXEC,
			     .e_machine = EM_386,
			     .e_phoff = sizeof(Elf32_Ehdr),
			     .e_phentsize = sizeof(Elf32_Phdr),
			     .e_phnum = 1};
	Elf32_Phdr segment = {.p_type = PT_LOAD,
			      .p_offset = 0x100,
			      .p_vaddr = 0x8048100,
			      .p_filesz = 0x80,
			      .p_memsz = 0x80,
			      .p_flags = PF_R | PF_X};
	memcpy(image, &header, sizeof(header));
	memcpy(image + sizeof(header), &segment, sizeof(segment));
	struct elf_file file;
	assert_int_equal(elf_file_open_memory(&file, (struct bytes){image, sizeof(image)}, "test", NULL), 0);
	assert_false(file.is_64);
	uint64_t address;
	assert_true(elf_file_offset_to_address(&file, 0x110, &address));
	assert_int_equal(address, 0x8048110);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	assert_int_equal(file.section_count, 0);
	elf_file_release(&file);
}

/* This program calls through its linkage table; the loader's view of it is the same as ours. */
static void test_own_linkage_table(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct elf_file file;
	struct elf_symbols list;
	elf_symbols_init(&list);
	assert_int_equal(elf_file_open(&file, fd, "self", NULL), 0);
	assert_int_equal(elf_symbols_add_file(&list, &file, NULL), 0);
	bool main_seen = false, stub_seen = false;
	for (size_t i = 0; i < list.count; i++) {
		main_seen |= strcmp(list.items[i].name, "main") == 0;
		stub_seen |= strcmp(list.items[i].name, "memfd_create@plt") == 0;
	}
	assert_true(main_seen);
#ifdef __x86_64__
	assert_true(stub_seen);
#endif
	elf_symbols_release(&list);
	elf_file_release(&file);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_headers_and_sections),
		cmocka_unit_test(test_reads_function_symbols_only),
		cmocka_unit_test(test_leaves_out_mapping_symbols_only),
		cmocka_unit_test(test_cuts_versions_only),
		cmocka_unit_test(test_stripped_file_has_exported_names),
		cmocka_unit_test(test_refuses_what_is_no_elf_file),
		cmocka_unit_test(test_refuses_what_is_no_regular_file),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_size_of_header_entries),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_every_bit_flip),
		cmocka_unit_test(test_file_that_shrinks),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_32_bit_files),
		cmocka_unit_test(test_own_linkage_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
