// SPDX-License-Identifier: Apache-2.0
/*
 * The frames of BEAM in the walk (bpf/beam_walk.h), compiled for user space, over a memory made by hand: functions of two
 * modules on the stack of an Erlang process, at the leaf or below C, which runs on the thread's own stack.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "bpf/unwind.h"
#include "runtime/test_beam_image.h"

#define NATIVE	      (IMAGE_START + 0x30000) /* code of C, with frames of 0x20 bytes */
#define CODE_BYTES    0x10000u
#define STACK	      (IMAGE_START + 0x80000) /* of the Erlang process */
#define PROCESS	      (IMAGE_START + 0x90000)
#define THREAD	      (IMAGE_START + 0x91000)
#define THREAD_DATA   (IMAGE_START + 0x92000)
#define REGISTERS     (IMAGE_START + 0xa0000) /* of the scheduler */
#define STOP	      0x58u		      /* in the process */
#define KEY	      3u
#define ONE_RETURN    (IMAGE_ONE + 0x284) /* of calls in the functions */
#define SECOND_RETURN (IMAGE_ONE + 0x340)
#define TWO_RETURN    (IMAGE_TWO + 0x23c)
#define SHARED_RETURN (IMAGE_SHARED + 0x203)
#define TERM	      0x3bull

struct walk;
static int read_walk(void *to, size_t bytes, uint64_t address);
static int map_code(struct walk *walk, uint64_t address);
static int find_live(struct unwind_rule *rule);
static int find_thread(__u64 *ret);

static const struct unwind_rule rules[] = {
	{0},
	{.cfa = UNWIND_CFA_REGISTER, .cfa_register = 7, .ra = UNWIND_WHERE_CFA, .offset = 0x20, .ra_offset = -8},
};

#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_HEAP128(place, halves)	    memcpy(halves, &rules[place], sizeof(rules[0]))
#define WALK_READ(walk, to, bytes, address) read_walk(to, bytes, address)
#define WALK_MAP(walk, address)		    map_code(walk, address)
#define WALK_RULE(walk, address)	    1u
#define WALK_LIVE(walk, rule)		    find_live(rule)
#define WALK_THREAD(walk, ret)		    find_thread(ret)
#define WALK_GO(walk, rule)		    ((void)(rule), UNWIND_UNSUPPORTED)
#include "bpf/walk.h"

static struct image *image;
static struct walk walk;
static uint32_t leaf_bytes; /* of the leaf's frame, as a rule says; 0 = there is none */
static bool has_thread;

static int read_walk(void *to, size_t bytes, uint64_t address)
{
	return image_read(image, address, to, bytes) == 0 ? 0 : UNWIND_BAD_READ;
}

static int map_code(struct walk *of, uint64_t address)
{
	if (address >= IMAGE_CODE && address - IMAGE_CODE < CODE_BYTES)
		return walk_set_map(&of->map, IMAGE_CODE, IMAGE_CODE + CODE_BYTES, 0, UNWIND_SLOT_LIVE, 0);
	if (address < NATIVE || address - NATIVE >= CODE_BYTES)
		return UNWIND_NO_MAPPING;
	walk_set_map(&of->map, NATIVE, NATIVE + CODE_BYTES, 0, UNWIND_SLOT_LOADED, 1);
	of->map.slot = 5;
	return 0;
}

static int find_live(struct unwind_rule *rule)
{
	*rule = rules[leaf_bytes != 0];
	rule->offset = (int32_t)leaf_bytes;
	return 0;
}

static int find_thread(__u64 *ret)
{
	*ret = THREAD;
	return has_thread ? 0 : UNWIND_STACK_CUT;
}

static void put_call(uint64_t to_return_to)
{
	image_put(image, to_return_to - 6, "\xff\x15\1\2\3\4", 6);
}

static void put_code(uint64_t at, const char *code, size_t len)
{
	image_put(image, at, code, len);
}

/* The process's stack from `at` on: a frame of second/0 with two terms, one of run/2 with a frame pointer, its end. */
static void put_stack(uint64_t at)
{
	const uint64_t words[] = {TERM, IMAGE_SHARED + 1, SECOND_RETURN, STACK + 0x100, TWO_RETURN, TERM, IMAGE_SHARED};

	image_put(image, at, words, sizeof(words));
}

static void set_up(void)
{
	struct beam_modules modules = {0};
	uint32_t key = KEY;

	image = image_new(25);
	leaf_bytes = 0;
	has_thread = true;
	memset(&walk, 0, sizeof(walk));
	walk_without_runtimes(&walk);
	assert_int_equal(beam_read_modules(&image->build, IMAGE_BIAS, &image->memory, &modules), 0);
	assert_int_equal(beam_place(&image->build, IMAGE_BIAS, &image->memory, &modules, &walk.beam), 0);
	beam_modules_release(&modules);
	image_put(image, IMAGE_KEY, &key, sizeof(key));
	image_put_word(image, THREAD + 0x310 + KEY * 16 + 8, THREAD_DATA);
	image_put_word(image, THREAD_DATA, REGISTERS);
	image_put_word(image, THREAD_DATA + 168, PROCESS);
	put_call(ONE_RETURN);
	put_call(SECOND_RETURN);
	put_call(TWO_RETURN);
	put_call(SHARED_RETURN);
}

