/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's query service (github.com/parca-dev/parca, proto/parca/query/v1alpha1/query.proto), which Grafana's Parca data source
 * asks:
 *
 *   ProfileTypes    1 start  2 end                      ->  1 types { 1 name 2 sample_type 3 sample_unit 4 period_type
 *                                                            5 period_unit 6 delta }
 *   Labels          1 match*  2 start  3 end  4 profile_type                  ->  1 label_names*
 *   Values          1 label_name  2 match*  3 start  4 end  5 profile_type    ->  1 label_values*
 *   QueryRange      1 query  2 start  3 end  4 limit  5 step  6 sum_by*
 *                   ->  1 series { 1 labelset { 1 labels { 1 name 2 value } }
 *                                  2 samples { 1 timestamp 2 value 3 value_per_second 4 duration }
 *                                  3 period_type  4 sample_type }
 *   Query           1 mode  2 diff { 1 a  2 b  3 absolute }  3 merge { 1 query 2 start 3 end }  4 single { 1 time 2 query }
 *                   5 report_type  7 node_trim_threshold  8 group_by { 1 fields* }
 *                   a, b: 1 mode (1 = merge)  2 merge  3 single
 *                   ->  5 flamegraph, 6 pprof, 7 top or 11 flamegraph_arrow;  9 total
 *   HasProfileData  ->  1 has_data
 *
 * Times are google.protobuf.Timestamp { 1 seconds 2 nanos }. What a request has that is not listed here changes the answer, so
 * it is refused and not ignored. Reports are in parca/report.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "codec/protobuf.h"
#include "server/parca/parca_int.h"

#define ROWS_MAX     1000
#define POINTS_LEAST 100
#define POINTS_MOST  11000
#define STEP_LEAST_S 10
#define LIST_MAX     64
#define MODE_SINGLE  0
#define MODE_DIFF    1
#define MODE_MERGE   2

/* ---- requests ---- */

#define IN(member) offsetof(struct parca_request, member)
#define OF(member) offsetof(struct parca_selection, member)

/* MergeProfile, SingleProfile; ProfileDiffSelection; DiffProfile; GroupBy */
static const struct rpc_member selection_members[] = {
	{"query", OF(query)}, {"start", OF(from_ns)}, {"end", OF(to_ns)}, {"time", OF(time_ns)}, {0}};
static const struct rpc_member side_members[] = {{"merge", 0, RPC_WITHIN, selection_members},
						 {"merge", OF(given), RPC_GIVEN},
						 {"single", 0, RPC_WITHIN, selection_members},
						 {"single", OF(given), RPC_GIVEN},
						 {0}};
static const struct rpc_member diff_members[] = {{"a", IN(base), RPC_WITHIN, side_members},
						 {"b", IN(selection), RPC_WITHIN, side_members},
						 {"absolute", IN(absolute)},
						 {0}};
static const struct rpc_member group_members[] = {{"fields", IN(groups), RPC_LIST}, {0}};

static const struct rpc_member members[] = {
	{"start", IN(start_ns)},
	{"end", IN(end_ns)},
	{"step", IN(step_ns)},
	{"limit", IN(limit)},
	{"profileType", IN(type)},
	{"labelName", IN(name)},
	{"query", IN(query)},
	{"match", IN(list), RPC_LIST},
	{"sumBy", IN(list), RPC_LIST},
	{"mode", IN(mode)},
	{"reportType", IN(report)},
	{"nodeTrimThreshold", IN(threshold)},
	{"merge", IN(selection), RPC_WITHIN, selection_members},
	{"merge", IN(selection.given), RPC_GIVEN},
	{"single", IN(selection), RPC_WITHIN, selection_members},
	{"single", IN(selection.given), RPC_GIVEN},
	{"diff", 0, RPC_WITHIN, diff_members},
	{"groupBy", 0, RPC_WITHIN, group_members},
	{0},
};

