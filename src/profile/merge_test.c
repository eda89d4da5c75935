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
#include "profile/merge.h"
#include "profile/profile_int.h"
#include "profile/test_profile.h"

static const struct test_shape shape = {.binaries = 3,
					.functions = 4,
					.addresses = 4,
					.samples = 60,
					.depth = 4,
					.types = 2,
					.links = true,
					.times = true,
					.resource = true};
#define ROUNDS 40

static struct profile *random_profile(uint64_t seed)
{
	struct profile *profile = NULL;
	assert_int_equal(test_random_profile(seed, &shape, &profile, NULL), 0);
	return profile;
}

static struct profile *merge_of(const struct profile *const *inputs, size_t count, bool drop_times)
{
	struct profile *merged;
	assert_int_equal(profile_new(&merged, NULL), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(profile_merge(merged, inputs[i], drop_times, NULL), 0);
	return merged;
}

static void assert_same_content(const struct profile *const *a, size_t a_count, const struct profile *b, bool drop_times)
{
	struct test_content left = test_content_of(a, a_count, drop_times);
	struct test_content right = test_content_of(&b, 1, drop_times);
	const char *difference = test_content_difference(&left, &right);
	size_t count = right.count;
	test_content_free(&left);
	test_content_free(&right);
	if (difference)
		fail_msg("%s", difference);
	/* All that is equal has been summed, and what is zero is gone. */
	assert_int_equal(b->sample_count, count);
}

/* The merge holds the samples of its inputs, in any order of merging. */
static void test_model(void **state)
{
	for (uint64_t seed = 0; seed < ROUNDS; seed++) {
		_cleanup_(profile_freep) struct profile *a = random_profile(seed * 3), *b = random_profile(seed * 3 + 1);
		_cleanup_(profile_freep) struct profile *c = random_profile(seed * 3 + 2);
		const struct profile *forward[] = {a, b, c}, *backward[] = {c, b, a};
		bool drop_times = seed % 2;
		_cleanup_(profile_freep) struct profile *one = merge_of(forward, 3, drop_times);
		_cleanup_(profile_freep) struct profile *other = merge_of(backward, 3, drop_times);
		assert_same_content(forward, 3, one, drop_times);
		assert_same_content((const struct profile *const[]){one}, 1, other, drop_times);
		for (size_t type = 0; type < 2; type++)
			assert_int_equal(profile_total(one, type),
					 profile_total(a, type) + profile_total(b, type) + profile_total(c, type));
		assert_int_equal(one->location_count, other->location_count);
		assert_int_equal(one->stack_count, other->stack_count);
		assert_int_equal(one->mapping_count, other->mapping_count);
	}
}

/* ((a b) (c d)) = (a b c d): partial merges can be merged. */
static void test_tree_of_merges(void **state)
{
	for (uint64_t seed = 100; seed < 100 + ROUNDS; seed++) {
		struct profile *inputs[4];
		for (unsigned i = 0; i < 4; i++)
			inputs[i] = random_profile(seed * 4 + i);
		const struct profile *all[] = {inputs[0], inputs[1], inputs[2], inputs[3]};
		_cleanup_(profile_freep) struct profile *left = merge_of(all, 2, true), *right = merge_of(all + 2, 2, true);
		_cleanup_(profile_freep) struct profile *tree = merge_of((const struct profile *const[]){left, right}, 2, true);
		assert_same_content(all, 4, tree, true);
		for (unsigned i = 0; i < 4; i++)
			profile_free(inputs[i]);
	}
}

static void test_twice_is_double(void **state)
{
	_cleanup_(profile_freep) struct profile *a = random_profile(1);
	const struct profile *twice[] = {a, a};
	_cleanup_(profile_freep) struct profile *once = merge_of(twice, 1, false), *both = merge_of(twice, 2, false);
	assert_int_equal(once->sample_count, both->sample_count);
	for (size_t i = 0; i < once->sample_count * 2; i++)
		assert_int_equal(both->values[i], 2 * once->values[i]);
	assert_int_equal(both->duration_ns, 2 * once->duration_ns);
	assert_int_equal(both->comment_count, once->comment_count);
}

/* Merging into a profile that was not made by merging, and that samples are added to between merges. */
static void test_into_any_profile(void **state)
{
	for (uint64_t seed = 200; seed < 200 + ROUNDS; seed++) {
		_cleanup_(profile_freep) struct profile *a = random_profile(seed), *copy = random_profile(seed);
		_cleanup_(profile_freep) struct profile *b = random_profile(seed + 1000);
		bool drop_times = seed % 2;
		assert_int_equal(profile_merge(a, b, drop_times, NULL), 0);
		struct profile_sample sample = {.stack = a->samples[0].stack, .time_ns = 77};
		int64_t values[2] = {5, 6};
		assert_int_equal(profile_add_sample(a, &sample, values, NULL), 0);
		/* The same sample beside the copy, whose resource labels may be others. */
		_cleanup_(profile_freep) struct profile *extra = merge_of((const struct profile *const[]){a}, 1, drop_times);
		assert_int_equal(profile_merge(a, b, drop_times, NULL), 0);
		const struct profile *parts[] = {extra, b};
		struct test_content left = test_content_of(parts, 2, drop_times);
		struct test_content right = test_content_of((const struct profile *const[]){a}, 1, drop_times);
		const char *difference = test_content_difference(&left, &right);
		test_content_free(&left);
		test_content_free(&right);
		if (difference)
			fail_msg("seed %d: %s", (int)seed, difference);
		assert_int_equal(profile_total(a, 0), profile_total(copy, 0) + 2 * profile_total(b, 0) + 5);
	}
}

static struct profile *cpu_profile(const char *type, const char *unit)
{
	struct profile *profile;
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(profile_add_sample_type(profile, test_string(profile, type), test_string(profile, unit), NULL), 0);
	return profile;
}

/* Of one machine the earlier start's stays; of two there is none. */
static void test_monotonic(void **state)
{
	static const struct {
		int64_t a_ns, a_monotonic_ns, b_ns, b_monotonic_ns, want_ns;
	} cases[] = {
		{5000000000, 700, 4000000000, 0, 0},
		{5000000000, 2000000700, 4000000000, 1000000600, 1000000600},
		{4000000000, 1000000600, 5000000000, 2000000700, 1000000600},
		{5000000000, 2000000700, 4000000000, 9000000000, 0},
		{5000000000, 700, 0, 0, 700},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(profile_freep) struct profile *a = cpu_profile("cpu", "ns"), *b = cpu_profile("cpu", "ns"),
							*to = NULL;
		a->time_ns = cases[i].a_ns;
		a->monotonic_ns = cases[i].a_monotonic_ns;
		b->time_ns = cases[i].b_ns;
		b->monotonic_ns = cases[i].b_monotonic_ns;
		to = merge_of((const struct profile *const[]){a, b}, 2, true);
		assert_int_equal(to->monotonic_ns, cases[i].want_ns);
	}
}

static void test_headers(void **state)
{
	_cleanup_(profile_freep) struct profile *a = cpu_profile("cpu", "ns"), *b = cpu_profile("cpu", "ns"), *to = NULL;
	a->period = 5;
	b->period = 7;
	a->time_ns = 0;
	b->time_ns = 300;
	a->duration_ns = 10;
	b->duration_ns = INT64_MAX - 5;
	a->doc_url = test_string(a, "");
	b->doc_url = test_string(b, "http://b");
	a->drop_frames = test_string(a, "drop");
	a->keep_frames = test_string(a, "keep");
	a->default_sample_type = test_string(a, "cpu");
	a->period_type.type = test_string(a, "cpu");
	b->period_type.type = test_string(b, "cpu");
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(profile_add_comment(a, test_string(a, "one"), NULL), 0);
		assert_int_equal(profile_add_comment(b, test_string(b, i ? "one" : "two"), NULL), 0);
	}
	to = merge_of((const struct profile *const[]){a, b}, 2, true);
	assert_int_equal(to->period, 7);
	assert_int_equal(to->time_ns, 300);
	assert_int_equal(to->duration_ns, INT64_MAX);
	assert_string_equal(profile_string(to, to->doc_url), "http://b");
	assert_string_equal(profile_string(to, to->drop_frames), "drop");
	assert_string_equal(profile_string(to, to->keep_frames), "keep");
	assert_string_equal(profile_string(to, to->default_sample_type), "cpu");
	assert_string_equal(profile_string(to, to->period_type.type), "cpu");
	assert_string_equal(profile_string(to, to->sample_types[0].unit), "ns");
	assert_int_equal(to->comment_count, 2);
	assert_string_equal(profile_string(to, to->comments[0]), "one");
	assert_string_equal(profile_string(to, to->comments[1]), "two");
}

