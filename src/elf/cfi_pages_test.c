/* SPDX-License-Identifier: Apache-2.0 */
/* Sections that are in memory a part at a time: what is read is what the file has, and little is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "elf/cfi_int.h"

#define SECTION_AT  12345u
#define SECTION_LEN (9u * 1024 * 1024 + 777)

struct fixture {
	struct elf_file file;
	struct cfi_reader reader;
	struct error err;
	uint8_t *bytes; /* of the file */
	struct cfi_source source;
};

static int setup(void **state)
{
	struct fixture *f = mem_zalloc(sizeof(*f));
	char path[] = "/tmp/wick-cfi-pages-XXXXXX";
	assert_non_null(f);
	f->file.fd = mkstemp(path);
	assert_true(f->file.fd >= 0);
	unlink(path);
	f->file.size = SECTION_AT + SECTION_LEN;
	f->file.name = "a file";
	f->bytes = mem_alloc(f->file.size);
	for (size_t i = 0; i < f->file.size; i++)
		f->bytes[i] = (uint8_t)((i * 2654435761u) >> 13);
	assert_int_equal(write(f->file.fd, f->bytes, f->file.size), (ssize_t)f->file.size);
	f->reader.file = &f->file;
	f->reader.err = &f->err;
	assert_int_equal(cfi_source_open(&f->reader, SECTION_AT, SECTION_LEN, "the section", &f->source), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	cfi_source_release(&f->source);
	mem_free(f->bytes);
	close(f->file.fd);
	mem_free(f);
	return 0;
}

static size_t resident_bytes(const struct fixture *f)
{
	static unsigned char pages[SECTION_LEN / 4096 + 2];
	size_t count = 0;
	assert_int_equal(mincore((void *)f->source.data.data, SECTION_LEN, pages), 0);
	for (size_t i = 0; i < SECTION_LEN / 4096; i++)
		count += pages[i] & 1;
	return count * 4096;
}

static void check_range(struct fixture *f, size_t at, size_t len)
{
	assert_int_equal(cfi_source_need(&f->reader, &f->source, at, len), 0);
	assert_memory_equal(f->source.data.data + at, f->bytes + SECTION_AT + at, len);
}

static void test_forward_twice(void **state)
{
	struct fixture *f = *state;
	assert_non_null(f->source.pages);
	for (int turn = 0; turn < 2; turn++) {
		for (size_t at = 0; at < SECTION_LEN; at += 997) {
			check_range(f, at, SECTION_LEN - at < 1500 ? SECTION_LEN - at : 1500);
			if (at % 991 == 0)
				assert_true(resident_bytes(f) < 2u * 1024 * 1024);
		}
	}
	assert_true(resident_bytes(f) < 2u * 1024 * 1024);
}

static void test_any_order(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 88172645463325252u;
	for (int i = 0; i < 20000; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		size_t at = random % SECTION_LEN, len = (random >> 40) % (i % 100 ? 300 : 400000);
		check_range(f, at, SECTION_LEN - at < len ? SECTION_LEN - at : len);
		if (i % 100 == 99)
			assert_true(resident_bytes(f) < 2u * 1024 * 1024);
	}
	check_range(f, 0, SECTION_LEN);
}

static void test_outside(void **state)
{
	struct fixture *f = *state;
	check_range(f, SECTION_LEN - 1, 1);
	check_range(f, SECTION_LEN, 0);
	assert_true(cfi_source_need(&f->reader, &f->source, SECTION_LEN, 1) < 0);
	assert_true(cfi_source_need(&f->reader, &f->source, SECTION_LEN - 1, 2) < 0);
	assert_true(cfi_source_need(&f->reader, &f->source, SIZE_MAX, 2) < 0);
	assert_true(cfi_source_need(&f->reader, &f->source, 2, SIZE_MAX) < 0);
}

static void test_a_file_that_shrinks(void **state)
{
	struct fixture *f = *state;
	check_range(f, 100, 100);
	assert_int_equal(ftruncate(f->file.fd, SECTION_AT + SECTION_LEN / 2), 0);
	check_range(f, 100000, 100);
	assert_true(cfi_source_need(&f->reader, &f->source, SECTION_LEN - 100, 100) < 0);
}

static void test_a_section_beyond_the_file(void **state)
{
	struct fixture *f = *state;
	struct cfi_source other = {0};
	assert_true(cfi_source_open(&f->reader, SECTION_AT + 1, SECTION_LEN, "the section", &other) < 0);
	assert_non_null(strstr(f->err.message, "a file"));
	assert_true(cfi_source_open(&f->reader, UINT64_MAX, SECTION_LEN, "the section", &other) < 0);
	assert_true(cfi_source_open(&f->reader, 0, UINT64_MAX, "the section", &other) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forward_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_any_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_outside, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_file_that_shrinks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_section_beyond_the_file, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
