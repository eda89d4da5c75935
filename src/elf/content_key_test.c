// SPDX-License-Identifier: Apache-2.0
/* What changes the key of a file and what does not, and how much of it is read for that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/io.h"
#include "elf/content_key.h"
#include "elf/elf_file.h"
#include "elf/test_elf.h"

/* This program: it has CFI, symbols and code. */
static void read_self(struct buffer *ret)
{
	assert_int_equal(io_read_file("/proc/self/exe", 1 << 30, ret, NULL), 0);
}

static void key_of(const struct buffer *file, char out[static CONTENT_KEY_HEX])
{
	struct content_key key;
	int fd = test_elf_file(buffer_bytes(file));
	assert_int_equal(content_key_read_fd(fd, &key, NULL), 0);
	memcpy(out, key.key, CONTENT_KEY_HEX);
	close(fd);
}

static struct elf_section find(const struct buffer *file, const char *name)
{
	struct elf_file elf;
	assert_int_equal(elf_file_open_memory(&elf, buffer_bytes(file), "this program", NULL), 0);
	assert_int_equal(elf_file_load_sections(&elf, NULL), 0);
	const struct elf_section *section = elf_file_find_section(&elf, name);
	assert_non_null(section);
	struct elf_section copy = *section;
	elf_file_release(&elf);
	return copy;
}

static void test_equal_files_have_one_key(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	char first[CONTENT_KEY_HEX], second[CONTENT_KEY_HEX];
	read_self(&file);
	key_of(&file, first);
	key_of(&file, second);
	assert_string_equal(first, second);
	assert_int_equal(strspn(first, "0123456789abcdef"), CONTENT_KEY_HEX - 1);
}

/* The build-id stays as it is in all of them. */
static void test_a_changed_byte_changes_it(void **state)
{
	static const char *const names[] = {".eh_frame", ".eh_frame_hdr", ".text", ".dynstr"};
	_cleanup_(buffer_release) struct buffer file = {0};
	char key[CONTENT_KEY_HEX], other[CONTENT_KEY_HEX];
	read_self(&file);
	key_of(&file, key);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct elf_section section = find(&file, names[i]);
		uint64_t places[] = {0, section.size / 2, section.size - 1};
		for (size_t k = 0; k < 3; k++) {
			file.data[section.offset + places[k]] ^= 1;
			key_of(&file, other);
			file.data[section.offset + places[k]] ^= 1;
			assert_string_not_equal(key, other);
		}
	}
	key_of(&file, other);
	assert_string_equal(key, other);
}

static void read_key(const struct buffer *file, struct content_key *ret)
{
	char hash[FILE_HASH_HEX];
	int fd = test_elf_file(buffer_bytes(file));
	assert_int_equal(content_key_read_fd(fd, ret, NULL), 0);
	assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
	assert_string_equal(ret->file_hash, hash);
	close(fd);
}

static bool are_one_program(const struct content_key *a, const struct content_key *b)
{
	bool are = content_key_is_same_program(a->code, a->symbols, b->code, b->symbols);
	assert_int_equal(are, content_key_is_same_program(b->code, b->symbols, a->code, a->symbols));
	return are;
}

/* What a tool changes that strips, and what makes another program. */
static void test_which_are_one_program(void **state)
{
	static const char *const other[] = {".eh_frame", ".text", ".symtab", ".strtab"};
	_cleanup_(buffer_release) struct buffer file = {0};
	struct content_key key, stripped, changed;
	(void)state;
	read_self(&file);
	file.max = 1 << 30;
	read_key(&file, &key);
	assert_true(key.code && key.symbols);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		struct elf_section section = find(&file, other[i]);
		/* The first symbol is none, the first name "". */
		uint64_t place = section.offset + 2 * sizeof(Elf64_Sym);
		file.data[place] ^= 1;
		read_key(&file, &changed);
		file.data[place] ^= 1;
		assert_string_not_equal(key.key, changed.key);
		assert_int_equal(key.code == changed.code, i >= 2);
		assert_int_equal(key.symbols == changed.symbols, i < 2);
		assert_false(are_one_program(&key, &changed));
	}
	/* The section headers go elsewhere, without the table of symbols; that of exported ones stays. */
	Elf64_Ehdr header;
	memcpy(&header, file.data, sizeof(header));
	size_t from = header.e_shoff, bytes = (size_t)header.e_shnum * sizeof(Elf64_Shdr);
	while (file.len % 8)
		assert_int_equal(buffer_append(&file, "", 1), 0);
	_cleanup_(buffer_release) struct buffer sections = {.max = 1 << 20};
	assert_int_equal(buffer_append(&sections, file.data + from, bytes), 0);
	Elf64_Shdr *headers = (void *)sections.data;
	for (unsigned i = 0; i < header.e_shnum; i++)
		headers[i].sh_type = headers[i].sh_type == SHT_SYMTAB ? SHT_NULL : headers[i].sh_type;
	header.e_shoff = file.len;
	assert_int_equal(buffer_append(&file, sections.data, bytes), 0);
	memcpy(file.data, &header, sizeof(header));
	read_key(&file, &stripped);
	assert_string_not_equal(key.key, stripped.key);
	assert_string_not_equal(key.file_hash, stripped.file_hash);
	assert_int_equal(key.code, stripped.code);
	assert_int_equal(stripped.symbols, 0);
	assert_true(are_one_program(&key, &stripped));
	assert_false(are_one_program(&changed, &key));
}

