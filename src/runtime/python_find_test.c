// SPDX-License-Identifier: Apache-2.0
/*
 * Which files hold an interpreter: those that are installed, whose symbols `readelf` prints; none of what every process maps;
 * and copies of an interpreter that are damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/test_programs.h"
#include "elf/test_elf.h"
#include "runtime/python.h"

#define PYTHON "/usr/bin/python3"

static int recognize_bytes(struct bytes bytes, struct python_build *ret, struct error *err)
{
	struct elf_file file;

	*err = (struct error){0};
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	r = python_recognize(&file, ret, err);
	elf_file_release(&file);
	return r;
}

static int recognize(const char *path, struct python_build *ret)
{
	struct elf_file file;
	struct error err = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	int r = elf_file_open(&file, fd, path, &err);
	if (r == 0) {
		r = python_recognize(&file, ret, &err);
		elf_file_release(&file);
	}
	close(fd);
	if (r < 0)
		print_message("%s: %s\n", path, err.message);
	return r;
}

/* Of .dynsym, as readelf prints it. */
static bool read_symbol(const char *path, const char *name, uint64_t *ret_address, uint64_t *ret_size)
{
	char command[512], line[256] = "";

	snprintf(command, sizeof(command), "readelf -W --dyn-syms %s | awk '$8 == \"%s\" { print $2, $3; exit }'", path, name);
	FILE *out = popen(command, "r");
	assert_non_null(out);
	char *got = fgets(line, sizeof(line), out);
	assert_int_equal(pclose(out), 0);
	if (!got)
		return false;
	char *end;
	*ret_address = strtoull(line, &end, 16);
	*ret_size = strtoull(end, NULL, 0);
	return true;
}

/* The version that the interpreter itself prints. */
static uint32_t read_version(void)
{
	unsigned major = 0, minor = 0;
	FILE *out = popen(PYTHON " -IS -c 'import sys; print(sys.version_info[0], sys.version_info[1])'", "r");

	assert_non_null(out);
	assert_int_equal(fscanf(out, "%u %u", &major, &minor), 2);
	assert_int_equal(pclose(out), 0);
	return major << 8 | minor;
}

#define OUT_MAX 4096u
/* Where jumps out of the loop lead, as objdump disassembles it. */
static size_t read_jumps_out(const char *path, const struct python_build *build, uint64_t *ret)
{
	char command[512], line[256];
	size_t count = 0;

	snprintf(command, sizeof(command),
		 "objdump -d --no-show-raw-insn --start-address=0x%llx --stop-address=0x%llx %s |"
		 " sed -En 's/.*\t(bnd )?j[a-z]+ +([0-9a-f]+) .*/\\2/p'",
		 (unsigned long long)build->loop_start, (unsigned long long)build->loop_end, path);
	FILE *out = popen(command, "r");
	assert_non_null(out);
	while (fgets(line, sizeof(line), out)) {
		uint64_t target = strtoull(line, NULL, 16);
		if (target - build->loop_start >= build->loop_end - build->loop_start && count < OUT_MAX)
			ret[count++] = target;
	}
	assert_int_equal(pclose(out), 0);
	return count;
}

/* It has a cold part where several jumps leave it, and then most of them lead into that. */
static void check_cold(const char *path, const struct python_build *build)
{
	uint64_t targets[OUT_MAX];
	size_t count = read_jumps_out(path, build, targets), inside = 0;

	for (size_t i = 0; i < count; i++)
		inside += targets[i] >= build->cold_start && targets[i] < build->cold_end;
	print_message("%s: %zu of %zu jumps out of the loop lead into its cold part of %llu bytes\n", path, inside, count,
		      (unsigned long long)(build->cold_end - build->cold_start));
	if (build->cold_end) {
		assert_true(build->cold_end <= build->loop_start || build->cold_start >= build->loop_end);
		assert_true(inside >= 3 && inside > count / 2);
	} else {
		assert_true(count < 3);
	}
}