static void assert_refused(struct profile *to, const struct profile *from, const char *text)
{
	struct error err = {0};
	size_t samples = to->sample_count, strings = to->strings.count;
	assert_int_equal(profile_merge(to, from, true, &err), -EINVAL);
	assert_int_equal(err.code, -EINVAL);
	if (!strstr(err.message, text))
		fail_msg("'%s' lacks '%s'", err.message, text);
	assert_int_equal(to->sample_count, samples);
	assert_int_equal(to->strings.count, strings);
}

static void test_refuses_other_types(void **state)
{
	_cleanup_(profile_freep) struct profile *a = cpu_profile("cpu", "ns"), *b = cpu_profile("cpu", "ms");
	_cleanup_(profile_freep) struct profile *c = cpu_profile("heap", "ns"), *d = cpu_profile("cpu", "ns");
	assert_refused(a, b, "ms");
	assert_refused(a, c, "heap");
	assert_int_equal(profile_add_sample_type(d, 0, 0, NULL), 0);
	assert_refused(a, d, "sample types");
	_cleanup_(profile_freep) struct profile *e = cpu_profile("cpu", "ns");
	e->period_type.type = test_string(e, "wall");
	assert_refused(a, e, "period type");
}

static uint32_t add_location(struct profile *profile, uint64_t start, uint64_t limit, const char *file, const char *build_id,
			     uint64_t offset_in_mapping, bool folded, int64_t inner_column)
{
	struct profile_mapping mapping = {.start = start,
					  .limit = limit,
					  .offset = 0x1000,
					  .file_name = test_string(profile, file),
					  .build_id = test_string(profile, build_id)};
	struct profile_location location = {.address = start + offset_in_mapping, .folded = folded};
	struct profile_function function = {.name = test_string(profile, "f")};
	struct profile_line lines[2] = {{.line = 1, .column = inner_column}, {.line = 2}};
	uint32_t id;
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &lines[0].function, NULL), 0);
	lines[1].function = lines[0].function;
	assert_int_equal(profile_add_location(profile, &location, lines, 2, &id, NULL), 0);
	return id;
}

