// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of LuaJIT in the walk (bpf/luajit_walk.h, bpf/listed_walk.h), compiled for user space, over a memory made by hand:
 * states with their stacks, native frames of the interpreter and of traces, and ones that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/luajit.h"
#include "runtime/test_listed.h"

/* ---- a process ---- */

#define STATE(s)     (START + 0x1000 + (s)*0x100ull)
#define GLOBAL	     (START + 0x3000)
#define VALUES(s)    (START + 0x10000 + (s)*0x1000ull)
#define FUNCTION(i)  (START + 0x40000 + (i)*0x40ull)
#define PROTOTYPE(i) (START + 0x50000 + (i)*0x200ull)
#define CODE_OF(i)   (PROTOTYPE(i) + LUAJIT_PROTOTYPE_BYTES)
#define CODE_COUNT   20u
#define STATES	     3u
#define OF_BASE	     0x40 /* in the global state */
#define OF_VMSTATE   0x48
#define IN_C	     63u /* a function */
#define LINK_C	     1ull
#define LINK_PCALL   6ull

static struct {
	struct walk walk;
	uint64_t top[STATES]; /* the base of the innermost function */
} process;

static void put_half(uint64_t address, uint32_t half)
{
	memcpy(memory + (address - START), &half, sizeof(half));
}

static void put_byte(uint64_t address, uint8_t byte)
{
	memory[address - START] = byte;
}

static void set_up(void)
{
	const struct luajit_build build = {.loop_start = LOOP,
					   .loop_end = LOOP + 0x1000,
					   .frame_bytes = NATIVE,
					   .global_base = OF_BASE,
					   .global_vmstate = OF_VMSTATE};

	memset(memory, 0, sizeof(memory));
	memset(&process, 0, sizeof(process));
	put_half(GLOBAL + OF_VMSTATE, LUAJIT_IN_INTERPRETER);
	walk_without_runtimes(&process.walk);
	luajit_place(&build, 0, &process.walk.luajit);
}

static void new_state(unsigned s)
{
	put_byte(STATE(s) + LUAJIT_STATE_TYPE, LUAJIT_TYPE_THREAD);
	put_word(STATE(s) + LUAJIT_STATE_GLOBAL, GLOBAL);
	put_word(STATE(s) + LUAJIT_STATE_STACK, VALUES(s));
	put_word(STATE(s) + LUAJIT_STATE_END, VALUES(s) + 0xf00);
	process.top[s] = VALUES(s) + 16;
	put_word(STATE(s) + LUAJIT_STATE_BASE, process.top[s]);
}

/* Function i, whose frame is `slots` above the one before it. */
static void push(unsigned s, unsigned i, unsigned slots, uint64_t link)
{
	process.top[s] += slots * 8ull;
	put_byte(FUNCTION(i) + LUAJIT_FUNCTION_TYPE, LUAJIT_TYPE_FUNCTION);
	put_byte(FUNCTION(i) + LUAJIT_FUNCTION_KIND, i == IN_C);
	put_word(FUNCTION(i) + LUAJIT_FUNCTION_CODE, CODE_OF(i));
	put_half(PROTOTYPE(i) + LUAJIT_PROTOTYPE_CODE_COUNT, CODE_COUNT);
	put_word(PROTOTYPE(i) + LUAJIT_PROTOTYPE_SOURCE, i * 3ull);
	put_half(PROTOTYPE(i) + LUAJIT_PROTOTYPE_LINE, i);
	put_word(process.top[s] - 16, LUAJIT_TAG_FUNCTION << LUAJIT_TAG_SHIFT | FUNCTION(i));
	put_word(process.top[s] - 8, link);
	put_word(STATE(s) + LUAJIT_STATE_BASE, process.top[s]);
}

static uint64_t behind(unsigned i, unsigned place)
{
	return CODE_OF(i) + place * 4 + 4;
}

/* Called by the instruction `place` of function `from`. */
static void call(unsigned s, unsigned i, unsigned from, unsigned place)
{
	put_half(CODE_OF(from) + place * 4, 66 | 3u << 8); /* operand A: 3 */
	push(s, i, 5, behind(from, place));
}

/* ... by C, or with another distance to the frame before it. */
static void enter(unsigned s, unsigned i, uint64_t type)
{
	push(s, i, 4, 32 | type);
}

