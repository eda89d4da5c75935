// SPDX-License-Identifier: Apache-2.0
/* Which files hold Ruby: the library that is installed, whose symbols `readelf` prints, and changed copies of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/test_programs.h"
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"
#include "runtime/ruby.h"

#define LIBRARIES "/usr/lib/*/libruby-[0-9].[0-9].so.[0-9].[0-9]"

static int recognize_bytes(struct bytes bytes, struct ruby_build *ret, struct error *err)
{
	struct elf_file file;

	*err = (struct error){0};
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	r = ruby_recognize(&file, ret, err);
	elf_file_release(&file);
	return r;
}

/* The first library; NULL if none is installed. */
static uint8_t *read_library(char path[static 256], size_t *ret_len)
{
	struct stat st;
	glob_t found;

	path[0] = 0;
	if (glob(LIBRARIES, 0, NULL, &found) == 0)
		snprintf(path, 256, "%s", found.gl_pathv[0]);
	globfree(&found);
	if (!path[0] || !test_program_is_there("readelf")) {
		print_message("skipped: libruby or readelf is not installed\n");
		return NULL;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	*ret_len = (size_t)st.st_size;
	uint8_t *data = malloc(*ret_len);
	assert_true(data && pread(fd, data, *ret_len, 0) == (ssize_t)*ret_len);
	close(fd);
	return data;
}

static uint64_t read_symbol(const char *path, const char *name)
{
	char command[512], line[256] = "";

	snprintf(command, sizeof(command), "readelf -W --dyn-syms %s | awk '$8 == \"%s\" { print $2; exit }'", path, name);
	FILE *out = popen(command, "r");
	assert_non_null(out);
	char *got = fgets(line, sizeof(line), out);
	assert_int_equal(pclose(out), 0);
	return got ? strtoull(line, NULL, 16) : 0;
}

/* Where the pair {module, offset} of a library is, as the loader is told to fill it in. */
static bool is_filled_in(const char *path, uint64_t address)
{
	char command[512], line[256];
	bool found = false;

	snprintf(command, sizeof(command), "readelf -rW %s | awk '/DTPMOD64/ { print $1 }'", path);
	FILE *out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof(line), out))
		found |= strtoull(line, NULL, 16) == address;
	assert_int_equal(pclose(out), 0);
	return found;
}

static void test_installed_library(void **state)
{
	struct ruby_build build;
	struct ruby_process place;
	struct error err;
	char path[256];
	size_t len;

	uint8_t *data = read_library(path, &len);
	if (!data)
		skip();
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), 1);
	free(data);
	const char *version = strstr(path, "libruby-") + 8;
	assert_int_equal(build.version, (uint32_t)(version[0] - '0') << 8 | (uint32_t)(version[2] - '0'));
	uint64_t loop = read_symbol(path, "rb_vm_exec");
	assert_int_equal(build.is_one_part, loop == 0);
	if (loop)
		assert_int_equal(build.loop_start, loop);
	if (build.version >= 0x0300)
		assert_true(is_filled_in(path, build.storage_index));
	assert_true(build.symbols && build.last_operator > 100 && build.last_operator < 200);
	ruby_place(&build, 0x100000, &place);
	assert_int_equal(place.listed.kind, RUNTIME_KIND_RUBY);
	assert_int_equal(place.listed.loop_start, build.loop_start + 0x100000);
	assert_int_equal(place.storage_index, build.storage_index + 0x100000);
	assert_true(place.frame_bytes == 56 || place.frame_bytes == 64);
}

/* Where the symbol's bytes are in the file. */
static uint8_t *find_symbol(uint8_t *data, size_t len, const char *name)
{
	struct elf_named wanted = {.name = name};
	struct elf_file file;
	uint64_t offset;

	assert_int_equal(elf_file_open_memory(&file, (struct bytes){data, len}, "test", NULL), 0);
	assert_int_equal(elf_named_find(&file, &wanted, 1, NULL), 1);
	assert_non_null(elf_file_find_loaded(&file, wanted.address, &offset));
	elf_file_release(&file);
	return data + offset;
}

static void test_changed_copies(void **state)
{
	static const uint8_t executable[] = {0x64, 0x48, 0x8b, 0x04, 0x25, 0xf8, 0xff, 0xff, 0xff};
	struct ruby_build build;
	struct error err;
	char path[256];
	size_t len;

	uint8_t *data = read_library(path, &len);
	if (!data)
		skip();
	uint8_t *version = find_symbol(data, len, "ruby_api_version"), *code = find_symbol(data, len, "rb_profile_frames");
	uint32_t usual = version[4];
	version[0] = 1;
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "Ruby 1."));
	version[0] = 3;
	version[4] = 0;
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), 1);
	assert_false(build.layout.is_tested);
	version[4] = (uint8_t)usual;
	/* As it is in an executable; and of code that is not known. */
	memset(code, 0x90, 192);
	memcpy(code + 20, executable, sizeof(executable));
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), 1);
	assert_true(build.storage_index == 0 && build.storage_offset == -8);
	memset(code, 0x90, 192);
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "whose thread's context is not found"));
	for (size_t cut = len - 1; cut > 64; cut /= 2)
		assert_true(recognize_bytes((struct bytes){data, cut}, &build, &err) < 0);
	free(data);
}

static void test_other_files(void **state)
{
	const struct test_symbol symbols[] = {{"ruby_api_version", 0x10, 12, STT_OBJECT, STB_GLOBAL, 0},
					      {"rb_profile_frames", 0x40, 64, STT_FUNC, STB_GLOBAL, 0}};
	struct ruby_build build;
	struct error err;
	struct buffer b;

	for (size_t count = 1; count <= 2; count++) {
		test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = count, .stripped = true}, &b);
		assert_int_equal(recognize_bytes(buffer_bytes(&b), &build, &err), count < 2 ? 0 : -ENOTSUP);
		buffer_release(&b);
	}
	assert_string_equal(err.message, "Ruby 0.0, which is not known");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed_library),
		cmocka_unit_test(test_changed_copies),
		cmocka_unit_test(test_other_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
