// SPDX-License-Identifier: Apache-2.0
/* What an agent reports about itself, over a real connection. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/time.h"
#include "control/heap_sampler.h"
#include "daemon/agent_http.h"
#include "net/net.h"

static void ask(const struct agent_http *http, const char *path, int want_status, const char *want_text)
{
	char url[128];
	struct error err = {0};
	_cleanup_(net_client_freep) struct net_client *client = NULL;
	struct net_client_response response = {0};

	snprintf(url, sizeof(url), "http://%s", agent_http_address(http));
	assert_int_equal(net_client_new(&(struct net_client_options){.url = url}, &client, &err), 0);
	if (net_client_request(client, "GET", path, NULL, (struct bytes){0}, NET_PLAIN, &response, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(response.status, want_status);
	assert_non_null(strstr(buffer_string(&response.body), want_text));
	net_client_response_release(&response);
}

static void test_metrics_and_health(void **state)
{
	_cleanup_(agent_http_freep) struct agent_http *http = NULL;
	struct error err = {0};
	(void)state;

	if (agent_http_new("127.0.0.1:0", &http, &err) < 0)
		fail_msg("%s", err.message);
	ask(http, "/healthz", 200, "ok\n");
	ask(http, "/metrics", 200, "\nwick_agent_samples_total 0\n");
	struct link_stats stats = {.samples_taken = 123, .frequency_hz = 5, .frequency_asked_hz = 19, .cost_count = 1};
	snprintf(stats.costs[0].name, sizeof(stats.costs[0].name), "samples");
	stats.costs[0].count = NS_PER_S / 2;
	agent_http_update(http, &stats);
	ask(http, "/metrics", 200, "\nwick_agent_samples_total 123\n");
	ask(http, "/metrics", 200, "\nwick_agent_frequency_hz 5\n");
	ask(http, "/metrics", 200, "\nwick_agent_thread_cpu_seconds_total{work=\"samples\"} 0.5\n");
	ask(http, "/metrics", 200, "wick_build_info{version=\"" WICK_VERSION "\"} 1\n");
	ask(http, "/debug/pprof/", 200, "/debug/pprof/profile");
	ask(http, "/debug/pprof", 200, "/debug/pprof/profile");
	ask(http, "/debug/pprof/profile?seconds=301", 400, "seconds must be from 1 to 300");
	if (heap_sampler_is_built_in()) {
		ask(http, "/debug/pprof/", 200, "/debug/pprof/heap");
		ask(http, "/debug/pprof/heap?debug=1", 400, "debug must be 0");
		ask(http, "/debug/pprof/allocs?seconds=0", 400, "seconds must be from 1 to 300");
		ask(http, "/debug/pprof/heap", 501, "nothing is sampled");
	} else {
		ask(http, "/debug/pprof/", 200, "There is no heap profile: ");
		ask(http, "/debug/pprof/heap", 501, "AddressSanitizer");
	}
	ask(http, "/", 404, "error");
}

static void test_an_address_in_use(void **state)
{
	_cleanup_(agent_http_freep) struct agent_http *first = NULL, *second = NULL;
	struct error err = {0};
	(void)state;

	assert_int_equal(agent_http_new("127.0.0.1:0", &first, &err), 0);
	assert_true(agent_http_new(agent_http_address(first), &second, &err) < 0);
	assert_non_null(strstr(err.message, agent_http_address(first)));
	assert_null(second);
}

static void test_port_0_is_off(void **state)
{
	(void)state;
	assert_true(agent_http_is_off("127.0.0.1:0"));
	assert_true(agent_http_is_off("[::1]:000"));
	assert_true(agent_http_is_off("0"));
	assert_false(agent_http_is_off("127.0.0.1:7071"));
	assert_false(agent_http_is_off("127.0.0.1:10"));
	assert_false(agent_http_is_off("127.0.0.1:"));
	assert_false(agent_http_is_off(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_metrics_and_health),
		cmocka_unit_test(test_an_address_in_use),
		cmocka_unit_test(test_port_0_is_off),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
