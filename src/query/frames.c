/* SPDX-License-Identifier: Apache-2.0 */
#include "query/frames.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"
#include "query/lex.h"

#define VERDICT_BYTES_MAX (256 * MIB) /* of names that verdicts are remembered for; others are checked each time */
#define ADDRESS_TEXT_MAX  24

/* ---- names of addresses ---- */

struct named_address {
	uint32_t build_id, binary; /* texts */
	uint64_t address;
	uint32_t location; /* of the profile below */
};
struct frame_names {
	struct symbolizer *symbolizer;
	int64_t wait_until_ns;
	struct profile *profile; /* has a location for each address that was asked for */
	struct intern texts;
	struct named_address *addresses;
	size_t count, capacity;
	struct index32 index;
	struct buffer text; /* BINARY+0xOFFSET */
};

int frame_names_new(struct symbolizer *symbolizer, int64_t wait_ns, struct frame_names **ret, struct error *err)
{
	struct frame_names *names = mem_zalloc(sizeof(*names));
	if (!names)
		return error_nomem(err);
	names->symbolizer = symbolizer;
	names->wait_until_ns = wait_ns < 0 ? INT64_MAX : time_monotonic_ns() + wait_ns;
	buffer_init(&names->text, SIZE_MAX);
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
	buffer_release(&names->text);
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
static int name_address(struct frame_names *names, const struct store_frame *frame, uint32_t *ret)
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

static int find_address(struct frame_names *names, const struct store_frame *frame, uint32_t *ret)
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

static struct store_line line_of_profile(const struct profile *profile, uint32_t id)
{
	const struct profile_line *line = &profile->lines[id];
	const struct profile_function *function = &profile->functions[line->function];
	return (struct store_line){
		.function = profile_string_bytes(profile, function->name),
		.system_name = profile_string_bytes(profile, function->system_name),
		.file = profile_string_bytes(profile, function->file_name),
		.line = line->line,
		.column = line->column,
	};
}

/* How flame graphs show an address that has no name. The text lives until the next call. */
static int format_address(struct frame_names *names, const struct store_frame *frame, struct store_line *ret)
{
	struct bytes binary = text_base_name_of(frame->binary);
	buffer_clear(&names->text);
	if (buffer_printf(&names->text, "%.*s%s0x%" PRIx64, (int)binary.len, (const char *)binary.data, binary.len ? "+" : "",
			  frame->address) < 0)
		return -ENOMEM;
	*ret = (struct store_line){.function = buffer_bytes(&names->text)};
	return 0;
}

/* The function at the address of a frame without lines, as flame graphs show it. The texts live until the next call. */
static int frame_names_get(struct frame_names *names, const struct store_frame *frame, struct store_line *ret)
{
	uint32_t location;
	int r = find_address(names, frame, &location);
	if (r < 0)
		return r;
	const struct profile_location *entry = &names->profile->locations[location];
	if (!entry->line_count)
		return format_address(names, frame, ret);
	*ret = line_of_profile(names->profile, entry->line_first);
	return 0;
}

/* ---- filters ---- */

struct frame_test {
	enum query_frame_field field;
	struct pattern pattern;
	struct intern texts; /* of regular expressions: what they said of each text */
	uint8_t *verdicts;   /* by text: 0 not asked yet, 1 no, 2 yes */
	size_t verdict_count, verdict_capacity;
};
struct frame_filter {
	enum store_where where;
	bool drop;
	struct frame_test tests[QUERY_FRAME_TESTS_MAX];
	size_t test_count;
	struct frame_names *names; /* not owned */
	bool out_of_memory;
};

static const char *const field_names[] = {
	[QUERY_FRAME_FUNCTION] = "function", [QUERY_FRAME_FILE] = "file",	  [QUERY_FRAME_LINE] = "line",
	[QUERY_FRAME_BINARY] = "binary",     [QUERY_FRAME_BUILD_ID] = "build_id", [QUERY_FRAME_ADDRESS] = "address",
	[QUERY_FRAME_KERNEL] = "kernel",     [QUERY_FRAME_USER] = "user",
};

const char *frame_field_name(enum query_frame_field field)
{
	return field_names[field];
}

static bool is_flag(enum query_frame_field field)
{
	return field == QUERY_FRAME_KERNEL || field == QUERY_FRAME_USER;
}

int frame_tests_check(const struct query_frames *frames, struct error *err)
{
	if (frames->test_count == 0 || frames->test_count > QUERY_FRAME_TESTS_MAX)
		return error_set(err, -EINVAL, "query: a condition on frames has 1 to %d tests", QUERY_FRAME_TESTS_MAX);
	for (size_t i = 0; i < frames->test_count; i++)
		if (frames->test_count > 1 && !is_flag(frames->tests[i].field) &&
		    pattern_operator_is_negative(frames->tests[i].op))
			return error_set(err, -EINVAL,
					 "query: %s cannot be joined with 'and' in a condition on frames; write a separate "
					 "'drop frames'",
					 operator_text(frames->tests[i].op));
	return 0;
}

static int test_init(struct frame_test *test, const struct query_frame_test *from, struct error *err)
{
	test->field = from->field;
	if (is_flag(from->field))
		return 0;
	char *value = mem_strdup(from->value ? from->value : "");
	if (!value || intern_init(&test->texts, VERDICT_BYTES_MAX) < 0) {
		mem_free(value);
		return error_nomem(err);
	}
	return pattern_init(&test->pattern, from->op, value, false, "query", field_names[from->field], err);
}

int frame_filter_new(const struct query_frames *frames, struct frame_names *names, struct frame_filter **ret, struct error *err)
{
	int r = frame_tests_check(frames, err);
	if (r < 0)
		return r;
	struct frame_filter *filter = mem_zalloc(sizeof(*filter));
	if (!filter)
		return error_nomem(err);
	filter->where = frames->where;
	filter->drop = frames->drop;
	filter->names = names;
	for (size_t i = 0; i < frames->test_count; i++) {
		r = test_init(&filter->tests[filter->test_count++], &frames->tests[i], err);
		if (r < 0) {
			frame_filter_free(filter);
			return r;
		}
	}
	if (filter->test_count == 1 && pattern_operator_is_negative(filter->tests[0].pattern.op))
		filter->drop = !filter->drop;
	*ret = filter;
	return 0;
}

struct frame_filter *frame_filter_free(struct frame_filter *filter)
{
	if (!filter)
		return NULL;
	for (size_t i = 0; i < filter->test_count; i++) {
		pattern_release(&filter->tests[i].pattern);
		intern_release(&filter->tests[i].texts);
		mem_free(filter->tests[i].verdicts);
	}
	return mem_free(filter);
}

int frame_filter_failure(const struct frame_filter *filter, struct error *err)
{
	int r = filter->out_of_memory ? error_nomem(err) : 0;
	for (size_t i = 0; !r && i < filter->test_count; i++)
		r = pattern_failure(&filter->tests[i].pattern, err);
	return r;
}

static bool text_passes(struct frame_test *test, struct bytes text)
{
	if (!test->pattern.code)
		return pattern_finds(&test->pattern, text.data, text.len);
	uint32_t id;
	if (intern_add(&test->texts, text.data, text.len, &id) < 0 ||
	    array_reserve(&test->verdicts, &test->verdict_capacity, (size_t)id + 1, UINT32_MAX) < 0)
		return pattern_finds(&test->pattern, text.data, text.len); /* costs time, nothing else */
	while (test->verdict_count <= id)
		test->verdicts[test->verdict_count++] = 0;
	if (test->verdicts[id] == 0)
		test->verdicts[id] = pattern_finds(&test->pattern, text.data, text.len) ? 2 : 1;
	return test->verdicts[id] == 2;
}

static bool path_passes(struct frame_test *test, struct bytes path)
{
	if (text_passes(test, path))
		return true;
	struct bytes name = text_base_name_of(path);
	return !test->pattern.code && name.len != path.len && text_passes(test, name);
}

static bool is_kernel(const struct store_frame *frame)
{
	static const char kernel[] = "[kernel";
	return frame->frame_type == PROFILE_FRAME_KERNEL ||
	       (frame->frame_type == PROFILE_FRAME_UNKNOWN && frame->binary.len >= sizeof(kernel) - 1 &&
		memcmp(frame->binary.data, kernel, sizeof(kernel) - 1) == 0);
}

static bool number_passes(struct frame_test *test, bool hex, uint64_t value)
{
	char text[ADDRESS_TEXT_MAX];
	int len = snprintf(text, sizeof(text), hex ? "0x%" PRIx64 : "%" PRIu64, value);
	return pattern_finds(&test->pattern, text, (size_t)len);
}

static bool function_passes(struct frame_filter *filter, struct frame_test *test, const struct store_frame *frame,
			    const struct store_line *line)
{
	struct store_line named;
	if (!line) {
		if (frame_names_get(filter->names, frame, &named) < 0) {
			filter->out_of_memory = true;
			return false;
		}
		line = &named;
	}
	return text_passes(test, line->function) || (line->system_name.len && !bytes_equal(line->system_name, line->function) &&
						     text_passes(test, line->system_name));
}

static bool test_passes(struct frame_filter *filter, struct frame_test *test, const struct store_frame *frame,
			const struct store_line *line)
{
	switch (test->field) {
	case QUERY_FRAME_FUNCTION: return function_passes(filter, test, frame, line);
	case QUERY_FRAME_FILE: return path_passes(test, line ? line->file : (struct bytes){0});
	case QUERY_FRAME_LINE: return line && line->line > 0 && number_passes(test, false, (uint64_t)line->line);
	case QUERY_FRAME_BINARY: return path_passes(test, frame->binary);
	case QUERY_FRAME_BUILD_ID: return text_passes(test, frame->build_id);
	case QUERY_FRAME_ADDRESS: return frame->address && number_passes(test, true, frame->address);
	case QUERY_FRAME_KERNEL: return is_kernel(frame);
	case QUERY_FRAME_USER: return !is_kernel(frame);
	}
	return false;
}

bool frame_filter_test(struct frame_filter *filter, const struct store_frame *frame, const struct store_line *line)
{
	for (size_t i = 0; i < filter->test_count; i++)
		if (!test_passes(filter, &filter->tests[i], frame, line))
			return false;
	return true;
}

static unsigned condition_matches(void *context, const struct store_frame *frame)
{
	struct frame_filter *filter = context;
	unsigned ret = 0;
	if (frame->line_count == 0)
		return frame_filter_test(filter, frame, NULL) ? STORE_MATCH_ANY | STORE_MATCH_INNERMOST | STORE_MATCH_OUTERMOST
							      : 0;
	for (size_t i = 0; i < frame->line_count; i++) {
		if (!frame_filter_test(filter, frame, &frame->lines[i]))
			continue;
		ret |= STORE_MATCH_ANY;
		ret |= i == 0 ? STORE_MATCH_INNERMOST : 0;
		ret |= i + 1 == frame->line_count ? STORE_MATCH_OUTERMOST : 0;
	}
	return ret;
}

struct store_stack_condition frame_filter_condition(struct frame_filter *filter)
{
	return (struct store_stack_condition){
		.where = filter->where, .negate = filter->drop, .matches = condition_matches, .context = filter};
}

/* ---- call sites ---- */

static bool function_is(const struct store_line *line, const char *text)
{
	return bytes_equal_string(line->function, text) ||
	       (line->system_name.len && bytes_equal_string(line->system_name, text));
}

/* The lines of a location from the outermost function on. */
static unsigned follow_lines(const struct frame_path *path, const struct store_line *lines, size_t count, unsigned passed)
{
	for (size_t i = count; i-- > 0 && passed < path->count; passed++)
		if (!function_is(&lines[i], path->functions[passed]))
			return STORE_PATH_LOST;
	return passed;
}

/* Memory is short. */
static unsigned give_up(struct frame_path *path)
{
	path->out_of_memory = true;
	return STORE_PATH_LOST;
}

/* An address: by the names that the symbolizer has for it, or by the one that flame graphs show. */
static unsigned follow_address(struct frame_path *path, const struct store_frame *frame, unsigned passed)
{
	struct store_line line;
	uint32_t location;
	if (find_address(path->names, frame, &location) < 0)
		return give_up(path);
	const struct profile *profile = path->names->profile;
	const struct profile_location *entry = &profile->locations[location];
	if (!entry->line_count)
		return format_address(path->names, frame, &line) < 0 ? give_up(path) : follow_lines(path, &line, 1, passed);
	for (uint32_t i = entry->line_count; i-- > 0 && passed < path->count; passed++) {
		line = line_of_profile(profile, entry->line_first + i);
		if (!function_is(&line, path->functions[passed]))
			return STORE_PATH_LOST;
	}
	return passed;
}

static unsigned path_follow(void *context, const struct store_frame *frame, unsigned passed)
{
	struct frame_path *path = context;
	return frame->line_count ? follow_lines(path, frame->lines, frame->line_count, passed)
				 : follow_address(path, frame, passed);
}

struct store_stack_condition frame_path_condition(struct frame_path *path)
{
	return (struct store_stack_condition){
		.where = STORE_PATH, .follow = path_follow, .path_length = (unsigned)path->count, .context = path};
}

void frame_of_location(const struct profile *profile, uint32_t id, struct store_line *lines, struct store_frame *ret)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	*ret = (struct store_frame){
		.frame_type = location->frame_type,
		.binary = profile_string_bytes(profile, mapping->file_name),
		.build_id = profile_string_bytes(profile, mapping->build_id),
		.address = profile_location_file_offset(profile, id),
		.lines = lines,
		.line_count = location->line_count,
	};
	for (uint32_t i = 0; i < location->line_count; i++)
		lines[i] = line_of_profile(profile, location->line_first + i);
}
