/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/limits.h"
#include "store/series_columns.h"

#define SERIES 500

static struct profile_type types[3] = {
	{.name = "process_cpu", .sample_type = "cpu", .delta = true},
	{.name = "process_cpu", .sample_type = "cpu", .delta = false},
	{.name = "memory", .sample_type = "alloc_space", .sample_unit = "bytes"},
};
static struct profile_type twins[3]; /* equal, elsewhere in memory */
static struct labels label_sets[SERIES];
static struct series series[SERIES];

static int setup(void **state)
{
	memcpy(twins, types, sizeof(types));
	for (size_t i = 0; i < SERIES; i++) {
		struct labels *labels = &label_sets[i];
		char text[32];
		*labels = (struct labels){0};
		snprintf(text, sizeof(text), "pod-%zu", i / 2);
		labels_set(labels, "pod", text, NULL);
		if (i % 3) {
			snprintf(text, sizeof(text), "service%zu", i % 7);
			labels_set(labels, "service_name", text, NULL);
		}
		if (i % 50 == 0)
			labels_set(labels, i % 100 ? "a_rare_one" : "zone", "x", NULL);
		series[i] = (struct series){.type = i % 5 ? &types[i % 3] : &twins[i % 3], .labels = labels};
	}
	return 0;
}

static int teardown(void **state)
{
	for (size_t i = 0; i < SERIES; i++)
		labels_release(&label_sets[i]);
	return 0;
}

static void check_labels(const struct series_columns *columns, size_t i, const struct series *want)
{
	struct label items[LIMIT_LABELS_PER_SERIES];
	struct labels labels = series_columns_labels(columns, i, NULL, 0, items);
	assert_int_equal(labels_compare(&labels, want->labels), 0);
	assert_true(profile_type_equal(&columns->types[columns->type_ids[i]], want->type));
}

static void check_columns(const struct series_columns *columns)
{
	assert_int_equal(columns->count, SERIES);
	assert_int_equal(columns->type_count, 3);
	assert_int_equal(columns->label_count, 4);
	for (size_t i = 0; i < SERIES; i++)
		check_labels(columns, i, &series[i]);
	for (size_t c = 0; c < columns->label_count; c++)
		for (size_t i = 0; i < columns->labels[c].value_count; i++)
			for (size_t k = 0; k < i; k++)
				assert_string_not_equal(columns->labels[c].values[i], columns->labels[c].values[k]);
}

static void test_build(void **state)
{
	struct series_columns columns;
	struct label items[LIMIT_LABELS_PER_SERIES];
	static const char *const by[] = {"zone", "service_name", "nothing"};
	assert_int_equal(series_columns_build(series, SERIES, &columns, NULL), 0);
	check_columns(&columns);
	assert_int_equal(series_columns_find(&columns, "pod")->value_count, SERIES / 2);
	assert_int_equal(series_columns_find(&columns, "service_name")->value_count, 7);
	assert_null(series_columns_find(&columns, "nothing"));
	assert_null(series_columns_find(&columns, ""));
	struct labels labels = series_columns_labels(&columns, 100, by, 3, items);
	assert_int_equal(labels.count, 2);
	assert_string_equal(labels.items[0].name, "service_name");
	assert_string_equal(labels.items[1].name, "zone");
	assert_true(columns.bytes > SERIES * 4 * 5);
	series_columns_release(&columns);

	assert_int_equal(series_columns_build(series, 0, &columns, NULL), 0);
	assert_int_equal(columns.count + columns.type_count + columns.label_count, 0);
	series_columns_release(&columns);
}

