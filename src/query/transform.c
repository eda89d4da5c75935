/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting stacks.
 *
 * A profile's stacks are a trie in which parents come before children, so most rewritings are one pass over an array: what a
 * stack becomes depends on what its parent became (its new stack and a little state) and on the frames of its own location.
 * rewrite_stack() walks those frames from the outermost to the innermost and asks the operation about each: leave it out, keep
 * it, or put a frame with another name in its place. Frames of one location that are kept together stay one location, so that
 * inlining and addresses survive where nothing was changed.
 *
 * Callers turn stacks around, which no such pass can do; but all stacks with the same outermost frame that passes have the same
 * callers, so they are made once for each of those.
 */
#include "query/transform.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/text.h"
#include "profile/interpreters.h"
#include "profile/merge.h"

enum frame_action { FRAME_DROP, FRAME_KEEP, FRAME_NAME };

/* What a stack became. */
struct stack_state {
	uint32_t stack; /* in the new profile */
	uint32_t key;	/* of its last frame, what collapsing compares; 0 = none */
	bool started;	/* a frame that passes the filter was met */
};

/* One function of a location; index is -1 for a location without lines. */
struct place {
	uint32_t location;
	int index;
};

struct rewrite {
	const struct profile *from;
	struct profile *to;
	struct profile_copy *copy;
	struct frame_matcher *filter;
	uint8_t *line_passes, *location_passes; /* 0 not asked yet, 1 no, 2 yes */
	struct frame_line *lines;
	struct profile_line *subset; /* room for the lines of any location */
	struct stack_state *states;  /* by stack */
	enum transform_collapse how;
	bool needs_start; /* samples of stacks that did not start are left out */
	/* What to do with a frame; for FRAME_NAME *ret_name is a string of `from`'s or of `to`'s, see named_frame(). */
	enum frame_action (*act)(struct rewrite *rewrite, struct place frame, struct stack_state *state,
				 struct bytes *ret_name);
};

static void rewrite_release(struct rewrite *rewrite)
{
	profile_copy_free(rewrite->copy);
	profile_free(rewrite->to);
	mem_free(rewrite->line_passes);
	mem_free(rewrite->location_passes);
	mem_free(rewrite->lines);
	mem_free(rewrite->subset);
	mem_free(rewrite->states);
}

static int copy_head(struct rewrite *rewrite, struct error *err)
{
	int r = profile_copy_sample_types(rewrite->copy, err);
	if (!r)
		r = profile_copy_times(rewrite->copy, err);
	return r < 0 ? r
		     : profile_copy_string(rewrite->copy, rewrite->from->default_sample_type, &rewrite->to->default_sample_type,
					   err);
}

static int rewrite_init(struct rewrite *rewrite, const struct profile *from, struct error *err)
{
	uint32_t lines_max = 1;
	for (size_t i = 0; i < from->location_count; i++)
		if (from->locations[i].line_count > lines_max)
			lines_max = from->locations[i].line_count;
	rewrite->from = from;
	rewrite->line_passes = mem_zalloc_array(from->line_count, 1);
	rewrite->location_passes = mem_zalloc_array(from->location_count, 1);
	rewrite->lines = mem_alloc_array(lines_max, sizeof(*rewrite->lines));
	rewrite->subset = mem_alloc_array(lines_max, sizeof(*rewrite->subset));
	rewrite->states = mem_zalloc_array(from->stack_count, sizeof(*rewrite->states));
	if (!rewrite->line_passes || !rewrite->location_passes || !rewrite->lines || !rewrite->subset || !rewrite->states)
		return error_nomem(err);
	int r = profile_new(&rewrite->to, err);
	if (!r)
		r = profile_copy_new(rewrite->to, from, &rewrite->copy, err);
	return r < 0 ? r : copy_head(rewrite, err);
}

/* ---- asking about frames ---- */

/* Asks about all functions of a location at once. */
static void ask_location(struct rewrite *rewrite, uint32_t id)
{
	const struct profile_location *location = &rewrite->from->locations[id];
	struct frame frame;
	frame_of_location(rewrite->from, id, rewrite->lines, &frame);
	rewrite->location_passes[id] = location->line_count || !frame_matcher_test(rewrite->filter, &frame, NULL) ? 1 : 2;
	for (uint32_t i = 0; i < location->line_count; i++) {
		bool passes = frame_matcher_test(rewrite->filter, &frame, &rewrite->lines[i]);
		rewrite->line_passes[location->line_first + i] = passes ? 2 : 1;
	}
}

