/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "render/listing.h"
#include "render/test_render.h"

struct test_line {
	const char *function, *file;
	int64_t line;
};

/* lines: the innermost first, up to a NULL function. */
static uint32_t location(struct profile *profile, uint32_t mapping, uint64_t address, const struct test_line *lines)
{
	struct profile_line all[8] = {{0}};
	size_t count = 0;
	uint32_t id;
	for (; lines && lines[count].function; count++) {
		struct profile_function function = {.name = test_string(profile, lines[count].function),
						    .file_name = test_string(profile, lines[count].file),
						    .start_line = 10};
		assert_int_equal(profile_add_function(profile, &function, &all[count].function, NULL), 0);
		all[count].line = lines[count].line;
	}
	struct profile_location l = {.mapping = mapping, .address = address};
	assert_int_equal(profile_add_location(profile, &l, all, count, &id, NULL), 0);
	return id;
}

static uint32_t mapping(struct profile *profile, const char *path, const char *build_id)
{
	struct profile_mapping m = {.start = 0x1000,
				    .limit = 0x9000,
				    .offset = 0x100,
				    .file_name = test_string(profile, path),
				    .build_id = test_string(profile, build_id)};
	uint32_t id;
	assert_int_equal(profile_add_mapping(profile, &m, &id, NULL), 0);
	return id;
}

static void sample(struct profile *profile, int64_t value, const uint32_t *leaf_first, size_t count)
{
	struct profile_sample s = {0};
	assert_int_equal(profile_add_stack_leaf_first(profile, leaf_first, count, &s.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &s, &value, NULL), 0);
}

#define LINES(...) ((const struct test_line[]){__VA_ARGS__, {NULL}})
#define SAMPLE(profile, value, ...)                                                                                            \
	sample(profile, value, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

/* main calls hot at line 30, hot has `inner` inlined at line 12, and calls itself at line 14. */
static struct profile *example(void)
{
	struct profile *p = test_new_profile("cpu", "nanoseconds");
	uint32_t binary = mapping(p, "/bin/a", "aa11"), other = mapping(p, "/bin/b", "bb22");
	uint32_t in_main = location(p, binary, 0x2000, LINES({"main", "/s/m.c", 30}));
	uint32_t loop = location(p, binary, 0x3000, LINES({"inner", "/s/i.h", 5}, {"hot(int)", "/s/h.c", 12}));
	uint32_t body = location(p, binary, 0x3004, LINES({"hot(int)", "/s/h.c", 13}));
	uint32_t again = location(p, binary, 0x3008, LINES({"hot(int)", "/s/h.c", 14}));
	uint32_t elsewhere = location(p, other, 0x3000, LINES({"hot(int)", "/t/h.c", 12}));
	uint32_t foreign = location(p, other, 0x4000, LINES({"inner", "/s/i.h", 6}, {"cold", "/t/c.c", 1}));
	SAMPLE(p, 100, loop, in_main);
	SAMPLE(p, 20, body, in_main);
	SAMPLE(p, 3, body, again, again, in_main);
	SAMPLE(p, 1000, elsewhere);
	SAMPLE(p, 5000, foreign, body, in_main);
	SAMPLE(p, 7, in_main);
	return p;
}

static const struct listing_line *line_of(const struct listing_lines *lines, uint32_t line)
{
	for (size_t i = 0; i < lines->line_count; i++)
		if (lines->lines[i].line == line)
			return &lines->lines[i];
	fail_msg("no line %u", line);
	return NULL;
}

static void check_line(const struct listing_lines *lines, uint32_t line, int64_t self, int64_t total)
{
	assert_int_equal(line_of(lines, line)->self, self);
	assert_int_equal(line_of(lines, line)->total, total);
}

static void test_lines(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	struct listing_options options = {.function = "hot(int)"};
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	assert_string_equal(lines.file, "/s/h.c");
	assert_string_equal(lines.build_id, "aa11");
	assert_string_equal(lines.binary, "/bin/a");
	assert_int_equal(lines.start_line, 10);
	assert_int_equal(lines.line_count, 3);
	check_line(&lines, 12, 0, 100); /* the inlined function has the self value */
	check_line(&lines, 13, 23, 5023);
	check_line(&lines, 14, 0, 3); /* twice in one stack, counted once */
	assert_int_equal(lines.self, 23);
	assert_int_equal(lines.total, 5123);
	assert_int_equal(lines.profile_total, 6130);
	assert_int_equal(lines.file_count, 2);
	assert_string_equal(lines.files[1].file, "/t/h.c");
	assert_int_equal(lines.files[1].total, 1000);
}

static void test_lines_of_an_inlined_function(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0}, one = {0};
	struct listing_options options = {.function = "inner"};
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	assert_int_equal(lines.line_count, 2);
	check_line(&lines, 5, 100, 100);
	check_line(&lines, 6, 5000, 5000);
	assert_string_equal(lines.build_id, "bb22");
	options.build_id = "aa11";
	assert_int_equal(listing_build_lines(p, &options, &one, NULL), 0);
	assert_int_equal(one.line_count, 1);
	check_line(&one, 5, 100, 100);
	assert_string_equal(one.build_id, "aa11");
}

