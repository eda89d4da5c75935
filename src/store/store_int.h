/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/store: the local store, which keeps everything in files of this process. What lies where:
 *
 *   store.c     the functions of store.h, each asked of the store's own: store_ops.h       local_ops.c   those of the local one
 *   local.c     open, close, the store's threads, statistics
 *   recover.c   log to head, blocks that others replaced
 *   append.c    appending: log, head, grouped writes, duplicates, waiting for room
 *   cut.c       head to block
 *   compact.c   which blocks are merged when; a new block takes the place of others; more in compact_int.h
 *   retention.c what goes when                       delete.c       what goes because somebody says so
 *   blocks.c    the list of blocks, references, setting damaged ones aside        cache.c  their indexes in memory
 *   select.c    which series are wanted              plan.c         which tables of a block are read for a range
 *   read.c      merge, series                        stack_set.c    stacks of all sources by their hash
 *   filter.c    which stacks are wanted              materialize.c  a block's stacks into a profile
 *   damage.c    damaged pages and files of blocks: reported once, read around
 *   catalogue.c lists of names
 *   head.c      the head in memory                   head_lookup.c  what it has of a profile, before an append
 *   series.c    what is known of a series
 *   log.c       segments of the write-ahead log      delta*.c       the payload of a record        ids.c   duplicate ids
 *   record.c    payloads of older versions
 *   block*.c    blocks on disk                        local_hosts.c  labels of hosts, with hosts/
 *
 * Locks, in the order in which they are taken:
 *   compact_lock one compaction, retention or deletion at a time: who takes blocks out of the list because others replace them
 *   deletion_lock one deletion of removed blocks at a time: who comes second finds all deleted that could be
 *   cut_lock     one cut at a time
 *   append_lock  the log, sequences, ids; the active head is changed only under it
 *   state_lock   pointers to heads, the list of blocks, references, caches, statistics
 *   head.lock    a head's tables and samples
 *   hosts.write_lock, hosts.lock  the file of hosts, and the table; by themselves
 */
#ifndef WICK_STORE_STORE_INT_H
#define WICK_STORE_STORE_INT_H

#include <limits.h>
#include <stdatomic.h>

#include "base/cancel.h"
#include "base/thread.h"
#include "store/block/block.h"
#include "store/block/block_scan.h"
#include "store/head/head.h"
#include "store/head/log.h"
#include "store/head/record.h"
#include "store/hosts/host_file.h"
#include "store/ids.h"
#include "store/store_ops.h"

#define STORE_CACHE_MAX		 (96u * 1024 * 1024) /* indexes of blocks kept in memory, unless told otherwise */
#define STORE_RETENTION_EVERY_NS (60ll * 1000000000)
#define STORE_CUT_RETRY_NS	 (2ll * 1000000000)

struct local_store {
	struct store base;
	struct store_options options; /* defaults filled in; directory points to the copy */
	struct store_rule {
		struct series_matcher *series;
		int64_t age_ns;
	} * rules; /* options.rules, compiled */
	size_t rule_count;
	char *directory;
	char log_path[PATH_MAX], blocks_path[PATH_MAX], quarantine_path[PATH_MAX], temporary_path[PATH_MAX],
		trash_path[PATH_MAX];
	int lock_fd;

	/* Appending */
	pthread_mutex_t append_lock;
	pthread_cond_t synced_cond, room_cond;
	struct log_segment log; /* of who is flushing, while somebody is */
	uint64_t sequence;	/* of the last record made */
	uint64_t synced;	/* everything up to it is on disk */
	bool flushing;		/* somebody writes and syncs, without the lock */
	struct append_mark {
		uint64_t offset; /* of the log */
		uint64_t log_bytes, log_records;
		struct delta_mark logged; /* of the head */
	} synced_mark;			  /* as it was when `synced` was made */
	struct append_waiter *waiters;
	struct error failure; /* code != 0: a sync failed, nothing is accepted any more */
	struct id_ring ids;
	struct buffer pending;		   /* records that are not written yet, one behind the other */
	struct buffer writing;		   /* those that are being written */
	struct buffer payload, compressed; /* of the record being made */

