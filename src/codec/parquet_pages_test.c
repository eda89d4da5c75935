/* SPDX-License-Identifier: Apache-2.0 */
/* Reading single pages, codes, and what the page index says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/text.h"
#include "codec/test_parquet.h"

/* ---- pages ---- */

/* Every run of pages of a column holds the rows that it should, whatever was read into the same struct before. */
static void check_pages(struct parquet_file *file, const struct table *table, size_t group, size_t c, struct parquet_data *data)
{
	size_t pages = parquet_page_count(file, group);
	for (size_t tries = 0; tries < pages * 2 + 2; tries++) {
		size_t first = tries < pages ? tries : rnd() % (pages + 1);
		size_t count = tries < pages ? 1 : rnd() % (pages - first + 1);
		size_t from = parquet_page_first_row(file, group, first),
		       to = parquet_page_first_row(file, group, first + count);
		struct error err = {0};
		if (parquet_read_pages(file, group, c, first, count, data, &err) < 0)
			fail_msg("%s", err.message);
		check_rows(table, c, from, to - from, data);
	}
}

static void check_codes(struct parquet_file *file, const struct table *table, size_t group, size_t c,
			struct parquet_codes *codes)
{
	const struct bytes *want = table->values[c];
	if (parquet_column_at(file, c)->type != PARQUET_BYTE_ARRAY) {
		assert_int_equal(parquet_read_codes(file, group, c, codes, NULL), -ENOTSUP);
		return;
	}
	assert_int_equal(parquet_read_codes(file, group, c, codes, NULL), 0);
	assert_int_equal(codes->count, table->rows);
	for (size_t i = 0; i < table->rows; i++) {
		if (table->present[c] && !table->present[c][i]) {
			assert_true(codes->codes[i] == PARQUET_CODE_NULL);
		} else {
			assert_true(codes->codes[i] < codes->value_count);
			assert_true(bytes_equal(codes->values[codes->codes[i]], want[i]));
		}
	}
	for (size_t i = 0; i < codes->value_count; i++)
		for (size_t k = 0; k < i && k < 50; k++)
			assert_false(bytes_equal(codes->values[i], codes->values[k]));
}

static void check_file_pages(struct parquet_file *file, const struct table *tables, size_t count)
{
	struct parquet_data data = {0};
	struct parquet_codes codes = {0};
	struct error err = {0};
	for (size_t c = 0; c < TABLE_COLUMNS; c++) {
		for (size_t t = 0; t < count; t++) {
			check_pages(file, &tables[t], t, c, &data);
			if (rnd() % 4 == 0) {
				assert_int_equal(parquet_read(file, t, c, &data, NULL), 0);
				check_column(&tables[t], c, &data);
				check_pages(file, &tables[t], t, c, &data);
			}
			check_codes(file, &tables[t], t, c, &codes);
		}
	}
	parquet_data_release(&data);
	parquet_codes_release(&codes);
	if (parquet_verify(file, &err) < 0)
		fail_msg("%s", err.message);
}

static struct parquet_file *open_bytes(const struct buffer *bytes, const struct parquet_written *written)
{
	struct parquet_read_options options = {.expected_footer = written ? &written->footer_hash : NULL};
	struct parquet_file *file = NULL;
	struct error err = {0};
	if (test_parquet_open_bytes(buffer_bytes(bytes), &options, &file, &err) < 0)
		fail_msg("%s", err.message);
	return file;
}

static void write_bytes(struct buffer *bytes, const struct table *tables, size_t count, size_t page_rows,
			struct parquet_written *written)
{
	char path[128];
	struct error err = {0};
	if (write_table_pages(temp_path(path, "p.parquet"), tables, count, page_rows, written, &err) < 0)
		fail_msg("%s", err.message);
	buffer_init(bytes, 64 << 20);
	assert_int_equal(io_read_file(path, 64 << 20, bytes, NULL), 0);
}

