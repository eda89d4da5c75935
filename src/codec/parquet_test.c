/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/text.h"
#include "codec/parquet_int.h"
#include "codec/test_parquet.h"

/* ---- encodings ---- */

static void test_hybrid(void **state)
{
	for (int round = 0; round < 3000; round++) {
		unsigned width = (unsigned)(rnd() % 33);
		size_t count = rnd() % 300, run = 1 + rnd() % 40;
		uint32_t values[300], back[300], value = 0;
		uint64_t mask = (1ull << width) - 1;
		for (size_t i = 0; i < count; i++) {
			if (rnd() % run == 0)
				value = (uint32_t)(rnd() & mask);
			values[i] = value;
		}
		struct buffer out;
		buffer_init(&out, 1 << 20);
		assert_int_equal(parquet_encode_hybrid(values, count, width, &out), 0);
		/* An exact copy, so that the address sanitizer sees reads past the end. */
		uint8_t *copy = mem_alloc(out.len);
		if (out.len)
			memcpy(copy, out.data, out.len);
		assert_true(parquet_decode_hybrid((struct bytes){copy, out.len}, width, count, back));
		assert_memory_equal(values, back, count * sizeof(*values));
		if (count > 0)
			assert_false(parquet_decode_hybrid((struct bytes){copy, 0}, width, count, back));
		mem_free(copy);
		buffer_release(&out);
	}
}

static void test_delta(void **state)
{
	for (int round = 0; round < 3000; round++) {
		size_t count = rnd() % 500;
		int64_t v64[500], b64[500];
		int32_t v32[500], b32[500];
		bool rising = rnd() & 1;
		for (size_t i = 0; i < count; i++) {
			v64[i] = rising && i ? (int64_t)((uint64_t)v64[i - 1] + rnd() % 50) : odd_int();
			v32[i] = (int32_t)v64[i];
		}
		struct buffer out;
		buffer_init(&out, 1 << 20);
		assert_int_equal(parquet_encode_delta64(v64, count, &out), 0);
		uint8_t *copy = mem_alloc(out.len);
		memcpy(copy, out.data, out.len);
		assert_true(parquet_decode_delta64((struct bytes){copy, out.len}, count, b64));
		assert_memory_equal(v64, b64, count * 8);
		if (count > 0)
			assert_false(parquet_decode_delta64((struct bytes){copy, 3}, count, b64));
		mem_free(copy);
		buffer_clear(&out);
		assert_int_equal(parquet_encode_delta32(v32, count, &out), 0);
		assert_true(parquet_decode_delta32(buffer_bytes(&out), count, b32));
		assert_memory_equal(v32, b32, count * 4);
		buffer_release(&out);
	}
}

static void test_decoders_survive_noise(void **state)
{
	for (int round = 0; round < 20000; round++) {
		size_t len = rnd() % 64, count = rnd() % 200;
		uint8_t *noise = mem_alloc(len);
		int64_t out64[200];
		for (size_t i = 0; i < len; i++)
			noise[i] = (uint8_t)rnd();
		struct bytes input = {noise, len};
		parquet_decode_hybrid(input, (unsigned)(rnd() % 40), count, (uint32_t *)out64);
		parquet_decode_delta64(input, count, out64);
		parquet_decode_delta32(input, count, (int32_t *)out64);
		parquet_decode_booleans(input, count, (uint8_t *)out64);
		mem_free(noise);
	}
}

/* ---- files ---- */

static int write_table(const char *path, const struct table *tables, size_t count, struct parquet_written *written,
		       struct error *err)
{
	return write_table_pages(path, tables, count, 0, written, err);
}

static void check_file(struct parquet_file *file, const struct table *tables, size_t count)
{
	struct parquet_data data = {0};
	assert_int_equal(parquet_column_count(file), TABLE_COLUMNS);
	assert_int_equal(parquet_group_count(file), count);
	for (size_t c = 0; c < TABLE_COLUMNS; c++) {
		const struct parquet_column *column = parquet_column_at(file, c);
		size_t found;
		assert_string_equal(column->name, schema[c].name);
		assert_int_equal(column->type, schema[c].type);
		assert_int_equal(column->logical, schema[c].logical);
		assert_int_equal(column->optional, schema[c].optional);
		assert_true(parquet_find_column(file, schema[c].name, &found) && found == c);
		for (size_t t = 0; t < count; t++) {
			struct error err = {0};
			if (parquet_read(file, t, c, &data, &err) < 0)
				fail_msg("%s", err.message);
			check_column(&tables[t], c, &data);
		}
	}
	parquet_data_release(&data);
}

