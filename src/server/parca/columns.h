/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that Parca's clients get as Arrow streams: columns that are filled row by row, null where nothing is set. */
#ifndef WICK_SERVER_PARCA_COLUMNS_H
#define WICK_SERVER_PARCA_COLUMNS_H

#include "codec/arrow/arrow_write.h"
#include "profile/profile.h"

#define PARCA_COLUMNS_MAX 40
enum parca_column_kind {
	PARCA_COLUMN_BOOL,
	PARCA_COLUMN_INT32,
	PARCA_COLUMN_INT64,
	PARCA_COLUMN_UINT64,
	PARCA_COLUMN_LEAST_SIGNED, /* the narrowest type that holds all values */
	PARCA_COLUMN_LEAST_UNSIGNED,
	PARCA_COLUMN_BYTES,	  /* strings of the profile: dictionary(binary) of the narrowest unsigned numbers */
	PARCA_COLUMN_TEXT_INT32,  /* dictionary(int32, utf8) */
	PARCA_COLUMN_TEXT_UINT16, /* with uint16, uint32 where there are too many */
	PARCA_COLUMN_TEXT_UINT32,
	PARCA_COLUMN_UINT32_LIST,
	PARCA_COLUMN_INT64_LIST,
};
struct parca_column_form {
	const char *name;
	enum parca_column_kind kind;
};
struct parca_columns {
	const struct profile *profile; /* whose strings they are */
	const struct parca_column_form *forms;
	struct parca_column {
		uint64_t *values;
		uint8_t *present;
		struct bytes *texts; /* of a dictionary: those that are used */
		struct buffer clean; /* those of them that were no UTF-8 */
		int32_t *offsets;    /* of a list, and its items: */
		uint64_t *items;
		size_t item_count, item_capacity;
		uint64_t largest; /* LEAST_UNSIGNED: the type has room for this, too */
	} columns[PARCA_COLUMNS_MAX];
	size_t count, rows;
	int failed; /* of adding items */
};
/* The forms must live as long. -ENOMEM. */
int parca_columns_init(struct parca_columns *columns, const struct profile *profile, const struct parca_column_form *forms,
		       size_t count, size_t rows, struct error *err);
void parca_columns_release(struct parca_columns *columns);
static inline void parca_columns_set(struct parca_columns *columns, size_t column, size_t row, uint64_t value)
{
	columns->columns[column].values[row] = value;
	columns->columns[column].present[row] = 1;
}
/* A string of the profile; UINT32_MAX = null. */
static inline void parca_columns_set_text(struct parca_columns *columns, size_t column, size_t row, uint32_t text)
{
	if (text != UINT32_MAX)
		parca_columns_set(columns, column, row, text);
}
/* Lists are made row by row: first their items, then their end. A failure is reported by parca_columns_write(). */
void parca_columns_add_item(struct parca_columns *columns, size_t column, uint64_t item);
void parca_columns_end_list(struct parca_columns *columns, size_t column, size_t row, bool is_present);
/* Appends the stream; the columns are used up. -E2BIG, -ENOMEM. */
int parca_columns_write(struct parca_columns *columns, struct buffer *out, struct error *err);

#endif
