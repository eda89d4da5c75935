/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a merge: frames for the distinct stacks, and a sample for each. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/time.h"
#include "profile/merge.h"
#include "store/read_int.h"

static int set_type(struct reading *r, struct profile *into, struct error *err)
{
	uint32_t type, unit;
	int code = profile_add_cstring(into, r->type.sample_type, &type, err);
	if (code == 0)
		code = profile_add_cstring(into, r->type.sample_unit, &unit, err);
	if (code == 0)
		code = profile_add_sample_type(into, type, unit, err);
	if (code == 0)
		code = profile_add_cstring(into, r->type.period_type, &into->period_type.type, err);
	if (code == 0)
		code = profile_add_cstring(into, r->type.period_unit, &into->period_type.unit, err);
	into->period = r->period;
	into->time_ns = r->min_ns;
	into->duration_ns = (int64_t)((uint64_t)r->max_ns - (uint64_t)r->min_ns);
	return code;
}

/* The entries that were met first in each source, source by source. */
struct by_source {
	uint32_t *entries; /* of source s: entries[starts[s]] .. entries[starts[s + 1] - 1] */
	size_t *starts;
	uint32_t *stacks; /* of the entries, in the same order */
	uint32_t *ids;	  /* of the profile's stacks, likewise */
};

static int sort_by_source(const struct reading *r, struct by_source *ret)
{
	size_t count = r->set.count, sources = r->source_count;
	ret->entries = mem_alloc_array(count, sizeof(*ret->entries));
	ret->stacks = mem_alloc_array(count, sizeof(*ret->stacks));
	ret->ids = mem_zalloc_array(count, sizeof(*ret->ids));
	ret->starts = mem_zalloc_array(sources + 2, sizeof(*ret->starts));
	if (!ret->entries || !ret->stacks || !ret->ids || !ret->starts)
		return -ENOMEM;
	/* Counted two places up, summed, then moved on by one while being filled. */
	for (size_t i = 0; i < count; i++)
		ret->starts[r->set.entries[i].source + 2]++;
	for (size_t s = 2; s < sources + 2; s++)
		ret->starts[s] += ret->starts[s - 1];
	for (size_t i = 0; i < count; i++) {
		size_t at = ret->starts[r->set.entries[i].source + 1]++;
		ret->entries[at] = (uint32_t)i;
		ret->stacks[at] = r->set.entries[i].stack;
	}
	return 0;
}

static int copy_head(struct head *head, const uint32_t *stacks, size_t count, struct profile *into, uint32_t *ret_ids,
		     struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	pthread_rwlock_rdlock(&head->lock);
	int code = profile_copy_new(into, head->pool, &copy, err);
	for (size_t i = 0; code == 0 && i < count; i++)
		code = profile_copy_stack(copy, stacks[i], &ret_ids[i], err);
	pthread_rwlock_unlock(&head->lock);
	return code;
}

static int copy_block(struct reading *r, struct block *block, const uint32_t *stacks, size_t count, struct profile *into,
		      uint32_t *ret_ids, struct error *err)
{
	struct block_tables *tables = NULL;
	struct error own = {0};
	int code = cache_get(r->store, block, BLOCK_PART_TABLES, (void **)&tables, r->stats, &own);
	for (size_t i = 0; code == 0 && i < count; i++)
		if (stacks[i] >= tables->stack_count)
			code = error_set(&own, -EBADMSG, "%s: tables are not of the same length", block->path);
	if (code == 0)
		code = materialize_stacks(tables, stacks, count, into, ret_ids, &own);
	cache_put(r->store, BLOCK_PART_TABLES, tables);
	if (code == -EBADMSG) {
		blocks_set_aside(r->store, block, own.message);
		return -EAGAIN;
	}
	if (code < 0 && err)
		*err = own;
	return code;
}

static int copy_source(struct reading *r, size_t source, const struct by_source *by, struct profile *into, struct error *err)
{
	size_t from = by->starts[source], count = by->starts[source + 1] - from;
	if (count == 0)
		return 0;
	if (source < 2)
		return copy_head(r->snapshot.heads[1 - source], by->stacks + from, count, into, by->ids + from, err);
	struct block *block = r->snapshot.blocks[r->snapshot.block_count - 1 - (source - 2)];
	return copy_block(r, block, by->stacks + from, count, into, by->ids + from, err);
}

static int add_samples(const struct reading *r, const struct by_source *by, struct profile *into, struct error *err)
{
	int code = 0;
	for (size_t i = 0; code == 0 && i < r->set.count; i++) {
		const struct stack_entry *entry = &r->set.entries[by->entries[i]];
		struct profile_sample sample = {.stack = by->ids[i], .labels = entry->group};
		if (entry->value)
			code = profile_add_sample(into, &sample, &entry->value, err);
	}
	return code;
}

static int check_sources(struct reading *r, const struct by_source *by, struct profile *into, struct error *err)
{
	int code = 0;
	for (size_t s = 0; code == 0 && s < r->source_count; s++) {
		code = read_check(r, 0, err);
		/* Stacks without frames would be wrong, so this is where a deadline is an error. */
		if (code == READ_LIMITED)
			code = error_set(err, -ETIME, "the deadline passed before the result was complete");
		if (code == 0)
			code = copy_source(r, s, by, into, err);
	}
	return code;
}

int read_finish_merge(struct reading *r, struct profile *into, struct error *err)
{
	struct by_source by = {0};
	int64_t started = time_monotonic_ns();
	if (!r->has_type)
		return 0;
	int code = sort_by_source(r, &by) < 0 ? error_nomem(err) : check_sources(r, &by, into, err);
	if (code == 0 && into->sample_type_count == 0)
		code = set_type(r, into, err);
	if (code == 0)
		code = add_samples(r, &by, into, err);
	r->stats->stacks = r->set.count;
	r->stats->phase_ns[STORE_PHASE_STACKS] += (uint64_t)(time_monotonic_ns() - started);
	mem_free(by.entries);
	mem_free(by.starts);
	mem_free(by.stacks);
	mem_free(by.ids);
	return code;
}
