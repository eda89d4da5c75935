/* SPDX-License-Identifier: Apache-2.0 */
/* Merged profiles and pipelines: query, diff, compare, pipeline. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "format/format.h"
#include "render/flame.h"
#include "server/api/api_int.h"

#define TOP_LIMIT_DEFAULT 100
#define MAX_NODES_DEFAULT 100000
#define COLUMNS_MAGIC	  8
#define MAX_NODES_COLUMNS 1000000 /* the default of format=columns, which are 4 bytes a node */

/* ---- one merged profile ---- */

struct answer {
	const char *format;
	struct call *call;
	const struct query_result *result;
	const struct profile *profile;
	const struct flame *flame; /* NULL where the format does without */
	const struct table *table; /* of the formats that are one */
	size_t limit;
	struct buffer *out;
};

static const char *type_name(const struct profile *profile)
{
	return profile->sample_type_count ? profile_string(profile, profile->sample_types[0].type) : "";
}

static const char *unit_name(const struct profile *profile)
{
	return profile->sample_type_count ? profile_string(profile, profile->sample_types[0].unit) : "";
}

/* format=flame, json and columns: the same head, then the tree, the table, or what the tree is without its columns. */
enum behind_head { HEAD_TREE, HEAD_TABLE, HEAD_ALONE };

static int answer_json(const struct answer *answer, enum behind_head behind, struct error *err)
{
	struct json_writer json = behind == HEAD_ALONE ? (struct json_writer){.out = answer->out} : call_json(answer->call);
	bool is_table = behind == HEAD_TABLE;
	json_begin_object(&json);
	json_member_cstring(&json, "type", type_name(answer->profile));
	json_member_cstring(&json, "unit", unit_name(answer->profile));
	json_member_int(&json, "period", answer->profile->period);
	call_write_range(answer->call, &json);
	json_member_int(&json, "total", is_table ? answer->table->total : answer->flame->total);
	call_write_stats(answer->call, is_table ? answer->table->sample_count : answer->flame->sample_count, &json);
	call_write_partial(answer->call, &answer->result->explain, &json);
	query_symbols_json(&answer->call->stats, &json);
	if (is_table) {
		json_key(&json, "functions");
		table_write_json(answer->table, answer->limit, &json);
	} else {
		json_key(&json, "flame");
		(behind == HEAD_TREE ? flame_write_json : flame_write_head_json)(answer->flame, &json);
	}
	json_end_object(&json);
	return json_finish(&json, err);
}

static int answer_flame(const struct answer *answer, struct error *err)
{
	return answer_json(answer, HEAD_TREE, err);
}

static int answer_table(const struct answer *answer, struct error *err)
{
	return answer_json(answer, HEAD_TABLE, err);
}

/* "wickflm" and 1, the length of the head in 4 bytes (little-endian), the head, the columns. */
static int answer_columns(const struct answer *answer, struct error *err)
{
	static const uint8_t magic[COLUMNS_MAGIC] = "wickflm\1";
	struct buffer *out = answer->out;
	uint8_t len[4] = {0};
	if (buffer_append(out, magic, sizeof(magic)) < 0 || buffer_append(out, len, sizeof(len)) < 0)
		return error_nomem(err);
	size_t begin = out->len;
	int r = answer_json(answer, HEAD_ALONE, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(len); i++)
		out->data[begin - sizeof(len) + i] = (uint8_t)((out->len - begin) >> (8 * i));
	const struct json_writer like = call_json(answer->call);
	return flame_write_columns(answer->flame, out, like.drain, like.context, err);
}

static int answer_top(const struct answer *answer, struct error *err)
{
	return table_write_text(answer->table, unit_name(answer->profile), answer->limit, answer->out, err);
}

static int answer_folded(const struct answer *answer, struct error *err)
{
	if (answer->profile->sample_type_count == 0)
		return 0; /* no data, no lines */
	struct format_sink sink = call_sink(answer->call);
	return folded_write(answer->profile, &(struct format_options){0}, &sink, err);
}

static int answer_pprof(const struct answer *answer, struct error *err)
{
	net_response_header(answer->call->response, "Content-Disposition", "attachment; filename=\"wick.pb.gz\"");
	answer->call->response->no_compress = true;
	struct format_sink sink = call_sink(answer->call);
	return pprof_write(answer->profile, &sink, err);
}

