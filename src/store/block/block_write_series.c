/* SPDX-License-Identifier: Apache-2.0 */
/* series.parquet: what is known of each series, and its labels, the most frequent names in columns of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "codec/json.h"
#include "store/block/block_write_int.h"

#define GROUP_BYTES	  (32u * 1024 * 1024) /* of one row group while it is put together */
#define SERIES_COLUMNS	  13		      /* in each block; then: */
#define ROLLUP_COLUMN	  0		      /* only with rollups */
#define NUMBERS_COLUMN	  1		      /* only if samples have numbers; then the columns of labels */
#define SERIES_COLUMN_MAX (SERIES_COLUMNS + 2 + BLOCK_LABEL_COLUMNS)
static const struct parquet_column series_columns[SERIES_COLUMNS] = {
	{.name = "series_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
	{.name = "name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "sample_type", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "sample_unit", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "period_type", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "period_unit", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "delta", .type = PARQUET_BOOLEAN},
	{.name = "period", .type = PARQUET_INT64},
	{.name = "samples", .type = PARQUET_INT64},
	{.name = "total", .type = PARQUET_INT64},
	{.name = "first_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "last_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "labels", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_JSON, .optional = true},
};
static const struct parquet_column more_columns[] = {
	[ROLLUP_COLUMN] = {.name = "rollup_id", .type = PARQUET_INT32, .layout = PARQUET_DELTA},
	[NUMBERS_COLUMN] = {.name = "numbered", .type = PARQUET_INT64},
};

/* ---- which labels get columns ---- */

struct label_use {
	const struct series_column *column;
	size_t series;
};
struct choice {
	struct label_use *uses;				      /* of all labels, the most frequent first */
	const struct series_column *own[BLOCK_LABEL_COLUMNS]; /* those with a column, by name */
	size_t own_count;
	const struct series_column **rest; /* the others, by name */
	size_t rest_count;
};

static int compare_use(const void *a, const void *b)
{
	const struct label_use *x = a, *y = b;
	return ORDER(y->series, x->series) ?: strcmp(x->column->name, y->column->name);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct series_column *const *)a)->name, (*(const struct series_column *const *)b)->name);
}

static int choose_columns(const struct series_columns *columns, struct choice *ret, struct error *err)
{
	ret->uses = mem_zalloc_array(columns->label_count, sizeof(*ret->uses));
	ret->rest = mem_alloc_array(columns->label_count, sizeof(*ret->rest));
	if (!ret->uses || !ret->rest)
		return error_nomem(err);
	for (size_t i = 0; i < columns->label_count; i++) {
		struct label_use *use = &ret->uses[i];
		use->column = &columns->labels[i];
		for (size_t s = 0; s < columns->count; s++)
			use->series += use->column->codes[s] != SERIES_NO_VALUE;
	}
	sort_array(ret->uses, columns->label_count, compare_use);
	for (size_t i = 0; i < columns->label_count; i++) {
		if (i < BLOCK_LABEL_COLUMNS)
			ret->own[ret->own_count++] = ret->uses[i].column;
		else
			ret->rest[ret->rest_count++] = ret->uses[i].column;
	}
	qsort(ret->own, ret->own_count, sizeof(*ret->own), compare_names);
	sort_array(ret->rest, ret->rest_count, compare_names);
	return 0;
}

static void release_choice(struct choice *choice)
{
	mem_free(choice->uses);
	mem_free(choice->rest);
}

/* ---- row groups ---- */

/* One row group of series, column by column. */
struct series_group {
	const struct block_writer *writer;
	const struct choice *choice;
	size_t from, rows;
	struct parquet_values values[SERIES_COLUMN_MAX];
	size_t column_count;
	struct arena arena; /* everything, also the JSON text */
	bool failed;
};

static void *take(struct series_group *group, size_t size)
{
	void *taken = arena_zalloc(&group->arena, group->rows * size);
	group->failed |= !taken;
	return taken;
}

static void fill_ids(struct series_group *group)
{
	int32_t *ids = take(group, 4);
	for (size_t i = 0; ids && i < group->rows; i++)
		ids[i] = (int32_t)(group->from + i);
	group->values[0].i32 = ids;
}

static void fill_types(struct series_group *group)
{
	const struct series_columns *columns = &group->writer->columns;
	struct bytes *parts[5];
	for (size_t i = 0; i < 5; i++)
		group->values[1 + i].bytes = parts[i] = take(group, sizeof(struct bytes));
	uint8_t *deltas = take(group, 1);
	group->values[6].booleans = deltas;
	for (size_t i = 0; !group->failed && i < group->rows; i++) {
		const struct profile_type *type = &columns->types[columns->type_ids[group->from + i]];
		const char *const texts[] = {type->name, type->sample_type, type->sample_unit, type->period_type,
					     type->period_unit};
		for (size_t k = 0; k < 5; k++)
			parts[k][i] = bytes_of_string(texts[k]);
		deltas[i] = type->delta;
	}
}

static void fill_numbers(struct series_group *group)
{
	int64_t *numbers[5];
	for (size_t i = 0; i < 5; i++)
		group->values[7 + i].i64 = numbers[i] = take(group, 8);
	for (size_t i = 0; !group->failed && i < group->rows; i++) {
		const struct series_sums *sums = &group->writer->sums[group->from + i];
		numbers[0][i] = group->writer->series[group->from + i].period;
		numbers[1][i] = (int64_t)sums->rows;
		numbers[2][i] = sums->total;
		numbers[3][i] = sums->first_ns;
		numbers[4][i] = sums->last_ns;
	}
}

