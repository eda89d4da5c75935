/* SPDX-License-Identifier: Apache-2.0 */
/* The series of a block in memory. Labels come from their own columns and from the JSON column that holds the rest. Everything
 * lives in one arena; equal label values, types and names are stored once. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "base/limits.h"
#include "store/block.h"

#define SERIES_MEMORY_MAX (1024u * 1024 * 1024)

struct loading {
	const struct block *block;
	struct block_series *series;
	struct parquet_file *file;
	struct intern texts; /* label values and names, for the time of loading: text -> copy */
	char **copies;	     /* by intern id, in the series' arena */
	size_t copy_capacity;
	struct error *err;
};

static int malformed(struct loading *l, const char *what)
{
	return error_set(l->err, -EBADMSG, "%s/%s: %s", l->block->path, block_file_names[BLOCK_SERIES], what);
}

/* One copy of each text, NUL-terminated, in the arena. */
static int keep_text(struct loading *l, struct bytes text, char **ret)
{
	uint32_t id;
	if (text.len && memchr(text.data, 0, text.len))
		return malformed(l, "a text holds a NUL");
	size_t count = l->texts.count;
	if (array_reserve(&l->copies, &l->copy_capacity, count + 1, UINT32_MAX) < 0 ||
	    intern_add(&l->texts, text.data, text.len, &id) < 0)
		return error_nomem(l->err);
	if (l->texts.count > count || id == 0) {
		l->copies[id] = arena_strndup(&l->series->arena, (const char *)text.data, text.len);
		if (!l->copies[id])
			return error_nomem(l->err);
	}
	*ret = l->copies[id];
	return 0;
}

/* ---- types ---- */

struct type_columns {
	struct parquet_data parts[5], delta;
};

static int read_required(struct loading *l, size_t group, const char *name, enum parquet_type type, struct parquet_data *ret)
{
	size_t column;
	if (!parquet_find_column(l->file, name, &column) || parquet_column_at(l->file, column)->type != type)
		return malformed(l, "a column is missing or of another type");
	int r = parquet_read(l->file, group, column, ret, l->err);
	return r == 0 && ret->null_count ? malformed(l, "a column has nulls") : r;
}

static bool copy_part(char *out, size_t size, struct bytes text)
{
	if (text.len >= size || memchr(text.data, 0, text.len))
		return false;
	memcpy(out, text.data, text.len);
	out[text.len] = '\0';
	return true;
}

static int type_of_row(struct loading *l, const struct type_columns *c, size_t row, const struct profile_type *last,
		       const struct profile_type **ret)
{
	struct profile_type type = {.delta = c->delta.booleans[row]};
	if (!copy_part(type.name, sizeof(type.name), c->parts[0].bytes[row]) ||
	    !copy_part(type.sample_type, sizeof(type.sample_type), c->parts[1].bytes[row]) ||
	    !copy_part(type.sample_unit, sizeof(type.sample_unit), c->parts[2].bytes[row]) ||
	    !copy_part(type.period_type, sizeof(type.period_type), c->parts[3].bytes[row]) ||
	    !copy_part(type.period_unit, sizeof(type.period_unit), c->parts[4].bytes[row]))
		return malformed(l, "a profile type is too long");
	*ret = last;
	/* Series are sorted by type, so few copies are made. */
	if (last && profile_type_equal(last, &type))
		return 0;
	struct profile_type *copy = arena_alloc(&l->series->arena, sizeof(*copy));
	if (!copy)
		return error_nomem(l->err);
	*copy = type;
	*ret = copy;
	return 0;
}

static int load_types(struct loading *l, size_t group, struct series *series, size_t rows)
{
	static const char *const names[] = {"name", "sample_type", "sample_unit", "period_type", "period_unit"};
	struct type_columns columns;
	const struct profile_type *last = NULL;
	int r = 0;
	parquet_data_init(&columns.delta);
	for (size_t i = 0; i < 5; i++)
		parquet_data_init(&columns.parts[i]);
	for (size_t i = 0; r == 0 && i < 5; i++)
		r = read_required(l, group, names[i], PARQUET_BYTE_ARRAY, &columns.parts[i]);
	if (r == 0)
		r = read_required(l, group, "delta", PARQUET_BOOLEAN, &columns.delta);
	for (size_t i = 0; r == 0 && i < rows; i++) {
		r = type_of_row(l, &columns, i, last, &last);
		series[i].type = last;
	}
	parquet_data_release(&columns.delta);
	for (size_t i = 0; i < 5; i++)
		parquet_data_release(&columns.parts[i]);
	return r;
}

