/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/time.h"
#include "export/spool.h"

static char directory[64];

static int setup(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/wick-spool-test.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(directory, NULL);
}

static struct spool *open_spool(uint64_t bytes_max, bool on_disk)
{
	struct spool *spool = NULL;
	struct error err = {0};
	struct spool_options options = {
		.directory = on_disk ? directory : NULL, .bytes_max = bytes_max, .memory_max = bytes_max};
	if (spool_new(&options, &spool, &err) < 0)
		fail_msg("%s", err.message);
	return spool;
}

static int put(struct spool *spool, const char *text)
{
	struct spool_meta meta = {.created_ns = time_now_ns(), .samples = 10, .profiles = 1, .tenant = "a"};
	return spool_push(spool, &meta, bytes_of_string(text), NULL, NULL, NULL);
}

static void push(struct spool *spool, const char *text)
{
	assert_int_equal(put(spool, text), 0);
}

static void expect(struct spool *spool, const char *text)
{
	struct spool_meta meta;
	struct buffer record;
	buffer_init(&record, 10000);
	assert_int_equal(spool_front(spool, 0, &meta, &record, NULL), text ? 1 : 0);
	if (text) {
		assert_string_equal(buffer_string(&record), text);
		assert_int_equal(meta.samples, 10);
		assert_string_equal(meta.tenant, "a");
		spool_done(spool, true);
	}
	buffer_release(&record);
}

static struct spool_stats stats_of(struct spool *spool)
{
	struct spool_stats stats;
	spool_get_stats(spool, &stats);
	return stats;
}

static void test_order(void **state)
{
	(void)state;
	for (int on_disk = 0; on_disk < 2; on_disk++) {
		struct spool *spool = open_spool(10000, on_disk);
		push(spool, "one");
		push(spool, "two");
		expect(spool, "one");
		push(spool, "three");
		/* What is not delivered stays the first. */
		struct spool_meta meta;
		struct buffer record;
		buffer_init(&record, 100);
		assert_int_equal(spool_front(spool, 0, &meta, &record, NULL), 1);
		spool_done(spool, false);
		buffer_release(&record);
		expect(spool, "two");
		expect(spool, "three");
		expect(spool, NULL);
		assert_int_equal(stats_of(spool).bytes, 0);
		assert_int_equal(put(spool, ""), 0);
		expect(spool, "");
		/* What came between a wait that ended in vain and the end is not over with. */
		push(spool, "last");
		assert_false(spool_is_over(spool));
		spool_close(spool);
		assert_false(spool_is_over(spool));
		assert_int_equal(put(spool, "late"), -EPIPE);
		expect(spool, "last");
		assert_true(spool_is_over(spool));
		assert_int_equal(stats_of(spool).lost[SPOOL_LOST_FULL].records, 1);
		spool_free(spool);
	}
}

static void test_survives(void **state)
{
	(void)state;
	char path[200];
	struct spool *spool = open_spool(10000, true), *second = NULL;
	push(spool, "one");
	push(spool, "two");
	expect(spool, "one");
	push(spool, "three");
	struct spool_options options = {.directory = directory};
	assert_int_equal(spool_new(&options, &second, NULL), -EBUSY);
	spool_free(spool);
	snprintf(path, sizeof(path), "%s/00000000000000000009.rec.tmp", directory);
	assert_int_equal(io_write_file(path, "x", 1, 0600, NULL), 0);
	spool = open_spool(10000, true);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_int_equal(stats_of(spool).found, 2);
	assert_int_equal(stats_of(spool).samples, 20);
	push(spool, "four");
	expect(spool, "two");
	expect(spool, "three");
	expect(spool, "four");
	expect(spool, NULL);
	spool_free(spool);
}

