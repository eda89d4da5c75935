/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/time.h"
#include "query/query_int.h"

static bool scan_match_type(void *context, const struct profile_type *type)
{
	const struct query_scan *scan = context;
	return selector_matches_type(scan->selector, type);
}

static bool scan_match_value(void *context, const char *value)
{
	const struct pattern *pattern = context;
	return pattern_matches(pattern, value, strlen(value));
}

static int init_selector(struct query_scan *scan, const struct query *query, struct error *err)
{
	int r = selector_parse_query(query->selector ? query->selector : "", &scan->selector, err);
	if (!r && query->type && *query->type)
		r = selector_set_type(scan->selector, query->type, err);
	for (size_t i = 0; !r && i < query->where_count; i++)
		r = selector_add_matcher(scan->selector, &query->where[i], err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < scan->selector->matcher_count; i++) {
		struct label_matcher *matcher = &scan->selector->matchers[i];
		if (matcher->type_label) /* scan_match_type() sees to it */
			continue;
		if (matcher->is_link) {
			scan->links[scan->link_count++] = (struct store_link_condition){.part = matcher->links.part,
											.negate = matcher->links.negate,
											.ids = matcher->links.ids,
											.count = matcher->links.count};
			continue;
		}
		if (matcher->number) {
			scan->numbers[scan->number_count++] = (struct store_number_condition){
				.matches = number_condition_matches, .context = matcher->number};
			continue;
		}
		scan->matchers[scan->matcher_count++] = (struct store_matcher){
			.label = matcher->name, .matches = scan_match_value, .context = &matcher->pattern};
	}
	return 0;
}

static int init_filters(struct query_scan *scan, struct symbolizer *symbolizer, const struct query *query, struct error *err)
{
	if (query->frames_count > QUERY_FRAMES_MAX)
		return error_set(err, -EINVAL, "query: more than %d conditions on frames", QUERY_FRAMES_MAX);
	if (query->call_site_count > STORE_PATH_MAX)
		return error_set(err, -EINVAL, "query: the call site has more than %u frames", STORE_PATH_MAX);
	bool any = query->frames_count || query->call_site_count;
	int r = any ? frame_names_new(symbolizer, query->symbols_wait_ns, &scan->names, err) : 0;
	for (size_t i = 0; !r && i < query->frames_count; i++) {
		r = frame_filter_new(&query->frames[i], scan->names, &scan->filters[i], err);
		if (!r) {
			scan->conditions[i] = frame_filter_condition(scan->filters[i]);
			scan->filter_count++;
		}
	}
	scan->path = (struct frame_path){.functions = query->call_site, .count = query->call_site_count, .names = scan->names};
	if (!r && query->call_site_count)
		scan->conditions[scan->filter_count] = frame_path_condition(&scan->path);
	return r;
}

int query_scan_init(struct query_scan *scan, struct symbolizer *symbolizer, const struct query *query, struct error *err)
{
	memset(scan, 0, sizeof(*scan));
	if (query->from_ns >= query->to_ns)
		return error_set(err, -EINVAL, "query: the time range is empty: 'from' is not before 'to'");
	int r = init_selector(scan, query, err);
	if (!r)
		r = init_filters(scan, symbolizer, query, err);
	if (r < 0)
		return r;
	scan->select = (struct store_select){.from_ns = query->from_ns,
					     .to_ns = query->to_ns,
					     .match_type = scan_match_type,
					     .context = scan,
					     .matchers = scan->matchers,
					     .matcher_count = scan->matcher_count,
					     .conditions = scan->conditions,
					     .condition_count = scan->filter_count + (scan->path.count > 0),
					     .links = scan->links,
					     .link_count = scan->link_count,
					     .numbers = scan->numbers,
					     .number_count = scan->number_count,
					     .samples_only = query->samples_only,
					     .average_gauges = !query->sum_gauges,
					     .cancel = query->cancel,
					     .deadline_ns = query->deadline_ns,
					     .rows_max = query->rows_max,
					     .stacks_max = query->stacks_max};
	return 0;
}

