// SPDX-License-Identifier: Apache-2.0
/* Code objects in a memory made by hand, as several versions lay them out; and what a process that lies could put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/test_faults.h"
#include "runtime/python.h"
#include "runtime/test_published.h"

#define START  0x7f0000000000ull
#define BYTES  (1u << 20)
#define OBJECT (START + 0x1000)
#define TYPE   (START + 0x2000)
#define NAME   (START + 0x3000)
#define PATH   (START + 0x8000)
#define QUAL   (START + 0xd000)
#define LINES  (START + 0x20000)
#define FIRST  42

static uint8_t memory[BYTES];
static size_t reads, bytes_read;

static int read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	reads++;
	if (address < START || address - START > BYTES || BYTES - (address - START) < bytes)
		return -EFAULT;
	memcpy(to, memory + (address - START), bytes);
	bytes_read += bytes;
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

/* Bits of a str's state: kind (bytes in a character), compact, ascii. */
#define COMPACT 8u
#define ASCII	16u

static void put_text(const struct python_layout *layout, unsigned shift, uint64_t at, unsigned width, bool is_ascii,
		     const void *characters, size_t count)
{
	uint32_t bits = width | COMPACT | (is_ascii ? ASCII : 0);

	put_word(at + layout->text_length, count);
	put_half(at + layout->text_state, bits << shift | 1); /* interned */
	put(at + (is_ascii ? layout->text_ascii : layout->text_compact), characters, count * width);
}

static uint32_t check_of(const struct python_layout *layout)
{
	uint64_t words[3];
	const uint32_t offsets[] = {layout->walk.check0 & ~7u, layout->walk.check1, layout->walk.check2};

	for (size_t i = 0; i < 3; i++)
		memcpy(&words[i], memory + (OBJECT - START) + layout->walk.code_from + offsets[i], 8);
	return runtime_check_of(words[0], words[1], words[2]);
}

/* A code object with an ASCII name, "C.f" as its qualified name, a file and four bytes of lines. Returns the check. */
static uint32_t put_code(const struct python_layout *layout, unsigned shift)
{
	memset(memory, 0xa5, sizeof(memory));
	put_word(OBJECT + layout->object_type, TYPE);
	put_word(TYPE + layout->type_name, TYPE + 0x100);
	put(TYPE + 0x100, "code", 5);
	put_half(OBJECT + layout->code_first_line, FIRST);
	put_word(OBJECT + layout->code_name, NAME);
	put_word(OBJECT + layout->code_file, PATH);
	put_word(OBJECT + layout->code_lines, LINES);
	if (layout->code_qualname)
		put_word(OBJECT + layout->code_qualname, QUAL);
	put_text(layout, shift, NAME, 1, true, "f", 1);
	put_text(layout, shift, QUAL, 1, true, "C.f", 3);
	put_text(layout, shift, PATH, 1, true, "/srv/app.py", 11);
	put_word(LINES + layout->bytes_length, 4);
	put(LINES + layout->bytes_data, "\xd8\0\0\x80", 4);
	return check_of(layout);
}

static struct python_layout layout_of(uint32_t version)
{
	struct python_layout layout;

	if (version < 0x030d) {
		assert_true(python_layout_of(version, &layout));
		return layout;
	}
	uint64_t words[TEST_PUBLISHED_WORDS];
	bool is_free_threaded;
	test_published_fill(version == 0x030d ? test_published_3_13 : test_published_3_14, words);
	assert_int_equal(python_layout_published((struct bytes){(uint8_t *)words, sizeof(words)}, &version, &is_free_threaded,
						 &layout, NULL),
			 0);
	return layout;
}

static int read_code(const struct python_layout *layout, uint32_t check, struct python_function *ret)
{
	reads = bytes_read = 0;
	return python_read_function(layout, &runtime_memory, OBJECT, check, ret);
}

static void check_refused(const struct python_layout *layout, uint32_t check, int expected)
{
	struct python_function function;

	assert_int_equal(read_code(layout, check, &function), expected);
	assert_null(function.lines);
	assert_int_equal(function.lines_bytes, 0);
}

