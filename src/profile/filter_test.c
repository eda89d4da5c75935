/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/fault.h"
#include "profile/filter.h"

/* Stacks as letters, root first; each letter is a function, a capital one with a small one inlined into it: "B" is the location
 * of b in B, and shown as "Bb". The value of the n-th stack is 1 << n. */
static struct profile *make(const char *const *stacks)
{
	struct profile *profile;
	uint32_t type;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_cstring(profile, "samples", &type, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, type, type, NULL), 0);
	for (size_t i = 0; stacks[i]; i++) {
		struct profile_sample sample = {0};
		for (const char *at = stacks[i]; *at; at++) {
			struct profile_line lines[2] = {{.line = 1}, {.line = 2}};
			struct profile_location location = {.address = (uint64_t)*at};
			bool is_pair = *at >= 'A' && *at <= 'Z';
			uint32_t id;
			for (int k = 0; k <= is_pair; k++) {
				struct profile_function function = {0};
				char name[2] = {k == is_pair ? *at : (char)(*at + 'a' - 'A'), 0};
				assert_int_equal(profile_add_cstring(profile, name, &function.name, NULL), 0);
				assert_int_equal(profile_add_function(profile, &function, &lines[k].function, NULL), 0);
			}
			assert_int_equal(profile_add_location(profile, &location, lines, 1 + is_pair, &id, NULL), 0);
			assert_int_equal(profile_add_stack(profile, sample.stack, id, &sample.stack, NULL), 0);
		}
		int64_t value = 1ll << i;
		assert_int_equal(profile_add_sample(profile, &sample, &value, NULL), 0);
	}
	return profile;
}

/* The functions of all stacks, root first, a blank between stacks. */
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
			for (uint32_t k = location->line_count; k-- > 0;) {
				uint32_t function = profile->lines[location->line_first + k].function;
				text[used++] = profile_string(profile, profile->functions[function].name)[0];
			}
		}
	}
	text[used] = '\0';
	return text;
}

static bool finds(const void *context, struct bytes text)
{
	return text.len > 0 && strchr(context, (char)text.data[0]) != NULL;
}

enum kind { NAMES, SHOW_FROM, PRUNE_FROM, PRUNE };
static const struct filter_case {
	enum kind kind;
	const char *stacks[4];
	const char *focus, *ignore, *hide, *show; /* NAMES; others: focus is what is looked for, ignore what is kept */
	const char *result;
} cases[] = {
	{NAMES, {"xyBz", "y", "BB"}, "z", NULL, NULL, NULL, "xyBbz"},
	{NAMES, {"xyBz", "y", "BB"}, "y", NULL, NULL, NULL, "xyBbz y"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, "b", NULL, NULL, "y"},
	{NAMES, {"xyBz", "y", "BB"}, "y", "z", NULL, NULL, "y"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, NULL, "y", NULL, "xBbz BbBb"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, NULL, "b", NULL, "xyBz y BB"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, NULL, "B", NULL, "xybz y bb"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, NULL, NULL, "b", "b bb"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, NULL, "b", "bB", "B BB"},
	{NAMES, {"xyBz", "y", "BB"}, NULL, NULL, "xyzBb", NULL, ""},
	{NAMES, {"xyBz", "y", "BB"}, "b", NULL, "b", NULL, "xyBz BB"},
	{SHOW_FROM, {"abcb", "xab", "z"}, "b", NULL, NULL, NULL, "bcb b"},
	{SHOW_FROM, {"abcb", "xab", "z"}, "c", NULL, NULL, NULL, "cb"},
	{SHOW_FROM, {"xBy"}, "b", NULL, NULL, NULL, "by"},
	{SHOW_FROM, {"xBy"}, "B", NULL, NULL, NULL, "Bby"},
	{SHOW_FROM, {"xBy"}, "q", NULL, NULL, NULL, ""},
	{PRUNE_FROM, {"dbcba"}, "a", NULL, NULL, NULL, "dbcba"},
	{PRUNE_FROM, {"dbcba"}, "b", NULL, NULL, NULL, "dbcb"},
	{PRUNE_FROM, {"dbcba", "cc"}, "d", NULL, NULL, NULL, "d cc"},
	{PRUNE_FROM, {"xBy"}, "B", NULL, NULL, NULL, "xB"},
	{PRUNE_FROM, {"xBy"}, "b", NULL, NULL, NULL, "xBb"},
	{PRUNE, {"dbcba"}, "a", NULL, NULL, NULL, "dbcb"},
	{PRUNE, {"dbcba"}, "b", NULL, NULL, NULL, "d"},
	{PRUNE, {"dbcba"}, "b", "b", NULL, NULL, "dbcba"},
	{PRUNE, {"dbcba", "ddx"}, "d", NULL, NULL, NULL, "dbcba ddx"},
	{PRUNE, {"xBy"}, "B", NULL, NULL, NULL, "x"},
	{PRUNE, {"xBy"}, "b", NULL, NULL, NULL, "xB"},
};

