/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JFR: chunks, metadata, constants and values. Values are not turned into objects: where a constant lies is remembered, and a
 * field of it is found by walking over the ones before it. What is walked over is bounded by a number of steps for each chunk,
 * since classes may contain each other and so make little input mean many fields.
 */
#include "format/jfr/jfr_int.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

#define HEADER_BYTES	68
#define DEPTH_MAX	32 /* of objects in objects, and of elements of the metadata */
#define STEPS_A_BYTE	16
#define STEPS_MIN	4096 /* little: a file may have a chunk every hundred bytes */
#define STRINGS_MAX	(1u << 20)
#define CLASSES_MAX	65536
#define FIELDS_MAX	(1u << 20)
#define TYPE_METADATA	0
#define TYPE_CHECKPOINT 1

enum string_encoding {
	STRING_NULL,
	STRING_EMPTY,
	STRING_CONSTANT,
	STRING_UTF8,
	STRING_CHARS,
	STRING_LATIN1,
};

/* ---- numbers ---- */

const uint8_t *jfr_take(struct jfr_cursor *cursor, uint64_t len)
{
	const uint8_t *at = cursor->at;
	if (cursor->bad || len > (size_t)(cursor->end - cursor->at)) {
		cursor->bad = true;
		return NULL;
	}
	cursor->at += len;
	return at;
}

uint64_t jfr_take_fixed(struct jfr_cursor *cursor, unsigned bytes)
{
	const uint8_t *at = jfr_take(cursor, bytes);
	uint64_t value = 0;
	for (unsigned i = 0; at && i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

/* Seven bits a byte, the lowest first; a ninth byte holds the eight that remain. */
static uint64_t take_leb128(struct jfr_cursor *cursor)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 56; shift += 7) {
		const uint8_t *at = jfr_take(cursor, 1);
		if (!at)
			return 0;
		value |= (uint64_t)(*at & 0x7f) << shift;
		if (!(*at & 0x80))
			return value;
	}
	const uint8_t *last = jfr_take(cursor, 1);
	return last ? value | (uint64_t)*last << 56 : 0;
}

uint64_t jfr_take_number(struct jfr_cursor *cursor, unsigned bytes)
{
	if (cursor->is_compressed)
		return take_leb128(cursor);
	uint64_t value = jfr_take_fixed(cursor, bytes);
	return bytes == 4 ? (uint64_t)(int32_t)value : bytes == 2 ? (uint64_t)(int16_t)value : value;
}

static uint64_t take_int(struct jfr_cursor *cursor)
{
	return (uint32_t)jfr_take_number(cursor, 4);
}

static uint64_t take_long(struct jfr_cursor *cursor)
{
	return jfr_take_number(cursor, 8);
}

static void charge(struct jfr_chunk *chunk, uint64_t steps)
{
	chunk->work -= steps < chunk->work ? steps : chunk->work;
}

static struct jfr_cursor cursor_at(const struct jfr_chunk *chunk, uint64_t at)
{
	struct jfr_cursor cursor = {chunk->bytes.data, chunk->bytes.data + chunk->bytes.len, chunk->is_compressed, false};
	jfr_take(&cursor, at);
	return cursor;
}

/* ---- strings ---- */

/* Takes a string as it lies there: its bytes, of that encoding. A reference to a constant has none, but a key. */
static struct bytes take_string(struct jfr_cursor *cursor, uint8_t *ret_encoding, uint64_t *ret_key)
{
	const uint8_t *encoding = jfr_take(cursor, 1);
	*ret_encoding = encoding ? *encoding : STRING_NULL;
	*ret_key = 0;
	switch (*ret_encoding) {
	case STRING_NULL:
	case STRING_EMPTY: return (struct bytes){0};
	case STRING_CONSTANT: *ret_key = take_long(cursor); return (struct bytes){0};
	case STRING_UTF8:
	case STRING_LATIN1: {
		uint64_t len = take_int(cursor);
		const uint8_t *data = jfr_take(cursor, len);
		return (struct bytes){data, data ? len : 0};
	}
	case STRING_CHARS: {
		uint64_t count = take_int(cursor);
		const uint8_t *data = cursor->at;
		for (uint64_t i = 0; i < count && !cursor->bad; i++)
			jfr_take_number(cursor, 2);
		return (struct bytes){data, (size_t)(cursor->at - data)};
	}
	default: cursor->bad = true; return (struct bytes){0};
	}
}

