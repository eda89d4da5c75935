// SPDX-License-Identifier: Apache-2.0
/* A file is found by any of its ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "elf/file_ids.h"
#include "elf/test_elf.h"

static void test_build_id_and_hash(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct buffer b;
		char hash[FILE_HASH_HEX];
		test_elf_build(&(struct test_elf){.no_build_id = i == 1}, &b);
		int fd = test_elf_file(buffer_bytes(&b));
		assert_int_equal(file_has_id(fd, TEST_ELF_BUILD_ID), i == 0 ? 0 : -ENOENT);
		assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
		assert_int_equal(file_has_id(fd, hash), 1);
		assert_int_equal(file_has_id(fd, "abcd"), -ENOENT);
		assert_int_equal(file_has_id(fd, ""), -ENOENT);
		close(fd);
		buffer_release(&b);
	}
}

/* The note of Go, in the place of the one that the file has. */
static void test_go(void **state)
{
	static const char id[] = "abcdefghijklmnopqrst/ABCDEFGHIJKLMNOPQRS";
	struct {
		Elf64_Nhdr header;
		char name[4], id[sizeof(id) - 1];
	} note = {.header = {.n_namesz = 4, .n_descsz = sizeof(id) - 1, .n_type = 4}, .name = "Go"};
	char hex[BUILD_ID_HEX_MAX];
	struct buffer b;
	memcpy(note.id, id, sizeof(note.id));
	test_elf_build(&(struct test_elf){.no_build_id = true}, &b);
	memcpy(b.data + TEST_ELF_NOTE_OFFSET, &note, sizeof(note));
	Elf64_Phdr *segments = (void *)(b.data + sizeof(Elf64_Ehdr));
	segments[0].p_type = PT_NOTE;
	segments[0].p_offset = TEST_ELF_NOTE_OFFSET;
	segments[0].p_filesz = sizeof(note);
	/* By its section. */
	const Elf64_Ehdr *header = (const void *)b.data;
	Elf64_Shdr *sections = (void *)(b.data + header->e_shoff);
	char *names = (char *)b.data + sections[header->e_shstrndx].sh_offset;
	for (unsigned i = 1; i < header->e_shnum; i++) {
		if (strcmp(names + sections[i].sh_name, ".note") != 0)
			continue;
		sections[i].sh_offset = TEST_ELF_NOTE_OFFSET;
		sections[i].sh_size = sizeof(note);
		sections[i].sh_name = (uint32_t)sections[header->e_shstrndx].sh_size;
	}
	/* The names move to the end of the file, with one more. */
	size_t at = b.len, size = sections[header->e_shstrndx].sh_size;
	sections[header->e_shstrndx].sh_offset = at;
	sections[header->e_shstrndx].sh_size = size + sizeof(".note.go.buildid");
	uint8_t *copy = malloc(size);
	memcpy(copy, names, size);
	test_elf_put(&b, copy, size);
	test_elf_put(&b, ".note.go.buildid", sizeof(".note.go.buildid"));
	free(copy);
	int fd = test_elf_file(buffer_bytes(&b));
	assert_true(file_id_of_go(bytes_of_string(id), hex));
	assert_int_equal(file_has_id(fd, hex), 1);
	hex[0] ^= 1;
	assert_int_equal(file_has_id(fd, hex), -ENOENT);
	close(fd);
	buffer_release(&b);
	assert_false(file_id_of_go(bytes_of_string("redacted"), hex));
	assert_false(file_id_of_go(bytes_of_string(""), hex));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build_id_and_hash),
		cmocka_unit_test(test_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
