/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/averages.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sum.h"

void averages_release(struct averages *averages)
{
	index32_release(&averages->index);
	mem_free(averages->series);
	map64_release(&averages->profiles);
	map64_release(&averages->sums);
	*averages = (struct averages){0};
}

void source_averages_release(struct source_averages *source)
{
	mem_free(source->numbers);
	mem_free(source->rollup_numbers);
	mem_free(source->weights);
	mem_free(source->rollup_weights);
	map64_release(&source->profiles);
	map64_release(&source->sums);
	average_spans_release(&source->spans);
	*source = (struct source_averages){0};
}

/* ---- numbers ---- */

static struct hash128 id_of(const struct profile_type *type, const struct labels *labels)
{
	char text[PROFILE_TYPE_TEXT_MAX];
	profile_type_format(type, text);
	struct hash128 id = hash128(text, strlen(text));
	for (size_t i = 0; i < labels->count; i++) {
		const struct label *label = &labels->items[i];
		const struct hash128 chain[] = {id, hash128(label->name, strlen(label->name)),
						hash128(label->value, strlen(label->value))};
		id = hash128(chain, sizeof(chain));
	}
	return id;
}

static bool find(const struct averages *averages, struct hash128 id, uint32_t *ret)
{
	for (size_t at = index32_first(&averages->index, id.low); index32_at(&averages->index, id.low, &at, ret); at++) {
		const struct hash128 *other = &averages->series[*ret].id;
		if (other->low == id.low && other->high == id.high)
			return true;
	}
	return false;
}

bool averages_find(const struct averages *averages, const struct profile_type *type, const struct labels *labels, uint32_t *ret)
{
	return find(averages, id_of(type, labels), ret);
}

static int number_of(struct averages *averages, struct hash128 id, uint32_t group, uint32_t *ret)
{
	if (find(averages, id, ret))
		return 0;
	if (array_reserve(&averages->series, &averages->capacity, averages->count + 1, UINT32_MAX - 1) < 0 ||
	    index32_add(&averages->index, id.low, (uint32_t)averages->count) < 0)
		return -ENOMEM;
	*ret = (uint32_t)averages->count;
	averages->series[averages->count++] = (struct average_series){
		.id = id,
		.group = group,
		.first_ns = INT64_MAX,
		.last_ns = INT64_MIN,
		.shared_first_ns = INT64_MAX,
		.shared_last_ns = INT64_MIN,
	};
	return 0;
}

static bool has_gauges(const struct series_columns *columns, const struct selection *selection, bool *ret_all)
{
	bool any = false;
	*ret_all = true;
	for (size_t i = 0; i < selection->count; i++) {
		bool gauge = profile_type_is_gauge(&columns->types[columns->type_ids[i]]);
		any |= selection->wanted[i] && gauge;
		*ret_all &= gauge || !selection->wanted[i];
	}
	return any;
}

int averages_number(struct averages *averages, const struct series_columns *columns, const struct selection *selection,
		    struct source_averages *ret, struct error *err)
{
	struct label items[LIMIT_LABELS_PER_SERIES];
	if (!has_gauges(columns, selection, &ret->all))
		return 0;
	ret->numbers = mem_alloc_array(selection->count, sizeof(*ret->numbers));
	if (!ret->numbers)
		return error_nomem(err);
	int r = 0;
	for (size_t i = 0; r == 0 && i < selection->count; i++) {
		const struct profile_type *type = &columns->types[columns->type_ids[i]];
		ret->numbers[i] = NOT_AVERAGED;
		if (!selection->wanted[i] || !profile_type_is_gauge(type))
			continue;
		struct labels labels = series_columns_labels(columns, i, NULL, 0, items);
		r = number_of(averages, id_of(type, &labels), selection->groups ? selection->groups[i] : 0, &ret->numbers[i]);
	}
	return r < 0 ? error_nomem(err) : 0;
}

