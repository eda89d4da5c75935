/* SPDX-License-Identifier: Apache-2.0 */
#include "top/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"

#define TEXTS_MAX (64 * MIB)

void top_rows_release(struct top_rows *rows)
{
	rows->items = mem_free(rows->items);
	rows->shown = mem_free(rows->shown);
	rows->count = rows->shown_count = 0;
	arena_release(&rows->texts);
}

static uint64_t identify(const char *a, const char *b, const char *c)
{
	uint64_t id = hash64(a, strlen(a));
	id = hash64_mix(id ^ hash64(b, strlen(b)));
	return hash64_mix(id ^ hash64(c, strlen(c)));
}

static struct top_row empty_row(void)
{
	return (struct top_row){.name = "", .binary = "", .process = "", .host = "", .pid = "", .tid = "", .hottest = ""};
}

/* ---- functions ---- */

static int build_functions(const struct top_data *data, struct top_rows *rows, struct error *err)
{
	_cleanup_(table_release) struct table table = {0};
	int r = table_build(data->flame, &table, err);
	if (r < 0)
		return r;
	rows->items = mem_alloc_array(table.count + 1, sizeof(*rows->items));
	if (!rows->items)
		return error_nomem(err);
	for (size_t i = 0; i < table.count; i++) {
		const struct table_row *from = &table.rows[i];
		struct top_row row = empty_row();
		row.id = identify(from->name, from->binary, from->file);
		row.name = from->name;
		row.binary = from->binary;
		row.frame_type = from->frame_type;
		row.self = from->self;
		row.total = from->total;
		row.kernel = from->frame_type == PROFILE_FRAME_KERNEL ? from->self : 0;
		rows->items[rows->count++] = row;
	}
	return 0;
}

/* ---- what samples and frames are grouped by ---- */

/* Groups have the numbers of their rows. */
struct grouping {
	const struct top_data *data;
	struct top_rows *rows;
	size_t capacity;
	struct map64 by_id, spent; /* spent: by group and name of a function, in it itself */
};

static void grouping_release(struct grouping *grouping)
{
	map64_release(&grouping->by_id);
	map64_release(&grouping->spent);
}

/* The group of a row's id; the row is added if it is the first. */
static int find_group(struct grouping *grouping, const struct top_row *row, uint32_t *ret, struct error *err)
{
	uint64_t known;
	if (map64_get(&grouping->by_id, row->id, &known)) {
		*ret = (uint32_t)known;
		return 0;
	}
	struct top_rows *rows = grouping->rows;
	if (array_push(&rows->items, &rows->count, &grouping->capacity, UINT32_MAX, *row) < 0 ||
	    map64_put(&grouping->by_id, row->id, rows->count - 1) < 0)
		return error_nomem(err);
	*ret = (uint32_t)rows->count - 1;
	return 0;
}

static int add_self(struct grouping *grouping, uint32_t group, uint32_t node, int64_t value, struct error *err)
{
	const struct flame_node *at = &grouping->data->flame->nodes[node];
	struct top_row *row = &grouping->rows->items[group];
	sum_to(&row->self, value);
	if (at->frame_type == PROFILE_FRAME_KERNEL)
		sum_to(&row->kernel, value);
	uint64_t key = (uint64_t)group << 32 | node;
	return map64_sum(&grouping->spent, key, value) < 0 ? error_nomem(err) : 0;
}

/* A function is in several places of a tree. */
static int find_hottest(struct grouping *grouping, struct error *err)
{
	const struct flame *flame = grouping->data->flame;
	_cleanup_(map64_release) struct map64 by_name = {0};
	_cleanup_(mem_freep) uint64_t *most = mem_zalloc_array(grouping->rows->count + 1, sizeof(*most));
	uint64_t key, value, sum;
	if (!most)
		return error_nomem(err);
	for (size_t cursor = 0; map64_next(&grouping->spent, &cursor, &key, &value);) {
		uint64_t name = (key >> 32 << 32) | flame->nodes[(uint32_t)key].name;
		if (map64_sum(&by_name, name, (int64_t)value) < 0)
			return error_nomem(err);
	}
	for (size_t cursor = 0; map64_next(&grouping->spent, &cursor, &key, &value);) {
		const struct flame_node *node = &flame->nodes[(uint32_t)key];
		struct top_row *row = &grouping->rows->items[key >> 32];
		map64_get(&by_name, (key >> 32 << 32) | node->name, &sum);
		const char *name = (uint32_t)key ? intern_string(&flame->strings, node->name) : "";
		/* By name where they are equal, so that the picture does not flicker. */
		if (sum < most[key >> 32] || (sum == most[key >> 32] && strcmp(name, row->hottest) >= 0))
			continue;
		most[key >> 32] = sum;
		row->hottest = name;
		row->frame_type = node->frame_type;
	}
	return 0;
}

