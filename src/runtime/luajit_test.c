// SPDX-License-Identifier: Apache-2.0
/* Which files hold LuaJIT; prototypes of it in a memory made by hand: files, lines, what instructions call; traces, and the
 * functions in them; and what a process that lies could put there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/test_faults.h"
#include "runtime/luajit.h"

/* ---- files ---- */

static int recognize(const char *path, struct luajit_build *ret)
{
	struct elf_file file;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(elf_file_open(&file, fd, path, NULL), 0);
	int r = luajit_recognize(&file, ret, NULL);
	elf_file_release(&file);
	close(fd);
	return r;
}

static void test_installed(void **state)
{
	static const char *const patterns[] = {"/usr/bin/luajit", "/usr/lib/*/libluajit-5.1.so.2"};
	bool any = false;

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		struct luajit_build build;
		struct luajit_process place;
		glob_t found;
		if (glob(patterns[i], 0, NULL, &found) == 0) {
			assert_int_equal(recognize(found.gl_pathv[0], &build), 1);
			assert_int_equal(build.frame_bytes, 80);
			assert_memory_equal(build.version, "2.1.", 4);
			assert_true(build.loop_end - build.loop_start > 8192 && build.global_base > build.global_vmstate);
			luajit_place(&build, 0x100000, &place);
			assert_int_equal(place.listed.kind, RUNTIME_KIND_LUAJIT);
			assert_int_equal(place.listed.loop_start, build.loop_start + 0x100000);
			any = true;
		}
		globfree(&found);
	}
	if (!any)
		skip();
}

static void test_others(void **state)
{
	struct luajit_build build;

	assert_int_equal(recognize("/proc/self/exe", &build), 0);
	if (access("/usr/bin/lua5.1", R_OK) == 0)
		assert_int_equal(recognize("/usr/bin/lua5.1", &build), 0);
}

/* ---- a process ---- */

#define START	     0x7f0000000000ull
#define BYTES	     (1u << 18)
#define PROTOTYPE(i) (START + 0x1000 + (i)*0x1000ull)
#define TEXT(i)	     (START + 0x8000 + (i)*0x100ull)
#define GLOBAL	     (START + 0x10000)
#define TRACES	     (START + 0x11000)
#define TRACE	     (START + 0x12000)
#define SNAPSHOTS    (START + 0x13000)
#define ENTRIES	     (START + 0x14000)
#define CONSTANTS    (START + 0x15000)
#define FUNCTION     (START + 0x16000)
#define OF_TRACES    0x80
#define MACHINE	     0x5500001000ull /* code of the trace */
#define CODE_COUNT   24u
#define FIRST	     42u

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
static void put_byte(uint64_t address, uint8_t byte)
{
	put(address, &byte, 1);
}

/* at: of the length, 20 or, in older ones, 16. */
static uint64_t put_text(unsigned i, const char *text, uint32_t at)
{
	put_byte(TEXT(i) + 9, 4);
	put_half(TEXT(i) + 16, 0x12345678);
	put_half(TEXT(i) + at, (uint32_t)strlen(text));
	put(TEXT(i) + 24, text, strlen(text) + 1);
	return TEXT(i);
}

static uint64_t code_of(unsigned i, uint32_t place)
{
	return PROTOTYPE(i) + LUAJIT_PROTOTYPE_BYTES + place * 4ull;
}

static void put_code(unsigned i, uint32_t place, uint32_t op, uint32_t a, uint32_t d)
{
	put_half(code_of(i, place), op | a << 8 | d << 16);
}

/* Constants are before 0x180 in it, lines from 0x200 on, names of upvalues at 0x280, of variables at 0x300. */
static void put_prototype(unsigned i, const char *source)
{
	uint64_t at = PROTOTYPE(i);

	put_byte(at + 9, 7);
	put_half(at + LUAJIT_PROTOTYPE_CODE_COUNT, CODE_COUNT);
	put_word(at + 32, at + 0x180);
	put_half(at + 56, 0x400);
	put_byte(at + 60, 2);
	put_word(at + LUAJIT_PROTOTYPE_SOURCE, put_text(i, source, 20));
	put_half(at + LUAJIT_PROTOTYPE_LINE, FIRST + i);
	put_half(at + 76, 30);
	put_word(at + 80, at + 0x200);
	for (uint32_t k = 0; k + 1 < CODE_COUNT; k++)
		put_byte(at + 0x200 + k, (uint8_t)(k / 2 + 1));
	put_word(at + 88, at + 0x280);
	put(at + 0x280, "upper\0second", 13);
	put_word(at + 96, at + 0x300);
	put(at + 0x300, "first\0\0\x14second\0\x04\x02\x01\x01\x03\x02\x01\x02\x03\x01\x02\0", 30);
}