/* In a format of format/, uncompressed: the connection may compress it. */
static int answer_encoded(const struct answer *answer, struct error *err)
{
	struct format_options options = {.symbol_server = false};
	struct format_sink sink = call_sink(answer->call);
	return format_write_most(format_by_name(answer->format), answer->profile, &options, &sink, err);
}

static int answer_svg(const struct answer *answer, struct error *err)
{
	const struct json_writer like = call_json(answer->call);
	struct svg_options options = {.title = answer->call->query.selector, .drain = like.drain, .context = like.context};
	int r = respond_svg_policy(answer->call->response, err);
	return r < 0 ? r : svg_render(answer->flame, &options, answer->out, err);
}

/* What is made of the profile. */
enum tree { TREE_NONE, TREE_WHOLE, TREE_LARGEST, TREE_TABLE, TREE_TABLE_BY_NAME };
static const struct answer_format {
	const char *name, *content_type;
	int (*answer)(const struct answer *answer, struct error *err);
	enum tree tree;
	enum flame_unnamed unnamed;
	bool has_head; /* where an explanation goes */
} answer_formats[] = {
	{"flame", "application/json", answer_flame, TREE_LARGEST, FLAME_UNNAMED_BY_ADDRESS, true},
	{"columns", "application/vnd.wick.flame", answer_columns, TREE_LARGEST, FLAME_UNNAMED_BY_ADDRESS, true},
	{"json", "application/json", answer_table, TREE_TABLE, FLAME_UNNAMED_BY_ADDRESS, true},
	{"top", "text/plain; charset=utf-8", answer_top, TREE_TABLE_BY_NAME, FLAME_UNNAMED_BY_BINARY, false},
	{"folded", "text/plain; charset=utf-8", answer_folded, TREE_NONE, FLAME_UNNAMED_BY_ADDRESS, false},
	{"pprof", "application/octet-stream", answer_pprof, TREE_NONE, FLAME_UNNAMED_BY_ADDRESS, false},
	{"speedscope", "application/json", answer_encoded, TREE_NONE, FLAME_UNNAMED_BY_ADDRESS, false},
	{"firefox", "application/json", answer_encoded, TREE_NONE, FLAME_UNNAMED_BY_ADDRESS, false},
	{"svg", "image/svg+xml", answer_svg, TREE_WHOLE, FLAME_UNNAMED_BY_ADDRESS, false},
};

static const struct answer_format *find_format(struct call *call)
{
	const char *name = call_parameter(call, "format", "flame");
	for (size_t i = 0; i < sizeof(answer_formats) / sizeof(*answer_formats); i++) {
		if (strcmp(answer_formats[i].name, name) != 0)
			continue;
		if (call->explain && !answer_formats[i].has_head)
			call_refuse(call, "parameter 'explain': format %s does not support it; use flame, columns or json",
				    name);
		return &answer_formats[i];
	}
	call_refuse(
		call,
		"parameter 'format': '%.40s' is not one of flame, columns, json, top, folded, pprof, speedscope, firefox, svg, "
		"arrow, parquet, csv",
		name);
	return &answer_formats[0];
}

static int shorten_names(struct query_result *result, struct error *err)
{
	int r = result->profile ? render_shorten_names(result->profile, err) : 0;
	for (size_t i = 0; !r && i < result->comparison.count; i++)
		if (result->comparison.items[i].profile)
			r = render_shorten_names(result->comparison.items[i].profile, err);
	return r;
}

int call_run_text(struct call *call, struct query_result *ret)
{
	const struct query_options options = {.query = call->query, .numbers = call->numbers};
	if (call->failed)
		return call->failed;
	const char *text = buffer_string(&call->text);
	if (!text)
		return error_nomem(call->err);
	int r = query_run(call->tenant->store, call->tenant->symbolizer, text, &options, ret, &call->stats, call->err);
	return r < 0 || !call->short_names ? r : shorten_names(ret, call->err);
}

/* ---- tables for other programs ---- */

bool call_wants_table(struct call *call, enum tabular_format *ret)
{
	const char *name = call_parameter(call, "format", NULL);
	bool found = false;
	if (name)
		found = tabular_find_format(name, ret) == 0;
	bool any = !name && !net_request_accepts(call->request, "application/json");
	for (int i = 0; any && !found && i < TABULAR_FORMATS; i++) {
		*ret = (enum tabular_format)i;
		found = net_request_accepts(call->request, tabular_media_type(*ret));
	}
	if (found && call->explain)
		call_refuse(call, "parameter 'explain': tables have no place for it");
	return found;
}

