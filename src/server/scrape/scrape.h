/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping: the server fetches profiles from programs that offer them over HTTP, as Go's net/http/pprof does.
 *
 *   configuration ── job ── discovery (who is there?) ── groups of addresses with labels
 *                     │                                        │ relabel_configs
 *                     └── profiles (which paths, how) ──> one target an address and profile
 *                                                              │ every scrape_interval, spread by the target's hash
 *                                             fetch ── decode ── difference ── store, as what is pushed
 *
 * Files: scrape_config*.c (YAML to jobs), discovery*.c and aws_*.c (each kind of who is there), scrape_targets.c (groups to
 * targets, and what becomes of targets when groups change), scrape_http.c and scrape_token.c (requests, and who makes them),
 * scrape_fetch.c (one scrape), scrape_delta.c (differences of counters), scrape_labels.c (labels of what was scraped), scrape.c
 * (threads, reloading), api_targets.c.
 *
 * Ownership and locks. A job is counted: the configuration, its discoveries and its targets hold it, and nothing in it changes
 * after it was read, but for its relabel rules, which are used under the scraper's lock. A target belongs to the scraper's
 * list; while a worker has it (running) it is not freed but marked gone.
 *
 * Limits: targets, scrapes at a time, bytes of answers at a time (of all targets together), stacks remembered for differences
 * (of one target and of all), bytes and time of each answer. What is over one of them fails that scrape, with the reason in the
 * target's health.
 */
#ifndef WICK_SERVER_SCRAPE_SCRAPE_H
#define WICK_SERVER_SCRAPE_SCRAPE_H

#include <yaml.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "codec/yaml_fields.h"
#include "net/net.h"
#include "profile/relabel.h"

#define SCRAPE_JOBS_MAX	       1000
#define SCRAPE_PROFILES_MAX    24 /* of a job */
#define SCRAPE_DISCOVERIES_MAX 64 /* of a job */
#define SCRAPE_TEXTS_MAX       10000
#define SCRAPE_PARAMS_MAX      32
#define SCRAPE_FILTERS_MAX     32 /* of a discovery */

struct server;
struct scrape;
struct scrape_oauth2;

/* ---- configuration ---- */

struct scrape_profile {
	const char *name;    /* first part of the profile type: "memory" */
	const char *path;    /* "/debug/pprof/allocs" */
	bool disabled;	     /* enabled: false */
	bool delta;	     /* it measures for `seconds` and answers with that */
	bool cumulative;     /* counters since the program's start: store differences */
	int64_t duration_ns; /* of delta; 0 = a second less than the interval */
};

/* How to ask: targets, and services of discovery. */
struct scrape_http {
	const char *user, *password, *password_file;
	const char *auth_type, *credentials, *credentials_file; /* "Bearer" by default */
	struct net_tls_options tls_options;
	bool has_tls, no_redirects;
	struct net_tls *tls;	      /* owned by the job; NULL = the system's authorities */
	struct scrape_oauth2 *oauth2; /* owned by the job; NULL = none */
	const char *proxy_url, *no_proxy;
	bool proxy_from_environment;
};

struct scrape_param {
	const char *name;
	const char **values;
	size_t count;
};

enum discovery_kind {
	DISCOVERY_STATIC,
	DISCOVERY_FILE,
	DISCOVERY_HTTP,
	DISCOVERY_DNS,
	DISCOVERY_KUBERNETES,
	DISCOVERY_CONSUL,
	DISCOVERY_DOCKER,
	DISCOVERY_SWARM,
	DISCOVERY_EC2,
	DISCOVERY_GCE,
	DISCOVERY_AZURE,
	DISCOVERY_NOMAD,
	DISCOVERY_KINDS,
};
extern const char *const discovery_kind_names[];

enum kubernetes_role {
	KUBERNETES_POD,
	KUBERNETES_ENDPOINTS,
	KUBERNETES_ENDPOINTSLICE,
	KUBERNETES_NODE,
	KUBERNETES_SERVICE,
	KUBERNETES_ROLES,
};
extern const char *const kubernetes_role_names[KUBERNETES_ROLES + 1];

struct discovery_selector {
	const char *role, *label, *field;
};

