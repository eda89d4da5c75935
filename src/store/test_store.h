/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the store: random profiles, and a model of the store that is too simple to be wrong: a list of rows, each with
 * its series and stack as text.
 */
#ifndef WICK_STORE_TEST_STORE_H
#define WICK_STORE_TEST_STORE_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/time.h"
#include "profile/numbers.h"
#include "profile/test_labels.h"
#include "store/store.h"

#define TEST_EPOCH     1700000000000000000ll
#define UNUSED_BY_SOME __attribute__((unused))

static uint64_t test_seed = 88172645463325252ull;

static inline uint64_t rnd(void)
{
	test_seed ^= test_seed << 13;
	test_seed ^= test_seed >> 7;
	test_seed ^= test_seed << 17;
	return test_seed;
}

/* WICK_TEST_SEED=N tries other data. */
UNUSED_BY_SOME static void test_seed_from_environment(void)
{
	const char *text = getenv("WICK_TEST_SEED");
	if (text)
		test_seed ^= strtoull(text, NULL, 10) * 0x9e3779b97f4a7c15ull;
}

static inline uint32_t rnd_below(uint32_t limit)
{
	return (uint32_t)(rnd() >> 20) % limit;
}

/* ---- what is selected ---- */

/* Types whose sample type is "samples": a member of struct store_select. */
UNUSED_BY_SOME static const struct type_condition test_samples_type = {.parts = {NULL, "samples"}};
#define TEST_SAMPLES .series = {.types = &test_samples_type, .type_count = 1}

/* ---- directories ---- */

UNUSED_BY_SOME static char *test_directory(void)
{
	/* In memory if possible: these tests sync thousands of times, and none of them pulls the plug. */
	char in_memory[] = "/dev/shm/store-test-XXXXXX", on_disk[] = "/tmp/store-test-XXXXXX";
	char *path = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
	assert_non_null(path);
	return mem_strdup(path);
}

UNUSED_BY_SOME static void test_directory_remove(char *path)
{
	struct error err = {0};
	if (io_remove_tree(path, &err) < 0)
		fail_msg("%s", err.message);
	mem_free(path);
}

/* ---- random profiles ---- */