static uint32_t check_of(unsigned i)
{
	__u64 words[LUAJIT_PROTOTYPE_BYTES / 8];

	memcpy(words, memory + (PROTOTYPE(i) - START), sizeof(words));
	return luajit_check_of(words + LUAJIT_PROTOTYPE_FROM / 8);
}

static struct lua_function function;

static int read_function(unsigned i)
{
	mem_free(function.table);
	return luajit_read_function(&runtime_memory, PROTOTYPE(i), check_of(i), &function);
}

static struct bytes table(void)
{
	return (struct bytes){function.table, function.table_bytes};
}

static void expect_called(uint32_t place, const char *name)
{
	struct bytes called = lua_called(table(), place);

	assert_int_equal(called.len, strlen(name));
	if (called.len)
		assert_memory_equal(called.data, name, called.len);
}

static int set_up(void **state)
{
	memset(memory, 0, sizeof(memory));
	put_prototype(0, "@/srv/app/main.lua");
	return 0;
}

static int tear_down(void **state)
{
	function.table = mem_free(function.table);
	return 0;
}

static void test_lines(void **state)
{
	assert_int_equal(read_function(0), 0);
	assert_string_equal(function.function.file, "/srv/app/main.lua");
	assert_string_equal(function.function.name, "function <main.lua:42>");
	assert_int_equal(function.function.first_line, FIRST);
	assert_int_equal(lua_line(table(), 0), FIRST);
	assert_int_equal(lua_line(table(), 1), FIRST + 1);
	assert_int_equal(lua_line(table(), 6), FIRST + 3);
	/* Lines of functions with many of them have two bytes. */
	put_half(PROTOTYPE(0) + 76, 300);
	assert_int_equal(read_function(0), 0);
	assert_int_equal(lua_line(table(), 1), FIRST + 0x101);
	/* None: it was stripped. */
	put_word(PROTOTYPE(0) + 80, 0);
	assert_int_equal(read_function(0), 0);
	assert_int_equal(lua_line(table(), 1), 0);
}

static void test_sources(void **state)
{
	static const struct {
		const char *source, *file;
	} sources[] = {
		{"=stdin", "stdin"},
		{"return 1", "[string \"return 1\"]"},
		{"return 1\nreturn 2", "[string \"return 1...\"]"},
		{"local a = 1 local b = 2 local c = 3 local d = 4 local e",
		 "[string \"local a = 1 local b = 2 local c = 3 local d =...\"]"},
	};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		put_text(0, sources[i].source, i % 2 ? 16 : 20);
		assert_int_equal(read_function(0), 0);
		assert_string_equal(function.function.file, sources[i].file);
	}
	put_half(PROTOTYPE(0) + LUAJIT_PROTOTYPE_LINE, 0);
	assert_int_equal(read_function(0), 0);
	assert_string_equal(function.function.name, "main chunk");
	put_half(PROTOTYPE(0) + LUAJIT_PROTOTYPE_LINE, ~0u);
	put_text(0, "table", 20);
	assert_int_equal(read_function(0), 0);
	assert_string_equal(function.function.name, "[builtin:table]");
}

enum { ISLT = 0, MOV = 18, ADDVV = 32, UGET = 45, GGET = 54, TGETS = 57, TSETV = 60, CALL = 66, ITERC = 69 };

static void test_called(void **state)
{
	put_word(PROTOTYPE(0) + 0x180 - 8, put_text(5, "global", 20));
	put_word(PROTOTYPE(0) + 0x180 - 16, put_text(6, "member", 16));
	put_code(0, 1, GGET, 9, 0);
	put_code(0, 2, CALL, 9, 0);
	put_code(0, 3, TGETS, 9, 1); /* C is 1, B is 0 */
	put_code(0, 4, CALL, 9, 0);
	put_code(0, 5, UGET, 9, 1);
	put_code(0, 6, MOV, 10, 9);
	put_code(0, 7, CALL, 10, 0);
	put_code(0, 8, MOV, 10, 0); /* the variable `first` */
	put_code(0, 9, CALL, 10, 0);
	put_code(0, 10, ADDVV, 10, 0);
	put_code(0, 11, TSETV, 10, 0);
	put_code(0, 12, ISLT, 10, 0);
	put_code(0, 13, CALL, 11, 0);
	assert_int_equal(read_function(0), 0);
	expect_called(1, "__index");
	expect_called(2, "global");
	expect_called(4, "member");
	expect_called(6, "");
	expect_called(7, "second");
	expect_called(9, "first");
	expect_called(10, "__add");
	expect_called(11, "__newindex");
	expect_called(12, "__lt");
	expect_called(13, "");
}

