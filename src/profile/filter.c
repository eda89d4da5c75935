/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/filter.h"

#include <string.h>

#include "base/alloc.h"
#include "profile/profile_int.h"

#define STACK_DROPPED UINT32_MAX

/* ---- names ---- */

/* One expression, and what it found: each function and mapping is looked at once. */
struct name_test {
	const struct profile *profile;
	const struct profile_matcher *matcher;
	bool *functions, *mappings;
};

static void name_test_release(struct name_test *test)
{
	mem_free(test->functions);
	mem_free(test->mappings);
}

static bool finds_string(const struct profile_matcher *matcher, const struct profile *profile, uint32_t string)
{
	return matcher->finds(matcher->context, profile_string_bytes(profile, string));
}

static int name_test_init(struct name_test *test, const struct profile *profile, const struct profile_matcher *matcher,
			  struct error *err)
{
	*test = (struct name_test){.profile = profile, .matcher = matcher};
	if (!matcher)
		return 0;
	test->functions = mem_zalloc_array(profile->function_count, sizeof(bool));
	test->mappings = mem_zalloc_array(profile->mapping_count, sizeof(bool));
	if (!test->functions || !test->mappings)
		return error_nomem(err);
	for (size_t i = 1; i < profile->function_count; i++)
		test->functions[i] = finds_string(matcher, profile, profile->functions[i].name) ||
				     finds_string(matcher, profile, profile->functions[i].file_name);
	for (size_t i = 1; i < profile->mapping_count; i++)
		test->mappings[i] = finds_string(matcher, profile, profile->mappings[i].file_name);
	return 0;
}

static bool test_location(const struct name_test *test, uint32_t location)
{
	const struct profile_location *entry = &test->profile->locations[location];
	for (uint32_t i = 0; i < entry->line_count; i++)
		if (test->functions[test->profile->lines[entry->line_first + i].function])
			return true;
	return test->mappings[entry->mapping];
}

/* The lines of one location while they are cut. */
struct line_list {
	struct profile_line *items;
	size_t count, capacity;
};

static void line_list_release(struct line_list *list)
{
	mem_free(list->items);
}

static int line_list_take(struct line_list *list, const struct profile *profile, uint32_t location, struct error *err)
{
	const struct profile_location *entry = &profile->locations[location];
	if (array_reserve(&list->items, &list->capacity, entry->line_count, UINT32_MAX) < 0)
		return error_nomem(err);
	list->count = entry->line_count;
	if (list->count)
		memcpy(list->items, &profile->lines[entry->line_first], list->count * sizeof(*list->items));
	return 0;
}

/* ---- stacks ---- */

/* Samples move to other stacks, to[stack], for the stacks that there were. */
static void move_samples(struct profile *profile, const uint32_t *to)
{
	size_t kept = 0;
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t stack = to[profile->samples[i].stack];
		if (stack == STACK_DROPPED)
			continue;
		profile_move_sample(profile, kept, i);
		profile->samples[kept++].stack = stack;
	}
	profile->sample_count = kept;
	profile_forget_sample_index(profile);
}

/* ---- focus, ignore, hide, show ---- */

enum location_verdict { LOCATION_NEUTRAL, LOCATION_FOCUSED, LOCATION_IGNORED };

struct names_work {
	struct profile *profile;
	struct name_test focus, ignore, hide, show;
	struct profile_names_found found;
	uint8_t *verdicts; /* by location */
	bool *hidden;	   /* by location */
	bool any_hidden;
	struct line_list lines;
};

static void names_work_release(struct names_work *work)
{
	name_test_release(&work->focus);
	name_test_release(&work->ignore);
	name_test_release(&work->hide);
	name_test_release(&work->show);
	mem_free(work->verdicts);
	mem_free(work->hidden);
	line_list_release(&work->lines);
}

static void cut_lines(struct line_list *lines, const struct name_test *test, bool mapping_matches, bool keep_matching)
{
	size_t kept = 0;
	if (mapping_matches) {
		lines->count = keep_matching ? lines->count : 0;
		return;
	}
	for (size_t i = 0; i < lines->count; i++) {
		uint32_t function = lines->items[i].function;
		if (function == 0 || test->functions[function] == keep_matching)
			lines->items[kept++] = lines->items[i];
	}
	lines->count = kept;
}

