// SPDX-License-Identifier: Apache-2.0
/* Which files hold PHP: the one that is installed, whose symbols `readelf` prints; what has other names; damaged copies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/test_programs.h"
#include "elf/test_elf.h"
#include "runtime/php.h"

#define PHP "/usr/bin/php"

static int recognize_bytes(struct bytes bytes, struct php_build *ret, struct error *err)
{
	struct elf_file file;

	*err = (struct error){0};
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	r = php_recognize(&file, ret, err);
	elf_file_release(&file);
	return r;
}

static uint8_t *read_php(size_t *ret_len)
{
	struct stat st;
	int fd = open(PHP, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	*ret_len = (size_t)st.st_size;
	uint8_t *data = malloc(*ret_len);
	assert_true(data && pread(fd, data, *ret_len, 0) == (ssize_t)*ret_len);
	close(fd);
	return data;
}

static void read_symbol(const char *name, uint64_t *ret_address, uint64_t *ret_size)
{
	char command[512], line[256] = "", *end;

	snprintf(command, sizeof(command), "readelf -W --dyn-syms " PHP " | awk '$8 == \"%s\" { print $2, $3; exit }'", name);
	FILE *out = popen(command, "r");
	assert_non_null(out);
	assert_non_null(fgets(line, sizeof(line), out));
	assert_int_equal(pclose(out), 0);
	*ret_address = strtoull(line, &end, 16);
	*ret_size = strtoull(end, NULL, 0);
}

static uint32_t read_version(void)
{
	unsigned major = 0, minor = 0;
	FILE *out = popen(PHP " -nr 'echo PHP_MAJOR_VERSION, \" \", PHP_MINOR_VERSION;'", "r");

	assert_non_null(out);
	assert_int_equal(fscanf(out, "%u %u", &major, &minor), 2);
	assert_int_equal(pclose(out), 0);
	return major << 8 | minor;
}

static bool is_missing(const char *test)
{
	if (test_program_is_there(PHP) && test_program_is_there("readelf"))
		return false;
	print_message("skipped: %s: " PHP " or readelf is not installed\n", test);
	return true;
}

static void test_installed_interpreter(void **state)
{
	struct php_build build;
	struct php_process place;
	struct error err;
	uint64_t address, size;
	size_t len;

	if (is_missing(__func__))
		skip();
	uint8_t *data = read_php(&len);
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), 1);
	free(data);
	assert_int_equal(build.version, read_version());
	read_symbol("execute_ex", &address, &size);
	assert_int_equal(build.loop_start, address);
	assert_int_equal(build.loop_end, address + size);
	/* GCC puts the handling of errors elsewhere. */
	assert_true(build.cold_end > build.cold_start && (build.cold_end <= address || build.cold_start >= address + size));
	read_symbol("executor_globals", &address, &size);
	php_place(&build, 0x100000, &place);
	assert_int_equal(place.listed.kind, RUNTIME_KIND_PHP);
	assert_int_equal(place.globals, address + 0x100000);
	assert_true(place.globals_current == 488 && !place.globals_offset && !place.block_offset && !place.block_at);
	assert_int_equal(place.listed.loop_end, build.loop_end + 0x100000);
	assert_int_equal(place.listed.cold_start, build.cold_start + 0x100000);
	assert_true(place.function_bytes <= LISTED_READ_WORDS * 8);
}

/* ---- files made by hand ---- */

#define LOOP                                                                                                                   \
	{                                                                                                                      \
		"execute_ex", 0x10, 8192, STT_FUNC, STB_GLOBAL, 0                                                              \
	}
#define GLOBALS                                                                                                                \
	{                                                                                                                      \
		"executor_globals", 0x80, 1664, STT_OBJECT, STB_GLOBAL, 0                                                      \
	}
#define GLOBALS_OFFSET                                                                                                         \
	{                                                                                                                      \
		"executor_globals_offset", 0x80, 8, STT_OBJECT, STB_GLOBAL, 0                                                  \
	}

