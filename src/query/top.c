/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Self and total values by function, file, binary, line or package. A stack counts once for each key that is in it, however
 * often it occurs, so that recursion does not count twice. There are two ways to see to that:
 *
 *   by sample  each stack is walked from its leaf; keys are stamped with the number of the sample that they were last seen in.
 *   by trie    values are summed towards the root, and the trie is walked once, depth first; a key is counted where it is not
 *	       on the path yet. This takes a step a stack instead of a step a frame.
 *
 * Many groups (samples with equal labels) are added up one after the other in the same arrays, each by sample, since a walk
 *over the whole trie for each of them would take longer; one group goes by trie.
 */
#include "query/top.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/budget.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"

#define COLUMNS_MAX 3 /* that a key has */
#define SIDES_MAX   2

struct top_key {
	uint32_t texts[COLUMNS_MAX];
};
struct top_value {
	int64_t self[SIDES_MAX], total[SIDES_MAX];
	uint64_t stamp;	  /* the sample it was last seen in */
	uint64_t touched; /* the group it was last seen in, + 1 */
};
struct top {
	const struct profile *profile;
	const struct top_options *options;
	size_t sides;
	struct intern texts;
	struct top_key *keys;
	struct top_value *values;
	size_t key_count, key_capacity, value_capacity;
	struct index32 index;
	uint32_t *line_keys, *location_keys; /* + 1 */
	uint32_t *touched;		     /* keys of the present group */
	size_t touched_count, touched_capacity;
	int64_t totals[SIDES_MAX]; /* of the present group */
	size_t found;		   /* rows without the limit */
};

static void top_release(struct top *top)
{
	intern_release(&top->texts);
	mem_free(top->keys);
	mem_free(top->values);
	index32_release(&top->index);
	mem_free(top->line_keys);
	mem_free(top->location_keys);
	mem_free(top->touched);
}

/* ---- keys ---- */

static int find_key(struct top *top, const struct top_key *key, uint32_t *ret)
{
	uint64_t hash = hash64_mix(hash64_mix((uint64_t)key->texts[0] << 32 | key->texts[1]) ^ key->texts[2]);
	for (size_t at = index32_first(&top->index, hash); index32_at(&top->index, hash, &at, ret); at++)
		if (memcmp(&top->keys[*ret], key, sizeof(*key)) == 0)
			return 0;
	int r = array_reserve(&top->keys, &top->key_capacity, top->key_count + 1, UINT32_MAX);
	if (!r)
		r = array_reserve(&top->values, &top->value_capacity, top->key_count + 1, UINT32_MAX);
	if (!r)
		r = index32_add(&top->index, hash, (uint32_t)top->key_count);
	if (r < 0)
		return r;
	*ret = (uint32_t)top->key_count++;
	top->keys[*ret] = *key;
	top->values[*ret] = (struct top_value){0};
	return 0;
}

static int take_text(struct top *top, struct bytes text, uint32_t *ret)
{
	return intern_add(&top->texts, text.data, text.len, ret);
}

static int take_address(struct top *top, uint32_t location, struct bytes binary, uint32_t *ret)
{
	char text[32];
	_cleanup_(buffer_release) struct buffer name = {.max = SIZE_MAX};
	uint64_t offset = profile_location_file_offset(top->profile, location);
	snprintf(text, sizeof(text), "%s0x%" PRIx64, binary.len ? "+" : "", offset);
	buffer_append(&name, binary.data, binary.len);
	int r = buffer_append_string(&name, text);
	return r < 0 ? r : take_text(top, buffer_bytes(&name), ret);
}

/* "FILE:LINE" */
static int take_line(struct top *top, struct bytes file, int64_t line, uint32_t *ret)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	if (!file.len && !line)
		return take_text(top, (struct bytes){0}, ret);
	buffer_append(&text, file.data, file.len);
	int r = buffer_printf(&text, ":%" PRId64, line);
	return r < 0 ? r : take_text(top, buffer_bytes(&text), ret);
}

