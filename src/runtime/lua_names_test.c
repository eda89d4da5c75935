// SPDX-License-Identifier: Apache-2.0
/* Prototypes of Lua in a memory made by hand: files, lines, and what instructions call; and what a process that lies could put
 * there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/test_faults.h"
#include "runtime/lua.h"

#define START	  0x7f0000000000ull
#define BYTES	  (1u << 20)
#define PROTOTYPE (START + 0x1000)
#define CODE	  (START + 0x2000)
#define LINES	  (START + 0x4000)
#define FAR_LINES (START + 0x6000)
#define LOCALS	  (START + 0x7000)
#define UPVALUES  (START + 0x8000)
#define CONSTANTS (START + 0x9000)
#define TEXTS	  (START + 0xa000)
#define SOURCE	  (START + 0x10000)
#define FIRST	  42u

static uint8_t memory[BYTES];
static struct lua_layout layout;
static uint32_t code_count, text_count, constant_count, local_count;

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

static void put_byte(uint64_t address, uint8_t byte)
{
	put(address, &byte, 1);
}

static void put_text(uint64_t at, const char *text)
{
	size_t len = strlen(text);
	bool is_short = len <= 40 && layout.version >= 0x0503;

	put_byte(at + 8, is_short || layout.version < 0x0503 ? 4 : 0x14);
	if (is_short)
		put_byte(at + 11, (uint8_t)len);
	else
		put_word(at + 16, len);
	put(at + 24, text, len);
}

static uint64_t new_text(const char *text)
{
	uint64_t at = TEXTS + text_count++ * 0x80ull;

	put_text(at, text);
	return at;
}

static uint32_t new_constant(const char *text)
{
	put_word(CONSTANTS + constant_count * 16ull, new_text(text));
	put_word(CONSTANTS + constant_count * 16ull + 8, 0x44);
	put_half(PROTOTYPE + layout.prototype.constant_count, constant_count + 1);
	return constant_count++;
}

static void new_local(const char *name, uint32_t start, uint32_t end)
{
	uint64_t at = LOCALS + local_count * 16ull;

	put_word(at, new_text(name));
	put_half(at + 8, start);
	put_half(at + 12, end);
	put_half(PROTOTYPE + layout.prototype.local_count, ++local_count);
}

/* A function of /a.lua, at line 42, without code. */
static void set_up(uint32_t version)
{
	memset(memory, 0, sizeof(memory));
	code_count = text_count = constant_count = local_count = 0;
	assert_true(lua_layout_of(version, version == 0x0503 ? 6 : 4, &layout));
	const struct lua_prototype *prototype = &layout.prototype;
	put_byte(PROTOTYPE + 8, (uint8_t)prototype->type);
	put_word(PROTOTYPE + prototype->code, CODE);
	put_word(PROTOTYPE + prototype->lines, LINES);
	if (prototype->far_lines)
		put_word(PROTOTYPE + prototype->far_lines, FAR_LINES);
	put_word(PROTOTYPE + prototype->locals, LOCALS);
	put_word(PROTOTYPE + prototype->constants, CONSTANTS);
	put_word(PROTOTYPE + prototype->upvalues, UPVALUES);
	put_word(PROTOTYPE + prototype->source, SOURCE);
	put_half(PROTOTYPE + prototype->first_line, FIRST);
	put_half(PROTOTYPE + prototype->upvalue_count, 2);
	put_text(SOURCE, "@/a.lua");
	put_word(UPVALUES, new_text("first"));
	put_word(UPVALUES + prototype->upvalue_bytes, new_text("second"));
}

static uint32_t emit(uint32_t code)
{
	put_half(CODE + code_count * 4ull, code);
	put_half(PROTOTYPE + layout.prototype.code_count, code_count + 1);
	return code_count++;
}

/* k: C is a constant. */
static uint32_t emit_abc(uint32_t op, uint32_t a, uint32_t b, uint32_t c, bool k)
{
	if (layout.version >= 0x0504)
		return emit(op | a << 7 | (uint32_t)k << 15 | b << 16 | c << 24);
	return emit(op | a << 6 | (c | (uint32_t)k << 8) << 14 | b << 23);
}

static uint32_t emit_abx(uint32_t op, uint32_t a, uint32_t bx)
{
	return layout.version >= 0x0504 ? emit(op | a << 7 | bx << 15) : emit(op | a << 6 | bx << 14);
}

static uint32_t emit_jump(uint32_t op, int32_t distance)
{
	return layout.version >= 0x0504 ? emit(op | (uint32_t)(distance + 0xffffff) << 7)
					: emit(op | (uint32_t)(distance + 0x1ffff) << 14);
}

static uint32_t check_of(void)
{
	const struct lua_process *walk = &layout.walk;
	__u64 words[LISTED_READ_WORDS] = {0};

	assert_int_equal(read_memory(NULL, PROTOTYPE + walk->prototype_from, words, walk->prototype_bytes), 0);
	return lua_check_of(walk, words);
}

static int read_it(struct lua_function *ret)
{
	return lua_read_function(&layout, &runtime_memory, PROTOTYPE, check_of(), ret);
}