static void check_build(const char *path, uint32_t version)
{
	struct python_build build;
	struct python_process place;
	uint64_t address, size;

	int r = recognize(path, &build);
	assert_int_equal(r, 1);
	assert_int_equal(build.version, version);
	assert_true(read_symbol(path, "_PyRuntime", &address, &size));
	assert_int_equal(build.runtime, address);
	assert_true(read_symbol(path, "_PyEval_EvalFrameDefault", &address, &size));
	assert_int_equal(build.loop_start, address);
	assert_int_equal(build.loop_end, version < 0x030c ? address + size : 0);
	assert_int_equal(build.is_published, version >= 0x030d);
	if (version < 0x030c)
		check_cold(path, &build);
	python_place(&build, 0x100000, &place);
	assert_int_equal(place.listed.loop_start, build.loop_start + 0x100000);
	assert_int_equal(place.listed.loop_end, build.loop_end ? build.loop_end + 0x100000 : 0);
	assert_int_equal(place.listed.cold_end, build.cold_end ? build.cold_end + 0x100000 : 0);
	assert_int_equal(place.interpreters, build.runtime + 0x100000 + build.layout.runtime_interpreters);
	assert_int_equal(place.holder,
			 build.layout.runtime_holder ? build.runtime + 0x100000 + build.layout.runtime_holder : 0);
	assert_int_equal(place.frame_bytes, build.layout.walk.frame_bytes);
}

static bool is_missing(const char *test)
{
	if (test_program_is_there(PYTHON) && test_program_is_there("readelf") && test_program_is_there("objdump"))
		return false;
	print_message("skipped: %s: " PYTHON ", readelf or objdump is not installed\n", test);
	return true;
}

static void test_installed_interpreters(void **state)
{
	char libraries[128];
	glob_t found;
	uint64_t address, size;

	if (is_missing(__func__))
		skip();
	uint32_t version = read_version();
	/* An interpreter that is linked with the library holds nothing itself. */
	if (read_symbol(PYTHON, "_PyEval_EvalFrameDefault", &address, &size))
		check_build(PYTHON, version);
	snprintf(libraries, sizeof(libraries), "/usr/lib/*/libpython%u.%u.so.1.0", version >> 8, version & 0xff);
	if (glob(libraries, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++)
			check_build(found.gl_pathv[i], version);
	}
	globfree(&found);
}

static int check_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct python_build build;
	struct stat st;

	if (info->dlpi_name[0] && stat(info->dlpi_name, &st) == 0) {
		assert_int_equal(recognize(info->dlpi_name, &build), 0);
		(*(size_t *)context)++;
	}
	return 0;
}

/* This program, which is linked with what recognizes interpreters, the libraries that it uses, and a shell. */
static void test_no_interpreters(void **state)
{
	struct python_build build;
	size_t count = 0;

	assert_int_equal(recognize("/proc/self/exe", &build), 0);
	assert_int_equal(recognize("/bin/sh", &build), 0);
	dl_iterate_phdr(check_library, &count);
	assert_true(count >= 2); /* libc and the loader at least */
}

/* ---- files made by hand ---- */

#define LOOP_BYTES 8192u

static int recognize_symbols(const struct test_symbol *symbols, size_t count, struct python_build *ret, struct error *err)
{
	struct buffer b;

	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = count, .stripped = true}, &b);
	int r = recognize_bytes(buffer_bytes(&b), ret, err);
	buffer_release(&b);
	return r;
}

#define LOOP                                                                                                                   \
	{                                                                                                                      \
		"_PyEval_EvalFrameDefault", 0x10, LOOP_BYTES, STT_FUNC, STB_GLOBAL, 0                                          \
	}
#define RUNTIME                                                                                                                \
	{                                                                                                                      \
		"_PyRuntime", 0x80, 0x100, STT_OBJECT, STB_GLOBAL, 0                                                           \
	}
