/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pipelines over a real store, a part of it in blocks and a part in the head, against an oracle that knows nothing of tries,
 * plans or profiles: the samples are kept as arrays of names here, and every answer is computed anew from them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/time.h"
#include "query/pipeline.h"
#include "query/test_fan_store.h"

#define START_NS (1700000000ll * NS_PER_S)
#define RECORDS	 240
#define DEPTH	 9
#define SPAN_S	 60 /* samples lie in the minutes behind START_NS, those of the base a day earlier */

/* Functions with the binary that they are in; the names are what the filters of the tests look for. */
static const struct {
	const char *name, *binary;
} functions[] = {
	{"main", "/bin/app"},	    {"run", "/bin/app"},	{"ns::walk", "/bin/app"},	   {"ns::visit", "/bin/app"},
	{"malloc", "/lib/libc.so"}, {"memcpy", "/lib/libc.so"}, {"sys_read", "[kernel.kallsyms]"},
};
#define FUNCTIONS (sizeof(functions) / sizeof(*functions))
static const char *const services[] = {"bank", "mail", "shop"};
static const char *const hosts[] = {"h1", "h2"};

struct record {
	int64_t time_ns, value;
	int service, host;
	int frames[DEPTH]; /* root first */
	int depth;
};
struct fixture {
	char directory[64];
	struct store *store;
	struct record records[2 * RECORDS]; /* the second half is a day earlier */
};

/* ---- the store ---- */

static uint32_t text_of(struct profile *profile, const char *text)
{
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

/* As if the library were written in Python, and the program its interpreter. */
static enum profile_frame_type type_of_binary(const char *binary)
{
	return binary[0] == '['			 ? PROFILE_FRAME_KERNEL
	       : strcmp(binary, "/bin/app") == 0 ? PROFILE_FRAME_NATIVE
						 : PROFILE_FRAME_INTERPRETED;
}

/* Neighbours of one binary are one location with inlined functions if the stack's value is odd. */
static uint32_t stack_of(struct profile *profile, const struct record *record)
{
	uint32_t stack = 0;
	for (int i = 0; i < record->depth;) {
		int end = i + 1;
		while (record->value % 2 && end < record->depth && end - i < 3 &&
		       strcmp(functions[record->frames[i]].binary, functions[record->frames[end]].binary) == 0)
			end++;
		struct profile_line lines[3] = {{0}};
		struct profile_mapping mapping = {.file_name = text_of(profile, functions[record->frames[i]].binary)};
		struct profile_location location = {.frame_type = type_of_binary(functions[record->frames[i]].binary)};
		for (int k = 0; k < end - i; k++) {
			const char *name = functions[record->frames[end - 1 - k]].name;
			struct profile_function function = {.name = text_of(profile, name),
							    .file_name = text_of(profile, "/src/x.c")};
			assert_int_equal(profile_add_function(profile, &function, &lines[k].function, NULL), 0);
			lines[k].line = 10 + record->frames[end - 1 - k];
		}
		uint32_t id;
		assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
		assert_int_equal(profile_add_location(profile, &location, lines, (size_t)(end - i), &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, stack, id, &stack, NULL), 0);
		i = end;
	}
	return stack;
}

static void append(struct store *store, const struct record *record)
{
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(labels_release) struct labels labels = {0};
	assert_int_equal(profile_new(&profile, &err), 0);
	assert_int_equal(profile_add_sample_type(profile, text_of(profile, "cpu"), text_of(profile, "nanoseconds"), &err), 0);
	profile->time_ns = record->time_ns;
	struct profile_sample sample = {.stack = stack_of(profile, record)};
	assert_int_equal(profile_add_sample(profile, &sample, &record->value, &err), 0);
	assert_int_equal(labels_set(&labels, "service_name", services[record->service], &err), 0);
	assert_int_equal(labels_set(&labels, "host_name", hosts[record->host], &err), 0);
	struct store_append_options options = {.name = "process_cpu", .labels = &labels, .received_ns = record->time_ns};
	struct store_append_result result;
	if (store_append(store, profile, &options, &result, &err) < 0)
		fail_msg("append: %s", err.message);
}

static void append_processes(struct store *store, int64_t time_ns, const char *service, const char *pid, int64_t cpu,
			     int64_t rss, int64_t threads)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(labels_release) struct labels labels = {0};
	int64_t values[PROCESS_STATS_COLUMNS] = {
		[PROCESS_STATS_CPU] = cpu, [PROCESS_STATS_RSS] = rss, [PROCESS_STATS_THREADS] = threads};
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (unsigned i = 0; i < PROCESS_STATS_COLUMNS; i++) {
		uint32_t type = text_of(profile, process_stats_columns[i].sample_type);
		assert_int_equal(profile_add_sample_type(profile, type, text_of(profile, process_stats_columns[i].unit), NULL),
				 0);
	}
	struct profile_sample sample = {.time_ns = time_ns};
	assert_int_equal(profile_add_sample(profile, &sample, values, NULL), 0);
	assert_int_equal(labels_set(&labels, "service_name", service, NULL), 0);
	assert_int_equal(labels_set(&labels, "process_pid", pid, NULL), 0);
	assert_int_equal(labels_set(&labels, "host_name", "h1", NULL), 0);
	struct store_append_options options = {.name = PROCESS_STATS_NAME, .labels = &labels, .received_ns = time_ns};
	struct error err = {0};
	if (store_append(store, profile, &options, NULL, &err) < 0)
		fail_msg("append: %s", err.message);
}

static uint32_t random_state = 12345;
static int pick(int below)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (int)((random_state >> 8) % (uint32_t)below);
}

static const struct store_ops *ops; /* of the store that the tests run on */

