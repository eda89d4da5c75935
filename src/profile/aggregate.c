/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Summing equal samples.
 *
 * The index holds one slot for each of samples 0 .. samples_seen - 1, which are distinct and not all zero; what came later
 * through profile_add_sample() is folded into them when that is asked for. So merging many small profiles into a large one
 * costs what the small ones hold. A sample that became zero leaves a gap, and closing it moves the others, so it is done once
 * at the end of an operation, by building the index anew.
 */
#include <assert.h>
#include <string.h>

#include "base/sum.h"
#include "profile/profile_int.h"

bool profile_values_are_zero(const int64_t *values, size_t count)
{
	int64_t any = 0;
	for (size_t i = 0; i < count; i++)
		any |= values[i];
	return any == 0;
}

static uint64_t hash_sample(const struct profile *profile, const struct profile_sample *sample)
{
	uint64_t hash = profile_hash_add(profile->index->seed, (uint64_t)sample->stack << 32 | sample->labels);
	hash = profile_hash_add(hash, (uint64_t)sample->numbers << 32 | sample->link);
	return profile_hash_add(hash, (uint64_t)sample->time_ns);
}

static bool find_sample(const struct profile *profile, uint64_t hash, const struct profile_sample *key, uint32_t *ret_id)
{
	const struct index32 *index = &profile->index->samples;
	uint32_t id;
	for (size_t at = index32_first(index, hash); index32_at(index, hash, &at, &id); at++) {
		const struct profile_sample *have = &profile->samples[id];
		if (have->stack == key->stack && have->labels == key->labels && have->link == key->link &&
		    have->numbers == key->numbers && have->time_ns == key->time_ns) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

void profile_move_sample(struct profile *profile, size_t to, size_t from)
{
	size_t types = profile->sample_type_count;
	profile->samples[to] = profile->samples[from];
	if (types > 0)
		memmove(profile->values + to * types, profile->values + from * types, types * sizeof(*profile->values));
}

void profile_forget_sample_index(struct profile *profile)
{
	index32_clear(&profile->index->samples);
	profile->index->samples_seen = 0;
}

static void add_values(int64_t *to, const int64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sum_to(&to[i], from[i]);
}

int profile_accumulate(struct profile *profile, const struct profile_sample *key, const int64_t *values, bool *ret_became_zero,
		       struct error *err)
{
	struct profile_index *index = profile->index;
	assert(index->samples_seen == profile->sample_count);
	size_t types = profile->sample_type_count;
	uint64_t hash = hash_sample(profile, key);
	uint32_t id;
	if (find_sample(profile, hash, key, &id)) {
		add_values(profile->values + id * types, values, types);
		if (profile_values_are_zero(profile->values + id * types, types))
			*ret_became_zero = true;
		return 0;
	}
	if (index32_reserve(&index->samples, 1) < 0)
		return error_nomem(err);
	int r = profile_add_sample(profile, key, values, err);
	if (r < 0)
		return r;
	index32_add(&index->samples, hash, (uint32_t)index->samples_seen);
	index->samples_seen++;
	return 0;
}

/* Folds samples from `first` on into those of the index; never fails, room was made. Returns whether a sum became zero. */
static bool fold_samples(struct profile *profile, size_t first)
{
	struct profile_index *index = profile->index;
	size_t types = profile->sample_type_count, kept = first;
	bool became_zero = false;
	for (size_t i = first; i < profile->sample_count; i++) {
		const struct profile_sample sample = profile->samples[i];
		const int64_t *values = profile->values + i * types;
		uint64_t hash = hash_sample(profile, &sample);
		uint32_t id;
		if (find_sample(profile, hash, &sample, &id)) {
			add_values(profile->values + id * types, values, types);
			became_zero |= profile_values_are_zero(profile->values + id * types, types);
			continue;
		}
		/* A zero sample is kept for now: a later one with its key may be different. */
		became_zero |= profile_values_are_zero(values, types);
		profile_move_sample(profile, kept, i);
		index32_add(&index->samples, hash, (uint32_t)kept++);
	}
	profile->sample_count = kept;
	index->samples_seen = kept;
	return became_zero;
}

/* Distinct samples in: those that are not zero out, and in the index. */
static void drop_zero_samples(struct profile *profile)
{
	struct profile_index *index = profile->index;
	size_t types = profile->sample_type_count, kept = 0;
	index32_clear(&index->samples);
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (profile_values_are_zero(profile->values + i * types, types))
			continue;
		profile_move_sample(profile, kept, i);
		index32_add(&index->samples, hash_sample(profile, &profile->samples[kept]), (uint32_t)kept);
		kept++;
	}
	profile->sample_count = kept;
	index->samples_seen = kept;
}

int profile_aggregate_new(struct profile *profile, struct error *err)
{
	struct profile_index *index = profile->index;
	assert(index->samples_seen <= profile->sample_count);
	if (index32_reserve(&index->samples, profile->sample_count - index->samples_seen) < 0)
		return error_nomem(err);
	if (fold_samples(profile, index->samples_seen))
		drop_zero_samples(profile);
	return 0;
}

int profile_aggregate(struct profile *profile, struct error *err)
{
	/* From scratch: callers may have changed stacks, labels or times of samples in place. */
	profile_forget_sample_index(profile);
	return profile_aggregate_new(profile, err);
}
