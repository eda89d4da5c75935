// SPDX-License-Identifier: Apache-2.0
/* Instruction sequences, methods and tables of lines of Ruby in a memory made by hand; and what a process that lies could put
 * there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/test_faults.h"
#include "runtime/ruby.h"

#define START	 0x7f0000000000ull
#define BYTES	 (1u << 20)
#define SEQUENCE (START + 0x1000)
#define BODY	 (START + 0x1100)
#define INSTR	 (START + 0x1400)
#define LABEL	 (START + 0x2000)
#define PATH	 (START + 0x2100)
#define PATHS	 (START + 0x2200)
#define TEXT	 (START + 0x3000)
#define ENTRIES	 (START + 0x8000)
#define INDEX	 (START + 0x20000)
#define METHOD	 (START + 0x60000)
#define WHAT	 (START + 0x60100)
#define SYMBOLS	 (START + 0x61000)
#define IDS	 (START + 0x61100)
#define NAMES	 (START + 0x61200)
#define NAMES_AT (START + 0x62000)
#define BIAS	 0x1000ull
#define FIRST	 42u

static uint8_t memory[BYTES];
static struct ruby_build build;

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

/* In the object itself if it is short, and else at TEXT. */
static void put_text(uint64_t at, const char *text)
{
	size_t len = strlen(text);

	if (len >= 16) {
		put_word(at, 5 | 1 << 13);
		put_word(at + 16, len);
		put_word(at + 24, TEXT);
		put(TEXT, text, len);
	} else if (build.layout.has_long_texts) {
		put_word(at, 5);
		put_word(at + 16, len);
		put(at + 24, text, len);
	} else {
		put_word(at, 5 | len << 14);
		put(at + 16, text, len);
	}
}

/* "block in f" of /a.rb, without lines. */
static void set_up(uint32_t version)
{
	memset(memory, 0, sizeof(memory));
	build = (struct ruby_build){.version = version, .symbols = SYMBOLS - BIAS, .last_operator = 169};
	assert_true(ruby_layout_of(version, &build.layout));
	put_word(SEQUENCE + 16, BODY);
	put_half(BODY + 4, 2000);
	put_word(BODY + 8, INSTR);
	put_word(BODY + 64, PATH);
	put_word(BODY + 80, LABEL);
	put_word(BODY + 88, build.layout.has_long_texts ? FIRST : FIRST * 2 + 1);
	put_text(LABEL, "block in f");
	put_text(PATH, "/a.rb");
	/* A method "each", identifier 1234, in the third array of names. */
	put_word(METHOD + 16, WHAT);
	put_word(METHOD + 24, 77);
	put_word(METHOD + 32, 88);
	put_word(WHAT + 32, 1234u << 4 | 3);
	put_word(SYMBOLS + 16, IDS);
	put_word(IDS, 7 | 1 << 13);
	put_word(IDS + 16 + 16, NAMES);
	put_word(NAMES, 7);
	put_word(NAMES + 16, 1024);
	put_word(NAMES + 32, NAMES_AT);
	put_word(NAMES_AT + (1234 - 1024) * 2 * 8, LABEL + 0x40);
	put_text(LABEL + 0x40, "each");
}

static int read_code(struct ruby_function *ret)
{
	uint64_t label, path, instr, first;

	memcpy(&instr, memory + (BODY - START) + 8, 8);
	memcpy(&path, memory + (BODY - START) + 64, 8);
	memcpy(&label, memory + (BODY - START) + 80, 8);
	memcpy(&first, memory + (BODY - START) + 88, 8);
	return ruby_read_function(&build, BIAS, &runtime_memory, SEQUENCE, runtime_check_of(label, path, instr ^ first), ret);
}

static int read_method(struct ruby_function *ret)
{
	return ruby_read_function(&build, BIAS, &runtime_memory, METHOD | RUBY_OBJECT_METHOD, runtime_check_of(WHAT, 77, 88),
				  ret);
}

