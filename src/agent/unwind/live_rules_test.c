// SPDX-License-Identifier: Apache-2.0
/* Rules for code made at run time: what the walk finds in their tables, what changes of the code do, and that they are bounded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/unwind/live_rules.h"
#include "base/alloc.h"

#define START	   0x7f0000000000ull
#define HEAP_BYTES (16u << 20)

/* ---- the walk of the kernel side, over one image ---- */

static const uint8_t *image_data;
static size_t image_bytes;
static const uint8_t *memory; /* of the process, from START on */
static size_t memory_bytes;
#define IMAGE_AT 4096u

static uint64_t heap_value(uint64_t place, size_t bytes)
{
	uint64_t value = 0;
	if (place >= IMAGE_AT && place - IMAGE_AT + bytes <= image_bytes)
		memcpy(&value, image_data + (place - IMAGE_AT), bytes);
	return value;
}

static int read_memory(void *to, size_t bytes, uint64_t address)
{
	if (address < START || address - START > memory_bytes || memory_bytes - (address - START) < bytes)
		return 7;
	memcpy(to, memory + (address - START), bytes);
	return 0;
}

#define WALK_HEAP16(place)		    heap_value(place, 2)
#define WALK_HEAP32(place)		    heap_value(place, 4)
#define WALK_HEAP64(place)		    heap_value(place, 8)
#define WALK_READ(walk, to, bytes, address) read_memory(to, bytes, address)
#define WALK_MAP(walk, address)		    ((void)(walk), (void)(address), UNWIND_NO_MAPPING)
#define WALK_THREAD(walk, ret)		    ((void)(ret), UNWIND_STACK_CUT)
#include "base/test_fixture.h"
#include "bpf/walk.h"

static struct unwind_rule find_by_walk(const struct buffer *image, uint64_t end, uint64_t address)
{
	static struct walk walk;
	struct unwind_rule rule;
	image_data = image->data;
	image_bytes = image->len;
	walk_set_map(&walk.map, START, end, 0, UNWIND_SLOT_LIVE, IMAGE_AT);
	walk.ip = address;
	walk_find_live_rule(&walk, &rule);
	return rule;
}

/* ---- what the tests work with ---- */

struct fixture {
	struct heap *heap;
	struct unwind_slot *slots;
	uint32_t clock;
	struct unwind_tables *tables;
	struct live_budget budget;
	struct live_rules *rules;
	uint8_t *code;
	size_t code_bytes;
};
static const size_t fixture_bytes = sizeof(struct fixture);

static int fixture_init(struct fixture *f)
{
	f->slots = mem_zalloc_array(UNWIND_SLOTS_MAX, sizeof(*f->slots));
	f->clock = 1;
	assert_int_equal(heap_new(-1, HEAP_BYTES, NULL, &f->heap, NULL), 0);
	assert_int_equal(unwind_tables_new(f->heap, f->slots, &f->clock, NULL, &f->tables, NULL), 0);
	unwind_tables_tick(f->tables);
	f->budget.tables = f->tables;
	assert_int_equal(live_rules_new(&f->budget, &f->rules), 0);
	f->code_bytes = 1 << 20;
	f->code = mem_alloc(f->code_bytes);
	for (size_t i = 0; i < f->code_bytes; i++)
		f->code[i] = (uint8_t)(i * 7 + i / 251);
	memory = f->code;
	memory_bytes = f->code_bytes;
	return 0;
}

static void fixture_release(struct fixture *f)
{
	live_rules_free(f->rules);
	assert_int_equal(f->budget.rows, 0);
	unwind_tables_free(f->tables);
	heap_free(f->heap);
	mem_free(f->slots);
	mem_free(f->code);
}

static struct unwind_rule rule_of(int32_t cfa)
{
	return (struct unwind_rule){.cfa = UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED,
				    .cfa_register = UNWIND_REGISTER_SP,
				    .offset = cfa,
				    .offset2 = UNWIND_RBX_LOST,
				    .ra = UNWIND_WHERE_CFA,
				    .ra_offset = -8};
}

/* `count` instructions of 4 bytes from `offset` on, with CFAs of 8 * (first + i). */
static int add(struct fixture *f, uint32_t offset, uint32_t count, int32_t first)
{
	struct live_code found = {.rows = mem_alloc_array(count, sizeof(*found.rows)),
				  .count = count,
				  .start = offset,
				  .asked = offset,
				  .end = offset + 4 * count,
				  .proven = true};
	for (uint32_t i = 0; i < count; i++)
		found.rows[i] =
			(struct live_code_row){.offset = offset + 4 * i, .len = 4, .rule = rule_of(8 * (first + (int32_t)i))};
	int r = live_rules_add(f->rules, START, f->code, f->code_bytes, &found);
	live_code_release(&found);
	return r;
}

static bool read_code(void *context, void *to, size_t bytes, uint64_t address)
{
	(void)context;
	return read_memory(to, bytes, address) == 0;
}

