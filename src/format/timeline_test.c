/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is read by web/test/timeline.test.ts and tests/browser/markers.test.mjs; here: limits, order, failures. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>

#include "base/fault.h"
#include "base/limits.h"
#include "format/timeline.h"
#include "profile/markers.h"
#include "profile/test_profile.h"

#define START 1700000000000000000ll

static uint32_t label_set(struct profile *profile, int64_t tid)
{
	struct profile_label labels[] = {{.key = test_string(profile, "process.pid"), .number = 7},
					 {.key = test_string(profile, "thread.id"), .number = tid}};
	uint32_t set;
	assert_int_equal(profile_add_label_set(profile, labels, 2, &set, NULL), 0);
	return set;
}

/* Two threads; a sample and a marker every 10 ns in turn, so that thread 2 has the later half of each pair. */
static struct profile *make(size_t count, bool timed)
{
	struct profile *profile;
	uint32_t threads[2], schema;
	assert_int_equal(profile_new(&profile, NULL), 0);
	uint32_t type = test_string(profile, "samples");
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	const struct profile_marker_field fields[] = {{test_string(profile, "text"), 0, PROFILE_FIELD_STRING},
						      {test_string(profile, "real"), 0, PROFILE_FIELD_DECIMAL}};
	for (size_t i = 0; i < count; i++) {
		struct profile_sample sample = {.labels = label_set(profile, 7 + (int64_t)i % 2),
						.time_ns = timed ? START + 10 * (int64_t)i : 0};
		int64_t value = (int64_t)i + 1;
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	for (int i = 0; timed && i < 2; i++)
		assert_int_equal(
			profile_add_thread(profile, &(struct profile_thread){.pid = 7, .tid = 7 + i}, &threads[i], NULL), 0);
	if (timed)
		assert_int_equal(profile_add_marker_schema(profile,
							   &(struct profile_marker_schema){.name = test_string(profile, "s")},
							   fields, 2, &schema, NULL),
				 0);
	for (size_t i = 0; timed && i < count; i++) {
		struct profile_marker marker = {.thread = threads[i % 2],
						.schema = schema,
						.name = test_string(profile, i % 3 ? "parse" : "merge"),
						.phase = PROFILE_MARKER_INTERVAL,
						.flow = i % 2 ? 99 : 0,
						.start_ns = START + 10 * (int64_t)i,
						.end_ns = START + 10 * (int64_t)i + 5};
		struct profile_marker_value values[] = {{.kind = PROFILE_VALUE_STRING, .string = marker.name},
							{.kind = PROFILE_VALUE_REAL, .real = 0.5}};
		assert_int_equal(profile_add_marker(profile, &marker, values, NULL), 0);
	}
	return profile;
}

static int write_all(const struct profile *profile, size_t samples_max, size_t markers_max, struct buffer *text,
		     struct buffer *columns, struct error *err)
{
	_cleanup_(timeline_freep) struct timeline *timeline = NULL;
	uint32_t places[] = {0};
	int r = timeline_new(profile, samples_max, markers_max, &timeline, err);
	if (r < 0 || !timeline)
		return r < 0 ? r : 1;
	r = timeline_put_samples(timeline, columns, err);
	if (r == 0)
		r = timeline_put_type(timeline, 0, places, columns, err);
	struct json_writer json = {.out = text};
	timeline_put_json(timeline, &json);
	if (r == 0)
		r = json_finish(&json, err);
	return r < 0 ? r : timeline_put_markers(timeline, columns, err);
}

static json_t *parse(struct buffer *text)
{
	json_t *root = json_loads(buffer_string(text), 0, NULL);
	assert_non_null(root);
	return root;
}

static json_int_t number(json_t *root, const char *key)
{
	return json_integer_value(json_object_get(root, key));
}

/* The numbers of the nth column. */
static size_t read_column(const struct buffer *columns, size_t nth, uint64_t *ret, size_t max)
{
	const uint8_t *at = columns->data;
	size_t count = 0;
	for (;; nth--) {
		size_t len = at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
		const uint8_t *end = at + 4 + len;
		if (nth > 0) {
			at = end;
			continue;
		}
		for (at += 4; at < end;) {
			uint64_t value = 0;
			unsigned shift = 0;
			do {
				value |= (uint64_t)(*at & 0x7f) << shift;
				shift += 7;
			} while (*at++ & 0x80);
			assert_true(count < max);
			ret[count++] = value;
		}
		return count;
	}
}

static void test_order(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(4, true);
	_cleanup_(buffer_release) struct buffer text = {0}, columns = {0};
	uint64_t got[16];
	(void)state;
	buffer_init(&text, MIB);
	buffer_init(&columns, MIB);
	assert_int_equal(write_all(profile, 100, 100, &text, &columns, NULL), 0);
	/* Zigzag of 1, +20 and 11, +20: thread by thread, ns since the start + 1. */
	const uint64_t times[] = {2, 40, 22, 40}, starts[] = {0, 40, 20, 40}, flows[] = {0, 0, 1, 1}, values[] = {2, 6, 4, 8};
	assert_int_equal(read_column(&columns, 0, got, 16), 4);
	assert_memory_equal(got, times, sizeof(times));
	assert_int_equal(read_column(&columns, 2, got, 16), 4);
	assert_memory_equal(got, values, sizeof(values));
	assert_int_equal(read_column(&columns, 8, got, 16), 4);
	assert_memory_equal(got, starts, sizeof(starts));
	assert_int_equal(read_column(&columns, 10, got, 16), 4);
	assert_memory_equal(got, flows, sizeof(flows));
	json_t *root = parse(&text);
	assert_int_equal(number(root, "length_ns"), 35);
	assert_int_equal(json_array_size(json_object_get(root, "threads")), 2);
	assert_int_equal(number(root, "until_ns"), 0);
	json_decref(root);
}

/* The latest are dropped, of all threads alike, and that is reported. */
static void test_limits(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(20, true);
	(void)state;
	for (size_t max = 1; max <= 21; max++) {
		_cleanup_(buffer_release) struct buffer text = {0}, columns = {0};
		uint64_t got[64];
		buffer_init(&text, MIB);
		buffer_init(&columns, MIB);
		assert_int_equal(write_all(profile, max, max, &text, &columns, NULL), 0);
		json_t *root = parse(&text);
		json_int_t left = max < 20 ? (json_int_t)max : 20;
		assert_int_equal(number(root, "samples"), left);
		assert_int_equal(number(root, "markers"), left);
		assert_int_equal(number(root, "samples_out"), 20 - left);
		assert_int_equal(number(root, "markers_out"), 20 - left);
		assert_int_equal(number(root, "until_ns"), max < 20 ? 10 * (json_int_t)max - 1 : 0);
		assert_int_equal(read_column(&columns, 0, got, 64), left);
		json_decref(root);
	}
}

/* As many of one moment as there is room for, and of those without a time. */
static void test_limits_of_equal_times(void **state)
{
	(void)state;
	for (size_t timed = 0; timed <= 6; timed++)
		for (size_t max = 0; max <= 11; max++) {
			_cleanup_(profile_freep) struct profile *profile = make(10, true);
			_cleanup_(buffer_release) struct buffer text = {0}, columns = {0};
			uint64_t got[16];
			/* 3 with times of their own, then those of one moment, then those without; markers likewise. */
			for (size_t i = 3; i < 10; i++) {
				profile->samples[i].time_ns = i < 3 + timed ? START + 100 : 0;
				profile->markers->markers[i].start_ns = START + 100;
			}
			buffer_init(&text, MIB);
			buffer_init(&columns, MIB);
			assert_int_equal(write_all(profile, max, max, &text, &columns, NULL), 0);
			json_t *root = parse(&text);
			json_int_t with_time = 3 + (json_int_t)timed, without = 7 - (json_int_t)timed;
			json_int_t in = (json_int_t)max < 10 ? (json_int_t)max : 10, in_time = in < with_time ? in : with_time;
			assert_int_equal(number(root, "samples"), in);
			assert_int_equal(number(root, "markers"), in);
			assert_int_equal(number(root, "samples_out"), with_time - in_time);
			assert_int_equal(number(root, "untimed_out"), without - (in - in_time));
			assert_int_equal(read_column(&columns, 0, got, 16), in);
			assert_int_equal(read_column(&columns, 8, got, 16), in);
			json_decref(root);
		}
}

static void test_nothing(void **state)
{
	_cleanup_(profile_freep) struct profile *one = make(1, false);
	_cleanup_(profile_freep) struct profile *two = make(2, false);
	_cleanup_(buffer_release) struct buffer text = {0}, columns = {0};
	(void)state;
	buffer_init(&text, MIB);
	buffer_init(&columns, MIB);
	assert_int_equal(write_all(one, 100, 100, &text, &columns, NULL), 1); /* one thread, no times */
	assert_int_equal(write_all(two, 100, 100, &text, &columns, NULL), 0);
}

static void test_failures(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(30, true);
	(void)state;
	bool reached = true;
	for (uint64_t n = 1; reached; n++) {
		_cleanup_(buffer_release) struct buffer text = {0}, columns = {0};
		buffer_init(&text, MIB);
		buffer_init(&columns, MIB);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = write_all(profile, 20, 20, &text, &columns, NULL);
		reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
	}
	struct error err = {0};
	_cleanup_(buffer_release) struct buffer text = {0}, columns = {0};
	buffer_init(&text, MIB);
	buffer_init(&columns, 40);
	assert_int_equal(write_all(profile, 20, 20, &text, &columns, &err), -E2BIG);
	assert_non_null(strstr(err.message, "the limit of a page"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),	cmocka_unit_test(test_limits),	 cmocka_unit_test(test_limits_of_equal_times),
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
