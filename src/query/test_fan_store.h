/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another store, for tests: it keeps its data in two local stores and makes one answer of theirs. It is nothing but an
 * implementation of store_ops.h over the functions of store.h, so what holds for queries of the local store and not of this one
 * leans on something behind the interface.
 *
 * A profile goes to the store that the hash of its base labels chooses, so all of a series is in one of them: sums of averages
 * are then averages of sums.
 */
#ifndef WICK_QUERY_TEST_FAN_STORE_H
#define WICK_QUERY_TEST_FAN_STORE_H

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/io.h"
#include "base/map.h"
#include "base/order.h"
#include "profile/merge.h"
#include "store/store_ops.h"

#define FAN_PARTS 2
struct fan_store {
	struct store base;
	struct store *parts[FAN_PARTS];
};

static inline struct store *const *fan_parts(struct store *store)
{
	return ((struct fan_store *)store)->parts;
}

static struct store *fan_close(struct store *store)
{
	for (size_t i = 0; i < FAN_PARTS; i++)
		store_close(fan_parts(store)[i]);
	mem_free(store);
	return NULL;
}

static int fan_open(const struct store_options *options, struct store **ret, struct error *err)
{
	struct fan_store *fan = mem_zalloc(sizeof(*fan));
	int r = fan ? io_make_dirs(options->directory, 0750, err) : error_nomem(err);
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++) {
		char directory[PATH_MAX];
		struct store_options own = *options;
		snprintf(directory, sizeof(directory), "%.4000s/%zu", options->directory, i);
		own.directory = directory;
		own.ops = NULL;
		r = store_open(&own, &fan->parts[i], err);
	}
	if (r < 0) {
		if (fan)
			fan_close(&fan->base);
		return r;
	}
	*ret = &fan->base;
	return 0;
}

static int fan_append(struct store *store, const struct profile *profile, const struct store_append_options *options,
		      struct store_append_result *ret, struct error *err)
{
	uint64_t hash = options->labels ? labels_hash(options->labels) : 0;
	return store_append(fan_parts(store)[hash % FAN_PARTS], profile, options, ret, err);
}

/* ---- reading ---- */

/* One part's merge goes into a profile of its own, in which the groups that the caller numbered are label sets: labels of
 * samples there are sets there. */
struct fan_merge {
	const struct store_grouping *grouping;
	struct profile *part;
	uint32_t *groups; /* by label set of `part` */
	size_t capacity;
};

static int fan_on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
			struct error *err)
{
	struct fan_merge *merge = context;
	struct profile_label label = {0};
	uint32_t group;
	int r = merge->grouping->group(merge->grouping->context, type, labels, &group, err);
	if (r == 0)
		r = profile_add_cstring(merge->part, "group", &label.key, err);
	label.number = (int64_t)group + 1;
	if (r == 0)
		r = profile_add_label_set(merge->part, &label, 1, ret, err);
	if (r < 0)
		return r;
	if (array_reserve(&merge->groups, &merge->capacity, (size_t)*ret + 1, UINT32_MAX) < 0)
		return error_nomem(err);
	merge->groups[*ret] = group;
	return 0;
}

static void fan_unite_range(struct profile *into, const struct profile *part, bool is_first)
{
	int64_t end = into->time_ns + into->duration_ns, part_end = part->time_ns + part->duration_ns;
	into->time_ns = is_first || part->time_ns < into->time_ns ? part->time_ns : into->time_ns;
	into->duration_ns = (is_first || part_end > end ? part_end : end) - into->time_ns;
	into->period = part->period > into->period ? part->period : into->period;
}

static int fan_copy_part(struct fan_merge *merge, struct profile *into, struct error *err)
{
	_cleanup_(profile_copy_freep) struct profile_copy *copy = NULL;
	const struct profile *part = merge->part;
	bool is_first = into->sample_type_count == 0;
	if (part->sample_type_count == 0) /* nothing was found */
		return 0;
	int r = profile_copy_new(into, part, &copy, err);
	if (r == 0 && is_first)
		r = profile_copy_sample_types(copy, err);
	if (r == 0 && is_first)
		r = profile_copy_times(copy, err);
	if (r == 0 &&
	    strcmp(profile_string(into, into->sample_types[0].type), profile_string(part, part->sample_types[0].type)))
		r = error_set(err, -EINVAL, "the parts have series of different types");
	if (r == 0)
		fan_unite_range(into, part, is_first);
	for (size_t i = 0; r == 0 && i < part->sample_count; i++) {
		const struct profile_sample *from = &part->samples[i];
		struct profile_sample sample = {.labels = merge->groups && from->labels ? merge->groups[from->labels] : 0};
		r = profile_copy_stack(copy, from->stack, &sample.stack, err);
		if (r == 0)
			r = profile_copy_label_set(copy, from->numbers, &sample.numbers, err);
		if (r == 0)
			r = profile_add_sample(into, &sample, &part->values[i], err);
	}
	return r;
}

