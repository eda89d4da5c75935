/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/frame_match.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "base/limits.h"
#include "base/text.h"

#define VERDICT_BYTES_MAX (256 * MIB) /* of names that verdicts are remembered for; others are checked each time */
#define ADDRESS_TEXT_MAX  24

/* ---- frames of profiles ---- */

static struct frame_line line_of_profile(const struct profile *profile, uint32_t id)
{
	const struct profile_line *line = &profile->lines[id];
	const struct profile_function *function = &profile->functions[line->function];
	return (struct frame_line){
		.function = profile_string_bytes(profile, function->name),
		.system_name = profile_string_bytes(profile, function->system_name),
		.file = profile_string_bytes(profile, function->file_name),
		.line = line->line,
		.column = line->column,
	};
}

void frame_of_location(const struct profile *profile, uint32_t id, struct frame_line *lines, struct frame *ret)
{
	const struct profile_location *location = &profile->locations[id];
	const struct profile_mapping *mapping = &profile->mappings[location->mapping];
	*ret = (struct frame){
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

/* How flame graphs show an address that has no name. */
static int format_address(struct buffer *text, const struct frame *frame, struct frame_line *ret)
{
	struct bytes binary = text_base_name_of(frame->binary);
	buffer_clear(text);
	if (buffer_printf(text, "%.*s%s0x%" PRIx64, (int)binary.len, (const char *)binary.data, binary.len ? "+" : "",
			  frame->address) < 0)
		return -ENOMEM;
	*ret = (struct frame_line){.function = buffer_bytes(text)};
	return 0;
}

/* The functions of a frame without lines; *room where nothing is known. They live until the next call. */
static int name_frame(const struct frame_symbols *symbols, struct buffer *text, const struct frame *frame,
		      struct frame_line *room, const struct frame_line **ret, size_t *ret_count)
{
	*ret_count = 0;
	int r = symbols ? symbols->name(symbols->context, frame, ret, ret_count) : 0;
	if (r < 0 || *ret_count)
		return r;
	*ret = room;
	*ret_count = 1;
	return format_address(text, frame, room);
}

/* ---- tests ---- */

struct compiled_test {
	enum frame_field field;
	struct pattern pattern;
	struct intern texts; /* of regular expressions: what they said of each text */
	uint8_t *verdicts;   /* by text: 0 not asked yet, 1 no, 2 yes */
	size_t verdict_count, verdict_capacity;
};
struct frame_matcher {
	struct compiled_test tests[FRAME_TESTS_MAX];
	size_t test_count;
	const struct frame_symbols *symbols; /* not owned */
	struct buffer text;		     /* BINARY+0xOFFSET */
	int failure;
};

static const char *const field_names[] = {
	[FRAME_FIELD_FUNCTION] = "function", [FRAME_FIELD_FILE] = "file",	  [FRAME_FIELD_LINE] = "line",
	[FRAME_FIELD_BINARY] = "binary",     [FRAME_FIELD_BUILD_ID] = "build_id", [FRAME_FIELD_ADDRESS] = "address",
	[FRAME_FIELD_KERNEL] = "kernel",     [FRAME_FIELD_USER] = "user",
};

const char *frame_field_name(enum frame_field field)
{
	return field_names[field];
}

static int test_init(struct compiled_test *test, const struct frame_test *from, struct error *err)
{
	test->field = from->field;
	if (frame_field_is_flag(from->field))
		return 0;
	if (pattern_operator_is_negative(from->op))
		return error_set(err, -EINVAL, "query: a test of frames cannot be negative by itself");
	char *value = mem_strdup(from->text ? from->text : "");
	if (!value || intern_init(&test->texts, VERDICT_BYTES_MAX) < 0) {
		mem_free(value);
		return error_nomem(err);
	}
	return pattern_init(&test->pattern, from->op, value, false, "query", field_names[from->field], err);
}

int frame_matcher_new(const struct frame_test *tests, size_t count, const struct frame_symbols *symbols,
		      struct frame_matcher **ret, struct error *err)
{
	if (count == 0 || count > FRAME_TESTS_MAX)
		return error_set(err, -EINVAL, "query: a condition on frames has 1 to %d tests", FRAME_TESTS_MAX);
	struct frame_matcher *matcher = mem_zalloc(sizeof(*matcher));
	if (!matcher)
		return error_nomem(err);
	matcher->symbols = symbols;
	buffer_init(&matcher->text, SIZE_MAX);
	for (size_t i = 0; i < count; i++) {
		int r = test_init(&matcher->tests[matcher->test_count++], &tests[i], err);
		if (r < 0) {
			frame_matcher_free(matcher);
			return r;
		}
	}
	*ret = matcher;
	return 0;
}

struct frame_matcher *frame_matcher_free(struct frame_matcher *matcher)
{
	if (!matcher)
		return NULL;
	for (size_t i = 0; i < matcher->test_count; i++) {
		pattern_release(&matcher->tests[i].pattern);
		intern_release(&matcher->tests[i].texts);
		mem_free(matcher->tests[i].verdicts);
	}
	buffer_release(&matcher->text);
	return mem_free(matcher);
}

static int failure_of(int failure, struct error *err)
{
	return failure == 0	    ? 0
	       : failure == -ENOMEM ? error_nomem(err)
				    : error_set_errno(err, failure, "query: addresses cannot be named");
}

int frame_matcher_failure(const struct frame_matcher *matcher, struct error *err)
{
	int r = failure_of(matcher->failure, err);
	for (size_t i = 0; r == 0 && i < matcher->test_count; i++)
		r = pattern_failure(&matcher->tests[i].pattern, err);
	return r;
}

static bool text_passes(struct compiled_test *test, struct bytes text)
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

static bool path_passes(struct compiled_test *test, struct bytes path)
{
	if (text_passes(test, path))
		return true;
	struct bytes name = text_base_name_of(path);
	return !test->pattern.code && name.len != path.len && text_passes(test, name);
}

static bool is_kernel(const struct frame *frame)
{
	static const char kernel[] = "[kernel";
	return frame->frame_type == PROFILE_FRAME_KERNEL ||
	       (frame->frame_type == PROFILE_FRAME_UNKNOWN && frame->binary.len >= sizeof(kernel) - 1 &&
		memcmp(frame->binary.data, kernel, sizeof(kernel) - 1) == 0);
}

static bool number_passes(struct compiled_test *test, bool hex, uint64_t value)
{
	char text[ADDRESS_TEXT_MAX];
	int len = snprintf(text, sizeof(text), hex ? "0x%" PRIx64 : "%" PRIu64, value);
	return pattern_finds(&test->pattern, text, (size_t)len);
}

static bool function_passes(struct frame_matcher *matcher, struct compiled_test *test, const struct frame *frame,
			    const struct frame_line *line)
{
	struct frame_line room;
	size_t count;
	if (!line) {
		int r = name_frame(matcher->symbols, &matcher->text, frame, &room, &line, &count);
		if (r < 0) {
			matcher->failure = r;
			return false;
		}
	}
	return text_passes(test, line->function) || (line->system_name.len && !bytes_equal(line->system_name, line->function) &&
						     text_passes(test, line->system_name));
}

static bool test_passes(struct frame_matcher *matcher, struct compiled_test *test, const struct frame *frame,
			const struct frame_line *line)
{
	switch (test->field) {
	case FRAME_FIELD_FUNCTION: return function_passes(matcher, test, frame, line);
	case FRAME_FIELD_FILE: return path_passes(test, line ? line->file : (struct bytes){0});
	case FRAME_FIELD_LINE: return line && line->line > 0 && number_passes(test, false, (uint64_t)line->line);
	case FRAME_FIELD_BINARY: return path_passes(test, frame->binary);
	case FRAME_FIELD_BUILD_ID: return text_passes(test, frame->build_id);
	case FRAME_FIELD_ADDRESS: return frame->address && number_passes(test, true, frame->address);
	case FRAME_FIELD_KERNEL: return is_kernel(frame);
	case FRAME_FIELD_USER: return !is_kernel(frame);
	}
	return false;
}

bool frame_matcher_test(struct frame_matcher *matcher, const struct frame *frame, const struct frame_line *line)
{
	for (size_t i = 0; i < matcher->test_count; i++)
		if (!test_passes(matcher, &matcher->tests[i], frame, line))
			return false;
	return true;
}

unsigned frame_matcher_match(struct frame_matcher *matcher, const struct frame *frame)
{
	unsigned ret = 0;
	if (frame->line_count == 0)
		return frame_matcher_test(matcher, frame, NULL)
			       ? FRAME_MATCH_ANY | FRAME_MATCH_INNERMOST | FRAME_MATCH_OUTERMOST
			       : 0;
	for (size_t i = 0; i < frame->line_count; i++) {
		if (!frame_matcher_test(matcher, frame, &frame->lines[i]))
			continue;
		ret |= FRAME_MATCH_ANY;
		ret |= i == 0 ? FRAME_MATCH_INNERMOST : 0;
		ret |= i + 1 == frame->line_count ? FRAME_MATCH_OUTERMOST : 0;
	}
	return ret;
}

/* ---- call sites ---- */

static bool function_is(const struct frame_line *line, const char *text)
{
	return bytes_equal_string(line->function, text) ||
	       (line->system_name.len && bytes_equal_string(line->system_name, text));
}

/* The lines of a location from the outermost function on. */
static unsigned follow_lines(const struct frame_path *path, const struct frame_line *lines, size_t count, unsigned passed)
{
	for (size_t i = count; i-- > 0 && passed < path->count; passed++)
		if (!function_is(&lines[i], path->functions[passed]))
			return FRAME_PATH_LOST;
	return passed;
}

/* An address: by the names that are known for it, or by the one that flame graphs show. */
unsigned frame_path_follow(struct frame_path *path, const struct frame *frame, unsigned passed)
{
	struct frame_line room;
	const struct frame_line *lines = frame->lines;
	size_t count = frame->line_count;
	int r = count ? 0 : name_frame(path->symbols, &path->text, frame, &room, &lines, &count);
	if (r < 0) {
		path->failure = r;
		return FRAME_PATH_LOST;
	}
	return follow_lines(path, lines, count, passed);
}

int frame_path_failure(const struct frame_path *path, struct error *err)
{
	return failure_of(path->failure, err);
}
