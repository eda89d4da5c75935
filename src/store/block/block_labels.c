/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels.parquet: one row a label and value, with what its series have, sorted by name, value.
 *
 * It is there to be asked for the values that begin with something: names and values are sorted, pages are small, so the page
 * index leads to the few pages that matter by binary search, and the answer for one of 100,000 values costs as much as for one
 * of ten. Values are PLAIN, because a dictionary would have to be read as a whole before the first of them could be.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "store/block/block_write_int.h"

#define PAGE_ROWS  2048
#define GROUP_ROWS (64 * 1024)
#define COLUMNS	   6
static const struct parquet_column columns_of_labels[COLUMNS] = {
	{.name = "name", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING},
	{.name = "value", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING, .layout = PARQUET_PLAIN},
	{.name = "series", .type = PARQUET_INT64},
	{.name = "samples", .type = PARQUET_INT64},
	{.name = "first_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
	{.name = "last_ns", .type = PARQUET_INT64, .logical = PARQUET_TIMESTAMP_NS},
};

/* ---- writing ---- */

static void add_use(struct block_use *to, const struct block_use *from)
{
	if (from->series == 0)
		return;
	to->first_ns = to->series == 0 || from->first_ns < to->first_ns ? from->first_ns : to->first_ns;
	to->last_ns = to->series == 0 || from->last_ns > to->last_ns ? from->last_ns : to->last_ns;
	to->series += from->series;
	to->samples += from->samples;
}

/* Rows of processes are no samples, and their series are in no list. */
static bool is_listed(const struct block_writer *writer, size_t series)
{
	const struct series_columns *columns = &writer->columns;
	return writer->sums[series].rows > 0 && !profile_type_is_process_stats(&columns->types[columns->type_ids[series]]);
}

/* uses by code. */
static void collect_uses(const struct block_writer *writer, const uint32_t *codes, struct block_use *uses)
{
	for (size_t i = 0; i < writer->series_count; i++) {
		const struct series_sums *sums = &writer->sums[i];
		if (codes[i] == SERIES_NO_VALUE || !is_listed(writer, i))
			continue;
		add_use(&uses[codes[i]], &(struct block_use){1, sums->rows, sums->first_ns, sums->last_ns});
	}
}

struct label_rows {
	struct block_writer *writer;
	struct block_group group;
	struct error *err;
};

static int add_row(struct label_rows *rows, const char *name, const char *value, const struct block_use *use)
{
	struct block_group *group = &rows->group;
	int r = group->count == group->capacity ? block_group_flush(group, rows->err) : 0;
	if (r < 0)
		return r;
	size_t at = group->count++;
	((struct bytes *)group->columns[0])[at] = bytes_of_string(name);
	((struct bytes *)group->columns[1])[at] = bytes_of_string(value);
	((int64_t *)group->columns[2])[at] = (int64_t)use->series;
	((int64_t *)group->columns[3])[at] = (int64_t)use->samples;
	((int64_t *)group->columns[4])[at] = use->first_ns;
	((int64_t *)group->columns[5])[at] = use->last_ns;
	return 0;
}

/* Types are few, so they are in the metadata. */
static int note_types(struct block_writer *writer, struct error *err)
{
	const struct series_columns *columns = &writer->columns;
	struct block_meta *meta = &writer->meta;
	_cleanup_(mem_freep) struct block_use *uses = mem_zalloc_array(columns->type_count, sizeof(*uses));
	meta->types_complete = columns->type_count <= BLOCK_META_TYPES;
	meta->types = mem_zalloc_array(meta->types_complete ? columns->type_count : 0, sizeof(*meta->types));
	if (!uses || !meta->types)
		return error_nomem(err);
	collect_uses(writer, columns->type_ids, uses);
	for (size_t i = 0; meta->types_complete && i < columns->type_count; i++)
		if (uses[i].series)
			meta->types[meta->type_count++] = (struct block_type){columns->types[i], uses[i]};
	return 0;
}

static bool is_in_rollups(const struct block_writer *writer, const char *name)
{
	for (size_t i = 0; writer->rollup_ids && rollup_label_names[i]; i++)
		if (writer->keep & 1u << i && !strcmp(rollup_label_names[i], name))
			return true;
	return false;
}

/* Notes the name in the metadata. */
static int note_name(struct label_rows *rows, const char *name, uint64_t values, const struct block_use *use)
{
	struct block_meta *meta = &rows->writer->meta;
	bool kept = is_in_rollups(rows->writer, name);
	if (use->series == 0 || (!meta->labels_complete && !kept))
		return 0;
	struct block_label_name *label = &meta->labels[meta->label_count];
	*label = (struct block_label_name){.name = mem_strdup(name), .values = values, .use = *use, .in_rollups = kept};
	if (!label->name)
		return error_nomem(rows->err);
	meta->label_count++;
	return 0;
}

static int write_label(struct label_rows *rows, const struct series_column *column)
{
	_cleanup_(mem_freep) struct block_use *uses = mem_zalloc_array(column->value_count, sizeof(*uses));
	_cleanup_(mem_freep) uint32_t *order = NULL;
	struct block_use all = {0};
	uint64_t values = 0;
	int r = uses ? block_order_of_values(column, &order, rows->err) : error_nomem(rows->err);
	if (r < 0)
		return r;
	collect_uses(rows->writer, column->codes, uses);
	for (size_t i = 0; r == 0 && i < column->value_count; i++) {
		const struct block_use *use = &uses[order[i]];
		if (use->series == 0)
			continue;
		values++;
		add_use(&all, use);
		r = add_row(rows, column->name, column->values[order[i]], use);
	}
	return r == 0 ? note_name(rows, column->name, values, &all) : r;
}

static int write_rows(struct label_rows *rows)
{
	const struct series_columns *columns = &rows->writer->columns;
	struct block_meta *meta = &rows->writer->meta;
	meta->labels_complete = columns->label_count <= BLOCK_META_LABELS;
	meta->labels =
		mem_zalloc_array(meta->labels_complete ? columns->label_count : ROLLUP_LABELS_MAX, sizeof(*meta->labels));
	if (!meta->labels)
		return error_nomem(rows->err);
	int r = note_types(rows->writer, rows->err);
	for (size_t i = 0; r == 0 && i < columns->label_count; i++)
		r = write_label(rows, &columns->labels[i]);
	return r;
}

int block_write_labels(struct block_writer *writer, struct error *err)
{
	static const uint32_t sorted_by[] = {0, 1};
	const struct block_file_layout layout = {.file = BLOCK_LABELS,
						 .columns = columns_of_labels,
						 .column_count = COLUMNS,
						 .sorted_by = sorted_by,
						 .sorted_by_count = 2,
						 .page_rows = PAGE_ROWS};
	struct label_rows rows = {.writer = writer, .err = err};
	int r = block_group_open(&rows.group, writer->directory, &layout, GROUP_ROWS, writer->options.cancel, err);
	if (r == 0)
		r = write_rows(&rows);
	if (r == 0)
		return block_group_finish(&rows.group, &writer->meta, err);
	block_group_release(&rows.group);
	return r;
}

/* ---- finding ---- */

#define PAGES_AT_ONCE 8

struct finding {
	struct parquet_file *file;
	size_t columns[COLUMNS];
	struct parquet_data data[COLUMNS];
	struct bytes label, prefix;
	block_on_value on_value;
	void *context;
	struct buffer text;
	struct error *err;
};

static int find_columns(struct finding *f)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < COLUMNS; i++)
		r = block_find_column(f->file, columns_of_labels[i].name, columns_of_labels[i].type, &f->columns[i], f->err);
	return r;
}

