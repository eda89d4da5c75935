/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/store: the store itself. What lies where:
 *
 *   store.c     open, close, the store's thread, statistics
 *   recover.c   log to head
 *   append.c    appending: log, head, grouped sync, duplicates, waiting for room
 *   cut.c       head to block, retention
 *   blocks.c    the list of blocks, references, the cache of their indexes, setting damaged ones aside
 *   read.c      merge, series, list                  materialize.c  a block's stacks into a profile
 *   head.c      the head in memory                   series.c       what is known of a series
 *   log.c       segments of the write-ahead log      record.c       the payload of a record        ids.c   duplicate ids
 *   block*.c    blocks on disk
 *
 * Locks, in the order in which they are taken:
 *   cut_lock     one cut at a time
 *   append_lock  the log, sequences, ids; the active head is changed only under it
 *   state_lock   pointers to heads, the list of blocks, references, caches, statistics
 *   head.lock    a head's tables and samples
 */
#ifndef WICK_STORE_STORE_INT_H
#define WICK_STORE_STORE_INT_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "store/block.h"
#include "store/head.h"
#include "store/ids.h"
#include "store/log.h"
#include "store/record.h"

#define STORE_CACHE_MAX		 (32u * 1024 * 1024) /* indexes of blocks kept in memory */
#define STORE_RETENTION_EVERY_NS (60ll * 1000000000)
#define STORE_CUT_RETRY_NS	 (2ll * 1000000000)

struct store {
	struct store_options options; /* defaults filled in; directory points to the copy */
	char *directory;
	char log_path[PATH_MAX], blocks_path[PATH_MAX], quarantine_path[PATH_MAX], temporary_path[PATH_MAX],
		trash_path[PATH_MAX];
	int lock_fd;

	/* Appending */
	pthread_mutex_t append_lock;
	pthread_cond_t synced_cond, room_cond;
	struct log_segment log;
	uint64_t sequence; /* of the last record written */
	uint64_t synced;   /* everything up to it is on disk */
	bool syncing;	   /* somebody is in fdatasync, without the lock */
	struct log_segment_mark {
		uint64_t offset;
		size_t head_count;
	} synced_mark;	      /* the log and the head as they were when `synced` was written */
	struct error failure; /* code != 0: a sync failed, nothing is accepted any more */
	struct id_ring ids;

	/* State */
	pthread_mutex_t state_lock;
	struct head *head, *frozen; /* head is also only changed under append_lock */
	struct block **blocks;	    /* by rising last_sequence */
	size_t block_count, block_capacity;
	struct block **doomed; /* removed from the list, waiting for their last reader */
	size_t doomed_count, doomed_capacity;
	size_t cache_bytes;
	uint64_t cache_clock;
	struct store_stats stats;
	struct error cut_error; /* code != 0: the last cut failed; cleared by one that works */

	/* Cutting */
	pthread_mutex_t cut_lock;
	uint64_t next_segment; /* number of the next log segment */
	int64_t cut_retry_ns, retention_due_ns;

	/* The thread */
	pthread_t thread;
	pthread_mutex_t wake_lock;
	pthread_cond_t wake_cond;
	bool wake, stop;
};

/* Calls on_problem, counts. */
void store_problem(struct store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
void store_wake(struct store *store); /* the thread looks at once whether there is something to do */

/* append.c. append_lock is held; returns when all that is written is also synced, or the failure. */
int store_sync_locked(struct store *store, struct error *err);
struct head *store_head_ref(struct store *store, struct head *head); /* state_lock held */
void store_head_unref(struct store *store, struct head *head);	     /* takes state_lock */

/* recover.c: makes the head and the log segment. */
int store_recover_log(struct store *store, struct error *err);

/* cut.c */
bool store_wants_cut(struct store *store);
int store_empty_directory(const char *path, struct error *err);

/* blocks.c */
int blocks_add(struct store *store, struct block *block, struct error *err); /* state_lock held; takes the reference */
/* All blocks, referenced, and the heads. */
struct store_snapshot {
	struct head *heads[2]; /* frozen, active; NULL if not there */
	struct block **blocks;
	size_t block_count;
};
int store_snapshot_take(struct store *store, struct store_snapshot *ret, struct error *err);
void store_snapshot_release(struct store *store, struct store_snapshot *snapshot);
int blocks_get_series(struct store *store, struct block *block, struct block_series **ret, uint64_t *bytes, struct error *err);
void blocks_put_series(struct store *store, struct block_series *series);
int blocks_get_tables(struct store *store, struct block *block, struct block_tables **ret, uint64_t *bytes, struct error *err);
void blocks_put_tables(struct store *store, struct block_tables *tables);
/* Takes a damaged block out of the store and moves it into the quarantine; says why, once. */
void blocks_set_aside(struct store *store, struct block *block, const char *why);
/* Takes the block out of the list; it is deleted when its last reader is done. */
void blocks_remove(struct store *store, struct block *block);
void blocks_bury(struct store *store); /* deletes what is removed and unused */
void blocks_free_all(struct store *store);
int store_move_aside(struct store *store, const char *path, const char *name, char to[PATH_MAX], struct error *err);

/* materialize.c: adds sums[stack] of a block's stacks to the profile; values is by the profile's stack ids. */
struct merge_target {
	struct profile *profile;
	int64_t *values;
	size_t count, capacity;
};
int merge_target_add(struct merge_target *target, uint32_t stack, int64_t value, struct error *err);
int materialize_block(const struct block_tables *tables, const int64_t *sums, struct merge_target *target, struct error *err);

#endif