void query_scan_release(struct query_scan *scan)
{
	for (size_t i = 0; i < scan->filter_count; i++)
		frame_filter_free(scan->filters[i]);
	frame_names_free(scan->names);
	selector_free(scan->selector);
	memset(scan, 0, sizeof(*scan));
}

int query_scan_take_type(struct query_scan *scan, const struct profile_type *type, struct error *err)
{
	if (!scan->has_type) {
		scan->type = *type;
		scan->has_type = true;
		return 0;
	}
	struct profile_type same = *type;
	if (selector_takes_any_delta(scan->selector))
		same.delta = scan->type.delta;
	if (profile_type_equal(&scan->type, &same))
		return 0;
	scan->several_types = true;
	return error_set(err, -EINVAL, "query: the selector matches several profile types");
}

static int list_type(void *context, const struct store_item *item, struct error *err)
{
	struct profile_type *types = context;
	size_t i = 0;
	while (i < QUERY_TYPES_MAX && types[i].name[0] && !profile_type_equal(&types[i], item->type))
		i++;
	if (i < QUERY_TYPES_MAX)
		types[i] = *item->type;
	return 0;
}

static int list_types(const struct store_select *select, struct store *store, struct profile_type *types, size_t *ret_count,
		      struct error *err)
{
	struct store_read_stats stats = {0};
	int r = store_list_types(store, select, list_type, types, &stats, err);
	*ret_count = 0;
	while (r == 0 && *ret_count < QUERY_TYPES_MAX && types[*ret_count].name[0])
		++*ret_count;
	return r;
}

static int compare_types(const void *left, const void *right)
{
	char a[PROFILE_TYPE_TEXT_MAX], b[PROFILE_TYPE_TEXT_MAX];
	return strcmp(profile_type_format(left, a), profile_type_format(right, b));
}

/* Sorts the types: where they were found first depends on what is in memory yet. */
static int refuse(struct profile_type *types, size_t count, const char *what, struct error *err)
{
	sort_array(types, count, compare_types);
	_cleanup_(buffer_release) struct buffer list = {.max = SIZE_MAX}; /* the message is cut, and not the list */
	for (size_t i = 0; i < count; i++) {
		char type[PROFILE_TYPE_TEXT_MAX];
		buffer_printf(&list, "%s%s", i ? ", " : "", profile_type_format(&types[i], type));
	}
	const char *text = buffer_string(&list);
	return text ? error_set(err, -EINVAL, "query: %s: %s", what, text) : error_nomem(err);
}

/* Asks for the types, which reading did not get to know, because it ended at the second one. */
static int refuse_types(struct query_scan *scan, struct store *store, struct error *err)
{
	_cleanup_(mem_freep) struct profile_type *types = mem_zalloc_array(QUERY_TYPES_MAX, sizeof(*types));
	char what[80];
	size_t count;
	if (!types)
		return error_nomem(err);
	int r = list_types(&scan->select, store, types, &count, err);
	if (r < 0)
		return r;
	snprintf(what, sizeof(what), "the selector matches %zu profile types; put one of them before the '{'", count);
	return refuse(types, count, what, err);
}

static bool names_type(const struct selector *selector)
{
	bool names = selector->type.count > 0 || selector->type_beside.count > 0;
	for (size_t i = 0; i < selector->matcher_count; i++)
		names |= selector->matchers[i].type_label != TYPE_LABEL_NONE;
	return names;
}

