/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "base/text.h"
#include "profile/labels.h"
#include "profile/test_labels.h"
#include "profile/test_profile.h"

static void set(struct labels *labels, const char *name, const char *value)
{
	assert_int_equal(labels_set(labels, name, value, NULL), 0);
}

static void assert_format(const struct labels *labels, const char *expected)
{
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, 1 << 20);
	assert_int_equal(test_labels_format(labels, &out), 0);
	assert_string_equal(buffer_string(&out), expected);
}

static void test_set_and_get(void **state)
{
	_cleanup_(labels_release) struct labels labels = {0}, copy = {0};
	assert_format(&labels, "{}");
	set(&labels, "b", "2");
	set(&labels, "a", "1");
	set(&labels, "c", "3");
	set(&labels, "b", "two");
	assert_format(&labels, "{a=\"1\", b=\"two\", c=\"3\"}");
	assert_string_equal(labels_get(&labels, "b"), "two");
	assert_null(labels_get(&labels, "d"));
	assert_int_equal(labels_copy(&copy, &labels, NULL), 0);
	assert_int_equal(labels_compare(&copy, &labels), 0);
	assert_true(labels_hash(&copy) == labels_hash(&labels));
	set(&labels, "b", "");
	set(&labels, "nothing", "");
	assert_format(&labels, "{a=\"1\", c=\"3\"}");
	assert_format(&copy, "{a=\"1\", b=\"two\", c=\"3\"}");
	assert_int_not_equal(labels_compare(&copy, &labels), 0);
	assert_int_equal(labels_compare(&copy, &labels) < 0, labels_compare(&labels, &copy) > 0);
	assert_true(labels_hash(&copy) != labels_hash(&labels));
}

static void test_hash_sees_boundaries(void **state)
{
	_cleanup_(labels_release) struct labels a = {0}, b = {0};
	set(&a, "ab", "c");
	set(&b, "a", "bc");
	assert_true(labels_hash(&a) != labels_hash(&b));
}

/* Values of 31 letters and a NUL whose first word is the one that XXH3 multiplies the second by after an exclusive or: the seed
 * is what was hashed before, so a name is looked for with which that word is text. */
static void test_values_made_to_collide(void **state)
{
	char name[16], value[32] = "........0000000.the end of all..";
	uint64_t word = 0, hash = 0, guarded = 0;
	bool is_text = false;
	size_t same = 0;
	for (unsigned i = 0; !is_text; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		word = 0xbe4ba423396cfeb8 + hash64_seed(name, strlen(name) + 1, 1);
		is_text = (word & 0x8080808080808080) == 0;
		for (size_t k = 0; k < 8; k++)
			is_text &= (uint8_t)(word >> 8 * k) != 0;
	}
	memcpy(value, &word, sizeof(word));
	value[31] = '\0';
	for (unsigned i = 0; i < 1000; i++) {
		_cleanup_(labels_release) struct labels labels = {0};
		value[8] = (char)('0' + i / 100), value[9] = (char)('0' + i / 10 % 10), value[10] = (char)('0' + i % 10);
		set(&labels, name, value);
		assert_true(i == 0 || labels_hash(&labels) == hash);
		hash = labels_hash(&labels);
		same += i > 0 && labels_hash_guarded(&labels) == guarded;
		guarded = labels_hash_guarded(&labels);
	}
	assert_int_equal(same, 0);
}

static void test_names(void **state)
{
	static const char *const good[] = {"a", "_", "A9_z", "__name__"};
	static const char *const bad[] = {"", "9a", "a-b", "a.b", "a b", "\xc3\xa4", "a\n"};
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_true(label_name_is_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct error err = {0};
		_cleanup_(labels_release) struct labels labels = {0};
		assert_false(label_name_is_valid(bad[i]));
		assert_int_equal(labels_set(&labels, bad[i], "x", &err), -EINVAL);
		assert_int_equal(labels.count, 0);
		assert_true(strlen(err.message) > 0);
	}
}

