/* SPDX-License-Identifier: Apache-2.0 */
#include "query/frames.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/time.h"
#include "query/lex.h"

/* ---- names of addresses ---- */

struct named_address {
	uint32_t build_id, binary; /* texts */
	uint64_t address;
	uint32_t location; /* of the profile below */
};
struct frame_names {
	struct symbolizer *symbolizer;
	bool hide_addresses;
	int64_t wait_until_ns;
	struct profile *profile; /* has a location for each address that was asked for */
	struct intern texts;
	struct named_address *addresses;
	size_t count, capacity;
	struct index32 index;
	struct frame_line *lines; /* of the last answer */
	size_t line_capacity;
	struct frame_symbols symbols;
};

static int name_frame(void *context, const struct frame *frame, const struct frame_line **ret, size_t *ret_count);

int frame_names_new(struct symbolizer *symbolizer, int64_t wait_ns, bool hide_addresses, struct frame_names **ret,
		    struct error *err)
{
	struct frame_names *names = mem_zalloc(sizeof(*names));
	if (!names)
		return error_nomem(err);
	names->symbolizer = symbolizer;
	names->hide_addresses = hide_addresses;
	names->wait_until_ns = wait_ns < 0 ? INT64_MAX : time_monotonic_ns() + wait_ns;
	names->symbols = (struct frame_symbols){.name = name_frame, .context = names};
	if (intern_init(&names->texts, GIB) < 0 || profile_new(&names->profile, NULL) < 0) {
		frame_names_free(names);
		return error_nomem(err);
	}
	*ret = names;
	return 0;
}

struct frame_names *frame_names_free(struct frame_names *names)
{
	if (!names)
		return NULL;
	profile_free(names->profile);
	intern_release(&names->texts);
	index32_release(&names->index);
	mem_free(names->lines);
	mem_free(names->addresses);
	return mem_free(names);
}

/* All addresses of a query share one time to wait. */
static int resolve_waiting(struct frame_names *names, uint32_t first)
{
	struct symbolizer_want want = {.wait_ns = -1};
	if (names->wait_until_ns != INT64_MAX) {
		int64_t left = names->wait_until_ns - time_monotonic_ns();
		want.wait_ns = left > 0 ? left : 0;
	}
	return symbolizer_resolve(names->symbolizer, names->profile, first, &want, NULL, NULL);
}

/* Makes a location for the address and lets the symbolizer name it. */
static int name_address(struct frame_names *names, const struct frame *frame, uint32_t *ret)
{
	struct profile *profile = names->profile;
	struct profile_mapping mapping = {0};
	struct profile_location location = {.address = frame->address};
	int r = profile_add_string(profile, frame->binary.data, frame->binary.len, &mapping.file_name, NULL);
	if (!r)
		r = profile_add_string(profile, frame->build_id.data, frame->build_id.len, &mapping.build_id, NULL);
	if (!r)
		r = profile_add_mapping(profile, &mapping, &location.mapping, NULL);
	if (!r)
		r = profile_add_location(profile, &location, NULL, 0, ret, NULL);
	if (!r && names->symbolizer)
		r = resolve_waiting(names, *ret);
	return r;
}

static int find_address(struct frame_names *names, const struct frame *frame, uint32_t *ret)
{
	struct named_address key = {.address = frame->address};
	if (intern_add(&names->texts, frame->build_id.data, frame->build_id.len, &key.build_id) < 0 ||
	    intern_add(&names->texts, frame->binary.data, frame->binary.len, &key.binary) < 0)
		return -ENOMEM;
	uint64_t hash = hash64_mix(hash64_mix((uint64_t)key.build_id << 32 | key.binary) ^ key.address);
	uint32_t id;
	for (size_t at = index32_first(&names->index, hash); index32_at(&names->index, hash, &at, &id); at++) {
		const struct named_address *known = &names->addresses[id];
		if (known->address == key.address && known->build_id == key.build_id && known->binary == key.binary) {
			*ret = known->location;
			return 0;
		}
	}
	if (array_reserve(&names->addresses, &names->capacity, names->count + 1, UINT32_MAX) < 0 ||
	    index32_reserve(&names->index, 1) < 0 || name_address(names, frame, &key.location) < 0)
		return -ENOMEM;
	index32_add(&names->index, hash, (uint32_t)names->count);
	names->addresses[names->count++] = key;
	*ret = key.location;
	return 0;
}

/* As struct frame_symbols has it. */
static int name_frame(void *context, const struct frame *frame, const struct frame_line **ret, size_t *ret_count)
{
	static const struct frame_line hidden = {.function = {(const uint8_t *)"0x0", 3}};
	struct frame_names *names = context;
	struct frame found;
	uint32_t location;
	if (names->hide_addresses && !frame->build_id.len) {
		*ret = &hidden;
		*ret_count = 1;
		return 0;
	}
	int r = find_address(names, frame, &location);
	if (r < 0)
		return r;
	*ret_count = names->profile->locations[location].line_count;
	if (!*ret_count) /* of most addresses nothing is known */
		return 0;
	r = array_reserve(&names->lines, &names->line_capacity, *ret_count, UINT32_MAX);
	if (r < 0)
		return -ENOMEM;
	frame_of_location(names->profile, location, names->lines, &found);
	*ret = found.lines;
	return 0;
}

const struct frame_symbols *frame_names_symbols(const struct frame_names *names)
{
	return &names->symbols;
}

/* ---- conditions ---- */

static int check_tests(const struct query_frames *frames, struct error *err)
{
	if (frames->test_count == 0 || frames->test_count > FRAME_TESTS_MAX)
		return error_set(err, -EINVAL, "query: a condition on frames has 1 to %d tests", FRAME_TESTS_MAX);
	for (size_t i = 0; i < frames->test_count; i++)
		if (frames->test_count > 1 && !frame_field_is_flag(frames->tests[i].field) &&
		    pattern_operator_is_negative(frames->tests[i].op))
			return error_set(err, -EINVAL,
					 "query: %s cannot be joined with 'and' in a condition on frames; write a separate "
					 "'drop frames'",
					 operator_text(frames->tests[i].op));
	return 0;
}

int query_frames_check(const struct query_frames *frames, struct error *err)
{
	int r = check_tests(frames, err);
	for (size_t i = 0; r == 0 && i < frames->test_count; i++) {
		const struct frame_test *test = &frames->tests[i];
		if (!frame_field_is_flag(test->field))
			r = pattern_check(test->op, test->text ? test->text : "", false, "query", frame_field_name(test->field),
					  err);
	}
	return r;
}

struct store_stack_condition query_frames_condition(const struct query_frames *frames, struct frame_test *tests)
{
	bool negative = frames->test_count == 1 && !frame_field_is_flag(frames->tests[0].field) &&
			pattern_operator_is_negative(frames->tests[0].op);
	for (size_t i = 0; i < frames->test_count; i++) {
		tests[i] = frames->tests[i];
		tests[i].op = pattern_operator_is_regex(tests[i].op) ? PATTERN_REGEX : PATTERN_EQUAL;
	}
	return (struct store_stack_condition){
		.where = frames->where, .negate = frames->drop != negative, .tests = tests, .test_count = frames->test_count};
}

int query_frames_compile(const struct query_frames *frames, struct frame_matcher **ret, bool *ret_negate, struct error *err)
{
	struct frame_test tests[FRAME_TESTS_MAX];
	int r = check_tests(frames, err);
	if (r < 0)
		return r;
	struct store_stack_condition condition = query_frames_condition(frames, tests);
	*ret_negate = condition.negate;
	return frame_matcher_new(tests, condition.test_count, NULL, ret, err);
}
