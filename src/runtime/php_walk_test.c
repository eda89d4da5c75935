// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of PHP in the walk (bpf/php_walk.h, bpf/listed_walk.h), compiled for user space, over a memory made by hand: lists
 * of frames, of generators, lines of instructions, and lists that lie.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/php.h"
#include "runtime/test_listed.h"

/* ---- a process ---- */

#define GLOBALS		   (START + 0x1000)
#define OFFSET		   (START + 0x400) /* executor_globals_offset, of a thread-safe build */
#define SLOT		   (START + 0x500)
#define THREAD		   (START + 0x800)
#define BLOCK		   (START + 0x900)
#define GENERATOR_CLASS	   (START + 0x2000) /* the variable; what it points to is 0x100 behind it */
#define FUNCTION(i)	   (START + 0x10000 + (i)*0x200ull)
#define OPS(i)		   (START + 0x20000 + (i)*0x1000ull)
#define FRAME(i)	   (START + 0x40000 + (i)*0x60ull)
#define GENERATOR(i)	   (START + 0xc0000 + (i)*0x200ull)
#define STACK		   (START + 0xe0000)
#define OPS_COUNT	   16u
#define TOP		   PHP_CALL_TOP
#define LINE(function, op) ((function)*100u + (op))

static struct process {
	struct walk walk;
	struct php_layout layout;
	unsigned frames;
} process;

static void set_up(void)
{
	struct php_build build = {.globals = GLOBALS,
				  .generator_class = GENERATOR_CLASS,
				  .loop_start = LOOP,
				  .loop_end = LOOP + 0x1000,
				  .cold_start = COLD,
				  .cold_end = COLD + 0x100};

	memset(memory, 0, sizeof(memory));
	memset(&process, 0, sizeof(process));
	assert_true(php_layout_of(0x0802, &build.layout));
	process.layout = build.layout;
	walk_without_runtimes(&process.walk);
	php_place(&build, 0, &process.walk.php);
	put_word(GENERATOR_CLASS, GENERATOR_CLASS + 0x100);
}

static void put_function(unsigned i, uint32_t type)
{
	const struct php_process *walk = &process.layout.walk;

	put_word(FUNCTION(i), type);
	put_word(FUNCTION(i) + PHP_FUNCTION_NAME, FUNCTION(i) * 3);
	put_word(FUNCTION(i) + PHP_FUNCTION_CLASS, FUNCTION(i) * 5);
	put_word(FUNCTION(i) + walk->function_ops, OPS(i));
	put_word(FUNCTION(i) + walk->function_count, OPS_COUNT);
	put_word(FUNCTION(i) + walk->function_file, FUNCTION(i) * 7);
	put_word(FUNCTION(i) + walk->function_file + 8, i);
	for (unsigned op = 0; op < OPS_COUNT; op++)
		put_word(OPS(i) + op * PHP_OP_BYTES + PHP_OP_LINE, LINE(i, op));
}

static void put_frame(uint64_t frame, unsigned function, uint64_t opline, uint32_t info)
{
	put_word(frame + PHP_FRAME_FUNCTION, function ? FUNCTION(function) : 0);
	put_word(frame + PHP_FRAME_OPLINE, opline);
	put_word(frame + PHP_FRAME_INFO, info);
}

/* Behind the frames that were added before; at the op-th instruction. function 0 = none. */
static uint64_t add_frame(unsigned function, uint32_t type, unsigned op, uint32_t info)
{
	uint64_t frame = FRAME(process.frames);

	if (function)
		put_function(function, type);
	put_frame(frame, function, OPS(function) + op * PHP_OP_BYTES, info);
	put_word(process.frames ? FRAME(process.frames - 1) + PHP_FRAME_BACK : GLOBALS + process.layout.walk.globals_current,
		 frame);
	process.frames++;
	return frame;
}

static unsigned collect(void)
{
	unsigned steps = 0;

	process.walk.listed_frame = php_first_frame(&process.walk, THREAD);
	while (steps < 2 * LISTED_FRAMES_MAX && !php_collect_step(&process.walk))
		steps++;
	return steps;
}

static uint64_t word_of(unsigned function, uint32_t line, uint64_t flags)
{
	uint64_t check = runtime_check_of(FUNCTION(function) * 3, FUNCTION(function) * 5, OPS(function));

	if (memory[FUNCTION(function) - START] != PHP_FUNCTION_INTERNAL)
		check = runtime_check_of(check, FUNCTION(function) * 7, function);
	return RUNTIME_FRAME | RUNTIME_FRAME_DATA | flags | check << 24 | line;
}