static int setup(void **state)
{
	static struct fixture fixture;
	struct error err = {0};
	random_state = 12345;
	snprintf(fixture.directory, sizeof(fixture.directory), "/tmp/wick-run-test-XXXXXX");
	assert_non_null(mkdtemp(fixture.directory));
	struct store_options options = {.directory = fixture.directory, .retention_age_ns = -1, .manual = true, .ops = ops};
	if (store_open(&options, &fixture.store, &err) < 0)
		fail_msg("store_open: %s", err.message);
	for (int i = 0; i < 2 * RECORDS; i++) {
		struct record *record = &fixture.records[i];
		*record = (struct record){.time_ns = START_NS + pick(SPAN_S * 10) * (NS_PER_S / 10),
					  .value = 1 + pick(1000),
					  .service = pick(3),
					  .host = pick(2),
					  .depth = 1 + pick(DEPTH)};
		if (i >= RECORDS)
			record->time_ns -= 86400 * NS_PER_S;
		for (int k = 0; k < record->depth; k++)
			record->frames[k] = k == 0 && pick(4) ? 0 : pick(i >= RECORDS ? FUNCTIONS - 1 : FUNCTIONS);
		append(fixture.store, record);
		if (i == RECORDS / 2 || i == RECORDS)
			assert_int_equal(store_cut(fixture.store, &err), 0);
	}
	/* Windows of ten seconds: two processes of "shop", one of "bank"; the last row is of a process that has ended. */
	for (int i = 1; i <= 6; i++) {
		append_processes(fixture.store, START_NS + i * 10 * NS_PER_S, "shop", "1", 1000 * i, 100, 2);
		append_processes(fixture.store, START_NS + i * 10 * NS_PER_S, "shop", "2", 500, i <= 3 ? 40 : 60, 1);
	}
	append_processes(fixture.store, START_NS + 20 * NS_PER_S, "bank", "3", 70, 10, 4);
	append_processes(fixture.store, START_NS + 30 * NS_PER_S, "bank", "3", 7, 0, 0);
	*state = &fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;
	store_close(fixture->store);
	return io_remove_tree(fixture->directory, NULL);
}

static const struct query_options the_range = {.query = {.from_ns = START_NS, .to_ns = START_NS + SPAN_S * NS_PER_S},
					       .now_ns = START_NS + SPAN_S * NS_PER_S};

