/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of hosts in conditions and groups: the join of series with the table of hosts (store/hosts.h).
 *
 * A label that a series lacks is that of its host (the label host_name) at the time of the sample. What a series has itself
 * wins, so nothing changes for labels that only series have, and a query that mentions none of the table's labels is read as
 * ever: finding that out is one look at the table's names.
 *
 * Otherwise each host gets an outcome for each of its runs in the range: which conditions hold, and the values to group by. All
 * that matters is in the outcome, so runs that differ in other labels are one. Then the query is read in parts:
 *
 *   steady hosts     have one outcome all the time. They, and all that the table does not know, are read at once, as any query
 *                    is, from rollups and totals where there are some.
 *   changing hosts   are read from one change to the next, each part with the outcomes that hold in it; those that change at
 * the same times together.
 *
 * To a store a part is a range and conditions as others are: "series without the label pass if their host is one of these"
 * (struct label_fallback). Groups are made here, since a store can group by the host. A range that ends at a change is exact
 * where there are samples; where only rollups are left the bucket counts that begins in it, as at the ends of any range.
 *
 * Of gauges, which are averaged over the profiles of a range, a series counts in each part as a series of its own.
 *
 * Rejected: parts of time for all hosts, from one change of any of them to the next. Blocks are in order of series, so that a
 * part of the time lies on nearly all pages: a thousand hosts that get a new kernel one by one would be read a thousand times.
 * And giving the store the table, which every store would have to join by itself.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/limits.h"
#include "base/order.h"
#include "base/sorted.h"
#include "query/query_int.h"

#define NAMES_MAX (QUERY_MATCHERS_MAX + 1 + STORE_GROUP_BY_MAX)
#define PARTS_MAX 10000

struct join_run {
	int64_t from_ns, to_ns;
	uint32_t host; /* of `hosts` */
	uint32_t values, outcome;
};
struct host_join {
	const char *names[NAMES_MAX]; /* labels that conditions and groups mention; */
	bool known[NAMES_MAX];	      /* some host has it */
	size_t name_count;
	size_t conditions[QUERY_MATCHERS_MAX + 1]; /* of the selection, those on labels of hosts */
	size_t condition_count;
	const char *by[STORE_GROUP_BY_MAX]; /* to group by, those that are labels of hosts */
	size_t by_count;

	struct intern hosts, values, outcomes; /* texts; values: one a name, each with its NUL; outcomes: make_outcome() */
	struct join_run *runs;		       /* by host, then time */
	size_t run_count, run_capacity;
	uint32_t *first_runs; /* by host; one more at the end */
	uint32_t unknown;     /* the outcome of hosts that the table does not have */
	bool *changing;	      /* by host */
	uint32_t *changers;   /* hosts that change, those with the same times of change one after the other */
	const char **changer_names;
	size_t changer_count;

	/* The part at hand: a time in it, and of changing hosts which */
	int64_t part_ns;
	size_t class_first, class_count;
	const struct store_grouping *grouping;
	bool keep_host; /* the groups are by host, too */
	struct label_condition labels[QUERY_MATCHERS_MAX + 3], union_labels[QUERY_MATCHERS_MAX + 3];
	struct label_fallback fallbacks[QUERY_MATCHERS_MAX + 1], union_fallbacks[QUERY_MATCHERS_MAX + 1];
	const char **lists[QUERY_MATCHERS_MAX + 1], **union_lists[QUERY_MATCHERS_MAX + 1];
};

static void free_lists(const char **lists[static QUERY_MATCHERS_MAX + 1])
{
	for (size_t i = 0; i <= QUERY_MATCHERS_MAX; i++)
		lists[i] = mem_free(lists[i]);
}

