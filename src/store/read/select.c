/* SPDX-License-Identifier: Apache-2.0 */
#include "store/read/select.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/time.h"

/* ---- matching ---- */

static int match_types(const struct series_matcher *matcher, const struct series_columns *columns, bool processes,
		       struct selection *s, struct error *err)
{
	_cleanup_(mem_freep) uint8_t *verdicts = mem_zalloc(columns->type_count + 1);
	if (!verdicts)
		return error_nomem(err);
	for (size_t i = 0; i < columns->type_count; i++)
		verdicts[i] = profile_type_is_process_stats(&columns->types[i]) == processes &&
			      (processes || series_matcher_finds_type(matcher, &columns->types[i]));
	for (size_t i = 0; i < s->count; i++)
		s->wanted[i] = verdicts[columns->type_ids[i]];
	return 0;
}

/* By series: what its value of the label that stands in for another one comes to; the caller frees. */
static uint8_t *match_fallback(const struct series_matcher *matcher, size_t index, const struct series_columns *columns)
{
	const struct series_column *column = series_columns_find(columns, series_matcher_fallback(matcher, index));
	size_t values = column ? column->value_count : 0;
	_cleanup_(mem_freep) uint8_t *verdicts = mem_zalloc(values + 1);
	uint8_t *out = mem_zalloc(columns->count);
	if (!verdicts || !out)
		return mem_free(out);
	for (size_t i = 0; i < values; i++)
		verdicts[i] = series_matcher_finds_fallback(matcher, index, column->values[i]);
	verdicts[values] = series_matcher_finds_fallback(matcher, index, "");
	for (size_t i = 0; i < columns->count; i++)
		out[i] = verdicts[column && column->codes[i] < values ? column->codes[i] : values];
	return out;
}

static int match_label(const struct series_matcher *matcher, size_t index, const struct series_columns *columns,
		       struct selection *s, struct error *err)
{
	const struct series_column *column = series_columns_find(columns, series_matcher_label(matcher, index));
	size_t values = column ? column->value_count : 0;
	bool has_fallback = series_matcher_fallback(matcher, index) != NULL;
	bool without = series_matcher_finds_value(matcher, index, "");
	if (!column && without && !has_fallback)
		return 0;
	/* The last verdict is that of series without the label. */
	_cleanup_(mem_freep) uint8_t *verdicts = mem_zalloc(values + 1);
	_cleanup_(mem_freep) uint8_t *fallback = has_fallback ? match_fallback(matcher, index, columns) : NULL;
	if (!verdicts || (has_fallback && !fallback))
		return error_nomem(err);
	for (size_t i = 0; i < values; i++)
		verdicts[i] = series_matcher_finds_value(matcher, index, column->values[i]);
	verdicts[values] = without;
	for (size_t i = 0; i < s->count; i++) {
		uint32_t code = column ? column->codes[i] : SERIES_NO_VALUE;
		s->wanted[i] &= code >= values && fallback ? fallback[i] : verdicts[code < values ? code : values];
	}
	return 0;
}

static void match_keys(const struct series_matcher *matcher, const struct series_columns *columns, struct selection *s)
{
	struct label items[LIMIT_LABELS_PER_SERIES];
	for (size_t i = 0; i < s->count; i++) {
		if (!s->wanted[i])
			continue;
		struct labels labels = series_columns_labels(columns, i, NULL, 0, items);
		s->wanted[i] = series_matcher_finds_key(matcher, &columns->types[columns->type_ids[i]], &labels);
	}
}

/* ---- grouping ---- */

/* Combinations of codes that were met: the series that was first to have each. */
struct grouper {
	const struct store_grouping *grouping;
	const struct series_columns *columns;
	const struct series_column *by[STORE_GROUP_BY_MAX]; /* NULL: no series has it */
	struct index32 index;
	uint32_t *firsts, *numbers; /* by combination */
	size_t count, first_capacity, number_capacity;
	struct error *err;
};

