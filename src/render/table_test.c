/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <jansson.h>

#include "base/io.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "render/test_render.h"

static void build(const struct profile *profile, struct flame **ret_flame, struct table *ret_table)
{
	assert_int_equal(flame_build(profile, 0, FLAME_UNNAMED_BY_ADDRESS, ret_flame, NULL), 0);
	assert_int_equal(table_build(*ret_flame, ret_table, NULL), 0);
}

static const struct table_row *row_named(const struct table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->rows[i].name, name) == 0)
			return &table->rows[i];
	fail_msg("no row '%s'", name);
	return NULL;
}

static void test_recursion_counts_once(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	test_add_stack(profile, "main;f;g;f;g;f", 5);
	test_add_stack(profile, "main;g;f", 3);
	test_add_stack(profile, "f<f<f", 2);
	test_add_stack(profile, "", 1);
	build(profile, &flame, &table);
	assert_int_equal(table.total, 11);
	assert_int_equal(table.count, 3);
	assert_string_equal(table.rows[0].name, "f");
	assert_int_equal(row_named(&table, "f")->total, 10);
	assert_int_equal(row_named(&table, "f")->self, 10);
	assert_int_equal(row_named(&table, "g")->total, 8);
	assert_int_equal(row_named(&table, "g")->self, 0);
	assert_int_equal(row_named(&table, "main")->total, 8);
}

static const struct test_shape shape = {
	.binaries = 3, .functions = 4, .addresses = 2, .samples = 80, .depth = 6, .types = 1, .links = false, .times = false};

/* Whether a stack contains a row's function, and whether it is its leaf; straight from the profile. */
static bool stack_has(const struct profile *profile, uint32_t stack, const struct table_row *row, bool by_name, bool *ret_leaf)
{
	uint32_t locations[64];
	size_t depth = profile_stack_locations(profile, stack, locations, 64);
	bool found = false, first = true;
	*ret_leaf = false;
	for (size_t i = 0; i < depth; i++) {
		const struct profile_location *location = &profile->locations[locations[i]];
		const char *path = profile_string(profile, profile->mappings[location->mapping].file_name);
		const char *binary = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
		char address[64];
		snprintf(address, sizeof(address), *binary ? "%s+0x%" PRIx64 : "%s0x%" PRIx64, binary,
			 profile_location_file_offset(profile, locations[i]));
		uint32_t count = location->line_count ? location->line_count : 1;
		for (uint32_t line = 0; line < count; line++) {
			const struct profile_function *function =
				location->line_count ? &profile->functions[profile->lines[location->line_first + line].function]
						     : &profile->functions[0];
			const char *name = location->line_count ? profile_string(profile, function->name) : address;
			bool same = strcmp(row->name, name) == 0 &&
				    (by_name || (strcmp(row->binary, binary) == 0 &&
						 strcmp(row->file, profile_string(profile, function->file_name)) == 0));
			*ret_leaf |= same && first;
			found |= same;
			first = false;
		}
	}
	return found;
}

static void assert_rows(const struct profile *profile, const struct table *table, bool by_name)
{
	for (size_t i = 0; i < table->count; i++) {
		int64_t self = 0, total = 0;
		for (size_t s = 0; s < profile->sample_count; s++) {
			bool leaf;
			if (stack_has(profile, profile->samples[s].stack, &table->rows[i], by_name, &leaf))
				total += profile->values[s];
			self += leaf ? profile->values[s] : 0;
		}
		assert_int_equal(table->rows[i].self, self);
		assert_int_equal(table->rows[i].total, total);
		if (i > 0)
			assert_true(table->rows[i - 1].self >= self);
		for (size_t other = 0; by_name && other < i; other++)
			assert_string_not_equal(table->rows[other].name, table->rows[i].name);
	}
}

static void test_model(void **state)
{
	bool merged = false;
	for (uint64_t seed = 0; seed < 40; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		_cleanup_(flame_freep) struct flame *flame = NULL;
		_cleanup_(table_release) struct table table = {0};
		_cleanup_(table_release) struct table names = {0};
		assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
		build(profile, &flame, &table);
		assert_true(table.count > 4);
		assert_rows(profile, &table, false);
		assert_int_equal(table_build_by_name(flame, &names, NULL), 0);
		assert_rows(profile, &names, true);
		merged |= names.count < table.count;
	}
	assert_true(merged);
}

