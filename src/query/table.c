/* SPDX-License-Identifier: Apache-2.0 */
#include "query/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/text.h"
#include "base/time.h"
#include "render/flame.h"

#define TABLE_TEXT_BYTES_MAX (256 * MIB)
#define TABLE_CELLS_MAX	     (64u * 1024 * 1024)
#define TABLE_COLUMNS_MAX    4096
#define CELL_TEXT_MAX	     96 /* of numbers */

void query_table_init(struct query_table *table)
{
	*table = (struct query_table){.arena.max_bytes = TABLE_TEXT_BYTES_MAX};
}

void query_table_release(struct query_table *table)
{
	mem_free(table->columns);
	mem_free(table->cells);
	arena_release(&table->arena);
	*table = (struct query_table){0};
}

int query_table_status(const struct query_table *table, struct error *err)
{
	switch (table->failed) {
	case 0: return 0;
	case -ENOMEM: return error_nomem(err);
	case -E2BIG:
		return error_set(err, -EINVAL,
				 "query: the table is too large; group by fewer labels, use longer bins or a limit");
	default:
		return error_set(err, -EINVAL, "query: more than %zu rows; group by fewer labels, use longer bins or 'top'",
				 table->rows_max);
	}
}

void query_table_add_column(struct query_table *table, const char *name, const char *unit, enum query_column_kind kind)
{
	if (!table->failed)
		table->failed =
			array_reserve(&table->columns, &table->column_capacity, table->column_count + 1, TABLE_COLUMNS_MAX);
	if (table->failed)
		return;
	struct query_column *column = &table->columns[table->column_count++];
	*column = (struct query_column){.kind = kind};
	snprintf(column->name, sizeof(column->name), "%s", name);
	snprintf(column->unit, sizeof(column->unit), "%s", unit ? unit : "");
}

void query_table_add_row(struct query_table *table, size_t max)
{
	size_t used = table->row_count * table->column_count;
	table->rows_max = max;
	if (!table->failed && max && table->row_count >= max)
		table->failed = -EINVAL;
	if (!table->failed)
		table->failed =
			array_reserve(&table->cells, &table->cell_capacity, used + table->column_count, TABLE_CELLS_MAX);
	if (table->failed)
		return;
	for (size_t i = 0; i < table->column_count; i++)
		table->cells[used + i] = (struct query_cell){.absent = true};
	table->next = used;
	table->rows_before_limit = ++table->row_count;
}

static void put(struct query_table *table, struct query_cell cell)
{
	if (!table->failed)
		table->cells[table->next++] = cell;
}

void query_table_text(struct query_table *table, struct bytes text)
{
	char *copy = table->failed ? NULL : arena_strndup(&table->arena, (const char *)text.data, text.len);
	if (!table->failed && !copy)
		table->failed = arena_is_full(&table->arena, text.len) ? -E2BIG : -ENOMEM;
	put(table, (struct query_cell){.text = copy});
}

void query_table_string(struct query_table *table, const char *text)
{
	query_table_text(table, bytes_of_string(text ? text : ""));
}

void query_table_integer(struct query_table *table, int64_t value)
{
	put(table, (struct query_cell){.integer = value});
}

void query_table_number(struct query_table *table, double value)
{
	put(table, (struct query_cell){.number = value});
}

void query_table_skip(struct query_table *table)
{
	put(table, (struct query_cell){.absent = true});
}

int query_table_find_column(const struct query_table *table, const char *name, size_t *ret, struct error *err)
{
	for (size_t i = 0; i < table->column_count; i++) {
		if (strcmp(table->columns[i].name, name) == 0) {
			*ret = i;
			return 0;
		}
	}
	_cleanup_(buffer_release) struct buffer list = {.max = SIZE_MAX}; /* the message is cut, and not the list */
	for (size_t i = 0; i < table->column_count; i++)
		buffer_printf(&list, "%s%s", i ? ", " : "", table->columns[i].name);
	const char *text = buffer_string(&list);
	return text ? error_set(err, -EINVAL, "query: no column '%.60s'; the columns are %s", name, text) : error_nomem(err);
}