static void test_choosing_a_file(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	struct error err = {0};
	struct listing_options options = {.function = "hot(int)", .file = "t/h.c"};
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	assert_string_equal(lines.file, "/t/h.c");
	check_line(&lines, 12, 1000, 1000);
	options.file = "h.cc";
	listing_lines_release(&lines);
	assert_int_equal(listing_build_lines(p, &options, &lines, &err), -ENOENT);
	assert_non_null(strstr(err.message, "/s/h.c"));
}

static int find(struct profile *p, const char *name, const char *expected)
{
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	struct listing_options options = {.function = name};
	int r = listing_build_lines(p, &options, &lines, NULL);
	if (r == 0)
		assert_string_equal(lines.function, expected);
	return r;
}

static void test_short_names(void **state)
{
	static const char *const names[][2] = {
		{"int ns::Map<int, Cmp<int> >::find<char>(char const*) const", "ns::Map::find"},
		{"(anonymous namespace)::run(void (*)(int))", "(anonymous namespace)::run"},
		{"bool operator<(A const&, B const&)", "operator<"},
		{"std::function<void (int)>::operator()(int) const", "std::function::operator()"},
		{"f(int) [clone .cold]", "f"},
		{"main.(*Tree).Walk", "main.(*Tree).Walk"},
		{"<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
	};
	_cleanup_(profile_freep) struct profile *p = test_new_profile("cpu", "count");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		SAMPLE(p, 1, location(p, 0, i, LINES({names[i][0], "a.c", 1})));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		assert_int_equal(find(p, names[i][0], names[i][0]), 0);
		assert_int_equal(find(p, names[i][1], names[i][0]), 0);
	}
	SAMPLE(p, 1, location(p, 0, 99, LINES({"f(long)", "a.c", 1})));
	assert_int_equal(find(p, "f", NULL), -EINVAL);
	assert_int_equal(find(p, "f(long)", "f(long)"), 0);
	assert_int_equal(find(p, "", NULL), -ENOENT);
	assert_int_equal(find(p, "absent", NULL), -ENOENT);
}

static void check_address(const struct listing_binary *binary, size_t index, uint64_t offset, int64_t self, int64_t total)
{
	assert_true(index < binary->address_count);
	assert_int_equal(binary->addresses[index].offset, offset);
	assert_int_equal(binary->addresses[index].self, self);
	assert_int_equal(binary->addresses[index].total, total);
}

static void test_addresses(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_addresses_release) struct listing_addresses all = {0}, part = {0}, none = {0};
	struct listing_options options = {.function = "hot(int)"};
	assert_int_equal(listing_build_addresses(p, &options, &all, NULL), 0);
	assert_int_equal(all.binary_count, 2);
	assert_string_equal(all.binaries[0].build_id, "aa11");
	assert_false(all.binaries[0].inlined);
	assert_int_equal(all.binaries[0].address_count, 3);
	check_address(&all.binaries[0], 0, 0x2100, 100, 100);
	check_address(&all.binaries[0], 1, 0x2104, 23, 5023);
	check_address(&all.binaries[0], 2, 0x2108, 0, 3);
	assert_int_equal(all.binaries[0].self, 123);
	assert_int_equal(all.binaries[0].total, 5123);
	assert_int_equal(all.binaries[1].total, 1000);
	options.build_id = "aa11";
	assert_int_equal(listing_build_range(p, &options, "", 0x1000, 0x2104, &part, NULL), 0);
	assert_int_equal(part.binary_count, 1);
	assert_int_equal(part.binaries[0].address_count, 2);
	check_address(&part.binaries[0], 0, 0x1100, 7, 5130);
	check_address(&part.binaries[0], 1, 0x2100, 100, 100);
	options.build_id = "cc";
	assert_int_equal(listing_build_range(p, &options, "", 0, UINT64_MAX, &none, NULL), 0);
	assert_int_equal(none.binary_count, 0);
	assert_int_equal(listing_build_addresses(p, &options, &none, NULL), -ENOENT);
}

