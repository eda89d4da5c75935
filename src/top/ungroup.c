/* SPDX-License-Identifier: Apache-2.0 */
#include "top/ungroup.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "profile/merge.h"

const struct top_group top_groups[TOP_GROUPS] = {
	{"process_executable_name", "process.executable.name"},
	{"host_name", "host.name"},
	{"process_comm", "process.comm"},
	{"process_pid", "process.pid"},
	{"thread_name", "thread.name"},
};

struct ungrouping {
	const struct profile *from;
	struct profile *to;
	struct profile_copy *copy;
	uint32_t *locations; /* of one stack */
	size_t capacity;
};

/* "process_pid=42" -> its group, and "42"; NULL = the frame is none. */
static const struct top_group *find_group(const struct profile *profile, uint32_t location, const char **ret_value)
{
	const struct profile_location *at = &profile->locations[location];
	if (at->line_count != 1)
		return NULL;
	const char *name = profile_string(profile, profile->functions[profile->lines[at->line_first].function].name);
	for (size_t i = 0; i < TOP_GROUPS; i++) {
		size_t len = strlen(top_groups[i].name);
		if (strncmp(name, top_groups[i].name, len) != 0 || name[len] != '=')
			continue;
		*ret_value = name + len + 1;
		return &top_groups[i];
	}
	return NULL;
}

static int add_label(struct profile *to, const struct top_group *group, const char *value, struct profile_label *labels,
		     size_t *count, struct error *err)
{
	struct profile_label *label = &labels[*count];
	*label = (struct profile_label){0};
	if (!*value)
		return 0;
	int r = profile_add_cstring(to, group->label, &label->key, err);
	if (r == 0)
		r = profile_add_cstring(to, value, &label->value, err);
	*count += r == 0;
	return r;
}

static int ungroup_sample(struct ungrouping *ungrouping, size_t at, struct error *err)
{
	const struct profile *from = ungrouping->from;
	const struct profile_sample *sample = &from->samples[at];
	struct profile_sample result = {0};
	struct profile_label labels[TOP_GROUPS];
	size_t label_count = 0, depth = profile_stack_depth(from, sample->stack);
	const struct top_group *group;
	const char *value;
	if (array_reserve(&ungrouping->locations, &ungrouping->capacity, depth + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	profile_stack_locations(from, sample->stack, ungrouping->locations, depth);
	int r = 0;
	while (r == 0 && depth && label_count < TOP_GROUPS &&
	       (group = find_group(from, ungrouping->locations[depth - 1], &value))) {
		r = add_label(ungrouping->to, group, value, labels, &label_count, err);
		depth--;
	}
	for (size_t i = 0; i < depth && r == 0; i++)
		r = profile_copy_location(ungrouping->copy, ungrouping->locations[i], &ungrouping->locations[i], err);
	if (r == 0)
		r = profile_add_label_set(ungrouping->to, labels, label_count, &result.labels, err);
	if (r == 0)
		r = profile_add_stack_leaf_first(ungrouping->to, ungrouping->locations, depth, &result.stack, err);
	return r < 0 ? r : profile_add_sample(ungrouping->to, &result, from->values + at * from->sample_type_count, err);
}

int top_ungroup(const struct profile *from, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *to = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	struct ungrouping ungrouping = {.from = from};
	int r = profile_new(&to, err);
	if (r == 0)
		r = profile_copy_new(to, from, &copy, err);
	if (r == 0)
		r = profile_copy_sample_types(copy, err);
	if (r == 0)
		r = profile_copy_times(copy, err);
	ungrouping.to = to;
	ungrouping.copy = copy;
	for (size_t i = 0; i < from->sample_count && r == 0; i++)
		r = ungroup_sample(&ungrouping, i, err);
	mem_free(ungrouping.locations);
	if (r < 0)
		return r;
	*ret = TAKE(to);
	return 0;
}
