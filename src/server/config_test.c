/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration file: every kind of setting, what is said about faults, and a failure of every allocation. */
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
#include "base/limits.h"
#include "base/time.h"
#include "server/core/server_int.h"

static char path[64];

static int setup(void **state)
{
	snprintf(path, sizeof(path), "/tmp/wick-config-%d.yaml", (int)getpid());
	return 0;
}

static int teardown(void **state)
{
	unlink(path);
	return 0;
}

static int load(const char *yaml, struct server_options *options, struct server_config_text **text, struct error *err)
{
	assert_int_equal(io_write_file(path, yaml, strlen(yaml), 0600, NULL), 0);
	server_options_init(options);
	*text = NULL;
	*err = (struct error){0};
	return server_options_load(options, path, text, err);
}

static const char full[] = "data: /srv/wick\n"
			   "host_files: no\n"
			   "connections: {max: 20000, per_address: 100, unauthenticated: 50}\n"
			   "tls.resumption: false\n"
			   "retention:\n"
			   "  age: 90d\n"
			   "  size: 200G\n"
			   "  samples: 7d\n"
			   "  rules:\n"
			   "    - {selector: '{env=\"test\"}', age: 2d}\n"
			   "    - selector: memory\n"
			   "      age: forever\n"
			   "compact: {window: 1h, long_window: off, memory: 64M}\n"
			   "tenants:\n"
			   "  team-a:\n"
			   "    limits: {series: none, labels_per_series: 10}\n"
			   "    retention.age: 1d\n"
			   "  team-b:\n"
			   "limits:\n"
			   "  series: 5000\n"
			   "  ingest_bytes_per_second: 10M\n"
			   "queries: {timeout: 10s, concurrent: 2, slow: off, memory: 1G}\n"
			   "symbols: {debuginfod: {urls: [http://a, http://b]}}\n"
			   "tenants_max: 7\n";