static void test_inlined_only(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_addresses_release) struct listing_addresses all = {0};
	struct listing_options options = {.function = "inner"};
	assert_int_equal(listing_build_addresses(p, &options, &all, NULL), 0);
	assert_int_equal(all.binary_count, 2);
	assert_true(all.binaries[0].inlined && all.binaries[1].inlined);
}

/* What an offset counts from depends on it. */
static void test_code_of_the_kernel(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_addresses_release) struct listing_addresses both = {0}, range = {0};
	struct listing_options options = {.function = "hot(int)"};
	uint32_t id;
	struct profile_location in_kernel = {
		.mapping = mapping(p, "[kernel]", "cc33"), .address = 0x2000, .frame_type = PROFILE_FRAME_KERNEL};
	struct profile_line line = p->lines[p->locations[3].line_first]; /* of `body` */
	assert_int_equal(profile_add_location(p, &in_kernel, &line, 1, &id, NULL), 0);
	SAMPLE(p, 100000, id);
	assert_int_equal(listing_build_addresses(p, &options, &both, NULL), 0);
	assert_string_equal(both.binaries[0].build_id, "cc33");
	assert_true(both.binaries[0].kernel);
	assert_false(both.binaries[1].kernel);
	options.build_id = "cc33";
	assert_int_equal(listing_build_range(p, &options, "[kernel]", 0, UINT64_MAX, &range, NULL), 0);
	assert_int_equal(range.binary_count, 1);
	assert_true(range.binaries[0].kernel);
}

/* One location may have as many lines as its sender likes. Looking for each among those before takes minutes here. */
static void test_endless_location(void **state)
{
	_cleanup_(profile_freep) struct profile *p = test_new_profile("cpu", "nanoseconds");
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	const uint32_t count = 1000000;
	struct profile_function function = {.name = test_string(p, "f"), .file_name = test_string(p, "f.c")};
	struct profile_line *all = mem_zalloc_array(count, sizeof(*all));
	struct listing_options options = {.function = "f"};
	uint32_t f, twice, once;
	assert_non_null(all);
	assert_int_equal(profile_add_function(p, &function, &f, NULL), 0);
	for (uint32_t i = 0; i < count; i++)
		all[i] = (struct profile_line){.function = f, .line = i / 2 + 1};
	assert_int_equal(profile_add_location(p, &(struct profile_location){.address = 1}, all, count, &twice, NULL), 0);
	assert_int_equal(profile_add_location(p, &(struct profile_location){.address = 2}, all, 4, &once, NULL), 0);
	mem_free(all);
	SAMPLE(p, 3, twice);
	SAMPLE(p, 5, once, twice);
	SAMPLE(p, 7, once);
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	assert_int_equal(lines.line_count, count / 2);
	check_line(&lines, 1, 15, 15);
	check_line(&lines, 2, 0, 15);
	check_line(&lines, 3, 0, 8);
	check_line(&lines, count / 2, 0, 8);
}

/* The same by looking at every frame of every sample. */
static void model(const struct profile *p, const char *name, const char *file, int64_t line, int64_t *ret_self,
		  int64_t *ret_total)
{
	*ret_self = *ret_total = 0;
	for (size_t i = 0; i < p->sample_count; i++) {
		bool found = false;
		int64_t value = p->values[i * p->sample_type_count];
		for (uint32_t at = p->samples[i].stack; at; at = p->stacks[at].parent) {
			const struct profile_location *l = &p->locations[p->stacks[at].location];
			for (uint32_t k = 0; k < l->line_count; k++) {
				const struct profile_line *entry = &p->lines[l->line_first + k];
				const struct profile_function *f = &p->functions[entry->function];
				if (strcmp(profile_string(p, f->name), name) != 0 ||
				    strcmp(profile_string(p, f->file_name), file) != 0 || (line >= 0 && entry->line != line))
					continue;
				found = true;
				if (k == 0 && at == p->samples[i].stack)
					*ret_self += value;
			}
		}
		*ret_total += found ? value : 0;
	}
}

