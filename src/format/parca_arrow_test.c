/* SPDX-License-Identifier: Apache-2.0 */
/* Records that fuzzing begins with: what they come to, also where memory is short and where they are cut off. What agents and
 * other libraries write, and what is asked of the store then, is in tests/interop/parca_arrow.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/io.h"
#include "base/limits.h"
#include "codec/arrow/arrow_read.h"
#include "format/parca_arrow.h"
#include "format/parca_arrow_int.h"

#define TIME_NS 1700000000000000000

struct record {
	struct buffer file;
	struct bytes samples, locations;
};

static void record_release(struct record *record)
{
	buffer_release(&record->file);
}

/* The length of the samples, the samples, the locations. */
static void read_record(const char *name, struct record *record)
{
	char path[100];
	uint32_t len;
	snprintf(path, sizeof(path), "fuzz/corpus/arrow/%s", name);
	assert_int_equal(io_read_file(path, MIB, &record->file, NULL), 0);
	memcpy(&len, record->file.data, sizeof(len));
	record->samples = (struct bytes){record->file.data + sizeof(len), len};
	record->locations = (struct bytes){record->samples.data + len, record->file.len - sizeof(len) - len};
}

static const struct profile_location *frame_of(const struct profile *profile, size_t sample, size_t index, size_t depth)
{
	uint32_t locations[8];
	assert_int_equal(profile_stack_locations(profile, profile->samples[sample].stack, locations, 8), depth);
	return &profile->locations[locations[index]];
}

static void check_line(const struct profile *profile, const struct profile_location *location, uint32_t index, const char *name,
		       const char *file, int64_t number)
{
	assert_true(index < location->line_count);
	const struct profile_line *line = &profile->lines[location->line_first + index];
	const struct profile_function *function = &profile->functions[line->function];
	assert_string_equal(profile_string(profile, function->name), name);
	assert_string_equal(profile_string(profile, function->file_name), file);
	assert_int_equal(line->line, number);
}

static void check_mapping(const struct profile *profile, const struct profile_location *location, const char *file,
			  const char *build_id)
{
	assert_string_equal(profile_string(profile, profile->mappings[location->mapping].file_name), file);
	assert_string_equal(profile_string(profile, profile->mappings[location->mapping].build_id), build_id);
	assert_int_equal(profile_location_file_offset(profile, (uint32_t)(location - profile->locations)), location->address);
}

static void check_version2(const struct parca_profiles *profiles)
{
	assert_int_equal(profiles->count, 2);
	const struct profile *samples = profiles->items[0].profile, *wall = profiles->items[1].profile;
	assert_string_equal(profiles->items[0].name, "p");
	assert_string_equal(profile_string(samples, samples->sample_types[0].type), "samples");
	assert_string_equal(profile_string(samples, samples->period_type.type), "cpu");
	assert_int_equal(samples->sample_count, 2);
	assert_int_equal(profile_total(samples, 0), 3);
	assert_int_equal(samples->time_ns, TIME_NS);
	assert_int_equal(samples->duration_ns, 9);
	assert_int_equal(samples->samples[1].time_ns, TIME_NS + 1);
	assert_string_equal(profile_label_value(samples, samples->samples[0].labels, "comm"), "a");
	check_mapping(samples, frame_of(samples, 0, 0, 2), "app", "aabb");
	assert_int_equal(frame_of(samples, 0, 0, 2)->address, 16);
	assert_int_equal(frame_of(samples, 0, 0, 2)->frame_type, PROFILE_FRAME_NATIVE);
	const struct profile_location *inlined = frame_of(samples, 1, 0, 2);
	assert_int_equal(inlined->line_count, 3);
	assert_int_equal(inlined->frame_type, PROFILE_FRAME_INTERPRETED);
	check_line(samples, inlined, 0, "f", "x", 1);
	check_line(samples, inlined, 1, "g", "x", 2); /* what a delta added */
	check_line(samples, inlined, 2, "a name that is long", "y", 3);
	assert_int_equal(wall->duration_ns, 0);
	assert_int_equal(profile_total(wall, 0), 3);
	assert_int_equal(wall->samples[0].stack, 0);
	assert_string_equal(profile_label_value(wall, wall->samples[0].labels, "comm"), "b");
}

static void test_version2(void **state)
{
	static const char *const names[] = {"v2", "v2_lz4", "v2_zstd"};
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		_cleanup_(record_release) struct record record = {0};
		_cleanup_(buffer_release) struct buffer asked = {0};
		_cleanup_(parca_profiles_release) struct parca_profiles profiles = {0};
		parca_profiles_init(&profiles);
		buffer_init(&asked, MIB);
		read_record(names[i], &record);
		assert_int_equal(parca_arrow_request(record.samples, MIB, &asked, NULL), 0);
		assert_true(asked.len > 0); /* for those who wait for it: parca/write.c */
		assert_int_equal(parca_arrow_decode(record.samples, record.locations, MIB, &profiles, NULL), 0);
		check_version2(&profiles);
	}
}

