/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/runtime/names.h"

static struct runtime_name_item item_of(const char *name, uint32_t number)
{
	return (struct runtime_name_item){.texts = {bytes_of_string(name), bytes_of_string("/srv/app.py"), {0}},
					  .numbers = {number, 7}};
}

static void expect(struct runtime_names *names, uint64_t key, const char *name, uint32_t number)
{
	struct runtime_name_item item;

	assert_int_equal(runtime_names_find(names, key, &item), 1);
	assert_string_equal((const char *)item.texts[0].data, name);
	assert_string_equal((const char *)item.texts[1].data, "/srv/app.py");
	assert_int_equal(item.texts[2].len, 0);
	assert_int_equal(item.numbers[0], number);
	assert_int_equal(item.numbers[1], 7);
}

static void test_kept(void **state)
{
	struct runtime_names names;
	struct runtime_name_item item = item_of("main", 3), other = item_of("", 0);

	assert_int_equal(runtime_names_init(&names), 0);
	uint64_t key = runtime_names_key(&names, "a", 1), other_key = runtime_names_key(&names, "b", 1);
	assert_int_not_equal(key, other_key);
	assert_int_equal(runtime_names_find(&names, key, &item), 0);
	assert_int_equal(runtime_names_add(&names, key, &item), 0);
	assert_int_equal(runtime_names_add(&names, other_key, &other), 0);
	expect(&names, key, "main", 3);
	expect(&names, other_key, "", 0);
	/* What was not known at first is by now. */
	other = item_of("late", 4);
	assert_int_equal(runtime_names_add(&names, other_key, &other), 0);
	expect(&names, other_key, "late", 4);
	runtime_names_mark(&names, other_key, 11);
	assert_int_equal(runtime_names_find(&names, other_key, &item), 1);
	assert_int_equal(item.numbers[1], 11);
	runtime_names_mark(&names, 4711, 11); /* is in no table */
	expect(&names, key, "main", 3);
	runtime_names_release(&names);
}

/* What is used outlives what is not. */
static void test_bounded(void **state)
{
	struct runtime_names names;
	struct runtime_name_item item = item_of("first", 1), found;

	assert_int_equal(runtime_names_init(&names), 0);
	assert_int_equal(runtime_names_add(&names, 1, &item), 0);
	item = item_of("unused", 2);
	assert_int_equal(runtime_names_add(&names, 2, &item), 0);
	for (uint64_t i = 3; i < 4 * RUNTIME_NAMES_MAX; i++) {
		char name[24];
		snprintf(name, sizeof(name), "f%llu", (unsigned long long)i);
		item = item_of(name, (uint32_t)i);
		assert_int_equal(runtime_names_add(&names, i, &item), 0);
		if (i % 1000 == 0)
			expect(&names, 1, "first", 1);
	}
	assert_int_equal(runtime_names_find(&names, 2, &found), 0);
	assert_true(names.tables[0].count + names.tables[1].count <= 2 * RUNTIME_NAMES_MAX);
	expect(&names, 4 * RUNTIME_NAMES_MAX - 1, "f131071", 131071);
	runtime_names_release(&names);
}

/* A table is full of texts before it is full of items; one text that no table has room for is refused. */
static void test_long_texts(void **state)
{
	struct runtime_names names;
	static uint8_t text[RUNTIME_NAMES_BYTES_MAX + 1];
	struct runtime_name_item item = item_of("long", 1), found;

	memset(text, 'x', sizeof(text));
	assert_int_equal(runtime_names_init(&names), 0);
	for (uint64_t i = 0; i < 64; i++) {
		memcpy(text, &i, sizeof(i));
		item.texts[2] = (struct bytes){text, RUNTIME_NAMES_BYTES_MAX / 8};
		assert_int_equal(runtime_names_add(&names, i, &item), 0);
		assert_int_equal(runtime_names_find(&names, i, &found), 1);
		assert_memory_equal(found.texts[2].data, text, found.texts[2].len);
	}
	assert_int_equal(runtime_names_find(&names, 0, &found), 0);
	item.texts[2] = (struct bytes){text, sizeof(text)};
	assert_int_equal(runtime_names_add(&names, 100, &item), -E2BIG);
	assert_int_equal(runtime_names_find(&names, 100, &found), 0);
	runtime_names_release(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_long_texts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