static void test_pages(void **state)
{
	static const size_t page_rows[] = {1, 2, 7, 8, 9, 64, 100, 1000, 0};
	for (int round = 0; round < 40; round++) {
		struct table tables[3];
		struct buffer bytes;
		struct parquet_written written;
		size_t count = rnd() % 3 + 1, per_page = page_rows[rnd() % 9];
		for (size_t t = 0; t < count; t++)
			random_table(&tables[t], 1 + rnd() % (per_page == 1 ? 30 : 1500));
		write_bytes(&bytes, tables, count, per_page, &written);
		struct parquet_file *file = open_bytes(&bytes, &written);
		for (size_t t = 0; t < count; t++) {
			size_t rows = tables[t].rows, size = per_page ? per_page : PARQUET_PAGE_ROWS;
			assert_int_equal(parquet_page_count(file, t), (rows + size - 1) / size);
			assert_int_equal(parquet_page_first_row(file, t, parquet_page_count(file, t)), rows);
			for (size_t p = 0; p < parquet_page_count(file, t); p++)
				assert_int_equal(parquet_page_first_row(file, t, p), p * size);
		}
		check_file_pages(file, tables, count);
		parquet_close(file);
		buffer_release(&bytes);
		for (size_t t = 0; t < count; t++)
			free_table(&tables[t]);
	}
}

/* Pages that begin where the caller says. */
static void test_chosen_pages(void **state)
{
	for (int round = 0; round < 20; round++) {
		struct table table;
		struct parquet_values values[TABLE_COLUMNS];
		const struct parquet_write_options options = {
			.columns = schema, .column_count = TABLE_COLUMNS, .page_rows = 100, .zstd_level = round % 4};
		struct parquet_writer *writer;
		struct parquet_written written;
		struct parquet_file *file;
		char path[128];
		size_t starts[64] = {0}, count = 1;
		random_table(&table, 1 + rnd() % 1500);
		while (count < 64 && starts[count - 1] + 1 < table.rows && rnd() % 30) {
			starts[count] = starts[count - 1] + 1 + rnd() % (table.rows - starts[count - 1] - 1);
			count++;
		}
		for (size_t c = 0; c < TABLE_COLUMNS; c++)
			values[c] = (struct parquet_values){.present = table.present[c], .booleans = table.values[c]};
		assert_int_equal(parquet_writer_open(temp_path(path, "c.parquet"), &options, &writer, NULL), 0);
		assert_int_equal(parquet_writer_group_pages(writer, values, table.rows, starts, count, NULL), 0);
		assert_int_equal(parquet_writer_finish(writer, &written, NULL), 0);
		parquet_writer_free(writer);
		assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
		assert_int_equal(parquet_page_count(file, 0), count);
		for (size_t p = 0; p < count; p++)
			assert_int_equal(parquet_page_first_row(file, 0, p), starts[p]);
		check_file_pages(file, &table, 1);
		parquet_close(file);
		free_table(&table);
	}
}

/* Two readers at once with a footer that was read before, which is not read again; and not with one of another file. */
static void test_kept_footer(void **state)
{
	struct table tables[3];
	struct parquet_written written;
	struct parquet_footer *footer, *none_footer;
	struct parquet_file *files[2], *none;
	char path[128];
	for (size_t t = 0; t < 3; t++)
		random_table(&tables[t], 1000);
	assert_int_equal(write_table_pages(temp_path(path, "k.parquet"), tables, 3, 64, &written, NULL), 0);
	const struct parquet_read_options options = {.expected_footer = &written.footer_hash};
	assert_int_equal(parquet_footer_load(path, &options, &footer, NULL), 0);
	assert_true(parquet_footer_bytes(footer) > 1000);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(parquet_open_with(path, &options, footer, &files[i], NULL), 0);
		assert_int_equal(parquet_bytes_read(files[i]), 0);
	}
	for (size_t i = 0; i < 2; i++)
		check_file_pages(files[i], tables, 3);
	/* What was forgotten is there again. */
	for (size_t t = 0; t < 3; t++)
		parquet_forget_index(files[0], t);
	parquet_forget_index(files[0], 0);
	check_file_pages(files[0], tables, 3);
	parquet_close(files[0]);
	check_file_pages(files[1], tables, 3);
	parquet_close(files[1]);
	assert_int_equal(truncate(path, (off_t)written.size - 1), 0);
	assert_int_equal(parquet_open_with(path, &options, footer, &none, NULL), -EBADMSG);
	assert_int_equal(parquet_footer_load(path, &options, &none_footer, NULL), -EBADMSG);
	parquet_footer_free(footer);
	for (size_t t = 0; t < 3; t++)
		free_table(&tables[t]);
}

static void test_large_pages(void **state)
{
	struct table table;
	struct buffer bytes;
	struct parquet_written written;
	random_table(&table, 3 * PARQUET_PAGE_ROWS + 17);
	write_bytes(&bytes, &table, 1, 0, &written);
	struct parquet_file *file = open_bytes(&bytes, &written);
	assert_int_equal(parquet_page_count(file, 0), 4);
	check_file_pages(file, &table, 1);
	parquet_close(file);
	buffer_release(&bytes);
	free_table(&table);
}

