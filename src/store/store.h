/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: profiles in, merged profiles and series out. What follows is a seam: who calls these functions does not know which
 * store answers, and another one than the local store, which is described here, can stand behind them (store_ops.h).
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

#include <pthread.h>

#include "base/buffer.h"
#include "base/cancel.h"
#include "base/cleanup.h"
#include "profile/frame_match.h"
#include "profile/labels.h"
#include "profile/number_match.h"
#include "profile/profile.h"
#include "profile/series_match.h"
#include "profile/type.h"

struct store;

struct store_retention_rule {
	struct series_conditions series; /* that it is for */
	int64_t age_ns;			 /* negative = for ever */
};

struct store_ops;
struct store_options {
	const struct store_ops *ops; /* whose store it is (store_ops.h); NULL = the local one, which is described here */
	const char *directory;
	int64_t retention_age_ns;      /* 0 = default, 30 days; negative = keep for ever */
	uint64_t retention_size_bytes; /* 0 = default, 10 GiB */
	int64_t samples_age_ns;	       /* of older data only rollups are kept; 0 = keep samples as long as everything else */
	const struct store_retention_rule *rules; /* the first that a series fits replaces retention_age_ns; copied whole */
	size_t rule_count;
	int64_t window_ns[2];	       /* of blocks of level 1 and 2; 0 = defaults, 2 h and 24 h; negative = no such level */
	uint64_t compact_memory_bytes; /* 0 = default, 128 MiB */
	bool manual;	    /* no background work: no compaction, no retention, cuts only if the head is full (tests, tools) */
	int64_t cut_age_ns; /* 0 = default, 10 min of data in the head */
	uint64_t head_size_bytes; /* 0 = default, 64 MiB: cut when the head's estimated memory exceeds it; ingest blocks at
				     twice that */
	size_t series_max;	  /* 0 = default, 200,000 series in the head; samples of further ones are rejected */
	size_t stacks_max;	/* 0 = default, 1,000,000 stacks in the head: cut when there are as many; a profile with more by
				   itself is -E2BIG */
	int64_t late_window_ns; /* samples older than this on arrival are rejected; 0 = default, the retention age; negative =
				   none are. Samples more than STORE_FUTURE_NS in the future always are */
	/* Stores that share this lock run compaction and retention one at a time, to bound memory; NULL = none. */
	pthread_mutex_t *compact_turn;
	void (*on_problem)(void *context, const char *message); /* something was set aside or removed; NULL allowed */
	void *context;
};
int store_open(const struct store_options *options, struct store **ret, struct error *err);
/* Cuts the head into a block, closes. */
struct store *store_close(struct store *store);
DEFINE_CLEANUP_POINTER(store_close, struct store);

/* The limit of block indexes cached in memory; by default 96 MiB. */
void store_set_cache(struct store *store, size_t bytes_max);

#define STORE_FUTURE_NS (3600ll * 1000000000)
struct store_append_options {
	const char *name;	     /* first part of the profile type; NULL = guessed (profile_type_of) */
	const struct labels *labels; /* base labels, e.g. from the request; NULL = none */
	int64_t received_ns;	     /* used where profile and sample have no time */
	uint8_t id[16]; /* non-zero: a second append with the same id within the last 65,536 ids is acknowledged and dropped */
	uint8_t older_id[16];	   /* the id that older versions computed: checked for duplicates, never stored */
	int64_t least_ns, most_ns; /* times of samples that are stored; the store fills them in from its late window and
				      received_ns, whatever is here. Both 0 = all (log records of older versions) */
};
struct store_append_result {
	/* Stored. Samples are every (sample, sample type) with a non-zero value, and one for each series and time of a gauge
	 * (profile_type_is_gauge) that has none: averages count it as a profile */
	size_t samples, series;
	size_t refused;	       /* samples rejected: too old, too far in the future, unknown process_stats columns, of a series
				  that there is no room for */
	size_t late, future;   /* of these; */
	size_t over_series;    /* of these: series_max. No samples and this: a later cut may make room, so try again */
	size_t series_refused; /* series of the profile that there was no room for, of which there may be */
	size_t series_max;
	size_t numbers_dropped; /* stored without their numbers: too long, or too many different ones */
	int64_t least_ns;	/* what is before this is too old */
	bool duplicate;
};
/* Why something was rejected. The first four count samples, whether or not the rest of their profile was stored, the others
 * count profiles. Names are in store_refusal_names. Append-only. */
