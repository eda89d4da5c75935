/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's options: what stands over what, of the command line, the configuration file and the environment. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "agent/config.h"
#include "base/limits.h"
#include "base/time.h"
#include "cmd/agent_options.h"
#include "cmd/test_cmd.h"
#include "export/export.h"

static struct agent_config parse(const char *text)
{
	struct agent_config config;
	struct error err = {0};
	if (agent_config_parse(bytes_of_string(text), "agent.yaml", &config, &err) < 0)
		fail_msg("%s", err.message);
	return config;
}

static void test_labels(void **state)
{
	struct agent_config config = parse("labels: {env: prod, zone: a}\n");
	struct option_list list = {.items = {"env=test", "team=core"}, .count = 2};
	struct agent_options options = {0};
	struct error err = {0};
	struct labels labels = {0};
	(void)state;
	assert_int_equal(apply_agent_config(&config, NULL, &list, &options, &labels, &err), 0);
	assert_int_equal(labels.count, 3);
	assert_string_equal(labels_get(&labels, "env"), "test");
	assert_string_equal(labels_get(&labels, "zone"), "a");
	assert_string_equal(labels_get(&labels, "team"), "core");
	assert_string_equal(labels_get(&config.labels, "env"), "prod");
	labels_release(&labels);
	list = (struct option_list){.items = {"nothing"}, .count = 1};
	assert_int_equal(apply_agent_config(&config, NULL, &list, &options, &labels, &err), -EINVAL);
	assert_non_null(strstr(err.message, "--label"));
	labels_release(&labels);
	agent_config_release(&config);
}

/* option: what the command line said of the event; the frequency likewise, 0 = nothing. */
static void check_sampling(const char *file, const char *option, unsigned frequency_hz, bool cycles, unsigned want_hz)
{
	struct agent_config config = parse(file);
	struct option_list none = {0};
	struct agent_options options = {.frequency_hz = frequency_hz};
	struct labels labels = {0};
	assert_int_equal(parse_event(option, &options.cycles, NULL), 0);
	assert_int_equal(apply_agent_config(&config, option, &none, &options, &labels, NULL), 0);
	assert_int_equal(options.cycles, cycles);
	assert_int_equal(options.frequency_hz, want_hz);
	assert_ptr_equal(options.relabel, config.relabel);
	labels_release(&labels);
	agent_config_release(&config);
}

static void test_sampling(void **state)
{
	(void)state;
	check_sampling("", NULL, 0, false, 0);
	check_sampling("event: cycles\nfrequency: 49\n", NULL, 0, true, 49);
	check_sampling("event: cycles\nfrequency: 49\n", "cpu-clock", 99, false, 99);
	check_sampling("event: cpu-clock\n", "cycles", 0, true, 0);
	check_sampling("relabel_configs:\n  - {action: labeldrop, regex: x}\n", NULL, 0, false, 0);
}

static void test_process_stats(void **state)
{
	struct option_list none = {0};
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct agent_config config = parse(i ? "process_stats: false\n" : "");
		struct agent_options options = {0};
		struct labels labels = {0};
		setenv("WICK_CACHE", "/tmp/cache", 1);
		assert_int_equal(apply_agent_config(&config, NULL, &none, &options, &labels, NULL), 0);
		assert_int_equal(options.process_stats, !i);
		assert_string_equal(options.cache_directory, "/tmp/cache");
		labels_release(&labels);
		agent_config_release(&config);
	}
}