/* What lies in memory of another file at the same address must not be taken for this one's dictionary. */
static void test_dictionary_of_another_file(void **state)
{
	struct parquet_data data = {0};
	for (int round = 0; round < 20; round++) {
		struct table table;
		struct buffer bytes;
		random_table(&table, 300);
		struct parquet_written written;
		write_bytes(&bytes, &table, 1, 100, &written);
		struct parquet_file *file = open_bytes(&bytes, NULL);
		for (size_t c = 0; c < TABLE_COLUMNS; c++) {
			assert_int_equal(parquet_read_pages(file, 0, c, 1, 1, &data, NULL), 0);
			check_rows(&table, c, 100, 100, &data);
		}
		parquet_close(file);
		buffer_release(&bytes);
		free_table(&table);
	}
	parquet_data_release(&data);
}

/* ---- page index ---- */

static int write_columns(const char *path, const struct parquet_column *columns, const struct parquet_values *values,
			 size_t count, size_t rows, size_t page_rows)
{
	struct parquet_write_options options = {.columns = columns, .column_count = count, .page_rows = page_rows};
	_cleanup_(parquet_writer_freep) struct parquet_writer *writer = NULL;
	struct parquet_written written;
	int r = parquet_writer_open(path, &options, &writer, NULL);
	if (r == 0)
		r = parquet_writer_group(writer, values, rows, NULL);
	return r == 0 ? parquet_writer_finish(writer, &written, NULL) : r;
}

static void test_ranges(void **state)
{
	char path[128];
	int32_t i32[] = {5, -7, 3, 8, 9, INT32_MAX};
	int64_t i64[] = {INT64_MAX, 4, 0, 1, INT64_MIN, 6};
	uint8_t present[] = {1, 1, 0, 0, 1, 1};
	const struct parquet_column columns[] = {{.name = "a", .type = PARQUET_INT32},
						 {.name = "u", .type = PARQUET_INT32, .logical = PARQUET_UINT32},
						 {.name = "b", .type = PARQUET_INT64, .optional = true}};
	struct parquet_values values[] = {{.i32 = i32}, {.i32 = i32}, {.i64 = i64, .present = present}};
	assert_int_equal(write_columns(temp_path(path, "r.parquet"), columns, values, 3, 6, 2), 0);
	struct parquet_file *file;
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	int64_t min, max;
	struct bytes least, most;
	assert_int_equal(parquet_page_count(file, 0), 3);
	assert_true(parquet_page_range(file, 0, 0, 0, &min, &max) && min == -7 && max == 5);
	assert_true(parquet_page_range(file, 0, 0, 1, &min, &max) && min == 3 && max == 8);
	assert_true(parquet_page_range(file, 0, 0, 2, &min, &max) && min == 9 && max == INT32_MAX);
	assert_false(parquet_page_range(file, 0, 1, 0, &min, &max));
	assert_true(parquet_page_range(file, 0, 2, 0, &min, &max) && min == 4 && max == INT64_MAX);
	assert_false(parquet_page_range(file, 0, 2, 1, &min, &max)); /* nulls only */
	assert_true(parquet_page_range(file, 0, 2, 2, &min, &max) && min == INT64_MIN && max == 6);
	assert_false(parquet_page_bounds(file, 0, 0, 0, &least, &most));
	parquet_close(file);
}

/* Bounds of text: never wrong, never longer than they may be, and text. */
static void check_bound(struct bytes value, bool is_text)
{
	uint8_t memory[PARQUET_BOUND_MAX];
	struct bytes bound;
	assert_true(parquet_cut_bound(value, is_text, false, memory, &bound));
	assert_true(bound.len <= PARQUET_BOUND_MAX && bytes_compare(bound, value) <= 0);
	if (!parquet_cut_bound(value, is_text, true, memory, &bound)) {
		for (size_t i = 0; i < PARQUET_BOUND_MAX; i++)
			assert_int_equal(value.data[i], 0xff);
		return;
	}
	assert_true(bound.len <= PARQUET_BOUND_MAX && bytes_compare(bound, value) >= 0);
}