static int fan_merge_part(struct store *part, const struct store_select *select, const struct store_grouping *grouping,
			  struct profile *into, struct store_read_stats *stats, struct error *err)
{
	_cleanup_(profile_freep) struct profile *own = NULL;
	struct fan_merge merge = {.grouping = grouping};
	struct store_grouping numbered = grouping ? *grouping : (struct store_grouping){0};
	struct store_read_stats read = {0};
	int r = profile_new(&own, err);
	if (r < 0)
		return r;
	merge.part = own;
	numbered.group = fan_on_group;
	numbered.context = &merge;
	r = store_merge(part, select, grouping ? &numbered : NULL, own, &read, err);
	if (r == 0)
		r = fan_copy_part(&merge, into, err);
	store_read_stats_unite(stats, &read);
	mem_free(merge.groups);
	return r;
}

static int fan_merge(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		     struct profile *into, struct store_read_stats *stats, struct error *err)
{
	struct store_read_stats own;
	int r = 0;
	stats = stats ? stats : &own;
	*stats = (struct store_read_stats){0};
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++)
		r = fan_merge_part(fan_parts(store)[i], select, grouping, into, stats, err);
	return r < 0 ? r : profile_aggregate(into, err);
}

static int fan_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		      int64_t step_ns, store_on_point on_point, void *context, struct store_read_stats *stats,
		      struct error *err)
{
	struct store_read_stats all = {0};
	int r = 0;
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++) {
		struct store_read_stats read = {0};
		r = store_series(fan_parts(store)[i], select, grouping, step_ns, on_point, context, &read, err);
		store_read_stats_unite(&all, &read);
	}
	if (stats)
		*stats = all;
	return r;
}

static int fan_list_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			   struct store_read_stats *stats, struct error *err)
{
	struct store_read_stats all = {0};
	int r = 0;
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++) {
		struct store_read_stats read = {0};
		r = store_list_series(fan_parts(store)[i], select, grouping, &read, err);
		store_read_stats_unite(&all, &read);
	}
	if (stats)
		*stats = all;
	return r;
}

static int fan_read_processes(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
			      unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			      struct error *err)
{
	struct store_read_stats all = {0};
	int r = 0;
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++) {
		struct store_read_stats read = {0};
		r = store_read_processes(fan_parts(store)[i], select, grouping, columns, on_row, context, &read, err);
		store_read_stats_unite(&all, &read);
	}
	if (stats)
		*stats = all;
	return r;
}

/* ---- hosts ---- */

/* A host is in one of the parts, whichever has its samples. */
static int fan_note_host(struct store *store, const char *host, const struct labels *labels, int64_t time_ns, struct error *err)
{
	uint64_t hash = hash64(host, strlen(host));
	return store_note_host(fan_parts(store)[hash % FAN_PARTS], host, labels, time_ns, err);
}

static int fan_read_hosts(struct store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
			  store_on_host on_host, void *context, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++)
		r = store_read_hosts(fan_parts(store)[i], names, name_count, from_ns, to_ns, on_host, context, err);
	return r;
}

/* ---- lists ---- */

/*
 * The sources of one store say of a name how many series they have, and who asks takes the largest. Here the parts have
 * different series: what each of them has is found out first, in that way, and then added up.
 */
struct fan_item {
	char *name;
	struct profile_type type;
	struct store_item part, all; /* of the part at hand, of those before */
};
struct fan_list {
	struct fan_item *items;
	size_t count, capacity;
};

static void fan_list_release(struct fan_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		mem_free(list->items[i].name);
	mem_free(list->items);
}

static bool fan_is_same(const struct fan_item *known, const struct store_item *item)
{
	return item->name ? strcmp(known->name, item->name) == 0 : profile_type_equal(&known->type, item->type);
}

static void fan_unite_times(struct store_item *to, const struct store_item *from)
{
	if (!from->series)
		return;
	to->first_ns = !to->series || from->first_ns < to->first_ns ? from->first_ns : to->first_ns;
	to->last_ns = !to->series || from->last_ns > to->last_ns ? from->last_ns : to->last_ns;
}

static int fan_on_item(void *context, const struct store_item *item, struct error *err)
{
	struct fan_list *list = context;
	size_t i = 0;
	while (i < list->count && !fan_is_same(&list->items[i], item))
		i++;
	if (i == list->count) {
		struct fan_item fresh = {0};
		if (item->type)
			fresh.type = *item->type;
		fresh.name = mem_strdup(item->name ? item->name : "");
		if (!fresh.name || array_reserve(&list->items, &list->capacity, list->count + 1, SIZE_MAX) < 0) {
			mem_free(fresh.name);
			return error_nomem(err);
		}
		list->items[list->count++] = fresh;
	}
	struct store_item *part = &list->items[i].part;
	fan_unite_times(part, item);
	part->series = item->series > part->series ? item->series : part->series;
	part->values = item->values > part->values ? item->values : part->values;
	part->samples += item->samples;
	return 0;
}

