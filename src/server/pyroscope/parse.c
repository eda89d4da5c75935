/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Pyroscope's query service: where each field goes. Numbers and kinds are in pyroscope/messages.c. */
#include "server/http/rpc_read.h"
#include "server/pyroscope/pyroscope_int.h"

#define IN(member) offsetof(struct pyroscope_request, member)

static const struct rpc_member pgo_members[] = {{"keepLocations", IN(pgo_keep)}, {"aggregateCallees", IN(pgo_callees)}, {0}};
static const struct rpc_member stack_members[] = {
	{"callSite", IN(call_site), RPC_LIST}, {"goPgo", IN(pgo), RPC_GIVEN}, {"goPgo", 0, RPC_WITHIN, pgo_members}, {0}};

static const struct rpc_member members[] = {
	{"start", IN(start)},
	{"end", IN(end)},
	{"maxNodes", IN(max_nodes)},
	{"format", IN(format)},
	{"aggregation", IN(aggregation)},
	{"limit", IN(limit)},
	{"exemplarType", IN(exemplars)},
	{"queryType", IN(heatmap)},
	{"step", IN(step)},
	{"profileTypeID", IN(type)},
	{"labelSelector", IN(selector)},
	{"query", IN(selector)},
	{"name", IN(name)},
	{"matchers", IN(matchers), RPC_LIST},
	{"labelNames", IN(labels), RPC_LIST},
	{"groupBy", IN(labels), RPC_LIST},
	{"profileIdSelector", IN(profiles), RPC_LIST},
	{"traceIdSelector", IN(traces), RPC_LIST},
	{"spanSelector", IN(spans), RPC_LIST},
	{"stackTraceSelector", 0, RPC_WITHIN, stack_members},
	{"left", IN(left), RPC_BYTES},
	{"right", IN(right), RPC_BYTES},
	{0},
};

int pyroscope_parse(struct pyroscope *p, struct bytes message, const struct pb_json_message *form,
		    struct pyroscope_request *ret, struct error *err)
{
	const struct rpc_reader reader = {members, &p->arena, PYROSCOPE_LIST_MAX};
	*ret = (struct pyroscope_request){.type = "", .selector = "", .name = ""};
	return rpc_read(&reader, message, form, ret, err);
}
