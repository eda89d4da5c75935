/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>

#include "base/budget.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "render/test_render.h"

static const struct test_shape shape = {
	.binaries = 3, .functions = 4, .addresses = 3, .samples = 80, .depth = 6, .types = 2, .links = false, .times = false};

static struct flame *build(const struct profile *profile, size_t type)
{
	struct flame *flame = NULL;
	assert_int_equal(flame_build(profile, type, FLAME_UNNAMED_BY_ADDRESS, &flame, NULL), 0);
	return flame;
}

static const char *text_of(const struct flame *flame, uint32_t id)
{
	return intern_string(&flame->strings, id);
}

static uint32_t child_named(const struct flame *flame, uint32_t parent, const char *name)
{
	for (uint32_t i = 1; i < flame->count; i++)
		if (flame->nodes[i].parent == parent && strcmp(text_of(flame, flame->nodes[i].name), name) == 0)
			return i;
	fail_msg("no child '%s'", name);
	return 0;
}

static void test_small_tree(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_add_stack(profile, "main;a;b", 5);
	test_add_stack(profile, "main;a", 2);
	test_add_stack(profile, "main;c", 9);
	test_add_stack(profile, "", 1);
	test_add_stack(profile, "main;a;b", 0);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	assert_string_equal(flame->type, "cpu");
	assert_string_equal(flame->unit, "nanoseconds");
	assert_int_equal(flame->total, 17);
	assert_int_equal(flame->sample_count, 4);
	assert_int_equal(flame->count, 5);
	assert_string_equal(text_of(flame, flame->nodes[0].name), "total");
	assert_int_equal(flame->nodes[0].self, 1);
	static const char *const names[] = {"total", "main", "c", "a", "b"};
	static const int64_t totals[] = {17, 16, 9, 7, 5}, selves[] = {1, 0, 9, 2, 5};
	static const uint32_t depths[] = {0, 1, 2, 2, 3};
	for (unsigned i = 0; i < 5; i++) {
		assert_string_equal(text_of(flame, flame->nodes[i].name), names[i]);
		assert_int_equal(flame->nodes[i].total, totals[i]);
		assert_int_equal(flame->nodes[i].self, selves[i]);
		assert_int_equal(flame->nodes[i].depth, depths[i]);
	}
	assert_null(flame_free(NULL));
}

static void test_inlined(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	test_add_stack(profile, "main;inner<middle<outer;leaf", 3);
	test_add_stack(profile, "main;outer;middle", 2);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	uint32_t main_node = child_named(flame, 0, "main"), outer = child_named(flame, main_node, "outer");
	uint32_t middle = child_named(flame, outer, "middle"), inner = child_named(flame, middle, "inner");
	child_named(flame, inner, "leaf");
	assert_false(flame->nodes[outer].inlined);
	assert_false(flame->nodes[middle].inlined); /* not always */
	assert_true(flame->nodes[inner].inlined);
	assert_int_equal(flame->nodes[outer].total, 5);
	assert_int_equal(flame->count, 6);
}

static uint32_t add_mapping(struct profile *profile, const char *file)
{
	struct profile_mapping mapping = {
		.start = 0x1000, .limit = 0x9000, .offset = 0x500, .file_name = test_string(profile, file)};
	uint32_t id;
	assert_int_equal(profile_add_mapping(profile, &mapping, &id, NULL), 0);
	return id;
}

/* Many files under one name, one under another, some without a build-id, and one that no sample is in. */
static void test_build_ids(void **state)
{
	enum { MANY = 40 };
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	(void)state;
	for (unsigned i = 0; i < MANY + 4; i++) {
		char path[32], build_id[16];
		snprintf(path, sizeof(path), i < MANY ? "/%u/libc.so.6" : "/bin/app", i);
		snprintf(build_id, sizeof(build_id), "%08x", i < MANY ? MANY - i / 2 : i == MANY + 1 ? 0xab : 0xcd);
		struct profile_mapping mapping = {.start = 0x1000 * i,
						  .limit = 0x1000 * i + 0x1000,
						  .file_name = test_string(profile, path),
						  .build_id = i == MANY ? 0 : test_string(profile, build_id)};
		struct profile_location location = {.address = 0x1000 * i + 16};
		struct profile_sample sample = {0};
		uint32_t id;
		assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
		assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){i < MANY + 2}, NULL), 0);
	}
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	assert_int_equal(flame->binary_count, 1 + FLAME_BUILD_IDS_MAX);
	for (size_t i = 0; i < flame->binary_count; i++) {
		const struct flame_binary *binary = &flame->binaries[i];
		char expected[16];
		snprintf(expected, sizeof(expected), "%08x", i == 0 ? 0xab : (unsigned)(MANY / 2 + i));
		assert_string_equal(intern_string(&flame->build_ids, binary->build_id), expected);
		assert_string_equal(text_of(flame, binary->name), i == 0 ? "app" : "libc.so.6");
		assert_int_equal(binary->count, i == 0 ? 1 : MANY / 2);
	}
}

