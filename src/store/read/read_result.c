/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a merge: frames for the distinct stacks, and a sample for each. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/thread.h"
#include "base/time.h"
#include "profile/merge.h"
#include "store/read/read_int.h"

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

#define NOT_MADE UINT32_MAX

/* The entries whose frames each source gives, source by source. */
struct by_source {
	uint32_t *entries; /* of source s: entries[starts[s]] .. entries[starts[s + 1] - 1] */
	size_t *starts;
	uint32_t *stacks; /* of the entries, in the same order */
	uint32_t *ids;	  /* of the profile's stacks, likewise; NOT_MADE: there was no memory for it */
};

static int sort_by_source(const struct reading *r, struct by_source *ret)
{
	size_t count = r->set.count, sources = r->source_count;
	ret->entries = mem_alloc_array(count, sizeof(*ret->entries));
	ret->stacks = mem_alloc_array(count, sizeof(*ret->stacks));
	ret->ids = mem_alloc_array(count, sizeof(*ret->ids));
	ret->starts = mem_zalloc_array(sources + 2, sizeof(*ret->starts));
	if (!ret->entries || !ret->stacks || !ret->ids || !ret->starts)
		return -ENOMEM;
	memset(ret->ids, 0xff, count * sizeof(*ret->ids));
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

/* Entries of the table of stacks that there is room for, with what is made of them. */
static size_t stacks_room(const struct reading *r)
{
	size_t room = read_share_of_budget(READ_FRAMES_SHARE);
	size_t bytes = r->select->stack_bytes ? r->select->stack_bytes : READ_STACK_BYTES;
	return room == SIZE_MAX || r->select->whole ? SIZE_MAX : room / (bytes + READ_FRAME_BYTES) + 1;
}

static int copy_head(struct head *head, const uint32_t *stacks, size_t count, size_t room, struct profile *into,
		     uint32_t *ret_ids, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	pthread_rwlock_rdlock(&head->lock);
	int code = profile_copy_new(into, head->pool, &copy, err);
	for (size_t i = 0; code == 0 && i < count; i++)
		code = budget_poll()		  ? error_nomem(err)
		       : into->stack_count > room ? MATERIALIZE_FULL
						  : profile_copy_stack(copy, stacks[i], &ret_ids[i], err);
	pthread_rwlock_unlock(&head->lock);
	return code;
}

/* ---- tables of blocks ---- */

#define AHEAD 2 /* tables that are loaded before they are needed: more would only cost memory */

/* Decoding a block's tables takes about as long as making frames of them, so another thread does it, a little ahead. Without
 * that thread they are loaded when they are needed. */
struct tables_ahead {
	struct reading *r;
	const struct by_source *by;
	size_t room; /* for stacks in the profile */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t loaded, used; /* sources up to which tables are loaded, used */
	bool stop;
	struct tables_slot {
		struct block_tables *tables;
		int code;
		struct error error;
	} * slots;		       /* by source */
	struct store_read_stats stats; /* the thread's own */
};

static bool is_needed(const struct by_source *by, size_t source)
{
	return source >= 2 && by->starts[source + 1] > by->starts[source];
}

static void *load_ahead(void *context)
{
	struct tables_ahead *a = context;
	budget_enter(a->r->budget);
	for (size_t s = 0; s < a->r->source_count; s++) {
		struct tables_slot *slot = &a->slots[s];
		pthread_mutex_lock(&a->lock);
		while (!a->stop && s >= a->used + AHEAD + 2) /* the heads are the first two */
			pthread_cond_wait(&a->changed, &a->lock);
		bool stop = a->stop;
		pthread_mutex_unlock(&a->lock);
		if (stop)
			break;
		if (is_needed(a->by, s))
			slot->code = cache_get(a->r->store, read_block_at(a->r, s), BLOCK_PART_TABLES, (void **)&slot->tables,
					       &a->stats, &slot->error);
		pthread_mutex_lock(&a->lock);
		a->loaded = s + 1;
		pthread_cond_broadcast(&a->changed);
		pthread_mutex_unlock(&a->lock);
	}
	budget_leave(NULL);
	return NULL;
}

static int tables_ahead_start(struct tables_ahead *a, struct reading *r, const struct by_source *by)
{
	*a = (struct tables_ahead){
		.r = r, .by = by, .room = stacks_room(r), .slots = mem_zalloc_array(r->source_count, sizeof(*a->slots))};
	if (!a->slots)
		return -ENOMEM;
	size_t needed = 0;
	for (size_t s = 0; s < r->source_count; s++)
		needed += is_needed(by, s);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
	a->running = needed > 1 && thread_start(&a->thread, "wick-read", load_ahead, a, NULL) == 0;
	return 0;
}

static void tables_ahead_stop(struct tables_ahead *a)
{
	if (!a->slots)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	if (a->running)
		pthread_join(a->thread, NULL);
	for (size_t s = 0; s < a->r->source_count; s++)
		cache_put(a->r->store, BLOCK_PART_TABLES, a->slots[s].tables);
	a->r->stats->bytes += a->stats.bytes;
	a->r->stats->cache_hits += a->stats.cache_hits;
	a->r->stats->cache_misses += a->stats.cache_misses;
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->changed);
	mem_free(a->slots);
}