static inline uint32_t test_string(struct profile *profile, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline uint32_t test_string(struct profile *profile, const char *format, ...)
{
	char text[256];
	uint32_t id;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

/* One of 40 locations: half by address in one of three binaries, each loaded anywhere, half by name, some of them inlined. */
static inline uint32_t test_location(struct profile *profile, uint32_t which)
{
	uint32_t id;
	struct profile_location location = {0};
	struct profile_line lines[3] = {0};
	size_t line_count = 0;
	if (which % 2) {
		struct profile_mapping mapping = {.start = 0x1000000 * (1 + rnd_below(5)), .offset = 0x1000};
		mapping.limit = mapping.start + 0x10000;
		mapping.file_name = test_string(profile, "/usr/bin/program%u", which % 3);
		mapping.build_id = test_string(profile, "b01d%u", which % 3);
		assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
		location.address = mapping.start + 16 * which;
		location.frame_type = which % 5 == 0 ? PROFILE_FRAME_KERNEL : PROFILE_FRAME_NATIVE;
	} else {
		line_count = 1 + which % 3;
		for (size_t i = 0; i < line_count; i++) {
			struct profile_function function = {.name = test_string(profile, "function%u", which + (uint32_t)i),
							    .system_name = test_string(profile, "_Zfunction%u", which),
							    .file_name = test_string(profile, "src/file%u.c", which % 4),
							    .start_line = which};
			assert_int_equal(profile_add_function(profile, &function, &lines[i].function, NULL), 0);
			lines[i].line = which * 3 + (int64_t)i;
			lines[i].column = which % 7;
		}
	}
	assert_int_equal(profile_add_location(profile, &location, lines, line_count, &id, NULL), 0);
	return id;
}

static inline uint32_t test_stack(struct profile *profile)
{
	uint32_t stack = 0;
	for (uint32_t depth = rnd_below(9); depth > 0; depth--)
		assert_int_equal(profile_add_stack(profile, stack, test_location(profile, rnd_below(40)), &stack, NULL), 0);
	return stack;
}

static inline uint32_t test_label_set(struct profile *profile)
{
	uint32_t id, count = rnd_below(3);
	struct profile_label labels[2] = {
		{.key = test_string(profile, "thread"), .value = test_string(profile, "worker%u", rnd_below(3))},
		{.key = test_string(profile, "cpu.number"), .number = 1 + rnd_below(2)},
	};
	assert_int_equal(profile_add_label_set(profile, labels, count, &id, NULL), 0);
	return id;
}

/* Numbers of a sample; one of 12 sets, some of which have two. */
static inline uint32_t test_numbers(struct profile *profile)
{
	uint32_t id, which = rnd_below(12);
	struct profile_label labels[2] = {
		{.key = test_string(profile, "bytes"), .number = 16 << which % 6},
		{.key = test_string(profile, "request, or \\so"), .number = -7, .unit = test_string(profile, "milli=seconds")},
	};
	assert_int_equal(profile_add_label_set(profile, labels, 1 + which / 6, &id, NULL), 0);
	return id;
}

/* Some samples belong to spans, some have numbers; of some profiles they have times of their own. */
UNUSED_BY_SOME static struct profile *test_profile_random(size_t samples)
{
	struct profile *profile;
	size_t types = 1 + rnd_below(2);
	assert_int_equal(profile_new(&profile, NULL), 0);
	profile_add_sample_type(profile, test_string(profile, "samples"), test_string(profile, "count"), NULL);
	if (types > 1)
		profile_add_sample_type(profile, test_string(profile, "cpu"), test_string(profile, "nanoseconds"), NULL);
	profile->period_type.type = test_string(profile, "cpu");
	profile->period_type.unit = test_string(profile, "nanoseconds");
	profile->period = 52631579;
	profile->time_ns = TEST_EPOCH + (int64_t)rnd_below(3600) * NS_PER_S;
	profile->duration_ns = 10 * NS_PER_S;
	bool own_times = rnd_below(3) == 0, numbers = rnd_below(2) == 0;
	for (size_t i = 0; i < samples; i++) {
		struct profile_sample sample = {.stack = test_stack(profile), .labels = test_label_set(profile)};
		int64_t values[2] = {(int64_t)rnd_below(5), (int64_t)rnd_below(1000) - 10};
		if (own_times)
			sample.time_ns = profile->time_ns + (int64_t)rnd_below(10) * NS_PER_S;
		if (rnd_below(8) == 0) {
			struct profile_link link = {.trace_id = {1, (uint8_t)rnd_below(3)},
						    .span_id = {2, (uint8_t)rnd_below(3)}};
			assert_int_equal(profile_add_link(profile, &link, &sample.link, NULL), 0);
		}
		if (numbers && rnd_below(3) == 0)
			sample.numbers = test_numbers(profile);
		assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	}
	return profile;
}

UNUSED_BY_SOME static void test_labels_random(struct labels *labels)
{
	char text[32];
	*labels = (struct labels){0};
	snprintf(text, sizeof(text), "service%u", rnd_below(4));
	assert_int_equal(labels_set(labels, "service_name", text, NULL), 0);
	snprintf(text, sizeof(text), "host%u", rnd_below(3));
	assert_int_equal(labels_set(labels, "host", text, NULL), 0);
	if (rnd_below(4) == 0)
		assert_int_equal(labels_set(labels, "odd", "a \"quoted\" \xc3\xa4", NULL), 0);
}

/* ---- the model ---- */

struct model_row {
	char *series, *stack;
	int64_t time_ns, value;
	struct profile_link link;
	char numbers[128]; /* profile/numbers.h */
	uint64_t bucket;   /* scratch */
};
struct model {
	struct model_row *rows;
	size_t count, capacity;
};

static inline void frame_text(const struct profile *profile, uint32_t id, struct buffer *out)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	buffer_printf(out, ";[%u]", location->frame_type);
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		const struct profile_function *function = &profile->functions[line->function];
		buffer_printf(out, "%s|%s|%s|%" PRId64 ":%" PRId64 ":%" PRId64 ",", profile_string(profile, function->name),
			      profile_string(profile, function->system_name), profile_string(profile, function->file_name),
			      function->start_line, line->line, line->column);
	}
	if (location->line_count == 0)
		buffer_printf(out, "%s %s+%" PRIx64, profile_string(profile, mapping->file_name),
			      profile_string(profile, mapping->build_id), profile_location_file_offset(profile, id));
}

static inline char *stack_text(const struct profile *profile, uint32_t stack)
{
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	for (; stack; stack = profile->stacks[stack].parent)
		frame_text(profile, profile->stacks[stack].location, &text);
	char *copy = mem_strdup(buffer_string(&text));
	buffer_release(&text);
	return copy;
}