enum store_refusal {
	STORE_REFUSED_LATE,   /* older than the late window */
	STORE_REFUSED_FUTURE, /* more than an hour ahead */
	STORE_REFUSED_COLUMN, /* a column of process_stats that this version does not know */
	STORE_REFUSED_SERIES, /* of a series that is new, when there are series_max */
	STORE_REFUSED_LABELS, /* too many labels, or too long */
	STORE_REFUSED_STACKS, /* stacks_max in one profile */
	STORE_REFUSED_SIZE,   /* the profile is too large in another way */
	STORE_REFUSED_INVALID,
	STORE_REFUSED_NO_SPACE, /* the disk is full, or a block cannot be written and memory is full */
	STORE_REFUSED_FAILURE,	/* of the disk, or of memory */
	STORE_REFUSAL_COUNT,
};
extern const char *const store_refusal_names[STORE_REFUSAL_COUNT]; /* "late", "future" ... for metrics */
/* -EINVAL the profile cannot be stored, -E2BIG it is too large for a limit (named) and will be so again, -EDQUOT the same of
 * what the store holds, so that there may be room later, -ENOSPC, -EIO: not stored. The limit of series is no error:
 * what is of a known series is stored. */
int store_append(struct store *store, const struct profile *profile, const struct store_append_options *options,
		 struct store_append_result *ret, struct error *err);

/* ---- reading ---- */

/*
 * What is selected is said in data, so that a store can turn it into what its engine takes: which series
 * (profile/series_match.h), which stacks by their frames, which samples by their links and numbers (profile/number_match.h).
 * What is not data here cannot select anything: callbacks only take what comes out.
 *
 * A read whose conditions could not be checked fails: -EINVAL and pattern_failure()'s message for a regular expression that
 * took too long on a value. It never leaves out what it could not check.
 */

/* A condition on stacks: a frame at this place passes all tests (profile/frame_match.h). */
struct store_stack_condition {
	enum store_where { STORE_ANYWHERE, STORE_LEAF, STORE_ROOT } where;
	bool negate; /* keep the stacks for which it does not hold */
	const struct frame_test *tests;
	size_t test_count; /* 1 to FRAME_TESTS_MAX */
};

/* A condition on the trace or the span that samples belong to (W3C ids; profile_link): it is one of `ids`, or with `negate`
 * none of them. Samples without a span have the zero id. Rollups have no spans, so results from rollups are partial. Lists of
 * names ignore these conditions. */
struct store_id {
	uint8_t bytes[16]; /* span ids are the first 8, the rest is 0 */
};
struct store_link_condition {
	enum store_link_part { STORE_SPAN_ID, STORE_TRACE_ID } part;
	bool negate;
	const struct store_id *ids; /* rising by their bytes */
	size_t count;
};

/*
 * What to read. A sample belongs to the range if from_ns <= time < to_ns. Callbacks are never called at the same time by
 * several threads. All limits are checked between row groups; 0 = none. What it points to lives as long as the call.
 */
