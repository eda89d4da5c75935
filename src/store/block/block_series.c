/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The series of a block in memory. Texts are never looked at a series: each column of series.parquet comes as codes into its
 * distinct values, and is kept like that. Only the JSON column, with the labels that have no column of their own, is parsed row
 * by row; most blocks have nothing in it.
 *
 * Checksums have been verified by the time a column is decoded, but a reference that is out of range would be an invalid memory
 * access whoever wrote it, so all are checked once, here.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "store/block/block.h"

struct loading {
	const struct block *block;
	struct block_series *series;
	struct series_builder *builder;
	struct parquet_file *file;
	uint8_t *label_counts; /* by series */
	struct error *err;
};

static int malformed(struct loading *l, const char *what)
{
	return error_set(l->err, -EBADMSG, "%s", what);
}

/* ---- types ---- */

struct type_columns {
	struct parquet_codes parts[5];
	struct parquet_data delta;
};

static bool copy_part(char *out, size_t size, struct bytes text)
{
	if (text.len >= size || (text.len && memchr(text.data, 0, text.len)))
		return false;
	if (text.len)
		memcpy(out, text.data, text.len);
	out[text.len] = '\0';
	return true;
}

static struct bytes part_of(const struct type_columns *c, size_t part, size_t row)
{
	return c->parts[part].values[c->parts[part].codes[row]];
}

static int add_type(struct loading *l, const struct type_columns *c, size_t row, uint32_t *ret)
{
	struct profile_type type = {.delta = c->delta.booleans[row]};
	for (size_t i = 0; i < 5; i++)
		if (c->parts[i].codes[row] >= c->parts[i].value_count)
			return malformed(l, "part of a profile type is missing");
	if (!copy_part(type.name, sizeof(type.name), part_of(c, 0, row)) ||
	    !copy_part(type.sample_type, sizeof(type.sample_type), part_of(c, 1, row)) ||
	    !copy_part(type.sample_unit, sizeof(type.sample_unit), part_of(c, 2, row)) ||
	    !copy_part(type.period_type, sizeof(type.period_type), part_of(c, 3, row)) ||
	    !copy_part(type.period_unit, sizeof(type.period_unit), part_of(c, 4, row)))
		return malformed(l, "a profile type is too long");
	return series_builder_type(l->builder, &type, ret, l->err);
}

/* Series are sorted by type, so few rows differ from the one before. */
static int add_types(struct loading *l, const struct type_columns *c, size_t first, size_t rows)
{
	uint32_t type = 0;
	bool whole = c->delta.count == rows && c->delta.null_count == 0;
	for (size_t i = 0; i < 5; i++)
		whole &= c->parts[i].count == rows;
	if (!whole)
		return malformed(l, "profile types are missing for some rows");
	for (size_t i = 0; i < rows; i++) {
		bool same = i > 0 && c->delta.booleans[i] == c->delta.booleans[i - 1];
		for (size_t k = 0; same && k < 5; k++)
			same = c->parts[k].codes[i] == c->parts[k].codes[i - 1];
		int r = same ? 0 : add_type(l, c, i, &type);
		if (r < 0)
			return r;
		series_builder_set_type(l->builder, first + i, type);
	}
	return 0;
}

static int load_types(struct loading *l, size_t group, size_t first, size_t rows)
{
	static const char *const names[] = {"name", "sample_type", "sample_unit", "period_type", "period_unit"};
	struct type_columns c = {0};
	size_t column;
	int r = 0;
	for (size_t i = 0; r == 0 && i < 5; i++) {
		r = block_find_column(l->file, names[i], PARQUET_BYTE_ARRAY, &column, l->err);
		if (r == 0)
			r = parquet_read_codes(l->file, group, column, &c.parts[i], l->err);
	}
	if (r == 0)
		r = block_find_column(l->file, "delta", PARQUET_BOOLEAN, &column, l->err);
	if (r == 0)
		r = parquet_read(l->file, group, column, &c.delta, l->err);
	if (r == 0)
		r = add_types(l, &c, first, rows);
	parquet_data_release(&c.delta);
	for (size_t i = 0; i < 5; i++)
		parquet_codes_release(&c.parts[i]);
	return r;
}

/* ---- numbers ---- */