/* The names of variables stand one behind the other, with the range that they hold for. */
static void test_variables(void **state)
{
	put(PROTOTYPE(0) + 0x300, "a\0\x02\x0a\x04\x01\x03\x62\0\x01\x81\x01\0", 13);
	for (uint32_t i = 1; i < 12; i++)
		put_code(0, i, CALL, 0, 0);
	put_code(0, 5, ITERC, 4, 0);
	assert_int_equal(read_function(0), 0);
	expect_called(1, "");
	expect_called(2, "a");
	expect_called(5, "(for generator)");
	expect_called(11, "a");
	/* Numbers and texts that do not end. */
	memset(memory + (PROTOTYPE(0) + 0x300 - START), 0xff, 0x100);
	assert_int_equal(read_function(0), 0);
	expect_called(2, "");
}

static void test_nonsense(void **state)
{
	uint32_t check = check_of(0);

	assert_int_equal(luajit_read_function(&runtime_memory, PROTOTYPE(0) + 4, check, &function), -EBADMSG);
	assert_int_equal(luajit_read_function(&runtime_memory, START - 0x1000, check, &function), -EFAULT);
	assert_int_equal(luajit_read_function(&runtime_memory, PROTOTYPE(0), check ^ 1, &function), -ESTALE);
	put_half(PROTOTYPE(0) + 56, 64); /* a block without its code */
	assert_int_equal(read_function(0), -EBADMSG);
	put_half(PROTOTYPE(0) + 56, 1u << 30);
	assert_int_equal(read_function(0), -EBADMSG);
	put_byte(PROTOTYPE(0) + 9, 8);
	assert_int_equal(read_function(0), -EBADMSG);
	set_up(NULL);
	put_byte(TEXT(0) + 24 + 3, 0); /* a text with a 0 in it is none */
	assert_int_equal(read_function(0), -EBADMSG);
	set_up(NULL);
	put_half(TEXT(0) + 20, ~0u);
	assert_int_equal(read_function(0), -EBADMSG);
}

static int run_read(void *context)
{
	int r = read_function(0);

	(void)context;
	if (r < 0)
		assert_null(function.table);
	return r;
}

static void test_memory_fails(void **state)
{
	assert_true(test_each_allocation(run_read, NULL) > 2);
}

/* ---- traces ---- */

static const struct luajit_build build = {.global_traces = OF_TRACES};

static uint32_t put_entry(uint32_t at, uint32_t slot, uint32_t flags, uint32_t reference)
{
	put_half(ENTRIES + at * 4, slot << 24 | flags | reference);
	return at + 1;
}

/* Constants: references from 0x7ff0 on. */
static void put_constant(uint32_t reference, uint8_t type, uint64_t value)
{
	put_byte(CONSTANTS + (reference - 0x7ff0) * 8 + 4, type);
	put_word(CONSTANTS + (reference - 0x7ff0) * 8 + 8, value);
}

static void put_snapshot(unsigned i, uint32_t first, uint32_t count, uint16_t place, uint64_t pc)
{
	put_half(SNAPSHOTS + i * 12, first);
	put_half(SNAPSHOTS + i * 12 + 4, (uint32_t)place << 16);
	put_byte(SNAPSHOTS + i * 12 + 10, (uint8_t)count);
	put_word(ENTRIES + (first + count) * 4, pc << 8);
}

/* Function 0 has begun it, and calls 1, which is variadic, and calls 2, protected. */
static void put_trace(void)
{
	uint32_t at = 0;

	put_prototype(1, "@one.lua");
	put_prototype(2, "@two.lua");
	put_word(GLOBAL + OF_TRACES, TRACES);
	put_half(GLOBAL + OF_TRACES + 12, 4);
	put_word(TRACES + 8, TRACE);
	put_word(TRACES + 16, START + 4); /* is none */
	put_byte(TRACE + 9, 9);
	put_half(TRACE + 8, 9u << 8 | 3u << 16); /* snapshots */
	put_word(TRACE + 32, CONSTANTS - 0x7ff0 * 8);
	put_half(TRACE + 40, 0x7ff0);
	put_half(TRACE + 44, 64);
	put_word(TRACE + 48, SNAPSHOTS);
	put_word(TRACE + 56, ENTRIES);
	put_word(TRACE + 64, PROTOTYPE(0));
	put_half(TRACE + 84, 0x200);
	put_word(TRACE + 88, MACHINE);
	put_constant(0x7ff0, 8, FUNCTION);
	put_byte(FUNCTION + 9, 8);
	put_word(FUNCTION + 32, code_of(1, 0));
	put_constant(0x7ff2, 7, PROTOTYPE(2));
	put_constant(0x7ff4, 0, code_of(0, 4)); /* link: behind instruction 3 */
	put_constant(0x7ff6, 0, 5 * 8 | LUAJIT_LINK_VARIADIC);
	put_constant(0x7ff8, 0, code_of(1, 7));
	put_constant(0x7ffa, 0, 3 * 8 | 6); /* pcall() */
	put_snapshot(0, at, 0, 0, code_of(0, 2));
	put_entry(2, 5, 0, 0x8123);
	put_entry(3, 9, 0x10000, 0x7ff4);
	put_snapshot(1, 2, 2, 0x40, code_of(1, 6));
	at = put_entry(6, 9, 0x10000, 0x7ff4);
	at = put_entry(at, 14, 0x10000, 0x7ff6);
	at = put_entry(at, 17, 0x10000, 0x7ff8);
	at = put_entry(at, 20, 0x10000, 0x7ffa);
	put_snapshot(2, 6, at - 6, 0x80, code_of(2, 1));
}

