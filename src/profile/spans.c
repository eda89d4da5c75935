/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk. Spans are sorted by start, the outer of two that start together first; samples by time. For each sample the spans
 * that have begun are put on top of a list, one list a thread and one a process. Since they come by their starts, each list is
 * in the order of nesting, innermost on top, also where spans overlap without nesting. A span that has ended is taken out when
 * a search comes across it, once; it need not be on top. A sample looks at no more spans than it is asked for, besides those
 * that it takes out.
 */
#include "profile/spans.h"

#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/text.h"
#include "profile/filter.h"
#include "profile/markers.h"
#include "profile/profile_int.h"

#define NONE	  UINT32_MAX
#define PATH_JOIN " > "

struct span {
	int64_t start_ns, end_ns;
	uint32_t name;	 /* string */
	uint32_t marker; /* the start's, or the end's if there is no start */
	uint32_t list;	 /* of heads */
	uint32_t below;	 /* span in the same list; NONE = none */
};

struct walk {
	const struct profile *profile;
	const struct profile_markers *markers;
	const bool *wanted; /* by string, NULL = all */
	uint32_t *order;    /* threads by host, pid, tid, start; without thread 0 */
	uint32_t *process;  /* by place in order: the first place of its host and pid */
	size_t thread_count;
	uint32_t *places; /* by label set: the first place in order of its host, pid and tid; NONE = none */
	uint32_t *pids;	  /* by label set: the first place of its host and pid; NONE = none */
	uint32_t *place_of_thread;
	uint32_t *host_of_name; /* by string, NULL = there are not several hosts */
	struct span *spans;
	size_t span_count, span_capacity;
	size_t begun;	   /* spans that are in a list, or were */
	uint32_t *heads;   /* by place in order, those of processes behind those of threads */
	uint32_t *samples; /* those that have a time, by it */
	size_t sample_count;
};

static void walk_release(struct walk *walk)
{
	mem_free(walk->order);
	mem_free(walk->process);
	mem_free(walk->places);
	mem_free(walk->pids);
	mem_free(walk->place_of_thread);
	mem_free(walk->host_of_name);
	mem_free(walk->spans);
	mem_free(walk->heads);
	mem_free(walk->samples);
}

/* ---- threads ---- */

/* Of one host, whatever it is called: threads and samples need not both say. */
static bool has_hosts(const struct profile_markers *markers)
{
	return markers->host_count > 2;
}

static uint32_t host_of(const struct profile_markers *markers, const struct profile_thread *thread)
{
	return has_hosts(markers) ? thread->host : 0;
}

static int compare_ids(const struct profile_markers *markers, const struct profile_thread *x, const struct profile_thread *y)
{
	uint32_t x_host = host_of(markers, x), y_host = host_of(markers, y);
	return ORDER(x_host, y_host) ?: ORDER(x->pid, y->pid) ?: ORDER(x->tid, y->tid);
}

static bool is_same_process(const struct profile_markers *markers, const struct profile_thread *x,
			    const struct profile_thread *y)
{
	return host_of(markers, x) == host_of(markers, y) && x->pid == y->pid;
}

static int compare_threads(const void *a, const void *b, void *context)
{
	const struct profile_markers *markers = context;
	const struct profile_thread *x = &markers->threads[*(const uint32_t *)a], *y = &markers->threads[*(const uint32_t *)b];
	return compare_ids(markers, x, y) ?: ORDER(x->start_ns, y->start_ns);
}

static int sort_threads(struct walk *walk, struct error *err)
{
	const struct profile_markers *markers = walk->markers;
	walk->order = mem_alloc_array(markers->thread_count, sizeof(*walk->order));
	walk->process = mem_alloc_array(markers->thread_count, sizeof(*walk->process));
	walk->place_of_thread = mem_alloc_array(markers->thread_count, sizeof(*walk->place_of_thread));
	walk->heads = mem_alloc_array(2 * markers->thread_count, sizeof(*walk->heads));
	if (!walk->order || !walk->process || !walk->place_of_thread || !walk->heads)
		return error_nomem(err);
	for (uint32_t i = 1; i < markers->thread_count; i++)
		walk->order[walk->thread_count++] = i;
	sort_array_by(walk->order, walk->thread_count, compare_threads, markers);
	walk->place_of_thread[0] = NONE;
	for (uint32_t i = 0; i < walk->thread_count; i++) {
		bool same = i > 0 &&
			    is_same_process(markers, &markers->threads[walk->order[i - 1]], &markers->threads[walk->order[i]]);
		walk->process[i] = same ? walk->process[i - 1] : i;
		walk->place_of_thread[walk->order[i]] = i;
	}
	memset(walk->heads, 0xff, 2 * markers->thread_count * sizeof(*walk->heads));
	return 0;
}

