/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the API: one call on its way, from parameters to an answer. */
#ifndef WICK_SERVER_API_API_INT_H
#define WICK_SERVER_API_API_INT_H

#include "format/format.h"
#include "query/pipeline.h"
#include "server/api/routes.h"
#include "server/core/server_int.h"
#include "server/saved/saved.h"

#define CALL_TEXT_MAX (64 * 1024)

struct call {
	struct server *server;
	struct tenant *tenant;
	const struct net_request *request;
	struct net_response *response;
	int64_t started_ns; /* monotonic */
	struct query query; /* range, limits and cancellation of the request; its selector is the parameter `query` */
	int64_t requested_from_ns, requested_to_ns; /* the range before query_round_range() */
	struct buffer text;			    /* the pipeline, if call_text() was used */
	struct query_stats stats;
	int failed; /* the first failure of the functions below that return none, with its message in *err */
	struct error *err;
	struct saved_query *saved; /* of the parameter `saved`: what stands for the text of the query; NULL = none */
	bool explain, short_names, exact;
	bool has_headers; /* those that say what the answer is of have been added */
	bool numbers;	  /* the profile has the numbers of its samples: call_run_text() */
};
/* Finds the tenant, reads the common parameters, calls answer(), keeps the account, and answers failures. */
void call_run(void *context, const struct net_request *request, struct net_response *response,
	      int (*answer)(struct call *call, struct error *err));
/* The same for calls whose failures are answered in another form: 0, or the HTTP status of the failure in err. */
int call_perform(void *context, const struct net_request *request, struct net_response *response,
		 int (*answer)(struct call *call, struct error *err), struct error *err);
/* The handler of a call. */
#define CALL_HANDLER(name, answer)                                                                                             \
	void name(void *context, const struct net_request *request, struct net_response *response)                             \
	{                                                                                                                      \
		call_run(context, request, response, answer);                                                                  \
	}
/* Parameters: absent ones give the fallback. What is wrong with one is kept in call->failed. */
const char *call_parameter(const struct call *call, const char *name, const char *fallback);
uint64_t call_count(struct call *call, const char *name, uint64_t fallback, uint64_t max); /* from 1 to max; 0 = any */
bool call_flag(struct call *call, const char *name);					   /* "1", "true"; "0", "false" */
/* -EINVAL, unless it has failed already. Returns call->failed. */
int call_refuse(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The selector or pipeline of the parameter `name`, followed by the stages that the parameters where, frames, drop_frames,
 * focus, hide and group_by stand for. */
void call_text(struct call *call, const char *name);
/* A text of a query, in which $range stands for the length of the range. */
void call_append_query(struct call *call, const char *text);
void call_append(struct call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The stage diff, if the parameters base, base_from and base_to, or shift ask for it: true. */
bool call_append_base(struct call *call);
/* Whether a table is wanted (codec/tabular.h): by the parameter `format`, or, without one, by a header Accept that lists its
 * type and not application/json. */
bool call_wants_table(struct call *call, enum tabular_format *ret);
/* limit: as of query_write_columns(). */
int call_write_table(struct call *call, const struct query_result *result, enum tabular_format format, size_t limit,
		     struct error *err);
/* Runs the text of the call, unless it has failed; names are short if that was asked for. */
int call_run_text(struct call *call, struct query_result *ret);
/* The answer of one of the calls query, pipeline, diff, compare and series to the parameters of this request. -EINVAL: no such
 * call. */
int call_answer(struct call *call, const char *name, struct error *err);
int call_answer_series(struct call *call, struct error *err);

/* For writers of answers that may be long: what they have written is sent while they go on, by a writer of JSON and by a sink
 * of format/. What comes last stays in the body. The query must have been read: headers go out with the first piece. */
struct json_writer call_json(struct call *call);
struct format_sink call_sink(struct call *call);
int call_flush(void *context); /* the call; as net_response_flush() */

/* Members of an object: "from_ms", "to_ms"; "partial", "why", and "explain" if it was asked for. */
void call_write_range(const struct call *call, struct json_writer *json);
void call_write_partial(const struct call *call, const struct query_explain *explain, struct json_writer *json);
void call_write_stats(const struct call *call, uint64_t samples, struct json_writer *json);

#endif