/* As a program that is sampled in its dynamic linker first: go tool pprof -top has one row of both. */
static void test_one_name_of_two_binaries(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(buffer_release) struct buffer text = {0};
	buffer_init(&text, MIB);
	for (int64_t i = 0; i < 2; i++) {
		struct profile_mapping mapping = {.file_name = test_string(profile, i ? "/lib/ld.so" : "/bin/program")};
		struct profile_sample sample = {0};
		int64_t value = i ? 1 : 99;
		uint32_t id;
		assert_int_equal(profile_add_mapping(profile, &mapping, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, 0, test_named_location(profile, "_start", id), &sample.stack, NULL),
				 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	assert_int_equal(render_top(profile, "", &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "Showing nodes accounting for 100, 100% of 100 total\n"
						  "      flat  flat%   sum%        cum   cum%\n"
						  "       100   100%   100%        100   100%  _start\n");
	_cleanup_(table_release) struct table table = {0};
	build(profile, &flame, &table);
	assert_int_equal(table.count, 2);
}

static void assert_value(int64_t value, const char *unit, const char *expected)
{
	char text[64];
	render_format_value(value, unit, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void test_values(void **state)
{
	assert_value(0, "nanoseconds", "0");
	assert_value(999, "nanoseconds", "999ns");
	assert_value(1500, "nanoseconds", "1.50us");
	assert_value(12300000000, "nanoseconds", "12.30s");
	assert_value(12000000000, "ns", "12s");
	assert_value(90, "minutes", "90");
	assert_value(7200, "seconds", "2hrs");
	assert_value(3599, "s", "3599s");
	assert_value(2500, "MilliSeconds", "2.50s");
	assert_value(7, "\xc2\xb5s", "7us");
	assert_value(-1500, "microseconds", "-1.50ms");
	assert_value(512, "bytes", "512B");
	assert_value(1024, "bytes", "1kB");
	assert_value(1536, "kb", "1.50MB");
	assert_value(4831838208, "bytes", "4.50GB");
	assert_value(123, "count", "123");
	assert_value(123, "", "123");
	assert_value(123, "widgets", "123");
	assert_value(INT64_MIN, "bytes", "-8192PB");
	assert_value(INT64_MAX, "count", "9223372036854775808"); /* through a double, as pprof does */
}

static void assert_text(const struct table *table, const char *unit, size_t limit, const char *expected)
{
	_cleanup_(buffer_release) struct buffer text = {0};
	buffer_init(&text, MIB);
	assert_int_equal(table_write_text(table, unit, limit, &text, NULL), 0);
	assert_string_equal(buffer_string(&text), expected);
}

static void test_text(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	test_add_stack(profile, "main;hot", 9000000000);
	test_add_stack(profile, "main;esc\x1b[31m\xff\xc2\x9b\xe2\x80\xae<cold", 990000000);
	test_add_stack(profile, "main;cold", 10000000);
	build(profile, &flame, &table);
	assert_text(&table, "nanoseconds", 0,
		    "Showing nodes accounting for 10s, 100% of 10s total\n"
		    "      flat  flat%   sum%        cum   cum%\n"
		    "        9s 90.00% 90.00%         9s 90.00%  hot\n"
		    "     0.99s  9.90% 99.90%      0.99s  9.90%  esc?[31m\xef\xbf\xbd?? (inline)\n"
		    "     0.01s   0.1%   100%         1s 10.00%  cold\n"
		    "         0     0%   100%        10s   100%  main\n");
	assert_text(&table, "nanoseconds", 1,
		    "Showing nodes accounting for 9s, 90.00% of 10s total\n"
		    "Showing top 1 nodes out of 4\n"
		    "      flat  flat%   sum%        cum   cum%\n"
		    "        9s 90.00% 90.00%         9s 90.00%  hot\n");
	assert_text(&table, "count", 1,
		    "Showing nodes accounting for 9000000000, 90.00% of 10000000000 total\n"
		    "Showing top 1 nodes out of 4\n"
		    "      flat  flat%   sum%        cum   cum%\n"
		    "9000000000 90.00% 90.00% 9000000000 90.00%  hot\n");
	struct table nothing = {0};
	assert_text(&nothing, "bytes", 0,
		    "Showing nodes accounting for 0, 0% of 0 total\n"
		    "      flat  flat%   sum%        cum   cum%\n");
}

/* 1,400 samples of 199 Hz, which is 7,035.175 ms; go tool pprof prints 7035.18ms. */
static void test_text_rounds_as_pprof(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "nanoseconds");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	test_add_stack(profile, "hot", 7035175000);
	test_add_stack(profile, "cold", 5025125);
	build(profile, &flame, &table);
	assert_text(&table, "nanoseconds", 0,
		    "Showing nodes accounting for 7040.20ms, 100% of 7040.20ms total\n"
		    "      flat  flat%   sum%        cum   cum%\n"
		    " 7035.18ms 99.93% 99.93%  7035.18ms 99.93%  hot\n"
		    "    5.03ms 0.071%   100%     5.03ms 0.071%  cold\n");
}

/* The CPU profile that pprof's own tests print, and the text that they expect. */
static void test_golden_text(void **state)
{
	const char *directory = getenv("WICK_TEST_DATA");
	char path[4096];
	_cleanup_(buffer_release) struct buffer expected = {0}, got = {0};
	buffer_init(&expected, MIB);
	buffer_init(&got, MIB);
	snprintf(path, sizeof(path), "%s/pprof/google-driver/pprof.cpu.flat.functions.text",
		 directory ? directory : "../shared/data");
	if (io_read_file(path, MIB, &expected, NULL) < 0) {
		print_message("skipped: no %s\n", path);
		skip();
	}
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "milliseconds");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	test_add_stack(profile, "line3002<line3001<line3000;line2001<line2000;line1000", 1000);
	test_add_stack(profile, "line3001<line3000;line1000", 100);
	test_add_stack(profile, "line3002<line3000;line2001<line2000", 10);
	test_add_stack(profile, "line3002<line3000;line3002<line3001<line3000", 10);
	build(profile, &flame, &table);
	assert_int_equal(table_write_text(&table, "milliseconds", 0, &got, NULL), 0);
	assert_string_equal(buffer_string(&got), buffer_string(&expected));
}

static void test_json(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	_cleanup_(buffer_release) struct buffer text = {0};
	test_add_stack(profile, "main;a", 5);
	test_add_stack(profile, "main;b", 2);
	build(profile, &flame, &table);
	buffer_init(&text, MIB);
	struct json_writer json = {.out = &text};
	table_write_json(&table, 2, &json);
	assert_int_equal(json_finish(&json, NULL), 0);
	json_t *root = json_loads(buffer_string(&text), 0, NULL);
	assert_non_null(root);
	assert_int_equal(json_integer_value(json_object_get(root, "total")), 7);
	assert_int_equal(json_integer_value(json_object_get(root, "count")), 3);
	json_t *rows = json_object_get(root, "rows");
	assert_int_equal(json_array_size(rows), 2);
	json_t *first = json_array_get(rows, 0);
	assert_string_equal(json_string_value(json_object_get(first, "name")), "a");
	assert_int_equal(json_integer_value(json_object_get(first, "self")), 5);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, 1), "total")), 2);
	json_decref(root);
}

