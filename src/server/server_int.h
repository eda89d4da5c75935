/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside src/server. */
#ifndef WICK_SERVER_SERVER_INT_H
#define WICK_SERVER_SERVER_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock_steps.h"
#include "codec/json.h"
#include "net/net.h"
#include "query/query.h"
#include "server/forward.h"
#include "server/link.h"
#include "server/server.h"
#include "store/store.h"
#include "symbol/debuginfod.h"
#include "symbol/symbol.h"
#include "symbol/uploads.h"
#include "symbol/worker.h"

#define PATH_BYTES_MAX		4096
#define SYMBOLS_WAIT_DEFAULT_NS (250 * NS_PER_MS) /* how long an answer is held up by names that are being looked up */

/* Why something was not stored: names of limits where it was one. */
enum refusal {
	REFUSED_BYTES_RATE,
	REFUSED_SAMPLES_RATE,
	REFUSED_BODY,
	REFUSED_SERIES,
	REFUSED_LABELS,
	REFUSED_VALUE,
	REFUSED_STACKS,
	REFUSED_TENANTS,
	REFUSED_PROFILE_SIZE,
	REFUSED_DISK,
	REFUSED_MALFORMED,
	REFUSED_INVALID,
	REFUSED_OTHER,
	REFUSALS
};
extern const char *const refusal_names[REFUSALS];
struct refusal_note {
	enum refusal reason;
	unsigned retry_after_s; /* 0 = as usual for the reason */
};

/* Counters shown by /metrics: of the server, and of each tenant. */
struct server_counters {
	atomic_uint_fast64_t ingest_requests, ingest_refused, ingest_profiles, ingest_samples, ingest_bytes, ingest_duplicates;
	atomic_uint_fast64_t ingest_samples_refused;		 /* of profiles that were stored otherwise */
	atomic_uint_fast64_t ingest_partial, refusals[REFUSALS]; /* refusals: of requests and of profiles in them */
	atomic_uint_fast64_t lost_profiles, lost_samples;	 /* by senders, as they say */
	atomic_uint_fast64_t queries, query_failures, query_ns_total, query_ns_max, query_rows;
	atomic_uint_fast64_t query_cancelled, query_partial, query_slow;
	atomic_uint_fast64_t binaries_offered, binaries_refused;
	atomic_uint_fast64_t views, view_failures; /* of files that are shown or converted; the server's only */
};

struct recordings; /* recordings.h */
struct windows;	   /* windows.h */
struct agents;	   /* agents.h */
struct snapshots;  /* snapshots.h */
/* ---- tenant.c ---- */
#define TENANT_HEADER	"x-scope-orgid"
#define TENANT_NAME_MAX 150
struct bucket {
	double tokens; /* below 0: debt */
	int64_t filled_ns;
};
struct tenant {
	char name[TENANT_NAME_MAX + 1];
	bool is_default;
	struct server_limits limits;
	struct store *store;				       /* atomic; NULL until opened, then for ever */
	struct recordings *recordings;			       /* opened with the store */
	struct windows *windows;			       /* the same; markers that agents send all the time */
	struct agents *agents;				       /* how they are; in memory only */
	struct snapshots *snapshots;			       /* opened with the store */
	pthread_mutex_t open_lock, bucket_lock, settings_lock; /* settings_lock: pyroscope_settings.c */
	struct bucket bytes, samples;			       /* bucket_lock */
	uint64_t queries_seen;				       /* the watch thread's: so many when it looked last, */
	int64_t active_ns;				       /* and the last time that there were more */
	struct server_counters counters;
};

/* ---- slow.c ---- */
#define SLOW_KEPT	32
#define SLOW_TEXT_BYTES 1024
struct slow_query {
	int64_t at_ns, took_ns; /* when it ended */
	char tenant[TENANT_NAME_MAX + 1], path[80], text[SLOW_TEXT_BYTES], problem[ERROR_MESSAGE_MAX];
	bool partial;
	struct query_stats stats;
};

