/* SPDX-License-Identifier: Apache-2.0 */
#include "store/series_columns.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sorted.h"
#include "base/text.h"

/* A column while it grows. */
struct building {
	struct bytes name; /* NUL-terminated */
	uint32_t *codes;   /* in the arena, as texts are */
	const char **values;
	uint32_t *lens; /* of values, to tell most of them apart without looking at them */
	size_t value_count, value_capacity, len_capacity;
	struct index32 index; /* of values; of those below `indexed` */
	size_t indexed;
};
struct series_builder {
	struct series_columns columns;
	struct building *labels;
	size_t label_count, label_capacity;
	struct index32 names;
	struct profile_type *types;
	size_t type_count, type_capacity;
	struct index32 type_index;
};

/* ---- memory ---- */

static int no_room(const struct series_builder *b, size_t size, struct error *err)
{
	if (!arena_is_full(&b->columns.arena, size))
		return error_nomem(err);
	return error_set(err, -E2BIG, "%zu series with %zu label names need more than %u MB of memory: send fewer label names",
			 b->columns.count, b->label_count, SERIES_COLUMNS_MEMORY_MAX >> 20);
}

/* *ret is any pointer. */
static int take(struct series_builder *b, size_t count, size_t size, void *ret, struct error *err)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		return error_nomem(err);
	void *taken = arena_alloc(&b->columns.arena, bytes);
	if (!taken)
		return no_room(b, bytes, err);
	memcpy(ret, &taken, sizeof(taken));
	return 0;
}

static int keep_text(struct series_builder *b, struct bytes text, const char **ret, struct error *err)
{
	if (text.len && memchr(text.data, 0, text.len))
		return error_set(err, -EBADMSG, "a string contains a NUL");
	if (text.len > UINT32_MAX)
		return error_set(err, -E2BIG, "a string is longer than 4 GiB");
	*ret = arena_strndup(&b->columns.arena, (const char *)text.data, text.len);
	return *ret ? 0 : no_room(b, text.len + 1, err);
}

int series_builder_new(size_t series, struct series_builder **ret, struct error *err)
{
	struct series_builder *b = mem_zalloc(sizeof(*b));
	if (!b)
		return error_nomem(err);
	arena_init(&b->columns.arena, SERIES_COLUMNS_MEMORY_MAX);
	b->columns.count = series;
	int r = take(b, series, sizeof(*b->columns.type_ids), &b->columns.type_ids, err);
	if (r < 0) {
		series_builder_free(b);
		return r;
	}
	memset(b->columns.type_ids, 0, series * sizeof(*b->columns.type_ids));
	*ret = b;
	return 0;
}

struct series_builder *series_builder_free(struct series_builder *b)
{
	if (!b)
		return NULL;
	for (size_t i = 0; i < b->label_count; i++) {
		mem_free(b->labels[i].values);
		mem_free(b->labels[i].lens);
		index32_release(&b->labels[i].index);
	}
	mem_free(b->labels);
	mem_free(b->types);
	index32_release(&b->names);
	index32_release(&b->type_index);
	series_columns_release(&b->columns);
	mem_free(b);
	return NULL;
}

void series_columns_release(struct series_columns *columns)
{
	arena_release(&columns->arena);
	*columns = (struct series_columns){0};
}

/* ---- types ---- */

static uint64_t hash_type(const struct profile_type *type)
{
	const char *const parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	uint64_t hash = type->delta;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		hash = hash64_seed(parts[i], strlen(parts[i]), hash);
	return hash;
}

int series_builder_type(struct series_builder *b, const struct profile_type *type, uint32_t *ret_id, struct error *err)
{
	uint64_t hash = hash_type(type);
	uint32_t id;
	for (size_t at = index32_first(&b->type_index, hash); index32_at(&b->type_index, hash, &at, &id); at++) {
		if (profile_type_equal(&b->types[id], type)) {
			*ret_id = id;
			return 0;
		}
	}
	if (array_reserve(&b->types, &b->type_capacity, b->type_count + 1, UINT32_MAX - 1) < 0 ||
	    index32_add(&b->type_index, hash, (uint32_t)b->type_count) < 0)
		return error_nomem(err);
	*ret_id = (uint32_t)b->type_count;
	b->types[b->type_count++] = *type;
	return 0;
}

void series_builder_set_type(struct series_builder *b, size_t series, uint32_t type)
{
	b->columns.type_ids[series] = type;
}

/* ---- labels ---- */

int series_builder_column(struct series_builder *b, struct bytes name, size_t *ret, struct error *err)
{
	uint64_t hash = hash64_guarded(name.data, name.len);
	uint32_t id;
	for (size_t at = index32_first(&b->names, hash); index32_at(&b->names, hash, &at, &id); at++) {
		if (bytes_equal(b->labels[id].name, name)) {
			*ret = id;
			return 0;
		}
	}
	struct building column = {.name = {.len = name.len}};
	const char *copy;
	int r = keep_text(b, name, &copy, err);
	if (r < 0)
		return r;
	column.name.data = (const uint8_t *)copy;
	r = take(b, b->columns.count, sizeof(*column.codes), &column.codes, err);
	if (r < 0)
		return r;
	if (array_reserve(&b->labels, &b->label_capacity, b->label_count + 1, UINT32_MAX - 1) < 0 ||
	    index32_add(&b->names, hash, (uint32_t)b->label_count) < 0)
		return error_nomem(err);
	memset(column.codes, 0xff, b->columns.count * sizeof(*column.codes)); /* SERIES_NO_VALUE */
	*ret = b->label_count;
	b->labels[b->label_count++] = column;
	return 0;
}

