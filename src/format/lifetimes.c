/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads by their lifetimes (profile/markers.h): what is one thread by its pid and tid becomes one for each time that it was
 * begun anew, by an exec or because the number was given to another one.
 *
 * Samples and markers of a thread are in the order of time, so that each part has a stretch of both. A sample belongs to the
 * last lifetime that began before it: also the first ones, if their start is not known, and what comes a little behind an end.
 *
 * A program that was run and never sampled has a main thread without samples, for it shows what the process did. What a process
 * was between its fork and its first exec has one only if there is something in it.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sorted.h"
#include "format/format_int.h"
#include "profile/markers.h"

struct parting {
	const struct profile *profile;
	const struct profile_markers *markers;
	struct sample_threads *threads;
	uint32_t *order; /* lifetimes by host, pid, tid and start */
	size_t order_count;
	struct sample_thread *items; /* what they become */
	size_t count, capacity;
};
/* In order[]. */
struct span {
	size_t first, count;
};

static void parting_release(struct parting *parting)
{
	mem_free(parting->order);
	mem_free(parting->items);
}

uint64_t sample_thread_key(uint32_t host, int64_t pid, int64_t tid)
{
	int64_t parts[] = {host, pid, tid};
	return hash64_guarded(parts, sizeof(parts));
}

/* As threads say it. */
static uint32_t host_of(const struct profile *profile, bool has_hosts, const struct profile_lifetime *lifetime)
{
	return has_hosts ? profile->markers->hosts[lifetime->host].name : 0;
}

int sample_threads_find_lifetimes(const struct profile *profile, bool has_hosts, struct map64 *ret)
{
	const struct profile_markers *markers = profile->markers;
	int r = 0;
	for (size_t i = 1; r == 0 && i < markers->lifetime_count; i++) {
		const struct profile_lifetime *lifetime = &markers->lifetimes[i];
		r = map64_put(ret, sample_thread_key(host_of(profile, has_hosts, lifetime), lifetime->pid, lifetime->tid), i);
	}
	return r;
}

static const struct profile_lifetime *lifetime_at(const struct parting *parting, size_t place)
{
	return &parting->markers->lifetimes[parting->order[place]];
}

static int compare_ids(const struct parting *parting, const struct profile_lifetime *lifetime, uint32_t host, int64_t pid,
		       int64_t tid)
{
	return ORDER(host_of(parting->profile, parting->threads->has_hosts, lifetime), host) ?: ORDER(lifetime->pid, pid) ?:
		ORDER(lifetime->tid, tid);
}