static bool frame_passes(struct rewrite *rewrite, struct place frame)
{
	if (!rewrite->location_passes[frame.location])
		ask_location(rewrite, frame.location);
	if (frame.index < 0)
		return rewrite->location_passes[frame.location] == 2;
	return rewrite->line_passes[rewrite->from->locations[frame.location].line_first + (uint32_t)frame.index] == 2;
}

static struct place innermost(const struct profile *profile, uint32_t location)
{
	return (struct place){location, profile->locations[location].line_count ? 0 : -1};
}

static struct place outermost(const struct profile *profile, uint32_t location)
{
	return (struct place){location, (int)profile->locations[location].line_count - 1};
}

/* ---- making frames ---- */

/* Lines [first, end) of a location as one more frame of *stack. */
static int push_lines(struct rewrite *rewrite, uint32_t id, uint32_t first, uint32_t end, uint32_t *stack, struct error *err)
{
	const struct profile_location *from = &rewrite->from->locations[id];
	uint32_t location;
	int r = profile_copy_location(rewrite->copy, id, &location, err);
	if (!r && end - first < from->line_count) {
		struct profile_location part = rewrite->to->locations[location];
		memcpy(rewrite->subset, rewrite->to->lines + part.line_first + first, (end - first) * sizeof(*rewrite->subset));
		r = profile_add_location(rewrite->to, &part, rewrite->subset, end - first, &location, err);
	}
	return r < 0 ? r : profile_add_stack(rewrite->to, *stack, location, stack, err);
}

/* A frame that is only a name; binary and kind are those of the location that it stands for. */
static int push_name(struct rewrite *rewrite, uint32_t like, struct bytes name, uint32_t *stack, struct error *err)
{
	struct profile_function function = {0};
	struct profile_line line = {0};
	struct profile_location location = {0};
	uint32_t id;
	int r = profile_add_string(rewrite->to, name.data, name.len, &function.name, err);
	/* A frame that stands for a file is in it: conditions on files hold for it as before. */
	if (rewrite->how == COLLAPSE_FILE)
		function.file_name = function.name;
	if (!r && like) {
		location.frame_type = rewrite->from->locations[like].frame_type;
		r = profile_copy_mapping(rewrite->copy, rewrite->from->locations[like].mapping, &location.mapping, err);
	}
	if (!r)
		r = profile_add_function(rewrite->to, &function, &line.function, err);
	if (!r)
		r = profile_add_location(rewrite->to, &location, &line, 1, &id, err);
	return r < 0 ? r : profile_add_stack(rewrite->to, *stack, id, stack, err);
}

static int rewrite_stack(struct rewrite *rewrite, uint32_t stack, struct error *err)
{
	const struct profile_stack *entry = &rewrite->from->stacks[stack];
	struct stack_state state = rewrite->states[entry->parent];
	int last = outermost(rewrite->from, entry->location).index, first = last < 0 ? -1 : 0, kept = 0, r = 0;
	for (int i = last; !r && i >= first; i--) {
		struct bytes name = {0};
		enum frame_action action = rewrite->act(rewrite, (struct place){entry->location, i}, &state, &name);
		if (action == FRAME_KEEP && i >= 0 && i > first) {
			kept++; /* more may follow: they are put down together */
			continue;
		}
		int end = i + 1 + kept;
		if (action == FRAME_KEEP)
			r = push_lines(rewrite, entry->location, i < 0 ? 0 : (uint32_t)i, i < 0 ? 0 : (uint32_t)end,
				       &state.stack, err);
		else if (kept)
			r = push_lines(rewrite, entry->location, (uint32_t)i + 1, (uint32_t)end, &state.stack, err);
		kept = 0;
		if (!r && action == FRAME_NAME)
			r = push_name(rewrite, entry->location, name, &state.stack, err);
	}
	rewrite->states[stack] = state;
	return r;
}

/* ---- from samples to samples ---- */

static int put_sample(struct rewrite *rewrite, size_t index, uint32_t stack, struct error *err)
{
	const struct profile_sample *from = &rewrite->from->samples[index];
	struct profile_sample sample = {.stack = stack, .time_ns = from->time_ns};
	int r = profile_copy_label_set(rewrite->copy, from->labels, &sample.labels, err);
	if (!r)
		r = profile_copy_label_set(rewrite->copy, from->numbers, &sample.numbers, err);
	return r < 0 ? r
		     : profile_add_sample(rewrite->to, &sample,
					  rewrite->from->values + index * rewrite->from->sample_type_count, err);
}

