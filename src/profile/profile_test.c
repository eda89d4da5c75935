/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>

#include "base/fault.h"
#include "base/limits.h"
#include "base/test_faults.h"
#include "profile/profile_int.h"
#include "profile/test_profile.h"

static const struct test_shape small_shape = {
	.binaries = 3, .functions = 5, .addresses = 6, .samples = 40, .depth = 6, .types = 2, .links = true, .times = true};

static struct profile *new_profile(void)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	return profile;
}

static uint32_t add_named_location(struct profile *profile, const char *name)
{
	struct profile_function function = {.name = test_string(profile, name)};
	struct profile_line line = {.line = 1};
	struct profile_location location = {0};
	uint32_t id;
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &id, NULL), 0);
	return id;
}

static void test_empty(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	uint32_t id = 99;
	assert_int_equal(profile_add_cstring(profile, "", &id, NULL), 0);
	assert_int_equal(id, 0);
	struct profile_mapping mapping = {0};
	assert_int_equal(profile_add_mapping(profile, &mapping, &id, NULL), 0);
	assert_int_equal(id, 0);
	assert_int_equal(profile_add_label_set(profile, NULL, 0, &id, NULL), 0);
	assert_int_equal(id, 0);
	struct profile_link link = {0};
	assert_int_equal(profile_add_link(profile, &link, &id, NULL), 0);
	assert_int_equal(id, 0);
	assert_int_equal(profile_add_stack_leaf_first(profile, NULL, 0, &id, NULL), 0);
	assert_int_equal(id, 0);
	assert_int_equal(profile_stack_depth(profile, 0), 0);
	assert_null(profile_free(NULL));
}

/* An empty function or location is still a frame, and must not become "none". */
static void test_unknown_frames_stay(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct profile_function function = {0};
	struct profile_location location = {0};
	uint32_t function_id, again, location_id, stack, root;
	assert_int_equal(profile_add_function(profile, &function, &function_id, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &again, NULL), 0);
	assert_int_equal(function_id, 1);
	assert_int_equal(again, 1);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &location_id, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &again, NULL), 0);
	assert_int_equal(location_id, 1);
	assert_int_equal(again, 1);
	assert_int_equal(profile_add_stack(profile, 0, location_id, &stack, NULL), 0);
	assert_int_equal(profile_add_stack(profile, 0, 0, &root, NULL), 0);
	assert_int_not_equal(stack, 0);
	assert_int_not_equal(root, 0);
	assert_int_not_equal(root, stack);
	assert_int_equal(profile_stack_depth(profile, root), 1);
}

static void test_interning(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct profile_mapping mapping = {.start = 1, .limit = 2, .offset = 3, .file_name = test_string(profile, "f")};
	uint32_t a, b;
	assert_int_equal(profile_add_mapping(profile, &mapping, &a, NULL), 0);
	assert_int_equal(profile_add_mapping(profile, &mapping, &b, NULL), 0);
	assert_int_equal(a, b);
	mapping.flags = PROFILE_MAPPING_HAS_FUNCTIONS;
	assert_int_equal(profile_add_mapping(profile, &mapping, &b, NULL), 0);
	assert_int_not_equal(a, b);
	/* Locations: every part of the key distinguishes two. */
	struct profile_function function = {.name = test_string(profile, "main")};
	struct profile_line lines[2] = {{.line = 1, .column = 2}, {.line = 3, .column = 4}};
	assert_int_equal(profile_add_function(profile, &function, &lines[0].function, NULL), 0);
	lines[1].function = lines[0].function;
	uint32_t seen[16];
	size_t count = 0;
	for (unsigned variant = 0; variant < 8; variant++) {
		struct profile_location location = {.mapping = a, .address = 10};
		struct profile_line changed[2] = {lines[0], lines[1]};
		size_t line_count = 2;
		switch (variant) {
		case 1: location.mapping = b; break;
		case 2: location.address = 11; break;
		case 3: location.folded = true; break;
		case 4: location.frame_type = PROFILE_FRAME_KERNEL; break;
		case 5: line_count = 1; break;
		case 6: changed[0].column = 9; break;
		case 7: changed[1].line = 9; break;
		}
		uint32_t again;
		assert_int_equal(profile_add_location(profile, &location, changed, line_count, &seen[count], NULL), 0);
		assert_int_equal(profile_add_location(profile, &location, changed, line_count, &again, NULL), 0);
		assert_int_equal(again, seen[count]);
		for (size_t i = 0; i < count; i++)
			assert_int_not_equal(seen[i], seen[count]);
		count++;
	}
	assert_int_equal(profile->location_count, 1 + count);
	assert_int_equal(profile_location_file_offset(profile, seen[0]), 10 - 1 + 3);
}

