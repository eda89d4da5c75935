// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of Ruby in the walk (bpf/ruby_walk.h, bpf/listed_walk.h), compiled for user space, over a memory made by hand:
 * contexts of threads, control frames, and stacks that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/ruby.h"
#include "runtime/test_listed.h"

/* ---- a process ---- */

#define INDEX	     (START + 0x1000)
#define THREAD	     (START + 0x2000)
#define BLOCKS	     (START + 0x3000)
#define BLOCK	     (START + 0x4000)
#define CONTEXT	     (START + 0x5000)
#define VM_STACK     (START + 0x10000)
#define VM_WORDS     0x4000ull
#define VM_END	     (VM_STACK + VM_WORDS * 8)
#define FRAME_BYTES  64u /* 3.1 */
#define FRAMES_MAX   200u
#define FIRST	     (VM_END - (FRAMES_MAX + 1) * FRAME_BYTES)
#define ENV(i)	     (VM_STACK + 0x20 + (i)*0x20ull)
#define SEQUENCE(i)  (START + 0x40000 + (i)*0x40ull)
#define BODY(i)	     (START + 0x50000 + (i)*0x100ull)
#define INSTR(i)     (START + 0x60000 + (i)*0x200ull)
#define METHOD(i)    (START + 0x70000 + (i)*0x40ull)
#define INSTR_COUNT  20u
#define METHOD_FRAME 0x11110001u

static struct {
	struct walk walk;
	struct ruby_build build;
	unsigned frames;
} process;

static void set_up(void)
{
	struct ruby_build *build = &process.build;

	memset(memory, 0, sizeof(memory));
	memset(&process, 0, sizeof(process));
	assert_true(ruby_layout_of(0x0301, &build->layout));
	assert_int_equal(build->layout.walk.frame_bytes, FRAME_BYTES);
	build->storage_index = INDEX;
	build->loop_start = LOOP;
	build->loop_end = LOOP + 0x1000;
	walk_without_runtimes(&process.walk);
	ruby_place(build, 0, &process.walk.ruby);
	put_word(INDEX, 5);
	put_word(INDEX + 8, 0x40);
	put_word(THREAD + 8, BLOCKS);
	put_word(BLOCKS + 5 * 16, BLOCK);
	put_word(BLOCK + 0x40, CONTEXT);
	put_word(CONTEXT + RUBY_CONTEXT_STACK, VM_STACK);
	put_word(CONTEXT + RUBY_CONTEXT_WORDS, VM_WORDS);
	put_word(CONTEXT + RUBY_CONTEXT_FRAME, VM_END - FRAME_BYTES);
}

/* Inside of those that were added before. */
static uint64_t push_frame(uint64_t pc, uint64_t code, uint64_t method, uint64_t flags)
{
	uint64_t frame = VM_END - (++process.frames + 1) * FRAME_BYTES;

	put_word(frame + RUBY_FRAME_PC, pc);
	put_word(frame + RUBY_FRAME_CODE, code);
	put_word(frame + RUBY_FRAME_ENV, ENV(process.frames) + RUBY_ENV_BEFORE);
	put_word(ENV(process.frames) + RUBY_ENV_METHOD, method);
	put_word(ENV(process.frames) + RUBY_ENV_FLAGS, flags);
	put_word(CONTEXT + RUBY_CONTEXT_FRAME, frame);
	return frame;
}

static uint64_t push_code(unsigned i, unsigned place, uint64_t flags)
{
	put_word(SEQUENCE(i) + RUBY_CODE_BODY, BODY(i));
	put_word(BODY(i), (uint64_t)INSTR_COUNT << 32);
	put_word(BODY(i) + RUBY_BODY_INSTR, INSTR(i));
	put_word(BODY(i) + RUBY_BODY_PATH, BODY(i) * 3);
	put_word(BODY(i) + RUBY_BODY_LABEL, BODY(i) * 5);
	put_word(BODY(i) + RUBY_BODY_FIRST_LINE, i);
	return push_frame(INSTR(i) + place * 8ull, SEQUENCE(i), 0, METHOD_FRAME | flags);
}