static int finish(struct rewrite *rewrite, struct profile **profile, struct error *err)
{
	int r = rewrite->filter ? frame_matcher_failure(rewrite->filter, err) : 0;
	if (!r)
		r = profile_aggregate(rewrite->to, err);
	if (r < 0)
		return r;
	profile_copy_free(rewrite->copy);
	rewrite->copy = NULL;
	profile_free(*profile);
	*profile = TAKE(rewrite->to);
	return 0;
}

static int rewrite_profile(struct rewrite *rewrite, struct profile **profile, struct error *err)
{
	int r = rewrite_init(rewrite, *profile, err);
	for (size_t i = 1; !r && i < rewrite->from->stack_count; i++)
		r = budget_poll() ? error_nomem(err) : rewrite_stack(rewrite, (uint32_t)i, err);
	for (size_t i = 0; !r && i < rewrite->from->sample_count; i++) {
		const struct stack_state *state = &rewrite->states[rewrite->from->samples[i].stack];
		if (!rewrite->needs_start || state->started)
			r = put_sample(rewrite, i, state->stack, err);
	}
	return r < 0 ? r : finish(rewrite, profile, err);
}

/* ---- operations ---- */

static enum frame_action act_hide(struct rewrite *rewrite, struct place frame, struct stack_state *state,
				  struct bytes *ret_name)
{
	return frame_passes(rewrite, frame) ? FRAME_DROP : FRAME_KEEP;
}

int transform_hide(struct profile **profile, struct frame_matcher *filter, struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite rewrite = {.filter = filter, .act = act_hide};
	return rewrite_profile(&rewrite, profile, err);
}

int transform_hide_interpreters(struct profile **profile, struct error *err)
{
	bool changed;
	int r = profile_hide_interpreters(*profile, &changed, err);
	return r < 0 || !changed ? r : profile_aggregate(*profile, err);
}

static enum frame_action act_callees(struct rewrite *rewrite, struct place frame, struct stack_state *state,
				     struct bytes *ret_name)
{
	state->started = state->started || frame_passes(rewrite, frame);
	return state->started ? FRAME_KEEP : FRAME_DROP;
}

int transform_callees(struct profile **profile, struct frame_matcher *filter, struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite rewrite = {.filter = filter, .act = act_callees, .needs_start = true};
	return rewrite_profile(&rewrite, profile, err);
}

/* Go has "path/package.Type.method", C++ and Rust "space::type::method", Java and others "a.b.Type.method". What stands behind
 * the first bracket is arguments. */
struct bytes function_package(struct bytes function)
{
	size_t end = 0, slash = 0, colons = 0, dot = 0;
	while (end < function.len && !memchr("(<[{ ", function.data[end], 5))
		end++;
	for (size_t i = 1; i < end; i++) {
		if (function.data[i] == '/') {
			slash = i;
			dot = 0;
		} else if (function.data[i] == ':' && i + 1 < function.len && function.data[i + 1] == ':') {
			colons = i++;
		} else if (function.data[i] == '.' && (!slash || !dot)) {
			dot = i; /* behind a slash the first, else the last */
		}
	}
	return (struct bytes){function.data, colons ? colons : dot};
}

static struct bytes collapse_name(struct rewrite *rewrite, struct place frame)
{
	const struct profile *profile = rewrite->from;
	const struct profile_location *location = &profile->locations[frame.location];
	struct bytes binary = text_binary_name(profile_string_bytes(profile, profile->mappings[location->mapping].file_name));
	if (rewrite->how == COLLAPSE_BINARY)
		return binary;
	if (frame.index < 0)
		return rewrite->how == COLLAPSE_PACKAGE ? binary : (struct bytes){0};
	const struct profile_line *line = &profile->lines[location->line_first + (uint32_t)frame.index];
	const struct profile_function *function = &profile->functions[line->function];
	if (rewrite->how == COLLAPSE_FILE)
		return profile_string_bytes(profile, function->file_name);
	struct bytes package = function_package(profile_string_bytes(profile, function->name));
	return package.len ? package : binary;
}

