/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas of Arrow streams (the Arrow repository, format/Schema.fbs; by number of field):
 *
 *   Schema               0 endianness (0 = little)  1 fields[]  2 custom_metadata[]
 *   Field                0 name  2 type_type  3 type  4 dictionary  5 children[]
 *   DictionaryEncoding   0 id  1 indexType (an Int; 32 bits, signed, if absent)
 *   KeyValue             0 key  1 value
 *   Int                  0 bitWidth  1 is_signed              FloatingPoint      0 precision (half, single, double)
 *   FixedSizeBinary      0 byteWidth                          FixedSizeList      0 listSize
 *   Timestamp, Duration  0 unit (s, ms, us, ns)               Time               0 unit  1 bitWidth
 *   Decimal              2 bitWidth                           Date               0 unit (days, ms)
 *   Interval             0 unit (year-month, day-time, month-day-nano)
 *
 * Several fields may have one dictionary, if they are alike to the last child: then a value can be read as any of them. Such
 * a comparison is as long as the smaller of the two, and there are at most FIELDS_MAX of them.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "codec/arrow/arrow_read_int.h"

#define FIELDS_MAX   4096
#define LEVELS_MAX   64
#define METADATA_MAX 1024

static int read_int(struct flat_reader *flat, const struct flat_table *type, unsigned *ret_width, bool *ret_signed)
{
	uint64_t bits = flat_get(flat, type, 0, 4, 0);
	*ret_signed = flat_get(flat, type, 1, 1, 0) != 0;
	*ret_width = (unsigned)(bits / 8);
	return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? 0 : -EBADMSG;
}

static int read_unit(struct flat_reader *flat, const struct flat_table *type, uint64_t absent, int64_t *ret)
{
	static const int64_t units[] = {1000000000, 1000000, 1000, 1};
	uint64_t unit = flat_get(flat, type, 0, 2, absent);
	if (unit >= sizeof(units) / sizeof(units[0]))
		return -EBADMSG;
	*ret = units[unit];
	return 0;
}

/* A width of bytes or of bits that whole bytes come to. */
static int set_width(struct arrow_field *field, uint64_t bytes, uint64_t max)
{
	field->width = (unsigned)bytes;
	return bytes > max ? -EBADMSG : 0;
}

static bool is_leaf(enum arrow_type type)
{
	switch (type) {
	case ARROW_TYPE_LIST:
	case ARROW_TYPE_STRUCT:
	case ARROW_TYPE_FIXED_SIZE_LIST:
	case ARROW_TYPE_MAP:
	case ARROW_TYPE_LARGE_LIST:
	case ARROW_TYPE_RUN_END_ENCODED:
	case ARROW_TYPE_LIST_VIEW:
	case ARROW_TYPE_LARGE_LIST_VIEW: return false;
	default: return true;
	}
}