static void run(struct fixture *fixture, const char *text, struct query_result *ret)
{
	struct error err = {0};
	struct query_stats stats = {0};
	if (query_run(fixture->store, NULL, text, &the_range, ret, &stats, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	assert_false(stats.read.partial);
}

/* ---- flame graphs, as folded text ---- */

typedef bool (*keep_function)(const struct record *record);
/* Changes names (root first) in place; -1 = the stack is left out. */
typedef int (*change_function)(const char **names, int depth);

static bool keep_all(const struct record *record)
{
	return true;
}
static bool has(const struct record *record, const char *part)
{
	for (int i = 0; i < record->depth; i++)
		if (strstr(functions[record->frames[i]].name, part))
			return true;
	return false;
}
static bool keep_walk(const struct record *record)
{
	return has(record, "walk");
}
static bool keep_no_malloc(const struct record *record)
{
	return !has(record, "malloc");
}
static bool keep_leaf_libc(const struct record *record)
{
	return strcmp(functions[record->frames[record->depth - 1]].binary, "/lib/libc.so") == 0;
}
static bool keep_root_main(const struct record *record)
{
	return record->frames[0] == 0;
}
static bool keep_user_leaf(const struct record *record)
{
	return functions[record->frames[record->depth - 1]].binary[0] != '[';
}
static bool keep_leaf_not_libc(const struct record *record)
{
	return !keep_leaf_libc(record);
}
static bool keep_line_12(const struct record *record)
{
	for (int i = 0; i < record->depth; i++)
		if (record->frames[i] == 2)
			return true;
	return false;
}
static bool keep_shop_h1(const struct record *record)
{
	return record->service == 2 && record->host == 0;
}

static int change_nothing(const char **names, int depth)
{
	return depth;
}
static int hide_walk(const char **names, int depth)
{
	int kept = 0;
	for (int i = 0; i < depth; i++)
		if (!strstr(names[i], "walk"))
			names[kept++] = names[i];
	return kept;
}
static enum profile_frame_type type_of_name(const char *name)
{
	size_t i = 0;
	while (strcmp(functions[i].name, name) != 0)
		i++;
	return type_of_binary(functions[i].binary);
}
static int hide_interpreter(const char **names, int depth)
{
	int kept = 0;
	bool interprets = false;
	for (int i = 1; i < depth; i++)
		interprets |= type_of_name(names[i - 1]) == PROFILE_FRAME_INTERPRETED &&
			      type_of_name(names[i]) == PROFILE_FRAME_NATIVE;
	for (int i = 0; i < depth; i++)
		if (!interprets || type_of_name(names[i]) != PROFILE_FRAME_NATIVE)
			names[kept++] = names[i];
	return kept;
}
static int root_at_walk(const char **names, int depth)
{
	for (int i = 0; i < depth; i++) {
		if (strcmp(names[i], "ns::walk") == 0) {
			memmove(names, names + i, (size_t)(depth - i) * sizeof(*names));
			return depth - i;
		}
	}
	return -1;
}
static int callers_of_malloc(const char **names, int depth)
{
	for (int i = 0; i < depth; i++) {
		if (strcmp(names[i], "malloc") != 0)
			continue;
		for (int a = 0, b = i; a < b; a++, b--) {
			const char *name = names[a];
			names[a] = names[b];
			names[b] = name;
		}
		return i + 1;
	}
	return -1;
}
static int collapse_recursion(const char **names, int depth)
{
	int kept = 0;
	for (int i = 0; i < depth; i++)
		if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
			names[kept++] = names[i];
	return kept;
}
static int collapse_ns(const char **names, int depth)
{
	int kept = 0;
	for (int i = 0; i < depth; i++)
		if (i == 0 || strncmp(names[i], "ns::", 4) != 0 || strncmp(names[i - 1], "ns::", 4) != 0)
			names[kept++] = names[i];
	return kept;
}
static const char *binary_of(const char *name)
{
	for (size_t i = 0; i < FUNCTIONS; i++) {
		const char *slash = strrchr(functions[i].binary, '/');
		if (strcmp(functions[i].name, name) == 0)
			return slash ? slash + 1 : functions[i].binary;
	}
	return "?";
}
static int collapse_binary(const char **names, int depth)
{
	for (int i = 0; i < depth; i++)
		names[i] = binary_of(names[i]);
	return collapse_recursion(names, depth);
}
/* All are of one, and stay so for what comes behind it. */
static int collapse_file(const char **names, int depth)
{
	names[0] = "/src/x.c";
	return depth ? 1 : 0;
}
static int collapse_package(const char **names, int depth)
{
	for (int i = 0; i < depth; i++)
		names[i] = strncmp(names[i], "ns::", 4) == 0 ? "ns" : binary_of(names[i]);
	return collapse_recursion(names, depth);
}
static int hide_interpreter_collapse(const char **names, int depth)
{
	return collapse_recursion(names, hide_interpreter(names, depth));
}
static int hide_walk_collapse(const char **names, int depth)
{
	return collapse_recursion(names, hide_walk(names, depth));
}
/* "frames" behind a transformation sees what that left. */
static int root_walk_with_malloc(const char **names, int depth)
{
	depth = root_at_walk(names, depth);
	for (int i = 0; i < depth; i++)
		if (strcmp(names[i], "malloc") == 0)
			return depth;
	return -1;
}
static int hide_malloc_leaf_memcpy_dropped(const char **names, int depth)
{
	int kept = 0;
	for (int i = 0; i < depth; i++)
		if (strcmp(names[i], "malloc") != 0)
			names[kept++] = names[i];
	return kept && strcmp(names[kept - 1], "memcpy") == 0 ? -1 : kept;
}

struct line {
	char text[256];
	int64_t value;
};
static int compare_lines(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

/* Equal lines summed, sorted; stacks of which nothing is left do not count. */
static void fold_lines(struct line *lines, size_t count, struct buffer *out)
{
	qsort(lines, count, sizeof(*lines), compare_lines);
	buffer_init(out, SIZE_MAX);
	for (size_t i = 0; i < count; i++) {
		if (i + 1 < count && strcmp(lines[i].text, lines[i + 1].text) == 0)
			lines[i + 1].value += lines[i].value;
		else if (*lines[i].text)
			buffer_printf(out, "%s %lld\n", lines[i].text, (long long)lines[i].value);
	}
	buffer_string(out);
}

static void make_line(const char *const *names, int depth, const char *root, int64_t value, struct line *ret)
{
	size_t len = root ? (size_t)snprintf(ret->text, sizeof(ret->text), "service_name=%s%s", root, depth ? ";" : "") : 0;
	ret->text[len] = '\0';
	for (int i = 0; i < depth; i++)
		len += (size_t)snprintf(ret->text + len, sizeof(ret->text) - len, "%s%s", i ? ";" : "", names[i]);
	ret->value = value;
}

static struct line lines[RECORDS];

/* The folded text that the records give. */
static void expect_folded(const struct fixture *fixture, keep_function keep, change_function change, bool by_service,
			  struct buffer *out)
{
	size_t count = 0;
	for (int i = 0; i < RECORDS; i++) {
		const struct record *record = &fixture->records[i];
		const char *names[DEPTH];
		for (int k = 0; k < record->depth; k++)
			names[k] = functions[record->frames[k]].name;
		int depth = keep(record) ? change(names, record->depth) : -1;
		if (depth >= 0)
			make_line(names, depth, by_service ? services[record->service] : NULL, record->value, &lines[count++]);
	}
	fold_lines(lines, count, out);
}

/* The folded text of a profile: every function a frame, inlined or not. */
static void fold_profile(const struct profile *profile, struct buffer *out)
{
	assert_true(profile->sample_count <= RECORDS);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const char *names[2 * DEPTH];
		int depth = 0;
		for (uint32_t stack = profile->samples[i].stack; stack; stack = profile->stacks[stack].parent) {
			const struct profile_location *location = &profile->locations[profile->stacks[stack].location];
			for (uint32_t k = 0; k < location->line_count; k++) {
				uint32_t function = profile->lines[location->line_first + k].function;
				names[depth++] = profile_string(profile, profile->functions[function].name);
			}
		}
		for (int a = 0, b = depth - 1; a < b; a++, b--) {
			const char *name = names[a];
			names[a] = names[b];
			names[b] = name;
		}
		make_line(names, depth, NULL, profile->values[i], &lines[i]);
	}
	fold_lines(lines, profile->sample_count, out);
}

static void test_flame_graphs(void **state)
{
	struct fixture *fixture = *state;
	static const struct {
		const char *text;
		keep_function keep;
		change_function change;
		bool by_service;
	} cases[] = {
		{"process_cpu", keep_all, change_nothing, false},
		{"process_cpu{service_name=\"shop\", host_name=~\"h1\"}", keep_shop_h1, change_nothing, false},
		{"process_cpu | where service_name=\"shop\" | where host_name!=\"h2\"", keep_shop_h1, change_nothing, false},
		{"shop.cpu{host.name=\"h1\"}", keep_shop_h1, change_nothing, false},
		{"{} | frames \"walk\"", keep_walk, change_nothing, false},
		{"{} | frames = \"ns::walk\"", keep_walk, change_nothing, false},
		{"{} | drop frames \"^malloc$\"", keep_no_malloc, change_nothing, false},
		{"{} | frames != \"malloc\"", keep_no_malloc, change_nothing, false},
		{"{} | frames !~ \"mallo\"", keep_no_malloc, change_nothing, false},
		{"{} | drop frames !~ \"walk\"", keep_walk, change_nothing, false},
		{"{} | frames leaf binary = \"libc.so\"", keep_leaf_libc, change_nothing, false},
		{"{} | frames leaf binary = \"/lib/libc.so\"", keep_leaf_libc, change_nothing, false},
		{"{} | frames root = \"main\"", keep_root_main, change_nothing, false},
		{"{} | frames leaf user", keep_user_leaf, change_nothing, false},
		{"{} | drop frames leaf kernel", keep_user_leaf, change_nothing, false},
		{"{} | frames line 12 and file = \"x.c\"", keep_line_12, change_nothing, false},
		{"{} | frames function =~ \"walk\" and user", keep_walk, change_nothing, false},
		{"{} | hide \"walk\"", keep_all, hide_walk, false},
		{"{} | hide interpreter", keep_all, change_nothing, false}, /* samples end in interpreted functions */
		{"{} | drop frames leaf binary = \"libc.so\" | hide interpreter", keep_leaf_not_libc, hide_interpreter, false},
		{"{} | drop frames leaf binary = \"libc.so\" | hide interpreter | collapse recursion", keep_leaf_not_libc,
		 hide_interpreter_collapse, false},
		{"{} | drop frames leaf binary = \"libc.so\" | hide interpreter | group by service_name", keep_leaf_not_libc,
		 hide_interpreter, true},
		{"{} | focus \"walk\"", keep_all, root_at_walk, false},
		{"{} | callees of \"ns::walk\"", keep_all, root_at_walk, false},
		{"{} | callers of \"malloc\"", keep_all, callers_of_malloc, false},
		{"{} | collapse recursion", keep_all, collapse_recursion, false},
		{"{} | collapse \"^ns::\"", keep_all, collapse_ns, false},
		{"{} | collapse binary", keep_all, collapse_binary, false},
		{"{} | collapse file | frames file = \"x.c\"", keep_all, collapse_file, false},
		{"{} | collapse package", keep_all, collapse_package, false},
		{"{} | hide \"walk\" | collapse recursion", keep_all, hide_walk_collapse, false},
		{"{} | drop frames \"malloc\" | hide \"walk\"", keep_no_malloc, hide_walk, false},
		{"{} | focus = \"ns::walk\" | frames = \"malloc\"", keep_all, root_walk_with_malloc, false},
		{"{} | hide = \"malloc\" | drop frames leaf = \"memcpy\"", keep_all, hide_malloc_leaf_memcpy_dropped, false},
		{"{} | group by service_name", keep_all, change_nothing, true},
		{"{} | collapse binary | group by service_name", keep_all, collapse_binary, true},
		{"{} | group by service_name | callers of \"malloc\"", keep_all, callers_of_malloc, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(query_result_release) struct query_result result = {0};
		_cleanup_(buffer_release) struct buffer expected = {0};
		_cleanup_(buffer_release) struct buffer got = {0};
		run(fixture, cases[i].text, &result);
		assert_int_equal(result.kind, QUERY_PROFILE);
		assert_string_equal(result.type.name, "process_cpu");
		expect_folded(fixture, cases[i].keep, cases[i].change, cases[i].by_service, &expected);
		assert_true(expected.len > 0);
		fold_profile(result.profile, &got);
		if (strcmp(buffer_string(&got), buffer_string(&expected)) != 0)
			fail_msg("%s gave\n%s\ninstead of\n%s", cases[i].text, buffer_string(&got), buffer_string(&expected));
	}
}

/* ---- frames that have an address only ---- */

int query_run_test_target(int x);
__attribute__((noinline)) int query_run_test_target(int x)
{
	return x * 3 + 1;
}

/* The mapping of this program that the function lies in. */
static void find_mapping(struct profile_mapping *mapping, uint64_t address)
{
	_cleanup_(buffer_release) struct buffer maps = {0};
	assert_int_equal(io_read_file("/proc/self/maps", 1 << 20, &maps, NULL), 0);
	for (const char *line = buffer_string(&maps); line && *line; line = strchr(line, '\n') + 1) {
		unsigned long long start, limit, offset;
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &limit, &offset) == 3 && start <= address && address < limit) {
			*mapping = (struct profile_mapping){.start = start, .limit = limit, .offset = offset};
			return;
		}
	}
	fail_msg("no mapping has %llx", (unsigned long long)address);
}

static void append_address(struct store *store, const char *build_id, const char *path, uint64_t address, int64_t value)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct profile_mapping mapping;
	uint32_t id, stack;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, text_of(profile, "cpu"), text_of(profile, "nanoseconds"), NULL), 0);
	profile->time_ns = START_NS;
	find_mapping(&mapping, (uint64_t)(uintptr_t)query_run_test_target);
	mapping.file_name = text_of(profile, path);
	mapping.build_id = text_of(profile, build_id);
	struct profile_location location = {.address = address};
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &value, NULL), 0);
	struct store_append_options options = {.name = "process_cpu", .received_ns = START_NS};
	assert_int_equal(store_append(store, profile, &options, NULL, NULL), 0);
}

