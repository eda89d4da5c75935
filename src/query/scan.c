/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/order.h"
#include "base/time.h"
#include "query/query_int.h"

static int init_selector(struct query_scan *scan, const struct query *query, struct error *err)
{
	int r = selector_parse_query(query->selector ? query->selector : "", &scan->selector, err);
	if (!r && query->type && *query->type)
		r = selector_set_type(scan->selector, query->type, err);
	for (size_t i = 0; !r && i < query->where_count; i++)
		r = selector_add_matcher(scan->selector, &query->where[i], err);
	if (r < 0)
		return r;
	selector_prepare(scan->selector);
	for (size_t i = 0; i < scan->selector->matcher_count; i++) {
		const struct label_matcher *matcher = &scan->selector->matchers[i];
		if (matcher->is_link)
			scan->links[scan->link_count++] = (struct store_link_condition){.part = matcher->links.part,
											.negate = matcher->links.negate,
											.ids = matcher->links.ids,
											.count = matcher->links.count};
		if (matcher->is_number)
			scan->numbers[scan->number_count++] = matcher->number;
	}
	return 0;
}

static int init_frames(struct query_scan *scan, struct symbolizer *symbolizer, const struct query *query, struct error *err)
{
	if (query->frames_count > QUERY_FRAMES_MAX)
		return error_set(err, -EINVAL, "query: more than %d conditions on frames", QUERY_FRAMES_MAX);
	if (query->call_site_count > FRAME_PATH_MAX)
		return error_set(err, -EINVAL, "query: the call site has more than %u frames", FRAME_PATH_MAX);
	bool any = query->frames_count || query->call_site_count;
	int r = any ? frame_names_new(symbolizer, query->symbols_wait_ns, query->hide_addresses, &scan->names, err) : 0;
	for (size_t i = 0; !r && i < query->frames_count; i++) {
		r = query_frames_check(&query->frames[i], err);
		if (!r)
			scan->conditions[i] = query_frames_condition(&query->frames[i], scan->tests[i]);
	}
	return r;
}

int query_scan_init(struct query_scan *scan, struct symbolizer *symbolizer, const struct query *query, struct error *err)
{
	memset(scan, 0, sizeof(*scan));
	if (query->from_ns >= query->to_ns)
		return error_set(err, -EINVAL, "query: the time range is empty: 'from' is not before 'to'");
	int r = init_selector(scan, query, err);
	if (!r)
		r = init_frames(scan, symbolizer, query, err);
	if (r < 0)
		return r;
	scan->select = (struct store_select){.from_ns = query->from_ns,
					     .to_ns = query->to_ns,
					     .series = scan->selector->series,
					     .conditions = scan->conditions,
					     .condition_count = query->frames_count,
					     .call_site = query->call_site,
					     .call_site_count = query->call_site_count,
					     .symbols = scan->names ? frame_names_symbols(scan->names) : NULL,
					     .links = scan->links,
					     .link_count = scan->link_count,
					     .numbers = scan->numbers,
					     .number_count = scan->number_count,
					     .samples_only = query->samples_only,
					     .average_gauges = !query->sum_gauges,
					     .cancel = query->cancel,
					     .deadline_ns = query->deadline_ns,
					     .rows_max = query->rows_max,
					     .stacks_max = query->stacks_max,
					     .whole = query->whole,
					     .stack_bytes = query->stack_bytes};
	return 0;
}

