/* SPDX-License-Identifier: Apache-2.0 */
/* Which format an output gets, what it is called, and that what fails leaves no file. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "cmd/convert.h"
#include "cmd/test_cmd.h"
#include "codec/compress.h"
#include "format/format.h"
#include "profile/markers.h"
#include "render/test_render.h"

static void test_check(void **state)
{
	static const struct {
		const char *path, *format, *message; /* NULL = it is taken */
	} cases[] = {
		{"a.pb.gz", NULL, NULL},
		{"a.svg", NULL, NULL},
		{"a.html", NULL, NULL},
		{"a.top", NULL, NULL},
		{"a.folded", NULL, NULL},
		{"a.folded.gz", NULL, NULL},
		{"a.otlp", NULL, NULL},
		{"a.txt", "pprof", NULL},
		{"-", "folded", NULL},
		{"a.svg", "top", NULL},		/* the format says */
		{"a.otlp.json", "pprof", NULL}, /* whatever the name */
		{"a", NULL, "cannot determine the format of 'a' from its name; use the extension .pb.gz"},
		{"-", NULL, "cannot determine the format of '-'"},
		{"", NULL, "cannot determine the format of ''"},
		{"a.xyz", NULL, "cannot determine the format"},
		{"a.svg/b", NULL, "cannot determine the format"},
		{"a.pb.gz", "nothing", "'nothing' is not a writable format; choose pprof"},
		{"a.pb.gz", "", "'' is not a writable format"},
		{"a.pb.gz", "perf", "'perf' is not a writable format"}, /* it is read only */
		{"a.pb.zst", NULL, "cannot write 'a.pb.zst': zstd is supported for reading only; use .gz"},
		{"a.zst", "pprof", "zstd is supported for reading only"},
		{"a.otlp.json", NULL, "OTLP as JSON is supported for reading only; use .otlp"},
		{"a.otlp.json.gz", NULL, "OTLP as JSON is supported for reading only"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct error err = {0};
		int r = output_check(cases[i].path, cases[i].format, &err);
		if (r != (cases[i].message ? -EINVAL : 0))
			fail_msg("%s: %d %s", cases[i].path, r, err.message);
		if (cases[i].message && !strstr(err.message, cases[i].message))
			fail_msg("%s: %s", cases[i].path, err.message);
	}
}

/* Lists end in "or", and each name of a list is one that is taken. */
static void test_names(void **state)
{
	char names[OUTPUT_NAMES_MAX], *rest = names, *name;
	size_t count = 0;
	(void)state;
	assert_ptr_equal(output_format_names(names), names);
	char *last = strstr(names, " or ");
	assert_non_null(last);
	assert_null(strstr(last + 1, " or "));
	memmove(last, ",", 1);
	memmove(last + 1, last + 3, strlen(last + 3) + 1);
	for (; (name = strsep(&rest, ",")); count++)
		assert_int_equal(output_check("x", name + strspn(name, " "), NULL), 0);
	assert_true(count > 5);
	assert_string_equal(strrchr(output_extensions(names), ' '), " .top");
	assert_memory_equal(names, ".pb.gz, ", 8);
	assert_non_null(strstr(input_format_names(names), "pprof, "));
	assert_null(strstr(names, "svg"));
	assert_non_null(strstr(names, "perf"));
}

static void test_choose_name(void **state)
{
	static const struct {
		const char *input, *ending, *want; /* NULL = refused */
	} cases[] = {
		{"cpu.pb.gz", ".svg", "cpu.svg"},
		{"dir/perf.data", ".firefox.json.gz", "perf.firefox.json.gz"},
		{"/a/b/cpu.folded.zst", ".html", "cpu.html"},
		{"-", ".svg", "profile.svg"},
		{"cpu", ".svg", "cpu.svg"},
		{".hidden", ".svg", ".hidden.svg"},
		{"a.firefox.json.gz", ".merged.pb.gz", "a.merged.pb.gz"},
		{"a.b.c", ".svg", "a.b.svg"},
		{".gz", ".svg", ".gz.svg"},
		{"a/", ".svg", NULL},
		{"", ".svg", NULL},
		{"nothing.svg", ".svg", NULL}, /* itself */
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct operands inputs = {.items = {(char *)(uintptr_t)cases[i].input}, .count = 1};
		char out[OUTPUT_NAME_MAX];
		struct error err = {0};
		int r = output_choose_name(&inputs, cases[i].ending, out, &err);
		if (r != (cases[i].want ? 0 : -EINVAL))
			fail_msg("%s: %d", cases[i].input, r);
		if (cases[i].want)
			assert_string_equal(out, cases[i].want);
		else
			assert_non_null(strstr(err.message, "give -o FILE"));
	}
}

