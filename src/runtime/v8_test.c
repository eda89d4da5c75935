/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of V8 in memory made by hand, as each version lays them out; and what a real node says of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/test_v8_image.h"

static const uint32_t versions[][2] = {{9, 4}, {10, 2}, {11, 3}, {12, 4}, {13, 6}};
#define VERSIONS (sizeof(versions) / sizeof(versions[0]))

static struct test_v8 v8;
static struct v8_scripts scripts;

/* Positions: line 1 is 0 to 7, line 2 8 to 15 ... */
#define SOURCE "line 1;\nline 2;\nline 3;\nline 4;\nline 5;\nline 6;\n"

static int setup(void **state)
{
	(void)state;
	v8_scripts_release(&scripts);
	return 0;
}

static int read_table(uint64_t shared, uint64_t data, uint64_t pc, struct v8_table *ret)
{
	struct runtime_memory memory = {test_v8_read, &v8};
	struct v8_source source = {&v8.build, &memory, &scripts, 1};

	return v8_read_table(&source, test_v8_object(shared), data | test_v8_check(&v8, shared), pc, ret);
}

static size_t find(const struct v8_table *table, uint64_t offset, struct v8_line *ret)
{
	return v8_table_find(buffer_bytes(&table->names), buffer_bytes(&table->files), buffer_bytes(&table->lines), offset,
			     ret);
}

static void expect_line(const struct v8_line *found, const char *name, const char *file, uint32_t line, uint32_t first_line)
{
	assert_string_equal(found->name, name);
	assert_string_equal(found->file, file);
	assert_int_equal(found->line, line);
	assert_int_equal(found->first_line, first_line);
}

/* A function of bytecodes, whose lines are 2, 3 and 4. */
static uint64_t make_function(const char *name, uint64_t script, uint64_t *ret_bytecodes)
{
	static const uint8_t codes[] = {4, 0, 5, 0, 0, 6, 0, 0, 7, 0};
	struct test_v8_positions positions = TEST_V8_POSITIONS;

	test_v8_position(&positions, -1, 8, -1, false);
	test_v8_position(&positions, 2, 17, -1, true);
	test_v8_position(&positions, 4, 30, -1, false);
	*ret_bytecodes = test_v8_bytecodes(&v8, codes, sizeof(codes), test_v8_bytes(&v8, positions.data, positions.len));
	return test_v8_function(&v8, name, 8, script, *ret_bytecodes);
}

static void test_interpreted(void **state)
{
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;
	uint64_t bytecodes;

	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		v8_scripts_release(&scripts);
		test_v8_init(&v8, versions[i][0], versions[i][1]);
		uint64_t script = test_v8_script(&v8, "/app/x.js", test_v8_string(&v8, SOURCE));
		uint64_t shared = make_function(i & 1 ? ".object.method" : "work", script, &bytecodes);
		const char *name = i & 1 ? "object.method" : "work";
		assert_int_equal(read_table(shared, 0, 0, &table), 0);
		assert_false(table.is_partial);
		v8.is_gone = true; /* a table needs nothing of the process */
		assert_int_equal(find(&table, 0, lines), 1);
		expect_line(&lines[0], name, "/app/x.js", 2, 2);
		assert_int_equal(find(&table, 2, lines), 1);
		expect_line(&lines[0], name, "/app/x.js", 3, 2);
		assert_int_equal(find(&table, 1000, lines), 1);
		expect_line(&lines[0], name, "/app/x.js", 4, 2);
		v8_table_release(&table);
		uint64_t first = v8.build.layout.bytecodes_data - 1u;
		assert_int_equal(v8_table_offset(&v8.build.layout, 0, first + 4, 0), 4);
		assert_int_equal(v8_table_offset(&v8.build.layout, 0, first - 4, 0), 0);
	}
}

static void test_another_object(void **state)
{
	struct runtime_memory memory = {test_v8_read, &v8};
	struct v8_source source = {&v8.build, &memory, &scripts, 1};
	struct v8_table table;
	uint64_t bytecodes;

	(void)state;
	test_v8_init(&v8, 10, 2);
	uint64_t shared = make_function("work", test_v8_script(&v8, "x.js", test_v8_string(&v8, SOURCE)), &bytecodes);
	uint64_t object = test_v8_object(shared), check = test_v8_check(&v8, shared);
	assert_int_equal(v8_read_table(&source, object, check ^ 1 << 24, 0, &table), -ESTALE);
	assert_int_equal(v8_read_table(&source, object + (1ull << 40), check, 0, &table), -EFAULT);
	test_v8_word(&v8, shared, 0, v8.maps[V8_TYPE_CODE]);
	assert_int_equal(v8_read_table(&source, object, check, 0, &table), -EBADMSG);
	test_v8_word(&v8, shared, 0, v8.maps[V8_TYPE_SHARED]);
	assert_int_equal(v8_read_table(&source, object, check, 0, &table), 0);
	v8_table_release(&table);
}