static int match_location(struct names_work *work, uint32_t id, struct error *err)
{
	uint32_t mapping = work->profile->locations[id].mapping;
	if (work->ignore.matcher && test_location(&work->ignore, id)) {
		work->found.ignore = true;
		work->verdicts[id] = LOCATION_IGNORED;
	} else if (!work->focus.matcher || test_location(&work->focus, id)) {
		work->found.focus = true;
		work->verdicts[id] = LOCATION_FOCUSED;
	}
	if (!work->hide.matcher && !work->show.matcher)
		return 0;
	int r = line_list_take(&work->lines, work->profile, id, err);
	if (r < 0)
		return r;
	size_t before = work->lines.count;
	if (work->hide.matcher && test_location(&work->hide, id)) {
		work->found.hide = true;
		cut_lines(&work->lines, &work->hide, work->hide.mappings[mapping], false);
		work->hidden[id] = work->lines.count == 0;
	}
	if (work->show.matcher) {
		cut_lines(&work->lines, &work->show, work->show.mappings[mapping], true);
		work->hidden[id] |= work->lines.count == 0;
		work->found.show |= work->lines.count > 0;
	}
	work->any_hidden |= work->hidden[id];
	if (work->lines.count == before || work->lines.count == 0)
		return 0;
	return profile_set_location_lines(work->profile, id, work->lines.items, work->lines.count, err);
}

