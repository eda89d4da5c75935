/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "render/report.h"

/* What google/pprof makes of these names (internal/graph). */
static void test_short_names(void **state)
{
	static const char *const cases[][2] = {
		{"main.main", "main.main"},
		{"path/to/package1.object.function1", "package1.object.function1"},
		{"github.com/x/y/v2/z.F", "z.F"},
		{"github.com/x/y/v2.(*T).F", "y.(*T).F"},
		{"github.com/x/y/v1.F", "v1.F"},
		{"a/b", "a/b"},
		{"/a.b", "/a.b"},
		{"java.util.concurrent.FutureTask.run(java.lang.Runnable)", "FutureTask.run"},
		{"com.example.Main$1.<init>", "Main$1.<init>"},
		{"com.example.main", "com.example.main"},
		{"foo::Bar::baz", "Bar::baz"},
		{"foo::bar::Baz::~Baz(int)", "Baz::~Baz"},
		{"foo::Bar::baz<int, char>", "Bar::baz<int, char>"},
		{"Bar::baz", "Bar::baz"},
		{"(anonymous namespace)::Bar::Foo", "Bar::Foo"},
		{"foo::_Impl::run::__lambda", "_Impl::run"},
		{"", ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buffer out;
		buffer_init(&out, 4096);
		assert_int_equal(graph_append_short_name(&out, bytes_of_string(cases[i][0])), 0);
		assert_string_equal(buffer_string(&out), cases[i][1]);
		buffer_release(&out);
	}
}

/* As Go's filepath.Clean. */
static void test_clean_paths(void **state)
{
	static const char *const cases[][2] = {
		{"a//b/./c", "a/b/c"},	{"a/b/../c", "a/c"},
		{"/../a", "/a"},	{"../a/..", ".."},
		{"a/..", "."},		{"/", "/"},
		{"/a/", "/a"},		{"./a", "a"},
		{"../../a", "../../a"}, {"", ""},
		{"/..", "/"},		{"a/../../b", "../b"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buffer out;
		buffer_init(&out, 4096);
		assert_int_equal(graph_append_clean_path(&out, bytes_of_string(cases[i][0])), 0);
		assert_string_equal(buffer_string(&out), cases[i][1]);
		buffer_release(&out);
	}
}

static void test_trim_path(void **state)
{
	static const char *const cases[][4] = {
		{"/some/remote/my-project/foo/bar.c", NULL, "/my/local/my-project", "foo/bar.c"},
		{"/build/src/a.c", "/other:/build/", NULL, "src/a.c"},
		{"/buildx/a.c", "/build", NULL, "/buildx/a.c"},
		{"/proc/self/cwd/./a.c", NULL, NULL, "a.c"},
		{"/proc/self/cwd/a.c", "/x", NULL, "a.c"},
		{"a.c", "", "", "a.c"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bytes path = graph_trim_path(bytes_of_string(cases[i][0]), cases[i][1], cases[i][2]);
		assert_true(bytes_equal_string(path, cases[i][3]));
	}
}

/* Neither a unit nor a name ends the quotes that it stands in. */
static void test_dot_quotes(void **state)
{
	static const char hostile[] = "x\" URL=\"y\\";
	struct report_options options = {.mode = REPORT_DOT, .detail.functions = true, .divide_by = 1, .unit = "minimum"};
	struct profile *profile;
	struct profile_value_type type;
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_sample sample = {0};
	struct report report;
	struct buffer out;
	uint32_t location;
	int64_t value = 5;
	(void)state;
	buffer_init(&out, 65536);
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "cpu", &type.type, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, hostile, &type.unit, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type.type, type.unit, NULL), 0);
	function.name = type.unit;
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &(struct profile_location){0}, &line, 1, &location, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, location, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	assert_int_equal(report_begin(&report, profile, &options, NULL), 0);
	assert_int_equal(report_write(&report, &out, NULL), 0);
	const char *text = buffer_string(&out);
	assert_non_null(strstr(text, "URL="));
	bool quoted = false;
	for (const char *at = text; *at; at++) {
		if (*at == '\\' && at[1])
			at++;
		else if (*at == '"')
			quoted = !quoted;
		else if (!quoted)
			assert_int_not_equal(strncmp(at, "URL=", 4), 0);
	}
	assert_false(quoted);
	report_release(&report);
	profile_free(profile);
	buffer_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_clean_paths),
		cmocka_unit_test(test_trim_path),
		cmocka_unit_test(test_dot_quotes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
