/* SPDX-License-Identifier: Apache-2.0 */
#include "store/head/head.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/time.h"
#include "profile/numbers.h"
#include "store/head/head_int.h"
#include "store/head/head_lookup.h"

#define NO_SERIES	 UINT32_MAX /* there is no room for it */
#define HEAD_SAMPLES_MAX (256u * 1024 * 1024)
#define NO_NUMBERS_YET	 UINT32_MAX
#define NO_TYPE		 UINT32_MAX /* one that is not known, when there is no room for series */

static _Atomic uint64_t last_number;

int head_new(size_t series_max, struct head **ret, struct error *err)
{
	_cleanup_(head_freep) struct head *head = mem_zalloc(sizeof(*head));
	if (!head)
		return error_nomem(err);
	pthread_rwlockattr_t attributes;
	pthread_rwlockattr_init(&attributes);
	/* Otherwise a stream of queries would keep appends out for ever. */
	pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&head->lock, &attributes);
	pthread_rwlockattr_destroy(&attributes);
	head->refs = 1;
	head->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
	head->logged = delta_start();
	head->series_max = series_max;
	head->number_texts_max = LIMIT_NUMBERS_PER_HEAD;
	head_processes_init(&head->processes);
	pthread_mutex_init(&head->index.lock, NULL);
	int r = profile_new(&head->pool, err);
	if (r < 0)
		return r;
	if (intern_init(&head->number_texts, SIZE_MAX) < 0)
		return error_nomem(err);
	*ret = TAKE(head);
	return 0;
}

struct head *head_free(struct head *head)
{
	if (!head)
		return NULL;
	head_index_release(head);
	profile_free(head->pool);
	for (size_t i = 0; i < head->type_count; i++)
		mem_free(head->types[i]);
	for (size_t i = 0; i < head->label_set_count; i++) {
		labels_release(head->label_sets[i]);
		mem_free(head->label_sets[i]);
	}
	mem_free(head->types);
	mem_free(head->label_sets);
	mem_free(head->series);
	known_release(&head->known_stacks);
	known_release(&head->known_locations);
	known_release(&head->known_labels);
	index32_release(&head->type_index);
	index32_release(&head->label_index);
	map64_release(&head->series_index);
	intern_release(&head->number_texts);
	mem_free(head->series_ids);
	mem_free(head->stacks);
	mem_free(head->links);
	mem_free(head->numbers);
	mem_free(head->times);
	mem_free(head->values);
	mem_free(head->appends);
	mem_free(head->staged);
	head_processes_release(&head->processes);
	pthread_rwlock_destroy(&head->lock);
	return mem_free(head);
}

/* ---- series ---- */

static uint64_t hash_type(const struct profile_type *type)
{
	char text[PROFILE_TYPE_TEXT_MAX];
	profile_type_format(type, text);
	return hash64_guarded(text, strlen(text));
}

static bool find_type(const struct head *head, const struct profile_type *type, uint64_t hash, uint32_t *ret)
{
	for (size_t at = index32_first(&head->type_index, hash); index32_at(&head->type_index, hash, &at, ret); at++)
		if (profile_type_equal(head->types[*ret], type))
			return true;
	return false;
}

int head_add_type(struct head *head, const struct profile_type *type, uint32_t *ret)
{
	uint64_t hash = hash_type(type);
	if (find_type(head, type, hash, ret))
		return 0;
	struct profile_type *copy = mem_alloc(sizeof(*copy));
	if (!copy || array_reserve(&head->types, &head->type_capacity, head->type_count + 1, UINT32_MAX / 2) < 0 ||
	    index32_reserve(&head->type_index, 1) < 0) {
		mem_free(copy);
		return -ENOMEM;
	}
	*copy = *type;
	*ret = (uint32_t)head->type_count;
	head->types[head->type_count++] = copy;
	index32_add(&head->type_index, hash, *ret);
	return 0;
}

static size_t labels_size(const struct labels *labels)
{
	size_t size = sizeof(*labels) + labels->capacity * sizeof(*labels->items);
	for (size_t i = 0; i < labels->count; i++)
		size += strlen(labels->items[i].name) + strlen(labels->items[i].value) + 2 + 32; /* and malloc's own */
	return size;
}