/* Others send them, and they become names of files. */
static void test_which_are_keys(void **state)
{
	static const char *const bad[] = {"",
					  "0123456789abcdef0123456789abcde",
					  "0123456789abcdef0123456789abcdef0",
					  "0123456789ABCDEF0123456789abcdef",
					  "../../../../../../../../../../etc",
					  "0123456789abcdef0123456789abcde\n"};
	(void)state;
	assert_true(content_key_is_valid("0123456789abcdef0123456789abcdef"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(content_key_is_valid(bad[i]));
}

static void test_without_section_headers(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	char key[CONTENT_KEY_HEX], other[CONTENT_KEY_HEX];
	read_self(&file);
	struct elf_section frames = find(&file, ".eh_frame");
	Elf64_Ehdr *header = (void *)file.data;
	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	key_of(&file, key);
	file.data[frames.offset + frames.size / 2] ^= 1;
	key_of(&file, other);
	assert_string_not_equal(key, other);
}

/* 150 MB of code, and a file that has no CFI: neither is read whole. */
static void test_the_cost_is_bounded(void **state)
{
	const uint64_t code = 150u << 20;
	struct test_elf elf = {0};
	_cleanup_(buffer_release) struct buffer file = {0};
	struct content_key key, other;
	test_elf_build(&elf, &file);
	Elf64_Phdr *segments = (void *)(file.data + sizeof(Elf64_Ehdr));
	segments[1].p_filesz = segments[1].p_memsz = code;
	int fd = test_elf_file(buffer_bytes(&file));
	assert_int_equal(ftruncate(fd, (off_t)code), 0);
	assert_int_equal(content_key_read_fd(fd, &key, NULL), 0);
	assert_string_equal(key.build_id, TEST_ELF_BUILD_ID);
	assert_true(key.bytes >= 2u << 20 && key.bytes < 3u << 20);
	assert_int_equal(pwrite(fd, "x", 1, (off_t)code - 1), 1);
	assert_int_equal(content_key_read_fd(fd, &other, NULL), 0);
	assert_string_not_equal(key.key, other.key);
	close(fd);
}

/* Headers may claim anything: as much as there is, up to the limit, is read, and once. */
static void test_hostile_headers(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	struct content_key key = {0};
	read_self(&file);
	Elf64_Ehdr *header = (void *)file.data;
	Elf64_Shdr *sections = (void *)(file.data + header->e_shoff);
	Elf64_Phdr *segments = (void *)(file.data + header->e_phoff);
	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (i == header->e_shstrndx)
			continue;
		sections[i].sh_name = 0;
		sections[i].sh_type = i % 2 ? SHT_SYMTAB : SHT_DYNSYM;
		sections[i].sh_offset = i % 3 ? 0 : UINT64_MAX;
		sections[i].sh_size = UINT64_MAX - i;
	}
	for (unsigned i = 0; i < header->e_phnum; i++) {
		segments[i].p_type = i % 2 ? PT_LOAD : PT_GNU_EH_FRAME;
		segments[i].p_flags = PF_R | PF_X;
		segments[i].p_filesz = UINT64_MAX / 2;
		segments[i].p_offset = i % 3 ? UINT64_MAX / 2 : 0;
	}
	int fd = test_elf_file(buffer_bytes(&file));
	int r = content_key_read_fd(fd, &key, NULL);
	assert_true(r == 0 || r == -EBADMSG);
	assert_true(key.bytes < 40u << 20);
	close(fd);
	int text = memfd_create("text", MFD_CLOEXEC);
	assert_int_equal(write(text, "#!/bin/sh\n", 10), 10);
	assert_int_equal(content_key_read_fd(text, &key, NULL), -ENOEXEC);
	close(text);
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_READ};
	struct test_elf elf = {0};
	_cleanup_(buffer_release) struct buffer file = {0};
	struct content_key other = {0};
	char key[CONTENT_KEY_HEX];
	test_elf_build(&elf, &file);
	key_of(&file, key);
	int fd = test_elf_file(buffer_bytes(&file));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		for (uint64_t n = 1;; n++) {
			fault_arm(kinds[i], n, 0);
			int r = content_key_read_fd(fd, &other, NULL);
			if (!fault_disarm(kinds[i]))
				break;
			/* Never another key than that of the whole file. */
			assert_true(r < 0 || strcmp(key, other.key) == 0);
		}
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_files_have_one_key), cmocka_unit_test(test_a_changed_byte_changes_it),
		cmocka_unit_test(test_which_are_one_program),	 cmocka_unit_test(test_which_are_keys),
		cmocka_unit_test(test_without_section_headers),	 cmocka_unit_test(test_the_cost_is_bounded),
		cmocka_unit_test(test_hostile_headers),		 cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
