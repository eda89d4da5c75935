/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head: what was appended since the last cut, in memory. Stacks and what they refer to are interned in one struct profile,
 * the pool; samples are columns of ids, times and values in the order of arrival. Rows of process_stats are kept apart
 * (head_processes.h).
 *
 * An append is three steps, so that the log can be written and synced between them, for many appends at a time:
 *
 *   head_prepare()  does all that can fail, and leaves the rows behind the last one, where nobody looks
 *   head_stage()    the next append's rows go behind these; still nobody looks
 *   head_publish()  moves the end of what readers see, over the rows of as many appends as are on disk; cannot fail
 *
 * Threads: one appender at a time (the store's append lock); readers hold `lock` for reading, and see whole appends.
 */
#ifndef WICK_STORE_HEAD_HEAD_H
#define WICK_STORE_HEAD_HEAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "profile/keys.h"
#include "profile/merge.h"
#include "store/head/delta.h"
#include "store/head/head_processes.h"
#include "store/head/known.h"
#include "store/ids.h"
#include "store/series_columns.h"

struct head_columns {
	unsigned refs; /* the index's lock */
	struct series_columns columns;
};
struct head_append {
	uint64_t sequence;
	uint8_t id[STORE_ID_SIZE];
};
/* Behind a row. */
struct head_end {
	size_t samples;
	struct head_processes_end processes;
};
/* An append that readers do not see yet. */
struct head_staged {
	struct head_end end; /* of its rows, which begin where those of the one before end */
	int64_t period;
	struct head_append append;
};

struct head {
	unsigned refs;	 /* the store's state lock */
	uint64_t number; /* that no other head of this process has */
	pthread_rwlock_t lock;

	struct profile *pool;
	struct profile_type **types;
	struct labels **label_sets;
	struct series *series;
	size_t type_count, type_capacity, label_set_count, label_set_capacity, series_count, series_capacity, series_max;
	struct index32 type_index, label_index;
	struct map64 series_index;  /* type << 32 | label set */
	struct intern number_texts; /* profile/numbers.h */
	size_t number_texts_max;
	/* By their keys: ids of the pool's stacks and locations, and of label sets. */
	struct known known_stacks, known_locations, known_labels;
	uint64_t label_bytes, appends_prepared;

	/* Samples */
	uint32_t *series_ids, *stacks, *links;
	uint32_t *numbers; /* of number_texts; NULL = no sample has any */
	int64_t *times, *values;
	size_t count, series_id_capacity, stack_capacity, link_capacity, number_capacity, time_capacity, value_capacity;
	struct head_processes processes;
	int64_t min_ns, max_ns; /* of samples and rows of processes; meaningless while there are none */

	struct head_append *appends; /* those that had an id */
	size_t append_count, append_capacity;
	struct head_staged *staged; /* in the order of their rows */
	size_t staged_count, staged_capacity;
	struct head_end end; /* behind the last row of all, also of those that are staged */

	/* Which part of the log this is, and what of the tables is in it */
	uint64_t last_sequence, first_segment, last_segment, log_bytes, log_records;
	struct delta_mark logged;

	/* What queries need beyond what appending keeps: its series by columns, the hashes of its stacks. Made when a query
	 * asks for it and kept up to date by the next ones, so that appends pay nothing and queries only for what is new. */
	struct head_index {
		pthread_mutex_t lock;
		struct head_columns *columns; /* of the series that there were when it was made; NULL = none yet */
		struct profile_hashes hashes;
	} index;

	_Atomic int64_t started_ns; /* monotonic time of the first append */
	_Atomic uint64_t bytes;	    /* estimated memory */
	_Atomic uint64_t pool_stacks;
};
int head_new(size_t series_max, struct head **ret, struct error *err);
struct head *head_free(struct head *head);
DEFINE_CLEANUP_POINTER(head_free, struct head);

struct head_batch {
	size_t count, series;
	struct head_processes_end processes;
	int64_t period;			       /* of the profile */
	size_t process_values;		       /* of the rows of processes, those that are not 0 */
	uint64_t refused[STORE_REFUSAL_COUNT]; /* samples that are left out, by reason */
	size_t numbers_dropped;		       /* samples that are stored without their numbers */
	size_t series_refused;		       /* label sets of the profile, a type each, that series_max left out */
	enum store_refusal reason;	       /* of an error */
};
struct head_lookup;
/* A sample is left out if options say that its time is not acceptable, or if it would make one more than series_max. lookup: of
 * this profile (head_lookup.h), of this head or any other; NULL = it is made here. */
int head_prepare(struct head *head, const struct profile *profile, const struct store_append_options *options,
		 struct head_lookup *lookup, struct head_batch *ret, struct error *err);
/* The rows of what was prepared last are to stay; nobody else may have prepared since. id: of the append, or zeros. */
void head_stage(struct head *head, const struct head_batch *batch, const uint8_t id[static STORE_ID_SIZE], uint64_t sequence);
/* Shows readers the rows of staged appends up to that sequence. */
void head_publish(struct head *head, uint64_t sequence);
/* Forgets all that is staged, but for what it added to tables. */
void head_withdraw(struct head *head);
/* Both in one: of an append when nothing is staged. */
void head_commit(struct head *head, const struct head_batch *batch, const uint8_t id[static STORE_ID_SIZE], uint64_t sequence);
bool head_is_empty(const struct head *head); /* no samples, no rows */
uint64_t head_bytes(const struct head *head);
uint64_t head_stacks(const struct head *head);

/* ---- head_index.c ---- */

/* All of these with head->lock held for reading, so that the head does not grow meanwhile. */
int head_columns_get(struct head *head, struct head_columns **ret, struct error *err);
void head_columns_put(struct head *head, struct head_columns *columns);
/* Copies the hashes of some stacks: ret[i] is that of stacks[i]. */
int head_copy_hashes(struct head *head, const uint32_t *stacks, size_t count, struct hash128 *ret, struct error *err);
void head_index_release(struct head *head);

#endif