/* line NULL: a location without lines */
static int make_key(struct top *top, uint32_t id, const struct profile_line *line, struct top_key *key)
{
	const struct profile *profile = top->profile;
	const struct profile_location *location = &profile->locations[id];
	static const struct profile_function unknown;
	const struct profile_function *function = line ? &profile->functions[line->function] : &unknown;
	struct bytes binary = text_binary_name(profile_string_bytes(profile, profile->mappings[location->mapping].file_name));
	struct bytes name = profile_string_bytes(profile, function->name), package;
	struct bytes file = profile_string_bytes(profile, function->file_name);
	int r = 0;
	*key = (struct top_key){{0}};
	switch (top->options->by) {
	case TOP_BY_FUNCTION:
	case TOP_BY_LABEL:
		r = line ? take_text(top, name, &key->texts[0]) : take_address(top, id, binary, &key->texts[0]);
		if (!r)
			r = take_text(top, file, &key->texts[1]);
		return r < 0 ? r : take_text(top, binary, &key->texts[2]);
	case TOP_BY_FILE: return take_text(top, file, &key->texts[0]);
	case TOP_BY_BINARY: return take_text(top, binary, &key->texts[0]);
	case TOP_BY_PACKAGE:
		package = function_package(name);
		return take_text(top, package.len ? package : binary, &key->texts[0]);
	case TOP_BY_LINE:
		r = take_line(top, file, line ? line->line : 0, &key->texts[0]);
		if (!r)
			r = line ? take_text(top, name, &key->texts[1]) : take_address(top, id, binary, &key->texts[1]);
		return r < 0 ? r : take_text(top, binary, &key->texts[2]);
	}
	return r;
}

static int frame_key(struct top *top, uint32_t location, uint32_t line, bool has_line, uint32_t *ret)
{
	uint32_t *known = has_line ? &top->line_keys[line] : &top->location_keys[location];
	if (!*known) {
		struct top_key key;
		uint32_t id = 0;
		int r = make_key(top, location, has_line ? &top->profile->lines[line] : NULL, &key);
		if (!r)
			r = find_key(top, &key, &id);
		if (r < 0)
			return r;
		*known = id + 1;
	}
	*ret = *known - 1;
	return 0;
}

/* ---- values ---- */

static int add_frame(struct top *top, uint32_t key, const int64_t *values, bool leaf, uint64_t sample, uint64_t group)
{
	struct top_value *value = &top->values[key];
	if (value->touched != group + 1) {
		if (array_push(&top->touched, &top->touched_count, &top->touched_capacity, UINT32_MAX, key) < 0)
			return -ENOMEM;
		*value = (struct top_value){.touched = group + 1};
	}
	bool first = value->stamp != sample + 1;
	value->stamp = sample + 1;
	for (size_t side = 0; side < top->sides; side++) {
		if (leaf)
			sum_to(&value->self[side], values[side]);
		if (first)
			sum_to(&value->total[side], values[side]);
	}
	return 0;
}

static int add_sample(struct top *top, size_t sample, uint64_t group)
{
	const struct profile *profile = top->profile;
	const int64_t *values = profile->values + sample * top->sides;
	bool leaf = true;
	for (size_t side = 0; side < top->sides; side++)
		sum_to(&top->totals[side], values[side]);
	for (uint32_t stack = profile->samples[sample].stack; stack; stack = profile->stacks[stack].parent) {
		uint32_t id = profile->stacks[stack].location, key;
		const struct profile_location *location = &profile->locations[id];
		for (uint32_t i = 0; i < (location->line_count ? location->line_count : 1); i++) {
			int r = frame_key(top, id, location->line_first + i, location->line_count > 0, &key);
			if (!r)
				r = add_frame(top, key, values, leaf, sample, group);
			if (r < 0)
				return r;
			leaf = false;
		}
	}
	return 0;
}

/* ---- by trie ---- */