struct sort_by {
	const struct query_table *table;
	size_t column;
	bool descending;
};

static int compare_cells(enum query_column_kind kind, const struct query_cell *a, const struct query_cell *b)
{
	switch (kind) {
	case QUERY_COLUMN_TEXT: return strcmp(a->text, b->text);
	case QUERY_COLUMN_NUMBER: return (a->number > b->number) - (a->number < b->number);
	case QUERY_COLUMN_INTEGER:
	case QUERY_COLUMN_TIME: break;
	}
	return (a->integer > b->integer) - (a->integer < b->integer);
}

static int compare_rows(const void *left, const void *right, void *context)
{
	const struct sort_by *by = context;
	size_t x = *(const size_t *)left, y = *(const size_t *)right;
	const struct query_cell *a = &by->table->cells[x * by->table->column_count + by->column];
	const struct query_cell *b = &by->table->cells[y * by->table->column_count + by->column];
	int order = a->absent || b->absent ? a->absent - b->absent : 0;
	if (!order && !a->absent) {
		order = compare_cells(by->table->columns[by->column].kind, a, b);
		order = by->descending ? -order : order;
	}
	return order ? order : (x > y) - (x < y);
}

int query_table_sort(struct query_table *table, size_t column, bool descending, struct error *err)
{
	struct sort_by by = {table, column, descending};
	size_t row_bytes = table->column_count * sizeof(*table->cells);
	_cleanup_(mem_freep) size_t *order = mem_alloc_array(table->row_count, sizeof(*order));
	struct query_cell *cells = mem_alloc_array(table->row_count, row_bytes);
	if (!order || !cells) {
		mem_free(cells);
		return error_nomem(err);
	}
	for (size_t i = 0; i < table->row_count; i++)
		order[i] = i;
	sort_array_by(order, table->row_count, compare_rows, &by);
	for (size_t i = 0; i < table->row_count; i++)
		memcpy(cells + i * table->column_count, table->cells + order[i] * table->column_count, row_bytes);
	mem_free(table->cells);
	table->cells = cells;
	table->cell_capacity = table->row_count * table->column_count;
	return 0;
}

void query_table_limit(struct query_table *table, size_t limit)
{
	if (table->row_count > limit)
		table->row_count = limit;
}

/* ---- JSON ---- */

static void write_cell_json(const struct query_column *column, const struct query_cell *cell, struct json_writer *json)
{
	if (cell->absent)
		json_null(json);
	else if (column->kind == QUERY_COLUMN_TEXT)
		json_string(json, cell->text);
	else if (column->kind == QUERY_COLUMN_NUMBER)
		json_double(json, cell->number);
	else if (column->kind == QUERY_COLUMN_TIME)
		json_int(json, cell->integer / NS_PER_MS);
	else
		json_int(json, cell->integer);
}

void query_table_write_json(const struct query_table *table, struct json_writer *json)
{
	static const char *const kinds[] = {[QUERY_COLUMN_TEXT] = "text",
					    [QUERY_COLUMN_INTEGER] = "integer",
					    [QUERY_COLUMN_NUMBER] = "number",
					    [QUERY_COLUMN_TIME] = "time"};
	json_begin_object(json);
	json_member_array(json, "columns");
	for (size_t i = 0; i < table->column_count; i++) {
		json_begin_object(json);
		json_member_cstring(json, "name", table->columns[i].name);
		json_member_cstring(json, "kind", kinds[table->columns[i].kind]);
		json_member_cstring(json, "unit", table->columns[i].kind == QUERY_COLUMN_TIME ? "ms" : table->columns[i].unit);
		json_end_object(json);
	}
	json_end_array(json);
	json_member_uint(json, "total_rows", table->rows_before_limit);
	json_member_array(json, "rows");
	for (size_t i = 0; i < table->row_count; i++) {
		json_begin_array(json);
		for (size_t k = 0; k < table->column_count; k++)
			write_cell_json(&table->columns[k], &table->cells[i * table->column_count + k], json);
		json_end_array(json);
	}
	json_end_array(json);
	json_end_object(json);
}

