/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples by thread, for formats that show each thread by itself. A thread is what its labels say: process.pid and thread.id,
 * or thread.name where there is no id, or the process where there is neither; and of several hosts also host.name.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/order.h"
#include "base/text.h"
#include "format/format_int.h"
#include "profile/markers.h"

static bool read_number(const struct profile *profile, const struct profile_label *label, int64_t *ret)
{
	*ret = label->number;
	if (!label->value || text_parse_i64(profile_string(profile, label->value), ret, NULL) == 0)
		return true;
	*ret = 0;
	return false;
}

void sample_thread_read_labels(const struct profile *profile, uint32_t set, struct sample_thread *ret)
{
	const struct profile_label_set *labels = &profile->label_sets[set];
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *label = &profile->labels[labels->first + i];
		const char *key = profile_string(profile, label->key);
		if (strcmp(key, "host.name") == 0)
			ret->host = label->value;
		else if (strcmp(key, "process.pid") == 0)
			ret->has_pid = read_number(profile, label, &ret->pid);
		else if (strcmp(key, "thread.id") == 0)
			ret->has_tid = read_number(profile, label, &ret->tid);
		else if (strcmp(key, "thread.name") == 0)
			ret->name = label->value;
		else if (strcmp(key, "process.executable.name") == 0) {
			ret->process = label->value;
			ret->process_is_comm = false;
		} else if (strcmp(key, "process.comm") == 0 && (!ret->process || ret->process_is_comm)) {
			ret->process = label->value;
			ret->process_is_comm = true;
		}
	}
}

static uint64_t key_of(const struct sample_thread *thread)
{
	uint64_t parts[] = {(uint64_t)thread->pid, (uint64_t)thread->tid, thread->has_tid ? 0 : thread->name,	thread->has_pid,
			    thread->has_tid,	   thread->host,	  thread->has_pid ? 0 : thread->process};
	return hash64_guarded(parts, sizeof(parts));
}

/* Whether there are two names of hosts, at least. Labels that no sample has are of no meaning, but those that came with one
 * host all name that one. */
static bool has_hosts(const struct profile *profile)
{
	struct sample_thread thread = {0};
	sample_thread_read_labels(profile, profile->resource_labels, &thread);
	uint32_t first = thread.host;
	for (uint32_t set = 0; set < profile->label_set_count; set++) {
		struct sample_thread own = {0};
		if (set == profile->resource_labels)
			continue;
		sample_thread_read_labels(profile, set, &own);
		if (own.host && first && own.host != first)
			return true;
		first = first ? first : own.host;
	}
	for (size_t i = 1; profile->markers && i < profile->markers->thread_count; i++) {
		uint32_t name = profile->markers->hosts[profile->markers->threads[i].host].name;
		if (name && first && name != first)
			return true;
		first = first ? first : name;
	}
	return false;
}

/* The thread of each label set. */
static int find_threads(const struct profile *profile, struct sample_threads *threads, uint32_t *of_set)
{
	_cleanup_(map64_release) struct map64 map = {0};
	size_t capacity = 0;
	threads->has_hosts = has_hosts(profile);
	for (uint32_t set = 0; set < profile->label_set_count; set++) {
		struct sample_thread thread = {0};
		uint64_t known;
		sample_thread_read_labels(profile, profile->resource_labels, &thread);
		sample_thread_read_labels(profile, set, &thread);
		if (!threads->has_hosts)
			thread.host = 0;
		uint64_t key = key_of(&thread);
		if (!map64_get(&map, key, &known)) {
			known = threads->count;
			if (map64_put(&map, key, known) < 0 ||
			    array_reserve(&threads->items, &capacity, threads->count + 1, SIZE_MAX) < 0)
				return -ENOMEM;
			threads->items[threads->count++] = thread;
		}
		/* Threads rename themselves, and processes become other programs; the last name is the most useful. */
		struct sample_thread *item = &threads->items[known];
		item->renamed |= thread.name && item->name != thread.name;
		if (thread.name)
			item->name = thread.name;
		item->has_executed |= thread.process && item->process && item->process != thread.process &&
				      item->process_is_comm == thread.process_is_comm;
		if (thread.process && (!thread.process_is_comm || item->process_is_comm || !item->process)) {
			item->process = thread.process;
			item->process_is_comm = thread.process_is_comm;
		}
		of_set[set] = (uint32_t)known;
	}
	return 0;
}

DEFINE_ORDER_OF_PLACES(compare_times, struct profile_sample, ORDER(a->time_ns, b->time_ns) ?: ORDER(a, b));

/* Samples of each thread together, by time. */
static void put_in_order(const struct profile *profile, struct sample_threads *threads, const uint32_t *of_set)
{
	size_t at = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		threads->items[of_set[profile->samples[i].labels]].count++;
	for (size_t t = 0; t < threads->count; t++) {
		threads->items[t].first = at;
		at += threads->items[t].count;
		threads->items[t].count = 0;
	}
	for (size_t i = 0; i < profile->sample_count; i++) {
		struct sample_thread *thread = &threads->items[of_set[profile->samples[i].labels]];
		threads->order[thread->first + thread->count++] = (uint32_t)i;
	}
	for (size_t t = 0; t < threads->count; t++)
		sort_array_by(threads->order + threads->items[t].first, threads->items[t].count, compare_times,
			      profile->samples);
}