static void push_method(unsigned i)
{
	put_word(METHOD(i) + RUBY_METHOD_DEFINITION, METHOD(i) * 3);
	put_word(METHOD(i) + RUBY_METHOD_ID, METHOD(i) * 5);
	put_word(METHOD(i) + RUBY_METHOD_OWNER, METHOD(i) * 7);
	push_frame(0, 0, METHOD(i), RUBY_FRAME_IS_C | 0x80);
}

static unsigned collect(void)
{
	unsigned steps = 0;

	ruby_first_frame(&process.walk, ruby_context(&process.walk, THREAD));
	while (steps < 2 * LISTED_FRAMES_MAX && !ruby_collect_step(&process.walk))
		steps++;
	return steps;
}

#define CODE_AT(i, place)   SEQUENCE(i), code_word(i, place, 0)
#define CODE_ENDS(i, place) SEQUENCE(i), code_word(i, place, RUNTIME_FRAME_ENTRY)
#define METHOD_AT(i)	    METHOD(i) | RUBY_OBJECT_METHOD, method_word(i)
#define NATIVE_AT(address)  address, 0

static uint64_t code_word(unsigned i, unsigned place, uint64_t flags)
{
	uint64_t check = runtime_check_of(BODY(i) * 5, BODY(i) * 3, INSTR(i) ^ i);
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | check << 24 | place;
}

static uint64_t method_word(unsigned i)
{
	uint64_t check = runtime_check_of(METHOD(i) * 3, METHOD(i) * 5, METHOD(i) * 7);
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | check << 24;
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
		assert_int_equal(walk->frames[at++], RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_RUBY << 56 | expected[i]);
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

/* A block that a method in C calls, and one that is not begun yet; the outermost frame is none. */
static void test_parts(void **state)
{
	set_up();
	push_code(1, 3, RUBY_FRAME_FINISH);
	push_code(2, 4, 0);
	push_method(1);
	push_code(3, 5, RUBY_FRAME_FINISH);
	push_frame(0, SEQUENCE(9), 0, 0x66660001); /* a function of C in place of a block */
	push_code(4, INSTR_COUNT, 0);
	collect();
	assert_int_equal(process.walk.listed_frame, 0);
	walk_stack(&process.walk, (const uint64_t[]){CODE, LOOP + 1, CODE + 1, LOOP + 2, MAIN});
	CHECK_CHAIN(NATIVE_AT(CODE), NATIVE_AT(LOOP + 1), CODE_AT(4, INSTR_COUNT), CODE_ENDS(3, 5), NATIVE_AT(CODE + 1),
		    NATIVE_AT(LOOP + 2), METHOD_AT(1), CODE_AT(2, 4), CODE_ENDS(1, 3), NATIVE_AT(MAIN));
}

/* Without the loop the list is one part, behind the innermost frame of the library. */
static void test_one_part(void **state)
{
	set_up();
	process.build.is_one_part = true;
	ruby_place(&process.build, 0, &process.walk.ruby);
	push_code(1, 3, RUBY_FRAME_FINISH);
	push_method(1);
	push_code(2, 4, RUBY_FRAME_FINISH);
	collect();
	walk_stack(&process.walk, (const uint64_t[]){CODE, LOOP + 1, LOOP + 2, CODE + 1, LOOP + 3, MAIN});
	CHECK_CHAIN(NATIVE_AT(CODE), NATIVE_AT(LOOP + 1), CODE_AT(2, 4), METHOD_AT(1), CODE_AT(1, 3), NATIVE_AT(LOOP + 2),
		    NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 3), NATIVE_AT(MAIN));
}