/* ---- text ---- */

static void format_number(double value, const char *unit, char *out, size_t size)
{
	if (strcmp(unit, "percent") == 0)
		snprintf(out, size, "%.2f%%", value);
	else if (value == 0 || (fabs(value) >= 0.01 && fabs(value) < 1e7))
		snprintf(out, size, "%.2f", value);
	else
		snprintf(out, size, "%.3g", value);
}

/* The text of a cell; numbers are written to `number`. */
static const char *cell_text(const struct query_column *column, const struct query_cell *cell,
			     char number[static CELL_TEXT_MAX])
{
	*number = '\0';
	if (cell->absent)
		return number;
	switch (column->kind) {
	case QUERY_COLUMN_TEXT: return cell->text;
	case QUERY_COLUMN_TIME: return time_format(cell->integer, number);
	case QUERY_COLUMN_NUMBER: format_number(cell->number, column->unit, number, CELL_TEXT_MAX); break;
	case QUERY_COLUMN_INTEGER:
		if (*column->unit && strcmp(column->unit, "count") != 0)
			render_format_value(cell->integer, column->unit, number, CELL_TEXT_MAX);
		else
			snprintf(number, CELL_TEXT_MAX, "%lld", (long long)cell->integer);
		break;
	}
	return number;
}

/* Texts come from outside and go to a terminal. */
static int append_padded(struct buffer *out, const char *text, size_t width, bool right, bool last)
{
	size_t own = text_width(bytes_of_string(text)), pad = own < width ? width - own : 0;
	for (size_t i = 0; right && i < pad; i++)
		buffer_append_byte(out, ' ');
	text_append_harmless(out, bytes_of_string(text));
	for (size_t i = 0; !right && !last && i < pad; i++)
		buffer_append_byte(out, ' ');
	return buffer_append_string(out, last ? "\n" : "  ");
}

static void measure(const struct query_table *table, size_t rows, size_t *widths)
{
	char number[CELL_TEXT_MAX];
	for (size_t k = 0; k < table->column_count; k++)
		widths[k] = text_width(bytes_of_string(table->columns[k].name));
	for (size_t i = 0; i < rows; i++) {
		for (size_t k = 0; k < table->column_count; k++) {
			const struct query_cell *cell = &table->cells[i * table->column_count + k];
			size_t width = text_width(bytes_of_string(cell_text(&table->columns[k], cell, number)));
			widths[k] = width > widths[k] ? width : widths[k];
		}
	}
}

static int write_rows(const struct query_table *table, size_t rows, const size_t *widths, struct buffer *out)
{
	char number[CELL_TEXT_MAX];
	size_t columns = table->column_count;
	for (size_t k = 0; k < columns; k++)
		append_padded(out, table->columns[k].name, widths[k], table->columns[k].kind != QUERY_COLUMN_TEXT,
			      k + 1 == columns);
	for (size_t i = 0; i < rows; i++) {
		for (size_t k = 0; k < columns; k++) {
			const char *text = cell_text(&table->columns[k], &table->cells[i * columns + k], number);
			append_padded(out, text, widths[k], table->columns[k].kind != QUERY_COLUMN_TEXT, k + 1 == columns);
		}
	}
	if (rows < table->rows_before_limit)
		buffer_printf(out, "%zu of %zu rows\n", rows, table->rows_before_limit);
	return buffer_status(out);
}

int query_table_write_text(const struct query_table *table, size_t limit, struct buffer *out, struct error *err)
{
	size_t rows = limit && limit < table->row_count ? limit : table->row_count;
	_cleanup_(mem_freep) size_t *widths = mem_zalloc_array(table->column_count, sizeof(*widths));
	if (!widths)
		return error_nomem(err);
	measure(table, rows, widths);
	int r = write_rows(table, rows, widths, out);
	if (r == -E2BIG)
		return error_set(err, r, "query: the table is longer than %zu bytes", out->max);
	return r < 0 ? error_nomem(err) : 0;
}
