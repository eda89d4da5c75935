/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols by name: in files made by hand, whole and damaged, and in this program, whose addresses are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>

#include "base/test_faults.h"
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"

static const struct test_symbol symbols[] = {
	{"imported", 0x300, 8, STT_FUNC, STB_GLOBAL, 0xfff0}, {"loop", 0x10, 0x40, STT_FUNC, STB_GLOBAL, 0},
	{"loop_", 0x60, 0x10, STT_FUNC, STB_GLOBAL, 0},	      {"runtime", 0x100, 0x80, STT_OBJECT, STB_GLOBAL, 0},
	{"loop.cold", 0x200, 0x20, STT_FUNC, STB_LOCAL, 0},   {"loop", 0x280, 4, STT_FUNC, STB_LOCAL, 0},
};
#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

static int find(struct bytes bytes, struct elf_named *wanted, size_t count)
{
	struct elf_file file;
	struct error err = {0};

	assert_int_equal(elf_file_open_memory(&file, bytes, "test", &err), 0);
	int r = elf_named_find(&file, wanted, count, &err);
	elf_file_release(&file);
	return r;
}

static void test_names_in_either_table(void **state)
{
	for (int stripped = 0; stripped < 2; stripped++) {
		struct test_elf elf = {.symbols = symbols, .symbol_count = SYMBOLS, .stripped = stripped};
		struct elf_named wanted[] = {{.name = "runtime"}, {.name = "loop"}, {.name = "loop.cold"}};
		struct buffer b;
		test_elf_build(&elf, &b);
		assert_int_equal(find(buffer_bytes(&b), wanted, 3), 3);
		assert_int_equal(wanted[0].address, TEST_ELF_TEXT_ADDRESS + 0x100);
		assert_int_equal(wanted[0].size, 0x80);
		assert_int_equal(wanted[1].address, TEST_ELF_TEXT_ADDRESS + 0x10); /* the first of two */
		assert_int_equal(wanted[1].size, 0x40);
		assert_int_equal(wanted[2].address, TEST_ELF_TEXT_ADDRESS + 0x200);
		assert_int_equal(wanted[2].size, 0x20);
		buffer_release(&b);
	}
}

static void test_names_that_are_missing(void **state)
{
	struct test_elf elf = {.symbols = symbols, .symbol_count = SYMBOLS};
	struct elf_named wanted[] = {{"imported", 1, 1}, {"loo", 1, 1},	 {"loop__", 1, 1},
				     {"", 1, 1},	 {"LOOP", 1, 1}, {"runtime", 1, 1}};
	struct buffer b;

	test_elf_build(&elf, &b);
	assert_int_equal(find(buffer_bytes(&b), wanted, 6), 1);
	for (size_t i = 0; i < 5; i++)
		assert_true(wanted[i].address == 0 && wanted[i].size == 0); /* what was there before is gone */
	assert_int_equal(wanted[5].address, TEST_ELF_TEXT_ADDRESS + 0x100);
	assert_int_equal(find(buffer_bytes(&b), NULL, 0), 0);
	buffer_release(&b);
}

/* Where the headers of sections lie, in a file of test_elf_build(). */
static Elf64_Shdr *section(struct buffer *b, size_t number)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)b->data;

	return (Elf64_Shdr *)(b->data + header->e_shoff) + number;
}

#define TABLE	2
#define STRINGS 3

static void test_damaged_tables_have_no_names(void **state)
{
	struct test_elf elf = {.symbols = symbols, .symbol_count = SYMBOLS};

	for (int damage = 0; damage < 7; damage++) {
		struct elf_named wanted[] = {{.name = "runtime"}, {.name = "loop"}};
		struct buffer b;
		test_elf_build(&elf, &b);
		switch (damage) {
		case 0: section(&b, TABLE)->sh_link = 99; break;
		case 1: section(&b, TABLE)->sh_offset = b.len + 1; break;
		case 2: section(&b, TABLE)->sh_size = UINT64_MAX / 2; break;
		case 3: section(&b, STRINGS)->sh_offset = b.len; break;
		case 4: section(&b, STRINGS)->sh_size = UINT64_MAX; break;
		case 5: section(&b, STRINGS)->sh_type = SHT_NOBITS; break;
		case 6: section(&b, TABLE)->sh_size = sizeof(Elf64_Sym) - 1; break;
		default: break;
		}
		assert_int_equal(find(buffer_bytes(&b), wanted, 2), 0);
		assert_true(wanted[0].address == 0 && wanted[1].address == 0);
		buffer_release(&b);
	}
}