/* The slot of a source, loaded. */
static struct tables_slot *take_tables(struct tables_ahead *a, size_t source)
{
	struct tables_slot *slot = &a->slots[source];
	if (!a->running) {
		slot->code = cache_get(a->r->store, read_block_at(a->r, source), BLOCK_PART_TABLES, (void **)&slot->tables,
				       &a->stats, &slot->error);
		return slot;
	}
	THREAD_LOCK_SCOPE(&a->lock);
	a->used = source;
	pthread_cond_broadcast(&a->changed);
	while (a->loaded <= source)
		pthread_cond_wait(&a->changed, &a->lock);
	return slot;
}

static int copy_block(struct tables_ahead *ahead, size_t source, const uint32_t *stacks, size_t count, struct profile *into,
		      uint32_t *ret_ids, struct error *err)
{
	struct reading *r = ahead->r;
	struct block *block = read_block_at(r, source);
	struct tables_slot *slot = take_tables(ahead, source);
	struct error own = slot->error;
	int code = slot->code;
	for (size_t i = 0; code == 0 && i < count; i++)
		if (stacks[i] >= slot->tables->stack_count)
			code = error_set(&own, -EBADMSG, "%s: tables differ in length", block->path);
	if (code == 0)
		read_note_names(r, block, slot->tables);
	if (code == 0)
		code = materialize_stacks(slot->tables, stacks, count, ahead->room, into, ret_ids, &own);
	cache_put(r->store, BLOCK_PART_TABLES, slot->tables);
	slot->tables = NULL;
	if (code == -EBADMSG && budget_has_ended()) /* as in read_source.c */
		code = error_nomem(&own);
	if (code == -EBADMSG) {
		blocks_set_aside(r->store, block, own.message);
		return -EAGAIN;
	}
	if (code < 0 && err)
		*err = own;
	return code;
}

static int copy_source(struct tables_ahead *ahead, size_t source, struct profile *into, struct error *err)
{
	const struct by_source *by = ahead->by;
	size_t from = by->starts[source], count = by->starts[source + 1] - from;
	if (count == 0)
		return 0;
	if (source < 2)
		return copy_head(ahead->r->snapshot.heads[1 - source], by->stacks + from, count, ahead->room, into,
				 by->ids + from, err);
	return copy_block(ahead, source, by->stacks + from, count, into, by->ids + from, err);
}

/* ---- all ---- */

static int add_samples(const struct reading *r, const struct by_source *by, struct profile *into, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *sets = NULL;
	int code = read_numbers_sets(r, into, &sets, err);
	for (size_t i = 0; code == 0 && i < r->set.count; i++) {
		const struct stack_entry *entry = &r->set.entries[by->entries[i]];
		struct profile_sample sample = {.stack = by->ids[i], .labels = read_numbers_base(r, entry->group)};
		if (entry->group >= READ_NUMBERED)
			sample.numbers = sets[r->numbered.groups[entry->group - READ_NUMBERED].text];
		if (entry->value && by->ids[i] != NOT_MADE)
			code = profile_add_sample(into, &sample, &entry->value, err);
	}
	return code;
}

/* The rest of the stacks is left out, and so are their values. */
static int note_left_out(struct reading *r, const struct by_source *by, const char *limit, struct error *err)
{
	size_t made = 0;
	for (size_t i = 0; i < r->set.count; i++)
		made += by->ids[i] != NOT_MADE;
	if (made == 0) {
		budget_give_up(r->short_of);
		return error_nomem(err);
	}
	THREAD_LOCK_SCOPE(&r->lock);
	read_note_partial(r, "the limit %s was reached after %zu of %zu distinct stacks", limit, made, r->set.count);
	r->stats->short_of_memory = true;
	return 0;
}

static int copy_sources(struct reading *r, const struct by_source *by, struct profile *into, struct error *err)
{
	struct tables_ahead ahead;
	size_t budget = r->select->whole ? 0 : budget_narrow(read_share_of_budget(READ_SHARE));
	int code = tables_ahead_start(&ahead, r, by) < 0 ? error_nomem(err) : 0;
	for (size_t s = 0; code == 0 && s < r->source_count; s++) {
		code = read_check(r, 0, err);
		/* Stacks without frames would be wrong, so this is where a deadline is an error. */
		if (code == SELECT_LIMITED)
			code = error_set(err, -ETIME, "the deadline passed before the result was complete");
		if (code == 0)
			code = copy_source(&ahead, s, into, err);
	}
	tables_ahead_stop(&ahead);
	if (budget)
		budget_widen(budget);
	const char *limit = code == MATERIALIZE_FULL ? "query_memory" : read_may_leave_out(r, code);
	if (!limit)
		return code;
	return note_left_out(r, by, limit, err);
}

int read_finish_merge(struct reading *r, struct profile *into, struct error *err)
{
	struct by_source by = {0};
	int64_t started = time_monotonic_ns();
	if (!r->has_type)
		return 0;
	int code = sort_by_source(r, &by) < 0 ? error_nomem(err) : copy_sources(r, &by, into, err);
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
