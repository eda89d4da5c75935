// SPDX-License-Identifier: Apache-2.0
/* Functions of PHP in a memory made by hand, as several versions lay them out; and what a process that lies could put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "runtime/php.h"

#define START	 0x7f0000000000ull
#define BYTES	 (1u << 16)
#define FUNCTION (START + 0x1000)
#define CLASS	 (START + 0x2000)
#define OPS	 (START + 0x3000)
#define NAME	 (START + 0x4000)
#define OWNER	 (START + 0x6000)
#define PATH	 (START + 0x8000)

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

static void put_text(uint64_t at, const char *text, size_t len)
{
	put_word(at + 16, len);
	put(at + 24, text, len);
	put(at + 24 + len, "", 1);
}

/* A method "App\C::f" of a file. */
static struct php_layout set_up(uint32_t version, uint8_t type)
{
	struct php_layout layout;
	uint32_t first_line = 42;

	memset(memory, 0xa5, sizeof(memory));
	assert_true(php_layout_of(version, &layout));
	put(FUNCTION, &type, 1);
	put_word(FUNCTION + PHP_FUNCTION_NAME, NAME);
	put_word(FUNCTION + PHP_FUNCTION_CLASS, CLASS);
	put_word(FUNCTION + layout.walk.function_ops, OPS);
	put_word(FUNCTION + layout.walk.function_file, PATH);
	put(FUNCTION + layout.walk.function_file + 8, &first_line, sizeof(first_line));
	put_word(CLASS + 8, OWNER);
	put_text(NAME, "f", 1);
	put_text(OWNER, "App\\C", 5);
	put_text(PATH, "/srv/app.php", 12);
	return layout;
}

static int read_function(const struct php_layout *layout, struct runtime_function *ret)
{
	__u64 words[LISTED_READ_WORDS];

	memcpy(words, memory + (FUNCTION - START), sizeof(words));
	return php_read_function(layout, &runtime_memory, FUNCTION, php_check_of(&layout->walk, words), ret);
}

static void test_versions(void **state)
{
	static const uint32_t versions[] = {0x0704, 0x0800, 0x0801, 0x0802, 0x0803, 0x0804};
	struct runtime_function function;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct php_layout layout = set_up(versions[i], PHP_FUNCTION_USER);
		assert_int_equal(read_function(&layout, &function), 0);
		assert_string_equal(function.name, "App\\C::f");
		assert_string_equal(function.file, "/srv/app.php");
		assert_int_equal(function.first_line, 42);
	}
}

static void test_kinds(void **state)
{
	struct runtime_function function;

	/* Written in C: no file, whatever lies where one would. */
	struct php_layout layout = set_up(0x0802, PHP_FUNCTION_INTERNAL);
	put_word(FUNCTION + PHP_FUNCTION_CLASS, 0);
	put_text(NAME, "array_map", 9);
	assert_int_equal(read_function(&layout, &function), 0);
	assert_string_equal(function.name, "array_map");
	assert_string_equal(function.file, "");
	assert_int_equal(function.first_line, 0);
	/* The code of a file outside of functions. */
	layout = set_up(0x0802, PHP_FUNCTION_USER);
	put_word(FUNCTION + PHP_FUNCTION_NAME, 0);
	put_word(FUNCTION + PHP_FUNCTION_CLASS, 0);
	assert_int_equal(read_function(&layout, &function), 0);
	assert_string_equal(function.name, "{main}");
	assert_string_equal(function.file, "/srv/app.php");
	/* A class without a name. */
	layout = set_up(0x0802, PHP_FUNCTION_USER);
	put_text(OWNER, "class@anonymous\0/srv/app.php:3$0", 32);
	assert_int_equal(read_function(&layout, &function), 0);
	assert_string_equal(function.name, "class@anonymous::f");
}

static void test_texts(void **state)
{
	char text[3000];
	struct runtime_function function;
	struct php_layout layout = set_up(0x0802, PHP_FUNCTION_USER);

	put_text(NAME, "gr\xc3\xbc\xc3\x9f\xff\x1b", 9);
	assert_int_equal(read_function(&layout, &function), 0);
	assert_string_equal(function.name, "App\\C::gr\xc3\xbc\xc3\x9f\xef\xbf\xbd\xef\xbf\xbd");
	/* Cut at a character: 7 bytes are the class's. */
	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xbc", 2);
	put_text(NAME, text, sizeof(text));
	assert_int_equal(read_function(&layout, &function), 0);
	assert_int_equal(strlen(function.name), RUNTIME_NAME_BYTES_MAX - 1);
	put_text(NAME, "", 0);
	assert_int_equal(read_function(&layout, &function), 0);
	assert_string_equal(function.name, "App\\C::");
}

static void test_lies(void **state)
{
	struct runtime_function function;
	struct php_layout layout = set_up(0x0802, PHP_FUNCTION_USER);

	assert_int_equal(php_read_function(&layout, &runtime_memory, FUNCTION, 4711, &function), -ESTALE);
	assert_int_equal(php_read_function(&layout, &runtime_memory, FUNCTION + 1, 0, &function), -EBADMSG);
	assert_int_equal(php_read_function(&layout, &runtime_memory, START + BYTES - 8, 0, &function), -EFAULT);
	/* Texts: longer than any name; that do not end where they say; nowhere; askew. */
	put_word(NAME + 16, 1u << 30);
	assert_int_equal(read_function(&layout, &function), -EBADMSG);
	put_word(NAME + 16, UINT64_MAX);
	assert_int_equal(read_function(&layout, &function), -EBADMSG);
	put_word(NAME + 16, 3);
	assert_int_equal(read_function(&layout, &function), -EBADMSG);
	put_word(NAME + 16, 1u << 19);
	assert_int_equal(read_function(&layout, &function), -EFAULT);
	put_word(FUNCTION + PHP_FUNCTION_NAME, NAME + 1);
	assert_int_equal(read_function(&layout, &function), -EBADMSG);
	put_word(FUNCTION + PHP_FUNCTION_NAME, 8);
	assert_int_equal(read_function(&layout, &function), -EFAULT);
	layout = set_up(0x0802, PHP_FUNCTION_USER);
	put_word(FUNCTION + PHP_FUNCTION_CLASS, CLASS + 4);
	assert_int_equal(read_function(&layout, &function), -EBADMSG);
	layout = set_up(0x0802, 3);
	assert_int_equal(read_function(&layout, &function), -EBADMSG);
	layout = set_up(0x0802, PHP_FUNCTION_EVAL);
	put_word(FUNCTION + layout.walk.function_file, 0);
	assert_int_equal(read_function(&layout, &function), -EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
