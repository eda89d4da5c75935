/* SPDX-License-Identifier: Apache-2.0 */
/* scrape_configs: what each setting becomes, and that what is not understood is refused with its line. */
#include "server/test_server.h"

#include "server/scrape/scrape_http.h"

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
	struct discovery_config *const *found = job->discoveries;
	assert_int_equal(found[0]->kind, DISCOVERY_STATIC);
	assert_int_equal(found[0]->item_count, 2);
	assert_string_equal(found[0]->labels[0].value, "prod");
	assert_int_equal(found[1]->kind, DISCOVERY_FILE);
	assert_int_equal(found[1]->refresh_ns, 120 * NS_PER_S);
	assert_int_equal(found[2]->kind, DISCOVERY_HTTP);
	assert_string_equal(found[2]->http.credentials, "tok");
	assert_int_equal(found[3]->dns_type, DISCOVERY_AAAA);
	assert_int_equal(found[3]->port, 80);
	assert_int_equal(found[4]->dns_type, DISCOVERY_SRV);
	assert_int_equal(found[5]->role, KUBERNETES_POD);
	assert_true(found[5]->own_namespace);
	assert_string_equal(found[5]->selectors[0].label, "app=x");
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
		{"- job_name: a\n  scrape_interval: 366d\n", "'scrape_interval' must be at most 365d"},
		{"- job_name: a\n  scrape_timeout: 106000d\n", "'scrape_timeout' must be at most 365d"},
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
		{"- job_name: a\n  http_sd_configs: [{refresh_interval: 5s}]\n", "needs a url"},
		{"- job_name: a\n  http_sd_configs: [{url: 'file:///etc/passwd'}]\n",
		 "line 2: 'url' must be a URL that begins with http:// or https://"},
		{"- job_name: a\n  http_sd_configs: [{url: 'http://user:hunter2@sd/'}]\n", "'url' has a user or password"},
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

#define SD(kind, body) "- job_name: a\n  " kind "_sd_configs:\n    - {" body "}\n"
#define AZURE(body)    SD("azure", "subscription_id: s, " body)
#define SIXTY	       "123456789012345678901234567890123456789012345678901234567890"

