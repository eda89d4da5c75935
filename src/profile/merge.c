/* SPDX-License-Identifier: Apache-2.0 */
/* Merging whole profiles. The semantics are those of google/pprof's Merge except that a location's identity takes in every line
 * of it, so that inlined frames that differ only in an inner column stay apart, and that resource labels and links exist. */
#include "profile/merge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "profile/profile_int.h"

/* ---- headers ---- */

static bool strings_equal(const struct profile *a, uint32_t a_id, const struct profile *b, uint32_t b_id)
{
	return bytes_equal(profile_string_bytes(a, a_id), profile_string_bytes(b, b_id));
}

static bool value_types_equal(const struct profile *a, struct profile_value_type a_type, const struct profile *b,
			      struct profile_value_type b_type)
{
	return strings_equal(a, a_type.type, b, b_type.type) && strings_equal(a, a_type.unit, b, b_type.unit);
}

static int refuse_types(const struct profile *to, struct profile_value_type to_type, const struct profile *from,
			struct profile_value_type from_type, const char *what, struct error *err)
{
	return error_set(err, -EINVAL,
			 "profiles of different kinds cannot be merged: %s is %.64s/%.32s in one and %.64s/%.32s in "
			 "the other",
			 what, profile_string(to, to_type.type), profile_string(to, to_type.unit),
			 profile_string(from, from_type.type), profile_string(from, from_type.unit));
}

static int check_types(const struct profile *to, const struct profile *from, struct error *err)
{
	if (to->sample_type_count != from->sample_type_count)
		return error_set(err, -EINVAL,
				 "profiles of different kinds cannot be merged: %zu sample types in one and %zu in the "
				 "other",
				 to->sample_type_count, from->sample_type_count);
	for (size_t i = 0; i < to->sample_type_count; i++) {
		char what[64];
		snprintf(what, sizeof(what), "sample type %zu", i + 1);
		if (!value_types_equal(to, to->sample_types[i], from, from->sample_types[i]))
			return refuse_types(to, to->sample_types[i], from, from->sample_types[i], what, err);
	}
	if (!value_types_equal(to, to->period_type, from, from->period_type))
		return refuse_types(to, to->period_type, from, from->period_type, "the period type", err);
	return 0;
}

/* What an empty profile takes over. */
static int copy_headers(struct profile *to, const struct profile *from, struct profile_copy *copy, struct error *err)
{
	struct profile_value_type period = from->period_type;
	uint32_t drop = from->drop_frames, keep = from->keep_frames;
	int r = PROFILE_COPY_STRINGS(copy, err, &period.type, &period.unit, &drop, &keep);
	if (r == 0)
		r = profile_copy_label_set(copy, from->resource_labels, &to->resource_labels, err);
	if (r < 0)
		return r;
	to->period_type = period;
	to->drop_frames = drop;
	to->keep_frames = keep;
	return profile_copy_sample_types(copy, err);
}

int profile_unite_comments(struct profile *to, const struct profile *from, struct profile_copy *copy, struct error *err)
{
	if (from->comment_count == 0)
		return 0;
	for (size_t i = 0; i < from->comment_count; i++) {
		uint32_t id;
		int r = profile_copy_string(copy, from->comments[i], &id, err);
		if (r < 0)
			return r;
	}
	_cleanup_(mem_freep) bool *known = mem_zalloc_array(to->strings.count, sizeof(*known));
	if (!known)
		return error_nomem(err);
	for (size_t i = 0; i < to->comment_count; i++)
		known[to->comments[i]] = true;
	for (size_t i = 0; i < from->comment_count; i++) {
		uint32_t id;
		int r = profile_copy_string(copy, from->comments[i], &id, err);
		if (r == 0 && !known[id])
			r = profile_add_comment(to, id, err);
		if (r < 0)
			return r;
		known[id] = true;
	}
	return 0;
}

/* Two machines, or two starts of one, have no such clock in common. */
static void combine_monotonic(struct profile *to, const struct profile *from)
{
	bool has_to = to->time_ns != 0, has_from = from->time_ns != 0;
	int64_t first = has_to ? to->time_ns - to->monotonic_ns : 0, second = has_from ? from->time_ns - from->monotonic_ns : 0,
		apart;
	if (!has_from)
		return;
	if (!has_to)
		to->monotonic_ns = from->monotonic_ns;
	else if (!to->monotonic_ns || !from->monotonic_ns || __builtin_sub_overflow(first, second, &apart) ||
		 apart > NS_PER_S || apart < -NS_PER_S)
		to->monotonic_ns = 0;
	else if (from->time_ns < to->time_ns)
		to->monotonic_ns = from->monotonic_ns;
}