/* A single profile is that of a time, to the millisecond. */
static void set_single(struct parca_selection *selection)
{
	if (!selection->time_ns)
		return;
	selection->from_ns = selection->time_ns;
	selection->to_ns = selection->time_ns + NS_PER_MS - 1;
}

/* Also sets the range and the type of the query. */
static int parse(struct parca *p, struct bytes message, const struct pb_json_message *form, struct parca_request *ret,
		 struct error *err)
{
	const struct rpc_reader reader = {members, &p->call.arena, LIST_MAX};
	*ret = (struct parca_request){
		.type = "", .name = "", .query = "", .selection.query = "", .base.query = "", .message = message};
	int r = rpc_read(&reader, message, form, ret, err);
	if (!r && ret->end_ns && ret->start_ns > ret->end_ns)
		r = error_set(err, -EINVAL, "start timestamp must be before end");
	/* Without times all of time is meant: what asks so is answered from indexes. */
	p->call.query.from_ns = ret->start_ns;
	p->call.query.to_ns = ret->end_ns ? ret->end_ns + 1 : time_now_ns() + STORE_FUTURE_NS;
	p->call.query.type = *ret->type ? ret->type : NULL;
	set_single(&ret->selection);
	set_single(&ret->base);
	return r;
}

/* ---- a call ---- */

static int run(struct rpc_call *call, struct bytes request,
	       int (*answer)(struct parca *, struct parca_request *, struct error *), struct buffer *out, struct error *err)
{
	struct parca p = {.out = out};
	struct parca_request in;
	int r = pyroscope_init(&p.call, call->server, call->request, call->response, call->timeout_ns, err);
	if (!r)
		r = parse(&p, request, call->method->request, &in, err);
	if (!r)
		r = answer(&p, &in, err);
	if (r < 0 && p.call.unimplemented)
		call->code = GRPC_UNIMPLEMENTED;
	pyroscope_finish(&p.call, r, err);
	return r;
}