static uint64_t hash_text(const char *text, size_t len)
{
	return hash64_guarded(text, len);
}

/* Values that came as a whole, distinct, were not indexed: only now that one more comes is it needed to find them. */
static int index_values(struct building *column)
{
	if (index32_reserve(&column->index, column->value_count - column->indexed + 1) < 0)
		return -ENOMEM;
	for (; column->indexed < column->value_count; column->indexed++)
		index32_add(&column->index, hash_text(column->values[column->indexed], column->lens[column->indexed]),
			    (uint32_t)column->indexed);
	return 0;
}

static int reserve_values(struct building *column, size_t more)
{
	size_t need = column->value_count + more;
	if (array_reserve(&column->values, &column->value_capacity, need, UINT32_MAX - 1) < 0 ||
	    array_reserve(&column->lens, &column->len_capacity, need, UINT32_MAX - 1) < 0)
		return -ENOMEM;
	return 0;
}

static int code_of(struct series_builder *b, struct building *column, struct bytes value, uint32_t *ret, struct error *err)
{
	uint64_t hash = hash_text((const char *)value.data, value.len);
	uint32_t id;
	if (column->indexed < column->value_count && index_values(column) < 0)
		return error_nomem(err);
	for (size_t at = index32_first(&column->index, hash); index32_at(&column->index, hash, &at, &id); at++) {
		if (column->lens[id] == value.len && (!value.len || !memcmp(column->values[id], value.data, value.len))) {
			*ret = id;
			return 0;
		}
	}
	if (reserve_values(column, 1) < 0 || index32_reserve(&column->index, 1) < 0)
		return error_nomem(err);
	int r = keep_text(b, value, &column->values[column->value_count], err);
	if (r < 0)
		return r;
	column->lens[column->value_count] = (uint32_t)value.len;
	*ret = (uint32_t)column->value_count++;
	index32_add(&column->index, hash, *ret);
	column->indexed++;
	return 0;
}

int series_builder_set(struct series_builder *b, size_t column, size_t series, struct bytes value, struct error *err)
{
	return code_of(b, &b->labels[column], value, &b->labels[column].codes[series], err);
}

/* The first slice: its values are the column's, in one piece of memory. */
static int add_values(struct series_builder *b, struct building *column, const struct series_codes *slice, struct error *err)
{
	size_t bytes = 0;
	for (size_t i = 0; i < slice->value_count; i++)
		bytes += slice->values[i].len + 1;
	char *at;
	int r = take(b, bytes, 1, &at, err);
	if (r < 0)
		return r;
	if (reserve_values(column, slice->value_count) < 0)
		return error_nomem(err);
	for (size_t i = 0; i < slice->value_count; i++) {
		struct bytes value = slice->values[i];
		if (value.len > UINT32_MAX || (value.len && memchr(value.data, 0, value.len)))
			return error_set(err, -EBADMSG, "a string contains a NUL");
		if (value.len)
			memcpy(at, value.data, value.len);
		at[value.len] = '\0';
		column->values[i] = at;
		column->lens[i] = (uint32_t)value.len;
		at += value.len + 1;
	}
	column->value_count = slice->value_count;
	return 0;
}

/* Puts codes in their place, through `map` if there is one. False when one has no value. */
static bool put_codes(uint32_t *to, const struct series_codes *slice, const uint32_t *map)
{
	bool fine = true;
	for (size_t i = 0; i < slice->count; i++) {
		uint32_t code = slice->codes[i];
		bool is_value = code < slice->value_count;
		fine &= is_value || code == SERIES_NO_VALUE;
		to[i] = is_value && map ? map[code] : code;
	}
	return fine;
}

int series_builder_codes(struct series_builder *b, size_t column, const struct series_codes *slice, struct error *err)
{
	struct building *to = &b->labels[column];
	_cleanup_(mem_freep) uint32_t *map = NULL;
	int r = 0;
	if (slice->first > b->columns.count || slice->count > b->columns.count - slice->first)
		return error_set(err, -EBADMSG, "more codes than series");
	if (to->value_count == 0) {
		r = add_values(b, to, slice, err);
	} else {
		map = mem_alloc_array(slice->value_count, sizeof(*map));
		if (!map)
			return error_nomem(err);
		for (size_t i = 0; r == 0 && i < slice->value_count; i++)
			r = code_of(b, to, slice->values[i], &map[i], err);
	}
	if (r == 0 && !put_codes(to->codes + slice->first, slice, map))
		r = error_set(err, -EBADMSG, "a code has no value");
	return r;
}

