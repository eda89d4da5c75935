/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading Arrow IPC streams (https://arrow.apache.org/docs/format/Columnar.html, "Serialization and Interprocess
 * Communication"; the messages' tables are in the Arrow repository, format/Message.fbs). What a stream consists of is given by
 * arrow_write.c; its tables, by number of field:
 *
 *   Message           0 version  1 header_type (1 schema, 2 dictionary, 3 batch)  2 header  3 bodyLength
 *   DictionaryBatch   0 id  1 data (a RecordBatch of one column)  2 isDelta
 *   RecordBatch       0 length  1 nodes[]  2 buffers[]  3 compression  4 variadicBufferCounts[]
 *   BodyCompression   0 codec (0 LZ4 frames, 1 zstd)  1 method (0 = each buffer by itself)
 *
 * A batch is the tree of its fields, walked parents first: each takes the next node (how many values, how many nulls), and the
 * next buffers, which tell where in the body they are. What comes out is a tree of arrays that look into the body. A compressed
 * buffer begins with its length (8 bytes; -1 = it is not compressed) and is unpacked into the stream's arena.
 *
 *   type                       buffers                            children
 *   fixed width, bool          validity, values
 *   texts, binaries            validity, offsets, values
 *   ... views                  validity, views, and as many more as variadicBufferCounts says
 *   lists                      validity, offsets                  items
 *   list views                 validity, offsets, sizes           items
 *   struct, fixed size list    validity                           its fields, items
 *   run-end encoded                                               run ends, values
 *   null
 *   in a dictionary            validity, indices                  (none: they come with the dictionary)
 *
 * A dictionary batch adds to the values of its dictionary or takes their place; dictionaries of values that are in dictionaries
 * themselves are found when a value is asked for, so the order in which they come does not matter.
 *
 * Hostile input. Counts are bounded by the bytes that they are about, except the lengths of arrays that need none (null,
 * run-end encoded, a struct without fields): whoever walks rows bounds those. Offsets, sizes, views and indices are checked
 * when they are used: an array that is never asked costs nothing. Everything comes from one arena with a limit.
 */
#include "codec/arrow/arrow_read.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "codec/arrow/arrow_read_int.h"
#include "codec/compress.h"

#define CODEC_LZ4  0
#define CODEC_ZSTD 1
#define CODEC_NONE 2
#define CHUNKS_MAX 65536
#define LENGTH_MAX UINT32_MAX

int arrow_malformed(struct error *err, const char *what)
{
	return error_set(err, -EBADMSG, "the Arrow stream is malformed: %s", what);
}

int arrow_alloc(struct arrow_stream *stream, size_t count, size_t size, void *ret, struct error *err)
{
	void *memory = NULL;
	if (count && count > SIZE_MAX / 2 / size)
		return error_set(err, -E2BIG, "the Arrow stream is too large");
	if (count && !(memory = arena_zalloc(&stream->arena, count * size)))
		return arena_is_full(&stream->arena, count * size) ? error_set(err, -E2BIG, "the Arrow stream is too large")
								   : error_nomem(err);
	*(void **)ret = memory;
	return 0;
}

/* ---- batches ---- */

struct batch_reader {
	struct arrow_stream *stream;
	struct flat_reader *flat;
	struct bytes body;
	size_t nodes, node_count, buffers, buffer_count, variadic, variadic_count; /* vectors: where, and how much is left */
	unsigned codec;
};

static int unpack(struct batch_reader *reader, struct bytes *buffer, struct error *err)
{
	int64_t length;
	if (buffer->len < sizeof(length))
		return arrow_malformed(err, "a compressed buffer without its length");
	memcpy(&length, buffer->data, sizeof(length));
	buffer->data += sizeof(length);
	buffer->len -= sizeof(length);
	if (length == -1)
		return 0;
	if (length < 0)
		return arrow_malformed(err, "a compressed buffer of a negative length");
	uint8_t *unpacked;
	int r = arrow_alloc(reader->stream, (size_t)length, 1, &unpacked, err);
	if (r == 0 && length && reader->codec == CODEC_ZSTD)
		r = zstd_decompress_exactly(&reader->stream->zstd, *buffer, unpacked, (size_t)length, err);
	else if (r == 0 && length)
		r = lz4_decompress_exactly(*buffer, unpacked, (size_t)length, err);
	*buffer = (struct bytes){unpacked, (size_t)length};
	return r;
}

static int next_buffer(struct batch_reader *reader, struct bytes *ret, struct error *err)
{
	if (reader->buffer_count == 0)
		return arrow_malformed(err, "a batch has fewer buffers than its fields need");
	uint64_t at = flat_number(reader->flat, reader->buffers, 8), len = flat_number(reader->flat, reader->buffers + 8, 8);
	reader->buffers += 16;
	reader->buffer_count--;
	*ret = (struct bytes){0};
	if (len == 0)
		return 0;
	if (at > reader->body.len || len > reader->body.len - at)
		return arrow_malformed(err, "a buffer is outside of its body");
	*ret = (struct bytes){reader->body.data + at, len};
	return reader->codec == CODEC_NONE ? 0 : unpack(reader, ret, err);
}

static int next_node(struct batch_reader *reader, struct arrow_array *array, uint64_t *ret_nulls, struct error *err)
{
	if (reader->node_count == 0)
		return arrow_malformed(err, "a batch has fewer nodes than its fields need");
	uint64_t length = flat_number(reader->flat, reader->nodes, 8);
	*ret_nulls = flat_number(reader->flat, reader->nodes + 8, 8);
	reader->nodes += 16;
	reader->node_count--;
	if (length > LENGTH_MAX)
		return error_set(err, -E2BIG, "an Arrow array of more than %u values", LENGTH_MAX);
	array->length = length;
	array->id = reader->stream->arrays_seen++;
	return 0;
}

static int read_array(struct batch_reader *reader, const struct arrow_field *field, bool values, struct arrow_array *array,
		      struct error *err);

static int read_children(struct batch_reader *reader, struct arrow_array *array, struct error *err)
{
	struct arrow_array *children;
	size_t count = array->field->child_count;
	int r = arrow_alloc(reader->stream, count, sizeof(*children), &children, err);
	for (size_t i = 0; i < count && r == 0; i++)
		r = read_array(reader, &array->field->children[i], false, &children[i], err);
	array->children = children;
	return r;
}

static int check_runs(const struct arrow_array *array, struct error *err)
{
	const struct arrow_array *ends = &array->children[0];
	int64_t before = 0;
	for (size_t i = 0; i < ends->length; i++) {
		int64_t end = arrow_number_at(ends->values, i, ends->field->width, true);
		if (end <= before)
			return arrow_malformed(err, "run ends do not increase");
		before = end;
	}
	if ((uint64_t)before < array->length || array->children[1].length < ends->length)
		return arrow_malformed(err, "run ends and values do not cover the array");
	return 0;
}

static int read_views(struct batch_reader *reader, struct arrow_array *array, struct error *err)
{
	struct bytes *views;
	if (reader->variadic_count == 0)
		return arrow_malformed(err, "a batch has views but no buffer counts");
	uint64_t count = flat_number(reader->flat, reader->variadic, 8);
	reader->variadic += 8;
	reader->variadic_count--;
	if (count > reader->buffer_count)
		return arrow_malformed(err, "a batch has fewer buffers than its fields need");
	int r = arrow_alloc(reader->stream, count, sizeof(*views), &views, err);
	for (size_t i = 0; i < count && r == 0; i++)
		r = next_buffer(reader, &views[i], err);
	array->views = views;
	array->view_count = count;
	return r;
}

/* What there must be of a buffer for the values that the array is said to have. */
static int check_size(const struct arrow_array *array, struct bytes buffer, size_t more, size_t width, struct error *err)
{
	size_t length = array->length;
	if (length && buffer.len < (length + more) * width)
		return error_set(err, -EBADMSG, "the Arrow stream is malformed: \"%.60s\" has fewer bytes than its values need",
				 array->field->name);
	return 0;
}

static int read_bits(const struct arrow_array *array, struct bytes bits, struct error *err)
{
	return bits.len < array->length / 8 + (array->length % 8 != 0)
		       ? error_set(err, -EBADMSG, "the Arrow stream is malformed: \"%.60s\" has fewer bits than values",
				   array->field->name)
		       : 0;
}

static int read_validity(struct batch_reader *reader, struct arrow_array *array, uint64_t nulls, struct error *err)
{
	int r = next_buffer(reader, &array->validity, err);
	if (nulls == 0)
		array->validity = (struct bytes){0};
	return r < 0 || nulls == 0 ? r : read_bits(array, array->validity, err);
}

/* One buffer of so many bytes a value, and `more` values beyond. */
static int read_buffer(struct batch_reader *reader, const struct arrow_array *array, struct bytes *ret, size_t more,
		       size_t width, struct error *err)
{
	int r = next_buffer(reader, ret, err);
	return r < 0 ? r : check_size(array, *ret, more, width, err);
}

static int read_texts(struct batch_reader *reader, struct arrow_array *array, size_t offset_width, struct error *err)
{
	int r = read_buffer(reader, array, &array->offsets, 1, offset_width, err);
	return r < 0 ? r : next_buffer(reader, &array->values, err);
}

static int read_list_view(struct batch_reader *reader, struct arrow_array *array, size_t width, struct error *err)
{
	int r = read_buffer(reader, array, &array->offsets, 0, width, err);
	if (r == 0)
		r = read_buffer(reader, array, &array->sizes, 0, width, err);
	return r < 0 ? r : read_children(reader, array, err);
}

static int read_list(struct batch_reader *reader, struct arrow_array *array, size_t width, struct error *err)
{
	int r = read_buffer(reader, array, &array->offsets, 1, width, err);
	return r < 0 ? r : read_children(reader, array, err);
}

static int read_values(struct batch_reader *reader, struct arrow_array *array, struct error *err)
{
	int r;
	switch (array->field->type) {
	case ARROW_TYPE_BOOL:
		r = next_buffer(reader, &array->values, err);
		return r < 0 ? r : read_bits(array, array->values, err);
	case ARROW_TYPE_BINARY:
	case ARROW_TYPE_UTF8: return read_texts(reader, array, 4, err);
	case ARROW_TYPE_LARGE_BINARY:
	case ARROW_TYPE_LARGE_UTF8: return read_texts(reader, array, 8, err);
	case ARROW_TYPE_BINARY_VIEW:
	case ARROW_TYPE_UTF8_VIEW:
		r = read_buffer(reader, array, &array->values, 0, 16, err);
		return r < 0 ? r : read_views(reader, array, err);
	case ARROW_TYPE_LIST:
	case ARROW_TYPE_MAP: return read_list(reader, array, 4, err);
	case ARROW_TYPE_LARGE_LIST: return read_list(reader, array, 8, err);
	case ARROW_TYPE_LIST_VIEW: return read_list_view(reader, array, 4, err);
	case ARROW_TYPE_LARGE_LIST_VIEW: return read_list_view(reader, array, 8, err);
	case ARROW_TYPE_STRUCT:
	case ARROW_TYPE_FIXED_SIZE_LIST: return read_children(reader, array, err);
	default: return read_buffer(reader, array, &array->values, 0, array->field->width, err);
	}
}

/* values: the field's values themselves, though the field has them in a dictionary. */
static int read_array(struct batch_reader *reader, const struct arrow_field *field, bool values, struct arrow_array *array,
		      struct error *err)
{
	uint64_t nulls = 0;
	*array = (struct arrow_array){.field = field};
	int r = next_node(reader, array, &nulls, err);
	if (r < 0)
		return r;
	if (field->in_dictionary && !values) {
		array->dictionary = arrow_find_dictionary(reader->stream, field->dictionary_id);
		r = read_validity(reader, array, nulls, err);
		return r < 0 ? r : read_buffer(reader, array, &array->values, 0, field->index_width, err);
	}
	if (field->type == ARROW_TYPE_NULL)
		return 0;
	if (field->type == ARROW_TYPE_RUN_END_ENCODED) {
		r = read_children(reader, array, err);
		return r < 0 ? r : check_runs(array, err);
	}
	r = read_validity(reader, array, nulls, err);
	return r < 0 ? r : read_values(reader, array, err);
}

static int batch_open(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *batch, struct bytes body,
		      struct batch_reader *ret, struct error *err)
{
	*ret = (struct batch_reader){.stream = stream, .flat = flat, .body = body, .codec = CODEC_NONE};
	ret->nodes = flat_get_vector(flat, batch, 1, 16, &ret->node_count);
	ret->buffers = flat_get_vector(flat, batch, 2, 16, &ret->buffer_count);
	ret->variadic = flat_get_vector(flat, batch, 4, 8, &ret->variadic_count);
	struct flat_table compression = flat_get_table(flat, batch, 3);
	if (compression.at)
		ret->codec = (unsigned)flat_get(flat, &compression, 0, 1, CODEC_LZ4);
	if (flat->bad || !batch->at)
		return arrow_malformed(err, "bad batch header");
	if (compression.at && (ret->codec > CODEC_ZSTD || flat_get(flat, &compression, 1, 1, 0) != 0))
		return error_set(err, -EBADMSG, "unsupported compression of the Arrow stream: expected LZ4 frames or zstd");
	return 0;
}

/* ---- messages ---- */

static int read_dictionary(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *head,
			   struct bytes body, struct error *err)
{
	struct batch_reader reader;
	struct arrow_array *array;
	struct arrow_dictionary *dictionary = arrow_find_dictionary(stream, (int64_t)flat_get(flat, head, 0, 8, 0));
	struct flat_table batch = flat_get_table(flat, head, 1);
	if (!dictionary)
		return arrow_malformed(err, "a dictionary that no field uses");
	int r = batch_open(stream, flat, &batch, body, &reader, err);
	if (r == 0)
		r = arrow_alloc(stream, 1, sizeof(*array), &array, err);
	if (r == 0)
		r = read_array(&reader, dictionary->field, true, array, err);
	if (r < 0)
		return r;
	if (!flat_get(flat, head, 2, 1, 0))
		dictionary->chunk_count = dictionary->length = 0;
	r = array_push(&dictionary->chunks, &dictionary->chunk_count, &dictionary->chunk_capacity, CHUNKS_MAX,
		       (struct arrow_chunk){dictionary->length, array});
	if (r < 0)
		return r == -E2BIG ? error_set(err, r, "more than %d delta batches of an Arrow dictionary", CHUNKS_MAX)
				   : error_nomem(err);
	dictionary->length += array->length;
	return 0;
}

static int read_records(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *batch,
			struct bytes body, const struct arrow_array **ret, size_t *ret_rows, struct error *err)
{
	struct batch_reader reader;
	struct arrow_array *columns;
	uint64_t rows = flat_get(flat, batch, 0, 8, 0);
	int r = batch_open(stream, flat, batch, body, &reader, err);
	if (r == 0)
		r = arrow_alloc(stream, stream->field_count, sizeof(*columns), &columns, err);
	for (size_t i = 0; i < stream->field_count && r == 0; i++) {
		r = read_array(&reader, &stream->fields[i], false, &columns[i], err);
		if (r == 0 && columns[i].length != rows)
			r = error_set(err, -EBADMSG,
				      "the Arrow stream is malformed: \"%.60s\" has a different number of rows than its batch",
				      stream->fields[i].name);
	}
	if (r < 0)
		return r;
	*ret = columns;
	*ret_rows = rows;
	return 1;
}

struct message {
	struct flat_reader flat;
	struct flat_table header;
	unsigned type;
	struct bytes body;
};

/* 1, or 0 at the end. */
static int next_message(struct arrow_stream *stream, struct message *ret, struct error *err)
{
	uint32_t prefix[2];
	struct bytes *input = &stream->input;
	if (input->len == 0)
		return 0;
	if (input->len < sizeof(prefix))
		return arrow_malformed(err, "it is truncated within a message");
	memcpy(prefix, input->data, sizeof(prefix));
	if (prefix[0] != UINT32_MAX)
		return arrow_malformed(err, "a message does not begin with ff ff ff ff");
	if (prefix[1] == 0)
		return 0;
	if (prefix[1] > input->len - sizeof(prefix))
		return arrow_malformed(err, "it is truncated within a message");
	*ret = (struct message){.flat.bytes = {input->data + sizeof(prefix), prefix[1]}};
	struct bytes rest = {ret->flat.bytes.data + prefix[1], input->len - sizeof(prefix) - prefix[1]};
	struct flat_table message = flat_root(&ret->flat);
	ret->type = (unsigned)flat_get(&ret->flat, &message, 1, 1, 0);
	ret->header = flat_get_table(&ret->flat, &message, 2);
	uint64_t body = flat_get(&ret->flat, &message, 3, 8, 0);
	if (ret->flat.bad || !ret->header.at)
		return arrow_malformed(err, "bad message header");
	if (body > rest.len)
		return arrow_malformed(err, "it is truncated within the body of a message");
	ret->body = (struct bytes){rest.data, body};
	*input = (struct bytes){rest.data + body, rest.len - body};
	return 1;
}

int arrow_stream_open(struct bytes input, size_t memory_max, struct arrow_stream **ret, struct error *err)
{
	_cleanup_(arrow_stream_freep) struct arrow_stream *stream = mem_zalloc(sizeof(*stream));
	struct message message;
	if (!stream)
		return error_nomem(err);
	stream->input = input;
	arena_init(&stream->arena, memory_max);
	int r = next_message(stream, &message, err);
	if (r == 0)
		r = arrow_malformed(err, "it is empty");
	if (r > 0 && message.type != ARROW_HEADER_SCHEMA)
		r = arrow_malformed(err, "it does not begin with a schema");
	if (r > 0)
		r = arrow_read_schema(stream, &message.flat, &message.header, err);
	if (r < 0)
		return r;
	*ret = TAKE(stream);
	return 0;
}

int arrow_stream_next(struct arrow_stream *stream, const struct arrow_array **ret_columns, size_t *ret_rows, struct error *err)
{
	struct message message;
	int r;
	while ((r = next_message(stream, &message, err)) > 0) {
		if (message.type == ARROW_HEADER_RECORDS)
			return read_records(stream, &message.flat, &message.header, message.body, ret_columns, ret_rows, err);
		if (message.type != ARROW_HEADER_DICTIONARY)
			return arrow_malformed(err, "a message that is neither a dictionary nor a batch");
		r = read_dictionary(stream, &message.flat, &message.header, message.body, err);
		if (r < 0)
			return r;
	}
	return r;
}

struct arrow_stream *arrow_stream_free(struct arrow_stream *stream)
{
	if (!stream)
		return NULL;
	for (size_t i = 0; i < stream->dictionary_count; i++)
		mem_free(stream->dictionaries[i].chunks);
	mem_free(stream->dictionaries);
	map64_release(&stream->dictionary_numbers);
	zstd_stream_release(&stream->zstd);
	arena_release(&stream->arena);
	return mem_free(stream);
}

const struct arrow_field *arrow_stream_fields(const struct arrow_stream *stream, size_t *ret_count)
{
	*ret_count = stream->field_count;
	return stream->fields;
}

bool arrow_stream_metadata(const struct arrow_stream *stream, const char *key, struct bytes *ret)
{
	for (size_t i = 0; i < stream->metadata_count; i++)
		if (bytes_equal_string(stream->metadata[i].key, key)) {
			*ret = stream->metadata[i].value;
			return true;
		}
	return false;
}

size_t arrow_stream_memory(const struct arrow_stream *stream)
{
	return stream->arena.used_bytes;
}