static int build_in_slices(struct series_columns *ret, size_t slice, struct error *err)
{
	_cleanup_(series_builder_freep) struct series_builder *builder = NULL;
	struct bytes values[SERIES];
	uint32_t codes[SERIES];
	size_t pod, column;
	int r = series_builder_new(SERIES, &builder, err);
	if (r == 0)
		r = series_builder_column(builder, bytes_of_string("pod"), &pod, err);
	for (size_t first = 0; r == 0 && first < SERIES; first += slice) {
		struct series_codes part = {.first = first, .codes = codes, .values = values};
		for (; part.count < slice && first + part.count < SERIES; part.count++) {
			const char *value = labels_get(&label_sets[first + part.count], "pod");
			bool is_new = part.count == 0 || !bytes_equal_string(values[part.value_count - 1], value);
			if (is_new)
				values[part.value_count++] = bytes_of_string(value);
			codes[part.count] = (uint32_t)part.value_count - 1;
		}
		r = series_builder_codes(builder, pod, &part, err);
	}
	for (size_t i = 0; r == 0 && i < SERIES; i++) {
		uint32_t type;
		r = series_builder_type(builder, series[i].type, &type, err);
		if (r == 0)
			series_builder_set_type(builder, i, type);
		for (size_t l = 0; r == 0 && l < label_sets[i].count; l++) {
			const struct label *label = &label_sets[i].items[l];
			r = series_builder_column(builder, bytes_of_string(label->name), &column, err);
			if (r == 0)
				r = series_builder_set(builder, column, i, bytes_of_string(label->value), err);
		}
	}
	return r == 0 ? series_builder_finish(builder, ret, err) : r;
}

static void test_slices(void **state)
{
	static const size_t slices[] = {1, 7, 100, SERIES};
	for (size_t i = 0; i < sizeof(slices) / sizeof(*slices); i++) {
		struct series_columns columns;
		assert_int_equal(build_in_slices(&columns, slices[i], NULL), 0);
		check_columns(&columns);
		series_columns_release(&columns);
	}
}

static void test_rejects(void **state)
{
	struct series_builder *b;
	size_t column;
	struct bytes values[] = {{(const uint8_t *)"a\0b", 3}, {(const uint8_t *)"ab", 2}};
	uint32_t codes[] = {0, 1};
	assert_int_equal(series_builder_new(2, &b, NULL), 0);
	assert_int_equal(series_builder_column(b, bytes_of_string("x"), &column, NULL), 0);
	struct series_codes slice = {.count = 2, .codes = codes, .values = values, .value_count = 2};
	assert_int_equal(series_builder_codes(b, column, &slice, NULL), -EBADMSG);
	assert_int_equal(series_builder_set(b, column, 0, values[0], NULL), -EBADMSG);
	slice.values = values + 1;
	slice.value_count = 1;
	assert_int_equal(series_builder_codes(b, column, &slice, NULL), -EBADMSG);
	slice.first = 1;
	assert_int_equal(series_builder_codes(b, column, &slice, NULL), -EBADMSG);
	series_builder_free(b);
}

/* A hundred thousand series of which each has a label name of its own. */
static void test_memory_is_bounded(void **state)
{
	struct series_builder *b;
	struct error err;
	int r = series_builder_new(100000, &b, NULL);
	for (size_t i = 0; r == 0 && i < 100000; i++) {
		char name[32];
		size_t column;
		snprintf(name, sizeof(name), "label%zu", i);
		r = series_builder_column(b, bytes_of_string(name), &column, &err);
	}
	assert_int_equal(r, -E2BIG);
	assert_non_null(strstr(err.message, "label names"));
	series_builder_free(b);
}

static void test_no_memory(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n++) {
			struct series_columns columns;
			fault_arm(FAULT_ALLOC, n, 0);
			int r = kind ? build_in_slices(&columns, 100, NULL)
				     : series_columns_build(series, SERIES, &columns, NULL);
			reached = fault_disarm(FAULT_ALLOC);
			assert_int_equal(r, reached ? -ENOMEM : 0);
			if (r == 0)
				series_columns_release(&columns);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_build),	  cmocka_unit_test(test_slices),
		cmocka_unit_test(test_rejects),	  cmocka_unit_test(test_memory_is_bounded),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
