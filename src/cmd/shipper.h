/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shipper: takes the agent's profiles, encodes them as OTLP, keeps them in a spool and sends them to the server over gRPC
 * from a thread of its own, so that a slow or absent server never holds up sampling. Failures are retried with growing pauses
 * (0.5 s to 10 s); what the server says is malformed is dropped, counted and logged.
 */
#ifndef WICK_CMD_SHIPPER_H
#define WICK_CMD_SHIPPER_H

#include "base/cleanup.h"
#include "base/error.h"
#include "profile/profile.h"

struct shipper;
struct shipper_options {
	const char *url, *token; /* token NULL = none */
	size_t spool_bytes_max;	 /* 0 = 8 MiB */
};
int shipper_new(const struct shipper_options *options, struct shipper **ret, struct error *err);
int shipper_push(struct shipper *shipper, const struct profile *profile, struct error *err);
/* Sends what is left for up to timeout_ns; further ones are dropped and counted. */
void shipper_finish(struct shipper *shipper, int64_t timeout_ns);
struct shipper *shipper_free(struct shipper *shipper);
DEFINE_CLEANUP_POINTER(shipper_free, struct shipper);
struct shipper_stats {
	uint64_t sent, dropped, waiting, bytes_sent, failures;
};
void shipper_get_stats(struct shipper *shipper, struct shipper_stats *ret);

#endif
