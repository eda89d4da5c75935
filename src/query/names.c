/* SPDX-License-Identifier: Apache-2.0 */
/* The catalogue: profile types, label names and label values, each with how many series have it. Read from series indexes
 * alone, never from samples. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/text.h"
#include "query/query_int.h"

#define NAMES_BYTES_MAX (64 * MIB)

enum names_kind { NAMES_TYPES, NAMES_LABELS, NAMES_VALUES };

struct names_build {
	enum names_kind kind;
	const char *label, *prefix;
	struct intern texts;
	uint64_t *series; /* by text id */
	size_t series_capacity;
};

static int count_name(struct names_build *build, const char *text, struct error *err)
{
	uint32_t id;
	size_t before = build->texts.count;
	int r = intern_add_string(&build->texts, text, &id);
	if (r == -E2BIG)
		return error_set(err, -EINVAL, "query: too many different names; narrow the selector or the time range");
	if (r || array_reserve(&build->series, &build->series_capacity, (size_t)id + 1, UINT32_MAX))
		return error_nomem(err);
	if (id >= before)
		build->series[id] = 0;
	build->series[id]++;
	return 0;
}

static int names_on_series(void *context, uint32_t series, const struct profile_type *type, const struct labels *labels,
			   struct error *err)
{
	struct names_build *build = context;
	(void)series;
	if (build->kind == NAMES_TYPES) {
		char text[PROFILE_TYPE_TEXT_MAX];
		return count_name(build, profile_type_format(type, text), err);
	}
	if (build->kind == NAMES_VALUES) {
		const char *value = labels_get(labels, build->label);
		return value && text_starts_with(value, build->prefix) ? count_name(build, value, err) : 0;
	}
	for (size_t i = 0; i < labels->count; i++) {
		int r = count_name(build, labels->items[i].name, err);
		if (r)
			return r;
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct query_name *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* With a limit the names of most series are kept: those a person looks for first. */
static int compare_by_series(const void *a, const void *b)
{
	const struct query_name *x = a, *y = b;
	if (x->series != y->series)
		return x->series < y->series ? 1 : -1;
	return compare_names(a, b);
}

static int names_finish(struct names_build *build, size_t limit, struct query_names *ret, struct error *err)
{
	size_t count = build->texts.count - 1; /* without the "" that every table has */
	struct query_names names = {.items = mem_zalloc_array(count, sizeof(*names.items)), .count_before_limit = count};
	if (!names.items)
		return error_nomem(err);
	for (size_t i = 0; i < count; i++) {
		char *name = mem_strdup(intern_string(&build->texts, (uint32_t)i + 1));
		if (!name) {
			query_names_release(&names);
			return error_nomem(err);
		}
		names.items[names.count++] = (struct query_name){.name = name, .series = build->series[i + 1]};
	}
	if (limit && count > limit) {
		qsort(names.items, names.count, sizeof(*names.items), compare_by_series);
		while (names.count > limit)
			mem_free(names.items[--names.count].name);
	}
	qsort(names.items, names.count, sizeof(*names.items), compare_names);
	*ret = names;
	return 0;
}

static void names_build_release(struct names_build *build)
{
	intern_release(&build->texts);
	mem_free(build->series);
}

static int names_read(struct store *store, const struct query *query, enum names_kind kind, const char *label,
		      const char *prefix, size_t limit, struct query_names *ret, struct error *err)
{
	_cleanup_(query_scan_release) struct query_scan scan;
	int r = query_scan_init(&scan, query, err);
	if (r)
		return r;
	_cleanup_(names_build_release) struct names_build build = {.kind = kind, .label = label, .prefix = prefix};
	if (intern_init(&build.texts, NAMES_BYTES_MAX))
		return error_nomem(err);
	struct store_series_sink sink = {.on_series = names_on_series, .context = &build};
	struct store_read_stats stats = {0};
	r = store_list_series(store, &scan.select, &sink, &stats, err);
	if (!r)
		r = query_scan_check(&scan, false, err);
	return r ? r : names_finish(&build, limit, ret, err);
}

int query_types(struct store *store, const struct query *query, struct query_names *ret, struct error *err)
{
	return names_read(store, query, NAMES_TYPES, NULL, NULL, 0, ret, err);
}

int query_label_names(struct store *store, const struct query *query, struct query_names *ret, struct error *err)
{
	return names_read(store, query, NAMES_LABELS, NULL, NULL, 0, ret, err);
}

int query_label_values(struct store *store, const struct query *query, const char *label, const char *prefix, size_t limit,
		       struct query_names *ret, struct error *err)
{
	if (!label_name_is_valid(label))
		return error_set(err, -EINVAL, "query: '%.100s' is not a label name; names match [a-zA-Z_][a-zA-Z0-9_]*",
				 label);
	return names_read(store, query, NAMES_VALUES, label, prefix ? prefix : "", limit, ret, err);
}

void query_names_release(struct query_names *names)
{
	for (size_t i = 0; i < names->count; i++)
		mem_free(names->items[i].name);
	mem_free(names->items);
	*names = (struct query_names){0};
}
