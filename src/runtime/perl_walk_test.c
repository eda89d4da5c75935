// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of Perl in the walk (bpf/perl_walk.h, bpf/listed_walk.h), compiled for user space, over a memory made by hand:
 * stacks of contexts, lines of statements, and stacks that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/perl.h"
#include "runtime/test_listed.h"

/* ---- a process ---- */

#define KEY	    (START + 0x1000)
#define THREAD	    (START + 0x2000)
#define INTERPRETER (START + 0x4000)
#define STACK_OF(i) (START + 0x8000 + (i)*0x100ull) /* of contexts */
#define CONTEXTS(i) (START + 0x10000 + (i)*0x4000ull)
#define SUB(i)	    (START + 0x40000 + (i)*0x20ull)
#define BODY(i)	    (START + 0x50000 + (i)*0x100ull)
#define COP(i)	    (START + 0x60000 + (i)*0x40ull)
#define RETURNS	    0x4242ull
#define FROM_C	    0ull

static struct {
	struct walk walk;
	unsigned contexts[8];
} process;

static void set_up(void)
{
	struct perl_build build = {.key = KEY, .loop_start = LOOP, .loop_end = LOOP + 0x40};

	memset(memory, 0, sizeof(memory));
	memset(&process, 0, sizeof(process));
	assert_true(perl_layout_of(0x0524, &build.layout));
	walk_without_runtimes(&process.walk);
	perl_place(&build, 0, &process.walk.perl);
	put_word(KEY, 3);
	put_word(THREAD + build.layout.walk.thread_keys + 3 * 16 + 8, INTERPRETER);
	put_word(INTERPRETER + build.layout.walk.interpreter_stack, STACK_OF(0));
	put_word(INTERPRETER + build.layout.walk.interpreter_cop, COP(0));
	for (unsigned i = 0; i < 64; i++) { /* statement i has line 100 + i */
		put_word(COP(i) + PERL_COP_FROM, (100ull + i) << 32);
		put_word(COP(i) + PERL_COP_FILE, COP(i) * 3);
	}
}

static void put_stack(unsigned i, uint64_t back)
{
	put_word(STACK_OF(i) + PERL_STACK_CONTEXTS, CONTEXTS(i));
	put_word(STACK_OF(i) + PERL_STACK_BACK, back);
	put_word(STACK_OF(i) + PERL_STACK_TOP, process.contexts[i] - 1);
}

/* Above those that the stack has; called at statement `cop`. */
static void push_context(unsigned i, uint32_t type, unsigned sub, unsigned cop, uint64_t returns)
{
	uint64_t at = CONTEXTS(i) + process.contexts[i]++ * PERL_CONTEXT_BYTES;

	put_word(at + PERL_CONTEXT_TYPE, type);
	put_word(at + PERL_CONTEXT_COP, COP(cop));
	put_word(at + PERL_CONTEXT_RETURN, returns);
	put_word(at + PERL_CONTEXT_CV, SUB(sub));
	put_word(SUB(sub), BODY(sub));
	put_word(SUB(sub) + 8, (uint64_t)PERL_SV_CV << 32 | 1);
	put_word(BODY(sub) + PERL_CV_START, BODY(sub) * 3);
	put_word(BODY(sub) + PERL_CV_NAME, BODY(sub) * 5);
	put_word(BODY(sub) + PERL_CV_FILE, BODY(sub) * 7);
}

/* As a build without threads: what was the interpreter's are variables. */
static void take_threads_away(void)
{
	struct perl_build build = {.stack = INTERPRETER + process.walk.perl.interpreter_stack,
				   .cop = INTERPRETER + process.walk.perl.interpreter_cop,
				   .loop_start = LOOP,
				   .loop_end = LOOP + 0x40};

	assert_true(perl_layout_of(0x0524, &build.layout));
	perl_place(&build, 0, &process.walk.perl);
	put_word(KEY, 0);
}

static unsigned collect(void)
{
	uint64_t interpreter = process.walk.perl.key ? perl_interpreter(&process.walk, THREAD) : 0;
	unsigned steps = 0;

	perl_first_frame(&process.walk, interpreter);
	while (steps < PERL_CONTEXTS_READ && !perl_collect_step(&process.walk))
		steps++;
	return steps;
}

#define SUB_AT(sub, cop)     SUB(sub), sub_word(sub, cop, 0)
#define SUB_FROM_C(sub, cop) SUB(sub), sub_word(sub, cop, RUNTIME_FRAME_ENTRY)
#define EVAL_AT(cop)	     COP(cop) | PERL_OBJECT_EVAL, cop_word(PERL_OBJECT_EVAL, cop, 0)
#define MAIN_AT(cop)	     COP(cop) | PERL_OBJECT_MAIN, cop_word(PERL_OBJECT_MAIN, cop, RUNTIME_FRAME_ENTRY)
#define NATIVE_AT(address)   address, 0