int average_spans_add(struct average_spans *spans, struct average_span span, struct error *err)
{
	if (array_reserve(&spans->items, &spans->capacity, spans->count + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	spans->items[spans->count++] = span;
	return 0;
}

void average_spans_release(struct average_spans *spans)
{
	mem_free(spans->items);
	*spans = (struct average_spans){0};
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

void averages_note_spans(struct averages *averages, const struct average_spans *spans)
{
	for (size_t i = 0; i < spans->count; i++) {
		const struct average_span *span = &spans->items[i];
		struct average_series *series = &averages->series[span->number];
		int64_t first_ns = later(span->first_ns, series->first_ns), last_ns = earlier(span->last_ns, series->last_ns);
		if (first_ns <= last_ns) {
			series->shared_first_ns = earlier(first_ns, series->shared_first_ns);
			series->shared_last_ns = later(last_ns, series->shared_last_ns);
			averages->overlaps = true;
		}
		series->first_ns = earlier(span->first_ns, series->first_ns);
		series->last_ns = later(span->last_ns, series->last_ns);
	}
}

int averages_weigh(const struct averages *averages, struct source_averages *source, size_t series_count, struct error *err)
{
	source->weights = mem_alloc_array(series_count, sizeof(*source->weights));
	if (!source->weights)
		return error_nomem(err);
	for (size_t i = 0; i < series_count; i++) {
		uint32_t number = source->numbers ? source->numbers[i] : NOT_AVERAGED;
		source->weights[i] = 1;
		/* One without profiles came after they were counted. */
		if (number != NOT_AVERAGED)
			source->weights[i] =
				averages->series[number].profiles ? 1 / (double)averages->series[number].profiles : 0;
	}
	return 0;
}

int averages_number_rollups(struct source_averages *source, const int32_t *rollup_ids, size_t series_count, size_t rollup_count,
			    struct error *err)
{
	if (!rollup_ids)
		return 0;
	if (source->numbers) {
		source->rollup_numbers = mem_alloc_array(rollup_count, sizeof(*source->rollup_numbers));
		if (!source->rollup_numbers)
			return error_nomem(err);
		for (size_t i = 0; i < rollup_count; i++)
			source->rollup_numbers[i] = NOT_AVERAGED;
	}
	if (source->weights) {
		source->rollup_weights = mem_alloc_array(rollup_count, sizeof(*source->rollup_weights));
		if (!source->rollup_weights)
			return error_nomem(err);
		for (size_t i = 0; i < rollup_count; i++)
			source->rollup_weights[i] = 1;
	}
	for (size_t i = 0; source->numbers && i < series_count; i++) {
		if (source->numbers[i] == NOT_AVERAGED)
			continue;
		source->rollup_numbers[rollup_ids[i]] = source->numbers[i];
		if (source->weights)
			source->rollup_weights[rollup_ids[i]] = source->weights[i];
	}
	return 0;
}

/* ---- sources put together ---- */

static int add_map(struct map64 *to, const struct map64 *from, bool counts, struct error *err)
{
	size_t cursor = 0;
	uint64_t key, value;
	while (map64_next(from, &cursor, &key, &value)) {
		if ((counts ? map64_add(to, key, value) : map64_sum(to, key, (int64_t)value)) < 0)
			return error_nomem(err);
		if (to->count > AVERAGES_MAX)
			return error_set(
				err, -E2BIG,
				"more than %u values of series and steps to be averaged: narrow the selector, or take a "
				"longer step",
				AVERAGES_MAX);
	}
	return 0;
}

int averages_add(struct averages *averages, const struct source_averages *source, struct error *err)
{
	int r = add_map(&averages->profiles, &source->profiles, true, err);
	return r == 0 ? add_map(&averages->sums, &source->sums, false, err) : r;
}

void averages_note_profiles(struct averages *averages)
{
	size_t cursor = 0;
	uint64_t key, value;
	while (map64_next(&averages->profiles, &cursor, &key, &value))
		averages->series[key >> 32].profiles += value;
	map64_clear(&averages->profiles);
}

/* ---- numbers again ---- */

static int64_t bits_of(double value)
{
	int64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static double double_of(uint64_t bits)
{
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Without the last bits, which depend on the order in which sources were read: a half is a half, and a third three times is
 * one. */
static double steady(double value)
{
	const double units = 1 << 20;
	return fabs(value) < (double)(1ll << 32) ? nearbyint(value * units) / units : value;
}

static int64_t to_integer(double value)
{
	if (value >= 0x1p63)
		return INT64_MAX;
	return value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

int64_t average_round(double value)
{
	return to_integer(round(steady(value)));
}

static int add_double(struct map64 *map, uint64_t key, double value)
{
	uint64_t bits = 0;
	map64_get(map, key, &bits);
	return map64_put(map, key, (uint64_t)bits_of(double_of(bits) + value));
}

/* Quotients by group and step. */
static int divide_points(const struct averages *averages, struct map64 *points)
{
	size_t cursor = 0;
	uint64_t key, sum, profiles;
	int r = 0;
	while (r == 0 && map64_next(&averages->sums, &cursor, &key, &sum)) {
		if (!map64_get(&averages->profiles, key, &profiles) || profiles == 0)
			profiles = 1;
		r = add_double(points, average_key(averages->series[key >> 32].group, (uint32_t)key),
			       (double)(int64_t)sum / (double)profiles);
	}
	return r;
}

/* Quotients by group. */
static int divide_ranges(const struct averages *averages, struct map64 *ranges)
{
	_cleanup_(mem_freep) double *sums = mem_zalloc_array(averages->count, sizeof(*sums));
	_cleanup_(mem_freep) uint64_t *profiles = mem_zalloc_array(averages->count, sizeof(*profiles));
	size_t cursor = 0;
	uint64_t key, value;
	int r = sums && profiles ? 0 : -ENOMEM;
	while (r == 0 && map64_next(&averages->sums, &cursor, &key, &value))
		sums[key >> 32] += (double)(int64_t)value;
	cursor = 0;
	while (r == 0 && map64_next(&averages->profiles, &cursor, &key, &value))
		profiles[key >> 32] += value;
	for (size_t i = 0; r == 0 && i < averages->count; i++)
		if (sums[i] != 0)
			r = add_double(ranges, averages->series[i].group, sums[i] / (double)(profiles[i] ? profiles[i] : 1));
	return r;
}

/* What was given of each group; the sum of many points need not fit into 64 bits. */
struct given {
	struct map64 index; /* by group */
	__int128 *sums;
	size_t count, capacity;
};

static void given_release(struct given *given)
{
	map64_release(&given->index);
	mem_free(given->sums);
}

static int given_add(struct given *given, uint64_t group, int64_t value)
{
	uint64_t at;
	if (!map64_get(&given->index, group, &at)) {
		at = given->count;
		if (array_reserve(&given->sums, &given->capacity, given->count + 1, SIZE_MAX) < 0 ||
		    map64_put(&given->index, group, at) < 0)
			return -ENOMEM;
		given->sums[given->count++] = 0;
	}
	given->sums[at] += value;
	return 0;
}

static int give_points(const struct map64 *points, struct given *given, store_on_point on_point, void *context,
		       struct error *err)
{
	size_t cursor = 0;
	uint64_t key, bits;
	int r = 0;
	while (r == 0 && map64_next(points, &cursor, &key, &bits)) {
		int64_t value = average_round(double_of(bits));
		if (given_add(given, key >> 32, value) < 0)
			return error_nomem(err);
		r = on_point(context, (uint32_t)(key >> 32), (uint32_t)key, value, err);
	}
	return r;
}

int averages_give(const struct averages *averages, store_on_point on_point, void *context, struct error *err)
{
	_cleanup_(map64_release) struct map64 points = {0};
	_cleanup_(map64_release) struct map64 ranges = {0};
	_cleanup_(given_release) struct given given = {0};
	if (divide_points(averages, &points) < 0 || divide_ranges(averages, &ranges) < 0)
		return error_nomem(err);
	int r = give_points(&points, &given, on_point, context, err);
	size_t cursor = 0;
	uint64_t group, at;
	while (r == 0 && map64_next(&given.index, &cursor, &group, &at)) {
		uint64_t bits = 0;
		map64_get(&ranges, group, &bits);
		__int128 beyond = average_round(double_of(bits)) - given.sums[at];
		do {
			int64_t part = sum_of_wide(beyond);
			beyond -= part;
			r = on_point(context, (uint32_t)group, STORE_RANGE, part, err);
		} while (r == 0 && beyond);
	}
	return r;
}

/* ---- stacks ---- */

struct rest {
	double fraction;
	uint32_t entry, group;
};

static int compare_rests(const void *a, const void *b, void *context)
{
	const struct stack_set *set = context;
	const struct rest *x = a, *y = b;
	const struct stack_entry *left = &set->entries[x->entry], *right = &set->entries[y->entry];
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	double more = steady(x->fraction) - steady(y->fraction);
	if (more != 0)
		return more > 0 ? -1 : 1;
	/* Any order that is always the same. */
	return ORDER(left->hash.high, right->hash.high) ?: ORDER(left->hash.low, right->hash.low) ?:
							  ORDER(left->group, right->group);
}

/* Those with the largest fractions get the units that rounding down took from the group. */
static void give_rests(struct stack_set *set, const struct rest *rests, size_t count)
{
	for (size_t from = 0, to; from < count; from = to) {
		uint32_t group = rests[from].group;
		double left = 0;
		for (to = from; to < count && rests[to].group == group; to++)
			left += rests[to].fraction;
		size_t units = (size_t)average_round(left);
		for (size_t i = from; i < to && units > 0; i++, units--)
			sum_to(&set->entries[rests[i].entry].value, 1);
	}
}

int averages_round_stacks(struct stack_set *set, uint32_t (*base_of)(const void *context, uint32_t group), const void *context,
			  struct error *err)
{
	_cleanup_(mem_freep) struct rest *rests = mem_alloc_array(set->count, sizeof(*rests));
	if (!rests)
		return error_nomem(err);
	size_t count = 0;
	for (size_t i = 0; i < set->count; i++) {
		double value = double_of((uint64_t)set->entries[i].value), down = floor(steady(value));
		set->entries[i].value = to_integer(down);
		if (steady(value) > down)
			rests[count++] = (struct rest){.fraction = value - down,
						       .entry = (uint32_t)i,
						       .group = base_of(context, set->entries[i].group)};
	}
	if (count)
		qsort_r(rests, count, sizeof(*rests), compare_rests, set);
	give_rests(set, rests, count);
	set->doubles = false;
	return 0;
}
