/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet's page headers, both ways. */
#include "codec/parquet_int.h"

/* Of a data page (v1) or a dictionary. */
static void read_data_header(struct thrift_reader *thrift, uint8_t type, bool is_dictionary, struct parquet_page *ret)
{
	struct thrift_field field = {0};
	thrift_expect_struct(thrift, type);
	while (thrift_next(thrift, &field)) {
		if (field.id == 1)
			ret->value_count = thrift_read_i32(thrift, field.type);
		else if (field.id == 2)
			ret->encoding = thrift_read_i32(thrift, field.type);
		else if (field.id == 3 && !is_dictionary)
			ret->definition_encoding = thrift_read_i32(thrift, field.type);
		else
			thrift_skip(thrift, field.type);
	}
}

static void read_data_header_v2(struct thrift_reader *thrift, uint8_t type, struct parquet_page *ret)
{
	struct thrift_field field = {0};
	thrift_expect_struct(thrift, type);
	ret->is_compressed = true;
	while (thrift_next(thrift, &field)) {
		switch (field.id) {
		case 1: ret->value_count = thrift_read_i32(thrift, field.type); break;
		case 2: ret->null_count = thrift_read_i32(thrift, field.type); break;
		case 3: ret->row_count = thrift_read_i32(thrift, field.type); break;
		case 4: ret->encoding = thrift_read_i32(thrift, field.type); break;
		case 5: ret->definition_size = thrift_read_i32(thrift, field.type); break;
		case 6: ret->repetition_size = thrift_read_i32(thrift, field.type); break;
		case 7: ret->is_compressed = thrift_read_bool(thrift, field.type); break;
		default: thrift_skip(thrift, field.type);
		}
	}
}

/* The struct that belongs to the page's type must be there; without it the page's counts would be zeros that nobody wrote. */
static bool has_own_header(int32_t type, unsigned seen)
{
	switch (type) {
	case PAGE_DATA: return seen >> 5 & 1;
	case PAGE_DICTIONARY: return seen >> 7 & 1;
	case PAGE_DATA_V2: return seen >> 8 & 1;
	default: return true;
	}
}

const char *parquet_page_read(struct bytes input, struct parquet_page *ret, size_t *ret_len)
{
	struct thrift_reader thrift = thrift_open(input);
	struct thrift_field field = {0};
	unsigned seen = 0;
	*ret = (struct parquet_page){.type = -1, .size_uncompressed = -1, .size_compressed = -1};
	while (thrift_next(&thrift, &field)) {
		if (field.id >= 1 && field.id <= 8)
			seen |= 1u << field.id;
		switch (field.id) {
		case 1: ret->type = thrift_read_i32(&thrift, field.type); break;
		case 2: ret->size_uncompressed = thrift_read_i32(&thrift, field.type); break;
		case 3: ret->size_compressed = thrift_read_i32(&thrift, field.type); break;
		case 4:
			ret->crc = (uint32_t)thrift_read_i32(&thrift, field.type);
			ret->has_crc = true;
			break;
		case 5:
		case 7: read_data_header(&thrift, field.type, field.id == 7, ret); break;
		case 8: read_data_header_v2(&thrift, field.type, ret); break;
		default: thrift_skip(&thrift, field.type);
		}
	}
	if (!thrift.fault && !has_own_header(ret->type, seen))
		thrift_fail(&thrift, "the header of the page's type is missing");
	if (!thrift.fault && (ret->type < PAGE_DATA || ret->type > PAGE_DATA_V2 || ret->size_compressed < 0 ||
			      ret->size_uncompressed < 0 || ret->value_count < 0))
		thrift_fail(&thrift, "an unknown page type, or a negative size or count");
	*ret_len = thrift.at;
	return thrift.fault;
}

int parquet_page_write(const struct parquet_page *page, struct buffer *out)
{
	struct thrift_writer thrift = thrift_begin(out);
	thrift_write_int(&thrift, 1, THRIFT_I32, page->type);
	thrift_write_int(&thrift, 2, THRIFT_I32, page->size_uncompressed);
	thrift_write_int(&thrift, 3, THRIFT_I32, page->size_compressed);
	thrift_write_int(&thrift, 4, THRIFT_I32, (int32_t)page->crc);
	if (page->type == PAGE_DICTIONARY) {
		thrift_begin_struct(&thrift, 7);
		thrift_write_int(&thrift, 1, THRIFT_I32, page->value_count);
		thrift_write_int(&thrift, 2, THRIFT_I32, ENCODING_PLAIN);
	} else {
		thrift_begin_struct(&thrift, 5);
		thrift_write_int(&thrift, 1, THRIFT_I32, page->value_count);
		thrift_write_int(&thrift, 2, THRIFT_I32, page->encoding);
		thrift_write_int(&thrift, 3, THRIFT_I32, ENCODING_RLE);
		thrift_write_int(&thrift, 4, THRIFT_I32, ENCODING_RLE);
	}
	thrift_end_struct(&thrift);
	thrift_end_struct(&thrift);
	return buffer_status(out);
}
