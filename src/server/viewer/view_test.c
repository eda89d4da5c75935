/* SPDX-License-Identifier: Apache-2.0 */
/* What the page shows of a file: what stands beside the trees, limits, who gives up, and that a second try leaves nothing of
 * the first. The trees and time lines themselves: flame_test, timeline_test, tests/api/view.mjs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "profile/test_profile.h"
#include "server/viewer/view.h"

/* Twenty samples of two types, with times. */
static struct profile *make(void)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		uint32_t type = test_string(profile, i ? "bytes" : "count");
		assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	}
	for (int64_t i = 0; i < 20; i++) {
		struct profile_sample sample = {.time_ns = 1700000000000000000ll + i};
		assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){i, 10 * i}, NULL), 0);
	}
	return profile;
}

static const char *text_of(const json_t *root, const char *name)
{
	return json_string_value(json_object_get(root, name));
}

static void test_members(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	_cleanup_(buffer_release) struct buffer json = {0}, columns = {0}, notes = {0};
	struct view_options options = {.title = "<a>\n", .format = "folded", .left_out = &notes};
	buffer_init(&json, SIZE_MAX);
	buffer_init(&columns, SIZE_MAX);
	buffer_init(&notes, SIZE_MAX);
	assert_int_equal(buffer_append_string(&notes, "3 lines\nthe rest"), 0);
	assert_int_equal(view_write(profile, &options, &json, &columns, NULL), 0);
	json_t *root = json_loadb((const char *)json.data, json.len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *types = json_object_get(root, "types"), *left = json_object_get(root, "left_out");
	assert_string_equal(text_of(root, "title"), "<a>\n");
	assert_string_equal(text_of(root, "format"), "folded");
	assert_int_equal(json_array_size(left), 2);
	assert_string_equal(json_string_value(json_array_get(left, 0)), "3 lines");
	assert_string_equal(json_string_value(json_array_get(left, 1)), "the rest");
	assert_int_equal(json_array_size(types), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *flame = json_object_get(json_array_get(types, i), "flame");
		assert_string_equal(text_of(flame, "type"), i ? "bytes" : "count");
		assert_int_equal(json_integer_value(json_object_get(flame, "total")), i ? 1900 : 190);
	}
	assert_true(json_is_object(json_object_get(root, "timeline")));
	assert_null(json_object_get(root, "no_timeline"));
	assert_true(columns.len > 0);
	json_decref(root);
}

static void test_limits(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	_cleanup_(profile_freep) struct profile *empty = NULL;
	_cleanup_(buffer_release) struct buffer json = {0}, columns = {0};
	struct view_options options = {.title = "a"};
	struct error err = {0};
	/* Without room for the time line it goes without, and what was there before it is left alone. */
	buffer_init(&json, SIZE_MAX);
	buffer_init(&columns, 12);
	assert_int_equal(buffer_append_string(&json, "before"), 0);
	assert_int_equal(buffer_append_string(&columns, "those"), 0);
	assert_int_equal(view_write(profile, &options, &json, &columns, NULL), 0);
	assert_true(bytes_equal_string(buffer_bytes(&columns), "those"));
	assert_memory_equal(json.data, "before{", 7);
	json_t *root = json_loadb((const char *)json.data + 6, json.len - 6, JSON_REJECT_DUPLICATES, NULL);
	assert_true(json_is_string(json_object_get(root, "no_timeline")));
	assert_null(json_object_get(root, "timeline"));
	assert_null(json_object_get(root, "format"));
	json_decref(root);
	buffer_release(&json);
	buffer_init(&json, 100);
	assert_int_equal(view_write(profile, &options, &json, &columns, &err), -E2BIG);
	assert_true(err.message[0] != 0);
	assert_int_equal(profile_new(&empty, NULL), 0);
	assert_int_equal(view_write(empty, &options, &json, &columns, NULL), -EINVAL);
}

/* A file has nobody to ask for more: nothing is left out that a browser can take. */
static void test_all_nodes(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	_cleanup_(buffer_release) struct buffer json = {0}, columns = {0};
	struct view_options options = {.title = "a"};
	const uint32_t many = 250000;
	(void)state;
	buffer_init(&json, SIZE_MAX);
	buffer_init(&columns, SIZE_MAX);
	for (uint32_t i = 1; i <= many; i++) {
		struct profile_location location = {.address = i};
		struct profile_sample sample = {0};
		uint32_t id;
		assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1, 1}, NULL), 0);
	}
	assert_int_equal(view_write(profile, &options, &json, &columns, NULL), 0);
	json_t *root = json_loadb((const char *)json.data, json.len, JSON_REJECT_DUPLICATES, NULL);
	for (size_t i = 0; i < 2; i++) {
		const json_t *flame = json_object_get(json_array_get(json_object_get(root, "types"), i), "flame");
		assert_int_equal(json_integer_value(json_object_get(flame, "trimmed")), 0);
		assert_true(json_array_size(json_object_get(json_object_get(flame, "nodes"), "self")) == many + 1);
	}
	json_decref(root);
}

static void test_cancel(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	_cleanup_(buffer_release) struct buffer json = {0}, columns = {0};
	atomic_bool cancel = true;
	struct view_options options = {.title = "a", .cancel = &cancel};
	buffer_init(&json, SIZE_MAX);
	buffer_init(&columns, SIZE_MAX);
	assert_int_equal(view_write(profile, &options, &json, &columns, NULL), -ECANCELED);
	assert_int_equal(json.len, 0);
	cancel = false;
	assert_int_equal(view_write(profile, &options, &json, &columns, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_members), cmocka_unit_test(test_limits),
					   cmocka_unit_test(test_all_nodes), cmocka_unit_test(test_cancel)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