static int append_code_point(struct buffer *out, uint32_t code)
{
	if (code < 0x80)
		return buffer_append_byte(out, (uint8_t)code);
	uint8_t bytes[4] = {(uint8_t)(0xf0 | code >> 18), (uint8_t)(0x80 | (code >> 12 & 0x3f)),
			    (uint8_t)(0x80 | (code >> 6 & 0x3f)), (uint8_t)(0x80 | (code & 0x3f))};
	size_t skip = code < 0x800 ? 2 : code < 0x10000 ? 1 : 0;
	bytes[skip] = (uint8_t)(skip == 2 ? 0xc0 | code >> 6 : skip == 1 ? 0xe0 | code >> 12 : bytes[0]);
	return buffer_append(out, bytes + skip, 4 - skip);
}

/* UTF-16. */
static int append_chars(struct bytes data, bool is_compressed, struct buffer *out)
{
	struct jfr_cursor chars = {data.data, data.data + data.len, is_compressed, false};
	int r = 0;
	while (r == 0 && chars.at < chars.end) {
		uint32_t code = (uint16_t)jfr_take_number(&chars, 2);
		struct jfr_cursor ahead = chars;
		uint32_t low = code >> 10 == 0x36 && ahead.at < ahead.end ? (uint16_t)jfr_take_number(&ahead, 2) : 0;
		if (low >> 10 == 0x37) {
			code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
			chars = ahead;
		} else if (code >> 11 == 0x1b) {
			code = 0xfffd;
		}
		r = append_code_point(out, code);
	}
	return r;
}

bool jfr_string(struct jfr_chunk *chunk, struct jfr_value value, struct buffer *out)
{
	uint8_t encoding;
	uint64_t key, where;
	buffer_clear(out);
	/* Finding the end of one in UTF-16 is work as well, so none is looked at once there is none left. */
	if (!value.class || value.class->kind != JFR_STRING || value.is_array || chunk->work == 0)
		return false;
	struct bytes data = take_string(&value.at, &encoding, &key);
	if (encoding == STRING_CONSTANT) {
		if (!map64_get(&value.class->constants, key, &where))
			return false;
		value.at = cursor_at(chunk, where);
		data = take_string(&value.at, &encoding, &key);
	}
	/* Many may refer to one constant. */
	charge(chunk, data.len);
	if (value.at.bad || encoding == STRING_NULL || encoding == STRING_CONSTANT || chunk->work == 0)
		return false;
	int r = 0;
	if (encoding == STRING_UTF8)
		r = text_append_utf8(out, data);
	else if (encoding == STRING_CHARS)
		r = append_chars(data, chunk->is_compressed, out);
	else
		for (size_t i = 0; r == 0 && i < data.len; i++)
			r = append_code_point(out, data.data[i]);
	return r == 0;
}

/* ---- metadata ---- */

static struct bytes string_at(const struct jfr_chunk *chunk, uint64_t number)
{
	return number < chunk->string_count ? chunk->strings[number] : (struct bytes){0};
}

static enum jfr_kind kind_of(struct bytes name)
{
	static const struct {
		const char *name;
		enum jfr_kind kind;
	} kinds[] = {{"boolean", JFR_BYTE}, {"byte", JFR_BYTE},	    {"char", JFR_CHAR},
		     {"short", JFR_SHORT},  {"int", JFR_INT},	    {"long", JFR_LONG},
		     {"float", JFR_FLOAT},  {"double", JFR_DOUBLE}, {"java.lang.String", JFR_STRING}};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (bytes_equal_string(name, kinds[i].name))
			return kinds[i].kind;
	return JFR_OBJECT;
}