/* Where the state's bits begin: behind two of them, a byte (builds without the GIL), or two bytes (3.14). */
static void test_versions(void **state)
{
	static const struct {
		uint32_t version;
		unsigned shift;
	} cases[] = {{0x0306, 2}, {0x0307, 2}, {0x0308, 2}, {0x0309, 2}, {0x030a, 2},
		     {0x030b, 2}, {0x030c, 2}, {0x030d, 2}, {0x030d, 8}, {0x030e, 16}};
	struct python_function function;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct python_layout layout = layout_of(cases[i].version);
		uint32_t check = put_code(&layout, cases[i].shift);
		assert_int_equal(read_code(&layout, check, &function), 0);
		assert_string_equal(function.name, cases[i].version >= 0x030b ? "C.f" : "f");
		assert_string_equal(function.file, "/srv/app.py");
		assert_int_equal(function.first_line, FIRST);
		assert_int_equal(function.lines_bytes, 4);
		assert_memory_equal(function.lines, "\xd8\0\0\x80", 4);
		mem_free(function.lines);
	}
}

static void check_name(unsigned width, bool is_ascii, const void *characters, size_t count, const char *expected)
{
	struct python_layout layout = layout_of(0x030b);
	struct python_function function;
	uint32_t check = put_code(&layout, 2);

	put_text(&layout, 2, QUAL, width, is_ascii, characters, count);
	assert_int_equal(read_code(&layout, check, &function), 0);
	assert_string_equal(function.name, expected);
	mem_free(function.lines);
}

#define BAD "\xef\xbf\xbd" /* U+FFFD */
static void test_characters(void **state)
{
	check_name(1, true, "", 0, "");
	check_name(1, true, "f(<lambda>)", 11, "f(<lambda>)");
	check_name(1, false,
		   "gr\xfc\xdf"
		   "e",
		   5,
		   "gr\xc3\xbc\xc3\x9f"
		   "e");
	check_name(2, false, u"h\u00e9\u4e2d\u6587", 4, "h\xc3\xa9\xe4\xb8\xad\xe6\x96\x87");
	check_name(4, false, U"x\U0001f40d\u4e2d", 3, "x\xf0\x9f\x90\x8d\xe4\xb8\xad");
	/* What would be no text, or would end it. */
	check_name(1, true, "a\0b\n\033c\177", 7, "a" BAD "b" BAD BAD "c" BAD);
	check_name(2, false, (const uint16_t[]){'a', 0xd800, 0xdfff, 0xe000}, 4, "a" BAD BAD "\xee\x80\x80");
	check_name(4, false, (const uint32_t[]){0x110000, UINT32_MAX, 0x10ffff, 0xdc00}, 4, BAD BAD "\xf4\x8f\xbf\xbf" BAD);
}

/* Cut at a character; no more is read than is kept. */
static void test_long_names(void **state)
{
	struct python_layout layout = layout_of(0x030b);
	struct python_function function;
	uint32_t *wide = calloc(PYTHON_NAME_BYTES_MAX, sizeof(*wide));
	char *narrow = malloc(PYTHON_NAME_BYTES_MAX);

	memset(narrow, 'x', PYTHON_NAME_BYTES_MAX);
	uint32_t check = put_code(&layout, 2);
	put_text(&layout, 2, QUAL, 1, true, narrow, PYTHON_NAME_BYTES_MAX);
	put_word(QUAL + layout.text_length, 1u << 20);
	assert_int_equal(read_code(&layout, check, &function), 0);
	assert_int_equal(strlen(function.name), PYTHON_NAME_BYTES_MAX - 1);
	assert_int_equal(strspn(function.name, "x"), PYTHON_NAME_BYTES_MAX - 1);
	assert_true(bytes_read < 4096);
	mem_free(function.lines);
	for (size_t i = 0; i < PYTHON_NAME_BYTES_MAX; i++)
		wide[i] = 0x1f40d;
	check = put_code(&layout, 2);
	put_text(&layout, 2, QUAL, 4, false, wide, PYTHON_NAME_BYTES_MAX);
	assert_int_equal(read_code(&layout, check, &function), 0);
	assert_int_equal(strlen(function.name), (PYTHON_NAME_BYTES_MAX - 1) / 4 * 4);
	assert_memory_equal(function.name + PYTHON_NAME_BYTES_MAX - 8, "\xf0\x9f\x90\x8d", 5);
	mem_free(function.lines);
	free(wide);
	free(narrow);
}

