/* SPDX-License-Identifier: Apache-2.0 */
#include "store/series.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

uint64_t series_hash(const struct profile_type *type, const struct labels *labels)
{
	char text[PROFILE_TYPE_TEXT_MAX];
	profile_type_format(type, text);
	return hash64_seed(text, strlen(text), labels_hash(labels));
}

static int compare_types(const struct profile_type *a, const struct profile_type *b)
{
	int order = strcmp(a->name, b->name);
	if (order == 0)
		order = strcmp(a->sample_type, b->sample_type);
	if (order == 0)
		order = strcmp(a->sample_unit, b->sample_unit);
	if (order == 0)
		order = strcmp(a->period_type, b->period_type);
	if (order == 0)
		order = strcmp(a->period_unit, b->period_unit);
	return order ? order : (int)a->delta - (int)b->delta;
}

int series_compare(const struct series *a, const struct series *b)
{
	int order = a->type == b->type ? 0 : compare_types(a->type, b->type);
	if (order)
		return order;
	const char *service_a = labels_get(a->labels, "service_name"), *service_b = labels_get(b->labels, "service_name");
	order = strcmp(service_a ? service_a : "", service_b ? service_b : "");
	return order ? order : labels_compare(a->labels, b->labels);
}

void series_set_init(struct series_set *set, const struct store_select *select)
{
	*set = (struct series_set){.select = select};
	index32_init(&set->index);
}

void series_set_release(struct series_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		labels_release(&set->entries[i].labels);
	mem_free(set->entries);
	index32_release(&set->index);
}

static bool is_same(const struct series_set_entry *entry, const struct series *series)
{
	return profile_type_equal(&entry->type, series->type) && labels_compare(&entry->labels, series->labels) == 0;
}

int series_set_add(struct series_set *set, const struct series *series, uint32_t *ret_index, bool *ret_is_new,
		   struct error *err)
{
	uint32_t id;
	*ret_is_new = false;
	for (size_t at = index32_first(&set->index, series->hash); index32_at(&set->index, series->hash, &at, &id); at++) {
		if (is_same(&set->entries[id], series)) {
			*ret_index = id;
			return 0;
		}
	}
	if (array_reserve(&set->entries, &set->capacity, set->count + 1, UINT32_MAX - 1) < 0 ||
	    index32_reserve(&set->index, 1) < 0)
		return error_nomem(err);
	struct series_set_entry *entry = &set->entries[set->count];
	*entry = (struct series_set_entry){.type = *series->type, .number = UINT32_MAX};
	int r = labels_copy(&entry->labels, series->labels, err);
	if (r < 0)
		return r;
	const struct store_select *select = set->select;
	entry->matches = !select->match || select->match(select->context, &entry->type, &entry->labels);
	id = (uint32_t)set->count++;
	index32_add(&set->index, series->hash, id);
	*ret_index = id;
	*ret_is_new = true;
	return 0;
}
