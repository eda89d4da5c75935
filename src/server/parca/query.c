/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parca's query service (github.com/parca-dev/parca, proto/parca/query/v1alpha1/query.proto), which Parca's page and Grafana's
 * Parca data source ask:
 *
 *   ProfileTypes    1 start  2 end                      ->  1 types { 1 name 2 sample_type 3 sample_unit 4 period_type
 *                                                            5 period_unit 6 delta }
 *   Labels          1 match*  2 start  3 end  4 profile_type                  ->  1 label_names*
 *   Values          1 label_name  2 match*  3 start  4 end  5 profile_type    ->  1 label_values*
 *   QueryRange      parca/range.c
 *   Query           1 mode  2 diff { 1 a  2 b  3 absolute }  3 merge { 1 query 2 start 3 end }  4 single { 1 time 2 query }
 *                   5 report_type  6 filter_query  7 node_trim_threshold  8 group_by { 1 fields* }
 *                   9 source_reference { 1 build_id  2 filename  3 source_only }  10 runtime_filter
 *                   11 invert_call_stack  12 filter*  13 sandwich_by_function
 *                   a, b: 1 mode (1 = merge)  2 merge  3 single
 *                   ->  a report (parca/report.c);  9 total  10 filtered
 *   ShareProfile    parca/share.c
 *   HasProfileData  ->  1 has_data
 *
 * Times are google.protobuf.Timestamp { 1 seconds 2 nanos }. filter_query is what older clients have for one stack filter;
 * runtime_filter is of older ones still: as in Parca's server, it changes nothing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "codec/protobuf.h"
#include "server/parca/parca_int.h"

#define LIST_MAX    64
#define MODE_SINGLE 0
#define MODE_DIFF   1
#define MODE_MERGE  2

/* ---- requests ---- */

#define IN(member) offsetof(struct parca_request, member)
#define OF(member) offsetof(struct parca_selection, member)

/* MergeProfile, SingleProfile; ProfileDiffSelection; DiffProfile; GroupBy; SourceReference */
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
static const struct rpc_member source_members[] = {
	{"buildId", IN(source.build_id)}, {"filename", IN(source.file)}, {"sourceOnly", IN(source.is_question)}, {0}};

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
	{"filterQuery", IN(function_filter)},
	{"nodeTrimThreshold", IN(threshold)},
	{"merge", IN(selection), RPC_WITHIN, selection_members},
	{"merge", IN(selection.given), RPC_GIVEN},
	{"single", IN(selection), RPC_WITHIN, selection_members},
	{"single", IN(selection.given), RPC_GIVEN},
	{"diff", 0, RPC_WITHIN, diff_members},
	{"groupBy", 0, RPC_WITHIN, group_members},
	{"sourceReference", 0, RPC_WITHIN, source_members},
	{"sourceReference", IN(source.given), RPC_GIVEN},
	{"invertCallStack", IN(filters.invert)},
	{"sandwichByFunction", IN(filters.sandwich)},
	{"id", IN(id)},
	{"description", IN(description)},
	{"profile", IN(profile), RPC_BYTES},
	{"queryRequest", IN(query_request), RPC_BYTES},
	{"state", IN(state)},
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
int parca_parse(struct parca *p, struct bytes message, const struct pb_json_message *form, struct parca_request *ret,
		struct error *err)
{
	const struct rpc_reader reader = {members, &p->call.arena, LIST_MAX};
	*ret = (struct parca_request){.type = "",
				      .name = "",
				      .query = "",
				      .function_filter = "",
				      .selection.query = "",
				      .base.query = "",
				      .source = {.build_id = "", .file = ""},
				      .filters.sandwich = "",
				      .id = "",
				      .description = "",
				      .message = message};
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

int parca_run(struct rpc_call *call, struct bytes request, parca_answer answer, struct buffer *out, struct error *err)
{
	struct parca p = {.out = out};
	_cleanup_(mem_freep) struct parca_request *in = mem_zalloc(sizeof(*in));
	int r = pyroscope_init(&p.call, call->server, call->request, call->response, call->timeout_ns, err);
	if (!r && !in)
		r = error_nomem(err);
	if (!r)
		r = parca_parse(&p, request, call->method->request, in, err);
	if (!r)
		r = answer(&p, in, err);
	if (r < 0 && p.call.unimplemented)
		call->code = GRPC_UNIMPLEMENTED;
	return pyroscope_finish(&p.call, r, err);
}

/* ---- names ---- */

int parca_write_type(struct buffer *out, uint32_t field, const struct profile_type *type)
{
	const char *parts[] = {type->name, type->sample_type, type->sample_unit, type->period_type, type->period_unit};
	size_t mark;
	pb_begin(out, field, &mark);
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
			r = parca_write_type(p->out, 1, &type);
	}
	return rpc_too_large(r, err);
}
PARCA_HANDLER(types)

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
PARCA_HANDLER(labels)