static int read_type(struct flat_reader *flat, const struct flat_table *type, struct arrow_field *field)
{
	uint64_t unit;
	if (field->child_count && is_leaf(field->type))
		return -EBADMSG;
	switch (field->type) {
	case ARROW_TYPE_NULL:
	case ARROW_TYPE_BINARY:
	case ARROW_TYPE_UTF8:
	case ARROW_TYPE_BOOL:
	case ARROW_TYPE_LARGE_BINARY:
	case ARROW_TYPE_LARGE_UTF8:
	case ARROW_TYPE_BINARY_VIEW:
	case ARROW_TYPE_UTF8_VIEW:
	case ARROW_TYPE_STRUCT: return 0;
	case ARROW_TYPE_LIST:
	case ARROW_TYPE_MAP:
	case ARROW_TYPE_LARGE_LIST:
	case ARROW_TYPE_LIST_VIEW:
	case ARROW_TYPE_LARGE_LIST_VIEW: return field->child_count == 1 ? 0 : -EBADMSG;
	case ARROW_TYPE_RUN_END_ENCODED:
		return field->child_count == 2 && field->children[0].type == ARROW_TYPE_INT && field->children[0].is_signed &&
				       !field->children[0].in_dictionary
			       ? 0
			       : -EBADMSG;
	case ARROW_TYPE_INT: return read_int(flat, type, &field->width, &field->is_signed);
	case ARROW_TYPE_FLOAT:
		unit = flat_get(flat, type, 0, 2, 0);
		return unit > 2 ? -EBADMSG : set_width(field, 2ull << unit, 8);
	case ARROW_TYPE_DECIMAL: return set_width(field, flat_get(flat, type, 2, 4, 128) / 8, 32);
	case ARROW_TYPE_DATE: return set_width(field, flat_get(flat, type, 0, 2, 1) ? 8 : 4, 8);
	case ARROW_TYPE_TIME: return set_width(field, flat_get(flat, type, 1, 4, 32) / 8, 8);
	case ARROW_TYPE_INTERVAL:
		unit = flat_get(flat, type, 0, 2, 0);
		return unit > 2 ? -EBADMSG : set_width(field, 4ull << unit, 16);
	case ARROW_TYPE_TIMESTAMP:
	case ARROW_TYPE_DURATION:
		field->width = 8;
		field->is_signed = true;
		return read_unit(flat, type, field->type == ARROW_TYPE_DURATION, &field->unit_ns);
	case ARROW_TYPE_FIXED_SIZE_BINARY: return set_width(field, flat_get(flat, type, 0, 4, 0), INT32_MAX);
	case ARROW_TYPE_FIXED_SIZE_LIST:
		return field->child_count == 1 ? set_width(field, flat_get(flat, type, 0, 4, 0), INT32_MAX) : -EBADMSG;
	}
	return -EBADMSG;
}

static bool are_alike(const struct arrow_field *a, const struct arrow_field *b, bool top)
{
	if (a->type != b->type || a->width != b->width || a->is_signed != b->is_signed || a->unit_ns != b->unit_ns ||
	    a->child_count != b->child_count)
		return false;
	if (!top && (a->in_dictionary != b->in_dictionary || a->dictionary_id != b->dictionary_id))
		return false;
	for (size_t i = 0; i < a->child_count; i++)
		if (strcmp(a->children[i].name, b->children[i].name) != 0 ||
		    !are_alike(&a->children[i], &b->children[i], false))
			return false;
	return true;
}

struct arrow_dictionary *arrow_find_dictionary(struct arrow_stream *stream, int64_t id)
{
	uint64_t number;
	return map64_get(&stream->dictionary_numbers, (uint64_t)id, &number) ? &stream->dictionaries[number] : NULL;
}

/* Arrays point to dictionaries, but none is there before the schema is read, so these may move until then. */
static int add_dictionary(struct arrow_stream *stream, const struct arrow_field *field, struct error *err)
{
	const struct arrow_dictionary *known = arrow_find_dictionary(stream, field->dictionary_id);
	if (known)
		return are_alike(known->field, field, true)
			       ? 0
			       : error_set(err, -EBADMSG, "fields of different types share the dictionary %lld",
					   (long long)field->dictionary_id);
	if (array_reserve(&stream->dictionaries, &stream->dictionary_capacity, stream->dictionary_count + 1, FIELDS_MAX) < 0 ||
	    map64_put(&stream->dictionary_numbers, (uint64_t)field->dictionary_id, stream->dictionary_count) < 0)
		return error_nomem(err);
	stream->dictionaries[stream->dictionary_count++] = (struct arrow_dictionary){.field = field};
	return 0;
}

static int read_dictionary(struct flat_reader *flat, const struct flat_table *encoding, struct arrow_field *field)
{
	struct flat_table index = flat_get_table(flat, encoding, 1);
	field->in_dictionary = true;
	field->dictionary_id = (int64_t)flat_get(flat, encoding, 0, 8, 0);
	field->index_width = 4;
	field->index_signed = true;
	return index.at ? read_int(flat, &index, &field->index_width, &field->index_signed) : 0;
}

