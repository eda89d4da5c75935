/* SPDX-License-Identifier: Apache-2.0 */
/* `wick report`: what options mean for each mode, which are refused, and what filters leave of a profile. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "cmd/report.h"
#include "cmd/test_cmd.h"
#include "render/test_render.h"

/* ---- settings ---- */

static int settings(const struct report_arguments *arguments, enum report_mode mode, struct report_options *ret,
		    struct error *err)
{
	int r = report_settings(arguments, mode, ret, err);
	for (size_t i = 0; r == 0 && ret->filters[i]; i++)
		mem_free((char *)(uintptr_t)ret->filters[i]);
	return r;
}

static void test_trim(void **state)
{
	static const struct {
		struct report_arguments arguments;
		enum report_mode mode;
		size_t nodes;
		double fraction;
	} cases[] = {
		{{.mean = false}, REPORT_TOP, 0, 0.005},
		{{.mean = false}, REPORT_DOT, 80, 0.005},
		{{.mean = false}, REPORT_TREE, 80, 0.005},
		{{.node_count = "-1"}, REPORT_TOP, 0, 0.005},
		{{.node_count = "-1"}, REPORT_TREE, 80, 0.005},
		{{.node_count = "0"}, REPORT_TREE, 0, 0.005},
		{{.node_count = "7"}, REPORT_TOP, 7, 0.005},
		{{.node_count = "7", .node_fraction = "0.25"}, REPORT_TREE, 7, 0.25},
		{{.node_count = "7", .no_trim = true}, REPORT_TREE, 0, 0},
		{{.node_count = "7"}, REPORT_PEEK, 0, 0},
		{{.node_count = "7"}, REPORT_LIST, 0, 0},
		{{.node_count = "7"}, REPORT_RAW, 0, 0},
		{{.node_count = "7"}, REPORT_DISASM, 0, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct report_options options;
		assert_int_equal(settings(&cases[i].arguments, cases[i].mode, &options, NULL), 0);
		assert_int_equal(options.trim.nodes_max, cases[i].nodes);
		assert_true(options.trim.node_fraction == cases[i].fraction);
	}
}

static void test_detail(void **state)
{
	static const struct {
		struct report_arguments arguments;
		enum report_mode mode;
		bool functions, files, lines, addresses, inlines;
	} cases[] = {
		{{.mean = false}, REPORT_TOP, true, false, false, false, true},
		{{.files = true}, REPORT_TOP, false, true, false, false, true},
		{{.file_functions = true}, REPORT_TOP, true, true, false, false, true},
		{{.lines = true}, REPORT_TOP, true, true, true, false, true},
		{{.addresses = true}, REPORT_TOP, true, true, true, true, true},
		{{.no_inlines = true}, REPORT_TOP, true, false, false, false, false},
		{{.mean = false}, REPORT_LIST, true, true, true, false, true},
		{{.addresses = true}, REPORT_LIST, true, true, true, false, true},
		{{.mean = false}, REPORT_DISASM, true, true, true, true, false},
		{{.files = true}, REPORT_RAW, true, true, true, true, true},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct report_options options;
		assert_int_equal(settings(&cases[i].arguments, cases[i].mode, &options, NULL), 0);
		assert_int_equal(options.detail.functions, cases[i].functions);
		assert_int_equal(options.detail.files, cases[i].files);
		assert_int_equal(options.detail.lines, cases[i].lines);
		assert_int_equal(options.detail.addresses, cases[i].addresses);
		assert_int_equal(options.detail.inlines, cases[i].inlines);
	}
}

static void test_bad_settings(void **state)
{
	static const struct {
		struct report_arguments arguments;
		const char *message;
	} cases[] = {
		{{.cum = true, .flat = true}, "--cum and --flat exclude each other"},
		{{.functions = true, .lines = true}, "exclude each other"},
		{{.node_count = "many"}, "--nodecount: "},
		{{.node_count = "1.5"}, "--nodecount: "},
		{{.node_fraction = "1.1"}, "--nodefraction: '1.1' is not a share between 0 and 1"},
		{{.node_fraction = "-0.1"}, "--nodefraction: "},
		{{.edge_fraction = "x"}, "--edgefraction: "},
		{{.edge_fraction = "nan"}, "--edgefraction: "},
		{{.divide_by = "0"}, "--divide-by: must not be 0"},
		{{.divide_by = ""}, "--divide-by: "},
		{{.divide_by = "2s"}, "--divide-by: "},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct report_options options;
		struct error err = {0};
		if (settings(&cases[i].arguments, REPORT_TREE, &options, &err) != -EINVAL ||
		    !strstr(err.message, cases[i].message))
			fail_msg("case %zu: %s", i, err.message);
	}
}

/* The heading names the filters, in pprof's order and spelling. */
static void test_heading(void **state)
{
	struct report_arguments arguments = {.tag_show = "c", .focus = "main", .ignore = "", .show_from = "a|b"};
	struct report_options options;
	(void)state;
	assert_int_equal(report_settings(&arguments, REPORT_TOP, &options, NULL), 0);
	assert_string_equal(options.filters[0], "focus=main");
	assert_string_equal(options.filters[1], "show_from=a|b");
	assert_string_equal(options.filters[2], "tagshow=c");
	assert_null(options.filters[3]);
	for (size_t i = 0; i < 3; i++)
		mem_free((char *)(uintptr_t)options.filters[i]);
}

/* ---- filters ---- */

static void add_sample(struct profile *profile, const char *frames, const char *key, const char *value, int64_t number,
		       int64_t count)
{
	struct profile_label label = {.key = test_string(profile, key)};
	if (value)
		label.value = test_string(profile, value);
	else
		label.number = number, label.unit = test_string(profile, "bytes");
	test_add_stack(profile, frames, count);
	assert_int_equal(profile_add_label_set(profile, &label, 1, &profile->samples[profile->sample_count - 1].labels, NULL),
			 0);
}

static struct profile *make(void)
{
	struct profile *profile = test_new_profile("cpu", "count");
	add_sample(profile, "main;read;parse", "host", "one", 0, 1);
	add_sample(profile, "main;read;alloc", "host", "two", 0, 10);
	add_sample(profile, "main;write", "size", NULL, 4096, 100);
	return profile;
}

/* Applies the filters; the samples that are left, by the sum of their values, and what is said of it. */
static int64_t apply(const struct report_arguments *arguments, char notes[static 512], int *ret_code)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	_cleanup_(buffer_release) struct buffer said = {0};
	struct report_filters filters = {.notes = &said};
	struct report_options options = {.mode = REPORT_TOP, .divide_by = 1};
	struct report report;
	struct error err = {0};
	buffer_init(&said, KIB);
	assert_int_equal(report_begin(&report, profile, &options, NULL), 0);
	*ret_code = report_filters_init(&filters, arguments, NULL, &err);
	if (*ret_code == 0)
		*ret_code = report_filters_apply(&filters, arguments, &report, &err);
	report_filters_release(&filters);
	report_release(&report);
	snprintf(notes, 512, "%s%s", buffer_string(&said) ? buffer_string(&said) : "", err.message);
	return profile_total(profile, 0);
}

