// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of Lua in the walk (bpf/lua_walk.h, bpf/listed_walk.h), compiled for user space, over a memory made by hand:
 * states, calls, and stacks that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/lua.h"
#include "runtime/test_listed.h"

/* ---- a process ---- */

#define STATE(s)     (START + 0x1000 + (s)*0x200ull)
#define GLOBAL	     (START + 0x3000)
#define CALL(s, i)   (START + 0x4000 + (s)*0x2000ull + (i)*process.build.layout.walk.call_bytes)
#define VALUE(s, i)  (START + 0x20000 + (s)*0x2000ull + (i)*16ull)
#define CLOSURE(i)   (START + 0x40000 + (i)*0x40ull)
#define PROTOTYPE(i) (START + 0x50000 + (i)*0x80ull)
#define CODE_OF(i)   (START + 0x60000 + (i)*0x200ull)
#define CODE_COUNT   20u
#define STATES	     3u

static struct {
	struct walk walk;
	struct lua_build build;
	unsigned calls[STATES];
} process;

static void put_half(uint64_t address, uint32_t half)
{
	memcpy(memory + (address - START), &half, sizeof(half));
}

static void set_up(uint32_t version)
{
	struct lua_build *build = &process.build;

	memset(memory, 0, sizeof(memory));
	memset(&process, 0, sizeof(process));
	assert_true(lua_layout_of(version, version == 0x0503 ? 6 : 4, &build->layout));
	build->loop_start = LOOP;
	build->loop_end = LOOP + 0x1000;
	build->pc_register = version == 0x0504 ? 13 : LUA_REGISTERS_NONE;
	walk_without_runtimes(&process.walk);
	lua_place(build, 0, &process.walk.lua);
}

/* A state with a call of no function, the outermost one. error: where its errors return to on the native stack. */
static void new_state(unsigned s, uint64_t error)
{
	const struct lua_process *walk = &process.build.layout.walk;

	put_half(STATE(s) + LUA_STATE_TYPE, LUA_TYPE_THREAD);
	put_word(STATE(s) + LUA_STATE_TOP, VALUE(s, 60));
	put_word(STATE(s) + walk->state_global, GLOBAL);
	put_word(STATE(s) + walk->state_call, CALL(s, 0));
	put_word(STATE(s) + walk->state_error, error);
	if (walk->state_first)
		put_word(STATE(s) + walk->state_first, CALL(s, 0));
	put_word(CALL(s, 0) + walk->call_function, VALUE(s, 0));
	process.calls[s] = 0;
}

static uint64_t push(unsigned s, uint64_t closure, uint32_t type)
{
	const struct lua_process *walk = &process.build.layout.walk;
	unsigned i = ++process.calls[s];

	put_word(CALL(s, i) + walk->call_function, VALUE(s, i));
	put_word(VALUE(s, i), closure);
	put_half(VALUE(s, i) + LUA_VALUE_TYPE, type);
	if (!walk->state_first)
		put_word(CALL(s, i) + LUA_CALL_PREVIOUS, CALL(s, i - 1));
	put_word(STATE(s) + walk->state_call, CALL(s, i));
	return CALL(s, i);
}

static void set_status(uint64_t call, uint32_t status)
{
	memcpy(memory + (call + process.build.layout.walk.call_status - START), &status, 2);
}

/* Function i at its instruction `place`; is_fresh: the loop was entered for it. */
static uint64_t push_lua(unsigned s, unsigned i, unsigned place, bool is_fresh)
{
	const struct lua_process *walk = &process.build.layout.walk;
	const struct lua_prototype *prototype = &process.build.layout.prototype;
	bool is_51 = walk->listed.flags & LUA_IS_51;

	put_word(CLOSURE(i) + walk->closure_prototype, PROTOTYPE(i));
	put_word(PROTOTYPE(i) + prototype->code, CODE_OF(i));
	put_half(PROTOTYPE(i) + prototype->code_count, CODE_COUNT);
	put_word(PROTOTYPE(i) + prototype->source, PROTOTYPE(i) * 3);
	put_half(PROTOTYPE(i) + prototype->first_line, i);
	uint64_t call = push(s, CLOSURE(i), is_51 ? LUA_TYPE_FUNCTION : LUA_TYPE_FUNCTION | 0x40);
	put_word(call + walk->call_pc, CODE_OF(i) + place * 4 + 4);
	if (!is_51)
		set_status(call, is_fresh == !(walk->listed.flags & LUA_NOT_FRESH) ? walk->call_fresh : 0);
	if (walk->state_pc)
		put_word(STATE(s) + walk->state_pc, CODE_OF(i) + place * 4 + 4);
	return call;
}