static bool find_label_set(const struct head *head, const struct labels *labels, uint64_t hash, uint32_t *ret)
{
	for (size_t at = index32_first(&head->label_index, hash); index32_at(&head->label_index, hash, &at, ret); at++)
		if (labels_compare(head->label_sets[*ret], labels) == 0)
			return true;
	return false;
}

int head_add_labels(struct head *head, struct labels *labels, uint32_t *ret)
{
	uint64_t hash = labels_hash_guarded(labels);
	if (find_label_set(head, labels, hash, ret))
		return 0;
	struct labels *copy = mem_alloc(sizeof(*copy));
	if (!copy ||
	    array_reserve(&head->label_sets, &head->label_set_capacity, head->label_set_count + 1, UINT32_MAX / 2) < 0 ||
	    index32_reserve(&head->label_index, 1) < 0) {
		mem_free(copy);
		return -ENOMEM;
	}
	*copy = *labels;
	*labels = (struct labels){0};
	*ret = (uint32_t)head->label_set_count;
	head->label_sets[head->label_set_count++] = copy;
	head->label_bytes += labels_size(copy);
	index32_add(&head->label_index, hash, *ret);
	return 0;
}

static bool has_room_for_series(const struct head *head)
{
	return head->series_count < head->series_max;
}

int head_add_series(struct head *head, uint32_t type, uint32_t labels, uint32_t *ret)
{
	uint64_t key = (uint64_t)type << 32 | labels, found;
	if (map64_get(&head->series_index, key, &found)) {
		*ret = (uint32_t)found;
		return 0;
	}
	if (!has_room_for_series(head))
		return 1;
	if (array_reserve(&head->series, &head->series_capacity, head->series_count + 1, UINT32_MAX / 2) < 0 ||
	    map64_put(&head->series_index, key, head->series_count) < 0)
		return -ENOMEM;
	head->series[head->series_count] = (struct series){
		.type = head->types[type],
		.labels = head->label_sets[labels],
		.type_id = type,
		.label_set_id = labels,
	};
	*ret = (uint32_t)head->series_count++;
	return 0;
}

/* ---- preparing ---- */

struct preparation {
	struct head *head;
	const struct profile *profile;
	const struct store_append_options *options;
	struct profile_copy *copy;  /* NULL until something is not known */
	struct head_lookup *lookup; /* what was found before; the rest is noted in it */
	uint32_t *series_of_set;    /* label set of the profile -> series of the head of the current type + 1, or NO_SERIES */
	uint32_t *texts_of_set;	    /* set of numbers of the profile -> text of the head; NO_NUMBERS_YET; NULL = it has none */
	size_t at;		    /* next free sample */
	size_t values, zeros;	    /* samples that room was made for: values that are not 0, and zeros of gauges */
	struct head_batch *batch;
	struct error *err;
};

/* Makes lookup->label_sets[set]. Label sets and stacks come again with every flush, so both are looked up by key first. 1: the
 * set is not known, and there is no room for its series; what is rejected takes no memory. */
static int find_labels(struct preparation *prep, uint32_t set)
{
	_cleanup_(labels_release) struct labels labels = {0};
	uint32_t id;
	if (known_find(&prep->head->known_labels, prep->lookup->keys.label_sets[set], &id)) {
		prep->lookup->label_sets[set] = id + 1;
		return 0;
	}
	int r = labels_of_sample(prep->profile, set, prep->options->labels, &labels, prep->err);
	if (r == -E2BIG) {
		prep->batch->reason = STORE_REFUSED_LABELS;
		return r;
	}
	if (r < 0)
		return r;
	if (!has_room_for_series(prep->head) && !find_label_set(prep->head, &labels, labels_hash_guarded(&labels), &id))
		return 1;
	if (head_add_labels(prep->head, &labels, &id) < 0 ||
	    known_add(&prep->head->known_labels, prep->lookup->keys.label_sets[set], id) < 0)
		return error_nomem(prep->err);
	prep->lookup->label_sets[set] = id + 1;
	return 0;
}

static int need_copy(struct preparation *prep)
{
	return prep->copy ? 0 : profile_copy_new(prep->head->pool, prep->profile, &prep->copy, prep->err);
}

