// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of V8 in the walk (bpf/v8_walk.h), compiled for user space, over a memory made by hand, as several versions lay it
 * out: generated code that is called by generated code, that by a builtin, that by C++.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bpf/unwind.h"
#include "runtime/test_v8_image.h"

#define AREA_BYTES    0x1000u
#define CODE	      (TEST_V8_START + 0x20000)
#define BUILTINS      (TEST_V8_START + 0x21000)
#define MAIN	      (TEST_V8_START + 0x22000) /* the outermost function */
#define STACK	      (TEST_V8_START + 0x23000)
#define BUILTINS_SLOT 5u

struct walk;
static int read_memory(void *to, size_t bytes, uint64_t address);
static int map_code(struct walk *walk, uint64_t address);

static const struct unwind_rule rules[] = {{0}, {.cfa = UNWIND_CFA_END}};
static unsigned asked; /* how often for a rule of generated code */

#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_HEAP128(place, halves)	    memcpy(halves, &rules[place], sizeof(rules[0]))
#define WALK_READ(walk, to, bytes, address) read_memory(to, bytes, address)
#define WALK_MAP(walk, address)		    map_code(walk, address)
#define WALK_RULE(walk, address)	    ((walk)->map.start == MAIN)
#define WALK_LIVE(walk, rule)		    (asked++, UNWIND_NO_TABLE)
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_NO_RULE)
#define WALK_GO(walk, rule)		    ((void)(rule), UNWIND_UNSUPPORTED)
#include "bpf/walk.h"

static struct test_v8 v8;

static int read_memory(void *to, size_t bytes, uint64_t address)
{
	return test_v8_read(&v8, address, to, bytes) == 0 ? 0 : UNWIND_BAD_READ;
}

static bool is_in(uint64_t address, uint64_t start)
{
	return address >= start && address - start < AREA_BYTES;
}

static int map_code(struct walk *walk, uint64_t address)
{
	walk->map.slot = BUILTINS_SLOT;
	if (is_in(address, CODE))
		return walk_set_map(&walk->map, CODE, CODE + AREA_BYTES, 0, UNWIND_SLOT_LIVE, 0);
	if (is_in(address, BUILTINS))
		return walk_set_map(&walk->map, BUILTINS, BUILTINS + AREA_BYTES, 0x1000, UNWIND_SLOT_LOADED, 1);
	if (is_in(address, MAIN))
		return walk_set_map(&walk->map, MAIN, MAIN + AREA_BYTES, 0x2000, UNWIND_SLOT_LOADED, 1);
	return UNWIND_NO_MAPPING;
}

/* ---- a stack ---- */

#define LEAF_FP	    (STACK + 0x100)
#define LEAF_IP	    (CODE + 0x400)
#define CALLER_FP   (STACK + 0x200)
#define CALLER_IP   (CODE + 0x205)
#define BUILTIN_FP  (STACK + 0x300)
#define BUILTIN_IP  (BUILTINS + 0x105)
#define MAIN_IP	    (MAIN + 0x55)
#define CONTEXT	    (TEST_V8_START + 0x1001)
#define MARKER	    12u /* of a frame that is no function's */
#define CODE_OF_ALL (TEST_V8_START + 0x2001)

static const uint32_t versions[][2] = {{9, 4}, {10, 2}, {11, 3}, {12, 4}, {13, 6}};
#define VERSIONS (sizeof(versions) / sizeof(versions[0]))

static struct walk walk;
static uint64_t f, g; /* functions: the innermost one, its caller */

static void put(uint64_t address, const void *from, size_t bytes)
{
	test_v8_put(&v8, address + 1, 0, from, bytes);
}

static void put_word(uint64_t address, uint64_t word)
{
	put(address, &word, sizeof(word));
}

static uint64_t make_closure(uint64_t shared)
{
	const struct v8_process *of = &v8.build.layout.walk;
	uint64_t closure = test_v8_make(&v8, v8.array_map, 64);

	test_v8_word(&v8, closure, of->function_shared, shared);
	test_v8_word(&v8, closure, of->function_code, CODE_OF_ALL);
	return closure;
}

static void put_frame(uint64_t fp, uint64_t context, uint64_t function, uint64_t caller_fp, uint64_t caller)
{
	put_word(fp - 16, function);
	put_word(fp - 8, context);
	put_word(fp, caller_fp);
	put_word(fp + 8, caller);
	put(caller - 5, "\xe8", 1);
}

