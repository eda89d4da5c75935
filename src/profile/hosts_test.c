/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "profile/align.h"
#include "profile/hosts.h"
#include "profile/test_profile.h"

/* A sample, a thread with a marker, and a counter; host NULL = nobody says. own: the sample says its host itself. */
static int fill(struct profile *profile, const char *host, bool own, struct error *err)
{
	struct profile_label label = {0};
	struct profile_sample sample = {.time_ns = 5};
	struct profile_thread thread = {.pid = 1, .tid = 2};
	struct profile_counter counter = {.pid = 1};
	struct profile_marker marker = {.start_ns = 7};
	uint32_t type, unit, id;
	int r = profile_add_cstring(profile, "cpu", &type, err);
	if (r == 0)
		r = profile_add_cstring(profile, "nanoseconds", &unit, err);
	if (r == 0)
		r = profile_add_sample_type(profile, type, unit, err);
	if (r == 0)
		r = profile_add_cstring(profile, PROFILE_HOST_LABEL, &label.key, err);
	if (r == 0 && host)
		r = profile_add_cstring(profile, host, &label.value, err);
	if (r == 0 && host)
		r = profile_add_label_set(profile, &label, 1, own ? &sample.labels : &profile->resource_labels, err);
	if (r == 0)
		r = profile_add_sample(profile, &sample, &(int64_t){3}, err);
	if (r == 0)
		r = profile_add_thread(profile, &thread, &marker.thread, err);
	if (r == 0)
		r = profile_add_marker(profile, &marker, NULL, err);
	return r < 0 ? r : profile_add_counter(profile, &counter, &id, err);
}

static struct profile *of_host(const char *host, bool own, const char *name)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(fill(profile, host, own, NULL), 0);
	assert_int_equal(profile_complete_hosts(profile, name, NULL), 0);
	return profile;
}

/* The hosts of the sample, the thread and the counter of this place. */
static void assert_host(const struct profile *profile, size_t place, const char *name)
{
	const struct profile_markers *markers = profile->markers;
	const char *own = profile_label_value(profile, profile->samples[place].labels, PROFILE_HOST_LABEL);
	if (!own)
		own = profile_label_value(profile, profile->resource_labels, PROFILE_HOST_LABEL);
	assert_string_equal(own, name);
	assert_string_equal(profile_string(profile, markers->hosts[markers->threads[markers->markers[place].thread].host].name),
			    name);
	assert_string_equal(profile_string(profile, markers->hosts[markers->counters[place + 1].host].name), name);
}

/* The resource's name, that of the samples, or the given one; nobody's stays so. */
static void test_completes(void **state)
{
	_cleanup_(profile_freep) struct profile *a = of_host("alpha", false, "file"), *b = of_host(NULL, false, "file"),
						*c = of_host("alpha", true, "file"), *d = of_host(NULL, false, NULL);
	assert_host(a, 0, "alpha");
	assert_host(b, 0, "file");
	assert_host(c, 0, "alpha");
	assert_int_equal(profile_host_count(a), 1);
	assert_int_equal(profile_host_count(c), 1);
	assert_int_equal(profile_host_count(d), 0);
	assert_int_equal(d->markers->threads[1].host, 0);
}

static void test_renames(void **state)
{
	for (int own = 0; own < 2; own++) {
		_cleanup_(profile_freep) struct profile *profile = of_host("alpha", own, NULL);
		struct profile_host host = {.name = test_string(profile, "beta"), .reference = test_string(profile, "alpha")};
		uint32_t id;
		assert_int_equal(profile_add_host(profile, &host, &id, NULL), 0);
		assert_int_equal(profile_rename_host(profile, 1, "gamma", NULL), 0);
		assert_host(profile, 0, "gamma");
		assert_string_equal(profile_string(profile, profile->markers->hosts[2].reference), "gamma");
		assert_int_equal(profile->sample_count, 1);
		/* What is found by its content still is. */
		host = (struct profile_host){.name = test_string(profile, "gamma")};
		assert_int_equal(profile_add_host(profile, &host, &id, NULL), 0);
		assert_int_equal(id, 1);
		struct profile_thread thread = profile->markers->threads[1];
		assert_int_equal(profile_add_thread(profile, &thread, &id, NULL), 0);
		assert_int_equal(id, 1);
		struct profile_counter counter = profile->markers->counters[1];
		assert_int_equal(profile_add_counter(profile, &counter, &id, NULL), 0);
		assert_int_equal(id, 1);
	}
}