static void check_text_bound(const char *pattern, size_t repeat, bool can_rise)
{
	char text[400];
	uint8_t memory[PARQUET_BOUND_MAX];
	struct bytes bound;
	size_t len = 0;
	for (size_t i = 0; i < repeat && len + strlen(pattern) < sizeof(text); i++, len += strlen(pattern))
		memcpy(text + len, pattern, strlen(pattern));
	text[len] = '\0';
	for (size_t skip = 0; skip < 8 && skip < len; skip++) {
		struct bytes value = bytes_of_string(text + skip);
		check_bound(value, true);
		if ((text[skip] & 0xc0) == 0x80)
			continue;
		for (int upper = 0; upper < 2; upper++) {
			assert_true(parquet_cut_bound(value, true, upper, memory, &bound));
			if (!upper || can_rise || value.len <= PARQUET_BOUND_MAX)
				assert_true(text_is_utf8(bound));
		}
	}
}

static void test_bounds(void **state)
{
	static const char *const patterns[] = {"a", "ü", "\xed\x9f\xbf", "😀", "aü😀", "\x7f", "\xdf\xbf", "\xef\xbf\xbf"};
	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		for (size_t repeat = 1; repeat < 100; repeat++)
			check_text_bound(patterns[i], repeat, i < 5); /* the last three are the last of their length */
	for (int round = 0; round < 5000; round++) {
		uint8_t noise[100];
		size_t len = rnd() % 100, high = rnd() % 100;
		for (size_t i = 0; i < len; i++)
			noise[i] = i < high ? 0xff : (uint8_t)rnd();
		check_bound((struct bytes){noise, len}, round & 1);
	}
}

static void test_page_bounds(void **state)
{
	char path[128], texts[6][200];
	struct bytes values[6], least, most;
	for (size_t i = 0; i < 6; i++) {
		memset(texts[i], 'a' + (int)i, sizeof(texts[i]));
		values[i] = (struct bytes){(uint8_t *)texts[i], i < 3 ? 10 : 200};
	}
	const struct parquet_column columns[] = {{.name = "s", .type = PARQUET_BYTE_ARRAY, .logical = PARQUET_STRING}};
	assert_int_equal(
		write_columns(temp_path(path, "b.parquet"), columns, &(struct parquet_values){.bytes = values}, 1, 6, 3), 0);
	struct parquet_file *file;
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	assert_true(parquet_page_bounds(file, 0, 0, 0, &least, &most));
	assert_true(bytes_equal_string(least, "aaaaaaaaaa") && bytes_equal_string(most, "cccccccccc"));
	assert_true(parquet_page_bounds(file, 0, 0, 1, &least, &most));
	assert_true(least.len == PARQUET_BOUND_MAX && least.data[63] == 'd');
	assert_true(most.len == PARQUET_BOUND_MAX && most.data[62] == 'f' && most.data[63] == 'g');
	parquet_close(file);
}

/* A page of very long strings gets fewer rows, in all columns. */
static void test_long_strings(void **state)
{
	char path[128];
	size_t rows = 300, len = 100000;
	uint8_t *noise = mem_alloc(len + rows);
	struct bytes *values = mem_alloc_array(rows, sizeof(*values));
	int32_t *numbers = mem_alloc_array(rows, sizeof(*numbers));
	for (size_t i = 0; i < len + rows; i++)
		noise[i] = (uint8_t)rnd();
	for (size_t i = 0; i < rows; i++) {
		values[i] = (struct bytes){noise + i, len};
		numbers[i] = (int32_t)i;
	}
	const struct parquet_column columns[] = {{.name = "n", .type = PARQUET_INT32},
						 {.name = "s", .type = PARQUET_BYTE_ARRAY, .layout = PARQUET_PLAIN}};
	struct parquet_values both[] = {{.i32 = numbers}, {.bytes = values}};
	assert_int_equal(write_columns(temp_path(path, "l.parquet"), columns, both, 2, rows, 256), 0);
	struct parquet_file *file;
	struct parquet_data data = {0};
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	size_t pages = parquet_page_count(file, 0);
	assert_true(pages >= 8 && pages < 20);
	for (size_t p = 0; p < pages; p++) {
		size_t from = parquet_page_first_row(file, 0, p);
		assert_int_equal(parquet_read_pages(file, 0, 0, p, 1, &data, NULL), 0);
		assert_int_equal(data.i32[0], from);
		assert_int_equal(parquet_read_pages(file, 0, 1, p, 1, &data, NULL), 0);
		assert_true(bytes_equal(data.bytes[data.count - 1], values[from + data.count - 1]));
	}
	parquet_data_release(&data);
	parquet_close(file);
	mem_free(noise);
	mem_free(values);
	mem_free(numbers);
}