/* The store knows an address; conditions and flame graphs see the same name. */
static void test_names_of_addresses(void **state)
{
	(void)state;
	char directory[] = "/tmp/wick-run-test-XXXXXX", path[512] = "", build_id[] = "";
	assert_non_null(mkdtemp(directory));
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	struct store *store = NULL;
	struct store_options store_options = {.directory = directory, .retention_age_ns = -1, .manual = true};
	assert_int_equal(store_open(&store_options, &store, NULL), 0);
	_cleanup_(symbolizer_freep) struct symbolizer *symbolizer = NULL;
	assert_int_equal(symbolizer_new(&(struct symbolizer_options){0}, &symbolizer, NULL), 0);
	uint64_t address = (uint64_t)(uintptr_t)query_run_test_target;
	append_address(store, build_id, path, address + 1, 100);
	append_address(store, build_id, path, address + 2, 20);
	assert_int_equal(store_cut(store, NULL), 0);
	append_address(store, build_id, path, address + 1, 3);
	append_address(store, "0123456789abcdef", "/nowhere/thing", address, 5000);
	static const struct {
		const char *text;
		int64_t value;
	} cases[] = {{"{} | frames = \"query_run_test_target\" | sum", 123},
		     {"{} | frames leaf =~ \"run_test_t.rget\" and binary =~ \"run_test\" | bin 1s | sum", 123},
		     {"{} | drop frames =~ \"run_test_target\" | sum", 5000},
		     {"{} | frames =~ \"^thing\\+0x\" | sum", 5000},
		     {"{} | collapse recursion | frames = \"query_run_test_target\" | sum", 123}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(query_result_release) struct query_result result = {0};
		struct error err = {0};
		if (query_run(store, symbolizer, cases[i].text, &the_range, &result, NULL, &err) < 0)
			fail_msg("%s: %s", cases[i].text, err.message);
		if (result.table.row_count != 1 || result.table.cells[0].integer != cases[i].value)
			fail_msg("%s", cases[i].text);
	}
	store_close(store);
	assert_int_equal(io_remove_tree(directory, NULL), 0);
}