/* The first place at or behind this host, pid and tid. */
static uint32_t find_place(const struct walk *walk, const struct profile_thread *thread)
{
	return (uint32_t)sorted_count_while(walk->thread_count, i,
					    compare_ids(walk->markers, &walk->markers->threads[walk->order[i]], thread) < 0);
}

static bool read_number(const struct profile *profile, const struct profile_label *label, int64_t *ret)
{
	*ret = label->number;
	return !label->value || text_parse_i64(profile_string(profile, label->value), ret, NULL) == 0;
}

static int number_hosts(struct walk *walk, struct error *err)
{
	const struct profile_markers *markers = walk->markers;
	if (!has_hosts(markers))
		return 0;
	walk->host_of_name = mem_zalloc_array(walk->profile->strings.count, sizeof(*walk->host_of_name));
	if (!walk->host_of_name)
		return error_nomem(err);
	for (uint32_t i = 1; i < markers->host_count; i++)
		walk->host_of_name[markers->hosts[i].name] = i;
	return 0;
}

/* What a set says of a thread; *has_pid, *has_tid only ever become true. */
static void read_labels(const struct walk *walk, uint32_t set, struct profile_thread *ret, bool *has_pid, bool *has_tid)
{
	const struct profile *profile = walk->profile;
	const struct profile_label_set *labels = &profile->label_sets[set];
	for (uint32_t i = 0; i < labels->count; i++) {
		const struct profile_label *label = &profile->labels[labels->first + i];
		const char *key = profile_string(profile, label->key);
		if (strcmp(key, "host.name") == 0)
			ret->host = walk->host_of_name ? walk->host_of_name[label->value] : 0;
		else if (strcmp(key, "process.pid") == 0)
			*has_pid |= read_number(profile, label, &ret->pid);
		else if (strcmp(key, "thread.id") == 0)
			*has_tid |= read_number(profile, label, &ret->tid);
	}
}

static int place_label_sets(struct walk *walk, struct error *err)
{
	const struct profile *profile = walk->profile;
	const struct profile_markers *markers = walk->markers;
	walk->places = mem_alloc_array(profile->label_set_count, sizeof(*walk->places));
	walk->pids = mem_alloc_array(profile->label_set_count, sizeof(*walk->pids));
	if (!walk->places || !walk->pids || number_hosts(walk, err) < 0)
		return error_nomem(err);
	for (uint32_t set = 0; set < profile->label_set_count; set++) {
		struct profile_thread thread = {0};
		bool has_pid = false, has_tid = false;
		read_labels(walk, profile->resource_labels, &thread, &has_pid, &has_tid);
		read_labels(walk, set, &thread, &has_pid, &has_tid);
		struct profile_thread first = thread;
		first.tid = INT64_MIN;
		uint32_t pid = find_place(walk, &first), place = find_place(walk, &thread);
		bool knows_pid = has_pid && pid < walk->thread_count &&
				 is_same_process(markers, &markers->threads[walk->order[pid]], &thread);
		bool knows_tid = knows_pid && has_tid && place < walk->thread_count &&
				 compare_ids(markers, &markers->threads[walk->order[place]], &thread) == 0;
		walk->pids[set] = knows_pid ? pid : NONE;
		walk->places[set] = knows_tid ? place : NONE;
	}
	return 0;
}

/* The last of a tid's threads that had begun; the first, if none had. */
static uint32_t place_at(const struct walk *walk, uint32_t place, int64_t time_ns)
{
	const struct profile_thread *threads = walk->markers->threads, *first = &threads[walk->order[place]];
	while (place + 1 < walk->thread_count) {
		const struct profile_thread *next = &threads[walk->order[place + 1]];
		if (compare_ids(walk->markers, next, first) != 0 || next->start_ns > time_ns)
			break;
		place++;
	}
	return place;
}