static void expect_inlined(uint64_t offset, const struct luajit_inlined *expected, int count)
{
	struct luajit_traces traces = {0};
	struct luajit_inlined found[LUAJIT_INLINED_MAX];

	assert_int_equal(luajit_read_traces(&build, &runtime_memory, GLOBAL, &traces), 0);
	assert_int_equal(traces.count, 1);
	const struct luajit_trace *trace = luajit_find_trace(&traces, MACHINE + offset);
	assert_non_null(trace);
	assert_int_equal(luajit_read_inlined(&runtime_memory, trace, MACHINE + offset, 0, found), count);
	for (int i = 0; i < count; i++) {
		assert_int_equal(found[i].object, expected[i].object);
		assert_int_equal(found[i].check, expected[i].check);
		assert_int_equal(found[i].place, expected[i].place);
		assert_int_equal(found[i].calls, expected[i].calls);
	}
	luajit_traces_release(&traces);
}

static void test_inlined(void **state)
{
	put_trace();
	const struct luajit_inlined begun = {PROTOTYPE(0), check_of(0), 2, false}, calls = {PROTOTYPE(0), check_of(0), 3, true};
	const struct luajit_inlined one = {PROTOTYPE(1), check_of(1), 6, false}, two = {PROTOTYPE(2), check_of(2), 1, false};

	expect_inlined(0, &begun, 1);
	expect_inlined(0x3f, &begun, 1);
	expect_inlined(0x40, (const struct luajit_inlined[]){one, calls}, 2);
	/* What pcall() has called has not called it itself; its own frame has the link to function 1. */
	expect_inlined(0x1ff, (const struct luajit_inlined[]){two, one, calls}, 3);
}

static void test_traces_lie(void **state)
{
	struct luajit_traces traces = {0};
	struct luajit_inlined found[LUAJIT_INLINED_MAX];

	put_trace();
	assert_int_equal(luajit_read_traces(&build, &runtime_memory, GLOBAL, &traces), 0);
	assert_null(luajit_find_trace(&traces, MACHINE + 0x200));
	assert_null(luajit_find_trace(&traces, MACHINE - 1));
	struct luajit_trace trace = traces.items[0];
	assert_int_equal(luajit_read_inlined(&runtime_memory, &trace, MACHINE + 0x200, 0, found), -ESTALE);
	put_constant(0x7ff4, 0, 0x1234); /* an instruction of no function */
	assert_int_equal(luajit_read_inlined(&runtime_memory, &trace, MACHINE + 0x40, 0, found), -ENOENT);
	put_half(TRACE + 44, 5); /* fewer entries than the snapshot has */
	assert_int_equal(luajit_read_inlined(&runtime_memory, &trace, MACHINE + 0x80, 0, found), -EBADMSG);
	put_half(TRACE + 40, 0);
	assert_int_equal(luajit_read_inlined(&runtime_memory, &trace, MACHINE, 0, found), -EBADMSG);
	put_word(TRACE + 88, MACHINE + 16); /* another one by now */
	assert_int_equal(luajit_read_inlined(&runtime_memory, &trace, MACHINE, 0, found), -ESTALE);
	put_half(GLOBAL + OF_TRACES + 12, ~0u);
	assert_int_equal(luajit_read_traces(&build, &runtime_memory, GLOBAL, &traces), -EBADMSG);
	assert_int_equal(traces.count, 1);
	luajit_traces_release(&traces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_installed),
		cmocka_unit_test(test_others),
		cmocka_unit_test_setup_teardown(test_lines, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sources, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_called, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_variables, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_memory_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_inlined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_traces_lie, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
