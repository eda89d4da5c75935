// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/map.h"

static uint64_t random_state;

static uint64_t next_random(void)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return random_state >> 33;
}

#define MODEL_KEYS 600

/* Keys that are poor hashes: dense, page-aligned, and equal in their low halves. */
static uint64_t model_key(size_t i)
{
	switch (i % 3) {
	case 0: return i;
	case 1: return (uint64_t)i << 12;
	default: return (uint64_t)i << 40;
	}
}

static void compare_with_model(const struct map64 *map, const uint64_t *values, const bool *present)
{
	size_t expected = 0, seen = 0, cursor = 0;
	for (size_t i = 0; i < MODEL_KEYS; i++) {
		uint64_t value = 42;
		assert_int_equal(map64_get(map, model_key(i), &value), present[i]);
		if (present[i])
			assert_true(value == values[i]);
		else
			assert_true(value == 42);
		expected += present[i];
	}
	assert_int_equal(map->count, expected);
	uint64_t key, value;
	while (map64_next(map, &cursor, &key, &value)) {
		uint64_t found;
		assert_true(map64_get(map, key, &found));
		assert_true(found == value);
		seen++;
	}
	assert_int_equal(seen, expected);
}

static void test_map64_against_a_model(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct map64 map = {0};
		uint64_t values[MODEL_KEYS] = {0};
		bool present[MODEL_KEYS] = {0};
		random_state = seed;
		for (int step = 0; step < 20000; step++) {
			size_t i = next_random() % MODEL_KEYS;
			/* Grows in the first half of a phase, shrinks in the second. */
			bool put = next_random() % 100 < (step / 2000 % 2 ? 30 : 70);
			if (put) {
				values[i] = next_random();
				assert_int_equal(map64_put(&map, model_key(i), values[i]), 0);
			} else {
				assert_int_equal(map64_remove(&map, model_key(i)), present[i]);
			}
			present[i] = put;
			if (step % 500 == 0)
				compare_with_model(&map, values, present);
		}
		compare_with_model(&map, values, present);
		assert_true(map.capacity <= 2048);
		map64_clear(&map);
		memset(present, 0, sizeof(present));
		compare_with_model(&map, values, present);
		map64_release(&map);
	}
}

static void test_map64_empty(void **state)
{
	struct map64 map = {0};
	size_t cursor = 0;
	assert_false(map64_get(&map, 0, NULL));
	assert_false(map64_remove(&map, 0));
	assert_false(map64_next(&map, &cursor, NULL, NULL));
	map64_clear(&map);
	assert_int_equal(map64_put(&map, 0, 7), 0);
	assert_true(map64_get(&map, 0, NULL));
	assert_int_equal(map64_put(&map, UINT64_MAX, 8), 0);
	assert_true(map64_remove(&map, 0));
	assert_false(map64_get(&map, 0, NULL));
	map64_release(&map);
	assert_int_equal(map.capacity, 0);
}

static void test_map64_endless_churn_does_not_grow(void **state)
{
	struct map64 map = {0};
	for (uint64_t i = 0; i < 50000; i++) {
		assert_int_equal(map64_put(&map, i, i), 0);
		if (i >= 10)
			assert_true(map64_remove(&map, i - 10));
	}
	assert_int_equal(map.count, 10);
	assert_true(map.capacity <= 32);
	map64_release(&map);
}

static uint64_t unmix(uint64_t x)
{
	uint64_t inverse = 1; /* of hash64_mix()'s factor, by Newton's iteration */
	for (int i = 0; i < 6; i++)
		inverse *= 2 - 0xd6e8feb86659fd93ull * inverse;
	x ^= x >> 32;
	x *= inverse;
	x ^= x >> 32;
	x *= inverse;
	return x ^ x >> 32;
}