static void test_round_trip(void **state)
{
	for (int round = 0; round < 60; round++) {
		char path[128];
		struct table tables[3];
		size_t count = rnd() % 3 + 1;
		for (size_t t = 0; t < count; t++)
			random_table(&tables[t], round < 4 ? 1 + (size_t)round : 1 + rnd() % 2000);
		struct error err = {0};
		struct parquet_written written;
		temp_path(path, "t.parquet");
		if (write_table(path, tables, count, &written, &err) < 0)
			fail_msg("%s", err.message);
		struct parquet_file *file = NULL;
		if (parquet_open(path, NULL, &file, &err) < 0)
			fail_msg("%s", err.message);
		assert_true(file->footer_hash == written.footer_hash);
		assert_int_equal(parquet_file_size(file), written.size);
		assert_int_equal(parquet_rows(file), written.rows);
		assert_non_null(memmem(file->footer, file->size - file->footer_start,
				       "wick.version\x18\x01"
				       "1",
				       15));
		check_file(file, tables, count);
		parquet_close(file);
		for (size_t t = 0; t < count; t++)
			free_table(&tables[t]);
	}
}

static void test_several_pages(void **state)
{
	char path[128];
	struct table table;
	struct parquet_written written;
	random_table(&table, 150000);
	temp_path(path, "big.parquet");
	assert_int_equal(write_table(path, &table, 1, &written, NULL), 0);
	struct parquet_file *file;
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	check_file(file, &table, 1);
	parquet_close(file);
	free_table(&table);
}

static void test_no_rows(void **state)
{
	char path[128];
	struct parquet_written written;
	struct parquet_file *file;
	assert_int_equal(write_table(temp_path(path, "empty.parquet"), NULL, 0, &written, NULL), 0);
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	assert_int_equal(parquet_rows(file), 0);
	assert_int_equal(parquet_group_count(file), 0);
	parquet_close(file);
	assert_int_equal(write_table(path, NULL, 0, &written, NULL), -EEXIST);
}

static void test_statistics(void **state)
{
	char path[128];
	int32_t i32[] = {5, -7, 3};
	int64_t i64[] = {INT64_MAX, 4, 0};
	uint8_t present[] = {0, 1, 1};
	struct bytes text[] = {bytes_of_string("b"), bytes_of_string("abc"), bytes_of_string("")};
	const struct parquet_column columns[] = {{.name = "a", .type = PARQUET_INT32},
						 {.name = "u", .type = PARQUET_INT32, .logical = PARQUET_UINT32},
						 {.name = "b", .type = PARQUET_INT64, .optional = true},
						 {.name = "s", .type = PARQUET_BYTE_ARRAY}};
	struct parquet_values values[] = {{.i32 = i32}, {.i32 = i32}, {.i64 = i64, .present = present}, {.bytes = text}};
	struct parquet_write_options options = {.columns = columns, .column_count = 4};
	struct parquet_writer *writer;
	struct parquet_written written;
	struct parquet_file *file;
	assert_int_equal(parquet_writer_open(temp_path(path, "s.parquet"), &options, &writer, NULL), 0);
	assert_int_equal(parquet_writer_group(writer, values, 3, NULL), 0);
	assert_int_equal(parquet_writer_finish(writer, &written, NULL), 0);
	parquet_writer_free(writer);
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	int64_t min, max;
	struct parquet_statistics statistics;
	assert_true(parquet_chunk_range(file, 0, 0, &min, &max) && min == -7 && max == 5);
	assert_false(parquet_chunk_range(file, 0, 1, &min, &max));
	assert_true(parquet_chunk_range(file, 0, 2, &min, &max) && min == 0 && max == 4);
	parquet_chunk_statistics(file, 0, 1, &statistics);
	assert_memory_equal(statistics.min.data, &i32[2], 4); /* unsigned order: 3 .. 2^32 - 7 */
	assert_memory_equal(statistics.max.data, &i32[1], 4);
	parquet_chunk_statistics(file, 0, 2, &statistics);
	assert_int_equal(statistics.null_count, 1);
	parquet_chunk_statistics(file, 0, 3, &statistics);
	assert_true(statistics.min.len == 0 && bytes_equal_string(statistics.max, "b"));
	parquet_close(file);
}

