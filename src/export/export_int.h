/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/export: a target's thread, and what it sends. */
#ifndef WICK_EXPORT_EXPORT_INT_H
#define WICK_EXPORT_EXPORT_INT_H

#include <stdatomic.h>

#include "base/cancel.h"
#include "base/io.h"
#include "base/thread.h"
#include "base/time.h"
#include "export/export.h"
#include "net/net.h"

#define EXPORT_COMPRESS_LEVEL 4
#define EXPORT_TIMEOUT_NS     (15 * NS_PER_S)
#define EXPORT_REASONS_KEPT   32

struct load_segments;
struct sender {
	struct exporter *exporter;
	const struct export_target *target;
	char name[EXPORT_NAME_MAX];
	struct spool *spool;
	struct net_tls *tls;
	struct net_client *client;
	struct io_stamp secret;		/* of the file that the client's token or password is from */
	struct load_segments *segments; /* parca: of binaries, by build-id */
	pthread_t thread;
	bool running;
	atomic_bool cancel; /* read by the client while it waits */
	uint64_t random;

	pthread_mutex_t lock; /* of the counters below */
	struct export_stats stats;
	/* The thread's own. */
	/* wick: HTTP has worked; it is no Wick server, but a collector that takes OTLP by gRPC. */
	bool has_http, by_grpc;
	bool away;	/* the outage has been logged */
	unsigned tries; /* of the record at the front that the server answered with a failure of its own */
	uint64_t reasons[EXPORT_REASONS_KEPT]; /* hashes of rejections that were logged */
	size_t reason_count;
	/* Losses are reported to a Wick server: with the record at the front, and since the last one that it took. */
	struct loss_report {
		uint64_t profiles, samples;
	} reported, report;
	bool report_made; /* for the record at the front; repeated as it is, since a record that comes twice counts once */
	int64_t losses_logged_ns;
	struct spool_stats logged;
};

/* ---- send.c ---- */
enum verdict { DELIVERED, REFUSED, TRY_AGAIN };
struct attempt {
	enum verdict verdict;
	bool limited;	   /* try again, but not for ever: it may be the record's fault */
	bool unauthorized; /* credentials were refused */
	int64_t wait_ns;   /* that the server asks for; 0 = it does not */
	uint64_t rejected; /* profiles of a delivered record that were not stored */
	char why[512];
};
/* Connects anew if the file of the token or password has changed. On failure what was read before stays in use. */
int sender_renew(struct sender *sender, struct error *err);
/* Sends a record once: gzip of an OTLP request. */
void sender_attempt(struct sender *sender, const struct spool_meta *meta, struct bytes record, struct attempt *ret);
/* Makes the client with everything that stays the same; again when credentials may have changed. */
int sender_connect(struct sender *sender, struct error *err);
void sender_disconnect(struct sender *sender);

/* ---- series.c ---- */
/* The body of push.v1.PushRequest or WriteRawRequest for the profiles of an OTLP request, which may change them. */
struct otlp_request;
int series_encode(struct sender *sender, struct otlp_request *request, struct buffer *out, struct error *err);
struct load_segments *load_segments_free(struct load_segments *segments);

/* ---- copy.c ---- */
/* An empty profile of the same types, period and time. *ret is the caller's, also after a failure. */
int export_start_profile(const struct profile *from, struct profile **ret, struct error *err);

/* ---- exporter.c ---- */
void exporter_log(struct exporter *exporter, enum log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int exporter_symbolize(struct exporter *exporter, const char *tenant, struct profile *profile, const atomic_bool *cancel,
		       struct error *err);
bool exporter_host_files(const struct exporter *exporter);
/* True when the time to finish is over. */
bool exporter_gave_up(struct exporter *exporter);
/* Waits until then (CLOCK_MONOTONIC), or until the time to finish is over. */
void exporter_wait(struct exporter *exporter, int64_t until_ns);

/* ---- sender.c ---- */
void *sender_run(void *sender);

#endif