static void add_sample_at(struct profile *profile, uint32_t location)
{
	struct profile_sample sample = {0};
	assert_int_equal(profile_add_stack(profile, 0, location, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(profile, &sample, (int64_t[]){1}, NULL), 0);
}

static void test_identity_of_locations(void **state)
{
	const struct {
		uint64_t start, limit;
		const char *file, *build_id;
		uint64_t offset;
		bool folded;
		int64_t column;
		size_t expected; /* distinct locations so far */
	} steps[] = {
		{0x10000, 0x20000, "/bin/a", "", 0x10, false, 0, 1},
		{0x70000, 0x80000, "/bin/a", "", 0x10, false, 0, 1},	  /* loaded elsewhere */
		{0x70000, 0x7fff0, "/bin/a", "", 0x10, false, 0, 1},	  /* a shorter last page */
		{0x70000, 0x90000, "/bin/a", "", 0x10, false, 0, 2},	  /* another size */
		{0x10000, 0x20000, "/bin/a", "", 0x10, false, 9, 3},	  /* an inlined frame's column */
		{0x10000, 0x20000, "/bin/a", "", 0x10, true, 0, 4},	  /* folded */
		{0x10000, 0x20000, "/bin/a", "", 0x11, false, 0, 5},	  /* another address */
		{0x10000, 0x20000, "/bin/a", "cafe", 0x10, false, 0, 6},  /* a build-id beats the name */
		{0x10000, 0x20000, "/other/a", "cafe", 0x10, false, 0, 6} /* ... whatever it is */
	};
	_cleanup_(profile_freep) struct profile *to = cpu_profile("cpu", "ns");
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		_cleanup_(profile_freep) struct profile *from = cpu_profile("cpu", "ns");
		add_sample_at(from, add_location(from, steps[i].start, steps[i].limit, steps[i].file, steps[i].build_id,
						 steps[i].offset, steps[i].folded, steps[i].column));
		assert_int_equal(profile_merge(to, from, true, NULL), 0);
		assert_int_equal(to->location_count - 1, steps[i].expected);
		assert_int_equal(to->sample_count, steps[i].expected);
		assert_int_equal(profile_total(to, 0), i + 1);
	}
}