	/* State */
	pthread_mutex_t state_lock;
	struct head *head, *frozen; /* head is also only changed under append_lock */
	bool recovered;		    /* frozen is what the log held at the start: it need not be written at once */
	struct block **blocks;	    /* by rising last_sequence */
	size_t block_count, block_capacity;
	struct block **doomed; /* removed from the list, waiting for their last reader */
	size_t doomed_count, doomed_capacity;
	size_t cache_bytes, cache_max;
	uint64_t cache_clock;
	struct store_gap {
		int64_t from_ns, to_ns;
		uint64_t rows; /* that are known to be lost */
		char what[120];
	} * gaps; /* gaps.c */
	size_t gap_count, gap_capacity;
	struct store_stats stats;
	struct error cut_error; /* code != 0: the last cut failed; cleared by one that works */

	/* Labels of hosts */
	struct local_hosts {
		pthread_mutex_t write_lock; /* the file; and only who has it makes changes that are news */
		pthread_rwlock_t lock;	    /* the table, is_stale */
		struct host_table *table;
		struct host_file file;
		bool is_stale; /* the file has earlier times of last profiles than the table */
		int64_t written_ns;
	} hosts;

	/* Cutting */
	pthread_mutex_t cut_lock;
	uint64_t next_segment; /* number of the next log segment */
	int64_t cut_retry_ns;

	/* Compaction, retention, deletion */
	pthread_mutex_t compact_lock, deletion_lock;
	atomic_bool cancel; /* what runs is to end at once */
	int64_t compact_retry_ns, compact_backoff_ns;
	struct error compact_error;   /* code != 0: the last attempt failed; of those who have compact_lock */
	char (*full)[BLOCK_NAME_MAX]; /* blocks that no other fits to, within the memory that there is */
	size_t full_count, full_capacity;

	/* The threads: one cuts, the other compacts and applies retention, so that no cut waits for a merge */
	pthread_t cut_thread, compact_thread;
	pthread_mutex_t wake_lock;
	pthread_cond_t wake_cond, compact_cond;
	bool wake, compact_wake, stop;
};

bool store_is_full(const struct local_store *store); /* with state_lock: an append has to wait for a cut */
extern const struct store_ops local_store_ops;
static inline struct local_store *local_of(struct store *store)
{
	return (struct local_store *)store;
}

/* What store.h and processes.h say of the functions of the same names. */
int local_open(const struct store_options *options, struct local_store **ret, struct error *err);
struct local_store *local_close(struct local_store *store);
int local_append(struct local_store *store, const struct profile *profile, const struct store_append_options *options,
		 struct store_append_result *ret, struct error *err);
int local_merge(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
		struct profile *into, struct store_read_stats *stats, struct error *err);
int local_series(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
		 int64_t step_ns, store_on_point on_point, void *context, struct store_read_stats *stats, struct error *err);
int local_list_types(struct local_store *store, const struct store_select *select, store_on_item on_item, void *context,
		     struct store_read_stats *stats, struct error *err);
int local_list_labels(struct local_store *store, const struct store_select *select, store_on_item on_item, void *context,
		      struct store_read_stats *stats, struct error *err);
int local_list_values(struct local_store *store, const struct store_select *select, const char *label, const char *prefix,
		      store_on_item on_item, void *context, struct store_read_stats *stats, struct error *err);
int local_list_series(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
		      struct store_read_stats *stats, struct error *err);
int local_read_processes(struct local_store *store, const struct store_select *select, const struct store_grouping *grouping,
			 unsigned columns, store_on_process on_row, void *context, struct store_read_stats *stats,
			 struct error *err);
int local_delete(struct local_store *store, const struct series_conditions *series, int64_t from_ns, int64_t to_ns,
		 struct store_delete_result *ret, struct error *err);
void local_get_stats(struct local_store *store, struct store_stats *ret);
int local_cut(struct local_store *store, struct error *err);
int local_compact(struct local_store *store, int64_t now_ns, struct error *err);
int local_apply_retention(struct local_store *store, int64_t now_ns, struct error *err);
int local_list_blocks(struct local_store *store, store_on_block on_block, void *context, struct error *err);
int local_read_block_file(struct local_store *store, const char *block, const char *file, uint64_t offset, size_t bytes_max,
			  struct buffer *ret, struct error *err);
