// SPDX-License-Identifier: Apache-2.0
/* Rules of relabelling against what Prometheus documents of them. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/test_faults.h"
#include "profile/relabel.h"

#define RULES_MAX 4
struct vector {
	const char *what;
	const char *labels; /* "name=value,name=value" */
	struct relabel_rule rules[RULES_MAX];
	const char *expected; /* the same, sorted by name; NULL = dropped */
};
#define FROM(...)                                                                                                              \
	.source_labels = {__VA_ARGS__}, .has_sources = true,                                                                   \
	.source_count = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

/* Sums: printf 'TEXT' | md5sum, the last 16 digits as a number, modulo. */
static const struct vector vectors[] = {
	{"replace: the whole by default", "a=foo,b=bar,c=baz", {{FROM("a"), .target_label = "d"}}, "a=foo,b=bar,c=baz,d=foo"},
	{"replace: a group",
	 "a=foo",
	 {{FROM("a"), .regex = "f(.*)", .target_label = "d", .replacement = "ch${1}-ch${1}"}},
	 "a=foo,d=choo-choo"},
	{"rules see what those before them did",
	 "a=foo,b=bar",
	 {{FROM("a", "b"), .regex = "f(.*);(.*)r", .target_label = "a", .replacement = "b${1}${2}m"},
	  {FROM("c", "a"), .regex = "(b).*b(.*)ba(.*)", .target_label = "d", .replacement = "$1$2$2$3"},
	  {FROM("a"), .target_label = "e"}},
	 "a=boobam,b=bar,e=boobam"},
	{"replace: an empty separator", "a=x,b=y", {{FROM("a", "b"), .separator = "", .target_label = "c"}}, "a=x,b=y,c=xy"},
	{"replace: a missing label is empty", "a=x", {{FROM("a", "b"), .target_label = "c"}}, "a=x,c=x;"},
	{"replace: no match changes nothing", "a=x,c=y", {{FROM("a"), .regex = "b", .target_label = "c"}}, "a=x,c=y"},
	{"replace: anchored at both ends", "a=xbx", {{FROM("a"), .regex = "b", .target_label = "c"}}, "a=xbx"},
	{"replace: alternatives are anchored as a whole", "a=bc", {{FROM("a"), .regex = "b|c", .target_label = "c"}}, "a=bc"},
	{"replace: an empty result removes",
	 "a=foo,b=x",
	 {{FROM("a"), .regex = "(f).*", .target_label = "b", .replacement = ""}},
	 "a=foo"},
	{"replace: without sources a constant", "a=x", {{.target_label = "env", .replacement = "prod"}}, "a=x,env=prod"},
	{"replace: the target has references",
	 "a=some-name-value",
	 {{FROM("a"), .regex = "some-([^-]+)-([^,]+)", .target_label = "${1}", .replacement = "${2}"}},
	 "a=some-name-value,name=value"},
	{"replace: a target that becomes no name",
	 "a=some-na*e-value",
	 {{FROM("a"), .regex = "some-([^-]+)-([^,]+)", .target_label = "${1}", .replacement = "x"}},
	 "a=some-na*e-value"},
	{"replace: a named group",
	 "a=x-y",
	 {{FROM("a"), .regex = "(?P<first>[^-]+)-(?P<second>.+)", .target_label = "b", .replacement = "${second}_$first"}},
	 "a=x-y,b=y_x"},
	{"references: $1x is a group named 1x", "a=x", {{FROM("a"), .target_label = "b", .replacement = "<$1x>"}}, "a=x,b=<>"},
	{"references: $$ is a dollar sign", "a=x", {{FROM("a"), .target_label = "b", .replacement = "$$1"}}, "a=x,b=$1"},
	{"references: what is none is text",
	 "a=x",
	 {{FROM("a"), .target_label = "b", .replacement = "$ ${ ${1 $-"}},
	 "a=x,b=$ ${ ${1 $-"},
	{"references: a group that there is not",
	 "a=x",
	 {{FROM("a"), .target_label = "b", .replacement = "<$7$0>"}},
	 "a=x,b=<x>"},
	{"references: a group that took no part",
	 "a=x",
	 {{FROM("a"), .regex = "(x)|(y)", .target_label = "b", .replacement = "$1-$2"}},
	 "a=x,b=x-"},
	{"a point matches line breaks",
	 "a=x\ny",
	 {{FROM("a"), .regex = "x.y", .target_label = "b", .replacement = "1"}},
	 "a=x\ny,b=1"},
	{"keep: matches", "a=foo", {{FROM("a"), .regex = "f.*", .action = "keep"}}, "a=foo"},
	{"keep: does not", "a=boo", {{FROM("a"), .regex = "f.*", .action = "keep"}}, NULL},
	{"keep: a part is not enough", "a=boo", {{FROM("a"), .regex = "o", .action = "keep"}}, NULL},
	{"keep: of a missing label", "a=boo", {{FROM("b"), .regex = ".+", .action = "keep"}}, NULL},
	{"drop: matches", "a=foo", {{FROM("a"), .regex = ".*o.*", .action = "drop"}}, NULL},
	{"drop: does not", "a=foo", {{FROM("a"), .regex = "f", .action = "drop"}}, "a=foo"},
	{"drop: all of a list", "a=x,b=y", {{FROM("a", "b"), .regex = "x;y", .action = "drop"}}, NULL},
	{"drop ends it", "a=foo", {{FROM("a"), .regex = "foo", .action = "Drop"}, {FROM("a"), .target_label = "b"}}, NULL},
	{"keepequal: equal", "a=x,b=x", {{FROM("a"), .target_label = "b", .action = "keepequal"}}, "a=x,b=x"},
	{"keepequal: not", "a=x,b=y", {{FROM("a"), .target_label = "b", .action = "keepequal"}}, NULL},
	{"dropequal: equal", "a=x,b=x", {{FROM("a"), .target_label = "b", .action = "dropequal"}}, NULL},
	{"dropequal: not", "a=x,b=y", {{FROM("a"), .target_label = "b", .action = "dropequal"}}, "a=x,b=y"},
	{"hashmod",
	 "a=foo,b=bar,c=baz",
	 {{FROM("c"), .target_label = "d", .modulus = 1000, .action = "hashmod"}},
	 "a=foo,b=bar,c=baz,d=976"},
	{"hashmod of two",
	 "a=foo,b=bar",
	 {{FROM("a", "b"), .target_label = "d", .modulus = 7, .action = "hashmod"}},
	 "a=foo,b=bar,d=6"},
	{"labelmap",
	 "a=foo,b1=bar,b2=baz",
	 {{.regex = "b(.*)", .replacement = "bar_${1}", .action = "labelmap"}},
	 "a=foo,b1=bar,b2=baz,bar_1=bar,bar_2=baz"},
	{"labelmap: by the first group",
	 "a=foo,__meta_my_bar=aaa",
	 {{.regex = "__meta_(my.*)", .action = "labelmap"}},
	 "a=foo,my_bar=aaa"},
	{"labeldrop", "a=foo,b1=bar,b2=baz", {{.regex = "b.*", .action = "labeldrop"}}, "a=foo"},
	{"labelkeep", "a=foo,b1=bar,b2=baz", {{.regex = "b.*", .action = "labelkeep"}}, "b1=bar,b2=baz"},
	{"lowercase", "a=FooBAR", {{FROM("a"), .target_label = "b", .action = "lowercase"}}, "a=FooBAR,b=foobar"},
	{"uppercase", "a=FooBAR", {{FROM("a"), .target_label = "a", .action = "uppercase"}}, "a=FOOBAR"},
	{"labels with two underscores are gone at the end",
	 "a=x",
	 {{FROM("a"), .target_label = "__tmp"}, {FROM("__tmp"), .target_label = "b", .replacement = "${1}1"}},
	 "a=x,b=x1"},
	{"what is default may be spelled out",
	 "a=foo",
	 {{FROM("a"), .separator = ";", .regex = "foo", .replacement = "$1", .action = "keep"},
	  {.separator = ";", .regex = "b", .replacement = "$1", .action = "labeldrop"}},
	 "a=foo"},
	/* dots and underscores */
	{"both spellings name a label: source",
	 "process.executable.name=java",
	 {{FROM("process_executable_name"), .target_label = "a"}, {FROM("process.executable.name"), .target_label = "b"}},
	 "a=java,b=java,process.executable.name=java"},
	{"both spellings name a label: target, which keeps its own",
	 "process.comm=java",
	 {{.target_label = "process_comm", .replacement = "x"}},
	 "process.comm=x"},
	{"both spellings name a label: regex",
	 "process.comm=java,process.pid=1",
	 {{.regex = "process_comm", .action = "labeldrop"}, {.regex = "process\\.pid", .action = "labeldrop"}},
	 ""},
	{"a new label is spelled as the rule says",
	 "a=x",
	 {{.target_label = "service.name", .replacement = "s"}, {FROM("service_name"), .target_label = "service_copy"}},
	 "a=x,service.name=s,service_copy=s"},
};

