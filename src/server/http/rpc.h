/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote procedure calls: one row a method, served over gRPC, gRPC-Web and Connect. A handler sees protobuf and nothing of the
 * protocol. Essay at the top of rpc.c.
 */
#ifndef WICK_SERVER_HTTP_RPC_H
#define WICK_SERVER_HTTP_RPC_H

#include "codec/protobuf_json.h"
#include "server/core/server_int.h"

enum rpc_flags {
	RPC_SLOW = 1,	   /* as struct net_route's: it runs beside ingest, and takes turns */
	RPC_READ_ONLY = 2, /* changes nothing: Connect's GET is served, too */
};
struct rpc_method;
struct rpc_call {
	struct server *server;
	const struct rpc_method *method;
	const struct net_request *request; /* headers, cancellation; not the body */
	struct net_response *response;	   /* for net_response_header() only */
	int64_t timeout_ns;		   /* what the client said it waits; 0 = nothing */
	enum grpc_code code;		   /* of a failure, if grpc_code_of() is not right; GRPC_OK = that one */
};
struct rpc_method {
	const char *path;	    /* "/querier.v1.QuerierService/ProfileTypes"; the last row of a table has NULL */
	enum permission permission; /* what a caller needs */
	const struct pb_json_message *request, *answer; /* for clients that speak JSON */
	/*
	 * request: the message in protobuf. out: the answer, appended; its content after a failure does not matter. 0 or
	 * negative with a message; the client gets grpc_code_of() of it, or call->code. The tenant is the handler's to find
	 * (tenant_of_request()).
	 */
	int (*handler)(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err);
	unsigned flags; /* enum rpc_flags */
};

/* For the outcome of writing an answer: says what is wrong, if something is. */
int rpc_too_large(int r, struct error *err);

/* The tables; server.c lists them. NULL after the last. */
extern const struct rpc_method *const rpc_services[];
extern const struct rpc_method rpc_parca_profiles[], rpc_pyroscope_push[], rpc_pyroscope_query[], rpc_pyroscope_settings[],
	rpc_pyroscope_rules[], rpc_pyroscope_status[], rpc_pyroscope_adhoc[], rpc_pyroscope_vcs[], rpc_parca_query[],
	rpc_parca_share[], rpc_parca_targets[];

/* How many routes there are, and the routes, without context. */
size_t rpc_route_count(void);
void rpc_add_routes(struct net_route *routes);
/* Whether a page of another site may call this path once it gives the token by itself. */
bool rpc_is_for_pages(const char *path);
/* An answer of the network layer's own, in the form that the client of a method understands; also that there is no such method.
 * False: not a method's path, or gRPC, whose form it has already. */
bool rpc_on_refusal(const struct net_request *request, struct net_response *response);

#endif