/* A name that begins behind the strings, and one that would run out of them; a table whose end is cut. */
static void test_damaged_symbols(void **state)
{
	struct test_elf elf = {.symbols = symbols, .symbol_count = SYMBOLS};
	struct elf_named wanted[] = {{.name = "runtime"}, {.name = "loop"}};
	struct buffer b;

	test_elf_build(&elf, &b);
	Elf64_Sym *table = (Elf64_Sym *)(b.data + section(&b, TABLE)->sh_offset);
	table[4].st_name = UINT32_MAX; /* runtime */
	section(&b, STRINGS)->sh_size = table[2].st_name + 2;
	assert_int_equal(find(buffer_bytes(&b), wanted, 2), 0);
	section(&b, STRINGS)->sh_size = table[2].st_name + 5;
	assert_int_equal(find(buffer_bytes(&b), wanted, 2), 1);
	assert_int_equal(wanted[1].address, TEST_ELF_TEXT_ADDRESS + 0x10);
	section(&b, TABLE)->sh_size = 2 * sizeof(Elf64_Sym);
	assert_int_equal(find(buffer_bytes(&b), wanted, 2), 0);
	buffer_release(&b);
}

static void test_no_sections(void **state)
{
	struct test_elf elf = {.symbols = symbols, .symbol_count = SYMBOLS};
	struct elf_named wanted[] = {{.name = "loop"}};
	struct buffer b;

	test_elf_build(&elf, &b);
	Elf64_Ehdr *header = (Elf64_Ehdr *)b.data;
	header->e_shnum = header->e_shstrndx = 0;
	header->e_shoff = 0;
	assert_int_equal(find(buffer_bytes(&b), wanted, 1), 0);
	header->e_shoff = b.len;
	header->e_shnum = 7;
	assert_int_equal(find(buffer_bytes(&b), wanted, 1), -EBADMSG);
	assert_int_equal(wanted[0].address, 0);
	buffer_release(&b);
}

/* More than are read at once, the wanted ones in the first, in the second and in the last part. */
static void test_many_symbols(void **state)
{
	static const char *const names[] = {"first", "second", "last"};
	static const size_t places[] = {1, 1500, 4999};
	struct test_symbol *many = calloc(5000, sizeof(*many));
	struct elf_named wanted[3];
	struct buffer b;

	for (size_t i = 0; i < 5000; i++)
		many[i] = (struct test_symbol){"other", (uint32_t)i / 8, 1, STT_FUNC, STB_GLOBAL, 0};
	for (size_t i = 0; i < 3; i++) {
		many[places[i]] = (struct test_symbol){names[i], 0x20 * (uint32_t)(i + 1), 9, STT_FUNC, STB_GLOBAL, 0};
		wanted[i] = (struct elf_named){.name = names[i]};
	}
	test_elf_build(&(struct test_elf){.symbols = many, .symbol_count = 5000}, &b);
	assert_int_equal(find(buffer_bytes(&b), wanted, 3), 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(wanted[i].address == TEST_ELF_TEXT_ADDRESS + 0x20 * (i + 1) && wanted[i].size == 9);
	buffer_release(&b);
	free(many);
}

/* Header, two symbols, strings, three sections: the symbols of 32-bit files have their members in another order. */
static void test_32_bit(void **state)
{
	static const char strings[] = "\0loop\0runtime";
	const Elf32_Sym table[] = {{0},
				   {.st_name = 1, .st_value = 0x8049000, .st_size = 0x1234, .st_shndx = 1},
				   {.st_name = 6, .st_value = 0x804b000, .st_size = 0x20, .st_shndx = 1}};
	struct elf_named wanted[] = {{.name = "runtime"}, {.name = "loop"}};
	struct buffer b;

	buffer_init(&b, 1 << 16);
	test_elf_pad(&b, sizeof(Elf32_Ehdr));
	size_t table_at = b.len;
	test_elf_put(&b, table, sizeof(table));
	size_t strings_at = b.len;
	test_elf_put(&b, strings, sizeof(strings));
	test_elf_pad(&b, (b.len + 3) & ~(size_t)3);
	const Elf32_Shdr sections[] = {
		{0},
		{.sh_type = SHT_DYNSYM, .sh_offset = (uint32_t)table_at, .sh_size = sizeof(table), .sh_link = 2},
		{.sh_type = SHT_STRTAB, .sh_offset = (uint32_t)strings_at, .sh_size = sizeof(strings)},
	};
	Elf32_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
			     .e_type = ET_DYN,
			     .e_machine = EM_386,
			     .e_shoff = (uint32_t)b.len,
			     .e_shentsize = sizeof(Elf32_Shdr),
			     .e_shnum = 3};
	test_elf_put(&b, sections, sizeof(sections));
	memcpy(b.data, &header, sizeof(header));
	assert_int_equal(find(buffer_bytes(&b), wanted, 2), 2);
	assert_true(wanted[0].address == 0x804b000 && wanted[0].size == 0x20);
	assert_true(wanted[1].address == 0x8049000 && wanted[1].size == 0x1234);
	buffer_release(&b);
}

static int find_once(void *context)
{
	struct elf_named wanted[] = {{.name = "loop"}};
	struct elf_file file;

	int r = elf_file_open_memory(&file, *(const struct bytes *)context, "test", NULL);
	if (r < 0)
		return r;
	r = elf_named_find(&file, wanted, 1, NULL);
	elf_file_release(&file);
	return r == 1 ? 0 : r;
}