static struct bytes table_of(const struct lua_function *function)
{
	return (struct bytes){function->table, function->table_bytes};
}

static void check_called(struct bytes table, uint32_t place, const char *expected)
{
	struct bytes name = lua_called(table, place);

	if (!bytes_equal_string(name, expected))
		fail_msg("version %x, instruction %u calls '%.*s', not '%s'", layout.version, place, (int)name.len,
			 name.data ? (const char *)name.data : "", expected);
}

/* ---- tests ---- */

struct ops { /* of a version */
	uint32_t version, move, nil, upvalue, member_up, member, method, jump, call, iterate, add, close;
};
static const struct ops ops[] = {
	{0x0501, 0, 3, 4, 5, 6, 11, 22, 28, 33, 12, 35},
	{0x0502, 0, 4, 5, 6, 7, 12, 23, 29, 34, 13, 22},
	{0x0503, 0, 4, 5, 6, 7, 12, 30, 36, 41, 13, 29},
	{0x0504, 0, 8, 9, 11, 14, 20, 56, 68, 76, 34, 54},
};

static void check_calls(const struct ops *op)
{
	struct lua_function function;
	uint32_t places[12] = {0};

	set_up(op->version);
	new_local("argument", 0, 100);
	emit_abc(op->upvalue, 5, 1, 0, false);
	places[0] = emit_abc(op->call, 5, 1, 1, false);
	if (op->version == 0x0501)
		emit_abx(op->member_up, 5, new_constant("global"));
	else /* up to 5.3 it has to be said that C is a constant */
		emit_abc(op->member_up, 5, 0, new_constant("global"), op->version < 0x0504);
	places[1] = emit_abc(op->call, 5, 1, 1, false);
	emit_abc(op->member, 5, 0, new_constant("field"), op->version < 0x0504);
	places[2] = emit_abc(op->call, 5, 1, 1, false);
	emit_abc(op->method, 5, 0, new_constant("method"), true);
	places[3] = emit_abc(op->call, 5, 1, 1, false);
	emit_abc(op->move, 5, 0, 0, false);
	places[4] = emit_abc(op->call, 5, 1, 1, false);
	places[5] = emit_abc(op->call, 0, 1, 1, false);
	emit_abc(op->nil, 4, op->version == 0x0501 ? 6 : 2, 0, false);
	places[6] = emit_abc(op->call, 5, 1, 1, false);
	/* Code that may be skipped; but in 5.1, where it is. */
	emit_abc(op->upvalue, 7, 0, 0, false);
	emit_jump(op->jump, 1);
	emit_abc(op->upvalue, 7, 1, 0, false);
	places[7] = emit_abc(op->call, 7, 1, 1, false);
	places[8] = emit_abc(op->iterate, 8, 1, 1, false);
	places[9] = emit_abc(op->add, 5, 1, 1, false);
	if (op->version == 0x0504)
		places[10] = emit_abc(46, 5, 1, 7, false); /* MMBIN for a metamethod by its number: sub */
	assert_int_equal(read_it(&function), 0);
	struct bytes table = table_of(&function);
	check_called(table, places[0], "second");
	check_called(table, places[1], "global");
	check_called(table, places[2], "field");
	check_called(table, places[3], "method");
	check_called(table, places[4], "argument");
	check_called(table, places[5], "argument");
	check_called(table, places[6], "");
	check_called(table, places[7], op->version == 0x0501 ? "first" : "");
	check_called(table, places[8], op->version == 0x0501 ? "" : "for iterator");
	check_called(table, places[9], op->version == 0x0502 || op->version == 0x0503 ? "__add" : "");
	if (op->version == 0x0504)
		check_called(table, places[10], "sub");
	check_called(table, places[0] - 1, "");
	check_called(table, code_count, "");
	check_called(table, UINT32_MAX, "");
	assert_int_equal(lua_line(table, 0), 0); /* there are none */
	mem_free(function.table);
}

static void test_calls(void **state)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		check_calls(&ops[i]);
}

static void test_names(void **state)
{
	struct lua_function function;

	for (uint32_t version = 0x0501; version <= 0x0504; version++) {
		set_up(version);
		emit(0);
		assert_int_equal(read_it(&function), 0);
		assert_string_equal(function.function.name, "function <a.lua:42>");
		assert_string_equal(function.function.file, "/a.lua");
		assert_int_equal(function.function.first_line, FIRST);
		mem_free(function.table);
		put_half(PROTOTYPE + layout.prototype.first_line, 0);
		put_text(SOURCE, "=stdin");
		assert_int_equal(read_it(&function), 0);
		assert_string_equal(function.function.name, "main chunk");
		assert_string_equal(function.function.file, "stdin");
		mem_free(function.table);
		/* Code that is a text: its first line. */
		put_text(SOURCE, "return 1\nreturn 2");
		assert_int_equal(read_it(&function), 0);
		assert_string_equal(function.function.file, "[string \"return 1...\"]");
		mem_free(function.table);
		put_text(SOURCE, "return '123456789 123456789 123456789 123456789 123456789'");
		assert_int_equal(read_it(&function), 0);
		assert_string_equal(function.function.file, "[string \"return '123456789 123456789 123456789 1234567...\"]");
		mem_free(function.table);
		/* Stripped. */
		put_word(PROTOTYPE + layout.prototype.source, 0);
		put_half(PROTOTYPE + layout.prototype.first_line, 7);
		assert_int_equal(read_it(&function), 0);
		assert_string_equal(function.function.name, "function <?:7>");
		assert_string_equal(function.function.file, "");
		mem_free(function.table);
	}
}

