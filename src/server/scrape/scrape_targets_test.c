/* SPDX-License-Identifier: Apache-2.0 */
/* From what discovery found to targets: files of targets, addresses and paths, labels, limits, and what stays when it changes.
 */
#include "server/test_server.h"

#include "server/scrape/scrape_int.h"

/* ---- target groups ---- */

static int read_groups(const char *text, bool yaml, struct discovered *found, struct error *err)
{
	return yaml ? discovery_read_groups_yaml(bytes_of_string(text), "a.yml", found, err)
		    : discovery_read_groups(bytes_of_string(text), "__meta_url", "http://sd?key=secret", found, err);
}

static const char *label_of(const struct discovered_set *set, const char *name)
{
	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->labels[i].name, name) == 0)
			return set->labels[i].value;
	return "(none)";
}

static void test_groups(void **state)
{
	static const char json[] = "[{\"targets\":[\"a:1\",\"b:2\"],\"labels\":{\"env\":\"prod\"}},{\"targets\":[]},"
				   "{\"targets\":[\"c:3\"],\"labels\":null}]",
			  yaml[] = "- targets: [a:1, b:2]\n  labels: {env: prod}\n- targets: []\n- targets: c:3\n";
	(void)state;
	for (int i = 0; i < 2; i++) {
		_cleanup_(discovered_freep) struct discovered *found = discovered_new();
		struct error err = {0};
		if (read_groups(i ? yaml : json, i, found, &err) < 0)
			fail_msg("%s", err.message);
		assert_int_equal(found->count, 3);
		assert_string_equal(label_of(&found->sets[0], "__address__"), "a:1");
		assert_string_equal(label_of(&found->sets[1], "__address__"), "b:2");
		assert_string_equal(label_of(&found->sets[1], "env"), "prod");
		assert_string_equal(label_of(&found->sets[2], "__address__"), "c:3");
		assert_string_equal(label_of(&found->sets[2], "env"), "(none)");
		assert_string_equal(label_of(&found->sets[0], i ? "__meta_filepath" : "__meta_url"),
				    i ? "a.yml" : "http://sd?key=secret");
	}
	_cleanup_(discovered_freep) struct discovered *none = discovered_new();
	assert_int_equal(read_groups("", true, none, NULL), 0); /* an empty file has none */
	assert_int_equal(read_groups("[]", false, none, NULL), 0);
	assert_int_equal(none->count, 0);
}

static void test_bad_groups(void **state)
{
	static const struct {
		const char *text;
		bool yaml;
	} cases[] = {
		{"", false},
		{"{}", false},
		{"[5]", false},
		{"[{}]", false},
		{"[{\"targets\":\"a\"}]", false},
		{"[{\"targets\":[5]}]", false},
		{"[{\"targets\":[\"a\"],\"labels\":[]}]", false},
		{"[{\"targets\":[\"a\"],\"labels\":{\"x\":5}}]", false},
		{"[{\"targets\":[\"a\"],\"labels\":{\"a b\":\"c\"}}]", false},
		{"[{\"targets\":[\"a\"],\"labels\":{\"\":\"c\"}}]", false},
		{"[{\"targets\":[\"a\"]}", false},
		{"[{\"targets\":[\"a\"]}] x", false},
		{"a: b", true},
		{"- a", true},
		{"- targets: {a: b}", true},
		{"- targets: [[a]]", true},
		{"- targets: [a]\n  labels: {a b: c}", true},
		{"- targets: [a]\n  label: {a: c}", true},
		{"- targets: [a]\n  targets: [b]", true},
		{"- [", true},
		{"\t- a", true},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(discovered_freep) struct discovered *found = discovered_new();
		struct error err = {0};
		if (read_groups(cases[i].text, cases[i].yaml, found, &err) >= 0)
			fail_msg("'%s' is taken", cases[i].text);
		if (!strstr(err.message, cases[i].yaml ? "a.yml" : "http://sd:") || strstr(err.message, "secret"))
			fail_msg("'%s': %s", cases[i].text, err.message);
	}
}

