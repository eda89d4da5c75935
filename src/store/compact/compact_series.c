/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The series of several blocks put together. Texts are interned, so that a series is a row of pointers that can be hashed and
 * compared as bytes; each distinct text of a column is interned once a block, not once a series.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/intern.h"
#include "base/limits.h"
#include "store/compact/compact_int.h"

struct entry {
	const struct profile_type *type;
	struct labels labels;
};
struct merged_series {
	struct intern texts;
	struct arena arena; /* types, label pairs */
	const struct profile_type **types;
	size_t type_count, type_capacity;
	struct entry **entries; /* in the arena: the series point to them */
	struct series *series;
	size_t count, entry_capacity, series_capacity;
	uint64_t pairs;
	struct index32 index;
	uint32_t *ranks; /* id -> id in block order */
};

int merged_series_new(struct merged_series **ret, struct error *err)
{
	struct merged_series *merged = mem_zalloc(sizeof(*merged));
	if (!merged)
		return error_nomem(err);
	arena_init(&merged->arena, SIZE_MAX);
	if (intern_init(&merged->texts, SIZE_MAX) < 0) {
		mem_free(merged);
		return error_nomem(err);
	}
	*ret = merged;
	return 0;
}

struct merged_series *merged_series_free(struct merged_series *merged)
{
	if (!merged)
		return NULL;
	intern_release(&merged->texts);
	arena_release(&merged->arena);
	index32_release(&merged->index);
	mem_free(merged->types);
	mem_free(merged->entries);
	mem_free(merged->series);
	mem_free(merged->ranks);
	return mem_free(merged);
}

/* ---- adding ---- */

/* A block's columns with interned texts. */
struct interned {
	const struct profile_type **types; /* by the block's type id */
	char **names;			   /* by column */
	char ***values;			   /* by column and code */
};

static int intern_text(struct merged_series *merged, const char *text, char **ret)
{
	uint32_t id;
	int r = intern_add_string(&merged->texts, text, &id);
	if (r == 0)
		*ret = (char *)intern_string(&merged->texts, id);
	return r;
}

static int add_type(struct merged_series *merged, const struct profile_type *type, const struct profile_type **ret)
{
	for (size_t i = 0; i < merged->type_count; i++) {
		if (profile_type_equal(merged->types[i], type)) {
			*ret = merged->types[i];
			return 0;
		}
	}
	struct profile_type *copy = arena_alloc(&merged->arena, sizeof(*copy));
	if (!copy || array_reserve(&merged->types, &merged->type_capacity, merged->type_count + 1, SIZE_MAX) < 0)
		return -ENOMEM;
	*copy = *type;
	*ret = merged->types[merged->type_count++] = copy;
	return 0;
}

static int intern_columns(struct merged_series *merged, const struct series_columns *columns, struct arena *arena,
			  struct interned *ret)
{
	ret->types = arena_alloc(arena, columns->type_count * sizeof(*ret->types));
	ret->names = arena_alloc(arena, columns->label_count * sizeof(*ret->names));
	ret->values = arena_alloc(arena, columns->label_count * sizeof(*ret->values));
	int r = ret->types && ret->names && ret->values ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < columns->type_count; i++)
		r = add_type(merged, &columns->types[i], &ret->types[i]);
	for (size_t i = 0; r == 0 && i < columns->label_count; i++) {
		const struct series_column *column = &columns->labels[i];
		ret->values[i] = arena_alloc(arena, column->value_count * sizeof(char *));
		r = ret->values[i] ? intern_text(merged, column->name, &ret->names[i]) : -ENOMEM;
		for (size_t code = 0; r == 0 && code < column->value_count; code++)
			r = intern_text(merged, column->values[code], &ret->values[i][code]);
	}
	return r;
}

static bool find(const struct merged_series *merged, uint64_t hash, const struct profile_type *type, const struct label *items,
		 size_t count, uint32_t *ret)
{
	for (size_t at = index32_first(&merged->index, hash); index32_at(&merged->index, hash, &at, ret); at++) {
		const struct entry *entry = merged->entries[*ret];
		if (entry->type == type && entry->labels.count == count &&
		    (count == 0 || !memcmp(entry->labels.items, items, count * sizeof(*items))))
			return true;
	}
	return false;
}