static void check_model(const struct profile *p, const char *name, const char *file)
{
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	struct listing_options options = {.function = name, .file = file};
	if (listing_build_lines(p, &options, &lines, NULL) == -ENOENT)
		return;
	int64_t self, total, sum = 0;
	size_t at = 0;
	model(p, name, file, -1, &self, &total);
	assert_int_equal(lines.self, self);
	assert_int_equal(lines.total, total);
	for (int64_t line = 0; line < 3; line++) {
		model(p, name, file, line, &self, &total);
		if (self == 0 && total == 0)
			continue;
		assert_true(at < lines.line_count);
		assert_int_equal(lines.lines[at].line, line);
		assert_int_equal(lines.lines[at].self, self);
		assert_int_equal(lines.lines[at].total, total);
		sum += self;
		at++;
	}
	assert_int_equal(at, lines.line_count);
	assert_int_equal(sum, lines.self);
}

static void test_model(void **state)
{
	const struct test_shape shape = {
		.binaries = 3, .functions = 4, .addresses = 20, .samples = 120, .depth = 12, .types = 2};
	for (uint64_t seed = 0; seed < 40; seed++) {
		_cleanup_(profile_freep) struct profile *p = NULL;
		assert_int_equal(test_random_profile(seed, &shape, &p, NULL), 0);
		for (unsigned i = 0; i < 4; i++) {
			char name[16];
			snprintf(name, sizeof(name), "function%u", i);
			check_model(p, name, "a.c");
			check_model(p, name, "b.c");
		}
	}
}

/* Sums over binaries and addresses are those of a model, too. */
static void test_model_of_addresses(void **state)
{
	const struct test_shape shape = {.binaries = 3, .functions = 4, .addresses = 5, .samples = 150, .depth = 9, .types = 1};
	for (uint64_t seed = 0; seed < 40; seed++) {
		_cleanup_(profile_freep) struct profile *p = NULL;
		_cleanup_(listing_addresses_release) struct listing_addresses all = {0};
		struct listing_options options = {.function = "function1"};
		int64_t self = 0, expected = 0;
		assert_int_equal(test_random_profile(seed, &shape, &p, NULL), 0);
		assert_int_equal(listing_build_addresses(p, &options, &all, NULL), 0);
		for (size_t i = 0; i < p->sample_count; i++) {
			const struct profile_location *l = &p->locations[p->stacks[p->samples[i].stack].location];
			bool found = false;
			for (uint32_t k = 0; k < l->line_count && l->mapping; k++)
				found |= strcmp(profile_string(p, p->functions[p->lines[l->line_first + k].function].name),
						"function1") == 0;
			expected += found ? p->values[i] : 0;
		}
		for (size_t i = 0; i < all.binary_count; i++)
			self += all.binaries[i].self;
		assert_int_equal(self, expected);
	}
}

/* ---- writing ---- */

static const char source_text[] =
	"1\n2\n3\n4\n5\n6\n7\n8\n9\nint hot(int n)\n{\n\tloop;\r\n\tbody \033[31m;\n\tagain;\n}\n16\n17\n18\n"
	"19\n20\n21\n22\n23\n24\n";

static void test_source_json(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = "hot(int)"};
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	struct listing_source source = {
		.lines = &lines, .from = "local file", .text = bytes_of_string(source_text), .end_line = 15};
	buffer_init(&out, MIB);
	struct json_writer json = {.out = &out};
	json_begin_object(&json);
	listing_source_write_json(&source, &json);
	json_end_object(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	json_t *root = json_loads(buffer_string(&out), 0, NULL), *rows = json_object_get(root, "lines");
	assert_non_null(root);
	assert_int_equal(json_array_size(rows), 14); /* 6 .. 19: the function, and 4 around */
	json_t *loop = json_array_get(rows, 6);
	assert_int_equal(json_integer_value(json_object_get(loop, "line")), 12);
	assert_string_equal(json_string_value(json_object_get(loop, "text")), "\tloop;");
	assert_int_equal(json_integer_value(json_object_get(loop, "total")), 100);
	assert_int_equal(json_integer_value(json_object_get(root, "total")), 6130);
	assert_int_equal(json_integer_value(json_object_get(root, "function_total")), 5123);
	assert_int_equal(json_array_size(json_object_get(root, "files")), 2);
	json_decref(root);
}