/* ---- tables ---- */

static const struct query_cell *cell(const struct query_table *table, size_t row, const char *column)
{
	for (size_t i = 0; i < table->column_count; i++)
		if (strcmp(table->columns[i].name, column) == 0)
			return &table->cells[row * table->column_count + i];
	fail_msg("no column %s", column);
	return NULL;
}

struct sums {
	int64_t self, total;
};
/* Of one function over the records of one half. */
static struct sums sums_of(const struct fixture *fixture, bool before, int service, const char *name, bool binary)
{
	struct sums sums = {0};
	for (int i = 0; i < RECORDS; i++) {
		const struct record *record = &fixture->records[i + (before ? RECORDS : 0)];
		bool there = false, leaf = false;
		if (service >= 0 && record->service != service)
			continue;
		for (int k = 0; k < record->depth; k++) {
			const char *own = functions[record->frames[k]].name;
			leaf = strcmp(binary ? binary_of(own) : own, name) == 0;
			there |= leaf;
		}
		sums.self += leaf ? record->value : 0;
		sums.total += there ? record->value : 0;
	}
	return sums;
}

static int64_t total_of(const struct fixture *fixture, bool before, int service, int host)
{
	int64_t total = 0;
	for (int i = 0; i < RECORDS; i++) {
		const struct record *record = &fixture->records[i + (before ? RECORDS : 0)];
		if ((service < 0 || record->service == service) && (host < 0 || record->host == host))
			total += record->value;
	}
	return total;
}

static void test_top(void **state)
{
	struct fixture *fixture = *state;
	static const char *const texts[] = {"{} | top 100", "{} | top 100 total by function", "{} | top 100 by binary"};
	int64_t total = total_of(fixture, false, -1, -1);
	for (size_t t = 0; t < 3; t++) {
		_cleanup_(query_result_release) struct query_result result = {0};
		run(fixture, texts[t], &result);
		assert_int_equal(result.kind, QUERY_TABLE);
		assert_int_equal(result.table.row_count, t == 2 ? 3 : FUNCTIONS);
		int64_t last = INT64_MAX;
		for (size_t i = 0; i < result.table.row_count; i++) {
			const char *name = cell(&result.table, i, t == 2 ? "binary" : "function")->text;
			struct sums sums = sums_of(fixture, false, -1, name, t == 2);
			assert_int_equal(cell(&result.table, i, "self")->integer, sums.self);
			assert_int_equal(cell(&result.table, i, "total")->integer, sums.total);
			double share = cell(&result.table, i, "total_percent")->number;
			assert_true(fabs(share - 100.0 * (double)sums.total / (double)total) < 1e-9);
			int64_t order = t == 1 ? sums.total : sums.self;
			assert_true(order <= last);
			last = order;
		}
	}
}

static void test_top_of_groups(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result result = {0};
	run(fixture, "{} | group by service_name | top 2", &result);
	assert_int_equal(result.table.row_count, 6);
	for (size_t i = 0; i < 6; i++) {
		const char *service = cell(&result.table, i, "service_name")->text;
		int number = service[0] == 'b' ? 0 : service[0] == 'm' ? 1 : 2;
		struct sums sums = sums_of(fixture, false, number, cell(&result.table, i, "function")->text, false);
		assert_int_equal(cell(&result.table, i, "self")->integer, sums.self);
		assert_int_equal(cell(&result.table, i, "total")->integer, sums.total);
		if (i % 2)
			assert_string_equal(service, cell(&result.table, i - 1, "service_name")->text);
	}
}

static void test_top_label_and_sum(void **state)
{
	struct fixture *fixture = *state;
	static const char *const texts[] = {"{} | top 10 by label service_name", "{} | group by service_name | sum",
					    "{} | hide \"walk\" | group by service_name | sum",
					    "{} | bin 10s | group by service_name | sum"};
	for (size_t t = 0; t < 4; t++) {
		_cleanup_(query_result_release) struct query_result result = {0};
		run(fixture, texts[t], &result);
		assert_int_equal(result.table.row_count, 3);
		for (size_t i = 0; i < 3; i++) {
			const char *service = cell(&result.table, i, "service_name")->text;
			int number = service[0] == 'b' ? 0 : service[0] == 'm' ? 1 : 2;
			assert_int_equal(cell(&result.table, i, "value")->integer, total_of(fixture, false, number, -1));
		}
	}
	_cleanup_(query_result_release) struct query_result others = {0};
	run(fixture, "{} | top 1 by label service_name others", &others);
	assert_int_equal(others.table.row_count, 2);
	assert_string_equal(cell(&others.table, 1, "service_name")->text, "(others)");
	assert_int_equal(cell(&others.table, 0, "value")->integer + cell(&others.table, 1, "value")->integer,
			 total_of(fixture, false, -1, -1));
	_cleanup_(query_result_release) struct query_result rate = {0};
	run(fixture, "{} | rate | sum", &rate);
	assert_string_equal(rate.table.columns[0].unit, "cores");
	double cores = (double)total_of(fixture, false, -1, -1) / (double)(SPAN_S * NS_PER_S);
	assert_true(fabs(rate.table.cells[0].number - cores) < 1e-12);
}

