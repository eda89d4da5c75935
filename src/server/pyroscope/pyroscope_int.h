/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that answer as Pyroscope does: its query service, and the calls under /pyroscope/. */
#ifndef WICK_SERVER_PYROSCOPE_PYROSCOPE_INT_H
#define WICK_SERVER_PYROSCOPE_PYROSCOPE_INT_H

#include "base/arena.h"
#include "base/intern.h"
#include "render/flamebearer.h"
#include "server/core/server_int.h"
#include "server/http/rpc_read.h"
#include "server/pyroscope/profile_id.h"
#include "server/pyroscope/routes.h"

#define PYROSCOPE_LIST_MAX	1000 /* texts in one list of a request */
#define PYROSCOPE_NODES_DEFAULT 8192
#define PYROSCOPE_NODES_MAX	(1024 * 1024)

/* All requests of the service: a message has some of this. */
struct pyroscope_request {
	int64_t start, end; /* ms; end included */
	int64_t max_nodes, limit;
	uint64_t format, aggregation, exemplars, heatmap;
	double step;			    /* s */
	const char *type, *selector, *name; /* "" = not there */
	struct rpc_list matchers, labels, profiles, traces, spans, call_site;
	bool pgo, pgo_callees;
	uint64_t pgo_keep; /* locations; 0 = all */
	bool any_type;	   /* no type of its own: the selector may have one */
	struct bytes left, right;
};
enum { PYROSCOPE_FLAMEGRAPH_UNSPECIFIED, PYROSCOPE_FLAMEGRAPH, PYROSCOPE_TREE, PYROSCOPE_DOT, PYROSCOPE_PPROF };

/* One call on its way. */
struct pyroscope {
	struct server *server;
	struct tenant *tenant;
	const struct net_request *request; /* NULL = none, in the background */
	struct net_response *response;	   /* for headers; likewise */
	struct arena arena;
	struct query query;	       /* limits and cancellation; range and selection by pyroscope_select() */
	struct query_matcher links[2]; /* of the query: spans and traces */
	struct pyroscope_profile_id ids[PYROSCOPE_IDS_MAX]; /* of pyroscope_select(), by time */
	size_t id_count;
	struct query_stats stats;
	int64_t started_ns;
	bool unimplemented;   /* why it failed */
	bool has_headers;     /* those that say what the response is of have been added */
	struct budget budget; /* in the background; otherwise it is the response's */
};
int pyroscope_init(struct pyroscope *p, struct server *server, const struct net_request *request, struct net_response *response,
		   int64_t timeout_ns, struct error *err);
/* The same without a request: in the background, with the longest deadline. */
void pyroscope_init_background(struct pyroscope *p, struct server *server, struct tenant *tenant, const atomic_bool *cancel);
/* Keeps the account of the call and adds its headers; r is its outcome, and returned, unless the query had to end by its
 * budget. */
int pyroscope_finish(struct pyroscope *p, int r, struct error *err);
/* Into the body of the response, which is sent while it is written, as call_json() and call_sink() of server/api. */
struct format_sink;
struct json_writer pyroscope_json(struct pyroscope *p);
struct format_sink pyroscope_sink(struct pyroscope *p);

/* Texts live in p->arena, of which alone it makes use. form: of the request (pyroscope/messages.c). -EBADMSG, -EINVAL. */
int pyroscope_parse(struct pyroscope *p, struct bytes message, const struct pb_json_message *form,
		    struct pyroscope_request *ret, struct error *err);

/* A type as the store's queries take it: one with five parts is that of absolute and of delta values, since these clients do
 * not know the difference. -EINVAL: it is none. */
int pyroscope_take_type(struct pyroscope *p, const char *text, const char **ret, struct error *err);
/* TYPE{matchers} where TYPE is whole; whatever else a selector may be stays one. */
int pyroscope_split_query(struct pyroscope *p, const char *text, struct pyroscope_request *ret, struct error *err);
/* The type and the selector of a request, and its range, which must be there. */
int pyroscope_select(struct pyroscope *p, const struct pyroscope_request *in, struct error *err);
/* A profile of what a request selects, with names; stacks are those below its call site. */
int pyroscope_merge(struct pyroscope *p, const struct pyroscope_request *in, struct profile **ret, struct error *err);
/* Such a profile as it is wanted in pprof: with max_nodes, or for Go's PGO (pyroscope/shape.c). */
int pyroscope_shape(struct profile *profile, const struct pyroscope_request *in, struct error *err);
/* How many nodes are asked for. -EINVAL: too many. */
int pyroscope_nodes(int64_t asked, size_t *ret, struct error *err);
int pyroscope_flame(struct pyroscope *p, const struct pyroscope_request *in, size_t nodes_max, struct flame **ret,
		    struct error *err);