struct changes {
	unsigned count;
	uint64_t start, end;
};

static void on_change(void *context, uint64_t start, uint64_t end)
{
	struct changes *changes = context;
	*changes = (struct changes){changes->count + 1, start, end};
}

/* ---- tests ---- */

/* More rules than a byte can number, on many pages, with gaps between. */
static void test_the_walk_finds_them(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer image = {.max = UNWIND_TABLE_BYTES_MAX};
	assert_int_equal(add(f, 40000, 600, 1), 0);
	assert_int_equal(add(f, 1000, 500, 1000), 0);
	assert_int_equal(add(f, 900000, 1, 7), 0);
	assert_int_equal(live_rules_image(f->rules, START, START + f->code_bytes, &image), 0);
	for (uint32_t offset = 0; offset < f->code_bytes; offset += 4) {
		int32_t cfa = 0;
		if (offset >= 1000 && offset < 3000)
			cfa = 8 * (1000 + (int32_t)(offset - 1000) / 4);
		else if (offset >= 40000 && offset < 42400)
			cfa = 8 * (1 + (int32_t)(offset - 40000) / 4);
		else if (offset == 900000)
			cfa = 56;
		struct unwind_rule rule = find_by_walk(&image, START + f->code_bytes, START + offset);
		uint16_t check;
		assert_int_equal(rule.cfa, cfa ? UNWIND_CFA_REGISTER | UNWIND_RULE_ANALYSED : UNWIND_CFA_NONE);
		if (cfa)
			assert_int_equal(rule.offset, cfa);
		assert_true((live_rules_find(f->rules, START + offset, &check) != NULL) == (cfa != 0));
	}
}

/* The kernel side does not go by a rule for what stood there before. */
static void test_the_walk_sees_that_code_was_replaced(void **state)
{
	struct fixture *f = *state;
	_cleanup_(buffer_release) struct buffer image = {.max = UNWIND_TABLE_BYTES_MAX};
	assert_int_equal(add(f, 1024, 8, 2), 0);
	assert_int_equal(live_rules_image(f->rules, START, START + f->code_bytes, &image), 0);
	f->code[1024 + 15]++;
	assert_int_equal(find_by_walk(&image, START + f->code_bytes, START + 1024 + 4).cfa, UNWIND_CFA_NONE);
	assert_int_equal(find_by_walk(&image, START + f->code_bytes, START + 1024 + 16).offset, 48);
	f->code[1024 + 15]--;
	assert_int_equal(find_by_walk(&image, START + f->code_bytes, START + 1024 + 4).offset, 24);
}

static void test_what_has_changed_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct changes changes = {0};
	uint16_t check;
	assert_int_equal(add(f, 1001, 10, 2), 0);
	assert_int_equal(add(f, 2000, 10, 2), 0);
	assert_int_equal(live_rules_verify(f->rules, read_code, on_change, &changes), 0);
	assert_int_equal(changes.count, 0);
	f->code[1001 + 39]++;
	assert_int_equal(live_rules_verify(f->rules, read_code, on_change, &changes), 0);
	assert_int_equal(changes.count, 1);
	assert_true(changes.start == START + 1001 && changes.end == START + 1041);
	assert_null(live_rules_find(f->rules, START + 1001, &check));
	assert_non_null(live_rules_find(f->rules, START + 2000, &check));
	live_rules_drop(f->rules, START + 2039, START + 2040);
	assert_null(live_rules_find(f->rules, START + 2000, &check));
}

/* Where a call leads is patched in; that changes the check, but not the rule. */
static void test_calls_that_are_patched(void **state)
{
	struct fixture *f = *state;
	struct changes changes = {0};
	struct live_code_row rows[] = {{.offset = 1024, .len = 5, .rule = rule_of(16)},
				       {.offset = 1029, .len = 4, .rule = rule_of(16)}};
	struct live_code found = {.rows = rows, .count = 2, .start = 1024, .end = 1033, .asked = 1024, .proven = true};
	uint16_t before, after;
	f->code[1024] = 0xe8;
	assert_int_equal(live_rules_add(f->rules, START, f->code, f->code_bytes, &found), 0);
	assert_non_null(live_rules_find(f->rules, START + 1029, &before));
	f->code[1026] ^= 0x55;
	assert_int_equal(live_rules_verify(f->rules, read_code, on_change, &changes), 0);
	assert_int_equal(changes.count, 0);
	assert_non_null(live_rules_find(f->rules, START + 1029, &after));
	assert_int_not_equal(before, after);
	assert_int_equal(after, live_rules_check(f->code + 1024));
}

