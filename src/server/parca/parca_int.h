/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that answer as Parca does. */
#ifndef WICK_SERVER_PARCA_PARCA_INT_H
#define WICK_SERVER_PARCA_PARCA_INT_H

#include "base/alloc.h"
#include "server/http/rpc.h"
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
/* All requests of the service: a message has some of this. */
struct parca_request {
	struct bytes message;
	int64_t start_ns, end_ns, step_ns;
	const char *type, *name, *query; /* "" = not there */
	struct rpc_list list, groups;
	uint64_t limit, mode, report;
	struct parca_selection selection, base;
	bool is_diff, absolute;
	float threshold; /* percent of the total that a node must have; 0 = none */
};
int parca_report(struct parca *p, const struct parca_request *in, struct error *err);

/* parca/messages.c: for clients that speak JSON. */
extern const struct pb_json_message parca_empty, parca_types_request, parca_types_answer, parca_labels_request,
	parca_labels_answer, parca_values_request, parca_values_answer, parca_range_request, parca_range_answer,
	parca_query_request, parca_query_answer, parca_has_data_answer;

#endif