/* Where what cannot be sent waits: the first of option, file, WICK_SPOOL and STATE_DIRECTORY. NULL: not set. */
static void test_spool(void **state)
{
	static const struct {
		const char *option, *file, *spool, *state_directory, *want;
	} cases[] = {
		{"/o", "/f", "/e", "/s", "/o"},	      {NULL, "/f", "/e", "/s", "/f"},  {NULL, NULL, "/e", "/s", "/e"},
		{NULL, NULL, NULL, "/s", "/s/spool"}, {"off", "/f", "/e", "/s", NULL}, {NULL, "off", "/e", "/s", NULL},
		{NULL, NULL, "off", "/s", NULL},      {NULL, NULL, "", "/s", NULL}, /* empty: none, as the documentation says */
		{"", "/f", "/e", "/s", NULL},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct agent_config config = {
			.spool_directory = cases[i].file, .spool_bytes = 5 * MIB, .spool_age_ns = 3 * NS_PER_S};
		struct collector_options options = {0};
		unsetenv("WICK_SPOOL");
		unsetenv("STATE_DIRECTORY");
		if (cases[i].spool)
			setenv("WICK_SPOOL", cases[i].spool, 1);
		if (cases[i].state_directory)
			setenv("STATE_DIRECTORY", cases[i].state_directory, 1);
		apply_spool_config(&config, cases[i].option, &options);
		assert_string_equal(options.spool_directory ? options.spool_directory : "(none)",
				    cases[i].want ? cases[i].want : "(none)");
		assert_int_equal(options.spool_bytes, 5 * MIB);
		assert_int_equal(options.spool_age_ns, 3 * NS_PER_S);
	}
	struct agent_config config = {0};
	struct collector_options options = {0};
	unsetenv("WICK_SPOOL");
	setenv("STATE_DIRECTORY", "", 1);
	apply_spool_config(&config, NULL, &options);
	assert_string_equal(options.spool_directory ? options.spool_directory : "(none)",
			    geteuid() == 0 ? "/var/lib/wick-agent" : "(none)");
	unsetenv("STATE_DIRECTORY");
}

static struct agent_config load(struct test_files *files, const char *text)
{
	struct agent_config config;
	struct error err = {0};
	if (agent_config_load(test_write(files, "agent.yaml", text, 0600), &config, &err) < 0)
		fail_msg("%s", err.message);
	return config;
}

static void test_targets(void **state)
{
	struct option_list list = {.items = {"pyroscope=http://b:4040"}, .count = 1};
	struct export_config targets;
	struct test_files files;
	struct error err = {0};
	(void)state;
	test_files_make(&files);
	struct agent_config config = load(&files, "export:\n  - kind: otlp-grpc\n    url: http://a:4317\n");
	assert_int_equal(read_targets(&config, files.path, &list, &targets, &err), 0);
	assert_int_equal(targets.count, 2);
	assert_string_equal(targets.targets[0].url, "http://a:4317");
	assert_int_equal(targets.targets[0].kind, EXPORT_OTLP_GRPC);
	assert_string_equal(targets.targets[1].url, "http://b:4040");
	assert_int_equal(targets.targets[1].kind, EXPORT_PYROSCOPE);
	export_config_release(&targets);
	static const char *const bad[] = {"", "pyroscope", "nothing=http://b", "pyroscope=", "=http://b", "pyroscope=ftp://b"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		list.items[0] = bad[i];
		assert_int_equal(read_targets(&config, files.path, &list, &targets, &err), -EINVAL);
		export_config_release(&targets);
	}
	agent_config_release(&config);
	test_files_remove(&files);
}

/* Without a file there are those of the command line, and no more than there is room for. */
static void test_targets_max(void **state)
{
	struct agent_config config = {0};
	struct option_list list = {0};
	struct export_config targets;
	struct error err = {0};
	char texts[EXPORT_TARGETS_MAX + 1][64];
	(void)state;
	for (size_t i = 0; i <= EXPORT_TARGETS_MAX; i++) {
		snprintf(texts[i], sizeof(texts[i]), "pyroscope=http://host%zu:4040", i);
		list.items[list.count++] = texts[i];
	}
	list.count = EXPORT_TARGETS_MAX;
	assert_int_equal(read_targets(&config, NULL, &list, &targets, &err), 0);
	assert_int_equal(targets.count, EXPORT_TARGETS_MAX);
	export_config_release(&targets);
	list.count++;
	assert_int_equal(read_targets(&config, NULL, &list, &targets, &err), -EINVAL);
	export_config_release(&targets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_labels), cmocka_unit_test(test_sampling), cmocka_unit_test(test_process_stats),
		cmocka_unit_test(test_spool),  cmocka_unit_test(test_targets),	cmocka_unit_test(test_targets_max),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
