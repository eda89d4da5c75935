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

#include "base/text.h"
#include "base/time.h"

#define SYMBOLS_WAIT_MAX_NS (30 * NS_PER_S)

/* ---- parameters ---- */

const char *call_parameter(const struct call *call, const char *name, const char *fallback)
{
	const char *text = net_request_query(call->request, name);
	return text && *text ? text : fallback;
}

int call_time(const struct call *call, const char *name, const char *fallback, int64_t *ret, struct error *err)
{
	int r = time_parse(call_parameter(call, name, fallback), time_now_ns(), ret, err);
	return r < 0 ? error_prefix(err, r, "parameter '%s'", name) : 0;
}

int call_count(const struct call *call, const char *name, uint64_t fallback, uint64_t *ret, struct error *err)
{
	const char *text = call_parameter(call, name, NULL);
	*ret = fallback;
	int r = text ? text_parse_u64(text, ret, err) : 0;
	return r < 0 ? error_prefix(err, r, "parameter '%s'", name) : 0;
}

int call_flag(const struct call *call, const char *name, bool *ret, struct error *err)
{
	const char *text = call_parameter(call, name, "0");
	*ret = strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
	if (*ret || strcmp(text, "0") == 0 || strcmp(text, "false") == 0)
		return 0;
	return error_set(err, -EINVAL, "parameter '%s': '%.40s' must be 1 or 0", name, text);
}

/* Clients may ask for less or more time than usual, but not for more than the server grants. */
static int read_timeout(struct call *call, struct error *err)
{
	const struct server_options *options = &call->server->options;
	int64_t timeout_ns = options->query_timeout_ns;
	char most[TIME_TEXT_MAX];
	const char *text = call_parameter(call, "timeout", NULL);
	int r = text ? time_parse_duration(text, &timeout_ns, err) : 0;
	if (r < 0)
		return error_prefix(err, r, "parameter 'timeout'");
	if (timeout_ns <= 0 || timeout_ns > options->query_timeout_max_ns)
		return error_set(err, -EINVAL, "parameter 'timeout': '%.40s' is not between 1ns and %s", text,
				 time_format_duration(options->query_timeout_max_ns, most));
	call->query.deadline_ns = call->started_ns + timeout_ns;
	return 0;
}

/* How long an answer may be held up by names that are being looked up. */
static int read_symbols_wait(struct call *call, struct error *err)
{
	const char *text = call_parameter(call, "symbols_wait", NULL);
	char most[TIME_TEXT_MAX];
	call->query.symbols_wait_ns = SYMBOLS_WAIT_DEFAULT_NS;
	int r = text ? time_parse_duration(text, &call->query.symbols_wait_ns, err) : 0;
	if (r < 0)
		return error_prefix(err, r, "parameter 'symbols_wait'");
	if (call->query.symbols_wait_ns < 0 || call->query.symbols_wait_ns > SYMBOLS_WAIT_MAX_NS)
		return error_set(err, -EINVAL, "parameter 'symbols_wait': '%.40s' is not between 0s and %s", text,
				 time_format_duration(SYMBOLS_WAIT_MAX_NS, most));
	return 0;
}

static int read_names(struct call *call, struct error *err)
{
	const char *text = call_parameter(call, "names", "full");
	call->short_names = strcmp(text, "short") == 0;
	if (call->short_names || strcmp(text, "full") == 0)
		return 0;
	return error_set(err, -EINVAL, "parameter 'names': '%.40s' must be full or short", text);
}

static int read_common(struct call *call, struct error *err)
{
	call->query.selector = call_parameter(call, "query", "");
	call->query.type = call_parameter(call, "type", NULL);
	call->query.cancel = net_request_cancelled(call->request);
	limits_of_query(call->tenant, &call->query);
	int r = call_time(call, "from", "now-1h", &call->query.from_ns, err);
	if (!r)
		r = call_time(call, "to", "now", &call->query.to_ns, err);
	if (!r)
		r = call_flag(call, "explain", &call->explain, err);
	if (!r)
		r = call_flag(call, "exact", &call->exact, err);
	if (!r)
		r = read_symbols_wait(call, err);
	if (!r)
		r = read_names(call, err);
	if (r < 0)
		return r;
	call->asked_from_ns = call->query.from_ns;
	call->asked_to_ns = call->query.to_ns;
	if (!call->exact)
		query_round_range(&call->query.from_ns, &call->query.to_ns);
	return read_timeout(call, err);
}

