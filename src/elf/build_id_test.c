/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "elf/build_id.h"
#include "elf/test_elf.h"

static void test_reads_a_build_id(void **state)
{
	struct test_elf elf = {0};
	struct buffer b;
	test_elf_build(&elf, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	char id[BUILD_ID_HEX_MAX];
	assert_int_equal(build_id_read_fd(fd, id, NULL), 0);
	assert_string_equal(id, TEST_ELF_BUILD_ID);
	assert_true(build_id_is_valid(id));
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC); /* still open */
	close(fd);
	buffer_release(&b);
}

static void test_falls_back_to_sections(void **state)
{
	struct test_elf elf = {0};
	struct buffer b;
	test_elf_build(&elf, &b);
	((Elf64_Phdr *)(b.data + sizeof(Elf64_Ehdr)))->p_type = PT_NULL;
	int fd = test_elf_file(buffer_bytes(&b));
	char id[BUILD_ID_HEX_MAX];
	assert_int_equal(build_id_read_fd(fd, id, NULL), 0);
	assert_string_equal(id, TEST_ELF_BUILD_ID);
	close(fd);
	buffer_release(&b);
}

static void test_file_without_one(void **state)
{
	struct test_elf elf = {.no_build_id = true};
	struct buffer b;
	test_elf_build(&elf, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	char id[BUILD_ID_HEX_MAX] = "untouched";
	struct error err;
	assert_int_equal(build_id_read_fd(fd, id, &err), -ENOENT);
	assert_string_equal(id, "untouched");
	assert_non_null(strstr(err.message, "build-id"));
	close(fd);
	buffer_release(&b);
}

static size_t put_note(uint8_t *out, const char *name, uint32_t type, const void *data, uint32_t len, size_t align)
{
	Elf64_Nhdr note = {(uint32_t)strlen(name) + 1, len, type};
	size_t at = sizeof(note);
	memcpy(out, &note, sizeof(note));
	memcpy(out + at, name, strlen(name) + 1);
	at = (at + strlen(name) + 1 + align - 1) & ~(align - 1);
	memcpy(out + at, data, len);
	return (at + len + align - 1) & ~(align - 1);
}

/* As OpenTelemetry's profiler and Python's hashlib have it, for files shorter and longer than the parts that are hashed. */
static void test_hashes_of_files(void **state)
{
	static const struct {
		size_t len;
		const char *hash;
	} files[] = {{0, "af5570f5a1810b7af78caf4bc70a660f"},	 {1, "52807a4607ea5debf0b7d4ccb452f4af"},
		     {4095, "2163b454a35d188200935087260408c1"}, {4096, "7e9a755dfdcc88b11037ffaf0aff0527"},
		     {4097, "5572f2aa5f6a81f41fb41a983e79f37a"}, {8191, "16476651edaf7f518d0e91fe3951efb1"},
		     {8192, "8410e712063d5774fece43c81468ebfd"}, {70000, "8d43352a6bf941af0f7ba0145f26882e"}};
	uint8_t *data = calloc(1, 70000);
	for (size_t i = 0; i < 70000; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char hash[FILE_HASH_HEX];
		int fd = test_elf_file((struct bytes){data, files[i].len});
		assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
		assert_string_equal(hash, files[i].hash);
		close(fd);
	}
	free(data);
}

/* A file's build-id comes first; what is no ELF file has no identity. */
static void test_what_a_binary_is_known_by(void **state)
{
	char id[BUILD_ID_HEX_MAX], hash[FILE_HASH_HEX];
	struct buffer b;
	test_elf_build(&(struct test_elf){0}, &b);
	int fd = test_elf_file(buffer_bytes(&b));
	assert_int_equal(binary_id_read_fd(fd, id, NULL), 0);
	assert_string_equal(id, TEST_ELF_BUILD_ID);
	close(fd);
	buffer_release(&b);
	test_elf_build(&(struct test_elf){.no_build_id = true}, &b);
	fd = test_elf_file(buffer_bytes(&b));
	assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
	assert_int_equal(binary_id_read_fd(fd, id, NULL), 1);
	assert_string_equal(id, hash);
	assert_true(build_id_is_valid(id));
	close(fd);
	buffer_release(&b);
	fd = test_elf_file(bytes_of_string("#!/bin/sh\n"));
	assert_int_equal(binary_id_read_fd(fd, id, NULL), -ENOEXEC);
	close(fd);
	for (uint64_t n = 1; n <= 2; n++) {
		fd = test_elf_file(bytes_of_string("any file"));
		fault_arm(FAULT_READ, n, 0);
		assert_int_equal(file_hash_read_fd(fd, hash, NULL), -EIO);
		assert_true(fault_disarm(FAULT_READ));
		close(fd);
	}
}

static void test_notes(void **state)
{
	uint8_t notes[512] = {0};
	char id[BUILD_ID_HEX_MAX];
	size_t len = put_note(notes, "Linux", 3, "wrong owner", 12, 4);
	len += put_note(notes + len, "GNU", 1, "wrong type", 11, 4);
	size_t short_len = len;
	len += put_note(notes + len, "GNU", 3, "\x00\xab\xff", 3, 4);
	assert_int_equal(build_id_from_notes((struct bytes){notes, len}, id), 0);
	assert_string_equal(id, "00abff");
	assert_int_equal(build_id_from_notes((struct bytes){notes, short_len}, id), -ENOENT);
	for (size_t cut = 0; cut < len - 4; cut++) {
		uint8_t *copy = mem_alloc(cut);
		memcpy(copy, notes, cut);
		assert_int_equal(build_id_from_notes((struct bytes){copy, cut}, id), cut < len - 1 ? -ENOENT : 0);
		mem_free(copy);
	}
	/* Empty and overlong ones are none. */
	uint8_t filler[BUILD_ID_BYTES_MAX + 1] = {1};
	len = put_note(notes, "GNU", 3, filler, 0, 4);
	len += put_note(notes + len, "GNU", 3, filler, BUILD_ID_BYTES_MAX + 1, 4);
	assert_int_equal(build_id_from_notes((struct bytes){notes, len}, id), -ENOENT);
	len += put_note(notes + len, "GNU", 3, filler, BUILD_ID_BYTES_MAX, 4);
	assert_int_equal(build_id_from_notes((struct bytes){notes, len}, id), 0);
	assert_int_equal(strlen(id), BUILD_ID_HEX_MAX - 1);
	/* Sizes that wrap around. */
	Elf64_Nhdr huge = {UINT32_MAX, UINT32_MAX, 3};
	memcpy(notes, &huge, sizeof(huge));
	assert_int_equal(build_id_from_notes((struct bytes){notes, sizeof(notes)}, id), -ENOENT);
}

static void test_the_kernels_notes(void **state)
{
	struct buffer notes;
	buffer_init(&notes, 1 << 20);
	if (io_read_file("/sys/kernel/notes", 1 << 20, &notes, NULL) < 0) {
		printf("skipped: /sys/kernel/notes cannot be read here\n");
		skip();
	}
	char id[BUILD_ID_HEX_MAX];
	assert_int_equal(build_id_from_notes(buffer_bytes(&notes), id), 0);
	assert_true(build_id_is_valid(id));
	assert_true(strlen(id) >= 16);
	buffer_release(&notes);
}

static void test_valid_texts(void **state)
{
	assert_true(build_id_is_valid("ab"));
	assert_true(build_id_is_valid(TEST_ELF_BUILD_ID));
	assert_false(build_id_is_valid(""));
	assert_false(build_id_is_valid("abc"));
	assert_false(build_id_is_valid("AB"));
	assert_false(build_id_is_valid("../../etc"));
	char text[BUILD_ID_HEX_MAX + 2];
	memset(text, 'a', sizeof(text));
	text[128] = 0;
	assert_true(build_id_is_valid(text));
	text[128] = 'a';
	text[130] = 0;
	assert_false(build_id_is_valid(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_a_build_id),	  cmocka_unit_test(test_falls_back_to_sections),
		cmocka_unit_test(test_file_without_one),	  cmocka_unit_test(test_hashes_of_files),
		cmocka_unit_test(test_what_a_binary_is_known_by), cmocka_unit_test(test_notes),
		cmocka_unit_test(test_the_kernels_notes),	  cmocka_unit_test(test_valid_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
