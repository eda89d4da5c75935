// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/intern.h"

static void test_ids_are_dense_and_stable(void **state)
{
	struct intern table;
	uint32_t id;
	assert_int_equal(intern_init(&table, SIZE_MAX), 0);
	assert_int_equal(table.count, 1);
	assert_string_equal(intern_string(&table, 0), "");
	assert_int_equal(intern_add(&table, NULL, 0, &id), 0);
	assert_int_equal(id, 0);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 5000; i++) {
			char text[32];
			snprintf(text, sizeof(text), "string %u", i);
			assert_int_equal(intern_add_string(&table, text, &id), 0);
			assert_int_equal(id, i + 1);
			assert_string_equal(intern_string(&table, id), text);
			assert_int_equal(intern_get(&table, id).len, strlen(text));
		}
	}
	assert_int_equal(table.count, 5001);
	assert_true(intern_find(&table, "string 17", 9, &id));
	assert_int_equal(id, 18);
	id = 77;
	assert_false(intern_find(&table, "string x", 8, &id));
	assert_int_equal(id, 77);
	intern_release(&table);
}

static void test_reserve(void **state)
{
	struct intern table;
	uint32_t id;
	assert_int_equal(intern_init(&table, SIZE_MAX), 0);
	assert_int_equal(intern_reserve(&table, 0), 0);
	assert_int_equal(intern_reserve(&table, 1000), 0);
	const struct bytes *strings = table.strings;
	const struct index32_slot *slots = table.index.slots;
	for (uint32_t i = 1; i < 1000; i++) {
		char text[32];
		snprintf(text, sizeof(text), "string %u", i);
		assert_int_equal(intern_add_string(&table, text, &id), 0);
		assert_int_equal(id, i);
	}
	assert_ptr_equal(table.strings, strings);
	assert_ptr_equal(table.index.slots, slots);
	assert_int_equal(intern_reserve(&table, 10), 0);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(intern_reserve(&table, 100000), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	assert_true(intern_find(&table, "string 7", 8, &id));
	assert_int_equal(id, 7);
	intern_release(&table);
}

static void test_any_bytes(void **state)
{
	struct intern table;
	uint32_t a, b, c;
	assert_int_equal(intern_init(&table, SIZE_MAX), 0);
	assert_int_equal(intern_add(&table, "a\0b", 3, &a), 0);
	assert_int_equal(intern_add(&table, "a\0c", 3, &b), 0);
	assert_int_equal(intern_add(&table, "a", 1, &c), 0);
	assert_true(a != b && b != c && a != c);
	assert_memory_equal(intern_get(&table, a).data, "a\0b", 4);
	intern_release(&table);
}

static void test_limit(void **state)
{
	struct intern table;
	assert_int_equal(intern_init(&table, 0), -ENOMEM);
	assert_int_equal(intern_init(&table, 1000), 0);
	uint32_t id = 0, added = 0;
	int r;
	for (;;) {
		char text[32];
		snprintf(text, sizeof(text), "text %u", added);
		r = intern_add_string(&table, text, &id);
		if (r < 0)
			break;
		added++;
	}
	assert_int_equal(r, -E2BIG);
	assert_true(added > 50 && added < 200);
	assert_int_equal(table.count, added + 1);
	assert_int_equal(intern_add_string(&table, "text 3", &id), 0);
	assert_int_equal(id, 4);
	intern_release(&table);
}

static void test_survives_failed_allocations(void **state)
{
	for (uint64_t n = 1;; n++) {
		struct intern table;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = intern_init(&table, SIZE_MAX);
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			assert_true(fault_disarm(FAULT_ALLOC));
			continue;
		}
		for (uint32_t i = 0; i < 300; i++) {
			char text[32];
			uint32_t id = 1234567;
			snprintf(text, sizeof(text), "string %u", i);
			r = intern_add_string(&table, text, &id);
			if (r < 0) {
				assert_int_equal(r, -ENOMEM);
				assert_int_equal(id, 1234567);
				assert_false(intern_find(&table, text, strlen(text), &id));
				assert_int_equal(intern_add_string(&table, text, &id), 0);
			}
			assert_int_equal(id, i + 1);
		}
		bool reached = fault_disarm(FAULT_ALLOC);
		intern_release(&table);
		if (!reached)
			break;
		assert_true(n < 100);
	}
}

/* Texts of 32 bytes that all have one hash without a seed: their first word is the one that XXH3 multiplies the second by
 * after an exclusive or. */
static void test_intern_texts_made_to_collide(void **state)
{
	static const uint8_t first[8] = {0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe};
	struct intern table;
	uint8_t text[32] = {0};
	size_t longest = 0, run = 0;
	uint64_t hash = 0;
	uint32_t id;
	(void)state;
	assert_int_equal(intern_init(&table, 1024 * 1024), 0);
	memcpy(text, first, sizeof(first));
	for (uint64_t i = 1; i <= 1000; i++) {
		memcpy(text + 8, &i, sizeof(i));
		assert_true(i == 1 || hash64(text, sizeof(text)) == hash);
		hash = hash64(text, sizeof(text));
		assert_int_equal(intern_add(&table, text, sizeof(text), &id), 0);
		assert_int_equal(id, i);
	}
	for (size_t i = 0; i < table.index.capacity; i++) {
		run = table.index.slots[i].id_plus_1 ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	assert_in_range(longest, 1, 250);
	intern_release(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intern_texts_made_to_collide),
		cmocka_unit_test(test_ids_are_dense_and_stable),
		cmocka_unit_test(test_reserve),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_survives_failed_allocations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