#define OTLP_PORTS 2
struct server {
	struct server_options options; /* strings copied below */
	char *data_directory, *token;
	char listen_host[256];
	bool loopback_only;
	struct symbolizer *symbolizer;
	struct uploads *uploads;
	struct debuginfod *debuginfod; /* NULL = no servers */
	char debuginfod_problem[ERROR_MESSAGE_MAX];
	struct symbol_worker_options symbol_worker;
	struct store_retention_rule *rules; /* contexts are selectors, owned */
	pthread_mutex_t tenants_lock;
	struct tenant *default_tenant; /* needs no lock */
	struct tenant **tenants;       /* entries stay until the end, the array moves */
	size_t tenant_count, tenant_capacity;
	pthread_mutex_t compact_turn; /* one store compacts at a time */
	pthread_t watch_thread;
	pthread_cond_t watch_wake; /* tenants_lock */
	bool watch_running, watch_stop;
	pthread_mutex_t slow_lock;
	struct slow_query *slow; /* a ring of SLOW_KEPT */
	size_t slow_count;	 /* ever */
	struct net_tls *tls;	 /* NULL = none */
	struct scrape *scrape;	 /* NULL = there is nothing to scrape, nor a file that could change */
	struct net_server *net;
	struct otlp_port *otlp_ports[OTLP_PORTS]; /* NULL = none */
	struct net_route *routes;
	int64_t started_ns; /* monotonic */
	struct server_counters counters;
	struct forward *forward;  /* NULL = nothing is forwarded */
	atomic_size_t write_held; /* bytes that streams of Parca's Write wait with */

	pthread_mutex_t recordings_turn; /* one profile of several hosts is made at a time */
	pthread_mutex_t view_turn;	 /* one file that somebody brings is read at a time */
	int link_fd;
	pthread_t link_thread;
	bool link_running;
	pthread_mutex_t agent_lock;
	bool agent_seen; /* agent_stats below are valid */
	struct link_stats agent_stats;
	/* Of the wall clock here, which agents compare theirs with; agent_lock. */
	uint64_t clock_number;
	struct clock_steps clock_steps;
	unsigned clock_step_count;
};

int tenants_open(struct server *server, struct error *err);
void tenants_close(struct server *server);
/* -EBADMSG a bad name, -ENOENT none of that name unless `create`, -EDQUOT too many. The tenant's store is open. */
int tenant_of_request(struct server *server, const struct net_request *request, bool create, struct tenant **ret,
		      struct error *err);
/* The same by name; NULL is the default tenant. */
int tenant_by_name(struct server *server, const char *name, bool create, struct tenant **ret, struct error *err);
/* Whether what is a tenant's by name, NULL being the default one, is that of the request: there may be nothing stored for it
 * yet. Without tenants everything is everybody's. */
bool tenant_owns(const struct server *server, const struct net_request *request, const char *name);
uint64_t tenant_fair_key(void *context, const struct net_request *request); /* net_server_options.fair_key */
/* A file of the tenant's directory. */
int tenant_path(const struct server *server, const struct tenant *tenant, const char *name, char *out, size_t size,
		struct error *err);
/* An array of those that there are now, to be freed; 0 and NULL without memory. */
size_t tenants_snapshot(struct server *server, struct tenant ***ret);

/* ---- limits.c ---- */
/* Before decoding: -E2BIG, -EDQUOT. */
int limits_admit(struct tenant *tenant, size_t body_bytes, struct refusal_note *note, struct error *err);
void limits_pay_samples(struct tenant *tenant, uint64_t samples);
/* -EINVAL when the profile holds what the tenant's limits exclude. base: labels of the request, may be NULL. */
int limits_check_profile(const struct tenant *tenant, const struct profile *profile, const struct labels *base,
			 struct refusal_note *note, struct error *err);
void limits_of_query(const struct tenant *tenant, struct query *ret); /* what it may read */
enum refusal refusal_of(int code);				      /* for a failure that no limit here caused */
void refusal_headers(struct net_response *response, int code, const struct refusal_note *note);
unsigned bucket_check(struct bucket *bucket, uint64_t rate, uint64_t burst, int64_t now_ns);
void bucket_pay(struct bucket *bucket, uint64_t amount);

