/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences of counters. Go's allocs, mutex and block profiles count since the program's start: what belongs to a time range
 * is what they grew by in it. So each scrape of such a profile is compared with the one before, stack by stack, labels included
 * (Go distinguishes sizes of allocations by one).
 *
 * Remembered is, for each stack, a 64-bit hash of its content and labels, and its values: with 10,000 stacks the chance that
 * two share one is 3 in 10^12. Content, not addresses: the same stack has other ids in each profile.
 *
 * A counter that shrank, or a stack that is gone, cannot be in one run of a program: it was restarted, and everything that it
 * counts happened since. Then all values are taken whole.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sum.h"
#include "server/scrape/scrape_int.h"

struct row {
	uint64_t key;
	uint32_t sample;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	return ORDER(x->key, y->key);
}

static size_t bytes_of(const struct scrape_delta *delta)
{
	return delta->count * (sizeof(uint64_t) + delta->types * sizeof(int64_t));
}

void scrape_delta_release(struct scrape_delta *delta, atomic_size_t *total_bytes)
{
	atomic_fetch_sub_explicit(total_bytes, bytes_of(delta), memory_order_relaxed);
	mem_free(delta->keys);
	mem_free(delta->values);
	*delta = (struct scrape_delta){0};
}

static uint64_t hash_labels(const struct profile *profile, uint32_t set, uint64_t hash)
{
	const struct profile_label_set *labels = &profile->label_sets[set];
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *label = &profile->labels[labels->first + i];
		struct bytes key = profile_string_bytes(profile, label->key),
			     value = profile_string_bytes(profile, label->value);
		struct bytes unit = profile_string_bytes(profile, label->unit);
		hash = hash64_seed(key.data, key.len, hash);
		hash = hash64_seed(value.data, value.len, hash);
		hash = hash64_seed(unit.data, unit.len, hash);
		hash = hash64_seed(&label->number, sizeof(label->number), hash);
	}
	return hash;
}

static int make_rows(const struct profile *profile, struct row **ret, struct error *err)
{
	_cleanup_(mem_freep) struct hash128 *stacks = mem_alloc_array(profile->stack_count, sizeof(*stacks));
	_cleanup_(mem_freep) struct row *rows = mem_alloc_array(profile->sample_count + 1, sizeof(*rows));
	int r = stacks && rows ? profile_hash_stacks(profile, stacks, err) : error_nomem(err);
	for (size_t i = 0; r == 0 && i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		uint64_t labels = hash_labels(profile, sample->numbers, hash_labels(profile, sample->labels, 0));
		rows[i] = (struct row){hash64_seed(&stacks[sample->stack], sizeof(*stacks), labels), (uint32_t)i};
	}
	if (r < 0)
		return r;
	qsort(rows, profile->sample_count, sizeof(*rows), compare_rows);
	*ret = TAKE(rows);
	return 0;
}

static bool is_counter(const struct profile *profile, size_t type)
{
	return strncmp(profile_string(profile, profile->sample_types[type].type), "inuse_", 6) != 0;
}

/* What is to be remembered: rows of equal keys are one. */
static int remember(const struct profile *profile, const struct row *rows, struct scrape_delta *ret, struct error *err)
{
	size_t types = profile->sample_type_count;
	struct scrape_delta delta = {.types = types, .seen = true};
	delta.keys = mem_alloc_array(profile->sample_count + 1, sizeof(*delta.keys));
	delta.values = mem_zalloc_array((profile->sample_count + 1) * types, sizeof(*delta.values));
	if (!delta.keys || !delta.values) {
		mem_free(delta.keys);
		mem_free(delta.values);
		return error_nomem(err);
	}
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (delta.count == 0 || delta.keys[delta.count - 1] != rows[i].key)
			delta.keys[delta.count++] = rows[i].key;
		int64_t *to = &delta.values[(delta.count - 1) * types];
		const int64_t *from = &profile->values[rows[i].sample * types];
		for (size_t t = 0; t < types; t++)
			sum_to(&to[t], from[t]);
	}
	*ret = delta;
	return 0;
}

/* Both are sorted by key. */
static bool has_restarted(const struct profile *profile, const struct scrape_delta *before, const struct scrape_delta *now)
{
	size_t at = 0;
	if (before->types != now->types)
		return true;
	for (size_t i = 0; i < before->count; i++) {
		while (at < now->count && now->keys[at] < before->keys[i])
			at++;
		bool gone = at == now->count || now->keys[at] != before->keys[i];
		for (size_t t = 0; t < now->types; t++) {
			int64_t was = before->values[i * now->types + t];
			if (is_counter(profile, t) && was > 0 && (gone || now->values[at * now->types + t] < was))
				return true;
		}
	}
	return false;
}

/* The first row of a key takes the difference, further ones of it nothing. */
static void subtract(struct profile *profile, const struct row *rows, const struct scrape_delta *before,
		     const struct scrape_delta *now, bool whole)
{
	size_t types = now->types, at = 0, row = 0;
	for (size_t i = 0; i < now->count; i++) {
		while (at < before->count && before->keys[at] < now->keys[i])
			at++;
		bool known = !whole && at < before->count && before->keys[at] == now->keys[i];
		for (bool first = true; row < profile->sample_count && rows[row].key == now->keys[i]; row++, first = false) {
			int64_t *values = &profile->values[rows[row].sample * types];
			for (size_t t = 0; t < types; t++) {
				if (!is_counter(profile, t))
					continue;
				int64_t base = known ? before->values[at * types + t] : 0;
				bool counts = first && (before->seen || whole);
				values[t] = counts ? sum_difference(now->values[i * types + t], base) : 0;
			}
		}
	}
}

int scrape_delta_apply(const struct scrape_delta *before, struct profile *profile, atomic_size_t *total_bytes,
		       struct scrape_delta *ret, bool *ret_restarted, struct error *err)
{
	struct scrape_delta now;
	struct row *rows = NULL;
	if (profile->sample_count > SCRAPE_STACKS_MAX)
		return error_set(err, -E2BIG, "more than %d stacks for delta profiles", SCRAPE_STACKS_MAX);
	int r = make_rows(profile, &rows, err);
	if (r == 0)
		r = remember(profile, rows, &now, err);
	if (r < 0) {
		mem_free(rows);
		return r;
	}
	bool restarted = before->seen && has_restarted(profile, before, &now);
	subtract(profile, rows, before, &now, restarted);
	mem_free(rows);
	r = profile_aggregate(profile, err);
	size_t own = bytes_of(&now), total = atomic_fetch_add_explicit(total_bytes, own, memory_order_relaxed) + own;
	if (r == 0 && total > SCRAPE_STACKS_BYTES_MAX)
		r = error_set(err, -E2BIG, "too many stacks for delta profiles of all targets");
	if (r < 0) {
		scrape_delta_release(&now, total_bytes);
		return r;
	}
	*ret = now;
	*ret_restarted = restarted;
	return 0;
}
