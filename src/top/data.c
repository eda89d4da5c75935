/* SPDX-License-Identifier: Apache-2.0 */
#include "top/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "profile/filter.h"
#include "profile/interpreters.h"
#include "profile/merge.h"

void top_data_release(struct top_data *data)
{
	data->profile = NULL;
	data->copy = profile_free(data->copy);
	data->flame = flame_free(data->flame);
	data->places = mem_free(data->places);
	data->ends = mem_free(data->ends);
}

static bool is_kernel(const struct profile *profile, uint32_t location)
{
	const struct profile_location *at = &profile->locations[location];
	return at->frame_type == PROFILE_FRAME_KERNEL ||
	       (at->frame_type == PROFILE_FRAME_UNKNOWN &&
		bytes_start_with(profile_string_bytes(profile, profile->mappings[at->mapping].file_name), "[kernel"));
}

void top_count_cpu(const struct profile *snapshot, int64_t *ret_total, int64_t *ret_kernel)
{
	size_t types = snapshot->sample_type_count, type = types ? profile_default_sample_type(snapshot) : 0;
	*ret_total = *ret_kernel = 0;
	for (size_t i = 0; i < snapshot->sample_count; i++) {
		int64_t value = snapshot->values[i * types + type];
		sum_to(ret_total, value);
		if (is_kernel(snapshot, snapshot->stacks[snapshot->samples[i].stack].location))
			sum_to(ret_kernel, value);
	}
}

/* ---- samples ---- */

static const struct profile_label *find_in(const struct profile *profile, uint32_t set, const char *key)
{
	const struct profile_label *labels = &profile->labels[profile->label_sets[set].first];
	for (size_t i = 0; i < profile->label_sets[set].count; i++)
		if (strcmp(profile_string(profile, labels[i].key), key) == 0)
			return &labels[i];
	return NULL;
}

const struct profile_label *top_find_label(const struct profile *profile, uint32_t set, const char *key)
{
	return find_in(profile, set, key) ?: find_in(profile, profile->resource_labels, key);
}

static bool has_label(const struct profile *profile, size_t sample, const char *key, const char *value)
{
	const struct profile_label *label = top_find_label(profile, profile->samples[sample].labels, key);
	char number[24];
	if (!value)
		return true;
	if (!label)
		return false;
	snprintf(number, sizeof(number), "%" PRId64, label->number);
	return strcmp(label->value ? profile_string(profile, label->value) : number, value) == 0;
}

static bool is_chosen(const void *context, const struct profile *profile, size_t sample)
{
	const struct top_choice *choice = context;
	return has_label(profile, sample, "process.pid", choice->pid) && has_label(profile, sample, "thread.id", choice->tid) &&
	       has_label(profile, sample, "host.name", choice->host);
}

static bool is_not_empty(const void *context, const struct profile *profile, size_t sample)
{
	(void)context;
	return profile->samples[sample].stack != 0;
}

/* The kernel's frames are the innermost ones. What only the kernel does (its threads, interrupts) has no other. */
static int hide_kernel(struct profile *profile, struct error *err)
{
	_cleanup_(mem_freep) bool *kernel = mem_zalloc_array(profile->location_count, sizeof(*kernel));
	if (!kernel)
		return error_nomem(err);
	for (uint32_t i = 1; i < profile->location_count; i++)
		kernel[i] = is_kernel(profile, i);
	for (size_t i = 0; i < profile->sample_count; i++) {
		uint32_t stack = profile->samples[i].stack;
		while (stack && kernel[profile->stacks[stack].location])
			stack = profile->stacks[stack].parent;
		profile->samples[i].stack = stack;
	}
	profile_filter_samples(profile, is_not_empty, NULL);
	return 0;
}

static bool has_interpreted_frames(const struct profile *profile)
{
	for (size_t i = 1; i < profile->location_count; i++)
		if (profile->locations[i].frame_type == PROFILE_FRAME_INTERPRETED)
			return true;
	return false;
}

static bool is_everything(const struct profile *snapshot, const struct top_choice *choice)
{
	return !choice->pid && !choice->tid && !choice->host && !choice->hides_kernel &&
	       (choice->shows_interpreters || !has_interpreted_frames(snapshot)) && snapshot->sample_type_count > 0;
}

static int choose(const struct profile *snapshot, const struct top_choice *choice, struct profile **ret, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	bool changed;
	int r = profile_new(&profile, err);
	if (r == 0)
		r = profile_merge(profile, snapshot, true, err);
	if (r == 0 && profile->sample_type_count == 0)
		r = profile_add_named_type(profile, "cpu", "nanoseconds", err);
	if (r < 0)
		return r;
	if (choice->pid || choice->tid || choice->host)
		profile_filter_samples(profile, is_chosen, choice);
	if (!choice->shows_interpreters)
		r = profile_hide_interpreters(profile, &changed, err);
	if (r == 0 && choice->hides_kernel)
		r = hide_kernel(profile, err);
	if (r < 0)
		return r;
	*ret = TAKE(profile);
	return 0;
}

/* ---- the tree ---- */

static void find_ends(const struct flame *flame, uint32_t *ends)
{
	for (size_t i = flame->count; i-- > 0;) {
		ends[i] = ends[i] ? ends[i] : (uint32_t)i + 1;
		uint32_t parent = flame->nodes[i].parent;
		if (i && ends[i] > ends[parent])
			ends[parent] = ends[i];
	}
}

int top_data_build(const struct profile *snapshot, const struct top_choice *choice, struct top_data *ret, struct error *err)
{
	_cleanup_(top_data_release) struct top_data data = {.profile = snapshot};
	int r = is_everything(snapshot, choice) ? 0 : choose(snapshot, choice, &data.copy, err);
	if (r < 0)
		return r;
	data.profile = data.copy ? data.copy : snapshot;
	data.value = profile_default_sample_type(data.profile);
	data.places = mem_zalloc_array(data.profile->stack_count, sizeof(*data.places));
	if (!data.places)
		return error_nomem(err);
	r = flame_build_placed(data.profile, data.value, FLAME_UNNAMED_BY_BINARY, 0, data.places, &data.flame, err);
	if (r < 0)
		return r;
	data.ends = mem_zalloc_array(data.flame->count, sizeof(*data.ends));
	if (!data.ends)
		return error_nomem(err);
	find_ends(data.flame, data.ends);
	*ret = data;
	data = (struct top_data){0};
	return 0;
}