static void test_lines(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table table = {0};
	_cleanup_(buffer_release) struct buffer text = {0};
	test_add_function_line(profile, "a", 12, 15, 5);
	test_add_function_line(profile, "b", 0, 31, 4);
	test_add_stack(profile, "c", 3);
	build(profile, &flame, &table);
	assert_int_equal(row_named(&table, "a")->line, 12);
	assert_int_equal(row_named(&table, "b")->line, 31);
	assert_int_equal(row_named(&table, "c")->line, 0);
	buffer_init(&text, MIB);
	struct json_writer json = {.out = &text};
	table_write_json(&table, 1, &json);
	assert_int_equal(json_finish(&json, NULL), 0);
	assert_non_null(strstr(buffer_string(&text), "\"file\":\"file.c\",\"line\":12,"));
}

static void check_same_rows(const struct table *tree, const struct table *table)
{
	assert_int_equal(table->total, tree->total);
	assert_int_equal(table->count, tree->count);
	for (size_t i = 0; i < table->count; i++) {
		const struct table_row *a = &tree->rows[i], *b = &table->rows[i];
		assert_string_equal(b->name, a->name);
		assert_int_equal(b->self, a->self);
		assert_int_equal(b->total, a->total);
		assert_int_equal(b->line, a->line);
		assert_int_equal(b->called, a->called);
		assert_true(b->inlined || !a->inlined);
		assert_true(b->frame_type >= a->frame_type);
	}
}