/* Without positions the first line stands for all; without a source there is none. */
static void test_without_lines(void **state)
{
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;

	(void)state;
	test_v8_init(&v8, 11, 3);
	uint64_t source = test_v8_string(&v8, SOURCE), script = test_v8_script(&v8, "x.js", source);
	uint64_t shared = test_v8_function(&v8, "work", 16, script, test_v8_bytecodes(&v8, "", 0, v8.array_map));
	assert_int_equal(read_table(shared, 0, 0, &table), 0);
	assert_int_equal(find(&table, 3, lines), 1);
	expect_line(&lines[0], "work", "x.js", 3, 3);
	v8_table_release(&table);
	/* The source is being moved. */
	uint64_t moved = test_v8_make(&v8, 0, 16);
	memcpy(test_v8_at(&v8, moved - 1), test_v8_at(&v8, source - 1), 16);
	test_v8_word(&v8, moved, 0, source - 1);
	test_v8_word(&v8, script, v8.build.layout.script_source, moved);
	assert_int_equal(read_table(shared, 0, 0, &table), 0);
	assert_false(table.is_partial);
	assert_int_equal(find(&table, 3, lines), 1);
	expect_line(&lines[0], "work", "x.js", 3, 3);
	v8_table_release(&table);
	test_v8_word(&v8, script, v8.build.layout.script_source, source);
	v8_scripts_release(&scripts);
	test_v8_word(&v8, source, 0, v8.maps[V8_TYPE_CODE]); /* another object by now */
	assert_int_equal(read_table(shared, 0, 0, &table), 0);
	assert_true(table.is_partial);
	assert_int_equal(find(&table, 3, lines), 1);
	expect_line(&lines[0], "work", "x.js", 0, 0);
	v8_table_release(&table);
}

static void test_builtin(void **state)
{
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;

	(void)state;
	test_v8_init(&v8, 12, 4);
	uint64_t shared = test_v8_function(&v8, "ignored", 0, v8.array_map, test_v8_number(17));
	test_v8_word(&v8, shared, v8.build.layout.walk.shared_scope, test_v8_string(&v8, "sort"));
	assert_int_equal(read_table(shared, V8_FRAME_BUILTIN, 0, &table), 0);
	assert_int_equal(find(&table, 0, lines), 1);
	expect_line(&lines[0], "sort", "", 0, 0);
	v8_table_release(&table);
}

static void test_baseline(void **state)
{
	/* 3 bytes before the first bytecode; then 5, 7 and 200 + 1, of bytecodes of 2, 4 (wide) and 3 bytes. */
	static const uint8_t offsets[] = {3, 5, 7, 200, 1};
	static const uint8_t codes[] = {4, 0, 0, 5, 0, 0, 6, 0};
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;
	uint64_t start, other;

	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		v8_scripts_release(&scripts);
		test_v8_init(&v8, versions[i][0], versions[i][1]);
		struct test_v8_positions positions = TEST_V8_POSITIONS;
		test_v8_position(&positions, 0, 8, -1, true);
		test_v8_position(&positions, 2, 17, -1, true);
		test_v8_position(&positions, 6, 30, -1, true);
		uint64_t bytecodes =
			test_v8_bytecodes(&v8, codes, sizeof(codes), test_v8_bytes(&v8, positions.data, positions.len));
		uint64_t script = test_v8_script(&v8, "x.js", test_v8_string(&v8, SOURCE));
		bool is_old = v8.build.layout.types[V8_TYPE_BASELINE_DATA];
		uint64_t code = test_v8_code(&v8, v8.build.layout.kind_baseline, 512, is_old ? v8.array_map : bytecodes,
					     test_v8_bytes(&v8, offsets, sizeof(offsets)), &start);
		uint64_t data = code;
		if (is_old) {
			data = test_v8_make(&v8, v8.maps[V8_TYPE_BASELINE_DATA], 24);
			test_v8_word(&v8, data, 8, code);
			test_v8_word(&v8, data, 16, bytecodes);
		}
		uint64_t shared = test_v8_function(&v8, "work", 8, script, data);
		assert_int_equal(read_table(shared, V8_FRAME_CODE, start + 300, &table), 0);
		assert_int_equal(table.start, start);
		assert_int_equal(table.size, 512);
		const uint32_t expected[][2] = {{0, 2}, {3, 2}, {7, 2}, {8, 3}, {14, 3}, {15, 4}, {300, 4}};
		for (size_t k = 0; k < sizeof(expected) / sizeof(expected[0]); k++) {
			assert_int_equal(find(&table, expected[k][0], lines), 1);
			expect_line(&lines[0], "work", "x.js", expected[k][1], 2);
		}
		v8_table_release(&table);
		assert_int_equal(read_table(make_function("other", script, &other), V8_FRAME_CODE, start + 300, &table),
				 -ENOENT);
	}
}

