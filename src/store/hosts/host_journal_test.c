/* SPDX-License-Identifier: Apache-2.0 */
/* The file of the table of hosts: what is written is read; damage anywhere takes the record that it hits, and no other. */
#include "store/hosts/host_journal.h"

#include "store/test_store.h"

#include <errno.h>

#define RECORDS 12

struct read {
	char hosts[RECORDS + 2][32];
	size_t count;
};

static int on_record(void *context, const char *host, const struct labels *labels, int64_t first_ns, int64_t last_ns,
		     struct error *err)
{
	struct read *read = context;
	char value[32];
	int number;
	assert_true(read->count < RECORDS + 2);
	assert_int_equal(sscanf(host, "host%d", &number), 1);
	snprintf(value, sizeof(value), "value%d", number);
	assert_string_equal(labels_get(labels, "zone"), value);
	assert_int_equal(first_ns, 1000 + number);
	assert_int_equal(last_ns, 2000 + number);
	snprintf(read->hosts[read->count++], 32, "%s", host);
	return 0;
}

static void add(struct buffer *file, int number)
{
	_cleanup_(labels_release) struct labels labels = {0};
	char host[32], value[32];
	snprintf(host, sizeof(host), "host%d", number);
	snprintf(value, sizeof(value), "value%d", number);
	assert_int_equal(labels_set(&labels, "zone", value, NULL), 0);
	assert_int_equal(labels_set(&labels, "host_arch", "amd64", NULL), 0);
	assert_int_equal(host_journal_add(file, host, &labels, 1000 + number, 2000 + number), 0);
}

/* ends: where each record ends. */
static void make(struct buffer *file, size_t ends[static RECORDS])
{
	*file = (struct buffer){.max = SIZE_MAX};
	assert_int_equal(host_journal_begin(file), 0);
	for (int i = 0; i < RECORDS; i++) {
		add(file, i);
		ends[i] = file->len;
	}
}

static void test_whole(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	size_t ends[RECORDS];
	struct read read = {0};
	struct host_journal_result result;
	make(&file, ends);
	assert_int_equal(host_journal_read(buffer_bytes(&file), on_record, &read, &result, NULL), 0);
	assert_int_equal(result.records, RECORDS);
	assert_int_equal(result.whole_bytes, file.len);
	assert_int_equal(result.damaged_bytes + result.cut_bytes, 0);
}

/* A file that ends anywhere: the whole records are there, and what is left was being written. */
static void test_cut(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	size_t ends[RECORDS];
	make(&file, ends);
	for (size_t len = 0; len < file.len; len++) {
		struct read read = {0};
		struct host_journal_result result;
		size_t whole = 0;
		while (whole < RECORDS && ends[whole] <= len)
			whole++;
		assert_int_equal(host_journal_read((struct bytes){file.data, len}, on_record, &read, &result, NULL), 0);
		assert_int_equal(result.records, whole);
		assert_int_equal(result.damaged_bytes, 0);
		assert_int_equal(result.cut_bytes, len < 8 ? len : len - (whole ? ends[whole - 1] : 8));
	}
}

/* A flipped bit anywhere costs at most the record that it is in, and is told. */
static void test_flips(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	size_t ends[RECORDS];
	make(&file, ends);
	for (size_t at = 0; at < file.len; at++) {
		struct read read = {0};
		struct host_journal_result result;
		uint8_t bit = (uint8_t)(1u << (at % 8));
		file.data[at] ^= bit;
		int r = host_journal_read(buffer_bytes(&file), on_record, &read, &result, NULL);
		if (r == -ENOTSUP) /* the version */
			assert_int_equal(at, 7);
		else
			assert_int_equal(r, 0);
		if (r == 0)
			assert_true(result.records >= RECORDS - 1);
		/* An older version than any that there was is read as this one. */
		if (r == 0 && at != 7)
			assert_true(result.damaged_bytes + result.cut_bytes > 0);
		file.data[at] ^= bit;
	}
}

static void test_zeros(void **state)
{
	_cleanup_(buffer_release) struct buffer file = {0};
	size_t ends[RECORDS];
	struct read read = {0};
	struct host_journal_result result;
	const uint8_t zeros[4096] = {0};
	make(&file, ends);
	/* Room that a crash left without bytes. */
	assert_int_equal(buffer_append(&file, zeros, sizeof(zeros)), 0);
	assert_int_equal(host_journal_read(buffer_bytes(&file), on_record, &read, &result, NULL), 0);
	assert_int_equal(result.records, RECORDS);
	assert_int_equal(result.cut_bytes, sizeof(zeros));
	/* In the middle it is damage. */
	add(&file, RECORDS);
	read.count = 0;
	assert_int_equal(host_journal_read(buffer_bytes(&file), on_record, &read, &result, NULL), 0);
	assert_int_equal(result.records, RECORDS + 1);
	assert_int_equal(result.damaged_bytes, sizeof(zeros));
}

static void test_garbage(void **state)
{
	test_seed_from_environment();
	for (int round = 0; round < 2000; round++) {
		uint8_t bytes[512];
		struct read read = {0};
		struct host_journal_result result;
		size_t len = rnd_below(sizeof(bytes));
		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)rnd();
		int r = host_journal_read((struct bytes){bytes, len}, on_record, &read, &result, NULL);
		assert_true(r == 0 || r == -ENOTSUP);
		assert_int_equal(result.records, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole), cmocka_unit_test(test_cut),     cmocka_unit_test(test_flips),
		cmocka_unit_test(test_zeros), cmocka_unit_test(test_garbage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