static void set_up(size_t version)
{
	test_v8_init(&v8, versions[version][0], versions[version][1]);
	uint64_t script = test_v8_script(&v8, "x.js", test_v8_string(&v8, "f\ng\n"));
	f = test_v8_function(&v8, "f", 0, script, v8.array_map);
	g = test_v8_function(&v8, "g", 2, script, v8.array_map);
	put_frame(LEAF_FP, CONTEXT, make_closure(f), CALLER_FP, CALLER_IP);
	put_frame(CALLER_FP, CONTEXT, make_closure(g), BUILTIN_FP, BUILTIN_IP);
	put_frame(BUILTIN_FP, MARKER, 0, 0x1234567, MAIN_IP);
	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	walk.v8 = v8.build.layout.walk;
	walk.v8.slot = BUILTINS_SLOT;
	walk.v8.builtins_start = 0x1000;
	walk.v8.builtins_end = 0x2000;
	asked = 0;
}

static int run(uint64_t ip, uint64_t sp, uint64_t fp)
{
	int r;

	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = sp;
	walk.registers[UNWIND_REGISTER_FP] = fp;
	walk_begin(&walk, ip, 1);
	v8_look(&walk);
	do {
		r = walk_step(&walk);
		if (r == WALK_GOES_ON) {
			v8_meet(&walk);
			v8_look(&walk);
		}
	} while (r == WALK_GOES_ON);
	return r;
}

static void expect_words(size_t at, uint64_t shared)
{
	uint64_t code = runtime_check_of(CODE_OF_ALL, 0, 0) >> (RUNTIME_CHECK_BITS - 24);

	assert_int_equal(walk.frames[at], test_v8_object(shared));
	assert_int_equal(walk.frames[at + 1],
			 RUNTIME_FRAME | RUNTIME_FRAME_DATA | test_v8_check(&v8, shared) | V8_FRAME_CODE | code);
}

/* From the caller of the innermost function on. */
static void expect_callers(size_t at)
{
	assert_int_equal(walk.frames[at], CALLER_IP);
	expect_words(at + 1, g);
	assert_int_equal(walk.frames[at + 3], BUILTIN_IP);
	assert_int_equal(walk.frames[at + 4], MAIN_IP);
	assert_int_equal(walk.depth, at + 5);
	assert_int_equal(asked, 0);
}

static void test_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		assert_int_equal(run(LEAF_IP, LEAF_FP - 0x40, LEAF_FP), UNWIND_COMPLETE);
		expect_words(1, f);
		expect_callers(3);
		/* An old return address is where nothing was written yet. */
		put_word(LEAF_FP - 0x40, CALLER_IP);
		put_word(LEAF_FP - 0x38, LEAF_FP);
		assert_int_equal(run(LEAF_IP, LEAF_FP - 0x40, LEAF_FP), UNWIND_COMPLETE);
		expect_words(1, f);
		expect_callers(3);
		/* ... and one below the frame pointer. */
		assert_int_equal(run(LEAF_IP, LEAF_FP - 0x38, LEAF_FP), UNWIND_COMPLETE);
		expect_words(1, f);
		expect_callers(3);
	}
}

/* No frame yet, or none any more, by the code at the leaf. rdi may be the function, or anything. */
static void expect_no_frame(const char *code, size_t bytes, uint64_t rdi)
{
	uint64_t sp = LEAF_FP + 8; /* the return address */

	put(LEAF_IP, code, bytes);
	walk.registers[V8_REGISTER_FUNCTION] = rdi;
	assert_int_equal(run(LEAF_IP, sp, CALLER_FP), UNWIND_COMPLETE);
	if (rdi & 1)
		expect_words(1, f);
	expect_callers(rdi & 1 ? 3 : 1);
}

static void test_no_frame(void **state)
{
	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		uint64_t closure = make_closure(f);
		expect_no_frame("\x55\x48\x89\xe5", 4, closure);
		expect_no_frame("\x55\x48\x89\xe5", 4, 0x5551234);
		expect_no_frame("\x48\x8b\x59\xe0\xf6\x43\x0f\x01\x74\x0d\x49\xba\0\0\0\0\0\0\0\0\x41\xff\xe2\x55\x48\x89\xe5",
				27, closure);
		expect_no_frame("\x49\xba\0\0\0\0\0\0\0\0\x41\xff\xe2\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 27, 0);
		expect_no_frame("\xc3\0\0\0\0\0\0\0\0\0\0\0\0\0", 14, 0);
		expect_no_frame("\xc2\x10\0\0", 4, 0);
		expect_no_frame("\x7f\x03\xc2\x10\0", 5, 0);
		expect_no_frame("\x48\x83\xf9\x02\x7f\x03\xc2\x10\0", 9, 0);
		expect_no_frame("\x49\x81\xf8\0\x02\0\0\x0f\x8f\x03\0\0\0\xc2\x10\0", 16, 0);
	}
}