static void push_c(unsigned s)
{
	bool is_51 = process.build.layout.walk.listed.flags & LUA_IS_51;

	put_half(CLOSURE(40) + LUA_CLOSURE_IS_C, 1);
	push(s, CLOSURE(40), is_51 ? LUA_TYPE_FUNCTION : 0x66);
}

/* As the sampling program does it. */
static void meet(struct walk *walk)
{
	int before = -1;

	if (lua_has_left_loop(walk) && !lua_read_saved(walk)) {
		for (uint32_t i = 0; i < LUA_SAVED_WORDS; i++)
			lua_try_saved(walk, i);
		before = lua_enter_state(walk);
	}
	if (before < 0)
		return;
	if (before > 0) {
		uint32_t now = walk->lua_at;
		listed_hold(walk);
		walk->lua_at = (uint32_t)before - 1;
		for (uint32_t i = 0; i < LUA_CALLS_READ; i++)
			if (lua_collect_step(walk) && lua_is_done(walk))
				break;
		walk->lua_at = now;
		while (listed_append_pending(walk))
			;
	}
	for (uint32_t i = 0; i < LUA_CALLS_READ; i++)
		if (lua_collect_step(walk))
			break;
	lua_leave_part(walk);
	while (walk->listed_appends == LISTED_APPENDS_PART)
		listed_go_on(walk);
}

/* As walk_stack(). saved: of each frame of the loop, by its place in the stack, the states in the registers of its caller. */
static int walk_states(const uint64_t *addresses, const uint64_t (*saved)[2])
{
	struct walk *walk = &process.walk;
	int r = WALK_GOES_ON;

	walk_begin(walk, addresses[0], 7);
	walk->registers[UNWIND_REGISTER_SP] = STACK;
	walk->known = 0xffff;
	for (size_t i = 0; addresses[i] < MAIN; i++) {
		put_word(STACK + (i + 1) * NATIVE - 8, addresses[i + 1]);
		for (size_t k = 0; k < 2; k++)
			put_word(STACK + (i + 1) * NATIVE - (k ? 56 : 16), saved[i][k]);
	}
	meet(walk);
	while (r == WALK_GOES_ON) {
		r = walk_step(walk);
		if (r == WALK_GOES_ON)
			meet(walk);
	}
	for (uint32_t i = 0; walk->lua_states && i < LUA_CALLS_READ; i++)
		if (lua_collect_step(walk) && lua_is_done(walk))
			break;
	while (listed_append_pending(walk))
		;
	return r;
}

#define AT(i, place)	   PROTOTYPE(i), word_of(i, place, 0)
#define ENDS(i, place)	   PROTOTYPE(i), word_of(i, place, RUNTIME_FRAME_ENTRY)
#define CALLS(i, place)	   PROTOTYPE(i), word_of(i, place, RUNTIME_FRAME_NOTE(LUA_NOTE_CALLS))
#define NATIVE_AT(address) address, 0

static uint64_t word_of(unsigned i, unsigned place, uint64_t flags)
{
	uint64_t check = runtime_check_of(CODE_OF(i), PROTOTYPE(i) * 3, i);
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | check << 24 | place;
}

/* expected: pairs of words; those of native frames are {address, 0}. */
static void check_chain(const uint64_t *expected, size_t count)
{
	const struct walk *walk = &process.walk;
	uint32_t at = 0;

	for (size_t i = 0; i < count; i += 2) {
		assert_true(at < walk->depth);
		if (!expected[i + 1]) {
			assert_int_equal(walk->frames[at++], expected[i]);
			continue;
		}
		assert_int_equal(walk->frames[at++], RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_LUA << 56 | expected[i]);
		assert_int_equal(walk->frames[at++], expected[i + 1]);
	}
	assert_int_equal(at, walk->depth);
}
#define CHECK_CHAIN(...)                                                                                                       \
	do {                                                                                                                   \
		const uint64_t list[] = {__VA_ARGS__};                                                                         \
		check_chain(list, sizeof(list) / sizeof(list[0]));                                                             \
	} while (0)