static void test_bounds(void **state)
{
	(void)state;
	for (int on_disk = 0; on_disk < 2; on_disk++) {
		/* Three records of 64 + 1 + 35 bytes. */
		char record[] = "12345678901234567890123456789012345";
		struct spool *spool = open_spool(300, on_disk);
		for (char c = 'a'; c <= 'e'; c++) {
			record[0] = c;
			push(spool, record);
			assert_true(stats_of(spool).bytes <= 300);
		}
		assert_int_equal(stats_of(spool).records, 3);
		assert_int_equal(stats_of(spool).lost[SPOOL_LOST_FULL].records, 2);
		assert_int_equal(stats_of(spool).lost[SPOOL_LOST_FULL].samples, 20);
		record[0] = 'c';
		expect(spool, record);
		char large[400];
		memset(large, 'x', sizeof(large));
		large[sizeof(large) - 1] = '\0';
		assert_int_equal(put(spool, large), -E2BIG);
		assert_int_equal(stats_of(spool).lost[SPOOL_LOST_FULL].records, 3);
		/* The record that is being delivered makes room too; it is lost only if it does not arrive. */
		for (int delivered = 0; delivered < 2; delivered++) {
			struct spool_meta meta;
			struct buffer front;
			buffer_init(&front, 100);
			assert_int_equal(spool_front(spool, 0, &meta, &front, NULL), 1);
			buffer_release(&front);
			for (int i = 0; i < 3; i++)
				push(spool, record);
			uint64_t before = stats_of(spool).lost[SPOOL_LOST_FULL].records;
			spool_done(spool, delivered);
			assert_int_equal(stats_of(spool).lost[SPOOL_LOST_FULL].records, before + !delivered);
			assert_int_equal(stats_of(spool).records, 3);
		}
		for (int i = 0; i < 3; i++)
			expect(spool, record);
		assert_int_equal(stats_of(spool).memory_bytes, 0);
		spool_free(spool);
	}
	/* A smaller bound holds for what was there. */
	struct spool *spool = open_spool(1000, true);
	for (int i = 0; i < 5; i++)
		push(spool, "12345678901234567890123456789012345");
	spool_free(spool);
	spool = open_spool(300, true);
	assert_int_equal(stats_of(spool).records, 3);
	assert_int_equal(stats_of(spool).lost[SPOOL_LOST_FULL].records, 2);
	spool_free(spool);
}

static void test_age(void **state)
{
	(void)state;
	struct spool *spool = open_spool(10000, true);
	struct spool_meta meta = {
		.created_ns = time_now_ns() - SPOOL_AGE_DEFAULT_NS + 3600 * NS_PER_S, .samples = 10, .tenant = "a"};
	assert_int_equal(spool_push(spool, &meta, bytes_of_string("nearly"), NULL, NULL, NULL), 0);
	meta.created_ns = time_now_ns() - SPOOL_AGE_DEFAULT_NS - 1;
	assert_int_equal(spool_push(spool, &meta, bytes_of_string("old"), NULL, NULL, NULL), 0);
	meta.created_ns = time_now_ns() + 3600 * NS_PER_S; /* from before the clock was set back */
	assert_int_equal(spool_push(spool, &meta, bytes_of_string("future"), NULL, NULL, NULL), 0);
	spool_free(spool);
	spool = open_spool(10000, true);
	expect(spool, "nearly");
	expect(spool, "future");
	assert_int_equal(stats_of(spool).lost[SPOOL_LOST_OLD].samples, 10);
	spool_free(spool);
}

