// SPDX-License-Identifier: Apache-2.0
/* Layouts: those of the tables hold what the walk relies on; published ones are found word by word, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>

#include "runtime/python.h"
#include "runtime/test_published.h"

#define FRAME_BYTES_MAX (LISTED_READ_WORDS * 8)

static bool is_word_within(uint32_t offset, uint32_t bytes)
{
	return !(offset & 7) && offset + 8 <= bytes;
}

/* What bpf/python.h says of a process, and python.h of a layout. */
static void check_sound(const struct python_layout *layout)
{
	const struct python_process *walk = &layout->walk;

	assert_true(walk->frame_bytes >= 8 && walk->frame_bytes <= FRAME_BYTES_MAX);
	assert_true(is_word_within(walk->frame_code, walk->frame_bytes) &&
		    is_word_within(walk->frame_back, walk->frame_bytes) &&
		    is_word_within(walk->frame_instr & ~7u, walk->frame_bytes) && walk->frame_owner < walk->frame_bytes);
	assert_true(walk->frame_code != walk->frame_back && walk->frame_code != walk->frame_instr &&
		    walk->frame_back != walk->frame_instr);
	assert_true(walk->code_bytes > 0 && walk->code_bytes <= FRAME_BYTES_MAX && !(walk->code_from & 7));
	assert_int_equal(walk->code_from + walk->check0, layout->code_first_line);
	assert_int_equal(walk->code_from + walk->check1, layout->code_name);
	assert_int_equal(walk->code_from + walk->check2, layout->code_lines);
	assert_true(walk->check0 < 8 && is_word_within(walk->check1, walk->code_bytes) &&
		    is_word_within(walk->check2, walk->code_bytes));
	assert_true(walk->thread_next == 8 && walk->thread_interpreter == 16 && walk->thread_id && walk->thread_frame);
	assert_true(walk->interpreter_threads && layout->object_type && layout->type_name && layout->bytes_data &&
		    layout->bytes_length);
	assert_true(layout->text_length + 8 <= layout->text_ascii && layout->text_state + 4 <= layout->text_ascii &&
		    layout->text_ascii < layout->text_compact);
	/* One of both, never: a number of the last instruction, and a pointer to it. */
	assert_true(!(walk->listed.flags & PYTHON_LAST_INSTR) == (walk->code_instr != 0));
	assert_true(!(walk->listed.flags & LISTED_ANCHORED) == (walk->owner_shim == 0));
	/* Addresses come with the process. */
	assert_true(!walk->listed.loop_start && !walk->listed.loop_end && !walk->listed.cold_start && !walk->holder &&
		    !walk->interpreters);
}

