/* SPDX-License-Identifier: Apache-2.0 */
/* The step of the walk (bpf/walk.h) where Go's runtime goes over to another stack, over memory that is made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "bpf/unwind.h"

/* One page of each: code, the thread's storage and Go's structures, g0's stack, the goroutine's stack. */
#define CODE   0x401000ull
#define DATA   0x500000ull
#define SYSTEM 0x7f0000ull
#define STACK  0xc00000ull
#define PAGE   4096

static const uint64_t starts[] = {CODE, DATA, SYSTEM, STACK};
static uint8_t pages[4][PAGE];

static uint8_t *memory_at(uint64_t address, size_t bytes)
{
	for (size_t i = 0; i < 4; i++)
		if (address >= starts[i] && address - starts[i] <= PAGE - bytes)
			return pages[i] + (address - starts[i]);
	return NULL;
}

static int read_memory(void *to, size_t bytes, uint64_t address)
{
	const uint8_t *from = memory_at(address, bytes);
	if (!from)
		return UNWIND_BAD_READ;
	memcpy(to, from, bytes);
	return 0;
}

#define THREAD (DATA + 0x100)

#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_READ(walk, to, bytes, address) read_memory(to, bytes, address)
#define WALK_MAP(walk, address)		    ((address)-CODE < PAGE ? 0 : UNWIND_NO_MAPPING)
#define WALK_THREAD(walk, ret)		    (*(ret) = THREAD, 0)
#include "bpf/walk.h"

/* As of Go 1.26: g.stack.hi 8, g.m 48, g.sched 56; m.g0 0, m.curg 184. */
#define G0   (DATA + 0x200)
#define G    (DATA + 0x400)
#define M    (DATA + 0x600)
#define CALL (CODE + 0x80) /* behind a call */

static const struct unwind_rule system_rule = {
	.cfa = UNWIND_CFA_GO_SYSTEM, .offset = -8, .ra_offset = 48, .fp_offset = 184, .offset2 = 56 | 16 << 16};
static const struct unwind_rule grow_rule = {
	.cfa = UNWIND_CFA_GO_GROW, .offset = -8, .ra_offset = 48, .fp_offset = 184, .offset2 = 56 | 8 << 16};
static const struct unwind_rule callback_rule = {
	.cfa = UNWIND_CFA_GO_CALLBACK, .offset = -8, .ra_offset = 48, .fp_offset = 0, .offset2 = 56 | 40 << 16};
static const struct unwind_rule cgo_rule = {
	.cfa = UNWIND_CFA_GO_CGO, .offset = 8, .ra_offset = 8, .fp_offset = 0, .offset2 = 16};

static void put(uint64_t address, uint64_t value)
{
	uint8_t *at = memory_at(address, sizeof(value));
	assert_non_null(at);
	memcpy(at, &value, sizeof(value));
}

/* A thread on g0's stack, whose goroutine was left at STACK + 0x800. */
static struct walk *set_up(void)
{
	static struct walk walk;
	memset(pages, 0, sizeof(pages));
	memset(&walk, 0, sizeof(walk));
	*memory_at(CALL - 5, 1) = 0xe8;
	put(THREAD - 8, G0);
	put(G0 + 48, M);
	put(G0 + 56, SYSTEM + 0x800);
	put(M, G0);
	put(M + 184, G);
	put(G + 8, STACK + PAGE);
	put(G + 48, M);
	put(G + 56, STACK + 0x800);
	put(G + 64, CALL);
	put(STACK + 0x808, CALL);
	walk_begin(&walk, CODE + 0x10, 1);
	walk.registers[UNWIND_REGISTER_SP] = SYSTEM + 0x400;
	walk.known = 0xffff;
	return &walk;
}

static void check_entered(struct walk *walk, const struct unwind_rule *rule, uint64_t sp)
{
	assert_int_equal(walk_go(walk, rule), WALK_GOES_ON);
	assert_int_equal(walk->ip, CALL);
	assert_int_equal(walk->is_return, 1);
	assert_int_equal(walk->registers[UNWIND_REGISTER_SP], sp);
	/* Nothing else is the caller's. */
	assert_int_equal(walk->known, 1u << UNWIND_REGISTER_SP);
	assert_int_equal(walk->frames[walk->depth - 1], CALL);
}

