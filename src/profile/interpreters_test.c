/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "profile/interpreters.h"

/* Frames are letters. */
static const struct kind {
	const char *letters;
	enum profile_frame_type type;
	const char *binary, *build_id;
	uint64_t start; /* of the mapping */
} kinds[] = {
	{"pqrP", PROFILE_FRAME_INTERPRETED, "python", "", 0},
	{"f", PROFILE_FRAME_INTERPRETED, "php", "", 0},
	{"g", PROFILE_FRAME_INTERPRETED, "", "", 0},
	{"abmD", PROFILE_FRAME_NATIVE, "/usr/bin/python3", "01", 0x1000},
	{"?", PROFILE_FRAME_NATIVE, "/usr/bin/python3", "01", 0x9000}, /* of another process, and without a name */
	{"j", PROFILE_FRAME_NATIVE, "/usr/bin/ruby", "02", 0x1000},
	{"s", PROFILE_FRAME_NATIVE, "/opt/python3", "", 0x2000}, /* known by its name alone */
	{"xyX", PROFILE_FRAME_NATIVE, "/usr/lib/ext.so", "03", 0x3000},
	{"c", PROFILE_FRAME_NATIVE, "/usr/lib/libc.so.6", "04", 0x4000},
	{"u", PROFILE_FRAME_NATIVE, "", "", 0}, /* in no mapping */
	{"k", PROFILE_FRAME_KERNEL, "[kernel.kallsyms]", "05", 0},
	{"t", PROFILE_FRAME_JIT, "/usr/bin/python3", "01", 0x1000},
	{"e", PROFILE_FRAME_UNKNOWN, "/usr/bin/python3", "01", 0x1000},
	{"[", PROFILE_FRAME_UNKNOWN, "", "", 0}, /* callers are missing */
};

static const struct kind *kind_of(char letter)
{
	size_t i = 0;
	while (!strchr(kinds[i].letters, letter))
		i++;
	return &kinds[i];
}

/* A capital one has a small one inlined. */
static uint32_t add_location(struct profile *profile, char letter)
{
	const struct kind *kind = kind_of(letter);
	struct profile_mapping mapping = {.start = kind->start, .limit = kind->start + 0x1000};
	struct profile_location location = {.address = kind->start + (uint64_t)letter, .frame_type = kind->type};
	struct profile_line lines[2] = {{.line = 1}, {.line = 2}};
	bool is_pair = letter >= 'A' && letter <= 'Z';
	size_t count = letter == '?' ? 0 : 1 + is_pair;
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, kind->binary, &mapping.file_name, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, kind->build_id, &mapping.build_id, NULL), 0);
	if (kind->binary[0])
		assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		struct profile_function function = {0};
		char name[2] = {i + 1 < count ? (char)(letter + 'a' - 'A') : letter, 0};
		assert_int_equal(profile_add_cstring(profile, name, &function.name, NULL), 0);
		assert_int_equal(profile_add_function(profile, &function, &lines[i].function, NULL), 0);
	}
	assert_int_equal(profile_add_location(profile, &location, lines, count, &id, NULL), 0);
	return id;
}