/* A series without rows is in no range of time. */
static void hide_empty(struct block_series *series)
{
	for (size_t i = 0; i < series->columns.count; i++) {
		if (series->samples[i])
			continue;
		series->first_ns[i] = INT64_MAX;
		series->last_ns[i] = INT64_MIN;
	}
}

static int load_rollup_ids(struct loading *l, size_t count)
{
	struct block_series *series = l->series;
	if (l->block->meta.rollup_series == 0)
		return 0;
	series->rollup_ids = mem_alloc_array(count, sizeof(*series->rollup_ids));
	if (!series->rollup_ids)
		return error_nomem(l->err);
	int r = block_read_column(l->file, "rollup_id", PARQUET_INT32, series->rollup_ids, NULL, l->err);
	for (size_t i = 0; r == 0 && i < count; i++) {
		int64_t step = (int64_t)series->rollup_ids[i] - (i ? series->rollup_ids[i - 1] : 0);
		if (step < 0 || step > (i > 0))
			r = malformed(l, "rollup ids do not increase by one");
	}
	series->rollup_count = count ? (size_t)series->rollup_ids[count - 1] + 1 : 0;
	if (r == 0 && series->rollup_count != l->block->meta.rollup_series)
		r = malformed(l, "the number of rollup series does not match meta.json");
	return r;
}

/* Most blocks have none. */
static int load_numbers(struct loading *l, size_t count)
{
	size_t column;
	if (!parquet_find_column(l->file, "numbered", &column))
		return 0;
	l->series->numbers = mem_alloc_array(count, sizeof(*l->series->numbers));
	if (!l->series->numbers)
		return error_nomem(l->err);
	return block_read_column(l->file, "numbered", PARQUET_INT64, l->series->numbers, NULL, l->err);
}

/* Where struct block_series has its numbers of 64 bits. */
static const struct number_column {
	const char *name;
	size_t array;
} number_columns[] = {
	{"period", offsetof(struct block_series, periods)},    {"total", offsetof(struct block_series, totals)},
	{"first_ns", offsetof(struct block_series, first_ns)}, {"last_ns", offsetof(struct block_series, last_ns)},
	{"samples", offsetof(struct block_series, samples)},
};
#define NUMBER_COLUMNS (sizeof(number_columns) / sizeof(*number_columns))

static void **number_array(struct block_series *series, size_t column)
{
	return (void **)((uint8_t *)series + number_columns[column].array);
}

static int load_all_numbers(struct loading *l, size_t count)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < NUMBER_COLUMNS; i++) {
		void *array = *number_array(l->series, i) = mem_alloc_array(count, sizeof(int64_t));
		if (!array)
			return error_nomem(l->err);
		r = block_read_column(l->file, number_columns[i].name, PARQUET_INT64, array, NULL, l->err);
	}
	if (r == 0)
		r = load_rollup_ids(l, count);
	return r == 0 ? load_numbers(l, count) : r;
}

/* ---- labels ---- */

static int count_label(struct loading *l, size_t series)
{
	return ++l->label_counts[series] > LIMIT_LABELS_PER_SERIES ? malformed(l, "a series has too many labels") : 0;
}

static int add_codes(struct loading *l, size_t column, const struct parquet_codes *codes, size_t first)
{
	const struct series_codes slice = {first, codes->count, codes->codes, codes->values, codes->value_count};
	int r = series_builder_codes(l->builder, column, &slice, l->err);
	for (size_t i = 0; r == 0 && i < codes->count; i++)
		if (codes->codes[i] != PARQUET_CODE_NULL)
			r = count_label(l, first + i);
	return r;
}
_Static_assert(PARQUET_CODE_NULL == SERIES_NO_VALUE, "codes are taken over as they are");

static int load_label(struct loading *l, size_t column, const char *name)
{
	_cleanup_(parquet_codes_release) struct parquet_codes codes = {0};
	size_t to, first = 0;
	if (!label_name_is_valid(name))
		return malformed(l, "a label's name is not valid");
	int r = series_builder_column(l->builder, bytes_of_string(name), &to, l->err);
	for (size_t g = 0; r == 0 && g < parquet_group_count(l->file); g++) {
		r = parquet_read_codes(l->file, g, column, &codes, l->err);
		if (r == 0)
			r = add_codes(l, to, &codes, first);
		first += codes.count;
	}
	return r;
}