/* A table that is made without a tree is the same as that of the tree. */
static void test_of_profile(void **state)
{
	struct test_shape several = shape;
	several.types = 2;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		assert_int_equal(test_random_profile(seed, &several, &profile, NULL), 0);
		for (unsigned i = 0; i < 8; i++) {
			bool by_name = i & 1;
			size_t type = i >> 1 & 1;
			enum flame_unnamed unnamed = i >> 2 ? FLAME_UNNAMED_BY_BINARY : FLAME_UNNAMED_BY_ADDRESS;
			_cleanup_(flame_freep) struct flame *flame = NULL;
			_cleanup_(table_release) struct table tree = {0};
			_cleanup_(table_release) struct table table = {0};
			assert_int_equal(flame_build(profile, type, unnamed, &flame, NULL), 0);
			assert_int_equal((by_name ? table_build_by_name : table_build)(flame, &tree, NULL), 0);
			assert_int_equal(table_build_profile(profile, type, unnamed, by_name, &table, NULL), 0);
			check_same_rows(&tree, &table);
			assert_int_equal(table.sample_count, flame->sample_count);
			for (size_t k = 0; k < table.count && !by_name; k++) {
				assert_string_equal(table.rows[k].file, tree.rows[k].file);
				assert_string_equal(table.rows[k].binary, tree.rows[k].binary);
			}
		}
	}
}

static void test_of_profile_without_types(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(table_release) struct table table = {0};
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(table_build_profile(profile, 0, FLAME_UNNAMED_BY_ADDRESS, false, &table, NULL), 0);
	assert_int_equal(table.count, 0);
	assert_int_equal(table.total, 0);
}

/* Totals stop at the limit of their type, and what passes it on the way does not. */
static void test_of_profile_saturates(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = test_new_profile("cpu", "count");
	_cleanup_(table_release) struct table table = {0};
	test_add_stack(profile, "main;f", INT64_MAX);
	test_add_stack(profile, "main;f;g", 5);
	test_add_stack(profile, "main;h", -3);
	assert_int_equal(table_build_profile(profile, 0, FLAME_UNNAMED_BY_ADDRESS, false, &table, NULL), 0);
	assert_int_equal(table.total, INT64_MAX);
	assert_int_equal(row_named(&table, "main")->total, INT64_MAX);
	assert_int_equal(row_named(&table, "f")->total, INT64_MAX);
	assert_int_equal(row_named(&table, "g")->total, 5);
	assert_int_equal(row_named(&table, "h")->self, -3);
}

static int build_without_tree(void *context)
{
	struct error err = {0};
	struct table table = {0};
	int r = table_build_profile(context, 0, FLAME_UNNAMED_BY_ADDRESS, false, &table, &err);
	assert_int_equal(err.code, r);
	table_release(&table);
	return r;
}

static void test_allocation_failures(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct test_shape tiny = shape;
	tiny.samples = 12;
	assert_int_equal(test_random_profile(1, &tiny, &profile, NULL), 0);
	assert_true(test_each_allocation(build_without_tree, profile) > 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recursion_counts_once),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_one_name_of_two_binaries),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_text_rounds_as_pprof),
		cmocka_unit_test(test_golden_text),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_of_profile),
		cmocka_unit_test(test_of_profile_without_types),
		cmocka_unit_test(test_of_profile_saturates),
		cmocka_unit_test(test_allocation_failures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
