/* SPDX-License-Identifier: Apache-2.0 */
/* Filters, graphs and tables of random profiles: what does not depend on what is in them, and without memory. That they are
 * right is tested with known stacks: tests/interop/parca_reports.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "profile/test_profile.h"
#include "server/parca/graph.h"
#include "server/parca/report.h"

static const struct test_shape shape = {
	.binaries = 4, .functions = 8, .addresses = 5, .samples = 60, .depth = 8, .types = 1, .times = true};
static const struct parca_source file = {.build_id = "", .file = "a.c", .given = true};

static struct profile *make_profile(uint64_t seed, unsigned types)
{
	struct test_shape own = shape;
	struct profile *profile = NULL;
	own.types = types;
	assert_int_equal(test_random_profile(seed, &own, &profile, NULL), 0);
	return profile;
}

static const struct parca_filters filters = {
	.items = {{.of_stack = true,
		   .criterion = PARCA_FUNCTION,
		   .kind = PARCA_CONTAINS,
		   .text = {(const uint8_t *)"FUNCTION", 8}},
		  {.criterion = PARCA_BINARY, .kind = PARCA_NOT_EQUAL, .text = {(const uint8_t *)"program1", 8}}},
	.count = 2,
	.sandwich = "function3",
	.invert = true,
};

/* Whatever is cut and turned around, no value is lost. */
static void test_sums(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 100; seed++) {
		_cleanup_(profile_freep) struct profile *profile = make_profile(seed, 1 + seed % 2);
		struct parca_graph_options options = {
			.by_labels = seed & 2, .by_time = seed & 4, .by_mapping = seed & 8, .scale = 1, .inverted = true};
		struct parca_graph graph;
		int64_t before = profile_total(profile, seed % 2), filtered, shown = 0;
		assert_int_equal(parca_filters_apply(&filters, profile, &filtered, NULL), 0);
		assert_int_equal(profile_total(profile, seed % 2) + filtered, before);
		assert_int_equal(parca_graph_build(profile, &options, &graph, NULL), 0);
		assert_int_equal(graph.total, before - filtered);
		for (size_t i = 1; i < graph.shown_count; i++)
			shown += graph.shown_parents[i] == 0 ? graph.rows[graph.shown[i]].total : 0;
		assert_int_equal(graph.rows[0].total, shown);
		parca_graph_release(&graph);
	}
}

/* Sums of values from outside wrap, and columns have room for them. */
static void test_large_values(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		_cleanup_(profile_freep) struct profile *profile = make_profile(seed, 1 + seed % 2);
		_cleanup_(buffer_release) struct buffer out = {.max = 16 * MIB};
		struct parca_view view = {.profile = profile, .scale = 1e300};
		struct parca_graph_options options = {.scale = 1e300, .by_time = seed & 2, .period_ns = INT64_MAX};
		struct parca_graph graph;
		for (size_t i = 0; i < profile->sample_count * profile->sample_type_count; i++)
			profile->values[i] = i % 3 ? INT64_MAX - (int64_t)i : INT64_MIN;
		for (size_t i = 0; i < profile->sample_count; i++)
			profile->samples[i].time_ns = i % 2 ? INT64_MAX : INT64_MIN;
		assert_int_equal(parca_graph_build(profile, &options, &graph, NULL), 0);
		assert_int_equal(parca_graph_write(&graph, NULL, 0, &out, NULL), 0);
		parca_graph_release(&graph);
		assert_int_equal(parca_table_write(&view, &out, NULL), 0);
		assert_int_equal(parca_source_write(&view, &file, &out, NULL), 0);
		assert_int_equal(parca_callgraph_write(&view, &out, NULL), 0);
	}
}

static void test_cancelled(void **state)
{
	(void)state;
	atomic_bool cancel = true;
	_cleanup_(profile_freep) struct profile *profile = make_profile(1, 1);
	_cleanup_(buffer_release) struct buffer out = {.max = MIB};
	struct parca_view view = {.profile = profile, .scale = 1, .cancel = &cancel};
	struct parca_graph graph;
	assert_int_equal(parca_graph_build(profile, &(struct parca_graph_options){.cancel = &cancel}, &graph, NULL),
			 -ECANCELED);
	assert_int_equal(parca_table_write(&view, &out, NULL), -ECANCELED);
	assert_int_equal(parca_source_write(&view, &file, &out, NULL), -ECANCELED);
}

/* Everything, from the filters on; the profile is made anew each time. */
static int make_all(struct profile *profile, struct buffer *out)
{
	static const char *const by[] = {"comm"};
	struct parca_view view = {.profile = profile, .scale = 1};
	struct parca_graph_options options = {.by_labels = true, .scale = 1};
	struct parca_graph graph = {0};
	int64_t filtered;
	int r = parca_filters_apply(&filters, profile, &filtered, NULL);
	if (!r)
		r = parca_graph_build(profile, &options, &graph, NULL);
	if (!r)
		r = parca_graph_write(&graph, by, 1, out, NULL);
	parca_graph_release(&graph);
	if (!r)
		r = parca_table_write(&view, out, NULL);
	if (!r)
		r = parca_source_write(&view, &file, out, NULL);
	return r < 0 ? r : parca_callgraph_write(&view, out, NULL);
}

static void test_without_memory(void **state)
{
	(void)state;
	for (uint64_t n = 1;; n++) {
		_cleanup_(profile_freep) struct profile *profile = make_profile(7, 2);
		struct buffer out;
		buffer_init(&out, 16 * MIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = make_all(profile, &out);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		buffer_release(&out);
		if (!reached)
			break;
	}
}

static void test_reading_filters(void **state)
{
	(void)state;
	static const uint8_t requests[][12] = {
		{5, 0x62, 3, 0x0a, 1, 0x12},		       /* ends within a length */
		{6, 0x62, 4, 0x0a, 2, 0x12, 9},		       /* longer than what it is in */
		{9, 0x62, 7, 0x0a, 5, 0x12, 3, 0x0a, 1, 0xff}, /* a tag that does not end */
		{8, 0x62, 6, 0x12, 4, 0x0a, 2, 0x0a, 5},       /* in a filter of binaries */
	};
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		struct parca_filters found = {.sandwich = ""};
		struct error err = {0};
		assert_int_equal(parca_filters_read((struct bytes){requests[i] + 1, requests[i][0]}, 12, &found, &err),
				 -EBADMSG);
		assert_true(err.message[0]);
	}
	/* Conditions without anything to compare with, and fields that are not known. */
	static const uint8_t empty[] = {0x62, 6, 0x0a, 4, 0x12, 2, 0x0a, 0, 0x62, 0, 0x1a, 0};
	struct parca_filters found = {.sandwich = ""};
	assert_int_equal(parca_filters_read((struct bytes){empty, sizeof(empty)}, 12, &found, NULL), 0);
	assert_int_equal(found.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_large_values),
					   cmocka_unit_test(test_cancelled), cmocka_unit_test(test_without_memory),
					   cmocka_unit_test(test_reading_filters)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
