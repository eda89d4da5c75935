// SPDX-License-Identifier: Apache-2.0
/* Which files hold Perl: the one that is installed, whose symbols `readelf` prints, and changed copies of it. */
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
#include "elf/elf_symbols.h"
#include "elf/test_elf.h"
#include "runtime/perl.h"

#define PERL "/usr/bin/perl"

static int recognize_bytes(struct bytes bytes, struct perl_build *ret, struct error *err)
{
	struct elf_file file;

	*err = (struct error){0};
	int r = elf_file_open_memory(&file, bytes, "test", err);
	if (r < 0)
		return r;
	r = perl_recognize(&file, ret, err);
	elf_file_release(&file);
	return r;
}

static uint8_t *read_perl(size_t *ret_len)
{
	struct stat st;
	int fd = open(PERL, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	*ret_len = (size_t)st.st_size;
	uint8_t *data = malloc(*ret_len);
	assert_true(data && pread(fd, data, *ret_len, 0) == (ssize_t)*ret_len);
	close(fd);
	return data;
}

static bool is_missing(const char *test)
{
	if (test_program_is_there(PERL) && test_program_is_there("readelf"))
		return false;
	print_message("skipped: %s: " PERL " or readelf is not installed\n", test);
	return true;
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

static void test_installed_interpreter(void **state)
{
	char line[256] = "", *end;
	struct perl_build build;
	struct perl_process place;
	struct error err;
	unsigned version = 0;
	size_t len;

	if (is_missing(__func__))
		skip();
	FILE *out = popen(PERL " -e 'print int($] * 1000) - 5000'", "r");
	assert_true(out && fscanf(out, "%u", &version) == 1);
	assert_int_equal(pclose(out), 0);
	uint8_t *data = read_perl(&len);
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), 1);
	free(data);
	assert_int_equal(build.version, 5u << 8 | version);
	out = popen("readelf -W --dyn-syms " PERL " | awk '$8 == \"Perl_runops_standard\" { print $2, $3; exit }'", "r");
	assert_true(out && fgets(line, sizeof(line), out));
	assert_int_equal(pclose(out), 0);
	assert_int_equal(build.loop_start, strtoull(line, &end, 16));
	assert_int_equal(build.loop_end, build.loop_start + strtoull(end, NULL, 0));
	perl_place(&build, 0x100000, &place);
	assert_int_equal(place.listed.kind, RUNTIME_KIND_PERL);
	assert_int_equal(place.listed.loop_start, build.loop_start + 0x100000);
	assert_true(place.key == build.key + 0x100000 && place.interpreter_stack && place.interpreter_cop);
}

static void test_versions(void **state)
{
	struct perl_build build;
	struct error err;
	size_t len;

	if (is_missing(__func__))
		skip();
	uint8_t *data = read_perl(&len), *version = find_symbol(data, len, "PL_version");
	uint8_t *bytes = find_symbol(data, len, "PL_interp_size"), usual = *version;
	*version = 26;
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_string_equal(err.message, "Perl 5.26, which is not known");
	*version = 38;
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), 1);
	assert_false(build.layout.is_tested);
	*version = usual;
	bytes[0]++;
	assert_int_equal(recognize_bytes((struct bytes){data, len}, &build, &err), -ENOTSUP);
	assert_non_null(strstr(err.message, "as an unusual build: its interpreter has "));
	free(data);
}

#define SYMBOL(name, at, size, type)                                                                                           \
	{                                                                                                                      \
		name, at, size, type, STB_GLOBAL, 0                                                                            \
	}

/* A build without threads has variables in place of a key. */
static void test_without_threads(void **state)
{
	const struct test_symbol symbols[] = {
		SYMBOL("Perl_runops_standard", 0x10, 64, STT_FUNC), SYMBOL("PL_revision", 0x100, 1, STT_OBJECT),
		SYMBOL("PL_version", 0x101, 1, STT_OBJECT),	    SYMBOL("PL_curcop", 0x110, 8, STT_OBJECT),
		SYMBOL("PL_curstackinfo", 0x118, 8, STT_OBJECT),
	};
	struct perl_build build;
	struct perl_process place;
	struct error err;
	struct buffer b;

	test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = 5, .stripped = true}, &b);
	memcpy(b.data + TEST_ELF_TEXT_OFFSET + 0x100, "\x05\x24", 2);
	assert_int_equal(recognize_bytes(buffer_bytes(&b), &build, &err), 1);
	buffer_release(&b);
	assert_true(build.layout.has_file_globs);
	perl_place(&build, 0x100000, &place);
	assert_int_equal(place.key, 0);
	assert_int_equal(place.cop, TEST_ELF_TEXT_ADDRESS + 0x110 + 0x100000);
	assert_int_equal(place.stack, TEST_ELF_TEXT_ADDRESS + 0x118 + 0x100000);
}

static void test_what_is_not_supported(void **state)
{
	const struct test_symbol symbols[] = {
		SYMBOL("Perl_runops_standard", 0x10, 64, STT_FUNC), SYMBOL("PL_revision", 0x100, 1, STT_OBJECT),
		SYMBOL("PL_version", 0x101, 1, STT_OBJECT), SYMBOL("PL_curcop", 0x110, 8, STT_OBJECT)};
	struct perl_build build;
	struct error err;

	for (size_t count = 1; count <= 4; count++) {
		struct buffer b;
		test_elf_build(&(struct test_elf){.symbols = symbols, .symbol_count = count, .stripped = true}, &b);
		memcpy(b.data + TEST_ELF_TEXT_OFFSET + 0x100, "\x05\x24", 2);
		assert_int_equal(recognize_bytes(buffer_bytes(&b), &build, &err), count < 3 ? 0 : -ENOTSUP);
		buffer_release(&b);
	}
	assert_string_equal(err.message, "Perl 5.36 without PL_thr_key");
}

static void test_damaged_copies(void **state)
{
	struct perl_build build;
	struct error err;
	size_t len;

	if (is_missing(__func__))
		skip();
	uint8_t *data = read_perl(&len);
	for (size_t cut = len - 1; cut > 64; cut /= 2)
		assert_true(recognize_bytes((struct bytes){data, cut}, &build, &err) < 0);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed_interpreter), cmocka_unit_test(test_versions),
		cmocka_unit_test(test_without_threads),	      cmocka_unit_test(test_what_is_not_supported),
		cmocka_unit_test(test_damaged_copies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