/* A model of interning: the table must agree with a linear search for every one of many random entries. */
static void test_interning_model(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	enum { COUNT = 3000 };
	static struct {
		uint32_t parent, location, id;
	} model[COUNT];
	size_t known = 0;
	struct test_random random = {.state = 7};
	uint32_t locations[20];
	for (unsigned i = 0; i < 20; i++) {
		char name[8];
		snprintf(name, sizeof(name), "f%u", i);
		locations[i] = add_named_location(profile, name);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		uint32_t parent = (uint32_t)test_random_below(&random, known + 1 < 100 ? known + 1 : 100), id;
		uint32_t location = locations[test_random_below(&random, 20)];
		assert_int_equal(profile_add_stack(profile, parent, location, &id, NULL), 0);
		assert_true(parent < id);
		size_t at = 0;
		while (at < known && (model[at].parent != parent || model[at].location != location))
			at++;
		if (at == known) {
			model[known].parent = parent;
			model[known].location = location;
			model[known++].id = id;
			assert_int_equal(id, known);
		}
		assert_int_equal(model[at].id, id);
	}
	assert_int_equal(profile->stack_count, known + 1);
}

static void test_stacks(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	uint32_t a = add_named_location(profile, "a"), b = add_named_location(profile, "b"), leaf_first[3] = {a, b, a},
		 got[3] = {0};
	uint32_t stack, again, parent;
	assert_int_equal(profile_add_stack_leaf_first(profile, leaf_first, 3, &stack, NULL), 0);
	assert_int_equal(profile_add_stack_leaf_first(profile, leaf_first, 3, &again, NULL), 0);
	assert_int_equal(stack, again);
	assert_int_equal(profile_stack_depth(profile, stack), 3);
	assert_int_equal(profile_stack_locations(profile, stack, got, 3), 3);
	assert_memory_equal(got, leaf_first, sizeof(got));
	got[2] = 77;
	assert_int_equal(profile_stack_locations(profile, stack, got, 2), 3);
	assert_int_equal(got[2], 77);
	assert_int_equal(profile_add_stack_leaf_first(profile, leaf_first + 1, 2, &parent, NULL), 0);
	assert_int_equal(profile->stacks[stack].parent, parent);
	assert_int_equal(profile->stack_count, 4);
}

/* Whole paths at once give what frame by frame does, below any parent, known in part or not at all. */
static void test_stack_frames(void **state)
{
	_cleanup_(profile_freep) struct profile *one = new_profile(), *other = new_profile();
	struct test_random random = {.state = 11};
	for (unsigned i = 0; i < 6; i++) {
		char name[8];
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(add_named_location(one, name), add_named_location(other, name));
	}
	for (unsigned round = 0; round < 2000; round++) {
		uint32_t locations[12], stacks[12], parent = (uint32_t)test_random_below(&random, one->stack_count), stack;
		size_t count = test_random_below(&random, 13);
		for (size_t i = 0; i < count; i++)
			locations[i] = (uint32_t)test_random_below(&random, 7); /* 0: a frame without a location */
		while (profile_stack_depth(one, parent) > 1000)
			parent = one->stacks[parent].parent;
		stack = parent;
		assert_int_equal(profile_add_stack_frames(one, parent, locations, count, stacks, NULL), 0);
		for (size_t i = 0; i < count; i++) {
			assert_int_equal(profile_add_stack(other, stack, locations[i], &stack, NULL), 0);
			assert_int_equal(stacks[i], stack);
		}
		if (round % 500 == 499)
			profile_shrink_stacks(one);
	}
	assert_int_equal(one->stack_count, other->stack_count);
	assert_memory_equal(one->stacks, other->stacks, one->stack_count * sizeof(*one->stacks));
}