static uint32_t code_of(const struct grouper *g, size_t by, size_t series)
{
	return g->by[by] ? g->by[by]->codes[series] : SERIES_NO_VALUE;
}

static uint64_t hash_combination(const struct grouper *g, size_t series)
{
	uint64_t hash = hash64_mix(g->columns->type_ids[series] + 1);
	for (size_t i = 0; i < g->grouping->by_count; i++)
		hash = hash64_mix(hash ^ code_of(g, i, series));
	return hash;
}

static bool is_same_combination(const struct grouper *g, size_t a, size_t b)
{
	bool same = g->columns->type_ids[a] == g->columns->type_ids[b];
	for (size_t i = 0; same && i < g->grouping->by_count; i++)
		same = code_of(g, i, a) == code_of(g, i, b);
	return same;
}

static int new_combination(struct grouper *g, uint64_t hash, size_t series, uint32_t *ret)
{
	struct label items[LIMIT_LABELS_PER_SERIES];
	const struct store_grouping *grouping = g->grouping;
	struct labels labels = series_columns_labels(g->columns, series, grouping->by, grouping->by_count, items);
	if (array_reserve(&g->firsts, &g->first_capacity, g->count + 1, UINT32_MAX) < 0 ||
	    array_reserve(&g->numbers, &g->number_capacity, g->count + 1, UINT32_MAX) < 0 ||
	    index32_add(&g->index, hash, (uint32_t)g->count) < 0)
		return error_nomem(g->err);
	int r = grouping->group(grouping->context, &g->columns->types[g->columns->type_ids[series]], &labels, ret, g->err);
	g->firsts[g->count] = (uint32_t)series;
	g->numbers[g->count++] = *ret;
	return r;
}

static int group_of(struct grouper *g, size_t series, uint32_t *ret)
{
	uint64_t hash = hash_combination(g, series);
	uint32_t at_combination;
	for (size_t at = index32_first(&g->index, hash); index32_at(&g->index, hash, &at, &at_combination); at++) {
		if (is_same_combination(g, g->firsts[at_combination], series)) {
			*ret = g->numbers[at_combination];
			return 0;
		}
	}
	return new_combination(g, hash, series, ret);
}

/* Every series is asked for by itself. */
static int make_single_groups(const struct store_grouping *grouping, const struct series_columns *columns, struct selection *s,
			      struct error *err)
{
	struct label items[LIMIT_LABELS_PER_SERIES];
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->count; i++) {
		if (!s->wanted[i])
			continue;
		struct labels labels = series_columns_labels(columns, i, NULL, 0, items);
		r = grouping->group(grouping->context, &columns->types[columns->type_ids[i]], &labels, &s->groups[i], err);
	}
	return r;
}

int selection_group(struct selection *s, const struct store_grouping *grouping, const struct series_columns *columns,
		    struct error *err)
{
	struct grouper g = {.grouping = grouping, .columns = columns, .err = err};
	int r = 0;
	if (grouping->by_count > STORE_GROUP_BY_MAX)
		return error_set(err, -EINVAL, "more than %d labels to group by", STORE_GROUP_BY_MAX);
	s->groups = mem_zalloc_array(s->count, sizeof(*s->groups));
	if (!s->groups)
		return error_nomem(err);
	if (!grouping->by)
		return make_single_groups(grouping, columns, s, err);
	for (size_t i = 0; i < grouping->by_count; i++)
		g.by[i] = series_columns_find(columns, grouping->by[i]);
	for (size_t i = 0; r == 0 && i < s->count; i++) {
		if (!s->wanted[i])
			continue;
		/* Series are sorted, so many follow one of the same combination. */
		if (i > 0 && s->wanted[i - 1] && is_same_combination(&g, i - 1, i))
			s->groups[i] = s->groups[i - 1];
		else
			r = group_of(&g, i, &s->groups[i]);
	}
	index32_release(&g.index);
	mem_free(g.firsts);
	mem_free(g.numbers);
	return r;
}

/* ---- both ---- */

