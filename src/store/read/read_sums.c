/* SPDX-License-Identifier: Apache-2.0 */
/* Adding up the rows of one source. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "store/read/read_int.h"

#define DENSE_MAX (4u * 1024 * 1024) /* sums in arrays; more go into a hash table */

static uint64_t sum_key(uint32_t group, uint32_t low)
{
	return (uint64_t)group << 32 | low;
}

/* Numbers the groups of this source densely. */
static int number_locals(struct source_sums *sums, const uint32_t *groups, const uint8_t *wanted, size_t id_count,
			 struct error *err)
{
	_cleanup_(map64_release) struct map64 seen = {0};
	size_t capacity = 0;
	int r = 0;
	sums->locals = mem_zalloc_array(id_count, sizeof(*sums->locals));
	if (!sums->locals)
		return error_nomem(err);
	for (size_t i = 0; r == 0 && i < id_count; i++) {
		uint64_t local;
		if (!wanted[i])
			continue;
		if (!map64_get(&seen, groups[i], &local)) {
			local = sums->local_count;
			r = map64_put(&seen, groups[i], local);
			if (r == 0)
				r = array_reserve(&sums->local_numbers, &capacity, sums->local_count + 1, UINT32_MAX);
			if (r == 0)
				sums->local_numbers[sums->local_count++] = groups[i];
		}
		sums->locals[i] = (uint32_t)local;
	}
	return r < 0 ? error_nomem(err) : 0;
}

int source_sums_init(struct source_sums *sums, struct reading *r, size_t stack_count, const uint32_t *groups,
		     const uint8_t *wanted, size_t id_count, struct error *err)
{
	*sums = (struct source_sums){.r = r, .wanted = wanted, .groups = groups, .stack_count = stack_count, .local_count = 0};
	if (!r->merge)
		return 0;
	if (!groups) {
		sums->local_count = 1;
	} else {
		int code = number_locals(sums, groups, wanted, id_count, err);
		if (code < 0)
			return code;
	}
	if (sums->local_count > 1 && sums->local_count > DENSE_MAX / (stack_count + 1))
		return 0;
	sums->dense = mem_zalloc_array(sums->local_count * stack_count, sizeof(*sums->dense));
	return sums->dense ? 0 : error_nomem(err);
}

void source_sums_release(struct source_sums *sums)
{
	mem_free(sums->dense);
	mem_free(sums->locals);
	mem_free(sums->local_numbers);
	map64_release(&sums->map);
}

static int64_t weigh(double weight, int64_t value)
{
	double weighed = weight * (double)value;
	int64_t bits;
	memcpy(&bits, &weighed, sizeof(bits));
	return bits;
}

static void add_weighed(struct source_sums *sums, int64_t *dense, double weight, size_t count, const int32_t *stacks,
			const int64_t *values)
{
	for (size_t i = 0; i < count; i++)
		if (!sums->accepted || sums->accepted[stacks[i]])
			dense[stacks[i]] = stack_value_add(true, dense[stacks[i]], weigh(weight, values[i]));
}

void source_sums_add(struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks, const int64_t *values)
{
	int64_t *dense = sums->dense + (sums->locals ? sums->locals[id] * sums->stack_count : 0);
	const uint8_t *accepted = sums->accepted;
	if (sums->weights) {
		add_weighed(sums, dense, sums->weights[id], count, stacks, values);
		return;
	}
	if (!accepted) {
		for (size_t i = 0; i < count; i++)
			sum_to(&dense[stacks[i]], values[i]);
		return;
	}
	for (size_t i = 0; i < count; i++)
		sum_to(&dense[stacks[i]], accepted[stacks[i]] ? values[i] : 0);
}

static int add_weighed_to_map(struct map64 *map, uint64_t key, double weight, int64_t value)
{
	uint64_t sum = 0;
	map64_get(map, key, &sum);
	return map64_put(map, key, (uint64_t)stack_value_add(true, (int64_t)sum, weigh(weight, value)));
}

int source_sums_add_grouped(struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks, const int64_t *values)
{
	return source_sums_add_to(sums, sums->groups ? sums->groups[id] : 0, id, count, stacks, values);
}

int source_sums_add_to(struct source_sums *sums, uint32_t group, uint32_t id, size_t count, const int32_t *stacks,
		       const int64_t *values)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		uint64_t key = sum_key(group, (uint32_t)stacks[i]);
		if (sums->accepted && !sums->accepted[stacks[i]])
			continue;
		r = sums->weights ? add_weighed_to_map(&sums->map, key, sums->weights[id], values[i])
				  : map64_sum(&sums->map, key, values[i]);
	}
	return r;
}

uint64_t read_bucket_of(const struct reading *r, int64_t time_ns)
{
	int64_t step = r->criteria.step_ns;
	return step ? ((uint64_t)time_ns - (uint64_t)store_select_steps_ns(r->select)) / (uint64_t)step : 0;
}

/* Values from -SMALL up to SMALL, RUN_MAX of them: their sum is far from any limit. */
#define SMALL	(1ull << 46)
#define RUN_MAX (1u << 16)