/* ---- the text of a pipeline ---- */

int call_append(struct call *call, struct error *err, const char *format, ...)
{
	char piece[CALL_TEXT_MAX];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(piece, sizeof(piece), format, args);
	va_end(args);
	int r = len < (int)sizeof(piece) ? buffer_append(&call->text, piece, (size_t)len) : -E2BIG;
	return r == -E2BIG ? error_set(err, -EINVAL, "the query is longer than %d bytes", CALL_TEXT_MAX)
	       : r < 0	   ? error_nomem(err)
			   : 0;
}

static int append_stages(struct call *call, const char *name, const char *stage, struct error *err)
{
	const char *text;
	int r = 0;
	for (size_t i = 0; !r && (text = net_request_query_nth(call->request, name, i)); i++)
		if (*text)
			r = call_append(call, err, " | %s %s", stage, text);
	return r;
}

int call_text(struct call *call, const char *name, struct error *err)
{
	static const struct {
		const char *parameter, *stage;
	} stages[] = {
		{"where", "where"}, {"frames", "frames"}, {"drop_frames", "drop frames"}, {"focus", "focus"}, {"hide", "hide"}};
	const char *label;
	int r = call_append(call, err, "%s", call_parameter(call, name, ""));
	for (size_t i = 0; i < sizeof(stages) / sizeof(*stages) && !r; i++)
		r = append_stages(call, stages[i].parameter, stages[i].stage, err);
	for (size_t i = 0; !r && (label = net_request_query_nth(call->request, "group_by", i)); i++)
		if (*label)
			r = call_append(call, err, "%s%s", i ? ", " : " | group by ", label);
	return r;
}

void call_query_options(const struct call *call, struct query_options *ret)
{
	*ret = (struct query_options){.from_ns = call->query.from_ns,
				      .to_ns = call->query.to_ns,
				      .type = call->query.type,
				      .cancel = call->query.cancel,
				      .deadline_ns = call->query.deadline_ns,
				      .rows_max = call->query.rows_max,
				      .stacks_max = call->query.stacks_max,
				      .symbols_wait_ns = call->query.symbols_wait_ns};
}

/* ---- writing ---- */

void call_write_range(const struct call *call, struct json_writer *json)
{
	json_member_int(json, "from_ms", call->query.from_ns / NS_PER_MS);
	json_member_int(json, "to_ms", call->query.to_ns / NS_PER_MS);
}

void call_write_partial(const struct call *call, const struct query_explain *explain, struct json_writer *json)
{
	json_member_bool(json, "partial", call->stats.read.partial);
	if (call->stats.read.partial)
		json_member_cstring(json, "why", call->stats.read.why);
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
	char text[96];
	if (symbols->pending == 0 && symbols->missing == 0)
		return;
	snprintf(text, sizeof(text), "resolved=%zu pending=%zu missing=%zu", symbols->resolved, symbols->pending,
		 symbols->missing);
	net_response_header(call->response, "X-Wick-Symbols", text);
}

int call_perform(void *context, const struct net_request *request, struct net_response *response,
		 int (*answer)(struct call *call, struct error *err), struct error *err)
{
	struct call call = {.server = context, .request = request, .response = response, .started_ns = time_monotonic_ns()};
	buffer_init(&call.text, CALL_TEXT_MAX);
	int r = tenant_of_request(call.server, request, false, &call.tenant, err);
	if (!r)
		r = read_common(&call, err);
	if (!r)
		r = answer(&call, err);
	if (!r && call.stats.read.partial)
		net_response_header(response, "X-Wick-Partial", call.stats.read.why);
	if (!r)
		add_symbols_header(&call);
	query_account(call.server, call.tenant, request, &call.stats, time_monotonic_ns() - call.started_ns, r, err);
	buffer_release(&call.text);
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
