// SPDX-License-Identifier: Apache-2.0
/* The agent's configuration file: what is understood, and what is said of the rest. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/config.h"
#include "base/alloc.h"
#include "base/test_faults.h"

static int parse(const char *text, struct agent_config *ret, struct error *err)
{
	return agent_config_parse((struct bytes){(const uint8_t *)text, strlen(text)}, "agent.yaml", ret, err);
}

static const char all[] = "# all there is\n"
			  "server: http://profiles.example:7070\n"
			  "token_file: /etc/wick/token\n"
			  "tenant: team-a\n"
			  "frequency: 97\nmin_frequency: 7\nlisten: 127.0.0.1:99\n"
			  "remote_record: false\n"
			  "markers: true\n"
			  "event: cycles\n"
			  "labels:\n"
			  "  env: prod\n"
			  "  team: 'a: b'\n"
			  "host_labels: {zone: eu-1a}\n"
			  "process_stats: false\n"
			  "debuginfo:\n"
			  "  upload: false\n"
			  "  rate: 512k\n"
			  "  file_size: 3GiB\n"
			  "relabel_configs:\n"
			  "  - source_labels: [process_executable_name, env]\n"
			  "    separator: '@'\n"
			  "    regex: (.+)@prod\n"
			  "    target_label: service\n"
			  "    replacement: ${1}!\n"
			  "    action: replace\n"
			  "  - source_labels: [env]\n"
			  "    modulus: 8\n"
			  "    target_label: shard\n"
			  "    action: hashmod\n";

static void test_all_settings(void **state)
{
	struct agent_config config;
	struct relabel_set set;

	assert_int_equal(parse(all, &config, NULL), 0);
	assert_string_equal(config.server, "http://profiles.example:7070");
	assert_string_equal(config.token_file, "/etc/wick/token");
	assert_string_equal(config.tenant, "team-a");
	assert_string_equal(config.event, "cycles");
	assert_int_equal(config.frequency_hz, 97);
	assert_int_equal(config.frequency_least_hz, 7);
	assert_string_equal(config.listen, "127.0.0.1:99");
	assert_true(config.no_remote_record);
	assert_true(config.markers);
	assert_true(config.no_process_stats);
	assert_true(config.no_debuginfo_upload);
	assert_int_equal(config.debuginfo_rate, 512 * 1024);
	assert_int_equal(config.debuginfo_file_bytes_max, 3ull << 30);
	assert_string_equal(labels_get(&config.labels, "env"), "prod");
	assert_string_equal(labels_get(&config.labels, "team"), "a: b");
	assert_string_equal(labels_get(&config.host_labels, "zone"), "eu-1a");
	assert_int_equal(relabel_count(config.relabel), 2);
	relabel_set_init(&set);
	relabel_set_put(&set, "process.executable.name", "java");
	relabel_set_put(&set, "env", "prod");
	assert_int_equal(relabel_apply(config.relabel, &set, NULL), 0);
	assert_string_equal(relabel_set_get(&set, "service"), "java!");
	assert_int_equal(strlen(relabel_set_get(&set, "shard")), 1);
	relabel_set_release(&set);
	agent_config_release(&config);
}

static void test_nothing(void **state)
{
	static const char *const texts[] = {"", "\n", "# only this\n", "---\n", "{}"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct agent_config config;
		assert_int_equal(parse(texts[i], &config, NULL), 0);
		assert_null(config.server);
		assert_false(config.no_process_stats);
		assert_false(config.no_debuginfo_upload);
		assert_null(config.relabel);
		assert_int_equal(config.frequency_hz, 0);
		agent_config_release(&config);
	}
}

static void test_what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *text, *message;
	} vectors[] = {
		{"server: x\nfrequncy: 19\n", "agent.yaml: line 2: 'frequncy' is not a setting; did you mean 'frequency'?"},
		{"relabel_config: []\n", "did you mean 'relabel_configs'?"},
		{"label: {a: b}\n", "did you mean 'labels'?"},
		{"colour: blue\n", "line 1: 'colour' is not a setting; see wick-agent(1)"},
		{"server: x\nserver: y\n", "line 2: 'server' is set twice"},
		{"server: [x]\n", "line 1: 'server' must be a single value"},
		{"server:\n", "'server' has no value"},
		{"frequency: 0\n", "'frequency' must be a whole number from 1 to 10000"},
		{"frequency: 19.5\n", "'frequency' must be a whole number"},
		{"frequency: 10001\n", "'frequency' must be a whole number"},
		{"process_stats: off\n", "'process_stats' must be true or false"},
		{"debuginfo: false\n", "'debuginfo' must be `name: value` lines"},
		{"debuginfo:\n  uplod: true\n", "line 2: 'uplod' is not a setting; did you mean 'upload'?"},
		{"debuginfo: {upload: no}\n", "'upload' must be true or false"},
		{"debuginfo: {rate: fast}\n", "'rate' must be a size of at least 1.0 KiB, such as 1MiB"},
		{"debuginfo: {rate: 1000}\n", "'rate' must be a size of at least 1.0 KiB"},
		{"debuginfo: {file_size: 0}\n", "'file_size' must be a size of at least 1 B"},
		{"event: cpu\n", "'event' must be cpu-clock or cycles"},
		{"host_labels: [a]\n", "'host_labels' must be `name: value` lines"},
		{"labels: [a]\n", "'labels' must be `name: value` lines"},
		{"labels:\n  a-b: x\n", "agent.yaml: line 2: labels: "},
		{"labels:\n  a: x\n  a: y\n", "line 3: 'a' is set twice"},
		{"labels: {a: }\n", "'a' must be a name with a single value"},
		{"relabel_configs: {}\n", "'relabel_configs' must be a list of rules"},
		{"relabel_configs:\n  - x\n", "line 2: 'relabel_configs' must be a list of `name: value` lines"},
		{"relabel_configs:\n  - source_labels: a\n", "'source_labels' must be a list"},
		{"relabel_configs:\n  - action: keep\n  - source_label: [a]\n",
		 "line 3: 'source_label' is not a setting; did you mean 'source_labels'?"},
		{"relabel_configs:\n  - action: kep\n", "agent.yaml: line 2: relabel_configs: action: 'kep' is not one of"},
		{"relabel_configs:\n  - {regex: '(', action: drop}\n",
		 "line 2: relabel_configs: regex: bad regular expression"},
		{"relabel_configs:\n  - {target_label: a, action: hashmod, modulus: x}\n", "'modulus' must be a whole number"},
		{"- a\n", "expected `name: value` lines"},
		{"server: \"\n", "agent.yaml: line "},
		{"? [a]\n: b\n", "a setting's name must be plain text"},
		{"\"ser\\0ver\": x\n", "a setting's name must be plain text"},
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		struct agent_config config;
		struct error err = {0};
		assert_int_equal(parse(vectors[i].text, &config, &err), -EINVAL);
		if (!strstr(err.message, vectors[i].message))
			fail_msg("'%s' lacks '%s'", err.message, vectors[i].message);
		agent_config_release(&config);
	}
}

static void test_missing_file(void **state)
{
	struct agent_config config;
	struct error err = {0};
	assert_int_equal(agent_config_load("/does/not/exist.yaml", &config, &err), -ENOENT);
	assert_non_null(strstr(err.message, "/does/not/exist.yaml"));
	agent_config_release(&config);
}

/* Tests run in the root of the source tree. */
static void test_example(void **state)
{
	struct agent_config config;
	struct error err = {0};
	if (agent_config_load("packaging/agent.yaml", &config, &err) < 0)
		fail_msg("%s", err.message);
	assert_non_null(config.server);
	assert_int_equal(relabel_count(config.relabel), 3);
	agent_config_release(&config);
}

static int parse_all(void *context)
{
	struct agent_config config;
	int r = parse(all, &config, NULL);
	agent_config_release(&config);
	return r;
}

static void test_memory_runs_out(void **state)
{
	assert_true(test_each_allocation(parse_all, NULL) > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_settings),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_what_is_wrong_is_said),
		cmocka_unit_test(test_missing_file),
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
