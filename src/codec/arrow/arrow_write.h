/* SPDX-License-Identifier: Apache-2.0 */
/* Writing tables as Arrow IPC streams. Essay at the top of arrow_write.c. */
#ifndef WICK_CODEC_ARROW_WRITE_H
#define WICK_CODEC_ARROW_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum arrow_kind {
	ARROW_INT8,
	ARROW_INT16,
	ARROW_INT32,
	ARROW_INT64,
	ARROW_UINT8,
	ARROW_UINT16,
	ARROW_UINT32,
	ARROW_UINT64,
	ARROW_BOOL,	  /* bytes, 0 or 1 */
	ARROW_DICTIONARY, /* uint32_t by row, each the number of one of `texts` */
	ARROW_BINARY,	  /* struct bytes by row */
	ARROW_LIST,	  /* offsets by row, and one more, into the items */
	ARROW_UTF8,	  /* struct bytes by row */
	ARROW_DOUBLE,
	ARROW_TIMESTAMP_NS, /* int64_t, since 1970 UTC */
};
/* What the schema says about the table, or one of its columns: both are texts. */
struct arrow_fact {
	const char *key, *value;
};
struct arrow_column {
	const char *name;
	const char *unit; /* of its values, in the column's metadata as "unit"; NULL or "" = not said */
	enum arrow_kind kind;
	enum arrow_kind item;	/* of lists: a number; of dictionaries: the type of their numbers, a 0 (INT8) = INT32 */
	bool is_utf8;		/* of dictionaries: the texts are UTF-8, not any bytes */
	const void *values;	/* by row, of the kind's type; of a list: items */
	const uint8_t *present; /* by row; NULL = all */
	const struct bytes *texts;
	size_t text_count; /* a dictionary's numbers must have room for it */
	const int32_t *offsets;
};
/* Appends a stream of one record batch of `rows` rows. -E2BIG for texts of 2 GiB or more, and past out->max; -ENOMEM. */
int arrow_write_stream(const struct arrow_column *columns, size_t column_count, size_t rows, struct buffer *out,
		       struct error *err);

/*
 * The same in parts, for tables that need not be in memory as a whole: the schema, record batches of the same columns, the end.
 * Without columns of the kind ARROW_DICTIONARY, whose texts would have to be known ahead: -EINVAL. The schema needs no values.
 */
int arrow_write_schema(const struct arrow_column *columns, size_t column_count, const struct arrow_fact *facts,
		       size_t fact_count, struct buffer *out, struct error *err);
int arrow_write_batch(const struct arrow_column *columns, size_t column_count, size_t rows, struct buffer *out,
		      struct error *err);
int arrow_write_end(struct buffer *out, struct error *err);

#endif
