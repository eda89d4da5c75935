/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: profiles in, merged profiles and series out.
 *
 * Appending. store_append() turns a profile into one log record, and returns when that record is on disk (fsync, shared by all
 * appends that wait at the time), so that an acknowledged profile survives kill -9 and power loss. The record's samples are in
 * the head by then and visible to queries. Cutting. When the head is large or old enough it is written as an immutable block, a
 * directory of standard Parquet files (samples, series, stacks, locations, functions, mappings, strings inline), renamed into
 * place; the log up to it is then removed. Retention removes whole blocks, oldest first, by age and by total size. Recovery.
 * Opening locks the directory (one process), sets damaged blocks and log tails aside (renamed into quarantine/, with a message
 * in store_stats.problems), replays the log, which skips what a block holds already.
 *
 * Threads: one store thread of its own (cut, retention); all functions may be called from any thread.
 */
#ifndef WICK_STORE_STORE_H
#define WICK_STORE_STORE_H

#include "base/cleanup.h"
#include "profile/labels.h"
#include "profile/profile.h"
#include "profile/type.h"

struct store;
struct store_options {
	const char *directory;
	int64_t retention_age_ns;      /* 0 = default, 30 days; negative = keep for ever */
	uint64_t retention_size_bytes; /* 0 = default, 10 GiB */
	int64_t cut_age_ns;	       /* 0 = default, 10 min of data in the head */
	uint64_t head_size_bytes; /* 0 = default, 64 MiB: cut when the head's estimated memory passes it; ingest waits when it
				     is twice that */
	size_t series_max;	  /* 0 = default, 200,000 series in the head; more is -EDQUOT */
	void (*on_problem)(void *context, const char *message); /* something was set aside or removed; NULL allowed */
	void *context;
};
int store_open(const struct store_options *options, struct store **ret, struct error *err);
/* Cuts the head into a block, closes. */
struct store *store_close(struct store *store);
DEFINE_CLEANUP_POINTER(store_close, struct store);

struct store_append_options {
	const char *name;	     /* first part of the profile type; NULL = guessed (profile_type_of) */
	const struct labels *labels; /* base labels, e.g. from the request; NULL = none */
	int64_t received_ns;	     /* used where profile and sample have no time */
	uint8_t id[16]; /* non-zero: a second append with the same id within the last 65,536 ids is acknowledged and dropped */
};
struct store_append_result {
	size_t samples, series; /* stored; samples counts every (sample, sample type) with a non-zero value */
	bool duplicate;
};
/* -EINVAL the profile cannot be stored, -EDQUOT a limit (named), -ENOSPC, -EIO: not stored. */
int store_append(struct store *store, const struct profile *profile, const struct store_append_options *options,
		 struct store_append_result *ret, struct error *err);

/* What to read. A sample belongs to the range if from_ns <= time < to_ns. match is called once a series, perhaps from several
 * threads. */
struct store_select {
	int64_t from_ns, to_ns;
	bool (*match)(void *context, const struct profile_type *type, const struct labels *labels); /* NULL = all */
	void *context;
	const bool *cancel; /* polled; -ECANCELED when it becomes true; NULL = never */
};
struct store_read_stats {
	uint64_t blocks, blocks_skipped, series, rows, bytes;
};
/* Adds everything that matches into `into`, an empty profile: one sample a stack (no labels, no times), one sample type (that
 * of the first series; series of another type are -EINVAL). Sets time_ns and duration_ns of `into` to the range covered. */
int store_merge(struct store *store, const struct store_select *select, struct profile *into, struct store_read_stats *stats,
		struct error *err);
/* Calls on_point for sums per (series, bucket): bucket = floor((time - from) / step). Series are numbered by their order of
 * first appearance; on_series announces each before its points (labels live only during the call). Points of one series and
 * bucket may come several times (one a block) and must be summed. step_ns 0 = one bucket. */
struct store_series_sink {
	int (*on_series)(void *context, uint32_t series, const struct profile_type *type, const struct labels *labels,
			 struct error *err);
	int (*on_point)(void *context, uint32_t series, uint64_t bucket, int64_t value, struct error *err);
	void *context;
};
int store_series(struct store *store, const struct store_select *select, int64_t step_ns, const struct store_series_sink *sink,
		 struct store_read_stats *stats, struct error *err);
/* Calls on_series only, from the indexes: blocks and head that overlap the range, without reading samples. */
int store_list_series(struct store *store, const struct store_select *select, const struct store_series_sink *sink,
		      struct store_read_stats *stats, struct error *err);

/* Cuts now (tests, shutdown). Applies retention now. */
int store_cut(struct store *store, struct error *err);
int store_apply_retention(struct store *store, int64_t now_ns, struct error *err);

struct store_stats {
	uint64_t appends, duplicates, samples, refused;
	uint64_t log_bytes, log_records, fsyncs, fsync_ns_total, fsync_ns_max;
	uint64_t cuts, cut_ns_total, cut_ns_max, cut_failures;
	uint64_t blocks, block_bytes, block_samples;	/* now */
	uint64_t head_bytes, head_samples, head_series; /* now */
	uint64_t blocks_removed, problems;
	int64_t oldest_ns, newest_ns; /* of the data; 0 = none */
};
void store_get_stats(struct store *store, struct store_stats *ret);

#endif