static int load_numbers(struct loading *l, size_t group, struct series *series, size_t rows)
{
	static const char *const names[] = {"period", "samples", "total", "first_ns", "last_ns"};
	struct parquet_data data;
	int r = 0;
	parquet_data_init(&data);
	for (size_t c = 0; c < 5; c++) {
		r = read_required(l, group, names[c], PARQUET_INT64, &data);
		if (r < 0)
			break;
		for (size_t i = 0; i < rows; i++) {
			int64_t value = data.i64[i];
			if (c == 0)
				series[i].period = value;
			else if (c == 1)
				series[i].samples = (uint64_t)value;
			else if (c == 2)
				series[i].total = value;
			else if (c == 3)
				series[i].first_ns = value;
			else
				series[i].last_ns = value;
		}
	}
	parquet_data_release(&data);
	return r;
}

/* ---- labels ---- */

/* Labels of a row group while they are collected; a row's own array is cut out of `items` afterwards. */
struct label_columns {
	size_t count;
	size_t *columns;
	char **names;
	struct parquet_data *data;
	struct parquet_data rest; /* JSON */
	bool has_rest;
};

static void release_columns(struct label_columns *c)
{
	for (size_t i = 0; i < c->count; i++)
		parquet_data_release(&c->data[i]);
	parquet_data_release(&c->rest);
	mem_free(c->columns);
	mem_free(c->names);
	mem_free(c->data);
}

static int find_columns(struct loading *l, struct label_columns *ret)
{
	size_t most = parquet_column_count(l->file), prefix = strlen(BLOCK_LABEL_PREFIX);
	*ret = (struct label_columns){.columns = mem_alloc_array(most, sizeof(*ret->columns)),
				      .names = mem_alloc_array(most, sizeof(*ret->names)),
				      .data = mem_alloc_array(most, sizeof(*ret->data))};
	parquet_data_init(&ret->rest);
	if (!ret->columns || !ret->names || !ret->data)
		return error_nomem(l->err);
	for (size_t i = 0; i < most; i++) {
		const struct parquet_column *column = parquet_column_at(l->file, i);
		if (strncmp(column->name, BLOCK_LABEL_PREFIX, prefix) || column->type != PARQUET_BYTE_ARRAY)
			continue;
		if (!label_name_is_valid(column->name + prefix))
			return malformed(l, "a label's name is not valid");
		int r = keep_text(l, bytes_of_string(column->name + prefix), &ret->names[ret->count]);
		if (r < 0)
			return r;
		ret->columns[ret->count] = i;
		parquet_data_init(&ret->data[ret->count++]);
	}
	return 0;
}

static int read_columns(struct loading *l, size_t group, struct label_columns *c)
{
	size_t column;
	int r = 0;
	for (size_t i = 0; r == 0 && i < c->count; i++)
		r = parquet_read(l->file, group, c->columns[i], &c->data[i], l->err);
	c->has_rest = parquet_find_column(l->file, "labels", &column) &&
		      parquet_column_at(l->file, column)->type == PARQUET_BYTE_ARRAY;
	if (r == 0 && c->has_rest)
		r = parquet_read(l->file, group, column, &c->rest, l->err);
	return r;
}

static bool is_present(const struct parquet_data *data, size_t row)
{
	return !data->present || data->present[row];
}

static int add_rest(struct loading *l, struct bytes text, struct label *items, size_t *count)
{
	json_error_t fault;
	json_t *object = json_loadb((const char *)text.data, text.len, 0, &fault), *value;
	const char *name;
	int r = json_is_object(object) ? 0 : malformed(l, "labels are not a JSON object");
	json_object_foreach(object, name, value)
	{
		if (r == 0 && (!json_is_string(value) || *count >= LIMIT_LABELS_PER_SERIES || !label_name_is_valid(name)))
			r = malformed(l, "labels are not texts, or too many");
		if (r < 0)
			break;
		r = keep_text(l, bytes_of_string(name), &items[*count].name);
		if (r == 0)
			r = keep_text(l, bytes_of_string(json_string_value(value)), &items[*count].value);
		(*count)++;
	}
	json_decref(object);
	return r;
}

