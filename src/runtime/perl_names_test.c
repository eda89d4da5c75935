// SPDX-License-Identifier: Apache-2.0
/* Subroutines and statements of Perl in a memory made by hand; and what a process that lies could put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "runtime/perl.h"

#define START	     0x7f0000000000ull
#define BYTES	     (1u << 16)
#define SUB	     (START + 0x1000)
#define SUB_BODY     (START + 0x1100)
#define GLOB	     (START + 0x2000)
#define GLOB_BODY    (START + 0x2100)
#define DATA	     (START + 0x2200)
#define PACKAGE	     (START + 0x3000)
#define PACKAGE_BODY (START + 0x3100)
#define ARRAY	     (START + 0x3400)
#define NAMES_OF     (START + 0x3800)
#define NAME	     (START + 0x4000)
#define PACKAGE_NAME (START + 0x6000)
#define PATH	     (START + 0x8000)
#define COP	     (START + 0x9000)
#define OP	     (START + 0x9800)

static uint8_t memory[BYTES];

static int read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	if (address < START || address - START > BYTES || BYTES - (address - START) < bytes)
		return -EFAULT;
	memcpy(to, memory + (address - START), bytes);
	return 0;
}
static const struct runtime_memory runtime_memory = {.read = read_memory};

static void put(uint64_t address, const void *data, size_t len)
{
	assert_true(address >= START && address - START + len <= BYTES);
	memcpy(memory + (address - START), data, len);
}

static void put_word(uint64_t address, uint64_t word)
{
	put(address, &word, sizeof(word));
}

static void put_half(uint64_t address, uint32_t half)
{
	put(address, &half, sizeof(half));
}

static void put_value(uint64_t at, uint64_t body, uint32_t flags, uint64_t more)
{
	put_word(at, body);
	put_half(at + 8, 1);
	put_half(at + 12, flags);
	put_word(at + 16, more);
}

static void put_name(uint64_t at, const char *text, size_t len)
{
	put_half(at + 4, (uint32_t)len);
	put(at + 8, text, len);
}

/* App::C::f of /srv/app.pl. */
static struct perl_layout set_up(uint32_t version)
{
	struct perl_layout layout;

	memset(memory, 0, sizeof(memory));
	assert_true(perl_layout_of(version, &layout));
	put_value(SUB, SUB_BODY, 13, 0);
	put_word(SUB_BODY + 40, OP);
	put_word(SUB_BODY + 56, GLOB);
	put_word(SUB_BODY + 64, PATH);
	put_value(GLOB, GLOB_BODY, 9, DATA);
	put_word(GLOB_BODY + 32, NAME);
	put_word(GLOB_BODY + 40, PACKAGE);
	put_word(DATA + 56, GLOB);
	put_value(PACKAGE, PACKAGE_BODY, 12 | 0x2000000, ARRAY);
	put_word(PACKAGE_BODY + 24, 7);
	put_word(layout.has_inline_hash_extras ? PACKAGE_BODY + 32 : ARRAY + 64, PACKAGE_NAME);
	put_name(NAME, "f", 1);
	put_name(PACKAGE_NAME, "App::C", 6);
	put(PATH, "/srv/app.pl", 12);
	return layout;
}

static int read_sub(const struct perl_layout *layout, struct runtime_function *ret)
{
	uint64_t name, file, start;

	memcpy(&start, memory + (SUB_BODY - START) + 40, 8);
	memcpy(&name, memory + (SUB_BODY - START) + 56, 8);
	memcpy(&file, memory + (SUB_BODY - START) + 64, 8);
	return perl_read_function(layout, &runtime_memory, SUB, runtime_check_of(name, file, start), ret);
}

static void test_versions(void **state)
{
	static const uint32_t versions[] = {0x051c, 0x051e, 0x0520, 0x0522, 0x0524, 0x0526, 0x0528};
	struct runtime_function function;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct perl_layout layout = set_up(versions[i]);
		assert_int_equal(read_sub(&layout, &function), 0);
		assert_string_equal(function.name, "App::C::f");
		assert_string_equal(function.file, "/srv/app.pl");
	}
	assert_false(perl_layout_of(0x051a, &(struct perl_layout){0}));
	assert_false(perl_layout_of(0x0523, &(struct perl_layout){0})); /* of development */
	assert_false(perl_layout_of(0x052a, &(struct perl_layout){0}));
}

static void test_names(void **state)
{
	struct runtime_function function;
	struct perl_layout layout = set_up(0x0524);

	/* The subroutine has its name and package itself. */
	put_half(SUB_BODY + 92, 0x8000);
	put_word(SUB_BODY + 56, NAME);
	put_word(SUB_BODY + 32, PACKAGE);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "App::C::f");
	/* The glob's data belong to another glob, which has the name. */
	layout = set_up(0x0524);
	put_value(GLOB + 0x40, GLOB_BODY + 0x80, 9, DATA);
	put_word(GLOB_BODY + 0x80 + 32, NAME + 0x100);
	put_word(GLOB_BODY + 0x80 + 40, PACKAGE);
	put_name(NAME + 0x100, "g", 1);
	put_word(DATA + 56, GLOB + 0x40);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "App::C::g");
	/* A package of several names has them in an array; one that was deleted has none. */
	layout = set_up(0x0524);
	put_word(PACKAGE_BODY + 32, NAMES_OF);
	put_half(PACKAGE_BODY + 60, 2);
	put_word(NAMES_OF, PACKAGE_NAME);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "App::C::f");
	put_word(NAMES_OF, 0);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "f");
	layout = set_up(0x0524);
	put_value(PACKAGE, PACKAGE_BODY, 12, ARRAY);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "f");
}

