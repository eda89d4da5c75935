/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalogue: profile types, label names and label values, each with how many series and samples have it and when they were
 * seen first and last. Read from indexes alone, never from samples. Blocks and the head tell each what they know; here it is
 * put together by name: samples add up, but series do not, since most series are in all blocks. The largest number is kept,
 * which is a lower bound of the truth.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/time.h"
#include "query/query_int.h"

#define NAMES_BYTES_MAX (64 * MIB)
#define LABEL_SETS_MAX	100000

static void add_item(struct query_name *to, const struct store_item *item)
{
	if (!to->series || item->first_ns < to->first_ns)
		to->first_ns = item->first_ns;
	if (!to->series || item->last_ns > to->last_ns)
		to->last_ns = item->last_ns;
	to->samples += item->samples;
	to->series = item->series > to->series ? item->series : to->series;
	to->values = item->values > to->values ? item->values : to->values;
}

int query_names_find(struct names_build *build, const char *name, struct query_name **ret, struct error *err)
{
	uint32_t id;
	int r = intern_add_string(&build->texts, name, &id);
	if (r == -E2BIG)
		return error_set(err, -EINVAL, "query: too many different names; narrow the selector or the time range");
	if (r < 0 || array_reserve(&build->items, &build->capacity, (size_t)id + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	while (build->count <= id)
		build->items[build->count++] = (struct query_name){0};
	*ret = &build->items[id];
	return 0;
}

static int names_on_item(void *context, const struct store_item *item, struct error *err)
{
	char type[PROFILE_TYPE_TEXT_MAX];
	struct query_name *name = NULL;
	if (!item->series)
		return 0;
	int r = query_names_find(context, item->type ? profile_type_format(item->type, type) : item->name, &name, err);
	if (r == 0)
		add_item(name, item);
	return r;
}

DEFINE_ORDER(compare_names, struct query_name, strcmp(a->name, b->name));

/* With a limit the names of most series are kept: those a person looks for first. */
DEFINE_ORDER(compare_by_series, struct query_name, ORDER(b->series, a->series) ?: compare_names(a, b));

static int names_finish(struct names_build *build, size_t limit, struct query_names *ret, struct error *err)
{
	struct query_names names = {.items = mem_zalloc_array(build->count, sizeof(*names.items))};
	if (!names.items)
		return error_nomem(err);
	for (size_t i = 0; i < build->count; i++) {
		if (!build->items[i].series) /* "", which every table of texts has */
			continue;
		struct query_name *to = &names.items[names.count];
		*to = build->items[i];
		to->name = mem_strdup(intern_string(&build->texts, (uint32_t)i));
		if (!to->name) {
			query_names_release(&names);
			return error_nomem(err);
		}
		names.count++;
	}
	names.count_before_limit = names.count;
	if (limit && names.count > limit) {
		sort_array(names.items, names.count, compare_by_series);
		while (names.count > limit)
			mem_free(names.items[--names.count].name);
	}
	sort_array(names.items, names.count, compare_names);
	*ret = names;
	return 0;
}

void names_build_release(struct names_build *build)
{
	intern_release(&build->texts);
	mem_free(build->items);
}

typedef int (*list_function)(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			     struct store_read_stats *stats, struct error *err);

/* list NULL = values of label. */
static int names_read(struct store *store, const struct query *query, list_function list, const char *label, const char *prefix,
		      size_t limit, struct query_names *ret, struct query_stats *stats, struct error *err)
{
	struct query plain = *query;
	plain.frames_count = 0;
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(names_build_release) struct names_build build = {0};
	int r = query_scan_init(&scan, NULL, &plain, err);
	if (r < 0)
		return r;
	r = query_scan_join(&scan, store, NULL, 0, err);
	if (r < 0)
		return r;
	if (intern_init(&build.texts, NAMES_BYTES_MAX) < 0)
		return error_nomem(err);
	int64_t started = time_monotonic_ns();
	if (list)
		r = list(store, &scan.select, names_on_item, &build, &scan.read, err);
	else
		r = store_list_values(store, &scan.select, label, prefix, names_on_item, &build, &scan.read, err);
	if (!r && list != store_list_types && !query->own_labels)
		r = names_add_hosts(store, &scan.select, label, prefix, &build, &scan.read, err);
	r = query_scan_finish(&scan, store, r, stats, started, err);
	return r < 0 ? r : names_finish(&build, limit, ret, err);
}

int query_types(struct store *store, const struct query *query, struct query_names *ret, struct query_stats *stats,
		struct error *err)
{
	return names_read(store, query, store_list_types, NULL, NULL, 0, ret, stats, err);
}

int query_label_names(struct store *store, const struct query *query, struct query_names *ret, struct query_stats *stats,
		      struct error *err)
{
	return names_read(store, query, store_list_labels, NULL, NULL, 0, ret, stats, err);
}

int query_label_values(struct store *store, const struct query *query, const char *label, const char *prefix, size_t limit,
		       struct query_names *ret, struct query_stats *stats, struct error *err)
{
	if (!label_name_is_valid(label))
		return error_set(err, -EINVAL, "query: '%.100s' is not a label name; names match [a-zA-Z_][a-zA-Z0-9_]*",
				 label);
	return names_read(store, query, NULL, label, prefix ? prefix : "", limit, ret, stats, err);
}

void query_names_release(struct query_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		mem_free(names->items[i].name);
	mem_free(names->items);
	*names = (struct query_names){0};
}

/* ---- combinations ---- */

static int compare_label_sets(const void *a, const void *b)
{
	return labels_compare(a, b);
}

static int list_part(void *context, const struct store_select *select, const struct store_grouping *grouping,
		     struct store_read_stats *stats, struct error *err)
{
	return store_list_series(context, select, grouping, stats, err);
}

int query_label_sets(struct store *store, const struct query *query, const char *const *by, size_t by_count, size_t limit,
		     struct query_label_sets *ret, struct query_stats *stats, struct error *err)
{
	struct query plain = *query;
	plain.frames_count = 0;
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(groups_release) struct groups groups = {0};
	int r = query_scan_init(&scan, NULL, &plain, err);
	if (!r)
		r = groups_init(&groups, NULL, by, by_count, LABEL_SETS_MAX, err);
	if (!r)
		r = query_scan_join(&scan, store, by, by_count, err);
	if (r < 0)
		return r;
	if (!by) {
		groups.by = NULL;
		groups.type_labels = true;
	}
	struct store_grouping grouping = {.by = groups.by, .by_count = by_count, .group = groups_on_group, .context = &groups};
	r = query_scan_read(&scan, &grouping, list_part, store, err);
	r = query_scan_finish(&scan, store, r, stats, 0, err);
	if (r < 0)
		return r;
	sort_array(groups.items, groups.count, compare_label_sets);
	*ret = (struct query_label_sets){.items = groups.items, .count = groups.count, .count_before_limit = groups.count};
	groups.items = NULL;
	groups.count = 0;
	while (limit && ret->count > limit)
		labels_release(&ret->items[--ret->count]);
	return 0;
}

void query_label_sets_release(struct query_label_sets *sets)
{
	for (size_t i = 0; i < sets->count; i++)
		labels_release(&sets->items[i]);
	mem_free(sets->items);
	*sets = (struct query_label_sets){0};
}