/* A location that the head has not seen is copied with its mapping, functions and strings; all others cost one lookup. */
static int find_location(struct preparation *prep, uint32_t location, uint32_t *ret)
{
	struct known *known = &prep->head->known_locations;
	uint32_t *id = &prep->lookup->locations[location];
	if (location && !*id && !known_find(known, prep->lookup->keys.locations[location], id)) {
		int r = need_copy(prep);
		if (r == 0)
			r = profile_copy_location(prep->copy, location, id, prep->err);
		if (r < 0)
			return r;
		if (known_add(known, prep->lookup->keys.locations[location], *id) < 0)
			return error_nomem(prep->err);
	}
	*ret = *id;
	return 0;
}

/* Up to the first frame that this profile has brought before, and down again. */
static int add_stack(struct preparation *prep, uint32_t stack, uint32_t *ret)
{
	const struct profile_stack *stacks = prep->profile->stacks;
	uint32_t *ids = prep->lookup->stacks, *path = prep->lookup->path;
	struct profile *pool = prep->head->pool;
	uint32_t at = stack, first_new = (uint32_t)pool->stack_count;
	size_t depth = 0;
	for (; at && !ids[at]; at = stacks[at].parent)
		path[depth++] = at;
	uint32_t id = at ? ids[at] : 0;
	while (depth > 0) {
		uint32_t location = 0;
		at = path[--depth];
		int r = find_location(prep, stacks[at].location, &location);
		if (r == 0)
			r = (id < first_new ? profile_add_stack : profile_add_new_stack)(pool, id, location, &id, prep->err);
		if (r < 0)
			return r;
		ids[at] = id;
	}
	*ret = id;
	return 0;
}

/* One that was not known when it was looked for may be known by now: from another append, or another sample of this one. */
static int find_missing_stack(struct preparation *prep, uint32_t stack, uint32_t *ret)
{
	struct hash128 key = prep->lookup->keys.stacks[stack];
	if (known_find(&prep->head->known_stacks, key, ret))
		return 0;
	int r = head_lookup_need_frames(prep->profile, prep->lookup, prep->err);
	if (r == 0)
		r = add_stack(prep, stack, ret);
	if (r < 0)
		return r;
	return known_add(&prep->head->known_stacks, key, *ret) < 0 ? error_nomem(prep->err) : 0;
}

static int find_stack(struct preparation *prep, size_t sample, uint32_t *ret)
{
	uint32_t stack = prep->profile->samples[sample].stack, *id = &prep->lookup->samples[sample];
	int r = stack && !*id ? find_missing_stack(prep, stack, id) : 0;
	*ret = *id;
	return r;
}

static int find_link(struct preparation *prep, uint32_t link, uint32_t *ret)
{
	*ret = 0;
	if (link == 0)
		return 0;
	int r = need_copy(prep);
	return r == 0 ? profile_copy_link(prep->copy, link, ret, prep->err) : r;
}

/* The text of a set of numbers. 0 as well if it is too long, or one too many: numbers are no reason to refuse a profile. */
static int find_numbers(struct preparation *prep, uint32_t set, uint32_t *ret)
{
	struct intern *texts = &prep->head->number_texts;
	uint32_t *id = &prep->texts_of_set[set];
	if (*id != NO_NUMBERS_YET) {
		*ret = *id;
		return 0;
	}
	_cleanup_(buffer_release) struct buffer text = {.max = LIMIT_NUMBERS_BYTES};
	int r = numbers_format(prep->profile, set, &text);
	*id = *ret = 0;
	if (r == -E2BIG)
		return 0;
	if (r == 0 && !intern_find(texts, text.data, text.len, id) && texts->count <= prep->head->number_texts_max)
		r = intern_add(texts, text.data, text.len, id);
	*ret = *id;
	return r < 0 ? error_nomem(prep->err) : 0;
}

static int add_series(struct preparation *prep, uint32_t type, uint32_t set, uint32_t *ret)
{
	if (type == NO_TYPE)
		return 1;
	int r = prep->lookup->label_sets[set] ? 0 : find_labels(prep, set);
	if (r == 0 && (r = head_add_series(prep->head, type, prep->lookup->label_sets[set] - 1, ret)) < 0)
		return error_nomem(prep->err);
	return r;
}

