/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
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
		scan->matchers[scan->matcher_count++] = (struct store_matcher){
			.label = matcher->name, .matches = scan_match_value, .context = &matcher->pattern};
	}
	return 0;
}

static int init_filters(struct query_scan *scan, struct symbolizer *symbolizer, const struct query *query, struct error *err)
{
	if (query->frames_count > QUERY_FRAMES_MAX)
		return error_set(err, -EINVAL, "query: more than %d conditions on frames", QUERY_FRAMES_MAX);
	int r = query->frames_count ? frame_names_new(symbolizer, query->symbols_wait_ns, &scan->names, err) : 0;
	for (size_t i = 0; !r && i < query->frames_count; i++) {
		r = frame_filter_new(&query->frames[i], scan->names, &scan->filters[i], err);
		if (!r) {
			scan->conditions[i] = frame_filter_condition(scan->filters[i]);
			scan->filter_count++;
		}
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
					     .condition_count = scan->filter_count,
					     .links = scan->links,
					     .link_count = scan->link_count,
					     .samples_only = query->samples_only,
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

/* Asks for the types, which reading did not get to know, because it ended at the second one. */
static int refuse_types(struct query_scan *scan, struct store *store, struct error *err)
{
	_cleanup_(mem_freep) struct profile_type *types = mem_zalloc_array(QUERY_TYPES_MAX, sizeof(*types));
	_cleanup_(buffer_release) struct buffer list = {0};
	buffer_init(&list, ERROR_MESSAGE_MAX);
	struct store_read_stats stats = {0};
	if (!types)
		return error_nomem(err);
	int r = store_list_types(store, &scan->select, list_type, types, &stats, err);
	if (r < 0)
		return r;
	size_t count = 0;
	for (; count < QUERY_TYPES_MAX && types[count].name[0]; count++) {
		char text[PROFILE_TYPE_TEXT_MAX];
		if (buffer_printf(&list, "%s%s", count ? ", " : "", profile_type_format(&types[count], text)) < 0)
			break;
	}
	return error_set(err, -EINVAL, "query: the selector matches %zu profile types; put one of them before the '{': %s",
			 count, buffer_string(&list));
}

static void add_stats(struct store_read_stats *to, const struct store_read_stats *from)
{
	uint64_t *sums[] = {&to->blocks,	&to->blocks_skipped, &to->from_samples,	  &to->from_rollups,
			    &to->from_totals,	&to->groups,	     &to->groups_skipped, &to->pages,
			    &to->pages_skipped, &to->series,	     &to->rows,		  &to->bytes,
			    &to->cache_hits,	&to->cache_misses,   &to->head_rows,	  &to->stacks};
	const uint64_t more[] = {from->blocks,	      from->blocks_skipped, from->from_samples,	  from->from_rollups,
				 from->from_totals,   from->groups,	    from->groups_skipped, from->pages,
				 from->pages_skipped, from->series,	    from->rows,		  from->bytes,
				 from->cache_hits,    from->cache_misses,   from->head_rows,	  from->stacks};
	for (size_t i = 0; i < sizeof(sums) / sizeof(*sums); i++)
		*sums[i] += more[i];
	to->period = from->period > to->period ? from->period : to->period;
	for (size_t i = 0; i < STORE_PHASES; i++)
		to->phase_ns[i] += from->phase_ns[i];
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
	return check < 0 ? check : r;
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
