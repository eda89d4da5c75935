/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the ingest paths: one request on its way to the store. */
#ifndef WICK_SERVER_INGEST_INGEST_INT_H
#define WICK_SERVER_INGEST_INGEST_INT_H

#include "base/cancel.h"
#include "base/hash.h"
#include "server/core/server_int.h"
#include "server/ingest/routes.h"

/* A client's name for what it sends, the same when it sends that again. */
#define INGEST_KEY_HEADER    "Idempotency-Key"
#define INGEST_KEY_BYTES_MAX 255

/* Where profiles come in. */
#define INGEST_OTLP_HTTP_PATH "/v1development/profiles"
#define INGEST_OTLP_GRPC_PATH "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
#define INGEST_PATH	      "/api/v1/ingest"
#define PARCA_PROFILES_PATH   "/parca.profilestore.v1alpha1.ProfileStoreService/"
#define INGEST_PARCA_PATH     PARCA_PROFILES_PATH "WriteRaw"
#define INGEST_ARROW_PATH     PARCA_PROFILES_PATH "WriteArrow"
#define INGEST_WRITE_PATH     PARCA_PROFILES_PATH "Write"
#define INGEST_PUSH_PATH      "/push.v1.PusherService/Push"
/* What is not stored. */
#define OTLP_LOGS_PATH	       "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
#define OTLP_TRACES_PATH       "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
#define OTLP_METRICS_PATH      "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
#define OTLP_HTTP_LOGS_PATH    "/v1/logs"
#define OTLP_HTTP_TRACES_PATH  "/v1/traces"
#define OTLP_HTTP_METRICS_PATH "/v1/metrics"

/* One request on its way in. */
struct ingest {
	struct server *server;
	struct tenant *tenant;	      /* NULL until known */
	const atomic_bool *cancelled; /* of the request: polled between profiles; NULL = never */
	struct bytes body;
	struct hash128 hash; /* of the body; 0 = not made yet */
	uint64_t salt;	     /* what besides the body makes a request itself: a hash, 0 = nothing */
	uint64_t attempt;    /* of Idempotency-Key: a hash, 0 = none */
	uint64_t profiles, samples, series, duplicates;
	uint64_t numbers_dropped;    /* samples that were stored without their numbers */
	uint64_t rejected;	     /* profiles of it that were not stored, and never will be */
	uint64_t rejected_samples;   /* of profiles, whether the rest was stored or there was none */
	uint64_t late, future;	     /* of these: too old, too far in the future; */
	uint64_t over_series;	     /* of series that the limit left out; the others are in unknown columns */
	uint64_t series_refused;     /* how many series, each profile counted by itself */
	uint64_t rejected_part;	     /* profiles, of the rejected ones, that had no other samples than such */
	int64_t least_ns;	     /* what was before this is too old */
	size_t series_max;	     /* the limit that left series out */
	bool any_over_series;	     /* one of the rejected profiles had all of its samples left out by it */
	bool counted;		     /* all profiles were rejected: the failure is in the counts already */
	struct refusal_note note;    /* of the failure, or of the profile at hand; REFUSALS = what its code says */
	struct refusal_note first;   /* of the first that was rejected */
	char why[ERROR_MESSAGE_MAX]; /* of the first that was rejected */
};

/* Finds the tenant, and asks its limits. body: what counts against them; equal bodies are one (see ingest.c). */
int ingest_begin(struct ingest *ingest, struct server *server, const struct net_request *request, struct bytes body,
		 struct error *err);
/* name: first part of the profile types, NULL = guessed; labels of the request, may be NULL; index tells profiles of a body
 * apart. -EINVAL: it can never be stored; -EDQUOT with the reason REFUSED_SERIES: all of its series are too many; -ECANCELED:
 * nobody waits for it. */
int ingest_store(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
		 size_t index, struct error *err);
/* What was made here of a profile that was stored: it is not counted, nor checked again, nor forwarded. */
int ingest_store_derived(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
			 size_t index, struct error *err);
/* ingest_pprof.c: the first part of the profile types that a pprof of this name has; NULL as it is. A part of `name`. */
const char *ingest_pprof_name(const char *name);
/* Makes a pprof that is pushed or scraped under that name, before it is stored, what it is to Pyroscope: labels that say a span
 * (span_id, profile_id, trace_id) become links, numeric ones the numbers of samples, and the duration is as the name has it. */
int ingest_take_pprof(struct profile *profile, const char *name, struct error *err);
/* Of another pprof only the numbers; ids of processes and threads stay labels. */
int ingest_take_numbers(struct profile *profile, struct error *err);
/* The same for one of several: a profile that can never be stored must not keep those beside it from being stored, nor have
 * them sent again. It is counted and its message kept, and the others go on: 0 for it, too. */
int ingest_store_next(struct ingest *ingest, const struct profile *profile, const char *name, const struct labels *labels,
		      size_t index, struct error *err);
/* ingest_agents.c. The same for what profilers of whole machines send: beside counts of samples, their CPU time. The profile is
 * changed. */
int ingest_store_counted(struct ingest *ingest, struct profile *profile, const char *name, const struct labels *labels,
			 size_t index, struct error *err);
/* ingest_hosts.c. What the profile says of its host becomes labels of that, and none of its series; on disk when it returns. */
int ingest_take_host(struct ingest *ingest, struct profile *profile, struct error *err);
/* Samples without a service get one of their executable's name. -ENOMEM, -E2BIG. */
int ingest_name_services(struct profile *profile, struct error *err);
/* Mappings that are named by the last component of the executable's path get all of it. -ENOMEM, -E2BIG. */
int ingest_place_executable(struct profile *profile, struct error *err);
/* Such a profile that has not come as far. */
void ingest_reject(struct ingest *ingest, const struct error *err);
/* What all of them come to, r being the result so far: if none was stored because all were rejected, -EDQUOT where the limit of
 * series was the reason for one, since that one may be sent again, else -EINVAL. */
int ingest_finish_all(struct ingest *ingest, int r, const char *what, struct error *err);
/* Once for each ingest_begin(), with what it came to. Afterwards ingest->note says why a failure was one. */
void ingest_count(struct ingest *ingest, int r);
/* The text of a partial success; NULL if there is nothing to say. */
const char *ingest_warning(struct ingest *ingest);
/* For protocols whose answers have no room for one: says in a header how many profiles and samples were rejected, if some
 * were. */
void ingest_warn(const struct ingest *ingest, struct net_response *response);

/* A request of series, each with labels and pprofs: Pyroscope's push and Parca's WriteRaw (pyroscope/push.c). */
struct rpc_call;
struct raw_series {
	uint32_t field;	   /* of the series in the request */
	const char *what;  /* for messages */
	bool label_sets;   /* labels are in a message of their own */
	bool normalized;   /* addresses are the file's as linked */
	bool of_pyroscope; /* ingest_take_pprof() */
};
int ingest_raw_series(const struct raw_series *form, struct rpc_call *call, struct bytes request, struct error *err);

/* A record of Parca's samples, and of their locations unless the samples have them (format/parca_arrow.h). The answer has the
 * headers of a failure. */
int ingest_parca_arrow(struct server *server, const struct net_request *request, struct bytes samples, struct bytes locations,
		       struct net_response *response, struct error *err);

/* For struct net_server_options: what the network layer refuses on a path of ingest is answered in the form of its protocol. */
extern net_handler_function ingest_on_refusal;
int otlp_ports_open(struct server *server, struct error *err);
void otlp_ports_close(struct server *server);
void otlp_on_refusal(const struct net_request *request, struct net_response *response);

#endif