static void test_filters(void **state)
{
	static const struct {
		struct report_arguments arguments;
		int64_t total;
		const char *notes;
	} cases[] = {
		{{.mean = false}, 111, ""},
		{{.focus = "read"}, 11, ""},
		{{.focus = "re[a]d$", .ignore = "alloc"}, 1, ""},
		{{.focus = "nothing"}, 0, "--focus matched nothing\n"},
		{{.ignore = "nothing"}, 111, "--ignore matched nothing\n"},
		{{.ignore = "main"}, 0, ""},
		{{.hide = "main"}, 111, ""},
		{{.hide = "."}, 0, ""},
		{{.hide = "nothing"}, 111, "--hide matched nothing\n"},
		{{.show = "write"}, 100, ""},
		{{.show_from = "read"}, 11, ""},
		{{.show_from = "nothing"}, 0, "--show-from matched nothing\n"},
		{{.tag_focus = "one"}, 1, ""},
		{{.tag_focus = "host=one,two"}, 11, ""},
		{{.tag_focus = "host=three"}, 0, "--tagfocus matched nothing\n"},
		{{.tag_ignore = "two"}, 101, ""},
		{{.tag_ignore = "host=nothing"}, 111, "--tagignore matched nothing\n"},
		{{.tag_focus = "4kb"}, 100, "tagfocus: '4kb' is interpreted as a range of numbers, not as an expression\n"},
		{{.tag_focus = "size=1kb:8kb"}, 100, "tagfocus: '1kb:8kb' is interpreted as a range"},
		{{.tag_show = "nothing"}, 111, "--tagshow matched nothing\n"},
		{{.tag_hide = "host"}, 111, ""},
		{{.prune_from = "read"}, 111, ""},
		{{.focus = "", .tag_focus = ""}, 111, ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char notes[512];
		int r;
		int64_t total = apply(&cases[i].arguments, notes, &r);
		if (r != 0 || total != cases[i].total || !strstr(notes, cases[i].notes) || (!*cases[i].notes && *notes))
			fail_msg("case %zu: %d, %lld: %s", i, r, (long long)total, notes);
	}
}

static void test_bad_filters(void **state)
{
	static const struct {
		struct report_arguments arguments;
		int code;
	} cases[] = {
		{{.focus = "("}, -EINVAL},    {{.ignore = "[a"}, -EINVAL},     {{.hide = "a**"}, -EINVAL},
		{{.show = "(?<"}, -EINVAL},   {{.tag_focus = "a,("}, -EINVAL}, {{.tag_ignore = "host=["}, -EINVAL},
		{{.tag_hide = "("}, -EINVAL}, {{.prune_from = "("}, -EINVAL},  {{.show_from = "("}, -EINVAL},
	};
	char notes[512], many[200] = "a", name[300];
	struct report_arguments arguments = {.tag_focus = many};
	int r;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		apply(&cases[i].arguments, notes, &r);
		if (r != cases[i].code)
			fail_msg("case %zu: %d %s", i, r, notes);
	}
	for (size_t i = 1; i < REPORT_TAG_MATCHERS_MAX; i++)
		memcpy(many + strlen(many), ",b", 3);
	apply(&arguments, notes, &r);
	assert_int_equal(r, 0);
	memcpy(many + strlen(many), ",c", 3);
	apply(&arguments, notes, &r);
	assert_int_equal(r, -E2BIG);
	assert_non_null(strstr(notes, "--tagfocus: more than 32 expressions"));
	memset(name, 'n', sizeof(name));
	memcpy(name + 290, "=x", 3);
	arguments.tag_focus = name;
	apply(&arguments, notes, &r);
	assert_int_equal(r, -EINVAL);
}