/* Also by another name, and of inputs after the first. */
static void test_choose_no_input(void **state)
{
	struct operands inputs = {.items = {(char[]){"cpu.folded"}, (char[]){"other"}}, .count = 2};
	char out[OUTPUT_NAME_MAX], here[4096];
	struct test_files files;
	struct error err = {0};
	(void)state;
	test_files_make(&files);
	assert_non_null(getcwd(here, sizeof(here)));
	assert_int_equal(chdir(files.directory), 0);
	assert_int_equal(output_choose_name(&inputs, ".svg", out, &err), 0);
	test_write(&files, "cpu.svg", "", 0600);
	assert_int_equal(output_choose_name(&inputs, ".svg", out, &err), 0);
	assert_int_equal(link("cpu.svg", "other"), 0);
	assert_int_equal(output_choose_name(&inputs, ".svg", out, &err), -EINVAL);
	assert_string_equal(err.message, "other would be replaced; give -o FILE");
	assert_int_equal(chdir(here), 0);
	test_files_remove(&files);
	static char long_name[OUTPUT_NAME_MAX + 8];
	memset(long_name, 'a', sizeof(long_name) - 1);
	inputs.items[0] = long_name;
	assert_int_equal(output_choose_name(&inputs, ".svg", out, &err), -EINVAL);
}

static struct profile *make(void)
{
	struct profile *profile = test_new_profile("cpu", "nanoseconds");
	test_add_stack(profile, "main;a;b", 12);
	test_add_stack(profile, "main;c", 30);
	return profile;
}

static void test_write_forms(void **state)
{
	static const char *const paths[] = {"a.pb.gz", "a.pb",		 "a.folded",	     "a.folded.gz",
					    "a.otlp",  "a.firefox.json", "a.firefox.json.gz"};
	_cleanup_(profile_freep) struct profile *profile = make();
	struct test_files files;
	(void)state;
	test_files_make(&files);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		_cleanup_(profile_freep) struct profile *back = NULL;
		struct error err = {0};
		const char *path = test_path(&files, paths[i]);
		if (output_write(profile, path, NULL, "title", NULL, &err) != 0)
			fail_msg("%s: %s", paths[i], err.message);
		const uint8_t *bytes = (const uint8_t *)test_read(&files, paths[i]);
		assert_int_equal(bytes[0] == 0x1f && bytes[1] == 0x8b, strstr(paths[i], ".gz") != NULL);
		assert_int_equal(inputs_read_file(&(struct inputs_options){0}, path, &back, &err), 0);
		assert_int_equal(back->sample_count, 2);
	}
	assert_int_equal(output_write(profile, test_path(&files, "a.top"), NULL, "title", NULL, NULL), 0);
	assert_non_null(strstr(test_read(&files, "a.top"), "main"));
	assert_int_equal(output_write(profile, test_path(&files, "a.svg"), NULL, "a <title>", NULL, NULL), 0);
	assert_non_null(strstr(test_read(&files, "a.svg"), "a &lt;title&gt;"));
	assert_int_equal(output_write(profile, test_path(&files, "a.svg"), "folded", "title", NULL, NULL), 0);
	assert_string_equal(test_read(&files, "a.svg"), "main;a;b 12\nmain;c 30\n");
	test_files_remove(&files);
}

static void test_standard_output(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	static struct test_capture printed;
	(void)state;
	test_capture_begin(&printed);
	int r = output_write(profile, "-", "folded", "title", NULL, NULL);
	test_capture_end(&printed);
	assert_int_equal(r, 0);
	assert_string_equal(printed.out, "main;a;b 12\nmain;c 30\n");
	test_capture_begin(&printed);
	r = output_write(profile, "-", "pprof", "title", NULL, NULL); /* as its own tools write it */
	test_capture_end(&printed);
	assert_int_equal(r, 0);
	assert_memory_equal(printed.out, "\x1f\x8b", 2);
}