#define HANDLER(name)                                                                                                          \
	static int handle_##name(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)           \
	{                                                                                                                      \
		return run(call, request, answer_##name, out, err);                                                            \
	}

/* ---- names ---- */

static int write_type(struct buffer *out, const struct profile_type *type)
{
	const char *parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	size_t mark;
	pb_begin(out, 1, &mark);
	for (uint32_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		pb_put_string(out, i + 1, parts[i]);
	pb_put_varint(out, 6, type->delta);
	return pb_end(out, mark);
}

static int answer_types(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(query_names_release) struct query_names types = {0};
	int r = query_types(p->call.tenant->store, &p->call.query, &types, &p->call.stats, err);
	if (r < 0)
		return r;
	for (size_t i = 0; !r && i < types.count; i++) {
		struct profile_type type;
		r = profile_type_parse(types.items[i].name, &type, NULL);
		if (!r)
			r = write_type(p->out, &type);
	}
	return rpc_too_large(r, err);
}
HANDLER(types)

/* The names that any of the matchers leaves, without doubles, sorted. */
static int find_names(struct parca *p, const struct parca_request *in, struct pyroscope_names *ret, struct error *err)
{
	struct query *query = &p->call.query;
	size_t lists = in->list.count ? in->list.count : 1;
	int r = pyroscope_names_init(ret, err);
	for (size_t i = 0; !r && i < lists; i++) {
		_cleanup_(query_names_release) struct query_names found = {0};
		query->selector = in->list.count ? in->list.items[i] : "";
		r = *in->name ? query_label_values(p->call.tenant->store, query, in->name, "", 0, &found, &p->call.stats, err)
			      : query_label_names(p->call.tenant->store, query, &found, &p->call.stats, err);
		for (size_t k = 0; !r && k < found.count; k++)
			r = pyroscope_names_add(ret, found.items[k].name, err);
	}
	return r < 0 ? r : pyroscope_names_finish(ret, err);
}

static int answer_labels(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(pyroscope_names_release) struct pyroscope_names names = {0};
	int r = find_names(p, in, &names, err);
	return r < 0 ? r : pyroscope_write_names(&names, p->out, err);
}
HANDLER(labels)

static int answer_values(struct parca *p, struct parca_request *in, struct error *err)
{
	return *in->name ? answer_labels(p, in, err) : error_set(err, -EINVAL, "label_name is missing");
}
HANDLER(values)

static int answer_has_data(struct parca *p, struct parca_request *in, struct error *err)
{
	struct store_stats stats;
	store_get_stats(p->call.tenant->store, &stats);
	return rpc_too_large(pb_put_varint(p->out, 1, stats.newest_ns != 0), err);
}
HANDLER(has_data)

/* ---- values over time ---- */

static int write_time(struct buffer *out, uint32_t field, int64_t ns)
{
	size_t mark;
	pb_begin(out, field, &mark);
	pb_put_varint(out, 1, (uint64_t)(ns / NS_PER_S));
	pb_put_varint(out, 2, (uint64_t)(ns % NS_PER_S));
	return pb_end(out, mark);
}

static int write_value_type(struct buffer *out, uint32_t field, const char *type, const char *unit)
{
	size_t mark;
	pb_begin(out, field, &mark);
	pb_put_string(out, 1, type);
	pb_put_string(out, 2, unit);
	return pb_end(out, mark);
}

static int write_labels(struct buffer *out, const struct query_series_row *row)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	pyroscope_write_labels(out, &row->labels);
	if (row->others)
		pyroscope_write_label(out, "__others__", "true");
	return pb_end(out, mark);
}

/* A gauge is no amount per second, and of no duration. */
static int write_point(struct buffer *out, const struct query_series *series, const struct query_point *point)
{
	bool gauge = profile_type_is_gauge(&series->type);
	size_t mark;
	pb_begin(out, 2, &mark);
	write_time(out, 1, point->time_ns);
	pb_put_varint(out, 2, (uint64_t)point->value);
	pb_put_double(out, 3, gauge ? (double)point->value : (double)point->value * (double)NS_PER_S / (double)series->step_ns);
	pb_put_varint(out, 4, gauge ? 0 : (uint64_t)series->step_ns);
	return pb_end(out, mark);
}

static int write_series(struct buffer *out, const struct query_series *series, const struct query_series_row *row)
{
	size_t mark;
	pb_begin(out, 1, &mark);
	write_labels(out, row);
	for (size_t i = 0; i < row->point_count; i++)
		write_point(out, series, &row->points[i]);
	write_value_type(out, 3, series->type.period_type, series->type.period_unit);
	write_value_type(out, 4, series->type.sample_type, series->type.sample_unit);
	return pb_end(out, mark);
}

/* A step that a person would choose, for at most `limit` points. */
static int64_t choose_step(int64_t range_ns, uint64_t limit)
{
	static const int steps_s[] = {10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400};
	limit = limit < POINTS_LEAST ? POINTS_LEAST : limit > POINTS_MOST ? POINTS_MOST : limit;
	int64_t least = range_ns / NS_PER_S / (int64_t)limit;
	for (size_t i = 0; i < sizeof(steps_s) / sizeof(*steps_s); i++)
		if (steps_s[i] >= least)
			return steps_s[i] * NS_PER_S;
	return (least / 86400 + 1) * 86400 * NS_PER_S;
}

static int answer_query_range(struct parca *p, struct parca_request *in, struct error *err)
{
	_cleanup_(query_series_release) struct query_series series = {0};
	if (!in->start_ns || !in->end_ns)
		return error_set(err, -EINVAL, "start and end are required");
	query_round_range(&p->call.query.from_ns, &p->call.query.to_ns);
	p->call.query.selector = in->query;
	p->call.query.sum_gauges = false; /* docs/ingest.md */
	struct query_series_options options = {
		.step_ns = in->step_ns ? in->step_ns
				       : choose_step(in->end_ns - in->start_ns, in->limit ? in->limit : POINTS_LEAST),
		.by = in->list.items,
		.by_count = in->list.count,
		.each = in->list.count == 0,
		.limit = ROWS_MAX,
		.others = true};
	if (options.step_ns < NS_PER_MS)
		return error_set(err, -EINVAL, "the step is shorter than 1ms");
	int r = query_series(p->call.tenant->store, p->call.server->symbolizer, &p->call.query, &options, &series,
			     &p->call.stats, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < series.count; i++)
		write_series(p->out, &series, &series.rows[i]);
	return rpc_too_large(buffer_status(p->out), err);
}
HANDLER(query_range)

/* ---- profiles ---- */

/* By function is what all reports are. */
static int check_groups(struct parca *p, const struct rpc_list *groups, struct error *err)
{
	for (size_t i = 0; i < groups->count; i++) {
		if (strcmp(groups->items[i], "function_name") == 0)
			continue;
		p->call.unimplemented = true;
		return error_set(err, -EINVAL, "group_by '%.100s' is not supported, only function_name", groups->items[i]);
	}
	return 0;
}

static int check_fields(struct parca *p, struct bytes request, struct error *err)
{
	static const char *const names[] = {
		[6] = "filter_query",	    [9] = "source_reference", [10] = "runtime_filter",
		[11] = "invert_call_stack", [12] = "filter",	      [13] = "sandwich_by_function"};
	struct pb_field field;
	struct pb_cursor cursor = pb_open(request);
	int r;
	while ((r = pb_next(&cursor, &field, err)) > 0) {
		bool asked = field.wire == PB_BYTES ? field.bytes.len > 0 : field.value != 0;
		if (!asked || field.number >= sizeof(names) / sizeof(*names) || !names[field.number])
			continue;
		p->call.unimplemented = true;
		return error_set(err, -EINVAL, "%s is not supported", names[field.number]);
	}
	return r;
}

static int check_selection(const struct parca_selection *selection, const char *what, struct error *err)
{
	if (!selection->given)
		return error_set(err, -EINVAL, "%s is missing", what);
	if (!selection->from_ns || !selection->to_ns || selection->from_ns > selection->to_ns)
		return error_set(err, -EINVAL, "%s: start and end are required, and start must be before end", what);
	return 0;
}

static int answer_query(struct parca *p, struct parca_request *in, struct error *err)
{
	int r = check_fields(p, in->message, err);
	if (!r)
		r = check_groups(p, &in->groups, err);
	if (!r && in->mode > MODE_MERGE)
		r = error_set(err, -EINVAL, "unknown query mode");
	if (!r)
		r = check_selection(&in->selection, in->mode == MODE_DIFF ? "diff.b" : "the selection", err);
	in->is_diff = in->mode == MODE_DIFF;
	if (!r && in->is_diff)
		r = check_selection(&in->base, "diff.a", err);
	if (!(in->threshold > 0 && in->threshold <= 100))
		in->threshold = 0;
	return r < 0 ? r : parca_report(p, in, err);
}
HANDLER(query)

#define SERVICE	  "/parca.query.v1alpha1.QueryService/"
#define SLOW_READ (RPC_SLOW | RPC_READ_ONLY)
const struct rpc_method rpc_parca_query[] = {
	{SERVICE "ProfileTypes", &parca_types_request, &parca_types_answer, handle_types, SLOW_READ},
	{SERVICE "Labels", &parca_labels_request, &parca_labels_answer, handle_labels, SLOW_READ},
	{SERVICE "Values", &parca_values_request, &parca_values_answer, handle_values, SLOW_READ},
	{SERVICE "QueryRange", &parca_range_request, &parca_range_answer, handle_query_range, SLOW_READ},
	{SERVICE "Query", &parca_query_request, &parca_query_answer, handle_query, SLOW_READ},
	{SERVICE "HasProfileData", &parca_empty, &parca_has_data_answer, handle_has_data, RPC_READ_ONLY},
	{0},
};