static void add_address(struct profile *profile, const char *file, uint64_t address)
{
	struct profile_location location = {.mapping = file ? add_mapping(profile, file) : 0, .address = address};
	struct profile_sample sample = {0};
	uint32_t id;
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1}, NULL), 0);
}

static void test_names(void **state)
{
	static const struct {
		const char *file, *name, *binary;
	} cases[] = {
		{"/usr/bin/prog", "prog+0x534", "prog"},
		{"/tmp/x y (deleted)", "x y+0x534", "x y"},
		{"[vdso]", "[vdso]+0x534", "[vdso]"},
		{"/strange/", "/strange/+0x534", "/strange/"},
		{"", "0x1034", ""},
		{NULL, "0x1034", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
		add_address(profile, cases[i].file, 0x1034);
		_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
		assert_string_equal(text_of(flame, flame->nodes[1].name), cases[i].name);
		assert_string_equal(text_of(flame, flame->nodes[1].binary), cases[i].binary);
		assert_string_equal(text_of(flame, flame->nodes[1].file), "");
	}
	/* A function with a system name only, and one with no name at all. */
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	struct profile_function mangled = {.system_name = test_string(profile, "_Z3foov")}, nameless = {0};
	struct profile_location location = {.mapping = add_mapping(profile, "[kernel.kallsyms]"), .address = 0x2000};
	struct profile_line lines[2] = {{0}};
	struct profile_sample sample = {0};
	uint32_t id;
	assert_int_equal(profile_add_function(profile, &mangled, &lines[0].function, NULL), 0);
	assert_int_equal(profile_add_function(profile, &nameless, &lines[1].function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, lines, 2, &id, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, id, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1}, NULL), 0);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	uint32_t outer = child_named(flame, 0, "[kernel.kallsyms]+0x1500");
	uint32_t inner = child_named(flame, outer, "_Z3foov");
	assert_int_equal(flame->nodes[inner].frame_type, PROFILE_FRAME_KERNEL);
}

/* ---- model ---- */

struct path_value {
	char *path;
	int64_t value;
};
struct path_values {
	struct path_value items[1000];
	size_t count;
};

static void add_path_value(struct path_values *values, char *path, int64_t value)
{
	for (size_t i = 0; i < values->count; i++) {
		if (strcmp(values->items[i].path, path) == 0) {
			values->items[i].value += value;
			free(path);
			return;
		}
	}
	assert_true(values->count < 1000);
	values->items[values->count++] = (struct path_value){path, value};
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct path_value *)a)->path, ((const struct path_value *)b)->path);
}

/* Sorted, without those that came to nothing. */
static void finish_path_values(struct path_values *values)
{
	size_t kept = 0;
	for (size_t i = 0; i < values->count; i++) {
		if (values->items[i].value)
			values->items[kept++] = values->items[i];
		else
			free(values->items[i].path);
	}
	values->count = kept;
	qsort(values->items, kept, sizeof(*values->items), compare_paths);
}

static void print_frame(FILE *out, const char *name, const char *file, const char *binary, unsigned type)
{
	fprintf(out, ";%s|%s|%s|%u", name, file, binary, type);
}

/* Root first, straight from the definition. */
static char *path_of_sample(const struct profile *profile, size_t sample)
{
	uint32_t locations[64];
	size_t size, depth = profile_stack_locations(profile, profile->samples[sample].stack, locations, 64);
	char *path;
	FILE *out = open_memstream(&path, &size);
	for (size_t i = depth; i-- > 0;) {
		const struct profile_location *location = &profile->locations[locations[i]];
		const char *file = profile_string(profile, profile->mappings[location->mapping].file_name);
		const char *binary = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
		char address[64];
		snprintf(address, sizeof(address), *binary ? "%s+0x%" PRIx64 : "%s0x%" PRIx64, binary,
			 profile_location_file_offset(profile, locations[i]));
		if (location->line_count == 0)
			print_frame(out, address, "", binary, location->frame_type);
		for (uint32_t line = location->line_count; line-- > 0;) {
			const struct profile_function *function =
				&profile->functions[profile->lines[location->line_first + line].function];
			print_frame(out, profile_string(profile, function->name), profile_string(profile, function->file_name),
				    binary, location->frame_type);
		}
	}
	fclose(out);
	return path;
}

