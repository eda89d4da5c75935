/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of a log record since version 4: what an append adds to the head. Essay at the top of delta.c.
 *
 * Writing needs no more than the head and how far earlier records have come (struct delta_mark). Reading goes record by record
 * through a segment, in order, with a struct delta_reader that remembers what each number in them stands for.
 */
#ifndef WICK_STORE_HEAD_DELTA_H
#define WICK_STORE_HEAD_DELTA_H

#include "base/buffer.h"
#include "base/error.h"
#include "store/ids.h"

struct head;
struct head_batch;

/* The tables of a head that rows refer to, in the order in which they refer to each other. */
enum delta_table {
	DELTA_STRINGS,
	DELTA_MAPPINGS,
	DELTA_FUNCTIONS,
	DELTA_LOCATIONS,
	DELTA_STACKS,
	DELTA_LINKS,
	DELTA_TYPES,
	DELTA_LABEL_SETS,
	DELTA_SERIES,
	DELTA_NUMBERS,
	DELTA_TABLES,
};
/* Of a payload: what it has. */
#define DELTA_FLAG_ID	   1
#define DELTA_FLAG_LINKS   2
#define DELTA_FLAG_NUMBERS 4
#define DELTA_FLAGS_ALL	   7

/* How far the records of a segment have come: what is below these counts is in the log. */
struct delta_mark {
	uint32_t counts[DELTA_TABLES];
	uint64_t chain; /* hash of all tables of records so far */
};

/* ---- writing ---- */

/* Where a segment begins: nothing but the entries 0 that every head has. */
struct delta_mark delta_start(void);
/* Sets to->counts to all that the head has, or to as much of it as fits in a record of `bytes_max`; false if that is not all.
 * The rest goes into records of their own before the one with rows. */
bool delta_limit(const struct head *head, const struct delta_mark *from, size_t bytes_max, struct delta_mark *to);
/*
 * Appends the payload: the entries between the marks, and the rows of a prepared batch (NULL: none). Sets to->chain. The caller
 * keeps the head from changing. id: of the append, or zeros. -E2BIG past out->max, -ENOMEM.
 */
int delta_encode(const struct head *head, const struct delta_mark *from, struct delta_mark *to, const struct head_batch *batch,
		 const uint8_t id[static STORE_ID_SIZE], struct buffer *out, struct error *err);

/* ---- reading ---- */

#define DELTA_VERSION 4
/* The version of a payload; 0 if there is none. */
uint64_t delta_version(struct bytes payload);

/* From numbers of a segment to ids of the head. Those that are known lie one behind the other; a run begins where numbers are
 * missing. */
struct delta_ids {
	uint32_t *ids; /* DELTA_LOST: it refers to something that is missing */
	size_t count, capacity;
	struct delta_run {
		uint32_t number;
		size_t at; /* in ids */
	} * runs;
	size_t run_count, run_capacity;
	uint32_t next; /* number */
};
#define DELTA_LOST UINT32_MAX

struct delta_reader {
	struct head *head; /* the caller's: what is read is added to it */
	struct delta_ids tables[DELTA_TABLES];
	uint64_t *mapping_starts; /* beside the ids of mappings: as they were when the records were written */
	size_t mapping_start_capacity;
	uint64_t sequence, chain; /* of the last record */
	uint64_t lost_rows;	  /* of records that refer to what is lost; the caller resets it */
	uint8_t id[STORE_ID_SIZE];
};
void delta_reader_init(struct delta_reader *reader, struct head *head);
void delta_reader_release(struct delta_reader *reader);
/* A segment begins; `first_sequence` is that of its first record. -ENOMEM. */
int delta_reader_begin(struct delta_reader *reader, uint64_t first_sequence, struct error *err);
/* Adds what a record holds to the head: all of its rows, or none if one of them refers to what is lost. reader->id is then the
 * id of the append, or zeros. -EBADMSG when it is malformed or
 * does not follow the records before it: the head is as before but for entries that no row refers to. -ENOTSUP for a newer
 * version, -ENOMEM. */
int delta_read(struct delta_reader *reader, uint64_t sequence, struct bytes payload, struct error *err);

#endif