static void test_tables(void **state)
{
	static const struct {
		uint32_t version, flags;
		enum python_line_format lines;
	} expected[] = {
		{0x0306, PYTHON_EACH_IS_ENTRY | PYTHON_LAST_INSTR | PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
		{0x0307, PYTHON_EACH_IS_ENTRY | PYTHON_LAST_INSTR | PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
		{0x0308, PYTHON_EACH_IS_ENTRY | PYTHON_LAST_INSTR | PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
		{0x0309, PYTHON_EACH_IS_ENTRY | PYTHON_LAST_INSTR | PYTHON_HALF_INSTR, PYTHON_LINES_LNOTAB},
		{0x030a, PYTHON_EACH_IS_ENTRY | PYTHON_LAST_INSTR, PYTHON_LINES_TABLE},
		{0x030b, PYTHON_CFRAME | PYTHON_ENTRY_FLAG, PYTHON_LINES_LOCATIONS},
		{0x030c, PYTHON_CFRAME | LISTED_ANCHORED, PYTHON_LINES_LOCATIONS},
	};
	struct python_layout layout;

	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_true(python_layout_of(expected[i].version, &layout));
		check_sound(&layout);
		assert_int_equal(layout.walk.listed.flags, expected[i].flags);
		assert_int_equal(layout.lines, expected[i].lines);
		assert_int_equal(layout.code_qualname != 0, expected[i].version >= 0x030b);
		/* Who has the lock: a variable of the runtime, since 3.12 the interpreter's, in 3.6 the variable itself. */
		assert_int_equal(layout.runtime_holder != 0, expected[i].version >= 0x0307 && expected[i].version < 0x030c);
		assert_int_equal(layout.walk.interpreter_gil != 0, expected[i].version == 0x030c);
		assert_int_equal(layout.runtime_interpreters != 0, expected[i].version >= 0x0307);
	}
}

static void test_unknown_versions(void **state)
{
	static const uint32_t versions[] = {0, 0x0207, 0x0305, 0x030d, 0x030e, 0x030f, 0x0400, 0xffff, UINT32_MAX};
	struct python_layout layout;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
		assert_false(python_layout_of(versions[i], &layout));
}

static int publish(const uint64_t *words, size_t bytes, struct python_layout *ret, uint32_t *version, bool *is_free_threaded,
		   struct error *err)
{
	*err = (struct error){0};
	return python_layout_published((struct bytes){(const uint8_t *)words, bytes}, version, is_free_threaded, ret, err);
}

static void test_what_3_13_publishes(void **state)
{
	uint64_t words[TEST_PUBLISHED_WORDS];
	struct python_layout layout;
	struct error err;
	uint32_t version;
	bool is_free_threaded;

	test_published_fill(test_published_3_13, words);
	assert_int_equal(publish(words, sizeof(words), &layout, &version, &is_free_threaded, &err), 0);
	check_sound(&layout);
	assert_true(version == 0x030d && !is_free_threaded);
	const struct python_process *walk = &layout.walk;
	assert_int_equal(layout.runtime_interpreters, 632);
	assert_true(walk->interpreter_next == 7264 && walk->interpreter_threads == 7344);
	assert_true(walk->interpreter_gil == 16 && walk->gil_holder == 8);
	assert_true(walk->thread_frame == 72 && walk->thread_id == 152);
	assert_true(walk->frame_back == 8 && walk->frame_code == 0 && walk->frame_instr == 56 && walk->frame_owner == 70);
	assert_true(walk->frame_bytes == 72 && walk->code_instr == 200 && walk->owner_shim == 3);
	assert_true(layout.code_file == 112 && layout.code_name == 120 && layout.code_qualname == 128);
	assert_true(layout.code_lines == 136 && layout.code_first_line == 68);
	assert_true(layout.object_type == 8 && layout.type_name == 24);
	assert_true(layout.bytes_length == 16 && layout.bytes_data == 32);
	assert_true(layout.text_length == 16 && layout.text_state == 32 && layout.text_ascii == 40 &&
		    layout.text_compact == 56);
	assert_int_equal(walk->listed.flags, LISTED_ANCHORED);
	assert_int_equal(layout.lines, PYTHON_LINES_LOCATIONS);
	/* Without the lock nobody holds it. */
	words[TEST_PUBLISHED_FREE_THREADED] = 1;
	assert_int_equal(publish(words, sizeof(words), &layout, &version, &is_free_threaded, &err), 0);
	assert_true(is_free_threaded && walk->interpreter_gil == 0 && walk->gil_holder == 0);
	/* A build that puts the owner, and only it, further back. */
	words[TEST_PUBLISHED_3_13_OWNER] = 90;
	assert_int_equal(publish(words, sizeof(words), &layout, &version, &is_free_threaded, &err), 0);
	assert_int_equal(walk->frame_bytes, 96);
	check_sound(&layout);
	words[TEST_PUBLISHED_3_13_EXECUTABLE] = 104;
	assert_int_equal(publish(words, sizeof(words), &layout, &version, &is_free_threaded, &err), 0);
	assert_int_equal(walk->frame_bytes, 112);
	check_sound(&layout);
}

static void test_what_3_14_publishes(void **state)
{
	uint64_t words[TEST_PUBLISHED_WORDS];
	struct python_layout layout;
	struct error err;
	uint32_t version;
	bool is_free_threaded;

	test_published_fill(test_published_3_14, words);
	assert_int_equal(publish(words, sizeof(words), &layout, &version, &is_free_threaded, &err), 0);
	check_sound(&layout);
	assert_int_equal(version, 0x030e);
	const struct python_process *walk = &layout.walk;
	assert_int_equal(layout.runtime_interpreters, 808);
	assert_true(walk->interpreter_next == 7280 && walk->interpreter_threads == 7360 && walk->interpreter_gil == 24);
	assert_true(walk->thread_frame == 72 && walk->thread_id == 168);
	assert_true(walk->frame_back == 8 && walk->frame_code == 0 && walk->frame_instr == 56 && walk->frame_owner == 74);
	assert_true(walk->frame_bytes == 80 && walk->code_instr == 216);
	assert_true(layout.code_file == 112 && layout.code_name == 120 && layout.code_qualname == 128);
	assert_true(layout.code_lines == 136 && layout.code_first_line == 68);
	assert_true(layout.object_type == 8 && layout.type_name == 24);
	assert_true(layout.bytes_length == 16 && layout.bytes_data == 32);
	assert_true(layout.text_length == 16 && layout.text_state == 36 && layout.text_ascii == 40);
}

static void test_published_is_refused(void **state)
{
	static const struct {
		size_t word;
		uint64_t value;
		int r;
		const char *message;
	} cases[] = {
		{0, 0, -ENOTSUP, "CPython without the offsets that versions since 3.13 publish"},
		{0, 0x7970677562656479, -ENOTSUP, "CPython without the offsets that versions since 3.13 publish"},
		{TEST_PUBLISHED_VERSION, 0x030c00f0, -ENOTSUP, "CPython 3.12, whose published offsets are not known"},
		{TEST_PUBLISHED_VERSION, 0x030f00a1, -ENOTSUP, "CPython 3.15, whose published offsets are not known"},
		{TEST_PUBLISHED_3_13_INTERPRETERS, 0, -EBADMSG, "CPython 3.13 publishes offsets that cannot be"},
		{TEST_PUBLISHED_3_13_INTERPRETERS, UINT64_MAX, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_INTERPRETERS, (1ull << 32) + 632, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_NEXT, (1u << 20) + 1, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_THREADS, 0, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_FRAME, 0, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_THREAD_ID, 0, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_PREVIOUS, 0, -EBADMSG, NULL}, /* as the code */
		{TEST_PUBLISHED_3_13_PREVIOUS, LISTED_READ_WORDS * 8, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_EXECUTABLE, 4, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_INSTR, 121, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_INSTR, 1u << 20, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_OWNER, LISTED_READ_WORDS * 8, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_NAME, 60, -EBADMSG, NULL}, /* before the first line */
		{TEST_PUBLISHED_3_13_NAME, 124, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_NAME, 64 + LISTED_READ_WORDS * 8, -EBADMSG, NULL}, /* further than is read at once */
		{TEST_PUBLISHED_3_13_LINES, 0, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_LINES, 64 + LISTED_READ_WORDS * 8, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_FIRST_LINE, 69, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_FIRST_LINE, 4096, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_CODE, 0, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_TYPE, 0, -EBADMSG, NULL},
		{TEST_PUBLISHED_3_13_ASCII, 0, -EBADMSG, NULL},
	};
	uint64_t words[TEST_PUBLISHED_WORDS];
	struct python_layout layout;
	struct error err;
	uint32_t version;
	bool is_free_threaded;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		test_published_fill(test_published_3_13, words);
		words[cases[i].word] = cases[i].value;
		int r = publish(words, sizeof(words), &layout, &version, &is_free_threaded, &err);
		if (r != cases[i].r)
			fail_msg("word %zu, value %llu: %d, not %d", cases[i].word, (unsigned long long)cases[i].value, r,
				 cases[i].r);
		assert_string_equal(err.message,
				    cases[i].message ? cases[i].message : "CPython 3.13 publishes offsets that cannot be");
	}
}

/* With each word that is missing at the end; and half a one. */
static void test_published_is_too_short(void **state)
{
	uint64_t words[TEST_PUBLISHED_WORDS];
	struct python_layout layout;
	struct error err;
	uint32_t version;
	bool is_free_threaded;
	size_t needed = (TEST_PUBLISHED_3_13_ASCII + 1) * sizeof(words[0]);

	test_published_fill(test_published_3_13, words);
	assert_int_equal(publish(words, needed, &layout, &version, &is_free_threaded, &err), 0);
	assert_int_equal(publish(words, needed - 1, &layout, &version, &is_free_threaded, &err), -EBADMSG);
	assert_int_equal(publish(NULL, 0, &layout, &version, &is_free_threaded, &err), -ENOTSUP);
	for (size_t bytes = 1; bytes < needed; bytes++) {
		int r = publish(words, bytes, &layout, &version, &is_free_threaded, &err);
		assert_int_equal(r, bytes < 128 ? -ENOTSUP : -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_unknown_versions),
		cmocka_unit_test(test_what_3_13_publishes),
		cmocka_unit_test(test_what_3_14_publishes),
		cmocka_unit_test(test_published_is_refused),
		cmocka_unit_test(test_published_is_too_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