static void test_sanitize(void **state)
{
	static const char *const pairs[][2] = {
		{"process.pid", "process_pid"},
		{"http/route", "http_route"},
		{"0x", "_0x"},
		{"", "_"},
		{"fine", "fine"},
		{"\xc3\xa4", "__"},
	};
	char out[LIMIT_LABEL_NAME_BYTES];
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		label_name_sanitize(bytes_of_string(pairs[i][0]), out);
		assert_string_equal(out, pairs[i][1]);
		assert_true(label_name_is_valid(out));
	}
	uint8_t key[1000];
	struct test_random random = {.state = 1};
	for (unsigned round = 0; round < 2000; round++) {
		size_t len = test_random_below(&random, sizeof(key));
		for (size_t i = 0; i < len; i++)
			key[i] = (uint8_t)test_random_next(&random);
		label_name_sanitize((struct bytes){key, len}, out);
		assert_true(label_name_is_valid(out));
	}
}

static void test_limits(void **state)
{
	_cleanup_(labels_release) struct labels labels = {0};
	struct error err = {0};
	char name[LIMIT_LABEL_NAME_BYTES + 1] = "", *value = test_calloc(1, LIMIT_LABEL_VALUE_BYTES + 2);
	memset(name, 'n', LIMIT_LABEL_NAME_BYTES);
	assert_int_equal(labels_set(&labels, name, "v", &err), -E2BIG);
	name[LIMIT_LABEL_NAME_BYTES - 1] = '\0';
	set(&labels, name, "v");
	memset(value, 'v', LIMIT_LABEL_VALUE_BYTES + 1);
	assert_int_equal(labels_set(&labels, "a", value, &err), -E2BIG);
	assert_non_null(strstr(err.message, "4096"));
	value[LIMIT_LABEL_VALUE_BYTES] = '\0';
	set(&labels, "a", value);
	for (unsigned i = 2; i < LIMIT_LABELS_PER_SERIES; i++) {
		snprintf(name, sizeof(name), "label%u", i);
		set(&labels, name, "x");
	}
	assert_int_equal(labels_set(&labels, "one_more", "x", &err), -E2BIG);
	assert_non_null(strstr(err.message, "48"));
	set(&labels, "label2", "replaced");
	set(&labels, "label3", "");
	set(&labels, "one_more", "x");
	assert_int_equal(labels_set(&labels, "a", "\xff", &err), -EINVAL);
	test_free(value);
}

static void test_parse_pair(void **state)
{
	_cleanup_(labels_release) struct labels labels = {0};
	struct error err = {0};
	assert_int_equal(labels_parse_pair(&labels, "a=b=c", NULL), 0);
	assert_string_equal(labels_get(&labels, "a"), "b=c");
	assert_int_equal(labels_parse_pair(&labels, "a=", NULL), 0);
	assert_null(labels_get(&labels, "a"));
	assert_int_equal(labels_parse_pair(&labels, "abc", &err), -EINVAL);
	assert_non_null(strstr(err.message, "abc"));
	assert_int_equal(labels_parse_pair(&labels, "=x", &err), -EINVAL);
}

static uint32_t add_set(struct profile *profile, const struct profile_label *labels, size_t count)
{
	uint32_t id;
	assert_int_equal(profile_add_label_set(profile, labels, count, &id, NULL), 0);
	return id;
}

static void test_of_sample(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t bad;
	assert_int_equal(profile_add_string(profile, "x\xff\0y", 4, &bad, NULL), 0);
	const struct profile_label resource[] = {
		{.key = test_string(profile, "host.name"), .value = test_string(profile, "h1")},
		{.key = test_string(profile, "os"), .value = test_string(profile, "linux")},
	};
	profile->resource_labels = add_set(profile, resource, 2);
	const struct profile_label own[] = {
		{.key = test_string(profile, "os"), .value = test_string(profile, "own")},
		{.key = test_string(profile, "size"), .number = -5, .unit = test_string(profile, "bytes")},
		{.key = test_string(profile, "pid"), .number = 42},
		{.key = test_string(profile, "bad"), .value = bad},
		{.key = test_string(profile, "gone"), .value = 0},
	};
	uint32_t set_id = add_set(profile, own, 5);
	_cleanup_(labels_release) struct labels base = {0}, got = {0};
	set(&base, "host_name", "base");
	set(&base, "service", "s");
	set(&base, "gone", "g");
	assert_int_equal(labels_of_sample(profile, set_id, &base, &got, NULL), 0);
	assert_format(&got,
		      "{bad=\"x\xef\xbf\xbd y\", host_name=\"h1\", os=\"own\", pid=\"42\", service=\"s\", size=\"-5 bytes\"}");
	labels_release(&got);
	assert_int_equal(labels_of_sample(profile, 0, NULL, &got, NULL), 0);
	assert_format(&got, "{host_name=\"h1\", os=\"linux\"}");
}