/* What is being moved has no type just then: what else is known is shown, and the rest is read again for another sample. */
static void test_moving(void **state)
{
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;
	uint64_t bytecodes;

	(void)state;
	test_v8_init(&v8, 11, 3);
	uint64_t script = test_v8_script(&v8, "x.js", test_v8_string(&v8, SOURCE));
	uint64_t shared = make_function("work", script, &bytecodes), name, map;
	const uint64_t objects[] = {script, 0};
	memcpy(&name, test_v8_at(&v8, script - 1) + v8.build.layout.script_name, sizeof(name));
	for (size_t i = 0; i < 2; i++) {
		uint64_t object = objects[i] ? objects[i] : name;
		memcpy(&map, test_v8_at(&v8, object - 1), sizeof(map));
		test_v8_word(&v8, object, 0, TEST_V8_START + 0x1000);
		assert_int_equal(read_table(shared, 40, 0, &table), 0);
		assert_true(table.is_partial);
		assert_int_equal(find(&table, 0, lines), 1);
		assert_string_equal(lines[0].name, "work");
		assert_string_equal(lines[0].file, "");
		v8_table_release(&table);
		test_v8_word(&v8, object, 0, map);
	}
	/* A script without a name. */
	test_v8_word(&v8, script, v8.build.layout.script_name, test_v8_bytes(&v8, "", 0));
	assert_int_equal(read_table(shared, 40, 0, &table), 0);
	assert_false(table.is_partial);
	assert_int_equal(find(&table, 0, lines), 1);
	expect_line(&lines[0], "work", "", 2, 2);
	v8_table_release(&table);
}

struct inlining {
	int64_t position;
	int32_t literal, pad;
};

/* Optimised code of `outer`, with what was inlined there: itself, or `other`, literal 1. */
static uint64_t make_optimised_code(uint64_t outer, uint64_t other, const struct inlining *inlinings, size_t count,
				    const struct test_v8_positions *positions)
{
	const struct v8_layout *layout = &v8.build.layout;
	uint64_t deopt[9] = {0}, start, wrapper = outer, literals[2] = {test_v8_number(0), other | 2}; /* weakly */

	if (layout->types[V8_TYPE_WRAPPER]) {
		wrapper = test_v8_make(&v8, v8.maps[V8_TYPE_WRAPPER], 16);
		test_v8_word(&v8, wrapper, 8, outer);
	}
	deopt[layout->deopt_literals] = test_v8_array(&v8, literals, 2);
	deopt[layout->deopt_shared] = wrapper;
	deopt[layout->deopt_inlining] = test_v8_bytes(&v8, inlinings, count * sizeof(*inlinings));
	test_v8_code(&v8, layout->kind_baseline + 2u, 0x3000, test_v8_array(&v8, deopt, 9),
		     test_v8_bytes(&v8, positions->data, positions->len), &start);
	return start;
}

static struct inlining inlining_at(int64_t position, int64_t parent, int32_t literal)
{
	return (struct inlining){(position + 1) << 1 | (parent + 1) << 31, literal, 0};
}

/* Code of `outer` with `middle` inlined, and `outer` itself inlined into that. */
static uint64_t make_optimised(uint64_t *ret_outer)
{
	struct test_v8_positions positions = TEST_V8_POSITIONS;
	uint64_t bytecodes, script = test_v8_script(&v8, "x.js", test_v8_string(&v8, SOURCE));
	/* At line 3 of outer, and at line 5 of middle. */
	const struct inlining inlinings[] = {inlining_at(17, -1, 1), inlining_at(33, 0, -1)};

	*ret_outer = make_function("outer", script, &bytecodes);
	test_v8_position(&positions, 0, 8, -1, false);
	test_v8_position(&positions, 0x20, 25, 0, false);
	test_v8_position(&positions, 0x40, 41, 1, true);
	test_v8_position(&positions, 0x60, 30, -1, true);
	return make_optimised_code(*ret_outer, test_v8_function(&v8, "middle", 24, script, bytecodes), inlinings, 2,
				   &positions);
}

