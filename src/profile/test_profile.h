/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: random profiles, and the content of a profile as text that does not depend on ids, so that profiles can be
 * compared. */
#ifndef WICK_PROFILE_TEST_PROFILE_H
#define WICK_PROFILE_TEST_PROFILE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "profile/profile.h"

struct test_random {
	uint64_t state;
};

static inline uint64_t test_random_next(struct test_random *random)
{
	random->state += 0x9e3779b97f4a7c15ull;
	return hash64_mix(random->state);
}

static inline uint64_t test_random_below(struct test_random *random, uint64_t limit)
{
	return test_random_next(random) % limit;
}

static inline uint32_t test_string(struct profile *profile, const char *text)
{
	uint32_t id;
	if (profile_add_cstring(profile, text, &id, NULL) < 0)
		abort();
	return id;
}

/* How many different entries a random profile draws from, and how large it is. */
struct test_shape {
	unsigned binaries, functions, addresses, samples, depth, types;
	bool links, times, resource;
};

static inline int test_add_mapping(struct profile *profile, struct test_random *random, const struct test_shape *shape,
				   uint32_t *ret, struct error *err)
{
	unsigned binary = (unsigned)test_random_below(random, shape->binaries);
	char file[32], build_id[32] = "";
	snprintf(file, sizeof(file), "/usr/bin/program%u", binary);
	if (binary % 2 == 0)
		snprintf(build_id, sizeof(build_id), "abcd%04x", binary);
	struct profile_mapping mapping = {.start = 0x400000 + 0x10000 * test_random_below(random, 3),
					  .offset = 0x1000 * binary};
	mapping.limit = mapping.start + 0x8000 - test_random_below(random, 2) * 0x10;
	int r = profile_add_cstring(profile, file, &mapping.file_name, err);
	if (r == 0)
		r = profile_add_cstring(profile, build_id, &mapping.build_id, err);
	return r < 0 ? r : profile_add_mapping(profile, &mapping, ret, err);
}

static inline int test_add_line(struct profile *profile, struct test_random *random, const struct test_shape *shape,
				struct profile_line *ret, struct error *err)
{
	char name[32];
	struct profile_function function = {.start_line = (int64_t)test_random_below(random, 2)};
	snprintf(name, sizeof(name), "function%" PRIu64, test_random_below(random, shape->functions));
	int r = profile_add_cstring(profile, name, &function.name, err);
	if (r == 0)
		r = profile_add_cstring(profile, test_random_below(random, 2) ? "a.c" : "b.c", &function.file_name, err);
	if (r == 0)
		r = profile_add_function(profile, &function, &ret->function, err);
	ret->line = (int64_t)test_random_below(random, 3);
	ret->column = (int64_t)test_random_below(random, 2);
	return r;
}

static inline int test_add_location(struct profile *profile, struct test_random *random, const struct test_shape *shape,
				    uint32_t *ret, struct error *err)
{
	struct profile_location location = {.frame_type = (uint32_t)test_random_below(random, 3)};
	struct profile_line lines[3];
	size_t line_count = test_random_below(random, 4);
	int r = 0;
	if (test_random_below(random, 4) > 0)
		r = test_add_mapping(profile, random, shape, &location.mapping, err);
	if (r < 0)
		return r;
	location.address = profile->mappings[location.mapping].start + 0x10 * test_random_below(random, shape->addresses);
	location.folded = test_random_below(random, 8) == 0;
	for (size_t i = 0; r == 0 && i < line_count; i++)
		r = test_add_line(profile, random, shape, &lines[i], err);
	return r < 0 ? r : profile_add_location(profile, &location, lines, line_count, ret, err);
}

static inline int test_add_resource(struct profile *profile, struct test_random *random, uint32_t *ret, struct error *err)
{
	static const char *const keys[] = {"cluster", "host", "zone"}, *const values[] = {"x", "y"};
	struct profile_label labels[4];
	size_t count = test_random_below(random, 5);
	for (size_t i = 0; i < count; i++) {
		labels[i] = (struct profile_label){0};
		int r = profile_add_cstring(profile, keys[test_random_below(random, 3)], &labels[i].key, err);
		if (r == 0)
			r = profile_add_cstring(profile, values[test_random_below(random, 2)], &labels[i].value, err);
		if (r < 0)
			return r;
	}
	return profile_add_label_set(profile, labels, count, ret, err);
}

/* A sample's own "host" overrides the resource's, and never repeats it. */
static inline int test_add_labels(struct profile *profile, struct test_random *random, uint32_t *ret, struct error *err)
{
	static const char *const keys[] = {"pid", "comm", "bytes", "host"}, *const values[] = {"1", "2", "three"};
	struct profile_label labels[4];
	size_t count = test_random_below(random, 4);
	for (size_t i = 0; i < count; i++) {
		labels[i] = (struct profile_label){0};
		size_t key = test_random_below(random, 4);
		int r = profile_add_cstring(profile, keys[key], &labels[i].key, err);
		if (r == 0 && key == 2) {
			labels[i].number = (int64_t)test_random_below(random, 3) - 1;
			r = profile_add_cstring(profile, "bytes", &labels[i].unit, err);
		} else if (r == 0) {
			r = profile_add_cstring(profile, values[test_random_below(random, 3)], &labels[i].value, err);
		}
		if (r < 0)
			return r;
	}
	return profile_add_label_set(profile, labels, count, ret, err);
}

