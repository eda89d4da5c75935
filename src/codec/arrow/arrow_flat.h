/* SPDX-License-Identifier: Apache-2.0 */
/* Private to Arrow IPC streams: what messages are, and the flatbuffers that they begin with. */
#ifndef WICK_CODEC_ARROW_FLAT_H
#define WICK_CODEC_ARROW_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum arrow_header { ARROW_HEADER_SCHEMA = 1, ARROW_HEADER_DICTIONARY = 2, ARROW_HEADER_RECORDS = 3 };

/* arrow_flat.c: a flatbuffer. What leads out of it sets `bad` and reads as absent: the caller asks at the end of a stage. */
struct flat_reader {
	struct bytes bytes;
	bool bad;
};
struct flat_table {
	size_t at; /* 0 = absent */
	size_t slots, slot_count, size;
};
uint64_t flat_number(struct flat_reader *flat, size_t at, size_t size); /* 1, 2, 4 or 8 bytes */
struct flat_table flat_root(struct flat_reader *flat);
struct flat_table flat_table_at(struct flat_reader *flat, size_t at);
/* Fields of a table by their number: */
uint64_t flat_get(struct flat_reader *flat, const struct flat_table *table, unsigned slot, size_t size, uint64_t absent);
struct flat_table flat_get_table(struct flat_reader *flat, const struct flat_table *table, unsigned slot);
/* Where the items of a vector begin; all of them are inside. 0 = absent, and *ret_count is 0. */
size_t flat_get_vector(struct flat_reader *flat, const struct flat_table *table, unsigned slot, size_t item_size,
		       size_t *ret_count);
struct bytes flat_get_text(struct flat_reader *flat, const struct flat_table *table, unsigned slot);
/* Of a vector of tables. */
struct flat_table flat_item(struct flat_reader *flat, size_t vector, size_t index);

#endif
