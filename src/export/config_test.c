/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "export/export.h"

static struct export_config config;
static struct error error;

static int parse(const char *text)
{
	export_config_release(&config);
	error = (struct error){0};
	return export_config_parse(bytes_of_string(text), "f", "export", false, &config, &error);
}

static void test_targets(void **state)
{
	(void)state;
	assert_int_equal(parse(""), 0);
	assert_int_equal(parse("server: http://x\n"), 0);
	assert_int_equal(config.count, 0);
	assert_int_equal(parse("export:\n"
			       "  - kind: pyroscope\n"
			       "    url: https://p.example/x\n"
			       "    tenant: a\n"
			       "    basic_auth: {username: u, password_file: /p}\n"
			       "    tls: {ca_file: /ca, insecure_skip_verify: true}\n"
			       "    headers: {X-A: one, X-B: two}\n"
			       "    spool: {size: 2MiB, age: 1h}\n"
			       "    timeout: 5s\n"
			       "    compression: false\n"
			       "    drop_labels: [thread.id]\n"
			       "  - {kind: parca, url: 'http://h:7070', name: second}\n"
			       "  - {kind: pyroscope, url: 'http://h', symbolize: false, spool.size: 3MiB}\n"),
			 0);
	assert_int_equal(config.count, 3);
	const struct export_target *target = &config.targets[0];
	assert_int_equal(target->kind, EXPORT_PYROSCOPE);
	assert_string_equal(target->url, "https://p.example/x");
	assert_string_equal(target->username, "u");
	assert_string_equal(target->password_file, "/p");
	assert_string_equal(target->ca_file, "/ca");
	assert_true(target->insecure_skip_verify && target->no_compression && target->symbolize);
	assert_int_equal(target->header_count, 2);
	assert_string_equal(target->headers[1].name, "X-B");
	assert_int_equal(target->spool_bytes, 2 * MIB);
	assert_int_equal(target->spool_age_ns, 3600 * NS_PER_S);
	assert_int_equal(target->timeout_ns, 5 * NS_PER_S);
	assert_string_equal(target->drop_labels[0], "thread.id");
	assert_string_equal(config.targets[1].name, "second");
	assert_false(config.targets[1].symbolize || config.targets[2].symbolize);
	assert_int_equal(config.targets[2].spool_bytes, 3 * MIB);
	assert_int_equal(export_config_add(&config, "otlp-http=http://c:4318", &error), 0);
	assert_int_equal(config.targets[3].kind, EXPORT_OTLP_HTTP);
	assert_string_equal(config.targets[3].url, "http://c:4318");
	assert_int_equal(export_config_add(&config, "otlp=http://c:4318", &error), -EINVAL);
	assert_int_equal(export_config_add(&config, "wick=c:4318", &error), -EINVAL);
	while (config.count < EXPORT_TARGETS_MAX)
		assert_int_equal(export_config_add(&config, "wick=http://c", &error), 0);
	assert_int_equal(export_config_add(&config, "wick=http://c", &error), -EINVAL);
}

static void test_faults(void **state)
{
	(void)state;
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"export: 1", "f: line 1: 'export' must be a list"},
		{"export: [1]", "must be a list of targets"},
		{"export:\n  - {url: 'http://h'}", "f: line 2: 'export' has a target without a kind"},
		{"export: [{kind: otlp, url: 'http://h'}]", "is not one of wick"},
		{"export: [{kind: wick}]", "needs a url"},
		{"export: [{kind: wick, url: h}]", "needs a url"},
		{"export: [{kind: wick, url: 'http://h', colour: red}]", "'colour' is not a setting; see docs/export.md"},
		{"export: [{kind: wick, url: 'http://h', selector: x}]", "'selector' is not a setting of a target"},
		{"export: [{kind: wick, url: 'http://h', url: 'http://i'}]", "'url' is set twice"},
		{"export: [{kind: wick, url: 'http://h', kind: wick}]", "'kind' is set twice"},
		{"export: [{kind: wick, url: 'http://h', spool: {size: 1k}}]", "'size' must be a size of at least 1.0 MiB"},
		{"export: [{kind: wick, url: 'http://h', spool: {age: never}}]", "'age' must be a time of more than 0"},
		{"export: [{kind: wick, url: 'http://h', spool: {age: {a: b}}}]", "'age' must be a single value"},
		{"export: [{kind: wick, url: 'http://h', symbolize: maybe}]", "must be true or false"},
		{"export: [{kind: wick, url: 'http://h', headers: [a]}]", "`name: value` lines"},
		{"export: [{kind: wick, url: 'http://h', drop_labels: a}]", "must be a list"},
		{"export: [{kind: wick, url: 'http://h', basic_auth: {password_file: a}}]", "without a username"},
		{"export: [{kind: wick, url: 'http://h', token_file: b, basic_auth: {username: a}}]", "both a token_file"},
		{"export: [{kind: wick, url: 'http://h', tls: {key_file: a}}]", "without a cert_file"},
		{"export: [&a {kind: wick, url: 'http://h', tls: *a}]", "'kind' is not a setting"},
		{"export: [{kind: wick, url: 'http://h', timeout: 1us}]", "less than 1ms"},
		{"export: [{kind: wick, url: 'http://h', spool.size: 1k}]", "'spool.size' must be a size of at least"},
		{"export: [\n", "f: line 2"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].text), -EINVAL);
		if (!strstr(error.message, cases[i].message))
			fail_msg("%s: %s", cases[i].text, error.message);
	}
	export_config_release(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_targets), cmocka_unit_test(test_faults)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