/* The interpreter's native frame, which begins at an address, and is the state's innermost one. */
static void put_frame(uint64_t at, unsigned s, uint64_t before, uint64_t pc)
{
	put_word(at + LUAJIT_FRAME_STATE, STATE(s));
	put_word(at + LUAJIT_FRAME_BEFORE, before);
	put_word(at + LUAJIT_FRAME_PC, pc);
}

/* Native frames of NATIVE bytes each, from the leaf on. registers: rdx, rbx and rbp there. */
static int walk_natives(const uint64_t *addresses, uint64_t base, uint64_t pc, uint64_t fp)
{
	struct walk *walk = &process.walk;
	int r = WALK_GOES_ON;

	walk_begin(walk, addresses[0], 7);
	walk->registers[UNWIND_REGISTER_SP] = STACK;
	walk->registers[UNWIND_REGISTER_FP] = fp;
	walk->registers[LUAJIT_REGISTER_BASE] = base;
	walk->registers[LUAJIT_REGISTER_PC] = pc;
	walk->known = 0xffff;
	for (size_t i = 0; addresses[i] < MAIN || addresses[i] >= LIVE; i++)
		put_word(STACK + (i + 1) * NATIVE - 8, addresses[i + 1]);
	luajit_meet(walk);
	while (r == WALK_GOES_ON) {
		r = walk_step(walk);
		if (r == WALK_GOES_ON)
			luajit_meet(walk);
	}
	return r;
}

static uint64_t word_of(unsigned i, unsigned place, uint64_t flags)
{
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | (uint64_t)runtime_check_of(CODE_COUNT, i * 3ull, i) << 24 | place;
}

#define NOTE_CALLS	   RUNTIME_FRAME_NOTE(LUA_NOTE_CALLS)
#define AT(i, place)	   PROTOTYPE(i), word_of(i, place, 0)
#define CALLS(i, place)	   PROTOTYPE(i), word_of(i, place, NOTE_CALLS)
#define ENDS(i, place)	   PROTOTYPE(i), word_of(i, place, RUNTIME_FRAME_ENTRY)
#define ENDS_C(i, place)   PROTOTYPE(i), word_of(i, place, RUNTIME_FRAME_ENTRY | NOTE_CALLS)
#define NATIVE_AT(address) address, 0
#define UNKNOWN		   RUNTIME_PLACE_MAX

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
		assert_int_equal(walk->frames[at++], RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_LUAJIT << 56 | expected[i]);
		assert_int_equal(walk->frames[at++], expected[i + 1]);
	}
	assert_int_equal(at, walk->depth);
}
#define CHECK_CHAIN(...)                                                                                                       \
	do {                                                                                                                   \
		const uint64_t list[] = {__VA_ARGS__};                                                                         \
		check_chain(list, sizeof(list) / sizeof(list[0]));                                                             \
	} while (0)

/* The n-th native frame from the leaf on. */
#define FRAME(n) (STACK + (n)*NATIVE)

static void set_frame(unsigned s, uint64_t frame)
{
	put_word(STATE(s) + LUAJIT_STATE_FRAME, frame);
}

/* ---- tests ---- */

/* In the interpreter itself: base and instruction are in registers. */
static void test_interpreter(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	call(0, 2, 1, 5);
	call(0, 3, 2, 6);
	put_word(STATE(0) + LUAJIT_STATE_BASE, VALUES(0) + 0x800); /* is old */
	put_frame(FRAME(0), 0, 0, 0);
	set_frame(0, FRAME(0));
	assert_int_equal(walk_natives((const uint64_t[]){LOOP + 1, CODE + 1, MAIN}, process.top[0], behind(3, 7), 0),
			 UNWIND_COMPLETE);
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), AT(3, 7), CALLS(2, 6), ENDS_C(1, 5), NATIVE_AT(CODE + 1), NATIVE_AT(MAIN));
	assert_int_equal(process.walk.listed_missed, 0);
}

