/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types and labels of many series, by column: for each label name a code a series into the distinct values. Matching evaluates
 * each distinct value once and then only compares codes, grouping hashes codes instead of texts. Blocks load it from
 * series.parquet, heads build it from their series.
 */
#ifndef WICK_STORE_SERIES_COLUMNS_H
#define WICK_STORE_SERIES_COLUMNS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "store/series.h"

#define SERIES_NO_VALUE		  UINT32_MAX	       /* the code of a series without the label */
#define SERIES_COLUMNS_MEMORY_MAX (512u * 1024 * 1024) /* more is -E2BIG: too many label names for so many series */

struct series_column {
	const char *name;
	uint32_t *codes;     /* by series */
	const char **values; /* by code, distinct, in no order */
	size_t value_count;
};
struct series_columns {
	size_t count;			  /* series */
	const struct profile_type *types; /* distinct */
	size_t type_count;
	uint32_t *type_ids;	      /* by series */
	struct series_column *labels; /* by name */
	size_t label_count;
	size_t bytes;	    /* memory */
	struct arena arena; /* holds all of it */
};

/* From series in memory; all is copied. */
int series_columns_build(const struct series *series, size_t count, struct series_columns *ret, struct error *err);
void series_columns_release(struct series_columns *columns);
/* NULL if no series has the label. */
const struct series_column *series_columns_find(const struct series_columns *columns, const char *name);
/* The labels of one series, those of `by` (NULL = all): views that live as long as the columns; items has room for
 * LIMIT_LABELS_PER_SERIES. */
struct labels series_columns_labels(const struct series_columns *columns, size_t series, const char *const *by, size_t by_count,
				    struct label *items);

/*
 * Building them piece by piece, as blocks do. Texts given are copied.
 *
 * Errors: -ENOMEM, -E2BIG (SERIES_COLUMNS_MEMORY_MAX), -EBADMSG (a text holds a NUL, a code without a value).
 */
struct series_builder;
int series_builder_new(size_t series, struct series_builder **ret, struct error *err);
struct series_builder *series_builder_free(struct series_builder *builder);
DEFINE_CLEANUP_POINTER(series_builder_free, struct series_builder);
int series_builder_type(struct series_builder *builder, const struct profile_type *type, uint32_t *ret_id, struct error *err);
void series_builder_set_type(struct series_builder *builder, size_t series, uint32_t type);
/* The column of a label name, made when it is new. */
int series_builder_column(struct series_builder *builder, struct bytes name, size_t *ret, struct error *err);
int series_builder_set(struct series_builder *builder, size_t column, size_t series, struct bytes value, struct error *err);
/* A slice of a column: codes (SERIES_NO_VALUE = none) into distinct values. */
struct series_codes {
	size_t first, count; /* series */
	const uint32_t *codes;
	const struct bytes *values;
	size_t value_count;
};
int series_builder_codes(struct series_builder *builder, size_t column, const struct series_codes *slice, struct error *err);
/* Takes what was built out of the builder, which can then only be freed. */
int series_builder_finish(struct series_builder *builder, struct series_columns *ret, struct error *err);

#endif
