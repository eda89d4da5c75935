/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of listed runtimes: the walk (bpf/walk.h), compiled for user space, over a memory made by hand, and native stacks
 * of C and the interpreter's loop. Include it behind cmocka.h.
 */
#ifndef WICK_RUNTIME_TEST_LISTED_H
#define WICK_RUNTIME_TEST_LISTED_H

#include <string.h>

#include "bpf/unwind.h"

#define START 0x7f0000000000ull
#define BYTES (1u << 20)
#define STACK (START + 0xe0000) /* up to the end */
#define CODE  0x401000ull	/* 64 KiB of native code */
#define LOOP  (CODE + 0x1000)
#define COLD  (CODE + 0x8000)
#define MAIN  (CODE + 0xf000) /* the outermost function */
#define LIVE  0x601000ull     /* 64 KiB of code made at run time */

static uint8_t memory[BYTES];

static int read_memory(void *to, size_t bytes, uint64_t address)
{
	if (address < START || address - START > BYTES || BYTES - (address - START) < bytes)
		return UNWIND_BAD_READ;
	memcpy(to, memory + (address - START), bytes);
	return 0;
}

struct walk;
static int map_code(struct walk *walk, uint64_t address);

/* Each function has a frame of NATIVE bytes, whose last word is the return address; the outermost has no caller. */
#define NATIVE 0x100u
static const struct unwind_rule rules[] = {
	{0},
	{.cfa = UNWIND_CFA_REGISTER, .cfa_register = 7, .ra = UNWIND_WHERE_CFA, .offset = NATIVE, .ra_offset = -8},
	{.cfa = UNWIND_CFA_END},
};

#define WALK_HEAP16(place)		    ((void)(place), (__u16)0)
#define WALK_HEAP32(place)		    ((void)(place), 0u)
#define WALK_HEAP64(place)		    ((void)(place), 0ull)
#define WALK_HEAP128(place, halves)	    memcpy(halves, &rules[place], sizeof(rules[0]))
#define WALK_READ(walk, to, bytes, address) read_memory(to, bytes, address)
#define WALK_MAP(walk, address)		    map_code(walk, address)
#define WALK_RULE(walk, address)	    ((address) >= MAIN ? 2u : 1u)
#define WALK_LIVE(walk, rule)		    ((void)(rule), UNWIND_NO_RULE)
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_NO_RULE)
#define WALK_GO(walk, rule)		    ((void)(rule), UNWIND_UNSUPPORTED)
#include "bpf/walk.h"

static int map_code(struct walk *walk, uint64_t address)
{
	if (address >= LIVE && address - LIVE < 0x10000) {
		walk_set_map(&walk->map, LIVE, LIVE + 0x10000, 0, UNWIND_SLOT_LIVE, 0);
		return 0;
	}
	if (address < CODE || address - CODE >= 0x10000)
		return UNWIND_NO_MAPPING;
	walk_set_map(&walk->map, CODE, CODE + 0x10000, 0, UNWIND_SLOT_LOADED, 1);
	return 0;
}

static __attribute__((unused)) void put_word(uint64_t address, uint64_t word)
{
	assert_true(address >= START && address - START <= BYTES - 8);
	memcpy(memory + (address - START), &word, sizeof(word));
}

/* `addresses`: return addresses, the leaf's address first; ends with one in MAIN. */
static __attribute__((unused)) int walk_stack(struct walk *walk, const uint64_t *addresses)
{
	int r = WALK_GOES_ON;

	walk_begin(walk, addresses[0], 7);
	walk->registers[UNWIND_REGISTER_SP] = STACK;
	walk->known = 0xffff;
	for (size_t i = 0; addresses[i] < MAIN; i++)
		put_word(STACK + (i + 1) * NATIVE - 8, addresses[i + 1]);
	walk->listed_sp = STACK;
	for (;;) {
		if (r == WALK_GOES_ON)
			listed_meet(walk);
		while (walk->listed_appends == LISTED_APPENDS_PART)
			listed_go_on(walk);
		if (r != WALK_GOES_ON || walk->listed_appends)
			break;
		walk->listed_sp = walk->registers[UNWIND_REGISTER_SP];
		r = walk_step(walk);
	}
	while (listed_append_pending(walk))
		;
	return walk->listed_appends ? UNWIND_TOO_DEEP : r;
}

#endif