static void set_resource(struct profile *profile, const char *const *pairs)
{
	struct profile_label labels[8] = {0};
	size_t count = 0;
	for (; pairs[0]; pairs += 2)
		labels[count++] =
			(struct profile_label){.key = test_string(profile, pairs[0]), .value = test_string(profile, pairs[1])};
	assert_int_equal(profile_add_label_set(profile, labels, count, &profile->resource_labels, NULL), 0);
}

static void test_resource_labels(void **state)
{
	_cleanup_(profile_freep) struct profile *a = cpu_profile("cpu", "ns"), *b = cpu_profile("cpu", "ns");
	set_resource(a, (const char *const[]){"cluster", "x", "host", "a", NULL});
	set_resource(b, (const char *const[]){"cluster", "x", "host", "b", "zone", "1", NULL});
	add_sample_at(a, add_location(a, 0, 0x1000, "f", "", 1, false, 0));
	add_sample_at(b, add_location(b, 0, 0x1000, "f", "", 1, false, 0));
	/* A sample's own label stands before the resource's. */
	struct profile_label own = {.key = test_string(b, "host"), .value = test_string(b, "mine")};
	struct profile_sample sample = b->samples[0];
	assert_int_equal(profile_add_label_set(b, &own, 1, &sample.labels, NULL), 0);
	assert_int_equal(profile_add_sample(b, &sample, (int64_t[]){10}, NULL), 0);
	_cleanup_(profile_freep) struct profile *to = merge_of((const struct profile *const[]){a, b}, 2, true);
	assert_int_equal(to->label_sets[to->resource_labels].count, 1);
	assert_string_equal(profile_label_value(to, to->resource_labels, "cluster"), "x");
	assert_int_equal(to->sample_count, 3);
	assert_string_equal(profile_label_value(to, to->samples[0].labels, "host"), "a");
	assert_null(profile_label_value(to, to->samples[0].labels, "zone"));
	assert_string_equal(profile_label_value(to, to->samples[1].labels, "host"), "b");
	assert_string_equal(profile_label_value(to, to->samples[1].labels, "zone"), "1");
	assert_string_equal(profile_label_value(to, to->samples[2].labels, "host"), "mine");
	assert_string_equal(profile_label_value(to, to->samples[2].labels, "zone"), "1");
	assert_int_equal(to->values[2], 10);
}

static void test_cancelling_samples_vanish(void **state)
{
	_cleanup_(profile_freep) struct profile *a = random_profile(3), *b = random_profile(3);
	for (size_t i = 0; i < b->sample_count * 2; i++)
		b->values[i] = -b->values[i];
	_cleanup_(profile_freep) struct profile *to = merge_of((const struct profile *const[]){a, b}, 2, false);
	assert_int_equal(to->sample_count, 0);
	/* And the index is right afterwards. */
	assert_int_equal(profile_merge(to, a, false, NULL), 0);
	assert_same_content((const struct profile *const[]){a}, 1, to, false);
}