static void test_version1(void **state)
{
	(void)state;
	_cleanup_(record_release) struct record record = {0};
	_cleanup_(buffer_release) struct buffer asked = {0};
	_cleanup_(parca_profiles_release) struct parca_profiles profiles = {0};
	_cleanup_(arrow_stream_freep) struct arrow_stream *stream = NULL;
	const struct arrow_array *ids;
	size_t rows;
	parca_profiles_init(&profiles);
	buffer_init(&asked, MIB);
	read_record("v1", &record);
	assert_int_equal(parca_arrow_request(record.samples, MIB, &asked, NULL), 1);
	assert_int_equal(arrow_stream_open(buffer_bytes(&asked), MIB, &stream, NULL), 0);
	assert_int_equal(arrow_stream_next(stream, &ids, &rows, NULL), 1);
	assert_int_equal(rows, 2);
	assert_int_equal(parca_arrow_decode(record.samples, record.locations, MIB, &profiles, NULL), 0);
	assert_int_equal(profiles.count, 1);
	const struct profile *profile = profiles.items[0].profile;
	assert_int_equal(profile_total(profile, 0), 3);
	assert_int_equal(frame_of(profile, 0, 1, 2)->address, 2);
	check_mapping(profile, frame_of(profile, 0, 1, 2), "app", "ab");
	check_mapping(profile, frame_of(profile, 1, 0, 1), "[kernel.kallsyms]", "");
	check_line(profile, frame_of(profile, 1, 0, 1), 0, "f", "v", 5);
	assert_int_equal(frame_of(profile, 1, 0, 1)->frame_type, PROFILE_FRAME_KERNEL);
	assert_string_equal(profile_label_value(profile, profile->samples[0].labels, "comm"), "a");
	assert_null(profile_label_value(profile, profile->samples[1].labels, "comm"));
}

static int decode(const struct record *record, struct bytes locations)
{
	_cleanup_(parca_profiles_release) struct parca_profiles profiles = {0};
	parca_profiles_init(&profiles);
	return parca_arrow_decode(record->samples, locations, MIB, &profiles, NULL);
}

static void test_without_memory(void **state)
{
	static const char *const names[] = {"v1", "v2", "v2_lz4", "v2_zstd"};
	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		_cleanup_(record_release) struct record record = {0};
		read_record(names[i], &record);
		for (uint64_t n = 1;; n++) {
			fault_arm(FAULT_ALLOC, n, 0);
			int r = decode(&record, record.locations);
			bool reached = fault_disarm(FAULT_ALLOC);
			assert_int_equal(r, reached ? -ENOMEM : 0);
			if (!reached)
				break;
		}
	}
}

static void test_cut_off(void **state)
{
	(void)state;
	_cleanup_(record_release) struct record record = {0};
	read_record("v1", &record);
	assert_int_equal(decode(&record, (struct bytes){0}), -EBADMSG);
	for (size_t len = 0; len + 8 < record.locations.len; len += 3)
		assert_int_equal(decode(&record, (struct bytes){record.locations.data, len}), -EBADMSG);
}

/* Two chunks of a dictionary of stacks: lists that begin at the same place of different items are different stacks, and so are
 * lists of different lengths that begin at one place. */
static void test_stacks_of_chunks(void **state)
{
	(void)state;
	static const uint64_t addresses[2][2] = {{1, 2}, {3, 4}};
	static const int32_t offsets[] = {0, 1}, both[] = {0, 2};
	struct arrow_field address = {.name = "address", .type = ARROW_TYPE_INT, .width = 8};
	struct arrow_field location = {.name = "item", .type = ARROW_TYPE_STRUCT, .children = &address, .child_count = 1};
	struct arrow_field list = {.name = "stacktrace", .type = ARROW_TYPE_LIST, .children = &location, .child_count = 1};
	struct parca_work work = {.max = 100};
	struct parca_layout layout;
	struct profile *profile;
	struct parca_stacks stacks;
	uint32_t ids[3];
	assert_int_equal(profile_new(&profile, NULL), 0);
	assert_int_equal(parca_layout_find(&list, &layout, NULL), 0);
	parca_stacks_init(&stacks, profile);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t chunk = i % 2;
		const struct arrow_array columns = {.field = &address,
						    .id = 3 * chunk,
						    .length = 2,
						    .values = {(const uint8_t *)addresses[chunk], sizeof(addresses[chunk])}};
		const struct arrow_array items = {.field = &location, .id = 3 * chunk + 1, .length = 2, .children = &columns};
		const struct arrow_array lists = {.field = &list,
						  .id = 3 * chunk + 2,
						  .length = 1,
						  .offsets = {(const uint8_t *)(i < 2 ? offsets : both), sizeof(offsets)},
						  .children = &items};
		assert_int_equal(parca_stacks_add(&stacks, &layout, &work, &lists, 0, &ids[i], NULL), 0);
	}
	assert_int_equal(profile->locations[profile->stacks[ids[0]].location].address, 1);
	assert_int_equal(profile->locations[profile->stacks[ids[1]].location].address, 3);
	assert_int_equal(profile_stack_depth(profile, ids[2]), 2);
	parca_stacks_release(&stacks);
	profile_free(profile);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_version2), cmocka_unit_test(test_version1),	  cmocka_unit_test(test_without_memory),
		cmocka_unit_test(test_cut_off),	 cmocka_unit_test(test_stacks_of_chunks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
