/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the scraper (scrape.h). */
#ifndef WICK_SERVER_SCRAPE_SCRAPE_INT_H
#define WICK_SERVER_SCRAPE_SCRAPE_INT_H

#include <stdatomic.h>

#include "base/cancel.h"
#include "base/map.h"
#include "base/thread.h"
#include "profile/labels.h"
#include "server/core/server_int.h"
#include "server/scrape/routes.h"
#include "server/scrape/scrape.h"
#include "server/scrape/scrape_http.h"

#define SCRAPE_TARGETS_DEFAULT	   20000
#define SCRAPE_CONCURRENCY_DEFAULT 1024
#define SCRAPE_BYTES_DEFAULT	   (256 * MIB) /* answers being read, of all targets */
#define SCRAPE_STACKS_MAX	   200000      /* remembered of one target */
#define SCRAPE_STACKS_BYTES_MAX	   (512 * MIB) /* remembered of all */
#define SCRAPE_DECODERS		   2	       /* profiles in memory at a time */
#define SCRAPE_LABEL_SETS_MAX	   100000      /* of a profile, where labels are changed */

/* ---- scrape_delta.c: what counters grew by since the last scrape ---- */
struct scrape_delta {
	uint64_t *keys;	 /* of stack and labels, sorted */
	int64_t *values; /* count * types */
	size_t count, types;
	bool seen; /* a first scrape was */
};
/* Replaces the counters of an aggregated profile by what they grew by since `before`, and gives what is to be compared with
 * next (to be kept once this one is stored). The first time there is nothing to compare with, and they become 0. If any has
 * shrunk or is gone the program has started anew, and they are taken whole. Columns named inuse_* are no counters and stay.
 * *total_bytes counts the memory of all. -E2BIG past a limit. */
int scrape_delta_apply(const struct scrape_delta *before, struct profile *profile, atomic_size_t *total_bytes,
		       struct scrape_delta *ret, bool *ret_restarted, struct error *err);
void scrape_delta_release(struct scrape_delta *delta, atomic_size_t *total_bytes);

/* ---- targets ---- */
enum scrape_health { SCRAPE_UNKNOWN, SCRAPE_UP, SCRAPE_DOWN };
struct scrape_target {
	struct scrape_job *job, *next_job;    /* next: to be taken when it no longer runs; NULL = none */
	const struct scrape_profile *profile; /* of the job */
	const struct scrape_profile *next_profile;
	uint64_t key;
	char *origin, *path;  /* "https://host:port", "/debug/pprof/profile?seconds=14" */
	struct labels labels; /* of what is stored */
	bool gone, running, seen;
	atomic_bool cancel;
	int64_t due_ns; /* monotonic */
	/* of the last scrape; under the lock */
	enum scrape_health health;
	int64_t last_ns, took_ns; /* realtime; 0 = none yet */
	uint64_t samples, bytes, scrapes, failures, restarts;
	char error[SCRAPE_ERROR_MAX];
	struct scrape_delta delta;  /* of who runs it */
	struct scrape_target *next; /* in the queue of those that are due */
};

/* What a discovery found: sets of labels, each a target before relabelling. */
struct discovered {
	struct arena arena;
	struct discovered_set {
		struct relabel_label *labels;
		size_t count;
	} * sets;
	size_t count, capacity;
	uint64_t hash; /* of all of it */
};
#define DISCOVERED_SETS_MAX  50000
#define DISCOVERED_BYTES_MAX (64 * MIB)
struct discovered *discovered_new(void);
struct discovered *discovered_free(struct discovered *found);
DEFINE_CLEANUP_POINTER(discovered_free, struct discovered);
/* A new set with a copy of these labels; -E2BIG past a limit. */
int discovered_add(struct discovered *found, const struct relabel_label *labels, size_t count, struct error *err);