/* ---- finishing ---- */

static int compare_columns(const void *a, const void *b)
{
	return strcmp(((const struct series_column *)a)->name, ((const struct series_column *)b)->name);
}

static int finish_column(struct series_builder *b, const struct building *from, struct series_column *to, struct error *err)
{
	*to = (struct series_column){
		.name = (const char *)from->name.data, .codes = from->codes, .value_count = from->value_count};
	int r = take(b, from->value_count, sizeof(*to->values), &to->values, err);
	if (r == 0 && from->value_count)
		memcpy(to->values, from->values, from->value_count * sizeof(*to->values));
	return r;
}

int series_builder_finish(struct series_builder *b, struct series_columns *ret, struct error *err)
{
	struct series_columns *columns = &b->columns;
	struct profile_type *types;
	int r = take(b, b->type_count, sizeof(*types), &types, err);
	if (r == 0)
		r = take(b, b->label_count, sizeof(*columns->labels), &columns->labels, err);
	if (r < 0)
		return r;
	if (b->type_count)
		memcpy(types, b->types, b->type_count * sizeof(*types));
	columns->types = types;
	columns->type_count = b->type_count;
	for (size_t i = 0; i < b->label_count; i++) {
		r = finish_column(b, &b->labels[i], &columns->labels[columns->label_count], err);
		if (r < 0)
			return r;
		/* A column may have been made in vain. */
		columns->label_count += b->labels[i].value_count > 0;
	}
	sort_array(columns->labels, columns->label_count, compare_columns);
	columns->bytes = columns->arena.used_bytes;
	*ret = *columns;
	*columns = (struct series_columns){0};
	return 0;
}

/* ---- from series in memory ---- */

/* Neighbours are alike: series of one profile follow each other, with the same labels for several types, and the same names in
 * the same order. So what held for the one before is tried first. */
struct adding {
	struct series_builder *builder;
	const struct profile_type *type;
	uint32_t type_id;
	size_t columns[LIMIT_LABELS_PER_SERIES]; /* of the series before, label by label */
	size_t column_count;
};

static int add_type(struct adding *a, size_t at, const struct series *series, struct error *err)
{
	if (series->type != a->type) {
		int r = series_builder_type(a->builder, series->type, &a->type_id, err);
		if (r < 0)
			return r;
		a->type = series->type;
	}
	series_builder_set_type(a->builder, at, a->type_id);
	return 0;
}

static int find_column(struct adding *a, size_t label, const char *name, size_t *ret, struct error *err)
{
	if (label < a->column_count && !strcmp((const char *)a->builder->labels[a->columns[label]].name.data, name)) {
		*ret = a->columns[label];
		return 0;
	}
	int r = series_builder_column(a->builder, bytes_of_string(name), ret, err);
	if (r == 0 && label < LIMIT_LABELS_PER_SERIES) {
		a->columns[label] = *ret;
		a->column_count = label + 1;
	}
	return r;
}

static int add_labels(struct adding *a, size_t at, const struct series *series, struct error *err)
{
	for (size_t i = 0; i < series->labels->count; i++) {
		const struct label *label = &series->labels->items[i];
		size_t id;
		int r = find_column(a, i, label->name, &id, err);
		if (r < 0)
			return r;
		struct building *column = &a->builder->labels[id];
		uint32_t before = at ? column->codes[at - 1] : SERIES_NO_VALUE;
		if (before != SERIES_NO_VALUE && !strcmp(column->values[before], label->value))
			column->codes[at] = before;
		else
			r = code_of(a->builder, column, bytes_of_string(label->value), &column->codes[at], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_all(struct series_builder *builder, const struct series *series, size_t count, struct error *err)
{
	struct adding adding = {.builder = builder};
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = add_type(&adding, i, &series[i], err);
		if (r == 0)
			r = add_labels(&adding, i, &series[i], err);
	}
	return r;
}

int series_columns_build(const struct series *series, size_t count, struct series_columns *ret, struct error *err)
{
	_cleanup_(series_builder_freep) struct series_builder *builder = NULL;
	int r = series_builder_new(count, &builder, err);
	if (r == 0)
		r = add_all(builder, series, count, err);
	return r == 0 ? series_builder_finish(builder, ret, err) : r;
}

/* ---- reading ---- */

const struct series_column *series_columns_find(const struct series_columns *columns, const char *name)
{
	return sorted_find_name(columns->labels, columns->label_count, name);
}

struct labels series_columns_labels(const struct series_columns *columns, size_t series, const char *const *by, size_t by_count,
				    struct label *items)
{
	struct labels labels = {.items = items};
	for (size_t i = 0; i < columns->label_count && labels.count < LIMIT_LABELS_PER_SERIES; i++) {
		const struct series_column *column = &columns->labels[i];
		uint32_t code = column->codes[series];
		if (code == SERIES_NO_VALUE || (by && text_find_name(by, by_count, column->name) < 0))
			continue;
		/* Views: nobody changes them, but struct label has no const. */
		items[labels.count++] = (struct label){(char *)column->name, (char *)column->values[code]};
	}
	return labels;
}