/* C that the interpreter has called: base in rbp, or in the state; the instruction is noted in the frame. */
static void test_called_c(void **state)
{
	for (unsigned in_register = 0; in_register < 2; in_register++) {
		set_up();
		new_state(0);
		enter(0, 1, LINK_C);
		call(0, 2, 1, 5);
		if (in_register)
			put_word(STATE(0) + LUAJIT_STATE_BASE, VALUES(0) + 0x800);
		put_frame(FRAME(1), 0, 0, behind(2, 4));
		set_frame(0, FRAME(1));
		process.walk.known = 0;
		struct walk *walk = &process.walk;
		const uint64_t addresses[] = {CODE + 1, LOOP + 1, MAIN};
		walk_begin(walk, addresses[0], 7);
		walk->registers[UNWIND_REGISTER_SP] = STACK;
		put_word(FRAME(1) - 8, LOOP + 1);
		put_word(FRAME(2) - 8, MAIN);
		walk->known = 1u << UNWIND_REGISTER_SP;
		assert_int_equal(walk_step(walk), WALK_GOES_ON);
		walk->registers[UNWIND_REGISTER_FP] = in_register ? process.top[0] : STATE(0);
		walk->known = 1u << UNWIND_REGISTER_SP | 1u << UNWIND_REGISTER_FP;
		luajit_meet(walk);
		assert_int_equal(walk_step(walk), WALK_GOES_ON);
		CHECK_CHAIN(NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 1), AT(2, 4), ENDS_C(1, 5), NATIVE_AT(MAIN));
		assert_int_equal(walk->listed_missed, 0);
	}
}

/* A function that C calls, which another one of Lua has called, by a protected call of the library. */
static void test_parts(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	call(0, IN_C, 1, 5);
	enter(0, 2, LINK_PCALL);
	call(0, IN_C, 2, 6);
	enter(0, 3, LINK_C);
	call(0, 4, 3, 7);
	put_frame(FRAME(0), 0, FRAME(2) | 2, 0);
	put_frame(FRAME(2), 0, 0, behind(2, 1));
	set_frame(0, FRAME(0));
	walk_natives((const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, CODE + 2, MAIN}, process.top[0], behind(4, 8), 0);
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), AT(4, 8), ENDS_C(3, 7), NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 2), AT(2, 6), ENDS(1, 5),
		    NATIVE_AT(CODE + 2), NATIVE_AT(MAIN));
	assert_int_equal(process.walk.listed_missed, 0);
	assert_int_equal(process.walk.listed_frame, 0);
}

/* Variable arguments: two frames of a function. A metamethod: its caller's instruction is below the function. */
static void test_links(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	call(0, 2, 1, 5);
	push(0, 2, 6, 6 * 8 | LUAJIT_LINK_VARIADIC);
	push(0, 3, 7, 7 * 8 | LUAJIT_LINK_CONTINUED);
	put_word(process.top[0] - 24, behind(2, 9));
	put_word(process.top[0] - 32, LOOP);
	put_frame(FRAME(0), 0, 0, 0);
	set_frame(0, FRAME(0));
	walk_natives((const uint64_t[]){LOOP + 1, MAIN}, process.top[0], behind(3, 0), 0);
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), AT(3, 0), CALLS(2, 9), ENDS_C(1, 5), NATIVE_AT(MAIN));
}

/* A coroutine: another state, whose native frames are in between. */
static void test_coroutines(void **state)
{
	set_up();
	new_state(0);
	new_state(1);
	enter(0, 1, LINK_C);
	call(0, IN_C, 1, 5);
	enter(1, 2, LUAJIT_LINK_PROTECTED);
	put_frame(FRAME(0), 1, 0, 0);
	put_frame(FRAME(1), 0, 0, 0);
	set_frame(1, FRAME(0) | 1);
	set_frame(0, FRAME(1));
	walk_natives((const uint64_t[]){LOOP + 1, LOOP + 2, MAIN}, process.top[1], behind(2, 3), 0);
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), ENDS(2, 3), NATIVE_AT(LOOP + 2), ENDS(1, 5), NATIVE_AT(MAIN));
	assert_int_equal(process.walk.listed_missed, 0);
}