static void test_stack_frames_are_limited(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	static uint32_t locations[LIMIT_STACK_DEPTH + 1], stacks[LIMIT_STACK_DEPTH + 1];
	struct error err = {0};
	assert_int_equal(profile_add_stack_frames(profile, 0, locations, LIMIT_STACK_DEPTH, stacks, NULL), 0);
	assert_int_equal(profile_stack_depth(profile, stacks[LIMIT_STACK_DEPTH - 1]), LIMIT_STACK_DEPTH);
	assert_int_equal(profile_add_stack_frames(profile, 0, locations, LIMIT_STACK_DEPTH + 1, stacks, &err), -E2BIG);
	assert_non_null(strstr(err.message, "deeper than 16384"));
}

static void fill(struct profile *profile)
{
	for (unsigned i = 0; i < 300; i++) {
		char name[16];
		uint32_t stack = i / 2;
		int64_t value = i;
		snprintf(name, sizeof(name), "f%u", i % 200);
		uint32_t location = add_named_location(profile, name);
		for (unsigned depth = 0; depth < 4; depth++)
			assert_int_equal(profile_add_stack(profile, stack, location, &stack, NULL), 0);
		assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.stack = stack}, &value, NULL), 0);
	}
}

/* Room changes nothing but what is allocated: a profile that was told too little, too much or nothing is the same. */
static void test_room(void **state)
{
	static const struct profile_room rooms[] = {
		{0},
		{.strings = 1, .functions = 1, .locations = 1, .lines = 1, .stacks = 1, .samples = 1},
		{.strings = 500, .functions = 500, .locations = 500, .lines = 500, .stacks = 5000, .samples = 500},
		{SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX},
	};
	_cleanup_(profile_freep) struct profile *plain = new_profile();
	fill(plain);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		_cleanup_(profile_freep) struct profile *profile = new_profile();
		assert_int_equal(profile_make_room(profile, &rooms[i], NULL), 0);
		fill(profile);
		/* Once more where there is something, and where the tables are full. */
		assert_int_equal(profile_make_room(profile, &rooms[i], NULL), 0);
		profile->index->entities_max = 3;
		assert_int_equal(profile_make_room(profile, &rooms[i], NULL), 0);
		profile->index->entities_max = LIMIT_PROFILE_ENTITIES;
		assert_int_equal(profile->strings.count, plain->strings.count);
		assert_int_equal(profile->function_count, plain->function_count);
		assert_int_equal(profile->location_count, plain->location_count);
		assert_int_equal(profile->sample_count, plain->sample_count);
		assert_int_equal(profile->stack_count, plain->stack_count);
		assert_memory_equal(profile->stacks, plain->stacks, plain->stack_count * sizeof(*plain->stacks));
		size_t locations = profile->location_count;
		fill(profile);
		assert_int_equal(profile->location_count, locations);
	}
}

