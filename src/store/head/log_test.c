/* SPDX-License-Identifier: Apache-2.0 */
#include "store/test_store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/limits.h"
#include "store/head/log.h"

struct seen {
	uint64_t sequences[64];
	char payloads[64][16]; /* their beginnings */
	size_t count;
	unsigned problems;
	char last_problem[1024];
	int answer; /* what on_record returns */
};

static int on_record(void *context, uint64_t sequence, struct bytes payload, struct error *err)
{
	struct seen *seen = context;
	assert_true(seen->count < 64);
	size_t len = payload.len < 15 ? payload.len : 15;
	memcpy(seen->payloads[seen->count], payload.data, len);
	seen->sequences[seen->count++] = sequence;
	return seen->answer ? error_set(err, seen->answer, "no use") : 0;
}

static void on_problem(void *context, const char *message)
{
	struct seen *seen = context;
	seen->problems++;
	snprintf(seen->last_problem, sizeof(seen->last_problem), "%s", message);
}

static int replay(const char *directory, uint64_t after, struct seen *seen, struct log_replay_result *result)
{
	char quarantine[PATH_MAX];
	struct error err = {0};
	io_join_path(quarantine, sizeof(quarantine), directory, "quarantine");
	memset(seen->sequences, 0, sizeof(seen->sequences));
	memset(seen->payloads, 0, sizeof(seen->payloads));
	seen->count = seen->problems = 0;
	struct log_replay replay = {.directory = directory,
				    .quarantine = quarantine,
				    .after = after,
				    .on_record = on_record,
				    .on_problem = on_problem,
				    .context = seen};
	return log_replay(&replay, result, &err);
}

static int append_record(struct log_segment *segment, uint64_t sequence, struct bytes payload, size_t raw_len)
{
	_cleanup_(buffer_release) struct buffer record = {.max = MIB};
	assert_int_equal(log_record_put(segment, sequence, payload, raw_len, &record, NULL), 0);
	return log_segment_write(segment, buffer_bytes(&record), NULL);
}