/* 1: there is no room for it. */
static int find_series(struct preparation *prep, uint32_t type, uint32_t set, uint32_t *ret)
{
	if (prep->series_of_set[set] == NO_SERIES)
		return 1;
	if (prep->series_of_set[set]) {
		*ret = prep->series_of_set[set] - 1;
		return 0;
	}
	int r = add_series(prep, type, set, ret);
	if (r > 0) {
		prep->series_of_set[set] = NO_SERIES;
		prep->batch->series_refused++;
	}
	if (r != 0)
		return r;
	prep->series_of_set[set] = *ret + 1;
	struct series *series = &prep->head->series[*ret];
	prep->batch->series += series->mark != prep->head->appends_prepared;
	series->mark = prep->head->appends_prepared;
	return 0;
}

/* A sample that knows no time gets that of its profile's start, or of its arrival. */
static int64_t time_of(const struct preparation *prep, const struct profile_sample *sample)
{
	if (sample->time_ns)
		return sample->time_ns;
	return prep->profile->time_ns ? prep->profile->time_ns : prep->options->received_ns;
}

static bool is_acceptable(const struct store_append_options *options, int64_t time_ns)
{
	bool any = options->least_ns == 0 && options->most_ns == 0;
	return any || (time_ns >= options->least_ns && time_ns <= options->most_ns);
}

/* False, and counted, if the time is not acceptable. */
static bool accept_time(struct preparation *prep, int64_t time_ns)
{
	const struct store_append_options *options = prep->options;
	if (is_acceptable(options, time_ns))
		return true;
	prep->batch->refused[STORE_REFUSED_LATE] += time_ns < options->least_ns;
	prep->batch->refused[STORE_REFUSED_FUTURE] += time_ns > options->most_ns;
	return false;
}

static uint64_t count_refused(const struct head_batch *batch)
{
	return batch->refused[STORE_REFUSED_LATE] + batch->refused[STORE_REFUSED_FUTURE] + batch->refused[STORE_REFUSED_SERIES];
}

/* The column of numbers comes with the first sample that has some. */
static int reserve_numbers(struct head *head, size_t need)
{
	bool is_first = !head->numbers;
	int r = array_reserve(&head->numbers, &head->number_capacity, need, HEAD_SAMPLES_MAX);
	if (r == 0 && is_first && head->numbers)
		memset(head->numbers, 0, head->end.samples * sizeof(*head->numbers));
	return r;
}

int head_reserve_samples(struct head *head, size_t more, bool numbers, struct error *err)
{
	size_t need = head->end.samples + more, appends = head->append_count + head->staged_count + 1;
	int r = array_reserve(&head->series_ids, &head->series_id_capacity, need, HEAD_SAMPLES_MAX);
	if (r == 0)
		r = array_reserve(&head->stacks, &head->stack_capacity, need, HEAD_SAMPLES_MAX);
	if (r == 0)
		r = array_reserve(&head->links, &head->link_capacity, need, HEAD_SAMPLES_MAX);
	if (r == 0 && (numbers || head->numbers))
		r = reserve_numbers(head, need);
	if (r == 0)
		r = array_reserve(&head->times, &head->time_capacity, need, HEAD_SAMPLES_MAX);
	if (r == 0)
		r = array_reserve(&head->values, &head->value_capacity, need, HEAD_SAMPLES_MAX);
	if (r == 0)
		r = array_reserve(&head->appends, &head->append_capacity, appends, HEAD_SAMPLES_MAX);
	if (r == 0)
		r = array_reserve(&head->staged, &head->staged_capacity, head->staged_count + 1, HEAD_SAMPLES_MAX);
	if (r == -E2BIG)
		return error_set(err, -EDQUOT, "the profile is too large: the head would hold more than %u samples",
				 HEAD_SAMPLES_MAX);
	return r < 0 ? error_nomem(err) : 0;
}
/* ---- preparing profiles of gauges that are zero ---- */

/*
 * Values of 0 are not stored: they add nothing to a sum. But averages of gauges are divided by the number of profiles, and a
 * profile counts also when all that it says of a series is 0, or when it has no sample at all. So of each series and time that
 * has no other value one row is stored, with the value 0 and no stack. All that counts profiles counts it like any other.
 */