int sample_threads_compare(const void *a, const void *b)
{
	const struct sample_thread *x = a, *y = b;
	return ORDER(x->host, y->host) ?: ORDER(x->pid, y->pid) ?: ORDER(x->has_pid, y->has_pid) ?: ORDER(x->exec, y->exec) ?:
		ORDER(x->tid, y->tid) ?: ORDER(x->reuse, y->reuse) ?: ORDER(x->first, y->first);
}

int sample_threads_build(const struct profile *profile, struct sample_threads *ret, struct error *err)
{
	struct sample_threads threads = {.order = mem_alloc_array(profile->sample_count, sizeof(*threads.order))};
	_cleanup_(mem_freep) uint32_t *of_set = mem_alloc_array(profile->label_set_count, sizeof(*of_set));
	if (!threads.order || !of_set || find_threads(profile, &threads, of_set) < 0) {
		sample_threads_release(&threads);
		return error_nomem(err);
	}
	put_in_order(profile, &threads, of_set);
	sort_array(threads.items, threads.count, sample_threads_compare);
	/* Label sets that no sample has. */
	size_t used = 0;
	for (size_t t = 0; t < threads.count; t++)
		if (threads.items[t].count > 0)
			threads.items[used++] = threads.items[t];
	threads.count = used;
	*ret = threads;
	return 0;
}

/* ---- markers ---- */

struct marking {
	const struct profile *profile;
	const struct profile_markers *markers;
	struct sample_threads *threads;
	size_t capacity;
	struct map64 by_key;
	struct map64 lived; /* threads whose lifetimes part them, and not the starts of those with markers */
	uint32_t *used;	    /* threads with markers or counters, by host, pid, tid and start */
	size_t used_count;
	uint32_t *item_of; /* by thread */
};

static void marking_release(struct marking *marking)
{
	map64_release(&marking->by_key);
	map64_release(&marking->lived);
	mem_free(marking->used);
	mem_free(marking->item_of);
}

DEFINE_ORDER_OF_PLACES(compare_marked, struct profile_thread,
		       ORDER(a->host, b->host) ?: ORDER(a->pid, b->pid) ?: ORDER(a->tid, b->tid) ?:
			       ORDER(a->start_ns, b->start_ns));

static int find_used(struct marking *marking)
{
	const struct profile_markers *markers = marking->markers;
	_cleanup_(mem_freep) bool *is_used = mem_zalloc_array(markers->thread_count, sizeof(*is_used));
	marking->used = mem_alloc_array(markers->thread_count, sizeof(*marking->used));
	marking->item_of = mem_zalloc_array(markers->thread_count, sizeof(*marking->item_of));
	if (!is_used || !marking->used || !marking->item_of)
		return -ENOMEM;
	for (size_t i = 0; i < markers->marker_count; i++)
		is_used[markers->markers[i].thread] = true;
	for (size_t i = 1; i < markers->counter_count; i++)
		is_used[markers->counters[i].thread] |= markers->counters[i].thread != 0;
	for (uint32_t i = 0; i < markers->thread_count; i++)
		if (is_used[i])
			marking->used[marking->used_count++] = i;
	sort_array_by(marking->used, marking->used_count, compare_marked, markers->threads);
	return 0;
}

static int add_item(struct marking *marking, const struct sample_thread *item)
{
	struct sample_threads *threads = marking->threads;
	int r = array_push(&threads->items, &threads->count, &marking->capacity, SIZE_MAX / sizeof(*item), *item);
	return r < 0 ? -ENOMEM : 0;
}

/* The samples of `first` from this time on become those of the next owner of its tid. */
static void part_samples(const struct marking *marking, struct sample_thread *first, int64_t from_ns,
			 struct sample_thread *next)
{
	size_t kept = 0;
	while (kept < first->count && marking->profile->samples[marking->threads->order[first->first + kept]].time_ns < from_ns)
		kept++;
	next->first = first->first + kept;
	next->count = first->count - kept;
	first->count = kept;
}

static int mark_thread(struct marking *marking, uint32_t id, const struct profile_thread *before)
{
	const struct profile_thread *thread = &marking->markers->threads[id];
	struct sample_threads *threads = marking->threads;
	struct sample_thread item = {
		.pid = thread->pid, .tid = thread->tid, .has_pid = id != 0, .has_tid = id != 0, .marked = id};
	if (threads->has_hosts)
		item.host = marking->markers->hosts[thread->host].name;
	uint64_t key = key_of(&item), known;
	bool is_known = map64_get(&marking->by_key, key, &known),
	     has_lived = map64_get(&marking->lived, sample_thread_key(item.host, item.pid, item.tid), &(uint64_t){0});
	/* One whose start is not known is the first that has one. */
	if (is_known && !has_lived && before && before->start_ns && before->host == thread->host &&
	    before->pid == thread->pid && before->tid == thread->tid) {
		item.reuse = threads->items[known].reuse + 1;
		item.process = threads->items[known].process;
		part_samples(marking, &threads->items[known], thread->start_ns, &item);
		is_known = false;
	}
	if (!is_known) {
		known = threads->count;
		if (add_item(marking, &item) < 0 || map64_put(&marking->by_key, key, known) < 0)
			return -ENOMEM;
	}
	struct sample_thread *found = &threads->items[known];
	found->marked = id;
	if (thread->name)
		found->name = thread->name;
	if (!found->process)
		found->process = thread->process;
	marking->item_of[id] = (uint32_t)known;
	return 0;
}