void selection_count(struct selection *s)
{
	s->matched = 0;
	for (size_t i = 0; i < s->count; i++)
		s->matched += s->wanted[i];
}

static int make(const struct series_matcher *matcher, const struct store_grouping *grouping,
		const struct series_columns *columns, bool processes, struct selection *ret, struct error *err)
{
	*ret = (struct selection){.count = columns->count, .wanted = mem_zalloc(columns->count)};
	if (!ret->wanted)
		return error_nomem(err);
	int r = match_types(matcher, columns, processes, ret, err);
	for (size_t i = 0; r == 0 && i < series_matcher_label_count(matcher); i++)
		r = match_label(matcher, i, columns, ret, err);
	if (r == 0 && series_matcher_asks_keys(matcher))
		match_keys(matcher, columns, ret);
	if (r == 0 && grouping)
		r = selection_group(ret, grouping, columns, err);
	selection_count(ret);
	if (r < 0)
		selection_release(ret);
	return r;
}

int selection_make(const struct series_matcher *matcher, const struct store_grouping *grouping,
		   const struct series_columns *columns, struct selection *ret, struct error *err)
{
	return make(matcher, grouping, columns, false, ret, err);
}

int selection_make_processes(const struct series_matcher *matcher, const struct store_grouping *grouping,
			     const struct series_columns *columns, struct selection *ret, struct error *err)
{
	return make(matcher, grouping, columns, true, ret, err);
}

void selection_limit(struct selection *selection, const struct store_select *select, const int64_t *first_ns,
		     const int64_t *last_ns)
{
	for (size_t i = 0; i < selection->count; i++)
		selection->wanted[i] &= first_ns[i] < select->to_ns && last_ns[i] >= select->from_ns;
	selection_count(selection);
}

void selection_release(struct selection *selection)
{
	mem_free(selection->wanted);
	mem_free(selection->groups);
	*selection = (struct selection){0};
}

int select_check(const struct store_select *select, uint64_t rows, size_t done, size_t count, struct store_read_stats *stats,
		 struct error *err)
{
	if (cancel_requested(select->cancel))
		return error_set(err, -ECANCELED, "the query was cancelled");
	bool late = select->deadline_ns && time_monotonic_ns() >= select->deadline_ns;
	if (!late && !(select->rows_max && stats->rows + rows > select->rows_max))
		return 0;
	if (!stats->partial)
		snprintf(stats->why, sizeof(stats->why), "%s after %zu of %zu sources",
			 late ? "the deadline passed" : "the row limit was reached", done, count);
	stats->partial = true;
	return SELECT_LIMITED;
}

void store_read_stats_add(struct store_read_stats *to, const struct store_read_stats *from)
{
	uint64_t *sums = (uint64_t *)to;
	const uint64_t *more = (const uint64_t *)from;
	for (size_t i = 0; i < offsetof(struct store_read_stats, period) / sizeof(*sums); i++)
		sums[i] += more[i];
}

void store_read_stats_lose(struct store_read_stats *stats, uint64_t rows, int64_t from_ns, int64_t to_ns)
{
	bool is_first = !stats->lost_from_ns && !stats->lost_to_ns;
	stats->lost_rows += rows;
	if (!from_ns && !to_ns)
		return;
	stats->lost_from_ns = is_first || from_ns < stats->lost_from_ns ? from_ns : stats->lost_from_ns;
	stats->lost_to_ns = is_first || to_ns > stats->lost_to_ns ? to_ns : stats->lost_to_ns;
}

void store_read_stats_unite(struct store_read_stats *to, const struct store_read_stats *from)
{
	store_read_stats_add(to, from);
	to->period = from->period > to->period ? from->period : to->period;
	store_read_stats_lose(to, 0, from->lost_from_ns, from->lost_to_ns);
	if (from->partial && !to->partial)
		memcpy(to->why, from->why, sizeof(to->why));
	to->partial |= from->partial;
	to->saturated |= from->saturated;
	to->short_of_memory |= from->short_of_memory;
}