struct instant {
	uint32_t series;
	int64_t time_ns;
};
struct instants {
	struct instant *items;
	size_t count, capacity;
};

DEFINE_ORDER(compare_instants, struct instant, ORDER(a->series, b->series) ?: ORDER(a->time_ns, b->time_ns));

/* Those of one profile are mostly all the same: what is added again at once is left out here, the rest by sorting. */
static int add_instant(struct instants *instants, struct instant instant, struct error *err)
{
	if (instants->count && compare_instants(&instants->items[instants->count - 1], &instant) == 0)
		return 0;
	return array_push(&instants->items, &instants->count, &instants->capacity, SIZE_MAX, instant) < 0 ? error_nomem(err)
													  : 0;
}

static void sort_instants(struct instants *instants)
{
	instants->count = sort_array_once(instants->items, instants->count, compare_instants);
}

/* Where the values of a type are 0, and where they are not. */
struct zeros {
	uint32_t type;
	struct instants zeros, values;
	bool has_refused; /* a zero whose time is not acceptable, such as: */
	int64_t refused_ns;
	bool over_series; /* a zero of a series that there is no room for */
};

static int note_zero(struct preparation *prep, struct zeros *zeros, uint32_t set, int64_t time_ns)
{
	uint32_t series;
	if (!is_acceptable(prep->options, time_ns)) {
		zeros->has_refused = true;
		zeros->refused_ns = time_ns;
		return 0;
	}
	int r = find_series(prep, zeros->type, set, &series);
	if (r > 0) {
		zeros->over_series = true;
		return 0;
	}
	return r < 0 ? r : add_instant(&zeros->zeros, (struct instant){series, time_ns}, prep->err);
}

static int put_zeros(struct preparation *prep, struct zeros *zeros)
{
	struct head *head = prep->head;
	sort_instants(&zeros->zeros);
	sort_instants(&zeros->values);
	prep->zeros += zeros->zeros.count;
	int r = head_reserve_samples(head, prep->values + prep->zeros, prep->texts_of_set, prep->err);
	for (size_t i = 0, at = 0; r == 0 && i < zeros->zeros.count; i++) {
		const struct instant *zero = &zeros->zeros.items[i];
		while (at < zeros->values.count && compare_instants(&zeros->values.items[at], zero) < 0)
			at++;
		if (at < zeros->values.count && compare_instants(&zeros->values.items[at], zero) == 0)
			continue;
		head->series_ids[prep->at] = zero->series;
		head->stacks[prep->at] = head->links[prep->at] = 0;
		if (head->numbers)
			head->numbers[prep->at] = 0;
		head->times[prep->at] = zero->time_ns;
		head->values[prep->at++] = 0;
	}
	return r;
}

/* ---- preparing samples ---- */

static int put_numbers(struct preparation *prep, uint32_t set, uint32_t *ret)
{
	*ret = 0;
	if (!set)
		return 0;
	int r = find_numbers(prep, set, ret);
	prep->batch->numbers_dropped += r == 0 && *ret == 0;
	return r;
}

/* 1: there is no room for its series. */
static int put_sample(struct preparation *prep, uint32_t type_id, size_t which, int64_t time_ns, int64_t value)
{
	const struct profile_sample *sample = &prep->profile->samples[which];
	struct head *head = prep->head;
	size_t at = prep->at;
	int r = find_series(prep, type_id, sample->labels, &head->series_ids[at]);
	if (r == 0)
		r = find_stack(prep, which, &head->stacks[at]);
	if (r == 0)
		r = find_link(prep, sample->link, &head->links[at]);
	if (r == 0 && head->numbers)
		r = put_numbers(prep, sample->numbers, &head->numbers[at]);
	if (r != 0)
		return r;
	head->times[at] = time_ns;
	head->values[at] = value;
	prep->at++;
	return 0;
}