static int read_fields(struct arrow_stream *stream, struct flat_reader *flat, size_t vector, size_t count, unsigned level,
		       struct arrow_field **ret, struct error *err);

static int read_field(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *table, unsigned level,
		      struct arrow_field *field, struct error *err)
{
	struct bytes name = flat_get_text(flat, table, 0);
	struct flat_table type = flat_get_table(flat, table, 3), encoding = flat_get_table(flat, table, 4);
	size_t count, children = flat_get_vector(flat, table, 5, 4, &count);
	if (flat->bad || !table->at)
		return arrow_malformed(err, "bad schema");
	field->type = (enum arrow_type)flat_get(flat, table, 2, 1, 0);
	field->name = arena_strndup(&stream->arena, (const char *)name.data, name.len);
	if (!field->name)
		return arena_is_full(&stream->arena, name.len) ? error_set(err, -E2BIG, "the Arrow stream is too large")
							       : error_nomem(err);
	int r = read_fields(stream, flat, children, count, level + 1, &field->children, err);
	field->child_count = count;
	if (r == 0 && read_type(flat, &type, field) < 0)
		r = error_set(err, -EBADMSG, "the Arrow field \"%.60s\" has an unsupported type (%d)", field->name,
			      (int)field->type);
	if (r == 0 && encoding.at && read_dictionary(flat, &encoding, field) < 0)
		r = error_set(err, -EBADMSG, "the Arrow field \"%.60s\" has indexes that are not integers", field->name);
	return r;
}

static int read_fields(struct arrow_stream *stream, struct flat_reader *flat, size_t vector, size_t count, unsigned level,
		       struct arrow_field **ret, struct error *err)
{
	if (level > LEVELS_MAX || count > FIELDS_MAX - stream->fields_seen)
		return error_set(err, -E2BIG, "an Arrow schema of more than %d fields or %d levels", FIELDS_MAX, LEVELS_MAX);
	stream->fields_seen += count;
	int r = arrow_alloc(stream, count, sizeof(**ret), ret, err);
	for (size_t i = 0; i < count && r == 0; i++) {
		struct flat_table table = flat_item(flat, vector, i);
		r = read_field(stream, flat, &table, level, &(*ret)[i], err);
		if (r == 0 && (*ret)[i].in_dictionary)
			r = add_dictionary(stream, &(*ret)[i], err);
	}
	return r;
}

static int read_metadata(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *schema,
			 struct error *err)
{
	size_t vector = flat_get_vector(flat, schema, 2, 4, &stream->metadata_count);
	if (stream->metadata_count > METADATA_MAX)
		return error_set(err, -E2BIG, "an Arrow schema with more than %d values of metadata", METADATA_MAX);
	int r = arrow_alloc(stream, stream->metadata_count, sizeof(*stream->metadata), &stream->metadata, err);
	for (size_t i = 0; i < stream->metadata_count && r == 0; i++) {
		struct flat_table pair = flat_item(flat, vector, i);
		stream->metadata[i] = (struct arrow_pair){flat_get_text(flat, &pair, 0), flat_get_text(flat, &pair, 1)};
	}
	return r;
}

int arrow_read_schema(struct arrow_stream *stream, struct flat_reader *flat, const struct flat_table *schema, struct error *err)
{
	if (flat_get(flat, schema, 0, 2, 0) != 0)
		return error_set(err, -EBADMSG, "the Arrow stream is big-endian");
	size_t vector = flat_get_vector(flat, schema, 1, 4, &stream->field_count);
	int r = read_fields(stream, flat, vector, stream->field_count, 0, &stream->fields, err);
	if (r == 0)
		r = read_metadata(stream, flat, schema, err);
	return r == 0 && flat->bad ? arrow_malformed(err, "bad schema") : r;
}