static void parse(struct relabel_set *set, char *text)
{
	for (char *save, *pair = strtok_r(text, ",", &save); pair; pair = strtok_r(NULL, ",", &save)) {
		char *value = strchr(pair, '=');
		*value = 0;
		relabel_set_put(set, pair, value + 1);
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct relabel_label *)a)->name, ((const struct relabel_label *)b)->name);
}

static void format(struct relabel_set *set, char *out, size_t size)
{
	size_t len = 0;
	out[0] = 0;
	qsort(set->items, set->count, sizeof(*set->items), compare);
	for (size_t i = 0; i < set->count; i++)
		len += (size_t)snprintf(out + len, size - len, "%s%s=%s", i ? "," : "", set->items[i].name,
					set->items[i].value);
}

static bool is_given(const struct relabel_rule *rule)
{
	return rule->has_sources || rule->target_label || rule->regex || rule->action;
}

/* 0, or the error of the first rule that is refused. */
static int compile(const struct relabel_rule *rules, struct relabel **ret, struct error *err)
{
	int r = relabel_new(ret, err);
	for (size_t i = 0; i < RULES_MAX && r == 0 && is_given(&rules[i]); i++)
		r = relabel_add(*ret, &rules[i], err);
	return r;
}

static void test_vectors(void **state)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++) {
		const struct vector *v = &vectors[i];
		_cleanup_(relabel_freep) struct relabel *relabel = NULL;
		struct relabel_set set;
		struct error err = {0};
		char labels[256], got[512];

		if (compile(v->rules, &relabel, &err) < 0)
			fail_msg("%s: %s", v->what, err.message);
		for (int round = 0; round < 2; round++) { /* nothing is left of the first */
			snprintf(labels, sizeof(labels), "%s", v->labels);
			relabel_set_init(&set);
			parse(&set, labels);
			int r = relabel_apply(relabel, &set, NULL);
			assert_true(r >= 0);
			format(&set, got, sizeof(got));
			if (r > 0 && v->expected)
				fail_msg("%s: dropped", v->what);
			if (r == 0 && (!v->expected || strcmp(got, v->expected) != 0))
				fail_msg("%s: %s instead of %s", v->what, got, v->expected ? v->expected : "(dropped)");
			relabel_set_release(&set);
		}
	}
}