static void damage(const char *name, size_t at)
{
	char path[200];
	uint8_t byte;
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

static void test_damage(void **state)
{
	(void)state;
	size_t size = SPOOL_HEADER_BYTES + strlen("a") + strlen("two");
	for (size_t at = 0; at < size; at++) {
		struct spool *spool = open_spool(10000, true);
		push(spool, "one");
		push(spool, "two");
		push(spool, "three");
		spool_free(spool);
		damage("00000000000000000001.rec", at);
		spool = open_spool(10000, true);
		expect(spool, "one");
		expect(spool, "three");
		expect(spool, NULL);
		struct spool_stats stats = stats_of(spool);
		assert_int_equal(stats.lost[SPOOL_LOST_DAMAGED].records, 1);
		assert_non_null(strstr(stats.damage, "00000000000000000001.rec: "));
		char path[200];
		snprintf(path, sizeof(path), "%s/damaged/00000000000000000001.rec", directory);
		assert_int_equal(access(path, F_OK), 0);
		spool_free(spool);
		snprintf(path, sizeof(path), "%s/lock", directory);
		io_remove_tree(directory, NULL);
	}
	/* Cut short, and removed by somebody, while it is open. */
	struct spool *spool = open_spool(10000, true);
	char path[200];
	push(spool, "one");
	push(spool, "two");
	push(spool, "three");
	snprintf(path, sizeof(path), "%s/00000000000000000000.rec", directory);
	assert_int_equal(truncate(path, 66), 0);
	snprintf(path, sizeof(path), "%s/00000000000000000001.rec", directory);
	assert_int_equal(unlink(path), 0);
	expect(spool, "three");
	assert_int_equal(stats_of(spool).lost[SPOOL_LOST_DAMAGED].samples, 20);
	spool_free(spool);
}

/* A disk that fails: records wait in memory, in their order, and the reason is reported until the disk works again. */
static void test_disk_fails(void **state)
{
	(void)state;
	struct spool *spool = open_spool(10000, true);
	push(spool, "one");
	fault_arm(FAULT_WRITE, 1, FAULT_STICKY);
	push(spool, "two");
	assert_true(fault_disarm(FAULT_WRITE));
	struct spool_stats stats = stats_of(spool);
	assert_int_equal(stats.records, 2);
	assert_true(stats.memory_bytes > 0);
	assert_non_null(strstr(stats.problem, directory));
	push(spool, "three");
	assert_string_equal(stats_of(spool).problem, "");
	expect(spool, "one");
	expect(spool, "two");
	push(spool, "four");
	expect(spool, "three");
	fault_arm(FAULT_RENAME, 1, FAULT_STICKY);
	push(spool, "five");
	assert_true(fault_disarm(FAULT_RENAME));
	spool_drop_memory(spool);
	assert_int_equal(stats_of(spool).lost[SPOOL_LOST_ENDED].samples, 10);
	expect(spool, "four");
	expect(spool, NULL);
	spool_free(spool);
	/* A disk with too little room for others: the old ones go first, then memory is used. */
	struct spool_options options = {.directory = directory, .disk_free_min = UINT64_MAX / 2, .memory_max = 1000};
	assert_int_equal(spool_new(&options, &spool, NULL), 0);
	push(spool, "one");
	assert_non_null(strstr(stats_of(spool).problem, "nearly full"));
	expect(spool, "one");
	spool_free(spool);
}

static void test_links(void **state)
{
	(void)state;
	char other[80], path[SPOOL_PATH_MAX], again[SPOOL_PATH_MAX];
	struct spool *spool = open_spool(10000, true), *second = NULL;
	struct spool_meta meta = {.created_ns = time_now_ns(), .samples = 10, .profiles = 1, .tenant = "a"};
	struct stat info;
	snprintf(other, sizeof(other), "%s/other", directory);
	struct spool_options options = {.directory = other};
	assert_int_equal(spool_new(&options, &second, NULL), 0);
	assert_int_equal(spool_push(spool, &meta, bytes_of_string("one"), NULL, path, NULL), 0);
	assert_int_equal(spool_push(second, &meta, bytes_of_string("one"), path, again, NULL), 0);
	assert_int_equal(stat(again, &info), 0);
	assert_int_equal(info.st_nlink, 2);
	expect(spool, "one");
	/* The other file has gone: a file of its own. */
	assert_int_equal(spool_push(second, &meta, bytes_of_string("two"), path, again, NULL), 0);
	expect(second, "one");
	expect(second, "two");
	spool_free(second);
	spool_free(spool);
}

/* Whatever fails: nothing leaks, and what was pushed is there or counted. */
static void test_each_fault(void **state)
{
	(void)state;
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_WRITE, FAULT_RENAME, FAULT_SYNC};
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n++) {
			struct spool *spool = NULL;
			struct spool_options options = {.directory = directory, .memory_max = 1000, .sync = true};
			fault_arm(kinds[k], n, 0);
			int r = spool_new(&options, &spool, NULL);
			for (int i = 0; i < 3 && r == 0; i++)
				put(spool, "text");
			reached = fault_disarm(kinds[k]);
			if (r == 0) {
				struct spool_stats stats = stats_of(spool);
				assert_int_equal(stats.records + stats.lost[SPOOL_LOST_FULL].records, 3);
				for (uint64_t i = 0; i < stats.records; i++)
					expect(spool, "text");
			}
			spool_free(spool);
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_order),  TEST(test_survives),	  TEST(test_bounds), TEST(test_age),
		TEST(test_damage), TEST(test_disk_fails), TEST(test_links),  TEST(test_each_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