static int answer_values(struct parca *p, struct parca_request *in, struct error *err)
{
	return *in->name ? answer_labels(p, in, err) : error_set(err, -EINVAL, "label_name is missing");
}
PARCA_HANDLER(values)

static int answer_has_data(struct parca *p, struct parca_request *in, struct error *err)
{
	struct store_stats stats;
	store_get_stats(p->call.tenant->store, &stats);
	return rpc_too_large(pb_put_varint(p->out, 1, stats.newest_ns != 0), err);
}
PARCA_HANDLER(has_data)

/* ---- profiles ---- */

static int take_label(struct parca_request *in, const char *name, struct error *err)
{
	for (size_t i = 0; i < in->label_count; i++)
		if (strcmp(in->labels[i], name) == 0)
			return 0;
	if (in->label_count == STORE_GROUP_BY_MAX)
		return error_set(err, -EINVAL, "group_by has more than %d labels", STORE_GROUP_BY_MAX);
	in->labels[in->label_count++] = name;
	return 0;
}

/* By function is what all reports are. */
static int take_groups(struct parca_request *in, struct error *err)
{
	static const char prefix[] = "labels.";
	int r = 0;
	for (size_t i = 0; !r && i < in->groups.count; i++) {
		const char *field = in->groups.items[i];
		if (text_starts_with(field, prefix) && field[sizeof(prefix) - 1])
			r = take_label(in, field + sizeof(prefix) - 1, err);
		else if (strcmp(field, "mapping_file") == 0)
			in->by_mapping = true;
		else if (strcmp(field, "location_address") == 0)
			in->by_address = true;
		else if (strcmp(field, "function_file_name") == 0)
			in->by_file = true;
		else if (strcmp(field, "timestamp") == 0)
			in->by_time = true;
		else if (strcmp(field, "function_name") != 0)
			r = error_set(err, -EINVAL, "invalid group by field: %.100s", field);
	}
	return r;
}

int parca_prepare(struct parca_request *in, uint32_t filter_field, struct error *err)
{
	int r = take_groups(in, err);
	if (!r)
		r = parca_filters_read(in->message, filter_field, &in->filters, err);
	if (!r && *in->function_filter)
		r = parca_filters_add_function(&in->filters, in->function_filter, err);
	in->by_time |= in->report == PARCA_FLAMECHART;
	if (!(in->threshold > 0 && in->threshold <= 100))
		in->threshold = 0;
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

#define FILTER_FIELD 12
int parca_check_query(struct parca_request *in, struct error *err)
{
	int r = parca_prepare(in, FILTER_FIELD, err);
	if (!r && in->mode > MODE_MERGE)
		r = error_set(err, -EINVAL, "unknown query mode");
	if (!r)
		r = check_selection(&in->selection, in->mode == MODE_DIFF ? "diff.b" : "the selection", err);
	in->is_diff = in->mode == MODE_DIFF;
	if (!r && in->is_diff)
		r = check_selection(&in->base, "diff.a", err);
	if (!r && in->is_diff && in->by_time)
		r = error_set(err, -EINVAL, "a comparison cannot be grouped by time");
	return r;
}

static int answer_query(struct parca *p, struct parca_request *in, struct error *err)
{
	int r = parca_check_query(in, err);
	return r < 0 ? r : parca_report(p, in, err);
}
PARCA_HANDLER(query)

static int handle_query_range(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)
{
	return parca_run(call, request, parca_answer_query_range, out, err);
}

#define SERVICE	  "/parca.query.v1alpha1.QueryService/"
#define SLOW_READ (RPC_SLOW | RPC_READ_ONLY)
const struct rpc_method rpc_parca_query[] = {
	PARCA_METHOD(SERVICE "ProfileTypes", PERMIT_READ, &parca_types_request, &parca_types_answer, handle_types, SLOW_READ),
	PARCA_METHOD(SERVICE "Labels", PERMIT_READ, &parca_labels_request, &parca_labels_answer, handle_labels, SLOW_READ),
	PARCA_METHOD(SERVICE "Values", PERMIT_READ, &parca_values_request, &parca_values_answer, handle_values, SLOW_READ),
	PARCA_METHOD(SERVICE "QueryRange", PERMIT_READ, &parca_range_request, &parca_range_answer, handle_query_range,
		     SLOW_READ),
	PARCA_METHOD(SERVICE "Query", PERMIT_READ, &parca_query_request, &parca_query_answer, handle_query, SLOW_READ),
	PARCA_METHOD(SERVICE "ShareProfile", PERMIT_RECORD, &parca_share_profile_request, &parca_share_profile_answer,
		     parca_share_profile, RPC_SLOW),
	PARCA_METHOD(SERVICE "HasProfileData", PERMIT_READ, &parca_empty, &parca_has_data_answer, handle_has_data,
		     RPC_READ_ONLY),
	{0},
};