/* The line at which the functions were inlined that the code has at offsets 0, 16, 32 ... */
static void expect_calls(uint64_t outer, uint64_t start, const uint32_t *expected, size_t count)
{
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;

	assert_int_equal(read_table(outer, V8_FRAME_CODE, start + 1, &table), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(find(&table, i * 16, lines), 2);
		expect_line(&lines[0], "called", "x.js", 1, 1);
		expect_line(&lines[1], "outer", "x.js", expected[i], 2);
	}
	v8_table_release(&table);
}

/* A loop at line 2, in which `called` is called at lines 3 and 4: twice each, once with the position of the loop. */
static void test_inlined_in_loops(void **state)
{
	uint8_t codes[] = {4, 0, 5, 0, 1, 6, 0, 0, 7, 0};

	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		test_v8_init(&v8, versions[i][0], versions[i][1]);
		uint8_t jump = (uint8_t)v8.build.layout.bytecode_jump_loop;
		struct test_v8_positions of_codes = TEST_V8_POSITIONS, positions = TEST_V8_POSITIONS;
		struct inlining inlinings[] = {inlining_at(16, -1, 1), inlining_at(24, -1, 1), inlining_at(8, -1, 1),
					       inlining_at(8, -1, 1), inlining_at(8, -1, 1)};
		uint64_t script = test_v8_script(&v8, "x.js", test_v8_string(&v8, SOURCE));
		codes[5] = jump; /* behind a prefix */
		test_v8_position(&of_codes, 0, 16, -1, true);
		test_v8_position(&of_codes, 2, 24, -1, true);
		test_v8_position(&of_codes, 4, 8, -1, false);
		for (int64_t j = 0; j < 5; j++)
			test_v8_position(&positions, j * 16, 0, j, false);
		uint64_t bytecodes =
			test_v8_bytecodes(&v8, codes, sizeof(codes), test_v8_bytes(&v8, of_codes.data, of_codes.len));
		uint64_t outer = test_v8_function(&v8, "outer", 8, script, bytecodes);
		uint64_t called = test_v8_function(&v8, "called", 0, script, v8.array_map);
		uint64_t start = make_optimised_code(outer, called, inlinings, 4, &positions);
		expect_calls(outer, start, (const uint32_t[]){3, 4, jump ? 3 : 2, jump ? 4 : 2}, 4);
		/* There is no third one to take the position from; and then none at all. */
		start = make_optimised_code(outer, called, inlinings, 5, &positions);
		expect_calls(outer, start, (const uint32_t[]){3, 4, jump ? 3 : 2, jump ? 4 : 2, 2}, 5);
		start = make_optimised_code(outer, called, inlinings + 2, 3, &positions);
		expect_calls(outer, start, (const uint32_t[]){2, 2, 2}, 3);
	}
	v8_layout_of(13, 6, &v8.build.layout);
	assert_int_not_equal(v8.build.layout.bytecode_jump_loop, 0);
}

static void test_inlined(void **state)
{
	struct v8_line lines[V8_INLINES_MAX];
	struct v8_table table;
	uint64_t outer, bytecodes;

	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		v8_scripts_release(&scripts);
		test_v8_init(&v8, versions[i][0], versions[i][1]);
		uint64_t start = make_optimised(&outer);
		assert_int_equal(read_table(outer, V8_FRAME_CODE, start + 0x2345, &table), 0);
		assert_int_equal(table.start, start);
		assert_int_equal(find(&table, 0x1f, lines), 1);
		expect_line(&lines[0], "outer", "x.js", 2, 2);
		assert_int_equal(find(&table, 0x20, lines), 2);
		expect_line(&lines[0], "middle", "x.js", 4, 4);
		expect_line(&lines[1], "outer", "x.js", 3, 2);
		assert_int_equal(find(&table, 0x5f, lines), 3);
		expect_line(&lines[0], "outer", "x.js", 6, 2);
		expect_line(&lines[1], "middle", "x.js", 5, 4);
		expect_line(&lines[2], "outer", "x.js", 3, 2);
		assert_int_equal(find(&table, 0x2345, lines), 1);
		expect_line(&lines[0], "outer", "x.js", 4, 2);
		v8_table_release(&table);
		assert_int_equal(read_table(outer, V8_FRAME_CODE, start + 0x3000, &table), -ENOENT);
		uint64_t other = make_function("other", v8.array_map, &bytecodes);
		assert_int_equal(read_table(other, V8_FRAME_CODE, start + 0x20, &table), -ENOENT);
	}
}