/* Which stacks stay, and as what. */
static int match_stacks(struct names_work *work, struct error *err)
{
	struct profile *profile = work->profile;
	size_t count = profile->stack_count;
	_cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(profile->stack_count, sizeof(*to));
	_cleanup_(mem_freep) uint8_t *verdicts = mem_zalloc_array(count, 1);
	if (!to || !verdicts)
		return error_nomem(err);
	for (uint32_t i = 1; i < count; i++) {
		struct profile_stack stack = profile->stacks[i];
		uint8_t own = work->verdicts[stack.location], above = verdicts[stack.parent];
		verdicts[i] = above > own ? above : own;
		to[i] = i;
		if (!work->any_hidden)
			continue;
		if (work->hidden[stack.location]) {
			to[i] = to[stack.parent];
		} else if (to[stack.parent] != stack.parent) {
			int r = profile_add_stack(profile, to[stack.parent], stack.location, &to[i], err);
			if (r < 0)
				return r;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		if (verdicts[i] != LOCATION_FOCUSED || (work->any_hidden && to[i] == 0))
			to[i] = STACK_DROPPED;
	move_samples(profile, to);
	return 0;
}

int profile_filter_names(struct profile *profile, const struct profile_names_filter *filter, struct profile_names_found *ret,
			 struct error *err)
{
	*ret = (struct profile_names_found){0};
	if (!filter->focus && !filter->ignore && !filter->hide && !filter->show)
		return 0;
	_cleanup_(names_work_release) struct names_work work = {.profile = profile};
	int r = name_test_init(&work.focus, profile, filter->focus, err);
	if (r == 0)
		r = name_test_init(&work.ignore, profile, filter->ignore, err);
	if (r == 0)
		r = name_test_init(&work.hide, profile, filter->hide, err);
	if (r == 0)
		r = name_test_init(&work.show, profile, filter->show, err);
	if (r < 0)
		return r;
	work.verdicts = mem_zalloc_array(profile->location_count, 1);
	work.hidden = mem_zalloc_array(profile->location_count, sizeof(bool));
	if (!work.verdicts || !work.hidden)
		return error_nomem(err);
	for (uint32_t i = 1; i < profile->location_count && r == 0; i++)
		r = match_location(&work, i, err);
	if (r == 0)
		r = match_stacks(&work, err);
	*ret = work.found;
	return r;
}

/* ---- show_from, prune_from, drop_frames ---- */

int profile_filter_show_from(struct profile *profile, const struct profile_matcher *from, bool *ret_found, struct error *err)
{
	*ret_found = false;
	_cleanup_(name_test_release) struct name_test test = {0};
	_cleanup_(line_list_release) struct line_list lines = {0};
	size_t count = profile->stack_count;
	_cleanup_(mem_freep) bool *matches = mem_zalloc_array(profile->location_count, sizeof(bool));
	_cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(profile->stack_count, sizeof(*to));
	if (!matches || !to)
		return error_nomem(err);
	int r = name_test_init(&test, profile, from, err);
	for (uint32_t i = 1; i < profile->location_count && r == 0; i++) {
		matches[i] = test_location(&test, i);
		*ret_found |= matches[i];
		if (!matches[i] || test.mappings[profile->locations[i].mapping])
			continue;
		/* The callers that the highest match is inlined into go too. */
		r = line_list_take(&lines, profile, i, err);
		size_t before = lines.count;
		while (lines.count > 0 && !test.functions[lines.items[lines.count - 1].function])
			lines.count--;
		if (r == 0 && lines.count < before)
			r = profile_set_location_lines(profile, i, lines.items, lines.count, err);
	}
	to[0] = STACK_DROPPED;
	for (uint32_t i = 1; i < count && r == 0; i++) {
		struct profile_stack stack = profile->stacks[i];
		uint32_t parent = to[stack.parent];
		to[i] = STACK_DROPPED;
		if (parent == STACK_DROPPED && !matches[stack.location])
			continue;
		r = profile_add_stack(profile, parent == STACK_DROPPED ? 0 : parent, stack.location, &to[i], err);
	}
	if (r == 0)
		move_samples(profile, to);
	return r;
}

/* A function's name without its parameters: what expressions of these filters are held against. */
static struct bytes plain_name(struct bytes name)
{
	static const char anonymous[] = "(anonymous namespace)", call[] = "operator()";
	if (bytes_start_with(name, "."))
		name = bytes_skip(name, 1);
	for (size_t i = 0; i < name.len; i++) {
		if (bytes_start_with(bytes_skip(name, i), anonymous))
			i += sizeof(anonymous) - 2;
		else if (bytes_start_with(bytes_skip(name, i), call))
			i += sizeof(call) - 2;
		else if (name.data[i] == '(')
			return (struct bytes){name.data, i};
	}
	return name;
}

/* By function; to be freed. */
static bool *match_plain_names(const struct profile *profile, const struct profile_matcher *yes,
			       const struct profile_matcher *no)
{
	bool *matches = mem_zalloc_array(profile->function_count, sizeof(bool));
	for (size_t i = 1; matches && i < profile->function_count; i++) {
		struct bytes name = profile_string_bytes(profile, profile->functions[i].name);
		if (name.len == 0)
			continue;
		name = plain_name(name);
		matches[i] = yes->finds(yes->context, name) && !(no && no->finds(no->context, name));
	}
	return matches;
}

int profile_filter_prune_from(struct profile *profile, const struct profile_matcher *from, struct error *err)
{
	_cleanup_(line_list_release) struct line_list lines = {0};
	_cleanup_(mem_freep) bool *functions = match_plain_names(profile, from, NULL);
	_cleanup_(mem_freep) bool *matches = mem_zalloc_array(profile->location_count, sizeof(bool));
	_cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(profile->stack_count, sizeof(*to));
	if (!functions || !matches || !to)
		return error_nomem(err);
	int r = 0;
	for (uint32_t i = 1; i < profile->location_count && r == 0; i++) {
		r = line_list_take(&lines, profile, i, err);
		size_t skip = 0;
		while (skip < lines.count && !functions[lines.items[skip].function])
			skip++;
		matches[i] = skip < lines.count;
		if (r == 0 && matches[i] && skip > 0)
			r = profile_set_location_lines(profile, i, lines.items + skip, lines.count - skip, err);
	}
	/* to[]: the nearest stack, itself included, whose frame matches; 0 = none. */
	for (uint32_t i = 1; i < profile->stack_count; i++)
		to[i] = matches[profile->stacks[i].location] ? i : to[profile->stacks[i].parent];
	for (uint32_t i = 1; i < profile->stack_count; i++)
		to[i] = to[i] ? to[i] : i;
	if (r == 0)
		move_samples(profile, to);
	return r;
}

enum prune { PRUNE_NOTHING, PRUNE_BELOW, PRUNE_HERE };

/* What pruning does to a location: everything below goes, or it goes too. */
static int prune_location(struct profile *profile, uint32_t id, const bool *functions, struct line_list *lines, uint8_t *ret,
			  struct error *err)
{
	int r = line_list_take(lines, profile, id, err);
	size_t at = lines->count;
	while (at > 0 && !functions[lines->items[at - 1].function])
		at--;
	*ret = at == 0 ? PRUNE_NOTHING : at == lines->count ? PRUNE_HERE : PRUNE_BELOW;
	if (r == 0 && *ret == PRUNE_BELOW)
		r = profile_set_location_lines(profile, id, lines->items + at, lines->count - at, err);
	return r;
}

int profile_filter_prune(struct profile *profile, const struct profile_matcher *drop, const struct profile_matcher *keep,
			 struct error *err)
{
	_cleanup_(line_list_release) struct line_list lines = {0};
	_cleanup_(mem_freep) bool *functions = match_plain_names(profile, drop, keep);
	_cleanup_(mem_freep) uint8_t *prune = mem_zalloc_array(profile->location_count, 1);
	_cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(profile->stack_count, sizeof(*to));
	/* wanted: the frame or a caller is not one to be pruned, so pruning may begin; done: it began above. */
	_cleanup_(mem_freep) bool *wanted = mem_zalloc_array(profile->stack_count, sizeof(bool));
	_cleanup_(mem_freep) bool *done = mem_zalloc_array(profile->stack_count, sizeof(bool));
	if (!functions || !prune || !to || !wanted || !done)
		return error_nomem(err);
	int r = 0;
	for (uint32_t i = 1; i < profile->location_count && r == 0; i++)
		r = prune_location(profile, i, functions, &lines, &prune[i], err);
	for (uint32_t i = 1; i < profile->stack_count; i++) {
		uint32_t parent = profile->stacks[i].parent;
		uint8_t here = prune[profile->stacks[i].location];
		bool begins = !done[parent] && wanted[parent] && here != PRUNE_NOTHING;
		wanted[i] = wanted[parent] || here == PRUNE_NOTHING;
		done[i] = done[parent] || begins;
		to[i] = done[parent] ? to[parent] : begins && here == PRUNE_HERE ? parent : i;
	}
	if (r == 0)
		move_samples(profile, to);
	return r;
}

/* ---- labels ---- */

void profile_filter_samples(struct profile *profile, bool (*keep)(const void *context, const struct profile *, size_t sample),
			    const void *context)
{
	size_t kept = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		if (keep(context, profile, i))
			profile_move_sample(profile, kept++, i);
	profile->sample_count = kept;
	profile_forget_sample_index(profile);
}

/* Gives each label set of the samples its successor: the labels that keep() wants, and one more if there is one. */
static int replace_label_sets(struct profile *profile, const bool *keys, uint32_t more_set, const struct profile_label *more,
			      struct error *err)
{
	size_t count = profile->label_set_count;
	_cleanup_(mem_freep) uint32_t *to = mem_zalloc_array(count, sizeof(*to));
	_cleanup_(mem_freep) struct profile_label *labels = NULL;
	size_t capacity = 0;
	if (!to)
		return error_nomem(err);
	for (uint32_t i = 0; i < count; i++) {
		size_t own = profile->label_sets[i].count, extra = profile->label_sets[more_set].count, kept = 0;
		if (array_reserve(&labels, &capacity, own + extra + 1, UINT32_MAX) < 0)
			return error_nomem(err);
		for (size_t k = 0; k < own; k++) {
			labels[kept] = profile->labels[profile->label_sets[i].first + k];
			kept += !keys || keys[labels[kept].key];
		}
		for (size_t k = 0, mine = kept; k < extra; k++) {
			struct profile_label label = profile->labels[profile->label_sets[more_set].first + k];
			if (!profile_has_key(labels, mine, label.key))
				labels[kept++] = label;
		}
		if (more)
			labels[kept++] = *more;
		int r = profile_add_label_set(profile, labels, kept, &to[i], err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].labels = to[profile->samples[i].labels];
	profile_forget_sample_index(profile);
	return 0;
}

int profile_filter_labels(struct profile *profile, const struct profile_matcher *show, const struct profile_matcher *hide,
			  struct profile_labels_found *ret, struct error *err)
{
	*ret = (struct profile_labels_found){0};
	if (!show && !hide)
		return 0;
	_cleanup_(mem_freep) bool *keys = mem_zalloc_array(profile->strings.count, sizeof(bool));
	_cleanup_(mem_freep) bool *known = mem_zalloc_array(profile->strings.count, sizeof(bool));
	if (!keys || !known)
		return error_nomem(err);
	for (size_t i = 0; i < profile->label_count; i++) {
		uint32_t key = profile->labels[i].key;
		if (known[key])
			continue;
		known[key] = true;
		bool shown = !show || finds_string(show, profile, key), hidden = hide && finds_string(hide, profile, key);
		ret->show |= shown;
		ret->hide |= hidden;
		keys[key] = shown && !hidden;
	}
	return replace_label_sets(profile, keys, 0, NULL, err);
}

int profile_set_label(struct profile *profile, const char *key, const char *value, struct error *err)
{
	struct profile_label label = {0};
	int r = profile_add_cstring(profile, key, &label.key, err);
	if (r == 0)
		r = profile_add_cstring(profile, value, &label.value, err);
	if (r < 0)
		return r;
	_cleanup_(mem_freep) bool *keys = mem_alloc_array(profile->strings.count, sizeof(bool));
	if (!keys)
		return error_nomem(err);
	memset(keys, true, profile->strings.count);
	keys[label.key] = false;
	return replace_label_sets(profile, keys, 0, &label, err);
}

int profile_spread_resource_labels(struct profile *profile, struct error *err)
{
	if (profile->resource_labels == 0)
		return 0;
	int r = replace_label_sets(profile, NULL, profile->resource_labels, NULL, err);
	if (r == 0)
		profile->resource_labels = 0;
	return r;
}
