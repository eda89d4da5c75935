/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "profile/markers.h"
#include "profile/merge.h"
#include "profile/profile_int.h"
#include "profile/test_profile.h"

/* A thread, a schema with two fields, a marker a step, a counter with as many rows. */
static int fill(struct profile *profile, int64_t pid, int steps, struct error *err)
{
	static const char *const texts[] = {"worker", "Steps", "blue", "step", "rows", "size", "merge", "RSS", "bytes"};
	uint32_t s[9], host = 0, thread, category, schema, counter, id;
	int r = 0;
	for (size_t i = 0; r == 0 && i < 9; i++)
		r = profile_add_cstring(profile, texts[i], &s[i], err);
	if (r < 0)
		return r;
	const struct profile_marker_field fields[] = {{s[4], 0, PROFILE_FIELD_INTEGER}, {s[5], s[6], PROFILE_FIELD_STRING}};
	const struct profile_counter rss = {.name = s[7], .category = s[7], .unit = s[8], .pid = pid};
	r = profile_add_host(profile, &(struct profile_host){.name = s[0], .machine = {.cpu_name = s[2], .logical_cpus = 2}},
			     &host, err);
	struct profile_lifetime lifetime = {.host = host, .pid = pid, .tid = pid, .start_ns = 5, .program = s[6]};
	if (r == 0)
		r = profile_add_lifetime(profile, &lifetime, &id, err);
	/* Its end comes later. */
	lifetime = (struct profile_lifetime){.host = host, .pid = pid, .tid = pid, .start_ns = 5, .end_ns = 9};
	if (r == 0)
		r = profile_add_lifetime(profile, &lifetime, &id, err);
	if (r == 0)
		r = profile_add_thread(
			profile,
			&(struct profile_thread){.host = host, .pid = pid, .tid = pid + 1, .start_ns = 5, .name = s[0]},
			&thread, err);
	if (r == 0)
		r = profile_add_marker_category(profile, s[1], s[2], &category, err);
	if (r == 0)
		r = profile_add_marker_schema(profile, &(struct profile_marker_schema){.name = s[3]}, fields, 2, &schema, err);
	if (r == 0)
		r = profile_add_counter(profile, &rss, &counter, err);
	for (int i = 0; r == 0 && i < steps; i++) {
		struct profile_marker marker = {.thread = thread,
						.schema = schema,
						.name = s[6],
						.category = category,
						.phase = PROFILE_MARKER_INTERVAL,
						.start_ns = 1000 + i,
						.end_ns = 2000 + i,
						.flow = 7};
		struct profile_marker_value values[] = {{.kind = PROFILE_VALUE_NUMBER, .number = i},
							{.kind = PROFILE_VALUE_STRING, .string = s[5]}};
		r = profile_add_marker(profile, &marker, values, err);
		if (r == 0)
			r = profile_add_counter_row(profile, counter, 1000 + i, i, err);
	}
	return r;
}

static struct profile *filled(int64_t pid, int steps)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(fill(profile, pid, steps, NULL), 0);
	return profile;
}

static void test_adds(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = filled(10, 3), *none = NULL;
	assert_int_equal(fill(profile, 10, 2, NULL), 0);
	const struct profile_markers *markers = profile->markers;
	assert_int_equal(markers->thread_count, 2);
	assert_int_equal(markers->category_count, 2);
	assert_int_equal(markers->schema_count, 2);
	assert_int_equal(markers->field_count, 2);
	assert_int_equal(profile_counter_count(profile), 1);
	assert_int_equal(profile_marker_count(profile), 5);
	assert_int_equal(markers->row_count, 5);
	assert_int_equal(markers->values[markers->markers[2].value_first].number, 2);
	assert_int_equal(profile_new(&none, NULL), 0);
	assert_int_equal(profile_marker_count(none) + profile_counter_count(none), 0);
}

/* A thread with the tid of one that ended is another; a new name is not. */
static void test_threads(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = filled(10, 0);
	uint32_t same, other, name = test_string(profile, "renamed");
	struct profile_thread thread = {.host = 1, .pid = 10, .tid = 11, .start_ns = 5, .name = name};
	assert_int_equal(profile_add_thread(profile, &thread, &same, NULL), 0);
	assert_int_equal(same, 1);
	assert_int_equal(profile->markers->threads[1].name, name);
	thread.start_ns = 6;
	assert_int_equal(profile_add_thread(profile, &thread, &other, NULL), 0);
	assert_int_equal(other, 2);
}

