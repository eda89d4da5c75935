/* SPDX-License-Identifier: Apache-2.0 */
/* Private to Arrow IPC streams: what the reader of a stream holds. */
#ifndef WICK_CODEC_ARROW_READ_INT_H
#define WICK_CODEC_ARROW_READ_INT_H

#include "base/arena.h"
#include "base/map.h"
#include "codec/arrow/arrow_flat.h"
#include "codec/arrow/arrow_read.h"

/* Values that came one after the other (deltas), numbered through. */
struct arrow_chunk {
	size_t first;
	const struct arrow_array *values;
};
struct arrow_dictionary {
	const struct arrow_field *field;
	struct arrow_chunk *chunks;
	size_t chunk_count, chunk_capacity, length;
};

struct arrow_pair {
	struct bytes key, value;
};
struct arrow_stream {
	struct bytes input; /* what is left */
	struct arena arena;
	struct arrow_field *fields;
	size_t field_count;
	struct arrow_pair *metadata;
	size_t metadata_count;
	struct arrow_dictionary *dictionaries;
	size_t dictionary_count, dictionary_capacity;
	struct map64 dictionary_numbers; /* by id */
	struct zstd_stream *zstd;	 /* codec/compress.h; NULL until it is needed */
	size_t fields_seen;		 /* in all levels */
	uint32_t arrays_seen;
};
/* Memory of the stream: -E2BIG or -ENOMEM, said. */
int arrow_alloc(struct arrow_stream *stream, size_t count, size_t size, void *ret, struct error *err);
int arrow_malformed(struct error *err, const char *what);
/* arrow_schema.c: fields, metadata, and a place for each dictionary. */
int arrow_read_schema(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *schema,
		      struct error *err);
/* arrow_array.c: a number of `width` bytes; the buffer is long enough for all rows. */
int64_t arrow_number_at(struct bytes buffer, size_t row, unsigned width, bool is_signed);
struct arrow_dictionary *arrow_find_dictionary(struct arrow_stream *stream, int64_t id);

#endif