/* With `zeros`, the type is a gauge. */
static int put_samples(struct preparation *prep, size_t sample_type, uint32_t type_id, struct zeros *zeros)
{
	const struct profile *profile = prep->profile;
	static const struct profile_sample none;
	int r = zeros && profile->sample_count == 0 ? note_zero(prep, zeros, none.labels, time_of(prep, &none)) : 0;
	for (size_t i = 0; r == 0 && i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		int64_t value = profile->values[i * profile->sample_type_count + sample_type];
		int64_t time_ns = time_of(prep, sample);
		if (value == 0 && zeros)
			r = note_zero(prep, zeros, sample->labels, time_ns);
		if (value == 0 || !accept_time(prep, time_ns))
			continue;
		r = put_sample(prep, type_id, i, time_ns, value);
		if (r > 0) {
			prep->batch->refused[STORE_REFUSED_SERIES]++;
			r = 0;
			continue;
		}
		if (r == 0 && zeros)
			r = add_instant(&zeros->values, (struct instant){prep->head->series_ids[prep->at - 1], time_ns},
					prep->err);
	}
	return r;
}

/* NO_TYPE: of a type that is not known every series is new, and there is no room for one. */
static int find_or_add_type(struct preparation *prep, const struct profile_type *type, uint32_t *ret)
{
	if (has_room_for_series(prep->head))
		return head_add_type(prep->head, type, ret) < 0 ? error_nomem(prep->err) : 0;
	if (!find_type(prep->head, type, hash_type(type), ret))
		*ret = NO_TYPE;
	return 0;
}

/* Of a profile that is all zero, and all rejected, one is counted. */
static void count_refused_zeros(struct preparation *prep, const struct zeros *zeros)
{
	if (zeros->has_refused)
		accept_time(prep, zeros->refused_ns);
	else
		prep->batch->refused[STORE_REFUSED_SERIES] += zeros->over_series;
}

static int prepare_type(struct preparation *prep, size_t sample_type)
{
	const struct profile *profile = prep->profile;
	struct profile_type type;
	struct zeros zeros = {0};
	size_t first = prep->at;
	uint64_t refused = count_refused(prep->batch);
	profile_type_of(profile, sample_type, prep->options->name, &type);
	int r = find_or_add_type(prep, &type, &zeros.type);
	if (r < 0)
		return r;
	bool gauge = profile_type_is_gauge(&type);
	memset(prep->series_of_set, 0, profile->label_set_count * sizeof(*prep->series_of_set));
	r = put_samples(prep, sample_type, zeros.type, gauge ? &zeros : NULL);
	if (r == 0 && gauge)
		r = put_zeros(prep, &zeros);
	if (prep->at == first && count_refused(prep->batch) == refused)
		count_refused_zeros(prep, &zeros);
	mem_free(zeros.zeros.items);
	mem_free(zeros.values.items);
	return r;
}

/* ---- preparing rows of processes ---- */

static int put_row(struct preparation *prep, size_t sample, const uint8_t *columns, uint32_t type)
{
	const struct profile *profile = prep->profile;
	const int64_t *values = profile->values + sample * profile->sample_type_count;
	struct process_row row = {.time_ns = time_of(prep, &profile->samples[sample])};
	size_t count = 0;
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		if (columns[i] == PROCESS_STATS_COLUMNS) {
			prep->batch->refused[STORE_REFUSED_COLUMN] += values[i] != 0;
			continue;
		}
		int64_t *value = &row.values[columns[i]];
		sum_to(value, values[i]);
	}
	for (size_t i = 0; i < PROCESS_STATS_COLUMNS; i++)
		count += row.values[i] != 0;
	if (count == 0 || !accept_time(prep, row.time_ns))
		return 0;
	int r = find_series(prep, type, profile->samples[sample].labels, &row.series);
	if (r != 0) {
		prep->batch->refused[STORE_REFUSED_SERIES] += r > 0;
		return r < 0 ? r : 0;
	}
	prep->batch->process_values += count;
	prep->batch->numbers_dropped += profile->samples[sample].numbers != 0;
	r = head_processes_put(&prep->head->processes, &row, &prep->batch->processes);
	return r < 0 ? error_nomem(prep->err) : 0;
}