static char *path_of_node(const struct flame *flame, uint32_t id)
{
	char *parent = id && flame->nodes[id].parent ? path_of_node(flame, flame->nodes[id].parent) : strdup(""), *path;
	const struct flame_node *node = &flame->nodes[id];
	size_t size;
	FILE *out = open_memstream(&path, &size);
	fputs(parent, out);
	if (id)
		print_frame(out, text_of(flame, node->name), text_of(flame, node->file), text_of(flame, node->binary),
			    node->frame_type);
	fclose(out);
	free(parent);
	return path;
}

static void check_order(const struct flame *flame)
{
	int64_t *sums = test_calloc(flame->count, sizeof(*sums));
	for (size_t i = flame->count; i-- > 0;) {
		const struct flame_node *node = &flame->nodes[i];
		assert_int_equal(node->total, node->self + sums[i]);
		if (i > 0) {
			assert_true(node->parent < i);
			assert_int_equal(node->depth, flame->nodes[node->parent].depth + 1);
			sums[node->parent] += node->total;
			/* In pre-order, the node before is the parent or lies below the sibling before. */
			uint32_t before = (uint32_t)i - 1;
			while (before != node->parent && flame->nodes[before].parent != node->parent)
				before = flame->nodes[before].parent;
			assert_true(before == node->parent || flame->nodes[before].total >= node->total);
		}
	}
	assert_int_equal(flame->total, flame->nodes[0].total);
	test_free(sums);
}

static void test_model(void **state)
{
	for (uint64_t seed = 0; seed < 40; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
		for (size_t type = 0; type < 2; type++) {
			static struct path_values expected, got;
			expected.count = got.count = 0;
			_cleanup_(flame_freep) struct flame *flame = build(profile, type);
			check_order(flame);
			assert_int_equal(flame->total, profile_total(profile, type));
			for (size_t i = 0; i < profile->sample_count; i++)
				add_path_value(&expected, path_of_sample(profile, i), profile->values[i * 2 + type]);
			for (uint32_t i = 0; i < flame->count; i++)
				add_path_value(&got, path_of_node(flame, i), flame->nodes[i].self);
			finish_path_values(&expected);
			finish_path_values(&got);
			assert_int_equal(got.count, expected.count);
			for (size_t i = 0; i < got.count; i++) {
				assert_string_equal(got.items[i].path, expected.items[i].path);
				assert_int_equal(got.items[i].value, expected.items[i].value);
				free(got.items[i].path);
				free(expected.items[i].path);
			}
		}
	}
}

/* Against the whole tree: what is shown has its true values, nothing larger is left out, and the sums are whole. */
static void check_largest(const struct flame *whole, const struct flame *part, size_t max)
{
	size_t shown = 0, merged = 0;
	int64_t smallest = INT64_MAX, left_out = 0;
	check_order(part);
	assert_int_equal(part->total, whole->total);
	for (uint32_t i = 0; i < part->count; i++) {
		const struct flame_node *node = &part->nodes[i];
		if (node->frame_type == FLAME_FRAME_REST) {
			unsigned long long count = strtoull(text_of(part, node->name) + 1, NULL, 10);
			assert_true(count > 0);
			assert_true(i + 1 == part->count || part->nodes[i + 1].parent != i);
			merged += count;
			continue;
		}
		shown++;
		smallest = node->total < smallest ? node->total : smallest;
	}
	assert_int_equal(merged, part->trimmed);
	assert_int_equal(shown, whole->count < max ? whole->count : max);
	size_t found = 0;
	for (uint32_t i = 0; i < whole->count; i++) {
		char *path = path_of_node(whole, i);
		bool here = false;
		for (uint32_t k = 0; k < part->count && !here; k++) {
			char *other = path_of_node(part, k);
			here = part->nodes[k].frame_type != FLAME_FRAME_REST && strcmp(path, other) == 0;
			if (here) {
				assert_int_equal(part->nodes[k].total, whole->nodes[i].total);
				assert_int_equal(part->nodes[k].self, whole->nodes[i].self);
			}
			free(other);
		}
		found += here;
		if (!here && whole->nodes[i].total > left_out)
			left_out = whole->nodes[i].total;
		free(path);
	}
	assert_int_equal(found, shown);
	assert_true(left_out <= smallest);
}