static void test_versions(void **state)
{
	static const uint32_t versions[] = {0x0207, 0x0300, 0x0301, 0x0302, 0x0303};
	struct ruby_function function;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		set_up(versions[i]);
		assert_int_equal(read_code(&function), 0);
		assert_string_equal(function.function.name, "block in f");
		assert_string_equal(function.function.file, "/a.rb");
		assert_int_equal(function.function.first_line, FIRST);
		assert_null(function.lines);
		/* Two paths, the one that was given and the real one; a long one. */
		put_word(BODY + 64, PATHS);
		put_word(PATHS, 7 | 1 << 13);
		put_word(PATHS + 16, PATH);
		put_text(PATH, "/srv/application/lib/rows.rb");
		assert_int_equal(read_code(&function), 0);
		assert_string_equal(function.function.file, "/srv/application/lib/rows.rb");
		assert_int_equal(read_method(&function), 0);
		assert_string_equal(function.function.name, "each");
		assert_string_equal(function.function.file, "");
		/* An operator is its own number. */
		put_word(WHAT + 32, 43);
		put_word(IDS + 16, NAMES);
		put_word(NAMES_AT + 43 * 2 * 8, LABEL);
		assert_int_equal(read_method(&function), 0);
		assert_string_equal(function.function.name, "block in f");
	}
	assert_false(ruby_layout_of(0x0206, &build.layout));
	assert_false(ruby_layout_of(0x0304, &build.layout));
}

/* Entry i begins at position starts[i], with line 100 + i: the index as Ruby builds it. */
static void put_lines(const uint32_t *starts, uint32_t count)
{
	uint32_t entry_bytes = build.layout.entry_bytes, rank = 0;

	put_word(BODY + build.layout.body_lines, ENTRIES);
	put_half(BODY + build.layout.body_lines + 16, count);
	put_word(BODY + build.layout.body_lines + 24, INDEX);
	for (uint32_t i = 0; i < count; i++)
		put_half(ENTRIES + (uint64_t)i * entry_bytes, 100 + i);
	for (uint32_t position = 0, i = 0; position < 54; position++) {
		uint64_t word;
		i += i < count && starts[i] == position;
		memcpy(&word, memory + (INDEX - START) + position / 9 * 8, 8);
		put_word(INDEX + position / 9 * 8, word | (uint64_t)i << position % 9 * 7);
		rank = i;
	}
	for (uint32_t block = 0, i = rank; block < 4; block++) {
		uint64_t at = INDEX + 48 + block * 80, small = 0;
		put_half(at, i);
		uint32_t in_block = 0;
		for (uint32_t word = 0; word < 8; word++) {
			uint64_t bits = 0;
			if (word)
				small |= (uint64_t)in_block << (word - 1) * 9;
			for (uint32_t bit = 0; bit < 64; bit++) {
				if (i < count && starts[i] == 54 + block * 512 + word * 64 + bit) {
					bits |= 1ull << bit;
					i++;
					in_block++;
				}
			}
			put_word(at + 16 + word * 8, bits);
		}
		put_word(at + 8, small);
	}
}

static void test_lines(void **state)
{
	static const uint32_t starts[] = {0, 2, 8, 9, 53, 54, 60, 117, 118, 300, 565, 566, 567, 1500};
	const uint32_t count = sizeof(starts) / sizeof(starts[0]);
	static const uint32_t versions[] = {0x0207, 0x0301, 0x0303};
	struct ruby_function function;

	for (size_t v = 0; v < 3; v++) {
		set_up(versions[v]);
		put_lines(starts, count);
		assert_int_equal(read_code(&function), 0);
		struct bytes lines = {function.lines, function.lines_bytes};
		for (uint32_t place = 0, i = 0; place < 2000; place++) {
			uint32_t position = place ? place - 1 : 0; /* the next instruction is known */
			while (i + 1 < count && starts[i + 1] <= position)
				i++;
			assert_int_equal(ruby_line(lines, FIRST, place), 100 + i);
		}
		mem_free(function.lines);
	}
	/* One entry needs no index; beyond the table, and in one that is cut, it is the first line. */
	set_up(0x0301);
	put_lines(starts, 1);
	assert_int_equal(read_code(&function), 0);
	assert_int_equal(function.lines_bytes, 8);
	assert_int_equal(ruby_line((struct bytes){function.lines, 8}, FIRST, 1000), 100);
	for (size_t len = 0; len < 8; len++)
		assert_int_equal(ruby_line((struct bytes){function.lines, len}, FIRST, 3), FIRST);
	memset(function.lines, 0xff, 8);
	assert_int_equal(ruby_line((struct bytes){function.lines, 8}, FIRST, 3), FIRST);
	mem_free(function.lines);
	set_up(0x0301);
	put_lines(starts, count);
	assert_int_equal(read_code(&function), 0);
	struct bytes lines = {function.lines, function.lines_bytes};
	assert_int_equal(ruby_line(lines, FIRST, RUNTIME_PLACE_MAX), FIRST);
	memset(function.lines + 4 + count * 4, 0xff, function.lines_bytes - 4 - count * 4);
	for (uint32_t place = 0; place < 4000; place++)
		assert_int_equal(ruby_line(lines, FIRST, place), FIRST);
	mem_free(function.lines);
}