struct store_select {
	int64_t from_ns, to_ns;
	int64_t steps_before_ns; /* of values over time: the first step begins so much before from_ns */
	struct series_conditions series;
	const struct store_stack_condition *conditions; /* all must hold */
	size_t condition_count;
	const char *const *call_site;	     /* and stacks must begin with these functions, as struct frame_path has them */
	size_t call_site_count;		     /* at most FRAME_PATH_MAX; 0 = none */
	const struct frame_symbols *symbols; /* names addresses for the conditions on stacks; NULL = no address has a name */
	const struct store_link_condition *links; /* all must hold */
	size_t link_count;
	/* Conditions on the numbers of samples, whose text is "" if they have none; all must hold. As with spans, rollups have
	 * none, and lists of names ignore these conditions. */
	const struct number_condition *numbers;
	size_t number_count;
	bool with_numbers;	   /* store_merge() keeps samples with different numbers apart; never from rollups */
	bool samples_only;	   /* never use rollups and totals (checks) */
	bool average_gauges;	   /* read/averages.h; false: their values are added up over time like all others */
	const atomic_bool *cancel; /* polled; -ECANCELED when it becomes true; NULL = never */
	int64_t deadline_ns;	   /* monotonic; when it has passed, reading ends and stats say `partial` */
	uint64_t rows_max;	   /* likewise */
	size_t stacks_max;	   /* distinct stacks of a merge, likewise; 0 = 4 Mi */
	/* Memory by the budget of the thread (base/budget.h): a merge takes a part of it, and is partial beyond that, unless it
	 * is to be whole: then it fails like other reads do. */
	bool whole;
	/* Bytes that are wanted afterwards for each entry of the merged profile's table of stacks: as many are made as that
	 * leaves room for, the rest is left out. 0 = 56, which is what a tree of the largest nodes takes. */
	unsigned stack_bytes;
};

static inline int64_t store_select_steps_ns(const struct store_select *select)
{
	return select->from_ns - select->steps_before_ns;
}

/* How samples are put together: by values of labels. */
struct store_grouping {
	const char *const *by; /* label names, at most STORE_GROUP_BY_MAX; NULL = all labels, each series by itself */
	size_t by_count;
	/* Numbers what comes out: called for each distinct (type, values) of a source, once or several times; labels has those
	 * of `by` that the series has, and lives during the call. *ret is any number below UINT32_MAX. */
	int (*group)(void *context, const struct profile_type *type, const struct labels *labels, uint32_t *ret,
		     struct error *err);
	/* Of series, not of merges: NULL, or only samples with a span id are read, and the spans of a group are told apart:
	 * called for each of its samples or of neighbours of one link, and *ret, as above, takes the group's place. Gauges are
	 * not averaged then. */
	int (*span)(void *context, uint32_t group, const struct profile_link *link, uint32_t *ret, struct error *err);
	void *context;
};
#define STORE_GROUP_BY_MAX 16

enum store_phase { STORE_PHASE_PLAN, STORE_PHASE_INDEX, STORE_PHASE_SCAN, STORE_PHASE_MERGE, STORE_PHASE_STACKS, STORE_PHASES };
struct store_read_stats {
	uint64_t blocks, blocks_skipped;		  /* blocks_skipped: by time, type or labels */
	uint64_t from_samples, from_rollups, from_totals; /* parts of blocks that were read from each */
	uint64_t groups, groups_skipped;		  /* row groups */
	uint64_t pages, pages_skipped;			  /* of row groups that were not skipped */
	uint64_t series, rows, bytes;			  /* series that matched (summed over sources), rows and bytes read */
	uint64_t cache_hits, cache_misses;		  /* of decoded indexes */
	uint64_t head_rows;
	uint64_t stacks; /* distinct ones in the result */
	/* Rows of the blocks that were asked about which are damaged, now or when a block was made of others, so that they are
	 * missing in the answer if they match. Then it is partial. */
	uint64_t lost_rows;
	uint64_t phase_ns[STORE_PHASES];
	/* To here they are sums. */
	int64_t period; /* the largest of the series that matched: what one event stands for at most; 0 = not known */
	int64_t lost_from_ns, lost_to_ns; /* times of the lost rows, both included, as far as they are known; 0, 0 = none */
	bool saturated;	      /* sums of what was read may be at a limit of 64 bits (base/sum.h); the query sets it */
	bool partial;	      /* something was left out: */
	bool short_of_memory; /* this is why, or one of the reasons */
	char why[160];	      /* "the deadline of 30 s passed after 12 of 40 blocks" */
};