/* Frames whose name for collapsing is empty stay as they are. */
static enum frame_action act_collapse_named(struct rewrite *rewrite, struct place frame, struct stack_state *state,
					    struct bytes *ret_name)
{
	*ret_name = collapse_name(rewrite, frame);
	uint32_t key = 0;
	/* The name becomes a string of the new profile now: its number there is the key. */
	if (ret_name->len && profile_add_string(rewrite->to, ret_name->data, ret_name->len, &key, NULL) < 0)
		key = 0; /* no memory: adding the frame will say so */
	bool same = key && key == state->key;
	state->key = key;
	return same ? FRAME_DROP : ret_name->len ? FRAME_NAME : FRAME_KEEP;
}

static enum frame_action act_collapse(struct rewrite *rewrite, struct place frame, struct stack_state *state,
				      struct bytes *ret_name)
{
	const struct profile_location *location = &rewrite->from->locations[frame.location];
	uint32_t key = 0;
	if (rewrite->how == COLLAPSE_MATCHING)
		key = frame_passes(rewrite, frame);
	else if (frame.index >= 0)
		key = rewrite->from->lines[location->line_first + (uint32_t)frame.index].function;
	bool same = key && key == state->key;
	state->key = key;
	return same ? FRAME_DROP : FRAME_KEEP;
}

int transform_collapse(struct profile **profile, enum transform_collapse how, struct frame_matcher *filter, struct error *err)
{
	bool plain = how == COLLAPSE_MATCHING || how == COLLAPSE_RECURSION;
	_cleanup_(rewrite_release) struct rewrite rewrite = {
		.filter = filter, .how = how, .act = plain ? act_collapse : act_collapse_named};
	return rewrite_profile(&rewrite, profile, err);
}

/* ---- stacks that are not made from their parents ---- */

/* states[].started: the filter holds for the stack. */
static void match_stacks(struct rewrite *rewrite, enum store_where where)
{
	const struct profile *from = rewrite->from;
	for (size_t i = 1; i < from->stack_count && !budget_poll(); i++) {
		uint32_t parent = from->stacks[i].parent, location = from->stacks[i].location;
		bool passes = false;
		switch (where) {
		case STORE_LEAF: passes = frame_passes(rewrite, innermost(from, location)); break;
		case STORE_ROOT:
			passes = parent ? rewrite->states[parent].started : frame_passes(rewrite, outermost(from, location));
			break;
		case STORE_ANYWHERE:
			passes = rewrite->states[parent].started;
			for (int k = outermost(from, location).index, first = k < 0 ? -1 : 0; !passes && k >= first; k--)
				passes = frame_passes(rewrite, (struct place){location, k});
			break;
		}
		rewrite->states[i].started = passes;
	}
}

int transform_filter(struct profile **profile, struct frame_matcher *filter, enum store_where where, bool negate,
		     struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite rewrite = {.filter = filter};
	int r = rewrite_init(&rewrite, *profile, err);
	if (r < 0)
		return r;
	match_stacks(&rewrite, where);
	for (size_t i = 0; !r && i < rewrite.from->sample_count; i++) {
		uint32_t stack = rewrite.from->samples[i].stack;
		if (rewrite.states[stack].started == negate)
			continue;
		r = profile_copy_stack(rewrite.copy, stack, &stack, err);
		if (!r)
			r = put_sample(&rewrite, i, stack, err);
	}
	return r < 0 ? r : finish(&rewrite, profile, err);
}

/* The stack of callers of the outermost frame that passes in `stack`, whose location has it. */
static int make_callers(struct rewrite *rewrite, uint32_t stack, uint32_t *ret, struct error *err)
{
	const struct profile *from = rewrite->from;
	uint32_t location = from->stacks[stack].location;
	int at = outermost(from, location).index, r = 0;
	while (at > 0 && !frame_passes(rewrite, (struct place){location, at}))
		at--;
	*ret = 0;
	for (; !r && stack; stack = from->stacks[stack].parent) {
		location = from->stacks[stack].location;
		int end = outermost(from, location).index;
		if (end < 0)
			r = push_lines(rewrite, location, 0, 0, ret, err);
		for (int i = at < 0 ? 0 : at; !r && i <= end; i++)
			r = push_lines(rewrite, location, (uint32_t)i, (uint32_t)i + 1, ret, err);
		at = 0;
	}
	return r;
}

