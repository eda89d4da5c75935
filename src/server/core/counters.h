/* SPDX-License-Identifier: Apache-2.0 */
/* What the server counts, and why it refuses what it does not store. */
#ifndef WICK_SERVER_CORE_COUNTERS_H
#define WICK_SERVER_CORE_COUNTERS_H

#include <stdatomic.h>

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
	REFUSED_AGE,
	REFUSED_OTHER,
	REFUSALS
};
extern const char *const refusal_names[REFUSALS];
struct refusal_note {
	enum refusal reason;
	unsigned retry_after_s; /* 0 = as usual for the reason */
	uint64_t stored;	/* profiles of the request that were stored before it failed */
};

/* Counters shown by /metrics: of the server, and of each tenant. */
struct server_counters {
	atomic_uint_fast64_t ingest_requests, ingest_refused, ingest_profiles, ingest_samples, ingest_bytes, ingest_duplicates;
	atomic_uint_fast64_t ingest_samples_refused;		 /* of profiles that were stored otherwise */
	atomic_uint_fast64_t ingest_nonzero_entries;		 /* OTLP requests with a dictionary whose entry 0 is none */
	atomic_uint_fast64_t ingest_numbers_dropped;		 /* samples stored without their numbers */
	atomic_uint_fast64_t ingest_partial, refusals[REFUSALS]; /* refusals: of requests and of profiles in them */
	atomic_uint_fast64_t lost_profiles, lost_samples;	 /* by senders, as they say */
	atomic_uint_fast64_t queries, query_failures, query_ns_total, query_ns_max, query_rows;
	atomic_uint_fast64_t query_cancelled, query_partial, query_slow;
	atomic_uint_fast64_t query_memory_refused, query_memory_total_refused, query_memory_partial; /* query_budget.c */
	atomic_uint_fast64_t binaries_offered, binaries_refused;
	atomic_uint_fast64_t signals_dropped, panics_reported; /* requests that are no profiles; the server's only */
	atomic_uint_fast64_t views, view_failures;	       /* of files that are shown or converted; the server's only */
};

#endif