/* What Prometheus' configuration calls the same. */
struct consul_config {
	const char *server, *scheme, *path_prefix, *token, *datacenter, *namespace, *partition, *tag_separator;
	const char *username, *password, *filter, *health_filter;
	bool allow_stale;
	const char **services, **tags;
	size_t service_count, tag_count;
	struct relabel_label node_meta[SCRAPE_FILTERS_MAX];
	size_t node_meta_count;
};
enum swarm_role { SWARM_SERVICES, SWARM_TASKS, SWARM_NODES, SWARM_ROLES };
struct docker_config { /* and of swarms */
	const char *host, *host_networking_host;
	const char *url, *unix_path; /* of host */
	bool first_network;
	enum swarm_role role;
};
#define EC2_ENDPOINT_MAX 290 /* bytes */
struct ec2_config {
	const char *endpoint, *region, *access_key, *secret_key, *profile, *role_arn, *external_id;
};
struct gce_config {
	const char *project, *zone, *filter, *tag_separator;
};
enum azure_login { AZURE_OAUTH, AZURE_MANAGED_IDENTITY, AZURE_SDK, AZURE_WORKLOAD_IDENTITY, AZURE_LOGINS };
struct azure_config {
	const char *environment, *subscription_id, *tenant_id, *client_id, *client_secret, *resource_group;
	enum azure_login login;
};
struct nomad_config {
	const char *server, *namespace, *region, *tag_separator;
	bool allow_stale;
};
struct discovery_config {
	enum discovery_kind kind;
	int64_t refresh_ns;
	const char **items; /* static: addresses; file: paths; dns: names; kubernetes: namespaces */
	size_t item_count;
	const char *url;	      /* http; kubernetes: api_server, NULL = that of the pod we are in */
	struct relabel_label *labels; /* static */
	size_t label_count;
	enum { DISCOVERY_SRV, DISCOVERY_A, DISCOVERY_AAAA } dns_type;
	unsigned port; /* dns A and AAAA; docker, swarm, ec2, gce and azure: where no other is known */
	enum kubernetes_role role;
	bool has_role; /* kubernetes, swarm: it is given */
	bool own_namespace;
	struct discovery_selector selectors[KUBERNETES_ROLES];
	size_t selector_count;
	struct scrape_param filters[SCRAPE_FILTERS_MAX]; /* docker, swarm, ec2 */
	size_t filter_count;
	union {
		struct consul_config consul;
		struct docker_config docker;
		struct ec2_config ec2;
		struct gce_config gce;
		struct azure_config azure;
		struct nomad_config nomad;
	};
	struct scrape_http http;
};

struct scrape_job {
	atomic_uint references;
	struct arena arena;
	uint64_t hash; /* of the text that it was read from */
	const char *name, *scheme, *path_prefix, *tenant;
	int64_t interval_ns, timeout_ns;
	struct scrape_param params[SCRAPE_PARAMS_MAX];
	size_t param_count;
	struct scrape_http http;
	struct scrape_profile profiles[SCRAPE_PROFILES_MAX];
	size_t profile_count;
	struct discovery_config *discoveries[SCRAPE_DISCOVERIES_MAX];
	size_t discovery_count;
	struct relabel *relabel;	/* NULL = no rules */
	struct relabel *sample_relabel; /* of what was scraped; used under sample_relabel_lock */
	pthread_mutex_t sample_relabel_lock;
	bool honor_labels;
	unsigned samples_max; /* of a scrape; 0 = no limit */
	uint64_t body_max;
	unsigned targets_max; /* 0 = the scraper's */
};
struct scrape_job *scrape_job_use(struct scrape_job *job);
void scrape_job_release(struct scrape_job *job); /* NULL allowed */

struct scrape_config {
	struct scrape_job *jobs[SCRAPE_JOBS_MAX];
	size_t count;
};
/* Reads the list scrape_configs into *ret, which is made when it is NULL. The files that tls_config names are opened. */
int scrape_config_read(yaml_document_t *document, const yaml_node_t *node, const char *file, struct scrape_config **ret,
		       struct error *err);
struct scrape_config *scrape_config_free(struct scrape_config *config);
DEFINE_CLEANUP_POINTER(scrape_config_free, struct scrape_config);

/* ---- running ---- */

int scrape_start(struct server *server, struct error *err);
void scrape_stop(struct server *server); /* ends all scrapes; a server without scraping is fine */
/* From any thread, and from a signal's handler: read the configuration again. */
void scrape_reload_later(struct scrape *scrape);
/* Reads it now; what is wrong with it leaves everything as it was. */
int scrape_reload(struct server *server, struct error *err);

struct scrape_stats {
	uint64_t targets[3]; /* not scraped yet, up, down */
	uint64_t scrapes, failures, samples, bytes, missed, restarts, left_out, discoveries_failing, reloads, reload_failures;
	uint64_t workers, memory;
};
int scrape_get_stats(struct server *server, struct scrape_stats *ret); /* 0 = there is no scraper */

#endif
