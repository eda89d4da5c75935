/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's exporter: which targets it has, that profiles reach them, and what stays when nobody is there. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <unistd.h>

#include "base/io.h"
#include "daemon/shipper.h"
#include "daemon/test_daemon.h"
#include "profile/test_profile.h"

static struct profile *make(void)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_named_type(profile, "cpu", "nanoseconds", NULL), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){0}, &(int64_t){5}, NULL), 0);
	return profile;
}

static void test_targets(void **state)
{
	struct export_target further[EXPORT_TARGETS_MAX + 1];
	struct export_stats stats[EXPORT_TARGETS_MAX];
	struct error err = {0};
	struct shipper *shipper = NULL;
	char urls[EXPORT_TARGETS_MAX + 1][64];
	(void)state;
	for (size_t i = 0; i <= EXPORT_TARGETS_MAX; i++) {
		snprintf(urls[i], sizeof(urls[i]), "http://127.0.0.1:%zu", i + 1);
		further[i] = (struct export_target){.kind = EXPORT_PYROSCOPE, .url = urls[i]};
	}
	struct shipper_options options = {.url = "http://127.0.0.1:9", .targets = further, .target_count = EXPORT_TARGETS_MAX};
	assert_int_equal(shipper_new(&options, &shipper, &err), -EINVAL);
	assert_non_null(strstr(err.message, "targets"));
	assert_null(shipper);
	options.target_count = 2;
	assert_int_equal(shipper_new(&options, &shipper, &err), 0);
	assert_int_equal(shipper_get_stats(shipper, stats, 1), 3); /* fills what there is room for */
	assert_int_equal(shipper_get_stats(shipper, stats, EXPORT_TARGETS_MAX), 3);
	assert_int_equal(stats[0].kind, EXPORT_WICK); /* the server first */
	assert_int_equal(stats[2].kind, EXPORT_PYROSCOPE);
	shipper_free(shipper);
	options = (struct shipper_options){.targets = further, .target_count = EXPORT_TARGETS_MAX};
	assert_int_equal(shipper_new(&options, &shipper, &err), 0);
	assert_int_equal(shipper_get_stats(shipper, stats, EXPORT_TARGETS_MAX), EXPORT_TARGETS_MAX);
	shipper_see(shipper, "aaaa", "/bin/a", -1); /* nobody asks for names */
	shipper_free(shipper);
	options = (struct shipper_options){.url = "nonsense"};
	assert_true(shipper_new(&options, &shipper, &err) < 0);
	assert_null(shipper_free(NULL));
}

/* What is pushed arrives when it is finished, with the token and the tenant. */
static void test_sends(void **state)
{
	static struct test_peer peer;
	_cleanup_(profile_freep) struct profile *profile = make();
	struct export_stats stats;
	struct shipper *shipper;
	(void)state;
	test_peer_open(&peer);
	TEST_ANSWERS(&peer, {200, ""});
	struct export_target target = {.kind = EXPORT_OTLP_HTTP, .url = peer.url, .token = "tok", .tenant = "me"};
	struct shipper_options options = {.targets = &target, .target_count = 1};
	assert_int_equal(shipper_new(&options, &shipper, NULL), 0);
	assert_int_equal(shipper_push(shipper, profile, NULL), 0);
	shipper_finish(shipper, 30 * NS_PER_S);
	shipper_get_stats(shipper, &stats, 1);
	assert_int_equal(stats.sent_profiles, 1);
	assert_int_equal(stats.failures, 0);
	shipper_free(shipper);
	assert_int_equal(peer.asked_count, 1);
	assert_string_equal(peer.asked[0].target, "/v1development/profiles");
	assert_string_equal(peer.asked[0].token, "Bearer tok");
	assert_string_equal(peer.asked[0].tenant, "me");
	test_peer_close(&peer);
}

/* Refused for good: counted, and not sent again. */
static void test_is_refused(void **state)
{
	static struct test_peer peer;
	_cleanup_(profile_freep) struct profile *profile = make();
	struct export_stats stats;
	struct shipper *shipper;
	(void)state;
	test_peer_open(&peer);
	TEST_ANSWERS(&peer, {400, "{\"code\":3,\"message\":\"no\"}"});
	struct export_target target = {.kind = EXPORT_OTLP_HTTP, .url = peer.url};
	struct shipper_options options = {.targets = &target, .target_count = 1};
	assert_int_equal(shipper_new(&options, &shipper, NULL), 0);
	assert_int_equal(shipper_push(shipper, profile, NULL), 0);
	shipper_finish(shipper, 30 * NS_PER_S);
	shipper_get_stats(shipper, &stats, 1);
	assert_int_equal(stats.refused_profiles, 1);
	assert_int_equal(stats.sent_profiles, 0);
	assert_int_equal(peer.asked_count, 1);
	shipper_free(shipper);
	test_peer_close(&peer);
}

/* What waits on disk stays for the next run. */
static void test_spool(void **state)
{
	static struct test_peer peer;
	_cleanup_(profile_freep) struct profile *profile = make();
	char directory[] = "/tmp/wick-shipper-XXXXXX";
	struct export_stats stats;
	struct shipper *shipper;
	(void)state;
	assert_non_null(mkdtemp(directory));
	test_peer_open(&peer);
	TEST_ANSWERS(&peer, {503, ""});
	struct export_target target = {.kind = EXPORT_OTLP_HTTP, .url = peer.url, .name = "one"};
	struct shipper_options options = {.targets = &target, .target_count = 1, .spool_directory = directory};
	assert_int_equal(shipper_new(&options, &shipper, NULL), 0);
	assert_int_equal(shipper_push(shipper, profile, NULL), 0);
	shipper_finish(shipper, 0);
	shipper_free(shipper);
	TEST_ANSWERS(&peer, {200, ""});
	assert_int_equal(shipper_new(&options, &shipper, NULL), 0);
	shipper_finish(shipper, 30 * NS_PER_S);
	shipper_get_stats(shipper, &stats, 1);
	assert_int_equal(stats.spool.found, 1);
	assert_int_equal(stats.sent_profiles, 1);
	shipper_free(shipper);
	test_peer_close(&peer);
	io_remove_tree(directory, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_sends),
		cmocka_unit_test(test_is_refused),
		cmocka_unit_test(test_spool),
	};
	log_set_level(LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