/* Adds to a query's account: counters of server and tenant, the log and the list of slow ones. tenant and err may be NULL. */
void query_account(struct server *server, struct tenant *tenant, const struct net_request *request,
		   const struct query_stats *stats, int64_t took_ns, int r, const struct error *err);
void api_slow(void *context, const struct net_request *request, struct net_response *response);

/* Each area's handlers; context is the struct server. */
#define INGEST_OTLP_HTTP_PATH "/v1development/profiles"
#define INGEST_OTLP_GRPC_PATH "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
#define INGEST_PATH	      "/api/v1/ingest"
#define PARCA_PROFILES_PATH   "/parca.profilestore.v1alpha1.ProfileStoreService/"
#define INGEST_PARCA_PATH     PARCA_PROFILES_PATH "WriteRaw"
#define INGEST_ARROW_PATH     PARCA_PROFILES_PATH "WriteArrow"
#define INGEST_WRITE_PATH     PARCA_PROFILES_PATH "Write"
#define INGEST_PUSH_PATH      "/push.v1.PusherService/Push"
/* For struct net_server_options: what the network layer refuses on OTLP's path is answered in OTLP's form. */
void ingest_on_refusal(void *context, const struct net_request *request, struct net_response *response);
int otlp_ports_open(struct server *server, struct error *err);
void otlp_ports_close(struct server *server);
void otlp_on_refusal(const struct net_request *request, struct net_response *response);
void ingest_otlp_http(void *context, const struct net_request *request, struct net_response *response);
void ingest_otlp_grpc(void *context, const struct net_request *request, struct net_response *response);
void pyroscope_ingest(void *context, const struct net_request *request, struct net_response *response);
void pyroscope_respond(struct net_response *response, int status, const char *text); /* {"code", "message"} */
void ingest_profile(void *context, const struct net_request *request, struct net_response *response);
void api_types(void *context, const struct net_request *request, struct net_response *response);
void api_labels(void *context, const struct net_request *request, struct net_response *response);
void api_label_values(void *context, const struct net_request *request, struct net_response *response);
void api_services(void *context, const struct net_request *request, struct net_response *response);
void api_cardinality(void *context, const struct net_request *request, struct net_response *response);
void api_diff(void *context, const struct net_request *request, struct net_response *response);
void api_compare(void *context, const struct net_request *request, struct net_response *response);
void api_pipeline(void *context, const struct net_request *request, struct net_response *response);
void api_blocks(void *context, const struct net_request *request, struct net_response *response);
void api_delete(void *context, const struct net_request *request, struct net_response *response);
void api_compact(void *context, const struct net_request *request, struct net_response *response);
void api_series(void *context, const struct net_request *request, struct net_response *response);
void api_source(void *context, const struct net_request *request, struct net_response *response);
void api_asm(void *context, const struct net_request *request, struct net_response *response);
void api_query(void *context, const struct net_request *request, struct net_response *response);
void api_pprof(void *context, const struct net_request *request, struct net_response *response);
void pyroscope_render(void *context, const struct net_request *request, struct net_response *response);
void pyroscope_render_diff(void *context, const struct net_request *request, struct net_response *response);
void pyroscope_render_label_values(void *context, const struct net_request *request, struct net_response *response);
void pyroscope_render_labels(void *context, const struct net_request *request, struct net_response *response);
void openapi_show(void *context, const struct net_request *request, struct net_response *response);
void buildinfo_show(void *context, const struct net_request *request, struct net_response *response);
void api_status(void *context, const struct net_request *request, struct net_response *response);
void metrics_show(void *context, const struct net_request *request, struct net_response *response);
void health_show(void *context, const struct net_request *request, struct net_response *response);
void assets_show(void *context, const struct net_request *request, struct net_response *response);
#define DEBUGINFO_PIECE_MAX (4ull * 1024 * 1024)
void api_agent_poll(void *context, const struct net_request *request, struct net_response *response);
void api_agents(void *context, const struct net_request *request, struct net_response *response);
void api_window_put(void *context, const struct net_request *request, struct net_response *response);
void api_windows(void *context, const struct net_request *request, struct net_response *response);
void api_windows_profile(void *context, const struct net_request *request, struct net_response *response);
void api_windows_remove(void *context, const struct net_request *request, struct net_response *response);
void api_markers(void *context, const struct net_request *request, struct net_response *response);
void api_recordings(void *context, const struct net_request *request, struct net_response *response);
void api_recording_create(void *context, const struct net_request *request, struct net_response *response);
void api_recording_show(void *context, const struct net_request *request, struct net_response *response);
void api_recording_put(void *context, const struct net_request *request, struct net_response *response);
void api_recording_remove(void *context, const struct net_request *request, struct net_response *response);
void api_view(void *context, const struct net_request *request, struct net_response *response);
void api_convert(void *context, const struct net_request *request, struct net_response *response);
#define SNAPSHOTS_PATH "/api/v1/snapshots"
void api_snapshot_create(void *context, const struct net_request *request, struct net_response *response);
void api_snapshots(void *context, const struct net_request *request, struct net_response *response);
void api_snapshot_show(void *context, const struct net_request *request, struct net_response *response);
void api_snapshot_remove(void *context, const struct net_request *request, struct net_response *response);
void api_binaries(void *context, const struct net_request *request, struct net_response *response);
void api_binary_retry(void *context, const struct net_request *request, struct net_response *response);
void api_debuginfo_wanted(void *context, const struct net_request *request, struct net_response *response);
void api_upload_begin(void *context, const struct net_request *request, struct net_response *response);
void api_upload_write(void *context, const struct net_request *request, struct net_response *response);
void api_upload_finish(void *context, const struct net_request *request, struct net_response *response);
void api_upload_abort(void *context, const struct net_request *request, struct net_response *response);
#define PARCA_DEBUGINFO_PATH "/parca.debuginfo.v1alpha1.DebuginfoService/"
void parca_should_initiate(void *context, const struct net_request *request, struct net_response *response);
void parca_initiate(void *context, const struct net_request *request, struct net_response *response);
extern const struct net_stream_handler parca_upload, parca_write;
void parca_finished(void *context, const struct net_request *request, struct net_response *response);
void debuginfo_on_arrival(void *context, const char *build_id, enum upload_kind kind); /* uploads_options.on_arrival */
/* symbols.c: opens and closes server->symbolizer and what it takes from. The first before threads are started: it sets
 * environment variables, which a library reads. */
