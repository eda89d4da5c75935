/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that answer as Parca does. */
#ifndef WICK_SERVER_PARCA_PARCA_INT_H
#define WICK_SERVER_PARCA_PARCA_INT_H

#include "base/alloc.h"
#include "server/http/rpc.h"
#include "server/parca/filter.h"
#include "server/pyroscope/pyroscope_int.h"

struct parca {
	struct pyroscope call; /* tenant, limits, account */
	struct buffer *out;
};
struct parca_selection {
	const char *query;
	int64_t from_ns, to_ns; /* both included */
	int64_t time_ns;	/* of a single profile, instead of these */
	bool given;
};
struct parca_source {
	const char *build_id, *file;
	bool given, is_question; /* source_only: whether there is a text */
};
enum parca_report {
	PARCA_FLAMEGRAPH,
	PARCA_PPROF,
	PARCA_TOP,
	PARCA_CALLGRAPH,
	PARCA_FLAMEGRAPH_TABLE,
	PARCA_FLAMEGRAPH_ARROW,
	PARCA_SOURCE,
	PARCA_TABLE_ARROW,
	PARCA_PROFILE_METADATA,
	PARCA_FLAMECHART,
	PARCA_REPORTS,
};
/* All requests of the services: a message has some of this. */
struct parca_request {
	struct bytes message;
	int64_t start_ns, end_ns, step_ns;
	const char *type, *name, *query; /* "" = not there */
	const char *function_filter;	 /* filter_query of older clients */
	struct rpc_list list, groups;
	uint64_t limit, mode, report, state;
	struct parca_selection selection, base;
	bool is_diff, absolute;
	struct parca_source source;
	struct parca_filters filters;
	float threshold; /* percent of its parent that a node must have; 0 = none */
	/* group_by, as it is used */
	const char *labels[STORE_GROUP_BY_MAX];
	size_t label_count;
	bool by_mapping, by_address, by_file, by_time;
	/* The share service's, and ShareProfile's */
	const char *id, *description;
	struct bytes profile, query_request;
};

typedef int (*parca_answer)(struct parca *, struct parca_request *, struct error *);
/* One call: reads the request by the method's table and makes the response. */
int parca_run(struct rpc_call *call, struct bytes request, parca_answer answer, struct buffer *out, struct error *err);
#define PARCA_HANDLER(name)                                                                                                    \
	static int handle_##name(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err)           \
	{                                                                                                                      \
		return parca_run(call, request, answer_##name, out, err);                                                      \
	}
/* Fills *ret with what the message has of struct parca_request; texts are p's. */
int parca_parse(struct parca *p, struct bytes message, const struct pb_json_message *form, struct parca_request *ret,
		struct error *err);
/* Takes group_by and filters of a request apart; filter_field: their number. -EINVAL: unknown ones, or too many. */
int parca_prepare(struct parca_request *in, uint32_t filter_field, struct error *err);
/* The same for a query, and its mode and what it selects. */
int parca_check_query(struct parca_request *in, struct error *err);
/* A query's response. */
int parca_report(struct parca *p, struct parca_request *in, struct error *err);
int parca_share_profile(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err); /* share.c */
int parca_answer_query_range(struct parca *p, struct parca_request *in, struct error *err);
/* samples:count is CPU time here, where it is known what a sample stands for: the period, or 0. */
bool parca_counts_samples(const char *type, const char *unit);

int parca_write_time(struct buffer *out, uint32_t field, int64_t ns); /* google.protobuf.Timestamp and Duration */
int parca_write_type(struct buffer *out, uint32_t field, const struct profile_type *type);

/* A row for each of a service's paths, also below /api, where Parca's page looks for them. */
#define PARCA_METHOD(path_, ...)                                                                                               \
	{path_, __VA_ARGS__},                                                                                                  \
	{                                                                                                                      \
		"/api" path_, __VA_ARGS__                                                                                      \
	}

/* parca/messages.c: for clients that speak JSON. */
extern const struct pb_json_message parca_empty, parca_types_request, parca_types_answer, parca_labels_request,
	parca_labels_answer, parca_values_request, parca_values_answer, parca_range_request, parca_range_answer,
	parca_query_request, parca_query_answer, parca_has_data_answer, parca_share_profile_request, parca_share_profile_answer,
	parca_upload_request, parca_upload_answer, parca_share_query_request, parca_share_query_answer,
	parca_share_types_request, parca_share_types_answer, parca_targets_request, parca_targets_answer, parca_agents_answer;

#endif