int call_write_table(struct call *call, const struct query_result *result, enum tabular_format format, size_t limit,
		     struct error *err)
{
	static const char *const files[] = {[TABULAR_ARROW] = "attachment; filename=\"wick.arrows\"",
					    [TABULAR_PARQUET] = "attachment; filename=\"wick.parquet\"",
					    [TABULAR_CSV] = "attachment; filename=\"wick.csv\""};
	call->response->content_type = tabular_content_type(format);
	call->response->no_compress = format == TABULAR_PARQUET; /* it is already */
	net_response_header(call->response, "Content-Disposition", files[format]);
	struct format_sink sink = call_sink(call);
	return query_write_columns(result, &call->stats, format, limit, &sink, err);
}

/* What /query answers is made of stacks. */
static int require_profile(struct call *call, const struct query_result *result)
{
	if (result->kind == QUERY_PROFILE)
		return 0;
	return call_refuse(call, "the result of this query is a %s, not a profile; use /api/v1/pipeline",
			   query_kind_name(result->kind));
}

static int answer_query_table(struct call *call, enum tabular_format format, struct error *err)
{
	_cleanup_(query_result_release) struct query_result result = {0};
	size_t limit = (size_t)call_count(call, "limit", 0, 0);
	call_text(call, "query");
	call->query.stack_bytes = QUERY_WHOLE_TREE_BYTES;
	int r = call_run_text(call, &result);
	if (!r)
		r = require_profile(call, &result);
	return r < 0 ? r : call_write_table(call, &result, format, limit, err);
}

static int answer_query(struct call *call, struct error *err)
{
	enum tabular_format table;
	if (call_wants_table(call, &table))
		return answer_query_table(call, table, err);
	const struct answer_format *format = find_format(call);
	uint64_t limit = call_count(call, "limit", TOP_LIMIT_DEFAULT, 0);
	uint64_t max_nodes =
		call_count(call, "max_nodes", format->answer == answer_columns ? MAX_NODES_COLUMNS : MAX_NODES_DEFAULT, 0);
	call_text(call, "query");
	call->numbers = format->answer == answer_pprof;
	call->query.stack_bytes = format->tree == TREE_WHOLE ? QUERY_WHOLE_TREE_BYTES : 0;
	_cleanup_(query_result_release) struct query_result result = {0};
	_cleanup_(flame_freep) struct flame *flame = NULL;
	_cleanup_(table_release) struct table rows = {0};
	int r = call_run_text(call, &result);
	if (!r)
		r = require_profile(call, &result);
	bool is_table = format->tree == TREE_TABLE || format->tree == TREE_TABLE_BY_NAME;
	if (!r && is_table)
		r = table_build_profile(result.profile, 0, format->unnamed, format->tree == TREE_TABLE_BY_NAME, &rows, err);
	else if (!r && format->tree != TREE_NONE)
		r = flame_build_largest(result.profile, 0, format->unnamed,
					format->tree == TREE_LARGEST ? (size_t)max_nodes : 0, &flame, err);
	if (r < 0)
		return r;
	struct answer answer = {.format = format->name,
				.call = call,
				.result = &result,
				.profile = result.profile,
				.flame = flame,
				.table = &rows,
				.limit = (size_t)limit,
				.out = &call->response->body};
	call->response->content_type = format->content_type;
	return format->answer(&answer, err);
}

/* ---- pipelines of every kind ---- */

static int write_result(struct call *call, const struct query_result *result, struct error *err)
{
	const char *format = call_parameter(call, "format", "json");
	bool text = strcmp(format, "text") == 0, table = strcmp(format, "table") == 0;
	uint64_t limit = call_count(call, "limit", text || table ? TOP_LIMIT_DEFAULT : 0, 0);
	uint64_t max_nodes = call_count(call, "max_nodes", MAX_NODES_DEFAULT, 0);
	if (call->failed)
		return call->failed;
	const struct json_writer json = call_json(call);
	struct query_write_options options = {.explain = call->explain,
					      .table = table,
					      .limit = (size_t)limit,
					      .nodes_max = (size_t)max_nodes,
					      .drain = json.drain,
					      .context = json.context};
	if (!text)
		return query_write_json(result, &call->stats, &options, &call->response->body, err);
	call->response->content_type = "text/plain; charset=utf-8";
	int r = query_write_text(result, &call->stats, &options, &call->response->body, err);
	return r < 0 || !call->explain ? r : query_explain_text(&result->explain, &call->stats, &call->response->body);
}

