/* SPDX-License-Identifier: Apache-2.0 */
/* Tables with typed columns for other programs: as an Arrow IPC stream, a Parquet file or CSV. Essay at the top of tabular.c.
 */
#ifndef WICK_CODEC_TABULAR_H
#define WICK_CODEC_TABULAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

enum tabular_format { TABULAR_ARROW, TABULAR_PARQUET, TABULAR_CSV };
#define TABULAR_FORMATS 3
enum tabular_type {
	TABULAR_INTEGER, /* int64_t */
	TABULAR_NUMBER,	 /* double */
	TABULAR_TEXT,	 /* struct bytes, UTF-8: the caller's promise */
	TABULAR_TIME,	 /* int64_t, ns since 1970 UTC */
	TABULAR_FLAG,	 /* a byte, 0 or 1 */
};
struct tabular_column {
	const char *name; /* different from all others */
	const char *unit; /* of the values; NULL or "" = none. Arrow has a place for it. */
	enum tabular_type type;
	bool optional; /* cells may be absent */
};
struct tabular_fact {
	const char *key, *value;
};
struct tabular_options {
	const struct tabular_column *columns; /* must live as long as the writer */
	size_t column_count;		      /* 1,200 at most in Arrow */
	/* What the table is about, as metadata of the file (not in CSV); 16 at most. */
	const struct tabular_fact *facts;
	size_t fact_count;
};
/* One column of some rows. */
struct tabular_cells {
	const uint8_t *present; /* a byte a row, 0 = absent; NULL = all are there */
	union {
		const int64_t *i64;
		const double *f64;
		const struct bytes *bytes;
		const uint8_t *flags;
	};
};

#define TABULAR_ROWS (128 * 1024) /* what callers should put into one call of tabular_writer_rows(), at most */
struct tabular_writer;
/* Arrow and CSV append to out as they are written; Parquet appends everything in tabular_writer_finish(). */
int tabular_writer_open(enum tabular_format format, const struct tabular_options *options, struct buffer *out,
			struct tabular_writer **ret, struct error *err);
/* cells has an entry a column. 0 rows write nothing. Between two calls the caller may take what is in the buffer. */
int tabular_writer_rows(struct tabular_writer *writer, const struct tabular_cells *cells, size_t rows, struct error *err);
/* drain: is called when about 1 MiB more is in the buffer, which it may empty; NULL = all stays in it. */
int tabular_writer_finish(struct tabular_writer *writer, int (*drain)(void *context, struct error *err), void *context,
			  struct error *err);
struct tabular_writer *tabular_writer_free(struct tabular_writer *writer);
DEFINE_CLEANUP_POINTER(tabular_writer_free, struct tabular_writer);

/* "arrow", "parquet", "csv": 0 and the format, or -ENOENT. */
int tabular_find_format(const char *name, enum tabular_format *ret);
const char *tabular_media_type(enum tabular_format format);   /* "text/csv" */
const char *tabular_content_type(enum tabular_format format); /* with parameters */

#endif