/* Code that is another, but does the same to the stack: nobody is led astray. */
static void test_what_changes_without_effect(void **state)
{
	static const uint8_t code[] = {
		0x83, 0xc0, 0x07,	/* add $7, %eax */
		0x48, 0x83, 0xc4, 0x08, /* add $8, %rsp */
		0xc3,			/* ret */
	};
	struct fixture *f = *state;
	struct changes changes = {0};
	struct live_code found;
	uint16_t check;
	memcpy(f->code + 1024, code, sizeof(code));
	assert_int_equal(live_code_analyse(f->code, 4096, START, 1024, &found), 0);
	assert_int_equal(live_rules_add(f->rules, START, f->code, f->code_bytes, &found), 0);
	live_code_release(&found);
	assert_int_equal(live_rules_find(f->rules, START + 1024, &check)->offset, 16);
	f->code[1024 + 2] = 8;
	assert_int_equal(live_rules_verify(f->rules, read_code, on_change, &changes), 0);
	assert_int_equal(changes.count, 0);
	assert_non_null(live_rules_find(f->rules, START + 1024, &check));
	assert_int_equal(check, live_rules_check(f->code + 1024));
	f->code[1024 + 6] = 16;
	assert_int_equal(live_rules_verify(f->rules, read_code, on_change, &changes), 0);
	assert_int_equal(changes.count, 1);
	assert_null(live_rules_find(f->rules, START + 1024, &check));
}

static void test_the_kernel_side_is_told(void **state)
{
	struct fixture *f = *state;
	uint64_t end = START + f->code_bytes;
	assert_int_equal(live_rules_slot(f->rules, START, end), UNWIND_SLOT_JIT);
	assert_int_equal(add(f, 1024, 8, 2), 0);
	assert_true(live_rules_publish(f->rules) > 0);
	uint32_t slot = live_rules_slot(f->rules, START, end);
	assert_int_not_equal(slot, UNWIND_SLOT_JIT);
	assert_int_equal(f->slots[slot].state, UNWIND_SLOT_LIVE);
	uint32_t table = f->slots[slot].table;
	assert_int_not_equal(table, 0);
	assert_int_equal(live_rules_publish(f->rules), 0);
	assert_int_equal(f->slots[slot].table, table);
	assert_int_equal(add(f, 2048, 8, 2), 0);
	assert_int_equal(live_rules_publish(f->rules), 0);
	assert_int_equal(live_rules_slot(f->rules, START, end), slot);
	assert_int_not_equal(f->slots[slot].table, table);
	/* Without rules there is no table. */
	live_rules_drop(f->rules, START, end);
	assert_int_equal(live_rules_publish(f->rules), 0);
	assert_int_equal(f->slots[slot].table, 0);
	assert_int_equal(f->slots[slot].state, UNWIND_SLOT_LIVE);
}

static void test_areas_are_bounded(void **state)
{
	struct fixture *f = *state;
	for (uint32_t i = 0; i < LIVE_AREAS_MAX + 8; i++)
		assert_int_equal(add(f, i * 8192, 2, 2), 0);
	for (uint32_t i = 0; i < LIVE_AREAS_MAX + 8; i++) {
		uint64_t at = START + i * 8192;
		bool has = live_rules_slot(f->rules, at, at + 8192) != UNWIND_SLOT_JIT;
		assert_true(has == (i < LIVE_AREAS_MAX));
	}
	/* What has no rules any more makes place. */
	live_rules_drop(f->rules, START, START + 8192);
	uint64_t at = START + LIVE_AREAS_MAX * 8192;
	assert_int_not_equal(live_rules_slot(f->rules, at, at + 8192), UNWIND_SLOT_JIT);
}

static void test_rules_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct live_rules *others[3];
	size_t pieces;
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(add(f, i * 16384, 4096, 2), 0);
		assert_true(live_rules_count(f->rules, &pieces) <= LIVE_RULES_MAX);
		assert_true(pieces >= 1);
	}
	/* All processes together. */
	struct live_rules *mine = f->rules;
	for (unsigned k = 0; k < 3; k++) {
		assert_int_equal(live_rules_new(&f->budget, &others[k]), 0);
		f->rules = others[k];
		for (uint32_t i = 0; i < 8; i++)
			add(f, i * 16384, 4096, 2);
		assert_true(f->budget.rows <= LIVE_RULES_ALL_MAX);
	}
	assert_true(add(f, 900000, 4096, 2) < 0 || f->budget.rows <= LIVE_RULES_ALL_MAX);
	f->rules = mine;
	for (unsigned k = 0; k < 3; k++)
		live_rules_free(others[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FIXTURE_TEST(test_the_walk_finds_them),		FIXTURE_TEST(test_the_walk_sees_that_code_was_replaced),
		FIXTURE_TEST(test_what_has_changed_is_dropped), FIXTURE_TEST(test_calls_that_are_patched),
		FIXTURE_TEST(test_what_changes_without_effect), FIXTURE_TEST(test_the_kernel_side_is_told),
		FIXTURE_TEST(test_areas_are_bounded),		FIXTURE_TEST(test_rules_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