static inline char *series_text(const struct profile_type *type, const struct labels *labels)
{
	char type_text[PROFILE_TYPE_TEXT_MAX];
	struct buffer text;
	buffer_init(&text, SIZE_MAX);
	buffer_append_string(&text, profile_type_format(type, type_text));
	test_labels_format(labels, &text);
	char *copy = mem_strdup(buffer_string(&text));
	buffer_release(&text);
	return copy;
}

static inline void model_add_row(struct model *model, char *series, char *stack, int64_t time_ns, int64_t value)
{
	assert_int_equal(array_reserve(&model->rows, &model->capacity, model->count + 1, SIZE_MAX), 0);
	model->rows[model->count++] = (struct model_row){.series = series, .stack = stack, .time_ns = time_ns, .value = value};
}

static inline void numbers_text(const struct profile *profile, uint32_t set, char out[static 128])
{
	_cleanup_(buffer_release) struct buffer text = {.max = 127};
	assert_int_equal(numbers_format(profile, set, &text), 0);
	snprintf(out, 128, "%s", buffer_string(&text));
}

UNUSED_BY_SOME static void model_append(struct model *model, const struct profile *profile,
					const struct store_append_options *options)
{
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		struct labels labels;
		labels_of_sample(profile, sample->labels, options->labels, &labels, NULL);
		for (size_t t = 0; t < profile->sample_type_count; t++) {
			int64_t value = profile->values[i * profile->sample_type_count + t];
			struct profile_type type;
			profile_type_of(profile, t, options->name, &type);
			if (value) {
				model_add_row(model, series_text(&type, &labels), stack_text(profile, sample->stack),
					      sample->time_ns	 ? sample->time_ns
					      : profile->time_ns ? profile->time_ns
								 : options->received_ns,
					      value);
				model->rows[model->count - 1].link = profile->links[sample->link];
				numbers_text(profile, sample->numbers, model->rows[model->count - 1].numbers);
			}
		}
		labels_release(&labels);
	}
}

UNUSED_BY_SOME static void model_release(struct model *model)
{
	for (size_t i = 0; i < model->count; i++) {
		mem_free(model->rows[i].series);
		mem_free(model->rows[i].stack);
	}
	mem_free(model->rows);
	*model = (struct model){0};
}

static inline int compare_rows(const void *a, const void *b)
{
	const struct model_row *x = a, *y = b;
	int order = strcmp(x->series, y->series);
	if (order == 0)
		order = strcmp(x->stack, y->stack);
	if (order == 0)
		order = (x->bucket > y->bucket) - (x->bucket < y->bucket);
	return order;
}

/* Sums rows that are equal but for time and value; drops zeros. */
static inline void model_sum(struct model *model)
{
	size_t kept = 0;
	if (model->count)
		qsort(model->rows, model->count, sizeof(*model->rows), compare_rows);
	for (size_t i = 0; i < model->count; i++) {
		if (kept && compare_rows(&model->rows[kept - 1], &model->rows[i]) == 0) {
			model->rows[kept - 1].value += model->rows[i].value;
			mem_free(model->rows[i].series);
			mem_free(model->rows[i].stack);
		} else {
			if (kept && model->rows[kept - 1].value == 0) {
				kept--;
				mem_free(model->rows[kept].series);
				mem_free(model->rows[kept].stack);
			}
			model->rows[kept++] = model->rows[i];
		}
	}
	if (kept && model->rows[kept - 1].value == 0) {
		kept--;
		mem_free(model->rows[kept].series);
		mem_free(model->rows[kept].stack);
	}
	model->count = kept;
}

/* ---- asking both ---- */

/* The series whose text contains a needle, as conditions: TYPE, LABEL="VALUE", or TYPE{LABEL="VALUE"; "" = all. A type begins
 * at its name or, if that is left out, with "samples". */
struct test_needle {
	char text[128];
	struct type_condition type;
	struct label_condition label;
	struct series_conditions series;
};
static inline void test_type_condition(char *text, struct type_condition *ret)
{
	size_t part = strncmp(text, "samples", 7) == 0;
	for (char *one; (one = strsep(&text, ":")); part++) {
		if (part < TYPE_CONDITION_PARTS)
			ret->parts[part] = one[0] ? one : NULL;
		else
			ret->delta = TYPE_DELTA_YES;
	}
}
static inline const struct series_conditions *test_conditions(const char *needle, struct test_needle *ret)
{
	*ret = (struct test_needle){{0}};
	snprintf(ret->text, sizeof(ret->text), "%s", needle);
	char *brace = strchr(ret->text, '{'), *equals = strchr(ret->text, '=');
	if (equals) {
		ret->text[strlen(ret->text) - 1] = '\0';
		*equals = '\0';
		ret->label = (struct label_condition){.label = ret->text, .text = equals + 2};
		ret->series = (struct series_conditions){.labels = &ret->label, .label_count = 1};
	} else if (needle[0]) {
		if (brace)
			*brace = '\0';
		test_type_condition(ret->text, &ret->type);
		ret->series = (struct series_conditions){.types = &ret->type, .type_count = 1};
	}
	return &ret->series;
}