static bool starts_with(struct bytes text, struct bytes prefix)
{
	return text.len >= prefix.len && (!prefix.len || !memcmp(text.data, prefix.data, prefix.len));
}

/* Where a page lies: -1 all of it before what is looked for, 1 behind it, 0 perhaps neither. Bounds may be cut short, which
 * makes them wider. *ret_pure: all names of the page are the label. */
static int place_of_page(const struct finding *f, size_t group, size_t page, bool *ret_pure)
{
	struct bytes low, high;
	*ret_pure = false;
	if (!parquet_page_bounds(f->file, group, f->columns[0], page, &low, &high))
		return 0;
	if (bytes_compare(high, f->label) < 0)
		return -1;
	if (bytes_compare(low, f->label) > 0)
		return 1;
	*ret_pure = bytes_equal(low, f->label) && bytes_equal(high, f->label);
	if (!*ret_pure || !parquet_page_bounds(f->file, group, f->columns[1], page, &low, &high))
		return 0;
	if (bytes_compare(high, f->prefix) < 0)
		return -1;
	return bytes_compare(low, f->prefix) > 0 && !starts_with(low, f->prefix);
}

/* The first page of a group that is not before what is looked for. */
static size_t find_page(const struct finding *f, size_t group)
{
	size_t low = 0, high = parquet_page_count(f->file, group);
	bool pure;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (place_of_page(f, group, middle, &pure) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int give_value(struct finding *f, size_t row)
{
	struct bytes value = f->data[1].bytes[row];
	const struct block_use use = {
		.series = (uint64_t)f->data[2].i64[row],
		.samples = (uint64_t)f->data[3].i64[row],
		.first_ns = f->data[4].i64[row],
		.last_ns = f->data[5].i64[row],
	};
	buffer_clear(&f->text);
	int r = buffer_append(&f->text, value.data, value.len);
	const char *text = r == 0 ? buffer_string(&f->text) : NULL;
	return text ? f->on_value(f->context, text, &use, f->err) : error_nomem(f->err);
}

static int read_pages(struct finding *f, size_t group, size_t first, size_t count, bool pure)
{
	int r = 0;
	for (size_t i = pure; r == 0 && i < COLUMNS; i++) {
		r = parquet_read_pages(f->file, group, f->columns[i], first, count, &f->data[i], f->err);
		if (r == 0 && f->data[i].null_count)
			r = error_set(f->err, -EBADMSG, "column %s has nulls", columns_of_labels[i].name);
		if (r == 0 && f->data[i].count != f->data[pure].count)
			r = error_set(f->err, -EBADMSG, "columns have different numbers of rows");
	}
	for (size_t row = 0; r == 0 && row < f->data[1].count; row++)
		if ((pure || bytes_equal(f->data[0].bytes[row], f->label)) && starts_with(f->data[1].bytes[row], f->prefix))
			r = give_value(f, row);
	return r;
}

static int find_in_group(struct finding *f, size_t group)
{
	size_t pages = parquet_page_count(f->file, group), page = find_page(f, group);
	int r = 0;
	while (r == 0 && page < pages) {
		bool pure, next_pure;
		if (place_of_page(f, group, page, &pure) > 0)
			break;
		size_t count = 1;
		for (; count < PAGES_AT_ONCE && page + count < pages; count++)
			if (place_of_page(f, group, page + count, &next_pure) > 0 || next_pure != pure)
				break;
		r = read_pages(f, group, page, count, pure);
		page += count;
	}
	return r;
}

int block_labels_find(const struct block *block, const char *label, const char *prefix, block_on_value on_value, void *context,
		      uint64_t *bytes, struct error *err)
{
	struct error own = {0};
	struct finding f = {
		.label = bytes_of_string(label),
		.prefix = bytes_of_string(prefix),
		.on_value = on_value,
		.context = context,
		.err = &own,
		.text.max = SIZE_MAX,
	};
	int r = block_open_file(block, BLOCK_LABELS, &f.file, &own);
	if (r == 0)
		r = find_columns(&f);
	for (size_t g = 0; r == 0 && g < parquet_group_count(f.file); g++)
		r = find_in_group(&f, g);
	if (f.file)
		*bytes += parquet_bytes_read(f.file);
	for (size_t i = 0; i < COLUMNS; i++)
		parquet_data_release(&f.data[i]);
	buffer_release(&f.text);
	parquet_close(f.file);
	return r < 0 ? error_set(err, r, "%s/%s: %s", block->path, block_file_names[BLOCK_LABELS], own.message) : r;
}
