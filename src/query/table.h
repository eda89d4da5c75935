/* SPDX-License-Identifier: Apache-2.0 */
/* Tables with typed columns. Private to src/query; struct query_table is in pipeline.h. */
#ifndef WICK_QUERY_TABLE_H
#define WICK_QUERY_TABLE_H

#include "query/pipeline.h"

void query_table_init(struct query_table *table);
void query_table_release(struct query_table *table);
/*
 * A table remembers its first failure, and nothing is added any more: one may write cell after cell and ask once at the end.
 * Columns come before the first row; their names are cut to fit. A row begins with absent cells, and what is put fills one
 * after the other. More than max rows (0 = no limit) are a failure.
 */
void query_table_add_column(struct query_table *table, const char *name, const char *unit, enum query_column_kind kind);
void query_table_add_row(struct query_table *table, size_t max);
void query_table_text(struct query_table *table, struct bytes text);
void query_table_string(struct query_table *table, const char *text); /* NULL = "" */
void query_table_integer(struct query_table *table, int64_t value);
void query_table_number(struct query_table *table, double value);
void query_table_skip(struct query_table *table);
int query_table_status(const struct query_table *table, struct error *err);
/* The index of a column; -EINVAL lists those that there are. */
int query_table_find_column(const struct query_table *table, const char *name, size_t *ret, struct error *err);
/* Stable; absent cells come last. */
int query_table_sort(struct query_table *table, size_t column, bool descending, struct error *err);
void query_table_limit(struct query_table *table, size_t limit);
void query_table_write_json(const struct query_table *table, struct json_writer *json);
/* limit 0 = all rows */
int query_table_write_text(const struct query_table *table, size_t limit, struct buffer *out, struct error *err);

#endif
