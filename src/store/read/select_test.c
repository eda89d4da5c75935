/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing series, filtering stacks, and the set of stacks: the parts of reading that need no store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "profile/type_labels.h"
#include "store/block/filter.h"
#include "store/read/select.h"
#include "store/stack_set.h"

/* ---- series ---- */

#define SERIES 60
static struct series all_series[SERIES];
static struct labels all_labels[SERIES];
static const struct profile_type types[2] = {{.name = "cpu"}, {.name = "memory"}};

static void make_series(void)
{
	for (size_t i = 0; i < SERIES; i++) {
		char value[32];
		all_labels[i] = (struct labels){0};
		snprintf(value, sizeof(value), "s%zu", i % 7);
		labels_set(&all_labels[i], "service", value, NULL);
		snprintf(value, sizeof(value), "h%zu", i % 5);
		if (i % 3)
			labels_set(&all_labels[i], "host", value, NULL);
		all_series[i] = (struct series){.type = &types[i % 2], .labels = &all_labels[i], .samples = 1};
	}
}

static void release_series(void)
{
	for (size_t i = 0; i < SERIES; i++)
		labels_release(&all_labels[i]);
}

struct groups {
	char texts[SERIES][64];
	size_t count, calls;
};

static int group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret, struct error *err)
{
	struct groups *groups = context;
	char text[64];
	const char *service = labels_get(labels, "service"), *host = labels_get(labels, "host");
	snprintf(text, sizeof(text), "%s %s %s", type->name, service ? service : "-", host ? host : "-");
	groups->calls++;
	for (*ret = 0; *ret < groups->count; ++*ret)
		if (strcmp(groups->texts[*ret], text) == 0)
			return 0;
	snprintf(groups->texts[groups->count++], sizeof(text), "%s", text);
	return 0;
}

static int select_series(const struct series_conditions *conditions, const struct store_grouping *grouping,
			 const struct series_columns *columns, struct selection *ret)
{
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = NULL;
	int r = series_matcher_new(conditions, &matcher, NULL);
	return r < 0 ? r : selection_make(matcher, grouping, columns, ret, NULL);
}

/* want: by series, whether it is wanted. */
static void check_selection(const struct series_conditions *conditions, const struct series_columns *columns,
			    const bool want[static SERIES])
{
	struct selection selection;
	size_t matched = 0;
	assert_int_equal(select_series(conditions, NULL, columns, &selection), 0);
	for (size_t i = 0; i < SERIES; i++) {
		assert_int_equal(selection.wanted[i], want[i]);
		matched += want[i];
	}
	assert_int_equal(selection.matched, matched);
	selection_release(&selection);
}

static void test_matchers(void **state)
{
	struct series_columns columns;
	bool want[SERIES];
	make_series();
	assert_int_equal(series_columns_build(all_series, SERIES, &columns, NULL), 0);
	struct label_condition labels[] = {{.label = "service", .text = "s3"}, {.label = "host", .text = ""}};
	struct type_condition type = {.parts = {"cpu"}};
	struct series_conditions conditions = {.types = &type, .type_count = 1, .labels = labels};
	for (size_t count = 0; count <= 2; count++) {
		conditions.label_count = count;
		for (size_t i = 0; i < SERIES; i++)
			want[i] = i % 2 == 0 && (count < 1 || i % 7 == 3) && (count < 2 || i % 3 == 0);
		check_selection(&conditions, &columns, want);
	}
	/* One of several values, none of them; a condition on the type that is written as one on a label. */
	const char *const services[] = {"s1", "s4"};
	labels[0] = (struct label_condition){.label = "service", .texts = services, .text_count = 2};
	labels[1] = (struct label_condition){.label = "__name__", .op = PATTERN_REGEX, .text = "mem.*"};
	conditions = (struct series_conditions){.labels = labels, .label_count = 2};
	for (size_t i = 0; i < SERIES; i++)
		want[i] = i % 2 == 1 && (i % 7 == 1 || i % 7 == 4);
	check_selection(&conditions, &columns, want);
	labels[0].op = PATTERN_NOT_EQUAL;
	for (size_t i = 0; i < SERIES; i++)
		want[i] = i % 2 == 1 && i % 7 != 1 && i % 7 != 4;
	check_selection(&conditions, &columns, want);
	/* Given series. */
	uint64_t keys[2];
	assert_int_equal(series_key(all_series[5].type, all_series[5].labels, &keys[0], NULL), 0);
	assert_int_equal(series_key(all_series[8].type, all_series[8].labels, &keys[1], NULL), 0);
	conditions = (struct series_conditions){.keys = keys, .key_count = 2};
	for (size_t i = 0; i < SERIES; i++)
		want[i] = (all_series[i].type == all_series[5].type &&
			   !labels_compare(all_series[i].labels, all_series[5].labels)) ||
			  (all_series[i].type == all_series[8].type &&
			   !labels_compare(all_series[i].labels, all_series[8].labels));
	check_selection(&conditions, &columns, want);
	/* A label that no series has is "". */
	labels[0] = (struct label_condition){.label = "nowhere", .text = "x"};
	conditions = (struct series_conditions){.labels = labels, .label_count = 1};
	check_selection(&conditions, &columns, (const bool[SERIES]){false});
	series_columns_release(&columns);
	release_series();
}