/* The walk is as it was. */
static void check_ended(struct walk *walk, const struct unwind_rule *rule, int result)
{
	uint64_t sp = walk->registers[UNWIND_REGISTER_SP], ip = walk->ip;
	uint32_t depth = walk->depth;
	assert_int_equal(walk_go(walk, rule), result);
	assert_int_equal(walk->registers[UNWIND_REGISTER_SP], sp);
	assert_int_equal(walk->ip, ip);
	assert_int_equal(walk->depth, depth);
	assert_int_equal(walk->go_callback, 0);
}

static void test_to_the_goroutine(void **state)
{
	struct walk *walk = set_up();
	check_entered(walk, &system_rule, STACK + 0x810);
	/* In a signal handler another g runs, of the same thread. */
	walk = set_up();
	put(THREAD - 8, DATA + 0x900);
	put(DATA + 0x900 + 48, M);
	check_entered(walk, &system_rule, STACK + 0x810);
	walk = set_up();
	check_entered(walk, &grow_rule, STACK + 0x800);
}

static void test_what_makes_no_sense(void **state)
{
	struct walk *walk = set_up();
	put(G + 48, M + 8); /* of another thread by now */
	check_ended(walk, &system_rule, UNWIND_BAD_FRAME);
	walk = set_up();
	put(M + 184, 0);
	check_ended(walk, &system_rule, UNWIND_BAD_FRAME);
	walk = set_up();
	put(G + 56, 0); /* it runs */
	check_ended(walk, &system_rule, UNWIND_BAD_FRAME);
	walk = set_up();
	put(G + 56, STACK + 0x804);
	check_ended(walk, &system_rule, UNWIND_BAD_FRAME);
	walk = set_up();
	put(STACK + 0x808, CALL + 1); /* behind no call */
	check_ended(walk, &system_rule, UNWIND_BAD_FRAME);
	walk = set_up();
	put(STACK + 0x808, DATA);
	check_ended(walk, &system_rule, UNWIND_NO_MAPPING);
	walk = set_up();
	put(THREAD - 8, 8);
	check_ended(walk, &system_rule, UNWIND_BAD_READ);
	walk = set_up();
	walk->switches = WALK_SWITCHES_MAX;
	check_ended(walk, &system_rule, UNWIND_BAD_FRAME);
}

/* The scheduler does not come back to the goroutine that it was called for. */
static void test_a_goroutine_that_was_left_for_good(void **state)
{
	struct walk *walk = set_up();
	walk->leaves = UNWIND_RULE_LEAVES; /* another one has been chosen */
	check_ended(walk, &grow_rule, UNWIND_COMPLETE);
	walk = set_up();
	put(M + 184, 0);
	check_ended(walk, &grow_rule, UNWIND_COMPLETE);
	walk = set_up();
	put(G + 48, 0);
	check_ended(walk, &grow_rule, UNWIND_COMPLETE);
}

static void test_c_and_back(void **state)
{
	struct walk *walk = set_up();
	put(SYSTEM + 0x400, PAGE - 0x900); /* how deep the goroutine's stack was */
	put(SYSTEM + 0x408, G);
	put(STACK + 0x908, CALL);
	check_entered(walk, &cgo_rule, STACK + 0x910);
	/* C that called back: the frame on g0's stack has where the one before it is. */
	walk = set_up();
	put(SYSTEM + 0x820, CALL);
	put(SYSTEM + 0x800, SYSTEM + 0xa00);
	check_entered(walk, &callback_rule, SYSTEM + 0x828);
	put(SYSTEM + 0xa20, CALL);
	check_entered(walk, &callback_rule, SYSTEM + 0xa28);
	walk = set_up();
	put(SYSTEM + 0x408, 0);
	check_ended(walk, &cgo_rule, UNWIND_BAD_READ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_the_goroutine),
		cmocka_unit_test(test_what_makes_no_sense),
		cmocka_unit_test(test_a_goroutine_that_was_left_for_good),
		cmocka_unit_test(test_c_and_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
