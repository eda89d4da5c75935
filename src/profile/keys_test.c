/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

/* What a profile of one stack is made of, each member a choice of texts or numbers. */
struct content {
	uint64_t name, system_name, file_name, start_line, line, column, inlined;
	uint64_t mapping_file, build_id, offset, size, address, frame_type, folded;
	uint64_t label_key, label_value, label_unit, label_number, resource, base;
	uint64_t where; /* not part of any key: where the binary was loaded, and what else is in the profile */
};
#define MEMBERS (sizeof(struct content) / sizeof(uint64_t))

static uint32_t text_of(struct profile *profile, const char *of, uint64_t which)
{
	char text[32];
	uint32_t id;
	snprintf(text, sizeof(text), "%s %u", of, (unsigned)which);
	assert_int_equal(profile_add_cstring(profile, text, &id, NULL), 0);
	return id;
}

static uint32_t add_location(struct profile *profile, const struct content *c)
{
	struct profile_mapping mapping = {.start = 0x10000 * (1 + c->where),
					  .offset = c->offset,
					  .file_name = text_of(profile, "file", c->mapping_file),
					  .build_id = text_of(profile, "build-id", c->build_id)};
	struct profile_function function = {.name = text_of(profile, "name", c->name),
					    .system_name = text_of(profile, "system", c->system_name),
					    .file_name = text_of(profile, "source", c->file_name),
					    .start_line = (int64_t)c->start_line};
	struct profile_location location = {.frame_type = (uint32_t)c->frame_type, .folded = c->folded != 0};
	struct profile_line lines[2] = {0};
	uint32_t id;
	mapping.limit = mapping.start + 0x1000 * (1 + c->size);
	assert_int_equal(profile_add_mapping(profile, &mapping, &location.mapping, NULL), 0);
	assert_int_equal(profile_add_function(profile, &function, &lines[0].function, NULL), 0);
	lines[0].line = (int64_t)c->line;
	lines[0].column = (int64_t)c->column;
	lines[1] = lines[0];
	location.address = mapping.start + 16 * c->address;
	assert_int_equal(profile_add_location(profile, &location, lines, c->inlined ? 2 : 1, &id, NULL), 0);
	return id;
}

/* Keys of a stack main -> content -> content, and of its label set. */
static void keys_of(const struct content *c, struct hash128 ret[3])
{
	static const struct content main_content = {.name = 100};
	struct profile *profile;
	struct profile_keys keys;
	uint32_t id, stack = 0, set;
	assert_int_equal(profile_new(&profile, NULL), 0);
	for (uint64_t i = 0; i < c->where; i++) /* other ids */
		assert_int_equal(
			profile_add_stack(profile, 0, add_location(profile, &(struct content){.name = 50 + i}), &id, NULL), 0);
	uint32_t location = add_location(profile, c);
	assert_int_equal(profile_add_stack(profile, stack, add_location(profile, &main_content), &stack, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(profile_add_stack(profile, stack, location, &stack, NULL), 0);
	struct profile_label label = {.key = text_of(profile, "key", c->label_key),
				      .value = text_of(profile, "value", c->label_value),
				      .unit = text_of(profile, "unit", c->label_unit),
				      .number = (int64_t)c->label_number};
	struct profile_label resource = {.key = text_of(profile, "key", 7), .value = text_of(profile, "value", c->resource)};
	assert_int_equal(profile_add_label_set(profile, &label, 1, &set, NULL), 0);
	assert_int_equal(profile_add_label_set(profile, &resource, 1, &profile->resource_labels, NULL), 0);
	struct labels base = {0};
	assert_int_equal(labels_set(&base, "base", c->base ? "a" : "b", NULL), 0);
	assert_int_equal(profile_keys_make(profile, &base, 12345, &keys, NULL), 0);
	ret[0] = keys.stacks[stack];
	ret[1] = keys.locations[location];
	ret[2] = keys.label_sets[set];
	profile_keys_release(&keys);
	labels_release(&base);
	profile_free(profile);
}

static bool halves_equal(const struct hash128 *a, const struct hash128 *b)
{
	return a->low == b->low || a->high == b->high;
}

/* A key depends on each thing that it is made of, with both of its halves, and on nothing else. */
static void test_each_member(void **state)
{
	for (size_t member = 0; member < MEMBERS; member++) {
		struct hash128 keys[2][3];
		uint64_t words[MEMBERS] = {0};
		struct content content = {0};
		keys_of(&content, keys[0]);
		words[member] = 1;
		memcpy(&content, words, sizeof(content));
		keys_of(&content, keys[1]);
		bool is_label = member >= offsetof(struct content, label_key) / 8, is_where = member == MEMBERS - 1;
		for (size_t i = 0; i < 3; i++) {
			bool differs = !is_where && is_label == (i == 2);
			assert_int_equal(halves_equal(&keys[0][i], &keys[1][i]), !differs);
			assert_int_equal(memcmp(&keys[0][i], &keys[1][i], sizeof(keys[0][i])) != 0, differs);
		}
	}
}

/* What changes places is not the same. */
static void test_places(void **state)
{
	static const struct content pairs[][2] = {
		{{.name = 1, .system_name = 2}, {.name = 2, .system_name = 1}},
		{{.line = 1, .column = 2}, {.line = 2, .column = 1}},
		{{.start_line = 1, .line = 2}, {.start_line = 2, .line = 1}},
		{{.offset = 0x2000, .size = 1}, {.offset = 0x1000, .size = 2}},
		{{.frame_type = 1}, {.folded = 1}},
		{{.label_number = 1, .label_value = 2}, {.label_number = 2, .label_value = 1}},
		{{.resource = 1, .label_value = 2}, {.resource = 2, .label_value = 1}},
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct hash128 a[3], b[3];
		keys_of(&pairs[i][0], a);
		keys_of(&pairs[i][1], b);
		size_t which = i >= 5 ? 2 : 0;
		assert_false(halves_equal(&a[which], &b[which]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_member), cmocka_unit_test(test_places)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