static void check_groups(const struct series_columns *columns, const char *const *by, size_t by_count)
{
	struct groups *groups = mem_zalloc(sizeof(*groups));
	struct store_grouping grouping = {.by = by, .by_count = by_count, .group = group, .context = groups};
	struct selection selection;
	assert_int_equal(select_series(&(struct series_conditions){0}, &grouping, columns, &selection), 0);
	for (size_t i = 0; i < SERIES; i++) {
		bool service = !by, host = !by;
		for (size_t k = 0; k < by_count; k++) {
			service |= strcmp(by[k], "service") == 0;
			host |= strcmp(by[k], "host") == 0;
		}
		char text[64], s[16], h[16];
		snprintf(s, sizeof(s), "s%zu", i % 7);
		snprintf(h, sizeof(h), "h%zu", i % 5);
		snprintf(text, sizeof(text), "%s %s %s", types[i % 2].name, service ? s : "-", host && i % 3 ? h : "-");
		assert_string_equal(groups->texts[selection.groups[i]], text);
	}
	if (by)
		assert_int_equal(groups->calls, groups->count); /* once a combination */
	selection_release(&selection);
	mem_free(groups);
}

static void test_groups(void **state)
{
	struct series_columns columns;
	make_series();
	assert_int_equal(series_columns_build(all_series, SERIES, &columns, NULL), 0);
	check_groups(&columns, (const char *const[]){"service"}, 1);
	check_groups(&columns, (const char *const[]){"host", "service"}, 2);
	check_groups(&columns, (const char *const[]){"nowhere"}, 1);
	check_groups(&columns, (const char *const[]){"nowhere", "host"}, 2);
	check_groups(&columns, NULL, 0);
	struct store_grouping grouping = {
		.by = (const char *const[STORE_GROUP_BY_MAX + 1]){"a"}, .by_count = STORE_GROUP_BY_MAX + 1, .group = group};
	struct selection selection;
	assert_int_equal(select_series(&(struct series_conditions){0}, &grouping, &columns, &selection), -EINVAL);
	series_columns_release(&columns);
	release_series();
}

static void test_selecting_without_memory(void **state)
{
	struct series_columns columns;
	make_series();
	assert_int_equal(series_columns_build(all_series, SERIES, &columns, NULL), 0);
	const char *by[] = {"service", "host"};
	for (uint64_t n = 1;; n++) {
		struct groups *groups = mem_zalloc(sizeof(*groups));
		struct store_grouping grouping = {.by = by, .by_count = 2, .group = group, .context = groups};
		struct label_condition label = {.label = "service", .op = PATTERN_REGEX, .text = "s3"};
		struct series_conditions conditions = {.labels = &label, .label_count = 1};
		struct selection selection = {0};
		fault_arm(FAULT_ALLOC, n, 0);
		int r = select_series(&conditions, &grouping, &columns, &selection);
		bool reached = fault_disarm(FAULT_ALLOC);
		assert_int_equal(r, reached ? -ENOMEM : 0);
		selection_release(&selection);
		mem_free(groups);
		if (!reached)
			break;
	}
	series_columns_release(&columns);
	release_series();
}

/* ---- stacks ---- */

/* main calls work (which inlines helper) calls leaf; main calls leaf; leaf alone. Ids: 1 main, 2 work, 3 leaf below work, 4
 * leaf below main, 5 leaf as a root. */