/* Whatever the bytes, the value is UTF-8, within the limit, and as long as can be. */
static void test_of_sample_cuts_values(void **state)
{
	struct test_random random = {.state = 9};
	static const char *const pieces[] = {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x94\xa5", "\xff", "\xf0\x9f", "\xe2"};
	static char text[3 * LIMIT_LABEL_VALUE_BYTES];
	for (unsigned round = 0; round < 300; round++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		_cleanup_(labels_release) struct labels got = {0};
		assert_int_equal(profile_new(&profile, NULL), 0);
		size_t len = 0, only = test_random_below(&random, 8);
		while (len < LIMIT_LABEL_VALUE_BYTES + test_random_below(&random, 20)) {
			const char *piece = pieces[only < 7 ? only : test_random_below(&random, 7)];
			memcpy(text + len, piece, strlen(piece));
			len += strlen(piece);
		}
		struct profile_label label = {.key = test_string(profile, "k")};
		assert_int_equal(profile_add_string(profile, text, len, &label.value, NULL), 0);
		assert_int_equal(labels_of_sample(profile, add_set(profile, &label, 1), NULL, &got, NULL), 0);
		struct bytes value = bytes_of_string(labels_get(&got, "k"));
		assert_true(text_is_utf8(value));
		assert_in_range(value.len, LIMIT_LABEL_VALUE_BYTES - 3, LIMIT_LABEL_VALUE_BYTES);
	}
}

static void test_of_sample_limit(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_label labels[LIMIT_LABELS_PER_SERIES + 1] = {0};
	struct labels got;
	struct error err = {0};
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (unsigned i = 0; i <= LIMIT_LABELS_PER_SERIES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "k%u", i);
		labels[i] = (struct profile_label){.key = test_string(profile, name), .number = 1};
	}
	uint32_t set_id = add_set(profile, labels, LIMIT_LABELS_PER_SERIES + 1);
	assert_int_equal(labels_of_sample(profile, set_id, NULL, &got, &err), -E2BIG);
	assert_int_equal(got.count, 0);
}

static int use_labels(const struct profile *profile, struct error *err)
{
	_cleanup_(labels_release) struct labels labels = {0}, of_sample = {0};
	_cleanup_(buffer_release) struct buffer text = {0};
	buffer_init(&text, 1000);
	int r = labels_set(&labels, "a", "1", err);
	if (r == 0)
		r = labels_set(&labels, "a", "2", err);
	if (r == 0)
		r = labels_set(&labels, "c", "3", err);
	if (r == 0)
		r = labels_set(&labels, "b", "2", err);
	if (r == 0)
		r = labels_parse_pair(&labels, "d=4", err);
	if (r == 0)
		r = labels_of_sample(profile, 1, &labels, &of_sample, err);
	if (r == 0 && test_labels_format(&of_sample, &text) < 0)
		r = error_nomem(err);
	if (r == 0)
		assert_string_equal(buffer_string(&text), "{a=\"2\", b=\"2\", c=\"3\", d=\"4\", k=\"7 ms\", s=\"t\"}");
	return r;
}

static int use_all_labels(void *context)
{
	struct error err = {0};
	int r = use_labels(context, &err);
	assert_int_equal(err.code, r);
	return r;
}

static void test_allocation_failures(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	assert_int_equal(profile_new(&profile, NULL), 0);
	const struct profile_label own[] = {
		{.key = test_string(profile, "k"), .number = 7, .unit = test_string(profile, "ms")},
		{.key = test_string(profile, "s"), .value = test_string(profile, "t")},
	};
	assert_int_equal(add_set(profile, own, 2), 1);
	assert_true(test_each_allocation(use_all_labels, profile) > 19);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_and_get),
		cmocka_unit_test(test_hash_sees_boundaries),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_values_made_to_collide),
		cmocka_unit_test(test_sanitize),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_parse_pair),
		cmocka_unit_test(test_of_sample),
		cmocka_unit_test(test_of_sample_cuts_values),
		cmocka_unit_test(test_of_sample_limit),
		cmocka_unit_test(test_allocation_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