/* A trace makes the frame larger; its place stands before the function that it has begun in. */
static void test_trace(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	call(0, 2, 1, 5);
	put_word(GLOBAL + OF_BASE, process.top[0]);
	put_half(GLOBAL + OF_VMSTATE, 12);
	put_frame(STACK + 0x40, 0, 0, 0);
	put_word(STACK + 0x20, STATE(1)); /* none */
	put_word(STACK + 0x40 + NATIVE - 8, MAIN);
	set_frame(0, STACK + 0x40);
	/* There is no code that could be looked at for a call. */
	assert_int_equal(walk_natives((const uint64_t[]){LIVE + 0x123, MAIN}, 0, 0, 0), UNWIND_NO_RULE);
	assert_int_equal(process.walk.frame_bytes, 0x40 + NATIVE);
	CHECK_CHAIN(NATIVE_AT(LIVE + 0x123), GLOBAL,
		    RUNTIME_FRAME | RUNTIME_FRAME_DATA | RUNTIME_FRAME_NOTE(LUAJIT_NOTE_TRACE) | (LIVE + 0x123), PROTOTYPE(2),
		    word_of(2, UNKNOWN, RUNTIME_FRAME_NOTE(LUAJIT_NOTE_BASE)), ENDS_C(1, 5));
	assert_int_equal(process.walk.listed_missed, 0);
}

/* A larger frame without a trace: that of another call further out, which is not taken for this one's. */
static void test_entry(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	put_frame(FRAME(0) + 0x40, 0, 0, behind(1, 3));
	set_frame(0, FRAME(0) + 0x40);
	walk_natives((const uint64_t[]){LOOP + 1, MAIN}, process.top[0], behind(1, 3), 0);
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), NATIVE_AT(MAIN));
	assert_int_equal(process.walk.listed_missed, 1);
}

/* The function is being returned from: the instruction is its caller's by now. What is nobody's is no function at all. */
static void test_transitions(void **state)
{
	for (unsigned lost = 0; lost < 2; lost++) {
		set_up();
		new_state(0);
		enter(0, 1, LINK_C);
		call(0, 2, 1, 5);
		put_frame(FRAME(0), 0, 0, 0);
		set_frame(0, FRAME(0));
		walk_natives((const uint64_t[]){LOOP + 1, MAIN}, process.top[0], lost ? 0x1234 : behind(1, 5), 0);
		CHECK_CHAIN(NATIVE_AT(LOOP + 1), AT(2, UNKNOWN), ENDS_C(1, 5), NATIVE_AT(MAIN));
		assert_int_equal(process.walk.listed_missed, lost);
	}
}

/* lua_cpcall(), which has no function of Lua, and another part further out. */
static void test_call_of_c(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	call(0, IN_C, 1, 5);
	put_frame(FRAME(1), 0, FRAME(3), 0);
	put_half(FRAME(1) + LUAJIT_FRAME_RESULTS, -(uint32_t)(process.top[0] + 64 - VALUES(0)));
	put_frame(FRAME(3), 0, 0, 0);
	set_frame(0, FRAME(1));
	walk_natives((const uint64_t[]){CODE + 1, LOOP + 1, CODE + 2, LOOP + 2, MAIN}, 0, 0, 0);
	CHECK_CHAIN(NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 1), NATIVE_AT(CODE + 2), NATIVE_AT(LOOP + 2), ENDS(1, 5),
		    NATIVE_AT(MAIN));
	assert_int_equal(process.walk.listed_missed, 0);
}

/* Lists that lead back, or nowhere: the walk ends, and says that it lacks something. */
static void test_lies(void **state)
{
	set_up();
	new_state(0);
	enter(0, 1, LINK_C);
	push(0, 2, 4, LUAJIT_LINK_VARIADIC); /* no distance */
	put_frame(FRAME(0), 0, 0, 0);
	set_frame(0, FRAME(0));
	walk_natives((const uint64_t[]){LOOP + 1, MAIN}, process.top[0], behind(2, 3), 0);
	assert_true(process.walk.listed_frame != 0);

	set_up();
	new_state(0);
	push(0, 1, 4, 0x7fff00000000ull); /* an instruction that cannot be read */
	put_frame(FRAME(0), 0, 0, 0);
	set_frame(0, FRAME(0));
	walk_natives((const uint64_t[]){LOOP + 1, MAIN}, process.top[0], behind(1, 3), 0);
	assert_true(process.walk.listed_frame != 0);
	assert_int_equal(process.walk.listed_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_interpreter), cmocka_unit_test(test_called_c),	cmocka_unit_test(test_parts),
		cmocka_unit_test(test_links),	    cmocka_unit_test(test_coroutines),	cmocka_unit_test(test_trace),
		cmocka_unit_test(test_entry),	    cmocka_unit_test(test_transitions), cmocka_unit_test(test_call_of_c),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
