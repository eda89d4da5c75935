/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of what was scraped: whose win, and how many sets of them may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/scrape/scrape_int.h"

/* A sample for each of so many values of the label job. */
static struct profile *make(size_t sets)
{
	struct profile *profile;
	uint32_t key, type;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "job", &key, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "alloc_space", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	for (size_t i = 0; i < sets; i++) {
		struct profile_label label = {.key = key};
		struct profile_sample sample = {0};
		const int64_t value = 1;
		char text[24];
		snprintf(text, sizeof(text), "own%zu", i);
		assert_int_equal(profile_add_cstring(profile, text, &label.value, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, &label, 1, &sample.labels, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

static int change(struct profile *profile, bool honor_labels, struct error *err)
{
	static const struct scrape_profile memory = {.name = "memory"};
	struct scrape_job job = {.name = "j", .honor_labels = honor_labels};
	struct scrape_target target = {.job = &job, .profile = &memory};
	_cleanup_(labels_release) struct labels base = {0};
	assert_int_equal(labels_set(&target.labels, "job", "mine", NULL), 0);
	int r = scrape_label_samples(&target, profile, &base, err);
	labels_release(&target.labels);
	return r;
}

static const char *label_of(const struct profile *profile, size_t sample, const char *name)
{
	const struct profile_label_set *set = &profile->label_sets[profile->samples[sample].labels];
	for (uint32_t i = 0; i < set->count; i++)
		if (!strcmp(profile_string(profile, profile->labels[set->first + i].key), name))
			return profile_string(profile, profile->labels[set->first + i].value);
	return "";
}

static void test_conflict(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make(2), *honored = make(2);
	assert_int_equal(change(profile, false, NULL), 0);
	assert_string_equal(label_of(profile, 1, "job"), "mine");
	assert_string_equal(label_of(profile, 1, "exported_job"), "own1");
	assert_int_equal(change(honored, true, NULL), 0);
	assert_string_equal(label_of(honored, 1, "job"), "own1");
}

/* A program that has a set for each sample must not make its profile many times as large. */
static void test_limit(void **state)
{
	_cleanup_(profile_freep) struct profile *most = make(SCRAPE_LABEL_SETS_MAX), *more = make(SCRAPE_LABEL_SETS_MAX + 1);
	struct error err = {0};
	assert_int_equal(change(most, false, NULL), 0);
	assert_int_equal(change(more, true, NULL), 0); /* nothing changes */
	assert_int_equal(change(more, false, &err), -E2BIG);
	assert_non_null(strstr(err.message, "more than 100000 different sets of labels"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conflict),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