/* Groups the series that were selected by a needle, each by itself. */
struct test_sink {
	const char *needle;
	bool merge; /* all in group 0 */
	struct model got;
	char *series[4096];
	size_t count;
};
static inline int test_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
			     struct error *err)
{
	struct test_sink *sink = context;
	char *text = series_text(type, labels);
	size_t at = 0;
	assert_non_null(strstr(text, sink->needle));
	while (at < sink->count && strcmp(sink->series[at], text))
		at++;
	assert_true(at < 4096);
	*ret = sink->merge ? 0 : (uint32_t)at;
	if (at == sink->count)
		sink->series[sink->count++] = text;
	else
		mem_free(text);
	return 0;
}
static inline struct test_sink *test_sink_new(const char *needle, bool merge)
{
	struct test_sink *sink = mem_zalloc(sizeof(*sink));
	sink->needle = needle;
	sink->merge = merge;
	return sink;
}
static inline void test_sink_free(struct test_sink *sink)
{
	for (size_t i = 0; i < sink->count; i++)
		mem_free(sink->series[i]);
	mem_free(sink);
}

static inline void model_select(const struct model *model, const struct store_select *select, const char *needle,
				struct model *ret)
{
	*ret = (struct model){0};
	for (size_t i = 0; i < model->count; i++) {
		const struct model_row *row = &model->rows[i];
		if (row->time_ns >= select->from_ns && row->time_ns < select->to_ns && strstr(row->series, needle))
			model_add_row(ret, mem_strdup(row->series), mem_strdup(row->stack), row->time_ns, row->value);
	}
}

static inline void assert_models_equal(struct model *want, struct model *got)
{
	model_sum(want);
	model_sum(got);
	for (size_t i = 0; i < want->count && i < got->count; i++) {
		assert_string_equal(want->rows[i].series, got->rows[i].series);
		assert_string_equal(want->rows[i].stack, got->rows[i].stack);
		assert_int_equal(want->rows[i].bucket, got->rows[i].bucket);
		assert_int_equal(want->rows[i].value, got->rows[i].value);
	}
	assert_int_equal(want->count, got->count);
	model_release(want);
	model_release(got);
}

UNUSED_BY_SOME static void check_merge(struct store *store, const struct model *model, int64_t from_ns, int64_t to_ns,
				       const char *needle)
{
	struct test_sink *sink = test_sink_new(needle, true);
	struct store_grouping grouping = {.group = test_group, .context = sink};
	struct test_needle room;
	struct store_select select = {.from_ns = from_ns, .to_ns = to_ns, .series = *test_conditions(needle, &room)};
	struct model want, got = {0};
	struct profile *into;
	struct store_read_stats stats;
	struct error err = {0};
	assert_int_equal(profile_new(&into, NULL), 0);
	if (store_merge(store, &select, &grouping, into, &stats, &err) < 0)
		fail_msg("%s", err.message);
	model_select(model, &select, needle, &want);
	for (size_t i = 0; i < want.count; i++) {
		mem_free(want.rows[i].series);
		want.rows[i].series = mem_strdup("");
	}
	for (size_t i = 0; i < into->sample_count; i++) {
		assert_int_equal(into->samples[i].labels, 0);
		assert_int_equal(into->samples[i].time_ns, 0);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(into->samples[k].stack, into->samples[i].stack);
		model_add_row(&got, mem_strdup(""), stack_text(into, into->samples[i].stack), 0, into->values[i]);
	}
	assert_models_equal(&want, &got);
	test_sink_free(sink);
	profile_free(into);
}

static inline int test_on_point(void *context, uint32_t series, uint64_t bucket, int64_t value, struct error *err)
{
	struct test_sink *sink = context;
	assert_true(series < sink->count);
	model_add_row(&sink->got, mem_strdup(sink->series[series]), mem_strdup(""), 0, value);
	sink->got.rows[sink->got.count - 1].bucket = bucket;
	return 0;
}