static void test_largest(void **state)
{
	static const size_t limits[] = {1, 2, 3, 7, 20, 1000000};
	for (uint64_t seed = 0; seed < 8; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
		for (size_t i = 0; i < profile->sample_count * 2; i++)
			profile->values[i] =
				profile->values[i] & 0xffff; /* of values of both signs a child may be the larger */
		_cleanup_(flame_freep) struct flame *whole = build(profile, 0);
		for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
			_cleanup_(flame_freep) struct flame *part = NULL;
			assert_int_equal(flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, limits[i], &part, NULL), 0);
			check_largest(whole, part, limits[i]);
		}
	}
}

static void test_rest(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	test_add_stack(profile, "main;a;x", 50);
	test_add_stack(profile, "main;b;y", 20);
	test_add_stack(profile, "main;c", 15);
	test_add_stack(profile, "main;d", 10);
	test_add_stack(profile, "other", 5);
	assert_int_equal(flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, 4, &flame, NULL), 0);
	/* total, main, a, x; b, c and d are smaller together than a, and "other" stands alone. */
	assert_int_equal(flame->count, 6);
	assert_int_equal(flame->trimmed, 4);
	uint32_t rest = child_named(flame, child_named(flame, 0, "main"), "(3 smaller)");
	assert_int_equal(flame->nodes[rest].total, 45);
	assert_int_equal(flame->nodes[rest].self, 45);
	assert_int_equal(flame->nodes[rest].frame_type, FLAME_FRAME_REST);
	assert_int_equal(flame->nodes[child_named(flame, 0, "(1 smaller)")].total, 5);
}

/* The samples whose stacks end in a node come to its self value, and the tree is the one that is built without asking. */
static void test_places(void **state)
{
	static const size_t limits[] = {0, 1, 2, 5, 20, 100};
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		_cleanup_(flame_freep) struct flame *flame = NULL;
		_cleanup_(flame_freep) struct flame *plain = NULL;
		assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
		uint32_t *places = calloc(profile->stack_count, sizeof(*places));
		size_t type = seed % 2, limit = limits[seed % 6];
		assert_int_equal(flame_build_placed(profile, type, FLAME_UNNAMED_BY_ADDRESS, limit, places, &flame, NULL), 0);
		assert_int_equal(flame_build_largest(profile, type, FLAME_UNNAMED_BY_ADDRESS, limit, &plain, NULL), 0);
		assert_int_equal(flame->count, plain->count);
		int64_t *selves = calloc(flame->count, sizeof(*selves));
		for (size_t i = 0; i < profile->sample_count; i++) {
			int64_t value = profile->values[i * profile->sample_type_count + type];
			uint32_t stack = profile->samples[i].stack, node = places[stack];
			assert_true(node < flame->count);
			selves[node] += value;
			if (value == 0 || stack == 0 || flame->nodes[node].frame_type == FLAME_FRAME_REST)
				continue;
			const struct profile_location *leaf = &profile->locations[profile->stacks[stack].location];
			uint32_t function = leaf->line_count ? profile->lines[leaf->line_first].function : 0;
			if (function && profile->functions[function].name)
				assert_string_equal(text_of(flame, flame->nodes[node].name),
						    profile_string(profile, profile->functions[function].name));
		}
		for (size_t i = 0; i < flame->count; i++) {
			assert_int_equal(selves[i], flame->nodes[i].self);
			assert_int_equal(plain->nodes[i].self, flame->nodes[i].self);
		}
		free(selves);
		free(places);
	}
}