/* ---- spans ---- */

static bool is_wanted(const struct walk *walk, const struct profile_marker *marker)
{
	return !walk->wanted || walk->wanted[marker->name] || walk->wanted[walk->markers->categories[marker->category].name];
}

static int add_span(struct walk *walk, uint32_t number, bool of_process, int64_t start_ns, int64_t end_ns, struct error *err)
{
	const struct profile_marker *marker = &walk->markers->markers[number];
	uint32_t place = walk->place_of_thread[marker->thread];
	if (!is_wanted(walk, marker))
		return 0;
	if (array_reserve(&walk->spans, &walk->span_capacity, walk->span_count + 1, UINT32_MAX - 1) < 0)
		return error_nomem(err);
	if (of_process)
		place = walk->process[place] + (uint32_t)walk->markers->thread_count;
	walk->spans[walk->span_count++] = (struct span){
		.start_ns = start_ns, .end_ns = end_ns, .name = marker->name, .marker = number, .list = place, .below = NONE};
	return 0;
}

/* Starts and ends that are markers of their own: by process, name and time, a start before an end. */
struct edge {
	int64_t time_ns;
	uint32_t process, name, marker;
	bool is_end;
};

DEFINE_ORDER(compare_edges, struct edge,
	     ORDER(a->process, b->process) ?: ORDER(a->name, b->name) ?: ORDER(a->time_ns, b->time_ns) ?:
		     ORDER(a->is_end, b->is_end) ?: ORDER(a->marker, b->marker));

/* open[]: room for all edges. */
static int pair_edges(struct walk *walk, struct edge *edges, size_t count, uint32_t *open, struct error *err)
{
	size_t depth = 0;
	int r = 0;
	sort_array(edges, count, compare_edges);
	for (size_t i = 0; r == 0 && i < count; i++) {
		const struct edge *edge = &edges[i];
		if (!edge->is_end) {
			open[depth++] = (uint32_t)i;
		} else {
			const struct edge *start = depth > 0 ? &edges[open[--depth]] : NULL;
			r = add_span(walk, start ? start->marker : edge->marker, true, start ? start->time_ns : INT64_MIN,
				     edge->time_ns, err);
		}
		bool is_last = i + 1 == count || edges[i + 1].process != edge->process || edges[i + 1].name != edge->name;
		while (r == 0 && is_last && depth > 0) {
			const struct edge *start = &edges[open[--depth]];
			r = add_span(walk, start->marker, true, start->time_ns, INT64_MAX, err);
		}
	}
	return r;
}

DEFINE_ORDER(compare_spans, struct span,
	     ORDER(a->start_ns, b->start_ns) ?: ORDER(b->end_ns, a->end_ns) ?: ORDER(a->marker, b->marker));

static int find_spans(struct walk *walk, struct error *err)
{
	const struct profile_markers *markers = walk->markers;
	_cleanup_(mem_freep) struct edge *edges = NULL;
	size_t edge_count = 0, edge_capacity = 0;
	int r = 0;
	for (uint32_t i = 0; r == 0 && i < markers->marker_count; i++) {
		const struct profile_marker *marker = &markers->markers[i];
		if (marker->thread == 0 || marker->phase == PROFILE_MARKER_INSTANT)
			continue;
		if (marker->phase == PROFILE_MARKER_INTERVAL) {
			r = add_span(walk, i, marker->of_process, marker->start_ns, marker->end_ns, err);
			continue;
		}
		if (array_reserve(&edges, &edge_capacity, edge_count + 1, UINT32_MAX) < 0)
			return error_nomem(err);
		bool is_end = marker->phase == PROFILE_MARKER_END;
		edges[edge_count++] = (struct edge){.time_ns = is_end ? marker->end_ns : marker->start_ns,
						    .process = walk->process[walk->place_of_thread[marker->thread]],
						    .name = marker->name,
						    .marker = i,
						    .is_end = is_end};
	}
	_cleanup_(mem_freep) uint32_t *open = mem_alloc_array(edge_count + 1, sizeof(*open));
	if (!open)
		return error_nomem(err);
	if (r == 0)
		r = pair_edges(walk, edges, edge_count, open, err);
	if (r == 0)
		sort_array(walk->spans, walk->span_count, compare_spans);
	return r;
}

