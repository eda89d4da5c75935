/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head: what was appended since the last cut, in memory. Stacks and what they refer to are interned in one struct profile,
 * the pool; samples are columns of ids, times and values in the order of arrival.
 *
 * An append is two steps, so that the log can be written between them: head_prepare() does all that can fail and leaves the
 * samples behind the last one, where nobody looks; head_commit() moves the end, and cannot fail.
 *
 * Threads: one appender at a time (the store's append lock); readers hold `lock` for reading, and see whole appends.
 */
#ifndef WICK_STORE_HEAD_H
#define WICK_STORE_HEAD_H

#include <pthread.h>

#include "base/map.h"
#include "profile/merge.h"
#include "store/ids.h"
#include "store/series.h"

struct head_append {
	uint64_t sequence;
	uint8_t id[STORE_ID_SIZE];
};

struct head {
	unsigned refs; /* the store's state lock */
	pthread_rwlock_t lock;

	struct profile *pool;
	struct profile_type **types;
	struct labels **label_sets;
	struct series *series;
	size_t type_count, type_capacity, label_set_count, label_set_capacity, series_count, series_capacity, series_max;
	struct index32 type_index, label_index;
	struct map64 series_index; /* type << 32 | label set */
	uint64_t label_bytes, appends_prepared;

	/* Samples */
	uint32_t *series_ids, *stacks, *links;
	int64_t *times, *values;
	size_t count, series_id_capacity, stack_capacity, link_capacity, time_capacity, value_capacity;
	int64_t min_ns, max_ns; /* of the samples; meaningless while there are none */

	struct head_append *appends; /* those that had an id */
	size_t append_count, append_capacity;

	/* Which part of the log this is */
	uint64_t last_sequence, first_segment, last_segment, log_bytes, log_records;

	struct head_index *index; /* what queries derive from it */

	int64_t started_ns; /* monotonic time of the first append */
	uint64_t bytes;	    /* estimated memory; read and written atomically */
};

int head_new(size_t series_max, struct head **ret, struct error *err);
struct head *head_free(struct head *head);
DEFINE_CLEANUP_POINTER(head_free, struct head);

struct head_batch {
	size_t count, series;
};
int head_prepare(struct head *head, const struct profile *profile, const struct store_append_options *options,
		 struct head_batch *ret, struct error *err);
void head_commit(struct head *head, const struct head_batch *batch, const struct profile *profile,
		 const struct store_append_options *options, uint64_t sequence);
/* Takes back the newest samples, and the ids of records above `sequence`. */
void head_rewind(struct head *head, size_t count, uint64_t sequence);
uint64_t head_bytes(const struct head *head);

#endif