/* Adds the members that are sums, no others. */
void store_read_stats_add(struct store_read_stats *to, const struct store_read_stats *from);
/* Adds rows that are lost, and widens their times. */
void store_read_stats_lose(struct store_read_stats *stats, uint64_t rows, int64_t from_ns, int64_t to_ns);
/* Of two reads whose results are one: the largest period, partial if one is, and the first reason too. */
void store_read_stats_unite(struct store_read_stats *to, const struct store_read_stats *from);

/*
 * Adds everything that matches into `into`, an empty profile: one sample for each (stack, group), no times; the sample's
 * `labels` is the group's number, so a grouping that wants labelled samples makes label sets in `into` and returns their ids
 * (NULL = one group, 0; with_numbers: below 2^31). One sample type, that of the first series; series of another type are
 * -EINVAL. Sets time_ns and duration_ns of `into` to the range covered.
 */
int store_merge(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		struct profile *into, struct store_read_stats *stats, struct error *err);
/* Calls on_point for sums per (group, bucket): bucket = floor((time - from + steps_before) / step), step_ns 0 = one bucket.
 * Points of one group and bucket may come several times and must be summed. The value of a group over the whole range is the
 * sum of its points; where gauges are averaged it is another number, and the difference comes as points of the bucket
 * STORE_RANGE, which make it right when all are added up exactly: parts of the sum need not fit into 64 bits. Values themselves
 * are sums as in base/sum.h. Totals and rollups are used where they give the same buckets. */
#define STORE_RANGE UINT64_MAX
typedef int (*store_on_point)(void *context, uint32_t group, uint64_t bucket, int64_t value, struct error *err);
int store_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping, int64_t step_ns,
		 store_on_point on_point, void *context, struct store_read_stats *stats, struct error *err);

/*
 * The catalogue, from indexes alone: what is there in the range, as exactly as blocks know (a block is in the range as a whole,
 * series by their first and last sample). One source (a block, the head) after the other calls on_item; the same name comes
 * from several of them: sum `samples`, take the largest `series`, the earliest first_ns, the latest last_ns.
 */
struct store_item {
	const char *name;		 /* label name, label value; NULL for types */
	const struct profile_type *type; /* of types */
	uint64_t series, samples;
	uint64_t values; /* of label names: distinct values */
	int64_t first_ns, last_ns;
};
typedef int (*store_on_item)(void *context, const struct store_item *item, struct error *err);
int store_list_types(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
		     struct store_read_stats *stats, struct error *err);
int store_list_labels(struct store *store, const struct store_select *select, store_on_item on_item, void *context,
		      struct store_read_stats *stats, struct error *err);
/* Values of one label that begin with `prefix` ("" = all), in order within a source. */
int store_list_values(struct store *store, const struct store_select *select, const char *label, const char *prefix,
		      store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err);
/* Distinct label combinations: calls on_series for each series of each source (Pyroscope's Series call). by = labels to keep.
 */
int store_list_series(struct store *store, const struct store_select *select, const struct store_grouping *grouping,
		      struct store_read_stats *stats, struct error *err);

/* Cuts now (tests, shutdown). Merges all blocks whose window is over by now_ns; applies retention as of now_ns. */
int store_cut(struct store *store, struct error *err);
int store_compact(struct store *store, int64_t now_ns, struct error *err);
int store_apply_retention(struct store *store, int64_t now_ns, struct error *err);