/* states[].key: the stack of the outermost location with a frame that passes. */
static void find_outermost(struct rewrite *rewrite)
{
	const struct profile *from = rewrite->from;
	for (size_t i = 1; i < from->stack_count && !budget_poll(); i++) {
		uint32_t location = from->stacks[i].location, key = rewrite->states[from->stacks[i].parent].key;
		for (int k = outermost(from, location).index, first = k < 0 ? -1 : 0; !key && k >= first; k--)
			if (frame_passes(rewrite, (struct place){location, k}))
				key = (uint32_t)i;
		rewrite->states[i].key = key;
	}
}

int transform_callers(struct profile **profile, struct frame_matcher *filter, struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite rewrite = {.filter = filter};
	int r = rewrite_init(&rewrite, *profile, err);
	if (r < 0)
		return r;
	find_outermost(&rewrite);
	for (size_t i = 0; !r && i < rewrite.from->sample_count; i++) {
		uint32_t key = rewrite.states[rewrite.from->samples[i].stack].key;
		if (!key)
			continue;
		if (!rewrite.states[key].stack)
			r = make_callers(&rewrite, key, &rewrite.states[key].stack, err);
		if (!r)
			r = put_sample(&rewrite, i, rewrite.states[key].stack, err);
	}
	return r < 0 ? r : finish(&rewrite, profile, err);
}

/* ---- labels as frames ---- */

struct label_frames {
	struct rewrite *rewrite;
	const char *const *by;
	size_t by_count;
	struct map64 stacks; /* label set << 32 | stack -> stack of the new profile */
	uint32_t *path;
};

static int label_root(struct label_frames *frames, uint32_t label_set, uint32_t *ret, struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_LABEL_NAME_BYTES + LIMIT_LABEL_VALUE_BYTES + 2};
	int r = 0;
	*ret = 0;
	for (size_t i = 0; !r && i < frames->by_count; i++) {
		const char *value = profile_label_value(frames->rewrite->from, label_set, frames->by[i]);
		buffer_clear(&text);
		if (buffer_printf(&text, "%s=%s", frames->by[i], value ? value : "") < 0)
			return error_nomem(err);
		r = push_name(frames->rewrite, 0, buffer_bytes(&text), ret, err);
	}
	return r;
}

static int label_stack(struct label_frames *frames, uint32_t label_set, uint32_t stack, uint32_t *ret, struct error *err)
{
	const struct profile *from = frames->rewrite->from;
	uint64_t high = (uint64_t)label_set << 32, known;
	size_t depth = 0;
	int r = 0;
	while (!map64_get(&frames->stacks, high | stack, &known)) {
		if (depth == LIMIT_STACK_DEPTH)
			return error_set(err, -E2BIG, "query: a stack has more than %d frames", LIMIT_STACK_DEPTH);
		if (stack) {
			frames->path[depth++] = stack;
			stack = from->stacks[stack].parent;
			continue;
		}
		r = label_root(frames, label_set, ret, err);
		if (r < 0)
			return r;
		known = *ret;
		if (map64_put(&frames->stacks, high, known) < 0)
			return error_nomem(err);
		break;
	}
	*ret = (uint32_t)known;
	while (!r && depth > 0) {
		uint32_t id = frames->path[--depth], location;
		r = profile_copy_location(frames->rewrite->copy, from->stacks[id].location, &location, err);
		if (!r)
			r = profile_add_stack(frames->rewrite->to, *ret, location, ret, err);
		if (!r && map64_put(&frames->stacks, high | id, *ret) < 0)
			r = error_nomem(err);
	}
	return r;
}

int transform_label_frames(struct profile **profile, const char *const *by, size_t by_count, struct error *err)
{
	_cleanup_(rewrite_release) struct rewrite rewrite = {0};
	struct label_frames frames = {.rewrite = &rewrite, .by = by, .by_count = by_count};
	frames.path = mem_alloc_array(LIMIT_STACK_DEPTH, sizeof(*frames.path));
	int r = frames.path ? rewrite_init(&rewrite, *profile, err) : error_nomem(err);
	for (size_t i = 0; !r && i < rewrite.from->sample_count; i++) {
		const struct profile_sample *sample = &rewrite.from->samples[i];
		uint32_t stack;
		r = label_stack(&frames, sample->labels, sample->stack, &stack, err);
		if (!r)
			r = put_sample(&rewrite, i, stack, err);
	}
	map64_release(&frames.stacks);
	mem_free(frames.path);
	return r < 0 ? r : finish(&rewrite, profile, err);
}
