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

#define SCRAPE_TARGETS_DEFAULT	   20000
#define SCRAPE_CONCURRENCY_DEFAULT 1024
#define SCRAPE_BYTES_DEFAULT	   (256 * MIB) /* answers being read, of all targets */
#define SCRAPE_STACKS_MAX	   200000      /* remembered of one target */
#define SCRAPE_STACKS_BYTES_MAX	   (512 * MIB) /* remembered of all */
#define SCRAPE_DECODERS		   2	       /* profiles in memory at a time */
#define SCRAPE_ERROR_MAX	   256

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
	pthread_t thread;
	bool has_thread;
	atomic_bool stop;
	/* under the scraper's lock */
	struct discovered *found; /* NULL until the first time */
	int64_t refreshed_ns;	  /* realtime */
	size_t dropped;		  /* by relabelling, the last time */
	size_t left_out;	  /* for a limit, or because the address is none */
	char error[SCRAPE_ERROR_MAX];
	/* of the thread */
	uint64_t stamp;		 /* of the files when it looked last */
	struct net_tls *own_tls; /* of the cluster that we run in */
};
int discovery_refresh(struct discovery *discovery, struct discovered **ret, struct error *err);
int discovery_static(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_file(struct discovery *discovery, struct discovered *found, struct error *err);
bool discovery_file_changed(struct discovery *discovery);
int discovery_http(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_dns(struct discovery *discovery, struct discovered *found, struct error *err);
int discovery_kubernetes(struct discovery *discovery, struct discovered *found, struct error *err);
/* The body of a service's 200. */
int discovery_get(struct discovery *discovery, const struct scrape_http *http, const char *url, size_t max, struct buffer *ret,
		  struct error *err);
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
};

/* Under the lock: makes the targets of a job what its discoveries found. */
void scrape_update_job(struct scrape *scrape, struct scrape_job *job);
void scrape_target_free(struct scrape *scrape, struct scrape_target *target);
/* Under the lock: when it is first due. */
void scrape_target_schedule(struct scrape_target *target, int64_t now_ns);
/* Without the lock, by a worker: one scrape, with its outcome in the target's health. */
void scrape_fetch(struct scrape *scrape, struct scrape_target *target);
/* A client for a service or target; path is what to ask for. */
int scrape_http_get(const struct scrape_http *http, const char *url, const char *accept, int64_t timeout_ns, size_t body_max,
		    const atomic_bool *cancel, struct net_budget *budget, struct net_client **ret_client,
		    struct net_client_response *response, struct error *err);

#endif