/* Columns that this version does not know are left out, and counted. */
static int prepare_processes(struct preparation *prep)
{
	static const struct profile_type type = {.name = PROCESS_STATS_NAME};
	const struct profile *profile = prep->profile;
	uint8_t columns[LIMIT_SAMPLE_TYPES];
	uint32_t type_id;
	int r = find_or_add_type(prep, &type, &type_id);
	for (size_t i = 0; i < profile->sample_type_count; i++)
		columns[i] = (uint8_t)process_stats_column_of(profile_string(profile, profile->sample_types[i].type),
							      profile_string(profile, profile->sample_types[i].unit));
	memset(prep->series_of_set, 0, profile->label_set_count * sizeof(*prep->series_of_set));
	for (size_t i = 0; r == 0 && i < profile->sample_count; i++)
		r = put_row(prep, i, columns, type_id);
	return r;
}

static bool is_process_stats(const struct preparation *prep)
{
	struct profile_type type;
	if (prep->profile->sample_type_count == 0 || prep->profile->sample_type_count > LIMIT_SAMPLE_TYPES)
		return false;
	profile_type_of(prep->profile, 0, prep->options->name, &type);
	return profile_type_is_process_stats(&type);
}

/* ---- preparing all ---- */

static size_t count_values(const struct profile *profile)
{
	size_t count = 0, total = profile->sample_count * profile->sample_type_count;
	for (size_t i = 0; i < total; i++)
		count += profile->values[i] != 0;
	return count;
}

void head_update_bytes(struct head *head)
{
	const struct profile *pool = head->pool;
	/* Entries and what their hash tables add, which are half empty on average. */
	uint64_t bytes = pool->strings.arena.used_bytes + pool->strings.count * 32 + pool->mapping_count * 64 +
			 pool->function_count * 40 + pool->location_count * 56 + pool->line_count * 24 +
			 pool->stack_count * 20 + pool->link_count * 40;
	bytes += head->label_bytes + head->label_set_count * 24 + head->series_count * (sizeof(*head->series) + 40);
	bytes += head->value_capacity * (3 * sizeof(uint32_t) + 2 * sizeof(int64_t));
	bytes += head->number_capacity * sizeof(uint32_t);
	bytes += head->number_texts.arena.used_bytes + head->number_texts.count * 32;
	bytes += (head->known_stacks.count + head->known_locations.count + head->known_labels.count) * KNOWN_ENTRY_BYTES;
	bytes += head_processes_bytes(&head->processes);
	atomic_store_explicit(&head->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&head->pool_stacks, pool->stack_count, memory_order_relaxed);
}

uint64_t head_bytes(const struct head *head)
{
	return atomic_load_explicit(&head->bytes, memory_order_relaxed);
}

uint64_t head_stacks(const struct head *head)
{
	return atomic_load_explicit(&head->pool_stacks, memory_order_relaxed);
}

bool head_is_empty(const struct head *head)
{
	return head->count == 0 && head->processes.end.count == 0;
}

static int make_texts(struct preparation *prep)
{
	const struct profile *profile = prep->profile;
	uint32_t any = 0;
	for (size_t i = 0; i < profile->sample_count; i++)
		any |= profile->samples[i].numbers;
	if (!any)
		return 0;
	prep->texts_of_set = mem_alloc_array(profile->label_set_count, sizeof(*prep->texts_of_set));
	if (!prep->texts_of_set)
		return error_nomem(prep->err);
	memset(prep->texts_of_set, 0xff, profile->label_set_count * sizeof(*prep->texts_of_set));
	return 0;
}

static int prepare_all(struct preparation *prep)
{
	const struct profile *profile = prep->profile;
	bool processes = is_process_stats(prep);
	prep->values = processes ? 0 : count_values(profile);
	int r = processes ? 0 : make_texts(prep);
	if (r == 0)
		r = head_reserve_samples(prep->head, prep->values, prep->texts_of_set, prep->err);
	if (r < 0)
		return r;
	prep->series_of_set = mem_alloc_array(profile->label_set_count, sizeof(*prep->series_of_set));
	if (!prep->series_of_set)
		return error_nomem(prep->err);
	if (processes)
		return prepare_processes(prep);
	for (size_t type = 0; r == 0 && type < profile->sample_type_count; type++)
		r = prepare_type(prep, type);
	return r;
}

static void preparation_release(struct preparation *prep)
{
	profile_copy_free(prep->copy);
	mem_free(prep->series_of_set);
	mem_free(prep->texts_of_set);
}