static int run(uint64_t ip, uint64_t sp)
{
	walk.known = ~0u;
	walk.registers[UNWIND_REGISTER_SP] = sp;
	walk_begin(&walk, ip, 1);
	int r = beam_meet(&walk);
	while (r == WALK_GOES_ON) {
		r = walk_step(&walk);
		if (r == WALK_GOES_ON)
			r = beam_meet(&walk);
	}
	return r;
}

/* From `at` on the chain is that of the functions that return there; or, with 0, native. */
static void assert_frames(size_t at, const uint64_t *addresses, size_t count)
{
	for (size_t i = 0; i < count; i++, at += 3) {
		assert_int_equal(walk.frames[at], addresses[i]);
		assert_int_equal(RUNTIME_KIND(walk.frames[at + 1]), RUNTIME_KIND_BEAM);
		assert_int_equal(RUNTIME_OBJECT(walk.frames[at + 1]), addresses[i]);
		assert_false(walk.frames[at + 2] & BEAM_FRAME_LEAF);
	}
	assert_int_equal(walk.depth, at);
}

static const uint64_t callers[] = {SECOND_RETURN, TWO_RETURN};

/* The leaf's frame by a rule, though an old return address lies in it; its words are the same whatever its address. */
static void test_leaf(void **state)
{
	uint64_t words[2];

	set_up();
	put_stack(STACK + 24);
	image_put_word(image, STACK, TWO_RETURN); /* was left there */
	image_put_word(image, STACK + 8, TERM);
	image_put_word(image, STACK + 16, ONE_RETURN);
	leaf_bytes = 24;
	assert_int_equal(run(IMAGE_ONE + 0x210, STACK), UNWIND_COMPLETE);
	assert_true(walk.frames[2] & BEAM_FRAME_LEAF);
	const uint64_t all[] = {ONE_RETURN, SECOND_RETURN, TWO_RETURN};
	assert_frames(3, all, 3);
	assert_false(walk.by_frames);
	words[0] = walk.frames[1];
	words[1] = walk.frames[2];
	assert_int_equal(run(IMAGE_ONE + 0x214, STACK), UNWIND_COMPLETE);
	assert_true(words[0] == walk.frames[1] && words[1] == walk.frames[2]);
	test_free(image);
}

/* Without a rule it is a guess, and says so. */
static void test_leaf_without_rule(void **state)
{
	set_up();
	put_stack(STACK);
	assert_int_equal(run(IMAGE_ONE + 0x310, STACK), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[3], SECOND_RETURN | UNWIND_FRAME_GAP);
	assert_true(walk.by_frames);
	assert_int_equal(walk.frames[6], TWO_RETURN);
	test_free(image);
}

/* C that was called by an address in a module: the ways back to the process's stack. */
static void put_native(uint64_t sp, uint64_t caller)
{
	image_put_word(image, sp + 0x18, NATIVE + 0x100);
	image_put_word(image, sp + 0x38, caller);
	assert_int_equal(sp + 0x40, REGISTERS);
	put_call(NATIVE + 0x100);
}

static void test_below_c(void **state)
{
	const uint64_t all[] = {ONE_RETURN, SECOND_RETURN, TWO_RETURN};

	set_up();
	put_stack(STACK + 8);
	image_put_word(image, STACK, SECOND_RETURN);
	put_native(REGISTERS - 0x40, ONE_RETURN);
	/* mov %rbp, %rsp */
	put_code(ONE_RETURN, "\x48\x89\xec", 3);
	walk.registers[UNWIND_REGISTER_FP] = STACK + 8;
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_COMPLETE);
	assert_int_equal(walk.frames[1], NATIVE + 0x100);
	assert_frames(2, all, 3);
	/* mov 0x58(%r13), %rsp, some instructions further on */
	image_put_word(image, PROCESS + STOP, STACK + 8);
	put_code(ONE_RETURN, "\x90\x90\x90", 3);
	put_code(ONE_RETURN + 100, "\x49\x8b\x65\x58", 4);
	walk.registers[UNWIND_REGISTER_FP] = STACK; /* an older one */
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_COMPLETE);
	assert_frames(2, all, 3);
	test_free(image);
}