/* ---- tests ---- */

#define CALL_51 28u

/* A function that C calls, which another one of Lua has called. */
static void test_parts(void **state)
{
	for (uint32_t version = 0x0501; version <= 0x0504; version++) {
		set_up(version);
		new_state(0, 0);
		push_lua(0, 1, 3, true);
		put_half(CODE_OF(1) + 3 * 4, CALL_51);
		push_lua(0, 2, 4, false);
		push_c(0);
		push_lua(0, 3, 5, true);
		put_half(CODE_OF(3) + 5 * 4, CALL_51);
		push_lua(0, 4, 6, false);
		assert_int_equal(walk_states((const uint64_t[]){CODE, LOOP + 1, CODE + 1, LOOP + 2, CODE + 2, MAIN},
					     (const uint64_t[][2]){{0}, {STATE(0)}, {0}, {8, STATE(0)}, {0}}),
				 UNWIND_COMPLETE);
		CHECK_CHAIN(NATIVE_AT(CODE), NATIVE_AT(LOOP + 1), AT(4, 6), PROTOTYPE(3),
			    word_of(3, 5, RUNTIME_FRAME_ENTRY | RUNTIME_FRAME_NOTE(LUA_NOTE_CALLS)), NATIVE_AT(CODE + 1),
			    NATIVE_AT(LOOP + 2), AT(2, 4), PROTOTYPE(1),
			    word_of(1, 3, RUNTIME_FRAME_ENTRY | RUNTIME_FRAME_NOTE(LUA_NOTE_CALLS)), NATIVE_AT(CODE + 2),
			    NATIVE_AT(MAIN));
		assert_int_equal(process.walk.listed_missed, 0);
		assert_int_equal(process.walk.listed_frame, 0);
	}
}

/* A metamethod: the loop is entered, without a function in C between. */
static void test_metamethods(void **state)
{
	for (uint32_t version = 0x0501; version <= 0x0504; version++) {
		set_up(version);
		new_state(0, 0);
		push_lua(0, 1, 3, true);
		put_half(CODE_OF(1) + 3 * 4, 12);
		push_lua(0, 2, 4, true);
		walk_states((const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, MAIN},
			    (const uint64_t[][2]){{STATE(0)}, {0}, {STATE(0)}});
		CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(2, 4), NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 2), PROTOTYPE(1),
			    word_of(1, 3, RUNTIME_FRAME_ENTRY | RUNTIME_FRAME_NOTE(LUA_NOTE_CALLS)), NATIVE_AT(MAIN));
	}
}

/* A coroutine within another: the innermost state that a register has is the one, and one that is stale or waits is none. */
static void test_coroutines(void **state)
{
	set_up(0x0504);
	new_state(0, STACK + 3 * NATIVE);
	new_state(1, STACK + NATIVE + 0x20);
	new_state(2, 0);
	memory[STATE(2) + process.build.layout.walk.state_status - START] = 1;
	push_lua(0, 1, 3, true);
	push_c(0);
	push_lua(1, 2, 4, true);
	push_lua(2, 3, 5, true);
	walk_states((const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, MAIN},
		    (const uint64_t[][2]){{STATE(0), STATE(1)}, {0}, {STATE(2), STATE(0)}});
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(2, 4), NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 2), ENDS(1, 3), NATIVE_AT(MAIN));
}

