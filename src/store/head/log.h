/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write-ahead log: segments of checksummed records in DIRECTORY/NNNNNNNN.log. Essay at the top of log.c.
 *
 * Writing and syncing are apart, so that many appends can share one sync; who may write when is the caller's business.
 */
#ifndef WICK_STORE_HEAD_LOG_H
#define WICK_STORE_HEAD_LOG_H

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

#define LOG_VERSION		1
#define LOG_SEGMENT_HEADER_SIZE 80
#define LOG_RECORD_HEADER_SIZE	40

struct log_segment {
	int fd; /* -1 = none */
	char *path;
	uint64_t number;
	uint64_t salt;	 /* keys the checksums of this segment's records */
	uint64_t offset; /* behind the last good record */
	bool dirty_tail; /* a failed write may have left bytes behind `offset` */
};
#define LOG_SEGMENT_NONE ((struct log_segment){.fd = -1})

/* Makes segment `number`, whose directory entry is on disk when this returns. log_segment_begin() must follow. */
int log_segment_create(const char *directory, uint64_t number, struct log_segment *ret, struct error *err);
/* Writes the header, with the first sequence that the segment will have; not synced. */
int log_segment_begin(struct log_segment *segment, uint64_t first_sequence, struct error *err);
/* Appends a record of the segment to `out`. raw_len is the payload's length before compression, 0 if it is not compressed.
 * -ENOMEM. */
int log_record_put(const struct log_segment *segment, uint64_t sequence, struct bytes payload, size_t raw_len,
		   struct buffer *out, struct error *err);
/* Writes records behind the last one; not synced. After a failure the segment is as before, even if the next call has to see to
 * it first. */
int log_segment_write(struct log_segment *segment, struct bytes records, struct error *err);
int log_segment_sync(struct log_segment *segment, struct error *err);
/* Cuts everything behind `offset` off, if the disk lets us. */
void log_segment_rewind(struct log_segment *segment, uint64_t offset);
void log_segment_close(struct log_segment *segment);
int log_segment_remove(const char *directory, uint64_t number, struct error *err);

/* Compresses a payload with zstd if that pays; *ret_raw_len is then its length, else 0 and `out` stays empty. */
int log_compress(struct bytes payload, struct buffer *out, size_t *ret_raw_len, struct error *err);

/* Something of a segment that is lost. */
struct log_lost {
	int64_t written_ns; /* when the segment was last written to */
	uint64_t bytes;
	uint64_t records;      /* as far as they are known: by sequences that are missing; 0 = not known yet */
	bool is_cut;	       /* the end of the log, inside a record, was cut off; otherwise it was set aside */
	uint64_t record_bytes; /* of a cut end: how long the record would have been; 0 = not even its header was there */
};
struct log_replay {
	const char *directory;
	const char *quarantine; /* where damaged parts are copied to, made if needed; NULL = nowhere */
	uint64_t after;		/* records up to this sequence are skipped */
	bool read_only;		/* only looks: no torn end is cut off, nothing is synced; no quarantine then */
	/* A segment begins, whose first record has this sequence. NULL allowed; an error ends the replay. */
	int (*on_segment)(void *context, uint64_t first_sequence, struct error *err);
	/* payload is decompressed and lives during the call. -EBADMSG means that it is damaged; other errors end the replay. */
	int (*on_record)(void *context, uint64_t sequence, struct bytes payload, struct error *err);
	void (*on_problem)(void *context, const char *message);
	void (*on_lost)(void *context, const struct log_lost *lost); /* NULL allowed */
	void *context;
};
struct log_replay_result {
	uint64_t last_sequence;		      /* the highest of any record or header; at least `after` */
	uint64_t first_segment, next_segment; /* numbers: the oldest there is, and one above the newest */
	uint64_t records, skipped, damaged, bytes;
	/* Lost: records by their sequences, and the bytes of damaged ones. Of the end that is cut off, or, read-only, would be:
	 * its bytes, and how long the record would have been (0 = not known). Flipped bits that were put right in memory. */
	uint64_t lost_records, lost_bytes, cut_bytes, cut_record_bytes, corrected_bits;
};
/* Reads all segments in order. A torn record at the very end, which was never acknowledged, is cut off without a message. One
 * flipped bit of a record costs nothing, but is a problem; what else does not verify is damage. */
int log_replay(const struct log_replay *replay, struct log_replay_result *ret, struct error *err);

/* For the fuzzer and tests: the records of one segment in memory. Returns the number of records, or a negative errno. */
int log_replay_bytes(struct bytes segment, const struct log_replay *replay, struct log_replay_result *ret, struct error *err);

#endif
