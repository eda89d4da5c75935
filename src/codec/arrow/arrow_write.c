/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrow IPC streams (https://arrow.apache.org/docs/format/Columnar.html, "Serialization and Interprocess Communication"; the
 * messages' tables are in the Arrow repository, format/Message.fbs and Schema.fbs).
 *
 *   stream:    schema, a dictionary batch for each column of texts, one record batch, the end
 *   message:   FF FF FF FF, length of the metadata (4 bytes), metadata (a flatbuffer, padded to 8), body (padded to 8)
 *   the end:   FF FF FF FF 00 00 00 00
 *   body:      the buffers of the columns in order, each padded to 8: validity bits (empty if all rows are there), then for a
 *              list or texts 32-bit offsets, then values
 *
 * A flatbuffer is written from its end to its beginning, since what refers to something must know where it is: so does struct
 * flat. Positions are counted from the end, so that they stay when the buffer grows. Its tables begin with the distance to a
 * table of 16-bit offsets, one a field (0 = not there); the fields' numbers are those of the .fbs files.
 */
#include "codec/arrow/arrow_write.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "codec/arrow/arrow_flat.h"
#include "codec/arrow/arrow_read.h"

#define VERSION_5   4
#define COLUMNS_MAX 1200
#define FACTS_MAX   16
#define SLOTS_MAX   8
#define PADDING	    8

/* ---- flatbuffers ---- */

struct flat {
	uint8_t *data; /* filled from the end */
	size_t capacity, used;
	size_t table; /* where the table at hand begins */
	size_t slots[SLOTS_MAX];
	struct buffer *out; /* where it will go, and what keeps a failure */
};

static void flat_put(struct flat *flat, const void *data, size_t len)
{
	if (buffer_status(flat->out) < 0 || len == 0)
		return;
	if (flat->used + len > flat->capacity) {
		size_t capacity = 2 * (flat->capacity + len) + 512;
		uint8_t *more = mem_zalloc(capacity);
		if (!more) {
			buffer_fail(flat->out, -ENOMEM);
			return;
		}
		if (flat->used)
			memcpy(more + capacity - flat->used, flat->data + flat->capacity - flat->used, flat->used);
		mem_free(flat->data);
		flat->data = more;
		flat->capacity = capacity;
	}
	flat->used += len;
	if (data)
		memcpy(flat->data + flat->capacity - flat->used, data, len);
	else
		memset(flat->data + flat->capacity - flat->used, 0, len);
}

/* Pads so that something of this alignment can be written after `more` bytes. */
static void flat_align(struct flat *flat, size_t alignment, size_t more)
{
	flat_put(flat, NULL, (0 - (flat->used + more)) & (alignment - 1));
}

static void flat_scalar(struct flat *flat, const void *value, size_t size)
{
	flat_align(flat, size, 0);
	flat_put(flat, value, size);
}

static void flat_refer(struct flat *flat, size_t to)
{
	flat_align(flat, 4, 0);
	uint32_t distance = (uint32_t)(flat->used + 4 - to);
	flat_put(flat, &distance, 4);
}

static size_t flat_text(struct flat *flat, const char *text)
{
	uint32_t len = (uint32_t)strlen(text);
	flat_align(flat, 4, len + 1);
	flat_put(flat, NULL, 1);
	flat_put(flat, text, len);
	flat_put(flat, &len, 4);
	return flat->used;
}

static size_t flat_references(struct flat *flat, const size_t *to, uint32_t count)
{
	flat_align(flat, 4, 4 * (size_t)count);
	for (uint32_t i = count; i-- > 0;)
		flat_refer(flat, to[i]);
	flat_put(flat, &count, 4);
	return flat->used;
}

/* Pairs of 64-bit numbers. */
static size_t flat_pairs(struct flat *flat, const int64_t (*pairs)[2], uint32_t count)
{
	flat_align(flat, 8, 16 * (size_t)count);
	flat_put(flat, pairs, 16 * (size_t)count);
	flat_put(flat, &count, 4);
	return flat->used;
}

static void table_begin(struct flat *flat)
{
	flat->table = flat->used;
	memset(flat->slots, 0, sizeof(flat->slots));
}

static void table_scalar(struct flat *flat, unsigned slot, const void *value, size_t size)
{
	flat_scalar(flat, value, size);
	flat->slots[slot] = flat->used;
}

static void table_byte(struct flat *flat, unsigned slot, uint8_t value)
{
	table_scalar(flat, slot, &value, 1);
}

static void table_refer(struct flat *flat, unsigned slot, size_t to)
{
	flat_refer(flat, to);
	flat->slots[slot] = flat->used;
}

static size_t table_end(struct flat *flat)
{
	int32_t distance = 0;
	flat_scalar(flat, &distance, 4);
	size_t table = flat->used;
	uint16_t size = (uint16_t)(table - flat->table), entries = (SLOTS_MAX + 2) * 2;
	for (unsigned i = SLOTS_MAX; i-- > 0;) {
		uint16_t offset = flat->slots[i] ? (uint16_t)(table - flat->slots[i]) : 0;
		flat_put(flat, &offset, 2);
	}
	flat_put(flat, &size, 2);
	flat_put(flat, &entries, 2);
	distance = (int32_t)(flat->used - table);
	if (buffer_status(flat->out) == 0)
		memcpy(flat->data + flat->capacity - table, &distance, 4);
	return table;
}

/* ---- messages ---- */

struct writer {
	struct buffer *out;
	const struct arrow_column *columns;
	size_t column_count, rows;
	const struct arrow_fact *facts;
	size_t fact_count;
	struct buffer body;
	int64_t nodes[2 * COLUMNS_MAX][2];   /* length, nulls */
	int64_t buffers[5 * COLUMNS_MAX][2]; /* offset, length */
	uint32_t node_count, buffer_count;
	struct flat flat;
};

static int64_t padded(int64_t size)
{
	return (size + PADDING - 1) / PADDING * PADDING;
}

/* Message { 0 version  1 header_type  2 header  3 bodyLength }, then the body. */
static void write_message(struct writer *w, uint8_t header_type, size_t header)
{
	struct flat *flat = &w->flat;
	int16_t version = VERSION_5;
	int64_t body = (int64_t)w->body.len;
	table_begin(flat);
	table_scalar(flat, 3, &body, 8);
	table_refer(flat, 2, header);
	table_scalar(flat, 0, &version, 2);
	table_byte(flat, 1, header_type);
	size_t message = table_end(flat);
	flat_align(flat, PADDING, 4);
	flat_refer(flat, message);
	const uint32_t prefix[2] = {UINT32_MAX, (uint32_t)flat->used};
	buffer_append(w->out, prefix, sizeof(prefix));
	buffer_append(w->out, flat->data + flat->capacity - flat->used, flat->used);
	buffer_append_buffer(w->out, &w->body);
	flat->used = 0;
	buffer_clear(&w->body);
	w->node_count = w->buffer_count = 0;
}

static size_t write_int_type(struct flat *flat, int32_t bits, bool is_signed)
{
	table_begin(flat);
	table_scalar(flat, 0, &bits, 4);
	table_byte(flat, 1, is_signed);
	return table_end(flat);
}

static size_t write_empty_table(struct flat *flat)
{
	table_begin(flat);
	return table_end(flat);
}

/* KeyValue { 0 key  1 value }, in a list. 0 = there are none. */
static size_t write_facts(struct flat *flat, const struct arrow_fact *facts, size_t count)
{
	size_t tables[FACTS_MAX];
	for (size_t i = 0; i < count; i++) {
		size_t value = flat_text(flat, facts[i].value), key = flat_text(flat, facts[i].key);
		table_begin(flat);
		table_refer(flat, 0, key);
		table_refer(flat, 1, value);
		tables[i] = table_end(flat);
	}
	return count ? flat_references(flat, tables, (uint32_t)count) : 0;
}

/* Timestamp { 0 unit  1 timezone } */
static size_t write_timestamp_type(struct flat *flat)
{
	int16_t nanoseconds = 3;
	size_t zone = flat_text(flat, "UTC");
	table_begin(flat);
	table_refer(flat, 1, zone);
	table_scalar(flat, 0, &nanoseconds, 2);
	return table_end(flat);
}

/* FloatingPoint { 0 precision } */
static size_t write_double_type(struct flat *flat)
{
	int16_t precision = 2;
	table_begin(flat);
	table_scalar(flat, 0, &precision, 2);
	return table_end(flat);
}

/* Field { 0 name  1 nullable  2 type_type  3 type  4 dictionary  5 children  6 custom_metadata } */
static size_t write_field(struct flat *flat, const char *name, const char *unit, uint8_t type_type, size_t type,
			  size_t dictionary, const size_t *children, uint32_t child_count)
{
	const struct arrow_fact fact = {"unit", unit};
	size_t text = flat_text(flat, name), list = flat_references(flat, children, child_count),
	       facts = write_facts(flat, &fact, unit && *unit);
	table_begin(flat);
	if (facts)
		table_refer(flat, 6, facts);
	table_refer(flat, 0, text);
	table_refer(flat, 3, type);
	table_refer(flat, 5, list);
	if (dictionary)
		table_refer(flat, 4, dictionary);
	table_byte(flat, 1, true);
	table_byte(flat, 2, type_type);
	return table_end(flat);
}

/* Of the kinds that are numbers. */
static int32_t bits_of(enum arrow_kind kind)
{
	if (kind == ARROW_DOUBLE || kind == ARROW_TIMESTAMP_NS)
		return 64;
	return 8 << (kind <= ARROW_INT64 ? kind - ARROW_INT8 : kind - ARROW_UINT8);
}

static size_t write_number_type(struct flat *flat, enum arrow_kind kind)
{
	return write_int_type(flat, bits_of(kind), kind <= ARROW_INT64);
}

static enum arrow_kind index_of(const struct arrow_column *column)
{
	return column->item == ARROW_INT8 ? ARROW_INT32 : column->item;
}

/* DictionaryEncoding { 0 id  1 indexType } */
static size_t write_encoding(struct flat *flat, int64_t id, enum arrow_kind kind)
{
	size_t index = write_number_type(flat, kind);
	table_begin(flat);
	table_scalar(flat, 0, &id, 8);
	table_refer(flat, 1, index);
	return table_end(flat);
}

static size_t write_column_field(struct flat *flat, const struct arrow_column *column, size_t number)
{
	const char *name = column->name, *unit = column->unit;
	uint8_t type_type;
	size_t type, dictionary = 0, child = 0;
	switch (column->kind) {
	case ARROW_BOOL:
		type_type = ARROW_TYPE_BOOL;
		type = write_empty_table(flat);
		break;
	case ARROW_DICTIONARY:
		dictionary = write_encoding(flat, (int64_t)number, index_of(column));
		type_type = column->is_utf8 ? ARROW_TYPE_UTF8 : ARROW_TYPE_BINARY;
		type = write_empty_table(flat);
		break;
	case ARROW_BINARY:
	case ARROW_UTF8:
		type_type = column->kind == ARROW_UTF8 ? ARROW_TYPE_UTF8 : ARROW_TYPE_BINARY;
		type = write_empty_table(flat);
		break;
	case ARROW_LIST:
		child = write_field(flat, "item", NULL, ARROW_TYPE_INT, write_number_type(flat, column->item), 0, NULL, 0);
		type_type = ARROW_TYPE_LIST;
		type = write_empty_table(flat);
		break;
	case ARROW_DOUBLE:
		type_type = ARROW_TYPE_FLOAT;
		type = write_double_type(flat);
		break;
	case ARROW_TIMESTAMP_NS:
		type_type = ARROW_TYPE_TIMESTAMP;
		type = write_timestamp_type(flat);
		break;
	default:
		type_type = ARROW_TYPE_INT;
		type = write_number_type(flat, column->kind);
		break;
	}
	return write_field(flat, name, unit, type_type, type, dictionary, &child, child ? 1 : 0);
}

/* Schema { 0 endianness  1 fields  2 custom_metadata } */
static void write_schema(struct writer *w)
{
	size_t fields[COLUMNS_MAX];
	int16_t little = 0;
	size_t facts = write_facts(&w->flat, w->facts, w->fact_count);
	for (size_t i = 0; i < w->column_count; i++)
		fields[i] = write_column_field(&w->flat, &w->columns[i], i);
	size_t list = flat_references(&w->flat, fields, (uint32_t)w->column_count);
	table_begin(&w->flat);
	table_refer(&w->flat, 1, list);
	if (facts)
		table_refer(&w->flat, 2, facts);
	table_scalar(&w->flat, 0, &little, 2);
	write_message(w, ARROW_HEADER_SCHEMA, table_end(&w->flat));
}

/* ---- bodies ---- */

static void add_node(struct writer *w, size_t rows, size_t nulls)
{
	w->nodes[w->node_count][0] = (int64_t)rows;
	w->nodes[w->node_count++][1] = (int64_t)nulls;
}

static void add_buffer(struct writer *w, const void *data, size_t len)
{
	static const uint8_t zeros[PADDING];
	w->buffers[w->buffer_count][0] = (int64_t)w->body.len;
	w->buffers[w->buffer_count++][1] = (int64_t)len;
	buffer_append(&w->body, data, len);
	buffer_append(&w->body, zeros, (size_t)padded((int64_t)len) - len);
}

/* Bytes that are 0 or not, as bits. */
static void add_bits(struct writer *w, const uint8_t *flags, size_t count)
{
	size_t len = (count + 7) / 8;
	_cleanup_(mem_freep) uint8_t *bits = mem_zalloc(len);
	if (!bits) {
		buffer_fail(w->out, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (flags[i])
			bits[i / 8] |= (uint8_t)(1u << (i % 8));
	add_buffer(w, bits, len);
}

/* Offsets, and the bytes between them. */
static void add_texts(struct writer *w, const struct bytes *texts, size_t count)
{
	_cleanup_(mem_freep) int32_t *offsets = mem_alloc_array(count + 1, sizeof(*offsets));
	_cleanup_(buffer_release) struct buffer all = {.max = INT32_MAX};
	if (!offsets) {
		buffer_fail(w->out, -ENOMEM);
		return;
	}
	offsets[0] = 0;
	for (size_t i = 0; i < count; i++) {
		buffer_append(&all, texts[i].data, texts[i].len);
		offsets[i + 1] = (int32_t)all.len;
	}
	add_buffer(w, offsets, (count + 1) * sizeof(*offsets));
	add_buffer(w, all.data, all.len);
	buffer_fail(w->out, buffer_status(&all));
}

/* The numbers of a dictionary's texts, in the width that its type has. */
static void add_indexes(struct writer *w, const struct arrow_column *column)
{
	enum arrow_kind kind = index_of(column);
	size_t size = (size_t)bits_of(kind) / 8;
	const uint32_t *from = column->values;
	if (size == sizeof(*from)) {
		add_buffer(w, from, w->rows * size);
		return;
	}
	_cleanup_(mem_freep) uint8_t *narrow = mem_alloc_array(w->rows, size);
	if (!narrow) {
		buffer_fail(w->out, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < w->rows; i++)
		memcpy(narrow + i * size, &from[i], size); /* little endian, as all of the stream */
	add_buffer(w, narrow, w->rows * size);
}

static void add_column(struct writer *w, const struct arrow_column *column)
{
	size_t nulls = 0, rows = w->rows;
	for (size_t i = 0; column->present && i < rows; i++)
		nulls += !column->present[i];
	add_node(w, rows, nulls);
	if (nulls)
		add_bits(w, column->present, rows);
	else
		add_buffer(w, NULL, 0);
	if (column->kind == ARROW_BOOL) {
		add_bits(w, column->values, rows);
	} else if (column->kind == ARROW_BINARY || column->kind == ARROW_UTF8) {
		add_texts(w, column->values, rows);
	} else if (column->kind == ARROW_DICTIONARY) {
		add_indexes(w, column);
	} else if (column->kind == ARROW_LIST) {
		size_t items = rows ? (size_t)column->offsets[rows] : 0;
		add_buffer(w, column->offsets, (rows + 1) * sizeof(*column->offsets));
		add_node(w, items, 0);
		add_buffer(w, NULL, 0);
		add_buffer(w, column->values, items * (size_t)bits_of(column->item) / 8);
	} else {
		add_buffer(w, column->values, rows * (size_t)bits_of(column->kind) / 8);
	}
}

/* RecordBatch { 0 length  1 nodes  2 buffers } */
static size_t write_batch(struct writer *w, size_t rows)
{
	int64_t length = (int64_t)rows;
	size_t buffers = flat_pairs(&w->flat, w->buffers, w->buffer_count);
	size_t nodes = flat_pairs(&w->flat, w->nodes, w->node_count);
	table_begin(&w->flat);
	table_scalar(&w->flat, 0, &length, 8);
	table_refer(&w->flat, 1, nodes);
	table_refer(&w->flat, 2, buffers);
	return table_end(&w->flat);
}

/* DictionaryBatch { 0 id  1 data } */
static void write_dictionary(struct writer *w, const struct arrow_column *column, size_t number)
{
	int64_t id = (int64_t)number;
	add_node(w, column->text_count, 0);
	add_buffer(w, NULL, 0);
	add_texts(w, column->texts, column->text_count);
	size_t batch = write_batch(w, column->text_count);
	table_begin(&w->flat);
	table_scalar(&w->flat, 0, &id, 8);
	table_refer(&w->flat, 1, batch);
	write_message(w, ARROW_HEADER_DICTIONARY, table_end(&w->flat));
}

/* ---- streams ---- */

static struct writer *writer_free(struct writer *w)
{
	if (w) {
		buffer_release(&w->body);
		mem_free(w->flat.data);
	}
	return mem_free(w);
}
DEFINE_CLEANUP_POINTER(writer_free, struct writer);

static int writer_new(const struct arrow_column *columns, size_t column_count, size_t rows, struct buffer *out,
		      struct writer **ret, struct error *err)
{
	if (column_count > COLUMNS_MAX)
		return error_set(err, -EINVAL, "more than %d columns", COLUMNS_MAX);
	struct writer *w = mem_zalloc(sizeof(*w));
	if (!w)
		return error_nomem(err);
	*w = (struct writer){.out = out, .columns = columns, .column_count = column_count, .rows = rows, .flat.out = out};
	buffer_init(&w->body, out->max);
	*ret = w;
	return 0;
}

static int written(const struct buffer *out, struct error *err)
{
	int r = buffer_status(out);
	return r == -E2BIG ? error_set(err, r, "the table is too large") : r < 0 ? error_nomem(err) : 0;
}

static void write_records(struct writer *w)
{
	for (size_t i = 0; i < w->column_count; i++)
		add_column(w, &w->columns[i]);
	write_message(w, ARROW_HEADER_RECORDS, write_batch(w, w->rows));
}

int arrow_write_end(struct buffer *out, struct error *err)
{
	static const uint32_t end[2] = {UINT32_MAX, 0};
	buffer_append(out, end, sizeof(end));
	return written(out, err);
}

int arrow_write_stream(const struct arrow_column *columns, size_t column_count, size_t rows, struct buffer *out,
		       struct error *err)
{
	_cleanup_(writer_freep) struct writer *w = NULL;
	int r = writer_new(columns, column_count, rows, out, &w, err);
	if (r < 0)
		return r;
	write_schema(w);
	for (size_t i = 0; i < column_count; i++)
		if (columns[i].kind == ARROW_DICTIONARY)
			write_dictionary(w, &columns[i], i);
	write_records(w);
	return arrow_write_end(out, err);
}

int arrow_write_schema(const struct arrow_column *columns, size_t column_count, const struct arrow_fact *facts,
		       size_t fact_count, struct buffer *out, struct error *err)
{
	_cleanup_(writer_freep) struct writer *w = NULL;
	for (size_t i = 0; i < column_count; i++)
		if (columns[i].kind == ARROW_DICTIONARY)
			return error_set(err, -EINVAL, "column %s has a dictionary, and batches have none", columns[i].name);
	if (fact_count > FACTS_MAX)
		return error_set(err, -EINVAL, "more than %d facts", FACTS_MAX);
	int r = writer_new(columns, column_count, 0, out, &w, err);
	if (r < 0)
		return r;
	w->facts = facts;
	w->fact_count = fact_count;
	write_schema(w);
	return written(out, err);
}

int arrow_write_batch(const struct arrow_column *columns, size_t column_count, size_t rows, struct buffer *out,
		      struct error *err)
{
	_cleanup_(writer_freep) struct writer *w = NULL;
	int r = writer_new(columns, column_count, rows, out, &w, err);
	if (r < 0)
		return r;
	write_records(w);
	return written(out, err);
}