static int add_entry(struct merged_series *merged, uint64_t hash, const struct profile_type *type, const struct label *items,
		     size_t count, uint32_t *ret)
{
	struct entry *entry = arena_alloc(&merged->arena, sizeof(*entry));
	struct label *copy = arena_alloc(&merged->arena, count * sizeof(*copy));
	if (!entry || !copy || array_reserve(&merged->entries, &merged->entry_capacity, merged->count + 1, INT32_MAX) < 0 ||
	    array_reserve(&merged->series, &merged->series_capacity, merged->count + 1, INT32_MAX) < 0 ||
	    index32_add(&merged->index, hash, (uint32_t)merged->count) < 0)
		return -ENOMEM;
	if (count)
		memcpy(copy, items, count * sizeof(*copy));
	*entry = (struct entry){.type = type, .labels = {.items = copy, .count = count, .capacity = count}};
	merged->entries[merged->count] = entry;
	merged->series[merged->count] = (struct series){.type = type, .labels = &entry->labels};
	merged->pairs += count;
	*ret = (uint32_t)merged->count++;
	return 0;
}

static int add_one(struct merged_series *merged, const struct block_series *from, const struct interned *interned, size_t id,
		   uint32_t *ret)
{
	const struct series_columns *columns = &from->columns;
	struct label items[LIMIT_LABELS_PER_SERIES];
	const struct profile_type *type = interned->types[columns->type_ids[id]];
	size_t count = 0;
	/* Columns are in the order of their names, as labels are. */
	for (size_t i = 0; i < columns->label_count; i++) {
		uint32_t code = columns->labels[i].codes[id];
		if (code == SERIES_NO_VALUE)
			continue;
		if (count == LIMIT_LABELS_PER_SERIES)
			return -EBADMSG;
		items[count++] = (struct label){interned->names[i], interned->values[i][code]};
	}
	uint64_t hash = hash64_seed(items, count * sizeof(*items), (uintptr_t)type);
	int r = find(merged, hash, type, items, count, ret) ? 0 : add_entry(merged, hash, type, items, count, ret);
	if (r == 0 && from->periods[id] > merged->series[*ret].period)
		merged->series[*ret].period = from->periods[id];
	return r;
}

int merged_series_add(struct merged_series *merged, const struct block_series *from, const uint8_t *wanted, uint32_t **ret_ids,
		      struct error *err)
{
	struct interned interned;
	_cleanup_(arena_release) struct arena arena = {.max_bytes = SIZE_MAX};
	_cleanup_(mem_freep) uint32_t *ids = mem_alloc_array(from->columns.count, sizeof(*ids));
	int r = ids ? intern_columns(merged, &from->columns, &arena, &interned) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < from->columns.count; i++) {
		ids[i] = NOT_WANTED;
		if (!wanted || wanted[i])
			r = add_one(merged, from, &interned, i, &ids[i]);
	}
	if (r < 0)
		return r == -EBADMSG ? error_set(err, r, "a series has more than %d labels", LIMIT_LABELS_PER_SERIES)
				     : error_nomem(err);
	*ret_ids = TAKE(ids);
	return 0;
}

/* Beside a series itself: its entry, pointers, slots of the index, rank and sums, the writer's columns, and growing by
 * doubling. */
#define SERIES_BYTES 320
#define PAIR_BYTES   28

uint64_t merged_series_bytes(const struct merged_series *merged, uint64_t more_series)
{
	uint64_t pairs = merged->count ? merged->pairs / merged->count + 1 : 10;
	return (merged->count + more_series) * (SERIES_BYTES + pairs * PAIR_BYTES) + 2 * merged->texts.arena.used_bytes;
}

size_t merged_series_count(const struct merged_series *merged)
{
	return merged->count;
}

/* ---- order ---- */

int merged_series_finish(struct merged_series *merged, uint32_t *ret_keep, struct error *err)
{
	_cleanup_(mem_freep) uint32_t *order = NULL;
	int r = block_order_of_series(merged->series, merged->count, &order, ret_keep, err);
	if (r < 0)
		return r;
	struct series *sorted = mem_alloc_array(merged->count, sizeof(*sorted));
	merged->ranks = mem_alloc_array(merged->count, sizeof(*merged->ranks));
	if (!sorted || !merged->ranks) {
		mem_free(sorted);
		return error_nomem(err);
	}
	for (size_t i = 0; i < merged->count; i++) {
		sorted[i] = merged->series[order[i]];
		merged->ranks[order[i]] = (uint32_t)i;
	}
	mem_free(merged->series);
	merged->series = sorted;
	index32_release(&merged->index);
	return 0;
}

void merged_series_renumber(const struct merged_series *merged, uint32_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i] != NOT_WANTED)
			ids[i] = merged->ranks[ids[i]];
}

const struct series *merged_series_items(const struct merged_series *merged)
{
	return merged->series;
}