static void test_texts_that_cannot_be(void **state)
{
	static const uint32_t states[] = {0,			      /* nothing is set */
					  (1 | ASCII) << 2,	      /* not compact */
					  (0 | COMPACT) << 2,	      /* no width, as before 3.12 for wchar_t */
					  (3 | COMPACT | ASCII) << 2, /* a width that there is not */
					  (7 | COMPACT | ASCII) << 2};
	struct python_layout layout = layout_of(0x030b);
	uint32_t check;

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		check = put_code(&layout, 2);
		put_half(QUAL + layout.text_state, states[i]);
		check_refused(&layout, check, -EBADMSG);
	}
	check = put_code(&layout, 2);
	put_word(QUAL + layout.text_length, UINT64_MAX); /* negative */
	check_refused(&layout, check, -EBADMSG);
	check = put_code(&layout, 2);
	put_word(PATH + layout.text_length, 1ull << 32);
	check_refused(&layout, check, -EBADMSG);
}

static void test_another_object(void **state)
{
	struct python_layout layout = layout_of(0x030b);
	uint32_t check = put_code(&layout, 2);
	const uint32_t members[] = {layout.code_first_line, layout.code_name, layout.code_lines};

	check_refused(&layout, check ^ 1, -ESTALE);
	check_refused(&layout, check ^ 1u << (RUNTIME_CHECK_BITS - 1), -ESTALE);
	/* Each of the members that are checked is another one by now. */
	for (size_t i = 0; i < 3; i++) {
		check = put_code(&layout, 2);
		memory[OBJECT - START + members[i]] ^= 0x10;
		check_refused(&layout, check, -ESTALE);
	}
	/* The check is right, the type is not. */
	static const char *const types[] = {"cod", "codex", "frame", "Code", ""};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		check = put_code(&layout, 2);
		put(TYPE + 0x100, types[i], strlen(types[i]) + 1);
		check_refused(&layout, check, -ESTALE);
	}
}

static void test_pointers_into_nowhere(void **state)
{
	static const uint64_t nowhere[] = {0, 8, START - 256, START + BYTES, START + BYTES - 4, UINT64_MAX, UINT64_MAX - 7};
	struct python_layout layout = layout_of(0x030c);
	struct python_function function;
	const uint32_t members[] = {layout.code_qualname, layout.code_file};

	for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		uint32_t check = put_code(&layout, 2);
		assert_int_equal(python_read_function(&layout, &runtime_memory, nowhere[i], check, &function), -EFAULT);
		assert_null(function.lines);
		for (size_t k = 0; k < 2; k++) {
			check = put_code(&layout, 2);
			put_word(OBJECT + members[k], nowhere[i]);
			check_refused(&layout, check, -EFAULT);
		}
		put_code(&layout, 2);
		put_word(OBJECT + layout.code_lines, nowhere[i]);
		check_refused(&layout, check_of(&layout), -EFAULT);
		/* An object whose type is not there is gone. */
		check = put_code(&layout, 2);
		put_word(OBJECT + layout.object_type, nowhere[i]);
		check_refused(&layout, check, -ESTALE);
		check = put_code(&layout, 2);
		put_word(TYPE + layout.type_name, nowhere[i]);
		check_refused(&layout, check, -ESTALE);
	}
	/* The head of a str can be read, its characters cannot. */
	uint32_t check = put_code(&layout, 2);
	uint64_t last = START + BYTES - layout.text_compact;
	put_text(&layout, 2, last, 1, false, "", 0);
	put_word(last + layout.text_length, 1);
	put_word(OBJECT + layout.code_qualname, last);
	check_refused(&layout, check, -EFAULT);
}