/* Reads all of it; 0 or the first error. */
static int read_all(struct parquet_file *file, struct error *err)
{
	struct parquet_data data = {0};
	int r = 0;
	for (size_t g = 0; r == 0 && g < parquet_group_count(file); g++)
		for (size_t c = 0; r == 0 && c < parquet_column_count(file); c++)
			r = parquet_read(file, g, c, &data, err);
	parquet_data_release(&data);
	return r;
}

static void small_file(struct buffer *bytes, struct parquet_written *written)
{
	char path[128];
	struct table table;
	random_table(&table, 40);
	assert_int_equal(write_table(temp_path(path, "f.parquet"), &table, 1, written, NULL), 0);
	buffer_init(bytes, 1 << 20);
	assert_int_equal(io_read_file(path, 1 << 20, bytes, NULL), 0);
	free_table(&table);
}

/* Every flipped bit is found: by whoever reads or verifies what it is in, or because the footer is not the one that was
 * written. */
static void test_bit_flips(void **state)
{
	struct buffer bytes;
	struct parquet_written written;
	size_t found_reading = 0, found_verifying = 0;
	small_file(&bytes, &written);
	for (size_t i = 0; i < bytes.len; i++) {
		uint8_t flip = (uint8_t)(1u << (rnd() % 8));
		struct parquet_file *file = NULL;
		struct error err = {0};
		bytes.data[i] ^= flip;
		int r = test_parquet_open_bytes(buffer_bytes(&bytes), NULL, &file, &err);
		if (r == 0 && file->footer_hash == written.footer_hash) {
			r = read_all(file, &err);
			assert_true(r == 0 || r == -EBADMSG);
			found_reading += r < 0;
			if (r == 0)
				assert_int_equal(r = parquet_verify(file, &err), -EBADMSG);
			else
				assert_int_equal(parquet_verify(file, NULL), -EBADMSG);
			found_verifying++;
			assert_non_null(strstr(err.message, ": column "));
			assert_non_null(strstr(err.message, "match"));
			assert_non_null(strstr(err.message, "checksum"));
		} else if (r == 0) {
			read_all(file, NULL);
			parquet_verify(file, NULL);
		}
		bool same_footer = file && file->footer_hash == written.footer_hash;
		parquet_close(file);
		/* A reader that remembers the footer's hash gets the error at once. */
		struct parquet_read_options options = {.expected_footer = &written.footer_hash};
		file = NULL;
		r = test_parquet_open_bytes(buffer_bytes(&bytes), &options, &file, &err);
		assert_int_equal(r, same_footer ? 0 : -EBADMSG);
		parquet_close(file);
		bytes.data[i] ^= flip;
	}
	assert_true(found_reading > 1000 && found_verifying > found_reading);
	buffer_release(&bytes);
}

/* A file of before the page index, whose chunks are hashed as a whole. */
static void test_old_form(void **state)
{
	struct buffer bytes;
	struct parquet_file *file = NULL;
	struct parquet_data data = {0}, pages = {0};
	struct error err = {0};
	buffer_init(&bytes, 1 << 20);
	assert_int_equal(io_read_file("fuzz/corpus/parquet/all-types.parquet", 1 << 20, &bytes, NULL), 0);
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&bytes), NULL, &file, NULL), 0);
	uint64_t footer_hash = file->footer_hash;
	if (parquet_verify(file, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t g = 0; g < parquet_group_count(file); g++) {
		assert_int_equal(parquet_page_count(file, g), 1);
		assert_int_equal(parquet_page_first_row(file, g, 1), parquet_group_rows(file, g));
		for (size_t c = 0; c < parquet_column_count(file); c++) {
			int64_t least, most, min, max;
			assert_int_equal(parquet_read(file, g, c, &data, NULL), 0);
			assert_int_equal(parquet_read_pages(file, g, c, 0, 1, &pages, NULL), 0);
			assert_int_equal(data.count, pages.count);
			assert_int_equal(data.null_count, pages.null_count);
			bool has_range = parquet_chunk_range(file, g, c, &least, &most);
			assert_int_equal(has_range, parquet_page_range(file, g, c, 0, &min, &max));
			assert_true(!has_range || (min == least && max == most));
		}
	}
	parquet_data_release(&data);
	parquet_data_release(&pages);
	parquet_close(file);
	for (size_t i = 4; i < bytes.len; i++) {
		bytes.data[i] ^= 0x20;
		struct parquet_read_options options = {.expected_footer = &footer_hash};
		file = NULL;
		if (test_parquet_open_bytes(buffer_bytes(&bytes), &options, &file, NULL) == 0)
			assert_int_equal(parquet_verify(file, NULL), -EBADMSG);
		parquet_close(file);
		bytes.data[i] ^= 0x20;
	}
	buffer_release(&bytes);
}

