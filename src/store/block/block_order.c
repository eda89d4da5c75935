/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of series in a block: by type, by the labels that rollups keep, by all labels. So what is asked for together lies
 * together, and series that share a rollup series are neighbours.
 *
 * Comparing two series text by text costs a search for each label name; a block has 100,000 series and more. So the texts of
 * each column are sorted once and replaced by their ranks, and the series are then refined column by column: spans of series
 * that are equal so far are sorted by the ranks of the next column, until no span is left. Most columns then look at few
 * series, and the many rare label names of some sources cost next to nothing.
 *
 * A label that a series does not have comes before all its values.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "store/block/block_write_int.h"

/* What a fleet is looked at by: the service and its version, where it runs, what kind of thing it is. Names of the same thing
 * in different conventions stand next to each other. Not here: what distinguishes instances (pod, host, container, instance),
 * for rollups are small because they leave that out. */
const char *const rollup_label_names[] = {
	"service_name",
	"service_namespace",
	"service_version",
	"version",
	"namespace",
	"k8s_namespace_name",
	"k8s_cluster_name",
	"cluster",
	"deployment_environment",
	"deployment_environment_name",
	"env",
	"environment",
	"cloud_region",
	"region",
	"cloud_availability_zone",
	"availability_zone",
	"zone",
	"job",
	"app",
	"team",
	"tier",
	"systemd_unit",
	"process_executable_name",
	NULL,
};
_Static_assert(sizeof(rollup_label_names) / sizeof(*rollup_label_names) - 1 <= ROLLUP_LABELS_MAX, "a bit for each");

/* ---- sorting ---- */

void block_sort_by_high(uint64_t *keys, uint64_t *spare, size_t count)
{
	if (count < 32) {
		for (size_t i = 1; i < count; i++) {
			uint64_t key = keys[i];
			size_t at = i;
			for (; at > 0 && keys[at - 1] >> 32 > key >> 32; at--)
				keys[at] = keys[at - 1];
			keys[at] = key;
		}
		return;
	}
	for (unsigned shift = 32; shift < 64; shift += 8) {
		size_t starts[257] = {0};
		for (size_t i = 0; i < count; i++)
			starts[(keys[i] >> shift & 255) + 1]++;
		bool all_same = starts[(keys[0] >> shift & 255) + 1] == count;
		if (all_same)
			continue;
		for (size_t i = 1; i < 257; i++)
			starts[i] += starts[i - 1];
		for (size_t i = 0; i < count; i++)
			spare[starts[keys[i] >> shift & 255]++] = keys[i];
		memcpy(keys, spare, count * sizeof(*keys));
	}
}

static int compare_values(const void *a, const void *b, void *context)
{
	const struct series_column *column = context;
	return strcmp(column->values[*(const uint32_t *)a], column->values[*(const uint32_t *)b]);
}

int block_order_of_values(const struct series_column *column, uint32_t **ret, struct error *err)
{
	uint32_t *codes = mem_alloc_array(column->value_count, sizeof(*codes));
	if (!codes)
		return error_nomem(err);
	for (size_t i = 0; i < column->value_count; i++)
		codes[i] = (uint32_t)i;
	if (column->value_count)
		qsort_r(codes, column->value_count, sizeof(*codes), compare_values, (void *)column);
	*ret = codes;
	return 0;
}

/* ---- refining ---- */

struct span {
	uint32_t first, count; /* in the order */
};
struct refining {
	uint32_t *order;
	uint64_t *keys, *spare;
	struct span *spans, *next; /* of series that are equal so far; room for count / 2 each */
	size_t span_count, next_count;
	struct error *err;
};

/* Sorts one span by the ranks of its codes, rank 0 = SERIES_NO_VALUE, and notes what is still equal in it. */
static void refine_span(struct refining *r, struct span span, const uint32_t *codes, const uint32_t *ranks)
{
	uint32_t *order = r->order + span.first;
	bool all_same = true;
	for (size_t i = 0; i < span.count; i++) {
		uint32_t code = codes[order[i]];
		r->keys[i] = (uint64_t)(code == SERIES_NO_VALUE ? 0 : ranks[code]) << 32 | order[i];
		all_same &= r->keys[i] >> 32 == r->keys[0] >> 32;
	}
	if (all_same) {
		r->next[r->next_count++] = span;
		return;
	}
	block_sort_by_high(r->keys, r->spare, span.count);
	for (uint32_t from = 0, to; from < span.count; from = to) {
		for (to = from; to < span.count && r->keys[to] >> 32 == r->keys[from] >> 32; to++)
			order[to] = (uint32_t)r->keys[to];
		if (to - from > 1)
			r->next[r->next_count++] = (struct span){span.first + from, to - from};
	}
}