/* Entries that stand one behind the other, at most. */
static size_t longest_run(const struct map64 *map)
{
	size_t longest = 0, run = 0;
	for (size_t i = 0; i < map->capacity; i++) {
		run = map->used[i] ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

/* Keys that were made to collide. */
static void test_map64_guarded(void **state)
{
	struct map64 plain = {0}, guarded;
	uint64_t value;
	(void)state;
	map64_init_guarded(&guarded);
	for (uint64_t i = 1; i <= 1000; i++) {
		uint64_t key = unmix(i << 32);
		assert_true(hash64_mix(key) == i << 32);
		assert_int_equal(map64_put(&plain, key, i), 0);
		assert_int_equal(map64_put(&guarded, key, i), 0);
	}
	assert_int_equal(longest_run(&plain), 1000);
	assert_in_range(longest_run(&guarded), 1, 250);
	for (uint64_t i = 1; i <= 1000; i++) {
		assert_true(map64_get(&guarded, unmix(i << 32), &value) && value == i);
		assert_true(i % 2 || map64_remove(&guarded, unmix(i << 32)));
	}
	assert_int_equal(guarded.count, 500);
	map64_release(&plain);
	map64_release(&guarded);
}

static void test_map64_survives_failed_allocations(void **state)
{
	for (uint64_t n = 1;; n++) {
		struct map64 map = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		for (uint64_t key = 0; key < 200; key++) {
			int r = map64_put(&map, key, key + 1);
			if (r == 0)
				continue;
			assert_int_equal(r, -ENOMEM);
			assert_int_equal(map.count, key);
			assert_false(map64_get(&map, key, NULL));
			assert_int_equal(map64_put(&map, key, key + 1), 0);
		}
		bool reached = fault_disarm(FAULT_ALLOC);
		for (uint64_t key = 0; key < 200; key++) {
			uint64_t value;
			assert_true(map64_get(&map, key, &value));
			assert_true(value == key + 1);
		}
		map64_release(&map);
		if (!reached)
			break;
		assert_true(n < 100);
	}
}

static bool index_find(const struct index32 *index, const uint64_t *keys, uint64_t hash, uint64_t key, uint32_t *ret_id)
{
	uint32_t id;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &id); at++) {
		if (keys[id] == key) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

static void check_index(uint64_t (*hash_of)(uint64_t), size_t count)
{
	struct index32 index = {0};
	uint64_t *keys = calloc(count, sizeof(*keys));
	uint32_t id;
	assert_false(index_find(&index, keys, 0, 0, &id));
	for (size_t i = 0; i < count; i++) {
		keys[i] = (uint64_t)i * 4096;
		assert_int_equal(index32_add(&index, hash_of(keys[i]), (uint32_t)i), 0);
	}
	assert_int_equal(index.count, count);
	assert_true(index.count * 10 <= index.capacity * 7);
	for (size_t i = 0; i < count; i++) {
		assert_true(index_find(&index, keys, hash_of(keys[i]), keys[i], &id));
		assert_int_equal(id, i);
		assert_false(index_find(&index, keys, hash_of(keys[i] + 1), keys[i] + 1, &id));
	}
	index32_clear(&index);
	assert_false(index_find(&index, keys, hash_of(keys[0]), keys[0], &id));
	index32_release(&index);
	free(keys);
}

static uint64_t hash_good(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull ^ key >> 7;
}

static uint64_t hash_identity(uint64_t key)
{
	return key;
}

static uint64_t hash_high_bits_only(uint64_t key)
{
	return key << 32;
}

static uint64_t hash_constant(uint64_t key)
{
	return 7;
}

static void test_index32_with_good_and_poor_hashes(void **state)
{
	check_index(hash_good, 20000);
	check_index(hash_identity, 20000);
	check_index(hash_high_bits_only, 20000);
	check_index(hash_constant, 300);
}

static void test_index32_gives_every_candidate_once(void **state)
{
	struct index32 index = {0};
	for (uint32_t id = 0; id < 100; id++)
		assert_int_equal(index32_add(&index, id % 5, id), 0);
	for (uint64_t hash = 0; hash < 5; hash++) {
		bool seen[100] = {0};
		size_t count = 0;
		uint32_t id;
		for (size_t at = index32_first(&index, hash); index32_at(&index, hash, &at, &id); at++) {
			assert_int_equal(id % 5, hash);
			assert_false(seen[id]);
			seen[id] = true;
			count++;
		}
		assert_int_equal(count, 20);
	}
	index32_release(&index);
}

static void test_index32_reserve(void **state)
{
	struct index32 index = {0};
	assert_int_equal(index32_reserve(&index, SIZE_MAX), -ENOMEM);
	assert_int_equal(index32_reserve(&index, SIZE_MAX / 2), -ENOMEM);
	assert_int_equal(index32_reserve(&index, 1000), 0);
	fault_arm(FAULT_ALLOC, 1, FAULT_STICKY);
	uint32_t id = 0;
	for (; id < 1000; id++)
		assert_int_equal(index32_add(&index, id, id), 0);
	assert_int_equal(index32_reserve(&index, 100000), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	assert_int_equal(index.count, 1000);
	size_t at = index32_first(&index, 999);
	assert_true(index32_at(&index, 999, &at, &id));
	assert_int_equal(id, 999);
	index32_release(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_map64_against_a_model),
		cmocka_unit_test(test_map64_empty),
		cmocka_unit_test(test_map64_endless_churn_does_not_grow),
		cmocka_unit_test(test_map64_guarded),
		cmocka_unit_test(test_map64_survives_failed_allocations),
		cmocka_unit_test(test_index32_with_good_and_poor_hashes),
		cmocka_unit_test(test_index32_gives_every_candidate_once),
		cmocka_unit_test(test_index32_reserve),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