/* A host is its name; one and the same pid and tid on two hosts are two threads. */
static void test_hosts(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = filled(10, 0), *to = NULL;
	struct profile_host host = {.name = test_string(profile, "a"),
				    .reference = test_string(profile, "UTC"),
				    .method = test_string(profile, "pings"),
				    .offset_ns = 5,
				    .skew = 5e-5,
				    .bound_ns = 7};
	uint32_t a, b, same, thread, other;
	assert_int_equal(profile_add_host(profile, &host, &a, NULL), 0);
	assert_int_equal(profile_add_host(profile, &(struct profile_host){.name = host.name}, &same, NULL), 0);
	assert_int_equal(profile_add_host(profile, &(struct profile_host){.name = test_string(profile, "b")}, &b, NULL), 0);
	assert_int_equal(same, a);
	assert_int_equal(profile->markers->hosts[a].offset_ns, 5);
	host.offset_ns = 6;
	assert_int_equal(profile_add_host(profile, &host, &same, NULL), 0);
	assert_int_equal(profile->markers->hosts[a].offset_ns, 6);
	assert_int_equal(profile_host_count(profile), 3);
	assert_int_equal(profile_add_thread(profile, &(struct profile_thread){.host = a, .pid = 1, .tid = 1}, &thread, NULL),
			 0);
	assert_int_equal(profile_add_thread(profile, &(struct profile_thread){.host = b, .pid = 1, .tid = 1}, &other, NULL), 0);
	assert_int_not_equal(thread, other);
	assert_int_equal(profile_new(&to, NULL), 0);
	assert_int_equal(profile_add_host(to, &(struct profile_host){.name = test_string(to, "z")}, &same, NULL), 0);
	assert_int_equal(profile_merge(to, profile, false, NULL), 0);
	const struct profile_host *copied = &to->markers->hosts[to->markers->threads[thread].host];
	assert_string_equal(profile_string(to, copied->name), "a");
	assert_string_equal(profile_string(to, copied->method), "pings");
	assert_int_equal(copied->bound_ns, 7);
	assert_string_equal(profile_string(to, to->markers->hosts[to->markers->threads[other].host].name), "b");
}

/* An end before the start, and values that are not given. */
static void test_odd(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = filled(10, 0);
	struct profile_marker marker = {.schema = 1, .phase = PROFILE_MARKER_INTERVAL, .start_ns = 9, .end_ns = 3};
	assert_int_equal(profile_add_marker(profile, &marker, NULL, NULL), 0);
	assert_int_equal(profile->markers->markers[0].end_ns, 9);
	assert_int_equal(profile->markers->values[1].kind, PROFILE_VALUE_NONE);
	struct profile_marker_field fields[PROFILE_MARKER_FIELDS_MAX + 1] = {0};
	struct error err = {0};
	uint32_t id;
	assert_int_equal(profile_add_marker_schema(profile, &(struct profile_marker_schema){0}, fields,
						   PROFILE_MARKER_FIELDS_MAX + 1, &id, &err),
			 -E2BIG);
	profile->index->entities_max = 1;
	assert_int_equal(profile_add_marker(profile, &marker, NULL, &err), -E2BIG);
	assert_non_null(strstr(err.message, "limit"));
}

static void assert_merged(const struct profile *to, size_t count)
{
	const struct profile_markers *markers = to->markers;
	assert_int_equal(profile_marker_count(to), count);
	assert_int_equal(markers->thread_count, 3);
	assert_int_equal(markers->schema_count, 2);
	assert_int_equal(markers->category_count, 2);
	assert_int_equal(profile_counter_count(to), 2);
	for (size_t i = 0; i < count; i++) {
		const struct profile_marker *marker = &markers->markers[i];
		assert_string_equal(profile_string(to, marker->name), "merge");
		assert_int_equal(marker->end_ns - marker->start_ns, 1000);
		assert_int_equal(markers->values[marker->value_first].number, marker->start_ns - 1000);
		assert_string_equal(profile_string(to, markers->values[marker->value_first + 1].string), "size");
		assert_string_equal(profile_string(to, markers->threads[marker->thread].name), "worker");
	}
	assert_int_equal(markers->counters[markers->rows[count - 1].counter].pid, 20);
}

static void test_merges(void **state)
{
	_cleanup_(profile_freep) struct profile *to = NULL, *a = filled(10, 3), *b = filled(20, 2);
	assert_int_equal(profile_new(&to, NULL), 0);
	test_string(to, "other ids");
	assert_int_equal(profile_merge(to, a, true, NULL), 0);
	assert_int_equal(profile_merge(to, b, true, NULL), 0);
	assert_merged(to, 5);
	const struct profile_markers *markers = to->markers;
	assert_int_equal(markers->lifetime_count, 3);
	for (size_t i = 1; i < 3; i++) {
		assert_int_equal(markers->lifetimes[i].pid, 10 * (int64_t)i);
		assert_true(markers->lifetimes[i].start_ns == 5 && markers->lifetimes[i].end_ns == 9);
		assert_string_equal(profile_string(to, markers->lifetimes[i].program), "merge");
	}
	assert_string_equal(profile_string(to, markers->hosts[1].machine.cpu_name), "blue");
	assert_int_equal(markers->hosts[1].machine.logical_cpus, 2);
}

/* The n-th allocation fails, until none does. */
static void test_faults(void **state)
{
	_cleanup_(profile_freep) struct profile *from = filled(20, 3);
	for (unsigned n = 1;; n++) {
		_cleanup_(profile_freep) struct profile *to = NULL;
		assert_int_equal(profile_new(&to, NULL), 0);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = fill(to, 10, 40, NULL);
		if (r == 0)
			r = profile_merge(to, from, false, NULL);
		bool done = !fault_disarm(FAULT_ALLOC);
		if (done) {
			assert_int_equal(r, 0);
			break;
		}
		assert_true(r == -ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adds),  cmocka_unit_test(test_threads), cmocka_unit_test(test_odd),
		cmocka_unit_test(test_hosts), cmocka_unit_test(test_merges),  cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
