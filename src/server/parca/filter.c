/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters of Parca's query service (proto/parca/query/v1alpha1/query.proto; what they mean is in pkg/query/columnquery.go):
 *
 *   Filter           1 stack_filter { 1 function_name_stack_filter { 1 function_to_filter  2 exclude }  2 criteria }
 *                    2 frame_filter { 1 binary_frame_filter { 1 include_binaries* }  2 criteria }
 *   FilterCriteria   1 function_name  2 system_name  3 binary  4 filename  5 address  6 line_number
 *   StringCondition  1 equal  2 not_equal  3 contains  4 not_contains  5 starts_with  6 not_starts_with
 *   NumberCondition  1 equal  2 not_equal
 *
 * A stack filter decides about samples: with a positive condition some frame must fulfil it, with a negative one all frames
 * must; frames that lack what is compared are passed over. A frame filter takes frames away that do not fulfil it; one at
 * which no function is known passes conditions on names. Texts are compared without regard to the case of ASCII letters,
 * binaries by the last part of their path, addresses as offsets in the binary's file. A sample without a stack passes all
 * filters.
 *
 * The order is the one of Parca's server: first the sandwich, which cuts stacks at a function, then filters, of what is left.
 * What the sandwich leaves nothing of stays as a sample without a stack: so the total stays that of all.
 *
 * Both are decided once a location or a stack, callers first (a parent's id is smaller than its child's), and not once a
 * sample.
 */
#include "server/parca/filter.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "base/text.h"
#include "codec/protobuf.h"
#include "profile/filter.h"
#include "render/units.h"

#define UNKNOWN UINT32_MAX

/* ---- reading ---- */

static int add(struct parca_filters *filters, const struct parca_filter *filter, struct error *err)
{
	if (filters->count == PARCA_FILTERS_MAX)
		return error_set(err, -EINVAL, "the request has more than %d filters", PARCA_FILTERS_MAX);
	filters->items[filters->count++] = *filter;
	return 0;
}

int parca_filters_add_function(struct parca_filters *filters, const char *text, struct error *err)
{
	return add(
		filters,
		&(struct parca_filter){
			.of_stack = true, .criterion = PARCA_FUNCTION, .kind = PARCA_CONTAINS, .text = bytes_of_string(text)},
		err);
}

/* A condition is a `oneof`: the last field counts. One without any holds for everything. */
static int read_condition(struct parca_filters *filters, struct parca_filter filter, const struct pb_cursor *outer,
			  struct bytes message, struct error *err)
{
	bool is_number = filter.criterion == PARCA_ADDRESS || filter.criterion == PARCA_LINE;
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number >= (is_number ? PARCA_CONTAINS : PARCA_CONDITIONS) ||
		    field.wire != (is_number ? PB_VARINT : PB_BYTES))
			continue;
		filter.kind = (enum parca_condition_kind)field.number;
		filter.text = field.bytes;
		filter.number = field.value;
	}
	return r < 0 || filter.kind == PARCA_NO_CONDITION ? r : add(filters, &filter, err);
}

static int read_criteria(struct parca_filters *filters, bool of_stack, const struct pb_cursor *outer, struct bytes message,
			 struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number >= PARCA_CRITERIA || field.wire != PB_BYTES)
			continue;
		struct parca_filter filter = {.of_stack = of_stack, .criterion = (enum parca_criterion)field.number};
		r = read_condition(filters, filter, &cursor, field.bytes, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* What older clients send. */
static int read_function_filter(struct parca_filters *filters, const struct pb_cursor *outer, struct bytes message,
				struct error *err)
{
	struct parca_filter filter = {.of_stack = true, .criterion = PARCA_FUNCTION, .kind = PARCA_CONTAINS};
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.number == 1 && field.wire == PB_BYTES)
			filter.text = field.bytes;
		if (field.number == 2 && field.wire == PB_VARINT)
			filter.kind = field.value ? PARCA_NOT_CONTAINS : PARCA_CONTAINS;
	}
	return r < 0 ? r : add(filters, &filter, err);
}

/* Each of them is looked for in the name of each binary. */
static int check_binaries(struct parca_filters *filters, const struct pb_cursor *outer, struct bytes message, struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0)
		if (++filters->binary_count > PARCA_BINARIES_MAX)
			return error_set(err, -EINVAL, "the filters of the request have more than %u binaries",
					 PARCA_BINARIES_MAX);
	return r;
}