static void test_refused(void **state)
{
	static const struct {
		struct relabel_rule rule;
		const char *message;
	} bad[] = {
		{{.action = "repalce"}, "'repalce' is not one of replace, keep"},
		{{FROM("a")}, "needs a target_label"},
		{{FROM("a"), .target_label = "b", .action = "hashmod"}, "needs a modulus"},
		{{FROM("a"), .action = "lowercase"}, "needs a target_label"},
		{{FROM("a"), .target_label = "b", .replacement = "x", .action = "lowercase"}, "does not use replacement"},
		{{FROM("a"), .target_label = "${1}", .action = "uppercase"}, "not a label name"},
		{{FROM("a"), .target_label = "b c"}, "not a label name"},
		{{FROM("1a"), .target_label = "b"}, "not a label name"},
		{{FROM("a"), .regex = "x", .action = "labeldrop"}, "does not use source_labels"},
		{{.regex = "x", .target_label = "a", .action = "labelkeep"}, "does not use target_label"},
		{{FROM("a"), .target_label = "b", .regex = "x", .action = "keepequal"}, "does not use regex"},
		{{FROM("a"), .action = "dropequal"}, "needs a target_label"},
		{{.regex = "x(.*)", .replacement = "a-b", .action = "labelmap"}, "not a label name"},
		{{FROM("a"), .target_label = "b", .regex = "("}, "bad regular expression at character 1"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		_cleanup_(relabel_freep) struct relabel *relabel = NULL;
		struct error err = {0};
		assert_int_equal(relabel_new(&relabel, NULL), 0);
		assert_int_equal(relabel_add(relabel, &bad[i].rule, &err), -EINVAL);
		if (!strstr(err.message, bad[i].message))
			fail_msg("'%s' lacks '%s'", err.message, bad[i].message);
		assert_int_equal(relabel_count(relabel), 0);
	}
}

/* Text that takes a backtracking matcher 2^40 steps: it does not match, soon. */
static void test_slow_expression(void **state)
{
	_cleanup_(relabel_freep) struct relabel *relabel = NULL;
	struct relabel_set set;
	const struct relabel_rule rules[RULES_MAX] = {{FROM("a"), .regex = "(a*)*b", .target_label = "c", .replacement = "x"}};

	assert_int_equal(compile(rules, &relabel, NULL), 0);
	relabel_set_init(&set);
	relabel_set_put(&set, "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac");
	assert_int_equal(relabel_apply(relabel, &set, NULL), 0);
	assert_string_equal(relabel_set_get(&set, "c"), "");
	relabel_set_release(&set);
}

/* Values double with each rule; they are cut, and so is their number. */
static void test_bounds(void **state)
{
	_cleanup_(relabel_freep) struct relabel *relabel = NULL;
	struct relabel_set set;
	struct relabel_rule twice = {FROM("a"), .target_label = "a", .replacement = "$1$1$1$1$1$1$1$1"};
	struct relabel_rule more = {.regex = "(.{1,100})", .replacement = "x${1}", .action = "labelmap"};

	assert_int_equal(relabel_new(&relabel, NULL), 0);
	for (int i = 0; i < 128; i++) {
		assert_int_equal(relabel_add(relabel, &twice, NULL), 0);
		assert_int_equal(relabel_add(relabel, &more, NULL), 0);
	}
	assert_int_equal(relabel_add(relabel, &more, NULL), -E2BIG);
	relabel_set_init(&set);
	relabel_set_put(&set, "a", "0123456789");
	assert_int_equal(relabel_apply(relabel, &set, NULL), 0);
	assert_int_equal(strlen(relabel_set_get(&set, "a")), LIMIT_LABEL_VALUE_BYTES);
	assert_true(set.count <= RELABEL_LABELS_MAX);
	assert_true(set.arena.used_bytes <= set.arena.max_bytes);
	relabel_set_release(&set);
}

static void test_touches(void **state)
{
	_cleanup_(relabel_freep) struct relabel *relabel = NULL;
	const struct relabel_rule rules[RULES_MAX] = {
		{FROM("host.name"), .target_label = "service_name"},
		{.regex = "os_.*", .action = "labeldrop"},
		{FROM("env"), .regex = "x", .action = "drop"},
		{FROM("env"), .target_label = "team", .action = "keepequal"},
	};
	assert_int_equal(compile(rules, &relabel, NULL), 0);
	assert_true(relabel_touches(relabel, "service.name"));
	assert_true(relabel_touches(relabel, "os.version"));
	assert_true(relabel_touches(relabel, "__hidden"));
	assert_false(relabel_touches(relabel, "host.name"));
	assert_false(relabel_touches(relabel, "env"));
	assert_false(relabel_touches(relabel, "team"));
	assert_int_equal(relabel_add(relabel, &(struct relabel_rule){.regex = "env|team", .action = "labelkeep"}, NULL), 0);
	assert_true(relabel_touches(relabel, "host.name"));
	assert_false(relabel_touches(relabel, "env"));
	assert_int_equal(relabel_add(relabel, &(struct relabel_rule){.regex = "a(.)", .action = "labelmap"}, NULL), 0);
	assert_true(relabel_touches(relabel, "env"));
}

static void test_too_much_text(void **state)
{
	_cleanup_(relabel_freep) struct relabel *relabel = NULL;
	char separator[65], replacement[4097];
	struct relabel_rule rule = {FROM("a"), .target_label = "b", .separator = separator, .replacement = replacement};
	struct error err = {0};
	int r = 0;

	memset(separator, ';', sizeof(separator) - 1);
	memset(replacement, 'x', sizeof(replacement) - 1);
	separator[sizeof(separator) - 1] = replacement[sizeof(replacement) - 1] = '\0';
	assert_int_equal(relabel_new(&relabel, NULL), 0);
	while (r == 0)
		r = relabel_add(relabel, &rule, &err);
	assert_int_equal(r, -E2BIG);
	assert_non_null(strstr(err.message, "bytes of text"));
	assert_in_range(relabel_count(relabel), 200, RELABEL_RULES_MAX - 1);
}

static int some_rules(void *context)
{
	_cleanup_(relabel_freep) struct relabel *relabel = NULL;
	struct relabel_set set;
	const struct relabel_rule rules[RULES_MAX] = {
		{FROM("a", "b"), .regex = "(.*);(.*)", .target_label = "c", .replacement = "$2$1"},
		{FROM("c"), .target_label = "d", .action = "uppercase"},
		{.regex = "(.)", .replacement = "x_$1", .action = "labelmap"},
	};
	int r = compile(rules, &relabel, NULL);
	if (r < 0)
		return r;
	relabel_set_init(&set);
	relabel_set_put(&set, "a", "1");
	relabel_set_put(&set, "b", "2");
	r = relabel_apply(relabel, &set, NULL);
	relabel_set_release(&set);
	return r;
}

static void test_memory_runs_out(void **state)
{
	assert_true(test_each_allocation(some_rules, NULL) > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_slow_expression), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_too_much_text),	cmocka_unit_test(test_touches),
		cmocka_unit_test(test_memory_runs_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