/* Values made to share one slot of the dictionary's table: no matter, but for the dictionary. */
static void test_colliding_values(void **state)
{
	char path[128];
	size_t rows = 100000;
	int64_t *values = mem_alloc_array(rows, sizeof(*values));
	uint64_t inverse = 0x9e3779b97f4a7c15ull; /* of the multiplier, by Newton's method */
	for (int i = 0; i < 6; i++)
		inverse *= 2 - 0x9e3779b97f4a7c15ull * inverse;
	for (size_t i = 0; i < rows; i++) {
		uint64_t product = (uint64_t)(i % 30000) << 52 | (uint64_t)(i % 30000), word = product * inverse;
		values[i] = (int64_t)(word ^ word >> 32);
	}
	const struct parquet_column columns[] = {{.name = "c", .type = PARQUET_INT64}};
	assert_int_equal(
		write_columns(temp_path(path, "c.parquet"), columns, &(struct parquet_values){.i64 = values}, 1, rows, 0), 0);
	struct parquet_file *file;
	struct parquet_data data = {0};
	assert_int_equal(parquet_open(path, NULL, &file, NULL), 0);
	assert_int_equal(parquet_read(file, 0, 0, &data, NULL), 0);
	assert_memory_equal(data.i64, values, rows * sizeof(*values));
	parquet_data_release(&data);
	parquet_close(file);
	mem_free(values);
}

/* ---- damage ---- */

/* Reads one column page by page; the pages' data are put one behind the other. */
static int read_by_pages(struct parquet_file *file, size_t column, size_t page, struct parquet_data *data, struct error *err)
{
	return parquet_read_pages(file, 0, column, page, 1, data, err);
}

/* A flipped byte is found by whoever uses the page it is in, and by nobody else. */
static void test_flips_in_pages(void **state)
{
	struct table table;
	struct buffer bytes;
	struct parquet_written written;
	struct parquet_data data = {0};
	random_table(&table, 60);
	write_bytes(&bytes, &table, 1, 20, &written);
	size_t seen_good = 0, seen_bad = 0;
	for (size_t i = 4; i < bytes.len; i++) {
		bytes.data[i] ^= 0x10;
		struct parquet_file *file = NULL;
		struct parquet_read_options options = {.expected_footer = &written.footer_hash};
		if (test_parquet_open_bytes(buffer_bytes(&bytes), &options, &file, NULL) == 0) {
			for (size_t c = 0; c < TABLE_COLUMNS; c++) {
				for (size_t p = 0; p < 3; p++) {
					int64_t min, max;
					parquet_page_range(file, 0, c, parquet_page_count(file, 0) - 1, &min, &max);
					if (parquet_page_count(file, 0) != 3)
						break; /* the index: reading below fails */
					int r = read_by_pages(file, c, p, &data, NULL);
					assert_true(r == 0 || r == -EBADMSG);
					if (r == 0)
						check_rows(&table, c, p * 20, 20, &data);
					seen_good += r == 0;
					seen_bad += r < 0;
				}
				if (parquet_page_count(file, 0) == 1)
					assert_int_equal(read_by_pages(file, c, 0, &data, NULL), -EBADMSG);
			}
			assert_int_equal(parquet_verify(file, NULL), -EBADMSG);
			parquet_close(file);
		}
		bytes.data[i] ^= 0x10;
	}
	assert_true(seen_bad > 1000 && seen_good > seen_bad);
	parquet_data_release(&data);
	buffer_release(&bytes);
	free_table(&table);
}

static int use_everything(const struct buffer *bytes, struct error *err)
{
	struct parquet_file *file = NULL;
	struct parquet_data data = {0};
	struct parquet_codes codes = {0};
	int64_t min, max;
	int r = test_parquet_open_bytes(buffer_bytes(bytes), NULL, &file, err);
	for (size_t c = 0; r == 0 && c < TABLE_COLUMNS; c++) {
		size_t pages = parquet_page_count(file, 0);
		parquet_page_range(file, 0, c, pages - 1, &min, &max);
		for (size_t p = 0; r == 0 && p < pages; p++)
			r = parquet_read_pages(file, 0, c, p, 1, &data, err);
		if (r == 0 && parquet_column_at(file, c)->type == PARQUET_BYTE_ARRAY)
			r = parquet_read_codes(file, 0, c, &codes, err);
	}
	if (r == 0)
		r = parquet_verify(file, err);
	parquet_data_release(&data);
	parquet_codes_release(&codes);
	parquet_close(file);
	return r;
}

