/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool: encoded profiles on their way to one target, first in, first out, on disk.
 *
 * A record is a file of its own from the moment it is pushed until it has been delivered, so what waits survives the end of the
 * process, however it ends (spool_file.h has the layout, and why it is so). It is bounded in bytes and in age: what is beyond
 * goes, the oldest first, and is counted by profiles and samples. Where there is no directory, or the disk is full, records
 * wait in memory within a smaller bound, and what is there at the end is lost, and counted as well.
 *
 * Thread-safe: any thread may push; one thread takes records out.
 */
#ifndef WICK_EXPORT_SPOOL_H
#define WICK_EXPORT_SPOOL_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "export/spool_file.h"

#define SPOOL_BYTES_DEFAULT	   (256 * MIB)
#define SPOOL_MEMORY_BYTES_DEFAULT (8 * MIB)
#define SPOOL_AGE_DEFAULT_NS	   (24 * 3600 * NS_PER_S)
#define SPOOL_RECORDS_MAX	   65536u

struct spool_options {
	const char *directory;	/* made if missing; NULL = in memory only */
	uint64_t bytes_max;	/* of files; 0 = SPOOL_BYTES_DEFAULT */
	uint64_t memory_max;	/* of records in memory; 0 = SPOOL_MEMORY_BYTES_DEFAULT */
	int64_t age_max_ns;	/* 0 = SPOOL_AGE_DEFAULT_NS */
	uint64_t disk_free_min; /* what is left to others; UINT64_MAX = a twentieth of the disk, at most 1 GiB */
	bool sync;		/* a push returns when the record would survive a power failure */
};

enum spool_loss {
	SPOOL_LOST_FULL,    /* made room for newer ones */
	SPOOL_LOST_OLD,	    /* older than age_max_ns */
	SPOOL_LOST_DAMAGED, /* the file was not what had been written; it is set aside */
	SPOOL_LOST_ENDED,   /* in memory when the process ended */
	SPOOL_LOSSES,
};
extern const char *const spool_loss_names[SPOOL_LOSSES]; /* "full" ...: append-only, for metrics */

struct spool_stats {
	uint64_t records, profiles, samples, bytes; /* waiting; bytes of files and in memory */
	uint64_t memory_bytes;			    /* of them in memory */
	struct spool_lost {
		uint64_t records, profiles, samples;
	} lost[SPOOL_LOSSES]; /* since the start */
	uint64_t found;	      /* records that were there at the start */
	uint64_t write_failures;
	char problem[ERROR_MESSAGE_MAX]; /* why records are kept in memory instead of on disk, now; "" = they are not */
	char damage[ERROR_MESSAGE_MAX];	 /* the last damaged file, and what is wrong with it */
};

struct spool;
/* Takes over what the directory holds. -EBUSY when another process has it. */
int spool_new(const struct spool_options *options, struct spool **ret, struct error *err);
struct spool *spool_free(struct spool *spool); /* files stay */
DEFINE_CLEANUP_POINTER(spool_free, struct spool);
/* Adds a record at the end. What lacks room on disk goes to memory; -E2BIG what is larger than either bound, -EPIPE after
 * spool_close(): lost then, and counted. ret_path, if not NULL, becomes the record's file, "" if it has none; `same`, if not
 * NULL, is such a file of another spool with the same contents, which is linked instead of written if that can be. */
int spool_push(struct spool *spool, const struct spool_meta *meta, struct bytes payload, const char *same,
	       char ret_path[SPOOL_PATH_MAX], struct error *err);
/* Counts what never came here as lost for lack of room. */
void spool_lose(struct spool *spool, const struct spool_meta *meta);
/* Waits up to timeout_ns for a record and gives the oldest, its payload appended to *ret: 1; 0 on timeout, or at once when the
 * spool is closed and empty. -ENOMEM: later. The record stays, and is the oldest, until spool_done(). */
int spool_front(struct spool *spool, int64_t timeout_ns, struct spool_meta *ret_meta, struct buffer *ret, struct error *err);
void spool_done(struct spool *spool, bool delivered); /* delivered or given up: it is removed; false: it stays */
void spool_close(struct spool *spool);		      /* no more pushes; wakes the waiter */
bool spool_is_over(struct spool *spool);	      /* closed, and nothing waits in it any more */
/* Drops what waits in memory only, counted: for the end. */
void spool_drop_memory(struct spool *spool);
void spool_get_stats(struct spool *spool, struct spool_stats *ret);

#endif