static void test_lines(void **state)
{
	static const uint32_t lines[] = {43, 43, 44, 400, 400, 60};
	struct lua_function function;

	for (uint32_t version = 0x0501; version <= 0x0504; version++) {
		set_up(version);
		for (uint32_t i = 0; i < 6; i++) {
			emit(0);
			put_half(LINES + i * 4ull, lines[i]);
		}
		put_half(PROTOTYPE + layout.prototype.line_count, 6);
		if (version == 0x0504) {
			put(LINES, (const int8_t[]){1, 0, 1, -128, 0, -128}, 6);
			put_half(PROTOTYPE + layout.prototype.far_line_count, 2);
			put(FAR_LINES, (const uint32_t[]){3, 400, 5, 60}, 16);
		}
		assert_int_equal(read_it(&function), 0);
		for (uint32_t i = 0; i < 6; i++)
			assert_int_equal(lua_line(table_of(&function), i), lines[i]);
		assert_int_equal(lua_line(table_of(&function), RUNTIME_PLACE_MAX), 60);
		mem_free(function.table);
	}
}

static void test_lies(void **state)
{
	struct lua_function function;
	uint64_t mask = 0;

	for (uint32_t version = 0x0501; version <= 0x0504; version++) {
		const struct lua_prototype *prototype = &layout.prototype;
		set_up(version);
		uint32_t check = check_of();
		assert_int_equal(lua_read_function(&layout, &runtime_memory, PROTOTYPE, check ^ 1, &function), -ESTALE);
		assert_int_equal(lua_read_function(&layout, &runtime_memory, PROTOTYPE + 4, check, &function), -EBADMSG);
		assert_int_equal(lua_read_function(&layout, &runtime_memory, 0x1000, check, &function), -EFAULT);
		assert_int_equal(read_it(&function), -EBADMSG); /* without code */
		emit(0);
		const uint32_t counts[] = {prototype->local_count, prototype->upvalue_count, prototype->line_count};
		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			set_up(version);
			emit(0);
			put_half(PROTOTYPE + counts[i], UINT32_MAX);
			assert_int_equal(read_it(&function), -EBADMSG);
		}
		/* More code than is read: no lines. */
		set_up(version);
		put_half(PROTOTYPE + prototype->code_count, UINT32_MAX);
		assert_int_equal(read_it(&function), 0);
		assert_null(function.table);
		/* Another type; a source that is no text, or endless; code that is gone. */
		set_up(version);
		emit(0);
		put_byte(PROTOTYPE + 8, 5);
		assert_int_equal(read_it(&function), -EBADMSG);
		set_up(version);
		emit(0);
		put_byte(SOURCE + 8, 5);
		assert_int_equal(read_it(&function), -EBADMSG);
		put_word(PROTOTYPE + prototype->source, 0x1000);
		assert_int_equal(read_it(&function), -EFAULT);
		put_word(PROTOTYPE + prototype->source, SOURCE);
		put_text(SOURCE, "@/a.lua");
		put_word(PROTOTYPE + prototype->code, 0x1000);
		assert_int_equal(read_it(&function), -EFAULT);
		/* All bytes of the code, with each bit set. */
		for (uint32_t bit = 0; bit < 32; bit++) {
			set_up(version);
			for (uint32_t i = 0; i < 64; i++)
				emit(i | 1u << bit | i << 23);
			assert_int_equal(read_it(&function), 0);
			for (uint32_t i = 0; i < 64; i++)
				mask |= lua_called(table_of(&function), i).len;
			mem_free(function.table);
		}
	}
	assert_true(mask != 0);
}

/* Tables whose counts do not fit them. */
static void test_tables(void **state)
{
	static const uint32_t halves[] = {1, 1, 0, 42, 0, 0, 0x6161};

	for (size_t len = 0; len <= sizeof(halves); len++) {
		struct bytes table = {(const uint8_t *)halves, len};
		assert_int_equal(lua_line(table, 3), len >= 24 ? 42 : 0);
		assert_int_equal(lua_called(table, 0).len, len == sizeof(halves) - 1 || len == sizeof(halves) ? 2 : 0);
	}
}

static int read_once(void *context)
{
	struct lua_function function;

	int r = read_it(&function);
	mem_free(function.table);
	return r;
}

static void test_memory_runs_out(void **state)
{
	set_up(0x0504);
	emit_abc(9, 5, 1, 0, false);
	emit_abc(68, 5, 1, 1, false);
	put_half(PROTOTYPE + layout.prototype.line_count, 2);
	assert_true(test_each_allocation(read_once, NULL) >= 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls), cmocka_unit_test(test_names),  cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lies),  cmocka_unit_test(test_tables), cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
