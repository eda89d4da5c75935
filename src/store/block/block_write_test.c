/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks as the writer makes them, read back and compared with what was given, put together in ways too simple to be wrong. */
#include <errno.h>
#include <limits.h>
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
#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "base/test_stride.h"
#include "base/time.h"
#include "store/block/block_write.h"

#define EPOCH 1700000000000000000ll

static uint64_t seed = 88172645463325252ull;
static uint32_t rnd_below(uint32_t limit)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 20) % limit;
}

static char directory[80], parent[64];
static int setup(void **state)
{
	snprintf(parent, sizeof(parent), "/dev/shm/block-test-XXXXXX");
	if (!mkdtemp(parent)) {
		snprintf(parent, sizeof(parent), "/tmp/block-test-XXXXXX");
		if (!mkdtemp(parent))
			return -1;
	}
	snprintf(directory, sizeof(directory), "%s/block", parent);
	return 0;
}
static int teardown(void **state)
{
	return io_remove_tree(parent, NULL);
}
static void fresh_directory(void)
{
	assert_int_equal(io_remove_tree(directory, NULL), 0);
	assert_int_equal(io_make_dirs(directory, 0750, NULL), 0);
}

/* ---- what is written ---- */

static struct profile_type types[] = {
	{.name = "process_cpu", .sample_type = "samples", .sample_unit = "count", .period_type = "cpu", .delta = true},
	{.name = "process_cpu", .sample_type = "cpu", .sample_unit = "nanoseconds", .period_type = "cpu", .delta = true},
	{.name = "memory", .sample_type = "alloc_space", .sample_unit = "bytes"},
	{.name = "memory", .sample_type = "alloc_space", .sample_unit = "bytes", .delta = true},
};

/* Series with their labels, in block order. */
struct given {
	struct labels *labels;
	struct series *series;
	size_t count;
	uint32_t keep;
	/* Rows, in order */
	int32_t *row_series, *row_stacks;
	int64_t *times, *values;
	struct profile_link *links;
	size_t row_count;
};