static void test_faults(void **state)
{
	struct table table;
	struct buffer bytes;
	struct parquet_written written;
	random_table(&table, 50);
	write_bytes(&bytes, &table, 1, 20, &written);
	for (uint64_t n = 1;; n++) {
		struct error err = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = use_everything(&bytes, &err);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r < 0, reached);
		if (!reached)
			break;
		assert_true((r == -ENOMEM || r == -E2BIG) && err.message[0]);
	}
	buffer_release(&bytes);
	free_table(&table);
}

/* Read errors in the middle show, and the next try is good. */
static void test_read_errors(void **state)
{
	char path[128];
	struct table table;
	struct parquet_written written;
	struct parquet_data data = {0};
	random_table(&table, 50);
	assert_int_equal(write_table_pages(temp_path(path, "e.parquet"), &table, 1, 20, &written, NULL), 0);
	for (uint64_t n = 1;; n++) {
		struct parquet_file *file = NULL;
		struct error err = {0};
		fault_arm(FAULT_READ, n, 0);
		int r = parquet_open(path, NULL, &file, &err);
		for (size_t c = 0; r == 0 && c < TABLE_COLUMNS; c++)
			for (size_t p = 0; r == 0 && p < parquet_page_count(file, 0); p++)
				r = parquet_read_pages(file, 0, c, p, 1, &data, &err);
		if (r == 0)
			r = parquet_verify(file, &err);
		bool reached = fault_disarm(FAULT_READ);
		assert_int_equal(r < 0, reached);
		parquet_close(file);
		if (!reached)
			break;
	}
	parquet_data_release(&data);
	free_table(&table);
}

/* ---- for readers other than ours ---- */

static void print_value(const struct table *table, size_t c, size_t i)
{
	const struct parquet_column *column = &schema[c];
	const void *all = table->values[c];
	if (table->present[c] && !table->present[c][i]) {
		printf("null");
		return;
	}
	switch (column->type) {
	case PARQUET_BOOLEAN: printf("%s", ((const uint8_t *)all)[i] ? "true" : "false"); break;
	case PARQUET_INT32:
		if (column->logical == PARQUET_UINT32)
			printf("\"%" PRIu32 "\"", ((const uint32_t *)all)[i]);
		else
			printf("\"%" PRId32 "\"", ((const int32_t *)all)[i]);
		break;
	case PARQUET_INT64:
		if (column->logical == PARQUET_UINT64)
			printf("\"%" PRIu64 "\"", ((const uint64_t *)all)[i]);
		else
			printf("\"%" PRId64 "\"", ((const int64_t *)all)[i]);
		break;
	case PARQUET_FLOAT: printf("%.9g", (double)((const float *)all)[i]); break;
	case PARQUET_DOUBLE: printf("%.17g", ((const double *)all)[i]); break;
	default: {
		struct bytes value = ((const struct bytes *)all)[i];
		printf("\"%.*s\"", (int)value.len, (const char *)value.data);
	}
	}
}

/* Writes a file of three row groups, and prints its rows, each an array of JSON: tests/store/parquet.mjs lets others read it.
 */
static int write_for_others(const char *path, size_t page_rows)
{
	struct table tables[3];
	struct parquet_written written;
	struct error err = {0};
	noise_is_text = true;
	seed += page_rows;
	for (size_t t = 0; t < 3; t++)
		random_table(&tables[t], 500 + rnd() % 3000);
	int r = write_table_pages(path, tables, 3, page_rows, &written, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.message);
	for (size_t t = 0; t < 3; t++) {
		for (size_t i = 0; i < tables[t].rows; i++) {
			for (size_t c = 0; c < TABLE_COLUMNS; c++) {
				printf(c ? ", " : "[");
				print_value(&tables[t], c, i);
			}
			printf("]\n");
		}
		free_table(&tables[t]);
	}
	return r < 0;
}

/* parquet_pages_test [--write FILE PAGE_ROWS] */
int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--write"))
		return write_for_others(argv[2], strtoul(argv[3], NULL, 10));
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),
		cmocka_unit_test(test_chosen_pages),
		cmocka_unit_test(test_kept_footer),
		cmocka_unit_test(test_large_pages),
		cmocka_unit_test(test_dictionary_of_another_file),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_page_bounds),
		cmocka_unit_test(test_long_strings),
		cmocka_unit_test(test_colliding_values),
		cmocka_unit_test(test_flips_in_pages),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_read_errors),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