/* The i-th that was collected. */
static void check_collected(unsigned i, unsigned function, uint32_t line, uint64_t flags)
{
	const struct walk *walk = &process.walk;

	assert_true(i < walk->listed_count);
	assert_int_equal(walk->listed_frames[i][0], RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_PHP << 56 | FUNCTION(function));
	assert_int_equal(walk->listed_frames[i][1], word_of(function, line, flags));
}

#define NATIVE_ONLY UINT64_MAX
static void check_chain(const uint64_t (*expected)[3], size_t count)
{
	const struct walk *walk = &process.walk;
	uint32_t at = 0;

	for (size_t i = 0; i < count; i++) {
		assert_true(at < walk->depth);
		if (expected[i][1] == NATIVE_ONLY) {
			assert_int_equal(walk->frames[at++], expected[i][0]);
			continue;
		}
		assert_int_equal(walk->frames[at++],
				 RUNTIME_FRAME | (uint64_t)RUNTIME_KIND_PHP << 56 | FUNCTION(expected[i][0]));
		assert_int_equal(walk->frames[at++],
				 word_of((unsigned)expected[i][0], (uint32_t)expected[i][1], expected[i][2]));
	}
	assert_int_equal(at, walk->depth);
}
#define CHECK_CHAIN(...)                                                                                                       \
	do {                                                                                                                   \
		const uint64_t list[][3] = {__VA_ARGS__};                                                                      \
		check_chain(list, sizeof(list) / sizeof(list[0]));                                                             \
	} while (0)

/* ---- tests ---- */

#define USER PHP_FUNCTION_USER
#define IN_C PHP_FUNCTION_INTERNAL

/* A callback that a function in C calls: two loops, the inner one in its cold part. */
static void test_parts(void **state)
{
	set_up();
	add_frame(1, USER, 3, 0);
	add_frame(2, USER, 1, TOP);
	add_frame(3, IN_C, 0, 0);
	add_frame(4, USER, 15, 0);
	add_frame(5, PHP_FUNCTION_EVAL, 0, TOP);
	assert_int_equal(collect(), 5);
	assert_int_equal(walk_stack(&process.walk, (const uint64_t[]){CODE, COLD + 0x20, CODE + 0x99, LOOP + 0x1000, MAIN}),
			 UNWIND_COMPLETE);
	CHECK_CHAIN({CODE, NATIVE_ONLY}, {COLD + 0x20, NATIVE_ONLY}, {1, LINE(1, 3)}, {2, LINE(2, 1), RUNTIME_FRAME_ENTRY},
		    {CODE + 0x99, NATIVE_ONLY}, {LOOP + 0x1000, NATIVE_ONLY}, {3, 0}, {4, LINE(4, 15)},
		    {5, LINE(5, 0), RUNTIME_FRAME_ENTRY}, {MAIN, NATIVE_ONLY});
}

/* Code of a file is told from functions, which have names. */
static void test_code_without_name(void **state)
{
	set_up();
	add_frame(1, USER, 3, 0);
	add_frame(2, USER, 1, TOP);
	put_word(FUNCTION(2) + PHP_FUNCTION_NAME, 0);
	assert_int_equal(collect(), 2);
	assert_int_equal(RUNTIME_OBJECT(process.walk.listed_frames[0][0]), FUNCTION(1));
	assert_int_equal(RUNTIME_OBJECT(process.walk.listed_frames[1][0]), FUNCTION(2) | PHP_OBJECT_MAIN);
}

/* A function in C that a function in C calls has no loop: the part goes on. */
static void test_calls_within_c(void **state)
{
	set_up();
	add_frame(1, IN_C, 0, TOP);
	add_frame(2, IN_C, 0, 0);
	add_frame(3, USER, 2, TOP);
	assert_int_equal(collect(), 3);
	walk_stack(&process.walk, (const uint64_t[]){CODE, CODE + 0x50, LOOP + 9, MAIN});
	CHECK_CHAIN({CODE, NATIVE_ONLY}, {CODE + 0x50, NATIVE_ONLY}, {LOOP + 9, NATIVE_ONLY}, {1, 0}, {2, 0},
		    {3, LINE(3, 2), RUNTIME_FRAME_ENTRY}, {MAIN, NATIVE_ONLY});
}

/* The register counts while it points into the innermost function; else what the frame has; else where an exception came from.
 */