static void set_label(struct labels *labels, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void set_label(struct labels *labels, const char *name, const char *format, ...)
{
	char text[64];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	assert_int_equal(labels_set(labels, name, text, NULL), 0);
}

/* Each series is made unique by "pod"; more_names: of so many rare names some are set. */
static void make_series(struct given *g, size_t count, unsigned more_names)
{
	struct series *unsorted = mem_zalloc_array(count, sizeof(*unsorted));
	uint32_t *order;
	*g = (struct given){.labels = mem_zalloc_array(count, sizeof(*g->labels)),
			    .series = mem_zalloc_array(count, sizeof(*g->series)),
			    .count = count};
	for (size_t i = 0; i < count; i++) {
		struct labels *labels = &g->labels[i];
		*labels = (struct labels){0};
		set_label(labels, "pod", "pod-%u", (unsigned)i / 2);
		if (rnd_below(10))
			set_label(labels, "service_name", "service%u", rnd_below(6));
		if (rnd_below(2))
			set_label(labels, "version", "1.%u", rnd_below(3));
		if (rnd_below(3))
			set_label(labels, "zone", "zone-%c", 'a' + rnd_below(3));
		if (rnd_below(3) == 0)
			set_label(labels, "a_label", "\xc3\xa4 \"%u\"", rnd_below(5));
		for (unsigned k = 0; more_names && k < 5; k++) {
			char name[32];
			snprintf(name, sizeof(name), "rare%u", rnd_below(more_names));
			set_label(labels, name, "x%u", rnd_below(9));
		}
		unsorted[i] = (struct series){.type = &types[i % 2 * 2 + rnd_below(2)], .labels = labels, .period = (int64_t)i};
	}
	assert_int_equal(block_order_of_series(unsorted, count, &order, &g->keep, NULL), 0);
	for (size_t i = 0; i < count; i++)
		g->series[i] = unsorted[order[i]];
	mem_free(order);
	mem_free(unsorted);
}

/* Rows by series, time, stack, link; every fifth row occurs twice. Series 3, 13, ... have none. */
static void make_rows(struct given *g, size_t per_series, bool links)
{
	size_t most = g->count * per_series * 2;
	g->row_series = mem_alloc_array(most, 4);
	g->row_stacks = mem_alloc_array(most, 4);
	g->times = mem_alloc_array(most, 8);
	g->values = mem_alloc_array(most, 8);
	g->links = links ? mem_zalloc_array(most, sizeof(*g->links)) : NULL;
	for (size_t s = 0; s < g->count; s++) {
		int64_t time = EPOCH + (int64_t)rnd_below(1000) * NS_PER_S;
		int32_t stack = 0;
		for (size_t i = 0; i < per_series && s % 10 != 3; i++) {
			if (rnd_below(3) == 0 || stack >= 98) {
				time += (int64_t)(1 + rnd_below(100)) * NS_PER_S;
				stack = 0;
			}
			stack += 1 + (int32_t)rnd_below(2);
			for (unsigned k = 0; k < 1 + (rnd_below(5) == 0); k++) {
				g->row_series[g->row_count] = (int32_t)s;
				g->row_stacks[g->row_count] = stack;
				g->times[g->row_count] = time;
				g->values[g->row_count] = (int64_t)rnd_below(1000) - 100;
				if (links && i % 4 == 0)
					g->links[g->row_count] = (struct profile_link){{1, (uint8_t)(i % 3)}, {2}};
				g->row_count++;
			}
		}
	}
}

static void release_given(struct given *g)
{
	for (size_t i = 0; i < g->count; i++)
		labels_release(&g->labels[i]);
	mem_free(g->labels);
	mem_free(g->series);
	mem_free(g->row_series);
	mem_free(g->row_stacks);
	mem_free(g->times);
	mem_free(g->values);
	mem_free(g->links);
}

/* A hundred stacks, each the callee of the one before it, and just enough of everything else. */
#define STACKS 100
static int write_tables(struct block_writer *writer, struct error *err)
{
	static int32_t parents[STACKS], zeros[STACKS];
	static int64_t numbers[STACKS];
	static struct bytes texts[2];
	static uint8_t used[STACKS];
	static struct hash128 hashes[STACKS];
	static size_t firsts[4] = {0, 0, 2, 3}; /* no line, two, one */
	for (size_t i = 0; i < STACKS; i++) {
		parents[i] = i ? (int32_t)i - 1 : 0;
		used[i] = i > 0;
		hashes[i] = (struct hash128){i, ~(uint64_t)i};
	}
	const struct block_tables tables = {
		.stack_parents = parents,
		.stack_locations = zeros,
		.stack_count = STACKS,
		.location_mappings = zeros,
		.location_frame_types = zeros,
		.location_addresses = numbers,
		.location_folded = used,
		.location_line_firsts = firsts,
		.location_count = 3,
		.line_functions = zeros,
		.line_numbers = numbers,
		.line_columns = numbers,
		.line_count = 3,
		.function_names = texts,
		.function_system_names = texts,
		.function_file_names = texts,
		.function_start_lines = numbers,
		.function_count = 2,
		.mapping_starts = numbers,
		.mapping_limits = numbers,
		.mapping_offsets = numbers,
		.mapping_file_names = texts,
		.mapping_build_ids = texts,
		.mapping_flags = zeros,
		.mapping_count = 1,
	};
	return block_writer_tables(writer, &tables, used, hashes, err);
}

static int write_rows(struct block_writer *writer, const struct given *g, size_t piece, struct error *err)
{
	int r = 0;
	for (size_t from = 0; r == 0 && from < g->row_count; from += piece) {
		const struct block_rows rows = {
			.count = g->row_count - from < piece ? g->row_count - from : piece,
			.series = g->row_series + from,
			.stacks = g->row_stacks + from,
			.times = g->times + from,
			.values = g->values + from,
			.links = g->links ? g->links + from : NULL,
		};
		r = block_writer_samples(writer, &rows, err);
	}
	return r;
}

static int write_block(const struct given *g, const struct block_write_options *options, size_t piece, struct block_meta *meta,
		       struct error *err)
{
	_cleanup_(block_writer_freep) struct block_writer *writer = NULL;
	int r = block_writer_new(options, &writer, err);
	if (r == 0)
		r = block_writer_series(writer, g->series, g->count, g->keep, err);
	if (r == 0)
		r = write_rows(writer, g, piece, err);
	if (r == 0)
		r = write_tables(writer, err);
	return r == 0 ? block_writer_finish(writer, meta, err) : r;
}

static struct block *write_and_open(const struct given *g, const struct block_write_options *options, size_t piece)
{
	struct error err = {0};
	struct block_meta meta;
	struct block *block;
	fresh_directory();
	if (write_block(g, options, piece, &meta, &err) < 0 || block_open(directory, &block, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(meta.samples, block->meta.samples);
	assert_string_equal(meta.name, block->meta.name);
	block_meta_release(&meta);
	if (block_verify(block, &err) < 0)
		fail_msg("%s", err.message);
	return block;
}

/* ---- reading back ---- */

static struct block_series *load_series(const struct block *block)
{
	struct block_series *series;
	struct error err = {0};
	uint64_t bytes = 0;
	if (block_series_load(block, &series, &bytes, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(bytes > 0 && bytes <= block->meta.files[BLOCK_SERIES].size);
	return series;
}

static void check_sums(const struct given *g, const struct block *block, const struct block_series *series)
{
	int64_t *totals = mem_zalloc_array(g->count, 8), *first = mem_zalloc_array(g->count, 8);
	int64_t *last = mem_zalloc_array(g->count, 8), min = INT64_MAX, max = INT64_MIN;
	uint64_t *samples = mem_zalloc_array(g->count, 8), all = 0;
	__int128 times = 0;
	for (size_t i = 0; i < g->row_count; i++) {
		int32_t s = g->row_series[i];
		totals[s] += g->values[i];
		bool same = i && g->row_series[i - 1] == s && g->times[i - 1] == g->times[i] &&
			    g->row_stacks[i - 1] == g->row_stacks[i] &&
			    (!g->links || !memcmp(&g->links[i - 1], &g->links[i], sizeof(*g->links)));
		first[s] = samples[s] == 0 ? g->times[i] : first[s];
		last[s] = g->times[i];
		samples[s] += !same;
		times += same ? 0 : g->times[i];
		all += !same;
	}
	for (size_t s = 0; s < g->count; s++) {
		assert_int_equal(series->totals[s], totals[s]);
		assert_int_equal(series->samples[s], samples[s]);
		assert_int_equal(series->periods[s], g->series[s].period);
		assert_int_equal(series->first_ns[s], samples[s] ? first[s] : INT64_MAX);
		assert_int_equal(series->last_ns[s], samples[s] ? last[s] : INT64_MIN);
		min = samples[s] && first[s] < min ? first[s] : min;
		max = samples[s] && last[s] > max ? last[s] : max;
	}
	assert_int_equal(block->meta.samples, all);
	assert_int_equal(block->meta.files[BLOCK_SAMPLES].rows, all);
	assert_int_equal(block->meta.min_ns, min);
	assert_int_equal(block->meta.max_ns, max);
	assert_int_equal(block->meta.mean_ns, (int64_t)(times / (__int128)all));
	mem_free(totals);
	mem_free(first);
	mem_free(last);
	mem_free(samples);
}

static void check_labels(const struct given *g, const struct block_series *series)
{
	assert_int_equal(series->columns.count, g->count);
	for (size_t s = 0; s < g->count; s++) {
		struct label items[LIMIT_LABELS_PER_SERIES];
		struct labels labels = series_columns_labels(&series->columns, s, NULL, 0, items);
		assert_int_equal(labels_compare(&labels, g->series[s].labels), 0);
		assert_true(profile_type_equal(&series->columns.types[series->columns.type_ids[s]], g->series[s].type));
	}
}

static const char *value_or_empty(const struct series *series, const char *name)
{
	const char *value = labels_get(series->labels, name);
	return value ? value : "";
}

/* Which bit stands for a label; -1 = none. */
static int kept_bit(const struct given *g, const char *name)
{
	for (int i = 0; rollup_label_names[i]; i++)
		if (!strcmp(rollup_label_names[i], name))
			return g->keep & 1u << i ? i : -1;
	return -1;
}

static bool same_rollup(const struct given *g, const struct series *a, const struct series *b)
{
	bool same = profile_type_equal(a->type, b->type) && (a == b || !profile_type_is_gauge(a->type));
	for (int i = 0; rollup_label_names[i]; i++)
		if (g->keep & 1u << i)
			same &= !strcmp(value_or_empty(a, rollup_label_names[i]), value_or_empty(b, rollup_label_names[i]));
	return same;
}

static void check_rollup_ids(const struct given *g, const struct block *block, const struct block_series *series)
{
	int32_t id = 0;
	for (size_t s = 0; s < g->count; s++) {
		id += s > 0 && !same_rollup(g, &g->series[s - 1], &g->series[s]);
		assert_int_equal(series->rollup_ids[s], id);
		for (size_t other = 0; other < s; other++)
			assert_int_equal(series->rollup_ids[other] == id, same_rollup(g, &g->series[other], &g->series[s]));
	}
	assert_int_equal(series->rollup_count, (size_t)id + 1);
	assert_int_equal(block->meta.rollup_series, (size_t)id + 1);
	assert_true(series->rollup_count < g->count);
}

static void read_column(const struct block *block, enum block_file which, const char *name, size_t group,
			struct parquet_data *ret)
{
	struct parquet_file *file;
	size_t column;
	assert_int_equal(block_open_file(block, which, &file, NULL), 0);
	assert_true(parquet_find_column(file, name, &column));
	assert_int_equal(parquet_read(file, group, column, ret, NULL), 0);
	parquet_close(file);
}

static void check_rows(const struct given *g, const struct block *block, size_t group_rows)
{
	struct parquet_data series, stacks, times, values, traces;
	struct parquet_data *all[] = {&series, &stacks, &times, &values, &traces};
	static const char *const names[] = {"series_id", "stack_id", "time_ns", "value", "trace_id"};
	size_t at = 0, rows = block->meta.files[BLOCK_SAMPLES].rows;
	for (size_t i = 0; i < 5; i++)
		*all[i] = (struct parquet_data){0};
	for (size_t group = 0; group * group_rows < rows; group++) {
		for (size_t i = 0; i < (g->links ? 5 : 4); i++)
			read_column(block, BLOCK_SAMPLES, names[i], group, all[i]);
		size_t left = rows - group * group_rows;
		assert_int_equal(series.count, left < group_rows ? left : group_rows);
		for (size_t i = 0; i < series.count; i++) {
			assert_int_equal(series.i32[i], g->row_series[at]);
			assert_int_equal(stacks.i32[i], g->row_stacks[at]);
			assert_int_equal(times.i64[i], g->times[at]);
			bool linked = g->links && g->links[at].span_id[0];
			if (g->links && traces.present)
				assert_int_equal(traces.present[i], linked);
			if (linked)
				assert_memory_equal(traces.bytes[i].data, g->links[at].trace_id, 16);
			int64_t sum = 0;
			do
				sum += g->values[at++];
			while (at < g->row_count && g->row_series[at] == series.i32[i] && g->row_stacks[at] == stacks.i32[i] &&
			       g->times[at] == times.i64[i] &&
			       (!g->links || !memcmp(&g->links[at], &g->links[at - 1], sizeof(*g->links))));
			assert_int_equal(values.i64[i], sum);
		}
	}
	assert_int_equal(at, g->row_count);
	for (size_t i = 0; i < 5; i++)
		parquet_data_release(all[i]);
}

/* ---- tests ---- */

static void test_blocks(void **state)
{
	static const struct {
		size_t series, rows, piece, group_rows;
		unsigned names, level;
		bool links;
	} cases[] = {
		{1, 10, 1, 0, 0, 0, false},	 {40, 50, 7, 100, 0, 1, true},	     {100, 30, 1000000, 999, 0, 2, false},
		{300, 10, 64, 0, 200, 1, false}, {300, 4, 64, 16384, 1000, 1, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct given g;
		make_series(&g, cases[i].series, cases[i].names);
		make_rows(&g, cases[i].rows, cases[i].links);
		const struct block_write_options options = {
			.directory = directory,
			.level = cases[i].level,
			.generation = cases[i].level,
			.rollups = cases[i].level > 0,
			.links = cases[i].links,
			.group_rows = cases[i].group_rows,
			.last_sequence = 42 + i,
		};
		struct block *block = write_and_open(&g, &options, cases[i].piece);
		struct block_series *series = load_series(block);
		check_labels(&g, series);
		check_sums(&g, block, series);
		check_rows(&g, block, cases[i].group_rows ? cases[i].group_rows : PARQUET_GROUP_ROWS);
		if (cases[i].series > 1 && cases[i].level)
			check_rollup_ids(&g, block, series);
		else
			assert_int_equal(series->rollup_ids != NULL, cases[i].level > 0);
		assert_int_equal(block->meta.files[BLOCK_ROLLUP_ALL].size > 0, cases[i].level > 0);
		block_series_free(series);
		block_free(block);
		release_given(&g);
	}
}

/* Type, kept labels, then all labels by name; text by text. */
static int compare_slowly(const struct given *g, const char *const *names, size_t name_count, const struct series *a,
			  const struct series *b)
{
	int order = series_compare_types(a->type, b->type);
	for (int i = 0; order == 0 && rollup_label_names[i]; i++)
		if (g->keep & 1u << i)
			order = strcmp(value_or_empty(a, rollup_label_names[i]), value_or_empty(b, rollup_label_names[i]));
	for (size_t i = 0; order == 0 && i < name_count; i++)
		order = strcmp(value_or_empty(a, names[i]), value_or_empty(b, names[i]));
	return order;
}

static void test_order(void **state)
{
	static const char *const names[] = {"a_label", "pod", "service_name", "version", "zone"};
	for (int round = 0; round < 20; round++) {
		struct given g;
		make_series(&g, 1 + rnd_below(400), 0);
		assert_true(g.count < 20 || kept_bit(&g, "service_name") == 0);
		assert_int_equal(kept_bit(&g, "pod"), -1);
		for (size_t i = 1; i < g.count; i++)
			assert_true(compare_slowly(&g, names, 5, &g.series[i - 1], &g.series[i]) <= 0);
		release_given(&g);
	}
}

/* A label with too many values is not kept, and does not come first in the order. */
static void test_too_many_values(void **state)
{
	size_t count = ROLLUP_VALUES_MAX + 1;
	struct labels *labels = mem_zalloc_array(count, sizeof(*labels));
	struct series *series = mem_zalloc_array(count, sizeof(*series));
	uint32_t *order, keep;
	for (size_t i = 0; i < count; i++) {
		set_label(&labels[i], "service_name", "%u", (unsigned)i);
		set_label(&labels[i], "zone", "%u", (unsigned)i % 3);
		series[i] = (struct series){.type = &types[0], .labels = &labels[i]};
	}
	assert_int_equal(block_order_of_series(series, count, &order, &keep, NULL), 0);
	struct given g = {.keep = keep};
	assert_int_equal(kept_bit(&g, "service_name"), -1);
	assert_true(kept_bit(&g, "zone") > 0);
	for (size_t i = 1; i < count; i++)
		assert_true(order[i - 1] % 3 <= order[i] % 3);
	mem_free(order);
	assert_int_equal(block_order_of_series(series, count - 1, &order, &keep, NULL), 0);
	assert_true(keep & 1);
	mem_free(order);
	for (size_t i = 0; i < count; i++)
		labels_release(&labels[i]);
	mem_free(labels);
	mem_free(series);
}

/* ---- metadata and labels ---- */

static void count_label(const struct given *g, const struct block_series *series, const char *name, const char *value,
			struct block_use *ret)
{
	*ret = (struct block_use){.first_ns = INT64_MAX, .last_ns = INT64_MIN};
	for (size_t i = 0; i < g->count; i++) {
		const char *has = labels_get(g->series[i].labels, name);
		if (!has || (value && strcmp(has, value)) || series->samples[i] == 0)
			continue;
		ret->series++;
		ret->samples += series->samples[i];
		ret->first_ns = series->first_ns[i] < ret->first_ns ? series->first_ns[i] : ret->first_ns;
		ret->last_ns = series->last_ns[i] > ret->last_ns ? series->last_ns[i] : ret->last_ns;
	}
}

static void check_names(const struct given *g, const struct block *block, const struct block_series *series)
{
	const struct block_meta *meta = &block->meta;
	assert_true(meta->labels_complete && meta->types_complete);
	assert_int_equal(meta->label_count, series->columns.label_count);
	for (size_t i = 0; i < meta->label_count; i++) {
		const struct block_label_name *label = &meta->labels[i];
		struct block_use want;
		count_label(g, series, label->name, NULL, &want);
		assert_ptr_equal(block_meta_label(meta, label->name), label);
		assert_int_equal(label->use.series, want.series);
		assert_int_equal(label->use.samples, want.samples);
		assert_int_equal(label->use.first_ns, want.first_ns);
		assert_int_equal(label->use.last_ns, want.last_ns);
		assert_int_equal(label->in_rollups, meta->rollup_series && kept_bit(g, label->name) >= 0);
	}
	assert_null(block_meta_label(meta, "nothing"));
	uint64_t samples = 0;
	for (size_t i = 0; i < meta->type_count; i++)
		samples += meta->types[i].use.samples;
	assert_int_equal(samples, meta->samples);
	assert_int_equal(meta->type_count, series->columns.type_count);
}

struct found {
	const struct given *given;
	const struct block_series *series;
	const char *label, *prefix;
	char last[128];
	uint64_t series_with_it;
	size_t count;
};
static int on_value(void *context, const char *value, const struct block_use *use, struct error *err)
{
	struct found *found = context;
	struct block_use want;
	assert_true(strcmp(found->last, value) < 0);
	assert_int_equal(strncmp(value, found->prefix, strlen(found->prefix)), 0);
	snprintf(found->last, sizeof(found->last), "%s", value);
	count_label(found->given, found->series, found->label, value, &want);
	assert_int_equal(use->series, want.series);
	assert_int_equal(use->samples, want.samples);
	assert_int_equal(use->first_ns, want.first_ns);
	assert_int_equal(use->last_ns, want.last_ns);
	found->series_with_it += use->series;
	found->count++;
	return 0;
}

static void check_values(const struct given *g, const struct block *block, const struct block_series *series)
{
	static const char *const labels[] = {"pod", "service_name", "zone", "a_label", "version", "nothing", "", "zzz", "po"};
	static const char *const prefixes[] = {"",	"p",	    "pod-1", "pod-10", "service3",
					       "zone-", "\xc3\xa4", "\xff",  "1.",     "1.2x"};
	for (size_t l = 0; l < sizeof(labels) / sizeof(*labels); l++) {
		for (size_t p = 0; p < sizeof(prefixes) / sizeof(*prefixes); p++) {
			struct found found = {.given = g, .series = series, .label = labels[l], .prefix = prefixes[p]};
			uint64_t bytes = 0, want = 0;
			assert_int_equal(block_labels_find(block, labels[l], prefixes[p], on_value, &found, &bytes, NULL), 0);
			for (size_t i = 0; i < g->count; i++) {
				const char *value = labels_get(g->series[i].labels, labels[l]);
				want += value && series->samples[i] && !strncmp(value, prefixes[p], strlen(prefixes[p]));
			}
			assert_int_equal(found.series_with_it, want);
			const struct block_label_name *label = block_meta_label(&block->meta, labels[l]);
			if (p == 0)
				assert_int_equal(found.count, label ? label->values : 0);
		}
	}
}

static void test_labels(void **state)
{
	static const size_t counts[] = {1, 50, 40000}; /* the last one: several pages of pods */
	for (size_t i = 0; i < 3; i++) {
		struct given g;
		make_series(&g, counts[i], 0);
		make_rows(&g, 2, false);
		const struct block_write_options options = {.directory = directory, .rollups = i == 1};
		struct block *block = write_and_open(&g, &options, 1000);
		struct block_series *series = load_series(block);
		if (counts[i] < 1000)
			check_names(&g, block, series);
		if (counts[i] < 1000)
			check_values(&g, block, series);
		struct found found = {.given = &g, .series = series, .label = "pod", .prefix = "pod-123"};
		uint64_t bytes = 0;
		assert_int_equal(block_labels_find(block, "pod", "pod-123", on_value, &found, &bytes, NULL), 0);
		if (counts[i] > 1000) {
			uint64_t want = 0;
			for (size_t k = 0; k < g.count; k++)
				want += series->samples[k] && !strncmp(labels_get(g.series[k].labels, "pod"), "pod-123", 7);
			assert_int_equal(found.series_with_it, want);
			assert_true(found.count > 90 && found.count <= 111);
			assert_true(bytes < block->meta.files[BLOCK_LABELS].size / 2);
		}
		block_series_free(series);
		block_free(block);
		release_given(&g);
	}
}

/* More names than the metadata lists: then it says so, and has those of the rollups. */
static void test_very_many_names(void **state)
{
	struct given g;
	make_series(&g, 4000, 20000);
	make_rows(&g, 1, false);
	const struct block_write_options options = {.directory = directory, .rollups = true};
	struct block *block = write_and_open(&g, &options, 1000);
	struct block_series *series = load_series(block);
	check_labels(&g, series);
	assert_true(series->columns.label_count > BLOCK_META_LABELS);
	assert_false(block->meta.labels_complete);
	assert_int_equal(block->meta.label_count, 3);
	assert_non_null(block_meta_label(&block->meta, "service_name"));
	assert_true(block_meta_label(&block->meta, "zone")->in_rollups);
	assert_null(block_meta_label(&block->meta, "pod"));
	block_series_free(series);
	block_free(block);
	release_given(&g);
}

static void test_meta(void **state)
{
	static char names[3][BLOCK_NAME_MAX] = {"1-1", "1-2-g3", "x"};
	struct given g;
	make_series(&g, 20, 0);
	make_rows(&g, 3, false);
	const struct block_write_options options = {
		.directory = directory,
		.level = 2,
		.generation = 7,
		.last_sequence = 99,
		.replaces = (const char(*)[BLOCK_NAME_MAX])names,
		.replace_count = 3,
	};
	struct block *block = write_and_open(&g, &options, 10);
	const struct block_meta *meta = &block->meta;
	assert_int_equal(meta->version, 3);
	assert_int_equal(meta->partition_ns, 0);
	assert_int_equal(meta->level, 2);
	assert_int_equal(meta->generation, 7);
	assert_int_equal(meta->last_sequence, 99);
	assert_int_equal(meta->replace_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(meta->replaces[i], names[i]);
	char want[BLOCK_NAME_MAX];
	snprintf(want, sizeof(want), "%019lld-0000000099-g7", (long long)meta->min_ns);
	assert_string_equal(meta->name, want);
	assert_int_equal(block_meta_bytes(meta) > 1000, true);
	block_free(block);
	release_given(&g);
}

/* Whatever a byte of meta.json is changed to, it is noticed. Checksums that fit are not enough either. */
static void test_bad_meta(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"",
		"{\"format\":\"wick block\"}",
		"{\"format\":\"wick block\",\"version\":0}",
		"{\"format\":\"wick block\",\"version\":2,\"name\":\"a/b\",\"files\":[]}",
	};
	char path[PATH_MAX];
	struct buffer text;
	struct block_meta meta;
	struct given g;
	make_series(&g, 20, 0);
	make_rows(&g, 3, false);
	const struct block_write_options options = {.directory = directory};
	block_free(write_and_open(&g, &options, 10));
	release_given(&g);
	assert_int_equal(io_join_path(path, sizeof(path), directory, "meta.json"), 0);
	buffer_init(&text, BLOCK_META_MAX);
	assert_int_equal(io_read_file(path, BLOCK_META_MAX, &text, NULL), 0);
	for (size_t at = 0; at < text.len; at++) {
		text.data[at] ^= 1;
		assert_int_equal(io_write_file(path, text.data, text.len, 0640, NULL), 0);
		int r = block_meta_read(directory, &meta, NULL);
		assert_int_equal(r, -EBADMSG);
		text.data[at] ^= 1;
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char whole[512];
		size_t len = strlen(bad[i]) ? strlen(bad[i]) - 1 : 0;
		snprintf(whole, sizeof(whole), "%.*s,\"checksum\":\"%016llx\"}\n", (int)len, bad[i],
			 (unsigned long long)hash64(bad[i], len));
		assert_int_equal(io_write_file(path, whole, strlen(whole), 0640, NULL), 0);
		assert_int_equal(block_meta_read(directory, &meta, NULL), -EBADMSG);
	}
	buffer_release(&text);
}

/* ---- processes ---- */

static void test_processes(void **state)
{
	struct given g;
	make_series(&g, 10, 0);
	fresh_directory();
	struct block_writer *writer;
	struct block_meta meta;
	const struct block_write_options options = {.directory = directory, .group_rows = 7};
	int32_t series[30];
	int64_t times[30], numbers[BLOCK_PROCESS_COLUMNS][30];
	struct block_process_rows rows = {.count = 30, .series = series, .times = times};
	for (size_t i = 0; i < 30; i++) {
		series[i] = (int32_t)i / 3;
		times[i] = EPOCH + (int64_t)(i % 3) * NS_PER_S;
		for (size_t k = 0; k < BLOCK_PROCESS_COLUMNS; k++)
			numbers[k][i] = (int64_t)(i * 100 + k);
	}
	for (size_t k = 0; k < BLOCK_PROCESS_COLUMNS; k++)
		rows.values[k] = numbers[k];
	assert_int_equal(block_writer_new(&options, &writer, NULL), 0);
	assert_int_equal(block_writer_series(writer, g.series, g.count, g.keep, NULL), 0);
	assert_int_equal(block_writer_processes(writer, &rows, NULL), 0);
	assert_int_equal(write_tables(writer, NULL), 0);
	assert_int_equal(block_writer_finish(writer, &meta, NULL), 0);
	block_writer_free(writer);
	struct block *block;
	assert_int_equal(block_open(directory, &block, NULL), 0);
	assert_int_equal(block_verify(block, NULL), 0);
	assert_int_equal(block->meta.files[BLOCK_SAMPLES].size, 0);
	assert_int_equal(block->meta.min_ns, EPOCH);
	assert_int_equal(block->meta.max_ns, EPOCH + 2 * NS_PER_S);
	struct parquet_data data = {0};
	for (size_t group = 0; group < 5; group++) {
		read_column(block, BLOCK_PROCESSES, "threads", group, &data);
		for (size_t i = 0; i < data.count; i++)
			assert_int_equal(data.i64[i], (group * 7 + i) * 100 + 8);
	}
	parquet_data_release(&data);
	struct block_series *loaded = load_series(block);
	assert_int_equal(loaded->samples[4], 3);
	assert_int_equal(loaded->last_ns[4], EPOCH + 2 * NS_PER_S);
	block_series_free(loaded);
	block_free(block);
	block_meta_release(&meta);
	release_given(&g);
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
	struct given g;
	struct block_meta meta;
	struct error err = {0};
	const struct block_write_options options = {.directory = directory, .group_rows = 5};
	make_series(&g, 20, 0);
	fresh_directory();
	assert_int_equal(write_block(&g, &options, 1, &meta, &err), -EINVAL); /* no rows */
	make_rows(&g, 3, false);
	for (int i = 0; i < 4; i++) {
		int32_t series = g.row_series[9], stack = g.row_stacks[9];
		int64_t time = g.times[9];
		if (i == 0)
			g.row_series[9] = 0;
		else if (i == 1)
			g.row_series[9] = 20;
		else if (i == 2)
			g.row_stacks[9] = STACKS;
		else
			g.times[9] = 0;
		fresh_directory();
		assert_int_equal(write_block(&g, &options, 3, &meta, &err), -EINVAL);
		g.row_series[9] = series;
		g.row_stacks[9] = stack;
		g.times[9] = time;
	}
	atomic_bool cancel = true;
	struct block_write_options cancelled = options;
	cancelled.cancel = &cancel;
	fresh_directory();
	assert_int_equal(write_block(&g, &cancelled, 3, &meta, &err), -ECANCELED);
	release_given(&g);
}

/* ---- faults ---- */

static int read_everything(struct error *err)
{
	struct block *block = NULL;
	struct block_series *series = NULL;
	struct found found = {0};
	uint64_t bytes = 0;
	int r = block_open(directory, &block, err);
	if (r == 0)
		r = block_series_load(block, &series, &bytes, err);
	if (r == 0)
		r = block_labels_find(block, "nothing", "x", on_value, &found, &bytes, err);
	if (r == 0)
		r = block_verify(block, err);
	block_series_free(series);
	block_free(block);
	return r;
}

static void test_faults(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_OPEN, FAULT_RENAME, FAULT_READ};
	struct given g;
	make_series(&g, 60, 100);
	make_rows(&g, 3, true);
	const struct block_write_options options = {.directory = directory, .rollups = true, .group_rows = 100};
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n += test_stride()) {
			struct block_meta meta = {0};
			struct error err = {0};
			fresh_directory();
			fault_arm(kinds[k], n, 0);
			int r = write_block(&g, &options, 50, &meta, &err);
			reached = fault_disarm(kinds[k]);
			assert_true(r == 0 || (reached && err.message[0]));
			if (r == 0)
				block_meta_release(&meta);
		}
	}
	static const enum fault_kind read_kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_READ};
	for (size_t k = 0; k < sizeof(read_kinds) / sizeof(*read_kinds); k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n += test_stride()) {
			struct error err = {0};
			fault_arm(read_kinds[k], n, 0);
			int r = read_everything(&err);
			reached = fault_disarm(read_kinds[k]);
			assert_true(r == 0 || (reached && r != -EBADMSG && err.message[0]));
		}
	}
	release_given(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),	 cmocka_unit_test(test_order),		 cmocka_unit_test(test_too_many_values),
		cmocka_unit_test(test_labels),	 cmocka_unit_test(test_very_many_names), cmocka_unit_test(test_meta),
		cmocka_unit_test(test_bad_meta), cmocka_unit_test(test_processes),	 cmocka_unit_test(test_refused),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