static void test_group_limits(void **state)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	(void)state;
	for (int yaml = 0; yaml < 2; yaml++)
		for (size_t more = 0; more < 2; more++) {
			_cleanup_(discovered_freep) struct discovered *found = discovered_new();
			buffer_init(&text, GIB);
			buffer_append_string(&text, "[{\"targets\":[\"a\"],\"labels\":{");
			for (size_t i = 0; i < LIMIT_LABELS_PER_SERIES + more; i++)
				assert_int_equal(buffer_printf(&text, "%s\"l%zu\": \"x\"", i ? "," : "", i), 0);
			buffer_append_string(&text, "}}]");
			assert_int_equal(read_groups(buffer_string(&text), yaml, found, NULL) < 0, more);
			buffer_release(&text);
		}
	_cleanup_(discovered_freep) struct discovered *many = discovered_new();
	struct relabel_label label = {"__address__", "a"};
	for (size_t i = 0; i < DISCOVERED_SETS_MAX; i++)
		assert_int_equal(discovered_add(many, &label, 1, NULL), 0);
	assert_int_equal(discovered_add(many, &label, 1, NULL), -E2BIG);
	assert_null(discovered_free(NULL));
}

/* ---- targets ---- */

/* A scraper without threads, with one job and one discovery. */
struct world {
	struct scrape scrape;
	struct scrape_config *config;
	struct discovery discovery, *discoveries[1];
};

static struct scrape_config *read_job(const char *text)
{
	struct scrape_config *config = NULL;
	struct error err = {0};
	yaml_parser_t parser;
	yaml_document_t document;
	assert_true(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
	assert_true(yaml_parser_load(&parser, &document));
	if (scrape_config_read(&document, yaml_document_get_root_node(&document), "wick.yaml", &config, &err) < 0)
		fail_msg("%s", err.message);
	yaml_document_delete(&document);
	yaml_parser_delete(&parser);
	return config;
}

/* Only one profile, so that a target is an address. */
#define ONE                                                                                                                    \
	"  profiling_config: {pprof_config: {memory: {enabled: false}, mutex: {enabled: false}, block: {enabled: false}, "     \
	"goroutine: {enabled: false}}}\n"

static void world_open(struct world *world, const char *job)
{
	*world = (struct world){.scrape = {.targets_max = 100}};
	world->config = read_job(job);
	world->discovery.job = world->config->jobs[0];
	world->discoveries[0] = &world->discovery;
	world->scrape.discoveries = world->discoveries;
	world->scrape.discovery_count = 1;
}

static void world_close(struct world *world)
{
	for (size_t i = 0; i < world->scrape.target_count; i++)
		scrape_target_free(&world->scrape, world->scrape.targets[i]);
	mem_free(world->scrape.targets);
	discovered_free(world->discovery.found);
	scrape_config_free(world->config);
}

/* Discovery found these, and the job's targets follow. */
static void find(struct world *world, const char *groups)
{
	world->discovery.found = discovered_free(world->discovery.found);
	world->discovery.found = discovered_new();
	assert_int_equal(read_groups(groups, true, world->discovery.found, NULL), 0);
	scrape_update_job(&world->scrape, world->discovery.job);
}

static void test_target(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n  scrape_interval: 20s\n  params: {a: ['1 2', y], b: [z]}\n"
			   "  profiling_config: {path_prefix: /pre, pprof_config: {memory: {enabled: false}, mutex: {enabled: "
			   "false}, block: {enabled: false}}}\n");
	find(&world, "- targets: ['h:1']\n  labels: {env: prod, __meta_x: y}\n");
	assert_int_equal(world.scrape.target_count, 2);
	const struct scrape_target *cpu = world.scrape.targets[0], *goroutine = world.scrape.targets[1];
	assert_string_equal(cpu->origin, "http://h:1");
	/* The first value of a parameter is a label's; the others follow. */
	assert_string_equal(cpu->path, "/pre/debug/pprof/profile?a=1%202&b=z&a=y&seconds=19");
	assert_string_equal(goroutine->path, "/pre/debug/pprof/goroutine?a=1%202&b=z&a=y");
	assert_string_equal(labels_get(&cpu->labels, "job"), "go");
	assert_string_equal(labels_get(&cpu->labels, "instance"), "h:1");
	assert_string_equal(labels_get(&cpu->labels, "service_name"), "go");
	assert_string_equal(labels_get(&cpu->labels, "env"), "prod");
	assert_int_equal(cpu->labels.count, 4); /* nothing that begins with "__" */
	assert_int_not_equal(cpu->key, goroutine->key);
	world_close(&world);
}