static void test_label_sets(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	uint32_t z = test_string(profile, "z"), a = test_string(profile, "a"), one = test_string(profile, "1");
	uint32_t two = test_string(profile, "2"), ms = test_string(profile, "ms"), first, second;
	struct profile_label labels[] = {
		{.key = z, .value = two},
		{.key = a, .value = two},
		{.key = z, .value = one},
		{.key = z, .value = two},
		{.key = a, .number = 5, .unit = ms},
	};
	assert_int_equal(profile_add_label_set(profile, labels, 5, &first, NULL), 0);
	const struct profile_label_set *set = &profile->label_sets[first];
	const struct profile_label *got = profile->labels + set->first;
	assert_int_equal(set->count, 4);
	assert_int_equal(got[0].value, two);
	assert_int_equal(got[1].number, 5);
	assert_int_equal(got[2].value, two);
	assert_int_equal(got[3].value, one);
	struct profile_label other_order[] = {labels[1], labels[4], labels[0], labels[2]};
	assert_int_equal(profile_add_label_set(profile, other_order, 4, &second, NULL), 0);
	assert_int_equal(first, second);
	/* The entries may be the profile's own, which move when the table grows. */
	size_t own_count = profile->label_sets[first].count;
	for (unsigned i = 0; i < 100; i++) {
		struct profile_label grown = {.key = a, .number = i + 10};
		assert_int_equal(profile_add_label_set(profile, &grown, 1, &second, NULL), 0);
		assert_int_equal(profile_add_label_set(profile, profile->labels + profile->label_sets[first].first, own_count,
						       &second, NULL),
				 0);
		assert_int_equal(second, first);
	}
	assert_string_equal(profile_label_value(profile, first, "z"), "2");
	assert_string_equal(profile_label_value(profile, first, "a"), "2");
	assert_null(profile_label_value(profile, first, "b"));
}

/* Sorting by insertion and by qsort must agree. */
static void test_number_labels(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct profile_label label = {.unit = 7};
	uint32_t key = test_string(profile, "thread.id");
	assert_int_equal(profile_number_label(profile, key, -18, &label, NULL), 0);
	assert_int_equal(label.key, key);
	assert_int_equal(label.number, -18);
	assert_int_equal(label.value, 0);
	assert_int_equal(label.unit, 0);
	assert_int_equal(profile_number_label(profile, key, 0, &label, NULL), 0);
	assert_int_equal(label.number, 0);
	assert_string_equal(profile_string(profile, label.value), "0");
}

static void test_large_label_sets(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	enum { COUNT = 5000 };
	static struct profile_label labels[COUNT];
	struct test_random random = {.state = 3};
	uint32_t keys[10];
	for (unsigned i = 0; i < 10; i++) {
		char name[8];
		snprintf(name, sizeof(name), "k%u", (i * 7) % 10);
		keys[i] = test_string(profile, name);
	}
	for (unsigned i = 0; i < COUNT; i++)
		labels[i] = (struct profile_label){.key = keys[test_random_below(&random, 10)],
						   .number = (int64_t)test_random_below(&random, 500)};
	uint32_t id;
	assert_int_equal(profile_add_label_set(profile, labels, COUNT, &id, NULL), 0);
	const struct profile_label_set *set = &profile->label_sets[id];
	const struct profile_label *got = profile->labels + set->first;
	size_t expected = 0;
	for (unsigned key = 0; key < 10; key++) {
		char name[8];
		snprintf(name, sizeof(name), "k%u", key);
		uint32_t key_id = test_string(profile, name);
		for (unsigned i = 0; i < COUNT; i++) {
			bool first = labels[i].key == key_id;
			for (unsigned j = 0; j < i && first; j++)
				first = labels[j].key != key_id || labels[j].number != labels[i].number;
			if (!first)
				continue;
			assert_true(expected < set->count);
			assert_int_equal(got[expected].key, key_id);
			assert_int_equal(got[expected].number, labels[i].number);
			expected++;
		}
	}
	assert_int_equal(set->count, expected);
}

static void add_sample(struct profile *profile, uint32_t stack, int64_t time_ns, int64_t first, int64_t second)
{
	struct profile_sample sample = {.stack = stack, .time_ns = time_ns};
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){first, second}, NULL), 0);
}