static void test_source_without_text(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = "hot(int)"};
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	/* A text that ends before the last sampled line: the source has changed since. */
	struct listing_source none = {.lines = &lines, .from = "", .why = "nowhere"},
			      cut = {.lines = &lines, .from = "local file", .text = bytes_of_string("a\nb\n")};
	buffer_init(&out, MIB);
	struct json_writer json = {.out = &out};
	json_begin_array(&json);
	json_begin_object(&json);
	listing_source_write_json(&none, &json);
	json_end_object(&json);
	json_begin_object(&json);
	listing_source_write_json(&cut, &json);
	json_end_object(&json);
	json_end_array(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	json_t *root = json_loads(buffer_string(&out), 0, NULL), *rows = json_object_get(json_array_get(root, 0), "lines");
	assert_int_equal(json_array_size(rows), 3);
	assert_true(json_is_null(json_object_get(json_array_get(rows, 0), "text")));
	assert_string_equal(json_string_value(json_object_get(json_array_get(root, 0), "why")), "nowhere");
	assert_int_equal(json_array_size(json_object_get(json_array_get(root, 1), "lines")), 3);
	json_decref(root);
}

static void test_endless_text(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = "hot(int)"};
	static char text[1000000];
	size_t count = 0;
	memset(text, '\n', sizeof(text));
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	lines.lines[lines.line_count - 1].line = 999999; /* the last sample is at the end of it */
	struct listing_source source = {
		.lines = &lines, .from = "", .text = {(uint8_t *)text, sizeof(text)}, .first = 1, .last = UINT32_MAX};
	buffer_init(&out, 64 * MIB);
	assert_int_equal(listing_source_write_text(&source, false, &out, NULL), 0);
	for (const char *at = buffer_string(&out); (at = strchr(at, '\n')); at++)
		count++;
	assert_int_equal(count, 8 + 20000 + 3); /* the head, and lines with samples, whatever comes before them */
	assert_non_null(strstr(buffer_string(&out), "  999999  "));
}

static void test_source_text(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = "hot(int)"};
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	struct listing_source source = {
		.lines = &lines, .from = "local file", .text = bytes_of_string(source_text), .first = 11, .last = 15};
	buffer_init(&out, MIB);
	assert_int_equal(listing_source_write_text(&source, false, &out, NULL), 0);
	assert_string_equal(buffer_string(&out), "function  hot(int)\n"
						 "file      /s/h.c\n"
						 "binary    /bin/a\n"
						 "text      local file\n"
						 "cost      self 23ns (0.38%), total 5.12us (83.57%) of 6.13us\n"
						 "also in   /t/h.c\n"
						 "\n"
						 "        self      total    line\n"
						 "           .          .      11  {\n"
						 "           .      100ns      12          loop;\n"
						 ">       23ns     5.02us      13          body ?[31m;\n"
						 "           .        3ns      14          again;\n"
						 "           .          .      15  }\n");
	buffer_clear(&out);
	assert_int_equal(listing_source_write_text(&source, true, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "\033[31m>"));
}

/* Text that drives a terminal, or that shows other code than there is. */
static void test_hostile_text(void **state)
{
	_cleanup_(profile_freep) struct profile *p = test_new_profile("cpu", "nanoseconds");
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = "f\xc2\x9b\x32J"};
	SAMPLE(p, 10,
	       location(p, 0, 1,
			LINES({"f\xc2\x9b\x32J",
			       "\xe2\x80\xae"
			       "c.f",
			       1})));
	assert_int_equal(listing_build_lines(p, &options, &lines, NULL), 0);
	struct listing_source source = {
		.lines = &lines,
		.from = "local file",
		.text = bytes_of_string("\tif (a) /*\xe2\x80\xae \xe2\x81\xa6*/\xc2\x85\tb\xc3\xa4\te;\t"),
		.first = 1,
		.last = 1};
	buffer_init(&out, MIB);
	assert_int_equal(listing_source_write_text(&source, false, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "function  f?2J\n"));
	assert_non_null(strstr(buffer_string(&out), "file      ?c.f\n"));
	assert_non_null(strstr(buffer_string(&out), "       1          if (a) /*? ?*/? b\xc3\xa4      e;      \n"));
}