struct host_join *host_join_free(struct host_join *join)
{
	if (!join)
		return NULL;
	intern_release(&join->hosts);
	intern_release(&join->values);
	intern_release(&join->outcomes);
	mem_free(join->runs);
	mem_free(join->first_runs);
	mem_free(join->changing);
	mem_free(join->changers);
	mem_free(join->changer_names);
	free_lists(join->lists);
	free_lists(join->union_lists);
	return mem_free(join);
}

/* ---- what the hosts have ---- */

static size_t find_name(const struct host_join *join, const char *name)
{
	size_t i = 0;
	while (i < join->name_count && strcmp(join->names[i], name) != 0)
		i++;
	return i;
}

static void add_name(struct host_join *join, const char *name)
{
	if (type_label_of(name) == TYPE_LABEL_NONE && strcmp(name, STORE_HOST_LABEL) != 0 &&
	    find_name(join, name) == join->name_count && join->name_count < NAMES_MAX)
		join->names[join->name_count++] = name;
}

static int add_host(void *context, const struct store_host *host, struct error *err)
{
	struct host_join *join = context;
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	struct join_run run = {.from_ns = host->from_ns, .to_ns = host->to_ns};
	for (size_t i = 0; i < join->name_count; i++) {
		const char *value = labels_get(host->labels, join->names[i]);
		join->known[i] |= value != NULL;
		buffer_append(&text, value ? value : "", value ? strlen(value) + 1 : 1);
	}
	if (buffer_status(&text) < 0 || intern_add(&join->values, text.data, text.len, &run.values) < 0 ||
	    intern_add_string(&join->hosts, host->name, &run.host) < 0 ||
	    array_push(&join->runs, &join->run_count, &join->run_capacity, UINT32_MAX, run) < 0)
		return error_nomem(err);
	return 0;
}

static const char *value_of(const struct host_join *join, uint32_t values, size_t name)
{
	const char *at = intern_string(&join->values, values);
	while (name-- > 0)
		at += strlen(at) + 1;
	return at;
}

/* ---- what comes of it ---- */

static void choose(struct host_join *join, const struct series_conditions *series, const char *const *by, size_t by_count)
{
	for (size_t i = 0; i < series->label_count; i++) {
		size_t name = find_name(join, series->labels[i].label);
		if (name < join->name_count && join->known[name])
			join->conditions[join->condition_count++] = i;
	}
	for (size_t i = 0; i < by_count; i++) {
		size_t name = find_name(join, by[i]);
		if (name < join->name_count && join->known[name])
			join->by[join->by_count++] = by[i];
	}
}

static int make_matcher(const struct host_join *join, const struct series_conditions *series, struct series_matcher **ret,
			struct error *err)
{
	struct label_condition labels[QUERY_MATCHERS_MAX + 1];
	const struct series_conditions conditions = {.labels = labels, .label_count = join->condition_count};
	for (size_t i = 0; i < join->condition_count; i++)
		labels[i] = series->labels[join->conditions[i]];
	return series_matcher_new(&conditions, ret, err);
}

/* A byte a condition, then the values to group by, each with its NUL. */
static int make_outcome(struct host_join *join, const struct series_matcher *matcher, const uint32_t *values, uint32_t *ret,
			struct error *err)
{
	_cleanup_(buffer_release) struct buffer text = {.max = SIZE_MAX};
	for (size_t i = 0; i < join->condition_count; i++) {
		size_t name = find_name(join, series_matcher_label(matcher, i));
		const char *value = values ? value_of(join, *values, name) : "";
		buffer_append_byte(&text, series_matcher_finds_value(matcher, i, value));
	}
	for (size_t i = 0; i < join->by_count; i++) {
		const char *value = values ? value_of(join, *values, find_name(join, join->by[i])) : "";
		buffer_append(&text, value, strlen(value) + 1);
	}
	if (buffer_status(&text) < 0 || intern_add(&join->outcomes, text.data, text.len, ret) < 0)
		return error_nomem(err);
	return 0;
}

