/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans of Pyroscope's SDKs: they have no place of their own in pprof, so they come as labels of samples. otel-profiling-go and
 * those like it set span_id (16 hexadecimal digits), older SDKs the same as profile_id, some trace_id (32) besides. As labels
 * each would make a series of its own for what is never grouped by; as Pyroscope does, these three become the sample's link,
 * and one that is no such id is left out. The other labels that SDKs set (span_name) stay labels.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "server/ingest/ingest_int.h"

enum id_label { ID_NONE, ID_TRACE, ID_SPAN, ID_PROFILE };

static enum id_label id_label_of(const struct profile *profile, const struct profile_label *label)
{
	const char *key = label->value ? profile_string(profile, label->key) : "";
	return strcmp(key, "span_id") == 0	? ID_SPAN
	       : strcmp(key, "trace_id") == 0	? ID_TRACE
	       : strcmp(key, "profile_id") == 0 ? ID_PROFILE
						: ID_NONE;
}

/* Leaves *ret alone unless the text is an id of this size. */
static bool take_id(struct bytes text, uint8_t *ret, size_t size)
{
	_cleanup_(buffer_release) struct buffer id = {.max = 16};
	if (text.len != 2 * size || text_parse_hex(text, &id) < 0)
		return false;
	memcpy(ret, id.data, size);
	return true;
}

/* What a set is without these labels, and the link that they make. */
static int split_set(struct profile *profile, uint32_t at, uint32_t *ret_set, uint32_t *ret_link, struct error *err)
{
	struct profile_label_set set = profile->label_sets[at];
	struct profile_label kept[LIMIT_LABELS_PER_SERIES];
	struct profile_link link = {0};
	size_t count = 0, ids = 0;
	bool has_span = false;
	*ret_set = at;
	*ret_link = 0;
	for (uint32_t i = 0; i < set.count; i++)
		ids += id_label_of(profile, &profile->labels[set.first + i]) != ID_NONE;
	if (!ids || set.count - ids > LIMIT_LABELS_PER_SERIES) /* the store refuses so many */
		return 0;
	for (uint32_t i = 0; i < set.count; i++) {
		struct profile_label label = profile->labels[set.first + i];
		enum id_label kind = id_label_of(profile, &label);
		struct bytes text = profile_string_bytes(profile, label.value);
		if (kind == ID_NONE)
			kept[count++] = label;
		else if (kind == ID_TRACE)
			take_id(text, link.trace_id, sizeof(link.trace_id));
		else if (kind == ID_SPAN && !has_span)
			has_span = take_id(text, link.span_id, sizeof(link.span_id));
		else if (kind == ID_PROFILE && !has_span)
			take_id(text, link.span_id, sizeof(link.span_id));
	}
	int r = profile_add_label_set(profile, kept, count, ret_set, err);
	return r < 0 ? r : profile_add_link(profile, &link, ret_link, err);
}

int ingest_take_links(struct profile *profile, struct error *err)
{
	size_t count = profile->label_set_count;
	_cleanup_(mem_freep) uint32_t *sets = mem_zalloc_array(count, sizeof(*sets));
	_cleanup_(mem_freep) uint32_t *links = mem_zalloc_array(count, sizeof(*links));
	if (!sets || !links)
		return error_nomem(err);
	for (size_t i = 1; i < count; i++) {
		int r = split_set(profile, (uint32_t)i, &sets[i], &links[i], err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < profile->sample_count; i++) {
		struct profile_sample *sample = &profile->samples[i];
		sample->link = links[sample->labels] ? links[sample->labels] : sample->link;
		sample->labels = sets[sample->labels];
	}
	return 0;
}