static void test_code(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	_cleanup_(listing_addresses_release) struct listing_addresses all = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = "hot(int)"};
	static const char *const names[] = {"inner", "hot(int)"};
	const struct listing_instruction instructions[] = {
		{.address = 0x2100,
		 .bytes = bytes_of_string("\x90"),
		 .text = "nop",
		 .self = 100,
		 .total = 100,
		 .file = "/s/i.h",
		 .line = 5,
		 .functions = names,
		 .function_count = 2},
		{.address = 0x2101,
		 .bytes = bytes_of_string("\xc3"),
		 .text = "ret",
		 .file = "/s/h.c",
		 .line = 13,
		 .functions = names + 1,
		 .function_count = 1},
	};
	assert_int_equal(listing_build_addresses(p, &options, &all, NULL), 0);
	struct listing_code code = {.addresses = &all,
				    .symbol = "",
				    .from = "debuginfod",
				    .self = 100,
				    .total = 100,
				    .instructions = instructions,
				    .count = 2};
	buffer_init(&out, MIB);
	assert_int_equal(listing_code_write_text(&code, false, &out, NULL), 0);
	assert_non_null(strstr(buffer_string(&out), "                         i.h:5  inlined inner\n"
						    ">      100ns      100ns      2100  nop\n"
						    "                         h.c:13\n"
						    "           .          .      2101  ret\n"));
	buffer_clear(&out);
	struct json_writer json = {.out = &out};
	json_begin_object(&json);
	listing_code_write_json(&code, &json);
	json_end_object(&json);
	assert_int_equal(json_finish(&json, NULL), 0);
	json_t *root = json_loads(buffer_string(&out), 0, NULL),
	       *first = json_array_get(json_object_get(root, "instructions"), 0);
	assert_string_equal(json_string_value(json_object_get(first, "address")), "0x2100");
	assert_string_equal(json_string_value(json_object_get(first, "bytes")), "90");
	assert_int_equal(json_array_size(json_object_get(first, "functions")), 2);
	assert_int_equal(json_array_size(json_object_get(root, "binaries")), 2);
	json_decref(root);
}

struct wanted {
	const struct profile *profile;
	const char *function;
};

static int build_everything(void *context)
{
	const struct wanted *wanted = context;
	const struct profile *p = wanted->profile;
	_cleanup_(listing_lines_release) struct listing_lines lines = {0};
	_cleanup_(listing_addresses_release) struct listing_addresses addresses = {0}, range = {0};
	_cleanup_(buffer_release) struct buffer out = {0};
	struct listing_options options = {.function = wanted->function};
	buffer_init(&out, MIB);
	int r = listing_build_lines(p, &options, &lines, NULL);
	if (r == 0)
		r = listing_build_addresses(p, &options, &addresses, NULL);
	options.build_id = "aa11";
	if (r == 0)
		r = listing_build_range(p, &options, "", 0, UINT64_MAX, &range, NULL);
	struct listing_source source = {.lines = &lines, .from = "", .text = bytes_of_string(source_text)};
	return r < 0 ? r : listing_source_write_text(&source, true, &out, NULL);
}

static void test_faults(void **state)
{
	_cleanup_(profile_freep) struct profile *p = example();
	test_each_allocation(build_everything, &(struct wanted){p, "hot(int)"});
	test_each_allocation(build_everything, &(struct wanted){p, "hot"});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_lines_of_an_inlined_function),
		cmocka_unit_test(test_choosing_a_file),
		cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_inlined_only),
		cmocka_unit_test(test_code_of_the_kernel),
		cmocka_unit_test(test_endless_location),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_model_of_addresses),
		cmocka_unit_test(test_source_json),
		cmocka_unit_test(test_source_without_text),
		cmocka_unit_test(test_endless_text),
		cmocka_unit_test(test_source_text),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
