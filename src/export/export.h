/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Export: profiles on their way from here to one or several endpoints, of Wick or of others.
 *
 *   exporter_push() --encode OTLP--> pending (memory) --wick-export: gzip--> spool of each target --wick-send: send--> target
 *
 * All targets share one encoding. A profile is encoded once, by the caller; compressed once, by a thread; written once, and
 * linked into the spool of each target. If a target needs more (symbols, pprof), its own thread converts each record when it
 * sends it. So a slow or unreachable target delays neither the others nor the caller.
 *
 * Every record is delivered at least once, or counted as lost with a reason: evicted, too old, damaged, rejected. Transient
 * failures are retried with exponential backoff and jitter, and after the delay that the server requests.
 */
#ifndef WICK_EXPORT_EXPORT_H
#define WICK_EXPORT_EXPORT_H

#include "base/arena.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "export/spool.h"
#include "profile/labels.h"
#include "profile/profile.h"

#define EXPORT_TARGETS_MAX 16
#define EXPORT_NAME_MAX	   64

enum export_kind {
	EXPORT_WICK,	  /* as OTLP_HTTP, or as OTLP_GRPC if that works and it does not, and what only a Wick server
			   understands */
	EXPORT_OTLP_GRPC, /* opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export */
	EXPORT_OTLP_HTTP, /* POST URL/v1development/profiles */
	EXPORT_PYROSCOPE, /* POST URL/push.v1.PusherService/Push (Connect), pprof */
	EXPORT_PARCA,	  /* parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw, pprof with normalized addresses */
	EXPORT_KINDS,
};
extern const char *const export_kind_names[EXPORT_KINDS]; /* "wick", "otlp-grpc" ... */

struct export_header {
	const char *name, *value;
};
/* Strings are borrowed and must outlive the exporter. Zeroes are the defaults. */
struct export_target {
	enum export_kind kind;
	const char *url;	/* http:// or https:// */
	const char *name;	/* in messages, metrics and of the spool's directory; NULL = made of kind and url */
	const char *token;	/* Authorization: Bearer */
	const char *token_file; /* likewise; read again when the server rejects the token */
	const char *username, *password_file; /* Authorization: Basic */
	const char *tenant;		      /* X-Scope-OrgID; NULL = that of the profile, if any */
	const struct export_header *headers;
	size_t header_count;
	const char *ca_file, *cert_file, *key_file, *server_name;
	bool insecure_skip_verify;
	bool memory_only; /* no directory for this one's spool */
	bool no_compression;
	int64_t timeout_ns;		/* of one request; 0 = 15 s */
	int64_t retry_max_ns;		/* the maximum delay between retries, unless the server requests more; 0 = 10 s */
	uint64_t spool_bytes;		/* 0 = SPOOL_BYTES_DEFAULT */
	int64_t spool_age_ns;		/* 0 = SPOOL_AGE_DEFAULT_NS */
	bool symbolize;			/* give names to addresses before sending */
	const char *const *drop_labels; /* of samples, as OpenTelemetry or Prometheus spells them; pprof kinds only */
	size_t drop_label_count;
	const char *selector; /* for the caller: what is pushed to this target; NULL = everything */
};

struct exporter_options {
	const struct export_target *targets;
	size_t target_count;
	const char *directory; /* of spools; NULL = in memory only */
	/* Pushes return when the record is on disk, synced; without, it is written soon after by a thread. */
	bool durable;
	uint64_t pending_max;	/* bytes that wait for that thread; 0 = 8 MiB */
	uint64_t disk_free_min; /* as in struct spool_options, but 0 = UINT64_MAX */
	bool no_host_files;	/* do not open binaries of this host */
	/* Something that a person should know. From any thread of the exporter's, or from within a call. NULL = nobody asks. */
	void (*log)(void *context, enum log_level level, const char *text);
	/* Names for the addresses of a profile of that tenant, "" = none; *cancel ends it. From the threads of targets with
	 * `symbolize`. NULL = there are none. */
	int (*symbolize)(void *context, const char *tenant, struct profile *profile, const atomic_bool *cancel,
			 struct error *err);
	void *context;
};

struct export_stats {
	char name[EXPORT_NAME_MAX];
	enum export_kind kind;
	uint64_t sent_profiles, sent_samples, sent_bytes;
	uint64_t refused_profiles, refused_samples; /* by the target, for good */
	uint64_t failures;			    /* tries that were not successful */
	bool away;				    /* the last try failed */
	char problem[256];			    /* why */
	struct spool_stats spool;
};

/* Why profiles were lost: enum spool_loss, then refused. Append-only in the end, for metrics. */
#define EXPORT_LOSSES (SPOOL_LOSSES + 1)
const char *export_loss_name(size_t reason); /* "full", "old", "damaged", "ended", "refused" */
void export_lost(const struct export_stats *stats, size_t reason, uint64_t *ret_profiles, uint64_t *ret_samples);

/* Header of requests to a Wick server: "PROFILES SAMPLES" that the sender has lost since the last request that was taken. */
#define EXPORT_LOST_HEADER "x-wick-lost"

struct exporter;
/* Starts the threads. What an earlier process left in the spools is sent first. */
int exporter_new(const struct exporter_options *options, struct exporter **ret, struct error *err);
/* For the targets in the mask (bit i: targets[i]) that understand the profile; the tenant may be NULL. -ENOMEM, -E2BIG, -EIO:
 * it is lost for some of them, and counted. Thread-safe. */
#define EXPORT_ALL_TARGETS UINT64_MAX
int exporter_push(struct exporter *exporter, const struct profile *profile, const char *tenant, uint64_t targets,
		  struct error *err);
/* Sends the rest for up to timeout_ns. Records on disk then stay for the next process, others are lost and counted. */
void exporter_finish(struct exporter *exporter, int64_t timeout_ns);
struct exporter *exporter_free(struct exporter *exporter);
DEFINE_CLEANUP_POINTER(exporter_free, struct exporter);
/* Returns the number of targets; fills at most max. */
size_t exporter_get_stats(struct exporter *exporter, struct export_stats *ret, size_t max);
/* Samples that a profile stands for: how many the timer took where the values tell, else its rows; none for process_stats. */
uint64_t export_sample_count(const struct profile *profile);

/* A copy, of the samples whose label set is selected (by label set; NULL = all), with more labels that hold for all of it. */
int export_copy_profile(const struct profile *from, const bool *selected, const struct labels *more, struct profile **ret,
			struct error *err);

/* ---- configuration: config.c ---- */

struct export_config {
	struct export_target targets[EXPORT_TARGETS_MAX];
	size_t count;
	struct arena arena; /* of the texts */
};
/* Reads the list under `section` of a YAML document, for which `name` stands in messages; nothing if there is none.
 * with_selector: targets may have one. *ret needs no initialisation; release it, also after a failure. -EINVAL names line and
 * fault. */
int export_config_parse(struct bytes text, const char *name, const char *section, bool with_selector, struct export_config *ret,
			struct error *err);
/* Adds "KIND=URL". */
int export_config_add(struct export_config *config, const char *text, struct error *err);
void export_config_release(struct export_config *config); /* zeroed is enough */

#endif