/* StackFilter and FrameFilter. */
static int read_side(struct parca_filters *filters, bool of_stack, const struct pb_cursor *outer, struct bytes message,
		     struct error *err)
{
	struct parca_filter binaries = {.criterion = PARCA_BINARY, .kind = PARCA_CONTAINS};
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.wire != PB_BYTES)
			continue;
		if (field.number == 2) {
			r = read_criteria(filters, of_stack, &cursor, field.bytes, err);
		} else if (field.number == 1 && of_stack) {
			r = read_function_filter(filters, &cursor, field.bytes, err);
		} else if (field.number == 1) {
			r = check_binaries(filters, &cursor, field.bytes, err);
			binaries.any_of = field.bytes;
			if (r == 0 && field.bytes.len)
				r = add(filters, &binaries, err);
		}
		if (r < 0)
			return r;
	}
	return r;
}

static int read_filter(struct parca_filters *filters, const struct pb_cursor *outer, struct bytes message, struct error *err)
{
	struct pb_cursor cursor = pb_open_nested(outer, message);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.wire == PB_BYTES && field.number <= 2)
			r = read_side(filters, field.number == 1, &cursor, field.bytes, err);
		if (r < 0)
			return r;
	}
	return r;
}

int parca_filters_read(struct bytes request, uint32_t number, struct parca_filters *ret, struct error *err)
{
	struct pb_cursor cursor = pb_open(request);
	struct pb_field field;
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		if (field.wire == PB_BYTES && field.number == number)
			r = read_filter(ret, &cursor, field.bytes, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- one condition, one frame ---- */

static uint8_t fold(uint8_t c)
{
	return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

static bool starts_with(struct bytes text, struct bytes with)
{
	size_t i = 0;
	while (i < with.len && i < text.len && fold(text.data[i]) == fold(with.data[i]))
		i++;
	return i == with.len;
}

static bool contains(struct bytes text, struct bytes what)
{
	for (size_t at = 0; at + what.len <= text.len; at++)
		if (starts_with(bytes_skip(text, at), what))
			return true;
	return false;
}

static bool is_negative(const struct parca_filter *filter)
{
	return filter->kind == PARCA_NOT_EQUAL || filter->kind == PARCA_NOT_CONTAINS || filter->kind == PARCA_NOT_STARTS_WITH;
}

/* Whether what the condition compares with is there, also of one that wants that it is not. */
static bool finds_text(const struct parca_filter *filter, struct bytes text)
{
	struct pb_cursor cursor = pb_open(filter->any_of);
	struct pb_field field;
	switch (filter->kind) {
	case PARCA_EQUAL:
	case PARCA_NOT_EQUAL: return text.len == filter->text.len && starts_with(text, filter->text);
	case PARCA_STARTS_WITH:
	case PARCA_NOT_STARTS_WITH: return starts_with(text, filter->text);
	default: break;
	}
	if (!filter->any_of.len)
		return contains(text, filter->text);
	while (pb_next(&cursor, &field, NULL) > 0)
		if (field.number == 1 && field.wire == PB_BYTES && contains(text, field.bytes))
			return true;
	return false;
}

/* 1 = found, 0 = not, -1 = there is nothing to compare. line: of the location, NULL = it has none. */
static int finds(const struct parca_filter *filter, const struct profile *profile, uint32_t location,
		 const struct profile_line *line)
{
	const struct profile_location *at = &profile->locations[location];
	const struct profile_function *function = &profile->functions[line ? line->function : 0];
	switch (filter->criterion) {
	case PARCA_FUNCTION: return line ? finds_text(filter, profile_string_bytes(profile, function->name)) : -1;
	case PARCA_SYSTEM_NAME: return line ? finds_text(filter, profile_string_bytes(profile, function->system_name)) : -1;
	case PARCA_FILE: return line ? finds_text(filter, profile_string_bytes(profile, function->file_name)) : -1;
	case PARCA_LINE: return line ? (uint64_t)line->line == filter->number : -1;
	case PARCA_ADDRESS: return profile_location_file_offset(profile, location) == filter->number;
	case PARCA_BINARY:
	default:
		if (!at->mapping)
			return -1;
		return finds_text(filter,
				  text_base_name_of(profile_string_bytes(profile, profile->mappings[at->mapping].file_name)));
	}
}

/* ---- samples ---- */

/* Which of the conditions on stacks found something at a location, as bits. */
static uint64_t found_at(const struct parca_filters *filters, const struct profile *profile, uint32_t location)
{
	const struct profile_location *at = &profile->locations[location];
	uint64_t found = 0;
	for (size_t i = 0; i < filters->count; i++) {
		const struct parca_filter *filter = &filters->items[i];
		bool any = filter->of_stack && !at->line_count && finds(filter, profile, location, NULL) > 0;
		for (uint32_t k = 0; filter->of_stack && k < at->line_count && !any; k++)
			any = finds(filter, profile, location, &profile->lines[at->line_first + k]) > 0;
		found |= (uint64_t)any << i;
	}
	return found;
}

/* What a sample's stack must have found of what was asked for. */
struct choice {
	const uint64_t *found; /* by stack */
	uint64_t asked, wanted;
	int64_t *filtered; /* what the samples amount to that go */
};

static bool is_wanted(const void *context, const struct profile *profile, size_t sample)
{
	const struct choice *choice = context;
	size_t types = profile->sample_type_count;
	uint32_t stack = profile->samples[sample].stack;
	if (!stack || (choice->found[stack] & choice->asked) == choice->wanted)
		return true;
	sum_to(choice->filtered, profile->values[sample * types + types - 1]);
	return false;
}

static void drop_samples(const struct parca_filters *filters, struct profile *profile, const uint64_t *found,
			 int64_t *ret_filtered)
{
	struct choice choice = {.found = found, .filtered = ret_filtered};
	for (size_t i = 0; i < filters->count; i++) {
		choice.asked |= (uint64_t)filters->items[i].of_stack << i;
		choice.wanted |= (uint64_t)(filters->items[i].of_stack && !is_negative(&filters->items[i])) << i;
	}
	profile_filter_samples(profile, is_wanted, &choice);
}

static int check_cancel(const atomic_bool *cancel, struct error *err)
{
	return cancel_requested(cancel) ? error_set(err, -ECANCELED, "the client disconnected") : 0;
}

static int filter_stacks(const struct parca_filters *filters, struct profile *profile, const atomic_bool *cancel,
			 int64_t *ret_filtered, struct error *err)
{
	int r = 0;
	bool any = false;
	for (size_t i = 0; i < filters->count; i++)
		any |= filters->items[i].of_stack;
	if (!any)
		return 0;
	_cleanup_(mem_freep) uint64_t *at = mem_zalloc_array(profile->location_count, sizeof(*at));
	_cleanup_(mem_freep) uint64_t *found = mem_zalloc_array(profile->stack_count, sizeof(*found));
	if (!at || !found)
		return error_nomem(err);
	for (uint32_t i = 1; !r && i < profile->location_count; i++) {
		at[i] = found_at(filters, profile, i);
		r = check_cancel(cancel, err);
	}
	if (r < 0)
		return r;
	for (size_t i = 1; i < profile->stack_count; i++)
		found[i] = found[profile->stacks[i].parent] | at[profile->stacks[i].location];
	drop_samples(filters, profile, found, ret_filtered);
	return 0;
}

/* ---- frames ---- */

/* What becomes of stacks. */
struct rewrite {
	const struct parca_filters *filters;
	struct profile *profile;
	uint32_t *locations; /* by old location: the new one, 0 = gone, UNKNOWN = not decided */
	uint32_t *stacks;    /* by old stack, likewise */
	size_t old_stacks, old_locations;
	struct profile_line *lines; /* of one location */
	uint32_t *frames;	    /* of one stack, leaf first */
	size_t line_capacity, frame_capacity;
};

static void rewrite_release(struct rewrite *w)
{
	mem_free(w->locations);
	mem_free(w->stacks);
	mem_free(w->lines);
	mem_free(w->frames);
}

static int rewrite_init(struct rewrite *w, const struct parca_filters *filters, struct profile *profile, struct error *err)
{
	*w = (struct rewrite){.filters = filters,
			      .profile = profile,
			      .old_stacks = profile->stack_count,
			      .old_locations = profile->location_count};
	w->locations = mem_alloc_array(w->old_locations, sizeof(*w->locations));
	w->stacks = mem_alloc_array(w->old_stacks, sizeof(*w->stacks));
	if (!w->locations || !w->stacks)
		return error_nomem(err);
	memset(w->locations, 0xff, w->old_locations * sizeof(*w->locations));
	memset(w->stacks, 0xff, w->old_stacks * sizeof(*w->stacks));
	return 0;
}

static bool keeps(const struct parca_filters *filters, const struct profile *profile, uint32_t location,
		  const struct profile_line *line)
{
	for (size_t i = 0; i < filters->count; i++) {
		const struct parca_filter *filter = &filters->items[i];
		if (filter->of_stack)
			continue;
		int found = finds(filter, profile, location, line);
		if (found >= 0 && (found > 0) == is_negative(filter))
			return false;
	}
	return true;
}

/* A location with some of its lines only: [first, end), without those that filters take away. 0 = nothing is left. */
static int make_location(struct rewrite *w, uint32_t old, uint32_t first, uint32_t end, bool by_filters, uint32_t *ret,
			 struct error *err)
{
	struct profile *profile = w->profile;
	struct profile_location location = profile->locations[old];
	size_t count = 0;
	*ret = 0;
	if (array_reserve(&w->lines, &w->line_capacity, (size_t)location.line_count + 1, SIZE_MAX / 64) < 0)
		return error_nomem(err);
	for (uint32_t i = first; i < end; i++) {
		const struct profile_line *line = &profile->lines[location.line_first + i];
		if (!by_filters || keeps(w->filters, profile, old, line))
			w->lines[count++] = *line;
	}
	if (location.line_count ? count == 0 : by_filters && !keeps(w->filters, profile, old, NULL))
		return 0;
	/* The innermost comes first, and is the outermost of an inverted stack. */
	for (size_t i = 0; !by_filters && w->filters->invert && i < count / 2; i++) {
		struct profile_line other = w->lines[i];
		w->lines[i] = w->lines[count - 1 - i];
		w->lines[count - 1 - i] = other;
	}
	return profile_add_location(profile, &location, w->lines, count, ret, err);
}

static int take_stack(struct rewrite *w, uint32_t stack, size_t *ret_count, struct error *err)
{
	size_t depth = profile_stack_depth(w->profile, stack);
	if (array_reserve(&w->frames, &w->frame_capacity, depth + 1, SIZE_MAX / 64) < 0)
		return error_nomem(err);
	*ret_count = profile_stack_locations(w->profile, stack, w->frames, depth);
	return 0;
}

/* A location as it is, of a stack that filters shorten. */
static int filter_location(struct rewrite *w, uint32_t old, uint32_t *ret, struct error *err)
{
	int r = 0;
	if (w->locations[old] == UNKNOWN)
		r = make_location(w, old, 0, w->profile->locations[old].line_count, true, &w->locations[old], err);
	*ret = r < 0 ? 0 : w->locations[old];
	return r;
}

/* Those of samples, and their callers; 0 is what becomes of the empty stack. */
static void mark_used(struct rewrite *w)
{
	for (size_t i = 0; i < w->profile->sample_count; i++)
		w->stacks[w->profile->samples[i].stack] = 0;
	for (size_t i = w->old_stacks; i-- > 1;)
		if (w->stacks[i] == 0)
			w->stacks[w->profile->stacks[i].parent] = 0;
	w->stacks[0] = 0;
}

/* Stack by stack, callers first: a stack's new parent is what became of its parent. */
static int filter_frames(const struct parca_filters *filters, struct profile *profile, const atomic_bool *cancel,
			 struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite w = {0};
	bool any = false;
	for (size_t i = 0; i < filters->count; i++)
		any |= !filters->items[i].of_stack;
	int r = any ? rewrite_init(&w, filters, profile, err) : 0;
	if (!any || r < 0)
		return r;
	mark_used(&w);
	for (size_t i = 1; !r && i < w.old_stacks; i++) {
		struct profile_stack stack = profile->stacks[i];
		uint32_t location;
		if (w.stacks[i] == UNKNOWN)
			continue;
		r = check_cancel(cancel, err);
		if (!r)
			r = filter_location(&w, stack.location, &location, err);
		w.stacks[i] = w.stacks[stack.parent];
		if (!r && location)
			r = profile_add_stack(profile, w.stacks[stack.parent], location, &w.stacks[i], err);
	}
	for (size_t i = 0; !r && i < profile->sample_count; i++)
		profile->samples[i].stack = w.stacks[profile->samples[i].stack];
	return r;
}

/* ---- sandwiched and inverted ---- */

/* The line of that function, from the leaf's side or the root's; UNKNOWN = it is not there. */
static uint32_t find_line(const struct profile *profile, uint32_t location, struct bytes name, bool from_root)
{
	const struct profile_location *at = &profile->locations[location];
	for (uint32_t i = 0; i < at->line_count; i++) {
		uint32_t which = from_root ? at->line_count - 1 - i : i;
		uint32_t function = profile->lines[at->line_first + which].function;
		if (bytes_equal(profile_string_bytes(profile, profile->functions[function].name), name))
			return which;
	}
	return UNKNOWN;
}

/* Cuts w->frames at the function nearest to the leaf or, inverted, to the root; the location where it is gets fewer lines. */
static int cut_stack(struct rewrite *w, size_t *count, struct error *err)
{
	struct bytes name = bytes_of_string(w->filters->sandwich);
	bool invert = w->filters->invert;
	for (size_t i = 0; i < *count; i++) {
		size_t at = invert ? *count - 1 - i : i;
		uint32_t old = w->frames[at], line = find_line(w->profile, old, name, invert);
		if (line == UNKNOWN)
			continue;
		uint32_t end = w->profile->locations[old].line_count;
		int r = make_location(w, old, invert ? line : 0, invert ? end : line + 1, false, &w->frames[at], err);
		if (invert)
			memmove(w->frames, w->frames + at, (*count - at) * sizeof(*w->frames));
		*count = invert ? *count - at : at + 1;
		return r;
	}
	*count = 0;
	return 0;
}

/* All but the frame that cut_stack() made anew. */
static int invert_frames(struct rewrite *w, size_t count, struct error *err)
{
	int r = 0;
	for (size_t i = 0; !r && i < count; i++) {
		uint32_t old = w->frames[i];
		if (i == 0 && *w->filters->sandwich)
			continue;
		if (w->locations[old] == UNKNOWN)
			r = make_location(w, old, 0, w->profile->locations[old].line_count, false, &w->locations[old], err);
		w->frames[i] = r < 0 ? 0 : w->locations[old];
	}
	for (size_t i = 0; i < count / 2; i++) {
		uint32_t other = w->frames[i];
		w->frames[i] = w->frames[count - 1 - i];
		w->frames[count - 1 - i] = other;
	}
	return r;
}

static int turn_stack(struct rewrite *w, uint32_t stack, uint32_t *ret, struct error *err)
{
	size_t count = 0;
	int r = take_stack(w, stack, &count, err);
	if (!r && *w->filters->sandwich)
		r = cut_stack(w, &count, err);
	if (!r && w->filters->invert)
		r = invert_frames(w, count, err);
	return r < 0 ? r : profile_add_stack_leaf_first(w->profile, w->frames, count, ret, err);
}

static int turn_stacks(const struct parca_filters *filters, struct profile *profile, const atomic_bool *cancel,
		       struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite w = {0};
	if (!*filters->sandwich && !filters->invert)
		return 0;
	int r = rewrite_init(&w, filters, profile, err);
	for (size_t i = 0; !r && i < profile->sample_count; i++) {
		uint32_t old = profile->samples[i].stack;
		r = check_cancel(cancel, err);
		if (!r && w.stacks[old] == UNKNOWN)
			r = turn_stack(&w, old, &w.stacks[old], err);
		profile->samples[i].stack = r < 0 ? 0 : w.stacks[old];
	}
	return r;
}

int parca_filters_apply(const struct parca_filters *filters, struct profile *profile, const atomic_bool *cancel,
			int64_t *ret_filtered, struct error *err)
{
	*ret_filtered = 0;
	int r = turn_stacks(filters, profile, cancel, err);
	if (!r)
		r = filter_stacks(filters, profile, cancel, ret_filtered, err);
	return r < 0 ? r : filter_frames(filters, profile, cancel, err);
}