static inline int test_add_numbers(struct profile *profile, struct test_random *random, uint32_t *ret, struct error *err)
{
	struct profile_label label = {.number = (int64_t)test_random_below(random, 3)};
	int r = profile_add_cstring(profile, "size", &label.key, err);
	return r < 0 ? r : profile_add_label_set(profile, &label, 1, ret, err);
}

static inline int test_add_sample(struct profile *profile, struct test_random *random, const struct test_shape *shape,
				  struct error *err)
{
	struct profile_sample sample = {0};
	uint32_t stack[64];
	int64_t values[8];
	size_t depth = test_random_below(random, shape->depth + 1);
	int r = 0;
	for (size_t i = 0; r == 0 && i < depth; i++)
		r = test_add_location(profile, random, shape, &stack[i], err);
	if (r == 0)
		r = profile_add_stack_leaf_first(profile, stack, depth, &sample.stack, err);
	if (r == 0)
		r = test_add_labels(profile, random, &sample.labels, err);
	if (r == 0 && shape->links && test_random_below(random, 2)) {
		struct profile_link link = {.trace_id = {1}, .span_id = {(uint8_t)test_random_below(random, 3)}};
		r = profile_add_link(profile, &link, &sample.link, err);
	}
	if (r == 0 && shape->links && test_random_below(random, 2))
		r = test_add_numbers(profile, random, &sample.numbers, err);
	if (shape->times)
		sample.time_ns = (int64_t)test_random_below(random, 3);
	for (unsigned i = 0; i < shape->types; i++)
		values[i] = (int64_t)test_random_below(random, 7) - 2;
	return r < 0 ? r : profile_add_sample(profile, &sample, values, err);
}

static inline int test_fill_header(struct profile *profile, struct test_random *random, const struct test_shape *shape,
				   struct error *err)
{
	int r = profile_add_cstring(profile, "cpu", &profile->period_type.type, err);
	for (unsigned i = 0; r == 0 && i < shape->types; i++) {
		char name[16];
		uint32_t type, unit;
		snprintf(name, sizeof(name), "type%u", i);
		r = profile_add_cstring(profile, name, &type, err);
		if (r == 0)
			r = profile_add_cstring(profile, "count", &unit, err);
		if (r == 0)
			r = profile_add_sample_type(profile, type, unit, err);
	}
	for (unsigned i = 0; r == 0 && i < 2; i++) {
		char comment[32];
		uint32_t id;
		snprintf(comment, sizeof(comment), "comment %" PRIu64, test_random_below(random, 4));
		r = profile_add_cstring(profile, comment, &id, err);
		if (r == 0)
			r = profile_add_comment(profile, id, err);
	}
	profile->period = (int64_t)test_random_below(random, 100);
	profile->time_ns = (int64_t)test_random_below(random, 3) * 1000;
	profile->duration_ns = (int64_t)test_random_below(random, 1000);
	if (r == 0 && shape->resource)
		r = test_add_resource(profile, random, &profile->resource_labels, err);
	return r;
}

/* A random profile; the same seed gives the same one. Fails only for want of memory. */
static inline int test_random_profile(uint64_t seed, const struct test_shape *shape, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct test_random random = {.state = seed};
	int r = profile_new(&profile, err);
	if (r == 0)
		r = test_fill_header(profile, &random, shape, err);
	for (unsigned i = 0; r == 0 && i < shape->samples; i++)
		r = test_add_sample(profile, &random, shape, err);
	if (r < 0)
		return r;
	*ret = profile;
	profile = NULL;
	return 0;
}

/* ---- content as text ---- */

static inline void test_print_location(FILE *out, const struct profile *profile, uint32_t id)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	const char *build_id = profile_string(profile, mapping->build_id);
	fprintf(out, "|%s+%" PRIx64 "/%u%s", *build_id ? build_id : profile_string(profile, mapping->file_name),
		profile_location_file_offset(profile, id), location->frame_type, location->folded ? "f" : "");
	for (uint32_t i = 0; i < location->line_count; i++) {
		const struct profile_line *line = &profile->lines[location->line_first + i];
		const struct profile_function *function = &profile->functions[line->function];
		fprintf(out, "(%s %s %s %" PRId64 " %" PRId64 ":%" PRId64 ")", profile_string(profile, function->name),
			profile_string(profile, function->system_name), profile_string(profile, function->file_name),
			function->start_line, line->line, line->column);
	}
}

static inline bool test_set_has_key(const struct profile *profile, uint32_t set_id, uint32_t key)
{
	const struct profile_label_set *set = &profile->label_sets[set_id];
	for (uint32_t i = 0; i < set->count; i++)
		if (profile->labels[set->first + i].key == key)
			return true;
	return false;
}