static int make_outcomes(struct host_join *join, const struct series_conditions *series, struct error *err)
{
	_cleanup_(series_matcher_freep) struct series_matcher *matcher = NULL;
	_cleanup_(mem_freep) uint32_t *by_values = mem_zalloc_array(join->values.count, sizeof(*by_values));
	if (!by_values)
		return error_nomem(err);
	int r = make_matcher(join, series, &matcher, err);
	if (r == 0)
		r = make_outcome(join, matcher, NULL, &join->unknown, err);
	/* Once for each combination of values; 0 is none: texts of values are not empty. */
	for (uint32_t i = 1; r == 0 && i < join->values.count; i++)
		r = make_outcome(join, matcher, &i, &by_values[i], err);
	for (size_t i = 0; i < join->run_count; i++)
		join->runs[i].outcome = by_values[join->runs[i].values];
	return r < 0 ? r : series_matcher_failure(matcher, err);
}

static bool holds(const struct host_join *join, uint32_t outcome, size_t condition)
{
	return intern_get(&join->outcomes, outcome).data[condition];
}

/* ---- who changes, and when ---- */

DEFINE_ORDER(compare_runs, struct join_run, ORDER(a->host, b->host) ?: ORDER(a->from_ns, b->from_ns));

static void unite_runs(struct host_join *join)
{
	size_t kept = 0;
	sort_array(join->runs, join->run_count, compare_runs);
	for (size_t i = 0; i < join->run_count; i++) {
		struct join_run *last = kept ? &join->runs[kept - 1] : NULL;
		if (last && last->host == join->runs[i].host && last->outcome == join->runs[i].outcome)
			last->to_ns = join->runs[i].to_ns;
		else
			join->runs[kept++] = join->runs[i];
	}
	join->run_count = kept;
}

/* By their times of change. */
static int compare_changers(const void *left, const void *right, void *context)
{
	const struct host_join *join = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint32_t first_a = join->first_runs[a], first_b = join->first_runs[b];
	uint32_t count_a = join->first_runs[a + 1] - first_a, count_b = join->first_runs[b + 1] - first_b;
	int order = ORDER(count_a, count_b);
	for (uint32_t i = 1; order == 0 && i < count_a; i++)
		order = ORDER(join->runs[first_a + i].from_ns, join->runs[first_b + i].from_ns);
	return order;
}

/* How many hosts from there on change at the same times. */
static size_t class_length(const struct host_join *join, size_t first)
{
	size_t count = 1;
	while (first + count < join->changer_count &&
	       compare_changers(&join->changers[first], &join->changers[first + count], (void *)(uintptr_t)join) == 0)
		count++;
	return count;
}

static int count_parts(const struct host_join *join, struct error *err)
{
	size_t parts = 0;
	for (size_t i = 0; i < join->changer_count; i += class_length(join, i)) {
		uint32_t host = join->changers[i];
		parts += join->first_runs[host + 1] - join->first_runs[host];
	}
	if (parts <= PARTS_MAX)
		return 0;
	return error_set(
		err, -EINVAL,
		"query: labels that it asks for change too often: %zu hosts have them in %zu stretches of the range, more "
		"than %d; narrow the range or the selector",
		join->changer_count, parts, PARTS_MAX);
}

static int find_changes(struct host_join *join, struct error *err)
{
	size_t hosts = join->hosts.count;
	join->first_runs = mem_zalloc_array(hosts + 1, sizeof(*join->first_runs));
	join->changing = mem_zalloc_array(hosts, sizeof(*join->changing));
	join->changers = mem_alloc_array(hosts, sizeof(*join->changers));
	join->changer_names = mem_alloc_array(hosts, sizeof(*join->changer_names));
	if (!join->first_runs || !join->changing || !join->changers || !join->changer_names)
		return error_nomem(err);
	for (size_t i = 0; i < join->run_count; i++) {
		uint32_t host = join->runs[i].host;
		join->first_runs[host + 1] = (uint32_t)i + 1;
		if (i == 0 || join->runs[i - 1].host != host || join->changing[host])
			continue;
		join->changers[join->changer_count++] = host;
		join->changing[host] = true;
	}
	for (size_t i = 1; i <= hosts; i++) /* host 0 is the empty name, which has no runs */
		if (!join->first_runs[i])
			join->first_runs[i] = join->first_runs[i - 1];
	sort_array_by(join->changers, join->changer_count, compare_changers, join);
	for (size_t i = 0; i < join->changer_count; i++)
		join->changer_names[i] = intern_string(&join->hosts, join->changers[i]);
	return count_parts(join, err);
}