static void test_tail(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result sorted = {0};
	run(fixture, "{} | top 100 | sort by function | limit 2", &sorted);
	assert_int_equal(sorted.table.row_count, 2);
	assert_int_equal(sorted.table.rows_before_limit, FUNCTIONS);
	assert_string_equal(cell(&sorted.table, 0, "function")->text, "main");
	assert_string_equal(cell(&sorted.table, 1, "function")->text, "malloc");
	_cleanup_(query_result_release) struct query_result count = {0};
	run(fixture, "{} | top 100 | count", &count);
	assert_int_equal(count.table.cells[0].integer, FUNCTIONS);
	_cleanup_(query_result_release) struct query_result groups = {0};
	run(fixture, "{} | bin 1m | group by service_name, host_name | count", &groups);
	assert_int_equal(groups.table.cells[0].integer, 6);
	struct query_result failed;
	struct error err = {0};
	assert_int_equal(query_run(fixture->store, NULL, "{} | top 3 | sort by nothing", &the_range, &failed, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.message, "no column 'nothing'; the columns are self, self_percent"));
	/* A list that is longer than a message is cut. */
	char text[2000] = "{} | group by ";
	for (size_t i = 0; i < STORE_GROUP_BY_MAX; i++)
		snprintf(text + strlen(text), 80, "%sa_label_with_a_long_name_of_which_there_are_many_%02zu", i ? ", " : "", i);
	snprintf(text + strlen(text), 40, " | top 3 | sort by nothing");
	assert_int_equal(query_run(fixture->store, NULL, text, &the_range, &failed, NULL, &err), -EINVAL);
	assert_non_null(strstr(err.message, "the columns are a_label_with_a_long_name"));
}

static void test_diff(void **state)
{
	struct fixture *fixture = *state;
	static const char *const texts[] = {"{} | diff (shift 1d) | top 100", "{} | diff (shift 1d) relative | top 100 total",
					    "process_cpu | diff ({} from \"2023-11-13T22:13:20Z\" to now-1d) | top 100"};
	int64_t before_total = total_of(fixture, true, -1, -1), total = total_of(fixture, false, -1, -1);
	for (size_t t = 0; t < 3; t++) {
		_cleanup_(query_result_release) struct query_result result = {0};
		run(fixture, texts[t], &result);
		assert_int_equal(result.table.row_count, FUNCTIONS);
		double last = INFINITY;
		for (size_t i = 0; i < FUNCTIONS; i++) {
			const char *name = cell(&result.table, i, "function")->text;
			struct sums before = sums_of(fixture, true, -1, name, false),
				    now = sums_of(fixture, false, -1, name, false);
			assert_int_equal(cell(&result.table, i, "base_self")->integer, before.self);
			assert_int_equal(cell(&result.table, i, "self")->integer, now.self);
			assert_int_equal(cell(&result.table, i, "base_total")->integer, before.total);
			assert_int_equal(cell(&result.table, i, "total")->integer, now.total);
			double change = t == 1 ? 100.0 * (double)now.total / (double)total -
							 100.0 * (double)before.total / (double)before_total
					       : (double)(now.self - before.self);
			const struct query_cell *got = cell(&result.table, i, t == 1 ? "total_change" : "self_change");
			assert_true(fabs(change - (t == 1 ? got->number : (double)got->integer)) < 1e-9);
			assert_true(fabs(change) <= last + 1e-9);
			last = fabs(change);
			assert_string_equal(cell(&result.table, i, "state")->text, strcmp(name, "sys_read") == 0 ? "new" : "");
		}
	}
	_cleanup_(query_result_release) struct query_result sum = {0};
	run(fixture, "{} | diff (shift 1d) | sum", &sum);
	assert_int_equal(cell(&sum.table, 0, "base")->integer, before_total);
	assert_int_equal(cell(&sum.table, 0, "change")->integer, total - before_total);
	_cleanup_(query_result_release) struct query_result selectors = {0};
	run(fixture, "{service_name=\"shop\"} | diff ({service_name=\"bank\"}) | where host_name=\"h1\" | sum", &selectors);
	assert_int_equal(cell(&selectors.table, 0, "base")->integer, total_of(fixture, false, 0, 0));
	assert_int_equal(cell(&selectors.table, 0, "value")->integer, total_of(fixture, false, 2, 0));
}

static void test_compare(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result result = {0};
	run(fixture, "{} | hide \"walk\" | compare service_name top 2", &result);
	assert_int_equal(result.kind, QUERY_COMPARISON);
	assert_int_equal(result.comparison.count, 2);
	assert_int_equal(result.comparison.count_before_limit, 3);
	assert_int_equal(result.comparison.total, total_of(fixture, false, -1, -1));
	for (size_t i = 0; i < 2; i++) {
		const struct query_compared *item = &result.comparison.items[i];
		int number = item->value[0] == 'b' ? 0 : item->value[0] == 'm' ? 1 : 2;
		assert_int_equal(item->total, total_of(fixture, false, number, -1));
		assert_int_equal(profile_total(item->profile, 0), item->total);
	}
	assert_true(result.comparison.items[0].total >= result.comparison.items[1].total);
}

/* ---- values over time ---- */