static void test_statements(void **state)
{
	struct runtime_function function;
	struct perl_layout layout = set_up(0x0524);
	uint32_t check = runtime_check_of(PATH, 17, PERL_OBJECT_EVAL), main = runtime_check_of(PATH, 17, PERL_OBJECT_MAIN);
	static const struct {
		const char *path, *shown;
	} cases[] = {{"(eval 17)", "(eval)"},	 {"(eval 1)", "(eval)"},   {"(eval )", "(eval )"},
		     {"(eval 1x)", "(eval 1x)"}, {"(eval 17", "(eval 17"}, {"", ""}};

	put_half(COP + 36, 17);
	put_word(COP + 48, PATH);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_EVAL, check, &function), 0);
	assert_string_equal(function.name, "(eval)");
	assert_string_equal(function.file, "/srv/app.pl");
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, main, &function), 0);
	assert_string_equal(function.name, "(main)");
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, check, &function), -ESTALE);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | 3, check, &function), -EBADMSG);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, PERL_OBJECT_MAIN, 0, &function), -ESTALE);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put(PATH, cases[i].path, strlen(cases[i].path) + 1);
		assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, main, &function), 0);
		assert_string_equal(function.file, cases[i].shown);
	}
}

/* Without threads the file of a statement is a glob. */
static void test_file_globs(void **state)
{
	struct runtime_function function;
	struct perl_layout layout = set_up(0x0524);
	uint32_t check = runtime_check_of(GLOB, 17, PERL_OBJECT_MAIN);

	layout.has_file_globs = true;
	put_half(COP + 36, 17);
	put_word(COP + 48, GLOB);
	put_name(NAME, "_</srv/app.pl", 13);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, check, &function), 0);
	assert_string_equal(function.name, "(main)");
	assert_string_equal(function.file, "/srv/app.pl");
	put_name(NAME, "_<(eval 17)", 11);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, check, &function), 0);
	assert_string_equal(function.file, "(eval)");
	put_name(NAME, "_", 1);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, check, &function), 0);
	assert_string_equal(function.file, "");
	put_half(NAME + 4, 65537);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, check, &function), -EBADMSG);
	put_half(GLOB + 12, 13);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, COP | PERL_OBJECT_MAIN, check, &function), -EBADMSG);
}

static void test_texts(void **state)
{
	struct runtime_function function;
	struct perl_layout layout = set_up(0x0524);
	uint64_t last = START + BYTES - 5; /* nothing can be read behind it */

	put_name(NAME, "gr\xc3\xbc\xc3\x9f\xff\x1b", 8);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "App::C::gr\xc3\xbc\xc3\x9f\xef\xbf\xbd\xef\xbf\xbd");
	put(last, "/a/b", 5);
	put_word(SUB_BODY + 64, last);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.file, "/a/b");
	memset(memory + (PATH - START), 'x', 4096);
	put_word(SUB_BODY + 64, PATH);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_int_equal(strlen(function.file), RUNTIME_NAME_BYTES_MAX - 1);
	memset(memory + (last - START), 'x', 5);
	put_word(SUB_BODY + 64, last); /* has no end */
	assert_int_equal(read_sub(&layout, &function), -EFAULT);
}

static void test_lies(void **state)
{
	struct runtime_function function;
	struct perl_layout layout = set_up(0x0524);

	assert_int_equal(perl_read_function(&layout, &runtime_memory, SUB, 4711, &function), -ESTALE);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, SUB + 4, 0, &function), -EBADMSG);
	assert_int_equal(perl_read_function(&layout, &runtime_memory, 0x1000, 0, &function), -EFAULT);
	put_half(SUB + 12, 12);
	assert_int_equal(read_sub(&layout, &function), -ESTALE); /* was a subroutine */
	/* A glob that is none, askew, nowhere; names that are too long, askew, nowhere. */
	layout = set_up(0x0524);
	put_half(GLOB + 12, 13);
	assert_int_equal(read_sub(&layout, &function), -EBADMSG);
	layout = set_up(0x0524);
	put_word(SUB_BODY + 56, GLOB + 1);
	assert_int_equal(read_sub(&layout, &function), -EBADMSG);
	put_word(SUB_BODY + 56, 0x1000);
	assert_int_equal(read_sub(&layout, &function), -EFAULT);
	layout = set_up(0x0524);
	put_half(NAME + 4, UINT32_MAX);
	assert_int_equal(read_sub(&layout, &function), -EBADMSG);
	put_half(NAME + 4, 65536);
	put_word(GLOB_BODY + 32, NAME + 2);
	assert_int_equal(read_sub(&layout, &function), -EBADMSG);
	put_word(GLOB_BODY + 32, 0x1000);
	assert_int_equal(read_sub(&layout, &function), -EFAULT);
	/* An array of a size that runs over. */
	layout = set_up(0x0520);
	put_word(PACKAGE_BODY + 24, UINT64_MAX / 8);
	assert_int_equal(read_sub(&layout, &function), 0);
	assert_string_equal(function.name, "f");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),   cmocka_unit_test(test_names), cmocka_unit_test(test_statements),
		cmocka_unit_test(test_file_globs), cmocka_unit_test(test_texts), cmocka_unit_test(test_lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