/* ---- processes and threads ---- */

/* "" = the sample has no such label. */
static int label_of(struct grouping *grouping, uint32_t set, const char *key, const char **ret, struct error *err)
{
	const struct profile *profile = grouping->data->profile;
	const struct profile_label *label = top_find_label(profile, set, key);
	char number[24];
	*ret = !label ? "" : profile_string(profile, label->value);
	if (!label || label->value)
		return 0;
	int len = snprintf(number, sizeof(number), "%" PRId64, label->number);
	char *text = arena_alloc(&grouping->rows->texts, (size_t)len + 1);
	if (!text)
		return error_nomem(err);
	memcpy(text, number, (size_t)len + 1);
	*ret = text;
	return 0;
}

static int group_of_labels(struct grouping *grouping, uint32_t set, bool by_thread, uint32_t *ret, struct error *err)
{
	struct top_row row = empty_row();
	const struct {
		const char *key, **value;
	} labels[] = {{"host.name", &row.host},	   {"process.pid", &row.pid}, {"process.executable.name", &row.binary},
		      {"process.comm", &row.name}, {"thread.id", &row.tid},   {"thread.name", &row.process}};
	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++) {
		int r = label_of(grouping, set, labels[i].key, labels[i].value, err);
		if (r < 0)
			return r;
	}
	const char *thread = row.process;
	row.process = "";
	row.name = *row.name ? row.name : row.binary;
	/* The same process may have had another name before: an exec, a rename. It has a row for each. */
	row.id = identify(row.host, row.pid, row.name);
	if (by_thread) {
		row.process = row.name;
		row.name = thread;
		row.id ^= identify(row.tid, thread, "thread");
	} else
		row.tid = "";
	return find_group(grouping, &row, ret, err);
}

static int group_samples(struct grouping *grouping, bool by_thread, struct error *err)
{
	const struct profile *profile = grouping->data->profile;
	_cleanup_(mem_freep) uint32_t *groups = mem_zalloc_array(profile->label_set_count, sizeof(*groups)); /* + 1 */
	if (!groups)
		return error_nomem(err);
	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *sample = &profile->samples[i];
		int64_t value = profile->values[i * profile->sample_type_count + grouping->data->value];
		uint32_t group = groups[sample->labels] - 1;
		int r = groups[sample->labels] ? 0 : group_of_labels(grouping, sample->labels, by_thread, &group, err);
		if (r < 0)
			return r;
		groups[sample->labels] = group + 1;
		r = add_self(grouping, group, grouping->data->places[sample->stack], value, err);
		if (r < 0)
			return r;
		sum_to(&grouping->rows->items[group].total, value);
	}
	return 0;
}

/* ---- binaries ---- */

static bool is_below(const struct flame *flame, uint32_t node, uint32_t binary)
{
	for (uint32_t at = flame->nodes[node].parent; at; at = flame->nodes[at].parent)
		if (flame->nodes[at].binary == binary)
			return true;
	return false;
}

static int group_nodes(struct grouping *grouping, struct error *err)
{
	const struct flame *flame = grouping->data->flame;
	for (uint32_t i = 1; i < flame->count; i++) {
		const struct flame_node *node = &flame->nodes[i];
		struct top_row row = empty_row();
		uint32_t group;
		row.name = intern_string(&flame->strings, node->binary);
		row.name = *row.name ? row.name : "[no binary]";
		row.id = identify(row.name, "", "binary");
		int r = find_group(grouping, &row, &group, err);
		if (r == 0 && node->self)
			r = add_self(grouping, group, i, node->self, err);
		if (r < 0)
			return r;
		if (!is_below(flame, i, node->binary))
			sum_to(&grouping->rows->items[group].total, node->total);
	}
	return 0;
}