/* What the profile itself says to leave out. */
static void test_drop_frames(void **state)
{
	static const struct {
		const char *drop, *keep;
		size_t depth; /* of the second sample's stack */
		int code;
	} cases[] = {{"", "", 3, 0},	     {"alloc", "", 2, 0},   {"al", "", 3, 0},	       {"al.*", "alloc", 3, 0},
		     {"al.*|x", "al", 2, 0}, {"(", "", 3, -EINVAL}, {"alloc", "(", 3, -EINVAL}};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile_freep) struct profile *profile = make();
		profile->drop_frames = test_string(profile, cases[i].drop);
		profile->keep_frames = test_string(profile, cases[i].keep);
		int r = report_drop_frames(profile, NULL);
		size_t depth = profile_stack_depth(profile, profile->samples[1].stack);
		if (r != cases[i].code || (r == 0 && depth != cases[i].depth))
			fail_msg("case %zu: %d, %zu", i, r, depth);
	}
}

static void test_tag_frames(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = make();
	_cleanup_(buffer_release) struct buffer notes = {0};
	(void)state;
	buffer_init(&notes, KIB);
	assert_int_equal(
		report_apply_tag_frames(&(struct report_arguments){.tag_root = "", .tag_leaf = NULL}, profile, &notes, NULL),
		0);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), 3);
	struct report_arguments arguments = {.tag_root = "host", .tag_leaf = "nothing"};
	assert_int_equal(report_apply_tag_frames(&arguments, profile, &notes, NULL), 0);
	assert_int_equal(profile_stack_depth(profile, profile->samples[0].stack), 5);
	assert_string_equal(buffer_string(&notes), "--tagleaf matched nothing\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trim),	   cmocka_unit_test(test_detail),      cmocka_unit_test(test_bad_settings),
		cmocka_unit_test(test_heading),	   cmocka_unit_test(test_filters),     cmocka_unit_test(test_bad_filters),
		cmocka_unit_test(test_tag_frames), cmocka_unit_test(test_drop_frames),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