struct trie {
	int64_t *values;	       /* by stack and side: of it and all below */
	uint32_t *children, *siblings; /* the first child, the next sibling; 0 = none */
	uint32_t *on_path;	       /* by key: how often it is on the path */
	size_t on_path_count, on_path_capacity;
};

static void trie_release(struct trie *trie)
{
	mem_free(trie->values);
	mem_free(trie->children);
	mem_free(trie->siblings);
	mem_free(trie->on_path);
}

static int trie_init(struct trie *trie, struct top *top)
{
	const struct profile *profile = top->profile;
	size_t count = profile->stack_count, sides = top->sides;
	trie->values = mem_zalloc_array(count * sides, sizeof(*trie->values));
	trie->children = mem_zalloc_array(count, sizeof(*trie->children));
	trie->siblings = mem_zalloc_array(count, sizeof(*trie->siblings));
	if (!trie->values || !trie->children || !trie->siblings)
		return -ENOMEM;
	for (size_t i = 0; i < profile->sample_count; i++)
		for (size_t side = 0; side < sides; side++)
			sum_to(&trie->values[profile->samples[i].stack * sides + side], profile->values[i * sides + side]);
	return 0;
}

/* The frames of a stack's location; leaf values before the sums are made. */
static int trie_add_self(struct top *top, const struct trie *trie)
{
	const struct profile *profile = top->profile;
	for (size_t i = 1; i < profile->stack_count; i++) {
		if (budget_poll())
			return -ENOMEM;
		const int64_t *values = trie->values + i * top->sides;
		const struct profile_location *location = &profile->locations[profile->stacks[i].location];
		uint32_t key;
		if (!values[0] && !values[top->sides - 1])
			continue;
		int r = frame_key(top, profile->stacks[i].location, location->line_first, location->line_count > 0, &key);
		if (r < 0)
			return r;
		for (size_t side = 0; side < top->sides; side++)
			sum_to(&top->values[key].self[side], values[side]);
	}
	return 0;
}

static void trie_sum(struct top *top, struct trie *trie)
{
	const struct profile *profile = top->profile;
	for (size_t i = profile->stack_count; i-- > 1 && !budget_poll();) {
		uint32_t parent = profile->stacks[i].parent;
		for (size_t side = 0; side < top->sides; side++)
			sum_to(&trie->values[parent * top->sides + side], trie->values[i * top->sides + side]);
		trie->siblings[i] = trie->children[parent];
		trie->children[parent] = (uint32_t)i;
	}
	for (size_t side = 0; side < top->sides; side++)
		top->totals[side] = trie->values[side];
}

/* Puts the frames of a stack on the path; those that were not there yet count. */
static int trie_enter(struct top *top, struct trie *trie, uint32_t stack)
{
	if (budget_poll())
		return -ENOMEM;
	uint32_t id = top->profile->stacks[stack].location, key;
	const struct profile_location *location = &top->profile->locations[id];
	for (uint32_t i = 0; i < (location->line_count ? location->line_count : 1); i++) {
		int r = frame_key(top, id, location->line_first + i, location->line_count > 0, &key);
		if (!r)
			r = array_reserve(&trie->on_path, &trie->on_path_capacity, (size_t)key + 1, UINT32_MAX);
		if (r < 0)
			return r;
		while (trie->on_path_count <= key)
			trie->on_path[trie->on_path_count++] = 0;
		if (trie->on_path[key]++)
			continue;
		for (size_t side = 0; side < top->sides; side++)
			sum_to(&top->values[key].total[side], trie->values[stack * top->sides + side]);
	}
	return 0;
}

static void trie_leave(struct top *top, struct trie *trie, uint32_t stack)
{
	uint32_t id = top->profile->stacks[stack].location, key;
	const struct profile_location *location = &top->profile->locations[id];
	for (uint32_t i = 0; i < (location->line_count ? location->line_count : 1); i++) {
		frame_key(top, id, location->line_first + i, location->line_count > 0, &key); /* known by now */
		trie->on_path[key]--;
	}
}