static void test_copy_is_lazy(void **state)
{
	_cleanup_(profile_freep) struct profile *from = random_profile(11), *to = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	assert_int_equal(profile_new(&to, NULL), 0);
	assert_int_equal(profile_copy_new(to, from, &copy, NULL), 0);
	uint32_t deepest = 0, id, again;
	for (uint32_t i = 0; i < from->stack_count; i++)
		if (profile_stack_depth(from, i) > profile_stack_depth(from, deepest))
			deepest = i;
	assert_int_equal(profile_copy_stack(copy, 0, &id, NULL), 0);
	assert_int_equal(id, 0);
	assert_int_equal(to->location_count, 1);
	assert_int_equal(profile_copy_stack(copy, deepest, &id, NULL), 0);
	assert_int_equal(to->stack_count, 1 + profile_stack_depth(from, deepest));
	assert_int_equal(profile_copy_stack(copy, deepest, &again, NULL), 0);
	assert_int_equal(id, again);
	assert_null(profile_copy_free(NULL));
}

static void test_deep_stacks(void **state)
{
	_cleanup_(profile_freep) struct profile *from = cpu_profile("cpu", "ns");
	static uint32_t stack[LIMIT_STACK_DEPTH];
	for (unsigned i = 0; i < LIMIT_STACK_DEPTH; i++)
		stack[i] = add_location(from, 0, 0x100000, "f", "", i % 7, false, 0);
	struct profile_sample sample = {0};
	assert_int_equal(profile_add_stack_leaf_first(from, stack, LIMIT_STACK_DEPTH, &sample.stack, NULL), 0);
	assert_int_equal(profile_add_sample(from, &sample, (int64_t[]){3}, NULL), 0);
	_cleanup_(profile_freep) struct profile *to = merge_of((const struct profile *const[]){from, from}, 2, true);
	assert_int_equal(to->sample_count, 1);
	assert_int_equal(to->values[0], 6);
	assert_same_content((const struct profile *const[]){from, from}, 2, to, true);
}

static void test_limits_are_passed_on(void **state)
{
	_cleanup_(profile_freep) struct profile *from = random_profile(4), *to = NULL;
	struct error err = {0};
	assert_int_equal(profile_new(&to, NULL), 0);
	to->index->entities_max = 20;
	assert_int_equal(profile_merge(to, from, true, &err), -E2BIG);
	assert_non_null(strstr(err.message, "limit"));
	to->index->entities_max = LIMIT_PROFILE_ENTITIES;
}

static int merge_three(struct error *err)
{
	_cleanup_(profile_freep) struct profile *to = NULL;
	static struct profile *inputs[3];
	for (unsigned i = 0; i < 3; i++)
		if (!inputs[i])
			inputs[i] = random_profile(40 + i);
	if (!err) {
		for (unsigned i = 0; i < 3; i++)
			inputs[i] = profile_free(inputs[i]);
		return 0;
	}
	int r = profile_new(&to, err);
	for (unsigned i = 0; r == 0 && i < 3; i++)
		r = profile_merge(to, inputs[i], true, err);
	if (r < 0)
		return r;
	assert_same_content((const struct profile *const[]){inputs[0], inputs[1], inputs[2]}, 3, to, true);
	return 0;
}

static int merge_all(void *context)
{
	struct error err = {0};
	int r = merge_three(&err);
	assert_int_equal(err.code, r);
	return r;
}

static void test_allocation_failures(void **state)
{
	assert_int_equal(merge_all(NULL), 0);
	assert_true(test_each_allocation(merge_all, NULL) > 49);
	merge_three(NULL);
}

/* ---- hashes of stacks ---- */

static struct hash128 *hashes_of(const struct profile *profile)
{
	struct hash128 *hashes = test_calloc(profile->stack_count, sizeof(*hashes));
	assert_int_equal(profile_hash_stacks(profile, hashes, NULL), 0);
	return hashes;
}