static int combine_headers(struct profile *to, const struct profile *from, struct profile_copy *copy, struct error *err)
{
	int r = 0;
	if (!to->default_sample_type)
		r = profile_copy_string(copy, from->default_sample_type, &to->default_sample_type, err);
	if (r == 0 && !to->doc_url)
		r = profile_copy_string(copy, from->doc_url, &to->doc_url, err);
	if (r == 0)
		r = profile_unite_comments(to, from, copy, err);
	if (r < 0)
		return r;
	if (from->period > to->period)
		to->period = from->period;
	combine_monotonic(to, from);
	if (from->time_ns != 0 && (to->time_ns == 0 || from->time_ns < to->time_ns))
		to->time_ns = from->time_ns;
	if (__builtin_add_overflow(to->duration_ns, from->duration_ns, &to->duration_ns))
		to->duration_ns = from->duration_ns > 0 ? INT64_MAX : INT64_MIN;
	return 0;
}

/* ---- resource labels that move into samples ---- */

/* Extends label sets by the labels of `extra` whose keys they lack; remembers the answer for each set. */
struct extension {
	struct profile *profile;
	struct profile_label *extra;
	size_t extra_count;
	uint32_t *sets; /* by id, plus one; 0 = not known yet */
	size_t set_capacity;
	struct profile_label *scratch;
	size_t scratch_capacity;
};

static void extension_release(struct extension *extension)
{
	extension->extra = mem_free(extension->extra);
	extension->sets = mem_free(extension->sets);
	extension->scratch = mem_free(extension->scratch);
}

/* A key may have several values; they stay together. Finds those of the key at labels[*at] and moves *at behind them. */
static struct profile_label_set next_key(const struct profile *profile, const struct profile_label_set *set, uint32_t *at)
{
	uint32_t first = *at;
	while (*at < set->count && profile->labels[set->first + *at].key == profile->labels[set->first + first].key)
		++*at;
	return (struct profile_label_set){.first = set->first + first, .count = *at - first};
}

/* Whether a set holds the values of this key, and no others of it. */
static bool set_has_values(const struct profile *profile, uint32_t set_id, struct profile_label_set values)
{
	const struct profile_label_set *set = &profile->label_sets[set_id];
	for (uint32_t at = 0; at < set->count;) {
		struct profile_label_set have = next_key(profile, set, &at);
		if (profile->labels[have.first].key != profile->labels[values.first].key)
			continue;
		uint32_t same = 0;
		while (have.count == values.count && same < have.count &&
		       profile_labels_equal(&profile->labels[have.first + same], &profile->labels[values.first + same]))
			same++;
		return have.count == values.count && same == have.count;
	}
	return false;
}

/* Copies those labels of `set_id` whose keys have the same values in `other` (common), or have not. */
static size_t select_labels(const struct profile *profile, uint32_t set_id, uint32_t other, bool common,
			    struct profile_label *out)
{
	const struct profile_label_set *set = &profile->label_sets[set_id];
	size_t count = 0;
	for (uint32_t at = 0; at < set->count;) {
		struct profile_label_set values = next_key(profile, set, &at);
		if (set_has_values(profile, other, values) != common)
			continue;
		for (uint32_t i = 0; i < values.count; i++)
			out[count++] = profile->labels[values.first + i];
	}
	return count;
}

/* The extra labels are those of `set` that `other` lacks. */
static int extension_init(struct extension *extension, struct profile *profile, uint32_t set, uint32_t other, struct error *err)
{
	*extension = (struct extension){.profile = profile};
	const struct profile_label_set *from = &profile->label_sets[set];
	extension->extra = mem_alloc_array(from->count, sizeof(*extension->extra));
	if (!extension->extra)
		return error_nomem(err);
	extension->extra_count = select_labels(profile, set, other, false, extension->extra);
	return 0;
}

static int extend_new(struct extension *extension, uint32_t set_id, uint32_t *ret, struct error *err)
{
	struct profile *profile = extension->profile;
	struct profile_label_set set = profile->label_sets[set_id];
	size_t count = set.count, max = SIZE_MAX / sizeof(*extension->scratch);
	if (array_reserve(&extension->scratch, &extension->scratch_capacity, count + extension->extra_count, max) < 0)
		return error_nomem(err);
	if (count > 0)
		memcpy(extension->scratch, profile->labels + set.first, count * sizeof(*extension->scratch));
	for (size_t i = 0; i < extension->extra_count; i++)
		if (!profile_has_key(profile->labels + set.first, set.count, extension->extra[i].key))
			extension->scratch[count++] = extension->extra[i];
	return profile_add_label_set(profile, extension->scratch, count, ret, err);
}