static int trie_walk(struct top *top, struct trie *trie)
{
	const struct profile_stack *stacks = top->profile->stacks;
	uint32_t at = trie->children[0];
	int r = 0;
	while (!r && at) {
		r = trie_enter(top, trie, at);
		if (!r && trie->children[at]) {
			at = trie->children[at];
			continue;
		}
		while (!r && at && !trie->siblings[at]) {
			trie_leave(top, trie, at);
			at = stacks[at].parent;
		}
		if (!r && at) {
			trie_leave(top, trie, at);
			at = trie->siblings[at];
		}
	}
	return r;
}

static int add_trie(struct top *top)
{
	_cleanup_(trie_release) struct trie trie = {0};
	int r = trie_init(&trie, top);
	if (!r)
		r = trie_add_self(top, &trie);
	if (r < 0)
		return r;
	trie_sum(top, &trie);
	r = trie_walk(top, &trie);
	if (r < 0 || array_reserve(&top->touched, &top->touched_capacity, top->key_count, UINT32_MAX) < 0)
		return -ENOMEM;
	for (uint32_t key = 0; key < top->key_count; key++) {
		const struct top_value *value = &top->values[key];
		bool any = false;
		for (size_t side = 0; side < top->sides; side++)
			any |= value->self[side] || value->total[side];
		if (any)
			top->touched[top->touched_count++] = key;
	}
	return 0;
}

/* ---- rows ---- */

static double share(int64_t value, int64_t total)
{
	return total ? 100.0 * (double)value / (double)total : 0;
}

static double change(const struct top *top, const int64_t *sides)
{
	if (top->options->relative)
		return share(sides[1], top->totals[1]) - share(sides[0], top->totals[0]);
	return (double)sides[1] - (double)sides[0];
}

static double weight(const struct top *top, const struct top_value *value, bool total)
{
	const int64_t *sides = total ? value->total : value->self;
	return top->sides == 2 ? fabs(change(top, sides)) : (double)sides[0];
}

static int compare_keys(const void *left, const void *right, void *context)
{
	const struct top *top = context;
	uint32_t x = *(const uint32_t *)left, y = *(const uint32_t *)right;
	for (int i = 0; i < 2; i++) {
		bool total = top->options->total != (i == 1);
		double a = weight(top, &top->values[x], total), b = weight(top, &top->values[y], total);
		if (a != b)
			return a < b ? 1 : -1;
	}
	for (size_t i = 0; i < COLUMNS_MAX; i++) {
		int order = bytes_compare(intern_get(&top->texts, top->keys[x].texts[i]),
					  intern_get(&top->texts, top->keys[y].texts[i]));
		if (order)
			return order;
	}
	return 0;
}

static const char *const key_columns[][COLUMNS_MAX] = {
	[TOP_BY_FUNCTION] = {"function", "file", "binary"}, [TOP_BY_FILE] = {"file"},	    [TOP_BY_BINARY] = {"binary"},
	[TOP_BY_LINE] = {"line", "function", "binary"},	    [TOP_BY_PACKAGE] = {"package"}, [TOP_BY_LABEL] = {"function"},
};

static size_t key_column_count(const struct top *top)
{
	size_t count = 0;
	while (count < COLUMNS_MAX && key_columns[top->options->by][count])
		count++;
	return count;
}