int symbols_open_debuginfod(struct server *server, struct error *err);
int symbols_open(struct server *server, struct error *err);
void symbols_close(struct server *server);
/* Tells the symbolizer which binaries a stored profile has no names of. */
void symbols_note(struct server *server, const struct profile *profile);
bool access_authorize(void *context, const struct net_request *request, struct net_response *response);

/* Checks the listen address against token and insecure; fills listen_host and loopback_only. */
/* A further address: as open to other machines as the first, or less. */
int access_check_listen(const struct server *server, const char *listen, struct error *err);
int access_check_options(struct server *server, struct error *err);
/* Whether the request may change what is stored: whoever has the token may; without one only this machine, since anybody else
 * who reaches the port could. -EACCES. */
int access_may_change(const struct server *server, const struct net_request *request, struct error *err);
int link_thread_start(struct server *server, struct error *err);
void link_thread_stop(struct server *server);

/* Answers with {"error": text} and a status. */
void respond_error(struct net_response *response, int status, const char *text);
/* The same in the form of Connect and of Pyroscope: {"code": code, "message": text}. */
void respond_code(struct net_response *response, int status, const char *code, const char *text);
/* The largest body of a request, and message in one after decompression. */
size_t server_body_max(const struct server *server);
/* The HTTP status for a negative errno of ingest or query. */
int http_status_of(int code);
enum grpc_code grpc_code_of(int code);

#endif