static bool hashes_equal(struct hash128 a, struct hash128 b)
{
	return a.high == b.high && a.low == b.low;
}

/* Equal content has equal hashes in another profile with other ids and other load addresses; different content different ones.
 */
static void test_hash_is_content(void **state)
{
	for (uint64_t seed = 300; seed < 310; seed++) {
		_cleanup_(profile_freep) struct profile *from = random_profile(seed), *to = random_profile(seed + 50);
		_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
		assert_int_equal(profile_copy_new(to, from, &copy, NULL), 0);
		uint32_t *ids = test_calloc(from->stack_count, sizeof(*ids));
		for (uint32_t i = (uint32_t)from->stack_count; i-- > 0;)
			assert_int_equal(profile_copy_stack(copy, i, &ids[i], NULL), 0);
		struct hash128 *from_hashes = hashes_of(from), *to_hashes = hashes_of(to);
		for (uint32_t i = 0; i < from->stack_count; i++)
			assert_true(hashes_equal(from_hashes[i], to_hashes[ids[i]]));
		for (uint32_t i = 0; i < from->stack_count; i++)
			for (uint32_t j = 0; j < i; j++)
				if (hashes_equal(from_hashes[i], from_hashes[j]))
					assert_int_equal(profile_stack_depth(from, i), profile_stack_depth(from, j));
		test_free(ids);
		test_free(from_hashes);
		test_free(to_hashes);
	}
}

/* The layout is stored in blocks: these values may never change. */
static void test_hash_is_stable(void **state)
{
	_cleanup_(profile_freep) struct profile *profile = cpu_profile("cpu", "ns");
	uint32_t named = add_location(profile, 0x10000, 0x20000, "/bin/a", "", 0x10, true, 4);
	struct profile_mapping mapping = {
		.start = 0x1000, .limit = 0x2000, .offset = 0x3000, .build_id = test_string(profile, "ab12")};
	struct profile_location location = {.address = 0x1234, .frame_type = PROFILE_FRAME_NATIVE};
	uint32_t ids[4] = {named}, stack;
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &ids[1], NULL), 0);
	mapping.build_id = 0;
	mapping.file_name = test_string(profile, "/bin/b");
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &ids[2], NULL), 0);
	location.mapping = 0;
	assert_int_equal(profile_add_location(profile, &location, NULL, 0, &ids[3], NULL), 0);
	assert_int_equal(profile_add_stack_leaf_first(profile, ids, 4, &stack, NULL), 0);
	struct hash128 *hashes = hashes_of(profile);
	assert_int_equal(stack, 4);
	static const struct hash128 expected[5] = {
		{0, 0},
		{0xd172a6425d0defb7, 0x1b2b7161390ee895},
		{0x8a23c856f9c844b9, 0x906856121a23aa57},
		{0x552500d1a34c8d56, 0x38da0ed2b5e5a90c},
		{0x271395dd2c67fb9d, 0x7d2856289d659bc7},
	};
	for (unsigned i = 0; i <= 4; i++) {
		if (!hashes_equal(hashes[i], expected[i]))
			print_message("{0x%016" PRIx64 ", 0x%016" PRIx64 "},\n", hashes[i].high, hashes[i].low);
	}
	for (unsigned i = 0; i <= 4; i++)
		assert_true(hashes_equal(hashes[i], expected[i]));
	test_free(hashes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_tree_of_merges),
		cmocka_unit_test(test_twice_is_double),
		cmocka_unit_test(test_into_any_profile),
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_monotonic),
		cmocka_unit_test(test_refuses_other_types),
		cmocka_unit_test(test_identity_of_locations),
		cmocka_unit_test(test_resource_labels),
		cmocka_unit_test(test_cancelling_samples_vanish),
		cmocka_unit_test(test_copy_is_lazy),
		cmocka_unit_test(test_deep_stacks),
		cmocka_unit_test(test_limits_are_passed_on),
		cmocka_unit_test(test_allocation_failures),
		cmocka_unit_test(test_hash_is_content),
		cmocka_unit_test(test_hash_is_stable),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