int top_rows_build(const struct top_data *data, enum top_table table, struct top_rows *ret, struct error *err)
{
	_cleanup_(top_rows_release) struct top_rows rows = {.texts.max_bytes = TEXTS_MAX};
	_cleanup_(grouping_release) struct grouping grouping = {.data = data, .rows = &rows};
	int r;
	if (table == TOP_FUNCTIONS)
		r = build_functions(data, &rows, err);
	else
		r = table == TOP_BINARIES ? group_nodes(&grouping, err) : group_samples(&grouping, table == TOP_THREADS, err);
	if (r == 0)
		r = find_hottest(&grouping, err);
	if (r < 0)
		return r;
	rows.shown = mem_alloc_array(rows.count + 1, sizeof(*rows.shown));
	if (!rows.shown)
		return error_nomem(err);
	*ret = rows;
	rows = (struct top_rows){0};
	top_rows_arrange(ret, &(struct top_arrangement){.filter = ""});
	return 0;
}

/* ---- what is shown ---- */

static bool contains(const char *text, const char *part, size_t len)
{
	for (size_t rest = strlen(text); rest >= len; text++, rest--)
		if (strncasecmp(text, part, len) == 0)
			return true;
	return false;
}

bool top_matches(const char *filter, const char *const *texts, size_t count)
{
	for (const char *part = filter;; part++) {
		size_t len = strcspn(part, "|");
		for (size_t i = 0; i < count && len; i++)
			if (contains(texts[i], part, len))
				return true;
		part += len;
		if (!*part)
			return false;
	}
}

bool top_row_matches(const struct top_row *row, const char *filter)
{
	const char *const texts[] = {row->name, row->binary, row->process, row->host, row->pid, row->tid, row->hottest};
	return top_matches(filter, texts, sizeof(texts) / sizeof(*texts));
}

/* Numbers, which have no zeroes in front. */
static int compare_numbers(const char *a, const char *b)
{
	return ORDER(strlen(a), strlen(b)) ?: strcmp(a, b);
}

struct sorting {
	const struct top_row *items;
	const struct top_arrangement *arrangement;
};

static int compare_rows(const void *left, const void *right, void *context)
{
	const struct sorting *sorting = context;
	const struct top_row *a = &sorting->items[*(const uint32_t *)left], *b = &sorting->items[*(const uint32_t *)right];
	int order = 0;
	switch (sorting->arrangement->order) {
	case TOP_BY_TOTAL: order = ORDER(b->total, a->total); break;
	case TOP_BY_KERNEL: order = ORDER(b->kernel, a->kernel); break;
	case TOP_BY_PID: order = compare_numbers(a->pid, b->pid) ?: compare_numbers(a->tid, b->tid); break;
	case TOP_BY_NAME: order = strcasecmp(a->name, b->name); break;
	default: order = ORDER(b->self, a->self) ?: ORDER(b->total, a->total); break;
	}
	order = sorting->arrangement->is_reversed ? -order : order;
	/* Always the same for the same rows. */
	return order ?: ORDER(b->self, a->self) ?: ORDER(b->total, a->total) ?: strcmp(a->name, b->name) ?: ORDER(a->id, b->id);
}

void top_rows_arrange(struct top_rows *rows, const struct top_arrangement *arrangement)
{
	const struct sorting sorting = {rows->items, arrangement};
	rows->shown_count = 0;
	for (uint32_t i = 0; i < rows->count; i++) {
		const struct top_row *row = &rows->items[i];
		if (arrangement->binary && strcmp(row->binary, arrangement->binary) != 0)
			continue;
		if (!*arrangement->filter || top_row_matches(row, arrangement->filter))
			rows->shown[rows->shown_count++] = i;
	}
	sort_bytes_by(rows->shown, rows->shown_count, sizeof(*rows->shown), compare_rows, &sorting);
}

size_t top_rows_find(const struct top_rows *rows, uint64_t id)
{
	size_t at = 0;
	while (at < rows->shown_count && rows->items[rows->shown[at]].id != id)
		at++;
	return at;
}
