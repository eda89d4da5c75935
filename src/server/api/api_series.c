/* SPDX-License-Identifier: Apache-2.0 */
/* Values over time. */
#include <errno.h>

#include "base/time.h"
#include "server/api/api_int.h"

struct series_request {
	struct query_series_options options;
	const char *by[STORE_GROUP_BY_MAX], *step;
	bool is_table;
	enum tabular_format format;
};

static int write_json(struct call *call, const struct query_series *series, const struct query_explain *explain,
		      struct error *err)
{
	char type[PROFILE_TYPE_TEXT_MAX] = "", unit[QUERY_UNIT_MAX];
	struct json_writer json = call_json(call);
	json_begin_object(&json);
	json_member_cstring(&json, "type", series->type.name[0] ? profile_type_format(&series->type, type) : "");
	json_member_cstring(&json, "unit", series->rate ? query_series_unit(series, unit) : series->type.sample_unit);
	if (series->period > 0)
		json_member_int(&json, "period", series->period);
	json_member_int(&json, "step_ms", series->step_ns / NS_PER_MS);
	call_write_range(call, &json);
	json_member_uint(&json, "total_series", series->count_before_limit);
	call_write_partial(call, explain, &json);
	query_series_json(series, &json);
	json_end_object(&json);
	return json_finish(&json, err);
}

/* As a result: a view, nothing of it is owned. `limit` has been used: these are the groups that were asked for. */
static int write_series(struct call *call, const struct series_request *request, const struct query_series *series,
			const struct query_explain *explain, struct error *err)
{
	if (!request->is_table)
		return write_json(call, series, explain, err);
	struct query_result result = {.kind = QUERY_SERIES, .type = series->type, .rate = series->rate, .series = *series};
	if (explain)
		result.explain = *explain;
	return call_write_table(call, &result, request->format, 0, err);
}

static int read_request(struct call *call, struct series_request *ret, struct error *err)
{
	struct query_series_options *options = &ret->options;
	const char *label;
	ret->step = call_parameter(call, "step", NULL);
	int r = ret->step ? time_parse_duration(ret->step, &options->step_ns, err) : 0;
	if (r < 0)
		return error_prefix(err, r, "parameter 'step'");
	if (ret->step && options->step_ns < NS_PER_MS)
		return error_set(err, -EINVAL, "parameter 'step': '%.40s' is shorter than 1ms", ret->step);
	options->by = ret->by;
	while ((label = net_request_query_nth(call->request, "by", options->by_count)) && *label) {
		if (options->by_count == STORE_GROUP_BY_MAX)
			return error_set(err, -EINVAL, "parameter 'by': more than %d labels", STORE_GROUP_BY_MAX);
		ret->by[options->by_count++] = label;
	}
	options->limit = (size_t)call_count(call, "limit", 0, 0);
	options->others = call_flag(call, "others");
	options->rate = call_flag(call, "rate");
	ret->is_table = call_wants_table(call, &ret->format);
	return call->failed;
}

/* A selector with conditions on stacks, or a pipeline, to which grouping and steps are added. */
static int run_pipeline(struct call *call, const struct series_request *request, struct query_result *ret)
{
	const struct query_series_options *options = &request->options;
	for (size_t i = 0; i < options->by_count; i++)
		call_append(call, "%s%s", i ? ", " : " | group by ", options->by[i]);
	call_append(call, " | bin %s", request->step ? request->step : "auto");
	if (options->rate)
		call_append(call, " | rate");
	if (options->by_count)
		call_append(call, " | top %zu%s", options->limit ? options->limit : 100, options->others ? " others" : "");
	int r = call_run_text(call, ret);
	if (r < 0 || ret->kind == QUERY_SERIES)
		return r;
	return call_refuse(call, "the result of this query is a %s, not values over time", query_kind_name(ret->kind));
}

static bool is_plain(const char *text, struct error *err, int *ret_error)
{
	_cleanup_(pipeline_freep) struct pipeline *pipeline = NULL;
	*ret_error = pipeline_parse(text, &pipeline, err);
	return *ret_error == 0 && pipeline_is_selector(pipeline);
}

int call_answer_series(struct call *call, struct error *err)
{
	struct series_request request = {0};
	int r = read_request(call, &request, err);
	if (!r)
		call_text(call, "query");
	r = call->failed < 0 ? call->failed : r;
	const char *text = r < 0 ? NULL : buffer_string(&call->text);
	if (r < 0 || !text)
		return r < 0 ? r : error_nomem(err);
	if (is_plain(text, err, &r)) {
		_cleanup_(query_series_release) struct query_series series = {0};
		r = query_series(call->tenant->store, call->tenant->symbolizer, &call->query, &request.options, &series,
				 &call->stats, err);
		return r < 0 ? r : write_series(call, &request, &series, NULL, err);
	}
	if (r < 0)
		return r;
	_cleanup_(query_result_release) struct query_result result = {0};
	r = run_pipeline(call, &request, &result);
	return r < 0 ? r : write_series(call, &request, &result.series, &result.explain, err);
}

CALL_HANDLER(api_series, call_answer_series)
