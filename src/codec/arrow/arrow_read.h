/* SPDX-License-Identifier: Apache-2.0 */
/* Reading Arrow IPC streams. Essay at the top of arrow_read.c. */
#ifndef WICK_CODEC_ARROW_READ_H
#define WICK_CODEC_ARROW_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

/* Numbers of Schema.fbs's union Type. Unions and what later versions add are refused. */
enum arrow_type {
	ARROW_TYPE_NULL = 1,
	ARROW_TYPE_INT = 2,
	ARROW_TYPE_FLOAT = 3,
	ARROW_TYPE_BINARY = 4,
	ARROW_TYPE_UTF8 = 5,
	ARROW_TYPE_BOOL = 6,
	ARROW_TYPE_DECIMAL = 7,
	ARROW_TYPE_DATE = 8,
	ARROW_TYPE_TIME = 9,
	ARROW_TYPE_TIMESTAMP = 10,
	ARROW_TYPE_INTERVAL = 11,
	ARROW_TYPE_LIST = 12,
	ARROW_TYPE_STRUCT = 13,
	ARROW_TYPE_FIXED_SIZE_BINARY = 15,
	ARROW_TYPE_FIXED_SIZE_LIST = 16,
	ARROW_TYPE_MAP = 17,
	ARROW_TYPE_DURATION = 18,
	ARROW_TYPE_LARGE_BINARY = 19,
	ARROW_TYPE_LARGE_UTF8 = 20,
	ARROW_TYPE_LARGE_LIST = 21,
	ARROW_TYPE_RUN_END_ENCODED = 22,
	ARROW_TYPE_BINARY_VIEW = 23,
	ARROW_TYPE_UTF8_VIEW = 24,
	ARROW_TYPE_LIST_VIEW = 25,
	ARROW_TYPE_LARGE_LIST_VIEW = 26,
};

struct arrow_field {
	const char *name;
	enum arrow_type type; /* of the values, also where they are in a dictionary */
	unsigned width;	      /* bytes of a value of fixed width; values of a FIXED_SIZE_LIST; else 0 */
	bool is_signed;	      /* INT */
	int64_t unit_ns;      /* TIMESTAMP, DURATION: nanoseconds of one */
	bool in_dictionary;   /* the column has indices into dictionary_id */
	int64_t dictionary_id;
	unsigned index_width;
	bool index_signed;
	struct arrow_field *children; /* RUN_END_ENCODED: run ends, values */
	size_t child_count;
};

struct arrow_dictionary;
struct arrow_array {
	const struct arrow_field *field;
	uint32_t id; /* distinguishes arrays of a stream, from 0 */
	size_t length;
	struct bytes validity;		     /* bits; empty = all are there */
	struct bytes values, offsets, sizes; /* what of them the type has; values are indices with a dictionary */
	const struct bytes *views;	     /* what views lead to */
	size_t view_count;
	const struct arrow_array *children;	   /* as the field's */
	const struct arrow_dictionary *dictionary; /* NULL = the values are here */
};

struct arrow_stream;
/* Reads the schema. The input must outlive the stream, of which all arrays are until its end, also those of earlier batches.
 * memory_max: bytes of what is made of the input, decompressed buffers included. -EBADMSG malformed, or of a type that is not
 * read; -E2BIG past memory_max, or more than 4,096 fields or 64 levels of them; -ENOMEM. */
int arrow_stream_open(struct bytes input, size_t memory_max, struct arrow_stream **ret, struct error *err);
struct arrow_stream *arrow_stream_free(struct arrow_stream *stream); /* NULL allowed; returns NULL */
DEFINE_CLEANUP_POINTER(arrow_stream_free, struct arrow_stream);
const struct arrow_field *arrow_stream_fields(const struct arrow_stream *stream, size_t *ret_count);
/* A value of the schema's metadata; false if there is none. */
bool arrow_stream_metadata(const struct arrow_stream *stream, const char *key, struct bytes *ret);
size_t arrow_stream_memory(const struct arrow_stream *stream); /* bytes that it holds */
/* The next batch: an array for each field, all of `rows`. 1, or 0 at the end. */
int arrow_stream_next(struct arrow_stream *stream, const struct arrow_array **ret_columns, size_t *ret_rows, struct error *err);

/* The child of this name; -1 if there is none. */
int arrow_find_field(const struct arrow_field *fields, size_t count, const char *name);

/* Values. All return 1, 0 for null, or -EBADMSG where the array leads out of itself (a row past its end, an index past the end
 * of a dictionary, an offset past the end of a buffer) or is of another type. Dictionaries and run ends are followed. */
int arrow_locate(const struct arrow_array *array, size_t row, const struct arrow_array **ret, size_t *ret_row);
int arrow_get_bytes(const struct arrow_array *array, size_t row, struct bytes *ret); /* texts and binaries */
/* Integers, booleans, dates, times: 64 bits of an unsigned one are the same bits. */
int arrow_get_integer(const struct arrow_array *array, size_t row, int64_t *ret);
int arrow_get_list(const struct arrow_array *array, size_t row, const struct arrow_array **ret_items, size_t *ret_first,
		   size_t *ret_count);

#endif