static int64_t sum_run(const uint8_t *accepted, size_t count, const int32_t *stacks, const int64_t *values)
{
	int64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum_to(&sum, !accepted || accepted[stacks[i]] ? values[i] : 0);
	return sum;
}

static int add_points(const struct source_sums *sums, struct map64 *map, uint32_t group, size_t count, const int32_t *stacks,
		      const int64_t *times, const int64_t *values)
{
	const uint8_t *accepted = stacks ? sums->accepted : NULL;
	int64_t step = sums->r->criteria.step_ns;
	int r = 0;
	for (size_t i = 0; r == 0 && i < count;) {
		uint64_t bucket = times ? read_bucket_of(sums->r, times[i]) : 0, sum = 0, seen = 0;
		size_t from = i;
		/* Neighbours are mostly in the same bucket: its ends are compared with, instead of dividing for each row. */
		uint64_t start = (uint64_t)store_select_steps_ns(sums->r->select) + bucket * (uint64_t)step;
		bool any = false;
		for (; i < count && (!times || !step || (uint64_t)times[i] - start < (uint64_t)step); i++) {
			bool ok = !accepted || accepted[stacks[i]];
			any |= ok;
			uint64_t value = ok ? (uint64_t)values[i] : 0;
			sum += value;
			seen |= value + SMALL;
		}
		if (seen >= 2 * SMALL || i - from > RUN_MAX)
			sum = (uint64_t)sum_run(accepted, i - from, stacks ? stacks + from : NULL, values + from);
		if (any)
			r = map64_sum(map, sum_key(group, (uint32_t)bucket), (int64_t)sum);
	}
	return r;
}

int source_sums_add_group_points(struct source_sums *sums, uint32_t group, size_t count, const int32_t *stacks,
				 const int64_t *times, const int64_t *values)
{
	return add_points(sums, &sums->map, group, count, stacks, times, values);
}

int source_sums_add_points(struct source_sums *sums, uint32_t id, size_t count, const int32_t *stacks, const int64_t *times,
			   const int64_t *values)
{
	bool averaged = sums->numbers && sums->numbers[id] != NOT_AVERAGED;
	uint32_t group = averaged ? sums->numbers[id] : sums->groups ? sums->groups[id] : 0;
	return add_points(sums, averaged ? &sums->averages->sums : &sums->map, group, count, stacks, times, values);
}

int source_sums_merge(struct source_sums *to, const struct source_sums *from)
{
	size_t cursor = 0, count = to->dense ? to->local_count * to->stack_count : 0;
	uint64_t key, value;
	int r = 0;
	for (size_t i = 0; i < count; i++)
		sum_to(&to->dense[i], from->dense[i]);
	while (r == 0 && map64_next(&from->map, &cursor, &key, &value))
		r = map64_sum(&to->map, key, (int64_t)value);
	return r;
}

/* ---- lists ---- */

static int reserve_lists(struct sum_lists *lists, size_t count, bool grouped)
{
	lists->stacks = mem_alloc_array(count, sizeof(*lists->stacks));
	lists->values = mem_alloc_array(count, sizeof(*lists->values));
	lists->groups = grouped ? mem_alloc_array(count, sizeof(*lists->groups)) : NULL;
	return lists->stacks && lists->values && (lists->groups || !grouped) ? 0 : -ENOMEM;
}

static void list_dense(const struct source_sums *sums, struct sum_lists *lists)
{
	for (size_t g = 0; g < sums->local_count; g++) {
		const int64_t *dense = sums->dense + g * sums->stack_count;
		for (size_t i = 0; i < sums->stack_count; i++) {
			if (!dense[i])
				continue;
			lists->stacks[lists->count] = (uint32_t)i;
			lists->values[lists->count] = dense[i];
			if (lists->groups)
				lists->groups[lists->count] = sums->local_numbers ? sums->local_numbers[g] : 0;
			lists->count++;
		}
	}
}

static void list_map(const struct source_sums *sums, struct sum_lists *lists)
{
	size_t cursor = 0;
	uint64_t key, value;
	while (map64_next(&sums->map, &cursor, &key, &value)) {
		if (!value)
			continue;
		lists->stacks[lists->count] = (uint32_t)key;
		lists->groups[lists->count] = (uint32_t)(key >> 32);
		lists->values[lists->count++] = (int64_t)value;
	}
}

int source_sums_list(const struct source_sums *sums, struct sum_lists *ret, struct error *err)
{
	size_t count = sums->map.count;
	*ret = (struct sum_lists){0};
	for (size_t i = 0; sums->dense && i < sums->local_count * sums->stack_count; i++)
		count += sums->dense[i] != 0;
	if (reserve_lists(ret, count, sums->groups || !sums->dense || sums->map.count) < 0) {
		sum_lists_release(ret);
		return error_nomem(err);
	}
	if (sums->dense)
		list_dense(sums, ret);
	list_map(sums, ret); /* with dense sums, those of rows with numbers */
	return 0;
}

void sum_lists_release(struct sum_lists *lists)
{
	mem_free(lists->stacks);
	mem_free(lists->groups);
	mem_free(lists->values);
	*lists = (struct sum_lists){0};
}
