// SPDX-License-Identifier: Apache-2.0
/* A file is read once, and again when it has changed; what was seen under a build-id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/contents.h"
#include "base/time.h"
#include "elf/test_elf.h"

static void write_file(const char *path, const char *symbol, bool is_old)
{
	const struct test_symbol symbols[] = {{.name = symbol, .size = 16, .type = STT_FUNC, .binding = STB_GLOBAL}};
	struct buffer elf;
	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 1}, &elf);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_int_equal(write(fd, elf.data, elf.len), elf.len);
	close(fd);
	buffer_release(&elf);
	struct stat status = {0};
	/* Its time of change cannot be set, only waited for. */
	for (int i = 0; is_old && i < 1000; i++) {
		assert_int_equal(stat(path, &status), 0);
		if (time_now_ns() - time_of_timespec(status.st_ctim) > 60 * NS_PER_MS)
			return;
		time_sleep_ns(10 * NS_PER_MS);
	}
}

static void test_read_once(void **state)
{
	char path[] = "/tmp/wick-contents-test-XXXXXX";
	struct contents_file first, again, only;
	struct contents contents = {0};
	close(mkstemp(path));
	write_file(path, "one", true);
	assert_int_equal(contents_of_build_id(&contents, TEST_ELF_BUILD_ID, &only), 0);
	assert_int_equal(contents_of_path(&contents, path, NULL, &first), 0);
	assert_int_equal(contents.read, 1);
	assert_int_equal(contents_of_path(&contents, path, NULL, &again), 0);
	assert_int_equal(contents.read, 1);
	assert_string_equal(first.key, again.key);
	assert_int_equal(contents_of_build_id(&contents, TEST_ELF_BUILD_ID, &only), 1);
	assert_string_equal(first.key, only.key);

	/* Whoever knows the build-id takes no other file for it, known or not. */
	assert_int_equal(contents_of_path(&contents, path, TEST_ELF_BUILD_ID, &again), 0);
	assert_int_equal(contents_of_path(&contents, path, "0123", &again), -ESTALE);
	contents_release(&contents);
	assert_int_equal(contents_of_path(&contents, path, "0123", &again), -ESTALE);
	assert_int_equal(contents_of_path(&contents, path, TEST_ELF_BUILD_ID, &again), 0);

	/* Written to in its place, with the size that it had. */
	write_file(path, "two", false);
	assert_int_equal(contents_of_path(&contents, path, NULL, &again), 0);
	assert_string_not_equal(first.key, again.key);
	assert_int_equal(contents.read, 2); /* since it was forgotten */
	assert_int_equal(contents_of_build_id(&contents, TEST_ELF_BUILD_ID, &only), 2);
	assert_int_equal(contents_of_build_id(&contents, "", &only), 0);
	unlink(path);
	assert_int_equal(contents_of_path(&contents, path, NULL, &again), -ENOENT);
	assert_true(contents_of_path(&contents, "/dev/null", NULL, &again) < 0);
	assert_int_equal(contents_of_path(&contents, "/etc/passwd", NULL, &again), -ENOEXEC);
	contents_release(&contents);
}

struct file {
	struct test_elf elf;
	uint8_t first_byte; /* of its code */
};

/* A copy of the same code may be named by the build-id, with its symbols or without; others are known by what they are. */
static void test_who_is_foreign(void **state)
{
	static const struct test_symbol ones[] = {{.name = "one", .size = 16, .type = STT_FUNC, .binding = STB_GLOBAL}},
					twos[] = {{.name = "two", .size = 16, .type = STT_FUNC, .binding = STB_GLOBAL}};
	static const struct file stripped = {{.stripped = true}, 0}, one = {{.symbols = ones, .symbol_count = 1}, 0},
				 two = {{.symbols = twos, .symbol_count = 1}, 0},
				 other_code = {{.symbols = ones, .symbol_count = 1}, 0x90};
	static const struct {
		const struct file *files[4];
		bool is_foreign[4];
	} orders[] = {
		{{&one, &stripped, &two, &other_code}, {false, false, true, true}},
		{{&two, &one, &stripped, &two}, {false, true, false, false}},
		{{&stripped, &one, &two, &one}, {false, false, true, false}}, /* the names of the first that has some */
		{{&other_code, &one, &stripped, &other_code}, {false, true, true, false}},
	};
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		struct contents contents = {0};
		bool has_foreign = false;
		for (size_t k = 0; k < 4; k++) {
			struct contents_file file;
			struct buffer elf;
			char hash[FILE_HASH_HEX];
			test_elf_build(&orders[i].files[k]->elf, &elf);
			elf.data[TEST_ELF_TEXT_OFFSET] = orders[i].files[k]->first_byte;
			int fd = test_elf_file(buffer_bytes(&elf));
			assert_int_equal(contents_of_fd(&contents, fd, TEST_ELF_BUILD_ID, &file), 0);
			assert_int_equal(file.is_foreign, orders[i].is_foreign[k]);
			assert_int_equal(file_hash_read_fd(fd, hash, NULL), 0);
			assert_string_equal(file.file_hash, hash);
			assert_true(contents_has_build_id(&file, TEST_ELF_BUILD_ID));
			assert_false(contents_has_build_id(&file, ""));
			has_foreign |= file.is_foreign;
			assert_int_equal(contents_has_foreign(&contents, TEST_ELF_BUILD_ID), has_foreign);
			buffer_release(&elf);
			close(fd);
		}
		contents_release(&contents);
	}
}

static void test_too_much_at_once(void **state)
{
	char path[] = "/tmp/wick-contents-test-XXXXXX";
	struct contents_file key;
	struct contents contents = {.filled_ns = INT64_MAX / 2, .bytes_left = 1};
	close(mkstemp(path));
	write_file(path, "one", false);
	assert_int_equal(contents_of_path(&contents, path, NULL, &key), 0);
	write_file(path, "two", false);
	assert_int_equal(contents_of_path(&contents, path, NULL, &key), -EAGAIN);
	contents.filled_ns = 1;
	assert_int_equal(contents_of_path(&contents, path, NULL, &key), 0);
	unlink(path);
	contents_release(&contents);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_once),
		cmocka_unit_test(test_who_is_foreign),
		cmocka_unit_test(test_too_much_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