/* Stacks with the outermost frame first, a blank between them; the value of the n-th is 1 << n. */
static struct profile *make(const char *stacks)
{
	struct profile *profile;
	uint32_t type;
	int64_t value = 1;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "samples", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	for (const char *at = stacks; *at; at += *at == ' ', value *= 2) {
		struct profile_sample sample = {0};
		for (; *at && *at != ' '; at++)
			assert_int_equal(
				profile_add_stack(profile, sample.stack, add_location(profile, *at), &sample.stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

static const char *show(const struct profile *profile)
{
	static char text[256];
	size_t used = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t path[64];
		size_t depth = profile_stack_locations(profile, profile->samples[i].stack, path, 64);
		if (i)
			text[used++] = ' ';
		while (depth-- > 0) {
			const struct profile_location *location = &profile->locations[path[depth]];
			if (!location->line_count)
				text[used++] = '?';
			for (uint32_t k = location->line_count; k-- > 0;) {
				uint32_t function = profile->lines[location->line_first + k].function;
				text[used++] = profile_string(profile, profile->functions[function].name)[0];
			}
		}
	}
	text[used] = '\0';
	return text;
}

static const struct interpreters_case {
	const char *stacks, *result;
} cases[] = {
	/* the loop, what starts it, and what it calls; a library and the kernel stay */
	{"cabpqa", "cpq"},
	{"cabpqabc", "cpqc"},
	{"cabpqabck", "cpqck"},
	{"cabpqak", "cpqk"},
	{"abpqabrabpa", "pqrp"},
	/* the loop of a stripped interpreter, whose mapping is that of another process */
	{"ab?p?", "p"},
	/* Python calls an extension, which calls Python or what the interpreter offers */
	{"cabpaxybqaxy", "cpxyqxy"},
	{"cabpaxbc", "cpxc"},
	/* two interpreters, one known by its name alone; each is left out wherever it stands */
	{"ajpaqjc", "pqc"},
	{"sspsxs", "px"},
	{"japsjx", "japjx"},
	/* inlined frames are of the location's binary; those of Python and of an extension stay */
	{"DPDX", "PpXx"},
	/* the same callers without a function of Python below, or not called by one */
	{"cab cabpa cab", "cab cp cab"},
	{"cab cabpa cabqu cabm", "cab cp cabqu cabm"},
	{"axpcx axpax", "axpx xpx"},
	/* frames of other kinds in the interpreter's binary, and those of no binary */
	{"atpate", "tpte"},
	{"aupu", "aupu"},
	{"kpk", "kpk"},
	/* samples that end in functions of one language say nothing of another */
	{"cpc cp", "cpc cp"},
	{"fc f abpa", "fc f p"},
	{"gc g abpa", "gc g p"},
	{"fa abp gjc", "f abp gc"},
	/* where callers are missing: by other stacks, of the same language */
	{"cabpa p[a p[bxa q[axc p[xa", "cp p[ p[x q[xc p[xa"},
	{"p[a p[xa", "p[a p[xa"},
	{"abpa f[a g[a e[a", "p f[a g[a e[a"},
	{"", ""},
};

static void test_hide(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct profile *profile = make(cases[i].stacks);
		int64_t total = profile_total(profile, 0);
		char before[256];
		bool changed;
		snprintf(before, sizeof(before), "%s", show(profile));
		assert_int_equal(profile_hide_interpreters(profile, &changed, NULL), 0);
		assert_string_equal(show(profile), cases[i].result);
		assert_int_equal(changed, strcmp(before, cases[i].result) != 0);
		assert_int_equal(profile_total(profile, 0), total);
		profile_free(profile);
	}
}

/* What has become equal is one for those who sum it. */
static void test_aggregate(void **state)
{
	struct profile *profile = make("abpa abpab abpabm abpax ab");
	bool changed;
	(void)state;
	assert_int_equal(profile_hide_interpreters(profile, &changed, NULL), 0);
	assert_int_equal(profile_aggregate(profile, NULL), 0);
	assert_string_equal(show(profile), "p px ab");
	assert_int_equal(profile->values[0], 1 + 2 + 4);
	profile_free(profile);
}

/* What is hidden already tells by the samples that end in Python. */
static void test_twice(void **state)
{
	struct profile *profile = make("cabpa cabpac cabpaxc cabpaxbqa");
	bool changed;
	(void)state;
	assert_int_equal(profile_hide_interpreters(profile, &changed, NULL), 0);
	assert_string_equal(show(profile), "cp cpc cpxc cpxq");
	assert_true(changed);
	assert_int_equal(profile_hide_interpreters(profile, &changed, NULL), 0);
	assert_string_equal(show(profile), "cp cpc cpxc cpxq");
	assert_false(changed);
	profile_free(profile);
}

/* Nothing is added to a profile without interpreted frames, and nothing allocated. */
static void test_untouched(void **state)
{
	struct profile *profile = make("cabx ck abx");
	size_t stacks = profile->stack_count;
	bool changed = true;
	(void)state;
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(profile_hide_interpreters(profile, &changed, NULL), 0);
	assert_false(fault_disarm(FAULT_ALLOC));
	assert_false(changed);
	assert_int_equal(profile->stack_count, stacks);
	profile_free(profile);
}

/* A stack has sets of at most 16 interpreters, whatever it holds; those that come later stay. */
static void test_many_interpreters(void **state)
{
	struct profile *profile = make("");
	struct profile_sample sample = {0};
	int64_t value = 1;
	bool changed;
	(void)state;
	assert_int_equal(profile_add_stack(profile, 0, add_location(profile, 'p'), &sample.stack, NULL), 0);
	for (uint32_t i = 0; i < 20; i++) {
		struct profile_mapping mapping = {.start = i};
		struct profile_location native = {.address = i, .frame_type = PROFILE_FRAME_NATIVE};
		char name[16];
		uint32_t id;
		snprintf(name, sizeof(name), "binary%u", i);
		assert_int_equal(profile_add_cstring(profile, name, &mapping.file_name, NULL), 0);
		assert_int_equal(profile_add_mapping(profile, &mapping, &native.mapping, NULL), 0);
		assert_int_equal(profile_add_location(profile, &native, NULL, 0, &id, NULL), 0);
		assert_int_equal(profile_add_stack(profile, sample.stack, id, &sample.stack, NULL), 0);
		assert_int_equal(profile_add_stack(profile, sample.stack, add_location(profile, 'q'), &sample.stack, NULL), 0);
	}
	assert_int_equal(profile_add_stack(profile, sample.stack, add_location(profile, 'k'), &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	assert_int_equal(profile_hide_interpreters(profile, &changed, NULL), 0);
	assert_string_equal(show(profile), "pqqqqqqqqqqqqqqqq?q?q?q?qk");
	profile_free(profile);
}

/* Every allocation fails once: an error, and the samples that there were. */
static void test_no_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (uint64_t nth = 1;; nth++) {
			struct profile *profile = make(cases[i].stacks);
			char before[256];
			bool changed;
			snprintf(before, sizeof(before), "%s", show(profile));
			fault_arm(FAULT_ALLOC, nth, 0);
			int r = profile_hide_interpreters(profile, &changed, NULL);
			bool reached = fault_disarm(FAULT_ALLOC);
			assert_int_equal(r, reached ? -ENOMEM : 0);
			assert_string_equal(show(profile), reached ? before : cases[i].result);
			profile_free(profile);
			if (!reached)
				break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hide),	  cmocka_unit_test(test_aggregate),	    cmocka_unit_test(test_twice),
		cmocka_unit_test(test_untouched), cmocka_unit_test(test_many_interpreters), cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
