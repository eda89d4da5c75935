/* SPDX-License-Identifier: Apache-2.0 */
/* One flipped bit anywhere in a file is found and put right in memory; more of them are damage, of their page and no other. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/io.h"
#include "codec/parquet.h"

#define ROWS  300
#define PAGE  50
#define GROUP 150

struct sample {
	char directory[64], path[128];
	struct buffer bytes;
	struct parquet_written written;
};
struct corrected {
	unsigned count;
	uint64_t offset;
	uint8_t mask;
};

static int64_t value_of(int row)
{
	return (int64_t)((uint64_t)row * 0x123456789abcdefull);
}

static void note(void *context, uint64_t offset, uint8_t mask)
{
	struct corrected *corrected = context;
	corrected->count++;
	corrected->offset = offset;
	corrected->mask = mask;
}

static void make_file(struct sample *sample)
{
	static const struct parquet_column columns[] = {{.name = "id", .type = PARQUET_INT32},
							{.name = "value", .type = PARQUET_INT64, .layout = PARQUET_PLAIN},
							{.name = "text", .type = PARQUET_BYTE_ARRAY, .optional = true}};
	struct parquet_write_options options = {.columns = columns, .column_count = 3, .page_rows = PAGE, .mode = 0600};
	struct parquet_writer *writer;
	int32_t ids[GROUP];
	int64_t values[GROUP];
	struct bytes texts[GROUP];
	uint8_t present[GROUP];
	*sample = (struct sample){.directory = "/tmp/parquet-correct-XXXXXX", .bytes.max = 1 << 20};
	assert_non_null(mkdtemp(sample->directory));
	snprintf(sample->path, sizeof(sample->path), "%s/file", sample->directory);
	assert_int_equal(parquet_writer_open(sample->path, &options, &writer, NULL), 0);
	for (int g = 0; g < ROWS / GROUP; g++) {
		for (int i = 0; i < GROUP; i++) {
			ids[i] = i / 40;
			values[i] = value_of(g * GROUP + i);
			present[i] = i % 3 != 0;
			texts[i] = bytes_of_string(i % 2 ? "odd" : "even");
		}
		const struct parquet_values all[] = {{.i32 = ids}, {.i64 = values}, {.present = present, .bytes = texts}};
		assert_int_equal(parquet_writer_group(writer, all, GROUP, NULL), 0);
	}
	assert_int_equal(parquet_writer_finish(writer, &sample->written, NULL), 0);
	parquet_writer_free(writer);
	assert_int_equal(io_read_file(sample->path, 1 << 20, &sample->bytes, NULL), 0);
}

static void remove_file(struct sample *sample)
{
	buffer_release(&sample->bytes);
	assert_int_equal(io_remove_tree(sample->directory, NULL), 0);
}

static void save(const struct sample *sample)
{
	unlink(sample->path);
	assert_int_equal(io_write_file(sample->path, sample->bytes.data, sample->bytes.len, 0600, NULL), 0);
}

static struct parquet_file *open_sample(const struct sample *sample, struct corrected *corrected, struct error *err)
{
	struct parquet_file *file = NULL;
	const struct parquet_read_options options = {.expected_footer = &sample->written.footer_hash,
						     .around_indexes = true,
						     .on_corrected = corrected ? note : NULL,
						     .context = corrected};
	return parquet_open(sample->path, &options, &file, err) == 0 ? file : NULL;
}

/* What is read by pages, around damage; returns how many rows of pages are whole in all columns. */
static size_t read_all(struct parquet_file *file)
{
	size_t whole = 0;
	for (size_t g = 0; g < parquet_group_count(file); g++) {
		struct parquet_data data[3] = {0};
		uint8_t bad[ROWS] = {0};
		size_t pages = parquet_page_count(file, g), damaged = 0;
		for (size_t c = 0; c < 3; c++) {
			struct error err = {0};
			if (parquet_read_around(file, g, c, 0, pages, &data[c], bad, &damaged, &err) < 0)
				fail_msg("%s", err.message);
			assert_int_equal(data[c].count, GROUP);
		}
		for (size_t p = 0; p < pages; p++) {
			if (bad[p])
				continue;
			size_t from = parquet_page_first_row(file, g, p), to = parquet_page_first_row(file, g, p + 1);
			for (size_t i = from; i < to; i++) {
				assert_int_equal(data[0].i32[i], (int32_t)i / 40);
				assert_int_equal(data[1].i64[i], value_of((int)(g * GROUP + i)));
				assert_int_equal(data[2].present[i], i % 3 != 0);
				if (data[2].present[i])
					assert_true(bytes_equal(data[2].bytes[i], bytes_of_string(i % 2 ? "odd" : "even")));
			}
			whole += to - from;
		}
		for (size_t c = 0; c < 3; c++)
			parquet_data_release(&data[c]);
	}
	return whole;
}

static void test_one_bit(void **state)
{
	struct sample sample;
	make_file(&sample);
	for (size_t at = 0; at < sample.bytes.len; at++) {
		struct corrected corrected = {0};
		struct error err = {0};
		uint8_t mask = (uint8_t)(1u << at % 8);
		sample.bytes.data[at] ^= mask;
		save(&sample);
		/* As it is, something is wrong. */
		struct parquet_file *file = open_sample(&sample, NULL, &err);
		if (file)
			assert_int_equal(parquet_verify(file, &err), -EBADMSG);
		parquet_close(file);
		file = open_sample(&sample, &corrected, &err);
		if (!file)
			fail_msg("byte %zu: %s", at, err.message);
		assert_int_equal(read_all(file), ROWS);
		if (parquet_verify(file, &err) < 0)
			fail_msg("byte %zu: %s", at, err.message);
		assert_true(corrected.count >= 1);
		assert_int_equal(corrected.offset, at);
		assert_int_equal(corrected.mask, mask);
		parquet_close(file);
		sample.bytes.data[at] ^= mask;
	}
	remove_file(&sample);
}

static void count_damage(void *context, const char *message)
{
	++*(unsigned *)context;
}

/* Several bytes: the page is lost, or with the dictionary those of its row group, and all others are read. */
static void test_more(void **state)
{
	struct sample sample;
	make_file(&sample);
	size_t kept[ROWS / PAGE + 1] = {0};
	for (size_t at = 4; at + 3 < sample.bytes.len; at += 3) {
		struct corrected corrected = {0};
		struct error err = {0};
		unsigned damage = 0;
		for (size_t i = 0; i < 3; i++)
			sample.bytes.data[at + i] ^= 0x5a;
		save(&sample);
		struct parquet_file *file = open_sample(&sample, &corrected, &err);
		if (file) {
			size_t whole = read_all(file);
			/* At most a dictionary, and the page of the other row group beside it. */
			assert_true(whole % PAGE == 0 && whole >= GROUP - PAGE);
			kept[whole / PAGE]++;
			assert_int_equal(parquet_verify(file, &err), -EBADMSG);
			assert_int_equal(parquet_verify_all(file, count_damage, &damage, NULL), 0);
			assert_true(damage >= 1);
		}
		parquet_close(file);
		assert_int_equal(corrected.count, 0);
		for (size_t i = 0; i < 3; i++)
			sample.bytes.data[at + i] ^= 0x5a;
	}
	assert_true(kept[ROWS / PAGE] > 0);	/* page indexes */
	assert_true(kept[ROWS / PAGE - 1] > 0); /* one page */
	remove_file(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_bit), cmocka_unit_test(test_more)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
