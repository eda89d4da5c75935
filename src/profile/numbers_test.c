/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/test_faults.h"
#include "profile/numbers.h"
#include "profile/test_profile.h"

static struct profile *new_profile(void)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	return profile;
}

static uint32_t text(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

static struct profile_label number(struct profile *profile, const char *key, int64_t number, const char *unit)
{
	return (struct profile_label){.key = text(profile, key), .number = number, .unit = text(profile, unit)};
}

static uint32_t add(struct profile *profile, const struct profile_label *labels, size_t count)
{
	uint32_t set;
	assert_int_equal(profile_add_label_set(profile, labels, count, &set, NULL), 0);
	return set;
}

static void assert_text(const struct profile *profile, uint32_t set, const char *want)
{
	_cleanup_(buffer_release) struct buffer out = {.max = LIMIT_NUMBERS_BYTES};
	assert_int_equal(numbers_format(profile, set, &out), 0);
	assert_string_equal(buffer_string(&out), want);
}

static void test_texts(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	const struct profile_label labels[] = {
		number(profile, "latency", 30, "milliseconds"), number(profile, "bytes", 512, ""),
		number(profile, "bytes", INT64_MIN, ""),	number(profile, "a=b,c\\d e", 0, "x,y\\z=1"),
		number(profile, "bytes", 512, "kilobytes"),	number(profile, "", INT64_MAX, ""),
	};
	assert_text(profile, 0, "");
	assert_text(profile, add(profile, labels + 1, 1), "bytes=512");
	assert_text(profile, add(profile, labels, 1), "latency=30 milliseconds");
	/* By key, number, unit, in whatever order they came. */
	assert_text(profile, add(profile, labels, 6),
		    "=9223372036854775807,a\\=b\\,c\\\\d e=0 x\\,y\\\\z=1,bytes=-9223372036854775808,bytes=512,bytes=512 "
		    "kilobytes,latency=30 milliseconds");
	const struct profile_label again[] = {labels[4], labels[1]}, turned[] = {labels[1], labels[4]};
	assert_text(profile, add(profile, again, 2), "bytes=512,bytes=512 kilobytes");
	assert_text(profile, add(profile, turned, 2), "bytes=512,bytes=512 kilobytes");
}

static void test_round_trip(void **state)
{
	static const char *const parts[] = {"", "bytes", "a b", "=", ",", "\\", "\\,", "x=\\", "\xc3\xa4,", " "};
	static const int64_t values[] = {0, 1, -1, 512, INT64_MAX, INT64_MIN};
	struct test_random random = {.state = 11};
	for (int round = 0; round < 2000; round++) {
		_cleanup_(profile_freep) struct profile *from = new_profile();
		_cleanup_(profile_freep) struct profile *to = new_profile();
		_cleanup_(buffer_release) struct buffer out = {.max = LIMIT_NUMBERS_BYTES}, back = {.max = LIMIT_NUMBERS_BYTES};
		struct profile_label labels[5];
		size_t count = 1 + test_random_below(&random, 5);
		uint32_t set;
		for (size_t i = 0; i < count; i++)
			labels[i] = number(from, parts[test_random_below(&random, 10)], values[test_random_below(&random, 6)],
					   parts[test_random_below(&random, 10)]);
		uint32_t own = add(from, labels, count);
		assert_int_equal(numbers_format(from, own, &out), 0);
		assert_int_equal(numbers_add_set(to, buffer_bytes(&out), &set, NULL), 0);
		assert_int_equal(to->label_sets[set].count, from->label_sets[own].count);
		assert_int_equal(numbers_format(to, set, &back), 0);
		assert_true(bytes_equal(buffer_bytes(&out), buffer_bytes(&back)));
	}
}

static int read_all(const char *text, size_t *ret_count)
{
	struct numbers_reader reader;
	int r;
	*ret_count = 0;
	numbers_begin(&reader, bytes_of_string(text));
	while ((r = numbers_next(&reader)) > 0)
		++*ret_count;
	return r;
}

static void test_malformed(void **state)
{
	static const char *const malformed[] = {
		"bytes",    "bytes=",
		"=",	    "bytes=x",
		"bytes=1x", "bytes=9223372036854775808",
		"bytes=1,", "bytes=1 b,",
		",",	    "a=1,b",
		"a=1,,b=2", "a\\=1",
		"bytes=+1", "bytes=00000000000000000000000000001",
		"a=-",
	};
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	size_t count;
	uint32_t set;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
		struct error err = {0};
		assert_int_equal(read_all(malformed[i], &count), -EBADMSG);
		assert_int_equal(numbers_add_set(profile, bytes_of_string(malformed[i]), &set, &err), -EBADMSG);
		assert_non_null(strstr(err.message, malformed[i]));
	}
	assert_int_equal(read_all("a=1,b=2 x,c=-3", &count), 0);
	assert_int_equal(count, 3);
	/* Longer than any is written. */
	char longer[LIMIT_NUMBERS_BYTES + 8];
	memset(longer, 'k', sizeof(longer));
	memcpy(longer + sizeof(longer) - 3, "=1", 3);
	assert_int_equal(read_all(longer, &count), -EBADMSG);
}

static void test_limits(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	_cleanup_(buffer_release) struct buffer out = {.max = LIMIT_NUMBERS_BYTES};
	char key[LIMIT_NUMBERS_BYTES + 1];
	memset(key, 'k', sizeof(key));
	key[LIMIT_NUMBERS_BYTES - 2] = '\0';
	struct profile_label label = number(profile, key, 1, "");
	assert_int_equal(numbers_format(profile, add(profile, &label, 1), &out), 0);
	assert_int_equal(out.len, LIMIT_NUMBERS_BYTES);
	buffer_clear(&out);
	key[LIMIT_NUMBERS_BYTES - 2] = 'k';
	key[LIMIT_NUMBERS_BYTES - 1] = '\0';
	label = number(profile, key, 1, "");
	assert_int_equal(numbers_format(profile, add(profile, &label, 1), &out), -E2BIG);
	assert_int_equal(out.len, 0);
	static struct profile_label many[5000];
	for (int64_t i = 0; i < 5000; i++)
		many[i] = number(profile, "n", i, "");
	assert_int_equal(numbers_format(profile, add(profile, many, 5000), &out), -E2BIG);
}

static int body(void *context, struct error *err)
{
	struct profile *profile = context;
	_cleanup_(buffer_release) struct buffer out = {.max = LIMIT_NUMBERS_BYTES};
	uint32_t set;
	int r = numbers_format(profile, 1, &out);
	return r < 0 ? r : numbers_add_set(profile, buffer_bytes(&out), &set, err);
}

static void test_out_of_memory(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct profile_label label = number(profile, "bytes", 1, "kb");
	add(profile, &label, 1);
	assert_int_equal(body(profile, NULL), 0);
	bool failed = false, passed = false;
	for (uint64_t n = 1; !passed; n++) {
		fault_arm(FAULT_ALLOC, n, 0);
		int r = body(profile, NULL);
		passed = !fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, passed ? 0 : -ENOMEM);
		failed |= !passed;
	}
	assert_true(failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),  cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