static void test_samples_and_aggregation(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct error err = {0};
	uint32_t cpu = test_string(profile, "cpu"), samples = test_string(profile, "samples"), stack;
	assert_int_equal(profile_add_sample_type(profile, samples, 0, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, cpu, 0, NULL), 0);
	uint32_t location = add_named_location(profile, "a");
	assert_int_equal(profile_add_stack(profile, 0, location, &stack, NULL), 0);
	add_sample(profile, 0, 0, 1, 10);
	add_sample(profile, stack, 0, 2, 20);
	add_sample(profile, stack, 5, 4, 40);
	add_sample(profile, 0, 0, 8, 80);
	add_sample(profile, stack, 7, 0, 0);
	add_sample(profile, stack, 5, -4, -40);
	add_sample(profile, stack, 9, 0, 0);
	add_sample(profile, stack, 9, 16, 0);
	assert_int_equal(profile_add_sample_type(profile, cpu, 0, &err), -EINVAL);
	assert_non_null(strstr(err.message, "cpu"));
	assert_int_equal(profile_total(profile, 0), 27);
	assert_int_equal(profile_total(profile, 1), 110);
	for (int pass = 0; pass < 2; pass++) {
		assert_int_equal(profile_aggregate(profile, NULL), 0);
		assert_int_equal(profile->sample_count, 3);
		assert_int_equal(profile_total(profile, 0), 27);
		assert_int_equal(profile_total(profile, 1), 110);
		assert_int_equal(profile->samples[0].stack, 0);
		assert_int_equal(profile->values[0], 9);
		assert_int_equal(profile->samples[1].stack, stack);
		assert_int_equal(profile->values[2], 2);
		assert_int_equal(profile->samples[2].time_ns, 9);
	}
	/* Callers may change samples in place and aggregate again. */
	profile->samples[2].time_ns = 0;
	assert_int_equal(profile_aggregate(profile, NULL), 0);
	assert_int_equal(profile->sample_count, 2);
	assert_int_equal(profile->values[2], 18);
	assert_true(profile_sums_fit(profile));
	add_sample(profile, 0, 0, INT64_MAX, 0);
	assert_int_equal(profile_total(profile, 0), INT64_MAX);
	assert_false(profile_sums_fit(profile));
}

static void test_sample_type_lookup(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct error err = {0};
	size_t type;
	assert_int_equal(profile_find_sample_type(profile, NULL, &type, &err), -EINVAL);
	uint32_t samples = test_string(profile, "samples"), cpu = test_string(profile, "cpu");
	assert_int_equal(profile_add_sample_type(profile, samples, test_string(profile, "count"), NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, cpu, test_string(profile, "ns"), NULL), 0);
	assert_int_equal(profile_default_sample_type(profile), 1);
	profile->default_sample_type = samples;
	assert_int_equal(profile_default_sample_type(profile), 0);
	profile->default_sample_type = test_string(profile, "nonsense");
	assert_int_equal(profile_default_sample_type(profile), 1);
	assert_int_equal(profile_find_sample_type(profile, "samples", &type, NULL), 0);
	assert_int_equal(type, 0);
	assert_int_equal(profile_find_sample_type(profile, "heap", &type, &err), -EINVAL);
	assert_non_null(strstr(err.message, "heap"));
	assert_non_null(strstr(err.message, "samples, cpu"));
}

static void test_set_location_lines(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct profile_function function = {.name = test_string(profile, "late")};
	struct profile_line line = {.line = 7};
	struct profile_location location = {.address = 0x10};
	uint32_t id, again;
	assert_int_equal(profile_add_function(profile, &function, &line.function, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &id, NULL), 0);
	assert_int_equal(profile_set_location_lines(profile, id, &line, 1, NULL), 0);
	assert_int_equal(profile->locations[id].line_count, 1);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &again, NULL), 0);
	assert_int_equal(again, id);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &again, NULL), 0);
	assert_int_not_equal(again, id);
	/* Replaced by its own lines, moved by a growing table, and by others. */
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(
			profile_set_location_lines(profile, id, profile->lines + profile->locations[id].line_first, 1, NULL),
			0);
	assert_int_equal(profile->lines[profile->locations[id].line_first].line, 7);
	line.line = 8;
	assert_int_equal(profile_set_location_lines(profile, id, &line, 1, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &again, NULL), 0);
	assert_int_equal(again, id);
	line.line = 7;
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &again, NULL), 0);
	assert_int_not_equal(again, id);
}