static struct profile *make_pool(void)
{
	struct profile *pool;
	uint32_t locations[3], stack;
	static const char *const names[3][2] = {{"main"}, {"helper", "work"}, {"leaf"}};
	assert_int_equal(profile_new(&pool, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		struct profile_line lines[2] = {0};
		size_t count = names[i][1] ? 2 : 1;
		for (size_t k = 0; k < count; k++) {
			struct profile_function function = {0};
			profile_add_cstring(pool, names[i][k], &function.name, NULL);
			profile_add_function(pool, &function, &lines[k].function, NULL);
		}
		struct profile_location location = {.address = i + 1};
		profile_add_location(pool, &location, lines, count, &locations[i], NULL);
	}
	profile_add_stack(pool, 0, locations[0], &stack, NULL);
	profile_add_stack(pool, 1, locations[1], &stack, NULL);
	profile_add_stack(pool, 2, locations[2], &stack, NULL);
	profile_add_stack(pool, 1, locations[2], &stack, NULL);
	profile_add_stack(pool, 0, locations[2], &stack, NULL);
	assert_int_equal(pool->stack_count, 6);
	return pool;
}

/* want: a character a stack, '1' = accepted. */
static void check_filter(const struct profile *pool, const struct store_stack_condition *conditions, size_t count,
			 const char *want)
{
	struct store_select select = {.conditions = conditions, .condition_count = count};
	struct stack_filter *filter;
	uint8_t *accepted;
	assert_int_equal(stack_filter_new(&select, &filter, NULL), 0);
	assert_int_equal(filter_pool(filter, pool, &accepted, NULL), 0);
	assert_int_equal(stack_filter_failure(filter, NULL), 0);
	stack_filter_free(filter);
	for (size_t i = 0; i < pool->stack_count; i++)
		if (accepted[i] != (want[i] == '1'))
			fail_msg("stack %zu, expected %s", i, want);
	mem_free(accepted);
}

static void test_filters(void **state)
{
	struct profile *pool = make_pool();
	struct frame_test t[2] = {{.text = "work"}, {.text = "leaf"}};
	struct store_stack_condition c[2] = {{.tests = &t[0], .test_count = 1}};
	check_filter(pool, c, 1, "001100");
	t[0].text = "helper";
	check_filter(pool, c, 1, "001100");
	c[0].where = STORE_LEAF; /* the innermost of the leaf frame: helper, not the work that it is inlined into */
	check_filter(pool, c, 1, "001000");
	t[0].text = "work";
	check_filter(pool, c, 1, "000000");
	t[0].text = "leaf";
	check_filter(pool, c, 1, "000111");
	c[0].where = STORE_ROOT;
	check_filter(pool, c, 1, "000001");
	c[0].negate = true;
	check_filter(pool, c, 1, "111110");
	c[1] = (struct store_stack_condition){.tests = &t[1], .test_count = 1};
	check_filter(pool, c, 2, "000110");
	profile_free(pool);
}

static void test_stack_set(void **state)
{
	enum { STACKS = 5000 };
	struct hash128 *hashes = mem_alloc_array(STACKS, sizeof(*hashes));
	uint32_t *stacks = mem_alloc_array(STACKS, sizeof(*stacks)), *groups = mem_alloc_array(STACKS, sizeof(*groups));
	int64_t *values = mem_alloc_array(STACKS, sizeof(*values)), total = 0;
	struct stack_set set = {0};
	for (uint32_t source = 0; source < 3; source++) {
		for (uint32_t i = 0; i < STACKS; i++) {
			/* Half of them are also in the next source, under another id. Low halves collide now and then. */
			uint64_t content = (uint64_t)source * STACKS / 2 + i;
			stacks[i] = STACKS - 1 - i;
			hashes[stacks[i]] = (struct hash128){.high = content, .low = hash64_mix(content / 2)};
			groups[i] = i % 2;
			values[i] = (int64_t)content;
			total += values[i];
		}
		struct stack_sums sums = {stacks, groups, values, STACKS};
		assert_int_equal(stack_set_add(&set, source, &sums, hashes, SIZE_MAX, NULL), 0);
	}
	assert_int_equal(set.count, 2 * STACKS);
	for (size_t i = 0; i < set.count; i++)
		total -= set.entries[i].value;
	assert_int_equal(total, 0);
	struct stack_sums sums = {stacks, NULL, values, STACKS};
	assert_int_equal(stack_set_add(&set, 3, &sums, hashes, 2 * STACKS + 10, NULL), -E2BIG);
	assert_int_equal(set.count, 2 * STACKS + 10);
	stack_set_release(&set);
	mem_free(hashes);
	mem_free(stacks);
	mem_free(groups);
	mem_free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matchers),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_selecting_without_memory),
		cmocka_unit_test(test_filters),
		cmocka_unit_test(test_stack_set),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