static void test_services(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n" ONE);
	find(&world, "- targets: ['h:1']\n  labels: {__meta_kubernetes_namespace: n, __meta_kubernetes_pod_container_name: c}\n"
		     "- targets: ['h:2']\n  labels: {__meta_kubernetes_namespace: n}\n"
		     "- targets: ['h:3']\n  labels: {service_name: mine, instance: i, __scheme__: https}\n");
	assert_int_equal(world.scrape.target_count, 3);
	assert_string_equal(labels_get(&world.scrape.targets[0]->labels, "service_name"), "n/c");
	assert_string_equal(labels_get(&world.scrape.targets[1]->labels, "service_name"), "go");
	assert_string_equal(labels_get(&world.scrape.targets[2]->labels, "service_name"), "mine");
	assert_string_equal(labels_get(&world.scrape.targets[2]->labels, "instance"), "i");
	assert_string_equal(world.scrape.targets[2]->origin, "https://h:3");
	world_close(&world);
}

/* Addresses and paths come from whoever is discovered: they must not lead to another place. */
static void test_hostile_targets(void **state)
{
	static const char *const groups[] = {
		"- targets: ['h:1/admin']",
		"- targets: ['user@h:1']",
		"- targets: ['h:1?x=y']",
		"- targets: ['h:1#x']",
		"- targets: ['h 1']",
		"- targets: [\"h:1\\r\\nX: y\"]",
		"- targets: ['h\\1']",
		"- targets: ['\xc3\xa4:1']",
		"- targets: ['h:1']\n  labels: {__scheme__: file}",
		"- targets: ['h:1']\n  labels: {__scheme__: 'http://evil/'}",
		"- targets: ['h:1']\n  labels: {__profile_path_prefix__: \"/a b\"}",
		"- targets: ['h:1']\n  labels: {__profile_path_prefix__: \"/a\\nX: y\"}",
		"- targets: ['h:1']\n  labels: {__profile_path_prefix__: '/a#b'}",
	};
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n" ONE);
	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		find(&world, groups[i]);
		if (world.scrape.target_count != 0 || world.discovery.left_out != 1)
			fail_msg("%s is taken as %s", groups[i], world.scrape.targets[0]->origin);
	}
	/* Parameters are encoded. */
	find(&world, "- targets: ['h:1']\n  labels: {__param_x: 'a&b=c#d e', __param_y: ''}");
	assert_int_equal(world.scrape.target_count, 1);
	assert_string_equal(world.scrape.targets[0]->path, "/debug/pprof/profile?x=a%26b%3Dc%23d%20e&seconds=14");
	world_close(&world);
}

static void test_long_targets(void **state)
{
	char text[20000];
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n" ONE);
	snprintf(text, sizeof(text), "- targets: ['%0700d']", 1);
	find(&world, text);
	assert_int_equal(world.discovery.left_out, 1);
	snprintf(text, sizeof(text), "- targets: ['h:1']\n  labels: {__param_x: '%09000d'}", 1);
	find(&world, text);
	assert_int_equal(world.discovery.left_out, 1);
	assert_int_equal(world.scrape.target_count, 0);
	world_close(&world);
}

static void test_rules(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n  relabel_configs:\n    - {source_labels: [env], regex: test, action: drop}\n"
			   "    - {source_labels: [port], target_label: __address__, regex: (.+), replacement: 'h:$1'}\n"
			   "    - {regex: port, action: labeldrop}\n" ONE);
	find(&world, "- targets: ['a:1']\n  labels: {env: test}\n- targets: ['a:1']\n  labels: {port: '9'}\n- targets: ['']\n");
	assert_int_equal(world.scrape.target_count, 1);
	assert_int_equal(world.discovery.dropped, 2); /* by the rule, and without an address */
	assert_string_equal(world.scrape.targets[0]->origin, "http://h:9");
	assert_string_equal(labels_get(&world.scrape.targets[0]->labels, "instance"), "h:9");
	assert_null(labels_get(&world.scrape.targets[0]->labels, "port"));
	world_close(&world);
}

