/* SPDX-License-Identifier: Apache-2.0 */
/* series.parquet: what is known of each series, and its labels, the most frequent names in columns of their own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "codec/json.h"
#include "store/block_write_int.h"

#define SERIES_COLUMNS 13 /* before the columns of labels */
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

struct label_name {
	const char *name;
	size_t series;
	size_t column; /* among the label columns, or SIZE_MAX */
};
struct label_names {
	struct label_name *items; /* sorted by name */
	size_t count, capacity, columns;
};

static size_t find_label_name(const struct label_names *names, const char *name)
{
	size_t low = 0, high = names->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (strcmp(names->items[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int compare_label_use(const void *a, const void *b)
{
	const struct label_name *x = *(struct label_name *const *)a, *y = *(struct label_name *const *)b;
	if (x->series != y->series)
		return x->series > y->series ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The most frequent names get columns, which then are in the order of names. */
static int choose_columns(struct label_names *names)
{
	_cleanup_(mem_freep) struct label_name **by_use = mem_alloc_array(names->count, sizeof(*by_use));
	if (!by_use)
		return -ENOMEM;
	for (size_t i = 0; i < names->count; i++) {
		by_use[i] = &names->items[i];
		names->items[i].column = SIZE_MAX;
	}
	if (names->count)
		qsort(by_use, names->count, sizeof(*by_use), compare_label_use);
	for (size_t i = 0; i < names->count && i < BLOCK_LABEL_COLUMNS; i++)
		by_use[i]->column = 0;
	for (size_t i = 0; i < names->count; i++)
		if (names->items[i].column == 0)
			names->items[i].column = names->columns++;
	return 0;
}

static int compare_label_names(const void *a, const void *b)
{
	return strcmp(((const struct label_name *)a)->name, ((const struct label_name *)b)->name);
}

static int count_label(struct label_names *names, struct index32 *index, const char *name)
{
	uint64_t hash = hash64(name, strlen(name));
	uint32_t id;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &id); at++) {
		if (!strcmp(names->items[id].name, name)) {
			names->items[id].series++;
			return 0;
		}
	}
	if (array_reserve(&names->items, &names->capacity, names->count + 1, UINT32_MAX - 1) < 0 ||
	    index32_add(index, hash, (uint32_t)names->count) < 0)
		return -ENOMEM;
	names->items[names->count++] = (struct label_name){.name = name, .series = 1};
	return 0;
}

static int collect_label_names(const struct writing *writing, struct label_names *ret)
{
	struct index32 index;
	int r = 0;
	index32_init(&index);
	for (size_t s = 0; r == 0 && s < writing->series_count; s++) {
		const struct labels *labels = writing->head->series[writing->order[s]].labels;
		for (size_t i = 0; r == 0 && i < labels->count; i++)
			r = count_label(ret, &index, labels->items[i].name);
	}
	index32_release(&index);
	if (r == 0 && ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare_label_names);
	return r == 0 ? choose_columns(ret) : r;
}

/* One row group of series, column by column. */
struct series_group {
	int32_t *ids;
	struct bytes *parts[5];
	uint8_t *deltas, *has_rest;
	int64_t *numbers[5];
	struct bytes *rest;
	struct bytes *labels[BLOCK_LABEL_COLUMNS];
	uint8_t *has_label[BLOCK_LABEL_COLUMNS];
	struct arena arena; /* everything, also the JSON text */
};

static int allocate_group(struct series_group *group, size_t rows, size_t label_columns)
{
	struct arena *arena = &group->arena;
	bool fine = (group->ids = arena_alloc(arena, rows * sizeof(*group->ids)));
	fine &= (group->deltas = arena_alloc(arena, rows)) != NULL;
	fine &= (group->has_rest = arena_zalloc(arena, rows)) != NULL;
	fine &= (group->rest = arena_zalloc(arena, rows * sizeof(*group->rest))) != NULL;
	for (size_t i = 0; i < 5; i++) {
		fine &= (group->parts[i] = arena_alloc(arena, rows * sizeof(struct bytes))) != NULL;
		fine &= (group->numbers[i] = arena_alloc(arena, rows * sizeof(int64_t))) != NULL;
	}
	for (size_t i = 0; i < label_columns; i++) {
		fine &= (group->labels[i] = arena_zalloc(arena, rows * sizeof(struct bytes))) != NULL;
		fine &= (group->has_label[i] = arena_zalloc(arena, rows)) != NULL;
	}
	return fine ? 0 : -ENOMEM;
}

/* The labels that have no column, as a JSON object. */
static int put_rest(struct series_group *group, size_t row, const struct labels *labels, const struct label_names *names)
{
	_cleanup_(buffer_release) struct buffer text;
	struct json_writer json;
	buffer_init(&text, SIZE_MAX);
	json_init(&json, &text);
	json_begin_object(&json);
	for (size_t i = 0; i < labels->count; i++) {
		if (names->items[find_label_name(names, labels->items[i].name)].column != SIZE_MAX)
			continue;
		json_key(&json, labels->items[i].name);
		json_string(&json, labels->items[i].value);
	}
	json_end_object(&json);
	if (json_finish(&json, NULL) < 0)
		return -ENOMEM;
	char *copy = arena_strndup(&group->arena, (const char *)text.data, text.len);
	if (!copy)
		return -ENOMEM;
	group->rest[row] = (struct bytes){(uint8_t *)copy, text.len};
	group->has_rest[row] = 1;
	return 0;
}

static int put_series(struct series_group *group, size_t row, size_t id, const struct series *series,
		      const struct label_names *names)
{
	const struct profile_type *type = series->type;
	const char *const parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	const int64_t numbers[] = {series->period, (int64_t)series->samples, series->total, series->first_ns, series->last_ns};
	size_t without_column = 0;
	group->ids[row] = (int32_t)id;
	group->deltas[row] = type->delta;
	for (size_t i = 0; i < 5; i++) {
		group->parts[i][row] = bytes_of_string(parts[i]);
		group->numbers[i][row] = numbers[i];
	}
	for (size_t i = 0; i < series->labels->count; i++) {
		const struct label *label = &series->labels->items[i];
		size_t column = names->items[find_label_name(names, label->name)].column;
		if (column == SIZE_MAX) {
			without_column++;
			continue;
		}
		group->labels[column][row] = bytes_of_string(label->value);
		group->has_label[column][row] = 1;
	}
	return without_column ? put_rest(group, row, series->labels, names) : 0;
}

static int write_series_group(struct writing *writing, struct parquet_writer *writer, const struct label_names *names,
			      size_t from, size_t count)
{
	struct series_group group;
	struct parquet_values values[SERIES_COLUMNS + BLOCK_LABEL_COLUMNS] = {0};
	arena_init(&group.arena, SIZE_MAX);
	int r = allocate_group(&group, count, names->columns);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = put_series(&group, i, from + i, &writing->head->series[writing->order[from + i]], names);
	if (r < 0) {
		arena_release(&group.arena);
		return error_nomem(writing->err);
	}
	values[0].i32 = group.ids;
	values[6].booleans = group.deltas;
	for (size_t i = 0; i < 5; i++) {
		values[1 + i].bytes = group.parts[i];
		values[7 + i].i64 = group.numbers[i];
	}
	values[12] = (struct parquet_values){.bytes = group.rest, .present = group.has_rest};
	for (size_t i = 0; i < names->columns; i++)
		values[SERIES_COLUMNS + i] = (struct parquet_values){.bytes = group.labels[i], .present = group.has_label[i]};
	r = parquet_writer_group(writer, values, count, writing->err);
	arena_release(&group.arena);
	return r;
}

static int write_series_rows(struct writing *writing, const struct label_names *names)
{
	char column_names[BLOCK_LABEL_COLUMNS][sizeof(BLOCK_LABEL_PREFIX) + 256];
	struct parquet_column columns[SERIES_COLUMNS + BLOCK_LABEL_COLUMNS];
	_cleanup_(parquet_writer_freep) struct parquet_writer *writer = NULL;
	memcpy(columns, series_columns, sizeof(series_columns));
	for (size_t i = 0; i < names->count; i++) {
		size_t column = names->items[i].column;
		if (column == SIZE_MAX)
			continue;
		snprintf(column_names[column], sizeof(column_names[column]), BLOCK_LABEL_PREFIX "%s", names->items[i].name);
		columns[SERIES_COLUMNS + column] = (struct parquet_column){
			.name = column_names[column], .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING, .optional = true};
	}
	static const uint32_t sorted_by[] = {0};
	int r = block_write_open(writing, BLOCK_SERIES, columns, SERIES_COLUMNS + names->columns, sorted_by, 1, &writer);
	for (size_t from = 0; r == 0 && from < writing->series_count; from += PARQUET_GROUP_ROWS) {
		size_t left = writing->series_count - from;
		r = write_series_group(writing, writer, names, from, left < PARQUET_GROUP_ROWS ? left : PARQUET_GROUP_ROWS);
	}
	return r == 0 ? block_write_finish(writing, BLOCK_SERIES, writer) : r;
}

int block_write_series(struct writing *writing)
{
	struct label_names names = {0};
	int r = collect_label_names(writing, &names) < 0 ? error_nomem(writing->err) : write_series_rows(writing, &names);
	mem_free(names.items);
	return r;
}