static void test_lies(void **state)
{
	static const uint32_t starts[] = {0, 1};
	struct ruby_function function;

	set_up(0x0301);
	assert_int_equal(ruby_read_function(&build, BIAS, &runtime_memory, SEQUENCE, 4711, &function), -ESTALE);
	assert_int_equal(ruby_read_function(&build, BIAS, &runtime_memory, SEQUENCE + 4, 0, &function), -EBADMSG);
	assert_int_equal(ruby_read_function(&build, BIAS, &runtime_memory, 0x1000, 0, &function), -EFAULT);
	assert_int_equal(ruby_read_function(&build, BIAS, &runtime_memory, METHOD | 1, 4711, &function), -ESTALE);
	put_word(BODY + 80, LABEL + 1);
	assert_int_equal(read_code(&function), -EBADMSG);
	put_word(BODY + 80, SEQUENCE); /* no text */
	assert_int_equal(read_code(&function), -EBADMSG);
	put_word(BODY + 80, 0);
	assert_int_equal(read_code(&function), -EBADMSG);
	set_up(0x0301);
	put_word(PATH, 5 | 1 << 13);
	put_word(PATH + 16, 1ull << 40);
	assert_int_equal(read_code(&function), -EBADMSG);
	put_word(PATH + 16, 100);
	put_word(PATH + 24, 0x1000);
	assert_int_equal(read_code(&function), -EFAULT);
	/* Lines: as many as nobody has; nowhere. */
	set_up(0x0301);
	put_lines(starts, 2);
	put_half(BODY + build.layout.body_lines + 16, UINT32_MAX);
	assert_int_equal(read_code(&function), 0);
	assert_null(function.lines);
	put_half(BODY + build.layout.body_lines + 16, 2);
	put_half(BODY + 4, UINT32_MAX);
	assert_int_equal(read_code(&function), 0);
	assert_null(function.lines);
	put_half(BODY + 4, 10);
	put_word(BODY + build.layout.body_lines + 24, 0x1000);
	assert_int_equal(read_code(&function), -EFAULT);
	assert_null(function.lines);
	/* Identifiers that are in no array. */
	set_up(0x0301);
	put_word(WHAT + 32, UINT64_MAX);
	assert_int_equal(read_method(&function), -EBADMSG);
	put_word(IDS, 7);
	put_word(IDS + 16, UINT64_MAX);
	put_word(IDS + 32, START);
	assert_int_equal(read_method(&function), -EFAULT);
	set_up(0x0301);
	put_word(NAMES + 16, 100);
	assert_int_equal(read_method(&function), -EBADMSG);
	build.symbols = 0;
	assert_int_equal(read_method(&function), -ENOTSUP);
}

static int read_once(void *context)
{
	struct ruby_function function;

	int r = read_code(&function);
	mem_free(function.lines);
	return r;
}

static void test_memory_runs_out(void **state)
{
	static const uint32_t starts[] = {0, 1};

	set_up(0x0301);
	put_lines(starts, 2);
	assert_int_equal(test_each_allocation(read_once, NULL), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