/* ---- samples ---- */

DEFINE_ORDER_OF_PLACES(compare_times, struct profile_sample, ORDER(a->time_ns, b->time_ns) ?: ORDER(a, b));

static int sort_samples(struct walk *walk, struct error *err)
{
	const struct profile *profile = walk->profile;
	walk->samples = mem_alloc_array(profile->sample_count + 1, sizeof(*walk->samples));
	if (!walk->samples)
		return error_nomem(err);
	for (size_t i = 0; i < profile->sample_count; i++)
		if (profile->samples[i].time_ns != 0)
			walk->samples[walk->sample_count++] = (uint32_t)i;
	sort_array_by(walk->samples, walk->sample_count, compare_times, profile->samples);
	return 0;
}

static int walk_init(struct walk *walk, struct error *err)
{
	walk->markers = walk->profile->markers;
	int r = sort_threads(walk, err);
	if (r == 0)
		r = place_label_sets(walk, err);
	if (r == 0)
		r = find_spans(walk, err);
	return r < 0 ? r : sort_samples(walk, err);
}

static void begin_spans(struct walk *walk, int64_t time_ns)
{
	for (; walk->begun < walk->span_count && walk->spans[walk->begun].start_ns <= time_ns; walk->begun++) {
		struct span *span = &walk->spans[walk->begun];
		span->below = walk->heads[span->list];
		walk->heads[span->list] = (uint32_t)walk->begun;
	}
}

/* The first span at or below *link that lasts; takes out those that do not. */
static uint32_t lasting(struct walk *walk, uint32_t *link, int64_t time_ns)
{
	while (*link != NONE && walk->spans[*link].end_ns <= time_ns)
		*link = walk->spans[*link].below;
	return *link;
}

/* The spans that a sample is in, innermost first, max at most: their numbers in the order of their starts. Samples come by
 * their times. */
static size_t spans_of_sample(struct walk *walk, uint32_t sample, size_t max, uint32_t *ret)
{
	const struct profile_sample *at = &walk->profile->samples[sample];
	uint32_t place = walk->places[at->labels], pid = walk->pids[at->labels], none[2] = {NONE, NONE};
	begin_spans(walk, at->time_ns);
	uint32_t *own = place == NONE ? &none[0] : &walk->heads[place_at(walk, place, at->time_ns)],
		 *shared = pid == NONE ? &none[1] : &walk->heads[walk->markers->thread_count + pid];
	size_t count = 0;
	while (count < max) {
		uint32_t x = lasting(walk, own, at->time_ns), y = lasting(walk, shared, at->time_ns);
		if (x == NONE && y == NONE)
			break;
		bool is_own = y == NONE || (x != NONE && x > y);
		ret[count++] = is_own ? x : y;
		if (is_own)
			own = &walk->spans[x].below;
		else
			shared = &walk->spans[y].below;
	}
	return count;
}

/* ---- during ---- */

static bool is_kept(const void *context, const struct profile *profile, size_t sample)
{
	(void)profile;
	return ((const bool *)context)[sample];
}

int profile_filter_during(struct profile *profile, const char *const *names, size_t name_count,
			  struct profile_during_found *ret, struct error *err)
{
	_cleanup_(walk_release) struct walk walk = {.profile = profile};
	_cleanup_(mem_freep) bool *wanted = mem_zalloc_array(profile->strings.count, sizeof(*wanted));
	_cleanup_(mem_freep) bool *keep = mem_zalloc_array(profile->sample_count + 1, sizeof(*keep));
	*ret = (struct profile_during_found){0};
	if (!wanted || !keep)
		return error_nomem(err);
	for (size_t i = 0; i < name_count; i++) {
		uint32_t id;
		if (intern_find(&profile->strings, names[i], strlen(names[i]), &id))
			wanted[id] = id != 0;
	}
	walk.wanted = wanted;
	int r = profile->markers ? walk_init(&walk, err) : 0;
	if (r < 0)
		return r;
	for (size_t i = 0; i < profile->sample_count; i++)
		ret->without_time += profile->samples[i].time_ns == 0;
	ret->spans = walk.span_count;
	for (size_t i = 0; i < walk.sample_count; i++) {
		uint32_t span;
		keep[walk.samples[i]] = spans_of_sample(&walk, walk.samples[i], 1, &span) > 0;
	}
	profile_filter_samples(profile, is_kept, keep);
	return 0;
}

