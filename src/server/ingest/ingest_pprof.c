/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pprof of Pyroscope's clients, pushed or scraped, becomes what their own server makes of it: series of the same labels,
 * types of the same names (pkg/model/pprofsplit and pkg/validation/relabeling.go of github.com/grafana/pyroscope).
 *
 * Spans have no place of their own in pprof, so they come as labels of samples. otel-profiling-go and those like it set span_id
 * (16 hexadecimal digits), older SDKs the same as profile_id, some trace_id (32) besides. As labels each would make a series of
 * its own for what is never grouped by; these three become the sample's link, and one that is no such id is left out.
 *
 * Numeric labels (`bytes` of Go's heap profiles, the size class of the objects; `tier`, a line number ...) are measurements,
 * not names: each value would be a series. They become the sample's numbers. The other labels that SDKs set (span_name) stay
 * labels.
 *
 * Types. godeltaprof's profiles are those of the same name without the prefix. Whether a type covers a duration (":delta") goes
 * by the name, so that one that is pushed, whose client says how long it measured, and one that is scraped are the same type:
 * CPU and wall time do, what Go counts or holds does not. Pyroscope has no such part, hence one id for both.
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

/* Ids that OpenTelemetry has as numbers, and Wick's own files: names all the same. */
static bool is_id(const struct profile *profile, const struct profile_label *label)
{
	static const char *const ids[] = {"process.pid", "process.parent_pid", "thread.id"};
	return text_find_name(ids, sizeof(ids) / sizeof(ids[0]), profile_string(profile, label->key)) >= 0;
}

/* What becomes of the labels of a set. */
struct split {
	uint32_t set, link, numbers;
};
struct splitting {
	struct profile *profile;
	bool links;    /* those that say a span become links */
	bool keep_ids; /* process.pid and the like stay labels */
	struct profile_label *numbers;
	size_t number_capacity;
};

static bool is_number(const struct splitting *s, const struct profile_label *label)
{
	return !label->value && !(s->keep_ids && is_id(s->profile, label));
}

/* Text labels that are kept are few: the store refuses more. */
static int split_set(struct splitting *s, uint32_t at, struct split *ret, struct error *err)
{
	struct profile *profile = s->profile;
	struct profile_label_set set = profile->label_sets[at];
	struct profile_label kept[LIMIT_LABELS_PER_SERIES];
	struct profile_link link = {0};
	size_t count = 0, ids = 0, numbers = 0;
	bool has_span = false;
	for (uint32_t i = set.first; i < set.first + set.count; i++) {
		ids += s->links && id_label_of(profile, &profile->labels[i]) != ID_NONE;
		numbers += is_number(s, &profile->labels[i]);
	}
	*ret = (struct split){.set = at};
	if (!(ids + numbers) || set.count - ids - numbers > LIMIT_LABELS_PER_SERIES)
		return 0;
	if (array_reserve(&s->numbers, &s->number_capacity, numbers, SIZE_MAX) < 0)
		return error_nomem(err);
	numbers = 0;
	for (uint32_t i = set.first; i < set.first + set.count; i++) {
		struct profile_label label = profile->labels[i];
		enum id_label kind = s->links ? id_label_of(profile, &label) : ID_NONE;
		struct bytes text = profile_string_bytes(profile, label.value);
		if (is_number(s, &label))
			s->numbers[numbers++] = label;
		else if (kind == ID_NONE)
			kept[count++] = label;
		else if (kind == ID_TRACE)
			take_id(text, link.trace_id, sizeof(link.trace_id));
		else if (kind == ID_SPAN && !has_span)
			has_span = take_id(text, link.span_id, sizeof(link.span_id));
		else if (kind == ID_PROFILE && !has_span)
			take_id(text, link.span_id, sizeof(link.span_id));
	}
	int r = profile_add_label_set(profile, kept, count, &ret->set, err);
	if (r == 0)
		r = profile_add_label_set(profile, s->numbers, numbers, &ret->numbers, err);
	return r < 0 || !ids ? r : profile_add_link(profile, &link, &ret->link, err);
}

static int split_labels(struct splitting *s, struct error *err)
{
	struct profile *profile = s->profile;
	size_t count = profile->label_set_count;
	bool applies = false;
	_cleanup_(mem_freep) struct split *splits = mem_zalloc_array(count, sizeof(*splits));
	if (!splits)
		return error_nomem(err);
	for (size_t i = 1; i < count; i++) {
		int r = split_set(s, (uint32_t)i, &splits[i], err);
		if (r < 0)
			return r;
		applies |= splits[i].set != i;
	}
	for (size_t i = 0; applies && i < profile->sample_count; i++) {
		struct profile_sample *sample = &profile->samples[i];
		const struct split *split = &splits[sample->labels];
		sample->link = split->link ? split->link : sample->link;
		sample->numbers = split->numbers ? split->numbers : sample->numbers;
		sample->labels = split->set;
	}
	return 0;
}

int ingest_take_numbers(struct profile *profile, struct error *err)
{
	struct splitting s = {.profile = profile, .keep_ids = true};
	int r = split_labels(&s, err);
	mem_free(s.numbers);
	return r;
}

const char *ingest_pprof_name(const char *name)
{
	static const char prefix[] = "godeltaprof_";
	return name && text_starts_with(name, prefix) && name[sizeof(prefix) - 1] ? name + sizeof(prefix) - 1 : name;
}

/* Types of these names cover no duration, whatever the profile says. */
static bool is_without_duration(const char *name)
{
	static const char *const names[] = {"memory",	  "mutex",	  "block",     "goroutine",
					    "goroutines", "threadcreate", "exceptions"};
	return name && text_find_name(names, sizeof(names) / sizeof(names[0]), name) >= 0;
}

int ingest_take_pprof(struct profile *profile, const char *name, struct error *err)
{
	struct splitting s = {.profile = profile, .links = true};
	if (is_without_duration(name))
		profile->duration_ns = 0;
	int r = split_labels(&s, err);
	mem_free(s.numbers);
	return r;
}