static void test_limits(void **state)
{
	struct error err = {0};
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	uint32_t location = add_named_location(profile, "a"), stack = 0;
	for (unsigned i = 0; i < LIMIT_STACK_DEPTH; i++)
		assert_int_equal(profile_add_stack(profile, stack, location, &stack, NULL), 0);
	assert_int_equal(profile_stack_depth(profile, stack), LIMIT_STACK_DEPTH);
	assert_int_equal(profile_add_stack(profile, stack, location, &stack, &err), -E2BIG);
	assert_non_null(strstr(err.message, "16384"));
	static uint32_t deep[LIMIT_STACK_DEPTH + 1];
	for (unsigned i = 0; i <= LIMIT_STACK_DEPTH; i++)
		deep[i] = location;
	assert_int_equal(profile_add_stack_leaf_first(profile, deep, LIMIT_STACK_DEPTH, &stack, NULL), 0);
	assert_int_equal(profile_add_stack_leaf_first(profile, deep, LIMIT_STACK_DEPTH + 1, &stack, &err), -E2BIG);
	for (unsigned i = 0; i < LIMIT_SAMPLE_TYPES; i++)
		assert_int_equal(profile_add_sample_type(profile, 0, 0, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, 0, 0, &err), -E2BIG);
	assert_non_null(strstr(err.message, "sample types"));
}

static int add_one_of(struct profile *profile, unsigned kind, unsigned i, struct error *err)
{
	struct profile_mapping mapping = {.start = i};
	struct profile_function function = {.start_line = i};
	struct profile_location location = {.address = i};
	struct profile_line lines[3] = {{.line = i}};
	struct profile_label label = {.number = i};
	struct profile_link link = {.trace_id = {(uint8_t)i}};
	struct profile_sample sample = {.time_ns = i};
	char text[16];
	uint32_t id;
	switch (kind) {
	case 0: snprintf(text, sizeof(text), "%u", i); return profile_add_cstring(profile, text, &id, err);
	case 1: return profile_add_mapping(profile, &mapping, &id, err);
	case 2: return profile_add_function(profile, &function, &id, err);
	case 3: return profile_add_location(profile, &location, NULL, 0, &id, err);
	case 4: return profile_add_location(profile, &location, lines, 3, &id, err);
	case 5: return profile_add_stack(profile, (uint32_t)profile->stack_count - 1, 0, &id, err);
	case 6: return profile_add_label_set(profile, &label, 1, &id, err);
	case 7: return profile_add_link(profile, &link, &id, err);
	case 8: return profile_add_sample(profile, &sample, NULL, err);
	default: return profile_add_comment(profile, 0, err);
	}
}

/* Of many types few samples are as much as many of few. */
static void test_value_limit(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	const struct profile_sample sample = {0};
	const int64_t values[LIMIT_SAMPLE_TYPES] = {0};
	struct error err = {0};
	profile->index->entities_max = 50;
	while (profile->sample_type_count < 8)
		assert_int_equal(profile_add_sample_type(profile, 0, 0, NULL), 0);
	for (size_t i = 0; i < 25; i++)
		assert_int_equal(profile_add_sample(profile, &sample, values, &err), 0);
	assert_int_equal(profile_add_sample(profile, &sample, values, &err), -E2BIG);
	assert_string_equal(err.message, "the profile has more than 200 values in its samples, the limit; split it");
	assert_int_equal(profile->sample_count, 25);
}

