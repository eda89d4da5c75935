/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting process_stats together again.
 *
 * A Profile of OTLP has one sample type, so the agent's rows of nine columns (profile/type.h) arrive as nine profiles of a
 * column each. Stored one by one they would be nine records in the log with the same labels, and nine waits for the disk. Those
 * that follow each other and are of one resource and window become one profile here: a sample for each (labels, time).
 */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/sum.h"
#include "format/otlp/otlp_int.h"
#include "profile/merge.h"
#include "profile/type.h"

static bool is_process_stats(const struct profile *profile)
{
	return profile->sample_type_count == 1 &&
	       bytes_equal_string(profile_string_bytes(profile, profile->period_type.type), PROCESS_STATS_NAME);
}

static bool same_label(const struct profile *a, const struct profile_label *x, const struct profile *b,
		       const struct profile_label *y)
{
	return x->number == y->number && bytes_equal(profile_string_bytes(a, x->key), profile_string_bytes(b, y->key)) &&
	       bytes_equal(profile_string_bytes(a, x->value), profile_string_bytes(b, y->value)) &&
	       bytes_equal(profile_string_bytes(a, x->unit), profile_string_bytes(b, y->unit));
}

static bool belong_together(const struct profile *a, const struct profile *b)
{
	const struct profile_label_set *x = &a->label_sets[a->resource_labels], *y = &b->label_sets[b->resource_labels];
	bool same = is_process_stats(b) && a->time_ns == b->time_ns && a->duration_ns == b->duration_ns && x->count == y->count;
	for (uint32_t i = 0; same && i < x->count; i++)
		same = same_label(a, &a->labels[x->first + i], b, &b->labels[y->first + i]);
	return same;
}

struct joiner {
	struct profile *wide;
	struct index32 index;
	struct profile_sample *rows;
	int64_t *values; /* `columns` a row */
	size_t count, row_capacity, value_capacity, columns;
	struct error *err;
};

static int find_row(struct joiner *j, const struct profile_sample *sample, size_t *ret)
{
	uint64_t hash = hash64_mix((uint64_t)sample->time_ns ^ hash64_mix(sample->labels));
	uint32_t id;
	for (size_t at = index32_first(&j->index, hash); index32_at(&j->index, hash, &at, &id); at++) {
		if (j->rows[id].labels == sample->labels && j->rows[id].time_ns == sample->time_ns) {
			*ret = id;
			return 0;
		}
	}
	if (array_reserve(&j->rows, &j->row_capacity, j->count + 1, UINT32_MAX) < 0 ||
	    array_reserve(&j->values, &j->value_capacity, (j->count + 1) * j->columns, SIZE_MAX) < 0 ||
	    index32_add(&j->index, hash, (uint32_t)j->count) < 0)
		return error_nomem(j->err);
	memset(j->values + j->count * j->columns, 0, j->columns * sizeof(*j->values));
	j->rows[j->count] = *sample;
	*ret = j->count++;
	return 0;
}

static int add_column(struct joiner *j, const struct profile *from, size_t column)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	int r = profile_copy_new(j->wide, from, &copy, j->err);
	if (r == 0 && column == 0)
		r = profile_copy_label_set(copy, from->resource_labels, &j->wide->resource_labels, j->err);
	if (r == 0 && column == 0)
		r = profile_copy_label_set(copy, from->host_labels, &j->wide->host_labels, j->err);
	if (r == 0)
		r = profile_copy_sample_types(copy, j->err);
	for (size_t i = 0; r == 0 && i < from->sample_count; i++) {
		struct profile_sample row = {.time_ns = from->samples[i].time_ns};
		size_t at = 0;
		r = profile_copy_label_set(copy, from->samples[i].labels, &row.labels, j->err);
		if (r == 0)
			r = find_row(j, &row, &at);
		if (r < 0)
			break;
		int64_t *value = &j->values[at * j->columns + column];
		sum_to(value, from->values[i]);
	}
	return r;
}

static int join(struct joiner *j, struct profile *const *profiles)
{
	int r = profile_new(&j->wide, j->err);
	if (r == 0)
		r = profile_add_cstring(j->wide, PROCESS_STATS_NAME, &j->wide->period_type.type, j->err);
	for (size_t i = 0; r == 0 && i < j->columns; i++)
		r = add_column(j, profiles[i], i);
	if (r < 0)
		return r;
	j->wide->time_ns = profiles[0]->time_ns;
	j->wide->duration_ns = profiles[0]->duration_ns;
	for (size_t i = 0; r == 0 && i < j->count; i++)
		r = profile_add_sample(j->wide, &j->rows[i], j->values + i * j->columns, j->err);
	return r;
}

/* Replaces `count` profiles by one. */
static int join_run(struct profile **profiles, size_t count, struct error *err)
{
	struct joiner j = {.columns = count, .err = err};
	int r = join(&j, profiles);
	index32_release(&j.index);
	mem_free(j.rows);
	mem_free(j.values);
	if (r < 0) {
		profile_free(j.wide);
		return r;
	}
	for (size_t i = 0; i < count; i++)
		profile_free(profiles[i]);
	memset(profiles, 0, count * sizeof(*profiles));
	profiles[0] = j.wide;
	return 0;
}

int otlp_join_process_stats(struct otlp_request *request, struct error *err)
{
	struct profile **profiles = request->profiles;
	size_t kept = 0;
	int r = 0;
	for (size_t from = 0, to; r == 0 && from < request->count; from = to) {
		to = from + 1;
		while (to < request->count && to - from < LIMIT_SAMPLE_TYPES && is_process_stats(profiles[from]) &&
		       belong_together(profiles[from], profiles[to]))
			to++;
		if (to - from > 1)
			r = join_run(profiles + from, to - from, err);
	}
	for (size_t i = 0; i < request->count; i++)
		if (profiles[i])
			profiles[kept++] = profiles[i];
	request->count = kept;
	return r;
}