struct discovery {
	struct scrape *scrape;
	struct scrape_job *job;
	const struct discovery_config *config;
	size_t place; /* of it in the job's list */
	pthread_t thread;
	bool has_thread;
	atomic_bool stop;
	/* under the scraper's lock */
	struct discovered *found; /* NULL until the first time */
	bool inherited;		  /* found by the discovery that this one has replaced */
	int64_t refreshed_ns;	  /* realtime */
	size_t dropped;		  /* by relabelling, the last time */
	size_t left_out;	  /* for a limit, or because the address is none */
	char error[SCRAPE_ERROR_MAX];
	/* of the thread */
	uint64_t stamp;		 /* of the files when it looked last */
	struct net_tls *own_tls; /* of the cluster that we run in */
	struct scrape_session session;
	unsigned failures;	/* in a row */
	int64_t retry_after_ns; /* how long the service asked to be left alone; of the last request */
	int status;		/* of the last response */
	char kept[128];		/* header of the last response that was asked for */
	struct consul_watch *consul;
	struct discovery_cloud *cloud; /* of ec2, gce, azure: credentials and what is remembered between looks */
	struct discovery *next;	       /* in the list of those that have ended */
	atomic_bool ended;
};
int discovery_refresh(struct discovery *discovery, struct discovered **ret, struct error *err);
int discovery_static(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_file(struct discovery *discovery, struct discovered *found, struct error *err);
bool discovery_file_changed(struct discovery *discovery);
int discovery_http(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_dns(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_kubernetes(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_consul(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_docker(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_swarm(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_ec2(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_gce(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_azure(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_nomad(struct discovery *discovery, struct discovered *found, struct error *err);
/* Between two looks of consul: waits for a change, until that time at most. True: look now. */
bool discovery_consul_wait(struct discovery *discovery, int64_t until_ns);
void discovery_consul_free(struct consul_watch *watch);	  /* NULL allowed */
void discovery_cloud_free(struct discovery_cloud *cloud); /* NULL allowed */

#define DISCOVERY_BODY_MAX   (32 * MIB)
#define DISCOVERY_TIMEOUT_NS (30 * NS_PER_S)
/* A request to a service, whose url, method, headers and so on are given; the rest is filled in here. The body of its 200, as
 * it was before it was encoded; -EACCES for 401 and 403. discovery->status, kept and retry_after_ns are set; status is 0 if no
 * response came. */
int discovery_request(struct discovery *discovery, const struct scrape_http *http, struct scrape_request *request, size_t max,
		      struct buffer *ret, struct error *err);
int discovery_get(struct discovery *discovery, const struct scrape_http *http, const char *url, size_t max, struct buffer *ret,
		  struct error *err);
/* The same, read as JSON. */
struct json_tree;
int discovery_get_json(struct discovery *discovery, const struct scrape_http *http, struct scrape_request *request,
		       struct json_tree **ret, struct error *err);
/* Target groups of file_sd and http_sd, JSON: [{"targets": ["host:port"], "labels": {"a": "b"}}]; source becomes
 * __meta_filepath or __meta_url. */
int discovery_read_groups(struct bytes text, const char *meta, const char *source, struct discovered *found, struct error *err);
int discovery_read_groups_yaml(struct bytes text, const char *source, struct discovered *found, struct error *err);

struct scrape {
	struct server *server;
	pthread_mutex_t reload_lock; /* taken first */
	pthread_mutex_t lock;
	pthread_cond_t work, slot;
	pthread_t manager;
	bool manager_running, workers_stop;
	atomic_bool stop;
	atomic_bool reload;
	int wake_fd;		      /* an eventfd for the manager */
	struct scrape_config *config; /* lock */
	struct discovery **discoveries;
	size_t discovery_count;
	struct scrape_target **targets;
	size_t target_count, target_capacity;
	/* workers */
	struct scrape_target *first, **last; /* due, and not yet with a worker */
	unsigned threads, idle, decoding;
	unsigned idle_least, surplus; /* idle ones at least since the last check; how many of them are to end */
	int64_t idle_check_ns;
	pthread_t *ended; /* threads to join */
	size_t ended_count;
	unsigned threads_max, targets_max;
	struct net_budget budget;
	atomic_size_t delta_bytes;
	_Atomic uint64_t sequence;
	/* lock */
	struct scrape_stats stats; /* its counters; scrape_get_stats() fills in the rest */
	int64_t loaded_ns;
	char config_error[SCRAPE_ERROR_MAX];
	uint64_t config_stamp;
	struct discovery *retired; /* of the manager: no longer used, and not yet ended */
};

/* Under the lock: makes the targets of a job what its discoveries found. */
void scrape_update_job(struct scrape *scrape, struct scrape_job *job);
void scrape_target_free(struct scrape *scrape, struct scrape_target *target);
/* Under the lock: when it is first due. */
void scrape_target_schedule(struct scrape_target *target, int64_t now_ns);
/* Without the lock, by a worker: one scrape, with its outcome in the target's health. */
void scrape_fetch(struct scrape *scrape, struct scrape_target *target);

/* ---- scrape_labels.c: labels of what was scraped ---- */
/* What a profile's samples are stored with: *ret_base and their own sets. The target's labels win unless honor_labels is set
 * (then a sample's own label of that name stays; else it is called exported_NAME); metric_relabel_configs change the result, or
 * drop samples. Labels that are numbers stay as they are. Positive if nothing is left to store; -E2BIG when more samples are
 * left than sample_limit allows, or more than SCRAPE_LABEL_SETS_MAX sets are to be changed. */
int scrape_label_samples(const struct scrape_target *target, struct profile *profile, struct labels *ret_base,
			 struct error *err);

#endif