static int apply(const struct filter_case *c, struct profile *profile, bool *ret_found)
{
	const struct profile_matcher focus = {finds, c->focus}, ignore = {finds, c->ignore}, hide = {finds, c->hide},
				     shown = {finds, c->show};
	const struct profile_names_filter filter = {c->focus ? &focus : NULL, c->ignore ? &ignore : NULL,
						    c->hide ? &hide : NULL, c->show ? &shown : NULL};
	struct profile_names_found found;
	int r = 0;
	*ret_found = true;
	switch (c->kind) {
	case NAMES: r = profile_filter_names(profile, &filter, &found, NULL); break;
	case SHOW_FROM: r = profile_filter_show_from(profile, &focus, ret_found, NULL); break;
	case PRUNE_FROM: r = profile_filter_prune_from(profile, &focus, NULL); break;
	case PRUNE: r = profile_filter_prune(profile, &focus, filter.ignore, NULL); break;
	}
	return r;
}

/* What google/pprof makes of these (profile/filter.go, profile/prune.go). */
static void test_frames(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct profile *profile = make(cases[i].stacks);
		bool found;
		assert_int_equal(apply(&cases[i], profile, &found), 0);
		assert_string_equal(show(profile), cases[i].result);
		assert_int_equal(found, cases[i].kind != SHOW_FROM || cases[i].result[0] != '\0');
		profile_free(profile);
	}
}

/* Every allocation fails once: an error, and a profile that can be read. */
static void test_no_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		for (uint64_t nth = 1;; nth++) {
			struct profile *profile = make(cases[i].stacks);
			bool found;
			fault_arm(FAULT_ALLOC, nth, 0);
			int r = apply(&cases[i], profile, &found);
			bool reached = fault_disarm(FAULT_ALLOC);
			assert_int_equal(r, reached ? -ENOMEM : 0);
			if (!reached)
				assert_string_equal(show(profile), cases[i].result);
			(void)show(profile);
			profile_free(profile);
			if (!reached)
				break;
		}
	}
}

static bool keep_even(const void *context, const struct profile *profile, size_t sample)
{
	(void)context;
	return profile->values[sample] != 2;
}

static void test_samples_and_labels(void **state)
{
	static const char *const stacks[] = {"a", "b", "c", NULL};
	const struct profile_matcher k = {finds, "k"}, n = {finds, "n"};
	struct profile *profile = make(stacks);
	struct profile_labels_found found;
	(void)state;
	profile_filter_samples(profile, keep_even, NULL);
	assert_string_equal(show(profile), "a c");
	assert_int_equal(profile->values[1], 4);
	assert_int_equal(profile_set_label(profile, "key", "one", NULL), 0);
	assert_int_equal(profile_set_label(profile, "key", "two", NULL), 0);
	assert_int_equal(profile_set_label(profile, "name", "x", NULL), 0);
	assert_int_equal(profile->label_sets[profile->samples[0].labels].count, 2);
	assert_string_equal(profile_label_value(profile, profile->samples[1].labels, "key"), "two");
	assert_int_equal(profile_filter_labels(profile, &k, NULL, &found, NULL), 0);
	assert_true(found.show);
	assert_null(profile_label_value(profile, profile->samples[1].labels, "name"));
	assert_int_equal(profile_filter_labels(profile, NULL, &n, &found, NULL), 0);
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "key"), "two");
	/* Samples that became equal are one to those who sum them. */
	assert_int_equal(profile_aggregate(profile, NULL), 0);
	assert_int_equal(profile->sample_count, 2);
	profile->resource_labels = profile->samples[0].labels;
	assert_int_equal(profile_set_label(profile, "key", "three", NULL), 0);
	assert_int_equal(profile_spread_resource_labels(profile, NULL), 0);
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "key"), "three");
	assert_int_equal(profile->resource_labels, 0);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_samples_and_labels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