/* Of what is too large nothing is left, and what was there stays. */
static void test_too_large(void **state)
{
	static const char *const paths[] = {"a.folded", "a.firefox.json", "a.firefox.json.gz", "a.pb.gz", "a.svg"};
	_cleanup_(profile_freep) struct profile *profile = make();
	struct test_files files;
	(void)state;
	test_files_make(&files);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct output_options options = {.bytes_max = 10};
		struct error err = {0};
		test_write(&files, paths[i], "before", 0600);
		assert_int_equal(output_write(profile, test_path(&files, paths[i]), NULL, "t", &options, &err), -EFBIG);
		assert_non_null(strstr(err.message, "larger than the given limit"));
		assert_string_equal(test_read(&files, paths[i]), "before");
	}
	struct output_options options = {.bytes_max = strlen("main;a;b 12\nmain;c 30\n")};
	assert_int_equal(output_write(profile, test_path(&files, "b.folded"), NULL, "t", &options, NULL), 0);
	options.bytes_max--;
	assert_int_equal(output_write(profile, test_path(&files, "c.folded"), NULL, "t", &options, NULL), -EFBIG);
	assert_false(test_exists(&files, "c.folded"));
	struct error err = {0};
	assert_int_equal(output_write(profile, test_path(&files, "none/a.folded"), NULL, "t", NULL, &err), -ENOENT);
	assert_non_null(strstr(err.message, "none/a.folded"));
	test_files_remove(&files);
}

static int write_then_fail(void *context, struct format_sink *sink, struct error *err)
{
	int r = buffer_append(sink->out, "half", 4);
	return r < 0 || *(bool *)context ? error_set(err, -EIO, "no more") : format_sink_drain(sink, true, err);
}

static void test_parts(void **state)
{
	struct test_files files;
	struct error err = {0};
	(void)state;
	test_files_make(&files);
	assert_int_equal(output_write_parts(test_path(&files, "a"), false, write_then_fail, &(bool){false}, &err), 0);
	assert_string_equal(test_read(&files, "a"), "half");
	assert_int_equal(output_write_parts(test_path(&files, "b"), false, write_then_fail, &(bool){true}, &err), -EIO);
	assert_false(test_exists(&files, "b"));
	assert_int_equal(output_write_parts(test_path(&files, "c.gz"), true, write_then_fail, &(bool){false}, &err), 0);
	_cleanup_(buffer_release) struct buffer packed = {0}, text = {0};
	buffer_init(&text, KIB);
	assert_int_equal(io_read_file(test_path(&files, "c.gz"), KIB, &packed, NULL), 0);
	assert_int_equal(gzip_decompress(buffer_bytes(&packed), &text, NULL), 0);
	assert_string_equal(buffer_string(&text), "half");
	test_files_remove(&files);
}

static void test_losses(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	static struct test_capture printed;
	(void)state;
	assert_int_equal(output_holds("a.svg", NULL), 0);
	assert_int_equal(output_holds("a", NULL), 0);
	assert_true(output_holds("a.pb.gz", NULL) & FORMAT_HOLDS_LABELS);
	assert_false(output_holds("a.folded", NULL) & FORMAT_HOLDS_TIMES);
	for (int i = 0; i < 3; i++) {
		static const char *const paths[] = {"a.folded", "a.firefox.json", "a.svg"};
		profile->samples[0].time_ns = 5;
		test_capture_begin(&printed);
		output_print_losses(profile, paths[i], NULL);
		test_capture_end(&printed);
		if (i == 0)
			assert_memory_equal(printed.err, "folded cannot store ", 20);
		else if (i == 2)
			assert_string_equal(printed.err, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check),		cmocka_unit_test(test_names),
		cmocka_unit_test(test_choose_name),	cmocka_unit_test(test_write_forms),
		cmocka_unit_test(test_standard_output), cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_parts),		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_choose_no_input),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