UNUSED_BY_SOME static void check_series(struct store *store, const struct model *model, int64_t from_ns, int64_t to_ns,
					const char *needle, int64_t step_ns)
{
	struct test_sink *sink = test_sink_new(needle, false);
	struct store_grouping grouping = {.group = test_group, .context = sink};
	struct test_needle room;
	struct store_select select = {.from_ns = from_ns, .to_ns = to_ns, .series = *test_conditions(needle, &room)};
	struct model want;
	struct error err = {0};
	if (store_series(store, &select, &grouping, step_ns, test_on_point, sink, NULL, &err) < 0)
		fail_msg("%s", err.message);
	model_select(model, &select, needle, &want);
	for (size_t i = 0; i < want.count; i++) {
		want.rows[i].bucket = step_ns ? (uint64_t)((want.rows[i].time_ns - from_ns) / step_ns) : 0;
		mem_free(want.rows[i].stack);
		want.rows[i].stack = mem_strdup("");
	}
	assert_models_equal(&want, &sink->got);
	test_sink_free(sink);
}

UNUSED_BY_SOME static void check_list(struct store *store, const struct model *model, const char *needle)
{
	struct test_sink *sink = test_sink_new(needle, false);
	struct store_grouping grouping = {.group = test_group, .context = sink};
	struct test_needle room;
	struct store_select select = {.from_ns = INT64_MIN, .to_ns = INT64_MAX, .series = *test_conditions(needle, &room)};
	struct model want;
	assert_int_equal(store_list_series(store, &select, &grouping, NULL, NULL), 0);
	for (size_t i = 0; i < sink->count; i++)
		model_add_row(&sink->got, mem_strdup(sink->series[i]), mem_strdup(""), 0, 1);
	for (size_t i = 0; i < sink->count; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(sink->series[i], sink->series[k]);
	model_select(model, &select, needle, &want);
	size_t kept = 0;
	for (size_t i = 0; i < want.count; i++) {
		bool seen = false;
		for (size_t k = 0; k < kept && !seen; k++)
			seen = !strcmp(want.rows[k].series, want.rows[i].series);
		mem_free(want.rows[i].stack);
		if (seen) {
			mem_free(want.rows[i].series);
			continue;
		}
		want.rows[kept] = want.rows[i];
		want.rows[kept].stack = mem_strdup("");
		want.rows[kept++].value = 1;
	}
	want.count = kept;
	assert_models_equal(&want, &sink->got);
	test_sink_free(sink);
}

/* Everything at once, over several ranges and selections. */
UNUSED_BY_SOME static void check_all(struct store *store, const struct model *model)
{
	int64_t hour = 3600 * NS_PER_S;
	static const char *const needles[] = {"process_cpu:samples",
					      "process_cpu:cpu:", "samples:count:cpu:nanoseconds:delta{"};
	for (size_t i = 0; i < 3; i++) {
		check_merge(store, model, INT64_MIN, INT64_MAX, needles[i]);
		check_merge(store, model, TEST_EPOCH + hour / 4, TEST_EPOCH + hour / 2, needles[i]);
		check_series(store, model, INT64_MIN, INT64_MAX, needles[i], 0);
		check_series(store, model, TEST_EPOCH - hour, TEST_EPOCH + hour * 2, needles[i], 60 * NS_PER_S);
		check_series(store, model, TEST_EPOCH + 7, TEST_EPOCH + hour / 2, needles[i], 13 * NS_PER_S);
	}
	check_merge(store, model, TEST_EPOCH, TEST_EPOCH + hour, "process_cpu:samples:count:cpu:nanoseconds:delta{");
	check_series(store, model, TEST_EPOCH, TEST_EPOCH + hour, "host=\"host1\"", 0);
	check_series(store, model, TEST_EPOCH, TEST_EPOCH + hour, "service_name=\"service2\"", 0);
	check_list(store, model, "");
	check_list(store, model, "thread=\"worker1\"");
	check_merge(store, model, TEST_EPOCH, TEST_EPOCH, "samples");
}

/* Appends a random profile to both. */
UNUSED_BY_SOME static int test_append(struct store *store, struct model *model, size_t samples, const uint8_t *id,
				      struct error *err)
{
	struct profile *profile = test_profile_random(samples);
	struct labels labels;
	test_labels_random(&labels);
	struct store_append_options options = {.labels = &labels, .received_ns = TEST_EPOCH};
	struct store_append_result result = {0};
	if (id)
		memcpy(options.id, id, 16);
	int r = store_append(store, profile, &options, &result, err);
	if (r == 0 && !result.duplicate)
		model_append(model, profile, &options);
	labels_release(&labels);
	profile_free(profile);
	return r;
}

#endif