static void test_memory_runs_out(void **state)
{
	struct buffer b;

	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = SYMBOLS}, &b);
	struct bytes bytes = buffer_bytes(&b);
	assert_true(test_each_allocation(find_once, &bytes) >= 2);
	buffer_release(&b);
}

/* This program, which is not stripped: a function and a variable of its own, beside where they are. */
uint32_t elf_named_test_variable = 7;

static void test_this_program(void **state)
{
	struct elf_named wanted[] = {{.name = "elf_named_test_variable"}, {.name = "main"}, {.name = "printf"}};
	struct elf_file file;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(&file, fd, "/proc/self/exe", NULL), 0);
	assert_int_equal(elf_named_find(&file, wanted, 3, NULL), 2);
	uint64_t bias = getauxval(AT_ENTRY) - file.entry;
	assert_true(wanted[0].address + bias == (uintptr_t)&elf_named_test_variable && wanted[0].size == 4);
	assert_true(wanted[1].size > 0);
	assert_int_equal(wanted[2].address, 0); /* libc's */
	elf_file_release(&file);
	close(fd);
}

/* libc has a hash table; the linker knows where its names are. */
static const char *const libc_names[] = {"malloc", "printf",  "qsort",	      "getenv", "fopen",  "stdout",
					 "dlopen", "scandir", "no_such_name", "mallo",	"malloc_"};
#define LIBC_NAMES (sizeof(libc_names) / sizeof(libc_names[0]))

static void read_libc(struct buffer *b, uint64_t truth[LIBC_NAMES])
{
	Dl_info info;
	char chunk[4096];

	assert_true(dladdr(dlsym(RTLD_DEFAULT, "qsort"), &info) != 0);
	for (size_t i = 0; i < LIBC_NAMES; i++) {
		uintptr_t at = (uintptr_t)dlsym(RTLD_DEFAULT, libc_names[i]);
		truth[i] = at ? at - (uintptr_t)info.dli_fbase : 0;
	}
	int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	buffer_init(b, 64 << 20);
	for (ssize_t n; (n = read(fd, chunk, sizeof(chunk))) > 0;)
		test_elf_put(b, chunk, (size_t)n);
	close(fd);
}

static int find_in_libc(const struct buffer *b, struct elf_named wanted[LIBC_NAMES])
{
	for (size_t i = 0; i < LIBC_NAMES; i++)
		wanted[i] = (struct elf_named){.name = libc_names[i]};
	return find(buffer_bytes(b), wanted, LIBC_NAMES);
}

static void test_names_by_the_hash_table(void **state)
{
	struct elf_named wanted[LIBC_NAMES];
	uint64_t truth[LIBC_NAMES];
	struct buffer b;

	read_libc(&b, truth);
	assert_int_equal(find_in_libc(&b, wanted), LIBC_NAMES - 3);
	for (size_t i = 0; i < LIBC_NAMES; i++)
		assert_int_equal(wanted[i].address, truth[i]);
	buffer_release(&b);
}

/* Each of its first words, and words at random, are others: names are missing then, and none is at another place. */
static void test_damaged_hash_tables(void **state)
{
	static const uint32_t others[] = {0, 1, 2, 63, 1u << 20, 0x7fffffff, UINT32_MAX};
	struct elf_named wanted[LIBC_NAMES];
	uint64_t truth[LIBC_NAMES];
	struct elf_file file;
	struct buffer b;

	read_libc(&b, truth);
	assert_int_equal(elf_file_open_memory(&file, buffer_bytes(&b), "libc", NULL), 0);
	assert_int_equal(elf_file_load_sections(&file, NULL), 0);
	const struct elf_section *table = elf_file_find_section_type(&file, SHT_GNU_HASH);
	assert_non_null(table);
	uint32_t *words = (uint32_t *)(b.data + table->offset);
	size_t count = (size_t)table->size / 4, missing = 0;
	srand(1);
	for (size_t round = 0; round < 3000; round++) {
		size_t at = round < 28 ? round / 7 : (size_t)rand() % count;
		uint32_t was = words[at];
		words[at] = round < 2000 ? others[round % 7] : (uint32_t)rand();
		missing += find_in_libc(&b, wanted) < (int)LIBC_NAMES - 3;
		for (size_t i = 0; i < LIBC_NAMES; i++)
			assert_true(wanted[i].address == 0 || wanted[i].address == truth[i]);
		words[at] = was;
	}
	assert_true(missing > 10);
	elf_file_release(&file);
	buffer_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_in_either_table),
		cmocka_unit_test(test_names_that_are_missing),
		cmocka_unit_test(test_damaged_tables_have_no_names),
		cmocka_unit_test(test_damaged_symbols),
		cmocka_unit_test(test_no_sections),
		cmocka_unit_test(test_many_symbols),
		cmocka_unit_test(test_32_bit),
		cmocka_unit_test(test_names_by_the_hash_table),
		cmocka_unit_test(test_damaged_hash_tables),
		cmocka_unit_test(test_memory_runs_out),
		cmocka_unit_test(test_this_program),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