static uint64_t sub_word(unsigned sub, unsigned cop, uint64_t flags)
{
	uint64_t check = runtime_check_of(BODY(sub) * 5, BODY(sub) * 7, BODY(sub) * 3);
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | check << 24 | (100 + cop);
}

static uint64_t cop_word(uint32_t kind, unsigned cop, uint64_t flags)
{
	uint64_t check = runtime_check_of(COP(cop) * 3, 100 + cop, kind);
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | check << 24 | (100 + cop);
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
		assert_int_equal(walk->frames[at++], RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_PERL << 56 | expected[i]);
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

/* Subroutines, an eval, blocks and loops between them. */
static void test_one_stack(void **state)
{
	set_up();
	push_context(0, 2, 0, 9, 0);
	push_context(0, PERL_TYPE_SUB, 1, 1, RETURNS);
	push_context(0, 5, 0, 9, 0);
	push_context(0, PERL_TYPE_EVAL | 0x40, 0, 2, RETURNS);
	push_context(0, PERL_TYPE_SUB | 0x20, 2, 3, RETURNS);
	put_stack(0, 0);
	collect();
	assert_int_equal(process.walk.listed_frame, 0);
	walk_stack(&process.walk, (const uint64_t[]){CODE, LOOP + 9, MAIN});
	CHECK_CHAIN(NATIVE_AT(CODE), NATIVE_AT(LOOP + 9), SUB_AT(2, 0), EVAL_AT(3), SUB_AT(1, 2), MAIN_AT(1), NATIVE_AT(MAIN));
}

static void test_without_threads(void **state)
{
	set_up();
	take_threads_away();
	push_context(0, PERL_TYPE_SUB, 1, 1, RETURNS);
	push_context(0, PERL_TYPE_EVAL, 0, 2, RETURNS);
	put_stack(0, 0);
	collect();
	walk_stack(&process.walk, (const uint64_t[]){CODE, LOOP + 9, MAIN});
	CHECK_CHAIN(NATIVE_AT(CODE), NATIVE_AT(LOOP + 9), EVAL_AT(0), SUB_AT(1, 2), MAIN_AT(1), NATIVE_AT(MAIN));
}

/* No context at all: the code outside of subroutines. */
static void test_no_context(void **state)
{
	set_up();
	put_stack(0, 0);
	collect();
	walk_stack(&process.walk, (const uint64_t[]){LOOP, MAIN});
	CHECK_CHAIN(NATIVE_AT(LOOP), MAIN_AT(0), NATIVE_AT(MAIN));
}

/* What C calls: by the stack in use, by another stack, and the block of sort(), which is no function but has a loop. */
static void test_parts(void **state)
{
	set_up();
	push_context(0, PERL_TYPE_SUB, 3, 5, FROM_C);
	put_stack(0, STACK_OF(1));
	push_context(1, 2, 0, 9, 0);
	put_stack(1, STACK_OF(2));
	push_context(2, PERL_TYPE_SUB, 1, 6, RETURNS);
	push_context(2, PERL_TYPE_SUB, 2, 7, FROM_C);
	put_stack(2, 0);
	collect();
	walk_stack(&process.walk,
		   (const uint64_t[]){LOOP + 1, CODE + 1, LOOP + 2, CODE + 2, LOOP + 3, CODE + 3, LOOP + 4, MAIN});
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), SUB_FROM_C(3, 0), NATIVE_AT(CODE + 1), NATIVE_AT(LOOP + 2), NATIVE_AT(CODE + 2),
		    NATIVE_AT(LOOP + 3), SUB_FROM_C(2, 5), NATIVE_AT(CODE + 3), NATIVE_AT(LOOP + 4), SUB_AT(1, 7), MAIN_AT(6),
		    NATIVE_AT(MAIN));
}

/* A subroutine that sort()'s block calls ends the part with the stack. */
static void test_stack_ends_a_part(void **state)
{
	set_up();
	push_context(0, 2, 0, 9, 0);
	push_context(0, PERL_TYPE_SUB, 3, 5, RETURNS);
	put_stack(0, STACK_OF(1));
	put_stack(1, 0);
	collect();
	walk_stack(&process.walk, (const uint64_t[]){LOOP + 1, LOOP + 2, MAIN});
	CHECK_CHAIN(NATIVE_AT(LOOP + 1), SUB_FROM_C(3, 0), NATIVE_AT(LOOP + 2), MAIN_AT(5), NATIVE_AT(MAIN));
	/* What the native walk does not come to is pending, but for a part that has nothing. */
	set_up();
	put_stack(0, STACK_OF(1));
	put_stack(1, 0);
	collect();
	walk_stack(&process.walk, (const uint64_t[]){CODE, MAIN});
	CHECK_CHAIN(NATIVE_AT(CODE), NATIVE_AT(MAIN), COP(0) | PERL_OBJECT_MAIN,
		    cop_word(PERL_OBJECT_MAIN, 0, RUNTIME_FRAME_ENTRY | RUNTIME_FRAME_PENDING));
}

