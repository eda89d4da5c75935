/* SPDX-License-Identifier: Apache-2.0 */
/* The way of a profile to targets that are not there: whatever fails, it waits or is counted. Those that are there:
 * tests/interop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "export/export_int.h"
#include "format/otlp/otlp.h"

static char directory[64];

static int setup(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/wick-export-test.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(directory, NULL);
}

/* Two processes of one program and one of another, each with a sample of 3 periods at main+0x10. */
static struct profile *make_profile(void)
{
	static const char *const programs[] = {"one", "one", "two"}, *const pids[] = {"1", "2", "3"};
	struct profile *profile;
	struct profile_mapping mapping = {.start = 0, .limit = 0x1000};
	struct profile_location location = {.address = 0x10};
	struct profile_sample sample = {0};
	uint32_t cpu, ns;
	int64_t value = 3000;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "cpu", &cpu, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "nanoseconds", &ns, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, cpu, ns, NULL), 0);
	profile->period_type = (struct profile_value_type){cpu, ns};
	profile->period = 1000;
	profile->time_ns = time_now_ns();
	assert_int_equal(profile_add_cstring(profile, "/nowhere/main", &mapping.file_name, NULL), 0);
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, sample.stack, &sample.stack, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		struct profile_label labels[2] = {{0}, {0}};
		assert_int_equal(profile_add_cstring(profile, "process.executable.name", &labels[0].key, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, programs[i], &labels[0].value, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, "process.pid", &labels[1].key, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, pids[i], &labels[1].value, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, labels, 2, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

static const struct export_target away[] = {
	{.kind = EXPORT_WICK, .url = "http://127.0.0.1:1"},
	{.kind = EXPORT_OTLP_GRPC, .url = "http://127.0.0.1:1"},
	{.kind = EXPORT_OTLP_HTTP, .url = "http://127.0.0.1:1/with/a/path"},
	{.kind = EXPORT_PYROSCOPE, .url = "http://127.0.0.1:1"},
	{.kind = EXPORT_PARCA, .url = "http://127.0.0.1:1", .name = "../parca"},
};
#define AWAY (sizeof(away) / sizeof(away[0]))

static void test_sample_count(void **state)
{
	(void)state;
	struct profile *profile = make_profile();
	assert_int_equal(export_sample_count(profile), 9);
	profile->period = 0;
	assert_int_equal(export_sample_count(profile), 3);
	profile_free(profile);
}

static void test_waits(void **state)
{
	(void)state;
	struct profile *profile = make_profile();
	for (int durable = 0; durable < 2; durable++) {
		struct exporter_options options = {
			.targets = away, .target_count = AWAY, .directory = directory, .durable = durable};
		struct export_stats stats[AWAY];
		struct exporter *exporter;
		assert_int_equal(exporter_new(&options, &exporter, NULL), 0);
		assert_int_equal(exporter_push(exporter, profile, "tenant", EXPORT_ALL_TARGETS, NULL), 0);
		assert_int_equal(exporter_push(exporter, profile, NULL, 1 << 3, NULL), 0);
		exporter_finish(exporter, 0);
		assert_int_equal(exporter_push(exporter, profile, NULL, 1, NULL), -EPIPE);
		assert_int_equal(exporter_get_stats(exporter, stats, AWAY), AWAY);
		for (size_t i = 0; i < AWAY; i++) {
			assert_int_equal(stats[i].spool.profiles, (i == 3 ? 2 : 1) * (durable + 1));
			assert_int_equal(stats[i].spool.samples, 9 * stats[i].spool.profiles);
			assert_int_equal(stats[i].spool.memory_bytes, 0);
			assert_null(strchr(stats[i].name, '/'));
		}
		assert_int_equal(stats[0].spool.lost[SPOOL_LOST_FULL].profiles, 1);
		exporter_free(exporter);
	}
	profile_free(profile);
}

static void test_same_name(void **state)
{
	(void)state;
	struct export_target twice[2] = {away[0], away[0]};
	struct exporter_options options = {.targets = twice, .target_count = 2};
	struct exporter *exporter;
	struct error error = {0};
	assert_int_equal(exporter_new(&options, &exporter, &error), -EINVAL);
	assert_non_null(strstr(error.message, "give one of them another name"));
}

/* A target with a large spool may come back: what waits for it stays until it is old, however much it is. */
static void test_orphans(void **state)
{
	(void)state;
	static const size_t size = 60 * MIB;
	struct export_target large = away[0];
	struct export_stats stats;
	struct exporter *exporter;
	char spool[100], path[SPOOL_PATH_MAX];
	struct spool_meta meta = {.created_ns = time_now_ns(), .profiles = 1};
	struct buffer head;
	uint8_t *payload = calloc(1, size);
	buffer_init(&head, SPOOL_HEADER_BYTES);
	large.name = "large";
	large.spool_bytes = GIB;
	assert_non_null(payload);
	assert_int_equal(spool_record_head(&meta, (struct bytes){payload, size}, &head, NULL), 0);
	free(payload);
	snprintf(spool, sizeof(spool), "%s/large", directory);
	assert_int_equal(io_make_dirs(spool, 0700, NULL), 0);
	for (uint64_t i = 1; i <= 5; i++) { /* with holes instead of payloads */
		assert_int_equal(spool_file_path(path, spool, i), 0);
		assert_int_equal(io_write_file(path, head.data, head.len, 0600, NULL), 0);
		assert_int_equal(truncate(path, (off_t)(head.len + size)), 0);
	}
	buffer_release(&head);
	snprintf(path, sizeof(path), "%s/lock", spool);
	assert_int_equal(io_write_file(path, "", 0, 0600, NULL), 0);
	struct exporter_options options = {.targets = away, .target_count = 1, .directory = directory};
	assert_int_equal(exporter_new(&options, &exporter, NULL), 0);
	exporter_free(exporter);
	options.targets = &large;
	assert_int_equal(exporter_new(&options, &exporter, NULL), 0);
	exporter_get_stats(exporter, &stats, 1);
	assert_int_equal(stats.spool.found, 5);
	exporter_free(exporter);
}

/* A field of a message, the n-th of its number. */
static struct bytes part(struct bytes message, uint32_t number, size_t n)
{
	struct pb_field field;
	struct pb_cursor cursor = pb_open(message);
	while (pb_next(&cursor, &field, NULL) == 1)
		if (field.number == number && field.wire == PB_BYTES && n-- == 0)
			return field.bytes;
	return (struct bytes){0};
}

/* Series by service, equal samples summed where labels are dropped, names where there must be some. */
static void test_series(void **state)
{
	(void)state;
	for (size_t kind = 3; kind < 5; kind++) {
		bool pyroscope = kind == 3;
		struct exporter_options options = {.targets = &away[kind], .target_count = 1};
		struct exporter *exporter;
		struct profile *profiles[1] = {make_profile()}, *decoded;
		struct otlp_request request = {.profiles = profiles, .count = 1};
		struct buffer out;
		buffer_init(&out, MIB);
		assert_int_equal(exporter_new(&options, &exporter, NULL), 0);
		struct sender sender = {.exporter = exporter, .target = &away[kind]};
		assert_int_equal(series_encode(&sender, &request, &out, NULL), 0);
		for (size_t i = 0; i < 2; i++) {
			struct bytes series = part(buffer_bytes(&out), pyroscope ? 1 : 2, i);
			struct bytes raw = part(part(series, 2, 0), 1, 0);
			assert_int_equal(format_decode(NULL, raw, NULL, &decoded, NULL), 0);
			assert_int_equal(profile_total(decoded, 0), i == 0 ? 6000 : 3000);
			assert_int_equal(decoded->sample_count, i == 0 && !pyroscope ? 2 : 1);
			assert_int_equal(decoded->locations[1].line_count, pyroscope);
			if (pyroscope)
				assert_string_equal(profile_string(decoded, decoded->functions[1].name), "main+0x10");
			else
				assert_int_equal(decoded->locations[1].address, 0x10);
			profile_free(decoded);
		}
		assert_int_equal(part(buffer_bytes(&out), pyroscope ? 1 : 2, 2).len, 0);
		load_segments_free(sender.segments);
		buffer_release(&out);
		exporter_free(exporter);
		profile_free(profiles[0]);
	}
}

/* Threads take allocations too, so the n-th is now here, now there: what is pushed must be accounted for wherever it fails. */
static void test_each_fault(void **state)
{
	(void)state;
	static const enum fault_kind kinds[] = {FAULT_ALLOC, FAULT_OPEN, FAULT_WRITE, FAULT_RENAME, FAULT_SYNC};
	struct profile *profile = make_profile();
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		bool reached = true;
		for (uint64_t n = 1; reached; n += 1 + n / 100) {
			struct exporter_options options = {
				.targets = away, .target_count = AWAY, .directory = directory, .durable = n & 1};
			struct exporter *exporter = NULL;
			struct export_stats stats[AWAY], before[AWAY];
			fault_arm(kinds[k], n, 0);
			int r = exporter_new(&options, &exporter, NULL);
			if (r == 0) {
				exporter_get_stats(exporter, before, AWAY);
				exporter_push(exporter, profile, NULL, EXPORT_ALL_TARGETS, NULL);
				exporter_finish(exporter, 0);
			}
			reached = fault_disarm(kinds[k]);
			for (size_t i = 0; i < AWAY && r == 0; i++) {
				uint64_t lost = 0;
				exporter_get_stats(exporter, stats, AWAY);
				for (size_t j = 0; j < EXPORT_LOSSES; j++) {
					uint64_t profiles, samples;
					export_lost(&stats[i], j, &profiles, &samples);
					lost += profiles;
				}
				assert_int_equal(stats[i].spool.profiles + lost, before[i].spool.profiles + 1);
			}
			exporter_free(exporter);
			io_remove_tree(directory, NULL);
		}
	}
	profile_free(profile);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_sample_count), TEST(test_waits),  TEST(test_same_name),
		TEST(test_orphans),	 TEST(test_series), TEST(test_each_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