static uint64_t parse_number(struct bytes text)
{
	uint64_t value = 0;
	for (size_t i = 0; i < text.len && i < 20 && text.data[i] >= '0' && text.data[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(text.data[i] - '0');
	return value;
}

struct attributes {
	struct bytes name, id, class, constant, dimension;
};

static void read_attributes(const struct jfr_chunk *chunk, struct jfr_cursor *cursor, struct attributes *ret)
{
	uint64_t count = take_int(cursor);
	*ret = (struct attributes){0};
	for (uint64_t i = 0; i < count && !cursor->bad; i++) {
		struct bytes key = string_at(chunk, take_int(cursor)), value = string_at(chunk, take_int(cursor));
		struct bytes *to = bytes_equal_string(key, "name")	     ? &ret->name
				   : bytes_equal_string(key, "id")	     ? &ret->id
				   : bytes_equal_string(key, "class")	     ? &ret->class
				   : bytes_equal_string(key, "constantPool") ? &ret->constant
				   : bytes_equal_string(key, "dimension")    ? &ret->dimension
									     : NULL;
		if (to)
			*to = value;
	}
}

static int add_class(struct jfr_chunk *chunk, const struct attributes *attributes, struct error *err)
{
	if (chunk->class_count == CLASSES_MAX)
		return error_set(err, -E2BIG, "more than %d classes", CLASSES_MAX);
	if (array_reserve(&chunk->classes, &chunk->class_capacity, chunk->class_count + 1, CLASSES_MAX) < 0)
		return error_nomem(err);
	struct jfr_class *class = &chunk->classes[chunk->class_count];
	*class = (struct jfr_class){.name = attributes->name,
				    .id = parse_number(attributes->id),
				    .kind = kind_of(attributes->name),
				    .first_field = chunk->field_count};
	map64_init_guarded(&class->constants);
	return map64_put(&chunk->class_of_id, class->id, chunk->class_count++) < 0 ? error_nomem(err) : 0;
}

static int add_field(struct jfr_chunk *chunk, const struct attributes *attributes, struct error *err)
{
	if (chunk->field_count == FIELDS_MAX)
		return error_set(err, -E2BIG, "more than %u fields", FIELDS_MAX);
	if (array_push(&chunk->fields, &chunk->field_count, &chunk->field_capacity, FIELDS_MAX,
		       (struct jfr_field){
			       .name = attributes->name,
			       .class_id = parse_number(attributes->class),
			       .is_constant = bytes_equal_string(attributes->constant, "true"),
			       .is_array = attributes->dimension.len > 0 && !bytes_equal_string(attributes->dimension, "0"),
		       }) < 0)
		return error_nomem(err);
	chunk->classes[chunk->class_count - 1].field_count++;
	return 0;
}

/* An element: its name, attributes, and the elements in it. Of the tree, classes and their fields count. */
static int read_element(struct jfr_chunk *chunk, struct jfr_cursor *cursor, unsigned depth, bool in_class, struct error *err)
{
	struct attributes attributes;
	struct bytes name = string_at(chunk, take_int(cursor));
	int r = 0;
	read_attributes(chunk, cursor, &attributes);
	uint64_t children = take_int(cursor);
	if (cursor->bad || depth > DEPTH_MAX)
		return error_set(err, -EBADMSG, "the metadata is truncated or damaged");
	bool is_class = !in_class && bytes_equal_string(name, "class");
	if (is_class)
		r = add_class(chunk, &attributes, err);
	else if (in_class && bytes_equal_string(name, "field"))
		r = add_field(chunk, &attributes, err);
	for (uint64_t i = 0; r == 0 && i < children; i++)
		r = read_element(chunk, cursor, depth + 1, is_class, err);
	return r;
}

static void link_fields(struct jfr_chunk *chunk)
{
	for (size_t i = 0; i < chunk->field_count; i++) {
		uint64_t number;
		chunk->fields[i].class =
			map64_get(&chunk->class_of_id, chunk->fields[i].class_id, &number) ? (uint32_t)number : UINT32_MAX;
	}
}

static int read_metadata(struct jfr_chunk *chunk, struct error *err)
{
	struct jfr_cursor cursor = cursor_at(chunk, chunk->metadata_at);
	take_int(&cursor); /* size */
	if (take_long(&cursor) != TYPE_METADATA)
		return error_set(err, -EBADMSG, "no metadata at byte %" PRIu64 " of the chunk", chunk->metadata_at);
	take_long(&cursor); /* start */
	take_long(&cursor); /* duration */
	take_long(&cursor); /* number of the metadata */
	uint64_t count = take_int(&cursor);
	/* Each takes a byte at least. */
	if (cursor.bad || count > (size_t)(cursor.end - cursor.at))
		return error_set(err, -EBADMSG, "the metadata is truncated");
	if (count > STRINGS_MAX)
		return error_set(err, -E2BIG, "the metadata has more than %u strings", STRINGS_MAX);
	chunk->strings = mem_zalloc_array(count, sizeof(*chunk->strings));
	if (!chunk->strings)
		return error_nomem(err);
	for (; chunk->string_count < count && !cursor.bad; chunk->string_count++) {
		uint8_t encoding;
		uint64_t key;
		chunk->strings[chunk->string_count] = take_string(&cursor, &encoding, &key);
	}
	int r = read_element(chunk, &cursor, 0, false, err);
	link_fields(chunk);
	return r;
}

/* ---- chunks ---- */

int jfr_chunk_open(struct bytes input, struct jfr_chunk *ret, struct error *err)
{
	struct jfr_cursor header = {input.data, input.data + input.len, false, false};
	*ret = (struct jfr_chunk){0};
	map64_init_guarded(&ret->class_of_id);
	const uint8_t *magic = jfr_take(&header, 4);
	uint64_t major = jfr_take_fixed(&header, 2);
	jfr_take(&header, 2);
	uint64_t size = jfr_take_fixed(&header, 8);
	jfr_take(&header, 8); /* the last checkpoint; all are found one after the other */
	ret->metadata_at = jfr_take_fixed(&header, 8);
	ret->start_ns = (int64_t)jfr_take_fixed(&header, 8);
	ret->duration_ns = (int64_t)jfr_take_fixed(&header, 8);
	ret->start_ticks = jfr_take_fixed(&header, 8);
	ret->ticks_per_s = jfr_take_fixed(&header, 8);
	ret->is_compressed = jfr_take_fixed(&header, 4) & 1;
	if (header.bad || memcmp(magic, "FLR", 4) != 0)
		return error_set(err, -EBADMSG, "no chunk of a recording");
	if (major != 1 && major != 2)
		return error_set(err, -EBADMSG, "version %" PRIu64 " of the format is not supported; 1 and 2 are", major);
	if (size == 0)
		return error_set(err, -EBADMSG,
				 "the chunk is incomplete: the recording is still running, or its program was killed");
	if (size < HEADER_BYTES || size > input.len)
		return error_set(err, -EBADMSG, "the chunk has a size of %" PRIu64 " bytes, but only %zu are present", size,
				 input.len);
	if (ret->ticks_per_s == 0)
		return error_set(err, -EBADMSG, "the clock has no rate");
	ret->bytes = (struct bytes){input.data, size};
	ret->work = STEPS_A_BYTE * size + STEPS_MIN;
	return read_metadata(ret, err);
}

void jfr_chunk_release(struct jfr_chunk *chunk)
{
	for (size_t i = 0; i < chunk->class_count; i++)
		map64_release(&chunk->classes[i].constants);
	map64_release(&chunk->class_of_id);
	mem_free(chunk->classes);
	mem_free(chunk->fields);
	mem_free(chunk->strings);
	*chunk = (struct jfr_chunk){0};
}

const struct jfr_class *jfr_class_by_id(const struct jfr_chunk *chunk, uint64_t id)
{
	uint64_t number;
	return map64_get(&chunk->class_of_id, id, &number) ? &chunk->classes[number] : NULL;
}

const struct jfr_class *jfr_class_by_name(const struct jfr_chunk *chunk, const char *name)
{
	for (size_t i = 0; i < chunk->class_count; i++)
		if (bytes_equal_string(chunk->classes[i].name, name))
			return &chunk->classes[i];
	return NULL;
}

int jfr_chunk_next_event(const struct jfr_chunk *chunk, size_t *at, uint64_t *ret_class, struct jfr_cursor *ret_fields,
			 struct error *err)
{
	if (*at == 0)
		*at = HEADER_BYTES;
	if (*at == chunk->bytes.len)
		return 0;
	struct jfr_cursor cursor = cursor_at(chunk, *at);
	const uint8_t *start = cursor.at;
	uint64_t size = take_int(&cursor);
	if (cursor.bad || size > chunk->bytes.len - *at || start + size < cursor.at)
		return error_set(err, -EBADMSG, "the event at byte %zu of the chunk has a size of %" PRIu64 " bytes", *at,
				 size);
	cursor.end = start + size;
	*ret_class = take_long(&cursor);
	if (cursor.bad)
		return error_set(err, -EBADMSG, "the event at byte %zu of the chunk is truncated", *at);
	*ret_fields = cursor;
	*at += size;
	return 1;
}

/* ---- values ---- */

static bool skip_value(struct jfr_chunk *chunk, const struct jfr_class *class, struct jfr_cursor *cursor, unsigned depth);

static bool skip_field(struct jfr_chunk *chunk, const struct jfr_field *field, struct jfr_cursor *cursor, unsigned depth)
{
	uint64_t count = field->is_array ? take_int(cursor) : 1;
	const struct jfr_class *class = field->class == UINT32_MAX ? NULL : &chunk->classes[field->class];
	/* Also of an empty array, of which there may be many before the field that is looked for. */
	charge(chunk, 1);
	for (uint64_t i = 0; i < count && !cursor->bad; i++) {
		charge(chunk, 1);
		if (chunk->work == 0)
			cursor->bad = true;
		else if (field->is_constant)
			take_long(cursor);
		else if (!class || !skip_value(chunk, class, cursor, depth + 1))
			cursor->bad = true;
	}
	return !cursor->bad;
}

static bool skip_value(struct jfr_chunk *chunk, const struct jfr_class *class, struct jfr_cursor *cursor, unsigned depth)
{
	uint8_t encoding;
	uint64_t key;
	if (depth > DEPTH_MAX || chunk->work == 0) {
		cursor->bad = true;
		return false;
	}
	charge(chunk, 1);
	switch (class->kind) {
	case JFR_BYTE: jfr_take(cursor, 1); break;
	case JFR_CHAR:
	case JFR_SHORT: jfr_take_number(cursor, 2); break;
	case JFR_INT: jfr_take_number(cursor, 4); break;
	case JFR_LONG: jfr_take_number(cursor, 8); break;
	case JFR_FLOAT: jfr_take(cursor, 4); break;
	case JFR_DOUBLE: jfr_take(cursor, 8); break;
	case JFR_STRING: charge(chunk, take_string(cursor, &encoding, &key).len / STEPS_A_BYTE); break;
	default:
		for (size_t i = 0; i < class->field_count && !cursor->bad; i++)
			skip_field(chunk, &chunk->fields[class->first_field + i], cursor, depth);
	}
	return !cursor->bad;
}

struct jfr_value jfr_constant(const struct jfr_chunk *chunk, const struct jfr_class *class, uint64_t key)
{
	uint64_t where;
	if (!class || !map64_get(&class->constants, key, &where))
		return (struct jfr_value){0};
	return (struct jfr_value){.class = class, .at = cursor_at(chunk, where)};
}

size_t jfr_find_field(const struct jfr_chunk *chunk, const struct jfr_class *class, const char *name)
{
	for (size_t i = 0; i < class->field_count; i++)
		if (bytes_equal_string(chunk->fields[class->first_field + i].name, name))
			return i;
	return SIZE_MAX;
}

/* The value of a field whose class is known, behind its constant if it is one. */
static struct jfr_value value_of_field(const struct jfr_chunk *chunk, const struct jfr_field *field, struct jfr_cursor at,
				       uint64_t *ret_key)
{
	const struct jfr_class *class = &chunk->classes[field->class];
	if (!field->is_constant || field->is_array)
		return (struct jfr_value){.class = class, .at = at, .is_array = field->is_array};
	*ret_key = take_long(&at);
	return at.bad ? (struct jfr_value){0} : jfr_constant(chunk, class, *ret_key);
}

struct jfr_value jfr_take_field(struct jfr_chunk *chunk, struct jfr_fields *fields, size_t number, uint64_t *ret_key)
{
	*ret_key = 0;
	for (; fields->next < fields->class->field_count; fields->next++) {
		const struct jfr_field *field = &chunk->fields[fields->class->first_field + fields->next];
		struct jfr_cursor at = fields->at;
		if (fields->next == number && field->class == UINT32_MAX)
			break;
		if (!skip_field(chunk, field, &fields->at, 0))
			break;
		if (fields->next < number)
			continue;
		fields->next++;
		return value_of_field(chunk, field, at, ret_key);
	}
	fields->next = fields->class->field_count;
	return (struct jfr_value){0};
}

struct jfr_value jfr_get_keyed(struct jfr_chunk *chunk, struct jfr_value object, const char *name, uint64_t *ret_key)
{
	*ret_key = 0;
	if (!object.class || object.class->kind != JFR_OBJECT || object.is_array)
		return (struct jfr_value){0};
	for (size_t i = 0; i < object.class->field_count; i++) {
		const struct jfr_field *field = &chunk->fields[object.class->first_field + i];
		if (!bytes_equal_string(field->name, name)) {
			if (!skip_field(chunk, field, &object.at, 0))
				break;
			continue;
		}
		return field->class == UINT32_MAX ? (struct jfr_value){0} : value_of_field(chunk, field, object.at, ret_key);
	}
	return (struct jfr_value){0};
}

struct jfr_value jfr_get(struct jfr_chunk *chunk, struct jfr_value object, const char *field)
{
	uint64_t key;
	return jfr_get_keyed(chunk, object, field, &key);
}

int64_t jfr_number(struct jfr_value value)
{
	if (!value.class || value.is_array)
		return 0;
	switch (value.class->kind) {
	case JFR_BYTE: return (int8_t)jfr_take_fixed(&value.at, 1);
	case JFR_CHAR:
	case JFR_SHORT: return (int16_t)jfr_take_number(&value.at, 2);
	case JFR_INT: return (int32_t)jfr_take_number(&value.at, 4);
	case JFR_LONG: return (int64_t)jfr_take_number(&value.at, 8);
	default: return 0;
	}
}

uint64_t jfr_array_begin(struct jfr_value *array)
{
	return array->class && array->is_array ? take_int(&array->at) : 0;
}

struct jfr_value jfr_array_next(struct jfr_chunk *chunk, struct jfr_value *array)
{
	struct jfr_value item = {.class = array->class, .at = array->at};
	if (!skip_value(chunk, array->class, &array->at, 0))
		return (struct jfr_value){0};
	return item;
}

/* ---- constants ---- */

/* Behind the class: a number of keys, each with its value. */
static int read_pool(struct jfr_chunk *chunk, struct jfr_cursor *cursor, struct error *err)
{
	uint64_t id = take_long(cursor), count = take_int(cursor), number;
	if (!map64_get(&chunk->class_of_id, id, &number))
		return error_set(err, -EBADMSG, "constants of a class that the metadata does not have: %" PRIu64, id);
	struct jfr_class *class = &chunk->classes[number];
	for (uint64_t i = 0; i < count && !cursor->bad; i++) {
		uint64_t key = take_long(cursor), where = (uint64_t)(cursor->at - chunk->bytes.data);
		if (!skip_value(chunk, class, cursor, 0))
			break;
		if (map64_put(&class->constants, key, where) < 0)
			return error_nomem(err);
	}
	return 0;
}

static int read_checkpoint(struct jfr_chunk *chunk, struct jfr_cursor cursor, struct error *err)
{
	take_long(&cursor);   /* start */
	take_long(&cursor);   /* duration */
	take_long(&cursor);   /* how far the one before is */
	jfr_take(&cursor, 1); /* kind */
	uint64_t pools = take_int(&cursor);
	int r = 0;
	for (uint64_t i = 0; r == 0 && i < pools && !cursor.bad; i++)
		r = read_pool(chunk, &cursor, err);
	if (r == 0 && cursor.bad)
		r = error_set(err, -EBADMSG, "constants are truncated or damaged");
	return r;
}

int jfr_chunk_read_constants(struct jfr_chunk *chunk, struct error *err)
{
	struct jfr_cursor fields;
	uint64_t class;
	size_t at = 0;
	int r;
	while ((r = jfr_chunk_next_event(chunk, &at, &class, &fields, err)) > 0) {
		if (class == TYPE_CHECKPOINT)
			r = read_checkpoint(chunk, fields, err);
		if (r < 0)
			return r;
	}
	return r;
}