/* What was there before stays as it is; what is gone is stopped, and freed unless a worker has it. */
static void test_changes(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n" ONE);
	find(&world, "- targets: ['h:1', 'h:2', 'h:3']\n");
	assert_int_equal(world.scrape.target_count, 3);
	struct scrape_target *first = world.scrape.targets[0], *second = world.scrape.targets[1];
	int64_t due_ns = first->due_ns;
	first->health = SCRAPE_UP;
	second->running = true;
	find(&world, "- targets: ['h:4', 'h:1', 'h:1']\n"); /* twice is once */
	assert_int_equal(world.scrape.target_count, 2);
	assert_ptr_equal(world.scrape.targets[0], first);
	assert_int_equal(first->health, SCRAPE_UP);
	assert_int_equal(first->due_ns, due_ns);
	assert_string_equal(world.scrape.targets[1]->origin, "http://h:4");
	assert_true(second->gone && second->cancel);
	assert_false(first->gone);
	scrape_target_free(&world.scrape, second);		      /* as its worker does */
	find(&world, "- targets: ['h:1']\n  labels: {new: label}\n"); /* another series, so another target */
	assert_int_equal(world.scrape.target_count, 1);
	assert_int_equal(world.scrape.targets[0]->health, SCRAPE_UNKNOWN);
	world_close(&world);
}

/* A new job of the same text: targets that run take it when they are done. */
static void test_reload(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n" ONE);
	find(&world, "- targets: ['h:1', 'h:2']\n");
	struct scrape_target *idle = world.scrape.targets[0], *busy = world.scrape.targets[1];
	busy->running = true;
	struct scrape_config *old = world.config;
	struct scrape_job *before = old->jobs[0];
	world.config = read_job("- job_name: go\n  body_size_limit: 1MiB\n" ONE);
	world.discovery.job = world.config->jobs[0];
	find(&world, "- targets: ['h:1', 'h:2']\n");
	assert_int_equal(world.scrape.target_count, 2);
	assert_ptr_equal(idle->job, world.config->jobs[0]);
	assert_ptr_equal(busy->job, before);
	assert_ptr_equal(busy->next_job, world.config->jobs[0]);
	scrape_config_free(old);
	assert_string_equal(busy->job->name, "go"); /* still there */
	world_close(&world);
}

static void test_target_limits(void **state)
{
	struct world world;
	(void)state;
	world_open(&world, "- job_name: go\n  target_limit: 2\n" ONE);
	find(&world, "- targets: ['h:1', 'h:2', 'h:3', 'h:4']\n");
	assert_int_equal(world.scrape.target_count, 2);
	assert_int_equal(world.discovery.left_out, 2);
	/* Those that were there keep their places. */
	find(&world, "- targets: ['h:2', 'h:1', 'h:5']\n");
	assert_int_equal(world.scrape.target_count, 2);
	assert_string_equal(world.scrape.targets[0]->origin, "http://h:1");
	world_close(&world);
	world_open(&world, "- job_name: go\n" ONE);
	world.scrape.targets_max = 3;
	find(&world, "- targets: ['h:1', 'h:2', 'h:3', 'h:4']\n");
	assert_int_equal(world.scrape.target_count, 3);
	assert_int_equal(world.discovery.left_out, 1);
	world_close(&world);
}

/* Spread over the interval, the same after a restart, and never in the past. */
static void test_schedule(void **state)
{
	struct scrape_job job = {.interval_ns = 15 * NS_PER_S};
	int64_t least = INT64_MAX, most = 0;
	(void)state;
	for (uint64_t key = 1; key < 200; key++) {
		struct scrape_target target = {.job = &job, .key = key}, same = target;
		int64_t now_ns = 1000 * NS_PER_S + 7;
		scrape_target_schedule(&target, now_ns);
		assert_true(target.due_ns >= now_ns && target.due_ns < now_ns + job.interval_ns);
		scrape_target_schedule(&same, now_ns + 5 * job.interval_ns);
		assert_int_equal(same.due_ns - target.due_ns, 5 * job.interval_ns);
		int64_t phase_ns = target.due_ns % job.interval_ns;
		least = phase_ns < least ? phase_ns : least;
		most = phase_ns > most ? phase_ns : most;
	}
	assert_true(least < NS_PER_S && most > 14 * NS_PER_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),	      cmocka_unit_test(test_bad_groups),
		cmocka_unit_test(test_group_limits),  cmocka_unit_test(test_target),
		cmocka_unit_test(test_services),      cmocka_unit_test(test_hostile_targets),
		cmocka_unit_test(test_long_targets),  cmocka_unit_test(test_rules),
		cmocka_unit_test(test_changes),	      cmocka_unit_test(test_reload),
		cmocka_unit_test(test_target_limits), cmocka_unit_test(test_schedule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