static void expect_text(uint64_t string, const char *expected)
{
	struct runtime_memory memory = {test_v8_read, &v8};
	struct v8_reader reader = {&v8.build.layout, &memory};
	char text[V8_NAME_BYTES_MAX];

	int r = v8_read_string(&reader, string, text);
	assert_int_equal(r, expected ? 0 : -EBADMSG);
	if (expected)
		assert_string_equal(text, expected);
}

static uint64_t make_pair(unsigned form, uint64_t first, uint64_t second, uint32_t length)
{
	uint64_t string = test_v8_make(&v8, v8.string_maps[form], 32);

	test_v8_put(&v8, string, 12, &length, sizeof(length));
	test_v8_word(&v8, string, 16, first);
	test_v8_word(&v8, string, 24, second);
	return string;
}

static void test_strings(void **state)
{
	static const uint16_t wide[] = {'a', 0x20ac, 0xd83d, 0xde00, 0xd800, '\n'};
	enum { CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };

	(void)state;
	test_v8_init(&v8, 13, 6);
	uint64_t abc = test_v8_string(&v8, "abc"), nothing = test_v8_string(&v8, "");
	expect_text(abc, "abc");
	expect_text(test_v8_string(&v8, "\xe9"), "\xc3\xa9"); /* Latin-1 */
	expect_text(make_pair(CONS, abc, make_pair(CONS, test_v8_string(&v8, "."), abc, 4), 7), "abc.abc");
	expect_text(make_pair(CONS, abc, nothing, 3), "abc");
	expect_text(make_pair(THIN, abc, 0, 3), "abc");
	expect_text(make_pair(SLICED, test_v8_string(&v8, "xabcx"), test_v8_number(1), 3), "abc");
	expect_text(make_pair(SLICED, abc, test_v8_number(2), 3), NULL);
	expect_text(make_pair(EXTERNAL | 8, 0, abc - 1 + 16, 3), "abc");
	uint64_t two = test_v8_make(&v8, v8.string_maps[0], 64);
	test_v8_put(&v8, two, 12, &(uint32_t){6}, 4);
	test_v8_put(&v8, two, 16, wide, sizeof(wide));
	expect_text(two, "a\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd\xef\xbf\xbd");
	uint64_t circle = make_pair(CONS, 0, abc, 9);
	test_v8_word(&v8, circle, 16, circle);
	expect_text(circle, NULL);
	circle = make_pair(THIN, 0, 0, 9);
	test_v8_word(&v8, circle, 16, circle);
	expect_text(circle, NULL);
	expect_text(v8.array_map, NULL);
	expect_text(test_v8_number(3), NULL);
	static char many[4000];
	memset(many, 'm', sizeof(many) - 1);
	uint64_t long_one = test_v8_string(&v8, many);
	many[V8_NAME_BYTES_MAX - 1] = 0;
	expect_text(long_one, many);
}

static void test_ends_of_lines(void **state)
{
	static const struct {
		int64_t position;
		uint32_t line;
	} cases[] = {{0, 1}, {1, 1}, {2, 2}, {3, 2}, {4, 3}, {5, 3}, {6, 3}, {7, 4}, {8, 4}, {9, 0}, {-1, 0}};
	struct runtime_memory memory = {test_v8_read, &v8};
	struct v8_reader reader = {&v8.build.layout, &memory};
	struct v8_script script;
	uint32_t line;

	(void)state;
	test_v8_init(&v8, 10, 2);
	uint64_t object = test_v8_script(&v8, "x.js", test_v8_string(&v8, "a\rb\nc\r\nd"));
	assert_int_equal(v8_read_script(&reader, 1, object, &script), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(v8_script_line(&reader, &scripts, &script, cases[i].position, &line), 0);
		assert_int_equal(line, cases[i].line);
	}
}