static void test_series(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result result = {0};
	run(fixture, "{} | bin 10s | group by service_name | rate", &result);
	assert_int_equal(result.kind, QUERY_SERIES);
	assert_int_equal(result.series.count, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct query_series_row *row = &result.series.rows[i];
		const char *service = labels_get(&row->labels, "service_name");
		for (size_t k = 0; k < row->point_count; k++) {
			int64_t sum = 0;
			for (int n = 0; n < RECORDS; n++) {
				const struct record *record = &fixture->records[n];
				if (strcmp(services[record->service], service) == 0 &&
				    record->time_ns >= row->points[k].time_ns &&
				    record->time_ns < row->points[k].time_ns + 10 * NS_PER_S)
					sum += record->value;
			}
			assert_int_equal(row->points[k].value, sum);
			assert_true(query_series_value(&result.series, sum) == (double)sum / 1e10);
		}
	}
	_cleanup_(query_result_release) struct query_result top = {0};
	run(fixture, "{} | bin 10s | group by service_name | top 1 others", &top);
	assert_int_equal(top.series.count, 2);
	assert_true(top.series.rows[1].others);
	assert_int_equal(top.series.rows[0].total + top.series.rows[1].total, total_of(fixture, false, -1, -1));
	int64_t sum = 0;
	for (size_t k = 0; k < top.series.rows[1].point_count; k++)
		sum += top.series.rows[1].points[k].value;
	assert_int_equal(sum, top.series.rows[1].total);
	_cleanup_(query_result_release) struct query_result filtered = {0};
	run(fixture, "{} | frames \"walk\" | bin 20s", &filtered);
	assert_int_equal(filtered.series.rows[0].total, sums_of(fixture, false, -1, "ns::walk", false).total);
}

static void test_join(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result result = {0};
	run(fixture, "{} | bin 30s | join process_stats on service_name", &result);
	int64_t cpu = 0, value = 0;
	size_t with_processes = 0;
	for (size_t i = 0; i < result.table.row_count; i++) {
		const char *service = cell(&result.table, i, "service_name")->text;
		int64_t second = (cell(&result.table, i, "time")->integer - START_NS) / NS_PER_S;
		value += cell(&result.table, i, "value")->absent ? 0 : cell(&result.table, i, "value")->integer;
		if (cell(&result.table, i, "processes")->absent)
			continue;
		with_processes++;
		cpu += cell(&result.table, i, "cpu_ns")->integer;
		if (strcmp(service, "bank") == 0) {
			assert_int_equal(second,
					 10); /* windows that end at 20 s and 30 s; START_NS is 20 s behind a bin's begin */
			assert_int_equal(cell(&result.table, i, "rss_bytes")->integer, 10);
			assert_true(cell(&result.table, i, "threads")->number == 4);
		}
	}
	assert_int_equal(value, total_of(fixture, false, -1, -1));
	assert_int_equal(cpu, 1000 * 21 + 500 * 6 + 77);
	assert_true(with_processes >= 3);

	_cleanup_(query_result_release) struct query_result whole = {0};
	run(fixture, "{} | join process_stats on service_name | sort by cpu_ns desc", &whole);
	assert_int_equal(whole.table.row_count, 3);
	assert_string_equal(cell(&whole.table, 0, "service_name")->text, "shop");
	assert_int_equal(cell(&whole.table, 0, "value")->integer, total_of(fixture, false, 2, -1));
	assert_int_equal(cell(&whole.table, 0, "processes")->integer, 2);
	assert_int_equal(cell(&whole.table, 0, "rss_bytes")->integer, 150); /* 100, and the mean of 40 and 60 */
	assert_true(cell(&whole.table, 0, "threads")->number == 3);
	assert_string_equal(cell(&whole.table, 2, "service_name")->text, "mail");
	assert_true(cell(&whole.table, 2, "cpu_ns")->absent);
}

static void test_catalogue(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result values = {0};
	run(fixture, "{} | values of service_name \"s\"", &values);
	assert_int_equal(values.table.row_count, 1);
	assert_string_equal(cell(&values.table, 0, "value")->text, "shop");
	_cleanup_(query_result_release) struct query_result labels = {0};
	run(fixture, "{} | labels", &labels);
	assert_int_equal(labels.table.row_count, 2);
	assert_int_equal(cell(&labels.table, 1, "values")->integer, 3);
	_cleanup_(query_result_release) struct query_result types = {0};
	run(fixture, "{} | types", &types);
	assert_int_equal(types.table.row_count, 1);
	assert_non_null(strstr(cell(&types.table, 0, "type")->text, "process_cpu:cpu:nanoseconds"));
	_cleanup_(query_result_release) struct query_result count = {0};
	run(fixture, "{} | count", &count);
	assert_int_equal(count.table.row_count, 1);
	assert_true(cell(&count.table, 0, "samples")->integer > 0);
	/* Nothing to list is no failure, a type that there is not is one. */
	static const char *const stages[] = {"count", "types", "labels", "values of service_name"};
	for (size_t i = 0; i < 4; i++) {
		char text[128];
		struct error err = {0};
		_cleanup_(query_result_release) struct query_result empty = {0};
		struct query_result failed;
		snprintf(text, sizeof(text), "process_cpu{service_name=\"nobody\"} | %s", stages[i]);
		run(fixture, text, &empty);
		assert_int_equal(empty.table.row_count, 0);
		snprintf(text, sizeof(text), "nothing | %s", stages[i]);
		assert_int_equal(query_run(fixture->store, NULL, text, &the_range, &failed, NULL, &err), -EINVAL);
		assert_non_null(strstr(err.message, "unknown profile type; the server has: process_cpu"));
	}
}

/* ---- writing, limits, failures ---- */

static const char *const all_kinds[] = {
	"{} | frames \"walk\" | hide \"main\" | group by service_name",
	"{} | diff (shift 1d) | collapse recursion",
	"{} | diff (shift 1d) relative | top 5",
	"{} | group by service_name | top 3 total by line",
	"{} | rate | top 3",
	"{} | bin 10s | rate | group by service_name | top 2 others",
	"{} | callers of \"malloc\" | compare host_name",
	"{} | bin 10s | rate | join process_stats on service_name",
	"{} | values of service_name",
	"{} | top 5 by label host_name",
	"{service_name=\"none\"}",
	"{service_name=\"none\"} | compare host_name",
	"{service_name=\"none\"} | diff (shift 1d) | top 3",
	"{service_name=\"none\"} | bin 1m",
};