static int add_rest(struct loading *l, struct bytes text, size_t series)
{
	json_error_t fault;
	json_t *object = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &fault), *value;
	const char *name;
	int r = json_is_object(object) ? 0 : malformed(l, "labels are not a JSON object");
	json_object_foreach(object, name, value)
	{
		size_t column;
		if (r == 0 && (!json_is_string(value) || !label_name_is_valid(name)))
			r = malformed(l, "labels are not strings");
		if (r == 0)
			r = count_label(l, series);
		if (r == 0)
			r = series_builder_column(l->builder, bytes_of_string(name), &column, l->err);
		if (r == 0)
			r = series_builder_set(l->builder, column, series, bytes_of_string(json_string_value(value)), l->err);
		if (r < 0)
			break;
	}
	json_decref(object);
	return r;
}

/* The labels without a column of their own. */
static int load_rest(struct loading *l)
{
	_cleanup_(parquet_codes_release) struct parquet_codes codes = {0};
	size_t column, first = 0;
	int r = 0;
	if (!parquet_find_column(l->file, "labels", &column) || parquet_column_at(l->file, column)->type != PARQUET_BYTE_ARRAY)
		return 0;
	for (size_t g = 0; r == 0 && g < parquet_group_count(l->file); g++) {
		r = parquet_read_codes(l->file, g, column, &codes, l->err);
		for (size_t i = 0; r == 0 && i < codes.count; i++)
			if (codes.codes[i] != PARQUET_CODE_NULL)
				r = add_rest(l, codes.values[codes.codes[i]], first + i);
		first += codes.count;
	}
	return r;
}

static int load_labels(struct loading *l)
{
	size_t prefix = strlen(BLOCK_LABEL_PREFIX);
	int r = 0;
	for (size_t i = 0; r == 0 && i < parquet_column_count(l->file); i++) {
		const struct parquet_column *column = parquet_column_at(l->file, i);
		if (!strncmp(column->name, BLOCK_LABEL_PREFIX, prefix) && column->type == PARQUET_BYTE_ARRAY)
			r = load_label(l, i, column->name + prefix);
	}
	return r == 0 ? load_rest(l) : r;
}

/* ---- all of it ---- */

static int load_columns(struct loading *l)
{
	size_t count = parquet_rows(l->file), first = 0;
	if (count > INT32_MAX || count != l->block->meta.series)
		return malformed(l, "the number of series does not match meta.json");
	l->label_counts = mem_zalloc(count);
	if (!l->label_counts)
		return error_nomem(l->err);
	int r = series_builder_new(count, &l->builder, l->err);
	for (size_t g = 0; r == 0 && g < parquet_group_count(l->file); g++) {
		size_t rows = parquet_group_rows(l->file, g);
		r = load_types(l, g, first, rows);
		first += rows;
	}
	if (r == 0)
		r = load_all_numbers(l, count);
	if (r == 0)
		r = load_labels(l);
	if (r == 0)
		r = series_builder_finish(l->builder, &l->series->columns, l->err);
	if (r == 0)
		hide_empty(l->series);
	return r;
}

int block_series_load(const struct block *block, struct block_series **ret, uint64_t *bytes, struct error *err)
{
	struct block_series *series = mem_zalloc(sizeof(*series));
	struct error own = {0};
	if (!series)
		return error_nomem(err);
	series->refs = 1;
	struct loading l = {.block = block, .series = series, .err = &own};
	int r = block_open_file(block, BLOCK_SERIES, &l.file, &own);
	if (r == 0)
		r = load_columns(&l);
	if (l.file)
		*bytes += parquet_bytes_read(l.file);
	parquet_close(l.file);
	series_builder_free(l.builder);
	mem_free(l.label_counts);
	if (r < 0) {
		block_series_free(series);
		return error_set(err, r, "%s/%s: %s", block->path, block_file_names[BLOCK_SERIES], own.message);
	}
	size_t row = 5 * 8 + (series->rollup_ids ? 4 : 0) + (series->numbers ? 8 : 0);
	series->bytes = sizeof(*series) + series->columns.bytes + series->columns.count * row;
	*ret = series;
	return 0;
}

struct block_series *block_series_free(struct block_series *series)
{
	if (!series)
		return NULL;
	series_columns_release(&series->columns);
	for (size_t i = 0; i < NUMBER_COLUMNS; i++)
		mem_free(*number_array(series, i));
	mem_free(series->rollup_ids);
	mem_free(series->numbers);
	return mem_free(series);
}
