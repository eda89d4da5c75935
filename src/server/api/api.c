/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions out: what all calls of the JSON API under /api/v1/ have in common. docs/api.md describes every call, parameter and
 * answer; keep them together.
 *
 * A call reads its parameters, has src/query do the work, and writes. Around it call_run() finds the tenant, sets the deadline
 * and the limits, says whether the answer is of all the data, and keeps the account.
 */
#include "server/api/api_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/sum.h"
#include "base/text.h"
#include "base/time.h"
#include "server/saved/routes.h"

#define SYMBOLS_WAIT_MAX_NS (30 * NS_PER_S)

/* ---- parameters ---- */

const char *call_parameter(const struct call *call, const char *name, const char *fallback)
{
	const char *text = net_request_query(call->request, name);
	return text && *text ? text : fallback;
}

/* Keeps the first failure; later ones are not reported. */
static void keep_failure(struct call *call, int r, const struct error *why, const char *parameter)
{
	if (r < 0 && !call->failed)
		call->failed = error_set(call->err, r, "parameter '%s': %s", parameter, why->message);
}

int call_refuse(struct call *call, const char *format, ...)
{
	char text[ERROR_MESSAGE_MAX];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!call->failed)
		call->failed = error_set(call->err, -EINVAL, "%s", text);
	return call->failed;
}

static int64_t read_time(struct call *call, const char *name, const char *fallback)
{
	int64_t ns = 0;
	struct error why = {0};
	keep_failure(call, time_parse(call_parameter(call, name, fallback), time_now_ns(), &ns, &why), &why, name);
	return ns;
}

uint64_t call_count(struct call *call, const char *name, uint64_t fallback, uint64_t max)
{
	const char *text = call_parameter(call, name, NULL);
	uint64_t count = fallback;
	struct error why = {0};
	keep_failure(call, text ? text_parse_u64(text, &count, &why) : 0, &why, name);
	if (max && (count == 0 || count > max))
		call_refuse(call, "parameter '%s': must be between 1 and %llu", name, (unsigned long long)max);
	return count;
}

