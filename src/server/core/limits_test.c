/* SPDX-License-Identifier: Apache-2.0 */
/* Rates, names of tenants, and what a profile may hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/time.h"
#include "server/core/server_int.h"

#define AT(seconds) ((int64_t)((seconds)*NS_PER_S) + 1)

static void test_bucket(void **state)
{
	struct bucket bucket = {0};
	assert_int_equal(bucket_check(&bucket, 0, 0, AT(1)), 0); /* no limit */
	assert_int_equal(bucket_check(&bucket, 100, 0, AT(1)), 0);
	bucket_pay(&bucket, 1000); /* the burst: 10 s' worth */
	assert_int_equal(bucket_check(&bucket, 100, 0, AT(1)), 1);
	assert_int_equal(bucket_check(&bucket, 100, 0, AT(1.5)), 0);
	/* More than the burst is let in once, and paid off. */
	bucket_pay(&bucket, 2050);
	assert_int_equal(bucket_check(&bucket, 100, 0, AT(1.5)), 21);
	assert_int_equal(bucket_check(&bucket, 100, 0, AT(20)), 2);
	assert_int_equal(bucket_check(&bucket, 100, 0, AT(22)), 0);
	/* Idle time earns no more than the burst. */
	assert_int_equal(bucket_check(&bucket, 100, 50, AT(10000)), 0);
	bucket_pay(&bucket, 51);
	assert_int_equal(bucket_check(&bucket, 100, 50, AT(10000)), 1);
	/* What would take for ever is said to take an hour. */
	bucket_pay(&bucket, UINT64_MAX);
	assert_int_equal(bucket_check(&bucket, 1, 1, AT(10000)), 3600);
}

static void test_names(void **state)
{
	static const char *const good[] = {"a", "team-a", "T.1_x", "a!b*c'(d)", "...", ".a"};
	static const char *const bad[] = {"", ".", "..", "a/b", "a b", "a|b", "\xc3\xa4", "a\n", "%2e", "a\\b"};
	char name[TENANT_NAME_MAX + 2];
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		assert_int_equal(tenant_name_check(good[i], NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(tenant_name_check(bad[i], NULL), -EBADMSG);
	memset(name, 'a', sizeof(name));
	name[TENANT_NAME_MAX + 1] = 0;
	assert_int_equal(tenant_name_check(name, NULL), -EBADMSG);
	name[TENANT_NAME_MAX] = 0;
	assert_int_equal(tenant_name_check(name, NULL), 0);
}

static uint32_t add_set(struct profile *profile, size_t count, const char *value)
{
	struct profile_label labels[64];
	uint32_t set;
	for (size_t i = 0; i < count; i++) {
		char key[32];
		snprintf(key, sizeof(key), "key%zu", i);
		labels[i] = (struct profile_label){0};
		assert_int_equal(profile_add_cstring(profile, key, &labels[i].key, NULL), 0);
		assert_int_equal(profile_add_cstring(profile, value, &labels[i].value, NULL), 0);
	}
	assert_int_equal(profile_add_label_set(profile, labels, count, &set, NULL), 0);
	return set;
}

/* Stacks of one frame each, with the label set of each sample. */
static struct profile *make(const size_t *label_counts, size_t count, const char *value)
{
	struct profile *profile;
	uint32_t type, unit;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "cpu", &type, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "nanoseconds", &unit, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, unit, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		struct profile_location location = {.address = 0x1000 + i};
		struct profile_sample sample = {.labels = add_set(profile, label_counts[i], value)};
		uint32_t id;
		assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1}, NULL), 0);
	}
	return profile;
}

static int check(const struct profile *profile, const struct server_limits *limits, const struct labels *base,
		 enum refusal *ret_reason, struct error *err)
{
	struct tenant tenant = {.limits = *limits};
	struct refusal_note note = {.reason = REFUSALS};
	*err = (struct error){0};
	int r = limits_check_profile(&tenant, profile, base, &note, err);
	*ret_reason = note.reason;
	return r;
}

static void test_profiles(void **state)
{
	enum refusal reason;
	struct error err;
	_cleanup_(profile_freep) struct profile *profile = make((size_t[]){1, 5, 5}, 3, "value");
	assert_int_equal(check(profile, &(struct server_limits){0}, NULL, &reason, &err), 0);
	assert_int_equal(check(profile, &(struct server_limits){.labels_per_series = 5}, NULL, &reason, &err), 0);
	assert_int_equal(check(profile, &(struct server_limits){.labels_per_series = 4}, NULL, &reason, &err), -EINVAL);
	assert_int_equal(reason, REFUSED_LABELS);
	assert_string_equal(err.message, "limit labels_per_series: a series has 5 labels, the limit is 4");
	assert_int_equal(check(profile, &(struct server_limits){.label_value_length = 5}, NULL, &reason, &err), 0);
	assert_int_equal(check(profile, &(struct server_limits){.label_value_length = 4}, NULL, &reason, &err), -EINVAL);
	assert_int_equal(reason, REFUSED_VALUE);
	assert_non_null(strstr(err.message, "'key0' has 5 bytes, the limit is 4"));
	assert_int_equal(check(profile, &(struct server_limits){.stacks_per_profile = 3}, NULL, &reason, &err), 0);
	assert_int_equal(check(profile, &(struct server_limits){.stacks_per_profile = 2}, NULL, &reason, &err), -EINVAL);
	assert_int_equal(reason, REFUSED_STACKS);
}

/* A label of the request that the sample has as well counts once. */
static void test_labels_that_coincide(void **state)
{
	enum refusal reason;
	struct error err;
	_cleanup_(labels_release) struct labels base = {0};
	assert_int_equal(labels_set(&base, "key1", "x", NULL), 0);
	_cleanup_(profile_freep) struct profile *profile = make((size_t[]){5}, 1, "value");
	assert_int_equal(check(profile, &(struct server_limits){.labels_per_series = 5}, &base, &reason, &err), 0);
	assert_int_equal(labels_set(&base, "other", "x", NULL), 0);
	assert_int_equal(check(profile, &(struct server_limits){.labels_per_series = 5}, &base, &reason, &err), -EINVAL);
}

static void test_more_than_the_store_takes(void **state)
{
	enum refusal reason;
	struct error err;
	_cleanup_(profile_freep) struct profile *profile = make((size_t[]){49}, 1, "value");
	assert_int_equal(check(profile, &(struct server_limits){0}, NULL, &reason, &err), -EINVAL);
	assert_int_equal(reason, REFUSED_LABELS);
}

static void test_no_memory(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make((size_t[]){3, 6}, 2, "value");
	for (unsigned n = 1;; n++) {
		enum refusal reason;
		struct error err;
		fault_arm(FAULT_ALLOC, n, 0);
		int r = check(profile, &(struct server_limits){.labels_per_series = 4}, NULL, &reason, &err);
		if (!fault_disarm(FAULT_ALLOC)) {
			assert_int_equal(r, -EINVAL);
			return;
		}
		assert_int_equal(r, -ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bucket),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_profiles),
		cmocka_unit_test(test_labels_that_coincide),
		cmocka_unit_test(test_more_than_the_store_takes),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