static void refine(struct refining *r, const uint32_t *codes, const uint32_t *ranks)
{
	r->next_count = 0;
	for (size_t i = 0; i < r->span_count; i++)
		refine_span(r, r->spans[i], codes, ranks);
	struct span *spans = r->spans;
	r->spans = r->next;
	r->next = spans;
	r->span_count = r->next_count;
}

static int refine_by_label(struct refining *r, const struct series_column *column)
{
	_cleanup_(mem_freep) uint32_t *sorted = NULL;
	if (r->span_count == 0)
		return 0;
	_cleanup_(mem_freep) uint32_t *ranks = mem_alloc_array(column->value_count, sizeof(*ranks));
	if (!ranks)
		return error_nomem(r->err);
	int code = block_order_of_values(column, &sorted, r->err);
	if (code < 0)
		return code;
	for (size_t i = 0; i < column->value_count; i++)
		ranks[sorted[i]] = (uint32_t)i + 1;
	refine(r, column->codes, ranks);
	return 0;
}

static int compare_types(const void *a, const void *b, void *context)
{
	const struct profile_type *types = context;
	return series_compare_types(&types[*(const uint32_t *)a], &types[*(const uint32_t *)b]);
}

static int refine_by_type(struct refining *r, const struct series_columns *columns)
{
	_cleanup_(mem_freep) uint32_t *sorted = mem_alloc_array(columns->type_count, sizeof(*sorted));
	_cleanup_(mem_freep) uint32_t *ranks = mem_alloc_array(columns->type_count, sizeof(*ranks));
	if (!sorted || !ranks)
		return error_nomem(r->err);
	for (size_t i = 0; i < columns->type_count; i++)
		sorted[i] = (uint32_t)i;
	if (columns->type_count)
		qsort_r(sorted, columns->type_count, sizeof(*sorted), compare_types, (void *)columns->types);
	for (size_t i = 0; i < columns->type_count; i++)
		ranks[sorted[i]] = (uint32_t)i + 1;
	refine(r, columns->type_ids, ranks);
	return 0;
}

/* ---- the order ---- */

static uint32_t choose_kept(const struct series_columns *columns)
{
	uint32_t keep = 0;
	for (size_t i = 0; rollup_label_names[i]; i++) {
		const struct series_column *column = series_columns_find(columns, rollup_label_names[i]);
		if (column && column->value_count <= ROLLUP_VALUES_MAX)
			keep |= 1u << i;
	}
	return keep;
}

static bool is_kept(const char *name, uint32_t keep)
{
	for (size_t i = 0; rollup_label_names[i]; i++)
		if (keep & 1u << i && !strcmp(rollup_label_names[i], name))
			return true;
	return false;
}

static int refine_all(struct refining *r, const struct series_columns *columns, uint32_t keep)
{
	int code = refine_by_type(r, columns);
	for (size_t i = 0; code == 0 && rollup_label_names[i]; i++)
		if (keep & 1u << i)
			code = refine_by_label(r, series_columns_find(columns, rollup_label_names[i]));
	for (size_t i = 0; code == 0 && i < columns->label_count; i++)
		if (!is_kept(columns->labels[i].name, keep))
			code = refine_by_label(r, &columns->labels[i]);
	return code;
}

static int order_columns(const struct series_columns *columns, uint32_t keep, uint32_t *order, struct error *err)
{
	size_t count = columns->count;
	_cleanup_(mem_freep) uint64_t *keys = mem_alloc_array(count, sizeof(*keys));
	_cleanup_(mem_freep) uint64_t *spare = mem_alloc_array(count, sizeof(*spare));
	_cleanup_(mem_freep) struct span *spans = mem_alloc_array(count / 2 + 1, sizeof(*spans));
	_cleanup_(mem_freep) struct span *next = mem_alloc_array(count / 2 + 1, sizeof(*next));
	if (!keys || !spare || !spans || !next)
		return error_nomem(err);
	struct refining refining = {.order = order,
				    .keys = keys,
				    .spare = spare,
				    .spans = spans,
				    .next = next,
				    .span_count = count > 1,
				    .err = err};
	spans[0] = (struct span){0, (uint32_t)count};
	for (size_t i = 0; i < count; i++)
		order[i] = (uint32_t)i;
	return refine_all(&refining, columns, keep);
}

int block_order_of_series(const struct series *series, size_t count, uint32_t **ret_order, uint32_t *ret_keep,
			  struct error *err)
{
	_cleanup_(series_columns_release) struct series_columns columns = {0};
	int r = series_columns_build(series, count, &columns, err);
	if (r < 0)
		return r;
	uint32_t keep = choose_kept(&columns);
	_cleanup_(mem_freep) uint32_t *order = mem_alloc_array(count, sizeof(*order));
	r = order ? order_columns(&columns, keep, order, err) : error_nomem(err);
	if (r < 0)
		return r;
	*ret_order = TAKE(order);
	*ret_keep = keep;
	return 0;
}