static void test_symbols(void **state)
{
	struct server_options o;
	struct error err;
	struct server_config_text *text;
	assert_int_equal(load("symbols:\n"
			      "  workers: 3\n"
			      "  cache_size: 1G\n"
			      "  memory: 100M\n"
			      "  retry: 2m\n"
			      "  host_files: no\n"
			      "  debuginfod:\n"
			      "    urls: [http://a:1, 'https://b/']\n"
			      "    cache_size: 2G\n"
			      "    timeout: 5s\n"
			      "    missing: 1h\n"
			      "  uploads: {enabled: no, size: 3G, file_size: 4M}\n"
			      "  worker: {memory: 1G, cpu: 30s, time: 2m}\n",
			      &o, &text, &err),
			 0);
	assert_int_equal(o.symbols.workers, 3);
	assert_int_equal(o.symbols.cache_bytes, GIB);
	assert_int_equal(o.symbols.memory_bytes, 100 * MIB);
	assert_true(o.no_host_files);
	assert_string_equal(o.symbols.debuginfod_urls, "http://a:1 https://b/");
	assert_int_equal(o.symbols.debuginfod_cache_bytes, 2 * GIB);
	assert_int_equal(o.symbols.debuginfod_timeout_ns, 5 * NS_PER_S);
	assert_int_equal(o.symbols.debuginfod_missing_ns, 3600 * NS_PER_S);
	assert_int_equal(o.symbols.retry_ns, 120 * NS_PER_S);
	assert_true(o.symbols.no_uploads);
	assert_int_equal(o.symbols.uploads_bytes, 3 * GIB);
	assert_int_equal(o.symbols.upload_file_bytes, 4 * MIB);
	assert_int_equal(o.symbols.worker_memory_bytes, GIB);
	assert_int_equal(o.symbols.worker_cpu_ns, 30 * NS_PER_S);
	assert_int_equal(o.symbols.worker_wall_ns, 120 * NS_PER_S);
	server_config_text_free(text);
	/* By their full names, and none at all. */
	assert_int_equal(load("symbols.debuginfod.urls: []\n", &o, &text, &err), 0);
	assert_string_equal(o.symbols.debuginfod_urls, "");
	assert_false(o.symbols.no_uploads);
	server_config_text_free(text);
	assert_int_equal(load("symbols:\n  debuginfod: {urls: 'http://a http://b'}\n", &o, &text, &err), 0);
	assert_string_equal(o.symbols.debuginfod_urls, "http://a http://b");
	server_config_text_free(text);
	assert_int_equal(load("symbols: {uploads: {enable: no}}\n", &o, &text, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'symbols.uploads.enable'"));
	assert_int_equal(load("symbols: {debuginfod: {urls: [{a: b}]}}\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("tenants: true\nsymbols: {shared: [platform, anonymous]}\n", &o, &text, &err), 0);
	assert_int_equal(o.symbols.shared_count, 2);
	assert_string_equal(o.symbols.shared[0], "platform");
	assert_string_equal(o.symbols.shared[1], "anonymous");
	server_config_text_free(text);
	assert_int_equal(load("symbols.shared: platform\n", &o, &text, &err), -EINVAL);
	assert_non_null(strstr(err.message, "must be a list of tenants"));
	assert_int_equal(load("symbols: {shared: [[a]]}\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("symbols: {shared: [../x]}\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("symbols: {worker: {memory: 1M}}\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("symbols: {uploads: off}\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("retention: {age: {age: 1d}}\n", &o, &text, &err), -EINVAL);
}

static void test_snapshots(void **state)
{
	struct server_options o;
	struct error err;
	struct server_config_text *text;
	assert_int_equal(load("snapshots: {enabled: no, size: 1G, age: 2d, count: 10000}\n", &o, &text, &err), 0);
	assert_true(o.no_snapshots);
	assert_int_equal(o.snapshots_bytes, GIB);
	assert_int_equal(o.snapshots_age_ns, 2 * 24 * 3600 * NS_PER_S);
	assert_int_equal(o.snapshots_max, 10000);
	server_config_text_free(text);
	assert_int_equal(load("view: {enabled: no, size: 10M}\n", &o, &text, &err), 0);
	assert_true(o.no_view);
	assert_int_equal(o.view_bytes, 10 * MIB);
	server_config_text_free(text);
	assert_int_equal(load("snapshots.age: forever\n", &o, &text, &err), 0);
	assert_int_equal(o.snapshots_age_ns, -1);
	assert_false(o.no_snapshots);
	server_config_text_free(text);
	assert_int_equal(load("indexes: {memory: 40M}\n", &o, &text, &err), 0);
	assert_int_equal(o.index_cache_bytes, 40 * MIB);
	server_config_text_free(text);
	assert_int_equal(load("indexes.memory: 1K\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("snapshots.count: 10001\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("snapshots.size: 0\n", &o, &text, &err), -EINVAL);
	assert_int_equal(load("snapshots.max: 5\n", &o, &text, &err), -EINVAL);
}

static void test_all_kinds(void **state)
{
	struct server_options o;
	struct error err;
	_cleanup_(server_config_text_freep) struct server_config_text *text = NULL;
	if (load(full, &o, &text, &err) < 0)
		fail_msg("%s", err.message);
	assert_string_equal(o.data_directory, "/srv/wick");
	assert_int_equal(o.connections_max, 20000);
	assert_int_equal(o.connections_per_address, 100);
	assert_int_equal(o.connections_unauthenticated, 50);
	assert_true(o.no_tls_resumption);
	assert_true(o.no_host_files);
	assert_int_equal(o.retention_age_ns, 90 * 86400 * NS_PER_S);
	assert_int_equal(o.retention_size_bytes, 200 * GIB);
	assert_int_equal(o.samples_age_ns, 7 * 86400 * NS_PER_S);
	assert_int_equal(o.rule_count, 2);
	assert_string_equal(o.rules[0].selector, "{env=\"test\"}");
	assert_int_equal(o.rules[0].age_ns, 2 * 86400 * NS_PER_S);
	assert_int_equal(o.rules[1].age_ns, -1);
	assert_int_equal(o.window_ns[0], 3600 * NS_PER_S);
	assert_int_equal(o.window_ns[1], -1);
	assert_int_equal(o.compact_memory_bytes, 64 * MIB);
	assert_true(o.tenants);
	assert_int_equal(o.tenants_max, 7);
	assert_int_equal(o.limits.series, 5000);
	assert_int_equal(o.limits.ingest_bytes_per_second, 10 * MIB);
	assert_int_equal(o.query_timeout_ns, 10 * NS_PER_S);
	assert_int_equal(o.queries_max, 2);
	assert_int_equal(o.query_memory_bytes, GIB);
	assert_int_equal(o.slow_query_ns, -1);
	/* A tenant starts from the limits of all, wherever in the file those stand. */
	assert_int_equal(o.tenant_settings_count, 2);
	assert_string_equal(o.tenant_settings[0].name, "team-a");
	assert_int_equal(o.tenant_settings[0].limits.series, 0);
	assert_int_equal(o.tenant_settings[0].limits.labels_per_series, 10);
	assert_int_equal(o.tenant_settings[0].limits.ingest_bytes_per_second, 10 * MIB);
	assert_int_equal(o.tenant_settings[0].retention_age_ns, 86400 * NS_PER_S);
	assert_int_equal(o.tenant_settings[1].limits.series, 5000);
}

static void test_tenants_switch(void **state)
{
	struct server_options o;
	struct error err;
	_cleanup_(server_config_text_freep) struct server_config_text *text = NULL;
	assert_int_equal(load("tenants: true\n", &o, &text, &err), 0);
	assert_true(o.tenants);
	assert_int_equal(o.tenant_settings_count, 0);
}

static void test_faults(void **state)
{
	static const struct {
		const char *yaml, *message;
	} cases[] = {
		{"nonsense: 1\n", "line 1: 'nonsense': unknown setting"},
		{"listen: a\nlimits:\n  serious: 5\n", "line 3: 'limits.serious': unknown limit"},
		{"limits: {series: 0}\n", "'limits.series': must be more than 0"},
		{"limits: {series: many}\n", "'limits.series'"},
		{"retention: {rules: 5}\n", "'retention.rules' must be a list"},
		{"retention: {rules: [{selector: a}]}\n", "needs both a selector and an age"},
		{"retention: {rules: [{selector: a, age: 1d, color: red}]}\n", "a selector and an age only"},
		{"retention: {rules: [a]}\n", "line 1: a rule"},
		{"tenants: {'a/b': {}}\n", "letters, digits"},
		{"tenants: {'..': {}}\n", "is not a valid tenant name"},
		{"tenants: {a: {limits: {series: 1}, listen: x}}\n", "'retention.size' only"},
		{"tenants: {a: {}, a: {}}\n", "listed twice"},
		{"tenants: {a: 5}\n", "a tenant may have"},
		{"tenants: perhaps\n", "must be true or false"},
		{"queries: {concurrent: 65}\n", "'queries.concurrent' must be a whole number from 1 to 64"},
		{"queries: {timeout: -1s}\n", "'queries.timeout'"},
		{"compact: {window: forever}\n", "'compact.window'"},
		{"retention: {age: {x: 1}}\n", "'retention.age': must be a single value"},
		{"- a\n", "expected `name: value` lines"},
		{"a: [\n", "line"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct server_options o;
		struct error err;
		struct server_config_text *text = NULL;
		assert_int_equal(load(cases[i].yaml, &o, &text, &err), -EINVAL);
		if (!strstr(err.message, cases[i].message))
			fail_msg("%s: expected \"%s\", got \"%s\"", cases[i].yaml, cases[i].message, err.message);
	}
}

static void test_no_memory(void **state)
{
	for (unsigned n = 1;; n++) {
		struct server_options o;
		struct error err = {0};
		_cleanup_(server_config_text_freep) struct server_config_text *text = NULL;
		assert_int_equal(io_write_file(path, full, strlen(full), 0600, NULL), 0);
		server_options_init(&o);
		fault_arm(FAULT_ALLOC, n, 0);
		int r = server_options_load(&o, path, &text, &err);
		bool hit = fault_disarm(FAULT_ALLOC);
		if (!hit) {
			assert_int_equal(r, 0);
			assert_true(n > 2);
			return;
		}
		assert_int_equal(r, -ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_kinds),      cmocka_unit_test(test_symbols), cmocka_unit_test(test_snapshots),
		cmocka_unit_test(test_tenants_switch), cmocka_unit_test(test_faults),  cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