void local_set_cache(struct local_store *store, size_t bytes_max);
int local_note_host(struct local_store *store, const char *host, const struct labels *labels, int64_t time_ns,
		    struct error *err);
int local_read_hosts(struct local_store *store, const char *const *names, size_t name_count, int64_t from_ns, int64_t to_ns,
		     store_on_host on_host, void *context, struct error *err);

/* local_hosts.c */
int local_hosts_open(struct local_store *store, struct error *err);
void local_hosts_close(struct local_store *store, bool keep); /* keep: the disk can be trusted */
void local_hosts_get_stats(struct local_store *store, struct store_stats *ret);
void local_hosts_retain(struct local_store *store, int64_t now_ns);

/* Calls on_problem, counts. */
void store_problem(struct local_store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
void store_wake(struct local_store *store); /* the threads look at once whether there is something to do */

/* append.c. append_lock is held; returns when all records are on disk, or why they are not. */
int store_sync_locked(struct local_store *store, struct error *err);
/* append_lock held, or nobody else there yet: from here on records go to the log and the head as they are now. */
void store_mark_synced(struct local_store *store);
void store_head_unref(struct local_store *store, struct head *head); /* takes state_lock */

/* recover.c: makes the head and the log segment. */
int store_recover_log(struct local_store *store, struct error *err);
/* append_lock held, or nobody else there yet: begins the segment store->log.number, which appends go to. After a failure there
 * is none (store->log.fd < 0). */
int store_begin_log(struct local_store *store, struct error *err);
/* Removes the blocks that others of the list replaced: a crash came before they were gone. */
int store_recover_replaced(struct local_store *store, struct error *err);

/* cut.c */
bool store_wants_cut(struct local_store *store);
int store_empty_directory(const char *path, struct error *err);

/* blocks.c */
int blocks_add(struct local_store *store, struct block *block, struct error *err); /* state_lock held; takes the reference */
/* All blocks, referenced, and the heads. */
struct store_snapshot {
	struct head *heads[2]; /* frozen, active; NULL if not there */
	struct block **blocks;
	size_t block_count;
};
int store_snapshot_take(struct local_store *store, struct store_snapshot *ret, struct error *err);
void store_snapshot_release(struct local_store *store, struct store_snapshot *snapshot);
/* Takes a damaged block out of the store and moves it into the quarantine; says why, once. */
void blocks_set_aside(struct local_store *store, struct block *block, const char *why);
/* Takes the block out of the list; it is deleted when its last reader is done. */
void blocks_remove(struct local_store *store, struct block *block);
/* In one step: takes `old` out of the list, to be deleted when their last readers are done, and puts `fresh` (NULL = nothing)
 * into it. -ESTALE when one of them is not there any more; nothing has happened then. compact_lock held. */
int blocks_replace(struct local_store *store, struct block *const *old, size_t count, struct block *fresh, struct error *err);
/* How many removed blocks are still there, because of readers or because they cannot be removed; the latter are tried again. */
size_t blocks_pending_deletion(struct local_store *store, bool *ret_stuck);
void blocks_unref(struct local_store *store, struct block *block);
/* Deletes what is removed and unused; on return it is gone from disk, whichever thread deleted it. */
void blocks_delete_removed(struct local_store *store);
/* Deletes a directory of blocks/, or what is left of it; a missing one is success. It is renamed into trash/ and that is synced
 * before anything in it goes, so that a crash leaves either a whole block or rubbish that the next start removes. */
int blocks_discard(struct local_store *store, const char *path, const char *name, struct error *err);
/* Opens the block in a directory of tmp/, so that it is read back before it is trusted, and moves it to blocks/. Not listed
 * yet; of what fails nothing is left in blocks/. */
int blocks_move_in(struct local_store *store, const char *temporary, struct block **ret, struct error *err);
void blocks_take_back(struct local_store *store, struct block *block); /* from blocks/: nobody has seen it */
void blocks_free_all(struct local_store *store);
int store_move_aside(struct local_store *store, const char *path, const char *name, char to[PATH_MAX], struct error *err);

/* gaps.c: times of which something is missing. What is read of them is marked partial. */
/* rows: that are known to be lost; 0 = not known */
void gaps_add(struct local_store *store, int64_t from_ns, int64_t to_ns, uint64_t rows, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
/* A part of the log that was written by then. */
void gaps_add_log(struct local_store *store, int64_t written_ns, uint64_t rows, const char *what);
void gaps_add_entry(struct local_store *store, const char *name); /* of the quarantine */
int gaps_load(struct local_store *store, struct error *err);	  /* what is in the quarantine */
void gaps_note(struct local_store *store, int64_t from_ns, int64_t to_ns, struct store_read_stats *stats);

/* damage.c: places of blocks that turned out to be damaged; each is reported once. */
/* Rows that are left out, or with none of them a page index; of a whole file, it is not read any more. */
void damage_note_rows(struct local_store *store, struct block *block, const struct block_lost *lost, const char *why);
/* Of a block that was just opened: the files that it has to do without. */
void damage_note_opened(struct local_store *store, struct block *block);
/* Tables of which rows could not be read: reported once. */
void damage_note_names(struct local_store *store, struct block *block, const struct block_tables *tables);
/* block_hashes_load(), and what is lost of them from the content of stacks. */
int damage_load_hashes(const struct block *block, struct block_hashes **ret, uint64_t *bytes, struct error *err);
/* Flipped bits that were put right while a block was read: reported, once a file. */
void damage_note_corrected(struct local_store *store, struct block *block);
/* Puts them right on disk. */
void damage_heal(struct local_store *store);
/* A file that is not read any more, since others of the block have what it holds. */
void damage_note_file(struct local_store *store, struct block *block, enum block_file file, const char *why);

/* cache.c */
enum block_part { BLOCK_PART_SERIES, BLOCK_PART_TABLES, BLOCK_PART_HASHES, BLOCK_PART_SAMPLES_FOOTER, BLOCK_PARTS };
struct cache_evicted {
	void *parts[BLOCK_PARTS];
};
/* Loads what is not there; counts bytes, hits and misses. Give it back with cache_put(). */
int cache_get(struct local_store *store, struct block *block, enum block_part part, void **ret, struct store_read_stats *stats,
	      struct error *err);
void cache_put(struct local_store *store, enum block_part part, void *item);
bool cache_has(struct local_store *store, const struct block *block, enum block_part part); /* at this moment */
/* Takes what the cache has of a block out of it; state_lock held. To be freed without the lock. */
struct cache_evicted cache_evict(struct local_store *store, struct block *block);
void cache_free_evicted(struct cache_evicted out);

/* compact.c */
#define STORE_COMPACT_EVERY_NS (10ll * 1000000000)
/* Does all merges that are due. compact_lock held. */
int compact_due(struct local_store *store, int64_t now_ns, struct error *err);
/* Opens the new block that is in DATA/tmp/compact, moves it to its place, and puts it in the place of others. */
int compact_publish(struct local_store *store, struct block *const *old, size_t count, struct error *err);
int compact_make_directory(struct local_store *store, char path[PATH_MAX], struct error *err); /* DATA/tmp/compact, empty */
/* What to do with a block that compaction, retention or deletion found malformed: sets it aside if it does not verify, which
 * gives -ESTALE; otherwise leaves it alone from now on, for then this program is at fault, and gives -EINVAL. */
int compact_malformed(struct local_store *store, struct block *block, struct error *err);
void compact_note(struct local_store *store, const struct error *why); /* a failure: counted, said once, tried again later */

/* materialize.c: adds stacks of a block to a profile; ret_ids[i] is the profile's stack for stacks[i]. Ends with
 * MATERIALIZE_FULL when the profile has more than `room` stacks: ids of the others are as they were. */
#define MATERIALIZE_FULL 1
int materialize_stacks(const struct block_tables *tables, const uint32_t *stacks, size_t count, size_t room,
		       struct profile *into, uint32_t *ret_ids, struct error *err);

#endif