static void fan_end_part(struct fan_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		struct store_item *part = &list->items[i].part, *all = &list->items[i].all;
		fan_unite_times(all, part);
		all->series += part->series;
		all->samples += part->samples;
		all->values = part->values > all->values ? part->values : all->values;
		*part = (struct store_item){0};
	}
}

enum fan_kind { FAN_TYPES, FAN_LABELS, FAN_VALUES };

static int fan_collect(struct store *store, enum fan_kind kind, const struct store_select *select, const char *label,
		       const char *prefix, struct fan_list *list, struct store_read_stats *stats, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++) {
		struct store *part = fan_parts(store)[i];
		struct store_read_stats read = {0};
		if (kind == FAN_TYPES)
			r = store_list_types(part, select, fan_on_item, list, &read, err);
		else if (kind == FAN_LABELS)
			r = store_list_labels(part, select, fan_on_item, list, &read, err);
		else
			r = store_list_values(part, select, label, prefix, fan_on_item, list, &read, err);
		store_read_stats_unite(stats, &read);
		fan_end_part(list);
	}
	return r;
}

/* Values that both parts have are not two. */
static int fan_count_values(struct store *store, const struct store_select *select, struct fan_item *item, struct error *err)
{
	_cleanup_(fan_list_release) struct fan_list values = {0};
	struct store_read_stats read = {0};
	int r = fan_collect(store, FAN_VALUES, select, item->name, "", &values, &read, err);
	item->all.values = values.count;
	return r;
}

static int fan_compare_names(const void *a, const void *b)
{
	return strcmp(((const struct fan_item *)a)->name, ((const struct fan_item *)b)->name);
}

static int fan_list(struct store *store, enum fan_kind kind, const struct store_select *select, const char *label,
		    const char *prefix, store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err)
{
	_cleanup_(fan_list_release) struct fan_list list = {0};
	struct store_read_stats all = {0};
	int r = fan_collect(store, kind, select, label, prefix, &list, &all, err);
	sort_array(list.items, list.count, fan_compare_names);
	for (size_t i = 0; r == 0 && i < list.count; i++) {
		struct fan_item *item = &list.items[i];
		if (kind == FAN_LABELS)
			r = fan_count_values(store, select, item, err);
		struct store_item out = item->all;
		out.name = kind == FAN_TYPES ? NULL : item->name;
		out.type = kind == FAN_TYPES ? &item->type : NULL;
		if (r == 0)
			r = on_item(context, &out, err);
	}
	if (stats)
		*stats = all;
	return r;
}

static int fan_list_types(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			  struct store_read_stats *stats, struct error *err)
{
	return fan_list(store, FAN_TYPES, select, NULL, NULL, on_item, context, stats, err);
}

static int fan_list_labels(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
			   struct store_read_stats *stats, struct error *err)
{
	return fan_list(store, FAN_LABELS, select, NULL, NULL, on_item, context, stats, err);
}

static int fan_list_values(struct store *store, const struct store_select *select, const char *label, const char *prefix,
			   store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err)
{
	return fan_list(store, FAN_VALUES, select, label, prefix, on_item, context, stats, err);
}

/* ---- changes ---- */

static int fan_delete(struct store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		      struct store_delete_result *ret, struct error *err)
{
	int r = 0;
	*ret = (struct store_delete_result){0};
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++) {
		struct store_delete_result part;
		r = store_delete(fan_parts(store)[i], series, from_ns, to_ns, &part, err);
		ret->blocks += part.blocks;
		ret->samples += part.samples;
		ret->kept += part.kept;
	}
	return r;
}

static void fan_get_stats(struct store *store, struct store_stats *ret)
{
	for (size_t i = 0; i < FAN_PARTS; i++) {
		struct store_stats part;
		store_get_stats(fan_parts(store)[i], &part);
		ret->appends += part.appends;
		ret->samples += part.samples;
		ret->blocks += part.blocks;
		ret->block_samples += part.block_samples;
		ret->head_samples += part.head_samples;
	}
}

static int fan_cut(struct store *store, struct error *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < FAN_PARTS; i++)
		r = store_cut(fan_parts(store)[i], err);
	return r;
}

static const struct store_ops fan_store_ops = {
	.open = fan_open,
	.close = fan_close,
	.append = fan_append,
	.merge = fan_merge,
	.series = fan_series,
	.list_types = fan_list_types,
	.list_labels = fan_list_labels,
	.list_values = fan_list_values,
	.list_series = fan_list_series,
	.read_processes = fan_read_processes,
	.note_host = fan_note_host,
	.read_hosts = fan_read_hosts,
	.delete = fan_delete,
	.get_stats = fan_get_stats,
	.cut = fan_cut,
};

#endif
