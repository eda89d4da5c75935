/* SPDX-License-Identifier: Apache-2.0 */
/* scrape_configs: what each setting becomes, and that what is not understood is refused with its line. */
#include "server/test_server.h"

#include "server/scrape/scrape.h"

static int read_config(const char *text, struct scrape_config **ret, struct error *err)
{
	yaml_parser_t parser;
	yaml_document_t document;
	assert_true(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	if (!yaml_parser_load(&parser, &document))
		fail_msg("line %zu: %s", parser.problem_mark.line + 1, parser.problem);
	*ret = NULL;
	int r = scrape_config_read(&document, yaml_document_get_root_node(&document), "wick.yaml", ret, err);
	yaml_document_delete(&document);
	yaml_parser_delete(&parser);
	return r;
}

static struct scrape_config *must_read(const char *text)
{
	struct scrape_config *config;
	struct error err = {0};
	if (read_config(text, &config, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	return config;
}

static const struct scrape_profile *profile_of(const struct scrape_job *job, const char *name)
{
	for (size_t i = 0; i < job->profile_count; i++)
		if (strcmp(job->profiles[i].name, name) == 0)
			return &job->profiles[i];
	fail_msg("no profile %s", name);
	return NULL;
}

static void test_defaults(void **state)
{
	_cleanup_(scrape_config_freep) struct scrape_config *config = must_read("- job_name: a\n");
	(void)state;
	assert_int_equal(config->count, 1);
	const struct scrape_job *job = config->jobs[0];
	assert_string_equal(job->name, "a");
	assert_string_equal(job->scheme, "http");
	assert_string_equal(job->path_prefix, "");
	assert_int_equal(job->interval_ns, 15 * NS_PER_S);
	assert_int_equal(job->timeout_ns, 10 * NS_PER_S);
	assert_int_equal(job->body_max, 64 * MIB);
	assert_int_equal(job->discovery_count + job->param_count + job->targets_max, 0);
	assert_null(job->relabel);
	assert_true(profile_of(job, "process_cpu")->delta);
	assert_true(profile_of(job, "memory")->cumulative);
	assert_true(profile_of(job, "fgprof")->disabled);
	assert_string_equal(profile_of(job, "goroutine")->path, "/debug/pprof/goroutine");
}

static void test_everything(void **state)
{
	_cleanup_(scrape_config_freep) struct scrape_config *config =
		must_read("- job_name: all\n  scrape_interval: 1m\n  scrape_timeout: 5s\n  scheme: https\n  tenant: t\n"
			  "  body_size_limit: 1MiB\n  target_limit: 7\n  params: {a: [x, y], b: z}\n"
			  "  basic_auth: {username: u, password: p}\n  follow_redirects: false\n"
			  "  static_configs:\n    - targets: [h:1, h:2]\n      labels: {env: prod}\n"
			  "  file_sd_configs:\n    - files: ['/etc/*.json', a.yml]\n      refresh_interval: 2m\n"
			  "  http_sd_configs:\n    - {url: 'http://sd/', bearer_token: tok}\n"
			  "  dns_sd_configs:\n    - {names: [a.example], type: aaaa, port: 80}\n    - names: _p._tcp.example\n"
			  "  kubernetes_sd_configs:\n    - role: pod\n      namespaces: {names: [x], own_namespace: true}\n"
			  "      selectors: [{role: pod, label: app=x}]\n"
			  "  relabel_configs:\n    - {source_labels: [a], regex: b, action: drop}\n"
			  "  profiling_config:\n    path_prefix: /p\n    pprof_config:\n"
			  "      memory: {enabled: false}\n      process_cpu: {seconds: 5}\n"
			  "      own: {path: /own, cumulative: true}\n"
			  "- job_name: fast\n  scrape_interval: 2s\n");
	const struct scrape_job *job = config->jobs[0];
	(void)state;
	assert_int_equal(config->count, 2);
	assert_int_equal(job->interval_ns, 60 * NS_PER_S);
	assert_int_equal(job->timeout_ns, 5 * NS_PER_S);
	assert_string_equal(job->scheme, "https");
	assert_string_equal(job->tenant, "t");
	assert_int_equal(job->body_max, MIB);
	assert_int_equal(job->targets_max, 7);
	assert_int_equal(job->param_count, 2);
	assert_int_equal(job->params[0].count, 2);
	assert_string_equal(job->params[0].values[1], "y");
	assert_string_equal(job->params[1].values[0], "z");
	assert_string_equal(job->http.user, "u");
	assert_true(job->http.no_redirects);
	assert_int_equal(job->discovery_count, 6);
	/* In the order of the settings' text. */
	const struct discovery_config *found = job->discoveries;
	assert_int_equal(found[0].kind, DISCOVERY_STATIC);
	assert_int_equal(found[0].item_count, 2);
	assert_string_equal(found[0].labels[0].value, "prod");
	assert_int_equal(found[1].kind, DISCOVERY_FILE);
	assert_int_equal(found[1].refresh_ns, 120 * NS_PER_S);
	assert_int_equal(found[2].kind, DISCOVERY_HTTP);
	assert_string_equal(found[2].http.credentials, "tok");
	assert_int_equal(found[3].dns_type, DISCOVERY_AAAA);
	assert_int_equal(found[3].port, 80);
	assert_int_equal(found[4].dns_type, DISCOVERY_SRV);
	assert_int_equal(found[5].role, KUBERNETES_POD);
	assert_true(found[5].own_namespace);
	assert_string_equal(found[5].selectors[0].label, "app=x");
	assert_non_null(job->relabel);
	assert_string_equal(job->path_prefix, "/p");
	assert_true(profile_of(job, "memory")->disabled);
	assert_int_equal(profile_of(job, "process_cpu")->duration_ns, 5 * NS_PER_S);
	assert_true(profile_of(job, "own")->cumulative);
	assert_int_equal(config->jobs[1]->timeout_ns, 2 * NS_PER_S); /* no longer than the interval */
	assert_int_not_equal(config->jobs[0]->hash, config->jobs[1]->hash);
}

/* Reloading compares jobs by the hash of their text. */
static void test_hash(void **state)
{
	static const char *const texts[] = {"- job_name: a\n",
					    "- {job_name: a}\n",
					    "- job_name: a\n  scheme: http\n",
					    "- job_name: a\n  static_configs: [{targets: [b]}]\n",
					    "- job_name: a\n  static_configs: [{targets: [b, c]}]\n",
					    "- job_name: a\n  static_configs: [{targets: [bc]}]\n"};
	uint64_t hashes[6];
	(void)state;
	for (size_t i = 0; i < 6; i++) {
		_cleanup_(scrape_config_freep) struct scrape_config *config = must_read(texts[i]);
		hashes[i] = config->jobs[0]->hash;
	}
	assert_int_equal(hashes[0], hashes[1]);
	for (size_t i = 1; i < 6; i++)
		for (size_t k = i + 1; k < 6; k++)
			assert_int_not_equal(hashes[i], hashes[k]);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"a: b\n", "wick.yaml: line 1: 'scrape_configs' must be a list"},
		{"- a\n", "line 1: expected `name: value` lines"},
		{"- {}\n", "needs a job_name"},
		{"- job_name: ''\n", "'job_name' has no value"},
		{"- job_name: [a]\n", "must be a single value"},
		{"- job_name: a\n- job_name: a\n", "is already the name of another job"},
		{"- job_name: a\n  job_name: b\n", "line 2: 'job_name' is set twice"},
		{"- job_name: a\n  scrape_intervall: 5s\n", "line 2: 'scrape_intervall' is not a setting"},
		{"- job_name: a\n  ? [x]\n  : y\n", "a setting's name must be plain text"},
		{"- job_name: a\n  scrape_interval: 0s\n", "must be a time of more than 0"},
		{"- job_name: a\n  scrape_interval: 999ms\n", "must be at least 1s"},
		{"- job_name: a\n  scrape_interval: soon\n", "must be a time of more than 0"},
		{"- job_name: a\n  scheme: ftp\n", "'ftp' must be http or https"},
		{"- job_name: a\n  body_size_limit: 0\n", "must be a size of more than 0"},
		{"- job_name: a\n  target_limit: 4294967296\n", "must be a whole number of more than 0"},
		{"- job_name: a\n  target_limit: -1\n", "must be a whole number of more than 0"},
		{"- job_name: a\n  follow_redirects: perhaps\n", "must be true or false"},
		{"- job_name: a\n  params: [a]\n", "'params' must be `name: value` lines"},
		{"- job_name: a\n  params: {a: {b: c}}\n", "'a' must be a list"},
		{"- job_name: a\n  basic_auth: {password: p}\n", "needs a username"},
		{"- job_name: a\n  basic_auth: {username: u, password: p, password_file: f}\n", "one of password and"},
		{"- job_name: a\n  authorization: {type: Bearer}\n", "needs one of credentials and credentials_file"},
		{"- job_name: a\n  bearer_token: t\n  basic_auth: {username: u}\n", "is given in more than one way"},
		{"- job_name: a\n  bearer_token: t\n  bearer_token_file: f\n", "is given in more than one way"},
		{"- job_name: a\n  tls_config: {ca_file: /nowhere/ca.pem}\n", "line 2: tls_config"},
		{"- job_name: a\n  static_configs: {targets: [b]}\n", "'static_configs' must be a list"},
		{"- job_name: a\n  static_configs: [{targets: {a: b}}]\n", "must be a list"},
		{"- job_name: a\n  static_configs: [{labels: {1a: b}}]\n", "'1a' is not a label name"},
		{"- job_name: a\n  static_configs: [{labels: {a: [b]}}]\n", "must be a single value"},
		{"- job_name: a\n  static_configs: [{labels: [a]}]\n", "must be `name: value` lines"},
		{"- job_name: a\n  static_configs: [{labels: {a: b}, labels: {c: d}}]\n", "'labels' is set twice"},
		{"- job_name: a\n  file_sd_configs: [{files: [a.txt]}]\n", "must end in .json, .yml or .yaml"},
		{"- job_name: a\n  file_sd_configs: [{files: ['*/*.json']}]\n", "has more than one '*'"},
		{"- job_name: a\n  file_sd_configs: [{files: [a.yml], refresh_interval: 10ms}]\n", "must be at least 1s"},
		{"- job_name: a\n  http_sd_configs: [{refresh_interval: 5s}]\n", "needs a url that begins with http"},
		{"- job_name: a\n  http_sd_configs: [{url: 'file:///etc/passwd'}]\n", "needs a url that begins with http"},
		{"- job_name: a\n  dns_sd_configs: [{type: A, port: 80}]\n", "needs names"},
		{"- job_name: a\n  dns_sd_configs: [{names: [a], type: A}]\n", "needs a port"},
		{"- job_name: a\n  dns_sd_configs: [{names: [a], type: A, port: 65536}]\n", "up to 65535"},
		{"- job_name: a\n  dns_sd_configs: [{names: [a], type: MX}]\n", "'MX' must be SRV, A or AAAA"},
		{"- job_name: a\n  kubernetes_sd_configs: [{namespaces: {}}]\n", "needs a role"},
		{"- job_name: a\n  kubernetes_sd_configs: [{role: ingress}]\n", "must be pod, endpoints"},
		{"- job_name: a\n  kubernetes_sd_configs: [{role: pod, selectors: [{label: a}]}]\n", "needs a role"},
		{"- job_name: a\n  relabel_configs: [{action: explode}]\n", "line 2: relabel_configs"},
		{"- job_name: a\n  relabel_configs: [{regex: '(', source_labels: [a]}]\n", "relabel_configs"},
		{"- job_name: a\n  profiling_config: {pprof_config: {own: {enabled: true}}}\n", "needs a path"},
		{"- job_name: a\n  profiling_config: {pprof_config: {own: {path: x}}}\n", "needs a path that begins with '/'"},
		{"- job_name: a\n  profiling_config: {pprof_config: {'a b': {path: /x}}}\n", "is not a profile name"},
		{"- job_name: a\n  profiling_config: {pprof_config: {memory: {delta: true, cumulative: true}}}\n", ""},
		{"- job_name: a\n  profiling_config: {pprof_config: {process_cpu: {seconds: 16}}}\n",
		 "takes longer than the scrape_interval"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(scrape_config_freep) struct scrape_config *config = NULL;
		struct error err = {0};
		int r = read_config(cases[i].text, &config, &err);
		if ((r < 0) != (cases[i].message[0] != 0) || !strstr(err.message, cases[i].message))
			fail_msg("%s: %d %s", cases[i].text, r, err.message);
	}
}

/* Lists have an end, whoever writes them. */
static void test_limits(void **state)
{
	static const struct {
		const char *begin, *item, *end;
		size_t most;
		const char *message;
	} cases[] = {
		{"", "- job_name: j%zu\n", "", SCRAPE_JOBS_MAX, "has more than 1000 jobs"},
		{"- job_name: a\n  params:\n", "    p%zu: x\n", "", SCRAPE_PARAMS_MAX, "has too many entries"},
		{"- job_name: a\n  static_configs:\n", "    - targets: [t%zu]\n", "", SCRAPE_DISCOVERIES_MAX,
		 "has more than 64 discoveries"},
		{"- job_name: a\n  static_configs:\n    - targets:\n", "      - t%zu\n", "", SCRAPE_TEXTS_MAX,
		 "has too many items"},
		{"- job_name: a\n  profiling_config:\n    pprof_config:\n", "      p%zu: {path: /x}\n", "",
		 SCRAPE_PROFILES_MAX - 9, "exceeds the limit of profiles"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t more = 0; more < 2; more++) {
			_cleanup_(scrape_config_freep) struct scrape_config *config = NULL;
			_cleanup_(buffer_release) struct buffer text = {0};
			struct error err = {0};
			buffer_init(&text, GIB);
			buffer_append_string(&text, cases[i].begin);
			for (size_t k = 0; k < cases[i].most + more; k++) {
				char item[64], number[24], *at = strstr(cases[i].item, "%zu");
				snprintf(number, sizeof(number), "%zu", k);
				snprintf(item, sizeof(item), "%.*s%s%s", (int)(at - cases[i].item), cases[i].item, number,
					 at + 3);
				buffer_append_string(&text, item);
			}
			int r = read_config(buffer_string(&text), &config, &err);
			if ((r < 0) != (more > 0) || (more && !strstr(err.message, cases[i].message)))
				fail_msg("case %zu, %zu more: %d %s", i, more, r, err.message);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_everything), cmocka_unit_test(test_hash),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