/* Without our hashes the page CRCs find flips in the pages' bodies. */
static void test_page_crc(void **state)
{
	struct buffer bytes;
	struct parquet_written written;
	small_file(&bytes, &written);
	for (size_t i = 0; i + 10 < bytes.len; i++)
		if (!memcmp(bytes.data + i, PARQUET_PAGE_HASH_KEY, strlen(PARQUET_PAGE_HASH_KEY)))
			bytes.data[i] = 'x';
	struct parquet_file *file = NULL;
	struct error err = {0};
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&bytes), NULL, &file, &err), 0);
	assert_int_equal(read_all(file, &err), 0);
	parquet_close(file);
	size_t found = 0;
	for (size_t i = 4; i < bytes.len - 8; i++) {
		bytes.data[i] ^= 4;
		file = NULL;
		if (test_parquet_open_bytes(buffer_bytes(&bytes), NULL, &file, NULL) == 0 && read_all(file, &err) < 0)
			found += strstr(err.message, "CRC") != NULL;
		parquet_close(file);
		bytes.data[i] ^= 4;
	}
	assert_true(found > 500);
	buffer_release(&bytes);
}

static void test_truncated(void **state)
{
	struct buffer bytes;
	struct parquet_written written;
	small_file(&bytes, &written);
	for (size_t len = 0; len < bytes.len; len++) {
		struct parquet_file *file = NULL;
		uint8_t *copy = mem_alloc(len);
		memcpy(copy, bytes.data, len);
		assert_int_equal(test_parquet_open_bytes((struct bytes){copy, len}, NULL, &file, NULL), -EBADMSG);
		mem_free(copy);
	}
	buffer_release(&bytes);
}

static void test_memory_limit(void **state)
{
	struct buffer bytes;
	struct parquet_written written;
	struct parquet_file *file;
	struct parquet_data data = {0};
	struct error err = {0};
	small_file(&bytes, &written);
	struct parquet_read_options options = {.memory_max = bytes.len};
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&bytes), &options, &file, NULL), 0);
	assert_int_equal(parquet_read(file, 0, 0, &data, &err), 0);
	parquet_close(file);
	options.memory_max = 4;
	assert_int_equal(test_parquet_open_bytes(buffer_bytes(&bytes), &options, &file, &err), -EBADMSG);
	parquet_data_release(&data);
	buffer_release(&bytes);
}

static void test_faults_while_writing(void **state)
{
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_WRITE, FAULT_SYNC, FAULT_OPEN};
	struct table table;
	random_table(&table, 100);
	for (size_t k = 0; k < 4; k++) {
		for (uint64_t n = 1;; n++) {
			char path[128];
			struct parquet_written written;
			struct error err = {0};
			temp_path(path, "fault.parquet");
			fault_arm(kinds[k], n, 0);
			int r = write_table(path, &table, 1, &written, &err);
			bool reached = fault_disarm(kinds[k]);
			assert_int_equal(r < 0, reached);
			if (reached)
				assert_true(err.message[0]);
			else
				break;
			assert_true(n < 10000);
		}
	}
	free_table(&table);
}

static void test_faults_while_reading(void **state)
{
	struct buffer bytes;
	struct parquet_written written;
	small_file(&bytes, &written);
	for (uint64_t n = 1;; n++) {
		struct parquet_file *file = NULL;
		struct error err = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = test_parquet_open_bytes(buffer_bytes(&bytes), NULL, &file, &err);
		if (r == 0)
			r = read_all(file, &err);
		bool reached = fault_disarm(FAULT_ALLOC);
		parquet_close(file);
		assert_int_equal(r < 0, reached);
		if (!reached)
			break;
		assert_true(r == -ENOMEM || r == -E2BIG);
	}
	buffer_release(&bytes);
}

/* ---- files made by others ---- */

static int corpus_directory(char *out, size_t size, const char *name)
{
	const char *root = getenv("WICK_TEST_DATA");
	snprintf(out, size, "%s/parquet/%s", root ? root : "../shared/data", name);
	return access(out, R_OK);
}