/* At a time of the range. */
static uint32_t outcome_at(const struct host_join *join, uint32_t host, int64_t time_ns)
{
	uint32_t first = join->first_runs[host], count = join->first_runs[host + 1] - first;
	const struct join_run *runs = join->runs + first;
	size_t after = sorted_count_while(count, i, runs[i].from_ns <= time_ns);
	return count ? runs[after ? after - 1 : 0].outcome : join->unknown;
}

/* ---- as conditions ---- */

enum part { PART_STEADY, PART_CHANGING, PART_ANY_TIME };

static bool host_holds(const struct host_join *join, enum part part, uint32_t host, size_t condition)
{
	if (part != PART_ANY_TIME)
		return holds(join, outcome_at(join, host, join->part_ns), condition);
	for (uint32_t i = join->first_runs[host]; i < join->first_runs[host + 1]; i++)
		if (holds(join, join->runs[i].outcome, condition))
			return true;
	return false;
}

/* The hosts that a part is about, one after the other; 0 past the last. *at begins as 0. */
static uint32_t host_of_part(const struct host_join *join, enum part part, size_t *at)
{
	if (part == PART_CHANGING)
		return *at < join->class_count ? join->changers[join->class_first + (*at)++] : 0;
	while (++*at < join->hosts.count)
		if (part == PART_ANY_TIME || !join->changing[*at])
			return (uint32_t)*at;
	return 0;
}

/* Hosts that are unlike those that the table does not know. */
static int list_hosts(const struct host_join *join, enum part part, size_t condition, const char ***ret_list,
		      struct label_fallback *ret, struct error *err)
{
	bool otherwise = holds(join, join->unknown, condition);
	size_t most = part == PART_CHANGING ? join->class_count : join->hosts.count, count = 0, at = 0;
	const char **list = mem_alloc_array(most, sizeof(*list));
	if (!list)
		return error_nomem(err);
	for (uint32_t host; (host = host_of_part(join, part, &at));)
		if (host_holds(join, part, host, condition) != otherwise)
			list[count++] = intern_string(&join->hosts, host);
	mem_free(*ret_list);
	*ret_list = list;
	*ret = (struct label_fallback){.label = STORE_HOST_LABEL, .negate = otherwise, .texts = list, .text_count = count};
	return 0;
}

static int make_conditions(struct host_join *join, enum part part, const struct series_conditions *series,
			   struct series_conditions *ret, struct error *err)
{
	bool any_time = part == PART_ANY_TIME;
	struct label_condition *labels = any_time ? join->union_labels : join->labels;
	int r = 0;
	*ret = *series;
	for (size_t i = 0; i < series->label_count; i++)
		labels[i] = series->labels[i];
	for (size_t i = 0; r == 0 && i < join->condition_count; i++) {
		struct label_fallback *fallback = any_time ? &join->union_fallbacks[i] : &join->fallbacks[i];
		r = list_hosts(join, part, i, any_time ? &join->union_lists[i] : &join->lists[i], fallback, err);
		labels[join->conditions[i]].fallback = fallback;
	}
	if (part == PART_STEADY && join->changer_count)
		labels[ret->label_count++] = (struct label_condition){.label = STORE_HOST_LABEL,
								      .op = PATTERN_NOT_EQUAL,
								      .texts = join->changer_names,
								      .text_count = join->changer_count};
	if (part == PART_CHANGING)
		labels[ret->label_count++] = (struct label_condition){.label = STORE_HOST_LABEL,
								      .op = PATTERN_EQUAL,
								      .texts = join->changer_names + join->class_first,
								      .text_count = join->class_count};
	ret->labels = labels;
	return r;
}