/* Code in a pattern has a context beside its subroutine's; blocks of try/catch are no eval. */
static void test_hidden_contexts(void **state)
{
	set_up();
	push_context(0, PERL_TYPE_SUB, 1, 1, RETURNS);
	push_context(0, PERL_TYPE_SUB | PERL_TYPE_HIDDEN, 1, 2, RETURNS);
	push_context(0, PERL_TYPE_EVAL | PERL_TYPE_HIDDEN, 0, 3, RETURNS);
	put_stack(0, 0);
	collect();
	walk_stack(&process.walk, (const uint64_t[]){LOOP, MAIN});
	CHECK_CHAIN(NATIVE_AT(LOOP), SUB_AT(1, 0), MAIN_AT(1), NATIVE_AT(MAIN));
}

static void test_threads(void **state)
{
	set_up();
	put_stack(0, 0);
	assert_int_equal(perl_interpreter(&process.walk, THREAD), INTERPRETER);
	assert_int_equal(perl_interpreter(&process.walk, THREAD + 8), 0);
	put_word(KEY, 32); /* beyond the keys whose data lie in the thread */
	assert_int_equal(perl_interpreter(&process.walk, THREAD), 0);
	process.walk.perl.key = 8;
	assert_int_equal(perl_interpreter(&process.walk, THREAD), 0);
}

static void test_lies(void **state)
{
	/* A list of stacks that is a circle; a stack of far too many contexts; contexts that go on for ever. */
	set_up();
	put_stack(0, STACK_OF(1));
	put_stack(1, STACK_OF(0));
	collect();
	assert_int_equal(process.walk.listed_count, LISTED_FRAMES_MAX);
	set_up();
	process.contexts[0] = PERL_CONTEXTS_MAX + 1;
	put_stack(0, 0);
	assert_int_equal(collect(), 0);
	assert_true(process.walk.listed_count == 0 && process.walk.listed_frame != 0);
	set_up();
	process.contexts[0] = (BYTES - 0x20000) / PERL_CONTEXT_BYTES; /* all of type 0 */
	put_stack(0, 0);
	assert_int_equal(collect(), PERL_CONTEXTS_READ);
	/* Subroutines that are none: askew, nowhere, of another type, with a body that cannot be read. */
	for (unsigned i = 0; i < 4; i++) {
		set_up();
		push_context(0, PERL_TYPE_SUB, 1, 1, RETURNS);
		push_context(0, PERL_TYPE_SUB, 2, 1, RETURNS);
		put_stack(0, 0);
		if (i == 0)
			put_word(CONTEXTS(0) + PERL_CONTEXT_CV, SUB(1) + 4);
		if (i == 1)
			put_word(CONTEXTS(0) + PERL_CONTEXT_CV, 0x1000);
		if (i == 2)
			put_word(SUB(1) + 8, 12ull << 32);
		if (i == 3)
			put_word(SUB(1), 0x1000);
		collect();
		assert_int_equal(process.walk.listed_count, 1);
		assert_true(process.walk.listed_frame != 0);
	}
	/* Statements that cannot be read have no line. */
	set_up();
	push_context(0, PERL_TYPE_SUB, 1, 1, RETURNS);
	put_word(CONTEXTS(0) + PERL_CONTEXT_COP, 0x1001);
	put_word(INTERPRETER + process.walk.perl.interpreter_cop, 0x1000);
	put_stack(0, 0);
	collect();
	assert_int_equal(process.walk.listed_count, 2);
	assert_int_equal(RUNTIME_PLACE(process.walk.listed_frames[0][1]), 0);
	assert_int_equal(RUNTIME_OBJECT(process.walk.listed_frames[1][0]), PERL_OBJECT_MAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_stack),	  cmocka_unit_test(test_without_threads),
		cmocka_unit_test(test_no_context),	  cmocka_unit_test(test_parts),
		cmocka_unit_test(test_stack_ends_a_part), cmocka_unit_test(test_hidden_contexts),
		cmocka_unit_test(test_threads),		  cmocka_unit_test(test_lies),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