static int extend(struct extension *extension, uint32_t set_id, uint32_t *ret, struct error *err)
{
	if (extension->extra_count == 0) {
		*ret = set_id;
		return 0;
	}
	if (set_id >= extension->set_capacity) {
		size_t old = extension->set_capacity;
		if (array_reserve(&extension->sets, &extension->set_capacity, set_id + 1, SIZE_MAX / sizeof(uint32_t)) < 0)
			return error_nomem(err);
		memset(extension->sets + old, 0, (extension->set_capacity - old) * sizeof(*extension->sets));
	}
	if (extension->sets[set_id] == 0) {
		uint32_t extended;
		int r = extend_new(extension, set_id, &extended, err);
		if (r < 0)
			return r;
		extension->sets[set_id] = extended + 1;
	}
	*ret = extension->sets[set_id] - 1;
	return 0;
}

static int common_labels(struct profile *profile, uint32_t a, uint32_t b, uint32_t *ret, struct error *err)
{
	const struct profile_label_set *set = &profile->label_sets[a];
	_cleanup_(mem_freep) struct profile_label *common = mem_alloc_array(set->count, sizeof(*common));
	if (!common)
		return error_nomem(err);
	size_t count = select_labels(profile, a, b, true, common);
	return profile_add_label_set(profile, common, count, ret, err);
}

/* Moves what is only in to's resource into to's samples, and prepares the same for the samples that will come. */
static int unite_resources(struct profile *to, uint32_t from_resource, struct extension *ret_incoming, struct error *err)
{
	uint32_t common;
	int r = common_labels(to, to->resource_labels, from_resource, &common, err);
	if (r < 0)
		return r;
	_cleanup_(extension_release) struct extension own = {0};
	r = extension_init(&own, to, to->resource_labels, common, err);
	if (r < 0)
		return r;
	/* Two passes: the first makes all sets, so that the second cannot fail halfway. */
	for (int pass = 0; pass < 2 && own.extra_count > 0; pass++) {
		for (size_t i = 0; i < to->sample_count; i++) {
			uint32_t set;
			r = extend(&own, to->samples[i].labels, &set, err);
			if (r < 0)
				return r;
			if (pass == 1)
				to->samples[i].labels = set;
		}
	}
	to->resource_labels = common;
	r = extension_init(ret_incoming, to, from_resource, common, err);
	if (r < 0 || own.extra_count == 0)
		return r;
	return profile_aggregate(to, err);
}

/* ---- samples ---- */

static int merge_samples(struct profile *to, const struct profile *from, struct profile_copy *copy, struct extension *extension,
			 bool drop_times, struct error *err)
{
	size_t types = from->sample_type_count;
	bool became_zero = false;
	for (size_t i = 0; i < from->sample_count; i++) {
		const struct profile_sample *sample = &from->samples[i];
		const int64_t *values = from->values + i * types;
		if (profile_values_are_zero(values, types))
			continue;
		struct profile_sample key = {.time_ns = drop_times ? 0 : sample->time_ns};
		int r = profile_copy_stack(copy, sample->stack, &key.stack, err);
		if (r == 0)
			r = profile_copy_label_set(copy, sample->labels, &key.labels, err);
		if (r == 0)
			r = extend(extension, key.labels, &key.labels, err);
		if (r == 0)
			r = profile_copy_link(copy, sample->link, &key.link, err);
		if (r == 0)
			r = profile_copy_label_set(copy, sample->numbers, &key.numbers, err);
		if (r == 0)
			r = profile_accumulate(to, &key, values, &became_zero, err);
		if (r < 0)
			return r;
	}
	return became_zero ? profile_aggregate(to, err) : 0;
}

static int drop_sample_times(struct profile *profile, struct error *err)
{
	for (size_t i = 0; i < profile->sample_count; i++)
		profile->samples[i].time_ns = 0;
	profile->index->samples_have_times = false;
	return profile_aggregate(profile, err);
}

int profile_merge(struct profile *to, const struct profile *from, bool drop_times, struct error *err)
{
	bool was_empty = to->sample_type_count == 0;
	int r = was_empty ? 0 : check_types(to, from, err);
	if (r < 0)
		return r;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	_cleanup_(extension_release) struct extension extension = {.profile = to};
	r = profile_copy_new(to, from, &copy, err);
	if (r < 0)
		return r;
	if (was_empty) {
		r = copy_headers(to, from, copy, err);
		uint32_t program;
		/* The first mapping is the program's, to readers; samples come in another order. */
		if (r == 0 && from->mapping_count > 1)
			r = profile_copy_mapping(copy, 1, &program, err);
		if (r < 0)
			return r;
	}
	r = combine_headers(to, from, copy, err);
	if (r == 0)
		r = drop_times && to->index->samples_have_times ? drop_sample_times(to, err) : profile_aggregate_new(to, err);
	if (r < 0)
		return r;
	uint32_t resource;
	r = profile_copy_label_set(copy, from->resource_labels, &resource, err);
	if (r == 0 && resource != to->resource_labels)
		r = unite_resources(to, resource, &extension, err);
	if (r == 0)
		r = profile_copy_markers(to, from, copy, err);
	return r < 0 ? r : merge_samples(to, from, copy, &extension, drop_times, err);
}