static void test_lines(void **state)
{
	__u64 *opline = &process.walk.registers[PHP_REGISTER_OPLINE];
	static const struct {
		uint64_t reg, frame, before;
		uint32_t line;
	} cases[] = {
		{OPS(1) + 5 * PHP_OP_BYTES, OPS(1) + 3 * PHP_OP_BYTES, 0, LINE(1, 5)},
		{OPS(1) + 15 * PHP_OP_BYTES, OPS(1), 0, LINE(1, 15)},
		{OPS(1) + 16 * PHP_OP_BYTES, OPS(1), 0, LINE(1, 0)},
		{OPS(1) + 8, OPS(1) + PHP_OP_BYTES, 0, LINE(1, 1)},
		{OPS(1) - PHP_OP_BYTES, OPS(1) + PHP_OP_BYTES, 0, LINE(1, 1)},
		{OPS(2), OPS(1) + PHP_OP_BYTES, 0, LINE(1, 1)},
		{0, OPS(2), OPS(1) + 7 * PHP_OP_BYTES, LINE(1, 7)},
		{0, OPS(2), OPS(2), 0},
		{0, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up();
		*opline = cases[i].reg;
		uint64_t frame = add_frame(1, USER, 0, TOP);
		put_word(frame + PHP_FRAME_OPLINE, cases[i].frame);
		add_frame(2, USER, 6, TOP);
		put_word(GLOBALS + process.layout.walk.globals_opline_before, cases[i].before);
		collect();
		check_collected(0, 1, cases[i].line, RUNTIME_FRAME_ENTRY);
		check_collected(1, 2, LINE(2, 6), RUNTIME_FRAME_ENTRY); /* never by the register */
	}
	/* More lines than a place holds. */
	set_up();
	add_frame(1, USER, 2, TOP);
	put_word(OPS(1) + 2 * PHP_OP_BYTES + PHP_OP_LINE, UINT32_MAX);
	collect();
	check_collected(0, 1, RUNTIME_PLACE_MAX, RUNTIME_FRAME_ENTRY);
}

/* generators[0] runs; each next one delegates to the one before it, and the last one was asked. */
static void put_generators(unsigned count, uint64_t placeholder)
{
	const struct php_process *walk = &process.layout.walk;

	for (unsigned i = 0; i < count; i++) {
		put_word(GENERATOR(i) + PHP_OBJECT_CLASS, GENERATOR_CLASS + 0x100);
		put_word(GENERATOR(i) + walk->generator_frame, FRAME(100 + i));
		put_word(GENERATOR(i) + walk->generator_parent, i ? GENERATOR(i - 1) : 0);
		put_function(10 + i, USER);
		put_frame(FRAME(100 + i), 10 + i, OPS(10 + i) + i * PHP_OP_BYTES, TOP);
	}
	put_word(placeholder + PHP_FRAME_THIS, GENERATOR(count - 1));
}

static void test_generators(void **state)
{
	for (unsigned count = 2; count < 6; count++) {
		set_up();
		add_frame(1, USER, 4, 0);
		add_frame(10, USER, 0, TOP);
		uint64_t placeholder = add_frame(0, 0, 0, PHP_TYPE_OBJECT);
		add_frame(2, USER, 5, TOP);
		put_generators(count, placeholder);
		collect();
		assert_int_equal(process.walk.listed_count, count + 2);
		assert_int_equal(process.walk.listed_frame, 0);
		check_collected(0, 1, LINE(1, 4), 0);
		check_collected(1, 10, LINE(10, 0), RUNTIME_FRAME_ENTRY);
		for (unsigned i = 1; i < count; i++) /* in the order of calls, and no loop is theirs */
			check_collected(1 + i, 10 + i, LINE(10 + i, i), 0);
		check_collected(count + 1, 2, LINE(2, 5), RUNTIME_FRAME_ENTRY);
	}
	/* The outermost frame stands for generators. */
	set_up();
	add_frame(10, USER, 0, TOP);
	put_generators(3, add_frame(0, 0, 0, PHP_TYPE_OBJECT));
	collect();
	assert_int_equal(process.walk.listed_count, 3);
	check_collected(1, 11, LINE(11, 1), 0);
	check_collected(2, 12, LINE(12, 2), 0);
}

/* Frames without a function that stand for no generator are passed over. */
static void test_frames_without_functions(void **state)
{
	set_up();
	add_frame(1, USER, 1, TOP);
	add_frame(0, 0, 0, PHP_TYPE_OBJECT);					      /* an object that cannot be read */
	put_word(add_frame(0, 0, 0, PHP_TYPE_OBJECT) + PHP_FRAME_THIS, GENERATOR(9)); /* of another class */
	put_word(add_frame(0, 0, 0, 4) + PHP_FRAME_THIS, GENERATOR(0));		      /* no object */
	put_generators(2, FRAME(50));
	add_frame(2, USER, 2, TOP);
	collect();
	assert_int_equal(process.walk.listed_count, 2);
	check_collected(1, 2, LINE(2, 2), RUNTIME_FRAME_ENTRY);
}

/* A thread-safe build: each thread has a block with its globals. How far from the thread pointer its address is, is in the code
 * or in a slot. */
static void test_threads(void **state)
{
	const int64_t at = -0x28;

	for (unsigned in_slot = 0; in_slot < 2; in_slot++) {
		struct php_build build = {.globals_offset = OFFSET - 0x10, .loop_start = LOOP - 0x10, .loop_end = LOOP};
		build.block_offset = in_slot ? SLOT - 0x10 : 0;
		build.block_at = in_slot ? 0 : at;
		set_up();
		build.layout = process.layout;
		php_place(&build, 0x10, &process.walk.php);
		add_frame(1, USER, 3, 0);
		add_frame(2, USER, 1, TOP);
		collect();
		assert_int_equal(process.walk.listed_count, 0); /* a thread without a block */
		put_word(THREAD + (uint64_t)at, BLOCK);
		put_word(SLOT, in_slot ? (uint64_t)at : 0);
		collect();
		assert_int_equal(process.walk.listed_count, 0); /* the engine has not started yet */
		put_word(OFFSET, GLOBALS - BLOCK);
		collect();
		assert_int_equal(process.walk.listed_count, 2);
		check_collected(0, 1, LINE(1, 3), 0);
		check_collected(1, 2, LINE(2, 1), RUNTIME_FRAME_ENTRY);
		put_word(THREAD + (uint64_t)at, 0x1000); /* leads nowhere */
		process.walk.listed_count = 0;
		collect();
		assert_int_equal(process.walk.listed_count, 0);
	}
}

/* Lists that do not end, or lead nowhere. */
static void test_lies(void **state)
{
	/* A cycle of functions, of frames without functions, of generators. */
	set_up();
	add_frame(1, USER, 1, 0);
	add_frame(2, USER, 1, 0);
	put_word(FRAME(1) + PHP_FRAME_BACK, FRAME(0));
	collect();
	assert_int_equal(process.walk.listed_count, LISTED_FRAMES_MAX);
	assert_true(process.walk.listed_frame != 0);
	set_up();
	add_frame(0, 0, 0, 0);
	put_word(FRAME(0) + PHP_FRAME_BACK, FRAME(0));
	assert_int_equal(collect(), 2 * LISTED_FRAMES_MAX);
	set_up();
	put_generators(3, add_frame(0, 0, 0, PHP_TYPE_OBJECT));
	put_word(GENERATOR(0) + process.layout.walk.generator_parent, GENERATOR(2));
	collect();
	assert_int_equal(process.walk.listed_count, LISTED_FRAMES_MAX);
	/* Functions of no type, askew, nowhere; frames askew: the list ends, and is known to go on. */
	for (unsigned i = 0; i < 5; i++) {
		set_up();
		add_frame(1, USER, 1, 0);
		add_frame(2, i ? USER : 3, 1, TOP);
		add_frame(3, USER, 1, TOP);
		if (i == 1)
			put_word(FRAME(1) + PHP_FRAME_FUNCTION, FUNCTION(2) + 4);
		if (i == 2)
			put_word(FRAME(1) + PHP_FRAME_FUNCTION, 0x1000);
		if (i == 3)
			put_word(FRAME(0) + PHP_FRAME_BACK, FRAME(1) + 2);
		if (i == 4)
			put_word(FRAME(0) + PHP_FRAME_BACK, 0x2000);
		collect();
		assert_int_equal(process.walk.listed_count, 1);
		assert_true(process.walk.listed_frame != 0);
	}
	/* No list. */
	set_up();
	assert_int_equal(collect(), 0);
	assert_int_equal(process.walk.listed_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),	       cmocka_unit_test(test_code_without_name),
		cmocka_unit_test(test_calls_within_c), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_generators),     cmocka_unit_test(test_threads),
		cmocka_unit_test(test_lies),	       cmocka_unit_test(test_frames_without_functions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