/* A segment of `count` records, payloads "record SEQUENCE" and some of them long. */
static void write_segment(const char *directory, uint64_t number, uint64_t first, size_t count)
{
	struct log_segment segment;
	assert_int_equal(log_segment_create(directory, number, &segment, NULL), 0);
	assert_int_equal(log_segment_begin(&segment, first, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		char text[3000];
		struct buffer compressed;
		size_t raw_len, len = (size_t)snprintf(text, sizeof(text), "record %" PRIu64, first + i);
		if (i % 3 == 2) {
			memset(text + len, 'x', sizeof(text) - len);
			len = sizeof(text);
		}
		buffer_init(&compressed, MIB);
		struct bytes payload = {(uint8_t *)text, len};
		assert_int_equal(log_compress(payload, &compressed, &raw_len, NULL), 0);
		assert_int_equal(raw_len, i % 3 == 2 ? sizeof(text) : 0);
		if (raw_len)
			payload = buffer_bytes(&compressed);
		assert_int_equal(append_record(&segment, first + i, payload, raw_len), 0);
		buffer_release(&compressed);
	}
	assert_int_equal(log_segment_sync(&segment, NULL), 0);
	log_segment_close(&segment);
}

static void test_replay(void **state)
{
	char *directory = test_directory();
	struct seen seen = {0};
	struct log_replay_result result;
	assert_int_equal(replay(directory, 7, &seen, &result), 0);
	assert_int_equal(result.last_sequence, 7);
	assert_int_equal(result.next_segment, 1);
	write_segment(directory, 1, 1, 5);
	write_segment(directory, 2, 6, 0);
	write_segment(directory, 10, 6, 4);
	assert_int_equal(replay(directory, 0, &seen, &result), 0);
	assert_int_equal(seen.count, 9);
	for (uint64_t i = 0; i < 9; i++) {
		char text[16];
		snprintf(text, sizeof(text), "record %" PRIu64, i + 1);
		assert_int_equal(seen.sequences[i], i + 1);
		assert_memory_equal(seen.payloads[i], text, strlen(text));
	}
	assert_int_equal(seen.problems, 0);
	assert_int_equal(result.last_sequence, 9);
	assert_int_equal(result.first_segment, 1);
	assert_int_equal(result.next_segment, 11);
	assert_int_equal(replay(directory, 7, &seen, &result), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(result.skipped, 7);
	test_directory_remove(directory);
}

/* The sequence goes on even when nothing is left but an empty segment. */
static void test_empty_segment_keeps_the_sequence(void **state)
{
	char *directory = test_directory();
	struct seen seen = {0};
	struct log_replay_result result;
	write_segment(directory, 5, 1000, 0);
	assert_int_equal(replay(directory, 0, &seen, &result), 0);
	assert_int_equal(result.last_sequence, 999);
	assert_int_equal(seen.problems, 0);
	test_directory_remove(directory);
}

static void test_missing_segment_is_said(void **state)
{
	char *directory = test_directory();
	struct seen seen = {0};
	struct log_replay_result result;
	write_segment(directory, 1, 1, 3);
	write_segment(directory, 3, 7, 3);
	assert_int_equal(replay(directory, 0, &seen, &result), 0);
	assert_int_equal(seen.count, 6);
	assert_int_equal(seen.problems, 1);
	assert_non_null(strstr(seen.last_problem, "records 4 to 6 before it are missing"));
	test_directory_remove(directory);
}

/* A payload that looks like a record does not become one when the real header in front of it is damaged. */
static void test_hidden_record(void **state)
{
	char *directory = test_directory(), path[PATH_MAX];
	struct seen seen = {0};
	struct log_replay_result result;
	struct log_segment segment;
	struct buffer whole;
	write_segment(directory, 1, 1, 1);
	io_join_path(path, sizeof(path), directory, "00000001.log");
	buffer_init(&whole, MIB);
	assert_int_equal(io_read_file(path, MIB, &whole, NULL), 0);
	assert_int_equal(log_segment_create(directory, 1, &segment, NULL), 0);
	assert_int_equal(log_segment_begin(&segment, 1, NULL), 0);
	struct bytes hidden = {whole.data + LOG_SEGMENT_HEADER_SIZE, whole.len - LOG_SEGMENT_HEADER_SIZE};
	assert_int_equal(append_record(&segment, 1, hidden, 0), 0);
	assert_int_equal(append_record(&segment, 2, (struct bytes){(const uint8_t *)"real", 4}, 0), 0);
	assert_int_equal(io_pwrite(segment.fd, "?", 1, LOG_SEGMENT_HEADER_SIZE + 5, "test", NULL), 0);
	log_segment_close(&segment);
	assert_int_equal(replay(directory, 0, &seen, &result), 0);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.sequences[0], 2);
	assert_memory_equal(seen.payloads[0], "real", 4);
	assert_int_equal(seen.problems, 1);
	buffer_release(&whole);
	test_directory_remove(directory);
}

/* A record that its reader cannot use is set aside like a damaged one; other errors end the replay. */
static void test_useless_record(void **state)
{
	char *directory = test_directory();
	struct seen seen = {.answer = -EBADMSG};
	struct log_replay_result result;
	write_segment(directory, 1, 1, 2);
	assert_int_equal(replay(directory, 0, &seen, &result), 0);
	assert_int_equal(seen.problems, 2);
	assert_non_null(strstr(seen.last_problem, "no use"));
	seen.answer = -ENOMEM;
	assert_int_equal(replay(directory, 0, &seen, &result), -ENOMEM);
	assert_int_equal(seen.count, 1);
	test_directory_remove(directory);
}

static void test_newer_version(void **state)
{
	char *directory = test_directory(), path[PATH_MAX];
	struct log_segment segment;
	struct seen seen = {0};
	struct log_replay_result result;
	assert_int_equal(log_segment_create(directory, 1, &segment, NULL), 0);
	assert_int_equal(log_segment_begin(&segment, 1, NULL), 0);
	log_segment_close(&segment);
	io_join_path(path, sizeof(path), directory, "00000001.log");
	struct buffer bytes;
	buffer_init(&bytes, MIB);
	assert_int_equal(io_read_file(path, MIB, &bytes, NULL), 0);
	for (size_t copy = 0; copy < 2; copy++) {
		uint8_t *header = bytes.data + copy * LOG_SEGMENT_HEADER_SIZE / 2;
		header[8] = 2;
		uint64_t hash = hash64(header, 32);
		memcpy(header + 32, &hash, 8);
	}
	assert_int_equal(io_write_file(path, bytes.data, bytes.len, 0640, NULL), 0);
	assert_int_equal(replay(directory, 0, &seen, &result), -ENOTSUP);
	buffer_release(&bytes);
	test_directory_remove(directory);
}

/* A write that fails half-way leaves nothing behind, even if the disk refuses to cut it off at once. */
static void test_failed_write(void **state)
{
	char *directory = test_directory();
	struct log_segment segment;
	struct seen seen = {0};
	struct log_replay_result result;
	struct bytes payload = {(const uint8_t *)"some payload that is not so short", 33};
	assert_int_equal(log_segment_create(directory, 1, &segment, NULL), 0);
	assert_int_equal(log_segment_begin(&segment, 1, NULL), 0);
	assert_int_equal(append_record(&segment, 1, payload, 0), 0);
	for (int round = 0; round < 2; round++) {
		fault_arm(FAULT_WRITE, 1, 0);
		assert_int_equal(append_record(&segment, 2, payload, 0), -ENOSPC);
		assert_true(fault_disarm(FAULT_WRITE));
	}
	assert_int_equal(append_record(&segment, 2, (struct bytes){(const uint8_t *)"b", 1}, 0), 0);
	log_segment_close(&segment);
	assert_int_equal(replay(directory, 0, &seen, &result), 0);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.problems, 0);
	assert_string_equal(seen.payloads[1], "b");
	test_directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_empty_segment_keeps_the_sequence),
		cmocka_unit_test(test_missing_segment_is_said),
		cmocka_unit_test(test_hidden_record),
		cmocka_unit_test(test_useless_record),
		cmocka_unit_test(test_newer_version),
		cmocka_unit_test(test_failed_write),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
