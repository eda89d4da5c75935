/* SPDX-License-Identifier: Apache-2.0 */
/* Tables with typed columns. Private to src/query; struct query_table is in pipeline.h. */
#ifndef WICK_QUERY_TABLE_H
#define WICK_QUERY_TABLE_H

#include "query/pipeline.h"

void query_table_init(struct query_table *table);
void query_table_release(struct query_table *table);
/* Before the first row. Names are cut to fit. */
int query_table_add_column(struct query_table *table, const char *name, const char *unit, enum query_column_kind kind,
			   struct error *err);
/* A row of absent cells, valid until the next one. -EINVAL when there would be more than max (0 = no limit). */
int query_table_add_row(struct query_table *table, size_t max, struct query_cell **ret, struct error *err);
int query_cell_text(struct query_table *table, struct query_cell *cell, const char *text, size_t len, struct error *err);
void query_cell_integer(struct query_cell *cell, int64_t value);
void query_cell_number(struct query_cell *cell, double value);
/* The index of a column; -EINVAL lists those that there are. */
int query_table_find_column(const struct query_table *table, const char *name, size_t *ret, struct error *err);
/* Stable; absent cells come last. */
int query_table_sort(struct query_table *table, size_t column, bool descending, struct error *err);
void query_table_limit(struct query_table *table, size_t limit);
void query_table_write_json(const struct query_table *table, struct json_writer *json);
/* limit 0 = all rows */
int query_table_write_text(const struct query_table *table, size_t limit, struct buffer *out, struct error *err);

#endif