/* A coroutine that has waited in pcall(): what called it has no frame of the loop. It is put before the caller of the loop. */
static void test_rest(void **state)
{
	const uint64_t pending = RUNTIME_FRAME_PENDING;

	set_up(0x0504);
	new_state(0, 0);
	new_state(1, STACK + NATIVE + 0x20);
	push_lua(0, 1, 3, true);
	push_c(0);
	push_lua(1, 2, 4, true);
	push_c(1);
	push_lua(1, 3, 5, true);
	walk_states((const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, MAIN}, (const uint64_t[][2]){{STATE(1)}, {0}, {STATE(0)}});
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(3, 5), NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 2), PROTOTYPE(2),
		    word_of(2, 4, RUNTIME_FRAME_ENTRY | pending), ENDS(1, 3), NATIVE_AT(MAIN));
	/* ... and the outermost state is such a one. */
	set_up(0x0504);
	new_state(1, STACK + NATIVE + 0x20);
	push_lua(1, 2, 4, true);
	push_c(1);
	push_lua(1, 3, 5, true);
	walk_states((const uint64_t[]){LOOP + 1, CODE + 1, MAIN}, (const uint64_t[][2]){{STATE(1)}, {0}});
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(3, 5), NATIVE_AT(CODE + 1), NATIVE_AT(MAIN), PROTOTYPE(2),
		    word_of(2, 4, RUNTIME_FRAME_ENTRY | pending));
}

/* C that a coroutine calls runs Lua in the outer state again: each goes on where it was. */
static void test_interleaved(void **state)
{
	set_up(0x0504);
	new_state(0, STACK + 8 * NATIVE);
	new_state(1, STACK + 3 * NATIVE + 0x20);
	push_lua(0, 1, 3, true);
	push_c(0);
	push_lua(0, 3, 5, true);
	push_lua(1, 2, 4, true);
	walk_states((const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, CODE + 2, LOOP + 3, MAIN},
		    (const uint64_t[][2]){{STATE(0)}, {0}, {STATE(1)}, {0}, {STATE(0)}});
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(3, 5), NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 2), ENDS(2, 4), NATIVE_AT(CODE + 2),
		    NATIVE_AT(LOOP + 3), ENDS(1, 3), NATIVE_AT(MAIN));
}

/* The loop's register tells how far the innermost function is; of others, and nonsense, what was noted counts. */
static void test_instruction(void **state)
{
	static const struct {
		uint64_t offset;
		unsigned place;
	} cases[] = {{4, 0},
		     {40, 9},
		     {CODE_COUNT * 4, CODE_COUNT - 1},
		     {0, 6},
		     {42, 6},
		     {CODE_COUNT * 4 + 4, 6},
		     {UINT64_MAX - 3, 6}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up(0x0504);
		new_state(0, 0);
		push_lua(0, 1, 3, true);
		push_lua(0, 2, 6, false);
		process.walk.registers[13] = CODE_OF(2) + cases[i].offset;
		walk_states((const uint64_t[]){LOOP + 1, MAIN}, (const uint64_t[][2]){{STATE(0)}});
		assert_int_equal(RUNTIME_PLACE(process.walk.listed_frames[0][1]), cases[i].place);
		assert_int_equal(RUNTIME_PLACE(process.walk.listed_frames[1][1]), 3);
	}
	/* A function that has not begun. */
	set_up(0x0503);
	new_state(0, 0);
	uint64_t call = push_lua(0, 1, 0, true);
	put_word(call + process.build.layout.walk.call_pc, CODE_OF(1));
	walk_states((const uint64_t[]){LOOP + 1, MAIN}, (const uint64_t[][2]){{STATE(0)}});
	assert_int_equal(RUNTIME_PLACE(process.walk.listed_frames[0][1]), 0);
}

/* Who has called whom: not by a tail call, a hook, or from C; a finalizer by whatever was executed. */
static void test_notes(void **state)
{
	static const struct {
		uint32_t inner, outer, note;
	} cases[] = {{0, 0, LUA_NOTE_CALLS}, {32, 0, LUA_NOTE_NONE}, {0, 8, LUA_NOTE_NONE}, {0, 128, LUA_NOTE_FREES}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up(0x0504);
		new_state(0, 0);
		uint64_t outer = push_lua(0, 1, 3, false), inner = push_lua(0, 2, 6, false);
		set_status(outer, cases[i].outer | 4);
		set_status(inner, cases[i].inner);
		walk_states((const uint64_t[]){LOOP + 1, MAIN}, (const uint64_t[][2]){{STATE(0)}});
		assert_int_equal(process.walk.listed_count, 2);
		assert_int_equal(RUNTIME_NOTE(process.walk.listed_frames[0][1]), LUA_NOTE_NONE);
		assert_int_equal(RUNTIME_NOTE(process.walk.listed_frames[1][1]), cases[i].note);
	}
	/* A finalizer while a function in C runs. */
	set_up(0x0504);
	new_state(0, 0);
	push_lua(0, 1, 3, true);
	push_c(0);
	push_lua(0, 2, 6, true);
	set_status(CALL(0, 2), 128);
	walk_states((const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, MAIN}, (const uint64_t[][2]){{STATE(0)}, {0}, {STATE(0)}});
	assert_int_equal(RUNTIME_NOTE(process.walk.listed_frames[1][1]), LUA_NOTE_FREES);
}