/* Nothing was found. If the type is one that the store does not have at any time, that is a mistake, and not an answer. */
static int check_known(struct query_scan *scan, struct store *store, struct error *err)
{
	_cleanup_(mem_freep) struct profile_type *types = mem_zalloc_array(QUERY_TYPES_MAX, sizeof(*types));
	const struct store_select all = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	bool known = false;
	size_t count;
	if (!types)
		return error_nomem(err);
	int r = list_types(&all, store, types, &count, err);
	for (size_t i = 0; i < count; i++)
		known |= selector_matches_type(scan->selector, &types[i]);
	/* What is beyond the list may be it. */
	if (r < 0 || known || count == 0 || count == QUERY_TYPES_MAX)
		return r;
	return refuse(types, count, "unknown profile type; the server has", err);
}

/* ---- which of several types has data ---- */

struct probe {
	const struct profile_type *type;
	bool found;
};

static bool probe_type(void *context, const struct profile_type *type)
{
	const struct probe *probe = context;
	return profile_type_equal(probe->type, type);
}

/* One row is enough: ends the reading. */
static int probe_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	struct probe *probe = context;
	probe->found = true;
	return error_set(err, -ECANCELED, "found");
}

static int has_data(struct store *store, const struct store_select *select, const struct profile_type *type, bool *ret,
		    struct error *err)
{
	struct probe probe = {.type = type};
	struct store_select one = *select;
	struct store_read_stats stats;
	one.match_type = probe_type;
	one.context = &probe;
	one.average_gauges = false;
	int r = store_series(store, &one, NULL, 0, probe_point, &probe, &stats, err);
	*ret = probe.found;
	return probe.found ? 0 : r;
}

int query_only_type(struct store *store, const struct query *query, char ret[static PROFILE_TYPE_TEXT_MAX], struct error *err)
{
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(mem_freep) struct profile_type *types = mem_zalloc_array(QUERY_TYPES_MAX, sizeof(*types));
	struct query plain = *query;
	size_t count = 0, found = 0, at = 0;
	plain.frames_count = plain.call_site_count = 0;
	if (!types)
		return error_nomem(err);
	int r = query_scan_init(&scan, NULL, &plain, err);
	if (r == 0)
		r = list_types(&scan.select, store, types, &count, err);
	for (size_t i = 0; r == 0 && i < count && found < 2; i++) {
		bool has;
		r = has_data(store, &scan.select, &types[i], &has, err);
		if (has && found++ == 0)
			at = i;
	}
	if (r < 0 || found != 1)
		return r;
	profile_type_format(&types[at], ret);
	return 1;
}

static void add_stats(struct store_read_stats *to, const struct store_read_stats *from)
{
	store_read_stats_add(to, from);
	to->period = from->period > to->period ? from->period : to->period;
	if (from->partial && !to->partial)
		memcpy(to->why, from->why, sizeof(to->why));
	to->partial |= from->partial;
}

static int check_outcome(struct query_scan *scan, struct store *store, int r, struct error *err)
{
	if (scan->several_types)
		return refuse_types(scan, store, err);
	int check = selector_failure(scan->selector, err);
	for (size_t i = 0; !check && i < scan->filter_count; i++)
		check = frame_filter_failure(scan->filters[i], err);
	if (!check && scan->path.out_of_memory)
		check = error_nomem(err);
	if (check < 0 || r < 0)
		return check < 0 ? check : r;
	if (!scan->has_type && scan->must_know_type && !scan->read.partial && names_type(scan->selector))
		return check_known(scan, store, err);
	return r;
}

int query_check_type(struct store *store, const struct query *query, struct error *err)
{
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	struct query plain = *query;
	plain.frames_count = plain.call_site_count = 0;
	int r = query_scan_init(&scan, NULL, &plain, err);
	return r == 0 && names_type(scan.selector) ? check_known(&scan, store, err) : r;
}

int query_scan_finish(struct query_scan *scan, struct store *store, int r, struct query_stats *stats, int64_t since_ns,
		      struct error *err)
{
	r = check_outcome(scan, store, r, err);
	if (stats)
		add_stats(&stats->read, &scan->read);
	if (stats && since_ns)
		stats->read_ns += (uint64_t)(time_monotonic_ns() - since_ns);
	return r;
}