static void add_columns(const struct top *top, struct query_table *table)
{
	static const char *const one[] = {"self", "self_percent", "total", "total_percent"};
	static const char *const two[] = {"base_self", "self", "self_change", "base_total", "total", "total_change"};
	const struct top_options *options = top->options;
	for (size_t i = 0; i < options->label_count; i++)
		query_table_add_column(table, options->labels[i], "", QUERY_COLUMN_TEXT);
	enum query_column_kind kind = options->rate_range_ns ? QUERY_COLUMN_NUMBER : QUERY_COLUMN_INTEGER;
	for (size_t i = 0; i < (top->sides == 2 ? 6 : 4); i++) {
		bool percent = top->sides == 2 ? options->relative && i % 3 == 2 : i % 2 == 1;
		query_table_add_column(table, top->sides == 2 ? two[i] : one[i], percent ? "percent" : options->unit,
				       percent ? QUERY_COLUMN_NUMBER : kind);
	}
	if (top->sides == 2)
		query_table_add_column(table, "state", "", QUERY_COLUMN_TEXT);
	for (size_t i = 0, count = key_column_count(top); i < count; i++)
		query_table_add_column(table, key_columns[options->by][i], "", QUERY_COLUMN_TEXT);
}

double rate_value(int64_t value, bool time_unit, int64_t range_ns)
{
	return time_unit ? (double)value / (double)range_ns : (double)value * (double)NS_PER_S / (double)range_ns;
}

static void put_value(const struct top *top, struct query_table *table, int64_t value)
{
	if (top->options->rate_range_ns)
		query_table_number(table,
				   rate_value(value, strcmp(top->options->unit, "cores") == 0, top->options->rate_range_ns));
	else
		query_table_integer(table, value);
}

static void put_values(const struct top *top, struct query_table *table, const int64_t *sides)
{
	put_value(top, table, sides[0]);
	if (top->sides == 2)
		put_value(top, table, sides[1]);
	if (top->sides == 1)
		query_table_number(table, share(sides[0], top->totals[0]));
	else if (top->options->relative)
		query_table_number(table, change(top, sides));
	else
		put_value(top, table, sum_difference(sides[1], sides[0]));
}

static void add_row(const struct top *top, uint32_t label_set, uint32_t key, struct query_table *table)
{
	const struct top_value *value = &top->values[key];
	query_table_add_row(table, top->options->rows_max);
	for (size_t i = 0; i < top->options->label_count; i++)
		query_table_string(table, profile_label_value(top->profile, label_set, top->options->labels[i]));
	put_values(top, table, value->self);
	put_values(top, table, value->total);
	if (top->sides == 2)
		query_table_string(table, !value->total[0] ? "new" : !value->total[1] ? "gone" : "");
	for (size_t i = 0, count = key_column_count(top); i < count; i++)
		query_table_text(table, intern_get(&top->texts, top->keys[key].texts[i]));
}

/* Moves the key at `at` down a heap whose root is the last in order. */
static void sift_down(struct top *top, uint32_t *heap, size_t count, size_t at)
{
	for (;;) {
		size_t last = at, child = 2 * at + 1;
		for (size_t i = child; i < child + 2 && i < count; i++)
			if (compare_keys(&heap[i], &heap[last], top) > 0)
				last = i;
		if (last == at)
			return;
		uint32_t key = heap[at];
		heap[at] = heap[last];
		heap[last] = key;
		at = last;
	}
}

/* Brings the first `limit` in order to the front, so that few of many need not all be sorted. */
static void select_first(struct top *top, size_t limit)
{
	uint32_t *keys = top->touched;
	for (size_t i = limit / 2; i-- > 0;)
		sift_down(top, keys, limit, i);
	for (size_t i = limit; i < top->touched_count; i++) {
		if (compare_keys(&keys[i], &keys[0], top) > 0)
			continue;
		uint32_t key = keys[0];
		keys[0] = keys[i];
		keys[i] = key;
		sift_down(top, keys, limit, 0);
	}
	top->touched_count = limit;
}

static int add_rows(struct top *top, uint32_t label_set, struct query_table *table, struct error *err)
{
	size_t found = top->touched_count;
	if (top->options->limit < found)
		select_first(top, top->options->limit);
	sort_array_by(top->touched, top->touched_count, compare_keys, top);
	for (size_t i = 0; i < top->touched_count; i++)
		add_row(top, label_set, top->touched[i], table);
	top->found += found;
	return query_table_status(table, err);
}

