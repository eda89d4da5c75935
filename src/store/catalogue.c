/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of what there is: types, label names, label values, combinations of labels.
 *
 * Without conditions a block answers from what was counted when it was written: types and names from its metadata, which is in
 * memory, values from the pages of labels.parquet where they are. With conditions, and for blocks that do not know (version 1,
 * very many names), its series are looked at, by columns: what the wanted series have is marked by code, so that texts are
 * touched once a distinct value. The head is asked in the same way.
 *
 * Sources come one after the other, the newest first. What a block says is handed over only when it has been read, so that one
 * that turns out to be damaged adds nothing.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/time.h"
#include "store/read/select.h"
#include "store/store_int.h"

enum listing_kind { LIST_TYPES, LIST_LABELS, LIST_VALUES, LIST_SERIES };
struct listing {
	struct local_store *store;
	enum listing_kind kind;
	const struct store_select *select;
	struct series_matcher *series;	       /* its conditions, compiled */
	const char *label, *prefix;	       /* of values */
	const struct store_grouping *grouping; /* of series */
	store_on_item on_item;
	void *context;
	struct store_read_stats *stats, own_stats;
	struct store_snapshot snapshot;
	struct error *err;
};

static bool is_in_range(const struct listing *l, int64_t first_ns, int64_t last_ns)
{
	return first_ns < l->select->to_ns && last_ns >= l->select->from_ns;
}

static struct store_item item_of(const struct block_use *use)
{
	return (struct store_item){
		.series = use->series, .samples = use->samples, .first_ns = use->first_ns, .last_ns = use->last_ns};
}

static int give(struct listing *l, const struct store_item *item)
{
	return l->on_item(l->context, item, l->err);
}

/* ---- from columns ---- */

/* The series of a source. */
struct source {
	const struct series_columns *columns;
	const int64_t *first_ns, *last_ns;
	const uint64_t *samples;
	struct selection selection; /* in the range as well */
};

static void add_series(struct store_item *to, const struct source *source, size_t series)
{
	int64_t first = source->first_ns[series], last = source->last_ns[series];
	to->first_ns = to->series == 0 || first < to->first_ns ? first : to->first_ns;
	to->last_ns = to->series == 0 || last > to->last_ns ? last : to->last_ns;
	to->samples += source->samples[series];
	to->series++;
}

/* What the wanted series with each code have; the caller frees. */
static struct store_item *collect(const struct source *source, const uint32_t *codes, size_t count, struct error *err)
{
	struct store_item *items = mem_zalloc_array(count, sizeof(*items));
	if (!items)
		error_nomem(err);
	for (size_t i = 0; items && i < source->columns->count; i++)
		if (source->selection.wanted[i] && codes[i] != SERIES_NO_VALUE)
			add_series(&items[codes[i]], source, i);
	return items;
}

static int list_types(struct listing *l, const struct source *source)
{
	const struct series_columns *columns = source->columns;
	_cleanup_(mem_freep) struct store_item *items = collect(source, columns->type_ids, columns->type_count, l->err);
	int r = items ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < columns->type_count; i++) {
		items[i].type = &columns->types[i];
		if (items[i].series)
			r = give(l, &items[i]);
	}
	return r;
}

static int list_one_label(struct listing *l, const struct source *source, const struct series_column *column)
{
	_cleanup_(mem_freep) uint8_t *seen = mem_zalloc(column->value_count);
	struct store_item item = {.name = column->name};
	if (!seen)
		return error_nomem(l->err);
	for (size_t i = 0; i < source->columns->count; i++) {
		uint32_t code = column->codes[i];
		if (!source->selection.wanted[i] || code == SERIES_NO_VALUE)
			continue;
		item.values += !seen[code];
		seen[code] = 1;
		add_series(&item, source, i);
	}
	return item.series ? give(l, &item) : 0;
}

static int list_labels(struct listing *l, const struct source *source)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < source->columns->label_count; i++)
		r = list_one_label(l, source, &source->columns->labels[i]);
	return r;
}

static int compare_items(const void *a, const void *b)
{
	return strcmp(((const struct store_item *)a)->name, ((const struct store_item *)b)->name);
}

static int list_values(struct listing *l, const struct source *source)
{
	const struct series_column *column = series_columns_find(source->columns, l->label);
	size_t kept = 0, prefix = strlen(l->prefix);
	if (!column)
		return 0;
	_cleanup_(mem_freep) struct store_item *items = collect(source, column->codes, column->value_count, l->err);
	int r = items ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < column->value_count; i++) {
		if (!items[i].series || strncmp(column->values[i], l->prefix, prefix))
			continue;
		items[i].name = column->values[i];
		items[kept++] = items[i];
	}
	sort_array(items, kept, compare_items);
	for (size_t i = 0; r == 0 && i < kept; i++)
		r = give(l, &items[i]);
	return r;
}