static void sort_labels(struct label *items, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct label label = items[i];
		size_t at = i;
		for (; at > 0 && strcmp(items[at - 1].name, label.name) > 0; at--)
			items[at] = items[at - 1];
		items[at] = label;
	}
}

static int labels_of_row(struct loading *l, const struct label_columns *c, size_t row, struct series *series)
{
	struct label items[LIMIT_LABELS_PER_SERIES];
	size_t count = 0;
	int r = 0;
	for (size_t i = 0; r == 0 && i < c->count; i++) {
		if (!is_present(&c->data[i], row))
			continue;
		if (count == LIMIT_LABELS_PER_SERIES)
			return malformed(l, "too many labels");
		items[count].name = c->names[i];
		r = keep_text(l, c->data[i].bytes[row], &items[count++].value);
	}
	if (r == 0 && c->has_rest && is_present(&c->rest, row))
		r = add_rest(l, c->rest.bytes[row], items, &count);
	if (r < 0)
		return r;
	sort_labels(items, count);
	for (size_t i = 1; i < count; i++)
		if (!strcmp(items[i - 1].name, items[i].name))
			return malformed(l, "a label occurs twice");
	struct labels *labels = arena_alloc(&l->series->arena, sizeof(*labels) + count * sizeof(*items));
	if (!labels)
		return error_nomem(l->err);
	/* Views: never released or changed as labels of their own. */
	*labels = (struct labels){.items = (struct label *)(labels + 1), .count = count};
	memcpy(labels->items, items, count * sizeof(*items));
	series->labels = labels;
	series->hash = series_hash(series->type, labels);
	return 0;
}

static int load_group(struct loading *l, size_t group, struct series *series, size_t rows)
{
	struct label_columns columns;
	int r = load_types(l, group, series, rows);
	if (r == 0)
		r = load_numbers(l, group, series, rows);
	if (r < 0)
		return r;
	r = find_columns(l, &columns);
	if (r == 0)
		r = read_columns(l, group, &columns);
	for (size_t i = 0; r == 0 && i < rows; i++)
		r = labels_of_row(l, &columns, i, &series[i]);
	release_columns(&columns);
	return r;
}

static int load_all(struct loading *l, uint64_t *bytes)
{
	int r = block_open_file(l->block, BLOCK_SERIES, &l->file, l->err);
	if (r < 0)
		return r;
	*bytes += l->block->meta.files[BLOCK_SERIES].size;
	size_t count = parquet_rows(l->file), at = 0;
	l->series->series = count <= INT32_MAX ? arena_zalloc(&l->series->arena, count * sizeof(struct series)) : NULL;
	l->series->count = count;
	if (!l->series->series)
		return error_nomem(l->err);
	for (size_t g = 0; r == 0 && g < parquet_group_count(l->file); g++) {
		size_t rows = parquet_group_rows(l->file, g);
		r = load_group(l, g, l->series->series + at, rows);
		at += rows;
	}
	return r;
}

int block_series_load(const struct block *block, struct block_series **ret, uint64_t *bytes, struct error *err)
{
	struct block_series *series = mem_zalloc(sizeof(*series));
	struct loading l = {.block = block, .series = series, .err = err};
	if (!series)
		return error_nomem(err);
	series->refs = 1;
	arena_init(&series->arena, SERIES_MEMORY_MAX);
	int r = intern_init(&l.texts, SERIES_MEMORY_MAX) < 0 ? error_nomem(err) : load_all(&l, bytes);
	intern_release(&l.texts);
	mem_free(l.copies);
	parquet_close(l.file);
	if (r < 0) {
		block_series_free(series);
		return r;
	}
	series->bytes = sizeof(*series) + series->arena.used_bytes;
	*ret = series;
	return 0;
}

struct block_series *block_series_free(struct block_series *series)
{
	if (!series)
		return NULL;
	arena_release(&series->arena);
	mem_free(series);
	return NULL;
}