/* ---- labels ---- */

struct labelling {
	struct profile *profile;
	uint32_t span_key, path_key;
	struct map64 sets; /* label set and pair of names -> label set */
	struct map64 pairs;
	struct buffer path;
	struct profile_label *labels;
	size_t label_capacity;
};

static void labelling_release(struct labelling *labelling)
{
	map64_release(&labelling->sets);
	map64_release(&labelling->pairs);
	buffer_release(&labelling->path);
	mem_free(labelling->labels);
}

static int make_path(struct labelling *labelling, const struct walk *walk, const uint32_t *spans, size_t count, uint32_t *ret,
		     struct error *err)
{
	buffer_clear(&labelling->path);
	for (size_t i = count; i-- > 0;) {
		struct bytes name = profile_string_bytes(labelling->profile, walk->spans[spans[i]].name);
		if (buffer_append(&labelling->path, name.data, name.len) < 0 ||
		    (i > 0 && buffer_append_string(&labelling->path, PATH_JOIN) < 0))
			return error_nomem(err);
	}
	return profile_add_bytes(labelling->profile, buffer_bytes(&labelling->path), ret, err);
}

/* The set without old labels of these names, and with those of the span if there is one. */
static int make_set(struct labelling *labelling, uint32_t old, uint32_t name, uint32_t path, uint32_t *ret, struct error *err)
{
	struct profile *profile = labelling->profile;
	size_t count = profile->label_sets[old].count, kept = 0;
	if (array_reserve(&labelling->labels, &labelling->label_capacity, count + 2, SIZE_MAX) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		struct profile_label label = profile->labels[profile->label_sets[old].first + i];
		labelling->labels[kept] = label;
		kept += label.key != labelling->span_key && label.key != labelling->path_key;
	}
	if (path) {
		labelling->labels[kept++] = (struct profile_label){.key = labelling->span_key, .value = name};
		labelling->labels[kept++] = (struct profile_label){.key = labelling->path_key, .value = path};
	}
	return profile_add_label_set(profile, labelling->labels, kept, ret, err);
}

/* Sets the sample's labels; the set is made once for all samples that had one set and are in spans of the same names. */
static int label_sample(struct labelling *labelling, uint32_t sample, uint32_t name, uint32_t path, struct error *err)
{
	uint32_t *labels = &labelling->profile->samples[sample].labels, made;
	uint64_t pair, known, key = (uint64_t)name << 32 | path;
	if (!map64_get(&labelling->pairs, key, &pair)) {
		pair = labelling->pairs.count;
		if (map64_put(&labelling->pairs, key, pair) < 0)
			return error_nomem(err);
	}
	key = pair << 32 | *labels;
	if (!map64_get(&labelling->sets, key, &known)) {
		int r = make_set(labelling, *labels, name, path, &made, err);
		if (r < 0)
			return r;
		known = made;
		if (map64_put(&labelling->sets, key, known) < 0)
			return error_nomem(err);
	}
	*labels = (uint32_t)known;
	return 0;
}

int profile_label_spans(struct profile *profile, struct error *err)
{
	_cleanup_(walk_release) struct walk walk = {.profile = profile};
	_cleanup_(labelling_release) struct labelling labelling = {.profile = profile, .path.max = SIZE_MAX};
	int r = profile_add_cstring(profile, "span", &labelling.span_key, err);
	if (r == 0)
		r = profile_add_cstring(profile, "span.path", &labelling.path_key, err);
	if (r == 0 && profile->markers)
		r = walk_init(&walk, err);
	for (size_t i = 0; r == 0 && i < walk.sample_count; i++) {
		uint32_t spans[PROFILE_SPAN_PATH_MAX], path = 0, sample = walk.samples[i];
		size_t count = spans_of_sample(&walk, sample, PROFILE_SPAN_PATH_MAX, spans);
		if (count > 0)
			r = make_path(&labelling, &walk, spans, count, &path, err);
		if (r == 0)
			r = label_sample(&labelling, sample, count > 0 ? walk.spans[spans[0]].name : 0, path, err);
	}
	profile_forget_sample_index(profile);
	return r;
}