static void test_deep(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	static uint32_t stack[LIMIT_STACK_DEPTH];
	for (unsigned i = 0; i < LIMIT_STACK_DEPTH; i++)
		stack[i] = test_named_location(profile, i % 2 ? "a<b<c<d<e<f<g<h" : "x", 0);
	struct profile_sample sample = {0};
	assert_int_equal(profile_add_stack_leaf_first(profile, stack, LIMIT_STACK_DEPTH, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){7}, NULL), 0);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	assert_int_equal(flame->count, 1 + LIMIT_STACK_DEPTH / 2 * 9);
	check_order(flame);
	struct table table;
	assert_int_equal(table_build(flame, &table, NULL), 0);
	assert_int_equal(table.count, 9);
	for (size_t i = 0; i < table.count; i++)
		assert_int_equal(table.rows[i].total, 7);
	table_release(&table);
	_cleanup_(buffer_release) struct buffer svg = {0};
	buffer_init(&svg, 100 * MIB);
	assert_int_equal(svg_render(flame, NULL, &svg, NULL), 0);
}

static json_int_t column_at(json_t *root, const char *column, size_t at)
{
	json_t *array = json_object_get(json_object_get(root, "nodes"), column);
	assert_true(at < json_array_size(array));
	return json_integer_value(json_array_get(array, at));
}

static void test_json(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_add_stack(profile, "ma\"in;a<b\n", 5);
	test_add_stack(profile, "\xff;b", 6);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	_cleanup_(buffer_release) struct buffer text = {0};
	buffer_init(&text, MIB);
	struct json_writer json = {.out = &text};
	flame_write_json(flame, &json);
	assert_int_equal(json_finish(&json, NULL), 0);
	json_error_t error;
	json_t *root = json_loads(buffer_string(&text), 0, &error);
	if (!root)
		fail_msg("%s", error.text);
	assert_string_equal(json_string_value(json_object_get(root, "type")), "cpu");
	assert_string_equal(json_string_value(json_object_get(root, "unit")), "nanoseconds");
	assert_int_equal(json_integer_value(json_object_get(root, "total")), 11);
	assert_int_equal(json_integer_value(json_object_get(root, "samples")), 2);
	static const json_int_t parents[] = {0, 0, 1, 0, 3, 4}, totals[] = {11, 6, 6, 5, 5, 5}, kinds[] = {0, 0, 0, 0, 0, 8};
	static const char *const names[] = {"total", "\xef\xbf\xbd", "b", "ma\"in", "b\n", "a"};
	assert_int_equal(flame->count, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(column_at(root, "parent", i), parents[i]);
		assert_int_equal(column_at(root, "total", i), totals[i]);
		assert_int_equal(column_at(root, "kind", i), kinds[i]);
		assert_int_equal(column_at(root, "file", i), 0);
		assert_int_equal(column_at(root, "line", i), 0);
		assert_int_equal(column_at(root, "binary", i), 0);
		json_t *strings = json_object_get(root, "strings");
		assert_string_equal(json_string_value(json_array_get(strings, (size_t)column_at(root, "name", i))), names[i]);
	}
	assert_int_equal(column_at(root, "self", 5), 5);
	assert_int_equal(column_at(root, "self", 4), 0);
	json_decref(root);
}

/* A node has the line where its function is declared, whatever lines its samples are in; without it the smallest of those. */
static void test_lines(void **state)
{
	static const struct {
		const char *name;
		uint32_t line;
	} expected[] = {{"declared", 40}, {"seen", 80}, {"twice", 7}, {"nowhere", 0}, {"absurd", 0}};
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_add_function_line(profile, "declared", 40, 45, 50);
	test_add_function_line(profile, "declared", 40, 42, 50);
	test_add_function_line(profile, "declared", 0, 12, 1);
	test_add_function_line(profile, "seen", 0, 90, 40);
	test_add_function_line(profile, "seen", 0, 80, 30);
	test_add_function_line(profile, "twice", 7, 9, 5);
	test_add_function_line(profile, "twice", 30, 31, 50);
	test_add_function_line(profile, "nowhere", 0, 0, 9);
	test_add_function_line(profile, "absurd", INT64_MIN, INT64_MAX, 8);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	assert_int_equal(flame->count, 6);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(text_of(flame, flame->nodes[i + 1].name), expected[i].name);
		assert_int_equal(flame->nodes[i + 1].line, expected[i].line);
	}
	assert_int_equal(flame->nodes[0].line, 0);
}

static void test_empty(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	assert_int_equal(flame->count, 1);
	assert_int_equal(flame->total, 0);
	struct table table;
	assert_int_equal(table_build(flame, &table, NULL), 0);
	assert_int_equal(table.count, 0);
	table_release(&table);
}

