/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "render/test_render.h"

/* A sample of one frame. */
static void add_frame(struct profile *profile, const char *name, uint32_t frame_type, const char *binary, int64_t value)
{
	struct profile_function function = {.name = test_string(profile, name), .file_name = test_string(profile, "a.cc")};
	struct profile_mapping mapping = {.start = 0x1000, .limit = 0x2000, .file_name = test_string(profile, binary)};
	struct profile_location location = {.frame_type = frame_type, .address = 0x1000 + profile->location_count};
	struct profile_line line = {0};
	struct profile_sample sample = {0};
	uint32_t id;
	if (profile_add_function(profile, &function, &line.function, NULL) < 0 ||
	    (*binary && profile_add_mapping(profile, &mapping, &location.mapping, NULL) < 0) ||
	    profile_add_location(profile, &location, &line, 1, &id, NULL) < 0 ||
	    profile_add_stack(profile, 0, id, &sample.stack, NULL) < 0 ||
	    profile_add_sample(profile, &sample, &value, NULL) < 0)
		abort();
}

static struct profile *make_profile(void)
{
	struct profile *profile = test_new_profile("cpu", "count");
	add_frame(profile, "std::vector<int>::push_back(int&&)", PROFILE_FRAME_NATIVE, "app", 30);
	add_frame(profile, "std::vector<long>::push_back(long const&)", PROFILE_FRAME_NATIVE, "app", 20);
	add_frame(profile, "std::vector<long>::push_back(long const&)", PROFILE_FRAME_NATIVE, "other", 10);
	add_frame(profile, "plain", PROFILE_FRAME_NATIVE, "app", 5);
	add_frame(profile, "LazyCompile:~f<x>(y)", PROFILE_FRAME_JIT, "app", 4);
	add_frame(profile, "label=a(b)", PROFILE_FRAME_UNKNOWN, "", 3);
	add_frame(profile, "f(int)", PROFILE_FRAME_UNKNOWN, "app", 2);
	return profile;
}

/* Functions of one binary with one short name become one node; what no compiler named keeps its name. */
static void test_short_names(void **state)
{
	static const struct {
		const char *name, *binary;
		int64_t total;
	} expected[] = {{"std::vector::push_back", "app", 50},
			{"std::vector::push_back", "other", 10},
			{"plain", "app", 5},
			{"LazyCompile:~f<x>(y)", "app", 4},
			{"label=a(b)", "", 3},
			{"f", "app", 2}};
	_cleanup_(profile_freep) struct profile *profile = make_profile();
	_cleanup_(flame_freep) struct flame *flame = NULL;
	(void)state;
	assert_int_equal(render_shorten_names(profile, NULL), 0);
	assert_int_equal(flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &flame, NULL), 0);
	assert_int_equal(flame->count, 7);
	for (size_t i = 0; i < 6; i++) {
		const struct flame_node *node = &flame->nodes[i + 1];
		assert_string_equal(intern_string(&flame->strings, node->name), expected[i].name);
		assert_string_equal(intern_string(&flame->strings, node->binary), expected[i].binary);
		assert_int_equal(node->total, expected[i].total);
	}
}

static void test_empty(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	(void)state;
	assert_int_equal(render_shorten_names(profile, NULL), 0);
}

static void test_out_of_memory(void **state)
{
	uint64_t nth = 1;
	(void)state;
	for (;; nth++) {
		_cleanup_(profile_freep) struct profile *profile = make_profile();
		struct error err = {0};
		fault_arm(FAULT_ALLOC, nth, 0);
		int r = render_shorten_names(profile, &err);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(err.code, r);
		if (!reached)
			break;
	}
	assert_true(nth > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_out_of_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