bool call_flag(struct call *call, const char *name)
{
	const char *text = call_parameter(call, name, "0");
	bool is_set = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
	if (!is_set && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
		call_refuse(call, "parameter '%s': '%.40s' must be 1 or 0", name, text);
	return is_set;
}

/* A duration from `least` to `most`; the fallback if it is refused, so that one can calculate with it. */
static int64_t read_duration(struct call *call, const char *name, int64_t fallback, int64_t least, int64_t most,
			     const char *least_text)
{
	const char *text = call_parameter(call, name, NULL);
	char most_text[TIME_TEXT_MAX];
	int64_t ns = fallback;
	struct error why = {0};
	keep_failure(call, text ? time_parse_duration(text, &ns, &why) : 0, &why, name);
	if (ns >= least && ns <= most)
		return ns;
	call_refuse(call, "parameter '%s': '%.40s' is not between %s and %s", name, text, least_text,
		    time_format_duration(most, most_text));
	return fallback;
}

static bool read_names(struct call *call)
{
	const char *text = call_parameter(call, "names", "full");
	bool is_short = strcmp(text, "short") == 0;
	if (!is_short && strcmp(text, "full") != 0)
		call_refuse(call, "parameter 'names': '%.40s' must be full or short", text);
	return is_short;
}

/* The query that the parameter `saved` names. */
static void open_saved(struct call *call)
{
	const char *name = call_parameter(call, "saved", NULL);
	char own[PATH_MAX];
	enum saved_origin origin;
	struct saved_places places;
	if (!name)
		return;
	if (call_parameter(call, "query", NULL) || call_parameter(call, "q", NULL))
		call_refuse(call, "parameters 'saved' and 'query' exclude each other");
	if (call->failed)
		return;
	call->failed = saved_places_of(call->server, call->tenant, own, &places, call->err);
	if (!call->failed)
		call->failed = saved_open(&places, name, &origin, &call->saved, call->err);
}

static int read_common(struct call *call)
{
	const struct server_options *options = &call->server->options;
	struct query *query = &call->query;
	query->selector = call_parameter(call, "query", "");
	query->type = call_parameter(call, "type", NULL);
	query->cancel = net_request_cancelled(call->request);
	query->hide_addresses = caller_of(call->request) && caller_of(call->request)->hides_addresses;
	limits_of_query(call->tenant, query);
	open_saved(call);
	char from[TIME_TEXT_MAX + 4] = "now-1h";
	if (call->saved && call->saved->range)
		snprintf(from, sizeof(from), "now-%s", call->saved->range);
	call->requested_from_ns = query->from_ns = read_time(call, "from", from);
	call->requested_to_ns = query->to_ns = read_time(call, "to", "now");
	call->explain = call_flag(call, "explain");
	call->exact = call_flag(call, "exact");
	/* How long an answer may be held up by names that are being looked up. */
	query->symbols_wait_ns = read_duration(call, "symbols_wait", SYMBOLS_WAIT_DEFAULT_NS, 0, SYMBOLS_WAIT_MAX_NS, "0s");
	call->short_names = read_names(call);
	if (!call->exact)
		query_round_range(&query->from_ns, &query->to_ns);
	/* Clients may ask for less or more time than usual, but not for more than the server grants. */
	query->deadline_ns = call->started_ns +
			     read_duration(call, "timeout", options->query_timeout_ns, 1, options->query_timeout_max_ns, "1ns");
	return call->failed;
}

/* ---- the text of a pipeline ---- */

void call_append(struct call *call, const char *format, ...)
{
	char piece[CALL_TEXT_MAX];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(piece, sizeof(piece), format, args);
	va_end(args);
	int r = len < (int)sizeof(piece) ? buffer_append(&call->text, piece, (size_t)len) : -E2BIG;
	if (r == -E2BIG)
		call_refuse(call, "the query is longer than %d bytes", CALL_TEXT_MAX);
	else if (r < 0 && !call->failed)
		call->failed = error_nomem(call->err);
}

/* What was expanded into a buffer of its own; r: of the expansion. */
static void append_expanded(struct call *call, int r, struct buffer *expanded)
{
	if (r < 0 && !call->failed)
		call->failed = r;
	if (r == 0)
		call_append(call, "%s", buffer_string(expanded));
}

void call_append_query(struct call *call, const char *text)
{
	_cleanup_(buffer_release) struct buffer expanded = {.max = CALL_TEXT_MAX};
	if (call->failed || !strchr(text, '$'))
		call_append(call, "%s", text);
	else
		append_expanded(call, saved_expand_range(text, call->query.to_ns - call->query.from_ns, &expanded, call->err),
				&expanded);
}

/* param.NAME=VALUE */
static const char *value_of_parameter(void *context, const char *name)
{
	char full[SAVED_NAME_MAX + 8];
	snprintf(full, sizeof(full), "param.%s", name);
	return call_parameter(context, full, NULL);
}

static void append_saved(struct call *call)
{
	_cleanup_(buffer_release) struct buffer expanded = {.max = CALL_TEXT_MAX};
	if (call->failed)
		return;
	append_expanded(call,
			saved_query_expand(call->saved, value_of_parameter, call, call->query.to_ns - call->query.from_ns,
					   &expanded, call->err),
			&expanded);
}

void call_text(struct call *call, const char *name)
{
	static const struct {
		const char *parameter, *stage;
	} stages[] = {
		{"where", "where"}, {"frames", "frames"}, {"drop_frames", "drop frames"}, {"focus", "focus"}, {"hide", "hide"}};
	const char *text;
	if (call->saved)
		append_saved(call);
	else
		call_append_query(call, call_parameter(call, name, ""));
	for (size_t i = 0; i < sizeof(stages) / sizeof(*stages); i++)
		for (size_t k = 0; (text = net_request_query_nth(call->request, stages[i].parameter, k)); k++)
			if (*text)
				call_append(call, " | %s %s", stages[i].stage, text);
	for (size_t i = 0; (text = net_request_query_nth(call->request, "group_by", i)); i++)
		if (*text)
			call_append(call, "%s%s", i ? ", " : " | group by ", text);
}

/* ---- writing ---- */

void call_write_range(const struct call *call, struct json_writer *json)
{
	json_member_int(json, "from_ms", call->query.from_ns / NS_PER_MS);
	json_member_int(json, "to_ms", call->query.to_ns / NS_PER_MS);
}

void call_write_partial(const struct call *call, const struct query_explain *explain, struct json_writer *json)
{
	query_partial_json(&call->stats, json);
	if (!call->explain)
		return;
	json_key(json, "explain");
	query_explain_json(explain, &call->stats, json);
}

void call_write_stats(const struct call *call, uint64_t samples, struct json_writer *json)
{
	const struct query_stats *stats = &call->stats;
	const struct {
		const char *name;
		uint64_t value;
	} items[] = {{"samples", samples},
		     {"blocks", stats->read.blocks},
		     {"blocks_skipped", stats->read.blocks_skipped},
		     {"series", stats->read.series},
		     {"rows", stats->read.rows},
		     {"bytes", stats->read.bytes},
		     {"resolved", stats->symbols.resolved},
		     {"unresolved", stats->symbols.pending + stats->symbols.missing}};
	json_member_object(json, "stats");
	for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++)
		json_member_uint(json, items[i].name, items[i].value);
	json_member_double(json, "read_ms", (double)stats->read_ns / NS_PER_MS);
	json_member_double(json, "symbolize_ms", (double)stats->symbolize_ns / NS_PER_MS);
	json_member_double(json, "ms", (double)(time_monotonic_ns() - call->started_ns) / NS_PER_MS);
	json_end_object(json);
}