/* The caller's frame pointer is on the stack, and not yet replaced. */
static void test_pushed(void **state)
{
	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		put(LEAF_IP - 1, "\x55\x48\x89\xe5", 4);
		walk.registers[V8_REGISTER_FUNCTION] = make_closure(f);
		assert_int_equal(run(LEAF_IP, LEAF_FP, CALLER_FP), UNWIND_COMPLETE);
		expect_words(1, f);
		expect_callers(3);
	}
}

/* A builtin makes the frame of baseline code, which has called it first of all. */
static void test_prologue(void **state)
{
	static const char *calls[] = {"\x49\xbc\0\0\0\0\0\0\0\0\xe8\0\0\0", "\x49\xbc\0\0\0\0\0\0\0\0\x41\xff\x95\0\x39\0\0"};
	static const unsigned bytes[] = {15, 17};

	(void)state;
	for (size_t i = 0; i < VERSIONS * 2; i++) {
		set_up(i / 2);
		unsigned size = bytes[i % 2];
		put(LEAF_IP - size, calls[i % 2], size);
		put_word(LEAF_FP, LEAF_IP);
		walk.registers[V8_REGISTER_FUNCTION] = make_closure(f);
		assert_int_equal(run(BUILTINS + 0x700, LEAF_FP, CALLER_FP), UNWIND_COMPLETE);
		assert_int_equal(walk.frames[1], LEAF_IP);
		expect_words(2, f);
		expect_callers(4);
		/* It has made the frame, and is about to return. */
		put_word(LEAF_FP, CALLER_FP);
		put_word(LEAF_FP - 0x40, LEAF_IP);
		assert_int_equal(run(BUILTINS + 0x700, LEAF_FP - 0x40, LEAF_FP), UNWIND_COMPLETE);
		assert_int_equal(walk.frames[1], LEAF_IP);
		expect_words(2, f);
		expect_callers(4);
	}
}

/* A builtin that makes a frame of its own, before anything lies there: no caller is missing. */
static void test_builtin(void **state)
{
	uint64_t leaf = BUILTINS + 0x700, sp = LEAF_FP - 0x40;

	(void)state;
	for (size_t i = 0; i < VERSIONS; i++) {
		set_up(i);
		put(LEAF_IP - 5, "\xe8", 1);
		put(leaf, "\x55\x48\x89\xe5\x6a", 5);
		put_word(sp + 8, LEAF_IP);
		for (unsigned done = 0; done < 3; done++) {
			static const unsigned at[] = {0, 1, 4};
			put_word(sp, done ? LEAF_FP : 0);
			assert_int_equal(run(leaf + at[done], done ? sp : sp + 8, done == 2 ? sp : LEAF_FP), UNWIND_COMPLETE);
			assert_int_equal(walk.frames[1], LEAF_IP);
			expect_words(2, f);
			expect_callers(4);
		}
		put_word(sp - 8, MARKER);
		assert_int_equal(run(leaf + 6, sp - 8, sp), UNWIND_COMPLETE);
		assert_int_equal(walk.frames[1], LEAF_IP);
		expect_words(2, f);
		expect_callers(4);
	}
}

/* Other code that was made at run time is asked for, as in any process. */
static void test_other_code(void **state)
{
	(void)state;
	set_up(0);
	put_word(LEAF_FP - 8, 0x77770000);
	assert_int_equal(run(LEAF_IP, LEAF_FP - 0x40, LEAF_FP), UNWIND_NO_TABLE);
	assert_int_equal(asked, 1);
	assert_int_equal(run(LEAF_IP, LEAF_FP - 0x40, 0x1233), UNWIND_NO_TABLE);
	assert_int_equal(run(LEAF_IP, LEAF_FP + 0x40, LEAF_FP), UNWIND_NO_TABLE);
	assert_int_equal(asked, 3);
	/* Its caller, of V8, is not. */
	put_word(LEAF_FP - 8, CONTEXT);
	put_word(CALLER_FP - 8, 0);
	assert_int_equal(run(LEAF_IP, LEAF_FP - 0x40, LEAF_FP), UNWIND_NO_TABLE);
	expect_words(1, f);
	assert_int_equal(walk.depth, 4);
	/* A stack that cannot be read. */
	assert_int_equal(run(LEAF_IP, 16, LEAF_FP), UNWIND_NO_TABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),	 cmocka_unit_test(test_no_frame), cmocka_unit_test(test_pushed),
		cmocka_unit_test(test_prologue), cmocka_unit_test(test_builtin),  cmocka_unit_test(test_other_code),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
