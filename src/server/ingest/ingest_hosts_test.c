/* SPDX-License-Identifier: Apache-2.0 */
/* What profiles say of their hosts: in the table, and not with the series; there after a restart. */
#include "server/test_server.h"

#include "store/hosts.h"

#define ATTRIBUTE(key, value) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" value "\"}}"

static void send_profile(struct test_server *test, const char *host, const char *zone, int64_t time_ns, const char *keys,
			 int status)
{
	char text[4096];
	snprintf(text, sizeof(text),
		 "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[%s%s%s" ATTRIBUTE("service.name", "shop") "," ATTRIBUTE(
			 "cloud.zone", "%s") "],\"entityRefs\":[{\"type\":\"host\",\"descriptionKeys\":[%s]}]},"
					     "\"scopeProfiles\":[{\"profiles\":[{\"sampleType\":{\"typeStrindex\":1,"
					     "\"unitStrindex\":2},\"timeUnixNano\":\"%lld\",\"samples\":[{\"values\":[\"7\"]}]"
					     "}]}]}],\"dictionary\":{\"stringTable\":[\"\",\"cpu\",\"nanoseconds\"]}}",
		 *host ? "{\"key\":\"host.name\",\"value\":{\"stringValue\":\"" : "", host, *host ? "\"}}," : "", zone, keys,
		 (long long)time_ns);
	assert_int_equal(
		test_ask_bytes(test, "POST /v1development/profiles\nContent-Type: application/json", bytes_of_string(text)),
		status);
}

static void test_table(void **state)
{
	struct test_server test;
	int64_t now_ns = time_now_ns() - 60 * NS_PER_S;
	test_server_open(&test, NULL);
	send_profile(&test, "web-1", "a", now_ns, "\"cloud.zone\"", 200);
	send_profile(&test, "web-1", "b", now_ns + 10 * NS_PER_S, "\"cloud.zone\"", 200);
	send_profile(&test, "web-2", "b", now_ns, "\"cloud.zone\"", 200);
	test_expect(&test, "GET /api/v1/label-values?label=cloud_zone", 200,
		    "\"value\":\"b\",\"series\":2,\"samples\":3,\"hosts\":2");
	test_expect(&test, "GET /api/v1/pipeline?q=%7Bcloud_zone%3D%22b%22%7D%20%7C%20count", 200, "[");
	test_expect(&test, "GET /api/v1/series?query=%7Bcloud_zone%3D%22b%22%7D&by=cloud_zone&step=1h", 200, "\"total\":14");
	/* Two series: their host and service. */
	struct store_stats stats;
	store_get_stats(test.server->default_tenant->store, &stats);
	assert_int_equal(stats.head_series, 2);
	assert_int_equal(stats.hosts, 2);
	assert_int_equal(stats.host_runs, 3);
	test_expect(&test, "POST /api/v1/delete?query=%7Bcloud_zone!%3D%22a%22%7D&from=now-1h&to=now", 400,
		    "cloud_zone is a label of hosts");
	test_expect(&test, "GET /api/v1/series?query=process_cpu&step=1h", 200, "\"total\":21");
	test_expect(&test, "GET /api/v1/cardinality", 200, "\"name\":\"host_name\"");
	assert_null(strstr(test.text, "cloud_zone"));
	test_server_close(&test);
}

/* Without a host that series could name, and where nothing is described, attributes stay what they were. */
static void test_others(void **state)
{
	struct test_server test;
	struct store_stats stats;
	int64_t now_ns = time_now_ns() - 60 * NS_PER_S;
	test_server_open(&test, NULL);
	send_profile(&test, "", "a", now_ns, "\"cloud.zone\"", 200);
	send_profile(&test, "web-1", "b", now_ns, "\"cloud.other\"", 200);
	store_get_stats(test.server->default_tenant->store, &stats);
	assert_int_equal(stats.hosts, 0);
	assert_int_equal(stats.head_series, 2);
	test_expect(&test, "GET /api/v1/label-values?label=cloud_zone", 200, "\"value\":\"a\",\"series\":1");
	assert_null(strstr(test.text, "hosts"));
	/* The host's own name does not describe it. */
	send_profile(&test, "web-2", "c", now_ns, "\"host.name\",\"cloud.zone\"", 200);
	test_expect(&test, "GET /api/v1/label-values?label=host_name", 200, "web-1");
	store_get_stats(test.server->default_tenant->store, &stats);
	assert_int_equal(stats.hosts, 1);
	test_server_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_others)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