void query_scan_release(struct query_scan *scan)
{
	host_join_free(scan->join);
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

struct type_list {
	const struct store_select *select;
	struct profile_type *types;
	bool *certain; /* by type: it has data in the range; NULL = not asked */
};

/* The first and the last of what has the type are samples. */
static bool is_certain(const struct store_select *select, const struct store_item *item)
{
	bool first = item->first_ns >= select->from_ns && item->first_ns < select->to_ns;
	bool last = item->last_ns >= select->from_ns && item->last_ns < select->to_ns;
	return (first || last) && !select->link_count && !select->number_count;
}

static int list_type(void *context, const struct store_item *item, struct error *err)
{
	struct type_list *list = context;
	struct profile_type *types = list->types;
	size_t i = 0;
	while (i < QUERY_TYPES_MAX && types[i].name[0] && !profile_type_equal(&types[i], item->type))
		i++;
	if (i == QUERY_TYPES_MAX)
		return 0;
	types[i] = *item->type;
	if (list->certain && is_certain(list->select, item))
		list->certain[i] = true;
	return 0;
}

/* ret_certain: room for QUERY_TYPES_MAX, zeroed; or NULL. */
static int list_types(const struct store_select *select, struct store *store, struct profile_type *types, bool *ret_certain,
		      size_t *ret_count, struct error *err)
{
	struct store_read_stats stats = {0};
	struct type_list list = {select, types, ret_certain};
	int r = store_list_types(store, select, list_type, &list, &stats, err);
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
	int r = list_types(&scan->select, store, types, NULL, &count, err);
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

static int note_any(void *context, const struct store_item *item, struct error *err)
{
	*(bool *)context = true;
	return 0;
}

/* Whether the store has a type that the selector lets pass, at any time. */
static int is_known(struct query_scan *scan, struct store *store, bool *ret, struct error *err)
{
	const struct series_conditions *all = &scan->selector->series;
	struct label_condition labels[QUERY_MATCHERS_MAX];
	struct store_select select = {.from_ns = INT64_MIN,
				      .to_ns = INT64_MAX,
				      .series = {.types = all->types, .type_count = all->type_count, .labels = labels}};
	struct store_read_stats stats;
	for (size_t i = 0; i < all->label_count && select.series.label_count < QUERY_MATCHERS_MAX; i++)
		if (type_label_of(all->labels[i].label) != TYPE_LABEL_NONE)
			labels[select.series.label_count++] = all->labels[i];
	*ret = false;
	return store_list_types(store, &select, note_any, ret, &stats, err);
}

/* Nothing was found. If the type is one that the store does not have at any time, that is a mistake, and not an answer. */
static int check_known(struct query_scan *scan, struct store *store, struct error *err)
{
	_cleanup_(mem_freep) struct profile_type *types = mem_zalloc_array(QUERY_TYPES_MAX, sizeof(*types));
	const struct store_select all = {.from_ns = INT64_MIN, .to_ns = INT64_MAX};
	bool known = false;
	size_t count = 0;
	if (!types)
		return error_nomem(err);
	int r = is_known(scan, store, &known, err);
	if (r == 0 && !known)
		r = list_types(&all, store, types, NULL, &count, err);
	return r < 0 || known || count == 0 ? r : refuse(types, count, "unknown profile type; the server has", err);
}

/* ---- which of several types has data ---- */

/* One row is enough: ends the reading. */
static int probe_point(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err)
{
	*(bool *)context = true;
	return error_set(err, -ECANCELED, "found");
}

static int has_data(struct store *store, const struct store_select *select, const struct profile_type *type, bool *ret,
		    struct error *err)
{
	struct type_condition types[3];
	struct store_select one = *select;
	struct store_read_stats stats;
	for (size_t i = 0; i < select->series.type_count; i++)
		types[i] = select->series.types[i];
	types[one.series.type_count++] = type_condition_of(type);
	one.series.types = types;
	one.average_gauges = false;
	*ret = false;
	int r = store_series(store, &one, NULL, 0, probe_point, ret, &stats, err);
	return *ret ? 0 : r;
}

int query_only_type(struct store *store, const struct query *query, char ret[static PROFILE_TYPE_TEXT_MAX], struct error *err)
{
	_cleanup_(query_scan_release) struct query_scan scan = {0};
	_cleanup_(mem_freep) struct profile_type *types = mem_zalloc_array(QUERY_TYPES_MAX, sizeof(*types));
	struct query plain = *query;
	bool certain[QUERY_TYPES_MAX] = {false};
	size_t count = 0, found = 0, at = 0;
	plain.frames_count = plain.call_site_count = 0;
	if (!types)
		return error_nomem(err);
	int r = query_scan_init(&scan, NULL, &plain, err);
	if (r == 0)
		r = query_scan_join(&scan, store, NULL, 0, err);
	if (r == 0)
		r = list_types(&scan.select, store, types, certain, &count, err);
	for (size_t i = 0; r == 0 && i < count; i++)
		if (certain[i] && found++ == 0)
			at = i;
	/* Only what lies around the range is read. */
	for (size_t i = 0; r == 0 && i < count && found < 2; i++) {
		bool has = false;
		if (!certain[i])
			r = has_data(store, &scan.select, &types[i], &has, err);
		if (has && found++ == 0)
			at = i;
	}
	if (r < 0 || found != 1)
		return r;
	profile_type_format(&types[at], ret);
	return 1;
}

static int check_outcome(struct query_scan *scan, struct store *store, int r, struct error *err)
{
	if (scan->several_types)
		return refuse_types(scan, store, err);
	if (r < 0)
		return r;
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
		store_read_stats_unite(&stats->read, &scan->read);
	if (stats && since_ns)
		stats->read_ns += (uint64_t)(time_monotonic_ns() - since_ns);
	return r;
}