/* ---- a call ---- */

/* For those who print the body and nothing else. */
static void add_symbols_header(const struct call *call)
{
	const struct symbolizer_coverage *symbols = &call->stats.symbols;
	char text[128];
	if (symbols->pending == 0 && symbols->missing == 0)
		return;
	snprintf(text, sizeof(text), "resolved=%zu pending=%zu missing=%zu ambiguous=%zu", symbols->resolved, symbols->pending,
		 symbols->missing, symbols->ambiguous);
	net_response_header(call->response, "X-Wick-Symbols", text);
}

/* What the answer is of. Known when the query has been read, which is before the first of it is written. */
static void add_headers(struct call *call)
{
	if (call->has_headers)
		return;
	call->has_headers = true;
	if (call->stats.read.partial)
		net_response_header(call->response, "X-Wick-Partial", call->stats.read.why);
	if (call->stats.read.saturated)
		net_response_header(call->response, "X-Wick-Warning", SUM_WARNING);
	add_symbols_header(call);
}

int call_flush(void *context)
{
	struct call *call = context;
	add_headers(call);
	return net_response_flush(call->response);
}

struct json_writer call_json(struct call *call)
{
	_Static_assert(JSON_DRAIN_BYTES >= NET_FLUSH_BYTES, "what a writer drains must be enough to be sent");
	return (struct json_writer){.out = &call->response->body,
				    .drain = net_response_is_sent_early(call->response) ? call_flush : NULL,
				    .context = call};
}

static int flush_sink(void *context, struct bytes bytes, struct error *err)
{
	int r = call_flush(context);
	return r < 0 ? error_set_errno(err, r, "cannot send the response") : 0;
}

struct format_sink call_sink(struct call *call)
{
	_Static_assert(FORMAT_SINK_BYTES >= NET_FLUSH_BYTES, "what a sink drains must be enough to be sent");
	return (struct format_sink){.out = &call->response->body,
				    .flush = net_response_is_sent_early(call->response) ? flush_sink : NULL,
				    .context = call};
}

int call_perform(void *context, const struct net_request *request, struct net_response *response,
		 int (*answer)(struct call *call, struct error *err), struct error *err)
{
	struct call call = {.server = context,
			    .request = request,
			    .response = response,
			    .started_ns = time_monotonic_ns(),
			    .err = err,
			    .text.max = CALL_TEXT_MAX};
	int r = tenant_of_request(call.server, request, false, &call.tenant, err);
	if (!r)
		r = read_common(&call);
	if (!r)
		r = query_budget_begin(call.server, call.tenant, &call.query, response, err);
	if (!r)
		r = answer(&call, err);
	r = query_budget_end(call.server, call.tenant, response->budget, response, r, err);
	if (!r)
		add_headers(&call);
	query_account(call.server, call.tenant, request, &call.stats,
		      time_monotonic_ns() - call.started_ns - net_response_waited_ns(response), r, err);
	buffer_release(&call.text);
	saved_query_free(call.saved);
	/* A bad parameter is the client's fault. */
	return r >= 0 ? 0 : r == -EINVAL || r == -ERANGE ? 400 : http_status_of(r);
}

void call_run(void *context, const struct net_request *request, struct net_response *response,
	      int (*answer)(struct call *call, struct error *err))
{
	struct error err = {0};
	int status = call_perform(context, request, response, answer, &err);
	if (status)
		respond_error(response, status, err.message);
}