/* The labels that hold for a sample, its own and the resource's, sorted by key. */
static inline void test_print_labels(FILE *out, const struct profile *profile, uint32_t id)
{
	const struct profile_label_set *own = &profile->label_sets[id],
				       *resource = &profile->label_sets[profile->resource_labels];
	const struct profile_label *labels[64];
	size_t count = 0;
	for (uint32_t i = 0; i < own->count; i++)
		labels[count++] = &profile->labels[own->first + i];
	for (uint32_t i = 0; i < resource->count; i++)
		if (!test_set_has_key(profile, id, profile->labels[resource->first + i].key))
			labels[count++] = &profile->labels[resource->first + i];
	for (size_t i = 1; i < count; i++) {
		for (size_t j = i; j > 0; j--) {
			const struct profile_label *a = labels[j - 1], *b = labels[j];
			if (strcmp(profile_string(profile, a->key), profile_string(profile, b->key)) <= 0)
				break;
			labels[j - 1] = b;
			labels[j] = a;
		}
	}
	fputs(" {", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%s=%s/%" PRId64 "/%s,", profile_string(profile, labels[i]->key),
			profile_string(profile, labels[i]->value), labels[i]->number, profile_string(profile, labels[i]->unit));
	fputs("}", out);
}

struct test_row {
	char *key;
	int64_t values[8];
};
/* Samples by content, equal ones summed, zero ones dropped, sorted. */
struct test_content {
	struct test_row *rows;
	size_t count;
};

static inline int test_compare_rows(const void *a, const void *b)
{
	return strcmp(((const struct test_row *)a)->key, ((const struct test_row *)b)->key);
}

static inline char *test_sample_key(const struct profile *profile, const struct profile_sample *sample, bool drop_times)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	static uint32_t locations[LIMIT_STACK_DEPTH];
	size_t depth = profile_stack_locations(profile, sample->stack, locations, LIMIT_STACK_DEPTH);
	for (size_t i = 0; i < depth; i++)
		test_print_location(out, profile, locations[i]);
	test_print_labels(out, profile, sample->labels);
	for (uint32_t i = 0; i < profile->label_sets[sample->numbers].count; i++)
		fprintf(out, " %" PRId64, profile->labels[profile->label_sets[sample->numbers].first + i].number);
	fprintf(out, "%02x%02x", profile->links[sample->link].trace_id[0], profile->links[sample->link].span_id[0]);
	fprintf(out, " %" PRId64, drop_times ? 0 : sample->time_ns);
	fclose(out);
	return text;
}

static inline struct test_content test_content_of(const struct profile *const *profiles, size_t profile_count, bool drop_times)
{
	size_t max = 1, count = 0, kept = 0;
	for (size_t i = 0; i < profile_count; i++)
		max += profiles[i]->sample_count;
	struct test_row *rows = calloc(max, sizeof(*rows));
	for (size_t p = 0; p < profile_count; p++) {
		for (size_t i = 0; i < profiles[p]->sample_count; i++, count++) {
			rows[count].key = test_sample_key(profiles[p], &profiles[p]->samples[i], drop_times);
			memcpy(rows[count].values, profiles[p]->values + i * profiles[p]->sample_type_count,
			       profiles[p]->sample_type_count * sizeof(int64_t));
		}
	}
	qsort(rows, count, sizeof(*rows), test_compare_rows);
	for (size_t i = 0; i < count;) {
		struct test_row sum = rows[i];
		int64_t any = 0;
		for (i++; i < count && strcmp(rows[i].key, sum.key) == 0; i++) {
			for (size_t v = 0; v < 8; v++)
				sum.values[v] += rows[i].values[v];
			free(rows[i].key);
		}
		for (size_t v = 0; v < 8; v++)
			any |= sum.values[v];
		if (any)
			rows[kept++] = sum;
		else
			free(sum.key);
	}
	return (struct test_content){.rows = rows, .count = kept};
}

static inline void test_content_free(struct test_content *content)
{
	for (size_t i = 0; i < content->count; i++)
		free(content->rows[i].key);
	free(content->rows);
}

/* NULL when equal, else a static text that shows the first difference. */
static inline const char *test_content_difference(const struct test_content *a, const struct test_content *b)
{
	static char text[2048];
	for (size_t i = 0; i < a->count || i < b->count; i++) {
		const struct test_row *left = i < a->count ? &a->rows[i] : NULL, *right = i < b->count ? &b->rows[i] : NULL;
		if (left && right && strcmp(left->key, right->key) == 0 &&
		    memcmp(left->values, right->values, sizeof(left->values)) == 0)
			continue;
		snprintf(text, sizeof(text), "row %zu:\n%.900s %" PRId64 "\n%.900s %" PRId64, i, left ? left->key : "(none)",
			 left ? left->values[0] : 0, right ? right->key : "(none)", right ? right->values[0] : 0);
		return text;
	}
	return NULL;
}

#endif