/* The lines of many scripts are not kept. */
static void test_many_scripts(void **state)
{
	struct runtime_memory memory = {test_v8_read, &v8};
	struct v8_reader reader = {&v8.build.layout, &memory};
	struct v8_script script;
	uint32_t line;

	(void)state;
	test_v8_init(&v8, 10, 2);
	static char lines[20000];
	memset(lines, '\n', sizeof(lines) - 1);
	uint64_t object = test_v8_script(&v8, "x.js", test_v8_string(&v8, lines));
	for (uint64_t i = 0; i < 3 * V8_SCRIPTS_MAX; i++) {
		assert_int_equal(v8_read_script(&reader, i, object, &script), 0);
		assert_int_equal(v8_script_line(&reader, &scripts, &script, 100, &line), 0);
		assert_int_equal(line, 101);
		assert_true(scripts.bytes <= V8_SCRIPTS_BYTES_MAX);
	}
}

static void test_damaged_tables(void **state)
{
	static const uint8_t lines[] = {1, 0, 0, 5, 2, 9, 4};
	struct bytes names = {(const uint8_t *)"a", 2};
	struct v8_line found[V8_INLINES_MAX];

	(void)state;
	assert_int_equal(v8_table_find(names, names, (struct bytes){0}, 0, found), 0);
	for (size_t i = 1; i <= sizeof(lines); i++) {
		assert_int_equal(v8_table_find(names, names, (struct bytes){lines, i}, 7, found), 1);
		assert_string_equal(found[0].name, "a");
	}
	/* Functions that are inlined into each other. */
	static const uint8_t circle[] = {2, 1, 1, 1, 1, 1, 1, 0, 1, 2};
	assert_true(v8_table_find(names, names, (struct bytes){circle, sizeof(circle)}, 7, found) <= V8_INLINES_MAX);
}

static void test_layouts(void **state)
{
	struct v8_layout layout;
	struct v8_process process;

	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		assert_true(v8_layout_of(versions[i][0], versions[i][1], &layout));
		assert_int_equal(layout.walk.kind, RUNTIME_KIND_V8);
		assert_int_equal(layout.walk.shared_scope & 7, 0);
		assert_true(layout.walk.shared_id < V8_SHARED_WORDS * 8 && layout.walk.function_code < V8_FUNCTION_WORDS * 8);
	}
	assert_false(v8_layout_of(8, 1, &layout));
	struct v8_build build = {.builtins_start = 0x5000, .builtins_end = 0x9000, .builtins_offset = 0x3000, .layout = layout};
	v8_place(&build, 12, &process);
	assert_int_equal(process.slot, 12);
	assert_int_equal(process.builtins_start, 0x3000);
	assert_int_equal(process.builtins_end, 0x7000);
}

/* The one of this machine, where there is one. */
static void test_real_node(void **state)
{
	struct error err = {0};
	struct v8_build build;
	struct elf_file file;

	(void)state;
	_cleanup_(fd_closep) int fd = open("/usr/bin/node", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		skip();
	assert_int_equal(elf_file_open(&file, fd, "node", &err), 0);
	int r = v8_recognize(&file, &build, &err);
	elf_file_release(&file);
	if (r == 0) /* libnode has it */
		skip();
	assert_int_equal(r, 1);
	assert_true(build.builtins_end - build.builtins_start > 512u << 10);
	assert_true(build.bytecode_count > 150);
	assert_int_equal(build.bytecode_sizes[0][0], 1); /* Wide */
	struct v8_layout layout;
	assert_true(v8_layout_of(build.major, build.minor, &layout));
	assert_memory_equal(&layout, &build.layout, sizeof(layout)); /* the table says what its symbols say */
}

static void test_no_node(void **state)
{
	struct v8_build build;
	struct elf_file file;

	(void)state;
	_cleanup_(fd_closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(&file, fd, "self", NULL), 0);
	assert_int_equal(v8_recognize(&file, &build, NULL), 0);
	elf_file_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_interpreted, setup),
		cmocka_unit_test_setup(test_another_object, setup),
		cmocka_unit_test_setup(test_without_lines, setup),
		cmocka_unit_test_setup(test_builtin, setup),
		cmocka_unit_test_setup(test_baseline, setup),
		cmocka_unit_test_setup(test_moving, setup),
		cmocka_unit_test_setup(test_inlined, setup),
		cmocka_unit_test_setup(test_inlined_in_loops, setup),
		cmocka_unit_test_setup(test_strings, setup),
		cmocka_unit_test_setup(test_ends_of_lines, setup),
		cmocka_unit_test_setup(test_many_scripts, setup),
		cmocka_unit_test(test_damaged_tables),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_real_node),
		cmocka_unit_test(test_no_node),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	v8_scripts_release(&scripts);
	return failed;
}