/* What asks services is refused with its line, and no message has a secret. */
static void test_discovery_refusals(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{SD("consul", ""), ""},
		{SD("consul", "server: 'https://c:8501', services: [a], tags: [b], node_meta: {a: b}"), ""},
		{SD("consul", "server: 'ftp://c'"), "line 3: 'server' must be a URL"},
		{SD("consul", "server: 'u:hunter2@c:8500'"), "'server' must be HOST:PORT"},
		{SD("consul", "server: 'c:8500/x'"), "a path belongs in path_prefix"},
		{SD("consul", "scheme: ftp"), "'scheme' must be http or https"},
		{SD("consul", "token: hunter2, authorization: {credentials: hunter2}"), "'token' cannot be used with"},
		{SD("consul", "username: u, password: hunter2, basic_auth: {username: u}"), "cannot be used with basic_auth"},
		{SD("consul", "password: hunter2"), "'username' needs a password"},
		{SD("consul", "allow_stale: perhaps"), "must be true or false"},
		{SD("consul", "refresh_interval: 1ms"), "must be at least 1s"},
		{SD("azure", "authentication_method: SDK, subscription_id: s, refresh_interval: 106000d"),
		 "'refresh_interval' must be at most 365d"},
		{SD("docker", ""), "'host' is missing"},
		{SD("docker", "host: 'unix:///run/docker.sock', filters: [{name: a, values: [b]}]"), ""},
		{SD("docker", "host: 'tcp://d:2375', port: 8080, match_first_network: false"), ""},
		{SD("docker", "host: 'unix://docker.sock'"), "needs an absolute path behind unix://"},
		{SD("docker", "host: 'npipe:////./pipe/docker'"), "'host' must be a URL"},
		{SD("docker", "host: 'tcp://u:hunter2@d'"), "'host' has a user or password"},
		{SD("docker", "host: 'http://d', filters: [{name: a}]"), "'filters' needs a name and values"},
		{SD("docker", "host: 'http://d', port: 65536"), "'port' must be a whole number from 1 to 65535"},
		{SD("docker", "host: 'http://d', role: tasks"), "'role' is not a setting"},
		{SD("dockerswarm", "host: 'http://d', role: tasks"), ""},
		{SD("dockerswarm", "host: 'http://d'"), "needs a role"},
		{SD("dockerswarm", "host: 'http://d', role: pods"), "'pods' must be services, tasks or nodes"},
		{SD("nomad", ""), ""},
		{SD("nomad", "server: n"), "'server' must be a URL"},
		{SD("ec2", "region: eu-west-1, access_key: a, secret_key: hunter2"), ""},
		{SD("ec2", "secret_key: hunter2"), "'access_key' and secret_key are given together"},
		{SD("ec2", "region: 'evil.example/'"), "'region' must be the name of a region"},
		{SD("ec2", "external_id: x"), "'external_id' needs a role_arn"},
		{SD("ec2", "endpoint: ec2"), "'endpoint' must be a URL"},
		{SD("ec2", "endpoint: 'https://ec2/" SIXTY SIXTY SIXTY SIXTY SIXTY "'"), "'endpoint' is too long"},
		{SD("ec2", "bearer_token: hunter2"), "it takes no other authorization"},
		{SD("ec2", "filters: [{values: [a]}]"), "'filters' needs a name and values"},
		{SD("gce", "project: p, zone: z, filter: f"), ""},
		{SD("gce", "project: p"), "needs a project and a zone"},
		{SD("gce", "project: p, zone: z, bearer_token: hunter2"), "'bearer_token' is not a setting"},
		{AZURE("tenant_id: t, client_id: c, client_secret: hunter2"), ""},
		{AZURE("tenant_id: t, client_id: c"), "and a client_secret with OAuth"},
		{AZURE("authentication_method: ManagedIdentity, environment: AZURECHINACLOUD"), ""},
		{AZURE("authentication_method: Guess"), "'Guess' must be OAuth, ManagedIdentity"},
		{AZURE("authentication_method: SDK, environment: Moon"), "'Moon' is not an environment"},
		{AZURE("authentication_method: SDK, bearer_token: hunter2"), "it takes no other authorization"},
		{SD("azure", "authentication_method: SDK"), "needs a subscription_id"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(scrape_config_freep) struct scrape_config *config = NULL;
		struct error err = {0};
		int r = read_config(cases[i].text, &config, &err);
		if ((r < 0) != (cases[i].message[0] != 0) || !strstr(err.message, cases[i].message) ||
		    strstr(err.message, "hunter2") || (r < 0 && !strstr(err.message, "wick.yaml: line ")))
			fail_msg("%s: %d %s", cases[i].text, r, err.message);
	}
}

#define JOB(body)    "- job_name: a\n  " body "\n"
#define OAUTH2(body) JOB("oauth2: {client_id: c, " body "}")