static void test_line_tables(void **state)
{
	static const struct {
		uint64_t length;
		int r;
		size_t kept;
	} cases[] = {{0, 0, 0},
		     {1, 0, 1},
		     {PYTHON_LINES_BYTES_MAX, 0, PYTHON_LINES_BYTES_MAX},
		     {PYTHON_LINES_BYTES_MAX + 1, 0, 0}, /* the first line stands for all */
		     {UINT64_MAX, 0, 0},
		     {1ull << 40, 0, 0}};
	struct python_layout layout = layout_of(0x030c);
	struct python_function function;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t check = put_code(&layout, 2);
		put_word(LINES + layout.bytes_length, cases[i].length);
		assert_int_equal(read_code(&layout, check, &function), cases[i].r);
		assert_int_equal(function.lines_bytes, cases[i].kept);
		struct bytes lines = {function.lines, function.lines_bytes};
		if (!cases[i].kept)
			assert_int_equal(python_line(layout.lines, lines, function.first_line, 5), FIRST);
		mem_free(function.lines);
	}
	/* It is said to be longer than what can be read. */
	put_code(&layout, 2);
	uint64_t last = START + BYTES - layout.bytes_data - 8;
	put_word(OBJECT + layout.code_lines, last);
	put_word(last + layout.bytes_length, 16);
	check_refused(&layout, check_of(&layout), -EFAULT);
}

/* Offsets that a process publishes: none leads out of what was read of the object. */
static void test_layouts_that_lie(void **state)
{
	static const struct {
		size_t word;
		uint64_t value;
	} cases[] = {
		{TEST_PUBLISHED_3_13_TYPE, 1u << 20},
		{TEST_PUBLISHED_3_13_TYPE, 512},
		{TEST_PUBLISHED_3_13_FILE, 1u << 20},
		{TEST_PUBLISHED_3_13_QUALNAME, 505},
		{TEST_PUBLISHED_3_13_FIRST_LINE, 1u << 19},
		{TEST_PUBLISHED_3_13_ASCII, 1u << 20},
		{TEST_PUBLISHED_3_13_ASCII, 24},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t words[TEST_PUBLISHED_WORDS];
		struct python_layout layout, honest = layout_of(0x030d);
		uint32_t version, check = put_code(&honest, 2);
		bool is_free_threaded;
		test_published_fill(test_published_3_13, words);
		words[cases[i].word] = cases[i].value;
		if (cases[i].word == TEST_PUBLISHED_3_13_FIRST_LINE) {
			words[TEST_PUBLISHED_3_13_NAME] = cases[i].value + 8;
			words[TEST_PUBLISHED_3_13_LINES] = cases[i].value + 16;
		}
		assert_int_equal(python_layout_published((struct bytes){(uint8_t *)words, sizeof(words)}, &version,
							 &is_free_threaded, &layout, NULL),
				 0);
		check_refused(&layout, check, -EBADMSG);
	}
}

static int read_once(void *context)
{
	struct python_function function;

	int r = read_code(context, check_of(context), &function);
	mem_free(function.lines);
	return r;
}

static void test_memory_runs_out(void **state)
{
	struct python_layout layout = layout_of(0x030d);

	put_code(&layout, 2);
	assert_int_equal(test_each_allocation(read_once, &layout), 3); /* two texts, the lines */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_versions),	cmocka_unit_test(test_characters),
		cmocka_unit_test(test_long_names),	cmocka_unit_test(test_texts_that_cannot_be),
		cmocka_unit_test(test_another_object),	cmocka_unit_test(test_pointers_into_nowhere),
		cmocka_unit_test(test_line_tables),	cmocka_unit_test(test_layouts_that_lie),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