static void test_table_limits(void **state)
{
	static const char *const names[] = {"strings", "mappings", "functions", "locations", "lines",
					    "stacks",  "label",	   "links",	"samples",   "comments"};
	for (unsigned kind = 0; kind < 10; kind++) {
		_cleanup_(profile_freep) struct profile *profile = new_profile();
		struct error err = {0};
		profile->index->entities_max = 50;
		unsigned i = 1;
		int r = 0;
		while (r == 0 && i < 200)
			r = add_one_of(profile, kind, i++, &err);
		assert_int_equal(r, -E2BIG);
		assert_non_null(strstr(err.message, names[kind]));
		assert_non_null(strstr(err.message, "50"));
		assert_in_range(i, 16, 53);
		/* What is there is still found and still there. */
		if (kind != 5 && kind != 8 && kind != 9)
			assert_int_equal(add_one_of(profile, kind, 5, &err), 0);
	}
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct error err = {0};
	profile->strings.arena.max_bytes = profile->strings.arena.used_bytes + 100;
	char text[300] = "";
	memset(text, 'x', sizeof(text) - 1);
	uint32_t id;
	assert_int_equal(profile_add_cstring(profile, text, &id, &err), -E2BIG);
	assert_non_null(strstr(err.message, "bytes"));
}

static void test_own_entries(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct profile_function function = {.name = test_string(profile, "f")};
	struct profile_line lines[2] = {{.line = 1}, {.line = 2}};
	struct profile_location location = {.address = 1};
	uint32_t id, first;
	assert_int_equal(profile_add_function(profile, &function, &lines[0].function, NULL), 0);
	lines[1].function = lines[0].function;
	assert_int_equal(profile_add_location(profile, &location, lines, 2, &first, NULL), 0);
	/* Copying entry `first` of the profile's own tables under other addresses, across many moves of the tables. */
	for (unsigned i = 2; i < 500; i++) {
		profile->locations[first].address = i;
		assert_int_equal(profile_add_location(profile, &profile->locations[first],
						      profile->lines + profile->locations[first].line_first, 2, &id, NULL),
				 0);
		profile->locations[first].address = 1;
		assert_int_equal(profile->locations[id].address, i);
		assert_int_equal(profile->lines[profile->locations[id].line_first + 1].line, 2);
	}
	assert_int_equal(profile_add_sample_type(profile, 0, 0, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &(struct profile_sample){.time_ns = 4}, (int64_t[]){42}, NULL), 0);
	for (unsigned i = 0; i < 500; i++)
		assert_int_equal(profile_add_sample(profile, &profile->samples[0], profile->values, NULL), 0);
	assert_int_equal(profile_total(profile, 0), 501 * 42);
	assert_int_equal(profile->samples[500].time_ns, 4);
}

/* The model's content does not depend on aggregation. */
static void test_aggregation_model(void **state)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		_cleanup_(profile_freep) struct profile *profile = NULL;
		assert_int_equal(test_random_profile(seed, &small_shape, &profile, NULL), 0);
		struct test_content before = test_content_of((const struct profile *const[]){profile}, 1, false);
		int64_t total = profile_total(profile, 0);
		assert_int_equal(profile_aggregate(profile, NULL), 0);
		assert_int_equal(profile_total(profile, 0), total);
		for (size_t i = 0; i < profile->sample_count; i++) {
			assert_false(profile_values_are_zero(profile->values + i * 2, 2));
			for (size_t j = 0; j < i; j++)
				assert_memory_not_equal(&profile->samples[i], &profile->samples[j], sizeof(*profile->samples));
		}
		struct test_content after = test_content_of((const struct profile *const[]){profile}, 1, false);
		const char *difference = test_content_difference(&before, &after);
		if (difference)
			fail_msg("seed %d: %s", (int)seed, difference);
		test_content_free(&before);
		test_content_free(&after);
	}
}

static int build_and_use(struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r = test_random_profile(5, &small_shape, &profile, err);
	if (r < 0)
		return r;
	struct hash128 *hashes = calloc(profile->stack_count, sizeof(*hashes));
	r = profile_hash_stacks(profile, hashes, err);
	free(hashes);
	return r < 0 ? r : profile_aggregate(profile, err);
}