static int list_source(struct listing *l, struct source *source)
{
	int r = selection_make(l->series, NULL, source->columns, &source->selection, l->err);
	if (r < 0)
		return r;
	selection_limit(&source->selection, l->select, source->first_ns, source->last_ns);
	l->stats->series += source->selection.matched;
	if (source->selection.matched == 0)
		r = 0;
	else if (l->kind == LIST_TYPES)
		r = list_types(l, source);
	else if (l->kind == LIST_LABELS)
		r = list_labels(l, source);
	else if (l->kind == LIST_VALUES)
		r = list_values(l, source);
	else
		r = selection_group(&source->selection, l->grouping, source->columns, l->err);
	selection_release(&source->selection);
	return r;
}

/* ---- the head ---- */

/* Copies what changes while appends go on; head->lock is held. */
static int copy_head(const struct head *head, size_t count, struct source *source, int64_t *memory)
{
	int64_t *first = memory, *last = memory + count, *samples = memory + 2 * count;
	for (size_t i = 0; i < count; i++) {
		const struct series *series = &head->series[i];
		first[i] = series->samples ? series->first_ns : INT64_MAX;
		last[i] = series->samples ? series->last_ns : INT64_MIN;
		samples[i] = (int64_t)series->samples;
	}
	source->first_ns = first;
	source->last_ns = last;
	source->samples = (const uint64_t *)samples;
	return 0;
}

static int list_head(struct listing *l, struct head *head)
{
	struct source source = {0};
	struct head_columns *columns = NULL;
	if (!head)
		return 0;
	pthread_rwlock_rdlock(&head->lock);
	int r = head_columns_get(head, &columns, l->err);
	size_t count = r == 0 ? columns->columns.count : 0;
	_cleanup_(mem_freep) int64_t *memory = mem_alloc_array(count, 3 * sizeof(*memory));
	if (r == 0)
		r = memory ? copy_head(head, count, &source, memory) : error_nomem(l->err);
	pthread_rwlock_unlock(&head->lock);
	if (r == 0) {
		source.columns = &columns->columns;
		r = list_source(l, &source);
	}
	if (columns)
		head_columns_put(head, columns);
	return r;
}

/* ---- blocks ---- */

static int list_series_of_block(struct listing *l, struct block *block)
{
	struct block_series *series = NULL;
	int r = cache_get(l->store, block, BLOCK_PART_SERIES, (void **)&series, l->stats, l->err);
	if (r < 0)
		return r;
	struct source source = {
		.columns = &series->columns,
		.first_ns = series->first_ns,
		.last_ns = series->last_ns,
		.samples = series->samples,
	};
	r = list_source(l, &source);
	cache_put(l->store, BLOCK_PART_SERIES, series);
	return r;
}

static int list_known_types(struct listing *l, const struct block_meta *meta)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < meta->type_count; i++) {
		const struct block_type *type = &meta->types[i];
		struct store_item item = item_of(&type->use);
		item.type = &type->type;
		bool wanted = !profile_type_is_process_stats(&type->type) && series_matcher_finds_type(l->series, &type->type);
		if (wanted && is_in_range(l, item.first_ns, item.last_ns))
			r = give(l, &item);
	}
	return r;
}

static int list_known_labels(struct listing *l, const struct block_meta *meta)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < meta->label_count; i++) {
		const struct block_label_name *label = &meta->labels[i];
		struct store_item item = item_of(&label->use);
		item.name = label->name;
		item.values = label->values;
		if (is_in_range(l, item.first_ns, item.last_ns))
			r = give(l, &item);
	}
	return r;
}

/* Values of one block, until all of them have been read. */
struct values {
	struct listing *l;
	struct arena texts;
	struct store_item *items;
	size_t count, capacity;
};

static int keep_value(void *context, const char *value, const struct block_use *use, struct error *err)
{
	struct values *values = context;
	struct store_item item = item_of(use);
	if (!is_in_range(values->l, use->first_ns, use->last_ns))
		return 0;
	item.name = arena_strndup(&values->texts, value, strlen(value));
	if (!item.name || array_reserve(&values->items, &values->capacity, values->count + 1, SIZE_MAX) < 0)
		return error_nomem(err);
	values->items[values->count++] = item;
	return 0;
}

static int list_known_values(struct listing *l, const struct block *block)
{
	struct values values = {.l = l, .texts.max_bytes = SIZE_MAX};
	int r = 0;
	/* The metadata shows at once whether there is any. */
	if (!block->meta.labels_complete || block_meta_label(&block->meta, l->label))
		r = block_labels_find(block, l->label, l->prefix, keep_value, &values, &l->stats->bytes, l->err);
	for (size_t i = 0; r == 0 && i < values.count; i++)
		r = give(l, &values.items[i]);
	arena_release(&values.texts);
	mem_free(values.items);
	return r;
}