static void test_lies(void **state)
{
	const struct lua_process *walk = &process.build.layout.walk;

	/* What is no state: type, status, members askew or missing, a call that is not on its stack. */
	for (unsigned i = 0; i < 8; i++) {
		set_up(0x0504);
		new_state(0, 0);
		push_lua(0, 1, 3, true);
		if (i == 0)
			memory[STATE(0) + LUA_STATE_TYPE - START] = 5;
		if (i == 1)
			memory[STATE(0) + walk->state_status - START] = 2;
		if (i == 2)
			put_word(STATE(0) + walk->state_global, GLOBAL + 1);
		if (i == 3)
			put_word(STATE(0) + walk->state_global, 0);
		if (i == 4)
			put_word(STATE(0) + walk->state_call, 0);
		if (i == 5)
			put_word(STATE(0) + walk->state_call, 0x1000);
		if (i == 6)
			put_word(STATE(0) + LUA_STATE_TOP, VALUE(0, 0));
		if (i == 7)
			put_word(STATE(0) + LUA_STATE_TOP, VALUE(0, 0) + LUA_STACK_MAX + 64);
		walk_states((const uint64_t[]){LOOP + 1, MAIN}, (const uint64_t[][2]){{STATE(0)}});
		assert_int_equal(process.walk.listed_count, 0);
		assert_int_equal(process.walk.listed_missed, 1);
		CHECK_CHAIN(NATIVE_AT(LOOP + 1), NATIVE_AT(MAIN));
	}
	/* Calls: askew; whose prototype, or whose call before it, cannot be read. The list is known to go on. */
	for (unsigned i = 0; i < 3; i++) {
		set_up(0x0504);
		new_state(0, 0);
		push_lua(0, 1, 1, true);
		uint64_t call = push_lua(0, 2, 2, false);
		push_lua(0, 3, 3, false);
		if (i == 0)
			put_word(CALL(0, 3) + LUA_CALL_PREVIOUS, call + 4);
		if (i == 1)
			put_word(CLOSURE(2) + walk->closure_prototype, PROTOTYPE(2) + 1);
		if (i == 2)
			put_word(CALL(0, 3) + LUA_CALL_PREVIOUS, 0x1000);
		walk_states((const uint64_t[]){LOOP + 1, MAIN}, (const uint64_t[][2]){{STATE(0)}});
		assert_int_equal(process.walk.listed_count, 1);
		assert_true(process.walk.listed_frame != 0);
	}
	/* Calls that go round: as many as there is room for. */
	set_up(0x0504);
	new_state(0, 0);
	push_lua(0, 1, 1, false);
	push_lua(0, 2, 2, false);
	put_word(CALL(0, 1) + LUA_CALL_PREVIOUS, CALL(0, 2));
	walk_states((const uint64_t[]){LOOP + 1, MAIN}, (const uint64_t[][2]){{STATE(0)}});
	assert_int_equal(process.walk.listed_count, LISTED_FRAMES_MAX);
	assert_true(process.walk.listed_frame != 0);
	/* A frame of the loop for which the state has no call any more. */
	set_up(0x0504);
	new_state(0, 0);
	push_lua(0, 1, 3, true);
	walk_states((const uint64_t[]){LOOP + 1, LOOP + 2, MAIN}, (const uint64_t[][2]){{STATE(0)}, {STATE(0)}});
	assert_int_equal(process.walk.listed_missed, 1);
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(1, 3), NATIVE_AT(LOOP + 2), NATIVE_AT(MAIN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts), cmocka_unit_test(test_metamethods), cmocka_unit_test(test_coroutines),
		cmocka_unit_test(test_rest),  cmocka_unit_test(test_interleaved), cmocka_unit_test(test_instruction),
		cmocka_unit_test(test_notes), cmocka_unit_test(test_lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