#define CURRENT                                                                                                                \
	{                                                                                                                      \
		"_PyThreadState_Current", 0x90, 8, STT_OBJECT, STB_GLOBAL, 0                                                   \
	}
#define SINCE(name)                                                                                                            \
	{                                                                                                                      \
		name, 0x200, 8, STT_FUNC, STB_GLOBAL, 0                                                                        \
	}
#define VERSION                                                                                                                \
	{                                                                                                                      \
		"Py_Version", 0x300, 8, STT_OBJECT, STB_GLOBAL, 0                                                              \
	}
#define COLD                                                                                                                   \
	{                                                                                                                      \
		"_PyEval_EvalFrameDefault.cold", 0x210, 0x40, STT_FUNC, STB_LOCAL, 0                                           \
	}

/* Each version before 3.11 is told by the functions that it has. */
static void test_old_versions(void **state)
{
	const struct test_symbol symbols[] = {LOOP,
					      RUNTIME,
					      SINCE("PyConfig_InitPythonConfig"),
					      SINCE("PyThreadState_GetFrame"),
					      SINCE("PyIter_Send"),
					      COLD},
				 old[] = {LOOP, CURRENT};
	static const uint32_t versions[] = {0, 0, 0x0307, 0x0308, 0x0309, 0x030a};
	struct python_build build;
	struct python_process place;
	struct error err;

	assert_int_equal(recognize_symbols(symbols, 1, &build, &err), 0);
	for (size_t count = 2; count <= 5; count++) {
		assert_int_equal(recognize_symbols(symbols, count, &build, &err), 1);
		assert_int_equal(build.version, versions[count]);
		assert_int_equal(build.loop_start, TEST_ELF_TEXT_ADDRESS + 0x10);
		assert_int_equal(build.loop_end, build.loop_start + LOOP_BYTES);
		assert_int_equal(build.loop_offset, TEST_ELF_TEXT_OFFSET + 0x10);
		assert_int_equal(build.runtime, TEST_ELF_TEXT_ADDRESS + 0x80);
		assert_int_equal(build.cold_end, 0);
	}
	assert_int_equal(recognize_symbols(symbols, 6, &build, &err), 1);
	assert_int_equal(build.cold_start, TEST_ELF_TEXT_ADDRESS + 0x210);
	assert_int_equal(build.cold_end, build.cold_start + 0x40);
	/* 3.6: the state that has the lock is a variable. */
	assert_int_equal(recognize_symbols(old, 2, &build, &err), 1);
	assert_int_equal(build.version, 0x0306);
	python_place(&build, 0x1000, &place);
	assert_int_equal(place.holder, TEST_ELF_TEXT_ADDRESS + 0x90 + 0x1000);
	assert_int_equal(place.interpreters, 0);
	assert_true(place.listed.cold_start == 0 && place.listed.cold_end == 0);
}

static void check_refused(const struct test_symbol *symbols, size_t count, const char *message)
{
	struct python_build build;
	struct error err;

	assert_int_equal(recognize_symbols(symbols, count, &build, &err), -ENOTSUP);
	assert_string_equal(err.message, message);
}

static void test_what_is_not_supported(void **state)
{
	struct test_symbol symbols[] = {LOOP, RUNTIME, VERSION};

	symbols[0].size = 100;
	check_refused(symbols, 2, "CPython whose _PyEval_EvalFrameDefault has 100 bytes");
	symbols[0].size = UINT32_MAX;
	check_refused(symbols, 2, "CPython whose _PyEval_EvalFrameDefault has 4294967295 bytes");
	symbols[0].size = LOOP_BYTES;
	symbols[0].start = 0x100000;
	check_refused(symbols, 2, "CPython whose _PyEval_EvalFrameDefault is not in the file");
	symbols[0].start = 0x10;
	check_refused(symbols, 3, "CPython 0.0, which is not known"); /* the text is zeroes */
}