static int compare_lifetimes(const void *a, const void *b, void *context)
{
	const struct parting *parting = context;
	const struct profile_lifetime *x = &parting->markers->lifetimes[*(const uint32_t *)a],
				      *y = &parting->markers->lifetimes[*(const uint32_t *)b];
	return compare_ids(parting, x, host_of(parting->profile, parting->threads->has_hosts, y), y->pid, y->tid) ?:
		ORDER(x->start_ns, y->start_ns) ?: ORDER(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* How many come before a thread's, or up to their end. */
static size_t count_before(const struct parting *parting, uint32_t host, int64_t pid, int64_t tid, bool with_its_own)
{
	return sorted_count_while(parting->order_count, i,
				  compare_ids(parting, lifetime_at(parting, i), host, pid, tid) < (with_its_own ? 1 : 0));
}

/* The lifetimes of a thread. */
static struct span find_span(const struct parting *parting, uint32_t host, int64_t pid, int64_t tid)
{
	size_t first = count_before(parting, host, pid, tid, false);
	return (struct span){first, count_before(parting, host, pid, tid, true) - first};
}

/* Which lifetime of a thread a time is of. */
static size_t lifetime_of_time(const struct parting *parting, struct span lifetimes, int64_t time_ns)
{
	size_t begun = sorted_count_while(lifetimes.count, i, lifetime_at(parting, lifetimes.first + i)->start_ns <= time_ns);
	return begun > 0 ? begun - 1 : 0;
}

static int add_item(struct parting *parting, const struct sample_thread *item)
{
	int r = array_push(&parting->items, &parting->count, &parting->capacity, SIZE_MAX / sizeof(*item), *item);
	return r < 0 ? -ENOMEM : 0;
}

/* Its names, as of this part: of its markers, of its last sample, or of the program. */
static void name_part(const struct parting *parting, const struct sample_thread *whole, struct sample_thread *part)
{
	const struct profile *profile = parting->profile;
	struct sample_thread of_sample = {0};
	uint32_t program = part->process_lifetime ? parting->markers->lifetimes[part->process_lifetime].program : 0;
	if (part->count) {
		const uint32_t last = parting->threads->order[part->first + part->count - 1];
		sample_thread_read_labels(profile, profile->resource_labels, &of_sample);
		sample_thread_read_labels(profile, profile->samples[last].labels, &of_sample);
	}
	part->marked =
		part->marker_count ? parting->markers->markers[parting->threads->marker_order[part->marker_first]].thread : 0;
	uint32_t marked_name = parting->markers->threads[part->marked].name;
	part->process = of_sample.process ? of_sample.process : program ? program : whole->process;
	part->name = marked_name ? marked_name : of_sample.name ? of_sample.name : 0;
	if (!part->name)
		part->name = part->tid == part->pid ? program : whole->name;
}

/* Within a part there may be other names as well. */
static void find_other_names(const struct parting *parting, struct sample_thread *part)
{
	const struct profile *profile = parting->profile;
	uint32_t labels = UINT32_MAX, name = 0, process = 0;
	part->renamed = part->has_executed = false;
	for (size_t i = 0; i < part->count; i++) {
		struct sample_thread of_sample = {0};
		uint32_t set = profile->samples[parting->threads->order[part->first + i]].labels;
		if (set == labels)
			continue;
		labels = set;
		sample_thread_read_labels(profile, set, &of_sample);
		part->renamed |= name && of_sample.name && of_sample.name != name;
		part->has_executed |= process && of_sample.process && of_sample.process != process;
		name = of_sample.name ? of_sample.name : name;
		process = of_sample.process ? of_sample.process : process;
	}
}

static int64_t time_of_marker(const struct parting *parting, size_t place)
{
	const struct profile_marker *marker = &parting->markers->markers[parting->threads->marker_order[place]];
	return marker->phase == PROFILE_MARKER_END ? marker->end_ns : marker->start_ns;
}

/* Takes off `rest` what comes before the time. */
static void cut(const struct parting *parting, int64_t until_ns, struct sample_thread *rest, struct sample_thread *part)
{
	const struct sample_threads *threads = parting->threads;
	part->first = rest->first;
	part->marker_first = rest->marker_first;
	part->count = part->marker_count = 0;
	while (part->count < rest->count &&
	       parting->profile->samples[threads->order[part->first + part->count]].time_ns < until_ns)
		part->count++;
	while (part->marker_count < rest->marker_count &&
	       time_of_marker(parting, part->marker_first + part->marker_count) < until_ns)
		part->marker_count++;
	rest->first += part->count;
	rest->count -= part->count;
	rest->marker_first += part->marker_count;
	rest->marker_count -= part->marker_count;
}

/* The next lifetime from `at` on that there is something in. Of main threads all are wanted: drop_spare() decides. */
static size_t next_part(const struct parting *parting, struct span cuts, size_t at, const struct sample_thread *rest)
{
	const struct sample_threads *threads = parting->threads;
	if (cuts.count == 1 || rest->tid == rest->pid)
		return at;
	if (!rest->count && !rest->marker_count)
		return cuts.count;
	int64_t next_ns = rest->count ? parting->profile->samples[threads->order[rest->first]].time_ns : INT64_MAX;
	if (rest->marker_count && time_of_marker(parting, rest->marker_first) < next_ns)
		next_ns = time_of_marker(parting, rest->marker_first);
	size_t next = lifetime_of_time(parting, cuts, next_ns);
	return next > at ? next : at;
}

static int part_thread(struct parting *parting, const struct sample_thread *whole)
{
	struct span programs = find_span(parting, whole->host, whole->pid, whole->pid),
		    own = find_span(parting, whole->host, whole->pid, whole->tid), cuts = own.count ? own : programs;
	struct sample_thread rest = *whole;
	int r = 0;
	for (size_t i = 0; r == 0 && (i = next_part(parting, cuts, i, &rest)) < cuts.count; i++) {
		struct sample_thread part = *whole;
		int64_t start_ns = lifetime_at(parting, cuts.first + i)->start_ns;
		cut(parting, i + 1 < cuts.count ? lifetime_at(parting, cuts.first + i + 1)->start_ns : INT64_MAX, &rest, &part);
		size_t program = cuts.first == programs.first ? i
				 : programs.count	      ? lifetime_of_time(parting, programs, start_ns)
							      : 0;
		part.lifetime = own.count ? parting->order[own.first + i] : 0;
		part.process_lifetime = programs.count ? parting->order[programs.first + program] : 0;
		part.exec = (uint32_t)program;
		part.reuse = (uint32_t)i;
		name_part(parting, whole, &part);
		if (cuts.count == 1) { /* nothing was cut off: what is known of it holds */
			part.marked = whole->marked;
			part.name = whole->name ? whole->name : part.name;
		} else {
			find_other_names(parting, &part);
		}
		r = add_item(parting, &part);
	}
	return r;
}

static bool is_same_process(const struct sample_thread *a, const struct sample_thread *b)
{
	return a->host == b->host && a->has_pid == b->has_pid && a->pid == b->pid;
}

/* A main thread alone, with nothing in it, which is there since a fork. */
static bool is_spare(const struct parting *parting, size_t i)
{
	const struct sample_thread *item = &parting->items[i];
	if (item->count || item->marker_count || !item->lifetime || item->tid != item->pid ||
	    parting->markers->lifetimes[item->lifetime].by_exec)
		return false;
	const struct sample_thread *before = i > 0 ? item - 1 : NULL, *behind = i + 1 < parting->count ? item + 1 : NULL;
	return (!before || !is_same_process(before, item) || before->exec != item->exec) &&
	       (!behind || !is_same_process(behind, item) || behind->exec != item->exec);
}

/* Processes that are nothing but spare keep what they have. */
static void drop_spare(struct parting *parting, bool *is_dropped)
{
	for (size_t i = 0, end; i < parting->count; i = end) {
		size_t spare = 0;
		for (end = i; end < parting->count && is_same_process(&parting->items[i], &parting->items[end]); end++)
			spare += is_dropped[end] = is_spare(parting, end);
		if (spare == end - i)
			memset(is_dropped + i, false, end - i);
	}
	size_t kept = 0;
	for (size_t i = 0; i < parting->count; i++)
		if (!is_dropped[i])
			parting->items[kept++] = parting->items[i];
	parting->count = kept;
}

/* Without gaps: programs of a process, and owners of a tid. */
static int number_parts(struct parting *parting)
{
	_cleanup_(map64_release) struct map64 reuses = {0};
	uint32_t exec = 0, before = 0;
	for (size_t i = 0; i < parting->count; i++) {
		struct sample_thread *item = &parting->items[i];
		uint64_t reuse, key = sample_thread_key(item->host, item->pid, item->tid);
		bool is_first = i == 0 || !is_same_process(item - 1, item);
		exec = is_first ? 0 : exec + (item->exec != before);
		before = item->exec;
		item->exec = exec;
		if (!item->lifetime && !item->process_lifetime)
			continue;
		item->reuse = map64_get(&reuses, key, &reuse) ? (uint32_t)reuse + 1 : 0;
		if (map64_put(&reuses, key, item->reuse) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int sort_lifetimes(struct parting *parting)
{
	size_t count = parting->markers->lifetime_count;
	parting->order = mem_alloc_array(count, sizeof(*parting->order));
	if (!parting->order)
		return -ENOMEM;
	for (uint32_t i = 1; i < count; i++)
		parting->order[parting->order_count++] = i;
	sort_array_by(parting->order, parting->order_count, compare_lifetimes, parting);
	return 0;
}

int sample_threads_part(const struct profile *profile, struct sample_threads *threads)
{
	if (!profile->markers || profile->markers->lifetime_count < 2)
		return 0;
	_cleanup_(parting_release) struct parting parting = {
		.profile = profile, .markers = profile->markers, .threads = threads};
	int r = sort_lifetimes(&parting);
	for (size_t i = 0; r == 0 && i < threads->count; i++) {
		const struct sample_thread *item = &threads->items[i];
		bool is_known = item->has_pid && item->has_tid &&
				(find_span(&parting, item->host, item->pid, item->tid).count ||
				 find_span(&parting, item->host, item->pid, item->pid).count);
		r = is_known ? part_thread(&parting, item) : add_item(&parting, item);
	}
	if (r < 0)
		return r;
	_cleanup_(mem_freep) bool *is_dropped = mem_zalloc_array(parting.count + 1, sizeof(*is_dropped));
	if (!is_dropped)
		return -ENOMEM;
	sort_array(parting.items, parting.count, sample_threads_compare);
	drop_spare(&parting, is_dropped);
	r = number_parts(&parting);
	if (r < 0)
		return r;
	sort_array(parting.items, parting.count, sample_threads_compare);
	mem_free(threads->items);
	threads->items = TAKE(parting.items);
	threads->count = parting.count;
	return 0;
}