/* ---- groups ---- */

const char *host_join_value(const struct query_scan *scan, const struct labels *labels, const char *name)
{
	const struct host_join *join = scan->join;
	const char *host = join ? labels_get(labels, STORE_HOST_LABEL) : NULL;
	uint32_t id;
	if (!host || !intern_find(&join->hosts, host, strlen(host), &id))
		return NULL;
	const char *at = intern_string(&join->outcomes, outcome_at(join, id, join->part_ns)) + join->condition_count;
	for (size_t i = 0; i < join->by_count; i++) {
		if (strcmp(join->by[i], name) == 0)
			return *at ? at : NULL;
		at += strlen(at) + 1;
	}
	return NULL;
}

/* What the store groups by has the host; what is asked for has its labels. */
static int on_group(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		    struct error *err)
{
	const struct query_scan *scan = context;
	const struct host_join *join = scan->join;
	_cleanup_(labels_release) struct labels all = {0};
	int r = labels_copy(&all, labels, err);
	for (size_t i = 0; r == 0 && i < join->by_count; i++) {
		const char *value = labels_get(labels, join->by[i]) ? NULL : host_join_value(scan, labels, join->by[i]);
		if (value)
			r = labels_set(&all, join->by[i], value, err);
	}
	if (r == 0 && !join->keep_host)
		r = labels_set(&all, STORE_HOST_LABEL, "", err);
	return r < 0 ? r : join->grouping->group(join->grouping->context, type, &all, ret, err);
}

static int make_grouping(struct query_scan *scan, const struct store_grouping *grouping, const char **by,
			 struct store_grouping *ret, struct error *err)
{
	struct host_join *join = scan->join;
	*ret = *grouping;
	join->grouping = grouping;
	join->keep_host = false;
	if (!join->by_count || !grouping->by)
		return 0;
	for (size_t i = 0; i < grouping->by_count; i++) {
		by[i] = grouping->by[i];
		join->keep_host |= strcmp(by[i], STORE_HOST_LABEL) == 0;
	}
	if (!join->keep_host) {
		if (grouping->by_count >= STORE_GROUP_BY_MAX)
			return error_set(err, -EINVAL, "query: grouping by more than %d labels, some of which are of hosts",
					 STORE_GROUP_BY_MAX - 1);
		by[ret->by_count++] = STORE_HOST_LABEL;
	}
	ret->by = by;
	ret->group = on_group;
	ret->context = scan;
	return 0;
}

/* ---- selectors that are no queries ---- */

static int note_label(void *context, const struct store_host *host, struct error *err)
{
	*(bool *)context |= host->labels->count > 0;
	return 0;
}

int selector_refuse_hosts(const struct selector *selector, struct store *store, struct error *err)
{
	const struct series_conditions *series = &selector->series;
	int r = 0;
	for (size_t i = 0; r == 0 && i < series->label_count; i++) {
		const char *name = series->labels[i].label;
		bool found = false;
		if (type_label_of(name) != TYPE_LABEL_NONE)
			continue;
		r = store_read_hosts(store, &name, 1, INT64_MIN, INT64_MAX, note_label, &found, err);
		if (r == 0 && found)
			r = error_set(err, -EINVAL,
				      "selector: %s is a label of hosts, and this selects by labels of series; select hosts "
				      "by " STORE_HOST_LABEL,
				      name);
	}
	return r;
}

/* ---- reading ---- */