/* ---- groups ---- */

struct group {
	uint32_t label_set;
	uint64_t size;	     /* of its values: the order of groups */
	size_t first, count; /* of the samples in order */
};

static uint64_t sample_size(const struct profile *profile, size_t sample)
{
	uint64_t size = 0;
	for (size_t i = 0; i < profile->sample_type_count; i++) {
		int64_t value = profile->values[sample * profile->sample_type_count + i];
		if (__builtin_add_overflow(size, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, &size))
			return UINT64_MAX;
	}
	return size;
}

DEFINE_ORDER(compare_groups, struct group, ORDER(b->size, a->size) ?: ORDER(a->label_set, b->label_set));

/* Samples ordered by label set, and where each set begins. *ret_groups and *ret_order are the caller's. */
static int find_groups(const struct profile *profile, struct group **ret_groups, size_t *ret_count, size_t **ret_order)
{
	struct group *groups = mem_zalloc_array(profile->label_set_count, sizeof(*groups));
	size_t *order = mem_alloc_array(profile->sample_count, sizeof(*order)), first = 0, count = 0;
	*ret_groups = groups;
	*ret_order = order;
	if (!groups || !order)
		return -ENOMEM;
	for (size_t i = 0; i < profile->sample_count; i++) {
		struct group *group = &groups[profile->samples[i].labels];
		group->count++;
		group->size += sample_size(profile, i);
	}
	for (size_t i = 0; i < profile->label_set_count; i++) {
		groups[i].label_set = (uint32_t)i;
		groups[i].first = first;
		first += groups[i].count;
		groups[i].count = 0;
	}
	for (size_t i = 0; i < profile->sample_count; i++) {
		struct group *group = &groups[profile->samples[i].labels];
		order[group->first + group->count++] = i;
	}
	for (size_t i = 0; i < profile->label_set_count; i++)
		if (groups[i].count)
			groups[count++] = groups[i];
	sort_array(groups, count, compare_groups);
	*ret_count = count;
	return 0;
}

static int top_init(struct top *top)
{
	const struct profile *profile = top->profile;
	top->line_keys = mem_zalloc_array(profile->line_count, sizeof(*top->line_keys));
	top->location_keys = mem_zalloc_array(profile->location_count, sizeof(*top->location_keys));
	if (!top->line_keys || !top->location_keys || intern_init(&top->texts, LIMIT_PROFILE_STRING_BYTES) < 0)
		return -ENOMEM;
	return 0;
}

int top_table(const struct profile *profile, const struct top_options *options, struct query_table *ret, struct error *err)
{
	_cleanup_(top_release) struct top top = {.profile = profile, .options = options, .sides = profile->sample_type_count};
	_cleanup_(mem_freep) struct group *groups = NULL;
	_cleanup_(mem_freep) size_t *order = NULL;
	size_t group_count = 0;
	if (top.sides > SIDES_MAX)
		return error_set(err, -EINVAL, "query: a table needs a profile of one or two sample types");
	top.sides = top.sides ? top.sides : 1;
	query_table_init(ret);
	if (top_init(&top) < 0 || find_groups(profile, &groups, &group_count, &order) < 0)
		return error_nomem(err);
	add_columns(&top, ret);
	int r = query_table_status(ret, err);
	for (size_t g = 0; !r && g < group_count; g++) {
		top.touched_count = 0;
		memset(top.totals, 0, sizeof(top.totals));
		if (group_count == 1 && add_trie(&top) < 0)
			r = error_nomem(err);
		for (size_t i = 0; !r && group_count > 1 && i < groups[g].count; i++)
			if (add_sample(&top, order[groups[g].first + i], g) < 0)
				r = error_nomem(err);
		if (!r)
			r = add_rows(&top, groups[g].label_set, ret, err);
	}
	if (r < 0)
		query_table_release(ret);
	else
		ret->rows_before_limit = top.found;
	return r;
}