/* Appends a graph for Graphviz, of about max_nodes functions (0 = 100); nothing when there are no samples. */
int pyroscope_dot(struct pyroscope *p, const struct pyroscope_request *in, struct buffer *out, struct error *err);
int pyroscope_diff(struct pyroscope *p, const struct pyroscope_request *left, const struct pyroscope_request *right,
		   struct diff **ret, struct error *err);

enum { PYROSCOPE_EXEMPLARS_UNSPECIFIED, PYROSCOPE_EXEMPLARS_NONE, PYROSCOPE_EXEMPLARS_PROFILES, PYROSCOPE_EXEMPLARS_SPANS };

/* A request of SelectMergeStacktraces that is to run in the background, or a poll of one: 1, and out has the response; 0: it is
 * neither. */
struct rpc_call;
int pyroscope_async_call(struct rpc_call *call, struct bytes request, struct buffer *out, struct error *err);
/* One that runs there. partial: why the response is; "" = it is not. */
int pyroscope_run_stacktraces(struct server *server, struct tenant *tenant, struct bytes request, const atomic_bool *cancel,
			      struct buffer *out, char *partial, size_t partial_size, struct error *err);

/* A flamebearer in JSON, as /render and ad hoc profiles have it: begin, the metadata, other members, end. format: "single",
 * "double". */
void pyroscope_begin_flamebearer(struct json_writer *json, const struct flamebearer *flamebearer);
void pyroscope_write_metadata(struct json_writer *json, const char *format, const char *type, const char *unit);
/* Without a timeline. */
int pyroscope_end_flamebearer(struct json_writer *json, const struct flamebearer *flamebearer, struct error *err);

/* Values over time: a point stands for the step that ends with it. By rising labels, or, with a limit, by falling total. */
struct pyroscope_point {
	int64_t time_ms;
	double value;
	uint32_t exemplar; /* of series->points, and 1; 0 = none */
};
struct pyroscope_row {
	struct labels labels;
	struct pyroscope_point *points;
	size_t count;
	double total;
};
struct pyroscope_series {
	struct pyroscope_row *rows;
	size_t count;
	struct profile_type type;
	struct query_points points; /* profiles: of averages, and if exemplars are wanted */
};
int pyroscope_series(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_series *ret, struct error *err);
void pyroscope_series_release(struct pyroscope_series *series);

/* Names without doubles, sorted. */
struct pyroscope_names {
	struct intern texts; /* what items point into */
	const char **items;
	size_t count;
};
void pyroscope_names_release(struct pyroscope_names *names);
int pyroscope_names_init(struct pyroscope_names *names, struct error *err);
int pyroscope_names_add(struct pyroscope_names *names, const char *text, struct error *err);
int pyroscope_names_finish(struct pyroscope_names *names, struct error *err);
/* Parts of answers, Parca's as well, each field 1: repeated strings, { 1 name  2 value }, and this repeated. */
int pyroscope_write_names(const struct pyroscope_names *names, struct buffer *out, struct error *err);
int pyroscope_write_label(struct buffer *out, const char *name, const char *value);
int pyroscope_write_labels(struct buffer *out, const struct labels *labels);
/* Profile types as these clients write them: without ":delta". */
int pyroscope_types(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret, struct error *err);
int pyroscope_label_names(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret,
			  struct error *err);
int pyroscope_label_values(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_names *ret,
			   struct error *err);
/* Label sets of what any of the matchers selects, without doubles, sorted. */
int pyroscope_label_sets(struct pyroscope *p, const struct pyroscope_request *in, struct query_label_sets *ret,
			 struct error *err);
/* A value's place in a distribution over time. */
#define PYROSCOPE_HEATMAP_ROWS 20
struct pyroscope_slot {
	int64_t time_ms; /* when it ends */
	int32_t counts[PYROSCOPE_HEATMAP_ROWS];
	uint32_t exemplars[PYROSCOPE_HEATMAP_ROWS]; /* as of points */
};
struct pyroscope_heatmap {
	struct labels *groups;
	struct pyroscope_slot **slots; /* by group, then time */
	size_t *slot_counts;
	size_t group_count;
	double rows[PYROSCOPE_HEATMAP_ROWS]; /* their least values */
	struct query_points points;	     /* what the slots count */
};
int pyroscope_heatmap(struct pyroscope *p, const struct pyroscope_request *in, struct pyroscope_heatmap *ret,
		      struct error *err);
void pyroscope_heatmap_release(struct pyroscope_heatmap *heatmap);

#endif