static void test_json_and_text(void **state)
{
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(all_kinds) / sizeof(*all_kinds); i++) {
		for (int table = 0; table < 2; table++) {
			_cleanup_(query_result_release) struct query_result result = {0};
			_cleanup_(buffer_release) struct buffer json = {0};
			_cleanup_(buffer_release) struct buffer text = {0};
			struct query_stats stats = {0};
			struct error err = {0};
			struct query_write_options options = {.explain = true, .table = table, .limit = 4};
			if (query_run(fixture->store, NULL, all_kinds[i], &the_range, &result, &stats, &err) < 0)
				fail_msg("%s: %s", all_kinds[i], err.message);
			buffer_init(&json, SIZE_MAX);
			buffer_init(&text, SIZE_MAX);
			assert_int_equal(query_write_json(&result, &stats, &options, &json, &err), 0);
			json_t *parsed = json_loadb((const char *)json.data, json.len, 0, NULL);
			assert_non_null(parsed);
			assert_string_equal(json_string_value(json_object_get(parsed, "kind")), query_kind_name(result.kind));
			json_t *explain = json_object_get(parsed, "explain");
			assert_string_equal(json_string_value(json_object_get(explain, "query")),
					    json_string_value(json_object_get(parsed, "query")));
			assert_true(json_is_integer(json_object_get(explain, "rows")));
			json_decref(parsed);
			assert_int_equal(query_write_text(&result, &stats, &options, &text, &err), 0);
			assert_non_null(strstr(buffer_string(&text), "plan\n  read: "));
		}
	}
}

static void test_table_text(void **state)
{
	struct fixture *fixture = *state;
	_cleanup_(query_result_release) struct query_result result = {0};
	_cleanup_(buffer_release) struct buffer text = {0};
	run(fixture, "{service_name=\"none\"} | top 3", &result);
	buffer_init(&text, SIZE_MAX);
	assert_int_equal(query_write_text(&result, NULL, NULL, &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "self  self_percent  total  total_percent  function  file  binary\n");
	/* Names of columns are labels, too. */
	snprintf(result.table.columns[4].name, sizeof(result.table.columns[4].name), "f\033\xc2\x9b\xe2\x80\xae");
	buffer_clear(&text);
	assert_int_equal(query_write_text(&result, NULL, NULL, &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "self  self_percent  total  total_percent  f???  file  binary\n");
}

static void test_limits(void **state)
{
	struct fixture *fixture = *state;
	struct query_options options = the_range;
	struct query_result result;
	struct query_stats stats = {0};
	struct error err = {0};
	options.table_rows_max = 2;
	assert_int_equal(query_run(fixture->store, NULL, "{} | group by service_name | top 3", &options, &result, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.message, "more than 2 rows"));
	options = the_range;
	options.query.deadline_ns = 1; /* long ago */
	assert_int_equal(query_run(fixture->store, NULL, "{}", &options, &result, &stats, &err), 0);
	assert_true(stats.read.partial);
	assert_true(stats.read.why[0] != '\0');
	query_result_release(&result);
	atomic_bool cancel = true;
	options = the_range;
	options.query.cancel = &cancel;
	assert_int_equal(query_run(fixture->store, NULL, "{}", &options, &result, NULL, &err), -ECANCELED);
	options = the_range;
	options.query.to_ns = options.query.from_ns;
	assert_int_equal(query_run(fixture->store, NULL, "{}", &options, &result, NULL, &err), -EINVAL);
}

static void test_failures_are_named(void **state)
{
	struct fixture *fixture = *state;
	static const char *const cases[][2] = {
		{"{} | sum | oops", "expected a stage"},
		{"{} | diff (from now to now-1d)", "the time range is empty"},
		{"{} | frames \"(x+x+)+[yz]$\"", ""},
		{"{} | diff (shift 99999d)", "before 1970"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct query_result result;
		struct error err = {0};
		int r = query_run(fixture->store, NULL, cases[i][0], &the_range, &result, NULL, &err);
		if (*cases[i][1]) {
			assert_int_equal(r, -EINVAL);
			if (!strstr(err.message, cases[i][1]))
				fail_msg("%s gave %s", cases[i][0], err.message);
		}
		if (!r)
			query_result_release(&result);
	}
}

static void test_out_of_memory(void **state)
{
	struct fixture *fixture = *state;
	for (size_t i = 0; i < sizeof(all_kinds) / sizeof(*all_kinds); i++) {
		for (uint64_t n = 1;; n += 1 + n / 40) {
			struct query_result result = {0};
			struct query_stats stats = {0};
			struct error err = {0};
			_cleanup_(buffer_release) struct buffer out = {0};
			buffer_init(&out, SIZE_MAX);
			fault_arm(FAULT_ALLOC, n, 0);
			int r = query_run(fixture->store, NULL, all_kinds[i], &the_range, &result, &stats, &err);
			if (!r) {
				struct query_write_options options = {.explain = true};
				r = query_write_json(&result, &stats, &options, &out, &err);
				if (!r)
					r = query_write_text(&result, &stats, &options, &out, &err);
				query_result_release(&result);
			}
			bool reached = fault_disarm(FAULT_ALLOC);
			if (!reached) {
				if (r < 0)
					fail_msg("%s: %s", all_kinds[i], err.message);
				break;
			}
			if (r < 0 && r != -ENOMEM)
				fail_msg("%s at allocation %llu: %d %s", all_kinds[i], (unsigned long long)n, r, err.message);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flame_graphs),
		cmocka_unit_test(test_names_of_addresses),
		cmocka_unit_test(test_top),
		cmocka_unit_test(test_top_of_groups),
		cmocka_unit_test(test_top_label_and_sum),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_diff),
		cmocka_unit_test(test_compare),
		cmocka_unit_test(test_series),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_catalogue),
		cmocka_unit_test(test_json_and_text),
		cmocka_unit_test(test_table_text),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_failures_are_named),
		cmocka_unit_test(test_out_of_memory),
	};
	int failed = cmocka_run_group_tests_name("local store", tests, setup, teardown);
	ops = &fan_store_ops;
	return failed + cmocka_run_group_tests_name("two stores as one", tests, setup, teardown);
}
