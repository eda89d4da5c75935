/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the API: one call on its way, from parameters to an answer. */
#ifndef WICK_SERVER_API_API_INT_H
#define WICK_SERVER_API_API_INT_H

#include "query/pipeline.h"
#include "server/core/server_int.h"
#include "server/routes.h"

#define CALL_TEXT_MAX (64 * 1024)

struct call {
	struct server *server;
	struct tenant *tenant;
	const struct net_request *request;
	struct net_response *response;
	int64_t started_ns; /* monotonic */
	struct query query; /* range, limits and cancellation of the request; its selector is the parameter `query` */
	int64_t asked_from_ns, asked_to_ns; /* the range before query_round_range() */
	struct buffer text;		    /* the pipeline, if call_text() was used */
	struct query_stats stats;
	bool explain, short_names, exact;
};
/* Finds the tenant, reads the common parameters, calls answer(), keeps the account, and answers failures. */
void call_run(void *context, const struct net_request *request, struct net_response *response,
	      int (*answer)(struct call *call, struct error *err));
/* The same for calls whose failures are answered in another form: 0, or the HTTP status of the failure in err. */
int call_perform(void *context, const struct net_request *request, struct net_response *response,
		 int (*answer)(struct call *call, struct error *err), struct error *err);
/* Parameters: absent ones give the fallback. */
const char *call_parameter(const struct call *call, const char *name, const char *fallback);
int call_count(const struct call *call, const char *name, uint64_t fallback, uint64_t *ret, struct error *err);
int call_flag(const struct call *call, const char *name, bool *ret, struct error *err); /* "1", "true"; "0", "false" */
int call_time(const struct call *call, const char *name, const char *fallback, int64_t *ret, struct error *err);
/* The selector or pipeline of the parameter `name`, followed by the stages that the parameters where, frames, drop_frames,
 * focus, hide and group_by stand for. */
int call_text(struct call *call, const char *name, struct error *err);
int call_append(struct call *call, struct error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The stage diff, if the parameters base, base_from and base_to, or shift ask for it. */
int call_append_base(struct call *call, bool *ret_any, struct error *err);
/* Runs the text of the call; names are short if that was asked for. */
int call_run_text(struct call *call, struct query_result *ret, struct error *err);
/* The answer of one of the calls query, pipeline, diff, compare and series to the parameters of this request. -EINVAL: no such
 * call. */
int call_answer(struct call *call, const char *name, struct error *err);
int call_answer_series(struct call *call, struct error *err);
void call_query_options(const struct call *call, struct query_options *ret);

/* Members of an object: "from_ms", "to_ms"; "partial", "why", and "explain" if it was asked for. */
void call_write_range(const struct call *call, struct json_writer *json);
void call_write_partial(const struct call *call, const struct query_explain *explain, struct json_writer *json);
void call_write_stats(const struct call *call, uint64_t samples, struct json_writer *json);

#endif