int query_scan_join(struct query_scan *scan, struct store *store, const char *const *by, size_t by_count, struct error *err)
{
	const struct series_conditions *series = &scan->select.series;
	struct host_join *join = scan->join = mem_zalloc(sizeof(*join));
	if (!join)
		return error_nomem(err);
	for (size_t i = 0; i < series->label_count; i++)
		add_name(join, series->labels[i].label);
	for (size_t i = 0; i < by_count; i++)
		add_name(join, by[i]);
	int r = 0;
	if (join->name_count && (intern_init(&join->hosts, SIZE_MAX) < 0 || intern_init(&join->values, SIZE_MAX) < 0 ||
				 intern_init(&join->outcomes, SIZE_MAX) < 0))
		r = error_nomem(err);
	if (r == 0 && join->name_count)
		r = store_read_hosts(store, join->names, join->name_count, scan->select.from_ns, scan->select.to_ns, add_host,
				     join, err);
	if (r < 0)
		return r;
	choose(join, series, by, by_count);
	if (!join->condition_count && !join->by_count) {
		scan->join = host_join_free(join);
		return 0;
	}
	r = make_outcomes(join, series, err);
	if (r < 0)
		return r;
	unite_runs(join);
	r = find_changes(join, err);
	scan->without_hosts = *series;
	if (r == 0)
		r = make_conditions(join, PART_ANY_TIME, &scan->without_hosts, &scan->select.series, err);
	return r;
}

static int read_part(struct query_scan *scan, enum part part, int64_t from_ns, int64_t to_ns,
		     const struct store_grouping *grouping, scan_read read, void *context, struct error *err)
{
	struct host_join *join = scan->join;
	const char *by[STORE_GROUP_BY_MAX];
	struct store_select select = scan->select;
	struct store_grouping own;
	struct store_read_stats stats = {0};
	join->part_ns = from_ns - scan->change_delay_ns;
	select.from_ns = from_ns;
	select.to_ns = to_ns;
	select.steps_before_ns += from_ns - scan->select.from_ns;
	if (select.rows_max)
		select.rows_max -= scan->read.rows < select.rows_max ? scan->read.rows : select.rows_max - 1;
	int r = make_conditions(join, part, &scan->without_hosts, &select.series, err);
	if (r == 0)
		r = make_grouping(scan, grouping, by, &own, err);
	if (r == 0)
		r = read(context, &select, &own, &stats, err);
	store_read_stats_unite(&scan->read, &stats);
	return r;
}

/* Hosts that change at the same times, from one to the next. */
static int read_class(struct query_scan *scan, size_t first, size_t count, const struct store_grouping *grouping,
		      scan_read read, void *context, struct error *err)
{
	struct host_join *join = scan->join;
	uint32_t host = join->changers[first], last = join->first_runs[host + 1];
	int64_t from_ns = scan->select.from_ns;
	int r = 0;
	join->class_first = first;
	join->class_count = count;
	for (uint32_t i = join->first_runs[host]; r == 0 && i < last; i++) {
		int64_t until_ns = i + 1 < last ? join->runs[i + 1].from_ns + scan->change_delay_ns : scan->select.to_ns;
		if (from_ns < until_ns)
			r = read_part(scan, PART_CHANGING, from_ns, until_ns, grouping, read, context, err);
		from_ns = until_ns;
	}
	return r;
}

int query_scan_read(struct query_scan *scan, const struct store_grouping *grouping, scan_read read, void *context,
		    struct error *err)
{
	const struct host_join *join = scan->join;
	if (!join)
		return read(context, &scan->select, grouping, &scan->read, err);
	int r = read_part(scan, PART_STEADY, scan->select.from_ns, scan->select.to_ns, grouping, read, context, err);
	for (size_t i = 0, count; r == 0 && i < join->changer_count; i += count) {
		count = class_length(join, i);
		r = read_class(scan, i, count, grouping, read, context, err);
	}
	return r;
}
