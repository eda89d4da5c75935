/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of Arrow arrays. What an array says of itself was not checked when it was read, so that arrays that nobody asks cost
 * nothing (arrow_read.c): here is where offsets, sizes, views and indices are held against what they are about.
 */
#include <errno.h>
#include <string.h>

#include "base/sorted.h"
#include "codec/arrow/arrow_read_int.h"

#define VIEW_BYTES  16
#define VIEW_INLINE 12

int64_t arrow_number_at(struct bytes buffer, size_t row, unsigned width, bool is_signed)
{
	uint64_t value = 0;
	memcpy(&value, buffer.data + row * width, width);
	unsigned unused = 64 - 8 * width;
	return is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

static bool bit_at(struct bytes bits, size_t row)
{
	return bits.data[row / 8] >> (row % 8) & 1;
}

/* Which run a row is in: the first that ends behind it. */
static size_t find_run(const struct arrow_array *ends, size_t row)
{
	return sorted_count_while(ends->length, i, (uint64_t)arrow_number_at(ends->values, i, ends->field->width, true) <= row);
}

static const struct arrow_array *find_chunk(const struct arrow_dictionary *dictionary, size_t *index)
{
	size_t begun = sorted_count_while(dictionary->chunk_count, i, dictionary->chunks[i].first <= *index);
	const struct arrow_chunk *chunk = &dictionary->chunks[begun > 0 ? begun - 1 : 0];
	*index -= chunk->first;
	return chunk->values;
}

/* It ends: each turn leads from a dictionary to its values, or from run ends to theirs, which are further down in the schema.
 */
int arrow_locate(const struct arrow_array *array, size_t row, const struct arrow_array **ret, size_t *ret_row)
{
	for (;;) {
		if (row >= array->length)
			return -EBADMSG;
		if (array->validity.len && !bit_at(array->validity, row))
			return 0;
		if (array->dictionary) {
			const struct arrow_field *field = array->field;
			int64_t index = arrow_number_at(array->values, row, field->index_width, field->index_signed);
			row = (size_t)index;
			if ((uint64_t)index >= array->dictionary->length)
				return -EBADMSG;
			array = find_chunk(array->dictionary, &row);
		} else if (array->field->type == ARROW_TYPE_RUN_END_ENCODED) {
			row = find_run(&array->children[0], row);
			array = &array->children[1];
		} else {
			*ret = array;
			*ret_row = row;
			return array->field->type != ARROW_TYPE_NULL;
		}
	}
}

static int cut(struct bytes buffer, uint64_t first, uint64_t len, struct bytes *ret)
{
	if (first > buffer.len || len > buffer.len - first)
		return -EBADMSG;
	*ret = len ? (struct bytes){buffer.data + first, len} : (struct bytes){0};
	return 1;
}

static int view_bytes(const struct arrow_array *array, size_t row, struct bytes *ret)
{
	uint32_t view[VIEW_BYTES / 4];
	const uint8_t *at = array->values.data + row * VIEW_BYTES;
	memcpy(view, at, VIEW_BYTES);
	if (view[0] <= VIEW_INLINE) {
		*ret = (struct bytes){at + 4, view[0]};
		return 1;
	}
	return view[2] < array->view_count ? cut(array->views[view[2]], view[3], view[0], ret) : -EBADMSG;
}

/* From one offset to the next. */
static int span_at(const struct arrow_array *array, size_t row, unsigned width, uint64_t *ret_first, uint64_t *ret_count)
{
	int64_t first = arrow_number_at(array->offsets, row, width, true),
		end = arrow_number_at(array->offsets, row + 1, width, true);
	*ret_first = (uint64_t)first;
	*ret_count = (uint64_t)end - (uint64_t)first;
	return first >= 0 && end >= first ? 1 : -EBADMSG;
}

int arrow_get_bytes(const struct arrow_array *array, size_t row, struct bytes *ret)
{
	uint64_t first, len;
	int r = arrow_locate(array, row, &array, &row);
	if (r <= 0)
		return r;
	switch (array->field->type) {
	case ARROW_TYPE_BINARY:
	case ARROW_TYPE_UTF8:
	case ARROW_TYPE_LARGE_BINARY:
	case ARROW_TYPE_LARGE_UTF8: {
		bool large = array->field->type == ARROW_TYPE_LARGE_BINARY || array->field->type == ARROW_TYPE_LARGE_UTF8;
		r = span_at(array, row, large ? 8 : 4, &first, &len);
		return r < 0 ? r : cut(array->values, first, len, ret);
	}
	case ARROW_TYPE_BINARY_VIEW:
	case ARROW_TYPE_UTF8_VIEW: return view_bytes(array, row, ret);
	case ARROW_TYPE_FIXED_SIZE_BINARY: return cut(array->values, row * array->field->width, array->field->width, ret);
	default: return -EBADMSG;
	}
}

int arrow_get_integer(const struct arrow_array *array, size_t row, int64_t *ret)
{
	int r = arrow_locate(array, row, &array, &row);
	if (r <= 0)
		return r;
	const struct arrow_field *field = array->field;
	switch (field->type) {
	case ARROW_TYPE_BOOL: *ret = bit_at(array->values, row); return 1;
	case ARROW_TYPE_INT: *ret = arrow_number_at(array->values, row, field->width, field->is_signed); return 1;
	case ARROW_TYPE_DATE:
	case ARROW_TYPE_TIME:
	case ARROW_TYPE_TIMESTAMP:
	case ARROW_TYPE_DURATION:
		*ret = field->width ? arrow_number_at(array->values, row, field->width, true) : 0;
		return field->width ? 1 : -EBADMSG;
	default: return -EBADMSG;
	}
}

int arrow_get_list(const struct arrow_array *array, size_t row, const struct arrow_array **ret_items, size_t *ret_first,
		   size_t *ret_count)
{
	uint64_t first, count;
	int r = arrow_locate(array, row, &array, &row);
	if (r <= 0)
		return r;
	bool large = array->field->type == ARROW_TYPE_LARGE_LIST || array->field->type == ARROW_TYPE_LARGE_LIST_VIEW;
	switch (array->field->type) {
	case ARROW_TYPE_LIST:
	case ARROW_TYPE_MAP:
	case ARROW_TYPE_LARGE_LIST: r = span_at(array, row, large ? 8 : 4, &first, &count); break;
	case ARROW_TYPE_LIST_VIEW:
	case ARROW_TYPE_LARGE_LIST_VIEW:
		/* Negative ones are too large below. */
		first = (uint64_t)arrow_number_at(array->offsets, row, large ? 8 : 4, true);
		count = (uint64_t)arrow_number_at(array->sizes, row, large ? 8 : 4, true);
		break;
	case ARROW_TYPE_FIXED_SIZE_LIST:
		count = array->field->width;
		first = row * count;
		break;
	default: return -EBADMSG;
	}
	*ret_items = &array->children[0];
	if (r < 0 || first > (*ret_items)->length || count > (*ret_items)->length - first)
		return -EBADMSG;
	*ret_first = first;
	*ret_count = count;
	return 1;
}

int arrow_find_field(const struct arrow_field *fields, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(fields[i].name, name) == 0)
			return (int)i;
	return -1;
}