/* Blocks as they are now, by the order of what is in them; the head is none of them. */
struct store_block {
	const char *name; /* lives during the call */
	unsigned version, level, generation;
	int64_t created_ns, min_ns, max_ns;
	uint64_t samples, series, bytes;
	uint64_t index_bytes, symbol_bytes; /* of bytes: series and labels; stacks, locations, functions, mappings */
	bool has_samples;		    /* false: only rollups were kept */
};
typedef int (*store_on_block)(void *context, const struct store_block *block, struct error *err);
int store_list_blocks(struct store *store, store_on_block on_block, void *context, struct error *err);

/* Appends up to `bytes_max` bytes of a file of a block, from `offset` on, to `ret`; none at its end. For copies: as it is on
 * disk. -ENOENT: there is no such block (any more), or it has no such file. */
int store_read_block_file(struct store *store, const char *block, const char *file, uint64_t offset, size_t bytes_max,
			  struct buffer *ret, struct error *err);

/* Deletes samples of these series in [from_ns, to_ns), for good when it returns. A block of which only rollups are left can
 * only be deleted from by labels that rollups keep: such blocks are counted in `kept` and left alone. -EINVAL: an expression
 * took too long on a value; what could not be checked is still there. */
struct store_delete_result {
	uint64_t blocks, samples, kept;
};
int store_delete(struct store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		 struct store_delete_result *ret, struct error *err);

struct store_stats {
	uint64_t appends, duplicates, samples, refused; /* refused: profiles */
	uint64_t series_refused;			/* summed over appends: one that comes again counts again */
	struct store_refusals {
		const char *name;
		uint64_t count;
	} refusals[STORE_REFUSAL_COUNT];
	uint64_t head_process_rows; /* now, with those of the same series and time counted apart */
	uint64_t log_bytes, log_records, fsyncs, fsync_ns_total, fsync_ns_max;
	uint64_t cuts, cut_ns_total, cut_ns_max, cut_failures;
	uint64_t blocks, block_bytes, block_samples;	/* now */
	uint64_t head_bytes, head_samples, head_series; /* now */
	uint64_t log_failed;				/* 1: a sync of the log failed, nothing is accepted until restart */
	uint64_t memory_full;				/* 1: memory is full, and writing it to disk fails */
	uint64_t blocks_removed, problems;
	/* At the start, of the log: the end, inside a record, that was cut off, and how long that record would have been (0 =
	 * not known); records that were damaged or missing, as far as sequences tell; bytes that were set aside; rows of later
	 * records that are lost with them */
	uint64_t log_cut_bytes, log_cut_record_bytes, log_lost_records, log_lost_bytes, log_lost_rows;
	/* Damage of blocks that was found since the start, each once: pages or whole files that are left out, and their rows;
	 * files that are not used because others have the same */
	uint64_t damaged_pages, damaged_rows, damaged_files;
	uint64_t damaged_names;	 /* rows of the tables that stacks are made of, likewise */
	uint64_t corrected_bits; /* flipped ones that were put right: of blocks, on disk; of the log, when it was read */
	uint64_t compactions, compact_ns_total, compact_ns_max, compact_failures, compact_bytes_in, compact_bytes_out;
	uint64_t blocks_by_level[3], level_bytes[3]; /* now */
	uint64_t cache_bytes;			     /* of indexes, now */
	uint64_t cache_evictions;		     /* blocks whose indexes made room for others */
	int64_t oldest_ns, newest_ns;		     /* of the data; 0 = none */
	int64_t retention_age_ns;		     /* as it holds; negative = for ever */
	uint64_t retention_size_bytes;		     /* likewise; UINT64_MAX = without a limit */
	int64_t samples_age_ns;			     /* 0 = as long as everything else */
	/* The table of hosts (hosts.h), now: hosts, labels of one for a time, bytes of memory. And since the start: those that
	 * went because a host had too many, and what was not taken */
	uint64_t hosts, host_runs, host_bytes, host_runs_dropped, hosts_refused;
};
void store_get_stats(struct store *store, struct store_stats *ret);

#endif
