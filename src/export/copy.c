/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a profile as a profile of its own. */
#include <string.h>

#include "export/export_int.h"
#include "profile/labels.h"
#include "profile/merge.h"

static int copy_type(struct profile *to, const struct profile *from, struct profile_value_type type,
		     struct profile_value_type *ret, struct error *err)
{
	int r = profile_add_cstring(to, profile_string(from, type.type), &ret->type, err);
	return r < 0 ? r : profile_add_cstring(to, profile_string(from, type.unit), &ret->unit, err);
}

int export_start_profile(const struct profile *from, struct profile **ret, struct error *err)
{
	struct profile_value_type type;
	int r = profile_new(ret, err);
	for (size_t i = 0; i < from->sample_type_count && r == 0; i++) {
		r = copy_type(*ret, from, from->sample_types[i], &type, err);
		if (r == 0)
			r = profile_add_sample_type(*ret, type.type, type.unit, err);
	}
	if (r == 0)
		r = copy_type(*ret, from, from->period_type, &(*ret)->period_type, err);
	if (r < 0)
		return r;
	(*ret)->period = from->period;
	(*ret)->time_ns = from->time_ns;
	(*ret)->duration_ns = from->duration_ns;
	return 0;
}

/* The source's own labels win over those that are added, whatever their spelling. */
static int copy_resource(struct profile_copy *copy, struct profile *to, const struct profile *from, const struct labels *more,
			 struct error *err)
{
	struct profile_label labels[2 * LIMIT_LABELS_PER_SERIES];
	char name[LIMIT_LABEL_NAME_BYTES];
	uint32_t set;
	size_t count = 0;
	int r = profile_copy_label_set(copy, from->resource_labels, &set, err);
	for (uint32_t i = 0; r == 0 && i < to->label_sets[set].count && count < LIMIT_LABELS_PER_SERIES; i++)
		labels[count++] = to->labels[to->label_sets[set].first + i];
	size_t own = count;
	for (size_t i = 0; r == 0 && more && i < more->count && count < 2 * LIMIT_LABELS_PER_SERIES; i++) {
		bool known = false;
		for (size_t j = 0; j < own && !known; j++) {
			label_name_sanitize(profile_string_bytes(to, labels[j].key), name);
			known = strcmp(name, more->items[i].name) == 0;
		}
		if (known)
			continue;
		labels[count] = (struct profile_label){0};
		r = profile_add_cstring(to, more->items[i].name, &labels[count].key, err);
		if (r == 0)
			r = profile_add_cstring(to, more->items[i].value, &labels[count].value, err);
		count++;
	}
	return r < 0 ? r : profile_add_label_set(to, labels, count, &to->resource_labels, err);
}

int export_copy_profile(const struct profile *from, const bool *selected, const struct labels *more, struct profile **ret,
			struct error *err)
{
	_cleanup_(profile_freep) struct profile *to = NULL;
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = export_start_profile(from, &to, err);
	if (r == 0)
		r = profile_copy_new(to, from, &copy, err);
	if (r == 0)
		r = copy_resource(copy, to, from, more, err);
	if (r == 0)
		r = profile_copy_label_set(copy, from->host_labels, &to->host_labels, err);
	for (size_t i = 0; i < from->sample_count && r == 0; i++) {
		struct profile_sample sample = from->samples[i];
		if (selected && !selected[sample.labels])
			continue;
		r = profile_copy_stack(copy, sample.stack, &sample.stack, err);
		if (r == 0)
			r = profile_copy_label_set(copy, sample.labels, &sample.labels, err);
		if (r == 0)
			r = profile_copy_link(copy, sample.link, &sample.link, err);
		if (r == 0)
			r = profile_copy_label_set(copy, sample.numbers, &sample.numbers, err);
		if (r == 0)
			r = profile_add_sample(to, &sample, &from->values[i * from->sample_type_count], err);
	}
	copy = profile_copy_free(copy);
	if (r == 0)
		*ret = TAKE(to);
	return r;
}