static int read_path(const char *path, struct error *err)
{
	struct parquet_file *file = NULL;
	int r = parquet_open(path, NULL, &file, err);
	/* All columns, so that one that is not supported does not hide the others. */
	struct parquet_data data = {0};
	for (size_t g = 0; file && g < parquet_group_count(file); g++) {
		for (size_t c = 0; c < parquet_column_count(file); c++) {
			struct error own = {0};
			int one = parquet_read(file, g, c, &data, &own);
			if (one < 0 && r == 0) {
				r = one;
				*err = own;
			}
			if (one == -EBADMSG) {
				r = one;
				*err = own;
			}
		}
	}
	parquet_data_release(&data);
	parquet_close(file);
	return r;
}

static void test_good_files(void **state)
{
	char directory_path[256], path[600];
	if (corpus_directory(directory_path, sizeof(directory_path), "good")) {
		printf("skipped: no %s\n", directory_path);
		skip();
	}
	DIR *dir = opendir(directory_path);
	size_t decoded = 0, refused = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct error err = {0};
		if (!text_ends_with(entry->d_name, ".parquet"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory_path, entry->d_name);
		int r = read_path(path, &err);
		/* parquet-testing keeps this one with the good files because lenient readers manage. */
		bool is_odd = !strcmp(entry->d_name, "nation.dict-malformed.parquet");
		if (r < 0 && r != -ENOTSUP && !is_odd)
			fail_msg("%s: %s", entry->d_name, err.message);
		if (r == -ENOTSUP)
			assert_non_null(strstr(err.message, "not supported"));
		decoded += r == 0;
		refused += r == -ENOTSUP;
	}
	closedir(dir);
	assert_true(decoded >= 6);
	assert_true(refused >= 4);
}

/* 10 rows of known values in two encodings. */
static void test_known_values(void **state)
{
	char directory_path[256], path[600];
	if (corpus_directory(directory_path, sizeof(directory_path), "good")) {
		printf("skipped: no %s\n", directory_path);
		skip();
	}
	snprintf(path, sizeof(path), "%s/alltypes_plain.parquet", directory_path);
	struct parquet_file *file;
	struct parquet_data data = {0};
	size_t column;
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	assert_int_equal(parquet_rows(file), 8);
	assert_true(parquet_find_column(file, "id", &column));
	assert_int_equal(parquet_read(file, 0, column, &data, NULL), 0);
	const int32_t ids[] = {4, 5, 6, 7, 2, 3, 0, 1};
	assert_memory_equal(data.i32, ids, sizeof(ids));
	assert_true(parquet_find_column(file, "date_string_col", &column));
	assert_int_equal(parquet_read(file, 0, column, &data, NULL), 0);
	assert_true(bytes_equal_string(data.bytes[0], "03/01/09"));
	assert_true(bytes_equal_string(data.bytes[7], "01/01/09"));
	assert_true(parquet_find_column(file, "double_col", &column));
	assert_int_equal(parquet_read(file, 0, column, &data, NULL), 0);
	assert_true(data.f64[1] == 10.1);
	parquet_data_release(&data);
	parquet_close(file);
}

static void test_bad_files(void **state)
{
	char directory_path[256], path[600];
	if (corpus_directory(directory_path, sizeof(directory_path), "bad")) {
		printf("skipped: no %s\n", directory_path);
		skip();
	}
	DIR *dir = opendir(directory_path);
	size_t count = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct error err = {0};
		if (!text_ends_with(entry->d_name, ".parquet"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory_path, entry->d_name);
		int r = read_path(path, &err);
		printf("%s: %s\n", entry->d_name, r < 0 ? err.message : "accepted");
		count++;
	}
	closedir(dir);
	assert_true(count >= 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hybrid),
		cmocka_unit_test(test_delta),
		cmocka_unit_test(test_decoders_survive_noise),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_several_pages),
		cmocka_unit_test(test_no_rows),
		cmocka_unit_test(test_statistics),
		cmocka_unit_test(test_bit_flips),
		cmocka_unit_test(test_old_form),
		cmocka_unit_test(test_page_crc),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_memory_limit),
		cmocka_unit_test(test_faults_while_writing),
		cmocka_unit_test(test_faults_while_reading),
		cmocka_unit_test(test_good_files),
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_bad_files),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