static int build_and_use_all(void *context)
{
	struct error err = {0};
	int r = build_and_use(&err);
	assert_int_equal(err.code, r);
	return r;
}

static void test_allocation_failures(void **state)
{
	assert_true(test_each_allocation(build_and_use_all, NULL) > 29);
}

/* A failed addition leaves no trace: the profile goes on to become what it would have become. */
/* Without the memory that only adding needs, what is added meets what is there all the same. */
static void test_shrunk_stacks(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	assert_int_equal(test_random_profile(5, &small_shape, &profile, NULL), 0);
	size_t count = profile->stack_count;
	uint32_t id;
	for (uint32_t i = 1; i < count; i++) {
		struct profile_stack stack = profile->stacks[i];
		profile_shrink_stacks(profile);
		assert_int_equal(profile_add_stack(profile, stack.parent, stack.location, &id, NULL), 0);
		assert_int_equal(id, i);
		profile_shrink_stacks(profile);
		assert_int_equal(profile_add_stack_leaf_first(profile, &(uint32_t){stack.location}, 1, &id, NULL), 0);
		if (stack.parent == 0)
			assert_int_equal(id, i);
	}
	size_t more = profile->stack_count;
	profile_shrink_stacks(profile);
	fault_arm(FAULT_ALLOC, 1, 0);
	assert_int_equal(profile_add_stack(profile, 0, profile->stacks[1].location, &id, NULL), -ENOMEM);
	assert_true(fault_disarm(FAULT_ALLOC));
	assert_int_equal(profile_add_stack(profile, 0, profile->stacks[1].location, &id, NULL), 0);
	assert_int_equal(profile->stack_count, more);
}

static void test_failure_leaves_profile_usable(void **state)
{
	_cleanup_(profile_freep) struct profile *expected = NULL;
	assert_int_equal(test_random_profile(9, &small_shape, &expected, NULL), 0);
	_cleanup_(profile_freep) struct profile *profile = new_profile();
	struct test_random random = {.state = 9};
	assert_int_equal(test_fill_header(profile, &random, &small_shape, NULL), 0);
	for (unsigned i = 0; i < small_shape.samples; i++) {
		struct test_random before = random;
		for (uint64_t nth = 1;; nth++) {
			random = before;
			fault_arm(FAULT_ALLOC, nth, 0);
			int r = test_add_sample(profile, &random, &small_shape, NULL);
			if (!fault_disarm(FAULT_ALLOC)) {
				assert_int_equal(r, 0);
				break;
			}
			assert_int_equal(r, -ENOMEM);
		}
	}
	struct test_content a = test_content_of((const struct profile *const[]){expected}, 1, false);
	struct test_content b = test_content_of((const struct profile *const[]){profile}, 1, false);
	assert_null(test_content_difference(&a, &b));
	assert_int_equal(profile->stack_count, expected->stack_count);
	assert_int_equal(profile->location_count, expected->location_count);
	assert_int_equal(profile->label_set_count, expected->label_set_count);
	test_content_free(&a);
	test_content_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_unknown_frames_stay),
		cmocka_unit_test(test_interning),
		cmocka_unit_test(test_interning_model),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_stack_frames),
		cmocka_unit_test(test_stack_frames_are_limited),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_label_sets),
		cmocka_unit_test(test_number_labels),
		cmocka_unit_test(test_large_label_sets),
		cmocka_unit_test(test_samples_and_aggregation),
		cmocka_unit_test(test_sample_type_lookup),
		cmocka_unit_test(test_set_location_lines),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_table_limits),
		cmocka_unit_test(test_value_limit),
		cmocka_unit_test(test_own_entries),
		cmocka_unit_test(test_aggregation_model),
		cmocka_unit_test(test_allocation_failures),
		cmocka_unit_test(test_failure_leaves_profile_usable),
		cmocka_unit_test(test_shrunk_stacks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