/* Viewers name a process after its main thread, so there is one, with or without samples. */
static int add_main_threads(struct marking *marking)
{
	struct sample_threads *threads = marking->threads;
	for (size_t i = 0, count = threads->count; i < count; i++) {
		const struct sample_thread *thread = &threads->items[i];
		struct sample_thread main_thread = {.host = thread->host,
						    .pid = thread->pid,
						    .tid = thread->pid,
						    .has_pid = true,
						    .has_tid = true,
						    .process = thread->process};
		uint64_t known, key = key_of(&main_thread);
		if (!thread->has_pid || !thread->has_tid || map64_get(&marking->by_key, key, &known))
			continue;
		if (map64_put(&marking->by_key, key, threads->count) < 0 || add_item(marking, &main_thread) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int64_t order_time(const struct profile_marker *marker)
{
	return marker->phase == PROFILE_MARKER_END ? marker->end_ns : marker->start_ns;
}

/* At one time, the outer span first. */
DEFINE_ORDER_OF_PLACES(compare_marker_times, struct profile_marker,
		       ORDER(order_time(a), order_time(b)) ?: ORDER(b->end_ns, a->end_ns) ?: ORDER(a, b));

/* The place of an item before and after sorting differ; threads of the profile lead to the place before. */
static int order_markers(struct marking *marking, const uint32_t *place)
{
	const struct profile_markers *markers = marking->markers;
	struct sample_threads *threads = marking->threads;
	size_t at = 0;
	threads->marker_order = mem_alloc_array(markers->marker_count, sizeof(*threads->marker_order));
	if (!threads->marker_order)
		return -ENOMEM;
	for (size_t i = 0; i < markers->marker_count; i++)
		threads->items[place[marking->item_of[markers->markers[i].thread]]].marker_count++;
	for (size_t t = 0; t < threads->count; t++) {
		threads->items[t].marker_first = at;
		at += threads->items[t].marker_count;
		threads->items[t].marker_count = 0;
	}
	for (size_t i = 0; i < markers->marker_count; i++) {
		struct sample_thread *thread = &threads->items[place[marking->item_of[markers->markers[i].thread]]];
		threads->marker_order[thread->marker_first + thread->marker_count++] = (uint32_t)i;
	}
	for (size_t t = 0; t < threads->count; t++)
		sort_array_by(threads->marker_order + threads->items[t].marker_first, threads->items[t].marker_count,
			      compare_marker_times, markers->markers);
	return 0;
}

static int add_marked(struct marking *marking)
{
	struct sample_threads *threads = marking->threads;
	const struct profile_thread *before = NULL;
	int r = 0;
	for (size_t i = 0; r == 0 && i < threads->count; i++)
		r = map64_put(&marking->by_key, key_of(&threads->items[i]), i);
	if (r == 0 && marking->markers)
		r = sample_threads_find_lifetimes(marking->profile, threads->has_hosts, &marking->lived);
	if (r == 0 && marking->markers)
		r = find_used(marking);
	for (size_t i = 0; r == 0 && i < marking->used_count; i++) {
		r = mark_thread(marking, marking->used[i], before);
		before = &marking->markers->threads[marking->used[i]];
	}
	return r < 0 ? r : add_main_threads(marking);
}

int sample_threads_add_markers(const struct profile *profile, struct sample_threads *threads, struct error *err)
{
	_cleanup_(marking_release) struct marking marking = {
		.profile = profile, .markers = profile->markers, .threads = threads, .capacity = threads->count};
	if (add_marked(&marking) < 0)
		return error_nomem(err);
	_cleanup_(mem_freep) uint32_t *place = mem_alloc_array(threads->count, sizeof(*place));
	if (!place)
		return error_nomem(err);
	/* marker_first is free until the markers are in order. */
	for (size_t i = 0; i < threads->count; i++)
		threads->items[i].marker_first = i;
	sort_array(threads->items, threads->count, sample_threads_compare);
	for (size_t i = 0; i < threads->count; i++)
		place[threads->items[i].marker_first] = (uint32_t)i;
	for (size_t i = 0; i < threads->count; i++)
		threads->items[i].marker_first = 0;
	if (marking.markers && order_markers(&marking, place) < 0)
		return error_nomem(err);
	return sample_threads_part(profile, threads) < 0 ? error_nomem(err) : 0;
}

void sample_threads_release(struct sample_threads *threads)
{
	threads->marker_order = mem_free(threads->marker_order);
	threads->items = mem_free(threads->items);
	threads->order = mem_free(threads->order);
	threads->count = 0;
}
