/* SPDX-License-Identifier: Apache-2.0 */
/* Filters, graphs and tables of random profiles: what does not depend on what is in them, and without memory. That they are
 * right is tested with known stacks: tests/interop/parca_reports.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <time.h>

#include "base/fault.h"
#include "base/sum.h"
#include "codec/protobuf.h"
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
		assert_int_equal(parca_filters_apply(&filters, profile, NULL, &filtered, NULL), 0);
		assert_int_equal(profile_total(profile, seed % 2) + filtered, before);
		assert_int_equal(parca_graph_build(profile, &options, &graph, NULL), 0);
		assert_int_equal(graph.total, before - filtered);
		for (size_t i = 1; i < graph.shown_count; i++)
			shown += graph.shown_parents[i] == 0 ? graph.rows[graph.shown[i]].total : 0;
		assert_int_equal(graph.rows[0].total, shown);
		parca_graph_release(&graph);
	}
}

/* Sums of values from outside stop at their limits, and columns have room for them. */
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
		static struct parca_request in = {.threshold = 50};
		struct parca parca = {.out = &out};
		assert_int_equal(parca_report_write(&parca, &in, &view, &parca_query_fields, NULL), 0);
		/* No stack is wanted: all values are dropped. */
		static const struct parca_filters none = {
			.items = {{.of_stack = true, .criterion = PARCA_FUNCTION, .kind = PARCA_EQUAL}},
			.count = 1,
			.sandwich = ""};
		size_t last = profile->sample_type_count - 1;
		int64_t dropped = 0, filtered;
		for (size_t i = 0; i < profile->sample_count; i++)
			if (profile->samples[i].stack)
				sum_to(&dropped, profile->values[i * profile->sample_type_count + last]);
		assert_int_equal(parca_filters_apply(&none, profile, NULL, &filtered, NULL), 0);
		assert_int_equal(filtered, dropped);
	}
}

static uint32_t add_location(struct profile *profile, const char *name)
{
	struct profile_function function = {0};
	struct profile_line line = {0};
	uint32_t id = 0;
	assert_int_equal(profile_add_cstring(profile, name, &function.name, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &id, NULL), 0);
	return id;
}

static void add_sample(struct profile *profile, const uint32_t *frames, size_t count, int64_t value)
{
	struct profile_sample sample = {0};
	assert_int_equal(profile_add_stack_leaf_first(profile, frames, count, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
}

/* Two functions that call each other and have no other caller, and very many others that one of them calls: nothing is walked
 * over once for each of these. */
static void test_rings(void **state)
{
	(void)state;
	enum { CALLED = 200000 };
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(buffer_release) struct buffer out = {.max = 64 * MIB};
	uint32_t type, unit;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "samples", &type, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "count", &unit, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	uint32_t a = add_location(profile, "a"), b = add_location(profile, "b"), large = add_location(profile, "large");
	add_sample(profile, &large, 1, 1000ll * CALLED);
	for (unsigned i = 0; i < CALLED; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		add_sample(profile, (const uint32_t[]){add_location(profile, name), a, b, a, b}, 5, 1);
	}
	struct parca_view view = {.profile = profile, .scale = 1};
	clock_t before = clock();
	assert_int_equal(parca_callgraph_write(&view, &out, NULL), 0);
	assert_true(clock() - before < 10 * CLOCKS_PER_SEC); /* of this process; once took minutes */
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
	/* Inverted; conditions on stacks; on frames. */
	for (size_t i = 0; i < 3; i++) {
		struct parca_filters some = {.sandwich = "", .invert = i == 0, .count = i > 0};
		int64_t filtered;
		some.items[0] = filters.items[i == 2];
		assert_int_equal(parca_filters_apply(&some, profile, &cancel, &filtered, NULL), -ECANCELED);
	}
}

/* Everything, from the filters on; the profile is made anew each time. */
static int make_all(struct profile *profile, struct buffer *out)
{
	static const char *const by[] = {"comm"};
	struct parca_view view = {.profile = profile, .scale = 1};
	struct parca_graph_options options = {.by_labels = true, .scale = 1};
	struct parca_graph graph = {0};
	int64_t filtered;
	int r = parca_filters_apply(&filters, profile, NULL, &filtered, NULL);
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

/* As many binaries as are allowed, and one more: in two filters, which count together. */
static void test_many_binaries(void **state)
{
	(void)state;
	for (unsigned more = 0; more < 2; more++) {
		_cleanup_(buffer_release) struct buffer request = {.max = MIB};
		struct parca_filters found = {.sandwich = ""};
		struct error err = {0};
		for (unsigned i = 0; i < 2; i++) {
			size_t marks[3];
			pb_begin(&request, 12, &marks[0]);
			pb_begin(&request, 2, &marks[1]);
			pb_begin(&request, 1, &marks[2]);
			for (unsigned k = 0; k < PARCA_BINARIES_MAX / 2 + (i && more); k++)
				pb_write_string(&request, 1, "lib");
			for (unsigned k = 3; k-- > 0;)
				pb_end(&request, marks[k]);
		}
		int r = parca_filters_read(buffer_bytes(&request), 12, &found, &err);
		assert_int_equal(r, more ? -EINVAL : 0);
		assert_true(!more || strstr(err.message, "more than 1000 binaries"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),	       cmocka_unit_test(test_large_values),    cmocka_unit_test(test_cancelled),
		cmocka_unit_test(test_without_memory), cmocka_unit_test(test_reading_filters), cmocka_unit_test(test_rings),
		cmocka_unit_test(test_many_binaries)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