/* Versions that Py_Version gives; 3.13 without what it publishes. */
static void test_new_versions(void **state)
{
	const struct test_symbol symbols[] = {LOOP, RUNTIME, VERSION};
	static const struct {
		uint32_t hex;
		int r;
		const char *message;
	} cases[] = {{0x030b0bf0, 1, ""},
		     {0x030c01f0, 1, ""},
		     {0x030500f0, -ENOTSUP, "CPython 3.5, which is not known"},
		     {0x030d00f0, -ENOTSUP, "CPython without the offsets that versions since 3.13 publish"},
		     {0x040000f0, -ENOTSUP, "CPython without the offsets that versions since 3.13 publish"}};
	struct test_elf elf = {.symbols = symbols, .symbol_count = 3, .stripped = true};
	struct python_build build;
	struct error err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buffer b;
		test_elf_build(&elf, &b);
		memcpy(b.data + TEST_ELF_TEXT_OFFSET + 0x300, &cases[i].hex, sizeof(cases[i].hex));
		assert_int_equal(recognize_bytes(buffer_bytes(&b), &build, &err), cases[i].r);
		assert_int_equal(build.version, cases[i].hex >> 16);
		assert_string_equal(err.message, cases[i].message);
		buffer_release(&b);
	}
}

/* ---- damaged copies ---- */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Nonsense in the places that are looked at: whatever it is taken for, that must be within bounds. */
static void check_bounds(int r, const struct python_build *build)
{
	assert_true(r <= 1);
	if (r != 1)
		return;
	assert_true(build->loop_end == 0 || build->loop_end - build->loop_start <= 4u << 20);
	assert_true(build->cold_end - build->cold_start <= 1u << 20);
	assert_true(build->layout.walk.frame_bytes >= 8 && build->layout.walk.frame_bytes <= LISTED_READ_WORDS * 8);
	assert_true(build->layout.walk.code_bytes <= LISTED_READ_WORDS * 8);
}

static void test_damaged_copies(void **state)
{
	struct python_build build;
	struct error err;
	struct stat st;
	uint64_t random = 4711;

	if (is_missing(__func__))
		skip();
	int fd = open(PYTHON, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	size_t len = (size_t)st.st_size;
	uint8_t *good = malloc(len), *bad = malloc(len);
	assert_true(good && bad && pread(fd, good, len, 0) == (ssize_t)len);
	close(fd);
	assert_int_equal(recognize_bytes((struct bytes){good, len}, &build, &err), 1);
	/* Cut: the headers of sections are at the end. */
	for (size_t cut = len - 1; cut > 64; cut /= 2)
		assert_true(recognize_bytes((struct bytes){good, cut}, &build, &err) < 0);
	/* Bytes changed: of the file's header and segments, and of the sections that are looked at. */
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)good;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(good + header->e_shoff);
	for (size_t round = 0; round < 60; round++) {
		memcpy(bad, good, len);
		size_t from = 0, bytes = 1024;
		const Elf64_Shdr *section = &sections[next_random(&random) % header->e_shnum];
		if (round % 3 == 1) {
			from = header->e_shoff;
			bytes = sizeof(Elf64_Shdr) * header->e_shnum;
		} else if (round % 3 == 2 && section->sh_type != SHT_NOBITS && section->sh_size) {
			from = section->sh_offset;
			bytes = section->sh_size;
		}
		for (size_t i = 0; i < 1 + bytes / 64; i++)
			bad[from + next_random(&random) % bytes] = (uint8_t)next_random(&random);
		check_bounds(recognize_bytes((struct bytes){bad, len}, &build, &err), &build);
	}
	free(good);
	free(bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed_interpreters), cmocka_unit_test(test_no_interpreters),
		cmocka_unit_test(test_old_versions),	       cmocka_unit_test(test_what_is_not_supported),
		cmocka_unit_test(test_new_versions),	       cmocka_unit_test(test_damaged_copies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