static int prepare(struct preparation *prep)
{
	struct head *head = prep->head;
	pthread_rwlock_wrlock(&head->lock);
	*prep->batch = (struct head_batch){
		.processes = head->end.processes, .period = prep->profile->period, .reason = STORE_REFUSED_SIZE};
	prep->at = head->end.samples;
	head->appends_prepared++;
	int r = prepare_all(prep);
	head_update_bytes(head);
	prep->batch->count = prep->at - head->end.samples;
	pthread_rwlock_unlock(&head->lock);
	preparation_release(prep);
	return r;
}

int head_prepare(struct head *head, const struct profile *profile, const struct store_append_options *options,
		 struct head_lookup *lookup, struct head_batch *ret, struct error *err)
{
	struct preparation prep = {
		.head = head, .profile = profile, .options = options, .lookup = lookup, .batch = ret, .err = err};
	struct head_lookup own;
	if (lookup) {
		if (lookup->head != head->number)
			head_lookup_forget(profile, lookup);
		return prepare(&prep);
	}
	*ret = (struct head_batch){.reason = STORE_REFUSED_SIZE};
	int r = head_lookup_make(profile, options->labels, &own, err);
	if (r < 0)
		return r;
	prep.lookup = &own;
	r = prepare(&prep);
	head_lookup_release(&own);
	return r;
}

/* ---- committing ---- */

static struct series *note_time(struct head *head, uint32_t series_id, int64_t time, bool is_first)
{
	struct series *series = &head->series[series_id];
	if (series->samples == 0 || time < series->first_ns)
		series->first_ns = time;
	if (series->samples == 0 || time > series->last_ns)
		series->last_ns = time;
	series->samples++;
	if (is_first || time < head->min_ns)
		head->min_ns = time;
	if (is_first || time > head->max_ns)
		head->max_ns = time;
	return series;
}

static void note_sample(struct head *head, size_t at, int64_t period, bool is_first)
{
	struct series *series = note_time(head, head->series_ids[at], head->times[at], is_first);
	sum_to(&series->total, head->values[at]);
	if (period > series->period)
		series->period = period;
}

static void publish_one(struct head *head, const struct head_staged *staged)
{
	struct head_processes_reader reader;
	struct process_row row;
	bool is_first = head_is_empty(head);
	for (; head->count < staged->end.samples; head->count++, is_first = false)
		note_sample(head, head->count, staged->period, is_first);
	head_processes_read(&head->processes, &head->processes.end, &staged->end.processes, &reader);
	for (; head_processes_next(&reader, &row); is_first = false)
		note_time(head, row.series, row.time_ns, is_first);
	head->processes.end = staged->end.processes;
	if (id_is_set(staged->append.id))
		head->appends[head->append_count++] = staged->append;
	head->last_sequence = staged->append.sequence;
}

void head_stage(struct head *head, const struct head_batch *batch, const uint8_t id[static STORE_ID_SIZE], uint64_t sequence)
{
	struct head_staged *staged = &head->staged[head->staged_count++];
	head->end.samples += batch->count;
	head->end.processes = batch->processes;
	*staged = (struct head_staged){.end = head->end, .period = batch->period, .append.sequence = sequence};
	memcpy(staged->append.id, id, sizeof(staged->append.id));
}

void head_publish(struct head *head, uint64_t sequence)
{
	size_t count = 0;
	pthread_rwlock_wrlock(&head->lock);
	for (; count < head->staged_count && head->staged[count].append.sequence <= sequence; count++)
		publish_one(head, &head->staged[count]);
	head->staged_count -= count;
	if (head->staged_count)
		memmove(head->staged, head->staged + count, head->staged_count * sizeof(*head->staged));
	if (count && head->started_ns == 0)
		atomic_store_explicit(&head->started_ns, time_monotonic_ns(), memory_order_relaxed);
	pthread_rwlock_unlock(&head->lock);
}

void head_withdraw(struct head *head)
{
	head->staged_count = 0;
	head->end = (struct head_end){.samples = head->count, .processes = head->processes.end};
}

void head_commit(struct head *head, const struct head_batch *batch, const uint8_t id[static STORE_ID_SIZE], uint64_t sequence)
{
	assert(head->staged_count == 0);
	head_stage(head, batch, id, sequence);
	head_publish(head, sequence);
}