static void test_request_refusals(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{OAUTH2("client_secret: hunter2, token_url: 'https://t/', scopes: [a], endpoint_params: {b: c}"), ""},
		{OAUTH2("client_secret_file: f, token_url: 'https://t/', proxy_url: 'http://p:1', no_proxy: x"), ""},
		{OAUTH2("client_secret: hunter2"), "line 2: 'oauth2' needs a client_id and a token_url"},
		{OAUTH2("token_url: 'https://t/'"), "needs one of client_secret and client_secret_file"},
		{OAUTH2("client_secret: hunter2, token_url: t"), "'token_url' must be a URL"},
		{OAUTH2("client_secret: hunter2, token_url: 'https://c:hunter2@t/'"), "'token_url' has a user or password"},
		{OAUTH2("client_secret: hunter2, token_url: 'https://t/', scope: a"), "'scope' is not a setting"},
		{OAUTH2("client_secret: hunter2, token_url: 'https://t/', tls_config: {ca_file: /nowhere}"), "tls_config"},
		{OAUTH2("client_secret: hunter2, token_url: 'https://t/'}\n  bearer_token: hunter2\n  params: {"),
		 "is given in more than one way"},
		{JOB("proxy_url: 'http://u:hunter2@p:3128'"), ""},
		{JOB("proxy_url: 'socks5://u:hunter2@p:1080'"), "line 1: bad proxy_url: only http proxies are supported"},
		{JOB("proxy_url: 'http://u:hunter2@p:x'"), "bad proxy_url: not a URL of a host"},
		{JOB("no_proxy: x"), "'no_proxy' needs a proxy_url"},
		{JOB("proxy_from_environment: true"), ""},
		{JOB("proxy_url: 'http://p'\n  proxy_from_environment: true"), "cannot be used with proxy_url"},
		{JOB("sample_limit: 0"), ""},
		{JOB("sample_limit: 4294967295"), ""},
		{JOB("sample_limit: 4294967296"), "'sample_limit' must be a whole number"},
		{JOB("sample_limit: -1"), "'sample_limit' must be a whole number"},
		{JOB("honor_labels: maybe"), "'honor_labels' must be true or false"},
		{JOB("metric_relabel_configs: [{action: explode}]"), "line 2: "},
		{JOB("basic_auth: {username: u, password: [hunter2]}"), "'password' must be a single value"},
		{JOB("bearer_token: {hunter2: hunter2}"), "'bearer_token' must be a single value"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(scrape_config_freep) struct scrape_config *config = NULL;
		struct error err = {0};
		int r = read_config(cases[i].text, &config, &err);
		if ((r < 0) != (cases[i].message[0] != 0) || !strstr(err.message, cases[i].message) ||
		    strstr(err.message, "hunter2"))
			fail_msg("%s: %d %s", cases[i].text, r, err.message);
	}
}

static void test_discovery_settings(void **state)
{
	_cleanup_(scrape_config_freep) struct scrape_config *config = must_read(
		"- job_name: a\n  honor_labels: true\n  sample_limit: 9\n  metric_relabel_configs: [{action: drop, regex: x}]\n"
		"  oauth2: {client_id: c, client_secret: s, token_url: 'https://t/'}\n"
		"  consul_sd_configs: [{server: 'c:1', path_prefix: /p, scheme: https, username: u, password: w}]\n"
		"  docker_sd_configs: [{host: 'unix:///d.sock'}]\n"
		"  dockerswarm_sd_configs: [{host: 'tcp://d:2375', role: nodes, port: 9}]\n"
		"  nomad_sd_configs: [{}]\n  ec2_sd_configs: [{}]\n  gce_sd_configs: [{project: p, zone: z}]\n"
		"  azure_sd_configs: [{subscription_id: s, authentication_method: SDK}]\n");
	const struct scrape_job *job = config->jobs[0];
	struct discovery_config *const *found = job->discoveries;
	assert_true(job->honor_labels);
	assert_int_equal(job->samples_max, 9);
	assert_non_null(job->sample_relabel);
	assert_string_equal(job->http.oauth2->client_secret, "s");
	assert_int_equal(job->discovery_count, 7);
	assert_string_equal(found[0]->url, "https://c:1/p");
	assert_string_equal(found[0]->http.user, "u");
	assert_int_equal(found[0]->refresh_ns, 30 * NS_PER_S);
	assert_true(found[0]->consul.allow_stale);
	assert_string_equal(found[1]->docker.unix_path, "/d.sock");
	assert_int_equal(found[1]->port, 80);
	assert_true(found[1]->docker.first_network);
	assert_string_equal(found[2]->docker.url, "http://d:2375");
	assert_int_equal(found[2]->docker.role, SWARM_NODES);
	assert_int_equal(found[2]->port, 9);
	assert_string_equal(found[3]->url, "http://localhost:4646");
	assert_string_equal(found[3]->nomad.region, "global");
	assert_int_equal(found[4]->refresh_ns, 60 * NS_PER_S);
	assert_true(found[5]->http.proxy_from_environment);
	assert_int_equal(found[6]->refresh_ns, 300 * NS_PER_S);
	assert_int_equal(found[6]->azure.login, AZURE_SDK);
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
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_discovery_refusals),
		cmocka_unit_test(test_request_refusals),
		cmocka_unit_test(test_discovery_settings),
		cmocka_unit_test(test_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