static int render_all(const struct profile *profile, struct error *err)
{
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	buffer_init(&out, MIB);
	int r = flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, 5, &flame, err);
	flame = flame_free(flame);
	if (r == 0)
		r = flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &flame, err);
	if (r == 0)
		r = table_build(flame, &table, err);
	if (r == 0)
		r = table_write_text(&table, "ns", 0, &out, err);
	if (r == 0)
		r = svg_render(flame, NULL, &out, err);
	struct json_writer json = {.out = &out};
	if (r < 0)
		return r;
	flame_write_json(flame, &json);
	r = json_finish(&json, err);
	if (r < 0)
		return r;
	json = (struct json_writer){.out = &out};
	table_write_json(&table, 10, &json);
	return json_finish(&json, err);
}

static int render_everything(void *context)
{
	struct error err = {0};
	int r = render_all(context, &err);
	assert_int_equal(err.code, r);
	return r;
}

static void test_allocation_failures(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct test_shape tiny = shape;
	tiny.samples = 12;
	assert_int_equal(test_random_profile(1, &tiny, &profile, NULL), 0);
	assert_true(test_each_allocation(render_everything, profile) > 29);
}

static void test_small_buffers(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	test_add_stack(profile, "main;a;b", 5);
	_cleanup_(flame_freep) struct flame *flame = build(profile, 0);
	struct table table;
	assert_int_equal(table_build(flame, &table, NULL), 0);
	for (size_t max = 3; max < 300; max += 7) {
		_cleanup_(buffer_release) struct buffer out = {0};
		struct error err = {0};
		buffer_init(&out, max);
		assert_int_equal(buffer_append_string(&out, "abc"), 0);
		if (max < 100) {
			assert_int_equal(table_write_text(&table, "count", 0, &out, &err), -E2BIG);
			assert_int_equal(err.code, -E2BIG);
		}
		assert_int_equal(svg_render(flame, NULL, &out, &err), -E2BIG);
		assert_int_equal(out.len, 3);
	}
	table_release(&table);
}

/* Where memory gets short, a tree of the largest nodes has fewer of them, and is exact; one of all nodes cannot be had. */
static void test_little_memory(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	char frames[200];
	for (unsigned i = 0; i < 4000; i++) {
		snprintf(frames, sizeof(frames), "main;a%u;b%u;c%u;d%u;e%u;f%u", i, i % 7, i % 11, i % 13, i % 17, i % 19);
		test_add_stack(profile, frames, 1 + i % 100);
	}
	_cleanup_(flame_freep) struct flame *all = NULL;
	assert_int_equal(flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, 20000, &all, NULL), 0);
	size_t least = SIZE_MAX;
	bool was_refused = false;
	for (size_t max = 8 * 1024 * 1024; max > 0; max -= 128 * 1024) {
		struct budget budget = {.max_bytes = max};
		struct flame *flame = NULL;
		budget_enter(&budget);
		int r = flame_build_largest(profile, 0, FLAME_UNNAMED_BY_ADDRESS, 20000, &flame, NULL);
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			assert_int_equal(budget.end, BUDGET_SPENT);
			was_refused = true;
		} else {
			assert_int_equal(budget.end, BUDGET_OPEN);
			assert_int_equal(flame->total, all->total);
			int64_t selfs = 0;
			for (size_t i = 0; i < flame->count; i++)
				selfs += flame->nodes[i].self;
			assert_int_equal(selfs, all->total);
			assert_true(flame->count <= all->count);
			least = flame->count < least ? flame->count : least;
		}
		flame_free(flame);
		if (max < 2 * 1024 * 1024) /* of these there are 24,001, at more than 100 bytes */
			assert_int_equal(flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, &flame, NULL), -ENOMEM);
		assert_int_equal(budget.used, 0);
		budget_leave(NULL);
	}
	assert_true(least < all->count / 2);
	assert_true(was_refused); /* what the stacks take has to be there */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_tree),    cmocka_unit_test(test_inlined),
		cmocka_unit_test(test_names),	      cmocka_unit_test(test_model),
		cmocka_unit_test(test_largest),	      cmocka_unit_test(test_rest),
		cmocka_unit_test(test_places),	      cmocka_unit_test(test_deep),
		cmocka_unit_test(test_json),	      cmocka_unit_test(test_lines),
		cmocka_unit_test(test_empty),	      cmocka_unit_test(test_allocation_failures),
		cmocka_unit_test(test_small_buffers), cmocka_unit_test(test_build_ids),
		cmocka_unit_test(test_little_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