static int list_block(struct listing *l, struct block *block)
{
	const struct block_meta *meta = &block->meta;
	bool conditions = series_matcher_label_count(l->series) > 0 || series_matcher_asks_keys(l->series);
	bool one_type = series_matcher_asks_types(l->series);
	if (l->kind == LIST_TYPES && !conditions && meta->types_complete)
		return list_known_types(l, meta);
	/* Of a block that is in the range as a whole, its metadata say the same as its series do. */
	bool whole = !conditions && !one_type && l->select->from_ns <= meta->min_ns && meta->max_ns < l->select->to_ns;
	if (l->kind == LIST_LABELS && whole && meta->labels_complete)
		return list_known_labels(l, meta);
	/* The file of labels is decoded each time; what a query has left in memory answers in a fraction of that. */
	if (l->kind == LIST_VALUES && whole && block_can_use(block, BLOCK_LABELS) &&
	    !cache_has(l->store, block, BLOCK_PART_SERIES)) {
		int r = list_known_values(l, block);
		if (r != -EBADMSG)
			return r;
		damage_note_file(l->store, block, BLOCK_LABELS, l->err->message);
	}
	return list_series_of_block(l, block);
}

/* A damaged block is set aside, and the list is that of the others. */
static int try_block(struct listing *l, struct block *block)
{
	struct error *err = l->err, own = {0};
	if (!is_in_range(l, block->meta.min_ns, block->meta.max_ns)) {
		l->stats->blocks_skipped++;
		return 0;
	}
	l->stats->blocks++;
	l->err = &own;
	int r = list_block(l, block);
	damage_note_corrected(l->store, block);
	l->err = err;
	if (r == -EBADMSG) {
		blocks_set_aside(l->store, block, own.message);
		return 0;
	}
	if (r < 0 && err)
		*err = own;
	return r;
}

/* ---- all of it ---- */

static int list_sources(struct listing *l)
{
	size_t count = l->snapshot.block_count + 2;
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = select_check(l->select, 0, i, count, l->stats, l->err);
		if (r == 0 && i < 2)
			r = list_head(l, l->snapshot.heads[1 - i]);
		else if (r == 0)
			r = try_block(l, l->snapshot.blocks[count - 1 - i]);
	}
	return r == SELECT_LIMITED ? 0 : r;
}

static int list_all(struct listing *l, struct local_store *store, const struct store_select *select,
		    struct store_read_stats *stats, struct error *err)
{
	int64_t started = time_monotonic_ns();
	l->store = store;
	l->select = select;
	l->stats = stats ? stats : &l->own_stats;
	l->err = err;
	*l->stats = (struct store_read_stats){0};
	if (select->from_ns >= select->to_ns)
		return 0;
	_cleanup_(series_matcher_freep) struct series_matcher *series = NULL;
	int r = series_matcher_new(&select->series, &series, err);
	if (r == 0)
		r = store_snapshot_take(store, &l->snapshot, err);
	if (r < 0)
		return r;
	l->series = series;
	r = list_sources(l);
	int failure = series_matcher_failure(series, err);
	r = failure < 0 ? failure : r;
	gaps_note(store, select->from_ns, select->to_ns, l->stats);
	store_snapshot_release(store, &l->snapshot);
	l->stats->phase_ns[STORE_PHASE_INDEX] = (uint64_t)(time_monotonic_ns() - started);
	return r;
}

int local_list_types(struct local_store *store, const struct store_select *select, store_on_item on_item, void *context,
		     struct store_read_stats *stats, struct error *err)
{
	struct listing listing = {.kind = LIST_TYPES, .on_item = on_item, .context = context};
	return list_all(&listing, store, select, stats, err);
}

int local_list_labels(struct local_store *store, const struct store_select *select, store_on_item on_item, void *context,
		      struct store_read_stats *stats, struct error *err)
{
	struct listing listing = {.kind = LIST_LABELS, .on_item = on_item, .context = context};
	return list_all(&listing, store, select, stats, err);
}

int local_list_values(struct local_store *store, const struct store_select *select, const char *label, const char *prefix,
		      store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err)
{
	struct listing listing = {
		.kind = LIST_VALUES, .label = label, .prefix = prefix, .on_item = on_item, .context = context};
	return list_all(&listing, store, select, stats, err);
}

int local_list_series(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
		      struct store_read_stats *stats, struct error *err)
{
	struct listing listing = {.kind = LIST_SERIES, .grouping = grouping};
	return list_all(&listing, store, select, stats, err);
}