static int answer_text(struct call *call, struct error *err)
{
	enum tabular_format tabular;
	bool wants_table = call_wants_table(call, &tabular);
	const char *format = wants_table ? "json" : call_parameter(call, "format", "json");
	if (strcmp(format, "json") != 0 && strcmp(format, "table") != 0 && strcmp(format, "text") != 0)
		return call_refuse(call, "parameter 'format': '%.40s' is not one of json, table, text, arrow, parquet, csv",
				   format);
	_cleanup_(query_result_release) struct query_result result = {0};
	size_t rows = wants_table ? (size_t)call_count(call, "limit", 0, 0) : 0;
	int r = call_run_text(call, &result);
	if (r < 0)
		return r;
	return wants_table ? call_write_table(call, &result, tabular, rows, err) : write_result(call, &result, err);
}

static int answer_text_of_parameters(struct call *call, struct error *err)
{
	call_text(call, net_request_query(call->request, "q") ? "q" : "query");
	return answer_text(call, err);
}

/* The text is the body, or the parameter q. */
static int answer_pipeline(struct call *call, struct error *err)
{
	struct bytes body = net_request_body(call->request);
	if (!body.len)
		return answer_text_of_parameters(call, err);
	if (memchr(body.data, 0, body.len))
		return call_refuse(call, "the body is not text");
	if (call->saved)
		return call_refuse(call, "parameter 'saved' and a query in the body exclude each other");
	_cleanup_(mem_freep) char *text = mem_strndup((const char *)body.data, body.len);
	if (!text)
		return error_nomem(err);
	call_append_query(call, text);
	return answer_text(call, err);
}

/* base: another selector; base_from and base_to: another range; or shift: how long before. */
bool call_append_base(struct call *call)
{
	const char *base = call_parameter(call, "base", ""), *from = call_parameter(call, "base_from", NULL),
		   *to = call_parameter(call, "base_to", NULL), *shift = call_parameter(call, "shift", NULL);
	if (!*base && !from && !to && !shift)
		return false;
	if ((!from) != (!to))
		call_refuse(call, "parameters 'base_from' and 'base_to' must be given together");
	if (from && shift)
		call_refuse(call, "parameters 'base_from' and 'shift' exclude each other");
	call_append(call, " | diff (%s", base);
	if (from && to)
		call_append(call, " from \"%s\" to \"%s\"", from, to);
	else if (shift)
		call_append(call, " shift \"%s\"", shift);
	call_append(call, ")");
	return true;
}

static int answer_diff(struct call *call, struct error *err)
{
	bool relative = call_flag(call, "relative");
	call_text(call, "query");
	if (!call_append_base(call))
		call_refuse(call, "nothing to compare with: give 'base' (another selector), 'base_from' and 'base_to', or "
				  "'shift' (how much earlier)");
	if (relative)
		call_append(call, " relative");
	return answer_text(call, err);
}

/* A profile for each of the values of a label that cost most. */
static int answer_compare(struct call *call, struct error *err)
{
	const char *label = call_parameter(call, "label", NULL);
	uint64_t values = call_count(call, "values", 5, 0);
	if (!label)
		return call_refuse(call, "parameter 'label' is missing: give the label whose values to compare");
	call_text(call, "query");
	call_append(call, " | compare label %s top %llu", label, (unsigned long long)values);
	return answer_text(call, err);
}

int call_answer(struct call *call, const char *name, struct error *err)
{
	static const struct {
		const char *name;
		int (*answer)(struct call *call, struct error *err);
	} calls[] = {{"query", answer_query},
		     {"pipeline", answer_text_of_parameters},
		     {"diff", answer_diff},
		     {"compare", answer_compare},
		     {"series", call_answer_series}};
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].answer(call, err);
	return error_set(err, -EINVAL, "parameter 'call': '%.40s' is not one of query, pipeline, diff, compare, series, view",
			 name);
}

CALL_HANDLER(api_query, answer_query)
CALL_HANDLER(api_diff, answer_diff)
CALL_HANDLER(api_compare, answer_compare)
CALL_HANDLER(api_pipeline, answer_pipeline)