static int recognize_symbols(const struct test_symbol *symbols, size_t count, struct error *err)
{
	struct php_build build;
	struct buffer b;

	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = count, .stripped = true}, &b);
	int r = recognize_bytes(buffer_bytes(&b), &build, err);
	buffer_release(&b);
	return r;
}

static void test_what_is_not_supported(void **state)
{
	const struct test_symbol alone[] = {LOOP}, unversioned[] = {LOOP, GLOBALS}, thread_safe[] = {LOOP, GLOBALS_OFFSET};
	struct error err;

	assert_int_equal(recognize_symbols(alone, 1, &err), 0);
	assert_int_equal(recognize_symbols(unversioned + 1, 1, &err), 0);
	assert_int_equal(recognize_symbols(unversioned, 2, &err), -ENOTSUP);
	assert_string_equal(err.message, "PHP whose version is not in the file");
	assert_int_equal(recognize_symbols(thread_safe, 2, &err), -ENOTSUP);
	assert_string_equal(err.message, "PHP whose version is not in the file");
}

/* The version that the file says, changed in a copy. */
static void test_versions(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint32_t version;
		const char *message;
	} cases[] = {{"7.4.", 1, 0x0704, ""},
		     {"8.1.", 1, 0x0801, ""},
		     {"8.4.", 1, 0x0804, ""},
		     {"7.3.", -ENOTSUP, 0x0703, "PHP 7.3, which is not known"},
		     {"9.0.", -ENOTSUP, 0x0900, "PHP 9.0, which is not known"},
		     {"x.2.", -ENOTSUP, 0, "PHP whose version is not in the file"},
		     {"8x2.", -ENOTSUP, 0, "PHP whose version is not in the file"}};
	static const char before[] = "X-Powered-By: PHP/";
	struct php_build build;
	struct error err;
	size_t len;

	if (is_missing(__func__))
		skip();
	uint8_t *data = read_php(&len), *at = memmem(data, len, before, strlen(before));
	assert_non_null(at);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memcpy(at + strlen(before), cases[i].text, 4);
		assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), cases[i].r);
		assert_int_equal(build.version, cases[i].version);
		assert_string_equal(err.message, cases[i].message);
	}
	free(data);
}

static void test_layouts(void **state)
{
	struct php_layout layout;
	unsigned known = 0;

	for (uint32_t version = 0; version < 0x1000; version++) {
		if (!php_layout_of(version, &layout))
			continue;
		known++;
		assert_true(layout.walk.function_bytes <= LISTED_READ_WORDS * 8 && !(layout.walk.function_ops & 7));
		assert_true(layout.walk.function_count < layout.walk.function_ops);
		assert_true(layout.walk.function_file > layout.walk.function_ops && !(layout.walk.function_file & 7));
	}
	assert_int_equal(known, 6);
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void test_damaged_copies(void **state)
{
	struct php_build build;
	struct error err;
	uint64_t random = 4711;
	size_t len;

	if (is_missing(__func__))
		skip();
	uint8_t *good = read_php(&len), *bad = malloc(len);
	assert_non_null(bad);
	for (size_t cut = len - 1; cut > 64; cut /= 2)
		assert_true(recognize_bytes((struct bytes){good, cut}, &build, &err) < 0);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)good;
	for (size_t round = 0; round < 30; round++) {
		memcpy(bad, good, len);
		size_t from = round & 1 ? header->e_shoff : 0, bytes = round & 1 ? sizeof(Elf64_Shdr) * header->e_shnum : 1024;
		for (size_t i = 0; i < 1 + bytes / 64; i++)
			bad[from + next_random(&random) % bytes] = (uint8_t)next_random(&random);
		int r = recognize_bytes((struct bytes){bad, len}, &build, &err);
		assert_true(r <= 1);
		if (r == 1)
			assert_true(build.loop_end > build.loop_start && build.cold_end - build.cold_start <= 1u << 20);
	}
	free(good);
	free(bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed_interpreter),
		cmocka_unit_test(test_what_is_not_supported),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_damaged_copies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