/* What not all blocks have; returns how many columns that were. */
static size_t fill_more(struct series_group *group, struct parquet_values *values)
{
	const struct block_writer *writer = group->writer;
	size_t count = 0;
	if (writer->rollup_ids)
		values[count++].i32 = writer->rollup_ids + group->from;
	if (!writer->numbers)
		return count;
	int64_t *numbers = take(group, 8);
	for (size_t i = 0; numbers && i < group->rows; i++)
		numbers[i] = (int64_t)writer->sums[group->from + i].numbers;
	values[count++].i64 = numbers;
	return count;
}

static void fill_label(struct series_group *group, const struct series_column *column, struct parquet_values *ret)
{
	struct bytes *texts = take(group, sizeof(*texts));
	uint8_t *present = take(group, 1);
	for (size_t i = 0; !group->failed && i < group->rows; i++) {
		uint32_t code = column->codes[group->from + i];
		present[i] = code != SERIES_NO_VALUE;
		if (present[i])
			texts[i] = bytes_of_string(column->values[code]);
	}
	*ret = (struct parquet_values){.bytes = texts, .present = present};
}

/* The labels of a series that have no column, as a JSON object. */
static bool write_rest(const struct choice *choice, size_t series, struct buffer *out)
{
	size_t count = 0;
	buffer_clear(out);
	struct json_writer json = {.out = out};
	json_begin_object(&json);
	for (size_t i = 0; i < choice->rest_count; i++) {
		const struct series_column *column = choice->rest[i];
		if (column->codes[series] == SERIES_NO_VALUE)
			continue;
		json_member_cstring(&json, column->name, column->values[column->codes[series]]);
		count++;
	}
	json_end_object(&json);
	return json_finish(&json, NULL) == 0 && count > 0;
}

static void fill_rest(struct series_group *group)
{
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_LABELS_PER_SERIES * 8 *
							       (LIMIT_LABEL_NAME_BYTES + LIMIT_LABEL_VALUE_BYTES)};
	struct bytes *texts = take(group, sizeof(*texts));
	uint8_t *present = take(group, 1);
	group->values[12] = (struct parquet_values){.bytes = texts, .present = present};
	for (size_t i = 0; group->choice->rest_count && !group->failed && i < group->rows; i++) {
		if (!write_rest(group->choice, group->from + i, &text)) {
			group->failed |= text.len == 0;
			continue;
		}
		char *copy = arena_strndup(&group->arena, (const char *)text.data, text.len);
		group->failed |= !copy;
		texts[i] = (struct bytes){(const uint8_t *)copy, text.len};
		present[i] = 1;
	}
}

static int write_group(struct block_writer *writer, struct parquet_writer *file, const struct choice *choice, size_t from,
		       size_t rows, struct error *err)
{
	struct series_group group = {
		.writer = writer, .choice = choice, .from = from, .rows = rows, .arena.max_bytes = SIZE_MAX};
	fill_ids(&group);
	fill_types(&group);
	fill_numbers(&group);
	fill_rest(&group);
	size_t fixed = SERIES_COLUMNS + fill_more(&group, group.values + SERIES_COLUMNS);
	for (size_t i = 0; i < choice->own_count; i++)
		fill_label(&group, choice->own[i], &group.values[fixed + i]);
	int r = group.failed ? error_nomem(err) : parquet_writer_group(file, group.values, rows, err);
	arena_release(&group.arena);
	return r;
}

/* ---- the file ---- */

static int open_file(struct block_writer *writer, const struct choice *choice, struct parquet_writer **ret, struct error *err)
{
	char names[BLOCK_LABEL_COLUMNS][sizeof(BLOCK_LABEL_PREFIX) + LIMIT_LABEL_NAME_BYTES];
	struct parquet_column columns[SERIES_COLUMN_MAX];
	size_t fixed = SERIES_COLUMNS;
	static const uint32_t sorted_by[] = {0};
	memcpy(columns, series_columns, sizeof(series_columns));
	if (writer->rollup_ids)
		columns[fixed++] = more_columns[ROLLUP_COLUMN];
	if (writer->numbers)
		columns[fixed++] = more_columns[NUMBERS_COLUMN];
	for (size_t i = 0; i < choice->own_count; i++) {
		snprintf(names[i], sizeof(names[i]), BLOCK_LABEL_PREFIX "%s", choice->own[i]->name);
		columns[fixed + i] = (struct parquet_column){
			.name = names[i], .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING, .optional = true};
	}
	const struct block_file_layout layout = {.file = BLOCK_SERIES,
						 .columns = columns,
						 .column_count = fixed + choice->own_count,
						 .sorted_by = sorted_by,
						 .sorted_by_count = 1};
	return block_file_open(writer, &layout, ret, err);
}

/* Strings are large while they are views: with many columns groups have fewer rows. */
static size_t rows_of_group(const struct choice *choice)
{
	size_t bytes = 5 * sizeof(struct bytes) + 6 * 8 + (1 + choice->own_count) * (sizeof(struct bytes) + 1);
	return GROUP_BYTES / bytes < PARQUET_GROUP_ROWS ? GROUP_BYTES / bytes : PARQUET_GROUP_ROWS;
}

int block_write_series(struct block_writer *writer, struct error *err)
{
	_cleanup_(parquet_writer_freep) struct parquet_writer *file = NULL;
	struct choice choice = {0};
	int r = choose_columns(&writer->columns, &choice, err);
	if (r == 0)
		r = open_file(writer, &choice, &file, err);
	size_t most = rows_of_group(&choice);
	for (size_t from = 0; r == 0 && from < writer->series_count; from += most) {
		size_t left = writer->series_count - from;
		r = block_write_check_cancel(writer->options.cancel, err);
		if (r == 0)
			r = write_group(writer, file, &choice, from, left < most ? left : most, err);
	}
	release_choice(&choice);
	return r == 0 ? block_file_finish(writer, BLOCK_SERIES, file, err) : r;
}