static void test_below_c_lost(void **state)
{
	set_up();
	put_stack(STACK);
	put_native(REGISTERS - 0x40, ONE_RETURN);
	put_code(ONE_RETURN, "\x49\x8b\x65\x58", 4);
	image_put_word(image, PROCESS + STOP, STACK);
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_COMPLETE);
	/* Another thread's; none; no process; a number that is no address. */
	image_put_word(image, THREAD_DATA, REGISTERS + 64);
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_NO_REGISTER);
	image_put_word(image, THREAD_DATA, REGISTERS);
	has_thread = false;
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_NO_REGISTER);
	has_thread = true;
	image_put_word(image, THREAD_DATA + 168, 0);
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_NO_REGISTER);
	image_put_word(image, THREAD_DATA + 168, PROCESS);
	image_put_word(image, PROCESS + STOP, STACK + 3);
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_NO_REGISTER);
	/* Code that goes back in no way that is known. */
	put_code(ONE_RETURN, "\x90\x90\x90\x90", 4);
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_NO_REGISTER);
	assert_int_equal(walk.frames[2], ONE_RETURN);
	assert_int_equal(walk.depth, 5);
	test_free(image);
}

/* Code that belongs to no module is called from anywhere, and the scheduler calls C from there. */
static void test_shared(void **state)
{
	const uint64_t all[] = {SHARED_RETURN, ONE_RETURN + 3, SECOND_RETURN, TWO_RETURN}, end[] = {SHARED_RETURN};

	set_up();
	put_stack(STACK + 8);
	image_put_word(image, STACK, ONE_RETURN + 3);
	put_call(ONE_RETURN + 3);
	put_native(REGISTERS - 0x40, SHARED_RETURN);
	put_code(SHARED_RETURN, "\x48\x89\xec", 3);
	walk.registers[UNWIND_REGISTER_FP] = STACK;
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_COMPLETE);
	assert_frames(2, all, 4);
	put_code(SHARED_RETURN, "\x90\x90\x90", 3);
	put_code(SHARED_RETURN + 100, "\x48\x89\xec", 3);
	assert_int_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_COMPLETE);
	assert_frames(2, end, 1);
	test_free(image);
}

/* A leaf between two instructions that go over to the thread's stack and back. */
static void test_leaf_off_stack(void **state)
{
	set_up();
	put_stack(STACK);
	put_code(IMAGE_ONE + 0x310, "\xff\x15\0\0\0\0\x49\x8b\x65\x58", 10);
	walk.registers[BEAM_REGISTER_SCHEDULER] = REGISTERS + 0x80;
	walk.registers[BEAM_REGISTER_PROCESS] = PROCESS;
	image_put_word(image, PROCESS + STOP, STACK);
	assert_int_equal(run(IMAGE_ONE + 0x310, REGISTERS), UNWIND_COMPLETE);
	assert_true(walk.frames[2] & BEAM_FRAME_LEAF);
	assert_frames(3, callers, 2);
	test_free(image);
}

/* Every read of a walk fails once, and the stack ends anywhere. */
static void test_absent_memory(void **state)
{
	set_up();
	put_stack(STACK);
	put_native(REGISTERS - 0x40, ONE_RETURN);
	put_code(ONE_RETURN, "\x49\x8b\x65\x58", 4);
	image_put_word(image, PROCESS + STOP, STACK);
	for (uint32_t absent = 1; absent < 100; absent++) {
		image->absent = absent;
		int r = run(NATIVE + 0x55, REGISTERS - 0x40);
		assert_true(r != WALK_GOES_ON && walk.depth <= 12);
		if (r == UNWIND_COMPLETE && walk.depth > 5)
			assert_int_equal(walk.frames[walk.depth - 3], TWO_RETURN);
	}
	image->absent = 0;
	image_put_word(image, PROCESS + STOP, IMAGE_START + IMAGE_BYTES - 8);
	assert_int_not_equal(run(NATIVE + 0x55, REGISTERS - 0x40), UNWIND_COMPLETE);
	test_free(image);
}

/* Another runtime's process, or none, has nothing of it. */
static void test_elsewhere(void **state)
{
	set_up();
	put_stack(STACK);
	walk.beam.kind = 0;
	assert_int_equal(run(IMAGE_ONE + 0x310, STACK), UNWIND_NO_RULE);
	assert_int_equal(walk.depth, 1);
	walk.beam.kind = RUNTIME_KIND_BEAM;
	walk.beam.high = walk.beam.low;
	run(IMAGE_ONE + 0x310, STACK);
	assert_int_equal(walk.depth, 1);
	test_free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaf),	      cmocka_unit_test(test_leaf_without_rule),
		cmocka_unit_test(test_below_c),	      cmocka_unit_test(test_below_c_lost),
		cmocka_unit_test(test_shared),	      cmocka_unit_test(test_leaf_off_stack),
		cmocka_unit_test(test_absent_memory), cmocka_unit_test(test_elsewhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