/* Hosts of one name stay two; so do their pids. A profile without samples is taken whatever it counts. */
static void test_merges(void **state)
{
	_cleanup_(profile_freep) struct profile *to = NULL, *a = of_host("alpha", false, NULL),
						*b = of_host("alpha", true, NULL), *c = of_host("alpha", false, NULL),
						*markers = of_host(NULL, false, "file");
	assert_int_equal(profile_new(&to, NULL), 0);
	assert_int_equal(profile_add_sample_type(markers, 0, 0, NULL), -EINVAL);
	markers->sample_count = 0;
	markers->sample_types[0].type = test_string(markers, "other");
	assert_int_equal(profile_add_comment(markers, test_string(markers, "markers lost: 3"), NULL), 0);
	assert_int_equal(profile_merge_hosts(to, a, NULL), 0);
	assert_int_equal(profile_merge_hosts(to, b, NULL), 0);
	assert_int_equal(profile_merge_hosts(to, c, NULL), 0);
	assert_int_equal(profile_merge_hosts(to, markers, NULL), 0);
	assert_int_equal(profile_host_count(to), 4);
	assert_int_equal(to->sample_count, 3);
	assert_int_equal(to->comment_count, 1);
	assert_string_equal(profile_string(to, to->comments[0]), "markers lost: 3");
	assert_host(to, 0, "alpha");
	assert_host(to, 1, "alpha-2");
	assert_host(to, 2, "alpha-3");
	assert_int_equal(to->markers->thread_count, 5);
	assert_int_equal(profile_counter_count(to), 4);
	/* Of other kinds of samples. */
	_cleanup_(profile_freep) struct profile *other = of_host("beta", false, NULL);
	other->sample_types[0].type = test_string(other, "other");
	assert_int_equal(profile_merge_hosts(to, other, NULL), -EINVAL);
}

static void add_hosts(struct profile *profile, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char name[16];
		uint32_t id;
		snprintf(name, sizeof(name), "%zu", i);
		struct profile_host host = {.name = test_string(profile, name)};
		assert_int_equal(profile_add_host(profile, &host, &id, NULL), 0);
	}
}

/* More hosts than can be aligned are refused before names are compared; the profile stays as it was. */
static void test_limit(void **state)
{
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *to = NULL, *from = NULL;
	assert_int_equal(profile_new(&to, NULL), 0);
	assert_int_equal(profile_new(&from, NULL), 0);
	add_hosts(to, PROFILE_ALIGN_HOSTS_MAX - 1);
	add_hosts(from, 2);
	assert_int_equal(profile_merge_hosts(to, from, &err), -E2BIG);
	assert_non_null(strstr(err.message, "1024"));
	assert_int_equal(profile_host_count(to), PROFILE_ALIGN_HOSTS_MAX - 1);
	assert_string_equal(profile_string(from, from->markers->hosts[1].name), "0");
}

/* The n-th allocation fails, until none does. */
static void test_faults(void **state)
{
	for (unsigned n = 1;; n++) {
		_cleanup_(profile_freep) struct profile *to = of_host("alpha", true, NULL), *from = NULL;
		assert_int_equal(profile_new(&from, NULL), 0);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = fill(from, "alpha", true, NULL);
		if (r == 0)
			r = profile_complete_hosts(from, "x", NULL);
		if (r == 0)
			r = profile_merge_hosts(to, from, NULL);
		bool done = !fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, done ? 0 : -ENOMEM);
		if (done)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_completes), cmocka_unit_test(test_renames), cmocka_unit_test(test_merges),
		cmocka_unit_test(test_limit),	  cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
