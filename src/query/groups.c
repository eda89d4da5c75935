/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "query/query_int.h"

int groups_init(struct groups *groups, struct query_scan *scan, const char *const *by, size_t by_count, size_t max,
		struct error *err)
{
	static const char *const no_labels[] = {NULL}; /* to the store, no list is all labels */
	*groups = (struct groups){.scan = scan, .by = by_count ? by : no_labels, .by_count = by_count, .max = max};
	for (size_t i = 0; i < by_count; i++)
		groups->by_type |= type_label_of(by[i]) != TYPE_LABEL_NONE;
	if (by_count > STORE_GROUP_BY_MAX)
		return error_set(err, -EINVAL, "query: grouping by more than %d labels", STORE_GROUP_BY_MAX);
	for (size_t i = 0; i < by_count; i++)
		if (!label_name_is_valid(by[i]))
			return error_set(err, -EINVAL,
					 "query: '%.100s' is not a label name; names match [a-zA-Z_][a-zA-Z0-9_]*", by[i]);
	return 0;
}

void groups_release(struct groups *groups)
{
	for (size_t i = 0; i < groups->count; i++)
		labels_release(&groups->items[i]);
	mem_free(groups->items);
	index32_release(&groups->index);
	*groups = (struct groups){0};
}

int groups_find(struct groups *groups, const struct labels *labels, uint32_t *ret, struct error *err)
{
	uint64_t hash = labels_hash_guarded(labels);
	for (size_t at = index32_first(&groups->index, hash); index32_at(&groups->index, hash, &at, ret); at++)
		if (labels_compare(&groups->items[*ret], labels) == 0)
			return 0;
	int r = array_reserve(&groups->items, &groups->capacity, groups->count + 1, groups->max);
	if (r == -E2BIG)
		return error_set(err, -EINVAL, "query: more than %zu groups; group by fewer labels or narrow the selector",
				 groups->max);
	if (r < 0 || index32_reserve(&groups->index, 1) < 0)
		return error_nomem(err);
	r = labels_copy(&groups->items[groups->count], labels, err);
	if (r < 0)
		return r;
	*ret = (uint32_t)groups->count++;
	index32_add(&groups->index, hash, *ret);
	return 0;
}

static int add_type_labels(const struct groups *groups, const struct profile_type *type, const struct labels *labels,
			   struct labels *ret, struct error *err)
{
	char text[PROFILE_TYPE_TEXT_MAX];
	const char *name, *value;
	int r = labels_copy(ret, labels, err);
	for (size_t i = 0; !r && groups->type_labels && (name = query_type_label_name(i)); i++)
		if (ret->count < LIMIT_LABELS_PER_SERIES) /* a series may have as many of its own */
			r = labels_set(ret, name, query_type_label_value(name, type, text), err);
	for (size_t i = 0; !r && groups->by_type && i < groups->by_count; i++)
		if ((value = query_type_label_value(groups->by[i], type, text)))
			r = labels_set(ret, groups->by[i], value, err);
	return r;
}

int groups_labels(const struct groups *groups, const struct profile_type *type, const struct labels *labels,
		  struct labels *room, const struct labels **ret, struct error *err)
{
	*ret = labels;
	if (!groups->type_labels && !groups->by_type)
		return 0;
	*ret = room;
	return add_type_labels(groups, type, labels, room, err);
}

int groups_on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	struct groups *groups = context;
	_cleanup_(labels_release) struct labels room = {0};
	const struct labels *all;
	int r = groups->scan ? query_scan_take_type(groups->scan, type, err) : 0;
	if (!r)
		r = groups_labels(groups, type, labels, &room, &all, err);
	return r < 0 ? r : groups_find(groups, all, ret, err);
}