static void test_contexts(void **state)
{
	struct walk *walk = &process.walk;

	set_up();
	assert_int_equal(ruby_context(walk, THREAD), CONTEXT);
	/* The block is made when it is used first. */
	put_word(BLOCKS + 5 * 16, UINT64_MAX);
	assert_int_equal(ruby_context(walk, THREAD), 0);
	put_word(BLOCKS + 5 * 16, 0);
	assert_int_equal(ruby_context(walk, THREAD), 0);
	put_word(INDEX, RUBY_MODULES_MAX + 1);
	assert_int_equal(ruby_context(walk, THREAD), 0);
	put_word(INDEX, 0);
	assert_int_equal(ruby_context(walk, THREAD), 0);
	walk->ruby.storage_index = 0x1000;
	assert_int_equal(ruby_context(walk, THREAD), 0);
	/* Of an executable. */
	walk->ruby.storage_index = 0;
	walk->ruby.storage_offset = -16;
	put_word(THREAD - 16, CONTEXT);
	assert_int_equal(ruby_context(walk, THREAD), CONTEXT);
	/* 2.7: of the thread whose stack it has. */
	walk->ruby.variable = INDEX;
	put_word(INDEX, CONTEXT);
	put_word(CONTEXT + walk->ruby.context_native, 0x7ffe00000000);
	walk->registers[UNWIND_REGISTER_SP] = 0x7ffdfffff000;
	assert_int_equal(ruby_context(walk, THREAD), CONTEXT);
	walk->registers[UNWIND_REGISTER_SP] = 0x7ffe00000008;
	assert_int_equal(ruby_context(walk, THREAD), 0);
	walk->registers[UNWIND_REGISTER_SP] = 0x7ffe00000000 - RUBY_NATIVE_STACK_MAX;
	assert_int_equal(ruby_context(walk, THREAD), 0);
}

static void test_lies(void **state)
{
	/* A stack that is too large, or does not hold the frame. */
	static const uint64_t lies[][2] = {{RUBY_CONTEXT_WORDS, RUBY_STACK_WORDS_MAX + 1},
					   {RUBY_CONTEXT_FRAME, VM_STACK - 8},
					   {RUBY_CONTEXT_FRAME, VM_END + 8},
					   {RUBY_CONTEXT_STACK, UINT64_MAX - 7}};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		set_up();
		push_code(1, 1, 0);
		put_word(CONTEXT + lies[i][0], lies[i][1]);
		collect();
		assert_int_equal(process.walk.listed_count, 0);
	}
	/* Frames: askew; whose environment, code or method cannot be read. The list is known to go on. */
	for (unsigned i = 0; i < 5; i++) {
		set_up();
		push_code(1, 1, 0);
		uint64_t frame = push_code(2, 2, 0);
		push_code(3, 3, 0);
		if (i == 0)
			put_word(CONTEXT + RUBY_CONTEXT_FRAME, frame - FRAME_BYTES + 4);
		if (i == 1)
			put_word(frame + RUBY_FRAME_ENV, 0x1000);
		if (i == 2)
			put_word(frame + RUBY_FRAME_CODE, SEQUENCE(2) + 4);
		if (i == 3)
			put_word(SEQUENCE(2) + RUBY_CODE_BODY, 0x1000);
		if (i == 4) {
			put_word(frame + RUBY_FRAME_CODE, 0);
			put_word(ENV(2) + RUBY_ENV_FLAGS, RUBY_FRAME_IS_C);
			put_word(ENV(2) + RUBY_ENV_METHOD, METHOD(1) + 1);
		}
		collect();
		assert_int_equal(process.walk.listed_count, i ? 1 : 0);
		assert_true(process.walk.listed_frame != 0);
	}
	/* An instruction that is not the sequence's. */
	set_up();
	push_code(1, INSTR_COUNT + 1, 0);
	collect();
	assert_int_equal(RUNTIME_PLACE(process.walk.listed_frames[0][1]), 0);
	/* More frames than are collected. */
	set_up();
	put_word(CONTEXT + RUBY_CONTEXT_FRAME, VM_STACK);
	assert_true(collect() <= VM_WORDS * 8 / FRAME_BYTES);
	assert_int_equal(process.walk.listed_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_one_part),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
