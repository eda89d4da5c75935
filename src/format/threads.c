/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples by thread, for formats that show each thread by itself. A thread is what its labels say: process.pid and thread.id,
 * or thread.name where there is no id, or the process where there is neither.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/text.h"
#include "format/format_int.h"

static bool read_number(const struct profile *profile, const struct profile_label *label, int64_t *ret)
{
	*ret = label->number;
	if (!label->value || text_parse_i64(profile_string(profile, label->value), ret, NULL) == 0)
		return true;
	*ret = 0;
	return false;
}

static void read_labels(const struct profile *profile, uint32_t set, struct sample_thread *ret)
{
	const struct profile_label_set *labels = &profile->label_sets[set];
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *label = &profile->labels[labels->first + i];
		const char *key = profile_string(profile, label->key);
		if (strcmp(key, "process.pid") == 0)
			ret->has_pid = read_number(profile, label, &ret->pid);
		else if (strcmp(key, "thread.id") == 0)
			ret->has_tid = read_number(profile, label, &ret->tid);
		else if (strcmp(key, "thread.name") == 0)
			ret->name = label->value;
		else if (strcmp(key, "process.executable.name") == 0)
			ret->process = label->value;
		else if (strcmp(key, "process.comm") == 0 && !ret->process)
			ret->process = label->value;
	}
}

static uint64_t key_of(const struct sample_thread *thread)
{
	uint64_t parts[] = {(uint64_t)thread->pid, (uint64_t)thread->tid, thread->has_tid ? 0 : thread->name, thread->has_pid,
			    thread->has_tid};
	return hash64_guarded(parts, sizeof(parts));
}

/* The thread of each label set. */
static int find_threads(const struct profile *profile, struct sample_threads *threads, uint32_t *of_set)
{
	_cleanup_(map64_release) struct map64 map;
	map64_init(&map);
	size_t capacity = 0;
	for (uint32_t set = 0; set < profile->label_set_count; set++) {
		struct sample_thread thread = {0};
		uint64_t known;
		read_labels(profile, profile->resource_labels, &thread);
		read_labels(profile, set, &thread);
		uint64_t key = key_of(&thread);
		if (!map64_get(&map, key, &known)) {
			known = threads->count;
			if (map64_put(&map, key, known) < 0 ||
			    array_reserve(&threads->items, &capacity, threads->count + 1, SIZE_MAX) < 0)
				return -ENOMEM;
			threads->items[threads->count++] = thread;
		}
		/* Threads rename themselves; the last name tells most. */
		threads->items[known].renamed |= thread.name && threads->items[known].name != thread.name;
		if (thread.name)
			threads->items[known].name = thread.name;
		of_set[set] = (uint32_t)known;
	}
	return 0;
}

static int compare_times(const void *a, const void *b, void *context)
{
	const struct profile_sample *samples = context, *x = &samples[*(const uint32_t *)a],
				    *y = &samples[*(const uint32_t *)b];
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

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
		if (threads->items[t].count > 1)
			qsort_r(threads->order + threads->items[t].first, threads->items[t].count, sizeof(*threads->order),
				compare_times, profile->samples);
}

static int compare_threads(const void *a, const void *b)
{
	const struct sample_thread *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->has_pid != y->has_pid)
		return x->has_pid ? 1 : -1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
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
	qsort(threads.items, threads.count, sizeof(*threads.items), compare_threads);
	/* Label sets that no sample has. */
	size_t used = 0;
	for (size_t t = 0; t < threads.count; t++)
		if (threads.items[t].count > 0)
			threads.items[used++] = threads.items[t];
	threads.count = used;
	*ret = threads;
	return 0;
}

void sample_threads_release(struct sample_threads *threads)
{
	threads->items = mem_free(threads->items);
	threads->order = mem_free(threads->order);
	threads->count = 0;
}
